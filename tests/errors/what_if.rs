//! `simulate --what-if`: a real run and a real manager's history are played again; what is no history is
//! explained.

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path, process::Command};

use serde_json::Value;

use crate::page::Page;

/// The one of a list of measures.
fn row<'a>(measures: &'a Value, of: &str) -> &'a Value {
    let rows = measures.as_array().expect("a list of measures");
    rows.iter().find(|row| row["of"] == of).unwrap_or_else(|| panic!("no {of} in {measures}"))
}

/// What a replay says of a history with so many jobs, tasks and failed tasks.
fn check_replayed(said: &Value, n_jobs: u64, n_tasks: u64, n_failed: u64) {
    let history = &said["history"];
    assert_eq!((&history["n_jobs"], &history["n_tasks"]), (&n_jobs.into(), &n_tasks.into()), "{said}");
    for of in ["all", "history"] {
        let row = row(&said["measures"], of);
        assert_eq!((&row["tasks"], &row["failed"]), (&n_tasks.into(), &n_failed.into()), "{of}: {said}");
        assert!(row["makespan_s"].as_f64().is_some_and(|makespan| makespan > 0.0), "{of}: {said}");
    }
    assert_eq!(history["makespan_s"], row(&said["measures"], "history")["makespan_s"], "{said}");
}

#[test]
fn a_run_is_played_again_under_other_policies() {
    let page = Page::new("what-if-run");
    let sandbox = &page.sandbox;
    // Those that end with 3 are tried twice.
    let fails = ["run", "-q", "--retries", "1", "--", "sh", "-c", "exit {1}", ":::", "0", "0", "3", "0", "0"];
    assert_eq!(sandbox.run(&fails).status.code(), Some(1));
    sandbox.ok(&[
        "run",
        "-q",
        "--",
        "awk",
        "BEGIN { for (n = 0; n < 3000000; n++) s += n {1} }",
        ":::",
        "1",
        "2",
    ]);
    let files = || -> BTreeSet<OsString> {
        let entries = fs::read_dir(sandbox.path().join(".pilotfish")).expect("a folder").flatten();
        entries.map(|entry| entry.file_name()).collect()
    };
    let before = files();
    let said = sandbox.json(&["simulate", "--what-if", ".pilotfish"]);
    check_replayed(&said, 2, 7, 1);
    assert_eq!(files(), before, "something was left beside the store");
    assert_eq!(said["history"]["n_tried_before"], 1, "{said}");
    // What the tasks took is in the store, so the replay took at least as long as the longest of them.
    let export = sandbox.ok(&["export", "2"]);
    let took =
        |line: &str, column: usize| line.split(',').nth(column).and_then(|text| text.parse::<f64>().ok());
    let column =
        export.lines().next().and_then(|heads| heads.split(',').position(|head| head == "duration_s"));
    let column = column.expect("a column of wall times");
    let longest = export.lines().filter_map(|line| took(line, column)).fold(0.0, f64::max);
    let makespan = row(&said["measures"], "all")["makespan_s"].as_f64().unwrap_or(0.0);
    assert!(longest > 0.001 && makespan >= longest - 0.001, "{makespan} s, though a task took {longest} s");
    let named = ["simulate", "--what-if", ".pilotfish/store.sqlite"];
    assert_eq!(sandbox.json(&named)["measures"], said["measures"]);

    let text = sandbox.ok(&["simulate", "--what-if", ".pilotfish", "--csv", "out", "--plot", "busy.svg"]);
    let first = text.lines().next().unwrap_or("");
    assert!(
        first.starts_with("What was in ./.pilotfish, again: 7 tasks of 2 jobs by 1 user, from "),
        "{text}"
    );
    assert!(first.ends_with("; without 1 attempt before one that counts."), "{text}");
    assert!(text.contains("\nMakespan: ") && text.contains(" in the history ("), "{text}");
    assert!(sandbox.read("out/measures.csv").contains("\nhistory,"), "{}", sandbox.read("out/measures.csv"));
    assert!(sandbox.read("busy.svg").contains("<svg"));
    let compared =
        ["simulate", "--what-if", ".pilotfish", "--compare", "bundling=guided,single", "--seeds", "2"];
    let table = sandbox.ok(&compared);
    let begins: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(begins[..4], ["OF", "history", "replay", "replay"], "{table}");
}

#[test]
fn stages_of_a_workflow_wait_for_each_other_again() {
    let page = Page::new("what-if-stages");
    let sandbox = &page.sandbox;
    sandbox.write(
        "job.yaml",
        "stages:\n  a: {command: sleep 1, sweep: {x: [1, 2]}}\n  b: {command: sleep 1, sweep: {x: [1, 2]}, after: a}\n",
    );
    sandbox.ok(&["run", "-q", "-j", "4", "job.yaml"]);
    let said = sandbox.json(&["simulate", "--what-if", ".pilotfish"]);
    check_replayed(&said, 2, 4, 0);
    let makespan = row(&said["measures"], "all")["makespan_s"].as_f64().unwrap_or(0.0);
    assert!(makespan >= 2.0, "{makespan} s for two stages of a second each: {said}");
    // Without the first stage nothing is waited for, and that is said.
    let text = sandbox.ok(&["simulate", "--what-if", ".pilotfish", "--jobs", "2"]);
    assert!(
        text.split_whitespace().collect::<Vec<_>>().join(" ").contains("1 job waited for others"),
        "{text}"
    );
}

#[test]
fn the_history_of_a_manager_that_runs_is_read_beside_it() {
    let page = Page::new("what-if-serve");
    let manager = page.serve("state", &["-q", "--cores", "2"]);
    page.sandbox.ok(&["submit", "--dir", "state", "--", "true", "{}", ":::", "a", "b", "c"]);
    page.sandbox.ok(&["wait", "1", "--dir", "state"]);
    // Nobody has so many cores: it stays open.
    page.sandbox.ok(&["submit", "--dir", "state", "--cores", "60000", "--", "true"]);
    let said = page.sandbox.json(&["simulate", "--what-if", "state"]);
    check_replayed(&said, 1, 3, 0);
    let history = &said["history"];
    assert_eq!((&history["n_jobs_without"], &history["n_tasks_without"]), (&1.into(), &1.into()), "{said}");
    page.sandbox.ok(&["stop", "--dir", "state"]);
    assert_eq!(manager.wait(), Some(0));
    check_replayed(&page.sandbox.json(&["simulate", "--what-if", "state"]), 1, 3, 0);
}

#[test]
fn what_is_no_history_is_explained() {
    let mut page = Page::new("what-if");
    page.sandbox.ok(&["run", "-q", "--dir", "good", "--", "true"]);
    let here = page.sandbox.path().to_owned();
    let copy = |name: &str| {
        fs::create_dir(here.join(name)).expect("a folder");
        for file in fs::read_dir(here.join("good")).expect("the original").flatten() {
            if file.path().is_file() {
                fs::copy(file.path(), here.join(name).join(file.file_name())).expect("a copy");
            }
        }
        here.join(name).join("store.sqlite")
    };
    page.refuses("no such folder", &["simulate", "--what-if", "none"]);
    fs::create_dir(here.join("bare")).expect("a folder");
    page.refuses("a folder without a store", &["simulate", "--what-if", "bare"]);
    let manager = page.serve("empty", &["-q", "--no-local"]);
    page.sandbox.ok(&["submit", "--dir", "empty", "--", "true"]);
    page.refuses("nothing has ended", &["simulate", "--what-if", "empty"]);
    page.sandbox.ok(&["stop", "--dir", "empty"]);
    assert_eq!(manager.wait(), Some(0));
    fs::write(copy("other"), "this is no store").expect("it is written");
    page.fails("something else", &["simulate", "--what-if", "other"]);
    tear(&copy("torn"));
    page.fails("a torn store", &["simulate", "--what-if", "torn"]);
    let sqlite = Command::new("sqlite3").arg(copy("newer")).arg("PRAGMA user_version = 99").status();
    assert!(sqlite.expect("sqlite3 runs; tests/run installs it").success());
    page.fails("a store of a later version", &["simulate", "--what-if", "newer"]);
    page.sandbox.write("good.yaml", "platforms: []\n");
    page.refuses("a scenario too", &["simulate", "good.yaml", "--what-if", "good"]);
    page.refuses("faults too", &["simulate", "--faults", "--what-if", "good"]);
    for (layer, policies) in
        [("mapping", "none,maf"), ("scaling", "fixed,measured"), ("stealing", "none,mlb")]
    {
        let compared = format!("{layer}={policies}");
        let args = ["simulate", "--what-if", "good", "--compare", &compared];
        let said = page.sandbox.run(&args);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains(&format!("found the layer `{layer}` with --what-if")), "{said}");
    }
    check_replayed(&page.sandbox.json(&["simulate", "--what-if", "good"]), 1, 1, 0);
    page.close();
}

/// Only the first page of the file stays as it was.
fn tear(path: &Path) {
    let mut bytes = fs::read(path).expect("the store is there");
    for page in bytes.chunks_mut(4096).skip(1) {
        page.fill(0xa5);
    }
    fs::write(path, bytes).expect("it is damaged");
}
