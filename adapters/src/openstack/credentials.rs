//! Who we are to a cloud: `clouds.yaml`, with the `secure.yaml` beside it, or `OS_*`, as all clients of OpenStack
//! read them.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use serde_yaml::Value as Yaml;

use super::wire::Trouble;

/// What nobody may read in a log.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// For a request, and nothing else.
    pub(super) fn tell(&self) -> &str {
        &self.0
    }

    /// The same in a header, which is shown in no log either.
    pub(super) fn header(&self) -> Result<HeaderValue, Trouble> {
        let mut value =
            HeaderValue::from_str(&self.0).map_err(|_| Trouble::Unknown("the token is none".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a secret)")
    }
}

/// How a cloud is entered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Credentials {
    /// Keystone's URL, ending in `/v3`.
    pub(super) auth_url: String,
    /// The region; `None`: the only one, or any.
    pub(super) region: Option<String>,
    /// Which of a service's endpoints: `public`, `internal` or `admin`.
    pub(super) interface: String,
    /// Whose certificates are trusted, instead of the system's.
    pub(super) ca_file: Option<PathBuf>,
    /// Whether the cloud must prove who it is.
    pub(super) verifies: bool,
    /// Where all this was found, for people.
    pub(super) source: String,
    who: Who,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Who {
    /// An application credential, by its id or by its name and its user.
    Application { id: Option<String>, name: Option<String>, user: Option<Value>, secret: Secret },
    /// A user and the project that the token is for.
    User { user: Value, password: Secret, project: Value },
}

/// What credentials are looked for in.
pub(super) struct Surroundings<'a> {
    /// A variable of the environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    /// A file's text; `None`: there is none.
    pub(super) file: &'a dyn Fn(&Path) -> Option<String>,
}

impl Credentials {
    /// Those of the cloud of that name; without a name that of `OS_CLOUD`, else those of `OS_*`, else the only
    /// cloud of the file.
    ///
    /// # Errors
    /// What is missing, and where it was looked for.
    pub(super) fn find(
        cloud: Option<&str>,
        file: Option<&Path>,
        around: &Surroundings<'_>,
    ) -> Result<Credentials, String> {
        let of_variable = || (around.variable)("OS_CLOUD").filter(|name| !name.is_empty());
        let named = cloud.map(str::to_owned).or_else(of_variable);
        if named.is_none() && file.is_none() && (around.variable)("OS_AUTH_URL").is_some() {
            return of_variables(around.variable);
        }
        let places = file.map_or_else(|| places(around.variable), |file| vec![file.to_owned()]);
        let found = places.iter().find_map(|path| (around.file)(path).map(|text| (path, text)));
        let Some((path, text)) = found else {
            let looked = places.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            return Err(format!("found no clouds.yaml and no OS_AUTH_URL; looked for {looked}"));
        };
        let shown = path.display();
        let read = |text: &str, shown: &dyn fmt::Display| {
            // What the library says of a mistake may quote what stands there.
            let place = |error: serde_yaml::Error| {
                error.location().map_or(String::new(), |at| format!(", line {}", at.line()))
            };
            serde_yaml::from_str::<Yaml>(text).map_err(|error| format!("{shown}{}: no YAML", place(error)))
        };
        let mut tree = read(&text, &shown)?;
        let secure = path.with_file_name("secure.yaml");
        if let Some(text) = (around.file)(&secure) {
            merge(&mut tree, read(&text, &secure.display())?);
        }
        let clouds = tree.get("clouds").and_then(Yaml::as_mapping).filter(|clouds| !clouds.is_empty());
        let Some(clouds) = clouds else { return Err(format!("{shown}: found no `clouds:`")) };
        let names = || clouds.keys().filter_map(Yaml::as_str).collect::<Vec<_>>().join(", ");
        let name = match &named {
            Some(name) => name.as_str(),
            None if clouds.len() == 1 => clouds.keys().next().and_then(Yaml::as_str).unwrap_or_default(),
            None => return Err(format!("{shown}: found several clouds; say `cloud:`, one of {}", names())),
        };
        let Some(entry) = clouds.get(name) else {
            return Err(format!("{shown}: found no cloud `{name}`; there are {}", names()));
        };
        let field = |path: &str| {
            let value = path.split('.').try_fold(entry, |value, key| value.get(key))?;
            match value {
                Yaml::String(text) => Some(text.clone()),
                Yaml::Number(number) => Some(number.to_string()),
                Yaml::Bool(flag) => Some(flag.to_string()),
                _ => None,
            }
        };
        let auth = |name: &str| field(&format!("auth.{name}"));
        from_fields(&auth, &field, format!("{shown}, cloud {name}"), &|name| format!("auth.{name}"))
    }

    /// The body of a request for a token.
    pub(super) fn request(&self) -> Value {
        match &self.who {
            Who::Application { id, name, user, secret } => {
                let mut of = json!({ "secret": secret.tell() });
                let known = [
                    ("id", id.clone().map(Value::from)),
                    ("name", name.clone().map(Value::from)),
                    ("user", user.clone()),
                ];
                for (key, value) in known {
                    if let Some(value) = value {
                        of[key] = value;
                    }
                }
                // With a scope Keystone refuses it: it has one of its own.
                json!({ "auth": { "identity": { "methods": ["application_credential"], "application_credential": of } } })
            }
            Who::User { user, password, project } => {
                let mut user = user.clone();
                user["password"] = password.tell().into();
                let identity = json!({ "methods": ["password"], "password": { "user": user } });
                json!({ "auth": { "identity": identity, "scope": { "project": project } } })
            }
        }
    }
}

/// Where `clouds.yaml` may be, in order.
fn places(variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let named = variable("OS_CLIENT_CONFIG_FILE").map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")));
    let home = config.map(|config| config.join("openstack/clouds.yaml"));
    let all = [named, Some("clouds.yaml".into()), home, Some("/etc/openstack/clouds.yaml".into())];
    all.into_iter().flatten().collect()
}

/// What `secure.yaml` says is added, and counts.
fn merge(tree: &mut Yaml, more: Yaml) {
    match (tree, more) {
        (Yaml::Mapping(tree), Yaml::Mapping(more)) => {
            for (key, value) in more {
                merge(tree.entry(key).or_insert(Yaml::Null), value);
            }
        }
        (tree, more) => *tree = more,
    }
}

fn of_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Credentials, String> {
    let name_of = |name: &str| format!("OS_{}", name.to_uppercase());
    let auth = |name: &str| variable(&name_of(name)).filter(|text| !text.is_empty());
    let field = |name: &str| match name {
        "verify" => auth("insecure").map(|word| (!is_true(&word)).to_string()),
        name => auth(name),
    };
    from_fields(&auth, &field, "OS_AUTH_URL and its like".to_owned(), &name_of)
}

fn is_true(word: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&word.to_lowercase().as_str())
}

/// `auth`: who it is; `field`: the rest; `called`: what an entry of `auth` is called where it is missing.
fn from_fields(
    auth: &dyn Fn(&str) -> Option<String>,
    field: &dyn Fn(&str) -> Option<String>,
    source: String,
    called: &dyn Fn(&str) -> String,
) -> Result<Credentials, String> {
    let need = |name: &str| auth(name).ok_or_else(|| format!("{source}: found no `{}`", called(name)));
    let auth_url = need("auth_url")?;
    if !(auth_url.starts_with("https://") || auth_url.starts_with("http://")) {
        return Err(format!("{source}: found `{}` that is no URL", called("auth_url")));
    }
    // By convention it ends so, and files exist in which it does not.
    let base = auth_url.trim_end_matches('/').trim_end_matches("/v3").trim_end_matches("/v2.0");
    let domain = |of: &str| {
        let by_id = |id: String| json!({ "id": id });
        let by_name = |name: String| json!({ "name": name });
        auth(&format!("{of}_domain_id"))
            .map(by_id)
            .or_else(|| auth(&format!("{of}_domain_name")).map(by_name))
            .or_else(|| auth("default_domain").or_else(|| auth("default_domain_id")).map(by_id))
            .or_else(|| auth("default_domain_name").map(by_name))
            .unwrap_or_else(|| by_id("default".to_owned()))
    };
    let named = |of: &str, name: &str| match auth(&format!("{of}_id")) {
        Some(id) => Ok(json!({ "id": id })),
        None => Ok::<_, String>(json!({ "name": need(name)?, "domain": domain(of) })),
    };
    let is_application = field("auth_type").is_some_and(|kind| kind.contains("applicationcredential"))
        || auth("application_credential_secret").is_some();
    let who = if is_application {
        let (id, name) = (auth("application_credential_id"), auth("application_credential_name"));
        let user = if id.is_some() { None } else { Some(named("user", "username")?) };
        if id.is_none() && name.is_none() {
            need("application_credential_id")?;
        }
        let name = name.filter(|_| id.is_none());
        Who::Application { id, name, user, secret: Secret::new(need("application_credential_secret")?) }
    } else {
        let project = named("project", "project_name")?;
        Who::User { user: named("user", "username")?, password: Secret::new(need("password")?), project }
    };
    Ok(Credentials {
        auth_url: format!("{base}/v3"),
        region: field("region_name"),
        interface: field("interface")
            .unwrap_or_else(|| "public".to_owned())
            .trim_end_matches("URL")
            .to_owned(),
        ca_file: field("cacert").map(PathBuf::from),
        verifies: field("verify").is_none_or(|word| is_true(&word)),
        source,
        who,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = "clouds:\n  demo:\n    auth:\n      auth_url: http://keystone:5000/v3/\n      username: ada\n      \
        project_name: lab\n      user_domain_name: Default\n      project_domain_id: default\n    region_name: one\n";
    const SECURE: &str = "clouds: {demo: {auth: {password: hush}}}";

    fn find(
        cloud: Option<&str>,
        files: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Result<Credentials, String> {
        let of = |all: &[(&str, &str)], name: &str| {
            all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let around = Surroundings {
            variable: &|name| of(variables, name),
            file: &|path| of(files, &path.display().to_string()),
        };
        Credentials::find(cloud, None, &around)
    }

    #[test]
    fn a_user_is_read_from_two_files() {
        let files = [
            ("/home/ada/.config/openstack/clouds.yaml", DEMO),
            ("/home/ada/.config/openstack/secure.yaml", SECURE),
        ];
        let found = find(Some("demo"), &files, &[("HOME", "/home/ada")]).expect("credentials");
        assert_eq!(found.auth_url, "http://keystone:5000/v3");
        assert_eq!(found.region.as_deref(), Some("one"));
        let user = json!({ "name": "ada", "domain": { "name": "Default" }, "password": "hush" });
        assert_eq!(found.request()["auth"]["identity"]["password"]["user"], user);
        let project = json!({ "name": "lab", "domain": { "id": "default" } });
        assert_eq!(found.request()["auth"]["scope"]["project"], project);
        assert!(!format!("{found:?}").contains("hush"), "{found:?}");
    }

    #[test]
    fn an_application_credential_has_no_scope() {
        let text = "clouds: {c: {auth_type: v3applicationcredential, auth: {auth_url: 'https://k', \
            application_credential_id: abc, application_credential_secret: hush}, verify: false}}";
        let found = find(None, &[("clouds.yaml", text)], &[]).expect("credentials");
        assert_eq!((found.auth_url.as_str(), found.verifies), ("https://k/v3", false));
        let request = found.request();
        let expected = json!({ "id": "abc", "secret": "hush" });
        assert_eq!(request["auth"]["identity"]["application_credential"], expected);
        assert!(request["auth"].get("scope").is_none());
    }

    #[test]
    fn variables_say_the_same() {
        let variables = [
            ("OS_AUTH_URL", "http://k:5000"),
            ("OS_USERNAME", "ada"),
            ("OS_PASSWORD", "hush"),
            ("OS_PROJECT_ID", "77"),
            ("OS_CACERT", "/etc/ca.pem"),
            ("OS_INSECURE", "1"),
        ];
        let found = find(None, &[], &variables).expect("credentials");
        assert_eq!(found.request()["auth"]["scope"]["project"], json!({ "id": "77" }));
        assert_eq!((found.ca_file, found.verifies), (Some("/etc/ca.pem".into()), false));
        // A cloud's name is looked for in files, whatever else is set.
        let error = find(Some("demo"), &[], &variables).expect_err("no file");
        assert!(error.contains("found no clouds.yaml"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_secret_is_quoted() {
        let with = |text: &str| format!("clouds: {{a: {{auth: {{{text}}}}}}}");
        for (text, cloud, expected) in [
            ("clouds: {}".to_owned(), None, "found no `clouds:`"),
            ("clouds: {a: {}, b: {}}".to_owned(), None, "say `cloud:`, one of a, b"),
            ("clouds: {a: {}}".to_owned(), Some("c"), "found no cloud `c`; there are a"),
            (with("username: x"), None, "found no `auth.auth_url`"),
            (with("auth_url: 'k:5000'"), None, "`auth.auth_url` that is no URL"),
            (with("auth_url: 'http://k', username: x, password: hush"), None, "found no `auth.project_name`"),
            (with("auth_url: 'http://k', project_id: x, username: x"), None, "found no `auth.password`"),
            (
                with("auth_url: 'http://k', application_credential_secret: hush"),
                None,
                "found no `auth.username`",
            ),
            ("clouds: [hush: hush: x".to_owned(), None, "clouds.yaml, line 1: no YAML"),
        ] {
            let error = find(cloud, &[("clouds.yaml", &text)], &[]).expect_err(&text);
            assert!(error.contains(expected) && !error.contains("hush"), "{text}: {error}");
        }
    }
}
