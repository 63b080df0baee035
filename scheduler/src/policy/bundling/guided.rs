//! Guided bundles: they fill all the room while there are many tasks. At the tail they hold at most half a
//! fair share, so that no pilot is left with the end of the job (guided self-scheduling, Polychronopoulos and
//! Kuck 1987, with a least chunk, GSS(k)). Tasks that can begin at once are always sent.

use super::Situation;

/// Returns the number of tasks to send.
pub(super) fn size(situation: Situation) -> u64 {
    let half_share = situation.n_ready.div_ceil(2 * situation.n_pilots.max(1));
    let n_worthwhile = half_share.max(situation.n_brief);
    situation.n_room.min(n_worthwhile).max(situation.n_startable).min(situation.n_ready)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Bundling, Situation};

    #[test]
    fn the_room_is_filled_while_there_is_plenty() {
        let situation = Situation { n_ready: 1_000_000, ..TAIL };
        assert_eq!(Bundling::Guided.size(situation), 500);
    }

    #[test]
    fn bundles_shrink_at_the_tail() {
        assert_eq!(Bundling::Guided.size(TAIL), 10);
        assert_eq!(
            Bundling::Guided.size(Situation { n_ready: 81, ..TAIL }),
            11,
            "half a share is rounded up"
        );
        assert_eq!(Bundling::Guided.size(Situation { n_ready: 3, ..TAIL }), 2);
    }

    #[test]
    fn what_takes_no_time_is_not_divided() {
        assert_eq!(Bundling::Guided.size(Situation { n_brief: 30, ..TAIL }), 30);
        assert_eq!(Bundling::Guided.size(Situation { n_brief: 3000, ..TAIL }), 80);
        assert_eq!(Bundling::Guided.size(Situation { n_brief: 3000, n_room: 40, ..TAIL }), 40);
    }

    const TAIL: Situation = Situation { n_startable: 2, n_room: 500, n_ready: 80, n_pilots: 4, n_brief: 0 };

    proptest! {
        #[test]
        fn never_more_than_waits_and_never_nothing_while_something_can_begin(
            n_startable in 0..50u64, n_room in 0..5000u64, n_ready in 0..5000u64, n_pilots in 0..50u64,
            n_brief in 0..5000u64,
        ) {
            let n = Bundling::Guided.size(Situation { n_startable, n_room, n_ready, n_pilots, n_brief });
            prop_assert!(n <= n_ready);
            prop_assert!(n_startable == 0 || n_ready == 0 || n > 0);
        }
    }
}
