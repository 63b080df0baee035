//! The placement of jobs within the simulation of TLA (figure 12), and its metric.

use scheduler::policy::placement::{Inner, Metric, Placement, Tla};

use super::{
    depth::times,
    runs::{clusters, run, tla},
    size::Size,
    sources::Source,
};
use crate::report::{Cell, Claim, Draws, Figure, Listing, Part, Progress, Shape, Verdict};

pub fn part(source: &Source, size: Size, seed: u64, progress: &dyn Progress) -> Part {
    let inners = [
        ("fastest first", Inner::FastestFirst),
        ("best fit", Inner::BestFit),
        ("worst fit", Inner::WorstFit),
        ("random", Inner::Random { seed }),
    ];
    let times = times(source, size, seed, progress, &inners.map(|(_, inner)| Tla { inner, ..tla() }));
    let (least, most) = extremes(&times[..3]);
    let rows = inners.iter().zip(&times).map(|((word, _), time)| vec![(*word).into(), Cell::Mean(*time, 0)]);
    Part {
        title: "Inner policies and metrics (figure 12)".into(),
        text: format!(
            "Workload {} at SL 0.75, SH 0.1, {} speed vectors, {} jobs. Random places by lot, with the same draws in every \
             branch of a decision. The second table is of one speed vector: TLA can make the average bounded slowdown \
             small instead (turnaround over runtime, runtimes below ten seconds counted as ten).",
            source.name, size.n_sweep_vectors, size.n_sweep_jobs
        ),
        claims: vec![
            Claim::new(
                "figure 12: similar average turnaround times with fastest first, best fit and worst fit within \
                 (smallest and largest, s)",
                "similar",
                format!("{} and {}", least.shown(0), most.shown(0)),
                Verdict::of_likeness(least.mean, most.mean),
            ),
            Claim::new(
                "figure 12: and with random (fastest first and random, s)",
                "similar",
                format!("{} and {}", times[0].shown(0), times[3].shown(0)),
                Verdict::of_likeness(times[0].mean, times[3].mean),
            ),
        ],
        tables: vec![
            Listing {
                name: "tla-inner".into(),
                title: "Average turnaround time by inner policy".into(),
                columns: ["inner policy", "ATT (s)"].map(str::to_owned).to_vec(),
                rows: rows.collect(),
            },
            metrics(source, seed),
        ],
        figures: vec![Figure {
            name: "tla-inner".into(),
            title: "Paper 001, figure 12: average turnaround time by inner policy".into(),
            x_label: "inner policy".into(),
            y_label: "average turnaround time (s)".into(),
            shape: Shape::Bars {
                categories: inners.iter().map(|(word, _)| (*word).to_owned()).collect(),
                series: vec![("TLA".into(), times.iter().map(|time| time.mean).collect())],
            },
        }],
    }
}

/// Returns the least and the largest of some times.
fn extremes(times: &[Draws]) -> (Draws, Draws) {
    let of = |is_better: fn(f64, f64) -> bool| {
        times.iter().copied().reduce(|a, b| if is_better(b.mean, a.mean) { b } else { a }).unwrap_or_default()
    };
    (of(|a, b| a < b), of(|a, b| a > b))
}

/// Returns both metrics if either is minimized.
fn metrics(source: &Source, seed: u64) -> Listing {
    let workload = source.workload.at_load(0.75, source.n_cores());
    let clusters = clusters(source, 0.1, 0, seed).unwrap_or_default();
    let row = |(word, metric)| {
        let outcome = run(&workload, &clusters, Placement::Tla(Tla { metric, ..tla() }));
        vec![
            Cell::from(word),
            Cell::Number(outcome.average_turnaround, 0),
            Cell::Number(outcome.bounded_slowdown, 1),
        ]
    };
    let both =
        [("average turnaround", Metric::AverageTurnaround), ("bounded slowdown", Metric::BoundedSlowdown)];
    Listing {
        name: "tla-metric".into(),
        title: "Average turnaround time and bounded slowdown by what TLA makes small".into(),
        columns: ["made small", "ATT (s)", "average bounded slowdown"].map(str::to_owned).to_vec(),
        rows: if clusters.is_empty() { Vec::new() } else { both.map(row).to_vec() },
    }
}
