//! The spawner with real processes.

use std::{
    ffi::CString,
    fs,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use super::{
    Ask, Environment, Exit, Inbox, Launch, Order, Outcome, Output, Spawner, processes::Processes,
    schedstat::schedstat, serve,
};

/// Longer than any test takes on the slowest machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(600);

struct Bench {
    spawner: Spawner,
    exits: mpsc::Receiver<Exit>,
}

impl Bench {
    fn new() -> Bench {
        let (send, exits) = mpsc::channel();
        // A test may drop the receiver before the spawner.
        let spawner = Spawner::start(1, move |exits: Vec<Exit>| {
            for exit in exits {
                drop(send.send(exit));
            }
        });
        Bench { spawner: spawner.unwrap(), exits }
    }

    fn next(&self) -> Exit {
        self.exits.recv_timeout(PATIENCE).expect("an exit")
    }
}

pub(super) fn launch(token: u64, argv: &[&str]) -> Launch {
    Launch {
        token,
        slot: usize::try_from(token).unwrap(),
        argv: argv.iter().map(|word| (*word).to_string()).collect(),
        environment: Environment { shared: Arc::new(vec![c"PATH=/usr/bin:/bin".into()]), own: Vec::new() },
        cwd: None,
        makes_cwd: false,
        stdin: None,
        stdout: Output::Archive { limit: 5000 },
        stderr: Output::Archive { limit: 1000 },
        time_limit: None,
        memory_limit_bytes: 0,
        cpus: Vec::new(),
        grace: Duration::from_secs(30),
    }
}

#[test]
fn an_order_that_comes_while_others_are_carried_out_is_not_overheard() {
    let (send, tokens) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let processes = Processes::new(None).unwrap();
        let inbox = Arc::new(Inbox { orders: Mutex::default(), bell: processes.bell() });
        for launch in
            [launch(1, &["/no/such/program"]), launch(2, &["sleep", "600"]), launch(3, &["sleep", "600"])]
        {
            inbox.send(Order::Launch(Box::new(launch)));
        }
        let orders = Arc::clone(&inbox);
        serve(processes, &inbox, &move |exits| {
            for exit in exits {
                // The first program ends while the others are still to be started.
                orders.send(if exit.token == 1 {
                    Order::Kill { token: 3, grace: PATIENCE }
                } else {
                    Order::End
                });
                send.send(exit.token).unwrap();
            }
        });
    });
    assert_eq!(tokens.recv_timeout(PATIENCE), Ok(1));
    assert_eq!(tokens.recv_timeout(PATIENCE), Ok(3), "the order to end it was not heard");
    server.join().unwrap();
}

fn shell(script: &str) -> Launch {
    launch(1, &["/bin/sh", "-c", script])
}

fn run(launch: Launch) -> Exit {
    let bench = Bench::new();
    bench.spawner.launch(launch);
    bench.next()
}

fn is_alive(pid: &str) -> bool {
    // A zombie of another parent counts as ended.
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

/// Waits until the kernel has finished with a process that was sent SIGKILL.
fn wait_until_gone(pid: &str) {
    let start = std::time::Instant::now();
    while is_alive(pid) {
        assert!(start.elapsed() < PATIENCE, "process {pid} is still there");
        std::thread::yield_now();
    }
}

#[test]
fn exit_code_output_and_usage_come_back() {
    let exit = run(shell("echo out; echo err >&2; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3"));
    assert_eq!(exit.outcome, Outcome::Code(3));
    assert_eq!((exit.stdout.as_slice(), exit.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert!(exit.cpu_us > 0 && exit.wall_us > 0, "{exit:?}");
    if schedstat(Path::new("/proc/self/schedstat")).is_some() {
        let [computed_ns, _] = exit.scheduled_ns.expect("the first task that ends is looked at");
        assert!(computed_ns > 0);
    }
}

#[test]
fn memory_is_measured_where_it_is_more_than_our_own() {
    // `tail` keeps the whole line in memory.
    let exit = run(shell("head -c 300M /dev/zero | tail -n 1 | wc -c"));
    assert_eq!(exit.stdout, b"314572800\n");
    assert!(exit.peak_memory_bytes > 300_000_000, "{}", exit.peak_memory_bytes);
    let small = run(shell("exec true"));
    assert_eq!(small.peak_memory_bytes, 0, "the agent's own memory is not the task's");
}

#[test]
fn signal_that_nobody_here_sent_is_told() {
    assert_eq!(run(shell("kill -SEGV $$")).outcome, Outcome::Signal(libc::SIGSEGV));
}

#[test]
fn environment_is_what_was_given_and_signals_are_as_in_a_shell() {
    let mut env = launch(1, &["env"]);
    env.environment.own.push(CString::new("A=b c").unwrap());
    assert_eq!(String::from_utf8(run(env).stdout).unwrap(), "A=b c\nPATH=/usr/bin:/bin\n");
    let status = String::from_utf8(run(launch(1, &["cat", "/proc/self/status"])).stdout).unwrap();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0);
    assert_eq!(mask("SigIgn:") & 1 << (libc::SIGPIPE - 1), 0);
}

#[test]
fn no_descriptor_of_ours_reaches_a_task() {
    // SAFETY: no memory is passed.
    let is_inheritable = |fd: &i32| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == 0;
    let given_to_us: Vec<i32> = (3..1024).filter(is_inheritable).collect();
    let text = String::from_utf8(run(shell("ls /proc/$$/fd")).stdout).unwrap();
    let theirs = text.lines().map(|fd| fd.parse::<i32>().unwrap());
    let mut ours: Vec<i32> = theirs.filter(|fd| !given_to_us.contains(fd)).collect();
    ours.sort_unstable();
    assert_eq!(ours, [0, 1, 2]);
}

#[test]
fn stdin_is_a_file_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in");
    fs::write(&path, "hello").unwrap();
    assert_eq!(run(Launch { stdin: Some(path), ..shell("cat") }).stdout, b"hello");
    assert_eq!(run(shell("cat")).outcome, Outcome::Code(0));
}

#[test]
fn output_goes_to_files_with_folders_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/out");
    let both = Output::File(path.clone());
    let script = "echo one; echo two >&2; echo three";
    let exit = run(Launch { stdout: both.clone(), stderr: both, ..shell(script) });
    assert_eq!((exit.outcome, exit.stdout.len()), (Outcome::Code(0), 0));
    assert_eq!(fs::read_to_string(path).unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn more_output_than_a_pipe_holds_is_cut_in_the_middle_and_delays_nobody() {
    let exit = run(Launch { stdout: Output::Archive { limit: 20 }, ..shell("seq 1 200000") });
    let text = String::from_utf8(exit.stdout).unwrap();
    assert_eq!(text, "1\n2\n3\n4\n5\n\n[pilotfish: 1288875 bytes left out]\n99\n200000\n");
    assert!(exit.is_stdout_truncated && !exit.is_stderr_truncated);
}

#[test]
fn endless_output_does_not_outlive_its_time_limit() {
    let limit = Some(Duration::from_secs(1));
    let exit = run(Launch { time_limit: limit, ..launch(1, &["yes"]) });
    assert_eq!(exit.outcome, Outcome::TimeLimit);
    assert!(exit.is_stdout_truncated && exit.stdout.len() < 5100);
}

#[test]
fn time_limit_asks_first_and_then_kills() {
    let limit = Some(Duration::from_secs(2));
    let polite = run(Launch { time_limit: limit, ..shell("trap 'echo bye; exit 0' TERM; sleep 600 & wait") });
    assert_eq!((polite.outcome, polite.stdout), (Outcome::TimeLimit, b"bye\n".to_vec()));
    let grace = Duration::from_millis(200);
    let deaf = run(Launch { time_limit: limit, grace, ..shell("trap '' TERM; while :; do sleep 600; done") });
    assert_eq!(deaf.outcome, Outcome::TimeLimit);
    assert!(deaf.wall_us >= 2_200_000, "{}", deaf.wall_us);
}

#[test]
fn memory_limit_ends_a_program_that_holds_too_much() {
    // With a command after `sleep` the shell does not exec it, and keeps its memory.
    let hog = "x=$(head -c 80000000 /dev/zero | tr '\\0' 'x'); sleep 600; :";
    let exit = run(Launch { memory_limit_bytes: 40_000_000, ..shell(hog) });
    assert_eq!(exit.outcome, Outcome::MemoryLimit);
    let of_child = run(Launch { memory_limit_bytes: 40_000_000, ..shell(&format!("({hog}) & wait")) });
    assert_eq!(of_child.outcome, Outcome::MemoryLimit);
    assert!(of_child.peak_memory_bytes > 40_000_000, "{}", of_child.peak_memory_bytes);
    let small = run(Launch { memory_limit_bytes: 400_000_000, ..shell("sleep 0.5") });
    assert_eq!(small.outcome, Outcome::Code(0));
}

#[test]
fn killed_task_is_told_as_killed() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    bench.spawner.launch(launch(7, &["sleep", "600"]));
    bench.spawner.launch(launch(8, &["mkfifo", fifo.to_str().unwrap()]));
    assert_eq!(bench.next().token, 8);
    bench.spawner.kill(7, PATIENCE);
    bench.spawner.kill(99, PATIENCE);
    let exit = bench.next();
    assert_eq!((exit.token, exit.outcome), (7, Outcome::Killed));
}

#[test]
fn what_a_program_leaves_in_its_group_is_killed() {
    let exit = run(shell("sleep 600 & echo $!"));
    assert_eq!(exit.outcome, Outcome::Code(0));
    wait_until_gone(&String::from_utf8(exit.stdout).unwrap());
}

#[test]
fn dropping_the_spawner_kills_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let bench = Bench::new();
    bench.spawner.launch(launch(1, &["mkfifo", fifo.to_str().unwrap()]));
    assert_eq!(bench.next().outcome, Outcome::Code(0));
    bench.spawner.launch(shell(&format!("echo $$ > {}; sleep 600", fifo.display())));
    let pid = fs::read_to_string(&fifo).unwrap();
    drop(bench);
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
}

fn start_failure(launch: Launch) -> (String, bool) {
    match run(launch).outcome {
        Outcome::StartFailed { what, node } => (what, node),
        other => panic!("{other:?}"),
    }
}

#[test]
fn program_that_is_not_there_is_not_the_nodes_fault() {
    let missing = start_failure(launch(1, &["no-such-program"]));
    assert_eq!(missing, ("program \"no-such-program\" is in no folder of PATH".into(), false));
    let missing = start_failure(launch(1, &["/no/such"]));
    assert_eq!(missing, ("\"/no/such\": No such file or directory".into(), false));
    assert_eq!(start_failure(launch(1, &["/tmp"])), ("\"/tmp\" is a folder".into(), false));
    let plain = start_failure(launch(1, &["/etc/passwd"]));
    assert_eq!(plain, ("\"/etc/passwd\" is not executable: Permission denied".into(), false));
    assert_eq!(start_failure(launch(1, &[])), ("the command is empty".into(), false));
    assert_eq!(start_failure(launch(1, &["a\0b"])), ("an argument holds a NUL character".into(), false));
    let stdin = start_failure(Launch { stdin: Some("/no/such".into()), ..shell("") });
    assert_eq!(stdin, ("standard input \"/no/such\": No such file or directory".into(), false));
}

#[test]
fn folder_that_is_not_there_is_the_nodes_fault() {
    let missing = start_failure(Launch { cwd: Some("/no/such".into()), ..shell("") });
    assert_eq!(missing, ("folder \"/no/such\": No such file or directory".into(), true));
}

#[test]
fn folder_is_made_if_so_wished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let exit = run(Launch { cwd: Some(path.clone()), makes_cwd: true, ..shell("echo x > here") });
    assert_eq!((exit.outcome, path.join("here").exists()), (Outcome::Code(0), true));
    let file = Some(path.join("here/c"));
    let (what, node) = start_failure(Launch { cwd: file, makes_cwd: true, ..shell("") });
    assert!(what.ends_with("Not a directory") && node, "{what}");
}

#[test]
fn missing_interpreter_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (what, node) = start_failure(launch(1, &[script.to_str().unwrap()]));
    assert!(
        what.ends_with("its first line names \"/no/such/interpreter\", which does not exist") && !node,
        "{what}"
    );
}

#[test]
fn script_without_interpreter_line_is_run_by_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("script"), "echo \"$1\"\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path().join("script"), mode).unwrap();
    let script = Launch { cwd: Some(folder.path().into()), ..launch(1, &["./script", "hello"]) };
    assert_eq!(run(script).stdout, b"hello\n");
}

#[test]
fn program_that_moved_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    std::os::unix::fs::symlink("/bin/true", a.join("tool")).unwrap();
    let path = CString::new(format!("PATH={}:{}", a.display(), b.display())).unwrap();
    let tool = || Launch {
        environment: Environment { shared: Arc::new(vec![path.clone()]), own: Vec::new() },
        ..launch(1, &["tool"])
    };
    let bench = Bench::new();
    bench.spawner.launch(tool());
    assert_eq!(bench.next().outcome, Outcome::Code(0));
    fs::remove_file(a.join("tool")).unwrap();
    std::os::unix::fs::symlink("/bin/false", b.join("tool")).unwrap();
    bench.spawner.launch(tool());
    assert_eq!(bench.next().outcome, Outcome::Code(1));
}

#[test]
fn task_is_bound_to_its_cpus() {
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let line = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let last: usize = line.rsplit([',', '-']).next().unwrap().parse().unwrap();
    let exit = run(Launch { cpus: vec![last], ..shell("grep Cpus_allowed_list /proc/self/status") });
    assert_eq!(String::from_utf8(exit.stdout).unwrap(), format!("Cpus_allowed_list:\t{last}\n"));
}

#[test]
fn many_at_once_each_end_once() {
    let bench = Bench::new();
    for token in 0..200 {
        bench.spawner.launch(launch(token, &["/bin/sh", "-c", "exit $0", &(token % 50).to_string()]));
    }
    let mut exits: Vec<_> = (0..200).map(|_| bench.next()).collect();
    exits.sort_by_key(|exit| exit.token);
    for (token, exit) in (0..200).zip(&exits) {
        assert_eq!((exit.token, &exit.outcome), (token, &Outcome::Code(token as i32 % 50)));
    }
}

fn ask(token: u64, program: &str, question: &str) -> Ask {
    let launch = Arc::new(launch(0, &["/bin/sh", "-c", program]));
    Ask { token, resident: 5, launch, question: question.into(), time_limit: None }
}

fn ends(bench: &Bench, n: usize) -> Vec<(u64, Outcome, String)> {
    let ends = (0..n).map(|_| bench.next());
    ends.map(|exit| (exit.token, exit.outcome, String::from_utf8(exit.stdout).unwrap())).collect()
}

/// Answers with a count of its tasks, and with the question as the exit code.
const COUNTING: &str = r#"while read q; do
    case $q in die) exit 9;; bad) echo what?; continue;; mute) exec >&-; sleep 600;; hang) sleep 600;; esac
    n=$((n+1)); echo "{\"exit_code\": $q, \"output\": \"answer $n\"}"; done"#;

#[test]
fn resident_program_is_started_once_and_asked_many_times() {
    let bench = Bench::new();
    for token in 0..100 {
        bench.spawner.ask(ask(token, COUNTING, &token.to_string()));
    }
    for (n, (token, outcome, output)) in ends(&bench, 100).into_iter().enumerate() {
        assert_eq!(
            (token, outcome, output),
            (n as u64, Outcome::Code(n as i32), format!("answer {}", n + 1))
        );
    }
}

#[test]
fn resident_that_dies_fails_only_the_task_it_was_at() {
    let bench = Bench::new();
    for (token, question) in ["0", "die", "2", "bad", "4"].into_iter().enumerate() {
        bench.spawner.ask(ask(token as u64, COUNTING, question));
    }
    let ends = ends(&bench, 5);
    assert_eq!(ends[0], (0, Outcome::Code(0), "answer 1".into()));
    assert_eq!(ends[1].1, Outcome::Code(9));
    assert_eq!(ends[2], (2, Outcome::Code(2), "answer 1".into()));
    assert!(matches!(&ends[3].1, Outcome::BadAnswer { what } if what.contains("what?")), "{ends:?}");
    assert_eq!(ends[4], (4, Outcome::Code(4), "answer 1".into()));
}

#[test]
fn resident_that_takes_too_long_is_started_anew() {
    let bench = Bench::new();
    bench.spawner.ask(Ask { time_limit: Some(Duration::from_millis(200)), ..ask(0, COUNTING, "hang") });
    bench.spawner.ask(ask(1, COUNTING, "1"));
    bench.spawner.ask(ask(2, COUNTING, "mute"));
    let ends = ends(&bench, 3);
    assert_eq!(ends[0].1, Outcome::TimeLimit);
    assert_eq!(ends[1], (1, Outcome::Code(1), "answer 1".into()));
    assert!(matches!(&ends[2].1, Outcome::BadAnswer { what } if what.contains("closed")), "{ends:?}");
}

#[test]
fn task_of_a_resident_can_be_killed_and_the_next_one_goes_on() {
    let bench = Bench::new();
    for (token, question) in ["hang", "1", "2"].into_iter().enumerate() {
        bench.spawner.ask(ask(token as u64, COUNTING, question));
    }
    bench.spawner.kill(1, Duration::ZERO);
    bench.spawner.kill(0, Duration::ZERO);
    let ends = ends(&bench, 3);
    assert_eq!((ends[0].0, &ends[0].1), (0, &Outcome::Killed));
    assert_eq!((ends[1].0, &ends[1].1), (1, &Outcome::Killed));
    assert_eq!(ends[2], (2, Outcome::Code(2), "answer 1".into()));
}

/// Returns a named pipe in its own folder: a reader waits until it is written to.
fn gate() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    (folder, path)
}

#[test]
fn programs_for_one_slot_run_one_after_the_other() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let script = format!("cd {} && mkdir lock && mkdir $$ && rmdir lock", folder.path().display());
    for token in 0..50 {
        bench.spawner.launch(Launch { token, slot: 2, ..shell(&script) });
    }
    let tokens: Vec<u64> = ends(&bench, 50)
        .into_iter()
        .map(|(token, outcome, _)| {
            assert_eq!(outcome, Outcome::Code(0), "two at a time");
            token
        })
        .collect();
    assert_eq!(tokens, (0..50).collect::<Vec<_>>());
}

#[test]
fn withdrawn_program_does_not_begin_and_one_that_runs_goes_on() {
    let bench = Bench::new();
    let (folder, gate) = gate();
    let waits = format!("cat {}", gate.display());
    let begins = format!("echo x > {}/begun", folder.path().display());
    bench.spawner.launch(Launch { token: 0, slot: 2, ..shell(&waits) });
    bench.spawner.launch(Launch { token: 1, slot: 2, ..shell(&begins) });
    bench.spawner.launch(Launch { token: 2, slot: 2, ..shell("exit 4") });
    bench.spawner.withdraw(1);
    bench.spawner.withdraw(0);
    assert_eq!(ends(&bench, 1), [(1, Outcome::Killed, String::new())]);
    fs::write(gate, "now").unwrap();
    assert_eq!(ends(&bench, 2), [(0, Outcome::Code(0), "now".into()), (2, Outcome::Code(4), String::new())]);
    assert!(!folder.path().join("begun").exists());
}

#[test]
fn question_that_is_taken_back_is_not_worked_on() {
    let bench = Bench::new();
    let (folder, gate) = gate();
    let program = format!(
        "cd {}; while read q; do [ $q = 0 ] && read x < {}; echo $q >> asked; echo \"{{\\\"exit_code\\\": $q}}\"; done",
        folder.path().display(),
        gate.display()
    );
    for token in 0..3 {
        bench.spawner.ask(ask(token, &program, &token.to_string()));
    }
    bench.spawner.withdraw(1);
    bench.spawner.withdraw(0);
    assert_eq!(ends(&bench, 1), [(1, Outcome::Killed, String::new())]);
    fs::write(gate, "now\n").unwrap();
    let rest = [(0, Outcome::Code(0), String::new()), (2, Outcome::Code(2), String::new())];
    assert_eq!(ends(&bench, 2), rest);
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    assert!(asked.ends_with("2\n"), "{asked:?}");
}

#[test]
fn questions_longer_than_a_pipe_holds_all_arrive() {
    let bench = Bench::new();
    let program = r#"while read q; do echo "{\"exit_code\": ${#q}}"; done"#;
    let question = "x".repeat(30_000);
    for token in 0..10 {
        bench.spawner.ask(ask(token, program, &question));
    }
    assert!(ends(&bench, 10).iter().all(|(_, outcome, _)| *outcome == Outcome::Code(30_000)));
}

#[test]
fn stopped_resident_ends_and_what_it_was_asked_is_killed() {
    let bench = Bench::new();
    bench.spawner.ask(ask(0, COUNTING, "hang"));
    bench.spawner.ask(ask(1, COUNTING, "1"));
    bench.spawner.stop_resident(5);
    assert!(ends(&bench, 2).iter().all(|(_, outcome, _)| *outcome == Outcome::Killed));
    bench.spawner.ask(ask(2, COUNTING, "2"));
    assert_eq!(ends(&bench, 1), [(2, Outcome::Code(2), "answer 1".into())]);
}

#[test]
fn resident_program_that_does_not_start_fails_all_it_was_asked() {
    let bench = Bench::new();
    let nothing = Arc::new(launch(0, &["no-such-program"]));
    bench.spawner.ask(Ask { launch: nothing, ..ask(3, "", "1") });
    assert!(matches!(bench.next().outcome, Outcome::StartFailed { node: false, .. }));
}

#[test]
fn program_ends_with_the_thread_that_started_it() {
    // Stands for a killed agent: no code of the spawner ends the program.
    let start = || {
        let mut processes = super::Processes::new(None).unwrap();
        let launch = shell("sleep 600");
        let prepared = super::prepare::Prepared::new(&launch, &mut processes.pipes);
        let role = super::child::Role::Task { token: 1 };
        let pid = processes.begin(launch, prepared.ok().unwrap(), role, std::time::Instant::now());
        std::mem::forget(processes);
        pid.ok().unwrap()
    };
    let pid = std::thread::spawn(start).join().unwrap();
    wait_until_gone(&pid.to_string());
    let mut status = 0;
    // SAFETY: a child of this process; the status is a local.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL, "{status}");
}

mod denied;
mod families;
mod stuck;
