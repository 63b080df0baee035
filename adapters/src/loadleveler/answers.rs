//! Reads what LoadLeveler's commands print. An answer that ends early, or is something else, says nothing. Of a
//! listing each job is read for itself: one that cannot be read hides no other.

use scheduler::{resources::Resources, time::Span};

use super::file;
use crate::{
    command::{self, BatchJob, BatchState, Queue, QueueLoad},
    looks_like_ours,
    unread::Unread,
};

/// Between what two commands of one call print.
pub(super) const NEXT: &str = "--";

/// Less than this before the hard limit of its class a step's own hard limit would not fit.
const GRACE: Span = Span::from_secs(60);

/// What follows `llq: ` or the like: `None` where the line is no message of a command.
pub(super) fn message(line: &str) -> Option<&str> {
    let (program, message) = line.split_once(": ")?;
    let name = program.strip_prefix("ll")?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then_some(message)
}

/// The one message of `llq` that is an answer.
pub(super) fn is_nothing_to_report(line: &str) -> bool {
    message(line).is_some_and(|message| message.starts_with("There is currently no job status to report"))
}

/// Any other message of a command that lists is that of a failure.
pub(super) fn is_failure(line: &str) -> bool {
    message(line).is_some() && !is_nothing_to_report(line)
}

/// The id in `llsubmit: The job "HOST.NUMBER" has been submitted.`, among whatever a site's filters print: of
/// the step, or of the job where there are several.
pub(super) fn submitted(stdout: &str) -> Option<String> {
    const BEGINNING: &str = "llsubmit: The job \"";
    let told = stdout.lines().find_map(|line| line.get(line.find(BEGINNING)? + BEGINNING.len()..))?;
    let (id, rest) = told.split_once('"')?;
    let steps = rest.strip_suffix(" has been submitted.")?;
    let n_steps: u32 = match steps {
        "" => 1,
        _ => steps.strip_prefix(" with ")?.strip_suffix(" job steps")?.parse().ok()?,
    };
    let (host, number) = id.rsplit_once('.')?;
    let is_id = !host.is_empty() && is_plain(host) && is_number(number);
    is_id.then(|| if n_steps == 1 { format!("{id}.0") } else { id.to_owned() })
}

fn is_plain(host: &str) -> bool {
    !host.starts_with('-') && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `HOST.NUMBER.STEP`
fn is_step(id: &str) -> bool {
    let mut parts = id.rsplitn(3, '.');
    let numbers = [parts.next(), parts.next()];
    let host = parts.next().unwrap_or("");
    numbers.iter().all(|number| number.is_some_and(is_number)) && !host.is_empty() && is_plain(host)
}

/// Whether a listed step is that step, or a step of that job, which was submitted.
pub(super) fn is_same_job(listed: &str, submitted: &str) -> bool {
    let Some((job, step)) = listed.rsplit_once('.').filter(|_| is_step(listed)) else { return false };
    let Some((host, number)) = job.rsplit_once('.') else { return false };
    let is_host = |other: &str| {
        let begins =
            |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
        host == other || begins(host, other) || begins(other, host)
    };
    let is_job = |job: &str| job.rsplit_once('.').is_some_and(|(host, of)| of == number && is_host(host));
    match submitted.rsplit_once('.').filter(|_| is_step(submitted)) {
        Some((job, of)) => step == of && is_job(job),
        None => is_job(submitted),
    }
}

/// A line of the raw form of `llq`.
struct Step<'a> {
    state: &'a str,
    name: Option<&'a str>,
    id: &'a str,
}

/// `STATE!NAME!ID` or `STATE!ID`; a name may have the separator in it.
fn step(line: &str) -> Option<Step<'_>> {
    let (state, rest) = line.split_once('!')?;
    let (name, id) = match rest.rsplit_once('!') {
        Some((name, id)) => (Some(name), id),
        None => (None, rest),
    };
    let is_state = !state.is_empty() && state.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_state && is_step(id)).then_some(Step { state, name, id })
}

/// Steps of the raw form of `llq`, `with_names` or without. A line that cannot be read is left out, like a part of a
/// name with a line end in it. `None`: such a line may be of a job of ours, or was cut off as the last one; a command
/// failed; or there is no step and no word of there being none.
fn steps(text: &str, with_names: bool) -> Option<Vec<Step<'_>>> {
    let (mut steps, mut is_told) = (Vec::new(), false);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        match step(line.trim_end()) {
            Some(step) if !with_names || step.name.is_some() => steps.push(step),
            // The rest of a name, unless its first word is a state: then it is the form without names.
            Some(step) if matches!(state_of(step.state, ""), BatchState::Unknown(_)) => {}
            Some(_) => return None,
            None if is_nothing_to_report(line) => is_told = true,
            None if is_remark(line) => {}
            None if is_last || is_failure(line) || may_be_ours(line) => return None,
            None => {}
        }
    }
    (is_told || !steps.is_empty()).then_some(steps)
}

/// Whether a line that is no step may be of a job of ours.
fn may_be_ours(line: &str) -> bool {
    line.split('!').any(|field| looks_like_ours(&file::tag(field)))
}

/// A summary, or what a site has to say. What was cut is one word.
fn is_remark(line: &str) -> bool {
    !is_failure(line) && line.contains(' ') && !line.contains(is_odd)
}

fn is_odd(letter: char) -> bool {
    letter == '!' || letter == char::REPLACEMENT_CHARACTER || (letter.is_control() && letter != '\t')
}

/// Our steps of `llq -r %st %jn %id`, and of some of them what `llq -s` says.
pub(super) fn jobs(text: &str) -> Option<Vec<BatchJob>> {
    let (text, evaluations) = text.split_once(&format!("\n{NEXT}\n")).unwrap_or((text, ""));
    let job = |step: Step| {
        let evaluation = evaluation(evaluations, step.id);
        let state = state_of(step.state, &evaluation);
        let reason = match step.state {
            // By `llcancel`, or by LoadLeveler at one of its limits.
            "CA" | "RM" => command::reason(&format!("CANCELLED ({})", step.state)),
            _ => command::reason(&evaluation),
        };
        Some(BatchJob { id: step.id.to_owned(), tag: file::tag(step.name?), state, n_tasks: None, reason })
    };
    steps(text, true)?.into_iter().map(job).collect()
}

/// Why a step waits, as `llq -s` tells after its head.
fn evaluation(text: &str, id: &str) -> String {
    let is_head = |line: &&str| line.starts_with('=');
    let of_it = |line: &str| line.split_whitespace().any(|word| word == id);
    let after = text.lines().skip_while(|line| !(is_head(line) && of_it(line))).skip(1);
    let of_it = after.take_while(|line| !is_head(line)).filter(|line| !line.contains("job step(s) in "));
    of_it.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The short words of states. Vacated, rejected and not queued steps are not at their end: they wait again.
pub(super) fn state_of(word: &str, evaluation: &str) -> BatchState {
    let held = |by_whom: &str| match evaluation {
        "" => BatchState::Stuck(format!("{by_whom} Hold")),
        _ => BatchState::Stuck(format!("{by_whom} Hold: {evaluation}")),
    };
    match word {
        "I" | "D" | "NQ" | "P" | "V" | "VP" | "X" | "XP" => BatchState::Queued,
        "H" => held("User"),
        "S" => held("System"),
        "HS" => held("User & System"),
        // Starting, running, writing a checkpoint, preempted or about to be or to go on, ending, being removed:
        // the node is ours, or will be.
        "ST" | "R" | "CK" | "EP" | "CP" | "RP" => BatchState::Running,
        // Preempted, and such a step that is to go on soon.
        "E" | "MP" => BatchState::Suspended,
        "C" | "CA" | "RM" | "NR" | "TX" | "SX" => BatchState::Ended,
        _ => BatchState::Unknown(word.to_owned()),
    }
}

/// A class of `llclass -l`.
struct Class<'a> {
    name: &'a str,
    lines: Vec<(&'a str, &'a str)>,
}

impl Class<'_> {
    fn value(&self, label: &str) -> Option<&str> {
        self.lines.iter().find(|(known, _)| *known == label).map(|(_, value)| *value)
    }

    fn slots(&self, label: &str) -> Option<u64> {
        self.value(label)?.parse().ok()
    }
}

/// Classes, each begun by `=============== Class NAME ===============`. `None`: the command failed.
fn classes<'a>(text: &'a str, unread: &mut Unread) -> Option<Vec<Class<'a>>> {
    let mut classes: Vec<Class> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value = line.split_once(':').filter(|_| !line.contains(is_odd));
        let name = line.trim_matches(|c| c == '=' || c == ' ').strip_prefix("Class ");
        if let Some(name) = name.filter(|_| line.starts_with('=')) {
            classes.push(Class { name: name.trim(), lines: Vec::new() });
        } else if is_failure(line) {
            unread.forget();
            return None;
        } else if let Some(((label, value), class)) = value.zip(classes.last_mut()) {
            class.lines.push((label.trim(), value.trim()));
        } else if classes.is_empty() || !line.starts_with([' ', '\t', '-']) {
            unread.line(line);
        }
    }
    classes.retain(|class| {
        let is_whole = class.value("Name").is_none_or(|name| name == class.name);
        if !is_whole {
            unread.part(class.name, "Name");
        }
        is_whole
    });
    Some(classes)
}

/// Classes of `llclass -l`, then machines of `llstatus -r %n %sta %sts %cpu %m`. Which machine takes which class
/// is not said, so that each class may have all.
pub(super) fn queues(text: &str, unread: &mut [Unread; 2]) -> Option<Vec<Queue>> {
    let (of_classes, machines) = text.split_once(&format!("\n{NEXT}\n"))?;
    let [of_llclass, of_llstatus] = unread;
    let all = kinds(machines, of_llstatus)?;
    let mut queues = Vec::new();
    for class in classes(of_classes, of_llclass)? {
        let limit = class.value("Wall_clock_limit").unwrap_or("");
        let Some(walltime_max) = walltime_max(limit) else {
            of_llclass.part(class.name, &format!("Wall_clock_limit: {limit}"));
            continue;
        };
        queues.push(Queue {
            name: class.name.to_owned(),
            // What an administrator makes the default is in no listing; without, it is that.
            is_default: class.name == "No_Class",
            is_up: class.slots("Maximum_slots") != Some(0),
            walltime_max,
            ..all.clone()
        });
    }
    (!queues.is_empty()).then_some(queues)
}

/// Fields of machines. `None`: there is none.
fn machines<'a>(text: &'a str, n_fields: usize, unread: &mut Unread) -> Option<Vec<Vec<&'a str>>> {
    let mut machines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields: Vec<&str> = line.split('!').map(str::trim).collect();
        match fields.len() == n_fields && !fields.iter().any(|field| field.contains(is_odd)) {
            true => machines.push(fields),
            false => unread.line(line),
        }
    }
    (!machines.is_empty()).then_some(machines)
}

/// A queue of all machines.
fn kinds(text: &str, unread: &mut Unread) -> Option<Queue> {
    let mut all = Queue::default();
    for fields in machines(text, 5, unread)? {
        let [_name, availability, state, cores, memory] = fields[..] else { continue };
        // One that is down tells nothing of itself.
        let (Ok(cores), Some(memory_bytes)) = (cores.parse(), bytes(memory)) else { continue };
        let node = Resources { cores, memory_bytes, ..Resources::default() };
        all.add(1, node, starts_jobs(availability, state));
    }
    Some(all)
}

/// Whether a machine starts steps, or will when it is free.
fn starts_jobs(availability: &str, state: &str) -> bool {
    availability == "Avail" && matches!(state, "Idle" | "Run" | "Running" | "Busy")
}

/// `65536` megabytes, or `7.764 gb`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, "mb"));
    let factor: u64 = match unit.trim() {
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        "tb" => 1 << 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let thousandths: String = format!("{fraction}000").chars().take(3).collect();
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    whole.checked_add(factor / 1000 * thousandths.parse::<u64>().ok()?)
}

/// What pilots of a class may ask for, of `HARD, SOFT (…)`. `None`: of another form.
fn walltime_max(text: &str) -> Option<Option<Span>> {
    let limits = text.split('(').next()?;
    let mut limits = limits.split(',').map(|limit| span(limit.trim()));
    let hard = limits.next()??.map(|hard| Span(hard.0.saturating_sub(GRACE.0)));
    let soft = limits.next().unwrap_or(Some(None))?;
    Some([hard, soft].into_iter().flatten().min())
}

/// `100+00:00:10`, `00:30:00`, or `undefined`: no limit.
fn span(text: &str) -> Option<Option<Span>> {
    if matches!(text, "undefined" | "unlimited" | "-1" | "") {
        return Some(None);
    }
    let (days, clock) = text.split_once('+').unwrap_or(("0", text));
    let mut seconds: u64 = 0;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let seconds = days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(seconds)?;
    Some(Some(Span(seconds.checked_mul(1_000_000)?)))
}

/// Slots of `llclass -l -c CLASS`, one for each task and so for each core, and the steps that wait there.
pub(super) fn load_of_class(text: &str, name: &str, unread: &mut Unread) -> Option<QueueLoad> {
    let (of_classes, of_steps) = text.split_once(&format!("\n{NEXT}\n"))?;
    let classes = classes(of_classes, unread)?;
    let class = classes.iter().find(|class| class.name == name)?;
    let (free_cores, cores) = (class.slots("Free_slots")?, class.slots("Maximum_slots")?);
    with_waiting(QueueLoad { free_cores, cores, ..QueueLoad::default() }, of_steps)
}

/// Cores of `llstatus -r %sta %sts %cpu %r`, less those on which tasks run, and the steps that wait anywhere.
pub(super) fn load_of_all(text: &str, unread: &mut Unread) -> Option<QueueLoad> {
    let (of_machines, of_steps) = text.split_once(&format!("\n{NEXT}\n"))?;
    let (mut load, mut n_odd) = (QueueLoad::default(), 0);
    let machines = machines(of_machines, 4, unread)?;
    for fields in &machines {
        let [availability, state, cores, running] = fields[..] else { continue };
        if !starts_jobs(availability, state) {
            continue;
        }
        let (Ok(cores), Ok(running)) = (cores.parse::<u64>(), running.parse::<u64>()) else {
            unread.line(&fields.join("!"));
            n_odd += 1;
            continue;
        };
        load.cores = load.cores.saturating_add(cores);
        // It can be full by other words than its number of cores.
        if state != "Busy" {
            load.free_cores = load.free_cores.saturating_add(cores.saturating_sub(running));
        }
    }
    if n_odd == machines.len() {
        return None;
    }
    with_waiting(load, of_steps)
}

/// Of a step that waits no listing in columns says how much it waits for: at least one core.
fn with_waiting(load: QueueLoad, of_steps: &str) -> Option<QueueLoad> {
    let steps = steps(of_steps, false)?;
    let n_waiting = steps.iter().filter(|step| matches!(step.state, "I" | "D" | "NQ")).count();
    let n_waiting = u64::try_from(n_waiting).ok()?;
    Some(QueueLoad { n_waiting, waiting_cores: n_waiting, ..load })
}
