//! Reads users, their jobs, and faults of a scenario file.

use std::path::Path;

use protocol::job::{Node, Reader};
use scheduler::time::Span;

use super::{
    Application, Arrivals, Faults, Lot,
    past::PastJob,
    read_log::{self, SAID_BY_LOG, WISH_FIELDS, Wish},
    read_values::{N_TASKS_MAX, duration, which},
};
use crate::{pattern::Pattern, world::plan::Rates};

const JOB_FIELDS: [&str; 6] = ["application", "tasks", "count", "priority", "at", "arrivals"];
const JOB_EXPECTED: &str = "write jobs like {application: docking, tasks: 100}";
const ARRIVALS_EXPECTED: &str =
    "write {poisson: 5m}, the mean gap, {pattern: bursting, over: 2h}, or {swf: log.swf.gz}";
/// The fields of `faults` other than rates.
const FAULT_FIELDS: [&str; 4] = ["until", "within", "manager_deaths", "manager_away"];
/// Tolerance for weights, which are written with few digits.
const ROUNDING: f64 = 1e-6;

/// Names that jobs can use.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) applications: &'a [Application],
    /// The names of the applications.
    pub(super) names: &'a [&'a str],
    /// The directory to which paths of logs are relative.
    pub(super) folder: &'a Path,
}

/// An entry of a user's jobs.
pub(super) enum Jobs {
    /// Similar jobs.
    Lot(Lot),
    /// Jobs of a log.
    Past(Vec<PastJob>),
}

/// The arrivals of an entry's jobs.
enum Coming<'v> {
    Drawn(Arrivals),
    Logged(Wish<'v>),
}

/// Reads a user's name and jobs.
pub(super) fn user(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    known: Known<'_>,
) -> Option<(String, Vec<Jobs>)> {
    let mut fields = reader.fields(node, &["name", "jobs"], "write a user like {name: ada, jobs: […]}")?;
    let name = reader.required(&mut fields, node, "name", "name the user");
    let jobs = reader.required(&mut fields, node, "jobs", JOB_EXPECTED);
    let name = name.and_then(|node| reader.text(&node));
    let items = jobs.and_then(|node| reader.items(&node, JOB_EXPECTED)).unwrap_or_default();
    let entries = items.iter().filter_map(|item| jobs_of(reader, item, known)).collect();
    Some((name?, entries))
}

fn jobs_of(reader: &mut Reader<'_>, node: &Node<'_>, known: Known<'_>) -> Option<Jobs> {
    let mut fields = reader.fields(node, &JOB_FIELDS, JOB_EXPECTED)?;
    let priorities = (i128::from(i32::MIN), i128::from(i32::MAX));
    let priority = fields.take("priority").and_then(|node| reader.integer(&node, priorities)).unwrap_or(0);
    let at = fields.take("at").and_then(|node| duration(reader, &node)).unwrap_or(Span::ZERO);
    let arrivals = match fields.take("arrivals") {
        Some(node) => arrivals(reader, &node),
        None => Some(Coming::Drawn(Arrivals::AtOnce)),
    };
    let application = reader.required(&mut fields, node, "application", JOB_EXPECTED);
    if let Some(Coming::Logged(wish)) = arrivals {
        for name in SAID_BY_LOG {
            if let Some(node) = fields.take(name) {
                reader.refuse::<()>(&node, "leave it out: the log says it");
            }
        }
        let one = application.and_then(|node| one_logged(reader, &node, known));
        let jobs = wish.jobs(reader, known.folder)?.into_iter();
        let one = one?;
        return Some(Jobs::Past(jobs.map(|job| read_log::past_job(&job, one, (at, priority))).collect()));
    }
    let tasks = reader.required(&mut fields, node, "tasks", JOB_EXPECTED);
    let applications = application.and_then(|node| applications(reader, &node, known));
    let n_tasks = tasks.and_then(|node| reader.integer(&node, (1, i128::from(N_TASKS_MAX))));
    let n_jobs = fields.take("count").and_then(|node| reader.integer(&node, (1, 1_000_000)));
    let Some(Coming::Drawn(arrivals)) = arrivals else { return None };
    Some(Jobs::Lot(Lot {
        user: 0,
        applications: applications?,
        n_tasks: n_tasks?,
        n_jobs: n_jobs.unwrap_or(1),
        priority,
        at,
        arrivals,
    }))
}

/// Reads the application of a log's jobs.
fn one_logged<'a>(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    known: Known<'a>,
) -> Option<(usize, &'a Application)> {
    if node.value.is_mapping() {
        return reader.refuse(node, "name one application: the jobs of a log are all of it");
    }
    let name = reader.text(node)?;
    let place = which(reader, &node.path, &name, known.names)?;
    let application = &known.applications[place];
    if application.time.is_some() {
        let found = format!("`{name}`, which has times of its own");
        return reader.report(&node.path, found, "jobs of a log need an application with `time: logged`");
    }
    Some((place, application))
}

/// Reads one application, or several with weights.
fn applications(reader: &mut Reader<'_>, node: &Node<'_>, known: Known<'_>) -> Option<Vec<(usize, f64)>> {
    if !node.value.is_mapping() {
        let name = reader.text(node)?;
        return timed(reader, &node.path, &name, known).map(|one| vec![(one, 1.0)]);
    }
    let entries = reader.entries(node, JOB_EXPECTED)?;
    let (mut weights, n_named) = (Vec::new(), entries.len());
    for (name, node) in entries {
        let application = timed(reader, &node.path, &name, known);
        let weight = reader.number(&node);
        let weight = weight.filter(|weight| {
            let is_weight = (0.0..=1.0).contains(weight);
            if !is_weight {
                reader.refuse::<()>(&node, "write a weight from 0 to 1");
            }
            is_weight
        });
        weights.extend(application.zip(weight));
    }
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    if weights.len() == n_named && (sum - 1.0).abs() > ROUNDING {
        return reader.report(&node.path, format!("weights that sum to {sum}"), "they must sum to 1");
    }
    Some(weights)
}

/// Returns the position of an application with a given runtime.
fn timed(reader: &mut Reader<'_>, path: &str, name: &str, known: Known<'_>) -> Option<usize> {
    let place = which(reader, path, name, known.names)?;
    if known.applications[place].time.is_none() {
        let found = format!("`{name}`, whose times are those of a log");
        return reader.report(path, found, "say how its jobs come: arrivals: {swf: log.swf.gz}");
    }
    Some(place)
}

fn arrivals<'v>(reader: &mut Reader<'_>, node: &Node<'v>) -> Option<Coming<'v>> {
    let known = ["poisson", "pattern", "over", "swf", "first", "compressed"];
    let mut fields = reader.fields(node, &known, ARRIVALS_EXPECTED)?;
    if let Some(swf) = fields.take("swf") {
        let wishes = WISH_FIELDS.map(|name| fields.take(name));
        return Some(Coming::Logged(read_log::wish(reader, swf, wishes)));
    }
    if let Some(gap) = fields.take("poisson") {
        return duration(reader, &gap).map(Arrivals::Poisson).map(Coming::Drawn);
    }
    let pattern = reader.required(&mut fields, node, "pattern", ARRIVALS_EXPECTED);
    let over = reader.required(&mut fields, node, "over", "say over what time: over: 2h");
    let words = Pattern::ALL.map(|pattern| (pattern.word(), pattern));
    let pattern = pattern.and_then(|node| reader.word(&node, &words));
    let over = over.and_then(|node| duration(reader, &node));
    Some(Coming::Drawn(Arrivals::Pattern(pattern?, over?)))
}

/// Reads the faults. Rates are those of the fault simulation: once in that many chances.
pub(super) fn faults(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Faults> {
    let mut faults = Faults::default();
    let known: Vec<&str> = faults.rates.words().iter().map(|(word, _)| *word).chain(FAULT_FIELDS).collect();
    let mut fields = reader.fields(node, &known, "write how often what fails, like {pilot_dies: 20}")?;
    for (word, rate) in faults.rates.words() {
        let once_in = fields.take(word).and_then(|node| reader.integer(&node, (0, i128::from(u64::MAX))));
        *rate = once_in.unwrap_or(0);
    }
    faults.until = fields.take("until").and_then(|node| duration(reader, &node));
    let mut span = |name: &str| fields.take(name).and_then(|node| duration(reader, &node));
    let (within, away) = (span("within"), span("manager_away"));
    faults.within = within.unwrap_or(faults.within);
    faults.manager_away = away.unwrap_or(faults.manager_away);
    if let Some(node) = fields.take("manager_deaths") {
        let items = reader.items(&node, "write when the manager dies, like [1h, 2h]")?;
        faults.manager_deaths = items.iter().filter_map(|item| duration(reader, item)).collect();
    }
    Some(faults)
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            rates: Rates::none(),
            until: None,
            within: Span::from_secs(3600),
            manager_deaths: Vec::new(),
            manager_away: Span::from_secs(30),
        }
    }
}

impl Faults {
    pub(super) fn is_none(&self) -> bool {
        self.rates.clone().words().iter().all(|(_, once_in)| **once_in == 0) && self.manager_deaths.is_empty()
    }
}
