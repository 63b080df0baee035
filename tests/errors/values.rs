//! Commands with values, the GNU parallel habit.

use crate::page::Page;

#[test]
fn bad_values_of_commands_are_explained() {
    let mut page = Page::new("values");
    let cases: &[(&str, &[&str])] = &[
        ("no command", &["check", "--", ":::", "a"]),
        ("no value", &["check", "--", "echo", "{}", ":::"]),
        ("no value between two", &["check", "--", "echo", ":::", ":::", "a"]),
        ("a place for values, and none", &["run", "--", "echo", "{}"]),
        ("a place for values in a shell line, and none", &["check", "--", "cat {.}.txt"]),
        ("a list that is not there", &["check", "--", "echo", "{3}", ":::", "a", ":::", "b"]),
        ("linked lists of different length", &["check", "--", "echo", ":::", "a", "b", ":::+", "c"]),
        ("nothing to link with", &["check", "--", "echo", ":::+", "c"]),
        ("job slots, which are not known", &["check", "--", "echo", "{%}", ":::", "a"]),
        ("a parameter that is not there", &["check", "--", "echo", "{seed}", ":::", "a"]),
        ("numbers that are none", &["check", "--array", "one-ten", "--", "echo"]),
        ("numbers the wrong way round", &["check", "--array", "10-1", "--", "echo"]),
        ("steps of nothing", &["check", "--array", "1-10:0", "--", "echo"]),
        ("more tasks than can be", &["check", "--array", "1-18446744073709551615", "--", "echo"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.sandbox.write("lines.txt", "a b\nc\n");
    page.sandbox.write(
        "kept.yaml",
        "command: [echo, '{x}']\nsweep: {x: [1], y: [2], z: {range: [1, 3]}}\nresults: {keep: none, extract: {n: '.*'}}\n",
    );
    let doubts: &[(&str, &[&str])] = &[
        ("lines that are not mentioned", &["check", "--each-line", "lines.txt", "--", "echo", "-n"]),
        ("values that only count", &["check", "--limit", "0", "--", "echo", "{#}", ":::", "a", "b"]),
        ("values without their extensions", &["check", "--limit", "0", "--", "echo", "{.}", ":::", "a.b"]),
        ("numbers that only repeat", &["check", "--limit", "0", "--array", "1-9", "--", "echo"]),
        ("what is used nowhere, and kept all the same", &["check", "--limit", "0", "kept.yaml"]),
    ];
    for (title, arguments) in doubts {
        page.ends(title, arguments, 0);
    }
    page.close();
}
