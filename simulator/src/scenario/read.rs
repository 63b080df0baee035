//! Reads a scenario file: reports all its mistakes together.

use std::path::Path;

use protocol::{
    job::{Fields, Locator, Node, Problem, Reader, in_file, limits::CORES_MAX, parse_yaml},
    policies,
};
use scheduler::{policy::Policies, resources::Resources, time::Span};

use super::{
    Application, Lot, Platform, Scenario,
    distribution::Distribution,
    past::PastJob,
    read_users::{self, Jobs, Known},
    read_values::{N_NODES_MAX, N_TASKS_MAX, TIME_EXPECTED, duration, duration_from, speed, time, which},
};

const FIELDS: [&str; 7] = ["seed", "platforms", "applications", "users", "policies", "faults", "patience"];
const PLATFORM_FIELDS: [&str; 10] = [
    "name",
    "nodes",
    "cores",
    "pilots_min",
    "walltime",
    "queue_wait",
    "idle_timeout",
    "poll_interval",
    "speed",
    "times",
];
const APPLICATION_FIELDS: [&str; 7] =
    ["name", "time", "cores", "time_limit", "retries", "slowed_by", "failures"];
const FAILURE_FIELDS: [&str; 3] = ["program", "node", "pilot"];

pub(super) fn scenario(text: &str, name: &str) -> Result<Scenario, Vec<Problem>> {
    let value = parse_yaml(text).map_err(|problems| in_file(problems, name, &Locator::default()))?;
    let locator = Locator::read(text);
    let mut reader = Reader::new(&locator);
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let scenario = whole(&mut reader, &Node { value: &value, path: String::new() }, folder);
    let problems = reader.into_problems();
    match scenario.filter(|_| problems.is_empty()) {
        Some(scenario) => Ok(scenario),
        None => Err(in_file(problems, name, &locator)),
    }
}

fn whole(reader: &mut Reader<'_>, node: &Node<'_>, folder: &Path) -> Option<Scenario> {
    let mut fields =
        reader.fields(node, &FIELDS, "a scenario consists of platforms, applications and users")?;
    let seed = fields.take("seed").and_then(|node| reader.integer(&node, (0, i128::from(u64::MAX))));
    let policies = fields.take("policies").and_then(|node| policy_words(reader, &node));
    let faults = fields.take("faults").and_then(|node| read_users::faults(reader, &node));
    let patience = fields.take("patience");
    let patience = patience.and_then(|node| duration_from(reader, &node, 60, "write 1m or more"));
    let applications =
        list(reader, &mut fields, node, "applications", "{name: docking, time: 40s}", application);
    let (mut applications, slowed): (Vec<_>, Vec<_>) = applications.unwrap_or_default().into_iter().unzip();
    let names: Vec<String> = applications.iter().map(|one: &Application| one.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (application, node) in applications.iter_mut().zip(&slowed) {
        application.slowed_by = node.as_ref().map(|node| slowed_by(reader, node, &names)).unwrap_or_default();
    }
    let platforms = list(
        reader,
        &mut fields,
        node,
        "platforms",
        "{name: cluster, nodes: 4, cores: 8}",
        |reader, node| platform(reader, node, &names),
    );
    let known = Known { applications: &applications, names: &names, folder };
    let all_users = list(
        reader,
        &mut fields,
        node,
        "users",
        "{name: ada, jobs: [{application: docking, tasks: 100}]}",
        |reader, node| read_users::user(reader, node, known),
    );
    let (platforms, all_users) = (platforms?, all_users?);
    let (users, jobs): (Vec<_>, Vec<_>) = all_users.into_iter().unzip();
    let (lots, past) = sorted(jobs);
    let scenario = Scenario {
        seed: seed.unwrap_or(1),
        lots,
        past: past.into(),
        platforms,
        applications,
        users,
        policies: policies.unwrap_or_default(),
        patience,
        history: None,
        faults: faults.unwrap_or_default(),
    };
    unique(reader, "platforms", scenario.platforms.iter().map(|platform| platform.name.as_str()));
    unique(reader, "applications", scenario.applications.iter().map(|one| one.name.as_str()));
    unique(reader, "users", scenario.users.iter().map(String::as_str));
    fitting(reader, &scenario);
    Some(scenario)
}

/// Sorts the entries of each user's jobs by kind, with the user's position.
fn sorted(jobs: Vec<Vec<Jobs>>) -> (Vec<Lot>, Vec<PastJob>) {
    let (mut lots, mut all_past) = (Vec::new(), Vec::new());
    for (user, jobs) in jobs.into_iter().enumerate() {
        for entry in jobs {
            match entry {
                Jobs::Lot(lot) => lots.push(Lot { user, ..lot }),
                Jobs::Past(past) => all_past.extend(past.into_iter().map(|one| one.of_user(user))),
            }
        }
    }
    (lots, all_past)
}

/// Reads the items of a list that must be present and not empty; leaves out items that could not be read.
fn list<'v, T>(
    reader: &mut Reader<'_>,
    fields: &mut Fields<'v>,
    parent: &Node<'v>,
    name: &str,
    example: &str,
    mut read: impl FnMut(&mut Reader<'_>, &Node<'v>) -> Option<T>,
) -> Option<Vec<T>> {
    let expected = format!("write a list of entries like {example}");
    let node = reader.required(fields, parent, name, &expected)?;
    let items = reader.items(&node, &expected)?;
    if items.is_empty() {
        return reader.refuse(&node, expected);
    }
    Some(items.iter().filter_map(|item| read(reader, item)).collect())
}

fn unique<'a>(reader: &mut Reader<'_>, list: &str, names: impl Iterator<Item = &'a str>) {
    let mut known: Vec<&str> = Vec::new();
    for (n, name) in names.enumerate() {
        if known.contains(&name) {
            let found = format!("`{name}` a second time");
            reader.report::<()>(&format!("{list}[{n}].name"), found, "name them differently");
        }
        known.push(name);
    }
}

/// Reports numbers that would never end, or take all memory.
fn fitting(reader: &mut Reader<'_>, scenario: &Scenario) {
    let widest = scenario.platforms.iter().map(|platform| platform.capacity.cores).max().unwrap_or(0);
    for (n, application) in scenario.applications.iter().enumerate() {
        if application.cores > widest && widest > 0 {
            let found = format!("{} cores, which no node has", application.cores);
            let expected = format!("the largest nodes have {widest}");
            reader.report::<()>(&format!("applications[{n}].cores"), found, expected);
        }
    }
    if scenario.n_tasks() > N_TASKS_MAX {
        let found = format!("{} tasks in all", scenario.n_tasks());
        reader.report::<()>("users", found, format!("write fewer: a scenario has {N_TASKS_MAX} at most"));
    }
}

fn platform(reader: &mut Reader<'_>, node: &Node<'_>, applications: &[&str]) -> Option<Platform> {
    let mut fields =
        reader.fields(node, &PLATFORM_FIELDS, "write a platform like {name: cluster, nodes: 4, cores: 8}")?;
    let name = reader.required(&mut fields, node, "name", "name it")?;
    let name = reader.text(&name);
    let nodes = reader.required(&mut fields, node, "nodes", "say how many nodes it has: nodes: 4");
    let cores = reader.required(&mut fields, node, "cores", "say how many cores each node has: cores: 8");
    let n_nodes: Option<u32> = nodes.and_then(|node| reader.integer(&node, (1, N_NODES_MAX)));
    let cores = cores.and_then(|node| reader.integer(&node, (1, i128::from(CORES_MAX))));
    let most = i128::from(n_nodes.unwrap_or(u32::MAX));
    let last_reports = "write 1m or more: pilots keep 30s of it for their last reports";
    let walltime = fields.take("walltime");
    let walltime = walltime.and_then(|node| duration_from(reader, &node, 60, last_reports));
    let poll_interval = fields.take("poll_interval");
    let poll_interval = poll_interval.and_then(|node| duration_from(reader, &node, 1, "write 1s or more"));
    let idle_timeout = fields.take("idle_timeout").and_then(|node| duration(reader, &node));
    let platform = Platform {
        name: name?,
        n_nodes: n_nodes.unwrap_or(1),
        capacity: Resources::cores(cores.unwrap_or(u32::MAX)),
        pilots_min: fields.take("pilots_min").and_then(|node| reader.integer(&node, (0, most))).unwrap_or(0),
        walltime,
        queue_wait: fields
            .take("queue_wait")
            .and_then(|node| time(reader, &node))
            .unwrap_or(Distribution::Constant(0.0)),
        past_waits: [].into(),
        past_means: Vec::new(),
        idle_timeout: idle_timeout.unwrap_or(Span::from_secs(600)),
        poll_interval: poll_interval.unwrap_or(Span::from_secs(30)),
        speed: fields.take("speed").and_then(|node| speed(reader, &node)).unwrap_or(1.0),
        times: fields.take("times").map(|node| times(reader, &node, applications)).unwrap_or_default(),
    };
    Some(platform)
}

fn times(reader: &mut Reader<'_>, node: &Node<'_>, applications: &[&str]) -> Vec<(usize, Distribution)> {
    let entries = reader.entries(node, "write times of applications like {docking: 40s}").unwrap_or_default();
    let mut times = Vec::new();
    for (name, node) in entries {
        let application = which(reader, &node.path, &name, applications);
        times.extend(application.zip(time(reader, &node)));
    }
    times
}

/// Reads an application, and its field `slowed_by`, which can name applications that follow.
fn application<'v>(reader: &mut Reader<'_>, node: &Node<'v>) -> Option<(Application, Option<Node<'v>>)> {
    let mut fields =
        reader.fields(node, &APPLICATION_FIELDS, "write an application like {name: docking, time: 40s}")?;
    let name = reader.required(&mut fields, node, "name", "name it");
    let time_field = reader.required(&mut fields, node, "time", TIME_EXPECTED);
    let name = name.and_then(|node| reader.text(&node));
    let time = time_field.map(|node| application_time(reader, &node));
    let (cores_max, retries_max) = (i128::from(CORES_MAX), i128::from(protocol::job::limits::RETRIES_MAX));
    let cores = fields.take("cores").and_then(|node| reader.integer(&node, (1, cores_max)));
    let time_limit = fields.take("time_limit").and_then(|node| duration(reader, &node));
    let retries = fields.take("retries").and_then(|node| reader.integer(&node, (0, retries_max)));
    let failures = fields.take("failures");
    let rates = failures.map(|node| failure_rates(reader, &node)).unwrap_or_default();
    let slowed_by = fields.take("slowed_by");
    let application = Application {
        name: name?,
        // The mistake was reported; jobs that name the application are not reported for it.
        time: time.unwrap_or(Some(Distribution::Constant(1.0))),
        cores: cores.unwrap_or(1),
        time_limit,
        retries: retries.unwrap_or(0),
        slowed_by: Vec::new(),
        program_fails: rates[0],
        node_fails: rates[1],
        pilot_dies: rates[2],
    };
    Some((application, slowed_by))
}

fn slowed_by(reader: &mut Reader<'_>, node: &Node<'_>, applications: &[&str]) -> Vec<(usize, f64)> {
    let expected = "write how much longer it takes for each busy core of another, like {blast: 0.05}";
    let mut parts = Vec::new();
    for (name, node) in reader.entries(node, expected).unwrap_or_default() {
        let application = which(reader, &node.path, &name, applications);
        let part = reader.number(&node);
        if part.is_some_and(|part| part < 0.0) {
            reader.refuse::<()>(&node, "write a number that is not negative");
        }
        parts.extend(application.zip(part));
    }
    parts
}

fn failure_rates(reader: &mut Reader<'_>, node: &Node<'_>) -> [f64; 3] {
    let expected = "write how often an attempt fails, like {program: 0.01, node: 0.001, pilot: 0}";
    let Some(mut fields) = reader.fields(node, &FAILURE_FIELDS, expected) else { return [0.0; 3] };
    FAILURE_FIELDS.map(|name| {
        let rate = fields.take(name).and_then(|node| {
            let rate = reader.number(&node)?;
            if (0.0..=1.0).contains(&rate) {
                Some(rate)
            } else {
                reader.refuse(&node, "write a number from 0 to 1")
            }
        });
        rate.unwrap_or(0.0)
    })
}

fn policy_words(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Policies> {
    let entries = reader.entries(node, "write policies like {matching: fifo}")?;
    let mut all = Policies::default();
    for (layer, node) in entries {
        let Some(word) = reader.text(&node) else { continue };
        match policies::with(all, &layer, &word) {
            Ok(with) => all = with,
            Err(refused) => {
                reader.report::<()>(&node.path, refused.found, refused.expected);
            }
        }
    }
    Some(all)
}

/// Reads a distribution, or `None` for `logged`.
fn application_time(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Distribution> {
    if node.value.as_str() == Some("logged") {
        return None;
    }
    // The mistake was reported.
    Some(time(reader, node).unwrap_or(Distribution::Constant(1.0)))
}
