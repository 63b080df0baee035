//! Credentials stay out of logs, process arguments, tasks' environments, the store and the answers.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
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

/// Root's tasks may read everything: where the tests run as root, these run as another user.
fn as_user(program: &Path, folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(folder).env_clear().env("HOME", folder).env("PATH", "/usr/bin:/bin");
    if nix::unistd::geteuid().is_root() {
        std::os::unix::process::CommandExt::uid(&mut command, OTHER_USER);
        std::os::unix::process::CommandExt::gid(&mut command, OTHER_USER);
    }
    let output = command.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

const OTHER_USER: u32 = 65534;

/// A folder of that user with a copy of the program, as it may not be allowed to enter the one where it was built.
fn folder_of_user() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let root = tempfile::tempdir().expect("a folder");
    let (program, home) = (root.path().join("pilotfish"), root.path().join("home"));
    fs::copy(tests::program(), &program).expect("a copy of the program");
    fs::create_dir(&home).expect("a folder");
    if nix::unistd::geteuid().is_root() {
        chown(&home, Some(OTHER_USER), Some(OTHER_USER)).expect("root may give it away");
    }
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    (root, program, home)
}

#[test]
fn tasks_cannot_read_the_memory_or_environment_of_their_pilot() {
    if fs::read_to_string("/proc/self/mountinfo").expect("mounts").contains("hidepid=") {
        return tests::skipped("memory of pilots: /proc is mounted with hidepid");
    }
    let (_root, program, home) = folder_of_user();
    let look = "for f in environ maps mem auxv fd/0; do head -c 1 /proc/$PPID/$f > /dev/null && echo read $f; done; echo looked";
    let (code, _, errors) = as_user(&program, &home, &["run", "--", "sh", "-c", look]);
    assert_eq!(code, 0, "{errors}");
    let (code, output, errors) = as_user(&program, &home, &["logs", "last", "--raw", "--stdout"]);
    assert_eq!((code, output.as_str()), (0, "looked\n"), "{errors}");
}

#[test]
fn what_a_run_keeps_is_private_whatever_the_umask_and_git_leaves_it_alone() {
    let (_root, program, home) = folder_of_user();
    let script = format!("umask 0; exec {} run -- true", program.display());
    let (code, _, errors) = as_user(Path::new("/bin/sh"), &home, &["-c", &script]);
    assert_eq!(code, 0, "{errors}");
    for (path, _) in files(&home).iter().filter(|(path, _)| !path.ends_with("job.log")) {
        for path in Path::new(path).ancestors().take_while(|path| *path != home) {
            let mode = fs::metadata(path).expect("its facts").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
    let ignores = fs::read_to_string(home.join(".pilotfish/.gitignore")).expect("what git is told");
    assert_eq!(ignores, "*\n");
}

#[test]
fn a_manager_is_refused_a_folder_in_which_others_may_write_and_a_secret_that_others_may_read() {
    let (_root, program, home) = folder_of_user();
    let (code, _, errors) = as_user(&program, &home, &["run", "--", "true"]);
    assert_eq!(code, 0, "{errors}");
    let permit = |name: &str, mode| {
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).expect("its mode");
    };
    permit(".pilotfish", 0o730);
    let (code, _, errors) = as_user(&program, &home, &["run", "--", "true"]);
    assert!(code == 3 && errors.contains("mode 0730") && errors.contains("chmod 700"), "{code} {errors}");
    assert!(!errors.contains("make the folder writable"), "{errors}");
    permit(".pilotfish", 0o755);
    permit(".pilotfish/secret", 0o604);
    let (code, _, errors) = as_user(&program, &home, &["run", "--", "true"]);
    assert!(code == 3 && errors.contains("mode 0604") && errors.contains("chmod 600"), "{code} {errors}");
    permit(".pilotfish/secret", 0o600);
    let (code, _, errors) = as_user(&program, &home, &["run", "--", "true"]);
    assert_eq!(code, 0, "{errors}");
}
