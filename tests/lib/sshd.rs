//! A real sshd on this host, for whoever runs the tests, with keys of its own.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid, User},
};

use crate::{Running, Sandbox, ports::free_ports, text, until};

/// It is to be called by its full path.
pub const SSHD: &str = "/usr/sbin/sshd";
/// The kinds of keys that a server has.
pub const HOST_KEYS: [&str; 2] = ["ed25519", "rsa"];

/// A server that lets one in with the key `id` of its folder.
pub struct Sshd {
    folder: PathBuf,
    port: u16,
    name: String,
    daemon: Running,
}

impl Sshd {
    /// Starts one, whose sessions have the sandbox's home; `None`, with the reason printed, where that is
    /// not possible. `extra`: more lines of its configuration.
    pub fn start(sandbox: &Sandbox, name: &str, extra: &str) -> Option<Sshd> {
        let port = free_ports(1);
        let folder = prepare(sandbox, name, &format!("Port {port}\nListenAddress 127.0.0.1\n{extra}"))?;
        let mut command = Command::new(SSHD);
        let configuration = folder.join("sshd_config");
        command.args(["-D", "-e", "-f"]).arg(&configuration).env_clear().env("PATH", "/usr/bin:/bin");
        let daemon = sandbox.spawn(name, command);
        let sshd = Sshd { folder, port, name: name.to_owned(), daemon };
        sshd.be_known(&HOST_KEYS);
        until("sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(sshd)
    }

    /// Where it listens, as a word of the configuration that [`Sshd::client_configuration`] writes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file in its folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Makes a pair of keys, and lets whoever has it in.
    pub fn let_in(&self, key: &str, kind: &str, phrase: &str) {
        make_key(&self.file(key), kind, phrase);
        let public = fs::read(self.file(&format!("{key}.pub"))).expect("a public key");
        let mut authorized = OpenOptions::new().append(true).open(self.file("authorized")).expect("the keys");
        authorized.write_all(&public).expect("one more");
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Says that the host has these of its keys, and no others.
    pub fn be_known(&self, kinds: &[&str]) {
        let line = |kind: &&str| {
            let key = fs::read_to_string(self.file(&format!("host_{kind}.pub"))).expect("a host's key");
            format!("[127.0.0.1]:{} {}\n", self.port, key.trim_end())
        };
        fs::write(self.file("known_hosts"), kinds.iter().map(line).collect::<String>()).expect("known hosts");
    }

    /// The client's configuration of this host: with the key `id`, and more lines.
    pub fn client_configuration(&self, more: &str) -> String {
        format!(
            "Host {}\n HostName 127.0.0.1\n Port {}\n User {}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n \
             GlobalKnownHostsFile none\n {more}\n IdentityFile {}\n",
            self.name,
            self.port,
            user(),
            self.file("known_hosts").display(),
            self.file("id").display(),
        )
    }

    /// How often somebody was let in so far.
    pub fn n_logins(&self, sandbox: &Sandbox) -> usize {
        n_logins(&sandbox.read(&format!("{}.err", self.name)))
    }

    /// Ends the connections that there are, but not what runs in them.
    pub fn cut(&self) {
        for pid in children(self.daemon.pid()) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
            children(pid).into_iter().for_each(|pid| crate::signal_pid(pid, Signal::SIGKILL));
        }
    }
}

/// How often somebody was let in, by a server's log.
pub fn n_logins(log: &str) -> usize {
    log.lines().filter(|line| line.starts_with("Accepted ") && line.contains(" from ")).count()
}

/// Makes a server's folder, with its keys and its configuration: these lines and what all have.
pub fn prepare(sandbox: &Sandbox, name: &str, lines: &str) -> Option<PathBuf> {
    if !Path::new(SSHD).exists() || Command::new("ssh").arg("-V").output().is_err() {
        crate::skipped("OpenSSH's server or client is not installed; tests/run does that");
        return None;
    }
    if Uid::effective().is_root() {
        // What it insists on; a machine with a running sshd has it.
        fs::create_dir_all("/run/sshd").expect("a folder for sshd");
    }
    let folder = sandbox.path().join(name);
    fs::create_dir(&folder).expect("a folder");
    let mut text = String::new();
    for kind in HOST_KEYS {
        let key = folder.join(format!("host_{kind}"));
        make_key(&key, kind, "");
        text.push_str(&format!("HostKey {}\n", key.display()));
    }
    make_key(&folder.join("id"), "ed25519", "");
    fs::copy(folder.join("id.pub"), folder.join("authorized")).expect("a key to let in");
    text.push_str(&format!(
        "PidFile none\nAuthorizedKeysFile {}/authorized\nStrictModes no\nPasswordAuthentication no\n\
         PermitRootLogin yes\nUseDNS no\nPrintMotd no\nMaxStartups 50:30:100\nLogLevel VERBOSE\n\
         SetEnv HOME={}\n{lines}\n",
        folder.display(),
        sandbox.path().join("home").display()
    ));
    fs::write(folder.join("sshd_config"), text).expect("its configuration");
    Some(folder)
}

/// What the host of [`with_second_factor`] asks for after the key.
pub const CODE: &str = "123456";

/// Makes a host that lets in who has the key and types the code; gives the client's configuration of it, where it is
/// called `host`. It serves files, too. It is reached through a pipe; its log is `host/log`. `None`, with the reason printed, where that is not
/// possible.
pub fn with_second_factor(sandbox: &Sandbox) -> Option<String> {
    let lines = "UsePAM yes\nKbdInteractiveAuthentication yes\nSubsystem sftp internal-sftp\n\
        AuthenticationMethods publickey,keyboard-interactive\n";
    let folder = prepare(sandbox, "host", lines)?;
    let path = |name: &str| folder.join(name).display().to_string();
    let check = sandbox.write("host/check", &format!("#!/bin/sh\n[ \"$(head -c 6)\" = {CODE} ]\n"));
    fs::set_permissions(&check, PermissionsExt::from_mode(0o755)).expect("a program");
    let rules = format!(
        "auth requisite pam_exec.so expose_authtok quiet {}\nauth required pam_permit.so\naccount required pam_permit.so\n\
         session required pam_permit.so\n",
        check.display()
    );
    sandbox.write("host/pam.d/sshd", &rules);
    // The system's rules are hidden from this sshd alone.
    let script = format!(
        "mount --bind {} /etc/pam.d && exec {SSHD} -i -E {} -f {}",
        path("pam.d"),
        path("log"),
        path("sshd_config")
    );
    let hidden = Command::new("unshare").args(["--mount", "true"]).status();
    if !hidden.is_ok_and(|status| status.success()) {
        crate::skipped("no mount can be made here");
        return None;
    }
    let key = fs::read_to_string(folder.join("host_ed25519.pub")).expect("a host's key");
    sandbox.write("host/known_hosts", &format!("host {key}"));
    Some(format!(
        "Host host\n User {}\n IdentitiesOnly yes\n IdentityFile {}\n UserKnownHostsFile {}\n \
         GlobalKnownHostsFile none\n ProxyCommand unshare --mount sh -c '{script}'\n",
        user(),
        path("id"),
        path("known_hosts")
    ))
}

/// Who runs the tests.
pub fn user() -> String {
    User::from_uid(Uid::effective()).ok().flatten().expect("we are somebody").name
}

fn make_key(path: &Path, kind: &str, phrase: &str) {
    let output = Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", phrase, "-f"]).arg(path).output();
    let output = output.expect("ssh-keygen runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a private key");
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
