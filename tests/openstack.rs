//! Pilots on servers of a real OpenStack: sweeps complete whatever becomes of servers, services and the manager, and
//! no server is left behind.

use std::fs;

use serde_json::Value;
use tests::{
    Sandbox,
    between::{Between, Fate, answer},
    free_port,
    openstack::{OpenStack, installed},
    scene::Scene,
    text, until,
};

/// A cloud, and a manager with pilots there.
fn start(openstack: &str) -> Option<Scene<OpenStack>> {
    let sandbox = Sandbox::new();
    let cloud = OpenStack::start(&sandbox, &[])?;
    let fields = cloud.fields(openstack, "");
    Some(Scene::start(sandbox, cloud, &fields))
}

/// Lets the sweep's tasks wait for the file `go`, and submits it.
fn submit_held_up(scene: &Scene<OpenStack>) {
    let go = scene.sandbox.path().join("go");
    scene.write_job(&format!("until [ -e {} ]; do sleep 0.05; done", go.display()));
    scene.sandbox.ok(&["submit", "job.yaml"]);
}

/// What the platform's last failure was.
fn failure(scene: &Scene<OpenStack>) -> String {
    scene.sandbox.json(&["platforms"])[0]["last_failure"].as_str().unwrap_or("").to_owned()
}

#[test]
fn a_sweep_runs_on_as_many_servers_as_the_quota_allows() {
    let Some(mut scene) = start("metadata: {centre: lab}") else { return };
    let check = ["platform", "check", "cloud", "--config", "manager.yaml"];
    let checked = scene.sandbox.ok(&check);
    for expected in
        ["flavor p1.small (2 vCPUs, 512 MiB)", "0 of 10 servers", "came home", "nothing is left there"]
    {
        assert!(checked.contains(expected), "{checked}");
    }
    scene.platform.allow(1);
    submit_held_up(&scene);
    until("the operator is told", || failure(&scene).contains("Quota exceeded"));
    // Two that are asked for at a time may both be too many for Nova: then one comes later.
    scene.until_executed(1);
    let active = |servers: Vec<Value>| -> Vec<Value> {
        servers.into_iter().filter(|server| server["status"] == "ACTIVE").collect()
    };
    let servers = active(scene.platform.servers());
    assert_eq!(servers.len(), 1, "the quota allows no more");
    let tag = servers[0]["name"].as_str().expect("a name");
    assert_eq!(servers[0]["metadata"]["pilotfish-allocation"], tag);
    assert_eq!(servers[0]["metadata"]["centre"], "lab");
    let tags = servers[0]["tags"].as_array().expect("tags");
    assert!(tags.contains(&"pilotfish".into()) && tags.contains(&tag.into()), "{tags:?}");
    scene.platform.allow(10);
    until("a second server is there", || active(scene.platform.servers()).len() == 2);
    scene.sandbox.write("go", "");
    scene.ends_well(0);
    let wrote = scene.sandbox.read(&format!("home/.pilotfish/default/pilots/{tag}/job.log"));
    assert!(wrote.contains(": OK") && wrote.contains("registered"), "what the server wrote is kept: {wrote}");

    // A manager that is stopped leaves nothing, whatever its servers do.
    scene.serve();
    scene.sandbox.ok(&["submit", "--", "sleep", "600"]);
    until("a server works", || active(scene.platform.servers()).len() == 1);
    scene.sandbox.ok(&["cancel", "2"]);
    scene.stops();
    until("no server is left", || scene.platform.servers().is_empty());
}

#[test]
fn our_servers_are_apart_on_whichever_page_and_nobody_elses_are_touched() {
    let sandbox = Sandbox::new();
    let pages_of_one = [("OPENSTACK_TEST_EXTRA_CONF", "osapi_max_limit = 1")];
    let Some(cloud) = OpenStack::start(&sandbox, &pages_of_one) else { return };
    cloud.add_server_group("apart");
    let copy = cloud.add_copy();
    let fields = cloud.fields("server_group: apart", "").replace("pilots_max: 2", "pilots_max: 3");
    let mut scene = Scene::start(sandbox, cloud, &fields);
    submit_held_up(&scene);
    // Two hosts have room for two of them.
    until("the operator is told", || failure(&scene).contains("not enough hosts available"));
    scene.until_executed(4);
    let active = |scene: &Scene<OpenStack>| -> Vec<Value> {
        let is_ours = |server: &Value| server["status"] == "ACTIVE" && server["id"] != copy.as_str();
        scene.platform.servers().into_iter().filter(is_ours).collect()
    };
    let servers = active(&scene);
    let hosts = [0, 1].map(|n: usize| servers[n]["OS-EXT-SRV-ATTR:host"].clone());
    assert!(servers.len() == 2 && hosts[0] != hosts[1], "{hosts:?}");

    // Somebody deletes one that works: another takes its place.
    let deleted = servers[0]["id"].as_str().expect("an id");
    scene.platform.delete(deleted);
    until("another one works", || scene.sandbox.json(&["pilots"]).as_array().map(Vec::len) == Some(2));
    scene.until_executed(6);

    // When it is drained, what has begun ends, and nothing is left but what somebody else has there.
    scene.sandbox.ok(&["platform", "drain", "cloud"]);
    scene.sandbox.write("go", "");
    until("ours have gone", || scene.platform.servers().len() == 1);
    assert_eq!(scene.platform.servers()[0]["id"], copy.as_str());
    assert_ne!(scene.sandbox.json(&["job", "1"])["counts"]["done"], 200, "more waits than had begun");
    scene.sandbox.ok(&["platform", "resume", "cloud"]);
    scene.until_done();
    until("idle pilots have left", || scene.platform.servers().len() == 1);
    scene.platform.delete(&copy);
    scene.ends_well(2);
}

#[test]
fn what_becomes_of_servers_that_fail_is_told_and_nothing_is_left_of_them() {
    let sandbox = Sandbox::new();
    // A token lives for twelve seconds: it is renewed all the time.
    let Some(cloud) = OpenStack::start(&sandbox, &[("OPENSTACK_TEST_TOKEN_SECONDS", "12")]) else { return };
    let configure = |sandbox: &Sandbox, openstack: &str, fields: &str| {
        let entry = format!("platforms: [{{cores: 2, {}}}]\n", cloud.fields(openstack, fields));
        sandbox.write("manager.yaml", &entry);
    };
    let probe = |sandbox: &Sandbox| {
        let output =
            sandbox.run(&["platform", "check", "cloud", "--config", "manager.yaml", "--wait", "60s"]);
        (output.status.code(), text(&output.stdout))
    };
    for (openstack, fields, expected) in [
        // The scheduler, the hypervisor, the network.
        ("flavor: p1.huge", "", "No valid host was found"),
        ("metadata: {'test:spawn': abort}", "", "aborted"),
        ("metadata: {'test:spawn': refuse}", "", "Exceeded maximum number of retries"),
        // The agent.
        ("", "setup: [echo the disk is full, exit 1]", "the disk is full"),
        // Nova refuses.
        ("availability_zone: mars", "", "availability zone"),
        ("security_groups: [nobody]", "", "came home"),
    ] {
        configure(&sandbox, openstack, fields);
        let (code, said) = probe(&sandbox);
        let is_well = expected == "came home";
        assert!(said.contains(expected) && said.contains("nothing is left"), "{openstack} {fields}: {said}");
        assert_eq!(code, Some(if is_well { 0 } else { 3 }), "{said}");
        until("no server is left", || cloud.servers().is_empty());
    }
    for (openstack, expected) in [
        ("flavor: p9.none", "found no flavor `p9.none`; there are p1"),
        ("flavor: p1.tiny", "has not what a pilot is to offer"),
        ("key_pair: mine", "found no key pair `mine`"),
        ("server_group: ours", "found no server group `ours`"),
    ] {
        configure(&sandbox, openstack, "");
        let (code, said) = probe(&sandbox);
        assert!(code == Some(3) && said.contains(expected), "{openstack}: {said}");
    }
    let manager = sandbox.read("manager.yaml");
    for (from, to, expected) in [
        ("pilot-image", "debian-13", "found no image `debian-13`; there are pilot-image"),
        (", networks: none", "", "found several networks; say `networks:`, one of pilot-net, unbound"),
        ("networks: none", "networks: lab", "found no network `lab`; there are pilot-net"),
        ("cloud: appcred", "cloud: nowhere", "found no cloud `nowhere`; there are demo, admin, appcred"),
    ] {
        sandbox.write("manager.yaml", &manager.replace(", server_group: ours", "").replace(from, to));
        let (code, said) = probe(&sandbox);
        assert!(code == Some(3) && said.contains(expected), "{to}: {said}");
    }
    // Whoever knows the password only nearly.
    let clouds = fs::read_to_string(cloud.clouds_file()).expect("clouds.yaml");
    let secret =
        clouds.split("secret\": \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a secret");
    let wrong = sandbox.write("wrong.yaml", &clouds.replace(secret, "no-such-secret"));
    let wrong = manager.replace(&cloud.clouds_file().display().to_string(), &wrong.display().to_string());
    sandbox.write("manager.yaml", &wrong);
    let (code, said) = probe(&sandbox);
    assert!(code == Some(3) && said.contains("the credential is refused: 401"), "{said}");
    assert!(!said.contains("no-such-secret"), "{said}");
    // … or had one that was taken away.
    cloud.revoke();
    sandbox.write("manager.yaml", &manager);
    let (code, said) = probe(&sandbox);
    assert!(code == Some(3) && said.contains("the credential is refused: 404"), "{said}");
}

#[test]
fn answers_that_are_lost_late_or_bad_cost_nothing_and_leave_no_server() {
    let sandbox = Sandbox::new();
    let Some(mut cloud) = OpenStack::start(&sandbox, &[]) else { return };
    cloud.environment = vec![("PILOTFISH_LOG".to_owned(), "trace".to_owned())];
    let between = Between::start(cloud.nova());
    cloud.lead_to(&between.address());
    let fields = cloud.fields("", "");
    let (post, list) = ("POST /v2.1/servers ", "GET /v2.1/servers/detail");
    // Whoever wants to be asked later, a service that is away, an answer that is none.
    between.next(post, answer("429 Too Many Requests", "Retry-After: 2\r\n", ""));
    let html = "<html><body><h1>503 Service Unavailable</h1></body></html>";
    between.next(post, answer("503 Service Unavailable", "Content-Type: text/html\r\n", html));
    between.next(post, Fate::Lost);
    for _ in 0..2 {
        between.next(
            list,
            answer("500 Internal Server Error", "", "{\"computeFault\": {\"message\": \"no database\"}}"),
        );
        between.next(list, answer("502 Bad Gateway", "Content-Type: text/html\r\n", html));
        between.next(list, answer("200 OK", "Content-Type: text/html\r\n", html));
    }
    between.next(list, answer("200 OK", "Content-Type: application/json\r\n", &" ".repeat(65 << 20)));
    // While a cell is down its servers are left out.
    let none = "{\"servers\": []}";
    let mut scene = Scene::start(sandbox, cloud, &fields);
    submit_held_up(&scene);
    until("the cloud asks for patience", || failure(&scene).contains("wants no request for"));
    until("both servers are there", || {
        scene.sandbox.json(&["pilots"]).as_array().is_some_and(|all| all.len() == 2)
    });
    assert_eq!(scene.platform.servers().len(), 2, "what was done and not told was found again");
    let states = || -> Vec<Value> {
        let all = scene.sandbox.json(&["allocation", "list", "--all"]);
        all.as_array().expect("a list").iter().map(|held| held["state"].clone()).collect()
    };
    let (n_lists, before) = (between.n_seen(list), states());
    (0..2).for_each(|_| between.next(list, answer("200 OK", "Content-Type: application/json\r\n", none)));
    until("servers are left out of lists", || between.n_seen(list) > n_lists + 2);
    assert_eq!(states(), before, "they are there still");
    scene.sandbox.write("go", "");
    scene.ends_well(0);

    // The manager dies after Nova has done what it asked for, before it hears of it.
    let go = scene.sandbox.path().join("answer");
    let n_before = between.n_seen(post);
    between.next(post, Fate::HeldUp(go.clone()));
    scene.serve();
    scene.sandbox.ok(&["submit", "--", "sleep", "0.1"]);
    until("a server is there", || scene.platform.servers().len() == 1);
    scene.kill_manager();
    scene.serve();
    until("the task is done", || scene.sandbox.json(&["job", "2"])["state"] == "done");
    assert_eq!(between.n_seen(post), n_before + 1, "the server of before was taken over");
    until("its server is deleted", || scene.platform.servers().is_empty());
    scene.sandbox.write("answer", "");
    scene.stops();

    // Whatever is logged, and kept: no password, no token of the cloud, none of a pilot.
    let mut folders = vec![scene.sandbox.path().join("home/.pilotfish/default")];
    let mut kept = vec![scene.sandbox.read("serve.err")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.ends_with("access.json") => {}
                path => kept.push(text(&fs::read(path).expect("a file"))),
            }
        }
    }
    assert!(kept.iter().any(|text| text.contains("more than 64 MiB")), "no answer is too long");
    assert!(kept.iter().any(|text| text.contains(": OK")), "consoles are looked at");
    assert!(kept.iter().any(|text| text.contains("POST") || text.contains("hyper")), "all is logged");
    for secret in scene.platform.secrets().iter().map(String::as_str).chain(["gAAAA", "pfj_"]) {
        assert!(kept.iter().all(|text| !text.contains(secret)), "{secret} is found");
    }
}

#[test]
fn services_that_are_away_for_a_while_cost_no_server_and_no_task() {
    let sandbox = Sandbox::new();
    // Nova asks Keystone of each token each time: what it knew would be good for five minutes.
    let forgetful = [("OPENSTACK_TEST_EXTRA_CONF", "[keystone_authtoken]\ntoken_cache_time = -1")];
    let Some(cloud) = OpenStack::start(&sandbox, &forgetful) else { return };
    let fields = cloud.fields("", "");
    let mut scene = Scene::start(sandbox, cloud, &fields);
    submit_held_up(&scene);
    scene.until_executed(4);
    let ids = |scene: &Scene<OpenStack>| -> Vec<Value> {
        scene.platform.servers().iter().map(|server| server["id"].clone()).collect()
    };
    let before = ids(&scene);
    // Without Neutron Nova lists nothing, whatever there is; then nobody answers; then nobody knows who asks.
    for (service, said) in [("neutron", "500 "), ("nova", "Connection refused"), ("keystone", "503 ")] {
        scene.platform.kill(service);
        until("the operator is told", || failure(&scene).contains(said));
        assert_eq!(scene.sandbox.json(&["pilots"]).as_array().map(Vec::len), Some(2), "{service}");
        scene.platform.again();
        until("all is well again", || failure(&scene).is_empty());
    }
    assert_eq!(ids(&scene), before);
    scene.sandbox.write("go", "");
    scene.ends_well(0);
}

/// What is said of how the platform is scaled.
fn scaling(scene: &Scene<OpenStack>) -> String {
    scene.sandbox.ok(&["explain", "platform", "cloud"])
}

#[test]
fn a_clouds_hosts_have_more_vcpus_or_fewer_and_at_the_end_those_of_before() {
    let sandbox = Sandbox::new();
    let Some(cloud) = OpenStack::start(&sandbox, &[]) else { return };
    cloud.add_aggregate("pilots", "compute1");
    let between = Between::start(cloud.url(2, "").replace("http://", ""));
    cloud.lead("placement", &format!("http://{}", between.address()));
    let scaled = "scaling: {by: placement, ratio_max: 3, interval: 1s}";
    let member = cloud.fields("aggregate: pilots", scaled);
    sandbox.write("manager.yaml", &format!("platforms: [{{cores: 2, {member}}}]\n"));
    let checked = text(&sandbox.run(&["platform", "check", "cloud", "--config", "manager.yaml"]).stdout);
    assert!(checked.contains("placement") && checked.contains("403 Policy"), "members may not: {checked}");
    let fields = cloud.fields("aggregate: pilots, aggregate_cloud: admin", scaled);
    sandbox.write("manager.yaml", &format!("platforms: [{{cores: 2, {fields}}}]\n"));
    let checked = sandbox.ok(&["platform", "check", "cloud", "--config", "manager.yaml"]);
    assert!(checked.contains("hosts compute1 (4 cores, 4.0 vCPUs each)"), "{checked}");
    assert_eq!(cloud.ratio_of("compute1"), 4.0, "a look changes nothing");

    // Nova's compute writes the same records: whoever is second reads again.
    let conflict = "{\"errors\": [{\"status\": 409, \"code\": \"placement.concurrent_update\"}]}";
    for _ in 0..3 {
        between.next("PUT /resource_providers", answer("409 Conflict", "", conflict));
    }
    let mut scene = Scene::start(sandbox, cloud, &fields);
    scene.sandbox.write("sleep.yaml", "command: sleep 0.5\nsweep: {n: {range: [1, 1000]}}\n");
    scene.sandbox.ok(&["submit", "sleep.yaml"]);
    until("a core stands for as many vCPUs as may be", || scene.platform.ratio_of("compute1") == 3.0);
    assert_eq!(scene.platform.ratio_of("compute2"), 4.0, "it is none of ours");
    let told = scaling(&scene);
    assert!(told.contains("cloud has 3 vCPUs a core of its hosts, of at most 3"), "{told}");
    assert_eq!(
        scene.sandbox.json(&["pilots"])[0]["node"]["capacity"]["cores"],
        2,
        "servers are as they were"
    );
    scene.sandbox.ok(&["cancel", "1"]);
    scene
        .sandbox
        .write("fail.yaml", "command: 'sleep 0.1; false'\nretries: 0\nsweep: {n: {range: [1, 1000]}}\n");
    scene.sandbox.ok(&["submit", "fail.yaml"]);
    until("a core stands for one", || scene.platform.ratio_of("compute1") == 1.0);
    assert!(scaling(&scene).contains("too many attempts failed"), "{}", scaling(&scene));
    let log = scene.sandbox.read("serve.err");
    assert!(log.contains("vCPUs of a core have changed") && log.contains("after=3"), "{log}");

    // A manager that dies has what the hosts had written down.
    scene.kill_manager();
    scene
        .sandbox
        .write("manager.yaml", &format!("platforms:\n  - {{cores: 2, poll_interval: 1s, {fields}}}\n"));
    scene.serve();
    let said = scene.sandbox.ok(&["platform", "detach", "cloud", "--now"]);
    assert!(said.contains("is detached"), "{said}");
    until("the host has what it had", || scene.platform.ratio_of("compute1") == 4.0);
    scene.stops();
}

#[test]
fn where_novas_configuration_fixes_the_vcpus_pilots_offer_more_slots() {
    let sandbox = Sandbox::new();
    let fixed = [("OPENSTACK_TEST_EXTRA_CONF", "cpu_allocation_ratio = 2.0")];
    let Some(cloud) = OpenStack::start(&sandbox, &fixed) else { return };
    let placement = "aggregate: all, aggregate_cloud: admin";
    let fields = cloud.fields(placement, "scaling: {by: placement, ratio_max: 3, interval: 2s}");
    let mut scene = Scene::start(sandbox, cloud, &fields);
    scene.sandbox.write("sleep.yaml", "command: sleep 0.5\nsweep: {n: {range: [1, 1000]}}\n");
    scene.sandbox.ok(&["submit", "sleep.yaml"]);
    let slots = || scene.sandbox.json(&["pilots"])[0]["node"]["capacity"]["cores"].clone();
    until("pilots offer as many slots as may be", || slots() == 6);
    let told = scaling(&scene);
    assert!(
        told.contains("keep the vCPUs that they have: host compute") && told.contains("has 2.0 again"),
        "{told}"
    );
    assert!(told.contains("cloud has 3 slots a core of its pilots, of at most 3"), "{told}");
    let n_running = || scene.sandbox.json(&["job", "1"])["counts"]["running"].as_u64();
    until("they are used", || n_running() > Some(4));
    scene.sandbox.ok(&["cancel", "1"]);
    scene.stops();
}

#[test]
fn a_real_machine_boots_fetches_the_agent_works_and_turns_itself_off() {
    let sandbox = Sandbox::new();
    let Some(cloud) = OpenStack::start(&sandbox, &[("OPENSTACK_TEST_VM", "qemu")]) else { return };
    // The host is there under another address, and what has debug information does not fit into its memory.
    let program = installed(&sandbox);
    let port = free_port();
    let fields = cloud.fields("flavor: p1.small", &format!("reach: 'http://10.0.2.2:{port}'"));
    let fields = fields.replace("memory: 300MiB", "memory: 100MiB").replace("pilots_max: 2", "pilots_max: 1");
    sandbox.write(
        "manager.yaml",
        &format!("listen: {{port: {port}}}\nplatforms: [{{cores: 1, poll_interval: 1s, idle_timeout: 1s, {fields}}}]\n"),
    );
    let serve = sandbox.command_of(&program, &["serve", "--config", "manager.yaml"]);
    let manager = sandbox.serve(serve);
    sandbox.write("job.yaml", "command: uname -n\nworkdir: scratch\nsweep: {n: {range: [1, 20]}}\n");
    sandbox.ok(&["submit", "job.yaml", "--wait"]);
    let said = sandbox.ok(&["logs", "1.0"]);
    let tag = sandbox.json(&["allocation", "list", "--all"])[0]["tag"].as_str().expect("a tag").to_owned();
    assert!(said.starts_with(&tag), "the machine has its server's name: {said}");
    until("it has turned itself off and is deleted", || cloud.servers().is_empty());
    let wrote = sandbox.read(&format!("home/.pilotfish/default/pilots/{tag}/job.log"));
    assert!(wrote.contains(": OK") && wrote.contains("registered"), "its console is kept: {wrote}");
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}
