//! What pilots are told of files in stores.

use protocol::job::{JobSpec, Output, WorkDirPolicy};
use serde_json::json;

use super::scene::{Scene, echo};

#[tokio::test]
async fn a_pilot_reaches_only_stores_that_the_job_names() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let output = Output { from: "out".into(), to: "store://files/{x}".into(), ..Output::default() };
    let spec = JobSpec { workdir: WorkDirPolicy::Scratch, outputs: vec![output], ..echo(1) };
    assert_eq!(scene.post("/api/v1/jobs", json!({"spec": spec})).await.status, 201);
    let ask = async |job: u64, place: &str, token: &str| {
        let path = format!("/pilot/v1/stores?job={job}&place={place}&way=read");
        scene.call("GET", &path, token, "").await
    };
    let reply = ask(1, "store://files/any", &pilot.session).await;
    assert_eq!((reply.status, reply.json()), (200, json!({})), "a host's files come through the manager");
    let reply = ask(1, "store://others/any", &pilot.session).await;
    assert_eq!(reply.refusal(), (404, "no-such-store".into()));
    assert_eq!(reply.message(), "there is no store `others` here: job 1 does not name it");
    assert_eq!(ask(1, "store://files/../any", &pilot.session).await.status, 400);
    assert_eq!(ask(9, "store://files/any", &pilot.session).await.status, 404);
    assert_eq!(ask(1, "store://files/any", &scene.ann()).await.status, 401);
    let file = "/pilot/v1/stores/file?job=1&place=store://others/any&way=write";
    assert_eq!(scene.call("PUT", file, &pilot.session, "x").await.refusal(), (404, "no-such-store".into()));
}
