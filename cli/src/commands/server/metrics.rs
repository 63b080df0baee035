//! `pilotfish metrics`: the manager's figures as monitoring reads them.

use clap::Args;

use crate::{
    access::Where,
    failure::{Failure, Outcome},
    show,
    view::Reader,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish metrics
  pilotfish metrics | grep pilotfish_weight
  pilotfish metrics > new && mv new /var/lib/node_exporter/pilotfish.prom
      # for its textfile collector

Without a manager it prints only `pilotfish_up 0`. The format is Prometheus's
text format. Prometheus can also read /api/v1/metrics of the manager itself,
with a user's token (docs/operations.md).";

/// Whose.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct MetricsArgs {
    #[command(flatten)]
    place: Where,
}

/// Prints them.
///
/// # Errors
/// No manager and no store.
pub async fn run(args: MetricsArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.place).await?;
    match reader.left {
        None => show::print(&reader.client.metrics().await?)?,
        // What a store tells is not what happens.
        Some(_) => show::print("pilotfish_up 0\n")?,
    }
    Ok(Outcome::Fine)
}
