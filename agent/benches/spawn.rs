//! Compares the number of `/bin/true` per second that the spawner runs with that of posix_spawn on this
//! machine.
//!
//! `cargo bench -p agent --bench spawn` prints tasks per second, their ratio to posix_spawn (the floor), and
//! the agent's own CPU time per task. Rounds alternate, because the speed of machines varies.

use std::{
    ffi::{CString, c_char},
    ptr,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use agent::spawn::{Environment, Exit, Launch, Output, Spawner};

const N_TASKS: usize = 4000;
const N_ROUNDS: usize = 5;
const N_SLOTS: usize = 2;
/// Number of programs that wait for each slot, as in a pilot.
const N_AHEAD: usize = 8;

fn main() {
    // Runs under a guard, like a pilot.
    std::process::exit(agent::guard::keeper::guard(compare).expect("a process"));
}

fn compare() -> i32 {
    let mut shares = Vec::new();
    for _ in 0..N_ROUNDS {
        let (floor, floor_cpu) = measure(floor);
        let (discard, discard_cpu) = measure(|n| spawner(n, &Output::Discard));
        let (archive, archive_cpu) = measure(|n| spawner(n, &Output::Archive { limit: 1 << 20 }));
        println!(
            "floor {floor:.0}/s ({floor_cpu:.0} µs)   discard {discard:.0}/s ({discard_cpu:.0} µs, {:.3})   captured {archive:.0}/s ({archive_cpu:.0} µs, {:.3})",
            discard / floor,
            archive / floor
        );
        shares.push(archive / floor);
    }
    shares.sort_by(f64::total_cmp);
    println!("median share of the floor, output captured: {:.3}", shares[N_ROUNDS / 2]);
    0
}

/// Returns the tasks per second, and our own CPU time per task in microseconds.
fn measure(run: impl FnOnce(usize)) -> (f64, f64) {
    let (started, cpu) = (Instant::now(), own_cpu_us());
    run(N_TASKS);
    let n = N_TASKS as f64;
    (n / started.elapsed().as_secs_f64(), (own_cpu_us() - cpu) / n)
}

fn own_cpu_us() -> f64 {
    // SAFETY: zeroed is a valid `rusage`, and the pointer is to a local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}

fn spawner(n_tasks: usize, output: &Output) {
    let (send, exits) = mpsc::channel();
    let tell = move |exits: Vec<Exit>| send.send(exits.len()).expect("the bench waits");
    let spawner = Spawner::start(1, tell).expect("threads");
    let shared =
        std::env::vars().map(|(name, value)| CString::new(format!("{name}={value}")).expect("no NUL"));
    let shared = Arc::new(shared.collect::<Vec<_>>());
    let launch = |token: usize| Launch {
        token: token as u64,
        slot: token % N_SLOTS,
        argv: vec!["/bin/true".into()],
        environment: Environment {
            shared: Arc::clone(&shared),
            own: vec![CString::new(format!("PILOTFISH_TASK_INDEX={token}")).expect("no NUL")],
        },
        cwd: Some("/tmp".into()),
        makes_cwd: false,
        stdin: None,
        stdout: output.clone(),
        stderr: output.clone(),
        time_limit: Some(Duration::from_secs(60)),
        memory_limit_bytes: 0,
        cpus: Vec::new(),
        grace: Duration::from_secs(5),
    };
    let mut tokens = 0..n_tasks;
    tokens.by_ref().take(N_SLOTS * (1 + N_AHEAD)).for_each(|token| spawner.launch(launch(token)));
    let mut n_ended = 0;
    while n_ended < n_tasks {
        let n = exits.recv().expect("the spawner lives");
        n_ended += n;
        tokens.by_ref().take(n).for_each(|token| spawner.launch(launch(token)));
    }
}

fn floor(n_tasks: usize) {
    let start = || {
        let argv: [*const c_char; 2] = [c"/bin/true".as_ptr(), ptr::null()];
        let mut pid = 0;
        // SAFETY: constant strings, null-terminated.
        let failed = unsafe {
            unsafe extern "C" {
                static environ: *const *mut c_char;
            }
            libc::posix_spawn(&mut pid, argv[0], ptr::null(), ptr::null(), argv.as_ptr().cast(), environ)
        };
        assert_eq!(failed, 0, "posix_spawn");
    };
    (0..N_SLOTS).for_each(|_| start());
    for n_ended in 1..=n_tasks {
        // SAFETY: no memory is passed.
        assert!(unsafe { libc::waitpid(-1, ptr::null_mut(), 0) } > 0);
        if n_ended + N_SLOTS <= n_tasks {
            start();
        }
    }
}
