//! What holds of every adapter there is, whichever its platform.

use std::{fs, path::Path};

use profiles::site::{ResourceNames, Site};
use proptest::prelude::*;

use crate::{
    Adapter, NAMES, adapter,
    command::{Command, Output},
    testing::{request, surroundings},
};

fn all() -> Vec<Box<dyn Adapter>> {
    // What some cannot do without; the others have no use for it.
    let resource_names = ResourceNames {
        parallel_environment: Some("smp".into()),
        gpu_resource: Some("gpu".into()),
        ..ResourceNames::default()
    };
    let site = Site { resource_names, ..Site::default() };
    let made = |name: &&str| adapter(name, &surroundings(), &site).expect("each name has one");
    NAMES.iter().map(made).collect()
}

fn ids() -> [String; 3] {
    ["11.host".to_owned(), "12.host".to_owned(), "13.host".to_owned()]
}

fn commands(adapter: &dyn Adapter) -> Vec<Command> {
    let always = [adapter.submit(&request(1)), adapter.list("pf1-"), adapter.cancel(&ids())];
    let id = "11.host";
    let of_jobs = [adapter.why_it_waits(id), adapter.age(id)];
    let some = [adapter.version(), adapter.describe(), adapter.load(), adapter.accounts()].into_iter();
    let some = some.chain(of_jobs);
    always.into_iter().chain(some.flatten()).collect()
}

/// All that it says and has read.
fn text(command: &Command) -> String {
    command.argv.join("\n") + &String::from_utf8_lossy(&command.stdin)
}

/// Every file that was recorded, of any system.
fn recordings() -> Vec<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of recordings").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path => {
                    found.push(String::from_utf8_lossy(&fs::read(path).expect("a recording")).into_owned())
                }
            }
        }
    }
    found
}

#[test]
fn each_is_called_as_it_calls_itself() {
    let names: Vec<&str> = all().iter().map(|adapter| adapter.name()).collect();
    assert_eq!(names, NAMES);
}

#[test]
fn commands_can_be_run_and_end() {
    for adapter in all() {
        for command in commands(&*adapter) {
            assert!(!command.argv.is_empty() && !command.argv[0].is_empty(), "{command:?}");
            assert!(command.argv.iter().all(|word| !word.contains('\0')), "{command:?}");
            assert!(!command.time_limit.is_zero(), "{command:?}");
        }
    }
}

#[test]
fn commands_are_called_by_the_programs_that_they_ask() {
    for adapter in all() {
        for command in commands(&*adapter) {
            let programs = command.name.split(" (").next().unwrap_or_default();
            let is_program = |word: &&str| !matches!(*word, "and" | "the") && !word.starts_with('-');
            let mut programs = programs.split(' ').filter(is_program).peekable();
            assert!(programs.peek().is_some(), "{command:?}");
            for program in programs {
                assert!(program != "sh" && text(&command).contains(program), "{program}: {command:?}");
            }
        }
    }
}

#[test]
fn no_secret_is_among_arguments() {
    for adapter in all() {
        let command = adapter.submit(&request(1));
        assert!(text(&command).contains("secret"), "{} hands the document on", adapter.name());
        assert!(!command.argv.join("\n").contains("secret"), "{command:?}");
    }
}

#[test]
fn an_allocation_has_its_tag_and_one_call_takes_many_away() {
    for adapter in all() {
        let submitted = text(&adapter.submit(&request(1)));
        // LoadLeveler's names have no `-`.
        assert!(submitted.contains("pf1-2") || submitted.contains("pf1_2"), "{submitted}");
        let cancelled = text(&adapter.cancel(&ids()));
        assert!(ids().iter().all(|id| cancelled.contains(id)), "{cancelled}");
    }
}

#[test]
fn no_answer_is_neither_yes_nor_nothing() {
    for adapter in all() {
        for code in [None, Some(1), Some(127), Some(137), Some(255)] {
            for said in ["", "\n", "what?\n", "\0\u{fffd}\u{fffd}"] {
                let output = Output { code, stdout: said.into(), stderr: said.into() };
                let name = adapter.name();
                assert!(adapter.read_submit(&output).is_err(), "{name}: {output:?}");
                assert!(adapter.read_list(&output).is_err(), "{name}: {output:?}");
                assert!(adapter.read_describe(&output).is_err(), "{name}: {output:?}");
                assert!(adapter.read_load(&output).is_err(), "{name}: {output:?}");
            }
        }
    }
}

proptest! {
    /// Whatever one system ever said, cut anywhere and with something strange in it, is read by the codecs of
    /// all: an error at worst, and an id that can be handed back.
    #[test]
    fn answers_of_all_kinds_are_read(
        recording in prop::sample::select(recordings()), from in any::<prop::sample::Index>(),
        length in 0usize..20_000, strange in "\\PC{0,8}", code in prop::option::of(0..3),
    ) {
        let cut = |at: usize| (0..=at.min(recording.len())).rev().find(|n| recording.is_char_boundary(*n)).unwrap_or(0);
        let from = cut(from.index(recording.len() + 1));
        let said = &recording[from..cut(from + length).max(from)];
        let output = Output { code, stdout: format!("{said}{strange}"), stderr: strange };
        for adapter in all() {
            // Errors are for people; any is as good as another here.
            let _ = (adapter.read_list(&output), adapter.read_describe(&output), adapter.read_load(&output));
            if let Ok(id) = adapter.read_submit(&output) {
                prop_assert!(!id.is_empty() && !id.contains(['\0', '\n']), "{}: {id:?}", adapter.name());
            }
        }
    }
}
