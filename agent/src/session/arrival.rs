//! A pilot's registration: its properties, and retries until the manager answers.

use std::{
    io,
    path::{Path, PathBuf},
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
    node::{Node, gpus::Gpus},
    session::{
        client::{Client, ClientError, backoff, random},
        spool::{Spool, SpoolError},
    },
    sys::private,
};

/// Time that is kept free at the end of the walltime, to report and leave: a fiftieth of it, within these
/// limits.
const MARGIN_MIN: Duration = Duration::from_secs(2);
const MARGIN_MAX: Duration = Duration::from_secs(60);

/// The properties that a pilot registers.
pub(crate) struct Arrival {
    pub(crate) node: Node,
    pub(crate) capacity: Resources,
    pub(crate) walltime_end: Option<Instant>,
    tag: String,
    nonce: u64,
    /// The nonce of the previous process, if its spool is here.
    predecessor: Option<u64>,
    started: Instant,
}

impl Arrival {
    pub(crate) fn new(
        join: &JoinDocument,
        node: Node,
        walltime_end: Option<Instant>,
        (nonce, predecessor): (u64, Option<u64>),
        started: Instant,
    ) -> Arrival {
        let n_gpus = u32::try_from(node.gpus.count()).unwrap_or(0);
        let mut capacity = join.capacity.clone().unwrap_or_else(|| Resources {
            cores: node.n_cores,
            memory_bytes: node.memory_bytes,
            gpus: n_gpus,
            ..Resources::default()
        });
        if node.gpus.is_known() && capacity.gpus > n_gpus {
            // With more tasks than GPUs, some tasks would share one.
            tracing::warn!(
                n_promised = capacity.gpus,
                n_gpus,
                "fewer GPUs are for this pilot than its platform is said to have: it offers these alone"
            );
            capacity.gpus = n_gpus;
        }
        Arrival { node, capacity, walltime_end, tag: join.tag.clone(), nonce, predecessor, started }
    }

    /// Returns the GPUs for tasks.
    pub(crate) fn gpus(&self) -> Gpus {
        self.node.gpus.or_declared(self.capacity.gpus)
    }

    /// Returns the CPUs to which tasks are bound. Empty unless a batch system allocated these CPUs and the
    /// pilot uses all of them: on a shared machine a bound task would wait for other processes on its CPU.
    pub(crate) fn cpus_to_bind(&self) -> Vec<usize> {
        let uses_all = self.capacity.cores as usize == self.node.cpus.len();
        if self.node.batch_id.is_some() && uses_all { self.node.cpus.clone() } else { Vec::new() }
    }

    /// Returns the registration with the present remaining walltime.
    pub(crate) fn request(&self) -> RegisterRequest {
        let span = |duration: Duration| Span(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        let left = self.walltime_end.map(|end| span(end.saturating_duration_since(Instant::now())));
        let node = NodeFacts {
            hostname: self.node.hostname.clone(),
            rank: self.node.rank,
            capacity: self.capacity.clone(),
            batch_id: self.node.batch_id.clone(),
            walltime_left: left,
            agent_version: env!("CARGO_PKG_VERSION").into(),
        };
        let uptime = span(self.started.elapsed());
        RegisterRequest {
            version: VERSION,
            registration: Registration {
                tag: self.tag.clone(),
                nonce: self.nonce,
                node,
                uptime,
                predecessor: self.predecessor,
            },
        }
    }

    /// Registers, and retries until it succeeds. The unsent reports of a pilot that crashed here are
    /// delivered first, in its name; then a new pilot begins, without tasks.
    ///
    /// # Errors
    /// Only errors that a retry cannot fix.
    pub(crate) async fn register(
        &mut self,
        client: &Client,
        token: &str,
        spool: &mut Spool,
    ) -> Result<RegisterAnswer, ClientError> {
        if spool.numbers().next().is_some() {
            self.nonce = spool.nonce();
            let answer = self.insist(client, token).await?;
            spool.acknowledge(answer.registered.acknowledged);
            deliver_leftovers(client, &answer, spool).await;
            self.predecessor = Some(std::mem::replace(&mut self.nonce, random()));
            spool.renew(self.nonce);
        }
        self.insist(client, token).await
    }

    async fn insist(&self, client: &Client, token: &str) -> Result<RegisterAnswer, ClientError> {
        let mut n_failed = 0;
        loop {
            match client.register(token, &self.request()).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_final_at_first() => return Err(error),
                Err(error) => {
                    n_failed += 1;
                    if n_failed == 1 {
                        tracing::warn!(%error, "trying again");
                    }
                    tokio::time::sleep(backoff(n_failed)).await;
                }
            }
        }
    }
}

/// Sends the reports of a pilot that crashed here, in its name. If the manager refuses a report in every
/// form, this report and all later ones are dropped, because it accepts no report after a gap in the numbers;
/// their tasks run again.
async fn deliver_leftovers(client: &Client, answer: &RegisterAnswer, spool: &Spool) {
    let mut acknowledged = answer.registered.acknowledged;
    let reports = || spool.numbers().map_while(|number| spool.read(number));
    // The manager accepts results only of tasks that the pilot says it holds.
    let tasks: Vec<Held> =
        reports().flat_map(|report| report.jobs.iter().map(held).collect::<Vec<_>>()).collect();
    for number in spool.numbers().collect::<Vec<u64>>() {
        let Some(report) = spool.read(number) else { return };
        match deliver(client, answer, report, &tasks).await {
            Ok(up_to) => acknowledged = acknowledged.max(up_to),
            Err(error) => tracing::warn!(%error, number, "a report that was left over is not delivered"),
        }
        if acknowledged < number {
            tracing::warn!(
                number,
                "the manager has not taken a report that was left over: its tasks are run again"
            );
            return;
        }
        tracing::info!(number, "delivered a report that was left over");
    }
}

/// Sends one report: reduced if it is refused, and again as long as there is no answer.
async fn deliver(
    client: &Client,
    answer: &RegisterAnswer,
    mut report: Report,
    tasks: &[Held],
) -> Result<u64, ClientError> {
    let mut n_failed = 0;
    loop {
        let error = match send(client, answer, report.clone(), tasks).await {
            Ok(acknowledged) => return Ok(acknowledged),
            Err(error) => error,
        };
        n_failed += 1;
        match report.reduced().filter(|_| error.is_about_contents()) {
            Some(less) => {
                tracing::warn!(%error, number = report.seq, "refused; {}", loss(&report));
                report = less;
            }
            None if error.is_final() => return Err(error),
            None => tokio::time::sleep(backoff(n_failed)).await,
        }
    }
}

/// Returns a text on the loss by reducing a report.
pub(crate) fn loss(report: &Report) -> &'static str {
    match report.jobs.iter().any(|job| !job.outputs.is_empty()) {
        true => "its results are sent without what the tasks wrote",
        false => "its tasks are given back, to be run again",
    }
}

/// Sends one report once. If the manager asks for the pilot's tasks, answers with `tasks`.
async fn send(
    client: &Client,
    answer: &RegisterAnswer,
    report: Report,
    tasks: &[Held],
) -> Result<u64, ClientError> {
    let pilot = answer.registered.pilot;
    let mut pull = Pull { report: Some(report), ..Pull::default() };
    let mut answered = client.pull(&answer.session, &PullRequest { pilot, pull: pull.clone() }).await?;
    if let Some(asked) = answered.resync {
        pull.epoch = answered.epoch;
        pull.holds = Some(Holdings { asked, tasks: tasks.to_vec(), templates: Vec::new() });
        answered = client.pull(&answer.session, &PullRequest { pilot, pull }).await?;
    }
    Ok(answered.acknowledged)
}

fn held(report: &JobReport) -> Held {
    Held { job: report.job, queued: TaskSet::new(), running: TaskSet::new(), unreported: report.tasks() }
}

/// Returns the end of the pilot's walltime, and the margin before it in which the pilot no longer runs tasks.
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

/// The reason why a pilot has no spool.
#[derive(Debug)]
pub(crate) enum OpenSpoolError {
    /// The pilot's folder cannot be used.
    Folder { path: PathBuf, source: io::Error },
    /// The spool in it cannot be opened.
    Spool(SpoolError),
}

/// Opens the pilot's spool in its folder, which is created if need be.
///
/// Pilots of several nodes may share a folder, and in rare cases several pilots of one node.
pub(crate) fn open_spool(folder: &Path, place: &str) -> Result<Spool, OpenSpoolError> {
    private::take_folder(folder).map_err(|source| OpenSpoolError::Folder { path: folder.into(), source })?;
    let mut path = folder.join(format!("spool-{place}"));
    if Spool::is_in_use(&path) {
        path = folder.join(format!("spool-{place}-{}", std::process::id()));
    }
    Spool::open(&path, random()).map_err(OpenSpoolError::Spool)
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        time::{Duration, Instant, SystemTime, UNIX_EPOCH},
    };

    use protocol::pilot::JoinDocument;
    use scheduler::{
        ids::JobId,
        pull::PullAnswer,
        resources::Resources,
        results::{JobReport, Report, TaskOutput},
        time::Span,
    };

    use super::{Arrival, open_spool, walltime};
    use crate::{
        node::{Node, gpus::Gpus},
        session::{
            client::{Client, ClientError},
            spool::Spool,
        },
        sys::private::testing::assert_private,
        testing::{FakeManager, nothing_new},
    };

    fn node() -> Node {
        Node {
            hostname: "node".into(),
            cpus: vec![2, 3],
            n_cores: 2,
            memory_bytes: 100,
            gpus: Gpus::discover(Path::new("/none"), &|name| {
                (name == "HIP_VISIBLE_DEVICES").then(|| "3".into())
            }),
            batch_id: Some("77".into()),
            rank: 0,
            walltime_end_unix: None,
            notice: None,
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
        let end = end.unwrap();
        // `now` is rounded down to whole seconds.
        assert!(end > started + Duration::from_secs(88) && end <= Instant::now() + Duration::from_secs(90));
        assert_eq!(margin, Duration::from_secs(2));
    }

    #[test]
    fn pilot_offers_the_node_or_what_it_is_told_to() {
        let arrival = |join: JoinDocument| Arrival::new(&join, node(), None, (1, None), Instant::now());
        let all = arrival(JoinDocument::default());
        let expected = Resources { cores: 2, memory_bytes: 100, gpus: 1, ..Resources::default() };
        assert_eq!((all.capacity.clone(), all.cpus_to_bind()), (expected, vec![2, 3]));
        assert_eq!(all.request().registration.node.batch_id.as_deref(), Some("77"));
        let more = Resources { gpus: 4, ..Resources::cores(1) };
        let promised = arrival(JoinDocument { capacity: Some(more), ..JoinDocument::default() });
        assert_eq!(promised.capacity.gpus, 1, "no more than the batch system gave");
        let one = arrival(JoinDocument { capacity: Some(Resources::cores(1)), ..JoinDocument::default() });
        assert_eq!((one.capacity.clone(), one.cpus_to_bind()), (Resources::cores(1), vec![]));
    }

    #[test]
    fn two_pilots_in_one_folder_have_a_spool_each() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("pilot");
        let first = open_spool(&folder, "node").unwrap();
        let second = open_spool(&folder, "node").unwrap();
        assert_private(&folder);
        let n_spools = || {
            let names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_str().unwrap().starts_with("spool-")).count()
        };
        assert_eq!(n_spools(), 2);
        drop(first);
        drop(second);
        assert_eq!(n_spools(), 0);
    }

    /// A pilot that starts in the folder of a crashed one, which has left reports.
    struct Heir {
        manager: FakeManager,
        arriving: tokio::task::JoinHandle<(Result<u64, ClientError>, Vec<u64>)>,
        _folder: tempfile::TempDir,
    }

    async fn heir(n_reports: u64) -> Heir {
        let folder = tempfile::tempdir().unwrap();
        let mut left = open_spool(folder.path(), "node").unwrap();
        for seq in 1..=n_reports {
            let mut job = JobReport::new(JobId(1));
            job.successes.tasks.insert(seq);
            job.outputs = vec![TaskOutput { index: seq, stdout: vec![b'x'], stderr: vec![] }];
            left.keep(Report { seq, jobs: vec![job] }, true);
        }
        drop(left);
        let manager = FakeManager::new().await;
        let client = Client::new(&manager.url, None).unwrap();
        let mut spool: Spool = open_spool(folder.path(), "node").unwrap();
        let mut arrival = Arrival::new(
            &JoinDocument::default(),
            node(),
            None,
            (spool.nonce(), spool.predecessor()),
            Instant::now(),
        );
        let arriving = tokio::spawn(async move {
            let answer = arrival.register(&client, "token", &mut spool).await;
            (answer.map(|answer| answer.registered.acknowledged), spool.numbers().collect())
        });
        Heir { manager, arriving, _folder: folder }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn reports_that_were_left_over_are_delivered_once() {
        let mut heir = heir(2).await;
        let first = heir.manager.register().await.registration;
        let request = heir.manager.next().await;
        assert_eq!(request.pull().pull.report.unwrap().seq, 1);
        request.answer(&PullAnswer { resync: Some(9), ..nothing_new(0) });
        let request = heir.manager.next().await;
        let pull = request.pull().pull;
        let holds = pull.holds.unwrap();
        let told: Vec<u64> = holds.tasks.iter().flat_map(|held| held.unreported.indices()).collect();
        assert_eq!(
            (holds.asked, told, pull.report.unwrap().seq),
            (9, vec![1, 2], 1),
            "of all that is left over"
        );
        request.answer(&nothing_new(1));
        let request = heir.manager.next().await;
        assert_eq!(request.pull().pull.report.unwrap().seq, 2);
        request.refuse(503, "busy");
        let request = heir.manager.next().await;
        assert_eq!(request.pull().pull.report.unwrap().seq, 2);
        request.answer(&nothing_new(2));
        let second = heir.manager.register().await.registration;
        assert_eq!(second.predecessor, Some(first.nonce), "it proves whose place it takes");
        let (acknowledged, kept) = heir.arriving.await.unwrap();
        assert_eq!((acknowledged.unwrap(), kept), (0, vec![]), "a new pilot begins");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn refused_report_that_was_left_over_does_not_stop_the_pilot() {
        let mut heir = heir(2).await;
        heir.manager.register().await;
        let mut shapes = Vec::new();
        for _ in 0..3 {
            let request = heir.manager.next().await;
            let report = request.pull().pull.report.unwrap();
            let job = &report.jobs[0];
            shapes.push((report.seq, job.outputs.len(), job.successes.tasks.len(), job.returned.len()));
            request.refuse(413, "too-large");
        }
        assert_eq!(shapes, [(1, 1, 1, 0), (1, 0, 1, 0), (1, 0, 0, 1)]);
        heir.manager.register().await;
        let (acknowledged, kept) = heir.arriving.await.unwrap();
        assert_eq!((acknowledged.unwrap(), kept), (0, vec![]), "a gap would void every report after it");
    }
}
