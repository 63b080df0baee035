//! The sentences about the decisions of policies.

use std::fmt;

use super::{Reason, plural};
use crate::{
    engine::{
        interface::platform::{queue_load::QueueLoad, scaling::ScalingWay},
        record::provision_reason::Compared,
    },
    policy::matching::Precedence,
    time::Span,
};

impl Reason {
    /// Writes the sentences about fair shares, weights and node mixes.
    pub(super) fn write_about_policies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoWeights { policy } => write!(
                f,
                "nothing of it is divided among platforms (distribution: {policy}): nothing waits, or fewer than two platforms have pilots"
            ),
            Reason::Weights { application, policy, weights } => {
                let shares: Vec<String> = weights
                    .iter()
                    .map(|(platform, weight, n_left)| {
                        format!("{} for {platform} ({n_left} left)", percent(*weight))
                    })
                    .collect();
                write!(
                    f,
                    "of what waits of {application}, distribution ({policy}) means {}",
                    shares.join(", ")
                )
            }
            Reason::WeightOf { platform, weight, n_slots, mean, is_declared, guess, error_rate } => {
                let takes = match (mean, guess) {
                    (Some(mean), _) if *is_declared => {
                        format!("none has run there, {mean} is said of a task")
                    }
                    (Some(mean), _) => format!("a task takes {mean}"),
                    (None, Some(guess)) => format!("none has run there, by what others take there {guess}"),
                    (None, None) => "none has run there".to_owned(),
                };
                write!(
                    f,
                    "{platform} has weight {}: {n_slots} task{} at a time, {takes}, {} fail",
                    percent(*weight),
                    plural(*n_slots),
                    percent(*error_rate)
                )
            }
            Reason::DeclaredOff { platform, declared, measured, times, n_measured } => write!(
                f,
                "a task was declared to take {declared} on {platform} and takes {measured} ({n_measured} measured): {times:.0} times off, so that hardly counts"
            ),
            Reason::WeightMoved { ago, platform, before, weight } => write!(
                f,
                "{ago} ago the weight of {platform} moved from {} to {}",
                percent(*before),
                percent(*weight)
            ),
            Reason::LeftToOthers { platform, takes, others_begin, others_take } => write!(
                f,
                "{platform} takes none: a task takes {takes} there, and the others have begun all in {others_begin} and take {others_take}"
            ),
            Reason::FailsThere { platform, error_rate, tried } => write!(
                f,
                "{platform} takes none: {} of the last attempts there failed, more than elsewhere; {}",
                percent(*error_rate),
                tried.map_or_else(
                    || "it is tried again by and by".to_owned(),
                    |ago| format!("it was last tried again {ago} ago")
                )
            ),
            other => other.write_about_choices(f),
        }
    }

    /// Writes the sentences about the choice of a platform, node or job.
    fn write_about_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::PlacedWith { policy, platform, wait, n_waits, load, mean_end, mean_end_without } => {
                let seen = match n_waits {
                    0 if load.is_none() => "no allocation has come there yet".to_owned(),
                    n => format!(
                        "waits there are about {wait}, {n} ha{} come{}",
                        if *n == 1 { "s" } else { "ve" },
                        load.as_ref().map_or_else(String::new, |load| format!("; {}", busy(load)))
                    ),
                };
                write!(
                    f,
                    "placement ({policy}): with one more allocation on {platform} what waits would end {} on average, without {} ({seen})",
                    end(mean_end),
                    end(mean_end_without)
                )
            }
            Reason::AskedFor { ago, because } => {
                let n = because.n_wanted;
                write!(f, "it was asked for {ago} ago, when {n} more {} wanted there", are(n))?;
                if let Some(walltime) = because.walltime {
                    write!(f, "; what was left of the platform's budget was enough for {walltime}")?;
                }
                if let Some(load) = &because.load {
                    write!(f, "; {}", busy(load))?;
                }
                let Some(compared) = &because.compared else { return Ok(()) };
                let with = |(platform, wait, mean_end): &(String, Span, Option<Span>)| {
                    format!("{} with one on {platform} after {wait}", end(mean_end))
                };
                let with: Vec<String> = compared.with.iter().map(with).collect();
                let Compared { policy, without, .. } = compared;
                let without = end(without);
                write!(
                    f,
                    "; by placement ({policy}) what waited would have ended on average {}, {without} without",
                    with.join(", ")
                )
            }
            Reason::NodeMeantFor { policy, parts } => {
                let parts: Vec<String> = parts.iter().map(part_of_node).collect();
                write!(f, "mapping ({policy}) means {}", parts.join(" and "))
            }
            Reason::ShareOf { platform, user, policy, cores, held } => write!(
                f,
                "allocation ({policy}) means {cores} core{} of {platform} for {user}, who holds {held}",
                plural(*cores)
            ),
            Reason::BehindJob { job, user, pilot, policy, because } => {
                let why = precedence(because, "its", "this job's");
                write!(f, "job {job} of {user} goes first on pilot {pilot}, by matching ({policy}): {why}")
            }
            Reason::PilotNext { job, user, policy, before } => {
                write!(f, "of what waits it is given job {job} of {user} first, by matching ({policy})")?;
                let Some((other, because)) = before else { return Ok(()) };
                write!(f, ", before job {other}: {}", precedence(because, "its", "the other's"))
            }
            other => other.write_about_scaling(f),
        }
    }

    /// Writes the sentences about the vCPU ratio.
    fn write_about_scaling(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::VcpusOfCore { platform, policy, by, ratio, most, last, ago } => {
                let what = match by {
                    ScalingWay::Slots => "slots a core of its pilots",
                    ScalingWay::Placement => "vCPUs a core of its hosts",
                };
                write!(f, "scaling ({policy}): {platform} has {ratio} {what}, of at most {most}")?;
                match last {
                    Some(change) => write!(f, "; {} until {ago} ago: {}", change.before, change.told()),
                    None => Ok(()),
                }
            }
            Reason::NotScaled { platform, what } => {
                write!(f, "the hosts of {platform} keep the vCPUs that they have: {what}")
            }
            _ => Ok(()),
        }
    }
}

fn part_of_node((application, cores, takes): &(String, u64, Option<Span>)) -> String {
    let takes = takes.map_or_else(String::new, |takes| format!(" (a task takes {takes} in that company)"));
    format!("{cores} core{} for {application}{takes}", plural(*cores))
}

/// Writes when something ends.
fn end(end: &Option<Span>) -> String {
    end.map_or("never".to_owned(), |end| format!("in {end}"))
}

fn are(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// Writes the load of a platform.
fn busy(load: &QueueLoad) -> String {
    let QueueLoad { free_cores, cores, n_waiting, waiting_cores } = load;
    format!(
        "{free_cores} of its {cores} cores are free, {n_waiting} job{} wait for {waiting_cores}",
        plural(*n_waiting)
    )
}

/// Writes the reason that decides between two jobs. `its` and `others` are the possessives that name the
/// jobs.
fn precedence(because: &Precedence, its: &str, others: &str) -> String {
    match because {
        Precedence::Priority { priorities: [one, other] } => {
            format!("{its} priority is {one}, {others} {other}")
        }
        Precedence::Share { held, share } => {
            format!("{others} user holds {held} of the {share} cores that are meant for him there")
        }
        Precedence::Quota => format!("all that is meant for that platform of {others} kind is taken"),
        Precedence::Node => format!("cores of that node are meant for {its} application"),
        Precedence::Previous => format!("{its} tasks are those that the pilot was given last"),
        Precedence::Score { scores: [one, other] } => {
            format!("{its} application scores {one:.3} there, {others} {other:.3}")
        }
        Precedence::WorkLeft { seconds: [one, other] } => {
            let [one, other] = [*one, *other].map(Span::from_secs);
            format!("{its} tasks take {one} yet, {others} {other}")
        }
        Precedence::Turn { of_users: [one, other], .. } if one != other => {
            format!("{its} user holds {one} core{}, {others} {other}", plural(*one))
        }
        Precedence::Turn { of_jobs: [one, other], .. } => {
            format!("{its} tasks hold {one} core{}, {others} {other}", plural(*one))
        }
        Precedence::Age => format!("{its} turn is before {others}: it was served longer ago, or came sooner"),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}
