//! Allocation, the first level of sharing: how many cores of each platform each user gets.
//!
//! The shares are always computed anew from all cores, when a user submits or has no queued tasks left, and
//! when platforms come, go or change (paper 000, section 5.3). Ties go to the lowest index.

mod aaf;
mod equal;
mod favourites;
mod pa_rr;
mod paf;
pub mod words;

use serde::{Deserialize, Serialize};

use super::table::Table;

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// Divides each platform into equal parts; the papers' "fairness" policy: see `equal.rs`.
    Equal,
    /// Gives each platform to the users that like it most: see `paf.rs`.
    Paf {
        /// The part of the users that are first, in percent.
        percent: u32,
    },
    /// Gives each user the platforms that it likes most: see `aaf.rs`.
    Aaf {
        /// The part of the platforms on which a user is first, in percent.
        percent: u32,
    },
    /// Gives fair shares, taken in turns from the platforms that each user likes most: see `pa_rr.rs`.
    PaRr {
        /// Cores taken at a time (the paper's D_unit).
        unit_cores: u64,
    },
}

impl Default for Allocation {
    fn default() -> Allocation {
        Allocation::PaRr { unit_cores: 1 }
    }
}

/// The cores to divide, and the users' demand.
#[derive(Clone, Debug)]
pub struct Demand<'a> {
    /// Tasks that each user has left; one core each.
    pub tasks: &'a [u64],
    /// Cores of each platform.
    pub cores: &'a [u64],
    /// How much each user (row) likes a core of each platform (column), from `affinity`.
    pub affinity: &'a Table<f64>,
    /// The favourites of the previous time, for [`Allocation::Paf`]; `None` or another shape: there are none.
    pub favourites: Option<&'a Table<bool>>,
}

/// The cores of each user.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// Cores of each platform (column) for each user (row): in total no more than there are, and for no user
    /// more than it has tasks.
    pub cores: Table<u64>,
    /// The platforms that each user favoured, as input of the next time.
    pub favourites: Option<Table<bool>>,
}

impl Allocation {
    /// Divides the cores.
    ///
    /// # Panics
    /// Tables that do not have a row for each user and a column for each platform.
    pub fn share(self, demand: &Demand<'_>) -> Shares {
        match self {
            Allocation::Equal => equal::share(demand),
            Allocation::Paf { percent } => paf::share(demand, percent),
            Allocation::Aaf { percent } => aaf::share(demand, percent),
            Allocation::PaRr { unit_cores } => pa_rr::share(demand, unit_cores),
        }
    }
}

/// Shares in the making: no core is given twice.
struct Pot<'a> {
    demand: &'a Demand<'a>,
    free: Vec<u64>,
    cores: Table<u64>,
}

impl<'a> Pot<'a> {
    fn new(demand: &'a Demand<'a>) -> Pot<'a> {
        let cores = Table::new(demand.tasks.len(), demand.cores.len(), 0);
        Pot { demand, free: demand.cores.to_vec(), cores }
    }

    /// Returns the number of cores that the user could still use.
    fn need(&self, user: usize) -> u64 {
        self.demand.tasks[user].saturating_sub(self.cores.row(user).iter().sum())
    }

    /// Gives a user `n` cores, or as many as are free, and returns their number.
    fn give(&mut self, user: usize, platform: usize, n: u64) -> u64 {
        let n = n.min(self.free[platform]);
        self.free[platform] -= n;
        *self.cores.at_mut(user, platform) += n;
        n
    }
}

/// Divides `total` into equal parts, none above its cap; the remainder goes by one each to the lowest
/// indices.
pub(crate) fn equal_parts(total: u64, caps: &[u64]) -> Vec<u64> {
    let mut parts = vec![0; caps.len()];
    let mut left = total;
    loop {
        let open: Vec<usize> = (0..caps.len()).filter(|n| parts[*n] < caps[*n]).collect();
        let Some(each) = left.checked_div(open.len() as u64) else { return parts };
        if left == 0 {
            return parts;
        }
        for n in open {
            let more = each.max(1).min(caps[n] - parts[n]).min(left);
            parts[n] += more;
            left -= more;
        }
    }
}

/// Returns the indices by value, the largest first, ties in their given order.
fn by_liking(indices: impl Iterator<Item = usize>, value: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut indices: Vec<usize> = indices.collect();
    indices.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
    indices
}

#[cfg(test)]
mod tests;
