//! Runs commands on a host reached by SSH, over one connection that is kept and made again when it is lost: by the
//! program `ssh` of this host, or by libssh2.

mod address;
mod asker;
mod exec;
mod key_file;
mod known_hosts;
mod libssh2;
mod line;
mod login;
mod openssh;
mod pipe;
mod route;
mod sftp;
mod sftp_stream;
mod tokens;
mod wire;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use profiles::site::SshProgram;

pub use asker::{Asker, Nobody, Prompt};
use libssh2::Libssh2;
use openssh::OpenSsh;
pub use sftp::{Sftp, SftpError};

use super::{Transport, TransportError};
use crate::{
    command::{Command, Output},
    script::quoted,
};

/// Printed before what a command says: what a login prints before that is not the command's.
const MARK: &str = "--pilotfish--";

/// Told where a host opens no further session on a connection.
const MORE_SESSIONS: &str = "the host opens no more sessions on this connection; ask its administrators for a higher \
    MaxSessions in its sshd_config (Pilotfish runs several commands at once)";

/// Told where a host runs something else than what it is asked to run.
const NO_SHELL: &str = "the host ran no command of ours: see `ForceCommand` in its sshd_config, `command=` of the key, \
    and the account's shell";

/// A command in messages.
fn at_host(command: &Command, host: &str) -> String {
    format!("{} on {host}", command.name)
}

/// The words of a host that ran something else than our command, with what to look at.
fn instead(words: &str) -> String {
    format!("{}; {NO_SHELL}", words.trim_end_matches('.'))
}

/// Takes back what connections forward for this process, where they outlive it.
pub async fn end_forwards() {
    openssh::end_all_forwards().await;
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    /// Nobody knows where it leads.
    #[error("found no way to {address}: {why}")]
    Unresolved {
        /// As it was written.
        address: String,
        /// Why.
        why: String,
    },
    /// The host, or what is before it, did not answer.
    #[error("failed to connect to {host} port {port}: {why}")]
    NotConnected {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// Why.
        why: String,
    },
    /// Nobody knows this host.
    #[error(
        "no known_hosts file has the key of {host} port {port}, {fingerprint}; compare it with what the site \
         publishes, then log in once by hand: {by_hand}"
    )]
    UnknownHostKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The key that it showed.
        fingerprint: String,
        /// The command that notes the key where the configuration has it looked for.
        by_hand: String,
    },
    /// It is another host, or has a new key.
    #[error(
        "the key of {host} port {port} is not the one in {}: it showed {fingerprint}; somebody may be in between. If \
         the site has published a new key: {}, then log in once by hand",
        file.as_ref().map_or("known_hosts".to_owned(), |file| file.display().to_string()),
        how_to_forget(known_as, file.as_deref())
    )]
    WrongHostKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The key that it showed.
        fingerprint: String,
        /// The name under which known_hosts files have it.
        known_as: String,
        /// The file with the other key; `None`: it is not known which one.
        file: Option<PathBuf>,
    },
    /// Somebody has said that this key is not to be trusted any more.
    #[error(
        "the key of {host} port {port}, {fingerprint}, is revoked in known_hosts; ask the site for its new key"
    )]
    RevokedHostKey {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The key that it showed.
        fingerprint: String,
    },
    /// The host asks for something that only a person can give.
    #[error("{host} does not let {user} in without a person; tried: {why}")]
    NeedsPerson {
        /// The host.
        host: String,
        /// As whom.
        user: String,
        /// By what, and why it failed.
        why: String,
    },
    /// The host does not take us.
    #[error("{host} does not let {user} in; tried: {tried}")]
    Refused {
        /// The host.
        host: String,
        /// As whom.
        user: String,
        /// By what, and why it failed.
        tried: String,
    },
    /// The person at the terminal has given up.
    #[error("the login to {host} was interrupted at the terminal")]
    Interrupted {
        /// The host.
        host: String,
    },
    /// They do not understand each other.
    #[error("failed to talk with {host}: {what}")]
    Broken {
        /// The host.
        host: String,
        /// Why.
        what: String,
    },
}

/// How a user removes the key of a host. The configuration may name another file than `ssh-keygen` takes by itself.
fn how_to_forget(known_as: &str, file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("ssh-keygen -f {} -R {}", word(&file.to_string_lossy()), word(known_as)),
        None => format!(
            "remove the line of {known_as} from the file that `ssh -G HOST` names as userknownhostsfile \
             (ssh-keygen -f FILE -R {})",
            word(known_as)
        ),
    }
}

/// A word for a shell, in quotes only where it needs them.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

impl SshError {
    /// Whether a person at a terminal could open the connection: who answers the host, or says that its key is right.
    pub fn needs_person(&self) -> bool {
        matches!(self, SshError::NeedsPerson { .. } | SshError::UnknownHostKey { .. })
    }
}

/// A host reached by SSH.
pub struct Ssh {
    way: Way,
    /// Why a person is needed, if the last connection was not made for want of one.
    waiting: Mutex<Option<String>>,
}

enum Way {
    OpenSsh(OpenSsh),
    Libssh2(Libssh2),
}

impl Ssh {
    /// A host that is connected to once something is to be run. `address`: `[user@]host[:port]`, where the host may be a
    /// word of the configuration; `config`: instead of `~/.ssh/config`; `program`: `None` stands for the program `ssh`
    /// where there is one.
    pub fn new(
        address: String,
        config: Option<String>,
        program: Option<SshProgram>,
        asker: Arc<dyn Asker>,
    ) -> Ssh {
        let is_openssh = match program {
            Some(program) => program == SshProgram::Openssh,
            None => openssh::is_installed(),
        };
        let way = match is_openssh {
            true => Way::OpenSsh(OpenSsh::new(address, config, asker)),
            false => Way::Libssh2(Libssh2::new(address, config, asker)),
        };
        Ssh { way, waiting: Mutex::default() }
    }

    /// The same with sockets of connections in this folder, which nobody else may enter.
    pub fn with_sockets_in(self, folder: PathBuf) -> Ssh {
        let way = match self.way {
            Way::OpenSsh(ssh) => Way::OpenSsh(ssh.with_sockets_in(folder)),
            way @ Way::Libssh2(_) => way,
        };
        Ssh { way, ..self }
    }

    /// Sees to it that there is a connection; gives its number: another one has another.
    ///
    /// # Errors
    /// There can be none.
    pub async fn connect(&self) -> Result<u64, TransportError> {
        self.noted(match &self.way {
            Way::OpenSsh(ssh) => ssh.connect().await.map_err(TransportError::from),
            Way::Libssh2(ssh) => ssh.connect().await,
        })
    }

    /// Sees to it that there is a connection that others of this user can use, opened by a person at the terminal of this
    /// process if there is none.
    ///
    /// # Errors
    /// There can be none.
    pub async fn log_in(&self) -> Result<(), TransportError> {
        self.noted(match &self.way {
            Way::OpenSsh(ssh) => ssh.log_in().await.map_err(TransportError::from),
            Way::Libssh2(ssh) => ssh.connect().await.map(drop),
        })
    }

    /// Listens on the host's loopback address, and connects who comes there with `to` here; gives the port.
    /// That ends with the connection: ask again when it is another.
    ///
    /// # Errors
    /// There is no connection, or the host does not allow it.
    pub async fn forward(&self, to: SocketAddr) -> Result<u16, TransportError> {
        self.noted(match &self.way {
            Way::OpenSsh(ssh) => ssh.forward(to).await,
            Way::Libssh2(ssh) => ssh.forward(to).await,
        })
    }

    /// Listens there no more, where the connection may outlive this process.
    pub async fn end_forwards(&self) {
        if let Way::OpenSsh(ssh) = &self.way {
            ssh.end_forwards().await;
        }
    }

    /// Whether there is a connection, perhaps one that somebody else has opened meanwhile. The host is not asked for one.
    pub async fn is_open(&self) -> bool {
        let is_open = match &self.way {
            Way::OpenSsh(ssh) => ssh.is_open().await,
            Way::Libssh2(ssh) => ssh.is_open().await,
        };
        if is_open {
            self.wait_for(None);
        }
        is_open
    }

    /// Whether others of this user can use the connection, too.
    pub fn is_shared(&self) -> bool {
        matches!(self.way, Way::OpenSsh(_))
    }

    /// Ends the connection, for all who share it.
    pub async fn close(&self) {
        match &self.way {
            Way::OpenSsh(ssh) => ssh.close().await,
            Way::Libssh2(ssh) => ssh.close().await,
        }
    }

    /// Why a person is needed to open the connection, if that is so.
    pub fn waits_for_person(&self) -> Option<String> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wait_for(&self, why: Option<String>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn noted<T>(&self, result: Result<T, TransportError>) -> Result<T, TransportError> {
        self.wait_for(match &result {
            Err(TransportError::NotConnected(error)) if error.needs_person() => Some(error.to_string()),
            _ => None,
        });
        result
    }
}

#[async_trait]
impl Transport for Ssh {
    async fn run(&self, command: &Command) -> Result<Output, TransportError> {
        self.noted(match &self.way {
            Way::OpenSsh(ssh) => ssh.run(command).await,
            Way::Libssh2(ssh) => ssh.run(command).await,
        })
    }
}

/// Lines of shell that kill whatever runs in the session of this shell, except the shell itself. sshd gives each
/// command a session of its own. Three rounds reach what is started meanwhile.
const KILL_SESSION: &str = "for round in 1 2 3; do for p in /proc/[0-9]*; do \
    { read -r line <\"$p/stat\"; } 2>/dev/null || continue; set -- ${line##*) }; \
    case \"$1 $4 ${p#/proc/}\" in [ZX]*|*\" $$\") ;; *\" $$ \"*) kill -KILL \"${p#/proc/}\" 2>/dev/null;; esac; \
    done; done";

/// Lines of shell that mark all that descends from this shell, by a value that nothing else there has.
const MARK_ALL: &str = "unset PILOTFISH_COMMAND; \
    { read -r PILOTFISH_COMMAND </proc/sys/kernel/random/uuid; } 2>/dev/null && export PILOTFISH_COMMAND";

/// Lines of shell that kill what has that mark, also in sessions of its own. The shell itself has it not, as it began
/// without it, and `grep` has another one.
const KILL_MARKED: &str = "[ -z \"$PILOTFISH_COMMAND\" ] || for round in 1 2 3; do \
    for p in $(PILOTFISH_COMMAND= grep -lsF \"PILOTFISH_COMMAND=$PILOTFISH_COMMAND\" /proc/[0-9]*/environ 2>/dev/null); do \
    p=${p#/proc/}; kill -KILL \"${p%/environ}\" 2>/dev/null; done; done";

/// Lines of shell that run the words `$@` and set `code`. The command ends soon after its limit. `timeout` ends as soon
/// as its own child does, so processes that ignore SIGTERM, or are in another process group, are killed after that.
fn within_limit(command: &Command) -> String {
    let limit_s = command.time_limit.as_secs() + 2;
    format!(
        "{MARK_ALL}; if command -v timeout >/dev/null; then timeout -k 5 {limit_s} \"$@\"; else \"$@\"; fi; code=$?; \
         case $code in 124|137) {KILL_SESSION}; {KILL_MARKED};; esac"
    )
}

/// The code of a command that a shell waited for: a shell says 128 and the signal's number of what was killed, which
/// has no code.
fn code_of_shell(code: i32) -> Option<i32> {
    Some(code).filter(|code| !(129..=192).contains(code))
}

/// The command for a login shell of any kind: it sees one line of words in single quotes, of which those of the
/// command are in a form that none changes, as csh does with `!` and line ends. It ends by itself soon after its
/// limit, so that none is left there that hangs.
fn shell_line(command: &Command) -> String {
    let run = within_limit(command);
    let begin =
        format!("eval \"set -- $(printf %b \"$1\")\"; echo {MARK}; echo {MARK} >&2; {run}; exit $code");
    let words = command.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!("exec /bin/sh -c {} sh {}", quoted(&begin), quoted(&in_octal(&words)))
}

/// As `printf %b` takes it, with no character but those that every shell leaves alone in single quotes.
fn in_octal(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" -_./=:,+@".contains(&byte);
    let shown =
        |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("\\0{byte:03o}") };
    text.bytes().map(shown).collect()
}

/// Whether a shell of ours has printed this.
fn has_mark(text: &str) -> bool {
    text.contains(&format!("{MARK}\n"))
}

fn after_mark(text: String) -> String {
    match text.split_once(&format!("{MARK}\n")) {
        Some((_, rest)) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
