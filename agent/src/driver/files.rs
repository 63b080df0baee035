//! Files of tasks: their folders and the stager. The core decides when files are staged.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    thread,
};

use protocol::{job::TaskInput, pilot::JoinDocument, text::units::parse_bytes};
use scheduler::{
    ids::{JobId, PilotId, TaskId},
    pilot::{Hunted, PilotCore, PilotEvent},
    pull::MovedBytes,
    ranges::TaskSet,
    results::FailureKind,
    time::Time,
};
use tokio::sync::oneshot;

use super::{Driver, News};
use crate::{
    staging::{
        Inputs, Moved, Outputs, Reads, Stager, StagerSettings,
        cache::{self, CachePlace},
    },
    tasks::LearnedJob,
};

/// Names the cache folder, shared by all pilots of a user on the node; `{tag}` in it makes it a pilot's own.
const FOLDER_VARIABLE: &str = "PILOTFISH_CACHE";
/// Names the size limit of the cache, like `50GiB`.
const SIZE_VARIABLE: &str = "PILOTFISH_CACHE_SIZE";
/// First word of the name of a folder in the pilot's own folder, for files that do not fit a full cache.
const OVERFLOW: &str = "overflow";

/// Returns the place of the cache: from the environment, which a platform's `setup` may set; else beside the
/// folders of the platform's pilots, one for each node.
pub(super) fn cache_place(
    join: &JoinDocument,
    place: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> CachePlace {
    let own = Path::new(&join.folder);
    let is_of_tag = own.file_name().is_some_and(|name| name == join.tag.as_str());
    let around = own.parent().filter(|_| is_of_tag).unwrap_or(own);
    let beside = || around.join(format!("cache-{place}"));
    let said = variable(FOLDER_VARIABLE).map(|folder| PathBuf::from(folder.replace("{tag}", &join.tag)));
    let said = said.filter(|folder| {
        if !folder.is_absolute() {
            tracing::warn!(?folder, "{FOLDER_VARIABLE} is no absolute path: the cache is beside the pilot");
        }
        folder.is_absolute()
    });
    let bytes_max = variable(SIZE_VARIABLE).and_then(|text| {
        let parsed = parse_bytes(&text);
        if let Err(error) = &parsed {
            tracing::warn!(text, %error, "{SIZE_VARIABLE} is no size: the cache has its own bound");
        }
        parsed.ok()
    });
    let overflow = Some(own.join(format!("{OVERFLOW}-{place}")));
    let template = variable(FOLDER_VARIABLE).filter(|_| said.is_some());
    let own = template.and_then(|template| folder_of_tag(&template, &join.tag));
    CachePlace { folder: said.unwrap_or_else(beside), bytes_max, own, overflow }
}

/// Returns the uppermost folder of a path whose name contains the tag.
fn folder_of_tag(template: &str, tag: &str) -> Option<PathBuf> {
    let (before, after) = template.split_once("{tag}")?;
    let (suffix, _) = after.split_once('/').unwrap_or((after, ""));
    Some(PathBuf::from(format!("{before}{{tag}}{suffix}").replace("{tag}", tag)))
}

/// Starts a thread that removes the caches of killed pilots of this host; this may take long.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn remove_dead_caches(
    join: &JoinDocument,
    place: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> io::Result<()> {
    let said = variable(FOLDER_VARIABLE).filter(|folder| Path::new(folder).is_absolute());
    let pilot = Path::new(&join.folder);
    let is_of_tag = pilot.file_name().is_some_and(|name| name == join.tag.as_str());
    let around = pilot.parent().filter(|_| is_of_tag).and_then(Path::to_str);
    let overflow = around.map(|around| format!("{around}/{{tag}}/{OVERFLOW}-{place}"));
    let templates: Vec<String> = said.into_iter().chain(overflow).collect();
    let tag = join.tag.clone();
    let remove = move || templates.iter().for_each(|template| cache::remove_dead_caches(template, &tag));
    thread::Builder::new().name("pilotfish-caches".into()).spawn(remove).map(drop)
}

/// The input files and folders of tasks.
pub(super) struct Files {
    cache: CachePlace,
    /// Started for the first task with files.
    stager: Option<Stager>,
    n_ever: u64,
    /// Token and folder of the input files of each task that has not started.
    staged: HashMap<TaskId, (u64, PathBuf)>,
    /// Whether other pilots may ask for tasks.
    meets_others: bool,
    /// Answer channel of the other pilot that asked for tasks.
    asked: Option<oneshot::Sender<u64>>,
    /// Folders of ended tasks, and of tasks whose output files are being delivered.
    left: HashMap<TaskId, Left>,
}

struct Left {
    folder: Option<PathBuf>,
    /// The stager's token for input files.
    staged: Option<u64>,
    /// The stager's token for output files.
    delivered: Option<u64>,
}

impl Files {
    pub(super) fn new(cache: CachePlace) -> Files {
        let (staged, left) = (HashMap::new(), HashMap::new());
        Files { cache, stager: None, n_ever: 0, staged, meets_others: false, asked: None, left }
    }

    /// Takes the folder of a starting task and the stager's token for its files.
    pub(super) fn take_staged(&mut self, task: TaskId) -> Option<(u64, PathBuf)> {
        self.staged.remove(&task)
    }

    /// Keeps the folder of an ended task until [`Driver::clean_left`], or until its output files are
    /// delivered.
    pub(super) fn left(&mut self, task: TaskId, folder: Option<PathBuf>, staged: Option<u64>) {
        if folder.is_some() || staged.is_some() {
            self.left.insert(task, Left { folder, staged, delivered: None });
        }
    }

    /// Returns the bytes transferred since the last call, by job.
    pub(super) fn take_moved(&self) -> Vec<(JobId, MovedBytes)> {
        self.stager.as_ref().map(Stager::take_moved).unwrap_or_default()
    }

    /// Updates the number of tasks that other pilots may take.
    pub(super) fn set_n_to_take(&self, core: &PilotCore, now: Time) {
        if let Some(stager) = self.stager.as_ref().filter(|_| self.meets_others) {
            stager.set_n_to_take(core.n_to_take(now));
        }
    }

    /// Sets the session of the pilot.
    pub(super) fn set_session(&self, pilot: PilotId, session: &str) {
        if let Some(stager) = &self.stager {
            stager.set_session(pilot, session);
        }
    }
}

impl Driver {
    /// Returns the stager and a new token. Starts the stager at first use; without it no task with files can
    /// run here.
    fn stager(&mut self) -> Result<(&Stager, u64), FailureKind> {
        let stager = match self.files.stager.take() {
            Some(stager) => stager,
            None => {
                let settings = StagerSettings {
                    url: self.join.url.clone(),
                    certificate_sha256: self.join.certificate_sha256.clone(),
                    tag: self.join.tag.clone(),
                    cache: self.files.cache.clone(),
                    pilot: Some(self.pilot),
                };
                let news = self.news.clone();
                let tell = move |moved| {
                    // The receiver is gone only when the pilot ends; then no event is needed.
                    let _ = news.send(News::Moved(moved));
                };
                Stager::start(&settings, &self.session, tell).map_err(|error| {
                    let folder = settings.cache.folder.display();
                    FailureKind::Node { what: format!("the cache folder {folder}: {error}") }
                })?
            }
        };
        self.files.n_ever += 1;
        Ok((self.files.stager.insert(stager), self.files.n_ever))
    }

    pub(super) fn stage(&mut self, task: TaskId) -> Option<PilotEvent> {
        let failed = |kind| Some(PilotEvent::Staged { task, result: Err(kind) });
        let Some(job) = self.jobs.get(&task.job) else {
            let what = format!("the template of job {} is missing", task.job);
            return failed(FailureKind::Start { what });
        };
        let inputs = match job.inputs(task.index) {
            Ok(named) => Inputs { named, takes: job.takes(), drawn: job.drawn() },
            Err(kind) => return failed(kind),
        };
        let name = format!("{}.{}.files{}", task.job, task.index, self.files.n_ever + 1);
        let folder = match self.scratch.make(&name) {
            Ok(folder) => folder,
            Err(error) => return failed(FailureKind::Node { what: format!("scratch folder: {error}") }),
        };
        match self.stager() {
            Ok((stager, token)) => {
                stager.stage(task, token, inputs, folder.clone());
                self.files.staged.insert(task, (token, folder));
                None
            }
            Err(kind) => {
                self.scratch.remove(folder);
                failed(kind)
            }
        }
    }

    pub(super) fn deliver(&mut self, task: TaskId) -> Option<PilotEvent> {
        let failed = |kind| Some(PilotEvent::Delivered { task, result: Err(kind) });
        let Some(job) = self.jobs.get(&task.job) else {
            let what = format!("the template of job {} is missing", task.job);
            return failed(FailureKind::Start { what });
        };
        let outputs = match job.outputs(task.index) {
            Ok(files) => {
                let inputs = job.inputs(task.index).unwrap_or_default();
                let (writable, brought): (Vec<TaskInput>, Vec<TaskInput>) =
                    inputs.into_iter().partition(|input| input.writable);
                let plain = |inputs: &[TaskInput]| {
                    let plain = inputs.iter().filter(|input| !input.executable);
                    plain.map(|input| input.to.clone()).collect()
                };
                Outputs {
                    files,
                    is_taken: job.is_taken(),
                    copied: plain(&writable),
                    plain: plain(&brought),
                    brought: brought.into_iter().map(|input| input.to).collect(),
                }
            }
            Err(kind) => return failed(kind),
        };
        let folder = self.files.left.get(&task).and_then(|left| left.folder.clone());
        let Some(folder) = folder else {
            return failed(FailureKind::Node { what: "its folder is not there".into() });
        };
        match self.stager() {
            Ok((stager, token)) => {
                stager.deliver(task, token, outputs, folder);
                if let Some(left) = self.files.left.get_mut(&task) {
                    left.delivered = Some(token);
                }
                None
            }
            Err(kind) => failed(kind),
        }
    }

    /// Allows or forbids requests of other pilots for tasks.
    pub(super) fn meet(&mut self, is_wanted: bool) {
        self.files.meets_others = is_wanted;
        if is_wanted && let Err(error) = self.stager() {
            tracing::warn!(%error, "no tasks from other pilots, nor for them");
        }
    }

    /// Finds out where the input files of the tasks are.
    pub(super) fn look(&mut self, job: JobId, tasks: TaskSet) -> Option<PilotEvent> {
        let file = |input: TaskInput| Some((input.sha256?, input.bytes.unwrap_or(0)));
        let of_task = |learned: &LearnedJob, index| {
            let inputs = learned.inputs(index).unwrap_or_default();
            (index, inputs.into_iter().filter_map(file).collect())
        };
        let reads = self.jobs.get(&job).map(|learned| Reads {
            named: tasks.indices().map(|index| of_task(learned, index)).collect(),
            takes: learned.takes(),
        });
        match (reads, self.stager()) {
            (Some(reads), Ok((stager, _))) => {
                stager.look(job, tasks, reads);
                None
            }
            _ => Some(PilotEvent::Seen { job, tasks, read: Vec::new(), bytes_per_s: 0 }),
        }
    }

    pub(super) fn hunt(&mut self) -> Option<PilotEvent> {
        match self.stager() {
            Ok((stager, _)) => {
                stager.hunt();
                None
            }
            Err(_) => Some(PilotEvent::Hunted(Hunted::InVain)),
        }
    }

    /// Answers the pilot that asked for tasks with the number of tasks on their way to it.
    pub(super) fn gave(&mut self, thief: PilotId, n_tasks: u64) {
        tracing::debug!(%thief, n_tasks, "gave tasks to another pilot");
        if let Some(answer) = self.files.asked.take() {
            // If that pilot is gone, it gets the tasks all the same.
            let _ = answer.send(n_tasks);
        }
    }

    pub(super) fn unstage(&mut self, task: TaskId) {
        if let Some((token, folder)) = self.files.staged.remove(&task) {
            self.clean(Some(folder), Some(token));
        }
        if let Some(left) = self.files.left.remove(&task) {
            self.clean(None, left.delivered);
            self.clean(left.folder, left.staged);
        }
    }

    /// Removes a task's folder, unless its output files are being delivered.
    pub(super) fn clean_left(&mut self, task: TaskId) {
        if self.files.left.get(&task).is_some_and(|left| left.delivered.is_none()) {
            self.unstage(task);
        }
    }

    /// Removes a folder and releases the input files in it.
    pub(super) fn clean(&mut self, folder: Option<PathBuf>, files: Option<u64>) {
        if let (Some(stager), Some(token)) = (&self.files.stager, files) {
            stager.release(token);
        }
        if let Some(folder) = folder {
            self.scratch.remove(folder);
        }
    }

    /// Handles an event of the stager. Ignores files that have been withdrawn meanwhile.
    pub(super) fn on_moved(&mut self, moved: Moved) {
        match moved {
            Moved::Staged { task, token, result } => {
                if self.files.staged.get(&task).is_none_or(|(wanted, _)| *wanted != token) {
                    return;
                }
                if result.is_err() {
                    self.unstage(task);
                }
                self.handle(PilotEvent::Staged { task, result });
            }
            Moved::Delivered { task, token, result } => {
                if self.files.left.get(&task).is_none_or(|left| left.delivered != Some(token)) {
                    return;
                }
                self.unstage(task);
                self.handle(PilotEvent::Delivered { task, result });
            }
            Moved::Seen { job, tasks, read, bytes_per_s } => {
                self.handle(PilotEvent::Seen { job, tasks, read, bytes_per_s });
            }
            Moved::Hunted(hunted) => self.handle(PilotEvent::Hunted(hunted)),
            Moved::AskedFor { thief, answer } => {
                self.files.asked = Some(answer);
                self.handle(PilotEvent::AskedFor { thief });
            }
        }
        // A slot may have waited for the files, or the manager for the result.
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use protocol::pilot::JoinDocument;

    use super::cache_place;

    #[test]
    fn the_cache_is_where_the_environment_says_or_beside_the_pilots_of_its_platform() {
        let join = |folder: &str| JoinDocument {
            folder: folder.into(),
            tag: "pf1-2".into(),
            ..JoinDocument::default()
        };
        let place = |folder: &str, said: &[(&str, &str)]| {
            let variable =
                |name: &str| said.iter().find(|(other, _)| *other == name).map(|(_, v)| (*v).to_owned());
            cache_place(&join(folder), "node7", &variable)
        };
        assert_eq!(place("/w/pilots/pf1-2", &[]).folder, Path::new("/w/pilots/cache-node7"));
        assert_eq!(place("/w/mine", &[]).folder, Path::new("/w/mine/cache-node7"));
        let said = [("PILOTFISH_CACHE", "/local/ada"), ("PILOTFISH_CACHE_SIZE", "2GiB")];
        let found = place("/w/mine", &said);
        assert_eq!((found.folder.as_path(), found.bytes_max), (Path::new("/local/ada"), Some(2 << 30)));
        assert_eq!(found.own, None, "others share it");
        let said = [("PILOTFISH_CACHE", "/local/{tag}/cache")];
        let found = place("/w/mine", &said);
        assert_eq!(found.folder, Path::new("/local/pf1-2/cache"));
        assert_eq!(found.own.as_deref(), Some(Path::new("/local/pf1-2")));
        assert_eq!(found.overflow.as_deref(), Some(Path::new("/w/mine/overflow-node7")));
        let said = [("PILOTFISH_CACHE", "/local/c-{tag}.d/{tag}/x")];
        assert_eq!(place("/w/mine", &said).own.as_deref(), Some(Path::new("/local/c-pf1-2.d")));
        let said = [("PILOTFISH_CACHE", "local"), ("PILOTFISH_CACHE_SIZE", "much")];
        let found = place("/w/mine", &said);
        assert_eq!((found.folder.as_path(), found.bytes_max), (Path::new("/w/mine/cache-node7"), None));
    }
}
