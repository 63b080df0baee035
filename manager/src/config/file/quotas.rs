//! The part `quotas` of a `manager.yaml`: what one user may take, by default and by name.

use std::collections::BTreeMap;

use profiles::quantity::Quantity;
use protocol::text::units::parse_bytes;
use serde::{Deserialize, Deserializer};

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
    jobs: Option<Count>,
    tasks: Option<Count>,
    values: Option<Size>,
    output: Option<Size>,
    files: Option<Size>,
    streams: Option<Count>,
    requests: Option<Count>,
    connections: Option<Count>,
    transfers: Option<Count>,
    priority: Option<Scope>,
}

/// How many, at least one; `None`: as many as there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Count(Option<u64>);

/// How many bytes; `None`: as many as there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Size(Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        let wanted = "a whole number like 1000, 1 or more, or `none`";
        let parse = |text: &str| match text.parse::<u64>() {
            _ if text == "none" => Ok(None),
            Ok(n) if n > 0 => Ok(Some(n)),
            _ => Err(format!("write {wanted}")),
        };
        deserializer.deserialize_any(Quantity { wanted, parse }).map(Count)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let parse = |text: &str| match text {
            "none" => Ok(None),
            _ => parse_bytes(text).map(Some).map_err(|error| error.to_string()),
        };
        let wanted = "a size like 512MiB or 8GiB, or `none`";
        deserializer.deserialize_any(Quantity { wanted, parse }).map(Size)
    }
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
        let count = |said: Option<Count>, held| said.map_or(held, |said| said.0);
        let size = |said: Option<Size>, held| said.map_or(held, |said| said.0);
        Quota {
            n_jobs: count(self.jobs, quota.n_jobs),
            n_tasks: count(self.tasks, quota.n_tasks),
            value_bytes: size(self.values, quota.value_bytes),
            output_bytes: size(self.output, quota.output_bytes),
            file_bytes: size(self.files, quota.file_bytes),
            n_streams: count(self.streams, quota.n_streams),
            n_requests: count(self.requests, quota.n_requests),
            n_connections: count(self.connections, quota.n_connections),
            n_transfers: count(self.transfers, quota.n_transfers),
            is_priority_over_all: self
                .priority
                .map_or(quota.is_priority_over_all, |scope| scope == Scope::All),
        }
    }
}
