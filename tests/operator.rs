//! What operators do with the platforms of a running manager, and with what was asked for there.

use std::path::Path;

use nix::sys::{signal::Signal, stat::Mode};
use serde_json::Value;
use tests::{Sandbox, api::Api, text, until};

/// A manager with up to three pilots of one core, of which a budget allows two, and a sweep that takes long.
const MANAGER: &str = "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 3, walltime: 1h, \
                       core_hours: 2, poll_interval: 1s}]\n";
const JOB: &str = "command: sleep 0.2\nsweep: {n: {range: [1, 10000]}}\n";

fn serve() -> (Sandbox, tests::Running) {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", MANAGER);
    sandbox.write("job.yaml", JOB);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    until("two pilots are there", || platform(&sandbox)["n_pilots"] == 2);
    (sandbox, manager)
}

fn platform(sandbox: &Sandbox) -> Value {
    sandbox.json(&["platform", "show", "here"])
}

/// Numbers of the allocations that are there.
fn allocations(sandbox: &Sandbox) -> Vec<String> {
    sandbox.ok(&["allocation", "list", "-q"]).lines().map(str::to_owned).collect()
}

fn ends(sandbox: &Sandbox, manager: tests::Running) {
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
    assert!(sandbox.agents().is_empty());
}

#[test]
fn a_budget_holds_until_it_is_raised() {
    let (sandbox, manager) = serve();
    assert_eq!(allocations(&sandbox), ["1", "2"]);
    let shown = sandbox.ok(&["platform", "show", "here"]);
    assert!(shown.contains("0 are spent and 2 are reserved for present allocations"), "{shown}");
    let limits = sandbox.ok(&["platform", "limits", "here", "--core-hours", "3"]);
    assert!(limits.contains("core_hours                 3"), "{limits}");
    until("a third is there", || allocations(&sandbox).len() == 3);
    assert_eq!(platform(&sandbox)["limits"]["core_time_max"], 3 * 3_600_000_000_u64);
    ends(&sandbox, manager);
}

#[test]
fn a_platform_is_tried_while_its_manager_has_the_port() {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", MANAGER);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    let folder = sandbox.json(&["status"])["folder"].as_str().expect("a folder").to_owned();
    let access = std::fs::read(Path::new(&folder).join("access.json")).expect("an access file");
    let access: Value = serde_json::from_slice(&access).expect("JSON");
    let (_, port) = access["url"].as_str().and_then(|url| url.rsplit_once(':')).expect("a port");
    sandbox.write("fixed.yaml", &format!("listen: {{port: {port}}}\n{MANAGER}"));
    let steps = sandbox.json(&["platform", "check", "here", "--config", "fixed.yaml"]);
    let steps = steps.as_array().expect("steps");
    assert!(steps.iter().any(|step| step["step"] == "probe"), "{steps:?}");
    assert!(steps.iter().all(|step| step["is_ok"] == true), "{steps:?}");
    ends(&sandbox, manager);
}

#[test]
fn submission_warns_of_tasks_that_outlive_every_pilot() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "manager.yaml",
        "platforms:\n  - {name: a, adapter: local, cores: 1, pilots_max: 1, walltime: 5m}\n  \
         - {name: b, adapter: local, cores: 1, pilots_max: 1, walltime: 10m}\n",
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    let said = |limit: &str| {
        let output = sandbox.run(&["submit", "--time-limit", limit, "--", "true"]);
        assert!(output.status.success(), "{output:?}");
        text(&output.stderr)
    };
    let why = "a task is expected to take 20m 00s, and no pilot lives so long: the walltime of b is 10m 00s";
    assert_eq!(said("20m"), format!("pilotfish: warning: job 1 cannot begin: {why}\n"));
    assert_eq!(said("8m"), "");
    sandbox.ok(&["wait", "2"]);
    // Pilots that are there are no reason to wait for others that live no longer.
    assert_eq!(said("20m"), format!("pilotfish: warning: job 3 cannot begin: {why}\n"));
    ends(&sandbox, manager);
}

#[test]
fn money_is_spent_until_there_is_none_left() {
    let sandbox = Sandbox::new();
    let priced = MANAGER.replace("core_hours: 2", "price: {core_hour: 0.5, currency: EUR}, budget: 1");
    sandbox.write("manager.yaml", &priced);
    sandbox.write("job.yaml", JOB);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    until("two pilots are there", || platform(&sandbox)["n_pilots"] == 2);
    let shown = sandbox.ok(&["platform", "show", "here"]);
    assert!(shown.contains("of 1.00 EUR: 0.00 EUR spent, 1.00 reserved"), "{shown}");
    assert!(shown.contains("one more costs 0.50 (budget)"), "{shown}");
    let limits = sandbox.ok(&["platform", "limits", "here", "--budget", "1.5"]);
    assert!(limits.contains("budget                  1.50 EUR"), "{limits}");
    until("a third is there", || allocations(&sandbox).len() == 3);
    ends(&sandbox, manager);
}

#[test]
fn a_users_budget_holds_until_it_is_raised() {
    let (sandbox, manager) = serve();
    sandbox.ok(&["platform", "limits", "here", "--user-core-hours", "0.0003"]);
    let why = || sandbox.ok(&["explain", "job", "1"]);
    until("it is used up", || why().contains("no more of them begin (user_core_hours)"));
    until("all is idle", || sandbox.json(&["job", "1"])["counts"]["running"] == 0);
    let n_done = || sandbox.json(&["job", "1"])["counts"]["done"].as_u64();
    let before = n_done();
    let shown = sandbox.ok(&["platform", "limits", "here", "--user-core-hours", "none"]);
    assert!(shown.contains("user_core_hours         none"), "{shown}");
    until("more are done", || n_done() > before);
    ends(&sandbox, manager);
}

#[test]
fn a_platform_is_taken_away_when_nothing_is_left_there() {
    let sandbox = Sandbox::new();
    let other = "# of the centre\nplatforms:\n  - {name: other, adapter: local, cores: 1}\n";
    let both = format!(
        "{other}  # big\n  - name: here\n    adapter: local\n    cores: 1\n    pilots_max: 2\n    walltime: 1h\n"
    );
    sandbox.write("manager.yaml", &both);
    sandbox.write("job.yaml", JOB);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    until("two pilots are there", || platform(&sandbox)["n_pilots"] == 2);
    let refused = sandbox.run(&["platform", "detach", "there"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("manager.yaml: found no platform `there`"), "{refused:?}");
    let said = sandbox.ok(&["platform", "detach", "here"]);
    assert!(said.starts_with("platform here is being drained: 2 pilots there or asked for\n"), "{said}");
    assert!(said.ends_with("platform here is detached, and no longer in manager.yaml\n"), "{said}");
    assert_eq!(sandbox.read("manager.yaml"), other);
    let shown = platform(&sandbox);
    assert_eq!((&shown["mode"], &shown["n_pilots_there"]), (&"detached".into(), &0.into()));
    let job = sandbox.json(&["job", "1"]);
    assert_eq!((&job["counts"]["failed"], &job["state"]), (&0.into(), &"active".into()), "nothing is lost");
    ends(&sandbox, manager);
    // Who attaches it again has it again.
    sandbox.write("manager.yaml", &both);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    until("its pilots are there again", || platform(&sandbox)["n_pilots"] == 2);
    // From another folder the manager's own file is meant.
    std::fs::create_dir(sandbox.path().join("elsewhere")).expect("a folder");
    let mut detach = sandbox.command(&["platform", "detach", "here", "--now", "-q"]);
    let said = detach.current_dir(sandbox.path().join("elsewhere")).output().expect("it runs");
    assert!(said.status.success() && said.stdout.is_empty(), "{said:?}");
    assert_eq!(sandbox.read("manager.yaml"), other);
    ends(&sandbox, manager);
    std::fs::remove_file(sandbox.path().join("manager.yaml")).expect("it is there");
    let manager = sandbox.serve(sandbox.command(&["serve"]));
    let refused = sandbox.run(&["platform", "detach", "local"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let told = "was started without a configuration; name the file with --config";
    assert!(text(&refused.stderr).contains(told), "{refused:?}");
    ends(&sandbox, manager);
}

#[test]
fn allocations_are_given_back() {
    let (sandbox, manager) = serve();
    sandbox.ok(&["platform", "pause", "here"]);
    // Whoever came first has the number 1.
    let pilot = sandbox.json(&["allocation", "show", "2"])["pilots"][0].clone();
    let said = sandbox.ok(&["allocation", "cancel", "2"]);
    assert_eq!(said, format!("allocation 2 is given back when pilot {pilot} has ended what it runs\n"));
    until("it is gone", || allocations(&sandbox) == ["1"]);
    let shown = sandbox.json(&["allocation", "show", "2"]);
    assert_eq!((&shown["state"], &shown["why"]), (&"ended".into(), &"its allocation was cancelled".into()));
    sandbox.ok(&["allocation", "cancel", "1", "--now"]);
    until("none is there", || allocations(&sandbox).is_empty());
    let again = sandbox.run(&["allocation", "cancel", "1", "77"]);
    assert_eq!(
        (again.status.code(), text(&again.stderr)),
        (
            Some(2),
            "pilotfish: allocation 1 is ended, so it cannot be cancelled\npilotfish: there is no allocation 77\n"
                .to_owned()
        )
    );
    let job = sandbox.json(&["job", "1"]);
    assert_eq!((&job["counts"]["failed"], &job["state"]), (&0.into(), &"active".into()), "nothing is lost");
    sandbox.ok(&["platform", "resume", "here"]);
    until("others are there", || allocations(&sandbox) == ["3", "4"]);
    ends(&sandbox, manager);
}

#[test]
fn what_was_set_is_remembered_by_the_next_manager() {
    let (sandbox, manager) = serve();
    sandbox.ok(&["platform", "drain", "here"]);
    until("none is there", || allocations(&sandbox).is_empty() && sandbox.agents().is_empty());
    manager.signal(nix::sys::signal::Signal::SIGKILL);
    manager.wait();
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    assert_eq!((platform(&sandbox)["mode"].clone(), allocations(&sandbox).len()), ("draining".into(), 0));
    let why = sandbox.ok(&["explain", "job", "1"]);
    assert!(why.contains("platform here is being drained"), "{why}");
    sandbox.ok(&["platform", "resume", "here"]);
    until("others are there", || allocations(&sandbox) == ["3", "4"]);
    ends(&sandbox, manager);
}

#[test]
fn what_is_wrong_changes_nothing() {
    let (sandbox, manager) = serve();
    let before = platform(&sandbox);
    for (arguments, said) in [
        (&["platform", "pause", "her"][..], "there is no platform `her`; did you mean `here`?"),
        (
            &["platform", "limits", "here", "--queued-max", "0"],
            "'--queued-max <N|none>': write a whole number, 1 or more, or `none`",
        ),
        (&["platform", "limits", "here", "--core-hours=-1"], "found `-1`; write a number of core-hours"),
        (&["platform", "limits", "here", "--core-hours", "inf"], "found `inf`; write a number of core-hours"),
        (&["platform", "limits", "here", "--pilots-max", "many"], "invalid value 'many'"),
    ] {
        let output = sandbox.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    let limits = |platform: &Value| (platform["limits"].clone(), platform["mode"].clone());
    assert_eq!(limits(&platform(&sandbox)), limits(&before));
    ends(&sandbox, manager);
}

#[test]
fn what_would_be_submitted_is_printed_whole() {
    let sandbox = Sandbox::new();
    let platform = |name: &str, adapter: &str, more: &str| {
        format!("  - {{name: {name}, adapter: {adapter}, cores: 8, walltime: 1h, {more}}}\n")
    };
    let platforms = [
        platform("slurm", "slurm", "queue: batch"),
        platform("grid", "gridengine", "parallel_environment: smp"),
        platform("pbs", "pbs", "queue: workq"),
        platform("power", "loadleveler", "class: parallel"),
        platform("scratch", "slurm", "folder: /scratch/pilots"),
        platform("far", "slurm", "ssh: ada@login, folder: /work/ada"),
        platform("cloud", "openstack", "setup: [mount /dev/vdb /scratch], openstack: {image: pilot-image}"),
    ];
    sandbox.write("manager.yaml", &format!("platforms:\n{}", platforms.concat()));
    for (name, said) in [
        ("slurm", ["sbatch", "--partition=batch"]),
        ("grid", ["qsub", "-pe"]),
        ("pbs", ["qsub", "ncpus=8"]),
        ("power", ["llsubmit", "class = parallel"]),
        ("scratch", ["sbatch", "/scratch/pilots/pf000000-1"]),
        ("far", ["/work/ada/pilots/pf000000-1", "/work/ada/agent-HASH"]),
    ] {
        let script = sandbox.ok(&["platform", "script", name]);
        assert!(said.iter().all(|word| script.contains(word)), "{name}: {script}");
        assert!(script.ends_with("\nSCRIPT\n"), "{name}: {script}");
    }
    let script = sandbox.ok(&["platform", "script", "cloud"]);
    let page = include_str!("../docs/operators.md");
    let shown = format!("$ pilotfish platform script cloud\n{script}```\n");
    assert!(page.contains(&shown), "docs/operators.md shows other user data than\n{script}");
}

#[test]
fn what_is_new_in_the_configuration_is_taken_up_while_the_manager_runs() {
    let sandbox = Sandbox::new();
    let here = "platforms:\n  - {name: here, adapter: local, cores: 1, pilots_max: 1}\n";
    sandbox.write("manager.yaml", here);
    sandbox.write("job.yaml", JOB);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    sandbox.ok(&["submit", "job.yaml"]);
    let homeless = sandbox.run(&["platform", "attach", "hosts", "farm"]);
    let said = text(&homeless.stderr);
    assert_eq!(homeless.status.code(), Some(2), "{said}");
    assert!(said.contains("found no host of `farm`; say where it is with --ssh HOST"), "{said}");
    let said = sandbox.ok(&["platform", "attach", "local", "more", "--cores", "1", "--pilots-max", "1"]);
    assert!(said.ends_with(" tries it. The running manager:\nplatform more is attached\n"), "{said}");
    let n_pilots = |name: &str| sandbox.json(&["platform", "show", name])["n_pilots"].as_u64();
    until("both have pilots", || (n_pilots("here"), n_pilots("more")) == (Some(1), Some(1)));
    let with_more = sandbox.read("manager.yaml");
    let reload = || sandbox.ok(&["platform", "reload"]);
    assert_eq!(reload(), "nothing has changed\n");

    sandbox.write("manager.yaml", &with_more.replace("pilots_max: 1", "pilots_max: none"));
    let refused = sandbox.run(&["platform", "reload"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("manager.yaml:2: "), "{refused:?}");
    assert_eq!(n_pilots("here"), Some(1), "nothing has changed");

    let other = with_more
        .replacen("pilots_max: 1", "pilots_max: 2", 1)
        .replace("adapter: local\n    cores: 1", "adapter: local\n    cores: 2");
    assert_ne!(other, with_more.replacen("pilots_max: 1", "pilots_max: 2", 1));
    sandbox.write("manager.yaml", &other);
    let waiting = "platform more has changed: cores; that is taken up when the manager is started again\n";
    assert_eq!(reload(), format!("platform here has its new limits: pilots_max\n{waiting}"));
    until("its second pilot is there", || n_pilots("here") == Some(2));

    // What an operator has set stays where the file says nothing new.
    sandbox.ok(&["platform", "limits", "here", "--queued-max", "7"]);
    let other = other.replacen("pilots_max: 2", "pilots_max: 3", 1);
    sandbox.write("manager.yaml", &format!("{other}limits: {{grace: 7s}}\n"));
    let others =
        "other settings have changed: limits.grace; that is taken up when the manager is started again\n";
    assert_eq!(reload(), format!("platform here has its new limits: pilots_max\n{waiting}{others}"));
    assert_eq!(sandbox.json(&["platform", "show", "here"])["limits"]["n_queued_max"], 7);

    // A file that is not the manager's is refused before anything is drained.
    sandbox.write("copy.yaml", &other);
    let refused = sandbox.run(&["platform", "detach", "more", "--now", "--config", "copy.yaml"]);
    assert!(text(&refused.stderr).contains("this manager was started with"), "{refused:?}");
    assert_eq!(sandbox.json(&["platform", "show", "more"])["mode"], "active");
    // Detached without a change of the file it stays so, until its entry has gone and come back.
    let api = Api::new(&sandbox.path().join("home/.pilotfish/default"));
    until("it is asked for no more", || api.post("/platforms/more/drain").is_some());
    until("it is detached", || api.post("/platforms/more/detach").is_some());
    sandbox.write("manager.yaml", &other);
    let stays =
        "platform more stays detached: take its entry out, reload, and put it back to have it again\n";
    assert_eq!(reload(), stays);
    sandbox.write("manager.yaml", "");
    let unlisted =
        "platform here is not in the file any more, and goes on until the manager is started again\n";
    assert_eq!(reload(), unlisted, "and no platform comes that nobody has listed");
    sandbox.write("manager.yaml", &other.replace("name: here", "name: there"));
    manager.signal(Signal::SIGHUP);
    let told = format!("platform there is attached\nplatform more is attached\n{unlisted}");
    until("it says what a signal changed", || sandbox.read("serve.err").contains(told.trim_end()));
    until("it has its pilot again", || n_pilots("more") == Some(1));
    assert_eq!(sandbox.json(&["platform", "show", "more"])["capacity"]["cores"], 2, "as it is now");
    // What is no file is not read, and does not keep the manager from its end.
    std::fs::remove_file(sandbox.path().join("manager.yaml")).expect("it is there");
    nix::unistd::mkfifo(&sandbox.path().join("manager.yaml"), Mode::S_IRWXU).expect("a pipe");
    let refused = sandbox.run(&["platform", "reload"]);
    assert!(text(&refused.stderr).contains("manager.yaml is no file any more"), "{refused:?}");
    ends(&sandbox, manager);
}

#[test]
fn platform_that_needs_tls_is_told_and_keeps_no_other_from_being_attached() {
    let sandbox = Sandbox::new();
    let here = "platforms:\n  - {name: here, adapter: local, cores: 1}\n";
    sandbox.write("manager.yaml", here);
    let manager = sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    let far = "  - {name: far, adapter: slurm, cores: 1, ssh: ada@far.invalid}\n";
    sandbox.write("manager.yaml", &format!("{here}{far}  - {{name: more, adapter: local, cores: 1}}\n"));
    let output = sandbox.run(&["platform", "reload"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let told = "platform more is attached\nplatform far is not attached: it needs TLS, which this manager does not speak; \
                start the manager anew\n";
    assert_eq!(text(&output.stdout), told);
    let said = sandbox.ok(&["platform", "detach", "more"]);
    assert!(said.contains("platform more is detached"), "{said}");
    ends(&sandbox, manager);
}

#[test]
fn what_was_measured_of_applications_outlives_the_manager_until_it_is_forgotten() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", "command: test {n} -lt 4\napplication: dock\nsweep: {n: {range: [1, 5]}}\n");
    let serve = || sandbox.serve(sandbox.command(&["serve"]));
    let manager = serve();
    assert_eq!(sandbox.run(&["submit", "job.yaml", "--wait"]).status.code(), Some(1));
    // What they took beside others, by which their degree goes, needed beside cores, and waited for CPUs, which their share
    // of them goes by, is written down later, at the end at the latest.
    let known = || {
        let mut known = sandbox.json(&["profiles", "show", "dock"])["platforms"][0].clone();
        let fields = known.as_object_mut().expect("an object");
        fields.retain(|name, _| {
            !["beside", "cpu_share", "degree", "io_rate", "prepared"]
                .contains(&name.trim_end_matches("_seconds"))
        });
        known
    };
    let before = known();
    assert_eq!((&before["platform"], &before["n_done"]), (&"local".into(), &3.into()));
    assert_eq!((&before["n_failed"], &before["error_rate"]), (&2.into(), &0.4.into()));
    ends(&sandbox, manager);
    let manager = serve();
    assert_eq!(known(), before, "as it was");
    assert_eq!(sandbox.ok(&["profiles", "reset", "dock"]), "what 3 tasks of dock had shown is forgotten\n");
    assert_eq!(sandbox.json(&["profiles", "list"]), Value::Array(vec![]));
    let refused = sandbox.run(&["profiles", "reset", "dock"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    ends(&sandbox, manager);
}

#[test]
fn a_policy_is_set_while_the_manager_runs_and_goes_on_until_the_configuration_says_another() {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", "policies: {matching: fifo}\n");
    let serve = || sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    let words = || sandbox.ok(&["policies", "--quiet"]);
    let manager = serve();
    assert_eq!(
        words(),
        "allocation=none\naffinity=rpa\ndistribution=adaptive\nplacement=none\nmatching=fifo\nbundling=guided\nmapping=none\nstealing=none\nscaling=measured\n"
    );
    let set = |layer: &str, policy: &str| sandbox.ok(&["policies", "set", layer, policy]);
    assert_eq!(set("matching", "alstb"), "matching is alstb now, it was fifo\n");
    assert_eq!(set("matching", "alstb"), "matching is alstb already\n");
    assert_eq!(set("allocation", "pa-rr-4"), "allocation is pa-rr-4 now, it was none\n");
    for (layer, policy, hint) in [
        ("matching", "alst", "found `alst`; did you mean `alstb`?"),
        ("matchin", "fifo", "did you mean `matching`?"),
        ("allocation", "paf-0", "give the percentage of favourites"),
    ] {
        let refused = sandbox.run(&["policies", "set", layer, policy]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(text(&refused.stderr).contains(hint), "{refused:?}");
    }
    ends(&sandbox, manager);
    let manager = serve();
    assert_eq!(
        words(),
        "allocation=pa-rr-4\naffinity=rpa\ndistribution=adaptive\nplacement=none\nmatching=alstb\nbundling=guided\nmapping=none\nstealing=none\nscaling=measured\n"
    );
    ends(&sandbox, manager);
    sandbox.write("manager.yaml", "policies: {bundling: single}\n");
    let manager = serve();
    assert_eq!(
        words(),
        "allocation=none\naffinity=rpa\ndistribution=adaptive\nplacement=none\nmatching=turns\nbundling=single\nmapping=none\nstealing=none\nscaling=measured\n"
    );
    let history = sandbox.json(&["policies", "history"]);
    let layers: Vec<_> = history.as_array().into_iter().flatten().map(|one| one["layer"].clone()).collect();
    assert_eq!(layers, ["matching", "allocation"], "{history}");
    assert_eq!(history[0]["is_over"], true, "{history}");
    ends(&sandbox, manager);
}

/// Ctrl-C for a command that waits, as soon as it would hear it; what it says then.
fn interrupted(sandbox: &Sandbox, name: &str, arguments: &[&str]) -> String {
    let waiting = sandbox.start(name, arguments);
    let hears = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", waiting.pid())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        let caught = u64::from_str_radix(caught.trim(), 16).expect("hexadecimal digits");
        caught & 1 << (Signal::SIGINT as u32 - 1) != 0
    };
    until("it listens for Ctrl-C", hears);
    waiting.signal(Signal::SIGINT);
    assert_eq!(waiting.wait(), Some(130));
    sandbox.read(&format!("{name}.err"))
}

#[test]
fn who_does_not_wait_any_more_is_told_what_goes_on() {
    let sandbox = Sandbox::new();
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "1"]));
    sandbox.write("job.yaml", "command: sleep 999\n");
    sandbox.write(
        "two.yaml",
        "tasks: [{name: a, command: sleep 999}, {name: b, command: sleep 999, after: a}]\n",
    );
    sandbox.ok(&["submit", "job.yaml"]);
    until("its task runs", || sandbox.json(&["job", "1"])["counts"]["running"] == 1);
    for (name, words, again) in [
        ("wait", &["wait", "last"][..], "`pilotfish wait 1` waits again"),
        ("submit", &["submit", "--wait", "job.yaml"], "`pilotfish wait 2` waits again"),
        ("tasks", &["submit", "--wait", "two.yaml"], "`pilotfish wait 3` waits again"),
        ("stop", &["stop"], "`pilotfish stop --now` kills them"),
    ] {
        let said = interrupted(&sandbox, name, words);
        assert!(said.contains(again), "{name}: {said}");
    }
    ends(&sandbox, manager);
}
