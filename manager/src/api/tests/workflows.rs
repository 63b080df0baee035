//! Workflows as users submit them.

use serde_json::{Value, json};

use super::scene::{Reply, Scene, echo};

/// One stage for each of these jobs, whose three tasks wait for those of that job.
fn after(jobs: &[u64]) -> Value {
    let stage = |(at, job): (usize, &u64)| {
        let after = json!([{"on": {"job": job}, "edges": "same"}]);
        json!({"name": format!("stage-{at}"), "job": echo(3), "after": after})
    };
    let stages: Vec<Value> = jobs.iter().enumerate().map(stage).collect();
    json!({"workflow": {"name": "flow", "stages": stages}})
}

#[tokio::test]
async fn only_its_owner_and_operators_wait_for_a_job() {
    let scene = Scene::start().await;
    let (three, four) = (scene.submit(&echo(3)).await, scene.submit(&echo(4)).await);
    let [ann, bob, olga] = [("ann", false), ("bob", false), ("olga", true)]
        .map(|(name, is_operator)| scene.tokens.user(name, is_operator));
    let submit = async |user: &str, jobs: &[u64]| -> Reply {
        scene.call("POST", "/api/v1/workflows", user, after(jobs).to_string()).await
    };
    let of_bob = scene.call("POST", "/api/v1/jobs", &bob, json!({"spec": echo(5)}).to_string()).await.json();
    let of_bob = of_bob["job"].as_u64().unwrap();
    let none =
        |at: usize, job: u64| format!("stage {at} comes after job {job}, and there is none of that number");
    // Whether it is there or not, whether it fits or not, and whatever else is wrong: bob hears the same.
    for job in [three, four, 99] {
        let reply = submit(&bob, &[job]).await;
        assert_eq!((reply.refusal(), reply.message()), ((400, "bad-request".to_owned()), none(0, job)));
        assert_eq!(submit(&bob, &[98, job]).await.message(), none(0, 98));
        assert_eq!(submit(&bob, &[of_bob, job]).await.message(), none(1, job));
    }
    let reply = submit(&ann, &[99]).await;
    assert_eq!((reply.refusal(), reply.message()), ((400, "bad-request".to_owned()), none(0, 99)));
    for user in [&ann, &olga] {
        let reply = submit(user, &[three]).await;
        assert_eq!(reply.status, 201, "{}", reply.message());
        let message = submit(user, &[four]).await.message();
        assert!(message.contains("4 by `same`"), "{message}");
    }
}
