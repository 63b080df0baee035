//! What one user may take.

use protocol::job::JobSpec;
use serde_json::{Value, json};

use super::scene::{Scene, echo};
use crate::quotas::{Quota, Quotas};

/// The view of a job, with this priority, that the user has just submitted alone, or as a stage of a workflow.
async fn submitted(scene: &Scene, token: &str, is_stage: bool) -> Value {
    let spec = JobSpec { priority: 1_000_000, ..echo(1) };
    let (path, body) = match is_stage {
        false => ("/api/v1/jobs", json!({"spec": spec})),
        true => ("/api/v1/workflows", json!({"workflow": {"name": "w", "stages": [{"name": "a", "job": spec}]}})),
    };
    let reply = scene.call("POST", path, token, body.to_string()).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    let answer = reply.json();
    let id = if is_stage { &answer["stages"][0]["job"] } else { &answer["job"] };
    scene.get(&format!("/api/v1/jobs/{id}")).await.json()
}

#[tokio::test]
async fn a_priority_counts_among_all_jobs_for_whom_it_is_allowed() {
    let scene = Scene::start().await;
    let (ann, olga) = (scene.ann(), scene.user("olga", true));
    for is_stage in [false, true] {
        for token in [&ann, &olga] {
            let job = submitted(&scene, token, is_stage).await;
            assert_eq!((&job["priority"], &job["priority_over_all"]), (&json!(1_000_000), &Value::Null));
        }
    }
    let allowed = Quota { is_priority_over_all: true };
    let quotas = Quotas { users: [("ann".to_owned(), allowed)].into(), ..Quotas::default() };
    assert!(scene.quotas.set(&quotas) && !scene.quotas.set(&quotas));
    for is_stage in [false, true] {
        assert_eq!(submitted(&scene, &ann, is_stage).await["priority_over_all"], true);
        let bob = scene.user("bob", false);
        assert_eq!(submitted(&scene, &bob, is_stage).await["priority_over_all"], Value::Null);
    }
}
