//! Pilots as batch jobs of LoadLeveler, of two emulated releases, and of a real one where there is one: sweeps
//! complete whatever becomes of the jobs, the central manager and the manager, and nothing is left behind.

use std::{fs, os::unix::fs::PermissionsExt};

use adapters::{
    Adapter, Surroundings, adapter,
    command::{AdapterError, AllocationRequest, BatchState, Command, Output, QueueLoad},
};
use nix::unistd::Uid;
use profiles::site::{ResourceNames, Site};
use scheduler::{resources::Resources, time::Span};
use tests::{
    Sandbox,
    loadleveler::{Cluster, System},
    scene::Scene,
    text, until,
};

/// A cluster, and a manager with pilots in its class `batch`.
fn start(system: System) -> Scene<Cluster> {
    start_with(system, "walltime: 10m")
}

/// The same, of which this is said, too.
fn start_with(system: System, site: &str) -> Scene<Cluster> {
    println!("{system:?}");
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, system);
    let fields = format!("name: cluster, adapter: loadleveler, class: batch, pilots_max: 2, {site}");
    Scene::start(sandbox, cluster, &fields)
}

#[test]
fn a_sweep_runs_in_batch_jobs() {
    for system in System::all() {
        let mut scene = start(system);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(10);
        let pilots = scene.sandbox.json(&["pilots"]).to_string();
        let steps = scene.platform.steps(&["R"]);
        // The listing may have a shorter name of the host.
        let is_told = |id: &String| pilots.contains(id.split_once('.').map_or("", |(_, number)| number));
        assert!(!steps.is_empty() && steps.iter().any(is_told), "{steps:?}: {pilots}");
        scene.ends_well(0);
    }
}

#[test]
fn one_batch_job_has_a_pilot_on_each_of_its_nodes() {
    for system in System::all() {
        if system != System::Real && !Uid::effective().is_root() {
            tests::skipped("only root can give the emulated nodes names of their own");
            continue;
        }
        let mut scene = start_with(system, "nodes: 2, walltime: 10m");
        scene.write_job_that_waits(40);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(20);
        assert_eq!(scene.platform.steps(&["R"]).len(), 1, "of two nodes");
        scene.until_nodes_work(2);
        scene.ends_well(0);
    }
}

#[test]
fn jobs_that_a_stranger_cancels_cost_what_ran_in_them() {
    for system in System::all() {
        let mut scene = start(system);
        scene.write_job_that_waits(40);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(20);
        let steps = scene.platform.steps(&["R"]);
        assert!(!steps.is_empty());
        scene.platform.say("llcancel", &steps.iter().map(String::as_str).collect::<Vec<_>>());
        scene.go();
        // The signal reaches tasks, too: others may begin in their place before their pilot has heard of it.
        scene.ends_well(4 * steps.len());
    }
}

#[test]
fn pilots_that_know_no_end_hear_of_the_soft_limit() {
    let mut scene = start_with(System::New, "options: ['wall_clock_limit = 60,10']");
    scene.write_job("sleep 0.4");
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("they were told", || {
        scene.sandbox.ok(&["pilots", "--all"]).matches("it got a signal").count() >= 2
    });
    scene.ends_well(40);
}

#[test]
fn a_central_manager_that_is_away_loses_nothing() {
    for system in System::EMULATED {
        let mut scene = start(system);
        scene.platform.be_away(true);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        let failures = || scene.sandbox.json(&["platforms"])[0]["n_failures"].clone();
        until("its absence is noticed", || failures() != 0);
        scene.platform.be_away(false);
        scene.until_executed(20);
        scene.platform.be_away(true);
        scene.until_executed(100);
        scene.platform.be_away(false);
        scene.ends_well(0);
    }
}

#[test]
fn managers_killed_while_jobs_wait_and_run_leak_nothing() {
    for system in System::EMULATED {
        let mut scene = start(system);
        scene.platform.be_drained(true);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        until("jobs wait", || scene.platform.steps(&["I"]).len() == 2);
        let waiting = scene.platform.steps(&["I"]);
        scene.platform.say("llhold", &["-s", &waiting[0]]);
        let why = "System Hold: The class of this job step is \\\"batch\\\".";
        until("the operator is told why", || scene.sandbox.read("serve.err").contains(why));
        scene.kill_manager();
        scene.serve();
        scene.platform.say("llhold", &["-r", &waiting[0]]);
        scene.platform.be_drained(false);
        scene.until_executed(20);
        assert!(scene.platform.steps(&["I", "R"]).len() <= 2, "those of before are known");
        scene.kill_manager();
        scene.serve();
        scene.ends_well(0);
    }
}

/// Runs what the adapter says.
fn run(cluster: &Cluster, command: &Command) -> Output {
    let output = cluster.run(&command.argv, &command.stdin);
    Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// An account whose agent writes what it reads into a file of its node.
fn writing_adapter(sandbox: &Sandbox, class: &str, account: &str, options: &[&str]) -> Box<dyn Adapter> {
    let folder = sandbox.path().display();
    let lines = format!("#!/bin/sh\n(echo \"$@\" of $LOADL_STEP_ID; cat) > {folder}/read.$EMULATED_NODE\n");
    let agent = sandbox.write("agent", &lines);
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a program");
    let surroundings = Surroundings { agent_command: vec![agent.display().to_string()] };
    let site = Site {
        queue: Some(class.into()),
        account: Some(account.into()),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        resource_names: ResourceNames { gpu_resource: Some("gpus".into()), ..ResourceNames::default() },
        ..Site::default()
    };
    adapter("loadleveler", &surroundings, &site).expect("an adapter")
}

fn request(sandbox: &Sandbox, n_nodes: u32, cores: u32) -> AllocationRequest {
    AllocationRequest {
        folder: sandbox.path().join("pilots/pfa-1").display().to_string(),
        tag: "pfa-1".into(),
        n_nodes,
        capacity: Resources { cores, memory_bytes: 3 << 30, gpus: 1, ..Resources::default() },
        walltime: Some(Span::from_secs(60)),
        join: b"{\"token\":\"secret\"}".to_vec(),
    }
}

#[test]
fn every_node_of_a_job_has_an_agent_that_reads_the_document() {
    for (system, id) in [(System::Old, "c1.1.0"), (System::New, "c1.example.org.1.0")] {
        for (n_nodes, nodes) in [(1, &["read."][..]), (2, &["read.n1", "read.n2"])] {
            let sandbox = Sandbox::new();
            let cluster = Cluster::start(&sandbox, system);
            let adapter = writing_adapter(&sandbox, "batch", "lab", &["network.MPI = sn_all,not_shared,US"]);
            let answer = run(&cluster, &adapter.submit(&request(&sandbox, n_nodes, 2)));
            assert_eq!(adapter.read_submit(&answer), Ok(id.into()), "{answer:?}");
            until("the job has ended", || cluster.steps(&["I", "R", "RP"]).is_empty());
            for node in nodes {
                let expected = format!("run --tag pfa-1 --join - of {id}\n{{\"token\":\"secret\"}}");
                assert_eq!(sandbox.read(node), expected, "{system:?}, {node}");
            }
            let read = fs::read_dir(sandbox.path()).expect("a sandbox").filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("read."))
            });
            assert_eq!(read.count(), nodes.len(), "{system:?}");
            assert_eq!(sandbox.read("pilots/pfa-1/join"), "", "the document's file is gone");
            let kept = fs::read_dir(cluster.folder()).expect("a folder").filter_map(|entry| {
                entry
                    .expect("a file")
                    .path()
                    .to_str()
                    .map(|path| fs::read_to_string(path).unwrap_or_default())
            });
            assert!(kept.into_iter().all(|text| !text.contains("secret")), "LoadLeveler saw no secret");
        }
    }
}

#[test]
fn a_step_whose_time_is_over_is_told_before_it_is_killed() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let told = sandbox.path().join("told");
        let script = format!(
            "#!/bin/sh\n# @ class = batch\n# @ wall_clock_limit = 12,5\n# @ queue\n\
             trap 'echo told >> {}' XCPU\nwhile :; do sleep 0.1; done\n",
            told.display()
        );
        let file = sandbox.write("job.cmd", &script);
        cluster.say("llsubmit", &[&file.display().to_string()]);
        until("it has been killed", || cluster.steps(&["I", "R", "RP"]).is_empty());
        assert_eq!(sandbox.read("told"), "told\n", "{system:?}");
    }
}

#[test]
fn classes_load_and_what_waits_are_told() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let adapter = writing_adapter(&sandbox, "batch", "lab", &[]);
        let anywhere = adapters::adapter("loadleveler", &Surroundings::default(), &Site::default());
        let anywhere = anywhere.expect("an adapter");
        let load = |free_cores, n_waiting| {
            for adapter in [&adapter, &anywhere] {
                let answer = run(&cluster, &adapter.load().expect("a command"));
                let expected = QueueLoad { free_cores, cores: 4, n_waiting, waiting_cores: n_waiting };
                assert_eq!(adapter.read_load(&answer), Ok(expected), "{system:?}: {answer:?}");
            }
        };
        let list = || {
            let answer = run(&cluster, &adapter.list("pfa-"));
            let jobs = adapter.read_list(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
            assert!(jobs.iter().all(|job| job.tag == "pfa-1" && job.id == "c1.1.0"), "{jobs:?}");
            jobs.into_iter().map(|job| job.state).collect::<Vec<_>>()
        };
        let answer = run(&cluster, &anywhere.describe().expect("a command"));
        let queues = anywhere.read_describe(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        let facts: Vec<_> = queues.iter().map(|q| (q.name.as_str(), q.is_up, q.walltime_max)).collect();
        let nine_minutes = Some(Span::from_secs(540));
        assert_eq!(facts, [("batch", true, None), ("short", true, nine_minutes), ("closed", false, None)]);
        let node = Resources { cores: 2, memory_bytes: 4000 << 20, ..Resources::default() };
        assert_eq!(queues[0].nodes, [(2, node)]);
        let version = run(&cluster, &adapter.version().expect("a command")).stdout;
        assert!(version.starts_with("llsubmit "), "{version}");
        load(4, 0);
        assert_eq!(list(), []);
        cluster.be_drained(true);
        let answer = run(&cluster, &adapter.submit(&request(&sandbox, 2, 1)));
        let id = adapter.read_submit(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        load(4, 1);
        assert_eq!(list(), [BatchState::Queued]);
        cluster.say("llhold", &[&id]);
        let why = "User Hold: The class of this job step is \"batch\". This job step is in User Hold.";
        assert_eq!(list(), [BatchState::Stuck(why.into())]);
        let answer = run(&cluster, &adapter.cancel(&["c1.77.0".into(), id.clone()]));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(list().iter().all(|state| *state == BatchState::Ended), "it may be shown for a while");
        let again = run(&cluster, &adapter.cancel(std::slice::from_ref(&id)));
        assert_eq!(again.code, Some(0), "it is gone already: {again:?}");
        cluster.be_away(true);
        let answer = adapter.read_list(&run(&cluster, &adapter.list("pfa-")));
        let away = "2512-970 Cannot connect to the central manager.";
        assert_eq!(answer, Err(AdapterError::NotUnderstood(away.into())));
        assert_ne!(run(&cluster, &adapter.cancel(&[id])).code, Some(0));
        assert!(adapter.read_load(&run(&cluster, &adapter.load().expect("a command"))).is_err());
    }
}

#[test]
fn a_central_manager_that_hangs_is_no_answer_and_nothing_is_lost() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let adapter = writing_adapter(&sandbox, "batch", "lab", &[]);
        cluster.mark("hang", true);
        // What a transport does after the command's limit.
        let given_up = |command: &Command| {
            let argv = [&["timeout".to_owned(), "0.5".to_owned()][..], &command.argv].concat();
            run(&cluster, &Command { argv, ..command.clone() })
        };
        let listed = adapter.read_list(&given_up(&adapter.list("pfa-")));
        assert!(matches!(listed, Err(AdapterError::NotUnderstood(_))), "{listed:?}");
        let submitted = adapter.read_submit(&given_up(&adapter.submit(&request(&sandbox, 1, 1))));
        assert!(matches!(submitted, Err(AdapterError::NotUnderstood(_))), "{submitted:?}");
        cluster.mark("hang", false);
        let listed = adapter.read_list(&run(&cluster, &adapter.list("pfa-")));
        assert!(listed.is_ok(), "{listed:?}");
    }
}

#[test]
fn refusals_are_told_in_its_own_words() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let why = |class: &str, account: &str, options: &[&str]| {
            let adapter = writing_adapter(&sandbox, class, account, options);
            let answer = run(&cluster, &adapter.submit(&request(&sandbox, 1, 1)));
            let left = sandbox.path().join("pilots/pfa-1");
            assert!(!left.exists(), "what was refused leaves nothing");
            match adapter.read_submit(&answer) {
                Err(AdapterError::Refused(why)) => why,
                other => panic!("{other:?}: {answer:?}"),
            }
        };
        assert_eq!(why("nosuch", "lab", &[]), "2512-910 The class \"nosuch\" is not valid for this user.");
        let account = why("batch", "nosuch", &[]);
        assert!(account.starts_with("2512-911 The account \"nosuch\" is not valid for user"), "{account}");
        let limit = "2512-906 The wall_clock_limit is above the limit of the class.";
        assert_eq!(why("short", "lab", &["wall_clock_limit = 601"]), limit);
        let keyword = "2512-901 Syntax error: \"colour\" is not a keyword.";
        assert_eq!(why("batch", "lab", &["colour = blue"]), keyword);
        cluster.be_away(true);
        assert_eq!(why("batch", "lab", &[]), "2512-970 Cannot connect to the central manager.");
    }
}

/// What a sample says of a command, with numbers and names of no meaning replaced.
fn sampled(file: &str, command: &str) -> String {
    let path = format!("{}/../adapters/transcripts/loadleveler/{file}", env!("CARGO_MANIFEST_DIR"));
    let samples = text(&fs::read(&path).expect("samples"));
    let (_, after) = samples.split_once(&format!("\n$ {command}\n[stdout]\n")).expect(command);
    after.split_once("[exit ").expect("an end").0.to_owned()
}

/// A line with its digits, which are others each time, all the same.
fn alike(line: &str) -> String {
    let mut alike = String::new();
    for letter in line.chars() {
        match letter.is_ascii_digit() {
            true if alike.ends_with('0') => {}
            true => alike.push('0'),
            false => alike.push(letter),
        }
    }
    alike
}

#[test]
fn the_emulated_systems_say_what_the_samples_say() {
    for (system, host) in [(System::Old, "c1"), (System::New, "c1.example.org")] {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let says = |program: &str, arguments: &[&str], expected: &str| {
            let output = cluster.command(program).args(arguments).output().expect("it runs");
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            let is_said = said.lines().any(|line| alike(line.trim_end()) == alike(expected.trim_end()));
            assert!(is_said, "{system:?}: {expected}\n{said}");
        };
        let sample = |file: &str, command: &str, word: &str| {
            let sample = sampled(file, command);
            sample.lines().find(|line| line.contains(word)).expect(word).to_owned()
        };
        let nothing = sample("queue.txt", "llq -u nobody", "llq:");
        says("llq", &[], &nothing);
        cluster.be_drained(true);
        let file = sandbox.write("job.cmd", "#!/bin/sh\n# @ class = batch\n#@queue\n").display().to_string();
        let submitted = sample("submit.txt", "llsubmit job.cmd", "llsubmit:").replace("c1.example.org", host);
        says("llsubmit", &[&file], &submitted);
        let refused = sandbox.write("refused.cmd", "# @ class = nosuch\n# @ queue\n").display().to_string();
        for word in ["2512-NNN", "2512-051"] {
            let line = sample("submit.txt", "llsubmit refused.cmd", word).replace("NNN", "910");
            says("llsubmit", &[&refused], &line);
        }
        let table = |word: &str| sample("queue.txt", "llq", word);
        let head = match system {
            System::Old => table("Running On").replace("Running On", "Running on"),
            _ => table("Running On"),
        };
        says("llq", &[], &head);
        says("llq", &[], &table("----"));
        let listed = cluster.say("llq", &[]);
        let row = listed.lines().nth(2).expect("a row");
        let fields = row.split_whitespace().count();
        assert_eq!((row.len(), fields), (table("c2.2806635.0").len(), 7), "{row}");
        let summary = "1 job step(s) in queue, 1 waiting, 0 pending, 0 running, 0 held, 0 preempted";
        assert_eq!(alike(summary), alike(&table("job step(s)")));
        says("llq", &[], summary);
        let why = |word: &str| sample("queue.txt", "llq -s l1f1n01.4604.0", word);
        says("llq", &["-s", "c1.1.0"], &why("EVALUATIONS").replace("l1f1n01.4604", "c1.1"));
        says("llq", &["-s", "c1.1.0"], &why("The class of").replace("workq", "batch"));
        says("llq", &["-s", "c1.1.0"], &why("to start now"));
        says("llcancel", &["c1.1.0"], &sample("queue.txt", "llcancel c1.16250.0", "llcancel:"));
        for line in sampled("classes.txt", "llclass").lines().take(3) {
            says("llclass", &[], line);
        }
        for label in ["===", "Name:", "Priority:", "Max_node:", "Maxjobs:"] {
            let line = sample("classes.txt", "llclass -l serial_op", label).replace("serial_op", "short");
            says("llclass", &["-l", "-c", "short"], &line);
        }
        let limit = sample("classes.txt", "llclass -l serial_op", "Wall_clock_limit").replace("100+", "");
        says("llclass", &["-l", "-c", "short"], &limit);
    }
}
