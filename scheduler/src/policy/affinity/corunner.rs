//! Co-runner affinity: the slow-down that the other tasks of a node cause to a task (paper 000, section 4.2).

use serde::{Deserialize, Serialize};

/// The measure of the slow-down, by the words of the `policies:` block. Larger is worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CorunnerAffinity {
    /// Additional seconds compared with the task alone.
    Raw,
    /// Additional time as a part of the time alone: applications with short tasks count like others.
    #[default]
    Normalized,
}

impl CorunnerAffinity {
    /// Returns the measure for a task that takes `together` seconds beside others, and `alone` seconds
    /// (positive) on one core of an empty node.
    pub fn difference(self, together: f64, alone: f64) -> f64 {
        match self {
            CorunnerAffinity::Raw => together - alone,
            CorunnerAffinity::Normalized => (together - alone) / alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CorunnerAffinity::{Normalized, Raw};

    #[test]
    fn table_4_of_the_paper() {
        // Montage on cheetah: 150.75 s alone, 106.72 s more on average, which is 70.78 %.
        assert!((Raw.difference(257.47, 150.75) - 106.72).abs() < 1e-9);
        assert!((Normalized.difference(257.473_769, 150.753_769) * 100.0 - 70.78).abs() < 0.02);
    }
}
