//! From YAML values to the form of a job file.

use std::collections::BTreeMap;

use serde_yaml::Value;

use crate::job::author::environment::EnvFrom;
use crate::job::author::form::{JobForm, ResourcesForm, ResultsForm};
use crate::job::author::read::{Fields, Node, Reader, bare_placeholder};
use crate::job::{CommandLine, Extract, Keep, Retries, Stdio, Stream, WorkDirPolicy, limits, nearest};
use crate::text::units::{parse_bytes, parse_duration_ms};

/// The fields of a job file, in the order people write them.
pub(in crate::job::author) const JOB_FIELDS: [&str; 20] = [
    "name",
    "application",
    "command",
    "sweep",
    "env",
    "env_from",
    "workdir",
    "resources",
    "time_limit",
    "estimate",
    "priority",
    "retries",
    "success_codes",
    "crash_limit",
    "max_failures",
    "stdio",
    "results",
    "resident",
    "inputs",
    "outputs",
];

const ENV_FROM_EXPECTED: &str = "write none, submit or a list of names like [PYTHONPATH]";
const COMMAND_EXPECTED: &str = "write a list [program, argument, …] or a shell line";

impl Reader<'_> {
    /// The job, as far as it can be read: a field with a problem counts as absent. `others`: fields that such a file could
    /// have beside those of a job.
    pub(in crate::job::author) fn job(&mut self, value: &Value, others: &[&str]) -> Option<JobForm> {
        let node = Node { value, path: String::new() };
        if value.is_null() {
            return self.report("", "an empty file", "a job file needs at least a command");
        }
        let known: Vec<&str> = JOB_FIELDS.iter().chain(others).copied().collect();
        let mut fields = self.fields(&node, &known, "a job file consists of lines like `command: …`")?;
        Some(self.job_of(&node, &mut fields))
    }

    /// The job of these fields of a mapping.
    pub(in crate::job::author) fn job_of(&mut self, node: &Node<'_>, fields: &mut Fields<'_>) -> JobForm {
        let command = match node.value.is_null() {
            // What the tasks of a file have in common has none.
            true => None,
            false => self.required(fields, node, "command", COMMAND_EXPECTED),
        };
        // What was reported must not be reported again for what stands in its place.
        let unreadable = || CommandLine::Args(vec!["true".to_owned()]);
        JobForm {
            name: fields.take("name").and_then(|node| self.text(&node)),
            application: fields.take("application").and_then(|node| self.text(&node)),
            command: command.and_then(|node| self.command(&node)).unwrap_or_else(unreadable),
            sweep: fields.take("sweep").and_then(|node| self.sweep(&node)),
            env: fields.take("env").and_then(|node| self.env(&node)),
            env_from: fields.take("env_from").and_then(|node| self.env_from(&node)),
            workdir: fields.take("workdir").and_then(|node| self.workdir(&node)),
            resources: fields.take("resources").and_then(|node| self.resources(&node)),
            time_limit_ms: fields.take("time_limit").and_then(|node| self.quantity(&node, parse_duration_ms)),
            estimate: fields.take("estimate").and_then(|node| self.text(&node)),
            priority: fields
                .take("priority")
                .and_then(|node| self.integer(&node, (i128::from(i32::MIN), i128::from(i32::MAX)))),
            retries: fields.take("retries").and_then(|node| self.retries(&node)),
            success_codes: fields.take("success_codes").and_then(|node| self.success_codes(&node)),
            crash_limit: fields
                .take("crash_limit")
                .and_then(|node| self.integer(&node, (1, i128::from(limits::CRASH_LIMIT_MAX)))),
            max_failures: fields
                .take("max_failures")
                .and_then(|node| self.integer(&node, (0, i128::from(u64::MAX)))),
            stdio: fields.take("stdio").and_then(|node| self.stdio(&node)),
            results: fields.take("results").and_then(|node| self.results(&node)),
            resident: fields.take("resident").and_then(|node| self.truth(&node)),
            inputs: fields.take("inputs").and_then(|node| self.inputs(&node)),
            outputs: fields.take("outputs").and_then(|node| self.outputs(&node)),
        }
    }

    pub(in crate::job::author) fn command(&mut self, node: &Node<'_>) -> Option<CommandLine> {
        match node.value {
            Value::Sequence(_) => self.values(node, COMMAND_EXPECTED).map(CommandLine::Args),
            Value::String(line) => Some(CommandLine::Shell(line.clone())),
            // A placeholder without quotes: it says so.
            Value::Mapping(mapping) if bare_placeholder(mapping).is_some() => {
                self.text(node).map(CommandLine::Shell)
            }
            _ => self.refuse(node, COMMAND_EXPECTED),
        }
    }

    fn env(&mut self, node: &Node<'_>) -> Option<BTreeMap<String, String>> {
        let entries = self.entries(node, "write variables like {OMP_NUM_THREADS: 4}")?;
        Some(entries.into_iter().filter_map(|(name, node)| Some((name, self.value(&node)?))).collect())
    }

    fn env_from(&mut self, node: &Node<'_>) -> Option<EnvFrom> {
        if node.value.is_sequence() {
            return self.texts(node, ENV_FROM_EXPECTED).map(EnvFrom::Names);
        }
        match node.value {
            Value::String(word) if word == "none" => Some(EnvFrom::None),
            Value::String(word) if word == "submit" => Some(EnvFrom::Submit),
            _ => self.refuse(node, ENV_FROM_EXPECTED),
        }
    }

    fn workdir(&mut self, node: &Node<'_>) -> Option<WorkDirPolicy> {
        let expected = "write submit, scratch or {path: \"runs/{index}\"}";
        match node.value {
            Value::Mapping(_) => {
                let mut fields = self.fields(node, &["path"], expected)?;
                let path = self.required(&mut fields, node, "path", expected)?;
                self.text(&path).map(WorkDirPolicy::Path)
            }
            Value::String(word) if word == "submit" => Some(WorkDirPolicy::Submit),
            Value::String(word) if word == "scratch" => Some(WorkDirPolicy::Scratch),
            _ => self.refuse(node, expected),
        }
    }

    pub(in crate::job::author) fn resources(&mut self, node: &Node<'_>) -> Option<ResourcesForm> {
        let known = ["cores", "memory", "gpus", "generic"];
        let mut fields = self.fields(node, &known, "write resources like {cores: 4, memory: 2GiB}")?;
        Some(ResourcesForm {
            cores: fields
                .take("cores")
                .and_then(|node| self.integer(&node, (1, i128::from(limits::CORES_MAX)))),
            memory_bytes: fields.take("memory").and_then(|node| self.quantity(&node, parse_bytes)),
            gpus: fields.take("gpus").and_then(|node| self.integer(&node, (0, i128::from(limits::GPUS_MAX)))),
            generic: fields.take("generic").and_then(|node| self.generic(&node)),
        })
    }

    fn generic(&mut self, node: &Node<'_>) -> Option<BTreeMap<String, u64>> {
        let entries = self.entries(node, "write amounts like {licence: 1}")?;
        let mut amounts = BTreeMap::new();
        for (name, node) in entries {
            if let "cores" | "memory" | "gpus" = name.as_str() {
                let found = format!("`{name}`, which has a field of its own");
                self.report::<()>(&node.path, found, format!("write resources.{name}"));
            } else if let Some(amount) = self.integer(&node, (0, i128::from(u64::MAX))) {
                amounts.insert(name, amount);
            }
        }
        Some(amounts)
    }

    fn retries(&mut self, node: &Node<'_>) -> Option<Retries> {
        let limits = (0, i128::from(limits::RETRIES_MAX));
        if !node.value.is_mapping() {
            return self.integer(node, limits).map(|count| Retries { count, delay_ms: 0 });
        }
        let mut fields = self.fields(node, &["count", "delay"], "")?;
        let count = self.required(&mut fields, node, "count", "write a number or {count: 2, delay: 5s}");
        let delay = fields.take("delay").map(|node| self.quantity(&node, parse_duration_ms));
        let count = self.integer(&count?, limits)?;
        Some(Retries { count, delay_ms: delay.flatten().unwrap_or(0) })
    }

    fn success_codes(&mut self, node: &Node<'_>) -> Option<Vec<i32>> {
        let items = self.items(node, "write a list of exit codes like [0, 1]")?;
        let codes: Vec<Option<i32>> = items.iter().map(|item| self.integer(item, (0, 255))).collect();
        codes.into_iter().collect()
    }

    fn stdio(&mut self, node: &Node<'_>) -> Option<Stdio> {
        if !node.value.is_mapping() {
            let word = self.word(node, &[("archive", true), ("discard", false)])?;
            let output = || if word { Stream::Archive } else { Stream::Discard };
            return Some(Stdio { stdin: Stream::Discard, stdout: output(), stderr: output() });
        }
        let mut fields = self.fields(node, &["stdin", "stdout", "stderr"], "")?;
        let mut stream = |name| fields.take(name).and_then(|node| self.stream(&node));
        let absent = Stdio::default();
        Some(Stdio {
            stdin: stream("stdin").unwrap_or(absent.stdin),
            stdout: stream("stdout").unwrap_or(absent.stdout),
            stderr: stream("stderr").unwrap_or(absent.stderr),
        })
    }

    fn stream(&mut self, node: &Node<'_>) -> Option<Stream> {
        let text = self.text(node)?;
        match text.as_str() {
            "archive" => Some(Stream::Archive),
            "discard" => Some(Stream::Discard),
            _ => match nearest(&text, ["archive", "discard"]) {
                // A misspelled word must not become a file of that name.
                Some(near) => {
                    self.refuse(node, format!("did you mean {near}? a file of that name is written ./{text}"))
                }
                None => Some(Stream::File(text)),
            },
        }
    }

    fn results(&mut self, node: &Node<'_>) -> Option<ResultsForm> {
        let known = ["keep", "limit", "budget", "files", "extract"];
        let mut fields = self.fields(node, &known, "write results like {keep: failed, limit: 64KiB}")?;
        let keep = [("all", Keep::All), ("failed", Keep::Failed), ("none", Keep::None)];
        Some(ResultsForm {
            keep: fields.take("keep").and_then(|node| self.word(&node, &keep)),
            limit_bytes: fields.take("limit").and_then(|node| self.quantity(&node, parse_bytes)),
            budget_bytes: fields.take("budget").and_then(|node| self.quantity(&node, parse_bytes)),
            files: fields.take("files").and_then(|node| self.integer(&node, (0, i128::from(u64::MAX)))),
            extract: fields.take("extract").and_then(|node| self.extract(&node)),
        })
    }

    fn extract(&mut self, node: &Node<'_>) -> Option<Vec<Extract>> {
        let entries = self.entries(node, "write columns like {energy: 'E = ([-0-9.]+)'}")?;
        let columns = entries.into_iter().filter_map(|(name, node)| {
            let pattern = self.text(&node)?;
            Some(Extract { name, pattern })
        });
        Some(columns.collect())
    }
}
