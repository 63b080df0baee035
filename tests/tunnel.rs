//! Pilots on a host that cannot reach the manager: only its sshd is open, and they come home through that.

use nix::sys::signal::Signal;
use tests::{Running, Sandbox, apart::Apart, until};

const N_TASKS: u64 = 200;

struct Scene {
    // In the order in which they end.
    manager: Option<Running>,
    apart: Apart,
    sandbox: Sandbox,
}

impl Scene {
    /// A host apart and a manager with pilots there; `None` where there can be none.
    fn start(more: &str) -> Option<Scene> {
        let sandbox = Sandbox::new();
        let apart = Apart::start(&sandbox, "")?;
        let config = sandbox.write("ssh_config", &apart.client_configuration());
        let platform = format!(
            "platforms: [{{name: far, adapter: hosts, ssh: apart, ssh_config: {}, cores: 2, poll_interval: 1s, \
             idle_timeout: 1s{more}}}]\nlimits: {{platform_delay_max: 2s, grace: 10s}}\n",
            config.display()
        );
        sandbox.write("manager.yaml", &platform);
        let job = format!(
            "command: 'echo {{n}} >> {}; sleep 0.1'\nsweep: {{n: {{range: [0, {}]}}}}\ncrash_limit: 100\n",
            sandbox.path().join("executions").display(),
            N_TASKS - 1
        );
        sandbox.write("job.yaml", &job);
        let mut scene = Scene { manager: None, apart, sandbox };
        scene.serve();
        Some(scene)
    }

    fn serve(&mut self) {
        let command = self.sandbox.command(&["serve", "--config", "manager.yaml"]);
        self.manager = Some(self.sandbox.serve(command));
    }

    fn until_executed(&self, n: usize) {
        until("tasks have been executed", || self.sandbox.read("executions").lines().count() >= n);
    }

    /// Every task has one result, none ran twice, and no pilot is left.
    fn ends_well(mut self) {
        let job = || self.sandbox.json(&["job", "1"]);
        until("the sweep is done", || {
            assert_eq!(job()["counts"]["failed"], 0, "{}", job());
            job()["state"] == "done"
        });
        let executions = self.sandbox.read("executions");
        let mut executed: Vec<&str> = executions.lines().collect();
        executed.sort_unstable();
        executed.dedup();
        assert_eq!((executed.len() as u64, executions.lines().count() as u64), (N_TASKS, N_TASKS));
        until("idle pilots have left", || self.sandbox.agents().is_empty());
        self.sandbox.ok(&["stop"]);
        let manager = self.manager.take().expect("a manager");
        assert_eq!(manager.wait(), Some(0), "{}", self.sandbox.read("serve.err"));
    }
}

/// An agent that need not be brought, which takes a while without optimisation.
fn there_already() -> String {
    format!(", agent: {}", tests::program().with_file_name("pilotfish-agent").display())
}

#[test]
fn pilots_come_home_through_the_tunnel() {
    let Some(scene) = Scene::start("") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    assert_eq!(scene.apart.n_logins(), 1, "one connection carries commands and pilots");
    let agents: Vec<_> = std::fs::read_dir(scene.sandbox.path().join("home/.pilotfish"))
        .expect("a folder there")
        .flatten()
        .collect();
    let names: Vec<String> =
        agents.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("agent-")).count(), 1, "{names:?}");
    scene.apart.cut();
    until("there is a new connection", || scene.apart.n_logins() > 1);
    scene.until_executed(100);
    let log = scene.sandbox.read("serve.err");
    assert_eq!(log.matches("bringing the agent").count(), 1, "it is there already\n{log}");
    scene.ends_well();
}

#[test]
fn a_host_is_tried_before_it_is_used() {
    let Some(scene) = Scene::start(&there_already()) else { return };
    let said = scene.sandbox.ok(&["platform", "check", "far"]);
    let probe = said.lines().find(|line| line.starts_with("probe")).unwrap_or_default();
    assert!(probe.contains("came home from localhost"), "{said}");
    until("the probe is gone", || scene.sandbox.agents().is_empty());
    let wrong = scene.sandbox.read("ssh_config").replace("/apart/id", "/apart/host_rsa");
    scene.sandbox.write("ssh_config", &wrong);
    let refused = scene.sandbox.run(&["platform", "check", "far", "--no-probe"]);
    let said = tests::text(&refused.stdout);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.starts_with("connection    FAILED  apart does not let"), "{said}");
}

#[test]
fn a_cut_connection_costs_nothing() {
    let Some(scene) = Scene::start(&there_already()) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    for n in 1..=3 {
        scene.until_executed(40 * n);
        scene.apart.cut();
        until("there is a new connection", || scene.apart.n_logins() > n);
    }
    scene.ends_well();
}

#[test]
fn a_manager_that_is_killed_finds_its_pilots_again() {
    let Some(mut scene) = Scene::start(&there_already()) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(40);
    let manager = scene.manager.take().expect("a manager");
    manager.signal(Signal::SIGKILL);
    manager.wait();
    let pilots = scene.sandbox.agents();
    scene.serve();
    scene.until_executed(80);
    assert_eq!(scene.sandbox.agents(), pilots, "those of before go on");
    scene.ends_well();
}
