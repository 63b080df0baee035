//! Ports for servers that must be told one before they start.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::fd::AsRawFd,
};

/// Ports are given away in rows of so many.
const N_IN_ROW: u16 = 8;
/// The first row; well below there are those of well-known services.
const FIRST: u16 = 12_000;
/// From here on, unless it says otherwise, the kernel gives ports to whoever asks for any.
const OF_KERNEL: u16 = 32_768;

/// The first of `n` free ports in a row. Nobody is given one of them who asks for any port, and no other test while
/// this process lives, so that a server that takes seconds to start finds them free.
pub fn free_ports(n: u16) -> u16 {
    assert!(n <= N_IN_ROW, "a row has {N_IN_ROW} ports");
    let folder = std::env::temp_dir().join("pilotfish-test-ports");
    fs::create_dir_all(&folder).expect("a folder");
    let n_rows = (of_kernel() - FIRST) / N_IN_ROW;
    let start = std::process::id() % u32::from(n_rows);
    let mut rows = (0..n_rows).map(|row| (u32::from(row) + start) % u32::from(n_rows));
    let row = rows.find(|row| {
        let first = first_of(*row);
        let Ok(file) = File::create(folder.join(first.to_string())) else { return false };
        // SAFETY: the descriptor is open.
        let is_ours = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        let is_free =
            is_ours && (first..first + n).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
        if is_free {
            // Kept until this process ends.
            std::mem::forget(file);
        }
        is_free
    });
    first_of(row.expect("free ports"))
}

fn first_of(row: u32) -> u16 {
    FIRST + u16::try_from(row).expect("few rows") * N_IN_ROW
}

fn of_kernel() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    // Where the kernel gives away nearly all, ours may be taken: nothing better is to be had.
    first.filter(|first| *first > FIRST + 100 * N_IN_ROW).unwrap_or(OF_KERNEL)
}
