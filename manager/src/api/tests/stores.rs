//! What pilots are told of files in stores.

use protocol::job::{Input, JobSpec, Output, WorkDirPolicy};
use serde_json::json;

use super::scene::{Scene, echo};

#[tokio::test]
async fn a_pilot_reaches_only_places_in_stores_that_its_tasks_name() {
    let mut scene = Scene::start().await;
    let output = Output { from: "out".into(), to: "store://files/{x}".into(), ..Output::default() };
    let input = Input { from: "store://files/in/{x}".into(), to: "in".into(), ..Input::default() };
    let spec =
        JobSpec { workdir: WorkDirPolicy::Scratch, inputs: vec![input], outputs: vec![output], ..echo(9) };
    let pilot = scene.pilot_at_work(&spec).await;
    let ask = async |job: u64, place: &str, how: &str, token: &str| {
        let path = format!("/pilot/v1/stores?job={job}&place={place}&way={how}");
        scene.call("GET", &path, token, "").await
    };
    // Of nine tasks it was sent those whose x is 1 and 2, which are 0 and 1.
    for (place, how) in [
        ("store://files/in/1", "read"),
        ("store://files/in/2", "read&task=1"),
        ("store://files/1", "write"),
        ("store://files/1/of-a-folder", "write&task=0"),
    ] {
        let reply = ask(1, place, how, &pilot.session).await;
        assert_eq!((reply.status, reply.json()), (200, json!({})), "{place}: it comes through the manager");
    }
    for (place, how) in [
        ("store://files/any", "read"),
        ("store://files/1", "read"),
        ("store://files/in/1", "write"),
        ("store://files/in/9", "read"),
        ("store://files/in/9", "read&task=8"),
        ("store://files/in/1", "read&task=1"),
    ] {
        let reply = ask(1, place, how, &pilot.session).await;
        assert_eq!(reply.refusal(), (403, "not-leased".into()), "{place} {how}");
    }
    let reply = ask(1, "store://others/any", "read", &pilot.session).await;
    assert_eq!(reply.refusal(), (404, "no-such-store".into()));
    assert_eq!(reply.message(), "there is no store `others` here: job 1 does not name it");
    assert_eq!(ask(1, "store://files/../any", "read", &pilot.session).await.status, 400);
    assert_eq!(ask(9, "store://files/any", "read", &pilot.session).await.status, 404);
    assert_eq!(ask(1, "store://files/in/1", "read", &scene.ann()).await.status, 401);
    let file = |place: &str| format!("/pilot/v1/stores/file?job=1&place={place}&way=write");
    let put = async |place: &str| scene.call("PUT", &file(place), &pilot.session, "x").await.refusal();
    assert_eq!(put("store://others/any").await, (404, "no-such-store".into()));
    assert_eq!(put("store://files/9").await, (403, "not-leased".into()));
}

/// A cache of pilots may outlive a restored folder, whose manager gives numbers out once more.
#[tokio::test]
async fn a_job_with_files_that_nobody_knows_yet_draws_a_number_of_its_own() {
    let scene = Scene::start().await;
    let from = |from: &str| Input { from: from.into(), to: "in".into(), ..Input::default() };
    let shared = Input { shared: true, ..from("/data/in") };
    let spec = |input: Input| JobSpec {
        workdir: WorkDirPolicy::Scratch,
        inputs: vec![input],
        // No client says it.
        drawn: 7,
        ..echo(9)
    };
    let mut drawn = Vec::new();
    for input in [from("http://x.org/{x}"), from("http://x.org/{x}"), from("store://files/{x}"), shared] {
        let job = scene.submit(&spec(input)).await;
        let kept = scene.get(&format!("/api/v1/jobs/{job}/spec")).await.json();
        drawn.push(kept["drawn"].as_u64());
    }
    let stage = json!({ "name": "a", "job": spec(from("http://x.org/{x}")) });
    let workflow = json!({ "name": "w", "stages": [stage] });
    let reply = scene.post("/api/v1/workflows", json!({ "workflow": workflow })).await;
    assert_eq!(reply.status, 201, "{}", reply.message());
    let kept = scene.get("/api/v1/jobs/5/spec").await.json();
    drawn.push(kept["drawn"].as_u64());
    assert_eq!(drawn.remove(3), None, "what nodes see is not cached");
    assert!(drawn.iter().all(|drawn| drawn.is_some_and(|drawn| drawn != 7)), "{drawn:?}");
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 4, "{drawn:?}");
}
