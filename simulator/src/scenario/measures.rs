//! The results of a run in numbers: for all, and for each user, application and platform.

use scheduler::{
    engine::read::fairness::fairness,
    time::{Span, Time},
};

use super::{Scenario, past::PastPilot};
use crate::{
    report::{Cell, Figure, Listing, Shape},
    world::{
        ledger::{JobAccount, Ledger, PlatformAccount, Tally},
        patience::Stopped,
        timeline::Timeline,
    },
};

/// The metrics. Spans are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Number of submitted tasks; on a platform: tasks that ended there.
    Tasks,
    /// Number of tasks that failed for good.
    Failed,
    /// 1 - σ/μ of the users' times from their first submission to their last task's end (paper 000).
    Fairness,
    /// Time from the first submission to the last end of a task.
    Makespan,
    /// Time from submission to end, summed over jobs.
    Flowtime,
    /// Mean time from submission to end of a job: the papers' average turnaround time.
    Turnaround,
    /// Mean, over tasks that succeeded, of the time from submission to end divided by the runtime; at least
    /// 1, and tasks of less than 10 seconds count as 10 seconds.
    Slowdown,
    /// Mean, over tasks that succeeded, of the time from a job's submission to the task's start.
    Wait,
    /// Tasks that succeeded, per hour of the makespan.
    Throughput,
    /// Core time of attempts that count divided by core time of pilots.
    Utilisation,
    /// Number of pilots that registered.
    Pilots,
    /// Mean queue wait of batch jobs.
    QueueWait,
    /// Number of executions beyond one for each task.
    Repeated,
    /// Core-seconds of executions that do not count.
    Lost,
}

impl Measure {
    /// All metrics in the order of the tables.
    pub const ALL: [Measure; 14] = [
        Measure::Tasks,
        Measure::Failed,
        Measure::Fairness,
        Measure::Makespan,
        Measure::Flowtime,
        Measure::Turnaround,
        Measure::Slowdown,
        Measure::Wait,
        Measure::Throughput,
        Measure::Utilisation,
        Measure::Pilots,
        Measure::QueueWait,
        Measure::Repeated,
        Measure::Lost,
    ];

    /// Returns its name for programs, with the unit.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Tasks => "tasks",
            Measure::Failed => "failed",
            Measure::Fairness => "fairness",
            Measure::Makespan => "makespan_s",
            Measure::Flowtime => "flowtime_s",
            Measure::Turnaround => "turnaround_s",
            Measure::Slowdown => "slowdown",
            Measure::Wait => "wait_s",
            Measure::Throughput => "tasks_per_hour",
            Measure::Utilisation => "utilisation",
            Measure::Pilots => "pilots",
            Measure::QueueWait => "queue_wait_s",
            Measure::Repeated => "repeated",
            Measure::Lost => "lost_core_s",
        }
    }
}

/// The kind of things that a row describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Everything.
    All,
    /// Everything, in the original history.
    History,
    /// A user.
    User,
    /// An application.
    Application,
    /// A platform.
    Platform,
}

impl Group {
    /// Returns the word of the group.
    pub fn word(self) -> &'static str {
        match self {
            Group::All => "all",
            Group::History => "history",
            Group::User => "user",
            Group::Application => "application",
            Group::Platform => "platform",
        }
    }
}

/// The metrics of one member of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its group.
    pub group: Group,
    /// Its name; empty for all.
    pub name: String,
    values: [Option<f64>; Measure::ALL.len()],
}

impl Row {
    fn new(group: Group, name: &str, values: &[(Measure, Option<f64>)]) -> Row {
        let value =
            |measure| values.iter().find(|(named, _)| *named == measure).and_then(|(_, value)| *value);
        Row { group, name: name.to_owned(), values: Measure::ALL.map(value) }
    }

    /// Returns the value; `None` if it has no meaning, or nothing ended.
    pub fn value(&self, measure: Measure) -> Option<f64> {
        self.values[measure as usize].filter(|value| value.is_finite())
    }

    /// Returns the mean of each metric over rows of the same name.
    pub fn mean(rows: &[&Row]) -> Option<Row> {
        Row::over(rows, mean)
    }

    /// Returns the standard deviation of each metric over rows of the same name, as of a sample; `None` if
    /// fewer than two have a value.
    pub fn deviation(rows: &[&Row]) -> Option<Row> {
        Row::over(rows, |values| {
            let mean = mean(values).filter(|_| values.len() > 1)?;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            Some((squares / (values.len() - 1) as f64).sqrt())
        })
    }

    fn over(rows: &[&Row], sum_up: impl Fn(&[f64]) -> Option<f64>) -> Option<Row> {
        let first = rows.first()?;
        let value = |measure| {
            let values: Vec<f64> = rows.iter().filter_map(|row| row.value(measure)).collect();
            sum_up(&values)
        };
        Some(Row { group: first.group, name: first.name.clone(), values: Measure::ALL.map(value) })
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Account {
    /// The row of all, then the row of the history if there is one, then users, applications and platforms in
    /// the scenario's order.
    pub rows: Vec<Row>,
    /// Whether an auditor checked the run.
    pub is_audited: bool,
    /// Number of events that the engine handled.
    pub n_events: u64,
    /// The reason why the run was stopped before all had ended, if it was.
    pub stopped: Option<Stopped>,
    /// Busy cores of each platform, with its name.
    pub timelines: Vec<(String, Timeline)>,
}

impl Account {
    /// Returns the row of all.
    pub fn all(&self) -> &Row {
        &self.rows[0]
    }

    /// Returns the rows as a table.
    pub fn listing(&self) -> Listing {
        let heads = ["of", "name"].into_iter().chain(Measure::ALL.map(Measure::word));
        let cells = |row: &Row| {
            let names = [row.group.word().into(), row.name.as_str().into()];
            names.into_iter().chain(Measure::ALL.map(|measure| number(row.value(measure)))).collect()
        };
        Listing {
            name: "measures".into(),
            title: "What it came to".into(),
            columns: heads.map(str::to_owned).collect(),
            rows: self.rows.iter().map(cells).collect(),
        }
    }

    /// Returns the busy cores over time as a table.
    pub fn busy_cores(&self) -> Listing {
        let rows = self.timelines.iter().flat_map(|(name, timeline)| {
            let points = timeline.points().into_iter();
            points.map(move |(at, cores)| vec![name.as_str().into(), number(Some(at)), number(Some(cores))])
        });
        Listing {
            name: "busy-cores".into(),
            title: "Busy cores over time".into(),
            columns: ["platform", "at_s", "cores"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }
    }

    /// Returns the busy cores over time as a figure.
    pub fn figure(&self) -> Figure {
        let series = self.timelines.iter().map(|(name, timeline)| {
            let hours = |(at, cores): (f64, f64)| (at / 3600.0, cores);
            (name.clone(), timeline.points().into_iter().map(hours).collect())
        });
        Figure {
            name: "busy-cores".into(),
            title: "Busy cores".into(),
            x_label: "hours since the first submission".into(),
            y_label: "cores".into(),
            shape: Shape::Lines { series: series.collect(), is_log_x: false, is_log_y: false },
        }
    }
}

fn number(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, |value| Cell::Number(value, 3))
}

/// Computes the metrics from a ledger.
pub(super) fn account(
    scenario: &Scenario,
    ledger: Ledger,
    n_events: u64,
    stopped: Option<Stopped>,
) -> Account {
    let mut all = of_jobs(Group::All, "", ledger.jobs.iter(), scenario.users.len());
    let platforms: Vec<Row> = scenario
        .platforms
        .iter()
        .zip(&ledger.platforms)
        .map(|(platform, account)| of_platform(&platform.name, platform.capacity.cores, account, &ledger))
        .collect();
    let accounts = scenario.platforms.iter().zip(&ledger.platforms);
    let held: f64 = accounts.map(|(platform, account)| held(platform.capacity.cores, account)).sum();
    let useful: u128 = ledger.platforms.iter().map(|account| account.tally.useful).sum();
    let n_pilots: u64 = ledger.platforms.iter().map(|account| account.n_batch_jobs).sum();
    let queued: u128 = ledger.platforms.iter().map(|account| account.queued_us).sum();
    all.values[Measure::Utilisation as usize] = Some(seconds(useful) / held);
    all.values[Measure::Pilots as usize] = Some(n_pilots as f64);
    all.values[Measure::QueueWait as usize] = Some(seconds(queued) / n_pilots as f64);
    let mut rows = vec![all];
    rows.extend(scenario.history.as_deref().cloned());
    for (user, name) in scenario.users.iter().enumerate() {
        let own = ledger.jobs.iter().filter(|job| job.user == user);
        rows.push(of_jobs(Group::User, name, own, scenario.users.len()));
    }
    for (which, application) in scenario.applications.iter().enumerate() {
        let own = ledger.jobs.iter().filter(|job| job.application == which);
        rows.push(of_jobs(Group::Application, &application.name, own, scenario.users.len()));
    }
    rows.extend(platforms);
    let names = scenario.platforms.iter().map(|platform| platform.name.clone());
    let timelines = names.zip(ledger.platforms.into_iter().map(|account| account.timeline)).collect();
    Account { rows, is_audited: scenario.is_audited(), n_events, stopped, timelines }
}

/// Returns the metrics that all groups have.
fn of_tally(tally: &Tally, begin: Option<Time>) -> Vec<(Measure, Option<f64>)> {
    let makespan = begin.zip(tally.last_end).map(|(begin, end)| end.since(begin).as_secs_f64());
    let n_done = tally.n_done as f64;
    let n_ended = tally.n_done + tally.n_failed;
    vec![
        (Measure::Tasks, Some(n_ended as f64)),
        (Measure::Failed, Some(tally.n_failed as f64)),
        (Measure::Makespan, makespan),
        (Measure::Slowdown, Some(tally.slowdown / n_done)),
        (Measure::Wait, Some(seconds(tally.waited_us) / n_done)),
        (Measure::Throughput, makespan.map(|makespan| n_done * 3600.0 / makespan)),
        (Measure::Repeated, Some(tally.n_executions.saturating_sub(n_ended) as f64)),
        (Measure::Lost, Some(seconds(tally.busy.saturating_sub(tally.useful)))),
    ]
}

fn of_jobs<'a>(
    group: Group,
    name: &str,
    jobs: impl Iterator<Item = &'a JobAccount> + Clone,
    n_users: usize,
) -> Row {
    let mut tally = Tally::default();
    jobs.clone().for_each(|job| tally += &job.tally);
    let begin = jobs.clone().map(|job| job.submitted).min();
    let flows = jobs.clone().filter_map(|job| Some(job.tally.last_end?.since(job.submitted).as_secs_f64()));
    let flows: Vec<f64> = flows.collect();
    let flowtime: f64 = flows.iter().sum();
    let mut spans: Vec<Option<(Time, Time)>> = vec![None; n_users];
    for job in jobs {
        let Some(end) = job.tally.last_end else { continue };
        let span = spans[job.user].get_or_insert((job.submitted, end));
        *span = (span.0.min(job.submitted), span.1.max(end));
    }
    let mut values = of_tally(&tally, begin);
    values.push((Measure::Flowtime, Some(flowtime)));
    values.push((Measure::Turnaround, Some(flowtime / flows.len() as f64)));
    if group != Group::User {
        values.push((Measure::Fairness, fairness_of(spans.into_iter().flatten())));
    }
    Row::new(group, name, &values)
}

fn of_platform(name: &str, cores: u32, account: &PlatformAccount, ledger: &Ledger) -> Row {
    let first = |user| ledger.jobs.iter().filter(|job| job.user == user).map(|job| job.submitted).min();
    let spans = account.last_ends.iter().filter_map(|(user, end)| Some((first(*user)?, *end)));
    let n_pilots = account.n_batch_jobs as f64;
    let mut values = of_tally(&account.tally, Some(ledger.begin));
    values.push((Measure::Fairness, fairness_of(spans)));
    values.push((Measure::Utilisation, Some(seconds(account.tally.useful) / held(cores, account))));
    values.push((Measure::Pilots, Some(n_pilots)));
    values.push((Measure::QueueWait, Some(seconds(account.queued_us) / n_pilots)));
    Row::new(Group::Platform, name, &values)
}

/// Computes the metrics of ended jobs and of past pilots. `n_tried_before`: number of attempts that did not
/// count.
pub(super) fn of_history(
    jobs: &[JobAccount],
    n_users: usize,
    pilots: &[PastPilot],
    n_tried_before: u64,
) -> Row {
    let mut row = of_jobs(Group::History, "", jobs.iter(), n_users);
    let n_pilots = pilots.len() as f64;
    let useful: u128 = jobs.iter().map(|job| job.tally.useful).sum();
    let held: f64 = pilots.iter().map(|pilot| pilot.held.as_secs_f64() * f64::from(pilot.cores)).sum();
    let waited: f64 = pilots.iter().map(|pilot| pilot.waited.as_secs_f64()).sum();
    row.values[Measure::Utilisation as usize] = Some(seconds(useful) / held);
    row.values[Measure::Pilots as usize] = Some(n_pilots);
    row.values[Measure::QueueWait as usize] = Some(waited / n_pilots);
    row.values[Measure::Repeated as usize] = Some(n_tried_before as f64);
    // The cores and times of these attempts are not read.
    row.values[Measure::Lost as usize] = None;
    row
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the fairness of the users' times from first submission to last end; `None` for a single user.
fn fairness_of(spans: impl Iterator<Item = (Time, Time)>) -> Option<f64> {
    let times: Vec<f64> = spans.map(|(from, to)| to.since(from).as_secs_f64()).collect();
    (times.len() > 1).then(|| fairness(&times))
}

/// Returns the core-seconds of a platform's pilots.
fn held(cores: u32, account: &PlatformAccount) -> f64 {
    seconds(account.held_us) * f64::from(cores)
}

/// Converts microseconds to seconds.
fn seconds(us: u128) -> f64 {
    us as f64 / Span::from_secs(1).0 as f64
}
