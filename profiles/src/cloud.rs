//! Field `openstack` of a platform: a project in an OpenStack cloud.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error};

use crate::{quantity::Bytes, text};

/// Nova's limit for the metadata entries of a server, less room for our own.
const N_METADATA_MAX: usize = 100;
/// Nova's limit for the length of a metadata key or value.
const METADATA_BYTES_MAX: usize = 255;

/// How servers are requested in a project.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cloud {
    /// The cloud's name in `clouds.yaml`; `None`: the name in `OS_CLOUD`, the cloud of the variables `OS_*`,
    /// or the only cloud in the file.
    #[serde(default, deserialize_with = "name")]
    pub cloud: Option<String>,
    /// Path of `clouds.yaml`; `None`: the places where all OpenStack clients look for it.
    #[serde(default, deserialize_with = "text::path")]
    pub clouds_file: Option<String>,
    /// The image from which servers boot, by name or id.
    #[serde(deserialize_with = "needed_name")]
    pub image: String,
    /// The servers' flavor, by name or id; `None`: the smallest that has the resources of a pilot.
    #[serde(default, deserialize_with = "name")]
    pub flavor: Option<String>,
    /// The servers' networks: `none`, `auto`, or names or ids; `None`: the project's only network.
    #[serde(default, deserialize_with = "networks")]
    pub networks: Option<Networks>,
    /// Key pair whose key allows a login.
    #[serde(default, deserialize_with = "name")]
    pub key_pair: Option<String>,
    /// The servers' security groups; empty: the project's default group.
    #[serde(default, deserialize_with = "names")]
    pub security_groups: Vec<String>,
    /// The servers' server group, by name or id. With the policy `anti-affinity` each server is on its own
    /// host.
    #[serde(default, deserialize_with = "name")]
    pub server_group: Option<String>,
    /// The hosts whose vCPU ratio may be changed: a host aggregate by name or id, or `all`.
    #[serde(default, deserialize_with = "name")]
    pub aggregate: Option<String>,
    /// The cloud in `clouds.yaml` whose account changes the vCPU ratio; `None`: the account of `cloud`.
    #[serde(default, deserialize_with = "name")]
    pub aggregate_cloud: Option<String>,
    /// The servers' availability zone.
    #[serde(default, deserialize_with = "name")]
    pub availability_zone: Option<String>,
    /// Size of a new volume from which a server boots, instead of from a disk of its host.
    pub volume: Option<Bytes>,
    /// Further metadata of each server.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: BTreeMap<String, String>,
}

impl Cloud {
    /// Returns whether both platforms may change the vCPU ratio of the same hosts, as far as the names show.
    pub fn scales_hosts_of(&self, other: &Cloud) -> bool {
        let account = |cloud: &Cloud| cloud.aggregate_cloud.clone().or(cloud.cloud.clone());
        let is_all = |cloud: &Cloud| cloud.aggregate.as_deref() == Some("all");
        let is_same_cloud = self.clouds_file == other.clouds_file && account(self) == account(other);
        is_same_cloud && (self.aggregate == other.aggregate || is_all(self) || is_all(other))
    }
}

/// The networks of servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Networks {
    /// No network.
    None,
    /// The network that the cloud makes for the project.
    Auto,
    /// The named networks, by name or id.
    Of(Vec<String>),
}

fn checked<E: Error>(text: String) -> Result<String, E> {
    match !text.trim().is_empty() && !text.chars().any(char::is_control) {
        true => Ok(text),
        false => Err(E::custom(format!("found `{}`; write a name or an id", text.escape_debug()))),
    }
}

fn needed_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(String::deserialize(deserializer)?)
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    needed_name(deserializer).map(Some)
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.into_iter().map(checked).collect()
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Networks>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Word(String),
        Names(Vec<String>),
    }
    let form = Form::deserialize(deserializer)
        .map_err(|_| D::Error::custom("found no networks; write `none`, `auto`, a name, or `[a, b]`"))?;
    Ok(Some(match form {
        Form::Word(word) if word == "none" => Networks::None,
        Form::Word(word) if word == "auto" => Networks::Auto,
        Form::Word(word) => Networks::Of(vec![checked(word)?]),
        Form::Names(names) if names.is_empty() => Networks::None,
        Form::Names(names) => Networks::Of(names.into_iter().map(checked).collect::<Result<_, _>>()?),
    }))
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let entries = BTreeMap::<String, String>::deserialize(deserializer)?;
    let is_ours = |key: &str| key.starts_with("pilotfish");
    if let Some(key) = entries.keys().find(|key| is_ours(key)) {
        return Err(D::Error::custom(format!("found `{key}`; Pilotfish writes what begins so itself")));
    }
    let is_long = |text: &str| text.len() > METADATA_BYTES_MAX;
    let long = entries.iter().find(|(key, value)| key.is_empty() || is_long(key) || is_long(value));
    match (long, entries.len() > N_METADATA_MAX) {
        (Some((key, _)), _) => Err(D::Error::custom(format!(
            "found `{}`; keys and values have 1 to {METADATA_BYTES_MAX} bytes",
            key.chars().take(40).collect::<String>().escape_debug()
        ))),
        (None, true) => {
            Err(D::Error::custom(format!("found {} entries; write {N_METADATA_MAX} at most", entries.len())))
        }
        (None, false) => Ok(entries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cloud(lines: &str) -> Result<Cloud, String> {
        serde_yaml::from_str(&format!("image: debian-12\n{lines}")).map_err(|error| error.to_string())
    }

    #[test]
    fn an_image_is_enough() {
        let found = cloud("").expect("a cloud");
        assert_eq!((found.image.as_str(), &found.networks, &found.flavor), ("debian-12", &None, &None));
        assert!(serde_yaml::from_str::<Cloud>("flavor: m1.small").is_err(), "no image");
    }

    #[test]
    fn networks_are_a_word_or_names() {
        for (line, expected) in [
            ("networks: none", Networks::None),
            ("networks: []", Networks::None),
            ("networks: auto", Networks::Auto),
            ("networks: lab net", Networks::Of(vec!["lab net".into()])),
            ("networks: [a, b]", Networks::Of(vec!["a".into(), "b".into()])),
        ] {
            assert_eq!(cloud(line).expect(line).networks, Some(expected));
        }
    }

    #[test]
    fn what_no_cloud_takes_is_refused() {
        let long = format!("metadata: {{a: {}}}", "x".repeat(256));
        for (line, expected) in [
            ("networks: {a: b}", "write `none`, `auto`"),
            ("networks: ['']", "a name or an id"),
            ("flavor: \"a\\nb\"", "a name or an id"),
            ("metadata: {pilotfish-allocation: x}", "Pilotfish writes"),
            ("clouds_file: clouds.yaml", "an absolute path"),
            ("volume: big", "big"),
            ("size: 3", "unknown field `size`"),
            (&long, "1 to 255 bytes"),
        ] {
            let error = cloud(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
