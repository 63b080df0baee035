//! `pilotfish platform show`: one platform in full.

use std::cmp::Reverse;

use clap::Args;
use protocol::api::ReasonRow;
use scheduler::{
    engine::interface::{
        PlatformMode,
        views::{CostView, PlatformView},
    },
    explain::{Reason, core_hours},
    time::Span,
};

use crate::{
    failure::{Failure, Outcome},
    show::{
        Screen,
        facts::Facts,
        format::{count, counted, span},
        units::json_with_units,
    },
    view::{Reader, ViewArgs, WatchArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform show cluster
  pilotfish platform show cluster --watch";

/// Which, and how it is shown.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// Shows it.
///
/// # Errors
/// No such platform, or no manager and no store.
pub(super) async fn run(args: ShowArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let view = async |screen: &Screen| {
        let platform = super::find(&reader.client, &args.name).await?;
        if args.view.json {
            return json_with_units(&platform);
        }
        if args.view.quiet {
            return Ok(format!("{}\n", state(&platform, reader.left.is_none())));
        }
        let reasons = reader.client.explain(&format!("platform/{}", platform.name)).await?.reasons;
        Ok(facts(&platform, reader.left.is_none(), &reasons).render(screen))
    };
    args.watch.show(view).await
}

/// One word for people; `is_live`: a manager says so, not only its store.
pub(super) fn state(platform: &PlatformView, is_live: bool) -> &'static str {
    match platform.mode {
        _ if is_live && !platform.is_attached => "detached",
        PlatformMode::Active => "active",
        PlatformMode::Paused => "paused",
        PlatformMode::Draining => "draining",
        PlatformMode::Detached => "detached",
    }
}

fn facts(platform: &PlatformView, is_live: bool, reasons: &[ReasonRow]) -> Facts {
    let mut facts = Facts::default();
    facts.add("platform", format!("{} (adapter {})", platform.name, platform.adapter));
    let is = match state(platform, is_live) {
        "detached" => "not in the configuration of the manager that runs",
        word => word,
    };
    facts.add("state", is);
    let life = platform.walltime.map_or("no end".to_owned(), span);
    facts.add("each pilot", format!("{}, {life}", platform.capacity));
    facts.add(
        "pilots",
        format!(
            "{} of at most {}, {} queued",
            count(platform.n_pilots),
            platform.n_pilots_max,
            counted(platform.n_queued, "allocation")
        ),
    );
    let (spent, kept) = (core_hours(platform.core_time_spent), core_hours(platform.core_time_committed));
    let budget =
        platform.limits.core_time_max.map_or(String::new(), |most| format!("of {}: ", core_hours(most)));
    facts.add("core-hours", format!("{budget}{spent} spent, {kept} reserved for present allocations"));
    let money = platform.cost.as_ref().map(|cost| {
        let currency = &cost.price.currency;
        let most = platform.limits.cost_max.map_or(String::new(), |most| format!("of {most} {currency}: "));
        format!("{most}{}, at {} {currency} a core-hour", self::cost(cost), cost.price.core_hour.exact())
    });
    facts.add_some("cost", money);
    let wait = platform.wait_mean.map(|wait| {
        format!(
            "about {} for the first pilot ({} so far)",
            span(wait),
            counted(platform.n_waits, "allocation")
        )
    });
    facts.add_some("queue", wait);
    facts.add_some("meant for", Some(shares(platform)).filter(|shares| !shares.is_empty()));
    let users = Some(users(platform)).filter(|users| !users.is_empty());
    facts.add_some("used by", users.map(|users| format!("{users} (core-hours)")));
    facts.add_some(
        "waits for",
        platform
            .waits_for_person
            .as_ref()
            .map(|why| format!("a person: {why}; run `pilotfish platform login {}`", platform.name)),
    );
    for (name, text) in said_once(platform, reasons) {
        facts.add(name, text);
    }
    facts
}

/// What fails and what binds, without what other lines say: a person who is waited for has a line already.
fn said_once<'r>(platform: &'r PlatformView, reasons: &'r [ReasonRow]) -> Vec<(&'static str, &'r str)> {
    let is_shown = |row: &&ReasonRow| {
        platform.waits_for_person.is_none() || !matches!(row.reason, Reason::PersonAwaited { .. })
    };
    let why: Vec<&str> = reasons.iter().filter(is_shown).map(|row| row.text.as_str()).collect();
    let is_said = |what: &str| {
        platform.waits_for_person.iter().any(|said| said.contains(what) || what.contains(said.as_str()))
    };
    let failure = platform.last_failure.as_deref().filter(|what| !is_said(what));
    let failure = failure.map(|what| ("last failure", what));
    failure.into_iter().chain(why.into_iter().map(|text| ("why", text))).collect()
}

/// What is waited for there, and why that may take long.
pub(in crate::commands) fn left(platform: &PlatformView) -> String {
    let why = platform.last_failure.as_ref().map(|what| format!("; it does not work: {what}"));
    let pilots = counted(platform.n_pilots_there, "pilot");
    format!("{pilots} there or asked for{}", why.unwrap_or_default())
}

/// What is spent, and what is kept.
pub(super) fn cost(cost: &CostView) -> String {
    let CostView { spent, committed, price } = cost;
    format!("{spent} {} spent, {committed} reserved for present allocations", price.currency)
}

/// `ada 1.5, bob 0.2`: core-hours of those whose tasks took most.
pub(super) fn users(platform: &PlatformView) -> String {
    const N_SHOWN: usize = 8;
    let mut used: Vec<(&String, &Span)> = platform.core_time_used.iter().collect();
    used.sort_by_key(|(user, core_time)| (Reverse(**core_time), *user));
    let n_more = used.len().saturating_sub(N_SHOWN);
    let shown =
        used.iter().take(N_SHOWN).map(|(user, core_time)| format!("{user} {}", core_hours(**core_time)));
    let more = (n_more > 0).then(|| format!("and {n_more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

/// Cores that are meant for each user.
fn shares(platform: &PlatformView) -> String {
    let shares = platform.shares.iter().map(|(user, cores)| format!("{user} {}", counted(*cores, "core")));
    shares.collect::<Vec<_>>().join(", ")
}
