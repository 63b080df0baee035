//! Who comes to a relay, and what goes between each and the manager. A stranger is a visitor to whom the manager has
//! said nothing yet, or nothing more. When all places are taken the oldest stranger gives its place to a newcomer;
//! when nobody is a stranger, newcomers are turned away. So whoever only comes and is silent keeps out no pilot, nor
//! ends the connection of one that waits for an answer.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::pending,
    io,
    os::fd::AsRawFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::connect;

/// As many connections as a manager takes.
const N_VISITORS_MAX: u64 = 16_384;
/// Descriptors that are no visitor's: streams, listener, event loop, the target's file, a newcomer.
const N_FILES_KEPT: u64 = 32;
/// A visitor that takes nothing of what it is sent for so long has no use for it; the manager's patience is 30 s.
const TAKE_LIMIT: Duration = Duration::from_secs(60);
/// How long either side may take to hear the last that the other has said.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// Passed on at a time.
const PIECE_BYTES: usize = 8 << 10;

/// How many may be here at once with this many files: each has a connection, and one of its own to the manager.
pub(super) fn n_places(n_files: u64) -> usize {
    let n_places = (n_files.saturating_sub(N_FILES_KEPT) / 2).clamp(1, N_VISITORS_MAX);
    usize::try_from(n_places).unwrap_or(usize::MAX)
}

/// Leads all who come to where the file says, so many at once.
pub(super) async fn accept(listener: TcpListener, target: &Path, n_max: usize) -> Infallible {
    // Where that cannot be had, those who vanish stay.
    let _ = notice_the_vanished(&listener);
    let mut crowd = Crowd { n_max, visitors: VecDeque::new() };
    loop {
        match listener.accept().await {
            Ok((visitor, _)) => {
                if crowd.make_room().await {
                    crowd.admit(visitor, target);
                }
            }
            // The system has no more files: those that end make room.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Has the kernel ask silent visitors whether they are still there: whoever is accepted has what the listener has.
fn notice_the_vanished(listener: &impl AsRawFd) -> io::Result<()> {
    let options: [(_, _, libc::c_int); 4] = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 15),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
    ];
    for (level, name, value) in options {
        let n_bytes = size_of_val(&value) as libc::socklen_t;
        // SAFETY: the value is a local of that size.
        let result = unsafe {
            libc::setsockopt(listener.as_raw_fd(), level, name, (&raw const value).cast(), n_bytes)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

struct Crowd {
    n_max: usize,
    /// Those that were here when last looked at, oldest first.
    visitors: VecDeque<Visitor>,
}

struct Visitor {
    is_served: Arc<AtomicBool>,
    carrying: JoinHandle<()>,
}

impl Crowd {
    /// Whether there is room for one more; a stranger is sent away for it.
    async fn make_room(&mut self) -> bool {
        if self.visitors.len() >= self.n_max {
            self.visitors.retain(|visitor| !visitor.carrying.is_finished());
        }
        if self.visitors.len() < self.n_max {
            return true;
        }
        let oldest = self.visitors.iter().position(|visitor| !visitor.is_served.load(Relaxed));
        let Some(stranger) = oldest.and_then(|n| self.visitors.remove(n)) else { return false };
        stranger.carrying.abort();
        // Its files are free after that; it does not matter how it ended.
        let _ = stranger.carrying.await;
        true
    }

    fn admit(&mut self, visitor: TcpStream, target: &Path) {
        let (target, is_served) = (target.to_owned(), Arc::new(AtomicBool::new(false)));
        let is_served_now = Arc::clone(&is_served);
        let carrying = tokio::spawn(async move {
            // Where the manager is not there the pilot tries again.
            if let Ok(tunnel) = connect(&target).await {
                carry(visitor, tunnel, &is_served_now).await;
            }
        });
        self.visitors.push_back(Visitor { is_served, carrying });
    }
}

/// Passes on what both say, until the manager has no more to say, whatever the visitor does. A connection that breaks
/// is begun again by the pilot.
async fn carry(mut visitor: TcpStream, mut tunnel: TcpStream, is_served: &AtomicBool) {
    // It only delays.
    let _ = visitor.set_nodelay(true);
    let (mut from_visitor, mut to_visitor) = visitor.split();
    let (mut from_tunnel, mut to_tunnel) = tunnel.split();
    let up = async {
        if copy(&mut from_visitor, &mut to_tunnel).await.is_ok() && to_tunnel.shutdown().await.is_ok() {
            // It has asked all that it wanted, and waits for the answer.
            pending::<()>().await;
        }
        sleep(CLOSE_LIMIT).await;
    };
    let down = async {
        let mut piece = vec![0; PIECE_BYTES];
        while let n @ 1.. = from_tunnel.read(&mut piece).await? {
            is_served.store(true, Relaxed);
            timeout(TAKE_LIMIT, to_visitor.write_all(&piece[..n])).await??;
        }
        Ok::<(), io::Error>(())
    };
    // However it ends, what follows is right.
    tokio::select! { () = up => {} _ = down => {} }
    is_served.store(false, Relaxed);
    drop(tunnel);
    // It may have gone. Closed with something unread, it might lose what was passed on last.
    let _ = to_visitor.shutdown().await;
    let _ = timeout(CLOSE_LIMIT, copy(&mut from_visitor, &mut sink())).await;
}

#[cfg(test)]
mod tests;
