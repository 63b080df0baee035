//! Everything that is wrong in a `manager.yaml`, field by field: the library that reads it stops at the
//! first mistake.

use std::collections::BTreeSet;

use profiles::{
    application::{self, ApplicationProfile},
    platform::PlatformProfile,
    store::{self, StoreProfile},
};
use protocol::{
    job::{Problem, nearest},
    users::check_name,
};
use scheduler::policy::Policies;
use serde::de::DeserializeOwned;
use serde_yaml::{Mapping, Value};

use super::{Limits, Listen, QuotaForm, TlsMode};

const FIELDS: [&str; 7] = ["listen", "tls", "platforms", "stores", "policies", "limits", "quotas"];
const QUOTAS_FIELDS: [&str; 2] = ["default", "users"];
const QUOTA_FIELDS: [&str; 10] = [
    "jobs",
    "tasks",
    "values",
    "output",
    "files",
    "streams",
    "requests",
    "connections",
    "transfers",
    "priority",
];
const LISTEN_FIELDS: [&str; 3] = ["host", "port", "name"];
const POLICY_FIELDS: [&str; 9] = [
    "allocation",
    "affinity",
    "distribution",
    "placement",
    "matching",
    "bundling",
    "mapping",
    "stealing",
    "scaling",
];
const PLATFORM_FIELDS: [&str; 38] = [
    "name",
    "adapter",
    "cores",
    "memory",
    "gpus",
    "generic",
    "nodes",
    "pilots_max",
    "pilots_min",
    "idle_timeout",
    "walltime",
    "queued_max",
    "submissions_per_minute",
    "core_hours",
    "user_core_hours",
    "poll_interval",
    "queue",
    "partition",
    "class",
    "account",
    "options",
    "setup",
    "agent",
    "folder",
    "run_as",
    "allow_shared_account",
    "ssh",
    "hosts",
    "ssh_config",
    "transport",
    "reach",
    "parallel_environment",
    "memory_resource",
    "gpu_resource",
    "openstack",
    "scaling",
    "price",
    "budget",
];
const LIMIT_FIELDS: [&str; 19] = [
    "heartbeat_limit",
    "poll_wait_max",
    "grace",
    "prefetch",
    "prefetch_tasks_max",
    "node_retries",
    "transfer_retries",
    "start_retries",
    "walltime_retries",
    "submit_limit",
    "join_limit",
    "leave_limit",
    "node_retry_delay",
    "retry_delay_max",
    "black_hole_limit",
    "retry_elsewhere",
    "platform_delay",
    "platform_delay_max",
    "walltime_margin",
];

/// All mistakes of a file, in no order.
pub(super) fn all(tree: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let fields = known_fields("", tree, &FIELDS, &mut problems);
    for (name, value) in fields.known {
        match name {
            "listen" => section::<Listen>(name, value, (&LISTEN_FIELDS, &[]), &mut problems),
            "limits" => section::<Limits>(name, value, (&LIMIT_FIELDS, &[]), &mut problems),
            "policies" => policies(value, &mut problems),
            "platforms" => platforms(value, &mut problems),
            "stores" => stores(value, &mut problems),
            "quotas" => quotas(value, &mut problems),
            _ => problems.extend(refusal::<TlsMode>(name, value.clone())),
        }
    }
    problems
}

/// All mistakes of an application's profile, in no order.
pub(super) fn of_application(tree: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let others = [("application", Value::from("a"))];
    section::<ApplicationProfile>("", tree, (&application::FIELDS, &others), &mut problems);
    problems
}

fn policies(value: &Value, problems: &mut Vec<Problem>) {
    for (layer, value) in known_fields("policies", value, &POLICY_FIELDS, problems).known {
        let path = join("policies", layer);
        match value.as_str() {
            Some(word) => {
                let refused = protocol::policies::with(Policies::default(), layer, word).err();
                problems.extend(refused.map(|refused| Problem::new(path, refused.found, refused.expected)));
            }
            None => problems.extend(refusal::<String>(&path, value.clone())),
        }
    }
}

fn platforms(value: &Value, problems: &mut Vec<Problem>) {
    let Value::Sequence(platforms) = value else {
        problems.extend(refusal::<Vec<PlatformProfile>>("platforms", value.clone()));
        return;
    };
    let mut names = BTreeSet::new();
    for (place, platform) in platforms.iter().enumerate() {
        let path = format!("platforms[{place}]");
        let text = |field: &str| platform.get(field).and_then(Value::as_str);
        // What another adapter may have is a mistake of a platform of this host.
        let adapter = text("adapter").unwrap_or("local");
        let name = text("name").unwrap_or("a");
        let mut others = vec![("name", name.into()), ("adapter", adapter.into()), ("cores", 1.into())];
        if adapter == adapters::openstack::NAME {
            let image = Mapping::from_iter([("image".into(), "a".into())]);
            others.push(("openstack", image.into()));
        } else if adapter != adapters::LOCAL_NAME {
            others.push(("ssh", "a".into()));
        } else if platform.get("run_as").is_some() {
            // Pilots of another account have a folder and an agent of their own.
            others.push(("run_as", "a".into()));
        }
        let unknown = text("adapter").filter(|adapter| adapters::all_names().all(|name| name != *adapter));
        let mut checked = platform.clone();
        if let (Some(_), Value::Mapping(fields)) = (unknown, &mut checked) {
            // What it would need is not known.
            fields.entry("cores".into()).or_insert(1.into());
        }
        section::<PlatformProfile>(&path, &checked, (&PLATFORM_FIELDS, &others), problems);
        if let Some(adapter) = unknown {
            let known = adapters::all_names().collect::<Vec<_>>().join(", ");
            let known = format!("the adapters are {known}");
            problems.push(Problem::new(format!("{path}.adapter"), format!("`{adapter}`"), known));
        }
        if let Some(name) = text("name").filter(|name| !names.insert(*name)) {
            let found = format!("a second platform of the name `{name}`");
            problems.push(Problem::new(format!("{path}.name"), found, "name them differently"));
        }
    }
}

fn quotas(value: &Value, problems: &mut Vec<Problem>) {
    for (name, value) in known_fields("quotas", value, &QUOTAS_FIELDS, problems).known {
        let path = join("quotas", name);
        let Value::Mapping(users) = value else {
            problems.extend(refusal::<Mapping>(&path, value.clone()));
            continue;
        };
        if name == "default" {
            section::<QuotaForm>(&path, value, (&QUOTA_FIELDS, &[]), problems);
            continue;
        }
        for (user, quota) in users {
            let user = user.as_str().unwrap_or_default();
            let path = join(&path, user);
            if let Err(what) = check_name(user) {
                let (found, expected) = what.split_once("; ").unwrap_or((&what, "correct it"));
                let found = found.strip_prefix("found ").unwrap_or(found);
                problems.push(Problem::new(path.as_str(), found, expected));
            }
            section::<QuotaForm>(&path, quota, (&QUOTA_FIELDS, &[]), problems);
        }
    }
}

fn stores(value: &Value, problems: &mut Vec<Problem>) {
    let Value::Sequence(stores) = value else {
        problems.extend(refusal::<Vec<StoreProfile>>("stores", value.clone()));
        return;
    };
    let mut names = BTreeSet::new();
    for (place, store) in stores.iter().enumerate() {
        let path = format!("stores[{place}]");
        let text = |field: &str| store.get(field).and_then(Value::as_str);
        let kind = text("kind").unwrap_or("sftp");
        let needed: &[&str] = match kind {
            "s3" => &["bucket", "access_key", "secret_file"],
            "swift" => &["endpoint", "container", "secret_file"],
            "http" => &["endpoint", "secret_file"],
            "sftp" => &["ssh"],
            // What it would need is not known.
            other => {
                let expected = "write one of `s3`, `swift`, `http`, `sftp`";
                problems.push(Problem::new(format!("{path}.kind"), format!("`{other}`"), expected));
                continue;
            }
        };
        let mut others = vec![("name", text("name").unwrap_or("a").into()), ("kind", kind.into())];
        let filler = |field: &str| if field == "ssh" { "a" } else { "http://a" };
        others.extend(needed.iter().map(|field| (*field, filler(field).into())));
        section::<StoreProfile>(&path, store, (&store::FIELDS, &others), problems);
        if let Some(name) = text("name").filter(|name| !names.insert(*name)) {
            let found = format!("a second store of the name `{name}`");
            problems.push(Problem::new(format!("{path}.name"), found, "name them differently"));
        }
    }
}

/// The fields of a mapping.
struct Fields<'v> {
    known: Vec<(&'v str, &'v Value)>,
    /// The known names that unknown fields were taken for.
    meant: Vec<&'static str>,
}

/// The fields whose names are known; the others are problems.
fn known_fields<'v>(
    path: &str,
    value: &'v Value,
    names: &[&'static str],
    problems: &mut Vec<Problem>,
) -> Fields<'v> {
    let mut fields = Fields { known: Vec::new(), meant: Vec::new() };
    if !value.is_mapping() {
        problems.extend(refusal::<Mapping>(path, value.clone()));
    }
    for (key, value) in value.as_mapping().into_iter().flatten() {
        let key = key.as_str().unwrap_or("?");
        if names.contains(&key) {
            fields.known.push((key, value));
            continue;
        }
        let expected = match nearest(key, names.iter().copied()) {
            Some(near) => {
                fields.meant.extend(names.iter().find(|name| **name == near));
                format!("did you mean `{near}`?")
            }
            None => format!("the fields here are {}", names.join(", ")),
        };
        problems.push(Problem::new(join(path, key), "an unknown field", expected));
    }
    fields
}

/// Reads a part of the file as `T`: each field by itself among `others`, which are right, then all
/// together. `(names, others)`: the fields it may have, and those that it must.
fn section<T: DeserializeOwned>(
    path: &str,
    value: &Value,
    (names, others): (&[&'static str], &[(&str, Value)]),
    problems: &mut Vec<Problem>,
) {
    if !value.is_mapping() {
        problems.extend(refusal::<T>(path, value.clone()));
        return;
    }
    let fields = known_fields(path, value, names, problems);
    let mut whole = Mapping::new();
    let mut wrong = Vec::new();
    for (name, value) in &fields.known {
        let mut alone: Mapping = others.iter().map(|(k, v)| ((*k).into(), v.clone())).collect();
        alone.insert((*name).into(), (*value).clone());
        let refused = refusal::<T>(&join(path, name), alone.into());
        // What names the field itself is said of the whole, which knows its other fields.
        match refused
            .filter(|problem| !problem.found.starts_with(*name) && !problem.found.starts_with("name "))
        {
            Some(problem) => {
                problems.push(problem);
                wrong.push((*name).to_owned());
            }
            None => _ = whole.insert((*name).into(), (*value).clone()),
        }
    }
    wrong.extend(fields.meant.iter().map(|name| (*name).to_owned()));
    for field in &wrong {
        replace(&mut whole, field, others);
    }
    // The library stops at the first field: without it, it goes on to the next one.
    for _ in 0..=names.len() {
        let Some(problem) = refusal::<T>(path, whole.clone().into()) else { break };
        let field = field_of(&problem, path);
        let is_there = field.as_ref().is_some_and(|field| whole.contains_key(field.as_str()));
        // What only follows from a mistake that is told is none.
        let follows = wrong.iter().any(|field| says(&problem.found, field) || says(&problem.expected, field));
        let path = match &field {
            Some(field) if is_there && problem.path == path => join(path, field),
            _ => problem.path.clone(),
        };
        if !follows {
            problems.push(Problem { path, ..problem });
        }
        let Some(field) = field.filter(|field| !wrong.contains(field)) else { break };
        replace(&mut whole, &field, others);
        wrong.push(field);
    }
}

/// What is no part of a field's name.
fn is_between(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a sentence names a field.
fn says(sentence: &str, field: &str) -> bool {
    sentence.split(is_between).any(|word| word == field)
}

/// The field that a problem of a section is about: its path ends with it, or its words begin so.
fn field_of(problem: &Problem, section: &str) -> Option<String> {
    if let Some(below) = problem.path.strip_prefix(section).filter(|below| !below.is_empty()) {
        return below.trim_start_matches('.').split(is_between).next().map(str::to_owned);
    }
    let words = problem.found.strip_prefix("no ").unwrap_or(&problem.found);
    let word = words.trim_start_matches('`').split(is_between).next()?;
    (!word.is_empty()).then(|| word.to_owned())
}

/// Has a section have the value for a field that is right, or none.
fn replace(section: &mut Mapping, field: &str, others: &[(&str, Value)]) {
    match others.iter().find(|(name, _)| *name == field) {
        Some((_, value)) => _ = section.insert(field.into(), value.clone()),
        None => _ = section.remove(field),
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// Why a value is no `T`.
fn refusal<T: DeserializeOwned>(path: &str, value: Value) -> Option<Problem> {
    serde_yaml::from_value::<T>(value).err().map(|error| problem(path, &error))
}

/// The library's sentence in ours.
pub(super) fn problem(path: &str, error: &serde_yaml::Error) -> Problem {
    let text = error.to_string();
    // A field within this one stands before the sentence.
    let is_field = |field: &str| !field.contains(' ') && !field.is_empty();
    let (field, sentence) = text.split_once(": ").filter(|(f, _)| is_field(f)).unwrap_or(("", &text));
    let path = if field.is_empty() { path.to_owned() } else { join(path, field) };
    let sentence = sentence_of(sentence);
    let sentence = sentence.strip_prefix("found ").unwrap_or(&sentence);
    let (found, expected) = sentence.split_once("; ").unwrap_or((sentence, "correct it"));
    Problem::new(path, found, expected)
}

fn sentence_of(sentence: &str) -> String {
    let found = ["invalid type: ", "invalid value: "].iter().find_map(|start| sentence.strip_prefix(start));
    if let Some((found, expected)) = found.unwrap_or(sentence).split_once(", expected ") {
        let expected = match expected {
            "u16" => "a whole number up to 65535",
            "u32" | "u64" => "a whole number, not negative",
            "a sequence" => "a list",
            "a YAML mapping" => "a mapping",
            "a YAML tag starting with '!'" | "a Value::Tagged enum" => "one of its words",
            form if form.starts_with("struct ") => "a mapping",
            other => other,
        };
        return format!("found {}; write {expected}", kind_of(found));
    }
    if let Some(field) = sentence.strip_prefix("missing field ") {
        return format!("found no {field}; it is needed");
    }
    if let Some(field) = sentence.strip_prefix("duplicate field ") {
        return format!("found {field} twice; write it once");
    }
    match sentence.starts_with("found ") {
        true => sentence.to_owned(),
        false => format!("found no valid YAML; {sentence}"),
    }
}

/// What the library calls a value, in the words of who wrote it.
fn kind_of(found: &str) -> String {
    let kinds = [("sequence", "a list"), ("map", "a mapping"), ("unit value", "nothing"), ("enum", "a tag")];
    if let Some((_, words)) = kinds.iter().find(|(kind, _)| *kind == found) {
        return (*words).to_owned();
    }
    for kind in ["integer ", "floating point ", "boolean ", "unknown variant "] {
        if let Some(value) = found.strip_prefix(kind) {
            return value.to_owned();
        }
    }
    match (found.strip_prefix("string "), found.strip_prefix("unknown field ")) {
        (Some(text), _) => format!("the text {text}"),
        (_, Some(field)) => format!("the unknown field {field}"),
        (None, None) => found.to_owned(),
    }
}
