//! A whole pilot with real processes, against a manager with prepared answers.

use std::{
    path::Path,
    process::Stdio,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use protocol::{
    job::{CommandLine, JobSpec, WorkDirPolicy},
    pilot::JoinDocument,
};
use scheduler::{
    ids::JobId,
    pull::{Bundle, LeaveReason, Part, PilotCommand, PullAnswer, TaskNeeds, Template},
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, JobReport},
    time::Span,
};
use tokio::task::JoinHandle;

use super::{DriverError, batch_grace, drive};
use crate::{
    node::Node,
    testing::{FakeManager, left, nothing_new},
};

/// Lock of the pilots in this process, because a signal reaches all of them. Tests in processes of their own
/// never wait.
static IN_PROCESS: RwLock<()> = RwLock::new(());

/// The lock, held as long as the pilot runs.
#[expect(dead_code, reason = "it is held, not read")]
enum Turn {
    WithOthers(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

struct Pilot {
    manager: FakeManager,
    running: JoinHandle<Result<LeaveReason, DriverError>>,
    folder: tempfile::TempDir,
    _turn: Turn,
}

fn node() -> Node {
    Node {
        hostname: "testnode".into(),
        cpus: vec![0],
        n_cores: 2,
        memory_bytes: 0,
        gpus: crate::node::gpus::Gpus::default(),
        batch_id: None,
        rank: 0,
        walltime_end_unix: None,
        notice: None,
    }
}

async fn pilot(change: impl FnOnce(&mut JoinDocument)) -> Pilot {
    pilot_in(Turn::WithOthers(IN_PROCESS.read().unwrap_or_else(PoisonError::into_inner)), change).await
}

/// A pilot whose process is signalled.
async fn pilot_alone(change: impl FnOnce(&mut JoinDocument)) -> Pilot {
    pilot_in(Turn::Alone(IN_PROCESS.write().unwrap_or_else(PoisonError::into_inner)), change).await
}

async fn pilot_in(turn: Turn, change: impl FnOnce(&mut JoinDocument)) -> Pilot {
    let folder = tempfile::tempdir().unwrap();
    let manager = FakeManager::new().await;
    let mut join = JoinDocument {
        url: manager.url.clone(),
        token: "join-token".into(),
        tag: "pf-test".into(),
        folder: folder.path().join("pilot").display().to_string(),
        ..JoinDocument::default()
    };
    change(&mut join);
    let running = tokio::spawn(drive(join, node(), Instant::now()));
    Pilot { manager, running, folder, _turn: turn }
}

fn shell(script: &str, folder: &Path) -> JobSpec {
    JobSpec::new(CommandLine::Shell(script.into()), folder.into())
}

/// A part with one job and some of its tasks.
fn part(number: u64, spec: &JobSpec, n_tasks: u64) -> Part {
    let needs = TaskNeeds {
        resources: Resources::cores(1),
        time_limit: None,
        success_codes: spec.success_codes.clone(),
        ..TaskNeeds::default()
    };
    let template = Template { job: JobId(1), needs, spec: serde_json::to_string(spec).unwrap() };
    let bundles =
        vec![Bundle { job: JobId(1), tasks: TaskSet::from(0..n_tasks), tried: vec![], is_given: false }];
    Part { number, templates: vec![template], bundles, commands: vec![] }
}

fn answer(parts: Vec<Part>) -> PullAnswer {
    PullAnswer { parts, ..nothing_new(0) }
}

impl Pilot {
    /// Registers the pilot and gives it its first tasks.
    async fn work(&mut self, spec: &JobSpec, n_tasks: u64) {
        self.manager.register().await;
        let request = self.manager.next().await;
        assert_eq!(request.authorization, "Bearer session");
        request.answer(&answer(vec![part(1, spec, n_tasks)]));
    }

    /// Takes reports until `n_tasks` tasks have ended.
    async fn ended(&mut self, n_tasks: usize) -> Vec<JobReport> {
        let mut reports = Vec::new();
        let mut n_ended = 0;
        while n_ended < n_tasks {
            let request = self.manager.next_report().await;
            let report = request.pull().pull.report.unwrap();
            request.answer(&nothing_new(report.seq));
            for job in &report.jobs {
                n_ended +=
                    job.successes.tasks.len() as usize + job.failures.len() + job.returned.len() as usize;
            }
            reports.extend(report.jobs);
        }
        reports
    }

    /// Sends the pilot a command and waits until it has ended.
    async fn command(mut self, command: PilotCommand) -> (Result<LeaveReason, DriverError>, Vec<JobReport>) {
        let mut reports = Vec::new();
        let mut command = Some(command);
        while !self.running.is_finished() {
            let request = tokio::select! {
                request = self.manager.next() => request,
                _ = &mut self.running => break,
            };
            if request.path.ends_with("leave") {
                request.leave();
                request.answer(&left());
                break;
            }
            let pull = request.pull().pull;
            let acknowledged = pull.report.as_ref().map_or(0, |report| report.seq);
            reports.extend(pull.report.map(|report| report.jobs).unwrap_or_default());
            let commands = command.take().into_iter().collect();
            let part = Part { number: pull.part_seen + 1, commands, ..Part::default() };
            request.answer(&PullAnswer { parts: vec![part], ..nothing_new(acknowledged) });
        }
        (self.running.await.unwrap(), reports)
    }
}

#[tokio::test(flavor = "current_thread")]
async fn tasks_run_and_are_reported_with_output_and_usage() {
    let mut pilot = pilot(|_| {}).await;
    let spec = shell(
        "echo task $PILOTFISH_TASK_ID slot $PILOTFISH_SLOT of $PILOTFISH_PILOT_ID",
        pilot.folder.path(),
    );
    pilot.work(&spec, 4).await;
    let reports = pilot.ended(4).await;
    let mut lines: Vec<String> = reports
        .iter()
        .flat_map(|job| &job.outputs)
        .map(|output| String::from_utf8(output.stdout.clone()).unwrap().replace("slot 1", "slot 0"))
        .collect();
    lines.sort();
    let expected: Vec<String> = (0..4).map(|index| format!("task 1.{index} slot 0 of 7\n")).collect();
    assert_eq!(lines, expected);
    assert!(reports.iter().all(|job| job.successes.wall_us.iter().all(|wall| *wall > 0)));
    let (left, _) = pilot.command(PilotCommand::Drain).await;
    assert_eq!(left.unwrap(), LeaveReason::Told);
}

#[tokio::test(flavor = "current_thread")]
async fn scratch_folders_are_gone_when_the_pilot_is() {
    let mut pilot = pilot(|_| {}).await;
    let mut spec = shell("echo x > left-behind; pwd", pilot.folder.path());
    spec.workdir = WorkDirPolicy::Scratch;
    pilot.work(&spec, 1).await;
    let reports = pilot.ended(1).await;
    let path = String::from_utf8(reports[0].outputs[0].stdout.clone()).unwrap();
    assert!(path.contains("scratch-testnode-"), "{path}");
    let folder = pilot.folder.path().join("pilot");
    let folder_kept = folder.clone();
    let outer = std::mem::replace(&mut pilot.folder, tempfile::tempdir().unwrap());
    pilot.command(PilotCommand::Drain).await.0.unwrap();
    let left: Vec<_> =
        std::fs::read_dir(folder_kept).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".gitignore"]);
    drop(outer);
}

#[tokio::test(flavor = "current_thread")]
async fn failures_come_with_their_kind() {
    let mut pilot = pilot(|_| {}).await;
    let script = "case $PILOTFISH_TASK_INDEX in 0) exit 3;; 1) kill -USR1 $$;; 2) exit 0;; 3) kill -9 $$;; 4) exit 137;; esac";
    let spec = shell(script, pilot.folder.path());
    pilot.work(&spec, 5).await;
    let reports = pilot.ended(5).await;
    let mut failures: Vec<_> =
        reports.iter().flat_map(|job| &job.failures).map(|f| (f.index, f.kind.clone())).collect();
    failures.sort_by_key(|(index, _)| *index);
    let expected = [
        (0, FailureKind::Exit { code: 3 }),
        (1, FailureKind::Signal { signal: libc::SIGUSR1 }),
        (3, FailureKind::Signal { signal: libc::SIGKILL }),
        (4, FailureKind::Exit { code: 137 }),
    ];
    assert_eq!(failures, expected);
}

/// Sends a signal to this process, in which no other pilot runs.
fn signal_pilot(signal: libc::c_int) {
    // SAFETY: no memory is passed.
    unsafe { libc::raise(signal) };
}

#[tokio::test(flavor = "current_thread")]
async fn tasks_signalled_with_their_pilot_are_preempted_without_any_batch_system() {
    let mut pilot = pilot_alone(|join| join.capacity = Some(Resources::cores(3))).await;
    // The first two end before the pilot is signalled, the third after it with its own exit code.
    let script = "trap 'exit 1' HUP; case $PILOTFISH_TASK_INDEX in 0) kill -TERM $$;; 1) exit 137;; 2) echo $$ > pid; sleep 600 & wait;; esac";
    let mut spec = shell(script, pilot.folder.path());
    spec.workdir = WorkDirPolicy::Submit;
    pilot.work(&spec, 3).await;
    let pid_file = pilot.folder.path().join("pid");
    let pid = loop {
        match std::fs::read_to_string(&pid_file).ok().and_then(|text| text.trim().parse::<i32>().ok()) {
            Some(pid) => break pid,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    signal_pilot(libc::SIGTERM);
    // SAFETY: no memory is passed.
    unsafe { libc::kill(pid, libc::SIGHUP) };
    let reports = pilot.ended(3).await;
    let mut kinds: Vec<_> =
        reports.iter().flat_map(|job| &job.failures).map(|f| (f.index, f.kind.clone())).collect();
    kinds.sort_by_key(|(index, _)| *index);
    assert_eq!(kinds, [0, 1, 2].map(|index| (index, FailureKind::Preempted)));
}

#[tokio::test(flavor = "current_thread")]
async fn the_slot_of_a_task_whose_end_is_held_back_is_free_at_once() {
    let mut pilot = pilot(|join| join.capacity = Some(Resources::cores(1))).await;
    // One after another, they would take six seconds.
    let script = "case $PILOTFISH_TASK_INDEX in 0|1) kill -TERM $$;; *) date +%s%N > begun;; esac";
    let mut spec = shell(script, pilot.folder.path());
    spec.workdir = WorkDirPolicy::Submit;
    pilot.work(&spec, 3).await;
    let reports = pilot.ended(1).await;
    let done: Vec<u64> = reports.iter().flat_map(|job| job.successes.tasks.indices()).collect();
    assert_eq!(done, [2], "it is told before the others");
    assert!(reports.iter().all(|job| job.failures.is_empty()), "{reports:?}");
    let reports = pilot.ended(2).await;
    let failures = reports.iter().flat_map(|job| &job.failures);
    assert!(failures.clone().all(|failure| failure.kind == FailureKind::Signal { signal: libc::SIGTERM }));
    assert_eq!(failures.count(), 2);
}

#[tokio::test(flavor = "current_thread")]
async fn a_program_that_catches_the_signal_of_all_processes_is_preempted_too() {
    let mut pilot = pilot_alone(|join| join.capacity = Some(Resources::cores(1))).await;
    let script = "trap 'echo caught > caught; exit 1' TERM; echo $$ > pid; sleep 600 & wait";
    let mut spec = shell(script, pilot.folder.path());
    spec.workdir = WorkDirPolicy::Submit;
    pilot.work(&spec, 1).await;
    let read = |name: &str| std::fs::read_to_string(pilot.folder.path().join(name)).unwrap_or_default();
    let pid: i32 = loop {
        match read("pid").trim().parse() {
            Ok(pid) => break pid,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    // SAFETY: no memory is passed.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    crate::sys::watch::process_end(u32::try_from(pid).unwrap()).await;
    signal_pilot(libc::SIGTERM);
    let reports = pilot.ended(1).await;
    assert_eq!(reports[0].failures[0].kind, FailureKind::Preempted);
}

#[tokio::test(flavor = "current_thread")]
async fn a_program_that_saves_its_state_on_the_signal_of_all_processes_is_preempted_with_success_too() {
    let mut pilot = pilot_alone(|join| join.capacity = Some(Resources::cores(2))).await;
    // Both end with success well after the signal, but only the task that ignores it has done all its work.
    let script = "case $PILOTFISH_TASK_INDEX in \
        0) trap 'sleep 1.5; exit 0' TERM; echo $$ > pid0; sleep 600 & wait;; \
        1) trap '' TERM; echo $$ > pid1; until [ -e saved ]; do sleep 0.05; done; sleep 1.5;; esac";
    let mut spec = shell(script, pilot.folder.path());
    spec.workdir = WorkDirPolicy::Submit;
    pilot.work(&spec, 2).await;
    let mut pids = Vec::new();
    for name in ["pid0", "pid1"] {
        let file = pilot.folder.path().join(name);
        pids.push(loop {
            match std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<i32>().ok()) {
                Some(pid) => break pid,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        });
    }
    signal_pilot(libc::SIGTERM);
    for pid in &pids {
        // SAFETY: no memory is passed.
        unsafe { libc::kill(*pid, libc::SIGTERM) };
    }
    crate::sys::watch::process_end(u32::try_from(pids[0]).unwrap()).await;
    std::fs::write(pilot.folder.path().join("saved"), "").unwrap();
    let reports = pilot.ended(2).await;
    let failed: Vec<_> =
        reports.iter().flat_map(|job| &job.failures).map(|f| (f.index, f.kind.clone())).collect();
    assert_eq!(failed, [(0, FailureKind::Preempted)]);
    let done: Vec<u64> = reports.iter().flat_map(|job| job.successes.tasks.indices()).collect();
    assert_eq!(done, [1]);
}

#[tokio::test(flavor = "current_thread")]
async fn what_counts_as_success_is_never_the_platforms_doing() {
    let mut pilot = pilot(|_| {}).await;
    let mut spec = shell("exit 143", pilot.folder.path());
    spec.success_codes = vec![143];
    pilot.work(&spec, 1).await;
    let reports = pilot.ended(1).await;
    assert!(reports[0].failures.is_empty(), "{reports:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn missing_folder_is_the_nodes_fault_and_missing_program_is_not() {
    let mut pilot = pilot(|_| {}).await;
    let mut spec = shell("true", Path::new("/no/such/folder"));
    pilot.work(&spec, 1).await;
    let reports = pilot.ended(1).await;
    assert!(
        matches!(&reports[0].failures[0].kind, FailureKind::Node { what } if what.contains("/no/such/folder"))
    );
    spec = JobSpec::new(CommandLine::Args(vec!["no-such-program".into()]), "/".into());
    let request = pilot.manager.next().await;
    request.answer(&answer(vec![part(2, &spec, 1)]));
    let reports = pilot.ended(1).await;
    assert!(
        matches!(&reports[0].failures[0].kind, FailureKind::Start { what } if what.contains("no-such-program"))
    );
}

#[tokio::test(flavor = "current_thread")]
async fn resident_program_serves_all_tasks_of_its_slot() {
    let mut pilot = pilot(|_| {}).await;
    let script = r#"while read q; do n=$((n+1)); echo "{\"exit_code\":0,\"output\":\"$n\"}"; done"#;
    let mut spec = shell(script, pilot.folder.path());
    spec.resident = true;
    pilot.work(&spec, 50).await;
    let reports = pilot.ended(50).await;
    let outputs = reports.iter().flat_map(|job| &job.outputs);
    let most = outputs.map(|output| String::from_utf8_lossy(&output.stdout).parse::<u64>().unwrap()).max();
    assert!(most.unwrap() >= 25, "two programs for fifty tasks: {most:?}");
    assert_eq!(pilot.command(PilotCommand::Drain).await.0.unwrap(), LeaveReason::Told);
}

#[tokio::test(flavor = "current_thread")]
async fn bad_answer_of_a_resident_program_is_a_failure_with_its_reason() {
    let mut pilot = pilot(|_| {}).await;
    let mut spec = shell("read q; echo garbage; read q", pilot.folder.path());
    spec.resident = true;
    pilot.work(&spec, 1).await;
    let reports = pilot.ended(1).await;
    let kind = &reports[0].failures[0].kind;
    assert!(matches!(kind, FailureKind::BadAnswer { what } if what.contains("\"garbage\"")), "{kind:?}");
    assert_eq!((kind.word(), kind.blame()), ("bad-answer", scheduler::results::Blame::Program));
    let text = kind.to_string();
    assert!(text.starts_with("the resident program's answer: expected a line like"), "{text}");
}

#[tokio::test(flavor = "current_thread")]
async fn stopped_pilot_kills_what_runs_and_gives_it_back() {
    let mut pilot = pilot(|_| {}).await;
    let started = pilot.folder.path().join("started");
    let mkfifo = std::process::Command::new("mkfifo").arg(&started).status().unwrap();
    assert!(mkfifo.success());
    let spec = shell(&format!("echo x > {}; sleep 600", started.display()), pilot.folder.path());
    pilot.work(&spec, 5).await;
    tokio::task::spawn_blocking(move || std::fs::read(started)).await.unwrap().unwrap();
    let (left, reports) = pilot.command(PilotCommand::Stop).await;
    assert_eq!(left.unwrap(), LeaveReason::Told);
    let mut returned = TaskSet::new();
    reports.iter().for_each(|job| returned.insert_all(&job.returned));
    assert_eq!(returned, TaskSet::from(0..5));
}

#[test]
fn a_short_notice_is_enough_to_give_tasks_back() {
    let grace = |notice| batch_grace(notice).as_secs();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!([grace(None), grace(seconds(3)), grace(seconds(30)), grace(seconds(300))], [20, 1, 10, 20]);
}

#[tokio::test(flavor = "current_thread")]
async fn wrong_join_token_ends_the_pilot() {
    let mut pilot = pilot(|_| {}).await;
    pilot.manager.next().await.refuse(401, "unauthorized");
    let error = pilot.running.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not accept our token"), "{error}");
    assert!(!error.to_string().contains("join-token"));
}

#[tokio::test(flavor = "current_thread")]
async fn manager_that_is_busy_is_asked_again() {
    let mut pilot = pilot(|_| {}).await;
    pilot.manager.next().await.refuse(503, "starting");
    let registration = pilot.manager.register().await.registration;
    assert_eq!((registration.tag.as_str(), registration.node.capacity.cores), ("pf-test", 2));
    let (left, _) = pilot.command(PilotCommand::Drain).await;
    assert_eq!(left.unwrap(), LeaveReason::Told);
}

#[tokio::test(flavor = "current_thread")]
async fn results_wait_on_disk_while_the_manager_is_away() {
    let mut pilot = pilot(|_| {}).await;
    let spec = shell("true", pilot.folder.path());
    pilot.work(&spec, 1).await;
    let request = pilot.manager.next_report().await;
    let first = request.pull().pull.report.unwrap();
    request.refuse(503, "busy");
    let spool = pilot.folder.path().join("pilot/spool-testnode");
    let request = pilot.manager.next_report().await;
    assert!(std::fs::metadata(spool).unwrap().len() > 16);
    assert_eq!(request.pull().pull.report.unwrap(), first);
    request.answer(&nothing_new(first.seq));
}

#[tokio::test(flavor = "current_thread")]
async fn void_session_is_renewed_with_the_same_nonce() {
    let mut pilot = pilot(|_| {}).await;
    let first = pilot.manager.register().await;
    pilot.manager.next().await.refuse(401, "unauthorized");
    let again = pilot.manager.register().await;
    assert_eq!(first.registration.nonce, again.registration.nonce);
    let (left, _) = pilot.command(PilotCommand::Drain).await;
    assert_eq!(left.unwrap(), LeaveReason::Told);
}

#[tokio::test(flavor = "current_thread")]
async fn pilot_ends_with_the_process_it_watches() {
    let mut process = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = process.id();
    let mut pilot = pilot(|join| join.watch_pid = Some(pid)).await;
    let spec = shell("sleep 600", pilot.folder.path());
    pilot.work(&spec, 2).await;
    drop(process.stdin.take());
    let result = pilot.running.await.unwrap();
    assert!(matches!(result, Err(DriverError::Abandoned { pid: watched }) if watched == pid), "{result:?}");
    process.wait().unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn end_of_walltime_kills_what_runs_without_blame() {
    let mut pilot = pilot(|join| join.walltime = Some(Span::from_secs(8))).await;
    let spec = shell("sleep 600", pilot.folder.path());
    pilot.work(&spec, 1).await;
    let reports = pilot.ended(1).await;
    assert_eq!(reports[0].failures[0].kind, FailureKind::Walltime);
    let (left, _) = pilot.command(PilotCommand::Drain).await;
    assert_eq!(left.unwrap(), LeaveReason::Walltime);
}

#[tokio::test(flavor = "current_thread")]
async fn refused_report_is_sent_without_outputs_and_then_as_returned_tasks() {
    let mut pilot = pilot(|_| {}).await;
    let spec = shell("echo x", pilot.folder.path());
    pilot.work(&spec, 1).await;
    let mut sent = Vec::new();
    for status in [413, 400, 400, 503] {
        let request = pilot.manager.next_report().await;
        sent.push(request.pull().pull.report.unwrap());
        request.refuse(status, "too-large");
    }
    let request = pilot.manager.next_report().await;
    sent.push(request.pull().pull.report.unwrap());
    assert!(sent.iter().all(|report| report.seq == 1), "{sent:?}");
    let parts = sent.iter().map(|report| &report.jobs[0]);
    let shown: Vec<_> =
        parts.map(|job| (job.outputs.len(), job.successes.tasks.len(), job.returned.len())).collect();
    assert_eq!(shown, [(1, 1, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1), (0, 0, 1)]);
    request.answer(&nothing_new(1));
    let request = pilot.manager.next().await;
    request.answer(&answer(vec![part(2, &spec, 1)]));
    let request = pilot.manager.next_report().await;
    assert_eq!(request.pull().pull.report.unwrap().seq, 2, "the numbering goes on");
}

#[tokio::test(flavor = "current_thread")]
async fn tasks_of_an_unreadable_report_are_given_back() {
    let mut pilot = pilot(|_| {}).await;
    let spec = shell("true", pilot.folder.path());
    pilot.work(&spec, 1).await;
    let request = pilot.manager.next_report().await;
    request.refuse(503, "busy");
    let spool = pilot.folder.path().join("pilot/spool-testnode");
    let request = pilot.manager.next_report().await;
    let mut bytes = std::fs::read(&spool).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&spool, bytes).unwrap();
    request.refuse(503, "busy");
    let request = pilot.manager.next_report().await;
    let report = request.pull().pull.report.unwrap();
    assert_eq!((report.seq, report.jobs[0].returned.clone()), (1, TaskSet::from(0..1)));
    request.answer(&nothing_new(1));
}

#[tokio::test(flavor = "current_thread")]
async fn signalled_pilot_does_not_wait_for_a_manager_that_is_away() {
    // A short walltime has a short margin, which limits the last exchange.
    let mut pilot = pilot_alone(|join| join.walltime = Some(Span::from_secs(90))).await;
    let spec = shell("true", pilot.folder.path());
    pilot.work(&spec, 1).await;
    let request = pilot.manager.next_report().await;
    signal_pilot(libc::SIGTERM);
    request.refuse(503, "away");
    let signalled = Instant::now();
    let url = pilot.manager.url.clone();
    drop(pilot.manager);
    let error = pilot.running.await.unwrap().unwrap_err();
    assert!(matches!(&error, DriverError::Unreported { url: at, .. } if *at == url), "{error}");
    assert!(signalled.elapsed().as_secs() < 60, "it stayed until its walltime's end");
    let spool = crate::session::arrival::open_spool(&pilot.folder.path().join("pilot"), "testnode").unwrap();
    let reports = spool.numbers().map(|number| spool.read(number).unwrap());
    let kept: u64 = reports.flat_map(|report| report.jobs).map(|job| job.successes.tasks.len()).sum();
    assert_eq!(kept, 1);
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_done_is_kept_for_the_next_pilot_whoever_sends_this_one_away() {
    for (status, code) in [(426, "wrong-version"), (401, "unauthorized")] {
        let mut pilot = pilot(|_| {}).await;
        let spec = shell("true", pilot.folder.path());
        pilot.work(&spec, 1).await;
        let request = pilot.manager.next_report().await;
        request.refuse(status, code);
        if status == 401 {
            // The earlier pull is not answered; the pilot registers again.
            while !pilot.manager.refuses_registration(status, code).await {}
        }
        let error = pilot.running.await.unwrap().unwrap_err();
        assert!(!matches!(error, DriverError::Unreported { .. }), "{error}");
        let spool =
            crate::session::arrival::open_spool(&pilot.folder.path().join("pilot"), "testnode").unwrap();
        let reports = spool.numbers().map(|number| spool.read(number).unwrap());
        let kept: u64 = reports.flat_map(|report| report.jobs).map(|job| job.successes.tasks.len()).sum();
        assert_eq!(kept, 1, "{code}");
    }
}
