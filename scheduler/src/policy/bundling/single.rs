//! One task in an answer: the baseline for other bundles.

use super::Situation;

/// Returns 1 if a task can be sent.
pub(super) fn size(situation: Situation) -> u64 {
    situation.n_room.max(situation.n_startable).min(situation.n_ready).min(1)
}

#[cfg(test)]
mod tests {
    use super::super::{Bundling, Situation};

    #[test]
    fn never_more_than_one() {
        let situation = Situation { n_startable: 8, n_room: 100, n_ready: 50, n_pilots: 1, n_brief: 9 };
        assert_eq!(Bundling::Single.size(situation), 1);
        assert_eq!(
            Bundling::Single.size(Situation { n_room: 0, ..situation }),
            1,
            "what could begin always goes"
        );
        assert_eq!(Bundling::Single.size(Situation { n_room: 0, n_startable: 0, ..situation }), 0);
    }
}
