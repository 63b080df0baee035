//! Returns tasks that have not begun to the manager, or gives them to other pilots by way of it: a report
//! names the receiver, and the manager sends the tasks there.

use super::{PilotAction, PilotCore};
use crate::{
    ids::{JobId, PilotId},
    ranges::TaskSet,
};

impl PilotCore {
    pub(super) fn give_back_all(&mut self, actions: &mut Vec<PilotAction>) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.give_back(job, &TaskSet::from(0..u64::MAX), actions);
        }
    }

    /// Returns those of the tasks that have not begun to the manager.
    pub(super) fn give_back(&mut self, job: JobId, tasks: &TaskSet, actions: &mut Vec<PilotAction>) {
        self.withdraw(job, tasks, actions);
        let mut returned = self.unstage(job, tasks, actions);
        if let Some(queue) = self.jobs.get_mut(&job) {
            returned.insert_all(&queue.remove(tasks));
        }
        if !returned.is_empty() {
            self.gathered.entry(job).or_default().returned.insert_all(&returned);
        }
    }

    /// Gives those of the tasks that have not begun to another pilot.
    pub(super) fn give(&mut self, to: PilotId, job: JobId, tasks: &TaskSet, actions: &mut Vec<PilotAction>) {
        let mut given = self.unstage(job, tasks, actions);
        let Some(queue) = self.jobs.get_mut(&job) else { return };
        given.insert_all(&queue.remove(tasks));
        if !given.is_empty() {
            queue.note_gone(&given);
            self.gathered.entry(job).or_default().given.entry(to).or_default().insert_all(&given);
        }
    }
}
