//! The policies under which the jobs of a history ran.

use scheduler::{
    engine::{interface::views::policies::PolicyChange, state::durable::Durable},
    policy::Policies,
    time::Time,
};

/// The policies of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ruled {
    /// The policies that were in use longest.
    pub(super) policies: Policies,
    /// Whether they are known; otherwise they are the default ones.
    pub(super) is_known: bool,
    /// Whether other policies were in use too, or may have been.
    pub(super) have_changed: bool,
}

/// Policies in use from a time on.
struct Era {
    from: Time,
    policies: Policies,
    /// Whether the configuration changed at an unknown time in it, so that the earlier policies were in use
    /// for a part of it.
    is_unsure: bool,
}

/// Returns the policies between these times. `configured`: the present configuration, if known.
pub(super) fn between(durable: &Durable, configured: Option<Policies>, (begin, end): (Time, Time)) -> Ruled {
    let now = configured.map(|configured| durable.policies(configured));
    of_eras(&eras(durable.policy_changes(), now), (begin, end))
}

fn eras(changes: &[PolicyChange], now: Option<Policies>) -> Vec<Era> {
    let mut eras = Vec::new();
    for change in changes {
        note(&mut eras, change.before);
        eras.push(Era { from: change.at, policies: change.policies, is_unsure: false });
    }
    now.into_iter().for_each(|now| note(&mut eras, now));
    eras
}

/// Notes that these policies were in use at the end of the last era.
fn note(eras: &mut Vec<Era>, policies: Policies) {
    match eras.last() {
        None => eras.push(Era { from: Time::default(), policies, is_unsure: false }),
        Some(last) if last.policies != policies => {
            let from = last.from;
            eras.push(Era { from, policies, is_unsure: true });
        }
        Some(_) => {}
    }
}

fn of_eras(eras: &[Era], (begin, end): (Time, Time)) -> Ruled {
    let nexts = eras.iter().skip(1).map(|era| era.from).chain([Time(u64::MAX)]);
    let meanwhile = eras.iter().zip(nexts).filter(|(era, next)| {
        let has_begun = era.from < end || era.from <= begin;
        has_begun && begin < *next && era.from < *next
    });
    let meanwhile: Vec<(&Era, Time)> = meanwhile.collect();
    let lasted = |(era, next): &&(&Era, Time)| (*next).min(end).since(era.from.max(begin));
    let Some((longest, _)) = meanwhile.iter().max_by_key(lasted) else { return Ruled::default() };
    let policies = longest.policies;
    let is_other = |(era, _): &(&Era, Time)| era.is_unsure || era.policies != policies;
    Ruled { policies, is_known: true, have_changed: meanwhile.iter().any(is_other) }
}

#[cfg(test)]
mod tests {
    use scheduler::{engine::interface::views::policies::PolicyChange, policy::Policies, time::Time};

    use super::{eras, of_eras};

    fn policies(matching: &str) -> Policies {
        protocol::policies::with(Policies::default(), "matching", matching).unwrap()
    }

    #[test]
    fn those_that_went_longest_while_the_jobs_ran_count() {
        let (turns, fifo, single) = (policies("turns"), policies("fifo"), policies("sufferage"));
        let change = |at: u64, before: Policies, policies: Policies| PolicyChange {
            at: Time(at),
            by: "operator".into(),
            configured: turns,
            before,
            policies,
        };
        let changes = [change(100, turns, fifo), change(200, fifo, turns), change(300, single, fifo)];
        for (begin, end, expected, have_changed) in [
            (10, 100, turns, false),
            (10, 60, turns, false),
            (10, 180, turns, true),
            (50, 180, fifo, true),
            (100, 200, fifo, false),
            (150, 150, fifo, false),
            // The configuration changed between these times.
            (210, 250, single, true),
            (300, 400, fifo, false),
        ] {
            let found = of_eras(&eras(&changes, Some(fifo)), (Time(begin), Time(end)));
            assert_eq!((found.policies, found.have_changed), (expected, have_changed), "{begin} to {end}");
            assert!(found.is_known);
        }
        let since = of_eras(&eras(&changes, Some(turns)), (Time(310), Time(400)));
        assert_eq!((since.policies, since.have_changed), (turns, true));
        let never = of_eras(&eras(&[], Some(fifo)), (Time(310), Time(400)));
        assert_eq!((never.policies, never.have_changed), (fifo, false));
        assert!(!of_eras(&eras(&[], None), (Time(310), Time(400))).is_known);
        assert_eq!(of_eras(&eras(&changes, None), (Time(10), Time(60))).policies, turns);
    }
}
