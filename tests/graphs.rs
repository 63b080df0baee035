//! Tasks that wait for others, with real processes: what they write tells in which order they ran.

use std::{collections::BTreeMap, fs};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::{Running, Sandbox, until};

/// Where each line stands first in what the tasks wrote.
fn order(sandbox: &Sandbox) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for (at, line) in sandbox.read("order").lines().enumerate() {
        places.entry(line.to_owned()).or_insert(at);
    }
    places
}

fn serve(sandbox: &Sandbox) -> Running {
    let manager = sandbox.start("serve", &["serve", "--cores", "2"]);
    sandbox.until_served();
    manager
}

fn end(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

#[test]
fn a_diamond_of_files_runs_in_its_order_in_one_process() {
    let sandbox = Sandbox::new();
    let task = |name: &str, line: &str, files: &str| {
        format!("  - {{name: {name}, command: \"echo {name} >> order; {line}\", {files}}}\n")
    };
    let tasks = [
        task("join", "cat left right > all", "inputs: [left, right], outputs: all"),
        task("left", "cp split left", "inputs: split, outputs: left"),
        task("right", "cp split right", "inputs: split, outputs: right"),
        task("split", "echo x > split", "outputs: split"),
    ];
    sandbox.write("flow.yaml", &format!("tasks:\n{}", tasks.concat()));
    let shown = sandbox.json(&["check", "flow.yaml"]);
    let of = |field: &str| shown[field].as_u64();
    assert_eq!((of("n_tasks"), of("n_edges"), of("critical_path")), (Some(4), Some(4), Some(3)));
    let ended = sandbox.json(&["run", "-q", "flow.yaml"]);
    assert_eq!(ended[0]["counts"]["done"], 4, "{ended}");
    assert_eq!(sandbox.read("all"), "x\nx\n");
    let order = order(&sandbox);
    assert_eq!((order["split"], order["join"], order.len()), (0, 3, 4));
    // The same again goes on with it: nothing is left.
    sandbox.ok(&["run", "-q", "flow.yaml"]);
    assert_eq!(sandbox.read("order").lines().count(), 4);
    assert!(sandbox.processes().is_empty());
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn size_of(file: &Value) -> Option<(&str, u64)> {
    Some((file["id"].as_str()?, file["sizeInBytes"].as_u64()?))
}

/// Stand-ins for tasks of WfCommons read what those before them have written, so that none can begin too early and
/// succeed.
#[test]
fn instances_of_wfcommons_run_in_their_order() {
    for name in ["montage", "blast", "epigenomics"] {
        let sandbox = Sandbox::new();
        let path = format!("{}/../examples/wfcommons/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let emulate = ["--emulate", "--speedup", "100000", "--shrink", "1000", "-o", "job.yaml"];
        sandbox.ok(&[&["import", "wfcommons", &path], &emulate[..]].concat());
        let instance: Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("it is there")).expect("JSON");
        let specification = &instance["workflow"]["specification"];
        let tasks = list(specification, "tasks");
        let n_edges: usize = tasks.iter().map(|task| list(task, "parents").len()).sum();
        let shown = sandbox.json(&["check", "job.yaml"]);
        assert_eq!((&shown["n_tasks"], &shown["n_edges"]), (&tasks.len().into(), &n_edges.into()), "{name}");
        let ended = sandbox.json(&["run", "-q", "-j", "4", "job.yaml"]);
        assert_eq!(ended[0]["counts"]["done"], tasks.len(), "{name}: {ended}");
        let sizes: BTreeMap<&str, u64> = list(specification, "files").iter().filter_map(size_of).collect();
        let written = tasks.iter().flat_map(|task| list(task, "outputFiles")).filter_map(Value::as_str);
        for file in written {
            let found = fs::metadata(sandbox.path().join(file)).expect("it was written").len();
            assert_eq!(found, sizes[file].div_ceil(1000), "{name}: {file}");
        }
    }
}

/// An instance of WfCommons with these tasks: a name, those it waits for, how long it took, and its command.
fn instance(tasks: &[(&str, &[&str], f64, &[&str])]) -> String {
    let specified =
        tasks.iter().map(|(name, parents, ..)| json!({"name": name, "id": name, "parents": parents}));
    let executed = tasks.iter().map(|(name, _, runtime_s, command)| {
        let command = json!({"program": command[0], "arguments": command[1..]});
        json!({"id": name, "runtimeInSeconds": runtime_s, "command": command})
    });
    let workflow = json!({
        "specification": {"tasks": specified.collect::<Vec<_>>(), "files": []},
        "execution": {"tasks": executed.collect::<Vec<_>>()},
    });
    json!({"name": "small", "schemaVersion": "1.5", "workflow": workflow}).to_string()
}

#[test]
fn an_instance_of_wfcommons_runs_its_own_commands() {
    let sandbox = Sandbox::new();
    let text = instance(&[
        ("tell", &["once", "twice"], 1.0, &["cat", "in", "one", "two"]),
        ("twice", &["once"], 1.0, &["cp", "one", "two"]),
        ("once", &[], 1.0, &["cp", "in", "one"]),
    ]);
    sandbox.write("small.json", &text);
    sandbox.write("in", "x\n");
    sandbox.ok(&["import", "wfcommons", "small.json", "-o", "job.yaml"]);
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    assert_eq!(sandbox.ok(&["logs", "1.0"]), "x\nx\nx\n");
    end(&sandbox, manager);
}

#[test]
fn an_instance_goes_to_standard_output_and_one_with_a_circle_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("small.json", &instance(&[("once", &[], 1.0, &["true"])]));
    let job = sandbox.ok(&["import", "wfcommons", "small.json", "-o", "-"]);
    assert_eq!(job, sandbox.ok(&["import", "wfcommons", "small.json"]));
    assert!(job.contains("\"once\"") && !sandbox.path().join("-").exists(), "{job}");
    let circle = instance(&[("a", &["b"], 1.0, &["true"]), ("b", &["a"], 1.0, &["true"])]);
    sandbox.write("circle.json", &circle);
    let output = sandbox.run(&["import", "wfcommons", "circle.json", "-o", "job.yaml"]);
    let said = tests::text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("pilotfish: circle.json: found a circle: "), "{said}");
    assert!(!sandbox.path().join("job.yaml").exists());
}

#[test]
fn stand_ins_take_no_less_time_than_the_tasks_did() {
    let sandbox = Sandbox::new();
    let text = instance(&[("a", &[], 0.5, &["a"]), ("b", &["a"], 0.5, &["b"])]);
    sandbox.write("chain.json", &text);
    sandbox.ok(&["import", "wfcommons", "chain.json", "--emulate", "-o", "job.yaml"]);
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    let rows = sandbox.json(&["tasks", "1"]);
    let of = |task: usize, field: &str| rows[task][field].as_u64().expect("microseconds");
    assert!([0, 1].iter().all(|task| of(*task, "wall") >= 500_000), "{rows}");
    assert!(of(1, "ended_at") - of(0, "started_at") >= 1_000_000, "{rows}");
    end(&sandbox, manager);
}

#[test]
fn a_job_that_comes_after_one_of_before_waits_for_its_end() {
    let sandbox = Sandbox::new();
    sandbox.write("first.yaml", "command: 'until test -e go; do sleep 0.05; done; echo first >> order'\n");
    sandbox.write("second.yaml", "command: 'echo second >> order'\nafter: {job: 1}\n");
    let manager = serve(&sandbox);
    let counts = |job: &str, fields: &[&str]| -> Vec<u64> {
        let counts = sandbox.json(&["job", job])["counts"].clone();
        fields.iter().map(|field| counts[field].as_u64().expect("a number")).collect()
    };
    sandbox.ok(&["submit", "first.yaml"]);
    sandbox.ok(&["submit", "second.yaml"]);
    until("the first runs", || counts("1", &["running"]) == [1]);
    assert_eq!(counts("2", &["waiting", "blocked", "done"]), [1, 1, 0], "though a core is free");
    let why = sandbox.ok(&["explain", "job", "2"]);
    assert!(why.starts_with("1 task waits for others: job 1 has 1 open\n"), "{why}");
    let why = sandbox.ok(&["explain", "task", "2.0"]);
    assert_eq!(why, "it waits for 1 task of job 1, which is 1.0, running on pilot 1\n");
    sandbox.write("go", "");
    sandbox.ok(&["wait", "1-2"]);
    assert_eq!(sandbox.read("order"), "first\nsecond\n");
    assert_eq!([counts("1", &["done"]), counts("2", &["done"])], [[1], [1]]);
    // What it would wait for has ended.
    sandbox.ok(&["submit", "--wait", "second.yaml"]);
    assert_eq!(sandbox.read("order"), "first\nsecond\nsecond\n");
    end(&sandbox, manager);
}

#[test]
fn tasks_wait_for_those_of_a_job_of_before_with_the_same_parameters() {
    let sandbox = Sandbox::new();
    let manager = sandbox.start("serve", &["serve", "--cores", "8"]);
    sandbox.until_served();
    // Its tasks begin at once, and each ends when the test says so.
    let wait = "until test -e go-{a}; do sleep 0.05; done; echo {a} >> order";
    sandbox.write("first.yaml", &format!("command: '{wait}'\nsweep: {{a: [1, 2, 3, 4]}}\n"));
    sandbox.ok(&["submit", "-q", "first.yaml"]);
    let second = |values: &str, after: &str| {
        let sweep = format!("sweep: {{a: {values}}}\nafter: {{job: {after}, tasks: same}}\n");
        sandbox.write("second.yaml", &format!("command: 'echo then {{a}} >> order'\n{sweep}"));
    };
    for (values, found) in [
        ("[4, 3, 2, 0]", "after: found `same` for task 3 with a = `0`, which no task of job 1 has"),
        (
            "[4, 3, 2, 2]",
            "after: found `same` for task 3 with a = `2`, which another task of this stage has, too",
        ),
    ] {
        second(values, "1");
        let output = sandbox.run(&["submit", "second.yaml"]);
        let said = tests::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(found), "{said}");
    }
    second("[4, 3, 2, 1]", "99");
    let said = tests::text(&sandbox.run(&["submit", "second.yaml"]).stderr);
    assert!(said.contains("after: job 99 is none of yours") && !said.contains("stages"), "{said}");
    second("[4, 3, 2, 1]", "1");
    sandbox.ok(&["submit", "-q", "second.yaml"]);
    for a in 1..=4 {
        sandbox.write(&format!("go-{a}"), "");
        until("what waits for it has run", || {
            sandbox.path().join("order").is_file() && sandbox.read("order").contains(&format!("then {a}\n"))
        });
    }
    assert_eq!(sandbox.read("order"), "1\nthen 1\n2\nthen 2\n3\nthen 3\n4\nthen 4\n");
    end(&sandbox, manager);
}

#[test]
fn what_waits_for_a_failure_is_given_up_and_runs_when_that_is_put_right() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        "name: flow
stages:
  make: {command: 'echo make {n} >> order', sweep: {n: {range: [0, 3]}}}
  work:
    command: 'test {n} != 2 || test -e mended && echo work {n} >> order'
    sweep: {n: {range: [0, 3]}}
    after: {stage: make, tasks: same}
  merge: {command: 'echo merge {first} {last} >> order', reduce: {stage: work, every: 2}}
  tell: {command: 'echo tell >> order', after: work, on_failed_dependency: run}
",
    );
    let manager = serve(&sandbox);
    let output = sandbox.run(&["submit", "flow.yaml", "--wait"]);
    assert_eq!(output.status.code(), Some(1), "{}", tests::text(&output.stdout));
    let counts = |job: &str| {
        let counts = sandbox.json(&["job", job])["counts"].clone();
        [&counts["done"], &counts["failed"], &counts["cancelled"]].map(|n| n.as_u64().unwrap_or(99))
    };
    assert_eq!(["1", "2", "3", "4"].map(counts), [[4, 0, 0], [3, 1, 0], [1, 0, 1], [1, 0, 0]]);
    let why = sandbox.ok(&["explain", "task", "3.1"]);
    assert!(why.contains("it waited in vain: task 2.2 failed for good"), "{why}");
    sandbox.write("mended", "");
    let said = sandbox.ok(&["retry-failed", "2"]);
    assert_eq!(
        said,
        "job 2: 1 failed task opened again, and 1 that waited for it; 1 done task that ran \
        without these stays as it is\n"
    );
    sandbox.ok(&["wait", "1-4"]);
    assert_eq!(["1", "2", "3", "4"].map(counts), [[4, 0, 0], [4, 0, 0], [2, 0, 0], [1, 0, 0]]);
    let order = order(&sandbox);
    for n in 0..4 {
        assert!(order[&format!("make {n}")] < order[&format!("work {n}")], "{order:?}");
    }
    assert!(order["work 0"].max(order["work 1"]) < order["merge 0 1"], "{order:?}");
    assert!(order["work 2"].max(order["work 3"]) < order["merge 2 3"], "{order:?}");
    end(&sandbox, manager);
}

#[test]
fn a_pipeline_survives_kill_9_of_its_manager() {
    const N: usize = 300;
    let sandbox = Sandbox::new();
    let stage = |name: &str, after: &str| {
        let sweep = format!("{{n: {{range: [0, {}]}}}}", N - 1);
        format!(
            "  {name}: {{command: 'echo {name} {{n}} >> order', sweep: {sweep}{after}, crash_limit: 100}}\n"
        )
    };
    let stages = [
        stage("a", ""),
        stage("b", ", after: {stage: a, tasks: same}"),
        stage("c", ", after: {stage: b, tasks: same}"),
    ];
    let last = "  end: {command: 'echo end >> order', reduce: c}\n";
    sandbox.write("flow.yaml", &format!("stages:\n{}{last}", stages.concat()));
    let mut manager = serve(&sandbox);
    sandbox.ok(&["submit", "flow.yaml"]);
    for n_lines in [N / 2, N * 2] {
        until("some of it has run", || sandbox.read("order").lines().count() > n_lines);
        manager.signal(Signal::SIGKILL);
        manager.wait();
        manager = serve(&sandbox);
    }
    sandbox.ok(&["wait", "1-4"]);
    let order = order(&sandbox);
    assert_eq!(order.len(), 3 * N + 1);
    for n in 0..N {
        let at = |stage: &str| order[&format!("{stage} {n}")];
        assert!(at("a") < at("b") && at("b") < at("c") && at("c") < order["end"], "task {n}");
    }
    for job in ["1", "2", "3"] {
        let rows = sandbox.ok(&["export", job, "--format", "csv"]);
        assert_eq!(rows.lines().count(), N + 1, "each result of job {job} once");
    }
    end(&sandbox, manager);
}

#[test]
fn files_that_mean_nothing_are_refused_before_anything_is_submitted() {
    let sandbox = Sandbox::new();
    sandbox.write("flow.yaml", "stages:\n  a: {command: [x], after: b}\n  b: {command: [x], after: a}\n");
    for command in ["check", "run", "submit"] {
        let output = sandbox.run(&[command, "flow.yaml"]);
        assert_eq!(output.status.code(), Some(2));
        let said = tests::text(&output.stderr);
        assert!(said.contains("flow.yaml:2: stages.a.after: found a circle: a → b → a"), "{said}");
    }
}
