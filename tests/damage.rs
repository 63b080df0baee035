//! Damage of a manager's store, as an operator sees it.

use std::fs;

use serde_json::json;
use tests::{Sandbox, text};

/// A run that is over, whose tasks wrote what can be found in the store.
fn run() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["run", "-q", "--", "echo written-by-{1}", ":::", "a", "b", "c"]);
    sandbox
}

/// Changes the first place of the store's file that has these bytes to others.
fn change(sandbox: &Sandbox, from: &[u8], to: &[u8]) {
    let path = sandbox.path().join(".pilotfish/store.sqlite");
    let mut bytes = fs::read(&path).expect("the store");
    let place = bytes.windows(from.len()).position(|window| window == from).expect("the bytes are there");
    bytes[place..place + to.len()].copy_from_slice(to);
    fs::write(path, bytes).expect("the store is written");
}

#[test]
fn a_store_is_checked_while_its_manager_runs_and_afterwards() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve(sandbox.command(&["serve", "-q"]));
    sandbox.ok(&["submit", "-q", "--wait", "--array", "1-50", "--", "true"]);
    assert!(sandbox.ok(&["store", "check"]).contains(" is whole: "));
    sandbox.ok(&["stop", "-q"]);
    assert_eq!(manager.wait(), Some(0));
    let checked = sandbox.json(&["store", "check"]);
    assert_eq!((&checked["damage"], &checked["records_without_checksums"]), (&json!([]), &json!(0)));
    assert!(checked["records"].as_u64() > Some(3), "{checked}");
    sandbox.write("empty/file", "");
    for (folder, told) in [
        ("nowhere", "there is no folder ./nowhere; name the manager's own folder"),
        ("empty", "found no store.sqlite in ./empty; name the manager's own folder"),
    ] {
        let refused = sandbox.run(&["store", "check", "--dir", folder]);
        assert_eq!((refused.status.code(), text(&refused.stderr)), (Some(2), format!("pilotfish: {told}\n")));
    }
}

#[test]
fn a_damaged_output_is_told_with_its_record_and_the_rest_is_shown() {
    let sandbox = run();
    change(&sandbox, b"written-by-b", b"writtEn-by-b");
    let output = sandbox.run(&["store", "check", "--dir", ".pilotfish"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains(" is damaged:\n  record ") && shown.contains("checksum of outputs"), "{shown}");
    let logs = sandbox.run(&["logs", "1"]);
    let (shown, said) = (text(&logs.stdout), text(&logs.stderr));
    assert!(shown.contains("written-by-a") && !shown.contains("by-b"), "{shown}{said}");
    assert!(said.contains("damaged"), "{said}");
    // The manager goes on.
    sandbox.ok(&["run", "-q", "--", "true"]);
}

#[test]
fn a_damaged_record_is_named_by_every_command_that_would_read_it() {
    let sandbox = run();
    // A field of the record of the job.
    change(&sandbox, b"\"retries\":", b"\"retrieS\":");
    for arguments in [&["jobs"][..], &["logs", "1"], &["run", "-q", "--", "true"]] {
        let output = sandbox.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(said.contains("the store is damaged: record "), "{arguments:?}: {said}");
    }
    assert_eq!(sandbox.run(&["store", "check"]).status.code(), Some(1));
}
