//! Pilots as batch jobs of a real SLURM: sweeps complete whatever becomes of the jobs, the controller and
//! the manager, and nothing is left behind.

use nix::sys::signal::Signal;
use tests::{Running, Sandbox, slurm::Cluster, text, until};

const N_TASKS: u64 = 200;

struct Scene {
    // In the order in which they end.
    manager: Option<Running>,
    cluster: Cluster,
    sandbox: Sandbox,
}

impl Scene {
    /// A cluster, and a manager with pilots in this partition; `None` where there can be no cluster.
    fn start(partition: &str) -> Option<Scene> {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox)?;
        let platform = format!(
            "platforms: [{{name: cluster, adapter: slurm, partition: {partition}, cores: 2, pilots_max: 2, \
             walltime: 10m, poll_interval: 1s, idle_timeout: 1s}}]\nlimits: {{platform_delay_max: 2s, grace: 10s, submit_limit: 10s}}\n"
        );
        sandbox.write("manager.yaml", &platform);
        let job = format!(
            "command: 'echo {{n}} >> executions; sleep 0.1'\nsweep: {{n: {{range: [0, {}]}}}}\ncrash_limit: 100\n",
            N_TASKS - 1
        );
        sandbox.write("job.yaml", &job);
        let mut scene = Scene { manager: None, cluster, sandbox };
        scene.serve();
        Some(scene)
    }

    fn serve(&mut self) {
        let mut command = self.sandbox.command(&["serve", "--config", "manager.yaml"]);
        command.envs(self.cluster.environment.iter().cloned());
        self.manager = Some(self.sandbox.serve(command));
    }

    fn kill_manager(&mut self) {
        let manager = self.manager.take().expect("a manager");
        manager.signal(Signal::SIGKILL);
        manager.wait();
    }

    fn until_executed(&self, n: usize) {
        until("tasks have been executed", || self.sandbox.read("executions").lines().count() >= n);
    }

    /// Every task has one result, no more ran twice than were lost with pilots, and nothing is left.
    fn ends_well(mut self, n_again_max: usize) {
        let job = || self.sandbox.json(&["job", "1"]);
        until("the sweep is done", || {
            assert_eq!(job()["counts"]["failed"], 0, "{}", job());
            job()["state"] == "done"
        });
        let executions = self.sandbox.read("executions");
        let mut executed: Vec<&str> = executions.lines().collect();
        let n_all = executed.len();
        executed.sort_unstable();
        executed.dedup();
        assert_eq!(executed.len() as u64, N_TASKS);
        assert!(n_all - executed.len() <= n_again_max, "{n_all} executions");
        until("idle pilots have left the cluster", || {
            self.cluster.jobs("PENDING,RUNNING,COMPLETING").is_empty()
        });
        self.sandbox.ok(&["stop"]);
        let manager = self.manager.take().expect("a manager");
        assert_eq!(manager.wait(), Some(0), "{}", self.sandbox.read("serve.err"));
    }
}

#[test]
fn a_sweep_runs_in_batch_jobs() {
    let Some(scene) = Scene::start("batch") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(10);
    let names = scene.cluster.say("squeue", &["-h", "-o", "%j %P"]);
    assert!(names.lines().all(|line| line.starts_with("pf") && line.ends_with("batch")), "{names}");
    scene.ends_well(0);
}

#[test]
fn jobs_that_a_stranger_cancels_cost_what_ran_in_them() {
    let Some(scene) = Scene::start("batch") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let jobs = scene.cluster.jobs("RUNNING");
    scene.cluster.say("scancel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    scene.ends_well(2 * jobs.len());
}

#[test]
fn a_controller_that_is_silent_and_dies_loses_nothing() {
    let Some(mut scene) = Scene::start("batch") else { return };
    scene.cluster.signal_controller(Signal::SIGSTOP);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let failures = || scene.sandbox.json(&["platforms"])[0]["n_failures"].clone();
    until("its silence is noticed", || failures() != 0);
    scene.cluster.signal_controller(Signal::SIGCONT);
    scene.until_executed(20);
    scene.cluster.kill_controller();
    scene.until_executed(60);
    scene.cluster.start_controller(&scene.sandbox);
    // It may have died before it had kept that there are such jobs, and ends them.
    scene.ends_well(4);
}

#[test]
fn managers_killed_while_jobs_wait_and_run_leak_nothing() {
    let Some(mut scene) = Scene::start("batch") else { return };
    scene.cluster.say("scontrol", &["update", "partition=batch", "state=down"]);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("jobs wait", || scene.cluster.jobs("PENDING").len() == 2);
    until("the operator is told why", || scene.sandbox.read("serve.err").contains("PartitionDown"));
    scene.kill_manager();
    scene.serve();
    scene.cluster.say("scontrol", &["update", "partition=batch", "state=up"]);
    scene.until_executed(20);
    assert!(scene.cluster.jobs("PENDING,RUNNING").len() <= 2, "those of before are known");
    scene.kill_manager();
    scene.serve();
    scene.ends_well(0);
}

#[test]
fn a_platform_is_tried_before_it_is_used() {
    let sandbox = Sandbox::new();
    let Some(cluster) = Cluster::start(&sandbox) else { return };
    let platform = |name: &str, more: &str| format!("- {{name: {name}, adapter: slurm, cores: 2, {more}}}\n");
    let platforms = [
        platform("good", "partition: batch, walltime: 10m"),
        platform("misspelt", "partition: btch"),
        platform("down", "partition: down"),
        platform("long", "partition: batch, walltime: 2h"),
        platform("wide", "partition: batch, memory: 1TiB"),
    ];
    sandbox.write("manager.yaml", &format!("platforms:\n{}", platforms.concat()));
    let check = |name: &str, more: &[&str]| {
        let mut command = sandbox.command(&["platform", "check", name]);
        let output = command.args(more).envs(cluster.environment.iter().cloned()).output().expect("it runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = check("good", &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    let steps: Vec<&str> = out.lines().map(|line| line[..13].trim_end()).collect();
    assert_eq!(steps, ["connection", "batch system", "queue", "folder", "listing", "probe", "end"], "{out}");
    until("the probe is gone", || cluster.jobs("PENDING,RUNNING,COMPLETING").is_empty());
    for (name, word) in [
        ("misspelt", "there are batch, down"),
        ("down", "starts no jobs at present"),
        ("long", "the most of batch is 1h"),
        ("wide", "no node of batch"),
    ] {
        let (code, out, err) = check(name, &[]);
        assert!(code == Some(3) && out.contains(word), "{name}: {code:?} {out}{err}");
    }
    // Nothing is free: the probe waits, and is taken back.
    let busy = cluster
        .say("sbatch", &["-p", "batch", "-N", "2", "-n", "4", "-o", "/dev/null", "--wrap", "sleep 1000"]);
    until("the nodes are busy", || cluster.jobs("RUNNING").len() == 1);
    let (code, out, _) = check("good", &["--wait", "1s", "--json"]);
    assert!(code == Some(3) && out.contains("not home after 1.0s"), "{busy}{code:?} {out}");
    until("the probe is taken back", || cluster.jobs("PENDING").is_empty());
    cluster.say("scancel", &["--user=root"]);
}
