//! The SFTP protocol, version 3, over the input and output of a process: `ssh -s HOST sftp`. Requests are sent ahead, so
//! that a long line costs its delay once a file and not once a piece. All of it blocks.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, BufReader, BufWriter, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Every server answers with so many bytes, and takes so many, in one piece.
const PIECE_BYTES: u32 = 32 << 10;
/// Requests that are sent before the first is answered.
const N_AHEAD: usize = 32;
/// No server sends a longer packet.
const PACKET_BYTES_MAX: u32 = 1 << 20;

/// Kinds of packets: draft-ietf-secsh-filexfer-02 numbers them.
mod kind {
    pub const INIT: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const LSTAT: u8 = 7;
    pub const FSTAT: u8 = 8;
    pub const REMOVE: u8 = 13;
    pub const MKDIR: u8 = 14;
    pub const REALPATH: u8 = 16;
    pub const RENAME: u8 = 18;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const ATTRS: u8 = 105;
    pub const EXTENDED: u8 = 200;
}

const FLAG_READ: u32 = 1;
const FLAGS_NEW: u32 = 2 | 8 | 16;
const ATTR_SIZE: u32 = 1;
const ATTR_MODE: u32 = 4;

const OK: u32 = 0;
const EOF: u32 = 1;
const NO_SUCH_FILE: u32 = 2;
const PERMISSION_DENIED: u32 = 3;
const FAILURE: u32 = 4;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// There is no such file.
    None,
    /// It is not allowed.
    Denied,
    /// The server has no other word for it.
    Failure(String),
    /// The connection is lost, or the server talks nonsense.
    Lost(io::Error),
    /// Who brings or takes the bytes here gave up.
    GivenUp(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Lost(error)
    }
}

/// A server's files, through one process.
pub(super) struct Stream {
    child: Child,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
    n_sent: u32,
    /// Answers that came before their turn.
    early: HashMap<u32, (u8, Vec<u8>)>,
    extensions: Vec<String>,
}

/// A request's fields, one after the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn number(mut self, number: u32) -> Fields {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn offset(mut self, offset: u64) -> Fields {
        self.0.extend(offset.to_be_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Fields {
        // No piece and no path is longer.
        self.0.extend((bytes.len() as u32).to_be_bytes());
        self.0.extend(bytes);
        self
    }

    fn path(self, path: &Path) -> Fields {
        self.bytes(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
    }
}

/// Takes a field off an answer.
fn field<'b>(bytes: &mut &'b [u8], n: usize) -> io::Result<&'b [u8]> {
    let (field, rest) = bytes.split_at_checked(n).ok_or_else(nonsense)?;
    *bytes = rest;
    Ok(field)
}

fn number(bytes: &mut &[u8]) -> io::Result<u32> {
    let field = field(bytes, 4)?;
    Ok(u32::from_be_bytes(field.try_into().map_err(|_| nonsense())?))
}

fn text<'b>(bytes: &mut &'b [u8]) -> io::Result<&'b [u8]> {
    let n = number(bytes)?;
    field(bytes, usize::try_from(n).map_err(|_| nonsense())?)
}

fn nonsense() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer is not understood")
}

impl Stream {
    /// Starts `ssh` with these words and greets the server.
    ///
    /// # Errors
    /// There is no server of files, in its words.
    pub(super) fn start(words: &[String]) -> Result<Stream, String> {
        let mut command = Command::new("ssh");
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| format!("failed to run ssh: {error}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("ssh has no pipes".to_owned());
        };
        let (to, from) = (BufWriter::new(to), BufReader::new(from));
        let mut stream = Stream { child, to, from, n_sent: 0, early: HashMap::new(), extensions: Vec::new() };
        match stream.greet() {
            Ok(()) => Ok(stream),
            Err(error) => {
                let mut said = String::new();
                // It may have ended by itself.
                let _ = stream.child.kill();
                if let Some(mut stderr) = stream.child.stderr.take() {
                    // What cannot be read is not told.
                    let _ = stderr.read_to_string(&mut said);
                }
                Err(if said.trim().is_empty() { error.to_string() } else { said.trim().to_owned() })
            }
        }
    }

    fn greet(&mut self) -> io::Result<()> {
        self.write_packet(kind::INIT, &Fields::default().number(3).0)?;
        self.to.flush()?;
        let (kind, body) = self.read_packet()?;
        if kind != kind::VERSION {
            return Err(nonsense());
        }
        let mut rest = body.as_slice();
        number(&mut rest)?;
        while !rest.is_empty() {
            let name = text(&mut rest)?;
            self.extensions.push(String::from_utf8_lossy(name).into_owned());
            text(&mut rest)?;
        }
        Ok(())
    }

    /// Whether it still answers.
    pub(super) fn is_there(&mut self) -> bool {
        self.ask(kind::REALPATH, Fields::default().path(Path::new("."))).is_ok()
    }

    /// Reads a file, piece by piece.
    pub(super) fn read(
        &mut self,
        path: &Path,
        mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
    ) -> Result<(), Trouble> {
        let handle = self.open(path, FLAG_READ, Fields::default().number(0))?;
        let mut offset = 0;
        let mut asked: VecDeque<(u32, u64, u32)> = VecDeque::new();
        let mut is_over = false;
        let mut result = Ok(());
        loop {
            while !is_over && asked.len() < N_AHEAD {
                asked.push_back((self.ask_piece(&handle, offset, PIECE_BYTES)?, offset, PIECE_BYTES));
                offset += u64::from(PIECE_BYTES);
            }
            let Some((id, at, n_asked)) = asked.pop_front() else { break };
            let (kind, body) = self.answer(id)?;
            if is_over {
                continue;
            }
            match kind {
                kind::DATA => {
                    let piece = text(&mut body.as_slice())?.to_vec();
                    let n = u32::try_from(piece.len()).map_err(|_| nonsense())?;
                    if n == 0 || n > n_asked {
                        return Err(nonsense().into());
                    }
                    if n < n_asked {
                        let (at, rest) = (at + u64::from(n), n_asked - n);
                        asked.push_front((self.ask_piece(&handle, at, rest)?, at, rest));
                    }
                    if let Err(error) = take(piece) {
                        (is_over, result) = (true, Err(Trouble::GivenUp(error)));
                    }
                }
                _ => match status(kind, &body)? {
                    Err((EOF, _)) => is_over = true,
                    Err((code, words)) => (is_over, result) = (true, Err(trouble(code, words))),
                    Ok(()) => return Err(nonsense().into()),
                },
            }
        }
        self.close(&handle)?;
        result
    }

    /// Writes a new file of the pieces that `next` gives until there are none; gives how many bytes it has.
    pub(super) fn write<P: AsRef<[u8]>>(
        &mut self,
        path: &Path,
        mode: u32,
        mut next: impl FnMut() -> io::Result<Option<P>>,
    ) -> Result<u64, Trouble> {
        let handle = self.open(path, FLAGS_NEW, Fields::default().number(ATTR_MODE).number(mode))?;
        let mut n_bytes = 0;
        let mut asked = VecDeque::new();
        while let Some(piece) = next().map_err(Trouble::GivenUp)? {
            for part in piece.as_ref().chunks(PIECE_BYTES as usize) {
                let fields = Fields::default().bytes(&handle).offset(n_bytes).bytes(part);
                asked.push_back(self.send(kind::WRITE, fields)?);
                n_bytes += part.len() as u64;
                if asked.len() >= N_AHEAD
                    && let Some(id) = asked.pop_front()
                {
                    self.done(id)?;
                }
            }
        }
        for id in asked {
            self.done(id)?;
        }
        if self.has("fsync@openssh.com") {
            // Not every file system can.
            let _ = self.ask(kind::EXTENDED, Fields::default().bytes(b"fsync@openssh.com").bytes(&handle))?;
        }
        let (kind, body) = self.ask_raw(kind::FSTAT, Fields::default().bytes(&handle))?;
        let found = match kind {
            kind::ATTRS => {
                let mut rest = body.as_slice();
                let has_size = number(&mut rest)? & ATTR_SIZE != 0;
                has_size.then(|| field(&mut rest, 8)).transpose()?
            }
            _ => None,
        };
        let found = found.and_then(|size| size.try_into().ok()).map(u64::from_be_bytes);
        self.close(&handle)?;
        match found {
            Some(found) if found != n_bytes => {
                Err(Trouble::Failure(format!("it has {found} bytes of {n_bytes}")))
            }
            _ => Ok(n_bytes),
        }
    }

    /// Makes a folder.
    pub(super) fn make_folder(&mut self, path: &Path) -> Result<(), Trouble> {
        let fields = Fields::default().path(path).number(ATTR_MODE).number(0o777);
        self.ask(kind::MKDIR, fields)?.map_err(|(code, words)| trouble(code, words))
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, path: &Path) -> Result<(), Trouble> {
        let removed = self.ask(kind::REMOVE, Fields::default().path(path))?;
        removed.map_err(|(code, words)| trouble(code, words))
    }

    /// Gives a file another name, in place of one that has it.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Trouble> {
        const ATOMIC: &str = "posix-rename@openssh.com";
        if self.has(ATOMIC) {
            let fields = Fields::default().bytes(ATOMIC.as_bytes()).path(from).path(to);
            return self.ask(kind::EXTENDED, fields)?.map_err(|(code, words)| trouble(code, words));
        }
        let fields = || Fields::default().path(from).path(to);
        match self.ask(kind::RENAME, fields())? {
            Ok(()) => Ok(()),
            // Version 3 renames onto nothing that is there, and has no other word for that.
            Err((FAILURE, words)) => {
                let (kind, _) = self.ask_raw(kind::LSTAT, Fields::default().path(to))?;
                if kind != kind::ATTRS {
                    return Err(trouble(FAILURE, words));
                }
                self.remove(to)?;
                self.ask(kind::RENAME, fields())?.map_err(|(code, words)| trouble(code, words))
            }
            Err((code, words)) => Err(trouble(code, words)),
        }
    }

    fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|held| held == extension)
    }

    fn open(&mut self, path: &Path, flags: u32, attributes: Fields) -> Result<Vec<u8>, Trouble> {
        let mut fields = Fields::default().path(path).number(flags);
        fields.0.extend(attributes.0);
        let (kind, body) = self.ask_raw(kind::OPEN, fields)?;
        if kind == kind::HANDLE {
            return Ok(text(&mut body.as_slice())?.to_vec());
        }
        match status(kind, &body)? {
            Err((code, words)) => Err(trouble(code, words)),
            Ok(()) => Err(nonsense().into()),
        }
    }

    fn close(&mut self, handle: &[u8]) -> Result<(), Trouble> {
        self.ask(kind::CLOSE, Fields::default().bytes(handle))?.map_err(|(code, words)| trouble(code, words))
    }

    fn ask_piece(&mut self, handle: &[u8], offset: u64, n: u32) -> io::Result<u32> {
        self.send(kind::READ, Fields::default().bytes(handle).offset(offset).number(n))
    }

    fn done(&mut self, id: u32) -> Result<(), Trouble> {
        let (kind, body) = self.answer(id)?;
        status(kind, &body)?.map_err(|(code, words)| trouble(code, words))
    }

    /// Asks for something that has no answer but whether it was done.
    fn ask(&mut self, kind: u8, fields: Fields) -> io::Result<Result<(), (u32, String)>> {
        let (kind, body) = self.ask_raw(kind, fields)?;
        status(kind, &body)
    }

    fn ask_raw(&mut self, kind: u8, fields: Fields) -> io::Result<(u8, Vec<u8>)> {
        let id = self.send(kind, fields)?;
        self.answer(id)
    }

    fn send(&mut self, kind: u8, fields: Fields) -> io::Result<u32> {
        self.n_sent = self.n_sent.wrapping_add(1);
        let id = self.n_sent;
        self.write_packet(kind, &[&id.to_be_bytes()[..], &fields.0].concat())?;
        Ok(id)
    }

    /// The answer to a request: its kind, and its fields after the request's number.
    fn answer(&mut self, id: u32) -> io::Result<(u8, Vec<u8>)> {
        self.to.flush()?;
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return Ok(answer);
            }
            let (kind, body) = self.read_packet()?;
            let mut rest = body.as_slice();
            let of = number(&mut rest)?;
            if self.early.len() > 2 * N_AHEAD {
                return Err(nonsense());
            }
            self.early.insert(of, (kind, rest.to_vec()));
        }
    }

    fn write_packet(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len() + 1).map_err(|_| nonsense())?;
        self.to.write_all(&length.to_be_bytes())?;
        self.to.write_all(&[kind])?;
        self.to.write_all(body)
    }

    fn read_packet(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.from.read_exact(&mut head)?;
        let [a, b, c, d, kind] = head;
        let length = u32::from_be_bytes([a, b, c, d]);
        if length == 0 || length > PACKET_BYTES_MAX {
            return Err(nonsense());
        }
        let mut body = vec![0; length as usize - 1];
        self.from.read_exact(&mut body)?;
        Ok((kind, body))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a status says: done, or a code and words. A realpath's answer is no status, and says that it was done.
fn status(kind: u8, body: &[u8]) -> io::Result<Result<(), (u32, String)>> {
    if kind != kind::STATUS {
        return Ok(Ok(()));
    }
    let mut rest = body;
    Ok(match number(&mut rest)? {
        OK => Ok(()),
        code => Err((code, String::from_utf8_lossy(text(&mut rest).unwrap_or_default()).into_owned())),
    })
}

fn trouble(code: u32, words: String) -> Trouble {
    match code {
        NO_SUCH_FILE => Trouble::None,
        PERMISSION_DENIED => Trouble::Denied,
        _ => Trouble::Failure(words),
    }
}
