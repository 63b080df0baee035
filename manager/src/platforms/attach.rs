//! Attaches platforms: those of the configuration at the start, and what an operator adds to it later.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc};

use adapters::{Surroundings, transport::Asker};
use profiles::site::{Reach, Site};
use protocol::{
    api::{AccessFile, Reloaded},
    net::address::{is_host, is_loopback},
    pilot::JoinDocument,
};
use scheduler::engine::interface::{
    Answer, Event, PlatformLimits, PlatformMode, PlatformSpec, Query, ScalingWay,
    settings::Settings,
    views::{AllocationView, PlatformView},
};
use tokio::sync::mpsc;

use crate::{
    config::{Config, TlsMode, scheme, wants_tls},
    doors::Doors,
    engine_loop::{
        clock::Clock,
        handle::{Ended, Handle},
    },
    platforms::{
        agent_file::AgentFile,
        order::Order,
        place::{Ground, Place, Plan},
        worker::{MakeJoin, Worker},
    },
    security::{
        accounts::{self, AccountCheck},
        tokens::Tokens,
        users::Users,
    },
    start::error::StartError,
};

/// What platforms need of the manager.
pub(crate) struct Attacher {
    pub(crate) settings: Settings,
    clock: Clock,
    handle: Handle,
    orders: mpsc::UnboundedSender<Order>,
    make_join: MakeJoin,
    surroundings: Surroundings,
    agent_file: AgentFile,
    url_elsewhere: String,
    folder: PathBuf,
    users: Arc<Users>,
    doors: Doors,
    speaks_tls: bool,
    /// Somebody has said that it is not to.
    is_plain_meant: bool,
    asker: Arc<dyn Asker>,
    /// As they were when they were attached.
    attached: Vec<(PlatformSpec, Site)>,
}

impl Attacher {
    /// For a manager with this configuration, which this host reaches at this address.
    pub(crate) fn new(
        config: &Config,
        (settings, clock): (Settings, Clock),
        (handle, orders): (Handle, mpsc::UnboundedSender<Order>),
        (address, access, doors): (SocketAddr, &AccessFile, Doors),
        (make_join, agent_file, users): (MakeJoin, AgentFile, Arc<Users>),
    ) -> Attacher {
        Attacher {
            settings,
            clock,
            handle,
            orders,
            make_join,
            surroundings: surroundings(config),
            agent_file,
            url_elsewhere: url_elsewhere(config, access, address),
            folder: config.folder.clone(),
            users,
            doors,
            speaks_tls: config.speaks_tls(),
            is_plain_meant: config.tls == TlsMode::Off,
            asker: config.asker.clone(),
            attached: Vec::new(),
        }
    }

    /// Attaches a platform, which has no worker, or one that has nothing to do any more.
    pub(crate) async fn attach(&mut self, spec: &PlatformSpec, site: &Site) -> Result<(), StartError> {
        let users = self.users.clone();
        let _turn = users.accounts().turn().await;
        self.attach_in_turn(spec, site).await
    }

    /// The same for who has the turn to add users or platforms.
    pub(crate) async fn attach_in_turn(
        &mut self,
        spec: &PlatformSpec,
        site: &Site,
    ) -> Result<(), StartError> {
        accounts::check(&self.users, spec, site).await.map_err(StartError::Account)?;
        let unknown = || StartError::Adapter { platform: spec.name.clone(), found: spec.adapter.clone() };
        let plan = Plan {
            name: format!("{}{}", self.settings.tag_prefix(), spec.name),
            adapter: spec.adapter.clone(),
            site: site.clone(),
            capacity: spec.capacity.clone(),
            surroundings: self.surroundings.clone(),
            agent_file: self.agent_file.clone(),
            url_elsewhere: self.url_elsewhere.clone(),
            pilots: self.folder.join("pilots"),
            doorway: Some(self.doors.of(&spec.name)),
            scheme: scheme(self.speaks_tls),
            asker: self.asker.clone(),
            account_check: Some(AccountCheck::new(self.users.clone(), &self.folder, spec, site)),
        };
        if spec.adapter == adapters::openstack::NAME {
            self.agent_file.offer();
        }
        self.check_url(spec, site)?;
        self.warn_of_loopback(spec, site);
        let place = Place::new(plan).ok_or_else(unknown)?;
        if let Some(cloud) = place.cloud() {
            // Others of the project may be another platform's.
            cloud.remember_former(ids_and_tags(self.handle.allocations(true).await?));
            let mut there = self.handle.allocations_there().await?;
            there.retain(|held| held.platform == spec.name);
            cloud.remember(ids_and_tags(there));
        }
        let worker = Box::new(Worker {
            spec: spec.clone(),
            place,
            tag_prefix: self.settings.tag_prefix(),
            make_join: self.make_join.clone(),
            handle: self.handle.clone(),
            clock: self.clock,
            accepted: Default::default(),
            known: Default::default(),
            identities: Default::default(),
            seen: Default::default(),
            uncancelled: Default::default(),
            documents: Default::default(),
            waiting: None,
            left_out: Vec::new(),
            watched: Default::default(),
            watches: Default::default(),
        });
        let wanted = spec.clone();
        let answer = self.handle.ask(|request| Event::PlatformAttached { request, spec: wanted }).await?;
        if let Answer::Attached(platform) = answer {
            // The dispatcher lives as long as the performer.
            let _ = self.orders.send(Order::Attach { platform, worker });
        }
        self.note(spec, site);
        Ok(())
    }

    /// Whether pilots are told an address that is one. Whoever reads a join token on its way takes the pilot's place: pilots
    /// come by plain HTTP from other hosts only where somebody has said so.
    fn check_url(&self, spec: &PlatformSpec, site: &Site) -> Result<(), StartError> {
        let is_here = spec.adapter == adapters::LOCAL_NAME;
        let url = match &site.reach {
            Some(Reach::At(url)) => url.clone(),
            reach if site.ssh.is_some() && *reach != Some(Reach::Direct) => {
                format!("{}://the relay of its host", scheme(self.speaks_tls))
            }
            _ if is_here => return Ok(()),
            _ => self.url_elsewhere.clone(),
        };
        let host = url.split_once("://").map_or(url.as_str(), |(_, host)| host);
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        if site.ssh.is_none() && !is_host(name) {
            return Err(StartError::HostName { platform: spec.name.clone(), host: name.to_owned() });
        }
        let Some(host) = url.strip_prefix("http://").filter(|host| !is_loopback(host)) else { return Ok(()) };
        let platform = &spec.name;
        if !self.is_plain_meant {
            return Err(StartError::Plain { platform: platform.clone(), host: host.to_owned() });
        }
        tracing::warn!(
            platform,
            "its pilots come by plain http to {host}, as `tls: off` says: their tokens and what tasks write can be read and \
             changed on the way"
        );
        Ok(())
    }

    /// Pilots elsewhere that are told to come to this host by a loopback address come to themselves. Those of `local`
    /// are here, and those behind SSH come by way of it.
    fn warn_of_loopback(&self, spec: &PlatformSpec, site: &Site) {
        let is_loopback =
            ["//127.", "//[::1]", "//localhost:"].iter().any(|host| self.url_elsewhere.contains(host));
        let is_here = spec.adapter == adapters::LOCAL_NAME || site.ssh.is_some();
        if is_loopback && !is_here && site.reach.is_none() {
            tracing::warn!(
                platform = spec.name,
                url = self.url_elsewhere,
                "pilots on other hosts do not reach the manager there: set `listen: {{host: 0.0.0.0, name: …}}`, or \
                 `reach` of the platform"
            );
        }
    }

    /// Takes over what its worker need not know.
    async fn change(&self, spec: &PlatformSpec) -> Result<(), Ended> {
        let wanted = spec.clone();
        self.handle.ask(|request| Event::PlatformAttached { request, spec: wanted }).await.map(drop)
    }

    fn note(&mut self, spec: &PlatformSpec, site: &Site) {
        self.attached.retain(|(held, _)| held.name != spec.name);
        self.attached.push((spec.clone(), site.clone()));
    }

    /// Attaches those of the configuration that are not attached, and takes over what it says now of how many pilots
    /// of the others are wanted. What else has changed in it waits for the next start.
    ///
    /// # Errors
    /// Why nothing was done, or not all of it.
    pub(crate) async fn attach_new(&mut self, config: &Config) -> Result<Reloaded, String> {
        let there = self.there().await.map_err(|error| error.to_string())?;
        let is_listed = |name: &str| config.platforms.iter().any(|(spec, _)| spec.name == name);
        // Whose entry was taken out is new when it comes back.
        self.attached.retain(|(held, _)| is_listed(&held.name) || there.contains_key(&held.name));
        let mut reloaded = Reloaded::default();
        for (spec, site) in &config.platforms {
            let (name, held) =
                (spec.name.clone(), self.attached.iter().find(|held| held.0.name == spec.name));
            match (held.cloned(), there.get(&spec.name)) {
                (None, _) if self.lacks_tls(site, config) => {
                    tracing::warn!(
                        platform = name,
                        "not attached: it needs TLS, which this manager does not speak"
                    );
                    reloaded.without_tls.push(name);
                }
                (None, _) => {
                    self.attach(spec, site).await.map_err(|error| error.to_string())?;
                    tracing::info!(platform = name, "attached");
                    reloaded.attached.push(name);
                }
                (Some(_), None) => reloaded.detached.push(name),
                (Some((held, held_site)), Some(view)) => {
                    let fields = changed_fields((&held, &held_site), (spec, site));
                    let spec = &with_hosts_of((&held, &held_site), spec, site);
                    let wanted = with_changes(&held, spec, view);
                    if with_demand(&held, spec) != held {
                        self.change(&wanted).await.map_err(|error| error.to_string())?;
                        self.note(&with_demand(&held, spec), &held_site);
                        reloaded.changed.push(name.clone());
                    }
                    if held_site != *site || with_demand(&held, spec) != *spec {
                        reloaded.waiting.push(name.clone());
                    }
                    if !fields.is_empty() {
                        reloaded.fields.insert(name, fields);
                    }
                }
            }
        }
        reloaded.unlisted = there.into_keys().filter(|name| !is_listed(name)).collect();
        Ok(reloaded)
    }

    /// Pilots that come through a tunnel or by https want TLS, which begins with the manager or never.
    fn lacks_tls(&self, site: &Site, config: &Config) -> bool {
        !self.speaks_tls && wants_tls(site) && config.tls == TlsMode::Auto
    }

    /// The platforms that are attached, by name.
    async fn there(&self) -> Result<BTreeMap<String, PlatformView>, Ended> {
        let query = Query::Platforms;
        let answer = self.handle.ask(|request| Event::Asked { request, query }).await?;
        let Answer::Platforms(platforms) = answer else { return Ok(BTreeMap::new()) };
        let there = platforms
            .into_iter()
            .filter(|platform| platform.is_attached && platform.mode != PlatformMode::Detached);
        Ok(there.map(|platform| (platform.name.clone(), platform)).collect())
    }
}

/// The fields of a platform's entry that say something else now than before, by their names in `manager.yaml`.
fn changed_fields(
    (old, old_site): (&PlatformSpec, &Site),
    (new, new_site): (&PlatformSpec, &Site),
) -> Vec<String> {
    let (of_old, of_new) = (&old.capacity, &new.capacity);
    let (old_limits, new_limits) = (&old.limits, &new.limits);
    let (old_names, new_names) = (&old_site.resource_names, &new_site.resource_names);
    let is_other = [
        ("adapter", old.adapter != new.adapter),
        ("cores", of_old.cores != of_new.cores),
        ("memory", of_old.memory_bytes != of_new.memory_bytes),
        ("gpus", of_old.gpus != of_new.gpus),
        ("generic", of_old.generic != of_new.generic),
        ("nodes", old.n_nodes != new.n_nodes),
        ("pilots_min", old.n_pilots_min != new.n_pilots_min),
        ("pilots_max", old.n_pilots_max != new.n_pilots_max),
        ("idle_timeout", old.idle_timeout != new.idle_timeout),
        ("walltime", old.walltime != new.walltime),
        ("poll_interval", old.poll_interval != new.poll_interval),
        ("queued_max", old_limits.n_queued_max != new_limits.n_queued_max),
        (
            "submissions_per_minute",
            old_limits.n_submissions_per_minute != new_limits.n_submissions_per_minute,
        ),
        ("core_hours", old_limits.core_time_max != new_limits.core_time_max),
        ("user_core_hours", old_limits.user_core_time_max != new_limits.user_core_time_max),
        ("budget", old_limits.cost_max != new_limits.cost_max),
        ("price", old.price != new.price),
        ("scaling", old.scaling != new.scaling),
        ("queue", old_site.queue != new_site.queue),
        ("account", old_site.account != new_site.account),
        ("options", old_site.options != new_site.options),
        ("setup", old_site.setup != new_site.setup),
        ("agent", old_site.agent != new_site.agent),
        ("folder", old_site.folder != new_site.folder),
        ("run_as", old_site.run_as != new_site.run_as),
        ("allow_shared_account", old_site.allows_shared_account != new_site.allows_shared_account),
        ("ssh", old_site.ssh != new_site.ssh),
        ("transport", old_site.transport != new_site.transport),
        ("ssh_config", old_site.ssh_config != new_site.ssh_config),
        ("reach", old_site.reach != new_site.reach),
        ("parallel_environment", old_names.parallel_environment != new_names.parallel_environment),
        ("memory_resource", old_names.memory_resource != new_names.memory_resource),
        ("gpu_resource", old_names.gpu_resource != new_names.gpu_resource),
        ("openstack", old_site.cloud != new_site.cloud),
    ];
    is_other.into_iter().filter(|(_, is_other)| *is_other).map(|(name, _)| name.to_owned()).collect()
}

/// The ids by which platforms know allocations, and their tags.
fn ids_and_tags(allocations: Vec<AllocationView>) -> Vec<(String, String)> {
    allocations.into_iter().filter_map(|held| Some((held.batch_id?, held.tag))).collect()
}

/// What is read, but for vCPUs of a cloud's hosts that are named only now: the worker that is there knows others.
fn with_hosts_of(
    (held, held_site): (&PlatformSpec, &Site),
    read: &PlatformSpec,
    site: &Site,
) -> PlatformSpec {
    let is_of_hosts = read.scaling.is_some_and(|scaling| scaling.by == ScalingWay::Placement);
    let scaling = if is_of_hosts && held_site != site { held.scaling } else { read.scaling };
    PlatformSpec { scaling, ..read.clone() }
}

/// A platform as it was read before, but with what is said now of how many pilots are wanted, and when.
fn with_demand(held: &PlatformSpec, read: &PlatformSpec) -> PlatformSpec {
    let PlatformSpec { n_pilots_min, n_pilots_max, idle_timeout, poll_interval, limits, scaling, .. } = *read;
    let price = read.price.clone();
    let demand = PlatformSpec { n_pilots_min, n_pilots_max, idle_timeout, poll_interval, ..held.clone() };
    PlatformSpec { limits, scaling, price, ..demand }
}

/// The same, in which limits that operators have set since stay where the file says what it said before.
fn with_changes(held: &PlatformSpec, read: &PlatformSpec, view: &PlatformView) -> PlatformSpec {
    fn newer<T: PartialEq>(held: T, read: T, set: T) -> T {
        if held == read { set } else { read }
    }
    let (old, new, set) = (held.limits, read.limits, view.limits);
    PlatformSpec {
        n_pilots_max: newer(held.n_pilots_max, read.n_pilots_max, view.n_pilots_max),
        limits: PlatformLimits {
            n_queued_max: newer(old.n_queued_max, new.n_queued_max, set.n_queued_max),
            n_submissions_per_minute: newer(
                old.n_submissions_per_minute,
                new.n_submissions_per_minute,
                set.n_submissions_per_minute,
            ),
            core_time_max: newer(old.core_time_max, new.core_time_max, set.core_time_max),
            user_core_time_max: newer(old.user_core_time_max, new.user_core_time_max, set.user_core_time_max),
            // What a price was said for without one is nothing.
            cost_max: newer(old.cost_max, new.cost_max, set.cost_max).filter(|_| read.price.is_some()),
        },
        ..with_demand(held, read)
    }
}

/// What adapters need of this host.
pub(crate) fn surroundings(config: &Config) -> Surroundings {
    Surroundings { agent_command: config.agent_command.clone() }
}

/// By which pilots on other hosts reach it.
fn url_elsewhere(config: &Config, access: &AccessFile, address: SocketAddr) -> String {
    match (&config.listen_name, config.listen_host.is_unspecified()) {
        (None, false) => access.url.clone(),
        (name, _) => {
            let name = name.as_ref().unwrap_or(&access.host);
            format!("{}://{name}:{}", scheme(config.speaks_tls()), address.port())
        }
    }
}

/// Makes join documents for pilots of the manager with this access file and this address.
pub(crate) fn make_join(
    config: &Config,
    tokens: &Tokens,
    access: &AccessFile,
    address: SocketAddr,
) -> MakeJoin {
    let (tokens, url) = (tokens.clone(), access.url.clone());
    let certificate_sha256 = access.certificate_sha256.clone();
    let url_elsewhere = url_elsewhere(config, access, address);
    let watch_pid = config.pilots_die_with_us.then(std::process::id);
    Arc::new(move |spec: &PlatformSpec, ground: &Ground, tag: &str| {
        let is_here = spec.adapter == adapters::LOCAL_NAME;
        let own_url = if is_here { &url } else { &url_elsewhere };
        let join = JoinDocument {
            url: ground.url.as_ref().unwrap_or(own_url).clone(),
            certificate_sha256: certificate_sha256.clone(),
            token: tokens.join(tag),
            tag: tag.to_owned(),
            folder: ground.pilot_folder(tag),
            capacity: Some(spec.capacity.clone()),
            walltime: spec.walltime,
            watch_pid: watch_pid.filter(|_| is_here),
        };
        serde_json::to_vec(&join).unwrap_or_default()
    })
}
