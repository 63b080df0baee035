//! Tasks that have the manager's account can act as any user: a manager of several users has none, or they have
//! another account.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use tests::{Running, Sandbox, sshd::Sshd, text, until};

/// An account that all hosts have.
const OTHER: &str = "nobody";
const LOCAL: &str = "platforms: [{name: here, adapter: local, cores: 1}]\n";

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--now", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}

/// Exit code and standard error.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String) {
    let output = sandbox.run(arguments);
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_local_platform_and_a_second_user_are_refused_in_either_order() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve_in_m(&["--cores", "1"]);
    let (code, said) = refused(&sandbox, &["user", "add", "ann", "--dir", "m"]);
    assert!(
        code == Some(2) && said.contains("platform local: its tasks run as the manager's own account"),
        "{said}"
    );
    assert!(said.contains("run_as: ACCOUNT") && said.contains("allow_shared_account: true"), "{said}");
    assert!(!sandbox.path().join("ann/access.json").exists());
    // Operators may do everything anyway.
    sandbox.ok(&["user", "add", "olga", "--operator", "--dir", "m"]);
    ends(&sandbox, manager);

    let manager = sandbox.serve_in_m(&["--no-local"]);
    sandbox.ok(&["user", "add", "ann", "--dir", "m"]);
    ends(&sandbox, manager);
    let (code, said) = refused(&sandbox, &["serve", "--dir", "m", "--cores", "1"]);
    assert!(code == Some(2) && said.contains("others than operators have access (ann)"), "{said}");
    assert!(!sandbox.path().join("m/access.json").exists(), "nothing is left of it");

    sandbox.write("manager.yaml", "platforms: []\n");
    let manager = sandbox.serve_in_m(&["--no-local", "--config", "manager.yaml"]);
    sandbox.write("manager.yaml", LOCAL);
    let (code, said) = refused(&sandbox, &["platform", "reload", "--dir", "m"]);
    assert!(code == Some(2) && said.contains("others than operators have access (ann)"), "{said}");
    let platforms = sandbox.json(&["platforms", "--dir", "m"]).to_string();
    assert!(!platforms.contains("\"here\""), "{platforms}");
    sandbox.ok(&["user", "revoke", "ann", "--dir", "m"]);
    let said = sandbox.ok(&["platform", "reload", "--dir", "m"]);
    assert!(said.contains("platform here is attached"), "{said}");
    assert_eq!(refused(&sandbox, &["user", "add", "bob", "--dir", "m"]).0, Some(2));
    sandbox.ok(&["platform", "drain", "here", "--dir", "m"]);
    ends(&sandbox, manager);

    // Who knows what that means may have it, and is told.
    let manager = sandbox.serve_in_m(&["--cores", "1", "--allow-shared-account"]);
    let output = sandbox.run(&["user", "add", "bob", "--dir", "m"]);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains("warning: platform local: its tasks run as"), "{output:?}");
    ends(&sandbox, manager);
    sandbox.write("manager.yaml", &LOCAL.replace("cores: 1", "cores: 1, allow_shared_account: true"));
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    let log = sandbox.read("serve.err");
    assert!(log.contains("its tasks run as the manager's own account"), "{log}");
    ends(&sandbox, manager);
}

#[test]
fn an_account_that_cannot_be_used_is_refused() {
    let sandbox = Sandbox::new();
    for (more, said) in [
        ("run_as: no-such-account", "run_as: this host has no account `no-such-account`"),
        ("run_as: root", "run_as: account `root` is"),
        ("run_as: [a]", "run_as"),
        ("folder: /x", "none, but with `run_as: ACCOUNT` an agent and a folder"),
        ("run_as: nobody, ssh: host", "found a queue, account, options, agent, folder or ssh"),
    ] {
        sandbox.write("manager.yaml", &LOCAL.replace("cores: 1", &format!("cores: 1, {more}")));
        let (code, told) = refused(&sandbox, &["serve", "--dir", "m", "--config", "manager.yaml"]);
        assert!(code == Some(2) && told.contains(said), "{more}: {code:?} {told}");
    }
    sandbox.write("manager.yaml", "platforms: [{name: s, adapter: slurm, cores: 1, run_as: nobody}]\n");
    let (code, told) = refused(&sandbox, &["serve", "--dir", "m", "--config", "manager.yaml"]);
    assert!(code == Some(2) && told.contains("only platforms with adapter local have it"), "{told}");
}

/// Processes of pilots whose program is in this folder, with their users.
fn pilots(folder: &Path) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = text(&command).replace('\0', " ");
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let user = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok());
        if let (true, Some(user)) =
            (command.starts_with(&*folder.to_string_lossy()) && command.contains(" run --join "), user)
        {
            found.push((pid, user));
        }
    }
    found
}

#[test]
fn tasks_of_another_account_cannot_read_what_the_manager_keeps() {
    if !nix::unistd::geteuid().is_root() {
        return tests::skipped("run_as: only root may become another account without sudo");
    }
    let sandbox = Sandbox::new();
    // Tasks of another account must get to the folder that they run in.
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let folder = sandbox.path().join("home/theirs");
    let more = format!("run_as: {OTHER}, folder: {}", folder.display());
    sandbox.write("manager.yaml", &LOCAL.replace("cores: 1", &format!("cores: 1, {more}")));
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    sandbox.ok(&["user", "add", "ann", "--dir", "m"]);
    let look = "id -un; echo $HOME; for f in m/secret m/access.json m/store.sqlite ann/access.json /proc/$PPID/environ; \
                do head -c 1 $f > /dev/null 2>&1 && echo read $f; done; ls m 2>/dev/null; echo looked";
    sandbox.ok(&["submit", "--wait", "--dir", "ann", "--", "sh", "-c", look]);
    let said = sandbox.ok(&["logs", "1", "--raw", "--stdout", "--dir", "ann"]);
    let home = nix::unistd::User::from_name(OTHER).expect("a lookup").expect("the account").dir;
    assert_eq!(said, format!("{OTHER}\n{}\nlooked\n", home.display()));
    let facts = fs::metadata(&folder).expect("its folder");
    assert_eq!((facts.mode() & 0o777, facts.uid() == 0), (0o700, false));
    let there = pilots(&folder);
    assert!(!there.is_empty() && there.iter().all(|(_, user)| *user == facts.uid()), "{there:?}");
    // A pilot that a killed manager has left comes back to the next one.
    manager.signal(nix::sys::signal::Signal::SIGKILL);
    manager.wait();
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    sandbox.ok(&["submit", "--wait", "--dir", "m", "--", "id", "-un"]);
    assert_eq!(sandbox.ok(&["logs", "2", "--raw", "--stdout", "--dir", "m"]), format!("{OTHER}\n"));
    ends(&sandbox, manager);
    until("none of its pilots is left", || pilots(&folder).is_empty());
}

#[test]
fn a_host_that_leads_to_the_managers_own_account_is_found_out() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "own-host", "") else { return };
    sandbox.write("ssh_config", &sshd.client_configuration(""));
    let config = sandbox.path().join("ssh_config");
    let platform = |more: &str| {
        let config = config.display();
        let entry = format!(
            "name: far, adapter: hosts, ssh: own-host, ssh_config: {config}, cores: 1, pilots_min: 1{more}"
        );
        sandbox.write("manager.yaml", &format!("platforms: [{{{entry}}}]\n"));
    };
    platform("");
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    until("its pilot is there", || {
        sandbox.json(&["pilots", "--dir", "m"]).as_array().is_some_and(|all| all.len() == 1)
    });
    let (code, said) = refused(&sandbox, &["user", "add", "ann", "--dir", "m"]);
    assert!(
        code == Some(2) && said.contains("platform far: its account reads the manager's folder"),
        "{said}"
    );
    ends(&sandbox, manager);
    let manager = sandbox.serve_in_m(&["--no-local"]);
    sandbox.ok(&["user", "add", "ann", "--dir", "m"]);
    ends(&sandbox, manager);
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    until("it is told", || sandbox.read("serve.err").contains("others than operators have access (ann)"));
    assert_eq!(sandbox.json(&["pilots", "--dir", "m"]).as_array().map(Vec::len), Some(0));
    ends(&sandbox, manager);
    platform(", allow_shared_account: true");
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    until("its pilot is there", || {
        sandbox.json(&["pilots", "--dir", "m"]).as_array().is_some_and(|all| all.len() == 1)
    });
    ends(&sandbox, manager);
}
