//! The slot, CPUs and GPUs of each running task. The scheduler decides on their numbers, this module on which
//! ones.

use crate::node::gpus::Gpus;

/// The slot, CPUs and GPUs of one task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The lowest number that no running task has.
    pub slot: usize,
    /// CPUs to which the task is bound; empty: it is not bound.
    pub cpus: Vec<usize>,
    /// The task's GPUs, counted from 0.
    pub gpus: Vec<usize>,
    /// The variables that show the task these GPUs and no others.
    pub shown: Vec<(&'static str, String)>,
}

/// The free slots, CPUs and GPUs.
#[derive(Clone, Debug)]
pub struct Slots {
    taken: Vec<bool>,
    /// CPUs, with their numbers of tasks; empty: tasks are not bound.
    cpus: Vec<(usize, usize)>,
    /// All GPUs of the node.
    of_node: Gpus,
    /// Free GPUs, in descending order.
    gpus: Vec<usize>,
}

impl Slots {
    /// Returns the slots of a node. `cpus`: CPUs to which tasks are bound; empty: they are not bound.
    pub fn new(cpus: &[usize], gpus: Gpus) -> Slots {
        let cpus = cpus.iter().map(|cpu| (*cpu, 0)).collect();
        let free = (0..gpus.count()).collect();
        let mut slots = Slots { taken: Vec::new(), cpus, of_node: gpus, gpus: free };
        slots.sort();
        slots
    }

    /// Takes a place for a task. The task shares CPUs, or gets fewer GPUs than `n_gpus`, only if the pilot
    /// offers more than the node has; then it gets the CPUs with the fewest tasks.
    pub fn take(&mut self, n_cores: usize, n_gpus: usize) -> Place {
        let slot = self.taken.iter().position(|taken| !taken).unwrap_or(self.taken.len());
        if slot == self.taken.len() {
            self.taken.push(false);
        }
        self.taken[slot] = true;
        self.cpus.sort_unstable_by_key(|(cpu, n_tasks)| (*n_tasks, *cpu));
        let mut cpus = Vec::with_capacity(n_cores);
        for (cpu, n_tasks) in self.cpus.iter_mut().take(n_cores) {
            *n_tasks += 1;
            cpus.push(*cpu);
        }
        let n_left = self.gpus.len() - n_gpus.min(self.gpus.len());
        let gpus = self.gpus.split_off(n_left);
        let shown = if gpus.is_empty() { Vec::new() } else { self.of_node.shown(&gpus) };
        Place { slot, cpus, gpus, shown }
    }

    /// Returns a place.
    pub fn give_back(&mut self, place: Place) {
        if let Some(taken) = self.taken.get_mut(place.slot) {
            *taken = false;
        }
        for (_, n_tasks) in self.cpus.iter_mut().filter(|(cpu, _)| place.cpus.contains(cpu)) {
            *n_tasks -= 1;
        }
        self.gpus.extend(place.gpus);
        self.sort();
    }

    fn sort(&mut self) {
        self.gpus.sort_unstable_by(|a, b| b.cmp(a));
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Slots};
    use crate::node::gpus::Gpus;

    #[test]
    fn no_two_running_tasks_share_anything() {
        let mut slots = Slots::new(&[4, 5, 6, 7], Gpus::default().or_declared(2));
        let first = slots.take(2, 1);
        let second = slots.take(1, 1);
        let shown = |gpu: &str| vec![("CUDA_VISIBLE_DEVICES", gpu.to_string())];
        // The lowest free numbers.
        assert_eq!(first, Place { slot: 0, cpus: vec![4, 5], gpus: vec![0], shown: shown("0") });
        assert_eq!(second, Place { slot: 1, cpus: vec![6], gpus: vec![1], shown: shown("1") });
        slots.give_back(first.clone());
        assert_eq!(slots.take(2, 1), first);
        assert_eq!(slots.take(1, 0).slot, 2);
    }

    #[test]
    fn where_there_are_more_slots_than_cpus_each_is_shared_by_as_many() {
        let mut slots = Slots::new(&[0, 1], Gpus::default());
        let places: Vec<Place> = (0..4).map(|_| slots.take(1, 0)).collect();
        assert_eq!(places.iter().map(|place| place.cpus[0]).collect::<Vec<_>>(), [0, 1, 0, 1]);
        slots.give_back(places[1].clone());
        assert_eq!(slots.take(1, 0).cpus, [1]);
        assert_eq!(slots.take(2, 0).cpus, [0, 1]);
    }

    #[test]
    fn unbound_tasks_have_slots_only() {
        let mut slots = Slots::new(&[], Gpus::default());
        assert_eq!(slots.take(8, 0), Place::default());
    }
}
