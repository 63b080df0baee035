//! `pbs`: pilots as batch jobs of OpenPBS, PBS Professional or TORQUE. Their commands have the same names and
//! other options, and TORQUE takes those of OpenPBS silently and means something else; so each command line
//! asks first which of them is there.

mod listing;
mod queues;
mod records;
mod states;
mod table;

use std::time::Duration;

use profiles::site::Site;

use crate::{
    AGE_OF_SUBMITTED, Adapter, Surroundings,
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, Command, Output, Queue, QueueLoad},
    lines::WRONG,
    newest,
    script::{script, script_by_file},
    unread::Unread,
};
use listing::SERVERS;
use records::{Record, of_text, of_xml};
use table::Row;

pub(crate) const NAME: &str = "pbs";

/// They answer, or say that nobody does, within a second; a server that hangs never does.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Variables change what the commands do and print; those that say where the server is are the site's.
/// Then `$form` is the system that is there.
const BEGINNING: &str = r#"for v in $(env | sed -nE 's/^(PBS[A-Za-z0-9_]*)=.*/\1/p'); do
case $v in PBS_CONF_FILE|PBS_EXEC|PBS_HOME|PBS_SERVER|PBS_DEFAULT) ;; *) unset "$v" ;; esac
done
export LC_ALL=C
version=$(qstat --version 2>&1 </dev/null)
case $version in
*pbs_version*) form=openpbs ;;
*[Vv]ersion:*) form=torque ;;
*) echo "no OpenPBS and no TORQUE is here; qstat --version says: $version" >&2; exit 127 ;;
esac
"#;

/// Of several ids each that is not there, or not any more, is told in a line of its own. Wrappers of sites end with 0
/// whatever `qdel` says. TORQUE's does not follow a job that was moved to another server; its `qstat` does, and says where
/// it is.
const CANCEL: &str = r#"gone='Unknown Job Id|nonexistent job id|Job has finished|Request invalid for state'
set -f
set -- $(at "$@")
words=$(qdel "$@" 2>&1 >/dev/null)
code=$?
if [ "$form" = torque ] && printf '%s\n' "$words" | grep -qE "$gone"; then
for id; do
there=$(qstat -f "$id" 2>/dev/null | awk '$1 == "job_state" && state == "" { state = $3 } $1 == "server" && on == "" { on = $3 } END { if (state != "" && state != "C") print on }')
[ -z "$there" ] || words=$(printf '%s\n' "$words"; qdel "${id%@*}@$there" 2>&1 >/dev/null)
done
fi
rest=$(printf '%s\n' "$words" | grep -vE "^ *$|$gone")
if [ $code -eq 0 ]; then
[ -n "$(wrong "$words")" ] || exit 0
code=1
fi
[ -n "$words" ] && [ -z "$rest" ] && exit 0
printf '%s\n' "$rest" >&2
exit $code
"#;

/// What is said where a server has no nodes yet is no failure.
const NODES: &str = r#"nodes() {
said=$(pbsnodes -a 2>&1) && { printf '%s\n' "$said"; return; }
case $said in *'no node list'*) echo; return 0 ;; esac
printf '%s\n' "$said" >&2
return 1
}
"#;

const DESCRIBE: &str = r#"echo "form=$form"
qstat -Bf && echo -- && qstat -Qf && echo -- && nodes
printf '\nexit=%s\n' $?
"#;

/// The nodes, how many jobs wait in the queue, and those jobs: of anybody, where a server shows them.
const LOAD: &str = r#"case $form in openpbs) wide=-w ;; torque) wide= ;; esac
echo "form=$form"
nodes && echo -- && qstat -Qf "$@" && echo -- && qstat $wide -i "$@"
printf '\nexit=%s\n' $?
"#;

/// Between what two commands of one call print.
const NEXT: &str = "\n--\n";

/// Words of a submission whose fate is open: the server may have taken it and not said so, or cannot say.
const OPEN: [&str; 8] = [
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "Broken pipe",
    "End of File",
    "trqauthd",
    "protocol error",
    "timed out",
];

/// Words of a refusal because of jobs that are there already.
const LIMITS_ON_JOBS: [&str; 3] =
    ["would exceed", "Maximum number of jobs already in queue", "limit on the number of jobs"];

pub(crate) struct Pbs {
    agent_command: Vec<String>,
    site: Site,
}

impl Pbs {
    pub(crate) fn new(surroundings: &Surroundings, site: &Site) -> Pbs {
        Pbs { agent_command: surroundings.agent_command.clone(), site: site.clone() }
    }

    /// Runs `lines` where `$form` is known, in which `"$@"` are the words. `name`: what people are told that it is.
    fn shell(name: &str, lines: &str, words: Vec<String>, stdin: Vec<u8>) -> Command {
        Command::shell(name, &format!("{BEGINNING}{lines}"), words, stdin, TIME_LIMIT)
    }

    /// Options that name the account's queue.
    fn queue(&self) -> Vec<String> {
        self.site.queue.iter().flat_map(|queue| ["-q".to_owned(), queue.clone()]).collect()
    }
}

impl Adapter for Pbs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn submit(&self, request: &AllocationRequest) -> Command {
        let AllocationRequest { tag, n_nodes, walltime, .. } = request;
        let mut words: Vec<String> =
            ["-S", "/bin/sh", "-r", "n", "-m", "n", "-j", "oe", "-o", "/dev/null"].map(str::to_owned).into();
        words.extend(["-N".to_owned(), tag.clone()]);
        words.extend(self.queue());
        words.extend(self.site.account.iter().flat_map(|account| ["-A".to_owned(), account.clone()]));
        let seconds = walltime.map(|span| span.0.div_ceil(1_000_000).max(1));
        words.extend(seconds.into_iter().flat_map(|s| ["-l".to_owned(), format!("walltime={s}")]));
        words.extend(self.site.options.iter().cloned());
        let mut site = self.site.clone();
        // A queue, or a server, may have one of its own.
        site.setup.extend(walltime.is_none().then(|| FIND_END.to_owned()));
        let script = match n_nodes {
            1 => script(&site, &self.agent_command, &[], request),
            _ => script_by_file(&site, &self.agent_command, FIND_PBSDSH, request),
        };
        // `-f`: OpenPBS would leave a process behind for a minute.
        let line = format!(
            "case $form in\nopenpbs) set -- -f {} \"$@\" ;;\ntorque) set -- {} \"$@\" ;;\nesac\nexec qsub \"$@\"",
            chunks(request),
            nodes(request)
        );
        Pbs::shell("qsub (submitting a job)", &line, words, script)
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code != Some(0) {
            let is_open = output.code.is_none() || OPEN.iter().any(|open| output.stderr.contains(open));
            return Err(match is_open {
                true => AdapterError::NotUnderstood(refusal(output)),
                false if LIMITS_ON_JOBS.iter().any(|words| output.stderr.contains(words)) => {
                    AdapterError::NoRoom(refusal(output))
                }
                false => AdapterError::Refused(refusal(output)),
            });
        }
        // `ID.SERVER`, after whatever a site's filter prints.
        let whole = output.stdout.strip_suffix('\n').unwrap_or("");
        let id = whole.lines().next_back().unwrap_or("").trim();
        match is_id(id) {
            true => Ok(id.to_owned()),
            false => Err(AdapterError::NotUnderstood(output.words())),
        }
    }

    fn list(&self, tag_prefix: &str) -> Command {
        self.list_with(tag_prefix, &[])
    }

    fn list_with(&self, tag_prefix: &str, known: &[BatchId]) -> Command {
        let words = [tag_prefix.to_owned()].into_iter().chain(newest(known));
        Pbs::shell("qstat (listing jobs)", &listing::lines(known), words.collect(), Vec::new())
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        listing::read(output)
    }

    /// Tables leave out the server, or show the beginning of its name.
    fn is_same_job(&self, listed: &str, submitted: &str) -> bool {
        is_same_job(listed, submitted)
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        let lines = format!("{WRONG}{SERVERS}{CANCEL}");
        Pbs::shell("qdel (cancelling jobs)", &lines, ids.to_vec(), Vec::new())
    }

    fn why_it_waits(&self, id: &str) -> Option<Command> {
        let lines = format!("{SERVERS}{WHY_IT_WAITS}");
        Some(Pbs::shell("qstat -f (asking why a job waits)", &lines, vec![id.to_owned()], Vec::new()))
    }

    fn age(&self, id: &str) -> Option<Command> {
        let line = format!(
            "{SERVERS}submitted=$(qstat -f \"$(at \"$1\")\" | sed -n 's/^    ctime = //p' | head -n 1) && {AGE_OF_SUBMITTED}"
        );
        Some(Pbs::shell("qstat -f (asking for the age of a job)", &line, vec![id.to_owned()], Vec::new()))
    }

    fn version(&self) -> Option<Command> {
        let line = r#"printf '%s\n' "$version" | grep -E -m 1 'pbs_version|[Vv]ersion:'"#;
        Some(Pbs::shell("qstat --version", line, Vec::new(), Vec::new()))
    }

    fn describe(&self) -> Option<Command> {
        let name = "qstat and pbsnodes (asking for queues and nodes)";
        Some(Pbs::shell(name, &format!("{NODES}{DESCRIBE}"), Vec::new(), Vec::new()))
    }

    fn read_describe_with(
        &self,
        output: &Output,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Queue>, AdapterError> {
        let parts =
            answer(output).filter(|answer| answer.code == 0).and_then(|answer| three_parts(answer.text));
        let parts = parts.ok_or_else(|| AdapterError::NotUnderstood(refusal(output)))?;
        queues::queues(parts, left_out)
    }

    fn load(&self) -> Option<Command> {
        let (name, words) = ("pbsnodes and qstat (asking how busy it is)", self.site.queue.iter().cloned());
        Some(Pbs::shell(name, &format!("{NODES}{LOAD}"), words.collect(), Vec::new()))
    }

    fn read_load_with(&self, output: &Output, left_out: &mut Vec<String>) -> Result<QueueLoad, AdapterError> {
        let parts =
            answer(output).filter(|answer| answer.code == 0).and_then(|answer| three_parts(answer.text));
        let (nodes, queues, jobs) = parts.ok_or_else(|| AdapterError::NotUnderstood(refusal(output)))?;
        queues::load((nodes, queues), &waiting(jobs, left_out), left_out)
    }
}

/// Splits the output of one call into those of its three commands.
fn three_parts(text: &str) -> Option<(&str, &str, &str)> {
    let (first, rest) = text.split_once(NEXT)?;
    let (second, third) = rest.split_once(NEXT)?;
    Some((first, second, third))
}

/// Which options ask OpenPBS for nodes. One line of its node file a node, so that `pbsdsh` begins one agent
/// on each.
fn chunks(request: &AllocationRequest) -> String {
    let AllocationRequest { n_nodes, capacity, .. } = request;
    let mut words = format!("-l select={n_nodes}:ncpus={}:mpiprocs=1", capacity.cores);
    if capacity.memory_bytes > 0 {
        words.push_str(&format!(":mem={}mb", capacity.memory_bytes.div_ceil(1 << 20)));
    }
    if capacity.gpus > 0 {
        words.push_str(&format!(":ngpus={}", capacity.gpus));
    }
    if *n_nodes > 1 {
        words.push_str(" -l place=scatter");
    }
    words
}

/// Which options ask TORQUE for nodes; memory is that of all of them.
fn nodes(request: &AllocationRequest) -> String {
    let AllocationRequest { n_nodes, capacity, .. } = request;
    let mut words = format!("-l nodes={n_nodes}:ppn={}", capacity.cores);
    if capacity.gpus > 0 {
        words.push_str(&format!(":gpus={}", capacity.gpus));
    }
    if capacity.memory_bytes > 0 {
        let mebibytes = capacity.memory_bytes.div_ceil(1 << 20).saturating_mul(u64::from(*n_nodes));
        words.push_str(&format!(" -l mem={mebibytes}mb"));
    }
    words
}

/// Prints the comment of job `$1`, whose lines may be folded: what follows begins with a tab.
const WHY_IT_WAITS: &str = r#"qstat -f "$(at "$1")" | awk '
/^    / { is_comment = sub(/^    comment = /, "") }
is_comment { sub(/^\t/, ""); printf "%s", $0 }'"#;

/// Lines after which `$launcher` begins a program on each node of the job.
const FIND_PBSDSH: &str = r#"PATH=$PATH:$(sed -n 's/^PBS_EXEC=//p' /etc/pbs.conf 2>/dev/null)/bin
case $PBS_VERSION in TORQUE*) launcher='pbsdsh -u --' ;; *) launcher='pbsdsh --' ;; esac"#;

/// Tells the pilot how long its job may run where nobody has said a walltime and its queue has one: TORQUE has told,
/// OpenPBS is asked. Where nobody tells, the pilot goes on without.
const FIND_END: &str = r#"[ -n "${PBS_WALLTIME-}" ] || { walltime=$(PATH=$PATH:$(sed -n 's/^PBS_EXEC=//p' /etc/pbs.conf)/bin timeout 20 qstat -f "$PBS_JOBID" | awk '$1 == "Resource_List.walltime" { n = split($3, part, ":"); for (i = 1; i <= n; i++) seconds = seconds * 60 + part[i]; print seconds; exit }') && [ "$walltime" -gt 0 ] && export PBS_WALLTIME="$walltime"; } 2>/dev/null || :"#;

/// `12.server`; an array's has brackets.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(&byte);
    id.starts_with(|first: char| first.is_ascii_digit()) && id.bytes().all(is_plain)
}

/// What a call of ours printed between its own lines.
struct Answer<'o> {
    text: &'o str,
    code: i32,
}

/// `None`: it did not come to its end.
fn answer(output: &Output) -> Option<Answer<'_>> {
    // A site's shell may print words of its own before all that we run.
    let begin = if output.stdout.starts_with("form=") { 0 } else { output.stdout.find("\nform=")? + 1 };
    let (form, rest) = output.stdout.get(begin..)?.strip_prefix("form=")?.split_once('\n')?;
    if !matches!(form, "openpbs" | "torque") {
        return None;
    }
    let (text, code) = rest.strip_suffix('\n')?.rsplit_once("\nexit=")?;
    Some(Answer { text, code: code.parse().ok()? })
}

/// The jobs of a table, or of what says all of them.
enum Jobs<'t> {
    Rows(Vec<Row<'t>>),
    Records(Vec<Record>),
}

/// Jobs in whichever form they are shown. `None`: of no form.
fn jobs_of(text: &str) -> Option<Jobs<'_>> {
    let text = text.trim_matches('\n');
    match text.trim_start() {
        "" => Some(Jobs::Rows(Vec::new())),
        xml if xml.starts_with('<') => of_xml(xml).map(Jobs::Records),
        records if records.starts_with(JOB) => of_text(records, JOB).map(Jobs::Records),
        _ => table::rows(text).map(Jobs::Rows),
    }
}

/// What begins a job in `qstat -f`.
const JOB: &str = "Job Id: ";

/// Cores that each job of a table of waiting ones waits for; at least one. A server without such jobs prints nothing,
/// and a site's wrapper words of its own.
fn waiting(text: &str, left_out: &mut Vec<String>) -> Vec<u64> {
    match jobs_of(text) {
        Some(Jobs::Rows(rows)) => {
            let waiting = rows.into_iter().filter(|row| row.state == "Q");
            waiting.map(|row| row.n_cores.unwrap_or(1).max(1)).collect()
        }
        Some(Jobs::Records(jobs)) => {
            let waiting = jobs.iter().filter(|job| job.attribute("job_state") == Some("Q"));
            waiting.map(queues::cores_asked).collect()
        }
        None => {
            let mut unread = Unread::of("qstat -i");
            text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| unread.line(line));
            // `qstat -Qf` still says how many jobs wait, so this is a warning and no error.
            let _ = unread.tell(1, left_out);
            Vec::new()
        }
    }
}

/// Whether an id of a listing, which may leave out the server or show the beginning of its name, is that of the job with
/// the other id. Either may have a host's name without its domain.
fn is_same_job(listed: &str, submitted: &str) -> bool {
    let listed = listed.trim_end_matches('*');
    let server = |id: &str| id.split_once('.').map(|(_, server)| server.to_ascii_lowercase());
    let is_same_server = match (server(listed), server(submitted)) {
        (Some(listed), Some(submitted)) => {
            submitted.starts_with(&listed) || listed.starts_with(&format!("{submitted}."))
        }
        _ => true,
    };
    is_same_server && number(listed) == number(submitted)
}

/// The number of a job, without its server.
fn number(id: &str) -> &str {
    id.split('.').next().unwrap_or(id)
}

/// Why not, without the names of programs and without the usage that may follow.
fn refusal(output: &Output) -> String {
    let lines = output.stderr.lines().take_while(|line| !line.starts_with("usage:")).map(|line| {
        let line = line.trim().trim_matches(['[', ']']).trim_start_matches("qsub: ");
        line.strip_prefix("submit error (").and_then(|rest| rest.strip_suffix(')')).unwrap_or(line)
    });
    let stderr = lines.collect::<Vec<_>>().join("\n");
    Output { stderr, ..output.clone() }.all_words()
}

#[cfg(test)]
mod tests;
