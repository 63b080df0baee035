//! The first level written anew, as the paper prints it (paper 000, section 5.3), without code of the
//! policies: they must give equal results.

use std::cmp::Reverse;

use proptest::prelude::*;

use super::super::{Allocation, Demand};
use crate::policy::table::Table;

/// A demand with small numbers, so that ties occur.
#[derive(Clone, Debug)]
struct Case {
    tasks: Vec<u64>,
    cores: Vec<u64>,
    affinity: Vec<Vec<u8>>,
    before: Option<Vec<Vec<bool>>>,
}

impl Case {
    fn ours(&self, policy: Allocation) -> Vec<Vec<u64>> {
        let of_row = |row: &Vec<u8>| row.iter().map(|liking| f64::from(*liking)).collect();
        let affinity = Table::from_rows(&self.affinity.iter().map(of_row).collect::<Vec<_>>()).unwrap();
        let before = self.before.as_ref().map(|before| Table::from_rows(before).unwrap());
        let favourites = before.as_ref();
        let demand = Demand { tasks: &self.tasks, cores: &self.cores, affinity: &affinity, favourites };
        policy.share(&demand).cores.rows().map(<[u64]>::to_vec).collect()
    }

    fn favourites_first(&self, is_paf: bool, percent: usize) -> Vec<Vec<u64>> {
        let (n_users, n_platforms) = (self.tasks.len(), self.cores.len());
        let mut share = vec![vec![0; n_platforms]; n_users];
        let mut free = self.cores.clone();
        for pass in 0.. {
            let need = |share: &[Vec<u64>], user: usize| self.tasks[user] - share[user].iter().sum::<u64>();
            let mut users: Vec<usize> = (0..n_users).filter(|user| need(&share, *user) > 0).collect();
            let platforms: Vec<usize> = (0..n_platforms).filter(|platform| free[*platform] > 0).collect();
            if users.is_empty() || platforms.is_empty() {
                break;
            }
            let before = self.before.as_ref().filter(|_| is_paf && pass == 0);
            let z = self.z(&users, &platforms, is_paf, percent, before);
            let mut s: Vec<u64> =
                (0..n_platforms).map(|p| z.iter().filter(|(_, of)| *of == p).count() as u64).collect();
            users.sort_by_key(|user| (need(&share, *user), *user));
            for user in users {
                let mut liked: Vec<usize> = z.iter().filter(|(u, _)| *u == user).map(|(_, p)| *p).collect();
                liked.sort_by_key(|platform| (Reverse(self.affinity[user][*platform]), *platform));
                for platform in liked {
                    let d = need(&share, user).min(free[platform] / s[platform]);
                    s[platform] -= 1;
                    share[user][platform] += d;
                    free[platform] -= d;
                }
            }
        }
        share
    }

    /// The pairs of a user and a platform for which the matrix Z is 1.
    fn z(
        &self,
        users: &[usize],
        platforms: &[usize],
        is_paf: bool,
        percent: usize,
        before: Option<&Vec<Vec<bool>>>,
    ) -> Vec<(usize, usize)> {
        let liking = |user: usize, platform: usize| self.affinity[user][platform];
        let pairs: Vec<_> = users.iter().flat_map(|u| platforms.iter().map(|p| (*u, *p))).collect();
        let is_marked = |(user, platform): &(usize, usize)| {
            let own = liking(*user, *platform);
            let is_ahead = |other: u8, is_lower: bool| other > own || (other == own && is_lower);
            if is_paf {
                let n_ahead = users.iter().filter(|u| is_ahead(liking(**u, *platform), **u < *user)).count();
                n_ahead < users.len() * percent / 100 || before.is_some_and(|before| before[*user][*platform])
            } else {
                let n_ahead =
                    platforms.iter().filter(|p| is_ahead(liking(*user, **p), **p < *platform)).count();
                n_ahead < platforms.len() * percent / 100
            }
        };
        let marked: Vec<_> = pairs.iter().copied().filter(is_marked).collect();
        if !marked.is_empty() {
            return marked;
        }
        // Twice the median is the sum of the two in the middle.
        let is_above = |(user, platform): &(usize, usize)| {
            let mut of_all: Vec<u32> = users.iter().map(|u| u32::from(liking(*u, *platform))).collect();
            of_all.sort_unstable();
            let (low, high) = (of_all[(of_all.len() - 1) / 2], of_all[of_all.len() / 2]);
            2 * u32::from(liking(*user, *platform)) >= low + high
        };
        pairs.into_iter().filter(|pair| is_paf || is_above(pair)).collect()
    }

    fn in_turns(&self, unit: u64) -> Vec<Vec<u64>> {
        // Water filling: each core goes to the user that has least and wants more.
        let mut owed = vec![0; self.tasks.len()];
        for _ in 0..self.cores.iter().sum() {
            let thirsty = (0..owed.len()).filter(|user| owed[*user] < self.tasks[*user]);
            if let Some(user) = thirsty.min_by_key(|user| owed[*user]) {
                owed[user] += 1;
            }
        }
        let mut share = vec![vec![0; self.cores.len()]; owed.len()];
        let mut free = self.cores.clone();
        while owed.iter().sum::<u64>() > 0 {
            for user in 0..owed.len() {
                let left = (0..free.len()).filter(|platform| free[*platform] > 0);
                let most = left.max_by_key(|platform| (self.affinity[user][*platform], Reverse(*platform)));
                let Some(platform) = most else { continue };
                let d = unit.min(owed[user]).min(free[platform]);
                share[user][platform] += d;
                free[platform] -= d;
                owed[user] -= d;
            }
        }
        share
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (1..6usize, 1..5usize).prop_flat_map(|(n_users, n_platforms)| {
        let affinity = prop::collection::vec(prop::collection::vec(1..6u8, n_platforms), n_users);
        let before = prop::collection::vec(prop::collection::vec(any::<bool>(), n_platforms), n_users);
        let tasks = prop::collection::vec(0..30u64, n_users);
        let cores = prop::collection::vec(0..30u64, n_platforms);
        (tasks, cores, affinity, prop::option::of(before)).prop_map(|(tasks, cores, affinity, before)| Case {
            tasks,
            cores,
            affinity,
            before,
        })
    })
}

proptest! {
    #[test]
    fn shares_are_those_of_the_printed_algorithms(case in cases(), percent in 0..=100u32, unit in 1..9u64) {
        let (paf, aaf) = (Allocation::Paf { percent }, Allocation::Aaf { percent });
        prop_assert_eq!(case.ours(paf), case.favourites_first(true, percent as usize), "PAF");
        prop_assert_eq!(case.ours(aaf), case.favourites_first(false, percent as usize), "AAF");
        prop_assert_eq!(case.ours(Allocation::PaRr { unit_cores: unit }), case.in_turns(unit), "PA-RR");
    }
}
