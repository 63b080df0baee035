//! Paths and places as a job's texts name them: paths below a folder, and the schemes by which places begin.

use std::path::{Component, Path, PathBuf};

/// How paths are written that nodes see.
pub(in crate::job) const FILE_SCHEME: &str = "file://";

/// How files are written in job files that other stages leave.
pub(in crate::job) const STAGE_SCHEME: &str = "stage:";

/// How places in stores begin.
pub const STORE_SCHEME: &str = "store://";

/// Where inputs of a kind come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The submitter's folder, by the manager.
    Home,
    /// A path that nodes see.
    Shared,
    /// An address of HTTP.
    Url,
    /// A store that the manager knows: [`StorePlace`](crate::job::StorePlace).
    Store,
    /// Other tasks leave it.
    Tasks,
}

/// The path that a text names below a folder, without `.`; `None` if it is not below it.
pub fn safe_relative(text: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    let is_folder = text.ends_with('/') || text.ends_with("/.") || text.contains('\0');
    (!is_folder && path.components().next().is_some()).then_some(path)
}

/// What follows a scheme, which may be written in capitals.
pub(in crate::job) fn strip_scheme<'t>(text: &'t str, scheme: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(scheme.len())?;
    head.eq_ignore_ascii_case(scheme).then_some(rest)
}

/// What kind of place a text names.
pub(in crate::job) fn kind_of(text: &str) -> Source {
    let begins_with = |scheme: &str| strip_scheme(text, scheme).is_some();
    if begins_with(FILE_SCHEME) {
        return Source::Shared;
    }
    if begins_with(STORE_SCHEME) {
        return Source::Store;
    }
    let is_url = begins_with("http://") || begins_with("https://");
    if is_url { Source::Url } else { Source::Home }
}
