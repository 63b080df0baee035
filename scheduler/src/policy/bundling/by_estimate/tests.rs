//! Tests of bundles by estimate: a case computed independently, small ones by hand, and general properties.

use proptest::prelude::*;

use super::{bin_packing::pack, *};

const TASKS: [f64; 10] = [9.0, 7.0, 7.0, 5.0, 4.0, 3.0, 3.0, 2.0, 1.0, 1.0];
const TAKER: Taker = Taker { n_bins: 2, rate: 2.0, transfer_s: 0.5, environment_s: 1.5, n_sharing: 8 };

fn all(mut waiting: Estimates) -> Vec<f64> {
    std::iter::from_fn(|| waiting.take_at_most(f64::MAX)).collect()
}

fn estimates(bundle: Vec<Packed<()>>) -> Vec<f64> {
    bundle.into_iter().map(|packed| packed.estimate).collect()
}

/// Returns the content of each bin if tasks go in this order into the least filled bin.
fn bins(bundle: &[f64], n_bins: usize) -> Vec<Vec<f64>> {
    let mut bins = vec![Vec::new(); n_bins];
    for estimate in bundle {
        let load = |bin: &&mut Vec<f64>| bin.iter().sum::<f64>();
        let least = bins.iter_mut().min_by(|a, b| load(a).total_cmp(&load(b))).unwrap();
        least.push(*estimate);
    }
    bins
}

#[test]
fn three_bins_of_twelve() {
    let mut waiting: Estimates = TASKS.into_iter().collect();
    let bundle = estimates(pack(&mut waiting, 3, 12.0));
    assert_eq!(bins(&bundle, 3), [vec![9.0, 3.0], vec![7.0, 5.0], vec![7.0, 4.0, 1.0]]);
    assert_eq!(all(waiting), [3.0, 2.0, 1.0]);
}

#[test]
fn capacity_is_that_of_equation_9() {
    let waiting: Estimates = TASKS.into_iter().collect();
    let capacity = |law: BinPacking| law.capacity(&waiting, &TAKER);
    // c2: 10 (0.5 + 1.5) seconds at a rate of 2. c1: five times 9.
    assert_eq!(capacity(BinPacking::PAPER), 40.0);
    assert_eq!(capacity(BinPacking { c1: 5.0, ..BinPacking::PAPER }), 45.0);
    assert_eq!(capacity(BinPacking { c2: 1.0, ..BinPacking::PAPER }), 9.0);
    assert_eq!(BinPacking::PAPER.capacity(&Estimates::default(), &TAKER), 0.0);
}

#[test]
fn a_bin_holds_as_much_more_as_the_node_is_faster() {
    // Two bins of max(c1 9 / r, c2 2) seconds: the largest task decides while r is below 9 c1 / 2 c2.
    for (c1, c2, rate, capacity, bundle) in [
        (1.0, 1.0, 1.0, 9.0, &[9.0, 7.0, 2.0][..]),
        (1.0, 1.0, 2.0, 9.0, &[9.0, 7.0, 2.0]),
        (1.0, 1.0, 5.0, 10.0, &[9.0, 7.0, 3.0, 1.0]),
        (2.0, 1.0, 1.0, 18.0, &[9.0, 7.0, 7.0, 5.0, 4.0, 3.0, 1.0]),
        (1.0, 10.0, 1.0, 20.0, &[9.0, 7.0, 7.0, 5.0, 4.0, 3.0, 3.0, 2.0]),
        (1.0, 10.0, 5.0, 100.0, &TASKS),
        (1.5, 0.0, 5.0, 13.5, &[9.0, 7.0, 5.0, 4.0, 1.0]),
    ] {
        let (law, taker) = (BinPacking { c1, c2, ..BinPacking::PAPER }, Taker { rate, ..TAKER });
        let mut waiting: Estimates = TASKS.into_iter().collect();
        assert_eq!(law.capacity(&waiting, &taker), capacity, "{c1} {c2} {rate}");
        assert_eq!(ByEstimate::BinPacking(law).take(&mut waiting, &taker), bundle, "{c1} {c2} {rate}");
    }
}

#[test]
fn the_largest_is_of_those_that_wait_or_of_all() {
    let mut waiting: Estimates = TASKS.into_iter().collect();
    waiting.take_at_most(f64::MAX);
    let capacity = |largest| BinPacking { c2: 0.0, largest, ..BinPacking::PAPER }.capacity(&waiting, &TAKER);
    assert_eq!([capacity(Largest::Waiting), capacity(Largest::OfAll)], [7.0, 9.0]);
    // At the tail a bin need not be large enough for tasks that are gone.
    let shrunk = BinPacking { c2: 0.0, largest: Largest::OfAll, ..BinPacking::default() };
    assert_eq!(shrunk.capacity(&waiting, &TAKER), 7.0);
}

#[test]
fn the_tail_is_shared() {
    let mut waiting: Estimates = TASKS.into_iter().collect();
    let law = BinPacking::default();
    // Half of 42 for each of 8 processors is less than the largest task.
    assert_eq!(law.capacity(&waiting, &TAKER), 9.0);
    let few = Taker { n_sharing: 2, ..TAKER };
    assert_eq!(law.capacity(&waiting, &few), 10.5);
    assert_eq!(
        law.capacity(&waiting, &Taker { n_sharing: 0, ..TAKER }),
        21.0,
        "one at least works on the job"
    );
    assert_eq!(ByEstimate::BinPacking(law).take(&mut waiting, &TAKER), [9.0, 7.0, 2.0]);
}

#[test]
fn what_fits_nowhere_goes_alone() {
    let mut waiting: Estimates = [9.0, 7.0].into_iter().collect();
    let pack = |waiting: &mut Estimates, n_bins, capacity| estimates(pack(waiting, n_bins, capacity));
    assert_eq!(pack(&mut waiting, 4, 5.0), [9.0]);
    assert_eq!(pack(&mut waiting, 0, 99.0), [7.0]);
    assert!(pack(&mut waiting, 4, 5.0).is_empty());
}

#[test]
fn fixed_bundles_have_so_many_tasks() {
    let mut waiting: Estimates = TASKS.into_iter().collect();
    assert_eq!(ByEstimate::Single.take(&mut waiting, &TAKER), [9.0]);
    assert_eq!(ByEstimate::Fixed { n_tasks: 3 }.take(&mut waiting, &TAKER), [7.0, 7.0, 5.0]);
    assert_eq!(ByEstimate::Fixed { n_tasks: 0 }.take(&mut waiting, &TAKER), [4.0]);
    assert_eq!(ByEstimate::Fixed { n_tasks: 99 }.take(&mut waiting, &TAKER), [3.0, 3.0, 2.0, 1.0, 1.0]);
}

#[test]
fn a_task_that_comes_back_counts_again() {
    let mut waiting: Estimates = [3.0, 3.0].into_iter().collect();
    waiting.take_at_most(4.0);
    waiting.insert(5.0);
    waiting.insert(-0.0);
    assert_eq!((waiting.n_tasks(), waiting.work(), waiting.largest()), (3, 8.0, Some(5.0)));
    assert_eq!(waiting.largest_ever(), 5.0);
    assert_eq!(waiting.take_at_most(-1e-9), Some(0.0));
    assert_eq!(all(waiting), [5.0, 3.0]);
    let mut tenths: Estimates = [0.1, 0.2, 0.3].into_iter().collect();
    while tenths.take_at_most(1.0).is_some() {}
    assert_eq!(tenths.work(), 0.0, "whatever rounding leaves");
}

fn laws() -> impl Strategy<Value = ByEstimate> {
    let largest = prop_oneof![Just(Largest::Waiting), Just(Largest::OfAll)];
    let packing = (0.0..4.0, 0.0..20.0, largest, any::<bool>());
    prop_oneof![
        (0..9u64).prop_map(|n_tasks| ByEstimate::Fixed { n_tasks }),
        packing.prop_map(|(c1, c2, largest, is_tail_shrunk)| {
            ByEstimate::BinPacking(BinPacking { c1, c2, largest, is_tail_shrunk })
        }),
    ]
}

proptest! {
    #[test]
    fn bundles_keep_to_their_bound_and_lose_no_task(
        tasks in prop::collection::vec(0..500u32, 0..60), law in laws(), n_bins in 1..9u32, rate in 0.2..5.0,
        n_sharing in 0..30u64,
    ) {
        let taker = Taker { n_bins, rate, n_sharing, ..TAKER };
        let mut waiting: Estimates = tasks.iter().map(|estimate| f64::from(*estimate)).collect();
        let mut taken = Vec::new();
        while !waiting.is_empty() {
            let before = waiting.clone();
            let bundle = law.take(&mut waiting, &taker);
            prop_assert!(!bundle.is_empty());
            prop_assert!(bundle.is_sorted_by(|a, b| a >= b));
            if let ByEstimate::BinPacking(law) = law {
                let capacity = law.capacity(&before, &taker);
                let bins = bins(&bundle, n_bins as usize);
                let fullest = bins.iter().map(|bin| bin.iter().sum::<f64>()).fold(0.0, f64::max);
                prop_assert!(fullest <= capacity * (1.0 + 1e-9) || bundle.len() == 1, "{} of {}", fullest, capacity);
            }
            taken.extend(bundle);
            prop_assert!((waiting.work() + taken.iter().sum::<f64>() - f64::from(tasks.iter().sum::<u32>())).abs() < 1e-6);
        }
        let mut expected: Vec<f64> = tasks.into_iter().map(f64::from).collect();
        expected.sort_by(f64::total_cmp);
        taken.sort_by(f64::total_cmp);
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn packing_is_that_of_the_definition(
        tasks in prop::collection::vec(0..50u32, 0..40), n_bins in 1..6usize, capacity in 0..120u32,
    ) {
        let capacity = f64::from(capacity);
        let mut waiting: Estimates = tasks.iter().map(|estimate| f64::from(*estimate)).collect();
        // As the paper prints it: every bin is closed by itself.
        let mut left = all(waiting.clone());
        let (mut loads, mut is_open, mut expected) = (vec![0_f64; n_bins], vec![true; n_bins], Vec::new());
        while let Some(bin) = (0..n_bins).filter(|bin| is_open[*bin]).min_by(|a, b| loads[*a].total_cmp(&loads[*b])) {
            match left.iter().position(|estimate| *estimate <= capacity - loads[bin]) {
                Some(at) => {
                    loads[bin] += left[at];
                    expected.push(left.remove(at));
                }
                None => is_open[bin] = false,
            }
        }
        if expected.is_empty() && !left.is_empty() {
            expected.push(left.remove(0));
        }
        prop_assert_eq!(estimates(pack(&mut waiting, n_bins as u32, capacity)), expected);
        prop_assert_eq!(all(waiting), left);
    }
}
