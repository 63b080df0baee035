use proptest::prelude::*;

use super::*;

const INTERVAL_S: u64 = 300;

fn scaler(policy: Scaling, ratio: f64) -> Scaler {
    Scaler { ratio, ..Scaler::new(policy, Settings::default()) }
}

fn seen(interval: u64, n_failed: u64, n_queued: u64) -> Seen {
    let at = Time::default() + Span::from_secs(interval * INTERVAL_S);
    Seen { at, n_ended: 1000, n_failed, n_queued, n_cores: 24 }
}

#[test]
fn transitions_of_algorithm_4() {
    let next = |n_failed, ratio| scaler(Scaling::Adaptive2016, ratio).decide(&seen(1, n_failed, 0)).after;
    assert_eq!([next(100, 3.0), next(100, 1.0), next(10, 3.0), next(10, 4.0)], [2.0, 2.0, 4.0, 4.0]);
    assert_eq!(next(50, 2.0), 3.0, "as many as may fail are not too many");
}

#[test]
fn nothing_that_ended_says_nothing() {
    for policy in [Scaling::Fixed, Scaling::Adaptive2016, Scaling::Adaptive] {
        let nothing = Seen { n_ended: 0, n_queued: 1000, ..seen(1, 0, 0) };
        assert!(!scaler(policy, 1.0).decide(&nothing).has_changed());
    }
}

#[test]
fn the_published_law_swings_where_the_sound_one_rests() {
    // Two vCPUs a core make 8 % fail, one makes 0.5 % fail.
    let n_changes = |policy| {
        let mut scaler = scaler(policy, 1.0);
        let mut changed = |interval| {
            let n_failed = if scaler.ratio() >= 2.0 { 80 } else { 5 };
            scaler.decide(&seen(interval, n_failed, 1000)).has_changed()
        };
        (1..=60).filter(|interval| changed(*interval)).count()
    };
    assert_eq!(n_changes(Scaling::Adaptive2016), 60);
    assert!(n_changes(Scaling::Adaptive) <= 60 / 2);
    assert_eq!(n_changes(Scaling::Fixed), 0);
}

#[test]
fn errors_halve_and_hold() {
    let mut scaler = scaler(Scaling::Adaptive, 3.0);
    let mut decide = |interval, n_failed, n_queued| {
        let decision = scaler.decide(&seen(interval, n_failed, n_queued));
        (decision.after, decision.why)
    };
    assert_eq!(decide(1, 51, 1000), (1.5, Why::Errors));
    for interval in 2..5 {
        assert_eq!(decide(interval, 0, 1000), (1.5, Why::Held));
    }
    assert_eq!(decide(5, 0, 36), (1.5, Why::NoDemand));
    assert_eq!(decide(6, 0, 37), (2.0, Why::FewErrors));
    assert_eq!(decide(7, 25, 1000), (2.0, Why::InBand));
    assert_eq!(decide(8, 60, 1000), (1.0, Why::Errors));
    assert_eq!(decide(9, 60, 1000), (1.0, Why::Errors));
}

proptest! {
    #[test]
    fn vcpus_stay_within_bounds_and_rest_in_the_band(
        intervals in prop::collection::vec((0..1000u64, 0..1000u64, 0..200u64), 1..50),
        ratio_max in 0.5..8.0, errors_max in 0.001..0.5,
    ) {
        for policy in [Scaling::Fixed, Scaling::Adaptive2016, Scaling::Adaptive] {
            let settings = Settings { ratio_max, errors_max, ..Settings::default() };
            let mut scaler = Scaler::new(policy, settings);
            for (interval, (n_ended, n_failed, n_queued)) in intervals.iter().enumerate() {
                let n_failed = *n_failed.min(n_ended);
                let seen = Seen { n_ended: *n_ended, n_failed, ..seen(interval as u64, 0, *n_queued) };
                let decision = scaler.decide(&seen);
                prop_assert!((1.0..=ratio_max.max(1.0)).contains(&decision.after));
                let is_in_band = seen.errors().is_none_or(|errors| (errors_max / 2.0..=errors_max).contains(&errors));
                prop_assert!(policy != Scaling::Adaptive || !is_in_band || !decision.has_changed());
            }
        }
    }
}
