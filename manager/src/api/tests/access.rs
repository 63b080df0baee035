//! Who has access, and from when on no more.

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::scene::{PATIENCE, Reply, Scene, echo};

/// Gives somebody access; the token and its id.
async fn add(scene: &Scene, body: Value) -> (String, String) {
    let reply = scene.call("POST", "/api/v1/users", &scene.user("olga", true), body.to_string()).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    let said = reply.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&said["token"]), text(&said["kept"]["id"]))
}

async fn status(scene: &Scene, token: &str) -> Reply {
    scene.call("GET", "/api/v1/status", token, Body::empty()).await
}

async fn revoke(scene: &Scene, token: &str, name: &str) -> Reply {
    scene.call("POST", &format!("/api/v1/users/{name}/revoke"), token, Body::empty()).await
}

#[tokio::test]
async fn a_user_who_is_added_has_access_until_that_is_revoked() {
    let scene = Scene::start().await;
    let olga = scene.user("olga", true);
    let (token, id) = add(&scene, json!({"user": "bob"})).await;
    assert_eq!(status(&scene, &token).await.json()["user"], "bob");
    let (second, _) = add(&scene, json!({"user": "bob", "is_operator": true})).await;
    let listed = scene.call("GET", "/api/v1/users", &olga, Body::empty()).await.json();
    let of = |listed: &Value, field: &str| -> Vec<Value> {
        listed["tokens"].as_array().unwrap().iter().map(|view| view[field].clone()).collect()
    };
    assert_eq!(of(&listed, "is_operator"), [json!(false), json!(true)]);
    assert_eq!(of(&listed, "state"), ["valid", "valid"]);
    assert!(listed["tokens"][0]["used_at"].is_u64() && listed["tokens"][1]["used_at"].is_null());
    assert_eq!(listed["tokens"][0]["made_by"], "olga");
    assert!(!listed.to_string().contains(&token[17..]), "no list has a token");

    let gone = revoke(&scene, &olga, &id).await;
    assert_eq!((gone.status, of(&gone.json(), "revoked_by")), (200, vec![json!("olga")]));
    let refused = status(&scene, &token).await;
    assert_eq!(refused.refusal(), (401, "revoked".to_owned()));
    assert!(
        refused.message().starts_with(&format!("token {id} of bob was revoked")),
        "{}",
        refused.message()
    );
    let guess = format!("{}{}", &token[..17], "A".repeat(43));
    assert_eq!(status(&scene, &guess).await.refusal(), (401, "unauthorized".to_owned()));
    assert_eq!(status(&scene, &second).await.status, 200, "the other one is as it was");
    // A name stands for all its tokens; once more changes nothing; the name may be used again.
    assert_eq!(of(&revoke(&scene, &olga, "bob").await.json(), "user"), ["bob"]);
    assert_eq!(status(&scene, &second).await.refusal(), (401, "revoked".to_owned()));
    assert_eq!(revoke(&scene, &olga, "bob").await.json(), json!({"tokens": []}));
    let (third, _) = add(&scene, json!({"user": "bob"})).await;
    assert_eq!(status(&scene, &third).await.status, 200);
    let all = scene.call("GET", "/api/v1/users?all=true", &olga, Body::empty()).await.json();
    assert_eq!(of(&all, "state"), ["revoked", "revoked", "valid"]);
    assert_eq!(revoke(&scene, &olga, "eve").await.refusal(), (404, "no-such-user".to_owned()));
}

#[tokio::test]
async fn jobs_belong_to_the_name_and_go_on_without_a_token() {
    let scene = Scene::start().await;
    let (token, id) = add(&scene, json!({"user": "bob"})).await;
    let body = json!({"spec": echo(3)}).to_string();
    let job = scene.call("POST", "/api/v1/jobs", &token, body).await.json()["job"].clone();
    let path = format!("/api/v1/jobs/{job}");
    assert_eq!(revoke(&scene, &scene.user("olga", true), &id).await.status, 200);
    assert_eq!(scene.get(&path).await.json()["state"], "active");
    let (again, _) = add(&scene, json!({"user": "bob"})).await;
    assert_eq!(scene.call("POST", &format!("{path}/pause"), &again, Body::empty()).await.status, 200);
    let olga = scene.user("olga", true);
    assert_eq!(scene.call("POST", &format!("{path}/cancel"), &olga, Body::empty()).await.status, 200);
}

#[tokio::test]
async fn users_see_and_revoke_their_own_tokens_only() {
    let scene = Scene::start().await;
    let (bobs, bobs_id) = add(&scene, json!({"user": "bob"})).await;
    let (_, anns_id) = add(&scene, json!({"user": "ann"})).await;
    let listed = scene.call("GET", "/api/v1/users?all=true", &bobs, Body::empty()).await.json();
    assert_eq!(
        (listed["tokens"].as_array().unwrap().len(), &listed["tokens"][0]["user"]),
        (1, &json!("bob"))
    );
    let add = scene.call("POST", "/api/v1/users", &bobs, json!({"user": "eve"}).to_string()).await;
    assert_eq!(add.refusal(), (403, "not-yours".to_owned()));
    // What is not there is told in the same way as what is somebody else's.
    for name in ["ann", anns_id.as_str(), "nobody", "0123456789ab"] {
        assert_eq!(revoke(&scene, &bobs, name).await.refusal(), (403, "not-yours".to_owned()), "{name}");
    }
    let gone = revoke(&scene, &bobs, &bobs_id).await;
    assert_eq!((gone.status, &gone.json()["tokens"][0]["state"]), (200, &json!("revoked")), "it is told");
    assert_eq!(status(&scene, &bobs).await.refusal(), (401, "revoked".to_owned()));
}

#[tokio::test]
async fn a_token_expires() {
    let scene = Scene::start().await;
    let (token, id) = add(&scene, json!({"user": "bob", "expires_in": 1})).await;
    let refused = status(&scene, &token).await;
    assert_eq!(refused.refusal(), (401, "expired".to_owned()));
    assert!(
        refused.message().starts_with(&format!("token {id} of bob has expired")),
        "{}",
        refused.message()
    );
    let (token, _) = add(&scene, json!({"user": "bob", "expires_in": 3_600_000_000_u64})).await;
    assert_eq!(status(&scene, &token).await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_a_users_token_is_refused() {
    let scene = Scene::start().await;
    for (body, said) in [
        (json!({"user": "a/b"}), "user: found `a/b` as a user's name"),
        (json!({"user": "0123456789ab"}), "reads like the id of a token"),
        (json!({"user": "bob", "expires_in": 0}), "expires_in: found 0"),
        (json!({"user": "bob", "operator": true}), "unknown field `operator`"),
        (json!({}), "missing field `user`"),
    ] {
        let reply = scene.call("POST", "/api/v1/users", &scene.user("olga", true), body.to_string()).await;
        assert_eq!(reply.status, 400);
        assert!(reply.message().contains(said), "{}", reply.message());
    }
}

/// Begins a request, reads something of its answer, and gives the rest to wait for.
async fn begun(scene: &Scene, path: &str, token: &str) -> hyper::Response<hyper::body::Incoming> {
    let request = Request::builder()
        .uri(path)
        .header("host", "here")
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
    scene.open(request).await
}

#[tokio::test]
async fn a_request_that_is_under_way_ends_when_its_token_is_revoked() {
    let scene = Scene::start().await;
    let (token, id) = add(&scene, json!({"user": "bob"})).await;
    // A file of which the rest never comes.
    let (more, rest) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    more.send(Ok(b"hel".to_vec())).await.unwrap();
    let body = Body::from_stream(futures_util::stream::unfold(rest, |mut rest| async {
        let piece = rest.recv().await?;
        Some((piece, rest))
    }));
    let path =
        format!("/api/v1/objects/{}", "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    let bringing = scene.call("PUT", &path, &token, body);
    let revoking = async {
        // It is heard of at the latest when it is refused; what was sent before is under way.
        while more.capacity() == 0 {
            tokio::task::yield_now().await;
        }
        revoke(&scene, &scene.user("olga", true), &id).await
    };
    let (brought, _) = tokio::join!(bringing, revoking);
    assert_eq!(brought.refusal(), (401, "revoked".to_owned()));
}

#[tokio::test]
async fn an_open_stream_ends_when_its_token_is_revoked_or_expires() {
    let scene = Scene::start().await;
    scene.submit(&echo(3)).await;
    let (bobs, id) = add(&scene, json!({"user": "bob", "is_operator": true})).await;
    let (short, _) = add(&scene, json!({"user": "bob", "is_operator": true, "expires_in": 300_000})).await;
    let (mut one, mut two) = (begun(&scene, "/api/v1/events", &bobs).await, None);
    // It may be over already on a machine with much to do.
    let other = begun(&scene, "/api/v1/events", &short).await;
    if other.status() == 200 {
        two = Some(other);
    }
    assert_eq!(one.status(), 200);
    let first = timeout(PATIENCE, one.body_mut().frame()).await.expect("news in time").unwrap().unwrap();
    assert!(first.into_data().unwrap().starts_with(b"event: job"));
    revoke(&scene, &scene.user("olga", true), &id).await;
    for stream in [Some(one), two].into_iter().flatten() {
        timeout(PATIENCE, stream.into_body().collect()).await.expect("its end in time").expect("an end");
    }
}
