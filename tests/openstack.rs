//! Pilots on servers of a real OpenStack: sweeps complete whatever becomes of servers, services and the manager, and
//! no server is left behind.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};

use serde_json::Value;
use tests::{
    Sandbox,
    between::{Between, Fate, answer},
    hang_limit,
    openstack::{OpenStack, installed},
    ports::free_ports,
    scene::{Scene, submit_limit, submit_limit_of_held_up},
    text, until,
};

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
    let sandbox = Sandbox::new();
    let Some(cloud) = OpenStack::start(&sandbox, &[]) else { return };
    cloud.add_key_pair("ours");
    attaches(&sandbox, &cloud);
    // Nova says of each server that it is deleted, and fails to once.
    let metadata = "metadata: {centre: lab, 'test:destroy': retry}";
    let fields = cloud.fields(&format!("{metadata}, key_pair: ours, availability_zone: nova"), "");
    let mut scene = Scene::start(sandbox, cloud, &fields);
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
    let made =
        ["config_drive", "key_name", "OS-EXT-AZ:availability_zone"].map(|what| servers[0][what].clone());
    assert_eq!(made, ["True", "ours", "nova"]);
    joins_once(&scene, &servers[0]);
    let tags = servers[0]["tags"].as_array().expect("tags");
    assert!(tags.contains(&"pilotfish".into()) && tags.contains(&tag.into()), "{tags:?}");
    scene.platform.allow(10);
    until("a second server is there", || active(scene.platform.servers()).len() == 2);
    scene.sandbox.write("go", "");
    scene.ends_well(0);
    let wrote = scene.sandbox.read(&format!("home/.pilotfish/default/pilots/{tag}/job.log"));
    assert!(wrote.contains(": OK") && wrote.contains("registered"), "what the server wrote is kept: {wrote}");

    // A manager that is stopped leaves nothing, whatever its servers do, and whatever somebody does to their tags.
    scene.serve();
    scene.sandbox.ok(&["submit", "--", "sleep", "600"]);
    let works = |scene: &Scene<OpenStack>| {
        scene.sandbox.json(&["pilots"]).as_array().is_some_and(|pilots| !pilots.is_empty())
    };
    until("a server works", || works(&scene));
    until("it is active", || active(scene.platform.servers()).len() == 1);
    let servers = active(scene.platform.servers());
    scene.platform.remove_tags(servers[0]["id"].as_str().expect("an id"));
    scene.kill_manager();
    scene.serve();
    until("its pilot is back", || works(&scene));
    scene.sandbox.ok(&["cancel", "2"]);
    scene.stops();
    let left = scene.platform.servers();
    assert!(
        left.is_empty(),
        "it has waited for them: {left:?}\n{}\n{}",
        scene.sandbox.read("serve.err"),
        scene.platform.said_of(&left)
    );
    assert!(scene.platform.log("nova").contains("asked for by test:destroy"), "Nova has failed");
    let again = scene.platform.deleted_again_within(Duration::from_secs(30));
    assert_eq!(again, [""; 0], "a request that comes too soon may leave the server on its way out for ever");
}

/// What is written down of the cloud, whether its name is given or the environment says who enters.
fn attaches(sandbox: &Sandbox, cloud: &OpenStack) {
    let file = cloud.clouds_file().display().to_string();
    let common = [
        "platform",
        "attach",
        "openstack",
        "cloud",
        "--image",
        "pilot-image",
        "--network",
        "none",
        "--print",
    ];
    let named = [&common[..], &["--cloud", "appcred", "--clouds-file", &file, "--cores", "2"]].concat();
    let bare = [&common[..], &["--flavor", "p1.small"]].concat();
    let mut from_environment = sandbox.command(&bare);
    from_environment.envs(cloud.variables());
    for mut command in [sandbox.command(&named), from_environment] {
        let output = command.output().expect("pilotfish runs");
        let said = text(&output.stdout);
        assert!(output.status.success(), "{said}{}", text(&output.stderr));
        for expected in [
            "user demo, project demo, flavor p1.small (2 vCPUs, 512 MiB)",
            "cores: 2",
            "memory: 460MiB",
            "pilots_max: 10",
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

/// A task that finds its server's user data is no second pilot.
fn joins_once(scene: &Scene<OpenStack>, server: &Value) {
    let data = server["OS-EXT-SRV-ATTR:user_data"].as_str().expect("an administrator sees them");
    let data = scene.sandbox.write("user_data", data);
    let script = Command::new("base64").arg("-d").arg(data).output().expect("coreutils are installed").stdout;
    let script = text(&script);
    let join = script.lines().find(|line| line.starts_with('{')).expect("a join document");
    let mut join: Value = serde_json::from_str(join).expect("JSON");
    join["folder"] = scene.sandbox.path().join("thief").display().to_string().into();
    let path = scene.sandbox.write("join.json", &join.to_string());
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("its mode");
    let pilot = || scene.sandbox.json(&["pilots"])[0]["id"].clone();
    let before = pilot();
    let mut thief = scene.sandbox.start("thief", &["agent", "run", "--join", "join.json"]);
    until("it is refused", || {
        assert_eq!(pilot(), before, "the pilot goes on");
        thief.has_ended()
    });
    let said = scene.sandbox.read("thief.err");
    assert!(thief.wait() != Some(0) && said.contains("a join token serves once there"), "{said}");
}

#[test]
fn our_servers_are_apart_on_whichever_page_and_nobody_elses_are_touched() {
    let sandbox = Sandbox::new();
    let pages_of_one = [("OPENSTACK_TEST_EXTRA_CONF", "osapi_max_limit = 1")];
    let Some(cloud) = OpenStack::start(&sandbox, &pages_of_one) else { return };
    cloud.add_server_group("apart");
    let copy = cloud.add_server(&["pilotfish"], None);
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

    // A manager that knows of none finds all of them, and not only those of the first page.
    scene.kill_manager();
    scene.serve();
    until("both are back", || scene.sandbox.json(&["pilots"]).as_array().map(Vec::len) == Some(2));

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
    scene.ends_well(4);
}

#[test]
fn what_becomes_of_servers_that_fail_is_told_and_nothing_is_left_of_them() {
    let sandbox = Sandbox::new();
    let Some(cloud) = OpenStack::start(&sandbox, &[]) else { return };
    let configure = |sandbox: &Sandbox, openstack: &str, fields: &str| {
        let entry = format!("platforms: [{{cores: 2, {}}}]\n", cloud.fields(openstack, fields));
        sandbox.write("manager.yaml", &entry);
    };
    let probe = |sandbox: &Sandbox, seconds: u64| {
        let wait = format!("{}s", hang_limit(Duration::from_secs(seconds)).as_secs());
        let output =
            sandbox.run(&["platform", "check", "cloud", "--config", "manager.yaml", "--wait", &wait]);
        (output.status.code(), text(&output.stdout))
    };
    for (openstack, fields, expected) in [
        // The scheduler, the hypervisor, the network.
        ("flavor: p1.huge", "", "No valid host was found"),
        ("metadata: {'test:spawn': abort}", "", "aborted"),
        ("metadata: {'test:spawn': refuse}", "", "Exceeded maximum number of retries"),
        // The agent.
        ("", "setup: [echo the disk is full, exit 1]", "the disk is full"),
        ("", "setup: [echo it hangs, sleep 1000]", "it wrote: it hangs"),
        // Nova refuses.
        ("availability_zone: mars", "", "availability zone"),
        ("volume: 1GiB", "", "volumev3"),
        ("security_groups: [nobody]", "", "came home"),
    ] {
        configure(&sandbox, openstack, fields);
        let (code, said) = probe(&sandbox, if fields.contains("hangs") { 30 } else { 300 });
        let is_well = expected == "came home";
        assert!(said.contains(expected) && said.contains("nothing is left"), "{openstack} {fields}: {said}");
        assert_eq!(code, Some(if is_well { 0 } else { 3 }), "{said}");
        until("no server is left", || cloud.servers().is_empty());
    }
    // No host may have servers, or what says which has room is away: Nova says the same of both.
    configure(&sandbox, "", "");
    for (break_it, mend_it) in [
        (&(|| cloud.let_hosts("disabled")) as &dyn Fn(), &(|| cloud.let_hosts("enabled")) as &dyn Fn()),
        (&|| cloud.kill("placement"), &|| cloud.again()),
    ] {
        break_it();
        let (code, said) = probe(&sandbox, 300);
        mend_it();
        assert!(code == Some(3) && said.contains("No valid host was found"), "{said}");
        until("no server is left", || cloud.servers().is_empty());
    }
    nova_dies_while_it_builds(&sandbox, &cloud);
    for (openstack, expected) in [
        ("flavor: p9.none", "found no flavor `p9.none`; there are p1"),
        ("flavor: p1.tiny", "has not what a pilot is to offer"),
        ("key_pair: mine", "found no key pair `mine`"),
        ("server_group: ours", "found no server group `ours`"),
    ] {
        configure(&sandbox, openstack, "");
        let (code, said) = probe(&sandbox, 300);
        assert!(code == Some(3) && said.contains(expected), "{openstack}: {said}");
    }
    let manager = sandbox.read("manager.yaml");
    for (from, to, expected) in [
        ("pilot-image", "debian-13", "found no image `debian-13`; there are pilot-image"),
        (", networks: none", "", "found several networks; set `networks:`, one of pilot-net, unbound"),
        ("networks: none", "networks: lab", "found no network `lab`; there are pilot-net"),
        ("networks: none", "networks: pilot-net, security_groups: [default]", "came home"),
        ("networks: none", "networks: pilot-net, security_groups: [nobody]", "nobody"),
        ("networks: none", "networks: unbound", "Exceeded maximum number of retries"),
        ("networks: none", "networks: auto", "409 Multiple possible networks found"),
        ("cloud: appcred", "cloud: nowhere", "found no cloud `nowhere`; there are demo, admin, appcred"),
    ] {
        sandbox.write("manager.yaml", &manager.replace(", server_group: ours", "").replace(from, to));
        let (code, said) = probe(&sandbox, 300);
        let expected_code = if expected == "came home" { 0 } else { 3 };
        assert!(code == Some(expected_code) && said.contains(expected), "{to}: {said}");
    }
    // Whoever knows the password only nearly.
    let clouds = fs::read_to_string(cloud.clouds_file()).expect("clouds.yaml");
    let secret =
        clouds.split("secret\": \"").nth(1).and_then(|rest| rest.split('"').next()).expect("a secret");
    sandbox.hide(["no-such-secret".to_owned()]);
    let wrong = sandbox.write("wrong.yaml", &clouds.replace(secret, "no-such-secret"));
    let wrong = manager.replace(&cloud.clouds_file().display().to_string(), &wrong.display().to_string());
    sandbox.write("manager.yaml", &wrong);
    let (code, said) = probe(&sandbox, 300);
    assert!(code == Some(3) && said.contains("the credential is refused: 401"), "{said}");
    assert!(!said.contains("no-such-secret"), "{said}");
    refused_credentials_are_tried_once(&sandbox, &cloud);
    services_are_known_by_their_certificates(&sandbox, &cloud, &manager);
    // … or had one that was taken away.
    cloud.revoke();
    sandbox.write("manager.yaml", &manager);
    let (code, said) = probe(&sandbox, 300);
    assert!(code == Some(3) && said.contains("the credential is refused: 404"), "{said}");
}

/// Whose certificate nobody knows is not spoken to. `manager`: manager.yaml of a cloud by plain http.
fn services_are_known_by_their_certificates(sandbox: &Sandbox, cloud: &OpenStack, manager: &str) {
    let (of_keystone, of_nova) = (sandbox.path().join("keystone.pem"), sandbox.path().join("nova.pem"));
    let nova = Between::start_with_tls(cloud.nova(), &of_nova);
    let keystone = Between::start_with_tls(cloud.url(0, "").replace("http://", ""), &of_keystone);
    let clouds = fs::read_to_string(cloud.clouds_file()).expect("clouds.yaml");
    let https = clouds.replace(&cloud.url(0, ""), &format!("https://{}", keystone.address()));
    let with = |field: &str, value: &str| {
        https.replace("\"region_name\"", &format!("\"{field}\": \"{value}\", \"region_name\""))
    };
    let trusting = |authority: &Path| with("cacert", &authority.display().to_string());
    let check_says = |clouds: &str, of_system: &Path, expected: &str| {
        let file = sandbox.write("tls.yaml", clouds).display().to_string();
        let manager = manager.replace(&cloud.clouds_file().display().to_string(), &file);
        sandbox.write("manager.yaml", &manager.replace(", server_group: ours", ", flavor: p9.none"));
        let mut check = sandbox.command(&["platform", "check", "cloud", "--config", "manager.yaml"]);
        check.env("SSL_CERT_FILE", of_system).env("SSL_CERT_DIR", "");
        let output = check.output().expect("it is there");
        let said = text(&output.stdout);
        assert!(output.status.code() == Some(3) && said.contains(expected), "not {expected}: {said}");
    };
    let (known, unknown) = ("found no flavor `p9.none`", "certificate");
    check_says(&https, &of_nova, unknown);
    check_says(&https, &of_keystone, known);
    check_says(&trusting(&of_keystone), &of_nova, known);
    // It stands in place of the system's.
    check_says(&trusting(&of_nova), &of_keystone, unknown);
    check_says(&with("verify", &of_keystone.display().to_string()), &of_nova, known);
    // No word switches the check off.
    check_says(&with("verify", "no"), &of_nova, "failed to read the certificates no of `verify`");
    // Keystone by plain http says that Nova is not.
    let no_authority = sandbox.write("none.pem", "");
    check_says(&clouds, &no_authority, known);
    cloud.lead("compute", &format!("https://{}/v2.1", nova.address()));
    check_says(&clouds, &no_authority, "TLS cannot be set up");
    check_says(&clouds, &of_nova, known);
    cloud.lead_to(&cloud.nova());
}

/// What it was about to build has failed when Nova is there again.
fn nova_dies_while_it_builds(sandbox: &Sandbox, cloud: &OpenStack) {
    let fields = cloud.fields("metadata: {'test:delay': '30'}", "");
    sandbox.write("manager.yaml", &format!("platforms: [{{cores: 2, {fields}}}]\n"));
    let check = sandbox.start("check", &["platform", "check", "cloud", "--config", "manager.yaml"]);
    let builds = |server: &Value| server["OS-EXT-STS:task_state"] == "spawning";
    until("a server is built", || cloud.servers().iter().any(builds));
    cloud.kill("nova");
    cloud.again();
    assert_eq!(check.wait(), Some(3));
    let said = sandbox.read("check.out");
    assert!(said.contains("nothing is left"), "{said}");
    until("no server is left", || cloud.servers().is_empty());
}

/// Keystone locks accounts whose password was wrong too often. Beside it: what a server wrote that nobody waits for
/// any more is kept.
fn refused_credentials_are_tried_once(sandbox: &Sandbox, cloud: &OpenStack) {
    let between = Between::start(cloud.url(0, "").replace("http://", ""));
    let wrong =
        sandbox.read("wrong.yaml").replace(&cloud.url(0, ""), &format!("http://{}", between.address()));
    let wrong = sandbox.write("locked.yaml", &wrong).display().to_string();
    let hangs = cloud.fields("", "setup: [echo it hangs, sleep 1000]");
    let locked = cloud.fields("", "").replace("name: cloud", "name: locked");
    let locked = locked.replace(&cloud.clouds_file().display().to_string(), &wrong);
    let each = "cores: 2, poll_interval: 1s, idle_timeout: 3s";
    sandbox.write(
        "two.yaml",
        &format!(
            "platforms: [{{{each}, {hangs}}}, {{{each}, {locked}}}]\nlimits: {{platform_delay_max: 1s}}\n"
        ),
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "two.yaml"]));
    sandbox.ok(&["submit", "--", "true"]);
    until("it is told", || {
        let platforms = sandbox.json(&["platforms"]);
        let said = platforms.as_array().into_iter().flatten().find(|platform| platform["name"] == "locked");
        said.is_some_and(|said| {
            said["last_failure"].as_str().unwrap_or("").contains("is not tried again yet")
        })
    });
    assert_eq!(between.n_seen("POST /v3/auth/tokens"), 1);
    let wrote = |server: &Value| cloud.console(server["id"].as_str().expect("an id")).contains("it hangs");
    until("its server hangs", || cloud.servers().iter().any(wrote));
    let tag = cloud.servers()[0]["name"].as_str().expect("a name").to_owned();
    sandbox.ok(&["cancel", "1"]);
    until("it is taken back", || cloud.servers().is_empty());
    let log = format!("home/.pilotfish/default/pilots/{tag}/job.log");
    until("what it wrote is kept", || sandbox.read(&log).contains("it hangs"));
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}

#[test]
fn answers_that_are_lost_late_or_bad_cost_nothing_and_leave_no_server() {
    let sandbox = Sandbox::new();
    let Some(mut cloud) = OpenStack::start(&sandbox, &[]) else { return };
    // All here is plain http: a manager that trusts no authority needs none.
    let no_authority = sandbox.write("authorities.pem", "").display().to_string();
    cloud.environment = [("PILOTFISH_LOG", "trace"), ("SSL_CERT_FILE", &no_authority), ("SSL_CERT_DIR", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let between = Between::start(cloud.nova());
    cloud.lead_to(&between.address());
    let fields = cloud.fields("", "");
    let (post, list) = ("POST /v2.1/servers ", "GET /v2.1/servers/detail");
    // Whoever wants to be asked later, a service that is away, an answer that is none.
    between.next(post, answer("429 Too Many Requests", "Retry-After: 2\r\n", ""));
    let html = "<html><body><h1>503 Service Unavailable</h1></body></html>";
    between.next(post, answer("503 Service Unavailable", "Content-Type: text/html\r\n", html));
    between.next(post, answer("401 Unauthorized", "", ""));
    between.next(post, Fate::Cut);
    between.next(post, Fate::Lost);
    let rest = sandbox.path().join("rest");
    between.next(list, Fate::Slow(rest.clone()));
    between.next(list, Fate::Cut);
    between.next(list, answer("401 Unauthorized", "", ""));
    between.next(list, answer("504 Gateway Timeout", "Content-Type: text/html\r\n", html));
    between.next(list, answer("413 Request Entity Too Large", "Retry-After: 1\r\n", ""));
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
    // Which was the last failure changes within moments.
    until("the cloud asks for patience", || scene.sandbox.read("serve.err").contains("wants no request for"));
    until("a list comes slowly", || between.n_seen(list) > 0);
    scene.sandbox.write("rest", "");
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
    let (next, pause) = between.next_after(post).expect("more was asked for");
    assert!(pause >= Duration::from_secs(2), "the cloud had asked for two seconds: {next} after {pause:?}");

    // The manager dies after Nova has done what it asked for, before it hears of it.
    let go = scene.sandbox.path().join("answer");
    let n_before = between.n_seen(post);
    between.next(post, Fate::HeldUp(go.clone()));
    // What is asked for from now on is there before that, however slow the cloud is.
    let configuration = scene.sandbox.read("manager.yaml");
    let configuration = configuration.replace(&submit_limit(), &submit_limit_of_held_up());
    scene.sandbox.write("manager.yaml", &configuration);
    scene.serve();
    scene.sandbox.ok(&["submit", "--", "sleep", "0.1"]);
    until("a server is there", || scene.platform.servers().len() == 1);
    scene.kill_manager();
    scene.serve();
    until("the task is done", || scene.sandbox.json(&["job", "2"])["state"] == "done");
    assert_eq!(between.n_seen(post), n_before + 1, "the server of before was taken over");
    until("its server is deleted", || scene.platform.servers().is_empty());
    scene.sandbox.write("answer", "");
    what_nobody_knows_of_is_found(&mut scene, &between);
    scene.stops();
    let log = scene.sandbox.read("serve.err");
    assert!(!log.contains("the credential is refused"), "a token that is not taken is renewed");

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

/// A request that reaches Nova when who has sent it is dead; servers that the store does not know.
fn what_nobody_knows_of_is_found(scene: &mut Scene<OpenStack>, between: &Between) {
    let (post, list) = ("POST /v2.1/servers ", "GET /v2.1/servers/detail");
    let late = scene.sandbox.path().join("late");
    let n_before = between.n_seen(post);
    between.next(post, Fate::Late(late));
    scene.sandbox.ok(&["submit", "--", "sleep", "0.1"]);
    until("it is on its way", || between.n_seen(post) > n_before);
    scene.kill_manager();
    let n_lists = between.n_seen(list);
    scene.serve();
    until("nothing is there yet", || between.n_seen(list) > n_lists + 1);
    assert!(scene.platform.servers().is_empty());
    scene.sandbox.write("late", "");
    until("the task is done", || scene.sandbox.json(&["job", "3"])["state"] == "done");
    assert_eq!(between.n_seen(post), n_before + 1, "the server that came late was taken over");
    until("its server is deleted", || scene.platform.servers().is_empty());

    // Nothing is to be done, and nothing should be there.
    scene.kill_manager();
    let all = scene.sandbox.json(&["allocation", "list", "--all"]);
    let tag = all[0]["tag"].as_str().expect("a tag");
    let manager = tag.split('-').next().expect("the manager's");
    let strays = [format!("{manager}-99"), "pf00000000-1".to_owned()];
    let cloud = &scene.platform;
    let ours = cloud.add_server(&["pilotfish", manager, &strays[0]], Some(&strays[0]));
    let theirs = cloud.add_server(&["pilotfish", "pf00000000", &strays[1]], Some(&strays[1]));
    let copy = cloud.add_server(&["pilotfish", manager, &strays[0]], None);
    let is_there = |cloud: &OpenStack, id: &str| cloud.servers().iter().any(|server| server["id"] == id);
    assert!(is_there(cloud, &ours));
    scene.serve();
    let cloud = &scene.platform;
    until("ours is gone", || !is_there(cloud, &ours));
    assert!(is_there(cloud, &theirs) && is_there(cloud, &copy), "another manager's, and a copy, stay");
    [theirs, copy].iter().for_each(|id| cloud.delete(id));
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
    // Without Glance Nova takes no new server.
    scene.platform.kill("glance");
    scene.platform.delete(before[0].as_str().expect("an id"));
    until("the operator is told", || failure(&scene).contains("500 "));
    scene.platform.again();
    until("another takes its place", || scene.sandbox.json(&["pilots"]).as_array().map(Vec::len) == Some(2));
    scene.sandbox.write("go", "");
    scene.ends_well(4);
}

#[test]
fn a_real_machine_boots_fetches_the_agent_works_and_turns_itself_off() {
    let sandbox = Sandbox::new();
    let Some(cloud) = OpenStack::start(&sandbox, &[("OPENSTACK_TEST_VM", "qemu")]) else { return };
    // The host is there under another address, and what has debug information does not fit into its memory.
    let program = installed(&sandbox);
    let port = free_ports(1);
    let fields = cloud.fields("flavor: p1.small", &format!("reach: 'http://10.0.2.2:{port}'"));
    let fields = fields.replace("memory: 300MiB", "memory: 100MiB").replace("pilots_max: 2", "pilots_max: 1");
    sandbox.write(
        "manager.yaml",
        &format!("tls: off\nlisten: {{port: {port}}}\nplatforms: [{{cores: 1, poll_interval: 1s, idle_timeout: 5s, {fields}}}]\n"),
    );
    let serve = sandbox.command_of(&program, &["serve", "--config", "manager.yaml"]);
    let manager = sandbox.serve(serve);
    sandbox.write("job.yaml", "command: uname -n\nworkdir: scratch\nsweep: {n: {range: [1, 20]}}\n");
    sandbox.ok(&["submit", "job.yaml", "--wait"]);
    let said = sandbox.ok(&["logs", "1.0"]);
    let tag = sandbox.json(&["allocation", "list", "--all"])[0]["tag"].as_str().expect("a tag").to_owned();
    assert!(said.starts_with(&tag), "the machine has its server's name: {said}");
    until("it has turned itself off and is deleted", || cloud.servers().is_empty());
    until("its console is kept", || {
        let wrote = sandbox.read(&format!("home/.pilotfish/default/pilots/{tag}/job.log"));
        wrote.contains(": OK") && wrote.contains("registered")
    });
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}

#[test]
fn openstacksdk_makes_of_clouds_files_what_was_recorded() {
    let Some(python) = tests::openstack::python() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("openstack");
    let output = Command::new(python).arg(folder.join("clouds.py")).output().expect("the script is there");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let recorded = fs::read_to_string(folder.join("clouds.json")).expect("what was recorded");
    for (found, recorded) in text(&output.stdout).lines().zip(recorded.lines()) {
        assert_eq!(found, recorded);
    }
    assert_eq!(text(&output.stdout).lines().count(), recorded.lines().count());
}
