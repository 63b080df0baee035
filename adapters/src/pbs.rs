//! `pbs`: pilots as batch jobs of OpenPBS, PBS Professional or TORQUE. Their commands have the same names and
//! other options, and TORQUE takes those of OpenPBS silently and means something else; so each command line
//! asks first which of them is there.

mod queues;
mod records;
mod states;

use std::{collections::BTreeMap, time::Duration};

use profiles::site::Site;

use crate::{
    Adapter, Surroundings,
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, Command, Output, Queue, QueueLoad},
    script::{script, script_by_file},
};
use records::{Record, of_text, of_xml};

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
[Vv]ersion:*) form=torque ;;
*) echo "no OpenPBS and no TORQUE is here; qstat --version says: $version" >&2; exit 127 ;;
esac
"#;

/// Our own jobs, less arrays, which are not ours and for which TORQUE lists everybody's.
const LIST: &str = r#"ids=$(qselect -u "$(id -un)") || exit
ids=$(printf '%s\n' "$ids" | grep -v '\[')
echo "form=$form"
echo asked= $ids
case $form in openpbs) show=-f ;; torque) show=-x ;; esac
[ -z "$ids" ] || qstat $show $ids
printf '\nexit=%s\n' $?
"#;

/// Of several ids each that is not there, or not any more, is told in a line of its own.
const CANCEL: &str = r#"words=$(qdel "$@" 2>&1 >/dev/null)
code=$?
[ $code -eq 0 ] && exit
rest=$(printf '%s\n' "$words" | grep -vE 'Unknown Job Id|nonexistent job id|Job has finished|Request invalid for state')
[ -n "$words" ] && [ -z "$rest" ] && exit
printf '%s\n' "$rest" >&2
exit $code
"#;

const DESCRIBE: &str = r#"echo "form=$form"
qstat -Bf && echo -- && qstat -Qf && echo -- && pbsnodes -a
printf '\nexit=%s\n' $?
"#;

/// The nodes, then the jobs of anybody that wait in the queue.
const LOAD: &str = r#"ids=$(qselect -s Q "$@") || exit
case $form in openpbs) show=-f ;; torque) show=-x ;; esac
echo "form=$form"
pbsnodes -a && echo -- && { [ -z "$ids" ] || qstat $show $ids; }
printf '\nexit=%s\n' $?
"#;

/// Between what two commands of one call print.
const NEXT: &str = "\n--\n";

/// `qstat` of several jobs, one of which has gone meanwhile: unknown, or in OpenPBS finished.
const GONE: [i32; 3] = [0, 153, 35];

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

pub(crate) struct Pbs {
    agent_command: Vec<String>,
    site: Site,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    OpenPbs,
    Torque,
}

impl Pbs {
    pub(crate) fn new(surroundings: &Surroundings, site: &Site) -> Pbs {
        Pbs { agent_command: surroundings.agent_command.clone(), site: site.clone() }
    }

    /// Runs `lines` where `$form` is known, in which `"$@"` are the words.
    fn shell(lines: &str, words: Vec<String>, stdin: Vec<u8>) -> Command {
        Command::shell(&format!("{BEGINNING}{lines}"), words, stdin, TIME_LIMIT)
    }

    /// Words that name the account's queue.
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
        let script = match n_nodes {
            1 => script(&self.site, &self.agent_command, &[], request),
            _ => script_by_file(&self.site, &self.agent_command, FIND_PBSDSH, request),
        };
        // `-f`: OpenPBS would leave a process behind for a minute.
        let line = format!(
            "case $form in\nopenpbs) set -- -f {} \"$@\" ;;\ntorque) set -- {} \"$@\" ;;\nesac\nexec qsub \"$@\"",
            chunks(request),
            nodes(request)
        );
        Pbs::shell(&line, words, script)
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code != Some(0) {
            let is_open = output.code.is_none() || OPEN.iter().any(|open| output.stderr.contains(open));
            return Err(match is_open {
                true => AdapterError::NotUnderstood(refusal(output)),
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

    fn list(&self, _tag_prefix: &str) -> Command {
        Pbs::shell(LIST, Vec::new(), Vec::new())
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        read_list(output).ok_or_else(|| AdapterError::NotUnderstood(refusal(output)))
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        Pbs::shell(CANCEL, ids.to_vec(), Vec::new())
    }

    fn why_it_waits(&self, id: &str) -> Option<Command> {
        Some(Pbs::shell(WHY_IT_WAITS, vec![id.to_owned()], Vec::new()))
    }

    fn describe(&self) -> Option<Command> {
        Some(Pbs::shell(DESCRIBE, Vec::new(), Vec::new()))
    }

    fn read_describe(&self, output: &Output) -> Result<Vec<Queue>, AdapterError> {
        let queues = answer(output).filter(|answer| answer.code == 0).and_then(|answer| {
            let (server, rest) = answer.text.split_once(NEXT)?;
            let (queues, nodes) = rest.split_once(NEXT)?;
            queues::queues(server, queues, nodes)
        });
        queues.ok_or_else(|| AdapterError::NotUnderstood(refusal(output)))
    }

    fn load(&self) -> Option<Command> {
        Some(Pbs::shell(LOAD, self.queue(), Vec::new()))
    }

    fn read_load(&self, output: &Output) -> Result<QueueLoad, AdapterError> {
        let load = answer(output).filter(|answer| GONE.contains(&answer.code)).and_then(|answer| {
            let (nodes, jobs) = answer.text.split_once(NEXT)?;
            queues::load(nodes, &jobs_of(answer.form, jobs)?)
        });
        load.ok_or_else(|| AdapterError::NotUnderstood(refusal(output)))
    }
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
const WHY_IT_WAITS: &str = r#"qstat -f "$1" | awk '
/^    / { is_comment = sub(/^    comment = /, "") }
is_comment { sub(/^\t/, ""); printf "%s", $0 }'"#;

/// Lines after which `$launcher` begins a program on each node of the job.
const FIND_PBSDSH: &str = r#"PATH=$PATH:$(sed -n 's/^PBS_EXEC=//p' /etc/pbs.conf 2>/dev/null)/bin
case $PBS_VERSION in TORQUE*) launcher='pbsdsh -u --' ;; *) launcher='pbsdsh --' ;; esac"#;

/// `12.server`; an array's has brackets.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(&byte);
    id.starts_with(|first: char| first.is_ascii_digit()) && id.bytes().all(is_plain)
}

/// What a call of ours printed between its own lines.
struct Answer<'o> {
    form: Form,
    text: &'o str,
    code: i32,
}

/// `None`: it did not come to its end.
fn answer(output: &Output) -> Option<Answer<'_>> {
    let (form, rest) = output.stdout.strip_prefix("form=")?.split_once('\n')?;
    let form = match form {
        "openpbs" => Form::OpenPbs,
        "torque" => Form::Torque,
        _ => return None,
    };
    let (text, code) = rest.strip_suffix('\n')?.rsplit_once("\nexit=")?;
    Some(Answer { form, text, code: code.parse().ok()? })
}

fn jobs_of(form: Form, text: &str) -> Option<Vec<Record>> {
    match form {
        Form::OpenPbs => of_text(text, "Job Id: "),
        Form::Torque => of_xml(text),
    }
}

/// The jobs asked for, except those of which it is said that they are gone. An id of which nothing is said
/// makes an answer none: the code is that of any of them, and of the last one in TORQUE.
fn read_list(output: &Output) -> Option<Vec<BatchJob>> {
    let answer = answer(output)?;
    let (asked, text) = answer.text.strip_prefix("asked=")?.split_once('\n')?;
    let records = jobs_of(answer.form, text)?;
    let by_id: BTreeMap<&str, &Record> = records.iter().map(|job| (job.name.as_str(), job)).collect();
    let is_gone = |id: &str| {
        let of_it = |line: &&str| line.split_whitespace().any(|word| word == id);
        let said = output.stderr.lines().find(of_it);
        said.is_some_and(|line| line.contains("Unknown Job Id") || line.contains("Job has finished"))
    };
    let mut jobs = Vec::new();
    for id in asked.split_whitespace() {
        match by_id.get(id) {
            Some(record) => jobs.push(states::job(record)?),
            None if is_gone(id) => {}
            None => return None,
        }
    }
    Some(jobs)
}

/// Why not, without the names of programs and without the usage that may follow.
fn refusal(output: &Output) -> String {
    let lines = output.stderr.lines().take_while(|line| !line.starts_with("usage:")).map(|line| {
        let line = line.trim().trim_matches(['[', ']']).trim_start_matches("qsub: ");
        line.strip_prefix("submit error (").and_then(|rest| rest.strip_suffix(')')).unwrap_or(line)
    });
    let stderr = lines.collect::<Vec<_>>().join("\n");
    Output { stderr, ..output.clone() }.words()
}

#[cfg(test)]
mod tests;
