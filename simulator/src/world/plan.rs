//! The plan of a run: limits, sites, jobs, users' requests, and the rates of failures. The fault simulation
//! draws it from a seed; a scenario reads it.

use std::collections::BTreeMap;

use scheduler::{
    engine::interface::{JobChange, JobRequest, PlatformMode, PlatformSpec, Stage, settings::Settings},
    ranges::TaskSet,
    time::Span,
};

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) rates: Rates,
    /// The time after which nothing fails.
    pub(crate) faults_last: Span,
    pub(crate) sites: Vec<SitePlan>,
    pub(crate) acts: Vec<(Span, Act)>,
    /// Jobs (by their positions among submitted jobs) of a profiling run on a site, with the number of tasks
    /// at a time.
    pub(crate) profiled: BTreeMap<usize, (usize, u64)>,
    pub(crate) manager_deaths: Vec<Span>,
    /// When the manager stands still, and for how long.
    pub(crate) manager_stalls: Vec<(Span, Span)>,
    /// The longest interval at which each pilot is asked for tasks by idle ones; `None`: never.
    pub(crate) asks: Option<Span>,
    /// Whether the batch system ends a batch job by a signal to all its processes if a task of it does
    /// something that otherwise kills pilots.
    pub(crate) ends_by_signal: bool,
    /// One of this many started batch jobs is missing in listings for a while, as if renamed; 0: none.
    pub(crate) hides: u64,
    /// Whether listings say which batch jobs are suspended.
    pub(crate) tells_suspended: bool,
    /// Whether requests to a site are carried out one after the other, as by managers.
    pub(crate) is_asked_in_turn: bool,
    /// The longest absence of the manager after a death.
    pub(crate) absence_max: Span,
}

/// The behaviour of a batch system.
#[derive(Clone, Debug)]
pub(crate) struct SitePlan {
    pub(crate) spec: PlatformSpec,
    pub(crate) queue_wait_max: Span,
    /// The age of its listings, as those of a cache.
    pub(crate) lists_late: Span,
}

/// The rates of failures: once in that many chances, never if 0.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pub(crate) message_lost: u64,
    pub(crate) message_doubled: u64,
    pub(crate) message_slow: u64,
    /// A pull whose connection ends before it is answered; the manager notices it.
    pub(crate) hang_up: u64,
    /// A commit during which the manager dies.
    pub(crate) commit_dies: u64,
    pub(crate) submit_refused: u64,
    /// The site's answer is not understood, or does not come.
    pub(crate) submit_unknown: u64,
    pub(crate) submit_answered_twice: u64,
    pub(crate) site_slow: u64,
    pub(crate) list_fails: u64,
    /// A listing names a batch job twice, one that does not exist, or an ended one as if it had not ended.
    pub(crate) list_confused: u64,
    pub(crate) cancel_lost: u64,
    /// A pilot that will die, stall, or be preempted.
    pub(crate) pilot_dies: u64,
    pub(crate) pilot_stalls: u64,
    pub(crate) pilot_preempted: u64,
    /// A dead pilot's batch job that starts its agent again.
    pub(crate) pilot_requeued: u64,
}

impl Rates {
    /// Returns rates without any failure.
    pub(crate) fn none() -> Rates {
        Rates {
            message_lost: 0,
            message_doubled: 0,
            message_slow: 0,
            hang_up: 0,
            commit_dies: 0,
            submit_refused: 0,
            submit_unknown: 0,
            submit_answered_twice: 0,
            site_slow: 0,
            list_fails: 0,
            list_confused: 0,
            cancel_lost: 0,
            pilot_dies: 0,
            pilot_stalls: 0,
            pilot_preempted: 0,
            pilot_requeued: 0,
        }
    }

    /// Returns the rates with their words.
    pub(crate) fn words(&mut self) -> [(&'static str, &mut u64); 16] {
        [
            ("message_lost", &mut self.message_lost),
            ("message_doubled", &mut self.message_doubled),
            ("message_slow", &mut self.message_slow),
            ("hang_up", &mut self.hang_up),
            ("commit_dies", &mut self.commit_dies),
            ("submit_refused", &mut self.submit_refused),
            ("submit_unknown", &mut self.submit_unknown),
            ("submit_answered_twice", &mut self.submit_answered_twice),
            ("site_slow", &mut self.site_slow),
            ("list_fails", &mut self.list_fails),
            ("list_confused", &mut self.list_confused),
            ("cancel_lost", &mut self.cancel_lost),
            ("pilot_dies", &mut self.pilot_dies),
            ("pilot_stalls", &mut self.pilot_stalls),
            ("pilot_preempted", &mut self.pilot_preempted),
            ("pilot_requeued", &mut self.pilot_requeued),
        ]
    }
}

/// A request of a user.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Submit(Box<JobRequest>),
    /// A workflow, in which some jobs wait for others; [`On::Job`] names a job of an earlier act by its place
    /// among all submitted jobs.
    SubmitAll(Vec<Stage>),
    /// A change of the job at that position, if it is known by then.
    Change(usize, JobChange),
    /// A stop of the manager, which is started again.
    Shutdown {
        is_urgent: bool,
    },
    /// A change of the mode of the site at that position.
    ChangePlatform(usize, PlatformMode),
    /// A cancellation of the allocation with that number, if it exists.
    CancelAllocation {
        number: u64,
        is_urgent: bool,
    },
    /// A request to follow the output of the job at that position: of all its tasks, or of the first ones.
    Follow(usize, Option<TaskSet>),
}

impl Act {
    /// Returns the number of jobs that it submits.
    pub(crate) fn n_jobs(&self) -> usize {
        match self {
            Act::Submit(_) => 1,
            Act::SubmitAll(stages) => stages.len(),
            Act::Change(..)
            | Act::Shutdown { .. }
            | Act::ChangePlatform(..)
            | Act::CancelAllocation { .. }
            | Act::Follow(..) => 0,
        }
    }
}

/// The behaviour of a job's tasks; it is passed on as the job's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nature {
    /// The longest runtime of a task, in microseconds.
    pub(crate) wall_us_max: u64,
    /// Once in this many attempts …
    pub(crate) fails: u64,
    pub(crate) node_fails: u64,
    pub(crate) kills_pilot: u64,
    /// Once in this many tasks every attempt kills its pilot, even when nothing else fails any more.
    pub(crate) is_poison: u64,
}

impl Nature {
    /// Returns the spec of a job whose tasks behave like this.
    pub(crate) fn to_spec(self) -> String {
        let Nature { wall_us_max, fails, node_fails, kills_pilot, is_poison } = self;
        format!("{wall_us_max} {fails} {node_fails} {kills_pilot} {is_poison}")
    }

    pub(super) fn of_spec(spec: &str) -> Nature {
        let mut numbers = spec.split(' ').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Nature {
            wall_us_max: next(),
            fails: next(),
            node_fails: next(),
            kills_pilot: next(),
            is_poison: next(),
        }
    }
}
