//! The mutual slow-down of tasks on one node, if a scenario has it: whenever a task begins or ends there, the
//! ends of the others move.

use scheduler::{
    ids::TaskId,
    pilot::Ending,
    results::FailureKind,
    time::{Span, Time},
};

use super::super::{Happening, World, course::Course};

/// The progress of a running task.
pub(super) struct Pace {
    pub(super) execution: usize,
    pub(super) application: usize,
    pub(super) cores: u32,
    /// Microseconds that it still needs when it is alone on the node.
    left_us: f64,
    /// Its speed relative to its speed alone.
    rate: f64,
    since: Time,
    /// Its expected end; events for other times are void.
    pub(super) ends_at: Time,
    /// Its time limit, and the time at which that ends.
    limit: Option<(Span, Time)>,
    ending: Ending,
}

impl Pace {
    pub(super) fn new(
        execution: usize,
        (application, cores): (usize, u32),
        course: &Course,
        limit: Option<Span>,
        now: Time,
    ) -> Pace {
        Pace {
            execution,
            application,
            cores,
            left_us: course.span.0 as f64,
            rate: 0.0,
            since: now,
            ends_at: Time(u64::MAX),
            limit: limit.map(|limit| (limit, now + limit)),
            ending: course.ending.clone(),
        }
    }

    /// Sets its rate; returns when and how it ends then.
    fn goes_on(&mut self, rate: f64, now: Time) -> (Time, Ending) {
        self.left_us -= now.since(self.since).0 as f64 * self.rate;
        (self.rate, self.since) = (rate, now);
        let ends_at = now + Span((self.left_us / rate).max(0.0).ceil() as u64);
        let (ends_at, ending) = match self.limit {
            Some((limit, until)) if until < ends_at => {
                (until, Ending::Failed(FailureKind::TimeLimit { limit }))
            }
            _ => (ends_at, self.ending.clone()),
        };
        self.ends_at = ends_at;
        (ends_at, ending)
    }
}

impl World<'_> {
    /// Moves the ends of tasks after a change of the tasks on the node. O(tasks there).
    pub(super) fn repace(&mut self, node: usize) {
        let Some(model) = self.scene.as_ref().map(|scene| &scene.model) else { return };
        let (now, life) = (self.now, self.nodes[node].life);
        let Some(process) = &mut self.nodes[node].process else { return };
        let mut busy = vec![0; model.n_applications()];
        process.paces.values().for_each(|pace| busy[pace.application] += pace.cores);
        let mut moved: Vec<(TaskId, usize, Time, Ending)> = Vec::new();
        for (task, pace) in &mut process.paces {
            let rate = model.rate(pace.application, pace.cores, &busy);
            if rate != pace.rate {
                let (ends_at, ending) = pace.goes_on(rate, now);
                moved.push((*task, pace.execution, ends_at, ending));
            }
        }
        for (task, execution, ends_at, ending) in moved {
            self.after(ends_at.since(now), Happening::TaskEnds { node, life, task, execution, ending });
        }
    }
}
