//! `pilotfish explain`: why something is as it is, the decisive reason first.

use clap::{Args, ValueEnum};

use protocol::api::ReasonRow;
use scheduler::{explain::Reason, ids::JobId};

use crate::{
    client::Client,
    failure::{Failure, Outcome},
    progress::Voice,
    select::{JobSelector, Target},
    show::{self, Screen},
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish explain job last         why does it not go faster?
  pilotfish explain task 3.17        why does it wait? why did it fail?
  pilotfish explain pilot 1
  pilotfish explain platform local";

/// What is to be explained.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// What it is
    #[arg(value_enum)]
    what: What,
    /// Which: a job, JOB.INDEX, a pilot's number or a platform's name
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
}

/// Explains.
///
/// # Errors
/// No such thing, or no manager and no store.
pub async fn run(args: ExplainArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let path = path(args.what, &args.id, &reader.client).await?;
    let view = async |_: &Screen| {
        let explanation = reader.client.explain(&path).await?;
        if args.view.json {
            return show::json(&explanation.reasons);
        }
        Ok(explanation.reasons.iter().map(|row| format!("{}\n", row.text)).collect())
    };
    args.watch.show(view).await
}

/// Says of a job that can run nowhere, as things are, why it cannot: whoever waits for it must know.
pub async fn warn_of_nowhere(client: &Client, job: JobId, voice: &Voice) {
    // This is said on the way to something else, which finds a manager that is gone for itself.
    let Ok(explanation) = client.explain(&format!("job/{job}")).await else { return };
    if let Some(ReasonRow { text, reason: Reason::FitsNowhere { .. } | Reason::NoPlatform }) =
        explanation.reasons.first()
    {
        voice.say(&format!("warning: job {job} cannot begin: {text}"));
    }
}

async fn path(what: What, id: &str, client: &Client) -> Result<String, Failure> {
    Ok(match what {
        What::Job => format!("job/{}", JobSelector::parse(id)?.resolve_one(client).await?),
        What::Task => {
            let task = Target::resolve_task(id, client).await?;
            format!("task/{}/{}", task.job, task.index)
        }
        What::Pilot => match id.parse::<u64>() {
            Ok(pilot) => format!("pilot/{pilot}"),
            Err(_) => {
                let line =
                    format!("found `{id}` instead of a pilot; write its number, see `pilotfish pilots`");
                return Err(Failure::bad_input(line));
            }
        },
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
