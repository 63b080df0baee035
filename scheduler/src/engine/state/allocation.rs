//! Allocations: batch jobs from intent to end, and what a platform has of them.

use std::fmt;

use crate::{
    engine::{
        interface::platform::{platform_spec::PlatformSpec, shape::Shape},
        record::{end_cause::EndCause, provision_reason::ProvisionReason},
    },
    ids::{PilotId, PlatformId},
    time::{Span, Time},
};

/// What a platform has of ours, so that nobody must count it at each look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocationCounts {
    /// Nodes that may still be there: so many pilots may be there or come.
    pub n_there: usize,
    /// Nodes whose pilots are wanted.
    pub n_live: usize,
    /// … and have not come yet.
    pub n_waiting: usize,
    /// Allocations that may still be there and of which no pilot has come, wanted or not.
    pub n_queued: usize,
    /// Cores × microseconds that those take which may still be there, if they stay for their whole walltime.
    pub committed_us: u128,
    /// Cores × microseconds that those took which have ended.
    pub spent_us: u128,
}

impl AllocationCounts {
    /// Cores × time that those took which have ended.
    pub fn spent(&self) -> Span {
        Span(u64::try_from(self.spent_us).unwrap_or(u64::MAX))
    }

    /// Cores × time that is kept for those that may be there.
    pub fn committed(&self) -> Span {
        Span(u64::try_from(self.committed_us).unwrap_or(u64::MAX))
    }
}

/// Where an allocation is between intent and end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocationState {
    /// It will be asked for, or the answer is awaited.
    Intended,
    /// The platform has it.
    Submitted,
    /// The platform's answer, at that time, said neither yes nor no.
    Unknown(String, Time),
    /// Not wanted any more, or left by its pilot, at that time; it may still be there.
    Leaving(String, Time),
    /// It is gone.
    Ended(String),
}

/// An allocation's durable state.
#[derive(Clone, PartialEq, Debug)]
pub struct Allocation {
    /// Where it was asked for.
    pub platform: PlatformId,
    /// What that platform was then, or when it last showed it.
    pub origin: Origin,
    /// Whether its platform is something else now: nobody looks whether it is there.
    pub is_left_behind: bool,
    /// The name by which a listing shows it.
    pub tag: String,
    /// How many nodes, each with a pilot.
    pub n_nodes: u32,
    /// How many of them may still be there: tasks of a job array end each for itself.
    pub n_nodes_there: u32,
    /// Cores that were asked for, of all nodes.
    pub cores: u32,
    /// For how long; `None`: without end.
    pub walltime: Option<Span>,
    /// Why it was asked for, as far as that was written down.
    pub because: Option<Box<ProvisionReason>>,
    /// Where it is.
    pub state: AllocationState,
    /// The platform's own id, once known.
    pub batch_id: Option<String>,
    /// When it was intended.
    pub intended_at: Time,
    /// When the platform accepted it.
    pub submitted_at: Option<Time>,
    /// The pilots that came, in order: one for each node, and again where an agent was started again.
    pub came: Vec<PilotId>,
    /// When the first of its pilots was born, or before, by what was left of any one's walltime when it came: tasks of a
    /// job array begin each for itself, and the last of them may be heard first.
    pub began_at: Option<Time>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Why, where its batch system says so.
    pub end_cause: Option<EndCause>,
    /// Whether the platform accepted it, or nobody can say that it did not.
    pub may_have_run: bool,
    /// Whether it was cancelled, or left by its pilot, before it ended.
    pub was_released: bool,
    /// Whether it counts as ended only because a listing lacked it.
    pub was_unlisted: bool,
}

/// What tells a platform from another one that has its name later.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The adapter; empty: not known.
    pub adapter: String,
    /// Where it is asked; `None`: not known. See [`PlatformSpec::site`].
    pub site: Option<String>,
}

impl Origin {
    /// That of a platform.
    pub fn of(spec: &PlatformSpec) -> Origin {
        Origin { adapter: spec.adapter.clone(), site: spec.site.clone() }
    }

    /// Whether the other one is the same, as far as both are known.
    fn may_be(&self, other: &Origin) -> bool {
        let is_same_site = |(one, other)| one == other;
        (self.adapter.is_empty() || self.adapter == other.adapter)
            && self.site.as_ref().zip(other.site.as_ref()).is_none_or(is_same_site)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.site.as_deref().unwrap_or_default() {
            "" => f.write_str(&self.adapter),
            site => write!(f, "{} at {site}", self.adapter),
        }
    }
}

impl Allocation {
    /// Its platform is this from now on.
    pub(in crate::engine) fn compare_with(&mut self, spec: &PlatformSpec) {
        let now = Origin::of(spec);
        self.is_left_behind = !self.origin.may_be(&now);
        if !self.is_left_behind {
            self.origin = now;
        }
    }

    /// Its platform, as it is now, has shown it.
    pub(in crate::engine) fn is_shown_by(&mut self, spec: &PlatformSpec) {
        (self.origin, self.is_left_behind) = (Origin::of(spec), false);
    }

    /// Whether it counts among those that its platform has.
    pub fn is_counted(&self) -> bool {
        self.may_be_there() && !self.is_left_behind
    }

    /// What its platform's queue may care about.
    pub fn shape(&self) -> Shape {
        Shape { cores: self.cores, n_nodes: self.n_nodes, walltime: self.walltime }
    }

    /// The part of the platform's cores that had to come free for it, where that is known.
    pub fn shortage(&self) -> Option<f64> {
        Some(self.because.as_ref()?.load?.shortage(self.cores.into()))
    }

    /// Whether its pilots are wanted: they may come, or are there.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, AllocationState::Leaving(..) | AllocationState::Ended(_))
    }

    /// How many nodes wait for their first pilot, if it is wanted.
    pub fn n_waiting(&self) -> usize {
        let n_there = self.n_nodes_there as usize;
        if self.is_live() { (self.n_nodes as usize).saturating_sub(self.came.len()).min(n_there) } else { 0 }
    }

    /// Whether no pilot has come.
    pub fn is_unused(&self) -> bool {
        self.came.is_empty()
    }

    /// Whether the platform may still hold it: then it counts against the platform's limits.
    pub fn may_be_there(&self) -> bool {
        !matches!(self.state, AllocationState::Ended(_))
    }

    /// Cores × time: what it took from the birth of its first pilot to its end, or, while it may be there, what
    /// it takes at most. One that ended by itself before its pilot came may have run since it was asked for; one
    /// that was cancelled in the queue has not. None takes more than its walltime: its end may be noticed much
    /// later.
    pub fn core_time(&self) -> Span {
        let began_at =
            self.began_at.or(Some(self.intended_at).filter(|_| self.may_have_run && !self.was_released));
        let lasts = match (self.ended_at.filter(|_| !self.may_be_there()), self.walltime) {
            (None, walltime) => walltime.unwrap_or_default(),
            (Some(at), walltime) => {
                let span = began_at.map_or(Span::ZERO, |began_at| at.since(began_at));
                walltime.map_or(span, |walltime| span.min(walltime))
            }
        };
        lasts.times(self.cores.into())
    }

    /// One word for people.
    pub fn state_word(&self) -> &'static str {
        match &self.state {
            AllocationState::Leaving(..) => "leaving",
            AllocationState::Ended(_) => "ended",
            _ if !self.is_unused() => "running",
            AllocationState::Intended => "asked for",
            AllocationState::Submitted => "queued",
            AllocationState::Unknown(..) => "unknown",
        }
    }
}
