//! A real OpenStack whose hosts have more vCPUs or fewer, as tasks load them or fail there.

use tests::{
    Sandbox,
    between::{Between, Fate},
    openstack::OpenStack,
    scene::Scene,
    text, until,
};

/// What is said of how the platform is scaled.
fn scaling(scene: &Scene<OpenStack>) -> String {
    scene.sandbox.ok(&["explain", "platform", "cloud"])
}

#[test]
fn a_clouds_hosts_have_more_vcpus_or_fewer_and_at_the_end_those_of_before() {
    let sandbox = Sandbox::new();
    // Tokens end while it runs, and are renewed before: with 15 s left, which Nova may need of one.
    let Some(cloud) = OpenStack::start(&sandbox, &[("OPENSTACK_TEST_TOKEN_SECONDS", "60")]) else { return };
    cloud.add_aggregate("pilots", "compute1");
    let identity = Between::start(cloud.url(0, "").replace("http://", ""));
    let clouds_file = cloud.clouds_file().display().to_string();
    let clouds =
        sandbox.read(&clouds_file).replace(&cloud.url(0, ""), &format!("http://{}", identity.address()));
    let led = sandbox.write("clouds.yaml", &clouds).display().to_string();
    let between = Between::start(cloud.url(2, "").replace("http://", ""));
    cloud.lead("placement", &format!("http://{}", between.address()));
    let scaled = "scaling: {by: placement, ratio_max: 3, interval: 1s}";
    let member = cloud.fields("aggregate: pilots", scaled);
    sandbox.write("manager.yaml", &format!("platforms: [{{cores: 2, {member}}}]\n"));
    let checked = text(&sandbox.run(&["platform", "check", "cloud", "--config", "manager.yaml"]).stdout);
    assert!(checked.contains("placement") && checked.contains("403 Policy"), "members may not: {checked}");
    let fields =
        cloud.fields("aggregate: pilots, aggregate_cloud: admin", scaled).replace(&clouds_file, &led);
    sandbox.write("manager.yaml", &format!("platforms: [{{cores: 2, {fields}}}]\n"));
    let checked = sandbox.ok(&["platform", "check", "cloud", "--config", "manager.yaml"]);
    assert!(checked.contains("hosts compute1 (4 cores, 4.0 vCPUs each)"), "{checked}");
    assert_eq!(cloud.ratio_of("compute1"), 4.0, "a look changes nothing");

    // Nova's compute writes the same records: whoever is second is refused by Placement, and reads again.
    for _ in 0..2 {
        between
            .next("PUT /resource_providers", Fate::Second(Box::new(cloud.writing_inventories("compute1"))));
    }
    let mut scene = Scene::start(sandbox, cloud, &fields);
    scene.sandbox.write("sleep.yaml", "command: sleep 0.5\nsweep: {n: {range: [1, 1000]}}\n");
    scene.sandbox.ok(&["submit", "sleep.yaml"]);
    until("a core stands for as many vCPUs as may be", || scene.platform.ratio_of("compute1") == 3.0);
    let n_signed_in = identity.n_seen("POST /v3/auth/tokens");
    assert_eq!(scene.platform.ratio_of("compute2"), 4.0, "it is none of ours");
    let inventories = scene.platform.inventories("compute1");
    assert!(inventories["MEMORY_MB"].is_object() && inventories["DISK_GB"].is_object(), "{inventories}");
    assert!(between.n_seen("HTTP/1.1 409") > 0);
    let next = between.next_after("PUT /resource_providers").expect("it was refused").0;
    assert!(next.starts_with("GET /resource_providers/"), "its record alone is read again: {next}");
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

    // Of both who sign in, an administrator and a member, the tokens of then have ended after two renewals each.
    until("tokens are renewed", || identity.n_seen("POST /v3/auth/tokens") > n_signed_in + 3);
    assert_eq!(between.n_seen("HTTP/1.1 401"), 0, "no token had ended");

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
