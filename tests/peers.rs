//! Pilots of a platform that have something of each other: files, with real managers, pilots and connections.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{
    Running, Sandbox, noise,
    pilots::{PilotProcesses, pilots, signal_all},
    sweep::Hit,
    until,
};

/// What each task does first: so that it is known how often it was executed, and by whom.
const SAY_WHO: &str = "echo $PILOTFISH_TASK_ID $PILOTFISH_PILOT_ID >> $PILOTFISH_SUBMIT_DIR/executions";

/// A manager with so many pilots of a core, each with a cache of its own.
fn serve(sandbox: &Sandbox, n_pilots: usize) -> Running {
    sandbox.write(
        "manager.yaml",
        &format!(
            "platforms: [{{name: here, adapter: local, cores: 1, pilots_min: {n_pilots}, pilots_max: {n_pilots}, \
             poll_interval: 1s}}]\n"
        ),
    );
    let mut command = sandbox.command(&["serve", "--config", "manager.yaml"]);
    command.env("PILOTFISH_CACHE", sandbox.path().join("caches/{tag}"));
    let manager = sandbox.serve(command);
    until("all pilots are there", || sandbox.json(&["platform", "show", "here"])["n_pilots"] == n_pilots);
    manager
}

/// The value of a metric with these labels.
fn figure(sandbox: &Sandbox, name: &str) -> u64 {
    let metrics = sandbox.ok(&["metrics"]);
    let line = metrics.lines().find(|line| line.starts_with(&format!("pilotfish_{name} ")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

fn from(sandbox: &Sandbox, place: &str) -> u64 {
    figure(sandbox, &format!("input_bytes_total{{from=\"{place}\"}}"))
}

/// Files that agents have in their caches.
fn cached(sandbox: &Sandbox) -> Vec<PathBuf> {
    let folders = fs::read_dir(sandbox.path().join("caches")).into_iter().flatten().flatten();
    let objects =
        folders.flat_map(|folder| fs::read_dir(folder.path().join("objects")).into_iter().flatten());
    objects.flatten().map(|entry| entry.path()).collect()
}

fn counts_are(sandbox: &Sandbox, job: &str, word: &str, n: u64) -> bool {
    sandbox.json(&["job", job])["counts"][word] == n
}

/// Each task has one accepted attempt, and left the sum of the input.
fn all_right(sandbox: &Sandbox, job: &str, n: u64, folder: &str, input: &Path) {
    let counts = sandbox.json(&["job", job])["counts"].clone();
    assert_eq!((&counts["done"], &counts["failed"]), (&n.into(), &0.into()), "{counts}");
    let right = std::process::Command::new("cksum").stdin(fs::File::open(input).expect("the input")).output();
    let right = tests::text(&right.expect("a sum").stdout);
    let sums: Vec<PathBuf> = fs::read_dir(sandbox.path().join(folder))
        .expect("the sums have come home")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(sums.len() as u64, n);
    for sum in sums {
        assert_eq!(fs::read_to_string(&sum).expect("a sum"), right, "{}", sum.display());
    }
}

/// Each of so many tasks was executed once, except for what pilots held that were killed: that once more at most.
fn executed_once(sandbox: &Sandbox, n_tasks: usize, hits: &[Hit]) {
    let mut executed: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in sandbox.read("executions").lines() {
        let (task, pilot) = line.split_once(' ').expect("a task and a pilot");
        executed.entry(task.to_owned()).or_default().push(pilot.parse().expect("a number"));
    }
    assert_eq!(executed.len(), n_tasks, "{executed:?}");
    let mut n_again = 0;
    for (task, by) in &executed {
        let of_hit = |hit: &&Hit| by.iter().filter(|pilot| **pilot == hit.pilot).count() == 1;
        let n_reasons = hits.iter().filter(of_hit).count();
        assert!(by.len() - 1 <= n_reasons, "pilots {by:?} have executed task {task}; {hits:?}");
        n_again += by.len() as u64 - 1;
    }
    let n_held: u64 = hits.iter().map(|hit| hit.n_held).sum();
    assert!(n_again <= n_held, "{n_again} executions beyond one; {hits:?}");
}

/// What the manager shows of its pilots.
fn views(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.json(&["pilots"]).as_array().expect("pilots").clone()
}

/// Tasks that the manager has given the pilot and has heard nothing of.
fn n_held(view: &Value) -> u64 {
    ["n_running", "n_queued"].iter().map(|of| view[*of].as_u64().expect("a number")).sum()
}

fn processes(sandbox: &Sandbox, allocation: &Value) -> PilotProcesses {
    pilots(sandbox).into_iter().find(|pilot| *allocation == pilot.allocation).expect("its processes")
}

/// Kills guard and worker. From when they stand still nothing is executed any more of what is held then.
fn kill(sandbox: &Sandbox, pilot: &PilotProcesses) -> Hit {
    let both = [pilot.guard, pilot.worker];
    signal_all(&both, Signal::SIGSTOP);
    let view = views(sandbox).into_iter().find(|view| view["allocation"] == pilot.allocation);
    signal_all(&both, Signal::SIGKILL);
    let view = view.expect("the pilot");
    Hit { pilot: view["id"].as_u64().expect("its number"), n_held: n_held(&view) }
}

fn what_all_need_leaves_the_manager_once(n_pilots: usize) {
    const N_BYTES: usize = 5 << 20;
    let sandbox = Sandbox::new();
    let input = sandbox.path().join("shared.bin");
    fs::write(&input, noise(N_BYTES, 1)).expect("the input");
    sandbox.write(
        "job.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < shared.bin > sum; sleep 0.1'\nsweep: {{n: {{range: [1, 200]}}}}\n\
             inputs: [shared.bin]\noutputs: [{{from: sum, to: \"sums/{{n}}\"}}]\n"
        ),
    );
    let manager = serve(&sandbox, n_pilots);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    all_right(&sandbox, "1", 200, "sums", &input);
    executed_once(&sandbox, 200, &[]);
    let n_caches = cached(&sandbox).len() as u64;
    assert!(n_caches >= 2, "{n_caches} pilots have had tasks");
    assert_eq!(from(&sandbox, "manager"), N_BYTES as u64, "once");
    until("all have told what they fetched", || from(&sandbox, "peers") == (n_caches - 1) * N_BYTES as u64);
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

#[test]
fn what_two_pilots_need_leaves_the_manager_once() {
    what_all_need_leaves_the_manager_once(2);
}

#[test]
fn what_eight_pilots_need_leaves_the_manager_once() {
    what_all_need_leaves_the_manager_once(8);
}

/// Of two pilots one has the input, and is busy until a file `go` is there.
fn one_has_it(n_bytes: usize) -> (Sandbox, Running, PathBuf) {
    let sandbox = Sandbox::new();
    let input = sandbox.path().join("shared.bin");
    fs::write(&input, noise(n_bytes, 7)).expect("the input");
    let go = sandbox.path().join("go").display().to_string();
    sandbox.write(
        "first.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < shared.bin > sum; until test -e {go}; do sleep 0.05; done'\n\
             crash_limit: 9\n\
             inputs: [shared.bin]\noutputs: [{{from: sum, to: first/sum}}]\n"
        ),
    );
    sandbox.write(
        "then.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < shared.bin > sum'\nsweep: {{n: {{range: [1, 20]}}}}\ncrash_limit: 9\n\
             inputs: [shared.bin]\noutputs: [{{from: sum, to: \"then/{{n}}\"}}]\n"
        ),
    );
    let manager = serve(&sandbox, 2);
    sandbox.ok(&["submit", "first.yaml"]);
    until("one pilot has it", || counts_are(&sandbox, "1", "running", 1) && cached(&sandbox).len() == 1);
    (sandbox, manager, input)
}

/// Whether a log below the folder has these words.
fn is_said(folder: &Path, words: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => is_said(&path, words),
        false => fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(words)),
    })
}

#[test]
fn a_corrupted_file_of_another_pilot_is_not_taken() {
    let (sandbox, manager, input) = one_has_it(5 << 20);
    // As a bad disk does it: nothing says that it was written to.
    let object = cached(&sandbox).pop().expect("it is there");
    let marked = fs::metadata(&object).and_then(|facts| facts.modified()).expect("its time");
    assert!(marked < SystemTime::now() - Duration::from_secs(3600));
    fs::set_permissions(&object, fs::Permissions::from_mode(0o700)).expect("it can be written");
    let file = fs::OpenOptions::new().write(true).open(&object).expect("it is opened");
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", 1 << 20).expect("it is written");
    file.set_modified(marked).expect("its time");
    sandbox.ok(&["submit", "--wait", "then.yaml"]);
    all_right(&sandbox, "2", 20, "then", &input);
    assert_eq!((from(&sandbox, "peers"), from(&sandbox, "manager")), (0, 2 * (5 << 20)));
    assert!(is_said(sandbox.path(), "another pilot gave another file"), "it was not even offered");
    executed_once(&sandbox, 1 + 20, &[]);
    sandbox.write("go", "");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_pilot_killed_while_it_serves_another_costs_nothing_but_its_own_task() {
    let (sandbox, manager, input) = one_has_it(120 << 20);
    let holder = cached(&sandbox)[0].ancestors().nth(2).expect("its cache").to_owned();
    let tag = holder.file_name().expect("its tag").to_string_lossy().into_owned();
    let allocation: u64 = tag.rsplit('-').next().and_then(|n| n.parse().ok()).expect("its number");
    let pilot = processes(&sandbox, &allocation.into());
    sandbox.ok(&["submit", "then.yaml"]);
    let is_part = |path: &Path| path.to_string_lossy().contains("/part-");
    let parts = |folder: &Path| {
        let users = fs::read_dir(folder.join("users")).into_iter().flatten().flatten();
        let files = users.flat_map(|user| fs::read_dir(user.path()).into_iter().flatten().flatten());
        files.filter(|file| is_part(&file.path())).count()
    };
    until("the other fetches it", || {
        let caches = fs::read_dir(sandbox.path().join("caches")).into_iter().flatten().flatten();
        caches.map(|cache| cache.path()).any(|cache| cache != holder && parts(&cache) > 0)
    });
    let hit = kill(&sandbox, &pilot);
    sandbox.write("go", "");
    for (job, n) in [("1", 1), ("2", 20)] {
        until("all is done", || counts_are(&sandbox, job, "done", n));
        sandbox.ok(&["fetch", job]);
    }
    all_right(&sandbox, "2", 20, "then", &input);
    executed_once(&sandbox, 1 + 20, &[hit]);
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// A stage of twelve tasks that leave a megabyte each, and one whose tasks take one of these each, by three pilots:
/// how much of that came from the pilot's own cache, from other pilots and from the manager.
fn passed_on(policy: &str) -> [u64; 3] {
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        &format!(
            "stages:\n\
             \x20 make:\n\
             \x20   command: '{SAY_WHO}; head -c 1000000 /dev/urandom > big; cksum < big > sum; sleep 0.1'\n\
             \x20   sweep: {{n: {{range: [1, 12]}}}}\n\
             \x20   outputs: [{{from: big, to: 'big/{{n}}'}}, {{from: sum, to: 'made/{{n}}'}}]\n\
             \x20 use:\n\
             \x20   command: '{SAY_WHO}; cksum < big > sum; sleep 0.1'\n\
             \x20   sweep: {{n: {{range: [1, 12]}}}}\n\
             \x20   after: {{stage: make, tasks: same}}\n\
             \x20   inputs: [{{from: 'stage:make/big/{{n}}', to: big}}]\n\
             \x20   outputs: [{{from: sum, to: 'used/{{n}}'}}]\n"
        ),
    );
    let manager = serve(&sandbox, 3);
    sandbox.ok(&["policies", "set", "stealing", policy]);
    sandbox.ok(&["submit", "--wait", "flow.yaml"]);
    for n in 1..=12 {
        assert_eq!(sandbox.read(&format!("made/{n}")), sandbox.read(&format!("used/{n}")), "{n}");
    }
    executed_once(&sandbox, 12 + 12, &[]);
    let moved = sandbox.json(&["job", "2"])["moved"].clone();
    let moved = ["cached", "from_peers", "from_manager"].map(|from| moved[from].as_u64().unwrap_or(0));
    sandbox.ok(&["stop"]);
    manager.wait();
    moved
}

#[test]
fn what_a_task_leaves_for_others_stays_where_it_was_made() {
    let [cached, from_peers, from_manager] = passed_on("none");
    assert_eq!((cached + from_peers, from_manager), (12_000_000, 0));
}

#[test]
fn tasks_go_to_what_others_have_left_for_them() {
    assert_eq!(passed_on("mdl"), [12_000_000, 0, 0]);
}

/// Two pilots of which one has the only task of job 1, until a file `go` is there.
fn one_is_busy(policy: &str) -> (Sandbox, Running) {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manager.yaml",
        &format!(
            "platforms: [{{name: here, adapter: local, cores: 1, pilots_min: 2, pilots_max: 2, poll_interval: 1s}}]\n\
             policies: {{stealing: {policy}}}\nlimits: {{prefetch: 1h}}\n"
        ),
    );
    let mut command = sandbox.command(&["serve", "--config", "manager.yaml"]);
    command.env("PILOTFISH_CACHE", sandbox.path().join("caches/{tag}"));
    // Agents say when they give tasks away.
    command.env("PILOTFISH_LOG", "debug");
    let manager = sandbox.serve(command);
    until("both pilots are there", || sandbox.json(&["platform", "show", "here"])["n_pilots"] == 2);
    let go = sandbox.path().join("go").display().to_string();
    sandbox.write("first.yaml", &format!("command: '{SAY_WHO}; until test -e {go}; do sleep 0.05; done'\n"));
    sandbox.ok(&["submit", "first.yaml"]);
    until("one pilot is busy", || counts_are(&sandbox, "1", "running", 1));
    (sandbox, manager)
}

/// Two pilots of which one holds nearly all tasks of job 2 and the other has nothing to do: its own is over.
fn one_is_idle(policy: &str) -> (Sandbox, Running) {
    let (sandbox, manager) = one_is_busy(policy);
    sandbox.write(
        "many.yaml",
        &format!(
            "command: '{SAY_WHO}; sleep 0.1; echo {{n}} > out'\nsweep: {{n: {{range: [1, 150]}}}}\ncrash_limit: 9\n\
             outputs: [{{from: out, to: \"out/{{n}}\"}}]\n"
        ),
    );
    sandbox.ok(&["submit", "many.yaml"]);
    until("the other has the rest", || counts_are(&sandbox, "2", "waiting", 0));
    sandbox.write("go", "");
    (sandbox, manager)
}

fn ends_well(sandbox: &Sandbox, manager: Running, hits: &[Hit]) {
    until("all is done", || counts_are(sandbox, "2", "done", 150));
    assert!(counts_are(sandbox, "2", "failed", 0));
    sandbox.ok(&["fetch", "2"]);
    for n in 1..=150 {
        assert_eq!(sandbox.read(&format!("out/{n}")), format!("{n}\n"));
    }
    executed_once(sandbox, 1 + 150, hits);
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

#[test]
fn an_idle_pilot_takes_half_of_what_waits_at_another() {
    let (sandbox, manager) = one_is_idle("mlb");
    until("tasks are taken", || figure(&sandbox, "tasks_taken_total") > 0);
    until("both run some", || counts_are(&sandbox, "2", "running", 2));
    ends_well(&sandbox, manager, &[]);
}

/// Behind a task that does not end the next one has its file already, and whoever is idle takes it nevertheless.
fn what_waits_with_its_files_is_taken(policy: &str) {
    let (sandbox, manager) = one_is_busy(policy);
    let end = sandbox.path().join("end").display().to_string();
    for n in 1..=3 {
        fs::write(sandbox.path().join(format!("in-{n}")), noise(1000, n)).expect("the input");
    }
    sandbox.write(
        "three.yaml",
        &format!(
            "command: '{SAY_WHO}; test {{n}} != 2 || until test -e {end}; do sleep 0.05; done; cksum < in > sum'\n\
             sweep: {{n: {{range: [1, 3]}}}}\n\
             inputs: [{{from: 'in-{{n}}', to: in}}]\noutputs: [{{from: sum, to: 'sums/{{n}}'}}]\n"
        ),
    );
    sandbox.ok(&["submit", "three.yaml"]);
    // The first says how long a task takes: then there is one ahead of the second.
    until("the files of all are there", || {
        cached(&sandbox).len() == 3 && counts_are(&sandbox, "2", "done", 1)
    });
    sandbox.write("go", "");
    until("the third is done", || counts_are(&sandbox, "2", "done", 2));
    assert_eq!(figure(&sandbox, "tasks_taken_total"), 1);
    assert!(counts_are(&sandbox, "2", "running", 1), "the second still runs");
    sandbox.write("end", "");
    until("all is done", || counts_are(&sandbox, "2", "done", 3));
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
    let (sandbox, manager) = one_is_idle("none");
    until("most is done", || sandbox.json(&["job", "2"])["counts"]["done"].as_u64() > Some(100));
    assert_eq!(figure(&sandbox, "tasks_taken_total"), 0);
    ends_well(&sandbox, manager, &[]);
}

/// The pilot that holds most tasks, or the other one.
fn pilot_of(sandbox: &Sandbox, is_thief: bool) -> PilotProcesses {
    let views = views(sandbox);
    // Whoever came by its tasks from the other holds fewer.
    let chosen = match is_thief {
        true => views.iter().min_by_key(|view| n_held(view)),
        false => views.iter().max_by_key(|view| n_held(view)),
    };
    processes(sandbox, &chosen.expect("a pilot")["allocation"])
}

#[test]
fn a_pilot_killed_in_the_moment_of_a_steal_loses_nothing() {
    for is_thief in [true, false] {
        let (sandbox, manager) = one_is_idle("mlb");
        let pilot = pilot_of(&sandbox, is_thief);
        until("tasks are given away", || is_said(sandbox.path(), "gave tasks to another pilot"));
        let hit = kill(&sandbox, &pilot);
        ends_well(&sandbox, manager, &[hit]);
    }
}

#[test]
fn a_pilot_killed_after_it_took_tasks_loses_none_of_them() {
    let (sandbox, manager) = one_is_idle("lend");
    until("tasks are taken", || figure(&sandbox, "tasks_taken_total") > 0);
    let hit = kill(&sandbox, &pilot_of(&sandbox, true));
    ends_well(&sandbox, manager, &[hit]);
}

#[test]
fn a_pilot_killed_after_it_gave_tasks_loses_none_of_them() {
    let (sandbox, manager) = one_is_idle("flds");
    until("tasks are taken", || figure(&sandbox, "tasks_taken_total") > 0);
    let hit = kill(&sandbox, &pilot_of(&sandbox, false));
    ends_well(&sandbox, manager, &[hit]);
}
