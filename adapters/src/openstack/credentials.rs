//! Who we are to a cloud: what `clouds.yaml` and its like, or `OS_*`, say, as openstacksdk understands them.

use std::{fmt, path::Path};

use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use super::{
    clouds::{Entry, Surroundings},
    tls::Tls,
    wire::{Service, Trouble},
    yaml::Node,
};

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
    /// Which of each service's endpoints: `public`, `internal` or `admin`.
    pub(super) interfaces: [String; Service::ALL.len()],
    /// Where services are, whatever the catalog says.
    pub(super) overrides: [Option<String>; Service::ALL.len()],
    /// How TLS connections to it are checked.
    pub(super) tls: Tls,
    /// Where all this was found, for people.
    pub(super) source: String,
    who: Who,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Who {
    /// An application credential, by its id or by its name and its user.
    Application { id: Option<String>, name: Option<String>, user: Option<Value>, secret: Secret },
    /// A user, and what the token is for.
    User { user: Value, password: Secret, scope: Value },
    /// A token, and what the one is for that is made of it.
    Token { token: Secret, scope: Value },
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
        let entry = Entry::find(cloud, file, around)?;
        from_entry(&entry, around.path("HOME").as_deref()).map_err(|why| format!("{}: {why}", entry.source))
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
            Who::User { user, password, scope } => {
                let mut user = user.clone();
                user["password"] = password.tell().into();
                let identity = json!({ "methods": ["password"], "password": { "user": user } });
                json!({ "auth": { "identity": identity, "scope": scope } })
            }
            Who::Token { token, scope } => {
                let identity = json!({ "methods": ["token"], "token": { "id": token.tell() } });
                json!({ "auth": { "identity": identity, "scope": scope } })
            }
        }
    }
}

/// How a kind of `auth_type` enters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Password,
    Token,
    Application,
}

/// The kind that `auth_type` names. Errors: it is none of ours.
fn kind(entry: &Entry) -> Result<Kind, String> {
    let named = entry.text("auth_type").or_else(|| entry.text("auth_plugin"));
    let is_there = |field: &str| entry.auth(field).is_some();
    match named.as_deref() {
        Some("v3applicationcredential") => Ok(Kind::Application),
        Some("token" | "v3token") => Ok(Kind::Token),
        Some("v3password") => Ok(Kind::Password),
        // That is what stands for nothing, too.
        None | Some("password") if is_there("application_credential_secret") => Ok(Kind::Application),
        None if !is_there("password") && (is_there("token") || is_there("auth_token")) => Ok(Kind::Token),
        None | Some("password") => Ok(Kind::Password),
        Some(other) => Err(format!(
            "found `auth_type: {other}`, by which Pilotfish cannot enter; write v3applicationcredential, password, \
             v3password, token or v3token, or make an application credential (`openstack application credential create`)"
        )),
    }
}

/// `home`: what `~` stands for.
fn from_entry(entry: &Entry, home: Option<&Path>) -> Result<Credentials, String> {
    let called = |name: &str| match entry.is_of_variables {
        true => format!("OS_{}", name.to_uppercase()),
        false => format!("auth.{name}"),
    };
    let get = |name: &str| match entry.auth(name) {
        None => Ok(None),
        Some(Node::Text(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("found `{}` that is no text; put it in quotes", called(name))),
    };
    let need = |name: &str| get(name)?.ok_or_else(|| format!("found no `{}`", called(name)));
    let region = entry.text("region_name");
    let auth_url = address(&need("auth_url")?).ok_or_else(|| {
        format!("found `{}` that is no URL; write `https://…` or `http://…`", called("auth_url"))
    })?;
    // By convention it ends so, and files exist in which it does not.
    let base = auth_url.trim_end_matches('/').trim_end_matches("/v3").trim_end_matches("/v2.0");
    let project = |of: &str| entry.last_text(&[&format!("tenant_{of}"), &format!("project_{of}")]);
    let (project_id, project_name) = (project("id"), project("name"));
    let is_for_project = project_id.is_some() || project_name.is_some();
    let domain = |of: &str| {
        let by_id = |id: String| json!({ "id": id });
        let by_name = |name: String| json!({ "name": name });
        let own = |by: &str| {
            let own = entry.last_text(&[&format!("{of}_domain_{by}")]);
            // Whoever names a domain beside a project means that of both.
            own.or_else(|| entry.last_text(&[&format!("domain_{by}")]).filter(|_| is_for_project))
        };
        own("id")
            .map(by_id)
            .or_else(|| own("name").map(by_name))
            // `default_domain` is a field of the program `openstack`, not of openstacksdk.
            .or_else(|| entry.last_text(&["default_domain_id", "default_domain"]).map(by_id))
            .or_else(|| entry.last_text(&["default_domain_name"]).map(by_name))
            .unwrap_or_else(|| by_id("default".to_owned()))
    };
    let user = || match (get("user_id")?, get("username")?.or(get("user_name")?)) {
        (Some(id), _) => Ok(json!({ "id": id })),
        (None, Some(name)) => Ok(json!({ "name": name, "domain": domain("user") })),
        (None, None) => Err(format!("found no `{}`", called("username"))),
    };
    let scope = || match (get("trust_id")?, &project_id, &project_name) {
        (Some(trust), ..) => Ok(json!({ "OS-TRUST:trust": { "id": trust } })),
        (None, Some(id), _) => Ok(json!({ "project": { "id": id } })),
        (None, None, Some(name)) => Ok(json!({ "project": { "name": name, "domain": domain("project") } })),
        (None, None, None) if get("system_scope")?.is_some() => Err(format!(
            "found `{}`, but servers belong to a project; write `{}` instead",
            called("system_scope"),
            called("project_name")
        )),
        (None, None, None) => Err(format!("found no `{}`", called("project_name"))),
    };
    let who = match kind(entry)? {
        Kind::Application => {
            let (id, name) = (get("application_credential_id")?, get("application_credential_name")?);
            let user = if id.is_some() { None } else { Some(user()?) };
            if id.is_none() && name.is_none() {
                need("application_credential_id")?;
            }
            let name = name.filter(|_| id.is_none());
            Who::Application { id, name, user, secret: Secret::new(need("application_credential_secret")?) }
        }
        Kind::Password => {
            let scope = scope()?;
            Who::User { user: user()?, password: Secret::new(need("password")?), scope }
        }
        Kind::Token => {
            let token = entry.last_text(&["auth_token", "token"]);
            let token = token.ok_or_else(|| format!("found no `{}`", called("token")))?;
            Who::Token { token: Secret::new(token), scope: scope()? }
        }
    };
    Ok(Credentials {
        auth_url: format!("{base}/v3"),
        region,
        interfaces: Service::ALL.map(|service| interface(entry, service)),
        overrides: Service::ALL.map(|service| endpoint(entry, service)),
        tls: Tls::of(entry, home),
        source: entry.source.clone(),
        who,
    })
}

/// A URL whose scheme is written in small letters; `None`: it is none.
fn address(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    ["https", "http"].contains(&scheme.as_str()).then(|| format!("{scheme}://{rest}"))
}

/// Which of a service's endpoints is meant. The old names count, as they do for openstacksdk.
fn interface(entry: &Entry, service: Service) -> String {
    let of = |prefix: &str| {
        let of_name = |name: &str| entry.text(&format!("{prefix}{name}"));
        of_name("endpoint_type").or_else(|| of_name("interface"))
    };
    let found = of(&format!("{}_", service.kind())).or_else(|| of(""));
    found.unwrap_or_else(|| "public".to_owned()).trim_end_matches("URL").to_owned()
}

/// Where a service is, whatever the catalog says.
fn endpoint(entry: &Entry, service: Service) -> Option<String> {
    let of = |name: &str| entry.text(&format!("{}_{name}", service.kind()));
    of("endpoint_override").or_else(|| of("endpoint"))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, io};

    use super::*;
    use crate::openstack::tls::Named;

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
            variable: &|name| of(variables, name).map(OsString::from),
            file: &|path| {
                of(files, &path.display().to_string())
                    .map(String::into_bytes)
                    .ok_or_else(|| io::ErrorKind::NotFound.into())
            },
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
    fn a_file_of_nothing_is_as_no_file() {
        let whole = DEMO.replace("username: ada\n", "username: ada\n      password: hush\n");
        for nothing in [
            "",
            "\n\n",
            "# my secrets\n",
            "---\n",
            "clouds:\n",
            "clouds: {demo: }",
            "clouds: {demo: {auth: }}",
        ] {
            let beside = [("clouds.yaml", whole.as_str()), ("secure.yaml", nothing)];
            let found = find(Some("demo"), &beside, &[]);
            assert!(found.is_ok(), "secure.yaml {nothing:?}: {:?}", found.err());
        }
        let of_profile =
            "clouds: {demo: {profile: auro, auth: {username: ada, password: hush, project_id: x}}}";
        for nothing in ["", "# none\n", "public-clouds:\n"] {
            let beside = [("clouds.yaml", of_profile), ("clouds-public.yaml", nothing)];
            let found = find(Some("demo"), &beside, &[]).expect("the profile that is known");
            assert!(found.auth_url.contains("auro.io"), "{}", found.auth_url);
        }
        for nothing in ["", "# later\n", "clouds:\n"] {
            let found = find(Some("demo"), &[("clouds.yaml", nothing)], &[]);
            assert_eq!(found.err().as_deref(), Some("clouds.yaml: found no `clouds:`"), "{nothing:?}");
        }
    }

    #[test]
    fn an_application_credential_has_no_scope() {
        let text = "clouds: {c: {auth_type: v3applicationcredential, auth: {auth_url: 'https://k', \
            application_credential_id: abc, application_credential_secret: hush}, verify: false}}";
        let found = find(None, &[("clouds.yaml", text)], &[]).expect("credentials");
        assert_eq!((found.auth_url.as_str(), found.tls.verifies), ("https://k/v3", false));
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
            ("OS_INSECURE", "True"),
        ];
        let found = find(None, &[], &variables).expect("credentials");
        assert_eq!(found.request()["auth"]["scope"]["project"], json!({ "id": "77" }));
        assert_eq!((found.tls.authorities, found.tls.verifies), (None, false));
        // As for openstacksdk, no other word will do: who is in doubt verifies.
        let mut doubtful = variables;
        doubtful[5].1 = "1";
        assert!(find(None, &[], &doubtful).expect("credentials").tls.verifies);
        // A cloud's name is looked for in files, whatever else is set.
        let error = find(Some("demo"), &[], &variables).expect_err("no file");
        assert!(error.contains("found no clouds.yaml"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_secret_is_quoted() {
        let with = |text: &str| format!("clouds: {{a: {{auth: {{{text}}}}}}}");
        for (text, cloud, expected) in [
            ("clouds: {}".to_owned(), None, "found no `clouds:`"),
            ("clouds: {a: {}, b: {}}".to_owned(), None, "set `cloud:`, one of a, b"),
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
            ("clouds: [hush: hush: x".to_owned(), None, "clouds.yaml, line 1: that is not valid YAML"),
            (
                with("auth_url: 'http://k', project_id: x, username: x, password: yes"),
                None,
                "found `auth.password` that is no text; put it in quotes",
            ),
            (
                "clouds: {a: {auth_type: v3multifactor, auth: {auth_url: 'http://k', password: hush}}}"
                    .to_owned(),
                None,
                "found `auth_type: v3multifactor`, by which Pilotfish cannot enter; write v3applicationcredential",
            ),
            ("clouds: {a: hush}".to_owned(), None, "cloud a: found no fields"),
            (
                "clouds: {a: {profile: 'https://ann:hush@vendor.org'}}".to_owned(),
                None,
                "the profile `https://…@vendor.org` would have to be fetched",
            ),
        ] {
            let error = find(cloud, &[("clouds.yaml", &text)], &[]).expect_err(&text);
            assert!(error.contains(expected) && !error.contains("hush"), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_there_and_cannot_be_read_is_never_passed_over_for_another_account() {
        let of_home = "/home/ada/.config/openstack/clouds.yaml";
        let full = DEMO.replace("username: ada\n", "username: ada\n      password: hush\n");
        // What stands in ./NAME, and what comes of it where the home has a whole clouds.yaml.
        let with = |name: &str, here: &dyn Fn() -> io::Result<Vec<u8>>, file: Option<&str>| {
            let around = Surroundings {
                variable: &|name| (name == "HOME").then(|| "/home/ada".into()),
                file: &|path| match path.display().to_string() {
                    path if path == name => here(),
                    path if path == of_home => Ok(full.clone().into_bytes()),
                    _ => Err(io::ErrorKind::NotFound.into()),
                },
            };
            Credentials::find(Some("demo"), file.map(Path::new), &around)
        };
        let latin = || Ok(b"clouds:\n  demo: {password: p\xe4ss}\n".to_vec());
        let wide = || Ok(b"\xff\xfec\0l\0".to_vec());
        let no_memory = || Err(io::Error::from_raw_os_error(5));
        for name in ["clouds.yaml", "secure.yaml"] {
            let error = with(name, &latin, None).expect_err("Latin-1");
            let expected =
                format!("{name}, line 2: found a character that is not in UTF-8; save the file as UTF-8");
            assert_eq!(error, expected);
            let error = with(name, &wide, None).expect_err("UTF-16");
            assert!(error.starts_with(&format!("{name}, line 1: found UTF-16")), "{error}");
            let error = with(name, &no_memory, None).expect_err("a broken disk");
            assert!(error.starts_with(&format!("failed to read {name}: Input/output error")), "{error}");
            // As for openstacksdk.
            for kind in
                [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied, io::ErrorKind::IsADirectory]
            {
                assert!(with(name, &|| Err(kind.into()), None).is_ok(), "{kind}");
            }
        }
        // Who names a file means no other, and is told what is wrong with it.
        let shut = || Err(io::ErrorKind::PermissionDenied.into());
        let error = with("mine.yaml", &shut, Some("mine.yaml")).expect_err("a shut file");
        assert!(error.contains("failed to read mine.yaml: permission denied"), "{error}");
        let error = with("mine.yaml", &latin, Some("mine.yaml")).expect_err("Latin-1");
        assert!(error.starts_with("mine.yaml, line 2: "), "{error}");
    }

    #[test]
    fn files_that_may_not_be_read_are_told_where_no_other_is_found() {
        let around = Surroundings {
            variable: &|_| None,
            file: &|path| match path.starts_with("/etc/openstack") {
                true => Err(io::ErrorKind::PermissionDenied.into()),
                false => Err(io::ErrorKind::NotFound.into()),
            },
        };
        let error = Credentials::find(Some("demo"), None, &around).expect_err("no file");
        assert!(error.contains("looked for clouds.yaml, clouds.yml"), "{error}");
        assert!(error.contains("/etc/openstack/clouds.yaml (permission denied)"), "{error}");
    }

    #[test]
    fn a_variable_that_is_no_text_is_named() {
        use std::os::unix::ffi::OsStringExt;
        for name in ["OS_CLOUD", "OS_CLOUD_NAME", "OS_PASSWORD"] {
            let around = Surroundings {
                variable: &|asked| match asked {
                    _ if asked == name => Some(OsString::from_vec(b"p\xe4ss".to_vec())),
                    "OS_AUTH_URL" => Some("http://k".into()),
                    _ => None,
                },
                file: &|_| Ok(DEMO.into()),
            };
            let error = Credentials::find(None, None, &around).expect_err(name);
            assert!(error.contains(&format!("{name}: found a character that is not in UTF-8")), "{error}");
            assert!(!error.contains("ss"), "{error}");
        }
    }

    #[test]
    fn schemes_are_written_in_any_letters_and_a_scope_of_the_system_is_no_project() {
        let with = |auth: &str| {
            let text = format!("clouds: {{c: {{auth: {{{auth}, username: ada, password: hush}}}}}}");
            find(None, &[("clouds.yaml", &text)], &[])
        };
        let found = with("auth_url: 'HTTPS://Keystone/Path', project_id: p").expect("credentials");
        assert_eq!(found.auth_url, "https://Keystone/Path/v3");
        let error = with("auth_url: 'http://k', system_scope: all").expect_err("no project");
        assert!(error.contains("found `auth.system_scope`, but servers belong to a project"), "{error}");
        for url in ["ftp://k", "k:5000", "http:k"] {
            assert!(with(&format!("auth_url: '{url}', project_id: p")).is_err(), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_filled_in_is_told_by_its_field() {
        for (fields, expected) in [
            ("cacert: '/etc/{nothing}.pem'", "`cacert`: found `{nothing}`, which stands for no field"),
            ("compute_endpoint: 'http://n/{'", "`compute_endpoint`: found a brace that stands alone"),
            ("cert: '}'", "`cert`: found a brace that stands alone"),
            ("password: hush, cacert: '{password}'", "`cacert`: found `{password}`, which stands for"),
            ("cacert: '{auth[username]}'", "`cacert`: found `{auth[username]}`, which stands for"),
        ] {
            let text = format!("clouds: {{c: {{auth: {{auth_url: 'http://k', username: a}}, {fields}}}}}");
            let error = find(None, &[("clouds.yaml", &text)], &[]).expect_err(fields);
            assert!(error.contains(expected) && error.contains("clouds.yaml, cloud c"), "{fields}: {error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }

    /// What openstacksdk makes of files and variables, as `tests/openstack/clouds.py` has recorded it.
    #[test]
    fn files_and_variables_mean_what_they_mean_to_openstacksdk() {
        let recorded = include_str!("../../../tests/openstack/clouds.json");
        let recorded: Value = serde_json::from_str(recorded).expect("JSON");
        let rows = recorded["rows"].as_array().expect("rows");
        assert!(rows.len() > 40, "{}", rows.len());
        let mut wrong = Vec::new();
        for row in rows {
            let texts = |what: &str| -> Vec<(String, String)> {
                let all = row[what].as_object().into_iter().flatten();
                all.map(|(name, text)| {
                    (name.replace('~', "/home/ada"), text.as_str().unwrap_or("").to_owned())
                })
                .collect()
            };
            let encoded = |text: &str| match row["encoding"].as_str() {
                Some("latin-1") => text.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin")).collect(),
                Some("utf-16") => {
                    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                    units.flat_map(u16::to_le_bytes).collect()
                }
                _ => text.as_bytes().to_vec(),
            };
            let shown =
                |named: &Named| json!(named.path.display().to_string().replace("/home/ada", "@HOME@"));
            let (files, mut variables) = (texts("files"), texts("variables"));
            variables.iter_mut().for_each(|(_, text)| *text = text.replace("@HOME@", "/home/ada"));
            variables.push(("HOME".into(), "/home/ada".into()));
            let of = |all: &[(String, String)], name: &str| {
                all.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            };
            let around = Surroundings {
                variable: &|name| of(&variables, name).map(OsString::from),
                file: &|path| match of(&files, &path.display().to_string()) {
                    Some(text) => Ok(encoded(&text)),
                    None => Err(io::ErrorKind::NotFound.into()),
                },
            };
            let found = Credentials::find(row["cloud"].as_str(), None, &around);
            let found = found.map(|found| {
                let own = [&found.tls.certificate, &found.tls.key].map(|named| named.as_ref().map(shown));
                json!({
                    "url": format!("{}/auth/tokens", found.auth_url),
                    "request": found.request(),
                    "region": found.region.clone().unwrap_or_default(),
                    "interfaces": found.interfaces,
                    "overrides": found.overrides,
                    "verify": found.tls.authorities.as_ref().map_or(json!(found.tls.verifies), shown),
                    "certificate": own,
                })
            });
            let expected = &row["means"];
            let is_right = match &found {
                Ok(found) => found == expected,
                Err(_) => expected.is_null(),
            };
            if !is_right {
                wrong.push(format!("{}:\n  openstacksdk {expected}\n  here {found:?}", row["name"]));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
