//! Nodes: an agent's process with a real [`PilotCore`], the processes of its tasks, and a spool that outlives
//! the agent. The agent's shell around the core is imitated here, with the same order of actions.

mod files;
mod gifts;
mod pace;
mod tasks;

use std::collections::{BTreeMap, VecDeque};

use scheduler::{
    engine::interface::{Answer, Event, Refusal},
    ids::{JobId, PilotId, TaskId},
    pilot::{Lane, PilotAction, PilotCore, PilotEvent, PilotLimits},
    pull::{
        Held as HeldTasks, Holdings, LeaveReason, NodeFacts, Part, Pull, PullAnswer, Registration, TaskNeeds,
    },
    ranges::TaskSet,
    resources::Resources,
    results::{JobReport, Report},
    time::{Span, Time},
};

use super::{Asker, Happening, Held, World, plan::Nature};
use crate::auditor::{End, Violation, place};

/// The time kept free before the walltime's end, as by the agent.
const MARGIN: Span = Span(5_000_000);
/// The longest time that a pilot's pull may be parked.
const POLL_WAIT: Span = Span(20_000_000);
/// The longest time from its start until a pilot that is to die, stall or be preempted does so.
const TROUBLE_WITHIN: Span = Span(60_000_000);
/// The longest time between a task's SIGTERM and its end.
const GRACE: Span = Span(2_000_000);
/// The longest time from a task's end until the core hears of it, while other tasks wait for slots.
const HOLD: Span = Span(5_000);

/// One node of a batch job.
pub(super) struct Node {
    batch_job: (usize, usize),
    tag: String,
    hostname: String,
    /// Its name for the auditor.
    place: String,
    capacity: Resources,
    pub(super) walltime_end: Option<Time>,
    nonce: u64,
    /// The nonce of the process before, if its spool exists.
    predecessor: Option<u64>,
    /// The number of the agent's process; 0: none yet.
    pub(super) life: u64,
    process: Option<Process>,
    spool: BTreeMap<u64, Report>,
    /// None of its processes does anything before this time.
    stalled_until: Time,
    /// Whether its agent has ended and is not started again.
    is_left: bool,
    is_gone: bool,
}

struct Process {
    core: PilotCore,
    born: Time,
    id: Option<PilotId>,
    session: Option<u64>,
    /// Whether it first delivers reports of the process before, under the nonce of that process.
    is_heir: bool,
    natures: BTreeMap<JobId, (Nature, TaskNeeds)>,
    /// The execution of each running task, and its start.
    running: BTreeMap<TaskId, (usize, Time)>,
    /// The progress of each task, if a scenario lets tasks slow each other down.
    paces: BTreeMap<TaskId, pace::Pace>,
    /// The slot of each started task; a task that waited for none gets a new number.
    slots: BTreeMap<TaskId, u64>,
    /// The number of each task's attempt.
    attempts: BTreeMap<TaskId, u32>,
    n_slots: u64,
    /// Tasks that begin when the task in their slot has ended, in order. A slot that is not here is free.
    waiting: BTreeMap<u64, VecDeque<TaskId>>,
    /// Ends of tasks reach the core later than they happen, in order: the time of the last one.
    told_at: Time,
    /// When the manager last gave it each task, by the part that named it; the pilot may hear of it much
    /// later.
    given: BTreeMap<TaskId, Time>,
    /// The manager's epoch, the resync request after which parts are numbered anew, and the part's number.
    newest_part: (u64, u64, u64),
    /// Files in transfer.
    files: files::Files,
    n_farewells: u32,
    /// The next wake-up, if it is still to come.
    alarm: Time,
}

impl Process {
    fn cores(&self, job: JobId) -> u32 {
        self.natures.get(&job).map_or(0, |(_, needs)| needs.resources.cores)
    }

    fn note_given(&mut self, answer: &PullAnswer, now: Time) {
        let number = |part: &Part| (answer.epoch, answer.told, part.number);
        for part in answer.parts.iter().filter(|part| number(part) > self.newest_part) {
            for bundle in &part.bundles {
                let tasks = bundle.tasks.indices().map(|index| TaskId { job: bundle.job, index });
                self.given.extend(tasks.map(|task| (task, now)));
            }
        }
        let newest = answer.parts.last().map(number);
        self.newest_part = self.newest_part.max(newest.unwrap_or_default());
    }
}

impl Node {
    /// Returns whether its pilot stands still.
    pub(super) fn stands_still(&self, now: Time) -> bool {
        self.stalled_until > now
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns whether its agent has ended for good, or its batch job.
    pub(super) fn is_over(&self) -> bool {
        self.is_left || self.is_gone
    }
}

impl World<'_> {
    pub(super) fn add_node(
        &mut self,
        batch_job: (usize, usize),
        tag: String,
        capacity: Resources,
        walltime_end: Option<Time>,
    ) {
        let nonce = self.luck.draw();
        let hostname = format!("node{}", self.nodes.len());
        self.nodes.push(Node {
            batch_job,
            place: place(&tag, &hostname),
            hostname,
            tag,
            capacity,
            walltime_end,
            nonce,
            predecessor: None,
            life: 0,
            process: None,
            spool: BTreeMap::new(),
            stalled_until: Time(0),
            is_left: false,
            is_gone: false,
        });
    }

    pub(super) fn agent_starts(&mut self, node: usize) {
        let (now, nonce) = (self.now, self.luck.draw());
        let held = &mut self.nodes[node];
        if held.is_gone || held.process.is_some() {
            return;
        }
        held.life += 1;
        let is_heir = !held.spool.is_empty();
        if !is_heir {
            held.predecessor = Some(std::mem::replace(&mut held.nonce, nonce)).filter(|_| held.life > 1);
        }
        let life = held.life;
        let limits = PilotLimits {
            capacity: held.capacity.clone(),
            walltime_end: held.walltime_end.map(|end| Time(end.since(now).0)),
            walltime_margin: MARGIN,
            poll_wait: self.scene.as_ref().map_or(POLL_WAIT, |scene| scene.poll_wait),
        };
        held.process = Some(Process {
            core: PilotCore::new(limits),
            born: now,
            id: None,
            session: None,
            is_heir,
            natures: BTreeMap::new(),
            running: BTreeMap::new(),
            paces: BTreeMap::new(),
            slots: BTreeMap::new(),
            attempts: BTreeMap::new(),
            n_slots: 0,
            waiting: BTreeMap::new(),
            told_at: Time(0),
            given: BTreeMap::new(),
            newest_part: (0, 0, 0),
            files: files::Files::default(),
            n_farewells: 0,
            alarm: Time(0),
        });
        self.after(Span(1_000), Happening::Arriving { node, life });
        self.is_asked_later(node, life, 0);
        let rates = self.plan.rates.clone();
        let within = self.scene.as_ref().map_or(TROUBLE_WITHIN, |scene| scene.trouble_within);
        let span = Span(self.luck.below(within.0));
        if self.goes_wrong(rates.pilot_dies) {
            self.after(span, Happening::PilotDies { node, life });
        }
        if self.goes_wrong(rates.pilot_preempted) {
            self.after(span, Happening::PilotPreempted { node, life });
        }
        if self.goes_wrong(rates.pilot_stalls) {
            let seconds = self.luck.pick(&[1, 20, 200, 3600]);
            let stall = Happening::PilotStalls { node, life, span: Span::from_secs(seconds) };
            let span = Span(self.luck.below(within.0));
            self.after(span, stall);
        }
    }

    /// Returns whether the process of that number lives and is not stalled; if it is stalled, `later` happens
    /// when it goes on.
    fn awake(&mut self, node: usize, life: u64, later: impl FnOnce() -> Happening) -> bool {
        let held = &self.nodes[node];
        if held.life != life || held.process.is_none() {
            return false;
        }
        if held.stalled_until > self.now {
            let span = held.stalled_until.since(self.now);
            self.after(span, later());
            return false;
        }
        true
    }

    /// Returns the number of the pilot of that process.
    pub(super) fn pilot_of(&self, node: usize, life: u64) -> Option<PilotId> {
        let held = &self.nodes[node];
        held.process.as_ref().filter(|_| held.life == life)?.id
    }

    pub(super) fn pilot_stalls(&mut self, node: usize, life: u64, span: Span) {
        if self.nodes[node].life == life {
            self.nodes[node].stalled_until = self.now + span;
        }
    }

    /// Registers: as a new pilot, or as the process before, which has left reports, to deliver these first.
    pub(super) fn pilot_arrives(&mut self, node: usize, life: u64) {
        if !self.awake(node, life, || Happening::Arriving { node, life }) {
            return;
        }
        let now = self.now;
        let held = &self.nodes[node];
        let Some(process) = &held.process else { return };
        let facts = NodeFacts {
            hostname: held.hostname.clone(),
            capacity: held.capacity.clone(),
            walltime_left: held.walltime_end.map(|end| end.since(now)),
            ..NodeFacts::default()
        };
        let uptime = now.since(process.born);
        let (tag, nonce, predecessor) = (held.tag.clone(), held.nonce, held.predecessor);
        let registration = Registration { tag, nonce, node: facts, uptime, predecessor };
        self.send(Asker::Registration { node, life }, |request| Event::PilotRegistered {
            request,
            registration: Box::new(registration.clone()),
        });
    }

    pub(super) fn pilot_is_answered(&mut self, asker: Asker, answer: Answer, span: Span) -> Held {
        match (asker, answer) {
            (Asker::Registration { node, life }, Answer::Registered(registered)) => {
                self.audit_acknowledged(registered.pilot, registered.acknowledged)?;
                if self.nodes[node].life != life {
                    return Ok(());
                }
                let held = &mut self.nodes[node];
                let Some(process) = &mut held.process else { return Ok(()) };
                process.id = Some(registered.pilot);
                process.session = Some(registered.session);
                held.spool.retain(|seq, _| *seq > registered.acknowledged);
                if process.is_heir {
                    self.deliver_leftover(node, life, None);
                } else {
                    let event = Box::new(PilotEvent::Registered { acknowledged: registered.acknowledged });
                    self.after(span, Happening::Heard { node, life, event });
                }
                Ok(())
            }
            (Asker::Leftover { node, life, number }, Answer::Pull(answer)) => {
                self.leftover_is_answered(node, life, number, answer)
            }
            (Asker::Pull { node, life, lane }, Answer::Pull(answer)) => {
                if let Some(id) = self.pilot_of(node, life) {
                    self.audit_acknowledged(id, answer.acknowledged)?;
                }
                let now = self.now;
                let held = &mut self.nodes[node];
                let process = held.process.as_mut().filter(|_| held.life == life);
                if let Some(process) = process.filter(|_| self.auditor.is_some()) {
                    process.note_given(&answer, now);
                }
                let event = Box::new(PilotEvent::Answered { lane, answer: Box::new(answer) });
                self.after(span, Happening::Heard { node, life, event });
                Ok(())
            }
            // The manager still expects the process before, or the session has ended: registers again.
            (Asker::Registration { node, life }, Answer::Refused(Refusal::StillThere { .. })) => {
                self.after(span + Span::from_secs(5), Happening::Arriving { node, life });
                Ok(())
            }
            (Asker::Leftover { node, life, .. }, Answer::Refused(Refusal::SessionEnded(_))) => {
                self.after(span, Happening::Arriving { node, life });
                Ok(())
            }
            (Asker::Pull { node, life, lane }, Answer::Refused(Refusal::SessionEnded(_))) => {
                self.after(span, Happening::Arriving { node, life });
                self.unanswered(Asker::Pull { node, life, lane });
                Ok(())
            }
            (Asker::Registration { node, life }, Answer::Refused(_))
            | (Asker::Leftover { node, life, .. }, Answer::Refused(_))
            | (Asker::Pull { node, life, .. }, Answer::Refused(_))
            | (Asker::Leave { node, life }, Answer::Left | Answer::Refused(_)) => {
                self.agent_exits(node, life);
                Ok(())
            }
            (asker, answer) => Err(Violation(format!("{asker:?} was answered by {answer:?}"))),
        }
    }

    fn audit_acknowledged(&mut self, pilot: PilotId, seq: u64) -> Held {
        self.auditor.as_mut().map_or(Ok(()), |auditor| auditor.report_acknowledged(pilot, seq))
    }

    /// Sends the oldest report of the process before; if the manager requests the holdings, sends them.
    fn deliver_leftover(&mut self, node: usize, life: u64, resync: Option<(u64, u64)>) {
        let held = &self.nodes[node];
        let Some(pilot) = held.process.as_ref().and_then(|process| process.id) else { return };
        let Some((&number, report)) = held.spool.first_key_value() else {
            return self.leftovers_are_over(node, life);
        };
        let session_nonce = held.process.as_ref().and_then(|process| process.session);
        let mut pull = Pull { report: Some(report.clone()), session_nonce, ..Pull::default() };
        if let Some((epoch, asked)) = resync {
            pull.epoch = epoch;
            let tasks = held.spool.values().flat_map(|report| &report.jobs).map(unreported).collect();
            pull.holds = Some(Holdings { asked, tasks, templates: Vec::new() });
        }
        self.send(Asker::Leftover { node, life, number }, |request| Event::Pulled {
            request,
            pilot,
            pull: Box::new(pull.clone()),
        });
    }

    fn leftover_is_answered(&mut self, node: usize, life: u64, number: u64, answer: PullAnswer) -> Held {
        if self.nodes[node].life != life {
            return Ok(());
        }
        if let Some(id) = self.pilot_of(node, life) {
            self.audit_acknowledged(id, answer.acknowledged)?;
        }
        let held = &mut self.nodes[node];
        if held.process.is_none() {
            return Ok(());
        }
        if let Some(asked) = answer.resync.filter(|_| answer.acknowledged < number) {
            self.deliver_leftover(node, life, Some((answer.epoch, asked)));
        } else if answer.acknowledged < number {
            self.leftovers_are_over(node, life);
        } else {
            held.spool.retain(|seq, _| *seq > answer.acknowledged);
            self.deliver_leftover(node, life, None);
        }
        Ok(())
    }

    /// Drops the reports that the manager refuses: their tasks are run again. A new pilot begins.
    pub(super) fn leftovers_are_over(&mut self, node: usize, life: u64) {
        let nonce = self.luck.draw();
        let held = &mut self.nodes[node];
        let Some(process) = held.process.as_mut().filter(|_| held.life == life) else { return };
        (process.id, process.session, process.is_heir) = (None, None, false);
        held.spool.clear();
        held.predecessor = Some(std::mem::replace(&mut held.nonce, nonce));
        self.after(Span(1), Happening::Arriving { node, life });
    }

    pub(super) fn pilot_hears(&mut self, node: usize, life: u64, event: PilotEvent) -> Held {
        let copy = event.clone();
        if !self.awake(node, life, || Happening::Heard { node, life, event: Box::new(copy) }) {
            return Ok(());
        }
        let now = self.now;
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        if process.id.is_none() {
            return Ok(());
        }
        let clock = Time(now.since(process.born).0);
        let actions = process.core.handle(clock, event);
        for action in actions {
            self.pilot_acts(node, life, action)?;
        }
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        if let Some(due) = process.core.next_wakeup() {
            if due <= clock {
                return Err(Violation(format!(
                    "at {clock:?} the pilot of node {node} asks to be woken at {due:?}"
                )));
            }
            let at = now + due.since(clock);
            // Among faults it is also woken when it does not request that any more, which must do no harm.
            let is_awaited =
                process.alarm == at || self.scene.is_some() && process.alarm > now && process.alarm < at;
            if !is_awaited {
                process.alarm = at;
                self.agenda.enter(at, Happening::PilotWakes { node, life });
            }
        }
        Ok(())
    }

    fn pilot_acts(&mut self, node: usize, life: u64, action: PilotAction) -> Held {
        match action {
            PilotAction::Start { task, attempt, after } => {
                return self.task_is_due(node, life, (task, attempt), after);
            }
            PilotAction::Withdraw { task } => {
                if self.waits_no_more(node, task) {
                    self.task_is_told(node, life, tasks::unbegun(task));
                }
            }
            PilotAction::Kill { task } if self.waits_no_more(node, task) => {
                self.task_is_told(node, life, tasks::unbegun(task));
            }
            PilotAction::Kill { task } => self.task_is_killed(node, life, task),
            PilotAction::Keep(report) => {
                let report = self.with_gifts_doubled(node, report);
                self.nodes[node].spool.insert(report.seq, report);
            }
            PilotAction::Drop { acknowledged } => {
                self.nodes[node].spool.retain(|seq, _| *seq > acknowledged);
            }
            PilotAction::Pull { lane, pull, report } => self.pilot_pulls(node, lane, *pull, report),
            PilotAction::Leave { reason } => self.pilot_leaves(node, life, reason),
            PilotAction::Learn(template) => {
                let nature = (Nature::of_spec(&template.spec), template.needs);
                if let Some(process) = &mut self.nodes[node].process {
                    process.natures.insert(template.job, nature);
                }
            }
            PilotAction::Forget { job } => return self.job_is_forgotten(node, job),
            PilotAction::Stage { task } => self.files_are_wanted(node, life, task, None),
            PilotAction::Deliver { task } => self.files_are_left(node, life, task),
            PilotAction::Unstage { task } => self.files_are_dropped(node, task),
            // The output sent then has no influence on decisions.
            PilotAction::Show => {}
            PilotAction::Gave { n_tasks, .. } => self.gave = n_tasks,
            PilotAction::Look { job, tasks } => self.pilot_looks(node, life, job, tasks),
            PilotAction::Hunt => return self.pilot_hunts(node, life),
            PilotAction::Meet { .. } => {}
        }
        Ok(())
    }

    fn pilot_pulls(&mut self, node: usize, lane: Lane, mut pull: Pull, report: Option<u64>) {
        let held = &self.nodes[node];
        pull.report = report.and_then(|seq| held.spool.get(&seq).cloned());
        let Some(pilot) = held.process.as_ref().and_then(|process| process.id) else { return };
        pull.session_nonce = held.process.as_ref().and_then(|process| process.session);
        let asker = Asker::Pull { node, life: held.life, lane };
        self.send(asker, |request| Event::Pulled { request, pilot, pull: Box::new(pull.clone()) });
    }

    fn pilot_leaves(&mut self, node: usize, life: u64, reason: LeaveReason) {
        let Some(process) = &self.nodes[node].process else { return };
        let (Some(pilot), session_nonce) = (process.id, process.session) else { return };
        self.send(Asker::Leave { node, life }, |request| Event::PilotLeft {
            request,
            pilot,
            session_nonce,
            report: None,
            reason,
        });
    }

    pub(super) fn farewell_fails(&mut self, node: usize, life: u64) {
        let held = &mut self.nodes[node];
        let Some(process) = held.process.as_mut().filter(|_| held.life == life) else { return };
        process.n_farewells += 1;
        match process.n_farewells < 5 {
            true => self.pilot_leaves(node, life, LeaveReason::Told),
            false => self.agent_exits(node, life),
        }
    }

    /// Kills the agent's process; its guard kills the tasks. The site may start it again.
    pub(super) fn pilot_dies(&mut self, node: usize, life: u64) {
        if self.nodes[node].life != life || !self.end_process(node) {
            return;
        }
        let span = Span(self.luck.below(30_000_000));
        if self.goes_wrong(self.plan.rates.pilot_requeued) {
            self.after(span, Happening::AgentStarts { node });
        } else {
            self.agent_is_over(node);
        }
    }

    fn agent_exits(&mut self, node: usize, life: u64) {
        if self.nodes[node].life == life && self.end_process(node) {
            self.agent_is_over(node);
        }
    }

    /// Ends a batch job with the last of its agents.
    fn agent_is_over(&mut self, node: usize) {
        self.nodes[node].is_left = true;
        let (site, job) = self.nodes[node].batch_job;
        if self.sites[site].nodes_of(job).iter().all(|node| self.nodes[*node].is_left) {
            self.after(Span(1_000), Happening::BatchJobEnds { site, job, why: "its process has ended" });
        }
    }

    fn end_process(&mut self, node: usize) -> bool {
        let now = self.now;
        let held = &mut self.nodes[node];
        let Some(process) = held.process.take() else { return false };
        held.stalled_until = Time(0);
        for (task, execution) in process.files.executions() {
            if let Some(auditor) = &mut self.auditor {
                auditor.ended(task, execution, End::Killed, now);
            }
        }
        for (task, (execution, began)) in &process.running {
            if let Some(auditor) = &mut self.auditor {
                auditor.ended(*task, *execution, End::Killed, now);
            }
            if let Some(scene) = &mut self.scene {
                scene.ledger.task_ended(held.batch_job.0, *task, process.cores(task.job), (*began, now));
            }
        }
        if let Some(auditor) = &mut self.auditor {
            auditor.pilot_died(&held.place, now);
        }
        let life = held.life;
        self.hang_up_all(node, life);
        true
    }

    pub(super) fn array_task_ends(&mut self, node: usize, why: &'static str) -> Held {
        if !self.nodes[node].is_gone {
            self.node_ends(node, why)?;
            self.agent_is_over(node);
        }
        Ok(())
    }

    /// Ends the node with its batch job. At the walltime no task may be running any more (rule 4), unless the
    /// agent was stopped.
    pub(super) fn node_ends(&mut self, node: usize, why: &'static str) -> Held {
        let held = &mut self.nodes[node];
        held.is_gone = true;
        let recently = Time(self.now.0.saturating_sub(MARGIN.0));
        let was_stopped = held.stalled_until > recently;
        if let Some(process) = &held.process
            && why == "walltime"
            && !was_stopped
            && !process.running.is_empty()
        {
            let tasks: TaskSet = process.running.keys().map(|task| task.index).collect();
            return Err(Violation(format!("tasks {tasks} ran into the walltime of {}", held.place)));
        }
        self.end_process(node);
        Ok(())
    }
}

/// Returns the tasks of a report, held until it is taken.
fn unreported(report: &JobReport) -> HeldTasks {
    HeldTasks { job: report.job, queued: TaskSet::new(), running: TaskSet::new(), unreported: report.tasks() }
}
