//! What policies come to, live: two users with a job each on the same pilots, once under either policy of a layer.

use std::{fs, path::PathBuf};

use serde_json::Value;
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

/// A job that is over.
struct Ended {
    user: &'static str,
    id: String,
    /// Seconds that its user had to wait for the end of all.
    seconds: f64,
}

/// Has both users submit theirs, and waits for their ends.
fn run_both(sandbox: &Sandbox, policy: [&str; 2], jobs: &[PathBuf; 2]) -> [Ended; 2] {
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
        Ended { user, id, seconds: (at("ended_at") - at("submitted_at")) / 1e6 }
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
    let seconds = |allocation| run_both(&sandbox, ["allocation", allocation], &jobs).map(|job| job.seconds);
    let (equal, pa_rr) = (seconds("equal"), seconds("pa-rr"));
    assert!(
        pa_rr.iter().zip(equal).all(|(pa_rr, equal)| *pa_rr < equal),
        "seconds of ann and bob: equal {equal:?}, pa-rr {pa_rr:?}"
    );
    ends(&sandbox, manager);
}

/// From when to when a task ran, and on which pilot.
struct Ran {
    pilot: u64,
    from: u64,
    to: u64,
}

impl Ran {
    /// Microseconds during which both were on one node.
    fn beside(&self, other: &Ran) -> u64 {
        let together = self.to.min(other.to).saturating_sub(self.from.max(other.from));
        if self.pilot == other.pilot { together } else { 0 }
    }
}

fn tasks(sandbox: &Sandbox, job: &Ended) -> Vec<Ran> {
    let words = ["tasks", &job.id, "--state", "done", "--limit", "1000", "--dir", job.user];
    let ran = |task: &Value| {
        let from = task["started_at"].as_u64()?;
        Some(Ran { pilot: task["pilot"].as_u64()?, from, to: from + task["wall"].as_u64()? })
    };
    let ran: Vec<Ran> = sandbox.json(&words).as_array().into_iter().flatten().filter_map(ran).collect();
    assert_eq!(ran.len(), N_TASKS as usize);
    ran
}

/// Of the time that two tasks were on one node: the part in which both were of one application.
fn share_beside_their_like(sandbox: &Sandbox, jobs: &[Ended; 2]) -> f64 {
    let [one, other] = [&jobs[0], &jobs[1]].map(|job| tasks(sandbox, job));
    let among = |ran: &[Ran]| -> u64 {
        let pairs = ran.iter().enumerate().flat_map(|(n, a)| ran[..n].iter().map(move |b| a.beside(b)));
        pairs.sum()
    };
    let like = among(&one) + among(&other);
    let unlike: u64 = one.iter().flat_map(|a| other.iter().map(move |b| a.beside(b))).sum();
    like as f64 / (like + unlike) as f64
}

#[test]
fn applications_that_hinder_their_like_share_nodes_with_others_under_maf() {
    let (sandbox, manager) = serve(
        "  - {name: here, adapter: local, cores: 2, pilots_min: 2, pilots_max: 2, allow_shared_account: true}\n",
        2,
    );
    // On a node one task of an application at a time does something, whatever others do there.
    let jobs = ["dock", "search"].map(|application| {
        let command = format!("flock {application}-$PILOTFISH_PILOT_ID sleep 0.2");
        let text = format!(
            "application: {application}\ncommand: {command}\nsweep: {{n: {{range: [1, {N_TASKS}]}}}}\n"
        );
        sandbox.write(&format!("{application}.yaml"), &text)
    });
    let share = |mapping| {
        let jobs = run_both(&sandbox, ["mapping", mapping], &jobs);
        share_beside_their_like(&sandbox, &jobs)
    };
    // What is beside its like takes twice as long, so by chance much more than half of the time goes to such pairs.
    let (all_core, maf) = (share("all-core"), share("maf"));
    assert!(
        maf < 0.5 * all_core,
        "of the time beside others, beside their like: all-core {all_core}, maf {maf}"
    );
    ends(&sandbox, manager);
}
