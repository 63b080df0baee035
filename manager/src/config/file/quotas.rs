//! The part `quotas` of a `manager.yaml`: what one user may take, by default and by name.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::quotas::{Quota, Quotas};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotasForm {
    /// Of each user who is no operator.
    pub default: QuotaForm,
    /// Of users by their names, where they differ. It holds for operators too.
    pub users: BTreeMap<String, QuotaForm>,
}

/// What one user may take. What is absent stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaForm {
    priority: Option<Scope>,
}

/// Among whose jobs a priority counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scope {
    /// The user's own.
    Own,
    /// Everybody's.
    All,
}

impl QuotasForm {
    /// The quotas that it says.
    pub fn quotas(&self) -> Quotas {
        let default = self.default.on(Quota::default());
        let of_user = |(name, form): (&String, &QuotaForm)| (name.clone(), form.on(default));
        let of_operator = |(name, form): (&String, &QuotaForm)| (name.clone(), form.on(Quota::UNLIMITED));
        Quotas {
            default,
            users: self.users.iter().map(of_user).collect(),
            operators: self.users.iter().map(of_operator).collect(),
        }
    }
}

impl QuotaForm {
    /// A quota with what is said here.
    fn on(&self, quota: Quota) -> Quota {
        Quota {
            is_priority_over_all: self
                .priority
                .map_or(quota.is_priority_over_all, |scope| scope == Scope::All),
        }
    }
}
