//! A platform's entry, put into the text of a `manager.yaml` whose other lines stay as they are.

use serde_yaml::{Mapping, Value};

/// Why a text is not changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} has its platforms in brackets; write them one below the other, or change the entry by hand"
)]
pub(super) struct InBrackets {
    line: usize,
}

/// The text with one more platform; `comment`: a line above it.
///
/// # Errors
/// Its list is written in a way that is not changed here.
pub(super) fn added(text: &str, entry: &Mapping, comment: &str) -> Result<String, InBrackets> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let text = format!("{text}{end}");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(head) = lines.iter().position(|line| line.starts_with("platforms:")) else {
        return Ok(format!("{text}platforms:\n{}", shown(entry, comment, "  ")));
    };
    let said = lines[head]["platforms:".len()..].trim();
    if !said.is_empty() && !said.starts_with('#') {
        return Err(InBrackets { line: head + 1 });
    }
    let is_ours = |line: &&&str| line.starts_with([' ', '-', '#', '\t']) || line.trim().is_empty();
    let n_ours = lines[head + 1..].iter().take_while(is_ours).count();
    let block = &lines[head + 1..head + 1 + n_ours];
    // What stands below the last entry may belong to what comes then.
    let is_of_an_entry = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let n_kept = block.iter().rposition(is_of_an_entry).map_or(0, |last| last + 1);
    let first = block.iter().find(|line| line.trim_start().starts_with('-'));
    let indent = first.map_or("  ", |line| &line[..line.len() - line.trim_start().len()]);
    let (before, after) = lines.split_at(head + 1 + n_kept);
    Ok(format!("{}{}{}", before.concat(), shown(entry, comment, indent), after.concat()))
}

/// The entry as lines of a list.
pub(super) fn shown(entry: &Mapping, comment: &str, indent: &str) -> String {
    let list = Value::Sequence(vec![Value::Mapping(entry.clone())]);
    // Words and numbers can always be written.
    let text = serde_yaml::to_string(&list).unwrap_or_default();
    let lines: String = text.lines().map(|line| format!("{indent}{line}\n")).collect();
    // Hosts may write what they like: one line, no control characters.
    let comment = comment.replace(|c: char| c.is_control() || "\u{2028}\u{2029}".contains(c), " ");
    format!("{indent}# {comment}\n{lines}")
}

/// The text without the platform of that place in its list, and without the comment right above it.
///
/// # Errors
/// Its list is written in a way that is not changed here.
pub(super) fn removed(text: &str, index: usize) -> Result<String, InBrackets> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let head = lines.iter().position(|line| line.starts_with("platforms:")).unwrap_or(0);
    let is_item = |line: &&str| line.trim_start().starts_with("- ");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = lines.iter().skip(head + 1).find(|line| is_item(line)).map(|line| indent(line));
    let is_end = |line: &&str| !line.starts_with([' ', '-', '#', '\t']) && !line.trim().is_empty();
    let end = lines.iter().skip(head + 1).position(is_end).map_or(lines.len(), |n| head + 1 + n);
    let items: Vec<usize> =
        (head + 1..end).filter(|n| is_item(&lines[*n]) && Some(indent(lines[*n])) == first).collect();
    let Some(&item) = items.get(index) else { return Err(InBrackets { line: head + 1 }) };
    // Comments above an entry, at its dash, are about it, as `attach` writes them; right below the head they are
    // about all.
    let is_about = |n: usize| lines[n].trim_start().starts_with('#') && Some(indent(lines[n])) == first;
    let with_comment = |item: usize| {
        let began = (head + 1..item).rev().take_while(|n| is_about(*n)).last().unwrap_or(item);
        if began == head + 1 { item } else { began }
    };
    let is_of_an_entry = |n: &usize| !lines[*n].trim().is_empty() && !lines[*n].trim_start().starts_with('#');
    let last = (item..end).rfind(is_of_an_entry).map_or(end, |last| last + 1);
    let next = items.get(index + 1).map_or(last, |next| with_comment(*next));
    let rest = [&lines[..with_comment(item)], &lines[next..]].concat();
    let is_empty = items.len() == 1;
    Ok(rest.iter().enumerate().filter(|(n, _)| !(is_empty && *n == head)).map(|(_, line)| *line).collect())
}

#[cfg(test)]
mod tests {
    use super::{InBrackets, added, removed};
    use serde_yaml::Mapping;

    fn entry() -> Mapping {
        [("name", "new".into()), ("adapter", "slurm".into()), ("cores", 4.into())]
            .into_iter()
            .map(|(key, value): (&str, serde_yaml::Value)| (key.into(), value))
            .collect()
    }

    #[track_caller]
    fn check(before: &str, after: &str) {
        assert_eq!(added(before, &entry(), "seen").unwrap(), after);
    }

    #[test]
    fn entries_are_put_below_the_last() {
        let new = "  # seen\n  - name: new\n    adapter: slurm\n    cores: 4\n";
        check("", &format!("platforms:\n{new}"));
        check("tls: on", &format!("tls: on\nplatforms:\n{new}"));
        check("platforms:\n", &format!("platforms:\n{new}"));
        let one = "platforms: # all\n  - name: a\n    # mine\n    adapter: local\n";
        check(one, &format!("{one}{new}"));
        let rest = "\n# about limits\nlimits: {grace: 5s}\n";
        check(&format!("{one}{rest}"), &format!("{one}{new}{rest}"));
        check(
            "platforms:\n- name: a\n  adapter: local\ntls: on\n",
            "platforms:\n- name: a\n  adapter: local\n# seen\n- name: new\n  adapter: slurm\n  cores: 4\ntls: on\n",
        );
    }

    #[test]
    fn what_hosts_say_stays_one_line_and_lines_keep_their_ends() {
        let text = added(
            "tls: on\r\nplatforms:\r\n  - {name: a, adapter: local}\r\nlimits: {}",
            &entry(),
            "x\ny\u{2028}",
        )
        .unwrap();
        let new = "  # x y \n  - name: new\n    adapter: slurm\n    cores: 4\n";
        assert_eq!(
            text,
            format!("tls: on\r\nplatforms:\r\n  - {{name: a, adapter: local}}\r\n{new}limits: {{}}\n")
        );
    }

    #[test]
    fn lists_in_brackets_are_left_alone() {
        let text = "tls: on\nplatforms: [{name: a, adapter: local}]\n";
        assert_eq!(added(text, &entry(), "seen"), Err(InBrackets { line: 2 }));
    }

    #[test]
    fn an_entry_goes_with_its_comment_and_nothing_else_does() {
        let text = "tls: on\nplatforms:\n  # first\n  - name: a\n    adapter: local\n\n  # seen\n  # there\n  - name: b\n    \
                    options: [\n      - x ]\n  - {name: c, adapter: local}\n# about limits\nlimits: {}\n";
        let [a, b, c] = [0, 1, 2].map(|index| removed(text, index).unwrap());
        assert_eq!(a, text.replace("  - name: a\n    adapter: local\n\n", ""), "a comment about all");
        assert_eq!(b, text.replace("  # seen\n  # there\n  - name: b\n    options: [\n      - x ]\n", ""));
        assert_eq!(c, text.replace("  - {name: c, adapter: local}\n", ""));
        assert_eq!(removed("platforms:\n- name: a\ntls: on", 0).unwrap(), "tls: on");
        let deep = "platforms:\n  - name: a\n    cores: 4\n    # gpus: 2\n  - name: b\n  # - name: old\n";
        assert_eq!(removed(deep, 0).unwrap(), "platforms:\n  - name: b\n  # - name: old\n");
        assert_eq!(removed(deep, 1).unwrap(), deep.replace("  - name: b\n", ""));
        assert_eq!(removed("platforms: [{name: a}]\n", 0), Err(InBrackets { line: 1 }));
    }
}
