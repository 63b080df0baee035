//! What login shells make of our command line.

use std::{io::Write, process::Stdio, time::Duration};

use super::*;
use crate::testing::login_shells;

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
    // One that refuses at once may end before it reads.
    let _ = child.stdin.take().expect("its input").write_all(&command.stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| after_mark(String::from_utf8_lossy(bytes).into_owned());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_login_shell_gives_the_words_on_as_they_are() {
    let argv = ["sh", "-c", "for word; do printf '<%s>' \"$word\"; done\ncat\nexit 7", "sh"];
    let command = Command {
        name: "sh".to_owned(),
        argv: argv.into_iter().chain(WORDS).map(str::to_owned).collect(),
        stdin: b"read".to_vec(),
        time_limit: Duration::from_secs(60),
    };
    let expected: String = WORDS.iter().map(|word| format!("<{word}>")).collect();
    for shell in login_shells() {
        let said = said_by(shell, &command);
        assert_eq!(said, (Some(7), format!("{expected}read"), String::new()), "{shell}");
    }
}

#[test]
fn a_shell_kills_all_that_it_started_but_no_other_process() {
    use std::os::unix::process::CommandExt;
    let command = Command {
        name: "sh".to_owned(),
        // It ends with the code of `timeout` at the limit. Its children are in another process group and in another
        // session.
        argv: [
            "sh",
            "-c",
            "for how in 'timeout 1000' setsid; do $how sh -c 'echo $$; exec sleep 1000' & done; read -r line; exit 124",
        ]
        .map(str::to_owned)
        .to_vec(),
        stdin: Vec::new(),
        time_limit: Duration::from_secs(60),
    };
    let runs = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    };
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().expect("a program");
    for is_leader in [true, false] {
        let mut process = std::process::Command::new("/bin/sh");
        process.arg("-c").arg(shell_line(&command));
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        if is_leader {
            // SAFETY: setsid is safe between fork and exec, and touches no memory of ours.
            unsafe {
                process.pre_exec(|| nix::unistd::setsid().map(drop).map_err(std::io::Error::from));
            }
        }
        let mut child = process.spawn().expect("a shell");
        let lines =
            std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("its output")));
        let pids: Vec<String> = lines.map_while(Result::ok).filter(|line| line != MARK).take(2).collect();
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(124));
        let since = std::time::Instant::now();
        while pids.iter().any(|pid| runs(pid)) {
            assert!(since.elapsed() < Duration::from_secs(60), "{pids:?}: not all are killed");
            std::thread::yield_now();
        }
        // A shell that leads no session, as below a forced command, kills nobody else of the one that it is in.
        assert!(pids.len() == 2 && runs(&bystander.id().to_string()));
    }
    bystander.kill().expect("it is there");
    bystander.wait().expect("it ends");
}

#[test]
fn codes_of_what_a_signal_killed_are_none() {
    for (code, expected) in [(0, Some(0)), (124, Some(124)), (128, Some(128)), (137, None), (255, Some(255))]
    {
        assert_eq!(code_of_shell(code), expected, "{code}");
    }
}
