//! Finding a manager: by its access file, in the folders where managers are.

pub mod folders;
pub mod last;

use std::{
    fmt::{self, Write as _},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use protocol::api::AccessFile;

use crate::{
    client::{Client, ClientError},
    failure::{Failure, words},
    show::quote::quoted,
};
use folders::{ACCESS_FILE, RUN_FOLDER, STORE_FILE, home_folder, shell_path, show_path};
use last::LastJob;

/// The version of the access file that is known here.
const ACCESS_VERSION: u32 = 1;
/// The manager that is meant when none is named.
pub const DEFAULT_NAME: &str = "default";
/// A living manager says who it is within this time.
const PROBE_TIME_LIMIT: Duration = Duration::from_secs(5);

/// Which manager is meant.
#[derive(Args, Clone, Debug, Default)]
pub struct Where {
    /// The manager's folder [default: that of this folder's last job, else the one that is running; environment: PILOTFISH_DIR]
    #[arg(long, value_name = "FOLDER", help_heading = "Which manager", conflicts_with = "manager")]
    pub dir: Option<PathBuf>,
    /// The manager's name, as given to `pilotfish serve --name`
    #[arg(long, value_name = "NAME", help_heading = "Which manager")]
    pub manager: Option<String>,
}

impl Where {
    /// The same flags again, with a blank before them: for commands that are shown.
    pub fn flags(&self) -> String {
        match (&self.dir, &self.manager) {
            (Some(dir), _) => format!(" --dir {}", quoted(&dir.display().to_string())),
            (None, Some(name)) => format!(" --manager {}", quoted(name)),
            (None, None) => String::new(),
        }
    }
}

/// What is in a folder.
#[derive(Debug)]
pub enum Standing {
    /// No access file.
    Nothing,
    /// An access file that leads nowhere, and why.
    Stale(String),
    /// An access file that leads to a manager that does not answer as it should, and why.
    Unusable(String),
    /// A manager that answers.
    Live(Box<Client>),
}

/// What the search of a command that names jobs came to.
pub enum Found {
    /// A manager that answers, and its folder.
    Live(Box<Client>, PathBuf),
    /// Nobody, but a store that can be read.
    Store(Left),
}

/// A store whose manager is not running.
#[derive(Debug, PartialEq, Eq)]
pub struct Left {
    /// The manager's folder.
    pub folder: PathBuf,
    /// The name of a manager that runs elsewhere, which might be meant instead.
    pub other: Option<String>,
}

impl Left {
    /// Why nothing can be changed or waited for here, with the ways on.
    pub fn refusal(&self) -> Failure {
        let shown = show_path(&self.folder);
        let ways = self.ways();
        Failure::infrastructure(format!(
            "no manager is running in {shown}, whose jobs are meant here; {ways}"
        ))
    }

    /// What has its jobs go on.
    pub fn ways(&self) -> String {
        let mut ways =
            format!("start one with `pilotfish serve --dir {}`", quoted(&self.folder.display().to_string()));
        if self.folder == Path::new(RUN_FOLDER) {
            ways.push_str(
                ", or repeat the `pilotfish run` of a job of this folder to go on with it (with --retry-failed for what \
                 failed)",
            );
        }
        if let Some(name) = &self.other {
            // The same number is another job there.
            let _ =
                write!(ways, "; the manager `{name}`, which is running, has other jobs (--manager {name})");
        }
        ways
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no manager is running in {}; reading its store", show_path(&self.folder))?;
        match &self.other {
            Some(name) => write!(f, " (the manager `{name}` is running: --manager {name})"),
            None => Ok(()),
        }
    }
}

/// A manager that answers, and how other commands find it.
pub struct Living {
    /// The way to it.
    pub client: Client,
    /// Its folder.
    pub folder: PathBuf,
    /// The flags with which other commands find it.
    pub place: Where,
}

/// The manager that is meant and answers, for commands that name no job and change nothing. Says which it is in the
/// folder of a run that is over.
///
/// # Errors
/// None does: says where was looked, and what to do.
pub async fn find_live(place: &Where) -> Result<Living, Failure> {
    let (folder, client) = find_home(place).await?;
    Ok(living(place, folder, *client, None))
}

/// The same for what changes the manager. One that this folder has not used does not stand in for the one that it has.
///
/// # Errors
/// None answers, or only one that was not used last: says what to do.
pub async fn find_live_to_change(place: &Where) -> Result<Living, Failure> {
    let (folder, client) = find_home(place).await?;
    match meant_instead(place, &folder, &client)? {
        Some(meant) => Err(refusal_of_stranger(&meant, &folder)),
        None => Ok(living(place, folder, *client, None)),
    }
}

/// The same for what takes jobs. After a run, which takes none when it is over, the default manager is meant.
///
/// # Errors
/// As there.
pub async fn find_live_for_jobs(place: &Where) -> Result<Living, Failure> {
    let (folder, client) = find_home(place).await?;
    let meant = meant_instead(place, &folder, &client)?;
    let is_default = home_folder().is_some_and(|home| folder == home.join(DEFAULT_NAME));
    match meant.filter(|meant| !is_default || !is_of_run(meant)) {
        Some(meant) => Err(refusal_of_stranger(&meant, &folder)),
        None => {
            let run = last::recall().filter(|last| is_of_run(last));
            Ok(living(place, folder, *client, run))
        }
    }
}

/// A manager that was found, and how it is found again. Says which it is where another one was expected: that of a run
/// here, or of the `run` that this folder used last.
fn living(place: &Where, folder: PathBuf, client: Client, run: Option<PathBuf>) -> Living {
    let is_named = !matches!(named_folder(place), Ok(None));
    let here = Some(PathBuf::from(RUN_FOLDER)).filter(|run| run.join(STORE_FILE).is_file());
    let Some(run) = run.or(here).filter(|run| !is_named && *run != folder) else {
        return Living { client, folder, place: place.clone() };
    };
    let place = flags_of(&folder);
    let used = name_for_users(&folder, &place);
    crate::show::say(&format!("no manager is running in {}; using {used}", show_path(&run)));
    Living { client, folder, place }
}

/// The manager that the last job of this folder went to, or else that of the run that is kept here, when that is not
/// the one that was found; `None`: it is, or another one was named.
fn meant_instead(place: &Where, folder: &Path, found: &Client) -> Result<Option<PathBuf>, Failure> {
    if named_folder(place)?.is_some() {
        return Ok(None);
    }
    let run = Some(PathBuf::from(RUN_FOLDER)).filter(|run| run.join(STORE_FILE).is_file());
    let is_found = |meant: &Path| {
        let is_same =
            meant.canonicalize().is_ok_and(|meant| folder.canonicalize().is_ok_and(|folder| meant == folder));
        is_same || is_way_to(meant, found)
    };
    Ok(last::recall().or(run).filter(|meant| !is_found(meant)))
}

/// Whether a folder has a user's way to this manager.
fn is_way_to(folder: &Path, found: &Client) -> bool {
    let place = |access: &AccessFile| (access.url.clone(), access.certificate_sha256.clone());
    access_of(folder).is_some_and(|access| access.pid == 0 && place(&access) == place(found.access()))
}

/// Whether the manager of this folder's last job, which is there, was that of a run.
fn is_of_run(meant: &Path) -> bool {
    meant == Path::new(RUN_FOLDER) || last::was_a_run()
}

fn refusal_of_stranger(meant: &Path, folder: &Path) -> Failure {
    let (flags, shown) = (flags_of(folder), show_path(meant));
    let other = name_for_users(folder, &flags);
    let flags = flags.flags();
    // A user's way to a manager elsewhere, which may well run.
    if access_of(meant).is_some_and(|access| access.pid == 0) {
        let meant = flags_of(meant).flags();
        return Failure::bad_input(format!(
            "the last job of this folder went another way, by {shown}, than to {other}; say which is meant with{meant} \
             or{flags}"
        ));
    }
    Failure::infrastructure(format!(
        "no manager is running in {shown}, where the last job of this folder went; if you mean {other}, which is running, \
         say so with{flags}"
    ))
}

/// The access file of a folder, if it can be read.
fn access_of(folder: &Path) -> Option<AccessFile> {
    let path = folder.join(ACCESS_FILE);
    // A pipe would be waited for.
    let text = path.is_file().then(|| fs::read(path).ok()).flatten()?;
    serde_json::from_slice(&text).ok()
}

/// The flags that name the manager in a folder. Only those in `~/.pilotfish` are found by a name.
fn flags_of(folder: &Path) -> Where {
    let has_name = folder.parent().is_some_and(|parent| Some(parent) == home_folder().as_deref());
    match name_of(folder).filter(|_| has_name) {
        Some(name) => Where { dir: None, manager: Some(name) },
        None => Where { dir: Some(folder.to_owned()), manager: None },
    }
}

/// The manager that these flags name, in a sentence.
fn name_for_users(folder: &Path, flags: &Where) -> String {
    match &flags.manager {
        Some(name) => format!("the manager `{name}`"),
        None => format!("the one in {}", show_path(folder)),
    }
}

/// The folder of a manager that answers, and the way to it.
///
/// # Errors
/// None does: says where was looked, and what to do.
pub async fn find_home(place: &Where) -> Result<(PathBuf, Box<Client>), Failure> {
    let mut looked = Vec::new();
    search(place, &mut looked).await?.ok_or_else(|| not_found(place, &looked))
}

/// The manager whose jobs are meant, or the store it left. Commands that read and commands that
/// change have the same rule, so that a job's number means the same job to both.
///
/// # Errors
/// Neither is there, or several can be meant: says where was looked, and what to do.
pub async fn find(place: &Where) -> Result<Found, Failure> {
    let mut looked = Vec::new();
    let named = named_folder(place)?;
    if named.is_none()
        && let Some(found) = find_here(&mut looked).await?
    {
        return Ok(found);
    }
    if let Some((folder, client)) = search(place, &mut looked).await? {
        return Ok(Found::Live(client, folder));
    }
    // Nothing of this folder is there: then the default manager's store.
    let folder = named.or_else(|| home_folder().map(|home| home.join(DEFAULT_NAME)));
    match folder.filter(|folder| folder.join(STORE_FILE).is_file()) {
        Some(folder) => Ok(Found::Store(Left { folder, other: None })),
        None => Err(not_found(place, &looked)),
    }
}

/// The manager that the last job of this folder went to, or the run that is kept here; `None`: neither.
///
/// # Errors
/// It cannot be told which of two is meant, or the one that is meant is gone: an older job would be taken for
/// the last one.
async fn find_here(looked: &mut Vec<String>) -> Result<Option<Found>, Failure> {
    let run = PathBuf::from(RUN_FOLDER);
    let has_run = run.join(STORE_FILE).is_file();
    let last = last::recall();
    // A run that was used last and was removed is gone as any other manager is.
    let Some(folder) = last.clone().filter(|folder| *folder != run || !has_run) else {
        if !has_run {
            return Ok(None);
        }
        if let Some(client) = look(&run, looked).await? {
            return Ok(Some(Found::Live(client, run)));
        }
        let other = living_name().await;
        return match (last, other) {
            (None, Some(name)) => Err(Failure::bad_input(format!(
                "two managers can be meant here: the run in {}, and the manager `{name}`, which is running; \
                 say which with --dir {RUN_FOLDER} or --manager {name}",
                show_path(&run)
            ))),
            (_, other) => Ok(Some(Found::Store(Left { folder: run, other }))),
        };
    };
    let shown = show_path(&folder);
    let client = look(&folder, looked).await?;
    let is_gone = client.is_none() && !folder.join(STORE_FILE).is_file();
    if is_gone {
        let way_on = match (has_run, living_name().await) {
            (true, _) => format!("--dir {RUN_FOLDER} shows the run that is kept here"),
            (false, Some(name)) => format!("--manager {name} means the manager `{name}`, which is running"),
            (false, None) => "name the one that is meant with --manager or --dir".to_owned(),
        };
        return Err(Failure::bad_input(format!(
            "the last job of this folder went to the manager in {shown}, which is gone; {way_on}"
        )));
    }
    if has_run {
        crate::show::say(&format!(
            "the last job of this folder went to the manager in {shown}, which is meant here; --dir {RUN_FOLDER} means the run"
        ));
    }
    Ok(Some(match client {
        Some(client) => Found::Live(client, folder),
        None => Found::Store(Left { folder, other: living_name().await }),
    }))
}

/// The manager whose jobs are meant and that can change them.
///
/// # Errors
/// It is not running, though its store may be there: says what to do.
pub async fn find_for_change(place: &Where) -> Result<Client, Failure> {
    find_for_jobs(place).await.map(|(client, _)| client)
}

/// The same for what only operators may do. The last job of this folder may have gone there by a user's access file:
/// if the manager's own is at hand, that one is used.
///
/// # Errors
/// As there.
pub async fn find_for_operator(place: &Where) -> Result<Client, Failure> {
    let (client, folder) = find_for_jobs(place).await?;
    if named_folder(place)?.is_some() || folder.join(STORE_FILE).is_file() {
        return Ok(client);
    }
    let Some(home) = home_folder() else { return Ok(client) };
    let mut folders = vec![home.join(DEFAULT_NAME)];
    folders.extend(managers_of(&home));
    for folder in folders.into_iter().filter(|folder| folder.join(STORE_FILE).is_file()) {
        // One that does not answer as it should is not this manager.
        let Standing::Live(own) = standing(&folder).await else { continue };
        let place =
            |client: &Client| (client.access().url.clone(), client.access().certificate_sha256.clone());
        if place(&own) == place(&client) {
            return Ok(*own);
        }
    }
    Ok(client)
}

/// The same with its folder, for commands that submit jobs to the manager whose jobs are meant.
///
/// # Errors
/// As there.
pub async fn find_for_jobs(place: &Where) -> Result<(Client, PathBuf), Failure> {
    match find(place).await? {
        Found::Live(client, folder) => Ok((client.with_last(last_job(place, &folder)), folder)),
        Found::Store(left) => Err(left.refusal()),
    }
}

/// Which job `last` means at the manager in `folder`, which these flags found.
pub fn last_job(place: &Where, folder: &Path) -> LastJob {
    let is_named = matches!(named_folder(place), Ok(Some(_)));
    last::last_job(folder, is_named)
}

/// The folder that was named by a flag or the environment.
///
/// # Errors
/// A name that cannot be one, or no home folder to look in.
pub fn named_folder(place: &Where) -> Result<Option<PathBuf>, Failure> {
    if let Some(dir) = &place.dir {
        return Ok(Some(dir.clone()));
    }
    if let Some(name) = &place.manager {
        return folder_of_name(name).map(Some);
    }
    Ok(folder_of_environment())
}

/// The folder in PILOTFISH_DIR.
pub fn folder_of_environment() -> Option<PathBuf> {
    std::env::var_os("PILOTFISH_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// The folder of the manager with this name: `~/.pilotfish/NAME`.
///
/// # Errors
/// A name that is no folder's, or no home folder.
pub fn folder_of_name(name: &str) -> Result<PathBuf, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(Failure::bad_input(format!(
            "found `{name}` as a manager's name; use letters, digits, `-`, `_` and `.`"
        )));
    }
    let home = home_folder().ok_or_else(|| {
        Failure::infrastructure("HOME is not set, so ~/.pilotfish cannot be found; use --dir")
    })?;
    Ok(home.join(name))
}

/// Refuses a folder with a user's way to a manager elsewhere: a manager that begins there would replace it.
///
/// # Errors
/// It is such a folder.
pub fn refuse_folder_of_user(folder: &Path) -> Result<(), Failure> {
    let path = folder.join(ACCESS_FILE);
    if !path.is_file() {
        return Ok(());
    }
    let read = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<AccessFile>(&text).ok());
    // One that a user was given names no process.
    match read.filter(|access| access.pid == 0) {
        Some(AccessFile { user, url, .. }) => Err(Failure::bad_input(format!(
            "{} has the access file of {user} for the manager at {url}; give that one jobs with `pilotfish submit --dir {}`, \
             or use another folder with --dir",
            show_path(folder),
            shell_path(folder)
        ))),
        None => Ok(()),
    }
}

/// What is in a folder: whether a manager lives there.
pub async fn standing(folder: &Path) -> Standing {
    let path = folder.join(ACCESS_FILE);
    // A pipe would be waited for, and no signal end that.
    if fs::metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Standing::Unusable(format!("{ACCESS_FILE} is no plain file; remove it"));
    }
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Standing::Nothing;
        }
        Err(error) => return Standing::Unusable(format!("{ACCESS_FILE} cannot be read: {}", words(&error))),
    };
    let access: AccessFile = match serde_json::from_str(&text) {
        Ok(access) => access,
        Err(error) => {
            return Standing::Unusable(format!(
                "{ACCESS_FILE} is not an access file ({error}); start its manager again, which writes it anew"
            ));
        }
    };
    if access.version != ACCESS_VERSION {
        return Standing::Unusable(format!(
            "{ACCESS_FILE} has version {}, this program knows version {ACCESS_VERSION}; use the release of its manager ({})",
            access.version, access.manager_version
        ));
    }
    if let Some(original) = access.folder.as_deref().map(Path::new).filter(|of| is_copy(folder, of)) {
        return Standing::Stale(format!(
            "it is a copy of {}, whose manager its {ACCESS_FILE} leads to",
            show_path(original)
        ));
    }
    if is_running(&access) == Some(false) {
        // One that was stopped takes its access file with it.
        return Standing::Stale(format!(
            "its process {} has ended and was not stopped; pilots that it may have left wait for the next one",
            access.pid
        ));
    }
    let client = match Client::new(access) {
        Ok(client) => client.with_file(path),
        Err(failure) => return Standing::Unusable(failure.to_string().trim_end().to_owned()),
    };
    match client.version(PROBE_TIME_LIMIT).await {
        Ok(_) => Standing::Live(Box::new(client)),
        Err(ClientError::Unreachable { url, is_refused: true, .. }) => {
            Standing::Stale(format!("nobody listens at {url}"))
        }
        Err(error) => Standing::Unusable(error.to_string()),
    }
}

/// Whether a manager's folder is another one than that whose manager wrote its access file.
fn is_copy(folder: &Path, original: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|facts| (facts.dev(), facts.ino())).ok();
    let differ = identity(original).is_some_and(|there| Some(there) != identity(folder));
    differ && folder.join(STORE_FILE).is_file()
}

/// Whether the process that wrote this is there; of another host nothing is known.
pub fn is_running(access: &AccessFile) -> Option<bool> {
    let is_here = hostname().is_some_and(|host| host == access.host);
    is_here.then(|| is_alive(access.pid))
}

async fn search(place: &Where, looked: &mut Vec<String>) -> Result<Option<(PathBuf, Box<Client>)>, Failure> {
    if let Some(folder) = named_folder(place)? {
        return Ok(look(&folder, looked).await?.map(|client| (folder, client)));
    }
    let home = home_folder();
    let default = home.as_ref().map(|home| home.join(DEFAULT_NAME));
    let run = PathBuf::from(RUN_FOLDER);
    let last = last::recall().filter(|last| *last != run && Some(last) != default.as_ref());
    // A user's way to a manager is no manager's folder: who has both means the latter.
    let (managers, ways): (Vec<PathBuf>, Vec<PathBuf>) =
        last.into_iter().partition(|last| last.join(STORE_FILE).is_file());
    for folder in managers.into_iter().chain([run]).chain(default).chain(ways) {
        if let Some(client) = look(&folder, looked).await? {
            return Ok(Some((folder, client)));
        }
    }
    let mut others = Vec::new();
    for folder in home.as_deref().map(managers_of).unwrap_or_default() {
        if let Some(client) = look(&folder, looked).await? {
            others.push((folder, client));
        }
    }
    if others.len() > 1 {
        let names: Vec<String> = others.iter().filter_map(|(folder, _)| name_of(folder)).collect();
        return Err(Failure::bad_input(format!(
            "several managers are running ({}); say which one with --manager NAME",
            names.join(", ")
        )));
    }
    Ok(others.pop())
}

/// The name of a manager that runs: the default one, else the first of the others.
async fn living_name() -> Option<String> {
    let home = home_folder()?;
    let mut folders = vec![home.join(DEFAULT_NAME)];
    folders.extend(managers_of(&home));
    for folder in folders {
        // This is a hint only: one that does not answer as it should is not worth it.
        if let Standing::Live(_) = standing(&folder).await {
            return name_of(&folder);
        }
    }
    None
}

/// Looks into one folder. A manager that is there and does not do as it should is an error: to go on
/// to another one would surprise.
async fn look(folder: &Path, looked: &mut Vec<String>) -> Result<Option<Box<Client>>, Failure> {
    let shown = show_path(folder);
    match standing(folder).await {
        Standing::Live(client) => return Ok(Some(client)),
        Standing::Unusable(why) => return Err(Failure::infrastructure(format!("{shown}: {why}"))),
        Standing::Stale(why) => looked.push(format!("{shown} ({why})")),
        Standing::Nothing if folder.is_dir() => looked.push(format!("{shown} (no manager)")),
        Standing::Nothing if folder.exists() => looked.push(format!("{shown} (not a folder)")),
        Standing::Nothing => looked.push(format!("{shown} (no such folder)")),
    }
    Ok(None)
}

fn not_found(place: &Where, looked: &[String]) -> Failure {
    let how = match &place.manager {
        Some(name) => format!("pilotfish serve --name {name}"),
        None => match place.dir.clone().or_else(folder_of_environment) {
            Some(dir) => format!("pilotfish serve --dir {}", quoted(&dir.display().to_string())),
            None => "pilotfish serve".to_owned(),
        },
    };
    Failure::infrastructure(format!(
        "no manager is running; looked in {}; start one with `{how}`, or name another with --dir or --manager",
        looked.join(", ")
    ))
}

/// The folders of managers with a name, other than the default one, in order.
fn managers_of(home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(home) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|folder| folder.join(ACCESS_FILE).is_file() && !folder.ends_with(DEFAULT_NAME))
        .collect();
    folders.sort();
    folders
}

fn name_of(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_string_lossy().into_owned())
}

fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    // No signal: this only asks whether the process exists. One that we may not signal does.
    !matches!(kill(Pid::from_raw(pid), None), Err(Errno::ESRCH)) && !is_zombie(pid)
}

/// Whether the process has ended and only its parent has not heard of it.
fn is_zombie(pid: i32) -> bool {
    let state = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('Z'));
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(state)
}

fn hostname() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

#[cfg(test)]
mod tests {
    use protocol::api::AccessFile;

    use super::{folder_of_name, refuse_folder_of_user};

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["", "..", ".hidden", "a/b", "a b"] {
            assert!(folder_of_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_folder_that_only_leads_to_a_manager_elsewhere_is_no_place_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let write = |pid: u32| {
            let access = AccessFile {
                version: 1,
                url: "https://centre:7400".to_owned(),
                certificate_sha256: None,
                user: "ann".to_owned(),
                token: "t".to_owned(),
                pid,
                host: String::new(),
                manager_version: "0.1.0".to_owned(),
                folder: None,
            };
            let access = serde_json::to_string(&access).unwrap();
            std::fs::write(folder.path().join("access.json"), access).unwrap();
        };
        assert_eq!(refuse_folder_of_user(folder.path()), Ok(()));
        write(7);
        assert_eq!(refuse_folder_of_user(folder.path()), Ok(()), "that of a manager of this folder");
        write(0);
        let refused = refuse_folder_of_user(folder.path()).unwrap_err();
        assert_eq!(refused.code(), 2);
        assert!(refused.message().contains("the access file of ann for the manager at https://centre:7400"));
    }
}
