//! Files of standard output and error: each task has its own. Folders of tasks: two may have one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Component, Path, PathBuf};

use crate::job::JobSpec;
use crate::job::compile::{StreamTemplate, Templates, WorkDirTemplate};
use crate::job::validate::validate_files::{N_COMPARED, unnamed};
use crate::problem::{Problem, quoted};
use crate::sweep::Dimension;
use crate::template::{Scope, Template};

const EXPECTED: &str = "they would overwrite each other; put {index} or the parameter into the name";

const SHARED: &str = "they may overwrite each other's files; put {index} or the parameter into the name";

impl JobSpec {
    /// What is wrong with a job that is to be submitted, beside what [`JobSpec::validate`] finds. Jobs that are in a store
    /// already are left alone: earlier versions took such ones.
    pub fn validate_to_submit(&self) -> Vec<Problem> {
        self.validate_to_submit_with(true)
    }

    /// The same of a job, some values of which may not be known.
    pub(in crate::job) fn validate_to_submit_with(&self, knows_values: bool) -> Vec<Problem> {
        let mut problems = self.exposed_passwords();
        problems.extend(self.streams_of_two_tasks());
        problems.extend(self.wrong_places(knows_values));
        problems
    }

    /// A file of standard output or error that two tasks would write.
    fn streams_of_two_tasks(&self) -> Option<Problem> {
        let n_tasks = self.sweep.n_tasks();
        let templates = Templates::parse(self).ok().filter(|_| n_tasks > 1)?;
        let streams = [("stdio.stdout", &templates.stdout), ("stdio.stderr", &templates.stderr)];
        let files = streams.into_iter().filter_map(|(field, stream)| match stream {
            // One file for all tasks is refused anyway, unless it is a device.
            StreamTemplate::File(template) if !template.is_same_for_all_tasks() => Some((field, template)),
            _ => None,
        });
        let files: Vec<(&str, &Template)> = files.collect();
        for (field, template) in &files {
            if let Some(column) = unnamed(self, template.slots()) {
                let found = format!("one file for all values of `{}`", column.name);
                return Some(Problem::new(*field, found, EXPECTED));
            }
        }
        let mut written: HashMap<PathBuf, u64> = HashMap::new();
        for index in 0..n_tasks.min(N_COMPARED) {
            let values = self.sweep.values(index);
            let scope = Scope { values: &values, index, job_id: 0, job_name: &self.name, cores: self.cores };
            for (field, template) in &files {
                let path = without_dots(&self.base_dir.join(template.render(&scope)));
                if path.starts_with("/dev") {
                    continue;
                }
                let shown = quoted(&path.to_string_lossy());
                if let Some(other) = written.insert(path, index).filter(|other| *other != index) {
                    return Some(Problem::new(
                        *field,
                        format!("{shown} for tasks {other} and {index}"),
                        EXPECTED,
                    ));
                }
            }
        }
        None
    }
}

impl JobSpec {
    /// A folder that two tasks run in though its name has parameters: right, but hardly meant. A folder without any is
    /// meant for all tasks.
    pub fn folder_of_two_tasks(&self) -> Option<Problem> {
        let n_tasks = self.sweep.n_tasks();
        let templates = Templates::parse(self).ok().filter(|_| n_tasks > 1)?;
        let WorkDirTemplate::Path(template) = &templates.workdir else { return None };
        if template.is_same_for_all_tasks() {
            return None;
        }
        let folder = |index: u64| {
            let values = self.sweep.values(index);
            let scope = Scope { values: &values, index, job_id: 0, job_name: &self.name, cores: self.cores };
            without_dots(&self.base_dir.join(template.render(&scope)))
        };
        let problem = |path: &Path, tasks: (u64, u64), which: &str| {
            let found =
                format!("{} for tasks {} and {}{which}", quoted(&path.to_string_lossy()), tasks.0, tasks.1);
            Problem::new("workdir.path", found, SHARED)
        };
        if let Some(column) = unnamed(self, template.slots()) {
            let of_it =
                |dimension: &&Dimension| !dimension.columns.iter().any(|other| other.name == column.name);
            // Of the dimensions behind it each combination comes before its next value.
            let behind = self.sweep.dimensions.iter().rev().take_while(of_it);
            let next = behind.map(Dimension::len).fold(1, u64::saturating_mul);
            let which = format!(", which differ in `{}`", column.name);
            return Some(problem(&folder(0), (0, next), &which));
        }
        let mut seen: HashMap<PathBuf, u64> = HashMap::new();
        (0..n_tasks.min(N_COMPARED)).find_map(|index| {
            let path = folder(index);
            match seen.entry(path) {
                Entry::Occupied(other) => Some(problem(other.key(), (*other.get(), index), "")),
                Entry::Vacant(new) => {
                    new.insert(index);
                    None
                }
            }
        })
    }
}

/// The path without `.` and `..`, as far as names tell.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::job::{CommandLine, JobSpec, Stream, WorkDirPolicy};

    /// What is said of a job with these columns and this file of standard output.
    fn said(columns: serde_json::Value, stdout: &str) -> Option<String> {
        let command = CommandLine::Args(vec!["echo".to_owned()]);
        let mut spec = JobSpec::new(command, "/data".into());
        spec.sweep = serde_json::from_value(json!({"dimensions": columns, "sample": null})).unwrap();
        spec.stdio.stdout = Stream::File(stdout.to_owned());
        assert_eq!(spec.validate(), []);
        spec.validate_to_submit().first().map(ToString::to_string)
    }

    fn texts(name: &str, values: &[&str]) -> serde_json::Value {
        json!({"columns": [{"name": name, "values": {"texts": values}}]})
    }

    #[test]
    fn two_tasks_never_write_one_file() {
        for (values, file) in [
            (["a", "./a"], "o/{x}"),
            (["a//b", "a/b"], "o/{x}"),
            (["../o/b", "b"], "o/{x}"),
            (["a.x", "a.y"], "o/{x.stem}"),
            (["/data/o", "o"], "{x}"),
        ] {
            let said = said(json!([texts("x", &values)]), file).unwrap_or_default();
            assert!(said.starts_with("stdio.stdout: found `/data/o"), "{values:?}: {said}");
            assert!(said.contains("for tasks 0 and 1"), "{values:?}: {said}");
        }
        let floats =
            json!({"columns": [{"name": "x", "values": {"linspace": {"from": 0.0, "to": 1.0, "n": 21}}}]});
        let rounded = said(json!([floats]), "{x:.1f}").unwrap_or_default();
        assert!(rounded.contains("`/data/0.1` for tasks 1 and 2"), "{rounded}");
        assert_eq!(said(json!([floats]), "{x:.2f}"), None);
        assert_eq!(said(json!([texts("x", &["a", "./a"])]), "{index}-{x}"), None);
        assert_eq!(said(json!([texts("x", &["null", "full"])]), "/dev/{x}"), None);
        // A parameter that is not named is found, however far its values are apart.
        let many = json!({"columns": [{"name": "n", "values": {"integers": [{"from": 1, "step": 1, "n": 400_000}]}}]});
        let two = said(json!([texts("x", &["a", "b"]), many]), "{n}");
        assert!(two.unwrap_or_default().contains("one file for all values of `x`"));
    }

    #[test]
    fn a_folder_with_parameters_that_two_tasks_have_is_told() {
        let said = |dimensions: serde_json::Value, path: &str, sample: serde_json::Value| {
            let command = CommandLine::Args(vec!["echo".to_owned()]);
            let mut spec = JobSpec::new(command, "/data".into());
            spec.sweep = serde_json::from_value(json!({"dimensions": dimensions, "sample": sample})).unwrap();
            spec.workdir = WorkDirPolicy::Path(path.to_owned());
            assert_eq!((spec.validate(), spec.validate_to_submit()), (vec![], vec![]));
            spec.folder_of_two_tasks().map(|problem| problem.to_string())
        };
        let none = || json!(null);
        let floats =
            json!({"columns": [{"name": "x", "values": {"linspace": {"from": 0.0, "to": 1.0, "n": 21}}}]});
        let expected = "workdir.path: found `/data/runs/0.1` for tasks 1 and 2; they may overwrite each other's files; \
            put {index} or the parameter into the name";
        assert_eq!(said(json!([floats]), "runs/{x:.1f}", none()).as_deref(), Some(expected));
        assert_eq!(said(json!([floats]), "runs/{x}", none()), None);
        assert_eq!(said(json!([floats]), "runs/{x:.1f}-{number}", none()), None);
        // One for all is meant so.
        assert_eq!(said(json!([floats]), "runs", none()), None);
        assert_eq!(said(json!([floats]), "runs/{job}", none()), None);
        // Found at once in sweeps of any size, and the tasks are those that differ in it.
        let many = |name: &str, n: u64| json!({"columns": [{"name": name, "values": {"integers": [{"from": 1, "step": 1, "n": n}]}}]});
        let (a, b, c) = (many("a", 1000), many("b", 1_000_000), many("c", 1000));
        let found = said(json!([a, c, b]), "{a}/{b}", none()).unwrap();
        assert!(found.contains("`/data/1/1` for tasks 0 and 1000000, which differ in `c`;"), "{found}");
        let found = said(json!([a, b]), "{a}", none()).unwrap();
        assert!(found.contains("`/data/1` for tasks 0 and 1, which differ in `b`;"), "{found}");
        assert_eq!(said(json!([a, b, c]), "{a}/{b}/{c}", none()), None);
        // A sample has some combinations only.
        let found = said(json!([many("a", 2), b]), "{a}", json!({"n": 3, "seed": 1})).unwrap();
        assert!(found.contains("workdir.path: found `/data/") && !found.contains("differ"), "{found}");
    }
}
