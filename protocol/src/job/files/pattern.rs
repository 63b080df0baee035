//! Patterns of files that tasks leave: what they match, and whether one path may match two of them.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::job::files::path::safe_relative;

/// Whether a template names files by a pattern.
pub(in crate::job) fn is_pattern(from: &str) -> bool {
    from.contains(['*', '?'])
}

/// The folder of a template of a pattern before anything in it may differ: `a/` of `a/b*/c`.
pub(in crate::job) fn fixed_folder(template: &str) -> &str {
    folder_before(template, template.find(['*', '?']))
}

/// The same of a pattern, in which backslashes may make a star one that stands for itself.
pub(in crate::job) fn fixed_part(pattern: &str) -> &str {
    let mut is_escaped = false;
    let first = pattern.find(|c| {
        let is_wild = !is_escaped && matches!(c, '*' | '?');
        is_escaped = !is_escaped && c == '\\';
        is_wild
    });
    folder_before(pattern, first)
}

fn folder_before(text: &str, first: Option<usize>) -> &str {
    let end = text[..first.unwrap_or(text.len())].rfind('/').map_or(0, |slash| slash + 1);
    &text[..end]
}

/// The text for which a part of a pattern stands that has nothing in it that may differ.
pub(in crate::job) fn plain(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('\\') {
        return Cow::Borrowed(pattern);
    }
    let mut text = String::new();
    let mut rest = pattern.chars();
    while let Some(found) = rest.next() {
        text.push(if found == '\\' { rest.next().unwrap_or(found) } else { found });
    }
    Cow::Owned(text)
}

/// A folder below another, or (`.`) that one itself.
pub(in crate::job) fn folder(text: &str) -> Option<PathBuf> {
    match text.trim_end_matches('/') {
        "" if !text.is_empty() => None,
        "." => Some(PathBuf::new()),
        text => safe_relative(text),
    }
}

/// Whether a path is of a pattern. O(pattern × path).
pub(in crate::job) fn matches(pattern: &str, path: &str) -> bool {
    let parts = parts(pattern);
    // How much of the pattern may be over.
    let mut over = vec![false; parts.len() + 1];
    over[0] = true;
    pass(&parts, &mut over);
    for found in path.chars() {
        let mut next = vec![false; parts.len() + 1];
        for (at, part) in parts.iter().enumerate().filter(|(at, _)| over[*at]) {
            match part {
                Part::Any => next[at] = true,
                Part::Folders if found != '/' => next[at + 1] = true,
                Part::InFolder => next[if found == '/' { at - 1 } else { at }] = true,
                Part::OfName if found != '/' => next[at] = true,
                Part::One if found != '/' => next[at + 1] = true,
                Part::Is(wanted) if *wanted == found => next[at + 1] = true,
                Part::Folders | Part::OfName | Part::One | Part::Is(_) => {}
            }
        }
        pass(&parts, &mut next);
        over = next;
    }
    over[parts.len()]
}

/// Whether a path may match a pattern that begins with this text and goes on as another pattern says. O(pattern × both).
pub(in crate::job) fn may_match(pattern: &str, text: &str, tail: &str) -> bool {
    let one = parts(pattern);
    let other: Vec<Part> = text.chars().map(Part::Is).chain(parts(tail)).collect();
    let width = other.len() + 1;
    let mut is_seen = vec![false; (one.len() + 1) * width];
    let mut open = vec![(0, 0)];
    while let Some((i, j)) = open.pop() {
        if std::mem::replace(&mut is_seen[i * width + j], true) {
            continue;
        }
        let (left, right) = (one.get(i), other.get(j));
        if left.is_none() && right.is_none() {
            return true;
        }
        open.extend(left.and_then(Part::skips).map(|n| (i + n, j)));
        open.extend(right.and_then(Part::skips).map(|n| (i, j + n)));
        for (class, next) in left.map(Part::takes).into_iter().flatten().flatten() {
            for (other, other_next) in right.map(Part::takes).into_iter().flatten().flatten() {
                if class.shares(other) {
                    open.push((i.saturating_add_signed(next), j.saturating_add_signed(other_next)));
                }
            }
        }
    }
    false
}

/// What may be nothing may be over.
fn pass(parts: &[Part], over: &mut [bool]) {
    for (at, part) in parts.iter().enumerate() {
        match part {
            _ if !over[at] => {}
            Part::Any | Part::OfName => over[at + 1] = true,
            Part::Folders => over[at + 2] = true,
            Part::InFolder | Part::One | Part::Is(_) => {}
        }
    }
}

/// A part of a pattern.
#[derive(Clone, Copy)]
enum Part {
    /// `**` that is not followed by a slash, or not a name of its own.
    Any,
    /// `**/` at the beginning of a name: before a folder, or behind all of them.
    Folders,
    /// Within the name of such a folder.
    InFolder,
    /// `*`
    OfName,
    /// `?`
    One,
    Is(char),
}

/// Characters that a part of a pattern stands for.
#[derive(Clone, Copy)]
enum Class {
    All,
    OfName,
    Is(char),
}

impl Class {
    /// Whether there is a character of both.
    fn shares(self, other: Class) -> bool {
        match (self, other) {
            (Class::Is(one), Class::Is(other)) => one == other,
            (Class::Is('/'), Class::OfName) | (Class::OfName, Class::Is('/')) => false,
            _ => true,
        }
    }
}

impl Part {
    /// How far the part lies that may come without a character for this one.
    fn skips(&self) -> Option<usize> {
        match self {
            Part::Any | Part::OfName => Some(1),
            Part::Folders => Some(2),
            Part::InFolder | Part::One | Part::Is(_) => None,
        }
    }

    /// Characters that it takes, and how far the part lies that comes then.
    fn takes(&self) -> [Option<(Class, isize)>; 2] {
        match self {
            Part::Any => [Some((Class::All, 0)), None],
            Part::Folders | Part::One => [Some((Class::OfName, 1)), None],
            Part::InFolder => [Some((Class::Is('/'), -1)), Some((Class::OfName, 0))],
            Part::OfName => [Some((Class::OfName, 0)), None],
            Part::Is(c) => [Some((Class::Is(*c), 1)), None],
        }
    }
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(found) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("**/")
            && matches!(parts.last(), None | Some(Part::Is('/') | Part::InFolder))
        {
            parts.extend([Part::Folders, Part::InFolder]);
            rest = behind;
            continue;
        }
        rest = &rest[found.len_utf8()..];
        if found == '\\' {
            let meant = rest.chars().next().unwrap_or(found);
            rest = rest.get(meant.len_utf8()..).unwrap_or("");
            parts.push(Part::Is(meant));
            continue;
        }
        match (found, parts.last_mut()) {
            ('*', Some(last @ (Part::OfName | Part::Any))) => *last = Part::Any,
            ('*', _) => parts.push(Part::OfName),
            ('?', _) => parts.push(Part::One),
            (other, _) => parts.push(Part::Is(other)),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{matches, may_match};

    #[test]
    fn patterns_match_as_shells_have_it() {
        for (pattern, path, expected) in [
            ("a/*.fits", "a/x.fits", true),
            ("a/*.fits", "a/.fits", true),
            ("a/*.fits", "a/b/x.fits", false),
            ("a/**.fits", "a/b/x.fits", true),
            ("**", "a/b/x", true),
            ("a/**/*.fits", "a/x.fits", true),
            ("a/**/*.fits", "a/b/x.fits", true),
            ("a/**/*.fits", "a/b/c/x.fits", true),
            ("a/**/*.fits", "ab/x.fits", false),
            ("a/**/*.fits", "a/b/x.fits/y", false),
            ("**/x", "x", true),
            ("**/x", "a/b/x", true),
            ("**/x", "ax", false),
            ("**/x", "a/bx", false),
            ("**/**/x", "x", true),
            ("**/b/**/x", "a/b/x", true),
            ("**/b/**/x", "b/c/x", true),
            ("**/b/**/x", "a/c/x", false),
            ("a/b**/x", "a/bc/d/x", true),
            ("a/b**/x", "a/b/x", true),
            ("a/**", "a/b/c", true),
            ("a/**/b?", "a/ü/b7", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            (r"a\*/*", "a*/x", true),
            (r"a\*/*", "ab/x", false),
            (r"\?\\?", r"?\x", true),
            (r"\?\\?", r"a\x", false),
            (r"a\", r"a\", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn patterns_that_one_path_may_match_are_told_from_those_that_none_can() {
        for (pattern, text, tail, expected) in [
            ("mc/*/**", "mc/2/1/", "part*.txt", true),
            ("mc/1/**", "mc/2/1/", "part*.txt", false),
            ("mc/*/*", "mc/2/1/", "part*.txt", false),
            ("mc/**.csv", "mc/2/", "part*.txt", false),
            ("mc/*/p*", "mc/2/", "part*.txt", true),
            ("mc/?/x", "mc/10/", "?**", false),
            ("mc/??/x", "mc/10/", "?**", true),
            ("mc/10/*/x", "mc/10/", "?**", true),
            ("mc/1*", "mc/[*]/", "?**", false),
            ("mc/**/x", "mc/2/", "**/x", true),
            ("mc/**/1/x", "mc/2/", "**/x", true),
            ("mc/**/1/x", "mc/2/", "x", false),
            ("mc/2/x", "mc/2/", "**/x", true),
        ] {
            assert_eq!(may_match(pattern, text, tail), expected, "{pattern} {text}{tail}");
        }
    }

    proptest! {
        /// Over two letters and a slash, a path that both match is short if there is any.
        #[test]
        fn what_may_match_is_what_some_path_does(one in "[a/*?]{0,4}", text in "[a/]{0,1}", tail in "[a/*?]{0,3}") {
            let mut paths = vec![String::new()];
            let mut start = 0;
            for _ in 0..7 {
                let end = paths.len();
                for at in start..end {
                    for c in ["a", "b", "/"] {
                        paths.push(format!("{}{c}", paths[at]));
                    }
                }
                start = end;
            }
            let does = |path: &String| {
                matches(&one, path) && path.strip_prefix(&text).is_some_and(|rest| matches(&tail, rest))
            };
            prop_assert_eq!(may_match(&one, &text, &tail), paths.iter().any(does));
        }
    }
}
