//! Jobs that come from anywhere: they are the same after a journey, and refused when they are wrong.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::job::{CommandLine, Extract, JobSpec, Problem, Stream, WorkDirPolicy, limits};
use crate::sweep::{Column, Dimension, IntegerRange, Sample, Sweep, Values};

fn job() -> JobSpec {
    JobSpec::new(CommandLine::Args(vec!["echo".to_owned(), "{x}".to_owned()]), PathBuf::from("/base"))
}

fn swept(dimensions: Vec<Dimension>) -> JobSpec {
    JobSpec { sweep: Sweep { dimensions, sample: None }, ..job() }
}

fn column(name: &str, values: Values) -> Column {
    Column { name: name.to_owned(), values }
}

fn problems(job: &JobSpec) -> String {
    let lines: Vec<String> = job.validate().iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// One problem at least, and the same that keep it from being compiled.
fn refused(job: JobSpec) -> String {
    assert_eq!(job.compile().unwrap_err(), job.validate());
    problems(&job)
}

fn one_of_everything() -> JobSpec {
    let zipped = vec![
        column("x", Values::Integers(vec![IntegerRange { from: -1, step: 2, n: 2 }])),
        column("y", Values::Texts(vec!["a b".to_owned(), "é".to_owned()].into())),
    ];
    let points = Values::Linspace { from: 0.1 + 0.2, to: 1e300, n: 5 };
    let mut job = swept(vec![Dimension { columns: zipped }, Dimension::column("z", points)]);
    job.sweep.sample = Some(Sample { n: 3, seed: u64::MAX });
    job.env.insert("A".to_owned(), "{y.stem}".to_owned());
    job.generic.insert("licence".to_owned(), 2);
    job.time_limit_ms = Some(1);
    job.max_failures = Some(0);
    job.workdir = WorkDirPolicy::Path("runs/{index}".to_owned());
    job.stdio.stdin = Stream::File("in".to_owned());
    job.results.extract = vec![Extract { name: "e".to_owned(), pattern: "(.)".to_owned() }];
    job
}

#[test]
fn job_is_the_same_after_every_journey() {
    for job in [job(), one_of_everything()] {
        let json = serde_json::to_vec(&job).unwrap();
        assert_eq!(serde_json::from_slice::<JobSpec>(&json).unwrap(), job);
    }
    // Agents and managers of before there were estimates refuse fields that they do not know.
    assert!(!serde_json::to_string(&job()).unwrap().contains("estimate"));
    assert_eq!(problems(&one_of_everything()), "");
}

#[test]
fn unknown_fields_of_a_received_job_are_refused() {
    let mut json = serde_json::to_value(job()).unwrap();
    json["colour"] = "red".into();
    let error = serde_json::from_value::<JobSpec>(json).unwrap_err();
    assert!(error.to_string().starts_with("unknown field `colour`"), "{error}");
}

#[test]
fn sweeps_that_no_job_file_can_have_are_refused() {
    let texts = |values: &[&str]| Values::Texts(values.iter().map(|value| (*value).to_owned()).collect());
    let range = |from, step, n| Values::Integers(vec![IntegerRange { from, step, n }]);
    let one = |values| refused(swept(vec![Dimension::column("x", values)]));
    let empty = "sweep.x: found no value; give at least one, or leave the parameter out";
    assert_eq!(one(texts(&[])), empty);
    assert_eq!(one(Values::Integers(vec![])), empty);
    assert_eq!(one(range(1, 1, 0)), empty);
    assert_eq!(one(Values::Linspace { from: 0.0, to: 1.0, n: 0 }), empty);
    assert_eq!(one(range(1, 0, 5)), "sweep.x: found step 0; the step must not be 0");
    assert_eq!(
        one(range(i64::MAX, 1, 2)),
        "sweep.x: found 2 numbers from 9223372036854775807 in steps of 1; the last must be below 2^63"
    );
    assert_eq!(
        one(Values::Linspace { from: f64::NAN, to: f64::INFINITY, n: 2 }),
        "sweep.x: found ends NaN and inf; both must be finite numbers"
    );
    assert_eq!(one(texts(&["a\0"])), "sweep.x: found a NUL character; programs cannot be given that one");
    let uneven = Dimension { columns: vec![column("x", texts(&["a"])), column("y", texts(&["a", "b"]))] };
    assert_eq!(
        refused(swept(vec![uneven])),
        "sweep.y: found 2 values where `x` has 1; parameters in step need equally many values"
    );
    let bare = Dimension { columns: vec![] };
    let text = refused(JobSpec { command: CommandLine::Shell("true".to_owned()), ..swept(vec![bare]) });
    assert_eq!(text, "sweep: found a dimension without parameters; give it at least one");
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    let long = "x".repeat(limits::TEXT_BYTES_MAX + 1);
    let refused_with = |change: &dyn Fn(&mut JobSpec)| {
        let mut job = JobSpec { command: CommandLine::Shell("true".to_owned()), ..job() };
        change(&mut job);
        refused(job)
    };
    for (said, change) in [
        (
            "128KiB",
            &(|job: &mut JobSpec| job.command = CommandLine::Shell(long.clone())) as &dyn Fn(&mut JobSpec),
        ),
        ("10000 are", &|job| job.command = CommandLine::Args(vec!["x".to_owned(); 10_001])),
        ("200 are", &|job| job.name = "x".repeat(201)),
        ("64 are", &|job| job.generic = (0..65).map(|i| (format!("r{i}"), 1)).collect()),
        ("1000 are", &|job| job.env = (0..1001).map(|i| (format!("V{i}"), String::new())).collect()),
        ("2000000 are", &|job| {
            job.sweep = Sweep::from_lists(vec![("x".to_owned(), vec![String::new(); 2_000_001])]);
        }),
        ("64 are", &|job| {
            job.sweep = Sweep::from_lists((0..65).map(|i| (format!("p{i}"), vec![String::new()])).collect());
        }),
        ("4096", &|job| job.workdir = WorkDirPolicy::Path("x".repeat(4097))),
        ("at most 1000", &|job| job.retries.count = u32::MAX),
        ("366d", &|job| job.retries.delay_ms = u64::MAX),
        ("366d", &|job| job.time_limit_ms = Some(u64::MAX)),
        ("1PiB", &|job| job.memory_bytes = u64::MAX),
        ("1024", &|job| job.gpus = u32::MAX),
        ("65536", &|job| job.cores = u32::MAX),
        ("1 to 1000", &|job| job.crash_limit = u32::MAX),
        ("64MiB", &|job| job.results.limit_bytes = u64::MAX),
        ("1TiB", &|job| job.results.budget_bytes = u64::MAX),
        ("0 are allowed", &|job| {
            (job.stdio.stdout, job.results.files) = (Stream::File("out/{index}".to_owned()), 0);
        }),
        ("absolute", &|job| job.base_dir = PathBuf::from("relative")),
    ] {
        let text = refused_with(change);
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn many_problems_are_reported_together() {
    let mut job = swept(vec![Dimension::column("index", Values::Integers(vec![]))]);
    job.cores = 0;
    job.success_codes = vec![300];
    job.stdio.stdin = Stream::Archive;
    assert_eq!(job.validate().len(), 6, "{}", problems(&job));
}

fn any_values() -> impl Strategy<Value = Values> {
    prop_oneof![
        prop::collection::vec("\\PC{0,4}", 0..4).prop_map(|texts: Vec<String>| Values::Texts(texts.into())),
        prop::collection::vec((any::<i64>(), any::<i64>(), any::<u64>()), 0..4).prop_map(|ranges| {
            let range = |(from, step, n)| IntegerRange { from, step, n };
            Values::Integers(ranges.into_iter().map(range).collect())
        }),
        (any::<f64>(), any::<f64>(), any::<u64>()).prop_map(|(from, to, n)| Values::Linspace { from, to, n }),
    ]
}

proptest! {
    /// Whatever arrives, asking for a task ends without a panic, checked or not.
    #[test]
    fn any_sweep_is_computed_or_refused(
        dimensions in prop::collection::vec(prop::collection::vec(("[a-z0-9{}.]{0,3}", any_values()), 0..3), 0..4),
        sample in prop::option::of((any::<u64>(), any::<u64>())),
        index in any::<u64>(),
        line in "[a-z0-9{}.:'\"$() -]{0,30}",
    ) {
        let dimension = |columns: Vec<(String, Values)>| Dimension {
            columns: columns.into_iter().map(|(name, values)| Column { name, values }).collect(),
        };
        let mut job = swept(dimensions.into_iter().map(dimension).collect());
        job.sweep.sample = sample.map(|(n, seed)| Sample { n, seed });
        job.command = CommandLine::Shell(line);
        prop_assert_eq!(job.sweep.values(index).len(), job.sweep.names().count());
        if let Ok(compiled) = job.compile() {
            prop_assert!(compiled.n_tasks() >= 1);
            prop_assert_eq!(compiled.task(1, index % compiled.n_tasks()).argv.len(), 3);
        }
    }
}
