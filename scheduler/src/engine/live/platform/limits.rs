//! The limits that an operator sets for a platform: how many more allocations may be requested, and the
//! reason. None of this is volatile: a restarted manager computes the same from its records.

use std::collections::BTreeMap;

use crate::{
    engine::{
        interface::{
            platform::platform_spec::{PlatformMode, PlatformSpec},
            settings::Settings,
        },
        live::Live,
        state::{allocation::AllocationCounts, asked::MINUTE, durable::Durable, job::Job},
    },
    explain::Reason,
    ids::{AllocationId, JobId, PlatformId},
    time::{Span, Time},
};

/// The number of further allocations that a platform may be asked for.
pub(in crate::engine) struct Room {
    /// The number.
    pub(in crate::engine) n: usize,
    /// The limit that binds, unless it is the number of pilots.
    pub(in crate::engine) bound: Option<Reason>,
    /// The time at which the number grows only because time has passed.
    pub(in crate::engine) more_at: Option<Time>,
    /// The walltime of one allocation that the budgets still have room for, if they have none for a whole
    /// one.
    pub(in crate::engine) shorter: Option<Span>,
}

/// Returns the room of a platform, in allocations. O(allocations of the last minute).
pub(in crate::engine) fn room(
    settings: &Settings,
    durable: &Durable,
    live: &Live,
    (id, spec): (PlatformId, &PlatformSpec),
    now: Time,
) -> Room {
    let (allocation_counts, limits) = (durable.allocation_counts(id), spec.limits);
    let n_pilots = (spec.n_pilots_max as usize).saturating_sub(allocation_counts.n_there);
    let n = n_pilots.checked_div(spec.n_nodes as usize).unwrap_or(0);
    let mut room = Room { n, bound: None, more_at: None, shorter: None };
    let (platform, mode) = (spec.name.clone(), durable.mode(id));
    if mode != PlatformMode::Active {
        return Room {
            n: 0,
            bound: Some(Reason::PlatformRests { platform, mode }),
            more_at: None,
            shorter: None,
        };
    }
    if let Some(most) = limits.n_queued_max {
        let n_queued = allocation_counts.n_queued as u64;
        let n = (most as usize).saturating_sub(allocation_counts.n_queued);
        room.narrow(n, Reason::QueueFull { platform: spec.name.clone(), n_queued, n_max: most });
    }
    if let Some(most) = limits.n_submissions_per_minute {
        let gone_by = live.started_at + last_words(settings, spec);
        let (n_asked, first) = asked_within_a_minute(durable, (id, gone_by, live.started_at), now);
        let left = first.map_or(MINUTE, |first| (first + MINUTE).since(now));
        let reason = Reason::AskedOften { platform: spec.name.clone(), n_max: most, left };
        if room.narrow((most as usize).saturating_sub(n_asked), reason) {
            room.more_at = first.map(|first| first + MINUTE);
        }
    }
    let n_without_budgets = room.n;
    if let Some(most) = limits.core_time_max {
        room.narrow(n_affordable(allocation_counts, spec, most), budget(allocation_counts, spec, most));
    }
    if let Some((price, most)) = spec.price.as_ref().zip(limits.cost_max) {
        let reason = Reason::MoneySpent {
            platform: spec.name.clone(),
            spent: price.of(allocation_counts.spent()),
            committed: price.of(allocation_counts.committed()),
            most,
            each: price.of(taken_by_one(spec)),
            currency: price.currency.clone(),
        };
        room.narrow(n_affordable(allocation_counts, spec, price.affords(most)), reason);
    }
    if room.n == 0 && n_without_budgets > 0 {
        room.shorter = rest(settings, allocation_counts, spec);
    }
    room
}

/// Returns the walltime of one allocation that the budgets have room for, in whole minutes, if its pilots
/// could run anything.
fn rest(settings: &Settings, allocation_counts: AllocationCounts, spec: &PlatformSpec) -> Option<Span> {
    let money = spec.price.as_ref().zip(spec.limits.cost_max).map(|(price, most)| price.affords(most));
    let most = spec.limits.core_time_max.into_iter().chain(money).min()?;
    let left = u128::from(most.0).saturating_sub(allocation_counts.spent_us + allocation_counts.committed_us);
    let cores = u128::from(spec.cores_of_allocation());
    let walltime = u64::try_from(left.checked_div(cores)?).unwrap_or(u64::MAX);
    let walltime = Span(walltime - walltime % MINUTE.0);
    let is_of_use = walltime > settings.walltime_margin + settings.walltime_margin;
    (is_of_use && spec.walltime.is_some_and(|whole| walltime < whole)).then_some(walltime)
}

/// Returns how many more tasks of the job its user's core-hours on the platform allow. Tasks held there count
/// with their expected use. If none is held, the first may start, however large it is. O(jobs held there).
pub(in crate::engine) fn n_allowed(durable: &Durable, live: &Live, id: PlatformId, job: &Job) -> u64 {
    let spec = durable.platforms().get(&id);
    let Some((spec, most)) = spec.and_then(|spec| Some((spec, spec.limits.user_core_time_max?))) else {
        return u64::MAX;
    };
    let user = &job.request.user;
    let (used, held) = (used_by(durable, id, user), held_by(durable, live, (id, spec), user));
    if used >= most {
        return 0;
    }
    let is_first = held_there(durable, live, id, user).next().is_none();
    // If the runtime is unknown, no task starts beside another.
    let Some(each) = expected_use(job, spec) else { return u64::from(is_first) };
    let left = Span(most.0.saturating_sub(used.0).saturating_sub(held.0));
    let n = left.0.checked_div(each.0).unwrap_or(u64::MAX);
    if is_first { n.max(1) } else { n }
}

/// Returns the users that may start nothing more on some platforms, with these platforms. O(platforms ×
/// users).
pub(in crate::engine) fn over_budget(durable: &Durable) -> BTreeMap<&str, Vec<PlatformId>> {
    let mut over_budget = BTreeMap::<&str, Vec<PlatformId>>::new();
    for (id, spec) in durable.platforms() {
        let Some((used, most)) = durable.used(*id).zip(spec.limits.user_core_time_max) else { continue };
        for (user, _) in used.iter().filter(|(_, used)| **used >= most) {
            over_budget.entry(user).or_default().push(*id);
        }
    }
    over_budget
}

/// Returns the reason why no more tasks of the job may start there, if it is the user's core-hours.
pub(in crate::engine) fn why_not_used(
    durable: &Durable,
    live: &Live,
    id: PlatformId,
    job: &Job,
) -> Option<Reason> {
    let spec = durable.platforms().get(&id).filter(|_| n_allowed(durable, live, id, job) == 0)?;
    let user = &job.request.user;
    let (used, held) = (used_by(durable, id, user), held_by(durable, live, (id, spec), user));
    let (platform, user, most) = (spec.name.clone(), user.clone(), spec.limits.user_core_time_max?);
    Some(Reason::UserBudgetSpent { platform, user, used, held, most })
}

fn used_by(durable: &Durable, id: PlatformId, user: &str) -> Span {
    durable.used(id).and_then(|used| used.get(user)).copied().unwrap_or_default()
}

/// Returns the expected use of the user's tasks that pilots of the platform hold.
fn held_by(durable: &Durable, live: &Live, (id, spec): (PlatformId, &PlatformSpec), user: &str) -> Span {
    let ours = held_there(durable, live, id, user);
    let each = ours.map(|(job, n)| expected_use(job, spec).unwrap_or_default().times(n));
    each.fold(Span::ZERO, |sum, span| Span(sum.0.saturating_add(span.0)))
}

/// Returns the user's jobs of which pilots of the platform hold tasks, and the numbers of these tasks.
pub(in crate::engine) fn held_there<'a>(
    durable: &'a Durable,
    live: &'a Live,
    id: PlatformId,
    user: &'a str,
) -> impl Iterator<Item = (&'a Job, u64)> {
    let there = live.held_on.range((id, JobId(0))..=(id, JobId(u64::MAX)));
    let held = there.filter_map(|((_, job), n)| Some((durable.jobs().get(job)?, *n)));
    held.filter(move |(job, n)| job.request.user == user && *n > 0)
}

/// Returns the expected cores × time of a task: by the mean runtime of its job, else its time limit, else the
/// platform's walltime; `None`: nothing bounds it.
fn expected_use(job: &Job, spec: &PlatformSpec) -> Option<Span> {
    let known = job.totals.wall_mean().or(job.request.needs.time_limit).or(spec.walltime);
    known.map(|each| each.times(job.request.needs.resources.cores.into()))
}

impl Room {
    /// Applies another limit; returns whether it is the one that binds.
    fn narrow(&mut self, n: usize, reason: Reason) -> bool {
        let binds = n < self.n;
        if binds {
            (self.n, self.bound, self.more_at) = (n, Some(reason), None);
        }
        binds
    }
}

/// Returns how many allocations the platform may have been asked for within the last minute, and the time of
/// the first of these as far as it is known. An unanswered request may be sent at this very moment, unless it
/// was made by the manager before the restart: then it was sent by `gone_by` at the latest.
fn asked_within_a_minute(
    durable: &Durable,
    (id, gone_by, started_at): (PlatformId, Time, Time),
    now: Time,
) -> (usize, Option<Time>) {
    let Some(asked) = durable.asked(id) else { return (0, None) };
    let is_of_before = |allocation: &&AllocationId| {
        durable.allocations().get(allocation).is_none_or(|held| held.intended_at < started_at)
    };
    let n_of_before = asked.unanswered.iter().filter(is_of_before).count();
    let n_unanswered = asked.unanswered.len() - n_of_before;
    let of_before = std::iter::repeat_n(gone_by, n_of_before);
    let known = asked.answered.iter().copied().chain(of_before);
    let recent = known.filter(|at| now.since(*at) < MINUTE);
    let (n, first) = recent
        .fold((0, None::<Time>), |(n, first), at| (n + 1, Some(first.map_or(at, |first| first.min(at)))));
    (n + n_unanswered, first)
}

fn n_affordable(allocation_counts: AllocationCounts, spec: &PlatformSpec, most: Span) -> usize {
    let left = u128::from(most.0).saturating_sub(allocation_counts.spent_us + allocation_counts.committed_us);
    left.checked_div(taken_by_one(spec).0.into()).map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Returns the cores × time of one more allocation that lasts for its whole walltime.
fn taken_by_one(spec: &PlatformSpec) -> Span {
    spec.walltime.unwrap_or_default().times(spec.cores_of_allocation().into())
}

fn budget(allocation_counts: AllocationCounts, spec: &PlatformSpec, most: Span) -> Reason {
    let (spent, committed) = (allocation_counts.spent(), allocation_counts.committed());
    let each = taken_by_one(spec);
    Reason::BudgetSpent { platform: spec.name.clone(), spent, committed, most, each }
}

/// The time for which a command to a platform that answers at once may outlive its manager.
pub(in crate::engine) const LAST_WORDS: Span = Span::from_secs(1);

/// Returns the time for which a submission may go on after its manager has ended.
pub(in crate::engine) fn last_words(settings: &Settings, spec: &PlatformSpec) -> Span {
    if spec.submits_late { LAST_WORDS.max(settings.submit_limit) } else { LAST_WORDS }
}
