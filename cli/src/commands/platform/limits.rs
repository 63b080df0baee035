//! `pilotfish platform limits`.

use clap::Args;
use profiles::{platform::N_PILOTS_MAX, price::amount, quantity::core_hours as core_hours_of};
use protocol::api::LimitsRequest;
use scheduler::{engine::interface::views::PlatformView, explain::core_hours};

use crate::{
    access,
    failure::{Failure, Outcome},
    show::{self, Screen, table::Table, units::json_with_units},
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform limits cluster
  pilotfish platform limits cluster --pilots-max 50 --queued-max 10
  pilotfish platform limits cluster --core-hours 5000
  pilotfish platform limits cluster --core-hours none --user-core-hours 500
  pilotfish platform limits cloud --budget 250

What is set here holds until the manager is restarted; then the limits in
manager.yaml count again.";

/// Which, and what is allowed from now on.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LimitsArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Pilots, including those asked for
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_pilots)]
    pilots_max: Option<u32>,
    /// Allocations that wait for their pilot
    #[arg(long, value_name = "N|none", allow_negative_numbers = true, value_parser = parse_number)]
    queued_max: Option<Most<u32>>,
    /// Allocations asked for within any minute
    #[arg(long, value_name = "N|none", allow_negative_numbers = true, value_parser = parse_number)]
    submissions_per_minute: Option<Most<u32>>,
    /// Core-hours of all pilots together, past and present
    #[arg(long, value_name = "HOURS|none", allow_negative_numbers = true, value_parser = parse_hours)]
    core_hours: Option<Most<f64>>,
    /// Core-hours of the tasks of any one user
    #[arg(long, value_name = "HOURS|none", allow_negative_numbers = true, value_parser = parse_hours)]
    user_core_hours: Option<Most<f64>>,
    /// What all pilots together may cost, past and present, in the platform's currency
    #[arg(long, value_name = "AMOUNT|none", allow_negative_numbers = true, value_parser = parse_amount)]
    budget: Option<Most<f64>>,
    #[command(flatten)]
    view: ViewArgs,
}

/// A limit; `None`: there is none.
#[derive(Clone, Copy)]
struct Most<T>(Option<T>);

/// Pilots. No number of them is no limit.
fn parse_pilots(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=N_PILOTS_MAX).contains(number));
    number.ok_or_else(|| format!("write a whole number from 1 to {N_PILOTS_MAX}, or drain the platform"))
}

fn parse_number(text: &str) -> Result<Most<u32>, String> {
    match text {
        "none" => Ok(Most(None)),
        number => match number.parse::<u32>() {
            Ok(number) if number > 0 => Ok(Most(Some(number))),
            Ok(_) | Err(_) => Err("write a whole number, 1 or more, or `none`".to_owned()),
        },
    }
}

fn parse_hours(text: &str) -> Result<Most<f64>, String> {
    match text {
        "none" => Ok(Most(None)),
        number => match core_hours_of(number) {
            Ok(core_time) => Ok(Most(Some(core_time.as_secs_f64() / 3600.0))),
            Err(what) => Err(format!("found `{number}`; {what}, or `none`")),
        },
    }
}

fn parse_amount(text: &str) -> Result<Most<f64>, String> {
    match text {
        "none" => Ok(Most(None)),
        number => {
            let number: f64 = number.parse().map_err(|_| "write a number or `none`".to_owned())?;
            amount(number).map(|_| Most(Some(number)))
        }
    }
}

/// Sets limits, if some are given; shows all.
///
/// # Errors
/// No such platform, a limit that makes no sense, or no manager.
pub(super) async fn run(args: &LimitsArgs) -> Result<Outcome, Failure> {
    let request = LimitsRequest {
        pilots_max: args.pilots_max,
        queued_max: args.queued_max.map(|most| most.0),
        submissions_per_minute: args.submissions_per_minute.map(|most| most.0),
        core_hours: args.core_hours.map(|most| most.0),
        user_core_hours: args.user_core_hours.map(|most| most.0),
        budget: args.budget.map(|most| most.0),
    };
    let platform = match request == LimitsRequest::default() {
        true => super::find(&Reader::open(&args.view.place).await?.client, &args.name).await?,
        false => {
            let client = access::find_for_operator(&args.view.place).await?;
            client.limit_platform(&super::known(&client, &args.name).await?, &request).await?
        }
    };
    let text = match args.view.json {
        true => json_with_units(&platform)?,
        false => table(&platform).render(&Screen::stdout()),
    };
    show::print(&text)?;
    Ok(Outcome::Fine)
}

fn table(platform: &PlatformView) -> Table {
    let number = |most: Option<u32>| most.map_or("none".to_owned(), |most| most.to_string());
    let (spent, kept) = (core_hours(platform.core_time_spent), core_hours(platform.core_time_committed));
    let rows = [
        ("pilots_max", platform.n_pilots_max.to_string(), platform.n_pilots_there.to_string()),
        ("queued_max", number(platform.limits.n_queued_max), platform.n_queued.to_string()),
        ("submissions_per_minute", number(platform.limits.n_submissions_per_minute), String::new()),
        (
            "core_hours",
            platform.limits.core_time_max.map_or("none".to_owned(), core_hours),
            format!("{spent} spent, {kept} reserved for present allocations"),
        ),
        (
            "user_core_hours",
            platform.limits.user_core_time_max.map_or("none".to_owned(), core_hours),
            super::show::users(platform),
        ),
    ];
    let cost = platform.cost.as_ref().map(|cost| {
        let most = platform.limits.cost_max.map(|most| format!("{most} {}", cost.price.currency));
        ("budget", most.unwrap_or("none".to_owned()), super::show::cost(cost))
    });
    let mut table = Table::new(&["LIMIT", ">MOST", "NOW"]);
    for (name, most, now) in rows.into_iter().chain(cost) {
        table.row(vec![name.into(), most.into(), now.into()]);
    }
    table
}
