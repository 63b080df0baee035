//! Jobs that are right and cannot run: what is said of their tasks, and where results cannot go.

use std::fs::File;

use tests::text;

use crate::page::Page;

#[test]
fn tasks_that_cannot_run_say_why() {
    let mut page = Page::new("tasks");
    page.sandbox.write("taken", "a file\n");
    let cases: &[(&str, &str)] = &[
        ("a program that only tasks know", "name: x\ncommand: [\"{p}\"]\nsweep: {p: [no-such-program]}\n"),
        ("a program that is none", "name: x\ncommand: [\"{p}\"]\nsweep: {p: [/etc/passwd]}\n"),
        ("a folder where a file is", "name: x\ncommand: [\"true\"]\nworkdir: {path: taken/here}\n"),
        ("output into a file as a folder", "name: x\ncommand: [echo]\nstdio: {stdout: taken/out.txt}\n"),
        ("output to where nobody may write", "name: x\ncommand: [echo]\nstdio: {stdout: /proc/out.txt}\n"),
        ("input that is not there", "name: x\ncommand: [cat]\nstdio: {stdin: no.txt}\n"),
        ("a program that takes too long", "name: x\ncommand: [sleep, \"1000\"]\ntime_limit: 100ms\n"),
        ("a program that fails", "name: x\ncommand: 'echo no input >&2; exit 3'\n"),
        ("a program that kills itself", "name: x\ncommand: 'kill -SEGV $$'\n"),
    ];
    for (title, yaml) in cases {
        page.sandbox.write("job.yaml", yaml);
        page.ends(title, &["run", "job.yaml", "--fresh", "-q"], 1);
    }
    page.close();
}

#[test]
fn programs_that_are_not_here_are_told_of_before_anything_runs() {
    let mut page = Page::new("programs");
    page.refuses("a program that is not here", &["run", "--", "no-such-program", "x"]);
    page.refuses("a program that is not there", &["run", "--", "/bin/no-such-program"]);
    page.refuses("a program that is none", &["run", "--", "/etc/passwd"]);
    assert!(!page.sandbox.path().join(".pilotfish").exists(), "`run` has begun something");
    page.ends("a program that nodes may have", &["check", "--", "no-such-program"], 0);
    page.ends("a dry run of one", &["submit", "--dry-run", "--", "no-such-program"], 0);
    page.ends(
        "a shell line is not looked into",
        &["run", "-q", "--", "no-such-program 2>/dev/null || true"],
        0,
    );
    // What a stage that waits runs may be made by one before it.
    let stages = "stages:\n  a: {command: no-such-program x, stdio: {stdin: no.txt}}\n  \
        b: {command: [no-such-other], after: a}\n  c: {command: ./made x, after: a, stdio: {stdin: made.txt}}\n";
    page.sandbox.write("flow.yaml", stages);
    let checked = page.sandbox.run(&["check", "-q", "flow.yaml"]);
    let said = text(&checked.stderr);
    assert!(checked.status.success() && said.lines().count() == 3, "{said}");
    for told in [
        "warning: stages.a.command: program `no-such-program` is in no folder of PATH here; tasks need it where they run",
        "no.txt` does not exist here; tasks need it where they run",
        "warning: stages.b.command: program `no-such-other` is in no folder of PATH here; tasks need it where they run",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    page.close();
}

#[test]
fn results_that_cannot_be_written_say_why() {
    let mut page = Page::new("results");
    page.sandbox.ok(&["run", "-q", "--", "echo", "{}", ":::", "a", "b"]);
    let full = || File::options().write(true).open("/dev/full").expect("a full device");
    page.fails("into a folder that is not there", &["export", "1", "-o", "no/x.csv"]);
    page.fails("over a folder", &["export", "1", "-f", "csv", "-o", "home"]);
    page.fails("to where nobody may write", &["export", "1", "-o", "/proc/x.csv"]);
    let commands: &[(&str, &[&str])] = &[
        ("a full device takes no CSV", &["export", "1"]),
        ("a full device takes no JSON Lines", &["export", "1", "-f", "jsonl"]),
        ("a full device takes no Parquet", &["export", "1", "-f", "parquet"]),
        ("a full device takes no outputs", &["logs", "1.0"]),
        ("a full device takes no table", &["jobs"]),
        ("a full device takes no schema", &["schema", "job"]),
        ("a full device takes no help", &["run", "--help"]),
    ];
    for (title, arguments) in commands {
        page.to(title, arguments, full(), 3);
    }
    page.close();
}
