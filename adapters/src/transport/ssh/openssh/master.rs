//! The process that holds a connection, and its socket.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Read, Write},
    net::SocketAddr,
    os::unix::{
        fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use nix::{
    sys::{
        signal::{SigSet, Signal, killpg},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::{Pid, Uid, gethostname, getpgrp, tcsetpgrp},
};
use ring::digest;
use tokio::process::Command;

use super::{
    super::{
        SshError,
        address::Address,
        route::{self, Said},
        tokens::Values,
    },
    blocking, proxy, verdict,
};
use crate::transport::{
    local,
    running::{COMMANDS, MARK},
};

/// A path of a socket has 107 bytes at most, of which `ssh` needs 17 while it makes one.
const SOCKET_BYTES_MAX: usize = 107 - 17;
/// `/`, 16 letters, `-` and the number of a process.
const NAME_BYTES_MAX: usize = 28;
/// A connection that nobody was asked for ends so long after its last user.
const LINGER_S: u64 = 5;
/// One that a person has opened lasts so long without a user.
const LINGER_OF_PERSON_S: u64 = 3600;
/// For so long a host may take to accept a connection, unless the configuration says something else.
const CONNECT_LIMIT_S: u64 = 20;
/// A host that is silent for three times so long is gone.
const ALIVE_S: u64 = 30;
/// For a login that asks nobody.
const LOGIN_LIMIT: Duration = Duration::from_secs(120);
/// For a login with a person who looks for a token.
const PERSON_LIMIT: Duration = Duration::from_secs(600);
/// For a master's answer on its socket.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The most bytes that a master's first message may have.
const HELLO_BYTES_MAX: usize = 4096;
/// `MUX_MSG_HELLO`.
const HELLO: [u8; 4] = [0, 0, 0, 1];
/// How often it is looked what `ssh` says to a person.
const SHOW_PAUSE: Duration = Duration::from_millis(50);
/// How often a lock is tried that another process has.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// All that is needed to open a connection.
pub(super) struct Opening {
    address: Address,
    /// The command by which a person logs in there.
    by_hand: String,
    config: Option<String>,
    said: Said,
    /// Where the socket of a master is that a person has opened, which all of the user's processes share.
    pub(super) shared: PathBuf,
    /// Where that of this process is: who is let in without a person looks each time whether that is so still.
    own: PathBuf,
    /// That of a master which the user's configuration names; where programs of other versions differ, each one's.
    of_user: Vec<PathBuf>,
}

impl Opening {
    /// Errors: no folder for the socket, in words.
    pub(super) fn new(
        address: Address,
        config: Option<String>,
        said: Said,
        sockets: Option<PathBuf>,
    ) -> Result<Opening, String> {
        let local = gethostname().unwrap_or_default();
        // A user who changes the configuration wants another connection.
        let text = format!("{}\n{:?}\n{}", local.to_string_lossy(), address.words(), said.0);
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        let name: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = match sockets {
            Some(folder) => {
                let made = make_private(&folder);
                made.map(|()| folder)
                    .map_err(|error| format!("failed to make a folder for its socket: {error}"))?
            }
            None => folder()?,
        };
        let (shared, own) = (folder.join(&name), folder.join(format!("{name}-{}", std::process::id())));
        let of_user = of_user(&address, &said);
        let by_hand = address.by_hand_with(config.as_deref());
        Ok(Opening { address, by_hand, config, said, shared, own, of_user })
    }

    /// Where a connection may be.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        [&self.shared, &self.own].into_iter().chain(&self.of_user).cloned().collect()
    }

    /// Opens a connection, unless there is one. `is_person_there`: `ssh` may ask on the terminal of this process.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn open(&self, is_person_there: bool) -> Result<(), SshError> {
        let _lock = self.lock(if is_person_there { PERSON_LIMIT } else { LOGIN_LIMIT }).await?;
        if self.sockets().into_iter().any(|socket| Master::at(socket).is_some()) {
            // Somebody else was faster.
            return Ok(());
        }
        let (address, config, said) = (self.address.clone(), self.config.clone(), self.said.clone());
        let way = blocking(move || route::check_jumps(&address, &said, config.as_deref())).await;
        way.unwrap_or_else(|| Err(self.broken("its jump hosts were not looked for".to_owned())))?;
        let failed = |error: io::Error| self.broken(error.to_string());
        let log = self.log().map_err(failed)?;
        let proxy_log = ProxyLog::new(self.own.with_extension("way")).map_err(failed)?;
        let mark = local::mark();
        let mut command = self.command(is_person_there, &proxy_log.path, &mark);
        command.stderr(Stdio::from(log.try_clone().map_err(failed)?));
        let started = COMMANDS.start_leader(&mut command, Some(mark), is_master);
        let (mut child, running) =
            started.map_err(|error| self.broken(format!("failed to run ssh: {error}")))?;
        let limit = if is_person_there { PERSON_LIMIT } else { LOGIN_LIMIT };
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let pid = pid.ok_or_else(|| self.broken("ssh has no number".to_owned()))?;
        let lent = is_person_there.then(|| Lent::to(pid));
        // Dropped before the terminal is taken back.
        let running = running;
        let ended = tokio::time::timeout(limit, ended(pid, &log, is_person_there)).await;
        let text = text_from(&log, 0);
        let result = match ended {
            Ok(Ok(WaitStatus::Exited(_, 0))) => {
                running.leave();
                Ok(())
            }
            Ok(Ok(WaitStatus::Signaled(_, Signal::SIGINT | Signal::SIGQUIT, _))) if is_person_there => {
                Err(SshError::Interrupted { host: self.facts().host.to_owned() })
            }
            Ok(Ok(_)) => {
                let of_proxy = text_from(&proxy_log.file, 0);
                Err(verdict::verdict(&text, &of_proxy, &self.facts(), is_person_there))
            }
            Ok(Err(error)) => Err(self.broken(error.to_string())),
            Err(_) => {
                let all = format!("{text}\n{}", text_from(&proxy_log.file, 0));
                let why = format!("no login within {limit:?}: {}", verdict::words(&all));
                let (host, port) = (self.facts().host.to_owned(), self.facts().port);
                Err(SshError::NotConnected { host, port, why })
            }
        };
        drop(running);
        drop(lent);
        // It has ended by now, and how is known.
        let _ = child.wait().await;
        result
    }

    /// `ssh`, to be started with that mark.
    fn command(&self, is_person_there: bool, proxy_log: &Path, mark: &str) -> Command {
        let asks_program = asks_program();
        let mut command = Command::new("ssh");
        command.args(self.words(is_person_there, asks_program, proxy_log)).env(MARK, mark);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if is_person_there {
            command.process_group(0);
            return command;
        }
        if asks_program {
            command.env("SSH_ASKPASS_REQUIRE", "force");
        }
        without_terminal(&mut command);
        command
    }

    fn facts(&self) -> verdict::Facts<'_> {
        let one = |word: &str| self.said.one(word).unwrap_or_default();
        let set = |word: &str| self.said.one(word).filter(|value| *value != "none");
        verdict::Facts {
            host: one("hostname"),
            port: one("port").parse().unwrap_or(22),
            user: one("user"),
            proxy: set("proxyjump").or(set("proxycommand")),
            by_hand: &self.by_hand,
        }
    }

    fn broken(&self, what: String) -> SshError {
        SshError::Broken { host: self.facts().host.to_owned(), what }
    }

    fn words(&self, is_person_there: bool, asks_program: bool, proxy_log: &Path) -> Vec<String> {
        let lingers =
            self.said.one("controlpersist").filter(|value| !["no", "none", "false"].contains(value));
        let linger = match is_person_there {
            true => lingers.map_or(LINGER_OF_PERSON_S.to_string(), str::to_owned),
            false => LINGER_S.to_string(),
        };
        // Of an option that is said twice the first one counts; the configuration comes last. How far the login came
        // is told at this level only.
        let mut options = vec![
            format!("ControlPersist={linger}"),
            "ClearAllForwardings=yes".to_owned(),
            "LogLevel=DEBUG2".to_owned(),
        ];
        if self.said.one("connecttimeout").is_none_or(|value| value == "none") {
            options.push(format!("ConnectTimeout={CONNECT_LIMIT_S}"));
        }
        if self.said.one("serveraliveinterval").is_none_or(|value| value == "0") {
            options.extend([format!("ServerAliveInterval={ALIVE_S}"), "ServerAliveCountMax=3".to_owned()]);
        }
        let is_alone = !is_person_there && !asks_program;
        if is_alone {
            options.push("BatchMode=yes".to_owned());
        }
        options.extend(proxy::option(&self.said, self.config.as_deref(), proxy_log, is_alone));
        options.extend(self.overrides());
        let config = self.config.iter().flat_map(|config| ["-F".to_owned(), config.clone()]);
        let socket = if is_person_there { &self.shared } else { &self.own };
        let socket = socket.display().to_string();
        config
            .chain(["-M", "-N", "-f", "-T", "-S"].map(str::to_owned))
            // `%` would be a token there.
            .chain([socket.replace('%', "%%")])
            .chain(options.into_iter().flat_map(|option| ["-o".to_owned(), option]))
            .chain(self.address.words())
            .collect()
    }

    /// Options that keep the configuration from doing something else than what is asked, as `RemoteCommand` does.
    pub(super) fn overrides(&self) -> Vec<String> {
        let options = [
            ("RemoteCommand", "none"),
            ("SessionType", "default"),
            ("ForkAfterAuthentication", "no"),
            ("StdinNull", "no"),
        ];
        // Older programs do not know them all.
        let is_other = |(option, value): &(&str, &str)| {
            self.said.one(&option.to_ascii_lowercase()).is_some_and(|said| said != *value)
        };
        options.into_iter().filter(is_other).map(|(option, value)| format!("{option}={value}")).collect()
    }

    /// Waits until no other process opens a connection of the same kind.
    async fn lock(&self, limit: Duration) -> Result<File, SshError> {
        let failed =
            |error: io::Error| self.broken(format!("failed to lock {}: {error}", self.shared.display()));
        let file = private_file(&self.shared.with_extension("lock")).map_err(failed)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) if began.elapsed() < limit => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(fs::TryLockError::WouldBlock) => {
                    let facts = self.facts();
                    let (host, user) = (facts.host.to_owned(), facts.user.to_owned());
                    return Err(SshError::NeedsPerson {
                        host,
                        user,
                        why: "somebody is about to log in".into(),
                    });
                }
                Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// A file for what `ssh` says that is gone when nobody reads it: proxies hold it for as long as they live.
    fn log(&self) -> io::Result<File> {
        let path = self.own.with_extension("log");
        let file = private_file(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }
}

/// Where masters are that the configuration names (`ControlPath`).
fn of_user(address: &Address, said: &Said) -> Vec<PathBuf> {
    let Some(path) = said.one("controlpath").filter(|path| *path != "none") else { return Vec::new() };
    let needed = |word: &str| said.one(word).unwrap_or_default();
    let (host, port, user) = (needed("hostname"), needed("port"), needed("user"));
    let (alias, jump) = (said.one("hostkeyalias").filter(|alias| *alias != "none"), said.jump_host());
    let with = |jump| Values { name: &address.host, host, port, user, alias, jump }.path(path).ok();
    let mut all: Vec<PathBuf> = [with(jump.as_deref()), with(None)].into_iter().flatten().collect();
    all.dedup();
    all
}

/// A file for what is said by what leads there, which has a name until the login is over: proxies open it by that.
struct ProxyLog {
    path: PathBuf,
    file: File,
}

impl ProxyLog {
    fn new(path: PathBuf) -> io::Result<ProxyLog> {
        let file = private_file(&path)?;
        Ok(ProxyLog { path, file })
    }
}

impl Drop for ProxyLog {
    fn drop(&mut self) {
        // Whoever cleans up may have been faster.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a process is a master for others to use (`ControlPersist`), which names itself so. A jump host's may have
/// other users meanwhile.
fn is_master(pid: Pid) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let name = line.split(|byte| *byte == 0).next().unwrap_or_default();
    name.starts_with(b"ssh: ") && name.ends_with(b" [mux]")
}

/// The terminal of this process, lent to a group of processes. What is left of the group later, as proxies, is in the
/// background then, and no signal ends it when the terminal goes.
struct Lent {
    /// How the terminal was. Who is killed while it asks leaves it without echo.
    was: Option<Termios>,
}

impl Lent {
    fn to(group: Pid) -> Lent {
        let was = tcgetattr(io::stdin()).ok();
        give_terminal(group, None);
        // It may have been stopped for having asked too early, or have ended.
        let _ = killpg(group, Signal::SIGCONT);
        Lent { was }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        give_terminal(getpgrp(), self.was.as_ref());
    }
}

/// Gives the terminal to a group; `is`: and has it like that.
fn give_terminal(group: Pid, is: Option<&Termios>) {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTOU);
    // Who takes it back is in the background at that moment, and would be stopped.
    let is_blocked = signals.thread_block().is_ok();
    // Where there is no terminal any more nobody wants it.
    let _ = tcsetpgrp(io::stdin(), group);
    if let Some(is) = is {
        let _ = tcsetattr(io::stdin(), SetArg::TCSADRAIN, is);
    }
    if is_blocked {
        let _ = signals.thread_unblock();
    }
}

/// Waits for the end of `ssh`, but leaves its number to it; `shows`: what it says for people meanwhile is shown to the
/// person at the terminal.
async fn ended(pid: Pid, log: &File, shows: bool) -> io::Result<WaitStatus> {
    let mut n_shown = 0;
    loop {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
        let status = waitid(Id::Pid(pid), flags)?;
        if !matches!(status, WaitStatus::StillAlive) {
            return Ok(status);
        }
        tokio::select! {
            // Where the kernel has no way to wait it is looked again and again.
            Ok(()) = local::process_end(pid.as_raw().unsigned_abs()) => {}
            () = tokio::time::sleep(SHOW_PAUSE) => {}
        }
        if shows {
            let text = text_from(log, n_shown);
            // A line that is not whole is shown when it is.
            let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
            n_shown += whole.len() as u64;
            for line in whole.lines().filter(|line| verdict::is_for_people(line)) {
                // Nobody can be told that standard error is gone.
                let _ = writeln!(io::stderr(), "{}", line.trim_end());
            }
        }
    }
}

/// What is in a file from there on, without moving where others write.
fn text_from(log: &File, mut at: u64) -> String {
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = log.read_at(&mut piece, at) {
        text.extend_from_slice(&piece[..n]);
        at += n as u64;
    }
    // Lossy replacement would change how long it is.
    text.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect()
}

fn private_file(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Whether a program answers for the person: ssh(1) says when.
fn asks_program() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let require = std::env::var("SSH_ASKPASS_REQUIRE").unwrap_or_default();
    is_set("SSH_ASKPASS")
        && match require.as_str() {
            "never" => false,
            "force" | "prefer" => true,
            _ => is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"),
        }
}

/// Has a process run in a session of its own: neither it nor a proxy that it starts can read a terminal, and no signal
/// of one ends it.
fn without_terminal(command: &mut Command) {
    // SAFETY: setsid is safe between fork and exec, and touches no memory of ours.
    unsafe {
        command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(io::Error::from));
    }
}

/// The private folder of the sockets: in the home, where all of the user's processes find it; where that holds no
/// sockets, or has too long a path, in `/tmp`.
fn folder() -> Result<PathBuf, String> {
    if let Some(home) = std::env::home_dir() {
        let folder = home.join(".pilotfish").join("ssh");
        let fits = folder.as_os_str().len() + NAME_BYTES_MAX <= SOCKET_BYTES_MAX;
        if fits && make_private(&folder).is_ok() && holds_sockets(&folder) {
            return Ok(folder);
        }
    }
    let folder = PathBuf::from(format!("/tmp/pilotfish-ssh-{}", Uid::effective()));
    make_private(&folder)
        .map_err(|error| format!("failed to make {} for its socket: {error}", folder.display()))?;
    Ok(folder)
}

fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != Uid::effective().as_raw() {
        return Err(io::Error::other("it is not a folder of this user"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Some network file systems hold none.
fn holds_sockets(folder: &Path) -> bool {
    let path = folder.join(format!(".{}", std::process::id()));
    let is_bound = match UnixListener::bind(&path) {
        Ok(_) => true,
        // Another thread tries the same at this moment.
        Err(error) => error.kind() == ErrorKind::AddrInUse,
    };
    // It is there if it was bound.
    let _ = fs::remove_file(&path);
    is_bound
}

/// A connection that is there.
pub(super) struct Master {
    socket: PathBuf,
    /// While this is open the master does not end; it ends with the master.
    hold: UnixStream,
    /// What is forwarded for us.
    forwards: Mutex<Vec<String>>,
    /// Options for commands that use the connection.
    overrides: Vec<String>,
}

impl Master {
    /// The master at a socket, if one answers there.
    pub(super) fn at(socket: PathBuf) -> Option<Master> {
        let hold = match UnixStream::connect(&socket) {
            Ok(hold) => hold,
            Err(error) => {
                if error.kind() == ErrorKind::ConnectionRefused {
                    // It is what a master left that was killed; `ssh` makes no new one in its place.
                    let _ = fs::remove_file(&socket);
                }
                return None;
            }
        };
        hold.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
        let mut length = [0; 4];
        (&hold).read_exact(&mut length).ok()?;
        let mut hello = vec![0; usize::try_from(u32::from_be_bytes(length)).ok()?.min(HELLO_BYTES_MAX)];
        (&hold).read_exact(&mut hello).ok()?;
        hold.set_nonblocking(true).ok()?;
        hello.starts_with(&HELLO).then_some(Master {
            socket,
            hold,
            forwards: Mutex::default(),
            overrides: Vec::new(),
        })
    }

    /// The same, whose commands get these options.
    pub(super) fn with_overrides(mut self, overrides: Vec<String>) -> Master {
        self.overrides = overrides;
        self
    }

    /// Whether the connection is there still, and its socket, without which it is of no use.
    pub(super) fn is_alive(&self) -> bool {
        if !self.socket.exists() {
            return false;
        }
        match (&self.hold).read(&mut [0; 64]) {
            Ok(n) => n > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }

    /// The words by which `ssh` uses this connection and never another: without the master its proxy is `false`.
    pub(super) fn client_words(&self) -> Vec<String> {
        let options = [
            "ControlMaster=no",
            "BatchMode=yes",
            "ProxyCommand=false",
            "ClearAllForwardings=yes",
            "PermitLocalCommand=no",
            "LogLevel=ERROR",
        ];
        let socket = self.socket.display().to_string().replace('%', "%%");
        let options = options.map(str::to_owned).into_iter().chain(self.overrides.iter().cloned());
        let options = options.flat_map(|option| ["-o".to_owned(), option]);
        ["-T".to_owned(), "-S".to_owned(), socket].into_iter().chain(options).collect()
    }

    async fn control(&self, order: &str, words: &[&str]) -> Result<String, String> {
        control(&self.socket, order, words).await
    }

    /// Listens there; gives the port. Who asks for the same again is given the same port.
    pub(super) async fn forward(&self, to: SocketAddr) -> Result<u16, String> {
        let way = format!("127.0.0.1:0:{to}");
        let key = (self.socket.clone(), way.clone());
        *forwards().entry(key.clone()).or_default() += 1;
        let said = self.control("forward", &["-R", &way]).await;
        let port = said.and_then(|said| {
            said.trim().parse().map_err(|_| format!("ssh -O forward named no port: {}", said.trim()))
        });
        match port {
            Ok(port) => {
                self.forwards.lock().unwrap_or_else(PoisonError::into_inner).push(way);
                Ok(port)
            }
            Err(why) => {
                is_last(&key);
                Err(why)
            }
        }
    }

    /// Listens no more for us. What others of this process have asked for, too, stays.
    pub(super) async fn end_forwards(&self) {
        let ways = std::mem::take(&mut *self.forwards.lock().unwrap_or_else(PoisonError::into_inner));
        for way in ways {
            if is_last(&(self.socket.clone(), way.clone())) {
                // Where the connection has ended there is nothing to take back.
                let _ = self.control("cancel", &["-R", &way]).await;
            }
        }
    }

    /// Ends the connection, for all who share it.
    pub(super) async fn close(&self) {
        // It may have ended already.
        let _ = self.control("exit", &[]).await;
        let began = Instant::now();
        // Until then its socket may be there still.
        while self.is_alive() && began.elapsed() < ANSWER_LIMIT {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Asks the master at a socket for something; gives what it says.
async fn control(socket: &Path, order: &str, words: &[&str]) -> Result<String, String> {
    let socket = socket.display().to_string().replace('%', "%%");
    let mut command = Command::new("ssh");
    command.args(["-F", "/dev/null", "-S", &socket, "-O", order]).args(words).args(["--", "master"]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    without_terminal(&mut command);
    let output = tokio::time::timeout(ANSWER_LIMIT, command.output()).await;
    let output = output.map_err(|_| format!("ssh -O {order} gave no answer in {ANSWER_LIMIT:?}"))?;
    let output = output.map_err(|error| format!("failed to run ssh: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(verdict::words(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// Takes back all that masters forward for this process: those that a person has opened outlive it.
pub(in crate::transport) async fn end_all_forwards() {
    let all = std::mem::take(&mut *forwards());
    for (socket, way) in all.into_keys() {
        // Where the connection has ended there is nothing to take back.
        let _ = control(&socket, "cancel", &["-R", &way]).await;
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let ways = std::mem::take(self.forwards.get_mut().unwrap_or_else(PoisonError::into_inner));
        ways.into_iter().for_each(|way| _ = is_last(&(self.socket.clone(), way)));
    }
}

/// How many of this process use what a master forwards.
type Forwards = BTreeMap<(PathBuf, String), usize>;

fn forwards() -> MutexGuard<'static, Forwards> {
    static ALL: Mutex<Forwards> = Mutex::new(BTreeMap::new());
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note that one uses it no more; says whether that was the last.
fn is_last(key: &(PathBuf, String)) -> bool {
    let mut all = forwards();
    let n = all.get(key).map_or(0, |n| n.saturating_sub(1));
    match n {
        0 => _ = all.remove(key),
        n => _ = all.insert(key.clone(), n),
    }
    n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masters(lines: &str) -> Vec<String> {
        let address = Address::read("Word").expect("an address");
        let said = Said(format!("hostname a.org\nport 23\nuser ada\n{lines}"));
        of_user(&address, &said).iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_master_of_the_user_is_looked_for_where_ssh_has_it() {
        assert_eq!(masters("controlpath none\n"), [""; 0]);
        assert_eq!(masters("controlpath /m/%k-%n-%h-%p-%r-%%\n"), ["/m/Word-Word-a.org-23-ada-%"]);
        assert_eq!(masters("controlpath /m/%k\nhostkeyalias farm\n"), ["/m/farm"]);
        assert_eq!(masters("controlpath /m/%j\nproxyjump x,bob@gate:24\n"), ["/m/gate", "/m/"]);
        // Programs differ in whether the jump host counts.
        let [new, old] = &masters("controlpath /m/%C\nproxyjump gate\n")[..] else { panic!("two of them") };
        assert_eq!(masters("controlpath /m/%C\n"), [old.as_str()]);
        assert!(new != old && new.len() == old.len());
    }
}
