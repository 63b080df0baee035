//! Tests that the paper's statements hold here on small sizes, and that equal seeds give equal reports.

use super::*;
use crate::report::{Shape, Word};

#[test]
fn the_same_seed_gives_the_same_report() {
    let text = |seed| format!("{:?}", reproduce(Effort::Quick, seed, &()));
    let first = text(1);
    assert_eq!(first, text(1));
    assert_ne!(first, text(2));
    assert!(!first.contains("NaN"), "{first}");
}

#[test]
fn every_row_has_a_cell_for_each_column_and_every_series_a_value_for_each_category() {
    for part in reproduce(Effort::Quick, 1, &()).parts {
        for table in &part.tables {
            assert!(!table.rows.is_empty());
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
        }
        for figure in &part.figures {
            match &figure.shape {
                Shape::Bars { categories, series } => {
                    assert!(series.iter().all(|(_, values)| values.len() == categories.len()));
                }
                Shape::Lines { series, .. } => assert!(series.iter().all(|(_, points)| points.len() > 1)),
            }
        }
    }
}

#[test]
fn three_sentences_of_figure_4_and_twelve_of_figure_5_count() {
    let report = reproduce(Effort::Quick, 1, &());
    let by_part: Vec<usize> = report.parts.iter().map(|part| part.claims.len()).collect();
    assert_eq!(by_part, [0, 3, 12, 0, 0]);
    assert_eq!(report.claims().count(), 15);
    let counted: usize = Word::ALL.into_iter().map(|word| report.count(word)).sum();
    assert_eq!(counted, 15);
}

/// Runs Fig. 5's settings at a fifth of the scaled size, with so many instances that chance decides nothing
/// below.
fn fig5() -> Vec<runs::Runs> {
    let sizes =
        Sizes { n_instances: 30, scaled: (40, 20, 40), n_tasks: (200, 1000), ..Sizes::of(Effort::Quick) };
    fig5::run(&sizes, crate::alstb::scene::N_PROCESSORS, 1, &())
}

#[test]
fn what_holds_in_figure_5() {
    for runs in fig5() {
        let ratios = |contender| runs::ratios(&runs, contender, 0);
        let (max_std, soonest) = (ratios(3), ratios(5));
        assert!(max_std.iter().all(|ratio| *ratio > 1.0), "ALSTB beats R-MaxStd: {max_std:?}");
        assert!(soonest[2] < 1.0, "soonest has the lower flowtime: {soonest:?}");
        let of_ni = runs::ratios(&runs, 5, 4);
        assert!(of_ni[1] < 1.0, "jobs end sooner than by NI alone: {of_ni:?}");
    }
}
