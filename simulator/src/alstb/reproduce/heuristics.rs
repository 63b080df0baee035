//! The heuristics of Fig. 4, and the ratios of their measures to those of ALSTB.

use scheduler::policy::matching::static_map::StaticMap;

use crate::report::Draws;

pub(super) const HEURISTICS: [(&str, StaticMap); 3] =
    [("MinMin", StaticMap::MinMin), ("Sufferage", StaticMap::Sufferage), ("MaxStd", StaticMap::MaxStd)];
/// By number of tasks, by heuristic: the three ratios.
pub(super) type Points = Vec<(u64, Vec<[Draws; 3]>)>;
