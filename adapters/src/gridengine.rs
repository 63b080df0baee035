//! `gridengine`: pilots as batch jobs of Grid Engine, by the XML of `qstat`: its plain form cuts names.

mod answers;

use std::time::Duration;

use profiles::site::Site;

use self::answers::NEXT;
use crate::{
    AGE_OF_SUBMITTED, Adapter, Surroundings,
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, Command, Output, Queue, QueueLoad},
    lines::{USER, WRONG},
    newest,
    script::{quoted, script_without_secret},
    silence::unless_it_failed,
    unread::Unread,
};

pub(crate) const NAME: &str = "gridengine";

/// Of what is asked at most three times.
const TIME_LIMIT: Duration = Duration::from_secs(50);

/// The exit code of `timeout` when it had to end a command.
const TIMED_OUT: i32 = 124;

/// Of its variables only those stay that say where the master is: others change what commands do and print,
/// and a manager that runs in a job has many. A master that hangs lets commands hang for ever, so each is
/// ended where it runs; one that is only busy answers within seconds. `timeout` stays in our process group, as it
/// would outlive a command that is given up else.
const CLEAN: &str = r#"for v in $(env | sed -nE 's/^(SGE_[A-Za-z0-9_]+)=.*/\1/p'); do
case $v in SGE_ROOT|SGE_CELL|SGE_QMASTER_PORT|SGE_EXECD_PORT|SGE_ARCH) ;; *) unset "$v" ;; esac
done
export LC_ALL=C
ask() { timeout --foreground 15 "$@"; }
"#;

/// Writes the join document, which everybody could read in a script.
const SUBMIT: &str = r#"umask 077
mkdir -p "$folder" && cat >"$folder/join" || exit 2
"#;

/// The same for each task of a job array, which takes its own away.
const SUBMIT_ARRAY: &str = r#"umask 077
mkdir -p "$folder" && document=$(cat) || exit 2
task=0
while [ $((task += 1)) -le "$tasks" ]; do
cat >"$folder/join.$task" <<PILOTFISH-JOIN || exit 2
$document
PILOTFISH-JOIN
done
"#;

/// Asks the cluster how it counts: a parallel environment may spread a job over hosts, and a resource may be
/// counted for each core. Then gives the words that ask for `$cores` cores on one host and what goes with them.
const SHAPE: &str = r#"environment=$(ask qconf -sp "$pe") && resources=$(ask qconf -sc) || exit
rule=$(printf '%s\n' "$environment" | sed -n 's/^allocation_rule *//p')
case $rule in
'$pe_slots'|"$cores") ;;
*) printf 'parallel environment %s gives cores by the rule %s, perhaps on several hosts; name one of $pe_slots\n' "$pe" "$rule" >&2
exit 2 ;;
esac
share() {
printf '%s\n' "$resources" | awk -v name="$1" -v total="$2" -v unit="$3" -v cores="$cores" '
$6 == "YES" && ($1 == name || $2 == name) { is_of_cores = 1 }
END {
if (is_of_cores && total % cores) exit 1
printf "-l %s=%.0f%s\n", name, is_of_cores ? total / cores : total, unit
}' || { printf 'resource %s is counted for each core, and %s cannot be shared by %s cores\n' "$1" "$2" "$cores" >&2; exit 2; }
}
"#;

/// The jobs; of ours that wait or could not be started the reasons, too, which are in no listing. It asks for
/// those of the first ones only, as each answer has all that was submitted with a job.
const LIST: &str = r#"jobs=$(ask qstat -xml -u "$user") || exit
printf '%s\n' "$jobs"
waiting=$(printf '%s\n' "$jobs" | awk -F '[<>]' -v prefix="$1" -v known="$*" '
BEGIN { n_known = split(known, all, " "); for (i = 2; i <= n_known; i++) is_known[all[i]] = 1 }
$2 == "JB_job_number" { id = $3 }
$2 == "JB_name" { is_ours = index($3, prefix) == 1 || id in is_known }
$2 == "state" && is_ours && $3 ~ /E/ && n_failed++ < 50 { printf "%s%s", comma, id; comma = "," }
$2 == "state" && is_ours && $3 ~ /^h?qw$/ && n_waiting++ < 20 { printf "%s%s", comma, id; comma = "," }')
[ -z "$waiting" ] || { echo "$next"; ask qstat -xml -j "$waiting"; }
exit 0"#;

/// `qdel` complains of jobs that are gone, on standard output, like of everything else. Wrappers of sites end with 0
/// whatever it says.
const CANCEL: &str = r#"gone='^ *$|does not exist|has deleted|has registered|already in deletion'
said=$(ask qdel "$@" 2>&1)
code=$?
complaints=$(printf '%s\n' "$said" | grep -Ev "$gone")
if [ $code = 0 ]; then
complaints=$(wrong "$said")
[ -n "$complaints" ] || exit 0
code=1
fi
[ $code = 1 ] && [ -n "$said" ] && [ -z "$complaints" ] && exit 0
printf '%s\n' "${complaints:-no answer}" >&2
exit $code"#;

/// The script's end: no line of a site's is this one.
const END: &str = "PILOTFISH-SCRIPT";

/// Exit codes after which nothing was submitted: refused, bad arguments, no script, too many jobs; no `qsub`.
const REFUSED: [i32; 8] = [1, 2, 4, 7, 14, 25, 126, 127];

/// The one of too many jobs.
const TOO_MANY: i32 = 25;

/// Words of a submission whose fate is open: the master may have taken it and not said so.
const OPEN: [&str; 4] =
    ["unable to send message to qmaster", "commlib error", "got select error", "reading answer list"];

pub(crate) struct GridEngine {
    agent_command: Vec<String>,
    site: Site,
}

impl GridEngine {
    pub(crate) fn new(surroundings: &Surroundings, site: &Site) -> GridEngine {
        GridEngine { agent_command: surroundings.agent_command.clone(), site: site.clone() }
    }

    /// Runs `line`, in which `"$@"` are the words. `name`: what people are told that it is.
    fn shell(name: &str, line: &str, words: Vec<String>, stdin: Vec<u8>) -> Command {
        Command::shell(name, &format!("{CLEAN}{line}"), words, stdin, TIME_LIMIT)
    }

    /// What says no without asking anybody.
    fn refusal(why: &str) -> Command {
        GridEngine::shell(SUBMISSION, "echo \"$1\" >&2; exit 2", vec![why.to_owned()], Vec::new())
    }

    fn memory_resource(&self) -> &str {
        self.site.resource_names.memory_resource.as_deref().unwrap_or("h_vmem")
    }

    fn gpu_resource(&self) -> &str {
        self.site.resource_names.gpu_resource.as_deref().unwrap_or("gpu")
    }

    /// Words that name the account's queue.
    fn queue(&self) -> Vec<String> {
        self.site.queue.iter().flat_map(|queue| ["-q".to_owned(), queue.clone()]).collect()
    }

    /// `qsub` and what it is told in any case.
    fn qsub(&self, request: &AllocationRequest) -> Vec<String> {
        let words = ["qsub", "-clear", "-terse", "-w", "e", "-r", "n", "-notify", "-S", "/bin/sh"];
        let mut words: Vec<String> = words.map(str::to_owned).into();
        // A folder that every host has: the home of whoever submits may not be seen by the nodes.
        words.extend(["-wd", "/", "-j", "y", "-o", "/dev/null", "-N"].map(str::to_owned));
        words.push(request.tag.clone());
        if request.n_nodes > 1 {
            words.extend(["-t".to_owned(), format!("1-{}", request.n_nodes)]);
        }
        words.extend(self.queue());
        words.extend(self.site.account.iter().flat_map(|account| ["-P".to_owned(), account.clone()]));
        let walltime = request.walltime.map(|span| format!("h_rt={}", span.0.div_ceil(1_000_000).max(1)));
        words.extend(walltime.into_iter().flat_map(|walltime| ["-l".to_owned(), walltime]));
        let options: Vec<&str> =
            self.site.options.iter().flat_map(|option| option.split_whitespace()).collect();
        words.extend(options.iter().map(|option| (*option).to_owned()));
        // `-soft` makes all requests after it optional. The pilot's resources follow, and are not.
        words.extend(options.contains(&"-soft").then(|| "-hard".to_owned()));
        words
    }

    /// The lines that submit, with what the request's resources add to the words.
    fn submission(&self, request: &AllocationRequest, parallel_environment: Option<&str>) -> String {
        let capacity = &request.capacity;
        let cores = u64::from(capacity.cores.max(1));
        // For each core alike.
        let mib = capacity.memory_bytes.div_ceil(1 << 20).div_ceil(cores) * cores;
        let gpus = (self.gpu_resource(), u64::from(capacity.gpus), "");
        let asked = [(self.memory_resource(), mib, "M"), gpus].into_iter().filter(|(_, n, _)| *n > 0);
        let submit = match request.n_nodes {
            1 => SUBMIT.to_owned(),
            n => format!("tasks={n}\n{SUBMIT_ARRAY}"),
        };
        let Some(parallel_environment) = parallel_environment else {
            let words: String =
                asked.map(|(name, n, unit)| format!(" -l {}={n}{unit}", quoted(name))).collect();
            return format!("{submit}ask \"$@\"{words}");
        };
        let mut lines = format!("pe={} cores={cores}\n{SHAPE}", quoted(parallel_environment));
        let mut words = " -pe \"$pe\" \"$cores\"".to_owned();
        for (variable, (name, n, unit)) in ["first", "second"].into_iter().zip(asked) {
            lines.push_str(&format!("{variable}=$(share {} {n} '{unit}') || exit\n", quoted(name)));
            words.push_str(&format!(" ${variable}"));
        }
        format!("{lines}{submit}ask \"$@\"{words}")
    }
}

impl Adapter for GridEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn submit(&self, request: &AllocationRequest) -> Command {
        let parallel_environment = self.site.resource_names.parallel_environment.as_deref();
        if request.capacity.cores > 1 && parallel_environment.is_none() {
            return GridEngine::refusal("more than one core needs the platform's parallel_environment");
        }
        let parallel_environment = parallel_environment.filter(|_| request.capacity.cores > 1);
        // Several nodes are a job array: a batch job as sites count them, whose tasks need not begin at once.
        let of_task = if request.n_nodes > 1 { ".$SGE_TASK_ID" } else { "" };
        let file = format!("{}{of_task}", quoted(&format!("{}/join", request.folder)));
        let script = script_without_secret(&self.site, &self.agent_command, request, &file);
        let line = format!(
            "folder={}\n{} <<'{END}'\n{script}{END}\n",
            quoted(&request.folder),
            self.submission(request, parallel_environment)
        );
        GridEngine::shell(SUBMISSION, &line, self.qsub(request), request.join.clone())
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code != Some(0) {
            let is_refused = output.code.is_some_and(|code| REFUSED.contains(&code));
            let is_open = OPEN.iter().any(|open| output.stderr.contains(open));
            let words = words(output);
            return Err(match is_refused && !is_open {
                true if output.code == Some(TOO_MANY) || words.contains("jobs are allowed per") => {
                    AdapterError::NoRoom(words)
                }
                true => AdapterError::Refused(words),
                false => AdapterError::NotUnderstood(words),
            });
        }
        // `ID`, of arrays `ID.1-4:1`, after whatever a site's verifier prints.
        let id = output.stdout.lines().next_back().and_then(|line| line.split('.').next()).unwrap_or("");
        match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
            true => Ok(id.to_owned()),
            false => Err(AdapterError::NotUnderstood(output.words())),
        }
    }

    fn list(&self, tag_prefix: &str) -> Command {
        self.list_with(tag_prefix, &[])
    }

    fn list_with(&self, tag_prefix: &str, known: &[BatchId]) -> Command {
        let words = [tag_prefix.to_owned()].into_iter().chain(newest(known)).collect();
        let lines = format!("next={NEXT}\n{USER}{LIST}");
        GridEngine::shell("qstat (listing jobs)", &lines, words, Vec::new())
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        understood(output, answers::jobs).and_then(|jobs| unless_it_failed(output, jobs))
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        let lines = format!("{WRONG}{CANCEL}");
        GridEngine::shell("qdel (cancelling jobs)", &lines, ids.to_vec(), Vec::new())
    }

    fn why_it_waits(&self, id: &str) -> Option<Command> {
        let line = "qstat -j \"$1\" | sed -n '/^scheduling info:/,$ s/^\\(scheduling info:\\)\\{0,1\\} *//p'";
        Some(GridEngine::shell("qstat -j (asking why a job waits)", line, vec![id.to_owned()], Vec::new()))
    }

    fn age(&self, id: &str) -> Option<Command> {
        let line = format!(
            "submitted=$(ask qstat -j \"$1\" | sed -n 's/^submission_time: *//p' | head -n 1) && {AGE_OF_SUBMITTED}"
        );
        let name = "qstat -j (asking for the age of a job)";
        Some(GridEngine::shell(name, &line, vec![id.to_owned()], Vec::new()))
    }

    fn describe(&self) -> Option<Command> {
        let resources = format!("mem_total,h_rt,{}", self.gpu_resource());
        let words = ["qstat", "-f", "-xml", "-F", &resources].map(str::to_owned).into();
        Some(GridEngine::shell("qstat -f (asking for queues)", "ask \"$@\"", words, Vec::new()))
    }

    fn read_describe_with(
        &self,
        output: &Output,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Queue>, AdapterError> {
        let mut unread = Unread::of(QSTAT);
        let queues = understood(output, |text| answers::queues(text, self.gpu_resource(), &mut unread))
            .map_err(naming_qstat)?;
        unread.tell(queues.len(), left_out)?;
        Ok(queues)
    }

    fn accounts(&self) -> Option<Command> {
        Some(GridEngine::shell("qconf (listing projects)", "ask qconf -sprjl", Vec::new(), Vec::new()))
    }

    fn load(&self) -> Option<Command> {
        let mut words: Vec<String> = ["qstat", "-f", "-xml", "-u", "*", "-s", "p"].map(str::to_owned).into();
        words.extend(self.queue());
        Some(GridEngine::shell("qstat -f (asking how busy it is)", "ask \"$@\"", words, Vec::new()))
    }

    fn read_load_with(&self, output: &Output, left_out: &mut Vec<String>) -> Result<QueueLoad, AdapterError> {
        let mut unread = Unread::of(QSTAT);
        let read = understood(output, |text| answers::load(text, &mut unread));
        let (load, n_read) = read.map_err(naming_qstat)?;
        unread.tell(n_read, left_out)?;
        Ok(load)
    }
}

/// Names a submission in messages.
const SUBMISSION: &str = "qsub (submitting a job)";

/// The command that lists queues and their load.
const QSTAT: &str = "qstat -f -xml";

/// Puts the command in front of an answer that is not understood.
fn naming_qstat(error: AdapterError) -> AdapterError {
    match error {
        AdapterError::NotUnderstood(words) => AdapterError::NotUnderstood(format!("{QSTAT}: {words}")),
        other => other,
    }
}

/// What a command that succeeded said, read as a whole.
fn understood<T>(output: &Output, read: impl FnOnce(&str) -> Option<T>) -> Result<T, AdapterError> {
    let answer = Some(&output.stdout).filter(|_| output.code == Some(0)).and_then(|text| read(text));
    answer.ok_or_else(|| AdapterError::NotUnderstood(words(output)))
}

/// What it said, without what stands around every message of `qsub`.
fn words(output: &Output) -> String {
    if output.code == Some(TIMED_OUT) {
        return "the master does not answer".to_owned();
    }
    let text = output.stderr.trim().trim_end_matches("Exiting.").trim_end();
    let text = text.strip_prefix("Unable to run job: ").unwrap_or(text);
    Output { stderr: text.to_owned(), ..output.clone() }.all_words()
}

#[cfg(test)]
mod tests;
