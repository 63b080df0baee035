//! Policies that beat FLDS: other thresholds, and the policy `lend`, over workloads and seeds.

use scheduler::policy::stealing::Stealing;

use super::{FLDS, MDL, MLB, RLDS, drawn, flds, machine, mean, name, number, run_all, seeds, workload};
use crate::{
    matrix::{
        machine::{Placement, Setting},
        published::{N_CORES_MEASURED, N_FILES},
        workload::{SHAPES, Shape, Workload},
    },
    report::{Cell, Draws, Effort, Figure, Listing, Part, Progress, Shape as Drawing},
};

/// MDL's threshold with FLDS's moves: data stay at home unless the queue is long.
const FLDS_AT_HOME: Stealing = Stealing::Flds { t_percent: 0, tt_ms: 200, is_adaptive: false };
const POLICIES: [Stealing; 8] = [MLB, MDL, RLDS, FLDS, flds(1000), flds(200), FLDS_AT_HOME, Stealing::Lend];
/// Runs that differ by less than this count as equally long.
const TIE: f64 = 0.005;

/// A column of the table: a workload, and the placement of its files.
struct Scene {
    name: String,
    shape: Shape,
    placement: Placement,
}

/// Seconds of runs: `seconds[scene][policy][seed]`.
type Seconds = Vec<Vec<Vec<f64>>>;

pub(in crate::matrix) fn part(effort: Effort, seed: u64, progress: &dyn Progress) -> Part {
    let (n_cores, n_files, n_seeds) =
        if effort == Effort::Full { (N_CORES_MEASURED, N_FILES, 10) } else { (20, 100, 3) };
    let scenes = scenes();
    let seconds = run(&scenes, n_cores, n_files, &seeds(n_seeds, seed), progress);
    let text = format!(
        "Not in the paper. Every policy on {n_cores} cores, {n_seeds} seeds, with the settings from above. `lend` keeps all tasks with \
         data where their largest input is, as MDL does. An idle pilot that asks may take half of those, least \
         data first, that would wait there longer than it needs to fetch the input that they leave behind: (tasks \
         waiting) / (tasks begun a second) > bytes / (bytes a second). It has no threshold, moves nothing ahead of need, and needs \
         no check every second. FLDS gains most of the same by a tt of a second or less, and by t = 0 \
         (\"{}\").\n\n{}",
        policy_name(FLDS_AT_HOME),
        verdict(&scenes, &seconds),
    );
    Part {
        title: "Beyond the paper: lending".into(),
        text,
        claims: Vec::new(),
        tables: vec![listing(&scenes, &seconds)],
        figures: vec![figure(&scenes, &seconds)],
    }
}

fn scenes() -> Vec<Scene> {
    let graph =
        |shape: &Shape| Scene { name: shape.name().into(), shape: *shape, placement: Placement::Even };
    let pairs =
        |placement, how| Scene { name: format!("all-pairs, files {how}"), shape: Shape::AllPairs, placement };
    let both = [pairs(Placement::Even, "dealt evenly"), pairs(Placement::Random, "at random")];
    SHAPES.iter().map(graph).chain(both).collect()
}

fn run(scenes: &[Scene], n_cores: u64, n_files: u64, seeds: &[u64], progress: &dyn Progress) -> Seconds {
    let setting = |scene: &Scene, policy| Setting { placement: scene.placement, ..machine(n_cores, policy) };
    let workload = |scene: &Scene, seed| match scene.shape {
        Shape::AllPairs => Workload { shape: scene.shape, n_tasks: n_files * n_files, seed },
        Shape::Bot | Shape::Pipeline | Shape::FanOut | Shape::FanIn => workload(scene.shape, n_cores, seed),
    };
    let mut grid = Vec::new();
    for scene in scenes {
        for policy in POLICIES {
            grid.extend(seeds.iter().map(|seed| (workload(scene, *seed), setting(scene, policy))));
        }
    }
    let seconds: Vec<f64> = run_all(&grid, progress).into_iter().map(|outcome| outcome.makespan_s).collect();
    let of_scene = |part: &[f64]| part.chunks(seeds.len()).map(<[f64]>::to_vec).collect();
    seconds.chunks(seeds.len() * POLICIES.len()).map(of_scene).collect()
}

/// Returns the name for tables: with FLDS's thresholds where they are not the paper's.
fn policy_name(policy: Stealing) -> String {
    if policy == FLDS_AT_HOME { "FLDS, t 0, tt 0.2 s".into() } else { name(policy) }
}

/// Returns in how many runs `lend` was quicker than another policy, and slower, by more than a tie.
fn compared(seconds: &Seconds, scene: usize, other: usize) -> (usize, usize) {
    let lend = &seconds[scene][POLICIES.len() - 1];
    let count = |is: fn(f64, f64) -> bool| {
        lend.iter().zip(&seconds[scene][other]).filter(|(lend, other)| is(**lend, **other)).count()
    };
    (count(|lend, other| lend < other * (1.0 - TIE)), count(|lend, other| lend > other * (1.0 + TIE)))
}

/// Returns sentences made of the numbers: `lend` compared with FLDS as published, and with the best of the
/// others.
fn verdict(scenes: &[Scene], seconds: &Seconds) -> String {
    let n_seeds = seconds[0][0].len();
    let against = |other: usize| {
        let of_scene = |at: usize| {
            let (n_quicker, n_slower) = compared(seconds, at, other);
            let ratio = mean(seconds[at][POLICIES.len() - 1].clone()) / mean(seconds[at][other].clone());
            format!("{} {n_quicker}/{n_slower} ({:+.1} %)", scenes[at].name, 100.0 * (ratio - 1.0))
        };
        (0..scenes.len()).map(of_scene).collect::<Vec<_>>().join(", ")
    };
    let sentence = |other: usize| {
        format!(
            "Against {}, `lend` was quicker/slower (by more than half a percent) in so many of {n_seeds} runs, mean \
             run in brackets: {}.",
            policy_name(POLICIES[other]),
            against(other)
        )
    };
    let n_lost = (0..scenes.len()).filter(|at| compared(seconds, *at, 3).1 > 0).count();
    let end = match n_lost {
        0 => "`lend` is never slower than the paper's FLDS here.".to_owned(),
        n => format!(
            "`lend` is slower than the paper's FLDS in some run of {n} of the {} scenes.",
            scenes.len()
        ),
    };
    [sentence(3), sentence(5), sentence(6), end].join("\n\n")
}

fn listing(scenes: &[Scene], seconds: &Seconds) -> Listing {
    let head = |scene: &Scene| [format!("{} (s)", scene.name), format!("{} longest (s)", scene.name)];
    let row = |at: usize| {
        let cells = seconds.iter().flat_map(|of_scene| {
            let longest = of_scene[at].iter().fold(0.0_f64, |longest, s| longest.max(*s));
            [drawn(Draws::of(of_scene[at].iter().copied()), 1), number(longest, 1)]
        });
        std::iter::once(Cell::from(policy_name(POLICIES[at]))).chain(cells).collect()
    };
    Listing {
        name: "laws".into(),
        title: "Runs and the longest of them by policy and workload".into(),
        columns: std::iter::once("policy".to_owned()).chain(scenes.iter().flat_map(head)).collect(),
        rows: (0..POLICIES.len()).map(row).collect(),
    }
}

fn figure(scenes: &[Scene], seconds: &Seconds) -> Figure {
    // MDL's runs of Fan-Out are a hundred times longer and would hide all others.
    let shown = (0..POLICIES.len()).filter(|at| POLICIES[*at] != MDL && POLICIES[*at] != RLDS);
    let series = shown.map(|at| {
        (policy_name(POLICIES[at]), seconds.iter().map(|of_scene| mean(of_scene[at].clone())).collect())
    });
    Figure {
        name: "laws".into(),
        title: "Ours, on the workloads of paper 004: mean run by workload".into(),
        x_label: "workload".into(),
        y_label: "mean run (s)".into(),
        shape: Drawing::Bars {
            categories: scenes.iter().map(|scene| scene.name.clone()).collect(),
            series: series.collect(),
        },
    }
}
