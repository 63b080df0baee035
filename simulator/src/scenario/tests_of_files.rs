//! Tests of mistakes in scenario files: each is reported with its line, its field, the mistake and the right
//! form.

use super::Scenario;

#[track_caller]
fn check_refused(text: &str, expected: &[&str]) {
    let problems = Scenario::parse(text, "s.yaml").map(|_| ()).expect_err(text);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said, expected.iter().map(|line| format!("s.yaml{line}")).collect::<Vec<_>>(), "{text}");
}

/// Returns a valid scenario with one line replaced.
fn with(place: &str, line: &str) -> String {
    const RIGHT: &str = "platforms:
  - {name: a, nodes: 1, cores: 2}
applications:
  - {name: docking, time: 10s}
users:
  - {name: ada, jobs: [{application: docking, tasks: 4}]}
";
    assert!(Scenario::parse(RIGHT, "s.yaml").is_ok() && RIGHT.contains(place));
    RIGHT.replace(place, line)
}

#[test]
fn mistakes_are_told_with_line_and_field() {
    for (place, line, expected) in [
        ("cores: 2", "cores: -2", ":2: platforms[0].cores: found -2; write a whole number from 1 to 65536"),
        (
            "cores: 2",
            "cores: 2, walltime: 40s",
            ":2: platforms[0].walltime: found the text `40s`; write 1m or more: pilots keep 30s of it for their last reports",
        ),
        (
            "cores: 2",
            "cores: 2, poll_interval: 0s",
            ":2: platforms[0].poll_interval: found the text `0s`; write 1s or more",
        ),
        ("time: 10s", "time: 10", ":4: applications[0].time: found `10`; give it a unit, like 10s or 10m"),
        (
            "application: docking",
            "application: dokcing",
            ":6: users[0].jobs[0].application: found the unknown application `dokcing`; did you mean `docking`?",
        ),
        (
            "application: docking",
            "application: {docking: 0.5}",
            ":6: users[0].jobs[0].application: found weights that sum to 0.5; they must sum to 1",
        ),
        (
            "users:",
            "policies: {matching: lifo}\nusers:",
            ":5: policies.matching: found `lifo`; did you mean `fifo`?",
        ),
        (
            "users:",
            "policies: {placement: ai2}\nusers:",
            ":5: policies.placement: `ai2` would be `fastest-first` here: unlike the paper's rigid jobs, tasks fit wherever a core is free; the policies of placement here are none, best-fit, fastest-first, tla",
        ),
        (
            "time: 10s",
            "time: {uniform: [20s, 10s]}",
            ":4: applications[0].time.uniform: found a list; write the shortest and the longest: [20s, 60s]",
        ),
        (
            "time: 10s",
            "time: {bounded-pareto: {shape: 0, min: 1s, max: 2s}}",
            ":4: applications[0].time.bounded-pareto.shape: found 0; write a number above 0",
        ),
        (
            "time: 10s",
            "time: 10s, failures: {program: 2}",
            ":4: applications[0].failures.program: found 2; write a number from 0 to 1",
        ),
        (
            "time: 10s",
            "time: 10s, cores: 3",
            ":4: applications[0].cores: found 3 cores, which no node has; the largest nodes have 2",
        ),
        (
            "tasks: 4",
            "tasks: 4, arrivals: {pattern: burstin, over: 1h}",
            ":6: users[0].jobs[0].arrivals.pattern: found the text `burstin`; write stable, growing, bursting or on-and-off",
        ),
        (
            "users:",
            "faults: {pilot_died: 3}\nusers:",
            ":5: faults.pilot_died: found an unknown field; did you mean `pilot_dies`?",
        ),
        (
            "time: 10s",
            "time: 10s, slowed_by: {dock: 1}",
            ":4: applications[0].slowed_by.dock: found the unknown application `dock`; the applications are docking",
        ),
        (
            "tasks: 4",
            "tasks: 10^12",
            ":6: users[0].jobs[0].tasks: found the text `10^12`; write a whole number from 1 to 100000000",
        ),
        (
            "tasks: 4",
            "tasks: 100000000, count: 2",
            ":5: users: found 200000000 tasks in all; write fewer: a scenario has 100000000 at most",
        ),
        (
            "tasks: 4",
            "tasks: 4, at: 1000000d",
            ":6: users[0].jobs[0].at: found the text `1000000d`; write 3650d or less: a scenario lasts ten years at most",
        ),
        (
            "time: 10s",
            "time: {exponential: 3651d}",
            ":4: applications[0].time.exponential: found the text `3651d`; write 3650d or less: a scenario lasts ten years at most",
        ),
        (
            "cores: 2",
            "cores: 2, speed: 1e-9",
            ":2: platforms[0].speed: found 1e-9; write a number from 0.001 to 1000",
        ),
        ("users:", "patience: 5s\nusers:", ":5: patience: found the text `5s`; write 1m or more"),
        ("nodes: 1, ", "", ":2: platforms[0]: found no field `nodes`; say how many nodes it has: nodes: 4"),
        (
            "users:",
            "  - {name: docking, time: 1s}\nusers:",
            ":5: applications[1].name: found `docking` a second time; name them differently",
        ),
    ] {
        check_refused(&with(place, line), &[expected]);
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_together() {
    check_refused(
        "sed: 1\nplatforms:\n  - {name: a, nods: 1, cores: 0}\napplications:\n  - {name: x, time: soon}\nusers:\n  - {name: ada, jobs: [{application: y, tasks: 0}]}\n",
        &[
            ":1: sed: found an unknown field; did you mean `seed`?",
            ":3: platforms[0].nods: found an unknown field; did you mean `nodes`?",
            ":3: platforms[0].cores: found 0; write a whole number from 1 to 65536",
            ":5: applications[0].time: found `soon`; write a duration like 10s, 1h 30m, 500ms or 00:10:00",
            ":7: users[0].jobs[0].application: found the unknown application `y`; the applications are x",
            ":7: users[0].jobs[0].tasks: found 0; write a whole number from 1 to 100000000",
        ],
    );
}

#[test]
fn what_is_no_scenario_is_explained() {
    check_refused("", &[": found no value; a scenario consists of platforms, applications and users"]);
    check_refused(
        "platforms: [",
        &[
            ":1: found no valid YAML (did not find expected node content); close what is open: a list with `]`, braces with `}`",
        ],
    );
}

#[test]
fn the_examples_are_right() {
    for text in [
        include_str!("../../../examples/scenarios/two-users.yaml"),
        include_str!("../../../examples/scenarios/campaign.yaml"),
        include_str!("../../../examples/scenarios/bad-day.yaml"),
    ] {
        Scenario::parse(text, "s.yaml").map(|_| ()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    }
}
