//! A fixed number of tasks in an answer, whatever their runtimes, and the remainder at the end: the baseline
//! of paper 002 (section 4) for bundles by estimate. A bundle is smaller if the pilot may not get that many
//! tasks yet.

use std::num::NonZero;

use super::Situation;

/// Returns the number of tasks to send: `n_tasks`, or fewer if not as many can be sent.
pub(super) fn size(situation: Situation, n_tasks: NonZero<u64>) -> u64 {
    situation.n_room.max(situation.n_startable).min(situation.n_ready).min(n_tasks.get())
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;

    use super::super::{Bundling, Situation};

    #[test]
    fn so_many_while_they_can_be_sent() {
        let ten = Bundling::Fixed(NonZero::new(10).unwrap());
        let situation = Situation { n_startable: 2, n_room: 100, n_ready: 50, n_pilots: 9, n_brief: 0 };
        assert_eq!(ten.size(situation), 10);
        assert_eq!(ten.size(Situation { n_ready: 7, ..situation }), 7);
        assert_eq!(ten.size(Situation { n_room: 3, ..situation }), 3);
        assert_eq!(ten.size(Situation { n_room: 0, ..situation }), 2);
        assert_eq!(ten.size(Situation { n_room: 0, n_startable: 0, ..situation }), 0);
    }
}
