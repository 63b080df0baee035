//! What files and the environment say of a cloud, put together as openstacksdk does: `clouds.yaml` with merge keys,
//! `secure.yaml`, profiles, regions, old names of fields. `tests/openstack/clouds.py` records what openstacksdk makes of
//! such files, and a test here compares.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use super::yaml::{Map, Node, python_bool, read};

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

/// What credentials are looked for in.
pub(super) struct Surroundings<'a> {
    /// A variable of the environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// Reads a file.
    pub(super) file: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

impl Surroundings<'_> {
    /// A variable that is a text; `None`: it is empty, or there is none. Errors: it is no text.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        let text = (self.variable)(name).filter(|value| !value.is_empty()).map(OsString::into_string);
        text.transpose()
            .map_err(|_| format!("{name}: found a character that is not in UTF-8; write it in UTF-8"))
    }

    /// The same of one that is a path, which may hold any bytes.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

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
        let named = match cloud {
            Some(cloud) => Some(cloud.to_owned()),
            None => around.text("OS_CLOUD")?,
        };
        let of_variables = around.text("OS_CLOUD_NAME")?.unwrap_or_else(|| "envvars".to_owned());
        let is_named = named.as_ref().is_some_and(|name| *name == of_variables);
        let is_said = || ["OS_AUTH_URL", "OS_PROFILE"].into_iter().any(|name| around.path(name).is_some());
        if is_named || (named.is_none() && file.is_none() && is_said()) {
            return Entry::of_variables(around);
        }
        let folders = folders(around);
        let (path, tree) = tree(file, &folders, around)?;
        let shown = path.display();
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
            _ => return Err(format!("{shown}: found several clouds; set `cloud:`, one of {}", names())),
        };
        let source = format!("{shown}, cloud {name}");
        let Some(own) = entry.map() else {
            return Err(format!("{source}: found no fields; write `auth:` and what belongs to it"));
        };
        let profile = profile(own, &folders, around).map_err(|why| format!("{source}: {why}"))?;
        Entry::put_together(source, own, profile).filled()
    }

    fn of_variables(around: &Surroundings<'_>) -> Result<Entry, String> {
        let mut own = Map::default();
        for &name in VARIABLES {
            if let Some(text) = around.text(&format!("OS_{}", name.to_uppercase()))? {
                own.set(name.to_owned(), Node::Text(text));
            }
        }
        let source = "OS_AUTH_URL and its like".to_owned();
        let profile = profile(&own, &folders(around), around).map_err(|why| format!("{source}: {why}"))?;
        Entry { is_of_variables: true, ..Entry::put_together(source, &own, profile) }.filled()
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

    /// Fills in `{region_name}` and its like where addresses and paths say so.
    fn filled(self) -> Result<Entry, String> {
        let all = |fields: &Map, shown: &str, is_filled: fn(&str) -> bool| -> Result<Map, String> {
            let mut all = fields.clone();
            for (name, value) in fields.iter().filter(|(name, _)| is_filled(name)) {
                if let Node::Text(text) = value {
                    let value = with_fields(text, &self.rest)
                        .map_err(|why| format!("{}: `{shown}{name}`: {why}", self.source))?;
                    all.set(name.to_owned(), Node::Text(value));
                }
            }
            Ok(all)
        };
        let auth = all(&self.auth, "auth.", |name| name == "auth_url")?;
        let rest = all(&self.rest, "", |name| {
            ["auth_url", "cacert", "cert", "key", "verify"].contains(&name)
                || ["interface", "endpoint_type", "endpoint_override", "endpoint"]
                    .into_iter()
                    .any(|end| name.ends_with(end))
        })?;
        Ok(Entry { auth, rest, ..self })
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

    /// A field that is not one of `auth`, as it is.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.rest.get(name)
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
    let of_home = around.path("HOME").map(|home| home.join(".config"));
    let config = around.path("XDG_CONFIG_HOME").or_else(|| of_home.clone());
    let site = around.path("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
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

fn places(named: Option<PathBuf>, folders: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let files = folders
        .iter()
        .flat_map(|folder| SUFFIXES.iter().map(move |suffix| folder.join(name).with_extension(suffix)));
    named.into_iter().chain(files).collect()
}

/// All that files say, those with secrets too, and where it stands. `file`: the only one that is meant.
fn tree(
    file: Option<&Path>,
    folders: &[PathBuf],
    around: &Surroundings<'_>,
) -> Result<(PathBuf, Map), String> {
    let (found, looked) = match file {
        Some(file) => (named_file(file, around)?, vec![file.to_owned()]),
        None => {
            let places = places(around.path("OS_CLIENT_CONFIG_FILE"), folders, "clouds");
            (first(&places, around)?, places)
        }
    };
    let beside = found.iter().map(|(path, _)| path.parent().unwrap_or(Path::new("")).to_owned());
    let folders = if file.is_some() { &[] } else { folders };
    let folders: Vec<PathBuf> = folders.iter().cloned().chain(beside).collect();
    let secret = first(&places(around.path("OS_CLIENT_SECURE_FILE"), &folders, "secure"), around)?;
    let (path, mut tree) = match (found, &secret) {
        (Some((path, text)), _) => (path.clone(), read_file(&path, &text)?),
        // All of a cloud may stand there.
        (None, Some((path, _))) if file.is_none() => (path.clone(), Map::default()),
        (None, _) => return Err(nothing_found(&looked, around)),
    };
    if let Some((path, text)) = &secret {
        merge(&mut tree, read_file(path, text)?);
    }
    Ok((path, tree))
}

/// The first file that is there and may be read, with its text. Errors: one that is there cannot be read; a file behind
/// it may be of another account.
fn first(places: &[PathBuf], around: &Surroundings<'_>) -> Result<Option<(PathBuf, String)>, String> {
    for path in places {
        match (around.file)(path) {
            Ok(bytes) => return Ok(Some((path.clone(), decoded(path, bytes)?))),
            Err(error) if is_passed_over(&error) => {}
            Err(error) => return Err(format!("failed to read {}: {error}", path.display())),
        }
    }
    Ok(None)
}

/// The same of the only file that is meant; `None`: it is not there.
fn named_file(path: &Path, around: &Surroundings<'_>) -> Result<Option<(PathBuf, String)>, String> {
    match (around.file)(path) {
        Ok(bytes) => Ok(Some((path.to_owned(), decoded(path, bytes)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("failed to read {}: {error}", path.display())),
    }
}

/// Whether openstacksdk looks on for a file of that name, and an account is hardly meant by it.
fn is_passed_over(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::PermissionDenied
    )
}

/// Where there should have been a file; of those that are there, why they do not count.
fn nothing_found(places: &[PathBuf], around: &Surroundings<'_>) -> String {
    let looked = places.iter().map(|path| match (around.file)(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => format!("{} ({error})", path.display()),
        _ => path.display().to_string(),
    });
    let looked = looked.collect::<Vec<_>>().join(", ");
    format!("found no clouds.yaml and no OS_AUTH_URL; looked for {looked}")
}

/// A file's text. Errors: the line of what is no UTF-8.
fn decoded(path: &Path, bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let (n_right, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = 1 + bytes.iter().take(n_right).filter(|byte| **byte == b'\n').count();
        let found = match bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            true => "found UTF-16",
            false => "found a character that is not in UTF-8",
        };
        format!("{}, line {line}: {found}; save the file as UTF-8", path.display())
    })
}

/// A text whose `{region_name}` and its like stand for fields, as Python's `format` has it. Errors: there is no such
/// field, or it may not be shown.
fn with_fields(text: &str, fields: &Map) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(brace) = ["{{", "}}"].into_iter().find(|braces| rest.starts_with(*braces)) {
            filled.push_str(&brace[1..]);
            rest = &rest[2..];
            continue;
        }
        let name = rest.strip_prefix('{').and_then(|rest| Some((rest.split_once('}')?.0, rest)));
        let Some((name, after)) = name else {
            return Err("found a brace that stands alone; write `{{` and `}}` for braces".to_owned());
        };
        let is_secret = ["password", "secret", "token", "passcode"].iter().any(|word| name.contains(word));
        let value = fields.get(name).filter(|_| !is_secret).and_then(self::text);
        let Some(value) = value else {
            return Err(format!(
                "found `{{{}}}`, which stands for no field of this cloud; write the value, or such as `{{region_name}}`",
                name.chars().take(40).collect::<String>().escape_debug()
            ));
        };
        filled.push_str(&value);
        rest = &after[name.len() + 1..];
    }
    Ok(filled + rest)
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
    if let Some((path, text)) = first(&files, around)? {
        let file = read_file(&path, &text)?;
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
