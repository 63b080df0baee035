//! The changes of weights and their causes. The store keeps them.

use crate::{
    engine::{
        interface::views::weights::{KindView, WeightCause, WeightChange, WeightView},
        live::plan::quota::{ClassQuota, QuotaCell, QuotaTable},
        record::weight_policy::{TaskClass, WeightPolicyState},
        state::weight_log::WeightLog,
    },
    ids::PlatformId,
    policy::distribution::Weights,
    time::{Span, Time},
};

/// Weights that move by less in total have not changed.
const LEAST_MOVE: f64 = 0.05;

/// The least time between two records of the weights of a task class, and of a policy's state.
const EVERY: Span = Span::from_secs(5);

/// Runtimes (relative) and error rates that differ by less are no cause.
const LEAST_CAUSE: f64 = 0.05;

/// The last recorded weights.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// The weights of each task class that has some, with their platforms and the time of the record.
    kinds: Vec<(TaskClass, Weights, Vec<PlatformId>, Time)>,
    law_at: Option<Time>,
}

impl Noted {
    /// Returns the differences from the last recorded weights. `name`: returns the name of a platform.
    pub fn moves(
        &mut self,
        log: &WeightLog,
        quotas: &QuotaTable,
        now: Time,
        name: &dyn Fn(PlatformId) -> String,
    ) -> Vec<WeightChange> {
        let noted = std::mem::take(&mut self.kinds);
        let mut changes = Vec::new();
        for row in &quotas.rows {
            let known = noted.iter().find(|(kind, ..)| *kind == row.kind);
            // The last record from before the manager's start.
            let written = if known.is_none() { log.last_of(&row.kind) } else { None };
            let before = |column: usize| {
                let id = quotas.platforms[column];
                match known {
                    Some((_, weights, platforms, _)) => {
                        let place = platforms.iter().position(|held| *held == id)?;
                        weights.shares().get(place).copied()
                    }
                    None => Some(find(&written?.kind, &name(id))?.weight),
                }
            };
            let at = known.map(|(.., at)| *at).or(written.map(|change| change.at));
            let is_change = at.is_none_or(|at| now.since(at) >= EVERY && has_moved(row, &before));
            if is_change {
                let mut kind = view(quotas, row, now, name);
                kind.platforms.iter_mut().enumerate().for_each(|(n, one)| one.before = before(n));
                let causes = causes(log.last_of(&row.kind), &kind, quotas, name);
                changes.push(WeightChange { at: now, kind, causes });
            }
            match known {
                _ if is_change => {
                    let (kind, weights) = (row.kind.clone(), row.weights.clone());
                    self.kinds.push((kind, weights, quotas.platforms.clone(), now));
                }
                Some(known) => self.kinds.push(known.clone()),
                // The log has them.
                None => {}
            }
        }
        changes
    }

    /// Returns the policy's state, if it must be recorded now: later states are recomputed from the jobs
    /// since. Also returns the time at which it must be recorded, if not now.
    pub fn law<'q>(
        &mut self,
        log: &WeightLog,
        quotas: &'q QuotaTable,
        now: Time,
    ) -> (Option<&'q WeightPolicyState>, Option<Time>) {
        let is_news = |law: &&WeightPolicyState| !law.kinds.is_empty() && log.law() != Some(*law);
        let Some(law) = quotas.law.as_ref().filter(is_news) else { return (None, None) };
        let due_at = self.law_at.map_or(now, |at| at + EVERY);
        if due_at > now {
            return (None, Some(due_at));
        }
        self.law_at = Some(now);
        (Some(law), None)
    }
}

fn has_moved(row: &ClassQuota, before: &dyn Fn(usize) -> Option<f64>) -> bool {
    let shares = row.weights.shares().iter().enumerate();
    let moved: f64 = shares.map(|(n, share)| (share - before(n).unwrap_or(0.0)).abs()).sum();
    moved / 2.0 >= LEAST_MOVE
}

fn find<'v>(kind: &'v KindView, platform: &str) -> Option<&'v WeightView> {
    kind.platforms.iter().find(|one| one.platform == platform)
}

/// Returns the numbers behind the new weights that differ from those of the last change.
pub(in crate::engine) fn causes(
    last: Option<&WeightChange>,
    kind: &KindView,
    quotas: &QuotaTable,
    name: &dyn Fn(PlatformId) -> String,
) -> Vec<WeightCause> {
    let Some(last) = last.map(|change| &change.kind) else { return vec![WeightCause::First] };
    let names = |kind: &KindView| kind.platforms.iter().map(|one| one.platform.clone()).collect::<Vec<_>>();
    if names(last) != names(kind) {
        return vec![WeightCause::Platforms { before: names(last) }];
    }
    let mut causes = Vec::new();
    for (before, now) in last.platforms.iter().zip(&kind.platforms) {
        let platform = || now.platform.clone();
        if before.n_slots != now.n_slots {
            causes.push(WeightCause::Slots { platform: platform(), before: before.n_slots });
        }
        let is_guessed_otherwise = now.mean.is_none() && is_other_time(before.guess, now.guess);
        if is_other_time(before.mean, now.mean) || is_guessed_otherwise {
            let (before, guessed) = (before.mean, before.guess);
            causes.push(WeightCause::Mean { platform: platform(), before, guessed });
        }
        if (before.error_rate - now.error_rate).abs() >= LEAST_CAUSE {
            causes.push(WeightCause::Errors { platform: platform(), before: before.error_rate });
        }
    }
    if let Some(state) = &quotas.law {
        let queued = state.platforms.iter().map(|id| name(*id)).zip(state.queued.iter().copied()).collect();
        causes.push(WeightCause::Load { queued, threshold: state.law.threshold() });
    } else if last.n_ready != kind.n_ready {
        causes.push(WeightCause::Work { before: last.n_ready });
    }
    causes
}

fn is_other_time(before: Option<Span>, now: Option<Span>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => {
            let (before, now) = (before.as_secs_f64(), now.as_secs_f64());
            (before - now).abs() >= LEAST_CAUSE * before.max(now)
        }
        (before, now) => before != now,
    }
}

pub(in crate::engine) fn view(
    quotas: &QuotaTable,
    row: &ClassQuota,
    now: Time,
    name: &dyn Fn(PlatformId) -> String,
) -> KindView {
    let cells = row.cells.iter().zip(row.weights.shares()).zip(&quotas.platforms);
    let platform = |((cell, weight), id): ((&QuotaCell, &f64), &PlatformId)| WeightView {
        platform: name(*id),
        weight: *weight,
        before: None,
        n_left: cell.n_left,
        n_slots: cell.n_slots,
        mean: cell.runtime_s.map(Span::from_secs_f64),
        is_declared: cell.is_declared,
        guess: cell.guess_s.map(Span::from_secs_f64),
        error_rate: cell.error_rate,
        rate: cell.rate(),
        is_late: cell.is_late(now),
    };
    KindView {
        application: row.kind.application.clone(),
        needs: row.kind.needs.clone(),
        n_ready: row.n_left(),
        platforms: cells.map(platform).collect(),
    }
}
