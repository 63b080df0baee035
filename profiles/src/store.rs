//! File stores that `manager.yaml` defines for jobs.

use std::path::PathBuf;

use protocol::{
    job::{is_store_name, safe_relative},
    net::address::{has_user, shown},
};
use serde::Deserialize;

use crate::site::{self, SshProgram};

/// The fields of a file store.
pub const FIELDS: [&str; 14] = [
    "name",
    "kind",
    "users",
    "folder",
    "endpoint",
    "region",
    "bucket",
    "access_key",
    "container",
    "secret_file",
    "user",
    "ssh",
    "ssh_config",
    "transport",
];

/// A file store that jobs may use.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "StoreForm")]
pub struct StoreProfile {
    /// The name in `store://NAME/PATH`.
    pub name: String,
    /// Users whose jobs may use the store; `None`: all users.
    pub users: Option<Vec<String>>,
    /// Folder above all paths; empty: the top of the store.
    pub folder: String,
    /// Its kind and address.
    pub kind: StoreKind,
}

/// The kind of a file store, and how it is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// A bucket of an S3 service.
    S3 {
        /// Address of the service, `https://…`; `None`: Amazon's.
        endpoint: Option<String>,
        /// The bucket's region.
        region: String,
        /// The bucket's name.
        bucket: String,
        /// The access key and the file with the secret key; `None`: from the manager's environment (`AWS_…`).
        keys: Option<(String, PathBuf)>,
    },
    /// A container of OpenStack Swift.
    Swift {
        /// URL of the account: `https://…/v1/AUTH_…`.
        endpoint: String,
        /// The container's name.
        container: String,
        /// File with the account's Temp-URL-Key.
        secret_file: PathBuf,
    },
    /// An HTTP server, with or without authentication.
    Http {
        /// URL of its top folder, `https://…`.
        endpoint: String,
        /// The user whose password is the secret; `None`: the secret is a token.
        user: Option<String>,
        /// File with the password or the token; `None`: no authentication.
        secret_file: Option<PathBuf>,
    },
    /// The files of a host, by SFTP.
    Sftp {
        /// The host: `[user@]host[:port]`.
        ssh: String,
        /// Configuration file of OpenSSH; `None`: `~/.ssh/config`.
        ssh_config: Option<String>,
        /// The SSH client; `None`: the program `ssh` if this host has one.
        transport: Option<SshProgram>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    S3,
    Swift,
    Http,
    Sftp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoreForm {
    name: String,
    kind: Kind,
    users: Option<Vec<String>>,
    folder: Option<String>,
    endpoint: Option<String>,
    region: Option<String>,
    bucket: Option<String>,
    access_key: Option<String>,
    container: Option<String>,
    secret_file: Option<PathBuf>,
    user: Option<String>,
    ssh: Option<String>,
    ssh_config: Option<String>,
    transport: Option<SshProgram>,
}

impl StoreKind {
    /// Returns the kind's name in `manager.yaml`.
    pub fn word(&self) -> &'static str {
        match self {
            StoreKind::S3 { .. } => "s3",
            StoreKind::Swift { .. } => "swift",
            StoreKind::Http { .. } => "http",
            StoreKind::Sftp { .. } => "sftp",
        }
    }
}

impl StoreProfile {
    /// Returns the store's address, for messages.
    pub fn at(&self) -> String {
        let top = match &self.kind {
            StoreKind::S3 { endpoint, bucket, .. } => {
                format!("{}/{bucket}", endpoint.as_deref().unwrap_or("s3:/"))
            }
            StoreKind::Swift { endpoint, container, .. } => format!("{endpoint}/{container}"),
            StoreKind::Http { endpoint, .. } => endpoint.clone(),
            StoreKind::Sftp { ssh, .. } => format!("sftp://{ssh}"),
        };
        let slash = if self.folder.is_empty() || self.folder.starts_with('/') { "" } else { "/" };
        format!("{top}{slash}{}", self.folder)
    }

    /// Returns whether jobs of `user` may use the store.
    pub fn is_for(&self, user: &str) -> bool {
        self.users.as_ref().is_none_or(|users| users.iter().any(|held| held == user))
    }
}

impl TryFrom<StoreForm> for StoreProfile {
    type Error = String;

    fn try_from(form: StoreForm) -> Result<StoreProfile, String> {
        let name = form.name.clone();
        if !is_store_name(&name) {
            return Err(format!("found name `{name}`; write 1 to 64 letters, digits, `-` and `_`"));
        }
        form.check_fields()?;
        let folder = form.folder.unwrap_or_default();
        // On a host the folder may be absolute; a relative one is below the home directory.
        let below = if form.kind == Kind::Sftp { folder.trim_start_matches('/') } else { &folder };
        if !below.is_empty() && safe_relative(below).is_none() {
            let kind = if form.kind == Kind::Sftp { "a path" } else { "a path that does not begin with `/`" };
            return Err(format!(
                "found folder `{folder}` of `{name}`; write {kind}, without `..` and `/` at the end"
            ));
        }
        let needed = |field: &str, value: Option<String>| {
            value.ok_or_else(|| format!("found no `{field}`; it is needed"))
        };
        let address = |value: String| match value.starts_with("https://") || value.starts_with("http://") {
            true if has_user(&value) => Err(format!(
                "found endpoint `{}` of `{name}` with a user name or a password, which `pilotfish stores` would show; take \
                 them out",
                shown(&value)
            )),
            true => Ok(value.trim_end_matches('/').to_owned()),
            false => Err(format!(
                "found endpoint `{}` of `{name}`; write an address like https://…",
                shown(&value)
            )),
        };
        let kind = match form.kind {
            Kind::S3 => StoreKind::S3 {
                endpoint: form.endpoint.map(address).transpose()?,
                region: form.region.unwrap_or_else(|| "us-east-1".to_owned()),
                bucket: needed("bucket", form.bucket)?,
                keys: match (form.access_key, form.secret_file) {
                    (Some(key), Some(file)) => Some((key, file)),
                    (None, None) => None,
                    _ => {
                        return Err(format!(
                            "found one of `access_key` and `secret_file` of `{name}`; write both, or neither where \
                             the manager's environment has AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                        ));
                    }
                },
            },
            Kind::Swift => StoreKind::Swift {
                endpoint: address(needed("endpoint", form.endpoint)?)?,
                container: needed("container", form.container)?,
                secret_file: form.secret_file.ok_or_else(|| {
                    format!("found no `secret_file` of `{name}`; name a file with its Temp-URL-Key")
                })?,
            },
            Kind::Http => {
                if form.user.is_some() && form.secret_file.is_none() {
                    return Err(format!(
                        "found `user` of `{name}` and no `secret_file`; name a file with the user's password"
                    ));
                }
                // They would be part of each file's address.
                let plain = |value: &String| !value.contains(['?', '#']);
                let endpoint = Some(address(needed("endpoint", form.endpoint)?)?).filter(plain);
                StoreKind::Http {
                    endpoint: endpoint.ok_or_else(|| {
                        format!("found an endpoint of `{name}` with `?` or `#`; write an address like https://…/folder")
                    })?,
                    user: form.user,
                    secret_file: form.secret_file,
                }
            }
            Kind::Sftp => StoreKind::Sftp {
                ssh: needed("ssh", form.ssh).and_then(|ssh| site::host::checked(&ssh))?,
                ssh_config: form.ssh_config,
                transport: form.transport,
            },
        };
        Ok(StoreProfile { name: form.name, users: form.users, folder, kind })
    }
}

impl StoreForm {
    /// Refuses fields that only other kinds of stores have.
    fn check_fields(&self) -> Result<(), String> {
        let said = [
            ("endpoint", self.endpoint.is_some(), &[Kind::S3, Kind::Swift, Kind::Http][..]),
            ("region", self.region.is_some(), &[Kind::S3]),
            ("bucket", self.bucket.is_some(), &[Kind::S3]),
            ("access_key", self.access_key.is_some(), &[Kind::S3]),
            ("container", self.container.is_some(), &[Kind::Swift]),
            ("secret_file", self.secret_file.is_some(), &[Kind::S3, Kind::Swift, Kind::Http]),
            ("user", self.user.is_some(), &[Kind::Http]),
            ("ssh", self.ssh.is_some(), &[Kind::Sftp]),
            ("ssh_config", self.ssh_config.is_some(), &[Kind::Sftp]),
            ("transport", self.transport.is_some(), &[Kind::Sftp]),
        ];
        let wrong = said.iter().find(|(_, is_said, kinds)| *is_said && !kinds.contains(&self.kind));
        match wrong {
            Some((field, ..)) => Err(format!(
                "found `{field}` of `{}`; stores of another kind have it: take it out",
                self.name
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StoreKind, StoreProfile};

    fn read(text: &str) -> Result<StoreProfile, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn each_kind_has_its_fields() {
        let bucket = read("{name: a, kind: s3, bucket: b, folder: runs/x, users: [ann]}").expect("a store");
        assert_eq!((bucket.at().as_str(), bucket.kind.word()), ("s3://b/runs/x", "s3"));
        assert!(bucket.is_for("ann") && !bucket.is_for("bob"));
        let swift = "{name: a, kind: swift, endpoint: 'https://c/v1/AUTH_a/', container: b, secret_file: k}";
        assert_eq!(read(swift).expect("a store").at(), "https://c/v1/AUTH_a/b");
        let web = "{name: a, kind: http, endpoint: 'https://c/sets/', folder: b, user: ada, secret_file: k}";
        assert_eq!(read(web).expect("a store").at(), "https://c/sets/b");
        assert!(read("{name: a, kind: http, endpoint: 'https://c'}").is_ok());
        let host = read("{name: a, kind: sftp, ssh: ann@host, folder: /data}").expect("a store");
        assert!(matches!(host.kind, StoreKind::Sftp { .. }) && host.is_for("bob"));
        assert_eq!(host.at(), "sftp://ann@host/data");
    }

    #[test]
    fn mistakes_say_what_is_right() {
        for (text, expected) in [
            ("{name: a b, kind: s3, bucket: b}", "found name `a b`; write 1 to 64 letters"),
            ("{name: a, kind: s3}", "found no `bucket`; it is needed"),
            ("{name: a, kind: s3, bucket: b, access_key: c}", "write both, or neither"),
            ("{name: a, kind: s3, bucket: b, folder: /c}", "found folder `/c` of `a`"),
            ("{name: a, kind: s3, bucket: b, endpoint: c}", "found endpoint `c` of `a`; write an address"),
            (
                "{name: a, kind: s3, bucket: b, endpoint: 'https://ann:hush@c'}",
                "found endpoint `https://…@c` of `a` with a user name or a password",
            ),
            (
                "{name: a, kind: swift, endpoint: 'http://c', container: b}",
                "name a file with its Temp-URL-Key",
            ),
            (
                "{name: a, kind: sftp, ssh: h, bucket: b}",
                "found `bucket` of `a`; stores of another kind have it",
            ),
            ("{name: a, kind: sftp, ssh: h, folder: /c/../d}", "found folder `/c/../d` of `a`"),
            ("{name: a, kind: sftp, ssh: 'ann:hush@h'}", "found `ann:…@h` with a password"),
            (
                "{name: a, kind: http, endpoint: 'http://c', user: ann}",
                "name a file with the user's password",
            ),
            ("{name: a, kind: http, endpoint: 'http://c/?x=y'}", "with `?` or `#`"),
            ("{name: a, kind: http, endpoint: 'https://ann:hush@c'}", "with a user name or a password"),
            ("{name: a, kind: s3, bucket: b, user: ann}", "found `user` of `a`; stores of another kind"),
        ] {
            let said = read(text).expect_err("a mistake");
            assert!(said.contains(expected) && !said.contains("hush"), "{text}: {said}");
        }
    }
}
