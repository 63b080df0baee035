//! Table 4: by how much turnaround times by TLA are shorter than by the best of the other policies.

use super::{
    runs::{HOW_IT_RUNS, POLICIES, clusters, improvement, mean, tla, turnaround},
    size::Size,
    sources::Source,
};
use crate::{
    grid,
    report::{Cell, Claim, Draws, Figure, Listing, Part, Progress, Shape, Verdict},
    tla::published::{HETEROGENEITIES, LOADS, LOADS_BEFORE, Row, TABLE_4},
};
use scheduler::policy::placement::Placement;

const LOAD_WORDS: [&str; 3] = ["low", "medium", "high"];

/// One simulation, identified by positions.
#[derive(Clone, Copy, Debug)]
struct Run {
    source: usize,
    load: usize,
    heterogeneity: usize,
    vector: u64,
}

/// Improvements of a source in percent, by load and heterogeneity: of the mean times over the speed vectors,
/// with the deviation of the improvements by single vectors.
type Improvements = [[Draws; 3]; 3];

pub fn part(sources: &[Source], size: Size, seed: u64, progress: &dyn Progress) -> Part {
    let ours = improvements(sources, size, seed, progress);
    let mut claims: Vec<Claim> = TABLE_4.iter().flat_map(|row| row_claims(row, sources, &ours)).collect();
    claims.extend(claims_of_all(sources, &ours));
    Part {
        title: "Improvement over the best of best fit, fastest first and AI2 (table 4)".into(),
        text: text(sources, size) + &of_other_logs(sources, &ours),
        claims,
        tables: vec![table(sources, &ours)],
        figures: vec![figure(sources, &ours)],
    }
}

/// Computes the improvements from turnaround times by all policies, those of the table first, TLA last.
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
    let mut improvements = vec![[[Draws::default(); 3]; 3]; sources.len()];
    for (source, load, heterogeneity) in places(sources.len()) {
        let is_here =
            |cell: &Run| (cell.source, cell.load, cell.heterogeneity) == (source, load, heterogeneity);
        let here =
            || cells.iter().zip(&outcomes).filter(|(cell, _)| is_here(cell)).filter_map(|(_, times)| *times);
        let means: [f64; 4] = std::array::from_fn(|policy| mean(here().map(|times| times[policy])));
        let by_vector = Draws::of(here().map(|times| improvement(times[3], &times[..3])));
        improvements[source][load][heterogeneity] =
            Draws { mean: improvement(means[3], &means[..3]), ..by_vector };
    }
    improvements
}

/// Returns all combinations of source, load and heterogeneity, by position.
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

/// Makes a claim for each load of a published row.
fn row_claims(row: &Row, sources: &[Source], ours: &[Improvements]) -> Vec<Claim> {
    let found = sources.iter().position(|source| source.name == row.name);
    let claim = |load: usize| {
        let published = row.improvement[load];
        let what = format!(
            "table 4, {}, {} load (SL {}), SH 0 / 0.1 / 0.2: improvement in %",
            row.name, LOAD_WORDS[load], LOADS[load]
        );
        let (words, verdict) = match found {
            Some(source) => {
                let ours = ours[source][load];
                (ours.map(|number| number.shown(0)).join(" / "), judge(published, ours))
            }
            None => ("-".to_owned(), Verdict::not_run("the log is not published here")),
        };
        Claim::new(what, three(published), words, verdict)
    };
    (0..3).map(claim).collect()
}

/// Judges each of the three numbers of a row by itself.
fn judge(published: [f64; 3], ours: [Draws; 3]) -> Verdict {
    let of_one = |n: usize| (format!("SH {}", HETEROGENEITIES[n]), one(published[n], ours[n]));
    Verdict::of_many(&[0, 1, 2].map(of_one))
}

fn one(published: f64, ours: Draws) -> Verdict {
    Verdict::of_change(published, ours.mean, 0)
}

/// Makes the claims about the whole table.
fn claims_of_all(sources: &[Source], ours: &[Improvements]) -> Vec<Claim> {
    let papers: Vec<(&Source, &Improvements)> =
        sources.iter().zip(ours).filter(|(source, _)| source.row().is_some()).collect();
    let by_load =
        |load: usize| mean(papers.iter().flat_map(|(_, numbers)| numbers[load]).map(|number| number.mean));
    let means = [by_load(0), by_load(1), by_load(2)];
    let published: [f64; 3] = std::array::from_fn(|load| {
        mean(papers.iter().filter_map(|(source, _)| source.row()).flat_map(|row| row.improvement[load]))
    });
    let is_medium_best = means[1] > means[0] && means[1] > means[2];
    let n_negative = |load: usize| {
        papers.iter().flat_map(|(_, numbers)| numbers[load]).filter(|n| n.mean.round() < 0.0).count()
    };
    let negative = [n_negative(0), n_negative(1), n_negative(2)];
    let published_negative = std::array::from_fn(|load| {
        let negative = |row: &Row| row.improvement[load].iter().filter(|number| **number < 0.0).count();
        TABLE_4.iter().map(negative).sum::<usize>() as f64
    });
    let mut claims: Vec<Claim> = sources.iter().filter_map(load_before).collect();
    claims.extend([
        Claim::new(
            "table 4: improvement by load (low / medium / high), mean over what was run here; the largest is at \
             medium load",
            three(published),
            three(means),
            Verdict::of_sentence(is_medium_best, "another load has the largest mean here"),
        ),
        Claim::new(
            "table 4: TLA loses at low load only (numbers below zero at low / medium / high load)",
            three(published_negative),
            three(negative.map(|n| n as f64)),
            Verdict::of_sentence(negative[1] + negative[2] == 0, "it loses at a higher load too"),
        ),
    ]);
    claims
}

/// Compares the system load of a workload before it is scaled.
fn load_before(source: &Source) -> Option<Claim> {
    let (_, published) = LOADS_BEFORE.iter().find(|(name, _)| *name == source.name)?;
    let ours = source.workload.load(source.n_cores());
    let why = "the parameters of the paper's generator are not published";
    Some(Claim::new(
        format!("system load of {} before scaling", source.name),
        published.to_string(),
        format!("{ours:.2}"),
        Verdict::of_amount(*published, ours, 2, why),
    ))
}

fn three(numbers: [f64; 3]) -> String {
    // Rounding may give -0, which becomes 0.
    numbers.map(|number| format!("{:.0}", number.round() + 0.0)).join(" / ")
}

fn table(sources: &[Source], ours: &[Improvements]) -> Listing {
    let columns =
        ["workload", "from", "clusters", "SL at first", "SL", "SH", "published (%)", "ours (%)", "verdict"];
    let row = |(source, load, heterogeneity): (usize, usize, usize)| {
        let it = &sources[source];
        let published = it.row().map(|row| row.improvement[load][heterogeneity]);
        let ours = ours[source][load][heterogeneity];
        vec![
            it.name.clone().into(),
            it.origin.clone().into(),
            format!("{}×{}", it.n_clusters, it.cluster_cores).into(),
            Cell::Number(it.workload.load(it.n_cores()), 3),
            Cell::Number(LOADS[load], 2),
            Cell::Number(HETEROGENEITIES[heterogeneity], 1),
            published.map_or(Cell::Empty, |number| Cell::Number(number, 0)),
            Cell::Mean(ours, 1),
            published.map_or(Cell::Empty, |number| one(number, ours).word.text().into()),
        ]
    };
    Listing {
        name: "tla-table-4".into(),
        title: "Table 4: improvement of the average turnaround time, a verdict for each number".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: places(sources.len()).map(row).collect(),
    }
}

/// Makes the figure of means over heterogeneities, published and ours.
fn figure(sources: &[Source], ours: &[Improvements]) -> Figure {
    let mut series: Vec<(String, Vec<f64>)> = Vec::new();
    let papers: Vec<(&Row, &Improvements)> =
        sources.iter().zip(ours).filter_map(|(source, numbers)| Some((source.row()?, numbers))).collect();
    for (load, word) in LOAD_WORDS.iter().enumerate() {
        let published = papers.iter().map(|(row, _)| mean(row.improvement[load])).collect();
        series.push((format!("{word} load, published"), published));
        series.push((
            format!("{word} load, ours"),
            papers.iter().map(|(_, numbers)| mean(numbers[load].map(|number| number.mean))).collect(),
        ));
    }
    Figure {
        name: "tla-table-4".into(),
        title: "Paper 001, table 4: improvement by TLA over the best of the others, mean over SH".into(),
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
         equal speeds for SH 0; ± is over the vectors, not over other draws of the workload. TLA simulates 320 jobs behind the first, by fastest first.\n\n\
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

/// Formats a table of the logs that have no row in the paper.
fn of_other_logs(sources: &[Source], ours: &[Improvements]) -> String {
    let others = || sources.iter().zip(ours).filter(|(source, _)| source.row().is_none());
    if others().next().is_none() {
        return String::new();
    }
    let head = LOAD_WORDS.iter().zip(LOADS).map(|(word, load)| format!(" {word} (SL {load}) |"));
    let row = |(source, numbers): (&Source, &Improvements)| {
        let cells = numbers.iter().map(|of_load| format!(" {} |", three(of_load.map(|number| number.mean))));
        let clusters = format!("{}×{}", source.n_clusters, source.cluster_cores);
        format!("| {} | {clusters} |{}\n", source.name, cells.collect::<String>())
    };
    format!(
        "\nLogs of which the paper has no row, on 5 and on 10 clusters; improvement in % at SH 0 / 0.1 / 0.2:\n\n\
         | log | clusters |{}\n|---|---|---|---|---|\n{}",
        head.collect::<String>(),
        others().map(row).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::{Draws, judge};
    use crate::report::Word;

    /// E1 at medium load, as we found it: only the signs hold.
    #[test]
    fn signs_alone_are_no_same_order() {
        let of = |published, ours: [f64; 3]| judge(published, ours.map(|number| Draws::of([number])));
        let far = of([85.0, 87.0, 79.0], [7.0, 18.0, 14.0]);
        assert_eq!(far.word, Word::DirectionOnly);
        let told = "SH 0: the sign holds, the size does not: factor 12; SH 0.1: the sign holds, the size does not: \
                    factor 4.83; SH 0.2: the sign holds, the size does not: factor 5.64";
        assert_eq!(far.note, told);
        assert_eq!(of([34.0, 33.0, 31.0], [43.0, 41.0, 37.0]).word, Word::SameOrder);
        assert_eq!(of([42.0, 41.0, 35.0], [45.0, 45.0, 36.0]).word, Word::Within);
        assert_eq!(of([30.0, 31.0, 27.0], [-5.0, 31.0, 27.0]).word, Word::Not, "the worst counts");
    }
}
