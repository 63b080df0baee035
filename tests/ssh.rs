//! Commands and streams through a real sshd.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use adapters::{
    command::{Command, Output},
    transport::{Asker, Nobody, Prompt, Ssh, SshError, Transport, TransportError},
};
use profiles::site::SshProgram;
use tests::{
    Sandbox,
    sshd::{self, Sshd},
    until,
};

const LIMIT: Duration = Duration::from_secs(1200);
/// The first limit of a command that hangs; a machine on which it does not begin within that gets a longer one.
const HANGING_LIMIT: Duration = Duration::from_secs(4);

fn command(argv: &[&str], stdin: &[u8]) -> Command {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Command { name: "sh".into(), argv, stdin: stdin.to_vec(), time_limit: LIMIT }
}

fn sh(line: &str) -> Command {
    command(&["sh", "-c", line], b"")
}

/// What is tried with each test: both do the same.
const BOTH: [SshProgram; 2] = [SshProgram::Openssh, SshProgram::Libssh2];

/// The transport to a host of this configuration, which shares its connection with no other.
fn by(
    program: SshProgram,
    sandbox: &Sandbox,
    address: &str,
    configuration: &str,
    asker: Arc<dyn Asker>,
) -> Ssh {
    static N: AtomicUsize = AtomicUsize::new(0);
    let config = sandbox.write("ssh_config", configuration);
    let sockets = sandbox.path().join(format!("sockets-{}", N.fetch_add(1, Ordering::Relaxed)));
    Ssh::new(address.into(), Some(config.display().to_string()), Some(program), asker)
        .with_sockets_in(sockets)
}

/// The same by libssh2, which asks whoever is given.
fn to(sandbox: &Sandbox, address: &str, configuration: &str, asker: Arc<dyn Asker>) -> Ssh {
    by(SshProgram::Libssh2, sandbox, address, configuration, asker)
}

fn to_host(program: SshProgram, sandbox: &Sandbox, sshd: &Sshd) -> Ssh {
    by(program, sandbox, sshd.name(), &sshd.client_configuration(""), Arc::new(Nobody))
}

/// What a command that hangs comes to, which writes to `~/NAME` when it has begun.
async fn hung(ssh: &Ssh, sandbox: &Sandbox, name: &str, line: &str) -> TransportError {
    let mut time_limit = HANGING_LIMIT;
    loop {
        let error = ssh.run(&Command { time_limit, ..sh(line) }).await.expect_err("it hangs");
        let has_begun = !sandbox.read(&format!("home/{name}")).is_empty();
        match error {
            TransportError::TimedOut { .. } if !has_begun => {}
            TransportError::NotStarted { .. } => {}
            error => return error,
        }
        assert!(time_limit < LIMIT, "it does not begin within {time_limit:?}");
        time_limit *= 2;
    }
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
    for program in BOTH {
        commands_get_their_words_and_input_and_give_their_output_by(program).await;
    }
}

async fn commands_get_their_words_and_input_and_give_their_output_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    sandbox.write("home/.bashrc", "echo welcome to the machine\necho quota exceeded >&2\n");
    let ssh = to_host(program, &sandbox, &sshd);
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
    let deaf = Command { argv: vec!["true".into()], stdin: large, ..sh("") };
    let deaf = ssh.run(&deaf).await;
    assert_eq!(deaf.expect("an answer").code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_carries_all_and_is_made_again_when_it_is_lost() {
    for program in BOTH {
        one_connection_carries_all_and_is_made_again_when_it_is_lost_by(program).await;
    }
}

async fn one_connection_carries_all_and_is_made_again_when_it_is_lost_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(program, &sandbox, &sshd);
    let (one, two) = (sh("echo one"), sh("echo two"));
    let (one, two) = tokio::join!(ssh.run(&one), ssh.run(&two));
    assert_eq!(one.expect("an answer").stdout + &two.expect("an answer").stdout, "one\ntwo\n");
    assert_eq!(sshd.n_logins(&sandbox), 1);
    let waiting = sh("echo > ~/begun; exec sleep 1000");
    let (lost, ()) = tokio::join!(ssh.run(&waiting), async {
        // The command needs this task to go on, so that a wait here must not hold it up.
        while sandbox.read("home/begun").is_empty() {
            tokio::task::yield_now().await;
        }
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
    for program in BOTH {
        a_command_that_hangs_has_an_unknown_outcome_and_holds_up_no_other_by(program).await;
    }
}

async fn a_command_that_hangs_has_an_unknown_outcome_and_holds_up_no_other_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(program, &sandbox, &sshd);
    ssh.connect().await.expect("a connection");
    let hanging = hung(&ssh, &sandbox, "begun", "echo > ~/begun; exec sleep 1000");
    let other = sh("echo here");
    let (hung, other) = tokio::join!(hanging, ssh.run(&other));
    assert!(matches!(hung, TransportError::TimedOut { .. }), "{hung:?}");
    assert_eq!(other.expect("an answer").stdout, "here\n");
    let endless = ssh.run(&sh("exec cat /dev/zero")).await;
    assert!(matches!(endless, Err(TransportError::TooMuch { .. })), "{endless:?}");
    assert_eq!(ssh.run(&sh("echo here")).await.expect("an answer").stdout, "here\n");
    assert_eq!(sshd.n_logins(&sandbox), 1);
    until("nothing goes on there", || sandbox.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ignores_sigterm_leaves_no_process_there_after_its_limit() {
    for program in BOTH {
        a_command_that_ignores_sigterm_leaves_no_process_there_after_its_limit_by(program).await;
    }
}

async fn a_command_that_ignores_sigterm_leaves_no_process_there_after_its_limit_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(program, &sandbox, &sshd);
    // The first shell dies of SIGTERM, its child ignores it. In the second line the child has a process group of its own,
    // too, as below a site's wrapper that uses `timeout` itself. In the third the first shell ignores it as well.
    let stays = |name: &str| format!("trap '' TERM; echo > ~/{name}; while :; do sleep 1; done");
    let lines = [
        ("child", format!("sh -c \"{}\"; true", stays("child"))),
        ("group", format!("timeout 1000 sh -c \"{}\"; true", stays("group"))),
        ("all", stays("all")),
    ];
    let [child, group, all] = &lines;
    let ended = tokio::join!(
        hung(&ssh, &sandbox, child.0, &child.1),
        hung(&ssh, &sandbox, group.0, &group.1),
        hung(&ssh, &sandbox, all.0, &all.1)
    );
    for error in [ended.0, ended.1, ended.2] {
        assert!(matches!(error, TransportError::TimedOut { .. }), "{program:?}: {error}");
    }
    until("nothing goes on there", || sandbox.processes().is_empty());
    assert_eq!(ssh.run(&sh("echo here")).await.expect("an answer").stdout, "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_who_they_are_known_to_be() {
    for program in BOTH {
        hosts_are_who_they_are_known_to_be_by(program).await;
    }
}

async fn hosts_are_who_they_are_known_to_be_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let Some(other) = Sshd::start(&sandbox, "other", "") else { return };
    let refused = async || match to_host(program, &sandbox, &sshd).run(&sh("echo in")).await {
        Err(TransportError::NotConnected(error)) => error,
        result => panic!("{result:?}"),
    };
    for kind in ["rsa", "ed25519"] {
        sshd.be_known(&[kind]);
        let said = to_host(program, &sandbox, &sshd).run(&sh("echo in")).await.expect(kind);
        assert_eq!(said.stdout, "in\n", "{kind}: the key that is known is asked for");
    }
    sshd.be_known(&[]);
    let unknown = refused().await;
    assert!(matches!(unknown, SshError::UnknownHostKey { .. }), "{unknown}");
    assert!(unknown.to_string().contains("SHA256:"), "{unknown}");
    let by_hand = format!("by hand: ssh -F {} host", sandbox.path().join("ssh_config").display());
    assert!(unknown.to_string().ends_with(&by_hand), "{program:?}: {unknown}");
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
    let wrong = refused().await;
    let (file, port) = (sshd.file("known_hosts"), sshd.port());
    assert!(
        matches!(&wrong, SshError::WrongHostKey { file: Some(found), .. } if *found == file),
        "{program:?}: {wrong}"
    );
    let advice = format!("ssh-keygen -f {} -R '[127.0.0.1]:{port}', then", file.display());
    assert!(wrong.to_string().contains(&advice), "{program:?}: {wrong}");
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
    for program in BOTH {
        hosts_behind_others_are_reached_through_them_by(program).await;
    }
}

async fn hosts_behind_others_are_reached_through_them_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(door) = Sshd::start(&sandbox, "door", "") else { return };
    let Some(inner) = Sshd::start(&sandbox, "inner", "") else { return };
    let configuration = inner.client_configuration("ProxyJump door") + &door.client_configuration("");
    let ssh = by(program, &sandbox, "inner", &configuration, Arc::new(Nobody));
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
    let said = by(program, &sandbox, "inner", &proxied, Arc::new(Nobody)).run(&sh("echo proxied")).await;
    assert_eq!(said.expect("an answer").stdout, "proxied\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_listens_here_is_reached_from_there() {
    for program in BOTH {
        what_listens_here_is_reached_from_there_by(program).await;
    }
}

async fn what_listens_here_is_reached_from_there_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let ssh = to_host(program, &sandbox, &sshd);
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
    for program in BOTH {
        a_host_that_forbids_something_says_so_and_does_the_rest_by(program).await;
    }
}

async fn a_host_that_forbids_something_says_so_and_does_the_rest_by(program: SshProgram) {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "AllowTcpForwarding no\nMaxSessions 1\n") else { return };
    let ssh = to_host(program, &sandbox, &sshd);
    let denied = ssh.forward(([127, 0, 0, 1], 1).into()).await;
    let Err(denied @ TransportError::NotForwarded { .. }) = denied else { panic!("{denied:?}") };
    let denied = denied.to_string();
    assert!(denied.starts_with("host forwards no port to here: "), "{program:?}: {denied}");
    assert!(
        denied.contains("AllowTcpForwarding") && denied.contains("reach: direct"),
        "{program:?}: {denied}"
    );
    let waiting = sh("echo > ~/begun; until [ -e ~/end ]; do sleep 0.1; done; echo first");
    let other = sh("echo here");
    let (first, second) = tokio::join!(ssh.run(&waiting), async {
        // The command needs this task to go on, so that a wait here must not hold it up.
        while sandbox.read("home/begun").is_empty() {
            tokio::task::yield_now().await;
        }
        let second = ssh.run(&other).await;
        sandbox.write("home/end", "");
        second
    });
    assert_eq!(first.expect("an answer").stdout, "first\n");
    let Err(error @ TransportError::NotStarted { .. }) = second else { panic!("{second:?}") };
    let error = error.to_string();
    assert!(error.starts_with("failed to start sh on host: "), "{program:?}: {error}");
    assert!(error.contains("MaxSessions"), "{program:?}: {error}");
    // One after the other they find a session, though the host may count the one before for a moment longer.
    for n in 0..if program == SshProgram::Libssh2 { 50 } else { 1 } {
        let said = loop {
            match ssh.run(&sh(&format!("echo {n}"))).await {
                // `ssh` tries but once.
                Err(TransportError::NotStarted { .. }) if program == SshProgram::Openssh => continue,
                result => break result,
            }
        };
        assert_eq!(said.expect("an answer").stdout, format!("{n}\n"));
    }
    assert_eq!(sshd.n_logins(&sandbox), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_runs_something_else_says_so() {
    for program in BOTH {
        let sandbox = Sandbox::new();
        let lines = "DisableForwarding yes\nForceCommand internal-sftp\n";
        let Some(sshd) = Sshd::start(&sandbox, "host", lines) else { return };
        let ssh = to_host(program, &sandbox, &sshd);
        let error = ssh.run(&sh("echo here")).await.expect_err("it serves files only");
        assert!(error.is_nothing_done(), "{program:?}: {error}");
        let said = error.to_string();
        let start = "failed to start sh on host: This service allows sftp connections only; ";
        assert!(said.starts_with(start) && said.contains("ForceCommand"), "{program:?}: {said}");
        let denied = ssh.forward(([127, 0, 0, 1], 1).into()).await;
        assert!(matches!(denied, Err(TransportError::NotForwarded { .. })), "{program:?}: {denied:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_factor_is_asked_for_once_a_connection() {
    let sandbox = Sandbox::new();
    let Some(configuration) = sshd::with_second_factor(&sandbox) else { return };
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

/// Pairs of what known_hosts says and what the configuration says, and whether libssh2 does it, too.
fn cases(sshd: &Sshd, name: &str, key: &str) -> Vec<(&'static str, String, String, bool)> {
    let identity = format!(" IdentityFile {}\n", sshd.file("id").display());
    let folder = sshd.file("id").parent().expect("a folder").display().to_string();
    let line = format!("{name} {key}\n");
    let case = |title, known: String, config: &str, too: bool| (title, known, config.to_owned(), too);
    vec![
        case("plain", line.clone(), &identity, true),
        case("revoked", format!("@revoked {line}{line}"), &identity, true),
        case("revoked for all", format!("{line}@revoked * {key}\n"), &identity, true),
        case("pattern", format!("{} {key}\n", name.replace("127.0.0.1", "127.0.?.*")), &identity, true),
        case("not for it", format!("*,!{name} {key}\n"), &identity, true),
        case("list", format!("other,{name},more {key}\n"), &identity, true),
        case("without its port", format!("127.0.0.1 {key}\n"), &identity, true),
        case("broken line", format!("garbage here\n{line}"), &identity, true),
        case("version 1", format!("old.host 1024 35 1234567\n{line}"), &identity, true),
        case("unknown mark", format!("@mark {line}{line}"), &identity, true),
        case("line ends", line.replace('\n', "\r\n"), &identity, true),
        case("alias", format!("farm {key}\n"), &format!("{identity} HostKeyAlias farm\n"), true),
        case(
            "tokens",
            line.clone(),
            &format!(" IdentityFile {folder}/none\n IdentityFile {folder}/%n-id\n"),
            true,
        ),
        case("nobody known", String::new(), &identity, true),
        case(
            "revoked by a command",
            line.clone(),
            &format!("{identity} KnownHostsCommand /bin/echo @revoked * {key}\n"),
            true,
        ),
        case("another kind", line.clone(), &format!("{identity} HostKeyAlgorithms rsa-sha2-512\n"), true),
        case("no file", line.clone(), &format!("{identity} RevokedHostKeys {folder}/missing\n"), true),
        case("no input", line.clone(), &format!("{identity} StdinNull yes\n"), true),
        case("background", line.clone(), &format!("{identity} ForkAfterAuthentication yes\n"), true),
        case("accepts new", String::new(), &format!("{identity} StrictHostKeyChecking accept-new\n"), false),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gets_in_by_ssh_gets_in_by_us_and_nobody_else() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    std::fs::copy(sshd.file("id"), sshd.file("host-id")).expect("a key");
    let known = std::fs::read_to_string(sshd.file("known_hosts")).expect("known hosts");
    let (name, key) = known.lines().next().and_then(|line| line.split_once(' ')).expect("a name and a key");
    let key = key.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let head: String = sshd
        .client_configuration("")
        .lines()
        .filter(|line| !line.contains("IdentityFile"))
        .fold(String::new(), |text, line| text + line + "\n");
    let mut n_in = 0;
    for (title, known, config, too) in cases(&sshd, name, &key) {
        let configuration = format!("{head}{config}");
        let path = sandbox.write("ssh_config", &configuration);
        std::fs::write(sshd.file("known_hosts"), &known).expect("known hosts");
        let ssh = std::process::Command::new("ssh")
            .args(["-o", "BatchMode=yes", "-F"])
            .arg(&path)
            .args(["host", "true"])
            .output()
            .expect("ssh runs");
        let cat = command(&["cat"], b"what goes in");
        n_in += usize::from(ssh.status.success());
        for program in BOTH.into_iter().filter(|program| too || *program == SshProgram::Openssh) {
            std::fs::write(sshd.file("known_hosts"), &known).expect("known hosts");
            let ours = by(program, &sandbox, "host", &configuration, Arc::new(Nobody)).run(&cat).await;
            assert_eq!(
                ours.as_ref().map(|output| (output.code, output.stdout.as_str())).ok(),
                ssh.status.success().then_some((Some(0), "what goes in")),
                "{title} by {program:?}: {:?}\n{}",
                ours.as_ref().err().map(ToString::to_string),
                tests::text(&ssh.stderr)
            );
        }
    }
    assert!((10..17).contains(&n_in), "{n_in}: some get in, and some do not");
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_host_keys_that_refuse_a_host_are_named() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    for (kind, rule, words, programs) in [
        ("ed25519", "KnownHostsCommand /bin/true", "KnownHostsCommand", &BOTH[1..]),
        ("ed25519", "HostKeyAlgorithms rsa-sha2-512", "HostKeyAlgorithms", &BOTH[1..]),
        ("rsa", "RequiredRSASize 8192", "RequiredRSASize in the ssh configuration wants 8192", &BOTH[1..]),
        ("none", "VerifyHostKeyDNS yes", "VerifyHostKeyDNS", &BOTH[1..]),
        ("ed25519", "RevokedHostKeys /no/such/file", "RevokedHostKeys", &BOTH[..]),
        ("ed25519", "RevokedHostKeys /no/such/file", "/no/such/file: No such file", &BOTH[..]),
    ] {
        sshd.be_known(if kind == "none" { &[] } else { std::slice::from_ref(&kind) });
        for program in programs {
            let ssh = by(*program, &sandbox, "host", &sshd.client_configuration(rule), Arc::new(Nobody));
            let Err(TransportError::NotConnected(error)) = ssh.connect().await else { panic!("{rule}") };
            assert!(error.to_string().contains(words), "{program:?}, {rule}: {error}");
            assert!(matches!(error, SshError::Broken { .. }), "nobody can say yes to that: {error}");
        }
    }
    assert_eq!(sshd.n_logins(&sandbox), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_serves_all_of_a_process_and_ends_with_the_last() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "") else { return };
    let config = sandbox.write("ssh_config", &sshd.client_configuration("")).display().to_string();
    let sockets = sandbox.path().join("sockets");
    let shared = || {
        Ssh::new("host".into(), Some(config.clone()), Some(SshProgram::Openssh), Arc::new(Nobody))
            .with_sockets_in(sockets.clone())
    };
    let (one, two) = (shared(), shared());
    let (a, b) = tokio::join!(one.connect(), two.connect());
    assert!(a.is_ok() && b.is_ok(), "{a:?} {b:?}");
    assert_eq!(sshd.n_logins(&sandbox), 1, "both at once make one");
    drop(one);
    assert_eq!(two.run(&sh("echo two")).await.expect("an answer").stdout, "two\n");
    drop(two);
    let is_socket = |entry: &std::fs::DirEntry| entry.path().extension().is_none();
    let n_sockets = || std::fs::read_dir(&sockets).expect("a folder").flatten().filter(is_socket).count();
    until("the master has ended", || n_sockets() == 0);
    let mode = std::fs::metadata(&sockets).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else gets in");
    // A socket whose master was killed stands in nobody's way.
    let three = shared();
    three.connect().await.expect("a connection");
    let of_us = format!("{}", sockets.display());
    let masters = std::fs::read_dir("/proc").expect("processes").flatten().filter(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| tests::text(&line).contains(&of_us))
    });
    masters
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .for_each(|pid| tests::signal_pid(pid, nix::sys::signal::Signal::SIGKILL));
    until("that is noticed", || !sshd_has_sessions(&sshd));
    assert_eq!(three.run(&sh("echo again")).await.expect("an answer").stdout, "again\n");
}

fn sshd_has_sessions(sshd: &Sshd) -> bool {
    let pid = sshd.pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    !children.trim().is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_program_ssh_does_is_done_whatever_the_configuration_says() {
    let sandbox = Sandbox::new();
    let banner = sandbox.write("banner", "Authorised use only.\nPermission denied (to others)\n");
    let Some(sshd) = Sshd::start(&sandbox, "host", &format!("Banner {}\nAcceptEnv OF_US", banner.display()))
    else {
        return;
    };
    sandbox.write("home/.bashrc", "echo welcome; echo quota exceeded >&2\n");
    let plain = sshd.client_configuration("");
    let block = plain.lines().skip(1).collect::<Vec<_>>().join("\n");
    let included = sandbox.write("more/included", &plain);
    let port = block.lines().find_map(|line| line.trim().strip_prefix("Port ")).expect("a port").to_owned();
    let without_port =
        block.lines().filter(|line| !line.trim().starts_with("Port ")).collect::<Vec<_>>().join("\n");
    let user = block.lines().find(|line| line.trim().starts_with("User ")).expect("a user").to_owned();
    let without_user =
        block.lines().filter(|line| !line.trim().starts_with("User ")).collect::<Vec<_>>().join("\n");
    let with = |more: &str| format!("Host host\n{block}\n {more}\n");
    let path = |name: &str| sandbox.path().join(name).display().to_string();
    for (name, configuration, address) in [
        ("Match", format!("Match originalhost host exec true\n{block}\n"), "host".to_owned()),
        ("Include", format!("Include {}\n", included.display()), "host".to_owned()),
        (
            "ProxyCommand",
            with(&format!("ProxyCommand ssh -F '{}' -W '[%h]:%p' host", included.display())),
            "host".to_owned(),
        ),
        ("ProxyJump", format!("{}\nHost behind\n{block}\n ProxyJump host\n", with("")), "behind".to_owned()),
        ("a port in the address", format!("Host host\n{without_port}\n"), format!("host:{port}")),
        (
            "ControlPath",
            with(&format!("ControlPath {}\n ControlMaster auto\n ControlPersist yes", path("own-%C"))),
            "host".to_owned(),
        ),
        ("no master", with("ControlMaster no\n ControlPath none\n ControlPersist no"), "host".to_owned()),
        ("LogLevel", with("LogLevel QUIET"), "host".to_owned()),
        ("RemoteCommand", with("RemoteCommand tmux new -A\n RequestTTY force"), "host".to_owned()),
        (
            "SessionType",
            with("SessionType none\n StdinNull yes\n ForkAfterAuthentication yes"),
            "host".to_owned(),
        ),
        ("SendEnv", with("SetEnv OF_US=yes\n ForwardX11 no\n VisualHostKey yes"), "host".to_owned()),
        (
            "LocalCommand",
            with(&format!("PermitLocalCommand yes\n LocalCommand touch {}", path("local"))),
            "host".to_owned(),
        ),
        (
            "Host *",
            format!("Host host\n{without_user}\nHost *\n{user}\n Compression yes\n ForwardAgent no\n"),
            "host".to_owned(),
        ),
        ("an odd alias", format!("Host lab:gpu\n{block}\n"), "lab:gpu".to_owned()),
        (
            "forwards",
            with(
                "LocalForward 127.0.0.1:1 127.0.0.1:1\n RemoteForward 1 127.0.0.1:1\n ExitOnForwardFailure yes",
            ),
            "host".to_owned(),
        ),
    ] {
        let ssh = by(SshProgram::Openssh, &sandbox, &address, &configuration, Arc::new(Nobody));
        let said = ssh.run(&command(&["sh", "-c", "cat; echo err >&2; exit 3"], b"in\0put")).await;
        let said = said.unwrap_or_else(|error| panic!("{name}: {error}\n{configuration}"));
        assert_eq!(
            said,
            Output { code: Some(3), stdout: "in\0put".into(), stderr: "err\n".into() },
            "{name}"
        );
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = ssh.forward(listener.local_addr().expect("its address")).await;
        TcpStream::connect(("127.0.0.1", port.unwrap_or_else(|error| panic!("{name}: {error}"))))
            .expect(name);
        ssh.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_proxy_says_is_told() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "host", "KbdInteractiveAuthentication no") else { return };
    let to = |more: &str| {
        by(SshProgram::Openssh, &sandbox, "host", &sshd.client_configuration(more), Arc::new(Nobody))
    };
    let error = to("ProxyCommand echo the gate is closed today >&2; exit 1").connect().await.unwrap_err();
    assert!(error.to_string().contains("the gate is closed today"), "{error}");
    // It is no word of the configuration, and leads nowhere.
    let error = to("ProxyJump ada@127.0.0.1:1").connect().await.unwrap_err();
    assert!(error.to_string().contains("connect to host 127.0.0.1 port 1"), "{error}");
    // The jump host takes no key of ours.
    let config = format!(
        "{}Host gate\n{}\n IdentityFile none\n IdentityAgent none\n",
        sshd.client_configuration("ProxyJump gate"),
        sshd.client_configuration("")
            .lines()
            .skip(1)
            .filter(|line| !line.contains("Identity"))
            .collect::<Vec<_>>()
            .join("\n")
    );
    let ssh = by(SshProgram::Openssh, &sandbox, "host", &config, Arc::new(Nobody));
    let Err(TransportError::NotConnected(error)) = ssh.connect().await else { panic!("it is let in") };
    let SshError::Refused { tried, .. } = &error else { panic!("{error}") };
    assert!(tried.contains("the way to 127.0.0.1 leads through it"), "{error}");
}
