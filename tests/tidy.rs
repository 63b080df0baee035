//! The map is tested: paths, arrows between crates, lengths, and what must be absent.

#[path = "tidy/shape.rs"]
mod shape;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// One idea a file.
const FILE_LINES_MAX: usize = 800;
/// One reader's screen, more or less.
const FUNCTION_LINES_MAX: usize = 90;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the project").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file that git tracks or would track.
fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the project's files");
    let text = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    text.lines().filter(|path| root().join(path).exists()).map(str::to_owned).collect()
}

fn rust_files() -> Vec<String> {
    let files: Vec<String> = files().into_iter().filter(|path| path.ends_with(".rs")).collect();
    assert!(files.len() > 50, "the project has more Rust files than {}", files.len());
    files
}

#[test]
fn every_path_on_the_map_exists() {
    for page in
        ["ARCHITECTURE.md", "README.md", "docs/operations.md", "docs/operators.md", "docs/protocol.md"]
    {
        let text = read(page);
        let named = text.split('`').skip(1).step_by(2);
        let is_path = |word: &&str| {
            let first = word.split('/').next().unwrap_or("");
            let is_ours = root().join(first).is_dir() && !first.is_empty();
            word.contains('/') && is_ours && !word.contains([' ', '*', '{', '<'])
        };
        for path in named.filter(is_path) {
            assert!(root().join(path).exists(), "{page} names {path}, which does not exist");
        }
    }
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    for page in files().iter().filter(|path| path.ends_with(".md")) {
        let text = read(page);
        let folder = root().join(page).parent().expect("a file is in a folder").to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or("");
            let is_local = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            assert!(
                !is_local || folder.join(target).exists(),
                "{page} links to {target}, which does not exist"
            );
        }
    }
}

/// The workspace's crates that a `Cargo.toml` depends on, tests aside.
fn arrows(folder: &str, crates: &BTreeSet<String>) -> BTreeSet<String> {
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let mut section = String::new();
    let mut arrows = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.to_owned();
        }
        let name = line.split([' ', '.', '=']).next().unwrap_or("");
        if section == "[dependencies]" && crates.contains(name) {
            arrows.insert(name.to_owned());
        }
    }
    arrows
}

#[test]
fn arrows_between_crates_are_those_of_the_map() {
    let map = read("ARCHITECTURE.md");
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in map.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let words =
            |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let name = words(cells[1]).remove(0);
        let below = match cells[3] {
            "all above" => allowed.keys().cloned().collect(),
            cell => words(cell).into_iter().collect(),
        };
        allowed.insert(name, below);
    }
    let crates: BTreeSet<String> = allowed.keys().cloned().collect();
    assert_eq!(crates.len(), 9, "the map has a row for each crate");
    for (name, below) in &allowed {
        let found = arrows(name, &crates);
        assert!(found.is_subset(below), "{name} depends on {found:?}; the map allows {below:?}");
    }
}

#[test]
fn the_brain_depends_on_nothing_that_touches_the_world() {
    let manifest = read("scheduler/Cargo.toml");
    let dependencies = manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next());
    let names: Vec<&str> = dependencies
        .expect("it has dependencies")
        .lines()
        .filter_map(|line| {
            line.split([' ', '.', '=']).next().filter(|name| !name.is_empty() && !name.starts_with('#'))
        })
        .collect();
    assert_eq!(names, ["serde", "thiserror", "schemars"]);
}

#[test]
fn the_agent_carries_no_openssl_and_no_sqlite() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "agent", "-e", "normal", "--prefix", "none"])
        .current_dir(root())
        .output()
        .expect("cargo shows the agent's dependencies");
    let text = String::from_utf8_lossy(&tree.stdout);
    assert!(text.contains("reqwest"), "the agent's tree was read: {}", String::from_utf8_lossy(&tree.stderr));
    for unwanted in ["openssl v", "openssl-sys", "rusqlite", "libsqlite3", "native-tls"] {
        assert!(!text.contains(unwanted), "the agent depends on {unwanted}");
    }
}

#[test]
fn committed_effects_are_made_in_one_place() {
    for path in rust_files().iter().filter(|path| path.starts_with("manager/src/")) {
        let makes = read(path).contains("Committed(effects)");
        assert_eq!(makes, path == "manager/src/engine_loop/commit.rs", "{path}");
    }
}

#[test]
fn the_auditor_of_faults_knows_nothing_of_the_engines_state() {
    let mut n_files = 0;
    for path in rust_files().iter().filter(|path| path.starts_with("simulator/src/auditor/")) {
        let text = read(path);
        for unwanted in ["engine::state", "Durable", "engine::live", "Live", "Engine"] {
            assert!(!text.contains(unwanted), "{path}: {unwanted}");
        }
        n_files += 1;
    }
    assert!(n_files >= 4, "{n_files}");
}

#[test]
fn every_policy_is_a_file_with_a_word_and_a_line() {
    let page = read("docs/operations.md");
    for layer in ["matching", "bundling"] {
        let registry = read(&format!("scheduler/src/policy/{layer}/mod.rs"));
        let folder = root().join("scheduler/src/policy").join(layer);
        for entry in fs::read_dir(folder).expect("the layer has a folder") {
            let name = entry.expect("it can be listed").file_name().into_string().expect("UTF-8");
            let Some(word) = name.strip_suffix(".rs").filter(|word| *word != "mod") else { continue };
            assert!(registry.contains(&format!("mod {word};")), "{layer}/{name} is not in the registry");
            assert!(
                page.contains(&format!("`{word}`")),
                "docs/operations.md does not tell of {layer} `{word}`"
            );
        }
    }
}

#[test]
fn files_and_functions_stay_short() {
    let mut long = Vec::new();
    for path in rust_files() {
        let text = read(&path);
        let is_test = path.contains("/tests") || path.starts_with("tests/");
        let n_lines = text.split("#[cfg(test)]").next().unwrap_or("").lines().count();
        if n_lines > FILE_LINES_MAX && !is_test {
            long.push(format!("{path} has {n_lines} lines"));
        }
        let mut begun: Option<(usize, usize, String)> = None;
        // A table of cases in a test may be as long as it needs to be.
        let code = if is_test { "" } else { text.split("#[cfg(test)]").next().unwrap_or("") };
        for (n, line) in code.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let starts = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            let starts = starts.trim_start_matches("pub(super) ").trim_start_matches("async ");
            if begun.is_none() && (starts.starts_with("fn ") || starts.starts_with("unsafe fn ")) {
                begun = Some((n, indent, line.trim().to_owned()));
            }
            if let Some((from, level, name)) = &begun
                && indent == *level
                && (line.trim() == "}" || line.trim_end().ends_with(" {}") || line.trim_end().ends_with(';'))
            {
                if n - from > FUNCTION_LINES_MAX {
                    long.push(format!("{path}:{}: {} lines: {name}", from + 1, n - from));
                }
                begun = None;
            }
        }
    }
    assert!(long.is_empty(), "too long:\n{}", long.join("\n"));
}

#[test]
fn no_unfinished_business_is_left_in_the_code() {
    // Spelt in pieces, so that this file does not name them.
    let unwanted =
        [("to", "do!("), ("unimple", "mented!("), ("FIX", "ME"), ("#[ig", "nore"), ("should_", "panic")];
    for path in rust_files() {
        let text = read(&path);
        for (a, b) in unwanted {
            assert!(!text.contains(&format!("{a}{b}")), "{path} contains {a}{b}");
        }
    }
}

#[test]
fn tests_do_not_sleep() {
    for path in rust_files().iter().filter(|path| path.contains("tests")) {
        assert!(!read(path).contains(concat!("thread::", "sleep(")), "{path} sleeps");
    }
}
