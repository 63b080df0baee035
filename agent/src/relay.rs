//! A relay on a login node, for pilots on nodes that cannot reach the manager. It listens where the nodes can
//! connect, and forwards each connection to a port of its own host, which is the end of the manager's tunnel.
//! That port changes whenever the manager reconnects, so the relay reads it from a file each time; the
//! relay's own port stays. Without that file the relay ends.
//!
//! It cannot read the traffic, which is encrypted between pilot and manager. It does not authenticate; the
//! manager does, and accepts only pilots of this platform on this way.

mod visitors;

use std::{
    fs::{self, File},
    io::{self, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio::net::TcpStream;

use crate::{node, sys::private};

/// File with this host's name.
const HOSTNAME_FILE: &str = "/proc/sys/kernel/hostname";
/// File with the port of the tunnel's end on this host.
const TARGET_FILE: &str = "target";
/// File with the relay's port, for the next relay.
const PORT_FILE: &str = "port";
/// File that the running relay locks.
const LOCK_FILE: &str = "lock";
/// Time after which a missing tunnel counts as gone for ever.
const IDLE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Interval between checks of the tunnel.
const CONNECT_EVERY: Duration = Duration::from_secs(600);
/// Interval between checks of the file with the tunnel's port.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Time limit for connecting to the tunnel's end, which is on this host.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The reason why there is no relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A file cannot be used.
    #[error("the relay's {path:?} cannot be used: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// There is no port, or the process cannot be started.
    #[error("the relay cannot be started: {0}")]
    Start(#[source] io::Error),
}

/// Ensures that a relay runs on this host and leads to `target`; returns this host's name and the relay's
/// port. `words`: the arguments that start this program as a relay, before `--folder`.
///
/// # Errors
/// The relay's folder cannot be used, or the relay cannot be started.
pub fn ensure(folder: &Path, target: u16, words: &[String]) -> Result<(String, u16), RelayError> {
    // Several login nodes may share a home directory.
    let host = fs::read_to_string(HOSTNAME_FILE).map_err(RelayError::Start)?.trim().to_owned();
    let folder = folder.join(node::file_name(&host));
    let on = |path: &Path| {
        let path = path.to_owned();
        move |source| RelayError::File { path, source }
    };
    private::take_folder(&folder).map_err(on(&folder))?;
    write(&folder.join(TARGET_FILE), target)?;
    let lock_path = folder.join(LOCK_FILE);
    let lock = private::file_options().write(true).open(&lock_path).map_err(on(&lock_path))?;
    if !private::lock(&lock) {
        let path = folder.join(PORT_FILE);
        return Ok((host, read(&path).map_err(on(&path))?));
    }
    let listener = listen(read(&folder.join(PORT_FILE)).ok()).map_err(RelayError::Start)?;
    let port = listener.local_addr().map_err(RelayError::Start)?.port();
    write(&folder.join(PORT_FILE), port)?;
    start(&folder, words, listener, lock).map_err(RelayError::Start)?;
    Ok((host, port))
}

/// Listens on the port of the previous relay if it is free, else on any port.
fn listen(last: Option<u16>) -> io::Result<TcpListener> {
    let all = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))];
    let with = |port: u16| all.map(|address| SocketAddr::new(address.ip(), port));
    let last = last.map(with).into_iter().flatten();
    let all: Vec<SocketAddr> = last.chain(all).collect();
    TcpListener::bind(&*all)
}

/// Starts the relay in its own session: standard input is the listener, standard output the lock.
fn start(folder: &Path, words: &[String], listener: TcpListener, lock: File) -> io::Result<()> {
    let log = private::file_options().append(true).open(folder.join("relay.log"))?;
    let mut command = Command::new("/proc/self/exe");
    command
        .args(words)
        .arg("--folder")
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(lock)
        .stderr(log);
    // SAFETY: setsid is async-signal-safe. In its own session the relay outlives the login.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
    command.spawn().map(|_| ())
}

fn write(path: &Path, port: u16) -> Result<(), RelayError> {
    let on_file = |source| RelayError::File { path: path.to_owned(), source };
    let new = path.with_extension("new");
    let mut file = private::file_options().write(true).truncate(true).open(&new).map_err(on_file)?;
    writeln!(file, "{port}").map_err(on_file)?;
    fs::rename(&new, path).map_err(on_file)
}

fn read(path: &Path) -> io::Result<u16> {
    fs::read_to_string(path)?.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Runs the relay until its folder is removed or the tunnel has been gone for a day. Standard input is its
/// listener.
///
/// # Errors
/// There is no listener.
pub fn run(folder: &Path) -> io::Result<()> {
    let n_visitors_max = visitors::n_places(raise_file_limit());
    let listener = TcpListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        serve(tokio::net::TcpListener::from_std(listener)?, &folder.join(TARGET_FILE), n_visitors_max).await;
        Ok(())
    })
}

async fn serve(listener: tokio::net::TcpListener, target: &Path, n_visitors_max: usize) {
    tokio::select! {
        () = until_unneeded(target) => {}
        never = visitors::accept(listener, target, n_visitors_max) => match never {},
    }
}

async fn until_unneeded(target: &Path) {
    let (mut last_tried, mut last_there) = (Instant::now(), Instant::now());
    // If the check fails, the file may exist.
    while target.try_exists().unwrap_or(true) && last_there.elapsed() < IDLE_MAX {
        tokio::time::sleep(LOOK_EVERY).await;
        if last_tried.elapsed() > CONNECT_EVERY {
            last_tried = Instant::now();
            if connect(target).await.is_ok() {
                last_there = Instant::now();
            }
        }
    }
}

async fn connect(target: &Path) -> io::Result<TcpStream> {
    let port = read(target)?;
    let tunnel = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let tunnel = tokio::time::timeout(CONNECT_LIMIT, tunnel).await.map_err(|_| io::ErrorKind::TimedOut)??;
    tunnel.set_nodelay(true)?;
    Ok(tunnel)
}

/// Raises the limit of open files to the maximum, because each pilot needs two; returns the limit.
fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a local structure. If the limit cannot be raised, fewer pilots fit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raised) == 0 {
                limit = raised;
            }
        }
    }
    limit.rlim_cur
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_port_of_last_time_is_taken_again() {
        let first = listen(None).expect("a port");
        let port = first.local_addr().expect("its address").port();
        let other = listen(Some(port)).expect("another port");
        assert_ne!(other.local_addr().expect("its address").port(), port, "it is taken");
        drop(first);
        assert_eq!(listen(Some(port)).expect("a port").local_addr().expect("its address").port(), port);
    }

    #[tokio::test]
    async fn visitors_are_led_to_where_the_file_says_at_that_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join(TARGET_FILE);
        let relay = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = relay.local_addr().expect("its address");
        let file = target.clone();
        write(&target, 1).expect("the file");
        let relay = tokio::spawn(async move { serve(relay, &file, 16).await });
        for answer in ["first", "second"] {
            let manager = TcpListener::bind("127.0.0.1:0").expect("a port");
            write(&target, manager.local_addr().expect("its address").port()).expect("the file");
            let serving = std::thread::spawn(move || {
                let (mut visitor, _) = manager.accept().expect("a visitor");
                visitor.write_all(answer.as_bytes()).expect("an answer");
            });
            let mut said = String::new();
            let asking = tokio::task::spawn_blocking(move || {
                let mut stream = std::net::TcpStream::connect(address).expect("the relay");
                stream.read_to_string(&mut said).map(|_| said)
            });
            assert_eq!(asking.await.expect("a thread").expect("an answer"), answer);
            serving.join().expect("served");
        }
        fs::remove_file(&target).expect("the file was there");
        // Without its folder the relay ends.
        relay.await.expect("it ends");
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}
