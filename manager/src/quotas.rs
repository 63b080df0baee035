//! What one user may take, so that none can stop the others.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::users::Holder;

/// What one user may take. `None`: as much as there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Whether priorities of the user's jobs count among the jobs of all users, and not only among the user's own.
    pub is_priority_over_all: bool,
}

impl Quota {
    /// That of an operator: only priorities count among own jobs.
    pub const UNLIMITED: Quota = Quota { is_priority_over_all: false };
}

/// The quotas of all users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    /// Of a user who is no operator, where nothing else is said.
    pub default: Quota,
    /// Of users who are no operators, where something else is said.
    pub users: BTreeMap<String, Quota>,
    /// Of operators where something is said.
    pub operators: BTreeMap<String, Quota>,
}

impl Quotas {
    /// The quota of a user.
    pub fn of(&self, name: &str, is_operator: bool) -> Quota {
        let (of_role, default) =
            if is_operator { (&self.operators, Quota::UNLIMITED) } else { (&self.users, self.default) };
        of_role.get(name).copied().unwrap_or(default)
    }
}

/// The quotas that hold now; they change when the configuration is read again.
#[derive(Clone, Debug, Default)]
pub struct CurrentQuotas(Arc<RwLock<Quotas>>);

impl CurrentQuotas {
    /// These hold from now on; says whether they are others than before.
    pub fn set(&self, quotas: &Quotas) -> bool {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let differs = *held != *quotas;
        held.clone_from(quotas);
        differs
    }

    /// The quota of a user.
    pub fn of(&self, user: &Holder) -> Quota {
        self.0.read().unwrap_or_else(PoisonError::into_inner).of(&user.name, user.is_operator)
    }
}
