//! Placement: how many vCPUs a core of a host stands for (paper 003, r_v/p), where the account may say so.
//!
//! Nova's computes write the same records: whoever comes second is told so by their generation, and reads again. And
//! where Nova's configuration says a ratio, it puts that back.

use scheduler::engine::interface::platform::scaling::{FoundProvider, Provider, Ratio, ScaleTrouble};
use serde_json::{Value, json};

use super::{
    OpenStack,
    wire::{Call, Service, Trouble, escaped},
};

/// Others are quicker so often at most.
const N_TRIES_MAX: usize = 10;
/// The word for all hosts, where others have the name of an aggregate.
const ALL: &str = "all";

impl OpenStack {
    /// Has those of the hosts that are known from before stand for so many vCPUs a core, or for as many as before;
    /// gives what each had, or which have what they had.
    ///
    /// # Errors
    /// Refused: it is not to be had from this cloud. Unknown: some may have been given it.
    pub async fn scale(
        &self,
        ratio: Option<Ratio>,
        former: &[Provider],
    ) -> Result<Vec<FoundProvider>, ScaleTrouble> {
        let trouble = |trouble: Trouble| match trouble {
            Trouble::Refused(said) => ScaleTrouble::Refused(said),
            other => ScaleTrouble::Unknown(other.to_string()),
        };
        let cloud = self.operator.as_deref().unwrap_or(self);
        // Who cannot enter now may later.
        cloud.with_session(|_| ()).await.map_err(ScaleTrouble::Unknown)?;
        match ratio {
            Some(ratio) => cloud.set_ratios(self.cloud.aggregate.as_deref(), ratio, former).await,
            None => cloud.restore_ratios(former).await,
        }
        .map_err(trouble)
    }

    /// The hosts whose vCPUs are scaled, in words.
    pub(super) async fn hosts_in_words(&self) -> Result<String, String> {
        let cloud = self.operator.as_deref().unwrap_or(self);
        let aggregate = self.cloud.aggregate.as_deref();
        let hosts = cloud.providers(aggregate).await.map_err(|trouble| trouble.to_string())?;
        let hosts: Vec<String> = hosts
            .iter()
            .map(|(host, inventory)| {
                format!("{} ({} cores, {} vCPUs each)", host.name, inventory["total"], host.ratio)
            })
            .collect();
        match hosts.is_empty() {
            true => Err("no host has vCPUs".to_owned()),
            false => Ok(format!("hosts {}", hosts.join(", "))),
        }
    }

    async fn set_ratios(
        &self,
        aggregate: Option<&str>,
        ratio: Ratio,
        former: &[Provider],
    ) -> Result<Vec<FoundProvider>, Trouble> {
        let mut found = Vec::new();
        for (provider, inventory) in self.providers(aggregate).await? {
            // What it had is written down before it is changed.
            let is_set = former.iter().any(|known| known.id == provider.id);
            if is_set && inventory["allocation_ratio"].as_f64() != Some(ratio.number()) {
                match self.set_ratio(&provider.id, json!(ratio.number()), Some(inventory)).await {
                    // The host has just gone.
                    Err(Trouble::Gone(_)) => continue,
                    other => other?,
                }
            }
            found.push(FoundProvider { provider, is_set });
        }
        match found.is_empty() {
            true => Err(Trouble::Away("no host has vCPUs".to_owned())),
            false => Ok(found),
        }
    }

    /// Errors: none could be restored.
    async fn restore_ratios(&self, former: &[Provider]) -> Result<Vec<FoundProvider>, Trouble> {
        let (mut restored, mut failed) = (Vec::new(), None);
        for provider in former {
            let ratio: Value = serde_json::from_str(&provider.ratio).unwrap_or_default();
            match self.set_ratio(&provider.id, ratio, None).await {
                // The host may be gone.
                Ok(()) | Err(Trouble::Gone(_)) => {
                    restored.push(FoundProvider { provider: provider.clone(), is_set: true });
                }
                Err(trouble) => failed = Some(trouble),
            }
        }
        match failed.filter(|_| restored.is_empty()) {
            Some(trouble) => Err(trouble),
            None => Ok(restored),
        }
    }

    /// Hosts with vCPUs, and what Placement says of those.
    async fn providers(&self, aggregate: Option<&str>) -> Result<Vec<(Provider, Value)>, Trouble> {
        let path = match aggregate {
            None => return Err(Trouble::Refused("no aggregate is named".to_owned())),
            Some(ALL) => "/resource_providers".to_owned(),
            Some(name) => format!("/resource_providers?member_of={}", escaped(&self.aggregate(name).await?)),
        };
        let answer = self.call(Call::get(Service::Placement, path)).await?;
        let mut hosts = Vec::new();
        for host in answer["resource_providers"].as_array().into_iter().flatten() {
            let path = inventory_path(host["uuid"].as_str().unwrap_or_default());
            match self.call(Call::get(Service::Placement, path)).await {
                Ok(inventory) => hosts.push((read_provider(host, &inventory), inventory)),
                // Disks and accelerators are providers as well.
                Err(Trouble::Gone(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(hosts)
    }

    /// The id by which Placement knows Nova's aggregate of that name or id.
    async fn aggregate(&self, name: &str) -> Result<String, Trouble> {
        let answer = self.call(Call::get(Service::Compute, "/os-aggregates")).await?;
        let known = answer["aggregates"].as_array().cloned().unwrap_or_default();
        let has_number = |one: &Value| one["id"].as_u64().is_some_and(|id| name.parse() == Ok(id));
        let is_it = |one: &&Value| one["name"] == name || one["uuid"] == name || has_number(one);
        let found = known.iter().find(is_it).and_then(|one| one["uuid"].as_str());
        found.map(str::to_owned).ok_or_else(|| {
            let names: Vec<&str> = known.iter().filter_map(|one| one["name"].as_str()).collect();
            Trouble::Refused(format!("found no aggregate `{name}`; there are: {}", names.join(", ")))
        })
    }

    /// Changes one number of a host's record, and nothing that others have changed meanwhile.
    async fn set_ratio(&self, id: &str, ratio: Value, known: Option<Value>) -> Result<(), Trouble> {
        let mut known = known;
        for n in 1.. {
            let mut inventory = match known.take() {
                Some(inventory) => inventory,
                None => self.call(Call::get(Service::Placement, inventory_path(id))).await?,
            };
            inventory["allocation_ratio"] = ratio.clone();
            match self.call(Call::put(Service::Placement, inventory_path(id), inventory)).await {
                Err(Trouble::Busy(_)) if n < N_TRIES_MAX => {}
                other => return other.map(drop),
            }
        }
        unreachable!("the last attempt returns")
    }
}

/// A host of a list, with what is said of its vCPUs.
pub(super) fn read_provider(host: &Value, inventory: &Value) -> Provider {
    let text = |key: &str| host[key].as_str().unwrap_or_default().to_owned();
    Provider { id: text("uuid"), name: text("name"), ratio: inventory["allocation_ratio"].to_string() }
}

/// Of vCPUs alone: who writes all classes of a host deletes those that he leaves out.
fn inventory_path(id: &str) -> String {
    format!("/resource_providers/{}/inventories/VCPU", escaped(id))
}
