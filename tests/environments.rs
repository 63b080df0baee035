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

/// What a task of the job file has, without what only this task and this pilot have.
fn environment(told: &str) -> Vec<String> {
    let is_own = |line: &&str| line.starts_with("PILOTFISH_") || line.starts_with("_=");
    told.lines().filter(|line| !is_own(line)).map(str::to_owned).collect()
}

#[test]
fn tasks_have_the_same_environment_by_run_and_by_submit() {
    let sandbox = Sandbox::new();
    let with = |mut command: Command, variables: &[(&str, &str)]| {
        command.envs(variables.iter().copied());
        command
    };
    let _manager = sandbox.serve(with(
        sandbox.command(&["serve"]),
        &[("OF_SERVE", "1"), ("MY_SECRET", "of serve"), ("MINE", "of serve"), ("OMP_NUM_THREADS", "3")],
    ));
    let mine = [
        ("MINE", "a b"),
        ("OTHER", "{x}"),
        ("MY_TOKEN", "secret"),
        ("OMP_NUM_THREADS", "7"),
        ("MINE_TOO", "/mine"),
    ];
    for (from, expected, absent) in [
        ("none", &["OMP_NUM_THREADS=1"][..], &["MINE", "OTHER", "MINE_TOO", "OF_SERVE"][..]),
        ("submit", &["MINE=a b", "OTHER={x}", "MINE_TOO=/mine", "OMP_NUM_THREADS=7"], &["OF_SERVE"]),
        ("[MINE]", &["MINE=a b", "OMP_NUM_THREADS=1"], &["OTHER", "MINE_TOO", "OF_SERVE"]),
    ] {
        sandbox.write("job.yaml", &format!("command: [sh, -c, 'env | sort']\nenv_from: {from}\n"));
        let of = |words: &[&str], logs: &[&str]| {
            let output = with(sandbox.command(words), &mine).output().expect("it runs");
            assert!(output.status.success(), "{from} {}", String::from_utf8_lossy(&output.stderr));
            environment(&sandbox.ok(logs))
        };
        let submitted = of(&["submit", "job.yaml", "--wait", "-q"], &["logs", "last", "--raw"]);
        let run =
            of(&["run", "job.yaml", "--dir", "alone", "-q"], &["logs", "last", "--raw", "--dir", "alone"]);
        assert_eq!(run, submitted, "{from}");
        let has = |name: &str| run.iter().any(|line| line.starts_with(&format!("{name}=")));
        for line in expected {
            assert!(run.iter().any(|found| found == line), "{from}: {line} of {run:?}");
        }
        assert!(has("PATH") && has("HOME"), "{from}: {run:?}");
        for name in absent.iter().chain(&["MY_TOKEN", "MY_SECRET"]) {
            assert!(!has(name), "{from}: {name} of {run:?}");
        }
    }
    for (name, told) in [
        ("MINE", "`--env MINE=\"$MINE\"` takes it"),
        ("MY_TOKEN", "it looks like a secret; what a job takes along is kept"),
    ] {
        let check = sandbox.command(&["check", "-q", "--shell", "--", &format!("echo ${name}")]);
        let said = with(check, &mine).output().expect("it runs").stderr;
        let told = format!("${name}, which is set here and does not go along; {told}");
        assert!(String::from_utf8_lossy(&said).contains(&told), "{}", String::from_utf8_lossy(&said));
    }
    sandbox.write("reads.yaml", "command: echo $MINE\n");
    let check = sandbox.command(&["check", "-q", "reads.yaml"]);
    let said = with(check, &mine).output().expect("it runs").stderr;
    let told = "$MINE, which is set here and does not go along; `env_from: [MINE]` takes it";
    assert!(String::from_utf8_lossy(&said).contains(told), "{}", String::from_utf8_lossy(&said));
    // One that is told hides no other.
    let token = "A=ghp_0123456789abcdefghijklmnop";
    let (address, command) = ("URL=http://ada:hush@h/", "curl http://ada:hush@h/x http://ada:hush@h/y {}");
    let words = ["--shell", "--", command, ":::", "a", "http://h/?token=hush"];
    let said = sandbox.run(&[&["check", "--env", token, "--env", address][..], &words].concat()).stderr;
    let said = String::from_utf8_lossy(&said);
    for told in [
        "command has an address with a password or a token, which all see who see the job",
        "env.A looks like a secret, which all see who see the job",
        "env.URL has an address with a password or a token, which all see who see the job",
        "parameter `1` has an address with a password or a token, which all see who see the job",
    ] {
        assert_eq!(said.matches(told).count(), 1, "{told}: {said}");
    }
    assert!(!said.contains("hush"), "{said}");
    sandbox.write("job.yaml", "command: 'true'\nenv_from: submit\n");
    for command in ["check", "submit"] {
        let output = with(sandbox.command(&[command, "job.yaml"]), &mine).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let told = said.lines().find(|line| line.contains("env_from leaves out what may be secret"));
        assert!(told.is_some_and(|line| line.contains("MY_TOKEN") && !line.contains("MINE")), "{said}");
    }
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
    sandbox.write("stages.yaml", "stages: {a: {command: cat}, b: {command: cat, after: a}}\n");
    for words in [
        &["check", "job.yaml"][..],
        &["check", "stages.yaml"],
        &["run", "--dir", "other", "job.yaml"],
        &["submit", "--dry-run", "job.yaml"],
    ] {
        let values = File::open(sandbox.path().join("values")).expect("it is there");
        let output = sandbox.command(words).stdin(values).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let told = said.matches("warning: standard input is not read").count();
        assert!(output.status.success() && told == 1, "{words:?}: {said}");
    }
    sandbox.write("reads.yaml", "command: cat\nstdio: {stdin: values}\n");
    let (code, said) = run(&["check", "reads.yaml"], "values");
    assert!(code == Some(0) && !said.contains("warning"), "{said}");
    let (code, said) = run(&["check", "-"], "job.yaml");
    assert!(code == Some(0) && !said.contains("warning"), "{said}");
    let (code, said) = run(&["check", "--each-line", "-", "--", "echo"], "values");
    assert!(code == Some(0) && !said.contains("warning") && said.contains("tasks      2"), "{said}");
}

#[test]
fn two_tasks_in_one_folder_are_told_where_its_name_has_parameters() {
    let sandbox = Sandbox::new();
    let job = |workdir: &str| {
        format!(
            "command: [sh, -c, 'echo {{a}} {{b}} > out']\nsweep: {{a: [1.01, 1.02], b: [x, y]}}\nworkdir: {{path: \"{workdir}\"}}\n"
        )
    };
    sandbox.write("shared.yaml", &job("runs/{a:.1f}/{b}"));
    sandbox.write("partly.yaml", &job("runs/{a}"));
    sandbox.write("apart.yaml", &job("runs/{a}/{b}"));
    sandbox.write("one.yaml", &job("runs"));
    let told = |words: &[&str]| {
        let output = sandbox.run(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        said.replace(&sandbox.path().canonicalize().expect("a folder").display().to_string(), "HERE")
    };
    let way = "they may overwrite each other's files; put {index} or the parameter into the name";
    let shared =
        format!("warning: shared.yaml:3: workdir.path: found `HERE/runs/1.0/x` for tasks 0 and 2; {way}\n");
    let partly = format!(
        "warning: partly.yaml:3: workdir.path: found `HERE/runs/1.01` for tasks 0 and 1, which differ in `b`; {way}\n"
    );
    for command in [&["check", "-q"][..], &["run", "-q"], &["submit", "--dry-run"]] {
        let of = |file: &str| told(&[command, &[file]].concat());
        assert!(of("shared.yaml").contains(&shared), "{command:?}: {}", of("shared.yaml"));
        assert!(of("partly.yaml").contains(&partly), "{command:?}: {}", of("partly.yaml"));
        for file in ["apart.yaml", "one.yaml"] {
            assert!(!of(file).contains("workdir"), "{command:?}: {}", of(file));
        }
    }
    let said = told(&["check", "-q", "one.yaml", "--workdir", "runs/{b}"]);
    assert!(
        said.contains("warning: --workdir: found `HERE/runs/x` for tasks 0 and 2, which differ in `a`;"),
        "{said}"
    );
    sandbox.write(
        "flow.yaml",
        "stages:\n  a: {command: echo}\n  b:\n    command: echo {x}\n    sweep: {x: [1.01, 1.02]}\n    workdir: {path: 'd/{x:.1f}'}\n    after: a\n",
    );
    let said = told(&["check", "-q", "flow.yaml"]);
    assert!(
        said.contains("warning: flow.yaml:6: stages.b.workdir.path: found `HERE/d/1.0` for tasks 0 and 1;"),
        "{said}"
    );
}
