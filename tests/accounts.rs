//! Tasks that have the manager's account can act as any user: a manager of several users has none, or they have
//! another account.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use tests::{Running, Sandbox, program, sshd::Sshd, text, until};

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
    assert!(!sandbox.path().join("ann").exists());
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
        ("folder: /x", "without `run_as: ACCOUNT` they keep their files in the manager's folder"),
        ("run_as: nobody, ssh: host", "found the field ssh of"),
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
    // `stop --now` does not wait for the answer to a submission that is under way.
    sandbox.ok(&["platform", "pause", "far", "--dir", "m"]);
    until("no submission is under way", || {
        let held = sandbox.json(&["allocation", "list", "--dir", "m"]);
        // Of the first one, whose pilot has left, nobody can be asked.
        held.as_array().is_some_and(|all| all.iter().all(|held| held["state"] == "leaving"))
    });
    ends(&sandbox, manager);
    platform(", allow_shared_account: true");
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    sandbox.ok(&["platform", "resume", "far", "--dir", "m"]);
    until("its pilot is there", || {
        sandbox.json(&["pilots", "--dir", "m"]).as_array().is_some_and(|all| all.len() == 1)
    });
    ends(&sandbox, manager);
}

#[test]
fn platform_of_another_account_is_written_down_and_tried() {
    if !nix::unistd::geteuid().is_root() {
        return tests::skipped("run_as: only root may become another account without sudo");
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let attach = ["platform", "attach", "local", "theirs", "--run-as"];
    let (code, said) = refused(&sandbox, &[&attach[..], &["no-such-account", "--config", "a.yaml"]].concat());
    assert!(code == Some(2) && said.contains("run_as: this host has no account `no-such-account`"), "{said}");
    assert!(!sandbox.path().join("a.yaml").exists(), "nothing is written");
    sandbox.ok(&[&attach[..], &[OTHER, "--config", "a.yaml"]].concat());
    let folder = sandbox.path().join("home/theirs");
    let written = sandbox.read("a.yaml");
    assert!(written.contains(&format!("run_as: {OTHER}\n")), "{written}");
    let written = written.replace("run_as:", &format!("folder: {}\n    run_as:", folder.display()));
    sandbox.write("a.yaml", &written);
    let steps = sandbox.json(&["platform", "check", "theirs", "--config", "a.yaml"]);
    let steps = steps.as_array().cloned().unwrap_or_default();
    assert_eq!((&steps[0]["step"], &steps[0]["what"]), (&"account".into(), &"commands run as nobody".into()));
    assert!(steps.iter().all(|step| step["is_ok"] == true), "{steps:?}");
    assert!(steps.iter().any(|step| step["step"] == "probe"), "{steps:?}");
    assert_ne!(fs::metadata(&folder).expect("its folder").uid(), 0);
    sandbox.write("b.yaml", &written.replace(OTHER, "no-such-account"));
    let (code, said) = refused(&sandbox, &["platform", "check", "theirs", "--config", "b.yaml"]);
    assert!(code == Some(3) && said.contains("the step `account` failed"), "{said}");
}

/// An account with few rights that a manager may have.
const MANAGERS: &str = "daemon";

#[test]
fn manager_that_is_not_root_runs_pilots_by_sudo() {
    let has_sudo = Command::new("sudo").arg("--version").output().is_ok_and(|output| output.status.success());
    if !nix::unistd::geteuid().is_root() || !has_sudo {
        return tests::skipped("run_as by sudo: it needs sudo, and root to say who may use it");
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let sudoers = sandbox.write("sudoers", &format!("{MANAGERS} ALL=({OTHER}) NOPASSWD: ALL\n"));
    fs::set_permissions(&sudoers, fs::Permissions::from_mode(0o440)).expect("its mode");
    let uid =
        |name: &str| nix::unistd::User::from_name(name).expect("a lookup").expect("the account").uid.as_raw();
    let base = sandbox.path().join("base");
    for (folder, owner) in [("base", MANAGERS), ("base/home", MANAGERS), ("theirs", OTHER)] {
        let folder = sandbox.path().join(folder);
        fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::chown(&folder, Some(uid(owner)), None).expect("its owner");
    }
    let folder = sandbox.path().join("theirs");
    let more = format!("run_as: {OTHER}, folder: {}", folder.display());
    sandbox.write("base/manager.yaml", &LOCAL.replace("cores: 1", &format!("cores: 1, {more}")));
    // Who may use sudo is said in a mount namespace, so that nothing of this host is changed.
    let as_manager = |script: &str, may: bool| {
        let mount = format!("mount --bind {} /etc/sudoers && ", sudoers.display());
        let become_it = format!(
            "exec setpriv --reuid {MANAGERS} --regid {MANAGERS} --clear-groups timeout 300 sh -c '{script}'"
        );
        let script = format!("cd {} && {}{become_it}", base.display(), if may { &mount } else { "" });
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).env("P", program()).env("HOME", base.join("home"));
        command.output().expect("unshare runs")
    };
    if !as_manager("$P --version", true).status.success() {
        return tests::skipped("run_as by sudo: other users cannot run the program where it is");
    }
    let serve = "$P serve --dir m --config manager.yaml";
    let output = as_manager(serve, false);
    let said = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("`sudo -n -u nobody true` must succeed"),
        "{said}"
    );

    let look = "id -un; head -c 1 m/secret 2> /dev/null; echo looked";
    let script = format!(
        "{serve} > log 2>&1 & until [ -e m/access.json ]; do kill -0 $! || exit 9; done; \
         $P user add ann --dir m && $P submit --wait --dir ann -- \"{look}\" >&2 && $P logs 1 --raw --stdout --dir ann; \
         $P stop --now --dir m >&2; wait"
    );
    let output = as_manager(&script, true);
    let said = text(&output.stdout);
    assert!(
        said.ends_with(&format!("{OTHER}\nlooked\n")),
        "{said} {} {}",
        text(&output.stderr),
        sandbox.read("base/log")
    );
}

/// What a task can do to its manager, and whether others may have access, by the way of running: the rows of the table in
/// docs/security.md that can be had on one host.
#[test]
fn each_way_of_running_lets_tasks_and_users_do_what_the_model_says() {
    let is_root = nix::unistd::geteuid().is_root();
    let run_as = format!("cores: 1, run_as: {OTHER}");
    // The way; who may be added; whether its tasks read the manager's secret.
    for (way, entry, user, operator, reads_secret) in [
        ("run", None, false, true, true),
        ("one person", Some("cores: 1"), false, true, true),
        ("shared", Some("cores: 1, allow_shared_account: true"), true, true, true),
        ("run_as", Some(run_as.as_str()), true, true, false),
    ] {
        if way == "run_as" && !is_root {
            tests::skipped("run_as: only root may become another account without sudo");
            continue;
        }
        let sandbox = Sandbox::new();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        let look = "head -c 1 m/secret > /dev/null 2>&1 && echo secret; until [ -e go ]; do sleep 0.2; done; \
                    echo looked";
        let manager = match entry {
            None => sandbox.start("serve", &["run", "--dir", "m", "--", "bash", "-c", look]),
            Some(entry) => {
                let folder = format!(", folder: {}", sandbox.path().join("home/theirs").display());
                let folder = if way == "run_as" { folder.as_str() } else { "" };
                sandbox.write("manager.yaml", &LOCAL.replace("cores: 1", &format!("{entry}{folder}")));
                let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
                sandbox.ok(&["submit", "-q", "--dir", "m", "--", "bash", "-c", look]);
                manager
            }
        };
        until("its task runs", || {
            let told = sandbox.run(&["jobs", "--json", "--dir", "m"]);
            let jobs: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
            jobs[0]["counts"]["running"] == 1
        });
        let may = |arguments: &[&str]| refused(&sandbox, &[arguments, &["--dir", "m"]].concat()).0 == Some(0);
        assert_eq!(may(&["user", "add", "ann"]), user, "{way}: another user");
        assert_eq!(may(&["user", "add", "olga", "--operator"]), operator, "{way}: another operator");
        // Whoever is let in at all may do what the API says, whatever the way.
        for (who, is_there) in [("ann", user), ("olga", operator)] {
            let (own, others) = (["jobs", "--dir", who], ["tasks", "1", "--dir", who]);
            if is_there {
                assert_eq!(refused(&sandbox, &own).0, Some(0), "{way}: {who} lists jobs");
                let is_shown = refused(&sandbox, &others).0 == Some(0);
                assert_eq!(is_shown, who == "olga", "{way}: {who} sees another's tasks");
            }
        }
        sandbox.write("go", "");
        let mut said = String::new();
        until("its task is over", || {
            said = text(&sandbox.run(&["logs", "1", "--raw", "--stdout", "--dir", "m"]).stdout);
            said.ends_with("looked\n")
        });
        assert_eq!(said.contains("secret"), reads_secret, "{way}: {said}");
        match entry {
            None => assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err")),
            Some(_) => ends(&sandbox, manager),
        }
    }
}
