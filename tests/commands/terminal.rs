//! A terminal of a given width, on which commands run.

use std::{fs::File, io::Read, os::fd::OwnedFd, process::Stdio};

use nix::pty::{Winsize, openpty};
use tests::Sandbox;

/// What a command wrote to a terminal of so many columns.
pub struct Shown {
    /// All of it, with line feeds alone at the ends of lines.
    pub text: String,
    /// Its exit code.
    pub code: Option<i32>,
}

/// Runs `pilotfish` on a terminal of its own.
pub fn on_terminal(sandbox: &Sandbox, columns: u16, arguments: &[&str]) -> Shown {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let pair = openpty(Some(&size), None).expect("a terminal");
    let another = |end: &OwnedFd| Stdio::from(end.try_clone().expect("the terminal has another end"));
    let mut command = sandbox.command(arguments);
    command
        .env("TERM", "xterm")
        .env_remove("COLUMNS")
        .stdout(another(&pair.slave))
        .stderr(another(&pair.slave));
    let mut child = command.spawn().expect("pilotfish runs");
    // The command and this process must not hold it open any more.
    drop((command, pair.slave));
    let mut terminal = File::from(pair.master);
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    // The end of a terminal that nobody has open is an error.
    while let Ok(n @ 1..) = terminal.read(&mut piece) {
        bytes.extend_from_slice(&piece[..n]);
    }
    let code = child.wait().expect("it can be waited for").code();
    Shown { text: String::from_utf8_lossy(&bytes).replace("\r\n", "\n"), code }
}
