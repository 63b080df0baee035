//! What others have written that goes into the programs: its licences, what is known against it, and how much of our own
//! code the compiler does not check.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the project").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The licences that deny.toml allows.
fn allowed() -> BTreeSet<String> {
    let text = read("deny.toml");
    let list = text.split("[licenses]").nth(1).and_then(|rest| rest.split("allow = [").nth(1));
    let list = list.and_then(|rest| rest.split(']').next()).expect("deny.toml has a list of licences");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether an expression of SPDX (`MIT OR (Apache-2.0 AND ISC)`) can be met with what is allowed. Exceptions (`WITH`)
/// only give more rights. A slash is how crates wrote `OR` once.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let is_met = any(&words, &mut at, allowed);
    assert_eq!(at, words.len(), "{expression} is read to its end");
    is_met
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut is_met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        is_met |= all(words, at, allowed);
    }
    is_met
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut is_met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        is_met &= one(words, at, allowed);
    }
    is_met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let word = *words.get(*at).expect("a licence");
    *at += 1;
    if word == "(" {
        let is_met = any(words, at, allowed);
        assert_eq!(words.get(*at), Some(&")"), "it is closed");
        *at += 1;
        return is_met;
    }
    if words.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    allowed.contains(word)
}

#[test]
fn expression_of_licences_is_read_as_it_is_meant() {
    let allowed: BTreeSet<String> = ["MIT", "ISC", "Apache-2.0"].map(str::to_owned).into();
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only/MIT", true),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR GPL-2.0-only) AND ISC", true),
        ("GPL-2.0-only OR MIT AND MPL-2.0", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
        ("MPL-2.0 AND (MIT OR ISC)", false),
    ] {
        assert_eq!(is_met(expression, &allowed), expected, "{expression}");
    }
}

/// Packages of the registry that are built on this kind of machine. Those of other systems need not be here.
fn packages() -> Vec<Value> {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc says what it is");
    let said = String::from_utf8_lossy(&rustc.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).expect("its host");
    let found = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host])
        .current_dir(root())
        .output()
        .expect("cargo tells the packages");
    let told: Value = serde_json::from_slice(&found.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&found.stderr)));
    let all = told["packages"].as_array().cloned().unwrap_or_default();
    all.into_iter().filter(|package| !package["source"].is_null()).collect()
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let (packages, allowed) = (packages(), allowed());
    assert!(packages.len() > 100 && allowed.contains("MIT"), "{} packages", packages.len());
    let mut wrong = Vec::new();
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_met(licence, &allowed) {
            wrong.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    assert!(wrong.is_empty(), "not allowed by deny.toml:\n{}", wrong.join("\n"));
}

/// Major, minor and patch; what is left out is 0, and what comes after these is not looked at.
fn version(text: &str) -> [u64; 3] {
    let text = text.trim().split(['-', '+']).next().unwrap_or("");
    let mut numbers = text.split('.').map(|number| number.trim().parse().expect("a number"));
    [(); 3].map(|()| numbers.next().unwrap_or(0))
}

/// Whether a version is one of `>= 1.2, < 1.5` and the like.
fn is_one_of(found: [u64; 3], wanted: &str) -> bool {
    wanted.split(',').map(str::trim).all(|part| {
        let digits = part.find(|sign: char| sign.is_ascii_digit()).unwrap_or(part.len());
        let (sign, than) = (part[..digits].trim(), version(&part[digits..]));
        let next = match than {
            [0, 0, patch] => [0, 0, patch + 1],
            [0, minor, _] => [0, minor + 1, 0],
            [major, ..] => [major + 1, 0, 0],
        };
        match sign {
            ">=" => found >= than,
            ">" => found > than,
            "<" => found < than,
            "<=" => found <= than,
            "=" => found == than,
            "" | "^" => found >= than && found < next,
            other => panic!("{other} in {wanted}"),
        }
    })
}

#[test]
fn version_is_compared_as_advisories_mean_it() {
    for (found, wanted, expected) in [
        ("1.0.105", ">= 1.0.103", true),
        ("1.0.99", ">= 1.0.103", false),
        ("300.6.1+3.6.3", ">= 111.25, < 300.0", false),
        ("0.20.5", "^0.20.2", true),
        ("0.21.0", "^0.20.2", false),
        ("2.0.1", "^1.4", false),
        ("0.14.5", "< 0.15.0", true),
    ] {
        assert_eq!(is_one_of(version(found), wanted), expected, "{found} {wanted}");
    }
}

/// Versions of the registry's crates in Cargo.lock.
fn locked() -> BTreeMap<String, Vec<String>> {
    let text = read("Cargo.lock");
    let mut locked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in text.split("[[package]]").filter(|package| package.contains("\nsource = ")) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
            line.and_then(|rest| rest.split('"').next()).expect("a field").to_owned()
        };
        locked.entry(field("name")).or_default().push(field("version"));
    }
    locked
}

#[test]
fn no_dependency_is_of_a_version_with_a_known_advisory() {
    let (list, locked) = (read("tests/advisories/list"), locked());
    assert!(list.contains("\n# database: ") && list.contains("\n# looked at: 20"), "it has its dates");
    let (mut n_looked_at, mut wrong) = (0, Vec::new());
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.starts_with("crate ")) {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let (name, advisory) = (words[0], words[1]);
        for found in locked.get(name).into_iter().flatten() {
            n_looked_at += 1;
            let sound = words.get(3).copied().unwrap_or("");
            if !sound.split(';').any(|wanted| !wanted.is_empty() && is_one_of(version(found), wanted)) {
                wrong.push(format!("{name} {found}: {advisory}; versions without it: {sound}"));
            }
        }
    }
    assert!(n_looked_at > 50, "{n_looked_at}");
    assert!(
        wrong.is_empty(),
        "take another version, or say in the list why it does not matter:\n{}",
        wrong.join("\n")
    );
    // A crate that is new was not looked for in the database. Who has that at hand looks; nobody is stopped without it.
    let known: BTreeSet<&str> = list.lines().filter_map(|line| line.strip_prefix("crate ")).collect();
    let new: Vec<&String> = locked.keys().filter(|name| !known.contains(name.as_str())).collect();
    if !new.is_empty() {
        tests::skipped(&format!("advisories about {new:?}: run tests/advisories/update with the database"));
    }
}

/// Where each crate's own code is not checked by the compiler: blocks, functions and implementations.
fn unsafe_places() -> BTreeMap<String, usize> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    let (mut places, mut silent): (BTreeMap<String, usize>, Vec<String>) = Default::default();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for (n, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let Some(at) = code.find(concat!("un", "safe ")).filter(|at| !code[..*at].contains('"')) else {
                continue;
            };
            *places.entry(path.split('/').next().unwrap_or("").to_owned()).or_default() += 1;
            let begins = &code[at + 7..];
            let has_caller = begins.starts_with("fn ") || begins.starts_with("extern ");
            let above = &lines[n.saturating_sub(8)..=n];
            if !has_caller && !above.iter().any(|line| line.contains("SAFETY: ")) {
                silent.push(format!("{path}:{}: {}", n + 1, line.trim()));
            }
        }
    }
    assert!(silent.is_empty(), "no `SAFETY:` says why this is sound:\n{}", silent.join("\n"));
    places
}

#[test]
fn every_unsafe_place_is_counted_and_says_why_it_is_sound() {
    let page = read("docs/internals/dependencies.md");
    let told: BTreeMap<String, usize> = page
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
            Some((cells[0].trim_matches('`').to_owned(), cells[1].parse().ok()?))
        })
        .collect();
    assert_eq!(told, unsafe_places(), "docs/internals/dependencies.md tells how many there are");
}
