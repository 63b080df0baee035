//! Tests of mapping: small cases by hand, and general properties.

use proptest::prelude::*;

use super::{Combination, CorunnerAffinity, Mapping, Placed, Site};

fn combination(members: &[usize], runtimes: &[f64]) -> Combination {
    Combination { members: members.to_vec(), runtimes: runtimes.to_vec() }
}

/// Three users on nodes of four cores. The first suffers most from its own tasks, least from the second user.
fn combinations() -> Vec<Combination> {
    vec![
        combination(&[0], &[20.0]),
        combination(&[1], &[11.0]),
        combination(&[2], &[10.0]),
        combination(&[0, 1], &[12.0, 11.5]),
        combination(&[0, 2], &[16.0, 10.5]),
        combination(&[1, 2], &[10.8, 10.2]),
    ]
}

fn site<'a>(shares: &'a [u64], combinations: &'a [Combination]) -> Site<'a> {
    Site {
        n_nodes: 10,
        cores_per_node: 4,
        shares,
        alone: &[10.0; 3],
        combinations,
        affinity: CorunnerAffinity::Normalized,
        seed: 1,
    }
}

const MAF: Mapping = Mapping::Maf { is_recomputed: true, is_of_pairs: false };

#[test]
fn all_core_gives_whole_nodes_and_draws_for_the_rest() {
    let mut combinations = combinations();
    combinations.reverse();
    let placed = Mapping::AllCore.place(&site(&[17, 14, 9], &combinations));
    assert_eq!(placed.n_nodes, [0, 0, 0, 2, 3, 4]);
    assert_eq!(placed.mixed, [[1, 2, 1]]);
}

#[test]
fn who_suffers_most_chooses_its_company_first() {
    let combinations = combinations();
    let placed = MAF.place(&site(&[12, 8, 20], &combinations));
    // The first user takes the second along on four nodes, then the third on two; the third's rest is alone.
    assert_eq!((placed.n_nodes, placed.mixed.len()), (vec![0, 0, 4, 4, 2, 0], 0));
}

#[test]
fn of_pairs_only_other_differences_count() {
    // The first user suffers most alone, the second beside another user; the second would rather be alone.
    let combinations =
        [combination(&[0], &[40.0]), combination(&[1], &[10.0]), combination(&[0, 1], &[10.0, 12.0])];
    let of = |is_of_pairs| {
        let maf = Mapping::Maf { is_recomputed: true, is_of_pairs };
        maf.place(&Site { n_nodes: 4, alone: &[10.0; 2], ..site(&[8, 8], &combinations) }).n_nodes
    };
    assert_eq!(of(false), [0, 0, 4]);
    assert_eq!(of(true), [2, 2, 0]);
    // In pairs the second suffers more, .3 against .2, and would rather be among three; in threes the first.
    let combinations = [
        combination(&[0], &[16.0]),
        combination(&[1], &[11.0]),
        combination(&[2], &[10.0]),
        combination(&[0, 1], &[12.0, 13.0]),
        combination(&[0, 1, 2], &[40.0, 10.0, 10.0]),
    ];
    let of = |is_of_pairs| {
        let maf = Mapping::Maf { is_recomputed: true, is_of_pairs };
        maf.place(&Site { n_nodes: 3, ..site(&[4, 4, 1], &combinations) }).n_nodes
    };
    assert_eq!(of(true), [0, 0, 0, 1, 1]);
    assert_eq!(of(false), [0, 0, 0, 2, 0]);
}

/// Returns the nodes of each combination by MAF, on exactly as many nodes of four cores as the shares need.
fn most_affected_first(maf: Mapping, shares: &[u64], combinations: &[Combination]) -> Vec<u64> {
    let n_nodes = shares.iter().sum::<u64>() / 4;
    maf.place(&Site { n_nodes, alone: &vec![10.0; shares.len()], ..site(shares, combinations) }).n_nodes
}

#[test]
fn affinities_are_worked_out_anew_or_once() {
    // Beside the third user both suffer, the first far more: in all (.3 + .2 + 2) / 3 against (.2 + .4 + 0) /
    // 3. But the third suffers most, is alone and gone, and then it is (.3 + .2) / 2 against (.2 + .4) / 2.
    let combinations = [
        combination(&[0], &[13.0]),
        combination(&[1], &[12.0]),
        combination(&[2], &[11.0]),
        combination(&[0, 1], &[12.0, 14.0]),
        combination(&[0, 2], &[30.0, 40.0]),
        combination(&[1, 2], &[10.0, 40.0]),
    ];
    let of = |is_recomputed, shares| {
        let maf = Mapping::Maf { is_recomputed, is_of_pairs: false };
        most_affected_first(maf, shares, &combinations)
    };
    // The second user would rather be alone, the first beside the second.
    assert_eq!(of(true, &[8, 8, 4]), [2, 2, 1, 0, 0, 0]);
    assert_eq!(of(false, &[8, 8, 4]), [0, 0, 1, 4, 0, 0]);
    assert_eq!(of(false, &[8, 8, 0]), [2, 2, 0, 0, 0, 0], "who has nothing here makes nobody suffer");
}

#[test]
fn of_those_who_suffer_alike_the_first_chooses() {
    // Each suffers .3 on average; the first would rather be beside the second, the second alone.
    let combinations =
        [combination(&[0], &[14.0]), combination(&[1], &[12.0]), combination(&[0, 1], &[12.0, 14.0])];
    assert_eq!(most_affected_first(MAF, &[4, 4], &combinations), [0, 0, 2]);
    let turned =
        [combination(&[0], &[12.0]), combination(&[1], &[14.0]), combination(&[0, 1], &[14.0, 12.0])];
    assert_eq!(most_affected_first(MAF, &[4, 4], &turned), [1, 1, 0]);
}

#[test]
fn of_companies_that_are_as_quick_the_smallest_and_then_the_first_is_chosen() {
    let combinations = [
        combination(&[0, 1, 2], &[12.0, 10.0, 10.0]),
        combination(&[0, 2], &[12.0, 10.0]),
        combination(&[0, 1], &[12.0, 10.0]),
        combination(&[0], &[12.0]),
        combination(&[1], &[10.0]),
        combination(&[2], &[10.0]),
    ];
    // The first user suffers most. Three cores are too few for a node of its own, and one for half of one.
    for (shares, expected) in
        [([4, 4, 4], [0, 0, 0, 1, 1, 1]), ([3, 3, 2], [1, 0, 1, 0, 0, 0]), ([1, 1, 2], [1, 0, 0, 0, 0, 0])]
    {
        assert_eq!(most_affected_first(MAF, &shares, &combinations), expected, "{shares:?}");
    }
}

#[test]
fn who_suffers_most_does_so_in_the_mean() {
    // The first user suffers .5, .3 and .4, the second .8 and .2: 1.2 against 1.0 in total, .4 against .5 on
    // average. Both are best beside the third, which has cores for half a node.
    let combinations = [
        combination(&[0], &[15.0]),
        combination(&[1], &[18.0]),
        combination(&[2], &[10.0]),
        combination(&[3], &[10.0]),
        combination(&[0, 2], &[13.0, 10.0]),
        combination(&[0, 3], &[14.0, 10.0]),
        combination(&[1, 2], &[12.0, 10.0]),
    ];
    assert_eq!(most_affected_first(MAF, &[4, 4, 2, 2], &combinations), [0, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn who_fits_nowhere_keeps_nobody_from_choosing() {
    let combinations =
        [combination(&[0], &[40.0]), combination(&[1], &[10.0]), combination(&[0, 1], &[10.0, 12.0])];
    let placed = MAF.place(&Site { n_nodes: 3, alone: &[10.0; 2], ..site(&[1, 8], &combinations) });
    assert_eq!((placed.n_nodes, placed.mixed), (vec![0, 2, 0], vec![vec![1, 0]]));
}

#[test]
fn suffering_is_in_seconds_or_by_the_time_alone() {
    // (.8 + .5) / 2 against (.1 + .2) / 2 of the time alone; 6.5 against 15 seconds. As above, the first user
    // would rather be beside the second, the second alone.
    let combinations =
        [combination(&[0], &[18.0]), combination(&[1], &[110.0]), combination(&[0, 1], &[15.0, 120.0])];
    let of = |affinity| {
        let site = Site { n_nodes: 2, alone: &[10.0, 100.0], affinity, ..site(&[4, 4], &combinations) };
        MAF.place(&site).n_nodes
    };
    assert_eq!(of(CorunnerAffinity::Normalized), [0, 0, 2]);
    assert_eq!(of(CorunnerAffinity::Raw), [1, 1, 0]);
}

#[test]
fn each_core_that_is_left_is_as_likely_to_be_drawn_as_another() {
    // No user fills one of the two nodes. The two cores of the third user are placed as if drawn from all
    // forty: both on the first node in 20 · 19 / (40 · 39) of all cases, and as often on the second.
    let alone = [0, 1, 2].map(|user| combination(&[user], &[10.0]));
    let shares = [19, 19, 2];
    let mut n_cases = [0_u32; 3];
    for seed in 0..1000 {
        let site = Site { n_nodes: 2, cores_per_node: 20, seed, ..site(&shares, &alone) };
        let placed = Mapping::AllCore.place(&site);
        assert_eq!(placed.mixed.iter().map(|node| node.iter().sum::<u64>()).collect::<Vec<_>>(), [20, 20]);
        n_cases[placed.mixed[0][2] as usize] += 1;
    }
    for (n, expected) in n_cases.into_iter().zip([244, 513, 244]) {
        assert!(n.abs_diff(expected) < 60, "{n_cases:?}");
    }
}

#[test]
fn each_combination_that_fits_is_as_likely_as_another_node_by_node() {
    // Three nodes for four cores of each. First node for one (1/2): the others are alone too (2/3) or share
    // both. First node for a pair (1/2): the third is alone second or last (2/4), or beside each.
    let combinations = combinations();
    let outcomes: [([u64; 6], u32); 5] = [
        ([1, 1, 1, 0, 0, 0], 333),
        ([1, 0, 0, 0, 0, 2], 139),
        ([0, 1, 0, 0, 2, 0], 139),
        ([0, 0, 1, 2, 0, 0], 139),
        ([0, 0, 0, 1, 1, 1], 250),
    ];
    let mut n_cases = [0_u32; 5];
    for seed in 0..1000 {
        let placed = Mapping::Random.place(&Site { n_nodes: 3, seed, ..site(&[4, 4, 4], &combinations) });
        let outcome = outcomes.iter().position(|(n_nodes, _)| placed.n_nodes == n_nodes);
        n_cases[outcome.expect("one of these")] += 1;
    }
    for (n, (_, expected)) in n_cases.into_iter().zip(outcomes) {
        assert!(n.abs_diff(expected) < 60, "{n_cases:?}");
    }
}

#[test]
fn in_turns_each_takes_a_few_nodes() {
    let combinations = combinations();
    let turns = |unit_nodes| Mapping::CaRr { unit_nodes }.place(&site(&[12, 12, 16], &combinations)).n_nodes;
    // One node at a time: 0 with 1, 1 with 2, 2 alone, until these are used up.
    assert_eq!(turns(1), [1, 0, 2, 3, 1, 3]);
    assert_eq!(turns(0), turns(1));
    // Two at a time: 0 with 1, 1 with 2, 2 alone; again 0 with 1, which has no more; 2 and 0 once each alone.
    assert_eq!(turns(2), [1, 0, 3, 4, 0, 2]);
    assert_eq!(turns(100), [0, 0, 4, 6, 0, 0]);
}

#[test]
fn the_same_seed_draws_the_same() {
    let combinations = combinations();
    let draw = |seed| Mapping::Random.place(&Site { seed, ..site(&[14, 13, 13], &combinations) });
    assert_eq!(draw(1), draw(1));
    assert!((2..20).any(|seed| draw(seed) != draw(1)));
}

/// Returns whether a combination would have fitted on a node that was filled at random.
fn could_be_placed(placed: &Placed, site: &Site<'_>) -> bool {
    let mut left = site.shares.to_vec();
    let piece = |combination: &Combination| site.cores_per_node / combination.members.len() as u64;
    for (combination, n) in site.combinations.iter().zip(&placed.n_nodes) {
        combination.members.iter().for_each(|user| left[*user] -= n * piece(combination));
    }
    let fits = |one: &Combination| piece(one) > 0 && one.members.iter().all(|user| left[*user] >= piece(one));
    !placed.mixed.is_empty() && site.combinations.iter().any(fits)
}

proptest! {
    #[test]
    fn no_node_is_filled_twice_and_no_share_is_left_while_nodes_are(
        shares in prop::collection::vec(0..40u64, 3), cores_per_node in 1..9u64, seed in any::<u64>(),
    ) {
        let combinations = combinations();
        let n_nodes = shares.iter().sum::<u64>().div_ceil(cores_per_node);
        let site = Site { n_nodes, cores_per_node, seed, ..site(&shares, &combinations) };
        for policy in [Mapping::AllCore, Mapping::Random, MAF, Mapping::CaRr { unit_nodes: 3 }] {
            let placed = policy.place(&site);
            let mut used = vec![0; 3];
            for (combination, n) in combinations.iter().zip(&placed.n_nodes) {
                for user in &combination.members {
                    used[*user] += n * (cores_per_node / combination.members.len() as u64);
                }
            }
            for node in &placed.mixed {
                prop_assert!(node.iter().sum::<u64>() <= cores_per_node);
                (0..3).for_each(|user| used[user] += node[user]);
            }
            if let Some((_, full)) = placed.mixed.split_last() {
                prop_assert!(full.iter().all(|node| node.iter().sum::<u64>() == cores_per_node), "{:?}", policy);
            }
            prop_assert!(policy == Mapping::AllCore || !could_be_placed(&placed, &site), "{:?}", policy);
            let n_used = placed.n_nodes.iter().sum::<u64>() + placed.mixed.len() as u64;
            prop_assert!(n_used <= n_nodes);
            prop_assert!(used.iter().zip(&shares).all(|(used, share)| used <= share), "{:?}", policy);
            prop_assert!(n_used == n_nodes || used == shares, "{:?}: {:?} of {:?}", policy, used, shares);
        }
    }
}
