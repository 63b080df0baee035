//! Every refusal of the API as a status, a word for programs and a sentence for people.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use protocol::{
    api::{ErrorAnswer, ErrorBody},
    codec::CodecError,
    job::Problem,
    text::ulimits::with_hint,
};
use scheduler::{
    engine::interface::{Answer, Refusal},
    ids::{JobId, TaskId},
    size::Size,
};
use serde::Serialize;

use crate::{
    engine_loop::handle::Ended,
    quotas::Kind,
    security::{tokens::NotTaken, users::Void},
    store::StoreError,
};

/// Why a request is refused.
#[derive(Debug)]
pub(in crate::api) struct ApiError {
    pub(in crate::api) status: StatusCode,
    pub(in crate::api) code: &'static str,
    pub(in crate::api) message: String,
    pub(in crate::api) problems: Vec<String>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into(), problems: Vec::new() }
    }

    pub(in crate::api) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    /// A job with mistakes, all of them.
    pub(in crate::api) fn bad_job(problems: &[Problem]) -> ApiError {
        let n = problems.len();
        let message = format!("found {n} problem{} in the job", if n == 1 { "" } else { "s" });
        let problems = problems.iter().map(Problem::to_string).collect();
        ApiError { problems, ..ApiError::bad_request(message) }
    }

    pub(in crate::api) fn unauthorized(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// A token that is not taken.
    pub(in crate::api) fn not_taken(why: &NotTaken) -> ApiError {
        match why {
            NotTaken::Unknown => ApiError::unauthorized(why.to_string()),
            NotTaken::Old { .. } => ApiError::new(StatusCode::UNAUTHORIZED, "void", why.to_string()),
            NotTaken::Void(void) => ApiError::void(void),
        }
    }

    /// A token that was taken once.
    pub(in crate::api) fn void(why: &Void) -> ApiError {
        let code = match why {
            Void::Revoked { .. } => "revoked",
            Void::Expired { .. } => "expired",
            Void::Era { .. } => "void",
        };
        ApiError::new(StatusCode::UNAUTHORIZED, code, why.to_string())
    }

    /// A user who could act as any other.
    pub(in crate::api) fn shared_account(message: String) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "shared-account", message)
    }

    /// Neither a user nor a token.
    pub(in crate::api) fn no_such_user(name: &str) -> ApiError {
        let message =
            format!("there is no user and no token `{name}`; `pilotfish user list --all` shows them");
        ApiError::new(StatusCode::NOT_FOUND, "no-such-user", message)
    }

    /// A file in the manager's folder.
    pub(in crate::api) fn not_written(file: &str, why: &str) -> ApiError {
        ApiError::internal(format!("failed to write the file `{file}` in the manager's folder: {why}"))
    }

    /// Nothing can be drawn.
    pub(in crate::api) fn no_random() -> ApiError {
        ApiError::internal("failed to draw a token: the system gives no random numbers".to_owned())
    }

    pub(in crate::api) fn not_operator(user: &str) -> ApiError {
        let message = format!("{user} is no operator; only an operator may do this");
        ApiError::new(StatusCode::FORBIDDEN, "not-yours", message)
    }

    /// A pilot asks of a task that somebody else has, or nobody yet.
    pub(in crate::api) fn not_held(task: TaskId) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "not-held", format!("this pilot does not hold task {task}"))
    }

    /// A pilot asks for what none of its tasks is about. `what`: what it does not have.
    pub(in crate::api) fn not_leased(what: &str) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "not-leased", format!("this pilot was leased {what}"))
    }

    /// A pilot asks before it has said what it holds.
    pub(in crate::api) fn not_in_step() -> ApiError {
        let message = "the manager does not know yet what this pilot holds; try again after its next pull";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not-in-step", message)
    }

    /// A file that a task needs has been left by nobody.
    pub(in crate::api) fn not_left(path: &str) -> ApiError {
        let message = format!("no task that it waited for has left {path}");
        ApiError::new(StatusCode::NOT_FOUND, "not-left", message)
    }

    /// No file matches the pattern.
    pub(in crate::api) fn none_left(pattern: &str) -> ApiError {
        let message = format!(
            "no task that it waited for has left a file like {pattern}; if it may begin without any, write `optional: true` \
             for that input"
        );
        ApiError::new(StatusCode::NOT_FOUND, "not-left", message)
    }

    /// Files of the pattern may be missing, as a task has failed.
    pub(in crate::api) fn left_in_part(pattern: &str, failed: TaskId) -> ApiError {
        let message = format!(
            "task {failed} failed or was cancelled, so files like {pattern} are missing; if it may begin with those that are \
             there, write `optional: true` for that input"
        );
        ApiError::new(StatusCode::NOT_FOUND, "not-left", message)
    }

    /// `why`: a sentence.
    pub(in crate::api) fn no_such_store(name: &str, why: &str) -> ApiError {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no-such-store",
            format!("there is no store `{name}` here: {why}"),
        )
    }

    /// Its files are not the manager's to bring.
    pub(in crate::api) fn no_host() -> ApiError {
        ApiError::bad_request("found a store that is reached by signed addresses; ask for one")
    }

    /// A store that does not answer as it should.
    pub(in crate::api) fn store_broken(message: String) -> ApiError {
        ApiError::new(StatusCode::BAD_GATEWAY, "store-broken", message)
    }

    pub(in crate::api) fn no_output(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "no-output", message)
    }

    pub(in crate::api) fn no_such_path(method: &str, path: &str) -> ApiError {
        let message = format!("there is no {method} {path}; /api/v1/openapi.json lists what there is");
        ApiError::new(StatusCode::NOT_FOUND, "no-such-path", message)
    }

    pub(in crate::api) fn wrong_method(method: &str, path: &str) -> ApiError {
        let message = format!("{path} takes no {method}; /api/v1/openapi.json lists what it takes");
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", message)
    }

    /// `what`: `API` or `pilot protocol`; `found`: the version asked for.
    pub(in crate::api) fn wrong_version(what: &str, found: &str, spoken: u32) -> ApiError {
        let message = format!(
            "found version {found} of the {what}, this manager ({}) speaks version {spoken}; use the same release on both sides",
            env!("CARGO_PKG_VERSION")
        );
        ApiError::new(StatusCode::UPGRADE_REQUIRED, "wrong-version", message)
    }

    pub(in crate::api) fn too_large(bytes_max: usize) -> ApiError {
        let message = format!("the body has more than {bytes_max} bytes, the most that is allowed here");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    pub(in crate::api) fn too_slow(n_bytes: usize) -> ApiError {
        let message = format!("got only {n_bytes} bytes of the body in time; send it faster");
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message)
    }

    pub(in crate::api) fn ending() -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "ending", "the manager is ending; try again later")
    }

    /// No place, or no memory, for what is asked.
    pub(in crate::api) fn crowded() -> ApiError {
        let message = "the manager has too much to do at this moment; try again in a few seconds";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "crowded", message)
    }

    /// A user has as much under way as one may. It ends by itself, so the same may go well a moment later.
    pub(in crate::api) fn too_many(user: &str, quota: &str, most: u64) -> ApiError {
        let message = format!(
            "{user} has {most} {quota} under way, as many as one user may (quotas.{quota} in manager.yaml); try again \
             when some of them have ended"
        );
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "quota", message)
    }

    /// A user would have more than one may. `(used, more)`: what the user has, and what is asked for beside it.
    pub(in crate::api) fn over_quota(
        user: &str,
        kind: Kind,
        (used, more): (u64, u64),
        most: u64,
    ) -> ApiError {
        let quota = kind.word();
        let (what, remedy) = match kind {
            Kind::Jobs => ("jobs that have not ended", "wait until some have ended, or cancel some"),
            Kind::Tasks => ("tasks that have not ended", "wait until some have ended, or cancel some"),
            Kind::Values => (
                "bytes of job descriptions, which stay in the manager's memory",
                "describe values by ranges and products instead of lists",
            ),
            Kind::Requests | Kind::Streams | Kind::Connections => {
                return ApiError::too_many(user, quota, most);
            }
        };
        let message = format!(
            "{user} has {used} {what}; {more} more exceed the {most} that one user may have: {remedy}, or ask an \
             operator for more (quotas.{quota} in manager.yaml)"
        );
        ApiError::new(StatusCode::FORBIDDEN, "quota", message)
    }

    /// A user has as many bytes of files as allowed.
    pub(in crate::api) fn over_files(user: &str, most: u64) -> ApiError {
        let message = format!(
            "{user} has files here of as many bytes as one user may have ({}): files for jobs that are over go by \
             themselves after a week; ask an operator for more (quotas.files in manager.yaml)",
            Size(most)
        );
        ApiError::new(StatusCode::FORBIDDEN, "quota", message)
    }

    /// Room is kept for records of what is there.
    pub(in crate::api) fn disk_full() -> ApiError {
        let message = "the manager's disk is nearly full: it takes no more jobs until there is room. What is there \
                       can be cancelled; ask an operator to make room";
        ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", message)
    }

    /// Values beside those of lists that may be long.
    pub(in crate::api) fn too_many_values(most: u64) -> ApiError {
        let message = format!(
            "the body has more than {most} values beside listed values of parameters and edges; describe the job by \
             ranges, products and stages"
        );
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    /// A kept job that cannot be read any more.
    pub(in crate::api) fn damaged(job: JobId, what: &str) -> ApiError {
        ApiError::internal(format!("failed to read the kept job {job}: {what}"))
    }

    /// Output that is not what was written.
    pub(in crate::api) fn damaged_output(task: TaskId) -> ApiError {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "damaged",
            format!("the output of task {task} is damaged in the store: a checksum is wrong"),
        )
    }

    /// The engine said something that answers another question.
    pub(in crate::api) fn unexpected(answer: &Answer) -> ApiError {
        let word = format!("{answer:?}");
        let word = word.split(['(', ' ', '{']).next().unwrap_or_default().to_owned();
        ApiError::internal(format!("the engine answered with {word}, which is no answer to this"))
    }

    /// Work that ended without a result.
    pub(in crate::api) fn broken(error: &dyn std::error::Error) -> ApiError {
        ApiError::internal(format!("failed to finish this request: {error}"))
    }

    fn internal(message: String) -> ApiError {
        let message = with_hint(message);
        tracing::error!(message, "request failed");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

/// A value as a JSON answer.
pub(in crate::api) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => (status, [(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
        // Only a type that JSON cannot hold comes here; `ErrorAnswer` is none.
        Err(error) => ApiError::broken(&error).into_response(),
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> ApiError {
        let (status, code) = match &refusal {
            Refusal::NoJob(_) => (StatusCode::NOT_FOUND, "no-such-job"),
            Refusal::NoTask(TaskId { .. }, _) => (StatusCode::NOT_FOUND, "no-such-task"),
            Refusal::NoPilot(_) => (StatusCode::NOT_FOUND, "no-such-pilot"),
            Refusal::Profiles { .. } => (StatusCode::CONFLICT, "in-use"),
            Refusal::Unfit(_) => (StatusCode::BAD_REQUEST, "bad-request"),
            Refusal::NoRoom(_) => (StatusCode::BAD_REQUEST, "bad-request"),
            Refusal::Rests(_) => (StatusCode::CONFLICT, "wrong-state"),
            Refusal::PoliciesChanged => (StatusCode::CONFLICT, "changed-meanwhile"),
            Refusal::NoProfile(_) => (StatusCode::NOT_FOUND, "no-such-profile"),
            Refusal::NoPlatform(_) => (StatusCode::NOT_FOUND, "no-such-platform"),
            Refusal::UnknownAllocation(_) => (StatusCode::NOT_FOUND, "no-such-allocation"),
            Refusal::AllocationOver(..) => (StatusCode::CONFLICT, "wrong-state"),
            Refusal::NoAllocation(_) => (StatusCode::NOT_FOUND, "no-such-allocation"),
            // Agents try both again: the one at once, by registering, the other for as long as it takes.
            Refusal::SessionEnded(_) => (StatusCode::UNAUTHORIZED, "session-ended"),
            Refusal::OtherLife(_) => (StatusCode::SERVICE_UNAVAILABLE, "other-life"),
            Refusal::StillThere { .. } => (StatusCode::TOO_EARLY, "still-there"),
            Refusal::JoinedBefore(_) => (StatusCode::FORBIDDEN, "joined-before"),
            Refusal::NotYours { .. } => (StatusCode::FORBIDDEN, "not-yours"),
            Refusal::InUse { .. } | Refusal::Detached(_) => (StatusCode::CONFLICT, "wrong-state"),
            Refusal::NeededBy { .. } => (StatusCode::CONFLICT, "in-use"),
            Refusal::KnownInPart(_) => (StatusCode::CONFLICT, "wrong-state"),
            Refusal::WrongState { .. } => (StatusCode::CONFLICT, "wrong-state"),
            Refusal::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "ending"),
        };
        ApiError::new(status, code, refusal.to_string())
    }
}

impl From<Ended> for ApiError {
    fn from(_: Ended) -> ApiError {
        ApiError::ending()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        ApiError::internal(error.to_string())
    }
}

impl From<CodecError> for ApiError {
    fn from(error: CodecError) -> ApiError {
        match error {
            CodecError::TooLong { most, .. } => ApiError::too_large(most),
            CodecError::Postcard { .. } | CodecError::Json { .. } => ApiError::bad_request(error.to_string()),
            CodecError::Write { .. } => ApiError::internal(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        tracing::debug!(status = self.status.as_u16(), code = self.code, message = self.message, "refused");
        let ApiError { status, code, message, problems } = self;
        let answer = ErrorAnswer { error: ErrorBody { code: code.to_owned(), message, problems } };
        let mut response = json(status, &answer);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
