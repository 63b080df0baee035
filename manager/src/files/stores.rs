//! Stores of objects and file servers that jobs name. What opens them stays here: a pilot gets an address that is signed
//! for one file and some minutes, or the file itself through the manager where there are no such addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapters::transport::{Asker, Sftp, SshError};
use opendal::{Operator, services};
use profiles::store::{StoreKind, StoreProfile};
use protocol::files::objects::{StoreAccess, StoreView};
use reqwest::Url;
use tokio::time::timeout;

use crate::files::web_store::Web;

/// For so long an address is signed: a transfer that has begun goes on.
const SIGNED_FOR: Duration = Duration::from_secs(15 * 60);
/// Who asks which stores wait for a person does not wait longer for each.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// No secret is longer.
const SECRET_BYTES_MAX: usize = 4096;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoresError {
    /// Its secret cannot be read.
    #[error("store {store:?}: failed to read {}: {source}", path.display())]
    File {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its secret is none.
    #[error("store {store:?}: found {found} in {}; {expected}", path.display())]
    Secret {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        found: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// What is said of it cannot be.
    #[error("store {store:?}: {source}")]
    Setup {
        /// The store.
        store: String,
        /// Why.
        #[source]
        source: Box<opendal::Error>,
    },
    /// What is said of a server of HTTP cannot be.
    #[error("store {store:?}: {what}")]
    Web {
        /// The store.
        store: String,
        /// Why.
        what: String,
    },
    /// A second one.
    #[error("found a second store of the name {0:?}; name them differently")]
    SameName(String),
}

/// A store's host asks for something that only a person can give.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "store {store} waits for a person to log in: run `pilotfish platform login {store}` in a terminal of the manager's \
     host; {why}"
)]
pub struct StoreWaits {
    /// The store.
    pub store: String,
    /// What the host says.
    pub why: SshError,
}

/// All stores that the configuration names. Cheap to clone.
#[derive(Clone, Default)]
pub struct Stores {
    all: Arc<BTreeMap<String, Arc<Store>>>,
}

/// One of them.
pub struct Store {
    profile: StoreProfile,
    way: Way,
    /// Whether the log has said that its host asks for a person.
    is_told: AtomicBool,
}

enum Way {
    Signed(Operator),
    Host(Box<Sftp>),
    Web(Box<Web>),
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl Stores {
    /// Reads their secrets; connects to none.
    ///
    /// # Errors
    /// See [`StoresError`].
    pub fn open(profiles: &[StoreProfile], asker: &Arc<dyn Asker>) -> Result<Stores, StoresError> {
        let mut all = BTreeMap::new();
        for profile in profiles {
            let store = Store {
                way: way(profile, asker)?,
                profile: profile.clone(),
                is_told: AtomicBool::new(false),
            };
            if all.insert(profile.name.clone(), Arc::new(store)).is_some() {
                return Err(StoresError::SameName(profile.name.clone()));
            }
        }
        Ok(Stores { all: Arc::new(all) })
    }

    /// What a user's jobs may name.
    pub fn views(&self, user: &str) -> Vec<StoreView> {
        self.for_user(user).map(Store::view).collect()
    }

    /// Those whose hosts may ask for a person, by their names, and whether they do now: of all stores, or of those that
    /// this user's jobs may name. The hosts are not asked.
    pub async fn waiting(&self, user: Option<&str>) -> Vec<(String, bool)> {
        let mut waiting = Vec::new();
        for store in self.all.values().filter(|store| user.is_none_or(|user| store.profile.is_for(user))) {
            let Some(host) = store.host() else { continue };
            // It takes long while somebody logs in.
            let found = timeout(LOOK_LIMIT, host.waits_for_person()).await;
            if let Ok(why) = &found {
                store.note_waiting(why.as_ref());
            }
            waiting.push((store.profile.name.clone(), !matches!(found, Ok(None))));
        }
        waiting
    }

    /// The store of that name, if this user's jobs may name it.
    pub fn find(&self, name: &str, user: &str) -> Option<Arc<Store>> {
        self.all.get(name).filter(|store| store.profile.is_for(user)).cloned()
    }

    /// What is wrong with the names of stores in a user's job.
    pub fn problem(&self, named: &BTreeSet<&str>, user: &str) -> Option<String> {
        let unknown = named.iter().find(|name| self.find(name, user).is_none())?;
        let known: Vec<&str> = self.for_user(user).map(|store| store.profile.name.as_str()).collect();
        let right = match known.is_empty() {
            true => format!("the manager's configuration names none for {user}"),
            false => format!("those for {user} are {}", known.join(", ")),
        };
        Some(format!("found store `{unknown}` in the job's files; {right}"))
    }

    fn for_user(&self, user: &str) -> impl Iterator<Item = &Store> {
        self.all.values().map(|store| &**store).filter(move |store| store.profile.is_for(user))
    }
}

impl Store {
    fn view(&self) -> StoreView {
        StoreView {
            name: self.profile.name.clone(),
            kind: self.profile.kind.word().to_owned(),
            at: self.profile.at(),
            is_through_manager: self.is_through_manager(),
        }
    }

    /// Whether its files pass through the manager.
    pub fn is_through_manager(&self) -> bool {
        !matches!(self.way, Way::Signed(_))
    }

    /// An address by which somebody without keys reaches a file for some minutes; `None`: there is none.
    ///
    /// # Errors
    /// Nothing can be signed.
    pub async fn signed(&self, path: &str, access: StoreAccess) -> Result<Option<String>, String> {
        let Way::Signed(operator) = &self.way else { return Ok(None) };
        let signed = match access {
            StoreAccess::Read => operator.presign_read(path, SIGNED_FOR).await,
            StoreAccess::Write => operator.presign_write(path, SIGNED_FOR).await,
        };
        let signed = signed.map_err(|error| format!("store {}: {error}", self.profile.name))?;
        Ok(Some(signed.uri().to_string()))
    }

    /// Looks again whether there is a connection to its host, if that has asked for a person.
    ///
    /// # Errors
    /// It does so still.
    pub async fn ready(&self) -> Result<(), StoreWaits> {
        let Some(host) = self.host() else { return Ok(()) };
        match host.connect_again().await {
            Err(error) => self.waits(&error).map_or(Ok(()), Err),
            Ok(()) => {
                self.note_waiting(host.waited_for_person().as_ref());
                Ok(())
            }
        }
    }

    /// Whether its host asks for a person by this.
    pub fn waits(&self, error: &SshError) -> Option<StoreWaits> {
        if !error.needs_person() {
            return None;
        }
        self.note_waiting(Some(error));
        Some(StoreWaits { store: self.profile.name.clone(), why: error.clone() })
    }

    /// Says in the log when it begins to wait for a person, and when it does so no more.
    fn note_waiting(&self, why: Option<&SshError>) {
        let (store, was_told) = (&self.profile.name, self.is_told.swap(why.is_some(), Ordering::Relaxed));
        match why {
            Some(why) if !was_told => {
                tracing::warn!(store, %why, "the store waits for a person: run `pilotfish platform login {store}`");
            }
            None if was_told => tracing::info!(store, "the connection is there again"),
            Some(_) | None => {}
        }
    }

    /// The host that has its files, if it is one, …
    pub fn host(&self) -> Option<&Sftp> {
        match &self.way {
            Way::Host(host) => Some(host),
            Way::Signed(_) | Way::Web(_) => None,
        }
    }

    /// The server of HTTP that has its files, if it is one, and a file's address there.
    pub fn web(&self, path: &str) -> Option<(&Web, Url)> {
        match &self.way {
            Way::Web(web) => Some((web, web.address(&self.profile.folder, path))),
            Way::Signed(_) | Way::Host(_) => None,
        }
    }

    /// … and where a file is there.
    pub fn path_on_host(&self, path: &str) -> PathBuf {
        Path::new(&self.profile.folder).join(path)
    }
}

fn way(profile: &StoreProfile, asker: &Arc<dyn Asker>) -> Result<Way, StoresError> {
    let setup = |error| StoresError::Setup { store: profile.name.clone(), source: Box::new(error) };
    let operator = match &profile.kind {
        StoreKind::Sftp { ssh, ssh_config, transport } => {
            let host = Sftp::new(ssh.clone(), ssh_config.clone(), *transport, asker.clone());
            return Ok(Way::Host(Box::new(host)));
        }
        StoreKind::S3 { endpoint, region, bucket, keys } => {
            let mut bucket = services::S3::default().bucket(bucket).region(region).root(&profile.folder);
            if let Some(endpoint) = endpoint {
                bucket = bucket.endpoint(endpoint);
            }
            if let Some((key, file)) = keys {
                let secret = secret(&profile.name, file)?;
                bucket = bucket.access_key_id(key).secret_access_key(&secret).disable_config_load();
            }
            Operator::new(bucket)
        }
        StoreKind::Http { endpoint, user, secret_file } => {
            let secret = secret_file.as_ref().map(|file| secret(&profile.name, file)).transpose()?;
            let web = Web::new(&profile.name, endpoint, user.clone(), secret);
            let web = web.map_err(|what| StoresError::Web { store: profile.name.clone(), what })?;
            return Ok(Way::Web(Box::new(web)));
        }
        StoreKind::Swift { endpoint, container, secret_file } => {
            let container = services::Swift::default().endpoint(endpoint).container(container);
            let key = secret(&profile.name, secret_file)?;
            Operator::new(container.root(&profile.folder).temp_url_key(&key))
        }
    };
    operator.map(Way::Signed).map_err(setup)
}

/// What a file holds that nobody else may read, without line ends.
fn secret(store: &str, path: &Path) -> Result<String, StoresError> {
    let failed = |source| StoresError::File { store: store.to_owned(), path: path.to_owned(), source };
    let wrong = |found, expected| StoresError::Secret {
        store: store.to_owned(),
        path: path.to_owned(),
        found,
        expected,
    };
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(wrong("a secret that others may read", "chmod 600"));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    match text.trim() {
        "" => Err(wrong("nothing", "write the secret into it")),
        secret if secret.len() > SECRET_BYTES_MAX || secret.contains('\n') => {
            Err(wrong("more than a line", "write the secret alone into it"))
        }
        secret => Ok(secret.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, sync::Arc};

    use adapters::transport::{Asker, Nobody};
    use protocol::files::objects::StoreAccess;

    use super::Stores;

    fn open(text: &str) -> Result<Stores, String> {
        let asker: Arc<dyn Asker> = Arc::new(Nobody);
        Stores::open(&serde_yaml::from_str::<Vec<_>>(text).unwrap(), &asker)
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn addresses_are_signed_and_do_not_tell_the_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "very-secret\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let file = file.display();
        let stores = open(&format!(
            "- {{name: bucket, kind: s3, endpoint: 'http://h:9', bucket: b, access_key: k, secret_file: {file}, folder: f}}\n\
             - {{name: box, kind: swift, endpoint: 'http://h:9/v1/AUTH_a', container: c, secret_file: {file}, users: [ann]}}\n"
        ));
        let stores = stores.unwrap();
        for (name, expected) in
            [("bucket", "http://h:9/b/f/x/a%20b?"), ("box", "http://h:9/v1/AUTH_a/c/x/a%20b?")]
        {
            let store = stores.find(name, "ann").unwrap();
            let (read, write) = (
                store.signed("x/a b", StoreAccess::Read).await,
                store.signed("x/a b", StoreAccess::Write).await,
            );
            let (read, write) = (read.unwrap().unwrap(), write.unwrap().unwrap());
            assert!(read.starts_with(expected) && write.starts_with(expected), "{read} {write}");
            assert_ne!(read, write, "who may read may not write");
            assert!(!read.contains("very-secret"), "{read}");
        }
        assert!(stores.find("box", "bob").is_none());
        assert_eq!(stores.views("bob").len(), 1);
        let named = BTreeSet::from(["bucket", "box"]);
        assert_eq!(stores.problem(&named, "ann"), None);
        let said = stores.problem(&named, "bob").unwrap();
        assert_eq!(said, "found store `box` in the job's files; those for bob are bucket");
        assert!(!format!("{stores:?}").contains("secret"));
    }

    #[test]
    fn a_secret_is_a_line_that_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let store =
            format!("- {{name: b, kind: s3, bucket: b, access_key: k, secret_file: {}}}", file.display());
        assert!(open(&store).unwrap_err().contains("failed to read"));
        for (text, mode, expected) in [
            ("s", 0o644, "found a secret that others may read"),
            (" \n", 0o600, "found nothing"),
            ("s\nt", 0o600, "found more than a line"),
        ] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let said = open(&store).unwrap_err();
            assert!(said.contains(expected), "{said}");
        }
        let twice = "- {name: a, kind: sftp, ssh: h}\n- {name: a, kind: sftp, ssh: h}";
        assert!(open(twice).unwrap_err().contains("a second store"));
    }
}
