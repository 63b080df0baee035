//! The reason for which a batch job waits, in its batch system's words: whether the wait ends by itself, and
//! what can be done.

/// The prospect of a waiting batch job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// It begins when other jobs have ended, or at a set time.
    Ends,
    /// It never begins unless a person follows this advice.
    Never(&'static str),
    /// The words are unknown here; a person should look.
    Unknown,
}

/// The advice for a batch job that is held.
#[derive(Clone, Copy)]
struct Held {
    advice: &'static str,
    /// The advice for a job that has been held for so long that the manager does not count on it any more.
    for_long: &'static str,
}

/// Makes the advice with the command that releases a job of this batch system.
macro_rules! held {
    ($release:literal) => {
        Held {
            advice: concat!(
                "somebody holds it: `",
                $release,
                "` lets it go on, `pilotfish allocation cancel` gives its place back"
            ),
            for_long: concat!(
                "it has been held for ten minutes and counts toward limits only, so another one is asked for if there \
                 is room: `",
                $release,
                "` lets it go on, `pilotfish allocation cancel` gives its place back"
            ),
        }
    };
}

/// The advice for unknown words.
const LOOK_UP: &str = "the batch system's manual says what that means; `pilotfish allocation cancel` gives the \
                       place back";

const HOURS: &str = "the account's hours there are used up: ask for more, or submit with another account";
const WALLTIME: &str =
    "it asks for more time than is allowed there: set a shorter `walltime` for the platform";
const SIZE: &str = "it asks for more at once than is allowed there: set fewer cores, nodes or less memory for the \
                    platform";
const MINIMUM: &str = "it asks for less than is allowed there: set more cores, nodes, memory or GPUs for the \
                       platform";
const TIME_BY_SIZE: &str = "it asks for more time for so many cores or nodes than is allowed there: set a shorter \
                            `walltime` or fewer cores for the platform";
const HELD_BY_SLURM: Held = held!("scontrol release");
const HELD_BY_LOADLEVELER: Held = held!("llhold -r");
/// A hold of PBS or Grid Engine, whose commands have the same name.
const HELD: Held = held!("qrls");
const ACCOUNT: &str = "the account, partition or quality of service may not be used together: name another in the \
                       platform's submit options";
const NOWHERE: &str = "no node there has what it asks for: change what the platform asks for";
const CLOSED: &str = "the partition or queue takes no jobs: ask its administrators, or name another";
const BROKEN: &str = "its administrators must mend that; `pilotfish allocation cancel` gives its place back";

impl Outlook {
    /// Returns the advice; `None`: wait.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Outlook::Ends => None,
            Outlook::Never(advice) => Some(advice),
            Outlook::Unknown => Some(LOOK_UP),
        }
    }

    /// Returns whether the batch job is held; other jobs like it may begin nevertheless.
    pub fn is_hold(self) -> bool {
        self.advice_when_long().is_some()
    }

    /// Returns the advice for a job that has been held for so long that the manager does not count on it any
    /// more.
    pub(crate) fn advice_when_long(self) -> Option<&'static str> {
        let all = [HELD_BY_SLURM, HELD_BY_LOADLEVELER, HELD];
        let held = all.into_iter().find(|held| self == Outlook::Never(held.advice))?;
        Some(held.for_long)
    }

    /// Interprets a batch system's words. SLURM gives a word, sometimes followed by nodes; others give
    /// sentences.
    pub fn of(words: &str) -> Outlook {
        let words = words.trim().trim_start_matches('(');
        let word: String = words.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        of_word(&word).or_else(|| of_sentence(&words.to_ascii_lowercase())).unwrap_or(Outlook::Unknown)
    }
}

/// Interprets a reason of SLURM.
fn of_word(word: &str) -> Option<Outlook> {
    let is_of_limits = ["Assoc", "QOS", "Max"].iter().any(|start| word.starts_with(start));
    let has = |part: &str| word.contains(part);
    Some(match word {
        "Resources"
        | "Priority"
        | "None"
        | "BeginTime"
        | "Dependency"
        | "Licenses"
        | "Cleaning"
        | "Prolog"
        | "JobArrayTaskLimit"
        | "JobsLimit"
        | "FedJobLock"
        | "NodeNotAvail"
        | "PowerNotAvail"
        | "PowerReserved"
        | "MaxPowerPerAccount"
        | "BurstBufferResources"
        | "BurstBufferStageIn"
        | "WaitingForScheduling"
        | "SchedDefer"
        | "Reservation"
        | "ReqNodeNotAvail" => Outlook::Ends,
        "JobHeldUser" | "JobHeldAdmin" | "JobHoldMaxRequeue" | "AdminHold" | "UserHold" => {
            Outlook::Never(HELD_BY_SLURM.advice)
        }
        "PartitionTimeLimit" | "TimeLimit" => Outlook::Never(WALLTIME),
        "PartitionNodeLimit" | "MaxMemPerLimit" => Outlook::Never(SIZE),
        "InvalidAccount" | "InvalidQOS" | "AccountNotAllowed" | "QOSNotAllowed" | "AccountingPolicy" => {
            Outlook::Never(ACCOUNT)
        }
        "QOSUsageThreshold"
        | "QOSTimeLimit"
        | "AssociationTimeLimit"
        | "QOSGrpWallLimit"
        | "AssocGrpWallLimit" => Outlook::Never(HOURS),
        "BadConstraints" | "Constraints" => Outlook::Never(NOWHERE),
        "PartitionDown" | "PartitionInactive" | "PartitionConfig" | "QueueNotStarted" => {
            Outlook::Never(CLOSED)
        }
        "DependencyNeverSatisfied"
        | "ReservationDeleted"
        | "ReservationInvalid"
        | "DeadLine"
        | "JobLaunchFailure"
        | "NodeDown"
        | "SystemFailure"
        | "NonZeroExitCode"
        | "RaisedSignal"
        | "InactiveLimit"
        | "BurstBufferOperation"
        | "OutOfMemory" => Outlook::Never(BROKEN),
        // A limit on running jobs: it frees up again.
        _ if is_of_limits && has("RunMinutes") => Outlook::Ends,
        // A limit on one job: other jobs and their hours do not matter.
        _ if is_of_limits && has("MinutesPerJob") => Outlook::Never(TIME_BY_SIZE),
        _ if is_of_limits && has("Minutes") => Outlook::Never(HOURS),
        _ if is_of_limits && has("MaxWall") => Outlook::Never(WALLTIME),
        _ if is_of_limits && (has("PerJob") || has("PerNode")) => Outlook::Never(SIZE),
        _ if is_of_limits && has("Min") => Outlook::Never(MINIMUM),
        // A limit on all jobs of the account or user at a time: they end.
        _ if is_of_limits && word.ends_with("Limit") => Outlook::Ends,
        _ if is_of_limits && has("Limit") => Outlook::Ends,
        _ if is_of_limits && ["Grp", "PerUser", "PerAccount"].iter().any(|part| has(part)) => Outlook::Ends,
        _ => return None,
    })
}

/// Interprets a sentence of another batch system, in lower case.
fn of_sentence(said: &str) -> Option<Outlook> {
    // Names in quotes are ignored.
    let said = said.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    if let Some(held) = held_by(&said) {
        return Some(Outlook::Never(held.advice));
    }
    if ["can never run", "will never run", "never be able to run"].iter().any(|words| said.contains(words)) {
        return Some(Outlook::Never(NOWHERE));
    }
    // Grid Engine names everything that the job cannot have now: slots in a parallel environment come free,
    // and queues that the job does not request do not matter.
    let is_of_now = |part: &&str| {
        part.contains("hard queue list") || (part.contains("in pe \"") && part.contains("offers"))
    };
    let parts: Vec<&str> = said.split("; ").filter(|part| !is_of_now(part)).collect();
    if parts.is_empty() {
        return Some(Outlook::Ends);
    }
    // If one queue or node is only busy, the job can begin, however many others are closed.
    let outlooks: Vec<Outlook> = parts.into_iter().filter_map(of_part).collect();
    let ends = outlooks.iter().find(|outlook| **outlook == Outlook::Ends);
    ends.or(outlooks.first()).copied()
}

/// Returns the kind of hold, if the words say that the job is held: names of hosts and resources may contain
/// the word, too.
fn held_by(said: &str) -> Option<Held> {
    let words: Vec<&str> =
        said.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let begins = |phrases: &[&[&str]]| phrases.iter().any(|phrase| words.starts_with(phrase));
    let says = |phrases: &[&[&str]]| {
        phrases.iter().any(|phrase| words.windows(phrase.len()).any(|there| there == *phrase))
    };
    let of_loadleveler: [&[&str]; 4] = [
        &["user", "hold"],
        &["system", "hold"],
        &["user", "system", "hold"],
        &["user", "and", "system", "hold"],
    ];
    if begins(&of_loadleveler) {
        return Some(HELD_BY_LOADLEVELER);
    }
    let of_states: [&[&str]; 3] =
        [&["held", "requeue", "hold"], &["held", "special", "exit"], &["held", "resv", "del", "hold"]];
    let of_requeued: [&[&str]; 2] = [&["requeued", "held"], &["requeued", "in", "held", "state"]];
    if begins(&of_states) || says(&of_requeued) {
        return Some(HELD_BY_SLURM);
    }
    let of_a_job: [&[&str]; 8] = [
        &["job", "held"],
        &["it", "is", "held"],
        &["job", "is", "held"],
        &["job", "is", "on", "hold"],
        &["placed", "on", "hold"],
        &["in", "held", "state"],
        &["in", "hold", "state"],
        &["because", "of", "hold"],
    ];
    (words.first() == Some(&"held") || says(&of_a_job)).then_some(HELD)
}

/// Words of OpenPBS and TORQUE about a job that begins when others have ended, or at a set time.
const WAITS_OF_PBS: [&str; 19] = [
    "insufficient amount",
    "not enough",
    "would exceed",
    "has been reached",
    "limit reached",
    "would conflict",
    "would interfere",
    "would break",
    "would cross",
    "will cross",
    "no available resources",
    "too few free",
    "above max limit",
    "node is in use",
    "dedicated time",
    "primetime",
    "preempt enough",
    "provision conflict",
    "threshold value",
];

/// The same for Grid Engine. Its `qsub` refuses jobs that could not run on an empty cluster.
const WAITS_OF_GRID_ENGINE: [&str; 11] = [
    "because it is full",
    "overload",
    "suspend alarm",
    "not available",
    "offers only",
    "exceeds limit",
    "not in range of job",
    "clean up of",
    "execution time not reached",
    "because of job dependencies",
    "because of user limitations",
];

/// Words of PBS that leave open whether the job ever begins.
const ODD_OF_PBS: [&str; 8] = [
    "pbs error",
    "scheduling error",
    "zero shares",
    "does not exist",
    "not an execution queue",
    "ineligible type",
    "cannot provision",
    "invalid job",
];

/// Interprets one part of a sentence with several parts.
fn of_part(said: &str) -> Option<Outlook> {
    let says = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    let has_word =
        |words: &[&str]| said.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word));
    if says(&["walltime", "wall time", "wall clock", "time limit"]) && says(&["exceed", "greater", "longer"])
    {
        return Some(Outlook::Never(WALLTIME));
    }
    if says(&WAITS_OF_GRID_ENGINE) && !says(&ODD_OF_PBS) {
        return Some(Outlook::Ends);
    }
    if says(&["cannot run", "can not run"]) {
        return Some(Outlook::Never(NOWHERE));
    }
    if says(&["not started", "not enabled"]) || has_word(&["stopped", "disabled"]) {
        return Some(Outlook::Never(CLOSED));
    }
    if says(&WAITS_OF_PBS)
        || (says(&["has reached"]) && says(&["limit"]))
        || says(&["draining", "waiting for", "no idle", "busy", "too many", "higher priority", "slots"])
    {
        return Some(Outlook::Ends);
    }
    // For other jobs it says "Can Never Run".
    (said.starts_with("not running") && !says(&ODD_OF_PBS)).then_some(Outlook::Ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_batch_systems_are_known_as_what_ends_and_what_does_not() {
        for words in [
            "Priority",
            "(Resources)",
            "ReqNodeNotAvail, UnavailableNodes:n[1-3]",
            "QOSMaxJobsPerUserLimit",
            "AssocGrpCpuLimit",
            "AssocGrpCPURunMinutesLimit",
            "QOSMaxGRESPerUser",
            "QOSGrpGRES",
            "Not Running: Insufficient amount of resource: ncpus (R: 4 A: 0 T: 8)",
            "Not Running: User has reached server running job limit: limit has been reached",
            "Not Running: User has reached queue batch running job limit.",
            "Not Running: Job would conflict with reservation or top job",
            "Not Running: Job would break strict sorted order",
            "Not Running: Job is requesting an exclusive node and node is in use",
            "Not Running: a reason of a later version",
            "No available resources on nodes",
            "Load is above max limit",
            "Job would cross dedicated time boundary",
            // Names that contain one of the words.
            "Not Running: Insufficient amount of resource: host (reinhold1 in use)",
            "Not Running: Insufficient amount of resource: household_gpu (R: 1 A: 0 T: 4)",
            "Not Running: Insufficient amount of resource: host (hold, held, n1)",
            "Not Running: Job is under job_sort_formula threshold value",
            "queue instance \"all.q@reinhold1\" dropped because it is full",
            "queue instance \"job held@disabled\" dropped because it is full",
            "queue instance \"all.q@n1\" dropped because it is overloaded: np_load_avg=1.9 >= 1.75",
            "All queues dropped because of overload or full",
            // One node is only busy.
            "queue instance \"all.q@n7\" dropped because it is disabled; queue instance \"all.q@n1\" dropped because \
             it is full",
            "(-l gpu=1) cannot run at host \"n1\" because it offers only hc:gpu=0.000000",
            "cannot run because it exceeds limit \"ada/////\" in rule \"slots/1\"",
            "QOSMaxSubmitJobPerUserLimit",
            "QOSResourceLimit",
            "SchedDefer",
            "cannot run in queue \"short.q\" because it is not contained in its hard queue list (-q); cannot run in PE \
             \"smp\" because it only offers 0 slots",
            "cannot run in PE \"smp\" because it only offers 0 slots; queue instance \"all.q@n1\" dropped because it is \
             temporarily not available",
        ] {
            assert_eq!(Outlook::of(words), Outlook::Ends, "{words}");
        }
        for (words, advice) in [
            ("AssocGrpBillingMinutes", HOURS),
            ("QOSGrpCPUMinutesLimit", HOURS),
            ("PartitionTimeLimit", WALLTIME),
            ("AssocMaxWallDurationPerJobLimit", WALLTIME),
            ("QOSMaxCpuPerJobLimit", SIZE),
            ("QOSMaxNodePerJobLimit", SIZE),
            ("QOSMaxMemoryPerNode", SIZE),
            ("QOSMinCpuNotSatisfied", MINIMUM),
            ("QOSMinGRES", MINIMUM),
            ("QOSMinMemory", MINIMUM),
            ("QOSMinNode", MINIMUM),
            ("QOSMinBilling", MINIMUM),
            ("AssocMaxCpuMinutesPerJobLimit", TIME_BY_SIZE),
            ("QOSMaxCpuMinutesPerJobLimit", TIME_BY_SIZE),
            ("AssocMaxGRESMinutesPerJob", TIME_BY_SIZE),
            ("QOSMaxBillingMinutesPerJob", TIME_BY_SIZE),
            ("QOSUsageThreshold", HOURS),
            ("AssociationTimeLimit", HOURS),
            ("JobHeldUser", HELD_BY_SLURM.advice),
            ("JobHeldAdmin", HELD_BY_SLURM.advice),
            ("Job held by ada on Sat Nov 28", HELD.advice),
            ("held, Hold_Types = u", HELD.advice),
            ("hqw: it is held", HELD.advice),
            ("held", HELD.advice),
            ("held: Job held by alice on Sat Nov 21 07:17:00 2026", HELD.advice),
            ("held: job held, too many failed attempts to run", HELD.advice),
            ("Job is in hold state", HELD.advice),
            ("launch failed requeued held", HELD_BY_SLURM.advice),
            ("job requeued in held state", HELD_BY_SLURM.advice),
            ("held: REQUEUE_HOLD launch failed requeued held", HELD_BY_SLURM.advice),
            ("held: SPECIAL_EXIT None", HELD_BY_SLURM.advice),
            ("System Hold: The class of this job step is \"workq\".", HELD_BY_LOADLEVELER.advice),
            ("User & System Hold", HELD_BY_LOADLEVELER.advice),
            ("InvalidAccount", ACCOUNT),
            ("BadConstraints", NOWHERE),
            ("PartitionDown", CLOSED),
            ("DependencyNeverSatisfied", BROKEN),
            ("Can Never Run: Insufficient amount of resource: ncpus (R: 64 A: 8 T: 8)", NOWHERE),
            ("Not Running: Queue not started.", CLOSED),
            ("queue instance \"down.q@n1\" dropped because it is disabled", CLOSED),
            (
                "cannot run in PE \"smp\" because it only offers 0 slots; queue instance \"down.q@n1\" dropped because \
                 it is disabled",
                CLOSED,
            ),
            ("(-l h_rt=600) cannot run in queue \"short.q\" because of cluster queue", NOWHERE),
        ] {
            assert_eq!(Outlook::of(words), Outlook::Never(advice), "{words}");
        }
        let commands = ["scontrol", "qrls", "llhold"];
        for (words, command) in ["JobHeldUser", "hqw: it is held", "User Hold"].into_iter().zip(commands) {
            let held = Outlook::of(words);
            for advice in [held.advice(), held.advice_when_long()] {
                let is_named = |name: &&str| advice.is_some_and(|text| text.contains(*name));
                let named: Vec<&str> = commands.into_iter().filter(is_named).collect();
                assert_eq!(named, [command], "{words}");
            }
        }
        for words in [
            "SomethingNew",
            "",
            "the moon is full",
            "household",
            "Not Running: PBS Error: Execution server rejected request",
        ] {
            assert_eq!(Outlook::of(words), Outlook::Unknown, "{words}");
            assert!(Outlook::of(words).advice().is_some());
        }
    }
}
