//! Runs commands as processes of this host.

use std::{
    ffi::OsStr,
    future::pending,
    io,
    os::fd::{FromRawFd, OwnedFd},
    pin::pin,
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use nix::libc;
use tokio::{
    io::{AsyncWriteExt, Interest, unix::AsyncFd},
    process::Child,
};

use super::{
    Transport, TransportError,
    heard::{Heard, SILENCE},
    running::{COMMANDS, MARK, Running},
};
use crate::command::{Command, Output};

/// This host.
pub struct LocalShell;

/// This host, with the variables only that [`goes_to_local_pilots`] names: those who started the manager may have any others, and
/// tasks must have the same whoever that was.
pub struct LocalPilots;

/// Names of variables that are of a host and its user, or of the batch job that this process is in.
const OF_PLACE: [&str; 36] = [
    "ALL_PROXY",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "HOME",
    "HOSTNAME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "JOB_ID",
    "LANG",
    "JULIA_DEPOT_PATH",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOADEDMODULES",
    "LOGNAME",
    "MODULEPATH",
    "NETRC",
    "NO_PROXY",
    "PATH",
    "PERL5LIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "ROCR_VISIBLE_DEVICES",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "ZE_AFFINITY_MASK",
];
/// Beginnings of such names.
const OF_PLACE_PREFIXES: [&str; 10] =
    ["LC_", "LMOD_", "LOADL_", "LSB_", "PBS_", "PILOTFISH_", "R_LIBS", "SGE_", "SLURM_", "XDG_"];

/// Returns once a process of this host has ended, which need not be our child; at once if there is none.
///
/// # Errors
/// The kernel has no way to wait for it.
pub async fn process_end(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: no memory is passed.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let Some(opened) = i32::try_from(opened).ok().filter(|opened| *opened >= 0) else {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) };
    };
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    let process = unsafe { OwnedFd::from_raw_fd(opened) };
    // SAFETY: it owns the descriptor, which stays open for as long as it is there.
    let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE)? };
    process.readable().await.map(drop)
}

/// Whether pilots that are processes of this host have this variable of the manager's.
pub fn goes_to_local_pilots(name: &str) -> bool {
    // Proxies are written in small letters, too.
    OF_PLACE.contains(&name)
        || (name.ends_with("_proxy") && OF_PLACE.contains(&name.to_ascii_uppercase().as_str()))
        || OF_PLACE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_of_place(name: &OsStr) -> bool {
    name.to_str().is_some_and(goes_to_local_pilots)
}

#[async_trait]
impl Transport for LocalPilots {
    async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        run(command, is_of_place, None).await
    }
}

#[async_trait]
impl Transport for LocalShell {
    async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        run(command, |_| true, Some(mark())).await
    }
}

/// A value of [`MARK`] that no other command of this host has.
pub(super) fn mark() -> String {
    static N_COMMANDS: AtomicU64 = AtomicU64::new(0);
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{}", std::process::id(), N_COMMANDS.fetch_add(1, Ordering::Relaxed), began.as_nanos())
}

/// Runs a command with those variables of this process of which `has` says so, and with a mark. Pilots have none, as
/// they outlive the command that starts them.
async fn run(
    command: &Command,
    has: fn(&OsStr) -> bool,
    mark: Option<String>,
) -> Result<Output, TransportError> {
    run_in(".", command, has, mark).await
}

/// The same in a folder.
pub(super) async fn run_in(
    folder: &str,
    command: &Command,
    has: fn(&OsStr) -> bool,
    mark: Option<String>,
) -> Result<Output, TransportError> {
    let (program, arguments) = command.argv.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    let mut process = tokio::process::Command::new(program);
    process
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| has(name)))
        .envs(mark.iter().map(|mark| (MARK, mark)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let name = &command.name;
    // Without a mark it starts pilots, which may need what it leaves in the background.
    let leaves_nothing = mark.is_some();
    let started = COMMANDS.start(&mut process, mark);
    // It is dropped before the child.
    let (mut child, running) = started.map_err(|source| {
        // What is missing is the program that runs it.
        let command = if name.starts_with(program) { name.clone() } else { format!("{program} for {name}") };
        TransportError::NotStarted { command, source }
    })?;
    let talk = async {
        // Whoever writes without end ends it: the child is killed when this is dropped.
        let rest = Some(&running).filter(|_| leaves_nothing);
        let (stdout, stderr) = hear(&mut child, &command.stdin, rest, SILENCE).await?;
        Ok((running.end(&mut child).await?.code(), stdout, stderr))
    };
    let (code, stdout, stderr) = tokio::time::timeout(command.time_limit, talk)
        .await
        .map_err(|_| TransportError::TimedOut { command: name.clone(), limit: command.time_limit })?
        .map_err(|source: io::Error| match source.kind() {
            io::ErrorKind::FileTooLarge => TransportError::TooMuch { command: name.clone() },
            _ => TransportError::Broken { command: name.clone(), source },
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Output { code, stdout: text(&stdout), stderr: text(&stderr) })
}

/// Gives a command its input and gives what it writes, until nobody has its output open any more. One that has ended and
/// after which nothing was written for the time of `silence` is over, too; what it has left in the background, perhaps for
/// ever, is ended if it is `rest`.
async fn hear(
    child: &mut Child,
    input: &[u8],
    rest: Option<&Running>,
    silence: Duration,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let stdin = child.stdin.take();
    let mut say = pin!(async {
        if let Some(mut stdin) = stdin {
            // A child that does not read its input says so by its exit code.
            let _ = stdin.write_all(input).await;
        }
    });
    let pid = child.id();
    let mut end = pin!(async {
        match pid {
            Some(pid) if process_end(pid).await.is_ok() => {}
            // The kernel does not tell.
            Some(_) | None => pending().await,
        }
    });
    let (mut stdout, mut stderr) = (Heard::by(child.stdout.take()), Heard::by(child.stderr.take()));
    let (mut is_said, mut has_ended) = (false, false);
    while !(is_said && stdout.is_over() && stderr.is_over()) {
        tokio::select! {
            // What was written already is read before the silence counts.
            biased;
            () = &mut say, if !is_said => is_said = true,
            more = stdout.more(), if !stdout.is_over() => more?,
            more = stderr.more(), if !stderr.is_over() => more?,
            () = &mut end, if !has_ended => has_ended = true,
            () = tokio::time::sleep(silence), if has_ended => {
                rest.into_iter().for_each(Running::kill);
                break;
            }
        }
    }
    Ok((stdout.bytes, stderr.bytes))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sh(line: &str, time_limit: Duration) -> Command {
        let argv = vec!["sh".into(), "-c".into(), line.into()];
        Command { name: "squeue (listing jobs)".into(), argv, stdin: b"hello".to_vec(), time_limit }
    }

    #[tokio::test]
    async fn pilots_have_the_variables_of_their_host_and_no_others() {
        let names = async |transport: &dyn Transport| -> Vec<String> {
            let output = transport.run(&sh("env -0 | tr '\\n\\0' ' \\n'", Duration::from_secs(60))).await;
            let text = output.map(|output| output.stdout).unwrap_or_default();
            text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
        };
        // Cargo sets many for tests.
        let (all, few) = (names(&LocalShell).await, names(&LocalPilots).await);
        assert!(all.iter().any(|name| name.starts_with("CARGO")), "{all:?}");
        assert!(few.iter().any(|name| name == "PATH"), "{few:?}");
        let of_shell = ["PWD", "OLDPWD", "SHLVL", "_"];
        let others: Vec<&String> = few
            .iter()
            .filter(|name| !of_shell.contains(&name.as_str()) && !is_of_place(OsStr::new(name)))
            .collect();
        assert_eq!(others, [""; 0]);
        for (name, expected) in [
            ("LC_ALL", true),
            ("https_proxy", true),
            ("path", false),
            ("SLURM_JOB_ID", true),
            ("GITHUB_TOKEN", false),
            ("PYTHONPATH", true),
            ("R_LIBS_USER", true),
            ("CARGO_HOME", false),
            ("SSH_AUTH_SOCK", false),
        ] {
            assert_eq!(is_of_place(OsStr::new(name)), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn a_command_gets_its_input_and_gives_its_output() {
        let output = LocalShell.run(&sh("cat; echo oops >&2; exit 3", Duration::from_secs(60))).await.ok();
        let expected = Output { code: Some(3), stdout: "hello".into(), stderr: "oops\n".into() };
        assert_eq!(output, Some(expected));
    }

    #[tokio::test]
    async fn a_command_that_writes_without_end_is_ended_and_has_an_unknown_outcome() {
        for pipe in ["", ">&2"] {
            let line = format!("exec cat /dev/zero {pipe}");
            let result = LocalShell.run(&sh(&line, Duration::from_secs(600))).await;
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.starts_with("squeue (listing jobs) wrote more than"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_answer_counts_although_what_is_left_in_the_background_keeps_the_output_open() {
        for leaves_nothing in [true, false] {
            let mut process = tokio::process::Command::new("sh");
            process.args(["-c", "cat; sleep 1000 & echo $!; exit 3"]);
            process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let (mut child, running) = COMMANDS.start(&mut process, Some(mark())).expect("it starts");
            let rest = Some(&running).filter(|_| leaves_nothing);
            let heard = hear(&mut child, b"answer ", rest, Duration::from_millis(10)).await;
            assert_eq!(running.end(&mut child).await.ok().and_then(|status| status.code()), Some(3));
            let stdout = heard.map(|(stdout, _)| String::from_utf8_lossy(&stdout).into_owned());
            let stdout = stdout.expect("what it wrote");
            let pid = stdout.strip_prefix("answer ").expect("all of it").trim();
            if !leaves_nothing {
                assert!(runs(pid), "it may be of use to a pilot");
                let pid = nix::unistd::Pid::from_raw(pid.parse().expect("a number"));
                nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("it is there");
            }
            while runs(pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_has_an_unknown_outcome() {
        let result = LocalShell.run(&sh("exec sleep 1000", Duration::from_millis(50))).await;
        let error = result.expect_err("it hangs");
        assert!(matches!(error, TransportError::TimedOut { .. }), "{error}");
        let told = "squeue (listing jobs) gave no answer in 50ms: its outcome is unknown";
        assert_eq!(error.to_string(), told, "no shell of ours is named");
    }

    /// Whether a process of that number is there and no zombie.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }

    #[tokio::test]
    async fn a_command_that_is_given_up_leaves_no_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pids");
        let pids = || std::fs::read_to_string(&file).unwrap_or_default();
        // A shell, one in `$(…)`, and what that runs.
        // Then a wrapper with a process group of its own, as `timeout` makes it, and one with a session of its own, of
        // which both outlive who has started them.
        let line = format!(
            "echo $$ > {0}; (setsid sh -c 'echo $$ >> {0}; exec sleep 1000' &) ; \
             timeout 1000 sh -c 'echo $$ >> {0}; sleep 1000; :' & \
             x=$(sh -c 'echo $$ >> {0}; sleep 1000 & echo $! >> {0}; wait'); echo $x",
            file.display()
        );
        let command = sh(&line, Duration::from_secs(600));
        let hangs = LocalShell.run(&command);
        let are_there = async {
            while pids().lines().count() < 5 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            result = hangs => panic!("{result:?}"),
            () = are_there => {}
        }
        let begun = pids();
        for pid in begun.lines() {
            while runs(pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    #[tokio::test]
    async fn end_of_a_process_is_noticed() {
        let mut process = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
        let mut end = std::pin::pin!(process_end(process.id()));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut end).await.is_err(), "it is there");
        drop(process.stdin.take());
        end.await.expect("the kernel can");
        process.wait().expect("it has ended");
        process_end(process.id()).await.expect("there is none any more");
        assert!(process_end(0).await.is_err(), "no process has this number");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_was_never_started() {
        let command = Command { argv: vec!["/no/such/program".into()], ..sh("", Duration::from_secs(1)) };
        let error = LocalShell.run(&command).await.expect_err("it is not there");
        assert!(matches!(error, TransportError::NotStarted { .. }), "{error}");
        let told = "failed to start /no/such/program for squeue (listing jobs): ";
        assert!(error.to_string().starts_with(told), "{error}");
    }
}
