//! Applications and platforms of paper 003. The paper names them; we chose all numbers.

use scheduler::rng::Rng;

use crate::draw;

/// The cluster's index in all rows.
pub const CLUSTER: usize = 0;
/// The cloud's index in all rows.
pub const CLOUD: usize = 1;
/// Cores of each platform.
pub const CORES: [u64; 2] = [24, 24];

/// Part of the attempts on the cloud that fail while its cores suffice.
const ERROR_ALWAYS: f64 = 0.005;
/// Additional part for each core's worth of missing CPU, multiplied by the task's CPU part.
const ERROR_BY_SHORTAGE: f64 = 0.10;

/// A kind of program.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    /// The name in the paper.
    pub name: &'static str,
    /// Seconds of a task on one core of the cluster and of the cloud.
    pub runtimes: [f64; 2],
    /// The part of that time in which it computes; in the rest it waits for input and output.
    pub cpu: f64,
}

/// The applications, in the order of all rows.
pub const APPLICATIONS: [Application; 4] = [
    Application { name: "AutoDock", runtimes: [14.0, 10.0], cpu: 1.0 },
    Application { name: "Pythia", runtimes: [10.0, 7.0], cpu: 0.95 },
    Application { name: "Montage", runtimes: [8.0, 11.0], cpu: 0.35 },
    Application { name: "C.M.S", runtimes: [16.0, 24.0], cpu: 0.40 },
];

/// The set of applications of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Applications that compute.
    Cpu,
    /// Applications that wait for input and output.
    Io,
    /// All applications.
    Mixed,
}

impl Condition {
    /// All conditions.
    pub const ALL: [Condition; 3] = [Condition::Cpu, Condition::Io, Condition::Mixed];

    /// Returns its name.
    pub fn word(self) -> &'static str {
        match self {
            Condition::Cpu => "CPU-bound",
            Condition::Io => "I/O-bound",
            Condition::Mixed => "mixed",
        }
    }

    /// Returns the indices of its applications.
    pub fn applications(self) -> &'static [usize] {
        match self {
            Condition::Cpu => &[0, 1],
            Condition::Io => &[2, 3],
            Condition::Mixed => &[0, 1, 2, 3],
        }
    }
}

/// The effect of too many vCPUs on tasks of the cloud. Not published: the first is the standard one, the
/// others show whether the ranking of policies depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nature {
    /// Only cores are short; the shortage makes tasks that compute fail.
    #[default]
    Cores,
    /// Storage is short, too: at most 1.2 tasks per core can read or write at a time.
    Storage,
    /// Memory is short, too: each vCPU beyond the first makes 2 % more of all attempts fail.
    Memory,
    /// Only cores are short, but measurements have errors: CPU time up to a fifth, failures up to all of
    /// them, both ways.
    Noise,
}

impl Nature {
    /// All natures.
    pub const ALL: [Nature; 4] = [Nature::Cores, Nature::Storage, Nature::Memory, Nature::Noise];

    /// Returns its description.
    pub fn words(self) -> &'static str {
        match self {
            Nature::Cores => "cores are short",
            Nature::Storage => "storage is short too",
            Nature::Memory => "memory is short too",
            Nature::Noise => "measurements are off",
        }
    }

    /// Returns the factors by which measured CPU time and failures differ from the true ones.
    pub fn measured(self, luck: &mut Rng) -> (f64, f64) {
        let mut within = |part: f64| 1.0 + part * (2.0 * draw::uniform(luck) - 1.0);
        match self {
            Nature::Cores | Nature::Storage | Nature::Memory => (1.0, 1.0),
            Nature::Noise => (within(0.2), within(1.0)),
        }
    }
}

/// Tasks per core that can read or write at a time, if storage is short.
const STORAGE: f64 = 1.2;
/// Part of the attempts that fail for each vCPU per core beyond the first, if memory is short.
const ERROR_BY_CROWD: f64 = 0.02;

/// The pace of a platform with one application alone on all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Attempts that end in a second.
    pub attempts: f64,
    /// The part of them that fails and is retried.
    pub errors: f64,
}

impl Pace {
    /// Returns the pace at this vCPU ratio. vCPUs beyond the cores' capacity add no attempts, only errors.
    pub fn of(application: usize, platform: usize, ratio: f64, nature: Nature) -> Pace {
        let Application { runtimes, cpu, .. } = APPLICATIONS[application];
        let alone = CORES[platform] as f64 / runtimes[platform];
        if platform != CLOUD {
            return Pace { attempts: alone, errors: 0.0 };
        }
        let demand = ratio * cpu;
        let errors = ERROR_ALWAYS + ERROR_BY_SHORTAGE * cpu * (demand - 1.0).max(0.0);
        let (crowding, more_errors) = match nature {
            Nature::Cores | Nature::Noise => (0.0, 0.0),
            Nature::Storage => (ratio * (1.0 - cpu) / STORAGE, 0.0),
            Nature::Memory => (0.0, ERROR_BY_CROWD * (ratio - 1.0)),
        };
        Pace { attempts: alone * ratio / demand.max(crowding).max(1.0), errors: errors + more_errors }
    }

    /// Returns the tasks per second that finish for good.
    pub fn goodput(self) -> f64 {
        self.attempts * (1.0 - self.errors)
    }
}

#[cfg(test)]
mod tests {
    use super::{CLOUD, CLUSTER, Nature, Pace};

    #[test]
    fn vcpus_help_what_waits_and_hurt_what_computes() {
        let pace = |application, platform, ratio| Pace::of(application, platform, ratio, Nature::Cores);
        let goodput = |application, ratio| pace(application, CLOUD, ratio).goodput();
        assert!(goodput(0, 2.0) < goodput(0, 1.0));
        assert!(goodput(2, 2.5) > 2.4 * goodput(2, 1.0));
        assert!(goodput(2, 4.0) < goodput(2, 3.0));
        let crowded = pace(0, CLOUD, 2.0);
        assert_eq!(crowded.attempts, pace(0, CLOUD, 1.0).attempts);
        assert!((crowded.errors - 0.105).abs() < 1e-12);
        assert_eq!(pace(0, CLUSTER, 2.0), pace(0, CLUSTER, 1.0));
    }
}
