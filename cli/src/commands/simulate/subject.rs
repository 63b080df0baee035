//! What is simulated: a scenario's file, or what a manager's store tells of its history.

use std::path::Path;

use manager::store::{Reader, Store, StoreError};
use scheduler::{
    engine::state::{durable::Durable, job::Job},
    ids::JobId,
    time::Time,
};
use serde_json::{Value, json};
use simulator::scenario::{
    Scenario,
    history::{self, Chosen, Decided, History},
    measures::{Measure, Row},
};

use super::SimulateArgs;
use crate::{
    access::folders::{STORE_FILE, show_path},
    failure::Failure,
    show::format::{self, counted},
};

/// Tasks read at once.
const PAGE: usize = 10_000;

/// A scenario and where it is from.
pub(super) struct Subject {
    /// What it is called in all that is said of it.
    pub(super) name: String,
    pub(super) scenario: Scenario,
    past: Option<Past>,
}

/// What is said of a history besides its scenario.
struct Past {
    /// What of it is played again.
    words: String,
    facts: Value,
}

impl Subject {
    /// What the command line names, with its seed.
    ///
    /// # Errors
    /// The scenario's mistakes, or why a store cannot be read or has nothing to be played again.
    pub(super) fn load(args: &SimulateArgs) -> Result<Subject, Failure> {
        let mut subject = match (&args.scenario, &args.what_if) {
            (Some(path), _) => {
                let name = path.display().to_string();
                Subject { name, scenario: Scenario::load(path)?, past: None }
            }
            (None, Some(store)) => Subject::of_store(store, args)?,
            (None, None) => return Err(Failure::bad_input("name a scenario, or a store with --what-if")),
        };
        subject.scenario.seed = args.seed.unwrap_or(subject.scenario.seed);
        Ok(subject)
    }

    fn of_store(path: &Path, args: &SimulateArgs) -> Result<Subject, Failure> {
        // Who names the file means its folder.
        let folder = match path.parent().filter(|_| path.ends_with(STORE_FILE)) {
            Some(here) if here.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
            None => path,
        };
        if !folder.join(STORE_FILE).is_file() {
            let expected = format!("name the folder of a manager or of a run, which has a {STORE_FILE}");
            return Err(Failure::bad_input(format!(
                "--what-if: found no store in {}; {expected}",
                path.display()
            )));
        }
        let shown = show_path(folder);
        let history = read(folder, args).map_err(|error| {
            Failure::infrastructure(format!("the store in {shown} cannot be read: {error}"))
        })?;
        let Some(history) = history else {
            let is_chosen = !args.jobs.is_empty() || args.since.is_some() || args.until.is_some();
            let of = if is_chosen { " of the jobs that --jobs, --since and --until name" } else { "" };
            let expected = "a history can be played again when tasks have ended in it";
            let found = format!("--what-if: found no ended task{of} in {shown}");
            return Err(Failure::bad_input(format!("{found}; {expected}")));
        };
        let past = Past { words: words(&shown, &history), facts: facts(&history) };
        Ok(Subject { name: shown, scenario: history.scenario, past: Some(past) })
    }

    /// What stands above everything else: what is played again of a history.
    pub(super) fn heading(&self) -> String {
        self.past.as_ref().map(|past| format!("{}\n", past.words)).unwrap_or_default()
    }

    /// The history's makespan beside that of the replay, where it is one.
    pub(super) fn compared(&self, replay: &Row) -> String {
        let then = self.history().and_then(|row| row.value(Measure::Makespan));
        let Some((then, now)) = then.zip(replay.value(Measure::Makespan)) else { return String::new() };
        let span = |seconds| format::span(simulator::scenario::distribution::span(seconds));
        // Not -0.0.
        let change = ((now / then - 1.0) * 1000.0).round() / 10.0 + 0.0;
        format!("Makespan: {} in the replay, {} in the history ({change:+.1}%).\n", span(now), span(then))
    }

    /// What it came to once.
    pub(super) fn history(&self) -> Option<&Row> {
        self.scenario.history.as_deref()
    }

    /// For programs: null unless it is a history.
    pub(super) fn facts(&self) -> Value {
        self.past.as_ref().map(|past| past.facts.clone()).unwrap_or_default()
    }
}

/// The history in a store, whether its manager runs or not.
fn read(folder: &Path, args: &SimulateArgs) -> Result<Option<History>, StoreError> {
    let is_chosen = |id: JobId, job: &Job| {
        (args.jobs.is_empty() || args.jobs.iter().any(|numbers| numbers.contains(&id.0)))
            && args.since.is_none_or(|since| job.submitted_at >= since)
            && args.until.is_none_or(|until| job.submitted_at < until)
    };
    Store::read_once(folder, |store| {
        let mut durable = Durable::default();
        store.replay(|record| durable.apply(&record))?;
        let reader = store.reader();
        let chosen = Chosen { configured: store.configured()?, is_chosen: &is_chosen };
        history::of_chosen(&durable, &chosen, |id, job| decided(&reader, id, job))
    })
}

/// The attempts that decided the tasks of a job that are over.
fn decided(reader: &Reader, id: JobId, job: &Job) -> Result<Vec<Decided>, StoreError> {
    let (mut tasks, mut next) = (Vec::new(), 0);
    loop {
        let rows = reader.finished(id, next..job.request.n_tasks, PAGE)?;
        let Some(last) = rows.last() else { return Ok(tasks) };
        next = last.index + 1;
        // A manager that runs may have written more since its records were read.
        let is_over = |index| !job.open.contains(index) && !job.cancelled.contains(index);
        let over = rows.iter().filter(|row| row.is_final && is_over(row.index));
        tasks.extend(over.map(|row| Decided {
            index: row.index,
            from: row.started_at,
            to: row.ended_at,
            is_failure: row.failure.is_some(),
            pilot: row.pilot,
        }));
    }
}

fn words(shown: &str, history: &History) -> String {
    let scenario = &history.scenario;
    let left_out = &history.left_out;
    let counts = [
        (left_out.n_jobs, "job of which nothing is over", "jobs of which nothing is over"),
        (left_out.n_tasks, "task that is open or cancelled", "tasks that are open or cancelled"),
        (left_out.n_jobs_not_chosen, "job that was not chosen", "jobs that were not chosen"),
        (left_out.n_tried_before, "attempt before one that counts", "attempts before one that counts"),
        (left_out.n_tasks_only_there, "task that fits only there", "tasks that fit only there"),
    ];
    let left_out = counts.iter().filter(|(n, ..)| *n > 0);
    let left_out = left_out.map(|(n, one, many)| match n {
        1 => format!("1 {one}"),
        n => format!("{} {many}", format::count(*n)),
    });
    let left_out = match left_out.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => format!("; without {some}"),
    };
    format!(
        "What was in {shown}, again: {} of {} by {}, from {} to {}{left_out}.{}",
        counted(scenario.n_tasks(), "task"),
        counted(scenario.n_jobs(), "job"),
        counted(scenario.users.len() as u64, "user"),
        second(history.begin),
        second(history.end),
        notes(history),
    )
}

/// What keeps the replay from being what it would have been.
fn notes(history: &History) -> String {
    let left_out = &history.left_out;
    let mut notes = Vec::new();
    if !history.are_policies_known {
        notes.push(
            "Under which policies it was the store does not say: the replay is under the default ones, and may \
             differ for that."
                .to_owned(),
        );
    }
    if history.have_policies_changed {
        notes.push(
            "Policies changed while these jobs ran, or may have: the replay is under those that went longest, and may \
             differ for that."
                .into(),
        );
    }
    if left_out.n_jobs_not_chosen > 0 {
        notes.push(
            "Jobs that were not chosen had their share of the pilots then. In the replay nothing waits for them, so \
             it may be shorter for that."
                .into(),
        );
    }
    match left_out.n_jobs_apart {
        0 => {}
        1 => notes.push("1 job waited for others that are not in the replay; there it does not.".into()),
        n => notes.push(format!(
            "{} jobs waited for others that are not in the replay; there they do not.",
            format::count(n)
        )),
    }
    if !left_out.platforms.is_empty() {
        notes.push(format!(
            "No task has ever succeeded on {}, so how long they take there is not known: the replay is without it.",
            left_out.platforms.join(", ")
        ));
    }
    notes.extend(history.doubted.iter().map(|(application, platform)| {
        format!(
            "No task of `{application}` has ever succeeded on {platform}: those that the replay runs there take what is \
             only guessed."
        )
    }));
    notes.into_iter().map(|note| format!(" {note}")).collect()
}

/// A time without the fraction of a second.
fn second(time: Time) -> String {
    let text = format::rfc3339(time);
    text.split_once('.').map(|(whole, _)| format!("{whole}Z")).unwrap_or(text)
}

fn facts(history: &History) -> Value {
    let makespan = history.scenario.history.as_ref().and_then(|row| row.value(Measure::Makespan));
    let left_out = &history.left_out;
    let doubted = history.doubted.iter();
    let doubted =
        doubted.map(|(application, platform)| json!({ "application": application, "platform": platform }));
    json!({
        "from": format::rfc3339(history.begin),
        "to": format::rfc3339(history.end),
        "n_jobs": history.scenario.n_jobs(),
        "n_tasks": history.scenario.n_tasks(),
        "n_jobs_without": left_out.n_jobs,
        "n_tasks_without": left_out.n_tasks,
        "n_jobs_not_chosen": left_out.n_jobs_not_chosen,
        "n_tried_before": left_out.n_tried_before,
        "n_jobs_apart": left_out.n_jobs_apart,
        "platforms_without": left_out.platforms,
        "n_tasks_only_there": left_out.n_tasks_only_there,
        "doubted": doubted.collect::<Vec<_>>(),
        "are_policies_known": history.are_policies_known,
        "have_policies_changed": history.have_policies_changed,
        "makespan_s": makespan,
    })
}
