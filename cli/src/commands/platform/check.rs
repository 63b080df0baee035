//! `pilotfish platform check`: everything that a pilot there needs, tried in order, and one pilot.

mod probe;
mod there;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use adapters::{
    Surroundings,
    command::{BatchJob, Output, Queue},
    transport::Account,
};
use clap::Args;
use manager::{
    config::Config,
    platforms::{
        agent_file::AgentFile,
        place::{Place, Plan},
    },
};
use profiles::site::{Reach, Site};
use protocol::text::units::parse_duration_ms;
use scheduler::{engine::interface::PlatformSpec, resources::Resources, time::Span};
use serde::Serialize;

use super::Which;
use crate::{
    failure::{Failure, Outcome},
    show::{self, Screen, facts::wrapped, format},
    sys::{
        interrupts::Interrupts,
        terminal::{self, Terminal},
    },
};

/// The adapter of batch systems of which some put several nodes of an allocation on one.
const PBS: &str = "pbs";

const EXAMPLES: &str = "\
Examples:
  pilotfish platform check cluster
  pilotfish platform check cluster --config centre.yaml --no-probe
  pilotfish platform check cluster --wait 1h              a queue that is long

It asks for a password or a second factor if the host does. The probe is a
pilot that runs one task, `hostname`, and leaves; Ctrl-C cancels it.

Exit codes: 0 all is well, 2 what was given cannot be used, 3 a step failed,
130 interrupted.";

/// Which, and how far.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    #[command(flatten)]
    which: Which,
    /// Submit nothing
    #[arg(long)]
    no_probe: bool,
    /// How long to wait for the probe to come back
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_wait)]
    wait: Duration,
    /// Print the steps as JSON, for programs
    #[arg(long)]
    json: bool,
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_duration_ms(text).map(Duration::from_millis).map_err(|error| error.to_string())
}

/// What came of a step.
#[derive(Serialize)]
struct Step {
    step: &'static str,
    is_ok: bool,
    what: String,
}

struct Steps {
    all: Vec<Step>,
    is_json: bool,
}

impl Steps {
    /// Takes note of a step; `None` if it failed, or was interrupted.
    fn take(&mut self, step: &'static str, result: Result<String, String>) -> Option<()> {
        let is_ok = result.is_ok();
        if !is_ok && terminal::is_interrupted() {
            return None;
        }
        let (Ok(what) | Err(what)) = result;
        if !self.is_json {
            let mut head = format!("{step:<13} {:<7}", if is_ok { "ok" } else { "FAILED" });
            let room = Screen::stdout().width.map(|width| width.saturating_sub(head.len() + 1).max(1));
            for line in what.trim_end().split('\n').flat_map(|line| wrapped(line, room)) {
                // Whoever reads no more sees the exit code.
                let _ = show::print(format!("{head} {line}").trim_end()).and_then(|()| show::print("\n"));
                head = " ".repeat(head.len());
            }
        }
        self.all.push(Step { step, is_ok, what });
        is_ok.then_some(())
    }
}

/// Tries it.
///
/// # Errors
/// A configuration that is wrong, or has no such platform; a step that failed.
pub async fn run(args: &CheckArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let folder = tempfile::Builder::new().prefix("pilotfish-check-").tempdir();
    let folder = folder.map_err(|error| Failure::file("make a folder in", &std::env::temp_dir(), &error))?;
    let (mut config, spec, site) = args.which.find(folder.path().join("manager")).await?;
    config.asker = Arc::new(Terminal { is_lent: true });
    let mut steps = Steps { all: Vec::new(), is_json: args.json };
    let ready = tokio::select! {
        ready = look(&mut steps, &config, &spec, &site) => ready,
        _ = interrupts.next() => return Ok(Outcome::Interrupted),
    };
    if terminal::is_interrupted() {
        return Ok(Outcome::Interrupted);
    }
    if let Some(place) = ready
        && !args.no_probe
        && !probe::run(&mut steps, args.wait, config, (spec, site), place, &mut interrupts).await?
    {
        return Ok(Outcome::Interrupted);
    }
    if args.json {
        show::print(&show::json(&steps.all)?)?;
    }
    match steps.all.iter().find(|step| !step.is_ok) {
        None => Ok(Outcome::Fine),
        Some(failed) => {
            let is_last = steps.all.last().is_some_and(|last| last.step == failed.step);
            let rest = if is_last && failed.step != "end" { ", those after it were not tried" } else { "" };
            let line = format!("{}: the step `{}` failed{rest}", args.which.name, failed.step);
            Err(Failure::infrastructure(line))
        }
    }
}

/// Where the platform's commands are run; the way home is none of its affairs. `None`: no such adapter.
pub(super) fn place(config: &Config, spec: &PlatformSpec, site: &Site) -> Option<Place> {
    Place::new(Plan {
        name: spec.name.clone(),
        adapter: spec.adapter.clone(),
        site: Site { reach: Some(Reach::Direct), ..site.clone() },
        capacity: spec.capacity.clone(),
        surroundings: Surroundings { agent_command: config.agent_command.clone() },
        agent_file: AgentFile::new(&config.agent_command),
        url_elsewhere: String::new(),
        pilots: config.folder.join("pilots"),
        doorway: None,
        scheme: "https",
        asker: config.asker.clone(),
        account_check: None,
    })
}

/// Looks without submitting anything; gives the place that it looked at. `None`: a step failed.
async fn look(steps: &mut Steps, config: &Config, spec: &PlatformSpec, site: &Site) -> Option<Place> {
    if let Some(name) = &site.run_as {
        let found = match Account::of(name) {
            Ok(account) => account.check().await.map(|()| format!("commands run as {name}")),
            Err(what) => Err(what),
        };
        steps.take("account", found)?;
    }
    let mut place = place(config, spec, site)?;
    if let Some(cloud) = place.cloud() {
        for (step, found) in cloud.look().await {
            steps.take(step, found)?;
        }
        steps.take("listing", there::listed(&place, &[]).await.map(|jobs| what_is_there(&jobs)))?;
        return Some(place);
    }
    let adapter = place.adapter()?;
    steps.take("connection", connected(&place, site).await)?;
    if let Some(command) = adapter.version() {
        let said = place.said("ask for the version", command).await;
        let first = |said: String| said.lines().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned();
        steps.take("batch system", said.map(first))?;
    }
    if let Some(command) = adapter.describe() {
        let described = place.run(command).await.map_err(|error| error.to_string());
        let mut left_out = Vec::new();
        let mut read = |output: Output| adapter.read_describe_with(&output, &mut left_out);
        let queues = described.and_then(|output| read(output).map_err(|error| error.to_string()));
        let fitting = queues.and_then(|queues| fitting(&queues, spec, site));
        let lines = |what: String| [what].into_iter().chain(left_out.clone()).collect::<Vec<_>>().join("\n");
        steps.take("queue", fitting.map(lines).map_err(lines))?;
    }
    if let Some(account) = &site.account {
        match known_account(&place, account).await {
            Ok(true) => steps.take("account", Ok(account.clone()))?,
            // It cannot be looked up.
            Ok(false) => {}
            Err(why) => steps.take("account", Err(why))?,
        }
    }
    steps.take("folder", there::folder(&mut place).await)?;
    steps.take("agent", agent(&place, site).await)?;
    steps.take("listing", there::listed(&place, &[]).await.map(|jobs| what_is_there(&jobs)))?;
    Some(place)
}

/// Whether our user may name the account, where the platform lists accounts. Errors: it is not among them.
pub(super) async fn known_account(place: &Place, account: &str) -> Result<bool, String> {
    let Some((adapter, command)) = place.adapter().and_then(|adapter| Some((adapter, adapter.accounts()?)))
    else {
        return Ok(false);
    };
    let Ok(output) = place.run(command).await else { return Ok(false) };
    let accounts = adapter.read_accounts(&output);
    if output.code != Some(0) || accounts.is_empty() {
        return Ok(false);
    }
    match accounts.iter().any(|known| adapter.is_same_account(known, account)) {
        true => Ok(true),
        false => Err(format!("found no account `{account}` of this user; there are {}", accounts.join(", "))),
    }
}

/// Why pilots on nodes may not come home; `None`: they reach the manager as far as its configuration goes.
pub(super) fn no_way_home(config: &Config, spec: &PlatformSpec, site: &Site) -> Option<String> {
    let is_elsewhere = !["local", "hosts"].contains(&spec.adapter.as_str());
    let is_direct = site.ssh.is_none() && !matches!(site.reach, Some(Reach::At(_)));
    let host = config.listen_host;
    (is_elsewhere && is_direct && host.is_loopback()).then(|| {
        format!(
            "the manager listens on {host}, which only this host reaches: write `listen: {{host: 0.0.0.0}}`"
        )
    })
}

fn what_is_there(jobs: &[BatchJob]) -> String {
    format!("{} of this account", format::counted(jobs.len() as u64, "allocation"))
}

/// Whether the agent can be run. A path that the platform names may be one of the nodes only.
async fn agent(place: &Place, site: &Site) -> Result<String, String> {
    let is_of_nodes =
        site.agent.is_some() && place.adapter().is_some_and(|adapter| adapter.describe().is_some());
    match there::agent(place).await {
        Err(why) if is_of_nodes && why.starts_with("failed to run") => {
            Ok(format!("not here, perhaps on the nodes: {why}"))
        }
        other => other,
    }
}

/// Connects; gives where to, and how long it took.
async fn connected(place: &Place, site: &Site) -> Result<String, String> {
    let began = Instant::now();
    place.connect().await.map_err(|error| error.to_string())?;
    Ok(match &site.ssh {
        Some(host) => format!("{host}, {}", format::span(since(began))),
        None => "this host".to_owned(),
    })
}

/// Whether one of the queues takes such pilots: what they are.
fn fitting(queues: &[Queue], spec: &PlatformSpec, site: &Site) -> Result<String, String> {
    let queues = meant(queues, site.queue.as_deref())?;
    if !queues.iter().any(|queue| queue.is_up) {
        return Err(format!("{} starts no jobs at present", names(&queues)));
    }
    fits_one(&queues, spec)?;
    Ok(queues.into_iter().map(facts).collect::<Vec<_>>().join("; "))
}

fn facts(queue: &Queue) -> String {
    let n_of = |nodes: &[(u32, Resources)]| nodes.iter().map(|(n, _)| u64::from(*n)).sum::<u64>();
    let away = match n_of(&queue.nodes_away) {
        0 => String::new(),
        n => format!(", {n} more down or drained"),
    };
    let nodes = format::counted(n_of(&queue.nodes), "node");
    format!("{}, {}, {nodes}{away}", queue.name, most(queue))
}

/// How long a job of it may live.
pub(super) fn most(queue: &Queue) -> String {
    queue.walltime_max.map_or("no limit".to_owned(), |most| format!("at most {}", format::span(most)))
}

pub(super) fn names(queues: &[&Queue]) -> String {
    queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether one of the queues could ever start such pilots. Errors: why none could.
pub(super) fn fits_one(queues: &[&Queue], spec: &PlatformSpec) -> Result<(), String> {
    let refusals: Vec<String> = queues.iter().filter_map(|queue| fits(queue, spec).err()).collect();
    if refusals.len() < queues.len() { Ok(()) } else { Err(refusals.join("; ")) }
}

/// Whether the queue could ever start such pilots. Errors: why not.
pub(super) fn fits(queue: &Queue, spec: &PlatformSpec) -> Result<(), String> {
    if let (Some(most), Some(walltime)) = (queue.walltime_max, spec.walltime)
        && walltime > most
    {
        let (most, walltime) = (format::span(most), format::span(walltime));
        return Err(format!(
            "{} lets a job run for at most {most}; found a walltime of {walltime}",
            queue.name
        ));
    }
    // What a batch system does not say of its nodes' memory keeps nobody away.
    let fits = |node: &Resources| match node.memory_bytes {
        0 => Resources { memory_bytes: 0, ..spec.capacity.clone() }.fits_in(node),
        _ => spec.capacity.fits_in(node),
    };
    // Those that are away come back some day.
    let all: Vec<&(u32, Resources)> = queue.nodes.iter().chain(&queue.nodes_away).collect();
    if !all.is_empty() && !all.iter().any(|(_, node)| fits(node)) {
        let nodes: Vec<String> = all.iter().map(|(n, node)| format!("{n} with {node}")).collect();
        return Err(format!("no node of {} has {}; it has {}", queue.name, spec.capacity, nodes.join("; ")));
    }
    let fitting = all.iter().filter(|(_, node)| fits(node));
    let n_all: u64 = fitting.map(|(n, node)| n_places(*n, node, spec)).sum();
    // The tasks of a job array begin one by one.
    if all.is_empty() || spec.is_array || u64::from(spec.n_nodes) <= n_all {
        return Ok(());
    }
    let place = if spec.adapter == PBS { "place" } else { "node" };
    Err(format!(
        "{} has {} with {} or more; an allocation of {} nodes never begins",
        queue.name,
        format::counted(n_all, place),
        spec.capacity,
        spec.n_nodes
    ))
}

/// How many of an allocation's nodes `n` nodes can be.
fn n_places(n: u32, node: &Resources, spec: &PlatformSpec) -> u64 {
    let n_on_one = match spec.adapter == PBS {
        true => node.cores.checked_div(spec.capacity.cores).unwrap_or(1),
        false => 1,
    };
    u64::from(n).saturating_mul(n_on_one.max(1).into())
}

/// The queues that a platform names, of which a pilot starts in any: one, or a list with commas. Without a name those
/// that are the default, or the only one. There is at least one.
pub(super) fn meant<'q>(queues: &'q [Queue], name: Option<&str>) -> Result<Vec<&'q Queue>, String> {
    let known = || names(&queues.iter().collect::<Vec<_>>());
    let Some(name) = name else {
        let is_meant = |queue: &&Queue| queue.is_default || queues.len() == 1;
        let found: Vec<&Queue> = queues.iter().filter(is_meant).collect();
        return match found.is_empty() {
            true => Err(format!("no queue is the default one; name one of {}", known())),
            false => Ok(found),
        };
    };
    let of_name = |name: &str| {
        let found = queues.iter().find(|queue| queue.name == name);
        found.ok_or_else(|| format!("found no queue `{name}`; there are {}", known()))
    };
    name.split(',').map(of_name).collect()
}

fn since(began: Instant) -> Span {
    Span(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX))
}
