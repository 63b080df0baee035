//! `pilotfish stop`: ends the manager and its pilots.

use std::time::{Duration, Instant};

use clap::Args;

use crate::{
    access,
    client::{Client, ClientError},
    failure::{Failure, Outcome},
    show,
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish stop           running tasks finish first
  pilotfish stop --now     running tasks are killed; they run again next time

What is not done stays in the manager's folder; `pilotfish serve` goes on with it.";

/// A manager without pilots needs milliseconds.
const GONE_LIMIT: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_millis(50);

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
    let (client, _) = access::find_live(&args.view.place).await?;
    let n_running = client.status().await?.totals.counts.running;
    if n_running > 0 && !args.now && !args.view.quiet {
        let tasks = show::format::counted(n_running, "running task");
        show::say(&format!("waiting for {tasks}; `pilotfish stop --now` kills instead"));
    }
    match client.shut_down(args.now).await {
        // It may be gone before its answer is here.
        Ok(()) | Err(ClientError::Unreachable { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    wait_until_gone(&client).await?;
    if args.view.json {
        show::print(&show::json(&serde_json::json!({ "stopped": client.access().url }))?)?;
    } else if !args.view.quiet {
        show::print(&format!("the manager at {} has ended\n", client.access().url))?;
    }
    Ok(Outcome::Fine)
}

async fn wait_until_gone(client: &Client) -> Result<(), Failure> {
    let began = Instant::now();
    while client.version(Duration::from_secs(2)).await.is_ok() {
        if began.elapsed() > GONE_LIMIT {
            let access = client.access();
            return Err(Failure::infrastructure(format!(
                "the manager at {} does not end; its process is {} on {}",
                access.url, access.pid, access.host
            )));
        }
        tokio::time::sleep(PROBE_EVERY).await;
    }
    Ok(())
}
