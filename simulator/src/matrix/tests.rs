//! Tests of the simulation of MATRIX: no task is lost, and the paper's tendencies hold.

use scheduler::policy::stealing::Stealing;

use super::{
    machine::{Outcome, Placement, Setting},
    reproduce,
    workload::{SHAPES, Shape, Workload},
    world::run,
};
use crate::report::{Claim, Effort, Source, Word};

const RLDS: Stealing = Stealing::Rlds { t_percent: 50 };
const FLDS: Stealing = Stealing::Flds { t_percent: 50, tt_ms: 10_000, is_adaptive: false };
const POLICIES: [Stealing; 6] = [Stealing::None, Stealing::Mlb, Stealing::Mdl, RLDS, FLDS, Stealing::Lend];

fn on_cores(shape: Shape, n_cores: u32, policy: Stealing, seed: u64) -> Outcome {
    let n_tasks = u64::from(n_cores) * 1000;
    run(&Workload { shape, n_tasks, seed }, &Setting { policy, n_nodes: n_cores / 2, ..Setting::default() })
}

fn all_pairs(policy: Stealing, setting: Setting) -> Outcome {
    let workload = Workload { shape: Shape::AllPairs, n_tasks: 500 * 500, seed: 1 };
    run(&workload, &Setting { policy, n_nodes: 100, ..setting })
}

#[test]
fn every_task_runs_once_under_every_policy() {
    for shape in SHAPES {
        let workload = Workload { shape, n_tasks: 3333, seed: 2 };
        for policy in POLICIES {
            for n_nodes in [1, 2, 7] {
                let outcome = run(&workload, &Setting { policy, n_nodes, ..Setting::default() });
                // A run ends only when all tasks have run; their work is that of the workload.
                assert!(
                    (outcome.work_s - workload.work_s()).abs() < 1e-6,
                    "{shape:?}, {policy:?}, {n_nodes}"
                );
                assert!(outcome.efficiency > 0.0 && outcome.efficiency < 1.0);
            }
        }
    }
}

#[test]
fn no_run_is_shorter_than_the_sound_bound() {
    for shape in SHAPES {
        let workload = Workload { shape, n_tasks: 2000, seed: 5 };
        for n_nodes in [1, 5, 200] {
            for policy in POLICIES {
                let setting = Setting { policy, n_nodes, ..Setting::default() };
                let bound = super::bounds::of(&workload, setting.n_cores(), setting.bytes_per_s);
                let makespan_s = run(&workload, &setting).makespan_s;
                assert!(
                    makespan_s >= bound.sound_s,
                    "{shape:?}, {policy:?}: {makespan_s} < {}",
                    bound.sound_s
                );
            }
        }
    }
}

#[test]
fn one_node_runs_a_bag_of_tasks_without_a_gap() {
    let workload = Workload { shape: Shape::Bot, n_tasks: 2, seed: 9 };
    let outcome = run(&workload, &Setting::default());
    let longest_us = (0..2).map(|task| workload.draw(task).run_us).max().unwrap();
    assert!((outcome.makespan_s - (longest_us as f64 / 1e6 + 0.001)).abs() < 1e-9);
}

#[test]
fn a_pipe_that_moves_fetches_once_and_one_that_stays_never() {
    let pipe = Workload { shape: Shape::Pipeline, n_tasks: 10, seed: 4 };
    let of = |policy| run(&pipe, &Setting { policy, n_nodes: 50, ..Setting::default() });
    let stays = of(Stealing::Mdl);
    assert_eq!((stays.traffic.n_inputs, stays.traffic.n_fetched), (9, 0));
    let run_s = pipe.work_s();
    // Ten dispatches; nine messages to the node to which a task is dealt, and back if that is another node.
    assert!(
        stays.makespan_s > run_s + 0.010 + 9.0 * 0.0005 && stays.makespan_s < run_s + 0.010 + 9.0 * 0.0011
    );
    let moves = of(Stealing::Mlb);
    assert!(moves.traffic.n_fetched > 0);
    let fetched_s = moves.traffic.bytes_fetched as f64 / 125e6;
    assert!(moves.makespan_s > run_s + 0.010 + fetched_s);
}

#[test]
fn a_bag_of_tasks_keeps_the_cores_busy() {
    assert!(on_cores(Shape::Bot, 200, FLDS, 1).efficiency >= 0.95);
}

#[test]
fn bags_beat_pipes_and_pipes_beat_trees() {
    let [bot, pipeline, fan_out, fan_in] = SHAPES.map(|shape| on_cores(shape, 200, FLDS, 1).efficiency);
    assert!(bot > pipeline && pipeline > fan_out && pipeline > fan_in);
}

#[test]
fn a_root_with_heavy_output_holds_its_tree_under_rlds_and_flds_lets_it_go() {
    // With this seed the root's tree stays together.
    let [mdl, rlds, flds, lend] =
        [Stealing::Mdl, RLDS, FLDS, Stealing::Lend].map(|policy| on_cores(Shape::FanOut, 200, policy, 2));
    assert!((mdl.most_to_mean - 100.0).abs() < 1e-9, "all on one of 100 nodes");
    assert!(rlds.makespan_s > 5.0 * flds.makespan_s);
    assert!(flds.makespan_s > 2.0 * lend.makespan_s);
}

#[test]
fn lending_beats_flds_on_trees_and_pipes() {
    for shape in [Shape::Pipeline, Shape::FanOut, Shape::FanIn] {
        for seed in [11, 12, 13] {
            let [flds, lend] =
                [FLDS, Stealing::Lend].map(|policy| on_cores(shape, 64, policy, seed).makespan_s);
            assert!(lend < flds, "{shape:?}: {lend} against {flds}");
        }
    }
}

#[test]
fn all_pairs_needs_its_cache_and_no_policy_beats_flds_by_more_than_a_point() {
    let flds = Stealing::Flds { t_percent: 50, tt_ms: 10_000, is_adaptive: true };
    for placement in [Placement::Even, Placement::Random] {
        let setting = Setting { placement, ..Setting::default() };
        let best = all_pairs(flds, setting);
        for policy in [Stealing::Mlb, Stealing::Mdl, RLDS, Stealing::Lend] {
            assert!(all_pairs(policy, setting).efficiency < best.efficiency + 0.01, "{policy:?}");
        }
        let without = all_pairs(flds, Setting { has_cache: false, ..setting });
        assert!(without.makespan_s > 1.5 * best.makespan_s);
        assert!(best.hit_ratio() > 0.8);
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let report = || reproduce(Effort::Quick, 1, &());
    let first = report();
    // Four bounds and their order; four ratios, a bound and an order; four of all-pairs; two of Fan-Out.
    let by_part = first.parts.iter().map(|part| {
        let is_of_paper = |claim: &&Claim| claim.source == Source::Paper;
        (part.claims.iter().filter(is_of_paper).count(), part.claims.len())
    });
    assert_eq!(by_part.collect::<Vec<_>>(), [(5, 6), (6, 6), (4, 5), (2, 2), (0, 0)]);
    // Claims that need 131,072 or 200 cores.
    assert_eq!((first.claims().count(), first.count(Word::NotRun)), (17, 5 + 1));
    let first = format!("{first:?}");
    assert_eq!(first, format!("{:?}", report()));
    assert_ne!(first, format!("{:?}", reproduce(Effort::Quick, 2, &())));
}
