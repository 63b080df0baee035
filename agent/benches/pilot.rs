//! A whole pilot, with core and HTTP, against a manager with prepared answers: tasks per second and the
//! agent's own CPU time per task, for processes and for a resident program.
//!
//! `cargo bench -p agent --bench pilot`. Compare the first number with the floor in the bench `spawn`.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Instant,
};

use protocol::{
    codec::Format,
    job::{CommandLine, JobSpec},
    pilot::{JoinDocument, LeaveAnswer, PullRequest, RegisterAnswer},
};
use scheduler::{
    ids::{JobId, PilotId},
    pull::{Bundle, Part, PilotCommand, PullAnswer, Registered, TaskNeeds, Template},
    ranges::TaskSet,
    resources::Resources,
    time::Span,
};

const RESIDENT: &str = r#"while read q; do echo '{"exit_code":0}'; done"#;

fn main() {
    let program = CommandLine::Args(vec!["/bin/true".into()]);
    measure("process", &JobSpec::new(program, "/tmp".into()), 5000);
    let mut resident = JobSpec::new(CommandLine::Shell(RESIDENT.into()), "/tmp".into());
    resident.resident = true;
    measure("resident shell loop", &resident, 50_000);
}

fn measure(name: &str, spec: &JobSpec, n_tasks: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let folder = std::env::temp_dir().join(format!("pilotfish-bench-{}", std::process::id()));
    let join = JoinDocument {
        url: format!("http://{}", listener.local_addr().expect("an address")),
        folder: folder.display().to_string(),
        capacity: Some(Resources::cores(2)),
        ..JoinDocument::default()
    };
    // SAFETY: the process has one thread; the child becomes a guard and a worker.
    let guard = unsafe { libc::fork() };
    if guard == 0 {
        let started = Instant::now();
        let code = agent::guard::keeper::guard(move || {
            let result = agent::driver::run(join, started);
            println!("    own CPU: {:.1} µs a task ({result:?})", own_cpu_us() / n_tasks as f64);
            0
        });
        std::process::exit(code.unwrap_or(1));
    }
    let manager =
        Arc::new(Manager { spec: spec.clone(), n_tasks, n_done: Mutex::new(0), all_done: Condvar::new() });
    let serving = Arc::clone(&manager);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let manager = Arc::clone(&serving);
            thread::spawn(move || serve(socket, &manager));
        }
    });
    let started = Instant::now();
    manager.wait();
    println!("{name}: {:.0} tasks/s", n_tasks as f64 / started.elapsed().as_secs_f64());
    // SAFETY: no memory is passed.
    unsafe { libc::waitpid(guard, std::ptr::null_mut(), 0) };
    // The pilot has emptied the folder.
    let _ = fs::remove_dir(folder);
}

struct Manager {
    spec: JobSpec,
    n_tasks: u64,
    n_done: Mutex<u64>,
    all_done: Condvar,
}

impl Manager {
    fn wait(&self) {
        let done = self.n_done.lock().expect("no panic");
        drop(self.all_done.wait_while(done, |done| *done < self.n_tasks).expect("no panic"));
    }

    fn pull(&self, request: &PullRequest) -> PullAnswer {
        let pull = &request.pull;
        let mut part = Part { number: pull.part_seen + 1, ..Part::default() };
        if let Some(report) = &pull.report {
            let n: u64 =
                report.jobs.iter().map(|job| job.successes.tasks.len() + job.failures.len() as u64).sum();
            *self.n_done.lock().expect("no panic") += n;
            self.all_done.notify_all();
            return PullAnswer { epoch: 1, acknowledged: report.seq, ..PullAnswer::default() };
        }
        if pull.part_seen == 0 {
            let needs = TaskNeeds {
                resources: Resources::cores(1),
                time_limit: None,
                success_codes: vec![0],
                ..TaskNeeds::default()
            };
            let spec = serde_json::to_string(&self.spec).expect("JSON");
            part.templates.push(Template { job: JobId(1), needs, spec });
            part.bundles.push(Bundle {
                job: JobId(1),
                tasks: TaskSet::from(0..self.n_tasks),
                tried: vec![],
                is_given: false,
            });
        } else {
            self.wait();
            part.commands.push(PilotCommand::Drain);
        }
        PullAnswer { epoch: 1, parts: vec![part], ..PullAnswer::default() }
    }
}

fn serve(mut socket: TcpStream, manager: &Manager) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    let mut more = |bytes: &mut Vec<u8>, socket: &mut TcpStream| match socket.read(&mut buffer) {
        Ok(n) if n > 0 => {
            bytes.extend_from_slice(&buffer[..n]);
            true
        }
        _ => false,
    };
    loop {
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if !more(&mut bytes, &mut socket) {
                return;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
        while bytes.len() < end + length {
            if !more(&mut bytes, &mut socket) {
                return;
            }
        }
        let body: Vec<u8> = bytes.drain(..end + length).skip(end).collect();
        let answer = match head.split(' ').nth(1) {
            Some("/pilot/v1/register") => Format::Postcard.encode(&RegisterAnswer {
                registered: Registered {
                    pilot: PilotId(1),
                    acknowledged: 0,
                    platform: String::new(),
                    session: 0,
                },
                session: "session".into(),
                poll_wait: Span::from_secs(60),
                platform: String::new(),
            }),
            Some("/pilot/v1/pull") => {
                Format::Postcard.encode(&manager.pull(&Format::Postcard.decode(&body).expect("a pull")))
            }
            _ => Format::Postcard.encode(&LeaveAnswer {}),
        };
        let answer = answer.expect("postcard");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        if socket.write_all(&[head.as_bytes(), &answer].concat()).is_err() {
            return;
        }
    }
}

fn own_cpu_us() -> f64 {
    // SAFETY: zeroed is a valid `rusage`, and the pointer is to a local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    us(usage.ru_utime) + us(usage.ru_stime)
}
