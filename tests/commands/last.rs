//! Two stores beside each other: commands mean the one that was used last here, or refuse.

use nix::sys::signal::Signal;
use tests::{Running, Sandbox, text, until};

const DEFAULT: &str = "home/.pilotfish/default";

/// A manager in this folder that answers.
fn serve(sandbox: &Sandbox, folder: &str, more: &[&str]) -> Running {
    let manager = sandbox.start("serve", &[&["serve", "-q", "--dir", folder], more].concat());
    until("the manager answers", || {
        let output = sandbox.run(&["status", "--json", "--dir", folder]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["pid"].is_u64()
    });
    manager
}

/// A sandbox with an old run, whose only task has written "old".
fn with_an_old_run() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok(&["run", "-q", "--name", "old", "--", "echo", "old"]);
    sandbox
}

/// Asserts that each command that shows jobs shows this one, and none of the others.
fn all_show(sandbox: &Sandbox, name: &str, more: &[&str]) {
    let ok = |arguments: &[&str]| sandbox.ok(&[arguments, more].concat());
    assert_eq!(ok(&["logs", "last", "--raw"]), format!("{name}\n"), "logs");
    for command in ["jobs", "job"] {
        let shown = ok(&[command, "last", "--json"]);
        assert!(shown.contains(&format!("\"name\": \"{name}\"")), "{command}: {shown}");
    }
    for command in [&["export", "last"][..], &["tasks", "last", "--json"]] {
        let shown = ok(command);
        assert!(shown.contains(name), "{command:?}: {shown}");
    }
}

/// Asserts that a command is refused, and gives what it says.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = sandbox.run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    said
}

#[test]
fn commands_mean_the_manager_that_the_last_job_of_the_folder_went_to() {
    let sandbox = Sandbox::new();
    let echo = |words: &str, name: &str| {
        let mut all: Vec<&str> = words.split(' ').collect();
        all.extend(["-q", "--name", name, "--", "echo", "{}", ":::", name]);
        sandbox.ok(&all);
    };
    echo("run", "old");
    all_show(&sandbox, "old", &[]);
    let manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    all_show(&sandbox, "old", &[]);
    echo("submit --wait", "new");
    all_show(&sandbox, "new", &[]);
    all_show(&sandbox, "old", &["--dir", ".pilotfish"]);
    echo("run", "newer");
    all_show(&sandbox, "newer", &[]);
    echo("run --dir state", "aside");
    all_show(&sandbox, "aside", &[]);
    echo("submit --wait --manager default", "named");
    all_show(&sandbox, "named", &[]);
    sandbox.ok(&["stop", "--manager", "default"]);
    assert_eq!(manager.wait(), Some(0));
    // The store of a manager that has ended is as good.
    all_show(&sandbox, "named", &[]);
    echo("run", "newest");
    all_show(&sandbox, "newest", &[]);
}

#[test]
fn last_is_the_job_that_the_folder_used_last_not_the_newest_one() {
    let sandbox = Sandbox::new();
    let echo = |name: &str, more: &[&str]| {
        let job = ["--name", name, "--", "echo", "{}", ":::", name];
        sandbox.ok(&[&["run", "-q"], more, &job].concat());
    };
    for name in ["a", "b", "a"] {
        echo(name, &[]);
    }
    all_show(&sandbox, "a", &[]);
    all_show(&sandbox, "a", &["--dir", ".pilotfish"]);
    echo("b", &[]);
    all_show(&sandbox, "b", &[]);
    // A workflow that goes on is used, too.
    sandbox.write("flow.yaml", "stages: {one: {command: 'true'}, two: {command: echo two, after: one}}\n");
    sandbox.ok(&["run", "-q", "flow.yaml"]);
    echo("a", &[]);
    sandbox.ok(&["run", "-q", "flow.yaml"]);
    assert_eq!(sandbox.ok(&["logs", "last", "--raw"]), "two\n");
    // A record of an earlier version names no job.
    let records = std::fs::read_dir(sandbox.path().join("home/.pilotfish/.last")).expect("there are records");
    for record in records.map(|record| record.expect("it can be listed").path()) {
        let bytes = std::fs::read(&record).expect("it can be read");
        let manager = bytes.split(|byte| *byte == 0).next().expect("a path");
        std::fs::write(&record, manager).expect("it can be written");
    }
    assert_eq!(sandbox.ok(&["logs", "last", "--raw"]), "two\n");
}

#[test]
fn newest_job_of_a_manager_is_named_in_a_folder_that_used_none() {
    let sandbox = Sandbox::new();
    let _manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    sandbox.ok(&["submit", "-q", "--wait", "--name", "theirs", "--", "echo", "theirs"]);
    let elsewhere = sandbox.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let output =
        sandbox.command(&["logs", "last", "--raw"]).current_dir(&elsewhere).output().expect("it runs");
    assert_eq!(text(&output.stdout), "theirs\n");
    let said = text(&output.stderr);
    assert!(
        said.contains("no job of this folder is known; `last` is the manager's newest one, job 1 (theirs)"),
        "{said}"
    );
    // Where it is known, nothing is said; nor of a manager that is named.
    assert_eq!(text(&sandbox.run(&["logs", "last", "--raw"]).stderr), "");
    let named = &["logs", "last", "--raw", "--manager", "default"];
    let output = sandbox.command(named).current_dir(&elsewhere).output().expect("it runs");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn folder_made_anew_does_not_have_the_last_job_of_a_removed_one() {
    let sandbox = Sandbox::new();
    let _manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    let here = sandbox.path().join("here");
    let said = |arguments: &[&str]| {
        let output = sandbox.command(arguments).current_dir(&here).output().expect("it runs");
        text(&output.stderr)
    };
    std::fs::create_dir(&here).expect("a folder");
    said(&["submit", "-q", "--wait", "--name", "old", "--", "echo", "old"]);
    assert_eq!(said(&["logs", "last", "--raw"]), "");
    std::fs::remove_dir_all(&here).expect("it can be removed");
    std::fs::create_dir(&here).expect("another folder");
    let said = said(&["logs", "last", "--raw"]);
    assert!(said.contains("no job of this folder is known; `last` is the manager's newest one"), "{said}");
}

#[test]
fn another_managers_job_is_not_shown_when_the_last_manager_is_gone() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["run", "-q", "--dir", "state", "--", "echo", "mine"]);
    std::fs::remove_dir_all(sandbox.path().join("state")).expect("it is there");
    let said = refused(&sandbox, &["logs", "last"]);
    assert!(said.contains("which is gone; name the one that is meant with --manager or --dir"), "{said}");
    let elsewhere = sandbox.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let _manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    let other = &["submit", "--wait", "--", "echo", "theirs"];
    assert!(sandbox.command(other).current_dir(&elsewhere).status().expect("it runs").success());
    for command in [&["logs", "last"][..], &["logs", "1"], &["jobs"], &["cancel", "last"]] {
        let said = refused(&sandbox, command);
        let expected = "went to the manager in ./state, which is gone; --manager default means the manager `default`, which is running";
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(sandbox.ok(&["logs", "last", "--raw", "--manager", "default"]), "theirs\n");
    // A run takes no jobs when it is over: they go to the default manager.
    sandbox.ok(&["submit", "-q", "--wait", "--", "echo", "here again"]);
    assert_eq!(sandbox.ok(&["logs", "last", "--raw"]), "here again\n");
}

#[test]
fn another_managers_job_is_not_shown_when_the_last_run_was_removed() {
    let sandbox = with_an_old_run();
    let _manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    let elsewhere = sandbox.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let other = &["submit", "--wait", "--", "echo", "theirs"];
    assert!(sandbox.command(other).current_dir(&elsewhere).status().expect("it runs").success());
    std::fs::remove_dir_all(sandbox.path().join(".pilotfish")).expect("it is there");
    for command in [&["logs", "last"][..], &["export", "last"], &["jobs"], &["cancel", "last"]] {
        let said = refused(&sandbox, command);
        let expected =
            "went to the manager in ./.pilotfish, which is gone; --manager default means the manager";
        assert!(said.contains(expected), "{said}");
    }
    // What is used next is meant from then on.
    sandbox.ok(&["run", "-q", "--name", "new", "--", "echo", "{}", ":::", "new"]);
    all_show(&sandbox, "new", &[]);
}

#[test]
fn repeated_quiet_run_says_why_it_fails() {
    let sandbox = Sandbox::new();
    let failing = ["run", "-q", "--", "false"];
    sandbox.run(&failing);
    let output = sandbox.run(&failing);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("0 of 1 tasks are done, 1 failed or cancelled; --retry-failed runs those again"),
        "{said}"
    );
    sandbox.write("flow.yaml", "stages: {one: {command: 'false'}, two: {command: 'true', after: one}}\n");
    sandbox.run(&["run", "-q", "flow.yaml"]);
    let output = sandbox.run(&["run", "-q", "flow.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains("2 of 2 tasks are over, 2 failed or cancelled; --retry-failed runs those again"),
        "{said}"
    );
    let output = sandbox.run(&["run", "-q", "--retry-failed", "flow.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains(": 0 of 2 tasks are over\n"), "{said}");
    // What is done does not run again: its results are those of before.
    sandbox.ok(&["run", "-q", "--", "true"]);
    let said = text(&sandbox.run(&["run", "-q", "--", "true"]).stderr);
    assert_eq!(said, "pilotfish: going on with job 4: 1 of 1 tasks are done; --fresh runs it again\n");
    sandbox.write("well.yaml", "stages: {one: {command: 'true'}, two: {command: 'true', after: one}}\n");
    sandbox.ok(&["run", "-q", "well.yaml"]);
    let said = text(&sandbox.run(&["run", "-q", "well.yaml"]).stderr);
    assert!(said.contains(": 2 of 2 tasks are over; --fresh runs them again\n"), "{said}");
}

#[test]
fn changes_go_to_the_manager_that_the_last_job_of_the_folder_went_to() {
    let sandbox = with_an_old_run();
    let _manager = serve(&sandbox, DEFAULT, &["--no-local"]);
    sandbox.ok(&["submit", "-q", "--", "true"]);
    sandbox.ok(&["cancel", "last"]);
    assert_eq!(sandbox.json(&["job", "1", "--manager", "default"])["counts"]["cancelled"], 1);
    assert_eq!(sandbox.json(&["job", "1", "--dir", ".pilotfish"])["counts"]["cancelled"], 0);
}

#[test]
fn other_folders_are_not_concerned() {
    let sandbox = with_an_old_run();
    let _manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    let elsewhere = sandbox.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    let mut command = sandbox.command(&["submit", "--wait", "--name", "new", "--", "echo", "new"]);
    assert!(command.current_dir(&elsewhere).status().expect("it runs").success());
    assert_eq!(sandbox.json(&["job", "last"])["name"], "old");
    let output = sandbox.command(&["jobs", "--json"]).current_dir(&elsewhere).output().expect("it runs");
    assert!(text(&output.stdout).contains("\"new\""), "{output:?}");
}

#[test]
fn ambiguity_is_refused_where_nothing_is_known_of_the_last_job() {
    let sandbox = with_an_old_run();
    std::fs::remove_dir_all(sandbox.path().join("home/.pilotfish/.last")).expect("there is a record");
    // One store alone is not ambiguous.
    assert_eq!(sandbox.json(&["job", "last"])["name"], "old");
    let _manager = serve(&sandbox, DEFAULT, &["--no-local"]);
    for command in [&["jobs"][..], &["export", "last"], &["cancel", "last"]] {
        let said = refused(&sandbox, command);
        assert!(said.contains("--dir .pilotfish or --manager default"), "{said}");
    }
    assert_eq!(sandbox.json(&["job", "last", "--dir", ".pilotfish"])["name"], "old");
}

#[test]
fn older_job_is_not_shown_when_the_last_manager_is_gone() {
    let sandbox = with_an_old_run();
    sandbox.ok(&["run", "-q", "--dir", "state", "--", "echo", "new"]);
    std::fs::remove_dir_all(sandbox.path().join("state")).expect("it is there");
    let said = refused(&sandbox, &["export", "last"]);
    assert!(said.contains("went to the manager in ./state, which is gone"), "{said}");
    assert_eq!(sandbox.json(&["job", "last", "--dir", ".pilotfish"])["name"], "old");
}

#[test]
fn submission_is_not_refused_where_nothing_can_be_recorded() {
    let sandbox = with_an_old_run();
    let _manager = serve(&sandbox, "m", &["--cores", "1"]);
    std::fs::remove_dir_all(sandbox.path().join("home/.pilotfish/.last")).expect("there is a record");
    sandbox.write("home/.pilotfish/.last", "a file in the place of the folder");
    let output = sandbox.run(&["submit", "--dir", "m", "--wait", "--", "true"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("commands about this job need its number and --dir"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn operators_stay_operators_where_a_users_access_file_was_used_last() {
    let sandbox = Sandbox::new();
    let manager = serve(&sandbox, DEFAULT, &["--cores", "1", "--allow-shared-account"]);
    sandbox.ok(&["submit", "-q", "--wait", "--name", "mine", "--", "echo", "mine"]);
    sandbox.ok(&["user", "add", "bob", "--to", "bob"]);
    sandbox
        .ok(&["submit", "-q", "--wait", "--dir", "bob", "--name", "bobs", "--", "echo", "{}", ":::", "bobs"]);
    all_show(&sandbox, "bobs", &[]);
    sandbox.ok(&["policies", "set", "matching", "fifo"]);
    sandbox.ok(&["platform", "pause", "local"]);
    sandbox.ok(&["platform", "resume", "local"]);
    all_show(&sandbox, "bobs", &[]);
    // Who names the file means it.
    let refused = sandbox.run(&["policies", "set", "matching", "turns", "--dir", "bob"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("bob is no operator"));
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0));
}

#[test]
fn submissions_and_stops_mean_the_manager_of_the_last_job_too() {
    let sandbox = Sandbox::new();
    let default = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    let other = serve(&sandbox, "m", &["--cores", "1"]);
    let submit = |name: &str, more: &[&str]| {
        let job = ["--name", name, "--", "echo", "{}", ":::", name];
        sandbox.ok(&[&["submit", "-q", "--wait"], more, &job].concat());
    };
    submit("there", &["--dir", "m"]);
    submit("again", &[]);
    all_show(&sandbox, "again", &[]);
    all_show(&sandbox, "again", &["--dir", "m"]);
    // The flags of what is advised lead to the same one.
    sandbox.ok(&["run", "-q", "--", "echo", "old"]);
    submit("there", &["--dir", "m"]);
    let said = text(&sandbox.run(&["submit", "--", "true"]).stderr);
    assert!(said.contains("no manager is running in ./.pilotfish; using the one in ./m"), "{said}");
    sandbox.ok(&["stop"]);
    assert_eq!(other.wait(), Some(0));
    assert_eq!(sandbox.ok(&["jobs", "-q", "--manager", "default"]), "");
    sandbox.ok(&["stop", "--manager", "default"]);
    assert_eq!(default.wait(), Some(0));
}

/// Asserts that what changes a manager leaves the one alone that is named in what is said.
fn all_changes_are_refused(sandbox: &Sandbox, used: &str, other: &str) {
    for arguments in [
        &["stop"][..],
        &["stop", "--now", "-q"],
        &["user", "add", "ann"],
        &["user", "revoke", "ann"],
        &["submit", "-q", "--", "true"],
    ] {
        let output = sandbox.run(arguments);
        let (said, code) = (text(&output.stderr), output.status.code());
        let expected = format!(
            "no manager is running in {used}, where the last job of this folder went; if you mean {other}, which is \
             running, say so with"
        );
        assert!(code == Some(3) && said.contains(&expected), "{arguments:?} {code:?}: {said}");
    }
    assert!(!sandbox.path().join("ann").exists(), "nobody was added");
}

#[test]
fn managers_that_the_folder_did_not_use_last_are_not_changed_in_place_of_the_one_that_it_did() {
    let sandbox = Sandbox::new();
    let submit = ["submit", "-q", "--wait", "--", "echo", "mine"];
    let default = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    let second = serve(&sandbox, "home/.pilotfish/second", &["--cores", "1"]);
    sandbox.ok(&submit);
    sandbox.ok(&["stop"]);
    assert_eq!(default.wait(), Some(0));
    all_changes_are_refused(&sandbox, "~/.pilotfish/default", "the manager `second`");
    // Commands that read mean what they did, and one that is named is meant.
    assert_eq!(sandbox.ok(&["logs", "last", "--raw"]), "mine\n");
    sandbox.ok(&["submit", "-q", "--wait", "--manager", "second", "--", "true"]);
    sandbox.ok(&["stop"]);
    assert_eq!(second.wait(), Some(0));
    // Nor does the default one stand in for another.
    let default = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    all_changes_are_refused(&sandbox, "~/.pilotfish/second", "the manager `default`");
    sandbox.ok(&["stop", "--manager", "default"]);
    assert_eq!(default.wait(), Some(0));
}

#[test]
fn jobs_that_come_after_a_run_go_to_the_default_manager_and_nothing_else_does() {
    let sandbox = Sandbox::new();
    let default = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    for (place, shown) in [(&[][..], "./.pilotfish"), (&["--dir", "state"], "./state")] {
        sandbox.ok(&[&["run", "-q"], place, &["--", "echo", shown]].concat());
        let said = text(&sandbox.run(&["stop"]).stderr);
        let expected =
            format!("no manager is running in {shown}, where the last job of this folder went; if you mean");
        assert!(said.contains(&expected), "{said}");
        let output = sandbox.run(&["submit", "--wait", "--", "true"]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        let expected = format!("no manager is running in {shown}; using the manager `default`");
        assert!(said.contains(&expected), "{said}");
    }
    sandbox.ok(&["stop"]);
    assert_eq!(default.wait(), Some(0));
    // Others are no better than before.
    let _other = serve(&sandbox, "home/.pilotfish/other", &["--cores", "1"]);
    sandbox.ok(&["run", "-q", "--", "echo", "new"]);
    all_changes_are_refused(&sandbox, "./.pilotfish", "the manager `other`");
}

#[test]
fn a_folder_that_was_moved_still_means_the_job_that_it_used_last() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("project")).expect("a folder");
    let ok = |folder: &str, arguments: &[&str]| {
        let mut command = sandbox.command(arguments);
        let output = command.current_dir(sandbox.path().join(folder)).output().expect("pilotfish runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    ok("project", &["run", "-q", "--", "echo", "old"]);
    let manager = serve(&sandbox, DEFAULT, &["--cores", "1"]);
    ok("project", &["submit", "-q", "--wait", "--", "echo", "new"]);
    sandbox.ok(&["stop", "--manager", "default"]);
    assert_eq!(manager.wait(), Some(0));
    std::fs::rename(sandbox.path().join("project"), sandbox.path().join("moved")).expect("it moves");
    assert_eq!(ok("moved", &["logs", "last", "--raw"]), "new\n");
    ok("moved", &["run", "-q", "--", "echo", "newest"]);
    std::fs::rename(sandbox.path().join("moved"), sandbox.path().join("again")).expect("it moves");
    assert_eq!(ok("again", &["logs", "last", "--raw"]), "newest\n");
}

#[test]
fn last_means_all_stages_for_what_is_done_to_all_that_was_submitted() {
    let sandbox = Sandbox::new();
    let _manager = serve(&sandbox, DEFAULT, &["--cores", "2"]);
    let flow = |one: &str| {
        format!(
            "stages:\n  one: {{command: '{one} > f', outputs: [{{from: f, to: one}}]}}\n  \
             two: {{command: 'echo 2 > f', after: one, outputs: [{{from: f, to: two}}]}}\n"
        )
    };
    sandbox.write("flow.yaml", &flow("sleep 600"));
    sandbox.ok(&["submit", "-q", "flow.yaml"]);
    sandbox.ok(&["cancel", "last"]);
    for job in ["1", "2"] {
        assert_eq!(sandbox.json(&["job", job])["counts"]["cancelled"], 1, "job {job}");
    }
    sandbox.write("flow.yaml", &flow("echo 1"));
    sandbox.ok(&["submit", "-q", "flow.yaml"]);
    sandbox.ok(&["wait", "last"]);
    sandbox.ok(&["fetch", "last"]);
    assert_eq!((sandbox.read("one").as_str(), sandbox.read("two").as_str()), ("1\n", "2\n"));
    let output = sandbox.run(&["tasks", "last"]);
    let said = text(&output.stderr);
    assert!(said.contains("`last` is job 4, the last of the workflow's 2 stages, jobs 3 to 4"), "{said}");
}

#[test]
fn what_would_go_on_is_explained_by_the_manager_that_does_not_run() {
    let sandbox = Sandbox::new();
    let manager = serve(&sandbox, DEFAULT, &["--no-local"]);
    sandbox.write("job.yaml", "command: echo 1\n");
    sandbox.ok(&["submit", "-q", "job.yaml"]);
    assert!(!sandbox.ok(&["explain", "job", "1"]).contains("no manager runs"));
    manager.signal(Signal::SIGKILL);
    manager.wait();
    for what in [["explain", "job", "1"], ["explain", "task", "1.0"]] {
        let said = sandbox.ok(&what);
        assert!(
            said.starts_with("no manager runs, so nothing begins; start one with `pilotfish serve"),
            "{said}"
        );
    }
    sandbox.ok(&["run", "-q", "--", "echo", "2"]);
    let over = sandbox.ok(&["explain", "job", "last"]);
    assert!(!over.contains("no manager runs"), "{over}");
}
