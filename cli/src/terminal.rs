//! Questions of hosts, asked on the terminal.

use std::io::{IsTerminal, Write};

use adapters::transport::{Asker, Prompt};

use crate::show;

/// Whoever sits at this process's terminal, if it has one. In the background nobody does.
#[derive(Debug)]
pub struct Terminal {
    /// Whether programs that are started may ask there, too: not where that would hold up others.
    pub is_lent: bool,
}

/// Whether this process may read its terminal, and is seen there.
pub fn is_at_terminal() -> bool {
    let is_in_foreground =
        || nix::unistd::tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == nix::unistd::getpgrp());
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && is_in_foreground()
}

impl Asker for Terminal {
    fn ask(&self, host: &str, text: &str, prompts: &[Prompt]) -> Option<Vec<String>> {
        if !is_at_terminal() {
            return None;
        }
        show::say(&format!("{host} asks"));
        if !text.trim().is_empty() {
            show::say(text.trim());
        }
        prompts.iter().map(answer).collect()
    }

    fn lends_terminal(&self) -> bool {
        self.is_lent && is_at_terminal()
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
