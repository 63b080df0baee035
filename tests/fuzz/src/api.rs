//! Requests as the API's router takes them, without a socket: users', operators' and pilots', with any
//! path, question and body, to a manager at work. Whatever comes is answered, and never by an error of ours.

use std::collections::HashMap;

use axum::{
    body::Body,
    http::{Request, Response},
};
use http_body_util::BodyExt;
use manager::{
    api::{ApiState, ConnectionLimits, router},
    engine_loop::handle::{Asked, Handle},
    security::tokens::Tokens,
    store::Store,
};
use protocol::{
    api::{ErrorAnswer, SubmitRequest},
    codec::Format,
    peers::{HuntRequest, Peer, PeersRequest},
    pilot::{LeaveRequest, PullRequest, RegisterRequest, Tail, TailsRequest, VERSION},
};
use scheduler::{
    engine::interface::{Effect, Event},
    ids::{JobId, PilotId},
    pull::LeaveReason,
    results::TaskOutput,
    time::Span,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    runtime::Runtime,
    sync::{mpsc, watch},
};
use tower_service::Service;

use crate::{
    Check, Target,
    bound::Bound,
    world::{self, World},
};

/// See the module.
pub const TARGET: Target = Target {
    name: "api",
    seeds,
    words: &[
        "GET ",
        "POST ",
        "user ",
        "operator ",
        "join ",
        "session ",
        "nobody ",
        "json ",
        "postcard ",
        "/api/v1/jobs",
        "/api/v1/workflows",
        "PUT ",
        "/api/v1/objects/",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "\"inputs\":",
        "\"outputs\":",
        "\"after\":",
        "\"edges\":",
        "{\"listed\":\"1;1+2;\"}",
        "{\"groups\":2}",
        "{\"spread\":2}",
        "/cancel",
        "/pause",
        "/resume",
        "/purge",
        "/retry",
        "/tasks",
        "/stdout",
        "/stderr",
        "/outputs",
        "/follow",
        "?since=",
        "&after=",
        "/pilots",
        "/platforms",
        "/explain/",
        "/events",
        "/status",
        "/spec",
        "/shutdown",
        "/limits",
        "/allocations",
        "/policies/set",
        "/profiles/declare",
        "/profiles/reset",
        "/weights",
        "/metrics",
        "\"declared\":",
        "\"times\":",
        "\"policy\":",
        "\"slots\":",
        "\"gained\":",
        "\"fetching\":",
        "\"is_all\":",
        "?limit=",
        "?from=",
        "&state=failed",
        "&parameters=true&extract=true",
        "%00",
        "%ff",
        "18446744073709551615",
        "{\"tasks\":\"0-9,12\"}",
        "\"spec\":",
        "\"submission_key\":",
        "\"command\":",
        "\"sweep\":",
        "\"extract\":",
        "{\"is_urgent\":true}",
    ],
    start,
    bound: Bound { constant: 16 << 20, factor: 1024 },
    n_fast: 3_000,
};

/// The digest of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const MISSING: &str = r#"{"sha256":["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"]}"#;

/// Times that something unanswered is given to be answered: pulls are parked, pilots are given up.
const N_WAKEUPS_MAX: usize = 200;

struct Scene {
    runtime: Runtime,
    world: World,
    store: Store,
    folder: TempDir,
}

fn start() -> Check {
    let scene = scene();
    Box::new(move |bytes| scene.check(bytes))
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::new();
    let mut store = Store::open(folder.path()).expect("a store");
    store.commit(&world.records).expect("it is kept");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    Scene { runtime, world, store, folder }
}

impl Scene {
    fn check(&self, bytes: &[u8]) {
        let tokens = Tokens::new(b"secret of a test");
        let Some(request) = self.request(bytes, &tokens) else { return };
        let is_head = request.method() == "HEAD";
        let (status, body) = self.runtime.block_on(self.answer(request, tokens));
        let text = || String::from_utf8_lossy(&body).into_owned();
        assert_ne!(status, 500, "{}", text());
        if status >= 400 && !is_head {
            let refusal = serde_json::from_slice::<ErrorAnswer>(&body);
            assert!(refusal.is_ok_and(|answer| !answer.error.message.is_empty()), "{status}: {}", text());
        }
    }

    /// `METHOD BEARER FORMAT TARGET`, a line end, the body.
    fn request(&self, bytes: &[u8], tokens: &Tokens) -> Option<Request<Body>> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let body = bytes.get(end + 1..).unwrap_or_default().to_vec();
        let mut words = std::str::from_utf8(&bytes[..end]).ok()?.split(' ');
        let mut request = Request::builder().method(words.next()?);
        let lend = |name, is_operator| tokens.lend(name, is_operator).expect("random numbers");
        let token = match words.next()? {
            "user" => lend(world::USER, false),
            "other" => lend("bob", false),
            "operator" => lend("root", true),
            "join" => tokens.join(&self.world.tags[0]),
            "session" => tokens.session(PilotId(1), 1),
            word => word.to_owned(),
        };
        request = request.header("authorization", format!("Bearer {token}"));
        let format = if words.next()? == "json" { Format::Json } else { Format::Postcard };
        request = request.header("content-type", format.content_type());
        request.uri(words.next()?).body(Body::from(body)).ok()
    }

    async fn answer(&self, request: Request<Body>, tokens: Tokens) -> (u16, Vec<u8>) {
        let (handle, queue) = Handle::new();
        let (stop, stopped) = watch::channel(false);
        let quotas = manager::quotas::CurrentQuotas::default();
        let outputs = manager::OutputQuotas::new(quotas.clone(), tokens.users().clone());
        let mut router = router(ApiState {
            handle,
            reader: self.store.reader(),
            tokens,
            folder: self.folder.path().to_owned(),
            started_at: self.world.now,
            poll_wait: Span::from_secs(25),
            leave_limit: Span::from_secs(60),
            limits: ConnectionLimits::default(),
            stop: stopped,
            config_file: None,
            reload: mpsc::channel(1).0,
            agent: manager::platforms::agent_file::AgentFile::new(&[]),
            stores: manager::files::stores::Stores::default(),
            objects: manager::files::objects::Objects::in_folder(self.folder.path()),
            quotas,
            outputs,
            reserve: manager::reserve::Reserve::default(),
            left_there: tokio::sync::watch::channel(None).1,
        });
        let answering = async {
            let Ok(response): Result<Response<Body>, _> = router.call(request).await;
            // An event stream goes on until the end.
            stop.send_replace(true);
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.expect("a body");
            (status, body.to_bytes().to_vec())
        };
        tokio::select! {
            answer = answering => answer,
            () = manage(self.world.clone(), queue) => panic!("the manager ended before its answer"),
        }
    }
}

/// Takes events as the manager's driver does, but in a time of its own: when nobody says anything and
/// somebody waits, the next timer is due.
async fn manage(mut world: World, mut queue: mpsc::Receiver<Asked>) {
    let mut waiting = HashMap::new();
    let mut n_wakeups = 0;
    loop {
        // Whoever was answered has a turn to say more.
        tokio::task::yield_now().await;
        let event = match queue.try_recv() {
            Ok(Asked { event, reply }) => {
                waiting.extend(reply);
                event
            }
            Err(_) if waiting.is_empty() => {
                let Some(Asked { event, reply }) = queue.recv().await else { return };
                waiting.extend(reply);
                event
            }
            Err(_) => {
                n_wakeups += 1;
                assert!(n_wakeups < N_WAKEUPS_MAX, "a question is never answered");
                world.now = world.engine.next_wakeup().unwrap_or(world.now).max(world.now);
                Event::TimerFired
            }
        };
        let step = world.engine.handle(world.now, event);
        world.engine.check_invariants();
        for effect in step.effects {
            if let Effect::Answer { request, answer } = effect
                && let Some(reply) = waiting.remove(&request)
            {
                // Whoever asked may have hung up.
                let _ = reply.send(answer);
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for target in [
        "/version",
        "/openapi.json",
        "/status",
        "/jobs",
        "/jobs/1",
        "/jobs/1/spec",
        "/jobs/1/tasks?from=0&limit=20",
        "/jobs/1/tasks?limit=9&state=done&parameters=true&extract=true",
        "/jobs/1/tasks?state=waiting&limit=3",
        "/jobs/1/tasks/0",
        "/jobs/1/tasks/0/stdout",
        "/jobs/1/tasks/2/stderr",
        "/jobs/1/outputs?limit=5&from=0&state=all",
        "/jobs/1/follow?since=0&after=0",
        "/jobs/1/follow?tasks=0-2,5&since=9&after=1",
        "/jobs/1/files?limit=5",
        "/pilots?ended=true",
        "/platforms",
        "/explain/job/1",
        "/explain/task/1/2",
        "/explain/pilot/1",
        "/explain/platform/cluster",
        "/explain/allocation/1",
        "/explain/weight/sh",
        "/metrics",
        "/allocations?ended=true",
        "/allocations/1",
        "/policies",
        "/weights",
        "/profiles",
        "/stores",
        "/users?all=true",
        "/events",
        "/events?job=1",
        "/shutdown?wait_seconds=0",
        "/nothing",
    ] {
        seeds.push(format!("GET user json /api/v1{target}\n").into_bytes());
    }
    let submission = SubmitRequest { spec: world::spec(), submission_key: Some("k".into()) };
    let submission = serde_json::to_string(&submission).expect("JSON");
    let workflow = workflow();
    for (target, body) in [
        ("user json /api/v1/jobs", submission.as_str()),
        ("user json /api/v1/workflows", workflow.as_str()),
        ("user json /api/v1/objects/missing", MISSING),
        ("user json /api/v1/jobs/1/cancel", r#"{"tasks":"0-9,12,20-29"}"#),
        ("user json /api/v1/jobs/1/pause", ""),
        ("operator json /api/v1/jobs/1/resume", "{}"),
        ("user json /api/v1/jobs/1/purge", "{\"with\": [2]}"),
        ("user json /api/v1/jobs/1/retry", r#"{"tasks":"2"}"#),
        ("operator json /api/v1/users", r#"{"user":"ann","is_operator":true,"expires_in":86400000000}"#),
        ("operator json /api/v1/users/ann/revoke", ""),
        ("user json /api/v1/users/0123456789ab/revoke", ""),
        ("operator json /api/v1/shutdown", r#"{"now":true}"#),
        ("operator json /api/v1/platforms/reload", r#"{"config":"manager.yaml"}"#),
        ("operator json /api/v1/platforms/cluster/pause", ""),
        ("operator json /api/v1/platforms/cluster/resume", ""),
        ("operator json /api/v1/platforms/cluster/drain", ""),
        ("operator json /api/v1/platforms/cluster/detach", ""),
        (
            "operator json /api/v1/platforms/cluster/limits",
            r#"{"pilots_max":3,"queued_max":null,"submissions_per_minute":9,"core_hours":1.5,"user_core_hours":1e9,"budget":0}"#,
        ),
        ("operator json /api/v1/allocations/1/cancel", r#"{"now":true}"#),
        ("operator json /api/v1/policies/set", r#"{"layer":"matching","policy":"alstb"}"#),
        ("user json /api/v1/jobs/1/profile", r#"{"platform":"cluster","slots":2,"tasks":4}"#),
        (
            "operator json /api/v1/profiles/declare",
            r#"{"application":"sh","declared":{"job_type":"io-bound","cpu_share":0.5,"times":{"cluster":9},"counts_as":7,"source":"x"}}"#,
        ),
        ("operator json /api/v1/profiles/reset", r#"{"application":"sh"}"#),
    ] {
        seeds.push(format!("POST {target}\n{body}").into_bytes());
    }
    seeds.push(format!("GET user json /api/v1/objects/{HELLO}\n").into_bytes());
    seeds.push(b"GET session json /pilot/v1/tasks/1/0/inputs?input=1&task=2\n".to_vec());
    for target in ["user json /api/v1/objects", "session json /pilot/v1/objects"] {
        seeds.push(format!("PUT {target}/{HELLO}\nhello").into_bytes());
    }
    seeds.push(format!("POST session json /pilot/v1/packs\n{MISSING}").into_bytes());
    seeds.push(format!("POST user json /api/v1/objects/packed\n{MISSING}").into_bytes());
    let digest = HELLO.parse().expect("a digest");
    let mut pack = b"POST user json /api/v1/objects/pack\n".to_vec();
    protocol::files::pack::push(&mut pack, &digest, b"hello");
    seeds.push(pack);
    let pull = PullRequest { pilot: PilotId(1), pull: world::pull() };
    let mut reporting = pull.clone();
    reporting.pull.report = Some(world::report(2, 8));
    let leave =
        LeaveRequest { pilot: PilotId(1), report: Some(world::report(2, 8)), reason: LeaveReason::Told };
    let written = TaskOutput { index: 0, stdout: b"step 1\n".to_vec(), stderr: Vec::new() };
    let tail = Tail { job: JobId(1), attempt: 1, run: 1, stdout_at: 0, stderr_at: 0, written };
    let tails = TailsRequest { pilot: PilotId(1), n_reports: 0, tails: vec![tail] };
    let hello = HELLO.parse().expect("a digest");
    let me = Peer { pilot: PilotId(1), url: "https://10.0.0.7:40123".into(), certificate_sha256: hello };
    let (gained, is_all, moved) = (vec![hello], true, Default::default());
    let (wanted, asked) = (gained.clone(), gained.clone());
    let peers = PeersRequest { me, is_all, gained, lost: vec![], fetching: vec![], wanted, asked, moved };
    let hunt = HuntRequest { pilot: PilotId(1) };
    let tag = World::new().tags[0].clone();
    let register = RegisterRequest { version: VERSION, registration: world::registration(&tag, 9) };
    for (word, format) in [("json", Format::Json), ("postcard", Format::Postcard)] {
        for (target, message) in [
            (format!("join {word} /pilot/v1/register"), format.encode(&register)),
            (format!("session {word} /pilot/v1/pull"), format.encode(&pull)),
            (format!("session {word} /pilot/v1/pull"), format.encode(&reporting)),
            (format!("session {word} /pilot/v1/tails"), format.encode(&tails)),
            (format!("session {word} /pilot/v1/peers"), format.encode(&peers)),
            (format!("session {word} /pilot/v1/hunt"), format.encode(&hunt)),
            (format!("session {word} /pilot/v1/leave"), format.encode(&leave)),
        ] {
            seeds.push([format!("POST {target}\n").as_bytes(), &message.expect("a message")].concat());
        }
    }
    seeds
}

/// Stages that wait for each other by a rule and by a list, and for a job that is there.
fn workflow() -> String {
    let job = serde_json::to_value(world::spec()).expect("JSON");
    let stage = |name: &str, after: Value| json!({ "name": name, "job": job, "after": after });
    let first = stage("first", json!([{ "on": { "stage": 0 }, "edges": { "listed": ";1;1" } }]));
    let second = json!([{ "on": { "stage": 0 }, "edges": "same" }, { "on": { "job": 1 }, "edges": "all" }]);
    let stages = [first, stage("second", second)];
    json!({ "workflow": { "name": "flow", "stages": stages }, "submission_key": "w" }).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn the_workflow_is_one_that_is_kept() {
        let scene = super::scene();
        let request = format!("POST user json /api/v1/workflows\n{}", super::workflow());
        let tokens = super::Tokens::new(b"secret of a test");
        let request = scene.request(request.as_bytes(), &tokens).expect("a request");
        let (status, body) = scene.runtime.block_on(scene.answer(request, tokens));
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
    }

    #[test]
    fn every_route_is_begun_with() {
        let document: Value =
            serde_json::from_str(include_str!("../../../protocol/golden/openapi.json")).expect("JSON");
        let seeds: Vec<String> = super::seeds()
            .iter()
            .filter_map(|seed| Some(String::from_utf8_lossy(seed).lines().next()?.to_owned()))
            .collect();
        let is_of = |seed: &String, method: &str, path: &str| {
            let mut words = seed.split(' ');
            let (said, target) = (words.next(), words.nth(2).unwrap_or_default());
            let target = target.split('?').next().unwrap_or_default();
            let (target, path): (Vec<&str>, Vec<&str>) =
                (target.split('/').collect(), path.split('/').collect());
            let is_alike = |(said, known): (&&str, &&str)| known.starts_with('{') || said == known;
            said.is_some_and(|said| said.eq_ignore_ascii_case(method))
                && target.len() == path.len()
                && target.iter().zip(&path).all(is_alike)
        };
        for (path, methods) in document["paths"].as_object().expect("routes") {
            for method in methods.as_object().expect("methods").keys() {
                assert!(seeds.iter().any(|seed| is_of(seed, method, path)), "{method} {path}");
            }
        }
    }
}
