//! What tasks write: followed while they run, kept when they are ended, within a job's budget.

use std::fs;

use nix::sys::{signal::Signal, stat::Mode};
use tests::{Running, Sandbox, signal_pid, text, until};

fn serve(sandbox: &Sandbox) -> Running {
    sandbox.serve(sandbox.command(&["serve", "--cores", "2"]))
}

/// Waits in a shell until there is a file of that name.
fn waits_for(file: &str) -> String {
    format!("while ! test -e {file}; do sleep 0.02; done")
}

fn counts(sandbox: &Sandbox, job: &str) -> serde_json::Value {
    sandbox.json(&["job", job])["counts"].clone()
}

fn shows(sandbox: &Sandbox, file: &str, what: &str) {
    until(&format!("{file} shows {what:?}"), || sandbox.read(file).contains(what));
}

#[test]
fn a_running_task_is_followed_line_by_line_to_its_exit_code() {
    let sandbox = Sandbox::new();
    let line = |n: u32| format!("echo line {n}; {}", waits_for(&format!("go-{n}")));
    let command = format!("{}; {}; {}; echo oops >&2; exit 3", line(1), line(2), line(3));
    sandbox.write("job.yaml", &format!("name: slow\ncommand: '{command}'\n"));
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    let follower = sandbox.start("follow", &["logs", "1.0", "--follow"]);
    for n in 1..=3 {
        shows(&sandbox, "follow.out", &format!("line {n}\n"));
        let so_far: String = (1..=n).map(|n| format!("line {n}\n")).collect();
        assert_eq!(sandbox.read("follow.out"), so_far);
        until("it still runs", || counts(&sandbox, "1")["running"] == 1);
        sandbox.write(&format!("go-{n}"), "");
    }
    assert_eq!(follower.wait(), Some(0));
    assert_eq!(sandbox.read("follow.out"), "line 1\nline 2\nline 3\n", "each line once");
    let told = sandbox.read("follow.err");
    assert!(told.starts_with("oops\n") && told.contains("task 1.0 has failed: exit code 3"), "{told}");
    // Afterwards it is the same, and nobody waits.
    assert_eq!(sandbox.ok(&["logs", "1.0", "-f"]), "line 1\nline 2\nline 3\n");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_named_pipe_as_input_fails_its_task_and_holds_up_no_other() {
    let sandbox = Sandbox::new();
    nix::unistd::mkfifo(&sandbox.path().join("pipe"), Mode::S_IRWXU).expect("a pipe");
    sandbox.write("bad.yaml", "name: bad\ncommand: [cat]\nstdio: {stdin: pipe}\n");
    sandbox.write("good.yaml", "name: good\ncommand: 'echo {n}'\nsweep: {n: {range: [1, 20]}}\n");
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "bad.yaml"]);
    sandbox.ok(&["submit", "good.yaml"]);
    until("the other job is done", || counts(&sandbox, "2")["done"] == 20);
    until("the task has failed", || counts(&sandbox, "1")["failed"] == 1);
    let task = sandbox.ok(&["task", "1.0"]);
    let words = format!("standard input {:?} is a named pipe; name a file", sandbox.path().join("pipe"));
    assert!(task.contains(&words), "{task}");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn many_tasks_are_followed_each_with_its_name_also_as_json() {
    let sandbox = Sandbox::new();
    let command = format!("echo begin {{n}}; {}; printf \"end {{n}}\"; echo oh >&2", waits_for("go"));
    sandbox.write(
        "job.yaml",
        &format!(
            "name: many\ncommand: '{command}'\nsweep: {{n: {{range: [1, 4]}}}}\nresources: {{cores: 1}}\n"
        ),
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    let follower = sandbox.start("follow", &["logs", "1", "--follow"]);
    let of_one = sandbox.start("one", &["logs", "1.1", "--follow", "--stdout"]);
    let as_json = sandbox.start("json", &["logs", "1", "--follow", "--json"]);
    shows(&sandbox, "follow.out", "1.0 | begin 1\n");
    shows(&sandbox, "follow.out", "1.1 | begin 2\n");
    shows(&sandbox, "one.out", "begin 2\n");
    shows(&sandbox, "json.out", "begin 1");
    until("that nothing of running tasks is shown is said", || {
        let said = text(&sandbox.run(&["logs", "1"]).stderr);
        said.contains("running tasks nothing is shown: `pilotfish logs 1 --follow` shows")
    });
    let interrupted = sandbox.start("interrupted", &["logs", "1", "--follow"]);
    shows(&sandbox, "interrupted.out", "begin 1");
    interrupted.signal(Signal::SIGINT);
    assert_eq!((interrupted.wait(), sandbox.read("interrupted.err")), (Some(130), String::new()));
    sandbox.write("go", "");
    for follower in [follower, of_one, as_json] {
        assert_eq!(follower.wait(), Some(0));
    }
    let mut lines: Vec<String> = sandbox.read("follow.out").lines().map(str::to_owned).collect();
    lines.sort();
    let of = |n: u64| {
        [format!("1.{n} stderr | oh"), format!("1.{n} | begin {}", n + 1), format!("1.{n} | end {}", n + 1)]
    };
    let mut expected: Vec<String> = (0..4).flat_map(of).collect();
    expected.sort();
    assert_eq!(lines, expected);
    assert!(sandbox.read("follow.err").contains("job 1 is done"), "{}", sandbox.read("follow.err"));
    assert_eq!(sandbox.read("one.out"), "begin 2\nend 2");
    let values: Vec<serde_json::Value> =
        sandbox.read("json.out").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of_third = values.iter().filter(|value| value["index"] == 2 && value["stream"] == "stdout");
    let written: String = of_third.filter_map(|value| value["written"]["text"].as_str()).collect();
    assert_eq!(written, "begin 3\nend 3");
    assert_eq!(
        values.last().map(|last| (&last["is_over"], &last["state"])),
        Some((&true.into(), &"done".into()))
    );
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn following_goes_on_when_manager_and_agent_are_killed() {
    let sandbox = Sandbox::new();
    let command = format!(
        "echo life >> lives; echo begin $(wc -l < lives); {}; echo more; {}",
        waits_for("go-1"),
        waits_for("go-2")
    );
    sandbox.write("job.yaml", &format!("name: slow\ncommand: '{command}'\ncrash_limit: 100\n"));
    let mut manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    let follower = sandbox.start("follow", &["logs", "1", "--follow"]);
    shows(&sandbox, "follow.out", "begin 1\n");
    manager.signal(Signal::SIGKILL);
    manager.wait();
    sandbox.write("go-1", "");
    manager = serve(&sandbox);
    shows(&sandbox, "follow.out", "1.0 | begin 1\n1.0 | more\n");
    sandbox.agents().into_iter().for_each(|pid| signal_pid(pid, Signal::SIGKILL));
    // It runs again, and what it writes then is told apart.
    shows(&sandbox, "follow.out", "1.0 | begin 2\n1.0 | more\n");
    sandbox.write("go-2", "");
    assert_eq!(follower.wait(), Some(0));
    let shown = sandbox.read("follow.out");
    assert_eq!(
        shown, "1.0 | begin 1\n1.0 | more\n1.0 | begin 2\n1.0 | more\n",
        "each line of each life once"
    );
    assert!(sandbox.read("follow.err").contains("begins again"), "{}", sandbox.read("follow.err"));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn what_was_written_stays_when_tasks_are_cancelled_or_take_too_long() {
    let sandbox = Sandbox::new();
    sandbox.write("cancelled.yaml", "name: cancelled\ncommand: 'echo before; sleep 1000'\n");
    sandbox
        .write("long.yaml", "name: long\ncommand: 'echo before; echo too >&2; sleep 1000'\ntime_limit: 4s\n");
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "cancelled.yaml"]);
    let follower = sandbox.start("follow", &["logs", "1.0", "--follow"]);
    // A task that is cancelled is over at once, before its last words are here.
    shows(&sandbox, "follow.out", "before\n");
    sandbox.ok(&["cancel", "1"]);
    assert_eq!(follower.wait(), Some(0));
    until("what it wrote is kept", || sandbox.run(&["logs", "1.0"]).stdout == b"before\n");
    assert!(!sandbox.run(&["submit", "--wait", "long.yaml"]).status.success());
    let output = sandbox.run(&["logs", "2.0"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("before\n".into(), "too\n".into()));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn what_was_written_stays_when_the_pilots_walltime_ends() {
    let sandbox = Sandbox::new();
    let platform = "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 1, walltime: 4s}]\n";
    sandbox.write("manager.yaml", &format!("{platform}limits: {{walltime_margin: 1s}}\n"));
    sandbox.write("job.yaml", "name: long\ncommand: 'echo before; echo too >&2; sleep 1000'\n");
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    // Of running tasks nothing is shown so: it is what the first pilot has told.
    until("what it wrote is kept", || sandbox.run(&["logs", "1.0"]).stdout == b"before\n");
    assert_eq!(text(&sandbox.run(&["logs", "1.0"]).stderr), "too\n");
    assert!(sandbox.ok(&["task", "1.0"]).contains("walltime"), "{}", sandbox.ok(&["task", "1.0"]));
    until("the pilot has left", || sandbox.ok(&["pilots", "--all"]).contains("its walltime ended"));
    sandbox.ok(&["stop", "--now"]);
    manager.wait();
}

#[test]
fn of_failed_tasks_alone_is_shown_what_they_wrote_where_that_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "job.yaml",
        "name: half\ncommand: 'echo out {n}; echo err {n} >&2; test {n} = 1'\nsweep: {n: [1, 2]}\n",
    );
    let manager = serve(&sandbox);
    assert_eq!(sandbox.run(&["submit", "--wait", "job.yaml"]).status.code(), Some(1));
    let shown = |arguments: &[&str]| sandbox.ok(&[&["logs"], arguments].concat());
    let (out, err) = ("==> 1.1 stdout <==\nout 2\n", "==> 1.1 stderr <==\nerr 2\n");
    assert_eq!(shown(&["1", "--failed"]), format!("{out}{err}"));
    assert_eq!(shown(&["1", "--failed", "--stderr"]), err);
    assert_eq!(shown(&["1", "--failed", "--stdout", "--raw"]), "out 2\n");
    let rows = sandbox.json(&["logs", "1", "--failed"]);
    assert_eq!(rows, serde_json::json!([{"index": 1, "stdout": "out 2\n", "stderr": "err 2\n"}]));
    let of_done = sandbox.run(&["logs", "1.0", "--failed"]);
    assert_eq!(of_done.stdout, b"", "it has not failed");
    assert!(text(&of_done.stderr).contains("the failed tasks of job 1 left no such output"));
    for (command, told) in
        [("true", "no task of job 2 has failed"), ("false", "the failed tasks of job 3 left no")]
    {
        sandbox.run(&["submit", "--wait", "--", command]);
        let said = text(&sandbox.run(&["logs", "last", "--failed"]).stderr);
        assert!(said.contains(told), "{said}");
    }
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_budget_for_output_bounds_what_is_kept_and_nothing_else() {
    let sandbox = Sandbox::new();
    // Of 500 bytes each, so that some four fit.
    sandbox.write(
        "job.yaml",
        "name: much\ncommand: 'printf %0500d 7'\nsweep: {n: {range: [1, 40]}}\nresults: {budget: 2KiB, extract: {seven: '(7)'}}\n",
    );
    let mut manager = serve(&sandbox);
    for command in [&["submit", "--wait", "job.yaml"][..], &["wait", "1"], &["export", "1"]] {
        let said = sandbox.run(command);
        assert!(said.status.success(), "{}", text(&said.stderr));
        let warned = text(&said.stderr);
        let warning = "warning: the output budget of job 1 (2.0 KiB, results.budget) is used up";
        assert!(warned.contains(warning), "{command:?}: {warned}");
    }
    assert_eq!(counts(&sandbox, "1")["done"], 40, "no task suffers");
    let told_of = |sandbox: &Sandbox| {
        let output = sandbox.run(&["logs", "1", "--raw"]);
        let (kept, told) = (output.stdout.len(), text(&output.stderr));
        assert!((1500..2500).contains(&kept), "{kept} bytes are kept");
        assert_eq!(told.matches("is used up").count(), 1, "{told}");
        let unkept = (0..40).filter(|n| {
            let one = sandbox.run(&["logs", &format!("1.{n}")]);
            text(&one.stderr).contains("the job's budget for output (2.0 KiB, results.budget) is used up")
        });
        assert!((35..=37).contains(&unkept.count()));
        assert!(sandbox.ok(&["job", "1"]).contains("used up"), "{}", sandbox.ok(&["job", "1"]));
        assert!(
            sandbox.ok(&["explain", "job", "1"]).contains("results.budget"),
            "{}",
            sandbox.ok(&["explain", "job", "1"])
        );
    };
    told_of(&sandbox);
    manager.signal(Signal::SIGKILL);
    manager.wait();
    manager = serve(&sandbox);
    told_of(&sandbox);
    // What comes after a restart finds no room either.
    sandbox.write("again.yaml", "name: within\ncommand: [echo, '{n}']\nsweep: {n: {range: [1, 3]}}\n");
    let again = sandbox.run(&["submit", "--wait", "again.yaml"]);
    assert!(again.status.success() && !text(&again.stderr).contains("budget"), "{}", text(&again.stderr));
    assert_eq!(sandbox.ok(&["logs", "2", "--raw"]), "1\n2\n3\n", "another job has its own");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn values_that_a_cut_output_leaves_in_doubt_are_absent_and_it_is_said() {
    let sandbox = Sandbox::new();
    // The number is cut; the first match is in the gap; it is in the beginning; all is kept.
    sandbox.write(
        "job.yaml",
        r#"name: much
command: |
  x() { head -c $1 /dev/zero | tr '\0' x; }
  case {n} in
    1) x 494; echo v=123456; x 900 | tr x 7;;
    2) x 900; echo v=1; x 900; echo; echo v=2;;
    3) echo v=3; x 2000; echo; echo v=4;;
    4) echo v=5;;
  esac
sweep: {n: {range: [1, 4]}}
results: {limit: 1kB, extract: {v: 'v=(\d+)', ours: '(\d+) bytes'}}
"#,
    );
    let warning = "warning: 3 tasks of job 1 wrote more than results.limit (1000 B): values of results.extract may be \
        missing from them; raise `results: {limit: 64MiB}`";
    let manager = serve(&sandbox);
    for command in
        [&["submit", "--wait", "job.yaml"][..], &["wait", "1"], &["export", "1", "--format", "csv"]]
    {
        let said = sandbox.run(command);
        assert!(said.status.success(), "{}", text(&said.stderr));
        let warned = text(&said.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(warned.contains(warning), "{command:?}: {warned}");
    }
    let table = sandbox.ok(&["export", "1", "--format", "csv"]);
    let values: Vec<Vec<&str>> =
        table.lines().map(|line| line.rsplitn(3, ',').take(2).collect::<Vec<_>>()).collect();
    assert_eq!(values, [["ours", "v"], ["", ""], ["", ""], ["", "3"], ["", "5"]], "{table}");
    let words = |args: &[&str]| sandbox.ok(args).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&["job", "1"]).contains("3 tasks of job 1 wrote more than results.limit"));
    assert!(
        words(&["explain", "job", "1"])
            .contains("3 tasks of it wrote more than is kept (1000 B, results.limit)")
    );
    assert!(words(&["tasks", "1"]).contains("3 tasks here wrote more than is kept (results.limit): values of results.extract may be missing from them (0, 1, 2)"));
    assert!(words(&["task", "1.0"]).contains("the task wrote more than is kept (results.limit)"));
    assert!(
        words(&["explain", "task", "1.1"]).contains("it wrote more than is kept (1000 B, results.limit)")
    );
    for whole in [words(&["task", "1.3"]), words(&["explain", "task", "1.3"])] {
        assert!(!whole.contains("more than is kept"), "{whole}");
    }
    sandbox.ok(&["stop"]);
    manager.wait();
    let sandbox = Sandbox::new();
    // The same of the limit that holds when a job says none, in one process.
    sandbox.write(
        "run.yaml",
        "command: |\n  head -c 524283 /dev/zero | tr '\\0' x; echo v=123456; head -c 900000 /dev/zero | tr '\\0' 7\n\
         results: {extract: {v: 'v=(\\d+)'}}\n",
    );
    let said = sandbox.run(&["run", "run.yaml"]);
    let warned = text(&said.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(warned.contains("1 task of job 1 wrote more than results.limit (1.0 MiB)"), "{warned}");
    assert_eq!(sandbox.json(&["tasks", "1"])[0]["extracted"]["v"], serde_json::Value::Null);
}

/// Files of a folder and below it.
fn n_files(folder: &std::path::Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { n_files(&entry.path()) } else { 1 }).sum()
}

#[test]
fn output_of_many_tasks_takes_few_files() {
    let sandbox = Sandbox::new();
    let manager = serve(&sandbox);
    let folder = sandbox.path().join("home/.pilotfish/default");
    let job = "name: many\ncommand: [echo, '{n}']\nsweep: {n: {range: [1, 3000]}}\n";
    sandbox.write("job.yaml", job);
    let before = n_files(&folder);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    // Three files of the store, however many tasks; a few of the pilot.
    assert!(n_files(&folder) <= before + 8, "{before} files became {}", n_files(&folder));
    let out = sandbox.ok(&["logs", "1", "--raw"]);
    assert_eq!(out.lines().count(), 3000);
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn what_a_killed_pilots_tasks_had_written_is_on_its_disk() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", "name: slow\ncommand: 'if test -e second; then exit 0; fi; echo so far; sleep 1000'\ncrash_limit: 9\n");
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    let pilots = sandbox.path().join("home/.pilotfish/default/pilots");
    let folders = || fs::read_dir(&pilots).into_iter().flatten().flatten().map(|entry| entry.path());
    let shown = || -> String {
        let all = folders().map(|folder| sandbox.run(&["agent", "output", &folder.to_string_lossy()]));
        all.map(|output| text(&output.stdout)).collect()
    };
    until("it is on the disk while the task runs", || shown().contains("so far"));
    assert_eq!(shown(), "==> 1.0 attempt 1 stdout <==\nso far\n");
    sandbox.write("second", "");
    // The worker first: without its guard it would end in order.
    let agents = sandbox.agents();
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        agents.iter().rev().for_each(|pid| signal_pid(*pid, signal));
    }
    until("another pilot has done it", || counts(&sandbox, "1")["done"] == 1);
    assert_eq!(shown(), "==> 1.0 attempt 1 stdout <==\nso far\n", "it is there after the kill");
    sandbox.ok(&["stop"]);
    manager.wait();
}
