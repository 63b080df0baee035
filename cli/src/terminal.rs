//! Questions of hosts, asked on the terminal.

use std::io::{IsTerminal, Write};

use adapters::transport::{Asker, Prompt};

use crate::show;

/// Whoever sits at this process's terminal, if it has one.
#[derive(Debug)]
pub struct Terminal;

impl Asker for Terminal {
    fn ask(&self, host: &str, text: &str, prompts: &[Prompt]) -> Option<Vec<String>> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        show::say(&format!("{host} asks"));
        if !text.trim().is_empty() {
            show::say(text.trim());
        }
        prompts.iter().map(answer).collect()
    }
}

fn answer(prompt: &Prompt) -> Option<String> {
    // Hosts may write what they like: no control characters.
    let text: String = prompt.text.chars().filter(|c| !c.is_control()).collect();
    if prompt.is_secret {
        return rpassword::prompt_password(text).ok();
    }
    write!(std::io::stderr(), "{text}").ok()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok()?;
    Some(line.trim_end_matches(['\r', '\n']).to_owned())
}
