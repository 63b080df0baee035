//! WfFormat: the JSON in which WfCommons keeps executions of real workflows. Up to 1.4 all that is known of a task
//! stands in one place; from 1.5 on, what it is and how it ran stand apart. Edges are those that the instance names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Map, Value, json};

use protocol::job::limits::{CORES_MAX, MEMORY_BYTES_MAX};

use crate::show::quote::quoted;

/// Versions of the format that can be read.
const VERSIONS: [&str; 4] = ["1.3", "1.4", "1.5", "1.6"];

/// A command line has room for 128 KiB; names of files that are read have half of it, …
const READ_BYTES_MAX: usize = 64 << 10;
/// … and all together no more than this.
const LINE_BYTES_MAX: usize = 120 << 10;

/// How tasks that only stand for the work differ from it.
#[derive(Clone, Copy)]
pub struct Emulation {
    /// They take so many times less long.
    pub speedup: f64,
    /// Their files are so many times smaller.
    pub shrink: f64,
}

/// What each task writes, by its name.
type Written<'t> = HashMap<&'t str, HashSet<&'t str>>;

/// A task of an instance.
#[derive(Default)]
struct Task {
    name: String,
    parents: Vec<String>,
    /// A list, or a line for the shell.
    command: Option<Value>,
    runtime_s: Option<f64>,
    cores: u64,
    memory_bytes: u64,
    /// Files that it reads.
    inputs: Vec<String>,
    /// Files that it writes, and how large.
    outputs: Vec<(String, u64)>,
}

/// The instance in a text. Arguments, names and ids that are no texts are texts in it, as they are written: `0.10` and
/// numbers of many digits would not come back from a number.
///
/// # Errors
/// Why it is no JSON, or none that can be read.
pub fn parse(text: &str) -> Result<Value, String> {
    let said = |what: &str, error: &serde_json::Error| format!("found {what} ({error})");
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| said("no JSON", &error))?;
    serde_json::from_str(&as_texts(text)).map_err(|error| said("JSON that cannot be read", &error))
}

/// Fields of names and ids, which may be numbers.
const NAMES: [&str; 7] =
    ["\"name\"", "\"id\"", "\"parents\"", "\"children\"", "\"inputFiles\"", "\"outputFiles\"", ARGUMENTS];
const ARGUMENTS: &str = "\"arguments\"";

/// The same JSON with the values of these fields as texts.
fn as_texts(json: &str) -> String {
    let mut texts = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('"') {
        let (before, from) = rest.split_at(at);
        let (word, after) = first_of(from);
        texts.extend([before, word]);
        rest = after;
        let value =
            after.trim_start().strip_prefix(':').filter(|_| NAMES.contains(&word)).map(str::trim_start);
        let value = value.filter(|value| word == ARGUMENTS || !value.starts_with('{'));
        let Some(value) = value else { continue };
        let as_text = |value: &str| {
            let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            let is_other = word == ARGUMENTS && !value.starts_with('"') && value != "null";
            if is_number || is_other { Value::from(compact(value)).to_string() } else { value.to_owned() }
        };
        texts.push(':');
        let (value, after) = first_of(value);
        rest = after;
        match value.strip_prefix('[').and_then(|items| items.strip_suffix(']')) {
            None => texts.push_str(&as_text(value)),
            Some(mut items) => {
                let mut all = Vec::new();
                while !items.trim_start().is_empty() {
                    let (item, after) = first_of(items.trim_start());
                    all.push(as_text(item));
                    items = after.trim_start().trim_start_matches(',');
                }
                texts.extend(["[", &all.join(","), "]"]);
            }
        }
    }
    texts + rest
}

/// The value with which a part of JSON begins, and what follows.
fn first_of(json: &str) -> (&str, &str) {
    let mut values = Deserializer::from_str(json).into_iter::<IgnoredAny>();
    values.next();
    json.split_at_checked(values.byte_offset().max(1)).unwrap_or((json, ""))
}

/// JSON without blanks between its words.
fn compact(json: &str) -> String {
    let (mut is_text, mut is_escaped) = (false, false);
    let is_kept = |c: &char| {
        is_text ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_text || !c.is_ascii_whitespace()
    };
    json.chars().filter(is_kept).collect()
}

/// The job file of an instance; with `emulation`, one whose tasks only take as long, read what those that they wait for
/// have written, and write files as large.
///
/// # Errors
/// What of the instance is missing.
pub fn job_file(instance: &Value, name: &str, emulation: Option<Emulation>) -> Result<Value, String> {
    let workflow = &instance["workflow"];
    if !workflow.is_object() {
        return Err("found no `workflow`; a WfFormat instance of WfCommons has one".to_owned());
    }
    let version = instance["schemaVersion"].as_str();
    if let Some(version) = version.filter(|version| !VERSIONS.contains(version)) {
        return Err(format!("schemaVersion: found `{version}`; WfFormat 1.3 to 1.6 can be read"));
    }
    let tasks = read(workflow)?;
    if tasks.is_empty() {
        return Err("found no tasks in `workflow`".to_owned());
    }
    let mut names = HashSet::new();
    if let Some(task) = tasks.iter().find(|task| !names.insert(task.name.as_str())) {
        return Err(format!("task `{}`: found two of this name and id; give each its own", task.name));
    }
    let written: Written<'_> = tasks
        .iter()
        .map(|task| {
            let files = task.outputs.iter().map(|(file, _)| file.as_str());
            (task.name.as_str(), files.collect())
        })
        .collect();
    let command = |task: &Task| match emulation {
        Some(emulation) => stand_in(task, &written, emulation).map(Value::from),
        None => {
            fits(task).map_err(|what| format!("task `{}`: {what}", task.name))?;
            let command = task.command.clone();
            command.ok_or_else(|| format!("task `{}`: found no command; --emulate needs none", task.name))
        }
    };
    let entries = tasks.iter().map(|task| Ok(entry(task, command(task)?, emulation.is_some())));
    let tasks: Vec<Value> = entries.collect::<Result<_, String>>()?;
    let name = instance["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(name);
    Ok(json!({ "name": name, "application": name, "tasks": tasks }))
}

/// Refuses what no task of a job can need or be given.
fn fits(task: &Task) -> Result<(), String> {
    let cores = ("coreCount", task.cores, u64::from(CORES_MAX));
    let needs = [cores, ("memoryInBytes", task.memory_bytes, MEMORY_BYTES_MAX)];
    if let Some((field, n, max)) = needs.into_iter().find(|(_, n, max)| n > max) {
        return Err(format!("{field}: found {n}; write at most {max}"));
    }
    let has_nul = |word: &Value| word.as_str().is_some_and(|word| word.contains('\0'));
    let is_refused = match &task.command {
        Some(Value::Array(words)) => words.iter().any(has_nul),
        Some(line) => has_nul(line),
        None => false,
    };
    match is_refused {
        true => Err("command: found a NUL character; programs cannot be given that one".to_owned()),
        false => Ok(()),
    }
}

/// Whether the instance is of a system that writes the name of a process in the place of its program.
pub fn names_processes(instance: &Value) -> bool {
    let workflow = &instance["workflow"];
    let systems = [&instance["wms"], &instance["runtimeSystem"], &workflow["execution"]["runtimeSystem"]];
    systems
        .iter()
        .any(|system| system["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case("nextflow")))
}

fn read(workflow: &Value) -> Result<Vec<Task>, String> {
    let specification = &workflow["specification"];
    let (listed, sizes) = match specification.is_object() {
        true => (&specification["tasks"], sizes(&specification["files"])?),
        false => (
            if workflow["tasks"].is_array() { &workflow["tasks"] } else { &workflow["jobs"] },
            HashMap::new(),
        ),
    };
    let listed = listed.as_array().ok_or("found no list of tasks; WfFormat 1.3 to 1.6 can be read")?;
    let ran = workflow["execution"]["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ran: HashMap<String, &Value> =
        ran.iter().filter_map(|task| Some((name_of(&task["id"])?, task))).collect();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for task in listed {
        let own = name_of(&task["name"]).or_else(|| name_of(&task["id"]));
        *counts.entry(own.ok_or("found a task without a name")?).or_default() += 1;
    }
    let mut names = Names::default();
    for task in listed {
        let (name, id) = (name_of(&task["name"]), name_of(&task["id"]));
        let is_only = |name: &String| counts.get(name) == Some(&1);
        let own = name.clone().filter(is_only).or_else(|| id.clone()).or_else(|| name.clone());
        let own = own.unwrap_or_default();
        names.own.push(own.clone());
        if let Some(id) = &id {
            *names.ids.entry(id.clone()).or_default() += 1;
        }
        for known in [id, name].into_iter().flatten().collect::<BTreeSet<String>>() {
            names.known.entry(known).or_default().push(own.clone());
        }
    }
    let mut tasks = Vec::new();
    for (at, task) in listed.iter().enumerate() {
        let own = names.own[at].clone();
        let id = name_of(&task["id"]).or_else(|| name_of(&task["name"])).unwrap_or_default();
        let execution = ran.get(&id).copied().unwrap_or(task);
        let read = task_of(own.clone(), task, execution, &sizes);
        let mut read = read.map_err(|what| format!("task `{own}`: {what}"))?;
        for parent in list_of(task, "parents")? {
            let parent = names.one(&parent, "parent").map_err(|what| format!("task `{own}`: {what}"))?;
            read.parents.push(parent);
        }
        tasks.push(read);
    }
    // What some instances name on one side only.
    for (at, task) in listed.iter().enumerate() {
        let own = &names.own[at];
        for child in list_of(task, "children")? {
            let child = names.one(&child, "child").map_err(|what| format!("task `{own}`: {what}"))?;
            let child = tasks.iter_mut().find(|task| task.name == child);
            child.into_iter().for_each(|child| child.parents.push(own.clone()));
        }
    }
    for task in &mut tasks {
        let mut known = HashSet::new();
        task.parents.retain(|parent| known.insert(parent.clone()));
    }
    Ok(tasks)
}

/// Names and ids, and the tasks that they stand for.
#[derive(Default)]
struct Names {
    /// The name of each task in the job file.
    own: Vec<String>,
    known: HashMap<String, Vec<String>>,
    /// How many tasks have an id.
    ids: HashMap<String, usize>,
}

impl Names {
    /// The task that a name or an id stands for.
    fn one(&self, name: &str, what: &str) -> Result<String, String> {
        match self.known.get(name).map(Vec::as_slice) {
            Some([own]) => Ok(own.clone()),
            Some(several) => match several.iter().find(|own| *own == name) {
                Some(own) => Ok(own.clone()),
                None if self.ids.get(name).is_some_and(|n| *n > 1) => Err(format!(
                    "{} tasks have the id `{name}`, which is named as a {what}; give each task an id of its own",
                    several.len()
                )),
                None => Err(format!(
                    "{} tasks are called `{name}`, which is named as a {what}; name its id",
                    several.len()
                )),
            },
            None => Err(format!("found a {what} that is no task (`{name}`)")),
        }
    }
}

fn task_of(
    name: String,
    task: &Value,
    execution: &Value,
    sizes: &HashMap<String, u64>,
) -> Result<Task, String> {
    let first = |fields: &[(&Value, &str)]| -> Result<Option<f64>, String> {
        for (value, field) in fields {
            if let Some(number) = number(&value[field], field)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    };
    let runtime = [
        (execution, "runtimeInSeconds"),
        (execution, "runtime"),
        (task, "runtimeInSeconds"),
        (task, "runtime"),
    ];
    let cores = [(execution, "coreCount"), (execution, "cores"), (task, "coreCount"), (task, "cores")];
    let memory = [(execution, "memoryInBytes"), (task, "memoryInBytes")];
    Ok(Task {
        name,
        parents: Vec::new(),
        command: command(execution, task)?,
        // Some converters write -1 for a time that they do not know.
        runtime_s: first(&runtime)?.filter(|runtime| *runtime >= 0.0),
        cores: first(&cores)?.map_or(1, |cores| cores.ceil().max(1.0) as u64),
        memory_bytes: first(&memory)?.map_or(0, |bytes| bytes.ceil().max(0.0) as u64),
        inputs: inputs(task)?,
        outputs: outputs(task, sizes)?,
    })
}

/// A number, also one that is written as a text; `None`: nothing is said.
fn number(value: &Value, field: &str) -> Result<Option<f64>, String> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.filter(|number: &f64| number.is_finite());
    number.map(Some).ok_or_else(|| format!("{field}: found {value}; write a number"))
}

/// A name or an id, which may be a number.
fn name_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Names in a list, or one.
fn list_of(task: &Value, field: &str) -> Result<Vec<String>, String> {
    let wrong = |value: &Value| format!("{field}: found {value}; write a list of names");
    match &task[field] {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(|item| name_of(item).ok_or_else(|| wrong(item))).collect(),
        value => name_of(value).map(|name| vec![name]).ok_or_else(|| wrong(value)),
    }
}

/// Memory for a task that once needed so much at most: somewhat more, and a power of two, so that many tasks need the
/// same and are one job.
fn room(n_bytes: u64) -> u64 {
    match n_bytes {
        0 => 0,
        _ => n_bytes.saturating_add(n_bytes / 4).min(MEMORY_BYTES_MAX).next_power_of_two(),
    }
}

/// Sizes of files by their ids, as 1.5 lists them.
fn sizes(files: &Value) -> Result<HashMap<String, u64>, String> {
    let files = files.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut sizes = HashMap::new();
    for file in files {
        if let (Some(id), Some(size)) = (name_of(&file["id"]), size_of(file)?) {
            sizes.insert(id, size);
        }
    }
    Ok(sizes)
}

fn size_of(file: &Value) -> Result<Option<u64>, String> {
    for field in ["sizeInBytes", "size"] {
        if let Some(size) = number(&file[field], field)? {
            return Ok(Some(size.ceil().max(0.0) as u64));
        }
    }
    Ok(None)
}

fn files<'t>(task: &'t Value, link: &str) -> impl Iterator<Item = (String, &'t Value)> {
    let files = task["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let linked = files.iter().filter(move |file| file["link"] == link);
    linked.filter_map(|file| Some((name_of(&file["name"]).or_else(|| name_of(&file["id"]))?, file)))
}

fn inputs(task: &Value) -> Result<Vec<String>, String> {
    let mut all = list_of(task, "inputFiles")?;
    all.extend(files(task, "input").map(|(name, _)| name));
    Ok(all)
}

fn outputs(task: &Value, sizes: &HashMap<String, u64>) -> Result<Vec<(String, u64)>, String> {
    if !task["outputFiles"].is_null() {
        let files = list_of(task, "outputFiles")?.into_iter();
        return Ok(files.map(|file| (file.clone(), sizes.get(&file).copied().unwrap_or(0))).collect());
    }
    let file = |(name, file): (String, &Value)| Ok((name, size_of(file)?.unwrap_or(0)));
    files(task, "output").map(file).collect()
}

/// What the task ran, as a job file has it: a list, or a line for the shell.
fn command(execution: &Value, task: &Value) -> Result<Option<Value>, String> {
    let command = if execution["command"].is_object() { &execution["command"] } else { &task["command"] };
    let program = match &command["program"] {
        Value::Null => return Ok(None),
        Value::String(program) if program.trim().is_empty() => return Ok(None),
        Value::String(program) => program.as_str(),
        other => return Err(format!("command.program: found {other}; write a text")),
    };
    let arguments = match &command["arguments"] {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(argument).collect::<Result<_, String>>()?,
        one => vec![argument(one)?],
    };
    // Some systems keep the script of a task where others have the name of a program.
    if !program.trim().contains(char::is_whitespace) {
        return Ok(Some(Value::from_iter([program.trim().to_owned()].into_iter().chain(arguments))));
    }
    let script = without_indentation(program);
    let words = arguments.iter().map(|argument| quoted(argument));
    if script.starts_with("#!") {
        let line = [SCRIPT.to_owned(), "sh".to_owned(), quoted(&script)].into_iter().chain(words);
        return Ok(Some(Value::from(line.collect::<Vec<String>>().join(" "))));
    }
    if script.contains('\n') {
        // Nextflow runs them so. By `sh` alone a script goes on after a line that fails, and ends well.
        let bash = ["bash", "-ue", "-c", &script, "bash"].map(str::to_owned);
        return Ok(Some(Value::from_iter(bash.into_iter().chain(arguments))));
    }
    let line = [program.trim().to_owned()].into_iter().chain(words);
    Ok(Some(Value::from(line.collect::<Vec<String>>().join(" "))))
}

/// A script without the line ends of Windows, and without the blanks with which all of its lines begin.
fn without_indentation(script: &str) -> String {
    let script = script.replace("\r\n", "\n");
    let script = script.trim_end().trim_start_matches(['\n', '\r']);
    let width = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let lines = || script.lines();
    let common = lines().filter(|line| !line.trim().is_empty()).map(width).min().unwrap_or(0);
    let lines = lines().map(|line| line.get(common.min(width(line))..).unwrap_or_default());
    lines.collect::<Vec<&str>>().join("\n")
}

/// Runs its first argument as a script by the program that its first line names.
const SCRIPT: &str = r#"sh -c 'f=$(mktemp) && printf "%s\n" "$1" > "$f" && chmod 700 "$f" && shift && "$f" "$@"; r=$?; rm -f "$f"; exit $r'"#;

/// An argument as a text: of what is no text, as JSON has it.
fn argument(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Null => {
            Err("command.arguments: found null; write a text or a number, or leave it out".to_owned())
        }
        other => Ok(other.to_string()),
    }
}

/// A task of the job file. What only stands for the work needs nothing of what that needs.
fn entry(task: &Task, command: Value, is_stand_in: bool) -> Value {
    let mut entry = Map::new();
    entry.insert("name".to_owned(), Value::from(task.name.as_str()));
    entry.insert("command".to_owned(), command);
    if !task.parents.is_empty() {
        entry.insert("after".to_owned(), Value::from(task.parents.clone()));
    }
    if !is_stand_in && (task.cores > 1 || task.memory_bytes > 0) {
        let mut resources = Map::from_iter([("cores".to_owned(), Value::from(task.cores))]);
        if task.memory_bytes > 0 {
            resources.insert("memory".to_owned(), Value::from(format!("{}B", room(task.memory_bytes))));
        }
        entry.insert("resources".to_owned(), Value::Object(resources));
    }
    Value::Object(entry)
}

/// A shell line that reads what the tasks before it have written (as many files as have room), takes as long as the task
/// did and writes files as large as its own.
fn stand_in(task: &Task, written: &Written<'_>, emulation: Emulation) -> Result<String, String> {
    let is_written = |file: &&String| {
        let mut parents = task.parents.iter().filter_map(|parent| written.get(parent.as_str()));
        parents.any(|files| files.contains(file.as_str()))
    };
    let mut n_bytes = 0;
    let read = task.inputs.iter().filter(is_written).map(|file| flat(file)).take_while(|file| {
        n_bytes += file.len() + 1;
        n_bytes <= READ_BYTES_MAX
    });
    let read: Vec<String> = read.collect();
    let mut parts = Vec::new();
    if !read.is_empty() {
        parts.push(format!("cat {} > /dev/null", read.join(" ")));
    }
    let runtime_s = task.runtime_s.ok_or_else(|| {
        format!(
            "task `{}`: --emulate needs the time that it took (`runtimeInSeconds`); there is none",
            task.name
        )
    })?;
    parts.push(format!("sleep {:.3}", runtime_s / emulation.speedup));
    for (file, size) in &task.outputs {
        let size = (*size as f64 / emulation.shrink).ceil() as u64;
        parts.push(format!("head -c {size} /dev/zero > {}", flat(file)));
    }
    let line = parts.join(" && ");
    match line.len() <= LINE_BYTES_MAX {
        true => Ok(line),
        false => Err(format!(
            "task `{}`: found {} files that it writes, more than a command line has room for",
            task.name,
            task.outputs.len()
        )),
    }
}

/// A file's name in the folder itself, whatever folders there were then, as the shell reads it; no two files share one.
fn flat(file: &str) -> String {
    let name = file.replace('%', "%25").replace('/', "%2F");
    quoted(&if name.starts_with('-') { format!("./{name}") } else { name })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Emulation, job_file, names_processes, parse};

    #[test]
    fn both_forms_of_an_instance_give_the_same_job_file() {
        let files =
            json!([{"name": "x/out", "link": "output", "sizeInBytes": 7}, {"name": "in", "link": "input"}]);
        let old = json!({"name": "w", "workflow": {"tasks": [
            {"name": "a", "id": "1", "parents": [], "runtimeInSeconds": 10, "files": files, "cores": 2.0,
             "memoryInBytes": 900,
             "command": {"program": "prog", "arguments": ["-x", "1"]}},
            {"name": "b", "id": "2", "parents": ["a"], "runtimeInSeconds": 0.5, "command": {"program": "q"},
             "files": [{"name": "x/out", "link": "input"}, {"name": "in", "link": "input"}]},
        ]}});
        let new = json!({"name": "w", "workflow": {
            "specification": {
                "tasks": [
                    {"name": "a", "id": "1", "parents": [], "outputFiles": ["x/out"], "inputFiles": ["in"]},
                    {"name": "b", "id": "2", "parents": ["1"], "inputFiles": ["x/out", "in"]},
                ],
                "files": [{"id": "x/out", "sizeInBytes": 7}, {"id": "in", "sizeInBytes": 1}],
            },
            "execution": {"tasks": [
                {"id": "1", "runtimeInSeconds": 10, "coreCount": 2, "memoryInBytes": 900, "command": {"program": "prog", "arguments": ["-x", "1"]}},
                {"id": "2", "runtimeInSeconds": 0.5, "command": {"program": "q"}},
            ]},
        }});
        let expected = json!({"name": "w", "application": "w", "tasks": [
            {"name": "a", "command": ["prog", "-x", "1"], "resources": {"cores": 2, "memory": "2048B"}},
            {"name": "b", "command": ["q"], "after": ["a"]},
        ]});
        assert_eq!(job_file(&old, "file", None).unwrap(), expected);
        assert_eq!(job_file(&new, "file", None).unwrap(), expected);
        let emulation = Some(Emulation { speedup: 100.0, shrink: 2.0 });
        let emulated = job_file(&new, "file", emulation).unwrap();
        assert_eq!(emulated, job_file(&old, "file", emulation).unwrap());
        assert_eq!(emulated["tasks"][0]["command"], "sleep 0.100 && head -c 4 /dev/zero > x%2Fout");
        // What nobody before it has written is not there to be read.
        assert_eq!(emulated["tasks"][1]["command"], "cat x%2Fout > /dev/null && sleep 0.005");
    }

    fn commands(tasks: &Value) -> Result<Vec<Value>, String> {
        let job = job_file(&json!({"workflow": {"tasks": tasks}}), "w", None)?;
        Ok(job["tasks"].as_array().unwrap().iter().map(|task| task["command"].clone()).collect())
    }

    #[test]
    fn every_argument_is_kept_whatever_its_type() {
        let command =
            |arguments: Value| json!([{"name": "a", "command": {"program": "echo", "arguments": arguments}}]);
        let found = |arguments: Value| commands(&command(arguments)).unwrap().remove(0);
        let all = json!(["--n", 5, "--x", {"k": 1}, true, 1.5, [1, "b"], "end", ""]);
        let expected = json!(["echo", "--n", "5", "--x", "{\"k\":1}", "true", "1.5", "[1,\"b\"]", "end", ""]);
        assert_eq!(found(all), expected);
        assert_eq!(found(json!("one string")), json!(["echo", "one string"]));
        assert_eq!(found(json!(7)), json!(["echo", "7"]));
        assert_eq!(found(json!(null)), json!(["echo"]));
        let said = commands(&command(json!(["a", null]))).unwrap_err();
        assert_eq!(
            said,
            "task `a`: command.arguments: found null; write a text or a number, or leave it out"
        );
        let said = commands(&json!([{"name": "a", "command": {"program": 5}}])).unwrap_err();
        assert_eq!(said, "task `a`: command.program: found 5; write a text");
    }

    #[test]
    fn arguments_and_names_are_kept_as_they_are_written() {
        let found = |arguments: &str| {
            let task =
                format!(r#"{{"name": "a", "command": {{"program": "p", "arguments" : {arguments}}}}}"#);
            let instance = parse(&format!(r#"{{"workflow": {{"tasks": [{task}]}}}}"#))?;
            job_file(&instance, "w", None).map(|job| job["tasks"][0]["command"].clone())
        };
        for (arguments, expected) in [
            (
                r#"["--seed", 18446744073709551617, "--tol",0.10 ,"--n", 1E5, -0.0]"#,
                json!(["p", "--seed", "18446744073709551617", "--tol", "0.10", "--n", "1E5", "-0.0"]),
            ),
            ("[1e400]", json!(["p", "1e400"])),
            ("1.50", json!(["p", "1.50"])),
            ("[ ]", json!(["p"])),
            ("null", json!(["p"])),
            (
                r#"[{ "k" : [ 1.0, "a \" b" ] }, [ 2.50,{}], true, "\u00e9 [1.0, \"arguments\": 1.0]"]"#,
                json!(["p", r#"{"k":[1.0,"a \" b"]}"#, "[2.50,{}]", "true", "é [1.0, \"arguments\": 1.0]"]),
            ),
        ] {
            assert_eq!(found(arguments), Ok(expected), "{arguments}");
        }
        let said = found("[1.0, null]").unwrap_err();
        assert!(said.contains("command.arguments: found null"), "{said}");
        for (wrong, said) in [
            (r#"[{"k" 1}]"#, "found no JSON (expected `:`"),
            ("[1.]", "found no JSON (invalid number"),
            (
                r#"[]}, "runtimeInSeconds": 1e400, "x": {"#,
                "found JSON that cannot be read (number out of range",
            ),
        ] {
            let error = found(wrong).unwrap_err();
            assert!(error.starts_with(said), "{wrong}: {error}");
        }
        // Numbers of ids differ that are one number of double precision.
        let tasks = r#"[{"id": 18446744073709551617, "command": {"program": "x"}},
            {"id": 18446744073709551618, "parents": [18446744073709551617], "command": {"program": "x"}}]"#;
        let instance = parse(&format!(r#"{{"name": 1.10, "workflow": {{"tasks": {tasks}}}}}"#)).unwrap();
        let job = job_file(&instance, "w", None).unwrap();
        assert_eq!(
            (&job["name"], &job["tasks"][1]["after"]),
            (&json!("1.10"), &json!(["18446744073709551617"]))
        );
    }

    #[test]
    fn numbers_may_be_fractions_and_texts() {
        let task = |more: Value| {
            let mut task = json!({"name": "a", "command": {"program": "x"}});
            task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            job_file(
                &json!({"workflow": {"tasks": [task]}}),
                "w",
                Some(Emulation { speedup: 1.0, shrink: 1.0 }),
            )
        };
        let files = json!([{"name": "o", "link": "output", "sizeInBytes": "1e3"}]);
        let found = task(json!({"runtimeInSeconds": "2.5", "files": files})).unwrap();
        assert_eq!(found["tasks"][0]["command"], "sleep 2.500 && head -c 1000 /dev/zero > o");
        let said = task(json!({"runtimeInSeconds": -1})).unwrap_err();
        assert!(said.contains("`a`: --emulate needs the time that it took"), "{said}");
        for (field, value) in [("memoryInBytes", json!(1.5e9)), ("memoryInBytes", json!("1500000000"))] {
            let tasks = json!([{"name": "a", "command": {"program": "x"}, field: value, "coreCount": "2"}]);
            let job = job_file(&json!({"workflow": {"tasks": tasks}}), "w", None).unwrap();
            assert_eq!(job["tasks"][0]["resources"], json!({"cores": 2, "memory": "2147483648B"}));
        }
        for (field, value) in
            [("runtimeInSeconds", json!("fast")), ("coreCount", json!([2])), ("memoryInBytes", json!("nan"))]
        {
            let said = task(json!({field: value})).unwrap_err();
            assert!(said.starts_with(&format!("task `a`: {field}: found {value}; write a number")), "{said}");
        }
    }

    #[test]
    fn edges_may_be_named_on_either_side_and_by_numbers() {
        let tasks = json!([
            {"name": "a", "id": 1, "children": ["b", 3], "command": {"program": "x"}},
            {"name": "b", "id": 2, "parents": [1], "command": {"program": "x"}},
            {"name": "c", "id": 3, "parents": "b", "command": {"program": "x"}},
        ]);
        let job = job_file(&json!({"workflow": {"tasks": tasks}}), "w", None).unwrap();
        let after: Vec<&Value> = job["tasks"].as_array().unwrap().iter().map(|task| &task["after"]).collect();
        assert_eq!(after, [&Value::Null, &json!(["a"]), &json!(["b", "a"])]);
        for (tasks, said) in [
            (
                json!([{"name": "a", "children": ["z"], "command": {"program": "x"}}]),
                "task `a`: found a child that is no task (`z`)",
            ),
            (
                json!([{"name": "a", "parents": [null], "command": {"program": "x"}}]),
                "parents: found null; write a list of names",
            ),
            (
                json!([
                    {"name": "a", "id": "1", "command": {"program": "x"}},
                    {"name": "a", "id": "2", "command": {"program": "x"}},
                    {"name": "b", "parents": ["a"], "command": {"program": "x"}},
                ]),
                "task `b`: 2 tasks are called `a`, which is named as a parent; name its id",
            ),
            (
                json!([
                    {"name": "x", "id": "a1", "command": {"program": "x"}},
                    {"name": "y", "id": "a1", "command": {"program": "x"}},
                    {"name": "b", "id": "b1", "parents": ["a1"], "command": {"program": "x"}},
                ]),
                "task `b`: 2 tasks have the id `a1`, which is named as a parent; give each task an id of its own",
            ),
        ] {
            assert_eq!(job_file(&json!({"workflow": {"tasks": tasks}}), "w", None).unwrap_err(), said);
        }
    }

    #[test]
    fn scripts_in_place_of_programs_are_run_as_scripts() {
        let task = |program: &str, arguments: Value| {
            commands(&json!([{"name": "a", "command": {"program": program, "arguments": arguments}}]))
                .unwrap()
                .remove(0)
        };
        assert_eq!(
            task("\r\n    fastqc a.fq\r\n    if x; then\n      y\n    fi\n  ", json!(["z"])),
            json!(["bash", "-ue", "-c", "fastqc a.fq\nif x; then\n  y\nfi", "bash", "z"])
        );
        let run = |program: &str| {
            let words = task(program, json!([]));
            let words: Vec<&str> = words.as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let run = std::process::Command::new(words[0]).args(&words[1..]).output().unwrap();
            (String::from_utf8_lossy(&run.stdout).into_owned(), run.status.success())
        };
        assert_eq!(
            run("cat no-such-file\necho done\n"),
            (String::new(), false),
            "it ends with its first failure"
        );
        assert_eq!(run("all=(a b)\ncat <<END\n${all[1]} {x}\nEND\n"), ("b {x}\n".to_owned(), true));
        assert_eq!(run("  cat <<END\n  c\n  END\n"), ("c\n".to_owned(), true));
        for instance in [json!({"wms": {"name": "Nextflow"}}), json!({"runtimeSystem": {"name": "nextflow"}})]
        {
            assert!(names_processes(&instance) && !names_processes(&json!({"wms": {"name": "Pegasus"}})));
        }
        assert_eq!(task("blastn -query", json!(["a b", 5])), "blastn -query 'a b' 5");
        let line = task("#!/bin/sh\nprintf '%s;' \"$1\" {x}\nexit 3\n", json!(["it's"]));
        let run = std::process::Command::new("sh").args(["-c", line.as_str().unwrap()]).output().unwrap();
        assert_eq!(
            (String::from_utf8_lossy(&run.stdout).as_ref(), run.status.code()),
            ("it's;{x};", Some(3))
        );
    }

    #[test]
    fn names_of_files_are_told_apart_and_have_to_fit() {
        let writes = |files: Value| {
            let task = json!({"name": "a", "runtimeInSeconds": 1, "files": files});
            job_file(
                &json!({"workflow": {"tasks": [task]}}),
                "w",
                Some(Emulation { speedup: 1.0, shrink: 1.0 }),
            )
        };
        let file = |name: &str| json!({"name": name, "link": "output", "sizeInBytes": 1});
        let job = writes(json!([file("-x"), file("a/b"), file("a%2Fb")])).unwrap();
        let command = job["tasks"][0]["command"].as_str().unwrap();
        assert!(
            command.ends_with("> ./-x && head -c 1 /dev/zero > a%2Fb && head -c 1 /dev/zero > a%252Fb"),
            "{command}"
        );
        let many: Vec<Value> = (0..5_000).map(|n| file(&format!("out-{n}"))).collect();
        let error = writes(many.into()).unwrap_err();
        assert!(error.contains("`a`: found 5000 files"), "{error}");
    }

    #[test]
    fn what_is_no_instance_is_refused() {
        for (instance, said) in [
            (json!({}), "found no `workflow`"),
            (json!({"workflow": {}}), "found no list of tasks"),
            (json!({"workflow": {"tasks": []}}), "found no tasks"),
            (
                json!({"workflow": {"tasks": [{"name": "a", "parents": ["z"]}]}}),
                "found a parent that is no task",
            ),
            (json!({"workflow": {"tasks": [{"name": "a"}]}}), "found no command"),
            (json!({"schemaVersion": "2.0", "workflow": {"tasks": [{"name": "a"}]}}), "found `2.0`"),
            (
                json!({"workflow": {"tasks": [{"name": "a", "id": "1"}, {"name": "a", "id": "1"}]}}),
                "found two",
            ),
        ] {
            let error = job_file(&instance, "file", None).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let emulation = Some(Emulation { speedup: 1.0, shrink: 1.0 });
        let error =
            job_file(&json!({"workflow": {"tasks": [{"name": "a"}]}}), "file", emulation).unwrap_err();
        assert!(error.contains("`a`: --emulate needs the time that it took"), "{error}");
    }
}
