//! The way to a manager: its API as methods. Knows HTTP, TLS and the token; not what is asked for.

mod events;
pub mod retry;
mod upload;

use std::{
    collections::BTreeSet,
    fs::File,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use agent::sys::pin;
use reqwest::{Method, Request, RequestBuilder, Response, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};

use protocol::{
    api::{
        AccessFile, Allocations, CancelRequest, Changed, DeclareRequest, ErrorAnswer, ErrorBody, Explanation,
        ForgetRequest, Jobs, LeftBehind, LimitsRequest, Outputs, PREFIX, Pilots, Platforms, PoliciesAnswer,
        PolicyRequest, Profiles, ProfilingRequest, PurgeRequest, ReloadRequest, Reloaded, ShutDown,
        ShutdownRequest, Status, SubmitRequest, Submitted, TaskDetail, TaskSelection, Tasks, VersionInfo,
        WorkflowRequest, WorkflowSubmitted,
    },
    files::objects::{Files, Missing, MissingRequest, PackRequest, Stored, Stores, Unpacked},
    follow::{FollowQuery, Followed},
    job::JobSpec,
    users::{AddUserRequest, UserAdded, Users, UsersQuery},
};
use scheduler::{
    digest::Digest,
    engine::interface::{
        LeftThere, TaskFilter,
        declared_profile::Declared,
        views::{AllocationView, JobView, PlatformView, profile::ProfileView, weights::WeightsView},
    },
    ids::{AllocationId, JobId, TaskId},
};

pub use events::EventStream;

use crate::{
    access::{folders::show_path, last::LastJob},
    failure::Failure,
};

/// A manager on the same planet has answered by then or will not.
const CONNECT_TIME_LIMIT: Duration = Duration::from_secs(10);
/// Longer than any answer takes that is not meant to be waited for.
const ANSWER_TIME_LIMIT: Duration = Duration::from_secs(120);

/// Files of a page.
const N_FILES_A_PAGE: u64 = 10_000;

/// Why a manager gave no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there, or the connection broke.
    #[error("cannot reach the manager at {url}: {cause}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What happened, in one line.
        cause: String,
        /// Whether nobody listens there at all.
        is_refused: bool,
    },
    /// It said no.
    #[error("{}", .body.message)]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// What it said.
        body: ErrorBody,
    },
    /// It answered something else.
    #[error("the answer of {url} is not understood ({cause}); is it a manager of this version?")]
    NotUnderstood {
        /// Where it is.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl ClientError {
    /// Whether the same may go well a moment later, with a manager that restarts.
    pub fn is_passing(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } => true,
            // 429: the user has too much under way, which ends by itself.
            ClientError::Refused { status, .. } => matches!(status.as_u16(), 429 | 503),
            ClientError::NotUnderstood { .. } => false,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let ClientError::Refused { status, body } = &error else {
            return Failure::infrastructure(error.to_string());
        };
        match status.as_u16() {
            // It says which token it was, and why it is void.
            401 if body.code != "unauthorized" => Failure::infrastructure(body.message.clone()),
            401 => Failure::infrastructure(format!(
                "{}; the access file may be of an earlier manager: start it again, or name another with --dir",
                body.message
            )),
            426 | 500.. => Failure::infrastructure(body.message.clone()),
            _ if body.problems.is_empty() => Failure::bad_input(body.message.clone()),
            _ => Failure::BadInput(body.problems.clone()),
        }
    }
}

/// Which page of a job's tasks is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Only tasks in this state.
    pub state: TaskFilter,
    /// The first index to look at.
    pub from: u64,
    /// How many at most.
    pub limit: u64,
    /// Whether values extracted from outputs are wanted, which costs reading them.
    pub with_extracts: bool,
}

/// One of a task's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// The word for paths and headings.
    pub fn word(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }
}

/// Speaks to one manager. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    access: AccessFile,
    last: LastJob,
    token: Token,
}

/// The token with which one is let in, and where the next one is found: the owner's is replaced when it is revoked.
#[derive(Clone, Debug)]
struct Token {
    text: Arc<RwLock<String>>,
    file: Option<PathBuf>,
}

impl Token {
    fn text(&self) -> String {
        self.text.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the token that is in the file now, if it is another one than that of a request, and of the same manager.
    fn renew(&self, access: &AccessFile, request: &str) -> Option<String> {
        let bytes = std::fs::read(self.file.as_ref()?).ok()?;
        let found: AccessFile = serde_json::from_slice(&bytes).ok()?;
        let is_same = found.url == access.url && found.certificate_sha256 == access.certificate_sha256;
        let authorization = format!("Bearer {}", found.token);
        if !is_same || authorization == request {
            return None;
        }
        *self.text.write().unwrap_or_else(PoisonError::into_inner) = found.token;
        Some(authorization)
    }
}

impl Client {
    /// A client for the manager of this access file. Nothing is sent yet.
    ///
    /// # Errors
    /// Only when TLS cannot be set up.
    pub fn new(access: AccessFile) -> Result<Client, Failure> {
        let unusable = |cause: String| Failure::infrastructure(format!("TLS cannot be set up: {cause}"));
        // No certificate has a hash of zeros: without a pin none is trusted.
        let pin = match access.certificate_sha256.as_deref() {
            Some(hex) => pin::fingerprint(hex).ok_or_else(|| unusable(format!("{hex:?} is no SHA-256")))?,
            None => [0; 32],
        };
        let http = reqwest::Client::builder()
            // The token must not travel through a proxy of the environment, least of all to this host.
            .no_proxy()
            .tls_backend_preconfigured(pin::tls_config(pin))
            .connect_timeout(CONNECT_TIME_LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| unusable(error_chain(&error)))?;
        let token = Token { text: Arc::new(RwLock::new(access.token.clone())), file: None };
        Ok(Client { http, access, last: LastJob::default(), token })
    }

    /// The same client, which looks into its access file again when its token is void.
    #[must_use]
    pub fn with_file(self, file: PathBuf) -> Client {
        Client { token: Token { file: Some(file), ..self.token }, ..self }
    }

    /// The same client, with the job that `last` means.
    #[must_use]
    pub fn with_last(self, last: LastJob) -> Client {
        Client { last, ..self }
    }

    /// Which job `last` means.
    pub fn last(&self) -> LastJob {
        self.last
    }

    /// The manager's access file.
    pub fn access(&self) -> &AccessFile {
        &self.access
    }

    /// Who is there. Needs no token; gives up after `time_limit`.
    pub async fn version(&self, time_limit: Duration) -> Result<VersionInfo, ClientError> {
        self.send(self.request(Method::GET, "/version").timeout(time_limit)).await
    }

    /// Totals of everything.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.get("/status").await
    }

    /// Figures for monitoring, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let request = self.request(Method::GET, "/metrics").timeout(ANSWER_TIME_LIMIT);
        self.accepted(request).await?.text().await.map_err(|error| self.broken(&error))
    }

    /// All jobs, oldest first.
    pub async fn jobs(&self) -> Result<Vec<JobView>, ClientError> {
        Ok(self.get::<Jobs>("/jobs").await?.jobs)
    }

    /// One job.
    pub async fn job(&self, job: JobId) -> Result<JobView, ClientError> {
        self.get(&format!("/jobs/{job}")).await
    }

    /// A job as it was submitted.
    pub async fn spec(&self, job: JobId) -> Result<JobSpec, ClientError> {
        self.get(&format!("/jobs/{job}/spec")).await
    }

    /// Submits a job; the answer comes when it is durable.
    pub async fn submit(&self, request: &SubmitRequest) -> Result<Submitted, ClientError> {
        self.post("/jobs", request).await
    }

    /// Submits jobs of which some wait for others; the answer comes when all are durable.
    pub async fn submit_workflow(&self, request: &WorkflowRequest) -> Result<WorkflowSubmitted, ClientError> {
        self.post("/workflows", request).await
    }

    /// Changes a job: `cancel`, `pause`, `resume` or `retry`; all its tasks, or those written here.
    pub async fn change(
        &self,
        job: JobId,
        verb: &str,
        tasks: Option<String>,
    ) -> Result<Changed, ClientError> {
        self.post(&format!("/jobs/{job}/{verb}"), &TaskSelection { tasks }).await
    }

    /// Removes a job that is over, with those of these others that wait for it and for which it waits.
    pub async fn purge(&self, job: JobId, with: BTreeSet<JobId>) -> Result<Changed, ClientError> {
        self.post(&format!("/jobs/{job}/purge"), &PurgeRequest { with }).await
    }

    /// A page of a job's tasks.
    pub async fn tasks(&self, job: JobId, page: Page) -> Result<Tasks, ClientError> {
        let Page { state, from, limit, with_extracts } = page;
        let state = state_word(state);
        self.get(&format!(
            "/jobs/{job}/tasks?state={state}&from={from}&limit={limit}&parameters=true&extract={with_extracts}"
        ))
        .await
    }

    /// One task with all its attempts.
    pub async fn task(&self, task: TaskId) -> Result<TaskDetail, ClientError> {
        self.get(&format!("/jobs/{}/tasks/{}", task.job, task.index)).await
    }

    /// What a task wrote, byte for byte.
    pub async fn output(&self, task: TaskId, stream: OutputStream) -> Result<Vec<u8>, ClientError> {
        let path = format!("/jobs/{}/tasks/{}/{}", task.job, task.index, stream.word());
        let request = self.request(Method::GET, &path).timeout(ANSWER_TIME_LIMIT);
        let response = self.accepted(request).await?;
        Ok(response.bytes().await.map_err(|error| self.broken(&error))?.to_vec())
    }

    /// A page of what a job's tasks wrote.
    pub async fn outputs(&self, job: JobId, state: TaskFilter, from: u64) -> Result<Outputs, ClientError> {
        self.get(&format!("/jobs/{job}/outputs?state={}&from={from}", state_word(state))).await
    }

    /// What a job's tasks have written since.
    pub async fn follow(&self, job: JobId, query: &FollowQuery) -> Result<Followed, ClientError> {
        let FollowQuery { tasks, since, after } = query;
        let tasks = tasks.as_ref().map(|tasks| format!("&tasks={tasks}")).unwrap_or_default();
        self.get(&format!("/jobs/{job}/follow?since={since}&after={after}{tasks}")).await
    }

    /// Pilots; those that have ended only on request.
    pub async fn pilots(&self, with_ended: bool) -> Result<Pilots, ClientError> {
        self.get(&format!("/pilots?ended={with_ended}")).await
    }

    /// Platforms.
    pub async fn platforms(&self) -> Result<Platforms, ClientError> {
        self.get("/platforms").await
    }

    /// Wants something else of a platform: `pause`, `resume`, `drain` or `detach`.
    pub async fn change_platform(&self, name: &str, verb: &str) -> Result<PlatformView, ClientError> {
        self.post(&format!("/platforms/{name}/{verb}"), &()).await
    }

    /// The policies and their history.
    pub async fn policies(&self) -> Result<PoliciesAnswer, ClientError> {
        self.get("/policies").await
    }

    /// Sets the policy of a layer.
    pub async fn set_policy(&self, layer: &str, policy: &str) -> Result<PoliciesAnswer, ClientError> {
        let request = PolicyRequest { layer: layer.to_owned(), policy: policy.to_owned() };
        self.post("/policies/set", &request).await
    }

    /// Who has access; with those who had.
    pub async fn users(&self, query: &UsersQuery) -> Result<Users, ClientError> {
        self.get(&format!("/users?all={}&quotas={}", query.all, query.quotas)).await
    }

    /// Has a token made for a user.
    pub async fn add_user(&self, request: &AddUserRequest) -> Result<UserAdded, ClientError> {
        self.post("/users", request).await
    }

    /// Revokes a token by its id, or all of a user; gives those that were not revoked before. `name` must be one that
    /// [`protocol::users::check_name`] takes, or an id.
    pub async fn revoke(&self, name: &str) -> Result<Users, ClientError> {
        self.post(&format!("/users/{name}/revoke"), &()).await
    }

    /// Stores that one's jobs may name.
    pub async fn stores(&self) -> Result<Stores, ClientError> {
        self.get("/stores").await
    }

    /// The weights and their history.
    pub async fn weights(&self) -> Result<WeightsView, ClientError> {
        self.get("/weights").await
    }

    /// Says what an application is like, or takes it back; gives what is known of it then.
    pub async fn declare(
        &self,
        application: &str,
        declared: Option<Declared>,
    ) -> Result<Profiles, ClientError> {
        self.post("/profiles/declare", &DeclareRequest { application: application.to_owned(), declared })
            .await
    }

    /// Runs tasks of a job once more, on a node that is nobody else's meanwhile.
    pub async fn profile(&self, job: JobId, request: &ProfilingRequest) -> Result<Submitted, ClientError> {
        self.post(&format!("/jobs/{job}/profile"), request).await
    }

    /// What was learned of applications.
    pub async fn profiles(&self) -> Result<Profiles, ClientError> {
        self.get("/profiles").await
    }

    /// Has what was learned of an application forgotten; gives what it was.
    pub async fn forget(&self, application: &str) -> Result<ProfileView, ClientError> {
        self.post("/profiles/reset", &ForgetRequest { application: application.to_owned() }).await
    }

    /// Has it read its configuration again, if that is this file.
    pub async fn reload(&self, config: Option<String>) -> Result<Reloaded, ClientError> {
        self.post("/platforms/reload", &ReloadRequest { config }).await
    }

    /// Sets limits of a platform.
    pub async fn limit_platform(
        &self,
        name: &str,
        limits: &LimitsRequest,
    ) -> Result<PlatformView, ClientError> {
        self.post(&format!("/platforms/{name}/limits"), limits).await
    }

    /// Allocations; those that have ended only on request.
    pub async fn allocations(&self, with_ended: bool) -> Result<Allocations, ClientError> {
        self.get(&format!("/allocations?ended={with_ended}")).await
    }

    /// One allocation.
    pub async fn allocation(&self, id: AllocationId) -> Result<AllocationView, ClientError> {
        self.get(&format!("/allocations/{id}")).await
    }

    /// Takes an allocation back; `now`: without waiting for what its pilot runs.
    pub async fn cancel_allocation(
        &self,
        id: AllocationId,
        now: bool,
    ) -> Result<AllocationView, ClientError> {
        self.post(&format!("/allocations/{id}/cancel"), &CancelRequest { now }).await
    }

    /// Why something is as it is: `job/3`, `task/3/7`, `pilot/1`, `platform/local`.
    pub async fn explain(&self, what: &str) -> Result<Explanation, ClientError> {
        self.get(&format!("/explain/{what}")).await
    }

    /// Ends the manager and its pilots; returns when they are gone, however long that takes. The manager then waits for
    /// its platforms for so long at most, as far as it says so.
    pub async fn shut_down(&self, now: bool) -> Result<Duration, ClientError> {
        loop {
            let answer: ShutDown = self.post("/shutdown", &ShutdownRequest { now }).await?;
            if answer.is_over {
                return Ok(Duration::try_from_secs_f64(answer.leave_limit_seconds).unwrap_or_default());
            }
        }
    }

    /// Asks a manager that ends what it leaves on platforms, and waits until it knows. Returns nothing if it does not answer:
    /// an earlier manager has no such route.
    pub async fn left_there(&self) -> Vec<LeftThere> {
        loop {
            match self.get::<LeftBehind>("/shutdown?wait_seconds=20").await {
                Ok(answer) if answer.is_known => return answer.left,
                Ok(_) => {}
                Err(_) => return Vec::new(),
            }
        }
    }

    /// Which of these files the manager does not have.
    pub async fn missing_objects(&self, sha256: &[Digest]) -> Result<Vec<Digest>, ClientError> {
        let request = MissingRequest { sha256: sha256.to_vec() };
        Ok(self.post::<Missing>("/objects/missing", &request).await?.sha256)
    }

    /// Brings a file; it is kept when this has returned.
    pub async fn put_object(&self, sha256: &Digest, file: File, n_bytes: u64) -> Result<(), ClientError> {
        let request = self.request(Method::PUT, &format!("/objects/{sha256}"));
        let request = request.header(header::CONTENT_LENGTH, n_bytes).body(upload::pieces(file));
        self.send::<Stored>(request).await.map(drop)
    }

    /// Brings a pack of small files; they are kept when this has returned.
    pub async fn put_pack(&self, pack: Vec<u8>) -> Result<(), ClientError> {
        let request = self.request(Method::POST, "/objects/pack").timeout(ANSWER_TIME_LIMIT).body(pack);
        self.send::<Unpacked>(request).await.map(drop)
    }

    /// A pack of those of these small files that are there. A manager of before December 2026 refuses it.
    pub async fn pack(&self, sha256: &[Digest]) -> Result<Vec<u8>, ClientError> {
        let wanted = PackRequest { sha256: sha256.to_vec() };
        let request = self.request(Method::POST, "/objects/packed").timeout(ANSWER_TIME_LIMIT).json(&wanted);
        let response = self.accepted(request).await?;
        Ok(response.bytes().await.map_err(|error| self.broken(&error))?.to_vec())
    }

    /// A file, to be read piece by piece.
    pub async fn object(&self, sha256: &Digest) -> Result<Response, ClientError> {
        self.accepted(self.request(Method::GET, &format!("/objects/{sha256}"))).await
    }

    /// What happened to an answer that was being read.
    pub fn cut_off(&self, error: &reqwest::Error) -> ClientError {
        self.broken(error)
    }

    /// A page of files that a job's tasks have left, or one of them.
    pub async fn files(
        &self,
        job: JobId,
        task: Option<u64>,
        after: Option<u64>,
    ) -> Result<Files, ClientError> {
        let task = task.map(|task| format!("&task={task}")).unwrap_or_default();
        let after = after.unwrap_or(0);
        self.get(&format!("/jobs/{job}/files?after={after}&limit={N_FILES_A_PAGE}{task}")).await
    }

    /// News of a job from now on, its present state first.
    pub async fn events(&self, job: JobId) -> Result<EventStream, ClientError> {
        self.news(&format!("/events?job={job}")).await
    }

    /// News of all jobs from now on, first the present state of those that are not over.
    pub async fn all_events(&self) -> Result<EventStream, ClientError> {
        self.news("/events").await
    }

    async fn news(&self, path: &str) -> Result<EventStream, ClientError> {
        let response = self.accepted(self.request(Method::GET, path)).await?;
        Ok(EventStream::new(response, self.access.url.clone()))
    }

    /// Whom the manager takes us for.
    pub fn user(&self) -> &str {
        &self.access.user
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send(self.request(Method::GET, path).timeout(ANSWER_TIME_LIMIT)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.send(self.request(Method::POST, path).timeout(ANSWER_TIME_LIMIT).json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{PREFIX}{path}", self.access.url)).bearer_auth(self.token.text())
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.accepted(request).await?;
        let bytes = response.bytes().await.map_err(|error| self.broken(&error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.not_understood(error.to_string()))
    }

    /// The response, when the manager did not refuse. A token that is void meanwhile is replaced by that of the access file.
    async fn accepted(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        // A body that is streamed cannot be sent again.
        let again = request.try_clone();
        let sent = request.build().map_err(|error| self.broken(&error))?;
        let used = sent.headers().get(header::AUTHORIZATION).cloned();
        let answer = self.answer(sent).await;
        let is_void = matches!(&answer, Err(ClientError::Refused { status, .. }) if status.as_u16() == 401);
        let Some(again) = again.filter(|_| is_void) else { return answer };
        let used = used.as_ref().and_then(|used| used.to_str().ok()).unwrap_or_default();
        let Some(authorization) = self.token.renew(&self.access, used) else { return answer };
        let Ok(value) = header::HeaderValue::try_from(authorization) else { return answer };
        let mut again = again.build().map_err(|error| self.broken(&error))?;
        again.headers_mut().insert(header::AUTHORIZATION, value);
        self.answer(again).await
    }

    async fn answer(&self, request: Request) -> Result<Response, ClientError> {
        let response = self.http.execute(request).await.map_err(|error| self.broken(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = response.bytes().await.map_err(|error| self.broken(&error))?;
        match serde_json::from_slice::<ErrorAnswer>(&bytes) {
            Ok(ErrorAnswer { error: mut body }) => {
                // A user's way to a manager may have been chosen by an earlier command, and is named.
                let file =
                    self.token.file.as_ref().filter(|_| status.as_u16() == 401 && self.access.pid == 0);
                if let Some(file) = file {
                    body.message = format!("{} (the access file is {})", body.message, show_path(file));
                }
                Err(ClientError::Refused { status, body })
            }
            Err(_) => Err(self.not_understood(format!("HTTP status {status}"))),
        }
    }

    fn broken(&self, error: &reqwest::Error) -> ClientError {
        let cause = error_chain(error);
        let is_refused = error.is_connect() && cause.to_lowercase().contains("connection refused");
        ClientError::Unreachable { url: self.access.url.clone(), cause, is_refused }
    }

    fn not_understood(&self, cause: String) -> ClientError {
        ClientError::NotUnderstood { url: self.access.url.clone(), cause }
    }
}

/// The word of a state in paths.
pub fn state_word(state: TaskFilter) -> &'static str {
    match state {
        TaskFilter::All => "all",
        TaskFilter::Waiting => "waiting",
        TaskFilter::Queued => "queued",
        TaskFilter::Running => "running",
        TaskFilter::Done => "done",
        TaskFilter::Failed => "failed",
        TaskFilter::Cancelled => "cancelled",
    }
}

/// The innermost cause, which is the one that says something.
fn error_chain(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    if text.contains("ApplicationVerificationFailure") || text.contains("it shows the certificate") {
        return "its certificate is not the one of the access file".to_owned();
    }
    if text.contains("close_notify") || text.contains("connection closed") {
        return "the connection broke".to_owned();
    }
    if text.contains("InvalidContentType") {
        return "it does not speak TLS, which the access file says".to_owned();
    }
    if text.contains("invalid HTTP version") {
        return "it does not speak HTTP; is it TLS, and the access file of an earlier manager?".to_owned();
    }
    match text.find(" (os error ") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}
