//! The pilots' protocol: who may say what, in which format and version.

use protocol::{
    codec::Format,
    peers::{HUNT_PATH, HuntAnswer, HuntRequest},
    pilot::{
        LEAVE_PATH, LeaveAnswer, LeaveRequest, PULL_PATH, PullRequest, REGISTER_PATH, RegisterAnswer,
        RegisterRequest, TAILS_PATH, VERSION,
    },
};
use scheduler::{
    ids::PilotId,
    pull::{LeaveReason, Pull, PullAnswer, Registration},
    time::Span,
};
use serde_json::json;

use super::scene::{Reply, Scene, echo, registration};

const FORMATS: [Format; 2] = [Format::Postcard, Format::Json];

#[tokio::test]
async fn a_pilot_registers_pulls_and_leaves_in_both_formats() {
    for format in FORMATS {
        let mut scene = Scene::start().await;
        let mut pilot = scene.pilot().await;
        let id = scene.submit(&echo(5)).await;
        let answer = scene.pull(&mut pilot, format, Pull { is_hungry: true, ..Pull::default() }).await;
        assert_eq!(answer.parts[0].templates[0].job.0, id);
        assert!(!answer.parts[0].bundles[0].tasks.is_empty());
        let pilots = scene.get("/api/v1/pilots").await.json();
        assert_eq!(pilots["pilots"][0]["node"]["hostname"], "node1");
        let message = LeaveRequest { pilot: pilot.id, report: None, reason: LeaveReason::Signalled };
        let left: Result<LeaveAnswer, Reply> =
            scene.exchange(LEAVE_PATH, &pilot.session, format, &message).await;
        assert!(left.is_ok());
        assert_eq!(scene.get("/api/v1/pilots").await.json()["pilots"], json!([]));
        let ended = scene.get("/api/v1/pilots?ended=true").await.json();
        assert_eq!(ended["pilots"][0]["state"], "ended");
    }
}

#[tokio::test]
async fn a_pilot_has_others_asked_for_tasks_only_in_its_own_name() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    for format in FORMATS {
        for (named, session, refused) in [
            (pilot.id, pilot.session.clone(), None),
            (PilotId(99), pilot.session.clone(), Some((401, "unauthorized".to_owned()))),
            (PilotId(99), scene.tokens.session(PilotId(99), 1), Some((404, "no-such-pilot".to_owned()))),
        ] {
            let message = HuntRequest { pilot: named };
            let answer: Result<HuntAnswer, Reply> =
                scene.exchange(HUNT_PATH, &session, format, &message).await;
            assert_eq!(answer.err().map(|reply| reply.refusal()), refused);
        }
    }
}

#[tokio::test]
async fn a_registration_made_twice_is_one_pilot() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let message = RegisterRequest { version: VERSION, registration: registration(&pilot.tag) };
    let token = scene.tokens.join(&pilot.tag);
    let again: Result<RegisterAnswer, Reply> =
        scene.exchange(REGISTER_PATH, &token, Format::Postcard, &message).await;
    assert_eq!(again.ok().unwrap().registered.pilot, pilot.id);
}

#[tokio::test]
async fn another_version_of_the_protocol_is_refused_before_its_message_is_read() {
    let scene = Scene::start().await;
    let token = scene.tokens.join("tag");
    for format in FORMATS {
        // What else a later version says is not known here.
        let message = json!({"version": 2, "novelty": [1, 2]});
        let refused: Result<RegisterAnswer, Reply> = match format {
            Format::Json => scene.exchange(REGISTER_PATH, &token, format, &message).await,
            Format::Postcard => scene.exchange(REGISTER_PATH, &token, format, &(2_u32, "novelty")).await,
        };
        let reply = refused.err().unwrap();
        assert_eq!(reply.refusal(), (426, "wrong-version".to_owned()));
        assert!(reply.message().contains("found version 2") && reply.message().contains("speaks version 1"));
    }
}

#[tokio::test]
async fn no_pilot_speaks_for_another() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let pull = PullRequest { pilot: pilot.id, pull: Pull::default() };
    let other = PullRequest { pilot: PilotId(99), pull: Pull::default() };
    let join = scene.tokens.join(&pilot.tag);
    let stranger = scene.tokens.session(PilotId(99), 1);
    for (token, message) in
        [(&*join, &pull), (&*scene.ann(), &pull), ("", &pull), (&*stranger, &pull), (&*pilot.session, &other)]
    {
        let refused: Result<PullAnswer, Reply> =
            scene.exchange(PULL_PATH, token, Format::Postcard, message).await;
        assert_eq!(refused.err().unwrap().refusal(), (401, "unauthorized".to_owned()));
    }
    let refused: Result<PullAnswer, Reply> =
        scene.exchange(PULL_PATH, &stranger, Format::Postcard, &other).await;
    assert_eq!(refused.err().unwrap().refusal(), (404, "no-such-pilot".to_owned()));
    let leave = LeaveRequest { pilot: pilot.id, report: None, reason: LeaveReason::Told };
    let refused: Result<LeaveAnswer, Reply> =
        scene.exchange(LEAVE_PATH, &stranger, Format::Json, &leave).await;
    assert_eq!(refused.err().unwrap().refusal(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn a_join_token_is_for_its_tag_only() {
    let scene = Scene::start().await;
    let message = RegisterRequest { version: VERSION, registration: registration("tag") };
    let register = async |token: String| {
        let refused: Result<RegisterAnswer, Reply> =
            scene.exchange(REGISTER_PATH, &token, Format::Postcard, &message).await;
        refused.err().unwrap().refusal()
    };
    assert_eq!(register(scene.tokens.join("other")).await, (401, "unauthorized".to_owned()));
    assert_eq!(register(scene.tokens.session(PilotId(1), 1)).await, (401, "unauthorized".to_owned()));
    assert_eq!(register(scene.tokens.join("tag")).await, (404, "no-such-allocation".to_owned()));
}

#[tokio::test]
async fn damaged_messages_are_bad_requests() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    for (format, message) in
        [(Format::Json, json!([1])), (Format::Json, json!({"pilot": 1})), (Format::Postcard, json!([255]))]
    {
        let refused: Result<PullAnswer, Reply> = match format {
            Format::Json => scene.exchange(PULL_PATH, &pilot.session, format, &message).await,
            Format::Postcard => scene.exchange(PULL_PATH, &pilot.session, format, &[255_u8; 3]).await,
        };
        assert_eq!(refused.err().unwrap().refusal(), (400, "bad-request".to_owned()));
    }
}

#[tokio::test]
async fn a_parked_pull_is_answered_when_a_job_comes() {
    let mut scene = Scene::start().await;
    let mut pilot = scene.pilot().await;
    let waiting = Pull { is_hungry: true, wait: Span::from_secs(20), ..Pull::default() };
    let (answer, id) = {
        let parked = scene.pull(&mut pilot, Format::Postcard, waiting);
        let spec = echo(2);
        tokio::join!(parked, scene.submit(&spec))
    };
    assert_eq!(answer.parts[0].bundles[0].job.0, id);
}

#[tokio::test]
async fn a_parked_pull_is_ended_when_the_api_ends() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let pull = Pull { is_hungry: true, wait: Span::from_secs(20), ..Pull::default() };
    let message = PullRequest { pilot: pilot.id, pull };
    let parked = scene.exchange::<PullAnswer>(PULL_PATH, &pilot.session, Format::Postcard, &message);
    let stop = async {
        // Parked: seen by the engine, which then no longer counts its silence.
        loop {
            let pilots = scene.get("/api/v1/pilots").await.json();
            if pilots["pilots"][0]["silent_for"].is_null() {
                return scene.stop.send(true).unwrap();
            }
        }
    };
    let (refused, ()) = tokio::join!(parked, stop);
    assert_eq!(refused.err().unwrap().refusal(), (503, "ending".to_owned()));
    scene.served.await.unwrap();
}

#[tokio::test]
async fn a_session_ends_with_its_pilot_on_every_route() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let leave = LeaveRequest { pilot: pilot.id, report: None, reason: LeaveReason::Told };
    let left: Result<LeaveAnswer, Reply> =
        scene.exchange(LEAVE_PATH, &pilot.session, Format::Json, &leave).await;
    assert!(left.is_ok());
    let ended = (401, "session-ended".to_owned());
    let of_pull = PullRequest { pilot: pilot.id, pull: Pull::default() };
    let pulled: Result<PullAnswer, Reply> =
        scene.exchange(PULL_PATH, &pilot.session, Format::Json, &of_pull).await;
    assert_eq!(pulled.err().unwrap().refusal(), ended);
    let object = format!("/pilot/v1/objects/{}", "0".repeat(64));
    let tails = json!({"pilot": pilot.id, "n_reports": 0, "tails": []});
    let hunt = json!({"pilot": pilot.id});
    for (method, path, body) in [
        ("GET", &*object, json!(null)),
        ("PUT", &*object, json!(null)),
        ("POST", "/pilot/v1/packs", json!({"sha256": []})),
        ("PUT", "/pilot/v1/packs", json!(null)),
        ("POST", "/pilot/v1/waits", json!({"waits": []})),
        ("GET", "/pilot/v1/stores?job=1&place=store://files/x&way=read", json!(null)),
        ("GET", "/pilot/v1/tasks/1/0/inputs", json!(null)),
        ("POST", HUNT_PATH, hunt),
        ("POST", TAILS_PATH, tails),
    ] {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "here")
            .header("authorization", format!("Bearer {}", pilot.session))
            .header("content-type", "application/json")
            .body(body.to_string().into())
            .unwrap();
        assert_eq!(scene.send(request).await.refusal(), ended, "{method} {path}");
    }
}

#[tokio::test]
async fn a_join_token_registers_once_while_its_pilot_is_there() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let token = scene.tokens.join(&pilot.tag);
    let register = async |nonce, predecessor| {
        let registration = Registration { nonce, predecessor, ..registration(&pilot.tag) };
        let message = RegisterRequest { version: VERSION, registration };
        let answer: Result<RegisterAnswer, Reply> =
            scene.exchange(REGISTER_PATH, &token, Format::Postcard, &message).await;
        answer
    };
    for predecessor in [None, Some(8)] {
        let refused = register(99, predecessor).await.err().unwrap();
        assert_eq!(refused.refusal(), (425, "still-there".to_owned()), "an agent tries it again");
    }
    let pull = PullRequest { pilot: pilot.id, pull: Pull::default() };
    let of_first = async || {
        let answer: Result<PullAnswer, Reply> =
            scene.exchange(PULL_PATH, &pilot.session, Format::Json, &pull).await;
        answer.err().map(|reply| reply.refusal())
    };
    assert_eq!(of_first().await, None, "the first one works on");
    let again = register(99, Some(7)).await.ok().unwrap();
    assert_ne!(again.registered.pilot, pilot.id, "it was started again where the first one was");
    assert_eq!(of_first().await, Some((401, "session-ended".to_owned())));
}
