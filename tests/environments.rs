//! What tasks are told: the rows of a table, an environment each.

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
