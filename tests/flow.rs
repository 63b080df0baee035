//! Files that flow from task to task through the manager, with real managers and pilots that share no folder.

use std::fs;

use nix::sys::signal::Signal;
use tests::{Running, Sandbox, signal_pid, text, until};

fn end(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

fn n_done(sandbox: &Sandbox, job: &str) -> u64 {
    let job = sandbox.json(&["job", job]);
    assert_eq!(job["counts"]["failed"], 0, "{job}\n{}", sandbox.ok(&["tasks", "last", "--failed"]));
    job["counts"]["done"].as_u64().expect("a number")
}

/// A manager with two pilots of one core.
fn serve(sandbox: &Sandbox) -> Running {
    sandbox.write(
        "manager.yaml",
        "platforms: [{name: here, adapter: local, cores: 1, pilots_min: 2, pilots_max: 2, walltime: 1h}]\n",
    );
    sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]))
}

const N: usize = 24;

/// What a task of the first stage makes.
fn made(n: usize) -> String {
    (1..=2000).map(|line| format!("{n} {line}\n")).collect()
}

#[test]
fn three_stages_hand_files_on_while_agents_and_managers_are_killed() {
    let sandbox = Sandbox::new();
    sandbox.write("work/salt.txt", "salt\n");
    sandbox.write(
        "work/flow.yaml",
        &format!(
            "crash_limit: 100
stages:
  make:
    command: 'seq 1 2000 | sed \"s/^/{{n}} /\" > out.txt'
    sweep: {{n: {{range: [1, {N}]}}}}
    outputs: [{{from: out.txt, to: \"made/{{n}}.txt\"}}]
  turn:
    command: 'cat salt.txt in.txt | tac > out.txt'
    sweep: {{n: {{range: [1, {N}]}}}}
    after: {{stage: make, tasks: same}}
    inputs: [salt.txt, {{from: \"stage:make/made/{{n}}.txt\", to: in.txt}}]
    outputs: [{{from: out.txt, to: \"turned/{{n:03}}.txt\"}}]
  join:
    command: 'ls parts > names.txt && cat parts/* > all.txt'
    reduce: {{stage: turn, every: 10}}
    inputs: [{{from: \"stage:turn/turned/*.txt\", to: parts}}]
    outputs: [{{from: all.txt, to: \"joined/{{first}}-{{last}}.txt\"}}, {{from: names.txt, to: \"names/{{first}}\"}}]
"
        ),
    );
    let mut manager = serve(&sandbox);
    let shown = sandbox.ok(&["check", "work/flow.yaml"]);
    assert!(shown.contains("takes turned/*.txt of turn") && shown.contains("brings 1 file"), "{shown}");
    sandbox.ok(&["submit", "work/flow.yaml"]);
    // Nobody sees the submitter's folder from now on.
    fs::rename(sandbox.path().join("work"), sandbox.path().join("away")).expect("it is moved");
    until("two pilots are there", || sandbox.json(&["pilots"]).as_array().is_some_and(|all| all.len() == 2));
    until("some of it has run", || n_done(&sandbox, "2") > 3);
    signal_pid(sandbox.agents()[0], Signal::SIGKILL);
    until("more has run", || n_done(&sandbox, "2") > N as u64 / 2);
    manager.signal(Signal::SIGKILL);
    manager.wait();
    manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["wait", "1-3"]);
    assert_eq!(["1", "2", "3"].map(|job| n_done(&sandbox, job)), [N as u64, N as u64, 3]);
    fs::rename(sandbox.path().join("away"), sandbox.path().join("work")).expect("it is moved back");
    sandbox.ok(&["fetch", "3"]);
    let turned = |n: usize| -> String {
        format!("salt\n{}", made(n)).lines().rev().map(|line| format!("{line}\n")).collect()
    };
    for (first, last) in [(0, 9), (10, 19), (20, N - 1)] {
        let names: String = (first..=last).map(|n| format!("{:03}.txt\n", n + 1)).collect();
        assert_eq!(sandbox.read(&format!("work/names/{first}")), names);
        let all: String = (first..=last).map(|n| turned(n + 1)).collect();
        assert!(sandbox.read(&format!("work/joined/{first}-{last}.txt")) == all, "{first} to {last}");
    }
    assert!(!sandbox.path().join("work/made").exists(), "nobody fetched it");
    end(&sandbox, manager);
}

#[test]
fn tasks_without_a_common_folder_give_each_other_their_files_in_one_process() {
    let sandbox = Sandbox::new();
    let tasks = [
        "{name: join, command: 'cat left right > all/it && ls > seen', inputs: [left, right], outputs: [all/it, seen]}",
        "{name: left, command: 'cp split left', inputs: split, outputs: left}",
        "{name: right, command: 'cat split seed > right', inputs: [split, ./seed], outputs: right, time_limit: 1m}",
        "{name: split, command: [./tool, split], inputs: tool, outputs: split}",
    ];
    sandbox.write("work/seed", "seed\n");
    let tool = sandbox.write("work/tool", "#!/bin/sh\necho x > \"$1\"\n");
    fs::set_permissions(tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a program");
    let list: String = tasks.iter().map(|task| format!("  - {task}\n")).collect();
    let list = list.replace("cat left right > all/it", "mkdir all && cat left right > all/it");
    sandbox.write("work/flow.yaml", &format!("workdir: scratch\ntasks:\n{list}"));
    sandbox.ok(&["run", "-q", "work/flow.yaml"]);
    assert_eq!(sandbox.read("work/all/it"), "x\nx\nseed\n");
    assert_eq!(sandbox.read("work/seen"), "all\nleft\nright\nseen\n", "nothing else is in its folder");
    assert!(sandbox.processes().is_empty());
}

#[test]
fn what_may_be_missing_is_and_many_files_come_in_pages() {
    const N_MANY: usize = 1100;
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        &format!(
            "stages:
  make:
    command: 'echo {{n}} > out; test {{n}} -gt 3 || echo more > more'
    sweep: {{n: {{range: [1, {N_MANY}]}}}}
    outputs: [{{from: out, to: \"made/{{n}}\"}}, {{from: more, to: \"more/{{n}}\", optional: true}}]
  fail:
    command: 'false'
    outputs: [gone]
  count:
    command: 'cat made/* | sort -n | cksum > sum; ls more > more.txt; test ! -e gone'
    after: [make, fail]
    on_failed_dependency: run
    inputs: [\"stage:make/made/*\", \"stage:make/more/?\", {{from: stage:fail/gone, optional: true}}]
    outputs: [sum, more.txt]
"
        ),
    );
    let output = sandbox.run(&["run", "-q", "flow.yaml"]);
    assert_eq!(output.status.code(), Some(1), "one has failed: {}", text(&output.stderr));
    let numbers: String = (1..=N_MANY).map(|n| format!("{n}\n")).collect();
    sandbox.write("numbers", &numbers);
    let sum = std::process::Command::new("sh")
        .args(["-c", "cksum < numbers"])
        .current_dir(sandbox.path())
        .output()
        .expect("a sum");
    assert_eq!((sandbox.read("sum"), sandbox.read("more.txt")), (text(&sum.stdout), "1\n2\n3\n".to_owned()));
}

#[test]
fn files_that_cannot_come_are_refused_before_anything_is_submitted() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        "stages:\n  a: {command: x, outputs: [out]}\n  b:\n    command: x\n    after: a\n    inputs: [stage:a/in]\n",
    );
    for command in ["check", "run", "submit"] {
        let output = sandbox.run(&[command, "flow.yaml"]);
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        let expected = "flow.yaml:6: stages.b.inputs[0]: `in` is left by no task that b waits for; stage `a` leaves `out`";
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn groups_have_the_same_parameters_and_outputs_may_be_patterns_and_folders() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        "stages:
  mc:
    command: 'for k in 1 2; do echo {seed} > part$k.txt; done; mkdir -p res/in; echo {lam} > res/in/lam; touch other'
    sweep: {seed: {range: [1, 4]}, lam: [1, 2, 3]}
    outputs: [{from: \"part*.txt\", to: \"mc/{lam}/{seed}\"}, {from: res/, to: \"res/{lam}-{seed}\"}]
  mean:
    command: 'cat mc/{lam}/*/* | wc -l | tee n; ls mc'
    sweep: {lam: [3, 1, 2]}
    after: {stage: mc, tasks: groups}
    inputs: [\"stage:mc/mc/{lam}/**\"]
    outputs: [{from: n, to: \"mean/{lam}\"}]
",
    );
    sandbox.ok(&["run", "-q", "flow.yaml"]);
    assert_eq!(sandbox.ok(&["logs", "2", "--raw"]), "8\n3\n8\n1\n8\n2\n");
    let home = |name: &str| fs::read_to_string(sandbox.path().join(name)).expect("it came home");
    assert_eq!([home("mc/2/4/part2.txt"), home("res/3-1/in/lam"), home("mean/1")], ["4\n", "3\n", "8\n"]);
    assert!(!sandbox.path().join("mc/2/4/other").exists());
    // A pattern that means other groups' files, too, says something else than `after`.
    let wide = home("flow.yaml").replace("stage:mc/mc/{lam}/**", "stage:mc/mc/*/**");
    for (wide, verb) in [(wide.replace("from: \"part*.txt\"", "from: part1.txt"), "also"), (wide, "may also")]
    {
        sandbox.write("wide.yaml", &wide);
        let output = sandbox.command(&["check", "wide.yaml"]).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let expected = format!("wide.yaml:10: stages.mean.inputs[0]: `mc/*/**` {verb} match");
        assert!(said.contains(&expected), "{said}");
    }
}
