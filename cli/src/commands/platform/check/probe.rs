//! One pilot that runs one task and leaves.

use std::{
    io::ErrorKind,
    net::TcpListener,
    time::{Duration, Instant},
};

use adapters::command::joined;
use manager::{Manager, config::Config, platforms::place::Place};
use profiles::site::Site;
use protocol::{
    api::SubmitRequest,
    job::{CommandLine, JobSpec},
};
use scheduler::{
    engine::interface::{
        PlatformSpec,
        views::{AllocationView, JobView},
    },
    ids::JobId,
    time::Span,
};

use super::{Steps, since, there};
use crate::{client::Client, failure::Failure, in_process, show::format, sys::interrupts::Interrupts};

/// The probe lives so long at most.
const PROBE_WALLTIME: Span = Span::from_secs(120);
/// How often the probe is looked at, within this process.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// For a pilot to leave and its allocation to be gone.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Lets one pilot run one task; `false`: interrupted.
pub(super) async fn run(
    steps: &mut Steps,
    limit: Duration,
    mut config: Config,
    (spec, site): (PlatformSpec, Site),
    mut place: Place,
    interrupts: &mut Interrupts,
) -> Result<bool, Failure> {
    let walltime = spec.walltime.map(|walltime| walltime.min(PROBE_WALLTIME));
    let poll_interval = Span::from_secs(1);
    let idle_timeout = Span::from_secs(1);
    let spec = PlatformSpec {
        n_pilots_max: spec.n_nodes,
        n_pilots_min: 0,
        walltime,
        poll_interval,
        idle_timeout,
        // A look changes nothing of the hosts.
        scaling: None,
        ..spec
    };
    let no_way_home = super::no_way_home(&config, &spec, &site);
    config.platforms = vec![(spec, site)];
    let other_port = port_in_use(&config);
    if other_port.is_some() {
        config.listen_port = None;
    }
    let (mut manager, client) = in_process::start(config).await?;
    let came = tokio::select! {
        came = come_home(&client, limit) => Some(came),
        _ = interrupts.next() => None,
    };
    let asked_for = client.allocations(true).await.map(|answer| answer.allocations).unwrap_or_default();
    let is_interrupted = came.is_none();
    if let Some(came) = came {
        let came = with_what_is_known(came, &mut place, &asked_for).await;
        // Only a pilot whose job was accepted could have begun, and have found no way home.
        let hints = [no_way_home, other_port].into_iter().flatten().filter(|_| may_have_begun(&asked_for));
        let hints: Vec<String> = hints.collect();
        let with_hints =
            |what: String| joined([what.as_str()].into_iter().chain(hints.iter().map(String::as_str)));
        steps.take("probe", came.map_err(with_hints));
    }
    let ended = end(&mut manager, &client, &mut place, &asked_for).await;
    manager.close().await;
    if !is_interrupted || ended.is_err() {
        steps.take("end", ended);
    }
    Ok(!is_interrupted)
}

/// A hint if the configured port is in use, mostly by the running manager. The probe's manager gets another port then.
fn port_in_use(config: &Config) -> Option<String> {
    let port = config.listen_port?;
    let bound = TcpListener::bind((config.listen_host, port));
    let is_in_use = bound.is_err_and(|error| error.kind() == ErrorKind::AddrInUse);
    is_in_use.then(|| {
        format!(
            "port {port} of `listen` is in use, so the probe was to reach another one: a firewall may let nodes reach \
             {port} only; stop the manager and check again"
        )
    })
}

/// One that did not come is told with what its platform and its batch job say.
async fn with_what_is_known(
    came: Result<String, String>,
    place: &mut Place,
    asked_for: &[AllocationView],
) -> Result<String, String> {
    let (Err(what), Some(last)) = (&came, asked_for.last()) else { return came };
    match there::known_of(place, last).await {
        Some(more) => Err(joined([what.as_str(), &more])),
        None => came,
    }
}

/// Whether a pilot of one of them may have begun without having come.
fn may_have_begun(asked_for: &[AllocationView]) -> bool {
    asked_for.iter().any(|allocation| allocation.batch_id.is_some() && allocation.pilot_at.is_none())
}

async fn come_home(client: &Client, limit: Duration) -> Result<String, String> {
    let began = Instant::now();
    let spec = JobSpec::new(CommandLine::Shell("hostname".to_owned()), "/".into());
    let request = SubmitRequest { spec, submission_key: None };
    let submitted = client.submit(&request).await.map_err(|error| error.to_string())?;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let job = client.job(submitted.job).await.map_err(|error| error.to_string())?;
        if job.ended_at.is_some() {
            return whence(client, &job, began).await;
        }
        let platforms = client.platforms().await.map_err(|error| error.to_string())?.platforms;
        let failure = platforms.iter().find_map(|platform| platform.last_failure.clone());
        if let Some(what) = failure {
            return Err(what);
        }
        if began.elapsed() > limit {
            return Err(why_not(client, submitted.job, limit).await);
        }
    }
}

/// Where the probe was.
async fn whence(client: &Client, job: &JobView, began: Instant) -> Result<String, String> {
    let pilots = client.pilots(true).await.map_err(|error| error.to_string())?.pilots;
    let node = pilots.first().map_or("?".to_owned(), |pilot| pilot.node.hostname.clone());
    match job.counts.failed {
        0 => Ok(format!("came home from {node} after {}", format::span(since(began)))),
        _ => {
            let why = client.explain(&format!("job/{}", job.id)).await;
            let why = why.map(|why| joined(why.reasons.iter().map(|row| row.text.as_str())));
            Err(format!("its task failed on {node}: {}", why.unwrap_or_default()))
        }
    }
}

async fn why_not(client: &Client, job: JobId, limit: Duration) -> String {
    let limit = format::span(Span(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX)));
    let why = client.explain(&format!("job/{job}")).await;
    let why = why.map(|why| joined(why.reasons.iter().map(|row| row.text.as_str())));
    format!("not home after {limit}: {}", why.unwrap_or_default())
}

/// Ends the manager and what it asked for, and takes away what that has left.
async fn end(
    manager: &mut Manager,
    client: &Client,
    place: &mut Place,
    asked_for: &[AllocationView],
) -> Result<String, String> {
    let began = Instant::now();
    // It may be ending already.
    let _ = client.shut_down(true).await;
    // One that does not end may have been refused a cancellation: the listing tells.
    let ended = tokio::time::timeout(END_LIMIT, manager.wait()).await;
    manager.take_leave().await;
    let limit = if ended.is_ok() { END_LIMIT } else { Duration::ZERO };
    there::are_gone(place, asked_for, limit).await?;
    there::remove(place, asked_for).await?;
    ended
        .map_err(|_| "the manager of the check does not end".to_owned())?
        .map_err(|error| error.to_string())?;
    Ok(format!("nothing is left there after {}", format::span(since(began))))
}
