//! A platform that is not this host's processes, a manager with pilots there, and a sweep of many tasks.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use nix::sys::signal::Signal;

use crate::{Running, Sandbox, hang::hang_limit, until};

/// Tasks of the sweep.
pub const N_TASKS: u64 = 200;

/// Where pilots of a [`Scene`] run.
pub trait Platform {
    /// What a manager needs in its environment to give it orders.
    fn environment(&self) -> &[(String, String)] {
        &[]
    }

    /// Whether pilots or their jobs are there, or on their way out.
    fn has_pilots(&self, sandbox: &Sandbox) -> bool;
}

/// All of it.
pub struct Scene<P> {
    // In the order in which they end.
    manager: Option<Running>,
    /// Where the pilots run.
    pub platform: P,
    /// Where all files are.
    pub sandbox: Sandbox,
}

impl<P: Platform> Scene<P> {
    /// Starts the manager. `fields`: what manager.yaml says of the platform, from its name on.
    pub fn start(sandbox: Sandbox, platform: P, fields: &str) -> Scene<P> {
        Scene::start_with(sandbox, platform, fields, "")
    }

    /// The same with more of its limits.
    pub fn start_with(sandbox: Sandbox, platform: P, fields: &str, limits: &str) -> Scene<P> {
        let submit_limit = match limits.contains("submit_limit") {
            true => String::new(),
            false => submit_limit() + ", ",
        };
        // A cloud on a busy host is slow to delete servers.
        let leave_limit = hang_limit(Duration::from_secs(300)).as_secs();
        let configuration = format!(
            "platforms: [{{cores: 2, poll_interval: 1s, idle_timeout: 3s, {fields}}}]\n\
             limits: {{platform_delay_max: 2s, grace: 30s, leave_limit: {leave_limit}s, {submit_limit}{limits}}}\n"
        );
        sandbox.write("manager.yaml", &configuration);
        let mut scene = Scene { manager: None, platform, sandbox };
        scene.write_job("sleep 0.1");
        scene.serve();
        scene
    }

    /// Writes `job.yaml`: the sweep, whose tasks say which they are and then run this.
    pub fn write_job(&self, command: &str) {
        self.write_job_of(N_TASKS, command);
    }

    /// The same, and there is something to do until [`Scene::go`]: tasks from this one on wait for it.
    pub fn write_job_that_waits(&self, from: u64) {
        let go = self.sandbox.path().join("go").display().to_string();
        self.write_job(&format!("sleep 0.1; [ {{n}} -lt {from} ] || until [ -e {go} ]; do sleep 0.05; done"));
    }

    /// What waits for it goes on.
    pub fn go(&self) {
        self.sandbox.write("go", "");
    }

    /// The same as [`Scene::write_job`] with so many tasks.
    pub fn write_job_of(&self, n_tasks: u64, command: &str) {
        let executions = self.sandbox.path().join("executions");
        let job = format!(
            "command: 'echo {{n}} >> {}; {command}'\nsweep: {{n: {{range: [0, {}]}}}}\ncrash_limit: 100\n",
            executions.display(),
            n_tasks - 1
        );
        self.sandbox.write("job.yaml", &job);
    }

    /// Starts a manager.
    pub fn serve(&mut self) {
        let mut command = self.sandbox.command(&["serve", "--config", "manager.yaml"]);
        command.envs(self.platform.environment().iter().cloned());
        self.manager = Some(self.sandbox.serve(command));
    }

    /// Ends the manager by a signal that it cannot catch.
    pub fn kill_manager(&mut self) {
        let manager = self.manager.take().expect("a manager");
        manager.signal(Signal::SIGKILL);
        manager.wait();
    }

    /// Waits until that many tasks have begun.
    pub fn until_executed(&self, n: usize) {
        until("tasks have been executed", || self.sandbox.read("executions").lines().count() >= n);
    }

    /// Waits until the first allocation has a pilot at work on each of its nodes, and gives it back. There must be
    /// something to do for all of them.
    pub fn until_nodes_work(&self, n_nodes: u64) {
        let held = || self.sandbox.json(&["allocation", "show", "1"]);
        let n_pilots = || held()["pilots"].as_array().map_or(0, |pilots| pilots.len() as u64);
        until("every node has a pilot", || n_pilots() == n_nodes);
        assert_eq!(
            (held()["n_nodes"].as_u64(), held()["cores"].as_u64()),
            (Some(n_nodes), Some(2 * n_nodes))
        );
        until("all of them work", || {
            let pilots = self.sandbox.json(&["pilots"]);
            pilots.as_array().is_some_and(|pilots| pilots.iter().all(|pilot| pilot["n_running"] != 0))
        });
        self.sandbox.ok(&["allocation", "cancel", "1"]);
        self.go();
    }

    /// Waits until every task has its result.
    pub fn until_done(&self) {
        let job = || self.sandbox.json(&["job", "1"]);
        until("the sweep is done", || {
            assert_eq!(job()["counts"]["failed"], 0, "{}", job());
            job()["state"] == "done"
        });
    }

    /// Every task gets one result, no more run twice than were lost with pilots, pilots that are idle leave,
    /// and the manager ends.
    pub fn ends_well(&mut self, n_again_max: usize) {
        self.until_done();
        let executions = self.sandbox.read("executions");
        let mut executed: Vec<&str> = executions.lines().collect();
        let n_all = executed.len();
        executed.sort_unstable();
        executed.dedup();
        assert_eq!(executed.len() as u64, N_TASKS);
        let pilots = self.sandbox.ok(&["pilots", "--all"]);
        assert!(n_all - executed.len() <= n_again_max, "{n_all} executions by\n{pilots}");
        until("idle pilots have left", || !self.platform.has_pilots(&self.sandbox));
        self.stops();
    }

    /// The manager ends when it is told to.
    pub fn stops(&mut self) {
        self.sandbox.ok(&["stop"]);
        let manager = self.manager.take().expect("a manager");
        assert_eq!(manager.wait(), Some(0), "{}", self.sandbox.read("serve.err"));
    }
}

/// An environment in which a submission is held up until the file `go` is there: `before` the batch system has
/// heard of it, or `after` it has accepted it. `asked` gets a line for each, `listed` one for each listing.
pub fn held_up(
    sandbox: &Sandbox,
    environment: &[(String, String)],
    (submit, list): (&str, &str),
    moment: &str,
) -> Vec<(String, String)> {
    let bin = sandbox.path().join("held-up");
    fs::create_dir_all(&bin).expect("a folder");
    let file = |name: &str| sandbox.path().join(name).display().to_string();
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", file("go"));
    let ask = format!("echo $$ >> {}", file("asked"));
    let real = "PATH=${PATH#*:}";
    let put = |name: &str, lines: String| {
        fs::write(bin.join(name), format!("#!/bin/sh\n{lines}\n")).expect("a program");
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("a program");
    };
    put(
        submit,
        match moment {
            "before" => format!("{ask}; {wait}; {real} exec {submit} \"$@\""),
            _ => {
                format!("{real}; said=$({submit} \"$@\"); code=$?; {ask}; {wait}; echo \"$said\"; exit $code")
            }
        },
    );
    put(list, format!("echo $$ >> {}; {real} exec {list} \"$@\"", file("listed")));
    let of_path = |(variable, value): &(String, String)| match variable.as_str() {
        "PATH" => (variable.clone(), format!("{}:{value}", bin.display())),
        _ => (variable.clone(), value.clone()),
    };
    environment.iter().map(of_path).collect()
}

/// A limit of submissions that is over soon, but not before a platform shows what it has accepted.
pub fn submit_limit() -> String {
    format!("submit_limit: {}s", hang_limit(Duration::from_secs(10)).as_secs())
}

/// A limit of submissions that none exceeds which a test holds up, and whose effect it then waits for.
pub fn submit_limit_of_held_up() -> String {
    format!("submit_limit: {}s", hang_limit(Duration::from_secs(60)).as_secs())
}

/// The manager is killed while both of its submissions are held up. The next one lists what is there for longer
/// than a platform takes to show what it has accepted, and only then they go on.
pub fn dies_while_it_submits<P: Platform>(scene: &mut Scene<P>) {
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let n_lines = |scene: &Scene<P>, name: &str| {
        fs::read_to_string(scene.sandbox.path().join(name)).map_or(0, |text| text.lines().count())
    };
    until("both are asked for", || n_lines(scene, "asked") == 2);
    scene.kill_manager();
    scene.serve();
    let n_before = n_lines(scene, "listed");
    // What was accepted begins meanwhile, and may be over before there were so many listings.
    until("the platform was looked at again and again, or pilots are there", || {
        n_lines(scene, "listed") >= n_before + 3 || n_lines(scene, "executions") > 0
    });
    scene.sandbox.write("go", "");
    scene.until_executed(20);
}
