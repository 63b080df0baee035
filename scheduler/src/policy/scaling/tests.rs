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

/// A thousand attempts, of which so many failed, and so many tasks that wait.
fn seen(n_failed: u64, n_queued: u64) -> Seen {
    Seen { n_ended: 1000, n_failed, n_queued, ..Seen::default() }
}

/// Attempts that computed in so many of a hundred seconds.
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
    // Tasks that compute all the time: two vCPUs a core make 8 % fail, one makes 0.5 % fail.
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
