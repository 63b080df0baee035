//! Tests of placement: the paper's worked example, each policy on small scenes computed by hand, and general
//! properties, against an independent simulation.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::{Branch, Inner, Metric, Placement, Platform, Request, Running, Scene, Tla};

/// Platforms from free cores and speed.
fn platforms(cells: &[(u64, f64)]) -> Vec<Platform> {
    cells.iter().map(|(n_free, speed)| Platform { n_free: *n_free, speed: *speed }).collect()
}

/// Requests from cores, submission and runtime.
fn requests(cells: &[(u64, f64, f64)]) -> Vec<Request> {
    let request = |(cores, submitted_at, runtime): &(u64, f64, f64)| Request {
        cores: *cores,
        submitted_at: *submitted_at,
        runtime: *runtime,
    };
    cells.iter().map(request).collect()
}

fn all_of_them() -> Tla {
    Tla { simulation_depth: None, ..Tla::default() }
}

/// Returns the platforms with room for the first request, each with the sum of its metric.
fn scores(tla: Tla, scene: &Scene<'_>) -> Vec<(usize, f64)> {
    let sum = |branch: &Branch| branch.score * branch.forecasts.len() as f64;
    tla.branches(scene).iter().map(|branch| (branch.platform, sum(branch))).collect()
}

/// Paper 001, table 1 and figure 9: A twice as fast as B, nine processors each. The running requests are not
/// printed. One processor of A until 6 and five of B until 5 are the only choice that gives all turnarounds
/// of table 1 except its last, a 6 that contradicts figure 9, where the same schedule has 7.
fn example(second_ends_at: f64, check: impl Fn(&Scene<'_>)) {
    check(&Scene {
        now: 0.0,
        platforms: &platforms(&[(8, 2.0), (4, 1.0)]),
        running: &[
            Running { platform: 0, cores: 1, ends_at: 6.0 },
            Running { platform: 1, cores: 5, ends_at: second_ends_at },
        ],
        waiting: &requests(&[(3, -5.0, 10.0), (6, -4.0, 2.0), (2, -2.0, 8.0), (7, -2.0, 2.0)]),
    });
}

/// Returns the turnarounds of the example by branch.
fn turnarounds(scene: &Scene<'_>) -> Vec<Vec<f64>> {
    let of_branch = |branch: &Branch| {
        let both = branch.forecasts.iter().zip(scene.waiting);
        both.map(|(forecast, request)| forecast.ends_at - request.submitted_at).collect()
    };
    all_of_them().branches(scene).iter().map(of_branch).collect()
}

#[test]
fn worked_example_of_the_paper() {
    example(5.0, |scene| {
        assert_eq!(turnarounds(scene), [[10.0, 10.0, 11.0, 9.0], [15.0, 5.0, 6.0, 7.0]]);
        assert_eq!(scores(all_of_them(), scene), [(0, 10.0 * 4.0), (1, 8.25 * 4.0)]);
        assert_eq!(Placement::Tla(all_of_them()).place(scene), [1]);
        assert_eq!(Placement::FastestFirst.place(scene), [0]);
    });
    example(1.0, |scene| {
        assert_eq!(turnarounds(scene), [[10.0, 7.0, 7.0, 7.0], [15.0, 5.0, 6.0, 7.0]]);
        assert_eq!(scores(all_of_them(), scene), [(0, 7.75 * 4.0), (1, 8.25 * 4.0)]);
        assert_eq!(Placement::Tla(all_of_them()).place(scene), [0]);
    });
}

#[test]
fn one_simulation_places_as_many_as_it_is_told_to() {
    example(5.0, |scene| {
        let plan = |n| {
            let allocation_depth = NonZeroU32::new(n).expect("it is some");
            Placement::Tla(Tla { allocation_depth, ..all_of_them() }).place(scene)
        };
        assert_eq!(plan(1), [1]);
        assert_eq!(plan(3), [1, 0, 0]);
        assert_eq!(plan(9), [1, 0, 0, 0]);
        // If only one platform has room, nothing is simulated, and so no further request is placed.
        let allocation_depth = NonZeroU32::new(9).expect("it is some");
        let platforms = platforms(&[(8, 2.0), (2, 1.0)]);
        let scene = Scene { platforms: &platforms, ..*scene };
        assert_eq!(Placement::Tla(Tla { allocation_depth, ..all_of_them() }).place(&scene), [0]);
    });
}

#[test]
fn unless_told_otherwise_320_behind_the_first_are_simulated() {
    let (platforms, waiting) = (platforms(&[(1, 1.0)]), requests(&[(1, 0.0, 1.0); 400]));
    let scene = Scene { now: 0.0, platforms: &platforms, running: &[], waiting: &waiting };
    assert_eq!(Tla::default().branches(&scene)[0].forecasts.len(), 321);
    assert_eq!(all_of_them().branches(&scene)[0].forecasts.len(), 400);
}

#[test]
fn policies_differ_where_they_should() {
    // A fast platform with much room, and a slow one with little.
    let (fast, slow) = ((8, 2.0), (3, 1.0));
    let waiting = requests(&[(3, 0.0, 1.0), (6, 0.0, 1.0)]);
    let platforms = platforms(&[slow, fast]);
    let scene = Scene { now: 0.0, platforms: &platforms, running: &[], waiting: &waiting };
    assert_eq!(Placement::FastestFirst.place(&scene), [1]);
    assert_eq!(Placement::BestFit.place(&scene), [0]);
    // By fastest first 3 cores at speed 2; by best fit 3 at speed 1 and 6 at speed 2.
    assert_eq!(Placement::Ai2.place(&scene), [0]);
    let alone = Scene { waiting: &waiting[..1], ..scene };
    assert_eq!(Placement::Ai2.place(&alone), [1]);
    // On the fast platform the first request would delay two others.
    let waiting = requests(&[(3, 0.0, 10.0), (6, 0.0, 1.0), (1, 0.0, 1.0)]);
    let scene = Scene { waiting: &waiting, ..scene };
    assert_eq!(scores(all_of_them(), &scene), [(1, 5.0 + 5.5 + 5.5), (0, 10.0 + 0.5 + 0.5)]);
    assert_eq!(Placement::Tla(all_of_them()).place(&scene), [0]);
    // With depth one both are equally good, and the fast platform is chosen.
    let near = Tla { simulation_depth: NonZeroU32::new(1), ..all_of_them() };
    assert_eq!(scores(near, &scene), [(1, 10.5), (0, 10.5)]);
    assert_eq!(Placement::Tla(near).place(&scene), [1]);
}

#[test]
fn ties_go_to_the_fastest_and_then_to_the_first() {
    let equal = platforms(&[(4, 1.0), (4, 1.0), (4, 2.0), (4, 2.0)]);
    let waiting = requests(&[(4, 0.0, 1.0)]);
    let scene = Scene { now: 0.0, platforms: &equal, running: &[], waiting: &waiting };
    for policy in [Placement::BestFit, Placement::FastestFirst, Placement::Ai2, Placement::default()] {
        assert_eq!(policy.place(&scene), [2], "{policy:?}");
    }
}

#[test]
fn rounding_does_not_decide() {
    // Three equal requests fill three platforms in any order: the same ends, summed up in another order.
    let platforms = platforms(&[(1, 0.9), (1, 1.3), (1, 1.2)]);
    for runtime in 1..100 {
        let waiting = requests(&[(1, 0.0, f64::from(runtime)); 3]);
        let scene = Scene { now: 0.0, platforms: &platforms, running: &[], waiting: &waiting };
        assert_eq!(Placement::default().place(&scene), [1], "{runtime}");
    }
}

#[test]
fn an_overdue_end_counts_as_now_and_what_never_fits_ends_the_simulation() {
    let platforms = platforms(&[(2, 1.0), (2, 1.0)]);
    let running = [Running { platform: 0, cores: 2, ends_at: -50.0 }];
    let waiting = requests(&[(2, 0.0, 8.0), (4, 0.0, 1.0), (9, 0.0, 1.0), (1, 0.0, 1.0)]);
    let scene = Scene { now: 10.0, platforms: &platforms, running: &running, waiting: &waiting };
    // On the first platform the second request waits until 18; on the second it starts at once.
    assert_eq!(scores(all_of_them(), &scene), [(0, 18.0 + 19.0), (1, 18.0 + 11.0)]);
    let nothing = Scene { waiting: &[], ..scene };
    let too_large = Scene { waiting: &waiting[2..], ..scene };
    for policy in [Placement::BestFit, Placement::FastestFirst, Placement::Ai2, Placement::default()] {
        assert!(policy.place(&nothing).is_empty() && policy.place(&too_large).is_empty(), "{policy:?}");
    }
}

#[test]
fn the_simulation_places_as_it_is_told_to() {
    // Behind the first request 8, 4 and 9 cores are free; the second needs 3.
    let platforms = platforms(&[(9, 2.0), (4, 1.0), (9, 0.5)]);
    let waiting = requests(&[(1, 0.0, 1.0), (3, 0.0, 1.0)]);
    let scene = Scene { now: 0.0, platforms: &platforms, running: &[], waiting: &waiting };
    let second_of = |inner| -> Vec<usize> {
        let branches = Tla { inner, ..all_of_them() }.branches(&scene);
        branches.iter().map(|branch| branch.forecasts[1].platform).collect()
    };
    let firsts = [Inner::FastestFirst, Inner::BestFit, Inner::WorstFit].map(|inner| second_of(inner)[0]);
    assert_eq!(firsts, [0, 1, 2]);
    let drawn: Vec<Vec<usize>> = (0..30).map(|seed| second_of(Inner::Random { seed })).collect();
    assert!(drawn.iter().all(|branches| *branches == [branches[0]; 3]), "all branches have the same draws");
    assert!((0..3).all(|platform| drawn.iter().any(|branches| branches[0] == platform)));
}

#[test]
fn bounded_slowdown_counts_short_runtimes_as_ten_seconds() {
    let tla = Tla { metric: Metric::BoundedSlowdown, ..all_of_them() };
    let platforms = platforms(&[(1, 1.0), (1, 4.0)]);
    let waiting = requests(&[(1, -30.0, 2.0), (1, 0.0, 40.0)]);
    let scene = Scene { now: 0.0, platforms: &platforms, running: &[], waiting: &waiting };
    let expected = [(1, 30.5_f64 / 10.0 + 1.0), (0, 32.0 / 10.0 + 1.0)];
    assert_eq!(scores(tla, &scene), expected);
}

/// A random scene: nothing runs on more cores than there are.
#[derive(Clone, Debug)]
struct Moment {
    now: f64,
    n_cores: Vec<u64>,
    platforms: Vec<Platform>,
    running: Vec<Running>,
    waiting: Vec<Request>,
}

impl Moment {
    fn scene(&self) -> Scene<'_> {
        Scene { now: self.now, platforms: &self.platforms, running: &self.running, waiting: &self.waiting }
    }
}

fn moments() -> impl Strategy<Value = Moment> {
    let platform = (1_u64..12, prop::sample::select(vec![0.5, 1.0, 1.0, 1.5, 2.0]));
    let running = (0_usize..5, 1_u64..6, -3_i32..20);
    // Whole seconds, so that many ends coincide.
    let request = (1_u64..12, -9_i32..1, 1_i32..15);
    let all = (
        prop::collection::vec(platform, 1..5),
        prop::collection::vec(running, 0..8),
        prop::collection::vec(request, 0..12),
    );
    all.prop_map(|(sizes, wanted, requests)| {
        let mut platforms: Vec<Platform> =
            sizes.iter().map(|(n_free, speed)| Platform { n_free: *n_free, speed: *speed }).collect();
        let mut running = Vec::new();
        for (platform, cores, ends_at) in wanted {
            if let Some(at) = platforms.get_mut(platform).filter(|at| at.n_free >= cores) {
                at.n_free -= cores;
                running.push(Running { platform, cores, ends_at: f64::from(ends_at) });
            }
        }
        let request = |(cores, submitted_at, runtime): (u64, i32, i32)| Request {
            cores,
            submitted_at: f64::from(submitted_at),
            runtime: f64::from(runtime),
        };
        Moment {
            now: 0.0,
            n_cores: sizes.iter().map(|(n_cores, _)| *n_cores).collect(),
            platforms,
            running,
            waiting: requests.into_iter().map(request).collect(),
        }
    })
}

/// Start, end and platform of a request.
type Slot = (f64, f64, usize);

/// Returns the slot of each request until one never fits, the first of them on `first`: written as the paper
/// describes it, with a list of busy cores and without ranks.
fn slow_simulation(moment: &Moment, first: usize) -> Vec<Slot> {
    let mut busy: Vec<(f64, usize, u64)> =
        moment.running.iter().map(|one| (one.ends_at.max(moment.now), one.platform, one.cores)).collect();
    let mut placed = Vec::new();
    let mut now = moment.now;
    for (n, request) in moment.waiting.iter().enumerate() {
        let platform = loop {
            let used = |at: usize| busy.iter().filter(|one| one.1 == at).map(|one| one.2).sum::<u64>();
            let fits = |at: &usize| moment.n_cores[*at] - used(*at) >= request.cores;
            let speed = |at: usize| moment.platforms[at].speed;
            let with_room = (0..moment.n_cores.len()).filter(fits);
            let fastest =
                with_room.reduce(|best, other| if speed(other) > speed(best) { other } else { best });
            match fastest {
                Some(fastest) => break if n == 0 { first } else { fastest },
                None if busy.is_empty() => return placed,
                None => now = busy.iter().map(|one| one.0).fold(f64::INFINITY, f64::min),
            }
            busy.retain(|one| one.0 > now);
        };
        let end = now + request.runtime / moment.platforms[platform].speed;
        busy.push((end, platform, request.cores));
        placed.push((now, end, platform));
    }
    placed
}

/// Returns the schedules that a decision compares, by the platform of the first request.
fn schedules(moment: &Moment, inner: Inner) -> Vec<(usize, Vec<Slot>)> {
    let schedule = |branch: &Branch| {
        let placed = branch.forecasts.iter().map(|one| (one.starts_at, one.ends_at, one.platform));
        (branch.platform, placed.collect())
    };
    Tla { inner, ..all_of_them() }.branches(&moment.scene()).iter().map(schedule).collect()
}

const INNERS: [Inner; 4] = [Inner::FastestFirst, Inner::BestFit, Inner::WorstFit, Inner::Random { seed: 3 }];

proptest! {
    #[test]
    fn the_simulation_is_the_papers(moment in moments()) {
        prop_assume!(!moment.waiting.is_empty());
        for (first, schedule) in schedules(&moment, Inner::FastestFirst) {
            prop_assert_eq!(schedule, slow_simulation(&moment, first));
        }
    }

    #[test]
    fn never_worse_than_the_inner_policy_on_its_own_horizon(moment in moments(), depth in 1_u32..12) {
        prop_assume!(!moment.waiting.is_empty());
        for metric in [Metric::AverageTurnaround, Metric::BoundedSlowdown] {
            for (inner, policy) in [
                (Inner::FastestFirst, Placement::FastestFirst),
                (Inner::BestFit, Placement::BestFit),
            ] {
                let tla = Tla { simulation_depth: NonZeroU32::new(depth), inner, metric, ..Tla::default() };
                let scores = scores(tla, &moment.scene());
                let score_of = |place: Vec<usize>| {
                    let place = place.first().copied();
                    scores.iter().find(|(platform, _)| Some(*platform) == place).map(|(_, score)| *score)
                };
                let (ours, plain) =
                    (score_of(Placement::Tla(tla).place(&moment.scene())), score_of(policy.place(&moment.scene())));
                prop_assert_eq!(ours.is_some(), plain.is_some());
                // Without requests behind it, the look-ahead takes the fastest, with any inner policy.
                let is_no_worse = ours.zip(plain).is_none_or(|(ours, plain)| ours <= plain * (1.0 + 1e-12));
                prop_assert!(is_no_worse || moment.waiting.len() == 1);
            }
        }
    }

    #[test]
    fn no_platform_is_overfilled_and_nobody_overtakes(moment in moments()) {
        prop_assume!(!moment.waiting.is_empty());
        for inner in INNERS {
            for (_, schedule) in schedules(&moment, inner) {
                prop_assert!(schedule.is_sorted_by(|one, next| one.0 <= next.0));
                prop_assert!(schedule.iter().all(|one| one.0 >= moment.now));
                for at in schedule.iter().map(|one| one.0).filter(|at| *at > moment.now) {
                    for (platform, n_cores) in moment.n_cores.iter().enumerate() {
                        let known = moment.running.iter().map(|one| (f64::NEG_INFINITY, one.ends_at, one.platform, one.cores));
                        let placed = schedule.iter().zip(&moment.waiting).map(|(one, request)| (one.0, one.1, one.2, request.cores));
                        let busy = known.chain(placed).filter(|one| one.0 <= at && one.1 > at && one.2 == platform);
                        prop_assert!(busy.map(|one| one.3).sum::<u64>() <= *n_cores);
                    }
                }
            }
        }
    }

    #[test]
    fn answers_have_room_and_only_the_look_ahead_reads_estimates(moment in moments(), other in 1_u32..1000) {
        let mut misjudged = moment.clone();
        for (n, request) in (1_u32..).zip(&mut misjudged.waiting) {
            request.runtime = f64::from(other % (n + 7) + 1);
        }
        misjudged.running.iter_mut().for_each(|one| one.ends_at += f64::from(other));
        for policy in [Placement::BestFit, Placement::FastestFirst, Placement::Ai2, Placement::default()] {
            let places = policy.place(&moment.scene());
            let cores = moment.waiting.first().map_or(u64::MAX, |head| head.cores);
            let has_room = |platform: &Platform| platform.n_free >= cores;
            prop_assert_eq!(places.is_empty(), !moment.platforms.iter().any(has_room));
            prop_assert!(places.iter().all(|place| has_room(&moment.platforms[*place])));
            let is_blind = !matches!(policy, Placement::Tla(_));
            prop_assert!(!is_blind || places == policy.place(&misjudged.scene()));
        }
    }
}

#[test]
fn the_look_ahead_does_read_estimates() {
    // The fast platform is needed as a whole from 5 on; a first request that ends before then delays none.
    let platforms = platforms(&[(3, 0.5), (8, 2.0)]);
    let running = [Running { platform: 1, cores: 2, ends_at: 5.0 }];
    let place = |runtime| {
        let waiting = requests(&[&[(3, 0.0, runtime)][..], &[(10, 0.0, 1.0); 8]].concat());
        let scene = Scene { now: 0.0, platforms: &platforms, running: &running, waiting: &waiting };
        Placement::default().place(&scene)
    };
    assert_eq!((place(2.0), place(20.0)), (vec![1], vec![0]));
}
