//! What the recordings of a real SLURM mean.

use super::*;
use crate::{
    testing::{request, site, surroundings, tags},
    transcripts::{Step, all_of, of, steps},
};

fn slurm() -> Slurm {
    Slurm::new(&surroundings(), &site("batch", &["--constraint=avx512"]))
}

/// What was recorded with the long form, in ours.
fn listing(step: &Step) -> Output {
    let ours = |line: &str| {
        let fields: Vec<&str> = line.split('|').collect();
        assert_eq!(fields.len(), 15, "{line}");
        format!("{}|{}|{}|{}\n", fields[1], fields[4], fields[5], fields[8])
    };
    let jobs: String = step.output.stdout.lines().map(ours).collect();
    Output { stdout: format!("CLUSTER: \n{jobs}"), ..step.output.clone() }
}

const LONG: &str = "squeue -h -a -r -t all -o '%i|%A|%F|%K|%T|%r|%u|%P|%j|%S|%e|%l|%D|%N|%k'";

#[test]
fn the_join_document_is_in_the_script_only() {
    let command = slurm().submit(&request(1));
    assert!(command.argv.iter().all(|word| !word.contains("secret")), "{:?}", command.argv);
    assert_eq!(
        command.argv[4..].join(" "),
        "sbatch --parsable --no-requeue --export=NONE --ntasks-per-node=1 --job-name=pf1-2 --nodes=1 --cpus-per-task=4 \
         --output=/dev/null --partition=batch --account=lab --mem=3072M --gres=gpu:2 --time=61 --constraint=avx512"
    );
    assert_eq!(
        String::from_utf8_lossy(&command.stdin),
        format!(
            "#!/bin/sh\n(umask 077; mkdir -p /scratch/pilots/pf1-2 && : >> /scratch/pilots/pf1-2/job.log) && \
             exec >> /scratch/pilots/pf1-2/job.log 2>&1\nmodule load glibc\n{FIND_END}\n\
             exec '/opt/pilot fish/agent' run --tag pf1-2 --join - <<'PILOTFISH-JOIN'\n\
             {{\"token\":\"secret\"}}\nPILOTFISH-JOIN\n"
        )
    );
}

#[test]
fn the_pilot_is_told_when_its_job_ends_where_slurm_has_not_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let end_is = |variables: &[(&str, &str)], squeue: &str| {
        let program = folder.path().join("squeue");
        std::fs::write(&program, format!("#!/bin/sh\n{squeue}\n")).expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).expect("a program");
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-ec", &format!("{FIND_END}\necho \"<${{SLURM_JOB_END_TIME-}}>\"")]).env_clear();
        shell.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display())).env("TZ", "UTC");
        let output = shell.envs(variables.iter().copied()).output().expect("a shell");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_TIME_FORMAT", "relative")];
    let says =
        "[ \"$*\" = '-h -j 7 -o %e' ] && [ $SLURM_TIME_FORMAT = standard ] && echo 2126-11-29T16:20:00";
    assert_eq!(end_is(&job, says), "<4951642800>");
    assert_eq!(end_is(&[job[0], ("SLURM_JOB_END_TIME", "5")], says), "<5>");
    for failing in ["echo NONE", "echo 2020-01-01T00:00:00", "echo Unable to contact >&2; exit 1", "true"] {
        assert_eq!(end_is(&job, failing), "<>", "{failing}");
    }
}

#[test]
fn several_nodes_have_an_agent_each() {
    let script = slurm().submit(&request(3)).stdin;
    assert!(String::from_utf8_lossy(&script).contains(
        "\nexec env -u SLURM_EXPORT_ENV srun --kill-on-bad-exit=0 --wait=0 --cpus-per-task=4 '/opt"
    ));
}

#[test]
fn accepted_submissions_are_numbers() {
    let recorded = steps(include_str!("../../transcripts/slurm/submit-ok.txt"));
    for step in of(&recorded, "sbatch --parsable").into_iter().filter(|step| step.output.code == Some(0)) {
        let id = slurm().read_submit(&step.output);
        let number = id.as_ref().ok().and_then(|id| on_cluster(id).0.parse::<u64>().ok());
        assert!(number.is_some(), "{}: {id:?}", step.command);
    }
}

#[test]
fn refused_submissions_say_why() {
    let recorded = steps(include_str!("../../transcripts/slurm/submit-rejected.txt"));
    let limit = "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates \
        accounting/QOS policy (job submit limit, user's size and/or time limits)\n";
    let output = Output { code: Some(1), stderr: limit.into(), ..Output::default() };
    let answer = slurm().read_submit(&output);
    assert!(
        matches!(&answer, Err(AdapterError::NoRoom(why)) if why.starts_with("QOSMaxSubmitJobPerUserLimit; "))
    );
    let refused: Vec<&Step> =
        of(&recorded, "sbatch").into_iter().filter(|s| s.output.code != Some(0)).collect();
    assert!(refused.len() > 10, "{}", refused.len());
    for step in &refused {
        let answer = slurm().read_submit(&step.output);
        assert!(
            matches!(&answer, Err(AdapterError::Refused(why) | AdapterError::NoRoom(why)) if why.len() > 10),
            "{}: {answer:?}",
            step.command
        );
    }
    let said = |command: &str| {
        let step = refused.iter().find(|step| step.command.contains(command)).expect(command);
        slurm().read_submit(&step.output).map_err(|error| error.to_string())
    };
    let first = slurm().read_submit(&refused[0].output).map_err(|error| error.to_string());
    let partition = "refused: invalid partition specified: nosuch; Batch job submission failed: Invalid partition name specified";
    assert_eq!(first, Err(partition.to_owned()));
    let lua = "sbatch: error: lua: Dear user, project lab has expired.\nsbatch: error: lua: Write to help@hpc.org.\n\
        sbatch: error: Batch job submission failed: Unspecified error\n";
    let expired = slurm().read_submit(&Output { code: Some(1), stderr: lua.into(), ..Output::default() });
    let words = "lua: Dear user, project lab has expired. lua: Write to help@hpc.org. Batch job submission failed: \
        Unspecified error";
    assert_eq!(expired, Err(AdapterError::Refused(words.to_owned())));
    let option = "refused: unrecognized option '--nosuchoption'";
    assert_eq!(said("--nosuchoption"), Err(option.to_owned()));
}

#[test]
fn a_controller_that_does_not_answer_leaves_everything_open() {
    for text in [
        include_str!("../../transcripts/slurm/controller-slow.txt"),
        include_str!("../../transcripts/slurm/controller-down.txt"),
    ] {
        let recorded = steps(text);
        let failed = |step: &&Step| step.output.code != Some(0);
        for step in of(&recorded, "sbatch").into_iter().filter(failed) {
            let answer = slurm().read_submit(&step.output);
            assert!(matches!(answer, Err(AdapterError::NotUnderstood(_))), "{}: {answer:?}", step.command);
        }
        let listings: Vec<_> = of(&recorded, "squeue -h -t all").into_iter().filter(failed).collect();
        assert!(!listings.is_empty());
        for step in listings {
            assert!(slurm().read_list(&step.output).is_err(), "{}", step.command);
        }
    }
}

#[test]
fn every_recorded_state_is_known() {
    let mut n_jobs = 0;
    let recorded = all_of("slurm");
    for step in of(&recorded, LONG).into_iter().filter(|step| step.output.code == Some(0)) {
        let jobs = slurm().read_list(&listing(step)).expect(&step.command);
        assert!(jobs.iter().all(|job| !matches!(job.state, BatchState::Unknown(_))), "{jobs:?}");
        n_jobs += jobs.len();
    }
    assert!(n_jobs > 60, "{n_jobs}");
}

#[test]
fn states_are_what_they_mean_for_a_pilot() {
    let state = |state, reason| state_of(state, reason);
    // It goes on at another cluster of the federation.
    assert_eq!(state("REVOKED", "None"), BatchState::Unknown("REVOKED".into()));
    assert_eq!(state("PENDING", "Resources"), BatchState::Queued);
    assert_eq!(state("PENDING", "ReqNodeNotAvail, UnavailableNodes:n3"), BatchState::Queued);
    assert_eq!(state("PENDING", "PartitionDown"), BatchState::Stuck("PartitionDown".into()));
    let per_job = "QOSMaxWallDurationPerJobLimit";
    assert_eq!(state("PENDING", per_job), BatchState::Stuck(per_job.into()));
    assert_eq!(state("PENDING", "QOSMaxJobsPerUserLimit"), BatchState::Queued);
    assert_eq!(state("COMPLETING", "None"), BatchState::Running, "it is not gone yet");
    assert_eq!(state("CANCELLED by 1003", "None"), BatchState::Ended);
    assert_eq!(state("LEVITATING", "None"), BatchState::Unknown("LEVITATING".into()));
}

#[test]
fn why_a_job_waits_is_told_of_those_that_wait() {
    let stdout = "7|PENDING|AssocGrpBillingMinutes|pf1-1\n8|RUNNING|None|pf1-2\n9|PENDING|None|pf1-3\n\
        10|FAILED|NonZeroExitCode|pf1-4\n";
    let output = Output { code: Some(0), stdout: stdout.into(), ..Output::default() };
    let jobs = slurm().read_list(&output).expect("a listing");
    let reasons: Vec<Option<&str>> = jobs.iter().map(|job| job.reason.as_deref()).collect();
    assert_eq!(reasons, [Some("AssocGrpBillingMinutes"), None, None, Some("FAILED")]);
}

fn lists(stdout: &str) -> Result<Vec<(String, String)>, AdapterError> {
    let output = Output { code: Some(0), stdout: stdout.into(), ..Output::default() };
    Ok(slurm().read_list(&output)?.into_iter().map(|job| (job.id, job.tag)).collect())
}

#[test]
fn a_job_of_others_that_cannot_be_read_hides_none_of_ours() {
    let ours = "7|PENDING|Resources|pf1-2\n";
    let of = |id: &str, tag: &str| (id.to_owned(), tag.to_owned());
    let odd = "900|RUNNING|None|two\nlines\n\r\n12|x\n\u{fffd}|\u{1b}\n";
    assert_eq!(lists(&format!("{odd}{ours}{odd}")).map(|jobs| jobs.len()), Ok(3));
    assert_eq!(lists(&format!("{ours}{odd}")).map(|jobs| jobs[0].clone()), Ok(of("7", "pf1-2")));
    for unread in
        ["what?\n", "8|PENDING|pf1-3\n", "8|PENDING|None|pf1-3\n9|PEND", "PENDING|Resources|pf1-2\n"]
    {
        assert!(lists(&format!("{ours}{unread}")).is_err() || unread == "what?\n", "{unread}");
        assert!(lists(unread).is_err(), "{unread}");
    }
}

#[test]
fn jobs_of_a_cluster_have_its_name() {
    let of = |id: &str, tag: &str| (id.to_owned(), tag.to_owned());
    let jobs = lists("CLUSTER: hpc2\n\n1001|PENDING|Resources|pf1-2\n");
    assert_eq!(jobs, Ok(vec![of("1001;hpc2", "pf1-2")]));
    assert_eq!(lists("CLUSTER: hpc2\n"), Ok(vec![]));
}

/// Runs a command with these programs, as shell functions that write how they were called.
fn run(programs: &str, environment: &[(&str, &str)], command: &Command) -> Output {
    let mut argv = command.argv.clone();
    argv[2] = format!("{programs}\n{}", argv[2]);
    let mut shell = std::process::Command::new(&argv[0]);
    shell.args(&argv[1..]).env_remove("SLURM_CLUSTERS").envs(environment.iter().copied());
    let output = shell.stdin(std::process::Stdio::null()).output().expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

const PROGRAMS: &str = r#"
sbatch() { echo "sbatch $*" >&2; echo "1001;hpc2"; }
squeue() { echo "squeue $*" >&2; echo "1001|PENDING|Resources|pf1-2"; }
scancel() { echo "scancel $*" >&2; }
sinfo() { echo "sinfo $*" >&2; }
"#;

#[test]
fn every_command_names_the_cluster() {
    let by_options = |option: &str| Slurm::new(&surroundings(), &site("batch", &[option]));
    let cases = [
        (by_options("--clusters=hpc2"), None),
        (by_options("--cl=HPC2"), None),
        (by_options("-Mhpc2"), None),
        (by_options("-M hpc2"), None),
        (by_options("-QMhpc2"), None),
        (slurm(), Some(("SLURM_CLUSTERS", "hpc2"))),
    ];
    for (slurm, environment) in &cases {
        let name = slurm.cluster.as_deref().unwrap_or("hpc2");
        let run = |command: &Command| run(PROGRAMS, environment.as_slice(), command);
        let submitted = run(&slurm.submit(&request(1)));
        let id = slurm.read_submit(&submitted).expect("an id");
        assert_eq!(id, format!("1001;{name}"), "{submitted:?}");
        assert!(
            submitted.stderr.starts_with(&format!("sbatch --clusters={name} --parsable")),
            "{submitted:?}"
        );
        assert_eq!(submitted.stderr.matches("hpc2").count() + submitted.stderr.matches("HPC2").count(), 1);
        let listed = slurm.read_list(&run(&slurm.list("pf1-"))).expect("a listing");
        assert_eq!(listed[0].id, id);
        let others = [
            slurm.list("pf1-"),
            slurm.cancel(std::slice::from_ref(&id)),
            slurm.why_it_waits(&id).expect("one"),
        ];
        for command in others.iter().chain(&slurm.describe()).chain(&slurm.load()) {
            let said = run(command).stderr;
            let is_told = said.lines().all(|line| line.contains(&format!(" --clusters={name} ")));
            assert!(is_told && !said.is_empty(), "{said}");
        }
    }
}

#[test]
fn a_job_is_cancelled_where_it_is() {
    let command = slurm().cancel(&["7".into(), "1001;hpc2".into(), "8".into(), "1002;hpc3".into()]);
    let said = run(PROGRAMS, &[], &command);
    let expected = "scancel 7 8\nscancel --clusters=hpc2 1001\nscancel --clusters=hpc3 1002\n";
    assert_eq!((said.stderr.as_str(), said.code), (expected, Some(0)));
    let failing = PROGRAMS.replace("scancel $*\" >&2;", "scancel $*\" >&2; [ $# -gt 1 ];");
    assert_eq!(run(&failing, &[], &slurm().cancel(&["7".into()])).code, Some(1));
}

#[test]
fn a_job_that_a_site_sends_to_another_cluster_is_taken_back() {
    let said = run(PROGRAMS, &[], &slurm().submit(&request(1)));
    let answer = slurm().read_submit(&said);
    assert!(matches!(&answer, Err(AdapterError::Refused(why)) if why.contains("options: [--clusters=hpc2]")));
    assert!(said.stderr.contains("\nscancel --clusters=hpc2 1001\n"), "{said:?}");
    for scancel in [
        "return 1",
        "echo 'scancel: error: Kill job error on job id 1001: Unable to contact slurm controller' >&2",
    ] {
        let failing = PROGRAMS.replace("scancel $*\" >&2;", &format!("scancel $*\" >&2; {scancel};"));
        let said = run(&failing, &[], &slurm().submit(&request(1)));
        let why = slurm().read_submit(&said).expect_err("it is nowhere where we look").to_string();
        assert!(why.contains("cluster hpc2 as job 1001 and could not be cancelled there"), "{why}");
        assert!(!why.contains("was cancelled"), "{why}");
    }
    let several = run(PROGRAMS, &[("SLURM_CLUSTERS", "a,b")], &slurm().list("pf"));
    assert!(slurm().read_list(&several).is_err_and(|error| error.to_string().contains("several clusters")));
}

#[test]
fn all_of_a_refusal_is_told() {
    let stderr = "sbatch: error: lua: Please ask for memory by core (--mem-per-cpu), not by node\n\
        sbatch: error: cli_filter plugin terminated with error\n";
    let output = Output { code: Some(1), stderr: stderr.into(), ..Output::default() };
    let why = "lua: Please ask for memory by core (--mem-per-cpu), not by node; cli_filter plugin terminated with error";
    assert_eq!(slurm().read_submit(&output), Err(AdapterError::Refused(why.into())));
}

#[test]
fn what_a_site_says_of_memory_and_gpus_stands_in_place_of_ours() {
    let words = |options: &[&str]| {
        let slurm = Slurm::new(&surroundings(), &site("batch", options));
        slurm.submit(&request(1)).argv[4..].join(" ")
    };
    let both = words(&[]);
    assert!(both.contains("--mem=3072M") && both.contains("--gres=gpu:2"), "{both}");
    for option in ["--mem-per-cpu=4G", "--mem=0", "--mem-per-gpu=1G", "--mem-per-c=4G"] {
        let words = words(&[option]);
        assert!(!words.contains("--mem=3072M") && words.contains(option), "{words}");
    }
    for option in ["--gres=gpu:a100:2", "--gpus=a100:2", "--gpus-per-node=2"] {
        let words = words(&[option]);
        assert!(!words.contains("--gres=gpu:2") && words.contains(option), "{words}");
    }
}

#[test]
fn nodes_have_what_sinfo_says_of_them() {
    let node = |memory: &str, gres: &str| {
        let queue = read_queue(&format!("batch*|up|1:00:00|idle|2|2|{memory}|{gres}")).expect("a queue");
        (queue.nodes[0].1.memory_bytes >> 20, queue.nodes[0].1.gpus)
    };
    assert_eq!(node("1", "(null)"), (0, 0), "RealMemory is not set");
    assert_eq!(node("1+", "gpu"), (0, 1));
    assert_eq!(node("4000", "gpu:a100:2(S:0-1,3),gpu:v100:1,shard:8"), (4000, 3));
    assert_eq!(node("4000", "gpu:a100"), (4000, 1));
    assert_eq!(node("4000", "gpu:a100:no_consume:4"), (4000, 4));
}

#[test]
fn a_limit_of_the_site_is_no_room_and_one_on_a_single_job_is_a_refusal() {
    let general = "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, \
        user's size and/or time limits)\n";
    let answer = |first: &str| {
        let stderr = format!("{first}{general}");
        slurm().read_submit(&Output { code: Some(1), stderr, ..Output::default() })
    };
    for first in [
        "",
        "sbatch: error: AssocMaxSubmitJobLimit\n",
        "sbatch: error: QOSMaxSubmitJobPerUserLimit\n",
        "sbatch: error: AssocGrpSubmitJobsLimit\n",
        "sbatch: error: QOSGrpCpuLimit\n",
        "sbatch: error: QOSMaxNodePerUserLimit\n",
        "sbatch: error: AssocGrpBillingMinutes\n",
    ] {
        let answer = answer(first);
        let is_told = |why: &String| why.contains("Job violates accounting/QOS policy");
        assert!(matches!(&answer, Err(AdapterError::NoRoom(why)) if is_told(why)), "{first}: {answer:?}");
    }
    for first in [
        "QOSMaxWallDurationPerJobLimit",
        "QOSMaxCpuPerJobLimit",
        "AssocMaxWallDurationPerJobLimit",
        "QOSMaxGRESPerJob",
    ] {
        let answer = answer(&format!("sbatch: error: {first}\n"));
        assert!(matches!(&answer, Err(AdapterError::Refused(why)) if why.starts_with(first)), "{answer:?}");
    }
    let stderr = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n\
        sbatch: error: Batch job submission failed: Resource temporarily unavailable\n";
    let full = slurm().read_submit(&Output { code: Some(1), stderr: stderr.into(), ..Output::default() });
    assert!(matches!(full, Err(AdapterError::NoRoom(_))), "{full:?}");
}

#[test]
fn jobs_are_listed_on_each_cluster_that_their_ids_name_and_once() {
    let squeue = r#"squeue() { case "$*" in
*--clusters=hpc3*) echo "squeue: error: hpc3 is away" >&2; return 1 ;;
*--clusters=*) echo "CLUSTER: hpc2"; echo "1001|PENDING|Resources|pf1-2" ;;
*) echo "1001|RUNNING|None|pf1-1" ;;
esac; }"#;
    let ids = |known: &[&str], environment: &[(&str, &str)]| {
        let known: Vec<BatchId> = known.iter().map(|id| (*id).to_owned()).collect();
        let said = run(squeue, environment, &slurm().list_with("pf1-", &known));
        slurm().read_list(&said).map(|jobs| jobs.into_iter().map(|job| job.id).collect::<Vec<_>>())
    };
    let on_hpc2 = [("SLURM_CLUSTERS", "hpc2")];
    assert_eq!(ids(&[], &[]), Ok(vec!["1001".to_owned()]));
    assert_eq!(ids(&["1001;hpc2", "1002;hpc2"], &[]), Ok(vec!["1001".to_owned(), "1001;hpc2".to_owned()]));
    assert_eq!(ids(&["1001;hpc2"], &on_hpc2), Ok(vec!["1001;hpc2".to_owned()]));
    assert_eq!(ids(&["1001"], &on_hpc2), Ok(vec!["1001;hpc2".to_owned(), "1001".to_owned()]));
    assert_eq!(ids(&["1001;HPC2", "1002;hpc2"], &on_hpc2), Ok(vec!["1001;hpc2".to_owned()]), "one cluster");
    assert!(ids(&["7;hpc3"], &[]).is_err(), "a cluster that does not answer hides its jobs");
}

#[test]
fn words_of_a_site_before_a_listing_hide_nothing() {
    let banner = "Welcome to HPC! Maintenance on Monday.\n\n";
    let ours = "7|PENDING|Resources|pf1-2\n";
    assert_eq!(lists(&format!("{banner}{ours}")), Ok(vec![("7".to_owned(), "pf1-2".to_owned())]));
    assert!(lists(banner).is_err(), "nothing shows that the jobs were listed");
    assert!(lists("").is_err(), "nothing at all is no answer");
    assert_eq!(lists("CLUSTER: \n"), Ok(vec![]));
    assert_eq!(lists(&format!("CLUSTER: \n{ours}")), Ok(vec![("7".to_owned(), "pf1-2".to_owned())]));
}

#[test]
fn a_job_in_each_state_is_there_until_slurm_says_that_it_has_ended() {
    for (state, reason, is_ended) in [
        ("CONFIGURING", "None", false),
        ("POWER_UP_NODE", "None", false),
        ("COMPLETING", "None", false),
        ("SUSPENDED", "None", false),
        ("STOPPED", "None", false),
        ("REQUEUED", "BeginTime", false),
        ("REQUEUE_HOLD", "launch failed requeued held", false),
        ("SPECIAL_EXIT", "None", false),
        ("RESV_DEL_HOLD", "None", false),
        ("EXPEDITING", "None", false),
        ("EXOTIC_NEW_STATE", "None", false),
        ("OUT_OF_MEMORY", "OutOfMemory", true),
        ("NODE_FAIL", "NodeDown", true),
        ("PREEMPTED", "None", true),
        ("CANCELLED by 99999999999999999999", "None", true),
    ] {
        let id = "99999999999999999999";
        let stdout = format!("CLUSTER: \n{id}|{state}|{reason}|pf1-2\n");
        let jobs = slurm().read_list(&Output { code: Some(0), stdout, ..Output::default() }).expect(state);
        assert_eq!((jobs[0].id.as_str(), jobs[0].state == BatchState::Ended), (id, is_ended), "{state}");
        assert!(!is_ended || jobs[0].reason.as_deref() == Some(state), "{state}: {jobs:?}");
    }
    for (state, expected) in [
        ("SUSPENDED", BatchState::Suspended),
        ("STOPPED", BatchState::Suspended),
        ("RUNNING", BatchState::Running),
        ("SIGNALING", BatchState::Running),
    ] {
        let stdout = format!("CLUSTER: \n7|{state}|None|pf1-2\n");
        let jobs = slurm().read_list(&Output { code: Some(0), stdout, ..Output::default() }).expect(state);
        assert_eq!((&jobs[0].state, &jobs[0].reason), (&expected, &None), "{state}");
    }
    // A part of a heterogeneous job is none of ours; one with our name is not taken for gone.
    assert!(lists("CLUSTER: \n123+0|PENDING|Resources|pf1-2\n").is_err());
    assert_eq!(
        lists("CLUSTER: \n123+0|PENDING|Resources|het\n7|PENDING|None|pf1-2\n").map(|jobs| jobs.len()),
        Ok(1)
    );
}

#[test]
fn a_name_with_bars_is_one_name() {
    let output = Output { code: Some(0), stdout: "7|RUNNING|None|a|b\n".into(), ..Output::default() };
    assert_eq!(slurm().read_list(&output).map(|jobs| jobs[0].tag.clone()), Ok("a|b".into()));
    let half = Output { stdout: "7|RUNN".into(), ..output };
    assert!(slurm().read_list(&half).is_err());
}

#[test]
fn partitions_are_described() {
    let stdout = "debug*|up|2:00|idle|2|4|4000|(null)\nbatch|up|1-01:00:00|mix|1|4|4000|(null)\nbatch|up|1-01:00:00|idle~|1|4|4000|(null)\nbatch|up|1-01:00:00|drain|7|4|4000|(null)\nbatch|up|1-01:00:00|down*|1|64|9000|(null)\nbatch|up|1-01:00:00|idle*|1|64|9000|(null)\nbatch|up|1-01:00:00|alloc|2|8|9000+|gpu:fake:2(S:0),craynetwork:4\ndown|down|infinite|drng|1|4|4000|(null)\nbare|up|infinite|n/a|0|0|0|(null)\n";
    let output = Output { code: Some(0), stdout: stdout.into(), ..Output::default() };
    let queues = slurm().read_describe(&output).expect("queues");
    let node =
        |cores, mib: u64, gpus| Resources { cores, memory_bytes: mib << 20, gpus, ..Resources::default() };
    assert_eq!(
        queues[1],
        Queue {
            name: "batch".into(),
            is_default: false,
            is_up: true,
            walltime_max: Some(Span::from_secs(25 * 3600)),
            nodes: vec![(2, node(4, 4000, 0)), (2, node(8, 9000, 2))],
            nodes_away: vec![(7, node(4, 4000, 0)), (2, node(64, 9000, 0))],
        }
    );
    let facts: Vec<_> =
        queues.iter().map(|q| (q.name.as_str(), q.is_default, q.is_up, q.walltime_max)).collect();
    assert_eq!(facts[0], ("debug", true, true, Some(Span::from_secs(120))));
    assert_eq!(facts[2], ("down", false, false, None));
    assert_eq!((queues[2].nodes.len(), queues[2].nodes_away.len()), (0, 1));
    assert_eq!((queues[3].nodes.len(), queues[3].nodes_away.len()), (0, 0), "it has no nodes");
    let stateless = "debug*|up|2:00|2|4|4000|(null)\nbatch|up|1:00|1|4|1|gpu:2\n";
    let stateless = slurm().read_describe(&Output { stdout: stateless.into(), ..output.clone() });
    let stateless = stateless.expect("queues");
    let nodes: Vec<_> = stateless.iter().map(|queue| queue.nodes.clone()).collect();
    assert_eq!(nodes, [vec![(2, node(4, 4000, 0))], vec![(1, node(4, 0, 2))]]);
    assert!(stateless.iter().all(|queue| queue.nodes_away.is_empty()), "the state of nodes is not known");
    assert!(slurm().read_describe(&Output { stdout: "what?\n".into(), ..output }).is_err());
}

#[test]
fn lines_that_are_no_partition_hide_none_and_are_told() {
    let good = |stdout: &str| Output { code: Some(0), stdout: stdout.into(), ..Output::default() };
    let read = |stdout: &str| {
        let mut left_out = Vec::new();
        let queues = slurm().read_describe_with(&good(stdout), &mut left_out);
        let names = |queues: Vec<Queue>| queues.into_iter().map(|queue| queue.name).collect::<Vec<_>>();
        (queues.map(names).map_err(|error| error.to_string()), left_out)
    };
    let (banner, batch) = ("Welcome to HPC!\n\n", "batch*|up|1:00:00|idle|2|48|192000|(null)\n");
    let (queues, left_out) = read(&format!("{banner}{batch}"));
    assert_eq!(queues, Ok(vec!["batch".to_owned()]));
    assert_eq!(left_out, ["sinfo: not understood and left out: `Welcome to HPC!`"]);
    for (line, part) in [
        ("odd|up|n/a|idle|2|48|192000|(null)", "time limit `n/a`"),
        ("odd|up|99999999999999999-1|idle|2|48|192000|(null)", "time limit `99999999999999999-1`"),
        ("odd|up|1:00:00|idle|2|many|192000|(null)", "CPUs `many`"),
        ("odd|up|1:00:00|idle|?|48|192000|(null)", "number of nodes `?`"),
        ("odd|up|1:00:00|idle|2|48|99999999999999999999|(null)", ""),
    ] {
        let (queues, left_out) = read(&format!("{line}\n{batch}"));
        if part.is_empty() {
            assert_eq!(
                (queues.map(|queues| queues.len()), left_out.len()),
                (Ok(2), 0),
                "memory is not known"
            );
            continue;
        }
        assert_eq!(queues, Ok(vec!["batch".to_owned()]), "{line}");
        assert_eq!(left_out, [format!("sinfo: not understood and left out: `{line}` ({part})")]);
        let alone = read(&format!("{banner}{line}\n")).0;
        assert_eq!(alone, Err(format!("not understood: sinfo: `{line}` ({part})")));
    }
    assert_eq!(read(banner).0, Err("not understood: sinfo: `Welcome to HPC!`".to_owned()));
    let failed = Output { code: Some(1), stdout: banner.into(), ..Output::default() };
    let failed = slurm().read_describe(&failed).expect_err("no answer").to_string();
    assert_eq!(failed, "not understood: sinfo: Welcome to HPC!");
}

#[test]
fn the_version_stands_below_a_banner() {
    let version = slurm().version().expect("a command");
    let said = |sbatch: &str| run(&format!("sbatch() {{ {sbatch}; }}"), &[], &version);
    let below = said("echo 'Welcome to HPC!'; echo slurm 22.05.8");
    assert_eq!((below.code, below.stdout.as_str()), (Some(0), "slurm 22.05.8\n"));
    assert_eq!(said("echo another").stdout, "another\n");
    assert_eq!(said("return 7").code, Some(7));
}

#[test]
fn accounts_are_the_same_in_small_and_capital_letters() {
    assert!(slurm().is_same_account("lab", "Lab") && !slurm().is_same_account("lab", "labs"));
}

#[test]
fn the_load_is_free_cores_and_waiting_ones() {
    let output = |stdout: &str| Output { code: Some(0), stdout: stdout.into(), ..Output::default() };
    let load = slurm().read_load(&output("6/9/1/16\n--\n4\n12\n"));
    let expected = QueueLoad { free_cores: 9, cores: 15, n_waiting: 2, waiting_cores: 16 };
    assert_eq!(load, Ok(expected));
    assert!(slurm().read_load(&output("6/9/1/16\n")).is_err(), "the second command has not answered");
    let mut left_out = Vec::new();
    let with_banners = output("-- Welcome! --\n6/9/1/16\n--\n-- Welcome! --\n4\n12\n");
    assert_eq!(slurm().read_load_with(&with_banners, &mut left_out), Ok(expected));
    let told =
        ["sinfo", "squeue"].map(|name| format!("{name}: not understood and left out: `-- Welcome! --`"));
    assert_eq!(left_out, told);
    let nothing = slurm().read_load(&output("Welcome!\n--\n")).expect_err("no nodes").to_string();
    assert_eq!(nothing, "not understood: sinfo: `Welcome!`");
}

#[test]
fn a_job_that_somebody_renamed_has_its_tag_by_its_id() {
    let stdout = "CLUSTER: \n7|PENDING|Resources|lab_pf1-2\n8|RUNNING|None|pf1-9\n9|RUNNING|None|pf1-4 of ann\n\
        10|RUNNING|None|pf1-5\nCLUSTER: hpc2\n7|PENDING|None|mine\n8|PENDING|None|lab_pf1-6\n";
    let listing = Output { code: Some(0), stdout: stdout.into(), ..Output::default() };
    let known = [("7", "pf1-2"), ("8", "pf1-3"), ("9", "pf1-4"), ("8;hpc2", "pf1-6")];
    // A number is used again by a job with a tag of its own; one without an id is known by its tag; the same number on
    // another cluster is another job.
    let expected = ["pf1-2", "pf1-9", "pf1-4", "pf1-5", "mine", "pf1-6"];
    assert_eq!(tags(&slurm(), &known, &listing), expected);
    let known = [("7", "pf1-2"), ("8", "pf1-3"), ("9", "pf1-4"), ("8;HPC2", "pf1-6")];
    assert_eq!(tags(&slurm(), &known, &listing), expected, "the same cluster in capital letters");
}

#[test]
fn an_empty_listing_with_words_of_a_failure_is_no_listing_although_it_ended_with_0() {
    let failure = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n";
    let warning = "squeue: warning: controller is busy\n";
    let read = |stdout: &str, stderr: &str| {
        let output = Output { code: Some(0), stdout: stdout.into(), stderr: stderr.into() };
        slurm().read_list(&output).map(|jobs| jobs.len())
    };
    let read_failure = read("CLUSTER: \n", failure);
    assert!(matches!(&read_failure, Err(error) if error.to_string().contains("Unable to contact")));
    assert_eq!(read("CLUSTER: \n", warning), Ok(0));
    assert_eq!(read("CLUSTER: \n", ""), Ok(0));
    assert_eq!(read("CLUSTER: \n7|RUNNING|None|pf1-2\n", failure), Ok(1), "it has answered");
    for one_of_two in [
        "CLUSTER: \nCLUSTER: east\n7|RUNNING|None|pf1-2\n",
        "CLUSTER: \n7|RUNNING|None|pf1-2\nCLUSTER: east\n",
    ] {
        assert!(read(one_of_two, failure).is_err(), "{one_of_two}");
        assert_eq!(read(one_of_two, warning), Ok(1));
    }
}
