//! AllCore: nodes belong to one user each (paper 000, section 5.4).

use super::Floor;

pub(super) fn fill(floor: &mut Floor<'_>) {
    for (at, combination) in floor.site.combinations.iter().enumerate() {
        if combination.members.len() == 1 {
            floor.put(at, u64::MAX);
        }
    }
}
