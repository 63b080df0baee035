//! With thousands of ready jobs, a pull compares only a few: those that come first among all.

use super::*;
use crate::engine::{
    dispatch::{capacity::PilotCapacity, serve::choices, usage::PlatformUsage},
    live::ready::queue::first_in_line,
};
use crate::policy::matching::Matching;

/// Number of bundles of an answer.
const N_BUNDLES: usize = 16;

/// A reproducible pseudo-random generator (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Returns the first jobs for a pilot, best first: from the line, if there is one, and from all jobs.
fn first(scene: &Scene, id: PilotId) -> (Option<Vec<JobId>>, Vec<JobId>) {
    let Engine { settings, durable, live } = &scene.engine;
    let offer = PilotCapacity::new(settings, durable, live, scene.now, id).expect("a live pilot");
    let here = PlatformUsage::of(settings, (durable, live), offer.pilot.platform, id);
    let kept = live.pilots[&id].reservation;
    let best = |jobs: &mut dyn Iterator<Item = JobId>| {
        let mut choices = choices(settings, (&offer, &here), (durable, live), id, jobs);
        let mut first = Vec::new();
        while first.len() < N_BUNDLES
            && let Some(at) = offer.policies.matching.choose(choices.iter().map(|choice| &choice.candidate))
        {
            first.push(choices.swap_remove(at).candidate.job);
        }
        first
    };
    let line = first_in_line(durable, live, (id, kept), N_BUNDLES);
    (line.map(|jobs| best(&mut jobs.into_iter())), best(&mut live.ready.iter().copied()))
}

fn any_job(dice: &mut Dice) -> JobRequest {
    let user = ["ada", "bob", "cyd"][dice.roll(3) as usize];
    let cores = [1, 1, 1, 2, 4][dice.roll(5) as usize];
    let resources = Resources::cores(cores);
    let time_limit = [None, Some(Span::from_secs(60))][dice.roll(2) as usize];
    let needs = TaskNeeds { resources, time_limit, ..job(1).needs };
    let (n_tasks, priority) = ([1, 1, 1, 5][dice.roll(4) as usize], dice.roll(2) as i32);
    JobRequest { user: user.into(), needs, priority, retries: 3, ..job(n_tasks) }
}

#[test]
fn the_first_in_line_are_the_first_of_all() {
    let mut n_lines = 0;
    for (seed, matching) in [(7, Matching::Turns), (8, Matching::Fifo), (9, Matching::Turns)] {
        let (mut scene, mut dice) = (Scene::new(), Dice(seed));
        scene.engine.settings.policies.matching = matching;
        let pilots = [2, 4].map(|cores| scene.pilot(cores));
        let mut jobs: Vec<JobId> = Vec::new();
        for n in 0..500 {
            scene.now = scene.now + Span::from_millis(dice.roll(3) * 100);
            let pilot = pilots[dice.roll(2) as usize];
            match dice.roll(8) {
                _ if n < 100 => jobs.push(scene.submit(any_job(&mut dice))),
                0 | 1 => jobs.push(scene.submit(any_job(&mut dice))),
                2 | 3 => _ = scene.take(pilot),
                4 => {
                    let job = jobs[dice.roll(jobs.len() as u64) as usize];
                    let change = if dice.roll(2) == 0 { JobChange::Pause } else { JobChange::Resume };
                    scene.say(|request| Event::JobChangeAsked {
                        request,
                        caller: Caller { user: "root".into(), is_operator: true },
                        job,
                        change,
                    });
                }
                _ => {
                    let held = scene.engine.live.pilots[&pilot].leases.clone();
                    let Some((job, tasks)) = held.into_iter().next() else { continue };
                    let tasks = tasks.to_string();
                    match dice.roll(4) {
                        0 => {
                            _ = scene.fail(
                                pilot,
                                job,
                                set(&tasks).first().unwrap(),
                                FailureKind::Exit { code: 1 },
                            )
                        }
                        _ => _ = scene.done(pilot, job, &tasks),
                    }
                }
            }
            for pilot in pilots {
                let (line, all) = first(&scene, pilot);
                n_lines += usize::from(line.is_some());
                assert!(line.is_none_or(|line| line == all), "seed {seed}, act {n}, pilot {pilot}");
            }
        }
    }
    assert!(n_lines > 500, "{n_lines}");
}

#[test]
fn of_many_jobs_alike_few_are_weighed() {
    let mut scene = Scene::new();
    (0..300).for_each(|_| _ = scene.submit(job(1)));
    let pilot = scene.pilot(1);
    let Engine { durable, live, .. } = &scene.engine;
    let line = first_in_line(durable, live, (pilot, None), N_BUNDLES).expect("a line");
    assert_eq!(line.into_iter().map(|id| id.0).collect::<Vec<_>>(), (1..=17).collect::<Vec<_>>());
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
}
