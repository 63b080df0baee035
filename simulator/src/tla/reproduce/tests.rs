use std::{fs, path::PathBuf};

use super::{reproduce, reproduce_with_logs};
use crate::report::{Effort, Report, Source, Word};

/// A directory of its own for each test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let folder = std::env::temp_dir().join(format!("pilotfish-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for a test");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file for a test");
        }
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn verdicts(report: &Report, words: &str) -> Vec<Word> {
    report.claims().filter(|claim| claim.what.contains(words)).map(|claim| claim.verdict.word).collect()
}

fn n_not_run(words: &[Word]) -> usize {
    words.iter().filter(|word| **word == Word::NotRun).count()
}

#[test]
fn the_same_seed_makes_the_same_report_and_its_claims_are_judged() {
    let report = reproduce(Effort::Quick, 1, &());
    assert_eq!(format!("{report:?}"), format!("{:?}", reproduce(Effort::Quick, 1, &())));
    // The worked example is reproduced except for the one number that contradicts figure 9, and its mean.
    let example = &report.parts[0].claims;
    let n_exact = example.iter().filter(|claim| claim.verdict.word == Word::Exact).count();
    assert_eq!((n_exact, example.len()), (12, 14));
    // Twelve workloads at three loads; six of them are logs.
    let rows = verdicts(&report, "SH 0 / 0.1 / 0.2");
    assert_eq!((rows.len(), n_not_run(&rows)), (36, 18));
    assert_eq!(verdicts(&report, "BF, FF and AI2 do not depend"), [Word::Exact]);
    // The example, table 4 with two loads and two sentences, depths, estimates, inner policies.
    let by_part: Vec<usize> = report.parts.iter().map(|part| part.claims.len()).collect();
    assert_eq!(by_part, [14, 36 + 4, 2, 2, 2]);
    assert!(report.parts.iter().flat_map(|part| &part.claims).all(|claim| claim.source == Source::Paper));
    assert_eq!((report.claims().count(), report.count(Word::NotRun)), (60, 18));
}

#[test]
fn logs_of_a_folder_are_run_or_refused() {
    let line = |n: u32| {
        format!("{n} {} 0 {} {} 0 0 0 0 0 1 1 1 1 1 1 -1 -1\n", n * 50, 400 + n % 7 * 300, 1 + n % 5)
    };
    let log = format!("; MaxProcs: 8\n{}", (1..60).map(line).collect::<String>());
    let good = Folder::new("logs", &[("SDSC-SP2-1998.swf", &log), ("mine.swf", &log), ("notes.txt", "none")]);
    let report = reproduce_with_logs(Effort::Quick, 1, &(), Some(&good.0)).unwrap();
    assert_eq!(n_not_run(&verdicts(&report, "SH 0 / 0.1 / 0.2")), 12);
    assert_eq!(report.parts[1].tables[0].rows.len(), 9 * (6 + 4));
    let of_mine: Vec<&str> =
        report.parts[1].text.lines().filter(|line| line.starts_with("| mine ")).collect();
    let begins = ["| mine 1 | 5×8 |", "| mine 2 | 10×8 |"];
    assert_eq!(of_mine.len(), 2);
    assert!(of_mine.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{of_mine:?}");
    let bad = Folder::new("bad-logs", &[("cut.swf", &log[..log.len() - 12])]);
    let error = reproduce_with_logs(Effort::Quick, 1, &(), Some(&bad.0)).unwrap_err().to_string();
    assert!(error.contains("cut.swf:60: found 13 fields; a line has 18"), "{error}");
}
