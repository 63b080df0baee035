//! A platform's worker: carries out one order at a time, and makes the answer an event.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use adapters::{
    Adapter,
    command::{AllocationRequest, BatchId, BatchJob, BatchState},
    openstack::Left,
    transport::{Ssh, process_end},
};
use scheduler::{
    engine::interface::{Event, KnownAllocation, ListedAllocation, PlatformSpec, SubmitOutcome},
    ids::{AllocationId, PlatformId},
    time::{Span, Time},
};
use tokio::task::JoinSet;

use crate::{
    engine_loop::{
        clock::Clock,
        handle::{Ended, Handle},
    },
    platforms::{
        documents::Documents,
        identities::Identities,
        place::{Ground, Place},
        uncancelled::Uncancelled,
    },
};

/// A cancellation that failed is tried so often again before the manager ends, with such pauses.
const N_LAST_CANCELS: usize = 3;
const CANCEL_PAUSE: Duration = Duration::from_secs(1);
/// Most platforms show within this time that a job is cancelled.
const SHOWN_SOON: Duration = Duration::from_secs(2);
/// A platform of this host is listed when a pilot of it has ended, and again after each of these pauses: for a second the
/// engine may take a pilot that was killed for one that speaks.
const LOOKS_AFTER_END: &[Duration] = &[Duration::from_millis(1100), Duration::from_secs(3)];
/// Jobs of a listing whose age is asked for at most.
const N_AGES_MAX: usize = 16;
/// An id that was ours is taken for ours for so long without a look: much sooner than a batch system uses ids again.
const SEEN_FOR: Span = Span::from_secs(600);

/// Makes the join document for the allocation with that tag, whose pilots stand on that ground.
pub(crate) type MakeJoin = Arc<dyn Fn(&PlatformSpec, &Ground, &str) -> Vec<u8> + Send + Sync>;

/// What a platform's worker needs.
pub(crate) struct Worker {
    pub(crate) spec: PlatformSpec,
    pub(crate) place: Place,
    pub(crate) tag_prefix: String,
    pub(crate) make_join: MakeJoin,
    pub(crate) handle: Handle,
    pub(crate) clock: Clock,
    /// Ids and tags of what the platform accepted a moment ago, and how many listings have answered since.
    pub(crate) accepted: Vec<(KnownAllocation, u8)>,
    /// Allocations that may be there, as the engine has said last.
    pub(crate) known: Vec<KnownAllocation>,
    /// Which jobs with other names are ours.
    pub(crate) identities: Identities,
    /// Ids that were ours when the platform accepted or listed them, and when that was.
    pub(crate) seen: HashMap<BatchId, Time>,
    /// What it is to cancel, or failed to cancel.
    pub(crate) uncancelled: Uncancelled,
    /// Join documents that may be in files.
    pub(crate) documents: Documents,
    /// Why the connection waits for a person, as the engine was told last.
    pub(crate) waiting: Option<String>,
    /// What of its answers was left out as it is not understood, as the log has said last.
    pub(crate) left_out: Vec<String>,
    /// Pilots that are processes of this host, by their numbers, whose ends are watched for.
    pub(crate) watched: HashSet<BatchId>,
    /// One task for each, which is over when the platform is to be listed: the pauses before the listings after that one.
    /// `None`: the kernel does not tell such ends.
    pub(crate) watches: JoinSet<Option<&'static [Duration]>>,
}

impl Worker {
    /// Whether a person has opened the connection that was waited for.
    pub(super) async fn is_connected_by_person(&self) -> bool {
        match self.place.ssh() {
            Some(ssh) => ssh.is_open().await,
            None => false,
        }
    }

    /// Tells the engine if the connection waits for a person now, and did not before, or the other way round.
    pub(super) async fn tell_waiting(&mut self, platform: PlatformId) -> Result<(), Ended> {
        let why = self.place.ssh().and_then(Ssh::waits_for_person);
        if why == self.waiting {
            return Ok(());
        }
        match &why {
            Some(why) => tracing::warn!(
                platform = self.spec.name,
                why,
                "the connection waits for a person: run `pilotfish platform login {}`",
                self.spec.name
            ),
            None => tracing::info!(platform = self.spec.name, "the connection is there again"),
        }
        self.waiting.clone_from(&why);
        self.handle.tell(Event::PlatformWaits { platform, why }).await
    }

    /// Asks for an allocation.
    pub(super) async fn submit(
        &mut self,
        allocation: AllocationId,
        tag: String,
        walltime: Option<Span>,
    ) -> Event {
        let spec = PlatformSpec { walltime, ..self.spec.clone() };
        let asked_for_at = self.clock.now();
        let outcome = match self.place.ground().await {
            Ok(ground) => {
                let request = AllocationRequest {
                    join: (self.make_join)(&spec, &ground, &tag),
                    folder: ground.pilot_folder(&tag),
                    tag: tag.clone(),
                    n_nodes: self.spec.n_nodes,
                    capacity: self.spec.capacity.clone(),
                    walltime,
                };
                self.place.submit(&request).await
            }
            Err(what) => SubmitOutcome::Refused(what),
        };
        let answer = words_of(&outcome);
        tracing::info!(platform = self.spec.name, %allocation, tag, answer, "allocation asked for");
        if let SubmitOutcome::Accepted(id) = &outcome {
            self.watch(id);
            let now = self.clock.now();
            let known =
                KnownAllocation { batch_id: id.clone(), tag: tag.clone(), asked_for_at, known_at: now };
            self.accepted.push((known, 0));
            self.seen.insert(id.clone(), now);
        }
        let has_file = adapters::leaves_join_files(&self.spec.adapter, self.spec.n_nodes);
        self.documents.submitted(tag, has_file, self.clock.now());
        Event::AllocationAnswered { allocation, outcome }
    }

    /// These were not asked for.
    pub(super) async fn withdraw(&self, allocations: &[AllocationId]) {
        let named: Vec<String> = allocations.iter().map(ToString::to_string).collect();
        let allocations_named = named.join(", ");
        tracing::info!(
            platform = self.spec.name,
            allocations = allocations_named,
            "not asked for: not wanted any more"
        );
        for allocation in allocations {
            let outcome = SubmitOutcome::Withdrawn;
            // If the engine has ended, the next one finds by a listing that they are not there.
            let _ = self.handle.tell(Event::AllocationAnswered { allocation: *allocation, outcome }).await;
        }
    }

    /// Has the platform listed as soon as a pilot ends that is a process of this host. Elsewhere only listings tell.
    fn watch(&mut self, id: &BatchId) {
        let is_local = self.place.adapter().is_some_and(Adapter::is_local);
        let Some(pid) = id.parse().ok().filter(|_| is_local) else { return };
        if !self.watched.insert(id.clone()) {
            return;
        }
        self.watches.spawn(async move {
            match process_end(pid).await {
                Ok(()) => Some(LOOKS_AFTER_END),
                Err(error) => {
                    tracing::debug!(pid, %error, "only the next listing shows when this pilot ends");
                    None
                }
            }
        });
    }

    /// A watch is over: whether the platform is to be listed now. Those that are over at the same moment need no
    /// listings of their own.
    pub(super) fn is_over(&mut self, first: Option<&'static [Duration]>) -> bool {
        let mut over: Vec<&'static [Duration]> = first.into_iter().collect();
        while let Some(next) = self.watches.try_join_next() {
            over.extend(next.ok().flatten());
        }
        // The longest rest has all pauses of the others.
        let rest = over.iter().max_by_key(|rest| rest.len()).and_then(|rest| rest.split_first());
        if let Some((pause, rest)) = rest {
            self.watches.spawn(async move {
                tokio::time::sleep(*pause).await;
                Some(rest)
            });
        }
        !over.is_empty()
    }

    /// Lists what is there of ours, among it what the engine knows.
    pub(super) async fn list(&mut self, platform: PlatformId, mut known: Vec<KnownAllocation>) -> Event {
        let asked_at: Time = self.clock.now();
        // The order may be older than the answers to the last submissions.
        let named: HashSet<&BatchId> = known.iter().map(|known| &known.batch_id).collect();
        self.accepted.retain(|(accepted, _)| !named.contains(&accepted.batch_id));
        known.extend(self.accepted.iter().map(|(accepted, _)| accepted.clone()));
        self.known = known;
        let began_at = Instant::now();
        let listed = self.look().await;
        if let Err(what) = &listed {
            tracing::warn!(platform = self.spec.name, what, "listing failed");
        }
        if let Ok(jobs) = &listed {
            self.note_cancelled(jobs, began_at);
            // By the second listing after a submission the engine has its answer.
            self.accepted.retain_mut(|(_, n_listings)| {
                *n_listings += 1;
                *n_listings < 2
            });
        }
        if let Ok(jobs) = &listed {
            let there: HashSet<&BatchId> = jobs.iter().map(|job| &job.id).collect();
            self.watched.retain(|id| there.contains(id));
            // Those of a manager of before, too.
            let prefix = self.tag_prefix.clone();
            jobs.iter().filter(|job| job.tag.starts_with(&prefix)).for_each(|job| self.watch(&job.id));
            self.remove_documents(jobs, asked_at).await;
        }
        let result = listed.map(|jobs| {
            // Others may have jobs in the same account.
            let ours = jobs.into_iter().filter(|job| job.tag.starts_with(&self.tag_prefix));
            let seen = ours.map(|job| ListedAllocation {
                is_ended: job.state == BatchState::Ended,
                is_running: job.state == BatchState::Running,
                is_suspended: job.state == BatchState::Suspended,
                n_nodes: job.n_tasks,
                tag: job.tag,
                batch_id: job.id,
                lacks_room: matches!(job.state, BatchState::NoRoom(_)),
                reason: job.reason,
                trouble: match job.state {
                    BatchState::Stuck(why) | BatchState::NoRoom(why) => Some(why),
                    _ => None,
                },
            });
            seen.collect()
        });
        Event::PlatformListed { platform, asked_at, result }
    }

    /// A listing in which those jobs have our tags that are ours, whatever their names are now.
    async fn look(&mut self) -> Result<Vec<BatchJob>, String> {
        self.place.ground().await?;
        // Those that are to be cancelled may be known no longer, and their ids may lead to servers that nothing else does.
        let mut ids = self.uncancelled.ids();
        ids.retain(|id| self.known.iter().all(|known| known.batch_id != *id));
        ids.extend(self.known.iter().map(|known| known.batch_id.clone()));
        let mut jobs = self.place.list(&self.tag_prefix, &ids).await?;
        let tags: Vec<(BatchId, String)> =
            self.known.iter().map(|known| (known.batch_id.clone(), known.tag.clone())).collect();
        let mut n_asked = 0;
        for (job, of_known) in self.place.renamed(&self.tag_prefix, &tags, &jobs) {
            let (job, known) = (&mut jobs[job], &self.known[of_known]);
            let is_ours = match self.identities.known(&job.id, &job.tag) {
                Some(is_ours) => is_ours,
                None => {
                    // Each costs a call; the others are asked for with the next listings.
                    let age = if n_asked < N_AGES_MAX { self.place.age(&job.id).await } else { None };
                    n_asked += 1;
                    let now = self.clock.now();
                    let was_seen = self.seen.get(&known.batch_id).is_some_and(|at| now.since(*at) < SEEN_FOR);
                    let is_ours = self.identities.judge((&job.id, &job.tag), known, (age, was_seen), now);
                    if !is_ours {
                        let (platform, id, name) = (&self.spec.name, &job.id, &job.tag);
                        let tag = &known.tag;
                        tracing::warn!(
                            platform,
                            id,
                            name,
                            tag,
                            "a job has the id of one of ours, another name and another age: it is not ours"
                        );
                    }
                    is_ours
                }
            };
            if is_ours {
                job.tag.clone_from(&known.tag);
            }
        }
        let listed: HashSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        self.identities.retain(|id| listed.contains(id));
        let now = self.clock.now();
        self.seen.retain(|_, at| now.since(*at) < SEEN_FOR);
        let is_ours = |job: &&BatchJob| job.tag.starts_with(&self.tag_prefix);
        let there = jobs.iter().filter(is_ours).filter(|job| job.state != BatchState::Ended);
        let adapter = self.place.adapter();
        let to_be_cancelled = self.uncancelled.ids();
        for job in there {
            self.seen.insert(job.id.clone(), now);
            // A listing may show less of an id than the answer to its submission did.
            if let Some(known) = self.known.iter().find(|known| known.tag == job.tag) {
                self.seen.insert(known.batch_id.clone(), now);
            }
            let is_same = |id: &&BatchId| adapter.is_some_and(|adapter| adapter.is_same_job(&job.id, id));
            self.seen.extend(to_be_cancelled.iter().filter(is_same).map(|id| (id.clone(), now)));
        }
        Ok(jobs)
    }

    /// Removes the join documents of allocations that are gone, however they ended: one that was killed, or never
    /// began, has not removed its own.
    async fn remove_documents(&mut self, jobs: &[BatchJob], asked_at: Time) {
        // Of a server it is in what the server was made with.
        if self.place.cloud().is_some() {
            return;
        }
        let is_there =
            |job: &&BatchJob| job.state != BatchState::Ended && job.tag.starts_with(&self.tag_prefix);
        let there: Vec<String> = jobs.iter().filter(is_there).map(|job| job.tag.clone()).collect();
        // A listing that does not show a job may be late. The engine knows better whether the job may still begin.
        let tags = there.iter().chain(self.known.iter().map(|known| &known.tag));
        let gone = self.documents.unwanted(tags, asked_at, self.spec.poll_interval);
        if !gone.is_empty() {
            match self.place.forget(&gone).await {
                Ok(()) => self.documents.removed(&gone),
                Err(what) => {
                    tracing::warn!(platform = self.spec.name, what, "join documents may be left there")
                }
            }
        }
        // Platforms may share a folder: documents of the others stay, too.
        if !self.documents.is_swept
            && let Ok(of_all) = self.handle.allocations_there().await
        {
            self.documents.is_swept = true;
            let wanted: Vec<String> =
                there.into_iter().chain(of_all.into_iter().map(|held| held.tag)).collect();
            if let Err(what) = self.place.sweep(&self.tag_prefix, &wanted).await {
                tracing::warn!(platform = self.spec.name, what, "join documents may be left there");
            }
        }
    }

    /// How busy the platform is; nothing where it does not know, or does not say.
    pub(super) async fn load(&mut self, platform: PlatformId) -> Option<Event> {
        self.place.ground().await.ok()?;
        match self.place.load().await {
            Ok(load) => {
                let (load, left_out) = load?;
                // Each is said once, not at every poll.
                if left_out != self.left_out {
                    left_out
                        .iter()
                        .for_each(|what| tracing::warn!(platform = self.spec.name, what, "left out"));
                    self.left_out = left_out;
                }
                Some(Event::PlatformLoaded { platform, load })
            }
            Err(what) => {
                tracing::info!(platform = self.spec.name, what, "it does not say how busy it is");
                None
            }
        }
    }

    /// Which of those that were to be cancelled a listing shows still. A job of somebody else may have the id of one by now.
    fn note_cancelled(&self, jobs: &[BatchJob], began_at: Instant) {
        let adapter = self.place.adapter();
        let is_same = |listed: &BatchId, id: &BatchId| {
            adapter.map_or(listed == id, |adapter| adapter.is_same_job(listed, id))
        };
        let is_any = |id: &BatchId, is_meant: &dyn Fn(&BatchState) -> bool| {
            let mut ours = jobs.iter().filter(|job| job.tag.starts_with(&self.tag_prefix));
            ours.any(|job| is_meant(&job.state) && is_same(&job.id, id))
        };
        let is_there = |state: &BatchState| *state != BatchState::Ended;
        let waits = |state: &BatchState| matches!(state, BatchState::Queued | BatchState::Stuck(_));
        let times = (began_at, Instant::now());
        self.uncancelled.listed(|id| is_any(id, &is_there), |id| is_any(id, &waits), times);
    }

    /// Whether a cancellation that succeeded is only believed when a listing shows it.
    fn needs_proof(&self) -> bool {
        self.place.adapter().is_some_and(|adapter| !adapter.is_local())
    }

    /// Takes allocations away; what fails is tried again when a listing shows it.
    pub(super) async fn cancel(&mut self, batch_ids: Vec<String>) {
        match self.try_cancel(&batch_ids).await {
            Ok(()) if self.needs_proof() => self.uncancelled.taken(&batch_ids, Instant::now()),
            Ok(()) => self.uncancelled.done(&batch_ids),
            // The next listing shows them again, and they are cancelled again.
            Err(what) => {
                tracing::warn!(platform = self.spec.name, ?batch_ids, what, "cancel failed");
                self.uncancelled.failed(&what);
            }
        }
    }

    async fn try_cancel(&mut self, batch_ids: &[String]) -> Result<(), String> {
        self.place.ground().await?;
        let now = self.clock.now();
        let is_seen = |seen: &HashMap<BatchId, Time>, id: &String| {
            seen.get(id).is_some_and(|at| now.since(*at) < SEEN_FOR)
        };
        if !self.place.uses_ids_again() || batch_ids.iter().all(|id| is_seen(&self.seen, id)) {
            return self.place.cancel(batch_ids).await;
        }
        // An id may be another job's by now: what is not listed as ours is gone.
        self.look().await?;
        let ours: Vec<String> = batch_ids.iter().filter(|id| is_seen(&self.seen, id)).cloned().collect();
        if ours.len() < batch_ids.len() {
            let gone: Vec<&String> = batch_ids.iter().filter(|id| !ours.contains(id)).collect();
            tracing::info!(platform = self.spec.name, ?gone, "not cancelled: no job of ours has these ids");
        }
        if ours.is_empty() { Ok(()) } else { self.place.cancel(&ours).await }
    }

    /// Nothing is told to cancel after this: what could not be cancelled is tried again now, and what the platform lists
    /// still although it has said that it is cancelled.
    async fn cancel_the_rest(&mut self, until: Instant) {
        for _ in 0..N_LAST_CANCELS {
            self.look_for_cancelled(until.min(Instant::now() + SHOWN_SOON)).await;
            let batch_ids = self.uncancelled.ids();
            if batch_ids.is_empty() {
                break;
            }
            tokio::time::sleep(CANCEL_PAUSE).await;
            self.cancel(batch_ids).await;
        }
        self.look_for_cancelled(until).await;
    }

    /// Lists until nothing that is said to be cancelled waits any more, as listings may come from a cache. If none comes,
    /// the platform is believed.
    async fn look_for_cancelled(&mut self, until: Instant) {
        while self.uncancelled.open().len() < self.uncancelled.ids().len() {
            let began_at = Instant::now();
            match self.look().await {
                Ok(jobs) => self.note_cancelled(&jobs, began_at),
                Err(what) => {
                    tracing::warn!(platform = self.spec.name, what, "nothing shows what was cancelled");
                    let open = self.uncancelled.open();
                    let taken: Vec<BatchId> =
                        self.uncancelled.ids().into_iter().filter(|id| !open.contains(id)).collect();
                    return self.uncancelled.done(&taken);
                }
            }
            if self.uncancelled.open().len() == self.uncancelled.ids().len() || Instant::now() >= until {
                return;
            }
            tokio::time::sleep(CANCEL_PAUSE).await;
        }
    }

    /// Cancels what is to be cancelled still, and leaves nothing there, within this time.
    pub(super) async fn leave(&mut self, limit: Duration) {
        self.cancel_the_rest(Instant::now() + limit / 2).await;
        let documents = self.documents.take_all();
        if self.place.cloud().is_none()
            && !documents.is_empty()
            && let Err(what) = self.place.forget(&documents).await
        {
            tracing::warn!(platform = self.spec.name, what, "join documents may be left there");
        }
        match self.place.leave(&self.tag_prefix, limit).await {
            // All servers of a cloud are gone then, also those whose deletion had failed.
            Ok(()) if self.place.cloud().is_some() => self.uncancelled.done(&self.uncancelled.ids()),
            Ok(()) => {}
            Err(Left { ids, why }) => {
                tracing::warn!(platform = self.spec.name, why, "something may be left there");
                self.uncancelled.order(&ids, Instant::now());
                if self.place.cloud().is_some() {
                    self.uncancelled.failed(&why);
                }
            }
        }
        let batch_ids = self.uncancelled.ids();
        if !batch_ids.is_empty() {
            tracing::error!(
                platform = self.spec.name,
                ?batch_ids,
                "could not be cancelled: the next start tries again"
            );
        }
    }
}

/// A platform's answer as the log has it.
fn words_of(outcome: &SubmitOutcome) -> String {
    match outcome {
        SubmitOutcome::Accepted(id) => format!("accepted as {id}"),
        // Those that adapters make begin with what it is.
        SubmitOutcome::Refused(what) | SubmitOutcome::NoRoom(what) | SubmitOutcome::Unknown(what) => {
            what.clone()
        }
        SubmitOutcome::Withdrawn => "withdrawn".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{SubmitOutcome, words_of};

    #[test]
    fn the_log_has_answers_in_words() {
        assert_eq!(words_of(&SubmitOutcome::Accepted("7.pbs".to_owned())), "accepted as 7.pbs");
        let refused = SubmitOutcome::Refused("refused: no such queue".to_owned());
        assert_eq!(words_of(&refused), "refused: no such queue");
        assert_eq!(words_of(&SubmitOutcome::Withdrawn), "withdrawn");
    }
}
