//! What the recordings of a real OpenPBS and a real TORQUE mean.

use std::path::Path;

use scheduler::{resources::Resources, time::Span};

use super::*;
use crate::{
    command::BatchState,
    testing::{request, site, surroundings},
    transcripts::{Step, all_of, of, steps, text},
};

const SYSTEMS: [(&str, Form); 2] = [("openpbs", Form::OpenPbs), ("torque", Form::Torque)];

fn pbs() -> Pbs {
    Pbs::new(&surroundings(), &site("batch", &["-Wumask=022"]))
}

/// What our script makes of what was recorded, having asked for these jobs.
fn listing(form: Form, asked: &str, recorded: &Output) -> Output {
    let form = match form {
        Form::OpenPbs => "openpbs",
        Form::Torque => "torque",
    };
    let code = recorded.code.unwrap_or(1);
    let stdout = format!("form={form}\nasked={asked}\n{}\nexit={code}\n", recorded.stdout);
    Output { code: Some(0), stdout, ..recorded.clone() }
}

fn recorded(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(name))
}

/// The ids in a listing of that form.
fn ids(form: Form, stdout: &str) -> String {
    let records = jobs_of(form, stdout).expect(stdout);
    records.iter().map(|record| record.name.as_str()).collect::<Vec<_>>().join(" ")
}

/// Listings of whole jobs as the adapter asks for them.
fn listings(form: Form, recorded: &[Step]) -> Vec<&Step> {
    let is_listing = |step: &&Step| {
        let command = &step.command;
        let is_asked = match form {
            // Folded or not.
            Form::OpenPbs => {
                command.starts_with("qstat -") && command.split(' ').any(|word| word.contains('f'))
            }
            Form::Torque => command.starts_with("qstat ") && command.contains("-x"),
        };
        is_asked && !["-F", "|", "-B", "-Q", "version"].iter().any(|other| command.contains(other))
    };
    recorded.iter().filter(is_listing).collect()
}

#[test]
fn the_join_document_is_in_the_script_only() {
    let command = pbs().submit(&request(1));
    assert!(command.argv.iter().all(|word| !word.contains("secret")), "{:?}", command.argv);
    assert_eq!(
        command.argv[4..].join(" "),
        "-S /bin/sh -r n -m n -j oe -o /dev/null -N pf1-2 -q batch -A lab -l walltime=3601 -Wumask=022"
    );
    let lines = &command.argv[2];
    assert!(lines.contains("openpbs) set -- -f -l select=1:ncpus=4:mpiprocs=1:mem=3072mb:ngpus=2 \"$@\""));
    assert!(lines.contains("torque) set -- -l nodes=1:ppn=4:gpus=2 -l mem=3072mb \"$@\""), "{lines}");
    assert_eq!(
        String::from_utf8_lossy(&command.stdin),
        "#!/bin/sh\n(umask 077; mkdir -p /scratch/pilots/pf1-2 && : >> /scratch/pilots/pf1-2/job.log) && \
         exec >> /scratch/pilots/pf1-2/job.log 2>&1\nmodule load glibc\nexec '/opt/pilot fish/agent' run --tag pf1-2 --join - <<'PILOTFISH-JOIN'\n\
         {\"token\":\"secret\"}\nPILOTFISH-JOIN\n"
    );
}

#[test]
fn several_nodes_have_an_agent_each() {
    let command = pbs().submit(&request(3));
    assert!(
        command.argv[2].contains("select=3:ncpus=4:mpiprocs=1:mem=3072mb:ngpus=2 -l place=scatter \"$@\"")
    );
    assert!(command.argv[2].contains("nodes=3:ppn=4:gpus=2 -l mem=9216mb \"$@\""));
    let script = String::from_utf8_lossy(&command.stdin).into_owned();
    assert!(script.contains("(umask 077; cat > \"$join\") <<'PILOTFISH-JOIN'\n{\"token\":\"secret\"}\n"));
    let last = "\nexec '\\''/opt/pilot fish/agent'\\'' run --tag pf1-2 --join - < \"$1\"\n' sh \"$join\"\n";
    assert!(script.ends_with(last), "{script}");
    let (here, there) = script.split_once("\n$launcher /bin/sh -c '").expect("a launcher");
    let is_ready =
        |part: &str| (part.contains("module load glibc"), part.contains(">> /scratch/pilots/pf1-2/job.log"));
    assert_eq!((is_ready(here), is_ready(there)), ((false, true), (true, true)), "{script}");
}

#[test]
fn recorded_submissions_are_ids_or_refusals_that_say_why() {
    for (system, n_refused_min) in [("openpbs", 25), ("torque", 30)] {
        let mut n_refused = 0;
        for file in ["02-qsub-ok.txt", "03-qsub-rejected.txt"] {
            let recorded = steps(&recorded(&format!("{system}/{file}")));
            let submissions = recorded.iter().filter(|step| step.command.contains("qsub"));
            // `-z`: says nothing on purpose.
            for step in submissions.filter(|step| !step.command.contains("-z")) {
                let answer = pbs().read_submit(&step.output);
                if step.output.code == Some(0) {
                    assert_eq!(answer, Ok(step.output.stdout.trim().to_owned()), "{}", step.command);
                } else {
                    let is_refused = matches!(&answer, Err(AdapterError::Refused(why))
                        if why.len() > 10 && !why.starts_with("qsub:") && !why.contains("usage"));
                    assert!(is_refused, "{}: {answer:?}", step.command);
                    n_refused += 1;
                }
            }
        }
        assert!(n_refused >= n_refused_min, "{system}: {n_refused}");
    }
}

#[test]
fn refusals_are_in_the_systems_words() {
    let why = |system: &str, command: &str| {
        let recorded = steps(&recorded(&format!("{system}/03-qsub-rejected.txt")));
        let step = of(&recorded, command).into_iter().find(|step| step.output.code != Some(0));
        let step = step.expect(command);
        match pbs().read_submit(&step.output) {
            Err(AdapterError::Refused(why)) => why,
            other => panic!("{command}: {other:?}"),
        }
    };
    assert_eq!(why("openpbs", "qsub -q nosuch"), "Unknown queue");
    assert_eq!(why("openpbs", "qsub -N \"bad name\""), "illegal -N value");
    assert_eq!(why("torque", "qsub -q nosuch"), "Unknown queue MSG=requested queue not found");
    assert_eq!(why("torque", "qsub -N \"bad name\""), "illegal -N value");
    assert_eq!(
        why("torque", "qsub -A nosuchproject ok.sh"),
        "submitfilter: account nosuchproject is not valid for alice Your job has been administratively rejected by \
         the queueing system. There may be a more detailed explanation prior to this notice.",
    );
}

#[test]
fn a_server_that_is_away_leaves_everything_open() {
    for (system, form) in SYSTEMS {
        let recorded = steps(&recorded(&format!("{system}/14-down.txt")));
        let is_failure = |step: &&Step| step.output.code != Some(0);
        let is_configured = |step: &&Step| !step.output.stderr.contains("pbsconf");
        let submissions: Vec<_> = of(&recorded, "qsub").into_iter().filter(is_failure).collect();
        assert!(!submissions.is_empty(), "{system}");
        for step in submissions.into_iter().filter(is_configured) {
            let answer = pbs().read_submit(&step.output);
            assert!(matches!(answer, Err(AdapterError::NotUnderstood(_))), "{}: {answer:?}", step.command);
        }
        for step in of(&recorded, "qstat").into_iter().filter(is_failure) {
            let output = listing(form, "7.pbshead", &step.output);
            assert!(pbs().read_list(&output).is_err(), "{}", step.command);
        }
    }
}

#[test]
fn every_recorded_job_is_read() {
    for (system, form) in SYSTEMS {
        let mut n_jobs = 0;
        let recorded = all_of(system);
        for step in listings(form, &recorded) {
            // The newline in a variable of one job is the reason not to read TORQUE's text.
            let asked = ids(form, &step.output.stdout);
            let jobs = pbs().read_list(&listing(form, &asked, &step.output)).expect(&step.command);
            assert!(jobs.iter().all(|job| !matches!(job.state, BatchState::Unknown(_))), "{jobs:?}");
            n_jobs += jobs.len();
        }
        assert!(n_jobs > 10, "{system}: {n_jobs}");
    }
    for (file, n_jobs) in
        [("qstat-x-all", 6), ("qstat-x-complete", 1), ("qstat-x-running", 1), ("qstat-t-x-array", 13)]
    {
        let stdout = recorded(&format!("torque/{file}.xml"));
        let output = Output { code: Some(0), stdout, ..Output::default() };
        let asked = ids(Form::Torque, &output.stdout);
        let jobs = pbs().read_list(&listing(Form::Torque, &asked, &output)).expect(file);
        assert_eq!(jobs.len(), n_jobs, "{file}");
    }
}

#[test]
fn a_job_in_folded_lines_keeps_its_words() {
    let recorded = recorded("torque/qstat-f-all.txt");
    let jobs = of_text(&recorded, "Job Id: ").expect("jobs");
    let job = jobs.iter().find(|job| job.name == "67.pbshead").expect("the first one");
    assert_eq!(
        job.attribute("submit_args"),
        Some("-N runs -l nodes=1:ppn=2,walltime=00:10:00 -v PILOT=a b,Q=c;d notrap.sh")
    );
    let variables = job.attribute("Variable_List").expect("variables");
    assert!(variables.contains(":/usr/bin:/bin,PBS_O_SHELL=/bin/bash,"), "{variables}");
}

#[test]
fn variables_forge_no_attributes() {
    let recorded = steps(&recorded("torque/07-xml.txt"));
    let step = of(&recorded, "qstat -x 125.pbshead 99999")[0];
    let output = listing(Form::Torque, "125.pbshead 99999.pbshead", &step.output);
    let held = BatchState::Stuck("held, Hold_Types = u".into());
    let expected =
        BatchJob { id: "125.pbshead".into(), tag: "pilot".into(), state: held, n_tasks: None, reason: None };
    assert_eq!(pbs().read_list(&output), Ok(vec![expected]));
    // In text, where they do so, the first attribute of a name is the true one.
    let forged = &of(&recorded, "qstat -f -1 125.pbshead")[0].output.stdout;
    assert!(forged.contains("\n    job_state = C"));
    let job = &of_text(forged, "Job Id: ").expect("a job")[0];
    assert_eq!((job.attribute("job_state"), job.attribute("exec_host")), (Some("H"), None));
    let job = &of_xml(&of(&recorded, "qstat -x 114.pbshead")[0].output.stdout).expect("a job")[0];
    assert!(job.attribute("Variable_List").is_some_and(|list| list.contains("A=<a>&b,N0=007")));
}

#[test]
fn jobs_that_went_meanwhile_are_gone_and_those_of_which_nothing_is_said_are_not() {
    let list = |form, asked: &str, stderr: &str| {
        let output = Output { code: Some(153), stderr: stderr.into(), ..Output::default() };
        pbs().read_list(&listing(form, asked, &output))
    };
    assert_eq!(list(Form::OpenPbs, "9.pbshead", "qstat: Unknown Job Id 9.pbshead"), Ok(vec![]));
    assert_eq!(list(Form::Torque, "9.pbshead", "qstat: Unknown Job Id Error 9.pbshead"), Ok(vec![]));
    let finished = "qstat: 9.pbshead Job has finished, use -x or -H to obtain historical job information";
    assert_eq!(list(Form::OpenPbs, "9.pbshead", finished), Ok(vec![]));
    assert!(list(Form::OpenPbs, "9.pbshead 10.pbshead", finished).is_err());
    assert!(list(Form::Torque, "9.pbshead", "qstat: End of File").is_err());
    assert!(list(Form::OpenPbs, "9.pbshead", "qstat: Unauthorized Request  9.pbshead").is_err());
    assert!(list(Form::OpenPbs, "9.pbshead", "qstat: Unknown Job Id 19.pbshead").is_err());
    assert_eq!(list(Form::Torque, "", ""), Ok(vec![]));
}

#[test]
fn states_are_what_they_mean_for_a_pilot() {
    let state = |letter, comment| states::state_of(letter, comment, "s");
    assert_eq!(state("Q", "Not Running: Insufficient amount of resource: ncpus"), BatchState::Queued);
    let never = "Can Never Run: Insufficient amount of resource: ncpus (R: 10000 A: 8 T: 8)";
    assert_eq!(state("Q", never), BatchState::Stuck(never.into()));
    let stopped = "Not Running: Queue not started.";
    assert_eq!(state("Q", stopped), BatchState::Stuck(stopped.into()));
    assert_eq!(
        state("H", "too many\nfailed attempts\n"),
        BatchState::Stuck("held: too many failed attempts".into())
    );
    assert_eq!(state("H", ""), BatchState::Stuck("held, Hold_Types = s".into()));
    assert_eq!(state("E", ""), BatchState::Running, "it is not gone yet");
    assert_eq!(state("C", ""), BatchState::Ended);
    assert_eq!(state("F", ""), BatchState::Ended);
    assert_eq!(state("Z", "levitates"), BatchState::Unknown("Z".into()));
}

/// The outputs of commands of recordings, as one answer of ours.
fn answer_of(system: &str, parts: &[(&str, &str)]) -> Output {
    let part = |(file, command): &(&str, &str)| {
        let recorded = steps(&recorded(&format!("{system}/{file}")));
        recorded.iter().find(|step| step.command == *command).expect(command).output.stdout.clone()
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    let stdout = format!("form={system}\n{}\nexit=0\n", parts.join("--\n"));
    Output { code: Some(0), stdout, ..Output::default() }
}

#[test]
fn queues_are_described() {
    for (system, default) in [("openpbs", "workq"), ("torque", "batch")] {
        let parts = [
            ("01-version.txt", "qstat -Bf"),
            ("01-version.txt", "qstat -Qf short"),
            ("11-nodes.txt", "pbsnodes -a"),
        ];
        let output = answer_of(system, &parts);
        let queues = pbs().read_describe(&output).expect(system);
        let node = Resources { cores: 4, memory_bytes: 24_684_092 << 10, ..Resources::default() };
        let expected = Queue {
            name: "short".into(),
            is_default: false,
            is_up: true,
            walltime_max: Some(Span::from_secs(600)),
            nodes: vec![(2, node)],
        };
        assert_eq!(queues, [expected]);
        let with = |old: &str, new: &str| {
            let stdout = output.stdout.replacen(old, new, 1);
            pbs().read_describe(&Output { stdout, ..output.clone() })
        };
        for (owner, n_nodes) in [("short", 2), ("other", 1)] {
            let queues = with("     ntype", &format!("     queue = {owner}\n     ntype")).expect(owner);
            assert_eq!(queues[0].nodes.iter().map(|(n, _)| n).sum::<u32>(), n_nodes, "{owner}");
        }
        assert!(with("\nexit=0", "\nexit=1").is_err());
        let renamed = output.stdout.replace("Queue: short", &format!("Queue: {default}"));
        let queues = pbs().read_describe(&Output {
            stdout: renamed.replace("started = True", "started = False"),
            ..output
        });
        assert_eq!(queues.map(|queues| (queues[0].is_default, queues[0].is_up)), Ok((true, false)));
    }
}

#[test]
fn the_load_is_free_cores_and_waiting_ones() {
    for (system, waiting) in [("openpbs", "qstat -f 38.pbshead"), ("torque", "qstat -x 68.pbshead")] {
        let parts = [("11-nodes.txt", "pbsnodes -a"), ("04-states.txt", waiting)];
        let output = answer_of(system, &parts);
        let expected = QueueLoad { free_cores: 4, cores: 8, n_waiting: 1, waiting_cores: 8 };
        assert_eq!(pbs().read_load(&output), Ok(expected), "{system}");
        let with = |old: &str, new: &str| {
            let stdout = output.stdout.replacen(old, new, 1);
            let load = pbs().read_load(&Output { stdout, ..output.clone() });
            load.ok().map(|load| (load.free_cores, load.cores))
        };
        assert_eq!(with("state = free", "state = down,offline"), Some((2, 4)), "{system}");
        assert_eq!(with("state = free", "state = job-exclusive"), Some((2, 8)), "{system}");
        assert_eq!(with("\nexit=0", "\nexit=153"), Some((4, 8)), "a waiting job has gone meanwhile");
        assert_eq!(with("\nexit=0", "\nexit=255"), None);
    }
}

#[test]
fn hostile_answers_are_errors_and_no_panic() {
    let is_read = |output: &Output| {
        pbs().read_list(output).is_ok()
            || pbs().read_describe(output).is_ok()
            || pbs().read_load(output).is_ok()
    };
    let of_stdout = |stdout: String| Output { code: Some(0), stdout, ..Output::default() };
    let deep = format!("form=torque\nasked=1\n<?xml?><Data>{}", "<a>".repeat(1 << 16));
    let binary: String = (0..=255_u8).map(char::from).cycle().take(1 << 20).collect();
    for stdout in
        ["", "form=", "form=openpbs\nasked=1\nexit=0\n", "form=lsf\nasked=\nexit=0\n", &deep, &binary]
    {
        assert!(!is_read(&of_stdout(stdout.to_owned())), "{stdout}");
        assert!(pbs().read_submit(&of_stdout(stdout.to_owned())).is_err(), "{stdout}");
        let framed = format!("form=openpbs\nasked=1.a\n{stdout}\nexit=0\n");
        assert!(!is_read(&of_stdout(framed)), "{stdout}");
    }
    assert!(pbs().read_submit(&of_stdout("12.pbsh".into())).is_err(), "half a line");
    // Whole files of every recording, in each form and cut off anywhere.
    for (system, _) in SYSTEMS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(system);
        for entry in folder.read_dir().expect("recordings") {
            let text: Vec<char> = text(&entry.expect("a recording").path()).chars().take(8192).collect();
            for length in (0..text.len()).step_by(509).chain([text.len()]) {
                let half: String = text[..length].iter().collect();
                assert!(!is_read(&of_stdout(half.clone())));
                for form in ["openpbs", "torque"] {
                    let framed = format!("form={form}\nasked=1.a\n{half}\nexit=0\n");
                    assert!(!is_read(&of_stdout(framed)), "a job that is not there");
                }
            }
        }
    }
}
