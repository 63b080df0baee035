//! Which slot, CPUs and GPUs a running task has. Amounts are the scheduler's business, names are ours.

/// What one task has been given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The lowest number that no running task has.
    pub slot: usize,
    /// CPUs to bind to; empty: not bound.
    pub cpus: Vec<usize>,
    /// GPUs by name.
    pub gpus: Vec<String>,
}

/// What is free.
#[derive(Clone, Debug)]
pub struct Slots {
    taken: Vec<bool>,
    /// Free CPUs, the lowest last; empty when tasks are not bound.
    cpus: Vec<usize>,
    gpus: Vec<String>,
}

impl Slots {
    /// CPUs to bind tasks to (none: tasks are not bound), and GPUs.
    pub fn new(cpus: &[usize], gpus: &[String]) -> Slots {
        let mut slots = Slots { taken: Vec::new(), cpus: cpus.to_vec(), gpus: gpus.to_vec() };
        slots.sort();
        slots
    }

    /// A place for a task. Fewer CPUs or GPUs than asked for only if the pilot offered more than there are.
    pub fn take(&mut self, n_cores: usize, n_gpus: usize) -> Place {
        let slot = self.taken.iter().position(|taken| !taken).unwrap_or(self.taken.len());
        if slot == self.taken.len() {
            self.taken.push(false);
        }
        self.taken[slot] = true;
        let last = |free: usize, n: usize| free - n.min(free);
        let (cpus, gpus) = (last(self.cpus.len(), n_cores), last(self.gpus.len(), n_gpus));
        Place { slot, cpus: self.cpus.split_off(cpus), gpus: self.gpus.split_off(gpus) }
    }

    /// Takes a place back.
    pub fn give_back(&mut self, place: Place) {
        if let Some(taken) = self.taken.get_mut(place.slot) {
            *taken = false;
        }
        self.cpus.extend(place.cpus);
        self.gpus.extend(place.gpus);
        self.sort();
    }

    fn sort(&mut self) {
        self.cpus.sort_unstable_by(|a, b| b.cmp(a));
        self.gpus.sort_unstable_by(|a, b| b.cmp(a));
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Slots};

    #[test]
    fn no_two_running_tasks_share_anything() {
        let gpus = ["0".to_string(), "1".to_string()];
        let mut slots = Slots::new(&[4, 5, 6, 7], &gpus);
        let first = slots.take(2, 1);
        let second = slots.take(1, 1);
        assert_eq!(first, Place { slot: 0, cpus: vec![5, 4], gpus: vec!["0".into()] });
        assert_eq!(second, Place { slot: 1, cpus: vec![6], gpus: vec!["1".into()] });
        slots.give_back(first.clone());
        assert_eq!(slots.take(2, 1), first);
        assert_eq!(slots.take(1, 0).slot, 2);
    }

    #[test]
    fn unbound_tasks_have_slots_only() {
        let mut slots = Slots::new(&[], &[]);
        assert_eq!(slots.take(8, 0), Place::default());
    }
}
