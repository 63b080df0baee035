//! What policies come to, live: two users with a job each on the same pilots, once under either policy of a layer.

use std::{fs, path::PathBuf};

use tests::{Running, Sandbox, until};

const USERS: [&str; 2] = ["ann", "bob"];

/// A manager with pilots on these platforms, and two users.
fn serve(platforms: &str, n_pilots: usize) -> (Sandbox, Running) {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", &format!("platforms:\n{platforms}"));
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    until("all pilots are there", || {
        sandbox.json(&["pilots"]).as_array().is_some_and(|all| all.len() == n_pilots)
    });
    USERS.iter().for_each(|user| _ = sandbox.ok(&["user", "add", user]));
    (sandbox, manager)
}

/// Has both users submit theirs, and says how many seconds each had to wait for the end of all.
fn run_both(sandbox: &Sandbox, policy: [&str; 2], jobs: &[PathBuf; 2]) -> [f64; 2] {
    sandbox.ok(&["policies", "set", policy[0], policy[1]]);
    // All cores are busy until both are there: who comes first has no more by it.
    let opening =
        sandbox.ok(&["submit", "-q", "--array", "1-4", "--", "until [ -e both ]; do sleep 0.05; done"]);
    until("all cores are busy", || sandbox.json(&["job", opening.trim()])["counts"]["running"] == 4);
    let submit = |(user, job): (&'static str, &PathBuf)| {
        let id = sandbox.ok(&["submit", "-q", "--dir", user, job.to_str().expect("a path")]);
        (user, id.trim().to_owned())
    };
    let submitted = [(USERS[0], &jobs[0]), (USERS[1], &jobs[1])].map(submit);
    sandbox.write("both", "");
    let both = submitted.map(|(user, id)| {
        sandbox.ok(&["wait", "-q", "--dir", user, &id]);
        let job = sandbox.json(&["job", "--dir", user, &id]);
        let at = |field: &str| job[field].as_f64().expect("a time");
        (at("ended_at") - at("submitted_at")) / 1e6
    });
    fs::remove_file(sandbox.path().join("both")).expect("it was written");
    both
}

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
    assert!(sandbox.agents().is_empty());
}

/// Seconds of a task near and far: ann's application loses eight times by the wrong platform, bob's twice.
const TIMES: [(&str, [f64; 2]); 2] = [("dock", [0.2, 1.6]), ("search", [0.4, 0.2])];
const N_TASKS: u32 = 60;

#[test]
fn all_end_sooner_with_shares_where_each_is_at_its_best_than_with_equal_ones() {
    let site = |name: &str| {
        format!(
            "  - {{name: {name}, adapter: local, cores: 2, pilots_min: 1, pilots_max: 1, allow_shared_account: true}}\n"
        )
    };
    let (sandbox, manager) = serve(&(site("near") + &site("far")), 2);
    let pilots = sandbox.json(&["pilots"]);
    let is_near = |pilot: &&serde_json::Value| pilot["platform"] == "near";
    let near_pilot =
        pilots.as_array().into_iter().flatten().find(is_near).expect("a pilot near")["id"].clone();
    let jobs = TIMES.map(|(application, [near, far])| {
        let times = [format!("near={}ms", near * 1e3), format!("far={}ms", far * 1e3)];
        sandbox.ok(&["profiles", "edit", application, "--time", &times[0], "--time", &times[1]]);
        let command =
            format!("if [ $PILOTFISH_PILOT_ID = {near_pilot} ]; then sleep {near}; else sleep {far}; fi");
        let text = format!(
            "application: {application}\ncommand: {command}\nsweep: {{n: {{range: [1, {N_TASKS}]}}}}\n"
        );
        sandbox.write(&format!("{application}.yaml"), &text)
    });
    let equal = run_both(&sandbox, ["allocation", "equal"], &jobs);
    let pa_rr = run_both(&sandbox, ["allocation", "pa-rr"], &jobs);
    assert!(
        pa_rr.iter().zip(equal).all(|(pa_rr, equal)| *pa_rr < equal),
        "seconds of ann and bob: equal {equal:?}, pa-rr {pa_rr:?}"
    );
    ends(&sandbox, manager);
}

#[test]
fn applications_that_hinder_their_like_share_nodes_under_maf_and_all_end_sooner() {
    let (sandbox, manager) = serve(
        "  - {name: here, adapter: local, cores: 2, pilots_min: 2, pilots_max: 2, allow_shared_account: true}\n",
        2,
    );
    // On a node one task of an application at a time does something, whatever others do there.
    let jobs = ["dock", "search"].map(|application| {
        let command = format!("flock {application}-$PILOTFISH_PILOT_ID sleep 0.2");
        let text =
            format!("application: {application}\ncommand: {command}\nsweep: {{n: {{range: [1, 60]}}}}\n");
        sandbox.write(&format!("{application}.yaml"), &text)
    });
    // Which tasks meet on a node is chance without it, and may be good luck once.
    let longest = |mapping: &str| {
        let ends = [(); 2].map(|()| run_both(&sandbox, ["mapping", mapping], &jobs));
        ends.concat().into_iter().fold(0.0, f64::max)
    };
    let (all_core, maf) = (longest("all-core"), longest("maf"));
    assert!(maf < 0.85 * all_core, "seconds until both have ended: all-core {all_core}, maf {maf}");
    ends(&sandbox, manager);
}
