//! Questions of hosts, asked on the terminal.

use std::{
    io::{IsTerminal, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use adapters::transport::{Asker, Prompt};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};

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

    fn interrupt(&self) {
        IS_INTERRUPTED.store(true, Ordering::Relaxed);
    }
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether a person has pressed Ctrl-C while a program that this process had started asked at the terminal. That program
/// gets the signal then, and this process none.
pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// How the terminal was before somebody was asked for what must not be seen.
static WAS: Mutex<Option<Termios>> = Mutex::new(None);

/// Shows again what is typed, where this process ends while it asks.
pub fn restore() {
    if let Some(was) = WAS.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Where there is no terminal any more nobody wants it.
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSADRAIN, &was);
    }
}

fn answer(prompt: &Prompt) -> Option<String> {
    // Hosts may write what they like: no control characters.
    let text: String = prompt.text.chars().filter(|c| !c.is_control()).collect();
    if prompt.is_secret {
        *WAS.lock().unwrap_or_else(PoisonError::into_inner) = tcgetattr(std::io::stdin()).ok();
        let answer = rpassword::prompt_password(text).ok();
        *WAS.lock().unwrap_or_else(PoisonError::into_inner) = None;
        return answer;
    }
    write!(std::io::stderr(), "{text}").ok()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).ok()?;
    Some(line.trim_end_matches(['\r', '\n']).to_owned())
}
