use super::*;
use crate::report::{Shape, Verdict};

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
    let verdict = |part: &str, what: &str| -> Verdict {
        let parts = report.parts.iter().filter(|one| one.title.contains(part));
        let mut claims = parts.flat_map(|part| &part.claims);
        claims.find(|claim| claim.what.contains(what)).expect("it is claimed").verdict.clone()
    };
    assert_eq!(verdict("example", "threshold"), Verdict::Exact);
    assert_eq!(verdict("example", "W after LOAD"), Verdict::Exact);
    assert!(matches!(verdict("example", "only the cluster"), Verdict::Not { .. }));
    assert_eq!(verdict("Gains", "average throughput"), Verdict::SameOrder);
    assert!(matches!(verdict("Gains", "mean of the twelve"), Verdict::Not { .. }));
    for remark in [
        "never rests",
        "ratchet",
        "climbs",
        "LOAD alone",
        "costs throughput",
        "sound laws beat",
        "a law that beats",
    ] {
        assert_eq!(verdict("sound", remark), Verdict::SameOrder, "{remark}");
    }
    assert_eq!(verdict("Other loads", "measured beats"), Verdict::SameOrder);
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
