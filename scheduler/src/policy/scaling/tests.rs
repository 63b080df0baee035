use proptest::prelude::*;

use super::*;

const INTERVAL_S: u64 = 300;
const ALL: [Scaling; 4] = [Scaling::Fixed, Scaling::Adaptive2016, Scaling::Adaptive, Scaling::Measured];

fn scaler(policy: Scaling, ratio: f64) -> Scaler {
    Scaler { ratio, ..Scaler::new(policy, Settings::default()) }
}

fn interval(n: u64) -> Interval {
    Interval { at: Time::default() + Span::from_secs(n * INTERVAL_S), n_cores: 24 }
}

/// A thousand ended attempts, of which `n_failed` failed, and `n_queued` waiting tasks.
fn seen(n_failed: u64, n_queued: u64) -> Seen {
    Seen { n_ended: 1000, n_failed, n_queued, ..Seen::default() }
}

/// Attempts that used this many of a hundred seconds of CPU time.
fn computing(cpu_s: u64) -> Seen {
    Seen { cpu: Span::from_secs(cpu_s), wall: Span::from_secs(100), ..seen(0, 1000) }
}

#[test]
fn transitions_of_algorithm_4() {
    let next =
        |n_failed, ratio| scaler(Scaling::Adaptive2016, ratio).decide(&interval(1), &seen(n_failed, 0)).after;
    assert_eq!([next(100, 3.0), next(100, 1.0), next(10, 3.0), next(10, 4.0)], [2.0, 2.0, 4.0, 4.0]);
    assert_eq!(next(50, 2.0), 3.0, "as many as may fail are not too many");
}

#[test]
fn where_nothing_ended_nothing_changes() {
    for policy in ALL {
        let nothing = Seen { n_ended: 0, ..computing(10) };
        assert!(!scaler(policy, 1.0).decide(&interval(1), &nothing).has_changed());
    }
}

#[test]
fn the_published_law_swings_where_the_sound_ones_rest() {
    // Tasks that compute all the time: with two vCPUs per core 8 % fail, with one 0.5 %.
    let n_changes = |policy| {
        let mut scaler = scaler(policy, 1.0);
        let mut has_changed = |n: &u64| {
            let n_failed = if scaler.ratio() >= 2.0 { 80 } else { 5 };
            let cpu = Span((1e8 / scaler.ratio()) as u64);
            let seen = Seen { cpu, wall: Span::from_secs(100), ..seen(n_failed, 1000) };
            scaler.decide(&interval(*n), &seen).has_changed()
        };
        (1..=60).filter(|n| has_changed(n)).count()
    };
    assert_eq!(n_changes(Scaling::Adaptive2016), 60);
    assert!(n_changes(Scaling::Adaptive) <= 60 / 2);
    assert_eq!(n_changes(Scaling::Measured), 0);
    assert_eq!(n_changes(Scaling::Fixed), 0);
}

#[test]
fn errors_halve_and_hold() {
    let mut scaler = scaler(Scaling::Adaptive, 3.0);
    let mut decide = |n, n_failed, n_queued| {
        let decision = scaler.decide(&interval(n), &seen(n_failed, n_queued));
        (decision.after, decision.why)
    };
    assert_eq!(decide(1, 51, 1000), (1.5, Why::Errors));
    for n in 2..5 {
        assert_eq!(decide(n, 0, 1000), (1.5, Why::Held));
    }
    assert_eq!(decide(5, 0, 36), (1.5, Why::NoDemand));
    assert_eq!(decide(6, 0, 37), (2.0, Why::Room));
    assert_eq!(decide(7, 25, 1000), (2.0, Why::InBand));
    assert_eq!(decide(8, 60, 1000), (1.0, Why::Errors));
    assert_eq!(decide(9, 60, 1000), (1.0, Why::Errors));
    assert_eq!(decide(12, 0, 1000), (1.0, Why::Held), "errors hold at one vCPU too");
}

#[test]
fn room_that_is_measured_is_taken_at_once_and_after_errors_by_steps() {
    let mut scaler = scaler(Scaling::Measured, 1.0);
    let mut decide = |n, seen| {
        let decision = scaler.decide(&interval(n), &seen);
        (decision.after, decision.why)
    };
    assert_eq!(decide(1, Seen { n_queued: 24, ..computing(40) }), (1.0, Why::NoDemand));
    assert_eq!(decide(1, computing(40)), (2.5, Why::Room));
    assert_eq!(decide(2, computing(39)), (2.5, Why::InBand));
    assert_eq!(decide(3, computing(50)), (2.0, Why::CoresFull));
    assert_eq!(decide(4, Seen { n_failed: 51, ..computing(40) }), (1.0, Why::Errors));
    assert_eq!(decide(5, computing(40)), (1.0, Why::Held));
    assert_eq!(decide(8, computing(40)), (1.5, Why::Room));
    assert_eq!(decide(9, computing(10)), (2.0, Why::Room));
    assert_eq!(decide(10, Seen { cpu: Span::ZERO, ..computing(40) }), (2.0, Why::NothingEnded));
}

/// Returns the decisions at the ends of the intervals of these numbers.
fn decisions(scaler: &mut Scaler, seen: &[(u64, Seen)]) -> Vec<(f64, Why)> {
    let decide = |(n, seen): &(u64, Seen)| {
        let decision = scaler.decide(&interval(*n), seen);
        (decision.after, decision.why)
    };
    seen.iter().map(decide).collect()
}

#[test]
fn cores_are_filled_to_the_goal_and_near_it_nothing_changes() {
    for (cpu_goal, ratio, cpu_s, wall_s, expected) in [
        (0.8, 1.0, 40, 100, (2.0, Why::Room)),
        (1.5, 1.0, 50, 100, (3.0, Why::Room)),
        (0.8, 1.0, 10, 100, (4.0, Why::Room)),
        (0.5, 1.0, 50, 100, (1.0, Why::InBand)),
        (1.5, 3.0, 50, 100, (3.0, Why::InBand)),
        (0.5, 2.0, 40, 100, (1.25, Why::CoresFull)),
        (0.5, 2.0, 100, 100, (1.0, Why::CoresFull)),
        (1.0, 2.0, 100, 189, (1.89, Why::CoresFull)),
        (1.0, 2.0, 100, 191, (2.0, Why::InBand)),
        (1.0, 2.0, 100, 209, (2.0, Why::InBand)),
        (1.0, 2.0, 100, 211, (2.11, Why::Room)),
        (1.0, 2.0, 100, 0, (2.0, Why::NothingEnded)),
    ] {
        let settings = Settings { cpu_goal, ..Settings::default() };
        let mut scaler = Scaler { ratio, ..Scaler::new(Scaling::Measured, settings) };
        let seen = Seen { wall: Span::from_secs(wall_s), ..computing(cpu_s) };
        assert_eq!(decisions(&mut scaler, &[(1, seen)]), [expected], "{cpu_goal} {ratio} {cpu_s} {wall_s}");
    }
}

#[test]
fn the_hold_the_step_the_errors_and_the_most_are_those_of_the_settings() {
    let settings = Settings {
        errors_max: 0.2,
        ratio_max: 2.2,
        step: 0.25,
        hold: Span::from_secs(2 * INTERVAL_S),
        ..Settings::default()
    };
    let scaler = |policy| Scaler { ratio: 2.0, ..Scaler::new(policy, settings) };
    let few = seen(0, 1000);
    let after = decisions(
        &mut scaler(Scaling::Adaptive),
        &[(1, seen(200, 1000)), (2, seen(201, 1000)), (3, few), (4, few), (5, few)],
    );
    let expected =
        [(2.0, Why::InBand), (1.0, Why::Errors), (1.0, Why::Held), (1.25, Why::Room), (1.5, Why::Room)];
    assert_eq!(after, expected);
    // Errors during the hold time start it anew, few errors do not; and there is a maximum.
    let mut twice = scaler(Scaling::Adaptive);
    let after = decisions(&mut twice, &[(1, seen(201, 1000)), (2, seen(201, 1000)), (3, few), (4, few)]);
    assert_eq!(after[2..], [(1.0, Why::Held), (1.25, Why::Room)]);
    let after =
        decisions(&mut twice, &[(5, seen(100, 1000)), (6, seen(99, 1000)), (7, few), (8, few), (9, few)]);
    let expected =
        [(1.25, Why::InBand), (1.5, Why::Room), (1.75, Why::Room), (2.0, Why::Room), (2.2, Why::Room)];
    assert_eq!(after, expected);
    // `Measured`: fewer even during the hold time; more by steps from then on.
    let errors = Seen { n_failed: 201, ..computing(50) };
    let seen = [(1, errors), (2, computing(10)), (2, computing(100)), (3, computing(10)), (4, computing(10))];
    let expected =
        [(1.1, Why::Errors), (1.1, Why::Held), (1.0, Why::CoresFull), (1.25, Why::Room), (1.5, Why::Room)];
    let mut measured = Scaler { ratio: 2.2, ..scaler(Scaling::Measured) };
    let just_enough = Seen { n_failed: 200, ..computing(45) };
    assert_eq!(decisions(&mut measured, &[(0, just_enough)]), [(2.2, Why::InBand)]);
    assert_eq!(decisions(&mut measured, &seen), expected);
}

#[test]
fn what_is_seen_of_all_is_added_up() {
    // The second application decides for both: enough tasks, too many errors, or too little CPU time.
    let all = |policy, first, second| {
        let mut scalers = Scalers::new(policy, Scope::Platform, Settings::default(), 2);
        scalers.decide(&interval(1), &[first, second])[0].why
    };
    for (seen_of_both, expected) in [
        ([seen(0, 13), seen(0, 13)], Why::Room),
        ([seen(0, 12), seen(0, 12)], Why::NoDemand),
        ([seen(101, 13), seen(0, 13)], Why::Errors),
        ([seen(50, 13), seen(50, 13)], Why::InBand),
        ([seen(0, 13), Seen { n_ended: 0, ..seen(0, 13) }], Why::Room),
    ] {
        let [first, second] = seen_of_both;
        assert_eq!(all(Scaling::Adaptive, first, second), expected, "{seen_of_both:?}");
        assert_eq!(all(Scaling::Adaptive, second, first), expected, "{seen_of_both:?}");
    }
    assert_eq!(all(Scaling::Measured, computing(100), computing(0)), Why::Room);
    assert_eq!(all(Scaling::Measured, computing(0), computing(200)), Why::InBand);
}

#[test]
fn each_application_has_its_own_number_or_all_have_one() {
    let seen = [computing(100), computing(25)];
    let ratios = |scope| {
        let mut scalers = Scalers::new(Scaling::Measured, scope, Settings::default(), 2);
        let n_decisions = scalers.decide(&interval(1), &seen).len();
        (n_decisions, [0, 1].map(|application| scalers.ratio(application)))
    };
    assert_eq!(ratios(Scope::Application), (2, [1.0, 4.0]));
    assert_eq!(ratios(Scope::Platform), (1, [1.6, 1.6]));
    assert_eq!(
        ALL.map(Scaling::scope),
        [Scope::Platform, Scope::Platform, Scope::Platform, Scope::Application]
    );
}

proptest! {
    #[test]
    fn vcpus_stay_within_bounds_and_rest_in_the_band(
        intervals in prop::collection::vec((0..1000u64, 0..1000u64, 0..200u64, 0..200u64), 1..50),
        ratio_max in 0.5..8.0, errors_max in 0.001..0.5, cpu_goal in 0.1..2.0,
    ) {
        for policy in ALL {
            let settings = Settings { ratio_max, errors_max, cpu_goal, ..Settings::default() };
            let mut scaler = Scaler::new(policy, settings);
            for (n, (n_ended, n_failed, n_queued, cpu_s)) in intervals.iter().enumerate() {
                let seen = Seen { n_ended: *n_ended, n_failed: *n_failed.min(n_ended), n_queued: *n_queued, ..computing(*cpu_s) };
                let decision = scaler.decide(&interval(n as u64), &seen);
                prop_assert!((1.0..=ratio_max.max(1.0)).contains(&decision.after));
                let is_in_band = seen.errors().is_none_or(|errors| (errors_max / 2.0..=errors_max).contains(&errors));
                prop_assert!(policy != Scaling::Adaptive || !is_in_band || !decision.has_changed());
                prop_assert!(!decision.has_changed() || !matches!(decision.why, Why::InBand | Why::Held | Why::NoDemand | Why::NothingEnded | Why::Fixed));
            }
        }
    }
}
