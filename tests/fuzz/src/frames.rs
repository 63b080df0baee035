//! What pilots send: bytes, decoded, and taken by the engine of a manager at work. A hostile pilot has a
//! session of its own and may say anything with it.

use protocol::{
    codec::Format,
    pilot::{LeaveRequest, PullRequest, RegisterRequest, VERSION},
};
use scheduler::{
    engine::interface::{Caller, Event, JobChange},
    ids::{JobId, PilotId},
    pull::{Held, Holdings, LeaveReason, Pull},
    ranges::TaskSet,
    time::Span,
};

use crate::{
    Check, Target,
    bound::Bound,
    steps,
    world::{self, World},
};

/// See the module.
pub const TARGET: Target = Target {
    name: "frames",
    seeds,
    words: &[
        "\"epoch\":",
        "\"part_seen\":",
        "\"report\":",
        "\"holds\":",
        "\"running\":",
        "\"is_hungry\":",
        "\"wait\":",
        "\"queued\":",
        "\"unreported\":",
        "\"templates\":",
        "\"asked\":",
        "\"successes\":",
        "\"returned\":",
        "\"failures\":",
        "\"outputs\":",
        "\"Walltime\"",
        "\"PilotLost\"",
        "{\"Node\":{\"what\":\"\"}}",
        "18446744073709551615",
        "[0,18446744073709551615]",
        "[[0,1000]]",
        "null",
        "4294967295",
    ],
    start,
    bound: Bound { constant: 8 << 20, factor: 512 },
    n_fast: 6_000,
};

const REGISTER: u8 = 0;
const PULL: u8 = 1;
const LEAVE: u8 = 2;
const WAIT: u8 = 3;
const RESTART: u8 = 4;
const CHANGE: u8 = 5;
/// Bits of a step's kind: which message, …
const KINDS: u8 = 0x07;
/// … whether it is JSON, …
const JSON: u8 = 0x10;
/// … and who sends it.
const SECOND_PILOT: u8 = 0x20;

fn start() -> Check {
    let begun = World::new();
    Box::new(move |bytes| {
        let mut world = begun.clone();
        for (kind, step) in steps::read(bytes) {
            take(&mut world, kind, step);
        }
        world.check_records();
        world.restart();
    })
}

pub(crate) fn take(world: &mut World, kind: u8, bytes: &[u8]) {
    let format = if kind & JSON == 0 { Format::Postcard } else { Format::Json };
    // By its session; what a message says of its sender must be the same.
    let pilot = PilotId(if kind & SECOND_PILOT == 0 { 1 } else { 2 });
    match kind & KINDS {
        REGISTER => {
            let Ok(RegisterRequest { mut registration, .. }) = format.decode(bytes) else { return };
            // By its join token.
            registration.tag.clone_from(
                &world.tags[usize::try_from(registration.nonce % 8).unwrap_or(0) % world.tags.len()],
            );
            world.say(|request| Event::PilotRegistered { request, registration: Box::new(registration) });
        }
        PULL => {
            let Ok(PullRequest { pull, .. }) = format.decode(bytes) else { return };
            world.say(|request| Event::Pulled { request, pilot, pull: Box::new(pull) });
        }
        LEAVE => {
            let Ok(LeaveRequest { report, reason, .. }) = format.decode(bytes) else { return };
            world.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report, reason });
        }
        WAIT => world.wait(bytes.first().copied().unwrap_or(1).into()),
        RESTART => world.restart(),
        CHANGE => {
            let change = match bytes.first().copied().unwrap_or(0) % 6 {
                0 => JobChange::Pause,
                1 => JobChange::Resume,
                2 => JobChange::Cancel(Some(TaskSet::from(0..5))),
                3 => JobChange::Retry(Some(TaskSet::from(0..u64::MAX))),
                4 => JobChange::Cancel(None),
                _ => JobChange::Retry(None),
            };
            let caller = Caller { user: world::USER.into(), is_operator: false };
            world.say(|request| Event::JobChangeAsked { request, caller, job: JobId(1), change });
        }
        _ => {}
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let holds = |asked| {
        let held = Held {
            job: JobId(1),
            queued: TaskSet::from(20..30),
            running: TaskSet::from(12..16),
            unreported: TaskSet::from(0..4),
        };
        Some(Holdings { asked, tasks: vec![held.clone(), held], templates: vec![JobId(1)] })
    };
    let mut seeds = Vec::new();
    for (format, bit) in [(Format::Postcard, 0), (Format::Json, JSON)] {
        let pulled = |pull: Pull| {
            let message = PullRequest { pilot: PilotId(1), pull };
            (PULL | bit, format.encode(&message).expect("a message"))
        };
        let left = |report, reason| {
            let message = LeaveRequest { pilot: PilotId(1), report, reason };
            (LEAVE | bit, format.encode(&message).expect("a message"))
        };
        let running = vec![(JobId(1), TaskSet::from(8..1000))];
        let reporting = Pull { report: Some(world::report(2, 8)), running: running.clone(), ..world::pull() };
        let parked = Pull { wait: Span::from_secs(25), running, ..world::pull() };
        let registering = RegisterRequest { version: VERSION, registration: world::registration("", 3) };
        let registering = (REGISTER | bit, format.encode(&registering).expect("a message"));
        let telling = |epoch, asked| Pull { epoch, part_seen: 0, holds: holds(asked), ..world::pull() };
        let ask = Pull { epoch: 1, ..world::pull() };
        seeds.push(steps::write(&[pulled(reporting.clone()), (WAIT, vec![5]), pulled(parked.clone())]));
        seeds.push(steps::write(&[
            pulled(parked.clone()),
            (WAIT, vec![100]),
            (WAIT, vec![100]),
            pulled(ask.clone()),
        ]));
        seeds.push(steps::write(&[
            (RESTART, vec![]),
            pulled(ask),
            pulled(telling(2, 1)),
            pulled(reporting.clone()),
        ]));
        seeds.push(steps::write(&[registering.clone(), pulled(parked.clone()), registering]));
        seeds.push(steps::write(&[
            (CHANGE, vec![0]),
            pulled(reporting),
            (CHANGE, vec![4]),
            (CHANGE, vec![3]),
        ]));
        seeds.push(steps::write(&[
            left(Some(world::report(2, 8)), LeaveReason::Walltime),
            pulled(parked),
            pulled(telling(1, 1)),
        ]));
    }
    seeds
}
