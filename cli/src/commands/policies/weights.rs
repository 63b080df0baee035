//! `pilotfish weights …`: which share of each application's tasks is meant for which platform, and why.

use clap::{Args, Subcommand};
use protocol::job::nearest;
use scheduler::{
    engine::interface::views::weights::{KindView, WeightCause, WeightView, WeightsView},
    time::Span,
};

use crate::{
    failure::{Failure, Outcome},
    show::{
        self, Screen,
        format::{count, counted, percent, rate, rfc3339, span},
        table::{Cell, Table},
        units::json_with_units,
    },
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish weights
  pilotfish weights vina                 of one application
  pilotfish weights history              what moved them

There are weights if two or more platforms have pilots and
`policies.distribution` is not `none`. SLOTS: how many tasks run there at a
time. MEAN: how long a task takes there; if none has run there, = marks a time
declared by `profiles`, ~ one guessed from other platforms. A platform that has
taken all its tasks takes over from the others, but none that would end there
after everything that the others can do meanwhile (LATE).";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct WeightsArgs {
    #[command(subcommand)]
    command: Option<WeightsCommand>,
    /// Only of this application
    #[arg(value_name = "APPLICATION")]
    application: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
}

#[derive(Subcommand)]
enum WeightsCommand {
    /// List how weights have moved, and the numbers behind it
    History(HistoryArgs),
}

/// Which.
#[derive(Args)]
struct HistoryArgs {
    /// Only of this application
    #[arg(value_name = "APPLICATION")]
    application: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Does it.
///
/// # Errors
/// No such application, or no manager.
pub async fn run(args: WeightsArgs) -> Result<Outcome, Failure> {
    match args.command {
        None => show(args.application.as_deref(), &args.view).await,
        Some(WeightsCommand::History(args)) => history(args.application.as_deref(), &args.view).await,
    }
}

async fn show(application: Option<&str>, view: &ViewArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&view.place).await?;
    let mut weights = reader.client.weights().await?;
    let names: Vec<String> = weights.kinds.iter().map(|kind| kind.application.clone()).collect();
    if !names.is_empty() {
        check(application, names)?;
    }
    weights.kinds.retain(|kind| application.is_none_or(|name| kind.application == name));
    if view.json {
        show::print(&json_with_units(&weights)?)?;
    } else if weights.kinds.is_empty() {
        show::print(why_none(&weights))?;
    } else {
        let mut table = Table::new(&[
            "APPLICATION",
            "PLATFORM",
            ">WEIGHT",
            ">TASKS LEFT",
            ">SLOTS",
            ">MEAN",
            ">RATE",
            ">ERRORS",
            "",
        ]);
        for kind in &weights.kinds {
            for platform in &kind.platforms {
                let mut cells = vec![name(kind, &weights).into()];
                cells.extend(numbers(platform));
                table.row(cells);
            }
        }
        let end =
            weights.last_end.map(|end| format!("all that waits would have begun in about {}\n", span(end)));
        show::print(&(table.render(&Screen::stdout()) + &end.unwrap_or_default()))?;
    }
    Ok(Outcome::Fine)
}

fn why_none(weights: &WeightsView) -> &'static str {
    match weights.policy.as_str() {
        "none" => "no weights: policies.distribution is none\n",
        _ => "no weights: nothing is open, or fewer than two platforms have pilots\n",
    }
}

async fn history(application: Option<&str>, view: &ViewArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&view.place).await?;
    let weights = reader.client.weights().await?;
    let names = weights.history.iter().map(|one| one.kind.application.clone()).collect();
    check(application, names)?;
    let mut history = weights.history.clone();
    history.retain(|change| application.is_none_or(|name| change.kind.application == name));
    if view.json {
        show::print(&json_with_units(&history)?)?;
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(&[
        "AT",
        "APPLICATION",
        "PLATFORM",
        ">BEFORE",
        ">WEIGHT",
        ">TASKS",
        ">SLOTS",
        ">MEAN",
        ">RATE",
        ">ERRORS",
        "",
        "WHY",
    ]);
    for change in &history {
        let mut whys = change.causes.iter().map(|cause| why(cause, &change.kind));
        for (n, platform) in change.kind.platforms.iter().enumerate() {
            let before = platform.before.map_or_else(String::new, percent);
            let mut cells: Vec<Cell> = vec![
                rfc3339(change.at).into(),
                name(&change.kind, &weights).into(),
                platform.platform.clone().into(),
            ];
            cells.push(before.into());
            cells.extend(numbers(platform).into_iter().skip(1));
            // A cause a line, as far as there are lines.
            let is_last = n + 1 == change.kind.platforms.len();
            let whys: Vec<String> = whys.by_ref().take(if is_last { usize::MAX } else { 1 }).collect();
            cells.push(whys.join("; ").into());
            table.row(cells);
        }
    }
    show::print(&table.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}

/// What differs from when the weights were noted last.
fn why(cause: &WeightCause, kind: &KindView) -> String {
    let now = |platform: &str| kind.platforms.iter().find(|one| one.platform == platform);
    match cause {
        WeightCause::First => "the first of its kind".to_owned(),
        WeightCause::Platforms { before } => format!("pilots were on {}", before.join(", ")),
        WeightCause::Slots { platform, before } => {
            let now = now(platform).map_or(0, |one| one.n_slots);
            format!("{platform} had {} slots, now {}", count(*before), count(now))
        }
        WeightCause::Mean { platform, before, guessed } => {
            let now = now(platform).map_or_else(String::new, mean);
            let time = |time: String| if time.is_empty() { "unknown".to_owned() } else { time };
            format!(
                "a task took {} on {platform}, now {}",
                time(known_or_guess(*before, *guessed)),
                time(now)
            )
        }
        WeightCause::Errors { platform, before } => {
            let now = now(platform).map_or(0.0, |one| one.error_rate);
            format!("{} failed on {platform}, now {}", percent(*before), percent(now))
        }
        WeightCause::Load { queued, threshold } => {
            let of = |(platform, n): &(String, u64)| format!("{} wait for {platform}", count(*n));
            let queued: Vec<String> = queued.iter().map(of).collect();
            format!("{}; a job has {threshold:.0} tasks in the mean", queued.join(", "))
        }
        WeightCause::Work { before } => {
            format!("{} tasks waited, now {}", count(*before), count(kind.n_ready))
        }
    }
}

/// The application, with what its tasks need where that tells kinds of it apart.
fn name(kind: &KindView, weights: &WeightsView) -> String {
    let is_other = |other: &&KindView| other.application == kind.application && other.needs != kind.needs;
    match weights.kinds.iter().find(is_other) {
        Some(_) => format!("{} ({})", kind.application, kind.needs),
        None => kind.application.clone(),
    }
}

/// The mean time of a task; what was only said or guessed with a sign of that.
fn mean(platform: &WeightView) -> String {
    let sign = if platform.is_declared { "=" } else { "" };
    sign.to_owned() + &known_or_guess(platform.mean, platform.guess)
}

fn known_or_guess(mean: Option<Span>, guess: Option<Span>) -> String {
    let guess = guess.map(|guess| format!("~{}", span(guess)));
    mean.map(span).or(guess).unwrap_or_default()
}

fn numbers(platform: &WeightView) -> Vec<Cell> {
    vec![
        platform.platform.clone().into(),
        percent(platform.weight).into(),
        count(platform.n_left).into(),
        count(platform.n_slots).into(),
        mean(platform).into(),
        platform.rate.map_or_else(String::new, rate).into(),
        percent(platform.error_rate).into(),
        if platform.is_late { "LATE".into() } else { "".into() },
    ]
}

fn check(application: Option<&str>, mut known: Vec<String>) -> Result<(), Failure> {
    known.sort_unstable();
    known.dedup();
    let Some(name) = application.filter(|name| !known.iter().any(|known| known == name)) else {
        return Ok(());
    };
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are weights of {}", counted(known.len() as u64, "application")),
    };
    Err(Failure::bad_input(format!("there are no weights of an application `{name}`; {hint}")))
}
