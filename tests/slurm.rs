//! Pilots as batch jobs of a real SLURM: sweeps complete whatever becomes of the jobs, the controller and
//! the manager, and nothing is left behind.

use std::{fs, os::unix::fs::PermissionsExt};

use nix::sys::signal::Signal;
use tests::{
    Sandbox,
    disk::Disk,
    scene::{Platform, Scene, dies_while_it_submits, held_up, submit_limit_of_held_up},
    slurm::Cluster,
    text, until,
};

const FIELDS: &str = "name: cluster, adapter: slurm, partition: batch, pilots_max: 2, walltime: 10m";

/// A cluster, and a manager with pilots in its queue `batch`; `None` where there can be no cluster.
fn start() -> Option<Scene<Cluster>> {
    let sandbox = Sandbox::new();
    let cluster = Cluster::start(&sandbox)?;
    Some(Scene::start(sandbox, cluster, FIELDS))
}

#[test]
fn a_sweep_runs_in_batch_jobs() {
    let Some(mut scene) = start() else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(10);
    let names = scene.platform.say("squeue", &["-h", "-o", "%j %P"]);
    assert!(!names.trim().is_empty(), "no batch job is listed while tasks run");
    assert!(names.lines().all(|line| line.starts_with("pf") && line.ends_with("batch")), "{names}");
    scene.ends_well(0);
}

#[test]
fn what_slurm_says_of_its_load_is_compared_where_pilots_are_placed() {
    let Some(mut scene) = start() else { return };
    scene.sandbox.ok(&["policies", "set", "placement", "tla"]);
    let go = scene.sandbox.path().join("go");
    scene.write_job(&format!("until [ -e {} ]; do sleep 0.05; done", go.display()));
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(4);
    let busy = || scene.sandbox.ok(&["explain", "platform", "cluster"]);
    until("it says how busy it is", || busy().contains(" cores are free, 0 jobs wait for 0"));
    let why = scene.sandbox.ok(&["explain", "allocation", "1"]);
    assert!(why.contains("by placement (tla) what waited would have ended on average"), "{why}");
    scene.go();
    scene.ends_well(0);
}

#[test]
fn one_batch_job_has_a_pilot_on_each_of_its_nodes() {
    let sandbox = Sandbox::new();
    let Some(cluster) = Cluster::start(&sandbox) else { return };
    let mut scene = Scene::start(sandbox, cluster, &format!("{FIELDS}, nodes: 2"));
    scene.write_job_that_waits(40);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    assert_eq!(scene.platform.jobs("RUNNING").len(), 1, "of two nodes");
    scene.until_nodes_work(2);
    scene.ends_well(0);
}

#[test]
fn jobs_that_a_stranger_cancels_cost_what_ran_in_them() {
    let Some(mut scene) = start() else { return };
    scene.write_job_that_waits(40);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let jobs = scene.platform.jobs("RUNNING");
    scene.platform.say("scancel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    scene.go();
    // The signal reaches tasks, too: others may begin in their place before their pilot has heard of it.
    scene.ends_well(4 * jobs.len());
}

#[test]
fn a_controller_that_is_silent_and_dies_loses_nothing() {
    let Some(mut scene) = start() else { return };
    scene.platform.signal_controller(Signal::SIGSTOP);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let failures = || scene.sandbox.json(&["platforms"])[0]["n_failures"].clone();
    until("its silence is noticed", || failures() != 0);
    scene.platform.signal_controller(Signal::SIGCONT);
    scene.until_executed(20);
    scene.platform.kill_controller();
    scene.until_executed(60);
    scene.platform.start_controller(&scene.sandbox);
    scene.until_done();
    until("idle pilots have left", || !scene.platform.has_pilots(&scene.sandbox));
    // It may have died before it had kept that there are such jobs, ends them, and gives their numbers to others.
    let pilots = scene.sandbox.ok(&["pilots", "--all"]);
    let n_ended = pilots.lines().skip(1).filter(|pilot| !pilot.contains("idle for")).count();
    // Two ran in each, and two may have begun in their place before the pilot was killed as well.
    scene.ends_well(4 * n_ended);
}

#[test]
fn managers_killed_while_jobs_wait_and_run_leak_nothing() {
    let Some(mut scene) = start() else { return };
    assert!(scene.platform.takes("scontrol", &["update", "partition=batch", "state=down"]));
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("jobs wait", || scene.platform.jobs("PENDING").len() == 2);
    until("the operator is told why", || scene.sandbox.read("serve.err").contains("PartitionDown"));
    scene.kill_manager();
    scene.serve();
    assert!(scene.platform.takes("scontrol", &["update", "partition=batch", "state=up"]));
    scene.until_executed(20);
    assert!(scene.platform.jobs("PENDING,RUNNING").len() <= 2, "those of before are known");
    scene.kill_manager();
    scene.serve();
    scene.ends_well(0);
}

#[test]
fn managers_killed_before_and_after_a_submission_ask_for_no_more_than_they_may() {
    for moment in ["before", "after"] {
        let sandbox = Sandbox::new();
        let Some(mut cluster) = Cluster::start(&sandbox) else { return };
        cluster.environment = held_up(&sandbox, &cluster.environment, ("sbatch", "squeue"), moment);
        let mut scene = Scene::start_with(sandbox, cluster, FIELDS, &submit_limit_of_held_up());
        dies_while_it_submits(&mut scene);
        assert!(scene.platform.jobs("PENDING,RUNNING").len() <= 2, "those of before are known");
        let n_asked = scene.sandbox.read("asked").lines().count();
        scene.ends_well(0);
        assert_eq!(n_asked, 2, "killed {moment} the submission");
    }
}

#[test]
fn what_outlasts_a_pilot_is_run_again_by_the_next() {
    let sandbox = Sandbox::new();
    let Some(cluster) = Cluster::start(&sandbox) else { return };
    let fields = "name: cluster, adapter: slurm, partition: batch, pilots_max: 2, walltime: 8s";
    let mut scene = Scene::start_with(sandbox, cluster, fields, "walltime_margin: 3s");
    let again = scene.sandbox.path().join("again").display().to_string();
    // Two tasks outlive any pilot when they run for the first time.
    scene.write_job(&format!(
        "case {{n}} in 3|50) [ -e {again}-{{n}} ] || {{{{ : > {again}-{{n}}; sleep 600; }}}};; esac; sleep 0.1"
    ));
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_done();
    let pilots = scene.sandbox.ok(&["pilots", "--all"]);
    let n_pilots = pilots.lines().count() - 1;
    assert!(pilots.matches("its walltime ended").count() >= 2 && n_pilots > 2, "{pilots}");
    assert_eq!(scene.platform.jobs("TIMEOUT"), Vec::<String>::new(), "they left by themselves");
    scene.ends_well(2 * n_pilots);
}

#[test]
fn jobs_whose_walltime_slurm_ends_first_cost_what_ran_in_them() {
    let Some(mut scene) = start() else { return };
    // SLURM looks at walltimes every half minute: until then there is something to do.
    scene.write_job_that_waits(30);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let jobs = scene.platform.jobs("RUNNING");
    for job in &jobs {
        // Not in the second in which the job has begun: that is no valid time.
        until("SLURM takes it", || {
            scene.platform.takes("scontrol", &["update", &format!("jobid={job}"), "endtime=now"])
        });
    }
    let ended = || scene.platform.jobs("TIMEOUT");
    until("SLURM has ended them", || jobs.iter().all(|job| ended().contains(job)));
    scene.go();
    // The signal reaches tasks, too: others may begin in their place before their pilot has heard of it.
    scene.ends_well(4 * jobs.len());
}

#[test]
fn what_ran_on_a_node_that_died_runs_elsewhere() {
    let Some(mut scene) = start() else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let n_done = scene.sandbox.json(&["job", "1"])["counts"]["done"].as_u64().expect("a number") as usize;
    let Scene { platform, sandbox, .. } = &mut scene;
    platform.kill_node(sandbox);
    // What was executed and not known to be done: on the other node, too.
    let n_again_max = scene.sandbox.read("executions").lines().count() - n_done;
    scene.ends_well(n_again_max);
    let states = scene.platform.say("sinfo", &["-h", "-N", "-p", "batch", "-o", "%N %t"]);
    assert!(states.contains("n1 down"), "{states}");
}

#[test]
fn two_hundred_allocations_cost_one_listing_a_poll() {
    let sandbox = Sandbox::new();
    let Some(mut cluster) = Cluster::start(&sandbox) else { return };
    let calls = sandbox.path().join("calls");
    put_before(&sandbox, &mut cluster, "squeue", &format!("date +%s%N >> {}", calls.display()));
    assert!(cluster.takes("scontrol", &["update", "partition=batch", "state=down"]));
    let fields = "name: cluster, adapter: slurm, partition: batch, pilots_max: 200, walltime: 10m";
    let mut scene = Scene::start(sandbox, cluster, fields);
    scene.write_job_of(1000, "true");
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let n_waiting = || scene.sandbox.json(&["platforms"])[0]["n_allocations_waiting"].as_u64();
    until("all wait", || n_waiting() == Some(200));
    let times =
        || -> Vec<u64> { scene.sandbox.read("calls").lines().filter_map(|line| line.parse().ok()).collect() };
    let n_before = times().len();
    until("they have been listed some times", || times().len() >= n_before + 8);
    let times = times();
    let took_s = (times[times.len() - 1] - times[0]) as f64 / 1e9;
    // Both ends count, and that a call may begin late.
    assert!(times.len() as f64 <= took_s + 2.0, "{} calls of squeue in {took_s} s", times.len());
    assert_eq!(scene.platform.jobs("PENDING").len(), 200);
    scene.stops();
    assert_eq!(scene.platform.jobs("PENDING,RUNNING"), Vec::<String>::new());
}

/// From now on managers run these lines before a program of SLURM's.
fn put_before(sandbox: &Sandbox, cluster: &mut Cluster, program: &str, lines: &str) {
    let script = format!("#!/bin/sh\n{lines}\nPATH=${{PATH#*:}} exec {program} \"$@\"\n");
    let bin = sandbox.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    fs::write(bin.join(program), script).expect("a script");
    fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).expect("a program");
    for (_, value) in cluster.environment.iter_mut().filter(|(name, _)| name == "PATH") {
        *value = format!("{}:{value}", bin.display());
    }
}

fn scancel_that_fails_once(sandbox: &Sandbox, cluster: &mut Cluster) {
    let refused = sandbox.path().join("refused").display().to_string();
    put_before(sandbox, cluster, "scancel", &format!("[ -e {refused} ] || {{ : > {refused}; exit 1; }}"));
}

#[test]
fn jobs_that_wait_are_gone_when_the_manager_has_stopped() {
    let sandbox = Sandbox::new();
    let Some(mut cluster) = Cluster::start(&sandbox) else { return };
    scancel_that_fails_once(&sandbox, &mut cluster);
    assert!(cluster.takes("scontrol", &["update", "partition=batch", "state=down"]));
    let mut scene = Scene::start(sandbox, cluster, FIELDS);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("jobs wait", || scene.platform.jobs("PENDING").len() == 2);
    scene.stops();
    assert!(scene.sandbox.path().join("refused").exists(), "the first scancel failed");
    assert_eq!(scene.platform.jobs("PENDING,RUNNING"), Vec::<String>::new());
}

/// The beginning of one.
fn program_of_another_machine(sandbox: &Sandbox) -> String {
    let mut bytes = fs::read(tests::program()).expect("a program");
    bytes.truncate(4096);
    bytes[18] ^= 0xff;
    let path = sandbox.path().join("foreign");
    fs::write(&path, bytes).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a program");
    path.display().to_string()
}

#[test]
fn a_platform_is_tried_before_it_is_used() {
    let sandbox = Sandbox::new();
    let Some(mut cluster) = Cluster::start(&sandbox) else { return };
    let foreign = program_of_another_machine(&sandbox);
    let platform = |name: &str, more: &str| format!("- {{name: {name}, adapter: slurm, cores: 2, {more}}}\n");
    let platforms = [
        platform("good", "partition: batch, walltime: 10m"),
        platform("misspelt", "partition: btch"),
        platform("down", "partition: down"),
        platform("long", "partition: batch, walltime: 2h"),
        platform("wide", "partition: batch, memory: 1TiB"),
        platform("bare", "partition: batch, agent: /no/such/agent"),
        platform("foreign", &format!("partition: batch, agent: {foreign}")),
        platform("readonly", "partition: batch, folder: /proc/pilots"),
        platform("odd", "partition: batch, setup: [echo oops, exit 3]"),
    ];
    sandbox.write(
        "manager.yaml",
        &format!("limits: {{platform_delay: 1m}}\nplatforms:\n{}", platforms.concat()),
    );
    scancel_that_fails_once(&sandbox, &mut cluster);
    let check = |name: &str, more: &[&str]| {
        let mut command = sandbox.command(&["platform", "check", name]);
        command.args(more).envs(cluster.environment.iter().cloned());
        let output = command.output().expect("it runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = check("good", &[]);
    assert_eq!(code, Some(0), "{out}{err}");
    let steps: Vec<&str> = out.lines().map(|line| line[..13].trim_end()).collect();
    assert_eq!(
        steps,
        ["connection", "batch system", "queue", "folder", "agent", "listing", "probe", "end"],
        "{out}"
    );
    until("the probe is gone", || cluster.jobs("PENDING,RUNNING,COMPLETING").is_empty());
    for (name, word) in [
        ("misspelt", "there are batch, down"),
        ("down", "starts no jobs at present"),
        ("long", "batch lets a job run for at most 1h"),
        ("wide", "no node of batch"),
        (
            "bare",
            "agent         ok      not here, perhaps on the nodes: failed to run the agent /no/such/agent: sh: ",
        ),
        ("bare", "slurm_script: 4: exec: /no/such/agent: not found"),
        ("foreign", "Exec format error"),
        ("readonly", "folder        FAILED  failed to write in /proc/pilots: mkdir: cannot create"),
        ("odd", "it ended before its pilot came; it wrote: oops"),
    ] {
        let (code, out, err) = check(name, &[]);
        assert!(code == Some(3) && out.contains(word), "{name}: {code:?} {out}{err}");
    }
    // Nothing is free: the probe waits, and is taken back.
    let busy = cluster
        .say("sbatch", &["-p", "batch", "-N", "2", "-n", "4", "-o", "/dev/null", "--wrap", "sleep 1000"]);
    until("the nodes are busy", || cluster.jobs("RUNNING").len() == 1);
    let (code, out, _) = check("good", &["--wait", "5s", "--json"]);
    assert!(code == Some(3) && out.contains("not home after 5.0s"), "{busy}{code:?} {out}");
    assert!(out.contains("; slurm says: Resources"), "{out}");
    assert!(sandbox.path().join("refused").exists(), "the first scancel failed");
    assert!(cluster.jobs("PENDING").is_empty(), "the probe is taken back");
    cluster.say("scancel", &["--user=root"]);
}

#[test]
fn a_folder_without_room_is_told_before_anything_is_submitted() {
    let sandbox = Sandbox::new();
    let Some(cluster) = Cluster::start(&sandbox) else { return };
    let Some(disk) = Disk::mount(&sandbox, "scratch", "size=1m") else { return };
    disk.fill();
    let folder = disk.path().display();
    let platform = format!("platforms: [{{name: full, adapter: slurm, cores: 2, folder: {folder}}}]\n");
    sandbox.write("manager.yaml", &platform);
    let mut check = sandbox.command(&["platform", "check", "full"]);
    let output = check.envs(cluster.environment.iter().cloned()).output().expect("it runs");
    let last = text(&output.stdout).lines().next_back().unwrap_or_default().to_owned();
    assert_eq!(output.status.code(), Some(3), "{last}");
    assert!(last.starts_with(&format!("folder        FAILED  failed to write in {folder}: ")), "{last}");
    assert!(last.contains("No space left on device"), "{last}");
}

#[test]
fn what_an_account_offers_is_found_out_and_written_down() {
    let sandbox = Sandbox::new();
    let Some(cluster) = Cluster::start(&sandbox) else { return };
    let attach = |arguments: &[&str]| {
        let mut command = sandbox.command(&["platform", "attach", "slurm"]);
        let output =
            command.args(arguments).envs(cluster.environment.iter().cloned()).output().expect("it runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let before =
        "platforms: # mine\n  - name: here\n    adapter: local # and this one\n\nlimits: {grace: 5s}\n";
    sandbox.write("manager.yaml", before);
    let (code, out, err) = attach(&["good", "--queue", "batch", "--account", "lab"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let after = sandbox.read("manager.yaml");
    let entry = "  - name: good\n    adapter: slurm\n    queue: batch\n    account: lab\n    cores: 2\n";
    assert!(after.contains(entry) && after.contains("    walltime: 1h\n"), "{after}");
    let rest: String = after.split_inclusive('\n').filter(|line| before.contains(line)).collect();
    assert_eq!(rest, before, "all other lines are as they were");
    assert!(after.contains("\nlisten: {host: 0.0.0.0}\n"), "nodes reach the manager: {after}");
    let mut check = sandbox.command(&["platform", "check", "good", "--no-probe"]);
    let checked = check.envs(cluster.environment.iter().cloned()).output().expect("it runs");
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
    for (arguments, said) in [
        (&["good"][..], "manager.yaml: found a platform `good` already"),
        (&["other", "--queue", "btch"], "found no queue `btch`; there are batch, down"),
        (&["other", "--walltime", "1 parsec"], "`parsec` is not a unit"),
        (
            &["other", "--walltime", "2h"],
            "batch lets a job run for at most 1h 00m; found a walltime of 2h 00m",
        ),
        (&["other", "--cores", "64"], "no node of batch has 64 cores"),
        (&["other", "--nodes", "9"], "an allocation of 9 nodes never begins"),
        (&["an other"], "found name `an other`"),
    ] {
        let (code, _, err) = attach(arguments);
        assert!(code == Some(2) && err.contains(said), "{arguments:?}: {code:?} {err}");
    }
    assert_eq!(sandbox.read("manager.yaml"), after);
    sandbox.write("manager.yaml", "platforms: [{name: here, adapter: local}]\n");
    let (code, _, err) = attach(&["good"]);
    assert!(code == Some(2) && err.contains("line 1 has its platforms in brackets"), "{err}");
}

#[test]
fn jobs_that_somebody_renamed_are_there_and_are_cancelled_at_the_stop() {
    let sandbox = Sandbox::new();
    let Some(mut cluster) = Cluster::start(&sandbox) else { return };
    let calls = sandbox.path().join("calls");
    put_before(&sandbox, &mut cluster, "squeue", &format!("echo x >> {}", calls.display()));
    assert!(cluster.takes("scontrol", &["update", "partition=batch", "state=down"]));
    let mut scene = Scene::start(sandbox, cluster, FIELDS);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("jobs wait", || scene.platform.jobs("PENDING").len() == 2);
    for id in scene.platform.jobs("PENDING") {
        let words = [format!("jobid={id}"), format!("jobname=lab_{id}")];
        assert!(scene.platform.takes("scontrol", &["update", &words[0], &words[1]]));
    }
    let names = scene.platform.say("squeue", &["-h", "-o", "%j"]);
    assert!(names.lines().all(|name| name.starts_with("lab_")), "{names}");
    let listed = |scene: &Scene<Cluster>| {
        let n_calls = || scene.sandbox.read("calls").lines().count();
        let n_before = n_calls();
        until("they have been listed some times", || n_calls() >= n_before + 6);
    };
    let n_asked = |scene: &Scene<Cluster>| {
        let all = scene.sandbox.json(&["allocation", "list", "--all"]);
        all.as_array().map_or(0, Vec::len)
    };
    listed(&scene);
    assert_eq!((n_asked(&scene), scene.platform.jobs("PENDING").len()), (2, 2));
    // The next manager knows their ids, too.
    scene.kill_manager();
    scene.serve();
    listed(&scene);
    assert_eq!((n_asked(&scene), scene.platform.jobs("PENDING").len()), (2, 2));
    scene.stops();
    assert_eq!(scene.platform.jobs("PENDING,RUNNING"), Vec::<String>::new());
}
