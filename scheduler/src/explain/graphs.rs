//! Sentences about tasks that wait for others.

use std::fmt;

use super::{Reason, plural};

impl Reason {
    pub(super) fn write_about_graphs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::JobBlocked { n_tasks, open } => {
                let (verb, of) = if *n_tasks == 1 { ("waits", "") } else { ("wait", "s") };
                let open = open.iter().map(|(job, n)| format!("job {job} has {n} open"));
                let open = open.collect::<Vec<_>>().join(", ");
                write!(f, "{n_tasks} task{of} {verb} for others: {open}")
            }
            Reason::TaskBlocked { job, n, first, pilot } => {
                write!(f, "it waits for {n} task{} of job {job}", plural(*n))?;
                let which = if *n == 1 { "which is" } else { "the first is" };
                write!(f, ", {which} {first}, ")?;
                match pilot {
                    Some((pilot, true)) => write!(f, "running on pilot {pilot}"),
                    Some((pilot, false)) => write!(f, "sent ahead to pilot {pilot}"),
                    None => write!(f, "waiting itself"),
                }
            }
            Reason::TaskForsaken { before, has_failed } => {
                let how = if *has_failed { "failed for good" } else { "was cancelled" };
                write!(f, "it waited in vain: task {before} {how}; ")?;
                write!(f, "`pilotfish retry-failed {before}` opens that one again, and what waited for it")
            }
            Reason::JobForsaken { n_tasks, first, before, has_failed } => {
                let how = if *has_failed { "failed for good" } else { "was cancelled" };
                match n_tasks {
                    1 => write!(
                        f,
                        "task {first} was cancelled, as it waited for task {before}, which {how}; "
                    )?,
                    n => {
                        write!(
                            f,
                            "{n} tasks were cancelled, as they waited for others in vain: the first, {first}, "
                        )?;
                        write!(f, "for task {before}, which {how}; ")?;
                    }
                }
                write!(f, "`pilotfish retry-failed {before}` opens it again, and what waited for it")
            }
            other => other.write_about_platforms(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        explain::Reason,
        ids::{JobId, PilotId, TaskId},
    };

    #[test]
    fn what_waits_says_for_what() {
        let first = TaskId { job: JobId(4), index: 17 };
        let blocked = |n, pilot| Reason::TaskBlocked { job: JobId(4), n, first, pilot }.to_string();
        assert_eq!(
            blocked(3, Some((PilotId(2), true))),
            "it waits for 3 tasks of job 4, the first is 4.17, running on pilot 2"
        );
        assert_eq!(blocked(1, None), "it waits for 1 task of job 4, which is 4.17, waiting itself");
        let job = Reason::JobBlocked { n_tasks: 2, open: vec![(JobId(4), 3)] };
        assert_eq!(job.to_string(), "2 tasks wait for others: job 4 has 3 open");
        let own = TaskId { job: JobId(5), index: 0 };
        let job = Reason::JobForsaken { n_tasks: 1, first: own, before: first, has_failed: false };
        let expected = "task 5.0 was cancelled, as it waited for task 4.17, which was cancelled; \
            `pilotfish retry-failed 4.17` opens it again, and what waited for it";
        assert_eq!(job.to_string(), expected);
    }
}
