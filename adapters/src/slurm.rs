//! `slurm`: pilots as batch jobs of SLURM, by its text forms, which lie least: its JSON of 22.05 ignores
//! filters and says that nothing is there when the controller is down.

use std::time::Duration;

use profiles::site::Site;
use scheduler::{resources::Resources, time::Span};

use crate::{
    Adapter, Surroundings,
    command::{
        self, AdapterError, AllocationRequest, BatchId, BatchJob, BatchState, Command, Output, Queue,
        QueueLoad,
    },
    script::script,
};

pub(crate) const NAME: &str = "slurm";

/// Three times SLURM's own `MessageTimeout`: it gives up earlier, and says why.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Options in the environment change what the commands do and print.
const CLEAN: &str = r#"for v in $(env | sed -nE 's/^((SBATCH|SQUEUE|SINFO|SCANCEL|SLURM)_[A-Za-z0-9_]+)=.*/\1/p'); do
[ "$v" = SLURM_CONF ] || unset "$v"
done
export LC_ALL=C
"#;

/// What `squeue` is to print of a job; a name may hold `|`, so it comes last.
const JOB: &str = "%A|%T|%r|%j";

/// What `sinfo` is to print of nodes of a kind in a partition.
const NODES: &str = "%P|%a|%l|%D|%c|%m|%G";

/// Between what two commands of one call print.
const NEXT: &str = "--";

/// Reasons for which a job never starts unless somebody changes something.
const HOPELESS: [&str; 12] = [
    "PartitionDown",
    "PartitionInactive",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "PartitionConfig",
    "DependencyNeverSatisfied",
    "JobHeldAdmin",
    "JobHeldUser",
    "launch failed requeued held",
    "BadConstraints",
    "InvalidAccount",
    "InvalidQOS",
];

/// Words of a submission whose fate is open: the controller may have taken it and not said so.
const OPEN: [&str; 4] = [
    "Socket timed out",
    "Unable to contact slurm controller",
    "Zero Bytes were transmitted",
    "Connection reset",
];

pub(crate) struct Slurm {
    agent_command: Vec<String>,
    site: Site,
}

impl Slurm {
    pub(crate) fn new(surroundings: &Surroundings, site: &Site) -> Slurm {
        Slurm { agent_command: surroundings.agent_command.clone(), site: site.clone() }
    }

    /// Runs `line`, in which `"$@"` are the words.
    fn shell(line: &str, words: Vec<String>, stdin: Vec<u8>) -> Command {
        Command::shell(&format!("{CLEAN}{line}"), words, stdin, TIME_LIMIT)
    }

    /// Words that name the account's partition.
    fn partition(&self) -> Vec<String> {
        self.site.queue.iter().map(|queue| format!("--partition={queue}")).collect()
    }
}

impl Adapter for Slurm {
    fn name(&self) -> &'static str {
        NAME
    }

    fn submit(&self, request: &AllocationRequest) -> Command {
        let AllocationRequest { tag, n_nodes, capacity, walltime, .. } = request;
        let mut words: Vec<String> =
            ["sbatch", "--parsable", "--no-requeue", "--export=NONE", "--ntasks-per-node=1"]
                .map(str::to_owned)
                .into();
        words.extend([
            format!("--job-name={tag}"),
            format!("--nodes={n_nodes}"),
            format!("--cpus-per-task={}", capacity.cores),
            "--output=/dev/null".to_owned(),
        ]);
        words.extend(self.partition());
        words.extend(self.site.account.iter().map(|account| format!("--account={account}")));
        if capacity.memory_bytes > 0 {
            words.push(format!("--mem={}M", capacity.memory_bytes.div_ceil(1 << 20)));
        }
        if capacity.gpus > 0 {
            words.push(format!("--gres=gpu:{}", capacity.gpus));
        }
        words.extend(walltime.map(|span| format!("--time={}", minutes(span))));
        words.extend(self.site.options.iter().cloned());
        // The environment of the submission would reach the tasks by way of the launcher.
        // Since 22.05 it takes the number of cores from no one else; and none is ended because others are.
        let launcher = ["env", "-u", "SLURM_EXPORT_ENV", "srun", "--kill-on-bad-exit=0", "--wait=0"];
        let cores = format!("--cpus-per-task={}", capacity.cores);
        let launcher: Vec<String> = launcher.map(str::to_owned).into_iter().chain([cores]).collect();
        let launcher = if *n_nodes > 1 { &launcher[..] } else { &[] };
        let script = script(&self.site, &self.agent_command, launcher, request);
        Slurm::shell("exec \"$@\"", words, script)
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code != Some(0) {
            let words = last_error(output);
            let is_open = output.code.is_none() || OPEN.iter().any(|open| output.stderr.contains(open));
            return Err(match is_open {
                true => AdapterError::NotUnderstood(words),
                false => AdapterError::Refused(words),
            });
        }
        // `ID` or `ID;CLUSTER`, after whatever a site's plugin prints.
        let id = output.stdout.lines().next_back().and_then(|line| line.split(';').next()).unwrap_or("");
        match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(id.to_owned()),
            false => Err(AdapterError::NotUnderstood(output.words())),
        }
    }

    fn list(&self, _tag_prefix: &str) -> Command {
        let words = ["squeue", "--noheader", "--all", "--array", "--states=all", "--format", JOB];
        let line = "exec \"$@\" --user=\"$(id -un)\"";
        Slurm::shell(line, words.map(str::to_owned).into(), Vec::new())
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(last_error(output)));
        }
        output.stdout.lines().filter(|line| !line.trim().is_empty()).map(read_job).collect()
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        let words = ["scancel".to_owned()].into_iter().chain(ids.iter().cloned()).collect();
        Slurm::shell("exec \"$@\"", words, Vec::new())
    }

    fn why_it_waits(&self, id: &str) -> Option<Command> {
        let words = ["squeue", "--noheader", "--all", "--format=%r", "--jobs", id].map(str::to_owned);
        Some(Slurm::shell("exec \"$@\"", words.into(), Vec::new()))
    }

    fn version(&self) -> Option<Command> {
        Some(Slurm::shell("exec \"$@\"", ["sbatch", "--version"].map(str::to_owned).into(), Vec::new()))
    }

    fn describe(&self) -> Option<Command> {
        let words = ["sinfo", "--noheader", "--all", "--format", NODES].map(str::to_owned).into();
        Some(Slurm::shell("exec \"$@\"", words, Vec::new()))
    }

    fn read_describe(&self, output: &Output) -> Result<Vec<Queue>, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(last_error(output)));
        }
        let mut queues: Vec<Queue> = Vec::new();
        for line in output.stdout.lines().filter(|line| !line.trim().is_empty()) {
            let queue = read_queue(line).ok_or_else(|| AdapterError::NotUnderstood(line.to_owned()))?;
            match queues.iter_mut().find(|known| known.name == queue.name) {
                Some(known) => known.nodes.extend(queue.nodes),
                None => queues.push(queue),
            }
        }
        Ok(queues)
    }

    fn load(&self) -> Option<Command> {
        let line = format!(
            "sinfo --noheader --format=%C \"$@\" && echo {NEXT} && exec squeue --noheader --all --array --states=PENDING --format=%C \"$@\""
        );
        Some(Slurm::shell(&line, self.partition(), Vec::new()))
    }

    fn read_load(&self, output: &Output) -> Result<QueueLoad, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(last_error(output)));
        }
        read_load(&output.stdout).ok_or_else(|| AdapterError::NotUnderstood(output.words()))
    }
}

/// Whole minutes, which is what SLURM counts in; at least one, as 0 would be no limit.
fn minutes(span: Span) -> u64 {
    span.0.div_ceil(60_000_000).max(1)
}

/// The last line of standard error has the cause, without the program's name before it; behind that may be
/// one that recommends the manual.
fn last_error(output: &Output) -> String {
    let has_cause = |line: &&str| !line.trim().is_empty() && !line.starts_with("Try \"");
    let line = output.stderr.lines().rev().find(has_cause);
    let line = line.map(|line| line.trim_start_matches("sbatch: ").trim_start_matches("error: "));
    line.map_or_else(|| output.words(), |line| Output { stderr: line.to_owned(), ..output.clone() }.words())
}

fn read_job(line: &str) -> Result<BatchJob, AdapterError> {
    let mut fields = line.trim().splitn(4, '|');
    let (Some(id), Some(state), Some(reason), Some(tag)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(AdapterError::NotUnderstood(line.to_owned()));
    };
    let state = state_of(state, reason);
    let is_waiting = !matches!(state, BatchState::Running | BatchState::Ended);
    let reason = Some(reason).filter(|reason| is_waiting && !matches!(*reason, "None" | "(null)"));
    let reason = reason.and_then(command::reason);
    Ok(BatchJob { id: id.to_owned(), tag: tag.to_owned(), state, n_tasks: None, reason })
}

fn state_of(state: &str, reason: &str) -> BatchState {
    // Some versions say more, as in `CANCELLED by 1003`.
    match state.split_whitespace().next().unwrap_or("") {
        "PENDING" if is_hopeless(reason) => BatchState::Stuck(reason.to_owned()),
        "PENDING" | "REQUEUED" | "REQUEUE_FED" => BatchState::Queued,
        "REQUEUE_HOLD" | "SPECIAL_EXIT" => BatchState::Stuck(format!("{state} {reason}")),
        "CONFIGURING" | "RUNNING" | "COMPLETING" | "STAGE_OUT" | "SIGNALING" | "STOPPED" | "SUSPENDED"
        | "RESIZING" => BatchState::Running,
        "COMPLETED" | "CANCELLED" | "FAILED" | "BOOT_FAIL" | "NODE_FAIL" | "OUT_OF_MEMORY" | "DEADLINE"
        | "TIMEOUT" | "PREEMPTED" | "REVOKED" => BatchState::Ended,
        _ => BatchState::Unknown(state.to_owned()),
    }
}

fn is_hopeless(reason: &str) -> bool {
    // Of an account or quality of service: limits of one job, which waiting does not change.
    let is_of_the_job = (reason.starts_with("QOSMax") || reason.starts_with("AssocMax"))
        && (reason.contains("PerJob") || reason.contains("PerNode"));
    HOPELESS.contains(&reason) || is_of_the_job
}

/// `debug*|up|2:00|1|4|4000|gpu:fake:2`
fn read_queue(line: &str) -> Option<Queue> {
    let fields: Vec<&str> = line.trim().split('|').collect();
    let [name, state, limit, n_nodes, cores, memory, gres] = fields[..] else { return None };
    let number = |text: &str| text.trim_end_matches('+').parse::<u64>().ok();
    let node = Resources {
        cores: u32::try_from(number(cores)?).ok()?,
        memory_bytes: number(memory)?.checked_mul(1 << 20)?,
        gpus: gpus(gres),
        ..Resources::default()
    };
    Some(Queue {
        name: name.trim_end_matches('*').to_owned(),
        is_default: name.ends_with('*'),
        is_up: state == "up",
        walltime_max: read_limit(limit)?,
        nodes: vec![(u32::try_from(number(n_nodes)?).ok()?, node)],
    })
}

/// GPUs of `gpu:2`, `gpu:a100:2(S:0-1)` and lists of such.
fn gpus(gres: &str) -> u32 {
    let of = |entry: &str| {
        let entry = entry.split('(').next()?;
        let number = entry.strip_prefix("gpu:")?.rsplit(':').next()?;
        number.parse::<u32>().ok()
    };
    gres.split(',').filter_map(of).sum()
}

/// `infinite`, `30:00`, `1:00:00`, `2-00:00:00`.
fn read_limit(text: &str) -> Option<Option<Span>> {
    if matches!(text, "infinite" | "UNLIMITED") {
        return Some(None);
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Option<Vec<u64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let seconds = match parts?[..] {
        [hours, minutes, seconds] => (hours * 60 + minutes) * 60 + seconds,
        [minutes, seconds] => minutes * 60 + seconds,
        [minutes] => minutes * 60,
        _ => return None,
    };
    Some(Some(Span::from_secs(days.parse::<u64>().ok()? * 86_400 + seconds)))
}

/// `allocated/idle/other/total` lines, then the cores of each waiting job.
fn read_load(text: &str) -> Option<QueueLoad> {
    let (nodes, jobs) = text.split_once(&format!("{NEXT}\n"))?;
    let mut load = QueueLoad::default();
    for line in nodes.lines() {
        let counts: Option<Vec<u64>> = line.trim().split('/').map(|count| count.parse().ok()).collect();
        let [allocated, idle, _, _] = counts?[..] else { return None };
        load.free_cores += idle;
        load.cores += allocated + idle;
    }
    for line in jobs.lines().filter(|line| !line.trim().is_empty()) {
        load.n_waiting += 1;
        load.waiting_cores += line.trim().parse::<u64>().ok()?;
    }
    Some(load)
}

#[cfg(test)]
mod tests;
