//! The connections of a relay (visitors) and their forwarding. A stranger is a visitor to which the manager
//! has sent nothing yet, or sends nothing more. If all places are taken, a new visitor replaces the oldest
//! stranger; without a stranger it is turned away. So silent connections keep out no pilot, and never end the
//! connection of a pilot that waits for an answer.

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

/// The most connections that a manager accepts.
const N_VISITORS_MAX: u64 = 16_384;
/// File descriptors besides those of visitors: streams, listener, event loop, the target's file, a new
/// visitor.
const N_FILES_KEPT: u64 = 32;
/// Time after which a visitor that reads nothing is given up; the manager's limit is 30 s.
const TAKE_LIMIT: Duration = Duration::from_secs(60);
/// Time for each side to get the last bytes of the other side.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// Size of one read.
const PIECE_BYTES: usize = 8 << 10;

/// Returns the number of visitors for this many open files: each needs its connection and one to the manager.
pub(super) fn n_places(n_files: u64) -> usize {
    let n_places = (n_files.saturating_sub(N_FILES_KEPT) / 2).clamp(1, N_VISITORS_MAX);
    usize::try_from(n_places).unwrap_or(usize::MAX)
}

/// Forwards all visitors to the port in the file `target`, at most `n_max` at a time.
pub(super) async fn accept(listener: TcpListener, target: &Path, n_max: usize) -> Infallible {
    // Without keepalive, visitors that vanish keep their places.
    let _ = notice_the_vanished(&listener);
    let mut crowd = Crowd { n_max, visitors: VecDeque::new() };
    loop {
        match listener.accept().await {
            Ok((visitor, _)) => {
                if crowd.make_room().await {
                    crowd.admit(visitor, target);
                }
            }
            // The system has no more files; connections that end make room.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Makes the kernel probe silent visitors (keepalive): accepted connections inherit the listener's options.
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
    /// The visitors at the last check, oldest first.
    visitors: VecDeque<Visitor>,
}

struct Visitor {
    is_served: Arc<AtomicBool>,
    carrying: JoinHandle<()>,
}

impl Crowd {
    /// Returns whether there is room for one more visitor; sends away a stranger if need be.
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
        // Its files are closed after that; its result does not matter.
        let _ = stranger.carrying.await;
        true
    }

    fn admit(&mut self, visitor: TcpStream, target: &Path) {
        let (target, is_served) = (target.to_owned(), Arc::new(AtomicBool::new(false)));
        let is_served_now = Arc::clone(&is_served);
        let carrying = tokio::spawn(async move {
            // Without the manager, the pilot tries again.
            if let Ok(tunnel) = connect(&target).await {
                carry(visitor, tunnel, &is_served_now).await;
            }
        });
        self.visitors.push_back(Visitor { is_served, carrying });
    }
}

/// Forwards both directions until the manager's side has ended. The pilot replaces a broken connection.
async fn carry(mut visitor: TcpStream, mut tunnel: TcpStream, is_served: &AtomicBool) {
    // Without this option there is only more delay.
    let _ = visitor.set_nodelay(true);
    let (mut from_visitor, mut to_visitor) = visitor.split();
    let (mut from_tunnel, mut to_tunnel) = tunnel.split();
    let up = async {
        if copy(&mut from_visitor, &mut to_tunnel).await.is_ok() && to_tunnel.shutdown().await.is_ok() {
            // The visitor has sent its request and waits for the answer.
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
    // The end is the same in all cases.
    tokio::select! { () = up => {} _ = down => {} }
    is_served.store(false, Relaxed);
    drop(tunnel);
    // The visitor may be gone. Closing with unread bytes might lose the last bytes sent.
    let _ = to_visitor.shutdown().await;
    let _ = timeout(CLOSE_LIMIT, copy(&mut from_visitor, &mut sink())).await;
}

#[cfg(test)]
mod tests;
