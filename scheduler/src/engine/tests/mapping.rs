//! The layer `mapping`: applications that share a node, and the measurements of co-runners.

use super::{
    sharing::{of_user, took},
    *,
};
use crate::engine::record::co_runners::{CoRunTimes, CoRunners};
use crate::policy::{Policies, allocation::Allocation, bundling::Bundling, mapping::Mapping};

const MAF: Mapping = Mapping::Maf { is_recomputed: true, is_of_pairs: false };

/// Returns two pilots with four cores.
fn scene(mapping: Option<Mapping>) -> (Scene, [PilotId; 2]) {
    let mut scene = Scene::new();
    scene.engine.settings.policies = Policies { mapping, ..Policies::default() };
    let pilots = [4, 4].map(|cores| scene.pilot(cores));
    (scene, pilots)
}

fn beside(application: &str, others: &[&str], seconds: u64) -> CoRunTimes {
    let company = CoRunners::Full(others.iter().map(|one| (*one).to_owned()).collect());
    CoRunTimes { application: application.into(), company, n: 10, wall_us: 10 * seconds * SECOND }
}

/// Sets the runtimes of tasks on a node with their like, and on a node with the other application.
fn teach(scene: &mut Scene, with_its_like: u64, with_the_other: u64) {
    let platform = *scene.engine.durable().platforms().keys().next().expect("one");
    let beside = vec![
        beside("docking", &[], with_its_like),
        beside("docking", &["search"], with_the_other),
        beside("search", &[], with_its_like),
        beside("search", &["docking"], with_the_other),
    ];
    let record = Record::BesideMeasured { platform, beside, at: scene.now };
    scene.engine.durable.apply(&record);
    scene.records.push(record);
}

/// Returns how many tasks of each job each pilot gets; pilots pull until they get none.
fn dealt(scene: &mut Scene, pilots: &[PilotId], jobs: [JobId; 2]) -> Vec<[u64; 2]> {
    scene.wait_awake(2);
    let dealt = pilots.iter().map(|pilot| {
        let mut dealt = [0; 2];
        for (id, tasks) in (0..5).flat_map(|_| scene.take(*pilot)) {
            dealt[jobs.iter().position(|job| job.0 == id).expect("one of them")] += set(&tasks).len();
        }
        dealt
    });
    dealt.collect()
}

fn two_jobs(scene: &mut Scene, n_tasks: [u64; 2]) -> [JobId; 2] {
    let docking = scene.submit(of_user("ada", "docking", n_tasks[0]));
    [docking, scene.submit(of_user("bob", "search", n_tasks[1]))]
}

#[test]
fn nodes_are_shared_by_whom_it_hurts_least() {
    for (mapping, with_its_like, with_the_other, expected) in [
        (Some(MAF), 20, 10, [[2, 2], [2, 2]]),
        (Some(MAF), 10, 20, [[4, 0], [0, 4]]),
        (Some(Mapping::CaRr { unit_nodes: 1 }), 20, 10, [[2, 2], [2, 2]]),
        (Some(Mapping::AllCore), 20, 10, [[4, 0], [0, 4]]),
    ] {
        let (mut scene, pilots) = scene(mapping);
        teach(&mut scene, with_its_like, with_the_other);
        let jobs = two_jobs(&mut scene, [100, 100]);
        let mut found = dealt(&mut scene, &pilots, jobs);
        found.sort_by_key(|node| std::cmp::Reverse(node[0]));
        assert_eq!(found, expected, "{mapping:?}: {with_its_like}, {with_the_other}");
    }
}

#[test]
fn no_core_waits_for_whom_it_is_meant_for() {
    let (mut scene, pilots) = scene(Some(Mapping::AllCore));
    let jobs = two_jobs(&mut scene, [100, 1]);
    assert_eq!(dealt(&mut scene, &pilots, jobs).iter().flatten().sum::<u64>(), 8);
}

#[test]
fn who_has_no_core_of_its_own_has_its_turn() {
    // There are five users for four cores: one of them is in no mix.
    let mut scene = Scene::new();
    scene.engine.settings.policies = Policies { mapping: Some(MAF), ..Policies::default() };
    let pilot = scene.pilot(4);
    let jobs: Vec<JobId> =
        (0..5).map(|n| scene.submit(of_user(&format!("user{n}"), &format!("application{n}"), 100))).collect();
    scene.wait_awake(2);
    scene.take(pilot);
    for _ in 0..20 {
        scene.wait_awake(20);
        let leases = &scene.engine.live.pilots[&pilot].leases;
        let held: Vec<(JobId, u64)> =
            leases.iter().filter_map(|(id, tasks)| Some((*id, tasks.first()?))).collect();
        for (id, index) in held {
            took(&mut scene, pilot, id, &index.to_string(), 20);
        }
    }
    let n_done: Vec<u64> = jobs.iter().map(|id| scene.engine.durable().jobs()[id].totals.n).collect();
    assert!(n_done.iter().all(|n| *n >= 5), "{n_done:?}");
}

#[test]
fn shares_of_nodes_that_are_still_to_come_are_not_of_those_that_are_there() {
    let (mut scene, pilots) = scene(Some(Mapping::AllCore));
    scene.engine.settings.policies.allocation = Some(Allocation::Equal);
    // Six more pilots have been requested, and wait.
    let spec = PlatformSpec { n_pilots_min: 8, n_pilots_max: 8, ..platform(8, 4) };
    scene.attach(spec);
    let jobs = two_jobs(&mut scene, [100, 100]);
    let mut found = dealt(&mut scene, &pilots, jobs);
    found.sort_by_key(|node| std::cmp::Reverse(node[0]));
    assert_eq!(found, [[4, 0], [0, 4]]);
}

#[test]
fn a_node_that_cannot_be_divided_is_for_one_application() {
    let mut scene = Scene::new();
    scene.engine.settings.policies = Policies { mapping: Some(MAF), ..Policies::default() };
    let pilots = [3, 3].map(|cores| scene.pilot(cores));
    teach(&mut scene, 20, 10);
    let jobs = two_jobs(&mut scene, [100, 100]);
    let mut found = dealt(&mut scene, &pilots, jobs);
    found.sort_by_key(|node| std::cmp::Reverse(node[0]));
    assert_eq!(found, [[3, 0], [0, 3]]);
}

#[test]
fn a_task_that_is_wider_than_its_part_of_a_node_is_not_divided() {
    let (mut scene, pilots) = scene(Some(MAF));
    teach(&mut scene, 20, 10);
    let wide = JobRequest {
        needs: TaskNeeds { resources: Resources::cores(4), ..job(1).needs },
        ..of_user("ada", "docking", 100)
    };
    let jobs = [scene.submit(wide), scene.submit(of_user("bob", "search", 100))];
    let mut found = dealt(&mut scene, &pilots, jobs);
    found.sort();
    assert_eq!(found, [[0, 4], [1, 0]]);
}

#[test]
fn nodes_keep_their_mix_when_others_come() {
    let (mut scene, pilots) = scene(Some(Mapping::AllCore));
    two_jobs(&mut scene, [100, 100]);
    scene.wait_awake(2);
    let meant = |scene: &mut Scene, pilot: PilotId| {
        scene.explain(Query::ExplainPilot(pilot)).into_iter().find_map(|reason| match reason {
            Reason::NodeMeantFor { policy, parts } => Some((policy, parts)),
            _ => None,
        })
    };
    let before = pilots.map(|pilot| meant(&mut scene, pilot));
    assert_eq!(before[0].as_ref().map(|(policy, _)| policy.as_str()), Some("all-core"));
    assert_ne!(before[0], before[1]);
    let (third, fourth) = (scene.pilot(4), scene.pilot(4));
    scene.wait_awake(2);
    assert_eq!(pilots.map(|pilot| meant(&mut scene, pilot)), before);
    let new = [third, fourth].map(|pilot| meant(&mut scene, pilot));
    assert!(new[0].is_some() && new[1].is_some() && new[0] != new[1], "{new:?}");
}

#[test]
fn what_company_costs_is_learned_from_tasks_that_had_it_all_the_time() {
    let (mut scene, [pilot, other]) = scene(None);
    scene.engine.settings.policies.bundling = Bundling::Single;
    let [docking, search] = two_jobs(&mut scene, [3, 100]);
    let known = |scene: &mut Scene, application: &str| {
        let answer = scene.say(|request| Event::Asked { request, query: Query::Profiles });
        let Some(Answer::Profiles(profiles)) = answer else { panic!("{answer:?}") };
        let profile = profiles.into_iter().find(|profile| profile.application == application);
        let beside = profile.and_then(|profile| Some(profile.platforms.into_iter().next()?.beside));
        let all = beside.unwrap_or_default().into_iter();
        all.map(|one| (one.others, one.n, one.mean.0 / SECOND)).collect::<Vec<_>>()
    };
    let dealt = dealt(&mut scene, &[pilot], [docking, search]);
    assert_eq!(dealt, [[2, 2]]);
    scene.wait_awake(10);
    took(&mut scene, pilot, docking, "0", 10);
    scene.wait_awake(10);
    assert!(
        known(&mut scene, "docking").is_empty(),
        "of those that end so soon only the shortest would count"
    );
    took(&mut scene, pilot, docking, "1", 20);
    assert!(known(&mut scene, "docking").is_empty(), "it is written down after a second, as it is new");
    scene.wait_awake(1);
    assert_eq!(known(&mut scene, "docking"), [(Some(vec!["search".to_owned()]), 1, 20)]);
    scene.wait_awake(10);
    took(&mut scene, pilot, docking, "2", 20);
    scene.wait_awake(9);
    assert_eq!(known(&mut scene, "docking")[0].1, 1, "a second of that company after ten");
    scene.wait_awake(1);
    assert_eq!(known(&mut scene, "docking")[0].1, 2);
    // Searches run only beside each other now, but the first to end did not do so from the start.
    scene.wait_awake(20);
    took(&mut scene, pilot, search, "0", 31);
    scene.wait_awake(10);
    assert!(known(&mut scene, "search").is_empty());
    scene.wait_awake(40);
    took(&mut scene, pilot, search, "3", 20);
    // The end of the manager does not wait for that.
    scene.say(|request| Event::ShutdownAsked { request, is_urgent: true });
    for pilot in [pilot, other] {
        let reason = crate::pull::LeaveReason::Told;
        scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    }
    assert_eq!(known(&mut scene, "search"), [(Some(vec![]), 1, 20)]);
}

#[test]
fn nodes_are_mapped_anew_as_soon_as_something_was_learned() {
    let (mut scene, pilots) = scene(Some(Mapping::AllCore));
    let [docking, search] = two_jobs(&mut scene, [100, 100]);
    let dealt = dealt(&mut scene, &pilots, [docking, search]);
    let searches_at = pilots[usize::from(dealt[0] == [4, 0])];
    let made_at = |scene: &Scene| scene.engine.live.plan.made_at;
    scene.wait_awake(35);
    // Few attempts are known, so every report leads to a new plan; its co-runner times come a second later.
    took(&mut scene, searches_at, search, "0", 10);
    scene.wait_awake(1);
    assert_eq!(made_at(&scene), Some(scene.now));
}

#[test]
fn a_node_runs_as_many_well_as_throughput_grows() {
    let (mut scene, _) = scene(None);
    let platform = *scene.engine.durable().platforms().keys().next().expect("one");
    let degree = |scene: &Scene| scene.engine.durable().facts().degree(platform, "docking", 4);
    assert_eq!(degree(&scene), 4, "nothing is known of it");
    let alone =
        CoRunTimes { application: "docking".into(), company: CoRunners::Nobody, n: 10, wall_us: 80 * SECOND };
    let beside = vec![alone, beside("docking", &[], 20)];
    let record = Record::BesideMeasured { platform, beside, at: scene.now };
    scene.engine.durable.apply(&record);
    // Four at a time take 20 s each, one alone 8 s: together they do as much as 1.6 alone.
    assert_eq!(degree(&scene), 2);
}
