//! Scenarios for `simulate`: a good one runs to the same bytes twice, bad ones are explained.

use crate::page::Page;

const GOOD: &str = "seed: 2
platforms: [{name: cluster, nodes: 2, cores: 2, queue_wait: {exponential: 1m}}]
applications: [{name: docking, time: {lognormal: {mean: 40s, spread: 0.5}}}]
users:
  - {name: ada, jobs: [{application: docking, tasks: 20}]}
  - {name: bob, jobs: [{application: docking, tasks: 2, count: 3, arrivals: {poisson: 1m}}]}
";

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
        ("a figure that is none", &["simulate", "good.yaml", "--plot", "busy.png"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.close();
}
