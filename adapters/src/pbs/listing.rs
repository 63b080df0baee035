//! The listing of our user's jobs: on the server that commands ask, on those that ids of ours name, and on those to which
//! jobs were moved.

use std::collections::{BTreeMap, BTreeSet};

use super::{Jobs, answer, is_id, is_same_job, jobs_of, number, records::Record, refusal, states};
use crate::{
    command::{AdapterError, BatchId, BatchJob, BatchState, Output},
    lines::USER,
    looks_like_ours,
    script::quoted,
    silence,
};

/// Lists our user's jobs by one connection a server, whatever their number: `qstat` with ids makes a connection and proves
/// who it is for each of them. Only of the first of ours that wait the rest is asked for, which says why, and of some that
/// TORQUE shows as complete and that are known, which says how they ended. Releases that cannot show whole names in a
/// table are asked for all of everybody's jobs.
const LISTS: &str = r#"set -f
line='
'
case $form in openpbs) wide=-w full=-f record='^Job Id: ' ;; torque) wide= full=-x record='^<' ;; esac
prefix=$1
shift
known=$*
list() {
of=user jobs=$(qstat $wide -u "$user" ${1:+"@$1"})
code=$?
narrow=$(printf '%s\n' "$jobs" | awk '/^-----+ +-----/ && length($4) < 15 { print "narrow"; exit }')
if [ $code -eq 2 ] || [ -n "$narrow" ]; then
of=all jobs=$(qstat $full ${1:+"@$1"})
code=$?
fi
if [ $code -ne 0 ]; then
[ -z "$1" ] || echo "the server $1 does not list our jobs, and some of ours may be there" >&2
exit $code
fi
printf 'of=%s %s\n%s\n' "$of" "$user" "$jobs"
ids="$ids $(printf '%s\n' "$jobs" | awk -v form="$form" -v prefix="$prefix" -v known="$known" -v on="$1" '
function whole(id) {
if (length(id) >= width) { sub(/\..*/, "", id); if (on != "") id = id "." on }
if (form == "torque" && on != "") id = id "@" on
return id
}
BEGIN { n_known = split(known, all); for (i = 1; i <= n_known; i++) { sub(/[.].*/, "", all[i]); is_known[all[i]] = 1 } is_torque = form == "torque" }
/^-----+ +-----/ { width = length($1) }
{ number = $1; sub(/[.*].*/, "", number) }
is_torque && width && NF > 10 && number in is_known && $(NF - 1) == "C" && n_ended++ < 5 { print whole($1) }
width && NF > 10 && (index($4, prefix) == 1 || number in is_known) && $(NF - 1) ~ /^[QHWT]$/ && n++ < 20 { print whole($1) }')"
shown=$shown$line$({
printf '%s\n' "$jobs" | awk 'width { print $1 } /^-----+ +-----/ { width = length($1) }'
printf '%s\n' "$jobs" | sed -n 's/^Job Id: *//p'
printf '%s\n' "$jobs" | tr '<' '\n' | sed -n 's/^Job_Id>//p'
} | awk -v on="$1" '{ sub(/\*$/, ""); if (on != "" && !index($0, ".")) $0 = $0 "." on; print }')
}
echo "form=$form"
ids= shown=
list ''
"#;

/// `missing` prints the known ids that are not listed. Lists the servers that these name, too, if they are not the one that
/// commands ask: these may have asked another one before, as `PBS_DEFAULT` and `PBS_SERVER` say. One that does not answer
/// makes the listing fail, as a job that is not shown counts as ended.
const LIST_OTHERS: &str = r#"missing() {
{ printf '%s\n' "$shown" "$details"; printf '%s\n' $known; } | awk -v mark="$details" "$same"'
$0 == mark { is_known = 1; next }
$1 == "" { next }
{ number = $1; sub(/[.].*/, "", number); server = tolower(substr($1, length(number) + 2)) }
!is_known { there[number] = there[number] " " (server == "" ? "*" : server); next }
{
n = split(there[number], servers, " ")
for (i = 1; i <= n; i++) if (servers[i] == "*" || server == "" || index(server, servers[i]) == 1 || same(server, servers[i])) next
print $1
}'
}
list_others() {
for other in $(printf '%s\n' "$@" | awk -v listed="$listed" "$same"'
BEGIN { n = split(listed, names, " ") }
$0 == "" { next }
{ for (i = 1; i <= n; i++) if (same($0, names[i])) next; names[++n] = $0; print }'); do
echo "$next$other"
list "$other"
listed="$listed $other"
done
}
listed=
if [ -n "$servers" ]; then
here=$(printf '%s\n' "$jobs" | awk '/Req.d/ && head ~ /^[^ ]+: *$/ { sub(/: *$/, "", head); print head; exit } { head = $0 }')
[ -n "$here" ] || here=$(here)
listed=$here
list_others $({ missing; printf '%s\n' "$details" $known "$details" $servers; } | awk -v mark="$details" '
$0 == mark { part++; next }
part < 2 { sub(/^[^.]*[.]?/, ""); if (part) has[$0]; else lacks[$0]; next }
$0 in lacks || !($0 in has)')
fi
"#;

/// Asks for some of the known jobs that are not listed by their ids: the oldest and the newest. Where OpenPBS keeps a
/// history, it says how they ended. One of which it says that it was moved to another server, and one of which nothing
/// is said, is asked for once more: `qstat` follows such a job to its server then. Where that is one of many, its server
/// is listed.
const ASK: &str = r#"gone=$(missing)
n_gone=$(printf '%s\n' $gone | grep -c .)
gone=$(printf '%s\n' $gone | awk -v n="$n_gone" 'NR <= 10 || NR > n - 10')
history= live=
[ -z "$gone" ] || [ "$form" = torque ] || history=$(qstat -x -f $gone 2>/dev/null | sed -n '/^Job Id: /,$p')
open=$({ printf '%s\n' "$history" "$details"; printf '%s\n' $gone; } | awk -v mark="$details" '
function key(id, parts) { split(id, parts, "."); return tolower(parts[1] "." parts[2]) }
$0 == mark { is_known = 1; next }
!is_known && /^Job Id: / { id = key($3); next }
!is_known && /^    job_state = / && id != "" { state[id] = $3; id = "" }
is_known && $1 != "" && (!(key($1) in state) || state[key($1)] == "M") { print (state[key($1)] == "M" ? "moved" : "lost"), $1 }')
is_away=
while read -r how id; do
[ -n "$id" ] || continue
said=$(qstat $full $(at "$id") 2>&1 </dev/null)
code=$?
job=$(printf '%s\n' "$said" | sed -n "/$record/,\$p")
if [ $code -eq 0 ] && [ -n "$job" ]; then
live=$live$line$job$line
continue
fi
[ $how = lost ] || { is_away=$id; continue; }
if printf '%s\n' "$said" | grep -qiE 'cannot connect|refused|timed out|reset|unknown host|no route|communication failure'; then
echo "no answer says whether job $id is there: $said" >&2
exit 1
fi
done <<END
$open
END
if [ "$n_gone" -gt 20 ]; then
if [ -n "$is_away" ]; then
echo "$n_gone jobs are not listed, and job $is_away was moved to a server that does not show it" >&2
exit 1
fi
list_others $(printf '%s\n' "$live" | tr '<' '\n' | sed -nE 's/^(    server = |server>)//p')
fi
printf '%s\n' "$details"
set -- $ids
[ $# -eq 0 ] || qstat $full "$@" 2>/dev/null
[ -z "$history$live" ] || printf '%s\n' "$by_id" "$live" "$history"
printf '\nexit=0\n'
"#;

/// Between the jobs of a listing and what else is said of some of them.
pub(super) const DETAILS: &str = "--pilotfish-details--";
/// Before the jobs of another server, with its name.
const NEXT_SERVER: &str = "--pilotfish-server--";
/// Before what is said of jobs that are not listed.
pub(super) const BY_ID: &str = "--pilotfish-by-id--";

/// The lines that list our jobs, of which the first word is what tags begin with and the others are known ids.
pub(super) fn lines(known: &[BatchId]) -> String {
    let server = |id: &BatchId| id.split_once('.').filter(|_| is_id(id)).map(|(_, server)| server.to_owned());
    let servers: BTreeSet<String> = known.iter().filter_map(server).collect();
    let servers = servers.into_iter().collect::<Vec<_>>().join(" ");
    let marks = format!("details={DETAILS} next={NEXT_SERVER} by_id={BY_ID} servers={}\n", quoted(&servers));
    format!("{marks}{USER}{SERVERS}{LISTS}{LIST_OTHERS}{ASK}")
}

/// `here` is the server that commands ask. `at ID…` prints the ids so that commands ask their own server: those of OpenPBS
/// ask the one that an id names in any case, those of TORQUE only if it stands behind an `@`.
pub(super) const SERVERS: &str = r#"same='function same(a, b) { a = tolower(a) "."; b = tolower(b) "."; return index(a, b) == 1 || index(b, a) == 1 }'
here() { qstat -Bf 2>/dev/null | sed -n 's/^Server: *//p' | head -n 1; }
at() {
if [ "$form" != torque ]; then
printf '%s\n' "$@"
return
fi
[ -n "${here-}" ] || here=$(here)
printf '%s\n' "$@" | awk -v here="$here" "$same"'
{ server = $1; if (!sub(/^[^.]*[.]/, "", server)) server = "" }
server != "" && here != "" && !index(server, "@") && !same(server, here) { $1 = $1 "@" server }
{ print $1 }'
}
"#;

/// The jobs of our user.
///
/// # Errors
/// The output is no listing, or a server did not answer; the error has the words of the command.
pub(super) fn read(output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
    let (jobs, lacks_some) = read_list(output).ok_or_else(|| AdapterError::NotUnderstood(refusal(output)))?;
    // One of several servers may not have answered.
    match silence::failure_of(output).filter(|_| lacks_some) {
        Some(failure) => Err(failure),
        None => Ok(jobs),
    }
}

/// The jobs, and whether a server has listed none. A job of others that cannot be read is left out; one that may be ours
/// makes the listing one that is not understood, as a job that is not shown counts as ended.
fn read_list(output: &Output) -> Option<(Vec<BatchJob>, bool)> {
    let (listings, details) = answer(output)?.text.split_once(DETAILS)?;
    let (details, by_id) = details.split_once(BY_ID).unwrap_or((details, ""));
    let details = match jobs_of(details) {
        Some(Jobs::Records(details)) => details,
        // Some may have ended meanwhile; the listing stands for itself.
        _ => Vec::new(),
    };
    let mut of_number: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    details.iter().for_each(|job| of_number.entry(number(&job.name)).or_default().push(job));
    let (mut jobs, mut lacks_some, mut our_user) = (Vec::new(), false, "");
    for (n, listing) in listings.split(NEXT_SERVER).enumerate() {
        let (server, listing) = if n == 0 { ("", listing) } else { listing.split_once('\n')? };
        let (user, listed) = read_listing(server, listing, &of_number)?;
        our_user = user;
        lacks_some |= listed.is_empty();
        // Two names may be those of one server.
        let is_new = |job: &BatchJob| n == 0 || !jobs.iter().any(|known| is_one(known, job));
        let listed: Vec<BatchJob> = listed.into_iter().filter(is_new).collect();
        jobs.extend(listed);
    }
    let by_id = match by_id.trim().is_empty() {
        true => Vec::new(),
        false => match jobs_of(by_id)? {
            Jobs::Records(by_id) => by_id,
            Jobs::Rows(_) => return None,
        },
    };
    // Live records stand first: of a moved job the server that has it now counts, not the history of the first one.
    for record in by_id.iter().filter(|job| is_of(job, our_user)) {
        let name = record.attribute("Job_Name");
        // A number without a server may be that of another job.
        let is_told = |known: &BatchJob| {
            is_same_job(&known.id, &record.name)
                && (known.id.contains('.') || name == Some(known.tag.as_str()))
        };
        if is_id(&record.name) && !jobs.iter().any(is_told) {
            jobs.push(job_by_id(record));
        }
    }
    Some((jobs, lacks_some))
}

/// The user whose jobs were asked for, and the jobs that a server lists; `server`: its name, if that had to be named.
fn read_listing<'t>(
    server: &str,
    listing: &'t str,
    details: &BTreeMap<&str, Vec<&Record>>,
) -> Option<(&'t str, Vec<BatchJob>)> {
    let (of, jobs) = listing.strip_prefix("of=")?.split_once('\n')?;
    let (of, user) = of.split_once(' ')?;
    let rows = match jobs_of(jobs)? {
        Jobs::Records(records) => {
            let listed = records.iter().filter(|job| of == "user" || is_of(job, user));
            let read: Option<Vec<Option<BatchJob>>> = listed.map(read_job).collect();
            return Some((user, read?.into_iter().flatten().collect()));
        }
        Jobs::Rows(rows) => rows,
    };
    let jobs = rows.into_iter().map(|row| {
        let id = match server.is_empty() || row.id.contains('.') {
            true => row.id.to_owned(),
            false => format!("{}.{server}", row.id),
        };
        let of_number = details.get(number(&id)).into_iter().flatten();
        let details = of_number.copied().find(|job| is_same_job(&id, &job.name));
        let more = |name| details.and_then(|job| job.attribute(name)).unwrap_or("");
        let job = states::job(&id, row.name, row.state, more("comment"), more("Hold_Types"));
        let end = details.filter(|_| job.state == BatchState::Ended).and_then(states::end);
        BatchJob { reason: job.reason.or(end), ..job }
    });
    Some((user, jobs.collect()))
}

/// Whether two servers list one job.
fn is_one(known: &BatchJob, job: &BatchJob) -> bool {
    known.tag == job.tag && (is_same_job(&job.id, &known.id) || is_same_job(&known.id, &job.id))
}

/// Whether it is a job of that user, or of nobody that is named.
fn is_of(record: &Record, user: &str) -> bool {
    let owner = record.attribute("Job_Owner").and_then(|owner| owner.split('@').next());
    owner.is_none_or(|owner| owner == user)
}

/// A job that was asked for by its id. It is there unless its record says that it has ended, whatever else cannot be
/// read: a job of ours without a name has its tag by its id.
fn job_by_id(record: &Record) -> BatchJob {
    let attribute = |name| record.attribute(name).unwrap_or("");
    let (name, comment) = (attribute("Job_Name").to_owned(), attribute("comment"));
    match attribute("job_state") {
        "M" => {
            let (state, reason) = states::moved(record);
            BatchJob { id: record.name.clone(), tag: name, state, n_tasks: None, reason }
        }
        state => {
            let job = states::job(&record.name, name, state, comment, attribute("Hold_Types"));
            let end = Some(record).filter(|_| job.state == BatchState::Ended).and_then(states::end);
            BatchJob { reason: job.reason.or(end), ..job }
        }
    }
}

/// A job of a record: no job if it is another's and cannot be read; `None` if one that may be ours cannot be read.
fn read_job(record: &Record) -> Option<Option<BatchJob>> {
    let name = record.attribute("Job_Name");
    let attribute = |name| record.attribute(name).unwrap_or("");
    match (name, record.attribute("job_state")) {
        (Some(name), Some(state)) if is_id(&record.name) => {
            let (comment, holds) = (attribute("comment"), attribute("Hold_Types"));
            Some(Some(states::job(&record.name, name.to_owned(), state, comment, holds)))
        }
        (Some(name), _) if !looks_like_ours(name) => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
