//! Files of several jobs: what they mean, and what is said of those that mean nothing.

use std::fmt::Write;

use super::folder;
use crate::job::{JobFile, OnSpec, load_file_text};

/// The stages of a file with what they come after and their first tasks, or its problems.
fn told(yaml: &str) -> String {
    let folder = folder();
    let mut text = String::new();
    match load_file_text(yaml, "flow.yaml", folder.path()) {
        Ok(JobFile::Job(spec)) => writeln!(text, "one job {}", spec.name).unwrap(),
        Ok(JobFile::Workflow(workflow)) => {
            let (n_tasks, n_edges) = (workflow.n_tasks(), workflow.n_edges());
            writeln!(
                text,
                "{}: {n_tasks} tasks, {n_edges} edges, longest path {}",
                workflow.name,
                workflow.critical_path()
            )
            .unwrap();
            for stage in &workflow.stages {
                let job = stage.job.compile().unwrap();
                write!(text, "{} ({}), {} cores:", stage.job.name, job.n_tasks(), stage.job.cores).unwrap();
                for after in &stage.after {
                    let on = match after.on {
                        OnSpec::Stage(at) => workflow.stages[at].name.clone(),
                        OnSpec::Job(job) => format!("job {job}"),
                    };
                    write!(text, " after {on} {}", serde_json::to_string(&after.edges).unwrap()).unwrap();
                }
                writeln!(text).unwrap();
                for index in 0..job.n_tasks().min(3) {
                    writeln!(text, "  {}", job.task(1, index).argv.join(" ")).unwrap();
                }
            }
            assert_eq!(workflow.validate(), []);
            let json = serde_json::to_string(&workflow).unwrap();
            assert_eq!(serde_json::from_str::<crate::job::WorkflowSpec>(&json).unwrap(), workflow);
        }
        Err(problems) => problems.iter().for_each(|problem| writeln!(text, "{problem}").unwrap()),
    }
    text.replace(&folder.path().display().to_string(), "/base")
}

#[test]
fn stages_come_after_each_other_by_rules() {
    let text = told(
        "
name: flow
resources: {cores: 2}
stages:
  make: {command: [make, \"{n}\"], sweep: {n: {range: [1, 10]}}}
  work: {command: [work, \"{n}\"], sweep: {n: {range: [1, 10]}}, after: {stage: make, tasks: same}, resources: {cores: 1}}
  merge: {command: [merge, \"{first}\", \"{last}\"], reduce: {stage: work, every: 4}}
  end: {command: [end], reduce: merge, on_failed_dependency: run}
  late: {command: [late], after: [make, {job: 7}]}
",
    );
    insta::assert_snapshot!(text);
}

#[test]
fn tasks_wait_for_those_that_make_their_files() {
    let text = told(
        "
tasks:
  - {name: split, command: [./dock.sh, \"a b\"], outputs: [x, y]}
  - {name: left, command: wc x > left, inputs: x, outputs: left}
  - {name: right, command: [work, y], inputs: [./y], outputs: [right], resources: {cores: 4}}
  - {name: join, command: cat left right, inputs: [left, right, seeds.txt], after: split}
",
    );
    insta::assert_snapshot!(text);
}

#[test]
fn what_a_task_needs_too_much_of_is_told_with_its_line() {
    let tasks = [
        "{name: a, command: x}",
        "{name: b, command: x, resources: {memory: 2PiB}}",
        "{name: c, command: x, time_limit: 1000d}",
    ];
    let said = told(&format!("tasks:\n- {}\n", tasks.join("\n- ")));
    for expected in [
        "flow.yaml:3: tasks[1].resources.memory: found 2PiB; at most 1PiB are allowed",
        "flow.yaml:4: tasks[2].time_limit: found 1000d; at most 366d are allowed",
    ] {
        assert!(said.contains(expected), "{expected} in {said}");
    }
}

#[test]
fn files_of_several_jobs_that_mean_nothing_are_explained() {
    let cases = [
        "stages: {}",
        "stages: [a]",
        "stages: {a: {command: [x], after: b}}",
        "stages: {make: {command: [x]}, b: {command: [x], after: mkae}}",
        "stages:\n  a: {command: [x], after: c}\n  b: {command: [x], after: a}\n  c: {command: [x], after: b}",
        "stages:\n  a: {command: [x, \"{n}\"], sweep: {n: [1, 2, 3]}}\n  b: {command: [x], after: {stage: a, tasks: same}}",
        "stages:\n  a: {command: [x]}\n  b: {command: [x], after: {stage: a, tasks: some}}",
        "stages:\n  a: {command: [x]}\n  b: {command: [x], sweep: {n: [1]}, reduce: a}",
        "stages:\n  a: {command: [x], reduce: {stage: b, every: 2}}\n  b: {command: [x], reduce: {stage: a, every: 2}}",
        "stages: {a: {command: [x], after: {job: 3, tasks: groups}}}",
        "time_limit: 600\nstages:\n  a: {command: [x]}\n  b: {command: [x]}",
        "stages:\n  a: {command: [x, \"{n}\"]}",
        "command: [x]\nstages: {a: {command: [x]}}",
        "stages: {a: {command: [x]}}\ntasks: [{name: a, command: x}]",
        "command: [x]\nafter: 3",
        "command: [x]\nafter: foo",
        "command: [x]\nreduce: foo",
        "tasks: []",
        "tasks: [{command: x}]",
        "tasks: [{name: a, command: x}, {name: a, command: x}]",
        "tasks: [{name: a, command: x, after: b}]",
        "tasks:\n  - {name: a, command: x, inputs: [c]}\n",
        "tasks:\n  - {name: a, command: x, outputs: [c]}\n  - {name: b, command: x, outputs: [./c]}",
        "tasks:\n  - {name: a, command: x, inputs: [z], outputs: [x]}\n  - {name: b, command: x, inputs: [x], outputs: [y]}\n  - {name: c, command: x, inputs: [y], outputs: [z]}",
    ];
    let mut text = String::new();
    for case in cases {
        let quoted: String = case.lines().map(|line| format!("    {line}\n")).collect();
        writeln!(text, "{quoted}{}", told(case)).unwrap();
    }
    insta::assert_snapshot!(text);
}
