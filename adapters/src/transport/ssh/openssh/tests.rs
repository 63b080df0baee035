//! What is left of logins that come to nothing.

use std::path::{Path, PathBuf};

use super::{super::Nobody, *};

/// A host that nobody gets to, and what its proxy has started.
struct Gate {
    folder: tempfile::TempDir,
}

impl Gate {
    /// Its proxy starts a child, one in a group and one in a session of its own, and then does this.
    fn new(then: &str) -> Gate {
        let folder = tempfile::tempdir().expect("a folder");
        let pids = folder.path().join("pids");
        let script = folder.path().join("proxy");
        let begin = format!(
            "run='exec </dev/null >/dev/null 2>&1; echo $$ >> {0}; exec sleep 1000'\n\
             sh -c \"$run\" &\n(setsid sh -c \"$run\" &)\ntimeout 1000 sh -c \"$run\" >/dev/null 2>&1 &\n\
             until [ \"$(wc -l < {0})\" -ge 3 ]; do sleep 0.01; done\necho $$ >> {0}\n{then}\n",
            pids.display()
        );
        std::fs::write(&script, begin).expect("a script");
        std::fs::write(&pids, "").expect("a file");
        Gate { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ssh(&self) -> OpenSsh {
        let config = self.path("config");
        let lines = format!(
            "Host far\n ProxyCommand /bin/sh {}\n ConnectTimeout none\n",
            self.path("proxy").display()
        );
        std::fs::write(&config, lines).expect("a configuration");
        let config = Some(config.display().to_string());
        OpenSsh::new("far".to_owned(), config, Arc::new(Nobody)).with_sockets_in(self.path("sockets"))
    }

    fn pids(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("pids")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns when none of them is there any more.
    async fn is_left(&self) {
        let pids = self.pids();
        assert_eq!(pids.len(), 4, "all have begun");
        for pid in pids {
            while runs(&pid) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Whether a process of that number is there and no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[tokio::test]
async fn a_login_that_fails_ends_with_all_that_it_has_started() {
    let gate = Gate::new("exit 1");
    let ssh = gate.ssh();
    let error = ssh.connect().await.expect_err("nobody is there");
    assert!(matches!(error, SshError::Broken { .. }), "{error}");
    gate.is_left().await;
}

#[tokio::test]
async fn a_login_that_is_given_up_ends_with_all_that_it_has_started() {
    let gate = Gate::new("wait");
    let ssh = gate.ssh();
    let are_there = async {
        while gate.pids().len() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        result = ssh.connect() => panic!("{result:?}"),
        () = are_there => {}
    }
    gate.is_left().await;
}
