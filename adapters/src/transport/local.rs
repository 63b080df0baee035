//! Runs commands as processes of this host.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    io,
    os::fd::{FromRawFd, OwnedFd},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use nix::{
    libc,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest, unix::AsyncFd};

use super::{OUTPUT_BYTES_MAX, Transport, TransportError};
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

/// Has a value of its own in each command, and in all processes that descend from it.
pub(super) const MARK: &str = "PILOTFISH_COMMAND";

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
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| has(name)))
        .envs(mark.iter().map(|mark| (MARK, mark)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        // Its children are in its process group and end with it: otherwise a shell's `$(qstat)` outlives the shell.
        .process_group(0)
        .spawn()
        .map_err(|source| TransportError::NotStarted { program: program.to_owned(), source })?;
    // It is dropped before the child, whose number is nobody else's as long as nobody has waited for it.
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let mut group = Group { leader, mark, spares: |_| false };
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let say = async {
        if let Some(mut stdin) = stdin {
            // A child that does not read its input says so by its exit code.
            let _ = stdin.write_all(&command.stdin).await;
        }
        Ok(())
    };
    let talk = async {
        // Whoever writes without end ends it: the child is killed when this is dropped.
        let ((), stdout, stderr) = tokio::try_join!(say, bounded(stdout), bounded(stderr))?;
        let code = child.wait().await?.code();
        group.leader = None;
        Ok((code, stdout, stderr))
    };
    let (code, stdout, stderr) = tokio::time::timeout(command.time_limit, talk)
        .await
        .map_err(|_| TransportError::TimedOut { program: program.to_owned(), limit: command.time_limit })?
        .map_err(|source: io::Error| match source.kind() {
            io::ErrorKind::FileTooLarge => TransportError::TooMuch { program: program.to_owned() },
            _ => TransportError::Broken { program: program.to_owned(), source },
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Output { code, stdout: text(&stdout), stderr: text(&stderr) })
}

/// The processes of a command that has not ended: killed when it is given up. A wrapper may have put some of them into
/// a group or a session of their own.
pub(super) struct Group {
    /// The first of them, whose number is that of its process group. It must not have been waited for. `None`: nothing
    /// is killed.
    pub(super) leader: Option<Pid>,
    pub(super) mark: Option<String>,
    /// Whether one that is outside of the process group stays.
    pub(super) spares: fn(Pid) -> bool,
}

/// Looks for processes that others have started meanwhile at most so often. Those that were found stand still.
const N_LOOKS_MAX: usize = 16;

impl Drop for Group {
    fn drop(&mut self) {
        let Some(leader) = self.leader else { return };
        let mut found = BTreeSet::new();
        for _ in 0..N_LOOKS_MAX {
            let all = descendants(leader, self.mark.as_deref());
            let new: Vec<Pid> = all.difference(&found).filter(|pid| !(self.spares)(**pid)).copied().collect();
            if new.is_empty() {
                break;
            }
            // Those that have ended meanwhile need no signal.
            new.iter().for_each(|pid| _ = kill(*pid, Signal::SIGSTOP));
            found.extend(new);
        }
        let _ = killpg(leader, Signal::SIGKILL);
        found.into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
    }
}

/// The processes that descend from a command: those whose parents do, those of its process group, and those with its
/// mark, which also those have that have left both.
fn descendants(leader: Pid, mark: Option<&str>) -> BTreeSet<Pid> {
    let mut all = BTreeSet::from([leader]);
    let mut others: Vec<(Pid, Pid)> = Vec::new();
    let mark = mark.map(|mark| format!("{MARK}={mark}"));
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_string_lossy().parse::<i32>().ok().filter(|number| *number > 1);
        let Some(pid) = number.map(Pid::from_raw) else { continue };
        let Some((parent, group)) = parent_and_group(&entry.path()) else { continue };
        let has_mark = mark.as_ref().is_some_and(|mark| {
            let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        });
        match group == leader || has_mark {
            true => _ = all.insert(pid),
            false => others.push((pid, parent)),
        }
    }
    loop {
        let of_them = others.iter().filter(|(pid, parent)| all.contains(parent) && !all.contains(pid));
        let more: Vec<Pid> = of_them.map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

/// Of a process that is there: its parent and its process group.
fn parent_and_group(process: &std::path::Path) -> Option<(Pid, Pid)> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    // A program's name may have blanks and brackets in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    let mut number = || Some(Pid::from_raw(fields.next()?.parse().ok()?));
    Some((number()?, number()?))
}

/// All that comes, unless it is more than any batch system has to say.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(pipe) = pipe else { return Ok(bytes) };
    pipe.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await?;
    match bytes.len() > OUTPUT_BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
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
            assert!(error.contains("wrote more than"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_command_that_hangs_has_an_unknown_outcome() {
        let result = LocalShell.run(&sh("exec sleep 1000", Duration::from_millis(50))).await;
        assert!(matches!(result, Err(TransportError::TimedOut { .. })));
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
        assert!(matches!(LocalShell.run(&command).await, Err(TransportError::NotStarted { .. })));
    }
}
