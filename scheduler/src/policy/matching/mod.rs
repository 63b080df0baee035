//! Matching: which job a pulling pilot serves.
//!
//! [`Matching`] compares jobs and is what the engine asks. [`application`] scores applications on platforms for
//! it, and on nodes for the simulator; [`static_map`] maps tasks ahead of time, there only.

pub mod application;
mod fifo;
pub mod static_map;
mod turns;

use std::{cmp::Ordering, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{ids::JobId, time::Time};
use application::{ByApplication, Score};

/// A job that could give tasks to the pilot at hand.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub user: &'a str,
    /// Higher first, among the jobs of its user.
    pub priority: i32,
    /// Higher first, among the jobs of all users.
    pub rank: i32,
    /// When it was submitted.
    pub submitted_at: Time,
    /// Cores that its tasks hold.
    pub held_cores: u64,
    /// Cores that all its user's tasks hold.
    pub user_held_cores: u64,
    /// Cores that its user's tasks hold on the pilot's platform.
    pub user_held_here: u64,
    /// Cores of that platform that are meant for its user; `None`: nobody says.
    pub user_share: Option<u64>,
    /// Whether all of its kind that is meant for that platform is taken already.
    pub is_dry: bool,
    /// How its application stands on the pilot's node.
    pub standing: Standing,
    /// Whether the pilot was given tasks of it last.
    pub is_previous: bool,
    /// How much that platform should serve its application.
    pub score: Score,
    /// Seconds of wall time that its open tasks are expected to take together.
    pub work_left: u64,
    /// Whether some more of it take no more cores: they wait for those of its tasks before them.
    pub is_refill: bool,
    /// The serving counter when it was last given a bundle; 0: never.
    pub last_served: u64,
}

/// How an application stands on a node, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Cores that are meant for it are free, or nobody says.
    #[default]
    Within,
    /// It has those that are meant for it.
    Beyond,
    /// They are meant for others.
    Stranger,
}

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matching {
    /// Users take turns, then jobs of a user: see `turns.rs`.
    #[default]
    Turns,
    /// Oldest first: see `fifo.rs`.
    Fifo,
    /// By global importance: see `application/alstb.rs`. Of equal ones the job with the least work left.
    Alstb,
    /// By node importance: see `application/ni.rs`.
    Ni,
    /// By speed there: see `application/min_min.rs`.
    MinMin,
    /// By how much speeds differ: see `application/max_std.rs`.
    MaxStd,
    /// By what is lost elsewhere: see `application/sufferage.rs`.
    Sufferage,
}

/// Why a job goes before another one: what decides between them, of the one that goes first, then of the other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Precedence {
    /// Its own: of jobs of one user, or of all where an operator has allowed that.
    Priority {
        /// Of both.
        priorities: [i32; 2],
    },
    /// The other's user has all cores of the platform that are meant for him.
    Share {
        /// Cores that he holds there, and those that are meant for him.
        held: u64,
        /// See `held`.
        share: u64,
    },
    /// All of the other's kind that is meant for the platform is taken.
    Quota,
    /// Cores of the node are meant for its application, and not, or no more, for the other's.
    Node,
    /// The pilot was given tasks of it last.
    Previous,
    /// The platform should serve its application rather.
    Score {
        /// Of both.
        scores: [f64; 2],
    },
    /// Less of it is left.
    WorkLeft {
        /// Seconds of both.
        seconds: [u64; 2],
    },
    /// Its user, or else it, holds fewer cores.
    Turn {
        /// Cores that the users of both hold.
        of_users: [u64; 2],
        /// Cores that both hold.
        of_jobs: [u64; 2],
    },
    /// It was served longer ago, or came sooner.
    Age,
}

impl Candidate<'_> {
    /// Whether its user has all that is meant for it.
    fn is_over_share(&self) -> bool {
        self.user_share.is_some_and(|share| self.user_held_here >= share)
    }

    /// Whether its priority puts it before the other one, whatever else is said of them.
    pub fn outranks(&self, other: &Candidate<'_>) -> bool {
        self.urgency().outranks(other.urgency())
    }

    fn urgency(&self) -> Urgency<'_> {
        Urgency { user: self.user, rank: self.rank, priority: self.priority }
    }

    /// Higher first among its user's jobs.
    fn own_order(&self) -> (i32, i32) {
        self.urgency().own_order()
    }
}

/// What the priority of a job means.
#[derive(Clone, Copy, Debug)]
pub struct Urgency<'a> {
    /// Whose job it is.
    pub user: &'a str,
    /// Higher first, among the jobs of all users.
    pub rank: i32,
    /// Higher first, among the jobs of its user.
    pub priority: i32,
}

impl Urgency<'_> {
    /// A priority that counts among all jobs comes before those that do not.
    fn own_order(self) -> (i32, i32) {
        (self.rank, self.priority)
    }

    /// Whether it puts the job before the other one, whatever else is said of them.
    pub fn outranks(self, other: Urgency<'_>) -> bool {
        self.rank > other.rank || (self.user == other.user && self.own_order() > other.own_order())
    }
}

impl Matching {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Matching::Turns => "turns",
            Matching::Fifo => "fifo",
            Matching::Alstb => "alstb",
            Matching::Ni => "ni",
            Matching::MinMin => "min-min",
            Matching::MaxStd => "max-std",
            Matching::Sufferage => "sufferage",
        }
    }

    /// The policy that scores applications for it, if it goes by scores.
    pub fn by_application(self) -> Option<ByApplication> {
        match self {
            Matching::Turns | Matching::Fifo => None,
            Matching::Alstb => Some(ByApplication::Alstb),
            Matching::Ni => Some(ByApplication::Ni),
            Matching::MinMin => Some(ByApplication::MinMin),
            Matching::MaxStd => Some(ByApplication::MaxStd),
            Matching::Sufferage => Some(ByApplication::Sufferage),
        }
    }

    /// The position of the job to serve among `candidates`; `None` only when there is none. O(n).
    pub fn choose<'a>(self, candidates: impl IntoIterator<Item = &'a Candidate<'a>>) -> Option<usize> {
        let of_layer = match self {
            Matching::Turns => turns::is_before,
            Matching::Fifo => fifo::is_before,
            _ => is_better,
        };
        let is_before = |a: &Candidate<'_>, b: &Candidate<'_>| match before_layer(a).cmp(&before_layer(b)) {
            Ordering::Equal => of_layer(a, b),
            order => order.is_lt(),
        };
        let candidates: Vec<&Candidate<'_>> = candidates.into_iter().collect();
        let highest = highest_of_users(&candidates);
        let is_highest = |one: &Candidate<'_>| {
            highest.as_ref().is_none_or(|highest| highest.get(one.user) == Some(&one.own_order()))
        };
        let numbered = candidates.iter().enumerate().filter(|(_, one)| is_highest(one));
        numbered.reduce(|best, other| if is_before(other.1, best.1) { other } else { best }).map(|(n, _)| n)
    }

    /// What decides between two jobs of which [`Matching::choose`] takes the first.
    pub fn precedence(self, first: &Candidate<'_>, other: &Candidate<'_>) -> Precedence {
        let both = [first, other];
        if first.user == other.user && first.rank == other.rank && first.priority != other.priority {
            return Precedence::Priority { priorities: both.map(|one| one.priority) };
        }
        if first.rank != other.rank {
            return Precedence::Priority { priorities: both.map(|one| one.rank) };
        }
        if first.is_over_share() != other.is_over_share() {
            return Precedence::Share {
                held: other.user_held_here,
                share: other.user_share.unwrap_or_default(),
            };
        }
        if first.is_dry != other.is_dry {
            return Precedence::Quota;
        }
        if first.standing != other.standing {
            return Precedence::Node;
        }
        match self {
            Matching::Fifo => Precedence::Age,
            Matching::Turns => {
                let of_users = both.map(|one| one.user_held_cores);
                let of_jobs = both.map(|one| one.held_cores);
                let is_even = of_users[0] == of_users[1] && of_jobs[0] == of_jobs[1];
                if is_even { Precedence::Age } else { Precedence::Turn { of_users, of_jobs } }
            }
            _ if first.score.0 != other.score.0 => Precedence::Score { scores: both.map(|one| one.score.0) },
            _ if first.score.1 != other.score.1 => Precedence::Score { scores: both.map(|one| one.score.1) },
            _ if first.work_left != other.work_left => {
                Precedence::WorkLeft { seconds: both.map(|one| one.work_left) }
            }
            _ if first.is_previous != other.is_previous => Precedence::Previous,
            _ => Precedence::Age,
        }
    }
}

/// Shares, quotas and nodes come before the order of any policy of this layer, and priorities among the jobs of all
/// users before shares.
fn before_layer(c: &Candidate<'_>) -> (std::cmp::Reverse<i32>, bool, bool, Standing) {
    (std::cmp::Reverse(c.rank), c.is_over_share(), c.is_dry, c.standing)
}

/// The highest priority of each user's candidates. Only those that have it are compared with others': a priority
/// orders the jobs of its user, and does not put them before the jobs of others. `None`: all have the same.
fn highest_of_users<'a>(candidates: &[&Candidate<'a>]) -> Option<BTreeMap<&'a str, (i32, i32)>> {
    let first = candidates.first()?.own_order();
    if candidates.iter().all(|one| one.own_order() == first) {
        return None;
    }
    let mut highest = BTreeMap::new();
    for one in candidates {
        let of_user = highest.entry(one.user).or_insert(one.own_order());
        *of_user = one.own_order().max(*of_user);
    }
    Some(highest)
}

/// Whether `a` is served before `b` by the scores of their applications: the best first, of jobs of equal ones that with
/// the least work left, so that jobs end one after the other (paper 002, section 3.3), and of equal ones that of which the
/// pilot was given tasks last (Fig. 2: J_pre). The paper asks for that first; then whoever has 100,000 tasks would keep a
/// pilot from all others until they are done.
fn is_better(a: &Candidate<'_>, b: &Candidate<'_>) -> bool {
    let key =
        |c: &Candidate<'_>| (std::cmp::Reverse(c.score), c.work_left, !c.is_previous, c.submitted_at, c.job);
    key(a) < key(b)
}

#[cfg(test)]
mod tests {
    use super::{Candidate, Matching, Precedence, Standing, application::Score};
    use crate::{ids::JobId, time::Time};

    const N_NUMBERS: usize = 13;

    /// Numbers in the order in which turns look at them; 0 is the better, 1 the worse.
    fn candidate(numbers: [u64; N_NUMBERS]) -> Candidate<'static> {
        let [
            priority,
            user_held_cores,
            held_cores,
            is_no_refill,
            last_served,
            submitted_at,
            job,
            user_held_here,
            less,
            work_left,
            is_dry,
            standing,
            is_other,
        ] = numbers;
        Candidate {
            job: JobId(job),
            user: "ada",
            priority: -(priority as i32),
            rank: -(priority as i32),
            submitted_at: Time(submitted_at),
            held_cores,
            user_held_cores,
            user_held_here,
            user_share: Some(1),
            is_dry: is_dry == 1,
            standing: if standing == 1 { Standing::Beyond } else { Standing::Within },
            is_previous: is_other == 0,
            score: Score(0.0, -(less as f64)),
            work_left,
            is_refill: is_no_refill == 0,
            last_served,
        }
    }

    /// Each of these numbers decides, whatever the later ones and those not named say, where those before are equal.
    fn assert_order(policy: Matching, order: &[usize]) {
        for (place, decides) in order.iter().enumerate() {
            let (mut better, mut worse) = ([1; N_NUMBERS], [0; N_NUMBERS]);
            for equal in &order[..place] {
                better[*equal] = 0;
            }
            (better[*decides], worse[*decides]) = (0, 1);
            let (better, worse) = (candidate(better), candidate(worse));
            assert_eq!(policy.choose([&better, &worse]), Some(0), "{policy:?}: {decides}");
            assert_eq!(policy.choose([&worse, &better]), Some(1), "{policy:?}: {decides}");
            assert_eq!(word(&policy.precedence(&better, &worse)), said(policy, *decides), "{policy:?}");
        }
    }

    /// What is said of the number that decides.
    fn said(policy: Matching, decides: usize) -> &'static str {
        match (policy, decides) {
            (_, 0) => "priority",
            (_, 7) => "share",
            (_, 10) => "quota",
            (_, 11) => "node",
            (Matching::Turns, 1 | 2) => "turn",
            (Matching::Alstb, 12) => "previous",
            (Matching::Alstb, 8) => "score",
            (Matching::Alstb, 9) => "work-left",
            _ => "age",
        }
    }

    fn word(precedence: &Precedence) -> &'static str {
        match precedence {
            Precedence::Priority { .. } => "priority",
            Precedence::Share { .. } => "share",
            Precedence::Quota => "quota",
            Precedence::Node => "node",
            Precedence::Previous => "previous",
            Precedence::Score { .. } => "score",
            Precedence::WorkLeft { .. } => "work-left",
            Precedence::Turn { .. } => "turn",
            Precedence::Age => "age",
        }
    }

    #[test]
    fn jobs_are_compared_by_one_number_after_the_other() {
        assert_order(Matching::Turns, &[0, 7, 10, 11, 1, 2, 3, 4, 5, 6]);
        assert_order(Matching::Fifo, &[0, 7, 10, 11, 5, 6]);
        assert_order(Matching::Alstb, &[0, 7, 10, 11, 8, 9, 12, 5, 6]);
        let alike = candidate([0; N_NUMBERS]);
        for policy in [Matching::Turns, Matching::Fifo, Matching::Alstb] {
            assert_eq!(policy.choose([&alike, &alike]), Some(0), "the first of equal ones");
        }
        let boundless = Candidate { user_share: None, ..candidate([0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1, 1]) };
        let over = candidate([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(
            Matching::Turns.choose([&over, &boundless]),
            Some(1),
            "who has no share is never above it"
        );
    }
}
