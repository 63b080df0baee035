//! What a pilot and the engine say to each other. Pure data; `protocol` gives it a version and bytes.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{JobId, PilotId},
    policy::stealing::PilotStealing,
    ranges::TaskSet,
    resources::Resources,
    results::Report,
    time::Span,
};

/// What a node is and has, as its pilot found out.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeFacts {
    /// The host's name.
    pub hostname: String,
    /// Which of its allocation's nodes it is, as far as whoever started it there says so.
    #[serde(default)]
    pub rank: u32,
    /// What tasks may use there.
    pub capacity: Resources,
    /// The batch system's own id of the job the pilot runs in.
    pub batch_id: Option<String>,
    /// How long the pilot may still live; `None`: no end known.
    pub walltime_left: Option<Span>,
    /// The agent's version, for people.
    pub agent_version: String,
}

/// A new pilot presents itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Registration {
    /// The allocation's tag, proved by its join token.
    pub tag: String,
    /// A number drawn by the pilot at its start, so that a repeated registration is known as the same.
    pub nonce: u64,
    /// The node.
    pub node: NodeFacts,
    /// How long the pilot has been running: anchors its clock to the manager's.
    pub uptime: Span,
    /// The number that the process drew which ran before in the pilot's folder: proves that this one takes its place.
    /// The last of a message, since pilots before 2026-12 do not send it.
    #[serde(default, deserialize_with = "none_if_absent", skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<u64>,
}

/// The tasks of one job that a pilot holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// Not begun.
    pub queued: TaskSet,
    /// Begun and not ended.
    pub running: TaskSet,
    /// Ended and not yet acknowledged: in a report on its way or waiting for one.
    pub unreported: TaskSet,
}

/// All that a pilot holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Holdings {
    /// The number from [`PullAnswer::resync`].
    pub asked: u64,
    /// Tasks.
    pub tasks: Vec<Held>,
    /// Jobs whose templates it has.
    pub templates: Vec<JobId>,
}

/// What tasks of a job that have ended needed beside cores: sums that nothing is decided by but what is expected of others
/// of their application, so that they are of no report and may be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Effort {
    /// The job.
    pub job: JobId,
    /// How many tasks.
    pub n: u64,
    /// Bytes that they have read from disks and written to them, as the kernel counts.
    pub io_bytes: u64,
    /// Microseconds from when it was their turn to when their programs began.
    pub prepared_us: u64,
}

/// Bytes of files that have come for tasks and gone from them: sums of which the same holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MovedBytes {
    /// They were in the node's cache.
    pub cached: u64,
    /// They came from the manager.
    pub from_manager: u64,
    /// They came from other pilots.
    #[serde(default)]
    pub from_peers: u64,
    /// They came from addresses of the network, and from stores.
    pub from_urls: u64,
    /// They went to the manager.
    pub to_manager: u64,
    /// They went where nodes see them.
    pub to_shared: u64,
    /// They went to stores.
    #[serde(default)]
    pub to_stores: u64,
}

impl MovedBytes {
    /// Whether nothing has moved.
    pub fn is_none(&self) -> bool {
        *self == MovedBytes::default()
    }

    /// More of them.
    pub fn add(&mut self, more: &MovedBytes) {
        let MovedBytes { cached, from_manager, from_peers, from_urls, to_manager, to_shared, to_stores } =
            more;
        for (sum, n) in [
            (&mut self.cached, cached),
            (&mut self.from_manager, from_manager),
            (&mut self.from_peers, from_peers),
            (&mut self.from_urls, from_urls),
            (&mut self.to_manager, to_manager),
            (&mut self.to_shared, to_shared),
            (&mut self.to_stores, to_stores),
        ] {
            *sum = sum.saturating_add(*n);
        }
    }
}

/// A pilot reports and asks. Answered at once when there is something to say, else parked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pull {
    /// The manager's epoch in the last answer; 0 when there was none.
    pub epoch: u64,
    /// The highest number of a part received in that epoch.
    pub part_seen: u64,
    /// What ended since the last acknowledged report; the oldest one that is not acknowledged.
    pub report: Option<Report>,
    /// Everything held, when the manager asked for it.
    pub holds: Option<Holdings>,
    /// What is running now.
    pub running: Vec<(JobId, TaskSet)>,
    /// What tasks needed that have ended since the last pull.
    #[serde(default)]
    pub efforts: Vec<Effort>,
    /// Files that have moved since, by job.
    #[serde(default)]
    pub moved: Vec<(JobId, MovedBytes)>,
    /// Whether it takes new tasks; false while it drains.
    pub is_hungry: bool,
    /// How long the manager may park this pull; zero: answer at once.
    pub wait: Span,
    /// The number that the session was made with, [`Registered::session`], put in by who has checked the session; `None`:
    /// whoever asks is the pilot.
    #[serde(skip)]
    pub session_nonce: Option<u64>,
    /// Microseconds by job for which the cores of tasks that have ended since were not theirs although they wanted to
    /// compute: others had the CPUs. One of the last of a message, since pilots before 2026-12 do not send it.
    #[serde(default, deserialize_with = "none_if_absent")]
    pub starved: Vec<(JobId, u64)>,
    /// What the pilot believes of itself and the manager. The last of a message, since pilots before 2026-12 do not
    /// send it.
    #[serde(default, deserialize_with = "none_if_absent", skip_serializing_if = "Option::is_none")]
    pub tally: Option<Tally>,
}

/// What a pilot believes: the manager compares it with what it knows, and asks what the pilot holds where they differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// The number of this pull among those of its process, from 1.
    pub number: u64,
    /// The last report of its own that it knows to be durable at the manager.
    pub acknowledged: u64,
    /// How many tasks it holds: not begun, begun, or ended and not known to be durable. Never fewer than it does.
    pub n_held: u64,
}

/// The last field of a message, which older senders leave out: a format without names of fields ends there.
///
/// # Errors
/// None.
pub fn none_if_absent<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(T::deserialize(from).unwrap_or_default())
}

/// What every task of a job needs and how its end is judged: the part of a template that decisions use.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskNeeds {
    /// Resources of one task.
    pub resources: Resources,
    /// How long a task may run.
    pub time_limit: Option<Span>,
    /// Exit codes that count as success.
    pub success_codes: Vec<i32>,
    /// Which files come and go with each task.
    #[serde(default)]
    pub staging: Staging,
}

/// Which files come and go with the tasks of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Staging {
    /// Files must be there before a task may begin.
    pub inputs: bool,
    /// Files of a task that succeeded are delivered before it is reported.
    pub outputs: bool,
}

impl Staging {
    /// Whether any file comes or goes.
    pub fn is_any(self) -> bool {
        self.inputs || self.outputs
    }
}

/// How to run the tasks of a job. Sent once to each pilot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Template {
    /// The job.
    pub job: JobId,
    /// What a task needs.
    pub needs: TaskNeeds,
    /// The resolved job as JSON (`protocol::job::JobSpec`); the engine does not look inside.
    pub spec: String,
}

/// Tasks of one job, leased to the pilot until it reports, returns or loses them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// The job.
    pub job: JobId,
    /// The tasks.
    pub tasks: TaskSet,
    /// Those of them that have been tried before: index, and the number of the attempt that begins now.
    pub tried: Vec<(u64, u32)>,
    /// Whether another pilot gave them to this one, which gives all but one of them on to who asks.
    #[serde(default)]
    pub is_given: bool,
}

/// What a pilot is told to do. An answer may come twice: each part is obeyed once, and all but [`PilotCommand::Give`]
/// are idempotent besides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PilotCommand {
    /// Give these back unless they have begun.
    Return {
        /// The job.
        job: JobId,
        /// Its tasks.
        tasks: TaskSet,
    },
    /// Give these back, and kill those that run.
    Kill {
        /// The job.
        job: JobId,
        /// Its tasks.
        tasks: TaskSet,
    },
    /// The job is over: its template and resident processes are not needed any more.
    Forget {
        /// The job.
        job: JobId,
    },
    /// Take nothing new, give back what has not begun, end what runs, leave.
    Drain,
    /// Kill what runs, give everything back, leave.
    Stop,
    /// Offer so many cores to tasks from now on, however many the node has. What runs beyond that goes on.
    Offer {
        /// Cores.
        cores: u32,
    },
    /// Somebody follows what tasks write while they run: ask of which ones, and tell it, beside the pulls.
    Show,
    /// What it may take of other pilots of its platform, and they of it. Until it is said: nothing.
    Steal {
        /// By this policy.
        policy: PilotStealing,
    },
    /// Another pilot of its platform has nothing to do and cannot ask by itself: give it some of what waits.
    Give {
        /// Which.
        to: PilotId,
    },
}

/// One numbered portion of what a pilot is sent.
///
/// Every answer carries all parts that the pilot has not yet confirmed, so whoever has got part n
/// has got all before it, and a part that was seen before is skipped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// From 1, in each epoch.
    pub number: u64,
    /// Templates of bundles that the pilot has not been sent yet.
    pub templates: Vec<Template>,
    /// New tasks.
    pub bundles: Vec<Bundle>,
    /// What to do.
    pub commands: Vec<PilotCommand>,
}

/// The manager's answer to a pull.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PullAnswer {
    /// Which life of the manager this is: grows with each start, never 0.
    pub epoch: u64,
    /// The last report number that is durable.
    pub acknowledged: u64,
    /// Tell everything you hold, and this number with it: the manager has restarted, or lost track of
    /// you. The number is new each time, so that no delayed telling is taken for the one asked for.
    pub resync: Option<u64>,
    /// The last question that you have answered in this epoch, 0 when there was none. Parts of an answer
    /// from before that are void: what you told then replaced them.
    pub told: u64,
    /// What is new, ascending by number.
    pub parts: Vec<Part>,
}

/// The manager's answer to a registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Registered {
    /// The pilot's number, now and after any restart of the manager.
    pub pilot: PilotId,
    /// The last report number that the manager has from this pilot.
    pub acknowledged: u64,
    /// The name of its platform; in messages the answer to a registration has it.
    #[serde(skip)]
    pub platform: String,
    /// The number that its session is made with: another one each time that it comes back after it was given up.
    #[serde(skip)]
    pub session: u64,
}

/// Why a pilot leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LeaveReason {
    /// The manager said so.
    Told,
    /// Its walltime ends.
    Walltime,
    /// It got a signal from its platform or its user.
    Signalled,
}
