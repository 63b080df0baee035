//! `pilotfish profile` with real pilots: a node for itself, and what it costs to share it.

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{Running, Sandbox, text, until};

const MANAGER: &str = "\
platforms:
  - {name: near, adapter: local, cores: 2, pilots_min: 2, pilots_max: 2}
  - {name: far, adapter: local, cores: 1, pilots_max: 1}
";

/// A task that takes 0.1 s, 0.2 s more for each of its like beside it, and 0.1 s more for each other. Those that were
/// killed do not count.
fn job(application: &str) -> String {
    format!(
        "\
application: {application}
command:
  - sh
  - -c
  - |
    here=on-$PILOTFISH_PILOT_ID; mkdir -p $here; touch $here/{application}-$$
    for one in $here/*; do test -d /proc/${{one##*-}} || rm -f $one; done
    like=$(ls $here | grep -c {application}); all=$(ls $here | wc -l)
    sleep 0.$((1 + 2 * (like - 1) + all - like)); rm $here/{application}-$$
sweep: {{n: {{range: [1, 5]}}}}
"
    )
}

/// A manager that knows two applications, and has two pilots of two cores.
fn serve() -> (Sandbox, Running) {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", MANAGER);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    until("both pilots are there", || sandbox.json(&["pilots"]).as_array().is_some_and(|all| all.len() == 2));
    for application in ["dock", "search"] {
        sandbox.write("job.yaml", &job(application));
        sandbox.ok(&["submit", "job.yaml", "--wait"]);
    }
    (sandbox, manager)
}

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
    assert!(sandbox.agents().is_empty());
}

/// When a task ran, and where. Microseconds.
#[derive(Debug)]
struct Span {
    pilot: u64,
    from: u64,
    to: u64,
}

/// Of the tasks of a job that are done.
fn spans(sandbox: &Sandbox, job: &str) -> Vec<Span> {
    let tasks = sandbox.json(&["tasks", job, "--state", "done", "--limit", "1000000"]);
    let span = |task: &Value| {
        let from = task["started_at"].as_u64()?;
        Some(Span { pilot: task["pilot"].as_u64()?, from, to: from + task["wall"].as_u64()? })
    };
    tasks.as_array().into_iter().flatten().filter_map(span).collect()
}

fn n_open(sandbox: &Sandbox) -> usize {
    let jobs = sandbox.json(&["jobs"]);
    jobs.as_array().into_iter().flatten().filter(|job| job["ended_at"].is_null()).count()
}

#[test]
fn what_applications_take_alone_and_beside_each_other_is_measured_on_a_node_of_their_own() {
    let (sandbox, manager) = serve();
    // All the others are busy all the time.
    sandbox
        .write("busy.yaml", "command: sleep 0.02\napplication: other\nsweep: {n: {range: [1, 1000000]}}\n");
    let busy = sandbox.ok(&["submit", "-q", "busy.yaml"]);
    let rows = sandbox.json(&["profile", "dock", "search", "--tasks", "3"]);
    let last = sandbox.json(&["job", "last"]);
    assert_eq!(
        last["id"].as_u64().map(|id| id.to_string()).as_deref(),
        Some(busy.trim()),
        "no job of `profile`"
    );
    sandbox.ok(&["cancel", busy.trim()]);
    let rows = rows.as_array().expect("rows");
    let of = |application: &str, platform: &str| {
        let found = rows.iter().find(|r| r["application"] == application && r["platform"] == platform);
        found.unwrap_or_else(|| panic!("{application} on {platform}: {rows:?}"))
    };
    assert_eq!(rows.len(), 4);
    for application in ["dock", "search"] {
        let (near, far) = (of(application, "near"), of(application, "far"));
        assert_eq!(far["beside"], Value::Array(vec![]), "a node of one core has no company");
        let beside = |others: &[&str]| {
            let found = near["beside"].as_array().into_iter().flatten();
            found.clone().find(|one| one["others"] == serde_json::json!(others)).expect("it was measured")
        };
        let other = if application == "dock" { "search" } else { "dock" };
        let (like, other) = (beside(&[]), beside(&[other]));
        assert!(like["n"].as_u64() >= Some(3) && other["n"].as_u64() >= Some(3), "{near}");
        // 0.1 s alone, 0.2 s beside the other, and 0.3 s beside its like.
        let alone_s = near["alone_s"].as_f64().expect("it was measured");
        let mean_s = |one: &Value| one["mean_s"].as_f64().expect("it was measured");
        assert!(alone_s < mean_s(other) && mean_s(other) < mean_s(like), "{near}");
        assert!((like["raw_s"].as_f64().unwrap() - (mean_s(like) - alone_s)).abs() < 1e-9, "{near}");
        assert!(near["epa"].is_f64() && near["rpa"].is_f64() && far["rpa"].is_f64(), "{near}");
    }
    assert_eq!(n_open(&sandbox), 0, "nothing of the run goes on");
    // Nothing else began on its node while it had it.
    let jobs = sandbox.json(&["jobs"]);
    let is_of_run = |job: &&Value| job["name"].as_str().is_some_and(|name| name.ends_with(" on near"));
    let run = jobs.as_array().into_iter().flatten().filter(is_of_run);
    let run: Vec<Span> = run.flat_map(|job| spans(&sandbox, &job["id"].to_string())).collect();
    let of_others = spans(&sandbox, busy.trim());
    let node = run[0].pilot;
    assert!(run.iter().all(|span| span.pilot == node), "{run:?}");
    let (begin, end) = (run.iter().map(|s| s.from).min().unwrap(), run.iter().map(|s| s.to).max().unwrap());
    let beside: Vec<&Span> =
        of_others.iter().filter(|s| s.pilot == node && s.to > begin && s.from < end).collect();
    assert!(beside.is_empty(), "{beside:?}");
    assert!(of_others.iter().any(|s| s.pilot != node && s.to > begin && s.from < end), "others went on");
    ends(&sandbox, manager);
}

#[test]
fn what_ends_it_leaves_nothing_running() {
    let (sandbox, manager) = serve();
    let started = sandbox.start("profile", &["profile", "dock", "--platforms", "near", "--tasks", "1000"]);
    until("it has begun", || n_open(&sandbox) > 0);
    let refused = sandbox.run(&["profile", "search", "--platforms", "near"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("another run is under way"), "{refused:?}");
    started.signal(Signal::SIGINT);
    assert_eq!(started.wait(), Some(130));
    assert!(sandbox.read("profile.err").contains("near: dock alone"), "{}", sandbox.read("profile.err"));
    assert_eq!(n_open(&sandbox), 0);
    // Killed, it cannot cancel its jobs; they end by themselves.
    let started = sandbox.start("killed", &["profile", "dock", "--platforms", "near", "--tasks", "1000"]);
    until("it has begun", || n_open(&sandbox) > 0);
    started.signal(Signal::SIGKILL);
    started.wait();
    until("its jobs are over", || n_open(&sandbox) == 0);
    until("no pilot is set aside", || {
        ["1", "2"].iter().all(|pilot| !sandbox.ok(&["explain", "pilot", pilot]).contains("profiling"))
    });
    // Tasks that fail end it, too.
    sandbox.write("job.yaml", "command: [sh, -c, 'exit 3']\napplication: bad\n");
    sandbox.run(&["submit", "job.yaml", "--wait"]);
    let failed = sandbox.run(&["profile", "bad", "--platforms", "near"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert!(text(&failed.stderr).contains("a task of bad failed on near"), "{failed:?}");
    ends(&sandbox, manager);
}

#[test]
fn what_is_misspelt_is_refused_before_anything_runs() {
    let (sandbox, manager) = serve();
    for (arguments, expected) in [
        (&["profile", "dok"][..], "no job runs an application `dok`; did you mean `dock`?"),
        (&["profile", "17"], "there is no job 17"),
        (&["profile", "dock", "1"], "found dock twice; name each once"),
        (&["profile", "dock", "--platforms", "neer"], "there is no platform `neer`; did you mean `near`?"),
        (&["profile", "dock", "--tasks", "0"], "write a whole number from 1 to 10000"),
    ] {
        let refused = sandbox.run(arguments);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(expected), "{refused:?}");
    }
    sandbox.ok(&["platform", "pause", "far"]);
    let refused = sandbox.run(&["profile", "dock", "--platforms", "near,far"]);
    assert!(text(&refused.stderr).contains("platform far is paused, drained or detached"), "{refused:?}");
    assert_eq!(sandbox.json(&["jobs"]).as_array().map(Vec::len), Some(2));
    ends(&sandbox, manager);
}
