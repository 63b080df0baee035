//! The depth of TLA: simulation depth, allocation depth, and how often depth matters.

use std::num::NonZeroU32;

use scheduler::policy::placement::{Placement, Tla};

use super::{
    runs::{clusters, tla, turnaround},
    size::Size,
    sources::Source,
};
use crate::{
    grid,
    report::{Cell, Claim, Draws, Figure, Listing, Part, Progress, Shape, Verdict},
    tla::{
        multicluster::simulate,
        published::{DIFFERING, GAIN_AT_160},
    },
};

const LOAD: f64 = 0.75;
const HETEROGENEITY: f64 = 0.1;
/// Simulation depths; 0 stands for all waiting requests.
const DEPTHS: [u32; 11] = [1, 2, 5, 10, 20, 40, 80, 160, 320, 640, 0];
const ALLOCATION_DEPTHS: [u32; 5] = [1, 2, 4, 8, 16];
const DEPTH_OF_CLAIM: u32 = 160;

fn of_depth(depth: u32) -> Tla {
    Tla { simulation_depth: NonZeroU32::new(depth), ..tla() }
}

pub fn part(source: &Source, size: Size, seed: u64, progress: &dyn Progress) -> Part {
    let depths = times(source, size, seed, progress, &DEPTHS.map(of_depth));
    let allocate =
        |depth| Tla { allocation_depth: NonZeroU32::new(depth).unwrap_or(NonZeroU32::MIN), ..tla() };
    let allocations = times(source, size, seed, progress, &ALLOCATION_DEPTHS.map(allocate));
    let word = |depth: u32| if depth == 0 { "all".to_owned() } else { depth.to_string() };
    let rows = |words: Vec<String>, times: &[Draws]| -> Vec<Vec<Cell>> {
        words.into_iter().zip(times).map(|(word, time)| vec![word.into(), Cell::Mean(*time, 0)]).collect()
    };
    let columns = |first: &str| vec![first.to_owned(), "ATT (s)".to_owned()];
    Part {
        title: "Simulation depth and allocation depth".into(),
        text: format!(
            "Workload {} at SL {LOAD}, SH {HETEROGENEITY}, {} speed vectors, {} jobs. The paper's workload A1 is a log that \
             is not published with this project. An allocation depth above 1 takes over the placements of the winning \
             simulation for the next jobs while they fit, at depth 320.",
            source.name, size.n_sweep_vectors, size.n_sweep_jobs
        ),
        claims: claims(&depths, differing(source, seed)),
        tables: vec![
            Listing {
                name: "tla-simulation-depth".into(),
                title: "Average turnaround time by simulation depth".into(),
                columns: columns("simulation depth"),
                rows: rows(DEPTHS.map(word).to_vec(), &depths),
            },
            Listing {
                name: "tla-allocation-depth".into(),
                title: "Average turnaround time by allocation depth".into(),
                columns: columns("allocation depth"),
                rows: rows(ALLOCATION_DEPTHS.map(word).to_vec(), &allocations),
            },
        ],
        figures: vec![Figure {
            name: "tla-simulation-depth".into(),
            title: "Paper 001: average turnaround time by simulation depth".into(),
            x_label: "jobs simulated behind the first".into(),
            y_label: "average turnaround time (s)".into(),
            shape: Shape::Lines {
                series: vec![(
                    "TLA".into(),
                    DEPTHS
                        .iter()
                        .zip(&depths)
                        .filter(|(n, _)| **n > 0)
                        .map(|(n, t)| (f64::from(*n), t.mean))
                        .collect(),
                )],
                is_log_x: true,
                is_log_y: false,
            },
        }],
    }
}

fn claims(depths: &[Draws], (n_differing, n_scored): (u64, u64)) -> Vec<Claim> {
    let at = |depth| DEPTHS.iter().position(|other| *other == depth).map_or(f64::NAN, |n| depths[n].mean);
    let gain = 100.0 * (at(1) - at(DEPTH_OF_CLAIM)) / (at(1) - at(0));
    let share = 100.0 * n_differing as f64 / n_scored.max(1) as f64;
    let published_share = 100.0 * DIFFERING.0 as f64 / DIFFERING.1 as f64;
    let why = "the paper's is of another workload, A1";
    vec![
        Claim::new(
            "simulation depth: what 160 keeps of the gain of the whole queue over depth 1, in % (paper: A1)",
            format!("{GAIN_AT_160:.0}"),
            format!("{gain:.0}"),
            Verdict::of_amount(GAIN_AT_160, gain, 0, why),
        ),
        Claim::new(
            "simulation depth: decisions at high load that differ from those of depth 1 (paper: A1)",
            format!("{} of {} ({published_share:.1} %)", DIFFERING.0, DIFFERING.1),
            format!("{n_differing} of {n_scored} ({share:.1} %)"),
            Verdict::of_amount(published_share, share, 1, why),
        ),
    ]
}

/// Returns average turnaround times, over the speed vectors.
pub fn times(
    source: &Source,
    size: Size,
    seed: u64,
    progress: &dyn Progress,
    policies: &[Tla],
) -> Vec<Draws> {
    let workload = source.workload.at_load(LOAD, source.n_cores());
    let cells: Vec<(Tla, u64)> =
        policies.iter().flat_map(|tla| (0..size.n_sweep_vectors).map(move |vector| (*tla, vector))).collect();
    let times = grid::map(&cells, progress, |(tla, vector)| {
        let clusters = clusters(source, HETEROGENEITY, *vector, seed)?;
        Some(turnaround(&workload, &clusters, Placement::Tla(*tla)))
    });
    times
        .chunks(size.n_sweep_vectors as usize)
        .map(|of_one| Draws::of(of_one.iter().copied().flatten()))
        .collect()
}

/// Returns the number of decisions at high load that differ with depth 1, and of all decisions made by
/// simulation.
fn differing(source: &Source, seed: u64) -> (u64, u64) {
    let workload = source.workload.at_load(1.0, source.n_cores());
    let Some(clusters) = clusters(source, HETEROGENEITY, 0, seed) else { return (0, 0) };
    let (deep, near) = (Placement::Tla(tla()), Placement::Tla(of_depth(1)));
    let (mut n_differing, mut n_scored) = (0, 0);
    let outcome = simulate(&workload, &clusters, |scene| {
        let place = deep.place(scene);
        let has_room = |cores| scene.platforms.iter().filter(|platform| platform.n_free >= cores).count();
        if let [head, _, ..] = scene.waiting
            && has_room(head.cores) > 1
        {
            n_scored += 1;
            n_differing += u64::from(place != near.place(scene));
        }
        place
    });
    outcome.map_or((0, 0), |_| (n_differing, n_scored))
}
