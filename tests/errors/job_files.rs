//! Job files: what is no job file, fields, sweeps, templates, and the files they name.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::page::Page;

/// A page whose bad jobs are also offered to a manager, which must not have any in the end.
fn offered(name: &'static str, cases: &[&str]) {
    let mut page = Page::new(name);
    let _manager = page.serve("home/.pilotfish/default", &["--no-local", "-q"]);
    page.sandbox.write("ligands/a.pdbqt", "x\n");
    page.sandbox.write("names.csv", "alpha,beta\n1,2\n3\n");
    page.sandbox.write("empty.txt", "");
    std::fs::write(page.sandbox.path().join("latin1.txt"), b"caf\xe9\n").expect("a file");
    for yaml in cases {
        page.bad_job(yaml);
    }
    assert_eq!(page.sandbox.json(&["jobs"]), serde_json::json!([]), "something was submitted");
    page.close();
}

#[test]
fn script_with_windows_line_ends_is_refused_however_its_command_is_given() {
    let sandbox = tests::Sandbox::new();
    let script = sandbox.write("crlf.sh", "#!/bin/sh\r\necho\r\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    for words in [
        &["check", "--", "./crlf.sh"][..],
        &["run", "--", "./crlf.sh"],
        &["run", "--", "time ./crlf.sh {}", ":::", "a"],
        &["check", "--shell", "--", "X=1 ./crlf.sh | cat"],
    ] {
        let output = sandbox.run(words);
        let said = tests::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        let expected = "`./crlf.sh`, whose first line `#!/bin/sh` ends with \\r; no system finds a program of that name; give \
                        the script Unix line ends: sed -i 's/\\r$//; s/\\r/\\n/g' ./crlf.sh";
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}

#[test]
fn bad_job_files_are_explained() {
    offered(
        "job-files",
        &[
            "",
            "just text",
            "- a\n- b\n",
            "command: [echo\n",
            "command: [echo]\n\tname: x\n",
            "command: [echo]\nname: x\nname: y\n",
            "name: x\n",
            "comand: [echo]\ntime-limit: 10m\n",
            "command: []\n",
            "command: [./missing.sh]\n",
            "command: [echo]\nresources: {cores: -1, memory: 2, gpus: many}\n",
            "command: [echo]\nresources: {cores: 0}\n",
            "command: [echo]\ntime_limit: soon\n",
            "command: [echo]\ntime_limit: 600\n",
            "command: [echo]\nretries: -1\n",
            "command: [echo]\nsuccess_codes: [0, 256]\n",
            "command: [echo]\nstdio: {stdout: discrad/, sterr: x}\n",
            "command: [echo]\nresults: {keep: fialed, extract: {a: \"(\"}}\n",
            "command: [echo]\nenv: {PILOTFISH_JOB_ID: 3}\n",
            "command: [echo]\nworkdir: runs\n",
            "command: [echo]\npriority: high\n",
        ],
    );
}

#[test]
fn bad_sweeps_are_explained() {
    offered(
        "sweeps",
        &[
            "command: [echo]\nsweep: {x: []}\n",
            "command: [echo]\nsweep: {x: {range: [1, 10, 0]}}\n",
            "command: [echo]\nsweep: {x: {range: [10, 1]}}\n",
            "command: [echo]\nsweep: {x: {range: [0.5, 2]}}\n",
            "command: [echo]\nsweep: {x: {rang: [1, 2]}}\n",
            "command: [echo]\nsweep: {x: {linspace: [0, 1, 0]}}\n",
            "command: [echo]\nsweep: {zip: {x: [1, 2], y: [a]}}\n",
            "command: [echo]\nsweep: {x: [1, 2], sample: {n: 3}}\n",
            "command: [echo]\nsweep: {index: [1]}\n",
            "command: [echo]\nsweep:\n  x: {range: [1, 10000000000]}\n  y: {range: [1, 10000000000]}\n",
            "command: [echo]\nsweep: {x: {files: \"ligands/*.mol2\"}}\n",
            "command: [echo]\nsweep: {x: {lines: nothing.txt}}\n",
            "command: [echo]\nsweep: {x: {lines: ligands}}\n",
            "command: [echo]\nsweep: {x: {lines: empty.txt}}\n",
            "command: [echo]\nsweep: {x: {lines: latin1.txt}}\n",
            "command: [echo]\nsweep: {csv: {file: names.csv, columns: [alhpa]}}\n",
            "command: [echo]\nsweep: {csv: {file: names.csv}}\n",
        ],
    );
}

#[test]
fn bad_templates_are_explained() {
    offered(
        "templates",
        &[
            "command: [echo, \"{sead}\"]\nsweep: {seed: [1]}\n",
            "command: [echo, \"{seed.steam}\"]\nsweep: {seed: [1]}\n",
            "command: [echo, \"{seed:5q}\"]\nsweep: {seed: [1]}\n",
            "command: [echo, \"{mode:03}\"]\nsweep: {mode: [1, fast]}\n",
            "command: [echo, \"{seed:raw}\"]\nsweep: {seed: [1]}\n",
            "command: echo {fiel}\nsweep: {file: [1]}\n",
            "command: [echo]\nenv: {A: \"{b}\"}\nworkdir: {path: \"{c}\"}\nstdio: {stdout: \"{e}/x\"}\n",
            "command: [echo]\nsweep: {seed: [1, 2]}\nstdio: {stdout: out.txt}\n",
        ],
    );
}

#[test]
fn files_that_cannot_be_read_are_explained() {
    let mut page = Page::new("files");
    let here = page.sandbox.path().to_owned();
    page.refuses("no such file", &["check", "job.yaml"]);
    page.refuses("a folder", &["run", "home"]);
    page.refuses("nothing behind a name in a file", &["submit", "Cargo.lock/job.yaml"]);
    std::fs::write(here.join("latin1.yaml"), b"command: [echo]\nname: caf\xe9\n").expect("a file");
    page.refuses("not UTF-8", &["check", "latin1.yaml"]);
    symlink("loop.yaml", here.join("loop.yaml")).expect("a link");
    page.refuses("a link to itself", &["check", "loop.yaml"]);
    // Not even root can read this one.
    page.refuses("not readable", &["check", "/proc/self/mem"]);
    page.refuses("a device without end", &["check", "/dev/zero"]);
    page.refuses("an empty name", &["check", ""]);
    page.refuses("a job file on standard input that is empty", &["check", "/dev/null"]);
    page.refuses("no file of lines", &["run", "--each-line", "no.txt", "--", "echo"]);
    page.refuses("a folder of lines", &["run", "--each-line", "home", "--", "echo"]);
    std::fs::write(here.join("latin1.txt"), b"a\ncaf\xe9\n").expect("a file");
    page.refuses("lines that are not UTF-8", &["run", "--each-line", "latin1.txt", "--", "echo"]);
    page.refuses("no lines", &["run", "--each-line", "/dev/null", "--", "echo"]);
    page.refuses("no lines on standard input", &["run", "--each-line", "-", "--", "echo"]);
    page.refuses("no file of values", &["check", "--", "echo", "{}", "::::", "no.txt"]);
    page.close();
}
