//! Pilots as batch jobs of a real Grid Engine: sweeps complete whatever becomes of the jobs, the master and
//! the manager, and nothing is left behind.

use nix::sys::signal::Signal;
use tests::{Running, Sandbox, gridengine::Cell, until};

const N_TASKS: u64 = 200;

struct Scene {
    // In the order in which they end.
    manager: Option<Running>,
    cell: Cell,
    sandbox: Sandbox,
}

impl Scene {
    /// A cluster, and a manager with pilots of two cores that are asked for so; `None` where there can be no
    /// cluster.
    fn start(site: &str) -> Option<Scene> {
        let sandbox = Sandbox::new();
        let cell = Cell::start(&sandbox)?;
        let platform = format!(
            "platforms: [{{name: cluster, adapter: gridengine, queue: batch.q, cores: 2, pilots_max: 2, \
             walltime: 10m, poll_interval: 1s, idle_timeout: 1s, {site}}}]\n\
             limits: {{platform_delay_max: 2s, grace: 10s}}\n"
        );
        sandbox.write("manager.yaml", &platform);
        let mut scene = Scene { manager: None, cell, sandbox };
        scene.write_job("echo {n} >> executions; sleep 0.1");
        scene.serve();
        Some(scene)
    }

    fn write_job(&self, command: &str) {
        let sweep = format!("sweep: {{n: {{range: [0, {}]}}}}\ncrash_limit: 100\n", N_TASKS - 1);
        self.sandbox.write("job.yaml", &format!("command: '{command}'\n{sweep}"));
    }

    fn serve(&mut self) {
        let mut command = self.sandbox.command(&["serve", "--config", "manager.yaml"]);
        command.envs(self.cell.environment.iter().cloned());
        self.manager = Some(self.sandbox.spawn("serve", command));
        self.sandbox.until_served();
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
        until("idle pilots have left the cluster", || self.cell.jobs("rps").is_empty());
        self.sandbox.ok(&["stop"]);
        let manager = self.manager.take().expect("a manager");
        assert_eq!(manager.wait(), Some(0), "{}", self.sandbox.read("serve.err"));
        let is_of_the_cluster = |command: &str| command.contains("sge_");
        until("nothing but the cluster is left", || {
            self.sandbox.processes().iter().all(|(_, command)| is_of_the_cluster(command))
        });
    }
}

#[test]
fn a_sweep_runs_in_batch_jobs() {
    let site = "parallel_environment: smp, memory: 1GiB, gpus: 2, options: [-l mem_total=1G]";
    let Some(scene) = Scene::start(site) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(10);
    let jobs = scene.cell.say("qstat", &["-xml", "-r", "-q", "batch.q"]);
    for expected in ["<JB_name>pf", "name=\"smp\">2<", "name=\"h_vmem\"", ">512M<", "name=\"h_rt\"", ">600<"]
    {
        assert!(jobs.contains(expected), "{expected} in {jobs}");
    }
    let scripts = scene.cell.scripts();
    assert!(
        scripts.contains("--join") && !scripts.contains("token") && !scripts.contains("pfj_"),
        "{scripts}"
    );
    scene.ends_well(0);
}

#[test]
fn jobs_that_a_stranger_deletes_cost_what_ran_in_them() {
    let Some(scene) = Scene::start("parallel_environment: smp") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let jobs = scene.cell.jobs("r");
    scene.cell.say("qdel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    scene.ends_well(2 * jobs.len());
}

#[test]
fn what_a_deleted_job_cannot_finish_is_given_back_in_time() {
    let Some(scene) = Scene::start("parallel_environment: smp") else { return };
    scene.write_job("trap \"\" USR2; echo {n} >> executions; [ -e again ] || sleep 600");
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(4);
    scene.sandbox.write("again", "");
    let jobs = scene.cell.jobs("r");
    scene.cell.say("qdel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    for job in &jobs {
        let booked = || scene.cell.say("qacct", &["-j", job]);
        until("its end is booked", || booked().contains("exit_status"));
        // One that was killed has 137, if not another number.
        let ended_well = |line: &str| line.split_whitespace().eq(["exit_status", "0"]);
        assert!(booked().lines().any(ended_well), "{}", booked());
    }
    assert_eq!(scene.sandbox.ok(&["pilots", "--all"]).matches("it got a signal").count(), 2);
    scene.ends_well(4);
}

#[test]
fn a_master_that_is_silent_and_dies_loses_nothing() {
    let Some(mut scene) = Scene::start("parallel_environment: smp") else { return };
    scene.cell.signal_master(Signal::SIGSTOP);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let failures = || scene.sandbox.json(&["platforms"])[0]["n_failures"].clone();
    until("its silence is noticed", || failures() != 0);
    scene.cell.signal_master(Signal::SIGCONT);
    scene.until_executed(20);
    scene.cell.kill_master();
    scene.until_executed(60);
    scene.cell.start_master(&scene.sandbox);
    // It may have died before it had kept that there are such jobs, and ends them.
    scene.ends_well(4);
}

#[test]
fn managers_killed_while_jobs_wait_and_run_leak_nothing() {
    let Some(mut scene) = Scene::start("parallel_environment: smp") else { return };
    scene.cell.say("qmod", &["-d", "batch.q"]);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("jobs wait", || scene.cell.jobs("p").len() == 2);
    scene.kill_manager();
    scene.serve();
    scene.cell.say("qmod", &["-e", "batch.q"]);
    scene.until_executed(20);
    assert!(scene.cell.jobs("rps").len() <= 2, "those of before are known");
    scene.kill_manager();
    scene.serve();
    scene.ends_well(0);
}

#[test]
fn jobs_that_cannot_start_are_told() {
    let site = "parallel_environment: smp, options: [-wd /no/such/folder]";
    let Some(scene) = Scene::start(site) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let reason = "can't chdir to /no/such/folder";
    until("the operator is told why", || scene.sandbox.read("serve.err").contains(reason));
}

#[test]
fn cores_on_several_hosts_are_not_asked_for() {
    let Some(scene) = Scene::start("parallel_environment: wide") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let reason = "parallel environment wide gives cores by the rule $fill_up";
    until("the operator is told why", || scene.sandbox.read("serve.err").contains(reason));
    assert!(scene.cell.jobs("rps").is_empty());
}
