//! The agent's command line, the same for `pilotfish-agent …` and `pilotfish agent …`.

use std::{
    fs,
    io::{self, IsTerminal, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use protocol::{
    pilot::JoinDocument,
    text::{harmless::harmless_output, ulimits, units::parse_duration_ms},
};
use scheduler::time::Span;

use crate::{
    archive,
    driver::{self, DriverError},
    guard::{keeper, leftovers, roster},
    node::limits,
    relay::{self, RelayError},
    session::{
        client::ClientError,
        join::{self, JoinError},
    },
    sys::{pipe::pipe, private},
};

/// The longest wait for a new guard. It needs milliseconds; a host that needs longer has a problem.
const GUARD_LIMIT: Duration = Duration::from_secs(10);
// Exit codes are never 99 or 100: Grid Engine would start the job again, or hold it in error for ever.
/// The pilot has left.
const EXIT_LEFT: i32 = 0;
/// The node or the folder has a problem.
const EXIT_FAILED: i32 = 1;
/// Arguments or join document cannot be used; also clap's code for invalid arguments.
const EXIT_USAGE: i32 = 2;
/// The manager refuses this pilot.
const EXIT_REFUSED: i32 = 3;
/// The pilot ended before all of its results were acknowledged.
const EXIT_UNREPORTED: i32 = 4;

/// The agent's commands.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum AgentCommand {
    /// Run a pilot here until it has left
    Run(RunArgs),
    /// Run a pilot in the background; prints the process id of its guard
    Start(RunArgs),
    /// List the pilots of this host and user: process id, tag, state
    List {
        /// Only tags that begin like this
        #[arg(default_value = "")]
        tag_prefix: String,
    },
    /// Tell pilots of this host and user to end; it is no error if they have ended already
    Cancel {
        /// Process ids as `start` and `list` print them
        #[arg(required = true)]
        pids: Vec<i32>,
    },
    /// Show the output of tasks that ran when their pilot was killed
    Output {
        /// The pilot's folder, or its output file there
        path: PathBuf,
    },
    /// Relay pilots' connections on this host to the manager's tunnel; prints this host's name and the port
    Relay(RelayArgs),
    /// Run this relay, with standard input as its listener
    #[command(hide = true)]
    RelayRun {
        /// Where it keeps its files
        #[arg(long, value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// Arguments of the relay.
#[derive(Clone, Debug, clap::Args)]
pub struct RelayArgs {
    /// Where it keeps its files
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// The port of this host that leads to the manager
    #[arg(long, value_name = "PORT")]
    to: u16,
}

/// Arguments of a pilot.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// The join document (mode 600); `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    join: PathBuf,
    /// The tag to be listed by; must be the join document's
    #[arg(long)]
    tag: Option<String>,
    /// Walltime of the pilot, like 4h or 30m; an earlier end from the batch system counts
    #[arg(long, value_name = "DURATION", value_parser = parse_walltime)]
    walltime: Option<Span>,
}

fn parse_walltime(text: &str) -> Result<Span, String> {
    parse_duration_ms(text).map(Span::from_millis).map_err(|error| error.to_string())
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error("the tag is {argument:?} in the arguments and {document:?} in the join document")]
    OtherTag { argument: String, document: String },
    #[error("the pilot's folder {path:?} cannot be used: {source}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("the pilot cannot be started: {0}")]
    Start(#[source] io::Error),
    #[error("process {0} is no pilot of this user")]
    NotOurs(i32),
    #[error("process {pid} cannot be told to end: {source}")]
    Signal { pid: i32, source: io::Error },
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error("output: {0}")]
    Output(#[source] io::Error),
    #[error("{path:?} cannot be read: {source}")]
    NotRead { path: PathBuf, source: io::Error },
    #[error("{0:?} does not begin like a file of what tasks wrote")]
    NoOutput(PathBuf),
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// A Pilotfish pilot: pulls tasks from a manager and runs them on this node.
#[derive(Parser)]
#[command(name = "pilotfish-agent", version)]
struct Arguments {
    #[command(subcommand)]
    command: AgentCommand,
}

/// Runs the program `pilotfish-agent` and returns its exit code. Must be called before the process has a
/// second thread.
pub fn main() -> i32 {
    limits::outlive_file_size();
    if let Err(error) = limits::check_stack() {
        say(&error);
        return EXIT_FAILED;
    }
    begin()
}

/// A function of its own, so that its frame is not on the stack before the check of the stack.
#[inline(never)]
fn begin() -> i32 {
    private::hide_memory();
    let complain = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        match ulimits::of_panic(panic.payload_as_str().unwrap_or("")) {
            Some(words) => {
                say(&io::Error::other(words));
                std::process::exit(EXIT_FAILED);
            }
            None => complain(panic),
        }
    }));
    run(Arguments::parse().command)
}

/// Runs a command and returns the exit code. Must be called before the process has a second thread.
pub fn run(command: AgentCommand) -> i32 {
    let result = match command {
        AgentCommand::Run(args) => run_pilot(&args),
        AgentCommand::Start(args) => start_pilot(&args).map(|()| EXIT_LEFT),
        AgentCommand::List { tag_prefix } => list(&tag_prefix).map(|()| EXIT_LEFT),
        AgentCommand::Cancel { pids } => cancel(&pids).map(|()| EXIT_LEFT),
        AgentCommand::Output { path } => show_output(&path).map(|()| EXIT_LEFT),
        AgentCommand::Relay(args) => start_relay(&args).map(|()| EXIT_LEFT),
        AgentCommand::RelayRun { folder } => {
            relay::run(&folder).map(|()| EXIT_LEFT).map_err(|error| RelayError::Start(error).into())
        }
    };
    result.unwrap_or_else(|error| {
        say(&error);
        match error {
            CommandError::Join(_) | CommandError::OtherTag { .. } => EXIT_USAGE,
            _ => EXIT_FAILED,
        }
    })
}

/// Returns a task's output with control characters made harmless for a terminal.
fn shown(text: &[u8]) -> String {
    let (mut shown, begun) = harmless_output(text);
    // No more bytes follow that could complete the character.
    begun.iter().for_each(|byte| {
        shown.push_str(&if *byte == b'\r' { "^M".to_owned() } else { format!("\\x{byte:02x}") })
    });
    shown
}

/// Prints the contents of a pilot's output file, each stream of each attempt in one piece.
fn show_output(path: &Path) -> Result<(), CommandError> {
    let unread = |path: &Path| {
        let path = path.to_owned();
        move |source| CommandError::NotRead { path, source }
    };
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    for file in archive::files(path).map_err(unread(path))? {
        let bytes = fs::read(&file).map_err(unread(&file))?;
        let contents = archive::read(&bytes).ok_or_else(|| CommandError::NoOutput(file.clone()))?;
        for (heading, text) in contents.streams() {
            writeln!(out, "==> {heading} <==").map_err(CommandError::Output)?;
            match is_terminal {
                true => out.write_all(shown(&text).as_bytes()),
                false => out.write_all(&text),
            }
            .map_err(CommandError::Output)?;
            if !text.ends_with(b"\n") {
                writeln!(out).map_err(CommandError::Output)?;
            }
        }
        if contents.n_damaged > 0 {
            // If stderr cannot be written, the rest is shown all the same.
            let _ = writeln!(
                io::stderr(),
                "{} bytes of {} are damaged or torn and left out",
                contents.n_damaged,
                file.display()
            );
        }
    }
    Ok(())
}

/// Prints the error line of a failed command, without the system's error numbers.
fn say(error: &dyn std::error::Error) {
    let text = error.to_string();
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_string();
    let rest = parts.filter_map(|part| part.split_once(')').map(|(_, rest)| rest));
    // If stderr cannot be written, the exit code is enough.
    let _ =
        writeln!(io::stderr(), "error: {}", ulimits::with_hint(rest.fold(first, |text, rest| text + rest)));
}

fn read_join(args: &RunArgs) -> Result<JoinDocument, CommandError> {
    let mut join = join::read(&args.join)?;
    join.walltime = args.walltime.into_iter().chain(join.walltime).min();
    match &args.tag {
        Some(tag) if *tag != join.tag => {
            Err(CommandError::OtherTag { argument: tag.clone(), document: join.tag })
        }
        _ => Ok(join),
    }
}

fn run_pilot(args: &RunArgs) -> Result<i32, CommandError> {
    let started = Instant::now();
    let join = read_join(args)?;
    keeper::guard(move || {
        start_logging();
        let n_left = leftovers::end_leftovers();
        if n_left > 0 {
            tracing::warn!(n_left, "ended processes that killed pilots had left here");
        }
        match driver::run(join, started) {
            Ok(_) => EXIT_LEFT,
            Err(error) => {
                say(&error);
                exit_code(&error)
            }
        }
    })
    .map_err(CommandError::Start)
}

fn exit_code(error: &DriverError) -> i32 {
    match error {
        DriverError::Client(ClientError::BadJoin { .. }) => EXIT_USAGE,
        DriverError::Client(_) => EXIT_REFUSED,
        DriverError::NotRegistered { .. } | DriverError::Unreported { .. } => EXIT_UNREPORTED,
        // The watched process has ended, as expected.
        DriverError::Abandoned { .. } => EXIT_LEFT,
        DriverError::Folder { .. } | DriverError::Spool(_) | DriverError::System { .. } => EXIT_FAILED,
    }
}

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PILOTFISH_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    // A log on a full disk must not end the pilot: printing the error would panic.
    let logging = logging.log_internal_errors(false);
    if logging.try_init().is_err() {
        tracing::debug!("somebody else has set up logging");
    }
}

/// Runs the command `run` in a new session, with the same join document.
fn start_pilot(args: &RunArgs) -> Result<(), CommandError> {
    let join = read_join(args)?;
    let folder = PathBuf::from(&join.folder);
    let on_folder = |source| CommandError::Folder { path: folder.clone(), source };
    private::take_folder(&folder).map_err(on_folder)?;
    let log_path = folder.join("pilot.log");
    let log = private::file_options().append(true).open(&log_path).map_err(on_folder)?;
    let errors = log.try_clone().map_err(on_folder)?;
    let (document, mut writer) =
        pipe().map(|(read, write)| (read, fs::File::from(write))).map_err(CommandError::Start)?;
    let text = serde_json::to_vec(&join).map_err(|error| CommandError::Start(error.into()))?;
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    command
        .args(leading_words("start"))
        .args(["run", "--join", "-", "--tag", &join.tag])
        .current_dir(&folder)
        .stdin(Stdio::from(document))
        .stdout(log)
        .stderr(errors);
    // SAFETY: setsid is async-signal-safe. Its own session: no terminal and no login ends it.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
    let mut pilot = command.spawn().map_err(CommandError::Start)?;
    writer.write_all(&text).map_err(CommandError::Start)?;
    drop(writer);
    await_guard(&mut pilot).map_err(CommandError::Start)?;
    writeln!(io::stdout(), "{}", pilot.id()).map_err(CommandError::Output)
}

/// Waits until `list` shows the pilot or it has ended, so that a `list` after this call finds it.
fn await_guard(pilot: &mut Child) -> io::Result<()> {
    let began = Instant::now();
    let pid = i32::try_from(pilot.id()).unwrap_or(i32::MAX);
    while roster::pilot(Path::new("/proc"), pid).is_none() && began.elapsed() < GUARD_LIMIT {
        if pilot.try_wait()?.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the words between the program's name and the command: `agent` in the program `pilotfish`.
fn leading_words(command: &str) -> Vec<String> {
    std::env::args().skip(1).take_while(|word| word != command).collect()
}

fn start_relay(args: &RelayArgs) -> Result<(), CommandError> {
    let mut words = leading_words("relay");
    words.push("relay-run".to_owned());
    let (host, port) = relay::ensure(&args.folder, args.to, &words)?;
    writeln!(io::stdout(), "{host} {port}").map_err(CommandError::Output)
}

/// Lists pilots. This runs often, so it also ends processes that killed pilots have left.
fn list(tag_prefix: &str) -> Result<(), CommandError> {
    let n_left = leftovers::end_leftovers();
    if n_left > 0 {
        // If stderr cannot be written, the list is still useful.
        let _ = writeln!(io::stderr(), "warning: ended {n_left} processes that killed pilots had left here");
    }
    let mut out = io::stdout().lock();
    for pilot in roster::pilots(Path::new("/proc")).filter(|pilot| pilot.tag.starts_with(tag_prefix)) {
        writeln!(out, "{} {} {}", pilot.pid, pilot.tag, pilot.state).map_err(CommandError::Output)?;
    }
    Ok(())
}

fn cancel(pids: &[i32]) -> Result<(), CommandError> {
    for pid in pids.iter().copied() {
        if roster::pilot(Path::new("/proc"), pid).is_none() {
            if roster::has_ended(Path::new("/proc"), pid) {
                continue;
            }
            return Err(CommandError::NotOurs(pid));
        }
        // SAFETY: no memory is passed.
        if unsafe { libc::kill(pid, libc::SIGTERM) } < 0 {
            let source = io::Error::last_os_error();
            if source.raw_os_error() != Some(libc::ESRCH) {
                return Err(CommandError::Signal { pid, source });
            }
        }
        // A stopped process would not handle the signal.
        // SAFETY: as above. The process may have ended meanwhile.
        unsafe { libc::kill(pid, libc::SIGCONT) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_exit_code_means_something_to_grid_engine() {
        let codes = [EXIT_LEFT, EXIT_FAILED, EXIT_USAGE, EXIT_REFUSED, EXIT_UNREPORTED];
        // Codes of processes that end by a signal are 129 and above.
        assert!(codes.iter().all(|code| (0..99).contains(code)), "{codes:?}");
    }
}
