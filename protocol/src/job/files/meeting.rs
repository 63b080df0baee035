//! Outputs of two tasks, or of two stages, of which both may leave a file of one name. Which names patterns and folders
//! stand for is known only when tasks have ended, so this is a doubt and no mistake.

use crate::job::files::flow::names_job;
use crate::job::files::pattern::{fixed_part, may_match};
use crate::job::validate::validate_files::N_COMPARED;
use crate::job::{Compiled, JobSpec, OutputTarget, Several, StageSpec, TaskOutputFile, WorkflowSpec};
use crate::problem::{Problem, quoted};

/// So many pairs are compared; what lies behind them is not looked at.
const N_PAIRS: usize = 200_000;

const APART: &str = "of two files of one name only the first is brought; give them different folders, or names that no other may have";

const APART_ELSEWHERE: &str = "of two files of one name one would overwrite the other; give them different folders, or names that no other may have";

/// What an output of a task stands for: a file, or all names of a pattern.
struct Names {
    /// The beginning of all of them.
    text: String,
    /// How they go on; empty: it is one file.
    tail: String,
    stage: usize,
    task: u64,
    output: usize,
}

impl JobSpec {
    /// An output of a task that may leave a file where another task's output leaves one, if there is such a pair: right, but
    /// hardly meant. Patterns and folders only; of single files it is refused.
    pub fn outputs_that_may_meet(&self) -> Option<Problem> {
        if !self.outputs.iter().any(|output| output.is_several()) {
            return None;
        }
        let compiled = self.compile().ok()?;
        let mut all = Vec::new();
        add_names(&compiled, 0, &mut all);
        let (one, other) = first_pair(&all, |one, other| one.task != other.task)?;
        let found = format!(
            "{} of task {}, which may leave a file of the same name as {} of task {}",
            quoted(&one.shown()),
            one.task,
            quoted(&other.shown()),
            other.task
        );
        Some(Problem::new(format!("outputs[{}]", one.output), found, one.advice()))
    }
}

impl WorkflowSpec {
    /// The same of each stage, and of two stages.
    pub fn outputs_that_may_meet(&self) -> Vec<Problem> {
        let of_stage = |stage: &StageSpec| Some(stage.problem(stage.job.outputs_that_may_meet()?));
        let mut problems: Vec<Problem> = self.stages.iter().filter_map(of_stage).collect();
        let mut all = Vec::new();
        // Jobs have numbers of their own, which are not known yet.
        let known = self.stages.iter().enumerate().filter(|(_, stage)| !names_job(&stage.job));
        for (at, stage) in known.filter(|(_, stage)| !stage.job.outputs.is_empty()) {
            if let Ok(compiled) = stage.job.compile() {
                add_names(&compiled, at, &mut all);
            }
        }
        let Some((one, other)) = first_pair(&all, |one, other| one.stage != other.stage) else {
            return problems;
        };
        let (Some(stage), Some(before)) = (self.stages.get(one.stage), self.stages.get(other.stage)) else {
            return problems;
        };
        let found = format!(
            "{}, which may leave a file of the same name as {} of stage {}",
            quoted(&one.shown()),
            quoted(&other.shown()),
            quoted(&before.name)
        );
        problems.push(stage.problem(Problem::new(format!("outputs[{}]", one.output), found, one.advice())));
        problems
    }
}

/// Adds what the tasks of a job leave, as far as it is looked at.
fn add_names(compiled: &Compiled, stage: usize, all: &mut Vec<Names>) {
    for task in 0..compiled.n_tasks() {
        if all.len() as u64 >= N_COMPARED {
            return;
        }
        let outputs = compiled.outputs(0, task).unwrap_or_default().into_iter().enumerate();
        all.extend(outputs.map(|(output, left)| {
            let (text, tail) = names_of(&left);
            Names { text, tail, stage, task, output }
        }));
    }
}

/// How names begin, and how they go on.
fn names_of(output: &TaskOutputFile) -> (String, String) {
    let tail = match &output.several {
        None => return (output.to.shown(), String::new()),
        Some(Several::Folder) => "**",
        Some(Several::Pattern(pattern)) => &pattern[fixed_part(pattern).len()..],
    };
    let folder = match &output.to {
        OutputTarget::Home(path) if path.as_os_str().is_empty() => String::new(),
        folder => format!("{}/", folder.shown()),
    };
    (folder, tail.to_owned())
}

impl Names {
    /// How a person writes it.
    fn shown(&self) -> String {
        format!("{}{}", self.text, self.tail.replace('\\', ""))
    }

    /// What to do where others may have the same names.
    fn advice(&self) -> &'static str {
        if self.text.contains("://") { APART_ELSEWHERE } else { APART }
    }

    /// All of it as a pattern.
    fn pattern(&self) -> String {
        let mut pattern = String::new();
        for c in self.text.chars() {
            if matches!(c, '*' | '?' | '\\') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + &self.tail
    }

    /// What all names begin with.
    fn beginning(&self) -> String {
        let wild = self.tail.find(['*', '?', '\\']).unwrap_or(self.tail.len());
        format!("{}{}", self.text, &self.tail[..wild])
    }
}

/// The first two that may have a name in common, the later one first. Two single files are not looked at.
fn first_pair(all: &[Names], are_apart: impl Fn(&Names, &Names) -> bool) -> Option<(&Names, &Names)> {
    let mut sorted: Vec<(String, &Names)> = all.iter().map(|names| (names.beginning(), names)).collect();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    // Those with whose beginning the current one begins: all others have other names.
    let mut above: Vec<(&str, &Names, String)> = Vec::new();
    let mut n_pairs = 0;
    for (beginning, names) in &sorted {
        while above.last().is_some_and(|(shorter, ..)| !beginning.starts_with(shorter)) {
            above.pop();
        }
        for (_, other, pattern) in &above {
            if !are_apart(names, other) || names.tail.is_empty() && other.tail.is_empty() {
                continue;
            }
            n_pairs += 1;
            if n_pairs > N_PAIRS {
                return None;
            }
            if may_match(pattern, &names.text, &names.tail) {
                let is_later = (names.stage, names.task) > (other.stage, other.task);
                return Some(if is_later { (names, other) } else { (other, names) });
            }
        }
        above.push((beginning, names, names.pattern()));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::job::{CommandLine, JobSpec, Output, WorkDirPolicy};

    /// What is said of a job with these values of `s` and these outputs: `(from, to)`.
    fn said(values: &[&str], outputs: &[(&str, &str)]) -> Option<String> {
        let mut spec = JobSpec::new(CommandLine::Args(vec!["true".to_owned()]), "/data".into());
        let columns = json!([{"columns": [{"name": "s", "values": {"texts": values}}]}]);
        spec.sweep = serde_json::from_value(json!({"dimensions": columns, "sample": null})).unwrap();
        spec.workdir = WorkDirPolicy::Scratch;
        let output = |(from, to): &(&str, &str)| Output {
            from: (*from).into(),
            to: (*to).into(),
            ..Output::default()
        };
        spec.outputs = outputs.iter().map(output).collect();
        assert_eq!(spec.validate(), []);
        spec.outputs_that_may_meet().map(|problem| problem.to_string())
    }

    #[test]
    fn outputs_of_two_tasks_that_may_leave_one_name_are_told_and_others_are_not() {
        let text = said(&["1", "1-2"], &[("part-{s}-*.txt", ".")]).unwrap();
        assert!(
            text.starts_with(
                "outputs[0]: `part-1-2-*.txt` of task 1 may leave a file of the same name as `part-1-*.txt` of task 0; of \
                 two files of one name only the first is brought"
            ),
            "{text}"
        );
        for (values, outputs, expected) in [
            (&["1", "2", "10"][..], &[("part-{s}-*.txt", ".")][..], false),
            (&["1", "12"], &[("part-{s}*.txt", ".")], true),
            (&["1", "12"], &[("*-{s}.txt", ".")], false),
            (&["1", "2-1"], &[("*-{s}.txt", ".")], true),
            (&["a", "b"], &[("d/", "out/{s}")], false),
            (&["a", "a/b"], &[("d/", "out/{s}")], true),
            (&["a", "qa"], &[("{s}*", "."), ("x", "q{s}")], true),
            (&["a", "b"], &[("{s}*", "."), ("x", "c{s}.x")], false),
            (&["a", "b"], &[("o", "{s}")], false),
            (&["*", "ab"], &[("p-{s}-*", ".")], false),
            (&["a", "b"], &[("**/{s}.log", ".")], false),
            (&["a", "b/a"], &[("**/{s}.log", ".")], true),
            (&["a", "b"], &[("*.log", "store://s/{s}")], false),
            (&["a", "a/b"], &[("**", "store://s/{s}")], true),
        ] {
            let text = said(values, outputs);
            assert_eq!(text.is_some(), expected, "{values:?} {outputs:?}: {text:?}");
        }
    }
}
