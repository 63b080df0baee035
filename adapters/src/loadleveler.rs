//! `loadleveler`: pilots as batch jobs of IBM LoadLeveler, by the raw form of `llq`: its table cuts names and
//! its long form differs between releases. No LoadLeveler can be had any more: all here is from its manuals
//! and from what other programs that drove it tell.

mod answers;
mod file;

use std::time::Duration;

use profiles::site::Site;

use self::answers::NEXT;
use crate::{
    AGE_OF_SUBMITTED, Adapter, Surroundings,
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, Command, Output, Queue, QueueLoad},
    lines::{USER, WRONG},
    newest,
    silence::unless_it_failed,
    unread::Unread,
};

pub(crate) const NAME: &str = "loadleveler";

/// A central manager that hangs lets commands hang for ever.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A manager that runs in a step has variables of that step; the one that says where the configuration is
/// stays. Accounts reached by SSH have short paths.
const BEGINNING: &str = r#"for v in $(env | sed -nE 's/^(LOADL[A-Za-z0-9_]*)=.*/\1/p'); do
[ "$v" = LOADL_CONFIG ] || unset "$v"
done
export LC_ALL=C
PATH=$PATH:/opt/ibmll/LoadL/full/bin:/opt/ibmll/LoadL/scheduler/full/bin:/usr/lpp/LoadL/full/bin
"#;

/// Keeps the job command file and, for its owner only, the join document, which filters of a site and whoever
/// reads the schedd's copy would see in it. What was not submitted leaves nothing behind.
const SUBMIT: &str = r#"file=$2 folder=${2%/*}
umask 077
mkdir -p "$folder" && while IFS= read -r line && [ "$line" != "$end" ]; do printf '%s\n' "$line"; done >"$file" &&
cat >"$folder/join" || exit 73
"$@" && exit
code=$?
rm -f "$file" "$folder/join"; rmdir "$folder" 2>/dev/null
exit $code"#;

/// Our own steps; of those of ours that are held, why. The id comes last, as one that was cut is none.
const LIST: &str = r#"jobs=$(llq -r %st %jn %id -u "$user")
code=$?
printf '%s\n' "$jobs"
held=$(printf '%s\n' "$jobs" | awk -F '!' -v prefix="$1" -v known="$*" '
BEGIN { n_known = split(known, all, " "); for (i = 2; i <= n_known; i++) is_known[all[i]] = 1 }
$1 ~ /^(H|S|HS)$/ && (index($2, prefix) == 1 || $NF in is_known) { print $NF }')
[ -z "$held" ] || { echo "$next"; llq -s $held 2>&1; }
printf '\nexit=%s\n' $code"#;

/// What is told of steps that are gone is not known: where something goes wrong, those that are still there
/// are cancelled one by one. A step that has ended may be shown for a while.
const CANCEL: &str = r#"gone='^ *$'
said=$(llcancel "$@" 2>&1) && [ -z "$(wrong "$said")" ] && exit
left=$(llq -r %st %id "$@" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
code=0
case $left in *!*) ;; *'no job status to report'*) exit 0 ;; *) printf '%s\n' "$said" >&2; exit 1 ;; esac
for id in $(printf '%s\n' "$left" | awk -F '!' 'NF == 2 && $1 !~ /^(RP|RM|CA|C|NR|TX|SX)$/ { print $2 }'); do
llcancel "$id" >/dev/null || code=1
done
exit $code"#;

const DESCRIBE: &str = r#"llclass -l && echo "$next" && llstatus -r %n %sta %sts %cpu %m
printf '\nexit=%s\n' $?"#;

/// Of the class that is named, or of all machines.
const LOAD_OF_CLASS: &str = r#"llclass -l -c "$1" && echo "$next" && llq -r %st %id -c "$1"
printf '\nexit=%s\n' $?"#;
const LOAD_OF_ALL: &str = r#"llstatus -r %sta %sts %cpu %r && echo "$next" && llq -r %st %id
printf '\nexit=%s\n' $?"#;

/// Names a submission in messages.
const SUBMISSION: &str = "llsubmit (submitting a job)";

/// Exit codes after which nothing was submitted: no room for the files; no `llsubmit`.
const REFUSED: [i32; 3] = [73, 126, 127];

/// What ends every refusal; the one message whose number is known.
const NOT_SUBMITTED: [&str; 2] = ["2512-051", "has not been submitted to LoadLeveler"];

/// Lines of a submission that say nothing of what came of it.
const NOISE: [&str; 2] =
    ["Processed command file through Submit Filter", "Stdin job command file written to"];

pub(crate) struct LoadLeveler {
    agent_command: Vec<String>,
    site: Site,
}

impl LoadLeveler {
    pub(crate) fn new(surroundings: &Surroundings, site: &Site) -> LoadLeveler {
        LoadLeveler { agent_command: surroundings.agent_command.clone(), site: site.clone() }
    }

    /// Runs `lines`, in which `"$@"` are the words. `name`: what people are told that it is.
    fn shell(name: &str, lines: &str, words: Vec<String>, stdin: Vec<u8>) -> Command {
        Command::shell(name, &format!("{BEGINNING}{lines}"), words, stdin, TIME_LIMIT)
    }

    /// The same where `$next` stands between what two commands print.
    fn ask(name: &str, lines: &str, words: Vec<String>) -> Command {
        LoadLeveler::shell(name, &format!("next={NEXT}\n{lines}"), words, Vec::new())
    }
}

impl Adapter for LoadLeveler {
    fn name(&self) -> &'static str {
        NAME
    }

    fn submit(&self, request: &AllocationRequest) -> Command {
        match file::job_command_file(&self.site, &self.agent_command, request) {
            // What says no without asking anybody.
            Err(why) => {
                LoadLeveler::shell(SUBMISSION, "echo \"$1\" >&2; exit 73", vec![why.to_owned()], Vec::new())
            }
            Ok(file) => {
                let words = vec!["llsubmit".to_owned(), format!("{}/{}", request.folder, file::NAME)];
                let stdin = [file.as_bytes(), file::END.as_bytes(), b"\n", &request.join].concat();
                LoadLeveler::shell(SUBMISSION, &format!("end={}\n{SUBMIT}", file::END), words, stdin)
            }
        }
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code == Some(0) {
            let id = answers::submitted(&output.stdout);
            return id.ok_or_else(|| AdapterError::NotUnderstood(words(output)));
        }
        let is_refused = output.code.is_some_and(|code| REFUSED.contains(&code))
            || NOT_SUBMITTED
                .iter()
                .any(|words| output.stderr.contains(words) || output.stdout.contains(words));
        Err(match is_refused {
            true => AdapterError::Refused(words(output)),
            false => AdapterError::NotUnderstood(words(output)),
        })
    }

    fn list(&self, tag_prefix: &str) -> Command {
        self.list_with(tag_prefix, &[])
    }

    fn list_with(&self, tag_prefix: &str, known: &[BatchId]) -> Command {
        let words = [file::job_name(tag_prefix)].into_iter().chain(newest(known));
        LoadLeveler::ask("llq (listing jobs)", &format!("{USER}{LIST}"), words.collect())
    }

    /// The id of a job of several steps has no number of a step, and a listing may show a host's name without its
    /// domain.
    fn is_same_job(&self, listed: &str, submitted: &str) -> bool {
        answers::is_same_job(listed, submitted)
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        understood(output, answers::jobs).and_then(|jobs| unless_it_failed(output, jobs))
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        let lines = format!("{WRONG}{CANCEL}");
        LoadLeveler::shell("llcancel (cancelling jobs)", &lines, ids.to_vec(), Vec::new())
    }

    fn age(&self, id: &str) -> Option<Command> {
        let line = format!(
            "submitted=$(llq -l \"$1\" | sed -n 's/^ *Queue Date: *//p' | head -n 1) && {AGE_OF_SUBMITTED}"
        );
        let name = "llq -l (asking for the age of a job)";
        Some(LoadLeveler::shell(name, &line, vec![id.to_owned()], Vec::new()))
    }

    fn version(&self) -> Option<Command> {
        Some(LoadLeveler::shell("llsubmit -v", "exec llsubmit -v", Vec::new(), Vec::new()))
    }

    fn describe(&self) -> Option<Command> {
        Some(LoadLeveler::ask("llclass and llstatus (asking for classes and machines)", DESCRIBE, Vec::new()))
    }

    fn read_describe_with(
        &self,
        output: &Output,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Queue>, AdapterError> {
        let mut unread = ["llclass", "llstatus"].map(Unread::of);
        let queues = understood(output, |text| answers::queues(text, &mut unread));
        let mut queues = told(queues, unread, left_out)?;
        // What a site calls its GPUs is in no listing, and a machine is not to be taken for one without.
        if self.site.resource_names.gpu_resource.is_some() {
            for queue in &mut queues {
                queue.nodes.clear();
                queue.nodes_away.clear();
            }
        }
        Ok(queues)
    }

    fn load(&self) -> Option<Command> {
        Some(match &self.site.queue {
            Some(class) => {
                LoadLeveler::ask("llclass (asking how busy it is)", LOAD_OF_CLASS, vec![class.clone()])
            }
            None => LoadLeveler::ask("llstatus and llq (asking how busy it is)", LOAD_OF_ALL, Vec::new()),
        })
    }

    fn read_load_with(&self, output: &Output, left_out: &mut Vec<String>) -> Result<QueueLoad, AdapterError> {
        let mut unread = Unread::of(if self.site.queue.is_some() { "llclass" } else { "llstatus" });
        let load = understood(output, |text| match &self.site.queue {
            Some(class) => answers::load_of_class(text, class, &mut unread),
            None => answers::load_of_all(text, &mut unread),
        });
        told(load, [unread], left_out)
    }
}

/// Returns what was read, and adds to `left_out` the lines that were not understood. If nothing was read, the error names
/// the first such line.
fn told<T>(
    read: Result<T, AdapterError>,
    unread: impl IntoIterator<Item = Unread>,
    left_out: &mut Vec<String>,
) -> Result<T, AdapterError> {
    for unread in unread {
        unread.tell(usize::from(read.is_ok()), left_out)?;
    }
    read
}

/// What a call of ours that came to its end said; commands that fail say so in lines of their
/// own, and not always by their exit codes.
fn understood<T>(output: &Output, read: impl FnOnce(&str) -> Option<T>) -> Result<T, AdapterError> {
    let answer = output.stdout.strip_suffix("\nexit=0\n").filter(|_| output.code == Some(0));
    // Where there is nothing to report is not said for certain.
    let nothing = output.stderr.lines().find(|line| answers::is_nothing_to_report(line));
    let answer = answer.map(|text| match nothing {
        Some(nothing) => format!("{text}\n{nothing}"),
        None => text.to_owned(),
    });
    let has_failed = output.stderr.lines().any(answers::is_failure);
    let answer = answer.filter(|_| !has_failed).and_then(|text| read(&text));
    answer.ok_or_else(|| AdapterError::NotUnderstood(words(output)))
}

/// What it said for people, the cause and not what stands around it: without the names of programs, and what
/// a site's filter says too.
fn words(output: &Output) -> String {
    let of_stdout = output.stdout.lines().filter(|line| answers::message(line).is_some());
    let lines = output.stderr.lines().chain(of_stdout);
    let lines: Vec<&str> = lines
        .filter(|line| !NOISE.iter().any(|noise| line.contains(noise)))
        .map(|line| answers::message(line).unwrap_or(line).trim())
        .filter(|line| !line.is_empty())
        .collect();
    let is_reason = |line: &&&str| !NOT_SUBMITTED.iter().any(|words| line.contains(words));
    let reasons: Vec<&str> = lines.iter().filter(is_reason).copied().collect();
    let said = if reasons.is_empty() { lines } else { reasons };
    Output { stderr: said.join("\n"), ..output.clone() }.all_words()
}

#[cfg(test)]
mod tests;
