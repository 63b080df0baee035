//! What Grid Engine's listings mean. Each is read as a whole: one that ends early, or is something else,
//! says nothing.

use std::{borrow::Cow, collections::HashMap};

use roxmltree::{Document, Node, ParsingOptions};
use scheduler::{resources::Resources, time::Span};

use crate::{
    command::{self, BatchId, BatchJob, BatchState, Queue, QueueLoad},
    looks_like_ours,
    unread::Unread,
};

/// Between the jobs and the reasons why some of them could not be started.
pub(super) const NEXT: &str = "--";

/// A hundred thousand jobs have about two million.
const NODES_MAX: u32 = 4_000_000;

/// All letters of a state: queued, waiting, held, error, running, transferred, restarted; suspended by the
/// user, its queue or a threshold; being deleted; ended.
const LETTERS: &str = "qwhErtRsSTdz";

/// The jobs of `qstat -xml`, and of some of them what `qstat -xml -j` says.
pub(super) fn jobs(text: &str) -> Option<Vec<BatchJob>> {
    let (text, details) = text.split_once(&format!("\n{NEXT}\n")).unwrap_or((text, ""));
    // A job that has ended meanwhile makes them something else: the listing stands for itself.
    let (failures, waits) = details_of(details).unwrap_or_default();
    let text = without_unreadable_jobs(text)?;
    let document = listing(&text)?;
    let mut jobs: Vec<BatchJob> = Vec::new();
    let mut places: HashMap<BatchId, usize> = HashMap::new();
    for entry in all(document.root_element(), "job_list") {
        let Some(job) = read_job(entry, &failures, &waits) else {
            // One of others; one that may be ours must not be taken for gone.
            let name = entry.children().find(|child| child.has_tag_name("JB_name"))?;
            if name.text().is_some_and(looks_like_ours) {
                return None;
            }
            continue;
        };
        // Tasks of an array have entries of their own, or share one as long as they wait.
        match places.get(&job.id).map(|place| &mut jobs[*place]) {
            Some(known) => {
                known.n_tasks = known.n_tasks.zip(job.n_tasks).map(|(a, b)| a.saturating_add(b));
                if weight(&known.state) < weight(&job.state) {
                    known.state = job.state;
                }
            }
            None => {
                places.insert(job.id.clone(), jobs.len());
                jobs.push(job);
            }
        }
    }
    Some(jobs)
}

/// A listing without the jobs whose XML cannot be parsed, as when a name has bytes that no XML may have. `None`:
/// one of those may be ours. What stands around jobs is left as it is.
fn without_unreadable_jobs(text: &str) -> Option<Cow<'_, str>> {
    const END: &str = "</job_list>";
    if parse(text, "job_info").is_some() {
        return Some(Cow::Borrowed(text));
    }
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, job)) = rest.find("<job_list").and_then(|place| rest.split_at_checked(place)) {
        let (job, after) = job.find(END).and_then(|place| job.split_at_checked(place + END.len()))?;
        kept.push_str(before);
        if parse(job, "job_list").is_some() {
            kept.push_str(job);
        } else {
            let name = job.split_once("<JB_name>")?.1;
            if name.lines().next().is_some_and(|name| looks_like_ours(name.split('<').next().unwrap_or(""))) {
                return None;
            }
        }
        rest = after;
    }
    kept.push_str(rest);
    Some(Cow::Owned(kept))
}

/// Which state of its tasks is that of an array: there is one of these.
fn weight(state: &BatchState) -> u8 {
    match state {
        BatchState::Ended => 0,
        BatchState::Queued => 1,
        BatchState::Suspended => 2,
        BatchState::Running => 3,
        BatchState::Unknown(_) => 4,
        BatchState::Stuck(_) | BatchState::NoRoom(_) => 5,
    }
}

fn read_job(job: Node, failures: &Reasons, waits: &Reasons) -> Option<BatchJob> {
    let number = field(job, "JB_job_number").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))?;
    let state = field(job, "state")?;
    let tag = field(job, "JB_name")?.to_owned();
    let failure = failures.get(number).map(String::as_str);
    let state = state_of(state, failure);
    let is_waiting = !matches!(state, BatchState::Running | BatchState::Suspended | BatchState::Ended);
    let why = failure.or(waits.get(number).map(String::as_str));
    Some(BatchJob {
        id: number.to_owned(),
        tag,
        state,
        reason: why.filter(|_| is_waiting).and_then(command::reason),
        n_tasks: field(job, "tasks").and_then(n_tasks).and_then(|n| u32::try_from(n).ok()),
    })
}

/// Letters that may stand together in any order.
pub(super) fn state_of(letters: &str, reason: Option<&str>) -> BatchState {
    let has = |any: &str| letters.contains(|letter| any.contains(letter));
    if letters.chars().any(|letter| !LETTERS.contains(letter)) {
        BatchState::Unknown(letters.to_owned())
    } else if has("z") {
        BatchState::Ended
    } else if has("d") {
        // It is there until it is gone.
        BatchState::Running
    } else if has("E") {
        let reason = reason.unwrap_or("it could not be started; `qstat -j` says why");
        BatchState::Stuck(format!("{letters}: {reason}"))
    } else if has("sST") {
        BatchState::Suspended
    } else if has("rt") {
        BatchState::Running
    } else if has("h") {
        BatchState::Stuck(format!("{letters}: it is held"))
    } else {
        BatchState::Queued
    }
}

/// Words by the number of the job.
type Reasons = HashMap<String, String>;

/// The queue that a job does not ask for, as these words say.
fn queue_not_asked_for(words: &str) -> Option<&str> {
    words.split_once("because it is not contained in its hard queue list")?.0.split('"').nth(1)
}

/// The queue, or its part on a host, that these words are about.
fn queue_of(words: &str) -> Option<&str> {
    let start = ["queue instance \"", "queue \""].into_iter().find(|start| words.contains(*start))?;
    words.split_once(start)?.1.split('"').next()
}

/// Whether a job that asks for `asked` by `qsub -q` may run in `queue`. Wildcards, and groups of hosts, may be any.
fn asks_for(asked: &str, queue: &str) -> bool {
    let is_any = |asked: &str| asked.is_empty() || asked.contains(|c: char| "*?[!&|(@".contains(c));
    let is_like =
        |asked: &str, name: &str| is_any(asked) || name.is_empty() || asked.eq_ignore_ascii_case(name);
    let (asked, asked_host) = asked.split_once('@').unwrap_or((asked, ""));
    let (queue, host) = queue.split_once('@').unwrap_or((queue, ""));
    let [asked_host, host] = [asked_host, host].map(|host| host.split('.').next().unwrap_or(""));
    is_like(asked, queue) && is_like(asked_host, host)
}

/// Why a job waits. `own`: words about it. `general`: words about the whole cluster; those about no queue count if
/// nothing else is said. `asked`: the queues that it asks for; none: any. What is said of another queue is left out, even
/// if the scheduler does not say that it is another one, as of queues that are disabled.
fn words_of_job<'a>(own: &[&'a str], general: &[&'a str], asked: &[&str]) -> Vec<&'a str> {
    let others: Vec<&str> = own.iter().filter_map(|words| queue_not_asked_for(words)).collect();
    let is_its = |queue: &str| {
        let is_other = |other: &&str| *other == queue || queue.split('@').next() == Some(*other);
        !others.iter().any(is_other) && (asked.is_empty() || asked.iter().any(|asked| asks_for(asked, queue)))
    };
    let own_words = own.iter().copied().filter(|words| queue_of(words).is_none_or(is_its));
    let of_cluster = general.iter().copied().filter(|words| queue_of(words).map_or(own.is_empty(), is_its));
    let mut words: Vec<&str> = own_words.chain(of_cluster).collect();
    // Queues that are only busy come first: a long text is cut off at its end.
    words.sort_by_key(|words| !(words.contains("because it is full") || words.contains("overload")));
    words
}

/// Why jobs could not be started, and what the scheduler says of those that wait. Clusters may keep all of this to
/// themselves.
fn details_of(text: &str) -> Option<(Reasons, Reasons)> {
    let document = parse(text, "detailed_job_info")?;
    let of = |job: Node| {
        let number = field(job, "JB_job_number")?;
        let reason = all(job, "QIM_message").find_map(|node| node.text())?;
        Some((number.to_owned(), reason.trim().to_owned()))
    };
    let jobs = document.root_element().children().find(|node| node.has_tag_name("djob_info"))?;
    let failures: Reasons = jobs.children().filter_map(of).collect();
    let messages = |list: &'static str| {
        let lists = all(document.root_element(), list).flat_map(|list| list.children());
        lists.filter_map(|message| Some((message, field(message, "MES_message")?)))
    };
    let general: Vec<&str> = messages("SME_global_message_list").map(|(_, words)| words).collect();
    let mut said: HashMap<&str, Vec<&str>> = HashMap::new();
    for (message, words) in messages("SME_message_list") {
        for number in all(message, "ULNG_value").filter_map(|number| number.text()) {
            said.entry(number.trim()).or_default().push(words);
        }
    }
    let waits = jobs.children().filter_map(|job| {
        let number = field(job, "JB_job_number")?;
        let own = said.get(number).map_or(&[][..], Vec::as_slice);
        let queues = all(job, "JB_hard_queue_list").flat_map(|list| all(list, "QR_name"));
        let asked: Vec<&str> = queues.filter_map(|name| name.text()).map(str::trim).collect();
        let words = words_of_job(own, &general, &asked);
        // A part ends at each `; `.
        let words: Vec<&str> = words.iter().map(|words| words.trim_end_matches('.')).collect();
        Some((number.to_owned(), words.join("; ")))
    });
    let waits = waits.collect();
    Some((failures, waits))
}

/// The queues of `qstat -f -xml -F mem_total,h_rt,gpu`: an entry there is a queue on a host.
///
/// Of GPUs it tells those that are free. Without a queue's name a job may run in any of them.
pub(super) fn queues(text: &str, gpu_resource: &str, unread: &mut Unread) -> Option<Vec<Queue>> {
    let mut queues: Vec<Queue> = Vec::new();
    let document = listing(text)?;
    for part in all(document.root_element(), "Queue-List") {
        match read_queue(part, gpu_resource) {
            Err(what) => unread.part(field(part, "name").unwrap_or("Queue-List"), what),
            Ok(queue) => match queues.iter_mut().find(|known| known.name == queue.name) {
                Some(known) => add(known, queue),
                None => queues.push(queue),
            },
        }
    }
    Some(queues)
}

/// A queue on a host. Errors: what of it is not understood.
fn read_queue(part: Node, gpu_resource: &str) -> Result<Queue, &'static str> {
    let node = Resources {
        cores: number(part, "slots_total")
            .and_then(|cores| u32::try_from(cores).ok())
            .ok_or("slots_total")?,
        memory_bytes: resource(part, "mem_total").and_then(bytes).unwrap_or(0),
        gpus: resource(part, gpu_resource).and_then(|gpus| gpus.parse().ok()).unwrap_or(0),
        ..Resources::default()
    };
    let mut queue = Queue {
        name: field(part, "name").and_then(|name| name.split('@').next()).ok_or("name")?.to_owned(),
        is_default: true,
        is_up: is_up(part),
        walltime_max: resource(part, "h_rt").map_or(Some(None), limit).ok_or("h_rt")?,
        ..Queue::default()
    };
    // A busy host is in alarm, too, and a calendar closes some at times.
    let is_away = field(part, "state").is_some_and(|state| state.contains(['u', 'd', 'E', 'o', 'c']));
    queue.add(1, node, !is_away);
    Ok(queue)
}

/// The same queue on one more host.
fn add(known: &mut Queue, queue: Queue) {
    known.is_up |= queue.is_up;
    known.walltime_max = known.walltime_max.zip(queue.walltime_max).map(|(a, b)| a.max(b));
    known.take_nodes(queue);
}

/// How busy it is, from `qstat -f -xml -s p`: queues on hosts with their slots, and all jobs that wait; and how many of
/// both are understood.
pub(super) fn load(text: &str, unread: &mut Unread) -> Option<(QueueLoad, usize)> {
    let (mut load, mut n_read) = (QueueLoad::default(), 0);
    let text = without_unreadable_jobs(text)?;
    let document = listing(&text)?;
    for part in all(document.root_element(), "Queue-List") {
        let Some((total, used)) = number(part, "slots_total").zip(number(part, "slots_used")) else {
            unread.part(field(part, "name").unwrap_or("Queue-List"), "slots_total, slots_used");
            continue;
        };
        n_read += 1;
        let taken = used.saturating_add(number(part, "slots_resv").unwrap_or(0));
        if is_up(part) {
            load.cores = load.cores.saturating_add(total);
            load.free_cores = load.free_cores.saturating_add(total.saturating_sub(taken));
        }
    }
    for job in all(document.root_element(), "job_list") {
        let n_tasks = field(job, "tasks").map_or(Some(1), n_tasks);
        let Some((n_tasks, slots)) = n_tasks.zip(number(job, "slots")) else {
            unread.part(field(job, "JB_job_number").unwrap_or("job_list"), "tasks, slots");
            continue;
        };
        n_read += 1;
        load.n_waiting = load.n_waiting.saturating_add(n_tasks);
        load.waiting_cores = load.waiting_cores.saturating_add(slots.saturating_mul(n_tasks));
    }
    Some((load, n_read))
}

/// What `qstat -xml` says of queues and of jobs that wait: both parts are there, and nothing else is in them.
fn listing(text: &str) -> Option<Document<'_>> {
    let document = parse(text, "job_info")?;
    let of = |name: &'static str| {
        let part = document.root_element().children().find(|child| child.has_tag_name(name))?;
        let is_entry = |node: Node| node.has_tag_name("job_list") || node.has_tag_name("Queue-List");
        part.children().filter(Node::is_element).all(is_entry).then_some(())
    };
    of("queue_info").and_then(|()| of("job_info"))?;
    Some(document)
}

/// Words that a site's wrapper prints before or after the document are left out.
fn parse<'t>(text: &'t str, root: &str) -> Option<Document<'t>> {
    let end = format!("</{root}>");
    let text = text.find("<?xml").and_then(|start| text.get(start..)).unwrap_or(text);
    let text = text.rfind(&end).and_then(|start| text.get(..start + end.len())).unwrap_or(text);
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text.trim(), options).ok()?;
    document.root_element().has_tag_name(root).then_some(document)
}

fn all<'d>(node: Node<'d, 'd>, name: &'static str) -> impl Iterator<Item = Node<'d, 'd>> {
    node.descendants().filter(move |node| node.has_tag_name(name))
}

/// What is written in a child; `None`: nothing.
fn field<'d>(node: Node<'d, 'd>, name: &str) -> Option<&'d str> {
    let child = node.children().find(|child| child.has_tag_name(name))?;
    child.text().map(str::trim).filter(|text| !text.is_empty())
}

fn number(node: Node, name: &str) -> Option<u64> {
    field(node, name)?.parse().ok()
}

/// The value of `<resource name="mem_total" type="hl">23.5G</resource>`.
fn resource<'d>(part: Node<'d, 'd>, name: &str) -> Option<&'d str> {
    let is_it = |node: &Node| node.has_tag_name("resource") && node.attribute("name") == Some(name);
    part.children().find(is_it)?.text().map(str::trim)
}

/// Any letter there keeps it from starting jobs: disabled, suspended, in alarm, in error, unknown.
fn is_up(part: Node) -> bool {
    field(part, "state").is_none()
}

/// `23.541G`: capital letters are powers of 1024, small ones of 1000.
fn bytes(text: &str) -> Option<u64> {
    let unit = text.chars().next_back()?;
    let power = "KMGT".find(unit.to_ascii_uppercase()).and_then(|place| i32::try_from(place).ok());
    let base: f64 = if unit.is_ascii_uppercase() { 1024.0 } else { 1000.0 };
    let factor = power.map_or(1.0, |power| base.powi(power + 1));
    let number: f64 = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
    (number >= 0.0).then_some((number * factor) as u64)
}

/// `infinity`, `00:01:00`, `60`.
fn limit(text: &str) -> Option<Option<Span>> {
    if text.eq_ignore_ascii_case("infinity") {
        return Some(None);
    }
    let mut seconds = 0u64;
    for part in text.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    seconds.checked_mul(1_000_000).map(|us| Some(Span(us)))
}

/// How many tasks `3-6:1,9` are.
fn n_tasks(text: &str) -> Option<u64> {
    let mut n = 0u64;
    for part in text.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last, step): (u64, u64, u64) =
            (first.parse().ok()?, last.parse().ok()?, step.parse().ok()?);
        n = n.checked_add(last.checked_sub(first)?.checked_div(step)?.checked_add(1)?)?;
    }
    Some(n)
}
