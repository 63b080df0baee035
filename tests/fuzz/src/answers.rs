//! What a manager answers: bytes, decoded, and taken by a pilot at work. A pilot trusts its manager with
//! what it runs, but not with its own life.

use std::collections::VecDeque;

use protocol::{
    codec::Format,
    files::objects::TakenPage,
    job::JobSpec,
    peers::PeersAnswer,
    pilot::{ErrorAnswer, LeaveAnswer, RegisterAnswer, TailsAnswer},
};
use scheduler::{
    ids::{JobId, PilotId, TaskId},
    pilot::{Ending, Lane, PilotAction, PilotCore, PilotEvent, PilotLimits},
    pull::{Bundle, Part, PilotCommand, PullAnswer, Registered, TaskNeeds, Template},
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, TaskOutput, Usage},
    time::{Span, Time},
};

use crate::{Check, Target, bound::Bound, steps, world};

/// See the module.
pub const TARGET: Target = Target {
    name: "answers",
    seeds,
    words: &[
        "\"epoch\":",
        "\"acknowledged\":",
        "\"resync\":",
        "\"told\":",
        "\"parts\":",
        "\"number\":",
        "\"templates\":",
        "\"bundles\":",
        "\"commands\":",
        "\"tried\":",
        "\"Drain\"",
        "\"Stop\"",
        "{\"Forget\":{\"job\":1}}",
        "{\"Kill\":{\"job\":1,\"tasks\":[[0,18446744073709551615]]}}",
        "[[0,18446744073709551615]]",
        "\"cores\":0",
        "18446744073709551615",
    ],
    start,
    bound: Bound { constant: 8 << 20, factor: 512 },
    n_fast: 6_000,
};

const ANSWERED: u8 = 0;
const ENDED: u8 = 1;
const REGISTERED: u8 = 2;
const SMALL: u8 = 3;
const FAILED: u8 = 4;
const WAIT: u8 = 5;
const SIGNAL: u8 = 6;
const KINDS: u8 = 0x07;
const JSON: u8 = 0x10;
const REPORT_LANE: u8 = 0x20;

/// Slots of the pilot, and so processes at a time.
const N_CORES: u32 = 4;

struct Scene {
    core: PilotCore,
    now: Time,
    /// What runs in each slot, and what waits for it.
    running: Vec<(TaskId, VecDeque<TaskId>)>,
}

fn start() -> Check {
    Box::new(|bytes| {
        let limits = PilotLimits {
            capacity: Resources::cores(N_CORES),
            walltime_end: Some(Time(3_600_000_000)),
            walltime_margin: Span::from_secs(30),
            poll_wait: Span::from_secs(25),
        };
        let mut scene = Scene { core: PilotCore::new(limits), now: Time(0), running: Vec::new() };
        for (kind, step) in steps::read(bytes) {
            scene.take(kind, step);
        }
    })
}

impl Scene {
    fn take(&mut self, kind: u8, bytes: &[u8]) {
        let format = if kind & JSON == 0 { Format::Postcard } else { Format::Json };
        let lane = if kind & REPORT_LANE == 0 { Lane::Listen } else { Lane::Report };
        let first = bytes.first().copied().unwrap_or(0);
        match kind & KINDS {
            ANSWERED => {
                let Ok(answer) = format.decode::<PullAnswer>(bytes) else { return };
                self.handle(PilotEvent::Answered { lane, answer: Box::new(answer) });
            }
            ENDED => self.end_a_task(first),
            REGISTERED => {
                let Ok(answer) = format.decode::<RegisterAnswer>(bytes) else { return };
                self.handle(PilotEvent::Registered { acknowledged: answer.registered.acknowledged });
            }
            SMALL => {
                // It must only be read or refused.
                drop(format.decode::<LeaveAnswer>(bytes));
                drop(format.decode::<ErrorAnswer>(bytes));
                drop(format.decode::<TailsAnswer>(bytes));
                drop(format.decode::<PeersAnswer>(bytes));
                drop(format.decode::<TakenPage>(bytes));
            }
            FAILED => self.handle(PilotEvent::PullFailed { lane }),
            WAIT => {
                self.now = self.now + Span::from_secs(u64::from(first) * 20);
                self.handle(PilotEvent::TimerFired);
            }
            SIGNAL => self.handle(if first % 2 == 0 { PilotEvent::Signalled } else { PilotEvent::StopAsked }),
            _ => {}
        }
    }

    fn end_a_task(&mut self, which: u8) {
        if self.running.is_empty() {
            return;
        }
        let place = usize::from(which) % self.running.len();
        let task = match self.running.get_mut(place).and_then(|(task, waiting)| {
            let next = waiting.pop_front()?;
            Some(std::mem::replace(task, next))
        }) {
            Some(task) => task,
            None => self.running.remove(place).0,
        };
        let ending = match which % 3 {
            0 => Ending::Exited(i32::from(which)),
            1 => Ending::Killed,
            _ => Ending::Failed(FailureKind::Signal { signal: 9 }),
        };
        let output = TaskOutput { index: task.index, stdout: b"energy 1.5\n".to_vec(), stderr: Vec::new() };
        self.handle(PilotEvent::Ended { task, ending, usage: Usage::default(), output: Some(output) });
    }

    fn handle(&mut self, event: PilotEvent) {
        let mut unbegun = Vec::new();
        for action in self.core.handle(self.now, event) {
            match action {
                // As the agent does; one that means nothing fails its tasks.
                PilotAction::Learn(template) => learn(&template),
                PilotAction::Start { task, after: None, .. } => self.running.push((task, VecDeque::new())),
                PilotAction::Start { task, after: Some(after), .. } => {
                    let place = self.running.iter_mut().find(|(running, _)| *running == after);
                    place.expect("it waits for who runs").1.push_back(task);
                }
                PilotAction::Kill { task } | PilotAction::Withdraw { task } => {
                    for (_, waiting) in &mut self.running {
                        let n_before = waiting.len();
                        waiting.retain(|other| *other != task);
                        unbegun.extend((waiting.len() < n_before).then_some(task));
                    }
                }
                // Files take a while: for ever, here.
                PilotAction::Stage { .. }
                | PilotAction::Unstage { .. }
                | PilotAction::Deliver { .. }
                | PilotAction::Gave { .. }
                | PilotAction::Meet { .. }
                | PilotAction::Look { .. }
                | PilotAction::Hunt
                | PilotAction::Keep(_)
                | PilotAction::Drop { .. }
                | PilotAction::Pull { .. }
                | PilotAction::Forget { .. }
                | PilotAction::Show
                | PilotAction::Leave { .. } => {}
            }
        }
        for task in unbegun {
            let (ending, usage) = (Ending::Killed, Usage::default());
            self.handle(PilotEvent::Ended { task, ending, usage, output: None });
        }
        assert!(
            self.running.len() <= N_CORES as usize,
            "{} processes on {N_CORES} cores",
            self.running.len()
        );
        assert_eq!(self.running.len(), self.core.n_running());
    }
}

fn learn(template: &Template) {
    let Ok(spec) = serde_json::from_str::<JobSpec>(&template.spec) else { return };
    let Ok(compiled) = spec.compile() else { return };
    drop(compiled.task(template.job.0, 0));
    drop(compiled.task(template.job.0, u64::MAX));
}

fn seeds() -> Vec<Vec<u8>> {
    let needs = TaskNeeds {
        resources: Resources::cores(1),
        time_limit: None,
        success_codes: vec![0],
        ..TaskNeeds::default()
    };
    let spec = serde_json::to_string(&world::spec()).expect("JSON");
    let template = Template { job: JobId(1), needs, spec };
    let bundle = Bundle { job: JobId(1), tasks: TaskSet::from(0..20), tried: vec![(3, 2)], is_given: false };
    let part = |number, commands| Part {
        number,
        templates: vec![template.clone()],
        bundles: vec![bundle.clone()],
        commands,
    };
    let tasks = TaskSet::from(0..9);
    let kill = vec![PilotCommand::Kill { job: JobId(1), tasks: tasks.clone() }];
    let back = vec![PilotCommand::Return { job: JobId(1), tasks }, PilotCommand::Forget { job: JobId(1) }];
    let registered = Registered { pilot: PilotId(1), acknowledged: 0, platform: String::new(), session: 0 };
    let registered = RegisterAnswer {
        registered,
        session: "pfs_x.y".into(),
        poll_wait: Span::from_secs(25),
        platform: String::new(),
    };
    let mut seeds = Vec::new();
    for (format, bit) in [(Format::Postcard, 0), (Format::Json, JSON)] {
        let answered = |parts, resync, acknowledged| {
            let answer = PullAnswer { epoch: 1, acknowledged, resync, told: 0, parts };
            (ANSWERED | bit, format.encode(&answer).expect("a message"))
        };
        let begin = (REGISTERED | bit, format.encode(&registered).expect("a message"));
        let work = answered(vec![part(1, vec![])], None, 0);
        let ended = (ENDED, vec![0]);
        let more = |commands, resync| answered(vec![part(2, commands)], resync, 1);
        seeds.push(steps::write(&[
            begin.clone(),
            work.clone(),
            ended.clone(),
            more(vec![], None),
            ended.clone(),
        ]));
        seeds.push(steps::write(&[
            begin.clone(),
            work.clone(),
            more(kill.clone(), Some(7)),
            (ENDED, vec![1]),
            (FAILED, vec![]),
        ]));
        seeds.push(steps::write(&[
            begin.clone(),
            work.clone(),
            more(back.clone(), None),
            ended.clone(),
            ended.clone(),
            (WAIT, vec![200]),
        ]));
        seeds.push(steps::write(&[
            begin.clone(),
            work.clone(),
            (SIGNAL, vec![1]),
            more(vec![PilotCommand::Stop], None),
            ended.clone(),
        ]));
        seeds.push(steps::write(&[
            begin,
            work,
            more(vec![PilotCommand::Drain], None),
            (SMALL | bit, b"{\"error\":{}}".to_vec()),
        ]));
    }
    seeds
}
