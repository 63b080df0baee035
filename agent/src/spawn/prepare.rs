//! From a launch to a started process: opens its files, builds its arguments, and finds the cause of a
//! failure.

use std::{
    ffi::{CStr, CString, c_char},
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::Path,
    ptr,
};

use protocol::{
    job::{SHEBANG_BYTES_MAX, interpreter, shebang_with_carriage_return},
    text::ulimits::with_hint,
};

use super::{
    Environment, Launch, Outcome, Output,
    capture::{PipeSlot, Pipes},
    program::{NotFound, Programs},
    start::{Image, NotStarted, Stack, Step, start},
};
use crate::sys::{denied, opened};

/// A failed launch.
pub(super) struct Failed {
    what: String,
    node: bool,
}

impl Failed {
    /// Returns the failure for a working directory that cannot be used here.
    fn on_folder(folder: &Path, error: &io::Error) -> Failed {
        Failed { what: format!("folder {folder:?}: {}", words_of_job(folder, error)), node: true }
    }

    /// Returns the failure for something that the node lacks.
    pub(super) fn on_node(what: &str, error: &io::Error) -> Failed {
        Failed { what: format!("{what}: {}", words(error)), node: true }
    }
}

impl From<Failed> for Outcome {
    fn from(failed: Failed) -> Outcome {
        Outcome::StartFailed { what: failed.what, node: failed.node }
    }
}

/// `/dev/null`, opened once for all programs.
pub(super) struct Null {
    read: File,
    write: File,
}

impl Null {
    /// Opens it for reading and for writing.
    ///
    /// # Errors
    /// There are no descriptors left, or there is no `/dev/null`.
    pub(super) fn new() -> io::Result<Null> {
        Ok(Null { read: File::open("/dev/null")?, write: OpenOptions::new().write(true).open("/dev/null")? })
    }
}

/// The prepared files and arguments of a program, with the pipes that keep its output.
pub(super) struct Prepared {
    argv: Vec<CString>,
    cwd: Option<CString>,
    makes_cwd: bool,
    cpus: Option<libc::cpu_set_t>,
    /// Its standard input; `None`: `/dev/null`.
    pub stdin: Option<OwnedFd>,
    /// Its standard output.
    pub stdout: Target,
    /// Its standard error.
    pub stderr: Target,
}

/// An opened target of an output stream.
pub(super) enum Target {
    /// `/dev/null`.
    Null,
    /// A file of the program.
    Own(OwnedFd),
    /// A pipe whose contents the agent keeps.
    Captured {
        /// Its slot.
        slot: PipeSlot,
        /// The agent's end.
        read: RawFd,
        /// The program's end.
        write: RawFd,
        /// Whether the agent's end is not polled yet.
        is_new: bool,
    },
}

impl Target {
    /// Returns the slot of the pipe, if there is one.
    pub(super) fn slot(&self) -> Option<PipeSlot> {
        match self {
            Target::Captured { slot, .. } => Some(*slot),
            Target::Null | Target::Own(_) => None,
        }
    }

    fn fd(&self, null: &Null) -> RawFd {
        match self {
            Target::Null => null.write.as_raw_fd(),
            Target::Own(fd) => fd.as_raw_fd(),
            Target::Captured { write, .. } => *write,
        }
    }
}

impl Prepared {
    /// Opens the launch's files.
    pub(super) fn new(launch: &Launch, pipes: &mut Pipes) -> Result<Prepared, Failed> {
        let argv =
            launch.argv.iter().map(|word| c_string(word.as_bytes(), "argument")).collect::<Result<_, _>>()?;
        let cwd = launch.cwd.as_deref().map(|cwd| c_string(cwd.as_os_str().as_encoded_bytes(), "folder"));
        let mut prepared = Prepared {
            argv,
            cwd: cwd.transpose()?,
            makes_cwd: launch.makes_cwd,
            cpus: (!launch.cpus.is_empty()).then(|| cpu_set(&launch.cpus)),
            stdin: None,
            stdout: Target::Null,
            stderr: Target::Null,
        };
        if let Some(path) = &launch.stdin {
            let file = opened::open(OpenOptions::new().read(true), path);
            prepared.stdin = Some(file.map_err(|error| on_file("standard input", path, &error))?.into());
        }
        // Files come first: if they fail after a pipe was taken, the pipe would have to be given back.
        let both = [(&launch.stdout, "standard output"), (&launch.stderr, "standard error")];
        let files = both.map(|(output, what)| open_file(output, what));
        let [stdout, stderr] = files;
        (prepared.stdout, prepared.stderr) = (stdout?, stderr?);
        if let (Target::Own(both), Output::File(path)) = (&prepared.stdout, &launch.stderr)
            && launch.stdout == launch.stderr
        {
            // Two open file descriptions of one file would overwrite each other.
            let copy = both.try_clone().map_err(|error| on_file("standard error", path, &error))?;
            prepared.stderr = Target::Own(copy);
        }
        if let Output::Archive { limit } = launch.stdout {
            prepared.stdout = capture(pipes, limit)?;
        }
        if let Output::Archive { limit } = launch.stderr {
            prepared.stderr = capture(pipes, limit)?;
        }
        Ok(prepared)
    }

    /// Starts the program; returns its process id.
    pub(super) fn start(
        &self,
        environment: &Environment,
        programs: &mut Programs,
        stack: &mut Stack,
        null: &Null,
    ) -> Result<libc::pid_t, Failed> {
        let Some(name) = self.argv.first() else {
            return Err(Failed { what: "the command is empty".into(), node: false });
        };
        let path = path_of(environment);
        let cwd = self.cwd.as_ref().map_or(Path::new(""), |cwd| as_path(cwd));
        let find =
            |programs: &mut Programs| programs.find(name, path, cwd).map_err(|error| not_found(name, &error));
        let program = find(programs)?;
        let envp = pointers(environment.own.iter().chain(environment.shared.iter()));
        let stdin = self.stdin.as_ref().map_or(null.read.as_raw_fd(), AsRawFd::as_raw_fd);
        let stdio = [stdin, self.stdout.fd(null), self.stderr.fd(null)];
        let mut execute = |program: &CStr, argv: &[*const c_char]| {
            let image = Image {
                program,
                argv,
                envp: &envp,
                cwd: self.cwd.as_deref(),
                stdio,
                cpus: self.cpus.as_ref(),
            };
            start(&image, stack)
        };
        let argv = pointers(self.argv.iter());
        let mut result = execute(&program, &argv);
        if result == Err(NotStarted { step: Step::Folder, errno: libc::ENOENT }) && self.makes_cwd {
            fs::create_dir_all(cwd).map_err(|error| Failed::on_folder(cwd, &error))?;
            result = execute(&program, &argv);
        }
        if result == Err(NotStarted { step: Step::Execute, errno: libc::ENOENT }) && program != *name {
            programs.forget();
            result = execute(&find(programs)?, &argv);
        }
        if result == Err(NotStarted { step: Step::Execute, errno: libc::ENOEXEC }) {
            // A script without `#!` line: shells and execvp run it with /bin/sh.
            let shell = pointers(
                [c"/bin/sh", program.as_c_str()].into_iter().chain(self.argv[1..].iter().map(|word| &**word)),
            );
            result = execute(c"/bin/sh", &shell);
        }
        result.map_err(|error| not_started(error, &program, self.cwd.as_deref()))
    }
}

fn open_file(output: &Output, what: &str) -> Result<Target, Failed> {
    let Output::File(path) = output else { return Ok(Target::Null) };
    let create = || opened::open(OpenOptions::new().write(true).create(true).truncate(true), path);
    let file = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            made.and_then(|()| create())
        }
        result => result,
    };
    Ok(Target::Own(file.map_err(|error| on_file(what, path, &error))?.into()))
}

fn capture(pipes: &mut Pipes, limit: usize) -> Result<Target, Failed> {
    let (slot, is_new) = pipes.take(limit).map_err(|error| Failed::on_node("pipe for output", &error))?;
    let (read, write) = pipes.ends(slot).unwrap_or((-1, -1));
    Ok(Target::Captured { slot, read, write, is_new })
}

fn c_string(bytes: &[u8], what: &str) -> Result<CString, Failed> {
    CString::new(bytes).map_err(|_| Failed { what: format!("an {what} holds a NUL character"), node: false })
}

fn as_path(path: &CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()))
}

fn pointers<'a, S: AsRef<CStr> + ?Sized + 'a>(strings: impl Iterator<Item = &'a S>) -> Vec<*const c_char> {
    strings.map(|string| string.as_ref().as_ptr()).chain([ptr::null()]).collect()
}

fn path_of(environment: &Environment) -> Option<&[u8]> {
    let entries = environment.own.iter().chain(environment.shared.iter());
    entries.filter_map(|entry| entry.to_bytes().strip_prefix(b"PATH=")).next()
}

fn cpu_set(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: all zeros is an empty set; CPU_SET is given numbers within it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(*cpu, &mut set);
        }
        set
    }
}

/// Returns the system's text for an error, without its number.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_string(),
        None => text,
    }
}

fn on_file(what: &str, path: &Path, error: &io::Error) -> Failed {
    if error.raw_os_error() == Some(libc::ENXIO)
        && let Some(refused) = opened::refused(path)
    {
        return Failed { what: format!("{what} {path:?} is {refused}"), node: false };
    }
    let node = error.raw_os_error().is_some_and(is_nodes_fault);
    Failed { what: format!("{what} {path:?}: {}", words_of_job(path, error)), node }
}

/// Returns the system's text for an error at a job's file or directory, and the reason if this account lacks
/// the right.
fn words_of_job(path: &Path, error: &io::Error) -> String {
    match denied::of_job(path, error) {
        Some(why) => format!("{}: {why}", words(error)),
        None => words(error),
    }
}

/// Returns whether another node, or this one later, may not have the error.
fn is_nodes_fault(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOMEM
            | libc::EAGAIN
            | libc::EMFILE
            | libc::ENFILE
            | libc::ENOSPC
            | libc::EDQUOT
            | libc::EROFS
            | libc::EIO
            | libc::ESTALE
            | libc::ETXTBSY
            | libc::ENODEV
            | libc::ENXIO
            | libc::ETIMEDOUT
            | libc::EHOSTDOWN
            | libc::ENOTCONN
    )
}

fn not_found(name: &CStr, error: &NotFound) -> Failed {
    let what = match error {
        NotFound::Missing => format!("program {:?} is in no folder of PATH", name.to_string_lossy()),
        NotFound::NotExecutable(file) => format!("{file:?} is not executable"),
    };
    Failed { what, node: false }
}

fn not_started(error: NotStarted, program: &CStr, cwd: Option<&CStr>) -> Failed {
    let system = words(&io::Error::from_raw_os_error(error.errno));
    let node = is_nodes_fault(error.errno);
    match error.step {
        Step::Clone => Failed { what: with_hint(format!("no process: {system}")), node: true },
        Step::Stdio => Failed { what: format!("standard streams: {system}"), node: true },
        Step::Bind => Failed { what: format!("binding to CPUs: {system}"), node: true },
        // The directory existed at submission but not here: this node does not see it.
        Step::Folder => {
            let folder = cwd.map(as_path).unwrap_or(Path::new(""));
            Failed::on_folder(folder, &io::Error::from_raw_os_error(error.errno))
        }
        Step::Execute => {
            let path = as_path(program);
            let file = cwd.map_or(path.to_path_buf(), |cwd| as_path(cwd).join(path));
            let what = match error.errno {
                libc::ENOENT if file.exists() => {
                    let start = start_of(&file);
                    match (shebang_with_carriage_return(&start), interpreter(&start)) {
                        (Some(line), _) => {
                            format!("{path:?}: its first line {line:?} ends with \\r: give it Unix line ends")
                        }
                        (None, Some(named)) => {
                            format!("{path:?}: its first line names {named:?}, which does not exist")
                        }
                        (None, None) => format!("{path:?}: the loader that it names does not exist"),
                    }
                }
                libc::EACCES if file.is_dir() => format!("{path:?} is a folder"),
                libc::EACCES => match denied::of_program(&file) {
                    Some(why) => format!("{path:?}: {system}: {why}"),
                    None => format!("{path:?} is not executable: {system}"),
                },
                _ => format!("{path:?}: {system}"),
            };
            Failed { what, node }
        }
    }
}

/// Returns the first bytes of a regular file; nothing of other files, which could block.
fn start_of(file: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    if file.is_file()
        && let Ok(file) = File::open(file)
    {
        // If it cannot be read, its start stays empty.
        let _ = file.take(SHEBANG_BYTES_MAX as u64).read_to_end(&mut start);
    }
    start
}
