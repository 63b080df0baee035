//! The design's rules on the state at rest. Tests and simulators check them after every event.

use super::Engine;
use crate::ranges::TaskSet;

impl Engine {
    /// Panics when a rule is broken, naming it. O(state): for tests.
    pub fn check_invariants(&self) {
        for (id, leases) in &self.volatile.jobs {
            let job = &self.durable.jobs()[id];
            assert!(job.ended_at.is_none(), "job {id} is over and still has leases");
            let mut held = TaskSet::new();
            let mut n_running = 0;
            for (pilot, state) in &self.volatile.pilots {
                let Some(tasks) = state.leases.get(id) else { continue };
                assert!(
                    held.intersection(tasks).is_empty(),
                    "a task of job {id} is leased twice, to {pilot} too"
                );
                held.insert_all(tasks);
                n_running += state.running.get(id).map_or(0, TaskSet::len);
            }
            assert_eq!(held.len(), leases.n_leased, "the sum of leases of job {id} is wrong");
            assert_eq!(n_running, leases.n_running, "the sum of running tasks of job {id} is wrong");
            assert!(
                held.intersection(&leases.ready).is_empty(),
                "a task of job {id} is both ready and leased"
            );
            assert_eq!(held.intersection(&job.open), held, "a closed task of job {id} is leased");
            assert_eq!(
                leases.ready.intersection(&job.open),
                leases.ready,
                "a closed task of job {id} is ready"
            );
            self.check_no_task_is_lost(*id, &held);
        }
        for (id, job) in self.durable.jobs() {
            let n_closed = job.n_done() + job.failed.len() + job.cancelled.len();
            assert_eq!(n_closed + job.open.len(), job.request.n_tasks, "tasks of job {id} do not add up");
            assert!(job.failed.intersection(&job.cancelled).is_empty(), "a task of job {id} has ended twice");
            assert_eq!(job.ended_at.is_some(), job.open.is_empty(), "job {id} is over or not, not both");
        }
        let n_unsynced = self.volatile.pilots.values().filter(|state| !state.is_synced).count();
        assert_eq!(n_unsynced, self.volatile.n_unsynced, "pilots not in step are counted wrong");
        for (id, state) in &self.volatile.pilots {
            assert!(self.durable.pilots()[id].is_live(), "pilot {id} is gone and still has a state");
            assert_eq!(
                state.parked.is_some(),
                self.volatile.parked.contains(id),
                "pilot {id} is half parked"
            );
        }
    }

    /// Every open task is ready, leased, or waits for its retry with a timer armed.
    fn check_no_task_is_lost(&self, id: crate::ids::JobId, held: &TaskSet) {
        let job = &self.durable.jobs()[&id];
        let mut lost = job.open.clone();
        lost.remove_all(held);
        lost.remove_all(&self.volatile.jobs[&id].ready);
        for (_, timer) in &self.volatile.timers {
            if let super::Timer::Retry(task) = timer
                && task.job == id
            {
                lost.remove(task.index);
            }
        }
        assert!(lost.is_empty(), "tasks {lost} of job {id} are lost");
    }
}
