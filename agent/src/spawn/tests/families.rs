//! Ending a program also ends all processes that it has started.

use std::{ffi::CString, path::PathBuf, sync::Arc, time::Duration};

use super::{Bench, Launch, Outcome, PATIENCE, ask, fs, is_alive, launch, shell};
use crate::spawn::Ask;

/// A fifo by which programs send their process ids.
struct Names {
    folder: tempfile::TempDir,
}

impl Names {
    fn new(bench: &Bench) -> Names {
        let names = Names { folder: tempfile::tempdir().unwrap() };
        bench.spawner.launch(launch(0, &["mkfifo", names.path().to_str().unwrap()]));
        assert_eq!(bench.next().outcome, Outcome::Code(0));
        names
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("names")
    }

    /// Returns a shell script that sends its process id and ignores SIGTERM.
    fn deaf(&self) -> String {
        format!(
            "sh -c \"trap '' TERM; echo \\$\\$ > {}; while :; do sleep 600; done\"",
            self.path().display()
        )
    }

    /// Returns a program in the environment of a task that runs in this slot of the test's own pilot.
    fn task(&self, token: u64, slot: usize, script: &str) -> Launch {
        let mut task = Launch { token, slot, ..shell(script) };
        let keepers = format!("PILOTFISH_KEEPERS={}", self.folder.path().display());
        let marks = [keepers, format!("PILOTFISH_SLOT={slot}")].map(|mark| CString::new(mark).unwrap());
        task.environment.own.extend(marks);
        task
    }

    fn next(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }
}

/// Returns whether a program that the script starts is alive after the script's process was ended.
fn outlives(script: impl Fn(&Names) -> String) -> bool {
    let bench = Bench::new();
    let names = Names::new(&bench);
    bench.spawner.launch(names.task(7, 0, &script(&names)));
    let pid = names.next();
    bench.spawner.kill(7, Duration::from_millis(50));
    assert_eq!(bench.next().outcome, Outcome::Killed);
    let is_left = is_alive(&pid);
    if is_left {
        kill(&pid);
    }
    is_left
}

/// Kills a process that a test may have left.
fn kill(pid: &str) {
    // SAFETY: the test's own descendant; no memory is passed.
    unsafe { libc::kill(pid.trim().parse().unwrap(), libc::SIGKILL) };
}

#[test]
fn ended_task_takes_groups_of_their_own_with_it() {
    assert!(!outlives(|names| format!("timeout 600 {}; true", names.deaf())));
    assert!(!outlives(|names| format!("set -m; {} & wait", names.deaf())));
}

#[test]
fn ended_task_takes_sessions_of_their_own_with_it() {
    assert!(!outlives(|names| format!("setsid {} & wait", names.deaf())));
    assert!(!outlives(|names| format!("env -i setsid {} & wait", names.deaf())));
}

#[test]
fn ended_task_takes_what_was_orphaned_with_it() {
    assert!(!outlives(|names| format!("(setsid {} &) ; sleep 600", names.deaf())));
}

#[test]
fn time_limit_takes_all_too_and_asks_first() {
    let bench = Bench::new();
    let names = Names::new(&bench);
    // It may get SIGTERM twice, also from `timeout`, and answers once.
    let polite = format!(
        "trap 'trap \"\" TERM; echo bye; exit' TERM; echo $$ > {}; while :; do sleep 600 & wait; done",
        names.path().display()
    );
    fs::write(names.folder.path().join("polite"), polite).unwrap();
    let script = format!("trap '' TERM; timeout 600 sh {}/polite; true", names.folder.path().display());
    let limit = Some(Duration::from_secs(5));
    bench.spawner.launch(Launch { time_limit: limit, grace: PATIENCE * 2, ..names.task(7, 0, &script) });
    let (pid, exit) = (names.next(), bench.next());
    assert_eq!((exit.outcome, exit.stdout), (Outcome::TimeLimit, b"bye\n".to_vec()));
    assert!(!is_alive(&pid));
}

#[test]
fn ended_task_takes_nothing_of_others() {
    let bench = Bench::new();
    let names = Names::new(&bench);
    let script = format!("(setsid {} &) ; sleep 600", names.deaf());
    bench.spawner.launch(names.task(1, 1, &script));
    let others = names.next();
    bench.spawner.launch(names.task(2, 2, &script));
    let own = names.next();
    bench.spawner.kill(2, Duration::ZERO);
    assert_eq!((bench.next().token, is_alive(&own), is_alive(&others)), (2, false, true));
    bench.spawner.kill(1, Duration::ZERO);
    assert_eq!((bench.next().token, is_alive(&others)), (1, false));
}

#[test]
fn resident_begins_again_when_its_family_is_gone() {
    let bench = Bench::new();
    let names = Names::new(&bench);
    let program = format!(
        "(setsid {} &); while read q; do test $q = hang && sleep 600; echo '{{\"exit_code\": 0}}'; done",
        names.deaf()
    );
    let resident = Arc::new(names.task(0, 0, &program));
    let ask = |token, question: &str| Ask { launch: Arc::clone(&resident), ..ask(token, "", question) };
    bench.spawner.ask(ask(1, "hang"));
    let first = names.next();
    bench.spawner.ask(ask(2, "go"));
    bench.spawner.kill(1, PATIENCE);
    let (second, one, two) = (names.next(), bench.next(), bench.next());
    assert_eq!((one.outcome, two.outcome), (Outcome::Killed, Outcome::Code(0)));
    assert!(!is_alive(&first) && is_alive(&second));
    bench.spawner.stop_resident(5);
    // The guard ends the processes of a program that ended by itself.
    kill(&second);
}
