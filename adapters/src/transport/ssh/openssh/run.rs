//! A command through a master. It begins only when we have heard that its shell is there and have said so: before that
//! it is certain that nothing was done.

use std::{
    io,
    pin::pin,
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncWriteExt},
    process::ChildStdin,
    sync::oneshot,
};

use super::verdict;
use crate::{
    command::{Command, Output},
    script::quoted,
    transport::{
        TransportError,
        heard::{Heard, SILENCE},
        running::COMMANDS,
        ssh::{MARK, after_mark, at_host, code_of_shell, in_octal, instead, within_limit},
    },
};

/// Printed on standard error after a command, with its exit code.
const END: &str = "--pilotfish-end-- ";
/// With which `ssh` ends when the connection is at fault, and not what the host ran.
const CODE_OF_SSH: i32 = 255;
/// What the shell there waits for.
const GO: &[u8] = b"go\n";

/// What a command came to.
pub(super) enum Ran {
    Ended(Output),
    /// It was not begun: why.
    NotBegun(String),
    /// It was begun, or cannot be.
    Failed(TransportError),
}

/// Runs a command on a host; `words`: what `ssh` is told before it.
pub(super) async fn run(words: &[String], command: &Command, host: &str, until: Instant) -> Ran {
    let name = || at_host(command, host);
    let mut ssh = tokio::process::Command::new("ssh");
    ssh.args(words).arg(shell_line(command));
    ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // It is dropped before the child.
    let (mut child, running) = match COMMANDS.start(&mut ssh, None) {
        Ok(started) => started,
        Err(source) => {
            return Ran::Failed(TransportError::NotStarted {
                command: format!("ssh for {}", name()),
                source,
            });
        }
    };
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Ran::NotBegun("ssh has no pipes".to_owned());
    };
    let is_begun = AtomicBool::new(false);
    let all = async {
        let heard = hear((stdin, stdout, stderr), &command.stdin, &is_begun, SILENCE).await?;
        let [stdout, stderr] = heard.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if stderr.contains(END) {
            // It may wait for what is left in the background there.
            running.kill();
        }
        io::Result::Ok((stdout, stderr, running.end(&mut child).await))
    };
    let ended = tokio::time::timeout_at(until.into(), all).await;
    let is_begun = || is_begun.load(Ordering::Relaxed);
    match ended {
        Ok(Ok((stdout, stderr, status))) => match stderr.rsplit_once(END) {
            Some((words, code)) if is_begun() => Ran::Ended(Output {
                code: code.lines().next().and_then(|code| exit_code(code.trim())),
                stdout: after_mark(stdout),
                stderr: after_mark(words.to_owned()),
            }),
            _ if is_begun() => {
                let source = io::Error::other(verdict::words(&after_mark(stderr)));
                Ran::Failed(TransportError::Broken { command: name(), source })
            }
            _ => Ran::NotBegun(why_not_begun(&stdout, &stderr, status.ok().and_then(|status| status.code()))),
        },
        Ok(Err(_)) => Ran::Failed(TransportError::TooMuch { command: name() }),
        Err(_) if is_begun() => {
            Ran::Failed(TransportError::TimedOut { command: name(), limit: command.time_limit })
        }
        Err(_) => Ran::Failed(TransportError::NotStarted {
            command: name(),
            source: io::ErrorKind::TimedOut.into(),
        }),
    }
}

/// Why a command did not begin. What a host runs in its place may speak on standard output only.
fn why_not_begun(stdout: &str, stderr: &str, code: Option<i32>) -> String {
    let words = verdict::words_if_any(stderr).or_else(|| verdict::words_if_any(stdout));
    let is_of_ssh = code.is_none_or(|code| code == CODE_OF_SSH);
    match words {
        Some(words) if is_of_ssh => words,
        Some(words) => instead(&words),
        None if is_of_ssh => verdict::words(""),
        None => instead("it ended at once"),
    }
}

fn exit_code(code: &str) -> Option<i32> {
    code.parse().ok().and_then(code_of_shell)
}

/// Has a command begin when its shell is there, gives it its input, and gives what it writes to standard output and error,
/// until nobody there has them open any more, or it has ended and nothing was written for the time of `silence`.
///
/// # Errors
/// It is too much.
async fn hear(
    (stdin, stdout, stderr): (ChildStdin, impl AsyncRead + Unpin, impl AsyncRead + Unpin),
    input: &[u8],
    is_begun: &AtomicBool,
    silence: Duration,
) -> io::Result<[Vec<u8>; 2]> {
    let (marked, is_marked) = oneshot::channel();
    let mut marked = Some(marked);
    let mut write = pin!(write(stdin, is_marked, input, is_begun));
    let (mut stdout, mut stderr) = (Heard::by(Some(stdout)), Heard::by(Some(stderr)));
    let (mut is_written, mut has_ended) = (false, false);
    let mark = format!("{MARK}\n");
    while !(stdout.is_over() && stderr.is_over()) {
        tokio::select! {
            // What was written already is read before the silence counts.
            biased;
            () = &mut write, if !is_written => is_written = true,
            is_there = stdout.more_with(marked.as_ref().map(|_| mark.as_bytes())), if !stdout.is_over() => {
                if is_there? {
                    // The writer may be gone.
                    marked.take().map(|marked| marked.send(()));
                }
            }
            is_end = stderr.more_with(Some(END.as_bytes())), if !stderr.is_over() => has_ended |= is_end?,
            () = tokio::time::sleep(silence), if has_ended => break,
        }
    }
    Ok([stdout.bytes, stderr.bytes])
}

/// Lets the command begin, and gives it its input.
async fn write(mut stdin: ChildStdin, mark: oneshot::Receiver<()>, input: &[u8], is_begun: &AtomicBool) {
    if mark.await.is_err() {
        return;
    }
    is_begun.store(true, Ordering::Relaxed);
    // Who reads no input, or has ended, says so by other means.
    let _ = stdin.write_all(GO).await;
    let _ = stdin.write_all(input).await;
    let _ = stdin.shutdown().await;
}

/// The command for a login shell of any kind, as one line of words in single quotes: a shell that says that it is
/// there, waits for our word, runs the command within its limit and says how it ended.
fn shell_line(command: &Command) -> String {
    let run = within_limit(command);
    let begin = format!(
        "eval \"set -- $(printf %b \"$1\")\"; echo {MARK}; echo {MARK} >&2; read -r go || exit; \
         {run}; echo \"{END}$code\" >&2"
    );
    let words = command.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!("exec /bin/sh -c {} sh {}", quoted(&begin), quoted(&in_octal(&words)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::testing::login_shells;

    #[test]
    fn every_login_shell_waits_for_the_word_and_tells_the_end() {
        let words = ["it's \"quoted\"", "two\nlines and !!\n", "$HOME `id`", "\\0 \\n %s", ""];
        let argv =
            ["sh", "-c", "for word; do printf '<%s>' \"$word\"; done; cat; printf err >&2; exit 7", "sh"];
        let command = Command {
            name: "sh".to_owned(),
            argv: argv.into_iter().chain(words).map(str::to_owned).collect(),
            stdin: Vec::new(),
            time_limit: Duration::from_secs(60),
        };
        let line = shell_line(&command);
        for shell in login_shells() {
            let said = |input: &[u8]| {
                let mut process = std::process::Command::new(shell);
                process.arg("-c").arg(&line);
                process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = process.spawn().expect("a shell");
                child.stdin.take().expect("its input").write_all(input).expect("it reads");
                let output = child.wait_with_output().expect("it ends");
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            };
            let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
            let went = [format!("{MARK}\n{expected}input"), format!("{MARK}\nerr{END}7\n")];
            assert_eq!(said(b"go\ninput"), went, "{shell}");
            assert_eq!(said(b""), [format!("{MARK}\n"), format!("{MARK}\n")], "{shell}: nothing is done");
        }
    }

    #[tokio::test]
    async fn an_answer_counts_although_what_is_left_in_the_background_keeps_the_output_open() {
        let lines = "cat; sleep 1000 & echo $!; exit 7";
        let command = Command::shell("squeue (listing jobs)", lines, [], Vec::new(), Duration::from_secs(60));
        let mut process = tokio::process::Command::new("/bin/sh");
        process.arg("-c").arg(shell_line(&command));
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process.spawn().expect("a shell");
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { panic!("it has pipes") };
        let is_begun = AtomicBool::new(false);
        let heard = hear((stdin, stdout, stderr), b"answer ", &is_begun, Duration::from_millis(10)).await;
        let [stdout, stderr] =
            heard.expect("it is little").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(is_begun.into_inner() && stderr.ends_with(&format!("{END}7\n")), "{stderr}");
        let pid = after_mark(stdout).strip_prefix("answer ").map(str::trim).map(str::parse);
        let pid = nix::unistd::Pid::from_raw(pid.expect("all of it").expect("a number"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it is there");
        child.wait().await.expect("it has ended");
    }

    #[test]
    fn a_host_that_runs_something_else_is_heard() {
        let hint = "the host ran no command of ours: see `ForceCommand`";
        let sftp = why_not_begun("This service allows sftp connections only.\n", "", Some(1));
        assert!(sftp.starts_with(&format!("This service allows sftp connections only; {hint}")), "{sftp}");
        let shell = why_not_begun("This account is currently not available.\n", "", Some(1));
        assert!(shell.starts_with(&format!("This account is currently not available; {hint}")), "{shell}");
        let silent = why_not_begun("", "\n", Some(1));
        assert!(silent.starts_with(&format!("it ended at once; {hint}")), "{silent}");
        let refused = "mux_client_request_session: session request failed: Session open refused by peer";
        assert_eq!(why_not_begun("", &format!("{refused}\r\n"), Some(255)), refused);
        assert_eq!(why_not_begun("", "", Some(255)), "ssh ended without a word");
    }

    #[test]
    fn codes_of_what_was_killed_are_no_codes() {
        for (code, expected) in
            [("0", Some(0)), ("7", Some(7)), ("127", Some(127)), ("137", None), ("255", Some(255))]
        {
            assert_eq!(exit_code(code), expected, "{code}");
        }
    }
}
