//! The network between a manager and its pilots: late, lossy, cut, refused, and back again.

use std::{collections::BTreeSet, fs, time::Duration};

use serde_json::Value;
use tests::{
    cable::{Cable, FAR, NEAR, Weather},
    noise,
    site::Site,
    sweep::Hit,
    until,
};

use crate::surroundings;

const N_TASKS: u64 = 3_000;
const TWO_PILOTS: &str =
    "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 2, poll_interval: 1s}]\n";
/// Of a file that two pilots need: so large that they would have it of each other.
const N_BYTES: usize = 2_000_000;
/// Pilots have nothing left to do when none of their tasks has run for so long.
const SILENCE: Duration = Duration::from_millis(700);

/// A manager at one end of a cable; pilots that start now are at the other one.
fn site(seed: u64, yaml: &str) -> Option<(Site, Cable)> {
    let cable = Cable::plug_in(seed)?;
    cable.near.enter().expect("the test goes where its manager is");
    let yaml = format!("listen: {{host: {NEAR}}}\ntls: off\n{yaml}");
    let mut site = Site::new("state", N_TASKS, &yaml);
    site.sandbox.write("network", &cable.far.path());
    site.environment = surroundings(&site.sandbox, &[("PILOTFISH_TEST_NETWORK", "network")]);
    Some((site, cable))
}

fn repeats_nothing(site: &mut Site) {
    let (audit, _) = site.close(&[]);
    assert_eq!(audit.n_again, 0, "nobody was given up");
}

#[test]
fn bad_weather_delays_and_repeats_nothing() {
    let Some((mut site, cable)) = site(1, TWO_PILOTS) else { return };
    let ms = Duration::from_millis;
    site.serve();
    site.submit(1);
    for (part, weather) in (1..).zip([
        Weather { delay: ms(200), ..Weather::default() },
        Weather { lost: 20, delay: ms(2), ..Weather::default() },
        Weather { doubled: 30, jitter: ms(40), ..Weather::default() },
        Weather { lost: 10, doubled: 10, delay: ms(50), jitter: ms(50), ..Weather::default() },
    ]) {
        site.until_executed(part * N_TASKS / 6);
        cable.set(weather);
    }
    site.until_executed(N_TASKS * 5 / 6);
    cable.set(Weather::default());
    repeats_nothing(&mut site);
}

#[test]
fn short_cuts_repeat_nothing() {
    let Some((mut site, cable)) = site(2, TWO_PILOTS) else { return };
    site.serve();
    site.submit(2);
    let rule = |verb: &str| {
        let words = ["iptables", verb, "OUTPUT", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"];
        cable.far.run(&words).expect("iptables, which tests/run installs");
    };
    for part in 1..=4 {
        site.until_executed(part * N_TASKS / 6);
        match part {
            1 | 3 => cable.set(Weather { is_cut: true, ..Weather::default() }),
            2 => rule("-A"),
            _ => {
                cable.far.run(&["ip", "link", "set", "cable", "down"]).expect("ip, which tests/run installs")
            }
        }
        site.trace.waits(N_TASKS, SILENCE);
        match part {
            1 | 3 => cable.set(Weather::default()),
            2 => rule("-D"),
            _ => cable.far.run(&["ip", "link", "set", "cable", "up"]).expect("as above"),
        }
    }
    repeats_nothing(&mut site);
}

#[test]
fn a_long_cut_costs_what_was_held_and_late_results_count_once() {
    let yaml = format!("{TWO_PILOTS}limits: {{heartbeat_limit: 4s, poll_wait_max: 1s}}\n");
    let Some((mut site, cable)) = site(3, &yaml) else { return };
    site.serve();
    site.submit(3);
    site.until_executed(N_TASKS / 3);
    cable.set(Weather { is_cut: true, ..Weather::default() });
    // Those that come in their place are with the manager.
    site.sandbox.write("network", "");
    let mut held: Vec<Hit> = Vec::new();
    loop {
        let views = site.pilots();
        for view in &views {
            let pilot = view["id"].as_u64().expect("its number");
            let n_held = view["n_running"].as_u64().unwrap_or(0) + view["n_queued"].as_u64().unwrap_or(0);
            match held.iter_mut().find(|hit| hit.pilot == pilot) {
                Some(hit) => hit.n_held = hit.n_held.max(n_held),
                None => held.push(Hit { pilot, n_held }),
            }
        }
        if views.iter().all(|view: &Value| view["state"] == "ended") {
            break;
        }
        site.trace.waits(1, Duration::from_millis(20));
    }
    site.trace.waits(N_TASKS / 10, SILENCE);
    cable.set(Weather::default());
    let (audit, _) = site.close(&held);
    println!("{audit:?}");
}

/// Two pilots with a cache each, of whose packets to each other this becomes: tasks go from one to the other by way of
/// the manager, which has their files, too.
fn do_without_each_other(seed: u64, target: &[&str]) {
    let yaml = "platforms: [{name: here, adapter: local, cores: 1, pilots_min: 2, pilots_max: 2}]\n\
                policies: {stealing: mlb}\nlimits: {prefetch: 1h}\n";
    let Some((mut site, cable)) = site(seed, yaml) else { return };
    let caches = site.sandbox.path().join("caches/{tag}").display().to_string();
    site.environment.push(("PILOTFISH_CACHE".to_owned(), caches));
    let rule = [&["iptables", "-A", "OUTPUT", "-p", "tcp", "-d", FAR], target].concat();
    cable.far.run(&rule).expect("iptables, which tests/run installs");
    site.serve();
    let sandbox = &site.sandbox;
    let show = |words: &[&str]| sandbox.json(&[words, &["--dir", "state"]].concat());
    let submit = |name: &str, job: &str| {
        sandbox.write(name, job);
        sandbox.ok(&["submit", name, "--dir", "state"]);
    };
    let count = |job, word: &str| show(&["job", job])["counts"][word].clone();
    until("both pilots are there", || show(&["platform", "show", "here"])["n_pilots"] == 2);
    let path = |name: &str| sandbox.path().join(name).display().to_string();
    let (go, ran) = (path("go"), path("ran"));
    fs::write(path("map"), noise(N_BYTES, seed)).expect("the file");
    submit("first.yaml", &format!("command: 'until test -e {go}; do sleep 0.05; done'\n"));
    until("one pilot is busy", || count("1", "running") == 1);
    let command = format!("cmp map {} && sleep 0.1 && echo {{n}} $PILOTFISH_PILOT_ID >> {ran}", path("map"));
    submit("many.yaml", &format!("command: '{command}'\nsweep: {{n: {{range: [1, 150]}}}}\ninputs: [map]\n"));
    until("the other has the rest", || count("2", "waiting") == 0);
    sandbox.write("go", "");
    until("all is done", || count("2", "done") == 150);
    let ran = sandbox.read("ran");
    let words = |n| ran.lines().filter_map(|line| line.split(' ').nth(n)).collect::<BTreeSet<_>>();
    assert_eq!((words(0).len(), ran.lines().count()), (150, 150), "one was executed twice");
    assert_eq!(words(1).len(), 2, "both have had some");
    let is_told = |line: &str| sandbox.ok(&["metrics", "--dir", "state"]).contains(line);
    let from_manager = format!("pilotfish_input_bytes_total{{from=\"manager\"}} {}\n", 2 * N_BYTES);
    until("both have told where the file came from", || is_told(&from_manager));
    for line in ["pilotfish_tasks_taken_total 0\n", "pilotfish_input_bytes_total{from=\"peers\"} 0\n"] {
        assert!(is_told(line), "they did reach each other");
    }
    sandbox.ok(&["stop", "--dir", "state"]);
    assert_eq!(site.manager_ends().0, Some(0));
}

#[test]
fn pilots_that_refuse_each_other_balance_by_way_of_the_manager() {
    do_without_each_other(4, &["-j", "REJECT", "--reject-with", "tcp-reset"]);
}

#[test]
fn pilots_that_hear_nothing_of_each_other_balance_by_way_of_the_manager() {
    do_without_each_other(5, &["-j", "DROP"]);
}
