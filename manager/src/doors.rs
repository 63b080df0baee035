//! Doors for pilots that cannot reach this host. Each platform behind a tunnel of ours has its own: a port on the
//! loopback address, at which the tunnel ends. Who comes through a door is served as a pilot of its platform or not at
//! all (`api::doors`).

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use protocol::files::private::make_folder;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::AbortHandle,
};

use crate::{security::private_file::write_private, socket::bind};

/// In the manager's folder, the ports of the doors, each in a file with its platform's name.
const DOORS_FOLDER: &str = "doors";
/// Connections that the API has not taken yet.
const N_WAITING_MAX: usize = 64;
/// After a connection could not be accepted, as when the process has no file left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that came through a door.
pub struct Arrival {
    /// Where it is spoken with.
    pub(crate) stream: TcpStream,
    /// The platform whose door it is.
    pub(crate) platform: Arc<str>,
}

/// All doors of a manager. Cheap to clone.
#[derive(Clone)]
pub struct Doors {
    folder: PathBuf,
    arrivals: mpsc::Sender<Arrival>,
}

/// The place for a platform's door.
pub struct Doorway {
    platform: Arc<str>,
    port_file: PathBuf,
    arrivals: mpsc::Sender<Arrival>,
}

/// An open door. Dropped, it is closed, and those who came through it stay.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    listening: AbortHandle,
}

impl Doors {
    /// Doors whose ports are kept in the manager's folder, and those who come through them.
    pub fn new(folder: &Path) -> (Doors, mpsc::Receiver<Arrival>) {
        let (arrivals, arrived) = mpsc::channel(N_WAITING_MAX);
        (Doors { folder: folder.join(DOORS_FOLDER), arrivals }, arrived)
    }

    /// For a platform's door.
    pub fn of(&self, platform: &str) -> Doorway {
        Doorway {
            platform: platform.into(),
            port_file: self.folder.join(platform),
            arrivals: self.arrivals.clone(),
        }
    }
}

impl Doorway {
    /// Opens the door, at the port of last time if that is free: a connection that outlives the manager still leads
    /// there. Needs a runtime of tokio.
    ///
    /// # Errors
    /// No port is free, or it cannot be kept.
    pub fn open(&self) -> io::Result<Door> {
        let kept = fs::read_to_string(&self.port_file).ok();
        let last = kept.and_then(|text| text.trim().parse::<u16>().ok());
        let at = |port| bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let listener = last.and_then(|port| at(port).ok()).map_or_else(|| at(0), Ok)?;
        let address = listener.local_addr()?;
        self.port_file.parent().map_or(Ok(()), make_folder)?;
        write_private(&self.port_file, format!("{}\n", address.port()).as_bytes())?;
        let listening = tokio::spawn(listen(listener, self.platform.clone(), self.arrivals.clone()));
        Ok(Door { address, listening: listening.abort_handle() })
    }
}

impl Door {
    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Until the API takes nobody any more.
async fn listen(listener: TcpListener, platform: Arc<str>, arrivals: mpsc::Sender<Arrival>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if arrivals.send(Arrival { stream, platform: platform.clone() }).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until nobody listens there any more.
    async fn until_closed(address: SocketAddr) {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_door_is_where_it_was_if_that_is_free_and_leads_in_under_its_platforms_name() {
        let folder = tempfile::tempdir().unwrap();
        let (doors, mut arrived) = Doors::new(folder.path());
        let (far, near) = (doors.of("far").open().unwrap(), doors.of("near").open().unwrap());
        let address = far.address();
        assert!(address.ip().is_loopback() && address != near.address());
        let _client = TcpStream::connect(near.address()).await.unwrap();
        assert_eq!(&*arrived.recv().await.unwrap().platform, "near");
        drop(far);
        until_closed(address).await;
        let far = doors.of("far").open().unwrap();
        assert_eq!(far.address(), address);
        let second = doors.of("far").open().unwrap();
        assert_ne!(second.address(), address, "two are at one port");
    }
}
