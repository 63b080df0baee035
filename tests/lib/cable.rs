//! Two networks and a cable between them, in this process: each packet is lost, doubled or late as a
//! test wants. The kernel's own way (netem) is not there on every machine; TUN devices are.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::{self, File},
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, setns},
};

use crate::{luck::Luck, sweep::pause, text, until};

/// The manager's end.
pub const NEAR: &str = "10.77.0.1";
/// The pilots'.
pub const FAR: &str = "10.77.0.2";
/// How soon the cable notices that it is not needed any more.
const LOOK: Duration = Duration::from_millis(50);
const PACKET_BYTES_MAX: usize = 2048;

/// What happens to packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// None arrives.
    pub is_cut: bool,
    /// Of a hundred.
    pub lost: u64,
    /// Of a hundred.
    pub doubled: u64,
    /// How late a packet is, at least.
    pub delay: Duration,
    /// … and by how much more, at most: later packets may come earlier.
    pub jitter: Duration,
}

/// A network of its own. A process that waits for the end of its input holds it, so that it goes with
/// the test, however that ends.
pub struct Network {
    holder: Child,
}

impl Network {
    fn new() -> io::Result<Network> {
        let mut unshare = Command::new("unshare");
        let holder = unshare.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let mut network = Network { holder };
        let name = format!("/proc/{}/comm", network.holder.id());
        let mut has_ended = false;
        until("there is a network", || {
            pause();
            has_ended = network.holder.try_wait().is_ok_and(|status| status.is_some());
            has_ended || fs::read_to_string(&name).is_ok_and(|name| name.trim() == "cat")
        });
        if has_ended { Err(io::Error::other("no network of our own can be made")) } else { Ok(network) }
    }

    /// The file that stands for it.
    pub fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.holder.id())
    }

    /// From now on this thread is in it, with all threads and processes that it starts.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(File::open(self.path())?, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs a program in it.
    pub fn run(&self, words: &[&str]) -> io::Result<()> {
        let mut nsenter = Command::new("nsenter");
        let output = nsenter.arg(format!("--net={}", self.path())).args(words).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("{words:?}: {}", text(&output.stderr).trim())))
    }

    /// Plugs the cable in.
    fn device(&self, address: &str) -> io::Result<File> {
        self.run(&["ip", "tuntap", "add", "dev", "cable", "mode", "tun"])?;
        self.run(&["ip", "addr", "add", &format!("{address}/24"), "dev", "cable"])?;
        self.run(&["ip", "link", "set", "cable", "up"])?;
        self.run(&["ip", "link", "set", "lo", "up"])?;
        // A device belongs to the network in which it is opened.
        let opened = thread::scope(|scope| {
            scope
                .spawn(|| self.enter().and_then(|()| attach()))
                .join()
                .map_err(|_| io::Error::other("a panic"))
        });
        opened?
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The device of this thread's network, as a file of packets.
fn attach() -> io::Result<File> {
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: a structure of numbers, of which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"cable") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the request lives during the call, which reads and writes no more than it.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Both networks, connected.
pub struct Cable {
    /// The manager's.
    pub near: Network,
    /// The pilots'.
    pub far: Network,
    weather: Arc<Mutex<Weather>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Cable {
    /// `None`, with the reason printed, where that is not allowed.
    pub fn plug_in(seed: u64) -> Option<Cable> {
        match Cable::try_to(seed) {
            Ok(cable) => Some(cable),
            Err(error) => {
                crate::skipped(&format!("no networks of our own here: {error}"));
                None
            }
        }
    }

    fn try_to(seed: u64) -> io::Result<Cable> {
        let (near, far) = (Network::new()?, Network::new()?);
        let ends = [near.device(NEAR)?, far.device(FAR)?];
        let weather = Arc::new(Mutex::new(Weather::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let mut carrier = Carrier {
            ends,
            weather: weather.clone(),
            luck: Luck::new(seed),
            under_way: BinaryHeap::new(),
            n: 0,
        };
        let flag = is_over.clone();
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                carrier.carry();
            }
        });
        Ok(Cable { near, far, weather, is_over, thread: Some(thread) })
    }

    /// From now on packets fare like this.
    pub fn set(&self, weather: Weather) {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = weather;
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // It ends within a look; a panic of its own is no more than a cut.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// When it arrives, a number that keeps the order, at which end, and what.
type Packet = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct Carrier {
    ends: [File; 2],
    weather: Arc<Mutex<Weather>>,
    luck: Luck,
    under_way: BinaryHeap<Packet>,
    n: u64,
}

impl Carrier {
    /// Waits for a packet or until one is due.
    fn carry(&mut self) {
        let due =
            self.under_way.peek().map(|Reverse((due, ..))| due.saturating_duration_since(Instant::now()));
        let wait = due.unwrap_or(LOOK).min(LOOK).as_millis() as u16;
        let mut fds = self.ends.each_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
        // An interrupted wait is a short one.
        let _ = poll(&mut fds, PollTimeout::from(wait));
        let is_ready = fds.map(|fd| fd.any().unwrap_or(false));
        for from in (0..2).filter(|end| is_ready[*end]) {
            self.take_in(from);
        }
        self.deliver();
    }

    fn take_in(&mut self, from: usize) {
        let mut packet = [0; PACKET_BYTES_MAX];
        // A device that is gone has no packets.
        let Ok(n_bytes) = self.ends[from].read(&mut packet) else { return };
        let weather = *self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        let n_copies = 1 + u64::from(self.luck.between(0, 100) < weather.doubled);
        for _ in 0..n_copies {
            if weather.is_cut || self.luck.between(0, 100) < weather.lost {
                continue;
            }
            let jitter = Duration::from_micros(self.luck.between(0, weather.jitter.as_micros() as u64 + 1));
            let due = Instant::now() + weather.delay + jitter;
            self.n += 1;
            self.under_way.push(Reverse((due, self.n, 1 - from, packet[..n_bytes].to_vec())));
        }
    }

    fn deliver(&mut self) {
        while self.under_way.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
            let Some(Reverse((_, _, end, packet))) = self.under_way.pop() else { return };
            // A full device loses it, as devices do.
            let _ = self.ends[end].write(&packet);
        }
    }
}
