//! Attaches platforms: those of the configuration at the start, and what an operator adds to it later.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use adapters::{Surroundings, transport::Asker};
use profiles::site::Site;
use protocol::{
    api::{AccessFile, Reloaded},
    pilot::JoinDocument,
};
use scheduler::engine::{
    interface::{Answer, Event, PlatformMode, PlatformSpec, Query},
    settings::Settings,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    clock::Clock,
    config::Config,
    handle::{Ended, Handle},
    place::{Ground, Place, Plan},
    platforms::{MakeJoin, Order, Worker},
    start::{StartError, scheme},
    tokens::Tokens,
};

/// An operator wants the configuration to be read again.
pub struct Reload {
    /// What came of it, or why nothing was done.
    pub answer: oneshot::Sender<Result<Reloaded, String>>,
}

/// What platforms need of the manager.
pub(crate) struct Attacher {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) handle: Handle,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) make_join: MakeJoin,
    surroundings: Surroundings,
    pilots: PathBuf,
    address: SocketAddr,
    speaks_tls: bool,
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
        address: SocketAddr,
        make_join: MakeJoin,
    ) -> Attacher {
        Attacher {
            settings,
            clock,
            handle,
            orders,
            make_join,
            surroundings: surroundings(config),
            pilots: config.folder.join("pilots"),
            address,
            speaks_tls: config.speaks_tls(),
            asker: config.asker.clone(),
            attached: Vec::new(),
        }
    }

    /// Attaches a platform, which has no worker, or one that has nothing to do any more.
    pub(crate) async fn attach(&mut self, spec: &PlatformSpec, site: &Site) -> Result<(), StartError> {
        let unknown = || StartError::Adapter { platform: spec.name.clone(), found: spec.adapter.clone() };
        let plan = Plan {
            name: format!("{}{}", self.settings.tag_prefix(), spec.name),
            adapter: spec.adapter.clone(),
            site: site.clone(),
            surroundings: self.surroundings.clone(),
            pilots: self.pilots.clone(),
            manager: self.address,
            scheme: scheme(self.speaks_tls),
            asker: self.asker.clone(),
        };
        let worker = Box::new(Worker {
            spec: spec.clone(),
            place: Place::new(plan).ok_or_else(unknown)?,
            tag_prefix: self.settings.tag_prefix(),
            make_join: self.make_join.clone(),
            handle: self.handle.clone(),
            clock: self.clock,
            uncancelled: Default::default(),
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

    /// Takes over what its worker need not know.
    async fn change(&mut self, spec: &PlatformSpec, site: &Site) -> Result<(), Ended> {
        let wanted = spec.clone();
        self.handle.ask(|request| Event::PlatformAttached { request, spec: wanted }).await?;
        self.note(spec, site);
        Ok(())
    }

    fn note(&mut self, spec: &PlatformSpec, site: &Site) {
        self.attached.retain(|(held, _)| held.name != spec.name);
        self.attached.push((spec.clone(), site.clone()));
    }

    /// Attaches those of the configuration that are not attached, and takes over how many pilots are wanted of the
    /// others. What else has changed in it waits for the next start.
    ///
    /// # Errors
    /// Why nothing was done, or not all of it.
    pub(crate) async fn attach_new(&mut self, config: &Config) -> Result<Reloaded, String> {
        if config.speaks_tls() != self.speaks_tls {
            return Err("what is new needs TLS, which this manager does not speak: start it anew".to_owned());
        }
        let there = self.there().await.map_err(|error| error.to_string())?;
        let mut reloaded = Reloaded::default();
        for (spec, site) in &config.platforms {
            let held = self.attached.iter().find(|(held, _)| held.name == spec.name);
            match held.filter(|_| there.contains(&spec.name)) {
                None => {
                    self.attach(spec, site).await.map_err(|error| error.to_string())?;
                    tracing::info!(platform = spec.name, "attached");
                    reloaded.attached.push(spec.name.clone());
                }
                Some(held) if *held == (spec.clone(), site.clone()) => {}
                Some((held, held_site)) if held_site == site && asks_alike(held, spec) => {
                    self.change(spec, site).await.map_err(|error| error.to_string())?;
                    reloaded.changed.push(spec.name.clone());
                }
                Some(_) => reloaded.waiting.push(spec.name.clone()),
            }
        }
        let is_listed = |name: &String| config.platforms.iter().any(|(spec, _)| spec.name == *name);
        reloaded.unlisted = there.into_iter().filter(|name| !is_listed(name)).collect();
        Ok(reloaded)
    }

    /// The platforms that are attached.
    async fn there(&self) -> Result<Vec<String>, Ended> {
        let query = Query::Platforms;
        let answer = self.handle.ask(|request| Event::Asked { request, query }).await?;
        let Answer::Platforms(platforms) = answer else { return Ok(Vec::new()) };
        let there = platforms
            .into_iter()
            .filter(|platform| platform.is_attached && platform.mode != PlatformMode::Detached);
        Ok(there.map(|platform| platform.name).collect())
    }
}

/// Whether allocations are asked for in the same way.
fn asks_alike(one: &PlatformSpec, other: &PlatformSpec) -> bool {
    let of = |spec: &PlatformSpec| {
        (spec.adapter.clone(), spec.capacity.clone(), spec.n_nodes, spec.is_array, spec.walltime)
    };
    of(one) == of(other)
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
