//! Reading files of unlike tasks: `tasks:`, each with its command, and edges that are named or found from files. Tasks
//! that need the same become one stage, in which their commands are the values of a parameter: a hundred thousand of
//! them are not as many jobs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use scheduler::edges::{EdgeProblem, Edges, Listed, Shape, check};

use crate::job::author::form::{
    InputForm, JobForm, NamedSource, OutputForm, ResourcesForm, Source, SweepEntry, SweepForm,
};
use crate::job::author::read::{Node, Reader};
use crate::job::author::resolve;
use crate::job::author::stages::Common;
use crate::job::files::path::safe_relative;
use crate::job::files::pattern::is_pattern;
use crate::job::files::places::{address_for_name, manager_folder};
use crate::job::workflow::{circle, unknown};
use crate::job::{AfterSpec, CommandLine, LineEnds, OnSpec, StageSpec, WorkflowSpec, limits};
use crate::problem::{Problem, quoted};
use crate::text::units::parse_duration_ms;

pub(super) const TASK_FIELDS: [&str; 7] =
    ["name", "command", "after", "inputs", "outputs", "resources", "time_limit"];
const TASKS_EXPECTED: &str = "write a list of tasks like `- {name: a, command: [./a]}`";

/// One task as it is written.
struct TaskForm {
    name: String,
    path: String,
    command: CommandLine,
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
        let mut line_ends = LineEnds::default();
        problems.extend(tasks.iter().filter_map(|task| {
            let field = format!("{}.command", task.path);
            line_ends.of_command(&field, &task.command, common.base_dir)
        }));
        let found = edges(&tasks, common, &mut problems);
        let before = found.before;
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
            let files = found.files.as_ref().map(|files| members.iter().map(|at| &files[*at]).collect());
            let (job, wrong) = self.stage_of(&name, needs, (&of_group, files), common);
            // What the tasks of a group need is alike: the first one stands for them.
            let of_task = |problem: Problem| {
                let is_own = problem.path.starts_with("resources.") && needs.resources.is_some()
                    || problem.path == "time_limit" && needs.time_limit_ms.is_some();
                match of_group.first().filter(|_| is_own) {
                    Some(task) => Problem { path: format!("{}.{}", task.path, problem.path), ..problem },
                    None => problem,
                }
            };
            problems.extend(wrong.into_iter().map(of_task));
            let on_failed_dependency = common.on_failed_dependency;
            stages.push(StageSpec { name, job, after: Vec::new(), on_failed_dependency });
        }
        connect(&mut stages, &groups, &places, &before, &mut problems);
        if problems.is_empty() {
            let name = |place: Place| groups[place.0].1.get(place.1 as usize).map(|at| &tasks[*at]);
            problems.extend(find_circle(&stages, name));
        }
        let workflow = WorkflowSpec { name: common.name.clone(), stages };
        if problems.is_empty() {
            problems.extend(workflow.check_files());
        }
        (workflow, problems)
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
        let line = shell_line(command.clone(), &inputs, common);
        let needs = Needs { resources, time_limit_ms };
        Some(TaskForm { name, path: node.path.clone(), command, line, after, inputs, outputs, needs })
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
        (tasks, files): (&[&TaskForm], Option<Vec<&TaskFiles<'_>>>),
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
        let mut columns = vec![column("task", |task| &task.name), column("command", |task| &task.line)];
        if let Some(files) = files {
            columns.extend(flow(&mut form, &files));
        }
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

/// What the files of tasks say.
struct Found<'t> {
    /// What each task waits for, by positions in the file.
    before: Vec<Vec<usize>>,
    /// The files of each, where they are to be brought: tasks have no folder in common.
    files: Option<Vec<TaskFiles<'t>>>,
}

/// The files of a task.
#[derive(Default)]
struct TaskFiles<'t> {
    /// From the submitter's folder.
    brought: Vec<&'t str>,
    /// From other tasks.
    taken: Vec<&'t str>,
    /// For others, and for the submitter.
    left: Vec<&'t str>,
}

/// Gives a stage what its tasks bring, take and leave, by parameters that list it.
fn flow(form: &mut JobForm, files: &[&TaskFiles<'_>]) -> Vec<NamedSource> {
    let mut columns = Vec::new();
    let mut list = |name: &str, of: &dyn Fn(&TaskFiles<'_>) -> String| {
        let lists: Vec<String> = files.iter().map(|files| of(files)).collect();
        let is_any = lists.iter().any(|list| !list.is_empty());
        if is_any {
            let (name, path) = (name.to_owned(), "tasks".to_owned());
            columns.push(NamedSource { name, path, source: Some(Source::List(lists)) });
        }
        is_any.then(|| format!("{{{name}}}"))
    };
    let brought = list("brought", &|files| lines(&files.brought)).map(|from| (from, Vec::new()));
    // Of which entries of `after` is known when there are edges.
    let taken = list("taken", &|files| lines(&files.taken)).map(|from| (from, vec![0]));
    let inputs = brought.into_iter().chain(taken).map(|(from, after)| InputForm {
        to: Some(from.clone()),
        from,
        after,
        lines: true,
        ..InputForm::default()
    });
    form.inputs.get_or_insert_default().extend(inputs);
    let left = list("left", &|files| lines(&files.left));
    let outputs = left.map(|from| OutputForm { from, lines: true, ..OutputForm::default() });
    form.outputs.get_or_insert_default().extend(outputs);
    columns
}

/// Each file once, a line each.
fn lines(files: &[&str]) -> String {
    let mut known = HashSet::new();
    let new: Vec<&str> = files.iter().copied().filter(|file| known.insert(*file)).collect();
    new.join("\n")
}

/// Whether tasks have no folder in common, so that their files are brought to each.
fn is_apart(common: &Common<'_>) -> bool {
    let mut fields = common.fields.clone();
    match fields.take("workdir") {
        Some(workdir) => workdir.value.as_str() == Some("scratch"),
        None => fields.names().iter().any(|name| name == "inputs" || name == "outputs"),
    }
}

/// What each task waits for: tasks that it names, and those that make what it reads.
fn edges<'t>(tasks: &'t [TaskForm], common: &Common<'_>, problems: &mut Vec<Problem>) -> Found<'t> {
    let is_apart = is_apart(common);
    let mut files: Vec<TaskFiles<'_>> = Vec::new();
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
            if is_apart && (is_pattern(output) || output.ends_with('/')) {
                let found = format!("{} among files of tasks", quoted(output));
                let expected =
                    "tasks name each file, so that others can take it; stages know patterns and folders";
                problems.push(Problem::new(format!("{}.outputs", task.path), found, expected));
            } else if is_apart && !is_name(output) {
                problems.push(outside(format!("{}.outputs", task.path), output));
            } else if is_apart && manager_folder(Path::new(output)).is_some() {
                let expected = "nothing is brought to the folder of a manager: give it another name";
                problems.push(Problem::new(format!("{}.outputs", task.path), quoted(output), expected));
            }
            if let Some(other) = makers.insert(plain(output), at).filter(|other| *other != at) {
                let found =
                    format!("{}, which is made by task {} too", quoted(output), quoted(&tasks[other].name));
                let path = format!("{}.outputs", task.path);
                problems.push(Problem::new(path, found, "let one task make each file"));
            }
        }
    }
    let mut is_there: HashSet<&str> = HashSet::new();
    let mut all = Vec::new();
    for task in tasks {
        let (mut before, mut own) = (Vec::new(), TaskFiles::default());
        let is_sound = |output: &&String| is_name(output) && manager_folder(Path::new(output)).is_none();
        let outputs = task.outputs.iter().filter(is_sound);
        own.left.extend(outputs.map(|output| plain(output)));
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
            let list = match makers.contains_key(plain(input)) {
                true => &mut own.taken,
                false => &mut own.brought,
            };
            match makers.get(plain(input)) {
                _ if is_apart && !is_name(input) => {
                    problems.push(outside(format!("{}.inputs", task.path), input));
                }
                Some(at) => {
                    list.push(plain(input));
                    before.push(*at);
                }
                None if is_there.contains(plain(input)) => list.push(plain(input)),
                None if common.base_dir.join(input).exists() => {
                    list.push(plain(input));
                    is_there.insert(plain(input));
                }
                None => {
                    let found = format!("{}, which is made by no task and is not there", quoted(input));
                    let expected = "check the path, or name it in the `outputs` of the task that makes it";
                    problems.push(Problem::new(format!("{}.inputs", task.path), found, expected));
                }
            }
        }
        all.push(before);
        files.push(own);
    }
    Found { before: all, files: is_apart.then_some(files) }
}

/// Whether it is the name of a file below a folder.
fn is_name(text: &str) -> bool {
    safe_relative(text).is_some() && address_for_name(text, "").is_none()
}

fn outside(path: String, found: &str) -> Problem {
    let expected = "tasks have no folder in common here: a path below the file's folder is right";
    Problem::new(path, quoted(found), expected)
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
        let n_entries = stage.after.len();
        let taken = stage.job.inputs.iter_mut().filter(|input| input.lines && !input.after.is_empty());
        taken.for_each(|input| input.after = (0..n_entries).collect());
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
fn shell_line(command: CommandLine, inputs: &[String], common: &Common<'_>) -> String {
    let args = match command {
        CommandLine::Shell(line) => return line,
        CommandLine::Args(args) => args,
    };
    let mut words: Vec<String> = args.iter().map(|arg| shell_word(arg)).collect();
    if let Some(program) = args.first().filter(|p| !p.starts_with('/') && p.contains('/')) {
        let is_brought = is_apart(common) && inputs.iter().any(|input| plain(input) == plain(program));
        if !is_brought {
            // It is looked for beside the file, wherever the task runs.
            words[0] = shell_word(&common.base_dir.join(plain(program)).display().to_string());
        }
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
