//! Files on a host reached by SSH, over connections that are kept. All of it blocks.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ssh2::{ErrorCode, OpenFlags, OpenType, RenameFlags};

use profiles::site::SshProgram;
use tokio::{runtime::Handle, sync::Semaphore};

use super::{
    Asker, SshError,
    libssh2::log_in,
    line::Line,
    openssh::{self, OpenSsh},
    sftp_stream::{Stream, Trouble},
    wire::Wire,
};

/// Connections that are kept while nobody uses them.
const N_KEPT_MAX: usize = 4;
/// Files that travel at once through one connection, on which a host allows ten sessions by default.
const N_STREAMS_MAX: usize = 6;
/// A host that asks for a person, and whose connections nobody else can open, is not asked again for so long.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// A file travels in pieces of this size.
const PIECE_BYTES: usize = 128 << 10;
/// `SSH_FX_NO_SUCH_FILE`, `SSH_FX_PERMISSION_DENIED`, `SSH_FX_FAILURE`.
const NO_SUCH_FILE: ErrorCode = ErrorCode::SFTP(2);
const PERMISSION_DENIED: ErrorCode = ErrorCode::SFTP(3);
const FAILURE: ErrorCode = ErrorCode::SFTP(4);

/// Why a file was not moved.
#[derive(Debug, thiserror::Error)]
pub enum SftpError {
    /// The host was not reached.
    #[error(transparent)]
    NotConnected(#[from] SshError),
    /// It has no such file.
    #[error("{host} has no {}", path.display())]
    None {
        /// The host.
        host: String,
        /// The file.
        path: PathBuf,
    },
    /// We may not.
    #[error("{host} does not allow to {doing} {}", path.display())]
    Denied {
        /// The host.
        host: String,
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// Something else; it may go better the next time.
    #[error("failed to {doing} {} on {host}: {why}", path.display())]
    Broken {
        /// The host.
        host: String,
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Whoever brings or takes it here gave up.
    #[error("gave up: {0}")]
    GivenUp(#[source] io::Error),
}

/// A host's files.
pub struct Sftp {
    address: String,
    way: Way,
    /// No two files on their way to one place have one name.
    n_drafts: AtomicU64,
    /// Why a person is needed, and when that was found out, if the last connection was not made for want of one.
    waiting: Mutex<Option<(SshError, Instant)>>,
}

enum Way {
    OpenSsh { ssh: Box<OpenSsh>, kept: Mutex<Vec<Stream>>, places: Semaphore },
    Libssh2 { config: Option<String>, asker: Arc<dyn Asker>, kept: Mutex<Vec<Connected>> },
}

/// In the order in which they are to end.
struct Connected {
    sftp: ssh2::Sftp,
    _wire: Wire,
    _before: Option<Line>,
}

impl Sftp {
    /// A host that is connected to once a file is to be moved. `address`, `config` and `program` as of [`super::Ssh`].
    pub fn new(
        address: String,
        config: Option<String>,
        program: Option<SshProgram>,
        asker: Arc<dyn Asker>,
    ) -> Sftp {
        let is_openssh = program.map_or_else(openssh::is_installed, |program| program == SshProgram::Openssh);
        let way = match is_openssh {
            true => {
                let ssh = Box::new(OpenSsh::new(address.clone(), config, asker));
                Way::OpenSsh { ssh, kept: Mutex::default(), places: Semaphore::new(N_STREAMS_MAX) }
            }
            false => Way::Libssh2 { config, asker, kept: Mutex::default() },
        };
        Sftp { address, way, n_drafts: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// Why a person is needed to open a connection, if the last one was not made for want of one.
    pub fn waited_for_person(&self) -> Option<SshError> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone().map(|(why, _)| why)
    }

    /// The same, if no person has opened a connection meanwhile. The host is not asked.
    pub async fn waits_for_person(&self) -> Option<SshError> {
        let why = self.waited_for_person()?;
        if let Way::OpenSsh { ssh, .. } = &self.way
            && ssh.is_open().await
        {
            self.wait_for(None);
            return None;
        }
        Some(why)
    }

    /// Tries again to connect where a person was needed, before files are sent. The host is asked now and then only.
    ///
    /// # Errors
    /// A person is needed still, or there can be no connection.
    pub async fn connect_again(&self) -> Result<(), SshError> {
        match (&self.way, self.waited_for_person()) {
            (_, None) => Ok(()),
            (Way::OpenSsh { ssh, .. }, Some(_)) => self.noted(ssh.connect().await.map(drop)),
            // The next file connects, if it is time.
            (Way::Libssh2 { .. }, Some(_)) => self.refused_just_now().map_or(Ok(()), Err),
        }
    }

    fn refused_just_now(&self) -> Option<SshError> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone();
        waiting.filter(|(_, since)| since.elapsed() < ASK_AGAIN).map(|(why, _)| why)
    }

    fn wait_for(&self, why: Option<SshError>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = why.map(|why| (why, Instant::now()));
    }

    fn noted<T>(&self, result: Result<T, SshError>) -> Result<T, SshError> {
        self.wait_for(result.as_ref().err().filter(|why| why.needs_person()).cloned());
        result
    }

    /// Reads a file, piece by piece. Is called by a thread of a runtime that may block.
    ///
    /// # Errors
    /// See [`SftpError`].
    pub fn read(
        &self,
        path: &Path,
        mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
    ) -> Result<(), SftpError> {
        if let Way::OpenSsh { ssh, kept, places } = &self.way {
            let _place = Handle::current().block_on(places.acquire());
            let mut stream = self.stream(ssh, kept)?;
            let read = stream.read(path, take);
            return self.settled(kept, stream, read, "read", path);
        }
        let connected = self.connected()?;
        let mut file = connected.sftp.open(path).map_err(|error| self.failed("read", path, &error))?;
        loop {
            let mut piece = vec![0; PIECE_BYTES];
            let n = file.read(&mut piece).map_err(|error| self.broken("read", path, &error))?;
            piece.truncate(n);
            if n == 0 {
                break;
            }
            take(piece).map_err(SftpError::GivenUp)?;
        }
        drop(file);
        self.keep(connected);
        Ok(())
    }

    /// Writes a file with these permissions, less the host's umask, of the pieces that `next` gives until there are none.
    /// It has its name when it is whole; its folders
    /// are made. Between taking one of that name away and giving it to the new one a reader may find none. Is called by a
    /// thread of a runtime that may block.
    ///
    /// # Errors
    /// See [`SftpError`]; nothing is left then.
    pub fn write<P: AsRef<[u8]>>(
        &self,
        path: &Path,
        mode: u32,
        next: impl FnMut() -> io::Result<Option<P>>,
    ) -> Result<u64, SftpError> {
        let n = self.n_drafts.fetch_add(1, Ordering::Relaxed);
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".pilotfish-{}-{n}.part", std::process::id()));
        let draft = PathBuf::from(draft);
        if let Way::OpenSsh { ssh, kept, places } = &self.way {
            let _place = Handle::current().block_on(places.acquire());
            let mut stream = self.stream(ssh, kept)?;
            let written = write_by(&mut stream, &draft, (path, mode), next);
            if written.is_err() {
                // If the connection is lost it stays; nobody takes it for the file.
                let _ = stream.remove(&draft);
            }
            return self.settled(kept, stream, written, "write", path);
        }
        let connected = self.connected()?;
        let sftp = &connected.sftp;
        let written = self.write_draft(sftp, (&draft, mode), next).and_then(|n_bytes| {
            let renamed = sftp.rename(&draft, path, Some(RenameFlags::all())).or_else(|error| {
                // Version 3 renames onto nothing that is there, and has no other word for that.
                if error.code() != FAILURE || sftp.lstat(path).is_err() {
                    return Err(error);
                }
                sftp.unlink(path)?;
                sftp.rename(&draft, path, Some(RenameFlags::all()))
            });
            renamed.map(|()| n_bytes).map_err(|error| self.failed("write", path, &error))
        });
        match written {
            Ok(n_bytes) => {
                self.keep(connected);
                Ok(n_bytes)
            }
            Err(error) => {
                // If the connection is lost it stays; nobody takes it for the file.
                let _ = sftp.unlink(&draft);
                Err(error)
            }
        }
    }

    /// A server that is kept and still there, or a new one.
    fn stream(&self, ssh: &OpenSsh, kept: &Mutex<Vec<Stream>>) -> Result<Stream, SftpError> {
        let next = || kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(mut stream) = next() {
            if stream.is_there() {
                return Ok(stream);
            }
        }
        let words = self.noted(Handle::current().block_on(ssh.sftp_words()))?;
        let what = |why: String| format!("it serves no files (SFTP): {why}");
        let broken = |why: String| SshError::Broken { host: self.address.clone(), what: what(why) };
        Ok(Stream::start(&words).map_err(broken)?)
    }

    /// What came of something; the stream is kept if it can be used again.
    fn settled<T>(
        &self,
        kept: &Mutex<Vec<Stream>>,
        stream: Stream,
        result: Result<T, Trouble>,
        doing: &'static str,
        path: &Path,
    ) -> Result<T, SftpError> {
        let (host, path) = (self.address.clone(), path.to_owned());
        if matches!(result, Ok(_) | Err(Trouble::None | Trouble::Denied)) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() < N_KEPT_MAX {
                kept.push(stream);
            }
        }
        result.map_err(|trouble| match trouble {
            Trouble::None => SftpError::None { host, path },
            Trouble::Denied => SftpError::Denied { host, doing, path },
            Trouble::Failure(why) => SftpError::Broken { host, doing, path, why },
            Trouble::Lost(error) => SftpError::Broken { host, doing, path, why: error.to_string() },
            Trouble::GivenUp(error) => SftpError::GivenUp(error),
        })
    }

    fn write_draft<P: AsRef<[u8]>>(
        &self,
        sftp: &ssh2::Sftp,
        (draft, mode): (&Path, u32),
        mut next: impl FnMut() -> io::Result<Option<P>>,
    ) -> Result<u64, SftpError> {
        let folders: Vec<&Path> = draft.ancestors().skip(1).collect();
        for folder in folders.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            // Those that are there are no matter, and what is missing is told of the file.
            let _ = sftp.mkdir(folder, 0o777);
        }
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        let opened = sftp.open_mode(draft, flags, mode as i32, OpenType::File);
        let mut file = opened.map_err(|error| self.failed("write", draft, &error))?;
        let mut n_bytes = 0;
        while let Some(piece) = next().map_err(SftpError::GivenUp)? {
            file.write_all(piece.as_ref()).map_err(|error| self.broken("write", draft, &error))?;
            n_bytes += piece.as_ref().len() as u64;
        }
        // Not every server can.
        let _ = file.fsync();
        let size = file.stat().map_err(|error| self.failed("write", draft, &error))?.size;
        match size {
            Some(found) if found != n_bytes => {
                let why = format!("it has {found} bytes of {n_bytes}");
                Err(SftpError::Broken {
                    host: self.address.clone(),
                    doing: "write",
                    path: draft.to_owned(),
                    why,
                })
            }
            _ => Ok(n_bytes),
        }
    }

    /// A connection that is kept and still there, or a new one.
    fn connected(&self) -> Result<Connected, SftpError> {
        let Way::Libssh2 { config, asker, kept } = &self.way else {
            let what = "it is not reached by libssh2".to_owned();
            return Err(SshError::Broken { host: self.address.clone(), what }.into());
        };
        let next = || kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        while let Some(kept) = next() {
            if kept.sftp.realpath(Path::new(".")).is_ok() {
                return Ok(kept);
            }
        }
        if let Some(why) = self.refused_just_now() {
            return Err(why.into());
        }
        let (wire, before) = self.noted(log_in(&self.address, config.as_deref(), &**asker))?;
        let opened = wire.session.sftp();
        let sftp = opened.map_err(|error| SshError::Broken {
            host: self.address.clone(),
            what: format!("it serves no files (SFTP): {}", error.message()),
        })?;
        Ok(Connected { sftp, _wire: wire, _before: before })
    }

    fn keep(&self, connected: Connected) {
        let Way::Libssh2 { kept, .. } = &self.way else { return };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < N_KEPT_MAX {
            kept.push(connected);
        }
    }

    fn failed(&self, doing: &'static str, path: &Path, error: &ssh2::Error) -> SftpError {
        let (host, path) = (self.address.clone(), path.to_owned());
        match error.code() {
            NO_SUCH_FILE => SftpError::None { host, path },
            PERMISSION_DENIED => SftpError::Denied { host, doing, path },
            _ => SftpError::Broken { host, doing, path, why: error.message().to_owned() },
        }
    }

    fn broken(&self, doing: &'static str, path: &Path, error: &io::Error) -> SftpError {
        let (host, path) = (self.address.clone(), path.to_owned());
        SftpError::Broken { host, doing, path, why: error.to_string() }
    }
}

/// Writes a draft, with its folders, and gives it its name.
fn write_by<P: AsRef<[u8]>>(
    stream: &mut Stream,
    draft: &Path,
    (path, mode): (&Path, u32),
    next: impl FnMut() -> io::Result<Option<P>>,
) -> Result<u64, Trouble> {
    let folders: Vec<&Path> = draft.ancestors().skip(1).collect();
    for folder in folders.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
        // Those that are there are no matter, and what is missing is told of the file.
        let _ = stream.make_folder(folder);
    }
    let n_bytes = stream.write(draft, mode, next)?;
    stream.rename(draft, path)?;
    Ok(n_bytes)
}
