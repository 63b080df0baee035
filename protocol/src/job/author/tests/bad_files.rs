//! Everything that can be wrong with a job file, and what its author is told.

use std::fmt::Write;

use super::{folder, shown};
use crate::job::{Problem, limits, load_job_file, load_lines};

/// What is said of each of some job files, after the file itself.
fn told(cases: &[&str]) -> String {
    let folder = folder();
    let mut text = String::new();
    for case in cases {
        let told = shown(folder.path(), case);
        let quoted: String = case.lines().map(|line| format!("    {line}\n")).collect();
        writeln!(text, "{quoted}{told}").unwrap();
    }
    text
}

/// What is said of job files that only have a wrong sweep.
fn told_of_sweeps(sweeps: &[&str]) -> String {
    let cases: Vec<String> =
        sweeps.iter().map(|sweep| format!("command: [echo]\nsweep:\n  {sweep}")).collect();
    told(&cases.iter().map(String::as_str).collect::<Vec<_>>())
}

/// What is said of job files that only have one wrong field.
fn told_of_fields(fields: &[&str]) -> String {
    let cases: Vec<String> = fields.iter().map(|field| format!("command: [echo]\n{field}")).collect();
    told(&cases.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn what_is_not_yaml_is_explained() {
    let text = told(&[
        "",
        "# only a comment",
        "- a\n- b",
        "just text",
        "command: [echo]\n\tname: x",
        "command: [echo]\nsweep:\n\tx: [1]",
        "command: [echo",
        "command: [echo]\nenv: {A: 1",
        "command: \"echo",
        "command: echo a: b",
        "command: [echo]\nname: x\nname: y",
        "command: [echo]\nsweep:\n  x: [1]\n  y: [2]\n  x: [3]",
        "command: [echo]\nsweep: {f: {files: *.txt}}",
        "command: [echo]\nname: @home",
        "command: [echo]\n name: x",
        "command: [echo]\nname",
        "command: [echo]\n---\ncommand: [echo]",
        "command: &a [*a]",
        "command: [echo]\nname: !secret x",
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn fields_of_another_form_are_explained() {
    let text = told(&[
        "name: x",
        "comand: [echo]\ntime-limit: 10m\nquux: 1",
        "script: echo\nwalltime: 10m\nneeds: prepare\nresources: {mem: 2GiB, cpus: 2}",
        "command:",
        "command: []",
        "command: \"\"",
        "command: 3",
        "command: {run: echo}",
        "command: [\"\"]",
        "command: [echo, {seed}]\nsweep: {seed: [1]}",
        "command: [echo, [a]]",
        "command: [echo, ~]",
        "command: [echo, \"a\\0b\"]",
        "command: [./missing.sh]",
        "command: [./plain.sh]",
        "command: [./ligands]",
        "command: echo {x}\nsweep: {x: [1, 2, 3]}\nresults: {files: 5}\nstdio: {stdout: \"o/{x}\", stderr: \"e/{x}\"}",
    ]);
    insta::assert_snapshot!(text);
    let fields = told_of_fields(&[
        "name:",
        "name: \"\"",
        "name: \"a\\nb\"",
        "name: [a]",
        "env: [A=1]",
        "env: {A: , PILOTFISH_JOB_ID: 3, \"B=C\": 1}",
        "workdir: runs",
        "workdir: {paths: x}",
        "workdir: {path: \"\"}",
        "resources: 4",
        "resources: {cores: -1, memory: 2, gpus: many, mem: 2GiB}",
        "resources: {cores: 1.5, memory: -2GiB, generic: {licence: x}}",
        "resources: {cores: 0, memory: 2 Gigs}",
        "resources: {cores: 100000, memory: 9000PiB}",
        "resources: {cores: \"4\"}",
        "time_limit: 600",
        "time_limit: soon",
        "time_limit: 10 parsecs",
        "time_limit: 0s",
        "time_limit: 1000d",
        "priority: high",
        "priority: 99999999999",
        "retries: 1001",
        "retries: {delay: 5s}",
        "retries: {count: -1, delay: 5}",
        "success_codes: 0",
        "success_codes: []",
        "success_codes: [0, 256, -1, ok]",
        "crash_limit: 0",
        "max_failures: -1",
        "stdio: archve",
        "stdio: {stdout: discrad, stdin: archive, sterr: x}",
        "results: {keep: fialed, limit: 0, extract: {a: \"(\"}}",
        "results: {limit: 1TiB, kept: all}",
        "results: {budget: 0}",
        "results: {files: some}",
        "stdio: discard\nresults: {extract: {a: b}}",
        "resident: yes",
        "resident: true\nstdio: {stdin: a.txt}",
    ]);
    insta::assert_snapshot!("fields_of_another_form", fields);
}

#[test]
fn a_task_on_several_nodes_is_refused_in_words() {
    let text = told(&["command: [echo]\nresources: {nodes: 2, cores: 4}", "command: [echo]\nnodes: 2"]);
    assert_eq!(text.matches("a task runs on one node").count(), 2, "{text}");
    assert!(text.contains("job.yaml:2: resources.nodes: found an unknown field; a task runs"), "{text}");
}

#[test]
fn what_has_another_place_is_explained() {
    let text = told(&["command: [cat, a.txt]\ninputs: [\"no-such-folder/*\"]"]);
    assert!(
        text.contains("/no-such-folder/*`: no such file; patterns are for `outputs` and for files of stages"),
        "{text}"
    );
}

#[test]
fn an_environment_that_cannot_be_taken_along_is_explained() {
    let text = told(&[
        "command: [echo]\nenv_from: all",
        "command: [echo]\nenv_from: [PILOTFISH_NOT_SET_ANYWHERE]",
        "command: [echo]\nenv_from: 3",
    ]);
    assert_eq!(text.matches("write none, submit or a list of names").count(), 2, "{text}");
    assert!(text.contains("job.yaml:2: env_from[0]: `PILOTFISH_NOT_SET_ANYWHERE` is not set here"), "{text}");
}

#[test]
fn sweeps_that_make_no_sense_are_explained() {
    let text = told_of_sweeps(&[
        "- x",
        "x:",
        "x: 3",
        "x: []",
        "x: {list: []}",
        "x: ligands/*.pdbqt",
        "x: {file: a.txt}",
        "x: {list: [1], range: [1, 2]}",
        "x: [1, [2], ~]",
        "x: {range: 10}",
        "x: {range: [1]}",
        "x: {range: [1, 10, 0]}",
        "x: {range: [10, 1]}",
        "x: {range: [1, 10, -1]}",
        "x: {range: [0.5, 2]}",
        "x: {range: [a, 2]}",
        "x: {range: [1, 99999999999999999999]}",
        "x: {range: [-9223372036854775808, 9223372036854775807]}",
        "x: {linspace: [0, 1]}",
        "x: {linspace: [0, 1, 0]}",
        "x: {linspace: [.nan, .inf, 3]}",
        "x: {linspace: [a, 1, 2.5]}",
        "index: [1]",
        "box-size: [1]",
        "\"\": [1]",
        "zip: {x: [1, 2], y: [a]}",
        "zip: {}",
        "zip: 3",
        "zip: {x: [1, 2], x2: {range: [1, 0]}}",
        "x: [1]\n  zip: {x: [2]}",
        "sample: 100",
        "sample: {seed: 7}",
        "sample: {n: 0}",
        "x: [1, 2]\n  sample: {n: 3, seed: -1}",
        "x: [1, 2]\n  sample: {n: 3}",
        "x: {range: [1, 10000000000]}\n  y: {range: [1, 10000000000]}",
        "x: {range: [1, 2000000000]}\n  y: {range: [1, 2000000000]}",
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn files_that_cannot_be_used_are_explained() {
    let text = told_of_sweeps(&[
        "x: {files: \"ligands/*.mol2\"}",
        "x: {files: \"ligands/[\"}",
        "x: {lines: nothing.txt}",
        "x: {lines: ligands}",
        "x: {lines: empty.txt}",
        "x: {lines: latin1.txt}",
        "csv: 7",
        "csv: none.csv",
        "csv: {columns: [a]}",
        "csv: {file: nothing.csv}",
        "csv: {file: params.csv, columns: [alhpa]}",
        "csv: {file: params.csv, columns: [gamma]}",
        "csv: {file: params.csv, columns: []}",
        "csv: {file: ragged.csv}",
        "csv: {file: header.csv}",
        "csv: {file: empty.txt}",
        "csv: {file: doubled.csv}",
        "csv: {file: units.csv}",
        "csv: {file: reserved.csv}",
        "csv: {file: latin1.txt}",
        "alpha: [1]\n  csv: {file: params.csv}",
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn an_empty_text_is_advised_only_where_one_is_taken() {
    for (field, advice) in [
        (
            "sweep: {csv: {file: params.csv, delimiter: null}}",
            "write one character in quotes, like \";\", or tab or blank",
        ),
        ("sweep: {csv: {file: null}}", "write a text\n"),
        ("sweep: {x: {lines: null}}", "write a text\n"),
        ("application: null", "write a text\n"),
        ("env_from: [null]", "write a text\n"),
        ("env: {A: null}", "or \"\" for an empty one"),
        ("sweep: {x: [a, null]}", "or \"\" for an empty one"),
    ] {
        let said = told(&[&format!("command: [echo]\n{field}")]) + "\n";
        assert!(said.contains("found no value") && said.contains(advice), "{said}");
    }
    let said = told(&["command: [echo]\ntime_limit: null"]);
    assert!(said.contains("found no value") && !said.contains("write a text"), "{said}");
}

#[test]
fn keys_that_are_no_texts_and_digits_that_are_are_told_with_their_line() {
    let said = told(&[
        "command: [echo]\n~: 5",
        "command: [echo]\nenv:\n  A: 1\n  [a]: 3",
        "command: [echo]\n{x}: 5",
        "command: [echo]\nsweep: {x: {range: [01, \"3\"]}}",
    ]);
    for expected in [
        "job.yaml:2:1: found a key that is not a text (null); write `name: value`\n",
        "job.yaml:4: env: found a key that is not a text (a list); write `name: value`\n",
        "job.yaml:2:1: found a key that is not a text (a mapping); write `name: value`, and a name with braces in quotes\n",
        "sweep.x.range[0]: found the text `01`; write a whole number: take the zeros in front away\n",
        "sweep.x.range[1]: found the text `3`; write a whole number: take the quotes away\n",
    ] {
        assert!(said.contains(expected), "{expected}{said}");
    }
}

#[test]
fn a_list_of_files_is_told_to_stand_alone() {
    let said = told(&["command: [echo]\nsweep: {x: {files: [a, b]}}"]);
    let advice = "sweep.x.files: found a list; write one pattern, like {files: \"in/*.txt\"}; a list stands alone: [a, b]";
    assert!(said.contains(advice), "{said}");
}

#[test]
fn templates_that_cannot_be_filled_are_explained() {
    let text = told(&[
        "command: [echo, \"{seed}\"]",
        "command: [echo, \"{sead}\", \"{seed.steam}\", \"{seed:5q}\", \"{seed:raw}\"]\nsweep: {seed: [1]}",
        "command: grep -E 'a{3}' {file}\nsweep: {fiel: [1]}",
        "command: [echo, \"{mode:03}\"]\nsweep: {mode: [1, fast]}",
        "command: [echo, \"{x:d}\"]\nsweep: {x: {linspace: [0, 1, 3]}}",
        "command: [echo, \"{f.stem:03}\"]\nsweep: {f: {files: ligands/*.pdbqt}}",
        "command: [echo]\nenv: {A: \"{b}\"}\nworkdir: {path: \"{c}\"}\nstdio: {stdin: \"{d}\", stdout: \"{e}/x\"}",
        "command: [echo]\nsweep: {seed: [1, 2]}\nstdio: {stdout: out.txt, stderr: \"{job}.txt\"}",
        "command: [serve, \"{seed}\"]\nsweep: {seed: [1, 2]}\nresident: true",
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn where_an_input_cannot_be_read_no_other_is_told_of_by_its_number() {
    let inputs = "- {form: a, to: x}\n- {from: ../zzz, to: y, shared: true}\n";
    let said = shown(folder().path(), &format!("command: [echo]\ninputs:\n{inputs}"));
    assert!(said.contains(":3: inputs[0].form") && !said.contains("zzz"), "{said}");
}

#[test]
fn placeholders_without_quotes_are_told_as_that() {
    let said = shown(folder().path(), "command: {x}\nsweep: {x: [a]}\ninputs: [{x}]\noutputs: [{x.stem}]\n");
    for (field, name) in [("command", "{x}"), ("inputs[0]", "{x}"), ("outputs[0]", "{x.stem}")] {
        let words =
            format!("{field}: found {name} without quotes, which YAML reads as a mapping; write \"{name}\"");
        assert!(said.contains(&words), "{words}: {said}");
    }
}

#[test]
fn one_problem_hides_no_other_and_begets_none() {
    let text = told(&[
        "command: [vina, \"{ligand}\", \"{alpha}\", \"{box:.2}\"]\nsweep:\n  ligand: {files: none/*.x}\n  \
         box: {linspace: [0, 1]}\n  zip: {a: [1, 2, 3], b: {lines: none.txt}}\n  csv: {file: none.csv}\n  \
         sample: {n: 1000}\nretries: -1\ntime_limit: 5",
        "command: [vina, \"{ligand}\", \"{box:.2}\", \"{bxo}\"]\nsweep:\n  ligand: {files: none/*.x}\n  \
         box: {linspace: [0, 1]}\n  sample: {n: 1000}",
        "command: [vina]\nsweep:\n  ligand: {files: none/*.x}\n  zip: {a: [1], b: [2]}\n  sample: {n: 9}",
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn files_that_are_no_job_files_are_explained() {
    let folder = folder();
    let told = |name: &str| {
        let problems = load_job_file(&folder.path().join(name)).unwrap_err();
        let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
        lines.join("\n").replace(&folder.path().display().to_string(), "/base")
    };
    insta::assert_snapshot!(told("job.yaml"), @"/base/job.yaml: there is no such file; check the path");
    insta::assert_snapshot!(told("ligands"), @"/base/ligands: found a folder; name a file");
    insta::assert_snapshot!(told("latin1.txt"), @"/base/latin1.txt: found bytes in line 2 of the file that are not UTF-8; save it as UTF-8");
    insta::assert_snapshot!(told("names.txt/job.yaml"), @"/base/names.txt/job.yaml: there is no such file; check the path");
    std::fs::write(folder.path().join("large.yaml"), "#".repeat(limits::JOB_FILE_BYTES_MAX as usize + 1))
        .unwrap();
    insta::assert_snapshot!(told("large.yaml"), @"/base/large.yaml: found a file of more than 64MiB; split it");
}

#[test]
fn files_of_lines_that_cannot_be_used_are_explained() {
    let folder = folder();
    let told = |name: &str| match load_lines(&folder.path().join(name), "--each-line") {
        Ok(lines) => lines.join("|"),
        Err(problem) => problem.to_string().replace(&folder.path().display().to_string(), "/base"),
    };
    assert_eq!(told("names.txt"), "ada|grace");
    for (text, lines) in [("a\rb\rc\r", "a|b|c"), ("a\r\nb\n\r\nc\r", "a|b|c"), (" a \r\rb", " a |b")] {
        std::fs::write(folder.path().join("ends.txt"), text).unwrap();
        assert_eq!(told("ends.txt"), lines, "{text:?}");
    }
    std::fs::write(folder.path().join("ends.txt"), b"a\rb\r\n\xe4").unwrap();
    assert!(told("ends.txt").contains("bytes in line 3 of the file"), "{}", told("ends.txt"));
    assert_eq!(told("none.txt"), "--each-line: found /base/none.txt: no such file; check the path");
    assert_eq!(
        told("empty.txt"),
        "--each-line: found /base/empty.txt: a file without lines; write one value a line"
    );
}

/// What is said of one job file.
fn lines_of(yaml: &str) -> Vec<String> {
    let folder = folder();
    std::fs::write(folder.path().join("bars.csv"), "a|b\n1|2\n").unwrap();
    std::fs::write(folder.path().join("crlf.sh"), "#!/bin/sh\r\necho\r\n").unwrap();
    shown(folder.path(), yaml).lines().map(str::to_owned).collect()
}

#[test]
fn mistakes_are_told_where_they_are_made() {
    for (yaml, lines) in [
        (
            "command: [echo]\npriority: '5'",
            &[
                "job.yaml:2: priority: found the text `5`; write a whole number from -2147483648 to 2147483647: take the quotes away",
            ][..],
        ),
        (
            "command: [echo, '{f}']\nsweep: {f: {range: [1, 2], list: [a]}}",
            &[
                "job.yaml:2: sweep.f: found `range` and `list` of one parameter; a parameter has its values from one of them: \
               keep that one",
            ],
        ),
        (
            "command: [echo, '{a}']\nsweep: {csv: bars.csv}",
            &[
                "job.yaml:2: sweep.csv.file: found the name `a|b`; if that parts the values, say so: `delimiter: \"|\"`; \
               otherwise give the column another name: `columns: {my_name: \"a|b\"}`",
            ],
        ),
    ] {
        assert_eq!(lines_of(yaml), lines, "{yaml}");
    }
}

#[test]
fn script_with_windows_line_ends_is_refused_wherever_a_file_names_it() {
    let what = "found `./crlf.sh`, whose first line `#!/bin/sh` ends with \\r; no system finds a program of that name; give \
                the script Unix line ends: sed -i 's/\\r$//; s/\\r/\\n/g' ./crlf.sh";
    for (command, field) in
        [("[./crlf.sh]", "command[0]"), ("./crlf.sh a", "command"), ("cd . && time ./crlf.sh", "command")]
    {
        let lines = lines_of(&format!("command: {command}"));
        assert_eq!(lines, [format!("job.yaml:1: {field}: {what}")], "{command}");
    }
    let folder = folder();
    std::fs::write(folder.path().join("crlf.sh"), "#!/bin/sh\r\necho\r\n").unwrap();
    let yaml = "tasks:\n  - {name: a, command: [./crlf.sh]}\n  - {name: b, command: 'true'}\n";
    let problems = crate::job::load_file_text(yaml, "job.yaml", folder.path()).unwrap_err();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("job.yaml:2: tasks[0].command: {what}")]);
}

#[cfg(unix)]
#[test]
fn folder_of_a_job_file_that_is_not_utf8_is_called_that() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let latin = folder.path().join(std::ffi::OsStr::from_bytes(b"s\xe9"));
    std::fs::create_dir(&latin).unwrap();
    std::fs::write(latin.join("job.yaml"), "command: [echo]\n").unwrap();
    let problems = load_job_file(&latin.join("job.yaml")).unwrap_err();
    let told = problems[0].to_string();
    assert!(told.contains(": folder of the job file `") && told.contains(r"s\xe9` is not UTF-8; "), "{told}");
}
