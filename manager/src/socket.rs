//! Sockets that listen.

use std::{io, net::SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted at most; the system may allow fewer. Of a thousand pilots that
/// come at once, those beyond would try again only after a second.
const N_WAITING_MAX: u32 = 16_384;

/// Listens there.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port that the manager of before has just left is free.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(N_WAITING_MAX)
}
