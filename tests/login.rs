//! A person opens the connection to a host that asks for a second factor, and all share it.

use std::{
    io::Write,
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use adapters::transport::{Nobody, Ssh, SshError, TransportError};
use nix::sys::signal::Signal;
use profiles::site::SshProgram;
use tests::{
    Sandbox,
    sshd::{self, CODE, Sshd},
    text, until,
};

/// A manager's file with a host that asks for a second factor; `None` where there can be none.
fn prepare(sandbox: &Sandbox) -> Option<()> {
    let configuration = sshd::with_second_factor(sandbox)?;
    let config = sandbox.write("ssh_config", &configuration);
    let agent = tests::program().with_file_name("pilotfish-agent");
    sandbox.write(
        "manager.yaml",
        &format!(
            "platforms:\n  - {{name: far, adapter: hosts, ssh: host, ssh_config: {}, cores: 1, agent: {}}}\n",
            config.display(),
            agent.display()
        ),
    );
    sandbox.write("job.yaml", "command: 'true'\nsweep: {n: {range: [1, 5]}}\n");
    Some(())
}

fn n_logins(sandbox: &Sandbox) -> usize {
    sshd::n_logins(&sandbox.read("host/log"))
}

/// `pilotfish` at a terminal of its own, whose screen is the file `screen`.
fn at_terminal(sandbox: &Sandbox, arguments: &str) -> Child {
    let line = format!("{} {arguments}", tests::program().display());
    let screen = std::fs::File::create(sandbox.path().join("screen")).expect("a file");
    let mut script = Command::new("script");
    script.args(["-qefc", &line, "/dev/null"]).current_dir(sandbox.path());
    script.env("HOME", sandbox.path().join("home")).env_remove("PILOTFISH_DIR").env("NO_COLOR", "1");
    script.stdin(Stdio::piped()).stdout(screen).stderr(Stdio::null()).spawn().expect("script runs")
}

/// Logs in, typing this when asked; gives what was on the screen and whether it went well.
fn log_in(sandbox: &Sandbox, arguments: &str, typed: &str) -> (bool, String) {
    let mut child = at_terminal(sandbox, arguments);
    let mut keyboard = child.stdin.take().expect("a keyboard");
    for n in 1..=typed.lines().count() {
        until("the host asks", || sandbox.read("screen").matches("assword:").count() >= n);
        let answer = typed.lines().nth(n - 1).expect("an answer");
        keyboard.write_all(format!("{answer}\n").as_bytes()).expect("it is typed");
    }
    let status = child.wait().expect("it ends");
    (status.success(), sandbox.read("screen"))
}

#[test]
fn a_host_that_asks_for_a_person_is_said_everywhere_and_one_login_serves_all() {
    let sandbox = Sandbox::new();
    if Command::new("script").arg("--version").output().is_err() {
        return tests::skipped("there is no program `script`, which makes terminals");
    }
    let Some(()) = prepare(&sandbox) else { return };
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    let waits = || sandbox.json(&["platform", "show", "far"])["waits_for_person"].clone();
    until("a person is waited for", || waits().is_string());
    assert!(waits().as_str().expect("why").contains("does not let"), "{}", waits());
    let word = "pilotfish platform login far";
    for command in [
        &["platform", "show", "far"][..],
        &["explain", "platform", "far"],
        &["explain", "job", "1"],
        &["status"],
    ] {
        let said = sandbox.ok(command);
        assert!(said.contains(word), "{command:?}: {said}");
    }
    let shown = sandbox.ok(&["platform", "show", "far"]);
    assert_eq!(shown.matches("does not let").count(), 1, "{shown}");
    let waited = sandbox.run(&["wait", "1", "--timeout", "100ms"]);
    let said = text(&waited.stderr);
    assert_eq!(waited.status.code(), Some(124), "{said}");
    for words in ["waits for a person to log in", "job 1: still waiting after 100ms: 0 of 5 done"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(sandbox.read("serve.err").contains(word));
    let metrics = sandbox.ok(&["metrics"]);
    assert!(metrics.contains("platform_waits_for_person{platform=\"far\"} 1"), "{metrics}");
    let refused = sandbox.run(&["platform", "check", "far", "--no-probe"]);
    assert_eq!(refused.status.code(), Some(3));
    assert_eq!(n_logins(&sandbox), 0);

    // Who mistypes is asked again, by ssh itself.
    let (is_well, screen) = log_in(&sandbox, "platform login far", &format!("654321\n{CODE}"));
    assert!(is_well && screen.contains("far is connected"), "{screen}");
    until("the manager has taken it over", || sandbox.json(&["job", "1"])["counts"]["done"] == 5);
    assert!(waits().is_null(), "{}", waits());
    assert!(!sandbox.ok(&["status"]).contains(word));
    let checked = sandbox.ok(&["platform", "check", "far", "--no-probe"]);
    assert!(checked.starts_with("connection    ok      host"), "{checked}");
    assert_eq!(n_logins(&sandbox), 1, "one code for all");
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0));

    // A manager that is started anew uses the connection, too, and leaves no port behind there.
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    assert_eq!(n_logins(&sandbox), 1);
    let port = forwarded(&sandbox).expect("a relay with a port");
    let is_listened_to = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(is_listened_to());
    manager.signal(Signal::SIGTERM);
    assert_eq!(manager.wait(), Some(0));
    assert!(!is_listened_to(), "its pilots are there still, the manager is not");
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    assert_eq!(n_logins(&sandbox), 1);
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0));
    let (is_well, screen) = log_in(&sandbox, "platform login far --again", CODE);
    assert!(is_well && n_logins(&sandbox) == 2, "{screen}");
}

/// The port that the relay of a host was given, through which it reaches the manager.
fn forwarded(sandbox: &Sandbox) -> Option<u16> {
    let relays = sandbox.path().join("home/.pilotfish/relay");
    let mut folders = vec![relays];
    while let Some(folder) = folders.pop() {
        if let Ok(port) = std::fs::read_to_string(folder.join("target")) {
            return port.trim().parse().ok();
        }
        let inside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        folders.extend(inside.filter(|path| path.is_dir()));
    }
    None
}

#[test]
fn a_jump_host_that_asks_for_a_person_is_waited_for_and_a_login_finds_the_managers_file() {
    let sandbox = Sandbox::new();
    if Command::new("script").arg("--version").output().is_err() {
        return tests::skipped("there is no program `script`, which makes terminals");
    }
    let Some(jump) = sshd::with_second_factor(&sandbox) else { return };
    let Some(far) = Sshd::start(&sandbox, "far", "") else { return };
    let behind = far.client_configuration(" ProxyJump host\n LogLevel QUIET\n");
    let config = sandbox.write("ssh_config", &format!("{jump} LogLevel QUIET\n{behind}"));
    let agent = tests::program().with_file_name("pilotfish-agent");
    let agent = agent.display();
    sandbox.write(
        "etc/centre.yaml",
        &format!(
            "platforms:\n  - {{name: far, adapter: hosts, ssh: far, ssh_config: {}, cores: 1, agent: {agent}}}\n",
            config.display()
        ),
    );
    sandbox.write("job.yaml", "command: 'true'\nsweep: {n: {range: [1, 5]}}\n");
    let manager = sandbox.serve_in_m(&["--config", "etc/centre.yaml"]);
    sandbox.ok(&["submit", "job.yaml", "--dir", "m"]);
    let waits = || sandbox.json(&["platform", "show", "far", "--dir", "m"])["waits_for_person"].clone();
    until("a person is waited for", || waits().is_string());
    let why = waits();
    let why = why.as_str().expect("why");
    assert!(why.starts_with("host does not let") && why.contains("leads through it"), "{why}");
    assert_eq!(n_logins(&sandbox), 0);

    let (is_well, screen) = log_in(&sandbox, "platform login far --dir m", CODE);
    assert!(is_well && screen.contains("far is connected"), "{screen}");
    until("all is done", || sandbox.json(&["job", "1", "--dir", "m"])["counts"]["done"] == 5);
    assert_eq!((n_logins(&sandbox), far.n_logins(&sandbox)), (1, 1), "one connection for all");
    let checked = sandbox.ok(&["platform", "check", "far", "--no-probe", "--dir", "m"]);
    assert!(checked.starts_with("connection    ok      far"), "{checked}");
    let refused = sandbox.run(&["platform", "login", "far", "--dir", "m", "--config", "etc/centre.yaml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", tests::text(&refused.stderr));
    sandbox.ok(&["stop", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0));
}

#[test]
fn tasks_wait_for_a_store_whose_host_asks_for_a_person_until_one_has_logged_in() {
    let sandbox = Sandbox::new();
    if Command::new("script").arg("--version").output().is_err() {
        return tests::skipped("there is no program `script`, which makes terminals");
    }
    let Some(configuration) = sshd::with_second_factor(&sandbox) else { return };
    let config = sandbox.write("ssh_config", &configuration);
    sandbox.write("files/in.txt", "in\n");
    sandbox.write(
        "manager.yaml",
        &format!(
            "platforms: [{{name: here, adapter: local, cores: 2, pilots_max: 1, allow_shared_account: true}}]\n\
             stores: [{{name: fs, kind: sftp, ssh: host, ssh_config: {}, folder: {}}}]\n",
            config.display(),
            sandbox.path().join("files").display()
        ),
    );
    let needs = "command: 'cp in.txt out'\ninputs: ['store://fs/in.txt']\noutputs: [out]\n";
    let leaves = "command: 'echo out > out'\noutputs: [{from: out, to: 'store://fs/out.txt'}]\n";
    sandbox.write("needs.yaml", needs);
    sandbox.write("leaves.yaml", leaves);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "needs.yaml"]);
    sandbox.ok(&["submit", "leaves.yaml"]);
    let word = "pilotfish platform login fs";
    for (task, job) in [("1.0", "1"), ("2.0", "2")] {
        until("the pilot hears of it", || sandbox.ok(&["explain", "task", task]).contains(word));
        until("so does who asks for the job", || sandbox.ok(&["explain", "job", job]).contains(word));
    }
    let status = sandbox.ok(&["status"]);
    assert!(status.contains(&format!("store fs waits for a person: run `{word}`")), "{status}");
    let waits = |n: u8| {
        let line = format!("store_waits_for_person{{store=\"fs\"}} {n}\n");
        sandbox.ok(&["metrics"]).contains(&line)
    };
    assert!(waits(1) && sandbox.read("serve.err").contains(word));
    assert_eq!(n_logins(&sandbox), 0);

    let (is_well, screen) = log_in(&sandbox, "platform login fs", CODE);
    assert!(is_well && screen.contains("fs is connected"), "{screen}");
    for (task, job) in [("1.0", "1"), ("2.0", "2")] {
        until("it is done", || sandbox.json(&["job", job])["state"] == "done");
        let task = sandbox.json(&["task", task]);
        assert_eq!(
            task["failed_attempts"].as_array().map(Vec::len),
            Some(0),
            "no attempt was used up: {task}"
        );
    }
    assert_eq!(sandbox.read("files/out.txt"), "out\n");
    assert_eq!(n_logins(&sandbox), 1, "one code for all");
    assert!(waits(0) && !sandbox.ok(&["status"]).contains(word));
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}

#[test]
fn ctrl_c_at_a_question_of_a_host_ends_the_command_and_is_no_fault() {
    let sandbox = Sandbox::new();
    if Command::new("script").arg("--version").output().is_err() {
        return tests::skipped("there is no program `script`, which makes terminals");
    }
    let Some(()) = prepare(&sandbox) else { return };
    let config = sandbox.path().join("ssh_config");
    let attach = format!("platform attach hosts new --ssh host --ssh-config {} --print", config.display());
    for command in ["platform login far", "platform check far --no-probe", &attach] {
        let mut child = at_terminal(&sandbox, &format!("{command}; echo code $?; stty -a"));
        let mut keyboard = child.stdin.take().expect("a keyboard");
        until("the host asks", || sandbox.read("screen").contains("assword:"));
        keyboard.write_all(b"\x03").expect("it is typed");
        assert!(child.wait().expect("it ends").success());
        let screen = sandbox.read("screen");
        let (said, terminal) = screen.split_once("code ").expect("an exit code");
        assert!(terminal.starts_with("130"), "{command}: {screen}");
        assert!(terminal.contains(" echo ") && terminal.contains(" icanon "), "{command}: {screen}");
        for word in ["failed", "FAILED", "Authenticated", "without a word", "does not let"] {
            assert!(!said.contains(word), "{command}: {screen}");
        }
    }
    assert_eq!(n_logins(&sandbox), 0);
}

#[test]
fn a_circle_of_jump_hosts_is_told_and_ssh_is_not_started() {
    let sandbox = Sandbox::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(ssh) = std::env::split_paths(&path).map(|folder| folder.join("ssh")).find(|ssh| ssh.is_file())
    else {
        return tests::skipped("there is no program `ssh`");
    };
    // In its place is one that only asks the real one what the configuration says: that may never be let into a circle.
    let started = sandbox.path().join("started");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' -G '*) exec {} \"$@\";; esac\necho \"$@\" >> {}\necho the end >&2; exit 255\n",
        ssh.display(),
        started.display()
    );
    let in_place = sandbox.write("bin/ssh", &script);
    std::fs::set_permissions(&in_place, PermissionsExt::from_mode(0o755)).expect("a program");
    let config = sandbox.write(
        "ssh_config",
        "Host gate\n HostName gate.site.org\nHost free\n ProxyJump none\nHost *\n ProxyJump gate\n",
    );
    let platform = |name: &str| {
        format!(
            "  - {{name: {name}, adapter: hosts, ssh: {name}, ssh_config: {}, cores: 1}}\n",
            config.display()
        )
    };
    sandbox.write("manager.yaml", &format!("platforms:\n{}{}", platform("far"), platform("free")));
    let checked = |name: &str| {
        let mut command = sandbox.command(&["platform", "check", name, "--no-probe"]);
        let bin = in_place.parent().expect("a folder");
        command.env("PATH", format!("{}:{}", bin.display(), path.to_string_lossy()));
        let output = command.output().expect("it runs");
        (output.status.code(), tests::text(&output.stdout))
    };
    let (code, said) = checked("far");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("its jump hosts lead in a circle (far, gate, gate)"), "{said}");
    assert!(!started.exists(), "{}", sandbox.read("started"));
    let (code, said) = checked("free");
    assert!(code == Some(3) && said.contains("the end") && started.exists(), "{said}");
}

#[test]
fn a_login_says_what_is_wrong() {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", "platforms: [{name: here, adapter: local}, {name: far, adapter: hosts, ssh: a, transport: libssh2, cores: 1}]\n");
    for (name, words) in [
        ("here", "only a platform behind SSH"),
        ("far", "`transport: openssh`"),
        ("fa", "did you mean `far`?"),
    ] {
        let refused = sandbox.run(&["platform", "login", name]);
        let said = tests::text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(words), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_do_not_count_and_files_that_are_missing_are_named() {
    let sandbox = Sandbox::new();
    let keys = sandbox.path().join("keys");
    std::fs::create_dir(&keys).expect("a folder");
    let keygen = |words: &[&str]| {
        let keygen = Command::new("ssh-keygen").arg("-q").args(words).current_dir(&keys).output();
        keygen.is_ok_and(|output| output.status.success())
    };
    let make = |name: &str, kind: &str| keygen(&["-t", kind, "-N", "", "-f", name]);
    if !(make("users", "ed25519")
        && make("hosts", "ed25519")
        && make("host", "ecdsa")
        && make("me", "ed25519"))
    {
        return tests::skipped("there is no program `ssh-keygen`");
    }
    assert!(keygen(&["-s", "hosts", "-h", "-I", "the host", "-n", "elsewhere", "host.pub"]));
    let folder = keys.display();
    let more = format!(
        "HostKey {folder}/host\nHostCertificate {folder}/host-cert.pub\nTrustedUserCAKeys {folder}/users.pub\n\
         KbdInteractiveAuthentication no"
    );
    let Some(sshd) = Sshd::start(&sandbox, "host", &more) else { return };
    let configuration = sshd
        .client_configuration("IdentityAgent none\n HostKeyAlgorithms ssh-ed25519")
        .replace(&sshd.file("id").display().to_string(), &format!("{folder}/me"));
    let config = sandbox.path().join("ssh_config");
    let by_key = |configuration: &str| {
        sandbox.write("ssh_config", configuration);
        let config = Some(config.display().to_string());
        let ssh = Ssh::new("host".to_owned(), config, Some(SshProgram::Openssh), Arc::new(Nobody));
        ssh.with_sockets_in(sandbox.path().join("sockets"))
    };
    let refused = async |configuration: &str| match by_key(configuration).connect().await {
        Err(TransportError::NotConnected(SshError::Refused { tried, .. })) => tried,
        result => panic!("{result:?}"),
    };
    let user = sshd::user();
    let certify = |names: &str, more: &[&str]| {
        assert!(keygen(&[&["-s", "users", "-I", "me", "-n", names], more, &["me.pub"]].concat()));
    };
    let file = format!("certificate {folder}/me-cert.pub: ");
    for (names, more, why) in [
        (user.as_str(), &["-V", "20200101000000Z:20200102000000Z"][..], "it expired on 2020-01-02 00:00 UTC"),
        ("somebody,else", &[], "it is for somebody, else and not for "),
        (&user, &["-O", "source-address=192.0.2.0/24"], "it may be used from 192.0.2.0/24 only"),
    ] {
        certify(names, more);
        let tried = refused(&configuration).await;
        assert!(tried.starts_with(&format!("{file}{why}")), "{tried}");
    }
    let missing = refused(&configuration.replace(&format!("{folder}/me"), &format!("{folder}/none"))).await;
    assert!(missing.starts_with(&format!("no such identity: {folder}/none: No such file")), "{missing}");
    certify(&user, &[]);
    by_key(&configuration).connect().await.expect("a certificate that counts");

    // The host's own certificate is of an authority that nobody here knows.
    let configuration = configuration.replace(" HostKeyAlgorithms ssh-ed25519\n", "");
    sshd.be_known(&[]);
    let authority = Command::new("ssh-keygen").arg("-lf").arg(keys.join("hosts.pub")).output();
    let authority = tests::text(&authority.expect("ssh-keygen runs").stdout);
    let authority = authority.split(' ').nth(1).expect("a fingerprint");
    let unknown = async || match by_key(&configuration).connect().await {
        Err(TransportError::NotConnected(error @ SshError::UnknownHostKey { .. })) => error.to_string(),
        result => panic!("{result:?}"),
    };
    let said = unknown().await;
    assert!(said.contains(&format!(", signed by the authority {authority}; compare it")), "{said}");
    let public = std::fs::read_to_string(keys.join("hosts.pub")).expect("a key");
    std::fs::write(sshd.file("known_hosts"), format!("@cert-authority * {public}")).expect("known hosts");
    let said = unknown().await;
    assert!(said.contains("(its certificate does not count: name is not a listed principal)"), "{said}");
}
