//! Pilots on a host that cannot reach the manager: only its sshd is open, and they come home through that.

use std::{fs, path::Path, process::Command};

use tests::{
    Sandbox,
    apart::Apart,
    pilots::pilots,
    scene::{Platform, Scene},
    slurm::Cluster,
    until,
};

/// A host apart and a manager with pilots there; `None` where there can be none.
fn start(more: &str) -> Option<Scene<Apart>> {
    let sandbox = Sandbox::new();
    let apart = Apart::start(&sandbox, "")?;
    let fields = format!("adapter: hosts, {}{more}", behind_ssh(&sandbox, &apart));
    Some(Scene::start(sandbox, apart, &fields))
}

/// What manager.yaml says of any platform there.
fn behind_ssh(sandbox: &Sandbox, apart: &Apart) -> String {
    let config = sandbox.write("ssh_config", &apart.client_configuration());
    format!("name: far, ssh: apart, ssh_config: {}", config.display())
}

/// Besides, none ran twice, and no relay is left.
fn ends_well(mut scene: Scene<Apart>) {
    scene.ends_well(0);
    until("the relays have ended", || scene.sandbox.processes().is_empty());
}

/// An agent that need not be brought, which takes a while without optimisation.
fn there_already() -> String {
    format!(", agent: {}", tests::program().with_file_name("pilotfish-agent").display())
}

#[test]
fn pilots_come_home_through_the_tunnel() {
    let Some(scene) = start("") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    assert_eq!(scene.platform.n_logins(), 1, "one connection carries commands and pilots");
    let agents: Vec<_> = fs::read_dir(scene.sandbox.path().join("home/.pilotfish"))
        .expect("a folder there")
        .flatten()
        .collect();
    let names: Vec<String> =
        agents.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("agent-")).count(), 1, "{names:?}");
    scene.platform.cut();
    until("there is a new connection", || scene.platform.n_logins() > 1);
    scene.until_executed(100);
    let log = scene.sandbox.read("serve.err");
    assert_eq!(log.matches("bringing the agent").count(), 1, "it is there already\n{log}");
    ends_well(scene);
}

/// A cluster of a host apart.
struct FarCluster {
    cluster: Cluster,
    /// Ends after the cluster.
    apart: Apart,
}

impl Platform for FarCluster {
    fn has_pilots(&self, sandbox: &Sandbox) -> bool {
        self.cluster.has_pilots(sandbox)
    }
}

#[test]
fn pilots_of_a_cluster_come_home_through_the_tunnel() {
    let sandbox = Sandbox::new();
    let Some(apart) = Apart::start(&sandbox, "") else { return };
    let Some(cluster) = Cluster::start_apart(&sandbox, &apart) else { return };
    let behind_ssh = behind_ssh(&sandbox, &apart);
    let fields = format!(
        "adapter: slurm, partition: batch, pilots_max: 2, walltime: 10m, {behind_ssh}{}",
        there_already()
    );
    let mut scene = Scene::start(sandbox, FarCluster { cluster, apart }, &fields);
    scene.write_job_that_waits(130);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(40);
    until("both jobs run", || scene.platform.cluster.jobs("RUNNING").len() == 2);
    let jobs = scene.platform.cluster.jobs("RUNNING");
    assert_eq!(scene.platform.apart.n_logins(), 1, "one connection carries all");
    scene.platform.apart.cut();
    scene.until_executed(80);
    scene.kill_manager();
    scene.serve();
    scene.until_executed(120);
    assert_eq!(scene.platform.cluster.jobs("PENDING,RUNNING"), jobs, "those of before go on");
    scene.go();
    scene.ends_well(0);
    let is_of_the_cluster = |command: &str| command.contains("slurm") || command.contains("munge");
    until("nothing but the cluster is left", || {
        scene.sandbox.processes().iter().all(|(_, command)| is_of_the_cluster(command))
    });
}

#[test]
fn a_relay_leads_nobody_in_but_pilots() {
    let Some(scene) = start(&there_already()) else { return };
    scene.write_job_that_waits(20);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(10);
    let port =
        file_below(&scene.sandbox.path().join("home/.pilotfish/relay"), "port").expect("a relay's port");
    let access = scene.sandbox.read("home/.pilotfish/default/access.json");
    let access: serde_json::Value = serde_json::from_str(&access).expect("an access file");
    let token = format!("authorization: Bearer {}", access["token"].as_str().expect("a token"));
    let asked = |path: &str, header: &str| {
        let words = scene.platform.words();
        let mut asking = Command::new(&words[0]);
        asking.args(&words[1..]).args(["curl", "-sk", "--noproxy", "*", "-w", "%{http_code}", "-H", header]);
        asking.arg(format!("https://127.0.0.1:{port}{path}"));
        tests::text(&asking.output().expect("curl is installed").stdout)
    };
    for path in ["/api/v1/version", "/api/v1/jobs", "/agent/0", "/pilot/v1/stores"] {
        for (header, words) in [("x: y", "found no token"), (&token, "found a user's token")] {
            let said = asked(path, header);
            assert!(said.contains(words) && said.ends_with("401"), "{path}: {said}");
        }
    }
    scene.go();
    ends_well(scene);
}

/// The contents of the first file of that name in a folder and below it, without its end of line.
fn file_below(folder: &Path, name: &str) -> Option<String> {
    let found = fs::read_to_string(folder.join(name)).map(|text| text.trim().to_owned());
    let inside = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    found.ok().or_else(|| inside.filter(|path| path.is_dir()).find_map(|path| file_below(&path, name)))
}

#[test]
fn a_host_is_tried_while_others_work_there() {
    let Some(scene) = start(&there_already()) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(10);
    let said = scene.sandbox.ok(&["platform", "check", "far"]);
    let probe = said.lines().find(|line| line.starts_with("probe")).unwrap_or_default();
    assert!(probe.contains("came home from localhost"), "{said}");
    let there = fs::read_dir(scene.sandbox.path().join("home/.pilotfish/pilots")).expect("a folder");
    assert_eq!(there.count(), 1, "the probe's is gone, that of the pilot at work is not");
    let right = scene.sandbox.read("ssh_config");
    scene.sandbox.write("ssh_config", &right.replace("/apart/id", "/apart/host_rsa"));
    let refused = scene.sandbox.run(&["platform", "check", "far", "--no-probe"]);
    let said = tests::text(&refused.stdout);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.starts_with("connection    FAILED  apart does not let"), "{said}");
    scene.sandbox.write("ssh_config", &right);
    ends_well(scene);
}

#[test]
fn what_a_host_offers_is_found_out_and_written_down() {
    let sandbox = Sandbox::new();
    let Some(apart) = Apart::start(&sandbox, "") else { return };
    let config = sandbox.write("ssh_config", &apart.client_configuration());
    let config = config.display().to_string();
    sandbox.ok(&["platform", "attach", "hosts", "far", "--ssh", "apart", "--ssh-config", &config]);
    let n_cores = std::thread::available_parallelism().expect("cores");
    let written = sandbox.read("manager.yaml");
    assert!(written.contains(&format!("    cores: {n_cores}\n    memory: ")), "{written}");
    let checked = sandbox.ok(&["platform", "check", "far", "--no-probe"]);
    assert!(checked.starts_with("connection    ok      apart"), "{checked}");
}

#[test]
fn a_cut_connection_costs_nothing() {
    let Some(scene) = start(&there_already()) else { return };
    scene.write_job_that_waits(130);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    for n in 1..=3 {
        scene.until_executed(40 * n);
        scene.platform.cut();
        until("there is a new connection", || scene.platform.n_logins() > n);
    }
    scene.go();
    ends_well(scene);
}

#[test]
fn a_manager_that_is_killed_finds_its_pilots_again() {
    let Some(mut scene) = start(&there_already()) else { return };
    scene.write_job_that_waits(90);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(40);
    scene.kill_manager();
    let before = pilots(&scene.sandbox);
    assert!(!before.is_empty(), "they outlive it");
    scene.serve();
    scene.until_executed(80);
    assert_eq!(pilots(&scene.sandbox), before, "those of before go on");
    scene.go();
    ends_well(scene);
}
