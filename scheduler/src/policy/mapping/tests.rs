//! Small cases by hand, and what always holds.

use proptest::prelude::*;

use super::{Combination, CorunnerAffinity, Mapping, Site};

fn combination(members: &[usize], runtimes: &[f64]) -> Combination {
    Combination { members: members.to_vec(), runtimes: runtimes.to_vec() }
}

/// Three users on nodes of four cores. The first suffers most from its own kind, least from the second.
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
    let combinations = combinations();
    let placed = Mapping::AllCore.place(&site(&[17, 14, 9], &combinations));
    assert_eq!(placed.n_nodes, [4, 3, 2, 0, 0, 0]);
    assert_eq!(placed.mixed, [[1, 2, 1]]);
}

#[test]
fn who_suffers_most_chooses_its_company_first() {
    let combinations = combinations();
    let placed = MAF.place(&site(&[12, 8, 20], &combinations));
    // The first takes the second along on four nodes, then the third on two, whose rest is alone.
    assert_eq!((placed.n_nodes, placed.mixed.len()), (vec![0, 0, 4, 4, 2, 0], 0));
}

#[test]
fn of_pairs_only_other_differences_count() {
    // Alone the first suffers most, beside another the second does, which would rather be alone.
    let combinations =
        [combination(&[0], &[40.0]), combination(&[1], &[10.0]), combination(&[0, 1], &[10.0, 12.0])];
    let of = |is_of_pairs| {
        let maf = Mapping::Maf { is_recomputed: true, is_of_pairs };
        maf.place(&Site { n_nodes: 4, alone: &[10.0; 2], ..site(&[8, 8], &combinations) }).n_nodes
    };
    assert_eq!(of(false), [0, 0, 4]);
    assert_eq!(of(true), [2, 2, 0]);
}

#[test]
fn in_turns_each_takes_a_few_nodes() {
    let combinations = combinations();
    let turns = |unit_nodes| Mapping::CaRr { unit_nodes }.place(&site(&[12, 12, 16], &combinations)).n_nodes;
    // One at a time: 0 with 1, 1 with 2, 2 alone, until those are used up.
    assert_eq!(turns(1), [1, 0, 2, 3, 1, 3]);
    assert_eq!(turns(100), [0, 0, 4, 6, 0, 0]);
}

#[test]
fn the_same_seed_draws_the_same() {
    let combinations = combinations();
    let draw = |seed| Mapping::Random.place(&Site { seed, ..site(&[14, 13, 13], &combinations) });
    assert_eq!(draw(1), draw(1));
    assert!((2..20).any(|seed| draw(seed) != draw(1)));
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
            let n_used = placed.n_nodes.iter().sum::<u64>() + placed.mixed.len() as u64;
            prop_assert!(n_used <= n_nodes);
            prop_assert!(used.iter().zip(&shares).all(|(used, share)| used <= share), "{:?}", policy);
            prop_assert!(n_used == n_nodes || used == shares, "{:?}: {:?} of {:?}", policy, used, shares);
        }
    }
}
