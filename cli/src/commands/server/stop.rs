//! `pilotfish stop`: ends the manager and its pilots.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use clap::Args;
use scheduler::engine::interface::LeftThere;

use crate::commands::platform;
use crate::{
    access,
    client::{Client, ClientError},
    failure::{Failure, Outcome},
    show,
    sys::interrupts::unless_interrupted,
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish stop           running tasks finish first
  pilotfish stop --now     running tasks are killed; they run again next time

Unfinished jobs stay in the manager's folder; `pilotfish serve` goes on with
them. If batch jobs may be left on platforms, the command names them and ends
with exit code 3.";

/// A manager waits for so long for its platforms, unless it says more: a cloud may be slow to delete servers.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);
/// Some more for processes of its host that do not end.
const GONE_LIMIT: Duration = Duration::from_secs(30);
/// One that answers no more closes its store in milliseconds; a `run` may have files to bring home.
const FREE_LIMIT: Duration = Duration::from_secs(10);
/// For so long the answer is waited for that the manager gave before it ended.
const ANSWERED_LIMIT: Duration = Duration::from_secs(1);
const PROBE_EVERY: Duration = Duration::from_millis(50);
/// Whoever waits for longer is told what for.
const TELL_EVERY: Duration = Duration::from_secs(3);

/// How it ends.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StopArgs {
    /// Kill running tasks instead of waiting for them
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Stops the manager; returns when it is gone.
///
/// # Errors
/// No manager, or one that does not go.
pub async fn run(args: StopArgs) -> Result<Outcome, Failure> {
    let client = access::find_live_to_change(&args.view.place).await?.client;
    let n_running = client.status().await?.totals.counts.running;
    if n_running > 0 && !args.now && !args.view.quiet {
        let tasks = show::format::counted(n_running, "running task");
        show::say(&format!("waiting for {tasks}; `pilotfish stop --now` kills instead"));
    }
    let ended = async {
        match end(&client, &args).await {
            Ok(limit) => wait_until_gone(&client, limit, args.view.quiet).await,
            // It may be gone before its answer is here.
            Err(ClientError::Unreachable { .. }) => {
                wait_until_gone(&client, LEAVE_LIMIT, args.view.quiet).await
            }
            Err(error) => Err(error.into()),
        }
    };
    let gone = with_left(ended, client.left_there());
    let place = args.view.place.flags();
    let goes_on = format!(
        "no longer waiting; the manager ends when its running tasks have: `pilotfish stop{place}` waits again, \
         `pilotfish stop{place} --now` kills them"
    );
    let Some(left) = unless_interrupted(gone, &goes_on).await? else {
        return Ok(Outcome::Interrupted);
    };
    if args.view.json {
        let answer = serde_json::json!({ "stopped": client.access().url, "left": left });
        show::print(&show::json(&answer)?)?;
    } else if !args.view.quiet {
        show::print(&format!("the manager at {} has ended\n", client.access().url))?;
    }
    match told(&left) {
        lines if lines.is_empty() => Ok(Outcome::Fine),
        lines => Err(Failure::infrastructure(lines.join("; "))),
    }
}

/// Waits for the manager's end; gives what it has said meanwhile that it leaves.
async fn with_left(
    ended: impl Future<Output = Result<(), Failure>>,
    left: impl Future<Output = Vec<LeftThere>>,
) -> Result<Vec<LeftThere>, Failure> {
    let (mut ended, mut left) = (pin!(ended), pin!(left));
    tokio::select! {
        result = &mut ended => {
            result?;
            // The answer may be here and not read yet.
            Ok(tokio::time::timeout(ANSWERED_LIMIT, left).await.unwrap_or_default())
        }
        left = &mut left => ended.await.map(|()| left),
    }
}

/// Tells people which batch jobs a manager leaves on platforms: a line for each reason, and one with advice.
pub fn told(left: &[LeftThere]) -> Vec<String> {
    let line = |there: &LeftThere| {
        let jobs = show::format::counted(there.batch_jobs.len() as u64, "batch job");
        let (platform, ids) = (&there.platform, there.batch_jobs.join(", "));
        format!("{jobs} of {platform} may be left there: {ids}: {}", there.why)
    };
    let mut lines: Vec<String> = left.iter().map(line).collect();
    if !lines.is_empty() {
        lines.push(
            "cancel them by the platform's own commands, or start the manager again, which tries again"
                .into(),
        );
    }
    lines
}

/// Has the manager end; says meanwhile what it waits for.
async fn end(client: &Client, args: &StopArgs) -> Result<Duration, ClientError> {
    let mut ended = std::pin::pin!(client.shut_down(args.now));
    let mut told = Vec::new();
    loop {
        tokio::select! {
            result = &mut ended => return result,
            () = tokio::time::sleep(TELL_EVERY), if !args.view.quiet => {
                let left = what_is_left(client).await;
                left.iter().filter(|line| !told.contains(*line)).for_each(|line| show::say(line));
                told = left;
            }
        }
    }
}

/// A line for each platform where something is left, and why that may take long.
async fn what_is_left(client: &Client) -> Vec<String> {
    // It ends: whether it still answers does not matter.
    let platforms = client.platforms().await.map(|answer| answer.platforms).unwrap_or_default();
    let there = platforms.iter().filter(|platform| platform.n_pilots_there > 0);
    there.map(|one| format!("waiting for platform {}: {}", one.name, platform::left(one))).collect()
}

async fn wait_until_gone(client: &Client, leave_limit: Duration, is_quiet: bool) -> Result<(), Failure> {
    let (began, access, mut is_told) = (Instant::now(), client.access(), is_quiet);
    // Another that waited for its folder may answer at the same address at once.
    while access::is_running(access) != Some(false) && client.version(Duration::from_secs(2)).await.is_ok() {
        if began.elapsed() > LEAVE_LIMIT.max(leave_limit) + GONE_LIMIT {
            return Err(Failure::infrastructure(format!(
                "the manager at {} does not end; its process is {} on {}",
                access.url, access.pid, access.host
            )));
        }
        if !is_told && began.elapsed() > TELL_EVERY {
            show::say("its pilots have left; waiting until nothing of them is there");
            is_told = true;
        }
        tokio::time::sleep(PROBE_EVERY).await;
    }
    // Its folder is free for the next when its process has ended.
    let silent = Instant::now();
    while access::is_running(access) == Some(true) && silent.elapsed() < FREE_LIMIT {
        tokio::time::sleep(PROBE_EVERY).await;
    }
    Ok(())
}
