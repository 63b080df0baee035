//! Tests of jobs of workload logs in scenarios: their arrivals, numbers of tasks and runtimes.

use std::fs;

use scheduler::{resources::Resources, time::Span};
use tempfile::TempDir;

use super::{
    Scenario,
    measures::Measure,
    past::{Lengths, PastJob},
};

/// A log in which the second job was cancelled, and the last one was submitted before the third.
const LOG: &str = "; MaxProcs: 128
1 1000 5 100 4 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
2 1007 0 -1 4 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
3 1060 0 30.5 9 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
4 1010 0 20 1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1
";

/// A directory with a log.
struct Folder(TempDir);

impl Folder {
    fn with(log: &str) -> Folder {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("a.swf"), log).unwrap();
        Folder(folder)
    }

    /// Reads a scenario in it with these entries of ada's jobs.
    fn read(&self, jobs: &str) -> Result<Scenario, Vec<String>> {
        let text = format!(
            "platforms: [{{name: a, nodes: 2, cores: 4}}]
applications: [{{name: batch, time: logged, cores: 2}}, {{name: docking, time: 5s}}]
users: [{{name: bob, jobs: [{{application: docking, tasks: 1}}]}}, {{name: ada, jobs: [{jobs}]}}]
"
        );
        let name = self.0.path().join("s.yaml").display().to_string();
        let here = format!("{}/", self.0.path().display());
        let said = |problem: &protocol::job::Problem| problem.to_string().replace(&here, "");
        Scenario::parse(&text, &name).map_err(|problems| problems.iter().map(said).collect())
    }
}

#[track_caller]
fn check_refused(log: &str, jobs: &str, expected: &[&str]) {
    let folder = Folder::with(log);
    let said = folder.read(jobs).map(|_| ()).expect_err(jobs);
    assert_eq!(said, expected, "{jobs}");
}

#[test]
fn jobs_of_a_log_come_as_they_came() {
    let folder = Folder::with(LOG);
    let jobs = "{application: batch, priority: 3, at: 10s, arrivals: {swf: a.swf}}, {application: batch, arrivals: {swf: a.swf, first: 2, compressed: 2}}";
    let scenario = folder.read(jobs).unwrap();
    let seen = |past: &PastJob| {
        let Lengths::Alike(span) = past.lengths else { panic!("{past:?}") };
        assert_eq!((past.job.user, &past.job.needs.resources), (1, &Resources::cores(2)));
        (past.job.at, past.job.n_tasks, span, past.job.priority)
    };
    let s = Span::from_secs;
    assert_eq!(
        scenario.past.iter().map(seen).collect::<Vec<_>>(),
        [
            (s(10), 2, s(100), 3),
            (s(20), 1, s(20), 3),
            // 9 processors are 5 tasks of 2 cores.
            (s(70), 5, Span::from_millis(30_500), 3),
            (s(0), 2, s(100), 0),
            (s(5), 1, s(20), 0),
        ]
    );
    assert_eq!((scenario.n_jobs(), scenario.n_tasks()), (6, 12));
    let account = scenario.run(None).unwrap();
    assert_eq!(account.all().value(Measure::Tasks), Some(12.0));
    // 5 s of docking on 1 core, the logged runtimes on 2.
    let useful = 5.0 + 2.0 * (4.0 * 100.0 + 2.0 * 20.0 + 5.0 * 30.5);
    let busy = account.timelines[0].1.total() as f64 / 1e6;
    assert!((busy - useful).abs() < 1e-3, "{busy}, not {useful}");
}

#[test]
fn times_of_a_log_are_divided_by_a_platforms_speed() {
    let folder = Folder::with("1 0 0 100 1 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n");
    let text = "platforms: [{name: a, nodes: 1, cores: 1, speed: 4}]
applications: [{name: batch, time: logged}]
users: [{name: ada, jobs: [{application: batch, arrivals: {swf: a.swf}}]}]
";
    let scenario = Scenario::parse(text, &folder.0.path().join("s.yaml").display().to_string()).unwrap();
    let makespan = scenario.run(None).unwrap().all().value(Measure::Makespan).unwrap();
    assert!((25.0..25.5).contains(&makespan), "{makespan}");
}

#[test]
fn mistakes_in_logs_are_told_with_their_line_and_field() {
    let log = "{application: batch, arrivals: {swf: a.swf}}";
    let place = "s.yaml:3: users[1].jobs[0].arrivals.swf: found a log with a mistake; ";
    let cases = [
        (
            LOG.replace("30.5", "-30"),
            "a.swf:4: field 4 (run time): found `-30`; write 0 or more seconds, or -1",
        ),
        (
            LOG[..LOG.len() - 12].to_owned(),
            "a.swf:5: found 14 fields; a line has 18, and field 15 (queue number) is missing: is the file cut off here?",
        ),
        ("; nothing\n".to_owned(), "a.swf: found no job that ran; a log needs one at least"),
    ];
    for (text, expected) in cases {
        check_refused(&text, log, &[&format!("{place}{expected}")]);
    }
    let missing = Folder::with(LOG).read(&log.replace("a.swf", "b.swf")).unwrap_err();
    assert!(
        missing[0].starts_with("s.yaml:3: users[1].jobs[0].arrivals.swf: `b.swf` cannot be opened ("),
        "{missing:?}"
    );
}

#[test]
fn what_a_log_says_is_not_said_again() {
    let place = "s.yaml:3: users[1].jobs[0]";
    check_refused(
        LOG,
        "{application: {batch: 1}, tasks: 4, count: 2, arrivals: {swf: a.swf, first: 0, compressed: 0}}",
        &[
            &format!(
                "{place}.application: found a mapping; name one application: the jobs of a log are all of it"
            ),
            &format!("{place}.tasks: found 4; leave it out: the log says it"),
            &format!("{place}.count: found 2; leave it out: the log says it"),
            &format!("{place}.arrivals.first: found 0; write a whole number, at least 1"),
            &format!("{place}.arrivals.compressed: found 0; write a number above 0"),
        ],
    );
    check_refused(
        LOG,
        "{application: docking, arrivals: {swf: a.swf}}, {application: batch, tasks: 4}",
        &[
            &format!(
                "{place}.application: `docking` has times of its own; jobs of a log need an application with `time: logged`"
            ),
            "s.yaml:3: users[1].jobs[1].application: found `batch`, whose times are those of a log; say how its jobs come: arrivals: {swf: log.swf.gz}",
        ],
    );
}
