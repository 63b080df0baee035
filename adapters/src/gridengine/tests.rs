//! What the recordings of a real Grid Engine mean, and what the lines of shell do with them.

use std::{collections::BTreeSet, io::Write, path::Path, process::Stdio};

use profiles::site;
use scheduler::{resources::Resources, time::Span};

use super::{answers::state_of, *};
use crate::{
    command::BatchState,
    testing,
    transcripts::{Step, files_of, of, steps},
};

const FORMS: &str = include_str!("../../transcripts/gridengine/adapter-forms.txt");

fn grid_engine() -> GridEngine {
    let resource_names = site::ResourceNames {
        parallel_environment: Some("smp".into()),
        gpu_resource: Some("gpu".into()),
        ..site::ResourceNames::default()
    };
    let options = ["-l exclusive=true", "-m n"];
    GridEngine::new(&testing::surroundings(), &Site { resource_names, ..testing::site("all.q", &options) })
}

fn request(cores: u32, gpus: u32) -> AllocationRequest {
    let some = testing::request(1);
    AllocationRequest { capacity: Resources { cores, gpus, ..some.capacity }, ..some }
}

/// Runs a command with programs that say what was recorded: lines of shell that define them.
fn run(programs: &str, command: &Command) -> Output {
    let mut argv = command.argv.clone();
    argv[2] = format!("timeout() {{ shift 2; \"$@\"; }}\n{programs}\n{}", argv[2]);
    let mut shell = std::process::Command::new(&argv[0]);
    shell.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().expect("a shell");
    // One that refuses at once may end before it reads.
    let _ = child.stdin.take().expect("its input").write_all(&command.stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// A program as lines of shell.
fn program(name: &str, output: &Output) -> String {
    let Output { code, stdout, stderr } = output;
    let code = code.unwrap_or(1);
    format!(
        "{name}() {{ printf '%s' {}; printf '%s' {} >&2; return {code}; }}",
        quoted(stdout),
        quoted(stderr)
    )
}

fn good(stdout: &str) -> Output {
    Output { code: Some(0), stdout: stdout.into(), ..Output::default() }
}

/// What the step that is just this command said.
fn recorded(command: &str) -> Output {
    let all = steps(FORMS);
    all.into_iter().find(|step| step.command == command).expect(command).output
}

/// Submits into a folder of the test, to programs that say what was recorded, and a `qsub` that says what it
/// was told: its words, and what it read. Gives the output and what is in the folder.
fn submit(
    grid_engine: &GridEngine,
    mut request: AllocationRequest,
    resources: &str,
) -> (Output, Vec<String>) {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("pilots/pf1-2");
    request.folder = folder.display().to_string();
    let environment = recorded("qconf -sp smp").stdout;
    let programs = format!(
        "qconf() {{ case $1 in -sp) printf '%s' {};; -sc) printf '%s' {};; esac; }}\n\
         qsub() {{ echo \"$*\"; cat; stat -c '%a %n' \"$folder/join\"*; }}",
        quoted(&environment),
        quoted(resources)
    );
    let output = run(&programs, &grid_engine.submit(&request));
    let files = folder.read_dir().into_iter().flatten().flatten();
    let files = files.map(|file| std::fs::read_to_string(file.path()).expect("a file")).collect();
    let shown = output.stdout.replace(&folder.display().to_string(), "FOLDER");
    (Output { stdout: shown, ..output }, files)
}

#[test]
fn the_join_document_is_in_a_private_file_that_the_script_takes_away() {
    let command = grid_engine().submit(&request(1, 2));
    assert!(command.argv.iter().all(|word| !word.contains("secret")), "{:?}", command.argv);
    let (output, files) = submit(&grid_engine(), request(1, 2), "");
    assert_eq!(
        output.stdout,
        "-clear -terse -w e -r n -notify -S /bin/sh -wd / -j y -o /dev/null -N pf1-2 -q all.q -P lab \
         -l h_rt=3601 -l exclusive=true -m n -l h_vmem=3072M -l gpu=2\n\
         #!/bin/sh\n(umask 077; mkdir -p FOLDER && : >> FOLDER/job.log) && exec >> FOLDER/job.log 2>&1\n\
         module load glibc\nexec 3<FOLDER/join && rm -f FOLDER/join || exit 1\n\
         exec '/opt/pilot fish/agent' run --tag pf1-2 --join - <&3 3<&-\n600 FOLDER/join\n"
    );
    assert_eq!(files, ["{\"token\":\"secret\"}"]);
}

#[test]
fn options_with_soft_are_followed_by_hard_and_the_pilots_resources() {
    let mut soft = grid_engine();
    soft.site.options = vec!["-soft -l scratch=1".into()];
    let (output, _) = submit(&soft, request(1, 2), "");
    let words = output.stdout.lines().next().expect("its words");
    assert!(words.ends_with("-l h_rt=3601 -soft -l scratch=1 -hard -l h_vmem=3072M -l gpu=2"), "{words}");
}

#[test]
fn several_nodes_are_tasks_of_an_array_with_a_document_each() {
    let three = AllocationRequest { n_nodes: 3, ..request(1, 0) };
    let (output, files) = submit(&grid_engine(), three, "");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].contains(" -N pf1-2 -t 1-3 "), "{}", lines[0]);
    let take = "exec 3<FOLDER/join.$SGE_TASK_ID && rm -f FOLDER/join.$SGE_TASK_ID || exit 1";
    assert!(lines.contains(&take), "{lines:?}");
    assert_eq!(lines[lines.len() - 3..], ["600 FOLDER/join.1", "600 FOLDER/join.2", "600 FOLDER/join.3"]);
    assert_eq!(files, ["{\"token\":\"secret\"}\n"; 3]);
}

#[test]
fn why_a_job_waits_is_what_the_scheduler_says_of_each_queue() {
    let recorded = steps(include_str!("../../transcripts/gridengine/pending.txt"));
    let step = of(&recorded, "qstat -j 46").remove(0);
    let command = grid_engine().why_it_waits("46").expect("a command");
    let output = run(&program("qstat", &step.output), &command);
    assert_eq!(
        output.stdout,
        "queue instance \"down.q@localhost\" dropped because it is disabled\n\
         queue instance \"all.q@localhost\" dropped because it is full\n\
         cannot run in queue \"short.q\" because it is not contained in its hard queue list (-q)\n\
         cannot run in PE \"smp\" because it only offers 0 slots\n"
    );
}

#[test]
fn what_is_counted_for_each_core_is_shared_by_them() {
    let resources = recorded("qconf -sc").stdout;
    let words = |request, resources: &str| {
        let (output, _) = submit(&grid_engine(), request, resources);
        let line = output.stdout.lines().next().unwrap_or_default().to_owned();
        (line.split_once("-m n ").map(|(_, words)| words.to_owned()), output.stderr)
    };
    // Of the resources that were recorded only GPUs are consumed; elsewhere memory is, too.
    let told = |line: &str| (Some(line.to_owned()), String::new());
    let consumed =
        resources.replace("h_vmem     MEMORY    <=    YES         NO ", "h_vmem MEMORY <= YES YES");
    assert_ne!(consumed, resources);
    assert_eq!(words(request(3, 6), &resources), told("-pe smp 3 -l h_vmem=3072M -l gpu=2"));
    assert_eq!(words(request(3, 0), &consumed), told("-pe smp 3 -l h_vmem=1024M"));
    assert_eq!(words(request(5, 0), &consumed), told("-pe smp 5 -l h_vmem=615M"), "rounded up");
    let of_jobs = resources.replace("<=    YES         YES ", "<= YES JOB ");
    assert_eq!(words(request(5, 2), &of_jobs), told("-pe smp 5 -l h_vmem=3075M -l gpu=2"));
    let shared = "resource gpu is counted for each core, and 2 cannot be shared by 3 cores\n";
    assert_eq!(words(request(3, 2), &resources), (None, shared.to_owned()));
}

#[test]
fn cores_are_asked_for_on_one_host_only() {
    let mut elsewhere = grid_engine();
    elsewhere.site.resource_names.parallel_environment = Some("mpi".into());
    let submit = elsewhere.submit(&request(4, 0));
    let refusal = |programs: &str| elsewhere.read_submit(&run(programs, &submit));
    let spread = recorded("qconf -sp smp").stdout.replace("$pe_slots", "$round_robin");
    let told = "parallel environment mpi gives cores by the rule $round_robin, perhaps on several hosts; name one \
        of $pe_slots";
    assert_eq!(refusal(&program("qconf", &good(&spread))), Err(AdapterError::Refused(told.into())));
    let unknown = recorded("qconf -sp nosuch");
    let told = "nosuch is not a parallel environment";
    assert_eq!(refusal(&program("qconf", &unknown)), Err(AdapterError::Refused(told.into())));
    elsewhere.site.resource_names.parallel_environment = None;
    let answer = elsewhere.read_submit(&run("", &elsewhere.submit(&request(2, 0))));
    let is_told = |why: &str| why.contains("parallel_environment");
    assert!(matches!(&answer, Err(AdapterError::Refused(why)) if is_told(why)), "{answer:?}");
}

#[test]
fn a_folder_that_cannot_be_made_refuses() {
    let request = AllocationRequest { folder: "/proc/no/pilots".into(), ..request(1, 0) };
    let answer = grid_engine().read_submit(&run("", &grid_engine().submit(&request)));
    assert!(matches!(&answer, Err(AdapterError::Refused(why)) if why.contains("/proc/no")), "{answer:?}");
}

#[test]
fn the_environment_keeps_what_leads_to_the_master() {
    let mut command = grid_engine().list("pf");
    command.argv[2] = format!("{CLEAN}env");
    let kept = "export SGE_ROOT=a SGE_CELL=b SGE_QMASTER_PORT=1 SGE_EXECD_PORT=2 SGE_ARCH=c";
    let output = run(&format!("{kept} SGE_DEBUG_LEVEL='2 0' SGE_SINGLE_LINE=1"), &command);
    let mut names: Vec<&str> = output.stdout.lines().filter(|line| line.starts_with("SGE_")).collect();
    names.sort_unstable();
    assert_eq!(names, ["SGE_ARCH=c", "SGE_CELL=b", "SGE_EXECD_PORT=2", "SGE_QMASTER_PORT=1", "SGE_ROOT=a"]);
}

/// Whether the answer to a submission is what the recording tells: an id, no, or neither.
fn check_submission(step: &Step) {
    let answer = grid_engine().read_submit(&step.output);
    let is_number = step.output.stdout.starts_with(|c: char| c.is_ascii_digit());
    match (step.output.code, &answer) {
        (Some(0), Ok(id)) => assert!(is_number && id.parse::<u32>().is_ok(), "{step:?}: {id}"),
        // Forms that are not ours: no id alone in the last line.
        (Some(0), Err(AdapterError::NotUnderstood(_))) => assert!(!is_number, "{step:?}"),
        (Some(1 | 2 | 4 | 7 | 14 | 25), Err(AdapterError::Refused(why) | AdapterError::NoRoom(why))) => {
            assert!(why.len() > 10 && !why.contains("Exiting"), "{step:?}: {why}")
        }
        (Some(code), Err(AdapterError::NotUnderstood(_))) => {
            let is_open = step.output.stderr.contains("qmaster") || ![1, 2, 4, 7, 14, 25].contains(&code);
            assert!(is_open, "{step:?}")
        }
        _ => panic!("{step:?}: {answer:?}"),
    }
}

/// Whether a listing in XML, or anything else that `qstat` said in XML, is what it is taken for.
fn check_xml(step: &Step) {
    let is_listing = step.output.code == Some(0) && step.output.stdout.contains("<job_info ");
    let is_whole = !step.command.contains('|');
    let jobs = grid_engine().read_list(&step.output);
    assert_eq!(jobs.is_ok(), is_listing && is_whole, "{}: {jobs:?}", step.command);
    let jobs = jobs.unwrap_or_default();
    let numbers =
        step.output.stdout.split("<JB_job_number>").skip(1).filter_map(|rest| rest.split('<').next());
    let n_jobs = numbers.collect::<BTreeSet<_>>().len();
    assert_eq!(jobs.len(), n_jobs * usize::from(is_listing));
    assert!(jobs.iter().all(|job| !matches!(job.state, BatchState::Unknown(_))), "{jobs:?}");
}

/// Whether all states of a listing for people are known.
fn check_states(step: &Step) {
    let is_job = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    for line in step.output.stdout.lines().filter(is_job) {
        let state = line.split_whitespace().nth(4).expect(line);
        assert!(!matches!(state_of(state, None), BatchState::Unknown(_)), "{}: {line}", step.command);
    }
}

/// Whether a deletion is a failure only if something was not deleted and is not gone.
fn check_deletion(step: &Step) {
    let said = run(&program("qdel", &step.output), &grid_engine().cancel(&["1".into()]));
    let denied = ["privileges", "unable to send", "no option argument", "....."];
    let is_denied = denied.iter().any(|words| step.output.stdout.contains(words));
    assert_eq!(said.code != Some(0), is_denied, "{step:?}: {said:?}");
    assert!(!is_denied || !said.stderr.is_empty(), "{said:?}");
}

#[test]
fn every_recording_is_understood() {
    let mut totals = [0; 4];
    for (file, steps) in files_of("gridengine") {
        let before = totals;
        for step in &steps {
            let command = step.command.trim_start_matches("timeout 100 ");
            let is = |start: &str| command.starts_with(start) || command.contains(&format!("{start} -"));
            if is("qsub") || command.contains("; qsub ") || command.ends_with("qsub ok.sh") {
                check_submission(step);
                totals[0] += 1;
            } else if command.starts_with("qstat") && command.contains("-xml") {
                check_xml(step);
                totals[1] += 1;
            } else if command.starts_with("qstat") && !command.contains("-j") && !command.contains("-ext") {
                check_states(step);
                totals[2] += 1;
            } else if command.starts_with("qdel") {
                check_deletion(step);
                totals[3] += 1;
            }
        }
        assert_ne!(totals, before, "nothing of {file} is used");
    }
    assert!(totals.into_iter().zip([70, 25, 30, 20]).all(|(n, least)| n >= least), "{totals:?}");
}

#[test]
fn refusals_are_told_in_grid_engines_own_words() {
    let recorded = steps(include_str!("../../transcripts/gridengine/submit-rejected.txt"));
    let refusal = |step: &Step| grid_engine().read_submit(&step.output);
    let why = "Job was rejected because job requests unknown queue \"nosuch.q\"";
    assert_eq!(refusal(&recorded[0]), Err(AdapterError::Refused(why.into())));
    let full = recorded.iter().find(|step| step.output.code == Some(25)).expect("too many jobs");
    let why = "job rejected: only 2 jobs are allowed per user (current job count: 2)";
    assert_eq!(refusal(full), Err(AdapterError::NoRoom(why.into())));
}

#[test]
fn a_master_that_does_not_answer_leaves_everything_open() {
    for text in [
        include_str!("../../transcripts/gridengine/master-slow.txt"),
        include_str!("../../transcripts/gridengine/master-down.txt"),
    ] {
        let recorded = steps(text);
        let submissions = recorded.iter().filter(|step| step.command.contains("qsub"));
        let failed: Vec<&Step> = submissions.filter(|step| step.output.code != Some(0)).collect();
        assert!(!failed.is_empty());
        for step in failed {
            let answer = grid_engine().read_submit(&step.output);
            assert!(matches!(answer, Err(AdapterError::NotUnderstood(_))), "{}: {answer:?}", step.command);
        }
        for step in of(&recorded, "qstat -xml") {
            let said = run(&program("qstat", &step.output), &grid_engine().list("pf"));
            assert!(said.code != Some(0) && grid_engine().read_list(&said).is_err(), "{said:?}");
        }
    }
}

#[test]
fn a_master_that_hangs_is_not_waited_for() {
    // The limit is given, and what it is for stands after it.
    let hanging = "timeout() { echo \"$*\" >&2; return 124; }";
    let command = grid_engine().list("pf");
    let said = run(hanging, &command);
    assert!(said.stderr.starts_with("--foreground 15 qstat -xml"), "{said:?}");
    let silent = AdapterError::NotUnderstood("the master does not answer".into());
    assert_eq!(grid_engine().read_list(&said), Err(silent.clone()));
    assert_eq!(grid_engine().read_submit(&said), Err(silent));
    let deletion = run("timeout() { return 124; }", &grid_engine().cancel(&["1".into()]));
    assert_eq!((deletion.code, deletion.stderr.as_str()), (Some(124), "no answer\n"));
}

#[test]
fn letters_of_a_state_are_a_set() {
    let state = |letters| state_of(letters, None);
    for letters in ["qw", "Rq", "Rqw"] {
        assert_eq!(state(letters), BatchState::Queued, "{letters}");
    }
    for letters in ["r", "t", "Rt", "Rr", "hr", "dr", "dRr", "dEqw"] {
        assert_eq!(state(letters), BatchState::Running, "{letters}");
    }
    for letters in ["s", "S", "T", "tS", "Rs"] {
        assert_eq!(state(letters), BatchState::Suspended, "{letters}");
    }
    assert!(matches!(state("hqw"), BatchState::Stuck(why) if why.starts_with("hqw")));
    assert_eq!(state_of("Eqw", Some("no shell")), BatchState::Stuck("Eqw: no shell".into()));
    assert_eq!(state("z"), BatchState::Ended);
    assert_eq!(state("rP"), BatchState::Unknown("rP".into()));
}

/// A `qstat` that says the one thing of jobs and the other of a job, and its words.
fn qstat(jobs: &Output, details: &str) -> String {
    let jobs = program("list_jobs", jobs);
    format!(
        "{jobs}\nqstat() {{ echo \"$*\" >&2; case $* in *-j*) printf '%s' {};; *) list_jobs;; esac; }}",
        { quoted(details) }
    )
}

#[test]
fn why_a_job_could_not_be_started_comes_with_the_listing() {
    let (jobs, details) = (recorded("qstat -xml -u pilot"), recorded("qstat -xml -j 5").stdout);
    let told = |prefix: &str, details: &str| {
        let said = run(&qstat(&jobs, details), &grid_engine().list(prefix));
        let listed = grid_engine().read_list(&said).expect("a listing");
        let job = listed.into_iter().find(|job| job.tag == "pfa-4").expect("the job that could not start");
        (job.state, said.stderr.lines().count())
    };
    let (state, n_calls) = told("pfa-", &details);
    let why = "can't chdir to /nonexistent: No such file or directory";
    assert!(matches!(&state, BatchState::Stuck(words) if words.contains(why)), "{state:?}");
    assert_eq!(n_calls, 2);
    let unknown = BatchState::Stuck("Eqw: it could not be started; `qstat -j` says why".into());
    for strange in ["", "<unknown_jobs><ST_name>5</ST_name></unknown_jobs>", "<half"] {
        assert_eq!(told("pfa-", strange), (unknown.clone(), 2), "{strange}");
    }
    assert_eq!(told("pfb-", &details), (unknown, 1), "nobody asks for jobs of others");
}

#[test]
fn why_a_job_waits_comes_with_the_listing() {
    let jobs = good(&in_listing("").replace(
        "<job_info></job_info>",
        "<job_info><job_list>\n<JB_job_number>5</JB_job_number>\n<JB_name>pfa-4</JB_name>\n<state>qw</state>\n</job_list>\
         <job_list>\n<JB_job_number>6</JB_job_number>\n<JB_name>pfa-5</JB_name>\n<state>hqw</state>\n</job_list>\
         <job_list>\n<JB_job_number>7</JB_job_number>\n<JB_name>other</JB_name>\n<state>qw</state>\n</job_list></job_info>",
    ));
    let details = "<detailed_job_info><djob_info><element><JB_job_number>5</JB_job_number></element>\
        <element><JB_job_number>6</JB_job_number></element></djob_info><messages><element><SME_message_list><element>\
        <MES_job_number_list><ulong_sublist><ULNG_value>5</ULNG_value></ulong_sublist></MES_job_number_list>\
        <MES_message>cannot run in PE \"smp\"\nbecause it only offers 0 slots</MES_message></element></SME_message_list>\
        <SME_global_message_list><element><MES_message>queue instance full</MES_message></element>\
        </SME_global_message_list></element></messages></detailed_job_info>";
    let of_5 = "cannot run in PE \"smp\" because it only offers 0 slots";
    let by_ids = grid_engine().list_with("pf1-", &["4".into(), "5".into(), "6".into()]);
    for list in [grid_engine().list("pfa-"), by_ids] {
        let said = run(&qstat(&jobs, details), &list);
        let listed = grid_engine().read_list(&said).expect("a listing");
        let reasons: Vec<Option<&str>> = listed.iter().map(|job| job.reason.as_deref()).collect();
        assert_eq!(reasons, [Some(of_5), Some("queue instance full"), None], "{said:?}");
        assert!(said.stderr.ends_with("-j 5,6\n"), "of no other: {}", said.stderr);
    }
    let known = [("5", "pf1-2"), ("6", "pf1-3")];
    assert_eq!(
        testing::tags(&grid_engine(), &known, &jobs),
        ["pf1-2", "pf1-3", "other"],
        "somebody renamed them"
    );
}

#[test]
fn words_about_queues_that_a_job_does_not_ask_for_are_left_out() {
    let recorded = steps(include_str!("../../transcripts/gridengine/pending.txt"));
    let jobs = of(&recorded, "qstat -xml")[0].output.clone();
    let details = &of(&recorded, "qstat -xml -j 46")[0].output.stdout;
    let reason = |asked: &str| {
        let details = details.replace("<QR_name>all.q</QR_name>", asked);
        let list = grid_engine().list_with("pf1-", &["46".into()]);
        let listed = grid_engine().read_list(&run(&qstat(&jobs, &details), &list)).expect("a listing");
        listed.into_iter().find(|job| job.id == "46").and_then(|job| job.reason).unwrap_or_default()
    };
    let full = "queue instance \"all.q@localhost\" dropped because it is full";
    let places = "cannot run in PE \"smp\" because it only offers 0 slots";
    let disabled = "queue instance \"down.q@localhost\" dropped because it is disabled";
    for asked in ["all.q", "ALL.Q", "all.q@localhost", "all.q@localhost.site.org", "all.q@@hosts"] {
        assert_eq!(reason(&format!("<QR_name>{asked}</QR_name>")), format!("{full}; {places}"), "{asked}");
    }
    assert_eq!(reason("<QR_name>down.q</QR_name>"), format!("{places}; {disabled}"));
    assert_eq!(reason("<QR_name>all.q@n2</QR_name>"), places, "another host");
    let both = "<QR_name>all.q</QR_name><QR_name>down.q@localhost</QR_name>";
    for asked in ["", "<QR_name>*.q</QR_name>", both] {
        assert_eq!(reason(asked), format!("{full}; {places}; {disabled}"), "{asked}");
    }
}

#[test]
fn names_are_whole_and_an_array_is_one_job() {
    let running = steps(include_str!("../../transcripts/gridengine/running.txt"));
    let jobs = grid_engine().read_list(&of(&running, "qstat -xml")[0].output).expect("a listing");
    let expected = BatchJob {
        id: "53".into(),
        tag: "a.very.long.name.that.is.cut".into(),
        state: BatchState::Running,
        n_tasks: None,
        reason: None,
    };
    assert_eq!(jobs, [expected]);
    let array = steps(include_str!("../../transcripts/gridengine/array.txt"));
    let listing = &of(&array, "qstat -xml")[0].output;
    let state = |listing: &Output| {
        let jobs = grid_engine().read_list(listing).expect("a listing");
        let [BatchJob { id, state, n_tasks, .. }] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((id.as_str(), *n_tasks), ("122", Some(6)));
        state.clone()
    };
    let with = |from: &str, to: &str| good(&listing.stdout.replace(from, to));
    assert_eq!(state(listing), BatchState::Running, "as long as a task of it does");
    assert_eq!(state(&with("<state>r<", "<state>qw<")), BatchState::Queued);
    assert_eq!(state(&with("<state>qw<", "<state>z<")), BatchState::Running);
    assert!(matches!(state(&with("<state>qw<", "<state>hqw<")), BatchState::Stuck(_)), "it is told");
}

/// A listing in which queues and jobs are these.
fn in_listing(text: &str) -> String {
    format!("<job_info><queue_info>{text}</queue_info><job_info></job_info></job_info>")
}

#[test]
fn queues_are_described() {
    let queues =
        grid_engine().read_describe(&recorded("qstat -f -xml -F mem_total,h_rt,gpu")).expect("queues");
    let facts: Vec<_> =
        queues.iter().map(|queue| (queue.name.as_str(), queue.is_up, queue.walltime_max)).collect();
    let minute = Some(Span::from_secs(60));
    assert_eq!(facts, [("all.q", true, None), ("down.q", false, None), ("short.q", true, minute)]);
    let node = &queues[0].nodes[0];
    assert_eq!(
        (node.0, node.1.cores, node.1.gpus, node.1.memory_bytes >> 30),
        (1, 8, 0, 23),
        "one runs with both"
    );
    let host = |name: &str, slots: u32, h_rt: &str| {
        format!(
            "<Queue-List><name>{name}</name><slots_total>{slots}</slots_total>\
             <resource name='h_rt'>{h_rt}</resource><resource name='mem_total'>4.000G</resource></Queue-List>"
        )
    };
    let hosts = [host("q@a", 4, "60"), host("q@b", 8, "1:00:00"), host("q@c", 4, "00:10:00")].concat();
    let queues = grid_engine().read_describe(&good(&in_listing(&hosts))).expect("queues");
    let node = |cores| Resources { cores, memory_bytes: 4 << 30, ..Resources::default() };
    assert_eq!(queues[0].nodes, [(2, node(4)), (1, node(8))]);
    assert_eq!((queues.len(), queues[0].walltime_max), (1, Some(Span::from_secs(3600))));
    for (letters, n_away) in [("au", 1), ("d", 1), ("E", 1), ("a", 0), ("D", 0)] {
        let state = format!("<name>q@b</name><state>{letters}</state>");
        let hosts = in_listing(&hosts.replace("<name>q@b</name>", &state));
        let queues = grid_engine().read_describe(&good(&hosts)).expect("queues");
        assert_eq!(queues[0].nodes_away.len(), n_away, "{letters}");
    }
}

#[test]
fn words_of_a_site_and_an_odd_queue_hide_no_queue_and_are_told() {
    let host = |name: &str, h_rt: &str| {
        format!(
            "<Queue-List><name>{name}</name><slots_used>1</slots_used><slots_total>4</slots_total>\
             <resource name='h_rt'>{h_rt}</resource></Queue-List>"
        )
    };
    let mut left_out = Vec::new();
    let hosts = in_listing(&[host("q@a", "60"), host("odd@b", "n/a")].concat());
    let text = format!("Welcome to HPC!\n<?xml version='1.0'?>\n{hosts}\nGoodbye!\n");
    let queues = grid_engine().read_describe_with(&good(&text), &mut left_out).expect("queues");
    assert_eq!(queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(), ["q"]);
    assert_eq!(left_out, ["qstat -f -xml: not understood and left out: `odd@b` (h_rt)"]);
    let alone = grid_engine().read_describe(&good(&in_listing(&host("odd@b", "n/a"))));
    assert!(alone.is_err_and(|error| error.to_string().contains("qstat -f -xml: `odd@b` (h_rt)")));
    let nothing = grid_engine().read_describe(&good("Welcome to HPC!\n"));
    assert!(nothing.is_err_and(|error| error.to_string().contains("qstat -f -xml: Welcome to HPC!")));
    left_out.clear();
    let odd = text.replacen("<slots_used>1", "<slots_used>?", 1);
    let load = grid_engine().read_load_with(&good(&odd), &mut left_out).expect("a load");
    assert_eq!((load.free_cores, load.cores, left_out.len()), (3, 4, 1), "{left_out:?}");
}

#[test]
fn the_load_is_free_cores_and_waiting_ones() {
    let load = |command: &str| grid_engine().read_load(&recorded(command)).expect(command);
    // One of 8 cores, and three tasks of an array that need 2 each; a queue that is disabled does not count.
    let all = QueueLoad { free_cores: 5, cores: 10, n_waiting: 7, waiting_cores: 18 };
    assert_eq!(load("qstat -f -xml -u '*' -s p"), all);
    let one = load("qstat -f -xml -u '*' -s p -q all.q");
    assert_eq!((one.free_cores, one.cores), (5, 8));
    let said = in_listing("<job_list><slots>2</slots><tasks>3-9:2,11</tasks></job_list>");
    let expected = QueueLoad { n_waiting: 5, waiting_cores: 10, ..QueueLoad::default() };
    assert_eq!(grid_engine().read_load(&good(&said)), Ok(expected));
    for tasks in ["9-3", "1-2:0", "x", "0-18446744073709551615"] {
        let said = good(&said.replace("3-9:2,11", tasks));
        assert!(grid_engine().read_load(&said).is_err(), "{tasks}");
    }
}

#[test]
fn a_job_of_others_that_cannot_be_read_hides_none_of_ours() {
    let job = |number: &str, name: &str, state: &str| {
        format!(
            "<job_list state=\"running\">\n<JB_job_number>{number}</JB_job_number>\n<JB_name>{name}</JB_name>\n\
             <state>{state}</state>\n</job_list>\n"
        )
    };
    let ours = job("7", "pf1-2", "r");
    let ids = |jobs: &str| {
        let listed = grid_engine().read_list(&good(&in_listing(jobs))).ok()?;
        Some(listed.into_iter().map(|job| job.id).collect::<Vec<_>>())
    };
    for (number, name) in [
        ("8", "\u{1}\u{1b}x"),
        ("8", "a & b"),
        ("8", "&#1;"),
        ("8", "<b>"),
        ("8", "two\nlines & more"),
        ("x", "theirs"),
        ("8", ""),
    ] {
        let odd = job(number, name, "r");
        assert_eq!(ids(&format!("{odd}{ours}{odd}")), Some(vec!["7".to_owned()]), "{name:?}");
    }
    assert_eq!(ids(&job("8", "two\nlines", "r")), Some(vec!["8".to_owned()]));
    for unread in [job("x", "pf1-3", "r"), job("8", "pf1-3", "&"), "<job_list><JB_name>a".to_owned()] {
        assert_eq!(ids(&format!("{ours}{unread}")), None, "{unread}");
    }
}

#[test]
fn hostile_output_is_an_error() {
    let whole = recorded("qstat -xml -u pilot").stdout;
    let half: String = whole.chars().take(whole.len() / 2).collect();
    let job = "<job_list><JB_job_number>1</JB_job_number><JB_name>pf1-1</JB_name><state>r</state></job_list>";
    assert!(grid_engine().read_list(&good(&in_listing(job))).is_ok_and(|jobs| jobs.len() == 1));
    let deep = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
    let entities = "<!DOCTYPE j [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]><job_info>&b;</job_info>";
    let bad = [
        String::new(),
        half,
        "\u{0}\u{fffd}\u{7}".repeat(1000),
        "job-ID  prior   name".to_owned(),
        "<unknown_jobs></unknown_jobs>".to_owned(),
        "<job_info><queue_info></queue_info></job_info>".to_owned(),
        entities.to_owned(),
        in_listing(&job.replace("<JB_job_number>1", "<JB_job_number>1; rm -rf")),
        in_listing(&job.replace("<state>r</state>", "")),
        format!("{whole}{whole}"),
        in_listing(&deep),
        in_listing(&"<a/>".repeat(4_100_000)),
    ];
    for text in bad {
        let shown: String = text.chars().take(200).collect();
        for answer in [
            grid_engine().read_list(&good(&text)).map(|_| ()),
            grid_engine().read_submit(&good(&text)).map(|_| ()),
        ] {
            assert!(matches!(&answer, Err(AdapterError::NotUnderstood(_))), "{shown}: {answer:?}");
        }
        let failed = Output { code: None, ..good(&whole) };
        assert!(grid_engine().read_list(&failed).is_err());
    }
    let full = Path::new("/dev/full").display();
    assert!(
        grid_engine().read_describe(&good(&in_listing(&format!("<Queue-List>{full}</Queue-List>")))).is_err()
    );
}

#[test]
fn an_empty_listing_with_words_of_a_failure_is_no_listing_although_it_ended_with_0() {
    let empty = "<job_info><queue_info></queue_info><job_info></job_info></job_info>";
    let read = |stderr: &str| grid_engine().read_list(&Output { stderr: stderr.into(), ..good(empty) });
    let failed = read("error: commlib error: got select error (Connection refused)\n");
    assert!(matches!(&failed, Err(error) if error.to_string().contains("commlib error")), "{failed:?}");
    assert_eq!(read(""), Ok(vec![]));
    assert_eq!(read("stty: standard input: Inappropriate ioctl for device\n"), Ok(vec![]));
}
