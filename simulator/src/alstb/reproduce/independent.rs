//! Fig. 4 compared with an independent computation of the same model, and the reason why the two differ.

use super::{
    MEASURES, Sizes,
    fig5::{OTHER_NODES, in_words},
    heuristics::{HEURISTICS, Points},
};
use crate::{
    alstb::{published::INDEPENDENT_OF_FIG_4, scene::N_PROCESSORS},
    report::{Cell, Draws, Listing, Verdict, Word},
};

/// Returns the independent and our ratio for each number of tasks and heuristic, for one metric.
fn pairs(points: &Points, measure: usize) -> Vec<(f64, Draws)> {
    let of_point = |(at, (_, ours)): (usize, &(u64, Vec<[Draws; 3]>))| {
        let theirs = INDEPENDENT_OF_FIG_4[at][measure];
        (0..HEURISTICS.len()).map(|one| (theirs[one], ours[one][measure])).collect::<Vec<_>>()
    };
    points.iter().enumerate().flat_map(of_point).collect()
}

pub(super) fn text(sizes: &Sizes, chosen: &Points, others: &Points) -> String {
    let counts = |points: &Points| {
        let of_measure = |measure: usize| {
            let pairs = pairs(points, measure);
            let is_near = |(theirs, ours): &&(f64, Draws)| {
                Verdict::of_amount(*theirs, ours.mean, 2, "").word <= Word::Within
            };
            format!("{} of {} {}s", pairs.iter().filter(is_near).count(), pairs.len(), MEASURES[measure])
        };
        [0, 1, 2].map(of_measure).join(", ")
    };
    let (_, first) = &chosen[0];
    let to_max_std = |one: usize| first[one][0].mean / first[2][0].mean;
    format!(
        "An independent computation of this figure (ten instances) gave other sizes for the same sentences; the \
         third table has both. Within a tenth of it are {} on nodes of {}, and {} on nodes of {} ({} instances). What \
         is known of the difference:\n\n\
         - The processors of a node are published nowhere, and all ratios hang on them, for a task-level heuristic \
         leaves all but one of them idle. Flowtimes come nearer on nodes of {}.\n\
         - Instances differ by much: see the deviations. A mean of ten is uncertain by a third of them.\n\
         - At few tasks its MinMin ends as soon as its MaxStd (makespans 0.92 / 0.89), and here MinMin takes {:.2} times \
         as long and Sufferage {:.2} times. A task of up to 1,000 s that goes last, as MinMin has it, must cost that much \
         with ten tasks a node. We had these heuristics written a second time from their description by another program: \
         2.13 and 1.15 times on eight instances. Other caps of the power law, rates drawn directly, one job after the \
         other, no overhead, or two jobs of each application did not bring MinMin down to MaxStd's, nearly equal tasks \
         (50 to 200 s) came nearest, with 1.25. So the estimates of the independent computation had shorter tails than \
         its description says, as far as we can tell; an error of ours was not found.\n\
         - Its Sufferage is a tenth to a quarter worse than its MaxStd in every measure, here they are near each other: \
         not explained.",
        counts(chosen),
        in_words(N_PROCESSORS),
        counts(others),
        in_words(OTHER_NODES[0]),
        sizes.n_instances,
        in_words(OTHER_NODES[0]),
        to_max_std(0),
        to_max_std(1),
    )
}

pub(super) fn listing(chosen: &Points, others: &Points) -> Listing {
    let heads = HEURISTICS.iter().flat_map(|(name, _)| {
        [format!("{name}, independent"), format!("{name}, here"), format!("{name}, other nodes")]
    });
    let mut rows = Vec::new();
    for measure in 0..MEASURES.len() {
        for (at, ((n, chosen), (_, others))) in chosen.iter().zip(others).enumerate() {
            let mut row = vec![MEASURES[measure].into(), Cell::Number(*n as f64, 0)];
            for one in 0..HEURISTICS.len() {
                row.push(Cell::Number(INDEPENDENT_OF_FIG_4[at][measure][one], 2));
                row.extend([chosen, others].map(|ours| Cell::Mean(ours[one][measure], 2)));
            }
            rows.push(row);
        }
    }
    Listing {
        name: "fig4-independent".into(),
        title: format!(
            "Fig. 4 beside an independent computation, ratios to ALSTB; other nodes have {}",
            in_words(OTHER_NODES[0])
        ),
        columns: ["measure", "tasks a job"].into_iter().map(str::to_owned).chain(heads).collect(),
        rows,
    }
}
