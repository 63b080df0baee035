//! What the recordings of a real OpenPBS and a real TORQUE mean.

use std::path::Path;

use scheduler::{resources::Resources, time::Span};

use super::{listing::DETAILS, *};
use crate::{
    command::BatchState,
    testing::{request, site, surroundings, tags},
    transcripts::{Step, all_of, of, steps, text},
};

const SYSTEMS: [&str; 2] = ["openpbs", "torque"];

fn pbs() -> Pbs {
    Pbs::new(&surroundings(), &site("batch", &["-Wumask=022"]))
}

/// What our script makes of a listing that says this.
fn listing_of(of: &str, jobs: &str, details: &str) -> Output {
    let stdout = format!("form=openpbs\nof={of}\n{jobs}\n{DETAILS}\n{details}\nexit=0\n");
    Output { code: Some(0), stdout, ..Output::default() }
}

/// The same where one call said all.
fn listing(jobs: &str) -> Output {
    listing_of("user alice", jobs, "")
}

fn recorded(name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(name))
}

/// Listings of whole jobs.
fn listings<'s>(system: &str, recorded: &'s [Step]) -> Vec<&'s Step> {
    let is_listing = |step: &&Step| {
        let command = &step.command;
        let is_asked = match system {
            // Folded or not.
            "openpbs" => command.starts_with("qstat -") && command.split(' ').any(|word| word.contains('f')),
            _ => command.starts_with("qstat ") && command.contains("-x"),
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
    let begins =
        "\nexec '\\''/opt/pilot fish/agent'\\'' run --tag pf1-2 --join - <&3 3<&-\n' sh \"$join\" &\n";
    assert!(script.contains(begins), "{script}");
    let (here, there) = script.split_once("\n$launcher /bin/sh -c '").expect("a launcher");
    let is_ready =
        |part: &str| (part.contains("module load glibc"), part.contains(">> /scratch/pilots/pf1-2/job.log"));
    assert_eq!((is_ready(here), is_ready(there)), ((false, true), (true, true)), "{script}");
}

#[test]
fn the_pilot_is_told_how_long_it_may_run_where_nobody_has_said_a_walltime() {
    for n_nodes in [1, 2] {
        let scripts = [None, request(1).walltime].map(|walltime| {
            let request = AllocationRequest { walltime, ..request(n_nodes) };
            String::from_utf8_lossy(&pbs().submit(&request).stdin).into_owned()
        });
        let is_asked = |script: &String| script.contains("Resource_List.walltime");
        assert_eq!((is_asked(&scripts[0]), is_asked(&scripts[1])), (true, false));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let walltime_is = |variables: &[(&str, &str)], qstat: &str| {
        let program = folder.path().join("qstat");
        std::fs::write(&program, format!("#!/bin/sh\n{qstat}\n")).expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).expect("a program");
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-ec", &format!("{FIND_END}\necho \"<${{PBS_WALLTIME-}}>\"")]).env_clear();
        shell.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
        let output = shell.envs(variables.iter().copied()).output().expect("a shell");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let job = [("PBS_JOBID", "7.head")];
    let says = "[ \"$*\" = '-f 7.head' ] && echo '    Resource_List.ncpus = 1' && echo '    Resource_List.walltime = 01:00:30'";
    assert_eq!(walltime_is(&job, says), "<3630>");
    assert_eq!(walltime_is(&[job[0], ("PBS_WALLTIME", "5")], says), "<5>");
    for failing in ["echo '    Resource_List.ncpus = 1'", "echo qstat: Unknown Job Id >&2; exit 153", "true"]
    {
        assert_eq!(walltime_is(&job, failing), "<>", "{failing}");
    }
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
                    let is_refused = matches!(&answer, Err(AdapterError::Refused(why) | AdapterError::NoRoom(why))
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
    for system in SYSTEMS {
        let text = recorded(&format!("{system}/03-qsub-rejected.txt"));
        let is_limit =
            |why: &str| why.contains("per-user limit") || why.contains("already in queue for user");
        let full = |step: &&Step| step.output.code != Some(0) && is_limit(&step.output.stderr);
        let step = steps(&text).into_iter().find(|step| full(&step)).expect(system);
        let answer = pbs().read_submit(&step.output);
        assert!(matches!(&answer, Err(AdapterError::NoRoom(why)) if is_limit(why)), "{answer:?}");
    }
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
    for system in SYSTEMS {
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
            // Our lines of shell end with the code of `qstat` then.
            let output = Output { stdout: String::new(), ..step.output.clone() };
            assert!(pbs().read_list(&output).is_err(), "{}", step.command);
        }
    }
}

#[test]
fn every_recorded_job_is_read() {
    for system in SYSTEMS {
        let mut n_jobs = 0;
        let recorded = all_of(system);
        for step in listings(system, &recorded) {
            let jobs = pbs().read_list(&listing(&step.output.stdout)).expect(&step.command);
            assert!(jobs.iter().all(|job| !matches!(job.state, BatchState::Unknown(_))), "{jobs:?}");
            n_jobs += jobs.len();
        }
        assert!(n_jobs > 10, "{system}: {n_jobs}");
    }
    for (file, n_jobs) in
        [("qstat-x-all", 6), ("qstat-x-complete", 1), ("qstat-x-running", 1), ("qstat-t-x-array", 13)]
    {
        let stdout = recorded(&format!("torque/{file}.xml"));
        let jobs = pbs().read_list(&listing(&stdout)).expect(file);
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
    let output = listing(&step.output.stdout);
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
fn a_held_job_of_torque_does_not_say_why_it_waited_before() {
    let recorded = steps(&recorded("torque/15-held-after-waiting.txt"));
    let shown = of(&recorded, "qstat -x 38");
    let states = shown.iter().map(|step| {
        let jobs = pbs().read_list(&listing(&step.output.stdout)).expect("a listing");
        jobs[0].state.clone()
    });
    let held = BatchState::Stuck("held, Hold_Types = u".into());
    assert_eq!(states.collect::<Vec<_>>(), [BatchState::Queued, held]);
}

#[test]
fn tables_show_all_jobs_with_their_states() {
    let torque = recorded("torque/04-states.txt");
    let openpbs = recorded("openpbs/04-states.txt");
    for (text, command, first, n_jobs) in [
        (&openpbs, "qstat -w -n", "37.pbshead", 7),
        (&openpbs, "qstat -u alice", "37.pbshead", 7),
        (&torque, "qstat -a", "67.pbshead", 6),
    ] {
        let steps = steps(text);
        let table = &of(&steps, command)[0].output.stdout;
        let jobs = pbs().read_list(&listing(table)).expect(command);
        assert_eq!(jobs.len(), n_jobs, "{command}: {jobs:?}");
        let expected = BatchJob {
            id: first.into(),
            tag: "runs".into(),
            state: BatchState::Running,
            n_tasks: None,
            reason: None,
        };
        assert_eq!(jobs[0], expected, "{command}");
        assert!(jobs.iter().any(|job| job.state == BatchState::Stuck("held".into())), "{jobs:?}");
    }
    let nothing = pbs().read_list(&listing("\n"));
    assert_eq!(nothing, Ok(vec![]), "TORQUE says nothing where there is nothing");
}

const HEAD: &str = "\npbshead: \n                                Req'd\n\
    Job ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time\n\
    ------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----\n";

#[test]
fn a_job_of_others_that_cannot_be_read_hides_none_of_ours() {
    let ours = "12.pbshead alice batch pf1-2 -- 1 2 -- 00:10 Q --\n";
    let ids = |jobs: &str| {
        let jobs = pbs().read_list(&listing(jobs)).ok()?;
        Some(jobs.into_iter().map(|job| (job.id, job.tag)).collect::<Vec<_>>())
    };
    let of = |id: &str, tag: &str| (id.to_owned(), tag.to_owned());
    for odd in
        ["13.pbshead alice\n", "\u{fffd}\u{1}\u{7f}\n", "   n1/0*2+n2/0*2\n", "second line of a name\n"]
    {
        let table = format!("{HEAD}{odd}{ours}{odd}");
        assert_eq!(ids(&table), Some(vec![of("12.pbshead", "pf1-2")]), "{odd:?}");
    }
    let two_words = "14.pbshead alice batch two words -- 1 2 -- 00:10 R 00:01\n";
    assert_eq!(ids(&format!("{HEAD}{two_words}")), Some(vec![of("14.pbshead", "two words")]));
    let cut_off = "12.pbshead alice batch pf1-2 --\n";
    assert_eq!(ids(&format!("{HEAD}{cut_off}")), None, "it may be one of ours");
    let long = "123456789.a-very-long-server.o alice batch pf1-2 -- 1 2 -- 00:10 Q --\n";
    assert_eq!(
        ids(&format!("{HEAD}{long}")),
        Some(vec![of("123456789", "pf1-2")]),
        "an id that may be cut off"
    );
    // The same of XML and of `qstat -f`.
    let job = |name: &str| format!("<Job><Job_Id>7.h</Job_Id>{name}<job_state>Q</job_state></Job>");
    let (odd, good) = (job("<Job_Name>a</Job_Name><x>"), job("<Job_Name>pf1-2</Job_Name>"));
    assert_eq!(ids(&format!("<Data>{odd}{good}</Data>")).map(|jobs| jobs.len()), Some(2));
    let nameless = job("<x>");
    assert_eq!(ids(&format!("<Data>{nameless}{good}</Data>")), None, "whose is it?");
    let stateless =
        "Job Id: 7.h\n    Job_Name = theirs\n\nJob Id: 8.h\n    Job_Name = pf1-2\n    job_state = Q\n";
    assert_eq!(ids(stateless), Some(vec![of("8.h", "pf1-2")]));
    assert_eq!(ids(&stateless.replace("theirs", "pf1-1")), None);
}

#[test]
fn torque_prints_a_document_for_each_job_with_a_declaration_or_without() {
    let job = |id: u32| {
        format!(
            "<Data><Job><Job_Id>{id}.h</Job_Id><Job_Name>pf1-{id}</Job_Name><job_state>C</job_state></Job></Data>"
        )
    };
    for between in ["", "\n", "\n<?xml version=\"1.0\"?>\n"] {
        let text = format!("{between}{}{between}{}\n", job(1), job(2));
        let jobs = pbs().read_list(&listing(&text)).expect(&text);
        assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["1.h", "2.h"], "{text}");
        assert!(jobs.iter().all(|job| job.state == BatchState::Ended));
    }
    assert!(pbs().read_list(&listing(&format!("{}<Data><Job>", job(1)))).is_err(), "cut off");
}

#[test]
fn values_of_several_lines_are_one_value() {
    let text = "Job Id: 77.head\n    Job_Name = pf1-2\n    Job_Owner = u@head\n    job_state = Q\n    \
        Variable_List = PBS_O_HOME=/home/u,\n\tBASH_FUNC_greet%%=() {  if true; then\n echo hello; else\n echo bye; fi\n\
        \n}\n,PBS_O_QUEUE=batch\n    comment = Not Running: Queue not started.\n\n\
        Job Id: 78.head\n    Job_Name = pf1-3\n    job_state = R\n\n";
    let jobs = pbs().read_list(&listing(text)).expect("a listing");
    let stopped = "Not Running: Queue not started.";
    assert_eq!((jobs.len(), &jobs[0].state), (2, &BatchState::Stuck(stopped.into())));
    let variables = of_text(text, JOB).expect("jobs")[0].attribute("Variable_List").map(str::to_owned);
    assert!(variables.is_some_and(|list| list.ends_with("\n}\n,PBS_O_QUEUE=batch")));
}

#[test]
fn why_ours_wait_comes_with_the_listing() {
    let table = format!("{HEAD}12.pbshead alice batch pf1-2 -- 1 2 -- 00:10 Q --\n");
    let details = "Job Id: 12.pbshead\n    Job_Name = pf1-2\n    job_state = Q\n    comment = Not Running: Insufficient am\n\
        \tount of resource: ncpus\n\n";
    let jobs = pbs().read_list(&listing_of("user alice", &table, details)).expect("a listing");
    let why = "Not Running: Insufficient amount of resource: ncpus";
    assert_eq!((&jobs[0].state, jobs[0].reason.as_deref()), (&BatchState::Queued, Some(why)));
    let jobs = pbs().read_list(&listing_of("user alice", &table, "<half")).expect("it stands for itself");
    assert_eq!((&jobs[0].state, &jobs[0].reason), (&BatchState::Queued, &None));
}

#[test]
fn of_everybodys_jobs_only_our_users_are_taken() {
    let job = |id: u32, owner: &str| {
        format!("Job Id: {id}.h\n    Job_Name = pf1-{id}\n    Job_Owner = {owner}@h\n    job_state = Q\n\n")
    };
    let text = job(1, "alice") + &job(2, "bob");
    let ids = |of: &str| pbs().read_list(&listing_of(of, &text, "")).map(|jobs| jobs.len());
    assert_eq!((ids("all alice"), ids("user alice")), (Ok(1), Ok(2)));
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
    let before = "Not Running: Not enough of the right type of nodes are available\n";
    assert_eq!(state("H", before), BatchState::Stuck("held, Hold_Types = s".into()));
    assert_eq!(state("E", ""), BatchState::Running, "it is not gone yet");
    assert_eq!([state("S", ""), state("U", "")], [BatchState::Suspended, BatchState::Suspended]);
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
            nodes_away: vec![],
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
        for state in ["down,offline", "state-unknown,down", "maintenance"] {
            let queues = with("state = free", &format!("state = {state}")).expect(state);
            let n_of = |nodes: &[(u32, Resources)]| nodes.iter().map(|(n, _)| n).sum::<u32>();
            assert_eq!((n_of(&queues[0].nodes), n_of(&queues[0].nodes_away)), (1, 1), "{state}");
        }
        assert!(with("\nexit=0", "\nexit=1").is_err());
        // Of one that was never up nothing is known, and one that is made of several says so.
        for (theirs, ours) in
            [("resources_available.ncpus = 4", "resources_available.ncpus = <various>"), ("np = 4", "np = ?")]
        {
            if output.stdout.contains(theirs) {
                let queues = with(theirs, ours).expect(ours);
                assert_eq!(queues[0].nodes.iter().map(|(n, _)| n).sum::<u32>(), 1, "{ours}");
            }
        }
        let renamed = output.stdout.replace("Queue: short", &format!("Queue: {default}"));
        let queues = pbs().read_describe(&Output {
            stdout: renamed.replace("started = True", "started = False"),
            ..output
        });
        assert_eq!(queues.map(|queues| (queues[0].is_default, queues[0].is_up)), Ok((true, false)));
    }
}

#[test]
fn words_of_a_site_and_an_odd_queue_hide_no_queue_and_are_told() {
    let banner = "Welcome to HPC!\nno support = today\n";
    for system in ["openpbs", "torque"] {
        let parts = [
            ("01-version.txt", "qstat -Bf"),
            ("01-version.txt", "qstat -Qf short"),
            ("11-nodes.txt", "pbsnodes -a"),
        ];
        let output = answer_of(system, &parts);
        let plain = pbs().read_describe(&output).expect(system);
        let read = |stdout: String| {
            let mut left_out = Vec::new();
            let queues = pbs().read_describe_with(&Output { stdout, ..output.clone() }, &mut left_out);
            (queues.map_err(|error| error.to_string()), left_out)
        };
        let head = format!("form={system}\n");
        let with_banners = output.stdout.replacen(&head, &format!("{banner}{head}{banner}"), 1);
        let with_banners = with_banners.replace("\n--\n", &format!("\n--\n{banner}"));
        let with_banners = with_banners.replace("\nexit=0", "\nGoodbye!\n\nexit=0");
        let (queues, left_out) = read(with_banners);
        assert_eq!(queues.as_ref(), Ok(&plain), "{system}");
        let commands: Vec<&str> = left_out.iter().filter_map(|line| line.split(": not").next()).collect();
        assert_eq!(commands, ["qstat -Bf", "pbsnodes -a", "qstat -Qf"], "{left_out:?}");
        assert!(left_out.iter().all(|line| line.contains("`Welcome to HPC!`")), "{left_out:?}");
        let odd = "Queue: odd\n    queue_type = Execution\n    resources_max.walltime = n/a\n\nQueue: short";
        let (queues, left_out) = read(output.stdout.replace("Queue: short", odd));
        assert_eq!(queues, Ok(plain), "{system}");
        let told = "qstat -Qf: not understood and left out: `Queue: odd` (resources_max.walltime = n/a)";
        assert_eq!(left_out, [told]);
        let (queues, _) = read(format!("{head}{banner}\n--\n{banner}\n--\n{banner}\n\nexit=0\n"));
        assert_eq!(queues, Err("not understood: qstat -Bf: `Welcome to HPC!`".to_owned()));
    }
}

#[test]
fn the_load_is_free_cores_and_waiting_ones() {
    for (system, waiting) in [("openpbs", "qstat -f 38.pbshead"), ("torque", "qstat -x 68.pbshead")] {
        let parts = [
            ("11-nodes.txt", "pbsnodes -a"),
            ("01-version.txt", "qstat -Qf short"),
            ("04-states.txt", waiting),
        ];
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
        assert_eq!(with("\nexit=0", "\nexit=255"), None);
        assert_eq!(with("\n--\n", "\n--\nWelcome!\n"), Some((4, 8)), "{system}");
        let nobody = answer_of(system, &parts[..2]).stdout.replace("\nexit=0", "--\nWelcome!\n\nexit=0");
        let nobody = pbs().read_load(&Output { stdout: nobody, ..output.clone() });
        assert_eq!(nobody.map(|load| load.n_waiting), Ok(0), "{system}: a banner and no job");
        // A server that shows our own jobs only counts those of others.
        let counted =
            output.stdout.replacen("state_count = Transit:0 Queued:0", "state_count = Transit:0 Queued:7", 1);
        let load = pbs().read_load(&Output { stdout: counted, ..output.clone() }).expect("a load");
        assert_eq!((load.n_waiting, load.waiting_cores), (7, 14), "{system}");
    }
    for (system, table, n_waiting, waiting_cores) in
        [("openpbs", "qstat -w -n", 3, 10_009), ("torque", "qstat -i", 2, 9)]
    {
        let parts = [
            ("11-nodes.txt", "pbsnodes -a"),
            ("01-version.txt", "qstat -Qf short"),
            ("04-states.txt", table),
        ];
        let load = pbs().read_load(&answer_of(system, &parts)).expect(system);
        assert_eq!((load.n_waiting, load.waiting_cores), (n_waiting, waiting_cores), "{system}");
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
    let deep = format!("<?xml?><Data>{}", "<a>".repeat(1 << 16));
    let binary: String = (0..=255_u8).map(char::from).cycle().take(1 << 20).collect();
    for stdout in ["", "form=", "form=lsf\nof=user a\n\nexit=0\n", &deep, &binary] {
        assert!(!is_read(&of_stdout(stdout.to_owned())), "{stdout}");
        assert!(pbs().read_submit(&of_stdout(stdout.to_owned())).is_err(), "{stdout}");
        if !stdout.is_empty() {
            assert!(!is_read(&listing(stdout)), "{stdout}");
        }
    }
    let endless = listing("").stdout.replace("\nexit=0\n", "");
    assert!(!is_read(&of_stdout(endless)), "it did not come to its end");
    assert!(pbs().read_submit(&of_stdout("12.pbsh".into())).is_err(), "half a line");
    // Whole files of every recording, cut off anywhere.
    for system in SYSTEMS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(system);
        for entry in folder.read_dir().expect("recordings") {
            let text: Vec<char> = text(&entry.expect("a recording").path()).chars().take(8192).collect();
            for length in (0..text.len()).step_by(509).chain([text.len()]) {
                let half: String = text[..length].iter().collect();
                assert!(!is_read(&of_stdout(half.clone())));
                let jobs = pbs().read_list(&listing(&half));
                assert!(
                    jobs != Ok(vec![]) || half.trim().is_empty(),
                    "what is not understood is not nothing"
                );
            }
        }
    }
}

#[test]
fn a_job_that_somebody_renamed_has_its_tag_by_its_id() {
    let row = |id: &str, name: &str| format!("{id} alice batch {name} -- 1 2 -- 00:10 Q --\n");
    let long = "16.a-very-long-name-of-a-server";
    let rows = [("12.pbshead", "lab_pf1-2"), ("13.pbshead", "pf1-9"), ("14.pbshead", "mine")];
    let rows =
        rows.into_iter().chain([("15.pbshead", "theirs"), (long, "long name"), ("121.pbshead", "other")]);
    let table = format!("{HEAD}{}", rows.map(|(id, name)| row(id, name)).collect::<String>());
    let whole = format!("{long}.example.org");
    let known = [
        ("12.pbshead.example.org", "pf1-2"),
        ("13.pbshead.example.org", "pf1-3"),
        ("15.otherhost.example.org", "pf1-5"),
        (whole.as_str(), "pf1-6"),
    ];
    let expected = ["pf1-2", "pf1-9", "mine", "theirs", "pf1-6", "other"];
    assert_eq!(tags(&pbs(), &known, &listing(&table)), expected);
    let xml = "<Data><Job><Job_Id>12.pbshead.example.org</Job_Id><Job_Name>lab_pf1-2</Job_Name>\
        <Job_Owner>alice@node</Job_Owner><job_state>R</job_state></Job></Data>";
    assert_eq!(tags(&pbs(), &known, &listing_of("all alice", xml, "")), ["pf1-2"]);
}

#[test]
fn why_a_renamed_job_waits_is_asked_for_by_its_id() {
    let table = format!(
        "{HEAD}12.pbshead alice batch mine -- 1 2 -- 00:10 Q --\n13.pbshead alice batch other -- 1 2 -- 00:10 Q --\n"
    );
    let qstat = format!(
        "qstat() {{ case $* in --version) echo 'pbs_version = 23' ;; *-f*) echo \"qstat $*\" >&2 ;; *) printf '%s' '{}' ;; esac; }}",
        table.replace('\'', "'\\''")
    );
    let asked = |known: &[&str]| {
        let known: Vec<BatchId> = known.iter().map(|id| (*id).to_owned()).collect();
        let list = pbs().list_with("pf1-", &known);
        let mut argv = list.argv;
        argv[2] = format!("{qstat}\n{}", argv[2].replace(" 2>/dev/null", ""));
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("a shell");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(asked(&[]), "", "none is ours");
    assert_eq!(asked(&["12.pbshead.example.org"]), "qstat -f 12.pbshead\n");
}

#[test]
fn torque_job_asked_for_by_id_tells_how_it_ended() {
    let row = |id: u32| format!("{id}.pbshead alice batch pf1-{id} -- 1 2 -- 00:10 C --\n");
    let table = format!("{HEAD}{}", [12, 13, 14, 15].map(row).concat());
    let job = |id: u32, status: &str| {
        format!(
            "<Data><Job><Job_Id>{id}.pbshead</Job_Id><Job_Name>pf1-{id}</Job_Name><Job_Owner>alice@n</Job_Owner>\
             <job_state>C</job_state>{status}</Job></Data>\n"
        )
    };
    let status = |status: i32| format!("<exit_status>{status}</exit_status>");
    let details: String =
        [job(12, &status(271)), job(13, &status(-11)), job(14, &status(-10)), job(15, "")].concat();
    let jobs = pbs().read_list(&listing_of("user alice", &table, &details)).expect("a listing");
    let said: Vec<Option<&str>> = jobs.iter().map(|job| job.reason.as_deref()).collect();
    let expected = [
        // By `qdel`, whoever gave it.
        Some("CANCELLED (exit_status = 271)"),
        Some("TIMEOUT (exit_status = -11)"),
        // It took too much memory.
        Some("exit_status = -10"),
        None,
    ];
    assert_eq!(said, expected);
    assert!(jobs.iter().all(|job| job.state == BatchState::Ended), "{jobs:?}");

    let qstat = format!(
        "qstat() {{ case $* in --version) echo 'Version: 6.1.3' >&2 ;; *-x*) echo \"qstat $*\" >&2 ;; *) printf '%s' '{}' ;; esac; }}",
        table.replace('\'', "'\\''")
    );
    let asked = |known: &[&str]| {
        let known: Vec<BatchId> = known.iter().map(|id| (*id).to_owned()).collect();
        let mut argv = pbs().list_with("pf1-", &known).argv;
        argv[2] = format!("{qstat}\n{}", argv[2].replace(" 2>/dev/null", ""));
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("a shell");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(asked(&[]), "", "what has ended for good is not asked for again and again");
    assert_eq!(asked(&["12.pbshead", "14.pbshead"]), "qstat -x 12.pbshead 14.pbshead\n");
}

#[test]
fn the_age_of_a_job_is_that_of_its_creation_on_the_servers_clock() {
    let age = |ctime: &str| {
        let mut argv = pbs().age("12.pbshead").expect("PBS says it").argv;
        let qstat = format!(
            "qstat() {{ case $* in --version) echo 'pbs_version = 23' ;; *) printf 'Job Id: 12\\n    ctime = %s\\n    x = y\\n' \"{ctime}\" ;; esac; }}"
        );
        argv[2] = format!("{qstat}\n{}", argv[2]);
        let output = std::process::Command::new(&argv[0]).args(&argv[1..]).output().expect("a shell");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u64>().ok()
    };
    let age_of_an_hour = age("$(date -d '1 hour ago')").expect("a number");
    // However long the shell takes.
    assert!((3600..7200).contains(&age_of_an_hour), "{age_of_an_hour}");
    assert!(age("Sat Nov 21 07:16:51 2020").is_some_and(|age| age > 100_000_000));
    assert_eq!(age("<various>"), None);
    assert_eq!(age(""), None);
}

#[test]
fn an_empty_listing_with_words_of_a_failure_is_no_listing_although_it_ended_with_0() {
    let said = |stderr: &str| Output { stderr: stderr.into(), ..listing("") };
    let read = |stderr: &str| pbs().read_list(&said(stderr));
    let failed = read("Connection refused\nqstat: cannot connect to server head (errno=111)\n");
    assert!(matches!(&failed, Err(error) if error.to_string().contains("cannot connect to server head")));
    for harmless in ["", "qstat: Unknown Job Id Error 12.head\n", "ann: warning: quota is low\n"] {
        assert_eq!(read(harmless), Ok(vec![]), "{harmless}");
    }
}
