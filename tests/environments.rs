//! What tasks are told: the rows of a table, an environment each.

use std::{
    fs::File,
    process::{Command, Stdio},
};

use tests::Sandbox;

const N_ROWS: usize = 1_000;
/// What a shell, a template or a table might take for something else.
const AWKWARD: [&str; 6] =
    ["plain", "two  words", "a,b", "say \"hi\"", "$HOME `x` \\", "Zürich {1} {{row}} #"];

#[test]
fn each_task_has_the_environment_of_its_row() {
    let sandbox = Sandbox::new();
    let value = |row: usize| format!("{} {row}", AWKWARD[row % AWKWARD.len()]);
    let cell = |text: String| format!("\"{}\"", text.replace('"', "\"\""));
    let rows: String = (0..N_ROWS).map(|row| format!("{row},{}\n", cell(value(row)))).collect();
    sandbox.write("rows.csv", &format!("row,value\n{rows}"));
    let job = "command: [sh, -c, 'printf \"%s=%s\\n\" \"$ROW\" \"$VALUE\"']\n\
               sweep: {csv: {file: rows.csv}}\n\
               env: {ROW: \"{row}\", VALUE: \"{value}\"}\n";
    sandbox.write("job.yaml", job);
    sandbox.ok(&["run", "-q", "job.yaml"]);
    let told = sandbox.ok(&["logs", "last", "--raw"]);
    let expected: Vec<String> = (0..N_ROWS).map(|row| format!("{row}={}", value(row))).collect();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_file_may_come_by_standard_input_and_what_is_there_is_not_passed_over() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", "command: echo {x}\nsweep: {x: [1, 2]}\n");
    sandbox.write("values", "1\n2\n");
    let run = |words: &[&str], stdin: &str| {
        let file = File::open(sandbox.path().join(stdin)).expect("it is there");
        // A pipe, as shells make them.
        let mut cat = Command::new("cat").stdin(file).stdout(Stdio::piped()).spawn().expect("it starts");
        let pipe = cat.stdout.take().expect("it is piped");
        let output = sandbox.command(words).stdin(pipe).output().expect("it runs");
        cat.wait().expect("it ends");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), said)
    };
    for file in ["-", "/dev/stdin"] {
        let (code, said) = run(&["run", "-q", file], "job.yaml");
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(sandbox.ok(&["logs", "last", "--raw"]), "1\n2\n");
    }
    let (code, said) = run(&["check"], "job.yaml");
    assert!(code == Some(2) && said.contains("standard input that is not read"), "{said}");
    let (code, said) = run(&["check", "--", "echo", "hello"], "values");
    assert!(code == Some(0) && said.contains("warning: standard input is not read"), "{said}");
    let (code, said) = run(&["check", "--each-line", "-", "--", "echo"], "values");
    assert!(code == Some(0) && !said.contains("warning") && said.contains("tasks      2"), "{said}");
}
