//! The habits of GNU parallel, word for word.

use std::path::PathBuf;

use protocol::job::JobSpec;

use super::{Command, split, translate};
use crate::input::sources::Sources;

/// The first two command lines of what stands after `--`, or the problem.
fn shown(words: &[&str]) -> String {
    with_array(None, words)
}

fn with_array(array: Option<&str>, words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let translated = split(&words).and_then(|split| {
        let sources = Sources::read(None, array, split.sources)?;
        translate(&Command { words: split.command, is_shell: false }, sources)
    });
    let (command, sweep) = match translated {
        Ok(translated) => translated,
        Err(problem) => return problem.to_string(),
    };
    let mut spec = JobSpec::new(command, PathBuf::from("/w"));
    spec.sweep = sweep;
    let compiled = match spec.compile() {
        Ok(compiled) => compiled,
        Err(problems) => return problems[0].to_string(),
    };
    let tasks = (0..compiled.n_tasks().min(2)).map(|index| compiled.task(1, index).argv.join("|"));
    format!("{}: {}", compiled.n_tasks(), tasks.collect::<Vec<_>>().join("  "))
}

#[test]
fn lists_of_values_are_multiplied_and_numbered() {
    assert_eq!(
        shown(&["cmd", "{1}", "-x{2}", ":::", "a", "b", ":::", "1", "2", "3"]),
        "6: cmd|a|-x1  cmd|a|-x2"
    );
    assert_eq!(shown(&["cmd", "{}", ":::", "a", "b"]), "2: cmd|a  cmd|b");
}

#[test]
fn braces_alone_stand_for_all_values() {
    assert_eq!(shown(&["cmd", "{}", ":::", "a", ":::", "1", "2"]), "2: cmd|a|1  cmd|a|2");
    assert_eq!(shown(&["cmd", "<{}>", ":::", "a", ":::", "1", "2"]), "2: cmd|<a 1>  cmd|<a 2>");
}

#[test]
fn values_that_are_not_mentioned_are_appended() {
    assert_eq!(shown(&["cmd", "-v", ":::", "a", "b"]), "2: cmd|-v|a  cmd|-v|b");
    assert_eq!(
        shown(&["wc -l | sort", ":::", "a", "b"]),
        "2: /bin/sh|-c|wc -l | sort a  /bin/sh|-c|wc -l | sort b"
    );
}

#[test]
fn lines_that_are_not_mentioned_are_appended() {
    let file = std::env::temp_dir().join(format!("pilotfish-lines-test-{}", std::process::id()));
    std::fs::write(&file, "a b\nc\n").unwrap();
    let argv = |words: &[&str], array| {
        let sources = Sources::read(Some(&file), array, Vec::new()).unwrap();
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let (command, sweep) = translate(&Command { words, is_shell: false }, sources).unwrap();
        let mut spec = JobSpec::new(command, PathBuf::from("/w"));
        spec.sweep = sweep;
        spec.compile().unwrap().task(1, 0).argv.join("|")
    };
    assert_eq!(argv(&["cmd", "-v"], None), "cmd|-v|a b");
    assert_eq!(argv(&["cmd", "-v", "{line}"], None), "cmd|-v|a b");
    assert_eq!(argv(&["wc -l"], None), "/bin/sh|-c|wc -l 'a b'");
    assert_eq!(argv(&["cmd"], Some("7-9")), "cmd|a b|7", "as for all braces");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn linked_lists_advance_together() {
    assert_eq!(shown(&["cmd", "{1}{2}", ":::", "a", "b", ":::+", "1", "2"]), "2: cmd|a1  cmd|b2");
    assert_eq!(
        shown(&["cmd", ":::", "a", "b", ":::+", "1"]),
        "found 1 value after `:::+`, linked to 2; linked lists must be equally long"
    );
    assert_eq!(
        shown(&["cmd", ":::+", "1"]),
        "found nothing before `:::+`; the first list of values begins with `:::`"
    );
}

#[test]
fn parts_of_paths_are_those_of_parallel() {
    let parts = ["cmd", "{}", "{.}", "{/}", "{//}", "{/.}", "{#}", ":::"];
    let of = |path: &str| shown(&[&parts[..], &[path]].concat());
    assert_eq!(of("in/a.b.txt"), "1: cmd|in/a.b.txt|in/a.b|a.b.txt|in|a.b|1");
    assert_eq!(of("a.txt"), "1: cmd|a.txt|a|a.txt|.|a|1");
    assert_eq!(of("in.d/plain"), "1: cmd|in.d/plain|in.d/plain|plain|in.d|plain|1");
    assert_eq!(shown(&["cmd", "{2.}{1/}", ":::", "a/b.c", ":::", "d.e"]), "1: cmd|db.c");
}

#[test]
fn one_word_with_blanks_is_a_shell_line_with_quoted_values() {
    assert_eq!(
        shown(&["gzip -c {} > {/}.gz", ":::", "it's"]),
        r"1: /bin/sh|-c|gzip -c 'it'\''s' > 'it'\''s'.gz"
    );
    assert_eq!(shown(&["date"]), "1: date");
}

#[test]
fn numbers_of_an_array_are_the_first_source() {
    assert_eq!(with_array(Some("5-9"), &["cmd", "{array}", "{1}", "{1.}"]), "5: cmd|5|5|5  cmd|6|6|6");
    assert_eq!(with_array(Some("1-2"), &["cmd"]), "2: cmd  cmd");
    assert_eq!(with_array(Some("1-2"), &["cmd", "{2}", ":::", "x"]), "2: cmd|x  cmd|x");
}

#[test]
fn other_braces_stay_as_they_are() {
    assert_eq!(shown(&["awk", "{print $1}", "{}", ":::", "f"]), "1: awk|{print $1}|f");
    assert_eq!(shown(&["find", ".", "-exec", "ls", "{{}}", ";"]), "1: find|.|-exec|ls|{}|;");
    assert_eq!(shown(&["echo", "{{}}", "${1}", "{}", ":::", "f"]), "1: echo|{}|${1}|f");
}

#[test]
fn what_has_no_counterpart_is_refused() {
    assert_eq!(
        shown(&["cmd", "{%}", ":::", "a"]),
        "found `{%}`; tasks have no slot number; use {#} or {index}"
    );
    assert_eq!(
        shown(&["find", ".", "-exec", "ls", "{}", ";"]),
        "found `{}` without values; give some, like `::: a b c`; for literal braces write {{}}"
    );
    assert_eq!(shown(&["cmd", "{3}", ":::", "a"]), "found `{3}`; there is 1 list of values");
    assert_eq!(
        shown(&[":::", "a"]),
        "found no command before `:::`; write it first, like `-- echo {} ::: a b c`"
    );
    assert_eq!(shown(&["cmd", ":::"]), "found no value after `:::`; write at least one");
}
