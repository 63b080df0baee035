//! Files of one task: what it needs, what it leaves, and where that goes.

use std::path::{Path, PathBuf};

use scheduler::digest::Digest;

use crate::job::files::path::{FILE_SCHEME, Source, safe_relative};
use crate::job::files::pattern::{matches, may_match};
use crate::job::files::store_place::StorePlace;
use crate::net::address;

/// What one task needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInput {
    /// Where it goes, below the task's folder.
    pub to: PathBuf,
    /// Where it is.
    pub from: String,
    /// What kind of place that is.
    pub source: Source,
    /// What it must hold.
    pub sha256: Option<Digest>,
    /// How much that is, where it is known.
    pub bytes: Option<u64>,
    /// The task may change it.
    pub writable: bool,
    /// It is known that its owner may execute it. Tasks may execute all that they are given.
    pub executable: bool,
}

/// What one task leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutputFile {
    /// Where it is, below the task's folder. Of several files the folder before anything in their paths may differ, which
    /// may be the task's own (an empty path).
    pub from: PathBuf,
    /// Which files of that folder and those below it, where they are several.
    pub several: Option<Several>,
    /// Where it goes; several go into this folder.
    pub to: OutputTarget,
    /// The task may succeed without it.
    pub optional: bool,
}

/// Files of a task that are named together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Several {
    /// All in a folder.
    Folder,
    /// Those whose path below the task's folder matches: `*` is any characters of a name, `?` is one of them, and `**`
    /// any characters; a backslash makes the next character stand for itself.
    Pattern(String),
}

/// Where a file of a task goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// Below the submitter's folder, by the manager.
    Home(PathBuf),
    /// A path that nodes see.
    File(PathBuf),
    /// A store that the manager knows.
    Store(StorePlace),
}

impl TaskInput {
    /// Which file comes from where, for messages: without user names and passwords.
    pub fn shown(&self) -> String {
        let to = self.to.to_string_lossy();
        match self.source {
            Source::Home | Source::Tasks => format!("input {to} from the manager"),
            Source::Shared | Source::Url | Source::Store => {
                format!("input {to} from {}", address::shown(&self.from))
            }
        }
    }
}

impl TaskOutputFile {
    /// Of several files: the name that one keeps, by its path below the task's folder; `None`: it is not meant.
    pub fn name_of(&self, path: &str) -> Option<PathBuf> {
        let is_meant = match &self.several {
            None => false,
            Some(Several::Folder) => true,
            Some(Several::Pattern(pattern)) => matches(pattern, path),
        };
        let name = Path::new(path).strip_prefix(&self.from).ok().filter(|_| is_meant)?;
        (!name.as_os_str().is_empty()).then(|| name.to_owned())
    }

    /// Of several files: whether one may be meant that is in this folder or below it.
    pub fn may_mean_below(&self, folder: &str) -> bool {
        match &self.several {
            None => false,
            Some(Several::Folder) => Path::new(folder).starts_with(&self.from),
            Some(Several::Pattern(pattern)) => may_match(pattern, &format!("{folder}/"), "**"),
        }
    }

    /// Whether a file that the task left may go there: `to` is a path below the base folder, `file:///…`, or
    /// `store://NAME/…`. In the place of one file the task may have made a folder, whose files keep their names.
    pub fn may_go_to(&self, to: &str) -> bool {
        let target = self.to.shown();
        if self.several.is_none() && to == target {
            return true;
        }
        let Some(name) = below(&target, to) else { return false };
        let is_meant = match (&self.several, self.from.join(&name).to_str()) {
            (Some(Several::Pattern(_)), Some(path)) => self.name_of(path).is_some_and(|kept| kept == name),
            (Some(Several::Pattern(_)), None) => false,
            (Some(Several::Folder) | None, _) => true,
        };
        is_meant && self.to.join(&name).is_some_and(|joined| joined.shown() == to)
    }

    /// Whether that may be told to be left out: what is there or, of a pattern, a folder on the way.
    pub fn may_leave_out(&self, to: &str) -> bool {
        let target = self.to.shown();
        let is_joined = |name: PathBuf| self.to.join(&name).is_some_and(|joined| joined.shown() == to);
        to.strip_suffix('/').unwrap_or(to) == target || below(&target, to).is_some_and(is_joined)
    }

    /// How the job names it, with the task's values.
    pub fn shown(&self) -> String {
        match &self.several {
            None => self.from.to_string_lossy().into_owned(),
            Some(Several::Folder) => format!("{}/", self.from.display()),
            Some(Several::Pattern(pattern)) => pattern.clone(),
        }
    }
}

/// The name below a folder, where both are as shown; `None`: it is elsewhere, or is not written as a name is.
fn below(folder: &str, place: &str) -> Option<PathBuf> {
    let name = match folder {
        "" => Some(place),
        folder => place.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
    }?;
    safe_relative(name).filter(|path| path.to_str() == Some(name))
}

impl OutputTarget {
    /// The name of this place below a folder; `None`: it is elsewhere.
    pub fn below(&self, folder: &OutputTarget) -> Option<PathBuf> {
        let below = |place: &Path, folder: &Path| place.strip_prefix(folder).ok().map(Path::to_owned);
        match (self, folder) {
            (OutputTarget::Home(place), OutputTarget::Home(folder))
            | (OutputTarget::File(place), OutputTarget::File(folder)) => below(place, folder),
            (OutputTarget::Store(place), OutputTarget::Store(folder)) => {
                below(Path::new(&place.to_string()), Path::new(&folder.to_string()))
            }
            _ => None,
        }
    }

    /// As it is reported and shown.
    pub fn shown(&self) -> String {
        match self {
            OutputTarget::Home(path) => path.to_string_lossy().into_owned(),
            OutputTarget::File(path) => format!("{FILE_SCHEME}{}", path.to_string_lossy()),
            OutputTarget::Store(place) => place.to_string(),
        }
    }

    /// The place of a file in this folder; `None`: no file of that name can go there.
    pub fn join(&self, name: &Path) -> Option<OutputTarget> {
        match self {
            OutputTarget::Home(folder) => Some(OutputTarget::Home(folder.join(name))),
            OutputTarget::File(folder) => Some(OutputTarget::File(folder.join(name))),
            OutputTarget::Store(folder) => {
                StorePlace::parse(&format!("{folder}/{}", name.to_str()?)).map(OutputTarget::Store)
            }
        }
    }
}
