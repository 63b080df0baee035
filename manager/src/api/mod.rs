//! The HTTP API: pilots under `/pilot/v1`, users under `/api/v1`. Wire on one side, events and the
//! store's reader on the other; nothing is decided here.
//!
//! Reading order: [`serve`](self::serve()) (connections), `routes` (the table of the user API, from
//! which router and OpenAPI document are made), then one file a group of routes.

mod admission;
mod cache;
mod events;
pub(crate) mod files;
pub(crate) mod http;
mod jobs;
mod metrics;
mod openapi;
mod operators;
pub(crate) mod output;
mod pilots;
mod policies;
mod route;
mod routes;
mod show;
mod tasks;
#[cfg(test)]
mod tests;
mod users;

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::Router;
use protocol::job::JobSpec;
use scheduler::{
    engine::interface::{
        Answer, LeftThere, Query, Refusal,
        views::{CutOutputs, JobView},
    },
    ids::JobId,
    time::{Span, Time},
};
use tokio::sync::{Semaphore, mpsc, watch};

pub use http::listener::serve;

use crate::{
    api::{
        http::{counts::Counts, error::ApiError, extract::User, room::Room},
        output::live::Live,
        pilots::{
            places::Places,
            sessions::{Granted, NamedObjects},
            waits::Waits,
        },
    },
    budgets::{OutputQuotas, budget_of},
    config::Reload,
    engine_loop::handle::Handle,
    files::{objects::Objects, peers::Peers, stores::Stores},
    platforms::agent_file::AgentFile,
    quotas::CurrentQuotas,
    reserve::Reserve,
    security::tokens::Tokens,
    store::Reader,
};
use cache::{JobCache, JobFacts};

/// What the API needs of the manager.
pub struct ApiState {
    /// To the engine.
    pub handle: Handle,
    /// To the store.
    pub reader: Reader,
    /// Makes pilots' sessions, checks all tokens.
    pub tokens: Tokens,
    /// The manager's folder, for `status`.
    pub folder: PathBuf,
    /// When the manager started.
    pub started_at: Time,
    /// How long pulls may be parked: the engine's `poll_wait_max`.
    pub poll_wait: Span,
    /// How long a manager that ends waits for its platforms: the engine's `leave_limit`.
    pub leave_limit: Span,
    /// Bounds on what connections may do.
    pub limits: ConnectionLimits,
    /// Becomes true (or loses its sender) when the API is to end.
    pub stop: watch::Receiver<bool>,
    /// The configuration that can be read again, if there is one.
    pub config_file: Option<PathBuf>,
    /// To whoever reads it.
    pub reload: mpsc::Sender<Reload>,
    /// What servers of clouds fetch.
    pub agent: AgentFile,
    /// Files that were brought, and that tasks have left.
    pub objects: Objects,
    /// Stores that jobs may name.
    pub stores: Stores,
    /// What one user may take.
    pub quotas: CurrentQuotas,
    /// How much output of users is kept.
    pub outputs: OutputQuotas,
    /// Whether the disk is full.
    pub reserve: Reserve,
    /// What may be left on platforms when the manager ends, once that is known.
    pub left_there: watch::Receiver<Option<Vec<LeftThere>>>,
}

/// Bounds on what connections may do. `docs/limits.md` lists them for operators.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Open connections: beyond, strangers give way to newcomers. A pilot needs one or two.
    pub n_connections_max: usize,
    /// Event streams; each has news waiting for it.
    pub n_streams_max: usize,
    /// Until a TLS handshake is over.
    pub handshake: Duration,
    /// Until a request's header is there; also how long a connection may idle between requests.
    pub header: Duration,
    /// Until a request's body is there, when it is small; large ones must come at 32 KiB/s.
    pub body: Duration,
    /// How long writing may be held up by who reads; long answers must be taken at 32 KiB/s.
    pub answer: Duration,
    /// How long anybody waits for room in memory.
    pub patience: Duration,
    /// Bytes of large messages that are held at a time: so many of each kind (`Context`).
    /// No less than the largest message.
    pub room_bytes: usize,
    /// After the end was asked for: how long answers in flight have.
    pub farewell: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            n_connections_max: 16_384,
            n_streams_max: 1024,
            handshake: Duration::from_secs(10),
            header: Duration::from_secs(30),
            body: Duration::from_secs(30),
            answer: Duration::from_secs(30),
            patience: Duration::from_secs(10),
            room_bytes: 512 << 20,
            farewell: Duration::from_secs(5),
        }
    }
}

/// The API as a service without connections: for whoever brings requests of their own.
pub fn router(state: ApiState) -> Router {
    routes::router(Arc::new(Context::new(state)))
}

/// Stands in each spec that extracts no values from what tasks write.
const NO_EXTRACT: &str = "\"extract\":[]";

/// What every handler has.
struct Context {
    state: ApiState,
    jobs: JobCache,
    freed: http::parking::Freed,
    /// For bodies of users' requests, …
    from_users: Room,
    /// … pilots' messages, apart so that users cannot silence pilots, …
    from_pilots: Room,
    /// … pages for users, …
    to_users: Room,
    /// … what a task wrote, apart so that pages do not wait for who reads that slowly, …
    outputs: Room,
    /// … and answers to pilots.
    to_pilots: Room,
    /// Event streams that may still begin.
    streams: Arc<Semaphore>,
    /// What running tasks write, while somebody follows it.
    live: Live,
    /// For which files tasks wait.
    waits: Waits,
    /// Files by their contents.
    objects: Objects,
    /// For files on their way.
    transfers: Places,
    /// What users have under way.
    counts: Counts,
    /// Where pilots find each other.
    peers: Peers,
    /// What inputs of jobs hold, and
    named: NamedObjects,
    /// what pilots were told to take of what other tasks have left.
    granted: Granted,
}

type Shared = Arc<Context>;

impl Context {
    fn new(state: ApiState) -> Context {
        let ConnectionLimits { room_bytes, patience, n_streams_max, .. } = state.limits;
        let room = || Room::new(room_bytes, patience);
        // Of these one user has half at most.
        let room_of_users = || Room::new(2 * room_bytes, patience);
        Context {
            freed: http::parking::Freed::default(),
            live: Live::default(),
            waits: Waits::default(),
            objects: state.objects.clone(),
            transfers: Places::new(files::objects::N_TRANSFERS_MAX, patience),
            counts: Counts::default(),
            peers: Peers::default(),
            named: NamedObjects::default(),
            granted: Granted::default(),
            state,
            jobs: JobCache::default(),
            from_users: room_of_users(),
            from_pilots: room(),
            to_users: room_of_users(),
            outputs: room_of_users(),
            to_pilots: room(),
            streams: Arc::new(Semaphore::new(n_streams_max)),
        }
    }

    /// Asks the engine; a refusal is an error.
    async fn query(&self, query: Query) -> Result<Answer, ApiError> {
        match self
            .state
            .handle
            .ask(|request| scheduler::engine::interface::Event::Asked { request, query })
            .await?
        {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    /// A job, for anybody.
    async fn job(&self, id: JobId) -> Result<JobView, ApiError> {
        match self.query(Query::Job(id)).await? {
            Answer::Job(view) => Ok(*view),
            other => Err(ApiError::unexpected(&other)),
        }
    }

    /// A job, for its owner and operators: what it runs and what came out is nobody else's business.
    async fn own_job(&self, user: &User, id: JobId) -> Result<JobView, ApiError> {
        let view = self.job(id).await?;
        if !user.is_operator && view.user != user.name {
            return Err(Refusal::NotYours { job: id, owner: view.user, caller: user.name.clone() }.into());
        }
        Ok(view)
    }

    /// A job's spec as it was kept.
    async fn spec(&self, id: JobId) -> Result<Arc<str>, ApiError> {
        match self.query(Query::Spec(id)).await? {
            Answer::Spec(spec) => Ok(spec),
            other => Err(ApiError::unexpected(&other)),
        }
    }

    /// A job's spec, compiled. Kept for the jobs asked for last.
    async fn facts(&self, id: JobId) -> Result<Arc<JobFacts>, ApiError> {
        if let Some(facts) = self.jobs.find(id) {
            return Ok(facts);
        }
        let spec = self.spec(id).await?;
        let facts = blocking(move || {
            let parsed: JobSpec =
                serde_json::from_str(&spec).map_err(|e| ApiError::damaged(id, &e.to_string()))?;
            JobFacts::new(&parsed, spec.len()).map_err(|what| ApiError::damaged(id, &what))
        })
        .await?;
        Ok(self.jobs.keep(id, facts))
    }

    /// The job's budget for output, in bytes, if that is used up.
    async fn output_budget_spent(&self, id: JobId) -> Result<Option<u64>, ApiError> {
        let budget = budget_of(&self.spec(id).await?);
        let reader = self.state.reader.clone();
        let n_bytes = blocking(move || Ok(reader.output_bytes(id)?)).await?;
        Ok((n_bytes >= budget).then_some(budget))
    }

    /// Of how many tasks more was written than is kept, if there are any and values are extracted from that.
    async fn cut_outputs(&self, id: JobId) -> Result<Option<CutOutputs>, ApiError> {
        // Most jobs extract nothing, and need not be compiled.
        if self.spec(id).await?.contains(NO_EXTRACT) {
            return Ok(None);
        }
        let facts = self.facts(id).await?;
        let results = &facts.compiled.spec().results;
        if results.extract.is_empty() {
            return Ok(None);
        }
        let (reader, limit_bytes) = (self.state.reader.clone(), results.limit_bytes);
        let n_tasks = blocking(move || Ok(reader.cut_outputs(id, limit_bytes)?)).await?;
        Ok((n_tasks > 0).then_some(CutOutputs { n_tasks, limit_bytes }))
    }

    /// Says of a job whether output of it is kept.
    async fn tell_output(&self, view: &mut JobView) -> Result<(), ApiError> {
        view.cut_outputs = self.cut_outputs(view.id).await?;
        view.output_budget_spent = self.output_budget_spent(view.id).await?;
        view.output_quota_spent = self.output_quota_spent(&view.user);
        Ok(())
    }

    /// A user's quota of output, in bytes, if that is used up.
    fn output_quota_spent(&self, user: &str) -> Option<u64> {
        self.state.outputs.spent(user)
    }

    /// Ends when the API is to end.
    async fn stopped(&self) {
        let mut stop = self.state.stop.clone();
        // An error means that the sender is gone: the manager is, too.
        let _ = stop.wait_for(|is_over| *is_over).await;
    }
}

/// Runs what reads the store or takes long beside the loop that serves connections.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(ApiError::broken(&error)))
}
