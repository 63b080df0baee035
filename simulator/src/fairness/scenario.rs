//! The 23 scenarios of section 6: the default one, and variants in which a number is removed, halved or
//! doubled.

use super::published::{ALONE, APPLICATIONS, CORES_PER_NODE, N_NODES, N_TASKS, PLATFORMS};

/// The users with their tasks, and the nodes of the platforms.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name in the paper's words.
    pub name: String,
    /// The application of each user, ascending.
    pub applications: Vec<usize>,
    /// Tasks of each user.
    pub n_tasks: Vec<u64>,
    /// When each user submits its tasks, in seconds.
    pub submitted_at: Vec<f64>,
    /// Nodes of each platform; 0: the platform is absent.
    pub n_nodes: [u64; 4],
}

impl Scenario {
    /// Returns the default scenario of Tables 5 and 6.
    pub fn published() -> Scenario {
        Scenario {
            name: "default".into(),
            applications: (0..APPLICATIONS.len()).collect(),
            n_tasks: N_TASKS.to_vec(),
            submitted_at: vec![0.0; APPLICATIONS.len()],
            n_nodes: N_NODES,
        }
    }

    /// Returns all 23 scenarios, the default one first.
    pub fn all() -> Vec<Scenario> {
        let default = Scenario::published();
        let mut all = vec![default.clone()];
        let with_nodes = |word: &str, platform: usize, n: u64| {
            let mut scenario =
                Scenario { name: format!("{word} {}", PLATFORMS[platform]), ..default.clone() };
            scenario.n_nodes[platform] = n;
            scenario
        };
        for platform in 0..PLATFORMS.len() {
            all.push(with_nodes("w/o", platform, 0));
        }
        for (word, times, by) in [("half", 1, 2), ("double", 2, 1)] {
            all.extend((0..PLATFORMS.len()).map(|p| with_nodes(word, p, N_NODES[p] * times / by)));
        }
        for (absent, application) in APPLICATIONS.iter().enumerate() {
            let mut scenario = default.clone();
            scenario.name = format!("w/o {application}");
            scenario.applications.remove(absent);
            scenario.n_tasks.remove(absent);
            scenario.submitted_at.remove(absent);
            all.push(scenario);
        }
        for (small, application) in APPLICATIONS.iter().enumerate() {
            let mut scenario = Scenario { name: format!("small {application}"), ..default.clone() };
            for (user, n) in scenario.n_tasks.iter_mut().enumerate() {
                *n = if user == small { *n / 2 } else { *n * 2 };
            }
            all.push(scenario);
        }
        all
    }

    /// Returns the platforms that have nodes.
    pub fn platforms(&self) -> Vec<usize> {
        (0..PLATFORMS.len()).filter(|platform| self.n_nodes[*platform] > 0).collect()
    }

    /// Returns the seconds that the user's tasks would take on its equal part of all cores if each core were
    /// alone on a node of the user's quickest platform (section 6.1).
    pub fn fastest(&self, user: usize) -> f64 {
        let platforms = self.platforms();
        let n_cores: u64 = platforms.iter().map(|p| self.n_nodes[*p] * CORES_PER_NODE[*p]).sum();
        let runtimes = platforms.iter().map(|platform| ALONE[self.applications[user]][*platform]);
        let part = n_cores as f64 / self.applications.len() as f64;
        self.n_tasks[user] as f64 * runtimes.fold(f64::INFINITY, f64::min) / part
    }
}

#[cfg(test)]
mod tests {
    use super::Scenario;

    #[test]
    fn there_are_23_of_them() {
        let all = Scenario::all();
        assert_eq!(all.len(), 23);
        let find = |name: &str| all.iter().find(|scenario| scenario.name == name).expect(name);
        assert_eq!(find("half darth").n_nodes, [300, 75, 37, 50]);
        assert_eq!(find("w/o darth").platforms(), [0, 1, 3]);
        assert_eq!(find("w/o CacheBench").n_tasks, [34_600, 248_800, 72_950, 112_420]);
        assert_eq!(find("small Montage").n_tasks, [69_200, 497_600, 62_460, 36_475, 224_840]);
    }
}
