//! One file a backend. Each is a codec: what to say to the batch system, and what its answers mean,
//! without I/O and without a clock. Transports run what it says.

pub mod command;
pub mod transport;

#[cfg(test)]
mod contract;
mod gridengine;
mod lines;
mod loadleveler;
mod local;
pub mod openstack;
mod pbs;
mod script;
mod silence;
mod slurm;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod transcripts;
mod unread;

use std::collections::HashMap;

use command::{AdapterError, AllocationRequest, BatchId, BatchJob, Command, Output, Queue, QueueLoad};
use profiles::site::Site;

/// A backend as a codec.
pub trait Adapter: Send + Sync {
    /// The word by which platforms name it.
    fn name(&self) -> &'static str;

    /// What asks for an allocation.
    fn submit(&self, request: &AllocationRequest) -> Command;

    /// The platform's own id from its answer. Errors: refused, or an answer that says neither.
    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError>;

    /// What lists all allocations whose tag begins so, in one call.
    fn list(&self, tag_prefix: &str) -> Command;

    /// The same where allocations with these ids may be there, too, the newest last: perhaps not where commands go
    /// today, and under other names.
    fn list_with(&self, tag_prefix: &str, _known: &[BatchId]) -> Command {
        self.list(tag_prefix)
    }

    /// What is there. Errors: no answer is never "gone".
    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError>;

    /// Whether an id of a listing is that job which was submitted under the other id: a listing may show less of it.
    fn is_same_job(&self, listed: &str, submitted: &str) -> bool {
        listed == submitted
    }

    /// Whether allocations are processes of this host, so that a listing shows their end at once.
    fn is_local(&self) -> bool {
        false
    }

    /// What takes allocations away. Those that are gone already are no error.
    fn cancel(&self, ids: &[BatchId]) -> Command;

    /// What prints why an allocation of ours waits, in the platform's words; `None` where none says it.
    fn why_it_waits(&self, _id: &str) -> Option<Command> {
        None
    }

    /// The command that prints the age of the job with this id, in seconds since its submission by the batch system's
    /// clock. `None`: the batch system uses no id twice, or has no such command.
    fn age(&self, _id: &str) -> Option<Command> {
        None
    }

    /// What prints the batch system's version; `None` where there is none.
    fn version(&self) -> Option<Command> {
        None
    }

    /// What describes the platform's queues; `None` where there are none.
    fn describe(&self) -> Option<Command> {
        None
    }

    /// The queues. Errors: no answer, or one of a form that we do not know.
    fn read_describe(&self, output: &Output) -> Result<Vec<Queue>, AdapterError> {
        self.read_describe_with(output, &mut Vec::new())
    }

    /// The same. What is not understood and left out is added to `left_out`, in words for people.
    fn read_describe_with(
        &self,
        output: &Output,
        _left_out: &mut Vec<String>,
    ) -> Result<Vec<Queue>, AdapterError> {
        Err(AdapterError::NotUnderstood(output.words()))
    }

    /// The command that lists the accounts that our user may name; `None` where there is no such command.
    fn accounts(&self) -> Option<Command> {
        None
    }

    /// Their names, of an answer that succeeded: one in each line.
    fn read_accounts(&self, output: &Output) -> Vec<String> {
        // A line with blanks is what a site has to say.
        let is_name = |name: &&str| !name.is_empty() && !name.contains(char::is_whitespace);
        let names = output.stdout.lines().map(str::trim).filter(is_name);
        names.map(str::to_owned).collect()
    }

    /// Whether an account that is listed is the one of that name.
    fn is_same_account(&self, listed: &str, name: &str) -> bool {
        listed == name
    }

    /// What asks how busy the account's queue is; `None` where nobody waits.
    fn load(&self) -> Option<Command> {
        None
    }

    /// How busy it is. Errors: as above.
    fn read_load(&self, output: &Output) -> Result<QueueLoad, AdapterError> {
        self.read_load_with(output, &mut Vec::new())
    }

    /// The same. What is not understood and left out is added to `left_out`, in words for people.
    fn read_load_with(
        &self,
        output: &Output,
        _left_out: &mut Vec<String>,
    ) -> Result<QueueLoad, AdapterError> {
        Err(AdapterError::NotUnderstood(output.words()))
    }
}

/// Where this program finds what adapters need on this host.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// How the agent is run where the commands are: the program and its first arguments.
    pub agent_command: Vec<String>,
}

/// The adapter of that name for an account; `None` when there is none.
pub fn adapter(name: &str, surroundings: &Surroundings, site: &Site) -> Option<Box<dyn Adapter>> {
    match name {
        local::NAME => Some(Box::new(local::Local::new(local::NAME, surroundings, site))),
        local::HOSTS_NAME => Some(Box::new(local::Local::new(local::HOSTS_NAME, surroundings, site))),
        gridengine::NAME => Some(Box::new(gridengine::GridEngine::new(surroundings, site))),
        loadleveler::NAME => Some(Box::new(loadleveler::LoadLeveler::new(surroundings, site))),
        pbs::NAME => Some(Box::new(pbs::Pbs::new(surroundings, site))),
        slurm::NAME => Some(Box::new(slurm::Slurm::new(surroundings, site))),
        _ => None,
    }
}

pub use script::JOIN_FILE;

/// Whether allocations of that adapter have their join documents in files, which one that is killed may leave
/// behind.
pub fn leaves_join_files(adapter: &str, n_nodes: u32) -> bool {
    match adapter {
        gridengine::NAME | loadleveler::NAME => true,
        pbs::NAME => n_nodes > 1,
        _ => false,
    }
}

/// The adapter whose pilots are processes of this host.
pub const LOCAL_NAME: &str = local::NAME;

/// The names that [`adapter`] knows. [`openstack`] is a platform of another kind.
pub const NAMES: &[&str] =
    &[local::NAME, local::HOSTS_NAME, gridengine::NAME, loadleveler::NAME, pbs::NAME, slurm::NAME];

/// Prints how many seconds ago the time in `$submitted` was, of a host's own clock and zone.
const AGE_OF_SUBMITTED: &str =
    r#"[ -n "$submitted" ] && at=$(date -d "$submitted" +%s) && echo $(($(date +%s) - at))"#;

/// Jobs of a listing that bear no tag with this prefix and have the id of a job that may be there: the place of each in
/// `jobs`, and in `known`, which has the ids and tags of those. Somebody has renamed such a job, or its batch system has
/// used the id again. A job that bears a tag is that of the tag.
pub fn renamed(
    adapter: &dyn Adapter,
    tag_prefix: &str,
    known: &[(BatchId, String)],
    jobs: &[BatchJob],
) -> Vec<(usize, usize)> {
    let places: HashMap<&str, usize> =
        known.iter().enumerate().map(|(place, (id, _))| (id.as_str(), place)).collect();
    let is_tag = |name: &str| {
        let number = name.strip_prefix(tag_prefix);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let without_tag = jobs.iter().enumerate().filter(|(_, job)| !is_tag(&job.tag));
    let of_known = |(place, job): (usize, &BatchJob)| {
        let same = || known.iter().position(|(id, _)| adapter.is_same_job(&job.id, id));
        Some((place, places.get(job.id.as_str()).copied().or_else(same)?))
    };
    without_tag.filter_map(of_known).collect()
}

/// So many ids of jobs that may be there are named to the commands of a listing, the newest: an argument has an end.
const N_KNOWN_MAX: usize = 64;

/// The newest of the ids that may be there, which come last.
fn newest(known: &[BatchId]) -> impl Iterator<Item = BatchId> {
    known.iter().skip(known.len().saturating_sub(N_KNOWN_MAX)).cloned()
}

/// What the tags of all managers begin with.
pub const TAG_PREFIX: &str = "pf";

/// Whether a word may be a tag of a manager: what cannot be read in a listing is left out only if it has none.
fn looks_like_ours(word: &str) -> bool {
    let rest = word.trim().strip_prefix(TAG_PREFIX);
    rest.is_some_and(|rest| {
        rest.contains('-') && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

/// All words by which platforms name what they are.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().chain([openstack::NAME])
}
