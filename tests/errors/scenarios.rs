//! Scenarios for `simulate`: a good one runs to the same bytes twice, bad ones are explained.

use std::{collections::BTreeSet, fs};

use nix::sys::signal::Signal;
use tests::{Sandbox, until};

use crate::page::Page;

const GOOD: &str = "seed: 2
platforms: [{name: cluster, nodes: 2, cores: 2, queue_wait: {exponential: 1m}}]
applications: [{name: docking, time: {lognormal: {mean: 40s, spread: 0.5}}}]
users:
  - {name: ada, jobs: [{application: docking, tasks: 20}]}
  - {name: bob, jobs: [{application: docking, tasks: 2, count: 3, arrivals: {poisson: 1m}}]}
";

/// Jobs of a log: 4 and 2 processors.
const LOGGED: &str = "platforms: [{name: cluster, nodes: 2, cores: 2}]
applications: [{name: batch, time: logged}]
users: [{name: ada, jobs: [{application: batch, arrivals: {swf: logs/a.swf}}]}]
";
const LOG: &str = "; MaxProcs: 8
1 0 5 100 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
2 30 0 60 2 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
";

#[test]
fn scenarios_with_workload_logs_run_and_bad_logs_are_explained() {
    let mut page = Page::new("workload-logs");
    std::fs::create_dir(page.sandbox.path().join("logs")).expect("a folder");
    page.sandbox.write("logged.yaml", LOGGED);
    page.refuses("no such log", &["simulate", "logged.yaml"]);
    page.sandbox.write("logs/a.swf", LOG);
    page.ends("jobs of a log", &["simulate", "logged.yaml"], 0);
    for (title, log) in [
        ("a log that is cut off", &LOG[..LOG.len() - 10]),
        ("a negative time", &LOG.replace("30 0 60", "30 0 -60")),
        ("a negative size", &LOG.replace("100 4", "100 -4")),
        ("nothing that ran", &LOG.replace("100 4", "0 4").replace("60 2", "-1 2")),
    ] {
        page.sandbox.write("logs/a.swf", log);
        page.refuses(title, &["simulate", "logged.yaml"]);
    }
    page.sandbox.write("logs/a.swf", LOG);
    page.sandbox.write("twice.yaml", &LOGGED.replace("application: batch,", "application: batch, tasks: 4,"));
    page.refuses("said twice", &["simulate", "twice.yaml"]);
    page.close();
}

#[test]
fn bad_scenarios_are_explained_and_good_ones_run() {
    let mut page = Page::new("scenarios");
    page.sandbox.write("good.yaml", GOOD);
    page.ends("a good one", &["simulate", "good.yaml"], 0);
    let compared = ["simulate", "good.yaml", "--compare", "matching=turns,fifo", "--seeds", "2"];
    page.ends("two policies, two seeds", &compared, 0);
    let compared = ["simulate", "good.yaml", "--compare", "policies.bundling=single,fixed-10"];
    page.ends("layers by their whole names", &compared, 0);
    page.sandbox.write("endless.yaml", &GOOD.replace("seed: 2", "faults: {submit_refused: 1}\npatience: 1d"));
    page.ends("nothing gets done", &["simulate", "endless.yaml"], 1);
    let said = page.sandbox.run(&["simulate", "endless.yaml", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).expect("it is JSON");
    assert_eq!(said["stopped"]["n_ended"], 0, "{said}");
    assert_eq!(said["stopped"]["platforms"][0]["reasons"][0]["reason"]["reason"], "platform-fails", "{said}");
    let compared = ["simulate", "endless.yaml", "--compare", "matching=turns,fifo"];
    page.ends("nothing gets done under two policies", &compared, 1);
    let written = ["simulate", "good.yaml", "--json", "--csv", "out", "--plot", "busy.svg"];
    let (first, second) = (page.sandbox.run(&written), page.sandbox.run(&written));
    assert!(first.status.success() && first.stdout == second.stdout, "the same seed printed something else");
    assert!(page.sandbox.read("out/measures.csv").lines().count() == 6);
    assert!(page.sandbox.read("busy.svg").contains("<svg"));
    page.sandbox.ok(&["simulate", "good.yaml", "--plot", "busy.png"]);
    let png = std::fs::read(page.sandbox.path().join("busy.png")).expect("it was drawn");
    assert!(png.starts_with(b"\x89PNG") && png.len() > 5_000, "{} bytes", png.len());
    for (title, right, wrong) in [
        ("no policy", "users:", "policies: {matching: lifo}\nusers:"),
        ("a policy that is not composed yet", "users:", "policies: {placement: ai2}\nusers:"),
        ("negative cores", "cores: 2", "cores: -2"),
        ("an unknown application", "application: docking, tasks: 2,", "application: dokcing, tasks: 2,"),
        ("a policy that needs estimates", "users:", "policies: {matching: soonest}\nusers:"),
        ("too many tasks", "tasks: 20", "tasks: 10^12"),
        ("beyond all years", "tasks: 20", "tasks: 20, at: 1000000d"),
        ("weights", "application: docking, tasks: 20", "application: {docking: 0.9}, tasks: 20"),
        ("several mistakes", "seed: 2\n", "sed: 2\npolicys: {}\n"),
    ] {
        assert!(GOOD.contains(right), "{title}");
        page.sandbox.write("bad.yaml", &GOOD.replacen(right, wrong, 1));
        page.refuses(title, &["simulate", "bad.yaml"]);
    }
    let cases: &[(&str, &[&str])] = &[
        ("no such file", &["simulate", "none.yaml"]),
        ("nothing at all", &["simulate"]),
        ("a scenario and faults", &["simulate", "good.yaml", "--faults"]),
        ("everything that happens as JSON", &["simulate", "good.yaml", "--trace", "--json"]),
        ("no comparison", &["simulate", "good.yaml", "--compare", "matching"]),
        ("comparing what is no policy", &["simulate", "good.yaml", "--compare", "matching=turns,lifo"]),
        (
            "comparing a layer of the papers",
            &["simulate", "good.yaml", "--compare", "policy.allocation=equal,paf-0"],
        ),
        ("comparing one that is not composed yet", &["simulate", "good.yaml", "--compare", "placement=ai2"]),
        ("bundles of no size", &["simulate", "good.yaml", "--compare", "bundling=guided,fixed"]),
        ("comparing faults", &["simulate", "--faults", "--compare", "matching=turns"]),
        ("a figure that is none", &["simulate", "good.yaml", "--plot", "busy.gif"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.close();
}

/// One that lasts for years.
const LONG: &str = "platforms: [{name: cluster, nodes: 1, cores: 2}]
applications: [{name: docking, time: 3000d}]
users: [{name: ada, jobs: [{application: docking, tasks: 4}]}]
";

#[test]
fn an_interrupted_simulation_says_how_far_it_came() {
    let sandbox = Sandbox::new();
    sandbox.write("long.yaml", LONG);
    let running = sandbox.start("long", &["simulate", "long.yaml", "--trace"]);
    until("it runs", || !sandbox.read("long.out").is_empty());
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait(), Some(130));
    let said = sandbox.read("long.err");
    assert!(said.starts_with("pilotfish: interrupted after "), "{said}");
    assert!(said.ends_with(" of simulated time, with 0 of 4 tasks over\n"), "{said}");
}

#[test]
fn an_interrupted_comparison_prints_what_has_ended() {
    let sandbox = Sandbox::new();
    sandbox.write("good.yaml", GOOD);
    let many =
        ["simulate", "good.yaml", "--compare", "matching=turns,fifo", "--seeds", "100000000", "--csv", "out"];
    let running = sandbox.start("many", &many);
    let stat = format!("/proc/{}/stat", running.pid());
    // What it has computed, in hundredths of a second; a run takes a few thousandths.
    let has_computed = || {
        let stat = fs::read_to_string(&stat).unwrap_or_default();
        let ticks = stat.split(' ').nth(13).and_then(|ticks| ticks.parse::<u64>().ok());
        ticks.is_some_and(|ticks| ticks > 200)
    };
    until("some runs have ended", has_computed);
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait(), Some(130));
    let (out, said) = (sandbox.read("many.out"), sandbox.read("many.err"));
    let begins: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(begins[..3], ["MATCHING", "turns", "fifo"], "{out}");
    assert!(out.contains("SEEDS") && out.contains(" ± "), "{out}");
    assert!(
        said.starts_with("pilotfish: interrupted after ") && said.ends_with(" of 200000000 runs\n"),
        "{said}"
    );
    assert_eq!(sandbox.read("out/compare.csv").lines().count(), 11);
}

#[test]
fn what_cannot_be_written_is_known_before_the_run_and_nothing_half_is_left() {
    let mut page = Page::new("simulation-files");
    page.sandbox.write("good.yaml", GOOD);
    page.sandbox.write("long.yaml", LONG);
    page.sandbox.write("bad.yaml", "platforms: []\n");
    page.sandbox.write("a-file", "");
    page.sandbox.write("old.svg", "what was there before\n");
    fs::create_dir_all(page.sandbox.path().join("taken/measures.csv")).expect("a folder");
    for (title, options) in [
        ("tables below a file", ["--csv", "a-file/out"]),
        ("a folder in place of a table", ["--csv", "taken"]),
        ("a figure in no folder", ["--plot", "none/busy.svg"]),
        ("a figure below a file", ["--plot", "a-file/busy.svg"]),
    ] {
        // It would take far longer than the test may.
        page.fails(title, &[&["simulate", "long.yaml"], &options[..]].concat());
    }
    let files = |page: &Page| {
        let entries = fs::read_dir(page.sandbox.path()).expect("the sandbox").flatten();
        entries.map(|entry| entry.file_name()).collect::<BTreeSet<_>>()
    };
    let before = files(&page);
    page.refuses("a bad scenario", &["simulate", "bad.yaml", "--csv", "new/out", "--plot", "old.svg"]);
    assert_eq!(files(&page), before);
    assert_eq!(page.sandbox.read("old.svg"), "what was there before\n");
    page.sandbox.ok(&["simulate", "good.yaml", "--csv", "new/out", "--plot", "old.svg"]);
    assert!(page.sandbox.read("old.svg").contains("<svg"));
    let written = fs::read_dir(page.sandbox.path().join("new/out")).expect("the folder").count();
    assert_eq!(written, 2);
    page.close();
}
