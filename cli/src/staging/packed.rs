//! Small files that come home many at a time: in packs, and with a few flushes of the disk for all of them. A request and
//! a flush for each would take longer than all of their contents.

use std::{
    collections::HashMap,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use agent::sys::{parts, sha256};
use protocol::files::{
    objects::FileRow,
    pack::{self, N_PACKED_MIN, PACKED_BYTES_MAX},
};
use scheduler::digest::Digest;
use tempfile::TempPath;
use tokio::task::{JoinSet, spawn_blocking};

use super::{N_TRANSFERS, N_TRIES, PAUSE, make_executable};
use crate::{
    client::{Client, ClientError},
    failure::Failure,
    landing::{HeldFolders, Landing, Place, Spot},
};

/// Files that get their names together. A process that is killed by force leaves so many parts at most.
const N_FILES_MAX: usize = 4_000;
/// Folders that are held open for them at most: a process may have a thousand files open.
const N_FOLDERS_MAX: usize = 256;

/// A file and the bytes that were written; `None`: it was there; or why it was not written.
pub(super) type Came = (FileRow, Result<Option<u64>, Failure>);

/// Files that came, and those that are left for who brings them one by one: he knows what is wrong.
pub(super) struct Brought {
    pub came: Vec<Came>,
    pub left: Vec<FileRow>,
}

/// A file that is to be written.
struct Wanted {
    file: FileRow,
    spot: Spot,
    path: PathBuf,
}

/// Brings home those of these files that are small, if they are many. What came is on the disk.
///
/// # Errors
/// The manager does not answer, or the disk cannot be flushed.
pub(super) async fn bring(
    client: &Client,
    landing: &Arc<Landing>,
    files: Vec<FileRow>,
) -> Result<Brought, Failure> {
    let (small, left): (Vec<FileRow>, Vec<FileRow>) =
        files.into_iter().partition(|file| file.bytes <= PACKED_BYTES_MAX);
    let mut brought = Brought { came: Vec::new(), left };
    if small.len() < N_PACKED_MIN {
        brought.left.extend(small);
        return Ok(brought);
    }
    let (mut rest, mut is_any_named, parts) = (small, false, Parts::default());
    while !rest.is_empty() {
        let (of, mut some) = (Arc::clone(landing), std::mem::take(&mut rest));
        let (looked, some) = blocking(move || (look(&of, &mut some), some)).await?;
        rest = some;
        brought.came.extend(looked.came);
        if looked.wanted.is_empty() {
            continue;
        }
        let NotWritten { left, failed } = write_all(client, looked.wanted, &parts).await?;
        brought.left.extend(left);
        brought.came.extend(failed);
        let (of, parts) = (Arc::clone(landing), Arc::clone(&parts.0));
        let named = blocking(move || parts.name_all(&of)).await??;
        is_any_named |= !named.is_empty();
        brought.came.extend(named);
    }
    if is_any_named {
        let of = Arc::clone(landing);
        blocking(move || flush(&of)).await??;
    }
    Ok(brought)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    spawn_blocking(work).await.map_err(|error| Failure::infrastructure(error.to_string()))
}

fn flush(landing: &Landing) -> Result<(), Failure> {
    landing.flush().map_err(|error| Failure::file("flush", landing.folder(), &error))
}

#[derive(Default)]
struct Looked {
    wanted: Vec<Wanted>,
    came: Vec<Came>,
}

/// Takes the first of these files and looks where each may be written.
fn look(landing: &Landing, files: &mut Vec<FileRow>) -> Looked {
    let (mut looked, mut folders, mut n_looked_at) = (Looked::default(), HeldFolders::default(), 0);
    for file in files.iter() {
        if looked.wanted.len() == N_FILES_MAX || folders.n_open() == N_FOLDERS_MAX {
            break;
        }
        n_looked_at += 1;
        let path = landing.folder().join(&file.to);
        match landing.place_among(&file.to, (&file.sha256, file.task), &mut folders) {
            Ok(Place::Free(spot)) => looked.wanted.push(Wanted { file: file.clone(), spot, path }),
            Ok(Place::Same(there)) => {
                let made = if file.executable { make_executable(&there) } else { Ok(()) };
                let same = made.map_err(|error| Failure::file("make executable", &path, &error));
                looked.came.push((file.clone(), same.map(|()| None)));
            }
            Err(why) => looked.came.push((file.clone(), Err(Failure::infrastructure(why)))),
        }
    }
    files.drain(..n_looked_at);
    looked
}

/// A file that is written beside its name.
struct Part {
    /// First, since its path leads through the folder that is held open.
    written: TempPath,
    wanted: Wanted,
}

/// Files that are written and have no names yet. They are removed when this is dropped, also while threads write more.
#[derive(Default)]
struct Parts(Arc<SharedParts>);

#[derive(Default)]
struct SharedParts {
    is_given_up: AtomicBool,
    /// Read by threads that have files which are in no list.
    at_work: RwLock<()>,
    written: Mutex<Vec<Part>>,
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.0.is_given_up.store(true, Ordering::Relaxed);
        let _nobody_works = self.0.at_work.write().unwrap_or_else(PoisonError::into_inner);
        self.0.take();
    }
}

impl SharedParts {
    fn take(&self) -> Vec<Part> {
        std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    /// Writes the files of a pack that are what they should be. The others are left.
    fn write(&self, pack: &[u8], mut files: ByContents) -> NotWritten {
        let _works = self.at_work.read().unwrap_or_else(PoisonError::into_inner);
        let (mut not, mut parts) = (NotWritten::default(), Vec::new());
        for (sha256, contents) in pack::files(pack).unwrap_or_default() {
            if self.is_given_up() || sha256::of(contents) != sha256 {
                continue;
            }
            for wanted in files.remove(&sha256).unwrap_or_default() {
                match write_beside(&wanted, contents) {
                    Ok(written) => parts.push(Part { written, wanted }),
                    Err(error) => {
                        let failure = Failure::file("write", &wanted.path, &error);
                        not.failed.push((wanted.file, Err(failure)));
                    }
                }
            }
        }
        not.left = left_of(files);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).extend(parts);
        not
    }

    /// Gives files their names once all of them are on the disk. The names are not there before the next flush.
    fn name_all(&self, landing: &Landing) -> Result<Vec<Came>, Failure> {
        let _works = self.at_work.read().unwrap_or_else(PoisonError::into_inner);
        let parts = self.take();
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        flush(landing)?;
        let mut named = Vec::with_capacity(parts.len());
        for Part { written, wanted: Wanted { file, spot, path } } in parts {
            if self.is_given_up() {
                break;
            }
            let persisted = written.persist(spot.path()).map(|()| Some(file.bytes));
            named.push((file, persisted.map_err(|error| Failure::file("write", &path, &error.error))));
        }
        Ok(named)
    }
}

/// Files that were not written, and why.
#[derive(Default)]
struct NotWritten {
    left: Vec<FileRow>,
    failed: Vec<Came>,
}

/// Several files may hold the same, which comes once.
type ByContents = HashMap<Digest, Vec<Wanted>>;

async fn write_all(client: &Client, wanted: Vec<Wanted>, parts: &Parts) -> Result<NotWritten, Failure> {
    let mut by_contents = ByContents::new();
    for one in wanted {
        by_contents.entry(one.file.sha256).or_default().push(one);
    }
    let sizes = by_contents.iter().filter_map(|(sha256, files)| Some((*sha256, files.first()?.file.bytes)));
    let mut packs = pack::divide(sizes.collect::<Vec<_>>()).into_iter();
    let (mut all, mut under_way) = (NotWritten::default(), JoinSet::new());
    loop {
        while under_way.len() < N_TRANSFERS
            && let Some(pack) = packs.next()
        {
            let (client, parts) = (client.clone(), Arc::clone(&parts.0));
            let digests: Vec<Digest> = pack.into_iter().map(|(sha256, _)| sha256).collect();
            let files: ByContents =
                digests.iter().filter_map(|sha256| by_contents.remove_entry(sha256)).collect();
            under_way.spawn(async move {
                match fetch(&client, &digests).await? {
                    Some(pack) => blocking(move || parts.write(&pack, files)).await,
                    None => Ok(NotWritten { left: left_of(files), failed: Vec::new() }),
                }
            });
        }
        let Some(ended) = under_way.join_next().await else { return Ok(all) };
        let not: NotWritten = ended.map_err(|error| Failure::infrastructure(error.to_string()))??;
        all.left.extend(not.left);
        all.failed.extend(not.failed);
    }
}

/// A pack of these; `None`: the manager gives none, as one of an older version.
async fn fetch(client: &Client, digests: &[Digest]) -> Result<Option<Vec<u8>>, Failure> {
    let mut n_tries = 1;
    loop {
        match client.pack(digests).await {
            Ok(pack) => return Ok(Some(pack)),
            Err(error) if error.is_passing() && n_tries < N_TRIES => {
                tokio::time::sleep(PAUSE * n_tries).await;
                n_tries += 1;
            }
            Err(error) if error.is_passing() => return Err(error.into()),
            Err(ClientError::Refused { status, .. }) if matches!(status.as_u16(), 400 | 404 | 405) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn left_of(files: ByContents) -> Vec<FileRow> {
    files.into_values().flatten().map(|wanted| wanted.file).collect()
}

fn write_beside(wanted: &Wanted, contents: &[u8]) -> io::Result<TempPath> {
    let (mut part, prefix) = (tempfile::Builder::new(), parts::prefix());
    let part = part.prefix(&prefix).permissions(PermissionsExt::from_mode(0o666));
    let mut part = part.tempfile_in(wanted.spot.folder())?;
    part.write_all(contents)?;
    if wanted.file.executable {
        make_executable(part.as_file())?;
    }
    Ok(part.into_temp_path())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{BufRead, BufReader, Read},
        net::{TcpListener, TcpStream},
        path::Path,
        thread,
    };

    use protocol::{api::AccessFile, files::objects::PackRequest};

    use super::*;

    /// What a manager has, by what it is asked for.
    type Kept = HashMap<Digest, Vec<u8>>;

    /// A manager that answers requests for packs, or refuses them; says how many it was asked for.
    fn manager(kept: Kept, knows_packs: bool) -> (Client, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let n_asked = Arc::<Mutex<usize>>::default();
        let count = Arc::clone(&n_asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let digests = asked_for(stream.as_ref().unwrap());
                *count.lock().unwrap() += 1;
                let mut packed = Vec::new();
                for sha256 in digests {
                    kept.get(&sha256).into_iter().for_each(|held| pack::push(&mut packed, &sha256, held));
                }
                let status = if knows_packs { "200 OK" } else { "404 Not Found" };
                let body = if knows_packs {
                    packed
                } else {
                    br#"{"error": {"code": "x", "message": "x"}}"#.to_vec()
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.unwrap().write_all(&[head.as_bytes(), &body].concat()).unwrap();
            }
        });
        let words = String::new;
        let access = AccessFile {
            version: 1,
            url,
            certificate_sha256: None,
            user: words(),
            token: words(),
            pid: 1,
            host: words(),
            manager_version: words(),
            folder: None,
        };
        (Client::new(access).unwrap(), n_asked)
    }

    fn asked_for(stream: &TcpStream) -> Vec<Digest> {
        let mut reader = BufReader::new(stream);
        let (mut line, mut n_bytes) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
                n_bytes = length.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; n_bytes];
        reader.read_exact(&mut body).unwrap();
        serde_json::from_slice::<PackRequest>(&body).unwrap().sha256
    }

    fn row(n: usize, contents: &[u8]) -> FileRow {
        FileRow {
            task: 0,
            to: format!("res/{}/{n}", n % 3),
            sha256: sha256::of(contents),
            bytes: contents.len() as u64,
            executable: n == 7,
            left_out: None,
        }
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    fn landing(folder: &Path) -> Arc<Landing> {
        Arc::new(Landing::open(folder, false).unwrap())
    }

    #[tokio::test]
    async fn many_small_files_come_in_a_pack_and_what_is_wrong_is_left_or_told() {
        const N: usize = 100;
        let folder = tempfile::tempdir().unwrap();
        // Two and two hold the same.
        let contents = |n: usize| (n / 2).to_string().into_bytes();
        let mut files: Vec<FileRow> = (0..N).map(|n| row(n, &contents(n))).collect();
        let mut kept: Kept = (0..N).map(|n| (sha256::of(&contents(n)), contents(n))).collect();
        // One that is not there, one that is rotten, and one that is too large.
        files.extend([row(N, b"missing"), row(N + 1, b"right"), row(N + 2, &vec![1; 100 << 10])]);
        kept.insert(sha256::of(b"right"), b"wrong".to_vec());
        // One that is there already, and one that is the user's.
        fs::create_dir_all(folder.path().join("res/1")).unwrap();
        fs::write(folder.path().join("res/1/4"), contents(4)).unwrap();
        fs::write(folder.path().join("res/1/1"), "mine").unwrap();
        let (client, n_asked) = manager(kept, true);
        let Brought { came, mut left } = bring(&client, &landing(folder.path()), files).await.unwrap();
        assert_eq!(*n_asked.lock().unwrap(), 1);
        left.sort_by_key(|file| file.to.len() * 1000 + usize::from(file.to.as_bytes()[4]));
        let left: Vec<&str> = left.iter().map(|file| file.to.as_str()).collect();
        assert_eq!(left, ["res/0/102", "res/1/100", "res/2/101"]);
        let mut n_written = 0;
        for (file, came) in came {
            let n: usize = file.to.rsplit_once('/').unwrap().1.parse().unwrap();
            let path = folder.path().join(&file.to);
            match (n, came) {
                (4, came) => assert_eq!(came, Ok(None)),
                (1, came) => {
                    assert!(came.unwrap_err().message().contains("was not brought by Pilotfish"));
                    assert_eq!(fs::read(&path).unwrap(), b"mine");
                    continue;
                }
                (_, came) => {
                    n_written += 1;
                    assert_eq!(came, Ok(Some(contents(n).len() as u64)), "{n}");
                }
            }
            assert_eq!(fs::read(&path).unwrap(), contents(n), "{n}");
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o100 != 0, n == 7, "{n}");
        }
        assert_eq!(n_written, N - 2);
        let all: Vec<String> =
            (0..3).flat_map(|n| names_in(&folder.path().join(format!("res/{n}")))).collect();
        assert_eq!(all.len(), N, "nothing else is there: {all:?}");
    }

    #[tokio::test]
    async fn files_of_an_older_manager_and_few_files_are_left_for_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<FileRow> = (0..100).map(|n| row(n, n.to_string().as_bytes())).collect();
        let (client, n_asked) = manager(Kept::new(), false);
        let few = files[..N_PACKED_MIN - 1].to_vec();
        let Brought { came, left } = bring(&client, &landing(folder.path()), few.clone()).await.unwrap();
        assert_eq!((came.len(), left, *n_asked.lock().unwrap()), (0, few, 0));
        let Brought { came, left } = bring(&client, &landing(folder.path()), files).await.unwrap();
        assert_eq!((came.len(), left.len(), *n_asked.lock().unwrap()), (0, 100, 1));
    }

    #[test]
    fn what_was_written_and_got_no_name_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let landing = landing(folder.path());
        let files = |n: usize| {
            let mut files = vec![row(n, b"one")];
            let Looked { mut wanted, .. } = look(&landing, &mut files);
            ByContents::from([(sha256::of(b"one"), vec![wanted.remove(0)])])
        };
        let mut packed = Vec::new();
        pack::push(&mut packed, &sha256::of(b"one"), b"one");
        let parts = Parts::default();
        let shared = Arc::clone(&parts.0);
        assert!(shared.write(&packed, files(0)).failed.is_empty());
        let written = folder.path().join("res/0");
        assert_eq!(names_in(&written).len(), 1);
        drop(parts);
        assert_eq!(names_in(&written).len(), 0);
        // A thread that comes later writes nothing.
        shared.write(&packed, files(3));
        assert_eq!(names_in(&written).len(), 0);
    }

    #[test]
    fn no_more_folders_are_held_open_than_a_process_may() {
        let folder = tempfile::tempdir().unwrap();
        let landing = landing(folder.path());
        let mut files: Vec<FileRow> =
            (0..N_FOLDERS_MAX + 10).map(|n| FileRow { to: format!("{n}/x"), ..row(n, b"one") }).collect();
        assert_eq!(look(&landing, &mut files).wanted.len(), N_FOLDERS_MAX);
        assert_eq!(look(&landing, &mut files).wanted.len(), 10);
        assert!(files.is_empty());
    }
}
