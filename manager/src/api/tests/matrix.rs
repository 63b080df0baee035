//! Who may do what: each route of the API for each kind of caller. A route without a line here fails the test. The API
//! is the same for `run`, for a manager of one person and for one of several, wherever pilots are.

use std::collections::BTreeSet;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use protocol::{
    api::PREFIX,
    codec::Format,
    files::{
        objects::{
            PILOT_OBJECTS_PATH, PILOT_PACKS_PATH, PILOT_STORE_FILES_PATH, PILOT_STORES_PATH,
            PILOT_TASKS_PATH, PILOT_WAITS_PATH,
        },
        pack,
    },
    peers::{HUNT_PATH, PEERS_PATH},
    pilot::{LEAVE_PATH, LeaveAnswer, LeaveRequest, PULL_PATH, REGISTER_PATH, TAILS_PATH},
};
use scheduler::{ids::PilotId, pull::LeaveReason};
use serde_json::{Value, json};

use super::{
    super::routes::routes,
    scene::{Reply, Scene, echo},
};

/// The digest of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

/// A route for each who may call it: the statuses for another user than the job's owner, for the owner, and after
/// that for an operator. Everybody else gets 401, where the route is not open.
struct Row {
    method: &'static str,
    path: &'static str,
    body: Vec<u8>,
    statuses: [u16; 3],
}

const ALL: [u16; 3] = [200; 3];
const OWN: [u16; 3] = [403, 200, 200];
const OPERATORS: [u16; 3] = [403, 403, 200];

fn row(method: &'static str, path: &'static str, body: impl Into<Vec<u8>>, statuses: [u16; 3]) -> Row {
    Row { method, path, body: body.into(), statuses }
}

fn get(path: &'static str, statuses: [u16; 3]) -> Row {
    row("get", path, "", statuses)
}

fn post(path: &'static str, body: Value, statuses: [u16; 3]) -> Row {
    row("post", path, body.to_string(), statuses)
}

fn rows() -> Vec<Row> {
    let mut rows = rows_of_jobs();
    rows.extend(rows_of_files());
    rows.extend(rows_for_operators());
    rows.extend(other_rows());
    rows
}

fn rows_of_jobs() -> Vec<Row> {
    let stages = json!([{"name": "one", "job": echo(3)}]);
    vec![
        post("/jobs", json!({"spec": echo(3)}), [201; 3]),
        post("/workflows", json!({"workflow": {"name": "flow", "stages": stages}}), [201; 3]),
        get("/jobs", ALL),
        // How far everybody's jobs are is told to all, what they run and write to their owners.
        get("/jobs/{id}", ALL),
        get("/jobs/{id}/spec", OWN),
        get("/jobs/{id}/tasks", OWN),
        get("/jobs/{id}/tasks/{index}", OWN),
        get("/jobs/{id}/tasks/{index}/stdout", [403, 404, 404]),
        get("/jobs/{id}/tasks/{index}/stderr", [403, 404, 404]),
        get("/jobs/{id}/outputs", OWN),
        get("/jobs/{id}/follow", OWN),
        get("/jobs/{id}/files", OWN),
        post("/jobs/{id}/pause", json!({}), OWN),
        post("/jobs/{id}/resume", json!({}), OWN),
        post("/jobs/{id}/cancel", json!({"tasks": "1"}), OWN),
        post("/jobs/{id}/retry", json!({"tasks": "1"}), OWN),
        // It is not over.
        post("/jobs/{id}/purge", json!({}), [403, 409, 409]),
        // One at a time.
        post("/jobs/{id}/profile", json!({"platform": "cluster", "slots": 1, "tasks": 1}), [403, 201, 409]),
        get("/explain/job/{id}", OWN),
        get("/explain/task/{id}/{index}", OWN),
        get("/events", ALL),
    ]
}

fn rows_of_files() -> Vec<Row> {
    let mut packed = Vec::new();
    pack::push(&mut packed, &HELLO.parse().unwrap(), b"hello");
    vec![
        post("/objects/missing", json!({"sha256": [HELLO]}), ALL),
        row("post", "/objects/pack", packed, [201; 3]),
        post("/objects/packed", json!({"sha256": [HELLO]}), ALL),
        row("put", "/objects/{sha256}", "hello", [201, 200, 200]),
        get("/objects/{sha256}", [404; 3]),
        get("/stores", ALL),
    ]
}

fn rows_for_operators() -> Vec<Row> {
    let declared = json!({"application": "sh", "declared": {
        "job_type": "io-bound", "cpu_share": 0.5, "times": {"cluster": 9}, "counts_as": 7, "source": "x",
    }});
    vec![
        // There is no configuration to be read.
        post("/platforms/reload", json!({}), [403, 403, 400]),
        post("/platforms/{name}/pause", json!({}), OPERATORS),
        post("/platforms/{name}/resume", json!({}), OPERATORS),
        post("/platforms/{name}/drain", json!({}), OPERATORS),
        // Its pilot is there.
        post("/platforms/{name}/detach", json!({}), [403, 403, 409]),
        post("/platforms/{name}/limits", json!({"pilots_max": 3}), OPERATORS),
        post("/allocations/{id}/cancel", json!({}), OPERATORS),
        post("/policies/set", json!({"layer": "matching", "policy": "fifo"}), OPERATORS),
        post("/profiles/declare", declared, OPERATORS),
        // Nothing is known of it.
        post("/profiles/reset", json!({"application": "sh"}), [403, 403, 404]),
        post("/users", json!({"user": "eve"}), [403, 403, 201]),
        get("/shutdown", OPERATORS),
        post("/shutdown", json!({"now": true}), OPERATORS),
    ]
}

fn other_rows() -> Vec<Row> {
    vec![
        get("/version", ALL),
        get("/openapi.json", ALL),
        get("/status", ALL),
        get("/metrics", ALL),
        get("/pilots", ALL),
        get("/platforms", ALL),
        get("/allocations", ALL),
        get("/allocations/{id}", ALL),
        get("/policies", ALL),
        get("/weights", ALL),
        get("/profiles", ALL),
        get("/explain/pilot/{id}", ALL),
        get("/explain/allocation/{id}", ALL),
        get("/explain/platform/{name}", ALL),
        get("/explain/weight/{name}", ALL),
        // Each sees their own.
        get("/users", ALL),
        // Of the owner, whose own they are.
        post("/users/{name}/revoke", json!({}), [403, 200, 200]),
    ]
}

/// What is not understood where something is: as path, query and body.
const NONSENSE_QUERY: &str =
    "from=x&limit=-1&all=maybe&state=none&since=x&after=x&tasks=x&ended=7&way=7&job=x";
const NONSENSE_BODY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff{\"now\": ";

/// Requests of a route that cannot be understood: its path without the variable parts that it wants, with a query and
/// with a body that are nonsense.
fn nonsense(path: &str) -> [(String, &'static [u8]); 3] {
    let other = path.split('/').map(|part| if part.starts_with('{') { "%FFx" } else { part });
    let other = other.collect::<Vec<_>>().join("/");
    let path = concrete(path);
    [(other, b""), (format!("{path}?{NONSENSE_QUERY}"), b""), (path, NONSENSE_BODY)]
}

/// The path in a scene: job, pilot and allocation 1, on the platform `cluster`.
fn concrete(path: &str) -> String {
    let name = match path {
        path if path.starts_with("/users") => "ann",
        path if path.contains("weight") => "echo",
        _ => "cluster",
    };
    let path = path.replace("{id}", "1").replace("{index}", "0").replace("{sha256}", HELLO);
    path.replace("{name}", name)
}

/// Status and word of an answer; of streams only the beginning is waited for.
async fn called(scene: &Scene, method: &str, path: &str, token: Option<&str>, body: &[u8]) -> (u16, String) {
    let mut request =
        Request::builder().method(method.to_uppercase().as_str()).uri(path).header("host", "here");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = scene.open(request.body(Body::from(body.to_vec())).unwrap()).await;
    let status = response.status().as_u16();
    if status < 400 {
        return (status, String::new());
    }
    let said = response.into_body().collect().await.unwrap().to_bytes();
    let said: Value = serde_json::from_slice(&said).unwrap_or_default();
    (status, said["error"]["code"].as_str().unwrap_or("no code").to_owned())
}

/// A scene with a job of ann's, and who is not let in, with the word that tells why; then those who are.
struct Cast {
    scene: Scene,
    strangers: Vec<(&'static str, Option<String>, &'static str)>,
    users: [(&'static str, String); 3],
}

impl Cast {
    async fn new(with_pilot: bool) -> Cast {
        let mut scene = Scene::start().await;
        let add = async |scene: &Scene, body: Value| {
            let olga = scene.user("olga", true);
            let said = scene.call("POST", "/api/v1/users", &olga, body.to_string()).await.json();
            said["token"].as_str().unwrap().to_owned()
        };
        let ann = add(&scene, json!({"user": "ann"})).await;
        let gone = add(&scene, json!({"user": "gone", "is_operator": true})).await;
        let expired = add(&scene, json!({"user": "late", "is_operator": true, "expires_in": 1})).await;
        let olga = scene.user("olga", true);
        let revoked = scene.call("POST", "/api/v1/users/gone/revoke", &olga, Body::empty()).await;
        assert_eq!(revoked.status, 200);
        let job = scene.call("POST", "/api/v1/jobs", &ann, json!({"spec": echo(3)}).to_string()).await;
        assert_eq!(job.json()["job"], 1);
        let mut session = scene.tokens.session(PilotId(1), 7);
        let mut tag = "tag".to_owned();
        if with_pilot {
            let pilot = scene.pilot().await;
            (session, tag) = (pilot.session, pilot.tag);
        }
        let join = scene.tokens.join(&tag);
        let strangers = vec![
            ("nobody", None, "unauthorized"),
            ("a guess", Some(format!("{}{}", &ann[..17], "A".repeat(43))), "unauthorized"),
            ("a revoked operator", Some(gone), "revoked"),
            ("an expired operator", Some(expired), "expired"),
            ("a join token", Some(join), "unauthorized"),
            ("a pilot's session", Some(session), "unauthorized"),
        ];
        let users = [("another user", scene.user("bob", false)), ("the owner", ann), ("an operator", olga)];
        Cast { scene, strangers, users }
    }
}

#[tokio::test]
async fn each_route_is_for_whom_it_is_meant() {
    let rows = rows();
    let of = |method: &str, path: &str| format!("{method} {path}");
    let listed: BTreeSet<String> = rows.iter().map(|row| of(row.method, row.path)).collect();
    let there: BTreeSet<String> = routes().iter().map(|route| of(route.method, route.path)).collect();
    assert_eq!(listed, there, "each route has a line in this table");
    assert_eq!(listed.len(), rows.len(), "and one only");

    let mut wrong = Vec::new();
    // Where nothing is changed one scene does for all.
    let shared = Cast::new(true).await;
    for row in rows {
        let own = match row.method {
            "get" => None,
            _ => Some(Cast::new(row.path != "/shutdown").await),
        };
        let Cast { scene, strangers, users } = own.as_ref().unwrap_or(&shared);
        let path = format!("{PREFIX}{}", concrete(row.path));
        let is_open = ["/version", "/openapi.json"].contains(&row.path);
        for (who, token, word) in strangers {
            let found = called(scene, row.method, &path, token.as_deref(), &row.body).await;
            let expected = if is_open { (200, String::new()) } else { (401, (*word).to_owned()) };
            if found != expected {
                wrong.push(format!("{} {} by {who}: {found:?}, not {expected:?}", row.method, row.path));
            }
        }
        for ((who, token), expected) in users.iter().zip(row.statuses) {
            let (status, word) = called(scene, row.method, &path, Some(token), &row.body).await;
            if status != expected || (status == 403 && word != "not-yours") {
                wrong.push(format!("{} {} by {who}: {status} {word}, not {expected}", row.method, row.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Who is refused hears so before anything else of the request is looked at.
#[tokio::test]
async fn a_stranger_with_a_request_that_is_nonsense_is_a_stranger_first() {
    let Cast { scene, strangers, users } = &Cast::new(true).await;
    let (mut wrong, mut n_not_understood) = (Vec::new(), 0);
    for row in rows().iter().filter(|row| !["/version", "/openapi.json"].contains(&row.path)) {
        for (path, body) in nonsense(row.path) {
            let path = format!("{PREFIX}{path}");
            for (who, token, word) in strangers {
                let found = called(scene, row.method, &path, token.as_deref(), body).await;
                if found != (401, (*word).to_owned()) {
                    wrong.push(format!("{} {path} by {who}: {found:?}", row.method));
                }
            }
            // That it is nonsense is seen by who is let in. Of these some do what they say, whatever the query says.
            if row.method == "get" {
                let (status, _) = called(scene, row.method, &path, Some(&users[2].1), body).await;
                n_not_understood += usize::from(status == 400);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_not_understood >= 15, "{n_not_understood} requests were nonsense");
}

/// The routes of pilots, as the router has them.
fn pilot_routes() -> [(&'static str, String); 15] {
    let (object, task) =
        (format!("{PILOT_OBJECTS_PATH}/{{sha256}}"), format!("{PILOT_TASKS_PATH}/{{id}}/{{index}}/inputs"));
    let of = str::to_owned;
    [
        ("post", of(REGISTER_PATH)),
        ("post", of(PULL_PATH)),
        ("post", of(LEAVE_PATH)),
        ("post", of(TAILS_PATH)),
        ("post", of(PEERS_PATH)),
        ("post", of(HUNT_PATH)),
        ("get", object.clone()),
        ("put", object),
        ("post", of(PILOT_PACKS_PATH)),
        ("put", of(PILOT_PACKS_PATH)),
        ("post", of(PILOT_WAITS_PATH)),
        ("get", of(PILOT_STORES_PATH)),
        ("get", of(PILOT_STORE_FILES_PATH)),
        ("put", of(PILOT_STORE_FILES_PATH)),
        ("get", task),
    ]
}

#[tokio::test]
async fn a_pilot_that_is_there_no_more_or_none_hears_so_whatever_it_sends() {
    let mut cast = Cast::new(true).await;
    let gone = cast.scene.pilot_of("other", 1).await;
    let message = LeaveRequest { pilot: gone.id, report: None, reason: LeaveReason::Told };
    let left: Result<LeaveAnswer, Reply> =
        cast.scene.exchange(LEAVE_PATH, &gone.session, Format::Json, &message).await;
    assert!(left.is_ok(), "{left:?}");
    let (mut wrong, mut n_not_understood) = (Vec::new(), 0);
    let strangers =
        cast.strangers.iter().cloned().chain([("who has left", Some(gone.session), "session-ended")]);
    let users = cast.users.iter().map(|(who, token)| (*who, Some(token.clone()), "unauthorized"));
    let strangers: Vec<_> = strangers.chain(users).collect();
    for (method, route) in pilot_routes() {
        let bare = [(concrete(&route), b"".as_slice())];
        for (path, body) in nonsense(&route).into_iter().chain(bare) {
            for (who, token, word) in &strangers {
                let is_let_in = match *who {
                    "a pilot's session" => route != REGISTER_PATH,
                    "a join token" => route == REGISTER_PATH,
                    _ => false,
                };
                // Where no session is wanted nobody looks at one.
                let word =
                    if *who == "who has left" && route == REGISTER_PATH { "unauthorized" } else { *word };
                let (status, said) = called(&cast.scene, method, &path, token.as_deref(), body).await;
                match is_let_in {
                    true => n_not_understood += usize::from(status == 400),
                    false if (status, said.as_str()) == (401, word) => {}
                    false => wrong.push(format!("{method} {path} by {who}: {status} {said}, not 401 {word}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_not_understood >= 20, "{n_not_understood} requests were nonsense");
}

#[tokio::test]
async fn nobody_but_pilots_is_let_in_where_pilots_come() {
    let cast = Cast::new(true).await;
    let query = "job=1&place=store://files/x&way=read";
    let paths = pilot_routes().map(|(method, route)| {
        let query = match route.as_str() {
            PILOT_STORES_PATH | PILOT_STORE_FILES_PATH => query,
            path if path.ends_with("/inputs") => "input=1&task=2",
            _ => "",
        };
        (method, format!("{}?{query}", concrete(&route)))
    });
    let users = cast.users.iter().map(|(who, token)| (*who, Some(token.clone()), "unauthorized"));
    let strangers: Vec<_> = users.chain(cast.strangers.iter().cloned()).collect();
    for (method, path) in paths {
        for (who, token, word) in &strangers {
            let is_for_join = path.starts_with(REGISTER_PATH);
            let is_let_in = if is_for_join { *who == "a join token" } else { *who == "a pilot's session" };
            if is_let_in {
                continue;
            }
            let found = called(&cast.scene, method, &path, token.as_deref(), b"").await;
            assert_eq!(found, (401, (*word).to_owned()), "{method} {path} by {who}");
        }
    }
}
