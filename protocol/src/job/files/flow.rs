//! Files that flow between the stages of a workflow: whether each that is taken is left, by a task that is waited for,
//! and under one name only.

mod outside;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use scheduler::ranges::TaskSet;

use crate::job::files::flow::outside::Named;
use crate::job::files::path::{Source, kind_of};
use crate::job::files::pattern::is_pattern;
use crate::job::{
    AfterSpec, Compiled, JobSpec, OnSpec, OutputTarget, StageSpec, TakenFiles, WorkflowSpec, limits,
};
use crate::problem::{Problem, quoted};

/// So many names that tasks leave, and that they take, are made and compared, of all stages together. What tasks beyond
/// them take is not looked at before they begin.
const N_COMPARED: u64 = 100_000;

impl WorkflowSpec {
    /// What is wrong with the files that its stages take from each other, by the names of stages. The stages
    /// themselves are right.
    pub fn check_files(&self) -> Vec<Problem> {
        self.check_files_in_groups(&self.groups_by_name())
    }

    /// The same; `grouped` are the entries of `after`, by stage and position, whose tasks wait for groups. A pattern that
    /// also matches files of tasks outside of the group says something else than `after`.
    pub(in crate::job) fn check_files_in_groups(&self, grouped: &BTreeSet<(usize, usize)>) -> Vec<Problem> {
        let takes = self.stages.iter().any(|stage| stage.job.inputs.iter().any(|i| !i.after.is_empty()));
        let n_leaving = self.stages.iter().filter(|stage| !stage.job.outputs.is_empty()).count();
        if !takes && n_leaving < 2 {
            return Vec::new();
        }
        let mut check = Check::new(self, grouped);
        (0..self.stages.len()).for_each(|stage| check.leave(stage));
        (0..self.stages.len()).for_each(|stage| check.entries(stage));
        if check.problems.is_empty() {
            (0..self.stages.len()).for_each(|stage| check.take(stage));
        }
        check.problems
    }

    /// Marks the stages of which others take files.
    pub fn mark_taken(&mut self) {
        let by_input = |stage: &StageSpec| {
            let entries = stage.job.inputs.iter().flat_map(|input| &input.after);
            entries.filter_map(|at| on_stage(stage.after.get(*at))).collect::<Vec<_>>()
        };
        let taken: Vec<usize> = self.stages.iter().flat_map(by_input).collect();
        taken.into_iter().for_each(|stage| {
            if let Some(stage) = self.stages.get_mut(stage) {
                stage.job.is_taken = true;
            }
        });
    }
}

/// Who leaves a file.
#[derive(Clone, Copy)]
struct Left {
    stage: usize,
    task: u64,
    optional: bool,
}

struct Check<'w> {
    stages: &'w [StageSpec],
    compiled: Vec<Option<Compiled>>,
    /// Who leaves what goes to the submitter's folder.
    left: HashMap<String, Left>,
    /// Entries of `after` whose tasks wait for groups.
    grouped: &'w BTreeSet<(usize, usize)>,
    /// What each stage leaves, in order of the names, where patterns of groups were compared with that.
    by_name: BTreeMap<usize, Vec<Named>>,
    /// Names that these patterns were compared with.
    n_matched: u64,
    /// Of which stages all of that is known.
    is_known: Vec<bool>,
    /// Names that were made of what is left, and of what is taken; a task without any counts as one.
    n_left: u64,
    n_compared: u64,
    problems: Vec<Problem>,
}

impl<'w> Check<'w> {
    fn new(workflow: &'w WorkflowSpec, grouped: &'w BTreeSet<(usize, usize)>) -> Check<'w> {
        let has_files = |stage: &StageSpec| !stage.job.inputs.is_empty() || !stage.job.outputs.is_empty();
        let compiled = |stage: &StageSpec| stage.job.compile().ok().filter(|_| has_files(stage));
        Check {
            stages: &workflow.stages,
            compiled: workflow.stages.iter().map(compiled).collect(),
            left: HashMap::new(),
            grouped,
            by_name: BTreeMap::new(),
            n_matched: 0,
            is_known: vec![true; workflow.stages.len()],
            n_left: 0,
            n_compared: 0,
            problems: Vec::new(),
        }
    }

    fn path(&self, stage: usize, field: &str) -> String {
        let name = self.stages.get(stage).map_or("?", |stage| stage.name.as_str());
        format!("stages.{name}.{field}")
    }

    /// `dock.7`, or the stage alone where it is one task.
    fn task_name(&self, stage: usize, task: u64) -> String {
        let Some(stage) = self.stages.get(stage) else { return String::new() };
        match stage.job.sweep.n_tasks() {
            1 => stage.name.clone(),
            _ => format!("{}.{task}", stage.name),
        }
    }

    /// Takes note of what a stage leaves.
    fn leave(&mut self, stage: usize) {
        let Some(compiled) = self.compiled.get(stage).and_then(Option::as_ref) else { return };
        // The number of the job is not known yet.
        let names_job = names_job(compiled.spec());
        if compiled.spec().outputs.is_empty() {
            return;
        }
        self.is_known[stage] = false;
        if names_job {
            return;
        }
        let mut is_all_named = true;
        for task in 0..compiled.n_tasks() {
            if self.n_left >= N_COMPARED {
                return;
            }
            let outputs = compiled.outputs(0, task).unwrap_or_default();
            self.n_left += (outputs.len() as u64).max(1);
            for output in outputs {
                let OutputTarget::Home(path) = output.to else { continue };
                if output.several.is_some() {
                    is_all_named = false;
                    continue;
                }
                let path = path.to_string_lossy().into_owned();
                let left = Left { stage, task, optional: output.optional };
                let Some(other) = self.left.insert(path.clone(), left).filter(|o| o.stage != stage) else {
                    continue;
                };
                let found = format!(
                    "{}, which is left by task {} too",
                    quoted(&path),
                    self.task_name(other.stage, other.task)
                );
                let expected = "one would overwrite the other; give them different names";
                self.problems.push(Problem::new(self.path(stage, "outputs"), found, expected));
                return;
            }
        }
        // What a pattern of outputs matches is known when the task has ended.
        self.is_known[stage] = is_all_named;
    }

    /// Whether the entries of `after` are there that inputs name.
    fn entries(&mut self, stage: usize) {
        let of = &self.stages[stage];
        for (n, input) in of.job.inputs.iter().enumerate() {
            let mut on: Vec<Option<usize>> =
                input.after.iter().map(|at| on_stage(of.after.get(*at))).collect();
            on.dedup();
            if on.iter().any(Option::is_none) {
                let expected = "only what tasks of the same workflow leave is taken";
                let found = format!("files by {:?} of {} entries of `after`", input.after, of.after.len());
                self.problems.push(Problem::new(self.path(stage, &format!("inputs[{n}]")), found, expected));
            } else if on.len() > 1 && is_pattern(&input.from) {
                let found = format!("{} of {} stages", quoted(&input.from), on.len());
                let expected = "write one input for each stage";
                self.problems.push(Problem::new(self.path(stage, &format!("inputs[{n}]")), found, expected));
            }
        }
    }

    /// Whether what a stage takes is left.
    fn take(&mut self, stage: usize) {
        let Some(compiled) = self.compiled[stage].take() else { return };
        let n_tasks = if compiled.takes() { compiled.n_tasks() } else { 0 };
        for task in 0..n_tasks {
            if self.n_compared >= N_COMPARED {
                break;
            }
            if let Err(problem) = self.take_one(&compiled, stage, task) {
                self.problems.push(problem);
                break;
            }
        }
        // Others take what it leaves.
        self.compiled[stage] = Some(compiled);
    }

    fn take_one(&mut self, compiled: &Compiled, stage: usize, task: u64) -> Result<(), Problem> {
        let mut targets: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let own = compiled.inputs(0, task).map_err(|problem| self.of_stage(stage, problem))?;
        self.n_compared += 1 + own.len() as u64;
        targets.extend(own.into_iter().map(|input| (input.to, usize::MAX)));
        for taken in compiled.taken(0, task).map_err(|problem| self.of_stage(stage, problem))? {
            let found = match taken.is_pattern {
                true => self.of_pattern(stage, task, &taken)?,
                false => self.one_file(stage, task, &taken).map(|()| vec![taken.to.clone()])?,
            };
            for target in found {
                self.n_compared += 1;
                let shown = quoted(&target.to_string_lossy());
                if targets.insert(target, taken.input).is_some() {
                    let found = format!("{shown} a second time for task {}", self.task_name(stage, task));
                    let expected = "two files cannot have one name; set `to`";
                    return Err(self.of_input(stage, &taken, found, expected));
                }
            }
        }
        Ok(())
    }

    fn of_stage(&self, stage: usize, problem: Problem) -> Problem {
        Problem { path: self.path(stage, &problem.path), ..problem }
    }

    fn of_input(
        &self,
        stage: usize,
        taken: &TakenFiles,
        found: String,
        expected: impl Into<String>,
    ) -> Problem {
        Problem::new(self.path(stage, &format!("inputs[{}]", taken.input)), found, expected)
    }

    /// A file by its name is left by a task that is waited for.
    fn one_file(&self, stage: usize, task: u64, taken: &TakenFiles) -> Result<(), Problem> {
        let name = self.task_name(stage, task);
        let Some(left) = self.left.get(&taken.from) else {
            let is_known = self.before(stage, task, taken).iter().all(|(on, _)| self.is_known[*on]);
            if !is_known {
                return Ok(());
            }
            let found = format!("{}, which is left by no task that {name} waits for", quoted(&taken.from));
            return Err(self.of_input(stage, taken, found, self.what_is_left(stage, taken)));
        };
        let before = self.before(stage, task, taken);
        if !before.iter().any(|(on, tasks)| *on == left.stage && tasks.contains(left.task)) {
            let leaver = self.task_name(left.stage, left.task);
            let found =
                format!("{}, which is left by {leaver}, for which {name} does not wait", quoted(&taken.from));
            let expected = "see `tasks` of its `after`, or take another file";
            return Err(self.of_input(stage, taken, found, expected));
        }
        if left.optional && !taken.optional {
            let found = format!(
                "{}, which may be missing: {} need not leave it",
                quoted(&taken.from),
                self.task_name(left.stage, left.task)
            );
            let expected = "write `optional: true` here, too, or not there";
            return Err(self.of_input(stage, taken, found, expected));
        }
        Ok(())
    }

    /// Where the files of a pattern go, as far as they are looked at.
    fn of_pattern(&mut self, stage: usize, task: u64, taken: &TakenFiles) -> Result<Vec<PathBuf>, Problem> {
        let (mut found, mut is_all) = (Vec::new(), true);
        for (on, tasks) in self.before(stage, task, taken) {
            let Some(compiled) = self.compiled[on].as_ref() else { continue };
            let n_most = tasks.len().saturating_mul(compiled.spec().outputs.len() as u64);
            if n_most > limits::N_TAKEN_MAX {
                let text = format!("up to {n_most} files for task {}", self.task_name(stage, task));
                let expected = format!("a task takes at most {}; take them in groups", limits::N_TAKEN_MAX);
                return Err(self.of_input(stage, taken, text, expected));
            }
            is_all &= self.is_known[on];
            for before in tasks.indices() {
                if self.n_compared >= N_COMPARED {
                    is_all = false;
                    break;
                }
                let outputs = compiled.outputs(0, before).unwrap_or_default();
                self.n_compared += (outputs.len() as u64).max(1);
                for output in outputs {
                    let OutputTarget::Home(path) = &output.to else { continue };
                    if output.several.is_some() {
                        continue;
                    }
                    found.extend(taken.target(&path.to_string_lossy()));
                }
            }
        }
        if found.is_empty() && is_all && !taken.optional {
            let text = format!(
                "{}, of which no task leaves any that {} waits for",
                quoted(&taken.from),
                self.task_name(stage, task)
            );
            return Err(self.of_input(stage, taken, text, self.what_is_left(stage, taken)));
        }
        self.outside(stage, task, taken)?;
        Ok(found)
    }

    /// The tasks of whose files it takes, by stage.
    fn before(&self, stage: usize, task: u64, taken: &TakenFiles) -> BTreeMap<usize, TaskSet> {
        let mut all: BTreeMap<usize, TaskSet> = BTreeMap::new();
        for entry in taken.after.iter().filter_map(|at| self.stages[stage].after.get(*at)) {
            let Some(on) = on_stage(Some(entry)) else { continue };
            let n_on = self.stages.get(on).map_or(0, |on| on.job.sweep.n_tasks());
            let one = TaskSet::from(task..task.saturating_add(1));
            all.entry(on).or_default().insert_all(&entry.edges.predecessors(&one, n_on));
        }
        all
    }

    fn what_is_left(&self, stage: usize, taken: &TakenFiles) -> String {
        let on = taken.after.first().and_then(|at| on_stage(self.stages[stage].after.get(*at)));
        let Some(on) = on.and_then(|on| self.stages.get(on)) else { return "name what is left".to_owned() };
        let home =
            on.job.outputs.iter().map(|output| output.to.as_str()).filter(|to| kind_of(to) == Source::Home);
        let names: Vec<String> = home.take(3).map(quoted).collect();
        match names.is_empty() {
            true => format!("stage {} leaves nothing: name files in its `outputs`", quoted(&on.name)),
            false => format!("stage {} leaves {}", quoted(&on.name), names.join(", ")),
        }
    }
}

/// Whether what a job leaves goes to places that differ from job to job.
pub(in crate::job) fn names_job(job: &JobSpec) -> bool {
    job.outputs.iter().any(|output| output.to.contains("{job"))
}

fn on_stage(entry: Option<&AfterSpec>) -> Option<usize> {
    match entry?.on {
        OnSpec::Stage(on) => Some(on),
        OnSpec::Job(_) => None,
    }
}
