//! `--json`: numbers have their units in their names, parameters are an object, columns of numbers are numbers.

use serde_json::{Value, json};
use tests::Sandbox;

#[test]
fn numbers_have_their_units_in_their_names_and_parameters_are_an_object() {
    let sandbox = Sandbox::new();
    let memory = ["--memory", "100MB"];
    sandbox
        .ok(&[&["run", "-q"], &memory[..], &["--", "sleep 0.2; echo {2} {1}", ":::", "a", ":::", "7"]]
            .concat());
    let seconds =
        |value: &Value, name: &str| value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value:#}"));
    let task = sandbox.json(&["task", "1.0"]);
    for row in [&task["row"], &sandbox.json(&["tasks", "1"])[0]] {
        assert!(seconds(row, "wall_seconds") >= 0.2, "{row:#}");
        assert!((seconds(row, "wall_seconds") - seconds(row, "wall") / 1e6).abs() < 1e-9, "{row:#}");
        assert!(seconds(row, "cpu_seconds") >= 0.0 && row.get("memory_bytes").is_some(), "{row:#}");
        assert!(seconds(row, "started_at_unix_seconds") > 1.7e9, "{row:#}");
        assert_eq!(row["parameters"].as_object().map(|parameters| parameters.len()), Some(2), "{row:#}");
        assert_eq!(
            row["parameters"].as_object().and_then(|all| all.values().next_back()),
            Some(&json!("7")),
            "{row:#}"
        );
    }
    let jobs = sandbox.json(&["jobs"]);
    for job in [&jobs[0], &sandbox.json(&["job", "1"])] {
        assert!(seconds(job, "wall_mean_seconds") >= 0.2, "{job:#}");
        assert!(seconds(job, "submitted_at_unix_seconds") > 1.7e9, "{job:#}");
        assert_eq!(job["needs"]["memory_bytes"], 100_000_000);
    }
    sandbox.write("preview.yaml", "command: [echo, \"{x}\"]\nsweep: {x: [a]}\n");
    let preview = sandbox.json(&["check", "preview.yaml"]);
    assert!(preview["tasks"][0]["parameters"].is_object(), "{preview:#}");
}

#[test]
fn sizes_are_shown_in_one_unit() {
    let sandbox = Sandbox::new();
    let checked = sandbox.ok(&["check", "--memory", "100MB", "--", "true"]);
    sandbox.ok(&["run", "-q", "--memory", "100MB", "--", "true"]);
    for shown in [checked, sandbox.ok(&["job", "1"])] {
        assert!(shown.contains("95.4 MiB"), "{shown}");
    }
}

#[test]
fn job_that_was_cancelled_and_retried_does_not_say_who_cancelled_it() {
    let sandbox = Sandbox::new();
    let _manager = sandbox.serve(sandbox.command(&["serve", "-q", "--no-local"]));
    sandbox.ok(&["submit", "-q", "--", "true", ":::", "a", "b"]);
    sandbox.ok(&["cancel", "1"]);
    let state = |shown: String| shown.lines().find(|line| line.starts_with("state")).map(str::to_owned);
    let cancelled = state(sandbox.ok(&["job", "1"])).unwrap_or_default();
    assert!(cancelled.contains("cancelled by "), "{cancelled}");
    sandbox.ok(&["retry-failed", "1.0-1"]);
    assert_eq!(
        state(sandbox.ok(&["job", "1"])).unwrap_or_default().split_whitespace().last(),
        Some("active")
    );
    assert_eq!(sandbox.json(&["job", "1"])["cancel_cause"], Value::Null);
    // Nor does one of which a task was cancelled.
    sandbox.ok(&["cancel", "1.0"]);
    assert_eq!(
        state(sandbox.ok(&["job", "1"])).unwrap_or_default().split_whitespace().last(),
        Some("active")
    );
}

#[test]
fn export_has_numbers_that_are_not_finite_and_those_of_fortran_as_numbers() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "job.yaml",
        "command: echo \"E = {v}\"\nsweep: {v: [\"1.5\", \"nan\", \"-2e3\", \"1.0D-03\", \"inf\"]}\n\
         results: {extract: {E: 'E = (\\S+)'}}\n",
    );
    sandbox.ok(&["run", "-q", "job.yaml"]);
    let lines = sandbox.ok(&["export", "last", "--format", "jsonl"]);
    let ends: Vec<&str> =
        lines.lines().filter_map(|line| line.rsplit_once("\"E\":")).map(|(_, end)| end).collect();
    assert_eq!(ends, ["1.5}", "null}", "-2e3}", "0.001}", "1e999}"]);
    let column = |values: &str| {
        let job = format!("command: echo \"E = {{v}}\"\nsweep: {{v: {values}}}\n");
        sandbox.write("job.yaml", &format!("{job}results: {{extract: {{E: 'E = (\\S+)'}}}}\n"));
        sandbox.ok(&["run", "-q", "job.yaml"]);
        let lines = sandbox.ok(&["export", "last", "--format", "jsonl"]);
        let rows: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        rows.iter().map(|row| row["E"].clone()).collect::<Vec<Value>>()
    };
    assert_eq!(column("[\"1.0\", \"-1.234-100\", \"1e-400\"]"), [json!(1.0), json!(-1.234e-100), json!(0.0)]);
    // A column is one of numbers only when each value is one.
    assert_eq!(column("[\"1.0\", \"****\", \"2\"]"), [json!("1.0"), json!("****"), json!("2")]);
}
