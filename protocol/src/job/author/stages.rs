//! Reading files of several jobs: `stages:` by name, each with the fields of a job, and what they come after.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use scheduler::edges::{Edges, OnFailedDependency};
use scheduler::ids::JobId;
use serde_yaml::Value;

use crate::job::author::by_name::{self, RULES, Rule};
use crate::job::author::form::{JobForm, NamedSource, Source, SweepEntry, SweepForm};
use crate::job::author::read::read_job::JOB_FIELDS;
use crate::job::author::read::{Fields, Node, Reader};
use crate::job::author::resolve;
use crate::job::files::path::{STAGE_SCHEME, strip_scheme};
use crate::job::workflow::unknown;
use crate::job::{AfterSpec, JobSpec, OnSpec, StageSpec, WorkflowSpec, limits};
use crate::problem::{Problem, quoted};

/// What a stage has beside the fields of a job.
pub(super) const STAGE_FIELDS: [&str; 3] = ["after", "reduce", "on_failed_dependency"];

const AFTER_EXPECTED: &str =
    "write a stage's name, {stage: NAME, tasks: same}, {job: 7} for another job, or a list of them";
const REDUCE_EXPECTED: &str = "write a stage's name, or {stage: NAME, every: 100}";

/// An entry of `after`.
struct AfterForm {
    path: String,
    on: OnForm,
    rule: Rule,
    /// Of groups: how many are one; else as many as the sizes allow.
    width: Option<u64>,
}

enum OnForm {
    Stage(String),
    Job(u64),
}

/// `reduce`: a stage whose tasks each take so many of another's, or all.
struct ReduceForm {
    path: String,
    stage: String,
    every: Option<u64>,
}

/// A stage as it is written.
struct StageForm {
    name: String,
    path: String,
    job: JobForm,
    /// Fields that stand in the stage itself.
    own: Vec<String>,
    after: Vec<AfterForm>,
    reduce: Option<ReduceForm>,
    on_failed_dependency: OnFailedDependency,
}

/// What all stages of a file have in common, and where it lies.
pub(super) struct Common<'v> {
    /// The workflow's name.
    pub name: String,
    /// Fields of jobs that stand at the top.
    pub fields: Fields<'v>,
    /// The default for `on_failed_dependency`.
    pub on_failed_dependency: OnFailedDependency,
    /// Where relative paths start.
    pub base_dir: &'v Path,
}

impl Reader<'_> {
    /// `on_failed_dependency`, where it stands.
    pub(super) fn on_failed(&mut self, fields: &mut Fields<'_>) -> Option<OnFailedDependency> {
        let words = [("cancel", OnFailedDependency::Cancel), ("run", OnFailedDependency::Run)];
        fields.take("on_failed_dependency").and_then(|node| self.word(&node, &words))
    }

    fn stage(&mut self, name: String, node: &Node<'_>, common: &Common<'_>) -> Option<StageForm> {
        let known: Vec<&str> = JOB_FIELDS.iter().chain(&STAGE_FIELDS).copied().collect();
        let mut fields = self.fields(node, &known, "a stage consists of lines like `command: …`")?;
        let own = fields.names();
        let on_failed = self.on_failed(&mut fields);
        let after = fields.take("after").map(|node| self.after(&node)).unwrap_or_default();
        let reduce = fields.take("reduce").and_then(|node| self.reduce(&node));
        if let Some(reduce) = reduce.as_ref().filter(|_| own.iter().any(|field| field == "sweep")) {
            self.report::<()>(
                &reduce.path,
                "`reduce` beside `sweep`",
                "its tasks are made of the other stage's; take `sweep` out, or write `after` with `tasks: groups`",
            );
        }
        fields.inherit(&common.fields);
        let mut job = self.job_of(node, &mut fields);
        job.name = Some(format!("{}/{name}", common.name));
        let on_failed_dependency = on_failed.unwrap_or(common.on_failed_dependency);
        Some(StageForm { name, path: node.path.clone(), job, own, after, reduce, on_failed_dependency })
    }

    fn after(&mut self, node: &Node<'_>) -> Vec<AfterForm> {
        let nodes = match node.value {
            Value::Sequence(_) => self.items(node, AFTER_EXPECTED).unwrap_or_default(),
            _ => vec![node.clone()],
        };
        nodes.iter().filter_map(|node| self.after_one(node)).collect()
    }

    fn after_one(&mut self, node: &Node<'_>) -> Option<AfterForm> {
        let path = node.path.clone();
        if !node.value.is_mapping() {
            let Value::String(name) = node.value else { return self.refuse(node, AFTER_EXPECTED) };
            return Some(AfterForm { path, on: OnForm::Stage(name.clone()), rule: Rule::All, width: None });
        }
        let mut fields = self.fields(node, &["stage", "job", "tasks"], AFTER_EXPECTED)?;
        let rule = match fields.take("tasks") {
            Some(node) => self.word(&node, &RULES)?,
            None => Rule::All,
        };
        let on = match (fields.take("stage"), fields.take("job")) {
            (Some(stage), None) => OnForm::Stage(self.text(&stage)?),
            (None, Some(job)) => OnForm::Job(self.integer(&job, (1, i128::from(u64::MAX)))?),
            _ => return self.report(&path, "not one of `stage` and `job`", AFTER_EXPECTED),
        };
        if matches!((&on, rule), (OnForm::Job(_), Rule::Groups | Rule::Spread)) {
            return self.report(
                &path,
                "a rule for tasks of another file's job",
                "write `tasks: all` or `same`",
            );
        }
        Some(AfterForm { path, on, rule, width: None })
    }

    fn reduce(&mut self, node: &Node<'_>) -> Option<ReduceForm> {
        let path = node.path.clone();
        if !node.value.is_mapping() {
            return self.text(node).map(|stage| ReduceForm { path, stage, every: None });
        }
        let mut fields = self.fields(node, &["stage", "every"], REDUCE_EXPECTED)?;
        let stage = self.required(&mut fields, node, "stage", REDUCE_EXPECTED);
        let every = fields.take("every").map(|node| self.integer(&node, (1, i128::from(u64::MAX))));
        let stage = self.text(&stage?)?;
        Some(ReduceForm { path, stage, every: every.flatten() })
    }

    /// The stages of a file.
    pub(super) fn stages(&mut self, node: &Node<'_>, common: &Common<'_>) -> (WorkflowSpec, Vec<Problem>) {
        let entries = self.entries(node, "write stages as `NAME: {command: …}`").unwrap_or_default();
        let n_stages = entries.len();
        let forms: Vec<StageForm> =
            entries.into_iter().filter_map(|(name, node)| self.stage(name, &node, common)).collect();
        let (workflow, mut problems) = resolve_all(forms, common);
        if node.value.is_mapping() && !(1..=limits::N_STAGES_MAX).contains(&n_stages) {
            let expected = format!("give 1 to {} of them", limits::N_STAGES_MAX);
            problems.push(Problem::new("stages", format!("{n_stages} stages"), expected));
        }
        (workflow, problems)
    }

    /// A file of one job that comes after others.
    pub(super) fn lone_stage(
        &mut self,
        node: &Node<'_>,
        common: &Common<'_>,
    ) -> (WorkflowSpec, Vec<Problem>) {
        let mut forms: Vec<StageForm> = self.stage(common.name.clone(), node, common).into_iter().collect();
        forms.iter_mut().for_each(|form| form.job.name = Some(common.name.clone()));
        resolve_all(forms, common)
    }
}

/// The workflow, and everything that is wrong with it.
fn resolve_all(forms: Vec<StageForm>, common: &Common<'_>) -> (WorkflowSpec, Vec<Problem>) {
    let mut problems = Vec::new();
    let names: Vec<String> = forms.iter().map(|form| form.name.clone()).collect();
    let mut jobs: BTreeMap<usize, JobSpec> = BTreeMap::new();
    let mut waiting: Vec<(usize, StageForm)> = forms.into_iter().enumerate().collect();
    let mut stages: BTreeMap<usize, StageSpec> = BTreeMap::new();
    let mut edges: Vec<(usize, AfterForm)> = Vec::new();
    // One that takes so many of another's tasks has as many as that one allows: it comes when that is known.
    while !waiting.is_empty() {
        let n_before = waiting.len();
        let mut later = Vec::new();
        for (at, mut form) in waiting {
            if let Some(reduce) = form.reduce.take_if(|reduce| reduce.every.is_some()) {
                let on = names.iter().position(|name| *name == reduce.stage);
                let Some(on) = on else {
                    let known = names.iter().map(String::as_str);
                    problems.push(unknown(reduce.path.clone(), "stage", &reduce.stage, known));
                    continue;
                };
                let Some(job) = jobs.get(&on) else {
                    form.reduce = Some(reduce);
                    later.push((at, form));
                    continue;
                };
                form.job.sweep = parts(job.sweep.n_tasks(), &reduce, &mut problems);
                form.after.push(AfterForm {
                    path: reduce.path,
                    on: OnForm::Stage(reduce.stage),
                    rule: Rule::Groups,
                    width: reduce.every,
                });
            }
            if let Some(reduce) = form.reduce.take() {
                form.after.push(AfterForm {
                    path: reduce.path,
                    on: OnForm::Stage(reduce.stage),
                    rule: Rule::All,
                    width: None,
                });
            }
            take_from_stages(&mut form, &names, &mut problems);
            let (job, found) = resolve::resolve(form.job, &common.name, common.base_dir);
            problems.extend(found.into_iter().map(|problem| placed(problem, &form.path, &form.own)));
            jobs.insert(at, job.clone());
            edges.extend(form.after.into_iter().map(|after| (at, after)));
            let (name, on_failed_dependency) = (form.name, form.on_failed_dependency);
            stages.insert(at, StageSpec { name, job, after: Vec::new(), on_failed_dependency });
        }
        if later.len() == n_before {
            for (_, form) in later.drain(..) {
                let reduce = form.reduce.map_or_else(String::new, |reduce| reduce.path);
                let expected =
                    "the stages that are reduced come from a sweep in the end; take one `reduce` out";
                problems.push(Problem::new(reduce, "stages that reduce each other", expected));
            }
        }
        waiting = later;
    }
    let mut stages: Vec<StageSpec> = stages.into_values().collect();
    let grouped = connect(&mut stages, edges, &names, &mut problems);
    let workflow = WorkflowSpec { name: common.name.clone(), stages };
    if problems.is_empty() {
        problems.extend(workflow.check_edges());
    } else if workflow.stages.len() == names.len() {
        // Whatever else is wrong: stages that wait for each other stay so.
        problems.extend(by_stages(workflow.clone()).check_edges());
    }
    if problems.is_empty() {
        problems.extend(workflow.check_files_in_groups(&grouped));
    }
    (workflow, problems)
}

/// The workflow with each stage after all tasks of those that it comes after: numbers of tasks mean nothing then.
fn by_stages(mut workflow: WorkflowSpec) -> WorkflowSpec {
    for after in workflow.stages.iter_mut().flat_map(|stage| &mut stage.after) {
        after.edges = Edges::All;
    }
    workflow
}

/// Finds out of which entries of `after` inputs like `stage:NAME/PATH` are.
fn take_from_stages(form: &mut StageForm, names: &[String], problems: &mut Vec<Problem>) {
    for (n, input) in form.job.inputs.iter_mut().flatten().enumerate() {
        let Some(rest) = strip_scheme(&input.from, STAGE_SCHEME) else { continue };
        let path = match form.own.iter().any(|field| field == "inputs") && !form.path.is_empty() {
            true => format!("{}.inputs[{n}]", form.path),
            false => format!("inputs[{n}]"),
        };
        let is_of = |name: &&String| {
            rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let Some(name) = names.iter().filter(is_of).max_by_key(|name| name.len()) else {
            let name = rest.split('/').next().unwrap_or(rest);
            problems.push(unknown(path, "stage", name, names.iter().map(String::as_str)));
            (input.from, input.after) = (rest.to_owned(), vec![0]);
            continue;
        };
        let is_on = |after: &AfterForm| matches!(&after.on, OnForm::Stage(on) if on == name);
        let entries = form.after.iter().enumerate().filter(|(_, after)| is_on(after));
        input.after = entries.map(|(at, _)| at).collect();
        if input.after.is_empty() {
            let found = format!("a file of stage {}, after which this one does not come", quoted(name));
            let expected = format!("write `after: {name}`, or {{stage: {name}, tasks: …}}, too");
            problems.push(Problem::new(path, found, expected));
            // It is no file of here, and nothing else is to be said of it.
            input.after = vec![0];
        }
        let file = rest[name.len()..].trim_start_matches('/');
        // The stage alone stands for all that it leaves.
        input.from = if file.is_empty() { "**".to_owned() } else { file.to_owned() };
    }
}

/// Gives stages their edges. Returns the entries of `after`, by stage and position, whose tasks are in groups by what
/// they are.
fn connect(
    stages: &mut [StageSpec],
    edges: Vec<(usize, AfterForm)>,
    names: &[String],
    problems: &mut Vec<Problem>,
) -> BTreeSet<(usize, usize)> {
    let mut grouped = BTreeSet::new();
    // Values that could not be read would give edges that mean nothing.
    let is_known = problems.is_empty();
    for (at, AfterForm { path, on, rule, width }) in edges {
        let Some(stage) = stages.get(at) else { continue };
        let n_tasks = stage.job.sweep.n_tasks();
        let on = match on {
            OnForm::Job(job) => OnSpec::Job(JobId(job)),
            OnForm::Stage(name) => match names.iter().position(|known| *known == name) {
                Some(on) => OnSpec::Stage(on),
                None => {
                    problems.push(unknown(path, "stage", &name, names.iter().map(String::as_str)));
                    continue;
                }
            },
        };
        let other = match on {
            OnSpec::Stage(on) => stages.get(on),
            OnSpec::Job(_) => None,
        };
        let n_on = other.map_or(n_tasks, |on| on.job.sweep.n_tasks());
        let by_name = other.filter(|_| is_known && rule != Rule::All && width.is_none()).and_then(|other| {
            let name = format!("stage {}", quoted(&other.name));
            by_name::edges(rule, &stage.job.sweep, &name, &other.job.sweep)
        });
        let edges = match (by_name, rule) {
            (Some(Ok(edges)), _) => edges,
            (Some(Err((found, expected))), _) => {
                problems.push(Problem::new(path, found, expected));
                continue;
            }
            (None, Rule::All) => Edges::All,
            (None, Rule::Same) => Edges::Same,
            (None, Rule::Groups) => Edges::Groups(width.unwrap_or(n_on.div_ceil(n_tasks.max(1))).max(1)),
            (None, Rule::Spread) => Edges::Spread((n_tasks / n_on.max(1)).max(1)),
        };
        if let Some(stage) = stages.get_mut(at) {
            if rule == Rule::Groups && width.is_none() {
                grouped.insert((at, stage.after.len()));
            }
            stage.after.push(AfterSpec { on, edges });
        }
    }
    grouped
}

/// The sweep of a stage whose tasks take so many each of another's: parameters `first` and `last`, of its indices.
fn parts(n_on: u64, reduce: &ReduceForm, problems: &mut Vec<Problem>) -> Option<SweepForm> {
    let every = reduce.every.unwrap_or(1).max(1);
    let n = n_on.div_ceil(every);
    if n > limits::N_TEXTS_MAX as u64 {
        let expected = format!("take more at a time; at most {} parts can be made", limits::N_TEXTS_MAX);
        problems.push(Problem::new(reduce.path.clone(), format!("{n} parts"), expected));
        return None;
    }
    let firsts = (0..n).map(|part| (part * every).to_string()).collect();
    let lasts = (0..n).map(|part| ((part + 1) * every).min(n_on) - 1).map(|last| last.to_string()).collect();
    let column = |name: &str, values| NamedSource {
        name: name.to_owned(),
        path: reduce.path.clone(),
        source: Some(Source::List(values)),
    };
    let entries = vec![SweepEntry::Zip(vec![column("first", firsts), column("last", lasts)])];
    Some(SweepForm { entries, sample: None })
}

/// A problem of a stage's job, where the field stands: in the stage, or at the top for all.
fn placed(problem: Problem, path: &str, own: &[String]) -> Problem {
    // What is read of files of values knows where it stands.
    if !path.is_empty()
        && problem.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    {
        return problem;
    }
    let field = problem.path.split(['.', '[']).next().unwrap_or_default();
    let is_own = own.iter().any(|name| name == field) || !JOB_FIELDS.contains(&field);
    match (is_own, path.is_empty()) {
        (true, false) if problem.path.is_empty() => Problem { path: path.to_owned(), ..problem },
        (true, false) => Problem { path: format!("{path}.{}", problem.path), ..problem },
        _ => problem,
    }
}
