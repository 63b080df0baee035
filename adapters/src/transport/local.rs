//! Runs commands as processes of this host.

use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::AsyncWriteExt;

use super::{Transport, TransportError};
use crate::command::{Command, Output};

/// This host.
pub struct LocalShell;

#[async_trait]
impl Transport for LocalShell {
    async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        let (program, arguments) = command.argv.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let mut child = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| TransportError::NotStarted { program: program.to_owned(), source })?;
        let stdin = child.stdin.take();
        let talk = async {
            if let Some(mut stdin) = stdin {
                // A child that does not read its input says so by its exit code.
                let _ = stdin.write_all(&command.stdin).await;
            }
            child.wait_with_output().await
        };
        let output = tokio::time::timeout(command.time_limit, talk)
            .await
            .map_err(|_| TransportError::TimedOut { program: program.to_owned(), limit: command.time_limit })?
            .map_err(|source| TransportError::Broken { program: program.to_owned(), source })?;
        Ok(Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sh(line: &str, time_limit: Duration) -> Command {
        Command { argv: vec!["sh".into(), "-c".into(), line.into()], stdin: b"hello".to_vec(), time_limit }
    }

    #[tokio::test]
    async fn a_command_gets_its_input_and_gives_its_output() {
        let output = LocalShell.run(&sh("cat; echo oops >&2; exit 3", Duration::from_secs(60))).await.ok();
        let expected = Output { code: Some(3), stdout: "hello".into(), stderr: "oops\n".into() };
        assert_eq!(output, Some(expected));
    }

    #[tokio::test]
    async fn a_command_that_hangs_has_an_unknown_outcome() {
        let result = LocalShell.run(&sh("exec sleep 1000", Duration::from_millis(50))).await;
        assert!(matches!(result, Err(TransportError::TimedOut { .. })));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_was_never_started() {
        let command = Command { argv: vec!["/no/such/program".into()], ..sh("", Duration::from_secs(1)) };
        assert!(matches!(LocalShell.run(&command).await, Err(TransportError::NotStarted { .. })));
    }
}
