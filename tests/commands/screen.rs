//! What is shown on a terminal: nothing is wider than it, and nothing that tasks or users write is obeyed by it. What
//! goes to pipes is as it was written.

use regex::Regex;
use tests::{Sandbox, text};
use unicode_width::UnicodeWidthStr;

use crate::terminal::on_terminal;

const WIDTH: u16 = 80;
/// Asks the terminal to clear itself, to change its title, and to hide what follows.
const ATTACK: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[8mhidden";
/// The same for a shell's printf, with bytes that are not UTF-8.
const ATTACK_PRINTF: &str = r"\033[2J\033]0;title\007\033[8mhidden\377\233\n";
const ATTACK_BYTES: &[u8] = b"\x1b[2J\x1b]0;title\x07\x1b[8mhidden\xff\x9b\n";

/// Asserts that the text has no control characters but ends of lines and the sequences of a progress bar.
fn is_harmless(what: &str, shown: &str) {
    for bad in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\u{1b}[8m", "\u{9b}"] {
        assert!(!shown.contains(bad), "{what}: {shown:?}");
    }
}

/// Asserts that each line fits the terminal, without sequences and with wide characters counted twice.
fn fits(what: &str, shown: &str) {
    let sequences = Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]").expect("a regular expression");
    let plain = sequences.replace_all(shown, "");
    for line in plain.split(['\n', '\r']) {
        assert!(line.width() <= usize::from(WIDTH), "{what}: {} columns: {line}\n{plain}", line.width());
    }
}

#[test]
fn output_of_tasks_is_byte_for_byte_in_pipes_and_harmless_on_a_terminal() {
    let sandbox = Sandbox::new();
    let line = format!("printf '{ATTACK_PRINTF}'; printf '{ATTACK_PRINTF}' >&2; exit {{1}}");
    sandbox.run(&["run", "-q", "--", &line, ":::", "0", "1"]);
    let twice = [ATTACK_BYTES, ATTACK_BYTES].concat();
    let forms: [(&[&str], &[u8], &[u8]); 8] = [
        (&["1.0", "--raw"], ATTACK_BYTES, ATTACK_BYTES),
        (&["1.1", "--raw", "--stderr"], ATTACK_BYTES, b""),
        (&["1.0"], ATTACK_BYTES, ATTACK_BYTES),
        (&["1", "--raw", "--stdout"], &twice, b""),
        (&["1.0-1", "--raw", "--stderr"], &twice, b""),
        (&["1.1", "--raw", "--stdout", "--failed"], ATTACK_BYTES, b""),
        (&["1", "--raw", "--stdout", "--follow", "-q"], &twice, b""),
        (&["1.0", "--raw", "--follow", "-q"], ATTACK_BYTES, ATTACK_BYTES),
    ];
    for (arguments, out, error) in forms {
        let output = sandbox.run(&[&["logs"], arguments].concat());
        assert_eq!(output.stdout, out, "{arguments:?}: {}", text(&output.stdout));
        let said = output
            .stderr
            .strip_prefix(b"pilotfish: no manager is running in ./.pilotfish; reading its store\n");
        assert_eq!(said, Some(error), "{arguments:?}: {}", text(&output.stderr));
    }
    for arguments in [&["1"][..], &["1.0"], &["1", "--follow"], &["1.1", "--follow"], &["1", "--failed"]] {
        let shown = on_terminal(&sandbox, WIDTH, &[&["logs"], arguments].concat());
        is_harmless(&format!("logs {arguments:?}"), &shown.text);
        assert!(
            shown.text.contains("^[[2J^[]0;title^G^[[8mhidden\\xff\\x9b"),
            "{arguments:?}: {:?}",
            shown.text
        );
    }
    let shown = on_terminal(&sandbox, WIDTH, &["logs", "1.0", "--raw", "--stdout"]);
    assert!(shown.text.contains("\u{1b}[2J"), "--raw is as it was written: {:?}", shown.text);
}

#[test]
fn names_and_messages_of_others_are_harmless_on_a_terminal() {
    let sandbox = Sandbox::new();
    // A name may be refused, a value may not.
    sandbox.run(&["run", "-q", "--", "echo {1} >&2; exit 3", ":::", ATTACK]);
    sandbox.run(&["run", "-q", "--name", ATTACK, "--", "true"]);
    let all: [&[&str]; 8] = [
        &["jobs"],
        &["jobs", "--json"],
        &["job", "1"],
        &["tasks", "1"],
        &["task", "1.0"],
        &["explain", "task", "1.0"],
        &["export", "1", "--state", ATTACK],
        &["job", ATTACK],
    ];
    for arguments in all {
        is_harmless(&arguments.join(" "), &on_terminal(&sandbox, WIDTH, arguments).text);
    }
    let shown =
        on_terminal(&sandbox, WIDTH, &["run", "--fresh", "--", "echo {1} >&2; exit 3", ":::", ATTACK]);
    assert!(shown.text.contains("hidden"), "the last line of a failed task is shown: {}", shown.text);
    is_harmless("run", &shown.text);
}

#[test]
fn everything_fits_a_terminal_of_80_columns() {
    let sandbox = Sandbox::new();
    let name = "漢字".repeat(30);
    let long = "a-long-platform-of-a-site-with-a-long-name";
    sandbox.write(
        "m.yaml",
        &format!(
            "platforms: [{{name: {long}, adapter: local, cores: 1, pilots_max: 1}}]\nlisten: {{port: 0}}\n"
        ),
    );
    let mut manager = sandbox.command(&["serve", "-q", "--config", "m.yaml"]);
    manager.env("TERM", "xterm");
    let _manager = sandbox.serve(manager);
    let value = "/a/long/path/of/a/value/with/漢字漢字/in/it/that/goes/on/and/on/for/a/while/x.pdbqt";
    let shown = on_terminal(
        &sandbox,
        WIDTH,
        &[
            "submit",
            "--progress",
            "--name",
            &name,
            "--",
            "echo {1} {2} >&2; exit 3",
            ":::",
            value,
            ":::",
            "1",
            "2",
        ],
    );
    assert_eq!(shown.code, Some(1), "{}", shown.text);
    let bar: Vec<&str> = shown.text.split(['\n', '\r']).filter(|line| line.contains("2 failed")).collect();
    assert!(!bar.is_empty(), "no bar: {}", shown.text);
    bar.iter().for_each(|line| fits("the bar", line));
    sandbox.ok(&["submit", "-q", "--name", &name, "--array", "1-1000000", "--", "sleep", "1000"]);
    sandbox.ok(&["pause", "2"]);
    sandbox.ok(&["policies", "set", "matching", "fifo"]);
    let id = sandbox.json(&["allocation", "list", "--all"])[0]["id"].to_string();
    let all: [&[&str]; 24] = [
        &["jobs"],
        &["job", "1"],
        &["job", "2"],
        &["tasks", "1"],
        &["tasks", "2", "--from", "999990"],
        &["task", "1.0"],
        &["pilots", "--all"],
        &["platforms"],
        &["platform", "show", long],
        &["platform", "limits", long],
        &["allocation", "list", "--all"],
        &["allocation", "show", &id],
        &["policies"],
        &["policies", "history"],
        &["weights"],
        &["weights", "history"],
        &["profiles", "list"],
        &["profiles", "shipped"],
        &["stores"],
        &["status"],
        &["explain", "job", "2"],
        &["explain", "platform", long],
        &["explain", "task", "1.0"],
        &["check", "--name", &name, "--", "echo {1}", ":::", value],
    ];
    for arguments in all {
        let shown = on_terminal(&sandbox, WIDTH, arguments);
        assert_eq!(shown.code, Some(0), "{arguments:?}: {}", shown.text);
        fits(&arguments.join(" "), &shown.text);
    }
}

#[test]
fn numbers_of_a_table_are_whole_on_a_narrow_terminal() {
    let sandbox = Sandbox::new();
    let _manager = sandbox.serve(sandbox.command(&["serve", "-q", "--no-local"]));
    sandbox.ok(&["submit", "-q", "--name", &"x".repeat(90), "--array", "1-123456789", "--", "true"]);
    for width in [30, 40, 80] {
        let shown = on_terminal(&sandbox, width, &["jobs"]);
        assert!(shown.text.contains("123,456,789"), "{width}: {}", shown.text);
    }
}
