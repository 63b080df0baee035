//! Table 4: how much shorter turnaround times are by TLA than by the best of the others.

use super::{
    runs::{HOW_IT_RUNS, POLICIES, Size, clusters, improvement, mean, tla, turnaround},
    sources::Source,
};
use crate::{
    grid,
    report::{Cell, Claim, Figure, Listing, Part, Progress, Shape, Verdict},
    tla::published::{HETEROGENEITIES, LOADS, LOADS_BEFORE, Row, TABLE_4},
};
use scheduler::policy::placement::Placement;

/// How far off an improvement may be, in points: about what another seed of the workload changes at high load.
const TOLERANCE: f64 = 5.0;
const LOAD_WORDS: [&str; 3] = ["low", "medium", "high"];

/// One simulation: where it belongs, by position.
#[derive(Clone, Copy, Debug)]
struct Run {
    source: usize,
    load: usize,
    heterogeneity: usize,
    vector: u64,
}

/// Improvements of a source in percent, by load and heterogeneity.
type Improvements = [[f64; 3]; 3];

pub fn part(sources: &[Source], size: Size, seed: u64, progress: &dyn Progress) -> Part {
    let ours = improvements(sources, size, seed, progress);
    let mut claims: Vec<Claim> = TABLE_4.iter().flat_map(|row| row_claims(row, sources, &ours)).collect();
    claims.extend(claims_of_all(sources, &ours));
    Part {
        title: "Improvement over the best of best fit, fastest first and AI2 (table 4)".into(),
        text: text(sources, size),
        claims,
        tables: vec![table(sources, &ours)],
        figures: vec![figure(sources, &ours)],
    }
}

/// Turnaround times by all policies, those of the table first, TLA last.
fn improvements(sources: &[Source], size: Size, seed: u64, progress: &dyn Progress) -> Vec<Improvements> {
    let vectors = |heterogeneity: usize| {
        // All vectors of heterogeneity 0 are the same.
        if HETEROGENEITIES[heterogeneity] > 0.0 { size.n_vectors } else { 1 }
    };
    let mut cells = Vec::new();
    for (source, load, heterogeneity) in places(sources.len()) {
        let of_vector = |vector| Run { source, load, heterogeneity, vector };
        cells.extend((0..vectors(heterogeneity)).map(of_vector));
    }
    let outcomes = grid::map(&cells, progress, |cell| run(&sources[cell.source], *cell, seed));
    let mut improvements = vec![[[0.0; 3]; 3]; sources.len()];
    for (source, load, heterogeneity) in places(sources.len()) {
        let is_here =
            |cell: &Run| (cell.source, cell.load, cell.heterogeneity) == (source, load, heterogeneity);
        let here =
            || cells.iter().zip(&outcomes).filter(|(cell, _)| is_here(cell)).filter_map(|(_, times)| *times);
        let means: [f64; 4] = std::array::from_fn(|policy| mean(here().map(|times| times[policy])));
        improvements[source][load][heterogeneity] = improvement(means[3], &means[..3]);
    }
    improvements
}

/// Source, load and heterogeneity, by position.
fn places(n_sources: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let of_source =
        |source| (0..3).flat_map(move |load| (0..3).map(move |heterogeneity| (source, load, heterogeneity)));
    (0..n_sources).flat_map(of_source)
}

fn run(source: &Source, cell: Run, seed: u64) -> Option<[f64; 4]> {
    let workload = source.workload.at_load(LOADS[cell.load], source.n_cores());
    let clusters = clusters(source, HETEROGENEITIES[cell.heterogeneity], cell.vector, seed)?;
    let [bf, ff, ai2] = POLICIES.map(|(_, policy)| turnaround(&workload, &clusters, policy));
    Some([bf, ff, ai2, turnaround(&workload, &clusters, Placement::Tla(tla()))])
}

/// A claim for each load of a published row.
fn row_claims(row: &Row, sources: &[Source], ours: &[Improvements]) -> Vec<Claim> {
    let found = sources.iter().position(|source| source.name == row.name);
    let claim = |load: usize| {
        let published = row.improvement[load];
        let what = format!(
            "table 4, {}, {} load (SL {}), SH 0 / 0.1 / 0.2: improvement in %",
            row.name, LOAD_WORDS[load], LOADS[load]
        );
        let (words, verdict) = match found {
            Some(source) => (three(ours[source][load]), judge(published, ours[source][load])),
            None => ("-".to_owned(), Verdict::Not { why: "not run: log not published here".into() }),
        };
        Claim { what, published: three(published), ours: words, verdict }
    };
    (0..3).map(claim).collect()
}

fn judge(published: [f64; 3], ours: [f64; 3]) -> Verdict {
    let off = published.iter().zip(ours).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let is_gain = |numbers: [f64; 3]| mean(numbers) > 0.0;
    if off <= 0.5 {
        Verdict::Exact
    } else if off <= TOLERANCE {
        Verdict::Within { tolerance: format!("{TOLERANCE} points") }
    } else if is_gain(published) == is_gain(ours) {
        Verdict::SameOrder
    } else {
        Verdict::Not {
            why: "a gain there, a loss here, or the reverse: on average over the heterogeneities".into(),
        }
    }
}

/// What the paper says of the whole table.
fn claims_of_all(sources: &[Source], ours: &[Improvements]) -> Vec<Claim> {
    let papers: Vec<(&Source, &Improvements)> =
        sources.iter().zip(ours).filter(|(source, _)| source.row().is_some()).collect();
    let by_load = |load: usize| mean(papers.iter().flat_map(|(_, numbers)| numbers[load]));
    let means = [by_load(0), by_load(1), by_load(2)];
    let published: [f64; 3] = std::array::from_fn(|load| {
        mean(papers.iter().filter_map(|(source, _)| source.row()).flat_map(|row| row.improvement[load]))
    });
    let is_medium_best = means[1] > means[0] && means[1] > means[2];
    let n_negative = |load: usize| {
        papers.iter().flat_map(|(_, numbers)| numbers[load]).filter(|number| number.round() < 0.0).count()
    };
    let negative = [n_negative(0), n_negative(1), n_negative(2)];
    let holds =
        |does: bool, why: &str| if does { Verdict::SameOrder } else { Verdict::Not { why: why.to_owned() } };
    let mut claims: Vec<Claim> = sources.iter().filter_map(load_before).collect();
    claims.extend([
        Claim {
            what: "table 4: improvement by load (low / medium / high), mean over what was run here; the \
                   largest is at medium load"
                .into(),
            published: three(published),
            ours: three(means),
            verdict: holds(is_medium_best, "another load has the largest mean here"),
        },
        Claim {
            what: "table 4: TLA loses at low load only (numbers below zero at low / medium / high load)"
                .into(),
            published: three(std::array::from_fn(|load| {
                let negative =
                    |row: &Row| row.improvement[load].iter().filter(|number| **number < 0.0).count();
                TABLE_4.iter().map(negative).sum::<usize>() as f64
            })),
            ours: three(negative.map(|n| n as f64)),
            verdict: holds(negative[1] + negative[2] == 0, "it loses at a higher load too"),
        },
    ]);
    claims
}

/// The system load of a workload before it is scaled.
fn load_before(source: &Source) -> Option<Claim> {
    let (_, published) = LOADS_BEFORE.iter().find(|(name, _)| *name == source.name)?;
    let ours = source.workload.load(source.n_cores());
    let otherwise = Verdict::Not { why: "the parameters of the paper's generator are not published".into() };
    Some(Claim {
        what: format!("system load of {} before scaling", source.name),
        published: published.to_string(),
        ours: format!("{ours:.2}"),
        verdict: Verdict::of_number(*published, ours, 2, 0.02, otherwise),
    })
}

fn three(numbers: [f64; 3]) -> String {
    // A rounded -0 is 0.
    numbers.map(|number| format!("{:.0}", number.round() + 0.0)).join(" / ")
}

fn table(sources: &[Source], ours: &[Improvements]) -> Listing {
    let columns = ["workload", "from", "clusters", "SL at first", "SL", "SH", "published (%)", "ours (%)"];
    let row = |(source, load, heterogeneity): (usize, usize, usize)| {
        let it = &sources[source];
        let published = it.row().map(|row| row.improvement[load][heterogeneity]);
        vec![
            it.name.clone().into(),
            it.origin.clone().into(),
            format!("{}×{}", it.n_clusters, it.cluster_cores).into(),
            Cell::Number(it.workload.load(it.n_cores()), 3),
            Cell::Number(LOADS[load], 2),
            Cell::Number(HETEROGENEITIES[heterogeneity], 1),
            published.map_or(Cell::Empty, |number| Cell::Number(number, 0)),
            Cell::Number(ours[source][load][heterogeneity], 1),
        ]
    };
    Listing {
        name: "tla-table-4".into(),
        title: "Improvement of the average turnaround time".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: places(sources.len()).map(row).collect(),
    }
}

/// Means over heterogeneities, published beside ours.
fn figure(sources: &[Source], ours: &[Improvements]) -> Figure {
    let mut series: Vec<(String, Vec<f64>)> = Vec::new();
    let papers: Vec<(&Row, &Improvements)> =
        sources.iter().zip(ours).filter_map(|(source, numbers)| Some((source.row()?, numbers))).collect();
    for (load, word) in LOAD_WORDS.iter().enumerate() {
        let published = papers.iter().map(|(row, _)| mean(row.improvement[load])).collect();
        series.push((format!("{word} load, published"), published));
        series.push((
            format!("{word} load, ours"),
            papers.iter().map(|(_, numbers)| mean(numbers[load])).collect(),
        ));
    }
    Figure {
        name: "tla-table-4".into(),
        title: "Improvement by TLA over the best of the others (table 4, mean over heterogeneities)".into(),
        x_label: "workload".into(),
        y_label: "shorter average turnaround time (%)".into(),
        shape: Shape::Bars {
            categories: papers.iter().map(|(row, _)| row.name.to_owned()).collect(),
            series,
        },
    }
}

fn text(sources: &[Source], size: Size) -> String {
    let mut text = format!(
        "{HOW_IT_RUNS} Runtimes are scaled to each load. {} speed vectors for each heterogeneity SH above 0, one of \
         equal speeds for SH 0. TLA simulates 320 jobs behind the first, by fastest first.\n\n\
         Generated workloads have {} jobs of at most 128 processors, on 5 (D1, E1, F1) and 10 (D2, E2, F2) clusters of \
         128. D is the Lublin99 model with its authors' parameters. E follows the Feitelson96 model; how that sets \
         weights of sizes by hand could not be confirmed, so powers of two are five times as frequent as the harmonic \
         distribution says, and a job that is repeated comes again when it would have ended without waiting. F uses \
         the method of Jann97, hyper-Erlang distributions of common order for each range of sizes; its table of \
         parameters for the CTC SP2 could not be had, so they are fitted to the moments of the NASA iPSC log of 1993. \
         The paper's loads before scaling (D1 0.34, D2 0.17) show that its Lublin99 parameters were others than its \
         authors'.\n\n\
         How many jobs the paper ran we could not read. On D1 more jobs make the gain larger at medium load and \
         smaller at high load. At medium load the queue is now and then long for weeks, and one seed differs from the next by tens of points: \
         numbers there are rather a sign than a size.\n\n",
        size.n_vectors, size.n_jobs
    );
    let is_run = |name: &str| sources.iter().any(|source| source.name == *name);
    if !["A1", "B1", "C1"].iter().all(|name| is_run(name)) {
        text += "A, B and C are logs that are not published with this project. Put SDSC-SP2, ANL-Intrepid and DAS2 logs \
                 of the Parallel Workloads Archive into a folder to have them run; taking them for A, B and C in this \
                 order is our reading.\n";
    }
    text
}
