//! WfFormat: the JSON in which WfCommons keeps executions of real workflows. Up to 1.4 all that is known of a task
//! stands in one place; from 1.5 on, what it is and how it ran stand apart. Edges are those that the instance names.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use crate::show::quote::quoted;

/// A task of an instance.
#[derive(Default)]
struct Task {
    name: String,
    parents: Vec<String>,
    argv: Vec<String>,
    runtime_s: f64,
    cores: u64,
    memory_bytes: u64,
    /// Files that it writes, and how large.
    outputs: Vec<(String, u64)>,
}

/// The job file of an instance; with `speedup`, one whose tasks only take as long, so many times faster.
///
/// # Errors
/// What of the instance is missing.
pub fn job_file(instance: &Value, name: &str, speedup: Option<f64>) -> Result<Value, String> {
    let workflow = &instance["workflow"];
    if !workflow.is_object() {
        return Err("found no `workflow`; a WfFormat instance of WfCommons has one".to_owned());
    }
    let tasks = read(workflow)?;
    if tasks.is_empty() {
        return Err("found no tasks in `workflow`".to_owned());
    }
    let tasks: Vec<Value> = tasks.iter().map(|task| entry(task, speedup)).collect::<Result<_, _>>()?;
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
    let listed = listed.as_array().ok_or("found no list of tasks; WfFormat 1.3 to 1.5 can be read")?;
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
            runtime_s: runtime.iter().find_map(|runtime| runtime.as_f64()).unwrap_or(0.0).max(0.0),
            cores: [&execution["coreCount"], &execution["cores"]]
                .iter()
                .find_map(|cores| cores.as_f64())
                .map_or(1, |cores| cores.ceil().max(1.0) as u64),
            memory_bytes: execution["memoryInBytes"].as_u64().unwrap_or(0),
            outputs: outputs(task, &sizes),
        })
    };
    listed.iter().map(read).collect()
}

/// Sizes of files by their ids, as 1.5 lists them.
fn sizes(files: &Value) -> HashMap<&str, u64> {
    let files = files.as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().filter_map(|file| Some((file["id"].as_str()?, file["sizeInBytes"].as_u64()?))).collect()
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

/// A task of the job file.
fn entry(task: &Task, speedup: Option<f64>) -> Result<Value, String> {
    let command = match speedup {
        Some(speedup) => Value::from(emulation(task, speedup)),
        None if task.argv.is_empty() => {
            return Err(format!("task `{}`: found no command; --emulate needs none", task.name));
        }
        None => Value::from(task.argv.clone()),
    };
    let mut entry = Map::new();
    entry.insert("name".to_owned(), Value::from(task.name.as_str()));
    entry.insert("command".to_owned(), command);
    if !task.parents.is_empty() {
        entry.insert("after".to_owned(), Value::from(task.parents.clone()));
    }
    // What only stands for the work needs nothing of it.
    if speedup.is_none() && (task.cores > 1 || task.memory_bytes > 0) {
        let mut resources = Map::from_iter([("cores".to_owned(), Value::from(task.cores))]);
        if task.memory_bytes > 0 {
            resources.insert("memory".to_owned(), Value::from(format!("{}B", task.memory_bytes)));
        }
        entry.insert("resources".to_owned(), Value::Object(resources));
    }
    Ok(Value::Object(entry))
}

/// A shell line that takes as long as the task did and writes files as large as its own.
fn emulation(task: &Task, speedup: f64) -> String {
    let mut parts = vec![format!("sleep {:.3}", task.runtime_s / speedup)];
    for (file, size) in &task.outputs {
        // In the folder itself: whatever folders there were then.
        let flat = file.trim_start_matches('/').replace('/', "_");
        parts.push(format!("head -c {size} /dev/zero > {}", quoted(&flat)));
    }
    parts.join(" && ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::job_file;

    #[test]
    fn both_forms_of_an_instance_give_the_same_job_file() {
        let files =
            json!([{"name": "x/out", "link": "output", "sizeInBytes": 7}, {"name": "in", "link": "input"}]);
        let old = json!({"name": "w", "workflow": {"tasks": [
            {"name": "a", "id": "1", "parents": [], "runtimeInSeconds": 10, "files": files, "cores": 2.0,
             "command": {"program": "prog", "arguments": ["-x", "1"]}},
            {"name": "b", "id": "2", "parents": ["a"], "runtimeInSeconds": 0.5, "command": {"program": "q"}},
        ]}});
        let new = json!({"name": "w", "workflow": {
            "specification": {
                "tasks": [
                    {"name": "a", "id": "1", "parents": [], "outputFiles": ["x/out"], "inputFiles": ["in"]},
                    {"name": "b", "id": "2", "parents": ["1"]},
                ],
                "files": [{"id": "x/out", "sizeInBytes": 7}, {"id": "in", "sizeInBytes": 1}],
            },
            "execution": {"tasks": [
                {"id": "1", "runtimeInSeconds": 10, "coreCount": 2, "command": {"program": "prog", "arguments": ["-x", "1"]}},
                {"id": "2", "runtimeInSeconds": 0.5, "command": {"program": "q"}},
            ]},
        }});
        let expected = json!({"name": "w", "application": "w", "tasks": [
            {"name": "a", "command": ["prog", "-x", "1"], "resources": {"cores": 2}},
            {"name": "b", "command": ["q"], "after": ["a"]},
        ]});
        assert_eq!(job_file(&old, "file", None).unwrap(), expected);
        assert_eq!(job_file(&new, "file", None).unwrap(), expected);
        let emulated = job_file(&new, "file", Some(100.0)).unwrap();
        assert_eq!(emulated, job_file(&old, "file", Some(100.0)).unwrap());
        assert_eq!(emulated["tasks"][0]["command"], "sleep 0.100 && head -c 7 /dev/zero > x_out");
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
        ] {
            let error = job_file(&instance, "file", None).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
