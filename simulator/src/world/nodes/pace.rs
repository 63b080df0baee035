//! How tasks on one node slow each other down, where a scenario says that they do: whenever one begins or
//! ends there, the others' ends move.

use scheduler::{
    ids::TaskId,
    pilot::Ending,
    results::FailureKind,
    time::{Span, Time},
};

use super::super::{Happening, World, course::Course};

/// How far a running task is.
pub(super) struct Pace {
    pub(super) execution: usize,
    pub(super) application: usize,
    pub(super) cores: u32,
    /// What it still needs when it has the node for itself, microseconds.
    left_us: f64,
    /// Of its speed alone.
    rate: f64,
    since: Time,
    /// When it ends as things are; what was said of another time before is void.
    pub(super) ends_at: Time,
    /// How long it may run, and until when that is.
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

    /// From now on it has this rate: when and how it ends then.
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
    /// Another set of tasks runs on the node. O(tasks there).
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
