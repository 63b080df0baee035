use std::{fs, path::PathBuf};

use super::{reproduce, reproduce_with_logs};
use crate::report::{Effort, Report, Verdict};

/// A folder of its own for each test, gone with it.
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

fn verdicts(report: &Report, words: &str) -> Vec<Verdict> {
    let claims = report.parts.iter().flat_map(|part| &part.claims);
    claims.filter(|claim| claim.what.contains(words)).map(|claim| claim.verdict.clone()).collect()
}

#[test]
fn the_same_seed_makes_the_same_report_and_its_claims_are_judged() {
    let report = reproduce(Effort::Quick, 1, &());
    assert_eq!(format!("{report:?}"), format!("{:?}", reproduce(Effort::Quick, 1, &())));
    // The worked example comes out but for the one number that contradicts figure 9, and its mean.
    let example = &report.parts[0].claims;
    let n_exact = example.iter().filter(|claim| claim.verdict == Verdict::Exact).count();
    assert_eq!((n_exact, example.len()), (12, 14));
    // Twelve workloads at three loads; six of them are logs.
    let rows = verdicts(&report, "SH 0 / 0.1 / 0.2");
    let is_not_run =
        |verdict: &&Verdict| matches!(verdict, Verdict::Not { why } if why.starts_with("not run"));
    assert_eq!((rows.len(), rows.iter().filter(is_not_run).count()), (36, 18));
    assert_eq!(verdicts(&report, "BF, FF and AI2 do not depend"), [Verdict::Exact]);
}

#[test]
fn logs_of_a_folder_are_run_or_refused() {
    let line = |n: u32| {
        format!("{n} {} 0 {} {} 0 0 0 0 0 1 1 1 1 1 1 -1 -1\n", n * 50, 400 + n % 7 * 300, 1 + n % 5)
    };
    let log = format!("; MaxProcs: 8\n{}", (1..60).map(line).collect::<String>());
    let good = Folder::new("logs", &[("SDSC-SP2-1998.swf", &log), ("mine.swf", &log), ("notes.txt", "none")]);
    let report = reproduce_with_logs(Effort::Quick, 1, &(), Some(&good.0)).unwrap();
    let not_run = verdicts(&report, "SH 0 / 0.1 / 0.2").into_iter();
    assert_eq!(
        not_run
            .filter(|verdict| matches!(verdict, Verdict::Not { why } if why.starts_with("not run")))
            .count(),
        12
    );
    assert_eq!(report.parts[1].tables[0].rows.len(), 9 * (6 + 4));
    let bad = Folder::new("bad-logs", &[("cut.swf", &log[..log.len() - 12])]);
    let error = reproduce_with_logs(Effort::Quick, 1, &(), Some(&bad.0)).unwrap_err().to_string();
    assert!(error.contains("cut.swf, line 60: found 13 fields, expected 18"), "{error}");
}
