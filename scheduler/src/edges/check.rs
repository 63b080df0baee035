//! Checks of a workflow's dependencies before any of it is accepted: the numbers of tasks must match, and
//! there must be no circles.

use std::collections::BTreeMap;

use super::{Edges, Listed};
use crate::ids::JobId;

/// A stage of a workflow, identified by its position: its number of tasks and its dependencies on other
/// stages.
#[derive(Clone, Debug)]
pub struct Shape<'a> {
    /// Number of tasks.
    pub n_tasks: u64,
    /// Edges from stages of the same workflow, possibly from the stage itself.
    pub after: Vec<(usize, &'a Edges)>,
}

/// A member of a circle: a stage's position, and the index of a task in it; `None`: any of its tasks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Knot {
    /// The stage's position.
    pub stage: usize,
    /// The task in it.
    pub task: Option<u64>,
}

/// The reason for refusing a workflow. Stages are named by their positions from 0.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EdgeProblem {
    /// The named stage does not exist.
    #[error("stage {stage} comes after stage {found}, and there are stages 0 to {}", .n_stages.saturating_sub(1))]
    NoStage {
        /// The stage that has the dependency.
        stage: usize,
        /// The stage that it names.
        found: usize,
        /// Number of stages.
        n_stages: usize,
    },
    /// The named job does not exist.
    #[error("stage {stage} comes after job {job}, and there is none of that number")]
    NoJob {
        /// The stage that has the dependency.
        stage: usize,
        /// The job that it names.
        job: JobId,
    },
    /// The numbers of tasks do not fit the rule.
    #[error("stage {stage} has {found} tasks after {n_on} by `{rule}`; {wanted} tasks would be right")]
    Sizes {
        /// The stage that has the dependency.
        stage: usize,
        /// Number of tasks that it has.
        found: u64,
        /// Number of tasks that it waits for.
        n_on: u64,
        /// The rule of the dependency.
        rule: &'static str,
        /// Number of tasks that would be right.
        wanted: u64,
    },
    /// An edge from or to a task that does not exist.
    #[error("stage {stage} has an edge from task {before} of {n_on} to one of {found} tasks")]
    NoTask {
        /// The stage that has the dependency.
        stage: usize,
        /// The largest index of a task that is waited for.
        before: u64,
        /// Number of tasks that can be waited for.
        n_on: u64,
        /// Number of tasks of the stage.
        found: u64,
    },
    /// Tasks that wait for each other.
    #[error("tasks wait for each other: {}", circle(.0))]
    Circle(Vec<Knot>),
}

fn circle(knots: &[Knot]) -> String {
    let words = knots.iter().map(|knot| match knot.task {
        Some(task) => format!("{}.{task}", knot.stage),
        None => format!("stage {}", knot.stage),
    });
    words.collect::<Vec<String>>().join(" → ")
}

/// Checks that the stages can run: every edge connects existing tasks, and no task waits for itself. O(stages
/// + listed edges).
pub fn check(stages: &[Shape<'_>]) -> Result<(), EdgeProblem> {
    for (stage, shape) in stages.iter().enumerate() {
        for (on, edges) in &shape.after {
            let n_stages = stages.len();
            let before = stages.get(*on).ok_or(EdgeProblem::NoStage { stage, found: *on, n_stages })?;
            sizes(stage, edges, shape.n_tasks, before.n_tasks)?;
        }
    }
    for knot in knots(stages) {
        match knot.as_slice() {
            [alone] if stages[*alone].after.iter().all(|(on, _)| on != alone) => {}
            _ => untie(stages, &knot)?,
        }
    }
    Ok(())
}

/// Checks whether `found` tasks can come after `n_on` tasks by these edges.
pub fn sizes(stage: usize, edges: &Edges, found: u64, n_on: u64) -> Result<(), EdgeProblem> {
    let wrong = |rule, wanted| Err(EdgeProblem::Sizes { stage, found, n_on, rule, wanted });
    match edges {
        Edges::All => Ok(()),
        Edges::Same if found == n_on => Ok(()),
        Edges::Same => wrong("same", n_on),
        Edges::Groups(width) if *width > 0 && found == n_on.div_ceil(*width) => Ok(()),
        Edges::Groups(width) => wrong("groups", n_on.div_ceil((*width).max(1))),
        Edges::Spread(width) if *width > 0 && n_on.checked_mul(*width) == Some(found) => Ok(()),
        Edges::Spread(width) => wrong("spread", n_on.saturating_mul(*width)),
        Edges::Listed(listed) => {
            let last = listed.last().filter(|last| *last >= n_on);
            match (last, listed.n_lists() > found) {
                (None, false) => Ok(()),
                (last, _) => {
                    Err(EdgeProblem::NoTask { stage, before: last.unwrap_or(listed.n_lists()), n_on, found })
                }
            }
        }
    }
}

/// Returns the sets of stages that come after each other: the strongly connected components, by Tarjan's
/// search without recursion.
fn knots(stages: &[Shape<'_>]) -> Vec<Vec<usize>> {
    let n = stages.len();
    let (mut number, mut low, mut is_open) = (vec![usize::MAX; n], vec![0; n], vec![false; n]);
    let (mut open, mut found, mut n_seen) = (Vec::new(), Vec::new(), 0);
    for root in 0..n {
        let mut path = if number[root] == usize::MAX { vec![(root, 0)] } else { Vec::new() };
        while let Some((at, next)) = path.last_mut() {
            let at = *at;
            if *next == 0 {
                (number[at], low[at], is_open[at]) = (n_seen, n_seen, true);
                open.push(at);
                n_seen += 1;
            }
            let before = stages[at].after.get(*next).map(|(on, _)| *on);
            *next += 1;
            match before {
                Some(on) if number[on] == usize::MAX => path.push((on, 0)),
                Some(on) if is_open[on] => low[at] = low[at].min(number[on]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        low[*above] = low[*above].min(low[at]);
                    }
                    if low[at] == number[at] {
                        let start = open.iter().rposition(|held| *held == at).unwrap_or(0);
                        let knot: Vec<usize> = open.split_off(start);
                        knot.iter().for_each(|held| is_open[*held] = false);
                        found.push(knot);
                    }
                }
            }
        }
    }
    found
}

/// Checks that stages that come after each other contain no circle of tasks. Only listed edges are searched
/// task by task; a rule among such stages is refused as a circle.
fn untie(stages: &[Shape<'_>], knot: &[usize]) -> Result<(), EdgeProblem> {
    let by_rule = |stage: &usize| {
        let mut after = stages[*stage].after.iter().filter(|(on, _)| knot.contains(on));
        after.any(|(_, edges)| !matches!(edges, Edges::Listed(_)))
    };
    if knot.iter().any(by_rule) {
        return Err(EdgeProblem::Circle(walk(stages, knot)));
    }
    let place: BTreeMap<usize, usize> = knot.iter().enumerate().map(|(at, stage)| (*stage, at)).collect();
    let mut search = Search { stages, knot, place, colours: BTreeMap::new() };
    for (at, stage) in knot.iter().enumerate() {
        let listed = search.lists(*stage);
        let n_lists = listed.iter().map(|(_, listed)| listed.n_lists()).max().unwrap_or(0);
        for task in 0..n_lists {
            search.from((at, task))?;
        }
    }
    Ok(())
}

/// Returns a circle of stages that come after each other.
fn walk(stages: &[Shape<'_>], knot: &[usize]) -> Vec<Knot> {
    let (mut path, mut at) = (Vec::new(), knot[0]);
    while !path.contains(&at) {
        path.push(at);
        let on = stages[at].after.iter().map(|(on, _)| *on).find(|on| knot.contains(on));
        at = on.unwrap_or(at);
    }
    let start = path.iter().position(|held| *held == at).unwrap_or(0);
    let mut round = path.split_off(start);
    round.push(at);
    // The walk went against the direction of the edges.
    round.reverse();
    round.into_iter().map(|stage| Knot { stage, task: None }).collect()
}

/// Looks for circles of listed tasks, depth first.
struct Search<'a> {
    stages: &'a [Shape<'a>],
    knot: &'a [usize],
    place: BTreeMap<usize, usize>,
    /// The state of each stage's tasks: 0 not seen, 1 on the path, 2 done.
    colours: BTreeMap<usize, Vec<u8>>,
}

impl<'a> Search<'a> {
    /// Returns the listed edges of a stage to other stages of the knot, each with that stage's place in the
    /// knot.
    fn lists(&self, stage: usize) -> Vec<(usize, &'a Listed)> {
        let listed = self.stages[stage].after.iter().filter_map(|(on, edges)| match edges {
            Edges::Listed(listed) => Some((*self.place.get(on)?, listed)),
            _ => None,
        });
        listed.collect()
    }

    fn colour(&mut self, (at, task): (usize, u64)) -> &mut u8 {
        let colours = self.colours.entry(at).or_default();
        if colours.len() as u64 <= task {
            colours.resize(task as usize + 1, 0);
        }
        &mut colours[task as usize]
    }

    fn from(&mut self, root: (usize, u64)) -> Result<(), EdgeProblem> {
        if *self.colour(root) != 0 {
            return Ok(());
        }
        *self.colour(root) = 1;
        let mut path = vec![(root, self.before(root))];
        while let Some((at, before)) = path.last_mut() {
            let at = *at;
            let Some(next) = before.pop() else {
                *self.colour(at) = 2;
                path.pop();
                continue;
            };
            match *self.colour(next) {
                0 => {
                    *self.colour(next) = 1;
                    let before = self.before(next);
                    path.push((next, before));
                }
                1 => {
                    let start = path.iter().position(|(held, _)| *held == next).unwrap_or(0);
                    let round = path[start..].iter().map(|(held, _)| *held).chain([next]);
                    let knots = round.map(|(at, task)| Knot { stage: self.knot[at], task: Some(task) });
                    let mut knots: Vec<Knot> = knots.collect();
                    knots.reverse();
                    return Err(EdgeProblem::Circle(knots));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn before(&self, (at, task): (usize, u64)) -> Vec<(usize, u64)> {
        let lists = self.lists(self.knot[at]);
        lists.into_iter().flat_map(|(on, listed)| listed.of(task).map(move |before| (on, before))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, check};
    use crate::edges::{Edges, Listed};

    fn listed(lists: &[&[u64]]) -> Edges {
        Edges::Listed(Listed::new(lists.iter().map(|list| list.iter().copied())).unwrap())
    }

    fn problem(stages: &[(u64, &[(usize, &Edges)])]) -> Option<String> {
        let stages: Vec<Shape<'_>> = stages
            .iter()
            .map(|(n_tasks, after)| Shape { n_tasks: *n_tasks, after: after.to_vec() })
            .collect();
        check(&stages).err().map(|problem| problem.to_string())
    }

    #[test]
    fn sizes_that_do_not_match_are_refused_with_what_would() {
        assert_eq!(problem(&[(4, &[]), (4, &[(0, &Edges::Same)]), (2, &[(1, &Edges::Groups(2))])]), None);
        let found = problem(&[(4, &[]), (3, &[(0, &Edges::Same)])]).unwrap();
        assert_eq!(found, "stage 1 has 3 tasks after 4 by `same`; 4 tasks would be right");
        let found = problem(&[(4, &[]), (3, &[(0, &Edges::Groups(2))])]).unwrap();
        assert_eq!(found, "stage 1 has 3 tasks after 4 by `groups`; 2 tasks would be right");
        let found = problem(&[(4, &[]), (1, &[(0, &listed(&[&[4]]))])]).unwrap();
        assert_eq!(found, "stage 1 has an edge from task 4 of 4 to one of 1 tasks");
        let found = problem(&[(4, &[(7, &Edges::All)])]).unwrap();
        assert_eq!(found, "stage 0 comes after stage 7, and there are stages 0 to 0");
    }

    #[test]
    fn circles_are_refused_with_their_way() {
        let found = problem(&[(2, &[(1, &Edges::All)]), (2, &[(0, &Edges::All)])]).unwrap();
        assert!(found.starts_with("tasks wait for each other: stage "), "{found}");
        let found = problem(&[(3, &[(0, &Edges::Same)])]).unwrap();
        assert_eq!(found, "tasks wait for each other: stage 0 → stage 0");
        let found = problem(&[(4, &[(0, &listed(&[&[], &[3], &[1], &[2]]))])]).unwrap();
        assert_eq!(found, "tasks wait for each other: 0.1 → 0.2 → 0.3 → 0.1");
    }

    #[test]
    fn stages_may_come_after_each_other_as_long_as_their_tasks_do_not() {
        let (there, back) = (listed(&[&[], &[0]]), listed(&[&[0]]));
        assert_eq!(problem(&[(2, &[(1, &there)]), (1, &[(0, &back)])]), None);
        let (there, back) = (listed(&[&[], &[0]]), listed(&[&[1]]));
        let found = problem(&[(2, &[(1, &there)]), (1, &[(0, &back)])]).unwrap();
        assert!(found.contains("0.1") && found.contains("1.0"), "{found}");
    }

    #[test]
    fn a_million_edges_are_checked_without_recursion() {
        let chain = Edges::Listed(Listed::new((0..1_000_000_u64).map(|i| i.checked_sub(1))).unwrap());
        assert_eq!(problem(&[(1_000_000, &[(0, &chain)])]), None);
    }
}
