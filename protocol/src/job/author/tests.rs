//! Job files, good and bad, against what people are told about them.

use std::fmt::Write;
use std::path::Path;

use tempfile::TempDir;

use super::{load_file_text, load_job_file, load_job_text};

mod bad_files;
mod chains;
mod files;
mod flow;
mod workflows;

/// A folder with what the job files of the tests name.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    write("ligands/b.pdbqt", b"");
    write("ligands/a.pdbqt", b"");
    write("ligands/.hidden.pdbqt", b"");
    write("ligands/sub/c.pdbqt", b"");
    write("seeds.txt", b"3\r\n\n1\n 4 \n");
    write("names.txt", b"\xef\xbb\xbfada\ngrace\n");
    write("params.csv", b"\xef\xbb\xbfalpha, beta\n0.10,x\n0.20,\"y, z\"\n");
    write("exact.csv", b"v , w\r\n4.04e-161,007\r\n1e5,1.10\r\n\" a\", b \r\n");
    write("exact.txt", b"4.04e-161\n007\n1e5\n+1.10 \n");
    write("a.gz", b"");
    write("receptor.pdbqt", b"");
    for name in ["a.fits", "b.fits", "c.fits", "region.hdr", "images.tbl"] {
        write(name, b"");
    }
    write("sheet.csv", b"Temp (K);index\n300;1\n");
    write("params.tsv", b"alpha\tbeta\n1\t2\n");
    write("empty.txt", b"\n\n");
    write("latin1.txt", b"one\ncaf\xe9\n");
    write("ragged.csv", b"a,b\n1,2\n3\n");
    write("header.csv", b"a,b\n");
    write("doubled.csv", b"a,b,a\n1,2,3\n");
    write("units.csv", b"a,energy (kJ)\n1,2\n");
    write("reserved.csv", b"index,a\n1,2\n");
    write("plain.sh", b"#!/bin/sh\n");
    for program in ["dock.sh", "run.sh"] {
        write(program, b"#!/bin/sh\n");
        make_executable(&folder.path().join(program));
    }
    folder
}

fn make_executable(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The first tasks of a job file, or its problems; the folder reads `/base`.
fn shown(folder: &Path, yaml: &str) -> String {
    let mut text = String::new();
    match load_job_text(yaml, "job.yaml", folder) {
        Ok(spec) => {
            let compiled = spec.compile().unwrap();
            writeln!(text, "{} tasks of {} ({})", compiled.n_tasks(), spec.name, spec.application).unwrap();
            for index in 0..compiled.n_tasks().min(4) {
                writeln!(text, "{index}: {}", compiled.task(1, index).argv.join(" ")).unwrap();
            }
        }
        Err(problems) => problems.iter().for_each(|problem| writeln!(text, "{problem}").unwrap()),
    }
    text.replace(&folder.display().to_string(), "/base")
}

/// The first tasks of `echo` with the placeholders of a sweep.
fn swept(sweep: &str, arguments: &str) -> String {
    let folder = folder();
    shown(folder.path(), &format!("command: [echo, \"{arguments}\"]\nsweep: {sweep}\n"))
}

#[test]
fn full_job_file_is_resolved() {
    let yaml = r#"
name: docking
application: autodock-vina
command: [vina, --seed, "{seed}", --ligand, "{ligand}"]
sweep:
  ligand: {files: "ligands/*.pdbqt"}
  seed: {range: [1, 10]}
  box: {linspace: [0.0, 1.0, 11]}
  mode: [fast, slow]
  line: {lines: seeds.txt}
  zip: {x: [1, 2, 3], y: [a, b, c]}
  csv: {file: params.csv, columns: [beta]}
  sample: {n: 100, seed: 7}
env: {OMP_NUM_THREADS: "{cores}", VERSION: 1.10}
workdir: {path: "runs/{index:06}"}
resources: {cores: 2, memory: 2GiB, gpus: 1, generic: {licence: 1}}
time_limit: 10m
priority: -5
retries: {count: 2, delay: 5s}
success_codes: [0, 3]
crash_limit: 4
max_failures: 10
stdio: {stdout: archive, stderr: discard, stdin: "in/{mode}.txt"}
results: {keep: failed, limit: 64KiB, extract: {affinity: '^\s+1\s+(-?[0-9.]+)'}}
resident: false
"#;
    let folder = folder();
    let spec = load_job_text(yaml, "job.yaml", folder.path()).unwrap();
    let json = serde_json::to_string_pretty(&spec).unwrap();
    assert_eq!(serde_json::from_str::<crate::job::JobSpec>(&json).unwrap(), spec);
    let shown = json.replace(&folder.path().display().to_string(), "/base");
    insta::assert_snapshot!("full_job", shown);
    let task = spec.compile().unwrap().task(7, 99);
    let shown = format!("{task:#?}").replace(&folder.path().display().to_string(), "/base");
    insta::assert_snapshot!("full_job_task", shown);
}

#[test]
fn shortest_job_has_the_defaults() {
    let folder = folder();
    insta::assert_snapshot!(shown(folder.path(), "command: [/usr/bin/vina, --help]"), @"
    1 tasks of job (vina)
    0: /usr/bin/vina --help
    ");
    insta::assert_snapshot!(shown(folder.path(), "command: echo $HOME | wc"), @"
    1 tasks of job (shell)
    0: /bin/sh -c echo $HOME | wc
    ");
    insta::assert_snapshot!(shown(folder.path(), "command: [./dock.sh]"), @"
    1 tasks of job (dock.sh)
    0: ./dock.sh
    ");
}

#[test]
fn job_file_is_read_from_its_folder() {
    let folder = folder();
    let path = folder.path().join("docking.yaml");
    std::fs::write(&path, "command: [vina, \"{ligand}\"]\nsweep: {ligand: {files: ligands/*.pdbqt}}\n")
        .unwrap();
    let spec = load_job_file(&path).unwrap();
    assert_eq!((spec.name.as_str(), spec.base_dir.as_path()), ("docking", folder.path()));
    assert_eq!(spec.sweep.n_tasks(), 2);
}

#[test]
fn values_come_from_every_source() {
    insta::assert_snapshot!(swept("{f: {files: \"ligands/*.pdbqt\"}}", "{f} {f.stem}"), @"
    2 tasks of job (echo)
    0: echo /base/ligands/a.pdbqt a
    1: echo /base/ligands/b.pdbqt b
    ");
    insta::assert_snapshot!(swept("{f: {files: \"./ligands/**/*.pdbqt\"}}", "{f.name}"), @"
    3 tasks of job (echo)
    0: echo a.pdbqt
    1: echo b.pdbqt
    2: echo c.pdbqt
    ");
    insta::assert_snapshot!(swept("{f: {files: \"ligands/*/\"}}", "{f}"), @"
    1 tasks of job (echo)
    0: echo /base/ligands/sub
    ");
    insta::assert_snapshot!(swept("{l: {lines: seeds.txt}}", "<{l}>"), @"
    3 tasks of job (echo)
    0: echo <3>
    1: echo <1>
    2: echo < 4 >
    ");
    insta::assert_snapshot!(swept("{csv: {file: params.csv}}", "{alpha} {beta}"), @"
    2 tasks of job (echo)
    0: echo 0.10 x
    1: echo 0.20 y, z
    ");
    insta::assert_snapshot!(swept("{csv: {file: exact.csv}}", "<{v}|{w}>"), @"
    3 tasks of job (echo)
    0: echo <4.04e-161|007>
    1: echo <1e5|1.10>
    2: echo < a| b >
    ");
    insta::assert_snapshot!(swept("{v: {lines: exact.txt}}", "<{v}>"), @"
    4 tasks of job (echo)
    0: echo <4.04e-161>
    1: echo <007>
    2: echo <1e5>
    3: echo <+1.10 >
    ");
    insta::assert_snapshot!(swept("{csv: [{file: params.tsv, columns: [beta]}, {file: params.csv, columns: [alpha]}]}", "{alpha} {beta}"), @"
    2 tasks of job (echo)
    0: echo 0.10 2
    1: echo 0.20 2
    ");
    insta::assert_snapshot!(swept("{zip: [{x: [1, 2], f: {files: ligands/*.pdbqt}}, {z: [u, v], r: {range: [9, 8, -1]}}]}", "{x} {f.stem} {z} {r}"), @"
    4 tasks of job (echo)
    0: echo 1 a u 9
    1: echo 1 a v 8
    2: echo 2 b u 9
    3: echo 2 b v 8
    ");
    insta::assert_snapshot!(swept("{x: {list: [a]}, y: {range: [0, 1000000000]}, z: {linspace: [0, 1, 3]}}", "{x} {y} {z}"), @"
    3000000003 tasks of job (echo)
    0: echo a 0 0.0
    1: echo a 0 0.5
    2: echo a 0 1.0
    3: echo a 1 0.0
    ");
}

#[test]
fn files_are_sorted_by_their_whole_path() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    for name in ["a/x.in", "a.in", "B.in", "a-b.in"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let files = super::pattern::list_files(folder.path(), "**/*.in").unwrap();
    let prefix = format!("{}/", folder.path().display());
    let names: Vec<&str> = files.iter().map(|file| file.strip_prefix(&prefix).unwrap()).collect();
    assert_eq!(names, ["B.in", "a-b.in", "a.in", "a/x.in"]);
}

#[test]
fn listed_values_stay_as_they_are_written() {
    insta::assert_snapshot!(swept("{v: [1.10, no, true, 007, 1e3, \"2.0\"]}", "{v} {index}"), @"
    6 tasks of job (echo)
    0: echo 1.10 0
    1: echo no 1
    2: echo true 2
    3: echo 007 3
    ");
    insta::assert_snapshot!(swept("{v: [1e3, 0x10, 1_000, 12:30]}", "{v}"), @"
    4 tasks of job (echo)
    0: echo 1e3
    1: echo 0x10
    2: echo 1_000
    3: echo 12:30
    ");
}

#[test]
fn sample_is_drawn_from_the_product() {
    insta::assert_snapshot!(swept("{x: {range: [1, 1000000]}, y: [a, b], sample: {n: 3, seed: 7}}", "{index} {x} {y}"), @"
    3 tasks of job (echo)
    0: echo 0 158411 b
    1: echo 1 243143 b
    2: echo 2 733674 b
    ");
}

#[test]
fn schema_is_the_golden_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/job.schema.json");
    let schema = serde_json::to_string_pretty(&super::job_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == schema, "the schema has changed; if that is meant, run the test with UPDATE_GOLDEN=1");
}

#[test]
fn schema_and_reader_know_the_same_fields() {
    let schema = super::job_schema();
    let fields: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let of_files = ["stages", "tasks", "after", "on_failed_dependency"];
    let expected: Vec<&str> =
        crate::job::author::read::read_job::JOB_FIELDS.into_iter().chain(of_files).collect();
    assert_eq!(fields, expected);
    let fields = |name: &str| -> Vec<&String> {
        schema["$defs"][name]["properties"].as_object().unwrap().keys().collect()
    };
    let expected: Vec<&str> =
        crate::job::author::read::read_job::JOB_FIELDS.into_iter().chain(super::STAGE_FIELDS).collect();
    assert_eq!(fields("Stage"), expected);
    assert_eq!(fields("Task"), super::tasks::TASK_FIELDS);
}

#[test]
fn examples_of_the_reference_are_loaded() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/job-file.md");
    let page = std::fs::read_to_string(path).unwrap();
    let folder = folder();
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert!(examples.len() > 20, "{} examples", examples.len());
    for example in examples {
        // Parts of a job file get the one field that must be there.
        let whole = ["command:", "stages:", "tasks:"];
        let is_whole = example.lines().any(|line| whole.iter().any(|field| line.starts_with(field)));
        let yaml = if is_whole { example.to_owned() } else { format!("command: [echo]\n{example}") };
        if let Err(problems) = load_file_text(&yaml, "job-file.md", folder.path()) {
            panic!("{example}\n{problems:#?}");
        }
    }
}

#[test]
fn problems_of_the_reference_are_the_real_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/job-file.md");
    let page = std::fs::read_to_string(path).unwrap();
    let bad = page.split("```yml\n").nth(1).unwrap().split("```").next().unwrap();
    let said = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(shown(folder().path(), bad), said);
}

/// The text of a pipe is there once, and its folder is none of its author's.
#[test]
fn a_job_file_from_a_pipe_starts_from_the_current_folder() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"command: [echo]\n").unwrap();
    drop(writer);
    let spec = load_job_file(format!("/dev/fd/{}", reader.as_raw_fd()).as_ref()).unwrap();
    assert_eq!((spec.name.as_str(), spec.base_dir), ("pipe", std::env::current_dir().unwrap()));
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"command: [echo]\ncomand: x\n").unwrap();
    drop(writer);
    let problems = load_job_file(format!("/dev/fd/{}", reader.as_raw_fd()).as_ref()).unwrap_err();
    assert!(problems[0].to_string().starts_with("pipe:2: comand: found an unknown field"), "{problems:?}");
}

#[test]
fn amounts_that_have_fields_of_their_own_are_no_generic_resources() {
    let folder = folder();
    for name in ["cores", "memory", "gpus"] {
        let said = shown(folder.path(), &format!("command: [echo]\nresources: {{generic: {{{name}: 2}}}}"));
        let expected =
            format!("resources.generic.{name}: `{name}` has a field of its own; write resources.{name}");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn files_that_cannot_be_read_are_told_of_in_the_same_words_everywhere() {
    let folder = folder();
    let told = |path: &Path| super::unreadable(path, &std::fs::read(path).unwrap_err()).to_string();
    let (missing, name) = (folder.path().join("none.yaml"), folder.path().display());
    assert_eq!(told(&missing), format!("{name}/none.yaml: there is no such file; check the path"));
    assert_eq!(told(&missing), load_job_file(&missing).unwrap_err()[0].to_string());
    assert_eq!(told(folder.path()), format!("{name}: found a folder; name a file"));
}
