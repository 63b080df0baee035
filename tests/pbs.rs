//! Pilots as batch jobs of OpenPBS and of TORQUE, emulated ones, and a real one where there is one: sweeps
//! complete whatever becomes of the jobs, the server and the manager, and nothing is left behind.

use std::{fs, os::unix::fs::PermissionsExt};

use adapters::{
    Adapter, Surroundings, adapter,
    command::{AllocationRequest, BatchState, Command, Output, QueueLoad},
    transport::{LocalShell, Transport},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use profiles::site::Site;
use scheduler::{resources::Resources, time::Span};
use tests::{
    Sandbox,
    pbs::{Cluster, System},
    scene::Scene,
    text, until,
};

/// A cluster, and a manager with pilots in its queue `batch`.
fn start(system: System) -> Scene<Cluster> {
    start_with(system, "nodes: 1")
}

/// The same, of which this is said, too.
fn start_with(system: System, site: &str) -> Scene<Cluster> {
    println!("{system:?}");
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, system);
    let fields = format!("name: cluster, adapter: pbs, queue: batch, pilots_max: 2, walltime: 10m, {site}");
    Scene::start(sandbox, cluster, &fields)
}

#[test]
fn a_sweep_runs_in_batch_jobs() {
    for system in System::all() {
        let mut scene = start(system);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(10);
        let pilots = scene.sandbox.json(&["pilots"]);
        let jobs = scene.platform.jobs("R");
        assert!(
            !jobs.is_empty() && jobs.iter().any(|job| pilots.to_string().contains(job)),
            "{jobs:?}: {pilots}"
        );
        scene.ends_well(0);
    }
}

#[test]
fn one_batch_job_has_a_pilot_on_each_of_its_nodes() {
    for system in System::all() {
        let mut scene = start_with(system, "nodes: 2");
        scene.write_job_that_waits(40);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(20);
        assert_eq!(scene.platform.jobs("R").len(), 1, "of two nodes");
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
        let jobs = scene.platform.jobs("R");
        assert!(!jobs.is_empty());
        scene.platform.say("qdel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
        scene.go();
        // The signal reaches tasks, too: others may begin in their place before their pilot has heard of it.
        scene.ends_well(4 * jobs.len());
    }
}

#[test]
fn a_job_whose_processes_are_all_killed_at_once_costs_what_ran_in_it_and_no_retry() {
    for (system, command) in [
        (System::OpenPbs, &["qdel", "-W", "force"][..]),
        (System::OpenPbs, &["strike", "TERM"]),
        (System::Torque, &["strike", "KILL"]),
    ] {
        let mut scene = start(system);
        scene.write_job_that_waits(40);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(20);
        let jobs = scene.platform.jobs("R");
        assert!(!jobs.is_empty());
        for job in &jobs {
            let arguments: Vec<&str> = command[1..].iter().copied().chain([job.as_str()]).collect();
            scene.platform.say(command[0], &arguments);
        }
        until("they have ended", || scene.platform.jobs("R").iter().all(|job| !jobs.contains(job)));
        scene.go();
        scene.ends_well(4 * jobs.len());
    }
}

#[test]
fn a_task_that_ignores_the_signal_for_its_memory_is_set_aside_at_the_crash_limit() {
    let mut scene = start(System::OpenPbs);
    fs::write(scene.platform.folder().join("kill_delay"), "1").expect("a file");
    fs::write(scene.platform.folder().join("hog"), "much-memory").expect("a file");
    let job = "name: hog\ncommand: 'trap \"\" TERM; : much-memory; while :; do sleep 0.2; done'\ncrash_limit: 2\n\
               retries: 9\n";
    scene.sandbox.write("hog.yaml", job);
    scene.sandbox.ok(&["submit", "hog.yaml"]);
    let state = || scene.sandbox.json(&["job", "1"])["state"].clone();
    until("it is set aside", || state() == "failed");
    let why = scene.sandbox.ok(&["explain", "task", "1.0"]);
    assert!(why.contains("`crash_limit`"), "{why}");
    scene.stops();
}

#[test]
fn tasks_that_need_too_much_memory_only_together_all_succeed() {
    let mut scene = start(System::OpenPbs);
    fs::write(scene.platform.folder().join("kill_delay"), "1").expect("a file");
    // Two at a time are over the limit of their batch job; each is far within it.
    fs::write(scene.platform.folder().join("hog"), "much-memory 1").expect("a file");
    let job = "name: together\ncommand: ': much-memory; sleep 1'\nsweep: {n: {range: [1, 6]}}\nretries: 0\n";
    scene.sandbox.write("together.yaml", job);
    scene.sandbox.ok(&["submit", "together.yaml"]);
    let job = || scene.sandbox.json(&["job", "1"]);
    until("it is over", || job()["state"] != "active");
    let job = job();
    assert_eq!((&job["counts"]["done"], &job["counts"]["failed"]), (&6.into(), &0.into()), "{job}");
    assert!(job["n_failed_attempts"].as_u64() > Some(1), "some ran together: {job}");
    scene.stops();
}

#[test]
fn a_job_with_an_id_of_ours_and_another_age_is_not_ours_and_is_not_cancelled() {
    for system in System::all().into_iter().filter(|system| !matches!(system, System::Real)) {
        let mut scene = start(system);
        scene.platform.start_queue(false);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        until("pilots wait", || scene.platform.jobs("Q").len() == 2);
        scene.kill_manager();
        // The server was installed again meanwhile, and other jobs have the numbers of ours.
        scene.platform.mark("reinstalled", true);
        let theirs = scene.platform.jobs("Q");
        theirs.iter().for_each(|id| _ = scene.platform.say("qalter", &["-N", "mine", id]));
        scene.serve();
        until("pilots are asked for in the place of those that are gone", || {
            scene.platform.jobs("Q").len() == 4
        });
        scene.sandbox.ok(&["stop"]);
        assert_eq!(scene.platform.jobs("QHWTRE"), theirs, "they are there, and no pilot is");
        theirs.iter().for_each(|id| _ = scene.platform.say("qdel", &[id]));
    }
}

#[test]
fn forced_ends_that_the_history_tells_of_set_no_innocent_task_aside() {
    let mut scene = start(System::OpenPbs);
    scene.platform.mark("history", true);
    let go = scene.sandbox.path().join("go").display().to_string();
    let job = format!(
        "name: innocent\ncommand: 'until test -e {go}; do sleep 0.05; done'\ncrash_limit: 2\nretries: 0\n"
    );
    scene.sandbox.write("innocent.yaml", &job);
    scene.sandbox.ok(&["submit", "innocent.yaml"]);
    let state = |name: &str| scene.sandbox.json(&["job", "1"])[name].clone();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let runs = || {
            let jobs: Vec<String> =
                scene.platform.jobs("R").into_iter().filter(|job| !seen.contains(job)).collect();
            (state("counts")["running"] == 1 && !jobs.is_empty()).then_some(jobs)
        };
        until("it runs", || runs().is_some());
        let jobs = scene.platform.jobs("R");
        let arguments: Vec<&str> =
            ["-W", "force"].into_iter().chain(jobs.iter().map(String::as_str)).collect();
        scene.platform.say("qdel", &arguments);
        seen.extend(jobs);
    }
    fs::write(&go, "").expect("a file");
    until("it is done", || state("state") == "done");
    let pilots = scene.sandbox.ok(&["pilots", "--all"]);
    assert!(pilots.contains("CANCELLED by "), "{pilots}");
    scene.stops();
}

#[test]
fn a_batch_job_that_somebody_holds_is_told_and_goes_on_when_it_is_released() {
    for system in System::EMULATED {
        let mut scene = start(system);
        scene.platform.start_queue(false);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        until("jobs wait", || scene.platform.jobs("Q").len() == 2);
        let jobs = scene.platform.jobs("Q");
        let jobs: Vec<&str> = jobs.iter().map(String::as_str).collect();
        scene.platform.say("qhold", &jobs);
        until("the operator is told", || scene.sandbox.read("serve.err").contains("somebody holds it"));
        scene.platform.start_queue(true);
        assert_eq!(scene.platform.jobs("QR").len(), 0, "they count toward the limit of two");
        scene.platform.say("qrls", &jobs);
        scene.ends_well(0);
    }
}

#[test]
fn a_server_that_is_away_loses_nothing() {
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
        scene.platform.start_queue(false);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        until("jobs wait", || scene.platform.jobs("Q").len() == 2);
        until("the operator is told why", || scene.sandbox.read("serve.err").contains("Queue not started"));
        scene.kill_manager();
        scene.serve();
        scene.platform.start_queue(true);
        scene.until_executed(20);
        assert!(scene.platform.jobs("QR").len() <= 2, "those of before are known");
        scene.kill_manager();
        scene.serve();
        scene.ends_well(0);
    }
}

/// Waits until the manager has heard that these were accepted.
fn until_known(scene: &Scene<Cluster>, jobs: &[String]) {
    until("the manager knows them", || {
        let known = scene.sandbox.json(&["allocation", "list"]).to_string();
        jobs.iter().all(|id| known.contains(id.as_str()))
    });
}

#[test]
fn jobs_on_a_server_that_commands_do_not_ask_any_more_are_cancelled_at_the_stop() {
    for system in System::EMULATED {
        let mut scene = start(system);
        scene.platform.start_queue(false);
        scene.kill_manager();
        scene.platform.ask_server(Some("srv2"));
        scene.serve();
        scene.sandbox.ok(&["submit", "job.yaml"]);
        until("jobs wait", || scene.platform.jobs_on("srv2", "Q").len() == 2);
        until_known(&scene, &scene.platform.jobs_on("srv2", "Q"));
        scene.kill_manager();
        scene.platform.ask_server(None);
        scene.serve();
        scene.stops();
        let left = scene.platform.jobs_on("srv2", "QHWTRE");
        assert!(left.is_empty(), "{system:?}: {left:?}\n{}", scene.sandbox.read("serve.err"));
        assert!(scene.platform.jobs("QHWTRE").is_empty(), "no others were asked for");
    }
}

#[test]
fn jobs_that_were_moved_to_another_server_are_ours_and_are_cancelled_at_the_stop() {
    for (system, has_history) in [(System::OpenPbs, true), (System::OpenPbs, false), (System::Torque, false)]
    {
        let mut scene = start(system);
        if has_history {
            scene.platform.mark("history", true);
        }
        scene.platform.start_queue(false);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        until("jobs wait", || scene.platform.jobs("Q").len() == 2);
        let jobs = scene.platform.jobs("Q");
        until_known(&scene, &jobs);
        scene.kill_manager();
        jobs.iter().for_each(|id| _ = scene.platform.say("qmove", &["@srv3", id]));
        assert_eq!(scene.platform.jobs_on("srv3", "Q"), jobs);
        scene.serve();
        scene.stops();
        let left = scene.platform.jobs_on("srv3", "QHWTRE");
        assert!(left.is_empty(), "{system:?}: {left:?}\n{}", scene.sandbox.read("serve.err"));
        assert!(scene.platform.jobs("QHWTRE").is_empty(), "no others were asked for");
    }
}

/// Runs what the adapter says.
fn run(cluster: &Cluster, command: &Command) -> Output {
    let output = cluster.run(&command.argv, &command.stdin);
    Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// An adapter whose agent writes what it reads into a file of its node.
fn writing_adapter(sandbox: &Sandbox) -> Box<dyn Adapter> {
    let folder = sandbox.path().display();
    let agent =
        sandbox.write("agent", &format!("#!/bin/sh\n(echo \"$@\"; cat) > {folder}/read.$PBS_NODENUM\n"));
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a program");
    let surroundings = Surroundings { agent_command: vec![agent.display().to_string()] };
    let site = Site { queue: Some("batch".into()), ..Site::default() };
    adapter("pbs", &surroundings, &site).expect("an adapter")
}

fn request(n_nodes: u32, cores: u32) -> AllocationRequest {
    AllocationRequest {
        // It cannot be made; the job goes on without.
        folder: "/dev/null/pfa-1".into(),
        tag: "pfa-1".into(),
        n_nodes,
        capacity: Resources { cores, ..Resources::default() },
        walltime: Some(Span::from_secs(60)),
        join: b"{\"token\":\"secret\"}".to_vec(),
    }
}

#[test]
fn every_node_of_a_job_has_an_agent_that_reads_the_document() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let adapter = writing_adapter(&sandbox);
        let answer = run(&cluster, &adapter.submit(&request(2, 2)));
        assert_eq!(adapter.read_submit(&answer), Ok("1.pbshead".into()), "{answer:?}");
        until("the job has ended", || cluster.jobs("QR").is_empty());
        for node in ["read.0", "read.1"] {
            assert_eq!(
                sandbox.read(node),
                "run --tag pfa-1 --join -\n{\"token\":\"secret\"}\n",
                "{system:?}"
            );
        }
        assert_eq!(sandbox.read("read.2"), "");
        let left = fs::read_dir(sandbox.path().join("home")).expect("a home");
        assert_eq!(left.count(), 0, "the document's file is gone");
    }
}

/// An adapter whose agents stay until they are ended.
fn staying_adapter(sandbox: &Sandbox) -> Box<dyn Adapter> {
    let folder = sandbox.path().display();
    let lines = format!("#!/bin/sh\ncat > {folder}/read.$PBS_NODENUM\nexec sleep 1000\n");
    let agent = sandbox.write("agent", &lines);
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("a program");
    let surroundings = Surroundings { agent_command: vec![agent.display().to_string()] };
    let site = Site { queue: Some("batch".into()), ..Site::default() };
    adapter("pbs", &surroundings, &site).expect("an adapter")
}

/// Kills the script of a job and nothing else.
fn kill_script(cluster: &Cluster, id: &str) {
    let script = cluster.folder().join(format!("{id}.SC")).display().to_string();
    let is_it = |pid: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text(&line).split('\0').nth(1) == Some(script.as_str())
    };
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let pids: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|pid| is_it(pid)).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    let pid = Pid::from_raw(pids[0].parse().expect("a number"));
    kill(pid, Signal::SIGKILL).expect("it is there");
}

#[test]
fn the_join_document_is_gone_however_a_job_of_two_nodes_ends() {
    for (system, is_killed) in
        System::EMULATED.into_iter().flat_map(|system| [(system, true), (system, false)])
    {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let adapter = staying_adapter(&sandbox);
        let answer = run(&cluster, &adapter.submit(&request(2, 2)));
        let id = adapter.read_submit(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        until("both have read it", || {
            ["read.0", "read.1"].iter().all(|file| sandbox.read(file).contains("secret"))
        });
        match is_killed {
            true => kill_script(&cluster, &id),
            false => _ = run(&cluster, &adapter.cancel(std::slice::from_ref(&id))),
        }
        until("the job has ended", || cluster.jobs("QRE").is_empty());
        let left: Vec<_> = fs::read_dir(sandbox.path().join("home")).expect("a home").flatten().collect();
        assert!(left.is_empty(), "{system:?}, killed: {is_killed}: {left:?}");
    }
}

#[test]
fn queues_load_and_refusals_are_told() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let adapter = writing_adapter(&sandbox);
        let load = |expected: (u64, u64, u64)| {
            let answer = run(&cluster, &adapter.load().expect("a command"));
            let (free_cores, n_waiting, waiting_cores) = expected;
            let expected = QueueLoad { free_cores, cores: 4, n_waiting, waiting_cores };
            assert_eq!(adapter.read_load(&answer), Ok(expected), "{system:?}: {answer:?}");
        };
        let list = || {
            let answer = run(&cluster, &adapter.list("pfa"));
            let jobs = adapter.read_list(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
            // TORQUE shows jobs that have ended for a while.
            let states = jobs.into_iter().map(|job| job.state);
            states.filter(|state| *state != BatchState::Ended).collect::<Vec<_>>()
        };
        let answer = run(&cluster, &adapter.describe().expect("a command"));
        let queues = adapter.read_describe(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        let node = Resources { cores: 2, memory_bytes: 4_096_000 << 10, ..Resources::default() };
        let facts: Vec<_> =
            queues.iter().map(|q| (q.name.as_str(), q.is_default, q.is_up, q.walltime_max)).collect();
        let ten_minutes = Some(Span::from_secs(600));
        let expected = [
            ("batch", true, true, None),
            ("short", false, true, ten_minutes),
            ("disabled", false, false, None),
        ];
        assert_eq!(facts, expected, "{system:?}");
        assert_eq!(queues[0].nodes, [(2, node)]);
        load((4, 0, 0));
        assert_eq!(list(), []);
        cluster.start_queue(false);
        let answer = run(&cluster, &adapter.submit(&request(2, 1)));
        let id = adapter.read_submit(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        load((4, 1, 2));
        assert_eq!(list(), [BatchState::Stuck("Not Running: Queue not started.".into())]);
        let why = run(&cluster, &adapter.why_it_waits(&id).expect("a command"));
        assert_eq!(why.stdout, "Not Running: Queue not started.", "{system:?}: {why:?}");
        let answer = run(&cluster, &adapter.cancel(&["77.pbshead".into(), id.clone()]));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(
            run(&cluster, &adapter.cancel(std::slice::from_ref(&id))).code,
            Some(0),
            "it is gone already"
        );
        assert_eq!(list(), []);
        cluster.be_away(true);
        assert!(adapter.read_list(&run(&cluster, &adapter.list("pfa"))).is_err());
        assert_ne!(run(&cluster, &adapter.cancel(&[id])).code, Some(0));
    }
}

#[test]
fn among_thousands_of_other_jobs_a_listing_costs_a_few_connections() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        let adapter = writing_adapter(&sandbox);
        cluster.have_strangers(1000, 5000);
        cluster.start_queue(false);
        let answer = run(&cluster, &adapter.submit(&request(1, 1)));
        let id = adapter.read_submit(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        let n = cluster.connections(|| {
            let answer = run(&cluster, &adapter.list("pfa"));
            let jobs =
                adapter.read_list(&answer).unwrap_or_else(|error| panic!("{error}: {}", answer.stderr));
            assert_eq!(jobs.len(), 1001, "{system:?}");
            let ours = jobs.iter().find(|job| job.id == id).expect("ours is among them");
            assert_eq!(ours.reason.as_deref(), Some("Not Running: Queue not started."), "{system:?}");
        });
        assert!(n <= 4, "{system:?}: {n} connections");
        let n = cluster.connections(|| {
            let answer = run(&cluster, &adapter.load().expect("a command"));
            let load =
                adapter.read_load(&answer).unwrap_or_else(|error| panic!("{error}: {}", answer.stderr));
            assert_eq!((load.n_waiting, load.waiting_cores), (3001, 3001), "{system:?}");
        });
        assert!(n <= 4, "{system:?}: {n} connections");
    }
}

#[test]
fn a_sweep_runs_among_many_other_jobs_of_the_user() {
    for system in System::EMULATED {
        let mut scene = start(system);
        scene.platform.have_strangers(300, 1000);
        scene.sandbox.ok(&["submit", "job.yaml"]);
        scene.until_executed(10);
        scene.ends_well(0);
    }
}

#[test]
fn an_old_torque_is_understood_and_ends_are_seen() {
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox, System::Torque);
    cluster.mark("old", true);
    let adapter = writing_adapter(&sandbox);
    let list = || {
        let answer = run(&cluster, &adapter.list("pfa"));
        let jobs = adapter.read_list(&answer).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        jobs.into_iter().map(|job| job.state).collect::<Vec<_>>()
    };
    assert_eq!(list(), []);
    for _ in 0..2 {
        assert!(adapter.read_submit(&run(&cluster, &adapter.submit(&request(1, 1)))).is_ok());
    }
    until("both have ended and are listed for a while", || list() == [BatchState::Ended, BatchState::Ended]);
}

#[tokio::test]
async fn a_server_that_hangs_leaves_no_command_behind() {
    for system in System::EMULATED {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        cluster.mark("hang", true);
        let list = writing_adapter(&sandbox).list("pfa");
        let begins = ["env".to_owned(), cluster.environment[0].0.clone() + "=" + &cluster.environment[0].1];
        let command = Command { argv: begins.into_iter().chain(list.argv).collect(), ..list };
        let programs = cluster.folder().join("bin/q").display().to_string();
        let hanging = || processes_that_ask(&programs);
        tokio::select! {
            answer = LocalShell.run(&command) => panic!("{answer:?}"),
            () = async { while hanging() == 0 { tokio::task::yield_now().await } } => (),
        }
        until("nothing of it is left", || hanging() == 0);
    }
}

/// How many processes of these programs ask the server.
fn processes_that_ask(programs: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("processes").flatten();
    let command_lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let asks = |line: &Vec<u8>| {
        let line = String::from_utf8_lossy(line);
        line.contains(programs) && !line.contains("--version")
    };
    command_lines.filter(asks).count()
}

#[test]
fn variables_that_change_commands_do_not_reach_them() {
    let sandbox = Sandbox::new();
    let mut cluster = Cluster::start(&sandbox, System::OpenPbs);
    let seen = sandbox.path().join("seen");
    sandbox.write("emulated/bin/qsub", &format!("#!/bin/sh\nenv > {}\necho 1.pbshead\n", seen.display()));
    for (name, value) in
        [("PBS_DPREFIX", "#PF"), ("PBSDEBUG", "1"), ("PBS_SERVER", "other"), ("LC_ALL", "C.UTF-8")]
    {
        cluster.commands.environment.push((name.to_owned(), value.to_owned()));
    }
    let adapter = writing_adapter(&sandbox);
    assert_eq!(adapter.read_submit(&run(&cluster, &adapter.submit(&request(1, 1)))), Ok("1.pbshead".into()));
    let seen = sandbox.read("seen");
    let has = |line: &str| seen.lines().any(|seen| seen == line);
    assert!(
        has("PBS_SERVER=other") && has("LC_ALL=C") && !seen.contains("#PF") && !has("PBSDEBUG=1"),
        "{seen}"
    );
}

/// What a recording says of a command, without usages, and with our name.
fn recorded(system: &str, file: &str, command: &str) -> String {
    let path = format!("{}/../adapters/transcripts/{system}/{file}", env!("CARGO_MANIFEST_DIR"));
    let recording = text(&fs::read(&path).expect("a recording"));
    let (_, after) = recording.split_once(&format!("\n$ {command}\n")).expect(command);
    let (said, code) = after.split_once("[exit ").expect("an end");
    told(said, code.split(']').next().unwrap_or("")).replace("alice@", "root@")
}

fn told(said: &str, code: &str) -> String {
    format!("{}\n[exit {code}]", said.split("usage:").next().unwrap_or("").trim_end())
}

#[test]
fn the_emulated_systems_say_what_the_real_ones_said() {
    let refused = [
        "qsub -q nosuch ok.sh",
        "qsub -q short -l walltime=99:00:00 ok.sh",
        "qsub -q disabled ok.sh",
        "qsub -l nosuchres=4 ok.sh",
        "qsub -l walltime=abc ok.sh",
        "qsub -N \"bad name\" ok.sh",
    ];
    let in_openpbs = [("03-qsub-rejected.txt", "qsub -l select=1:ncpus=1 -l nodes=1:ppn=1 ok.sh")];
    let in_torque =
        [("03-qsub-rejected.txt", "qsub -l nodes=50:ppn=1 ok.sh"), ("07-xml.txt", "qstat -x 99999")];
    let unknown = [("04-states.txt", "qstat 99999"), ("05-exit.txt", "qdel 99999")];
    let away = ["qstat", "qsub ok.sh", "pbsnodes -a", "qselect"];
    for (system, name, own) in
        [(System::OpenPbs, "openpbs", &in_openpbs[..]), (System::Torque, "torque", &in_torque[..])]
    {
        let sandbox = Sandbox::new();
        let cluster = Cluster::start(&sandbox, system);
        sandbox.write("ok.sh", "true\n");
        let check = |file: &str, command: &str| {
            let output = cluster.command("sh").args(["-c", command]).current_dir(sandbox.path()).output();
            let output = output.expect("it runs");
            let said = format!("[stdout]\n{}[stderr]\n{}", text(&output.stdout), text(&output.stderr));
            let code = output.status.code().expect("a code").to_string();
            assert_eq!(told(&said, &code), recorded(name, file, command), "{name}: {command}");
        };
        refused.iter().for_each(|command| check("03-qsub-rejected.txt", command));
        own.iter().chain(&unknown).for_each(|(file, command)| check(file, command));
        cluster.be_away(true);
        away.iter().for_each(|command| check("14-down.txt", command));
    }
}
