//! Against what real services of release 2025.1 said: `transcripts/openstack`.

use std::{fs, path::Path};

use profiles::{
    cloud::{Cloud, Networks},
    site::Site,
};
use serde_json::{Value, json};

use super::{
    choice::{choose, choose_networks, read_flavors},
    identity::Microversion,
    servers::{
        AgentSource, Choice, NetworkChoice, asked, list_path, next_page, read_known, read_page, user_data,
        without_tokens,
    },
    wire::words_of,
};
use crate::{command::BatchState, testing::request};

/// What each file has of answers: status and body.
fn answers() -> Vec<(String, u16, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/openstack");
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("recordings").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).expect("a recording");
        for part in text.split("\n<<< ").skip(1) {
            let part = part.split("\n>>> ").next().unwrap_or(part).split("\n### ").next().unwrap_or(part);
            let Some(status) = part.split(' ').next().and_then(|word| word.parse().ok()) else { continue };
            let body = part.split_once("\n\n").map_or("", |(_, body)| body);
            all.push((name.clone(), status, body.trim().to_owned()));
        }
    }
    all
}

fn bodies(file: &str, key: &str) -> Vec<Value> {
    let of = |(name, _, body): &(String, u16, String)| {
        let body: Value = serde_json::from_str(body).ok().filter(|_| name.starts_with(file))?;
        body.get(key).is_some().then_some(body)
    };
    answers().iter().filter_map(of).collect()
}

fn cloud() -> Cloud {
    serde_yaml::from_str("image: pilot-image\nkey_pair: ada\nmetadata: {centre: lab}").expect("a cloud")
}

fn choice(networks: NetworkChoice) -> Choice {
    Choice { flavor: "f".into(), image: "i".into(), networks, server_group: None }
}

/// A server as lists have it.
fn server(status: &str, tag: &str) -> Value {
    json!({
        "id": "5d", "status": status, "metadata": { "pilotfish-allocation": tag },
        "tags": ["pilotfish", "pf1", tag], "OS-EXT-STS:task_state": null,
    })
}

#[test]
fn each_refusal_of_the_services_is_told_in_their_words() {
    let refusals: Vec<_> = answers().into_iter().filter(|(_, status, _)| *status >= 400).collect();
    assert!(refusals.len() > 40, "{}", refusals.len());
    for (name, status, body) in refusals {
        let words = words_of(&body);
        assert_eq!(words.is_empty(), body.is_empty(), "{name} {status}: {body}");
        assert!(!words.contains('<') && !words.starts_with('{'), "{name} {status}: {words}");
        assert!(words.split(' ').all(|word| word.len() <= 100), "{name} {status}: {words}");
    }
}

#[test]
fn flavors_images_and_networks_are_found() {
    let flavors: Vec<_> = bodies("05", "flavors").iter().filter_map(|body| read_flavors(body).ok()).collect();
    assert!(
        flavors.iter().any(|flavors| flavors.iter().any(|f| (f.name.as_str(), f.vcpus) == ("p1.medium", 4)))
    );
    let images = bodies("05", "images");
    assert!(images.iter().any(|body| choose("image", &body["images"], "pilot-image").is_ok()), "{images:?}");
    let networks = bodies("05", "networks");
    let named = Networks::Of(vec!["pilot-net".into()]);
    assert!(networks.iter().any(|body| choose_networks(&body["networks"], Some(&named)).is_ok()));
}

#[test]
fn pages_follow_their_links_without_their_host() {
    let pages = bodies("10", "servers_links");
    assert!(!pages.is_empty());
    for page in pages {
        let next = next_page("/servers/detail?tags=pilotfish", &page["servers_links"]).expect("a next page");
        assert!(next.starts_with("/servers/detail?limit=") && next.contains("&marker="), "{next}");
    }
    assert_eq!(next_page("/servers", &Value::Null), None);
    assert_eq!(
        list_path(Some("pf1-")),
        "/servers/detail?tags=pilotfish,pf1&sort_key=created_at&sort_dir=asc&limit=500"
    );
}

#[test]
fn servers_of_others_are_not_ours() {
    // Theirs have a tag of ours, or metadata of ours, or neither.
    for page in bodies("10", "servers").iter().chain(&bodies("06", "servers")) {
        assert_eq!(read_page(page).unwrap_or_default(), [], "{page}");
    }
    let mut copied = server("ACTIVE", "pf1-2");
    copied["metadata"] = json!({});
    let mut told = server("ACTIVE", "pf1-3");
    told["tags"] = json!(["pilotfish"]);
    let page = json!({ "servers": [copied, told, server("ACTIVE", "pf1-4")] });
    let tags: Vec<String> = read_page(&page).expect("a page").into_iter().map(|server| server.tag).collect();
    assert_eq!(tags, ["pf1-4"]);
}

#[test]
fn states_are_read_and_what_is_not_known_is_not_gone() {
    let of = |status: &str| {
        let page = json!({ "servers": [server(status, "pf1-2")] });
        read_page(&page).expect("a page").remove(0)
    };
    assert_eq!(of("BUILD").into_job().state, BatchState::Running);
    assert_eq!(of("ACTIVE").into_job().state, BatchState::Running);
    assert_eq!(of("SOFT_DELETED").into_job().state, BatchState::Ended);
    assert_eq!(of("TELEPORTING").into_job().state, BatchState::Unknown("TELEPORTING".into()));
    for status in ["SHUTOFF", "ERROR"] {
        assert!(of(status).is_over(), "it takes room until it is deleted");
        assert_ne!(of(status).into_job().state, BatchState::Ended);
    }
    // What was done to a server that ran may have failed, and its pilot works on; one may be on its way up.
    let mut ran = server("ERROR", "pf1-2");
    ran["OS-SRV-USG:launched_at"] = "2026-11-21T08:33:13.174430".into();
    let mut starts = server("SHUTOFF", "pf1-3");
    starts["OS-EXT-STS:task_state"] = "powering-on".into();
    let page = read_page(&json!({ "servers": [ran, starts] })).expect("a page");
    assert!(page.len() == 2 && !page.iter().any(|server| server.is_over()));
    let mut failed = server("ERROR", "pf1-2");
    failed["fault"] = json!({ "code": 500, "message": "No valid host was found. " });
    let failed = read_page(&json!({ "servers": [failed] })).expect("a page").remove(0);
    assert_eq!(failed.into_job().state, BatchState::NoRoom("No valid host was found.".into()));
    // Of a cell that is down Nova knows little.
    let little = json!({ "id": "5d", "status": "UNKNOWN", "links": [] });
    let known = read_known(&little, "5d".into(), "pf1-7".into());
    assert!(known.tag == "pf1-7" && !known.is_over() && known.into_job().state == BatchState::Running);
    let active = read_known(&server("ACTIVE", "pf1-2"), "x".into(), "y".into());
    assert_eq!((active.tag.as_str(), active.status.as_str()), ("pf1-2", "ACTIVE"));
    let unknown = json!({ "servers": [{ "id": "5d", "status": "UNKNOWN", "links": [] }] });
    assert!(read_page(&unknown).expect_err("no news").contains("a part of the cloud is down"));
    assert!(read_page(&json!({ "forbidden": {} })).is_err());
}

#[test]
fn the_newest_api_that_both_know_is_spoken() {
    let roots = bodies("01", "version");
    assert!(
        roots.iter().any(|root| Microversion::meant(root).is_ok_and(|meant| meant.to_string() == "2.79"))
    );
    let meant = |most: &str| Microversion::meant(&json!({ "version": { "version": most } }));
    assert_eq!(meant("2.60").map(|version| version.to_string()), Ok("2.60".into()));
    assert!(meant("2.38").expect_err("too old").contains("needs 2.52"));
    assert!(meant("").is_err());
}

#[test]
fn a_server_is_asked_for_with_what_was_said_of_it() {
    let body = asked(&cloud(), &choice(NetworkChoice::Ids(vec!["n".into()])), "#!/bin/sh\n", "pf1-2")
        .expect("a body");
    let server = &body["server"];
    assert_eq!(server["name"], "pf1-2");
    assert_eq!(server["metadata"], json!({ "centre": "lab", "pilotfish-allocation": "pf1-2" }));
    assert_eq!(server["tags"], json!(["pilotfish", "pf1", "pf1-2"]));
    assert_eq!(server["networks"], json!([{ "uuid": "n" }]));
    assert_eq!((&server["key_name"], &server["imageRef"]), (&json!("ada"), &json!("i")));
    assert_eq!(server["user_data"], "IyEvYmluL3NoCg==");
    let volume = Cloud { volume: Some(serde_yaml::from_str("20GiB").expect("a size")), ..cloud() };
    let group = Choice { server_group: Some("g".into()), ..choice(NetworkChoice::Auto) };
    let body = asked(&volume, &group, "", "pf1-2").expect("a body");
    assert_eq!(body["os:scheduler_hints"]["group"], "g");
    let device = &body["server"]["block_device_mapping_v2"][0];
    assert_eq!((&device["volume_size"], &device["uuid"]), (&json!(20), &json!("i")));
    assert!(body["server"].get("imageRef").is_none());
    let long = asked(&cloud(), &group, &"x".repeat(50_000), "pf1-2").expect_err("too long");
    assert!(long.contains("at most 65535"), "{long}");
}

#[test]
fn user_data_fetch_the_agent_by_its_hash_or_take_that_of_the_image() {
    let source = AgentSource {
        url: "https://m:1/agent/ab".into(),
        sha256: "ab".into(),
        arguments: vec!["agent".into()],
    };
    let site = Site { setup: vec!["mount /scratch".into()], ..Site::default() };
    let text = user_data(&site, &source, &request(1));
    assert!(
        text.starts_with("#!/bin/sh\n") && text.contains("trap poweroff EXIT\nmount /scratch\n"),
        "{text}"
    );
    assert!(
        text.contains("echo \"ab  $agent\" | sha256sum -c") && text.contains("https://m:1/agent/ab"),
        "{text}"
    );
    assert!(text.contains("\"$agent\" agent run --tag pf1-2 --join - <<"), "{text}");
    let site = Site { agent: Some("/opt/pilotfish-agent".into()), ..site };
    let text = user_data(&site, &AgentSource::default(), &request(1));
    assert!(text.contains("agent=/opt/pilotfish-agent\n") && !text.contains("curl"), "{text}");
}

#[test]
fn a_console_is_shown_without_tokens() {
    let console = "a {\"url\":\"u\",\"token\": \"hush\",\"tag\":1} b \"token\":\"hush";
    let shown = without_tokens(console);
    let data = without_tokens(&format!("a 'pfj_hush' b {} c", "aHVzaA".repeat(40)));
    assert_eq!(data, "a …\nb …\nc");
    assert_eq!(shown, "a {\"url\":\"u\",\"token\":\"…\",\"tag\":1} b \"token\":\"…\"");
}
