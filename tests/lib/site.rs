//! A manager with pilots on this host and one sweep, which somebody watches from the beginning.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    Running, Sandbox,
    api::Api,
    pilots::{PilotProcesses, pilots},
    sweep::{Audit, Hit, Trace, audit, rows, write_job},
    until,
    witness::{Testimony, Witness},
};

/// Where everything of one test is.
pub struct Site {
    /// Its files and processes.
    pub sandbox: Sandbox,
    /// To ask the manager.
    pub api: Api,
    /// What has been executed.
    pub trace: Trace,
    /// What the manager is started with besides.
    pub environment: Vec<(String, String)>,
    /// How many tasks the sweep has.
    pub n_tasks: u64,
    folder: String,
    manager: Option<Running>,
    witness: Option<Witness>,
}

impl Site {
    /// A sandbox with a job of so many tasks and this `manager.yaml`; nothing runs yet. `folder`: the
    /// manager's, in the sandbox.
    pub fn new(folder: &str, n_tasks: u64, yaml: &str) -> Site {
        let sandbox = Sandbox::new();
        write_job(&sandbox, n_tasks);
        sandbox.write("manager.yaml", yaml);
        let (api, trace) = (Api::new(&sandbox.path().join(folder)), Trace::new(&sandbox));
        let folder = folder.to_owned();
        Site { sandbox, api, trace, environment: Vec::new(), n_tasks, folder, manager: None, witness: None }
    }

    /// Starts a manager, which answers when this returns.
    pub fn serve(&mut self) {
        let mut command = self.sandbox.command(&["serve", "-q", "--dir", &self.folder]);
        command.args(["--config", "manager.yaml"]).envs(self.environment.iter().cloned());
        let mut manager = self.sandbox.spawn("serve", command);
        let Site { trace, api, sandbox, .. } = self;
        trace.until("the manager answers", || {
            assert!(!manager.has_ended(), "the manager ended: {}", sandbox.read("serve.err"));
            api.get("/status").is_some()
        });
        self.manager = Some(manager);
    }

    /// Submits the job, the first one, and begins to watch it. `seed`: what is looked at when.
    pub fn submit(&mut self, seed: u64) {
        self.sandbox.ok(&["submit", "job.yaml", "--dir", &self.folder]);
        self.witness = Some(Witness::start(self.api.clone(), self.n_tasks, seed));
    }

    /// Waits until so many tasks have been executed.
    pub fn until_executed(&mut self, n: u64) {
        let mut trace = self.trace.clone();
        self.trace.until(&format!("{n} tasks have been executed"), || trace.count() >= n);
    }

    /// The manager's process.
    pub fn manager_pid(&self) -> u32 {
        self.manager.as_ref().expect("the manager was started").pid()
    }

    /// Ends the manager by `kill -9`.
    pub fn kill_manager(&mut self) {
        let manager = self.manager.take().expect("the manager was started");
        manager.signal(Signal::SIGKILL);
        manager.wait();
    }

    /// Waits for the manager's own end; gives its exit code and its last words.
    pub fn manager_ends(&mut self) -> (Option<i32>, String) {
        let code = self.manager.take().expect("the manager was started").wait();
        let said = self.sandbox.read("serve.err");
        (code, said.lines().last().unwrap_or("").to_owned())
    }

    /// Pilots as the manager shows them, those that have ended too.
    pub fn pilots(&mut self) -> Vec<Value> {
        let (mut views, api) = (Vec::new(), &self.api);
        self.trace.until("the manager shows its pilots", || {
            let answer = api.get("/pilots?ended=true");
            views = answer.and_then(|answer| answer["pilots"].as_array().cloned()).unwrap_or_default();
            !views.is_empty()
        });
        views
    }

    /// Waits until all tasks are done; none may fail.
    pub fn until_done(&mut self) {
        let (api, n_tasks) = (&self.api, self.n_tasks);
        self.trace.until("all is done", || is_done(api, n_tasks));
    }

    /// Pilots that are there, waited for; none where all is done before one comes.
    pub fn until_pilots(&mut self) -> Vec<PilotProcesses> {
        let (api, n_tasks, sandbox) = (&self.api, self.n_tasks, &self.sandbox);
        let mut found = Vec::new();
        self.trace.until("there is a pilot", || {
            found = pilots(sandbox);
            !found.is_empty() || is_done(api, n_tasks)
        });
        found
    }

    /// When all is done: checks the results against what was told and what was executed, stops the
    /// manager, and sees that nothing is left running.
    pub fn close(&mut self, hits: &[Hit]) -> (Audit, Testimony) {
        self.until_done();
        let rows = rows(&self.api, 1);
        let testimony = self.witness.take().expect("the job was submitted").stop().holds(&rows);
        let audit = audit(&self.sandbox, &rows, self.n_tasks, hits);
        self.sandbox.ok(&["stop", "--dir", &self.folder]);
        let manager = self.manager.take().expect("the manager was started");
        assert_eq!(manager.wait(), Some(0), "{}", self.sandbox.read("serve.err"));
        until("nothing is left running", || self.sandbox.processes().is_empty());
        (audit, testimony)
    }
}

/// Whether all tasks of the only job are done; none may fail.
fn is_done(api: &Api, n_tasks: u64) -> bool {
    let Some(job) = api.get("/jobs/1") else { return false };
    assert_eq!(job["counts"]["failed"], 0, "a task failed that should not: {job}");
    job["counts"]["done"] == n_tasks
}
