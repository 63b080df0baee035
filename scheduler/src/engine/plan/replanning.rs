//! Replanning: decides when a new plan is due, and puts it in place. Small plan inputs are planned at once;
//! large ones by the code that performs effects, and no pull waits for that.

use std::collections::BTreeMap;

use crate::{
    engine::{
        interface::{
            effect::Effect,
            planning::{PlanAnswer, PlanRequest},
        },
        live::{
            Live,
            plan::{in_force::Plan, quota::QuotaPlace, schedule::Pending},
            platform::limits,
            timers::Timer,
        },
        plan::input::PlanInput,
        record::Record,
        state::durable::Durable,
        turn::Turn,
    },
    ids::{JobId, PlatformId},
    policy::Policies,
    time::{Span, Time},
};

/// A plan is replaced after this time at the latest, to take in new measurements.
const LASTS_AT_MOST: Span = Span::from_secs(30);

/// A plan that has not come after this time is requested again.
const ANSWER_LIMIT: Span = Span::from_secs(60);

/// Returns whether these policies need a plan. Quotas need at least two platforms.
fn is_needed(policies: &Policies, n_platforms: usize) -> bool {
    policies.allocation.is_some()
        || policies.mapping.is_some()
        || policies.matching.by_application().is_some()
        || policies.distribution.is_some() && n_platforms > 1
}

impl Live {
    fn want_plan(&mut self, policies: &Policies, now: Time) {
        if let Some(pending) = &mut self.plan_schedule.pending {
            pending.is_wanted_anew = true;
        } else if is_needed(policies, self.platforms.len()) {
            let plan = &self.plan;
            self.arm_plan(plan.made_at.map_or(now, |made_at| (made_at + plan.lasts).max(now)));
        }
    }

    /// Returns whether other users have ready tasks than when the plan was made. O(jobs with ready tasks).
    fn queued_are_others(&self) -> bool {
        let mut queued = vec![false; self.plan.queued.len()];
        for leases in self.ready.iter().filter_map(|id| self.jobs.get(id)) {
            match leases.user.and_then(|user| queued.get_mut(user)) {
                Some(is_queued) => *is_queued = true,
                None => return true,
            }
        }
        queued != self.plan.queued
    }

    /// Notes that a pilot of the platform has taken tasks of the job.
    pub fn take_quota(&mut self, platform: PlatformId, job: JobId, n_tasks: u64, now: Time) {
        if let Some(pending) = &mut self.plan_schedule.pending {
            let taken = pending.taken.entry((platform, job)).or_default();
            *taken = taken.saturating_add(n_tasks);
        }
        let Some(leases) = self.jobs.get_mut(&job) else { return };
        match (leases.divided, self.plan.quotas.column(platform)) {
            (QuotaPlace::In(row), Some(column)) => {
                // A platform that only takes over from others does not end the wait for them.
                if self.plan.quotas.is_open(column, row, now) {
                    leases.waits_since = None;
                }
                self.plan.quotas.take(column, row, n_tasks);
            }
            (QuotaPlace::Left, _) => leases.waits_since = None,
            _ => {}
        }
    }

    /// Notes that a core of the platform stands for more vCPUs than before.
    pub fn note_raised(&mut self, platform: PlatformId) {
        self.plan.quotas.note_raised(platform);
        if let Some(pending) = &mut self.plan_schedule.pending {
            pending.raised.push(platform);
        }
    }

    /// Drops the plan of earlier policies, and a plan that is still to come.
    pub fn drop_guide(&mut self) {
        self.plan = Plan::default();
        self.jobs.values_mut().for_each(|leases| leases.user = None);
        self.plan_schedule.pending = None;
        self.disarm_plan();
    }

    fn disarm_plan(&mut self) {
        if let Some(due_at) = self.plan_schedule.due_at.take() {
            self.timers.remove(&(due_at, Timer::Replan));
        }
    }

    fn arm_plan(&mut self, at: Time) {
        if self.plan_schedule.due_at.is_none_or(|due_at| at < due_at) {
            if let Some(due_at) = self.plan_schedule.due_at.replace(at) {
                self.timers.remove(&(due_at, Timer::Replan));
            }
            self.timers.insert((at, Timer::Replan));
        }
    }

    /// Sets the place of each job in the quota table, and since when its ready tasks wait.
    fn note_places(&mut self, durable: &Durable, places: Vec<(JobId, QuotaPlace)>, now: Time) {
        let mut places = places.into_iter().peekable();
        let over_budget = limits::over_budget(durable);
        for (id, leases) in &mut self.jobs {
            while places.next_if(|(place, _)| place < id).is_some() {}
            let user = durable.jobs().get(id).map(|job| job.request.user.as_str());
            leases.user = user.and_then(|user| self.plan.place_of(user));
            let Some((_, divided)) = places.next_if(|(place, _)| place == id) else { continue };
            let is_paused = durable.jobs().get(id).is_none_or(|job| job.is_paused);
            leases.divided = if is_paused { QuotaPlace::NotYet } else { divided };
            leases.over_budget = user.and_then(|user| over_budget.get(user)).cloned().unwrap_or_default();
            leases.waits_since = match leases.divided {
                _ if leases.ready.is_empty() => None,
                QuotaPlace::In(_) => leases.waits_since.or(Some(now)),
                // Without quotas no job starts to wait for certain platforms; platforms come and go.
                QuotaPlace::Left => leases.waits_since,
                QuotaPlace::NotYet => None,
            };
        }
    }

    /// Returns when the next job that is withheld from some platform becomes open to all platforms.
    fn next_given_up(&self, now: Time) -> Option<Time> {
        let free_at = self.jobs.values().filter_map(|leases| {
            let QuotaPlace::In(row) = leases.divided else { return None };
            let row = self.plan.quotas.rows.get(row)?;
            let is_kept = row.cells.iter().any(|cell| cell.begin_by.is_some() || cell.is_shunned);
            leases.waits_since.filter(|_| is_kept).map(|since| since + row.patience)
        });
        free_at.filter(|at| *at > now).min()
    }
}

impl Turn<'_> {
    /// Requests a new plan, because its input has changed.
    pub(in crate::engine) fn want_plan(&mut self) {
        self.live.want_plan(&self.policies(), self.now);
    }

    /// Requests a new plan if other users have ready tasks now: a user without ready tasks has no fair share,
    /// and gets one again with the next ready task (paper 000, section 5.3).
    pub(in crate::engine) fn note_queues(&mut self) {
        let may_differ = std::mem::take(&mut self.live.plan_schedule.queues_changed);
        if may_differ && self.policies().allocation.is_some() && self.live.queued_are_others() {
            self.want_plan();
        }
    }

    /// Requests a plan now, if none has been requested since the manager started.
    pub(in crate::engine) fn guide_first(&mut self) {
        let is_first = self.live.plan_schedule.n_asked == 0;
        if is_first && is_needed(&self.policies(), self.live.platforms.len()) {
            self.live.disarm_plan();
            self.renew_plan();
        }
    }

    /// Takes a new plan input and has it planned.
    pub(in crate::engine) fn renew_plan(&mut self) {
        let plan_schedule = &mut self.live.plan_schedule;
        plan_schedule.due_at = None;
        // An unanswered request is repeated with the same number; the first plan that comes counts.
        let number =
            plan_schedule.pending.as_ref().map_or(plan_schedule.n_asked + 1, |pending| pending.number);
        plan_schedule.n_asked = number;
        let (taken, raised) = (BTreeMap::new(), Vec::new());
        plan_schedule.pending.get_or_insert(Pending { number, taken, raised, is_wanted_anew: false });
        let question = PlanInput::of(self.durable, self.live, self.policies(), number);
        if question.n_cells() <= self.settings.cells_at_once {
            self.take_plan(question.plan());
        } else {
            self.step.effects.push(Effect::Plan(PlanRequest::new(question)));
            self.live.arm_plan(self.now + ANSWER_LIMIT);
        }
    }

    /// Puts a plan in place that has been computed elsewhere.
    pub(in crate::engine) fn planned(&mut self, answer: PlanAnswer) {
        if let Some(plan) = answer.plan() {
            self.take_plan(plan);
        }
    }

    fn take_plan(&mut self, mut plan: Plan) {
        let live = &mut *self.live;
        let Some(pending) = live.plan_schedule.pending.take_if(|pending| pending.number == plan.number)
        else {
            return;
        };
        live.disarm_plan();
        let places = std::mem::take(&mut plan.places);
        let is_of_use = plan.is_of_use;
        live.plan = plan;
        live.note_places(self.durable, places, self.now);
        for ((platform, job), n_tasks) in pending.taken {
            live.take_quota(platform, job, n_tasks, self.now);
        }
        pending.raised.into_iter().for_each(|platform| live.plan.quotas.note_raised(platform));
        let name = |id| self.durable.platforms().get(&id).map_or_else(String::new, |spec| spec.name.clone());
        let (log, quotas) = (self.durable.weights(), &live.plan.quotas);
        let changes = live.weights.moves(log, quotas, self.now, &name);
        let (law, law_due_at) = live.weights.law(log, quotas, self.now);
        let law = law.cloned();
        if !changes.is_empty() || law.is_some() {
            self.record(Record::WeightsMoved { changes, law, at: self.now });
        }
        let live = &mut *self.live;
        if is_of_use {
            let soonest = self.now + live.plan.lasts;
            let due_at = live.plan.quotas.due_at.into_iter().chain(live.next_given_up(self.now)).min();
            let due_at = due_at.into_iter().chain(law_due_at).min();
            let latest = self.now + LASTS_AT_MOST;
            live.arm_plan(due_at.map_or(latest, |at| at.max(soonest).min(latest)));
        }
        if pending.is_wanted_anew {
            self.want_plan();
        }
        self.live.stir_all();
    }
}
