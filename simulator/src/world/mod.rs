//! The simulated world: its time, its agenda, and the delivery of messages.

pub(crate) mod course;
mod decisions;
pub mod ledger;
mod manager;
mod nodes;
pub(crate) mod outcome;
pub mod patience;
pub(crate) mod plan;
mod progress;
pub(crate) mod scene;
mod sites;
pub(crate) mod timeline;
mod users;

use std::{collections::BTreeMap, fmt};

use scheduler::{
    engine::interface::{Answer, Event, RequestId},
    ids::{PlatformId, TaskId},
    pilot::{Ending, Lane, PilotEvent},
    rng::Rng,
    time::{Span, Time},
};

use self::{
    decisions::Decisions,
    manager::Manager,
    nodes::Node,
    outcome::Outcome,
    patience::{Cause, HowFar, Stopped},
    plan::Plan,
    scene::Scene,
    sites::{Site, Wish},
    users::User,
};
use crate::{
    agenda::Agenda,
    auditor::{Auditor, Budgets, Violation},
};

/// When the world begins: not 0, because a missing time would then go unnoticed.
pub(crate) const BEGIN: Time = Time(1_000_000);
/// Everything must have ended this long after the last fault.
const PATIENCE: Span = Span(12 * 3600 * 1_000_000);

/// The longest delay of a message.
const SLOW_MAX: Span = Span(20_000_000);

/// More events than any seed needs: beyond it, something loops for ever.
const N_HAPPENINGS_MAX: u64 = 2_000_000;

/// An event that is due.
#[derive(Debug)]
enum Happening {
    /// A message reaches the manager's host. With an epoch: only if that manager still lives.
    Arrives {
        event: Box<Event>,
        epoch: Option<u64>,
    },
    /// The connection of a request ends before it is answered.
    ConnectionBreaks {
        request: RequestId,
    },
    /// The manager handles what has arrived and commits it.
    ManagerWorks,
    ManagerWakes,
    ManagerDies,
    ManagerStarts,
    ManagerStalls {
        span: Span,
    },
    /// A platform worker of the manager of that epoch makes a request to a site.
    SiteAsked {
        platform: PlatformId,
        wish: Wish,
        epoch: u64,
    },
    /// A site's worker of that epoch has got its answer.
    WorkerIsFree {
        site: usize,
        epoch: u64,
    },
    /// A submission of a worker that died is accepted.
    SubmissionGoesOn {
        site: usize,
        asked: (String, Option<Span>),
    },
    BatchJobStarts {
        site: usize,
        job: usize,
    },
    BatchJobEnds {
        site: usize,
        job: usize,
        why: &'static str,
    },
    /// A task of a job array ends, independent of the others.
    ArrayTaskEnds {
        node: usize,
        why: &'static str,
    },
    /// A pilot's process gets an event.
    Heard {
        node: usize,
        life: u64,
        event: Box<PilotEvent>,
    },
    /// A pilot's process registers, or sends the reports that the one before left.
    Arriving {
        node: usize,
        life: u64,
    },
    PilotWakes {
        node: usize,
        life: u64,
    },
    TaskEnds {
        node: usize,
        life: u64,
        task: TaskId,
        execution: usize,
        ending: Ending,
    },
    /// The transfer of that number, for files of a task, ends in success or failure.
    FilesMoved {
        node: usize,
        life: u64,
        task: TaskId,
        number: u64,
    },
    /// Another pilot asks for tasks; `n` counts these events.
    AskedFor {
        node: usize,
        life: u64,
        n: u64,
    },
    PilotDies {
        node: usize,
        life: u64,
    },
    PilotStalls {
        node: usize,
        life: u64,
        span: Span,
    },
    PilotPreempted {
        node: usize,
        life: u64,
    },
    JobIsEnded {
        node: usize,
        life: u64,
    },
    AgentStarts {
        node: usize,
    },
    UserActs {
        act: usize,
    },
}

/// The sender of a request that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asker {
    Registration {
        node: usize,
        life: u64,
    },
    /// A report left over from the process before.
    Leftover {
        node: usize,
        life: u64,
        number: u64,
    },
    Pull {
        node: usize,
        life: u64,
        lane: Lane,
    },
    Leave {
        node: usize,
        life: u64,
    },
    User {
        act: usize,
    },
    Nobody,
}

pub(crate) struct World<'t> {
    seed: u64,
    plan: Plan,
    luck: Rng,
    now: Time,
    agenda: Agenda<Happening>,
    faults_end: Time,
    manager: Manager,
    sites: Vec<Site>,
    nodes: Vec<Node>,
    user: User,
    /// `None` if a scenario is too large for a history of each task.
    auditor: Option<Auditor>,
    /// The hash of the decisions; nothing is added without an auditor.
    decisions: Decisions,
    /// The inputs of a scenario beyond its plan, and its results.
    pub(crate) scene: Option<Scene>,
    asked: BTreeMap<RequestId, Asker>,
    /// Number of tasks that the pilot gave that was asked last.
    gave: u64,
    n_requests: u64,
    trace: Option<&'t mut dyn FnMut(fmt::Arguments<'_>)>,
    /// Called with the progress of a scenario.
    pub(crate) told: Option<&'t mut dyn FnMut(HowFar)>,
    /// The reason why a scenario was stopped, if it was.
    pub(crate) stopped: Option<Stopped>,
}

type Held = Result<(), Violation>;

impl<'t> World<'t> {
    pub(crate) fn new(
        seed: u64,
        plan: Plan,
        scene: Option<Scene>,
        trace: Option<&'t mut dyn FnMut(fmt::Arguments<'_>)>,
    ) -> World<'t> {
        let budgets = Budgets {
            node_retries: plan.settings.node_retries,
            transfer_retries: plan.settings.transfer_retries,
            walltime_retries: plan.settings.walltime_retries,
            heartbeat_limit: plan.settings.heartbeat_limit,
            grace: plan.settings.grace,
        };
        let mut world = World {
            seed,
            luck: Rng::of(seed, &[1]),
            now: BEGIN,
            agenda: Agenda::new(),
            faults_end: BEGIN + plan.faults_last,
            manager: Manager::default(),
            sites: plan.sites.iter().map(|site| Site::new(site.clone())).collect(),
            nodes: Vec::new(),
            user: User::new(&plan),
            auditor: scene.as_ref().is_none_or(|scene| scene.is_audited).then(|| Auditor::new(budgets)),
            decisions: Decisions::default(),
            scene,
            asked: BTreeMap::new(),
            gave: 0,
            n_requests: 0,
            plan,
            trace,
            told: None,
            stopped: None,
        };
        world.note(|world| format!("{:?}", world.plan));
        world.after(Span::ZERO, Happening::ManagerStarts);
        for death in world.plan.manager_deaths.clone() {
            world.after(death, Happening::ManagerDies);
        }
        for (at, span) in world.plan.manager_stalls.clone() {
            world.after(at, Happening::ManagerStalls { span });
        }
        for act in 0..world.plan.acts.len() {
            world.after(world.plan.acts[act].0, Happening::UserActs { act });
        }
        world
    }

    /// Handles events until all has ended, or a scenario is stopped.
    pub(crate) fn run(&mut self) -> Held {
        let mut n_happened = 0;
        while let Some((at, happening)) = self.agenda.next() {
            self.now = self.now.max(at);
            n_happened += 1;
            if n_happened > N_HAPPENINGS_MAX && self.scene.is_none() {
                return Err(Violation(format!("it goes round in circles; {}", self.what_is_left())));
            }
            if self.scene.is_none() && self.now > self.faults_end + PATIENCE {
                return Err(Violation(self.what_is_left()));
            }
            self.tell_how_far(n_happened);
            if let Some(cause) = self.cause_to_give_up() {
                self.give_up(cause);
                return Ok(());
            }
            self.note(|_| format!("{happening:?}"));
            self.happen(happening)?;
            if self.is_over() {
                self.check_engine();
                return self.finish();
            }
        }
        if self.scene.is_some() {
            self.give_up(Cause::NothingLeft);
            return Ok(());
        }
        Err(Violation(format!("nothing is left to happen; {}", self.what_is_left())))
    }

    fn happen(&mut self, happening: Happening) -> Held {
        match happening {
            Happening::Arrives { event, epoch } => self.arrives(*event, epoch),
            Happening::ConnectionBreaks { request } => self.hang_up(request),
            Happening::ManagerWorks => return self.manager_works(),
            Happening::ManagerWakes => self.manager_wakes(),
            Happening::ManagerDies => self.manager_dies(),
            Happening::ManagerStarts => self.manager_starts(),
            Happening::ManagerStalls { span } => self.manager_stalls(span),
            Happening::WorkerIsFree { site, epoch } => return self.worker_is_free(site, epoch),
            Happening::SiteAsked { platform, wish, epoch } => return self.site_asked(platform, wish, epoch),
            Happening::SubmissionGoesOn { site, asked } => return self.submission_goes_on(site, asked),
            Happening::BatchJobStarts { site, job } => self.batch_job_starts(site, job),
            Happening::BatchJobEnds { site, job, why } => return self.batch_job_ends(site, job, why),
            Happening::ArrayTaskEnds { node, why } => return self.array_task_ends(node, why),
            Happening::Heard { node, life, event } => return self.pilot_hears(node, life, *event),
            Happening::Arriving { node, life } => self.pilot_arrives(node, life),
            Happening::PilotWakes { node, life } => {
                return self.pilot_hears(node, life, PilotEvent::TimerFired);
            }
            Happening::TaskEnds { node, life, task, execution, ending } => {
                return self.task_ends(node, life, (task, execution), ending);
            }
            Happening::FilesMoved { node, life, task, number } => {
                return self.files_are_moved(node, life, task, number);
            }
            Happening::AskedFor { node, life, n } => return self.pilot_is_asked(node, life, n),
            Happening::PilotDies { node, life } => self.pilot_dies(node, life),
            Happening::PilotStalls { node, life, span } => self.pilot_stalls(node, life, span),
            Happening::JobIsEnded { node, life } => return self.job_is_ended(node, life),
            Happening::PilotPreempted { node, life } => {
                return self.pilot_hears(node, life, PilotEvent::Signalled);
            }
            Happening::AgentStarts { node } => self.agent_starts(node),
            Happening::UserActs { act } => self.user_acts(act),
        }
        Ok(())
    }

    fn note(&mut self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_some() {
            let line = line(self);
            let now = self.now;
            if let Some(trace) = &mut self.trace {
                trace(format_args!("{:>12} {line}", now.0));
            }
        }
    }

    fn after(&mut self, span: Span, happening: Happening) {
        self.agenda.enter(self.now + span, happening);
    }

    fn is_faulty(&self) -> bool {
        self.now < self.faults_end
    }

    /// Returns whether a fault with this rate happens now.
    fn goes_wrong(&mut self, one_in: u64) -> bool {
        self.is_faulty() && self.luck.one_in(one_in)
    }

    fn request(&mut self, asker: Asker) -> RequestId {
        self.n_requests += 1;
        let request = RequestId(self.n_requests);
        self.asked.insert(request, asker);
        request
    }

    fn network_delay(&mut self) -> Span {
        let is_slow = self.goes_wrong(self.plan.rates.message_slow);
        Span(if is_slow { self.luck.below(SLOW_MAX.0) } else { self.luck.between(100, 5_000) })
    }

    /// Sends a request to the manager. It may be lost, late, or arrive once more much later.
    fn send(&mut self, asker: Asker, question: impl Fn(RequestId) -> Event) {
        let request = self.request(asker);
        if self.goes_wrong(self.plan.rates.message_doubled) {
            let (copy, span) = (self.request(Asker::Nobody), Span(self.luck.below(30_000_000)));
            self.after(span, Happening::Arrives { event: Box::new(question(copy)), epoch: None });
        }
        if self.goes_wrong(self.plan.rates.message_lost) {
            self.asked.remove(&request);
            return self.unanswered(asker);
        }
        if matches!(asker, Asker::Pull { .. }) && self.goes_wrong(self.plan.rates.hang_up) {
            let span = Span(self.luck.below(20_000_000));
            self.after(span, Happening::ConnectionBreaks { request });
        }
        let span = self.network_delay();
        self.after(span, Happening::Arrives { event: Box::new(question(request)), epoch: None });
    }

    /// Ends a connection; both ends notice it, one after the other.
    fn hang_up(&mut self, request: RequestId) {
        let Some(asker) = self.asked.remove(&request) else { return };
        self.unanswered(asker);
        let span = self.network_delay();
        self.after(span, Happening::Arrives { event: Box::new(Event::HungUp { request }), epoch: None });
    }

    /// Ends the connections of the pulls of a pilot's process that ends.
    fn hang_up_all(&mut self, node: usize, life: u64) {
        let of_it =
            |asker: &Asker| matches!(asker, Asker::Pull { node: n, life: l, .. } if (*n, *l) == (node, life));
        let pulls = self.asked.iter().filter(|(_, asker)| of_it(asker)).map(|(request, _)| *request);
        for request in pulls.collect::<Vec<_>>() {
            if self.goes_wrong(self.plan.rates.hang_up) {
                self.hang_up(request);
            }
        }
    }

    /// Delivers an answer of the manager. It may be lost on its way; the manager then sees the connection
    /// end.
    fn deliver(&mut self, request: RequestId, answer: Answer) -> Held {
        let Some(asker) = self.asked.remove(&request) else { return Ok(()) };
        if self.goes_wrong(self.plan.rates.message_lost) {
            self.unanswered(asker);
            return Ok(());
        }
        let span = self.network_delay();
        match asker {
            Asker::User { act } => self.user_hears(act, answer),
            Asker::Nobody => Ok(()),
            _ => self.pilot_is_answered(asker, answer, span),
        }
    }

    /// Handles a failed connection: the sender of the request asks again after a while.
    fn unanswered(&mut self, asker: Asker) {
        let span = Span(self.luck.between(500_000, 2_500_000));
        match asker {
            Asker::Nobody => {}
            Asker::User { act } => self.after(span, Happening::UserActs { act }),
            Asker::Registration { node, life } => self.after(span, Happening::Arriving { node, life }),
            Asker::Leftover { node, life, .. } => self.after(span, Happening::Arriving { node, life }),
            Asker::Pull { node, life, lane } => {
                let event = Box::new(PilotEvent::PullFailed { lane });
                self.after(span, Happening::Heard { node, life, event });
            }
            Asker::Leave { node, life } => self.farewell_fails(node, life),
        }
    }

    fn is_over(&self) -> bool {
        if self.user.n_open > 0 || self.manager.engine.is_none() || !self.is_all_done() {
            return false;
        }
        // The results of a scenario are complete now.
        self.scene.is_some() || !self.is_faulty() && self.has_no_batch_jobs()
    }

    /// Returns whether every acknowledged task has ended.
    fn is_all_done(&self) -> bool {
        match (&self.scene, &self.auditor) {
            (Some(scene), _) => scene.ledger.is_all_over(),
            (None, auditor) => auditor.as_ref().is_none_or(Auditor::is_all_over),
        }
    }

    fn has_no_batch_jobs(&self) -> bool {
        self.sites.iter().all(|site| {
            let spec = &site.plan.spec;
            // One array may be left.
            let n_nodes = if spec.is_array { 1 } else { spec.n_nodes };
            site.n_live() <= spec.n_pilots_min.div_ceil(n_nodes) as usize
        })
    }

    fn what_is_left(&self) -> String {
        let live: Vec<String> =
            self.sites.iter().map(|site| format!("{}: {}", site.plan.spec.name, site.n_live())).collect();
        let tasks = if self.is_all_done() { "all tasks are over" } else { "tasks are left" };
        let manager = if self.manager.engine.is_some() { "up" } else { "down" };
        format!(
            "not over: {tasks}; users wait for {} answers; batch jobs {live:?}; the manager is {manager}",
            self.user.n_open
        )
    }

    fn finish(&mut self) -> Held {
        self.ask_at_the_end()?;
        if let Some(scene) = &mut self.scene {
            scene.ledger.closed(self.now);
        }
        self.compare_with_disk()
    }

    /// Returns the outcome of the run.
    pub(crate) fn outcome(&self) -> Outcome {
        let audited = self.auditor.as_ref();
        Outcome {
            n_jobs: audited.map_or(0, |auditor| auditor.jobs().len() as u64),
            n_tasks: audited.map_or(0, Auditor::n_tasks),
            n_executions: audited.map_or(0, |auditor| auditor.n_executions),
            n_repeated: audited.map_or(0, |auditor| auditor.n_repeated),
            n_given: audited.map_or(0, |auditor| auditor.n_given),
            n_passed_on: audited.map_or(0, |auditor| auditor.n_passed_on),
            n_starts: self.manager.epoch,
            n_pilots: self.nodes.iter().map(|node| node.life).sum(),
            latest: audited.map_or(Span::ZERO, |auditor| auditor.latest),
            n_events: self.manager.n_events,
            ended_at: self.now,
            decisions: self.decisions.hash(),
        }
    }
}
