//! The user API as far as benchmarks need it.

use std::time::{Duration, Instant};

use protocol::{
    api::{AccessFile, PREFIX, SubmitRequest, Submitted, WorkflowRequest, WorkflowSubmitted},
    job::{CommandLine, JobSpec, WorkflowSpec},
    sweep::{Column, Dimension, IntegerRange, Values},
};
use scheduler::{engine::interface::views::JobView, ids::JobId};

use crate::{
    Trouble,
    http::{Call, Connection},
};

/// No benchmark's job takes longer.
const JOB_LIMIT: Duration = Duration::from_secs(120);

/// Speaks to one manager as its owner.
pub struct Api {
    connection: Connection,
}

impl Api {
    pub fn new(access: &AccessFile) -> Result<Api, Trouble> {
        Ok(Api { connection: Connection::new(&access.url, &access.token)? })
    }

    /// Submits a job; it is durable when this returns.
    pub async fn submit(&mut self, spec: &JobSpec) -> Result<JobId, Trouble> {
        let request = SubmitRequest { spec: spec.clone(), submission_key: None };
        let answer = self.call("POST", "/jobs", &serde_json::to_vec(&request)?).await?;
        Ok(serde_json::from_slice::<Submitted>(&answer)?.job)
    }

    /// Submits a workflow: its jobs, in the order of its stages, all durable.
    pub async fn submit_workflow(&mut self, workflow: &WorkflowSpec) -> Result<Vec<JobId>, Trouble> {
        let request = WorkflowRequest { workflow: workflow.clone(), submission_key: None };
        let answer = self.call("POST", "/workflows", &serde_json::to_vec(&request)?).await?;
        let submitted: WorkflowSubmitted = serde_json::from_slice(&answer)?;
        Ok(submitted.stages.into_iter().map(|stage| stage.job).collect())
    }

    /// Sets a layer's policy.
    pub async fn set_policy(&mut self, layer: &str, policy: &str) -> Result<(), Trouble> {
        let request = serde_json::json!({ "layer": layer, "policy": policy });
        self.call("POST", "/policies/set", &serde_json::to_vec(&request)?).await.map(drop)
    }

    /// One job.
    pub async fn job(&mut self, job: JobId) -> Result<JobView, Trouble> {
        let answer = self.call("GET", &format!("/jobs/{job}"), b"").await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Asks until the job is over; every task must have succeeded.
    pub async fn wait(&mut self, job: JobId, pause: Duration) -> Result<JobView, Trouble> {
        succeeded(self.until_over(job, pause).await?)
    }

    /// Asks until the job is over, however its tasks ended.
    pub async fn until_over(&mut self, job: JobId, pause: Duration) -> Result<JobView, Trouble> {
        let began = Instant::now();
        loop {
            let view = self.job(job).await?;
            if view.ended_at.is_some() {
                return Ok(view);
            }
            if began.elapsed() > JOB_LIMIT {
                return Err(format!("job {job} is not over after {JOB_LIMIT:?}: {:?}", view.counts).into());
            }
            if pause > Duration::ZERO {
                tokio::time::sleep(pause).await;
            }
        }
    }

    async fn call(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, Trouble> {
        let path = format!("{PREFIX}{path}");
        let call = Call { method, path: &path, content_type: "application/json" };
        self.connection.exchange(call, body).await
    }
}

fn succeeded(view: JobView) -> Result<JobView, Trouble> {
    match view.counts.done == view.counts.total {
        true => Ok(view),
        false => Err(format!("job {} is over with tasks that failed: {:?}", view.id, view.counts).into()),
    }
}

/// A sweep of `n_tasks` tasks of this program.
pub fn sweep(command: &[&str], n_tasks: u64) -> JobSpec {
    let command = CommandLine::Args(command.iter().map(|word| (*word).to_owned()).collect());
    let mut spec = JobSpec::new(command, std::env::temp_dir());
    let range = IntegerRange { from: 0, step: 1, n: n_tasks };
    let column = Column { name: "n".to_owned(), values: Values::Integers(vec![range]) };
    spec.sweep.dimensions = vec![Dimension { columns: vec![column] }];
    spec
}
