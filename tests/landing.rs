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

/// `p` and `q` both leave `out/f`, with what they are called in it, and `q` leaves `out/g` too.
const STAGES: &str = "stages:
  p: {command: 'mkdir d; echo p > d/f', workdir: scratch, outputs: [{from: d/, to: out}]}
  q: {command: 'mkdir d; echo q > d/f; echo q > d/g', workdir: scratch, outputs: [{from: d/, to: out}]}
  r: {command: 'echo r > h', workdir: scratch, after: q, outputs: [h]}
";

#[test]
fn file_that_a_stage_has_left_is_not_overwritten_by_that_of_another_stage() {
    let sandbox = Sandbox::new();
    sandbox.write("flow.yaml", STAGES);
    let words = "out/f of task 2.0: task 1.0 has left one of that name; `pilotfish fetch 2.0 --to FOLDER`";
    let whole = |output: &Output| said(output).split_whitespace().collect::<Vec<_>>().join(" ");
    let checked = whole(&sandbox.run(&["check", "flow.yaml"]));
    let doubt = "warning: flow.yaml:3: stages.q.outputs[0]: `out/**` may leave a file of the same name as `out/**` of stage \
                 `p`; ";
    assert!(checked.contains(doubt), "{checked}");
    // The second time nothing runs; `--overwrite` is about files of others.
    for args in [&["run", "flow.yaml"][..], &["run", "flow.yaml"], &["run", "--overwrite", "flow.yaml"]] {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {}", said(&output));
        assert!(
            whole(&output).contains(&format!("1 file not written: {words}")),
            "{args:?}: {}",
            whole(&output)
        );
        assert_eq!((sandbox.read("out/f"), sandbox.read("out/g")), ("p\n".into(), "q\n".into()));
        assert_eq!(sandbox.read("h"), "r\n", "the stages behind it come home, too");
    }
    for what in ["2", "2.0"] {
        let output = sandbox.run(&["fetch", what, "--overwrite"]);
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        assert!(whole(&output).contains(words), "{}", whole(&output));
    }
    sandbox.ok(&["fetch", "1"]);
    assert_eq!(sandbox.read("out/f"), "p\n");
    fs::create_dir(sandbox.path().join("there")).expect("a folder");
    let refused = sandbox.run(&["fetch", "2.0", "--to", "nowhere"]);
    let told = "there is no folder `nowhere`; make it, or name another with --to";
    assert!(refused.status.code() == Some(2) && said(&refused).contains(told), "{}", said(&refused));
    sandbox.ok(&["fetch", "2.0", "--to", "there"]);
    assert_eq!(sandbox.read("there/out/f"), "q\n");
    // Another workflow is another job: it may replace what this one has left, and not its own.
    sandbox.write("flow.yaml", &STAGES.replace("echo", "echo new"));
    let output = sandbox.run(&["run", "flow.yaml"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        whole(&output).contains("out/f of task 5.0: task 4.0 has left one of that name"),
        "{}",
        whole(&output)
    );
    assert_eq!((sandbox.read("out/f"), sandbox.read("h")), ("new p\n".into(), "new r\n".into()));
}

#[test]
fn file_that_a_stage_has_left_is_not_overwritten_when_stages_are_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.write("flow.yaml", STAGES);
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "2"]));
    let output = sandbox.run(&["submit", "--wait", "flow.yaml"]);
    let told = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        told.contains("1 file not written: out/f of task 2.0: task 1.0 has left one of that name"),
        "{told}"
    );
    assert_eq!((sandbox.read("out/f"), sandbox.read("h")), ("p\n".into(), "r\n".into()));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn file_that_a_task_has_left_is_not_overwritten_by_that_of_another_task_of_the_job() {
    let sandbox = Sandbox::new();
    // Task 1 waits for task 0 in that there is one core.
    sandbox.write(
        "job.yaml",
        r#"command: 'echo {s} > "part-{s}-x.txt"; [ {s} != 1 ] || echo one > part-1-2-x.txt; echo same > "part-{s}-2-same.txt"; [ {s} = 1 ] || mv part-1-2-2-same.txt part-1-2-same.txt'
sweep: {s: ["1", "1-2"]}
workdir: scratch
resources: {cores: 1}
outputs: ["part-{s}-*.txt"]
"#,
    );
    let checked = text(&sandbox.run(&["check", "job.yaml"]).stderr);
    let doubt = "outputs[0]: `part-1-2-*.txt` of task 1 may leave a file of the same name as `part-1-*.txt` of task 0; ";
    assert!(checked.split_whitespace().collect::<Vec<_>>().join(" ").contains(doubt), "{checked}");
    let output = sandbox.run(&["run", "-j", "1", "job.yaml"]);
    let told = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(3), "{told}");
    // The other name of both has the same in both.
    let words = "1 file not written: part-1-2-x.txt of task 1.1: task 1.0 has left one of that name";
    assert!(told.contains(words), "{told}");
    assert_eq!(
        (sandbox.read("part-1-x.txt"), sandbox.read("part-1-2-x.txt")),
        ("1\n".into(), "one\n".into())
    );
    assert_eq!(sandbox.read("part-1-2-same.txt"), "same\n");
    let fetched = sandbox.run(&["fetch", "1", "--json"]);
    assert_eq!(fetched.status.code(), Some(3));
    let fetched: serde_json::Value = serde_json::from_slice(&fetched.stdout).expect("JSON");
    assert_eq!(
        (&fetched["n_files"], &fetched["n_same"], &fetched["n_refused"]),
        (&0.into(), &4.into(), &1.into())
    );
}

#[test]
fn task_that_runs_again_replaces_its_own_file() {
    let sandbox = Sandbox::new();
    let command = "echo {n} $(cat ../../version) > o; [ {n} = 1 ] || [ -e ../../ok ] || exit 1";
    let command = command.replace("../..", &sandbox.path().display().to_string());
    sandbox.write("version", "old");
    sandbox.write(
        "job.yaml",
        &format!("command: '{command}'\nsweep: {{n: [1, 2]}}\nworkdir: scratch\noutputs: [{{from: o, to: 'o{{n}}'}}]\n"),
    );
    assert_eq!(sandbox.run(&["run", "job.yaml"]).status.code(), Some(1));
    assert_eq!(sandbox.read("o1"), "1 old\n");
    sandbox.write("ok", "");
    sandbox.write("version", "new");
    sandbox.ok(&["run", "--retry-failed", "job.yaml"]);
    assert_eq!((sandbox.read("o1"), sandbox.read("o2")), ("1 old\n".into(), "2 new\n".into()));
    for version in ["newer", "newest"] {
        sandbox.write("version", version);
        sandbox.ok(&["run", "--fresh", "job.yaml"]);
        assert_eq!(sandbox.read("o1"), format!("1 {version}\n"));
    }
}

#[test]
fn files_that_two_tasks_have_left_in_one_place_that_nodes_see_are_told() {
    let sandbox = Sandbox::new();
    let shared = sandbox.path().join("shared");
    fs::create_dir(&shared).expect("a folder");
    let stage = |name: &str| {
        format!(
            "  {name}: {{command: 'mkdir d; echo {name} > d/f', workdir: scratch, outputs: [{{from: d/, to: 'file://{}'}}]}}\n",
            shared.display()
        )
    };
    sandbox.write("flow.yaml", &format!("stages:\n{}{}", stage("p"), stage("q")));
    let output = sandbox.run(&["run", "flow.yaml"]);
    let told = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("/shared/f of task 2.0: task 1.0 has left one of that name there"), "{told}");
}
