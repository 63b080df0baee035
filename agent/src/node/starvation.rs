//! Measures how long tasks wait for CPUs that other processes use. A task that gets a third of a CPU on a
//! busy host takes three times as long and looks idle for two thirds of that time. For each thread the kernel
//! counts how long it ran and how long it was ready and waited (`/proc/PID/schedstat`), and for the machine
//! how much time a hypervisor has stolen. If it does not count waiting, its pressure figures (PSI) are used.
//!
//! The measured number is the time of waiting for each second of running, over all running tasks of the
//! pilot. Periodic looks find long tasks. They miss many short tasks, and find some before they have run at
//! all, so short tasks are counted when they end.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use crate::spawn::{family, schedstat};

/// Time from the start of tasks to the first look.
const FIRST_LOOK: Duration = Duration::from_millis(200);
/// The shortest pause between looks.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// A pause is at least this many times as long as the look before it.
const PAUSE_OF_COST: u32 = 100;
/// Weight of the looks before the last one.
const MEMORY: f64 = 0.5;
/// The most threads to look at.
const N_THREADS_MAX: usize = 8192;
/// Factor of the result. Looks miss some of the waiting, and also the pilot's own waiting on a busy host. Too
/// few slots cost less than too many, so the waiting time is overestimated.
const CAUTION: (u128, u128) = (3, 2);
/// The thread needs little stack.
const STACK_BYTES: usize = 256 << 10;

/// A measuring thread, which sleeps while no task runs.
pub struct Starvation {
    shared: Arc<Shared>,
    looker: Option<Thread>,
}

#[derive(Default)]
struct Shared {
    is_busy: AtomicBool,
    /// Whether the thread sleeps until a task runs.
    is_asleep: AtomicBool,
    is_over: AtomicBool,
    /// Microseconds of waiting for each second of running.
    wait_us: AtomicU64,
    /// Nanoseconds that short tasks ran, and that they waited; of those that have ended since the last look.
    ended: [AtomicU64; 2],
}

impl Starvation {
    /// Starts the thread, which looks at the descendants of this process.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn start() -> io::Result<Starvation> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let looking = thread::Builder::new().name("pilotfish-look".into()).stack_size(STACK_BYTES);
        let looker = looking.spawn(move || look(&of_thread))?.thread().clone();
        Ok(Starvation { shared, looker: Some(looker) })
    }

    /// Sets whether tasks run.
    pub fn set_busy(&self, is_busy: bool) {
        self.shared.is_busy.store(is_busy, Ordering::SeqCst);
        if is_busy && self.shared.is_asleep.swap(false, Ordering::SeqCst) {
            self.looker.iter().for_each(Thread::unpark);
        }
    }

    /// Adds a short task that has ended: the nanoseconds that it ran, and that it waited for a CPU.
    pub fn note_ended(&self, times_ns: [u64; 2]) {
        for (sum, time_ns) in self.shared.ended.iter().zip(times_ns) {
            sum.fetch_add(time_ns, Ordering::Relaxed);
        }
    }

    /// Returns the microseconds that a task with this CPU time was ready without a CPU; at most the rest of
    /// the time of its cores (`core_us`).
    pub fn of_task(&self, cpu_us: u64, core_us: u64) -> u64 {
        let wait_us = self.shared.wait_us.load(Ordering::Relaxed);
        let waited = u128::from(cpu_us) * u128::from(wait_us) / 1_000_000 * CAUTION.0 / CAUTION.1;
        u64::try_from(waited).unwrap_or(u64::MAX).min(core_us.saturating_sub(cpu_us))
    }
}

impl Drop for Starvation {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.looker.iter().for_each(Thread::unpark);
    }
}

fn look(shared: &Shared) {
    let own = libc::pid_t::try_from(std::process::id()).unwrap_or(0);
    let mut meter = Meter::new(Path::new("/"));
    let mut pause = FIRST_LOOK;
    while !shared.is_over.load(Ordering::Relaxed) {
        if !shared.is_busy.load(Ordering::SeqCst) {
            pause = FIRST_LOOK;
            shared.is_asleep.store(true, Ordering::SeqCst);
            // A task that started before `is_asleep` was set has not unparked this thread.
            if !shared.is_busy.load(Ordering::SeqCst) {
                thread::park();
            }
            shared.is_asleep.store(false, Ordering::SeqCst);
            continue;
        }
        thread::park_timeout(pause);
        let began = Instant::now();
        let tasks: Vec<libc::pid_t> = family(own).into_iter().filter(|pid| *pid != own).collect();
        let ended = shared.ended.each_ref().map(|sum| sum.swap(0, Ordering::Relaxed));
        let ratio = meter.look(&tasks, ended, began);
        shared.wait_us.store((ratio * 1e6) as u64, Ordering::Relaxed);
        pause = PAUSE_MIN.max(began.elapsed() * PAUSE_OF_COST);
    }
}

/// The results of the last looks.
struct Meter {
    root: PathBuf,
    /// Each thread's time of running and of waiting, in nanoseconds.
    threads: HashMap<libc::pid_t, [u64; 2]>,
    /// Sums with decay: running and waiting, in nanoseconds.
    sums: [f64; 2],
    /// The machine's CPU time: used, and stolen by a hypervisor, in ticks.
    ticks: Option<[u64; 2]>,
    /// File with the pressure on CPUs, its last value in microseconds, and the time of reading.
    pressure: Option<(PathBuf, u64, Instant)>,
}

impl Meter {
    fn new(root: &Path) -> Meter {
        let ticks = cpu_ticks(root);
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let own =
            crate::node::own_cgroup_folders(&groups).into_iter().map(|folder| folder.join("cpu.pressure"));
        let mut files = own.chain(["proc/pressure/cpu".into()]).map(|path| root.join(path));
        let pressure = files.find_map(|path| Some((path.clone(), stalled_us(&path)?, Instant::now())));
        Meter { root: root.to_owned(), threads: HashMap::new(), sums: [0.0; 2], ticks, pressure }
    }

    /// Returns the seconds of waiting for each second of running: of the processes `pids` since the last
    /// look, and of tasks that have ended since then (`ended`: their nanoseconds of running and of waiting).
    fn look(&mut self, pids: &[libc::pid_t], ended: [u64; 2], now: Instant) -> f64 {
        let by_pressure = self.by_pressure(now);
        let stolen = self.stolen();
        let mut found = HashMap::new();
        for pid in pids {
            let folder = self.root.join(format!("proc/{pid}/task"));
            for thread in fs::read_dir(folder).into_iter().flatten().flatten() {
                let id = thread.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok());
                let times = schedstat(&thread.path().join("schedstat"));
                if let Some((id, times)) = id.zip(times).filter(|_| found.len() < N_THREADS_MAX) {
                    found.insert(id, times);
                }
            }
        }
        // Kernels that count no waiting have no such files.
        let ratio = if found.is_empty() { by_pressure.filter(|_| !pids.is_empty()) } else { None };
        self.sums = [0, 1].map(|n| self.sums[n] * MEMORY + ended[n] as f64);
        for (id, times) in &found {
            let before = self.threads.get(id).copied().unwrap_or_default();
            // A thread id that was used again starts from zero.
            let before = if before[0] > times[0] { [0; 2] } else { before };
            for n in 0..2 {
                self.sums[n] += times[n].saturating_sub(before[n]) as f64;
            }
        }
        self.threads = found;
        let [ran, waited] = self.sums;
        ratio.unwrap_or(if ran > 0.0 { waited / ran } else { 0.0 }) + stolen
    }

    /// Returns the stolen CPU time for each second of used CPU time since the last look, for the whole
    /// machine.
    fn stolen(&mut self) -> f64 {
        let Some((before, after)) = self.ticks.zip(cpu_ticks(&self.root)) else { return 0.0 };
        let [used, stolen] = [0, 1].map(|n| after[n].saturating_sub(before[n]) as f64);
        self.ticks = Some(after);
        if used > 0.0 { stolen / used } else { 0.0 }
    }

    /// Returns the ratio from the part of the time since the last look in which any process waited for a CPU.
    fn by_pressure(&mut self, now: Instant) -> Option<f64> {
        let (path, before_us, at) = self.pressure.as_mut()?;
        let after_us = stalled_us(path)?;
        let passed_us = now.saturating_duration_since(*at).as_micros() as f64;
        let part = (after_us.saturating_sub(*before_us) as f64 / passed_us.max(1.0)).clamp(0.0, 0.99);
        (*before_us, *at) = (after_us, now);
        Some(part / (1.0 - part))
    }
}

/// Returns used and stolen ticks from the first line of `/proc/stat`: user, nice, system, idle, iowait, irq,
/// softirq, steal.
fn cpu_ticks(root: &Path) -> Option<[u64; 2]> {
    let text = fs::read_to_string(root.join("proc/stat")).ok()?;
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let used = [0, 1, 2, 5, 6].iter().filter_map(|n| ticks.get(*n)).sum();
    Some([used, ticks.get(7).copied().unwrap_or(0)])
}

/// Returns the microseconds in which any process waited, from `some avg10=0.00 avg60=0.00 avg300=0.00
/// total=12`.
fn stalled_us(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::Path,
        process::Command,
        sync::atomic::Ordering,
        time::{Duration, Instant},
    };

    use super::{FIRST_LOOK, Meter, Starvation, schedstat};

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn waiting_is_counted_of_all_threads_since_the_last_look() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/stat", "cpu  100 0 0 500 0 0 0 0 0 0\n");
        let mut meter = Meter::new(root.path());
        write(root.path(), "proc/7/task/7/schedstat", "1000 500 3\n");
        write(root.path(), "proc/7/task/8/schedstat", "1000 1500 3\n");
        assert_eq!(meter.look(&[7], [0; 2], Instant::now()), 1.0);
        // Earlier sums count half: 1000 running to 1000 waiting; now 4000 running to none.
        write(root.path(), "proc/7/task/7/schedstat", "5000 500 3\n");
        assert_eq!(meter.look(&[7], [0; 2], Instant::now()), 0.2);
        assert_eq!(meter.look(&[], [0; 2], Instant::now()), 0.2, "nobody runs, and nothing is known anew");
    }

    #[test]
    fn short_tasks_count_when_they_end() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/stat", "cpu  100 0 0 500 0 0 0 0 0 0\n");
        let mut meter = Meter::new(root.path());
        // The running task waits for its first turn on a CPU.
        write(root.path(), "proc/7/task/7/schedstat", "0 0 0\n");
        assert_eq!(meter.look(&[7], [20_000, 240_000], Instant::now()), 12.0);
        assert_eq!(meter.look(&[7], [0; 2], Instant::now()), 12.0, "nothing is known anew");
        assert_eq!(meter.look(&[7], [35_000, 0], Instant::now()), 1.5);
    }

    #[test]
    fn stolen_time_is_waiting_too() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/stat", "cpu  100 0 0 500 0 0 0 50 0 0\n");
        let mut meter = Meter::new(root.path());
        write(root.path(), "proc/7/task/7/schedstat", "1000 0 3\n");
        write(root.path(), "proc/stat", "cpu  140 10 50 900 70 0 0 100 0 0\n");
        assert_eq!(meter.look(&[7], [0; 2], Instant::now()), 0.5);
    }

    #[test]
    fn pressure_stands_for_waiting_where_that_is_not_counted() {
        let root = tempfile::tempdir().unwrap();
        let told = |total: u64| {
            format!("some avg10=1.00 avg60=1.00 avg300=1.00 total={total}\nfull avg10=0.00 total=0\n")
        };
        write(root.path(), "proc/pressure/cpu", &told(1000));
        let mut meter = Meter::new(root.path());
        let began = meter.pressure.as_ref().unwrap().2;
        write(root.path(), "proc/pressure/cpu", &told(1000 + 750_000));
        let ratio = meter.look(&[7], [0; 2], began + Duration::from_secs(1));
        assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn a_task_has_starved_no_longer_than_it_did_not_compute() {
        let starvation = Starvation { shared: Default::default(), looker: None };
        starvation.shared.wait_us.store(2_500_000, Ordering::Relaxed);
        assert_eq!(starvation.of_task(800_000, 2_800_000), 2_000_000);
        assert_eq!(starvation.of_task(400_000, 2_800_000), 1_500_000);
        assert_eq!(starvation.of_task(0, 2_800_000), 0, "a task that sleeps");
    }

    #[test]
    fn tasks_that_share_a_cpu_are_seen_to_wait_for_it() {
        if schedstat(Path::new("/proc/self/schedstat")).is_none() {
            return;
        }
        let starvation = Starvation::start().unwrap();
        let busy = || Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
        let mut busy = [busy().unwrap(), busy().unwrap()];
        starvation.set_busy(true);
        // Each of the two waits as long as it runs, or longer if other processes run as well.
        while starvation.of_task(1_000_000, 100_000_000) < 500_000 {
            std::thread::sleep(FIRST_LOOK);
        }
        for process in &mut busy {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}
