//! The table of the user API: one line a route, from which the router and the OpenAPI document are made.

use std::sync::OnceLock;

use axum::{
    Router,
    extract::{Path, Request, State},
    http::header,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing,
};
use protocol::{
    api::{
        self, Allocations, AllocationsQuery, CancelRequest, Changed, DeclareRequest, EventsQuery,
        Explanation, ForgetRequest, Jobs, LeftBehind, LeftQuery, LimitsRequest, Outputs, OutputsQuery,
        Pilots, PilotsQuery, Platforms, PoliciesAnswer, PolicyRequest, Profiles, ProfilingRequest,
        PurgeRequest, ReloadRequest, Reloaded, ShutDown, ShutdownRequest, Status, StreamEvent, SubmitRequest,
        Submitted, TaskDetail, TaskSelection, Tasks, TasksQuery, VersionInfo, WorkflowRequest,
        WorkflowSubmitted,
    },
    files::objects::{
        Files, FilesQuery, Missing, MissingRequest, PILOT_OBJECTS_PATH, PILOT_PACKS_PATH,
        PILOT_STORE_FILES_PATH, PILOT_STORES_PATH, PILOT_TASKS_PATH, PILOT_WAITS_PATH, PackRequest, Stored,
        Stores, Unpacked,
    },
    follow::{FollowQuery, Followed},
    job::{
        JobSpec,
        limits::{RESULT_LIMIT_BYTES_MAX, SPEC_BYTES_MAX},
    },
    peers::{HUNT_PATH, PEERS_PATH},
    pilot,
    users::{AddUserRequest, UserAdded, Users, UsersQuery},
};
use scheduler::engine::interface::views::{
    AllocationView, JobView, PlatformView, profile::ProfileView, weights::WeightsView,
};

use super::{
    Shared, events, jobs, metrics, openapi, operators, pilots, policies,
    route::{Answers, Route, get, json, post, schema_of},
    show, tasks, users,
};
use crate::api::jobs::workflows;
use crate::api::{
    files::{objects, stores},
    http::{error::ApiError, extract::User},
    output::{follow, outputs},
    pilots::{peers, taken, waits},
};
use crate::platforms::agent_file::AGENT_PATH;

/// What a page of rows takes while it is made: eight MiB of outputs or parameters, as JSON.
const PAGE_BYTES: usize = 64 << 20;
/// What a task wrote, both streams of it.
const OUTPUT_BYTES: usize = 2 * RESULT_LIMIT_BYTES_MAX as usize;

/// What may be large, and the memory set aside for it while it is made.
pub(super) const LARGE: [(&str, usize); 9] = [
    ("/jobs", PAGE_BYTES),
    ("/jobs/{id}/spec", SPEC_BYTES_MAX),
    ("/jobs/{id}/tasks", PAGE_BYTES),
    ("/jobs/{id}/outputs", PAGE_BYTES),
    ("/jobs/{id}/follow", PAGE_BYTES),
    ("/jobs/{id}/tasks/{index}/stdout", OUTPUT_BYTES),
    ("/jobs/{id}/tasks/{index}/stderr", OUTPUT_BYTES),
    ("/pilots", PAGE_BYTES),
    ("/allocations", PAGE_BYTES),
];

/// All routes, in the order of the document.
pub(super) fn routes() -> Vec<Route> {
    let mut all = routes_of_jobs();
    all.extend(routes_of_files());
    all.extend(routes_of_platforms());
    all.extend(routes_of_policies());
    all.extend(routes_of_users());
    all.extend(other_routes());
    all
}

fn routes_of_jobs() -> Vec<Route> {
    vec![
        get("/version", "Who answers.", json::<VersionInfo>(), show::version).open(),
        get("/openapi.json", "This document.", Answers::Document, document).open(),
        get("/status", "Totals and facts about the manager.", json::<Status>(), show::status),
        get(
            "/metrics",
            "Figures for monitoring, in the text format of Prometheus.",
            Answers::Text(metrics::MEDIA_TYPE),
            metrics::show,
        ),
        post("/jobs", "Keep a job. It is durable when this is answered.", json::<Submitted>(), jobs::submit)
            .body::<SubmitRequest>()
            .status("201"),
        post(
            "/workflows",
            "Keep several jobs, of which some wait for others: all or none. They are durable when this is answered.",
            json::<WorkflowSubmitted>(),
            workflows::submit,
        )
        .body::<WorkflowRequest>()
        .status("201"),
        get("/jobs", "All jobs, oldest first.", json::<Jobs>(), jobs::list),
        get("/jobs/{id}", "One job.", json::<JobView>(), jobs::show),
        get("/jobs/{id}/spec", "What the job runs, as it was kept.", json::<JobSpec>(), jobs::spec),
        post("/jobs/{id}/cancel", "Cancel all that is open, or some tasks.", json::<Changed>(), jobs::cancel)
            .body::<TaskSelection>(),
        post("/jobs/{id}/pause", "Begin nothing more of the job.", json::<Changed>(), jobs::pause),
        post("/jobs/{id}/resume", "Let a paused job go on.", json::<Changed>(), jobs::resume),
        post(
            "/jobs/{id}/retry",
            "Open failed tasks again, or some that failed or were cancelled.",
            json::<Changed>(),
            jobs::retry,
        )
        .body::<TaskSelection>(),
        post(
            "/jobs/{id}/purge",
            "Remove the job, which is over and which no other job needs, with what its tasks have left.",
            json::<Changed>(),
            jobs::purge,
        )
        .body::<PurgeRequest>(),
        get("/jobs/{id}/tasks", "A page of the job's tasks.", json::<Tasks>(), tasks::list)
            .query::<TasksQuery>(),
        get("/jobs/{id}/tasks/{index}", "One task with all its attempts.", json::<TaskDetail>(), tasks::show),
        get("/jobs/{id}/tasks/{index}/stdout", "What the task wrote.", Answers::Bytes, outputs::stdout),
        get(
            "/jobs/{id}/tasks/{index}/stderr",
            "What the task complained of.",
            Answers::Bytes,
            outputs::stderr,
        ),
        get("/jobs/{id}/outputs", "A page of what the job's tasks wrote.", json::<Outputs>(), outputs::list)
            .query::<OutputsQuery>(),
        get(
            "/jobs/{id}/follow",
            "What the job's tasks have written since, those that run too. Ask again and again.",
            json::<Followed>(),
            follow::follow,
        )
        .query::<FollowQuery>(),
    ]
}

fn routes_of_files() -> Vec<Route> {
    vec![
        post(
            "/objects/missing",
            "Which of these files the manager does not have, by what they hold. The others stay for a week.",
            json::<Missing>(),
            objects::missing,
        )
        .body::<MissingRequest>(),
        post(
            "/objects/pack",
            "Bring small files, at most 1000 of 64 KiB and 4 MiB together: of each its SHA-256 (32 bytes), its size (8 bytes, \
             the lowest first) and its contents. They are durable when this is answered.",
            json::<Unpacked>(),
            objects::put_pack,
        )
        .status("201"),
        post(
            "/objects/packed",
            "A pack, as for `/objects/pack`, of those of these files that are there and not larger than 64 KiB; 4 MiB at \
             most, the others are left out.",
            Answers::Bytes,
            objects::pack_for_user,
        )
        .body::<PackRequest>(),
        Route::new(
            "put",
            "/objects/{sha256}",
            "Bring a file, before a job that names it: the body is its contents. It is durable when this is answered.",
            json::<Stored>(),
            routing::put(objects::put),
        )
        .status("201"),
        get("/objects/{sha256}", "A file by what it holds.", Answers::Bytes, objects::get),
        get("/stores", "Stores that the user's jobs may name.", json::<Stores>(), stores::list),
        get("/jobs/{id}/files", "A page of files that the job's tasks have left.", json::<Files>(), objects::list)
            .query::<FilesQuery>(),
    ]
}

fn routes_of_platforms() -> Vec<Route> {
    vec![
        get("/pilots", "Pilots by number.", json::<Pilots>(), show::pilots).query::<PilotsQuery>(),
        get("/platforms", "Platforms as they were attached.", json::<Platforms>(), show::platforms),
        post(
            "/platforms/reload",
            "Read the configuration again: attach platforms that are new, take over limits of others. For operators.",
            json::<Reloaded>(),
            operators::reload,
        )
        .body::<ReloadRequest>(),
        post(
            "/platforms/{name}/pause",
            "Ask it for no more. For operators.",
            json::<PlatformView>(),
            operators::pause,
        ),
        post(
            "/platforms/{name}/resume",
            "Let a paused or drained platform go on. For operators.",
            json::<PlatformView>(),
            operators::resume,
        ),
        post(
            "/platforms/{name}/drain",
            "Ask it for no more, cancel what waits there, and let its pilots end. For operators.",
            json::<PlatformView>(),
            operators::drain,
        ),
        post(
            "/platforms/{name}/detach",
            "Ask it for nothing until it is attached again; refused while pilots are there. For operators.",
            json::<PlatformView>(),
            operators::detach,
        ),
        post(
            "/platforms/{name}/limits",
            "Set other limits, until a manager starts whose configuration says otherwise. For operators.",
            json::<PlatformView>(),
            operators::limits,
        )
        .body::<LimitsRequest>(),
        get("/allocations", "Allocations by number.", json::<Allocations>(), operators::allocations)
            .query::<AllocationsQuery>(),
        get("/allocations/{id}", "One allocation.", json::<AllocationView>(), operators::allocation),
        post(
            "/allocations/{id}/cancel",
            "Take an allocation back; its pilot ends what it runs first. For operators.",
            json::<AllocationView>(),
            operators::cancel,
        )
        .body::<CancelRequest>(),
    ]
}

fn routes_of_policies() -> Vec<Route> {
    vec![
        get(
            "/policies",
            "The policy of each layer, and what operators have set.",
            json::<PoliciesAnswer>(),
            policies::show,
        ),
        post(
            "/policies/set",
            "Another policy for a layer. What pilots hold they keep. For operators.",
            json::<PoliciesAnswer>(),
            policies::set,
        )
        .body::<PolicyRequest>(),
        get(
            "/weights",
            "Which share of each application's tasks is meant for which platform, and how that came about.",
            json::<WeightsView>(),
            show::weights,
        ),
        post(
            "/jobs/{id}/profile",
            "Run tasks of a job once more, as a new one, on a node that is nobody else's meanwhile.",
            json::<Submitted>(),
            jobs::profile,
        )
        .body::<ProfilingRequest>()
        .status("201"),
        get("/profiles", "What was learned of applications.", json::<Profiles>(), show::profiles),
        post(
            "/profiles/declare",
            "Say what an application is like, before it has run; answers with what is known of it then. For operators.",
            json::<Profiles>(),
            operators::declare,
        )
        .body::<DeclareRequest>(),
        post(
            "/profiles/reset",
            "Forget what was learned of an application; answers with what it was. For operators.",
            json::<ProfileView>(),
            operators::forget,
        )
        .body::<ForgetRequest>(),
    ]
}

fn routes_of_users() -> Vec<Route> {
    vec![
        get(
            "/users",
            "Who has access: tokens of users, all for operators, for others their own.",
            json::<Users>(),
            users::list,
        )
        .query::<UsersQuery>(),
        post("/users", "Make a token for a user. For operators.", json::<UserAdded>(), users::add)
            .body::<AddUserRequest>()
            .status("201"),
        post(
            "/users/{name}/revoke",
            "Revoke a token by its id, or all of a user; answers with those that were valid. Others' are for operators.",
            json::<Users>(),
            users::revoke,
        ),
    ]
}

fn other_routes() -> Vec<Route> {
    vec![
        get("/explain/job/{id}", "Why a job is where it is.", json::<Explanation>(), show::explain_job),
        get(
            "/explain/task/{id}/{index}",
            "Why a task is where it is.",
            json::<Explanation>(),
            show::explain_task,
        ),
        get(
            "/explain/pilot/{id}",
            "Why a pilot does what it does.",
            json::<Explanation>(),
            show::explain_pilot,
        ),
        get(
            "/explain/allocation/{id}",
            "Why an allocation is there.",
            json::<Explanation>(),
            show::explain_allocation,
        ),
        get(
            "/explain/weight/{name}",
            "Why an application's tasks are divided among platforms as they are.",
            json::<Explanation>(),
            show::explain_weight,
        ),
        get(
            "/explain/platform/{name}",
            "Why a platform has the pilots it has.",
            json::<Explanation>(),
            show::explain_platform,
        ),
        get(
            "/events",
            "News as server-sent events: jobs at the beginning and when they change, failures as they come.",
            Answers::Events(schema_of::<StreamEvent>),
            events::watch,
        )
        .query::<EventsQuery>(),
        get(
            "/shutdown",
            "What a manager that was shut down leaves on platforms, once that is known. For operators.",
            json::<LeftBehind>(),
            show::left,
        )
        .query::<LeftQuery>(),
        post(
            "/shutdown",
            "End the manager, pilots first. For operators. 202: pilots still end what they run.",
            json::<ShutDown>(),
            show::shutdown,
        )
        .body::<ShutdownRequest>(),
    ]
}

/// The whole router: users, pilots, and a refusal for everything else.
pub(super) fn router(context: Shared) -> Router {
    let mut router = Router::new()
        .route(pilot::REGISTER_PATH, routing::post(pilots::register))
        .route(pilot::PULL_PATH, routing::post(pilots::pull))
        .route(pilot::LEAVE_PATH, routing::post(pilots::leave))
        .route(pilot::TAILS_PATH, routing::post(pilots::tails))
        .route(PEERS_PATH, routing::post(peers::exchange))
        .route(HUNT_PATH, routing::post(peers::hunt))
        .route(
            &format!("{PILOT_OBJECTS_PATH}/{{sha256}}"),
            routing::put(objects::put_by_pilot).get(objects::get_by_pilot),
        )
        .route(PILOT_PACKS_PATH, routing::post(objects::pack_for_pilot).put(objects::put_pack_by_pilot))
        .route(PILOT_WAITS_PATH, routing::post(waits::take))
        .route(PILOT_STORES_PATH, routing::get(stores::way))
        .route(PILOT_STORE_FILES_PATH, routing::get(stores::read).put(stores::write))
        .route(&format!("{PILOT_TASKS_PATH}/{{job}}/{{index}}/inputs"), routing::get(taken::list))
        .route(&format!("{AGENT_PATH}/{{sha256}}"), routing::get(agent));
    for route in routes() {
        let mut handler = route.handler;
        if let Some((_, n_bytes)) =
            LARGE.into_iter().find(|(path, _)| (route.method, route.path) == ("get", *path))
        {
            let is_raw = matches!(route.answers, Answers::Bytes);
            let in_room = move |State(context): State<Shared>, user: User, request: Request, next: Next| async move {
                let room = if is_raw { &context.outputs } else { &context.to_users };
                room.of(Some(&user), context.state.limits.room_bytes).answer(n_bytes, request, next).await
            };
            handler = handler.layer(middleware::from_fn_with_state(context.clone(), in_room));
        }
        if !route.is_open {
            handler = handler.route_layer(middleware::from_fn_with_state(context.clone(), users::guarded));
        }
        router = router.route(&format!("{}{}", api::PREFIX, route.path), handler);
    }
    router.fallback(unknown_path).method_not_allowed_fallback(wrong_method).with_state(context)
}

/// What servers of clouds fetch before they are pilots; whoever knows its hash may have it.
async fn agent(State(context): State<Shared>, Path(sha256): Path<String>) -> Response {
    match context.state.agent.of_hash(&sha256).await {
        Some(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        None => ApiError::no_such_path("GET", &format!("{AGENT_PATH}/{sha256}")).into_response(),
    }
}

/// The OpenAPI document, made at the first call.
async fn document() -> Response {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| openapi::document(&routes())).as_str();
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

async fn unknown_path(request: Request) -> ApiError {
    let path = request.uri().path();
    let other_version = |prefix: &str, spoken: u32| {
        let found = path.strip_prefix(prefix)?.split('/').next()?;
        (found.parse() != Ok(spoken)).then(|| found.to_owned())
    };
    if let Some(found) = other_version("/api/v", api::VERSION) {
        return ApiError::wrong_version("API", &found, api::VERSION);
    }
    if let Some(found) = other_version("/pilot/v", pilot::VERSION) {
        return ApiError::wrong_version("pilot protocol", &found, pilot::VERSION);
    }
    ApiError::no_such_path(request.method().as_str(), path)
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::wrong_method(request.method().as_str(), request.uri().path())
}
