//! What login shells make of our command line.

use std::{io::Write, path::Path, process::Stdio, time::Duration};

use super::*;

/// Words with everything that some shell takes for something.
const WORDS: [&str; 9] = [
    "plain",
    "",
    "two\nlines and !!\n",
    "it's \"quoted\"",
    r"\0 \n \\ %s",
    "$HOME `id` $(id) ${a}",
    "* ? [a] {b,c} ~ # ;&|<>",
    "ä € 日本",
    "-e\t--",
];

fn said_by(shell: &str, command: &Command) -> (Option<i32>, String, String) {
    let mut process = std::process::Command::new(shell);
    process.arg("-c").arg(shell_line(command));
    process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn().expect("a shell");
    child.stdin.take().expect("its input").write_all(&command.stdin).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| after_mark(String::from_utf8_lossy(bytes).into_owned());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_login_shell_gives_the_words_on_as_they_are() {
    let argv = ["sh", "-c", "for word; do printf '<%s>' \"$word\"; done\ncat\nexit 7", "sh"];
    let command = Command {
        argv: argv.into_iter().chain(WORDS).map(str::to_owned).collect(),
        stdin: b"read".to_vec(),
        time_limit: Duration::from_secs(60),
    };
    let expected: String = WORDS.iter().map(|word| format!("<{word}>")).collect();
    let shells = ["/bin/sh", "/bin/bash", "/bin/dash", "/bin/csh", "/bin/tcsh", "/bin/zsh", "/bin/ksh"];
    for shell in shells.into_iter().filter(|shell| Path::new(shell).exists()) {
        let said = said_by(shell, &command);
        assert_eq!(said, (Some(7), format!("{expected}read"), String::new()), "{shell}");
    }
}
