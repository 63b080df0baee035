//! `explain` of the policies: weights, fair shares, placement and node mixes.

use crate::{
    engine::{
        dispatch::candidate::cores_of,
        interface::refusal::Refusal,
        live::{
            plan::quota::{ClassQuota, Entitlement, QuotaCell, QuotaPlace},
            platform::limits::held_there,
        },
        provision::placement::{PlacementProblem, Prospect},
        read::views::Reader,
        state::{allocation::Allocation, job::Job},
    },
    explain::Reason,
    ids::{AllocationId, JobId, PilotId, PlatformId},
    policy::{allocation, none_or},
    time::Span,
};

/// Number of moves of weights that are shown.
const N_MOVES: usize = 5;

impl Reader<'_> {
    /// Returns the weights of an application: their values, the numbers behind them, and their last moves.
    pub(in crate::engine) fn explain_weight(&self, application: &str) -> Result<Vec<Reason>, Refusal> {
        let quotas = &self.live.plan.quotas;
        let rows: Vec<&ClassQuota> =
            quotas.rows.iter().filter(|row| row.kind.application == application).collect();
        let is_known = self.durable.jobs().values().any(|job| job.request.application == application)
            || self.profiles().iter().any(|profile| profile.application == application);
        if rows.is_empty() {
            let none = Reason::NoWeights { policy: self.distribution().to_owned() };
            let all = [none].into_iter().chain(self.moves_of(application)).collect();
            return if is_known { Ok(all) } else { Err(Refusal::NoProfile(application.to_owned())) };
        }
        let mut reasons = Vec::new();
        for row in rows {
            reasons.push(self.weights_of(row));
            for ((cell, weight), id) in row.cells.iter().zip(row.weights.shares()).zip(&quotas.platforms) {
                reasons.push(Reason::WeightOf {
                    platform: self.durable.platform_name(*id),
                    weight: *weight,
                    n_slots: cell.n_slots,
                    mean: cell.runtime_s.map(Span::from_secs_f64),
                    is_declared: cell.is_declared,
                    guess: cell.guess_s.map(Span::from_secs_f64),
                    error_rate: cell.error_rate,
                });
                reasons.extend(self.declared_off(application, *id));
                reasons.extend(self.left_to_others(row, *id, cell));
            }
        }
        reasons.extend(self.moves_of(application));
        Ok(reasons)
    }

    /// Returns the profiling run to which a job belongs, and its platform.
    pub(in crate::engine) fn profiling_of(&self, id: JobId) -> Option<(PlatformId, Reason)> {
        let platform = self.live.jobs.get(&id)?.profiled_on?;
        let run = self.live.profiling.get(&platform)?;
        let jobs = vec![(id, run.slots().get(&id).copied()?)];
        let reason =
            Reason::Profiling { platform: self.durable.platform_name(platform), pilot: run.pilot(), jobs };
        Some((platform, reason))
    }

    /// Returns the profiling run that has a pilot's node.
    pub(in crate::engine) fn profiling_at(&self, id: PilotId, platform: PlatformId) -> Option<Reason> {
        let run = self.live.profiling_at(id)?;
        let jobs = run.slots().iter().map(|(job, n_slots)| (*job, *n_slots)).collect();
        Some(Reason::Profiling { platform: self.durable.platform_name(platform), pilot: Some(id), jobs })
    }

    fn moves_of(&self, application: &str) -> Vec<Reason> {
        let changes = self.durable.weights().changes();
        let moves = changes.rev().filter(|change| change.kind.application == application);
        let moves = moves.flat_map(|change| {
            let ago = self.now.since(change.at);
            change.kind.platforms.iter().filter_map(move |one| {
                let before = one.before.filter(|before| (before - one.weight).abs() >= 0.005)?;
                Some(Reason::WeightMoved { ago, platform: one.platform.clone(), before, weight: one.weight })
            })
        });
        moves.take(N_MOVES).collect()
    }

    fn distribution(&self) -> &'static str {
        none_or::to_word(self.durable.policies(self.settings.policies).distribution)
    }

    fn weights_of(&self, row: &ClassQuota) -> Reason {
        let cells = row.cells.iter().zip(row.weights.shares()).zip(&self.live.plan.quotas.platforms);
        Reason::Weights {
            application: row.kind.application.clone(),
            policy: self.distribution().to_owned(),
            weights: cells
                .map(|((cell, weight), id)| (self.durable.platform_name(*id), *weight, cell.n_left))
                .collect(),
        }
    }

    /// Returns the declared runtime of an application there, if it was far off.
    fn declared_off(&self, application: &str, id: PlatformId) -> Option<Reason> {
        let platform = self.durable.platform_name(id);
        let known = self.durable.facts().known(id, application);
        let (declared, measured) = known.off(&platform)?;
        Some(Reason::DeclaredOff {
            platform,
            declared: Span::from_secs_f64(declared),
            measured: Span::from_secs_f64(measured),
            times: (declared / measured).max(measured / declared),
            n_measured: known.measured.map_or(0, |known| known.n_done),
        })
    }

    /// Returns why a platform takes no tasks of a class, if it takes none.
    fn left_to_others(&self, row: &ClassQuota, platform: PlatformId, cell: &QuotaCell) -> Option<Reason> {
        if cell.is_shunned && !cell.is_late(self.now) {
            return Some(Reason::FailsThere {
                platform: self.durable.platform_name(platform),
                error_rate: cell.error_rate,
                tried: cell.tried_at.map(|at| self.now.since(at)),
            });
        }
        // The decision was made by the time to a success.
        let own = cell.success_s().filter(|_| cell.is_late(self.now))?;
        let others = row.cells.iter().filter(|cell| cell.n_slots > 0).filter_map(QuotaCell::success_s);
        Some(Reason::LeftToOthers {
            platform: self.durable.platform_name(platform),
            takes: Span::from_secs_f64(own),
            others_begin: Span::from_secs_f64(self.live.plan.quotas.last_end_s),
            others_take: Span::from_secs_f64(others.reduce(f64::min)?),
        })
    }

    /// Returns the fair shares and quotas that apply to a waiting job.
    pub(in crate::engine) fn why_there(&self, id: JobId, job: &Job) -> Vec<Reason> {
        let plan = &self.live.plan;
        let policy = allocation::words::to_word(self.durable.policies(self.settings.policies).allocation);
        let share = |id: &PlatformId| {
            Some(Reason::ShareOf {
                platform: self.durable.platform_name(*id),
                user: job.request.user.clone(),
                policy: policy.clone(),
                cores: plan.share(*id, &job.request.user)?,
                held: self.held_on(*id, &job.request.user),
            })
        };
        let mut reasons: Vec<Reason> = self.durable.platforms().keys().filter_map(share).collect();
        let divided = self.live.jobs.get(&id).map(|leases| leases.divided);
        if let Some(QuotaPlace::In(row)) = divided
            && let Some(row) = plan.quotas.rows.get(row)
        {
            reasons.push(self.weights_of(row));
            let leases = self.live.jobs.get(&id);
            let takes_none = |column: usize| {
                leases.is_some_and(|leases| {
                    leases.meant(&plan.quotas, Some(column), self.now) == Entitlement::Nothing
                })
            };
            let cells = row.cells.iter().zip(&plan.quotas.platforms).enumerate();
            let closed = cells.filter(|(column, _)| takes_none(*column));
            reasons.extend(closed.filter_map(|(_, (cell, id))| self.left_to_others(row, *id, cell)));
        }
        reasons
    }

    /// Returns how many allocations the placement policy requests from a platform now, and the numbers that
    /// it compares; `None` without a policy.
    pub(in crate::engine) fn placed(&self, platform: PlatformId) -> Option<(u64, Vec<Reason>)> {
        let policy = self.durable.policies(self.settings.policies).placement?;
        let floor = PlacementProblem::of(self.settings, self.durable, self.live, self.now);
        let reason = |one: Prospect| Reason::PlacedWith {
            policy: none_or::to_word(Some(policy)).to_owned(),
            platform: self.durable.platform_name(one.platform),
            wait: Span::from_secs_f64(one.wait_s),
            n_waits: self.durable.waits(one.platform).n,
            load: self.live.load(one.platform, self.now),
            mean_end: one.with.mean_end(),
            mean_end_without: one.without.mean_end(),
        };
        let mut compared = floor.outlooks();
        // The platform in question comes first.
        compared.sort_by_key(|one| one.platform != platform);
        let n_wanted = floor.place(policy).get(&platform).copied().unwrap_or(0);
        Some((n_wanted, compared.into_iter().map(reason).collect()))
    }

    /// Returns the applications for which a pilot's node is meant, and their runtimes beside each other.
    pub(in crate::engine) fn meant_for(&self, pilot: PilotId, platform: PlatformId) -> Option<Reason> {
        let mix = self.live.plan.nodes.mix(pilot)?;
        let part = |(application, cores): (&String, &u64)| {
            let others: Vec<&str> =
                mix.keys().filter(|other| *other != application).map(String::as_str).collect();
            let takes = self.durable.neighbours().measured_s(platform, application, &others);
            (application.clone(), *cores, takes.map(Span::from_secs_f64))
        };
        let policy = none_or::to_word(self.durable.policies(self.settings.policies).mapping).to_owned();
        Some(Reason::NodeMeantFor { policy, parts: mix.iter().map(part).collect() })
    }

    /// Returns the cores of a platform that a user's tasks hold.
    fn held_on(&self, platform: PlatformId, user: &str) -> u64 {
        let held = held_there(self.durable, self.live, platform, user);
        let cores = held.map(|(job, n_tasks)| cores_of(self.settings, job, n_tasks));
        cores.fold(0, u64::saturating_add)
    }

    /// Returns the state of an allocation, and the reasons for it.
    pub(in crate::engine) fn explain_allocation(&self, id: AllocationId) -> Result<Vec<Reason>, Refusal> {
        let held: &Allocation = self.durable.allocations().get(&id).ok_or(Refusal::UnknownAllocation(id))?;
        let view = self.allocation(id, held);
        let since = view.ended_at.or(view.pilot_at).or(view.accepted_at).unwrap_or(view.asked_for_at);
        let mut reasons = vec![Reason::Allocated {
            state: view.state,
            platform: view.platform.clone(),
            since: self.now.since(since),
            cores: view.cores.into(),
            n_nodes: view.n_nodes,
            why: view.why,
        }];
        if let Some(because) = &held.because {
            let asked_ago = self.now.since(held.intended_at);
            reasons.push(Reason::AskedFor { ago: asked_ago, because: (**because).clone() });
        }
        if held.is_live() {
            reasons.extend(self.explain_platform(&view.platform)?);
        }
        Ok(reasons)
    }
}
