//! Limits of the system (`ulimit`), names of hosts and plain HTTP: what cannot be is told in words, and nothing is lost.

use std::process::{Command, Output};

use tests::{Sandbox, program, text, until};

/// What nobody may be told who only has a low limit.
const NEVER: [&str; 4] = ["panicked", "bug in pilotfish", "overflowed its stack", "RUST_BACKTRACE"];

/// `pilotfish` under limits that a shell sets: `-f 100 -n 20`.
fn command(sandbox: &Sandbox, limits: &str, arguments: &[&str]) -> Command {
    let mut command =
        sandbox.command_of("bash".as_ref(), &["-c", &format!("ulimit {limits} && exec \"$@\""), "bash"]);
    command.arg(program()).args(arguments);
    command
}

fn limited(sandbox: &Sandbox, limits: &str, arguments: &[&str]) -> Output {
    command(sandbox, limits, arguments).output().expect("bash runs")
}

/// Refused with this exit code, in words that have these in them.
fn refused(output: &Output, code: i32, words: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{:?} {said}", output.status);
    assert!(said.contains(words), "not `{words}` in: {said}");
    assert!(NEVER.iter().all(|never| !said.contains(never)), "{said}");
}

#[test]
fn run_that_may_write_no_file_says_so_and_goes_on_later() {
    let sandbox = Sandbox::new();
    let run = ["run", "--dir", "r", "--", "echo", "{}", ":::", "1", "2"];
    refused(&limited(&sandbox, "-f 1", &run), 3, "(ulimit -f)");
    sandbox.ok(&run);
}

#[test]
fn manager_that_meets_the_limit_of_the_size_of_files_ends_in_words_with_its_store_whole() {
    let sandbox = Sandbox::new();
    let serve = command(&sandbox, "-f 200", &["serve", "--dir", "m", "--no-local"]);
    let mut manager = sandbox.spawn("serve", serve);
    until("the manager answers", || {
        assert!(!manager.has_ended(), "{}", sandbox.read("serve.err"));
        sandbox.path().join("m/access.json").exists()
            && sandbox.run(&["status", "--dir", "m"]).status.success()
    });
    let padding = "x".repeat(20_000);
    let accepted = (0..100)
        .take_while(|_| sandbox.run(&["submit", "-q", "--dir", "m", "--", "echo", &padding]).status.success())
        .count();
    assert!((1..100).contains(&accepted), "{accepted} jobs were taken");
    assert_eq!(manager.wait(), Some(3), "{}", sandbox.read("serve.err"));
    let said = sandbox.read("serve.err");
    assert!(said.contains("larger than this process may write, 204800 bytes (ulimit -f)"), "{said}");
    assert!(NEVER.iter().all(|never| !said.contains(never)), "{said}");

    sandbox.ok(&["store", "check", "--dir", "m"]);
    let manager = sandbox.serve_in_m(&["--no-local"]);
    let jobs = sandbox.json(&["jobs", "--dir", "m"]);
    // One that was not acknowledged may be there, too.
    let found = jobs.as_array().map_or(0, Vec::len);
    assert!((accepted..=accepted + 1).contains(&found), "{found} of {accepted} jobs");
    sandbox.ok(&["stop", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0));
}

#[test]
fn stack_that_is_too_small_is_told() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["run", "--", "true"][..],
        &["serve", "--dir", "m"],
        &["submit", "--", "true"],
        &["check", "--", "true"],
        &["agent", "list"],
    ] {
        for limit in ["-s 128", "-s 512"] {
            refused(
                &limited(&sandbox, limit, arguments),
                3,
                "KiB here (ulimit -s), and at least 1024 are needed",
            );
        }
    }
    let agent = program().with_file_name("pilotfish-agent");
    let mut command = sandbox.command_of("bash".as_ref(), &["-c", "ulimit -s 256 && exec \"$@\"", "bash"]);
    refused(&command.arg(agent).arg("list").output().expect("bash runs"), 1, "(ulimit -s)");
}

#[test]
fn few_files_are_told() {
    let sandbox = Sandbox::new();
    for arguments in [&["run", "--", "true"][..], &["serve", "--dir", "m", "--cores", "1"]] {
        for (limit, words) in
            [("-n 5", "(ulimit -n)"), ("-n 20", "20 files open (ulimit -n), and a manager needs at least 64")]
        {
            refused(&limited(&sandbox, limit, arguments), 3, words);
        }
    }
    let manager = sandbox.serve_in_m(&["--no-local"]);
    let submit = limited(&sandbox, "-n 4", &["submit", "--dir", "m", "--", "true"]);
    refused(&submit, 3, "(ulimit -n)");
    sandbox.ok(&["stop", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0));
}

/// The number of no account.
const NOBODYS: u32 = 47_110;

#[test]
fn few_processes_are_told() {
    if !nix::unistd::geteuid().is_root() {
        return tests::skipped("ulimit -u: only root may act as a user without other processes");
    }
    let sandbox = Sandbox::new();
    let home = sandbox.path().join("theirs");
    std::fs::create_dir(&home).expect("a folder");
    std::os::unix::fs::chown(&home, Some(NOBODYS), Some(NOBODYS)).expect("its owner");
    std::fs::set_permissions(sandbox.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("its mode");
    let run = |limit: &str, arguments: &[&str]| {
        let user = NOBODYS.to_string();
        let script = format!("cd \"$0\" && {limit} exec \"$@\"");
        // One that waits for what never comes is ended.
        let mut command = Command::new("timeout");
        command.args([
            "300",
            "setpriv",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "bash",
            "-c",
            &script,
        ]);
        command.arg(&home).arg(program()).args(arguments).env("HOME", &home);
        command.output().expect("setpriv runs")
    };
    if !run("", &["--version"]).status.success() {
        return tests::skipped("ulimit -u: other users cannot run the program where it is");
    }
    let job = |limit: &str, folder: &str| {
        run(limit, &["run", "--dir", folder, "--", "echo", "{}", ":::", "1", "2"])
    };
    for n_processes in [2, 3, 5] {
        let output = job(&format!("ulimit -u {n_processes};"), "few");
        refused(&output, 3, "processes and threads (ulimit -u)");
    }
    // Where a manager starts, but no pilot, or a pilot and no task.
    for n_processes in [8, 10, 12, 16] {
        let output = job(&format!("ulimit -u {n_processes};"), &format!("some-{n_processes}"));
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{n_processes}: {:?} {said}", output.status);
        assert!(NEVER.iter().all(|never| !said.contains(never)), "{n_processes}: {said}");
    }
    let output = job("", "few");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// The same on a host of another name; `None` where nobody may give it one.
fn on_host(sandbox: &Sandbox, name: &str, arguments: &[&str]) -> Option<Command> {
    let script =
        "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])";
    let words = ["--uts", "python3", "-c", script];
    let may = Command::new("unshare").args(words).args(["a/b", "/bin/true"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        tests::skipped("names of hosts: only root may give a host another one");
        return None;
    }
    let mut command = sandbox.command_of("unshare".as_ref(), &words);
    command.arg(name).args(arguments);
    Some(command)
}

#[test]
fn host_may_have_any_name() {
    let sandbox = Sandbox::new();
    let path = program();
    let program = path.to_str().expect("a path in UTF-8");
    for (n, name) in ["a/b", "../../x", "a b"].into_iter().enumerate() {
        let folder = format!("r{n}");
        let arguments = [program, "run", "--dir", &folder, "--", "echo", "{}", ":::", "1", "2"];
        let Some(mut run) = on_host(&sandbox, name, &arguments) else { return };
        let output = run.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    }
    sandbox.write(
        "manager.yaml",
        "listen: {host: 0.0.0.0}\nplatforms: [{name: far, adapter: slurm, cores: 1}]\n",
    );
    let serve = [program, "serve", "--dir", "m", "--config", "manager.yaml"];
    let Some(mut serve) = on_host(&sandbox, "a/b", &serve) else { return };
    refused(&serve.output().expect("it runs"), 2, "come to `a/b`, which cannot be part of an address");
}

#[test]
fn plain_http_beyond_this_host_is_told_or_refused() {
    let sandbox = Sandbox::new();
    let slurm = |more: &str| format!("platforms: [{{name: far, adapter: slurm, cores: 1{more}}}]\n");
    let refused_with = |configuration: &str| {
        sandbox.write("manager.yaml", configuration);
        sandbox.run(&["serve", "--dir", "m", "--config", "manager.yaml"])
    };
    let gate = slurm(", reach: 'http://gate.centre.org:80'");
    refused(
        &refused_with(&gate),
        2,
        "platform far: its pilots would come by plain http to gate.centre.org:80",
    );
    // Who says it may have it, and is told what it means.
    sandbox.write("manager.yaml", &format!("tls: off\nlisten: {{host: 0.0.0.0}}\n{gate}"));
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    let said = sandbox.read("serve.err");
    for words in [
        "tls is off and the manager listens on 0.0.0.0",
        "its pilots come by plain http to gate.centre.org:80",
    ] {
        assert!(said.contains(words), "not `{words}` in: {said}");
    }
    sandbox.ok(&["stop", "--now", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0));
    let before = sandbox.read("serve.err").len();
    // By a name that is not this host's own, `auto` speaks TLS on loopback, too.
    sandbox.write("manager.yaml", &format!("listen: {{name: gate.centre.org}}\n{}", slurm("")));
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    assert!(
        sandbox.read("m/access.json").contains("https://127.0.0.1:"),
        "{}",
        sandbox.read("m/access.json")
    );
    let said = sandbox.read("serve.err").split_off(before);
    assert!(!said.contains("plain http") && !said.contains("tls is off"), "{said}");
    sandbox.ok(&["stop", "--now", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0));
}
