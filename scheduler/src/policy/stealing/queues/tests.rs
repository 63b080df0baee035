//! Tests of the queues: their order, and that no task is lost or duplicated between pilots.

use proptest::prelude::*;

use super::ReadyQueues;
use crate::policy::stealing::{Pace, Stealing};

/// The result of all policies except lending.
fn never(_: usize, _: u64) -> bool {
    false
}

fn begin_all<T>(mut queues: ReadyQueues<T>) -> Vec<T> {
    std::iter::from_fn(|| queues.begin()).map(|(task, _)| task).collect()
}

#[test]
fn own_tasks_come_first_and_those_with_most_data_before_others() {
    let mut queues = ReadyQueues::new();
    queues.share(90, "shared, much");
    queues.keep(10, "own, little");
    queues.keep(50, "own, much");
    queues.keep(50, "own, as much, later");
    queues.share(5, "shared, little");
    let order = ["own, much", "own, as much, later", "own, little", "shared, much", "shared, little"];
    assert_eq!(begin_all(queues), order);
}

#[test]
fn half_is_given_rounded_up_and_the_lightest_of_it() {
    let n_given = |n: u64| {
        let mut queues = ReadyQueues::new();
        (0..n).for_each(|task| queues.share(task, task));
        queues.keep(0, 99);
        (queues.give_half(usize::MAX, never).len(), queues.n_shared(), queues.n_own())
    };
    assert_eq!([0, 1, 2, 5, 1000].map(n_given), [(0, 0, 1), (1, 0, 1), (1, 1, 1), (3, 2, 1), (500, 500, 1)]);
    let mut queues = ReadyQueues::new();
    [(7, 'a'), (3, 'b'), (5, 'c')].into_iter().for_each(|(bytes, task)| queues.share(bytes, task));
    assert_eq!(queues.clone().give_half(1, never), [(3, 'b')]);
    assert_eq!(queues.give_half(usize::MAX, never), [(3, 'b'), (5, 'c')]);
}

#[test]
fn what_may_leave_is_lent_after_what_is_shared() {
    let pace = Pace { tasks_per_s: 2.0, bytes_per_s: 10.0 };
    let may_leave = |n_waiting, bytes| Stealing::Lend.may_leave(n_waiting, bytes, &pace);
    let mut queues = ReadyQueues::new();
    queues.share(99, 's');
    // With 5, 4, 3 and 2 tasks waiting: 2.5, 2, 1.5 and 1 s here, or 0, 1, 1.5 and 2 s to fetch.
    [(0, 'a'), (10, 'b'), (15, 'c'), (20, 'd'), (70, 'e')]
        .into_iter()
        .for_each(|(n, task)| queues.keep(n, task));
    assert_eq!((queues.n_offered(may_leave), queues.n_offered(never)), (6, 1));
    // One is shared and two may leave: half of three.
    assert_eq!(queues.give_half(usize::MAX, may_leave), [(99, 's'), (0, 'a')]);
    assert_eq!(queues.give_half(usize::MAX, may_leave), [(10, 'b')]);
    assert_eq!((queues.give_half(usize::MAX, may_leave), queues.n_offered(may_leave)), (vec![], 0));
}

#[test]
fn the_lightest_of_its_own_are_released() {
    let mut queues = ReadyQueues::new();
    [(7, 'a'), (3, 'b'), (5, 'c')].into_iter().for_each(|(bytes, task)| queues.keep(bytes, task));
    queues.release(2);
    assert_eq!((queues.n_own(), queues.n_shared()), (1, 2));
    assert_eq!(queues.give_half(usize::MAX, never), [(3, 'b')]);
    queues.release(9);
    assert_eq!((queues.n_own(), queues.n_shared()), (0, 2));
}

/// A random event for a task in the queues of a few pilots.
#[derive(Clone, Debug)]
enum Happening {
    Keep(usize, u64),
    Share(usize, u64),
    Steal(usize, usize),
    Release(usize, usize),
    Begin(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = (0..4usize, 0..4usize, 0..50u64, 0..5u8).prop_map(|(pilot, other, bytes, kind)| match kind {
        0 => Happening::Keep(pilot, bytes),
        1 => Happening::Share(pilot, bytes),
        2 => Happening::Steal(pilot, other),
        3 => Happening::Release(pilot, bytes as usize % 5),
        _ => Happening::Begin(pilot),
    });
    prop::collection::vec(one, 0..300)
}

proptest! {
    #[test]
    fn stealing_loses_nothing_doubles_nothing_and_keeps_the_order(happenings in happenings(), is_lent in any::<bool>()) {
        let pace = Pace { tasks_per_s: 1.0, bytes_per_s: 10.0 };
        let mut pilots: Vec<ReadyQueues<(u64, usize)>> = vec![ReadyQueues::new(); 4];
        let (mut n_entered, mut begun) = (0, Vec::new());
        for happening in happenings {
            match happening {
                Happening::Keep(pilot, bytes) => pilots[pilot].keep(bytes, (bytes, n_entered)),
                Happening::Share(pilot, bytes) => pilots[pilot].share(bytes, (bytes, n_entered)),
                Happening::Steal(thief, victim) => {
                    let n_before = pilots[victim].n_shared();
                    let may_leave = |n_waiting, bytes| is_lent && Stealing::Lend.may_leave(n_waiting, bytes, &pace);
                    let n_offered = pilots[victim].n_offered(may_leave);
                    let stolen = pilots[victim].give_half(usize::MAX, may_leave);
                    prop_assert!(stolen.len() >= n_before.div_ceil(2) && stolen.len() <= n_offered.div_ceil(2));
                    prop_assert_eq!(stolen.is_empty(), n_offered == 0);
                    stolen.into_iter().for_each(|(bytes, task)| pilots[thief].share(bytes, task));
                }
                Happening::Release(pilot, n) => pilots[pilot].release(n),
                Happening::Begin(pilot) => {
                    let n_own = pilots[pilot].n_own();
                    let heaviest = if n_own > 0 { &pilots[pilot].own } else { &pilots[pilot].shared };
                    let heaviest = heaviest.values().map(|(bytes, _)| *bytes).max();
                    let next = pilots[pilot].begin().map(|(task, _)| task);
                    prop_assert_eq!(next.map(|(bytes, _)| bytes), heaviest);
                    begun.extend(next);
                }
            }
            n_entered += usize::from(matches!(happening, Happening::Keep(..) | Happening::Share(..)));
        }
        begun.extend(pilots.into_iter().flat_map(begin_all));
        let mut numbers: Vec<usize> = begun.into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..n_entered).collect::<Vec<_>>());
    }
}
