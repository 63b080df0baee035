//! Large plans are computed in the background while the engine goes on.

use super::{
    sharing::{Two, of_user, took},
    *,
};
use crate::{
    engine::{
        interface::planning::PlanAnswer,
        live::plan::{in_force::Plan, quota::QuotaPlace},
        plan::input::PlanInput,
    },
    policy::{Policies, allocation::Allocation, distribution::Distribution},
};

/// Returns two platforms without plans computed at once; each is four times as fast with one of two
/// applications.
fn asking(allocation: Option<Allocation>) -> Two {
    let distribution = Some(Distribution::Adaptive);
    let mut two = Two::new(Policies { allocation, distribution, ..Policies::default() });
    two.scene.engine.settings.cells_at_once = 0;
    two.scene.wait(2);
    two
}

impl Scene {
    fn questions(&self) -> Vec<PlanInput> {
        let asked = self.effects.iter().filter_map(|effect| match effect {
            Effect::Plan(request) => request.input::<PlanInput>().cloned(),
            _ => None,
        });
        asked.collect()
    }

    /// Returns the plan input of the last request, or of the next one.
    fn question(&mut self) -> PlanInput {
        for _ in 0..100 {
            if let Some(asked) = self.questions().pop() {
                return asked;
            }
            self.now = self.engine.next_wakeup().expect("it is to be asked at some time").max(self.now);
            self.say(|_| Event::TimerFired);
        }
        panic!("nothing is asked");
    }

    fn answer_next(&mut self) {
        let plan = self.question().plan();
        self.planned(plan);
    }

    fn planned(&mut self, plan: Plan) {
        self.say(|_| Event::Planned { plan: PlanAnswer::new(plan) });
    }

    fn n_left(&self, job: JobId) -> u64 {
        match self.engine.live.jobs[&job].divided {
            QuotaPlace::In(row) => self.engine.live.plan.quotas.rows[row].n_left(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_came_since_waits_for_the_next_answer_and_all_else_goes_on() {
    let mut two = asking(None);
    let first = two.scene.submit(of_user("ada", "docking", 100));
    two.scene.answer_next();
    two.scene.take(two.pilots[0]);
    assert_eq!(two.held(0, first).len(), 4);
    let second = two.scene.submit(of_user("ada", "search", 100));
    let question = two.scene.question();
    let third = two.scene.submit(of_user("ada", "search", 100));
    assert!(two.scene.questions().is_empty(), "one at a time");
    took(&mut two.scene, two.pilots[0], first, "0", 1);
    assert_eq!(two.held(0, first).len(), 4, "by what was said before");
    assert_eq!(two.scene.engine.live.jobs[&second].divided, QuotaPlace::NotYet, "nobody has said for whom");
    two.scene.planned(question.plan());
    two.scene.take(two.pilots[1]);
    assert_eq!((two.held(1, second).len(), two.held(1, third).len()), (4, 0));
    assert_eq!(two.scene.engine.live.jobs[&third].divided, QuotaPlace::NotYet);
    two.scene.answer_next();
    assert_eq!(two.scene.n_left(third), 196);
}

#[test]
fn what_was_taken_meanwhile_is_not_meant_for_anybody_any_more() {
    let mut two = asking(None);
    let id = two.scene.submit(of_user("ada", "docking", 100));
    two.scene.answer_next();
    let question = two.scene.question();
    assert_eq!(two.scene.take(two.pilots[0]).len(), 1);
    took(&mut two.scene, two.pilots[0], id, "0-3", 1);
    two.scene.planned(question.plan());
    let n_ready = two.scene.engine.live.jobs[&id].ready.len();
    assert_eq!((n_ready, two.scene.n_left(id)), (92, 92));
}

#[test]
fn cores_that_stand_for_more_since_are_not_forgotten() {
    let mut two = asking(None);
    two.scene.engine.settings.policies.distribution = Some(Distribution::Adaptive2016);
    let id = two.scene.submit(of_user("ada", "docking", 100));
    let question = two.scene.question();
    let platform = two.scene.engine.durable.pilots()[&two.pilots[1]].platform;
    two.scene.engine.live.note_raised(platform);
    let weight = |plan: &Plan| {
        let law = plan.quotas.law.as_ref().expect("it has a state");
        law.law.matrix().row(0).shares()[plan.quotas.column(platform).expect("it takes part")]
    };
    let without = question.plan();
    two.scene.planned(without.clone());
    assert!(weight(&two.scene.engine.live.plan) > weight(&without), "job {id}");
}

#[test]
fn an_answer_to_other_policies_counts_nothing() {
    let mut two = asking(Some(Allocation::PaRr { unit_cores: 1 }));
    two.scene.submit(of_user("ada", "docking", 100));
    let question = two.scene.question();
    let before = two.scene.engine.settings.policies;
    let policies = Policies { allocation: None, ..before };
    two.scene.say(|request| Event::PoliciesAsked { request, by: "olga".into(), before, policies });
    let anew = two.scene.question();
    let late = question.plan();
    assert!(late.has_shares());
    two.scene.planned(late);
    assert!(!two.scene.engine.live.plan.has_shares());
    assert!(two.scene.engine.live.plan.made_at.is_none());
    two.scene.planned(anew.plan());
    assert!(two.scene.engine.live.plan.made_at.is_some());
}

#[test]
fn what_is_not_answered_is_asked_again_and_the_first_answer_counts() {
    let mut two = asking(None);
    let id = two.scene.submit(of_user("ada", "docking", 100));
    let lost = two.scene.question();
    two.scene.wait(59);
    assert!(two.scene.questions().is_empty());
    two.scene.wait(1);
    let again = two.scene.question();
    two.scene.planned(lost.plan());
    assert_eq!(two.scene.n_left(id), 100, "it was only late");
    two.scene.take(two.pilots[0]);
    two.scene.planned(again.plan());
    assert_eq!(two.scene.n_left(id), 96, "answered already");
}

#[test]
fn what_was_paused_and_goes_on_is_divided_at_once() {
    let mut two = asking(None);
    let id = two.scene.submit(of_user("ada", "docking", 100));
    let question = two.scene.question();
    two.scene.change(id, JobChange::Pause);
    two.scene.planned(question.plan());
    assert_eq!(two.scene.engine.live.jobs[&id].divided, QuotaPlace::NotYet);
    two.scene.answer_next();
    two.scene.change(id, JobChange::Resume);
    let resumed_at = two.scene.now;
    two.scene.answer_next();
    assert_eq!(two.scene.n_left(id), 100);
    assert!(two.scene.now <= resumed_at + Span::from_secs(1));
}
