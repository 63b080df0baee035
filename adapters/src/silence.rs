//! An empty listing that is the answer of a command that failed: wrappers and pipes lose exit codes, and some commands end
//! with 0 although no server has answered them. What they wrote to standard error tells.

use crate::command::{AdapterError, BatchJob, Output};

/// Words of what went wrong.
const WRONG: [&str; 14] = [
    "error",
    "unable",
    "cannot",
    "can't",
    "could not",
    "failed",
    "failure",
    "refused",
    "denied",
    "timed out",
    "timeout",
    "unavailable",
    "not respond",
    "unreachable",
];

/// Words of batch systems and what they are made of. What a shell, a loader or a login script complains of has none.
const OF_A_BATCH_SYSTEM: [&str; 14] = [
    "slurm",
    "squeue",
    "controller",
    "munge",
    "qstat",
    "pbs",
    "torque",
    "qmaster",
    "commlib",
    "gdi ",
    "llq",
    "loadl",
    "negotiator",
    "schedd",
];

/// Lines that are none of a failure: what a command goes on in spite of, and jobs that have ended meanwhile.
const HARMLESS: [&str; 5] = ["warning", "ignored", "unknown job", "module", "job has finished"];

/// The jobs of a listing, unless there are none and what was said beside it is that of a failure.
///
/// # Errors
/// The words of that failure.
pub(crate) fn unless_it_failed(output: &Output, jobs: Vec<BatchJob>) -> Result<Vec<BatchJob>, AdapterError> {
    if jobs.is_empty() { failure_of(output).map_or(Ok(jobs), Err) } else { Ok(jobs) }
}

/// The failure that a command tells of although it ended with 0.
pub(crate) fn failure_of(output: &Output) -> Option<AdapterError> {
    let said = Output { stderr: failure(&output.stderr)?.to_owned(), ..output.clone() };
    Some(AdapterError::NotUnderstood(said.all_words()))
}

/// The first line that tells of a failure of a batch system's command.
fn failure(stderr: &str) -> Option<&str> {
    stderr.lines().map(str::trim).find(|line| is_failure(line))
}

fn is_failure(line: &str) -> bool {
    let lower = line.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    // Grid Engine's commands begin so, whatever follows.
    let is_of_command = line.starts_with("error: ") || has(&OF_A_BATCH_SYSTEM);
    has(&WRONG) && is_of_command && !has(&HARMLESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_commands_that_failed_are_told_from_what_shells_and_loaders_say() {
        for line in [
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            "squeue: error: Invalid user: ann",
            "slurm_load_jobs error: Socket timed out on send/recv operation",
            "squeue: error: Munge encode failed: Failed to access \"/run/munge/munge.socket.2\"",
            "qstat: cannot connect to server pbs (errno=111)",
            "No Permission.\nqstat: cannot connect to server head (errno=15007)",
            "error: commlib error: got select error (Connection refused)",
            "error: unable to contact qmaster using port 6444 on host \"head\"",
            "error: failed receiving gdi request response for mid=1 (got syncron message receive timeout error).",
            "llq: 2512-301 An error occurred while receiving data from the LoadL_negotiator daemon on host c1.",
        ] {
            assert!(failure(line).is_some(), "{line}");
        }
        for line in [
            "",
            "bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8): No such file or directory",
            "ERROR: ld.so: object '/opt/xalt/lib64/libxalt_init.so' from LD_PRELOAD cannot be preloaded: ignored.",
            "/usr/bin/xauth: error in locking authority file /home/ann/.Xauthority; cannot connect",
            "Failed to connect to bus: No medium found",
            "quota: error while getting quota from nfs:/home for ann: Connection refused",
            "ERROR: Unable to locate a modulefile for 'slurm'",
            "Could not chdir to home directory /home/ann: Permission denied",
            "squeue: warning: controller is busy, the answer may be late",
            "qstat: Unknown Job Id Error 12.head",
            "qstat: 12.head Job has finished, use -x or -H to obtain historical job information",
            "llq: There is currently no job status to report.",
        ] {
            assert_eq!(failure(line), None, "{line}");
        }
    }
}
