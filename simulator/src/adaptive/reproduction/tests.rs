use super::*;
use crate::report::{Shape, Source, Word};

#[test]
fn the_same_seed_gives_the_same_report() {
    let words = |seed| format!("{:?}", report(Effort::Quick, seed, &()));
    let first = words(1);
    assert_eq!(first, words(1));
    assert_ne!(first, words(2));
    assert!(!first.contains("NaN"), "a number is missing");
}

#[test]
fn what_must_hold_holds_in_the_report() {
    let report = report(Effort::Quick, 7, &());
    let verdict = |part: &str, what: &str| -> Word {
        let parts = report.parts.iter().filter(|one| one.title.contains(part));
        let mut claims = parts.flat_map(|part| &part.claims);
        claims.find(|claim| claim.what.contains(what)).expect("it is claimed").verdict.word
    };
    assert_eq!(verdict("example", "threshold"), Word::Exact);
    assert_eq!(verdict("example", "W after LOAD"), Word::Exact);
    assert_eq!(verdict("example", "only the cluster"), Word::Not);
    assert_eq!(verdict("Gains", "average throughput"), Word::DirectionOnly);
    assert_eq!(verdict("Gains", "mean of the twelve"), Word::Not);
    for remark in [
        "never rests",
        "ratchet",
        "climbs",
        "LOAD alone",
        "costs throughput",
        "sound laws beat",
        "a law that beats",
    ] {
        assert_eq!(verdict("sound", remark), Word::Holds, "{remark}");
    }
    assert_eq!(verdict("Other loads", "measured beats"), Word::Holds);
}

#[test]
fn remarks_of_ours_and_other_computations_do_not_count() {
    let report = report(Effort::Quick, 1, &());
    let n_of = |source| -> Vec<usize> {
        let of_part = report.parts.iter().map(|part| &part.claims);
        of_part.map(|claims| claims.iter().filter(|claim| claim.source == source).count()).collect()
    };
    // The example; three gains, their order and three times all cells.
    assert_eq!(n_of(Source::Paper), [4, 7, 0, 0, 0, 0]);
    // A mean, four computations; nine remarks; two orders.
    assert_eq!(n_of(Source::Ours), [0, 5, 9, 0, 0, 2]);
    assert_eq!(report.claims().count(), 11);
    assert_eq!(report.count(Word::Exact), 2);
}

#[test]
fn tables_are_rectangles_and_lines_ascend() {
    let report = report(Effort::Quick, 3, &());
    for table in report.parts.iter().flat_map(|part| &part.tables) {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
    }
    for figure in report.parts.iter().flat_map(|part| &part.figures) {
        match &figure.shape {
            Shape::Bars { categories, series } => {
                assert!(series.iter().all(|(_, values)| values.len() == categories.len()), "{}", figure.name);
            }
            Shape::Lines { series, .. } => {
                for (name, points) in series {
                    assert!(
                        points.len() > 1 && points.is_sorted_by(|a, b| a.0 <= b.0),
                        "{} {name}",
                        figure.name
                    );
                }
            }
        }
    }
}
