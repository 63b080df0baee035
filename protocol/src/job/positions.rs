//! Edges that go by the positions of tasks, between stages that have parameters in common. Job files never have those
//! join tasks with different values; a workflow that comes through the API must not either.

use std::collections::BTreeSet;

use scheduler::edges::Edges;
use scheduler::ranges::TaskSet;

use crate::job::{AfterSpec, OnSpec, StageSpec, WorkflowSpec};
use crate::problem::{Problem, quoted};

/// So many edges are looked at, of all stages together.
const N_EDGES_CHECKED: u64 = 100_000;

/// Parameters of stages that take so many tasks each of another's: positions, not values that belong together.
const OF_PARTS: [&str; 2] = ["first", "last"];

impl WorkflowSpec {
    /// Refuses edges by position that join tasks with different values of a parameter that both stages have.
    pub(super) fn check_positions(&self) -> Option<Problem> {
        let mut n_left = N_EDGES_CHECKED;
        self.stages
            .iter()
            .flat_map(|stage| stage.after.iter().map(move |after| (stage, after)))
            .find_map(|(stage, after)| self.check_position(stage, after, &mut n_left))
    }

    /// Entries of `after`, by stage and position, that group tasks by the parameters that both stages have.
    pub(super) fn groups_by_name(&self) -> BTreeSet<(usize, usize)> {
        let mut groups = BTreeSet::new();
        for (at, stage) in self.stages.iter().enumerate() {
            for (entry, after) in stage.after.iter().enumerate() {
                let on = self.by_position(stage, after).filter(|_| matches!(after.edges, Edges::Groups(_)));
                if on.is_some() {
                    groups.insert((at, entry));
                }
            }
        }
        groups
    }

    /// The stage that is waited for, and the names of parameters that both have, if edges go by position and there are
    /// any.
    fn by_position<'s>(
        &'s self,
        stage: &'s StageSpec,
        after: &AfterSpec,
    ) -> Option<(&'s StageSpec, Vec<&'s str>)> {
        if !matches!(after.edges, Edges::Same | Edges::Groups(_) | Edges::Spread(_)) {
            return None;
        }
        let OnSpec::Stage(on) = after.on else { return None };
        let on = self.stages.get(on)?;
        let is_common = |name: &&str| on.job.sweep.names().any(|other| other == *name);
        let common: Vec<&str> = stage.job.sweep.names().filter(is_common).collect();
        let is_of_parts = common.iter().all(|name| OF_PARTS.contains(name));
        (!is_of_parts).then_some((on, common))
    }

    fn check_position(&self, stage: &StageSpec, after: &AfterSpec, n_left: &mut u64) -> Option<Problem> {
        let (on, common) = self.by_position(stage, after)?;
        let (own_sweep, on_sweep) = (&stage.job.sweep, &on.job.sweep);
        for task in 0..own_sweep.n_tasks() {
            let own = own_sweep.parameters(task);
            let before =
                after.edges.predecessors(&TaskSet::from(task..task.saturating_add(1)), on_sweep.n_tasks());
            for other in before.indices() {
                *n_left = n_left.checked_sub(1)?;
                let others = on_sweep.parameters(other);
                for name in &common {
                    let (own, other_value) = (own.value(name)?.to_string(), others.value(name)?.to_string());
                    if own == other_value {
                        continue;
                    }
                    let found = format!(
                        "edges by position that join task {task} with {name} = {} and task {other} of stage {} with \
                         {name} = {}",
                        quoted(&own),
                        quoted(&on.name),
                        quoted(&other_value)
                    );
                    let expected = "list the edges of tasks with the same values, put the parameters of both sweeps in \
                                    the same order, or give the parameter another name in one stage";
                    return Some(Problem::new(format!("stages.{}.after", stage.name), found, expected));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
