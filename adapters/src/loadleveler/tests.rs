//! What the samples of LoadLeveler's answers mean, and what is said to it.

use std::{io::Write, path::Path, process::Stdio};

use profiles::site::ResourceNames;
use proptest::prelude::*;
use scheduler::{resources::Resources, time::Span};

use super::*;
use crate::{
    command::BatchState,
    script::quoted,
    testing,
    transcripts::{Step, of, steps, text},
};

fn loadleveler() -> LoadLeveler {
    let resource_names = ResourceNames { gpu_resource: Some("gpus".into()), ..ResourceNames::default() };
    let options = ["network.MPI = sn_all,not_shared,US", "Restart=yes"];
    LoadLeveler::new(&testing::surroundings(), &Site { resource_names, ..testing::site("normal", &options) })
}

/// An account of which nothing is said.
fn plain() -> LoadLeveler {
    LoadLeveler::new(&testing::surroundings(), &Site::default())
}

fn samples(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts/loadleveler").join(name))
}

/// What the step with that command says.
fn sample(name: &str, command: &str) -> Output {
    let steps = steps(&samples(name));
    of(&steps, command).first().expect(command).output.clone()
}

fn good(stdout: &str) -> Output {
    Output { code: Some(0), stdout: stdout.into(), ..Output::default() }
}

/// What our script makes of these outputs of its commands.
fn answer(parts: &[&str]) -> Output {
    good(&format!("{}\nexit=0\n", parts.join("--\n")))
}

/// Runs a command with programs that say what lines of shell make them say.
fn run(programs: &str, command: &Command) -> Output {
    let mut argv = command.argv.clone();
    argv[2] = format!("{programs}\n{}", argv[2]);
    let mut shell = std::process::Command::new(&argv[0]);
    shell.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().expect("a shell");
    // One that refuses at once may end before it reads.
    let _ = child.stdin.take().expect("its input").write_all(&command.stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

const KEYWORDS: &str = "\
#!/bin/sh
# @ job_name = pf1_2
# @ class = normal
# @ account_no = lab
# @ job_type = parallel
# @ node = 1
# @ tasks_per_node = 4
# @ wall_clock_limit = 3661,3601
# @ resources = ConsumableMemory(768 mb)
# @ node_resources = gpus(2)
# @ initialdir = /
# @ shell = /bin/sh
# @ notification = never
# @ network.MPI = sn_all,not_shared,US
# @ Restart = yes
# @ queue
";

#[test]
fn the_join_document_is_in_no_argument_and_not_in_the_job_command_file() {
    let command = loadleveler().submit(&testing::request(1));
    assert!(command.argv.iter().all(|word| !word.contains("secret")), "{:?}", command.argv);
    assert_eq!(command.argv[4..], ["llsubmit", "/scratch/pilots/pf1-2/job.cmd"]);
    let stdin = String::from_utf8_lossy(&command.stdin).into_owned();
    let (file, document) = stdin.split_once("PILOTFISH-JOIN\n").expect("both");
    assert_eq!(document, "{\"token\":\"secret\"}");
    let script = "(umask 077; mkdir -p /scratch/pilots/pf1-2 && : >> /scratch/pilots/pf1-2/job.log) && \
        exec >> /scratch/pilots/pf1-2/job.log 2>&1\nmodule load glibc\n\
        exec 3</scratch/pilots/pf1-2/join && rm -f /scratch/pilots/pf1-2/join || exit 1\n\
        exec '/opt/pilot fish/agent' run --tag pf1-2 --join - <&3 3<&-\n";
    assert_eq!(file, format!("{KEYWORDS}{script}"));
}

/// Submits into a folder of its own, by an `llsubmit` that is these lines of shell; gives what came of it, and
/// the files that are left with who may read them.
fn submit(llsubmit: &str) -> (Output, Vec<(String, u32, String)>) {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pilots/pf1-2");
    let request = AllocationRequest { folder: path.display().to_string(), ..testing::request(1) };
    let output = run(&format!("llsubmit() {{\n{llsubmit}\n}}"), &loadleveler().submit(&request));
    let files = path.read_dir().into_iter().flatten().map(|entry| {
        let path = entry.expect("a file").path();
        let mode = path.metadata().expect("a file").mode() & 0o777;
        (path.file_name().expect("a name").to_string_lossy().into_owned(), mode, text(&path))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    (output, files)
}

#[test]
fn a_submission_leaves_two_files_for_their_owner_and_a_refusal_none() {
    let (output, files) =
        submit("head -n 2 \"$1\" >&2; echo 'llsubmit: The job \"c1.7\" has been submitted.'");
    assert_eq!(loadleveler().read_submit(&output), Ok("c1.7.0".into()), "{output:?}");
    assert!(output.stderr.contains("# @ job_name = pf1_2"), "{output:?}");
    let told: Vec<_> = files.iter().map(|(name, mode, _)| (name.as_str(), *mode)).collect();
    assert_eq!(told, [("job.cmd", 0o600), ("join", 0o600)]);
    assert!(files[0].2.starts_with(KEYWORDS) && !files[0].2.contains("secret"), "{files:?}");
    assert_eq!(files[1].2, "{\"token\":\"secret\"}");
    let refusal = "echo 'llsubmit: 2512-051 This job has not been submitted to LoadLeveler.' >&2; return 1";
    let (output, files) = submit(refusal);
    assert!(matches!(loadleveler().read_submit(&output), Err(AdapterError::Refused(_))), "{output:?}");
    assert_eq!(files, []);
}

#[test]
fn what_cannot_be_asked_for_is_refused_without_asking() {
    let said = |command: &Command| match plain().read_submit(&run("llsubmit() { echo asked; }", command)) {
        Err(AdapterError::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(said(&plain().submit(&testing::request(1))).contains("gpu_resource"));
    let strange = AllocationRequest { folder: "/a b/pf1-2".into(), ..testing::request(2) };
    assert!(said(&loadleveler().submit(&strange)).contains("no blanks"));
    let nowhere = AllocationRequest { folder: "/proc/no/pilots".into(), ..testing::request(1) };
    assert!(said(&loadleveler().submit(&nowhere)).contains("/proc/no"));
}

#[test]
fn several_nodes_have_an_agent_each() {
    let command = loadleveler().submit(&testing::request(3));
    let stdin = String::from_utf8_lossy(&command.stdin).into_owned();
    assert!(stdin.contains("# @ node = 3\n# @ tasks_per_node = 4\n"), "{stdin}");
    let (_, script) = stdin.split_once("# @ queue\n").expect("the last keyword");
    let (everywhere, here) = script.split_once("\nfi\n").expect("what is done once");
    let begin = "$launcher \"$host\" /bin/sh \"$script\" \"$LOADL_STEP_ID\" </dev/null &\n";
    assert!(everywhere.contains(begin), "{everywhere}");
    assert!(
        everywhere.contains("join=/scratch/pilots/pf1-2/join script=/scratch/pilots/pf1-2/job.cmd\n"),
        "{everywhere}"
    );
    let (_, agent_there) = here.split_once("job.log 2>&1\n").expect("what is written is kept");
    let agent = "module load glibc\nexport LOADL_STEP_ID=\"$1\"\n\
        exec '/opt/pilot fish/agent' run --tag pf1-2 --join - < /scratch/pilots/pf1-2/join\n";
    assert!(agent_there.starts_with(agent), "{here}");
}

#[test]
fn submissions_are_ids_or_refusals_that_say_why() {
    let read = |command: &str| loadleveler().read_submit(&sample("submit.txt", command));
    assert_eq!(read("llsubmit job.cmd"), Ok("c1.example.org.16250.0".into()));
    assert_eq!(read("llsubmit two.cmd"), Ok("c1.16251".into()), "all steps of it");
    assert_eq!(read("llsubmit -"), Ok("c1.16252.0".into()));
    let why = "2512-NNN The class \"nosuch\" is not valid for this user.";
    assert_eq!(read("llsubmit refused.cmd"), Err(AdapterError::Refused(why.into())));
    assert_eq!(read("llsubmit filtered.cmd"), Err(AdapterError::Refused("ERROR: no project named".into())));
    let bare = "llsubmit: 2512-051 This job has not been submitted to LoadLeveler.\n";
    let failed = |code, stderr: &str| {
        loadleveler().read_submit(&Output { code, stderr: stderr.into(), ..Output::default() })
    };
    assert_eq!(failed(Some(1), bare), Err(AdapterError::Refused(bare.trim()[10..].into())));
    let open = "llsubmit: 2512-NNN Unable to contact the central manager.\n";
    let expected = AdapterError::NotUnderstood("2512-NNN Unable to contact the central manager.".into());
    assert_eq!(failed(Some(1), open), Err(expected));
    assert!(matches!(failed(None, ""), Err(AdapterError::NotUnderstood(_))));
    assert!(matches!(failed(Some(127), "sh: llsubmit: not found"), Err(AdapterError::Refused(_))));
}

fn job(id: &str, tag: &str, state: BatchState) -> BatchJob {
    BatchJob { id: id.into(), tag: tag.into(), state, n_tasks: None, reason: None }
}

#[test]
fn steps_are_read_by_their_lines() {
    let raw = "R!pf1_2!c1.16250.0\nI!pf1_3!c1.example.org.7.0\nQ2!a!b!c1.8.0\n\n\
        3 job step(s) in query, 1 waiting, 0 pending, 1 running, 0 held, 0 preempted\n";
    let expected = vec![
        job("c1.16250.0", "pf1-2", BatchState::Running),
        job("c1.example.org.7.0", "pf1-3", BatchState::Queued),
        job("c1.8.0", "a!b", BatchState::Unknown("Q2".into())),
    ];
    assert_eq!(loadleveler().read_list(&answer(&[raw])), Ok(expected));
    let nothing = sample("queue.txt", "llq -u nobody").stdout;
    assert_eq!(loadleveler().read_list(&answer(&[&nothing])), Ok(vec![]));
    let elsewhere = Output { stderr: nothing, ..answer(&[""]) };
    assert_eq!(loadleveler().read_list(&elsewhere), Ok(vec![]));
}

#[test]
fn no_answer_is_never_gone() {
    let list = |stdout: &str| loadleveler().read_list(&answer(&[stdout]));
    for stdout in [
        "",
        "R!pf1_2!c1.16250.0\nI!pf1_3!c1.16251",
        "R!pf1_2!c1.16250.0\nI!pf1_3",
        "R!pf1_2!c1.16250.0\n!pf1_3!c1.16251.0",
        "R!c1.16250.0",
        "llq: 2512-NNN Cannot connect to the central manager.",
        "R!pf1_2!c1.16250.0\nllq: 2512-NNN Cannot connect to an alternate central manager.",
        &sample("queue.txt", "llq -j").stdout,
        &sample("queue.txt", "llq -r").stdout,
        &sample("queue.txt", "llq").stdout,
    ] {
        assert!(list(stdout).is_err(), "{stdout}");
    }
    let failed = |stdout: &str, stderr: &str| {
        loadleveler().read_list(&Output { stderr: stderr.into(), ..good(stdout) })
    };
    let raw = "R!pf1_2!c1.16250.0\n";
    assert!(failed(&format!("{raw}\nexit=0\n"), "").is_ok());
    let away = AdapterError::NotUnderstood("2512-NNN It hangs.".into());
    assert_eq!(failed(&format!("{raw}\nexit=0\n"), "llq: 2512-NNN It hangs.\n"), Err(away.clone()));
    assert_eq!(failed("\nexit=1\n", "llq: 2512-NNN It hangs.\n"), Err(away));
    assert!(failed(raw, "").is_err(), "it was cut");
}

#[test]
fn a_job_of_others_that_cannot_be_read_hides_none_of_ours() {
    let ours = "R!pf1_2!c1.16250.0\n";
    let tags = |stdout: &str| {
        let jobs = loadleveler().read_list(&answer(&[stdout]));
        jobs.map(|jobs| jobs.into_iter().map(|job| job.tag).collect::<Vec<_>>())
    };
    for odd in [
        "R!two\nlines!c1.9.0\n",
        "I!\u{1b}[31m\nR!!c1.9\n\u{fffd}\u{fffd}\n",
        "??!x!c1.9.0\n",
        "R!x!c1.9.0 (reserved)\n",
        "\u{fffd}!x!a.1.0\n",
    ] {
        assert_eq!(tags(&format!("{odd}{ours}")), Ok(vec!["pf1-2".to_owned()]), "{odd}");
        let both = format!("{ours}{odd}{}", ours.replace("pf1_2", "pf1_3"));
        assert_eq!(tags(&both), Ok(vec!["pf1-2".to_owned(), "pf1-3".to_owned()]), "{odd}");
        assert!(tags(odd).is_err(), "{odd}");
    }
    for mine in
        ["I!pf1_3!c1\n", "I!pf1_3\n", "!pf1_3!c1.9.0\n", "R!c1.16250.0\n", "llq: 2512-NNN It hangs.\n"]
    {
        assert!(tags(&format!("{mine}{ours}")).is_err(), "{mine}");
    }
}

#[test]
fn every_state_is_known_and_others_are_kept() {
    let samples = samples("states.txt");
    let states = samples.lines().filter(|line| !line.starts_with('#'));
    let mut n_states = 0;
    for line in states {
        let (word, rest) = line.split_once(' ').expect(line);
        let (long, expected) = rest.split_once(": ").expect(line);
        let state = match answers::state_of(word, "") {
            BatchState::Queued => "queued",
            BatchState::Running => "running",
            BatchState::Suspended => "suspended",
            BatchState::Ended => "ended",
            BatchState::Stuck(why) => {
                assert_eq!(why, long);
                "stuck"
            }
            BatchState::NoRoom(word) | BatchState::Unknown(word) => panic!("{word}"),
        };
        assert_eq!(state, expected, "{line}");
        n_states += 1;
    }
    assert_eq!(n_states, 25);
    assert_eq!(answers::state_of("QQ", ""), BatchState::Unknown("QQ".into()));
}

#[test]
fn of_held_steps_of_ours_it_is_asked_why() {
    let why = sample("queue.txt", "llq -s").stdout;
    let raw = "S!pf1_2!l1f1n01.4604.0\nH!other!c1.7.0\nH!pf1_3!c1.8.0\nI!pf1_4!c1.9.0";
    let programs = format!(
        "llq() {{ case $1 in -s) shift; echo \"$@\" >&2; printf '%s' {} | sed \"s/^=.*/== $* ==/\" ;; *) echo {} ;; esac; }}",
        quoted(&why),
        quoted(raw)
    );
    let list = loadleveler().list("pf1-");
    let output = run(&programs, &list);
    assert!(!output.stderr.contains("c1"), "what it asks with is in its answer: {output:?}");
    let by_id = run(&programs, &loadleveler().list_with("pf9-", &["c1.7.0".into()]));
    assert!(by_id.stdout.contains("\n== c1.7.0 ==\n"), "it was renamed: {by_id:?}");
    let listed = loadleveler().read_list(&output).expect("a listing");
    assert_eq!(listed.len(), 4);
    let BatchState::Stuck(told) = &listed[0].state else { panic!("{listed:?}") };
    assert!(told.starts_with("System Hold: The class of this job step is \"workq\"."), "{told}");
    assert!(told.ends_with("as backfill."), "{told}");
    assert_eq!(listed[1].state, BatchState::Stuck("User Hold".into()), "another's, of which nobody asked");
    let both = format!("{raw}\n--\n{why}==== EVALUATIONS FOR JOB STEP c1.8.0 ====\nIt is odd.\n\nexit=0\n");
    let listed = loadleveler().read_list(&good(&both)).expect("a listing");
    assert_eq!(listed[2].state, BatchState::Stuck("User Hold: It is odd.".into()));
    let BatchState::Stuck(told) = &listed[0].state else { panic!("{listed:?}") };
    assert!(told.ends_with("as backfill."), "{told}");
    let failing =
        "llq() { case $1 in -s) echo 'llq: 2512-NNN no' >&2; return 1 ;; *) echo 'H!pf1_3!c1.8.0' ;; esac; }";
    let listed = loadleveler().read_list(&run(failing, &list));
    assert_eq!(listed, Ok(vec![job("c1.8.0", "pf1-3", BatchState::Stuck("User Hold".into()))]));
}

#[test]
fn cancelling_what_is_gone_is_no_error_and_what_is_not_gone_is_one() {
    let cancel = loadleveler().cancel(&["c1.7.0".into(), "c1.8.0".into()]);
    let code = |programs: &str| run(programs, &cancel).code;
    let sent = sample("queue.txt", "llcancel");
    assert_eq!(code(&format!("llcancel() {{ echo {}; }}", quoted(&sent.stdout))), Some(0));
    let failing = "llcancel() { echo \"llcancel: no $*\" >&2; [ \"$*\" = c1.8.0 ]; }";
    let nothing = quoted(sample("queue.txt", "llq -u nobody").stdout.trim()).clone();
    assert_eq!(code(&format!("{failing}\nllq() {{ echo {nothing}; }}")), Some(0), "all are gone");
    assert_eq!(code(&format!("{failing}\nllq() {{ echo 'R!c1.8.0'; }}")), Some(0), "the other was cancelled");
    assert_eq!(code(&format!("{failing}\nllq() {{ echo 'CA!c1.7.0'; echo 'R!c1.8.0'; }}")), Some(0));
    assert_eq!(code(&format!("{failing}\nllq() {{ echo 'R!c1.7.0'; }}")), Some(1));
    assert_eq!(code(&format!("{failing}\nllq() {{ echo 'llq: away'; return 1; }}")), Some(1));
    assert_eq!(
        code(&format!("{failing}\nllq() {{ echo 'llq: away'; }}")),
        Some(1),
        "an answer that says nothing"
    );
}

fn machines() -> String {
    sample("classes.txt", "llstatus -r %n").stdout
}

#[test]
fn classes_are_described() {
    let class = sample("classes.txt", "llclass -l").stdout;
    let output = answer(&[&class, &machines()]);
    let node = |cores, gib: u64| Resources { cores, memory_bytes: gib << 30, ..Resources::default() };
    let expected = Queue {
        name: "serial_op".into(),
        is_default: false,
        is_up: true,
        walltime_max: Some(Span::from_secs(8_640_010 - 60)),
        nodes: vec![(2, node(32, 64)), (1, node(16, 32))],
        nodes_away: vec![],
    };
    assert_eq!(plain().read_describe(&output), Ok(vec![expected.clone()]));
    let without = Queue { nodes: vec![], ..expected.clone() };
    assert_eq!(loadleveler().read_describe(&output), Ok(vec![without]), "GPUs are in no listing");
    let with = |old: &str, new: &str| {
        let stdout = output.stdout.replace(old, new);
        plain().read_describe(&good(&stdout)).map(|mut queues| queues.remove(0))
    };
    let limit = "100+00:00:10, 100+00:00:00 (8640010 seconds, 8640000 seconds)";
    let walltime = |text| with(limit, text).map(|queue| queue.walltime_max);
    assert_eq!(walltime("undefined, undefined"), Ok(None));
    assert_eq!(walltime("01:00:00, 00:30:00 (3600 seconds, 1800 seconds)"), Ok(Some(Span::from_secs(1800))));
    assert_eq!(walltime("00:30, undefined"), Ok(Some(Span::ZERO)));
    assert_eq!(walltime("2+00:00:00"), Ok(Some(Span::from_secs(2 * 86_400 - 60))));
    assert!(walltime("soon").is_err());
    assert!(walltime("99999999999999999999+00:00:00").is_err());
    assert_eq!(with("Maximum_slots: 128", "Maximum_slots: 0").map(|queue| queue.is_up), Ok(false));
    let shorter = with("=============== Class serial_op ===============", "===== Class serial_op =====");
    assert_eq!(shorter, Ok(expected));
    assert_eq!(with("serial_op", "No_Class").map(|queue| queue.is_default), Ok(true));
    let drained = with("n08!Avail!Idle", "n08!Avail!Drned").expect("a class");
    assert_eq!((drained.nodes[0].0, drained.nodes_away), (1, vec![(1, node(32, 64))]));
    assert!(with("exit=0", "exit=1").is_err());
    let without = with("n08!Avail!Idle!32", "n08!Avail!Idle").expect("a class");
    assert_eq!(without.nodes.iter().map(|(n, _)| n).sum::<u32>(), 2, "one line is not understood");
    let in_gigabytes = with("65536", "62.5 gb").map(|queue| queue.nodes[0].1.memory_bytes);
    assert_eq!(in_gigabytes, Ok((62 << 30) + (1 << 30) / 1000 * 500));
}

#[test]
fn words_of_a_site_and_an_odd_class_hide_no_class_and_are_told() {
    let class = sample("classes.txt", "llclass -l").stdout;
    let odd = "=============== Class odd ===============\nName: odd\nWall_clock_limit: n/a\n";
    let banner = "=====\nWelcome to HPC!\nHelp: help@hpc.org\n=====\n";
    let output = answer(&[&format!("{banner}{odd}{class}"), &format!("{banner}{}n9!Avail\n", machines())]);
    let mut left_out = Vec::new();
    let plain_queues = plain().read_describe(&answer(&[&class, &machines()]));
    assert_eq!(plain().read_describe_with(&output, &mut left_out), plain_queues);
    let begins = |n: usize, with: &str| left_out.get(n).is_some_and(|line| line.starts_with(with));
    assert!(
        begins(0, "llclass: not understood and left out: `odd` (Wall_clock_limit: n/a), `=====`"),
        "{left_out:?}"
    );
    assert!(begins(1, "llstatus: not understood and left out: `=====`, `Welcome to HPC!`"), "{left_out:?}");
    let alone = plain().read_describe(&answer(&["Welcome to HPC!\n", &machines()]));
    assert!(alone.is_err_and(|error| error.to_string() == "not understood: llclass: `Welcome to HPC!`"));
    let failed = "Welcome to HPC!\nllclass: 2539-861 Cannot contact LoadL_schedd.\n";
    let failed = plain().read_describe(&answer(&[failed, &machines()]));
    assert!(failed.is_err_and(|error| error.to_string().ends_with("Cannot contact LoadL_schedd.")));
}

#[test]
fn the_load_is_that_of_the_class_or_of_all() {
    let class = sample("classes.txt", "llclass -l").stdout;
    let waiting = "I!c1.1.0\nR!c1.2.0\nNQ!c1.3.0\nD!c1.4.0\nH!c1.5.0\n";
    let mut of_class = loadleveler();
    of_class.site.queue = Some("serial_op".into());
    let expected = QueueLoad { free_cores: 111, cores: 128, n_waiting: 3, waiting_cores: 3 };
    assert_eq!(of_class.read_load(&answer(&[&class, waiting])), Ok(expected));
    assert!(loadleveler().read_load(&answer(&[&class, waiting])).is_err(), "another class");
    let nothing = sample("queue.txt", "llq -u nobody").stdout;
    let expected = QueueLoad { n_waiting: 0, waiting_cores: 0, ..expected };
    assert_eq!(of_class.read_load(&answer(&[&class, &nothing])), Ok(expected));
    let machines = sample("classes.txt", "llstatus -r %sta").stdout;
    let expected = QueueLoad { free_cores: 44, cores: 80, n_waiting: 3, waiting_cores: 3 };
    assert_eq!(plain().read_load(&answer(&[&machines, waiting])), Ok(expected));
    assert!(plain().read_load(&answer(&[&machines, ""])).is_err());
    let without: String = machines.split_inclusive('\n').filter(|line| !line.contains("32!20")).collect();
    let without = plain().read_load(&answer(&[&without, waiting]));
    let (odd, mut left_out) = (machines.replace("32!20", "many!20"), Vec::new());
    assert_eq!(plain().read_load_with(&answer(&[&odd, waiting]), &mut left_out), without);
    assert!(
        left_out.iter().any(|line| line.contains("llstatus: not understood") && line.contains("many!20"))
    );
    let words = of_class.load().expect("a command").argv[4..].to_vec();
    assert_eq!(words, ["serial_op"]);
}

#[test]
fn the_environment_keeps_what_leads_to_the_configuration() {
    let mut command = loadleveler().list("pf");
    command.argv[2] = format!("{BEGINNING}env");
    let variables = "export LOADL_CONFIG=/etc/c LOADL_STEP_ID=c1.1.0 LOADLBATCH=yes LC_ALL=de_DE";
    let output = run(variables, &command);
    let has = |line: &str| output.stdout.lines().any(|seen| seen == line);
    assert!(has("LOADL_CONFIG=/etc/c") && has("LC_ALL=C"), "{output:?}");
    assert!(!output.stdout.contains("LOADL_STEP_ID") && !output.stdout.contains("LOADLBATCH"), "{output:?}");
}

/// Whether it is taken for anything.
fn is_read(output: &Output) -> bool {
    let class = loadleveler();
    class.read_list(output).is_ok()
        || class.read_submit(output).is_ok()
        || class.read_describe(output).is_ok()
        || class.read_load(output).is_ok()
        || plain().read_load(output).is_ok()
}

#[test]
fn hostile_answers_are_errors_and_no_panic() {
    let binary: String = (0..=255_u8).map(char::from).cycle().take(1 << 16).collect();
    let huge = "a word and ".repeat(1 << 14);
    let ids = [
        "!!!",
        "R!x!.0",
        "R!x!a..0",
        "R!x!a.1.0 b",
        "R!x!a.9999999999999999999.",
        "R!x!é.1.0",
        "\u{fffd}!x!a.1.0",
    ];
    let heads = ["=", "= Class", "===== Class x =====\nName: y", "Class x", "a: b"];
    let submitted = [
        "llsubmit: The job \"",
        "llsubmit: The job \"c1.1\" has been",
        "llsubmit: The job \".1\" has been submitted.",
    ];
    let many = "llsubmit: The job \"c1.1\" with 99999999999999999999 job steps has been submitted.";
    let all = ["", "exit=0", "--", &binary, &huge, many];
    for text in all.iter().chain(&ids).chain(&heads).chain(&submitted) {
        assert!(!is_read(&good(text)), "{text:.80}");
        for framed in [answer(&[text]), answer(&[text, text])] {
            assert!(!is_read(&framed), "{text:.80}");
        }
        let failed = Output { code: Some(1), stderr: (*text).to_owned(), ..Output::default() };
        let error = loadleveler().read_submit(&failed).expect_err("no id");
        assert!(error.to_string().chars().count() < 2_100, "it is for people");
    }
}

#[test]
fn what_is_cut_off_anywhere_is_not_taken_for_less() {
    let class = sample("classes.txt", "llclass -l").stdout;
    let whole = [
        answer(&["R!pf1_2!c1.16250.0\nI!pf1_3!c1.16251.0\n"]),
        answer(&[&class, &machines()]),
        answer(&[&class, "I!c1.1.0\n"]),
        sample("submit.txt", "llsubmit job.cmd"),
    ];
    for output in whole {
        let letters: Vec<char> = output.stdout.trim_end().chars().collect();
        for length in 0..letters.len() {
            let half: String = letters[..length].iter().collect();
            assert!(!is_read(&good(&half)), "{half}");
        }
    }
    // A command that was cut within an answer that was not.
    let raw = "R!pf1_2!c1.16250.0\nI!pf1_3!c1.16251.0";
    let n_read = |half: &str| loadleveler().read_list(&answer(&[half])).map_or(0, |jobs| jobs.len());
    let first = raw.find('\n').expect("two lines");
    for length in 0..raw.len() {
        let n_whole = if length == first || length == first + 1 { 1 } else { 0 };
        assert_eq!(n_read(&raw[..length]), n_whole, "{}", &raw[..length]);
    }
    assert_eq!(n_read(raw), 2);
}

#[test]
fn all_samples_are_steps() {
    let files = crate::transcripts::files_of("loadleveler");
    let n_steps: usize = files.iter().map(|(_, steps): &(String, Vec<Step>)| steps.len()).sum();
    assert_eq!((files.len(), n_steps), (4, 15));
}

/// A line of the raw form, and the job that it is.
fn a_job() -> impl Strategy<Value = (String, BatchJob)> {
    let states = prop::sample::select(vec!["I", "R", "CA", "NQ", "RP", "ZZ"]);
    ("[a-z][a-z0-9-]{0,8}(\\.[a-z]{1,8}){0,2}", 1_u32.., 0_u32..9, states, "[ -~]{0,15}").prop_map(
        |(host, job, step, state, name)| {
            let id = format!("{host}.{job}.{step}");
            let line = format!("{state}!{name}!{id}");
            (
                line,
                BatchJob {
                    id,
                    tag: name.replace('_', "-"),
                    state: answers::state_of(state, ""),
                    n_tasks: None,
                    reason: (state == "CA").then(|| "CANCELLED (CA)".to_owned()),
                },
            )
        },
    )
}

proptest! {
    #[test]
    fn jobs_of_any_name_are_read_and_none_is_lost(jobs in prop::collection::vec(a_job(), 1..20)) {
        let (lines, jobs): (Vec<String>, Vec<BatchJob>) = jobs.into_iter().unzip();
        prop_assert_eq!(loadleveler().read_list(&answer(&[&lines.join("\n")])), Ok(jobs));
    }

    #[test]
    fn what_was_cut_within_a_line_is_no_listing(jobs in prop::collection::vec(a_job(), 1..5), cut in 1_usize..) {
        let lines: Vec<String> = jobs.into_iter().map(|(line, _)| line).collect();
        let last = lines.last().expect("a line");
        // What is left of a name with a blank may look like a remark; our own have none.
        prop_assume!(!last.contains(' '));
        let cut = 1 + cut % (last.len() - 1);
        let text = lines.join("\n");
        let half = &text[..text.len() - cut];
        prop_assert!(loadleveler().read_list(&answer(&[half])).is_err(), "{}", half);
    }

    #[test]
    fn tags_come_back_from_names_of_jobs(tag in "pf[0-9a-f]{1,6}-[0-9]{1,6}") {
        let name = file::job_name(&tag);
        prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        prop_assert_eq!(file::tag(&name), tag);
    }

    #[test]
    fn no_answer_makes_a_reader_panic(stdout in "(.|\n|!|=|:|\\.|--|exit=0){0,200}", stderr in ".{0,50}") {
        for stdout in [stdout.clone(), format!("{stdout}\nexit=0\n"), format!("{stdout}\n--\n{stdout}\nexit=0\n")] {
            is_read(&Output { code: Some(0), stdout, stderr: stderr.clone() });
        }
    }
}

#[test]
fn a_step_that_somebody_renamed_has_its_tag_by_its_id() {
    let raw = "I!lab_pf1_2!c1.12.0\nR!pf1_9!c1.13.0\nI!mine!c1.14.0\nI!step!c2.lab.org.15.1\nI!other!c1.15.0\n\
        I!second!c1.12.1\nI!far!c11.12.0\nI!long!c3.16.0\n\nexit=0\n";
    let known = [
        ("c1.lab.org.12.0", "pf1-2"),
        ("c1.13.0", "pf1-3"),
        ("c2.lab.org.15", "pf1-5"),
        ("c3.16.0", "pf1-6"),
    ];
    let expected = ["pf1-2", "pf1-9", "mine", "pf1-5", "other", "second", "far", "pf1-6"];
    assert_eq!(testing::tags(&loadleveler(), &known, &good(raw)), expected);
}
