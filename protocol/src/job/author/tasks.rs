//! Reading files of unlike tasks: `tasks:`, each with its command, and edges that are named or found from files. Tasks
//! that need the same become one stage, in which their commands are the values of a parameter: a hundred thousand of
//! them are not as many jobs.

use std::collections::{BTreeMap, HashMap, HashSet};

use scheduler::edges::{EdgeProblem, Edges, Listed, Shape, check};

use crate::job::author::form::{NamedSource, ResourcesForm, Source, SweepEntry, SweepForm};
use crate::job::author::read::{Node, Reader};
use crate::job::author::resolve;
use crate::job::author::stages::Common;
use crate::job::problem::quoted;
use crate::job::workflow::{circle, unknown};
use crate::job::{AfterSpec, CommandLine, OnSpec, Problem, StageSpec, WorkflowSpec, limits};
use crate::units::parse_duration_ms;

const TASK_FIELDS: [&str; 7] = ["name", "command", "after", "inputs", "outputs", "resources", "time_limit"];
const TASKS_EXPECTED: &str = "write a list of tasks like `- {name: a, command: [./a]}`";

/// One task as it is written.
struct TaskForm {
    name: String,
    path: String,
    line: String,
    after: Vec<String>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    needs: Needs,
}

/// What tasks of one stage have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Needs {
    resources: Option<(u32, u64, u32, BTreeMap<String, u64>)>,
    time_limit_ms: Option<u64>,
}

/// Where a task stands: its stage, and its index there.
type Place = (usize, u64);

impl Reader<'_> {
    /// The tasks of a file as a workflow, and everything that is wrong with it.
    pub(super) fn tasks(&mut self, node: &Node<'_>, common: &Common<'_>) -> (WorkflowSpec, Vec<Problem>) {
        let items = self.items(node, TASKS_EXPECTED).unwrap_or_default();
        let tasks: Vec<TaskForm> = items.iter().filter_map(|item| self.task(item, common)).collect();
        let mut problems = Vec::new();
        let is_list = node.value.is_sequence();
        if is_list && (items.is_empty() || items.len() > limits::N_TEXTS_MAX) {
            let expected = format!("give 1 to {} of them", limits::N_TEXTS_MAX);
            problems.push(Problem::new("tasks", format!("{} tasks", items.len()), expected));
        }
        let before = edges(&tasks, common, &mut problems);
        let mut groups: Vec<(Needs, Vec<usize>)> = Vec::new();
        let mut known: BTreeMap<Needs, usize> = BTreeMap::new();
        let mut places: Vec<Place> = Vec::new();
        for (at, task) in tasks.iter().enumerate() {
            let group = *known.entry(task.needs.clone()).or_insert_with(|| {
                groups.push((task.needs.clone(), Vec::new()));
                groups.len() - 1
            });
            places.push((group, groups[group].1.len() as u64));
            groups[group].1.push(at);
        }
        let n_groups = groups.len();
        let mut stages: Vec<StageSpec> = Vec::new();
        for (group, (needs, members)) in groups.iter().enumerate() {
            let name = if n_groups == 1 { "tasks".to_owned() } else { format!("tasks-{}", group + 1) };
            let of_group: Vec<&TaskForm> = members.iter().map(|at| &tasks[*at]).collect();
            let (job, found) = self.stage_of(&name, needs, &of_group, common);
            problems.extend(found);
            let on_failed_dependency = common.on_failed_dependency;
            stages.push(StageSpec { name, job, after: Vec::new(), on_failed_dependency });
        }
        connect(&mut stages, &groups, &places, &before, &mut problems);
        if problems.is_empty() {
            let name = |place: Place| groups[place.0].1.get(place.1 as usize).map(|at| &tasks[*at]);
            problems.extend(find_circle(&stages, name));
        }
        (WorkflowSpec { name: common.name.clone(), stages }, problems)
    }

    fn task(&mut self, node: &Node<'_>, common: &Common<'_>) -> Option<TaskForm> {
        let mut fields = self.fields(node, &TASK_FIELDS, TASKS_EXPECTED)?;
        let name = self.required(&mut fields, node, "name", "give each task a name of its own");
        let command = self.required(
            &mut fields,
            node,
            "command",
            "write a list [program, argument, …] or a shell line",
        );
        let mut texts = |name: &str| {
            let list = fields.take(name).map(|node| self.some_texts(&node));
            list.flatten().unwrap_or_default()
        };
        let (after, inputs, outputs) = (texts("after"), texts("inputs"), texts("outputs"));
        let resources = fields.take("resources").and_then(|node| self.resources(&node)).map(|form| {
            (
                form.cores.unwrap_or(1),
                form.memory_bytes.unwrap_or(0),
                form.gpus.unwrap_or(0),
                form.generic.unwrap_or_default(),
            )
        });
        let time_limit_ms =
            fields.take("time_limit").and_then(|node| self.quantity(&node, parse_duration_ms));
        let (name, command) = (self.text(&name?)?, self.command(&command?)?);
        let line = shell_line(command, common);
        let needs = Needs { resources, time_limit_ms };
        Some(TaskForm { name, path: node.path.clone(), line, after, inputs, outputs, needs })
    }

    /// A list of texts, or one.
    fn some_texts(&mut self, node: &Node<'_>) -> Option<Vec<String>> {
        match node.value.is_sequence() {
            true => self.texts(node, "write a list of names"),
            false => self.text(node).map(|text| vec![text]),
        }
    }

    fn stage_of(
        &mut self,
        name: &str,
        needs: &Needs,
        tasks: &[&TaskForm],
        common: &Common<'_>,
    ) -> (crate::job::JobSpec, Vec<Problem>) {
        let top = Node { value: &serde_yaml::Value::Null, path: String::new() };
        let mut form = self.job_of(&top, &mut common.fields.clone());
        form.name = Some(format!("{}/{name}", common.name));
        form.application.get_or_insert_with(|| "tasks".to_owned());
        form.command = CommandLine::Shell("{command:raw}".to_owned());
        let column = |name: &str, of: fn(&TaskForm) -> &str| NamedSource {
            name: name.to_owned(),
            path: "tasks".to_owned(),
            source: Some(Source::List(tasks.iter().map(|task| of(task).to_owned()).collect())),
        };
        let columns = vec![column("task", |task| &task.name), column("command", |task| &task.line)];
        form.sweep = Some(SweepForm { entries: vec![SweepEntry::Zip(columns)], sample: None });
        if let Some((cores, memory_bytes, gpus, generic)) = needs.resources.clone() {
            let generic = Some(generic);
            form.resources = Some(ResourcesForm {
                cores: Some(cores),
                memory_bytes: Some(memory_bytes),
                gpus: Some(gpus),
                generic,
            });
        }
        form.time_limit_ms = needs.time_limit_ms.or(form.time_limit_ms);
        resolve::resolve(form, &common.name, common.base_dir)
    }
}

/// What each task waits for, by positions in the file: tasks that it names, and those that make what it reads.
fn edges(tasks: &[TaskForm], common: &Common<'_>, problems: &mut Vec<Problem>) -> Vec<Vec<usize>> {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut makers: HashMap<&str, usize> = HashMap::new();
    for (at, task) in tasks.iter().enumerate() {
        if by_name.insert(&task.name, at).is_some() {
            let found = format!("{} a second time", quoted(&task.name));
            problems.push(Problem::new(
                format!("{}.name", task.path),
                found,
                "give each task a name of its own",
            ));
        }
        for output in &task.outputs {
            if let Some(other) = makers.insert(plain(output), at).filter(|other| *other != at) {
                let found =
                    format!("{}, which task {} makes too", quoted(output), quoted(&tasks[other].name));
                let path = format!("{}.outputs", task.path);
                problems.push(Problem::new(path, found, "let one task make each file"));
            }
        }
    }
    let mut is_there: HashSet<&str> = HashSet::new();
    let mut all = Vec::new();
    for task in tasks {
        let mut before = Vec::new();
        for name in &task.after {
            match by_name.get(name.as_str()) {
                Some(at) => before.push(*at),
                None => {
                    let path = format!("{}.after", task.path);
                    problems.push(unknown(path, "task", name, by_name.keys().copied()));
                }
            }
        }
        for input in &task.inputs {
            match makers.get(plain(input)) {
                Some(at) => before.push(*at),
                None if is_there.contains(plain(input)) => {}
                None if common.base_dir.join(input).exists() => _ = is_there.insert(plain(input)),
                None => {
                    let found = format!("{}, which no task makes and which is not there", quoted(input));
                    let expected = "check the path, or name it in the `outputs` of the task that makes it";
                    problems.push(Problem::new(format!("{}.inputs", task.path), found, expected));
                }
            }
        }
        all.push(before);
    }
    all
}

/// `./a` is `a`.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./")
}

/// Gives stages their edges, listed by stage.
fn connect(
    stages: &mut [StageSpec],
    groups: &[(Needs, Vec<usize>)],
    places: &[Place],
    before: &[Vec<usize>],
    problems: &mut Vec<Problem>,
) {
    for (stage, (_, members)) in stages.iter_mut().zip(groups) {
        for on in 0..groups.len() {
            let of_task = |at: &usize| {
                let places = before.get(*at).into_iter().flatten().map(|other| places[*other]);
                places.filter(|place| place.0 == on).map(|place| place.1).collect::<Vec<u64>>()
            };
            match Listed::new(members.iter().map(of_task)) {
                Ok(listed) if listed.n_edges() == 0 => {}
                Ok(listed) => {
                    stage.after.push(AfterSpec { on: OnSpec::Stage(on), edges: Edges::Listed(listed) })
                }
                Err(error) => problems.push(Problem::new("tasks", error.to_string(), "split the file")),
            }
        }
    }
}

/// Tasks that wait for each other, by their names.
fn find_circle<'t>(stages: &[StageSpec], task: impl Fn(Place) -> Option<&'t TaskForm>) -> Option<Problem> {
    let shape = |stage: &StageSpec| stage.job.sweep.n_tasks();
    let mut shapes = Vec::new();
    for stage in stages {
        let after = stage.after.iter().filter_map(|after| match after.on {
            OnSpec::Stage(on) => Some((on, &after.edges)),
            OnSpec::Job(_) => None,
        });
        shapes.push(Shape { n_tasks: shape(stage), after: after.collect() });
    }
    match check(&shapes) {
        Ok(()) => None,
        Err(EdgeProblem::Circle(knots)) => {
            let found: Vec<&TaskForm> =
                knots.iter().filter_map(|knot| task((knot.stage, knot.task.unwrap_or(0)))).collect();
            let path = found.first().map_or("tasks", |task| &task.path).to_owned();
            Some(circle(path, found.into_iter().map(|task| task.name.clone())))
        }
        Err(other) => Some(Problem::new("tasks", other.to_string(), "correct the edges")),
    }
}

/// A command as one line for the shell, which the program replaces.
fn shell_line(command: CommandLine, common: &Common<'_>) -> String {
    let args = match command {
        CommandLine::Shell(line) => return line,
        CommandLine::Args(args) => args,
    };
    let mut words: Vec<String> = args.iter().map(|arg| shell_word(arg)).collect();
    if let Some(program) = args.first().filter(|p| !p.starts_with('/') && p.contains('/')) {
        // It is looked for beside the file, wherever the task runs.
        words[0] = shell_word(&common.base_dir.join(plain(program)).display().to_string());
    }
    format!("exec {}", words.join(" "))
}

fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:=@%+".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
