//! `reproduce`: a page with its tables and figures, the same bytes twice; what is asked wrongly is explained.

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
