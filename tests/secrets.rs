//! Credentials stay out of logs, process arguments, tasks' environments, the store and the answers.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use tests::{Sandbox, text};

/// Every file below a folder with its bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path.display().to_string(), fs::read(&path).unwrap_or_default())),
        }
    }
    found
}

#[test]
fn no_token_is_found_outside_the_access_file() {
    let sandbox = Sandbox::new();
    let manager = sandbox.start("serve", &["serve", "--cores", "1"]);
    sandbox.until_served();
    sandbox.ok(&["submit", "--wait", "--", "sh", "-c", "env; tr '\\0' '\\n' < /proc/$PPID/cmdline"]);
    let folder = sandbox.path().join("home/.pilotfish/default");
    let access: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("access.json")).expect("an access file")).expect("JSON");
    let token = access["token"].as_str().expect("a token").to_owned();
    let mut answers = sandbox.ok(&["logs", "1"]);
    for command in [&["status"][..], &["pilots"], &["platforms"], &["job", "1"], &["tasks", "1"]] {
        answers += &sandbox.json(command).to_string();
    }
    let commands: Vec<String> = sandbox.processes().into_iter().map(|(_, command)| command).collect();
    sandbox.ok(&["stop"]);
    manager.wait();

    // The signature part of any token is what must not be seen; `pfu_`, `pfj_` … name the kinds.
    let secrets = [token.as_str(), "Bearer ", "pfj_", "pfs_", "pfu_"];
    for secret in secrets {
        assert!(!answers.contains(secret), "an answer or a task's output contains {secret}");
        assert!(commands.iter().all(|command| !command.contains(secret)), "an argument contains {secret}");
        for (path, bytes) in files(sandbox.path()).iter().filter(|(path, _)| !path.ends_with("access.json")) {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{path} contains {secret}");
        }
    }
}

#[test]
fn a_password_in_an_address_is_refused_and_found_nowhere() {
    const SECRET: &str = "hush-hush";
    let sandbox = Sandbox::new();
    let manager = sandbox.start("serve", &["serve", "--cores", "1"]);
    sandbox.until_served();
    sandbox.hide([SECRET.to_owned()]);
    let address = format!("http://ann:{SECRET}@127.0.0.1:9/x");
    sandbox.write("urls.txt", &format!("http://127.0.0.1:9/y\n{address}\n"));
    for job in [
        format!("inputs: [{{from: '{address}', to: x}}]"),
        format!("inputs: ['{address}']"),
        format!("inputs: [{{from: 'https://{SECRET}@host/x', to: x}}]"),
        format!("sweep: {{user: [ann]}}\ninputs: [{{from: 'http://{{user}}:{SECRET}@host/x', to: x}}]"),
        format!(
            "sweep: {{url: ['http://127.0.0.1:9/y', '{address}']}}\ninputs: [{{from: '{{url}}', to: x}}]"
        ),
        "sweep: {url: {lines: urls.txt}}\ninputs: [{from: '{url}', to: x}]".to_owned(),
        format!("outputs: [{{from: x, to: 'https://ann:{SECRET}@host/x'}}]"),
    ] {
        sandbox.write("job.yaml", &format!("command: 'true'\n{job}\n"));
        for command in [&["check", "job.yaml"][..], &["submit", "job.yaml"], &["run", "job.yaml"]] {
            let output = sandbox.run(command);
            let said = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{job}: {said}");
            assert!(
                said.contains("job.yaml:") && said.contains("://…@") && !said.contains(SECRET),
                "{job}: {said}"
            );
            assert!(said.contains("puts[0].") && said.contains("~/.netrc"), "{job}: {said}");
        }
    }
    assert_eq!(sandbox.json(&["jobs"]).as_array().map(Vec::len), Some(0));
    sandbox.ok(&["stop"]);
    manager.wait();
    for (path, bytes) in files(&sandbox.path().join("home")) {
        assert!(!bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()), "{path}");
    }
}

/// Whether something in the logs of the sandbox is no good.
fn is_told(prepare: impl FnOnce(&Sandbox)) -> bool {
    let sandbox = Sandbox::new();
    sandbox.hide(["hush-hush".to_owned()]);
    prepare(&sandbox);
    catch_unwind(AssertUnwindSafe(move || drop(sandbox))).is_err()
}

#[test]
fn a_secret_in_a_log_fails_whichever_test_it_is() {
    for (name, text) in [
        ("serve.err", "token=pfj_x.y"),
        ("home/.pilotfish/default/pilots/pf1-2/job.log", "X-Auth-Token: gAAAABx"),
        ("home/cloud/pilots/pf1-2/pilot.log", "pfs_x"),
        ("serve.out", "password hush-hush"),
    ] {
        assert!(is_told(|sandbox| _ = sandbox.write(name, text)), "{name}");
    }
    for (name, text) in [
        ("home/cloud/log/keystone.log", "gAAAABx hush-hush"),
        ("home/.pilotfish/default/access.json", "pfo_x"),
        ("serve.err", "nothing"),
    ] {
        assert!(!is_told(|sandbox| _ = sandbox.write(name, text)), "{name}");
    }
}
