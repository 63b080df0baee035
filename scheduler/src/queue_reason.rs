//! Why a batch job waits, in its batch system's words: whether that ends by itself, and what can be done.

/// What such words mean for whoever waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// It begins when others have ended, or at a time that is set.
    Ends,
    /// It never begins unless somebody does this.
    Never(&'static str),
    /// These words are not known here; somebody should look.
    Unknown,
}

/// What is advised where the words are not known.
const LOOK_UP: &str = "the batch system's manual says what that means; `pilotfish allocation cancel` gives the \
                       place back";

const HOURS: &str = "the account's hours there are used up: ask for more, or submit with another account";
const WALLTIME: &str =
    "it asks for more time than is allowed there: set a shorter `walltime` for the platform";
const SIZE: &str = "it asks for more at once than is allowed there: set fewer cores, nodes or less memory for the \
                    platform";
const HELD: &str = "somebody holds it: `scontrol release` or `qrls` lets it go on, `pilotfish allocation cancel` \
                    gives its place back";
/// What is advised of one that has been held for so long that it is not counted on any more.
pub(crate) const HELD_FOR_LONG: &str = "it has been held for ten minutes and counts toward limits only, so another one \
                                        is asked for if there is room: `scontrol release` or `qrls` lets it go on, \
                                        `pilotfish allocation cancel` gives its place back";
const ACCOUNT: &str = "the account, partition or quality of service may not be used together: name another in the \
                       platform's submit options";
const NOWHERE: &str = "no node there has what it asks for: change what the platform asks for";
const CLOSED: &str = "the partition or queue takes no jobs: ask its administrators, or name another";
const BROKEN: &str = "its administrators must mend that; `pilotfish allocation cancel` gives its place back";

impl Outlook {
    /// What can be done; `None`: wait.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Outlook::Ends => None,
            Outlook::Never(advice) => Some(advice),
            Outlook::Unknown => Some(LOOK_UP),
        }
    }

    /// Whether somebody holds the batch job, so that others like it may begin.
    pub fn is_hold(self) -> bool {
        self == Outlook::Never(HELD)
    }

    /// What these words mean. SLURM says a word, followed by nodes at times; others say sentences.
    pub fn of(words: &str) -> Outlook {
        let words = words.trim().trim_start_matches('(');
        let word: String = words.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        of_word(&word).or_else(|| of_sentence(&words.to_ascii_lowercase())).unwrap_or(Outlook::Unknown)
    }
}

/// A reason of SLURM.
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
        | "Reservation"
        | "ReqNodeNotAvail" => Outlook::Ends,
        "JobHeldUser" | "JobHeldAdmin" | "JobHoldMaxRequeue" | "AdminHold" | "UserHold" => {
            Outlook::Never(HELD)
        }
        "PartitionTimeLimit" | "TimeLimit" => Outlook::Never(WALLTIME),
        "PartitionNodeLimit" | "MaxMemPerLimit" | "MinResourcesLimit" => Outlook::Never(SIZE),
        "InvalidAccount"
        | "InvalidQOS"
        | "AccountNotAllowed"
        | "QOSNotAllowed"
        | "AccountingPolicy"
        | "AssociationResourceLimit"
        | "QOSResourceLimit"
        | "QOSUsageThreshold"
        | "QOSGrpWallLimit"
        | "AssocGrpWallLimit" => match has("Wall") || has("Usage") {
            true => Outlook::Never(HOURS),
            false => Outlook::Never(ACCOUNT),
        },
        "BadConstraints" | "Constraints" => Outlook::Never(NOWHERE),
        "PartitionDown" | "PartitionInactive" | "PartitionConfig" | "QueueNotStarted" => {
            Outlook::Never(CLOSED)
        }
        "DependencyNeverSatisfied"
        | "ReservationDeleted"
        | "DeadLine"
        | "JobLaunchFailure"
        | "NodeDown"
        | "SystemFailure"
        | "NonZeroExitCode"
        | "RaisedSignal"
        | "InactiveLimit"
        | "BurstBufferOperation"
        | "OutOfMemory" => Outlook::Never(BROKEN),
        // Of what runs: it comes free again.
        _ if is_of_limits && has("RunMinutes") => Outlook::Ends,
        _ if is_of_limits && has("Minutes") => Outlook::Never(HOURS),
        _ if is_of_limits && has("MaxWall") => Outlook::Never(WALLTIME),
        _ if is_of_limits && (has("PerJob") || has("PerNode") || has("Min")) => Outlook::Never(SIZE),
        // Of all that the account or user has at a time: they end.
        _ if is_of_limits && word.ends_with("Limit") => Outlook::Ends,
        _ if is_of_limits && has("Limit") => Outlook::Ends,
        _ if is_of_limits && ["Grp", "PerUser", "PerAccount"].iter().any(|part| has(part)) => Outlook::Ends,
        _ => return None,
    })
}

/// What others say.
fn of_sentence(said: &str) -> Option<Outlook> {
    // Grid Engine names all that the job cannot have now: places in a parallel environment come free, and queues that it
    // does not ask for are no matter.
    let is_of_now = |part: &str| {
        part.contains("hard queue list") || (part.contains("in pe \"") && part.contains("offers"))
    };
    if said.split("; ").any(is_of_now) {
        let rest: Vec<&str> = said.split("; ").filter(|part| !is_of_now(part)).collect();
        return if rest.is_empty() { Some(Outlook::Ends) } else { of_sentence(&rest.join("; ")) };
    }
    let says = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    if says(&["can never run", "will never run", "never be able to run", "cannot run", "can not run"]) {
        return Some(Outlook::Never(NOWHERE));
    }
    if says(&["held", "hold"]) {
        return Some(Outlook::Never(HELD));
    }
    if says(&["walltime", "wall time", "wall clock", "time limit"]) && says(&["exceed", "greater", "longer"])
    {
        return Some(Outlook::Never(WALLTIME));
    }
    if says(&["not started", "not enabled", "stopped", "disabled"]) {
        return Some(Outlook::Never(CLOSED));
    }
    if says(&["insufficient amount", "not enough", "would exceed", "limit has been reached", "draining"])
        || says(&["waiting for", "no idle", "busy", "too many", "higher priority", "not available", "slots"])
    {
        return Some(Outlook::Ends);
    }
    None
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
            ("JobHeldUser", HELD),
            ("JobHeldAdmin", HELD),
            ("Job held by ada on Sat Nov 28", HELD),
            ("InvalidAccount", ACCOUNT),
            ("BadConstraints", NOWHERE),
            ("PartitionDown", CLOSED),
            ("DependencyNeverSatisfied", BROKEN),
            ("Can Never Run: Insufficient amount of resource: ncpus (R: 64 A: 8 T: 8)", NOWHERE),
        ] {
            assert_eq!(Outlook::of(words), Outlook::Never(advice), "{words}");
        }
        for words in ["SomethingNew", "", "the moon is full"] {
            assert_eq!(Outlook::of(words), Outlook::Unknown, "{words}");
            assert!(Outlook::of(words).advice().is_some());
        }
    }
}
