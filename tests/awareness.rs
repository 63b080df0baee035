//! What a manager knows of applications: what is said of them, what is measured, and the weights made of both.

use std::collections::BTreeMap;

use serde_json::Value;
use tests::{Running, Sandbox, text, until};

/// Two platforms with a pilot of one core each, which are there from the beginning.
const MANAGER: &str = "\
platforms:
  - {name: near, adapter: local, cores: 1, pilots_min: 1, pilots_max: 1, allow_shared_account: true}
  - {name: far, adapter: local, cores: 1, pilots_min: 1, pilots_max: 1, allow_shared_account: true}
";

fn serve(job: &str) -> (Sandbox, Running) {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", MANAGER);
    sandbox.write("job.yaml", job);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    until("both pilots are there", || sandbox.json(&["pilots"]).as_array().is_some_and(|all| all.len() == 2));
    (sandbox, manager)
}

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
    assert!(sandbox.agents().is_empty());
}

/// By platform, which share of what is ready of an application is meant for it; empty until that is known.
fn weights(sandbox: &Sandbox, application: &str) -> BTreeMap<String, f64> {
    let weights = sandbox.json(&["weights"]);
    let kinds = weights["kinds"].as_array().into_iter().flatten();
    let of_it = kinds.filter(|kind| kind["application"] == application);
    let platforms = of_it.flat_map(|kind| kind["platforms"].as_array().into_iter().flatten());
    let weight = |one: &Value| Some((one["platform"].as_str()?.to_owned(), one["weight"].as_f64()?));
    platforms.filter_map(weight).collect()
}

fn refusal(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let refused = sandbox.run(arguments);
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), String::new()), "{refused:?}");
    text(&refused.stderr)
}

#[test]
fn what_is_said_of_an_application_decides_until_more_is_measured() {
    let (sandbox, manager) =
        serve("command: sleep 0.05\napplication: dock\nsweep: {n: {range: [1, 100000]}}\n");
    assert_eq!(
        sandbox.ok(&["weights"]),
        "no weights: nothing is open, or fewer than two platforms have pilots\n"
    );
    let times = ["--time", "near=0.1s", "--time", "far=0.3s", "--counts-as", "10000"];
    let said = sandbox.ok(&[&["profiles", "edit", "dock", "--type", "cpu-bound"], &times[..]].concat());
    let line = "declared of dock: cpu-bound, 300ms on far, 100ms on near, counts as 10,000 tasks\n";
    assert_eq!(said, line);
    sandbox.ok(&["submit", "job.yaml"]);
    until("there are weights", || weights(&sandbox, "dock").len() == 2);
    let weighed = weights(&sandbox, "dock");
    assert!((weighed["near"] - 0.75).abs() < 0.02 && (weighed["far"] - 0.25).abs() < 0.02, "{weighed:?}");
    let why = sandbox.ok(&["explain", "weight", "dock"]);
    assert!(why.contains("\nnear has weight 7") && why.contains("\nfar has weight 2"), "{why}");
    let metrics = sandbox.ok(&["metrics"]);
    for line in ["pilotfish_tasks{state=\"failed\"} 0\n", "pilotfish_platform_pilots{platform=\"far\"} 1\n"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let weight = "pilotfish_weight{application=\"dock\",needs=\"1 core\",platform=\"near\"} 0.7";
    assert!(metrics.contains(weight), "{metrics}");
    let history = sandbox.json(&["weights", "history", "dock"]);
    let first = &history[0]["kind"]["platforms"][0];
    assert_eq!((&first["platform"], &first["before"]), (&"near".into(), &Value::Null), "{history}");
    assert!(refusal(&sandbox, &["weights", "dokc"]).contains("did you mean `dock`?"));
    let misspelt = refusal(&sandbox, &["profiles", "edit", "dock", "--time", "nera=1s"]);
    assert!(misspelt.contains("there is no platform `nera`; did you mean `near`?"), "{misspelt}");
    // What was said is taken back: what was measured is left, and they are alike.
    assert_eq!(
        sandbox.ok(&["profiles", "edit", "dock", "--nothing"]),
        "nothing is declared of dock any more\n"
    );
    until("both count alike", || (weights(&sandbox, "dock")["near"] - 0.5).abs() < 0.1);
    ends(&sandbox, manager);
    assert_eq!(sandbox.ok(&["metrics"]), "pilotfish_up 0\n");
}

#[test]
fn profiles_are_declared_from_files_and_exported_as_such() {
    let (sandbox, manager) = serve("command: sleep 0.01\napplication: dock\nsweep: {n: {range: [1, 20]}}\n");
    sandbox.write(
        "dock.yaml",
        "application: dock\njob_type: io-bound\ncpu_share: 0.25\ntimes: {near: 1m}\nsource: a colleague\n",
    );
    sandbox.ok(&["profiles", "declare", "dock.yaml", "autodock-vina"]);
    let shown = sandbox.json(&["profiles", "show", "dock"]);
    assert_eq!(
        (&shown["job_type"], &shown["declared"]["source"]),
        (&"io-bound".into(), &"a colleague".into())
    );
    let exported = sandbox.ok(&["profiles", "export", "dock"]);
    let again = sandbox.write("again.yaml", &exported);
    sandbox.ok(&["profiles", "edit", "dock", "--nothing"]);
    sandbox.ok(&["profiles", "declare", &again.display().to_string()]);
    assert_eq!(sandbox.json(&["profiles", "show", "dock"]), shown, "{exported}");
    let all = sandbox.ok(&["profiles", "list"]);
    assert!(all.contains("autodock-vina"), "{all}");
    sandbox.ok(&["submit", "job.yaml", "--wait"]);
    let measured = sandbox.ok(&["profiles", "export", "dock"]);
    assert!(measured.contains("source: measured on 20 tasks"), "{measured}");
    // None of several, if one is wrong.
    sandbox.write("wrong.yaml", "application: blast\ncpu_share: 25\n");
    let refused = refusal(&sandbox, &["profiles", "declare", "montage", "wrong.yaml"]);
    assert!(refused.contains("wrong.yaml:2"), "{refused}");
    assert!(!sandbox.ok(&["profiles", "list"]).contains("montage"));
    let refused = refusal(&sandbox, &["profiles", "declare", "montag"]);
    assert!(refused.contains("did you mean `montage`?"), "{refused}");
    ends(&sandbox, manager);
}

#[test]
fn a_platform_that_fails_loses_weight_and_regains_it_when_it_is_mended() {
    // Every second task fails where a file says so.
    let job = "\
application: dock
command: [sh, -c, 'sleep 0.02; test $(({n} % 2)) = 0 || test ! -e broken-$PILOTFISH_PILOT_ID']
sweep: {n: {range: [1, 1000000]}}
retries: 1000
";
    let (sandbox, manager) = serve(job);
    let pilots = sandbox.json(&["pilots"]);
    let far = pilots.as_array().into_iter().flatten().find(|pilot| pilot["platform"] == "far");
    let broken = format!("broken-{}", far.expect("its pilot")["id"]);
    sandbox.ok(&["submit", "job.yaml"]);
    let weight = || weights(&sandbox, "dock").get("far").copied();
    until("both count alike", || weight().is_some_and(|weight| (weight - 0.5).abs() < 0.1));
    sandbox.write(&broken, "");
    until("nearly nothing is meant for it", || weight().is_some_and(|weight| weight < 0.1));
    let sum: f64 = weights(&sandbox, "dock").values().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    std::fs::remove_file(sandbox.path().join(&broken)).expect("it is there");
    until("both count alike again", || weight().is_some_and(|weight| (weight - 0.5).abs() < 0.1));
    assert_eq!(sandbox.json(&["job", "1"])["counts"]["failed"], 0);
    ends(&sandbox, manager);
}

#[test]
fn a_pilot_offers_more_slots_where_tasks_leave_its_core_idle() {
    let sandbox = Sandbox::new();
    let entry =
        "{name: here, adapter: local, cores: 1, pilots_max: 1, scaling: {ratio_max: 4, interval: 1s}}";
    sandbox.write("manager.yaml", &format!("platforms: [{entry}]\n"));
    sandbox.write("job.yaml", "command: sleep 0.3\nsweep: {n: {range: [1, 10000]}}\n");
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    let n_running = || sandbox.json(&["job", "1"])["counts"]["running"].as_u64().unwrap_or(0);
    until("four tasks run on a core", || {
        assert!(n_running() <= 4, "no more than may be");
        n_running() == 4
    });
    let told = sandbox.ok(&["explain", "platform", "here"]);
    assert!(
        told.contains("scaling (measured): here has 4 slots a core of its pilots, of at most 4; 1 until"),
        "{told}"
    );
    let scaling = sandbox.json(&["platform", "show", "here"])["scaling"].clone();
    assert_eq!((&scaling["ratio"], &scaling["changes"][0]["why"]), (&4000.into(), &"room".into()));
    sandbox.ok(&["policies", "set", "scaling", "fixed"]);
    until("one task runs on a core", || n_running() == 1);
    ends(&sandbox, manager);
}

/// Processes that compute until they are dropped.
struct Load(Vec<std::process::Child>);

impl Load {
    /// Three for each CPU: no other process here has more than a quarter of one.
    fn new() -> Load {
        let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = |_| std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        Load((0..3 * n_cpus).map(|n| busy(n).expect("a shell")).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // It ends by nothing else.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn tasks_that_compute_on_a_host_that_is_busy_are_not_taken_for_idle_ones() {
    let sandbox = Sandbox::new();
    let entry =
        "{name: here, adapter: local, cores: 1, pilots_max: 1, scaling: {ratio_max: 4, interval: 1s}}";
    sandbox.write("manager.yaml", &format!("platforms: [{entry}]\n"));
    let compute = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    sandbox.write(
        "job.yaml",
        &format!("command: '{compute}'\napplication: dock\nsweep: {{n: {{range: [1, 10000]}}}}\n"),
    );
    let load = Load::new();
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    until("some have ended in several intervals", || {
        sandbox.json(&["job", "1"])["counts"]["done"].as_u64() >= Some(12)
    });
    let scaling = sandbox.json(&["platform", "show", "here"])["scaling"].clone();
    // A ratio below two slots a core offers no second slot. Before starved CPUs were told apart it rose to four.
    assert!(scaling["ratio"].as_u64().is_some_and(|ratio| ratio < 2000), "{scaling}");
    until("its type is known", || {
        let shown = sandbox.json(&["profiles", "show", "dock"]);
        shown.to_string().contains("cpu-bound")
    });
    drop(load);
    ends(&sandbox, manager);
}

#[test]
fn two_users_have_their_shares_and_it_is_told_how_even_that_is() {
    let job = "command: sleep 0.02\napplication: dock\nsweep: {n: {range: [1, 1000000]}}\n";
    let (sandbox, manager) = serve(job);
    sandbox.ok(&["policies", "set", "allocation", "equal"]);
    for user in ["ann", "bob"] {
        let said = sandbox.ok(&["user", "add", user]);
        assert_eq!(said, format!("{user} has access by ./{user}/access.json: pilotfish jobs --dir {user}\n"));
    }
    let fairness = || sandbox.json(&["status"])["totals"]["fairness"].as_f64();
    sandbox.ok(&["submit", "job.yaml", "--dir", "ann"]);
    until("ann has it all", || sandbox.json(&["job", "1"])["counts"]["done"].as_u64() > Some(20));
    assert_eq!(fairness(), None, "of one user nothing is to be said");
    sandbox.ok(&["submit", "job.yaml", "--dir", "bob"]);
    until("both are served alike", || fairness() > Some(0.8));
    let shares = sandbox.json(&["platform", "show", "near"])["shares"].clone();
    assert!(shares["ann"].is_u64() && shares["bob"].is_u64(), "{shares}");
    let metrics = sandbox.ok(&["metrics"]);
    let told =
        metrics.lines().find_map(|line| line.strip_prefix("pilotfish_fairness ")).map(str::parse::<f64>);
    assert!(told.is_some_and(|told| told.is_ok_and(|told| told > 0.7)), "{metrics}");
    let status = sandbox.ok(&["status"]);
    assert!(status.contains(" among users with open tasks"), "{status}");

    // Each changes their own only, and no other may do what operators do.
    assert_ne!(sandbox.run(&["cancel", "1", "--dir", "bob"]).status.code(), Some(0));
    assert_ne!(sandbox.run(&["stop", "--now", "--dir", "bob"]).status.code(), Some(0));
    assert!(refusal(&sandbox, &["user", "add", "ann"]).contains("found ./ann/access.json already"));
    assert!(refusal(&sandbox, &["user", "add", "a/b"]).contains("found `a/b` as a user's name"));
    assert!(refusal(&sandbox, &["user", "add", "eve", "--dir", "bob"]).contains("bob is no operator"));
    sandbox.ok(&["user", "add", "eve", "--operator"]);
    sandbox.ok(&["cancel", "1", "2", "--dir", "eve"]);
    ends(&sandbox, manager);
}

/// Sizes of tasks by their indices: those of paper 002, Fig. 3, and the one that makes bins of 12.
const SIZES: [u64; 11] = [1, 7, 3, 12, 5, 9, 7, 1, 4, 2, 3];

#[test]
fn bundles_are_packed_by_what_tasks_are_estimated_to_take() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manager.yaml",
        "policies: {bundling: bin-packing}\n\
         platforms: [{name: here, adapter: local, cores: 4, pilots_min: 1, pilots_max: 1}]\n",
    );
    sandbox.write(
        "job.yaml",
        &format!(
            "command: echo {{atoms}} >> order; while [ ! -e end-{{atoms}} ]; do sleep 0.05; done\n\
             sweep: {{atoms: {SIZES:?}}}\nestimate: atoms\n"
        ),
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    until("the pilot is there", || sandbox.json(&["pilots"]).as_array().is_some_and(|all| all.len() == 1));
    sandbox.ok(&["submit", "job.yaml"]);
    let sizes = |state: &str| {
        let tasks = sandbox.json(&["tasks", "1", "--state", state]);
        let index = |task: &Value| task["index"].as_u64().map(|index| SIZES[index as usize]);
        let mut sizes: Vec<u64> = tasks.as_array().into_iter().flatten().filter_map(index).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    };
    // [12], [9, 3], [7, 5] and [7, 4, 1] side by side, the first of each at once.
    until("four run", || sizes("running") == [12, 9, 7, 7]);
    assert_eq!((sizes("queued"), sizes("waiting")), (vec![5, 4, 3, 1], vec![3, 2, 1]));
    sandbox.write("end-7", "");
    until("those after them run", || sizes("running") == [12, 9, 5, 3]);
    SIZES.iter().for_each(|size| _ = sandbox.write(&format!("end-{size}"), ""));
    sandbox.ok(&["wait", "1"]);
    ends(&sandbox, manager);
}
