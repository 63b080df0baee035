//! Inputs and outputs of job files, and what is said of those that cannot be.

use super::{folder, shown};
use crate::job::{load_file_text, load_job_text};

/// What is said of a job of one task with these fields, without what would be right.
fn said(fields: &str) -> String {
    let folder = folder();
    let text = shown(folder.path(), &format!("command: [echo]\n{fields}\n"));
    let told = |line: &str| line.split_once("; ").map_or(line, |(found, _)| found).to_owned();
    text.lines().map(told).collect::<Vec<_>>().join("\n")
}

const FINE: &str = "1 tasks of job (echo)\n0: echo";

#[test]
fn one_file_need_not_be_a_list() {
    let folder = folder();
    let job = |yaml: &str| load_job_text(yaml, "job.yaml", folder.path()).unwrap();
    for (one, list) in [
        ("outputs: o", "outputs: [o]"),
        ("outputs: {from: o, to: p}", "outputs: [{from: o, to: p}]"),
        ("outputs: 7", "outputs: [7]"),
        ("inputs: receptor.pdbqt", "inputs: [receptor.pdbqt]"),
        ("inputs: {from: receptor.pdbqt, to: r}", "inputs: [{from: receptor.pdbqt, to: r}]"),
    ] {
        assert_eq!(
            job(&format!("command: [echo]\n{one}")),
            job(&format!("command: [echo]\n{list}")),
            "{one}"
        );
    }
    assert_eq!(
        said("outputs: {form: o}").lines().next(),
        Some("job.yaml:2: outputs.form: found an unknown field")
    );
    assert_eq!(said("inputs: ../x"), "job.yaml:2: inputs[0].to: found `../x`");
}

#[test]
fn a_program_that_an_input_brings_is_looked_for_in_the_folder_of_the_task() {
    let folder = folder();
    let argv = |fields: &str| -> Result<Vec<String>, String> {
        let text = format!("command: [./tool]\n{fields}\n");
        let job = load_job_text(&text, "job.yaml", folder.path());
        let job = job.map_err(|problems| problems[0].to_string())?;
        Ok(job.compile().map_err(|problems| problems[0].to_string())?.task(1, 0).argv)
    };
    let brought = "inputs: [{from: receptor.pdbqt, to: tool}]";
    assert_eq!(argv(brought), Ok(vec!["./tool".to_owned()]));
    let refused =
        "job.yaml:1: command[0]: found no program `./tool`; relative paths start from the job file's folder";
    assert_eq!(argv("inputs: receptor.pdbqt").unwrap_err(), refused);
    assert_eq!(argv("").unwrap_err(), refused);
}

#[test]
fn outputs_within_outputs_are_refused_unless_they_are_the_same_files() {
    for (fields, expected) in [
        ("outputs: [r, r/b]", "job.yaml:2: outputs[1].from: found `r/b` in `r`, a file of outputs[0]"),
        ("outputs: [r/b, r]", "job.yaml:2: outputs[0].from: found `r/b` in `r`, a file of outputs[1]"),
        (
            "outputs: [a/r, {from: a/r/b/c, to: x}]",
            "job.yaml:2: outputs[1].from: found `a/r/b/c` in `a/r`, a file of outputs[0]",
        ),
        ("outputs: [r, r/]", "job.yaml:2: outputs[1].from: found `r/` in `r`, a file of outputs[0]"),
        (
            "outputs: [r, \"r/*.txt\"]",
            "job.yaml:2: outputs[1].from: found `r/*.txt` in `r`, a file of outputs[0]",
        ),
        (
            "outputs: [{from: a, to: out}, {from: b, to: out/b}]",
            "job.yaml:2: outputs[1]: found `out/b` beside `out`, of outputs[0]",
        ),
        (
            "outputs: [{from: b, to: out/b}, {from: a, to: out}]",
            "job.yaml:2: outputs[1]: found `out` beside `out/b`, of outputs[0]",
        ),
        (
            "outputs: [{from: a, to: out}, {from: r/, to: out}]",
            "job.yaml:2: outputs[1]: found `out/**` beside `out`, of outputs[0]",
        ),
        (
            "outputs: [{from: r/, to: out}, {from: b, to: out/b}]",
            "job.yaml:2: outputs[1].to: found `b` to where outputs[0] brings `r/b`",
        ),
        (
            "outputs: [{from: \"r/*.txt\", to: out}, {from: r/c.txt, to: out/b.txt}]",
            "job.yaml:2: outputs[1].to: found `r/c.txt` to where outputs[0] brings `r/b.txt`",
        ),
        // The same file to the same place is one, and whoever wants to be sure of a file in a folder names it.
        ("outputs: [r/, r/b]", FINE),
        ("outputs: [{from: r/, to: out}, {from: r/b, to: out/b}]", FINE),
        ("outputs: [{from: r/, to: out}, {from: r/b, to: summary}]", FINE),
        ("outputs: [{from: \"r/*.txt\", to: out}, {from: b.dat, to: out/b.dat}]", FINE),
        ("outputs: [r, rb, r.b/c]", FINE),
    ] {
        assert_eq!(said(fields).trim_end(), expected, "{fields}");
    }
    let swept = "sweep: {n: [a, a/b]}\noutputs: [{from: o, to: \"{n}\"}]";
    assert_eq!(said(swept), "job.yaml:3: outputs[0]: found `a/b` beside `a`, of task 0");
}

#[test]
fn names_of_files_are_lines_for_inputs_and_outputs_alike() {
    for (fields, expected) in [
        ("outputs: [\"a\\nb\"]", "job.yaml:2: outputs[0].from: found `a\\nb`"),
        ("outputs: [{from: a, to: \"x/\\r\"}]", "job.yaml:2: outputs[0].to: found `x/\\r`"),
        ("outputs: [\"a\\nb/\"]", "job.yaml:2: outputs[0].from: found `a\\nb/`"),
        ("outputs: [{from: a, to: \"file:///x/a\\nb\"}]", "job.yaml:2: outputs[0].to: found `/x/a\\nb`"),
        ("inputs: [{from: receptor.pdbqt, to: \"a\\nb\"}]", "job.yaml:2: inputs[0].to: found `a\\nb`"),
    ] {
        assert_eq!(said(fields), expected, "{fields}");
    }
}

#[test]
fn places_that_there_are_not_are_told_with_their_line_and_unknown_values_beget_none() {
    for (fields, expected) in [
        ("outputs: \"http://h/x\"", "job.yaml:2: outputs[0].to: found the scheme http://"),
        (
            "outputs: [{from: a, to: file:x}]",
            "job.yaml:2: outputs[0].to: found the scheme file: without `//`",
        ),
        ("inputs: file:x", "job.yaml:2: inputs[0].from: found the scheme file: without `//`"),
        ("inputs: {from: \"gs://b/x\", to: x}", "job.yaml:2: inputs[0].from: found the scheme gs://"),
        (
            "sweep: {f: {files: none/*.x}}\noutputs:\n  - {from: a, to: \"file://{f.parent}/{f.stem}\"}\n  \
             - {from: b, to: \"file://h/{f}\"}\n  - {from: c, to: \"http://h/c\"}",
            "job.yaml:2: sweep.f.files: found no file that matches `none/*.x`\n\
             job.yaml:6: outputs[2].to: found the scheme http://",
        ),
    ] {
        assert_eq!(said(fields), expected, "{fields}");
    }
    let of_tasks = "workdir: scratch\ntasks:\n  - {name: a, command: x, outputs: [\"http://h/x\", .pilotfish/y]}\n  \
                    - {name: b, command: x, inputs: [\"http://h/x\"]}\n";
    let problems = load_file_text(of_tasks, "job.yaml", folder().path()).unwrap_err();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let below = "tasks have no folder in common here: a path below the file's folder is right";
    let expected = [
        format!("job.yaml:3: tasks[0].outputs: found `http://h/x`; {below}"),
        "job.yaml:3: tasks[0].outputs: found `.pilotfish/y`; nothing is brought to the folder of a manager: give it \
         another name"
            .to_owned(),
        format!("job.yaml:4: tasks[1].inputs: found `http://h/x`; {below}"),
    ];
    assert_eq!(lines, expected);
}
