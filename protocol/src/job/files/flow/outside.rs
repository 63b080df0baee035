//! Patterns of groups: whether they match files of tasks outside of the group.

use crate::job::files::flow::{Check, N_COMPARED};
use crate::job::files::pattern::{fixed_part, may_match, plain};
use crate::job::{OutputTarget, Several, TakenFiles};
use crate::problem::{Problem, quoted};

/// What comparing names with patterns of groups may cost, of all stages together; a name costs one.
const COST_MAX: u64 = 1_000_000;

/// What it costs to compare two patterns, where a name costs one.
const PATTERN_COST: u64 = 20;

/// A file that a task leaves below the submitter's folder, or several that are named together.
pub(super) struct Named {
    /// Its path; of several the folder that they go to, with a slash at its end unless it is the submitter's folder.
    path: String,
    /// Of several: the pattern of their names in that folder.
    tail: Option<String>,
    task: u64,
}

impl Named {
    /// Whether this is a file of the pattern, or a file may be.
    fn may_match(&self, taken: &TakenFiles) -> bool {
        match &self.tail {
            None => taken.target(&self.path).is_some(),
            Some(tail) => may_match(&taken.from, &self.path, tail),
        }
    }

    fn shown(&self) -> String {
        match &self.tail {
            None => quoted(&self.path),
            Some(tail) if tail == ANY_NAME => format!("files in {}", quoted(&self.path)),
            Some(tail) => format!("files like {}", quoted(&format!("{}{tail}", self.path))),
        }
    }
}

/// Any path of one character or more.
const ANY_NAME: &str = "?**";

impl Check<'_> {
    /// Refuses a pattern of a group that matches, or may match, files of tasks outside of it. `**` means all files of
    /// the group.
    pub(super) fn outside(&mut self, stage: usize, task: u64, taken: &TakenFiles) -> Result<(), Problem> {
        let is_grouped = taken.after.iter().all(|at| self.grouped.contains(&(stage, *at)));
        if !is_grouped || taken.from == "**" {
            return Ok(());
        }
        let folder = plain(fixed_part(&taken.from));
        let folder = &*folder;
        for (on, tasks) in self.before(stage, task, taken) {
            if !self.by_name.contains_key(&on) {
                let names = self.names_of(on);
                self.by_name.insert(on, names);
            }
            let Some(names) = self.by_name.get(&on) else { continue };
            // Several files go to a folder above or below.
            let first = match names.iter().any(|named| named.tail.is_some()) {
                true => 0,
                false => names.partition_point(|named| named.path.as_str() < folder),
            };
            for named in &names[first..] {
                let is_below = named.path.starts_with(folder);
                if first > 0 && !is_below {
                    break;
                }
                let is_near = is_below || named.tail.is_some() && folder.starts_with(&named.path);
                self.n_matched += if is_near && named.tail.is_some() { PATTERN_COST } else { 1 };
                if self.n_matched > COST_MAX {
                    return Ok(());
                }
                if !is_near || tasks.contains(named.task) || !named.may_match(taken) {
                    continue;
                }
                return Err(self.matched_outside((stage, task), (on, named), taken));
            }
        }
        Ok(())
    }

    /// What a stage leaves below the submitter's folder, in order of the names. The job's number is not known yet;
    /// patterns cannot name it either.
    fn names_of(&self, on: usize) -> Vec<Named> {
        let Some(compiled) = self.compiled.get(on).and_then(Option::as_ref) else { return Vec::new() };
        let mut names = Vec::new();
        for task in 0..compiled.n_tasks() {
            if names.len() as u64 >= N_COMPARED {
                break;
            }
            for output in compiled.outputs(0, task).unwrap_or_default() {
                let OutputTarget::Home(path) = output.to else { continue };
                let mut path = path.to_string_lossy().into_owned();
                let tail = output.several.map(|several| match several {
                    Several::Folder => ANY_NAME.to_owned(),
                    Several::Pattern(pattern) => pattern[fixed_part(&pattern).len()..].to_owned(),
                });
                if tail.is_some() && !path.is_empty() {
                    path.push('/');
                }
                names.push(Named { path, tail, task });
            }
        }
        names.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        names
    }

    fn matched_outside(
        &self,
        (stage, task): (usize, u64),
        (on, named): (usize, &Named),
        taken: &TakenFiles,
    ) -> Problem {
        let (pattern, other) = (quoted(&taken.from), self.task_name(on, named.task));
        let verb = if named.tail.is_some() { "may also match" } else { "also matches" };
        let found = format!(
            "{pattern}, which {verb} {} of {other}, and {other} is not in the group of {}",
            named.shown(),
            self.task_name(stage, task)
        );
        let on = self.stages.get(on).map_or("", |on| on.name.as_str());
        let expected = format!(
            "name the parameters that both stages have in it, write `stage:{on}` for all files of the group, or take \
             `tasks: groups` out"
        );
        self.of_input(stage, taken, found, expected)
    }
}
