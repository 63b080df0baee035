//! Against what real services of release 2025.1 said: `transcripts/openstack`.

use std::{fs, path::Path, time::Instant};

use profiles::{
    cloud::{Cloud, Networks},
    site::Site,
};
use scheduler::resources::Resources;
use serde_json::{Value, json};

use super::{
    DELETE_AGAIN, OpenStack,
    choice::{choose, choose_flavor, choose_networks, in_use, n_servers_max, read_flavors},
    clouds::Surroundings,
    credentials::Credentials,
    identity::{Microversion, endpoints, life},
    locked,
    placement::read_provider,
    servers::{
        AgentSource, Choice, NetworkChoice, Server, asked, list_path, next_page, read_asked, read_known,
        read_page, user_data, without_tokens,
    },
    wire::{Answer, Service, Trouble, words_of},
};
use crate::{command::BatchState, testing::request};

/// What was said once: a request, and the answer.
pub(super) struct Said {
    pub(super) file: String,
    /// `METHOD PATH`, without the host.
    pub(super) asked: String,
    pub(super) status: u16,
    pub(super) body: String,
}

impl Said {
    pub(super) fn accepted(&self) -> Result<Value, Trouble> {
        Answer { status: self.status, body: self.body.clone(), ..Answer::default() }.accepted()
    }
}

/// All that was recorded.
pub(super) fn answers() -> Vec<Said> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/openstack");
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("recordings").flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).expect("a recording");
        for dialogue in text.split("\n>>> ").skip(1) {
            let words: Vec<&str> = dialogue.split_whitespace().take(2).collect();
            let path = words[1]
                .trim_start_matches("http://127.0.0.1:")
                .trim_start_matches(|c: char| c.is_ascii_digit());
            let asked = format!("{} {path}", words[0]);
            let Some((_, answer)) = dialogue.split_once("\n<<< ") else { continue };
            let answer = answer.split("\n### ").next().unwrap_or(answer);
            let Some(status) = answer.split(' ').next().and_then(|word| word.parse().ok()) else { continue };
            let body = answer.split_once("\n\n").map_or("", |(_, body)| body).trim().to_owned();
            all.push(Said { file: file.clone(), asked, status, body });
        }
    }
    all
}

/// Bodies of a file's answers that are JSON and have that key.
fn bodies(file: &str, key: &str) -> Vec<Value> {
    let of = |said: &Said| {
        let body: Value = serde_json::from_str(&said.body).ok().filter(|_| said.file.starts_with(file))?;
        body.get(key).is_some().then_some(body)
    };
    answers().iter().filter_map(of).collect()
}

/// Who enters; `more`: of a cloud in clouds.yaml.
pub(super) fn credentials(more: &str) -> Credentials {
    let auth =
        "auth: {auth_url: 'http://k/v3', application_credential_id: a, application_credential_secret: b}";
    let text = format!("clouds: {{c: {{auth_type: v3applicationcredential, {auth}, {more}}}}}");
    let around = Surroundings { variable: &|_| None, file: &|_| Ok(text.clone().into_bytes()) };
    Credentials::find(Some("c"), Some(Path::new("clouds.yaml")), &around).expect("credentials")
}

pub(super) fn cloud() -> Cloud {
    serde_yaml::from_str("image: pilot-image\nkey_pair: ada\nmetadata: {centre: lab}").expect("a cloud")
}

pub(super) fn choice(networks: NetworkChoice) -> Choice {
    Choice { flavor: "f".into(), image: "i".into(), networks, server_group: None }
}

/// A server as lists have it.
fn server(status: &str, tag: &str) -> Value {
    json!({
        "id": "5d", "status": status, "metadata": { "pilotfish-allocation": tag },
        "tags": ["pilotfish", "pf1", tag], "OS-EXT-STS:task_state": null,
    })
}

/// What is known of one that has run.
fn known(status: &str, task_state: Option<&str>) -> Server {
    let mut server = server(status, "pf1-2");
    server["OS-EXT-STS:task_state"] = task_state.into();
    server["OS-SRV-USG:launched_at"] = "2026-11-27T21:30:26.000000".into();
    read_known(&server, "5d".to_owned(), "pf1-2".to_owned())
}

#[test]
fn what_was_to_be_deleted_is_deleted_again_but_for_a_minute_while_it_is_on_its_way_out() {
    let site = Site { cloud: Some(cloud()), ..Site::default() };
    let project = || OpenStack::new(&site, &Resources::default()).expect("a project");
    let over = project();
    assert!(over.is_to_go(&known("SHUTOFF", None)));
    assert!(!over.is_to_go(&known("ERROR", None)), "its pilot may work on");
    for task_state in ["deleting", "soft-deleting"] {
        let (cloud, leaving) = (project(), known("ACTIVE", Some(task_state)));
        assert!(cloud.is_going(&leaving), "whoever has it deleted");
        cloud.note(std::slice::from_ref(&leaving));
        assert!(cloud.is_going(&leaving) && !cloud.is_to_go(&leaving));
        assert!(cloud.is_to_go(&known("ERROR", None)), "Nova has failed to");
        assert!(!cloud.is_to_go(&known("SOFT_DELETED", None)));
        let long_ago = Instant::now().checked_sub(DELETE_AGAIN).expect("the host has run for longer");
        locked(&cloud.deleted).insert("5d".to_owned(), long_ago);
        cloud.note(std::slice::from_ref(&leaving));
        assert!(cloud.is_to_go(&leaving), "it is on its way out for too long");
        cloud.note(&[]);
        assert!(!cloud.is_to_go(&known("ERROR", None)), "nothing is kept of one that is gone");
    }
}

#[test]
fn each_refusal_of_the_services_is_told_in_their_words() {
    let refusals: Vec<_> = answers().into_iter().filter(|said| said.status >= 400).collect();
    assert!(refusals.len() > 40, "{}", refusals.len());
    for Said { file: name, status, body, .. } in refusals {
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
fn a_server_whose_tags_a_stranger_removed_is_read_like_any_other_and_deleted_when_it_is_over() {
    let mut stripped = server("SHUTOFF", "pf1-2");
    stripped["OS-SRV-USG:launched_at"] = "2026-11-27T21:30:26.000000".into();
    let listed = read_page(&json!({ "servers": [stripped] })).expect("a page").remove(0);
    for (tags, metadata) in [
        (json!([]), json!({ "pilotfish-allocation": "pf1-2" })),
        (json!(["pilotfish", "pf1"]), json!({})),
        (json!([]), json!({})),
        (json!(["pilotfish", "pf9", "pf9-1"]), json!({ "pilotfish-allocation": "pf9-1" })),
    ] {
        (stripped["tags"], stripped["metadata"]) = (tags, metadata);
        let known = read_known(&stripped, "5d".to_owned(), "pf1-2".to_owned());
        assert!(known == listed && known.is_over(), "{stripped}");
    }
}

#[test]
fn endpoints_are_those_of_the_interface_and_the_region_unless_the_file_says_where_a_service_is() {
    let endpoint = |interface: &str, region: &str| json!({ "interface": interface, "region_id": region, "url": format!("http://{interface}.{region}/v2.1") });
    let all = json!([endpoint("public", "one"), endpoint("internal", "one"), endpoint("internal", "two")]);
    let catalog = json!([{ "type": "compute", "endpoints": all }, { "type": "image", "endpoints": all }]);
    let of = |more: &str| endpoints(&catalog, &credentials(more));
    let found = of("region_name: one, compute_interface: internal").expect("endpoints");
    assert_eq!(found[0], (Service::Compute, "http://internal.one/v2.1".into()));
    assert_eq!(found[1], (Service::Image, "http://public.one/v2.1".into()));
    let found = of("region_name: two, compute_endpoint_override: 'http://nova/v2.1/'").expect("endpoints");
    assert_eq!(found, [(Service::Compute, "http://nova/v2.1".into())], "none is public there");
    assert!(
        of("region_name: two")
            .expect_err("none is public")
            .contains("no public compute service in region two")
    );
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
    assert_eq!((active.tag.as_str(), active.status.as_str()), ("y", "ACTIVE"));
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
    let device = json!([{
        "boot_index": 0, "uuid": "i", "source_type": "image", "destination_type": "volume", "volume_size": 20,
        "delete_on_termination": true,
    }]);
    assert_eq!(body["server"]["block_device_mapping_v2"], device);
    assert_eq!(body["server"]["config_drive"], true);
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

/// Reads what was asked for as the adapter does; `None`: it never asks that.
fn read(asked: &str, body: &Value) -> Option<Result<(), String>> {
    let path = asked.split('?').next().unwrap_or(asked);
    let words: Vec<&str> = path.split('/').collect();
    let there = |is_there: bool| if is_there { Ok(()) } else { Err("it is not found there".to_owned()) };
    Some(match words[..] {
        // Without a project, or when told so, Keystone gives no catalog: then nobody knows where Nova is.
        ["POST ", "v3", "auth", "tokens"] => {
            let known = endpoints(&body["token"]["catalog"], &credentials("region_name: RegionOne"));
            there(known.is_ok() == body["token"]["catalog"].is_array())
        }
        // Others do not say which version of Nova's API they speak.
        ["GET ", ""] if body["versions"][0]["id"] != "v2.0" || body["versions"][1]["id"] != "v2.1" => {
            return None;
        }
        ["GET ", ""] | ["GET ", "v2.1", ""] => Microversion::meant(body).map(drop),
        ["POST ", "v2.1", "servers"] if body.get("reservation_id").is_some() => return None,
        ["POST ", "v2.1", "servers"] => {
            read_asked(Ok(body.clone())).map(drop).map_err(|error| error.to_string())
        }
        ["GET ", "v2.1", "servers", "detail"] => read_page(body).map(drop),
        ["GET ", "v2.1", "servers", id] => {
            there(read_known(&body["server"], id.into(), "pf1-2".into()).status == body["server"]["status"])
        }
        ["POST ", "v2.1", "servers", _, "action"] => {
            without_tokens(body["output"].as_str().unwrap_or_default());
            there(body.is_null() || body["output"].is_string())
        }
        ["DELETE ", "v2.1", "servers", _] => there(body.is_null()),
        ["GET ", "v2.1", "flavors", "detail"] => read_flavors(body).map(drop),
        ["GET ", "v2.1", "limits"] => there(in_use(body).contains("vCPUs")),
        ["GET ", "v2", "images"] => choose("image", &body["images"], "pilot-image").map(drop),
        ["GET ", "v2.0", "networks"] => there(body["networks"][0]["id"].is_string()),
        ["POST ", "v2.1", "os-server-groups"] => {
            let groups = json!([body["server_group"]]);
            choose("server group", &groups, body["server_group"]["name"].as_str().unwrap_or_default())
                .map(drop)
        }
        ["GET ", "resource_providers"] => there(
            body["resource_providers"]
                .as_array()
                .is_some_and(|all| all.iter().all(|host| !read_provider(host, &Value::Null).id.is_empty())),
        ),
        [_, "resource_providers", _, "inventories", "VCPU"] => {
            let ratio = read_provider(&Value::Null, body).ratio;
            there(ratio.parse::<f64>().is_ok() && body["resource_provider_generation"].is_u64())
        }
        _ => return None,
    })
}

#[test]
fn whatever_was_done_is_read() {
    // What the recordings' author has asked for to know it, and what administrators do.
    const NEVER_ASKED: [&str; 24] = [
        "GET /v3/",
        "HEAD /v3/auth/tokens",
        "DELETE /v3/",
        "POST /v3/users/",
        "GET /allocation_candidates",
        "GET /allocations/",
        "GET /resource_providers/",
        "GET /v2.1/servers",
        "PUT /v2.1/servers/",
        "POST /v2.1/servers",
        "GET /v2.1/flavors",
        "GET /v2.1/os-aggregates/",
        "POST /v2.1/os-aggregates",
        "DELETE /v2.1/os-aggregates/",
        "GET /v2.1/os-availability-zone",
        "GET /v2.1/os-hypervisors/",
        "GET /v2.1/os-services",
        "PUT /v2.1/os-services/",
        "GET /v2.1/os-quota-sets/",
        "PUT /v2.1/os-quota-sets/",
        "GET /v2.1/os-simple-tenant-usage/",
        "GET /v2.1/os-server-groups/",
        "DELETE /v2.1/os-server-groups/",
        "POST /v2.1/os-keypairs",
    ];
    let mut n_read = 0;
    for said in answers().iter().filter(|said| (200..300).contains(&said.status)) {
        let Said { file, asked, .. } = said;
        let body = said.accepted().unwrap_or_else(|trouble| panic!("{file}: {asked}: {trouble}"));
        match read(asked, &body) {
            Some(result) => assert_eq!((n_read += 1, result).1, Ok(()), "{file}: {asked}: {body}"),
            None => {
                let is_root = asked == "GET /";
                let is_never_asked = NEVER_ASKED.iter().any(|begins| asked.starts_with(begins));
                assert!(is_root || is_never_asked, "{file}: nobody reads {asked}");
            }
        }
    }
    assert!(n_read > 60, "{n_read}");
}

#[test]
fn recorded_servers_that_are_ours_are_read_as_what_they_are() {
    let mut seen = Vec::new();
    for file in ["06", "09", "10", "12", "16"] {
        let one = bodies(file, "server").into_iter().map(|body| body["server"].clone());
        let many = bodies(file, "servers").into_iter().flat_map(|body| body["servers"].as_array().cloned());
        for mut server in one.chain(many.flatten()).filter(|server| server["metadata"].is_object()) {
            server["metadata"]["pilotfish-allocation"] = "pf1-2".into();
            server["tags"] = json!(["pilotfish", "pf1", "pf1-2"]);
            let page = read_page(&json!({ "servers": [server] })).expect("a page");
            let [read] = &page[..] else { panic!("{server}") };
            let task = server["OS-EXT-STS:task_state"].as_str();
            assert_eq!(
                (read.id.as_str(), read.is_leaving),
                (server["id"].as_str().unwrap_or(""), task == Some("deleting"))
            );
            let expected = match read.status.as_str() {
                "SHUTOFF" => task.is_none(),
                "ERROR" => true,
                "ACTIVE" | "BUILD" | "DELETED" => false,
                other => panic!("{other}"),
            };
            assert_eq!(read.is_over(), expected, "{server}");
            assert_eq!(
                read.fault.is_some(),
                read.status == "ERROR" && server["fault"].is_object(),
                "{server}"
            );
            seen.push((file, read.status.clone(), read.clone().into_job().state));
        }
    }
    let has =
        |file: &str, status: &str| seen.iter().any(|(from, is, _)| (*from, is.as_str()) == (file, status));
    for (file, status) in [
        ("06", "BUILD"),
        ("06", "ACTIVE"),
        ("06", "SHUTOFF"),
        ("09", "ERROR"),
        ("12", "ERROR"),
        ("16", "ACTIVE"),
    ] {
        assert!(has(file, status), "{file} {status}: {seen:?}");
    }
    let no_room = |file: &str| {
        seen.iter().any(|(from, _, state)| *from == file && matches!(state, BatchState::NoRoom(_)))
    };
    let stuck = seen.iter().any(|(from, _, state)| *from == "09" && matches!(state, BatchState::Stuck(_)));
    assert!(no_room("09") && stuck, "{seen:?}");
}

#[test]
fn a_token_says_how_long_it_lives_and_where_the_services_are() {
    let public = "http://127.0.0.1:26901/v2.1";
    for (file, seconds) in [("02", 3600), ("03", 3600), ("19", 60)] {
        for token in bodies(file, "token").into_iter().map(|body| body["token"].clone()) {
            let lives = life(&token).as_secs();
            assert!(lives <= seconds && lives > 0, "{file}: {lives}");
            if token["catalog"].is_array() {
                let found =
                    endpoints(&token["catalog"], &credentials("region_name: RegionOne")).expect("endpoints");
                assert!(found.contains(&(Service::Compute, public.to_owned())), "{found:?}");
                assert_eq!(found.len(), 4, "{found:?}");
            }
        }
    }
    assert_eq!(life(&json!({})).as_secs(), 3600, "where nothing is said");
}

#[test]
fn of_several_regions_one_must_be_said_and_of_several_interfaces_one_is_meant() {
    let mut catalog = bodies("02", "token")[0]["token"]["catalog"].clone();
    for service in catalog.as_array_mut().expect("a catalog") {
        let mut more = service["endpoints"].clone();
        for endpoint in more.as_array_mut().expect("endpoints") {
            let url = format!("http://two/{}/0123abcd", endpoint["interface"].as_str().unwrap_or(""));
            (endpoint["region_id"], endpoint["url"]) = ("Two".into(), url.into());
        }
        let more = more.as_array().expect("endpoints").clone();
        service["endpoints"].as_array_mut().expect("endpoints").extend(more);
    }
    let of = |more: &str| endpoints(&catalog, &credentials(more));
    let compute = |more: &str| {
        let found = of(more).expect("endpoints");
        found.into_iter().find(|(service, _)| *service == Service::Compute).expect("a URL").1
    };
    assert_eq!(compute("region_name: RegionOne"), "http://127.0.0.1:26901/v2.1");
    assert_eq!(compute("region_name: Two"), "http://two/public/0123abcd", "a project's id in it stays");
    assert_eq!(compute("region_name: Two, interface: internal"), "http://two/internal/0123abcd");
    let several = of("verify: true").expect_err("two regions");
    assert!(several.contains("set `region_name`, one of RegionOne, Two"), "{several}");
    let none = of("region_name: Three").expect_err("no such region");
    assert!(
        none.contains("no public compute service in region Three; its regions are RegionOne, Two"),
        "{none}"
    );
}

#[test]
fn limits_and_inventories_are_read() {
    let limits = bodies("11", "limits");
    let flavors = bodies("05", "flavors").iter().find_map(|body| read_flavors(body).ok()).expect("flavors");
    let small =
        choose_flavor(&flavors, Some("p1.small"), &scheduler::resources::Resources::cores(1)).expect("one");
    assert_eq!(n_servers_max(&limits[0], &small), Some(10), "{}", limits[0]);
    assert_eq!(in_use(&limits[0]), "0 of 10 servers, 0 of 20 vCPUs, 0 of 51200 MiB of memory");
    assert!(
        limits.iter().any(|limits| n_servers_max(limits, &small) == Some(3)),
        "6 cores are enough for three"
    );
    let unlimited = limits.last().expect("limits");
    assert!(in_use(unlimited).contains("no limit"), "{unlimited}");
    for file in ["14", "18"] {
        let inventories = bodies(file, "allocation_ratio");
        let ratios: Vec<String> =
            inventories.iter().map(|one| read_provider(&Value::Null, one).ratio).collect();
        assert!(
            ratios.iter().any(|ratio| ratio == if file == "14" { "4.0" } else { "1.25" }),
            "{file}: {ratios:?}"
        );
    }
}
