//! A real Swift on this host, which also speaks S3: its four servers are processes of the test, in its sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::Uid;

use crate::{Running, Sandbox, ports::free_ports, text, until};

/// What opens it by S3, and by Swift's own authentication.
pub const ACCESS_KEY: &str = "test:tester";
/// The secret to that.
pub const SECRET_KEY: &str = "for-tests-only-0123456789";
/// What signs addresses of Swift.
pub const TEMP_URL_KEY: &str = "signs-for-tests-only-9876543210";

/// The account `AUTH_test` with one container, which is a bucket, too.
pub struct Swift {
    proxy: u16,
    container: String,
    token: String,
    _servers: Vec<Running>,
}

impl Swift {
    /// Starts one; `None`, with the reason printed, where that is not possible.
    pub fn start(sandbox: &Sandbox, container: &str) -> Option<Swift> {
        if !Uid::effective().is_root() {
            crate::skipped("only root can start Swift's servers");
            return None;
        }
        for program in ["swift-proxy-server", "swift-object-server", "memcached"] {
            if !Path::new("/usr/bin").join(program).exists() {
                crate::skipped(&format!("{program} is not installed; tests/run does that"));
                return None;
            }
        }
        let folder = sandbox.path().join("home/swift");
        fs::create_dir_all(folder.join("devices/d1")).expect("a folder");
        let first = free_ports(5);
        let (cache, proxy) = (first + 3, first + 4);
        write(&folder, "swift.conf", "[swift-hash]\nswift_hash_path_suffix = tests\n");
        for (kind, port) in ["account", "container", "object"].into_iter().zip(first..) {
            make_ring(&folder, kind, port);
            write(&folder, &format!("{kind}.conf"), &server(&folder, kind, port));
        }
        write(&folder, "proxy.conf", &proxy_server(&folder, proxy, cache));
        let mut memcached = Command::new("memcached");
        memcached.args(["-l", "127.0.0.1", "-u", "root", "-p"]).arg(cache.to_string());
        let mut servers = vec![sandbox.spawn("memcached", memcached)];
        for kind in ["account", "container", "object", "proxy"] {
            let mut command = Command::new(format!("swift-{kind}-server"));
            command.arg(folder.join(format!("{kind}.conf"))).env("SWIFT_DIR", &folder);
            servers.push(sandbox.spawn(&format!("swift-{kind}"), command));
        }
        let mut swift =
            Swift { proxy, container: container.to_owned(), token: String::new(), _servers: servers };
        until("Swift lets us in", || {
            swift.token = swift.log_in();
            !swift.token.is_empty()
        });
        let key = format!("X-Account-Meta-Temp-URL-Key: {TEMP_URL_KEY}");
        until("the account has its key", || swift.call("", &["-X", "POST", "-H", &key]).0 == 204);
        until("the container is there", || swift.call(&format!("/{container}"), &["-X", "PUT"]).0 / 100 == 2);
        Some(swift)
    }

    /// The address of S3.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.proxy)
    }

    /// The account's address.
    pub fn account_url(&self) -> String {
        format!("{}/v1/AUTH_test", self.url())
    }

    /// Writes an object.
    pub fn put(&self, sandbox: &Sandbox, name: &str, contents: &str) {
        let file = sandbox.write("to-put", contents);
        let (status, _) = self.answered(&self.object(name), &["-T", file.to_str().expect("a path")]);
        assert_eq!(status, 201, "{name}");
    }

    /// What an object holds, if it is there.
    pub fn get(&self, name: &str) -> Option<String> {
        let (status, body) = self.answered(&self.object(name), &[]);
        (status == 200).then_some(body)
    }

    fn object(&self, name: &str) -> String {
        format!("/{}/{}", self.container, name.replace(' ', "%20"))
    }

    fn log_in(&self) -> String {
        let said = Command::new("curl")
            .args(["-s", "-i", "-H", &format!("X-Storage-User: {ACCESS_KEY}")])
            .args(["-H", &format!("X-Storage-Pass: {SECRET_KEY}")])
            .arg(format!("{}/auth/v1.0", self.url()))
            .output()
            .expect("curl runs");
        let said = text(&said.stdout);
        let token = said.lines().find_map(|line| line.strip_prefix("X-Auth-Token: "));
        token.unwrap_or_default().trim().to_owned()
    }

    /// A request of the account, made again while the servers behind Swift are too slow.
    fn answered(&self, path: &str, arguments: &[&str]) -> (u16, String) {
        let mut answer = (503, String::new());
        until("Swift answers", || {
            answer = self.call(path, arguments);
            answer.0 != 503
        });
        answer
    }

    /// A request of the account: the status and the body.
    fn call(&self, path: &str, arguments: &[&str]) -> (u16, String) {
        let said = Command::new("curl")
            .args(["-s", "-w", "\\n%{http_code}", "-H", &format!("X-Auth-Token: {}", self.token)])
            .args(arguments)
            .arg(format!("{}{path}", self.account_url()))
            .output()
            .expect("curl runs");
        let said = text(&said.stdout);
        let (body, status) = said.rsplit_once('\n').expect("a status");
        (status.parse().unwrap_or(0), body.to_owned())
    }
}

fn write(folder: &Path, name: &str, contents: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, contents).expect("a file");
    path
}

/// One device, one copy of everything.
fn make_ring(folder: &Path, kind: &str, port: u16) {
    let builder = folder.join(format!("{kind}.builder"));
    let device = format!("r1z1-127.0.0.1:{port}/d1");
    for arguments in [&["create", "2", "1", "0"][..], &["add", &device, "1"], &["rebalance"]] {
        let output = Command::new("swift-ring-builder").arg(&builder).args(arguments).output();
        let output = output.expect("swift-ring-builder runs");
        // 1: it warns.
        assert!(output.status.code().is_some_and(|code| code < 2), "{}", text(&output.stdout));
    }
}

fn server(folder: &Path, kind: &str, port: u16) -> String {
    let folder = folder.display();
    format!(
        "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nuser = root\nworkers = 0\nswift_dir = {folder}\n\
         devices = {folder}/devices\nmount_check = false\nfallocate_reserve = 0\nlog_address = /nowhere\n\
         [pipeline:main]\npipeline = {kind}-server\n\
         [app:{kind}-server]\nuse = egg:swift#{kind}\n"
    )
}

fn proxy_server(folder: &Path, port: u16, cache: u16) -> String {
    let folder = folder.display();
    let filter = |name: &str, more: &str| format!("[filter:{name}]\nuse = egg:swift#{name}\n{more}\n");
    format!(
        "[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port}\nuser = root\nworkers = 0\nswift_dir = {folder}\n\
         log_address = /nowhere\n\
         [pipeline:main]\npipeline = catch_errors cache tempurl s3api tempauth proxy-server\n\
         [app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n\
         conn_timeout = 60\nnode_timeout = 300\nrecoverable_node_timeout = 300\nerror_suppression_limit = 1000000\n\
         {}{}{}{}{}",
        filter("catch_errors", ""),
        filter("tempurl", ""),
        filter("s3api", ""),
        filter(
            "tempauth",
            &format!("user_test_tester = {SECRET_KEY} .admin http://127.0.0.1:{port}/v1/AUTH_test")
        ),
        "[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:".to_owned()
            + &cache.to_string()
            + "\n",
    )
}
