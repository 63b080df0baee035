//! Floors: what this machine takes for the steps that any such system has to make. Goals are ratios to floors of the same
//! run, so they mean the same on any machine.

use std::{
    ffi::CString,
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    ptr,
    time::Instant,
};

use crate::{
    Trouble, measure,
    place::{Folder, program},
};

/// What is measured so often has the middle of it for its floor.
const N_TIMES: usize = 200;
/// So often the command line is started.
const N_STARTS: usize = 20;
/// What a small request or its answer has.
const MESSAGE_BYTES: usize = 512;
/// A page of the store.
const PAGE_BYTES: usize = 4096;
const COPIED_BYTES: usize = 64 << 20;

/// Seconds of each step, the middle of many.
#[derive(Clone, Copy, Debug)]
pub struct Floors {
    /// Starting and reaping `/bin/true`, one at a time.
    pub spawn: f64,
    /// Writing a page and flushing it, where managers have their stores.
    pub fsync: f64,
    /// A small message over a loopback connection and one back.
    pub round_trip: f64,
    /// The command line, asked for its version only.
    pub start: f64,
    /// Copying a MiB of memory.
    pub copy: f64,
}

impl Floors {
    /// Measures all of them. Takes about a second.
    pub fn measure() -> Result<Floors, Trouble> {
        Ok(Floors {
            spawn: middle(N_TIMES, || spawns_a_second(1).map(drop))?,
            fsync: fsync_seconds()?,
            round_trip: round_trip_seconds()?,
            start: middle(N_STARTS, start)?,
            copy: copy_seconds(),
        })
    }

    /// What a task takes at least, from its submission to its end: a round trip, a commit and a process.
    pub fn of_task(&self) -> f64 {
        self.round_trip + self.fsync + self.spawn
    }
}

/// Seconds that something takes, the middle of so many times.
fn middle(n: usize, mut once: impl FnMut() -> Result<(), Trouble>) -> Result<f64, Trouble> {
    let mut seconds = Vec::new();
    for _ in 0..n {
        let began = Instant::now();
        once()?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(measure::percentiles(seconds).0)
}

fn fsync_seconds() -> Result<f64, Trouble> {
    let folder = Folder::new()?;
    let mut file = File::create(folder.path().join("floor"))?;
    middle(N_TIMES, || {
        file.write_all(&[1; PAGE_BYTES])?;
        Ok(file.sync_data()?)
    })
}

fn round_trip_seconds() -> Result<f64, Trouble> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut message = [0; MESSAGE_BYTES];
        // Until the other side has what it wants.
        while stream.read_exact(&mut message).is_ok() {
            stream.write_all(&message)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut message = [1; MESSAGE_BYTES];
    let seconds = middle(N_TIMES, || {
        stream.write_all(&message)?;
        Ok(stream.read_exact(&mut message)?)
    });
    drop(stream);
    echo.join().map_err(|_| "the thread that answers has panicked")??;
    seconds
}

fn start() -> Result<(), Trouble> {
    let mut command = Command::new(program()?);
    let status = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("pilotfish --version: {status}").into()) }
}

fn copy_seconds() -> f64 {
    let from = vec![1_u8; COPIED_BYTES];
    let mut to = vec![0_u8; COPIED_BYTES];
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        seconds.push(began.elapsed().as_secs_f64());
    }
    measure::percentiles(seconds).0 * (1 << 20) as f64 / COPIED_BYTES as f64
}

/// How many `/bin/true` this machine starts and reaps a second, two in flight, from one small program that does nothing
/// else. Nothing that runs processes can be faster.
pub fn spawns_a_second(n_spawns: u64) -> Result<f64, Trouble> {
    let program = CString::new("/bin/true")?;
    let argv = [program.as_ptr().cast_mut(), ptr::null_mut()];
    let envp = [ptr::null_mut()];
    let began = Instant::now();
    let (mut n_begun, mut n_ended) = (0, 0);
    while n_ended < n_spawns {
        while n_begun < n_spawns && n_begun - n_ended < 2 {
            let mut pid = 0;
            // SAFETY: the strings and lists live until the call returns, and the lists end with null.
            let error = unsafe {
                libc::posix_spawn(
                    &raw mut pid,
                    program.as_ptr(),
                    ptr::null(),
                    ptr::null(),
                    argv.as_ptr(),
                    envp.as_ptr(),
                )
            };
            if error != 0 {
                return Err(std::io::Error::from_raw_os_error(error).into());
            }
            n_begun += 1;
        }
        let mut status = 0;
        // SAFETY: the status is ours. No other child of this program is alive here.
        if unsafe { libc::waitpid(-1, &raw mut status, 0) } < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        n_ended += 1;
    }
    Ok(n_spawns as f64 / began.elapsed().as_secs_f64())
}
