use proptest::prelude::*;

use super::*;

const JOBS: [u64; 3] = [30_000, 150_000, 70_000];
const INITIAL: [[f64; 2]; 3] = [[0.55, 0.45], [0.70, 0.30], [0.55, 0.45]];

fn matrix<const N: usize>(rows: &[[f64; N]]) -> WeightMatrix {
    let rows: Result<Vec<Weights>, _> = rows.iter().map(|row| Weights::try_from(row.to_vec())).collect();
    WeightMatrix::try_from(rows.unwrap()).unwrap()
}

fn example() -> LoadAndError {
    let mut law = LoadAndError::new(matrix(&INITIAL), 0.1, 3);
    JOBS.iter().for_each(|size| law.remember(*size));
    law
}

fn assert_rows<const N: usize>(matrix: &WeightMatrix, expected: &[[f64; N]]) {
    for (row, expected) in matrix.rows().iter().zip(expected) {
        let off = row.shares().iter().zip(expected).map(|(found, expected)| (found - expected).abs());
        assert!(off.fold(0.0, f64::max) < 1e-12, "{:?}, not {expected:?}", row.shares());
    }
}

#[test]
fn the_example_of_section_3_3() {
    let mut law = example();
    assert!((law.threshold() - 83_333.333_333_333_33).abs() < 1e-9);
    assert_eq!(law.load(&[169_000, 81_000]), Adjusted::Moved { n_clamped: 0 });
    assert_rows(law.matrix(), &[[0.45, 0.55], [0.60, 0.40], [0.45, 0.55]]);
}

#[test]
fn queues_of_the_example_by_its_own_weights_initialize() {
    let queues = |applications: [usize; 3]| {
        let slices = JOBS.iter().zip(applications);
        let n_first: u64 = slices.map(|(n, row)| matrix(&INITIAL).row(row).split(*n)[0].end).sum();
        [n_first, JOBS.iter().sum::<u64>() - n_first]
    };
    assert_eq!(queues([1, 0, 2]), [142_000, 108_000]);
    assert_eq!(queues([0, 1, 2]), [160_000, 90_000]);
    for queued in [queues([1, 0, 2]), queues([0, 1, 2])] {
        let mut law = example();
        law.load(&[169_000, 81_000]);
        assert_eq!(law.load(&queued), Adjusted::Initialized);
        assert_rows(law.matrix(), &INITIAL);
    }
    assert_eq!(example().load(&[83_333, 1]), Adjusted::Kept);
}

#[test]
fn the_threshold_forgets_and_begins_at_zero() {
    let mut law = LoadAndError::new(matrix(&INITIAL), 0.1, 2);
    assert_eq!(law.threshold(), 0.0);
    [1000, 10, 20].iter().for_each(|size| law.remember(*size));
    assert_eq!(law.threshold(), 15.0);
    let mut of_none = LoadAndError::new(matrix(&INITIAL), 0.1, 0);
    [10, 20].iter().for_each(|size| of_none.remember(*size));
    assert_eq!(of_none.threshold(), 20.0, "one job at least is looked back on");
}

#[test]
fn errors_are_a_ratchet_that_ends_at_one() {
    let mut law = LoadAndError::new(matrix(&INITIAL), 0.1, 3);
    assert_eq!(law.error(&[false, true]), 0);
    assert_rows(law.matrix(), &[[0.45, 0.55], [0.60, 0.40], [0.45, 0.55]]);
    // From .45 and .6: at the fifth and the sixth time two of the rows are at the limit already.
    assert_eq!([(); 6].map(|()| law.error(&[false, true])), [0, 0, 0, 0, 2, 2]);
    assert_rows(law.matrix(), &[[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]);
    assert_eq!(law.error(&[true, true]), 0);
}

#[test]
fn among_three_platforms_who_gains_shares_what_the_others_lose() {
    const ROWS: [[f64; 3]; 2] = [[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]];
    let law = || {
        let mut law = LoadAndError::new(matrix(&ROWS), 0.1, 3);
        law.remember(100);
        law
    };
    // LOAD: W - Delta where more than 100 tasks wait, W + Delta |X| / |not X| elsewhere.
    for (queued, expected) in [
        ([101, 100, 0], [[0.4, 0.35, 0.25], [0.1, 0.25, 0.65]]),
        ([0, 0, 101], [[0.55, 0.35, 0.1], [0.25, 0.25, 0.5]]),
        ([101, 0, 900], [[0.4, 0.5, 0.1], [0.1, 0.4, 0.5]]),
    ] {
        let mut law = law();
        assert_eq!(law.load(&queued), Adjusted::Moved { n_clamped: 0 });
        assert_rows(law.matrix(), &expected);
    }
    let mut again = law();
    assert_eq!([(); 2].map(|()| again.load(&[101, 0, 0])), [Adjusted::Moved { n_clamped: 0 }; 2]);
    assert_rows(again.matrix(), &[[0.3, 0.4, 0.3], [0.0, 0.3, 0.7]]);
    let mut kept = law();
    assert_eq!(kept.load(&[100; 3]), Adjusted::Kept);
    assert_rows(kept.matrix(), &ROWS);
    // ERROR: W + Delta where vCPUs rose, W - Delta |cloud| / |other| elsewhere.
    for (has_risen, expected) in [
        ([false, false, true], [[0.45, 0.25, 0.3], [0.15, 0.15, 0.7]]),
        ([true, true, false], [[0.6, 0.4, 0.0], [0.3, 0.3, 0.4]]),
        ([false; 3], ROWS),
        ([true; 3], ROWS),
    ] {
        let mut law = law();
        assert_eq!(law.error(&has_risen), 0);
        assert_rows(law.matrix(), &expected);
    }
    // First .3 .4 .3 and 0 .3 .7; then .1 .5 .4 and -.2 .4 .8, of which 1.2 remain after clamping.
    let mut twice = law();
    assert_eq!([(); 2].map(|()| twice.error(&[false, true, true])), [0, 1]);
    assert_rows(twice.matrix(), &[[0.1, 0.5, 0.4], [0.0, 0.4 / 1.2, 0.8 / 1.2]]);
}

#[test]
fn slices_follow_the_weights_and_the_last_takes_the_rest() {
    let cut = |shares: &[f64], n| Weights::try_from(shares.to_vec()).unwrap().split(n);
    assert_eq!(cut(&[0.5, 0.25, 0.25], 10), [0..5, 5..7, 7..10]);
    assert_eq!(cut(&[0.25, 0.25, 0.5], 10), [0..2, 2..5, 5..10], "halves of tasks add up");
    assert_eq!(cut(&[0.0, 1.0], 3), [0..0, 0..3]);
    assert_eq!(cut(&[1.0, 0.0], 3), [0..3, 3..3]);
}

#[test]
fn what_is_no_distribution_is_refused() {
    let refusal = |shares: &[f64]| Weights::try_from(shares.to_vec()).unwrap_err();
    assert_eq!(refusal(&[0.5, 0.4]), NoWeights::Sum { sum: 0.9 });
    assert_eq!(refusal(&[]), NoWeights::Empty);
    assert_eq!(refusal(&[1.2, -0.2]), NoWeights::NotAShare { place: 0, weight: 1.2 });
    assert!(matches!(refusal(&[0.5, f64::NAN]), NoWeights::NotAShare { place: 1, .. }));
    assert_eq!(Weights::of(&[0.0, 0.0]), None);
    assert_eq!(Weights::of(&[1.0, f64::INFINITY]), None);
    let short = Weights::equal(1);
    let ragged = WeightMatrix::try_from(vec![Weights::equal(2), short]).unwrap_err();
    assert_eq!(ragged, Ragged { row: 1, found: 1, expected: 2 });
}

fn two_platforms(policy: Distribution, runtimes: &[Vec<Option<f64>>]) -> Distributor {
    let runtimes = Table::from_rows(runtimes).unwrap();
    Distributor::new(policy, &Settings::default(), &Known { cores: &[30, 10], runtimes: &runtimes })
}

#[test]
fn each_policy_divides_by_what_it_knows() {
    let queued = Table::from_rows(&[vec![0, 0], vec![30, 0]]).unwrap();
    let first = |policy| {
        let distributor = two_platforms(policy, &[vec![Some(30.0), Some(5.0)], vec![None, None]]);
        [0, 1].map(|row| distributor.weights(row, 30, &queued).shares()[0])
    };
    assert_eq!(first(Distribution::CoreBased), [0.75, 0.75]);
    let known = Known { cores: &[0, 3, 1], runtimes: &Table::new(1, 3, None) };
    let by_cores = Distributor::new(Distribution::CoreBased, &Settings::default(), &known);
    assert_eq!(by_cores.weights(0, 4, &Table::new(1, 3, 0)).shares(), [0.0, 0.75, 0.25]);
    // One task per second against two; an unknown runtime is the same everywhere.
    assert_eq!(first(Distribution::Profile), [1.0 / 3.0, 0.75]);
    assert_eq!(first(Distribution::Adaptive2016), [1.0 / 3.0, 0.75]);
    // The first platform has a backlog of 17.5 s: the others finish 2 · 15 tasks before that.
    assert_eq!(first(Distribution::Adaptive)[0], 0.0);
}

#[test]
fn what_is_not_known_of_an_application_is_as_in_its_row_or_else_as_in_all() {
    let none = f64::INFINITY;
    let runtimes = [
        vec![Some(10.0), None, Some(20.0)],
        vec![None, Some(none), None],
        vec![Some(0.0), Some(-5.0), Some(30.0)],
    ];
    let runtimes = Table::from_rows(&runtimes).unwrap();
    let rates = Known { cores: &[2, 4, 0], runtimes: &runtimes }.rates();
    // The means are of 10 and 20, of 10, 20 and 30, and of 30.
    let expected =
        [[2.0 / 10.0, 4.0 / 15.0, 0.0], [2.0 / 20.0, 4.0 / 20.0, 0.0], [2.0 / 30.0, 4.0 / 30.0, 0.0]];
    assert_eq!(rates.rows().collect::<Vec<_>>(), expected);
}

#[test]
fn a_backlog_takes_as_long_as_the_applications_in_it() {
    // Tasks per second: one of the first application; .1 and .2 of the second. Three tasks wait on the first
    // platform. There the job begins 30 s later: 10 and 40 tasks end after 40 s.
    let runtimes = Table::from_rows(&[vec![Some(10.0), Some(10.0)], vec![Some(100.0), Some(50.0)]]).unwrap();
    let known = Known { cores: &[10, 10], runtimes: &runtimes };
    let distributor = Distributor::new(Distribution::Adaptive, &Settings::default(), &known);
    let queued = Table::from_rows(&[vec![0, 0], vec![3, 0]]).unwrap();
    let shares = distributor.weights(0, 50, &queued).shares().to_vec();
    assert!((shares[0] - 0.2).abs() < 1e-12 && (shares[1] - 0.8).abs() < 1e-12, "{shares:?}");
}

#[test]
fn only_the_published_law_moves_weights_when_jobs_come_and_vcpus_rise() {
    // Twelve and six tasks wait on the platforms; the mean size of the jobs is the size of this one, ten.
    let queued = Table::from_rows(&[vec![6, 4], vec![6, 2]]).unwrap();
    for policy in ALL {
        let mut distributor = two_platforms(policy, &vec![vec![Some(30.0), Some(10.0)]; 2]);
        let before = distributor.weights(0, 10, &queued);
        let adjusted = [distributor.submitted(10, &queued), distributor.scaled_up(&[true, false])];
        if policy == Distribution::Adaptive2016 {
            assert_eq!(adjusted, [Adjusted::Moved { n_clamped: 0 }; 2]);
            distributor.scaled_up(&[false, true]);
            distributor.scaled_up(&[false, true]);
            let shares = distributor.weights(1, 10, &queued).shares().to_vec();
            // The weights are .5, then .4, .5, .4 and .3.
            assert!((shares[0] - 0.3).abs() < 1e-12, "{shares:?}");
        } else {
            assert_eq!(adjusted, [Adjusted::Kept; 2], "{policy:?}");
            assert_eq!(distributor.weights(0, 10, &queued), before, "{policy:?}");
        }
    }
}

#[test]
fn measured_rates_take_the_place_of_the_profile() {
    let mut distributor = two_platforms(Distribution::Adaptive, &[vec![Some(30.0), Some(10.0)]]);
    let nothing = Table::new(1, 2, 0);
    assert_eq!(distributor.weights(0, 8, &nothing).shares(), [0.5, 0.5]);
    let measured = |n_finished, platform_s| Measured { application: 0, platform: 1, n_finished, platform_s };
    distributor.finished(&measured(1500.0, 300.0));
    // Half of the weight comes from these 300 s: (1 + 5) / 2 tasks per second.
    assert_eq!(distributor.weights(0, 8, &nothing).shares(), [0.25, 0.75]);
    for nonsense in [measured(1.0, 0.0), measured(f64::NAN, 1.0), measured(-1.0, 1.0)] {
        distributor.finished(&nonsense);
    }
    assert_eq!(distributor.weights(0, 8, &nothing).shares(), [0.25, 0.75]);
    (0..100).for_each(|_| distributor.finished(&measured(0.0, 1000.0)));
    let share = distributor.weights(0, 8, &nothing).shares()[1];
    assert!(share > 0.0 && share < 0.02, "a platform that fails is still tried: {share}");
}

#[test]
fn the_empty_and_the_dead_are_divided_too() {
    let runtimes = Table::from_rows(&[vec![None, None]]).unwrap();
    let queued = Table::from_rows(&[vec![9, 9]]).unwrap();
    for policy in ALL {
        let known = Known { cores: &[0, 0], runtimes: &runtimes };
        let distributor = Distributor::new(policy, &Settings::default(), &known);
        assert_eq!(distributor.weights(0, 0, &queued).shares(), [0.5, 0.5], "{policy:?}");
    }
}

const ALL: [Distribution; 4] =
    [Distribution::CoreBased, Distribution::Profile, Distribution::Adaptive2016, Distribution::Adaptive];

/// An event for a distributor.
#[derive(Clone, Debug)]
enum Happening {
    Job { application: usize, n_tasks: u64 },
    Risen(Vec<bool>),
    Finished { application: usize, platform: usize, n_finished: f64, platform_s: f64 },
}

const N_APPLICATIONS: usize = 3;
const N_PLATFORMS: usize = 4;

fn happenings() -> impl Strategy<Value = Happening> {
    let seconds = prop_oneof![Just(0.0), 0.0..1e4, Just(f64::INFINITY)];
    prop_oneof![
        (0..N_APPLICATIONS, 0..100_000u64)
            .prop_map(|(application, n_tasks)| Happening::Job { application, n_tasks }),
        prop::collection::vec(any::<bool>(), N_PLATFORMS).prop_map(Happening::Risen),
        (0..N_APPLICATIONS, 0..N_PLATFORMS, 0.0..1e6, seconds).prop_map(
            |(application, platform, n_finished, platform_s)| Happening::Finished {
                application,
                platform,
                n_finished,
                platform_s
            }
        ),
    ]
}

proptest! {
    #[test]
    fn weights_are_a_distribution_whatever_happens(
        cores in prop::collection::vec(0..1000u64, N_PLATFORMS),
        runtimes in prop::collection::vec(prop::collection::vec(prop::option::of(-1.0..1e4), N_PLATFORMS), N_APPLICATIONS),
        delta in 0.0..2.0,
        happenings in prop::collection::vec(happenings(), 0..30),
    ) {
        let runtimes = Table::from_rows(&runtimes).unwrap();
        for policy in ALL {
            let settings = Settings { delta, ..Settings::default() };
            let mut distributor = Distributor::new(policy, &settings, &Known { cores: &cores, runtimes: &runtimes });
            let mut queued = Table::new(N_APPLICATIONS, N_PLATFORMS, 0);
            for happening in &happenings {
                match happening {
                    Happening::Job { application, n_tasks } => {
                        let weights = distributor.weights(*application, *n_tasks, &queued);
                        let shares = weights.shares();
                        prop_assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{policy:?} {shares:?}");
                        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{policy:?} {shares:?}");
                        for (platform, slice) in weights.split(*n_tasks).into_iter().enumerate() {
                            *queued.at_mut(*application, platform) += slice.end - slice.start;
                        }
                        distributor.submitted(*n_tasks, &queued);
                    }
                    Happening::Risen(platforms) => {
                        distributor.scaled_up(platforms);
                    }
                    Happening::Finished { application, platform, n_finished, platform_s } => {
                        let (application, platform) = (*application, *platform);
                        distributor.finished(&Measured { application, platform, n_finished: *n_finished, platform_s: *platform_s });
                    }
                }
            }
        }
    }

    #[test]
    fn slices_hold_each_task_once(amounts in prop::collection::vec(0.0..1.0f64, 1..8), n_tasks in prop_oneof![0..100u64, any::<u64>()]) {
        let weights = Weights::of(&amounts).unwrap_or_else(|| Weights::equal(amounts.len()));
        let slices = weights.split(n_tasks);
        prop_assert_eq!(slices.len(), amounts.len());
        prop_assert_eq!(slices[0].start, 0);
        prop_assert_eq!(slices[slices.len() - 1].end, n_tasks);
        for pair in slices.windows(2) {
            prop_assert!(pair[0].start <= pair[0].end && pair[0].end == pair[1].start);
        }
    }

    #[test]
    fn whoever_gets_some_finishes_together_and_nobody_else_could_help(
        rows in prop::collection::vec((1..100u64, 0.1..100.0f64, 0..1000u64), 1..6), n_tasks in 1..10_000u64,
    ) {
        let cores: Vec<u64> = rows.iter().map(|row| row.0).collect();
        let runtimes = Table::from_rows(&[rows.iter().map(|row| Some(row.1)).collect()]).unwrap();
        let queued = Table::from_rows(&[rows.iter().map(|row| row.2).collect()]).unwrap();
        let known = Known { cores: &cores, runtimes: &runtimes };
        let weights = Distributor::new(Distribution::Adaptive, &Settings::default(), &known).weights(0, n_tasks, &queued);
        let backlog = |n| queued.at(0, n) as f64 / known.rates().at(0, n);
        let end = |n: usize| backlog(n) + weights.shares()[n] * n_tasks as f64 / known.rates().at(0, n);
        let busy: Vec<usize> = (0..rows.len()).filter(|n| weights.shares()[*n] > 1e-9).collect();
        let last = busy.iter().map(|n| end(*n)).fold(0.0, f64::max);
        for n in 0..rows.len() {
            let tolerance = 1e-6 * (1.0 + last);
            prop_assert!(end(n) >= last - tolerance, "{n} ends at {}, others at {last}", end(n));
        }
    }
}
