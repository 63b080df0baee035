//! Flags and arguments of every command.

use crate::page::Page;

#[test]
fn bad_commands_and_flags_are_explained() {
    let mut page = Page::new("flags");
    page.sandbox.write("job.yaml", "command: [echo, \"{n}\"]\nsweep: {n: [1, 2]}\n");
    page.sandbox.write("flow.yaml", "stages: {one: {command: 'true'}, two: {command: 'true', after: one}}\n");
    let cases: &[(&str, &[&str])] = &[
        ("a command that is none", &["jobz"]),
        ("a flag that is none", &["run", "--core", "2", "job.yaml"]),
        ("a flag without its value", &["run", "job.yaml", "--cores"]),
        ("a flag twice", &["run", "job.yaml", "--cores", "1", "--cores", "2"]),
        ("not a number", &["run", "job.yaml", "--cores", "two"]),
        ("a negative number", &["submit", "job.yaml", "--retries", "-1"]),
        ("a size without unit", &["run", "job.yaml", "--memory", "2"]),
        ("no duration", &["run", "job.yaml", "--time-limit", "soon"]),
        ("no amount", &["run", "job.yaml", "--resource", "licence"]),
        ("no variable", &["run", "job.yaml", "--env", "A"]),
        ("an unknown parameter", &["run", "job.yaml", "--set", "m=1"]),
        ("a parameter without value", &["run", "job.yaml", "--set", "n"]),
        ("no cores at all", &["run", "job.yaml", "-j", "0"]),
        ("more cores than there are", &["run", "job.yaml", "--cores", "100000"]),
        ("a resource that is not here", &["run", "job.yaml", "--resource", "licence=1"]),
        ("more memory than there is", &["run", "job.yaml", "--memory", "900TiB"]),
        ("an offer of nothing", &["run", "job.yaml", "--offer", "licence=many"]),
        ("flags that exclude each other", &["run", "job.yaml", "--fresh", "--retry-failed"]),
        ("a task beyond the last", &["check", "job.yaml", "--task", "2"]),
        ("a task and a number of tasks", &["check", "job.yaml", "--task", "1", "--limit", "1"]),
        ("a task of several jobs", &["check", "flow.yaml", "--task", "1"]),
        ("a number of tasks of several jobs", &["check", "flow.yaml", "--limit", "0"]),
        ("neither file nor command", &["run"]),
        ("file and command", &["run", "job.yaml", "--", "echo"]),
        ("a command without --", &["run", "echo", "hello"]),
        ("lines for a job file", &["run", "job.yaml", "--each-line", "x"]),
        ("serve: no address", &["serve", "--host", "localhost:80"]),
        ("serve: no port", &["serve", "--port", "70000"]),
        ("serve: no such TLS", &["serve", "--tls", "maybe"]),
        ("serve: no cores", &["serve", "--cores", "0"]),
        ("serve: no pilots", &["serve", "--pilots-max", "0"]),
        ("serve: a name that is none", &["serve", "--name", "../x"]),
        ("serve: name and folder", &["serve", "--name", "x", "--dir", "y"]),
        ("serve: no such file", &["serve", "--config", "no.yaml"]),
        ("tasks: no such state", &["tasks", "1", "--state", "broken"]),
        ("logs: one stream or the other", &["logs", "1", "--stdout", "--stderr"]),
        ("export: no such form", &["export", "1", "--format", "xlsx"]),
        ("export: no file", &["export", "1", "-o", ".."]),
        ("export: a name that says no form", &["export", "1", "-o", "d.xyz"]),
        ("export: a name without an end", &["export", "1", "-o", "table"]),
        ("tasks: failed ones in another state", &["tasks", "1", "--failed", "--state", "done"]),
        ("wait: no job", &["wait"]),
        ("wait: no duration", &["wait", "1", "--timeout", "10"]),
        ("explain: nothing of the kind", &["explain", "node", "1"]),
        ("status: folder and manager", &["status", "--dir", "x", "--manager", "y"]),
        ("completions: no such shell", &["completions", "cmd"]),
        ("schema: of nothing", &["schema", "task"]),
        ("check: a task before the first", &["check", "job.yaml", "--task", "-1"]),
        ("serve: fewer cores than none", &["serve", "--cores", "-1"]),
        ("simulate: a seed below 0", &["simulate", "--faults", "--seed", "-1"]),
        ("simulate: fewer seeds than none", &["simulate", "--faults", "--seeds", "-1"]),
        ("agent: no join document", &["agent", "run"]),
        ("agent: no duration", &["agent", "run", "--join", "x", "--walltime", "4"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    assert!(!page.sandbox.path().join(".pilotfish").exists(), "`run` has begun something");
    page.close();
}

#[test]
fn bad_selectors_are_explained() {
    let mut page = Page::new("selectors");
    let cases: &[(&str, &[&str])] = &[
        ("a word that is near", &["job", "lsat"]),
        ("a name", &["tasks", "docking"]),
        ("a negative number", &["cancel", "--", "-1"]),
        ("the wrong way round", &["wait", "5-1"]),
        ("a hole in a list", &["jobs", "1,,2"]),
        ("tasks of several jobs", &["cancel", "1-2.3"]),
        ("no task behind the point", &["logs", "3."]),
        ("a number beyond all numbers", &["job", "99999999999999999999"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.close();
}
