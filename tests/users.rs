//! Users of a manager by the command line: who has access, and from when on no more.

use std::fs;

use serde_json::Value;
use tests::{Running, Sandbox, text};

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}

/// Has the access file of a folder lead to where the manager listens now.
fn follow(sandbox: &Sandbox, folder: &str) {
    let read = |folder: &str| -> Value {
        serde_json::from_str(&sandbox.read(&format!("{folder}/access.json"))).expect("an access file")
    };
    let mut access = read(folder);
    for field in ["url", "pid", "host"] {
        access[field] = read("m")[field].clone();
    }
    sandbox.write(&format!("{folder}/access.json"), &access.to_string());
}

/// Exit code and standard error of a command as the user whose access file is in the folder.
fn as_user(sandbox: &Sandbox, folder: &str) -> (Option<i32>, String) {
    let output = sandbox.run(&["jobs", "--dir", folder]);
    (output.status.code(), text(&output.stderr))
}

fn states(sandbox: &Sandbox) -> Vec<(String, String)> {
    let listed = sandbox.json(&["user", "list", "--all", "--dir", "m"]);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = listed.as_array().into_iter().flatten();
    all.filter(|view| view["is_own"] == false)
        .map(|view| (word(&view["user"]), word(&view["state"])))
        .collect()
}

#[test]
fn a_user_is_added_listed_and_revoked() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve_in_m(&["--no-local"]);
    let said = sandbox.ok(&["user", "add", "ann", "--expires", "90d", "--dir", "m"]);
    let line = said.strip_prefix("ann has access until 20").expect("until when");
    assert!(line.ends_with(" by ./ann/access.json: pilotfish jobs --dir ann\n"), "{said}");
    sandbox.ok(&["user", "add", "bob", "--dir", "m"]);
    assert_eq!((as_user(&sandbox, "ann").0, as_user(&sandbox, "bob").0), (Some(0), Some(0)));
    let table = sandbox.ok(&["user", "list", "--dir", "m"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains("(access.json)") && !table.contains("STATE"), "{table}");
    let listed = sandbox.json(&["user", "list", "--dir", "ann"]);
    assert_eq!((listed.as_array().map(Vec::len), &listed[0]["user"]), (Some(1), &"ann".into()), "{listed}");
    let spans = |name: &str| listed[0][name].as_f64().expect("a time");
    let valid = spans("expires_at_unix_seconds") - spans("made_at_unix_seconds");
    assert!((valid - 90.0 * 86_400.0).abs() < 60.0, "{valid}");

    // Who waits is told, too. The job has no platform, so it waits for ever.
    sandbox.ok(&["submit", "-q", "--dir", "ann", "--", "true"]);
    let waits = sandbox.start("waits", &["wait", "1", "--dir", "ann"]);
    let follows = sandbox.start("follows", &["logs", "1", "--follow", "--dir", "ann"]);
    let said = sandbox.ok(&["user", "revoke", "ann", "--dir", "m"]);
    let id = said.split(' ').nth(1).expect("an id").to_owned();
    assert_eq!(said, format!("token {id} of ann is void\n"));
    assert_eq!(sandbox.ok(&["user", "revoke", "ann", "--dir", "m"]), "ann was revoked before\n");
    let (code, told) = as_user(&sandbox, "ann");
    assert_eq!(code, Some(3));
    assert!(
        told.contains(&format!("token {id} of ann was revoked; an operator can give ann a new one")),
        "{told}"
    );
    assert!(!told.contains("earlier manager"), "{told}");
    assert!(told.contains("(the access file is ./ann/access.json)"), "{told}");
    assert_eq!((waits.wait(), follows.wait()), (Some(3), Some(3)));
    for name in ["waits.err", "follows.err"] {
        assert!(sandbox.read(name).contains("was revoked"), "{name}: {}", sandbox.read(name));
    }
    assert_eq!(as_user(&sandbox, "bob").0, Some(0));
    // The job is there; the name may be used again and has it.
    sandbox.ok(&["user", "add", "ann", "--to", "again", "--dir", "m"]);
    sandbox.ok(&["cancel", "1", "--dir", "again"]);
    // The log tells it, without a token (which the sandbox looks for).
    let log = sandbox.read("serve.err");
    assert!(log.contains("a user was given a token") && log.contains("a token was revoked"), "{log}");
    ends(&sandbox, manager);
    // A store without its manager is read, too.
    let read = |state: &str| (states(&sandbox).into_iter().filter(|(_, found)| found == state)).count();
    // With the owner's, which is not told apart there.
    assert_eq!((read("revoked"), read("valid")), (1, 3));
    let database = fs::read(sandbox.path().join("m/store.sqlite")).expect("a store");
    assert!(!database.windows(4).any(|window| window == b"pfu_"), "no token is kept");
}

#[test]
fn what_cannot_be_added_or_revoked_is_refused() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve_in_m(&["--no-local"]);
    sandbox.ok(&["user", "add", "bob", "--dir", "m"]);
    sandbox.ok(&["submit", "-q", "--dir", "m", "--", "true"]);
    for (arguments, code, said) in [
        (&["user", "add", "a/b", "--dir", "m"][..], 2, "found `a/b` as a user's name"),
        (&["user", "add", "0123456789ab", "--dir", "m"], 2, "reads like the id of a token"),
        (&["user", "add", "bob", "--dir", "m"], 2, "found ./bob/access.json already"),
        (&["user", "add", "eve", "--expires", "soon", "--dir", "m"], 2, "--expires: found `soon`"),
        (&["user", "add", "eve", "--expires", "0s", "--dir", "m"], 2, "--expires: found `0s`"),
        (&["user", "add", "eve", "--dir", "bob"], 2, "bob is no operator"),
        (&["user", "revoke", "eve", "--dir", "m"], 2, "there is no user and no token `eve`"),
        (&["user", "revoke", "a/b", "--dir", "m"], 2, "found `a/b` as a user's name"),
        (&["user", "revoke", "eve", "--dir", "bob"], 2, "bob is no operator"),
        (&["profile", "true", "--dir", "bob"], 2, "bob has no job of the application `true`"),
        (&["serve", "--dir", "bob"], 2, "./bob has the access file of bob for the manager at http://"),
        (
            &["run", "--dir", "bob", "--", "true"],
            2,
            "./bob has the access file of bob for the manager at http://",
        ),
        (
            &["store", "check", "--dir", "bob"],
            2,
            "found no store.sqlite in ./bob; name the manager's own folder",
        ),
    ] {
        let output = sandbox.run(arguments);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(code) && told.contains(said), "{arguments:?}: {told}");
    }
    assert!(!sandbox.path().join("eve").exists(), "nothing is left of it");
    assert_eq!(states(&sandbox), [("bob".to_owned(), "valid".to_owned())]);
    ends(&sandbox, manager);
}

#[test]
fn the_owners_token_outlives_a_restart_and_is_replaced_when_it_is_revoked() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve_in_m(&["--no-local"]);
    let token = || {
        let access: Value = serde_json::from_str(&sandbox.read("m/access.json")).expect("an access file");
        access["token"].as_str().expect("a token").to_owned()
    };
    let copy = || {
        fs::create_dir_all(sandbox.path().join("copy")).expect("a folder");
        sandbox.write("copy/access.json", &sandbox.read("m/access.json"));
    };
    copy();
    let before = token();
    ends(&sandbox, manager);
    let manager = sandbox.serve_in_m(&["--no-local"]);
    assert_eq!(token(), before);
    follow(&sandbox, "copy");
    assert_eq!(as_user(&sandbox, "copy").0, Some(0));
    let own = sandbox.json(&["user", "list", "--dir", "m"])[0].clone();
    assert_eq!((&own["is_own"], &own["is_operator"]), (&true.into(), &true.into()));
    sandbox.ok(&["user", "revoke", own["id"].as_str().expect("an id"), "--dir", "m"]);
    assert_ne!(token(), before);
    assert_eq!(as_user(&sandbox, "copy").0, Some(3));
    assert_eq!(as_user(&sandbox, "m").0, Some(0));
    let replaced = token();
    ends(&sandbox, manager);
    assert!(!sandbox.path().join("m/access.json").exists());
    let manager = sandbox.serve_in_m(&["--no-local"]);
    assert_eq!(token(), replaced);
    ends(&sandbox, manager);

    // Without the file `secret` all are void.
    copy();
    let manager = sandbox.serve_in_m(&["--no-local"]);
    copy();
    sandbox.ok(&["user", "add", "bob", "--dir", "m"]);
    ends(&sandbox, manager);
    fs::remove_file(sandbox.path().join("m/secret")).expect("it was there");
    let manager = sandbox.serve_in_m(&["--no-local"]);
    follow(&sandbox, "copy");
    follow(&sandbox, "bob");
    assert_eq!(as_user(&sandbox, "copy").0, Some(3));
    let (code, told) = as_user(&sandbox, "bob");
    assert!(code == Some(3) && told.contains("since the manager's file `secret` was removed"), "{told}");
    assert_eq!(as_user(&sandbox, "m").0, Some(0));
    ends(&sandbox, manager);
}

#[test]
fn a_token_that_was_revoked_after_a_backup_stays_void_when_that_is_put_back() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve_in_m(&["--no-local"]);
    for user in ["ann", "bob"] {
        sandbox.ok(&["user", "add", user, "--dir", "m"]);
    }
    ends(&sandbox, manager);
    let (store, backup) = (sandbox.path().join("m/store.sqlite"), sandbox.path().join("backup"));
    fs::copy(&store, &backup).expect("a backup");
    let manager = sandbox.serve_in_m(&["--no-local"]);
    sandbox.ok(&["user", "revoke", "ann", "--dir", "m"]);
    sandbox.ok(&["user", "add", "eve", "--dir", "m"]);
    ends(&sandbox, manager);
    fs::copy(&backup, &store).expect("it is put back");
    let manager = sandbox.serve_in_m(&["--no-local"]);
    ["ann", "bob", "eve"].iter().for_each(|user| follow(&sandbox, user));
    let (code, told) = as_user(&sandbox, "ann");
    assert!(code == Some(3) && told.contains("was revoked"), "{told}");
    assert_eq!(as_user(&sandbox, "bob").0, Some(0));
    let (code, told) = as_user(&sandbox, "eve");
    assert!(code == Some(3) && told.contains("a token that this manager has not made"), "{told}");
    let log = sandbox.read("serve.err");
    assert!(log.contains("the store does not know that this token was revoked"), "{log}");
    ends(&sandbox, manager);
}

#[test]
fn run_goes_on_when_its_owners_token_is_replaced() {
    let sandbox = Sandbox::new();
    let wait_for = "until [ -e go ]; do sleep 0.2; done; echo done";
    let run = sandbox.start("run", &["run", "--dir", "m", "--", "bash", "-c", wait_for]);
    tests::until("its task runs", || {
        let told = sandbox.run(&["jobs", "--json", "--dir", "m"]);
        let jobs: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
        jobs[0]["counts"]["running"] == 1
    });
    let said = sandbox.ok(&["user", "list", "--dir", "m", "--json"]);
    let owner =
        serde_json::from_str::<Value>(&said).expect("JSON")[0]["user"].as_str().expect("a name").to_owned();
    sandbox.ok(&["user", "revoke", &owner, "--dir", "m"]);
    sandbox.write("go", "");
    assert_eq!(run.wait(), Some(0), "{}", sandbox.read("run.err"));
}
