//! Three stages over random sweeps, in random orders, beside an evaluation that compares values only.

use std::fmt::Write as _;

use proptest::prelude::*;
use scheduler::ranges::TaskSet;

use crate::job::author::{JobFile, load_file_text};
use crate::job::{OutputTarget, WorkflowSpec};
use crate::sweep::Sweep;

/// Parameters that go in step, each with its values.
type Entry = Vec<(&'static str, Vec<String>)>;

/// A product of entries: each parameter of a pool once, alone or in step with others.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let names = Just(vec!["a", "b", "c", "d"]).prop_shuffle();
    let sizes = prop::collection::vec(1..3usize, 2..4);
    let values = Just(vec!["1", "2", "10", "x"]).prop_shuffle();
    let columns = prop::collection::vec(values, 4);
    (names, sizes, prop::collection::vec(1..4usize, 4), columns).prop_map(
        |(names, sizes, lengths, columns)| {
            let mut left = names.into_iter().zip(columns);
            let entry = |(n, length): (usize, usize)| {
                let of_it = left.by_ref().take(n);
                of_it
                    .map(|(name, values)| {
                        (name, values.into_iter().take(length).map(str::to_owned).collect())
                    })
                    .collect()
            };
            sizes.into_iter().zip(lengths).map(entry).filter(|entry: &Entry| !entry.is_empty()).collect()
        },
    )
}

/// Some of the entries, in another order, with rows in another order, and some rows or columns fewer.
fn fewer(entries: Vec<Entry>) -> impl Strategy<Value = Vec<Entry>> {
    let n_rows = |entry: &Entry| entry[0].1.len();
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| (Just((0..n_rows(entry)).collect::<Vec<_>>()).prop_shuffle(), 0..3usize, any::<bool>()))
        .collect();
    let entries = entries.into_iter().zip(rows).map(|(entry, (rows, n_out, is_cut))| {
        (rows, n_out, is_cut).prop_map(move |(mut rows, n_out, is_cut)| {
            rows.truncate(rows.len().saturating_sub(n_out / 2).max(1));
            let mut entry: Entry = entry.clone();
            if is_cut {
                entry.truncate(1);
            }
            for (_, values) in &mut entry {
                *values = rows.iter().map(|row| values[*row].clone()).collect();
            }
            entry
        })
    });
    (Just(()), entries.collect::<Vec<_>>()).prop_flat_map(|((), entries)| {
        let n = entries.len();
        (Just(entries).prop_shuffle(), 1..=n).prop_map(|(mut entries, n)| {
            entries.truncate(n);
            entries
        })
    })
}

fn chain() -> impl Strategy<Value = [Vec<Entry>; 3]> {
    entries().prop_flat_map(|one| {
        (Just(one.clone()), fewer(one)).prop_flat_map(|(one, two)| {
            (Just(one), Just(two.clone()), fewer(two)).prop_map(|(one, two, three)| [one, two, three])
        })
    })
}

fn names(entries: &[Entry]) -> Vec<&'static str> {
    entries.iter().flatten().map(|(name, _)| *name).collect()
}

fn sweep_text(entries: &[Entry]) -> String {
    let column = |(name, values): &(&str, Vec<String>)| format!("{name}: [{}]", values.join(", "));
    let mut text = String::new();
    let mut zips = Vec::new();
    for entry in entries {
        let columns: Vec<String> = entry.iter().map(column).collect();
        match columns.len() {
            1 => write!(text, "{}, ", columns[0]).unwrap(),
            _ => zips.push(format!("{{{}}}", columns.join(", "))),
        }
    }
    if !zips.is_empty() {
        write!(text, "zip: [{}]", zips.join(", ")).unwrap();
    }
    format!("{{{text}}}")
}

/// What each leaves has its values in the name; the next stage writes `*` for those that it does not have, and for
/// `hidden`.
fn file_text(chain: &[Vec<Entry>; 3], hidden: Option<&str>) -> String {
    let mut text = "stages:\n".to_owned();
    for (at, entries) in chain.iter().enumerate() {
        let folder: Vec<String> = names(entries).iter().map(|name| format!("{{{name}}}")).collect();
        let output = match at {
            0 => "from: \"part*\"",
            _ => "from: o",
        };
        writeln!(text, "  s{at}:\n    command: x\n    sweep: {}", sweep_text(entries)).unwrap();
        let file = if at == 0 { "" } else { "/o" };
        writeln!(text, "    outputs: [{{{output}, to: \"s{at}/{}/{{index}}{file}\"}}]", folder.join("/"))
            .unwrap();
        let Some(before) = at.checked_sub(1) else { continue };
        let own = names(entries);
        let part = |name: &&str| match own.contains(name) && (at != 1 || hidden != Some(*name)) {
            true => format!("{{{name}}}"),
            false => "*".to_owned(),
        };
        let pattern: Vec<String> = names(&chain[before]).iter().map(part).collect();
        writeln!(text, "    after: {{stage: s{before}, tasks: groups}}").unwrap();
        writeln!(text, "    inputs: [\"stage:s{before}/s{before}/{}/*/*\"]", pattern.join("/")).unwrap();
    }
    text
}

fn load(text: &str) -> Result<WorkflowSpec, String> {
    match load_file_text(text, "flow.yaml", std::path::Path::new("/")) {
        Ok(JobFile::Workflow(workflow)) => Ok(workflow),
        Ok(JobFile::Job(_)) => panic!("it is one job"),
        Err(problems) => Err(problems.iter().map(|problem| format!("{problem}\n")).collect()),
    }
}

fn values(sweep: &Sweep, task: u64, names: &[&str]) -> Vec<String> {
    let all = sweep.parameters(task);
    names.iter().map(|name| all.value(name).unwrap().to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn each_stage_takes_what_tasks_with_its_values_leave(chain in chain()) {
        let text = file_text(&chain, None);
        let workflow = load(&text).map_err(|said| TestCaseError::fail(format!("{text}{said}")))?;
        prop_assert_eq!(workflow.validate(), []);
        for (at, entries) in chain.iter().enumerate().skip(1) {
            let (own, on) = (&workflow.stages[at].job, &workflow.stages[at - 1].job);
            let common: Vec<&str> = names(entries);
            let compiled = (own.compile().unwrap(), on.compile().unwrap());
            for task in 0..own.sweep.n_tasks() {
                let wanted: Vec<u64> = (0..on.sweep.n_tasks())
                    .filter(|other| values(&on.sweep, *other, &common) == values(&own.sweep, task, &common))
                    .collect();
                let edges = &workflow.stages[at].after[0].edges;
                let before = edges.predecessors(&TaskSet::from(task..task + 1), on.sweep.n_tasks());
                prop_assert_eq!(before.indices().collect::<Vec<_>>(), wanted.clone(), "task {} of\n{}", task, text);
                // The pattern names all of them and no others.
                let taken = &compiled.0.taken(1, task).unwrap()[0];
                let is_taken = |other: &u64| {
                    let outputs = compiled.1.outputs(1, *other).unwrap();
                    let OutputTarget::Home(path) = &outputs[0].to else { return false };
                    let name = if at == 1 { "/part7" } else { "" };
                    taken.target(&format!("{}{name}", path.display())).is_some()
                };
                prop_assert_eq!((0..on.sweep.n_tasks()).filter(is_taken).collect::<Vec<_>>(), wanted, "{}", text);
            }
        }
    }

    #[test]
    fn a_pattern_without_a_parameter_of_the_group_is_refused_where_it_reaches_others(chain in chain()) {
        let hidden = names(&chain[1])[0];
        let (whole, text) = (load(&file_text(&chain, None)).unwrap(), file_text(&chain, Some(hidden)));
        let (own, on) = (&whole.stages[1].job.sweep, &whole.stages[0].job.sweep);
        let others: Vec<&str> = names(&chain[1]).into_iter().filter(|name| *name != hidden).collect();
        let reaches = |task: u64| {
            (0..on.n_tasks()).any(|other| {
                values(on, other, &others) == values(own, task, &others)
                    && values(on, other, &[hidden]) != values(own, task, &[hidden])
            })
        };
        let expected = (0..own.n_tasks()).any(reaches);
        match load(&text) {
            Ok(_) => prop_assert!(!expected, "{}", text),
            Err(said) => prop_assert!(expected && said.contains("is not in the group of s1"), "{}{}", said, text),
        }
    }
}
