//! The heuristics of Fig. 4, and the ratios of their metrics to ALSTB's.

use scheduler::policy::matching::static_map::StaticMap;

use crate::report::Draws;

pub(super) const HEURISTICS: [(&str, StaticMap); 3] =
    [("MinMin", StaticMap::MinMin), ("Sufferage", StaticMap::Sufferage), ("MaxStd", StaticMap::MaxStd)];
/// The three ratios, by number of tasks and by heuristic.
pub(super) type Points = Vec<(u64, Vec<[Draws; 3]>)>;
