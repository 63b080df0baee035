//! WfFormat: the JSON in which WfCommons keeps executions of real workflows. Up to 1.4 all that is known of a task
//! stands in one place; from 1.5 on, what it is and how it ran stand apart. Edges are those that the instance names.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

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
    argv: Vec<String>,
    runtime_s: Option<f64>,
    cores: u64,
    memory_bytes: u64,
    /// Files that it reads.
    inputs: Vec<String>,
    /// Files that it writes, and how large.
    outputs: Vec<(String, u64)>,
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
        None if task.argv.is_empty() => {
            Err(format!("task `{}`: found no command; --emulate needs none", task.name))
        }
        None => Ok(Value::from(task.argv.clone())),
    };
    let entries = tasks.iter().map(|task| Ok(entry(task, command(task)?, emulation.is_some())));
    let tasks: Vec<Value> = entries.collect::<Result<_, String>>()?;
    let name = instance["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(name);
    Ok(json!({ "name": name, "application": name, "tasks": tasks }))
}

fn read(workflow: &Value) -> Result<Vec<Task>, String> {
    let specification = &workflow["specification"];
    let (listed, sizes) = match specification.is_object() {
        true => (&specification["tasks"], sizes(&specification["files"])),
        false => (
            if workflow["tasks"].is_array() { &workflow["tasks"] } else { &workflow["jobs"] },
            HashMap::new(),
        ),
    };
    let listed = listed.as_array().ok_or("found no list of tasks; WfFormat 1.3 to 1.6 can be read")?;
    let ran = workflow["execution"]["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ran: HashMap<&str, &Value> =
        ran.iter().filter_map(|task| Some((task["id"].as_str()?, task))).collect();
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for task in listed {
        let own = task["name"].as_str().or(task["id"].as_str()).ok_or("found a task without a name")?;
        *counts.entry(own).or_default() += 1;
    }
    for task in listed {
        let (name, id) = (task["name"].as_str(), task["id"].as_str());
        let own = name.filter(|name| counts.get(name) == Some(&1)).or(id).or(name).unwrap_or_default();
        for known in [name, id].into_iter().flatten() {
            names.insert(known, own.to_owned());
        }
    }
    let read = |task: &Value| {
        let id = task["id"].as_str().or(task["name"].as_str()).unwrap_or_default();
        let execution = ran.get(id).copied().unwrap_or(task);
        let parents = texts(&task["parents"]).into_iter().map(|parent| names.get(parent).cloned());
        let parents: Option<Vec<String>> = parents.collect();
        let runtime = [&execution["runtimeInSeconds"], &execution["runtime"], &task["runtimeInSeconds"]];
        Ok(Task {
            name: names.get(id).cloned().unwrap_or_else(|| id.to_owned()),
            parents: parents.ok_or_else(|| format!("task `{id}`: found a parent that is no task"))?,
            argv: argv(execution, task),
            runtime_s: runtime.iter().find_map(|runtime| runtime.as_f64()).map(|runtime| runtime.max(0.0)),
            cores: [&execution["coreCount"], &execution["cores"]]
                .iter()
                .find_map(|cores| cores.as_f64())
                .map_or(1, |cores| cores.ceil().max(1.0) as u64),
            memory_bytes: room(execution["memoryInBytes"].as_u64().unwrap_or(0)),
            inputs: inputs(task),
            outputs: outputs(task, &sizes),
        })
    };
    listed.iter().map(read).collect()
}

/// Memory for a task that once needed so much at most: somewhat more, and a power of two, so that many tasks need the
/// same and are one job.
fn room(n_bytes: u64) -> u64 {
    match n_bytes {
        0 => 0,
        _ => n_bytes.saturating_add(n_bytes / 4).checked_next_power_of_two().unwrap_or(n_bytes),
    }
}

/// Sizes of files by their ids, as 1.5 lists them.
fn sizes(files: &Value) -> HashMap<&str, u64> {
    let files = files.as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().filter_map(|file| Some((file["id"].as_str()?, file["sizeInBytes"].as_u64()?))).collect()
}

fn inputs(task: &Value) -> Vec<String> {
    let named = texts(&task["inputFiles"]).into_iter();
    let files = task["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let read = files.iter().filter(|file| file["link"] == "input");
    named
        .chain(read.filter_map(|file| file["name"].as_str().or(file["id"].as_str())))
        .map(str::to_owned)
        .collect()
}

fn outputs(task: &Value, sizes: &HashMap<&str, u64>) -> Vec<(String, u64)> {
    if task["outputFiles"].is_array() {
        let files = texts(&task["outputFiles"]).into_iter();
        return files.map(|file| (file.to_owned(), sizes.get(file).copied().unwrap_or(0))).collect();
    }
    let files = task["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    let written = files.iter().filter(|file| file["link"] == "output");
    let file = |file: &Value| {
        let name = file["name"].as_str().or(file["id"].as_str())?;
        let size = [&file["sizeInBytes"], &file["size"]].iter().find_map(|size| size.as_u64());
        Some((name.to_owned(), size.unwrap_or(0)))
    };
    written.filter_map(file).collect()
}

fn argv(execution: &Value, task: &Value) -> Vec<String> {
    let command = if execution["command"].is_object() { &execution["command"] } else { &task["command"] };
    let program = command["program"].as_str().filter(|program| !program.is_empty());
    let arguments = texts(&command["arguments"]).into_iter();
    program.into_iter().chain(arguments).map(str::to_owned).collect()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().map_or_else(Vec::new, |items| items.iter().filter_map(Value::as_str).collect())
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
            resources.insert("memory".to_owned(), Value::from(format!("{}B", task.memory_bytes)));
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
        format!("task `{}`: found no time that it took (runtimeInSeconds), which --emulate needs", task.name)
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

    use super::{Emulation, job_file};

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
        assert!(error.contains("`a`: found no time that it took"), "{error}");
    }
}
