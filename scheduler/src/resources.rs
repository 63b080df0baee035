//! Cores, memory, GPUs and named generic resources as whole numbers: what fits in what.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::size::Size;

/// An amount of everything a task may ask for or a pilot may offer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resources {
    /// CPU cores.
    pub cores: u32,
    /// Memory in bytes; 0 in a request: not asked for, in an offer: not known, so not counted.
    pub memory_bytes: u64,
    /// Whole GPUs.
    pub gpus: u32,
    /// Named resources of a site: licences, scratch slots. Names absent here amount to 0.
    pub generic: BTreeMap<String, u64>,
    /// In an offer: cores that one request may have at most; 0: all of them. An offer of more slots than there are
    /// cores has it. Nobody else need know.
    #[serde(skip)]
    pub widest: u32,
}

impl Resources {
    /// A number of cores and nothing else.
    pub fn cores(cores: u32) -> Resources {
        Resources { cores, ..Resources::default() }
    }

    /// How many requests like this one fit into `offer` at a time; `u64::MAX` when nothing is asked for.
    pub fn how_often_in(&self, offer: &Resources) -> u64 {
        if offer.widest > 0 && self.cores > offer.widest {
            return 0;
        }
        let mut n = offer.cores.checked_div(self.cores).map_or(u64::MAX, u64::from);
        if let Some(n_in_memory) = offer.memory_bytes.checked_div(self.memory_bytes) {
            n = n.min(n_in_memory);
        }
        if let Some(n_on_gpus) = offer.gpus.checked_div(self.gpus) {
            n = n.min(u64::from(n_on_gpus));
        }
        for (name, asked) in &self.generic {
            let offered = offer.generic.get(name).copied().unwrap_or(0);
            n = n.min(offered.checked_div(*asked).unwrap_or(u64::MAX));
        }
        n
    }

    /// Whether one such request fits into `offer`.
    pub fn fits_in(&self, offer: &Resources) -> bool {
        self.how_often_in(offer) > 0
    }

    /// Takes `n` requests like `request` out of this offer; what is not there becomes 0.
    pub fn take(&mut self, request: &Resources, n: u64) {
        self.change(request, n, u64::saturating_sub);
    }

    /// Gives `n` requests like `request` back to this offer.
    pub fn give_back(&mut self, request: &Resources, n: u64) {
        self.change(request, n, u64::saturating_add);
    }

    fn change(&mut self, request: &Resources, n: u64, by: fn(u64, u64) -> u64) {
        let narrow = |sum: u64| u32::try_from(sum).unwrap_or(u32::MAX);
        let times = |asked: u64| asked.saturating_mul(n);
        self.cores = narrow(by(u64::from(self.cores), times(u64::from(request.cores))));
        self.gpus = narrow(by(u64::from(self.gpus), times(u64::from(request.gpus))));
        self.memory_bytes = by(self.memory_bytes, times(request.memory_bytes));
        for (name, asked) in &request.generic {
            let held = self.generic.entry(name.clone()).or_default();
            *held = by(*held, times(*asked));
        }
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} core{}", self.cores, if self.cores == 1 { "" } else { "s" })?;
        if self.memory_bytes > 0 {
            write!(f, ", {}", Size(self.memory_bytes))?;
        }
        if self.gpus > 0 {
            write!(f, ", {} GPU{}", self.gpus, if self.gpus == 1 { "" } else { "s" })?;
        }
        for (name, amount) in self.generic.iter().filter(|(_, amount)| **amount > 0) {
            write!(f, ", {amount} {name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Resources;

    #[test]
    fn the_scarcest_resource_decides_what_fits() {
        let offer = Resources { cores: 8, memory_bytes: 10, gpus: 1, ..Resources::default() };
        let mut request = Resources { cores: 2, memory_bytes: 4, ..Resources::default() };
        assert_eq!(request.how_often_in(&offer), 2);
        request.generic.insert("licence".into(), 1);
        assert!(!request.fits_in(&offer));
    }

    #[test]
    fn of_slots_no_request_has_more_than_there_are_cores() {
        let offer = Resources { widest: 2, ..Resources::cores(8) };
        let n = |cores| Resources::cores(cores).how_often_in(&offer);
        assert_eq!((n(1), n(2), n(3)), (8, 4, 0));
    }

    #[test]
    fn what_is_taken_and_given_back_is_all_there_again() {
        let whole =
            Resources { cores: 4, memory_bytes: 100, gpus: 2, generic: [("x".into(), 3)].into(), widest: 0 };
        let request =
            Resources { cores: 1, memory_bytes: 7, gpus: 1, generic: [("x".into(), 1)].into(), widest: 0 };
        let mut offer = whole.clone();
        offer.take(&request, 2);
        assert_eq!((offer.cores, offer.memory_bytes, offer.gpus, offer.generic["x"]), (2, 86, 0, 1));
        offer.give_back(&request, 2);
        assert_eq!(offer, whole);
    }
}
