//! Templates: what is a placeholder, what is not, and what it becomes.

use proptest::prelude::*;

use super::{Mode, PathPart, Scope, Template};
use crate::sweep::Value;

const NAMES: [&str; 4] = ["seed", "ligand", "x", "1"];

fn rendered_as(mode: Mode, text: &str) -> String {
    let values = [Value::Integer(7), Value::Text("/data/a b.tar.gz"), Value::Float(0.5), Value::Text("one")];
    let scope = Scope { values: &values, index: 12, job_id: 3, job_name: "dock", cores: 4 };
    match Template::parse(text, mode, &NAMES) {
        Ok(template) => template.render(&scope),
        Err(errors) => errors.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n"),
    }
}

fn rendered(text: &str) -> String {
    rendered_as(Mode::Plain, text)
}

#[test]
fn placeholders_become_values() {
    assert_eq!(rendered("s={seed} {ligand} {x}{x} {1}"), "s=7 /data/a b.tar.gz 0.50.5 one");
    assert_eq!(rendered("{index} {index:04} {number} {job} {job.name} {cores}"), "12 0012 13 3 dock 4");
    assert_eq!(
        rendered("{ligand.stem} {ligand.name} {ligand.ext} {ligand.parent}"),
        "a b.tar a b.tar.gz gz /data"
    );
    assert_eq!(rendered("{seed:03} {x:.3} {x:8.2f}|{x:e}"), "007 0.500     0.50|5e-1");
    assert_eq!(rendered("{1.stem}"), "one");
}

#[test]
fn other_braces_stay_as_they_are() {
    for text in [
        "{print $1}",
        "${HOME} ${seed}",
        r#"{"a": 1}"#,
        r#"{"a":{"b":1}}"#,
        "{}",
        "{ seed }",
        "{a,b}",
        "{1..3}",
        "a{2,}",
        "{",
        "}",
        "}}",
        "{seed",
        "{:3}",
        "{x.}",
        "{-1}",
        "\\{é}",
    ] {
        assert_eq!(rendered(text), text);
    }
}

#[test]
fn doubled_braces_are_literal() {
    assert_eq!(rendered("{{seed}}"), "{seed}");
    assert_eq!(rendered("{{{seed}}}"), "{7}");
    assert_eq!(rendered("awk '{{print}}'"), "awk '{print}'");
    assert_eq!(rendered("{{a {{b}} c}}"), "{a {b} c}");
    assert_eq!(rendered(r#"{"a": {seed}}"#), r#"{"a": 7}"#);
}

#[test]
fn unknown_placeholders_are_refused_all_together() {
    insta::assert_snapshot!(rendered("{sead} {charge} {ligand.steam} {x:5q} {x:raw}"), @"
    found unknown parameter `sead`; did you mean `seed`? known are seed, ligand, x, 1, index, job, cores, number; for literal braces write {{sead}}
    found unknown parameter `charge`; known are seed, ligand, x, 1, index, job, cores, number; for literal braces write {{charge}}
    found unknown part `steam` of `ligand`; the parts are stem, name, ext and parent
    found format `5q` of `x`; write {name:06} (zeros to width 6), {name:.3} (3 decimals), {name:8.2f}, {name:e} or {name:d}
    found format `raw` of `x`; only shell lines quote values; leave `:raw` out
    ");
}

#[test]
fn shell_values_are_quoted_for_their_place() {
    assert_eq!(rendered_as(Mode::Shell, "cat {ligand} > {seed}"), "cat '/data/a b.tar.gz' > 7");
    assert_eq!(rendered_as(Mode::Shell, "cat \"{ligand}\""), "cat \"/data/a b.tar.gz\"");
    assert_eq!(rendered_as(Mode::Shell, "cat '{ligand}'"), "cat '/data/a b.tar.gz'");
    assert_eq!(rendered_as(Mode::Shell, "cat {ligand:raw}"), "cat /data/a b.tar.gz");
}

#[test]
fn parts_of_odd_paths_are_defined() {
    let parts = |path| {
        [PathPart::Parent, PathPart::Name, PathPart::Stem, PathPart::Ext]
            .map(|part| part.of(path))
            .join(" | ")
    };
    assert_eq!(parts("/a/b.c"), "/a | b.c | b | c");
    assert_eq!(parts("b"), ". | b | b | ");
    assert_eq!(parts("/b"), "/ | b | b | ");
    assert_eq!(parts(".hidden"), ". | .hidden | .hidden | ");
    assert_eq!(parts("a/.hidden.txt"), "a | .hidden.txt | .hidden | txt");
    assert_eq!(parts("a/"), "a |  |  | ");
    assert_eq!(parts(""), ". |  |  | ");
}

proptest! {
    #[test]
    fn text_without_braces_renders_to_itself(text in "[^{}]{0,60}") {
        prop_assert_eq!(rendered(&text), text.clone());
        prop_assert_eq!(rendered_as(Mode::Shell, &text), text);
    }

    #[test]
    fn escaped_text_renders_to_itself(text in "[a-z$'\"{ ]{0,30}") {
        // Opening braces only: a closing pair is an escape only behind an opening one.
        prop_assume!(!text.contains("${"));
        prop_assert_eq!(rendered(&text.replace('{', "{{")), text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}", prefix in "[{}$:.a-z0-9]{0,20}") {
        rendered(&format!("{prefix}{text}"));
        rendered_as(Mode::Shell, &format!("{prefix}{text}"));
    }
}

#[test]
fn braces_that_begin_with_a_parameter_and_are_no_placeholder_are_told() {
    for text in ["{ligand.parent.name}", "{x:>8}", "{x:%05d}", "{x!r}", "{ x }", "{x[0]}", "{x.}"] {
        let template = Template::parse(&format!("a {text} b"), Mode::Plain, &NAMES).unwrap();
        assert_eq!(template.almost(), [text]);
    }
    for text in
        ["{x}", "{{x:>8}}", "${x:-1}", "{print x}", "{x..3}", "{xx.a.b}", "{ x++ }", "{\"x\": 1}", "{x; }"]
    {
        let found = Template::parse(text, Mode::Plain, &NAMES).map(|template| template.almost().to_vec());
        assert_eq!(found.unwrap_or_default(), [""; 0], "{text}");
    }
}
