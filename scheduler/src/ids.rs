//! Newtypes for everything that has an identity. Numbers are given out by the engine, in order, from 1.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// One submission: an application and its tasks.
    JobId, ""
);
id!(
    /// The agent process on one node of an allocation.
    PilotId, ""
);
id!(
    /// What an adapter asked of a platform: one batch job or VM group.
    AllocationId, ""
);
id!(
    /// An attached source of pilots.
    PlatformId, ""
);

/// One task: a job and the index of its parameters, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskId {
    /// The job.
    pub job: JobId,
    /// The index in the job's sweep, from 0.
    pub index: u64,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.index)
    }
}
