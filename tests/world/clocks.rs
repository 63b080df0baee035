//! Clocks that are stepped, of managers and of pilots, and pilots that are away for an hour of theirs.
//! A library loaded into them shifts what they read; the machine's own clock is left alone.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{
    Sandbox,
    pilots::{pilots, signal_all},
    site::Site,
    sweep::Hit,
    until,
};

use crate::surroundings;

const N_TASKS: u64 = 5_000;
const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
const TWO_PILOTS: &str = "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 2}]\n\
                          limits: {prefetch_tasks_max: 256}\n";
/// What one of them holds at most.
const N_HELD_MAX: u64 = 256;

/// The clocks of one manager and its pilots.
struct Clocks {
    manager: File,
    agent: File,
}

#[derive(Clone, Copy)]
enum Which {
    /// The time of day.
    Wall,
    /// The one that spans are measured with.
    Steady,
}

/// Has a process stand still that reads one of these clocks, whatever signals it gets; 0: none any more.
fn hold(clock: &File, pid: u32) {
    clock.write_all_at(&i64::from(pid).to_le_bytes(), 16).expect("it is held");
}

impl Clocks {
    /// Unshifted ones.
    fn new(sandbox: &Sandbox) -> Clocks {
        let file = |name: &str| {
            let path = sandbox.write(&format!("clocks/{name}"), "");
            let file = File::options().write(true).open(path).expect("a clock's file");
            file.set_len(24).expect("three numbers");
            file
        };
        Clocks { manager: file("manager"), agent: file("agent") }
    }
}

/// Sets what is added to a clock.
fn shift(clock: &File, which: Which, by_s: i64) {
    let bytes = (by_s * 1_000_000_000).to_le_bytes();
    clock.write_all_at(&bytes, which as u64 * 8).expect("the clock is set");
}

fn site(yaml: &str) -> (Site, Clocks) {
    let mut site = Site::new("state", N_TASKS, yaml);
    let clocks = Clocks::new(&site.sandbox);
    site.environment = surroundings(&site.sandbox, &[("PILOTFISH_TEST_CLOCKS", "clocks")]);
    (site, clocks)
}

/// Seconds of the day that the manager reads, from now on.
fn manager_now_s(site: &Site) -> i64 {
    let mut job = None;
    until("it is answered", || {
        job = site.api.get("/jobs/1");
        job.is_some()
    });
    job.expect("the job")["now"].as_i64().expect("a time") / 1_000_000
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("before the year 292 billion")
}

/// When tasks began and how long they took is possible, by clocks put ahead by as much at most.
fn times_are_sane(site: &mut Site, earliest_s: i64, stepped_s: i64) {
    site.until_done();
    let latest_s = now_s() + stepped_s + 1;
    for row in tests::sweep::rows(&site.api, 1) {
        let (began, wall) = (row["started_at"].as_i64(), row["wall"].as_i64());
        let began_s = began.expect("a task has begun") / 1_000_000;
        assert!((earliest_s..=latest_s).contains(&began_s), "{row}: not in {earliest_s}..{latest_s}");
        assert!((0..600_000_000).contains(&wall.expect("a task took its time")), "{row}");
    }
}

#[test]
fn a_stepped_clock_costs_nothing() {
    let (mut site, clocks) = site(TWO_PILOTS);
    let begun = now_s();
    site.serve();
    site.submit(1);
    let steps = [HOUR_S, -HOUR_S, 400 * DAY_S, -20_000 * DAY_S, 0];
    for (n, step) in (1..).zip(steps) {
        site.until_executed(n * N_TASKS / 8);
        shift(&clocks.manager, Which::Wall, step);
        site.until_executed(n * N_TASKS / 8 + N_TASKS / 16);
        shift(&clocks.agent, Which::Wall, -step);
    }
    for pilot in pilots(&site.sandbox) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", pilot.worker)).expect("its memory");
        assert!(
            maps.contains("surroundings.so") && maps.contains("clocks/agent"),
            "a pilot had the machine's clock"
        );
    }
    times_are_sane(&mut site, begun - 1, 0);
    let (audit, _) = site.close(&[]);
    assert_eq!(audit.n_again, 0);
}

#[test]
fn a_clock_stepped_while_the_manager_is_away_costs_nothing() {
    let (mut site, clocks) = site(TWO_PILOTS);
    let begun = now_s();
    let mut latest_s = begun;
    site.serve();
    site.submit(2);
    for (n, step) in [(1, -HOUR_S), (2, DAY_S), (3, -DAY_S)] {
        site.until_executed(n * N_TASKS / 4);
        site.kill_manager();
        shift(&clocks.manager, Which::Wall, step);
        shift(&clocks.agent, Which::Wall, step);
        site.serve();
        // Its time does not go back, whatever the clock says.
        latest_s = latest_s.max(now_s() + step);
        let off = manager_now_s(&site) - latest_s;
        assert!((-1..120).contains(&off), "{off} s off after a step of {step} s");
    }
    times_are_sane(&mut site, begun - 1, DAY_S);
    let (audit, _) = site.close(&[]);
    assert_eq!(audit.n_again, 0);
}

#[test]
fn a_clock_that_was_put_back_delays_no_retry() {
    let (mut site, clocks) = site(TWO_PILOTS);
    let job = "command: 'mkdir once.{n} && exit 3; echo {n} >> second'\nsweep: {n: {range: [0, 9]}}\n\
               retries: {count: 1, delay: 3s}\n";
    site.sandbox.write("job.yaml", job);
    site.serve();
    site.sandbox.ok(&["submit", "job.yaml", "--dir", "state"]);
    let api = site.api.clone();
    let n_failed = || api.get("/jobs/1").map(|job| job["n_failed_attempts"].clone());
    site.trace.until("each has failed once", || n_failed() == Some(10.into()));
    site.kill_manager();
    shift(&clocks.manager, Which::Wall, -DAY_S);
    site.serve();
    site.trace.until("the second attempts are over", || {
        api.get("/jobs/1").is_some_and(|job| job["counts"]["done"] == 10)
    });
    site.sandbox.ok(&["stop", "--dir", "state"]);
    assert_eq!(site.manager_ends().0, Some(0));
}

#[test]
fn a_clock_that_was_put_back_delays_no_pilot() {
    let (mut site, clocks) = site(TWO_PILOTS);
    site.serve();
    site.submit(5);
    site.until_executed(N_TASKS / 4);
    let agents = pilots(&site.sandbox);
    let allocations: Vec<u64> = agents.iter().map(|pilot| pilot.allocation).collect();
    signal_all(
        &agents.iter().flat_map(|pilot| [pilot.guard, pilot.worker]).collect::<Vec<_>>(),
        Signal::SIGKILL,
    );
    site.kill_manager();
    shift(&clocks.manager, Which::Wall, -DAY_S);
    site.serve();
    site.until_done();
    let mut hits = Vec::new();
    for view in site.pilots().iter().filter(|view| allocations.iter().any(|id| view["allocation"] == *id)) {
        hits.push(Hit { pilot: view["id"].as_u64().expect("its number"), n_held: N_HELD_MAX });
    }
    site.close(&hits);
}

/// The clock goes on only when the manager has heard from all other pilots; shows all of them.
fn others_are_heard(site: &mut Site, away: u64) -> Vec<Value> {
    loop {
        let views = site.pilots();
        let is_heard = |view: &Value| view["silent_for"].as_u64().is_none_or(|us| us < 10_000_000);
        let is_other = |view: &&Value| view["allocation"] != away && view["state"] != "ended";
        if views.iter().filter(is_other).all(is_heard) {
            return views;
        }
        site.trace.waits(1, Duration::from_millis(5));
    }
}

#[test]
fn a_pilot_that_is_away_for_an_hour_costs_what_it_held() {
    let (mut site, clocks) = site(TWO_PILOTS);
    site.serve();
    site.submit(3);
    site.until_executed(N_TASKS / 4);
    let away = pilots(&site.sandbox).pop().expect("a pilot");
    // One that is only stopped goes on when it is cancelled.
    hold(&clocks.agent, away.worker);
    let (mut n_held, mut pilot) = (0, 0);
    let mut passed_s = 0;
    while passed_s <= HOUR_S {
        shift(&clocks.manager, Which::Steady, passed_s);
        shift(&clocks.agent, Which::Steady, passed_s);
        let views = others_are_heard(&mut site, away.allocation);
        let view = views.iter().find(|view| view["allocation"] == away.allocation).expect("the pilot");
        pilot = view["id"].as_u64().expect("its number");
        n_held = n_held.max(view["n_running"].as_u64().unwrap_or(0) + view["n_queued"].as_u64().unwrap_or(0));
        let is_over = view["state"] == "ended";
        assert!(is_over || passed_s < 600, "still expected after {passed_s} s: {view}");
        // Longer steps look to the manager as if it had stood still, and that is nobody's silence.
        passed_s += if is_over { 20 } else { 1 };
    }
    hold(&clocks.agent, 0);
    let (audit, _) = site.close(&[Hit { pilot, n_held }]);
    println!("{audit:?}");
}

#[test]
fn a_manager_that_is_away_for_an_hour_finds_all_results() {
    let (mut site, clocks) = site(TWO_PILOTS);
    site.serve();
    site.submit(4);
    site.until_executed(N_TASKS / 4);
    until("two pilots are there", || pilots(&site.sandbox).len() == 2);
    let before = pilots(&site.sandbox);
    site.kill_manager();
    for passed_s in (0..=HOUR_S).step_by(60) {
        shift(&clocks.agent, Which::Steady, passed_s);
        shift(&clocks.manager, Which::Wall, passed_s);
        site.trace.waits(1, Duration::from_millis(20));
    }
    site.serve();
    site.until_done();
    assert_eq!(pilots(&site.sandbox), before, "the pilots of before were taken back");
    let (audit, _) = site.close(&[]);
    assert_eq!(audit.n_again, 0);
}
