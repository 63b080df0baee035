//! Files of a job between this machine and its manager: what tasks need goes there before the job does, what
//! they have left comes back. Files are known by what they hold, so that nothing is sent twice.

mod packed;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fs::{self, File},
    io::{self, IsTerminal, Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use agent::{staging::cache::hash_of, sys::sha256};
use protocol::{
    files::{
        objects::{FileRow, N_ASKED_MAX},
        pack::{self, N_PACKED_MIN, PACKED_BYTES_MAX},
    },
    job::{Compiled, JobSpec, LocalFile, Objects, StorePlace, TaskOutputFile},
};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
};
use tokio::task::JoinSet;

use crate::{
    client::{Client, ClientError},
    failure::{Failure, words},
    landing::{Landing, Place, Spot, taken_by},
    show::{
        self,
        format::{bytes, counted},
    },
};

/// Files on their way at a time.
const N_TRANSFERS: usize = 4;
/// Files that are read at a time.
const N_READERS_MAX: usize = 4;
/// A transfer whose connection broke is begun anew so often.
const N_TRIES: u32 = 4;
/// What was left out is told of so many files at most.
const N_LEFT_OUT_TOLD: usize = 5;
/// The pause before that; longer each time.
const PAUSE: Duration = Duration::from_secs(1);
/// The line that shows how it goes is written so often.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Files here that a job needs, by what they hold.
#[derive(Debug, Default)]
pub struct Sources {
    files: HashMap<Digest, (PathBuf, u64)>,
}

impl Sources {
    /// Reads all files that the job needs from here, and writes into the job what they hold.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(spec: &mut JobSpec) -> Result<Sources, Failure> {
        let mut sources = Sources::default();
        if spec.inputs.is_empty() {
            return Ok(sources);
        }
        let local = spec.compile()?.local_files();
        let mut objects = vec![Objects::default(); spec.inputs.len()];
        let known = read_files(&local)?;
        for LocalFile { input, path } in local {
            let Some(Facts { sha256, n_bytes, is_executable }) = known.get(&path).copied() else { continue };
            sources.files.entry(sha256).or_insert((path, n_bytes));
            let objects = &mut objects[input];
            if is_executable {
                objects.executable.push(objects.sha256.len() as u64);
            }
            objects.sha256.push(sha256);
            objects.bytes.push(n_bytes);
        }
        for (input, objects) in spec.inputs.iter_mut().zip(objects) {
            input.objects = objects;
        }
        Ok(sources)
    }

    /// Brings the manager what it does not have.
    ///
    /// # Errors
    /// A file has changed since it was read, or the manager does not take it.
    pub async fn bring(&self, client: &Client) -> Result<(), Failure> {
        let all: Vec<Digest> = self.files.keys().copied().collect();
        let mut missing = Vec::new();
        for asked in all.chunks(N_ASKED_MAX) {
            missing.extend(client.missing_objects(asked).await?);
        }
        let mut shown = Shown::new("sending", missing.len() as u64);
        let mut waiting = self.portions(missing).into_iter();
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < N_TRANSFERS
                && let Some(portion) = waiting.next()
            {
                let client = client.clone();
                under_way.spawn(async move { send_all(&client, &portion).await.map(|()| portion) });
            }
            let Some(sent) = under_way.join_next().await else { break };
            let sent = sent.map_err(|error| Failure::infrastructure(error.to_string()))??;
            sent.iter().for_each(|(_, n_bytes)| shown.add(*n_bytes));
        }
        shown.end();
        Ok(())
    }
}

/// What a file is.
#[derive(Clone, Copy)]
struct Facts {
    sha256: Digest,
    n_bytes: u64,
    is_executable: bool,
}

impl Facts {
    fn of(path: &Path) -> Result<Facts, Failure> {
        let facts = File::open(path).and_then(|file| {
            let (sha256, n_bytes) = hash_of(&file)?;
            Ok(Facts { sha256, n_bytes, is_executable: file.metadata()?.mode() & 0o100 != 0 })
        });
        facts.map_err(|error| Failure::file("read", path, &error))
    }
}

/// Reads these files, each once, on a few threads.
fn read_files(local: &[LocalFile]) -> Result<HashMap<PathBuf, Facts>, Failure> {
    let mut seen = HashSet::new();
    let paths: Vec<&Path> =
        local.iter().map(|file| file.path.as_path()).filter(|path| seen.insert(*path)).collect();
    let mut shown = Shown::new("reading", paths.len() as u64);
    let n_threads =
        thread::available_parallelism().map_or(1, usize::from).min(N_READERS_MAX).min(paths.len());
    let (next, mut known) = (AtomicUsize::new(0), HashMap::with_capacity(paths.len()));
    let (tell, read) = mpsc::channel();
    let failed = thread::scope(|scope| {
        for _ in 0..n_threads {
            let (tell, next, paths) = (tell.clone(), &next, &paths);
            scope.spawn(move || {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed))
                    && tell.send((*path, Facts::of(path))).is_ok()
                {}
            });
        }
        drop(tell);
        for (path, facts) in read {
            let facts: Facts = facts?;
            shown.add(facts.n_bytes);
            known.insert(path.to_owned(), facts);
        }
        Ok(())
    });
    shown.end();
    failed.map(|()| known)
}

/// Files that go together, each with its size.
type Portion = Vec<((Digest, PathBuf), u64)>;

impl Sources {
    /// What goes together: small files in packs, if there are enough of them, and each other file alone.
    fn portions(&self, missing: Vec<Digest>) -> Vec<Portion> {
        let known = missing.into_iter().filter_map(|sha256| {
            let (path, n_bytes) = self.files.get(&sha256)?;
            Some(((sha256, path.clone()), *n_bytes))
        });
        let (small, large): (Portion, Portion) = known.partition(|(_, n_bytes)| *n_bytes <= PACKED_BYTES_MAX);
        let (packed, alone) = match small.len() >= N_PACKED_MIN {
            true => (pack::divide(small), large),
            false => (Vec::new(), [large, small].concat()),
        };
        packed.into_iter().chain(alone.into_iter().map(|file| vec![file])).collect()
    }
}

/// Sends a pack, or a file. What the manager does not take as a pack goes file by file: it may be of an older version, and
/// of a file that has changed it is said which it is.
async fn send_all(client: &Client, portion: &Portion) -> Result<(), Failure> {
    if portion.len() > 1 {
        let files = portion.clone();
        let read = tokio::task::spawn_blocking(move || read_all(&files)).await;
        let pack = read.map_err(|error| Failure::infrastructure(error.to_string()))?;
        if let Some(pack) = pack? {
            let mut n_tries = 1;
            loop {
                match client.put_pack(pack.clone()).await {
                    Ok(()) => return Ok(()),
                    Err(error) if error.is_passing() && n_tries < N_TRIES => {
                        tokio::time::sleep(PAUSE * n_tries).await;
                        n_tries += 1;
                    }
                    Err(ClientError::Refused { status, .. })
                        if matches!(status.as_u16(), 400 | 404 | 405 | 413 | 422) =>
                    {
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    for ((sha256, path), n_bytes) in portion {
        send(client, path, *sha256, *n_bytes).await?;
    }
    Ok(())
}

/// The pack of these files; `None`: one of them has grown.
fn read_all(files: &Portion) -> Result<Option<Vec<u8>>, Failure> {
    let mut pack = Vec::new();
    for ((sha256, path), n_bytes) in files {
        let mut contents = Vec::new();
        let read = File::open(path).and_then(|file| file.take(n_bytes + 1).read_to_end(&mut contents));
        read.map_err(|error| Failure::file("read", path, &error))?;
        if contents.len() as u64 > *n_bytes {
            return Ok(None);
        }
        pack::push(&mut pack, sha256, &contents);
    }
    Ok(Some(pack))
}

async fn send(client: &Client, path: &Path, sha256: Digest, n_bytes: u64) -> Result<(), Failure> {
    let mut n_tries = 1;
    loop {
        let file = File::open(path).map_err(|error| Failure::file("read", path, &error))?;
        match client.put_object(&sha256, file, n_bytes).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_passing() && n_tries < N_TRIES => {
                tokio::time::sleep(PAUSE * n_tries).await;
                n_tries += 1;
            }
            Err(ClientError::Refused { status, .. }) if status.as_u16() == 422 => {
                let line = format!("{} has changed while it was sent; submit again", path.display());
                return Err(Failure::infrastructure(line));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// What came back of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Fetched {
    /// Files that were written.
    pub n_files: u64,
    /// What they have together.
    pub n_bytes: u64,
    /// Files that were there already and are the same.
    pub n_same: u64,
    /// Files that are where nodes see them or in a store, and stay there.
    pub n_elsewhere: u64,
    /// Those of them that are in a store.
    pub n_in_stores: u64,
    /// What tasks have left and could not be delivered.
    pub n_left_out: u64,
    /// The first of it, with the reasons.
    pub left_out: Vec<String>,
    /// Files that may not be written here, or could not be.
    pub n_refused: u64,
    /// The first of them, with the reasons.
    pub refused: Vec<String>,
}

impl Fetched {
    fn refuse(&mut self, job: JobId, file: &FileRow, why: &str) {
        self.n_refused += 1;
        if self.refused.len() < N_LEFT_OUT_TOLD {
            self.refused.push(format!("{} of task {job}.{}: {why}", file.to, file.task));
        }
    }

    /// A task of the same job or workflow has left something else under that name.
    fn refuse_taken(&mut self, job: JobId, file: &FileRow, other: TaskId) {
        let task = TaskId { job, index: file.task };
        self.refuse(job, file, &taken_by(other, task));
    }

    /// The same where nodes see files, or in a store: only one of the two is there.
    fn overwritten(&mut self, job: JobId, file: &FileRow, other: TaskId) {
        let why = format!(
            "task {other} has left one of that name there, and one has overwritten the other; a parameter in `to` keeps \
             them apart"
        );
        self.refuse(job, file, &why);
    }

    /// What came, unless something did not.
    ///
    /// # Errors
    /// Files that may not be written here, or could not be: all others have come.
    pub fn whole(&self) -> Result<(), Failure> {
        if self.n_refused == 0 {
            return Ok(());
        }
        let more = match self.n_refused - self.refused.len() as u64 {
            0 => String::new(),
            n => format!("; and {n} more"),
        };
        let refused = counted(self.n_refused, "file");
        Err(Failure::infrastructure(format!("{refused} not written: {}{more}", self.refused.join("; "))))
    }
}

/// Brings home the files that a job's tasks have left, or those of one of them. One that may not be written here does
/// not keep others from it: [`Fetched::whole`] says which.
///
/// # Errors
/// The manager does not answer as it should.
pub async fn fetch(
    client: &Client,
    (job, spec): (JobId, &JobSpec),
    task: Option<u64>,
    (landing, claims): (Landing, &Claims),
) -> Result<Fetched, Failure> {
    let landing = Arc::new(landing.of_job(job, &workflow_of(client, job).await?));
    let compiled = spec.compile()?;
    let (mut fetched, mut after) = (Fetched::default(), None);
    let mut shown = Shown::new("fetching", 0);
    let mut under_way = JoinSet::new();
    loop {
        let page = client.files(job, task, after).await?;
        let (mut brought, mut expected) = (Vec::new(), Expected::new(&compiled, job));
        let mut taken = Vec::new();
        let mut wanted = Vec::new();
        for file in last_ones(page.files) {
            if !expected.has(&file, &mut fetched) {
                continue;
            }
            match (claims.claim(job, &file), is_elsewhere(&file)) {
                (Claimed::Taken(other), true) => fetched.overwritten(job, &file, other),
                (Claimed::Own | Claimed::Same, true) => {
                    fetched.n_elsewhere += 1;
                    fetched.n_in_stores += u64::from(StorePlace::parse(&file.to).is_some());
                }
                (Claimed::Own, false) => wanted.push(file),
                (Claimed::Same, false) => fetched.n_same += 1,
                (Claimed::Taken(other), false) => taken.push((file, other)),
            }
        }
        let packed::Brought { came, left } = packed::bring(client, &landing, wanted).await?;
        for (file, came) in came {
            note(&landing, (file, came), (&mut fetched, &mut brought), &mut shown);
        }
        for file in left {
            while under_way.len() >= N_TRANSFERS {
                take(&landing, &mut under_way, (&mut fetched, &mut brought), &mut shown).await?;
            }
            let (client, landing) = (client.clone(), landing.clone());
            under_way.spawn(async move {
                let came = bring_home(&client, &file, &landing).await;
                (file, came)
            });
        }
        while !under_way.is_empty() {
            take(&landing, &mut under_way, (&mut fetched, &mut brought), &mut shown).await?;
        }
        for (file, other) in taken {
            match landing.place(&file.to, &file.sha256, file.task) {
                Ok(Place::Same(_)) => fetched.n_same += 1,
                Ok(Place::Free(_)) | Err(_) => fetched.refuse_taken(job, &file, other),
            }
        }
        if let Err(error) = landing.note(brought) {
            show::say(&format!(
                "warning: it cannot be noted which files were brought ({}): the next time they are replaced only with \
                 --overwrite",
                words(&error)
            ));
        }
        after = page.next;
        if after.is_none() {
            shown.end();
            return Ok(fetched);
        }
    }
}

/// Names the workflow of a job, or the job, unlike any other of any manager: by its first job, which may be purged, and the
/// time of submission, which all stages share.
async fn workflow_of(client: &Client, job: JobId) -> Result<String, Failure> {
    let view = client.job(job).await?;
    Ok(format!("{}@{}", view.workflow.unwrap_or(job), view.submitted_at.0))
}

/// Whether a file is where nodes see it, or in a store.
fn is_elsewhere(file: &FileRow) -> bool {
    file.to.contains("://")
}

/// Of a task that succeeded twice, as after `retry`, the last is meant: in the order of arrival.
fn last_ones(files: Vec<FileRow>) -> Vec<FileRow> {
    let mut last: HashMap<(u64, &str), usize> = HashMap::new();
    files.iter().enumerate().for_each(|(n, file)| _ = last.insert((file.task, &file.to), n));
    let wanted: HashSet<usize> = last.into_values().collect();
    let numbered = files.into_iter().enumerate();
    numbered.filter(|(n, _)| wanted.contains(n)).map(|(_, file)| file).collect()
}

/// Which task has left the file that goes to a place, and what it holds, of all files that were looked at: two tasks of a
/// job or a workflow must not overwrite each other's. Cheap to clone, and shared by the stages of a workflow.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<HashMap<Short, (TaskId, Short)>>>);

/// The first half of a digest: a place is told from others by that of its name, as there may be millions.
type Short = [u8; 16];

fn short(sha256: &Digest) -> Short {
    let mut short = [0; 16];
    short.copy_from_slice(&sha256.0[..16]);
    short
}

/// Whose place it is where a file goes.
enum Claimed {
    /// Nobody else's.
    Own,
    /// Another task has left the same there.
    Same,
    /// Another task has left something else there.
    Taken(TaskId),
}

impl Claims {
    fn claim(&self, job: JobId, file: &FileRow) -> Claimed {
        let (task, sha256) = (TaskId { job, index: file.task }, short(&file.sha256));
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match claims.entry(short(&sha256::of(file.to.as_bytes()))) {
            Entry::Occupied(held) if held.get().0 != task => match held.get() {
                (_, same) if *same == sha256 => Claimed::Same,
                (other, _) => Claimed::Taken(*other),
            },
            Entry::Occupied(mut own) => {
                own.insert((task, sha256));
                Claimed::Own
            }
            Entry::Vacant(free) => {
                free.insert((task, sha256));
                Claimed::Own
            }
        }
    }
}

/// What a job says that its tasks leave.
struct Expected<'c> {
    compiled: &'c Compiled,
    job: JobId,
    /// Of the task that was asked about last: a task may leave many files.
    outputs: Option<(u64, Vec<TaskOutputFile>)>,
}

impl<'c> Expected<'c> {
    fn new(compiled: &'c Compiled, job: JobId) -> Expected<'c> {
        Expected { compiled, job, outputs: None }
    }

    /// Whether a file is there as the job says. If not, `fetched` says why.
    fn has(&mut self, file: &FileRow, fetched: &mut Fetched) -> bool {
        if let Some(why) = &file.left_out {
            fetched.n_left_out += 1;
            if fetched.left_out.len() < N_LEFT_OUT_TOLD {
                fetched.left_out.push(format!("{} of task {}.{}: {why}", file.to, self.job, file.task));
            }
            return false;
        }
        if is_elsewhere(file) {
            return true;
        }
        let is_declared = self.is_declared(file);
        if !is_declared {
            fetched.refuse(self.job, file, "the job does not declare it");
        }
        is_declared
    }

    /// Whether the job says that this task leaves a file there.
    fn is_declared(&mut self, file: &FileRow) -> bool {
        if self.outputs.as_ref().is_none_or(|(task, _)| *task != file.task) {
            let outputs = self.compiled.outputs(self.job.0, file.task).unwrap_or_default();
            self.outputs = Some((file.task, outputs));
        }
        self.outputs.iter().flat_map(|(_, outputs)| outputs).any(|output| output.may_go_to(&file.to))
    }
}

/// Files that came with their sizes, or `None`: they were there.
type Coming = JoinSet<packed::Came>;

/// Files that were brought, each with the task that has left it.
type Noted = Vec<(String, Digest, u64)>;

async fn take(
    landing: &Landing,
    under_way: &mut Coming,
    to: (&mut Fetched, &mut Noted),
    shown: &mut Shown,
) -> Result<(), Failure> {
    let Some(came) = under_way.join_next().await else { return Ok(()) };
    let came = came.map_err(|error| Failure::infrastructure(error.to_string()))?;
    note(landing, came, to, shown);
    Ok(())
}

/// Counts a file.
fn note(
    landing: &Landing,
    (file, came): packed::Came,
    (fetched, brought): (&mut Fetched, &mut Noted),
    shown: &mut Shown,
) {
    match came {
        Ok(Some(n_bytes)) => {
            fetched.n_files += 1;
            fetched.n_bytes += n_bytes;
            shown.add(n_bytes);
            brought.push((file.to, file.sha256, file.task));
        }
        Ok(None) => {
            fetched.n_same += 1;
            if landing.is_inherited(&file.to, &file.sha256) {
                brought.push((file.to, file.sha256, file.task));
            }
        }
        Err(failure) => fetched.refuse(landing.job(), &file, &failure.message()),
    }
}

async fn bring_home(client: &Client, file: &FileRow, landing: &Landing) -> Result<Option<u64>, Failure> {
    let path = landing.folder().join(&file.to);
    let spot = match landing.place(&file.to, &file.sha256, file.task).map_err(Failure::infrastructure)? {
        Place::Free(spot) => spot,
        Place::Same(there) => {
            if file.executable {
                make_executable(&there).map_err(|error| Failure::file("make executable", &path, &error))?;
            }
            return Ok(None);
        }
    };
    let mut n_tries = 1;
    loop {
        match download(client, file, (&spot, &path)).await {
            Ok(()) => return Ok(Some(file.bytes)),
            Err(Trouble::Passing(_)) if n_tries < N_TRIES => {
                tokio::time::sleep(PAUSE * n_tries).await;
                n_tries += 1;
            }
            Err(Trouble::Passing(failure) | Trouble::Lasting(failure)) => return Err(failure),
        }
    }
}

enum Trouble {
    Passing(Failure),
    Lasting(Failure),
}

/// Whole, checked, under its name at once; else nothing of it. Messages show the path.
async fn download(client: &Client, file: &FileRow, (spot, path): (&Spot, &Path)) -> Result<(), Trouble> {
    let failed = |what: &str, error: &io::Error| Trouble::Lasting(Failure::file(what, path, error));
    let of_client = |error: ClientError| match error.is_passing() {
        true => Trouble::Passing(error.into()),
        false => Trouble::Lasting(error.into()),
    };
    let (mut part, prefix) = (tempfile::Builder::new(), agent::sys::parts::prefix());
    let part = part.prefix(&prefix).permissions(PermissionsExt::from_mode(0o666));
    let mut part = part.tempfile_in(spot.folder()).map_err(|error| failed("write beside", &error))?;
    let mut response = client.object(&file.sha256).await.map_err(of_client)?;
    while let Some(chunk) = response.chunk().await.map_err(|error| of_client(client.cut_off(&error)))? {
        part.write_all(&chunk).map_err(|error| failed("write", &error))?;
    }
    let written = part.as_file().sync_all().and_then(|()| hash_of(&part.reopen()?));
    let (sha256, _) = written.map_err(|error| failed("write", &error))?;
    if sha256 != file.sha256 {
        let line = format!("{} arrived with other contents than the task has left", path.display());
        return Err(Trouble::Passing(Failure::infrastructure(line)));
    }
    if file.executable {
        make_executable(part.as_file()).map_err(|error| failed("make executable", &error))?;
    }
    part.persist(spot.path()).map_err(|error| failed("write", &error.error))?;
    Ok(())
}

/// Whoever may read it may execute it.
fn make_executable(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.mode();
    let wanted = mode | (mode & 0o444) >> 2;
    if wanted != mode {
        file.set_permissions(fs::Permissions::from_mode(wanted))?;
    }
    Ok(())
}

/// After a job has been waited for: its files come home, if it has any.
///
/// # Errors
/// As for [`fetch`] and [`Fetched::whole`].
pub async fn fetch_home(
    client: &Client,
    job: JobId,
    spec: &JobSpec,
    how: Fetching<'_>,
) -> Result<(), Failure> {
    let Fetching { is_quiet, overwrites, claims } = how;
    if spec.outputs.is_empty() {
        return Ok(());
    }
    let landing = Landing::open(&spec.base_dir, overwrites);
    let landing = landing.map_err(|error| Failure::file("open", &spec.base_dir, &error))?;
    let fetched = fetch(client, (job, spec), None, (landing, claims)).await?;
    if !is_quiet && (fetched.n_files > 0 || fetched.n_left_out > 0) {
        show::say(&line(&fetched, &spec.base_dir));
    }
    warn_of_left_out(&fetched);
    fetched.whole()
}

/// How files come home.
#[derive(Clone, Copy, Debug)]
pub struct Fetching<'c> {
    /// Nothing is said of what came.
    pub is_quiet: bool,
    /// Files may be replaced that others have put there, or changed.
    pub overwrites: bool,
    /// Where files of other stages have gone.
    pub claims: &'c Claims,
}

/// Says what tasks have left and could not be delivered.
pub fn warn_of_left_out(fetched: &Fetched) {
    for line in &fetched.left_out {
        show::say(&format!("warning: left out: {line}"));
    }
    match fetched.n_left_out - fetched.left_out.len() as u64 {
        0 => {}
        n => show::say(&format!(
            "warning: left out: {} more; `pilotfish explain task` names them",
            counted(n, "file")
        )),
    }
}

/// `12 files (3.4 MiB) in /home/ada/dock`
pub fn line(fetched: &Fetched, folder: &Path) -> String {
    let same = match fetched.n_same {
        0 => String::new(),
        n => format!(", {} there already", counted(n, "file")),
    };
    let seen_by_nodes = match fetched.n_elsewhere.saturating_sub(fetched.n_in_stores) {
        0 => String::new(),
        1 => ", 1 file where nodes see it".to_owned(),
        n => format!(", {} where nodes see them", counted(n, "file")),
    };
    let in_stores = match fetched.n_in_stores {
        0 => String::new(),
        1 => ", 1 file in its store".to_owned(),
        n => format!(", {} in their stores", counted(n, "file")),
    };
    let left_out = match fetched.n_left_out {
        0 => String::new(),
        n => format!(", {} left out", counted(n, "file")),
    };
    format!(
        "fetched {} ({}) to {}{same}{seen_by_nodes}{in_stores}{left_out}",
        counted(fetched.n_files, "file"),
        bytes(fetched.n_bytes),
        folder.display()
    )
}

/// What a job needs from here, for people: `3 files, 2.0 MiB`.
///
/// # Errors
/// The job is wrong.
pub fn needs(spec: &JobSpec) -> Result<Option<(u64, u64)>, Failure> {
    if spec.inputs.is_empty() {
        return Ok(None);
    }
    let paths: HashSet<PathBuf> = spec.compile()?.local_files().into_iter().map(|file| file.path).collect();
    let n_bytes = paths.iter().filter_map(|path| fs::metadata(path).ok()).map(|facts| facts.len()).sum();
    Ok(Some((paths.len() as u64, n_bytes)))
}

/// A line on a terminal that tells how far it is; nothing elsewhere, and nothing of what is over at once.
struct Shown {
    what: &'static str,
    n_all: u64,
    n_done: u64,
    n_bytes: u64,
    shown_at: Instant,
    is_shown: bool,
    is_terminal: bool,
}

impl Shown {
    fn new(what: &'static str, n_all: u64) -> Shown {
        let is_terminal = io::stderr().is_terminal();
        Shown { what, n_all, n_done: 0, n_bytes: 0, shown_at: Instant::now(), is_shown: false, is_terminal }
    }

    fn add(&mut self, n_bytes: u64) {
        self.n_done += 1;
        self.n_bytes += n_bytes;
        if !self.is_terminal || self.shown_at.elapsed() < SHOWN_EVERY {
            return;
        }
        (self.shown_at, self.is_shown) = (Instant::now(), true);
        let of = if self.n_all > 0 { format!(" of {}", self.n_all) } else { String::new() };
        // Who cannot be shown it misses nothing.
        let _ =
            write!(io::stderr(), "\r\x1b[K{} file {}{of}, {}", self.what, self.n_done, bytes(self.n_bytes));
    }

    fn end(self) {
        if self.is_shown {
            // As above.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use protocol::{
        files::objects::FileRow,
        job::{CommandLine, JobSpec, Output, WorkDirPolicy},
    };
    use scheduler::{digest::Digest, ids::JobId};

    use super::Expected;

    #[test]
    fn file_that_the_job_does_not_declare_is_not_brought() {
        let command = CommandLine::Args(vec!["true".to_owned()]);
        let output = Output { from: "out".into(), to: "res/{index}".into(), ..Output::default() };
        let spec = JobSpec {
            outputs: vec![output],
            workdir: WorkDirPolicy::Scratch,
            ..JobSpec::new(command, PathBuf::from("/home/ada"))
        };
        let compiled = spec.compile().unwrap();
        let is_brought = |to: &str| {
            let sha256 = Digest([0; 32]);
            let to = to.to_owned();
            let file = FileRow { task: 0, to, sha256, bytes: 1, executable: false, left_out: None };
            Expected::new(&compiled, JobId(1)).is_declared(&file)
        };
        assert!(is_brought("res/0"));
        for to in [".bashrc", "res/1", "res/0/../../x", "res"] {
            assert!(!is_brought(to), "{to}");
        }
    }
}
