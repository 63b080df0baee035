//! What an operator says of a project in an OpenStack cloud.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error};

use crate::{quantity::Bytes, text};

/// Of Nova's: entries of a server's metadata, less ours.
const N_METADATA_MAX: usize = 100;
/// Of Nova's.
const METADATA_BYTES_MAX: usize = 255;

/// How servers of a project are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cloud {
    /// The cloud's name in `clouds.yaml`; `None`: that of `OS_CLOUD`, or what `OS_*` say, or the only one.
    #[serde(default, deserialize_with = "name")]
    pub cloud: Option<String>,
    /// That file; `None`: where all clients of OpenStack look for it.
    #[serde(default, deserialize_with = "text::path")]
    pub clouds_file: Option<String>,
    /// The image that servers boot, by name or id.
    #[serde(deserialize_with = "needed_name")]
    pub image: String,
    /// Their flavor, by name or id; `None`: the smallest that has what a pilot offers.
    #[serde(default, deserialize_with = "name")]
    pub flavor: Option<String>,
    /// Their networks: `none`, `auto`, or names or ids; `None`: the only one that there is.
    #[serde(default, deserialize_with = "networks")]
    pub networks: Option<Networks>,
    /// The key pair by whose key one can log in.
    #[serde(default, deserialize_with = "name")]
    pub key_pair: Option<String>,
    /// Their security groups; empty: the project's default one.
    #[serde(default, deserialize_with = "names")]
    pub security_groups: Vec<String>,
    /// The server group that they are in, by name or id: with the policy `anti-affinity` each is on a host of its own.
    #[serde(default, deserialize_with = "name")]
    pub server_group: Option<String>,
    /// The hosts whose vCPUs may be scaled: an aggregate by name or id, or `all`.
    #[serde(default, deserialize_with = "name")]
    pub aggregate: Option<String>,
    /// The cloud in `clouds.yaml` by whose account that is done; `None`: `cloud`'s own.
    #[serde(default, deserialize_with = "name")]
    pub aggregate_cloud: Option<String>,
    /// Where they are built.
    #[serde(default, deserialize_with = "name")]
    pub availability_zone: Option<String>,
    /// They boot from a new volume of that size instead of a disk of their host.
    pub volume: Option<Bytes>,
    /// What is written on each besides.
    #[serde(default, deserialize_with = "metadata")]
    pub metadata: BTreeMap<String, String>,
}

impl Cloud {
    /// Whether both may change vCPUs of the same hosts, as far as their names say.
    pub fn scales_hosts_of(&self, other: &Cloud) -> bool {
        let account = |cloud: &Cloud| cloud.aggregate_cloud.clone().or(cloud.cloud.clone());
        let is_all = |cloud: &Cloud| cloud.aggregate.as_deref() == Some("all");
        let is_same_cloud = self.clouds_file == other.clouds_file && account(self) == account(other);
        is_same_cloud && (self.aggregate == other.aggregate || is_all(self) || is_all(other))
    }
}

/// What servers are connected to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Networks {
    /// Nothing.
    None,
    /// What the cloud makes for the project.
    Auto,
    /// These, by name or id.
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
