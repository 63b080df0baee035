//! Commands and streams through a real sshd.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
    time::Duration,
};

use adapters::{
    command::{Command, Output},
    transport::{Asker, Nobody, Prompt, Ssh, SshError, Transport, TransportError},
};
use tests::{
    Sandbox,
    sshd::{self, Sshd},
    until,
};

const LIMIT: Duration = Duration::from_secs(1200);

fn command(argv: &[&str], stdin: &[u8]) -> Command {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Command { argv, stdin: stdin.to_vec(), time_limit: LIMIT }
}

fn sh(line: &str) -> Command {
    command(&["sh", "-c", line], b"")
}

/// The transport to a host of this configuration.
fn to(sandbox: &Sandbox, address: &str, configuration: &str, asker: Arc<dyn Asker>) -> Ssh {
    let config = sandbox.write("ssh_config", configuration);
    Ssh::new(address.into(), Some(config.display().to_string()), asker)
}

fn to_host(sandbox: &Sandbox, sshd: &Sshd) -> Ssh {
    to(sandbox, sshd.name(), &sshd.client_configuration(""), Arc::new(Nobody))
}

/// Somebody who gives these answers, one after the other, and keeps what was asked.
#[derive(Debug, Default)]
struct Person {
    answers: Mutex<VecDeque<&'static str>>,
    asked: Mutex<Vec<String>>,
}

impl Asker for Person {
    fn ask(&self, host: &str, text: &str, prompts: &[Prompt]) -> Option<Vec<String>> {
        let mut asked = self.asked.lock().expect("the questions");
        asked.extend(
            prompts.iter().map(|prompt| format!("{host} {text}{} {}", prompt.text, prompt.is_secret)),
        );
        let mut answers = self.answers.lock().expect("the answers");
        prompts.iter().map(|_| answers.pop_front().map(str::to_owned)).collect()
    }
}

fn person(answers: &[&'static str]) -> Arc<Person> {
    Arc::new(Person { answers: Mutex::new(answers.iter().copied().collect()), ..Person::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_get_their_words_and_input_and_give_their_output() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    sandbox.write("home/.bashrc", "echo welcome to the machine\necho quota exceeded >&2\n");
    let ssh = to_host(&sandbox, &sshd);
    let words = ["printf", "%s|", "it's", "a b", "$HOME", "\\n", "!x", "ä", ""];
    let said = ssh.run(&command(&words, b"")).await.expect("an answer");
    assert_eq!(said.stdout, "it's|a b|$HOME|\\n|!x|ä||", "what the login says is not the command's");
    let failed = ssh.run(&sh("echo out; echo err >&2; exit 7")).await.expect("an answer");
    assert_eq!(failed, Output { code: Some(7), stdout: "out\n".into(), stderr: "err\n".into() });
    let killed = ssh.run(&sh("kill -9 $$")).await.expect("an answer");
    assert_eq!(killed.code, None);
    let missing = ssh.run(&command(&["no-such-program"], b"")).await.expect("an answer");
    assert_eq!(missing.code, Some(127));
    let large: Vec<u8> = (0..5 << 20).map(|n: u32| b'a' + (n % 23) as u8).collect();
    let echoed = ssh.run(&command(&["cat"], &large)).await.expect("an answer");
    assert!(echoed.stdout.as_bytes() == large, "{} bytes", echoed.stdout.len());
    let deaf = ssh.run(&Command { argv: vec!["true".into()], stdin: large, time_limit: LIMIT }).await;
    assert_eq!(deaf.expect("an answer").code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_carries_all_and_is_made_again_when_it_is_lost() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(&sandbox, &sshd);
    let (one, two) = (sh("echo one"), sh("echo two"));
    let (one, two) = tokio::join!(ssh.run(&one), ssh.run(&two));
    assert_eq!(one.expect("an answer").stdout + &two.expect("an answer").stdout, "one\ntwo\n");
    assert_eq!(sshd.n_logins(&sandbox), 1);
    let waiting = sh("echo > ~/begun; exec sleep 1000");
    let (lost, ()) = tokio::join!(ssh.run(&waiting), async {
        tokio::task::block_in_place(|| until("it runs", || !sandbox.read("home/begun").is_empty()));
        sshd.cut();
    });
    assert!(matches!(lost, Err(TransportError::Broken { .. })), "{lost:?}");
    assert_eq!(ssh.run(&sh("echo again")).await.expect("an answer").stdout, "again\n");
    sshd.cut();
    let after = async || ssh.run(&sh("echo and again")).await;
    // That the idle connection was cut may be noticed a moment later.
    let said = match after().await {
        Ok(said) => said,
        Err(TransportError::Broken { .. }) => after().await.expect("an answer"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(said.stdout, "and again\n");
    assert_eq!(sshd.n_logins(&sandbox), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_hangs_has_an_unknown_outcome_and_holds_up_no_other() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(&sandbox, &sshd);
    let hanging = Command { time_limit: Duration::from_millis(300), ..sh("exec sleep 1000") };
    let other = sh("echo here");
    let (hung, other) = tokio::join!(ssh.run(&hanging), ssh.run(&other));
    assert!(matches!(hung, Err(TransportError::TimedOut { .. })), "{hung:?}");
    assert_eq!(other.expect("an answer").stdout, "here\n");
    let endless = ssh.run(&sh("exec cat /dev/zero")).await;
    assert!(matches!(endless, Err(TransportError::TooMuch { .. })), "{endless:?}");
    assert_eq!(ssh.run(&sh("echo here")).await.expect("an answer").stdout, "here\n");
    assert_eq!(sshd.n_logins(&sandbox), 1);
    until("nothing goes on there", || sandbox.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_who_they_are_known_to_be() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let Some(other) = Sshd::start(&sandbox, "other", "") else { return };
    let refused = async || match to_host(&sandbox, &sshd).run(&sh("echo in")).await {
        Err(TransportError::NotConnected(error)) => error,
        result => panic!("{result:?}"),
    };
    for kind in ["rsa", "ed25519"] {
        sshd.be_known(&[kind]);
        let said = to_host(&sandbox, &sshd).run(&sh("echo in")).await.expect(kind);
        assert_eq!(said.stdout, "in\n", "{kind}: the key that is known is asked for");
    }
    sshd.be_known(&[]);
    let unknown = refused().await;
    assert!(matches!(unknown, SshError::UnknownHostKey { .. }), "{unknown}");
    assert!(unknown.to_string().contains("SHA256:"), "{unknown}");
    for mark in ["@revoked * ", "@revoked "] {
        sshd.be_known(&["ed25519"]);
        let known = std::fs::read_to_string(sshd.file("known_hosts")).expect("known hosts");
        let (_, key) = known.split_once(' ').expect("a name and a key");
        let revoked = if mark.contains('*') { format!("{mark}{key}") } else { format!("{mark}{known}") };
        std::fs::write(sshd.file("known_hosts"), format!("{revoked}{known}")).expect("known hosts");
        assert!(matches!(refused().await, SshError::RevokedHostKey { .. }), "{revoked}");
    }
    std::fs::copy(other.file("host_ed25519.pub"), sshd.file("host_ed25519.pub")).expect("a wrong key");
    sshd.be_known(&["ed25519"]);
    assert!(matches!(refused().await, SshError::WrongHostKey { .. }));
    assert_eq!(sshd.n_logins(&sandbox), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_let_in_learns_what_was_tried() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    sshd.let_in("locked", "ed25519", "open sesame");
    sshd.let_in("rsa", "rsa", "");
    let keys = |key: &str| {
        let configuration = sshd.client_configuration("");
        configuration.replace(&sshd.file("id").display().to_string(), &sshd.file(key).display().to_string())
    };
    let said = to(&sandbox, "host", &keys("rsa"), Arc::new(Nobody)).run(&sh("echo in")).await;
    assert_eq!(said.expect("an answer").stdout, "in\n");
    for (key, word) in
        [("locked", "has a passphrase"), ("host_rsa", "host_rsa"), ("missing", "no file of a key")]
    {
        let error =
            to(&sandbox, "host", &keys(key), Arc::new(Nobody)).run(&sh("echo in")).await.expect_err(key);
        let needs_person = matches!(error, TransportError::NotConnected(SshError::NeedsPerson { .. }));
        // The host takes answers to questions beside keys; of those nothing comes without a person.
        assert!(
            needs_person || matches!(error, TransportError::NotConnected(SshError::Refused { .. })),
            "{error}"
        );
        assert!(needs_person || key != "locked", "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let wrong = person(&["open", "sesame", "open says me"]);
    let error = to(&sandbox, "host", &keys("locked"), wrong).run(&sh("echo in")).await.expect_err("locked");
    assert!(error.to_string().contains("the passphrase is wrong"), "{error}");
    let typed = person(&["open sesame"]);
    let said = to(&sandbox, "host", &keys("locked"), typed.clone()).run(&sh("echo in")).await;
    assert_eq!(said.expect("an answer").stdout, "in\n");
    let asked = typed.asked.lock().expect("the questions").clone();
    assert!(
        asked.len() == 1 && asked[0].contains("Passphrase of") && asked[0].ends_with("true"),
        "{asked:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_behind_others_are_reached_through_them() {
    let sandbox = Sandbox::new();
    let Some(door) = Sshd::start(&sandbox, "door", "") else { return };
    let Some(inner) = Sshd::start(&sandbox, "inner", "") else { return };
    let configuration = inner.client_configuration("ProxyJump door") + &door.client_configuration("");
    let ssh = to(&sandbox, "inner", &configuration, Arc::new(Nobody));
    let large = vec![b'x'; 3 << 20];
    let said = ssh.run(&command(&["cat"], &large)).await.expect("an answer");
    assert!(said.stdout.as_bytes() == large);
    assert_eq!((door.n_logins(&sandbox), inner.n_logins(&sandbox)), (1, 1));
    door.cut();
    until("that is noticed", || sandbox.read("inner.err").contains("Connection closed by"));
    let again = async || ssh.run(&sh("echo again")).await;
    let said = match again().await {
        Ok(said) => said,
        Err(TransportError::Broken { .. }) => again().await.expect("an answer"),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(said.stdout, "again\n");

    let proxied = inner.client_configuration(&format!(
        "ProxyCommand ssh -F {} -W 127.0.0.1:%p door",
        sandbox.path().join("ssh_config").display()
    )) + &door.client_configuration("");
    let said = to(&sandbox, "inner", &proxied, Arc::new(Nobody)).run(&sh("echo proxied")).await;
    assert_eq!(said.expect("an answer").stdout, "proxied\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_listens_here_is_reached_from_there() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(&sandbox, &sshd);
    let here = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = here.local_addr().expect("its address");
    let port = ssh.forward(address).await.expect("a port there");
    assert_ne!(port, address.port());
    // Each visitor gets back what it sends, until it has sent all.
    let echo = std::thread::spawn(move || {
        let echo = |mut stream: TcpStream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("all");
            stream.write_all(&all).expect("all");
        };
        let visitors: Vec<_> = here
            .incoming()
            .take(3)
            .map(|stream| std::thread::spawn(move || echo(stream.expect("a visitor"))))
            .collect();
        visitors.into_iter().for_each(|visitor| visitor.join().expect("served"));
    });
    let visitor = move |n: u8| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens there");
        let bytes: Vec<u8> = (0..8 << 20).map(|k: u32| (k % 251) as u8 ^ n).collect();
        stream.write_all(&bytes).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("the end");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("all");
        assert!(back == bytes, "{} bytes came back", back.len());
    };
    let visitors: Vec<_> = (0..3).map(|n| std::thread::spawn(move || visitor(n))).collect();
    for n in 0..20 {
        let said = ssh.run(&sh(&format!("echo {n}"))).await.expect("an answer");
        assert_eq!(said.stdout, format!("{n}\n"), "commands go on beside streams");
    }
    visitors.into_iter().for_each(|visitor| visitor.join().expect("all came back"));
    echo.join().expect("all were served");
    assert_eq!(sshd.n_logins(&sandbox), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_forbids_something_says_so_and_does_the_rest() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "AllowTcpForwarding no\nMaxSessions 1\n") else { return };
    let ssh = to_host(&sandbox, &sshd);
    let denied = ssh.forward(([127, 0, 0, 1], 1).into()).await;
    assert!(matches!(denied, Err(TransportError::NotStarted { .. })), "{denied:?}");
    let waiting = Command { time_limit: Duration::from_secs(1), ..sh("exec sleep 1000") };
    let other = sh("echo here");
    let (_, second) = tokio::join!(ssh.run(&waiting), ssh.run(&other));
    assert!(matches!(second, Err(TransportError::NotStarted { .. })), "{second:?}");
    let third = loop {
        match ssh.run(&sh("echo here")).await {
            // The first goes on for some seconds.
            Err(TransportError::NotStarted { .. }) => continue,
            result => break result,
        }
    };
    assert_eq!(third.expect("an answer").stdout, "here\n");
    assert_eq!(sshd.n_logins(&sandbox), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_is_asked_for_once_a_connection() {
    let sandbox = Sandbox::new();
    let lines = "UsePAM yes\nKbdInteractiveAuthentication yes\n\
        AuthenticationMethods publickey,keyboard-interactive\n";
    let Some(folder) = sshd::prepare(&sandbox, "host", lines) else { return };
    let path = |name: &str| folder.join(name).display().to_string();
    let check = sandbox.write("host/check", "#!/bin/sh\n[ \"$(head -c 6)\" = 123456 ]\n");
    std::fs::set_permissions(&check, PermissionsExt::from_mode(0o755)).expect("a program");
    let rules = format!(
        "auth requisite pam_exec.so expose_authtok quiet {}\nauth required pam_permit.so\naccount required pam_permit.so\n\
         session required pam_permit.so\n",
        check.display()
    );
    sandbox.write("host/pam.d/sshd", &rules);
    // The system's rules are hidden from this sshd alone.
    let script = format!(
        "mount --bind {} /etc/pam.d && exec {} -i -E {} -f {}",
        path("pam.d"),
        sshd::SSHD,
        path("log"),
        path("sshd_config")
    );
    let hidden = std::process::Command::new("unshare").args(["--mount", "true"]).status();
    if !hidden.is_ok_and(|status| status.success()) {
        tests::skipped("no mount can be made here");
        return;
    }
    let key = std::fs::read_to_string(folder.join("host_ed25519.pub")).expect("a host's key");
    sandbox.write("host/known_hosts", &format!("host {key}"));
    let configuration = format!(
        "Host host\n User {}\n IdentitiesOnly yes\n IdentityFile {}\n UserKnownHostsFile {}\n \
         GlobalKnownHostsFile none\n ProxyCommand unshare --mount sh -c '{script}'\n",
        sshd::user(),
        path("id"),
        path("known_hosts")
    );
    let typed = person(&["123456"]);
    let ssh = to(&sandbox, "host", &configuration, typed.clone());
    for n in 0..3 {
        let said = ssh.run(&sh(&format!("echo {n}"))).await.expect("an answer");
        assert_eq!(said.stdout, format!("{n}\n"));
    }
    let asked = typed.asked.lock().expect("the questions").clone();
    assert!(asked.len() == 1 && asked[0].contains("Password: ") && asked[0].ends_with("true"), "{asked:?}");
    let wrong = person(&["111111", "222222", "333333"]);
    let error = to(&sandbox, "host", &configuration, wrong).run(&sh("echo in")).await.expect_err("refused");
    assert!(error.to_string().contains("the answers to the host's questions: refused"), "{error}");
    let error = to(&sandbox, "host", &configuration, Arc::new(Nobody)).run(&sh("echo in")).await;
    let error = error.expect_err("nobody answers").to_string();
    assert!(error.contains("nobody is there to answer"), "{error}");
}
