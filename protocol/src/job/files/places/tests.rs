//! Tests of places that mean nothing.

use crate::job::{CommandLine, Input, JobSpec, Output, OutputTarget, Source, Stdio, Stream, WorkDirPolicy};
use crate::sweep::Sweep;

fn job(values: &[&str]) -> JobSpec {
    let command = CommandLine::Args(vec!["cat".to_owned()]);
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    JobSpec {
        workdir: WorkDirPolicy::Scratch,
        sweep: Sweep::from_lists(vec![("a".to_owned(), values)]),
        ..JobSpec::new(command, "/home/ada".into())
    }
}

fn input(from: &str, to: &str) -> Input {
    Input { from: from.to_owned(), to: to.to_owned(), ..Input::default() }
}

fn output(from: &str, to: &str) -> Output {
    Output { from: from.to_owned(), to: to.to_owned(), ..Output::default() }
}

fn said(job: &JobSpec) -> Vec<String> {
    job.wrong_places(true).iter().map(ToString::to_string).collect()
}

fn of_output(output: Output, values: &[&str]) -> Vec<String> {
    said(&JobSpec { outputs: vec![output], ..job(values) })
}

#[test]
fn outputs_go_to_places_that_there_are() {
    let places = "outputs go to the job's folder, file:///… that nodes see, and store://NAME/… of a store that the manager \
                  knows (`pilotfish stores`)";
    let absolute = "write an absolute path, file:///…: nodes know no base folder, and no host is named";
    let manager =
        "a folder called .pilotfish is a manager's own, and nothing is brought there: give it another name";
    for (to, found, expected) in [
        ("file://scratch/ada/{a}", "`file://scratch/ada/1`", absolute),
        ("FILE://host/{a}", "`FILE://host/1`", absolute),
        ("file://{a}", "`file://1`", absolute),
        ("file:///../{a}", "`file:///../1`", "`..` in it must not lead out of /"),
        ("file:///r/{a}/../../s", "`file:///r/1/../../s`", "`..` in it must not lead out of /r"),
        ("file:///r/{a}/", "`file:///r/1/`", "write the file's name, too"),
        ("http://h/{a}", "the scheme http://", places),
        ("HTTPS://h/{a}", "the scheme HTTPS://", places),
        ("s3://b/{a}", "the scheme s3://", places),
        ("any+1://b/{a}", "the scheme any+1://", places),
        ("~/{a}", "`~/1`", "nothing is expanded here: "),
        ("$HOME/{a}", "`$HOME/1`", "nothing is expanded here: "),
        (".pilotfish/{a}", "`.pilotfish/1`", manager),
        ("r/./.pilotfish/{a}", "`r/./.pilotfish/1`", manager),
    ] {
        let found = format!("outputs[0].to: found {found}; {expected}");
        let said = of_output(output("out", to), &["1", "2"]);
        assert!(said.len() == 1 && said[0].starts_with(&found), "{to}: {said:?}");
    }
    let colon = format!(
        "outputs[0].to: found the scheme file: without `//`; {places}; of a file whose name has a colon write ./file:…"
    );
    assert_eq!(of_output(output("out", "file:{a}"), &["1"]), [colon]);
    let kept = of_output(output("r/*/.pilotfish/x-{a}", "r"), &["1"]);
    assert!(kept[0].starts_with("outputs[0].to: found `r/*/.pilotfish/x-"), "{kept:?}");
    for to in [
        "file:///r/{a}",
        "FILE:///r/{a}",
        "file:///r/../s/{a}",
        "store://lab/{a}",
        "Store://lab/{a}",
        "run:{a}/x",
        "./file:{a}",
        "a/http://{a}",
        "~{a}",
        "r/.pilotfishes/{a}",
        "{a}://x",
    ] {
        assert_eq!(of_output(output("out", to), &["1", "2"]), [""; 0], "{to}");
    }
    assert_eq!(of_output(output("r/", "file:///r/{a}/"), &["1"]), [""; 0]);
    let task = "a path below the task's folder is right";
    let from = format!("outputs[0].from: found the scheme http://; {task}");
    assert_eq!(of_output(output("http://h/x", "x-{a}"), &["1"]), [from]);
    // A name that stands for both is told of once.
    assert_eq!(of_output(output("http://h/{a}", "http://h/{a}"), &["1"]).len(), 1);
}

#[test]
fn each_value_is_looked_at_that_may_lead_to_another_place() {
    let mut values: Vec<String> = (0..1_000).map(|n| format!("d{n}")).collect();
    values[999] = "../../bob".to_owned();
    let mut job = JobSpec { outputs: vec![output("out", "file:///s/ada/{a}/{n}/{b}")], ..job(&["1"]) };
    let numbers = vec![crate::sweep::IntegerRange { from: 0, step: 1, n: 1 << 40 }];
    job.sweep = Sweep::from_lists(vec![("a".to_owned(), values), ("b".to_owned(), vec!["x".to_owned()])]);
    job.sweep.dimensions.push(crate::sweep::Dimension::column("n", crate::sweep::Values::Integers(numbers)));
    let found = "outputs[0].to: found `file:///s/ada/../../bob/0/x`; `..` in it must not lead out of /s/ada";
    assert_eq!(said(&job), [found]);
    // A whole folder may be a value, as `{file.parent}` is.
    let folder = |value| of_output(output("out", "file://{a}/x"), &["/r", value]);
    assert_eq!(folder("/home/ada/../data"), [""; 0]);
    assert_eq!(folder("data").len(), 1);
    assert_eq!(folder("/../data").len(), 1);
    assert_eq!(of_output(output("out", "{a}"), &["x", "http://h/x"]).len(), 1);
    assert_eq!(of_output(output("{a}", "r/{index}"), &["x", "http://h/x"]).len(), 1);
}

#[test]
fn inputs_come_from_places_that_there_are() {
    let of = |input: Input, values: &[&str]| said(&JobSpec { inputs: vec![input], ..job(values) });
    for (from, scheme) in
        [("file:x", "file:"), ("gs://b/x", "gs://"), ("S3://b/x", "S3://"), ("HTTP:h", "HTTP:")]
    {
        let found = of(input(from, "in"), &["1"]);
        let expected = format!("inputs[0].from: found the scheme {scheme}");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{from}: {found:?}");
        assert!(found[0].contains("https://…"), "{found:?}");
    }
    for to in ["http://h/x", "file:///x", "file:x"] {
        let found = of(input("x", to), &["1"]);
        assert!(found.len() == 1 && found[0].starts_with("inputs[0].to: found the scheme "), "{found:?}");
    }
    for from in ["x:y", "FILE:///x", "HTTP://h/x", "Store://lab/x", "./file:x", "/d/http:/x"] {
        assert_eq!(of(input(from, "in"), &["1"]), [""; 0], "{from}");
    }
    let shared = |values: &[&str]| of(Input { shared: true, ..input("{a}", "in") }, values);
    let expected = "inputs[0].from: found `data/2`; nodes know no base folder: write an absolute path";
    assert_eq!(shared(&["/data/1", "data/2"]), [expected]);
    assert_eq!(shared(&["/data/1", "/data/../2"]), [""; 0]);
}

#[test]
fn streams_and_folders_have_paths() {
    let mut job = job(&["1"]);
    job.stdio = Stdio { stdout: Stream::File("file:///r/{a}".into()), ..Stdio::default() };
    job.workdir = WorkDirPolicy::Path("https://h/{a}".into());
    let expected = "a path is right; a relative one starts from the job file's folder";
    let stdout = format!("stdio.stdout: found the scheme file://; {expected}");
    assert_eq!(said(&job), [stdout, format!("workdir.path: found the scheme https://; {expected}")]);
}

#[test]
fn schemes_may_be_written_in_capitals() {
    let mut job = job(&["1"]);
    job.inputs = vec![input("FILE:///x", "a"), input("Https://h/x", "b"), input("STORE://lab/x", "c")];
    job.outputs = vec![output("out", "File:///r/{a}"), output("out", "STORE://lab/{a}")];
    let compiled = job.compile().unwrap();
    let inputs: Vec<_> =
        compiled.inputs(1, 0).unwrap().into_iter().map(|input| (input.source, input.from)).collect();
    let expected = [(Source::Shared, "/x"), (Source::Url, "Https://h/x"), (Source::Store, "store://lab/x")];
    assert_eq!(inputs, expected.map(|(source, from)| (source, from.to_owned())));
    let outputs = compiled.outputs(1, 0).unwrap();
    assert_eq!(outputs[0].to, OutputTarget::File("/r/1".into()));
    assert_eq!(outputs[1].to.shown(), "store://lab/1");
    assert!(job.stores().contains("lab"));
}
