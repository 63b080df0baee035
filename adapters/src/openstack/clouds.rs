//! What files and the environment say of a cloud, put together as openstacksdk does: `clouds.yaml` with merge keys,
//! `secure.yaml`, profiles, regions, old names of fields. `tests/openstack/clouds.py` records what openstacksdk makes of
//! such files, and a test here compares.

use std::path::{Path, PathBuf};

use super::{
    credentials::Surroundings,
    yaml::{Map, Node, python_bool, read},
};

const SUFFIXES: [&str; 3] = ["yaml", "yml", "json"];

/// Profiles that openstacksdk knows: where Keystone is, and which region is meant if none is named.
const VENDORS: [(&str, &str, &str); 20] = [
    ("auro", "https://api.van2.auro.io:5000/v3", "RegionOne"),
    ("betacloud", "https://api-1.betacloud.de:5000", "betacloud-1"),
    ("binero", "https://auth.binero.cloud:5000/v3", "europe-se-1"),
    ("catalyst", "https://api.cloud.catalyst.net.nz:5000/v2.0", "nz-por-1"),
    ("citycloud", "https://{region_name}.citycloud.com:5000/v3/", "Buf1"),
    ("conoha", "https://identity.{region_name}.conoha.io", "sin1"),
    ("dreamcompute", "https://iad2.dream.io:5000", "RegionOne"),
    ("elastx", "https://ops.elastx.cloud:5000/v3", "se-sto"),
    ("entercloudsuite", "https://api.entercloudsuite.com/", "it-mil1"),
    ("fuga", "https://identity.api.fuga.io:5000", "cystack"),
    ("ibmcloud", "https://identity.open.softlayer.com", "london"),
    ("internap", "https://identity.api.cloud.inap.com", "ams01"),
    ("limestonenetworks", "https://auth.cloud.lstn.net:5000/v3", "us-dfw-1"),
    ("otc", "https://iam.{region_name}.otc.t-systems.com/v3", "eu-de"),
    ("ovh-us", "https://auth.cloud.ovh.us/", "US-EAST-VA-1"),
    ("rackspace", "https://identity.api.rackspacecloud.com/v2.0/", "DFW"),
    ("switchengines", "https://keystone.cloud.switch.ch:5000/v3", "LS"),
    ("ultimum", "https://console.ultimum-cloud.com:5000/", ""),
    ("unitedstack", "https://identity.api.ustack.com/v3", "bj1"),
    ("zetta", "https://identity.api.zetta.io/v3", "no-osl1"),
];
/// The vendors whose users and projects are in the default domain.
const IN_DEFAULT_DOMAIN: [&str; 3] = ["auro", "fuga", "ovh-us"];

/// Variables that are fields of a cloud, without `OS_`.
const VARIABLES: &[&str] = &[
    "auth_url",
    "auth_type",
    "auth_plugin",
    "username",
    "user_name",
    "user_id",
    "password",
    "project_id",
    "project_name",
    "tenant_id",
    "tenant_name",
    "domain_id",
    "domain_name",
    "user_domain_id",
    "user_domain_name",
    "project_domain_id",
    "project_domain_name",
    "default_domain",
    "default_domain_id",
    "default_domain_name",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
    "auth_token",
    "trust_id",
    "system_scope",
    "passcode",
    "auth_methods",
    "profile",
    "region_name",
    "interface",
    "endpoint_type",
    "compute_interface",
    "compute_endpoint_type",
    "image_interface",
    "image_endpoint_type",
    "network_interface",
    "network_endpoint_type",
    "placement_interface",
    "placement_endpoint_type",
    "compute_endpoint_override",
    "compute_endpoint",
    "image_endpoint_override",
    "image_endpoint",
    "network_endpoint_override",
    "network_endpoint",
    "placement_endpoint_override",
    "placement_endpoint",
    "cacert",
    "cert",
    "key",
    "verify",
    "insecure",
];

/// The settings of one cloud.
pub(super) struct Entry {
    /// Where that stands, for people.
    pub(super) source: String,
    /// Whether it is variables that say it.
    pub(super) is_of_variables: bool,
    auth: Map,
    rest: Map,
}

impl Entry {
    /// The cloud of that name; without a name that of `OS_CLOUD`, else that of `OS_*`, else the only one of the file.
    ///
    /// # Errors
    /// Names the field that is missing or wrong and the file that was read. Secrets are not shown.
    pub(super) fn find(
        cloud: Option<&str>,
        file: Option<&Path>,
        around: &Surroundings<'_>,
    ) -> Result<Entry, String> {
        let variable = |name: &str| (around.variable)(name).filter(|text| !text.is_empty());
        let named = cloud.map(str::to_owned).or_else(|| variable("OS_CLOUD"));
        let of_variables = variable("OS_CLOUD_NAME").unwrap_or_else(|| "envvars".to_owned());
        let is_named = named.as_ref().is_some_and(|name| *name == of_variables);
        if is_named || (named.is_none() && file.is_none() && variable("OS_AUTH_URL").is_some()) {
            return Entry::of_variables(around);
        }
        let folders = folders(around);
        let places = match file {
            Some(file) => vec![file.to_owned()],
            None => places(variable("OS_CLIENT_CONFIG_FILE"), &folders, "clouds"),
        };
        let Some((path, text)) = first(&places, around) else {
            let looked = places.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            return Err(format!("found no clouds.yaml and no OS_AUTH_URL; looked for {looked}"));
        };
        let shown = path.display();
        let mut tree = read_file(path, &text)?;
        let beside = path.parent().unwrap_or(Path::new("")).to_owned();
        let folders_of_secrets = if file.is_some() { vec![beside.clone()] } else { folders.clone() };
        let mut secrets = places_of_secrets(variable("OS_CLIENT_SECURE_FILE"), &folders_of_secrets);
        secrets.extend(places_of_secrets(None, &[beside]));
        if let Some((path, text)) = first(&secrets, around) {
            merge(&mut tree, read_file(path, &text)?);
        }
        let clouds = tree.get("clouds").and_then(Node::map).filter(|clouds| !clouds.is_empty());
        let Some(clouds) = clouds else { return Err(format!("{shown}: found no `clouds:`")) };
        let names = || clouds.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let mut all = clouds.iter();
        let (name, entry) = match (&named, all.next(), all.next()) {
            (Some(name), ..) => {
                let entry = clouds.get(name);
                (
                    name.as_str(),
                    entry
                        .ok_or_else(|| format!("{shown}: found no cloud `{name}`; there are {}", names()))?,
                )
            }
            (None, Some(only), None) => only,
            _ => return Err(format!("{shown}: found several clouds; say `cloud:`, one of {}", names())),
        };
        let source = format!("{shown}, cloud {name}");
        let Some(own) = entry.map() else {
            return Err(format!("{source}: found no fields; write `auth:` and what belongs to it"));
        };
        let profile = profile(own, &folders, around).map_err(|why| format!("{source}: {why}"))?;
        Ok(Entry::put_together(source, own, profile))
    }

    fn of_variables(around: &Surroundings<'_>) -> Result<Entry, String> {
        let mut own = Map::default();
        for &name in VARIABLES {
            let value = (around.variable)(&format!("OS_{}", name.to_uppercase()));
            if let Some(text) = value.filter(|text| !text.is_empty()) {
                own.set(name.to_owned(), Node::Text(text));
            }
        }
        let source = "OS_AUTH_URL and its like".to_owned();
        let profile = profile(&own, &folders(around), around).map_err(|why| format!("{source}: {why}"))?;
        Ok(Entry { is_of_variables: true, ..Entry::put_together(source, &own, profile) })
    }

    fn put_together(source: String, own: &Map, profile: Map) -> Entry {
        let (region, more) = region(own).or_else(|| region(&profile)).unwrap_or_default();
        let mut all = Map::default();
        all.set("interface".to_owned(), Node::Text("public".to_owned()));
        for fields in [&profile, own] {
            update(&mut all, fields, false);
        }
        update(&mut all, &more, true);
        all.remove("regions");
        all.set("region_name".to_owned(), Node::Text(region));
        let auth = match all.remove("auth") {
            Some(Node::Map(auth)) => with_underscores(&auth),
            _ => Map::default(),
        };
        Entry { source, is_of_variables: false, auth, rest: with_underscores(&all) }
    }

    /// A field of `auth`, or one beside it. Empty ones are absent.
    pub(super) fn auth(&self, name: &str) -> Option<&Node> {
        let is_there = |node: &&Node| !matches!(node, Node::Null) && **node != Node::Text(String::new());
        self.auth.get(name).filter(is_there).or_else(|| self.rest.get(name).filter(is_there))
    }

    /// The text of the last of these fields that is there, of which those beside `auth` go before those in it.
    pub(super) fn last_text(&self, names: &[&str]) -> Option<String> {
        let both = names.iter().flat_map(|name| [self.auth.get(name), self.rest.get(name)]);
        both.flatten().filter_map(text).next_back().filter(|text| !text.is_empty())
    }

    /// The text of a field that is not one of `auth`.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.rest.get(name).and_then(text).filter(|text| !text.is_empty())
    }

    /// Returns the value of a field that is true or false.
    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        match self.rest.get(name)? {
            Node::Bool(flag) => Some(*flag),
            Node::Text(text) => {
                Some(!["false", "no", "off", "0", ""].contains(&text.to_lowercase().as_str()))
            }
            _ => None,
        }
    }

    /// Whether a field says `true`, and nothing else that may be meant so.
    pub(super) fn is_true(&self, name: &str) -> bool {
        match self.rest.get(name) {
            Some(Node::Bool(flag)) => *flag,
            Some(Node::Text(text)) => text.eq_ignore_ascii_case("true"),
            _ => false,
        }
    }
}

/// As Python's `str` has it.
pub(super) fn text(node: &Node) -> Option<String> {
    match node {
        Node::Text(text) => Some(text.clone()),
        Node::Bool(flag) => Some(python_bool(*flag).to_owned()),
        Node::Null | Node::List(_) | Node::Map(_) => None,
    }
}

/// Where such files may be, in order. Without a home, there are fewer.
fn folders(around: &Surroundings<'_>) -> Vec<PathBuf> {
    let variable = |name: &str| (around.variable)(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let of_home = variable("HOME").map(|home| home.join(".config"));
    let config = variable("XDG_CONFIG_HOME").or_else(|| of_home.clone());
    let site = variable("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    let below = |folder: Option<PathBuf>| folder.map(|folder| folder.join("openstack"));
    let all = [
        Some(PathBuf::new()),
        below(config),
        below(of_home),
        below(Some(site)),
        Some("/etc/openstack".into()),
    ];
    let mut folders: Vec<PathBuf> = all.into_iter().flatten().collect();
    let mut known = std::collections::BTreeSet::new();
    folders.retain(|folder| known.insert(folder.clone()));
    folders
}

fn places(named: Option<String>, folders: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let files = folders
        .iter()
        .flat_map(|folder| SUFFIXES.iter().map(move |suffix| folder.join(name).with_extension(suffix)));
    named.map(PathBuf::from).into_iter().chain(files).collect()
}

fn places_of_secrets(named: Option<String>, folders: &[PathBuf]) -> Vec<PathBuf> {
    places(named, folders, "secure")
}

fn first<'p>(places: &'p [PathBuf], around: &Surroundings<'_>) -> Option<(&'p PathBuf, String)> {
    places.iter().find_map(|path| Some((path, (around.file)(path)?)))
}

fn read_file(path: &Path, text: &str) -> Result<Map, String> {
    let shown = path.display();
    let is_json = path.extension().is_some_and(|suffix| suffix == "json");
    match read(text, is_json) {
        Ok(Node::Map(map)) => Ok(map),
        // A file of nothing, or of comments alone.
        Ok(Node::Null) => Ok(Map::default()),
        Ok(_) => Err(format!("{shown}: found no `clouds:`")),
        Err(line) => {
            let line = line.map_or(String::new(), |line| format!(", line {line}"));
            Err(format!("{shown}{line}: that is not valid {}", if is_json { "JSON" } else { "YAML" }))
        }
    }
}

/// Adds what another file says, which counts.
fn merge(tree: &mut Map, more: Map) {
    for (key, value) in more.iter() {
        let merged = match (tree.get(key), value) {
            (Some(Node::Map(held)), Node::Map(more)) => {
                let mut held = held.clone();
                merge(&mut held, more.clone());
                Node::Map(held)
            }
            // An empty entry adds nothing.
            (Some(held @ Node::Map(_)), Node::Null) => held.clone(),
            _ => value.clone(),
        };
        tree.set(key.to_owned(), merged);
    }
}

/// Adds fields, which count; those of `auth` one by one. `is_known_only`: but for those without a value.
fn update(all: &mut Map, more: &Map, is_known_only: bool) {
    for (key, value) in more.iter().filter(|(_, value)| !is_known_only || **value != Node::Null) {
        let value = match (key, all.get("auth"), value) {
            ("auth", Some(Node::Map(held)), Node::Map(more)) => {
                let mut held = held.clone();
                more.iter().for_each(|(key, value)| held.set(key.to_owned(), value.clone()));
                Node::Map(held)
            }
            // An empty `auth` leaves the fields of the profile as they are.
            ("auth", Some(held), Node::Null) => held.clone(),
            _ => value.clone(),
        };
        all.set(key.to_owned(), value);
    }
}

fn with_underscores(fields: &Map) -> Map {
    let mut all = Map::default();
    fields.iter().for_each(|(key, value)| all.set(key.replace('-', "_"), value.clone()));
    all
}

/// The region that is meant, and what is said of it alone; `None`: nothing is said of regions.
fn region(fields: &Map) -> Option<(String, Map)> {
    let fields = with_underscores(fields);
    let first = match (fields.get("regions"), fields.get("region_name")) {
        (Some(Node::List(all)), _) => all.first()?.clone(),
        (_, Some(Node::List(all))) => all.first()?.clone(),
        (_, Some(node)) => Node::Text(text(node)?.split(',').next()?.to_owned()),
        _ => return None,
    };
    match &first {
        Node::Map(region) => {
            let more = region.get("values").and_then(Node::map).cloned().unwrap_or_default();
            Some((region.get("name").and_then(text)?, more))
        }
        node => Some((text(node)?, Map::default())),
    }
}

/// Returns the fields of the profile that the cloud names; none for an unknown profile, as openstacksdk does.
fn profile(own: &Map, folders: &[PathBuf], around: &Surroundings<'_>) -> Result<Map, String> {
    let Some(name) = own.get("profile").or_else(|| own.get("cloud")).and_then(text) else {
        return Ok(Map::default());
    };
    let files = places(None, folders, "clouds-public");
    if let Some((path, text)) = first(&files, around) {
        let file = read_file(path, &text)?;
        let found =
            file.get("public-clouds").and_then(Node::map).and_then(|all| all.get(&name)?.map().cloned());
        if let Some(found) = found {
            return Ok(found);
        }
    }
    if name.contains("://") || ["ovh", "vexxhost"].contains(&name.as_str()) {
        return Err(format!(
            "the profile `{}` would have to be fetched; write `auth_url` and `region_name` instead",
            profiles::address::shown(&name)
        ));
    }
    let mut fields = Map::default();
    if let Some((_, auth_url, region)) = VENDORS.iter().find(|(known, ..)| *known == name) {
        let mut auth = Map::default();
        auth.set("auth_url".to_owned(), Node::Text((*auth_url).to_owned()));
        if IN_DEFAULT_DOMAIN.contains(&name.as_str()) {
            for field in ["user_domain_name", "project_domain_name"] {
                auth.set(field.to_owned(), Node::Text("Default".to_owned()));
            }
        }
        fields.set("auth".to_owned(), Node::Map(auth));
        if !region.is_empty() {
            fields.set("region_name".to_owned(), Node::Text((*region).to_owned()));
        }
    }
    Ok(fields)
}
