//! What a seed makes of a round: which faults, at which moments of the sweep's progress.

use crate::luck::Luck;

/// One round.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it was drawn from.
    pub seed: u64,
    /// How many tasks a core has been sent at most.
    pub prefetch_tasks_max: u64,
    /// In the order in which they come.
    pub faults: Vec<Fault>,
}

/// Something that happens to some processes.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// After so many executions.
    pub at: u64,
    /// Whether the manager is hit.
    pub hits_manager: bool,
    /// Which pilots are hit.
    pub aim: Option<Aim>,
    /// What happens to them.
    pub blow: Blow,
    /// Stopped or killed processes are back after so many more executions, or when there are none.
    pub absence: u64,
}

/// Which pilots.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// All of them, or one.
    pub is_at_all: bool,
    /// Which of their processes.
    pub part: Part,
}

/// Processes of a pilot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The one that watches.
    Guard,
    /// The one that works.
    Worker,
    /// Both at once.
    Whole,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blow {
    /// `kill -9` of pilots that stand still, so that the manager can be asked what they hold.
    KillStopped,
    /// `kill -9` in full course.
    Kill,
    /// SIGSTOP, and SIGCONT before anybody is given up.
    Stop,
    /// SIGSTOP, and SIGCONT when the manager has given the pilots up.
    StopForLong,
}

impl Plan {
    /// The plan of a seed, for so many tasks.
    pub fn draw(seed: u64, n_tasks: u64) -> Plan {
        let mut luck = Luck::new(seed);
        let n_faults = luck.between(3, 7);
        let mut faults: Vec<Fault> = (0..n_faults).map(|_| Fault::draw(&mut luck, n_tasks)).collect();
        faults.sort_by_key(|fault| fault.at);
        Plan { seed, prefetch_tasks_max: luck.pick(&[32, 256]), faults }
    }
}

impl Fault {
    fn draw(luck: &mut Luck, n_tasks: u64) -> Fault {
        let part = luck.pick(&[Part::Guard, Part::Worker, Part::Whole, Part::Whole]);
        let aim = Aim { is_at_all: luck.pick(&[true, false]), part };
        let (hits_manager, aim) = luck.pick(&[(true, None), (false, Some(aim)), (true, Some(aim))]);
        let blow = luck.pick(&[Blow::KillStopped, Blow::Kill, Blow::Stop, Blow::StopForLong]);
        Fault {
            at: luck.between(1, n_tasks * 19 / 20),
            hits_manager,
            aim,
            blow,
            absence: luck.pick(&[0, 20, 300, 3000]),
        }
    }
}
