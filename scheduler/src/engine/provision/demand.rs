//! The demand for pilots: how many pilots of a platform are there or on their way, and how many would find
//! work.

use crate::{
    engine::{
        dispatch::capacity::needed,
        interface::{platform::platform_spec::PlatformSpec, settings::Settings},
        live::{Live, platform::limits},
        state::{allocation::Allocation, durable::Durable, job::Job},
    },
    ids::PlatformId,
    resources::Resources,
    time::Time,
};

/// The most jobs that are looked at to find out how many pilots are wanted; any one of them may decide it.
pub(in crate::engine) const N_JOBS_LOOKED_AT: usize = 1000;

/// Returns how many pilots of a platform are there or may come, and how many of them have not come. A node
/// whose agent has not come long after the others of its allocation brings no pilot, unless each node has its
/// own place in the queue; an allocation that has been held for long brings none either. O(allocations
/// there), where allocations have several nodes.
pub(in crate::engine) fn n_pilots(
    settings: &Settings,
    durable: &Durable,
    live: &Live,
    (id, now): (PlatformId, Time),
) -> (usize, usize) {
    let allocation_counts = durable.allocation_counts(id);
    let given_up = live.given_up(durable, id);
    if durable.platforms().get(&id).is_none_or(|spec| spec.n_nodes == 1) {
        let n = given_up.len();
        return (allocation_counts.n_live.saturating_sub(n), allocation_counts.n_waiting.saturating_sub(n));
    }
    let is_array = durable.is_array(id);
    let is_overdue = |held: &Allocation| {
        let first = held.came.first().and_then(|pilot| durable.pilots().get(pilot));
        !is_array && first.is_some_and(|first| now.since(first.registered_at) >= settings.heartbeat_limit)
    };
    let live = durable.allocations_there(id).filter(|(id, held)| held.is_live() && !given_up.contains(id));
    live.map(|(_, held)| held).fold((0, 0), |(n_live, n_waiting), held| {
        let n_there = durable.live_pilots(held).len();
        let n_left = (held.n_nodes_there as usize).saturating_sub(n_there);
        let is_over = is_overdue(held) || durable.given_back(held).is_some();
        let n = if is_over { 0 } else { held.n_waiting().min(n_left) };
        (n_live + n_there + n, n_waiting + n)
    })
}

/// Returns how many pilots of the platform, up to `limit`, would find work beside the pilots that are at
/// work.
pub(in crate::engine) fn n_hypothetical(
    settings: &Settings,
    durable: &Durable,
    live: &Live,
    (platform, spec): (PlatformId, &PlatformSpec),
    limit: usize,
) -> usize {
    let outlives =
        |job: &Job| spec.walltime.is_none_or(|life| needed(job, life) + settings.walltime_margin <= life);
    let ready = live.ready.iter().take(N_JOBS_LOOKED_AT).filter_map(|id| {
        let (job, leases) = (durable.jobs().get(id)?, live.jobs.get(id)?);
        let n_ready = || leases.ready.len().min(limits::n_allowed(durable, live, platform, job));
        (!job.is_paused && outlives(job)).then(|| (&job.request.needs.resources, n_ready()))
    });
    n_with_work(ready.collect(), &durable.offered(platform), limit)
}

/// Returns how many pilots of this capacity, up to `limit`, find work among the ready tasks, given by their
/// needs and number. O(jobs²): the cost does not grow with tasks or pilots.
fn n_with_work(mut ready: Vec<(&Resources, u64)>, capacity: &Resources, limit: usize) -> usize {
    let mut n = 0;
    while n < limit {
        let mut free = capacity.clone();
        // The number of pilots that take the same tasks from each job, until one of the jobs runs out.
        let mut n_alike = (limit - n) as u64;
        let mut taken: Vec<u64> = Vec::with_capacity(ready.len());
        for (needs, n_ready) in &ready {
            let n_taken = needs.how_often_in(&free).min(*n_ready);
            free.take(needs, n_taken);
            taken.push(n_taken);
            n_alike = n_alike.min(n_ready.checked_div(n_taken).unwrap_or(u64::MAX));
        }
        if taken.iter().all(|n_taken| *n_taken == 0) {
            return n;
        }
        for ((_, n_ready), n_taken) in ready.iter_mut().zip(taken) {
            *n_ready -= n_taken.saturating_mul(n_alike);
        }
        ready.retain(|(_, n_ready)| *n_ready > 0);
        n += n_alike as usize;
    }
    limit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::n_with_work;
    use crate::resources::Resources;

    /// Counts one pilot after the other.
    fn counted(mut ready: Vec<(Resources, u64)>, capacity: &Resources, limit: usize) -> usize {
        let has_work = |_: &usize| {
            let mut free = capacity.clone();
            let mut has_work = false;
            for (needs, n_ready) in &mut ready {
                let n_taken = needs.how_often_in(&free).min(*n_ready);
                free.take(needs, n_taken);
                *n_ready -= n_taken;
                has_work |= n_taken > 0;
            }
            has_work
        };
        (0..limit).take_while(has_work).count()
    }

    proptest! {
        #[test]
        fn pilots_that_would_have_work_are_counted_as_one_by_one(
            jobs in prop::collection::vec((0..5u32, 0..4u64, 0..60u64), 0..6), cores in 0..9u32, limit in 0..80usize,
        ) {
            let needs = |(cores, memory_bytes, n_ready)| {
                (Resources { memory_bytes, ..Resources::cores(cores) }, n_ready)
            };
            let ready: Vec<(Resources, u64)> = jobs.into_iter().map(needs).collect();
            let capacity = Resources { memory_bytes: 7, ..Resources::cores(cores) };
            let n = n_with_work(ready.iter().map(|(needs, n)| (needs, *n)).collect(), &capacity, limit);
            prop_assert_eq!(n, counted(ready, &capacity, limit));
        }
    }
}
