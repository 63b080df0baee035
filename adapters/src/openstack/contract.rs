//! What holds of every adapter, of this one: it has no commands, so its pure parts are asked.

use base64::Engine as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    choice::{choose, choose_networks, in_use, n_servers_max, read_flavors},
    identity::{Microversion, endpoints, life},
    placement::read_provider,
    servers::{
        AgentSource, NetworkChoice, asked, fault, next_page, read_asked, read_known, read_page, user_data,
        without_tokens,
    },
    tests::{answers, choice, cloud, credentials},
    wire::{Answer, Trouble, words_of},
};
use crate::testing::request;

fn accepted(status: u16, body: &str) -> Result<Value, Trouble> {
    Answer { status, body: body.to_owned(), ..Answer::default() }.accepted()
}

#[test]
fn an_allocation_has_its_tag_and_its_secret_is_in_the_user_data_alone() {
    let request = request(1);
    let data = user_data(&Default::default(), &AgentSource::default(), &request);
    assert!(data.contains("secret"), "the document is handed on: {data}");
    let body = asked(&cloud(), &choice(NetworkChoice::None), &data, &request.tag).expect("a body");
    let server = &body["server"];
    assert_eq!(server["name"], request.tag.as_str());
    assert!(
        server["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| *tag == request.tag.as_str()))
    );
    assert_eq!(server["metadata"]["pilotfish-allocation"], request.tag.as_str());
    let sent = server["user_data"].as_str().expect("user data");
    assert_eq!(base64::engine::general_purpose::STANDARD.decode(sent).expect("base64"), data.as_bytes());
    let mut rest = body.clone();
    rest["server"]["user_data"] = Value::Null;
    assert!(!rest.to_string().contains("secret") && !rest.to_string().contains(sent), "{rest}");
}

#[test]
fn no_answer_is_neither_yes_nor_nothing() {
    let bodies = [
        "",
        "\n",
        "what?",
        "{}",
        "[]",
        "null",
        "7",
        "<html><h1>It works</h1></html>",
        "{\"servers\": {}}",
        "{\"servers\": [{}]}",
        "{\"server\": {}}",
        "{\"server\": {\"id\": \"\"}}",
        "{\"server\": {\"id\": 7}}",
        "\0\u{fffd}",
    ];
    for status in 100..600 {
        for body in bodies {
            let answer = accepted(status, body);
            assert!(read_asked(answer.clone()).is_err(), "{status}: {body}");
            assert!(answer.map_err(|trouble| trouble.to_string()).and_then(|page| read_page(&page)).is_err());
        }
    }
    // Who has refused has not done it; of who has failed nobody knows.
    for (status, is_refused) in
        [(400, true), (403, true), (404, true), (409, true), (429, true), (500, false), (504, false)]
    {
        let refusal = read_asked(accepted(status, "")).expect_err("no server");
        assert_eq!(matches!(refusal, crate::command::AdapterError::Refused(_)), is_refused, "{status}");
    }
}

/// Puts something strange in the place of the `n`th value of a tree.
fn spoilt(tree: &mut Value, n: &mut usize, strange: &Value) {
    if *n == 0 {
        *tree = strange.clone();
    }
    *n = n.wrapping_sub(1);
    match tree {
        Value::Array(all) => all.iter_mut().for_each(|one| spoilt(one, n, strange)),
        Value::Object(all) => all.values_mut().for_each(|one| spoilt(one, n, strange)),
        _ => {}
    }
}

proptest! {
    /// Whatever a service ever said, with something strange in it, is read by all: an error at worst, an id that
    /// can be handed back, and no server of which the page says nothing.
    #[test]
    fn answers_of_all_kinds_are_read(
        which in any::<prop::sample::Index>(), place in 0usize..200, status in prop::sample::select(vec![200u16, 202, 404, 500]),
        strange in prop::sample::select(vec![json!(null), json!(""), json!(-1), json!([]), json!({}), json!([[]]), json!("\u{0}/?&")]),
    ) {
        let all = answers();
        let said = which.get(&all);
        let mut body: Value = serde_json::from_str(&said.body).unwrap_or_else(|_| said.body.clone().into());
        let n_servers = body["servers"].as_array().map_or(0, Vec::len);
        spoilt(&mut body, &mut place.clone(), &strange);
        let text = body.to_string();
        let credentials = credentials("region_name: RegionOne");
        // Words and errors are for people; any is as good as another here.
        let _ = (words_of(&text), without_tokens(&text), read_flavors(&body), choose("image", &body["images"], "a"));
        let _ = (choose_networks(&body["networks"], None), Microversion::meant(&body), life(&body["token"]));
        let _ = (endpoints(&body["token"]["catalog"], &credentials), in_use(&body), fault(&body["server"]));
        let _ = (read_provider(&body, &body), read_known(&body["server"], "i".into(), "t".into()));
        let flavors = read_flavors(&body).unwrap_or_default();
        let _ = flavors.iter().map(|flavor| n_servers_max(&body, flavor)).collect::<Vec<_>>();
        let _ = next_page("/servers", &body["servers_links"]);
        if let Ok(id) = read_asked(accepted(status, &text)) {
            prop_assert!(status < 300 && !id.is_empty(), "{id:?}");
        }
        if let Ok(servers) = read_page(&body) {
            prop_assert!(body["servers"].is_array() && servers.len() <= n_servers.max(1));
        }
    }
}
