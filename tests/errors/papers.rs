//! `reproduce`: a page with its tables and figures, the same bytes twice; what is asked wrongly is explained.

use std::{path::Path, process::Command};

use nix::sys::signal::Signal;
use tests::{Sandbox, until};

use crate::page::Page;

#[test]
fn papers_are_reproduced_and_bad_wishes_explained() {
    let mut page = Page::new("papers");
    page.ends("a paper", &["reproduce", "adaptive", "--quick", "--out", "one.md"], 0);
    page.ends("again", &["reproduce", "adaptive", "--quick", "--out", "again/one.md"], 0);
    let (first, second) = (page.sandbox.read("one.md"), page.sandbox.read("again/one.md"));
    let claim = "| threshold lambda (eq. 1) | 83333.3333 | 83333.3333 | exact |";
    assert!(first.contains(claim) && first.contains("(one/adaptive/gains-by-load.svg)"), "{first}");
    assert!(first == second, "the same seed wrote something else");
    for file in ["adaptive/cells.csv", "adaptive/gains-by-load.svg"] {
        let of = |folder: &str| page.sandbox.read(&format!("{folder}/{file}"));
        assert!(!of("one").is_empty() && of("one") == of("again/one"), "{file}");
    }
    let json = page.sandbox.run(&["reproduce", "adaptive", "--quick", "--json"]);
    let claims: serde_json::Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    let exact = |claim: &&serde_json::Value| claim["verdict"] == "exact";
    assert!(claims["claims"].as_array().is_some_and(|all| all.iter().filter(exact).count() >= 2), "{claims}");

    page.sandbox.write("logs/bad.swf", "1 0 0 10 4 -1 -1 4 10 -1 1 1 1 1 1 -1 -1\n");
    page.sandbox.write("a-file", "");
    let cases: &[(&str, &[&str])] = &[
        ("no paper of ours", &["reproduce", "montage"]),
        ("a folder as the page", &["reproduce", "adaptive", "--quick", "--out", "papers"]),
        ("no such logs", &["reproduce", "tla", "--quick", "--logs", "none"]),
        ("a truncated log", &["reproduce", "tla", "--quick", "--logs", "logs"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.ends("below a file", &["reproduce", "adaptive", "--quick", "--out", "a-file/x.md"], 3);
    page.close();
}

/// Names of all files in a folder and those in it.
fn files(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => names.extend(files(&entry.path())),
            false => names.push(entry.file_name().to_string_lossy().into_owned()),
        }
    }
    names
}

#[test]
fn an_interrupted_reproduction_says_what_is_done_and_leaves_no_half_page() {
    let sandbox = Sandbox::new();
    // Nobody writes this log, so whoever reads it waits.
    std::fs::create_dir(sandbox.path().join("logs")).expect("a folder");
    let pipe = Command::new("mkfifo").arg(sandbox.path().join("logs/never.swf")).status();
    assert!(pipe.expect("mkfifo is there").success());
    sandbox.write("papers.md", "what was there before\n");
    let papers = ["reproduce", "all", "--quick", "--logs", "logs"];
    let running = sandbox.start("reproduce", &papers);
    until("the first paper is done", || files(&sandbox.path().join("papers")).len() > 3);
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait(), Some(130));
    let said = sandbox.read("reproduce.err");
    let told =
        "interrupted during tla; tables and figures of fairness are written, the page papers.md is not";
    assert_eq!(said, format!("pilotfish: {told}\n"));
    assert_eq!(sandbox.read("papers.md"), "what was there before\n");
    assert_eq!(sandbox.read("reproduce.out"), "");
    let written = files(&sandbox.path().join("papers"));
    assert!(written.iter().all(|name| name.ends_with(".csv") || name.ends_with(".svg")), "{written:?}");
}

#[test]
fn a_reproduction_that_has_nothing_yet_ends_at_once_too() {
    let sandbox = Sandbox::new();
    let running = sandbox.start("reproduce", &["reproduce", "fairness"]);
    until("it has begun", || sandbox.path().join("papers").is_dir());
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait(), Some(130));
    assert_eq!(
        sandbox.read("reproduce.err"),
        "pilotfish: interrupted during fairness; nothing was written\n"
    );
    assert_eq!(files(&sandbox.path().join("papers")), Vec::<String>::new());
}
