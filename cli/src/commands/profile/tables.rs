//! What a profiling run found, as tables of affinities.

use scheduler::{
    engine::interface::views::profile::{ExperienceView, ProfileView},
    policy::{
        affinity::{Affinity, corunner::CorunnerAffinity},
        table::Table as Numbers,
    },
};
use serde::Serialize;

use crate::show::{
    Screen,
    format::{count, span},
    table::Table,
};

/// An application on a platform.
#[derive(Serialize)]
pub struct Row {
    application: String,
    platform: String,
    /// Seconds of a task that has a node for itself.
    alone_s: Option<f64>,
    tasks_per_hour: Option<f64>,
    epa: Option<f64>,
    rpa: Option<f64>,
    /// How many tasks a node runs well at a time.
    degree: Option<u32>,
    beside: Vec<Company>,
}

/// What it takes in company.
#[derive(Serialize)]
struct Company {
    /// The other applications; none: with its like.
    others: Vec<String>,
    n: u64,
    mean_s: f64,
    /// Seconds more than alone.
    raw_s: Option<f64>,
    /// The same, in parts of what it takes alone.
    normalized: Option<f64>,
}

/// Of each application on each platform.
pub fn rows(profiles: &[ProfileView], applications: &[&str], platforms: &[&str]) -> Vec<Row> {
    let known = |application: &str, platform: &str| {
        let profile = profiles.iter().find(|profile| profile.application == application)?;
        profile.platforms.iter().find(|known| known.platform == platform)
    };
    let alone = |application: &str, platform: &str| known(application, platform).and_then(alone_s);
    let is_complete = applications.iter().all(|a| platforms.iter().all(|p| alone(a, p).is_some()));
    let affinity = |policy: Affinity| {
        let mut runtimes = Numbers::new(applications.len(), platforms.len(), 0.0);
        for (row, application) in applications.iter().enumerate() {
            for (column, platform) in platforms.iter().enumerate() {
                *runtimes.at_mut(row, column) = alone(application, platform)?;
            }
        }
        is_complete.then(|| policy.table(&runtimes, &vec![true; applications.len()]))
    };
    let (epa, rpa) = (affinity(Affinity::Epa), affinity(Affinity::Rpa));
    let mut rows = Vec::new();
    for (row, application) in applications.iter().enumerate() {
        for (column, platform) in platforms.iter().enumerate() {
            let alone_s = alone(application, platform);
            rows.push(Row {
                application: (*application).to_owned(),
                platform: (*platform).to_owned(),
                alone_s,
                tasks_per_hour: alone_s.map(|alone_s| 3600.0 / alone_s),
                epa: epa.as_ref().map(|table| table.at(row, column)),
                rpa: rpa.as_ref().map(|table| table.at(row, column)),
                degree: known(application, platform).map(|known| known.degree),
                beside: known(application, platform)
                    .map_or_else(Vec::new, |known| companies(known, alone_s, applications)),
            });
        }
    }
    rows
}

/// Seconds of a task that has a node for itself: on one of one core, any.
fn alone_s(known: &ExperienceView) -> Option<f64> {
    let alone = known.beside.iter().find(|beside| beside.others.is_none()).map(|beside| beside.mean);
    let any = known.mean.filter(|_| known.beside.is_empty());
    alone.or(any).map(|mean| mean.as_secs_f64()).filter(|seconds| *seconds > 0.0)
}

/// With its like, and beside those others.
fn companies(known: &ExperienceView, alone_s: Option<f64>, applications: &[&str]) -> Vec<Company> {
    let of_run = |others: &[String]| others.iter().all(|other| applications.contains(&other.as_str()));
    let company = |(others, n, mean_s): (&Vec<String>, u64, f64)| Company {
        others: others.clone(),
        n,
        mean_s,
        raw_s: alone_s.map(|alone_s| CorunnerAffinity::Raw.difference(mean_s, alone_s)),
        normalized: alone_s.map(|alone_s| CorunnerAffinity::Normalized.difference(mean_s, alone_s)),
    };
    let all = known.beside.iter().filter_map(|beside| {
        let others = beside.others.as_ref().filter(|others| of_run(others))?;
        Some(company((others, beside.n, beside.mean.as_secs_f64())))
    });
    all.collect()
}

/// The tables, for people.
pub fn render(rows: &[Row]) -> String {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let mut table = Table::new(&["APPLICATION", "PLATFORM", ">ALONE", ">TASKS/H", ">EPA", ">RPA", ">DEGREE"]);
    let mut beside =
        Table::new(&["APPLICATION", "PLATFORM", "BESIDE", ">TASKS", ">TAKES", ">LONGER BY", ">OF ALONE"]);
    for row in rows {
        table.row(vec![
            row.application.clone().into(),
            row.platform.clone().into(),
            row.alone_s.map_or_else(String::new, seconds).into(),
            number(row.tasks_per_hour, 1).into(),
            number(row.epa, 3).into(),
            number(row.rpa, 3).into(),
            row.degree.map_or_else(String::new, |degree| degree.to_string()).into(),
        ]);
        for company in &row.beside {
            let others =
                if company.others.is_empty() { "its like".to_owned() } else { company.others.join(", ") };
            beside.row(vec![
                row.application.clone().into(),
                row.platform.clone().into(),
                others.into(),
                count(company.n).into(),
                seconds(company.mean_s).into(),
                company.raw_s.map_or_else(String::new, |raw_s| format!("{raw_s:+.2}s")).into(),
                company.normalized.map_or_else(String::new, |part| format!("{:+.1} %", part * 100.0)).into(),
            ]);
        }
    }
    let mut text = table.render(&Screen::stdout());
    if rows.iter().any(|row| !row.beside.is_empty()) {
        text += "\n";
        text += &beside.render(&Screen::stdout());
    }
    text
}

fn seconds(seconds: f64) -> String {
    span(scheduler::time::Span::from_secs_f64(seconds))
}
