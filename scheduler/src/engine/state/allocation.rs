//! Allocations: batch jobs from the request to the end, and counts of each platform's allocations.

use std::fmt;

use crate::{
    engine::{
        interface::platform::{platform_spec::PlatformSpec, shape::Shape},
        record::{end_cause::EndCause, provision_reason::ProvisionReason},
    },
    ids::{PilotId, PlatformId},
    time::{Span, Time},
};

/// Counts of a platform's allocations, kept up to date so that nothing must be counted at each look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocationCounts {
    /// Nodes that may still be there: as many pilots may be there or come.
    pub n_there: usize,
    /// Nodes whose pilots are wanted.
    pub n_live: usize,
    /// Wanted nodes whose pilots have not registered.
    pub n_waiting: usize,
    /// Allocations that may still be there and have had no pilot, wanted or not.
    pub n_queued: usize,
    /// Cores × microseconds of the allocations that may still be there, with their whole walltime.
    pub committed_us: u128,
    /// Cores × microseconds of the ended allocations.
    pub spent_us: u128,
}

impl AllocationCounts {
    /// Returns the cores × time of the ended allocations.
    pub fn spent(&self) -> Span {
        Span(u64::try_from(self.spent_us).unwrap_or(u64::MAX))
    }

    /// Returns the cores × time reserved for allocations that may be there.
    pub fn committed(&self) -> Span {
        Span(u64::try_from(self.committed_us).unwrap_or(u64::MAX))
    }
}

/// The state of an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllocationState {
    /// It will be requested, or the answer is pending.
    Intended,
    /// The platform has accepted it.
    Submitted,
    /// The platform's answer, at that time, was neither yes nor no.
    Unknown(String, Time),
    /// It was cancelled, or its pilot left, at that time; it may still be there.
    Leaving(String, Time),
    /// It has ended.
    Ended(String),
}

/// An allocation's durable state.
#[derive(Clone, PartialEq, Debug)]
pub struct Allocation {
    /// The platform that was asked for it.
    pub platform: PlatformId,
    /// The identity of that platform at the request, or when it last listed the allocation.
    pub origin: Origin,
    /// Whether the platform's identity has changed since: nothing checks whether the allocation is there.
    pub is_left_behind: bool,
    /// The tag by which a listing shows it.
    pub tag: String,
    /// Number of nodes, each with a pilot.
    pub n_nodes: u32,
    /// Number of nodes that may still be there: each task of a job array ends by itself.
    pub n_nodes_there: u32,
    /// Number of requested cores, over all nodes.
    pub cores: u32,
    /// The walltime; `None`: no end.
    pub walltime: Option<Span>,
    /// The reason for the request, as far as it was recorded.
    pub because: Option<Box<ProvisionReason>>,
    /// The state.
    pub state: AllocationState,
    /// The platform's own id, once known.
    pub batch_id: Option<String>,
    /// The time at which the engine decided on the request.
    pub intended_at: Time,
    /// The time at which the platform accepted it.
    pub submitted_at: Option<Time>,
    /// The pilots that registered, in order: one for each node, and another one after each restart of an
    /// agent.
    pub came: Vec<PilotId>,
    /// The start of its first pilot, or an earlier time that follows from the walltime that a pilot had left
    /// at its registration: each task of a job array starts by itself, and the last one may be heard first.
    pub began_at: Option<Time>,
    /// The time at which it ended.
    pub ended_at: Option<Time>,
    /// The cause of the end, if the batch system states one.
    pub end_cause: Option<EndCause>,
    /// Whether the platform accepted it, or may have accepted it.
    pub may_have_run: bool,
    /// Whether it was cancelled, or its pilot left, before it ended.
    pub was_released: bool,
    /// Whether it counts as ended only because a listing lacked it.
    pub was_unlisted: bool,
}

/// The identity of a platform, beside its name: tells it from a later platform of the same name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The backend; empty: unknown.
    pub adapter: String,
    /// The host or cloud; `None`: unknown. See [`PlatformSpec::site`].
    pub site: Option<String>,
}

impl Origin {
    /// Returns the identity of a platform.
    pub fn of(spec: &PlatformSpec) -> Origin {
        Origin { adapter: spec.adapter.clone(), site: spec.site.clone() }
    }

    /// Returns whether both may be the same, as far as they are known.
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
    /// Compares with the present identity of the platform, and takes it over if both may be the same.
    pub(in crate::engine) fn compare_with(&mut self, spec: &PlatformSpec) {
        let now = Origin::of(spec);
        self.is_left_behind = !self.origin.may_be(&now);
        if !self.is_left_behind {
            self.origin = now;
        }
    }

    /// Takes over the identity of the platform, which has listed the allocation.
    pub(in crate::engine) fn is_shown_by(&mut self, spec: &PlatformSpec) {
        (self.origin, self.is_left_behind) = (Origin::of(spec), false);
    }

    /// Returns whether it counts toward its platform.
    pub fn is_counted(&self) -> bool {
        self.may_be_there() && !self.is_left_behind
    }

    /// Returns the properties that a queue may treat differently.
    pub fn shape(&self) -> Shape {
        Shape { cores: self.cores, n_nodes: self.n_nodes, walltime: self.walltime }
    }

    /// Returns the part of the platform's cores that had to become free for it, if that is known.
    pub fn shortage(&self) -> Option<f64> {
        Some(self.because.as_ref()?.load?.shortage(self.cores.into()))
    }

    /// Returns whether its pilots are wanted: they may come, or are there.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, AllocationState::Leaving(..) | AllocationState::Ended(_))
    }

    /// Returns the number of nodes that wait for their first pilot, if that is wanted.
    pub fn n_waiting(&self) -> usize {
        let n_there = self.n_nodes_there as usize;
        if self.is_live() { (self.n_nodes as usize).saturating_sub(self.came.len()).min(n_there) } else { 0 }
    }

    /// Returns whether it has had no pilot.
    pub fn is_unused(&self) -> bool {
        self.came.is_empty()
    }

    /// Returns whether the platform may still have it: then it counts toward the platform's limits.
    pub fn may_be_there(&self) -> bool {
        !matches!(self.state, AllocationState::Ended(_))
    }

    /// Returns its cores × time from the start of its first pilot to its end, or, while it may be there, the
    /// most that it can use. An allocation that ended by itself before its pilot came may have run since the
    /// request; one that was cancelled in the queue has not. None uses more than its walltime, although its
    /// end may be noticed much later.
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

    /// Returns a word for people.
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
