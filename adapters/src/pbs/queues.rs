//! Queues, nodes and how busy they are, from `qstat -Qf` and `pbsnodes -a` of both systems.

use scheduler::{resources::Resources, time::Span};

use super::records::{Record, of_listing};
use crate::{
    command::{AdapterError, Queue, QueueLoad},
    unread::Unread,
};

/// Words in the state of a node that starts no job.
const USELESS: [&str; 6] = ["down", "offline", "unknown", "stale", "provisioning", "maintenance"];

/// Queues from what server, queues and nodes say of themselves. Errors: nothing of one of them is understood.
pub(super) fn queues(
    (server, queues, nodes): (&str, &str, &str),
    left_out: &mut Vec<String>,
) -> Result<Vec<Queue>, AdapterError> {
    let server = records("qstat -Bf", server, "Server: ", left_out)?;
    let server = server.first().ok_or_else(|| nothing("qstat -Bf"))?;
    let default = server.attribute("default_queue").unwrap_or("").to_owned();
    let nodes = records(PBSNODES, nodes, "", left_out)?;
    let mut unread = Unread::of(QSTAT_Q);
    let (mut read, records) = (Vec::new(), of_listing(queues, "Queue: ", &mut unread));
    for record in &records {
        match queue(record, &default, &nodes) {
            Ok(queue) => read.push(queue),
            Err(limit) => {
                let part = format!("resources_max.walltime = {limit}");
                unread.part(&format!("Queue: {}", record.name), &part);
            }
        }
    }
    unread.tell(read.len(), left_out)?;
    Ok(read)
}

const QSTAT_Q: &str = "qstat -Qf";
const PBSNODES: &str = "pbsnodes -a";

/// Reads the records that a command printed. Errors: it printed something, and no line of it is understood.
fn records(
    command: &'static str,
    text: &str,
    beginning: &str,
    left_out: &mut Vec<String>,
) -> Result<Vec<Record>, AdapterError> {
    let mut unread = Unread::of(command);
    let records = of_listing(text, beginning, &mut unread);
    unread.tell(records.len(), left_out)?;
    Ok(records)
}

fn nothing(command: &str) -> AdapterError {
    AdapterError::NotUnderstood(format!("{command}: it said nothing"))
}

/// A queue. Errors: its limit, which is not understood.
fn queue<'r>(record: &'r Record, default: &str, nodes: &[Record]) -> Result<Queue, &'r str> {
    let is_true = |name| record.attribute(name) == Some("True");
    let walltime_max = match record.attribute("resources_max.walltime") {
        Some(limit) => Some(span(limit).ok_or(limit)?),
        None => None,
    };
    let mut queue = Queue {
        name: record.name.clone(),
        is_default: record.name == default,
        is_up: is_true("enabled") && is_true("started"),
        walltime_max,
        ..Queue::default()
    };
    // A node belongs to all queues unless it names one.
    let is_theirs = |node: &&Record| node.attribute("queue").is_none_or(|queue| queue == record.name);
    for node in nodes.iter().filter(is_theirs) {
        let has = resources(node);
        // Of one without cores nothing is known.
        if has.cores > 0 {
            queue.add(1, has, is_usable(node));
        }
    }
    Ok(queue)
}

/// Whether a node starts jobs, or will when it is free.
fn is_usable(node: &Record) -> bool {
    let state = node.attribute("state").unwrap_or("unknown");
    !USELESS.iter().any(|useless| state.contains(useless))
}

/// What a node has. OpenPBS tells it as resources, TORQUE as slots and in the words of its `status`.
fn resources(node: &Record) -> Resources {
    let number = |ours: &str, theirs: &str| node.attribute(ours).or(node.attribute(theirs));
    let status = node.attribute("status").unwrap_or("");
    let physical = status.split(',').find_map(|word| word.strip_prefix("physmem="));
    let memory = node.attribute("resources_available.mem").or(physical);
    let gpus = number("resources_available.ngpus", "gpus");
    Resources {
        cores: cores(node),
        memory_bytes: memory.and_then(bytes).unwrap_or(0),
        gpus: gpus.and_then(|gpus| gpus.parse().ok()).unwrap_or(0),
        ..Resources::default()
    }
}

/// A node that was never up has not said how many cores it has; one that is made of several says `<various>`.
fn cores(node: &Record) -> u32 {
    let cores = node.attribute("resources_available.ncpus").or(node.attribute("np"));
    cores.and_then(|cores| cores.parse().ok()).unwrap_or(0)
}

/// How busy the nodes are, with jobs waiting for so many cores each. A server may show our own jobs only, and
/// still counts those of everybody in its queues. Errors: nothing of nodes or queues is understood.
pub(super) fn load(
    (nodes, queues): (&str, &str),
    waiting: &[u64],
    left_out: &mut Vec<String>,
) -> Result<QueueLoad, AdapterError> {
    let mut load = QueueLoad::default();
    for node in records(PBSNODES, nodes, "", left_out)? {
        if !is_usable(&node) {
            continue;
        }
        let cores = u64::from(cores(&node));
        load.cores += cores;
        // Nodes can be full by other words than their number of cores.
        if node.attribute("state") == Some("free") {
            load.free_cores += cores.saturating_sub(cores_in_use(&node).unwrap_or(cores));
        }
    }
    let n_shown = waiting.len() as u64;
    let queues = records(QSTAT_Q, queues, "Queue: ", left_out)?;
    let n_counted = queues.iter().map(n_queued).fold(0, u64::saturating_add);
    load.n_waiting = n_shown.max(n_counted);
    // Each job that is not shown waits for one core at least.
    let cores = waiting.iter().copied().fold(0, u64::saturating_add);
    load.waiting_cores = cores.saturating_add(load.n_waiting - n_shown);
    Ok(load)
}

fn cores_in_use(node: &Record) -> Option<u64> {
    if let Some(assigned) = node.attribute("resources_assigned.ncpus") {
        return assigned.parse().ok();
    }
    // TORQUE: `0-1/113.server, 3/114.server`, slots before each job.
    let slots = |part: &str| {
        let range = part.trim().split('/').next()?;
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    let is_torque = node.attribute("np").is_some();
    let jobs = node.attribute("jobs").filter(|_| is_torque).unwrap_or("");
    jobs.split(',').filter(|part| !part.trim().is_empty()).map(slots).sum()
}

/// How many jobs wait in a queue, of `state_count = Transit:0 Queued:2 Held:0 …`.
fn n_queued(queue: &Record) -> u64 {
    let counts = queue.attribute("state_count").unwrap_or("").split_whitespace();
    counts.filter_map(|count| count.strip_prefix("Queued:")?.parse::<u64>().ok()).sum()
}

/// Cores that a job waits for; at least the one that each gets.
pub(super) fn cores_asked(job: &Record) -> u64 {
    let number = |name| job.attribute(name).and_then(|number| number.parse::<u64>().ok());
    let of_nodes = || job.attribute("Resource_List.nodes").map(cores_of_nodes);
    number("Resource_List.ncpus").or(number("Resource_List.procs")).or_else(of_nodes).unwrap_or(1)
}

/// `2:ppn=4+special:ppn=2` are ten.
fn cores_of_nodes(asked: &str) -> u64 {
    let chunk = |chunk: &str| {
        let n_nodes = chunk.split(':').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
        let ppn = chunk.split(':').find_map(|word| word.strip_prefix("ppn=")?.parse::<u64>().ok());
        n_nodes.saturating_mul(ppn.unwrap_or(1))
    };
    asked.split('+').map(chunk).fold(0, u64::saturating_add)
}

/// `90`, `10:00`, `100:00:00`.
fn span(text: &str) -> Option<Span> {
    let mut seconds: u64 = 0;
    for part in text.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    Some(Span(seconds.checked_mul(1_000_000)?))
}

/// `24684092kb`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match text.get(number.len()..)? {
        "" | "b" => 1,
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        "tb" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
