//! A real OpenStack on this host: Keystone, Nova, Placement, Glance and Neutron's API, started by
//! `tests/openstack/up`. Only the hypervisor is not real: a server is a process tree that runs its user data.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid},
};
use serde_json::Value;

use crate::{Sandbox, ports::free_ports, program, scene::Platform, text, until};

/// Keystone, Nova, Placement, Glance, Neutron: ports that follow each other.
const N_PORTS: u16 = 5;

/// Tokens are used again for so long: signing in is what takes Keystone most.
const SIGNED_IN: Duration = Duration::from_secs(10);

/// A cloud of two hosts with four cores each, and a project `demo`.
pub struct OpenStack {
    /// What a manager is started with.
    pub environment: Vec<(String, String)>,
    state: PathBuf,
    port: u16,
    /// What `tests/openstack/up` is told.
    knobs: Vec<(String, String)>,
    /// The administrator's token, and since when.
    token: Mutex<Option<(Instant, String)>>,
}

impl OpenStack {
    /// Starts one; `None`, with the reason printed, where that is not possible. `knobs`: of `tests/openstack/up`.
    pub fn start(sandbox: &Sandbox, knobs: &[(&str, &str)]) -> Option<OpenStack> {
        if !Uid::effective().is_root() {
            crate::skipped("only root can start a cloud");
            return None;
        }
        // Below the sandbox's home: what its servers leave is found by that, and killed.
        let state = sandbox.path().join("home/cloud");
        let port = free_ports(N_PORTS);
        let knobs = knobs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let cloud = OpenStack { environment: Vec::new(), state, port, knobs, token: Mutex::default() };
        let output = cloud.up();
        let said = text(&output.stderr);
        let lacks = ["installing OpenStack failed", "making the virtual machine failed"];
        if !output.status.success() && lacks.iter().any(|what| said.contains(what)) {
            crate::skipped(&format!("OpenStack or its machines cannot be installed here: {said}"));
            return None;
        }
        assert!(output.status.success(), "{said}");
        sandbox.hide(cloud.secrets());
        Some(cloud)
    }

    /// What manager.yaml says of a platform there. `openstack`: more of its project, `fields`: of the platform.
    pub fn fields(&self, openstack: &str, fields: &str) -> String {
        format!(
            "name: cloud, adapter: openstack, pilots_max: 2, memory: 300MiB, folder: {}, openstack: {{cloud: appcred, \
             clouds_file: {}, image: pilot-image, networks: none, {openstack}}}, {fields}",
            self.state.join("pilots").display(),
            self.clouds_file().display()
        )
    }

    /// Who may enter: `demo` and `admin` by password, `appcred` by an application credential.
    pub fn clouds_file(&self) -> PathBuf {
        self.state.join("clouds.yaml")
    }

    /// What clients have in their environment that enter by the application credential.
    pub fn variables(&self) -> Vec<(String, String)> {
        let lines = fs::read_to_string(self.state.join("openrc-appcred")).expect("it is written");
        let exported = lines.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        exported.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect()
    }

    /// What a service answers an administrator; `Null` where it says nothing.
    pub fn ask(&self, method: &str, url: &str, body: &str) -> Value {
        let token = || self.token.lock().expect("nobody panics who holds it");
        let held = token().clone().filter(|(since, _)| since.elapsed() < SIGNED_IN);
        let held = held.unwrap_or_else(|| (Instant::now(), self.token_of("admin")));
        let answer = ask_with(&held.1, method, url, body);
        *token() = Some(held).filter(|_| answer["error"]["code"] != 401);
        answer
    }

    /// … or another of those who may enter.
    fn ask_as(&self, who: &str, method: &str, url: &str, body: &str) -> Value {
        ask_with(&self.token_of(who), method, url, body)
    }

    /// The URL of a service: 0 Keystone, 1 Nova, 2 Placement, 3 Glance.
    pub fn url(&self, service: u16, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port + service)
    }

    /// Servers of all projects.
    pub fn servers(&self) -> Vec<Value> {
        let (mut all, mut next) = (Vec::new(), Some(self.url(1, "/v2.1/servers/detail?all_tenants=1")));
        while let Some(url) = next {
            let answer = self.ask("GET", &url, "");
            let page = answer["servers"].as_array();
            all.extend_from_slice(page.unwrap_or_else(|| panic!("no list of servers: {answer}")));
            next = answer["servers_links"][0]["href"].as_str().map(str::to_owned);
        }
        all
    }

    /// Somebody of the project starts a server that bears these tags, as if it were copied, and says of which
    /// allocation it is; its id.
    pub fn add_server(&self, tags: &[&str], allocation: Option<&str>) -> String {
        let images = self.ask("GET", &self.url(3, "/v2/images?name=pilot-image"), "");
        let metadata = allocation.map(|tag| serde_json::json!({ "pilotfish-allocation": tag }));
        let server = serde_json::json!({ "server": {
            "name": "copy", "flavorRef": "p1.tiny", "imageRef": images["images"][0]["id"],
            "networks": "none", "tags": tags, "metadata": metadata.unwrap_or(serde_json::json!({})),
        } });
        let made = self.ask_as("demo", "POST", &self.url(1, "/v2.1/servers"), &server.to_string());
        made["server"]["id"].as_str().unwrap_or_else(|| panic!("no server: {made}")).to_owned()
    }

    /// Somebody of the project removes all tags of a server.
    pub fn remove_tags(&self, id: &str) {
        let is_bare =
            |server: &Value| server["id"] == id && server["tags"].as_array().is_some_and(Vec::is_empty);
        // Its database may be locked for a moment.
        until("its tags are gone", || {
            self.ask_as("demo", "DELETE", &self.url(1, &format!("/v2.1/servers/{id}/tags")), "");
            self.servers().iter().any(is_bare)
        });
    }

    /// A key pair of the project's user.
    pub fn add_key_pair(&self, name: &str) {
        let pair = serde_json::json!({ "keypair": { "name": name } });
        let made = self.ask_as("demo", "POST", &self.url(1, "/v2.1/os-keypairs"), &pair.to_string());
        assert_eq!(made["keypair"]["name"], name, "{made}");
    }

    /// What a service has written down.
    pub fn log(&self, service: &str) -> String {
        fs::read_to_string(self.state.join("log").join(service).with_extension("log")).expect("a log")
    }

    /// Lines of Nova about servers, without those of stacks.
    pub fn said_of(&self, servers: &[Value]) -> String {
        let ids: Vec<&str> = servers.iter().filter_map(|server| server["id"].as_str()).collect();
        let (log, is_of) = (self.log("nova"), |line: &&str| {
            ids.iter().any(|id| line.contains(id)) && line.contains("[None ")
        });
        log.lines().filter(is_of).map(|line| format!("{line}\n")).collect()
    }

    /// Lines of Nova about servers whose deletion was asked for again while it went on, so soon after the last time.
    pub fn deleted_again_within(&self, pause: Duration) -> Vec<String> {
        let log = self.log("nova");
        let is_soon = |(index, line): &(usize, &str)| {
            let id = line.split("[instance: ").nth(1).and_then(|rest| rest.split(']').next()).expect("an id");
            let asked = format!("\"DELETE /v2.1/servers/{id} ");
            let last = log.lines().take(*index).filter(|line| line.contains(&asked)).last();
            last.is_none_or(|last| {
                (second_of_day(line) - second_of_day(last)).rem_euclid(86_400.0) < pause.as_secs_f64()
            })
        };
        let again = log.lines().enumerate().filter(|(_, line)| line.contains("already in deleting state"));
        again.filter(is_soon).map(|(_, line)| line.to_owned()).collect()
    }

    /// What a server has written.
    pub fn console(&self, id: &str) -> String {
        let url = self.url(1, &format!("/v2.1/servers/{id}/action"));
        let answer = self.ask("POST", &url, "{\"os-getConsoleOutput\": {}}");
        answer["output"].as_str().unwrap_or_default().to_owned()
    }

    /// Lets no host have new servers, or all of them.
    pub fn let_hosts(&self, status: &str) {
        let services = self.ask("GET", &self.url(1, "/v2.1/os-services?binary=nova-compute"), "");
        for service in services["services"].as_array().expect("services") {
            let url = self.url(1, &format!("/v2.1/os-services/{}", service["id"].as_str().expect("an id")));
            let answer = self.ask("PUT", &url, &format!("{{\"status\": \"{status}\"}}"));
            assert_eq!(answer["service"]["status"], status, "{answer}");
        }
    }

    /// Somebody deletes a server, and it is gone.
    pub fn delete(&self, id: &str) {
        self.ask("DELETE", &self.url(1, &format!("/v2.1/servers/{id}")), "");
        until("it is deleted", || self.servers().iter().all(|server| server["id"] != id));
    }

    /// A group of servers each of which is on a host of its own.
    pub fn add_server_group(&self, name: &str) {
        let group = serde_json::json!({ "server_group": { "name": name, "policy": "anti-affinity" } });
        let made = self.ask_as("demo", "POST", &self.url(1, "/v2.1/os-server-groups"), &group.to_string());
        assert_eq!(made["server_group"]["name"], name, "{made}");
    }

    /// How many servers a project may have.
    pub fn allow(&self, n_servers: u32) {
        let projects = self.ask("GET", &self.url(0, "/v3/projects?name=demo"), "");
        let id = projects["projects"][0]["id"].as_str().expect("a project");
        let body = format!("{{\"quota_set\": {{\"instances\": {n_servers}}}}}");
        let answer = self.ask("PUT", &self.url(1, &format!("/v2.1/os-quota-sets/{id}")), &body);
        assert_eq!(answer["quota_set"]["instances"], n_servers, "{answer}");
    }

    /// From now on whoever signs in finds Nova at that address.
    pub fn lead_to(&self, address: &str) {
        self.lead("compute", &format!("http://{address}/v2.1"));
    }

    /// From now on whoever signs in finds the service of that type at that URL.
    pub fn lead(&self, kind: &str, url: &str) {
        let services = self.ask("GET", &self.url(0, &format!("/v3/services?type={kind}")), "");
        let service = services["services"][0]["id"].as_str().expect("a service");
        let path = format!("/v3/endpoints?service_id={service}&interface=public");
        let endpoints = self.ask("GET", &self.url(0, &path), "");
        let endpoint = endpoints["endpoints"][0]["id"].as_str().expect("an endpoint");
        let body = format!("{{\"endpoint\": {{\"url\": \"{url}\"}}}}");
        let answer = self.ask("PATCH", &self.url(0, &format!("/v3/endpoints/{endpoint}")), &body);
        assert_eq!(answer["endpoint"]["url"], url, "{answer}");
    }

    /// An aggregate of that name with one host.
    pub fn add_aggregate(&self, name: &str, host: &str) {
        let path = self.url(1, "/v2.1/os-aggregates");
        let made = self.ask("POST", &path, &format!("{{\"aggregate\": {{\"name\": \"{name}\"}}}}"));
        let id = &made["aggregate"]["id"];
        let body = format!("{{\"add_host\": {{\"host\": \"{host}\"}}}}");
        let answer = self.ask("POST", &format!("{path}/{id}/action"), &body);
        assert_eq!(answer["aggregate"]["hosts"][0], host, "{answer}");
    }

    /// How many vCPUs each core of a host stands for.
    pub fn ratio_of(&self, host: &str) -> f64 {
        let inventories = self.inventories(host);
        let ratio = inventories["VCPU"]["allocation_ratio"].as_f64();
        ratio.unwrap_or_else(|| panic!("no ratio: {inventories}"))
    }

    /// What Placement knows that a host has, by classes.
    pub fn inventories(&self, host: &str) -> Value {
        self.ask("GET", &self.inventories_of(host), "")["inventories"].take()
    }

    /// Somebody writes what a host has once more, as it is: whoever has read it before has an old generation of it.
    pub fn writing_inventories(&self, host: &str) -> impl FnOnce() + Send + use<> {
        let (mut asking, url) = (self.asking_for_token("admin"), self.inventories_of(host));
        move || {
            // Only now: it may end before somebody is to write.
            let token = token(&mut asking);
            let held = ask_with(&token, "GET", &url, "");
            let written = ask_with(&token, "PUT", &url, &held.to_string());
            assert!(written["resource_provider_generation"].is_u64(), "{written}");
        }
    }

    fn inventories_of(&self, host: &str) -> String {
        let found = self.ask("GET", &self.url(2, &format!("/resource_providers?name={host}")), "");
        let id = found["resource_providers"][0]["uuid"].as_str().expect("a host");
        self.url(2, &format!("/resource_providers/{id}/inventories"))
    }

    /// Where Nova itself is.
    pub fn nova(&self) -> String {
        format!("127.0.0.1:{}", self.port + 1)
    }

    /// The application credential of `appcred` is deleted.
    pub fn revoke(&self) {
        let users = self.ask("GET", &self.url(0, "/v3/users?name=demo"), "");
        let user = users["users"][0]["id"].as_str().expect("a user");
        let url = self.url(0, &format!("/v3/users/{user}/application_credentials"));
        let held = self.ask_as("demo", "GET", &url, "");
        let id = held["application_credentials"][0]["id"].as_str().expect("one");
        self.ask_as("demo", "DELETE", &format!("{url}/{id}"), "");
    }

    /// A service is killed.
    pub fn kill(&self, service: &str) {
        let pid = fs::read_to_string(self.state.join(format!("run/{service}.pid"))).expect("its pid");
        let pid = Pid::from_raw(pid.trim().parse().expect("a pid"));
        kill(pid, Signal::SIGKILL).expect("it ran");
        until("it is gone", || kill(pid, None).is_err());
    }

    /// All services that are not there are started.
    pub fn again(&self) {
        let output = self.up();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    fn up(&self) -> Output {
        let mut up = Command::new(scripts().join("up"));
        up.arg(&self.state).env("OPENSTACK_TEST_PORT", self.port.to_string());
        up.envs(self.knobs.iter().map(|(name, value)| (name, value))).output().expect("the script is there")
    }

    /// Passwords and secrets of those who may enter.
    pub fn secrets(&self) -> Vec<String> {
        let clouds = std::fs::read_to_string(self.clouds_file()).expect("clouds.yaml");
        let clouds: Value = serde_json::from_str(&clouds).expect("it is JSON, too");
        let of = |cloud: &str, what: &str| clouds["clouds"][cloud]["auth"][what].clone();
        let secrets =
            [of("demo", "password"), of("admin", "password"), of("appcred", "application_credential_secret")];
        secrets.iter().map(|secret| secret.as_str().expect("a secret").to_owned()).collect()
    }

    fn token_of(&self, cloud: &str) -> String {
        token(&mut self.asking_for_token(cloud))
    }

    /// What asks Keystone for one.
    fn asking_for_token(&self, cloud: &str) -> Command {
        let clouds = std::fs::read_to_string(self.clouds_file()).expect("clouds.yaml");
        let clouds: Value = serde_json::from_str(&clouds).expect("it is JSON, too");
        let auth = &clouds["clouds"][cloud]["auth"];
        let body = serde_json::json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": {
                "name": auth["username"], "password": auth["password"], "domain": { "name": "Default" } } } },
            "scope": { "project": { "name": auth["project_name"], "domain": { "name": "Default" } } },
        } });
        let mut curl = Command::new("curl");
        curl.args(["-si", "--noproxy", "*", "-H", "Content-Type: application/json", "-d", &body.to_string()]);
        curl.arg(self.url(0, "/v3/auth/tokens"));
        curl
    }
}

/// When a service wrote a line that begins `2026-11-29 14:50:03.389`, in seconds since midnight.
fn second_of_day(line: &str) -> f64 {
    let time = line.split(' ').nth(1).unwrap_or_default();
    let parts: Option<Vec<f64>> = time.split(':').map(|part| part.parse().ok()).collect();
    let parts = parts.filter(|parts| parts.len() == 3).unwrap_or_else(|| panic!("no time: {line}"));
    parts.iter().fold(0.0, |sum, part| sum * 60.0 + part)
}

fn token(asking: &mut Command) -> String {
    let said = text(&asking.output().expect("curl is installed").stdout);
    let header = said.lines().find_map(|line| line.strip_prefix("X-Subject-Token: "));
    header.unwrap_or_else(|| panic!("no token: {said}")).trim().to_owned()
}

impl Platform for OpenStack {
    fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn has_pilots(&self, _sandbox: &Sandbox) -> bool {
        !self.servers().is_empty()
    }
}

impl Drop for OpenStack {
    fn drop(&mut self) {
        let _ = Command::new(scripts().join("down")).arg(&self.state).output();
    }
}

/// The Python that has openstacksdk, of the packages that were fetched for such a cloud; `None`, and it is said: they
/// cannot be fetched here.
pub fn python() -> Option<PathBuf> {
    let output = Command::new(scripts().join("up")).arg("--prepare").output().expect("the script is there");
    let home = std::env::var("HOME").unwrap_or_default();
    let cache = std::env::var("XDG_CACHE_HOME").unwrap_or_else(|_| format!("{home}/.cache"));
    let cache = std::env::var("OPENSTACK_TEST_CACHE").unwrap_or_else(|_| format!("{cache}/openstack-test"));
    let folders = fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.path());
    let python = |folder: PathBuf| folder.join(".complete").exists().then(|| folder.join("bin/python"));
    let found = folders.filter_map(python).find(|python| python.exists());
    if !output.status.success() || found.is_none() {
        crate::skipped(&format!("openstacksdk cannot be installed here: {}", text(&output.stderr)));
        return None;
    }
    found
}

/// `pilotfish` with the agent beside it that goes into machines: without any library, and as small as an installed one,
/// since debug information does not fit into a little machine.
pub fn installed(sandbox: &Sandbox) -> PathBuf {
    let (from, folder) = (program(), sandbox.path().join("bin"));
    fs::create_dir(&folder).expect("a folder");
    let to = folder.join("pilotfish");
    fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop)).expect("a copy");
    let (agent, mut strip) = (from.with_file_name("pilotfish-agent-static"), Command::new("strip"));
    strip.arg("-o").arg(folder.join("pilotfish-agent")).arg(&agent);
    let is_made = strip.status().expect("binutils are installed").success();
    assert!(is_made, "tests/run makes {}", agent.display());
    to
}

/// What a service answers whoever has that token.
fn ask_with(token: &str, method: &str, url: &str, body: &str) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["-s", "--noproxy", "*", "-X", method, url, "-H", "Content-Type: application/json"]);
    for version in ["compute 2.79", "placement 1.36"] {
        curl.arg("-H").arg(format!("OpenStack-API-Version: {version}"));
    }
    curl.arg("-H").arg(format!("X-Auth-Token: {token}"));
    if !body.is_empty() {
        curl.args(["-d", body]);
    }
    let said = curl.output().expect("curl is installed").stdout;
    serde_json::from_slice(&said).unwrap_or_default()
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("openstack")
}
