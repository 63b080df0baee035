//! Which tasks of two stages belong together: those with the same values of the parameters that both stages have,
//! compared as text, whatever the order of the sweeps' entries.

use std::collections::{HashMap, HashSet};

use scheduler::edges::{Edges, Listed, N_EDGES_MAX};

use crate::problem::quoted;
use crate::sweep::{Column, Dimension, Sweep, Values};

/// Which task waits for which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    All,
    Same,
    Groups,
    Spread,
}

impl Rule {
    /// How files write it.
    fn word(self) -> &'static str {
        RULES.iter().find(|(_, rule)| *rule == self).map_or("", |(word, _)| *word)
    }
}

pub(super) const RULES: [(&str, Rule); 4] =
    [("all", Rule::All), ("same", Rule::Same), ("groups", Rule::Groups), ("spread", Rule::Spread)];

/// What was found and what would be right.
pub(super) type Refusal = (String, String);

/// Values of a dimension that are compared one by one to find out whether they differ.
const N_COMPARED_MAX: u64 = 1 << 22;

/// Parameter names that a message shows.
const N_SHOWN_MAX: usize = 4;

/// The edges to a stage with the sweep `own` from a job that was submitted before, called `job` in messages, each task
/// for the one with the same parameters. `None`: they have no parameter in common, and go by position.
///
/// # Errors
/// Tasks that do not belong together one by one: what was found and what would be right.
pub fn same_tasks(own: &Sweep, job: &str, on: &Sweep) -> Option<Result<Edges, (String, String)>> {
    edges(Rule::Same, own, job, on)
}

/// The edges from `other`, as messages call it (``stage `mc` ``), with the sweep `on` to a stage with the sweep `own`.
/// `None`: they have no parameter in common.
/// O(1) where both sweeps have the common parameters first and in the same order; else O(tasks of both).
///
/// # Errors
/// A task that belongs to no task of the other stage, or to more than the rule allows; too many edges.
pub(super) fn edges(rule: Rule, own: &Sweep, other: &str, on: &Sweep) -> Option<Result<Edges, Refusal>> {
    let common: Vec<Common> = own
        .names()
        .enumerate()
        .filter_map(|(own_place, name)| {
            let on_place = on.names().position(|other| other == name)?;
            Some(Common { name: name.to_owned(), own_place, on_place })
        })
        .collect();
    if common.is_empty() {
        return None;
    }
    if rule == Rule::Same && own.n_tasks() != on.n_tasks() {
        // The sizes are refused in words of their own.
        return Some(Ok(Edges::Same));
    }
    let pair = Pair { rule, own, other, on, common };
    Some(match pair.by_order() {
        Some(edges) => Ok(edges),
        None => pair.one_by_one(),
    })
}

/// A parameter that both stages have.
struct Common {
    name: String,
    /// Its place among the parameters of the stage that waits.
    own_place: usize,
    /// Its place among those of the stage that is waited for.
    on_place: usize,
}

/// The length of a dimension, and its columns that both stages have.
type Leading<'d> = (u64, Vec<&'d Column>);

struct Pair<'s> {
    rule: Rule,
    own: &'s Sweep,
    /// What messages call the stage or job that is waited for.
    other: &'s str,
    on: &'s Sweep,
    common: Vec<Common>,
}

/// Tasks of the stage that is waited for, by class: tasks of both stages with the same values have the same class.
struct Classes {
    own: Vec<u32>,
    on: Vec<u32>,
    /// Where the members of each class begin, and where those of the last end.
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl Pair<'_> {
    /// The rule that the orders of the sweeps give without a look at single tasks, if they do.
    fn by_order(&self) -> Option<Edges> {
        if self.rule == Rule::Same
            && self.is_aligned()
            && (self.have_same_parameters() || self.tells_tasks_apart())
        {
            return Some(Edges::Same);
        }
        if self.own.sample.is_some() || self.on.sample.is_some() {
            return None;
        }
        let (own, n_own) = self.leading(self.own)?;
        let (on, n_on) = self.leading(self.on)?;
        let is_equal = own.len() == on.len() && own.iter().zip(&on).all(|(own, on)| own == on);
        if !is_equal || !own.iter().all(|(len, columns)| is_distinct(*len, columns)) {
            return None;
        }
        match (self.rule, n_own, n_on) {
            (_, 1, 1) => Some(Edges::Same),
            (Rule::Groups, 1, width) => Some(Edges::Groups(width)),
            (Rule::Groups | Rule::Spread, width, 1) => Some(Edges::Spread(width)),
            _ => None,
        }
    }

    /// Whether the common parameters have the same values at each index.
    fn is_aligned(&self) -> bool {
        let (own, on) = (&self.own.dimensions, &self.on.dimensions);
        let is_same = |(own, on): (&Dimension, &Dimension)| {
            own.len() == on.len() && self.common_columns(own) == self.common_columns(on)
        };
        self.own.sample == self.on.sample && own.len() == on.len() && own.iter().zip(on).all(is_same)
    }

    /// Whether both stages have the same parameters and no others: tasks with the same values differ in nothing.
    fn have_same_parameters(&self) -> bool {
        [self.own, self.on].iter().all(|sweep| sweep.names().count() == self.common.len())
    }

    /// Whether the values of the common parameters name one task only, as far as that can be told cheaply.
    fn tells_tasks_apart(&self) -> bool {
        self.own.dimensions.iter().all(|dimension| {
            let columns = self.common_columns(dimension);
            dimension.len() <= 1 || (!columns.is_empty() && is_distinct(dimension.len(), &columns))
        })
    }

    /// The columns of a dimension that both stages have, by name.
    fn common_columns<'d>(&self, dimension: &'d Dimension) -> Vec<&'d Column> {
        let is_common = |column: &&Column| self.common.iter().any(|common| common.name == column.name);
        let mut columns: Vec<&Column> = dimension.columns.iter().filter(is_common).collect();
        columns.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        columns
    }

    /// The common columns of each dimension that has some, and how many tasks there are for each combination of them;
    /// `None` if a dimension without any comes before one of those.
    fn leading<'d>(&self, sweep: &'d Sweep) -> Option<(Vec<Leading<'d>>, u64)> {
        let (mut leading, mut n_each) = (Vec::new(), 1_u64);
        for dimension in &sweep.dimensions {
            let columns = self.common_columns(dimension);
            match (columns.is_empty(), n_each) {
                (true, _) => n_each = n_each.checked_mul(dimension.len())?,
                (false, 1) => leading.push((dimension.len(), columns)),
                (false, _) => return None,
            }
        }
        Some((leading, n_each))
    }

    fn one_by_one(&self) -> Result<Edges, Refusal> {
        let (n_own, n_on) = (self.own.n_tasks(), self.on.n_tasks());
        if n_own.max(n_on) > N_EDGES_MAX {
            return Err(self.too_many(n_own.max(n_on), "tasks"));
        }
        let classes = self.classes(n_own, n_on);
        if self.rule == Rule::Same && classes.own == classes.on && self.have_same_parameters() {
            return Ok(Edges::Same);
        }
        let mut is_taken = vec![false; classes.starts.len()];
        let mut n_edges = 0;
        for (task, class) in classes.own.iter().enumerate() {
            let n_members = classes.of(*class).len();
            n_edges += n_members as u64;
            if n_members == 0 {
                return Err(self.alone(task as u64));
            }
            let is_second = std::mem::replace(&mut is_taken[*class as usize], true);
            match self.rule {
                Rule::Same if n_members == 1 && is_second => return Err(self.twice(task as u64)),
                Rule::Same | Rule::Spread if n_members > 1 => {
                    return Err(self.several(task as u64, n_members));
                }
                _ => {}
            }
        }
        if n_edges > N_EDGES_MAX {
            return Err(self.too_many(n_edges, "edges"));
        }
        if let Some(edges) = classes.rule() {
            return Ok(edges);
        }
        let lists =
            classes.own.iter().map(|class| classes.of(*class).iter().map(|member| u64::from(*member)));
        Listed::new(lists).map(Edges::Listed).map_err(|_| self.too_many(n_edges, "edges"))
    }

    fn classes(&self, n_own: u64, n_on: u64) -> Classes {
        let (mut own, mut on) = (vec![0_u32; n_own as usize], vec![0_u32; n_on as usize]);
        for common in &self.common {
            let (mut texts, mut classes) = (HashMap::new(), HashMap::new());
            let sides = [(&mut own, self.own, common.own_place), (&mut on, self.on, common.on_place)];
            for (of_side, sweep, place) in sides {
                let ids = ids(sweep, place, of_side.len(), &mut texts);
                for (class, id) in of_side.iter_mut().zip(ids) {
                    let n_known = classes.len() as u32;
                    *class = *classes.entry((*class, id)).or_insert(n_known);
                }
            }
        }
        let n_classes = own.iter().chain(&on).max().map_or(0, |last| *last as usize + 1);
        let mut starts = vec![0_u32; n_classes + 1];
        on.iter().for_each(|class| starts[*class as usize + 1] += 1);
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let (mut next, mut members) = (starts.clone(), vec![0_u32; on.len()]);
        for (task, class) in on.iter().enumerate() {
            let at = &mut next[*class as usize];
            members[*at as usize] = task as u32;
            *at += 1;
        }
        Classes { own, on, starts, members }
    }

    fn names(&self) -> String {
        let names: Vec<String> =
            self.common.iter().take(N_SHOWN_MAX).map(|common| quoted(&common.name)).collect();
        names.join(", ") + if self.common.len() > N_SHOWN_MAX { ", …" } else { "" }
    }

    /// The values of a task of the stage that waits, or of the other.
    fn values(&self, sweep: &Sweep, task: u64) -> String {
        let values = sweep.parameters(task);
        let shown = self.common.iter().take(N_SHOWN_MAX).filter_map(|common| {
            Some(format!("{} = {}", common.name, quoted(&values.value(&common.name)?.to_string())))
        });
        shown.collect::<Vec<String>>().join(", ")
    }

    fn word(&self) -> &'static str {
        self.rule.word()
    }

    fn alone(&self, task: u64) -> Refusal {
        let found = format!(
            "`{}` for task {task} with {}, which no task of {} has",
            self.word(),
            self.values(self.own, task),
            self.other
        );
        (found, self.give_the_same())
    }

    fn give_the_same(&self) -> String {
        format!(
            "tasks with the same {} belong together: write the values alike in both stages, or give the parameter \
             another name in one of them to go by position",
            self.names()
        )
    }

    fn several(&self, task: u64, n_members: usize) -> Refusal {
        let found = format!(
            "`{}` for task {task} with {}, which {n_members} tasks of {} have",
            self.word(),
            self.values(self.own, task),
            self.other
        );
        let expected =
            "write `tasks: groups` to wait for all of them, or add a parameter that tells them apart";
        (found, expected.to_owned())
    }

    fn twice(&self, task: u64) -> Refusal {
        let found = format!(
            "`{}` for task {task} with {}, which another task of this stage has, too, and one task of {}",
            self.word(),
            self.values(self.own, task),
            self.other
        );
        (found, "write `tasks: spread` to have all of them wait for that one".to_owned())
    }

    fn too_many(&self, n: u64, what: &str) -> Refusal {
        let found = format!("`{}` by {} for {n} {what}", self.word(), self.names());
        let expected = format!(
            "at most {N_EDGES_MAX} can be listed; any number goes where both sweeps begin with {} in the same order \
             and with the same values",
            self.names()
        );
        (found, expected)
    }
}

impl Classes {
    fn of(&self, class: u32) -> &[u32] {
        let at = |class: usize| self.starts.get(class).map(|start| *start as usize);
        let (start, end) = (at(class as usize), at(class as usize + 1));
        start.zip(end).and_then(|(start, end)| self.members.get(start..end)).unwrap_or_default()
    }

    /// The rule that says the same as a list, if there is one: it costs nothing.
    fn rule(&self) -> Option<Edges> {
        let lists = || (0_u64..).zip(&self.own).map(|(task, class)| (task, self.of(*class)));
        let (n_own, n_on) = (self.own.len() as u64, self.on.len() as u64);
        let width = lists().next()?.1.len() as u64;
        if width == n_on && lists().all(|(_, list)| list.len() as u64 == n_on) {
            return Some(Edges::All);
        }
        let is_run = |list: &[u32], start: u64, end: u64| {
            list.len() as u64 == end.saturating_sub(start)
                && list.iter().zip(start..).all(|(member, wanted)| u64::from(*member) == wanted)
        };
        let is_group = |(task, list): (u64, &[u32])| is_run(list, task * width, n_on.min((task + 1) * width));
        if n_own == n_on.div_ceil(width.max(1)) && lists().all(is_group) {
            return Some(if width == 1 { Edges::Same } else { Edges::Groups(width) });
        }
        let width = n_own / n_on.max(1);
        let is_spread = |(task, list): (u64, &[u32])| is_run(list, task / width, task / width + 1);
        (width > 1 && n_on * width == n_own && lists().all(is_spread)).then_some(Edges::Spread(width))
    }
}

/// A number for the value of each task's parameter at a place; equal texts have equal numbers.
fn ids(sweep: &Sweep, place: usize, n_tasks: usize, texts: &mut HashMap<String, u32>) -> Vec<u32> {
    let (Some(dimension), Some(column)) = (sweep.dimension_of(place), sweep.columns().nth(place)) else {
        return vec![0; n_tasks];
    };
    let mut id = |position: u64| {
        let n_known = texts.len() as u32;
        *texts.entry(column.values.at(position).to_string()).or_insert(n_known)
    };
    let n_values = sweep.dimensions[dimension].len();
    let position = |task: usize| sweep.positions(task as u64)[dimension];
    // A sample may have few of many values.
    if n_values > n_tasks as u64 {
        return (0..n_tasks).map(|task| id(position(task))).collect();
    }
    let of_values: Vec<u32> = (0..n_values).map(id).collect();
    (0..n_tasks).map(|task| of_values[position(task) as usize]).collect()
}

/// Whether no two rows of these columns of a dimension are the same, as far as that can be told cheaply.
fn is_distinct(n: u64, columns: &[&Column]) -> bool {
    if columns.iter().any(|column| matches!(&column.values, Values::Integers(ranges) if ranges.len() == 1)) {
        return true;
    }
    let row = |position: u64| -> Vec<String> {
        columns.iter().map(|column| column.values.at(position).to_string()).collect()
    };
    let mut seen = HashSet::new();
    n <= N_COMPARED_MAX && (0..n).all(|position| seen.insert(row(position)))
}

#[cfg(test)]
mod tests;
