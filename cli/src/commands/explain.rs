//! `pilotfish explain`: why something is as it is, the decisive reason first.

use clap::{Args, ValueEnum};

use protocol::{api::ReasonRow, job::nearest};
use scheduler::{explain::Reason, ids::JobId};

use crate::{
    client::Client,
    failure::{Failure, Outcome},
    progress::Voice,
    select::{JobSelector, Target},
    show::{Screen, facts::wrapped, units::json_with_units},
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish explain job last         why does it not go faster?
  pilotfish explain task 3.17        why does it wait? why did it fail?
  pilotfish explain pilot 1
  pilotfish explain platform local
  pilotfish explain allocation 7
  pilotfish explain weight vina      why does it run where it runs?";

/// What is to be explained.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// What it is
    #[arg(value_enum)]
    what: What,
    /// Which: a job, JOB.INDEX, a number, a platform's name or an application's
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// A job
    Job,
    /// A task of a job
    Task,
    /// A pilot
    Pilot,
    /// A platform
    Platform,
    /// What a platform was asked for
    Allocation,
    /// The weights of an application
    Weight,
}

/// Explains.
///
/// # Errors
/// No such thing, or no manager and no store.
pub async fn run(args: ExplainArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let path = path(args.what, &args.id, &reader.client).await?;
    let standstill = match &reader.left {
        Some(left) if goes_on(&path, &reader.client).await? => {
            Some(format!("no manager runs, so nothing begins; {}", left.ways()))
        }
        _ => None,
    };
    let view = async |screen: &Screen| {
        let explanation = reader.client.explain(&path).await?;
        if args.view.json {
            return json_with_units(&explanation.reasons);
        }
        let rows = explanation.reasons.iter().filter(|row| standstill.is_none() || !is_of_a_manager(row));
        let texts = standstill.iter().chain(rows.map(|row| &row.text));
        let lines = texts.flat_map(|text| wrapped(text, screen.width));
        Ok(lines.map(|line| format!("{line}\n")).collect())
    };
    args.watch.show(view).await
}

/// Whether what a path names would go on if a manager ran: a job that is not over, a task of such a job, a platform.
async fn goes_on(path: &str, client: &Client) -> Result<bool, Failure> {
    let mut parts = path.split('/');
    match (parts.next(), parts.next().and_then(|id| id.parse().ok())) {
        (Some("job" | "task"), Some(id)) => Ok(client.job(JobId(id)).await?.ended_at.is_none()),
        (kind, _) => Ok(kind == Some("platform")),
    }
}

/// Whether a reason is what a manager that runs waits for.
fn is_of_a_manager(row: &ReasonRow) -> bool {
    matches!(row.reason, Reason::PilotsAway { .. } | Reason::SoonServed { .. })
}

/// Says of a job that is paused or can run nowhere, as things are, why it cannot, and of platforms that rest or wait for
/// a person that they do: whoever waits for it must know.
pub async fn warn_of_nowhere(client: &Client, job: JobId, voice: &Voice) {
    // This is said on the way to something else, which finds a manager that is gone for itself.
    let Ok(explanation) = client.explain(&format!("job/{job}")).await else { return };
    if let Some(ReasonRow {
        text,
        reason: Reason::FitsNowhere { .. } | Reason::NoPlatform | Reason::WalltimesTooShort { .. },
    }) = explanation.reasons.first()
    {
        voice.say(&format!("warning: job {job} cannot begin: {text}"));
    }
    let is_told = |reason: &Reason| {
        matches!(
            reason,
            Reason::JobPaused { .. } | Reason::PlatformRests { .. } | Reason::PersonAwaited { .. }
        )
    };
    for row in explanation.reasons.iter().filter(|row| is_told(&row.reason)) {
        voice.say(&format!("warning: {}", row.text));
    }
}

async fn path(what: What, id: &str, client: &Client) -> Result<String, Failure> {
    Ok(match what {
        What::Job => format!("job/{}", JobSelector::parse(id)?.resolve_one(client).await?),
        What::Task => {
            let task = Target::resolve_task(id, client).await?;
            format!("task/{}/{}", task.job, task.index)
        }
        What::Pilot => format!("pilot/{}", number(id, "a pilot", "pilots")?),
        What::Allocation => format!("allocation/{}", number(id, "an allocation", "allocation list")?),
        What::Weight => {
            let weights = client.weights().await?;
            let mut known: Vec<String> =
                client.profiles().await?.profiles.into_iter().map(|profile| profile.application).collect();
            known.extend(weights.kinds.into_iter().map(|kind| kind.application));
            if !known.iter().any(|name| name == id) {
                let hint = nearest(id, known.iter().map(String::as_str)).map_or_else(
                    || "see `pilotfish weights`".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                return Err(Failure::bad_input(format!("nothing is known of an application `{id}`; {hint}")));
            }
            format!("weight/{}", escaped(id))
        }
        What::Platform => {
            let platforms = client.platforms().await?.platforms;
            if !platforms.iter().any(|platform| platform.name == id) {
                let names: Vec<&str> = platforms.iter().map(|platform| platform.name.as_str()).collect();
                let known = match names.is_empty() {
                    true => "none is attached: list it under `platforms` in a manager.yaml for `pilotfish serve --config`, or leave out --no-local for this host".to_owned(),
                    false => format!("known: {}", names.join(", ")),
                };
                return Err(Failure::bad_input(format!("there is no platform `{id}`; {known}")));
            }
            format!("platform/{id}")
        }
    })
}

fn number(id: &str, noun: &str, list: &str) -> Result<u64, Failure> {
    id.parse().map_err(|_| {
        let line = format!("found `{id}` instead of {noun}; write its number, see `pilotfish {list}`");
        Failure::bad_input(line)
    })
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}
