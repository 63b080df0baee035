//! A host of its own: with a network that leads nowhere, and an sshd that is reached through a pipe. What is
//! here cannot be reached from there, unless it is led there.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use nix::{sys::signal::Signal, unistd::Uid};

use crate::{Sandbox, scene::Platform, signal_pid, sshd, until};

/// Such a host; its name is `localhost`.
pub struct Apart {
    folder: PathBuf,
    /// Ends with its input, and the host with it.
    holder: Child,
}

impl Apart {
    /// Makes one; `None`, with the reason printed, where that is not allowed. `lines`: more of its sshd's
    /// configuration.
    pub fn start(sandbox: &Sandbox, lines: &str) -> Option<Apart> {
        if !Uid::effective().is_root() {
            crate::skipped("only root can make a host of its own");
            return None;
        }
        let folder = sshd::prepare(sandbox, "apart", lines)?;
        // Who has no address but the loopback one looks up none, written as numbers either: SLURM does so.
        let script = "hostname localhost && ip link set lo up && ip address add 192.0.2.1/32 dev lo && \
                      echo > \"$1\" && exec cat";
        let is_up = folder.join("up");
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--uts", "sh", "-c", script, "sh"]).arg(&is_up);
        let mut holder = unshare.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("unshare runs");
        let mut has_ended = false;
        until("there is a host", || {
            has_ended = holder.try_wait().is_ok_and(|status| status.is_some());
            has_ended || is_up.exists()
        });
        if has_ended {
            crate::skipped("no host of its own can be made here");
            return None;
        }
        let known: String = sshd::HOST_KEYS
            .iter()
            .map(|kind| fs::read_to_string(folder.join(format!("host_{kind}.pub"))).expect("a host's key"))
            .map(|key| format!("apart {key}"))
            .collect();
        fs::write(folder.join("known_hosts"), known).expect("known hosts");
        Some(Apart { folder, holder })
    }

    /// The words before a command that is to run there.
    pub fn words(&self) -> Vec<String> {
        let pid = self.holder.id();
        ["nsenter".to_owned(), format!("--net=/proc/{pid}/ns/net"), format!("--uts=/proc/{pid}/ns/uts")]
            .into()
    }

    /// The client's configuration of the host `apart`.
    pub fn client_configuration(&self) -> String {
        let path = |name: &str| self.folder.join(name).display().to_string();
        let sshd = format!(
            "{} {} -i -E {} -f {}",
            self.words().join(" "),
            sshd::SSHD,
            path("log"),
            path("sshd_config")
        );
        format!(
            "Host apart\n User {}\n IdentitiesOnly yes\n IdentityFile {}\n UserKnownHostsFile {}\n \
             GlobalKnownHostsFile none\n ProxyCommand sh -c 'echo $$ >> {}; exec {sshd}'\n",
            sshd::user(),
            path("id"),
            path("known_hosts"),
            path("pids"),
        )
    }

    /// Gives the sessions there more variables.
    pub fn set_environment(&self, variables: &[(String, String)]) {
        let path = self.folder.join("sshd_config");
        let text = fs::read_to_string(&path).expect("its configuration");
        let more: String = variables.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let with_more = text.replace("SetEnv HOME=", &format!("SetEnv{more} HOME="));
        fs::write(path, with_more).expect("its configuration");
    }

    /// How often somebody was let in so far.
    pub fn n_logins(&self) -> usize {
        sshd::n_logins(&fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    /// Ends the connections that there are, but not what was started in them.
    pub fn cut(&self) {
        let pids = fs::read_to_string(self.folder.join("pids")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
            let is_sshd =
                fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sshd");
            if is_sshd {
                signal_pid(pid, Signal::SIGKILL);
            }
        }
    }
}

impl Platform for Apart {
    fn has_pilots(&self, sandbox: &Sandbox) -> bool {
        !sandbox.agents().is_empty()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.cut();
        // Both fail only when it has ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
