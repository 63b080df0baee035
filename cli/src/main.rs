//! The `pilotfish` command: reads the command line, does what it says, and ends with an exit code.
//!
//! 0 all is well · 1 tasks failed · 2 what was given cannot be used · 3 a manager, a file or the
//! machine did not do its part · 124 `wait --timeout` · 130 interrupted · 101 a bug.

mod access;
mod arguments;
mod client;
mod commands;
mod failure;
mod follow;
mod in_process;
mod input;
mod landing;
mod progress;
mod select;
mod show;
mod staging;
mod sys;
mod view;

use std::{io::Write, process::ExitCode, time::Duration};

use adapters::transport::end_commands;
use commands::Command;
use failure::{CODE_BUG, CODE_INFRASTRUCTURE, Failure, Outcome};

/// Threads for a manager within this process and its clients; both mostly wait.
const N_WORKERS: usize = 2;

/// How long a thread of the runtime stays that has nothing to do. Where the system starts no more threads, work waits
/// for one that is there, …
const THREADS_STAY: Duration = Duration::from_secs(600);
/// … so one always is.
const THREAD_WANTED_EVERY: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    agent::node::limits::outlive_file_size();
    if let Err(error) = agent::node::limits::check_stack() {
        return end(Err(Failure::infrastructure(error.to_string())));
    }
    begin()
}

/// Apart, so that nothing of it is on the stack before that was looked at.
#[inline(never)]
fn begin() -> ExitCode {
    report_bugs_briefly();
    // Tokens are in it.
    agent::sys::private::hide_memory();
    let command = match arguments::read() {
        Ok(Command::Agent(args)) => return commands::agent::run(args),
        Ok(command) => command,
        Err(code) => return ExitCode::from(code),
    };
    // A command that only asks is done sooner without threads to hand its questions to.
    let mut threads = match command.hosts_manager() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let hosts_manager = command.hosts_manager();
    let result = match threads.worker_threads(N_WORKERS).thread_keep_alive(THREADS_STAY).enable_all().build()
    {
        Ok(runtime) => {
            if hosts_manager {
                runtime.spawn(keep_a_thread());
            }
            let result = runtime.block_on(commands::run(command, arguments::command));
            if hosts_manager {
                // Its threads drop nothing when they are left.
                end_commands();
            }
            // What still runs there serves nobody any more.
            runtime.shutdown_background();
            sys::terminal::restore();
            result
        }
        Err(error) => Err(Failure::infrastructure(format!("cannot start threads: {error}"))),
    };
    end(result)
}

/// A manager goes on where no thread can be started for a while, as long as it has one for what takes long.
async fn keep_a_thread() {
    loop {
        // It cannot fail: it does nothing.
        let _ = tokio::task::spawn_blocking(|| ()).await;
        tokio::time::sleep(THREAD_WANTED_EVERY).await;
    }
}

fn end(result: Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(outcome) => ExitCode::from(outcome.code()),
        Err(failure) => {
            show::say_lines(&failure.to_string());
            ExitCode::from(failure.code())
        }
    }
}

/// A panic is a bug of ours: one line instead of a backtrace, and an exit code of its own.
fn report_bugs_briefly() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(|place| format!(" at {}:{}", place.file(), place.line()))
            .unwrap_or_default();
        let payload = panic.payload();
        let what = payload.downcast_ref::<&str>().copied();
        let what =
            what.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        if let Some(words) = protocol::text::ulimits::of_panic(what) {
            let _ = end(Err(Failure::infrastructure(words)));
            end_commands();
            std::process::exit(CODE_INFRASTRUCTURE);
        }
        // Nobody can be told that standard error is gone.
        let _ = writeln!(
            std::io::stderr(),
            "pilotfish: this is a bug in pilotfish {}{place}: {what}; please report it with what you did",
            env!("CARGO_PKG_VERSION")
        );
        end_commands();
        std::process::exit(CODE_BUG);
    }));
}
