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
        .map(|(name, is_operator)| scene.user(name, is_operator));
    let submit = async |user: &str, jobs: &[u64]| -> Reply {
        scene.call("POST", "/api/v1/workflows", user, after(jobs).to_string()).await
    };
    let of_bob = scene.call("POST", "/api/v1/jobs", &bob, json!({"spec": echo(5)}).to_string()).await.json();
    let of_bob = of_bob["job"].as_u64().unwrap();
    let said = |reply: Reply| {
        assert_eq!(reply.refusal(), (400, "bad-request".to_owned()), "{}", reply.message());
        reply.json()["error"]["problems"].clone()
    };
    let none = |at: usize, job: u64| {
        let found = format!("job {job} is none of yours");
        json!([format!(
            "stages.stage-{at}.after: {found}; name a job of your own: `pilotfish jobs` lists everybody's"
        )])
    };
    // Whether it is there or not, whether it fits or not, and whatever else is wrong: bob hears the same.
    for job in [three, four, 99] {
        assert_eq!(said(submit(&bob, &[job]).await), none(0, job));
        assert_eq!(said(submit(&bob, &[98, job]).await), none(0, 98));
        assert_eq!(said(submit(&bob, &[of_bob, job]).await), none(1, job));
    }
    assert_eq!(said(submit(&ann, &[99]).await), none(0, 99));
    // A file of one job has no `stages`.
    let mut lone = after(&[99]);
    lone["workflow"]["stages"][0]["name"] = json!("flow");
    let reply = scene.call("POST", "/api/v1/workflows", &ann, lone.to_string()).await;
    assert_eq!(
        said(reply),
        json!(["after: job 99 is none of yours; name a job of your own: `pilotfish jobs` lists everybody's"])
    );
    for user in [&ann, &olga] {
        let reply = submit(user, &[three]).await;
        assert_eq!(reply.status, 201, "{}", reply.message());
        let message = submit(user, &[four]).await.message();
        assert!(message.contains("4 by `same`"), "{message}");
    }
}
