//! Files that tasks leave for those that wait for them. They are known by where they go below their submitter's
//! folder; who has them and what they hold, the manager knows when the task is about to begin.

use std::path::PathBuf;

use crate::job::files::path::safe_relative;
use crate::job::files::pattern::{fixed_part, folder, is_pattern, matches, may_match, plain};
use crate::job::files::task::{OutputTarget, Several, TaskOutputFile};
use crate::job::spec::Input;

/// What a task takes of what those leave that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenFiles {
    /// Which input of the job it is.
    pub input: usize,
    /// Entries of its stage's `after`: of whose tasks.
    pub after: Vec<usize>,
    /// Where the file goes below the submitter's folder, or a pattern of that, in which a backslash makes the next
    /// character stand for itself.
    pub from: String,
    /// Whether it is a pattern: `*` is any characters of a name, `?` is one of them, `**/` any folders or none, and
    /// `**` elsewhere any characters.
    pub is_pattern: bool,
    /// Where it goes below the task's folder; of a pattern the folder, which may be that itself.
    pub to: PathBuf,
    /// The task may begin without it.
    pub optional: bool,
    /// The task may change it.
    pub writable: bool,
}

impl TakenFiles {
    /// `Err`: the field that is wrong, and what it is for this task.
    pub(in crate::job) fn new(
        number: usize,
        input: &Input,
        from: &str,
        to: &str,
    ) -> Result<TakenFiles, (&'static str, String)> {
        let is_pattern = is_pattern(&input.from);
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        let source = safe_relative(from).map(shown).ok_or_else(|| ("from", from.to_owned()))?;
        let target = match is_pattern {
            true => folder(to),
            false => safe_relative(to),
        };
        let target = target.ok_or_else(|| ("to", to.to_owned()))?;
        let (optional, writable) = (input.optional, input.writable);
        let after = input.after.clone();
        Ok(TakenFiles { input: number, after, from: source, is_pattern, to: target, optional, writable })
    }

    /// Where a file goes in the task's folder that goes to `path` below the submitter's; `None`: another one is meant.
    pub fn target(&self, path: &str) -> Option<PathBuf> {
        if !self.is_pattern {
            return (self.from == path).then(|| self.to.clone());
        }
        let fixed = plain(fixed_part(&self.from));
        let name = path.strip_prefix(&*fixed).filter(|_| matches(&self.from, path))?;
        safe_relative(name).map(|name| self.to.join(name))
    }
}

impl TakenFiles {
    /// Whether a file that a task leaves for this output may be meant. O(pattern × path, and × the output's pattern).
    pub fn may_mean(&self, output: &TaskOutputFile) -> bool {
        let OutputTarget::Home(path) = &output.to else { return false };
        let path = path.to_string_lossy();
        let tail = match &output.several {
            None => return self.target(&path).is_some(),
            Some(Several::Folder) => "?**",
            Some(Several::Pattern(pattern)) => &pattern[fixed_part(pattern).len()..],
        };
        let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
        may_match(&self.from, &folder, tail)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::TakenFiles;
    use crate::job::files::pattern::{fixed_folder, fixed_part};
    use crate::job::{Input, OutputTarget, Several, TaskOutputFile};

    #[test]
    fn a_pattern_may_mean_what_goes_home_under_a_name_that_matches() {
        let taken = |from: &str| {
            TakenFiles::new(0, &Input { from: from.into(), ..Input::default() }, from, "in").unwrap()
        };
        let output = |from: &str, several: Option<Several>, to: OutputTarget| TaskOutputFile {
            from: from.into(),
            several,
            to,
            optional: false,
        };
        let home = |to: &str| OutputTarget::Home(to.into());
        let pattern = |text: &str| Some(Several::Pattern(text.to_owned()));
        for (from, output, expected) in [
            ("g/b/*", output("out", None, home("g/b/1")), true),
            ("g/b/*", output("out", None, home("g/a/1")), false),
            ("g/b/*", output("res", Some(Several::Folder), home("g")), true),
            ("g/b/*", output("res", Some(Several::Folder), home("h")), false),
            ("g/*.log", output("r", pattern("r/x*.txt"), home("g")), false),
            ("g/*.txt", output("r", pattern("r/x*.txt"), home("g")), true),
            ("**", output("res", Some(Several::Folder), home("")), true),
            ("**", output("out", None, OutputTarget::File("/g/b/1".into())), false),
        ] {
            assert_eq!(taken(from).may_mean(&output), expected, "{from} {output:?}");
        }
    }

    #[test]
    fn files_of_a_pattern_keep_their_names_from_where_these_may_differ() {
        let taken = |from: &str, to: &str| {
            TakenFiles::new(0, &Input { from: from.into(), ..Input::default() }, from, to).unwrap()
        };
        assert_eq!(fixed_folder("a/b*/c"), "a/");
        assert_eq!(taken("a/b*/c", "in/").target("a/b1/c").as_deref(), Some(Path::new("in/b1/c")));
        assert_eq!(fixed_part(r"a\*/b/c?/d"), r"a\*/b/");
        assert_eq!(fixed_part(r"a\\*/b"), "");
        assert_eq!(taken(r"a\*/*", "in/").target("a*/c").as_deref(), Some(Path::new("in/c")));
        assert_eq!(taken("**", ".").target("a/b1/c").as_deref(), Some(Path::new("a/b1/c")));
        assert_eq!(taken("a/b", "c").target("a/b").as_deref(), Some(Path::new("c")));
        assert_eq!(taken("a/b", "c").target("a/bc"), None);
        let wrong = TakenFiles::new(0, &Input { from: "*".into(), ..Input::default() }, "*", "../x");
        assert_eq!(wrong, Err(("to", "../x".to_owned())));
    }
}
