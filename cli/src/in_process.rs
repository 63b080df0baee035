//! A manager within this process: for `run`, `serve`, and for reading the store of one that has ended.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use manager::{
    Manager, StartError,
    config::Config,
    store::{self, StoreError},
};
use protocol::files::private;
use scheduler::{
    engine::interface::{PlatformLimits, PlatformSpec},
    resources::Resources,
    time::Span,
};

use crate::{
    access::folders::{ACCESS_FILE, show_path},
    client::Client,
    failure::Failure,
};

/// The name of the platform that is this host.
pub const LOCAL_PLATFORM: &str = "local";

/// How long a store may be in use by somebody else before that is an error.
const IN_USE_LIMIT: Duration = Duration::from_secs(5);
const IN_USE_PAUSE: Duration = Duration::from_millis(20);

/// A configuration for a manager in this folder, which is made when it is not there.
///
/// # Errors
/// The folder's path is not UTF-8 or too long: nothing is made then. It cannot be made, or this program not be found again.
pub fn config(folder: PathBuf) -> Result<Config, Failure> {
    refuse_not_utf8(&folder)?;
    store::check_length(&folder).map_err(|error| Failure::bad_input(error.to_string()))?;
    config_of(folder)
}

/// Access files, tokens and batch scripts carry the path of a manager's folder as text.
fn refuse_not_utf8(folder: &Path) -> Result<(), Failure> {
    // The part of the path that exists may have links; the rest is made later.
    let real = store::resolved(folder);
    match real.to_str() {
        Some(_) => Ok(()),
        None => Err(Failure::bad_input(format!(
            "the manager's folder `{}` is not UTF-8; its path stands as text in access files and batch scripts: name \
             another one with --dir, or rename it",
            real.as_os_str().as_encoded_bytes().escape_ascii()
        ))),
    }
}

fn config_of(folder: PathBuf) -> Result<Config, Failure> {
    if folder.exists() && !folder.is_dir() {
        let shown = folder.display();
        return Err(Failure::infrastructure(format!("{shown} is no folder; name another with --dir")));
    }
    private::make_folder(&folder).map_err(|error| Failure::file("make the folder", &folder, &error))?;
    let folder = folder.canonicalize().map_err(|error| Failure::file("use the folder", &folder, &error))?;
    let program =
        std::env::current_exe().map_err(|error| Failure::file("find", Path::new("this program"), &error))?;
    let program = program.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::infrastructure(format!("the path of this program is not UTF-8: {}", program.display()))
    })?;
    let mut config = Config::new(folder, user());
    config.agent_command = vec![program, "agent".to_owned()];
    Ok(config)
}

/// What this host has for tasks.
pub fn host_capacity() -> Resources {
    let node = agent::node::discover(Path::new("/"), &|name| std::env::var(name).ok());
    Resources {
        cores: node.n_cores,
        memory_bytes: node.memory_bytes,
        gpus: u32::try_from(node.gpus.count()).unwrap_or(u32::MAX),
        generic: Default::default(),
        widest: 0,
    }
}

/// This host as a platform with pilots of this capacity.
pub fn local_platform(capacity: Resources, n_pilots_max: u32, idle_timeout: Span) -> PlatformSpec {
    PlatformSpec {
        name: LOCAL_PLATFORM.to_owned(),
        adapter: "local".to_owned(),
        site: Some(String::new()),
        capacity,
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: 0,
        n_pilots_max,
        idle_timeout,
        walltime: None,
        poll_interval: Span::from_secs(10),
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    }
}

/// Starts a manager and a client of it.
///
/// # Errors
/// The manager does not start: its words.
pub async fn start(config: Config) -> Result<(Manager, Client), Failure> {
    let folder = show_path(&config.folder);
    let began = Instant::now();
    let manager = loop {
        match manager::start(config.clone()).await {
            Ok(manager) => break manager,
            // Somebody who only reads is done in a moment.
            Err(StartError::Store(StoreError::InUse { .. })) if began.elapsed() < IN_USE_LIMIT => {
                tokio::time::sleep(IN_USE_PAUSE).await;
            }
            // A mistake of the configuration.
            Err(
                error @ (StartError::Stores(_)
                | StartError::Account(_)
                | StartError::HostName { .. }
                | StartError::Plain { .. }),
            ) => {
                return Err(Failure::bad_input(error.to_string()));
            }
            Err(error) => {
                let what = if config.is_offline {
                    format!("the store in {folder} cannot be read")
                } else {
                    format!("no manager can be started in {folder}")
                };
                return Err(Failure::infrastructure(format!("{what}: {error}{}", remedy(&error))));
            }
        }
    };
    let client = Client::new(manager.access().clone())?;
    let client = if config.is_offline { client } else { client.with_file(config.folder.join(ACCESS_FILE)) };
    Ok((manager, client))
}

/// What to do about a folder that takes no files, where the error does not say it.
fn remedy(error: &StartError) -> &'static str {
    let (StartError::Store(StoreError::Folder { source, .. }) | StartError::File { source, .. }) = error
    else {
        return "";
    };
    match source.kind() {
        // What the program itself refuses says what to do; the system's words do not.
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied if source.raw_os_error().is_some() => {
            "; make the folder writable, or use another one with --dir"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; make room and start again: nothing is lost",
        _ => "",
    }
}

/// Opens the store that a manager left, for reading: no pilot is started, nothing is changed.
///
/// # Errors
/// The store cannot be read, or somebody else has it open.
pub async fn open_store(folder: PathBuf) -> Result<(Manager, Client), Failure> {
    // One of an earlier version may have any name.
    let mut config = config_of(folder)?;
    config.is_offline = true;
    start(config).await
}

/// Amounts of named resources, written `NAME=N`.
///
/// # Errors
/// Anything else.
pub fn offered(flag: &str, offers: &[String]) -> Result<Vec<(String, u64)>, Failure> {
    let amount = |text: &String| {
        let (name, amount) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
        Some((name.to_owned(), amount.parse().ok()?))
    };
    offers
        .iter()
        .map(|text| {
            amount(text).ok_or_else(|| {
                Failure::bad_input(format!("{flag}: found `{text}`; write NAME=N, like licence=4"))
            })
        })
        .collect()
}

fn user() -> String {
    let uid = nix::unistd::Uid::effective();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        // Containers run as users that no file knows.
        Ok(None) | Err(_) => format!("uid-{uid}"),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    use super::*;

    #[test]
    fn folder_whose_path_is_not_utf8_is_refused_before_it_is_made() {
        let here = tempfile::tempdir().unwrap();
        let latin = here.path().join(OsStr::from_bytes(b"s\xe9"));
        std::fs::create_dir(&latin).unwrap();
        std::os::unix::fs::symlink(&latin, here.path().join("link")).unwrap();
        for folder in [latin.join("m"), here.path().join("link/m"), here.path().join("link")] {
            let told = match config(folder.clone()) {
                Err(Failure::BadInput(lines)) => lines.join("\n"),
                Err(_) | Ok(_) => panic!("{}", folder.display()),
            };
            assert!(told.contains(r"s\xe9") && told.contains("is not UTF-8"), "{told}");
        }
        assert!(!latin.join("m").exists());
        std::os::unix::fs::symlink(here.path(), latin.join("back")).unwrap();
        assert!(config(latin.join("back/m")).is_ok(), "it leads to a path of text");
    }

    #[test]
    fn folder_whose_path_is_too_long_for_a_store_is_refused_before_it_is_made() {
        let here = tempfile::tempdir().unwrap();
        let mut folder = here.path().to_owned();
        (0..5).for_each(|_| folder.push("d".repeat(100)));
        std::fs::create_dir_all(&folder).unwrap();
        let Err(Failure::BadInput(told)) = config(folder.join(".pilotfish")) else { panic!("{folder:?}") };
        assert!(told.concat().contains("choose another folder with --dir"), "{told:?}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }
}
