//! Any record that an engine could write about platforms, policies and applications.

use proptest::prelude::*;
use scheduler::{
    engine::{
        interface::{
            PlatformMode, ScalingWay,
            declared_profile::Declared,
            platform::scaling::{Provider, Ratio, ScalingChange},
        },
        record::{
            Record,
            co_runners::{CoRunTimes, CoRunners},
        },
    },
    ids::{AllocationId, PlatformId},
    policy::{
        Policies,
        scaling::{Seen, Why},
    },
    time::{Span, Time},
};

/// Any record about platforms, what they are allowed, and what is known of applications.
pub(super) fn any_record() -> impl Strategy<Value = Record> {
    let at = || any::<u64>().prop_map(Time);
    let platform = || (1..4u64).prop_map(PlatformId);
    let allocation = || (1..5u64).prop_map(AllocationId);
    let words = any::<String>;
    let mode = prop::sample::select(vec![
        PlatformMode::Active,
        PlatformMode::Paused,
        PlatformMode::Draining,
        PlatformMode::Detached,
    ]);
    let beside = (words(), prop::bool::ANY, words(), any::<u64>(), any::<u64>()).prop_map(
        |(application, is_alone, other, n, wall_us)| {
            let company = if is_alone { CoRunners::Nobody } else { CoRunners::Full(vec![other]) };
            CoRunTimes { application, company, n, wall_us }
        },
    );
    let provider = (words(), words(), words()).prop_map(|(id, name, ratio)| Provider { id, name, ratio });
    prop_oneof![
        (allocation(), platform(), words(), any::<bool>(), at()).prop_map(
            |(allocation, platform, tag, is_told, at)| {
                let because = is_told.then(|| Box::new(super::golden::because()));
                Record::AllocationIntended { allocation, platform, tag, because, at }
            }
        ),
        (allocation(), 0..9_u32, at()).prop_map(|(allocation, n_nodes, at)| Record::AllocationShrunk {
            allocation,
            n_nodes,
            at
        }),
        (platform(), mode, at()).prop_map(|(platform, mode, at)| Record::PlatformModeSet {
            platform,
            mode,
            at
        }),
        (platform(), prop::collection::vec(provider, 0..3), at())
            .prop_map(|(platform, providers, at)| Record::RatiosFound { platform, providers, at }),
        (platform(), prop::collection::vec(words(), 0..3), at())
            .prop_map(|(platform, ids, at)| Record::RatiosRestored { platform, ids, at }),
        (words(), at()).prop_map(|(application, at)| Record::ProfileForgotten { application, at }),
        (words(), any::<bool>(), at()).prop_map(|(application, is_said, at)| {
            Record::ProfileDeclared { application, declared: is_said.then(Declared::default), at }
        }),
        (platform(), prop::collection::vec(beside, 0..3), at())
            .prop_map(|(platform, beside, at)| Record::BesideMeasured { platform, beside, at }),
        at().prop_map(super::golden::efforts_measured),
        (0..3_usize, at()).prop_map(|(n, at)| super::golden::tokens(at).into_iter().nth(n).unwrap()),
        (any::<bool>(), at()).prop_map(|(has_law, at)| match super::golden::weights_moved(at) {
            Record::WeightsMoved { changes, law, at } => {
                Record::WeightsMoved { changes, law: law.filter(|_| has_law), at }
            }
            other => other,
        }),
        (words(), at()).prop_map(|(by, at)| {
            let (before, policies) =
                (Policies::default(), Policies { placement: None, ..Policies::default() });
            Record::PoliciesSet { by, configured: before, before, policies, at }
        }),
        (platform(), 1000..8000_u32, at()).prop_map(|(platform, after, at)| Record::PlatformScaled {
            platform,
            change: ScalingChange {
                at,
                before: Ratio::ONE,
                after: Ratio(after),
                by: ScalingWay::Slots,
                why: Why::Room,
                seen: Seen { n_ended: 40, n_failed: 1, n_queued: 99, cpu: Span(7), wall: Span(9) },
                n_cores: 8,
            },
        }),
    ]
}
