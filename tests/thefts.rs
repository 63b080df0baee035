//! Tasks that pilots of a platform take from each other, with files of each other, with real managers and pilots.

use std::{fs, path::PathBuf};

use serde_json::Value;
use tests::{
    Running, Sandbox, noise,
    peers::{
        SAY_WHO, cached, counts_are, executed_once, figure, from, kill, pilots_of, processes, serve, sum_of,
    },
    pilots::PilotProcesses,
    sweep::Hit,
    until,
};

/// Files below 64 KiB are not fetched from other pilots, and do not matter for where a task waits.
const FILE_BYTES: usize = 200_000;
const N_FILES: u64 = 10;
/// Tasks that read the same of them.
const N_READERS: u64 = 15;
const N_TASKS: u64 = N_FILES * N_READERS;

/// Writes the file that a task reads.
fn write_input(sandbox: &Sandbox, file: u64) -> PathBuf {
    let path = sandbox.path().join(format!("in-{file}"));
    fs::write(&path, noise(FILE_BYTES, file)).expect("the input");
    path
}

/// So many pilots, all of which but one have a task of job 1 until a file `go` is there.
fn all_but_one_are_busy(policy: &str, n_pilots: usize) -> (Sandbox, Running) {
    let sandbox = Sandbox::new();
    let more = format!("policies: {{stealing: {policy}}}\nlimits: {{prefetch: 1h}}\n");
    // Agents say when they give tasks away.
    let manager = serve(&sandbox, n_pilots, &more, &[("PILOTFISH_LOG", "debug")]);
    let (n_busy, go) = (n_pilots as u64 - 1, sandbox.path().join("go").display().to_string());
    sandbox.write(
        "first.yaml",
        &format!(
            "command: '{SAY_WHO}; until test -e {go}; do sleep 0.05; done'\nsweep: {{n: {{range: [1, {n_busy}]}}}}\n"
        ),
    );
    sandbox.ok(&["submit", "first.yaml"]);
    until("all but one are busy", || counts_are(&sandbox, "1", "running", n_busy));
    // A task is told to run before it has said who it is.
    until("each has begun its task", || pilots_of(&sandbox, "1").len() as u64 == n_busy);
    (sandbox, manager)
}

/// Submits job 2: each of its tasks reads one file, the next one another, leaves its sum and does this.
fn submit_many(sandbox: &Sandbox, command: &str) {
    for file in 1..=N_FILES {
        write_input(sandbox, file);
    }
    sandbox.write(
        "many.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < in > sum; {command}'\n\
             sweep: {{n: {{range: [1, {N_READERS}]}}, file: {{range: [1, {N_FILES}]}}}}\ncrash_limit: 9\n\
             inputs: [{{from: 'in-{{file}}', to: in}}]\noutputs: [{{from: sum, to: 'sums/{{file}}-{{n}}'}}]\n"
        ),
    );
    sandbox.ok(&["submit", "many.yaml"]);
}

/// Two pilots: one has nothing to do, and the other tasks with files.
struct Roles {
    thief: u64,
    victim: u64,
}

impl Roles {
    /// Of the one that has job 1 and the one that has job 2, before the first is over.
    fn of(sandbox: &Sandbox) -> Roles {
        let only = |job| {
            let pilots: Vec<u64> = pilots_of(sandbox, job).into_iter().collect();
            let [pilot] = pilots[..] else { panic!("pilots {pilots:?} have had tasks of job {job}") };
            pilot
        };
        let roles = Roles { thief: only("1"), victim: only("2") };
        assert_ne!(roles.thief, roles.victim);
        roles
    }

    fn thief(&self) -> u64 {
        self.thief
    }

    fn victim(&self) -> u64 {
        self.victim
    }

    /// Waits until the thief has tasks of the victim's, and files.
    fn until_played(&self, sandbox: &Sandbox) {
        until("the idle pilot has taken tasks", || taken_and_given(sandbox, self.thief).0 > 0);
        assert!(taken_and_given(sandbox, self.victim).1 > 0, "whose were they?");
        until("it has fetched files from the other", || from(sandbox, "peers") > 0);
    }
}

/// How many tasks have come to a pilot from others, and gone from it to them.
fn taken_and_given(sandbox: &Sandbox, pilot: u64) -> (u64, u64) {
    let rows = sandbox.json(&["explain", "pilot", &pilot.to_string()]);
    let reasons: Vec<&Value> = rows.as_array().expect("reasons").iter().map(|row| &row["reason"]).collect();
    let took = reasons.into_iter().find(|reason| reason["reason"] == "pilot-took");
    let number = |of: &str| took.map_or(0, |took| took[of].as_u64().expect("a number"));
    (number("n_taken"), number("n_given"))
}

/// Two pilots of which one holds nearly all tasks of job 2 and has their files, and the other has nothing to do: its
/// own is over.
fn one_is_idle(policy: &str) -> (Sandbox, Running, Roles) {
    let (sandbox, manager) = all_but_one_are_busy(policy, 2);
    submit_many(&sandbox, "sleep 0.1");
    until("the other has the rest", || counts_are(&sandbox, "2", "waiting", 0));
    until("it has told of all files", || from(&sandbox, "manager") == N_FILES * FILE_BYTES as u64);
    let roles = Roles::of(&sandbox);
    sandbox.write("go", "");
    (sandbox, manager, roles)
}

/// Each of the tasks has left the right sum, and was executed once, but for what killed pilots held.
fn ends_well(sandbox: &Sandbox, manager: Running, n_busy: usize, hits: &[Hit]) {
    until("all is done", || counts_are(sandbox, "2", "done", N_TASKS));
    sandbox.ok(&["fetch", "2"]);
    for file in 1..=N_FILES {
        let right = sum_of(&sandbox.path().join(format!("in-{file}")));
        for n in 1..=N_READERS {
            assert_eq!(sandbox.read(&format!("sums/{file}-{n}")), right, "{file}-{n}");
        }
    }
    executed_once(sandbox, n_busy + N_TASKS as usize, hits);
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

#[test]
fn an_idle_pilot_takes_half_of_what_waits_at_another() {
    let (sandbox, manager, roles) = one_is_idle("mlb");
    roles.until_played(&sandbox);
    until("it has told what it took", || figure(&sandbox, "tasks_taken_total") > 0);
    until("both have run some", || pilots_of(&sandbox, "2").len() == 2);
    ends_well(&sandbox, manager, 1, &[]);
}

#[test]
fn what_one_of_five_pilots_has_is_run_by_all_of_them() {
    let (sandbox, manager) = all_but_one_are_busy("lend", 5);
    sandbox.ok(&["policies", "set", "bundling", "fixed-1000"]);
    let all = sandbox.path().join("all").display().to_string();
    // Once it is known how long a task takes there is all at once for whoever ran the first.
    submit_many(&sandbox, &format!("test {{index}} = 0 || until test -e {all}; do sleep 0.05; done"));
    until("the fifth has the rest", || counts_are(&sandbox, "2", "waiting", 0));
    assert_eq!(pilots_of(&sandbox, "2").len(), 1);
    sandbox.write("go", "");
    until("all of them run one", || counts_are(&sandbox, "2", "running", 5));
    until("each has begun one", || pilots_of(&sandbox, "2").len() == 5);
    for pilot in pilots_of(&sandbox, "1") {
        assert!(taken_and_given(&sandbox, pilot).0 > 0, "pilot {pilot}");
    }
    sandbox.write("all", "");
    ends_well(&sandbox, manager, 4, &[]);
}

/// Behind a task that does not end the next one has its file already, and whoever is idle takes it nevertheless.
fn what_waits_with_its_files_is_taken(policy: &str) {
    let (sandbox, manager) = all_but_one_are_busy(policy, 2);
    let end = sandbox.path().join("end").display().to_string();
    let inputs = [1, 2, 3].map(|n| write_input(&sandbox, n));
    // A task takes longer than it takes to fetch a file.
    sandbox.write(
        "three.yaml",
        &format!(
            "command: '{SAY_WHO}; sleep 0.1; test {{n}} != 2 || until test -e {end}; do sleep 0.05; done; \
             cksum < in > sum'\nsweep: {{n: {{range: [1, 3]}}}}\n\
             inputs: [{{from: 'in-{{n}}', to: in}}]\noutputs: [{{from: sum, to: 'sums/{{n}}'}}]\n"
        ),
    );
    sandbox.ok(&["submit", "three.yaml"]);
    // The first says how long a task takes: then there is one ahead of the second.
    until("the files of all are there", || {
        cached(&sandbox).len() == 3 && counts_are(&sandbox, "2", "done", 1)
    });
    let roles = Roles::of(&sandbox);
    sandbox.write("go", "");
    until("the third is done", || counts_are(&sandbox, "2", "done", 2));
    assert!(counts_are(&sandbox, "2", "running", 1), "the second still runs");
    let moved = [roles.thief, roles.victim].map(|pilot| taken_and_given(&sandbox, pilot));
    assert_eq!(moved, [(1, 0), (0, 1)]);
    until("its file came from the other", || from(&sandbox, "peers") == FILE_BYTES as u64);
    sandbox.write("end", "");
    until("all is done", || counts_are(&sandbox, "2", "done", 3));
    sandbox.ok(&["fetch", "2"]);
    for (n, input) in (1..).zip(&inputs) {
        assert_eq!(sandbox.read(&format!("sums/{n}")), sum_of(input), "{n}");
    }
    executed_once(&sandbox, 1 + 3, &[]);
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn what_waits_with_its_files_behind_a_long_task_is_taken() {
    what_waits_with_its_files_is_taken("mlb");
}

#[test]
fn what_waits_with_its_files_behind_a_long_task_is_lent() {
    what_waits_with_its_files_is_taken("lend");
}

#[test]
fn nothing_is_taken_unless_the_policy_says_so() {
    let (sandbox, manager, roles) = one_is_idle("none");
    until("most is done", || sandbox.json(&["job", "2"])["counts"]["done"].as_u64() > Some(100));
    assert_eq!(figure(&sandbox, "tasks_taken_total"), 0);
    assert_eq!(pilots_of(&sandbox, "2").into_iter().collect::<Vec<_>>(), [roles.victim]);
    ends_well(&sandbox, manager, 1, &[]);
}

/// Where a pilot writes its log.
fn log_of(pilot: &PilotProcesses) -> PathBuf {
    fs::read_link(format!("/proc/{}/fd/2", pilot.worker)).expect("the pilot lives")
}

#[test]
fn a_pilot_killed_in_the_moment_of_a_steal_loses_nothing() {
    for who in [Roles::thief, Roles::victim] {
        let (sandbox, manager, roles) = one_is_idle("mlb");
        let [killed, victim] = [who(&roles), roles.victim].map(|pilot| processes(&sandbox, pilot));
        let (log, words) = (log_of(&victim), format!("gave tasks to another pilot thief={} ", roles.thief));
        let is_gift = |line: &str| line.contains(&words) && !line.ends_with("n_tasks=0");
        until("tasks are given away", || fs::read_to_string(&log).expect("a log").lines().any(is_gift));
        let hit = kill(&sandbox, &killed);
        ends_well(&sandbox, manager, 1, &[hit]);
    }
}

/// One of the two is killed when the thief has tasks and files of the victim's.
fn a_pilot_is_killed_after_a_steal(policy: &str, who: fn(&Roles) -> u64) {
    let (sandbox, manager, roles) = one_is_idle(policy);
    let killed = processes(&sandbox, who(&roles));
    roles.until_played(&sandbox);
    let hit = kill(&sandbox, &killed);
    assert!(hit.n_held > 1, "what it held matters: {hit:?}");
    ends_well(&sandbox, manager, 1, &[hit]);
}

#[test]
fn a_pilot_killed_after_it_took_tasks_loses_none_of_them() {
    a_pilot_is_killed_after_a_steal("lend", Roles::thief);
}

#[test]
fn a_pilot_killed_after_it_gave_tasks_loses_none_of_them() {
    a_pilot_is_killed_after_a_steal("flds", Roles::victim);
}
