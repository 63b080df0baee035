//! The cost of wrong estimates: the f-model.

use scheduler::policy::placement::Placement;

use super::{
    runs::{POLICIES, clusters, improvement, tla, turnaround},
    size::Size,
    sources::Source,
};
use crate::{
    grid,
    report::{Cell, Claim, Draws, Figure, Listing, Part, Progress, Shape, Verdict},
};

const LOAD: f64 = 0.75;
const HETEROGENEITY: f64 = 0.1;
/// Largest quotient of estimate and runtime.
const FACTORS: [f64; 11] = [1.0, 1.25, 1.5, 1.75, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1024.0];

pub fn part(source: &Source, size: Size, seed: u64, progress: &dyn Progress) -> Part {
    let workload = source.workload.at_load(LOAD, source.n_cores());
    let cells: Vec<(f64, u64)> =
        FACTORS.iter().flat_map(|f| (0..size.n_sweep_vectors).map(move |vector| (*f, vector))).collect();
    let all = grid::map(&cells, progress, |(f, vector)| {
        let clusters = clusters(source, HETEROGENEITY, *vector, seed)?;
        let misjudged = workload.with_estimates(*f, seed);
        let [bf, ff, ai2] = POLICIES.map(|(_, policy)| turnaround(&misjudged, &clusters, policy));
        Some([bf, ff, ai2, turnaround(&misjudged, &clusters, Placement::Tla(tla()))])
    });
    // The means over vectors, by factor.
    let times: Vec<[Draws; 4]> = all
        .chunks(size.n_sweep_vectors as usize)
        .map(|of_one| std::array::from_fn(|n| Draws::of(of_one.iter().flatten().map(|times| times[n]))))
        .collect();
    let gain = |times: &[Draws; 4]| improvement(times[3].mean, &times.map(|time| time.mean)[..3]);
    let gains: Vec<f64> = times.iter().map(gain).collect();
    Part {
        title: "Inaccurate estimates (the f-model)".into(),
        text: format!(
            "Workload {} at SL {LOAD}, SH {HETEROGENEITY}, {} speed vectors, {} jobs. Each estimate is drawn evenly between \
             the runtime and f times the runtime. Best fit, fastest first and AI2 do not read it.",
            source.name, size.n_sweep_vectors, size.n_sweep_jobs
        ),
        claims: claims(&times, &gains),
        tables: vec![table(&times, &gains)],
        figures: vec![figure(&gains)],
    }
}

fn claims(times: &[[Draws; 4]], gains: &[f64]) -> Vec<Claim> {
    let is_constant = times.iter().all(|row| row[..3] == times[0][..3]);
    let wrong = gains[1..].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![
        Claim::new(
            "f-model: BF, FF and AI2 do not depend on estimates",
            "yes",
            if is_constant { "yes" } else { "no" },
            Verdict::of_choice(is_constant, "one of them changes"),
        ),
        Claim::new(
            "f-model: the improvement is largest with accurate estimates (in %: f = 1, best of the others)",
            "yes",
            format!("{:.0}, {wrong:.0}", gains[0]),
            Verdict::of_sentence(gains[0] > wrong, "some wrong estimates do better here"),
        ),
    ]
}

fn table(times: &[[Draws; 4]], gains: &[f64]) -> Listing {
    let columns = ["f", "BF (s)", "FF (s)", "AI2 (s)", "TLA (s)", "improvement (%)"];
    let row = |((f, times), gain): ((&f64, &[Draws; 4]), &f64)| {
        let mut row = vec![Cell::Number(*f, 2)];
        row.extend(times.iter().map(|time| Cell::Mean(*time, 0)));
        row.push(Cell::Number(*gain, 1));
        row
    };
    Listing {
        name: "tla-estimates".into(),
        title: "Average turnaround time by inaccuracy of estimates".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: FACTORS.iter().zip(times).zip(gains).map(row).collect(),
    }
}

fn figure(gains: &[f64]) -> Figure {
    Figure {
        name: "tla-estimates".into(),
        title: "Paper 001, f-model: improvement by TLA with inaccurate estimates".into(),
        x_label: "f: largest estimate over runtime".into(),
        y_label: "shorter average turnaround time (%)".into(),
        shape: Shape::Lines {
            series: vec![("TLA".into(), FACTORS.iter().copied().zip(gains.iter().copied()).collect())],
            is_log_x: true,
            is_log_y: false,
        },
    }
}
