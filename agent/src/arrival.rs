//! A pilot's way home: what it says of itself, and registering however long that takes.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use protocol::pilot::{JoinDocument, PullRequest, RegisterAnswer, RegisterRequest, VERSION};
use scheduler::{
    pull::{Held, Holdings, NodeFacts, Pull, Registration},
    ranges::TaskSet,
    resources::Resources,
    results::{JobReport, Report},
    time::Span,
};

use crate::{
    client::{Client, ClientError, backoff, random},
    driver::DriverError,
    node::Node,
    spool::Spool,
};

/// What is kept free at the end of the walltime, to report and leave: a fiftieth of it, within bounds.
const MARGIN_MIN: Duration = Duration::from_secs(2);
const MARGIN_MAX: Duration = Duration::from_secs(60);

/// What a pilot says of itself.
pub(crate) struct Arrival {
    pub(crate) node: Node,
    pub(crate) capacity: Resources,
    pub(crate) walltime_end: Option<Instant>,
    tag: String,
    nonce: u64,
    started: Instant,
}

impl Arrival {
    pub(crate) fn new(
        join: &JoinDocument,
        node: Node,
        walltime_end: Option<Instant>,
        nonce: u64,
        started: Instant,
    ) -> Arrival {
        let capacity = join.capacity.clone().unwrap_or_else(|| Resources {
            cores: node.n_cores,
            memory_bytes: node.memory_bytes,
            gpus: u32::try_from(node.gpus.len()).unwrap_or(0),
            ..Resources::default()
        });
        Arrival { node, capacity, walltime_end, tag: join.tag.clone(), nonce, started }
    }

    /// The CPUs to bind tasks to. Only where a batch system gave us these and we use them all: on a
    /// shared machine others may be on a CPU that a bound task then waits for.
    pub(crate) fn cpus_to_bind(&self) -> Vec<usize> {
        let uses_all = self.capacity.cores as usize == self.node.cpus.len();
        if self.node.batch_id.is_some() && uses_all { self.node.cpus.clone() } else { Vec::new() }
    }

    /// The registration as of now.
    pub(crate) fn request(&self) -> RegisterRequest {
        let span = |duration: Duration| Span(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        let left = self.walltime_end.map(|end| span(end.saturating_duration_since(Instant::now())));
        let node = NodeFacts {
            hostname: self.node.hostname.clone(),
            capacity: self.capacity.clone(),
            batch_id: self.node.batch_id.clone(),
            walltime_left: left,
            agent_version: env!("CARGO_PKG_VERSION").into(),
        };
        let uptime = span(self.started.elapsed());
        RegisterRequest {
            version: VERSION,
            registration: Registration { tag: self.tag.clone(), nonce: self.nonce, node, uptime },
        }
    }

    /// Registers, trying again until it works, and delivers what a pilot before us had not.
    ///
    /// # Errors
    /// Only those that trying again cannot help.
    pub(crate) async fn register(
        &self,
        client: &Client,
        token: &str,
        spool: &mut Spool,
    ) -> Result<RegisterAnswer, ClientError> {
        let mut n_failed = 0;
        let mut answer = loop {
            match client.register(token, &self.request()).await {
                Ok(answer) => break answer,
                Err(error) if error.is_final() => return Err(error),
                Err(error) => {
                    n_failed += 1;
                    if n_failed == 1 {
                        tracing::warn!(%error, "trying again");
                    }
                    tokio::time::sleep(backoff(n_failed)).await;
                }
            }
        };
        spool.acknowledge(answer.registered.acknowledged);
        answer.registered.acknowledged = deliver_leftovers(client, &answer, spool).await;
        Ok(answer)
    }
}

/// Sends the reports of a pilot that crashed here, as the same pilot come back. Gives the last
/// number that the manager has. What it will not take is dropped: its tasks are run again, while a
/// gap in the numbers would void every report after it.
async fn deliver_leftovers(client: &Client, answer: &RegisterAnswer, spool: &mut Spool) -> u64 {
    let mut acknowledged = answer.registered.acknowledged;
    for number in spool.numbers().collect::<Vec<u64>>() {
        let Some(report) = spool.read(number) else { break };
        match deliver(client, answer, report).await {
            Ok(up_to) => acknowledged = acknowledged.max(up_to),
            Err(error) => tracing::warn!(%error, number, "a report that was left over is not delivered"),
        }
        if acknowledged < number {
            tracing::warn!(
                number,
                "the manager has not taken a report that was left over: its tasks are run again"
            );
            break;
        }
        tracing::info!(number, "delivered a report that was left over");
    }
    spool.acknowledge(u64::MAX);
    acknowledged
}

/// Sends one report; a manager that asks what we hold is told: only what the report is about.
async fn deliver(client: &Client, answer: &RegisterAnswer, report: Report) -> Result<u64, ClientError> {
    let pilot = answer.registered.pilot;
    let tasks = report.jobs.iter().map(held).collect();
    let mut pull = Pull { report: Some(report), ..Pull::default() };
    let mut answered = client.pull(&answer.session, &PullRequest { pilot, pull: pull.clone() }).await?;
    if let Some(asked) = answered.resync {
        pull.epoch = answered.epoch;
        pull.holds = Some(Holdings { asked, tasks, templates: Vec::new() });
        answered = client.pull(&answer.session, &PullRequest { pilot, pull }).await?;
    }
    Ok(answered.acknowledged)
}

fn held(report: &JobReport) -> Held {
    let mut unreported = report.successes.tasks.clone();
    unreported.insert_all(&report.returned);
    unreported.extend_indices(report.failures.iter().map(|failure| failure.index));
    Held { job: report.job, queued: TaskSet::new(), running: TaskSet::new(), unreported }
}

/// When the pilot ends at the latest, and how much before that it stops working.
pub(crate) fn walltime(join: &JoinDocument, node: &Node, started: Instant) -> (Option<Instant>, Duration) {
    let asked = join.walltime.map(|span| Duration::from_micros(span.0));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = node.walltime_end_unix.map(|end| {
        let left = Duration::from_secs(end).saturating_sub(now);
        started.elapsed().saturating_add(left)
    });
    let walltime = asked.into_iter().chain(left).min();
    let margin = walltime.map_or(MARGIN_MAX, |walltime| (walltime / 50).clamp(MARGIN_MIN, MARGIN_MAX));
    (walltime.and_then(|walltime| started.checked_add(walltime)), margin)
}

/// The pilot's spool in its folder, which is made if need be.
///
/// Pilots of several nodes, and in the worst case several of one node, may share a folder.
pub(crate) fn open_spool(folder: &Path, hostname: &str) -> Result<Spool, DriverError> {
    fs::create_dir_all(folder).map_err(|source| DriverError::Folder { path: folder.into(), source })?;
    let mut path = folder.join(format!("spool-{hostname}"));
    if Spool::is_in_use(&path) {
        path = folder.join(format!("spool-{hostname}-{}", std::process::id()));
    }
    Ok(Spool::open(&path, random())?)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use protocol::pilot::JoinDocument;
    use scheduler::{resources::Resources, time::Span};

    use super::{Arrival, open_spool, walltime};
    use crate::node::Node;

    fn node() -> Node {
        Node {
            hostname: "node".into(),
            cpus: vec![2, 3],
            n_cores: 2,
            memory_bytes: 100,
            gpus: vec!["0".into()],
            batch_id: Some("77".into()),
            walltime_end_unix: None,
        }
    }

    #[test]
    fn earliest_end_counts() {
        let started = Instant::now();
        let join = |walltime| JoinDocument { walltime, ..JoinDocument::default() };
        assert_eq!(walltime(&join(None), &node(), started), (None, Duration::from_secs(60)));
        let (end, margin) = walltime(&join(Some(Span::from_secs(500))), &node(), started);
        assert_eq!((end, margin), (Some(started + Duration::from_secs(500)), Duration::from_secs(10)));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let slurm = Node { walltime_end_unix: Some(now + 90), ..node() };
        let (end, margin) = walltime(&join(Some(Span::from_secs(500))), &slurm, started);
        assert!(end.unwrap() <= started + Duration::from_secs(92));
        assert_eq!(margin, Duration::from_secs(2));
    }

    #[test]
    fn pilot_offers_the_node_or_what_it_is_told_to() {
        let arrival = |join: JoinDocument| Arrival::new(&join, node(), None, 1, Instant::now());
        let all = arrival(JoinDocument::default());
        let expected = Resources { cores: 2, memory_bytes: 100, gpus: 1, ..Resources::default() };
        assert_eq!((all.capacity.clone(), all.cpus_to_bind()), (expected, vec![2, 3]));
        assert_eq!(all.request().registration.node.batch_id.as_deref(), Some("77"));
        let one = arrival(JoinDocument { capacity: Some(Resources::cores(1)), ..JoinDocument::default() });
        assert_eq!((one.capacity.clone(), one.cpus_to_bind()), (Resources::cores(1), vec![]));
    }

    #[test]
    fn two_pilots_in_one_folder_have_a_spool_each() {
        let folder = tempfile::tempdir().unwrap();
        let first = open_spool(folder.path(), "node").unwrap();
        let second = open_spool(folder.path(), "node").unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        drop(first);
        drop(second);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
