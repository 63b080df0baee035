//! The plan of a run: limits, sites, jobs, users' acts, and how often what fails. The fault simulation draws it from a
//! seed; a scenario reads it.

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
    /// Nothing fails after so long.
    pub(crate) faults_last: Span,
    pub(crate) sites: Vec<SitePlan>,
    pub(crate) acts: Vec<(Span, Act)>,
    /// Jobs, by their places among those submitted, that are for a site's profiling run, so many tasks at a time.
    pub(crate) profiled: BTreeMap<usize, (usize, u64)>,
    pub(crate) manager_deaths: Vec<Span>,
    /// When the manager stands still, and for how long.
    pub(crate) manager_stalls: Vec<(Span, Span)>,
    /// Idle pilots ask others for tasks: each is asked again after so long at most; `None`: never.
    pub(crate) asks: Option<Span>,
    /// Whether a batch job in which a task does what kills pilots is ended by its batch system, by a signal to all in it.
    pub(crate) ends_by_signal: bool,
    /// Once in so many batch jobs that have begun drop out of listings for a while, as if they had been renamed; 0: never.
    pub(crate) hides: u64,
    /// Whether listings say which batch jobs stand still.
    pub(crate) tells_suspended: bool,
    /// Whether what is asked of a site is carried out one after the other, as managers do.
    pub(crate) is_asked_in_turn: bool,
    /// How long the manager is away after a death, at most.
    pub(crate) absence_max: Span,
}

/// A batch system's ways.
#[derive(Clone, Debug)]
pub(crate) struct SitePlan {
    pub(crate) spec: PlatformSpec,
    pub(crate) queue_wait_max: Span,
    /// Its listings show what was there so long ago, as those of a cache do.
    pub(crate) lists_late: Span,
}

/// How often what goes wrong: once in so many chances, never when 0.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pub(crate) message_lost: u64,
    pub(crate) message_doubled: u64,
    pub(crate) message_slow: u64,
    /// A pull whose connection ends before it is answered, which the manager sees.
    pub(crate) hang_up: u64,
    /// A commit during which the manager dies.
    pub(crate) commit_dies: u64,
    pub(crate) submit_refused: u64,
    /// The site's answer is not understood, or does not come.
    pub(crate) submit_unknown: u64,
    pub(crate) submit_answered_twice: u64,
    pub(crate) site_slow: u64,
    pub(crate) list_fails: u64,
    /// A list names something twice, what is not there, or what has ended as if it had not.
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
    /// Nothing goes wrong.
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

    /// Each with its word.
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

/// What a user does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Submit(Box<JobRequest>),
    /// Jobs of which some wait for others; [`On::Job`] names one of an earlier act by its place among all that are
    /// submitted.
    SubmitAll(Vec<Stage>),
    /// To the job of that position, if it is known by then.
    Change(usize, JobChange),
    /// The manager is stopped and started again.
    Shutdown {
        is_urgent: bool,
    },
    /// To the site of that position.
    ChangePlatform(usize, PlatformMode),
    /// The allocation of that number, if there is one.
    CancelAllocation {
        number: u64,
        is_urgent: bool,
    },
    /// What the job of that position writes is to be told while it runs: all, or of its first tasks.
    Follow(usize, Option<TaskSet>),
}

impl Act {
    /// How many jobs it submits.
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

/// How the tasks of a job behave; travels as the job's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nature {
    /// The longest task, microseconds.
    pub(crate) wall_us_max: u64,
    /// Once in so many attempts …
    pub(crate) fails: u64,
    pub(crate) node_fails: u64,
    pub(crate) kills_pilot: u64,
    /// Once in so many tasks every attempt takes its pilot down, also when nothing else fails any more.
    pub(crate) is_poison: u64,
}

impl Nature {
    /// The spec of a job whose tasks behave so.
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
