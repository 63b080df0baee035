//! Scenarios for `simulate`: a good one runs to the same bytes twice, bad ones are explained.

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
        ("a layer that is not composed yet", "users:", "policies: {allocation: pa-rr}\nusers:"),
        ("negative cores", "cores: 2", "cores: -2"),
        ("an unknown application", "application: docking, tasks: 2,", "application: dokcing, tasks: 2,"),
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
        ("comparing faults", &["simulate", "--faults", "--compare", "matching=turns"]),
        ("a figure that is none", &["simulate", "good.yaml", "--plot", "busy.gif"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.close();
}
