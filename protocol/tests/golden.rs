//! Each message of the pilot protocol, version 1, as bytes and as JSON. What is written here once
//! is read for ever: a difference means that pilots in the field are not understood any more.

use protocol::{
    codec::{CodecError, Format},
    pilot::{
        LeaveRequest, PullRequest, RegisterAnswer, RegisterRequest, Tail, TailsAnswer, TailsRequest, Wanted,
    },
};
use scheduler::{
    digest::Digest,
    ids::{JobId, PilotId},
    pull::{
        Bundle, Effort, Held, Holdings, LeaveReason, MovedBytes, NodeFacts, Part, PilotCommand, Pull,
        PullAnswer, Registered, Registration, Staging, Tally, TaskNeeds, Template,
    },
    ranges::TaskSet,
    resources::Resources,
    results::{Failure, FailureKind, JobReport, OutputFile, Report, Successes, TaskFiles, TaskOutput, Usage},
    time::Span,
};
use serde::{Serialize, de::DeserializeOwned};

fn resources() -> Resources {
    Resources { cores: 4, memory_bytes: 8 << 30, gpus: 1, generic: [("licence".into(), 2)].into(), widest: 0 }
}

fn register() -> RegisterRequest {
    let node = NodeFacts {
        hostname: "node17".into(),
        rank: 3,
        capacity: resources(),
        batch_id: Some("4711".into()),
        walltime_left: Some(Span::from_secs(3600)),
        agent_version: "0.1.0".into(),
    };
    let registration = Registration {
        tag: "pf1-2".into(),
        nonce: 99,
        node,
        uptime: Span::from_millis(12),
        predecessor: None,
    };
    RegisterRequest { version: 1, registration }
}

fn registered() -> RegisterAnswer {
    let registered = Registered { pilot: PilotId(7), acknowledged: 3, platform: String::new(), session: 0 };
    let (session, poll_wait) = ("pfs_7.abc".into(), Span::from_secs(25));
    // Since 2026-12: see the test of it.
    RegisterAnswer { registered, session, poll_wait, platform: String::new() }
}

fn report() -> Report {
    let usage = Usage { started_us: 5_000, wall_us: 1_500_000, cpu_us: 1_400_000, memory_bytes: 3 << 20 };
    let failures = vec![
        Failure { index: 12, kind: FailureKind::Exit { code: 3 }, usage },
        Failure { index: 13, kind: FailureKind::TimeLimit { limit: Span::from_secs(60) }, usage },
        Failure { index: 14, kind: FailureKind::Node { what: "no space left".into() }, usage },
        Failure { index: 15, kind: FailureKind::BadAnswer { what: "expected".into() }, usage },
        Failure { index: 16, kind: FailureKind::Transfer { what: "no answer".into() }, usage },
        Failure { index: 17, kind: FailureKind::OutputMissing { file: "out".into() }, usage },
    ];
    let job = JobReport {
        job: JobId(1),
        successes: Successes::from_attempts(vec![(10, 0, usage), (11, 2, usage)]),
        failures,
        returned: TaskSet::from(20..30),
        outputs: vec![TaskOutput { index: 10, stdout: b"pi\n".to_vec(), stderr: Vec::new() }],
        files: vec![TaskFiles {
            index: 10,
            files: vec![OutputFile {
                to: "out/10".into(),
                sha256: Digest([7; 32]),
                bytes: 9,
                ..OutputFile::default()
            }],
        }],
        given: vec![(PilotId(9), TaskSet::from(34..40))],
    };
    Report { seq: 4, jobs: vec![job] }
}

fn pull() -> PullRequest {
    let held = Held {
        job: JobId(1),
        queued: TaskSet::from(40..1_000_000_000),
        running: TaskSet::from(30..34),
        unreported: TaskSet::from(10..15),
    };
    let pull = Pull {
        epoch: 5,
        part_seen: 2,
        report: Some(report()),
        holds: Some(Holdings { asked: 8, tasks: vec![held], templates: vec![JobId(1)] }),
        running: vec![(JobId(1), TaskSet::from(30..34))],
        efforts: vec![Effort { job: JobId(1), n: 4, io_bytes: 1 << 30, prepared_us: 900 }],
        moved: vec![(JobId(1), MovedBytes { cached: 7, from_manager: 5, ..MovedBytes::default() })],
        is_hungry: true,
        wait: Span::from_secs(25),
        session_nonce: None,
        // Since 2026-12 and only where there is any: see the test of it.
        starved: Vec::new(),
        tally: None,
    };
    PullRequest { pilot: PilotId(7), pull }
}

fn answer() -> PullAnswer {
    let needs = TaskNeeds {
        resources: resources(),
        time_limit: Some(Span::from_secs(60)),
        success_codes: vec![0, 2],
        staging: Staging { inputs: true, outputs: false },
    };
    let part = Part {
        number: 3,
        templates: vec![Template { job: JobId(1), needs, spec: "{\"name\":\"sweep\"}".into() }],
        bundles: vec![Bundle {
            job: JobId(1),
            tasks: TaskSet::from(100..200),
            tried: vec![(150, 2)],
            is_given: false,
        }],
        commands: vec![
            PilotCommand::Return { job: JobId(2), tasks: TaskSet::from(0..5) },
            PilotCommand::Kill { job: JobId(3), tasks: TaskSet::from(1..2) },
            PilotCommand::Forget { job: JobId(4) },
            PilotCommand::Drain,
            PilotCommand::Stop,
        ],
    };
    PullAnswer { epoch: 5, acknowledged: 4, resync: Some(9), told: 8, parts: vec![part] }
}

fn leave() -> LeaveRequest {
    LeaveRequest { pilot: PilotId(7), report: None, reason: LeaveReason::Walltime }
}

fn tails() -> TailsRequest {
    let written = TaskOutput { index: 3, stdout: b"step 1\n".to_vec(), stderr: b"\xff".to_vec() };
    let tail = Tail { job: JobId(4), attempt: 1, run: 9, stdout_at: 70, stderr_at: 0, written };
    TailsRequest { pilot: PilotId(7), n_reports: 12, tails: vec![tail] }
}

/// The message reads back from both forms, and both forms are those of the golden files.
fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, message: &T) {
    let bytes = Format::Postcard.encode(message).expect("it is written");
    let json = Format::Json.encode(message).expect("it is written");
    assert_eq!(&Format::Postcard.decode::<T>(&bytes).expect("it is read"), message);
    assert_eq!(&Format::Json.decode::<T>(&json).expect("it is read"), message);

    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let value: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
    let pretty = serde_json::to_string_pretty(&value).expect("it is JSON");
    let path = format!("{}/golden/pilot-v1/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = format!("{hex}\n{pretty}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(format!("{}/golden/pilot-v1", env!("CARGO_MANIFEST_DIR"))).expect("a folder");
        std::fs::write(&path, &text).expect("the golden file is written");
    }
    assert_eq!(text, std::fs::read_to_string(&path).expect("there is a golden file"), "{name} has changed");
}

#[test]
fn messages_of_version_1_are_what_they_always_were() {
    check("register", &register());
    check("registered", &registered());
    check("pull", &pull());
    check("answer", &answer());
    check("leave", &leave());
    // Since 2026-11: nobody who does not know it is told so.
    check("offer", &PilotCommand::Offer { cores: 6 });
    check("show", &PilotCommand::Show);
    check("give", &PilotCommand::Give { to: PilotId(9) });
    check("tails", &tails());
    let wanted = Wanted { watch: 3, job: JobId(4), tasks: Some(TaskSet::from(0..5)) };
    check("tails-answer", &TailsAnswer { is_void: false, wanted: vec![wanted] });
}

#[test]
fn managers_name_the_platform_and_those_of_before_do_not() {
    let told = RegisterAnswer { platform: "cluster".into(), ..registered() };
    for format in [Format::Postcard, Format::Json] {
        let (with, without) = (format.encode(&told).unwrap(), format.encode(&registered()).unwrap());
        assert_eq!(format.decode::<RegisterAnswer>(&with).unwrap(), told);
        assert_eq!(format.decode::<RegisterAnswer>(&without).unwrap(), registered());
    }
}

#[test]
fn pilots_tell_of_starved_tasks_and_those_of_before_do_not() {
    let mut told = pull();
    told.pull.starved = vec![(JobId(1), 1_950_000)];
    for format in [Format::Postcard, Format::Json] {
        let (with, without) = (format.encode(&told).unwrap(), format.encode(&pull()).unwrap());
        assert!(with.len() > without.len());
        assert_eq!(format.decode::<PullRequest>(&with).unwrap(), told);
        assert!(format.decode::<PullRequest>(&without).unwrap().pull.starved.is_empty());
    }
}

#[test]
fn pilots_tell_what_they_believe_and_those_of_before_do_not() {
    let mut told = pull();
    told.pull.tally = Some(Tally { number: 7, acknowledged: 3, n_held: 12 });
    for format in [Format::Postcard, Format::Json] {
        assert_eq!(format.decode::<PullRequest>(&format.encode(&told).unwrap()).unwrap(), told);
    }
    // The message ended before the times of starved tasks, or after them.
    let mut of_before = Format::Postcard.encode(&pull()).unwrap();
    assert_eq!(Format::Postcard.decode::<PullRequest>(&of_before).unwrap(), pull());
    assert_eq!(of_before.pop(), Some(0));
    assert_eq!(Format::Postcard.decode::<PullRequest>(&of_before).unwrap(), pull());
}

#[test]
fn no_cut_or_flipped_message_makes_the_reader_panic() {
    let bytes = Format::Postcard.encode(&pull()).expect("it is written");
    // The last byte is of a field that may be absent.
    for length in 0..bytes.len() - 1 {
        let cut = Format::Postcard.decode::<PullRequest>(&bytes[..length]);
        assert!(matches!(cut, Err(CodecError::Postcard { .. })), "{length} bytes were read as a message");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            // It may still be a message; it must only not be the end of us.
            drop(Format::Postcard.decode::<PullRequest>(&flipped));
        }
    }
}

#[test]
fn a_thousand_tasks_travel_in_tens_of_bytes() {
    let bundle =
        Bundle { job: JobId(1), tasks: TaskSet::from(123_000..124_000), tried: vec![], is_given: false };
    assert!(Format::Postcard.encode(&bundle).expect("it is written").len() < 16);
}

/// What is said of outputs since 2026-12 has no place of its own in messages.
#[test]
fn outputs_that_are_executable_or_left_out_stand_where_former_pilots_say_less() {
    let plain =
        OutputFile { to: "a".into(), sha256: Digest([7; 32]), bytes: 9, executable: false, left_out: None };
    for (executable, left_out) in [(false, None), (true, None), (false, Some("it\nleads out".to_owned()))] {
        let file = OutputFile { executable, left_out, ..plain.clone() };
        let message = TaskFiles { index: 1, files: vec![file, plain.clone()] };
        for format in [Format::Postcard, Format::Json] {
            let bytes = format.encode(&message).expect("it is written");
            assert_eq!(format.decode::<TaskFiles>(&bytes).expect("it is read"), message);
        }
    }
    let of_former_pilots = ("a", Digest([7; 32]), 9_u64);
    let bytes = Format::Postcard.encode(&of_former_pilots).expect("it is written");
    assert_eq!(Format::Postcard.decode::<OutputFile>(&bytes).expect("it is read"), plain);
    assert_eq!(Format::Postcard.encode(&plain).expect("it is written"), bytes);
    let json = format!("{{\"to\": \"a\", \"sha256\": \"{}\", \"bytes\": 9}}", Digest([7; 32]));
    assert_eq!(Format::Json.decode::<OutputFile>(json.as_bytes()).expect("it is read"), plain);
}
