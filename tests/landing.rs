//! Files of jobs come home only to where they may: declared, through no links, over nothing that others have put there,
//! and those of other users' jobs only to a folder that is named.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Output,
};

use tests::{Sandbox, text};

const JOB: &str = "command: 'echo result-{n} > out.txt'\nworkdir: scratch\nsweep: {n: [1, 2, 3]}\n\
                   outputs: [{from: out.txt, to: 'res/{n}.txt'}]\n";

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_file_of_the_users_is_not_replaced_unless_asked_and_the_others_come() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path().join("res")).expect("a folder");
    sandbox.write("res/2.txt", "mine\n");
    sandbox.write("job.yaml", JOB);
    let output = sandbox.run(&["run", "job.yaml"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("3 done"), "the tasks are reported: {}", said(&output));
    let words = "1 file not written: res/2.txt of task 1.1: ";
    assert!(said(&output).contains(words) && said(&output).contains("--overwrite"), "{}", said(&output));
    assert_eq!(sandbox.read("res/2.txt"), "mine\n");
    assert_eq!(
        (sandbox.read("res/1.txt"), sandbox.read("res/3.txt")),
        ("result-1\n".into(), "result-3\n".into())
    );
    sandbox.ok(&["run", "job.yaml", "--overwrite"]);
    assert_eq!(sandbox.read("res/2.txt"), "result-2\n");
    // What was brought is replaced by what another job leaves there.
    sandbox.write("job.yaml", &JOB.replace("result", "better"));
    sandbox.ok(&["run", "job.yaml"]);
    assert_eq!(sandbox.read("res/2.txt"), "better-2\n");
    // And not what was changed since.
    sandbox.write("res/2.txt", "better, by hand\n");
    sandbox.write("job.yaml", &JOB.replace("result", "best"));
    let output = sandbox.run(&["run", "job.yaml"]);
    assert!(said(&output).contains("was changed since it was brought"), "{}", said(&output));
    assert_eq!(sandbox.read("res/2.txt"), "better, by hand\n");
}

#[test]
fn nothing_comes_through_a_link() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", JOB);
    fs::create_dir(sandbox.path().join("elsewhere")).expect("a folder");
    symlink(sandbox.path().join("elsewhere"), sandbox.path().join("res")).expect("a link");
    let output = sandbox.run(&["run", "job.yaml"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("res is a link, and files are not brought through links"),
        "{}",
        said(&output)
    );
    assert_eq!(fs::read_dir(sandbox.path().join("elsewhere")).expect("the folder").count(), 0);
    // The folder itself may be one.
    fs::create_dir(sandbox.path().join("elsewhere/home")).expect("a folder");
    symlink(sandbox.path().join("elsewhere/home"), sandbox.path().join("linked")).expect("a link");
    sandbox.ok(&["fetch", "1", "--to", "linked"]);
    assert_eq!(sandbox.read("elsewhere/home/res/3.txt"), "result-3\n");
}

#[test]
fn files_of_another_users_job_go_only_to_a_folder_that_is_named() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", JOB);
    let manager = sandbox.serve(sandbox.command(&["serve", "-q"]));
    // Others than operators do not get them at all.
    sandbox.ok(&["user", "add", "ann", "--operator"]);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    fs::remove_dir_all(sandbox.path().join("res")).expect("they are there");
    let output = sandbox.run(&["fetch", "1", "--dir", "ann"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("name a folder for its files with --to"), "{}", said(&output));
    assert!(!sandbox.path().join("res").exists());
    fs::create_dir(sandbox.path().join("look")).expect("a folder");
    sandbox.ok(&["fetch", "1", "--dir", "ann", "--to", "look"]);
    assert_eq!(sandbox.read("look/res/1.txt"), "result-1\n");
    sandbox.ok(&["stop", "-q"]);
    assert_eq!(manager.wait(), Some(0));
}

/// So many come in packs.
#[test]
fn many_small_files_come_home_as_few_do() {
    let sandbox = Sandbox::new();
    let job = "command: 'mkdir -p r/a r/b; for n in $(seq 50); do echo VERSION-$n > r/a/$n; echo same > r/b/$n; done; \
               chmod 0755 r/a/7'\nworkdir: scratch\noutputs: [{from: r/, to: res}]\n";
    fs::create_dir_all(sandbox.path().join("res/a")).expect("a folder");
    sandbox.write("res/a/2", "mine\n");
    sandbox.write("res/a/3", "first-3\n");
    sandbox.write("job.yaml", &job.replace("VERSION", "first"));
    let output = sandbox.run(&["run", "job.yaml"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("1 file not written: res/a/2 of task 1.0: "), "{}", said(&output));
    assert!(said(&output).contains("fetched 98 files"), "{}", said(&output));
    assert!(said(&output).contains("1 file there already"), "{}", said(&output));
    assert_eq!(sandbox.read("res/a/2"), "mine\n");
    let is_right = |version: &str, n: u32| sandbox.read(&format!("res/a/{n}")) == format!("{version}-{n}\n");
    assert!((1..=50).filter(|n| *n != 2).all(|n| is_right("first", n)));
    assert!((1..=50).all(|n| sandbox.read(&format!("res/b/{n}")) == "same\n"));
    for folder in ["res/a", "res/b"] {
        let entries = fs::read_dir(sandbox.path().join(folder)).expect("the folder");
        for entry in entries.map(|entry| entry.expect("an entry")) {
            let mode = entry.metadata().expect("its facts").permissions().mode();
            let name = entry.file_name();
            assert_eq!(mode & 0o100 != 0, folder == "res/a" && name == "7", "{folder} {name:?}");
        }
        assert_eq!(fs::read_dir(sandbox.path().join(folder)).expect("the folder").count(), 50);
    }
    // What was brought is replaced by a later version, and the user's file when that is asked for.
    sandbox.write("job.yaml", &job.replace("VERSION", "second"));
    sandbox.ok(&["run", "job.yaml", "--overwrite"]);
    assert!((1..=50).all(|n| is_right("second", n)));
}
