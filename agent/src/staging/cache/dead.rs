//! Leftovers of agents that have ended: their folders in a shared cache, and whole caches that were their
//! own.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use super::lock_all;
use crate::{guard::leftovers, staging::family_of, sys::private};

/// Removes the folders of agents that have ended from a cache.
pub(super) fn remove_users(users: &Path) {
    for entry in fs::read_dir(users).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.split('-').next()).unwrap_or_default();
        // Without working locks no agent seems to hold one. The pid may belong to another process by now.
        let is_free = match OpenOptions::new().write(true).open(entry.path().join("alive")) {
            Ok(file) => private::lock(&file),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let is_gone = || !Path::new("/proc").join(pid).exists() || is_user_dead(&entry.path());
        if is_free && is_gone() {
            // The next agent tries again to remove the rest.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the host and the processes that use a cache, for later agents.
pub(super) fn keeper() -> String {
    format!("{} {}", host(), leftovers::keepers(None).unwrap_or_default())
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Removes caches of killed pilots of this host, if each pilot has its own cache: `template` is an absolute
/// path with `{tag}` in it. `tag`: this pilot's.
pub fn remove_dead_caches(template: &str, tag: &str) {
    let Some((before, after)) = template.split_once("{tag}") else { return };
    let Some((folder, prefix)) = before.rsplit_once('/') else { return };
    let suffix = after.split('/').next().unwrap_or(after);
    // Tags of the same manager differ in the last number.
    let family = family_of(tag);
    if family == tag {
        return;
    }
    for entry in fs::read_dir(format!("{folder}/")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let other = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
        let number = other.and_then(|other| other.strip_prefix(family)?.strip_prefix('-'));
        let is_of_family = number.is_some_and(|number| number.parse::<u64>().is_ok());
        if let Some(other) = other.filter(|other| is_of_family && *other != tag) {
            remove_if_dead(Path::new(&template.replace("{tag}", other)), &entry.path());
        }
    }
}

/// Returns whether a folder is a cache.
pub fn is_cache(root: &Path) -> bool {
    ["objects", "users"].iter().all(|folder| root.join(folder).is_dir())
}

/// Removes a cache if all of its agents were killed and ran on this host; then also the empty folders above
/// it, up to `top`.
pub fn remove_if_dead(root: &Path, top: &Path) {
    if is_dead(root) {
        tracing::info!(folder = %root.display(), "removing the cache of a pilot that was killed");
        remove(root, top);
    }
}

/// Removes a cache if no agent uses it.
pub(super) fn remove_if_unused(root: &Path, top: &Path) {
    let Ok(_guard) = lock_all(root) else { return };
    if users(root).is_empty() {
        remove(root, top);
    }
}

fn remove(root: &Path, top: &Path) {
    // The next pilot tries again to remove the rest.
    let _ = fs::remove_dir_all(root);
    let above = root.ancestors().skip(1).take_while(|folder| folder.starts_with(top));
    above.for_each(|folder| _ = fs::remove_dir(folder));
}

/// Returns whether this is a cache whose agents were all killed on this host.
fn is_dead(root: &Path) -> bool {
    let users = users(root);
    // A cache without users may be about to get one.
    is_cache(root) && !users.is_empty() && users.iter().all(|user| is_user_dead(user))
}

/// Returns whether the agent with this folder in a cache ran on this host and has ended.
fn is_user_dead(user: &Path) -> bool {
    let Ok(keeper) = fs::read_to_string(user.join("alive")) else { return false };
    keeper.split_once(' ').is_some_and(|(at, keepers)| at == host() && leftovers::are_gone(keepers))
}

fn users(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("users")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
