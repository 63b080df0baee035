//! Listings of several servers, by programs that answer like theirs.

use std::{path::Path, process::Stdio};

use super::*;
use crate::{
    Adapter,
    command::Command,
    pbs::Pbs,
    testing::{site, surroundings, tags},
};

/// `qstat` and `qdel` of OpenPBS: the servers `srv1`, which is asked where none is named, and `srv2`, which `away` takes
/// away. `jobs` has lines of a server, an id, a name and a state, and `history` has records of the first server's history.
const PROGRAMS: &str = r#"
qstat() {
case $* in
--version) echo 'pbs_version = 23.06'; return ;;
-Bf) echo 'Server: srv1'; return ;;
esac
echo "qstat $*" >>"$calls"
case $* in *srv2*) [ ! -e "$folder/away" ] || { echo 'Connection refused
qstat: cannot connect to server srv2 (errno=15010)' >&2; return 255; } ;; esac
case $* in
*-u*)
server=srv1
case $* in *@srv2) server=srv2 ;; esac
grep -q "^$server " "$folder/jobs" || return 0
printf '\n%s: \n     Req'"'"'d\nJob ID\n------------------------------ --------------- --------------- ---------------\n' $server
while read -r on id name state; do
[ $on = $server ] && echo "$id me batch $name -- 1 2 -- 00:10 $state --"
done <"$folder/jobs"
return 0 ;;
-x*)
shift 2
for asked; do sed -n "/^Job Id: $asked\$/,/^\$/p" "$folder/history" 2>/dev/null; done ;;
-f*)
shift
code=0
for asked; do
found=$(grep " $asked " "$folder/jobs") || { echo "qstat: Unknown Job Id $asked" >&2; code=153; continue; }
set -- $found
printf 'Job Id: %s\n    Job_Name = %s\n    job_state = %s\n    server = %s\n\n' "$2" "$3" "$4" "$1"
done
return $code ;;
esac
}
qdel() { echo "qdel $*" >>"$calls"; }
"#;

/// The same of a TORQUE, whose commands ask `srv1` whatever server an id names, unless it stands behind an `@`.
const TORQUE: &str = r#"
qstat() {
case $* in
--version) echo 'Version: 6.1.3' >&2; return ;;
-Bf) echo 'Server: srv1'; return ;;
esac
echo "qstat $*" >>"$calls"
case $* in
*-u*@srv2) printf '\nsrv2: \n     Req'"'"'d\nJob ID\n------------------------ ----------- -------- ----------------\n1001.srv2 me batch pf1-1 -- 1 2 -- 00:10 Q --\n' ;;
*-u*) ;;
*'1001.srv2@srv2'*) echo '<Data><Job><Job_Id>1001.srv2</Job_Id><Job_Name>pf1-1</Job_Name><job_state>Q</job_state><comment>why</comment></Job></Data>' ;;
*) echo 'qstat: Unknown Job Id Error' >&2; return 153 ;;
esac
}
qdel() { echo "qdel $*" >>"$calls"; case $* in *@srv2) ;; *) echo "qdel: nonexistent job id: $1" >&2; return 153 ;; esac; }
"#;

/// Where programs find what they are to say, and write how they were called.
struct Host {
    folder: tempfile::TempDir,
    programs: &'static str,
}

impl Host {
    fn new(programs: &'static str, jobs: &str, history: &str) -> Host {
        let host = Host { folder: tempfile::tempdir().expect("a folder"), programs };
        host.write("jobs", jobs);
        host.write("history", history);
        host
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("a file");
    }

    fn run(&self, command: &Command) -> Output {
        self.write("calls", "");
        let mut argv = command.argv.clone();
        argv[2] = format!("id() {{ echo me; }}\n{}\n{}", self.programs, argv[2]);
        let folder: &Path = self.folder.path();
        let mut shell = std::process::Command::new(&argv[0]);
        shell.args(&argv[1..]).env("folder", folder).env("calls", folder.join("calls")).stdin(Stdio::null());
        let output = shell.output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    fn calls(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("calls")).expect("a file")
    }

    fn list(&self, known: &[&str]) -> Result<Vec<BatchJob>, AdapterError> {
        pbs().read_list(&self.run(&pbs().list_with("pf1-", &ids(known))))
    }
}

fn pbs() -> Pbs {
    Pbs::new(&surroundings(), &site("batch", &[]))
}

fn ids(ids: &[&str]) -> Vec<BatchId> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn shown(jobs: &[BatchJob]) -> Vec<(&str, &str, &BatchState)> {
    jobs.iter().map(|job| (job.id.as_str(), job.tag.as_str(), &job.state)).collect()
}

const ON_TWO_SERVERS: &str = "srv1 1001.srv1 mine R\nsrv1 1003.srv1 pf1-3 Q\nsrv2 1001.srv2 pf1-1 Q\n\
    srv2 1002.srv2 pf1-2 R\n";

#[test]
fn jobs_are_listed_on_each_server_that_their_ids_name_and_once() {
    let host = Host::new(PROGRAMS, ON_TWO_SERVERS, "");
    let known = ["1001.srv2", "1002.srv2.example.org", "1003.srv1"];
    let jobs = host.list(&known).expect("a listing");
    let expected = [
        ("1001.srv1", "mine", &BatchState::Running),
        ("1003.srv1", "pf1-3", &BatchState::Queued),
        ("1001.srv2", "pf1-1", &BatchState::Queued),
        ("1002.srv2", "pf1-2", &BatchState::Running),
    ];
    assert_eq!(shown(&jobs), expected);
    let calls = host.calls();
    assert_eq!(calls.matches(" -u me").count(), 2, "{calls}");
    assert!(!calls.contains("-x"), "all of them are listed: {calls}");
    host.list(&["1003.srv1", "1003.SRV1.example.org"]).expect("a listing");
    assert!(!host.calls().contains('@'), "it is the server that commands ask: {}", host.calls());
    // The number of one of ours is that of another job on the server that commands ask.
    let listing = host.run(&pbs().list_with("pf1-", &ids(&known[..1])));
    assert_eq!(tags(&pbs(), &[("1001.srv2", "pf1-1")], &listing), ["mine", "pf1-3", "pf1-1", "pf1-2"]);
}

#[test]
fn a_server_that_an_id_names_and_that_does_not_answer_makes_the_listing_fail() {
    let host = Host::new(PROGRAMS, ON_TWO_SERVERS, "");
    host.write("away", "");
    let failed = host.list(&["1001.srv2"]).expect_err("no answer").to_string();
    assert!(failed.contains("the server srv2 does not list our jobs"), "{failed}");
    assert!(host.list(&["1003.srv1"]).is_ok());
}

/// A record of the history of `srv1`.
fn moved(id: &str, substate: u32, comment: &str) -> String {
    format!(
        "Job Id: {id}\n    Job_Name = pf1-{id}\n    Job_Owner = me@h\n    job_state = M\n    queue = batch@srv2\n    \
         server = srv1\n    substate = {substate}\n    comment = {comment}\n\n"
    )
}

#[test]
fn a_job_that_was_moved_to_another_server_is_there_until_it_has_ended_there() {
    let gone = moved("1004.srv1", 94, "Job has been moved to \"batch@srv3\"");
    let over = moved("1005.srv1", 92, "Job finished at \"srv2\"");
    let ended = "Job Id: 1006.srv1\n    Job_Name = pf1-6\n    job_state = F\n    substate = 91\n\n";
    let history =
        [moved("1001.srv1", 94, "Job has been moved to \"batch@srv2\""), gone, over, ended.into()].concat();
    // `qstat` follows the first one.
    let host = Host::new(PROGRAMS, "srv2 1001.srv1 pf1-1 R\n", &history);
    let known = ["1001.srv1", "1004.srv1", "1005.srv1", "1006.srv1", "1007.srv1"];
    let jobs = host.list(&known).expect("a listing");
    let expected = [
        ("1001.srv1", "pf1-1", &BatchState::Running),
        ("1004.srv1", "pf1-1004.srv1", &BatchState::Queued),
        ("1005.srv1", "pf1-1005.srv1", &BatchState::Ended),
        ("1006.srv1", "pf1-6", &BatchState::Ended),
    ];
    assert_eq!(shown(&jobs), expected);
    let why = "moved to another server, which does not show it now: Job has been moved to \"batch@srv3\"";
    assert_eq!(jobs[1].reason.as_deref(), Some(why));
    assert_eq!(jobs[2].reason.as_deref(), Some("Job finished at \"srv2\""));
    // Without a history, too.
    let host = Host::new(PROGRAMS, "srv2 1001.srv1 pf1-1 H\n", "");
    let jobs = host.list(&["1001.srv1"]).expect("a listing");
    assert_eq!(shown(&jobs), [("1001.srv1", "pf1-1", &BatchState::Stuck("held".into()))]);
}

#[test]
fn many_jobs_that_were_moved_are_all_listed() {
    let known: Vec<String> = (1001..1041).map(|n| format!("{n}.srv1")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let jobs: String = known.iter().map(|id| format!("srv2 {id} pf1-7 Q\n")).collect();
    let host = Host::new(PROGRAMS, &jobs, "");
    assert_eq!(host.list(&known).expect("a listing").len(), known.len());
    let calls = host.calls();
    assert!(calls.contains("qstat -w -u me @srv2") && calls.matches("-f 10").count() < 45, "{calls}");
    // Their server shows none of them, and those that were not asked for may be there.
    let history: String =
        known.iter().map(|id| moved(id, 94, "Job has been moved to \"batch@srv2\"")).collect();
    let host = Host::new(PROGRAMS, "", &history);
    let failed = host.list(&known).expect_err("they may be there").to_string();
    assert!(failed.contains("40 jobs are not listed"), "{failed}");
}

#[test]
fn whatever_a_record_that_was_asked_for_by_its_id_says_its_job_is_there() {
    let host = Host::new(PROGRAMS, "", "");
    for state in ["Q", "R", "H", "W", "T", "S", "Z"] {
        host.write("history", &format!("Job Id: 12.srv1\n    Job_Name = pf1-2\n    job_state = {state}\n\n"));
        let jobs = host.list(&["12.srv1"]).expect("a listing");
        assert!(
            matches!(&jobs[..], [job] if job.tag == "pf1-2" && job.state != BatchState::Ended),
            "{jobs:?}"
        );
    }
    host.write("history", "Job Id: 12.srv1\n    Job_Owner = bob@h\n    job_state = Q\n\n");
    assert_eq!(host.list(&["12.srv1"]), Ok(vec![]), "another user has the number now");
}

#[test]
fn commands_of_torque_ask_the_server_that_an_id_names() {
    let host = Host::new(TORQUE, "", "");
    let jobs = host.list(&["1001.srv2"]).expect("a listing");
    assert_eq!(shown(&jobs), [("1001.srv2", "pf1-1", &BatchState::Queued)]);
    assert_eq!(jobs[0].reason.as_deref(), Some("why"));
    let cancelled = host.run(&pbs().cancel(&ids(&["1001.srv2"])));
    assert_eq!((host.calls().as_str(), cancelled.code), ("qdel 1001.srv2@srv2\n", Some(0)));
    let cancelled = host.run(&pbs().cancel(&ids(&["7.srv1"])));
    assert_eq!((host.calls().lines().next(), cancelled.code), (Some("qdel 7.srv1"), Some(0)));
    host.run(&pbs().age("1001.srv2").expect("PBS says it"));
    assert_eq!(host.calls(), "qstat -f 1001.srv2@srv2\n");
}
