//! `slurm`: pilots as batch jobs of SLURM, by its text forms, which lie least: its JSON of 22.05 ignores
//! filters and says that nothing is there when the controller is down.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use profiles::site::{self, Site};
use scheduler::{resources::Resources, time::Span};

use crate::{
    AGE_OF_SUBMITTED, Adapter, Surroundings,
    command::{
        self, AdapterError, AllocationRequest, BatchId, BatchJob, BatchState, Command, Output, Queue,
        QueueLoad, joined,
    },
    lines::{USER, WRONG},
    looks_like_ours,
    script::{quoted, script_after},
    unread::Unread,
};

pub(crate) const NAME: &str = "slurm";

/// Three times SLURM's own `MessageTimeout`: it gives up earlier, and says why.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Options in the environment change what the commands do and print. The cluster that it names is kept, and each
/// command is told the same one: a command that is told none asks the local cluster, where our ids may be those
/// of other jobs.
const CLEAN: &str = r#"cluster=${cluster:-$SLURM_CLUSTERS}
for v in $(env | sed -nE 's/^((SBATCH|SQUEUE|SINFO|SCANCEL|SLURM)_[A-Za-z0-9_]+)=.*/\1/p'); do
[ "$v" = SLURM_CONF ] || unset "$v"
done
export LC_ALL=C
case $cluster in
*,*|all) echo "SLURM_CLUSTERS names several clusters: $cluster; name one by options: [--clusters=NAME]" >&2; exit 2 ;;
esac
lower() { printf '%s' "$1" | tr '[:upper:]' '[:lower:]'; }
on() { if [ -n "$cluster" ]; then command=$1; shift; "$command" --clusters="$cluster" "$@"; else "$@"; fi; }
"#;

/// Submits, and says on which cluster the job is. A site may send it to another one than we ask, where no listing
/// of ours would show it: such a job is cancelled at once.
const SUBMIT: &str = r#"answer=$(on "$@") || exit
last=$(printf '%s\n' "$answer" | tail -n 1)
id=${last%%;*} there=
case $last in *';'*) there=${last#*;} ;; esac
if [ -n "$there" ] && [ "$(lower "$there")" != "$(lower "$cluster")" ]; then
code=0
take_away scancel --clusters="$there" "$id"
case $code in
0) echo "the job went to the cluster $there and was cancelled there; say options: [--clusters=$there]" >&2 ;;
*) echo "the job went to the cluster $there as job $id and could not be cancelled there: cancel it by hand; then say options: [--clusters=$there]" >&2 ;;
esac
exit 1
fi
printf '%s\n' "$id${cluster:+;$cluster}"
"#;

/// Runs a command that takes jobs away; `$code` says whether one may be there still. Some releases end with 0 all the
/// same. A job that is gone is no failure.
const TAKE_AWAY: &str = r#"gone='Invalid job id specified|already completing or completed'
take_away() {
said=$("$@" 2>&1 >/dev/null)
ended=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
case $ended in
0) [ -z "$(wrong "$said")" ] || code=1 ;;
*) [ -n "$said" ] && [ -z "$(printf '%s\n' "$said" | grep -vE "^ *$|$gone")" ] || code=$ended ;;
esac
}
"#;

/// Tells the pilot when its job ends, which may be sooner than the walltime that was asked for: by a partition's default,
/// an option or a rule of the site. Newer SLURM has told already. Where nobody tells, the walltime counts.
pub(crate) const FIND_END: &str = r#"[ -n "${SLURM_JOB_END_TIME-}" ] || { end=$(SLURM_TIME_FORMAT=standard timeout 20 squeue -h -j "$SLURM_JOB_ID" -o %e) && [ -n "$end" ] && end=$(date -d "$end" +%s) && [ "$end" -gt "$(date +%s)" ] && export SLURM_JOB_END_TIME="$end"; } 2>/dev/null || :"#;

/// Lists our user's jobs on a cluster, and before them its name, which is empty for the local one; once each, however
/// the name is written.
const LIST: &str = r#"list() {
name=$(lower "${cluster:-.}")
case " $listed " in *" $name "*) return 0 ;; esac
listed="$listed $name"
echo "CLUSTER: $cluster"
on "$@" --user="$user" || exit
}
# It takes numbers of users, too.
user=$(id -un 2>/dev/null) && [ -n "$user" ] || user=$(id -u)
list "$@"
"#;

/// What `squeue` is to print of a job; a name may hold `|`, so it comes last.
const JOB: &str = "%A|%T|%r|%j";

/// What `sinfo` is to print of nodes of a kind in a partition.
const NODES: &str = "%P|%a|%l|%t|%D|%c|%m|%G";

/// So many fields these are.
const N_FIELDS: usize = 8;

/// The place of `%t` among them.
const STATE_OF_NODES: usize = 3;

/// States of nodes that start no job until somebody mends them.
const USELESS: [&str; 11] =
    ["down", "drain", "drained", "drng", "fail", "failg", "error", "unk", "inval", "futr", "maint"];

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

/// The last line of Slurm's refusals because of any limit of an account or quality of service.
const A_LIMIT: &str = "Job violates accounting/QOS policy";

/// Words of a refusal because of all the jobs that the controller has.
const FULL: [&str; 2] = ["temporarily unable to accept job", "Resource temporarily unavailable"];

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
    /// The cluster that the options name; `None`: the one that the environment names, or the local one.
    cluster: Option<String>,
}

impl Slurm {
    pub(crate) fn new(surroundings: &Surroundings, site: &Site) -> Slurm {
        let mut site = site.clone();
        let cluster = site.options.iter().find_map(|option| site::slurm_cluster(option).map(str::to_owned));
        site.options.retain(|option| site::slurm_cluster(option).is_none());
        Slurm { agent_command: surroundings.agent_command.clone(), site, cluster }
    }

    /// Runs `lines`, in which `"$@"` are the words and `on` runs a command on the cluster. `name`: what people are told
    /// that it is.
    fn shell(&self, name: &str, lines: &str, words: Vec<String>, stdin: Vec<u8>) -> Command {
        let cluster = quoted(self.cluster.as_deref().unwrap_or(""));
        Command::shell(name, &format!("cluster={cluster}\n{CLEAN}{lines}"), words, stdin, TIME_LIMIT)
    }

    /// Whether the site's options say one of these themselves; Slurm takes options that are shortened.
    fn says(&self, long: &[&str]) -> bool {
        let is_one = |option: &String| {
            let word = option.split('=').next().unwrap_or(option);
            word.len() > 4 && long.iter().any(|long| long.starts_with(word))
        };
        self.site.options.iter().any(is_one)
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
        if capacity.memory_bytes > 0 && !self.says(&["--mem", "--mem-per-cpu", "--mem-per-gpu"]) {
            words.push(format!("--mem={}M", capacity.memory_bytes.div_ceil(1 << 20)));
        }
        if capacity.gpus > 0 && !self.says(&["--gres", "--gpus", "--gpus-per-node", "--gpus-per-task"]) {
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
        let before = [FIND_END.to_owned()];
        let script = script_after(&self.site, &self.agent_command, launcher, &before, request);
        self.shell("sbatch (submitting a job)", &format!("{WRONG}{TAKE_AWAY}{SUBMIT}"), words, script)
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code != Some(0) {
            let words = errors(output);
            let is_open = output.code.is_none() || OPEN.iter().any(|open| output.stderr.contains(open));
            return Err(match is_open {
                true => AdapterError::NotUnderstood(words),
                false if is_no_room(&words) => AdapterError::NoRoom(words),
                false => AdapterError::Refused(words),
            });
        }
        // `ID` or `ID;CLUSTER`, after whatever a site's plugin prints.
        let id = output.stdout.lines().next_back().unwrap_or("");
        let (number, cluster) = on_cluster(id);
        match is_number(number) && cluster.is_none_or(|cluster| !cluster.is_empty()) {
            true => Ok(id.to_owned()),
            false => Err(AdapterError::NotUnderstood(output.words())),
        }
    }

    fn list(&self, tag_prefix: &str) -> Command {
        self.list_with(tag_prefix, &[])
    }

    /// A job stays on the cluster that its id names, wherever the environment or the options send commands now.
    fn list_with(&self, _tag_prefix: &str, known: &[BatchId]) -> Command {
        let words = ["squeue", "--noheader", "--all", "--array", "--states=all", "--format", JOB];
        let clusters: BTreeSet<&str> = known.iter().map(|id| on_cluster(id).1.unwrap_or_default()).collect();
        let one = |cluster: &&str| format!("cluster={}\nlist \"$@\"\n", quoted(cluster));
        let lines: String = clusters.iter().map(one).collect();
        let words = words.map(str::to_owned).into();
        self.shell("squeue (listing jobs)", &format!("{LIST}{lines}"), words, Vec::new())
    }

    /// Names of clusters are the same in small and capital letters, and a listing may show other ones than we say.
    fn is_same_job(&self, listed: &str, submitted: &str) -> bool {
        listed.eq_ignore_ascii_case(submitted)
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(errors_of("squeue", output)));
        }
        let jobs = read_jobs(&output.stdout)?;
        // One of several clusters may not have answered.
        match crate::silence::failure_of(output).filter(|_| lacks_jobs_of_a_cluster(&output.stdout)) {
            Some(failure) => Err(failure),
            None => Ok(jobs),
        }
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        let mut by_cluster: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for (number, cluster) in ids.iter().map(|id| on_cluster(id)) {
            by_cluster.entry(cluster).or_default().push(number);
        }
        let line = |(cluster, numbers): (&Option<&str>, &Vec<&str>)| {
            let numbers = numbers.iter().map(|number| quoted(number)).collect::<Vec<_>>().join(" ");
            format!("take_away {} {numbers}\n", with_cluster("scancel", *cluster))
        };
        let lines: String = by_cluster.iter().map(line).collect();
        let lines = format!("{WRONG}{TAKE_AWAY}code=0\n{lines}exit $code");
        self.shell("scancel (cancelling jobs)", &lines, Vec::new(), Vec::new())
    }

    fn why_it_waits(&self, id: &str) -> Option<Command> {
        let (number, cluster) = on_cluster(id);
        let line = format!("{} \"$@\"", with_cluster("squeue", cluster));
        let words = ["--noheader", "--all", "--format=%r", "--jobs", number].map(str::to_owned);
        Some(self.shell("squeue (asking why a job waits)", &line, words.into(), Vec::new()))
    }

    fn age(&self, id: &str) -> Option<Command> {
        let (number, cluster) = on_cluster(id);
        let squeue = with_cluster("squeue", cluster);
        let line = format!(
            "submitted=$({squeue} --noheader --all --format=%V --jobs=\"$1\" | grep -m 1 '^[0-9]') && {AGE_OF_SUBMITTED}"
        );
        Some(self.shell("squeue (asking for the age of a job)", &line, vec![number.to_owned()], Vec::new()))
    }

    fn version(&self) -> Option<Command> {
        // After whatever a site's wrapper prints.
        let line =
            r#"said=$("$@") || exit; printf '%s\n' "$said" | grep -i -m 1 '^slurm' || printf '%s\n' "$said""#;
        let words = ["sbatch", "--version"].map(str::to_owned).into();
        Some(self.shell("sbatch --version", line, words, Vec::new()))
    }

    fn describe(&self) -> Option<Command> {
        let words = ["sinfo", "--noheader", "--all", "--format", NODES].map(str::to_owned).into();
        Some(self.shell("sinfo (asking for partitions and nodes)", "on \"$@\"", words, Vec::new()))
    }

    fn read_describe_with(
        &self,
        output: &Output,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Queue>, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(errors_of("sinfo", output)));
        }
        let (mut queues, mut unread) = (Vec::<Queue>::new(), Unread::of("sinfo"));
        for line in output.stdout.lines().filter(|line| !line.trim().is_empty() && !is_head(line)) {
            match read_queue(line) {
                Err(NoQueue::OtherLine) => unread.line(line),
                Err(NoQueue::Part(part)) => unread.part(line, &part),
                Ok(queue) => match queues.iter_mut().find(|known| known.name == queue.name) {
                    Some(known) => known.take_nodes(queue),
                    None => queues.push(queue),
                },
            }
        }
        unread.tell(queues.len(), left_out)?;
        Ok(queues)
    }

    fn accounts(&self) -> Option<Command> {
        let line = r#"exec sacctmgr --noheader --parsable2 show associations user="$user" format=account ${cluster:+cluster="$cluster"}"#;
        let lines = format!("{USER}{line}");
        Some(self.shell("sacctmgr (listing accounts)", &lines, Vec::new(), Vec::new()))
    }

    /// It keeps the names of accounts in small letters, and takes them in any.
    fn is_same_account(&self, listed: &str, name: &str) -> bool {
        listed.eq_ignore_ascii_case(name)
    }

    fn load(&self) -> Option<Command> {
        let line = format!(
            "on sinfo --noheader --format=%C \"$@\" && echo {NEXT} && on squeue --noheader --all --array \
             --states=PENDING --format=%C \"$@\""
        );
        Some(self.shell("sinfo and squeue (asking how busy it is)", &line, self.partition(), Vec::new()))
    }

    fn read_load_with(&self, output: &Output, left_out: &mut Vec<String>) -> Result<QueueLoad, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(errors_of("sinfo and squeue", output)));
        }
        read_load(&output.stdout, left_out)
    }
}

/// Whole minutes, which is what SLURM counts in; at least one, as 0 would be no limit.
fn minutes(span: Span) -> u64 {
    span.0.div_ceil(60_000_000).max(1)
}

/// All lines of standard error: the name of a limit, or what a site has to say, stands before the last one. The
/// name of the program and a recommendation of the manual are left out.
fn errors(output: &Output) -> String {
    let has_cause = |line: &&str| !line.trim().is_empty() && !line.starts_with("Try \"");
    let lines = output.stderr.lines().filter(has_cause);
    let lines = lines
        .map(|line| line.trim().trim_start_matches("sbatch: ").trim_start_matches("error: ").trim_start());
    Output { stderr: joined(lines), ..output.clone() }.all_words()
}

/// The same, with the name of the command that failed.
fn errors_of(command: &str, output: &Output) -> String {
    let words = errors(output);
    match words.starts_with("sinfo") || words.starts_with("squeue") {
        true => words,
        false => format!("{command}: {words}"),
    }
}

/// Whether the refusal is by a limit on all that the account has there, like `QOSMaxSubmitJobPerUserLimit` or
/// `AssocGrpCpuLimit`: it may be accepted later. One that names no limit may be of that kind. A limit on a single job
/// is none, as waiting does not change it.
fn is_no_room(words: &str) -> bool {
    let is_limit = |name: &&str| {
        (name.starts_with("QOS") || name.starts_with("Assoc"))
            && ["Max", "Grp", "Min"].iter().any(|part| name.contains(part))
    };
    let names: Vec<&str> = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_limit).collect();
    match names.is_empty() {
        true => words.contains(A_LIMIT) || FULL.iter().any(|full| words.contains(full)),
        false => !names.iter().any(|name| is_limit_of_a_job(name)),
    }
}

/// Limits of an account or quality of service on one job.
fn is_limit_of_a_job(name: &str) -> bool {
    let has = |part: &str| name.contains(part);
    (name.starts_with("QOS") || name.starts_with("Assoc"))
        && (has("PerJob") || has("PerNode") || has("MaxWall") || name.starts_with("QOSMin"))
}

/// The number of a job, and the cluster that it is on if that is known.
fn on_cluster(id: &str) -> (&str, Option<&str>) {
    id.split_once(';').map_or((id, None), |(number, cluster)| (number, Some(cluster)))
}

/// A command on that cluster. Without one it is the local cluster, whatever the environment or the options name now:
/// the number may be that of another job there.
fn with_cluster(command: &str, cluster: Option<&str>) -> String {
    match cluster {
        Some(cluster) => format!("{command} --clusters={}", quoted(cluster)),
        None => command.to_owned(),
    }
}

fn is_number(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

/// What stands before the jobs or partitions of a cluster.
fn is_head(line: &str) -> bool {
    line.starts_with("CLUSTER: ")
}

/// The jobs of a listing. A name may have line ends, and a site may print words of its own: lines that are no job are
/// left out, unless they may be of a job of ours, or no job is there at all.
fn read_jobs(text: &str) -> Result<Vec<BatchJob>, AdapterError> {
    let (mut jobs, mut cluster, mut unread, mut is_answer) = (Vec::new(), None, None, false);
    let not_understood = |line: &str| AdapterError::NotUnderstood(format!("squeue: `{}`", line.trim()));
    let is_cut_off = !text.is_empty() && !text.ends_with('\n');
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        if line.trim().is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix("CLUSTER: ") {
            is_answer = true;
            cluster = Some(name.trim()).filter(|name| !name.is_empty());
            continue;
        }
        match read_job(line, cluster) {
            Some(job) => jobs.push(job),
            None if (is_last && is_cut_off) || line.split('|').any(looks_like_ours) => {
                return Err(not_understood(line));
            }
            None => _ = unread.get_or_insert(line),
        }
    }
    match unread.filter(|_| jobs.is_empty()) {
        // Something else than a listing was printed, and nothing shows that the listing was, too.
        Some(line) => Err(not_understood(line)),
        None if jobs.is_empty() && !is_answer => {
            Err(AdapterError::NotUnderstood("squeue: it said nothing".to_owned()))
        }
        None => Ok(jobs),
    }
}

/// Whether a listing has no job at all, or none of one of its clusters.
fn lacks_jobs_of_a_cluster(text: &str) -> bool {
    let (mut is_empty, mut lacks_some) = (true, false);
    for (n, line) in text.lines().enumerate() {
        if is_head(line) {
            lacks_some |= is_empty && n > 0;
            is_empty = true;
        } else if read_job(line, None).is_some() {
            is_empty = false;
        }
    }
    is_empty || lacks_some
}

/// `ID|STATE|REASON|NAME`.
fn read_job(line: &str, cluster: Option<&str>) -> Option<BatchJob> {
    let mut fields = line.trim().splitn(4, '|');
    let (id, state, reason, tag) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    if !is_number(id) {
        return None;
    }
    let id = cluster.map_or_else(|| id.to_owned(), |cluster| format!("{id};{cluster}"));
    let (word, state) = (state, state_of(state, reason));
    let words = match state {
        BatchState::Running | BatchState::Suspended => None,
        // Of one that has ended: how.
        BatchState::Ended => Some(word),
        _ => Some(reason).filter(|reason| !matches!(*reason, "None" | "(null)")),
    };
    let reason = words.and_then(command::reason);
    Some(BatchJob { id, tag: tag.to_owned(), state, n_tasks: None, reason })
}

fn state_of(state: &str, reason: &str) -> BatchState {
    // Some versions say more, as in `CANCELLED by 1003`.
    match state.split_whitespace().next().unwrap_or("") {
        "PENDING" if is_hopeless(reason) => BatchState::Stuck(reason.to_owned()),
        "PENDING" | "REQUEUED" | "REQUEUE_FED" | "EXPEDITING" => BatchState::Queued,
        "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            BatchState::Stuck(format!("held: {state} {reason}"))
        }
        "CONFIGURING" | "POWER_UP_NODE" | "RUNNING" | "COMPLETING" | "STAGE_OUT" | "SIGNALING"
        | "RESIZING" => BatchState::Running,
        "STOPPED" | "SUSPENDED" => BatchState::Suspended,
        "COMPLETED" | "CANCELLED" | "FAILED" | "BOOT_FAIL" | "NODE_FAIL" | "OUT_OF_MEMORY" | "DEADLINE"
        | "TIMEOUT" | "PREEMPTED" => BatchState::Ended,
        // `REVOKED`, too: the job goes on at another cluster of the federation.
        _ => BatchState::Unknown(state.to_owned()),
    }
}

fn is_hopeless(reason: &str) -> bool {
    HOPELESS.contains(&reason) || is_limit_of_a_job(reason)
}

/// Whether a node in a state like `mix`, `idle~` or `down*` starts jobs, or will when it is free. A star: it does not
/// answer.
fn is_usable(state: &str) -> bool {
    let word = state.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    !state.contains('*') && !USELESS.contains(&word)
}

/// Why a line of `sinfo` tells of no queue.
#[derive(Debug)]
enum NoQueue {
    /// It is something else.
    OtherLine,
    /// This part of it is not understood.
    Part(String),
}

/// `debug*|up|2:00|idle|1|4|4000|gpu:fake:2`. Nodes count as usable if their state is left out, as by a site's wrapper.
fn read_queue(line: &str) -> Result<Queue, NoQueue> {
    let mut fields: Vec<&str> = line.trim().split('|').collect();
    if fields.len() == N_FIELDS - 1 {
        fields.insert(STATE_OF_NODES, "");
    }
    let [name, state, limit, node_state, n_nodes, cores, memory, gres] = fields[..] else {
        return Err(NoQueue::OtherLine);
    };
    let part = |what: &str, text: &str| NoQueue::Part(format!("{what} `{text}`"));
    let number = |text: &str| text.trim_end_matches('+').parse::<u64>().ok();
    let small = |what: &str, text: &str| {
        number(text).and_then(|n| u32::try_from(n).ok()).ok_or_else(|| part(what, text))
    };
    // Where a site does not say how much memory its nodes have, SLURM takes it for 1 MB.
    let mebibytes = number(memory).filter(|mebibytes| *mebibytes > 1);
    let bytes = mebibytes.map_or(Some(0), |mebibytes| mebibytes.checked_mul(1 << 20));
    let node = Resources {
        cores: small("CPUs", cores)?,
        memory_bytes: bytes.ok_or_else(|| part("memory", memory))?,
        gpus: gpus(gres),
        ..Resources::default()
    };
    let mut queue = Queue {
        name: name.trim_end_matches('*').to_owned(),
        is_default: name.ends_with('*'),
        is_up: state == "up",
        walltime_max: read_limit(limit).ok_or_else(|| part("time limit", limit))?,
        ..Queue::default()
    };
    let n_nodes = small("number of nodes", n_nodes)?;
    if n_nodes > 0 {
        queue.add(n_nodes, node, is_usable(node_state));
    }
    Ok(queue)
}

/// GPUs of `gpu`, `gpu:2`, `gpu:a100:2(S:0-1,3)` and lists of such: of one type or of several. Without a number it
/// is one.
fn gpus(gres: &str) -> u32 {
    let of = |entry: &str| {
        let entry = entry.split('(').next()?;
        let mut words = entry.trim().split(':');
        words.next().filter(|name| *name == "gpu")?;
        let mut counts = words.filter_map(|word| word.parse::<u32>().ok());
        counts.next_back().or(Some(1))
    };
    gres.split(',').filter_map(of).fold(0, u32::saturating_add)
}

/// `infinite`, `30:00`, `1:00:00`, `2-00:00:00`.
fn read_limit(text: &str) -> Option<Option<Span>> {
    if matches!(text, "infinite" | "UNLIMITED") {
        return Some(None);
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Option<Vec<u64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let (hours, minutes, seconds) = match parts?[..] {
        [hours, minutes, seconds] => (hours, minutes, seconds),
        [minutes, seconds] => (0, minutes, seconds),
        [minutes] => (0, minutes, 0),
        _ => return None,
    };
    let sixty = |of: u64, more: u64| of.checked_mul(60)?.checked_add(more);
    let seconds = sixty(sixty(hours, minutes)?, seconds)?;
    let seconds = days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(seconds)?;
    Some(Some(Span(seconds.checked_mul(1_000_000)?)))
}

/// `allocated/idle/other/total` lines, then the cores of each waiting job.
fn read_load(text: &str, left_out: &mut Vec<String>) -> Result<QueueLoad, AdapterError> {
    let mut load = QueueLoad::default();
    let (mut of_nodes, mut of_jobs) = (Unread::of("sinfo"), Unread::of("squeue"));
    let (mut n_read, mut is_of_jobs) = (0, false);
    for line in text.lines().filter(|line| !line.trim().is_empty() && !is_head(line)) {
        if line == NEXT {
            is_of_jobs = true;
        } else if is_of_jobs {
            match line.trim().parse::<u64>() {
                Ok(cores) => {
                    load.n_waiting += 1;
                    load.waiting_cores = load.waiting_cores.saturating_add(cores);
                }
                Err(_) => of_jobs.line(line),
            }
        } else {
            let counts: Option<Vec<u64>> = line.trim().split('/').map(|count| count.parse().ok()).collect();
            match counts.as_deref() {
                Some([allocated, idle, _, _]) => {
                    n_read += 1;
                    load.free_cores = load.free_cores.saturating_add(*idle);
                    load.cores = load.cores.saturating_add(allocated.saturating_add(*idle));
                }
                _ => of_nodes.line(line),
            }
        }
    }
    of_nodes.tell(n_read, left_out)?;
    if !is_of_jobs {
        return Err(AdapterError::NotUnderstood("squeue: it said nothing".to_owned()));
    }
    // That no job waits is an answer, too.
    of_jobs.tell(1, left_out)?;
    Ok(load)
}

#[cfg(test)]
mod tests;
