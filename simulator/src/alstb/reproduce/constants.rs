//! The choices that equation 9 leaves open: c1, c2 and the task that is M; and the benefit of bundles.

use scheduler::policy::{
    bundling::by_estimate::{BinPacking, ByEstimate, Largest},
    matching::application::ByApplication,
};

use super::{MEASURES, Sizes, runs};
use crate::{
    alstb::{
        scene::{N_PROCESSORS, Setting},
        world::{self, Policies},
    },
    report::{Cell, Draws, Figure, Listing, Part, Progress, Shape},
};

const C1: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
const C2: [f64; 3] = [1.0, 10.0, 50.0];

/// Returns names and bundling policies; the first is the baseline for the others.
fn contenders() -> Vec<(String, ByEstimate)> {
    let paper = BinPacking::PAPER;
    let mut all = vec![("c1 = 1, c2 = 10, M waiting".to_owned(), ByEstimate::BinPacking(paper))];
    for (largest, word) in [(Largest::Waiting, "waiting"), (Largest::OfAll, "of the whole job")] {
        for (c1, c2) in C1.iter().flat_map(|c1| C2.map(|c2| (*c1, c2))) {
            let law = BinPacking { c1, c2, largest, ..paper };
            if law != paper {
                all.push((format!("c1 = {c1}, c2 = {c2}, M {word}"), ByEstimate::BinPacking(law)));
            }
        }
    }
    for (c1, c2) in [(1.0, 10.0), (1.0, 50.0), (4.0, 10.0)] {
        let law = BinPacking { c1, c2, is_tail_shrunk: true, ..paper };
        all.push((format!("c1 = {c1}, c2 = {c2}, M waiting, tail shrunk"), ByEstimate::BinPacking(law)));
    }
    all.push(("single".into(), ByEstimate::Single));
    all.extend([10, 100].map(|n_tasks| (format!("fixed, {n_tasks} tasks"), ByEstimate::Fixed { n_tasks })));
    all
}

pub(super) fn part(sizes: &Sizes, seed: u64, progress: &dyn Progress) -> Part {
    let contenders = contenders();
    let (n_nodes, n_applications, n_jobs) = sizes.scaled;
    let small = (sizes.n_tasks.0 / 4, sizes.n_tasks.0 / 4);
    let setting = |n_tasks| Setting {
        n_nodes,
        n_applications,
        n_jobs,
        n_tasks,
        n_processors: N_PROCESSORS,
        v_machine: 0.6,
        v_application: 0.6,
    };
    let settings = [setting(small), setting(sizes.n_tasks)];
    let all = runs::run(&settings, sizes.n_instances_of_constants, seed, progress, |scene| {
        let matching = ByApplication::Alstb;
        let outcomes = contenders.iter().map(|(_, bundling)| Policies { matching, bundling: *bundling });
        outcomes.map(|policies| world::run(scene, policies).measures()).collect()
    });
    let ratios: Vec<Vec<[Draws; 3]>> = all
        .iter()
        .map(|runs| (0..contenders.len()).map(|one| runs::spreads(runs, one, 0)).collect())
        .collect();
    let lowest = |size: usize, measure: usize| {
        let all = ratios[size].iter().zip(&contenders).map(|(ratio, (name, _))| (ratio[measure].mean, name));
        let (ratio, name) =
            all.reduce(|a, b| if b.0 < a.0 { b } else { a }).unwrap_or((1.0, &contenders[0].0));
        format!("{name} ({ratio:.2})")
    };
    let lowest_of = |size| (0..3).map(|m| format!("{} {}", MEASURES[m], lowest(size, m))).collect::<Vec<_>>();
    let text = format!(
        "The paper gives no values, so there is nothing to compare with. Scaled Fig. 5 d, ALSTB, {} instances; small \
         jobs of {} tasks, large ones of {} to {}. Ratios are to c1 = 1, c2 = 10 with M the largest task that \
         waits, which the other figures are run with. With c1 below 1 a bin may be too small for the largest task. \
         The shrinking tail, not in the paper, bounds a bin by half of what is left for each processor that works on the job; it is our \
         default. `single` and `fixed` are bundles of so many tasks, the largest first.\n\n\
         Lowest on small jobs: {}. Lowest on large jobs: {}.",
        sizes.n_instances_of_constants,
        small.0,
        sizes.n_tasks.0,
        sizes.n_tasks.1,
        lowest_of(0).join(", "),
        lowest_of(1).join(", ")
    );
    Part {
        title: "Equation 9: constants, and other bundles".into(),
        text,
        tables: vec![listing(&contenders, &ratios)],
        figures: vec![figure(&contenders, &ratios)],
        ..Part::default()
    }
}

fn listing(contenders: &[(String, ByEstimate)], ratios: &[Vec<[Draws; 3]>]) -> Listing {
    let heads = ["small jobs", "large jobs"];
    let heads = heads.into_iter().flat_map(|size| MEASURES.map(|measure| format!("{measure}, {size}")));
    let row = |(one, (name, _)): (usize, &(String, ByEstimate))| {
        let cells = ratios.iter().flat_map(|ratios| ratios[one]).map(|ratio| Cell::Mean(ratio, 3));
        [Cell::from(name.as_str())].into_iter().chain(cells).collect()
    };
    Listing {
        name: "constants".into(),
        title: "Bundles, as ratios to c1 = 1, c2 = 10, M waiting".into(),
        columns: ["bundles".to_owned()].into_iter().chain(heads).collect(),
        rows: contenders.iter().enumerate().map(row).collect(),
    }
}

/// Makes the figure by c1, at c2 = 10.
fn figure(contenders: &[(String, ByEstimate)], ratios: &[Vec<[Draws; 3]>]) -> Figure {
    let point = |c1: f64, size: usize, measure: usize| {
        let law = ByEstimate::BinPacking(BinPacking { c1, ..BinPacking::PAPER });
        let at = contenders.iter().position(|(_, bundling)| *bundling == law)?;
        Some((c1, ratios[size][at][measure].mean))
    };
    let line = |size: usize, measure: usize| C1.iter().filter_map(|c1| point(*c1, size, measure)).collect();
    let series = [(0, "small jobs"), (1, "large jobs")]
        .into_iter()
        .flat_map(|(size, word)| (0..3).map(move |measure| (size, measure, word)));
    let series =
        series.map(|(size, measure, word)| (format!("{}, {word}", MEASURES[measure]), line(size, measure)));
    Figure {
        name: "constants-c1".into(),
        title: "Ours, equation 9 of paper 002: size of bundles, c1 at c2 = 10".into(),
        x_label: "c1".into(),
        y_label: "ratio to c1 = 1".into(),
        shape: Shape::Lines { series: series.collect(), is_log_x: true, is_log_y: false },
    }
}
