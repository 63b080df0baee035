//! Placement in the running manager: which platform the next allocation is asked of.
//!
//! Paper 001 places rigid jobs on platforms that are free. Pilots differ: an allocation waits in a queue of somebody
//! else's for a while that can only be guessed, and what waits for it, tasks, goes to whichever pilot is there first.
//! So the look-ahead is the paper's, each choice is tried and what waits behind it is simulated to its end, but of
//! tasks as a fluid and with the time that each platform lets an allocation wait.

use serde::{Deserialize, Serialize};

use super::{super::none_or::Worded, tla::ROUNDING};
use crate::time::Span;

/// The policies of this layer, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PilotPlacement {
    /// Where the least room is left over.
    BestFit,
    /// The fastest that has room.
    FastestFirst,
    /// Where one more lets tasks end soonest on average; none where it would come too late to help.
    Tla,
}

impl Worded for PilotPlacement {
    const WORDS: &'static [&'static str] = &["none", "best-fit", "fastest-first", "tla"];
    const POLICIES: &'static [PilotPlacement] =
        &[PilotPlacement::BestFit, PilotPlacement::FastestFirst, PilotPlacement::Tla];
}

/// Pilots that are there or on their way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// When they are free, in seconds from now.
    pub begins_s: f64,
    /// Seconds of work that they do in a second.
    pub rate: f64,
}

/// A platform that may be asked for allocations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Site {
    /// How long an allocation would wait there, in seconds.
    pub wait_s: f64,
    /// Seconds of work that its pilots would do in a second; positive.
    pub rate: f64,
    /// How much faster than on average of the platforms tasks run there; positive.
    pub speed: f64,
    /// How long a task takes there, in seconds.
    pub task_s: f64,
    /// Cores of an allocation.
    pub cores: u64,
    /// Allocations that it may be asked for.
    pub n_room: u64,
}

/// What becomes of the tasks that wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// When they end on average, in seconds from now.
    pub mean_end_s: f64,
    /// When the last one ends, in seconds from now.
    pub last_end_s: f64,
}

impl Outlook {
    /// When they end on average; `None`: never.
    pub fn mean_end(&self) -> Option<Span> {
        self.mean_end_s.is_finite().then(|| Span::from_secs_f64(self.mean_end_s))
    }
}

/// So many seconds of work, done by these from when each is free. All at infinity if nobody ever is.
///
/// The sum of all ends is the work that is left, over time: between two moments at which somebody begins it goes
/// down in a straight line. O(supplies × log supplies).
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
    /// The site of the next allocation; `None`: no site has room, or none would help. O(sites) but for
    /// [`PilotPlacement::Tla`]: that times supplies × log supplies.
    pub fn choose(self, work_s: f64, supplies: &[Supply], sites: &[Site]) -> Option<usize> {
        let with_room = sites.iter().enumerate().filter(|(_, site)| site.n_room > 0 && site.rate > 0.0);
        let fastest_of = |a: &Site, b: &Site| a.speed.total_cmp(&b.speed);
        let room = |site: &Site| site.n_room.saturating_mul(site.cores);
        let chosen = match self {
            // Of equal ones `max_by` takes the last: the order is turned for the first.
            PilotPlacement::FastestFirst => with_room.rev().max_by(|(_, a), (_, b)| fastest_of(a, b)),
            PilotPlacement::BestFit => {
                with_room.rev().max_by(|(_, a), (_, b)| room(b).cmp(&room(a)).then_with(|| fastest_of(a, b)))
            }
            PilotPlacement::Tla => return soonest(work_s, supplies, sites),
        };
        chosen.map(|(place, _)| place)
    }

    /// What each site is compared by: what would become of the tasks with an allocation there.
    pub fn outlook_with(work_s: f64, supplies: &[Supply], site: &Site) -> Outlook {
        let one = Supply { begins_s: site.wait_s, rate: site.rate };
        outlook(work_s, supplies.iter().copied().chain([one]))
    }
}

/// Where one more lets tasks end soonest on average; of equal ones the fastest.
fn soonest(work_s: f64, supplies: &[Supply], sites: &[Site]) -> Option<usize> {
    let without = outlook(work_s, supplies.iter().copied());
    // A fluid is shared by the moment; a task that begins when all others are done is not.
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
        // 50 s of the first alone; the other 50 of them together in 10 s.
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
        // 100 s of work are done before anything from the queue would begin, 10,000 s are not.
        assert_eq!((tla(100.0), tla(10_000.0)), (Some(0), Some(1)));
        // Of less than a task nothing is left for one more.
        assert_eq!(tla(5.0), None);
        // Where nobody is there, whoever comes is better than nobody.
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
