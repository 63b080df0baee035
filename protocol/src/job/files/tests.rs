//! Tests of what files are for one task.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use scheduler::digest::Digest;

use crate::job::{
    CommandLine, Input, JobSpec, Output, OutputTarget, Source, StorePlace, WorkDirPolicy, safe_relative,
};
use crate::sweep::{Dimension, IntegerRange, Sample, Sweep, Values};

fn input(from: &str, to: &str) -> Input {
    Input { from: from.to_owned(), to: to.to_owned(), ..Input::default() }
}

fn job(inputs: Vec<Input>, lengths: &[u64]) -> JobSpec {
    let command = CommandLine::Args(vec!["cat".to_owned()]);
    let dimension = |(n, len): (usize, &u64)| {
        let range = IntegerRange { from: 0, step: 1, n: *len };
        Dimension::column(["a", "b", "c"][n], Values::Integers(vec![range]))
    };
    let dimensions = lengths.iter().enumerate().map(dimension).collect();
    JobSpec {
        inputs,
        workdir: WorkDirPolicy::Scratch,
        sweep: Sweep { dimensions, sample: None },
        ..JobSpec::new(command, PathBuf::from("/home/ada"))
    }
}

#[test]
fn files_are_counted_by_what_their_names_mention() {
    let inputs = vec![
        input("receptor", "receptor"),
        input("{b}.txt", "b"),
        input("{c}/{a}", "ca"),
        input("{index}", "index"),
    ];
    let compiled = job(inputs, &[2, 3, 5]).compile().unwrap();
    let counts: Vec<u64> = (0..4).map(|n| compiled.n_objects(n)).collect();
    assert_eq!(counts, [1, 3, 10, 30]);
    assert_eq!(compiled.local_files().len(), 44);
}

#[test]
fn sources_are_told_apart_by_their_beginning() {
    let mut shared = input("/data/{a}", "1");
    shared.shared = true;
    let inputs =
        vec![shared, input("file:///data/{a}", "2"), input("https://host/{a}", "3"), input("http/{a}", "4")];
    let compiled = job(inputs, &[2]).compile().unwrap();
    let found: Vec<(Source, String)> =
        compiled.inputs(1, 1).unwrap().into_iter().map(|input| (input.source, input.from)).collect();
    let expected = [
        (Source::Shared, "/data/1"),
        (Source::Shared, "/data/1"),
        (Source::Url, "https://host/1"),
        (Source::Home, "http/1"),
    ];
    assert_eq!(found, expected.map(|(source, from)| (source, from.to_owned())));
}

#[test]
fn nothing_is_outside_of_its_folder() {
    let below = |text: &str| safe_relative(text).map(|path| path.to_string_lossy().into_owned());
    assert_eq!(below("./a/./b"), Some("a/b".to_owned()));
    for text in ["", ".", "/a", "..", "a/../b", "a/", "a/.", "a\0b"] {
        assert_eq!(below(text), None, "{text}");
    }
    // A value may lead out where the name that it stands in does not; whoever runs it looks again.
    let mut job = job(vec![input("x", "{a}")], &[2]);
    job.sweep = Sweep::from_lists(vec![("a".to_owned(), vec!["in".to_owned(), "../out".to_owned()])]);
    let problems = job.validate();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].to_string().starts_with("inputs[0].to: found `../out`"), "{}", problems[0]);
}

#[test]
fn outputs_go_below_the_folder_or_where_nodes_see_them() {
    let output = |from: &str, to: &str| Output { from: from.into(), to: to.into(), ..Output::default() };
    let mut job = job(Vec::new(), &[2]);
    job.outputs = vec![
        output("out", "out/{a}"),
        output("out", "file:///data/{a}"),
        output("out", "store://lab/{job}/{a}"),
    ];
    let found = job.compile().unwrap().outputs(1, 1).unwrap();
    assert_eq!(found[0].to, OutputTarget::Home("out/1".into()));
    assert_eq!(found[1].to, OutputTarget::File("/data/1".into()));
    assert_eq!(found[2].to, OutputTarget::Store(StorePlace::parse("store://lab/1/1").unwrap()));
    assert_eq!(job.stores(), BTreeSet::from(["lab"]));
    let fields: Vec<(String, &str)> = job.places_in_stores().collect();
    assert_eq!(fields, [("outputs[2].to".to_owned(), "store://lab/{job}/{a}")]);
}

#[test]
fn patterns_and_folders_of_outputs_keep_names_from_where_these_may_differ() {
    let left = |from: &str, to: &str| {
        let mut job = job(Vec::new(), &[2]);
        job.outputs = vec![Output { from: from.into(), to: to.into(), ..Output::default() }];
        assert_eq!(job.validate(), [], "{from} {to}");
        job.compile().unwrap().outputs(1, 1).unwrap().remove(0)
    };
    let goes = |from: &str, to: &str, path: &str| {
        let output = left(from, to);
        output.name_of(path).and_then(|name| output.to.join(&name))
    };
    let home = |path: &str| Some(OutputTarget::Home(path.into()));
    assert_eq!(goes("part*.txt", "r/{a}", "part7.txt"), home("r/1/part7.txt"));
    assert_eq!(goes("part*.txt", "r/{a}/", "in/part7.txt"), None);
    assert_eq!(goes("res/", "r/{a}", "res/in/x"), home("r/1/in/x"));
    assert_eq!(goes("res/", "r/{a}", "resx"), None);
    assert_eq!(goes("./", "r/{a}", "in/x"), home("r/1/in/x"));
    assert_eq!(goes("a/b*/**.log", "r/{a}", "a/b1/c/d.log"), home("r/1/b1/c/d.log"));
    // The parameter in the names that are kept tells tasks apart, too.
    assert_eq!(goes("out-{a}-?.txt", ".", "out-1-x.txt"), home("out-1-x.txt"));
    assert_eq!(goes("*", "file:///data/{a}/", "x"), Some(OutputTarget::File("/data/1/x".into())));
    let stored = StorePlace::parse("store://lab/{a}/x".replace("{a}", "1").as_str()).map(OutputTarget::Store);
    assert_eq!(goes("*", "store://lab/{a}", "x"), stored);
    assert_eq!(goes("*", "store://lab/{a}", "x "), None);
}

#[test]
fn files_may_go_only_where_an_output_says() {
    let output = |from: &str, to: &str| {
        let mut job = job(vec![], &[2]);
        job.outputs = vec![Output { from: from.into(), to: to.into(), ..Output::default() }];
        job.compile().unwrap().outputs(1, 1).unwrap().remove(0)
    };
    let cases: &[(&str, &str, &[&str], &[&str])] = &[
        (
            "out",
            "res/{a}.txt",
            &["res/1.txt", "res/1.txt/part", "res/1.txt/a/b"],
            &[
                "res/0.txt",
                "res/1.txt/",
                "res/1.txt/../x",
                "/res/1.txt",
                "res/./1.txt",
                "res/1.txtx",
                "",
                ".bashrc",
            ],
        ),
        (
            "out/*.log",
            "logs/{a}/",
            &["logs/1/x.log"],
            &[
                "logs/1/x.txt",
                "logs/1/d/x.log",
                "logs/0/x.log",
                "logs/1",
                "logs/1/../x.log",
                "x.log",
                "logs/1//x.log",
            ],
        ),
        ("out/", "all/{a}", &["all/1/x", "all/1/d/e"], &["all/1", "all/x", "all/1/../../x", "../all/1/x"]),
        (
            "out",
            "file:///net/{a}",
            &["file:///net/1"],
            &["file:///net/0", "/net/1", "net/1", "file:///etc/passwd"],
        ),
        (
            "out/",
            "store://lab/{a}",
            &["store://lab/1/x"],
            &["store://lab/0/x", "store://other/1/x", "store://lab/1/../0/x", "lab/1/x"],
        ),
    ];
    for (from, to, right, wrong) in cases {
        let output = output(from, to);
        right.iter().for_each(|place| assert!(output.may_go_to(place), "{from} to {to}: {place}"));
        wrong.iter().for_each(|place| assert!(!output.may_go_to(place), "{from} to {to}: {place}"));
    }
}

#[test]
fn what_is_left_out_is_below_where_an_output_goes() {
    let output = |from: &str, to: &str| {
        let mut job = job(vec![], &[2]);
        job.outputs = vec![Output { from: from.into(), to: to.into(), ..Output::default() }];
        job.compile().unwrap().outputs(1, 1).unwrap().remove(0)
    };
    let pattern = output("out/*.log", "logs/{a}/");
    for right in ["logs/1/x.log", "logs/1/d", "logs/1/d/e", "logs/1/"] {
        assert!(pattern.may_leave_out(right), "{right}");
    }
    for wrong in ["logs/0/d", "logs/1/../d", "/logs/1/d", "logs/11", "x", ""] {
        assert!(!pattern.may_leave_out(wrong), "{wrong}");
    }
    let one = output("out", "res/{a}.txt");
    assert!(one.may_leave_out("res/1.txt") && !one.may_leave_out("res/0.txt") && !one.may_leave_out("res"));
}

#[test]
fn outputs_that_mean_nothing_or_would_meet_are_refused() {
    let said = |outputs: &[(&str, &str)]| {
        let mut job = job(Vec::new(), &[2]);
        let output = |(from, to): &(&str, &str)| Output {
            from: (*from).into(),
            to: (*to).into(),
            ..Output::default()
        };
        job.outputs = outputs.iter().map(output).collect();
        job.validate().first().map(ToString::to_string).unwrap_or_default()
    };
    for (from, to, expected) in [
        (
            "part*.txt",
            ".",
            "outputs[0]: found one folder for all values of `a`; tasks would overwrite each other's files; put {index} or the parameter into `to`, the folder",
        ),
        ("res/", "res", "outputs[0]: found one folder for all values of `a`"),
        (
            "part[0-9].txt",
            "{a}",
            "outputs[0].from: found brackets in `part[0-9].txt`; patterns know `*`, `?` and `**`",
        ),
        ("out.{log,txt}", "{a}", "outputs[0].from: found braces with several names in `out.{log,txt}`"),
        ("part{1..9}.txt", "{a}", "outputs[0].from: found braces with several names"),
        ("~/x", "{a}", "outputs[0].from: found `~/x`; nothing is expanded here"),
        (
            "*.txt",
            "{a}/*.txt",
            "outputs[0].to: found a pattern (`{a}/*.txt`); several files keep their names",
        ),
        (
            "one.txt",
            "{a}/*.txt",
            "outputs[0].to: found `*` in `{a}/*.txt`; it would be a part of the file's name",
        ),
        ("../*", "{a}", "outputs[0].from: found `../*`; a path below the folder is right"),
        ("/tmp/", "{a}", "outputs[0].from: found `/tmp/`; a path below the folder is right"),
        ("*", "../{a}", "outputs[0].to: found `../0`; a path below the folder is right"),
        ("*", "store://lab/", "outputs[0]: found one folder"),
    ] {
        let found = said(&[(from, to)]);
        assert!(found.starts_with(expected), "{from} {to}: {found}");
    }
    assert_eq!(said(&[("*.txt", "r/{a}"), ("*.log", "r/{a}"), ("res/", "r/{a}")]), "");
    let found = said(&[("*.txt", "r/{a}"), ("*.txt", "r/{a}")]);
    assert!(found.starts_with("outputs[1]: found `r/0/*.txt` also of outputs[0]"), "{found}");
}

#[test]
fn addresses_that_no_request_can_be_made_of_are_refused() {
    let found = |from: &str, values: [&str; 2]| {
        let mut job = job(vec![input(from, "in")], &[2]);
        job.sweep = Sweep::from_lists(vec![("a".to_owned(), values.map(str::to_owned).to_vec())]);
        job.validate().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = "write http://HOST/… or http://HOST:PORT/…";
    let port = "inputs[0].from: found an address whose port is no number up to 65535";
    assert_eq!(found("http://h:80/{a}", ["1", "2"]), [""; 0]);
    let said = found("http://127.0.0.1:8877x/ok", ["1", "2"]);
    assert_eq!(said, [format!("{port}, `http://127.0.0.1:8877x/ok`; {expected}")]);
    let said = found("http:///x", ["1", "2"]);
    assert_eq!(said, [format!("inputs[0].from: found an address without a host, `http:///x`; {expected}")]);
    // The value of one task.
    assert_eq!(found("http://h:{a}/x", ["80", "8x"]), [format!("{port}, `http://h:8x/x`; {expected}")]);
}

#[test]
fn a_store_is_named_in_letters_and_a_place_in_it_is_below_its_folder() {
    let output = |to: &str| Output { from: "out".into(), to: to.into(), ..Output::default() };
    let values = vec!["store://lab/1".to_owned(), "store://lab/2".to_owned()];
    let found = |from: &str, to: &str| {
        let mut job = job(vec![input(from, "in")], &[2]);
        job.outputs = vec![output(to)];
        job.sweep = Sweep::from_lists(vec![("a".to_owned(), values.clone())]);
        job.validate().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = "write the store's name in letters, without a parameter: which stores a job needs is known before its \
                    values (`pilotfish stores` lists them)";
    assert_eq!(found("store://lab/x", "store://lab/{index}"), [""; 0]);
    assert_eq!(found("{a}", "{index}"), [format!("inputs[0].from: found `{{a}}`; {expected}")]);
    assert_eq!(found("x", "{a}"), [format!("outputs[0].to: found `{{a}}`; {expected}")]);
    let by_value = format!("outputs[0].to: found `store://{{a}}/x`; {expected}");
    assert_eq!(found("x", "store://{a}/x")[0], by_value);
    let expected = "a path below the store's folder is right: without `..` and `.`, and with a file's name";
    let outside = "store://lab/../{index}";
    assert_eq!(found("x", outside), [format!("outputs[0].to: found `store://lab/../0`; {expected}")]);
}

#[test]
fn a_program_that_is_brought_is_run_where_it_is() {
    let mut job = job(vec![input("dock.sh", "dock.sh")], &[1]);
    job.command = CommandLine::Args(vec!["./dock.sh".to_owned()]);
    assert_eq!(job.compile().unwrap().task(1, 0).argv, ["./dock.sh"]);
    job.inputs[0].to = "other.sh".to_owned();
    assert_eq!(job.compile().unwrap().task(1, 0).argv, ["/home/ada/./dock.sh"]);
}

proptest! {
    /// Whatever a name mentions of whatever sweep: the object of a task's input is that of its file.
    #[test]
    fn each_task_gets_the_object_of_its_file(
        lengths in prop::collection::vec(1..5_u64, 0..4),
        mentioned in prop::collection::vec(0..4_usize, 0..4),
        n_sampled in prop::option::of(1..20_u64),
    ) {
        let names: Vec<&str> = ["{a}", "{b}", "{c}"][..lengths.len().min(3)].to_vec();
        let lengths = &lengths[..lengths.len().min(3)];
        let mut from = "f".to_owned();
        for n in mentioned {
            from += "-";
            from += names.get(n).copied().unwrap_or("{index}");
        }
        let mut job = job(vec![input(&from, "in")], lengths);
        let n_all: u64 = lengths.iter().product();
        job.sweep.sample = n_sampled.map(|n| Sample { n: n.min(n_all), seed: 7 });
        let files = job.compile().unwrap().local_files();
        // The digest of each tells its place among them.
        let digest = |n: usize| Digest(std::array::from_fn(|k| (n >> (8 * (k % 4))) as u8));
        job.inputs[0].objects.sha256 = (0..files.len()).map(digest).collect();
        job.inputs[0].objects.bytes = vec![1; files.len()];
        prop_assert_eq!(job.validate_objects(), []);
        let compiled = job.compile().unwrap();
        for index in 0..compiled.n_tasks() {
            let input = &compiled.inputs(9, index).unwrap()[0];
            let place = files.iter().position(|file| file.path == Path::new("/home/ada").join(&input.from));
            let place = place.expect("its file is among them");
            let sha256 = input.sha256.expect("it is known");
            let of_place = files.iter().enumerate().filter(|(n, _)| digest(*n) == sha256);
            prop_assert!(of_place.into_iter().any(|(_, file)| file.path == files[place].path));
        }
    }
}
