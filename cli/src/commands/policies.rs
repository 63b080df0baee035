//! `pilotfish policies …`: the layers of decisions, shown and set while the manager runs.

pub(crate) mod weights;

use clap::{Args, Subcommand};
use protocol::{
    api::{LayerChange, PoliciesAnswer},
    policies,
};
use scheduler::policy::Policies;

use crate::{
    access,
    failure::{Failure, Outcome},
    show::{self, Screen, format, table::Table, units::json_with_units},
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish policies
  pilotfish policies set allocation pa-rr
      # users share platforms by what is best for each
  pilotfish policies history

Pilots keep the tasks that they hold; the new policy decides what they are sent
next. It stays set after a restart, until the policies in manager.yaml are
changed.";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct PoliciesArgs {
    #[command(subcommand)]
    command: Option<PoliciesCommand>,
    #[command(flatten)]
    view: ViewArgs,
}

#[derive(Subcommand)]
enum PoliciesCommand {
    /// Show the policy of each layer
    Show(ShowArgs),
    /// Set the policy of a layer
    Set(SetArgs),
    /// List what was set, by whom and when
    History(ShowArgs),
}

/// How they are shown.
#[derive(Args)]
struct ShowArgs {
    #[command(flatten)]
    view: ViewArgs,
}

/// Which.
#[derive(Args)]
struct SetArgs {
    /// The layer: allocation, affinity, distribution, placement, matching, bundling, mapping,
    /// scaling or stealing
    #[arg(value_name = "LAYER")]
    layer: String,
    /// Its policy
    #[arg(value_name = "POLICY")]
    policy: String,
    #[command(flatten)]
    view: ViewArgs,
}

/// Does it.
///
/// # Errors
/// No such layer or policy, no manager, or none that can be changed.
pub async fn run(args: PoliciesArgs) -> Result<Outcome, Failure> {
    match args.command {
        None => show(&args.view).await,
        Some(PoliciesCommand::Show(args)) => show(&args.view).await,
        Some(PoliciesCommand::Set(args)) => set(&args).await,
        Some(PoliciesCommand::History(args)) => history(&args.view).await,
    }
}

async fn show(view: &ViewArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&view.place).await?;
    let answer = reader.client.policies().await?;
    if view.json {
        show::print(&show::json(&answer.layers)?)?;
        return Ok(Outcome::Fine);
    }
    if view.quiet {
        let words = answer.layers.iter().map(|layer| format!("{}={}\n", layer.layer, layer.policy));
        show::print(&words.collect::<String>())?;
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(&["LAYER", "POLICY", "CONFIGURED", "CHOICES"]);
    for layer in answer.layers {
        let is_set = layer.policy != layer.configured;
        let configured = if is_set { layer.configured } else { String::new() };
        let choices = layer.choices.join(", ");
        table.row(vec![layer.layer.into(), layer.policy.into(), configured.into(), choices.into()]);
    }
    show::print(&table.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}

async fn set(args: &SetArgs) -> Result<Outcome, Failure> {
    // The same words as the manager's, before there is one.
    policies::with(Policies::default(), &args.layer, &args.policy)
        .map_err(|refused| Failure::bad_input(refused.to_string()))?;
    let client = access::find_for_operator(&args.view.place).await?;
    let n_before = client.policies().await?.history.len();
    let answer = client.set_policy(&args.layer, &args.policy).await?;
    if args.view.json {
        show::print(&show::json(&answer.layers)?)?;
    } else if !args.view.quiet {
        show::print(&said(&args.layer, &args.policy, &answer, n_before))?;
    }
    Ok(Outcome::Fine)
}

/// What has become of it, where there were so many changes before.
fn said(layer: &str, policy: &str, answer: &PoliciesAnswer, n_before: usize) -> String {
    let last = answer.history.last().filter(|_| answer.history.len() > n_before);
    match last {
        Some(LayerChange { before, policy, .. }) => format!("{layer} is {policy} now, it was {before}\n"),
        None => format!("{layer} is {policy} already\n"),
    }
}

async fn history(view: &ViewArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&view.place).await?;
    let history = reader.client.policies().await?.history;
    if view.json {
        show::print(&json_with_units(&history)?)?;
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(&["AT", "BY", "LAYER", "BEFORE", "POLICY"]);
    for change in history {
        let at = format::rfc3339(change.at);
        let over = if change.is_over { " (manager.yaml has changed since)" } else { "" };
        let policy = format!("{}{over}", change.policy);
        table.row(vec![
            at.into(),
            change.by.into(),
            change.layer.into(),
            change.before.into(),
            policy.into(),
        ]);
    }
    show::print(&table.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}
