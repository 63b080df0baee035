//! One connection, driven by one thread: commands and streams take turns on it. libssh2 mixes up packets if
//! another call comes between the halves of one that could not send all: so what sends does so to its end,
//! and only what receives gives way.

pub(super) mod reply;

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ssh2::{Channel, ErrorCode, Listener};

use self::reply::{Answer, Broken};
use super::{
    exec::{Closing, Exec},
    pipe::{Local, Pipe},
    wire::Wire,
};
use crate::command::Output;

/// So often something is sent, for firewalls that forget who is silent. It asks for no answer: libssh2 would
/// take that for the answer to a request of ours. That a host is gone is seen by TCP.
const KEEPALIVE_S: u32 = 30;
/// What one reads may be what another has waited for in vain a moment before: a larger window, the end of a command.
/// So everybody is asked again after these times, before a longer wait begins; after each news anew.
const ASK_AGAIN: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];
/// `POLLRDHUP`, for which nix has no word.
const HUNG_UP: PollFlags = PollFlags::from_bits_retain(0x2000);
/// How often a session is asked for again, and after which pauses, if none of ours is open: a host may count the one
/// before it for a moment longer.
const N_SESSION_TRIES: usize = 20;
const SESSION_PAUSE: Duration = Duration::from_millis(50);
/// `LIBSSH2_ERROR_CHANNEL_FAILURE`, `LIBSSH2_ERROR_REQUEST_DENIED`: no to this, and to nothing else.
const DENIED: [ErrorCode; 2] = [ErrorCode::Session(-21), ErrorCode::Session(-32)];

pub(crate) enum Order {
    /// Run a command line.
    Run { line: String, stdin: Vec<u8>, until: Instant, answer: Answer<Output> },
    /// Connect to a host from there.
    Connect { host: String, port: u16, answer: mpsc::Sender<Result<UnixStream, Broken>> },
    /// Listen there, and connect who comes to this address here; gives the port.
    Forward { to: SocketAddr, answer: Answer<u16> },
}

/// A connection that is there. It ends with the last of these.
#[derive(Clone)]
pub(crate) struct Line {
    orders: mpsc::Sender<Order>,
    /// A byte wakes the thread; its end ends it.
    bell: Arc<UnixStream>,
}

impl Line {
    /// Drives a session that is logged in. `before`: the connection that carries it.
    pub(crate) fn start(wire: Wire, before: Option<Line>) -> std::io::Result<Line> {
        let (bell, ears) = UnixStream::pair()?;
        ears.set_nonblocking(true)?;
        let (orders, incoming) = mpsc::channel();
        wire.session.set_keepalive(false, KEEPALIVE_S);
        let driver = Driver {
            wire,
            incoming,
            ears,
            execs: Vec::new(),
            closing: Vec::new(),
            pipes: Vec::new(),
            door: None,
            n_quiet: 0,
            _before: before,
        };
        std::thread::Builder::new().name("ssh".into()).spawn(move || driver.run())?;
        Ok(Line { orders, bell: Arc::new(bell) })
    }

    /// Whether nothing can be asked of it any more.
    pub(crate) fn has_ended(&self) -> bool {
        // The thread's end of the bell goes with it.
        (&*self.bell).write(&[0]).is_err()
    }

    /// Gives an order; gives it back if the connection has ended.
    pub(crate) fn give(&self, order: Order) -> Result<(), Order> {
        self.orders.send(order).map_err(|refused| refused.0)?;
        // If nobody hears it, the order's answer is dropped, which says the same.
        let _ = (&*self.bell).write(&[0]);
        Ok(())
    }
}

struct Driver {
    wire: Wire,
    incoming: mpsc::Receiver<Order>,
    ears: UnixStream,
    execs: Vec<Exec>,
    closing: Vec<Closing>,
    pipes: Vec<Pipe>,
    door: Option<(Listener, SocketAddr)>,
    /// How often nothing has moved since there was news.
    n_quiet: usize,
    _before: Option<Line>,
}

impl Driver {
    fn run(mut self) {
        let why = loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break "closed".to_owned(),
                Err(error) => break error,
            }
        };
        // What was not taken yet is for the next connection.
        drop(std::mem::replace(&mut self.incoming, mpsc::channel().1));
        for exec in self.execs.drain(..) {
            exec.end(Err(Broken::Lost(why.clone())));
        }
        // The other side may be gone already.
        let _ = self.wire.sending(|session| session.disconnect(None, &why, None));
    }

    /// Does what can be done, then waits; `false`: nobody needs the connection any more.
    fn turn(&mut self) -> Result<bool, String> {
        loop {
            match self.incoming.try_recv() {
                Ok(order) => self.take(order)?,
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) if self.pipes.is_empty() => return Ok(false),
                Err(mpsc::TryRecvError::Disconnected) => break,
            }
        }
        while self.step()? {
            self.n_quiet = 0;
        }
        let now = Instant::now();
        let late = self.execs.extract_if(.., |exec| exec.until <= now);
        self.closing.extend(late.map(|exec| exec.end(Err(Broken::TimedOut))));
        self.wait()?;
        Ok(true)
    }

    fn take(&mut self, order: Order) -> Result<(), String> {
        match order {
            Order::Run { line, stdin, until, answer } => match self.begin(&line)? {
                Ok(channel) => {
                    self.execs.push(Exec::new(channel, stdin, until, answer));
                    Ok(())
                }
                Err(why) => tell(Err(why), |result| drop(answer.send(result))),
            },
            Order::Connect { host, port, answer } => {
                tell(self.connect(&host, port), |result| drop(answer.send(result)))
            }
            Order::Forward { to, answer } => tell(self.forward(to), |result| drop(answer.send(result))),
        }
    }

    /// Begins a command line in a session of its own. The outer error: the connection is lost, and nothing was begun.
    fn begin(&mut self, line: &str) -> Result<Result<Channel, Broken>, String> {
        let mut n_tried = 0;
        loop {
            n_tried += 1;
            let opened = self.wire.sending(|session| session.channel_session()).map_err(broken);
            match opened {
                Ok(mut channel) => {
                    let begun = self.wire.sending(|_| channel.exec(line)).map_err(broken);
                    return Ok(begun.map(|()| channel));
                }
                Err(Broken::Denied(_)) if self.execs.is_empty() && n_tried < N_SESSION_TRIES => {
                    std::thread::sleep(SESSION_PAUSE);
                    self.step()?;
                }
                Err(Broken::Denied(why)) => return Ok(Err(Broken::NoSession(why))),
                Err(why) => return Ok(Err(why)),
            }
        }
    }

    fn forward(&mut self, to: SocketAddr) -> Result<u16, Broken> {
        let begun = self.wire.sending(|session| session.channel_forward_listen(0, Some("127.0.0.1"), None));
        let (listener, port) = begun.map_err(broken)?;
        self.door = Some((listener, to));
        Ok(port)
    }

    fn connect(&mut self, host: &str, port: u16) -> Result<UnixStream, Broken> {
        let begun = self.wire.sending(|session| session.channel_direct_tcpip(host, port, None));
        let channel = begun.map_err(broken)?;
        let pair = UnixStream::pair().and_then(|(ours, theirs)| {
            ours.set_nonblocking(true)?;
            Ok((ours, theirs))
        });
        let (ours, theirs) = pair.map_err(|error| Broken::Denied(error.to_string()))?;
        self.pipes.push(Pipe::new(channel, Local::Unix(ours)));
        Ok(theirs)
    }

    /// One round of everybody; says whether anything moved.
    fn step(&mut self) -> Result<bool, String> {
        let mut moved = false;
        let mut n = 0;
        while n < self.execs.len() {
            moved |= self.execs[n].step(&self.wire).map_err(|error| error.to_string())?;
            match self.execs[n].result() {
                Some(result) => self.closing.push(self.execs.swap_remove(n).end(result)),
                None => n += 1,
            }
        }
        let mut still_open = Vec::new();
        for mut closing in self.closing.drain(..) {
            if !closing.is_closed(&self.wire).map_err(|error| error.to_string())? {
                still_open.push(closing);
            }
        }
        self.closing = still_open;
        for pipe in &mut self.pipes {
            moved |= pipe.step(&self.wire).map_err(|error| error.to_string())?;
        }
        self.pipes.retain(|pipe| !pipe.is_done());
        if let Some((listener, to)) = &mut self.door {
            match self.wire.receiving(|| Ok(listener.accept()?)) {
                Ok(channel) => {
                    moved = true;
                    self.pipes.extend(visitor(&self.wire, channel, *to));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(moved)
    }

    fn listens(&self) -> bool {
        self.door.is_some() || !self.execs.is_empty() || !self.closing.is_empty() || !self.pipes.is_empty()
    }

    /// Until there is news, or it is time for something.
    fn wait(&mut self) -> Result<(), String> {
        let lost = |error: ssh2::Error| error.to_string();
        let next_sign = self.wire.sending(|session| session.keepalive_send()).map_err(lost)?;
        let now = Instant::now();
        let mut until = now + Duration::from_secs(u64::from(next_sign.max(1)));
        until = self.execs.iter().map(|exec| exec.until).fold(until, Instant::min);
        if let Some(again) = ASK_AGAIN.get(self.n_quiet).filter(|_| self.listens()) {
            until = until.min(now + *again);
        }
        let timeout = PollTimeout::try_from(until.saturating_duration_since(now)).unwrap_or(PollTimeout::MAX);

        // Nobody takes what comes while nothing is open; only its end is of interest.
        let of_socket = if self.listens() { PollFlags::POLLIN } else { HUNG_UP };
        let mut all = vec![
            PollFd::new(self.wire.socket.as_fd(), of_socket),
            PollFd::new(self.ears.as_fd(), PollFlags::POLLIN),
        ];
        all.extend(self.pipes.iter().filter_map(|pipe| Some(PollFd::new(pipe.as_fd(), pipe.waits_for()?))));
        self.n_quiet = match poll(&mut all, timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => self.n_quiet.saturating_add(1),
            Ok(_) => 0,
            Err(error) => return Err(error.to_string()),
        };
        match all[0].revents() {
            Some(events) if events.is_empty() || events.contains(PollFlags::POLLIN) => {}
            _ => return Err("the other side hung up".into()),
        }
        // Orders are counted by their own queue.
        let _ = self.ears.read(&mut [0; 64]);
        Ok(())
    }
}

/// Connects who came to our port there with the address here; who cannot be, is hung up on.
fn visitor(wire: &Wire, mut channel: Channel, to: SocketAddr) -> Option<Pipe> {
    let local = TcpStream::connect_timeout(&to, Duration::from_secs(10)).and_then(|local| {
        local.set_nodelay(true)?;
        local.set_nonblocking(true)?;
        Ok(local)
    });
    match local {
        Ok(local) => Some(Pipe::new(channel, Local::Tcp(local))),
        Err(_) => {
            // The visitor sees that the connection ends.
            let _ = wire.sending(|_| channel.close());
            None
        }
    }
}

fn broken(error: ssh2::Error) -> Broken {
    match DENIED.contains(&error.code()) {
        true => Broken::Denied(error.message().to_owned()),
        false => Broken::Lost(error.message().to_owned()),
    }
}

/// Answers whoever asked. Error: what breaks the whole connection.
fn tell<T>(result: Result<T, Broken>, answer: impl FnOnce(Result<T, Broken>)) -> Result<(), String> {
    let lost = match &result {
        Err(Broken::Lost(what)) => Err(what.clone()),
        _ => Ok(()),
    };
    answer(result);
    lost
}
