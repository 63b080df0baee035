//! Starts a manager: opens the store, restores the engine, starts its threads, listens, attaches platforms.

pub(crate) mod error;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, mpsc::SyncSender},
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use protocol::api::{AccessFile, Reloaded};
use scheduler::{
    engine::{
        Engine,
        interface::{Event, LeftThere, PlanRequest, settings::Settings},
        record::Record,
    },
    time::Span,
};
use tokio::sync::{mpsc, watch};

use crate::{
    api::{self, ApiState, ConnectionLimits},
    budgets::{Budgets, OutputQuotas},
    config::{Config, Reload, scheme},
    doors::{Arrival, Doors},
    engine_loop::{
        clock::Clock,
        commit::{self, Pending},
        driver,
        farewell::Farewell,
        handle::Handle,
        perform::{End, Performer},
    },
    files::{collect, objects::Objects, stores::Stores},
    home::{self, Home, Welcome},
    numbers::Numbers,
    platforms::{
        self,
        agent_file::AgentFile,
        attach::{Attacher, make_join, surroundings},
        order::Order,
    },
    quotas::CurrentQuotas,
    reserve::Reserve,
    security::{
        accounts,
        private_file::write_private,
        tls::Identity,
        tokens::{SECRET_FILE, Tokens},
        users::{self, Users},
    },
    socket::bind,
    store::{Store, StoreError},
};
use error::N_FILES_MIN;
pub use error::StartError;

/// The access file's name in the manager's folder.
pub const ACCESS_FILE: &str = "access.json";
/// Remembers the port, so that pilots find a restarted manager.
const PORT_FILE: &str = "port";

/// Why a manager ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("the manager stopped: {0}")]
pub struct ManagerError(String);

/// A running manager.
pub struct Manager {
    access: AccessFile,
    users: Arc<Users>,
    handle: Handle,
    attacher: Attacher,
    quotas: CurrentQuotas,
    /// Until somebody takes them up.
    reloads: Option<mpsc::Receiver<Reload>>,
    ended: watch::Receiver<End>,
    stop_api: watch::Sender<bool>,
    stop_engine: watch::Sender<bool>,
    api: tokio::task::JoinHandle<()>,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// For the end, when pilots run on this host.
    farewell: Option<Farewell>,
    orders: mpsc::UnboundedSender<Order>,
    /// What may be left on platforms, once that is known.
    left: watch::Sender<Option<Vec<LeftThere>>>,
}

impl Manager {
    /// How to reach it.
    pub fn access(&self) -> &AccessFile {
        &self.access
    }

    #[cfg(test)]
    pub(crate) fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// Speaks to its engine.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Who wants its configuration to be read again, for whoever can read it. Once.
    pub fn take_reloads(&mut self) -> Option<mpsc::Receiver<Reload>> {
        self.reloads.take()
    }

    /// Attaches the platforms of this configuration that are not attached, and takes over its quotas of users.
    ///
    /// # Errors
    /// Why nothing was done, or not all of it.
    pub async fn attach_new(&mut self, config: &Config) -> Result<Reloaded, String> {
        let mut reloaded = self.attacher.attach_new(config).await?;
        reloaded.quotas = self.quotas.set(&config.quotas);
        if self.farewell.is_none() {
            self.farewell = farewell(config, self.attacher.settings);
        }
        Ok(reloaded)
    }

    /// Waits until it has ended: it was shut down, or its store failed. Safe to be dropped while waiting.
    pub async fn wait(&mut self) -> Result<(), ManagerError> {
        let end = self.ended.wait_for(Option::is_some).await;
        match end.ok().and_then(|end| end.clone()) {
            Some(Err(what)) => Err(ManagerError(what)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// After a shutdown: waits until platforms have been told what is not wanted any more, and nothing of pilots is
    /// left on this host, for a limited time. Gives what may be left on platforms all the same. Safe to be dropped while
    /// waiting.
    pub async fn take_leave(&self) -> Vec<LeftThere> {
        let Some(Ok(mut left)) = self.ended.borrow().clone() else { return Vec::new() };
        left.extend(platforms::leave(&self.orders, self.attacher.settings.leave_limit.into()).await);
        if let Some(farewell) = &self.farewell {
            farewell.wait().await;
        }
        self.left.send_replace(Some(left.clone()));
        left
    }

    /// Ends answering and closes the store. What pilots hold they keep, and come back to the next manager.
    pub async fn close(self) {
        let Manager { users, stop_api, stop_engine, api, threads, .. } = self;
        // The server may have ended already.
        let _ = stop_api.send(true);
        // It ends within its own time limit.
        let _ = api.await;
        // A connection that a person has opened stays; nobody would be at its other end.
        adapters::transport::end_forwards().await;
        if let Some((path, access)) = users.own().access() {
            remove_access(&path, &access);
        }
        // The engine may have ended already.
        let _ = stop_engine.send(true);
        let joined =
            tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
        // A thread that panicked has said so itself.
        let _ = joined.await;
    }
}

/// Open files wanted: the connections allowed, and then some.
const N_FILES_WANTED: u64 = 65_536;

/// Files of our own: the store and its readers, platforms' commands, what libraries open.
const N_FILES_OWN: u64 = 256;

/// Each pilot takes a connection or two, and the usual limit of files is far below what is allowed.
fn raise_file_limit(is_offline: bool) -> Result<(), StartError> {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, most.min(N_FILES_WANTED), most)
    {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((n_files, _)) if n_files < N_FILES_MIN && !is_offline => Err(StartError::Files(n_files)),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Connections never take the last files: the store must be read while others knock.
fn connection_limits() -> ConnectionLimits {
    let limits = ConnectionLimits::default();
    let n_files = getrlimit(Resource::RLIMIT_NOFILE).map_or(N_FILES_WANTED, |(current, _)| current);
    let n_left = n_files.saturating_sub(N_FILES_OWN).max(n_files / 4);
    let n_connections_max = usize::try_from(n_left).unwrap_or(usize::MAX).min(limits.n_connections_max);
    if n_connections_max < limits.n_connections_max {
        tracing::warn!(n_connections_max, n_files, "few files may be open; raise the limit for many pilots");
    }
    ConnectionLimits { n_connections_max, ..limits }
}

/// What the store has kept.
fn past(store: &Store) -> Result<(Vec<Record>, Budgets), StoreError> {
    let (mut records, mut budgets) = (Vec::new(), Budgets::default());
    store.replay(|record| {
        budgets.note(&record);
        records.push(record);
    })?;
    Ok((records, budgets))
}

/// Has the owner have a token, and tokens that were revoked be void; gives the owner's. Platforms whose tasks could act as
/// other users are refused.
async fn prepare_users(
    config: &Config,
    tokens: &Tokens,
    store: &mut Store,
    records: &mut Vec<Record>,
    clock: Clock,
) -> Result<String, StartError> {
    if config.is_offline {
        records.iter().for_each(|record| tokens.users().note(record));
        return Ok(tokens.lend(&config.user, true)?);
    }
    let failed = |source| StartError::File { path: config.folder.join(users::REVOKED_FILE), source };
    let prepared = tokens.prepare(&config.folder, &config.user, records, clock.now());
    let (made, own) = prepared.map_err(failed)?;
    store.commit(&made)?;
    records.extend(made);
    for (spec, site) in &config.platforms {
        accounts::check(tokens.users(), spec, site).await.map_err(StartError::Account)?;
    }
    Ok(own)
}

/// Opens the store of a folder in which its manager was last. A copy becomes a manager of its own first: until the last
/// step, the next start finds a copy again.
fn open_at_home(config: &Config) -> Result<Store, StartError> {
    let folder = &config.folder;
    let mut store = Store::open(folder)?;
    let failed = |path: PathBuf| move |source| StartError::File { path, source };
    let home = Home::of(folder).map_err(failed(folder.clone()))?;
    let text = serde_json::to_string(&home).unwrap_or_default();
    match home::compare(&store, &home, config.elsewhere)?? {
        Welcome::Home => store.note_home(&text, false)?,
        Welcome::Copy => {
            let (records, _) = past(&store)?;
            let at = Clock::start(records.iter().map(Record::at).max().unwrap_or_default()).now();
            store.commit(&home::forgetting(&records, at))?;
            // Tokens of the original are none of the copy's; its port is the original's, too.
            for name in [SECRET_FILE, PORT_FILE, ACCESS_FILE] {
                let path = folder.join(name);
                match std::fs::remove_file(&path) {
                    Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                        return Err(StartError::File { path, source });
                    }
                    Ok(()) | Err(_) => {}
                }
            }
            store.note_home(&text, true)?;
            tracing::info!("the folder is a copy and has become a manager of its own");
        }
    }
    Ok(store)
}

/// A reader of the store waits for no pilot, has no configuration of its own, and explains what was by that of the manager
/// of before.
pub(crate) fn settings(config: &Config, store: &Store) -> Result<Settings, StoreError> {
    let settings = Settings { store_id: store.id(), ..config.settings };
    if !config.is_offline {
        return Ok(settings);
    }
    let policies = store.configured()?.unwrap_or(settings.policies);
    let walltime_margin = store.walltime_margin()?.unwrap_or(settings.walltime_margin);
    Ok(Settings { grace: Span::ZERO, only_reads: true, policies, walltime_margin, ..settings })
}

/// Starts a manager in its folder. It answers when this returns.
pub async fn start(config: Config) -> Result<Manager, StartError> {
    raise_file_limit(config.is_offline)?;
    let stores = Stores::open(&config.stores, &config.asker)?;
    // Who only reads shares no secret with pilots or users: one of this process will do.
    let (mut store, tokens) = match config.is_offline {
        true => (Store::open_to_read(&config.folder)?, Tokens::draw()?),
        false => {
            let store = open_at_home(&config)?;
            (store, Tokens::open(&config.folder)?)
        }
    };
    if !config.is_offline {
        store.note_configured(&config.settings)?;
    }
    let mut numbers = Numbers::open(&config.folder, store.id());
    if !config.is_offline {
        store.live_after(numbers.epoch())?;
        numbers.note_epoch(store.epoch());
    }
    let settings = numbers.told(settings(&config, &store)?);
    let reader = store.reader();
    let (mut records, mut budgets) = past(&store)?;
    let clock = Clock::start(records.iter().map(Record::at).max().unwrap_or_default());
    let own_token = prepare_users(&config, &tokens, &mut store, &mut records, clock).await?;
    let engine = Engine::restore(settings, store.epoch(), clock.now(), records);
    let Listening { listener, address, url, identity } = listen(&config)?;

    let (handle, queue) = Handle::new();
    let (orders, for_platforms) = mpsc::unbounded_channel();
    let (end, ended) = watch::channel(None);
    let (performer, policies) = performer(&orders, &handle, &end)?;
    let (stop_engine, is_engine_stopped) = watch::channel(false);
    let drive = move |pending| driver::run(engine, queue, pending, clock, is_engine_stopped);
    let quotas = CurrentQuotas::default();
    quotas.set(&config.quotas);
    let outputs = OutputQuotas::new(quotas.clone(), tokens.users().clone());
    if !config.is_offline {
        budgets.hold_to(outputs.clone(), &store)?;
    }
    let objects = Objects::in_folder(&config.folder);
    budgets.tell(objects.owners().clone());
    // A manager for one command ends with a message when its disk is full.
    let has_reserve = !config.is_offline && !config.pilots_die_with_us;
    let reserve = if has_reserve { Reserve::in_folder(&config.folder) } else { Reserve::default() };
    tokio::spawn(reserve.clone().watch());
    let mut threads = start_threads(drive, (store, (numbers, budgets, reserve.clone())), performer, end)?;
    threads.push(policies);
    tokio::spawn(platforms::dispatch(for_platforms));

    let fingerprint = identity.as_ref().map(|identity| identity.fingerprint.clone());
    let access = access_file(&config, own_token, url, fingerprint);
    let (stop_api, is_stopped) = watch::channel(false);
    let (reload, reloads) = mpsc::channel(1);
    let (left, left_there) = watch::channel(None);
    let agent_file = AgentFile::new(&config.agent_command);
    let state = ApiState {
        handle: handle.clone(),
        reader,
        tokens: tokens.clone(),
        folder: config.folder.clone(),
        started_at: clock.now(),
        poll_wait: settings.poll_wait_max,
        leave_limit: settings.leave_limit,
        limits: connection_limits(),
        stop: is_stopped,
        config_file: config.file.clone(),
        reload,
        agent: agent_file.clone(),
        objects,
        stores,
        quotas: quotas.clone(),
        outputs,
        reserve,
        left_there,
    };
    // Nobody is added before the platforms are there.
    let _turn = tokens.users().accounts().turn().await;
    let (doors, arrivals) = Doors::new(&config.folder);
    let api = serve(&config, (listener, arrivals, identity), state);
    if !config.is_offline {
        let_in(&config, &access, &handle, &tokens)?;
    }
    let farewell = if config.is_offline { None } else { farewell(&config, settings) };
    let join = make_join(&config, &tokens, &access, address);
    let ways = (handle.clone(), orders.clone());
    let attacher = Attacher::new(
        &config,
        (settings, clock),
        ways,
        (address, &access, doors),
        (join, agent_file, tokens.users().clone()),
    );
    let mut manager = Manager {
        access,
        users: tokens.users().clone(),
        handle,
        attacher,
        quotas,
        reloads: Some(reloads),
        ended,
        stop_api,
        stop_engine,
        api,
        threads,
        farewell,
        orders,
        left,
    };
    for (spec, site) in config.platforms.iter().filter(|_| !config.is_offline) {
        manager.attacher.attach_in_turn(spec, site).await?;
    }
    Ok(manager)
}

/// Writes the owner's access file, and keeps in mind from now on when tokens are used.
fn let_in(config: &Config, access: &AccessFile, handle: &Handle, tokens: &Tokens) -> Result<(), StartError> {
    let path = write_access(&config.folder, access)?;
    tokens.users().own().written(&path, access);
    tokio::spawn(users::keep_uses(handle.clone(), tokens.users().clone()));
    Ok(())
}

/// Answers from now on, and clears up among the files that tasks need and leave, now and then.
fn serve(
    config: &Config,
    (listener, arrivals, identity): (tokio::net::TcpListener, mpsc::Receiver<Arrival>, Option<Identity>),
    state: ApiState,
) -> tokio::task::JoinHandle<()> {
    if !config.is_offline {
        let objects = state.objects.clone();
        objects.clean();
        tokio::spawn(collect::run(state.handle.clone(), state.reader.clone(), objects));
    }
    tokio::spawn(api::serve(listener, arrivals, identity.map(|identity| identity.server), state))
}

/// Where its thread cannot be started it is dropped among tasks of another runtime, which a plain one answers with a panic.
struct EngineRuntime(Option<tokio::runtime::Runtime>);

impl EngineRuntime {
    fn block_on(&self, work: impl Future<Output = ()>) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(work);
        }
    }
}

impl Drop for EngineRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn start_threads<Driving: Future<Output = ()>>(
    drive: impl FnOnce(SyncSender<Pending>) -> Driving + Send + 'static,
    (store, kept): (Store, (Numbers, Budgets, Reserve)),
    mut performer: Performer,
    end: watch::Sender<End>,
) -> Result<Vec<std::thread::JoinHandle<()>>, StartError> {
    let (pending, committing) = commit::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = EngineRuntime(Some(runtime.map_err(StartError::Thread)?));
    let engine_thread = std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || runtime.block_on(drive(pending)))
        .map_err(StartError::Thread)?;
    let commit_thread = std::thread::Builder::new()
        .name("commit".into())
        .spawn(move || {
            let perform = |committed, replies: Vec<_>| performer.perform(committed, replies);
            let result = commit::run(store, kept, committing, perform);
            if let Err(error) = &result {
                tracing::error!(%error, "the store failed: nothing more is acknowledged");
            }
            end.send_if_modified(|end| {
                let is_first = end.is_none();
                end.get_or_insert(result.map(|()| Vec::new()).map_err(|error| error.to_string()));
                is_first
            });
        })
        .map_err(StartError::Thread)?;
    Ok(vec![engine_thread, commit_thread])
}

/// Where effects go, and the thread that answers the engine's large questions to the policies, one after the other,
/// until nobody asks any more.
fn performer(
    orders: &mpsc::UnboundedSender<Order>,
    handle: &Handle,
    end: &watch::Sender<End>,
) -> Result<(Performer, std::thread::JoinHandle<()>), StartError> {
    let (questions, asked) = std::sync::mpsc::channel::<PlanRequest>();
    let performer = Performer::new(orders.clone(), questions, handle.notices().clone(), end.clone());
    let handle = handle.clone();
    let answer = move || {
        for question in asked {
            if handle.tell_blocking(Event::Planned { plan: question.answer() }).is_err() {
                return;
            }
        }
    };
    let policies = std::thread::Builder::new().name("policies".into()).spawn(answer);
    Ok((performer, policies.map_err(StartError::Thread)?))
}

struct Listening {
    listener: tokio::net::TcpListener,
    /// Where this host reaches it.
    address: SocketAddr,
    url: String,
    identity: Option<Identity>,
}

/// Listens where the configuration says; on the port of last time when it says none and that is free.
fn listen(config: &Config) -> Result<Listening, StartError> {
    let host = config.listen_host;
    let port_path = config.folder.join(PORT_FILE);
    let last = std::fs::read_to_string(&port_path).ok().and_then(|text| text.trim().parse::<u16>().ok());
    let last = last.filter(|_| config.listen_port.is_none() && !config.is_offline);
    let first_choice = SocketAddr::new(host, config.listen_port.or(last).unwrap_or(0));
    let bound = bind(first_choice);
    let listener = match (bound, last) {
        (Ok(listener), _) => listener,
        (Err(_), Some(_)) => {
            let any_port = SocketAddr::new(host, 0);
            bind(any_port).map_err(|source| StartError::Listen { address: any_port, source })?
        }
        (Err(source), None) => return Err(StartError::Listen { address: first_choice, source }),
    };
    let failed = |source| StartError::Listen { address: first_choice, source };
    let port = listener.local_addr().map_err(failed)?.port();
    if !config.speaks_tls() && !host.is_loopback() && !config.is_offline {
        tracing::warn!(
            "tls is off and the manager listens on {host}: whoever reads the network can take tokens, and act as the users \
             and pilots that have them"
        );
    }
    let identity = match config.speaks_tls() {
        true => Some(Identity::open(&config.folder, host)?),
        false => None,
    };
    if !config.is_offline {
        // Pilots that wait for the next manager know no other port.
        let failed = |source| StartError::File { path: port_path.clone(), source };
        write_private(&port_path, format!("{port}\n").as_bytes()).map_err(failed)?;
    }
    let name = if host.is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { host };
    let address = SocketAddr::new(name, port);
    Ok(Listening { listener, address, url: format!("{}://{address}", scheme(identity.is_some())), identity })
}

fn access_file(
    config: &Config,
    token: String,
    url: String,
    certificate_sha256: Option<String>,
) -> AccessFile {
    AccessFile {
        version: 1,
        url,
        certificate_sha256,
        user: config.user.clone(),
        token,
        pid: std::process::id(),
        host: nix::unistd::gethostname()
            .map_or_else(|_| "localhost".into(), |name| name.to_string_lossy().into_owned()),
        manager_version: env!("CARGO_PKG_VERSION").into(),
        folder: config.folder.canonicalize().ok().map(|folder| folder.to_string_lossy().into_owned()),
    }
}

fn write_access(folder: &Path, access: &AccessFile) -> Result<PathBuf, StartError> {
    let path = folder.join(ACCESS_FILE);
    let failed = |source| StartError::File { path: path.clone(), source };
    let text = serde_json::to_vec_pretty(access).map_err(|error| failed(error.into()))?;
    write_private(&path, &text).map_err(failed)?;
    Ok(path)
}

/// Whoever has the folder next writes a file of its own, and may have: a store that failed is free at once.
fn remove_access(path: &Path, access: &AccessFile) {
    let is_ours = |text: Vec<u8>| serde_json::to_vec_pretty(access).is_ok_and(|own| own == text);
    if std::fs::read(path).is_ok_and(is_ours) {
        // It may be gone already.
        let _ = std::fs::remove_file(path);
    }
}

/// One listing shows the pilots of all platforms that are this host.
fn farewell(config: &Config, settings: Settings) -> Option<Farewell> {
    let surroundings = surroundings(config);
    let mut adapters = config
        .platforms
        .iter()
        .filter_map(|(spec, site)| adapters::adapter(&spec.adapter, &surroundings, site));
    let adapter = adapters.find(|adapter| adapter.is_local())?;
    Some(Farewell { adapter, tag_prefix: settings.tag_prefix() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_file_is_removed_by_who_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        let access = |pid| AccessFile {
            version: 1,
            url: "http://127.0.0.1:1".into(),
            certificate_sha256: None,
            user: "ann".into(),
            token: "token".into(),
            pid,
            host: "here".into(),
            manager_version: "0".into(),
            folder: None,
        };
        let path = write_access(folder.path(), &access(2)).unwrap();
        remove_access(&path, &access(1));
        assert!(path.exists(), "it is of the next one");
        remove_access(&path, &access(2));
        assert!(!path.exists());
    }
}
