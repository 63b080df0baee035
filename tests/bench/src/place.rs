//! Managers to measure, each a process of its own in a folder of its own, both gone at the end.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use manager::security::tokens::Tokens;
use protocol::api::AccessFile;
use rusqlite::{Connection, OpenFlags};

use crate::{Trouble, api::Api, measure};

/// A manager is there within this time, or never.
const START_LIMIT: Duration = Duration::from_secs(60);
/// What marks the processes of one manager, its agents included.
const MARK: &str = "PILOTFISH_BENCH";

static N_FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A temporary folder.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub fn new() -> Result<Folder, Trouble> {
        let n = N_FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pilotfish-bench-{}-{n}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Pilots that a manager expects from nowhere: they are simulated, so nothing starts them.
#[derive(Clone, Copy)]
pub struct Expected {
    pub n_pilots: u32,
    pub cores: u32,
    /// Whether the manager withholds tasks after its start, as it does as shipped, until it has heard
    /// from all pilots of before; where there are none it only costs.
    pub has_grace: bool,
}

impl Expected {
    /// As shipped.
    pub const fn new(n_pilots: u32, cores: u32) -> Expected {
        Expected { n_pilots, cores, has_grace: true }
    }
}

/// A running manager.
pub struct Place {
    pub folder: Folder,
    pub access: AccessFile,
    /// How the tags of allocations begin; empty with real agents.
    pub tag_prefix: String,
    child: Child,
}

impl Place {
    /// This program's `serve`: the manager's library with pilots that come by themselves.
    pub fn simulated(expected: Expected) -> Result<Place, Trouble> {
        Place::start(Folder::new()?, serving(expected)?)
    }

    /// `pilotfish serve` with agents of two cores on this host.
    pub fn real() -> Result<Place, Trouble> {
        let mut command = Command::new(program()?);
        command.args(["serve", "--quiet", "--cores", "2"]);
        Place::start(Folder::new()?, command)
    }

    /// Kills the manager and starts another one like it in the same folder; also says how long the
    /// new one took until it answered.
    pub fn restarted(mut self, expected: Expected) -> Result<(Place, Duration), Trouble> {
        self.kill();
        let folder = std::mem::replace(&mut self.folder, Folder::new()?);
        let began = Instant::now();
        let place = Place::start(folder, serving(expected)?)?;
        Ok((place, began.elapsed()))
    }

    fn start(folder: Folder, mut command: Command) -> Result<Place, Trouble> {
        let access_path = folder.path().join("access.json");
        // That of a manager that was killed.
        let _ = fs::remove_file(&access_path);
        command.args(["--dir"]).arg(folder.path()).env(MARK, folder.path());
        let log = fs::File::create(folder.path().join("manager.log"))?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?;
        let began = Instant::now();
        let ready = folder.path().join("ready");
        let is_simulated = command.get_args().any(|word| word == "--pilots");
        loop {
            let text = fs::read(&access_path).ok().filter(|_| !is_simulated || ready.exists());
            if let Some(access) = text.and_then(|text| serde_json::from_slice(&text).ok()) {
                let tag_prefix = fs::read_to_string(&ready).unwrap_or_default();
                // The next life writes it anew.
                let _ = fs::remove_file(&ready);
                return Ok(Place { folder, access, tag_prefix, child });
            }
            if began.elapsed() > START_LIMIT || child.try_wait()?.is_some() {
                let log = fs::read_to_string(folder.path().join("manager.log")).unwrap_or_default();
                return Err(format!("the manager did not start: {log}").into());
            }
            pause();
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Speaks to it as its owner.
    pub fn api(&self) -> Result<Api, Trouble> {
        Api::new(&self.access)
    }

    /// The tags and join tokens of its allocations number `from` to `to`, the last one excluded.
    pub fn joins(&self, from: u32, to: u32) -> Result<Vec<(String, String)>, Trouble> {
        let tokens = Tokens::open(self.folder.path())?;
        let join = |n: u32| {
            let tag = format!("{}{n}", self.tag_prefix);
            let token = tokens.join(&tag);
            (tag, token)
        };
        Ok((from..to).map(join).collect())
    }

    /// Guards and workers of its real agents.
    pub fn agents(&self) -> Vec<u32> {
        measure::processes(&self.mark(), "agent run ")
    }

    /// Bytes of its store's pages that are in use, wherever they are: in its file or still in its log.
    pub fn store_bytes(&self) -> Result<u64, Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let store = Connection::open_with_flags(self.folder.path().join("store.sqlite"), flags)?;
        let number =
            |name| store.pragma_query_value(None, name, |row| row.get::<_, i64>(0).map(i64::unsigned_abs));
        Ok((number("page_count")? - number("freelist_count")?) * number("page_size")?)
    }

    fn mark(&self) -> String {
        format!("{MARK}={}", self.folder.path().display())
    }

    fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.kill();
        for pid in measure::processes(&self.mark(), "") {
            // SAFETY: no memory is passed. It may have ended by itself.
            unsafe { libc::kill(i32::try_from(pid).unwrap_or(i32::MAX), libc::SIGKILL) };
        }
    }
}

fn serving(expected: Expected) -> Result<Command, Trouble> {
    let mut command = Command::new(std::env::current_exe()?);
    let Expected { n_pilots, cores, has_grace } = expected;
    command.args(["serve", "--pilots", &n_pilots.to_string(), "--cores", &cores.to_string()]);
    if !has_grace {
        command.arg("--no-grace");
    }
    Ok(command)
}

/// The `pilotfish` that was built beside this program.
pub fn program() -> Result<PathBuf, Trouble> {
    let program = std::env::current_exe()?.with_file_name("pilotfish");
    match program.exists() {
        true => Ok(program),
        false => {
            Err(format!("{} is missing: start tests/bench/run, which builds it", program.display()).into())
        }
    }
}

/// Two milliseconds, for loops that ask again and again.
pub fn pause() {
    std::thread::park_timeout(Duration::from_millis(2));
}
