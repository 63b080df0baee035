//! All-pairs: the policies at several scales, with files dealt evenly or at random, with and without cache.

use scheduler::policy::stealing::Stealing;

use super::{MDL, MLB, RLDS, machine, name, number, only_full, percent, run_all};
use crate::{
    matrix::{
        machine::{Outcome, Placement, Setting},
        published::{ALL_PAIRS_FLDS_200, N_CORES_MEASURED, N_FILES},
        workload::{Shape, Workload},
    },
    report::{Claim, Effort, Figure, Listing, Part, Progress, Shape as Drawing, Verdict, verdict::Side},
};

/// In all-pairs tt doubles after each move.
const FLDS: Stealing = Stealing::Flds { t_percent: 50, tt_ms: 10_000, is_adaptive: true };
const POLICIES: [Stealing; 5] = [FLDS, RLDS, MDL, MLB, Stealing::Lend];
/// Two policies that differ by less than this count as equal.
const TIE: f64 = 0.01;

struct Point {
    n_cores: u64,
    policy: Stealing,
    placement: Placement,
    has_cache: bool,
    outcome: Outcome,
}

/// The runs of all combinations.
struct Points(Vec<Point>);

impl Points {
    fn at(&self, n_cores: u64, policy: Stealing, placement: Placement, has_cache: bool) -> &Outcome {
        let is_it = |point: &&Point| {
            (point.n_cores, point.policy, point.placement, point.has_cache)
                == (n_cores, policy, placement, has_cache)
        };
        &self.0.iter().find(is_it).expect("all combinations were run").outcome
    }
}

pub(in crate::matrix) fn part(effort: Effort, seed: u64, progress: &dyn Progress) -> Part {
    let (scales, n_files): (&[u64], u64) =
        if effort == Effort::Full { (&[20, 64, 100, N_CORES_MEASURED], N_FILES) } else { (&[20, 64], 200) };
    let points = points(scales, n_files, seed, progress);
    let n_cores = scales[scales.len() - 1];
    let [with, without] = [true, false].map(|cache| points.at(n_cores, FLDS, Placement::Even, cache));
    let text = format!(
        "{n_files} files of 12 MB, each compared with each: {} tasks of 100 ms, the same at every scale. The tasks \
         are dealt evenly over the nodes at the start, in turns that are not in step with the files. t = 0.5; FLDS \
         starts with tt = 10 s, doubled after each move and halved back when there is nothing to move (the \
         halving is ours). Where files are drawn at random, some nodes have twice the mean of them; the \
         paper does not say how they lie, so that the claims are of files dealt evenly. One draw each.\n\n\
         With equal files the first one decides, so FLDS, RLDS and MDL send each task to its first file, and do \
         the same while no queue is longer than tt. What is lost against 100 % is the fetching of the second \
         files, {:.0} s of a node's card, during which a thread waits; no policy of this paper fetches ahead. \
         With cache FLDS takes {:.1} s at {n_cores} cores, without {:.1} s.",
        n_files * n_files,
        (n_files as f64) * Setting::default().transfer(super::super::published::FILE_BYTES).as_secs_f64(),
        with.makespan_s,
        without.makespan_s,
    );
    let bars = |placement| figure(&points, scales, placement);
    Part {
        title: "All-pairs".into(),
        text,
        claims: claims(&points, scales, effort),
        tables: vec![listing(&points)],
        figures: vec![bars(Placement::Even), bars(Placement::Random)],
    }
}

fn points(scales: &[u64], n_files: u64, seed: u64, progress: &dyn Progress) -> Points {
    let workload = Workload { shape: Shape::AllPairs, n_tasks: n_files * n_files, seed };
    let mut runs = Vec::new();
    for n_cores in scales {
        for placement in [Placement::Even, Placement::Random] {
            for has_cache in [true, false] {
                runs.extend(
                    POLICIES.map(|policy| {
                        (workload, Setting { placement, has_cache, ..machine(*n_cores, policy) })
                    }),
                );
            }
        }
    }
    let point = |((_, setting), outcome): (&(Workload, Setting), Outcome)| Point {
        n_cores: setting.n_cores(),
        policy: setting.policy,
        placement: setting.placement,
        has_cache: setting.has_cache,
        outcome,
    };
    Points(runs.iter().zip(run_all(&runs, progress)).map(point).collect())
}

fn claims(points: &Points, scales: &[u64], effort: Effort) -> Vec<Claim> {
    let n_cores = scales[scales.len() - 1];
    let efficiency =
        |policy, placement, has_cache| points.at(n_cores, policy, placement, has_cache).efficiency;
    let both = |policy, has_cache| {
        let [even, random] = [Placement::Even, Placement::Random].map(|p| efficiency(policy, p, has_cache));
        format!("{} (files dealt evenly), {} (at random), {n_cores} cores", percent(even), percent(random))
    };
    let [with, without] = [true, false].map(|cache| efficiency(FLDS, Placement::Even, cache));
    let hits = points.at(n_cores, FLDS, Placement::Even, true).hit_ratio();
    let published = 100.0 * ALL_PAIRS_FLDS_200;
    let at_200 = match effort {
        Effort::Full => {
            let why = "how the files lie and how fast the network is are not published";
            (both(FLDS, true), Verdict::of_amount(published, 100.0 * with, 1, why))
        }
        Effort::Quick => ("-".to_owned(), only_full("200 cores")),
    };
    let why = "without cache the card of a node limits it; its speed is not published";
    vec![
        Claim::new(
            "All-pairs with FLDS at 200 cores: efficiency",
            format!("{published:.1} %"),
            at_200.0,
            at_200.1,
        ),
        Claim::new(
            "Efficiency without cache (files dealt evenly)",
            "below 50 %",
            both(FLDS, false),
            Verdict::of_bound(Side::AtMost, 50.0, 100.0 * without, why),
        ),
        Claim::new(
            "Inputs found at hand, with cache",
            "above 80 %",
            percent(hits),
            Verdict::of_bound(Side::AtLeast, 80.0, 100.0 * hits, "fewer here"),
        ),
        order(points, scales, Placement::Even),
        order(points, scales, Placement::Random).of_ours(),
    ]
}

/// Claims FLDS > MDL > MLB, at every scale.
fn order(points: &Points, scales: &[u64], placement: Placement) -> Claim {
    let all =
        |n_cores: u64| [FLDS, MDL, MLB].map(|policy| points.at(n_cores, policy, placement, true).efficiency);
    let in_words: Vec<String> = scales
        .iter()
        .map(|n_cores| format!("{n_cores} cores: {}", all(*n_cores).map(percent).join(", ")))
        .collect();
    let is_first = scales.iter().all(|n| all(*n)[1..].iter().all(|other| all(*n)[0] >= other - TIE));
    let is_all = is_first && scales.iter().all(|n| all(*n)[1] >= all(*n)[2] - TIE);
    let how = if placement == Placement::Even { "dealt evenly" } else { "at random" };
    let why = if is_first {
        "FLDS is first or tied at every scale; MDL falls behind MLB where the node with most files has more work \
         than the mean"
    } else {
        "FLDS is not first or tied at every scale"
    };
    Claim::new(
        format!("Order of the policies in all-pairs, files {how} (ties within 1 point)"),
        "FLDS > MDL > MLB",
        in_words.join("; "),
        Verdict::of_sentence(is_all, why),
    )
}

fn listing(points: &Points) -> Listing {
    let columns = [
        "cores",
        "files",
        "cache",
        "policy",
        "run (s)",
        "efficiency (%)",
        "inputs at hand (%)",
        "fetched (GB)",
        "most tasks of a node / mean",
    ];
    let row = |point: &Point| {
        let outcome = &point.outcome;
        vec![
            number(point.n_cores as f64, 0),
            if point.placement == Placement::Even { "even" } else { "random" }.into(),
            if point.has_cache { "on" } else { "off" }.into(),
            name(point.policy).into(),
            number(outcome.makespan_s, 1),
            number(100.0 * outcome.efficiency, 1),
            number(100.0 * outcome.hit_ratio(), 1),
            number(outcome.traffic.bytes_fetched as f64 / 1e9, 0),
            number(outcome.most_to_mean, 2),
        ]
    };
    Listing {
        name: "all-pairs".into(),
        title: "All-pairs by scale, placement, cache and policy".into(),
        columns: columns.map(String::from).into(),
        rows: points.0.iter().map(row).collect(),
    }
}

fn figure(points: &Points, scales: &[u64], placement: Placement) -> Figure {
    let of = |policy, has_cache| {
        let value = |n: &u64| 100.0 * points.at(*n, policy, placement, has_cache).efficiency;
        scales.iter().map(value).collect::<Vec<f64>>()
    };
    let with_cache = POLICIES.map(|policy| (name(policy), of(policy, true)));
    let series = with_cache.into_iter().chain([("FLDS, no cache".to_owned(), of(FLDS, false))]);
    let (word, how) =
        if placement == Placement::Even { ("even", "dealt evenly") } else { ("random", "at random") };
    Figure {
        name: format!("all-pairs-{word}"),
        title: format!("Paper 004, all-pairs: efficiency, files {how}"),
        x_label: "cores".into(),
        y_label: "efficiency (%)".into(),
        shape: Drawing::Bars {
            categories: scales.iter().map(u64::to_string).collect(),
            series: series.collect(),
        },
    }
}
