//! The form of a job file: what may be written where. The JSON Schema for editors is made from it.
//!
//! Scalars are already read (durations in milliseconds, sizes in bytes); what names files is not
//! yet looked at. The doc comments here are what editors show.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::job::author::environment::EnvFrom;
use crate::job::{CommandLine, Extract, Keep, Retries, Stdio, WorkDirPolicy};

use scheduler::digest::Digest;

/// A Pilotfish job: a command, the parameters it is run with, and how.
#[derive(Debug, JsonSchema)]
#[schemars(title = "Pilotfish job file", deny_unknown_fields)]
pub(super) struct JobForm {
    /// What the job is called; default: the file's name without extension.
    #[schemars(with = "Option<Text>", extend("examples" = ["docking"]))]
    pub name: Option<String>,
    /// Which application it runs, for profiles; default: the program's file name, or "shell".
    #[schemars(with = "Option<Text>", extend("examples" = ["autodock-vina"]))]
    pub application: Option<String>,
    /// What each task runs. A list is program and arguments; a text is run by /bin/sh. {name} stands for a parameter.
    #[schemars(with = "CommandSchema", extend("examples" = [["vina", "--seed", "{seed}", "--ligand", "{ligand}"], "grep -c ATOM {ligand} > {ligand.stem}.txt"]))]
    pub command: CommandLine,
    /// The parameters: every combination of their values is one task. The last one varies fastest.
    pub sweep: Option<SweepForm>,
    /// Environment variables of each task; the values may contain {name}.
    #[schemars(with = "Option<BTreeMap<String, Text>>", extend("examples" = [{"OMP_NUM_THREADS": "{cores}"}]))]
    pub env: Option<BTreeMap<String, String>>,
    /// Which variables of the environment in which the job is submitted its tasks have, too: none (the default), submit (all but secrets and those of the session), or a list of names. What `env` says comes first.
    #[schemars(with = "Option<EnvFromSchema>", extend("examples" = ["submit", ["PYTHONPATH"]]))]
    pub env_from: Option<EnvFrom>,
    /// Where tasks run: in the job file's folder (submit, the default), in a private temporary folder (scratch), or in a folder of their own ({path: …}).
    #[schemars(with = "Option<WorkDirSchema>", extend("examples" = ["scratch", {"path": "runs/{index:06}"}]))]
    pub workdir: Option<WorkDirPolicy>,
    /// What each task needs.
    pub resources: Option<ResourcesForm>,
    /// After so long a task is stopped and counts as failed: 10s, 1h 30m, 00:10:00.
    #[schemars(rename = "time_limit", with = "Option<DurationSchema>")]
    pub time_limit_ms: Option<u64>,
    /// The parameter of the sweep that says how much more one task takes than another, in any unit.
    #[schemars(extend("examples" = ["atoms"]))]
    pub estimate: Option<String>,
    /// Jobs of higher priority go first among yours; default 0.
    pub priority: Option<i32>,
    /// How often a task whose program fails is run again; default 0.
    #[schemars(with = "Option<RetriesSchema>", extend("examples" = [2, {"count": 2, "delay": "5s"}]))]
    pub retries: Option<Retries>,
    /// Exit codes that count as success; default [0].
    #[schemars(with = "Option<Vec<u8>>", extend("examples" = [[0, 1]]))]
    pub success_codes: Option<Vec<i32>>,
    /// How many losses of its pilot a running task may be blamed for before it is set aside; default 5.
    #[schemars(range(min = 1, max = 1000))]
    pub crash_limit: Option<u32>,
    /// With more failed tasks than this the rest of the job is cancelled; default: no limit.
    pub max_failures: Option<u64>,
    /// Where standard input, output and error lead: archive (the default), discard, or a file each.
    #[schemars(with = "Option<StdioSchema>", extend("examples" = ["discard", {"stdout": "out/{index}.txt", "stdin": "in/{ligand.stem}.txt"}]))]
    pub stdio: Option<Stdio>,
    /// What is kept of the tasks' output.
    pub results: Option<ResultsForm>,
    /// The program is started once a slot, reads one JSON task a line and answers one JSON line; default false.
    pub resident: Option<bool>,
    /// Files that are in a task's private folder before it begins: paths from the job file's folder, file:///… that all nodes see, or https://…; {name} stands for a parameter.
    #[schemars(with = "Option<OneOrMore<InputSchema>>", extend("examples" = [["receptor.pdbqt", {"from": "ligands/{ligand}", "to": "ligand.pdbqt"}]]))]
    pub inputs: Option<Vec<InputForm>>,
    /// Files that a task leaves in its private folder: each comes home to the same name below the job file's folder, or to where `to` says.
    #[schemars(with = "Option<OneOrMore<OutputSchema>>", extend("examples" = [[{"from": "out.pdbqt", "to": "results/{index}.pdbqt"}]]))]
    pub outputs: Option<Vec<OutputForm>>,
}

// A list, or its only item, for the schema. A comment that is part of the documentation would be the field's description.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, reason = "only its schema is used")]
enum OneOrMore<T> {
    More(Vec<T>),
    One(T),
}

/// A file that comes before a task begins.
#[derive(Debug, Default)]
pub(super) struct InputForm {
    pub from: String,
    pub to: Option<String>,
    pub sha256: Option<Digest>,
    pub shared: bool,
    pub writable: bool,
    pub optional: bool,
    /// Of what other tasks leave: by these entries of `after`.
    pub after: Vec<usize>,
    /// `from` is a parameter whose values are lists of files.
    pub lines: bool,
}

/// A file that a task leaves.
#[derive(Debug, Default)]
pub(super) struct OutputForm {
    pub from: String,
    pub to: Option<String>,
    pub optional: bool,
    /// `from` is a parameter whose values are lists of files.
    pub lines: bool,
}

/// What each task needs.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Resources", deny_unknown_fields)]
pub(super) struct ResourcesForm {
    /// Cores; default 1.
    #[schemars(range(min = 1, max = 65536))]
    pub cores: Option<u32>,
    /// Memory: 500MB, 2GiB; default: none asked for.
    #[schemars(rename = "memory", with = "Option<BytesSchema>")]
    pub memory_bytes: Option<u64>,
    /// GPUs; default 0.
    #[schemars(range(max = 1024))]
    pub gpus: Option<u32>,
    /// Amounts of other resources, by the names that platforms give them.
    #[schemars(extend("examples" = [{"licence": 1}]))]
    pub generic: Option<BTreeMap<String, u64>>,
}

/// What is kept of the tasks' output.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Results", deny_unknown_fields)]
pub(super) struct ResultsForm {
    /// Whose archived output is kept; default all.
    pub keep: Option<Keep>,
    /// Bytes kept of each stream of each task: 64KiB; default 1MiB.
    #[schemars(rename = "limit", with = "Option<BytesSchema>")]
    pub limit_bytes: Option<u64>,
    /// Bytes kept of all tasks together: 10GiB; default 1GiB.
    #[schemars(rename = "budget", with = "Option<BytesSchema>")]
    pub budget_bytes: Option<u64>,
    /// How many files the tasks may write together (stdio by template, outputs); default 1000000.
    pub files: Option<u64>,
    /// Columns from standard output: a name and a regular expression each; the first group of the first match is taken.
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("examples" = [{"affinity": "^\\s+1\\s+(-?[0-9.]+)"}]))]
    pub extract: Option<Vec<Extract>>,
}

/// The sweep: its entries in the file's order.
#[derive(Debug, Default)]
pub(super) struct SweepForm {
    pub entries: Vec<SweepEntry>,
    pub sample: Option<SampleForm>,
}

/// One dimension. What could not be read is `None`: its problem is already reported.
#[derive(Debug)]
pub(super) enum SweepEntry {
    /// A parameter of its own.
    Parameter(NamedSource),
    /// Parameters in step.
    Zip(Vec<NamedSource>),
    /// The rows of a table, with the path of its field.
    Csv { path: String, csv: Option<CsvForm> },
}

/// A parameter and where its values come from.
#[derive(Debug)]
pub(super) struct NamedSource {
    pub name: String,
    /// The field it stands in, like `sweep.zip.x`.
    pub path: String,
    pub source: Option<Source>,
}

/// Where a parameter's values come from.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "ParameterSource", rename_all = "lowercase")]
pub(super) enum Source {
    /// The values themselves.
    List(#[schemars(with = "Vec<Text>", length(min = 1))] Vec<String>),
    /// The files that match a pattern, sorted; values are absolute paths.
    #[schemars(extend("examples" = [{"files": "ligands/*.pdbqt"}]))]
    Files(String),
    /// Whole numbers [from, to] or [from, to, step], both ends included.
    #[schemars(extend("examples" = [{"range": [1, 10]}, {"range": [10, 0, -2]}]))]
    Range(#[schemars(length(min = 2, max = 3))] Vec<i64>),
    /// Equally spaced numbers [from, to, how many], both ends included.
    #[schemars(extend("examples" = [{"linspace": [0.0, 1.0, 11]}]))]
    Linspace(#[schemars(with = "Vec<f64>", length(equal = 3))] Points),
    /// The lines of a file; empty ones are skipped.
    #[schemars(extend("examples" = [{"lines": "seeds.txt"}]))]
    Lines(String),
}

/// Equally spaced numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Points {
    pub from: f64,
    pub to: f64,
    pub n: u64,
}

/// The rows of a CSV file, a parameter for each column.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "CsvSource", deny_unknown_fields)]
pub(super) struct CsvForm {
    /// The file; its first line names the columns, unless `header` says otherwise; it may begin with `#`. Commas, semicolons or tabs part them.
    #[schemars(extend("examples" = ["params.csv"]))]
    pub file: String,
    /// The columns to use, as a list or as {PARAMETER: COLUMN}; default: all.
    #[schemars(with = "Option<ColumnsForm>", extend("examples" = [["alpha", "beta"], {"t": "Temp (K)"}]))]
    pub columns: Option<Vec<(String, String)>>,
    /// Whether the first line names the columns (default). If not, they are called 1, 2, 3, …
    pub header: Option<bool>,
    /// The character that parts the columns, `tab`, or `blank` for any blanks and tabs; default: what parts the names in
    /// the first line.
    #[schemars(with = "Option<String>", extend("examples" = [";", "tab", "blank"]))]
    pub delimiter: Option<u8>,
}

/// Columns of a table, for the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum ColumnsForm {
    Same(#[schemars(length(min = 1))] Vec<String>),
    Renamed(std::collections::BTreeMap<String, String>),
}

/// A random sample of the combinations, without repetition.
#[derive(Clone, Copy, Debug, JsonSchema)]
#[schemars(rename = "Sample", deny_unknown_fields)]
pub(super) struct SampleForm {
    /// How many combinations.
    #[schemars(range(min = 1))]
    pub n: u64,
    /// The same seed draws the same sample, everywhere; default 0.
    pub seed: Option<u64>,
}

impl JsonSchema for SweepForm {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let source = json_schema!({
            "description": "A parameter: a list of values, or where they come from.",
            "anyOf": [generator.subschema_for::<Vec<Text>>(), generator.subschema_for::<Source>()],
        });
        let group = json_schema!({ "type": "object", "additionalProperties": source, "minProperties": 1 });
        let table = generator.subschema_for::<CsvForm>();
        let csv = json_schema!({ "anyOf": [{ "type": "string", "minLength": 1 }, table] });
        json_schema!({
            "type": "object",
            "description": "Parameters and their values, in order.",
            "properties": {
                "zip": {
                    "description": "Parameters that advance together, with equally many values each.",
                    "anyOf": [group, { "type": "array", "items": group, "minItems": 1 }],
                    "examples": [{ "x": [1, 2, 3], "y": ["a", "b", "c"] }],
                },
                "csv": {
                    "description": "The rows of a CSV file, a parameter for each column.",
                    "anyOf": [csv, { "type": "array", "items": csv, "minItems": 1 }],
                },
                "sample": generator.subschema_for::<SampleForm>(),
            },
            "additionalProperties": source,
        })
    }
}

/// A text; numbers and truth values stand for themselves as they are written.
pub(super) struct Text;

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text; numbers stand for themselves as they are written.",
            "type": ["string", "number", "boolean"],
        })
    }
}

/// Fields whose written form differs from what is read: only their schemas are used.
macro_rules! schema_only {
    ($($name:ident, $title:literal, $schema:tt;)*) => {$(
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $title.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

schema_only! {
    CommandSchema, "Command", {
        "anyOf": [
            { "type": "array", "items": { "type": ["string", "number", "boolean"] }, "minItems": 1 },
            { "type": "string", "minLength": 1 },
        ],
    };
    EnvFromSchema, "EnvFrom", {
        "anyOf": [
            { "enum": ["none", "submit"] },
            { "type": "array", "items": { "type": "string", "minLength": 1 } },
        ],
    };
    WorkDirSchema, "WorkDir", {
        "anyOf": [
            { "enum": ["submit", "scratch"] },
            {
                "type": "object",
                "properties": { "path": {
                    "type": "string",
                    "description": "A folder, made when absent; relative to the job file's.",
                } },
                "required": ["path"],
                "additionalProperties": false,
            },
        ],
    };
    DurationSchema, "Duration", {
        "description": "A duration with its unit.",
        "type": "string",
        "examples": ["10s", "1h 30m", "500ms", "00:10:00"],
    };
    BytesSchema, "Size", {
        "description": "A size with its unit; KiB, MiB, GiB count in 1024s, kB, MB, GB in 1000s.",
        "type": "string",
        "examples": ["500MB", "2GiB"],
    };
    RetriesSchema, "Retries", {
        "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": 1000 },
            {
                "type": "object",
                "properties": {
                    "count": { "type": "integer", "minimum": 0, "maximum": 1000 },
                    "delay": { "type": "string", "description": "The pause before each, like 5s." },
                },
                "required": ["count"],
                "additionalProperties": false,
            },
        ],
    };
    InputSchema, "Input", {
        "anyOf": [
            { "type": "string", "minLength": 1 },
            {
                "type": "object",
                "properties": {
                    "from": { "type": "string", "description": "A path from the job file's folder, file:///…, https://… or store://NAME/…; in stages also stage:NAME/PATH, of what that stage leaves" },
                    "to": { "type": "string", "description": "Its name below the task's folder; default: the same." },
                    "sha256": { "type": "string", "description": "What a file of the network must hold.", "pattern": "^[0-9a-fA-F]{64}$" },
                    "shared": { "type": "boolean", "description": "All nodes see the path: it is linked, not copied." },
                    "writable": { "type": "boolean", "description": "Each task gets a copy that it may change." },
                    "optional": { "type": "boolean", "description": "Of what a stage leaves: a task may begin without it." },
                },
                "required": ["from"],
                "additionalProperties": false,
            },
        ],
    };
    OutputSchema, "Output", {
        "anyOf": [
            { "type": "string", "minLength": 1 },
            {
                "type": "object",
                "properties": {
                    "from": { "type": "string", "description": "Its name below the task's folder." },
                    "to": { "type": "string", "description": "Below the job file's folder (default: the same name), file:///… or store://NAME/…" },
                    "optional": { "type": "boolean", "description": "A task may succeed without it." },
                },
                "required": ["from"],
                "additionalProperties": false,
            },
        ],
    };
    StdioSchema, "Stdio", {
        "anyOf": [
            { "enum": ["archive", "discard"] },
            {
                "type": "object",
                "properties": {
                    "stdin": { "type": "string", "description": "discard (the default) or a file to read." },
                    "stdout": { "type": "string", "description": "archive (the default), discard, or a file." },
                    "stderr": { "type": "string", "description": "archive (the default), discard, or a file." },
                },
                "additionalProperties": false,
            },
        ],
    };
}
