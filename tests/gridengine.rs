//! Pilots as batch jobs of a real Grid Engine: sweeps complete whatever becomes of the jobs, the master and
//! the manager, and nothing is left behind.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use tests::{
    Sandbox,
    gridengine::Cell,
    scene::{Scene, dies_while_it_submits, held_up, submit_limit_of_held_up},
    text, until,
};

/// A cluster, and a manager with pilots whose two cores are asked for so; `None` where there can be no cluster.
fn start(site: &str) -> Option<Scene<Cell>> {
    start_of(2, site)
}

/// The same with so many pilots at most.
fn start_of(n_pilots_max: u32, site: &str) -> Option<Scene<Cell>> {
    let sandbox = Sandbox::new();
    let cell = Cell::start(&sandbox)?;
    let fields = format!(
        "name: cluster, adapter: gridengine, queue: batch.q, pilots_max: {n_pilots_max}, walltime: 10m, {site}"
    );
    Some(Scene::start(sandbox, cell, &fields))
}

/// Besides, no process of a job is left.
fn ends_well(mut scene: Scene<Cell>, n_again_max: usize) {
    scene.ends_well(n_again_max);
    let is_of_the_cluster = |command: &str| command.contains("sge_");
    until("nothing but the cluster is left", || {
        scene.sandbox.processes().iter().all(|(_, command)| is_of_the_cluster(command))
    });
}

#[test]
fn a_sweep_runs_in_batch_jobs() {
    let site = "parallel_environment: smp, memory: 1GiB, gpus: 2, options: [-l mem_total=1G]";
    let Some(scene) = start(site) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(10);
    let jobs = scene.platform.say("qstat", &["-xml", "-r", "-q", "batch.q"]);
    for expected in ["<JB_name>pf", "name=\"smp\">2<", "name=\"h_vmem\"", ">512M<", "name=\"h_rt\"", ">600<"]
    {
        assert!(jobs.contains(expected), "{expected} in {jobs}");
    }
    let scripts = scene.platform.scripts();
    assert!(
        scripts.contains("--join") && !scripts.contains("token") && !scripts.contains("pfj_"),
        "{scripts}"
    );
    ends_well(scene, 0);
}

#[test]
fn jobs_that_a_stranger_deletes_cost_what_ran_in_them() {
    let Some(scene) = start("parallel_environment: smp") else { return };
    scene.write_job_that_waits(40);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let jobs = scene.platform.jobs("r");
    scene.platform.say("qdel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    scene.go();
    // The signal reaches tasks, too: others may begin in their place before their pilot has heard of it.
    ends_well(scene, 4 * jobs.len());
}

#[test]
fn what_a_deleted_job_cannot_finish_is_given_back_in_time() {
    let Some(scene) = start("parallel_environment: smp") else { return };
    scene.write_job("trap \"\" USR2; [ -e again ] || sleep 600");
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(4);
    scene.sandbox.write("again", "");
    let jobs = scene.platform.jobs("r");
    scene.platform.say("qdel", &jobs.iter().map(String::as_str).collect::<Vec<_>>());
    for job in &jobs {
        let booked = || scene.platform.say("qacct", &["-j", job]);
        until("its end is booked", || booked().contains("exit_status"));
        // One that was killed has 137, if not another number.
        let ended_well = |line: &str| line.split_whitespace().eq(["exit_status", "0"]);
        assert!(booked().lines().any(ended_well), "{}", booked());
    }
    assert_eq!(scene.sandbox.ok(&["pilots", "--all"]).matches("it got a signal").count(), 2);
    // What ran when the jobs were deleted, and what began in its place before the pilots were signalled.
    ends_well(scene, 8);
}

#[test]
fn a_master_that_is_silent_and_dies_loses_nothing() {
    let Some(mut scene) = start("parallel_environment: smp") else { return };
    scene.platform.signal_master(Signal::SIGSTOP);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let failures = || scene.sandbox.json(&["platforms"])[0]["n_failures"].clone();
    until("its silence is noticed", || failures() != 0);
    scene.platform.signal_master(Signal::SIGCONT);
    scene.until_executed(20);
    scene.platform.kill_master();
    scene.until_executed(60);
    scene.platform.start_master(&scene.sandbox);
    // It may have died before it had kept that there are such jobs, and ends them: what ran in both, and what may have
    // begun in its place before the pilots were killed as well.
    ends_well(scene, 8);
}

#[test]
fn managers_killed_while_jobs_wait_and_run_leak_nothing() {
    let Some(mut scene) = start("parallel_environment: smp") else { return };
    scene.platform.say("qmod", &["-d", "batch.q"]);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    until("jobs wait", || scene.platform.jobs("p").len() == 2);
    scene.kill_manager();
    scene.serve();
    scene.platform.say("qmod", &["-e", "batch.q"]);
    scene.until_executed(20);
    assert!(scene.platform.jobs("rps").len() <= 2, "those of before are known");
    scene.kill_manager();
    scene.serve();
    ends_well(scene, 0);
}

#[test]
fn managers_killed_before_and_after_a_submission_ask_for_no_more_than_they_may() {
    for moment in ["before", "after"] {
        let sandbox = Sandbox::new();
        let Some(mut cell) = Cell::start(&sandbox) else { return };
        cell.environment = held_up(&sandbox, &cell.environment, ("qsub", "qstat"), moment);
        let fields = "name: cluster, adapter: gridengine, queue: batch.q, pilots_max: 2, walltime: 10m, \
                      parallel_environment: smp";
        let mut scene = Scene::start_with(sandbox, cell, fields, &submit_limit_of_held_up());
        dies_while_it_submits(&mut scene);
        assert!(scene.platform.jobs("rps").len() <= 2, "those of before are known");
        let n_asked = scene.sandbox.read("asked").lines().count();
        ends_well(scene, 0);
        assert_eq!(n_asked, 2, "killed {moment} the submission");
    }
}

#[test]
fn what_ran_on_a_host_that_died_runs_when_it_is_back() {
    let Some(mut scene) = start("parallel_environment: smp") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let n_done = scene.sandbox.json(&["job", "1"])["counts"]["done"].as_u64().expect("a number") as usize;
    let Scene { platform, sandbox, .. } = &mut scene;
    platform.kill_host(sandbox);
    // What was executed and not known to be done.
    let n_again_max = scene.sandbox.read("executions").lines().count() - n_done;
    let Scene { platform, sandbox, .. } = &mut scene;
    platform.start_host(sandbox);
    ends_well(scene, n_again_max);
}

#[test]
fn what_outlasts_a_pilot_is_run_again_by_the_next() {
    let sandbox = Sandbox::new();
    let Some(cell) = Cell::start(&sandbox) else { return };
    let fields = "name: cluster, adapter: gridengine, queue: batch.q, pilots_max: 2, walltime: 8s, \
                  parallel_environment: smp";
    let scene = Scene::start_with(sandbox, cell, fields, "walltime_margin: 3s");
    let again = scene.sandbox.path().join("again").display().to_string();
    // Two tasks outlive any pilot when they run for the first time.
    scene.write_job(&format!(
        "case {{n}} in 3|50) [ -e {again}-{{n}} ] || {{{{ : > {again}-{{n}}; sleep 600; }}}};; esac; sleep 0.1"
    ));
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_done();
    let pilots = scene.sandbox.ok(&["pilots", "--all"]);
    let n_pilots = pilots.lines().count() - 1;
    // One that took long to start is ended by Grid Engine, which counts from the job's start.
    let reasons = ["its walltime ended", "it got a signal", "its platform says that it has ended"];
    let n_ended: usize = reasons.iter().map(|why| pilots.matches(why).count()).sum();
    assert!(pilots.contains(reasons[0]) && n_ended >= 2 && n_pilots > 2, "{pilots}");
    ends_well(scene, 2 * n_pilots);
}

#[test]
fn jobs_that_cannot_start_are_told() {
    let site = "parallel_environment: smp, options: [-wd /no/such/folder]";
    let Some(scene) = start(site) else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let reason = "can't chdir to /no/such/folder";
    until("the operator is told why", || scene.sandbox.read("serve.err").contains(reason));
}

#[test]
fn cores_on_several_hosts_are_not_asked_for() {
    let Some(scene) = start("parallel_environment: wide") else { return };
    scene.sandbox.ok(&["submit", "job.yaml"]);
    let reason = "parallel environment wide gives cores by the rule $fill_up";
    until("the operator is told why", || scene.sandbox.read("serve.err").contains(reason));
    assert!(scene.platform.jobs("rps").is_empty());
}

#[test]
fn an_array_is_one_job_whose_tasks_begin_as_there_is_room() {
    let Some(scene) = start_of(3, "parallel_environment: smp, nodes: 3") else { return };
    // An array that is tried is gone, tasks that never began included, when the check says so.
    let mut check = scene.sandbox.command(&["platform", "check", "cluster"]);
    let checked = check.envs(scene.platform.environment.iter().cloned()).output().expect("it runs");
    let said = text(&checked.stdout) + &text(&checked.stderr);
    assert!(said.contains("came home") && said.contains("nothing is left there"), "{said}");
    assert_eq!(scene.platform.say("qstat", &[]), "");
    scene.write_job_that_waits(40);
    scene.sandbox.ok(&["submit", "job.yaml"]);
    scene.until_executed(20);
    let said = scene.platform.say("qstat", &[]);
    let jobs: BTreeSet<&str> =
        said.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(jobs.len(), 1, "{said}");
    let pilots = || scene.sandbox.json(&["pilots", "--all"]).as_array().map_or(0, Vec::len);
    until("two of its tasks run", || pilots() == 2);
    let job = jobs.first().expect("one");
    assert_eq!(scene.platform.jobs("p"), [*job], "the third waits for cores");
    scene.platform.say("qdel", &[job, "-t", "1"]);
    until("the third runs where the first was", || pilots() == 3);
    let n_there = || scene.sandbox.json(&["platform", "show", "cluster"])["n_pilots_there"].clone();
    until("the first is not counted any more", || n_there() == 2);
    let allocations = scene.sandbox.json(&["allocation", "list"]);
    assert_eq!(allocations.as_array().map_or(0, Vec::len), 1, "{allocations}");
    scene.go();
    ends_well(scene, 4);
}
