//! A workflow: jobs whose tasks wait for each other, accepted as a whole.

use scheduler::{
    edges::{EdgeProblem, Edges, OnFailedDependency, Shape, check},
    ids::JobId,
};
use serde::{Deserialize, Serialize};

use crate::job::{JobSpec, limits};
use crate::problem::Problem;

/// Several jobs and what their tasks wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkflowSpec {
    /// What people call it.
    pub name: String,
    /// Its jobs.
    pub stages: Vec<StageSpec>,
}

/// A job of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StageSpec {
    /// Its name in the workflow.
    pub name: String,
    /// What it runs.
    pub job: JobSpec,
    /// What its tasks wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterSpec>,
    /// What becomes of those that wait for what fails.
    #[serde(default, skip_serializing_if = "OnFailedDependency::is_default")]
    pub on_failed_dependency: OnFailedDependency,
}

impl StageSpec {
    /// The field of its job that a path in a workflow names, if it is one of this stage.
    pub fn field<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix("stages.")?.strip_prefix(&self.name)?.strip_prefix('.')
    }

    /// A problem of its job as one of the workflow.
    pub fn problem(&self, problem: Problem) -> Problem {
        Problem { path: format!("stages.{}.{}", self.name, problem.path), ..problem }
    }
}

/// What the tasks of a stage wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AfterSpec {
    /// Whose tasks.
    pub on: OnSpec,
    /// Which task for which.
    pub edges: Edges,
}

/// Whose tasks are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnSpec {
    /// The stage of this position in the same workflow, from 0; it may be the stage itself.
    Stage(usize),
    /// A job that was accepted before.
    Job(JobId),
}

/// A stage's position, and one of its tasks.
type Unit = (usize, u64);

impl WorkflowSpec {
    /// All tasks.
    pub fn n_tasks(&self) -> u64 {
        self.stages.iter().map(|stage| stage.job.sweep.n_tasks()).fold(0, u64::saturating_add)
    }

    /// Edges between tasks of the workflow, those by rule included.
    pub fn n_edges(&self) -> u64 {
        let edges = self.stages.iter().flat_map(|stage| {
            stage.after.iter().map(|after| match after.on {
                OnSpec::Stage(on) => {
                    let n_on = self.stages.get(on).map_or(0, |on| on.job.sweep.n_tasks());
                    after.edges.n_edges(stage.job.sweep.n_tasks(), n_on)
                }
                OnSpec::Job(_) => 0,
            })
        });
        edges.fold(0, u64::saturating_add)
    }

    /// Everything that is wrong with it.
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let n_stages = self.stages.len();
        if n_stages == 0 || n_stages > limits::N_STAGES_MAX {
            let expected = format!("give 1 to {} of them", limits::N_STAGES_MAX);
            problems.push(Problem::new("stages", format!("{n_stages} stages"), expected));
        }
        for stage in &self.stages {
            problems.extend(stage.job.validate().into_iter().map(|problem| stage.problem(problem)));
        }
        if problems.is_empty() {
            problems.extend(self.check_edges());
        }
        if problems.is_empty() {
            problems.extend(self.check_positions());
        }
        if problems.is_empty() {
            problems.extend(self.check_files());
        }
        problems
    }

    /// The path of a stage's field `after` in its file: a file of one job has no `stages`.
    pub fn after_path(&self, stage: usize) -> String {
        match &self.stages[..] {
            [lone] if lone.name == self.name => "after".to_owned(),
            stages => format!("stages.{}.after", stages.get(stage).map_or("?", |stage| stage.name.as_str())),
        }
    }

    /// What is wrong with the edges, by the names of stages.
    pub fn check_edges(&self) -> Option<Problem> {
        let problem = check(&self.shapes()).err()?;
        let name = |stage: usize| self.stages.get(stage).map_or("?", |stage| stage.name.as_str());
        let path = |stage: usize| self.after_path(stage);
        Some(match &problem {
            EdgeProblem::Sizes { stage, found, rule, wanted, .. } => Problem::new(
                path(*stage),
                format!("`{rule}` for {found} tasks"),
                format!("{wanted} tasks would go with it; check both sweeps, or write `tasks: all`"),
            ),
            EdgeProblem::Circle(knots) => {
                let names = knots.iter().map(|knot| match knot.task {
                    Some(task) => format!("{}.{task}", name(knot.stage)),
                    None => name(knot.stage).to_owned(),
                });
                circle(path(knots.first().map_or(0, |knot| knot.stage)), names)
            }
            EdgeProblem::NoStage { stage, .. }
            | EdgeProblem::NoJob { stage, .. }
            | EdgeProblem::NoTask { stage, .. } => {
                Problem::new(path(*stage), format!("edges that cannot be: {problem}"), "correct them")
            }
        })
    }

    /// How many tasks must run one after the other at least: the longest way through the graph. Where edges are listed,
    /// it is counted task by task.
    pub fn critical_path(&self) -> u64 {
        let is_listed = |after: &AfterSpec| matches!(after.edges, Edges::Listed(_));
        let n_units = |stage: &StageSpec| match self.stages.iter().flat_map(|s| &s.after).any(is_listed) {
            true => stage.job.sweep.n_tasks().min(limits::N_TEXTS_MAX as u64),
            // By rules alone all tasks of a stage stand alike.
            false => 1,
        };
        let starts: Vec<u64> = self.stages.iter().map(n_units).collect();
        // The last place of each stage stands for all of its tasks, so that edges from all to all are not walked.
        let mut depths: Vec<Vec<u64>> = starts.iter().map(|n| vec![0; *n as usize + 1]).collect();
        let mut longest = 0;
        let mut path: Vec<(Unit, Vec<Unit>, usize)> = Vec::new();
        for (stage, n) in starts.iter().enumerate() {
            for task in 0..*n {
                path.push(((stage, task), self.before(stage, task, &starts), 0));
                // Each is done when all before it are; no circle is left by now.
                while let Some(((at, unit), before, n_done)) = path.last_mut() {
                    let (at, unit) = (*at, *unit as usize);
                    if depths[at][unit] > 0 {
                        path.pop();
                        continue;
                    }
                    let is_done = |(on, other): &&Unit| depths[*on][*other as usize] > 0;
                    *n_done += before[*n_done..].iter().take_while(is_done).count();
                    match before.get(*n_done).copied() {
                        Some(next) => {
                            let more = self.before(next.0, next.1, &starts);
                            path.push((next, more, 0));
                        }
                        None => {
                            let deepest = before.iter().map(|(on, other)| depths[*on][*other as usize]).max();
                            let own = u64::from((unit as u64) < starts[at]);
                            depths[at][unit] = (deepest.unwrap_or(0) + own).max(1);
                            longest = longest.max(depths[at][unit]);
                            path.pop();
                        }
                    }
                }
            }
        }
        longest
    }

    /// What a task waits for, as far as tasks are counted one by one. The task after the last one stands for all.
    fn before(&self, stage: usize, task: u64, n_units: &[u64]) -> Vec<Unit> {
        let mut all = Vec::new();
        if task == n_units[stage] {
            return (0..task).map(|before| (stage, before)).collect();
        }
        for after in &self.stages[stage].after {
            let OnSpec::Stage(on) = after.on else { continue };
            match &after.edges {
                Edges::Listed(listed) => all.extend(listed.of(task).map(|before| (on, before))),
                Edges::Same => all.push((on, task)),
                Edges::All | Edges::Groups(_) | Edges::Spread(_) => {
                    all.push((on, n_units[on]));
                }
            }
        }
        all.retain(|(on, before)| *before <= n_units[*on]);
        all
    }

    fn shapes(&self) -> Vec<Shape<'_>> {
        let shape = |stage: &'_ StageSpec| stage.job.sweep.n_tasks();
        let mut shapes = Vec::new();
        for stage in &self.stages {
            let within = stage.after.iter().filter_map(|after| match after.on {
                OnSpec::Stage(on) => Some((on, &after.edges)),
                OnSpec::Job(_) => None,
            });
            shapes.push(Shape { n_tasks: shape(stage), after: within.collect() });
        }
        shapes
    }
}

/// Tasks or stages that wait for each other.
pub(super) fn circle(path: String, names: impl Iterator<Item = String>) -> Problem {
    /// Names of a long circle that are shown.
    const N_SHOWN_MAX: usize = 12;
    let names: Vec<String> = names.collect();
    let shown = match names.len() {
        n if n <= N_SHOWN_MAX => names.join(" → "),
        n => {
            format!("{} → … ({} more) → {}", names[..N_SHOWN_MAX].join(" → "), n - N_SHOWN_MAX, names[n - 1])
        }
    };
    Problem::new(
        path,
        format!("a circle: {shown}"),
        "nothing of it could ever begin; take one `after` or file out",
    )
}

/// A name that nothing has.
#[cfg(feature = "author")]
pub(super) fn unknown<'a>(
    path: String,
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Problem {
    // Where no stage is named, the file is one job.
    let is_lone = |field: &str| path == field || path.starts_with(&format!("{field}["));
    let expected = match crate::problem::nearest(name, known) {
        _ if is_lone("after") => {
            "this file has no stages; name a job by its number, like `{job: 7}`".to_owned()
        }
        _ if is_lone("reduce") => "this file has no stages; write them under `stages`".to_owned(),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("name one of the {kind}s of this file"),
    };
    let name = crate::problem::quoted(name);
    Problem::new(path, format!("no {kind} {name}"), expected)
}
