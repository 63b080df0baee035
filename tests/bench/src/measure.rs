//! What the kernel knows of a process: its own CPU time and its memory.

use std::{fs, time::Duration};

/// CPU time that a process has used itself, user and system, children excluded, to the microsecond. Zero when it is
/// gone.
pub fn cpu(pid: u32) -> Duration {
    // SAFETY: the clock's number and the struct are plain data, and the calls fill them.
    unsafe {
        let (mut clock, mut time): (libc::clockid_t, libc::timespec) = (0, std::mem::zeroed());
        if libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) != 0
            || libc::clock_gettime(clock, &raw mut time) != 0
        {
            return Duration::ZERO;
        }
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
    }
}

/// CPU time of the children that a process has waited for, and of theirs. The kernel counts it in ticks of 10 ms.
pub fn children_cpu(pid: u32) -> Duration {
    ticks(pid, [13, 14])
}

/// The sum of two fields of a process's line, counted from the one after its name.
fn ticks(pid: u32, wanted: [usize; 2]) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may contain blanks.
    let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // SAFETY: asks for a number.
    let ticks_a_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1);
    Duration::from_micros(wanted.into_iter().map(ticks).sum::<u64>() * 1_000_000 / ticks_a_second)
}

/// CPU time of this process, to the microsecond.
pub fn own_cpu() -> Duration {
    used(libc::RUSAGE_SELF)
}

/// … and of the children that it has waited for.
pub fn own_and_children_cpu() -> Duration {
    used(libc::RUSAGE_SELF) + used(libc::RUSAGE_CHILDREN)
}

fn used(who: libc::c_int) -> Duration {
    // SAFETY: the struct is plain data, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let span = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    span(usage.ru_utime) + span(usage.ru_stime)
}

/// Resident memory of a process in bytes; 0 when it is gone.
pub fn resident_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:")
}

/// Resident memory of a process without what is mapped from files, in bytes: code that was read in is no pilot's.
pub fn own_bytes(pid: u32) -> u64 {
    status_bytes(pid, "RssAnon:")
}

/// The most resident memory that a process has had, in bytes.
pub fn peak_bytes(pid: u32) -> u64 {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("");
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Processes whose environment has this text and whose command line has that one.
pub fn processes(environment: &str, command: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let text = |name| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        if text("cmdline").contains(command) && text("environ").contains(environment) {
            found.push(pid);
        }
    }
    found
}

/// Lets this process, and those it starts, open as many files as the system allows.
pub fn raise_file_limit() -> u64 {
    // SAFETY: the struct is plain data; the calls read and write it.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        limit.rlim_cur
    }
}

/// The value in the middle, and the one that a hundredth is above. Both 0 for none.
pub fn percentiles(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let n = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
        values.get(n).copied().unwrap_or(0.0)
    };
    (at(0.5), at(0.99))
}

/// CPU time of the calling thread, to the nanosecond.
pub fn thread_cpu() -> Duration {
    // SAFETY: the struct is plain data, and the call fills it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
        time
    };
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(time.tv_sec.unsigned_abs(), nanoseconds)
}

/// Gives what this process has freed back to the kernel, so that what it takes next is seen.
pub fn give_back_memory() {
    // SAFETY: it only touches memory that is free.
    unsafe { libc::malloc_trim(0) };
}
