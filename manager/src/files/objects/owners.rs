//! Whose the objects are: how many bytes of them each user has brought, or has had left by tasks.
//!
//! A file for each user, `files/owners/NAME`, has 40 bytes for each object: its digest and its size, little-endian. What
//! somebody brings that is here already is nobody's anew. Objects that are gone leave their users' files at the next
//! [`Owners::prune`]. What a manager that was killed has not written down counts for nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use scheduler::digest::Digest;

/// Bytes of an entry: a digest and a size.
const ENTRY_BYTES: u64 = 40;

/// See the module. Cheap to clone; all of it blocks.
#[derive(Clone, Debug)]
pub struct Owners {
    folder: Arc<Path>,
    /// Users and their bytes. Never held while the disk is waited for.
    held: Arc<Mutex<BTreeMap<String, Held>>>,
    /// Held while a user's file is written.
    writing: Arc<Mutex<()>>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Held {
    /// Here.
    n_bytes: u64,
    /// On their way.
    n_coming: u64,
}

/// Bytes of a user on their way, which count until this is dropped.
pub struct Coming {
    owners: Owners,
    user: String,
    n_bytes: u64,
}

impl Owners {
    /// What is written down in a folder, which need not be there.
    pub fn in_folder(folder: PathBuf) -> Owners {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let held = files.filter_map(|entry| {
            let user = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
            let n_bytes = entries(&entry.path()).ok()?.map(|(_, n_bytes)| n_bytes).sum();
            Some((user, Held { n_bytes, n_coming: 0 }))
        });
        let held = held.collect();
        Owners { folder: folder.into(), held: Arc::new(Mutex::new(held)), writing: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a user.
    pub fn bytes_of(&self, user: &str) -> u64 {
        self.lock().get(user).map_or(0, |held| held.n_bytes)
    }

    /// Bytes of a user that are on their way, none yet. They count as the user's until they are dropped.
    pub fn coming(&self, user: &str) -> Coming {
        Coming { owners: self.clone(), user: user.to_owned(), n_bytes: 0 }
    }

    /// These objects are a user's.
    ///
    /// # Errors
    /// The disk fails. They count until the manager ends.
    pub fn add(&self, user: &str, objects: &[(Digest, u64)]) -> io::Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let n_bytes: u64 = objects.iter().map(|(_, n_bytes)| n_bytes).sum();
        self.lock().entry(user.to_owned()).or_default().n_bytes += n_bytes;
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        protocol::files::private::make_folder(&self.folder)?;
        let mut file =
            OpenOptions::new().append(true).create(true).mode(0o600).open(self.folder.join(user))?;
        // After half an entry all others would be read wrongly.
        let n_torn = file.metadata()?.len() % ENTRY_BYTES;
        if n_torn > 0 {
            file.set_len(file.metadata()?.len() - n_torn)?;
        }
        file.write_all(&encoded(objects))
    }

    /// Takes out what is not there any more, and what stands there twice.
    ///
    /// # Errors
    /// The disk fails; a user's file that could not be written stays as it is.
    pub fn prune(&self, is_there: impl Fn(&Digest) -> bool) -> io::Result<()> {
        let users: Vec<String> = self.lock().keys().cloned().collect();
        for user in users {
            let path = self.folder.join(&user);
            // It may take long to look at all objects: what comes meanwhile is added at the end.
            let (mut seen, mut left, mut n_looked_at, mut n_gone) = (BTreeSet::new(), Vec::new(), 0, 0);
            for (sha256, n_bytes) in entries(&path)? {
                n_looked_at += 1;
                match seen.insert(sha256) && is_there(&sha256) {
                    true => left.push((sha256, n_bytes)),
                    false => n_gone += n_bytes,
                }
            }
            if left.len() == n_looked_at {
                continue;
            }
            let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            left.extend(entries(&path)?.skip(n_looked_at));
            // No user's name begins with a dot.
            let beside = self.folder.join(format!(".{user}"));
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?
                .write_all(&encoded(&left))?;
            fs::rename(&beside, &path)?;
            let mut held = self.lock();
            let held = held.entry(user).or_default();
            held.n_bytes = held.n_bytes.saturating_sub(n_gone);
        }
        Ok(())
    }
}

impl Coming {
    /// So many more are on their way.
    ///
    /// # Errors
    /// With what the user has they exceed this `most`. They do not count then.
    pub fn more(&mut self, n_bytes: u64, most: Option<u64>) -> Result<(), u64> {
        let mut held = self.owners.lock();
        let held = held.entry(self.user.clone()).or_default();
        let used = held.n_bytes.saturating_add(held.n_coming);
        match most {
            Some(most) if used.saturating_add(n_bytes) > most => Err(most),
            _ => {
                held.n_coming += n_bytes;
                self.n_bytes += n_bytes;
                Ok(())
            }
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if let Some(held) = self.owners.lock().get_mut(&self.user) {
            held.n_coming -= self.n_bytes;
        }
    }
}

/// The entries of these objects, one after the other.
fn encoded(objects: &[(Digest, u64)]) -> Vec<u8> {
    objects.iter().flat_map(|(sha256, n_bytes)| [&sha256.0[..], &n_bytes.to_le_bytes()].concat()).collect()
}

/// What stands in a user's file, as far as it can be read; nothing if there is none.
fn entries(path: &Path) -> io::Result<impl Iterator<Item = (Digest, u64)>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        opened => Some(BufReader::new(opened?)),
    };
    Ok(std::iter::from_fn(move || {
        let (file, mut sha256, mut n_bytes) = (file.as_mut()?, [0; 32], [0; 8]);
        file.read_exact(&mut sha256).and_then(|()| file.read_exact(&mut n_bytes)).ok()?;
        Some((Digest(sha256), u64::from_le_bytes(n_bytes)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_have_is_known_after_a_restart_and_what_is_gone_counts_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let at = || Owners::in_folder(folder.path().join("owners"));
        let object = |n: u8| (Digest([n; 32]), 100 * u64::from(n));
        let owners = at();
        assert_eq!(owners.bytes_of("ann"), 0);
        owners.add("ann", &[object(1), object(2)]).unwrap();
        owners.add("ann", &[object(2), object(3)]).unwrap();
        owners.add("bob", &[object(4)]).unwrap();
        assert_eq!((owners.bytes_of("ann"), owners.bytes_of("bob")), (800, 400));
        // Half an entry, of a manager that was killed.
        let file = folder.path().join("owners/ann");
        OpenOptions::new().append(true).open(&file).unwrap().write_all(&[7; 13]).unwrap();
        let owners = at();
        assert_eq!((owners.bytes_of("ann"), owners.bytes_of("bob")), (800, 400));
        owners.add("ann", &[object(5)]).unwrap();
        assert_eq!(at().bytes_of("ann"), 1300);
        std::fs::write(folder.path().join("owners/.bob"), [1; 40]).unwrap();
        owners.prune(|sha256| sha256.0[0] != 1).unwrap();
        assert_eq!((owners.bytes_of("ann"), owners.bytes_of("bob")), (200 + 300 + 500, 400));
        assert_eq!((at().bytes_of("ann"), at().bytes_of("bob")), (1000, 400));
    }

    #[test]
    fn what_is_on_its_way_counts_until_it_is_here_or_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let owners = Owners::in_folder(folder.path().join("owners"));
        owners.add("ann", &[(Digest([1; 32]), 60)]).unwrap();
        let (mut one, mut other) = (owners.coming("ann"), owners.coming("ann"));
        assert_eq!(one.more(30, Some(100)), Ok(()));
        assert_eq!(other.more(11, Some(100)), Err(100));
        assert_eq!(other.more(10, Some(100)), Ok(()));
        assert_eq!(other.more(1, None), Ok(()), "who has no quota");
        drop(one);
        assert_eq!(other.more(30, Some(101)), Ok(()));
        assert_eq!(owners.bytes_of("ann"), 60);
    }
}
