//! The first job of a shortlist is the first among all jobs.

use proptest::prelude::*;

use super::{
    sharing::{Two, of_user, took},
    *,
};
use crate::engine::dispatch::{
    capacity::PilotCapacity, serve::choices, shortlist::shortlist, usage::PlatformUsage,
};
use crate::policy::{
    Policies, allocation::Allocation, distribution::Distribution, mapping::Mapping, matching::Matching,
    none_or::Worded,
};

impl Two {
    /// Returns the best ready job for a pilot, among all and on the shortlist, if there is one.
    fn best(&self, place: usize) -> (Option<JobId>, Option<Option<JobId>>) {
        let Engine { settings, durable, live } = &self.scene.engine;
        let id = self.pilots[place];
        let offer = PilotCapacity::new(settings, durable, live, self.scene.now, id).expect("a live pilot");
        let here = PlatformUsage::of(settings, (durable, live), offer.pilot.platform, id);
        let best = |jobs: &mut dyn Iterator<Item = JobId>| {
            let choices = choices(settings, (&offer, &here), (durable, live), id, jobs);
            let at = offer.policies.matching.choose(choices.iter().map(|choice| &choice.candidate));
            at.map(|at| choices[at].candidate.job)
        };
        let list = shortlist(&offer, &here, live);
        (best(&mut live.ready.iter().copied()), list.map(|jobs| best(&mut jobs.into_iter())))
    }
}

#[derive(Clone, Debug)]
enum Act {
    Submit { user: u8, application: u8, n_tasks: u64, priority: i32 },
    Take(usize),
    Finish(usize),
    Wait(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => (0..3_u8, 0..3_u8, 1..30_u64, 0..2_i32).prop_map(|(user, application, n_tasks, priority)| {
            Act::Submit { user, application, n_tasks, priority }
        }),
        4 => (0..2_usize).prop_map(Act::Take),
        4 => (0..2_usize).prop_map(Act::Finish),
        1 => (0..3_u64).prop_map(Act::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_best_of_the_list_is_the_best_of_all(
        is_shared in any::<bool>(),
        is_adaptive in any::<bool>(),
        mapping in prop::option::of(prop::sample::select(Mapping::POLICIES)),
        first in prop::collection::vec((0..3_u8, 0..3_u8, 1..12_u64, Just(0)), 8..16),
        acts in prop::collection::vec(act(), 1..60),
    ) {
        let allocation = is_shared.then_some(Allocation::PaRr { unit_cores: 1 });
        let law = if is_adaptive { Distribution::Adaptive } else { Distribution::CoreBased };
        let (distribution, matching) = (Some(law), Matching::Alstb);
        let mut two = Two::new(Policies { allocation, distribution, matching, mapping, ..Policies::default() });
        let first = first.into_iter().map(|(user, application, n_tasks, priority)| {
            Act::Submit { user, application, n_tasks, priority }
        });
        for act in first.chain([Act::Wait(1)]).chain(acts) {
            match act {
                Act::Submit { user, application, n_tasks, priority } => {
                    let (user, application) = (["ada", "bob", "cyd"][usize::from(user)], application);
                    let application = ["docking", "search", "folding"][usize::from(application)];
                    let request = JobRequest { priority, priority_over_all: user == "ada", ..of_user(user, application, n_tasks) };
                    two.scene.submit(request);
                }
                Act::Take(place) => _ = two.scene.take(two.pilots[place]),
                Act::Finish(place) => {
                    let jobs: Vec<JobId> = two.scene.engine.live.jobs.keys().copied().collect();
                    for job in jobs {
                        let held = two.held(place, job).to_string();
                        if !held.is_empty() {
                            took(&mut two.scene, two.pilots[place], job, &held, 1);
                        }
                    }
                }
                Act::Wait(seconds) => two.scene.wait_awake(seconds),
            }
            for place in [0, 1] {
                let (best, listed) = two.best(place);
                if let Some(listed) = listed {
                    prop_assert_eq!(listed, best);
                }
            }
        }
    }
}
