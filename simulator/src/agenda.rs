//! The queue of future events, by time; events of equal times in the order of entry.

use std::collections::BTreeMap;

use scheduler::time::Time;

#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: BTreeMap<(Time, u64), T>,
    n_entered: u64,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Agenda<T> {
        Agenda { entries: BTreeMap::new(), n_entered: 0 }
    }

    pub(crate) fn enter(&mut self, at: Time, entry: T) {
        self.n_entered += 1;
        self.entries.insert((at, self.n_entered), entry);
    }

    pub(crate) fn next(&mut self) -> Option<(Time, T)> {
        self.entries.pop_first().map(|((at, _), entry)| (at, entry))
    }
}

#[cfg(test)]
mod tests {
    use scheduler::time::Time;

    use super::Agenda;

    #[test]
    fn equal_times_keep_the_order_of_entry() {
        let mut agenda = Agenda::new();
        for (at, name) in [(5, "c"), (1, "a"), (5, "d"), (1, "b")] {
            agenda.enter(Time(at), name);
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).map(|(_, name)| name).collect();
        assert_eq!(order, ["a", "b", "c", "d"]);
    }
}
