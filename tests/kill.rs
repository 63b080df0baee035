//! `kill -9` of manager and agent in the middle of sweeps: nothing lost, nothing counted twice.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tests::{
    Running, Sandbox,
    pilots::{pilots, signal_all},
    signal_pid, until,
};

const N_TASKS: u64 = 5_000;

/// Each execution appends its index to a file: what really ran, whatever the manager believes.
fn job(sandbox: &Sandbox) {
    let text = format!(
        "name: crowd\ncommand: 'echo {{n}} >> executions'\nsweep: {{n: {{range: [0, {}]}}}}\nretries: 0\ncrash_limit: 100\n",
        N_TASKS - 1
    );
    sandbox.write("job.yaml", &text);
}

fn n_executed(sandbox: &Sandbox) -> u64 {
    sandbox.read("executions").lines().count() as u64
}

/// Every task ran, none is missing from the results, and none is there twice.
fn audit(sandbox: &Sandbox, rows: &str, n_kills: u64) {
    let mut executed: BTreeMap<u64, u64> = BTreeMap::new();
    for line in sandbox.read("executions").lines() {
        *executed.entry(line.trim().parse().expect("an index")).or_default() += 1;
    }
    assert_eq!(executed.len() as u64, N_TASKS, "tasks that never ran");
    let mut indices: Vec<u64> = rows.lines().skip(1).map(first_field).collect();
    assert_eq!(indices.len() as u64, N_TASKS, "rows of results");
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len() as u64, N_TASKS, "tasks with two results");
    let n_again: u64 = executed.values().map(|n| n - 1).sum();
    // What had been sent ahead and run, and was not reported when the pilot was killed.
    assert!(n_again <= n_kills * 500, "{n_again} executions beyond one for {n_kills} kills");
}

fn first_field(row: &str) -> u64 {
    row.split(',').next().and_then(|field| field.parse().ok()).expect("a row begins with the index")
}

fn is_done(sandbox: &Sandbox) -> bool {
    let job = sandbox.json(&["job", "1"]);
    let counts = &job["counts"];
    assert_eq!(counts["failed"], 0, "a task failed because a process was killed: {job}");
    counts["done"] == N_TASKS
}

fn serve(sandbox: &Sandbox) -> Running {
    let manager = sandbox.start("serve", &["serve", "--cores", "2"]);
    sandbox.until_served();
    manager
}

#[test]
fn a_sweep_survives_kill_9_of_manager_and_agent() {
    let sandbox = Sandbox::new();
    job(&sandbox);
    let mut manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);

    until("a tenth has run", || n_executed(&sandbox) > N_TASKS / 10);
    for pid in sandbox.agents() {
        signal_pid(pid, Signal::SIGKILL);
    }
    until("a quarter has run", || n_executed(&sandbox) > N_TASKS / 4);
    manager.signal(Signal::SIGKILL);
    manager.wait();
    manager = serve(&sandbox);
    until("half has run", || n_executed(&sandbox) > N_TASKS / 2);
    manager.signal(Signal::SIGKILL);
    manager.wait();
    for pid in sandbox.agents() {
        signal_pid(pid, Signal::SIGKILL);
    }
    let manager = serve(&sandbox);
    until("all is done", || is_done(&sandbox));
    audit(&sandbox, &sandbox.ok(&["export", "1", "--format", "csv"]), 4);

    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

/// Processes that the tasks of the test below have started.
fn sleepers(sandbox: &Sandbox) -> Vec<u32> {
    let is_one = |command: &str| command.starts_with("sleep 1000") || command.contains("begun");
    sandbox.processes().into_iter().filter(|(_, command)| is_one(command)).map(|(pid, _)| pid).collect()
}

#[test]
fn guard_and_worker_killed_at_once_leave_nothing_of_their_tasks() {
    let sandbox = Sandbox::new();
    let first_life = "sleep 1000 & setsid sleep 1000 & echo x >> begun; wait";
    sandbox.write(
        "job.yaml",
        &format!(
            "name: crowd\ncommand: 'if test -e second-life; then echo {{n}} >> executions; else {first_life}; fi'\n\
             sweep: {{n: {{range: [0, 3]}}}}\nretries: 0\ncrash_limit: 100\n"
        ),
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    until("two tasks run", || sandbox.read("begun").lines().count() == 2);
    // One that is just becoming `sleep` shows no command for a moment.
    until("a shell and two children each are there", || sleepers(&sandbox).len() == 6);
    sandbox.write("second-life", "");
    let pilot = sandbox.agents();
    assert_eq!(pilot.len(), 2, "a guard and its worker");
    // Stopped, neither sees the other's end.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        pilot.iter().for_each(|pid| signal_pid(*pid, signal));
    }
    until("nothing of the tasks is left", || sleepers(&sandbox).is_empty());
    until("new pilots have done the rest", || sandbox.json(&["job", "1"])["counts"]["done"] == 4);
    assert_eq!(sandbox.read("executions").lines().count(), 4);
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// Kills a whole pilot while its two tasks run, the tasks first, and lets their second attempts end well. Gives what the
/// first attempts failed of.
fn whole_pilot_ends(signal: Signal) -> [String; 2] {
    const N_TRIES: usize = 10;
    let mut tries = (0..N_TRIES).map(|_| try_whole_pilot_ends(signal));
    tries
        .find_map(|failures| failures)
        .expect("this host is too slow to signal tasks and pilot within a second")
}

/// `None`: this host was so slow that the pilot was not signalled soon after its tasks, so that nothing follows.
fn try_whole_pilot_ends(signal: Signal) -> Option<[String; 2]> {
    // A good part of the time for which a pilot waits for its own end after a task's end by a signal.
    const SOON: Duration = Duration::from_secs(1);
    let sandbox = Sandbox::new();
    // One is the signalled process itself, the other a shell that tells of its child.
    let first_life = "echo x >> begun; if test {n} = 0; then exec sleep 1000; else sleep 1000; exit $?; fi";
    sandbox.write(
        "job.yaml",
        &format!(
            "name: crowd\ncommand: 'if test -e second-life; then echo {{n}} >> executions; else {first_life}; fi'\n\
             sweep: {{n: {{range: [0, 1]}}}}\nretries: 0\n"
        ),
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    let sleeping = |sandbox: &Sandbox| -> Vec<u32> {
        let processes = sandbox.processes().into_iter();
        processes.filter(|(_, command)| command.starts_with("sleep 1000")).map(|(pid, _)| pid).collect()
    };
    until("two tasks run", || sleeping(&sandbox).len() == 2);
    sandbox.write("second-life", "");
    let pilot = pilots(&sandbox).pop().expect("a pilot");
    let begun = Instant::now();
    signal_all(&sleeping(&sandbox), signal);
    until("the tasks have ended", || sleepers(&sandbox).is_empty());
    // The worker first: the end of its guard would let it go on (SIGHUP and SIGCONT to a stopped group that is orphaned).
    let both = [pilot.worker, pilot.guard];
    if signal == Signal::SIGKILL {
        // Stopped, neither sees the other's end.
        signal_all(&both, Signal::SIGSTOP);
    }
    signal_all(&both, signal);
    if begun.elapsed() > SOON {
        return None;
    }
    until("other pilots have done the work", || {
        let job = sandbox.json(&["job", "1"]);
        assert_eq!(job["counts"]["failed"], 0, "{job}");
        job["counts"]["done"] == 2
    });
    assert_eq!(sandbox.read("executions").lines().count(), 2);
    let first_failure = |index: u32| {
        let task = sandbox.json(&["task", &format!("1.{index}")]);
        task["failed_attempts"][0]["failure"]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("none: {task}"))
            .to_owned()
    };
    let failures = [0, 1].map(first_failure);
    sandbox.ok(&["stop"]);
    manager.wait();
    Some(failures)
}

#[test]
fn tasks_of_a_host_that_shuts_down_are_preempted_and_use_no_retry() {
    assert_eq!(whole_pilot_ends(Signal::SIGTERM), ["the platform took the pilot away"; 2]);
}

#[test]
fn tasks_killed_with_their_pilot_are_lost_with_it_and_use_no_retry() {
    assert_eq!(whole_pilot_ends(Signal::SIGKILL), ["the pilot vanished while it ran"; 2]);
}

/// The signal ends the running step of a script before it reaches the script, which goes on, and ends with success.
#[test]
fn a_script_that_is_cut_short_with_its_pilot_is_not_done() {
    const N_TRIES: usize = 10;
    let n_cut = (0..N_TRIES).find_map(|_| try_to_cut_scripts_short());
    let n_cut = n_cut.expect("this host is too slow to signal tasks and pilot within a fifth of a second");
    assert!(n_cut > 0, "no script went on");
}

/// How many of two scripts went on without their step, each of which runs again; `None`: this host was so slow that the
/// pilot was not signalled soon after its tasks.
fn try_to_cut_scripts_short() -> Option<usize> {
    // Of a task that took longer, a success is held back for a quarter of a second.
    const LONG: Duration = Duration::from_secs(4);
    const SOON: Duration = Duration::from_millis(200);
    let sandbox = Sandbox::new();
    sandbox.write(
        "job.yaml",
        "command: 'if test -e second-life; then echo {n} >> executions; else sleep 1000; echo {n} >> cut; fi'\n\
         sweep: {n: {range: [0, 1]}}\nretries: 0\n",
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    let steps = || -> Vec<u32> {
        let processes = sandbox.processes().into_iter();
        processes.filter(|(_, command)| command.starts_with("sleep 1000")).map(|(pid, _)| pid).collect()
    };
    until("two tasks run", || steps().len() == 2);
    let began = Instant::now();
    until("they have run for a while", || began.elapsed() > LONG);
    sandbox.write("second-life", "");
    let (pilot, steps) = (pilots(&sandbox).pop().expect("a pilot"), steps());
    let signalled = Instant::now();
    signal_all(&steps, Signal::SIGTERM);
    signal_all(&[pilot.worker, pilot.guard], Signal::SIGTERM);
    if signalled.elapsed() > SOON {
        return None;
    }
    until("all is done", || sandbox.json(&["job", "1"])["state"] == "done");
    assert_eq!(sandbox.read("executions").lines().count(), 2, "{}", sandbox.json(&["task", "1.0"]));
    let n_cut = sandbox.read("cut").lines().count();
    sandbox.ok(&["stop"]);
    manager.wait();
    Some(n_cut)
}

/// As a memory killer of the site does, which kills all that there is for what one task takes.
#[test]
fn the_neighbour_of_a_task_that_gets_all_killed_is_not_blamed() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manager.yaml",
        "platforms: [{name: here, adapter: local, cores: 2, pilots_max: 1, poll_interval: 1s}]\n",
    );
    // It ends by itself only after a neighbour was killed.
    let neighbour = "echo $$ > pids/{n}; until test -e killed; do sleep 0.05; done";
    // Its neighbour ends first, and the pilot has time to say so.
    let hog = "until test -e killed || test -s pids/1 || test -s pids/2; do sleep 0.05; done; \
        if test ! -e killed; then cat pids/* > pids/all; kill -9 $(cat pids/all) && mv pids/all killed; fi; \
        sleep 1; kill -9 $PPID; sleep 1000";
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'mkdir -p pids; if test {{n}} = 0; then {hog}; else {neighbour}; fi'\n\
             sweep: {{n: {{range: [0, 2]}}}}\nretries: 0\ncrash_limit: 3\n"
        ),
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    assert_eq!(sandbox.run(&["submit", "job.yaml", "--wait"]).status.code(), Some(1));
    let job = sandbox.json(&["job", "1"]);
    assert_eq!((&job["counts"]["done"], &job["counts"]["failed"]), (&2.into(), &1.into()), "{job}");
    assert!(!sandbox.read("killed").trim().is_empty(), "a neighbour was killed");
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// A thousand and more brief tasks of which one takes its pilot down; gives how many attempts failed.
fn one_takes_pilots_down(n_cores: u32) -> u64 {
    let sandbox = Sandbox::new();
    let platform =
        format!("platforms: [{{name: here, adapter: local, cores: {n_cores}, poll_interval: 1s}}]\n");
    sandbox.write("manager.yaml", &platform);
    sandbox.write(
        "job.yaml",
        "command: 'if test {n} = 1500; then kill -9 $PPID; fi'\nsweep: {n: {range: [0, 1999]}}\ncrash_limit: 3\n",
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    assert_eq!(sandbox.run(&["submit", "job.yaml", "--wait"]).status.code(), Some(1));
    let job = sandbox.json(&["job", "1"]);
    assert_eq!(job["counts"]["done"], 1999, "{job}");
    assert_eq!(job["counts"]["failed"], 1, "{job}");
    sandbox.ok(&["stop"]);
    manager.wait();
    job["n_failed_attempts"].as_u64().expect("a number")
}

#[test]
fn a_task_that_takes_pilots_down_is_set_aside_and_none_beside_it_is_to_blame() {
    // Of the first pilot it is not known what it ran just then; those after it have one task at a time.
    let n_lost = one_takes_pilots_down(1);
    assert!((3..=4).contains(&n_lost), "{n_lost}");
}

#[test]
fn those_that_run_beside_a_task_that_takes_pilots_down_are_not_set_aside_with_it() {
    // Three or four pilots, each with up to eight tasks.
    let n_lost = one_takes_pilots_down(8);
    assert!(n_lost > 4, "no others ran beside it: {n_lost}");
}

#[test]
fn a_killed_run_leaves_nothing_running_and_continues() {
    let sandbox = Sandbox::new();
    job(&sandbox);
    for part in [10, 3] {
        let run = sandbox.start("run", &["run", "job.yaml", "-j", "2"]);
        until("a part has run", || n_executed(&sandbox) > N_TASKS / part);
        run.signal(Signal::SIGKILL);
        run.wait();
        until("nothing is left running", || sandbox.processes().is_empty());
    }
    let before = n_executed(&sandbox);
    sandbox.ok(&["run", "job.yaml", "-j", "2"]);
    assert!(
        before + N_TASKS / 2 <= n_executed(&sandbox) && n_executed(&sandbox) < before + N_TASKS,
        "it began anew"
    );
    audit(&sandbox, &sandbox.ok(&["export", "1", "--format", "csv"]), 2);
    until("nothing is left running", || sandbox.processes().is_empty());
}

/// Tasks that end by themselves and leave 32 processes to their pilot.
fn littering_job(sandbox: &Sandbox) {
    let many = "setsid sleep 1000 & setsid sleep 1000 & setsid sleep 1000 & setsid sleep 1000 & true";
    sandbox.write("job.yaml", &format!("command: '{many}'\nsweep: {{n: {{range: [0, 7]}}}}\n"));
}

/// Pilots and what their tasks have started; not the manager, nor its last look for them.
fn left_by_pilots(sandbox: &Sandbox) -> Vec<(u32, String)> {
    let is_theirs = |command: &str| !command.contains(" agent list ") && !command.contains(" serve ");
    sandbox.processes().into_iter().filter(|(_, command)| is_theirs(command)).collect()
}

#[test]
fn a_run_returns_when_nothing_is_left_running() {
    let sandbox = Sandbox::new();
    littering_job(&sandbox);
    sandbox.ok(&["run", "job.yaml", "-j", "2"]);
    assert_eq!(left_by_pilots(&sandbox), []);
}

#[test]
fn stop_returns_when_no_pilot_is_left_running() {
    let sandbox = Sandbox::new();
    littering_job(&sandbox);
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    until("all is done", || sandbox.json(&["job", "1"])["counts"]["done"] == 8);
    assert!(!sandbox.agents().is_empty() && !sleepers(&sandbox).is_empty(), "what the pilot must end");
    sandbox.ok(&["stop"]);
    assert_eq!(left_by_pilots(&sandbox), []);
    manager.wait();
}

#[test]
fn a_slot_is_given_away_when_its_last_task_is_gone() {
    let sandbox = Sandbox::new();
    sandbox.write("sleeper", "trap '' TERM; echo $$ > pid; while :; do sleep 1000; done");
    sandbox
        .write("look", "if grep -q . /proc/$(cat pid)/cmdline; then echo there; else echo gone; fi > seen");
    sandbox.write(
        "job.yaml",
        "command: 'if test {n} = 0; then timeout 600 sh sleeper; else sh look; fi; true'\n\
         sweep: {n: {range: [0, 1]}}\ntime_limit: 8s\nretries: 0\n",
    );
    assert_eq!(sandbox.run(&["run", "job.yaml", "-j", "1"]).status.code(), Some(1), "a task failed");
    assert!(!sandbox.read("pid").is_empty());
    assert_eq!(sandbox.read("seen"), "gone\n");
}

#[test]
fn a_manager_that_is_away_finds_its_pilots_again() {
    let sandbox = Sandbox::new();
    job(&sandbox);
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    until("a tenth has run", || n_executed(&sandbox) > N_TASKS / 10);
    let before = pilots(&sandbox);
    manager.signal(Signal::SIGKILL);
    manager.wait();
    let manager = serve(&sandbox);
    until("all is done", || is_done(&sandbox));
    assert_eq!(pilots(&sandbox), before, "the pilots of before were taken back");
    assert_eq!(n_executed(&sandbox), N_TASKS, "the manager's death alone repeats nothing");
    audit(&sandbox, &sandbox.ok(&["export", "1", "--format", "csv"]), 0);
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// It cannot hear that it is to go: it is given up, and then woken to end, and its task with it.
#[test]
fn stop_leaves_no_pilot_that_stands_still() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manager.yaml",
        "platforms: [{name: here, adapter: local, cores: 1}]\nlimits: {heartbeat_limit: 3s, poll_wait_max: 1s}\n",
    );
    let manager = sandbox.start("serve", &["serve", "--config", "manager.yaml"]);
    sandbox.until_served();
    sandbox.ok(&["submit", "--", "sleep", "600"]);
    until("a task runs", || sandbox.json(&["job", "1"])["counts"]["running"] == 1);
    let pilot = pilots(&sandbox).pop().expect("a pilot");
    signal_all(&[pilot.guard, pilot.worker], Signal::SIGSTOP);
    until("the manager has no pull that it could answer", || {
        sandbox.json(&["pilots"])[0]["silent_for"].is_u64()
    });
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
    assert_eq!(sandbox.processes(), []);
}

/// Neither a listing nor a pilot's silence tells it within an hour.
#[test]
fn a_local_pilot_that_is_taken_away_or_killed_is_replaced_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manager.yaml",
        "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 1, poll_interval: 1h}]\n\
         limits: {heartbeat_limit: 1h}\n",
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "-q", "--", "sh", "-c", "echo $$ > task; exec sleep 1000"]);
    let runs = || sandbox.json(&["job", "1"])["counts"]["running"] == 1;
    let mut before = 0;
    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGKILL] {
        let mut there = pilots(&sandbox);
        until("a new pilot runs the task", || {
            there = pilots(&sandbox);
            there.iter().any(|pilot| pilot.allocation > before)
                && runs()
                && sandbox.path().join("task").exists()
        });
        before = there.iter().map(|pilot| pilot.allocation).max().expect("there is one");
        let mut processes: Vec<u32> = there.iter().flat_map(|pilot| [pilot.guard, pilot.worker]).collect();
        until("the task has said who it is", || sandbox.read("task").trim().parse::<u32>().is_ok());
        processes.push(sandbox.read("task").trim().parse().expect("its number"));
        std::fs::remove_file(sandbox.path().join("task")).expect("it is there");
        signal_all(&processes, signal);
    }
    until("a last one runs it", || pilots(&sandbox).iter().any(|pilot| pilot.allocation > before) && runs());
    sandbox.ok(&["cancel", "1"]);
    sandbox.ok(&["stop", "--now"]);
    manager.wait();
}
