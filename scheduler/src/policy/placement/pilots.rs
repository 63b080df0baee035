//! Placement in the manager: the platform of the next allocation.
//!
//! Paper 001 places rigid jobs on free platforms. Pilots differ: an allocation waits in another system's
//! queue for a time that can only be guessed, and the waiting tasks go to whichever pilot comes first.
//! Therefore the look-ahead is the paper's: it tries each choice and simulates the waiting work to its end.
//! But it treats tasks as a fluid, and adds the queue wait of each platform.

use serde::{Deserialize, Serialize};

use super::{super::none_or::Worded, tla::ROUNDING};
use crate::time::Span;

/// The policies of this layer, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PilotPlacement {
    /// The platform where the least room is left over.
    BestFit,
    /// The fastest platform that has room.
    FastestFirst,
    /// The platform where one more allocation lets tasks end soonest on average; none if it would come too
    /// late to help.
    Tla,
}

impl Worded for PilotPlacement {
    const WORDS: &'static [&'static str] = &["none", "best-fit", "fastest-first", "tla"];
    const POLICIES: &'static [PilotPlacement] =
        &[PilotPlacement::BestFit, PilotPlacement::FastestFirst, PilotPlacement::Tla];
}

/// Pilots that have joined or were requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// When they are free, in seconds from now.
    pub begins_s: f64,
    /// Seconds of work that they do in a second.
    pub rate: f64,
}

/// A platform from which allocations may be requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// Expected queue wait of an allocation, in seconds.
    pub wait_s: f64,
    /// Seconds of work that its pilots would do in a second; positive.
    pub rate: f64,
    /// Speed relative to the mean of the platforms; positive.
    pub speed: f64,
    /// Expected runtime of a task there, in seconds.
    pub task_s: f64,
    /// Cores of an allocation.
    pub cores: u64,
    /// Number of further allocations that may be requested.
    pub n_room: u64,
}

/// The expected ends of the waiting tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// The mean end, in seconds from now.
    pub mean_end_s: f64,
    /// The last end, in seconds from now.
    pub last_end_s: f64,
}

impl Outlook {
    /// Returns the mean end; `None`: never.
    pub fn mean_end(&self) -> Option<Span> {
        self.mean_end_s.is_finite().then(|| Span::from_secs_f64(self.mean_end_s))
    }
}

/// Returns the ends of `work_s` seconds of work, done by these supplies from when each is free. Ends are
/// infinite if there is no supply.
///
/// The sum of all ends is the integral of the remaining work over time: between the starts of two supplies it
/// decreases linearly. O(supplies × log supplies).
pub fn outlook(work_s: f64, supplies: impl Iterator<Item = Supply>) -> Outlook {
    let mut supplies: Vec<Supply> =
        supplies.filter(|one| one.rate > 0.0 && one.begins_s.is_finite()).collect();
    supplies.sort_by(|a, b| a.begins_s.total_cmp(&b.begins_s));
    let (mut now, mut rate, mut left, mut area) = (0.0, 0.0, work_s, 0.0);
    for supply in supplies {
        let span = supply.begins_s - now;
        if rate * span >= left {
            break;
        }
        area += (left - rate * span / 2.0) * span;
        left -= rate * span;
        (now, rate) = (supply.begins_s, rate + supply.rate);
    }
    if left <= 0.0 {
        return Outlook { mean_end_s: 0.0, last_end_s: 0.0 };
    }
    let span = left / rate;
    Outlook { mean_end_s: (area + left / 2.0 * span) / work_s, last_end_s: now + span }
}

impl PilotPlacement {
    /// Returns the site of the next allocation; `None`: no site has room, or none would help. O(sites); for
    /// [`PilotPlacement::Tla`] multiplied by supplies × log supplies.
    pub fn choose(self, work_s: f64, supplies: &[Supply], sites: &[Site]) -> Option<usize> {
        let with_room = sites.iter().enumerate().filter(|(_, site)| site.n_room > 0 && site.rate > 0.0);
        let fastest_of = |a: &Site, b: &Site| a.speed.total_cmp(&b.speed);
        let room = |site: &Site| site.n_room.saturating_mul(site.cores);
        let chosen = match self {
            // `max_by` takes the last of equal ones: the order is reversed to take the first.
            PilotPlacement::FastestFirst => with_room.rev().max_by(|(_, a), (_, b)| fastest_of(a, b)),
            PilotPlacement::BestFit => {
                with_room.rev().max_by(|(_, a), (_, b)| room(b).cmp(&room(a)).then_with(|| fastest_of(a, b)))
            }
            PilotPlacement::Tla => return soonest(work_s, supplies, sites),
        };
        chosen.map(|(place, _)| place)
    }

    /// Returns the outlook with one more allocation at a site, by which sites are compared.
    pub fn outlook_with(work_s: f64, supplies: &[Supply], site: &Site) -> Outlook {
        let one = Supply { begins_s: site.wait_s, rate: site.rate };
        outlook(work_s, supplies.iter().copied().chain([one]))
    }
}

/// Returns the site where one more allocation lets tasks end soonest on average; of equal ones the fastest.
fn soonest(work_s: f64, supplies: &[Supply], sites: &[Site]) -> Option<usize> {
    let without = outlook(work_s, supplies.iter().copied());
    // A fluid can be divided at any moment; a task that begins when all others have ended cannot.
    let helps =
        |site: &Site| site.n_room > 0 && site.rate > 0.0 && site.wait_s + site.task_s < without.last_end_s;
    let mut best: Option<(f64, usize)> = None;
    for (place, site) in sites.iter().enumerate().filter(|(_, site)| helps(site)) {
        let score = PilotPlacement::outlook_with(work_s, supplies, site).mean_end_s;
        let is_better = best.is_none_or(|(least, held)| {
            score < least * (1.0 - ROUNDING)
                || score <= least * (1.0 + ROUNDING) && site.speed > sites[held].speed
        });
        if is_better {
            best = Some((score, place));
        }
    }
    best.map(|(_, place)| place)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Outlook, PilotPlacement, Site, Supply, outlook};

    const HERE: Supply = Supply { begins_s: 0.0, rate: 1.0 };

    fn site(wait_s: f64, speed: f64) -> Site {
        Site { wait_s, rate: speed, speed, task_s: 10.0 / speed, cores: 1, n_room: 1 }
    }

    #[test]
    fn work_is_done_by_whoever_is_there() {
        let two = [HERE, Supply { begins_s: 50.0, rate: 4.0 }];
        // 50 s of the first supply alone; the other 50 s of work both together in 10 s.
        let expected = Outlook { mean_end_s: (75.0 * 50.0 + 25.0 * 10.0) / 100.0, last_end_s: 60.0 };
        assert_eq!(outlook(100.0, two.into_iter()), expected);
        assert_eq!(outlook(40.0, two.into_iter()), Outlook { mean_end_s: 20.0, last_end_s: 40.0 });
        let never = Outlook { mean_end_s: f64::INFINITY, last_end_s: f64::INFINITY };
        assert_eq!(outlook(1.0, [].into_iter()), never);
        assert_eq!(outlook(0.0, [].into_iter()), Outlook { mean_end_s: 0.0, last_end_s: 0.0 });
    }

    #[test]
    fn a_fast_platform_with_a_queue_is_worth_the_wait_or_not() {
        let sites = [site(0.0, 1.0), site(300.0, 4.0)];
        let tla = |work_s| PilotPlacement::Tla.choose(work_s, &[HERE], &sites);
        assert_eq!(PilotPlacement::FastestFirst.choose(100.0, &[HERE], &sites), Some(1));
        // 100 s of work end before an allocation from the queue would begin, 10,000 s do not.
        assert_eq!((tla(100.0), tla(10_000.0)), (Some(0), Some(1)));
        // Work of less than one task leaves nothing for another pilot.
        assert_eq!(tla(5.0), None);
        // Without any supply, even a late one is better than none.
        assert_eq!(PilotPlacement::Tla.choose(5.0, &[], &[site(300.0, 4.0)]), Some(0));
    }

    #[test]
    fn the_words_say_what_is_chosen() {
        let roomy = Site { n_room: 10, ..site(0.0, 1.0) };
        let full = Site { n_room: 0, ..site(0.0, 9.0) };
        let sites = [roomy, site(0.0, 1.0), full];
        assert_eq!(PilotPlacement::BestFit.choose(1e6, &[], &sites), Some(1));
        assert_eq!(PilotPlacement::FastestFirst.choose(1e6, &[], &sites), Some(0), "the first of equal ones");
        assert_eq!(PilotPlacement::Tla.choose(1e6, &[], &sites), Some(0), "the first of equal ones");
        assert_eq!(PilotPlacement::BestFit.choose(1e6, &[], &[full]), None);
    }

    proptest! {
        #[test]
        fn whoever_comes_makes_nothing_later_and_the_soonest_is_chosen(
            work_s in 1.0..1e6_f64,
            supplies in prop::collection::vec((0.0..1e4_f64, 0.1..100.0_f64), 0..6),
            sites in prop::collection::vec((0.0..1e4_f64, 0.1..10.0_f64), 1..6),
        ) {
            let supplies: Vec<Supply> =
                supplies.into_iter().map(|(begins_s, rate)| Supply { begins_s, rate }).collect();
            let sites: Vec<Site> = sites.into_iter().map(|(wait_s, speed)| site(wait_s, speed)).collect();
            let without = outlook(work_s, supplies.iter().copied());
            let outlooks: Vec<Outlook> = sites
                .iter()
                .map(|site| PilotPlacement::outlook_with(work_s, &supplies, site))
                .collect();
            for with in &outlooks {
                prop_assert!(with.mean_end_s <= without.mean_end_s * (1.0 + 1e-9), "{with:?} {without:?}");
                prop_assert!(with.last_end_s <= without.last_end_s * (1.0 + 1e-9), "{with:?} {without:?}");
                prop_assert!(with.mean_end_s <= with.last_end_s, "{with:?}");
            }
            let chosen = PilotPlacement::Tla.choose(work_s, &supplies, &sites);
            let helps = |site: &Site| site.wait_s + site.task_s < without.last_end_s;
            let useful = sites.iter().zip(&outlooks).filter(|(site, _)| helps(site));
            let least = useful.map(|(_, with)| with.mean_end_s).fold(f64::INFINITY, f64::min);
            match chosen {
                Some(place) => prop_assert!(
                    helps(&sites[place]) && outlooks[place].mean_end_s <= least * (1.0 + 1e-9)
                ),
                None => prop_assert!(!sites.iter().any(helps)),
            }
        }
    }
}
