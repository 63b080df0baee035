//! Platform profiles: an operator's description of a source of pilots, checked.

use std::collections::BTreeMap;

use scheduler::{
    engine::interface::{PlatformLimits, PlatformSpec, ScalingWay},
    resources::Resources,
    time::Span,
};
use serde::Deserialize;

use crate::{
    cloud::Cloud,
    price::{Amount, Price},
    quantity::{CoreHours, Duration, Memory},
    scaling::Scaling,
    site::{
        self, Reach, ResourceNames, Site, SshProgram,
        counted::{self, Said},
    },
    text,
};

/// Longest name of a platform, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// More pilots than any platform gives to one user.
pub const N_PILOTS_MAX: u32 = 100_000;

/// The adapter that runs pilots as processes of this host.
const LOCAL: &str = "local";
const PBS: &str = "pbs";
const SLURM: &str = "slurm";
/// The adapter whose platforms name the resources that request cores, memory and GPUs.
const GRID_ENGINE: &str = "gridengine";
/// The adapter whose options are keywords, and which has no standard resource for GPUs.
const LOADLEVELER: &str = "loadleveler";

/// The adapter of plain hosts reached by SSH.
const HOSTS: &str = "hosts";
/// The adapter whose pilots run on servers of a cloud.
const OPENSTACK: &str = "openstack";

/// The reason why a profile cannot be used on this host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlatformError {
    /// The platform's pilots would offer no core.
    #[error("platform {platform}: found 0 cores on this host; set `cores: 1` or more")]
    NoCores {
        /// Its name.
        platform: String,
    },
    /// Two platforms have the same name.
    #[error("found two platforms of the name `{platform}`, one of a list of hosts; name them differently")]
    SameName {
        /// Their name.
        platform: String,
    },
    /// Two platforms would change the vCPU ratio of the same hosts.
    #[error(
        "platforms {first} and {second}: found scaling by placement of the same hosts; let one of them have it, and the other `by: slots`"
    )]
    SameHosts {
        /// The first platform.
        first: String,
        /// The second platform.
        second: String,
    },
    /// The platform's pilots would have to leave before they can run a task.
    #[error(
        "platform {platform}: found a walltime of {found}; pilots give back what they run {margin} before its end (walltime_margin), so say more"
    )]
    NoTime {
        /// Its name.
        platform: String,
        /// Its walltime.
        found: Span,
        /// Time that is kept free at the end.
        margin: Span,
    },
}

/// A platform in the form that an operator writes.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "PlatformForm")]
pub struct PlatformProfile(PlatformForm);

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlatformForm {
    name: String,
    adapter: String,
    cores: Option<u32>,
    memory: Option<Memory>,
    gpus: Option<u32>,
    #[serde(default)]
    generic: BTreeMap<String, u64>,
    #[serde(default = "one")]
    nodes: u32,
    #[serde(default = "one")]
    pilots_max: u32,
    #[serde(default)]
    pilots_min: u32,
    #[serde(default = "ten_minutes")]
    idle_timeout: Duration,
    walltime: Option<Duration>,
    queued_max: Option<u32>,
    submissions_per_minute: Option<u32>,
    core_hours: Option<CoreHours>,
    user_core_hours: Option<CoreHours>,
    #[serde(default = "ten_seconds")]
    poll_interval: Duration,
    #[serde(default, alias = "partition", alias = "class", deserialize_with = "text::word")]
    queue: Option<String>,
    #[serde(default, deserialize_with = "text::word")]
    account: Option<String>,
    #[serde(default, deserialize_with = "site::options")]
    options: Vec<String>,
    #[serde(default, deserialize_with = "text::lines")]
    setup: Vec<String>,
    #[serde(default, deserialize_with = "text::path")]
    agent: Option<String>,
    #[serde(default, deserialize_with = "text::path")]
    folder: Option<String>,
    #[serde(default, deserialize_with = "text::word")]
    run_as: Option<String>,
    #[serde(default)]
    allow_shared_account: bool,
    #[serde(default, deserialize_with = "site::host::address")]
    ssh: Option<String>,
    #[serde(default, deserialize_with = "site::host::addresses")]
    hosts: Vec<String>,
    #[serde(default, deserialize_with = "text::path")]
    ssh_config: Option<String>,
    transport: Option<SshProgram>,
    #[serde(default, deserialize_with = "site::reach")]
    reach: Option<Reach>,
    #[serde(default, deserialize_with = "text::word")]
    parallel_environment: Option<String>,
    #[serde(default, deserialize_with = "text::word")]
    memory_resource: Option<String>,
    #[serde(default, deserialize_with = "text::word")]
    gpu_resource: Option<String>,
    openstack: Option<Cloud>,
    scaling: Option<Scaling>,
    price: Option<Price>,
    budget: Option<Amount>,
}

impl PlatformProfile {
    /// The platform's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The adapter's name.
    pub fn adapter(&self) -> &str {
        &self.0.adapter
    }

    /// Returns how the platform's pilots are requested.
    pub fn site(&self) -> Site {
        self.0.site()
    }

    /// Returns the platforms that the profile stands for: with several `hosts`, one for each, `NAME-HOST`,
    /// alike in all else.
    pub fn each(&self) -> Vec<PlatformProfile> {
        let form = &self.0;
        let of_host = |host: &String| {
            let name = form.name_of(host);
            PlatformProfile(PlatformForm { name, ssh: Some(host.clone()), hosts: Vec::new(), ..form.clone() })
        };
        if form.hosts.is_empty() { vec![self.clone()] } else { form.hosts.iter().map(of_host).collect() }
    }

    /// Returns the platform in the engine's form. `host`: the resources of this host, for fields that a
    /// platform of adapter `local` leaves out.
    ///
    /// # Errors
    /// There are no cores, neither in the file nor on this host.
    pub fn spec(&self, host: &Resources) -> Result<PlatformSpec, PlatformError> {
        let form = &self.0;
        let nothing = Resources::default();
        let host = if form.adapter == LOCAL { host } else { &nothing };
        let mut generic = host.generic.clone();
        generic.extend(form.generic.clone());
        let capacity = Resources {
            cores: form.cores.unwrap_or(host.cores),
            memory_bytes: form.memory().unwrap_or(host.memory_bytes),
            gpus: form.gpus.unwrap_or(host.gpus),
            generic,
            widest: 0,
        };
        if capacity.cores == 0 {
            return Err(PlatformError::NoCores { platform: form.name.clone() });
        }
        let price = form.price.as_ref().map(|price| price.known(capacity.cores));
        Ok(PlatformSpec {
            price,
            name: form.name.clone(),
            adapter: form.adapter.clone(),
            site: Some(form.address()),
            capacity,
            n_nodes: form.nodes,
            is_array: form.nodes > 1 && form.adapter == GRID_ENGINE,
            submits_late: form.adapter != LOCAL,
            joins_once: form.adapter == OPENSTACK,
            n_pilots_min: form.pilots_min,
            n_pilots_max: form.pilots_max,
            idle_timeout: form.idle_timeout.0,
            walltime: form.walltime.map(|walltime| walltime.0),
            poll_interval: form.poll_interval.0,
            limits: PlatformLimits {
                n_queued_max: form.queued_max,
                n_submissions_per_minute: form.submissions_per_minute,
                core_time_max: form.core_hours.map(|budget| budget.0),
                user_core_time_max: form.user_core_hours.map(|budget| budget.0),
                cost_max: form.budget.map(|budget| budget.0),
            },
            scaling: form.scaling.map(|scaling| scaling.spec()),
        })
    }
}

impl PlatformForm {
    /// Returns the place of the requests, which differs between platforms of one adapter: the SSH host, or
    /// the cloud's name.
    fn address(&self) -> String {
        let cloud = self.openstack.as_ref().and_then(|cloud| cloud.cloud.clone());
        self.ssh.clone().or(cloud).unwrap_or_default()
    }

    fn site(&self) -> Site {
        let PlatformForm {
            queue,
            account,
            options,
            setup,
            agent,
            folder,
            run_as,
            allow_shared_account: allows_shared_account,
            ssh,
            ssh_config,
            transport,
            reach,
            openstack,
            ..
        } = self.clone();
        let (resource_names, cloud) = (self.resource_names(), openstack);
        Site {
            queue,
            account,
            options,
            setup,
            agent,
            folder,
            run_as,
            allows_shared_account,
            ssh,
            ssh_config,
            transport,
            reach,
            resource_names,
            cloud,
        }
    }

    /// Returns the memory of a node in bytes; the batch system decides whether units are powers of 1000 or
    /// 1024.
    fn memory(&self) -> Option<u64> {
        let counts_by_1024 = [PBS, LOADLEVELER].contains(&self.adapter.as_str());
        self.memory.map(|memory| if counts_by_1024 { memory.bytes_by_1024 } else { memory.bytes })
    }

    /// Returns the name of the platform of one host: `NAME-HOST`, without user and port.
    fn name_of(&self, host: &str) -> String {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let host = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(host, _)| host);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        format!("{}-{}", self.name, host.chars().map(plain).collect::<String>())
    }

    /// Checks that the names of several hosts differ.
    fn check_hosts(&self) -> Result<(), String> {
        let PlatformForm { name, adapter, hosts, .. } = self;
        if !hosts.is_empty() && (adapter != HOSTS || self.ssh.is_some()) {
            return Err(format!(
                "found hosts of `{name}`; write them with adapter {HOSTS} and without ssh, which is for one host"
            ));
        }
        let mut names = BTreeMap::new();
        for host in hosts {
            let own = self.name_of(host);
            if own.len() > NAME_BYTES_MAX {
                return Err(format!(
                    "found host `{host}` of `{name}`; its platform would be `{own}`, longer than {NAME_BYTES_MAX} \
                     letters: give it a short name in ~/.ssh/config"
                ));
            }
            if let Some(before) = names.insert(own.clone(), host) {
                return Err(format!(
                    "found hosts `{before}` and `{host}` of `{name}`; both would be `{own}`: give them other names in \
                     ~/.ssh/config"
                ));
            }
        }
        Ok(())
    }

    fn resource_names(&self) -> ResourceNames {
        let PlatformForm { parallel_environment, memory_resource, gpu_resource, .. } = self.clone();
        ResourceNames { parallel_environment, memory_resource, gpu_resource }
    }

    /// Checks the resource names that Grid Engine and LoadLeveler need and other adapters must not have.
    fn check_resource_names(&self) -> Result<(), String> {
        let PlatformForm { name, adapter, parallel_environment, gpu_resource, .. } = self;
        let has_names = [GRID_ENGINE, LOADLEVELER].contains(&adapter.as_str());
        if !has_names && self.resource_names() != ResourceNames::default() {
            return Err(format!(
                "found a parallel_environment, memory_resource or gpu_resource of `{name}`; only platforms with \
                 adapter {GRID_ENGINE} have them, and the latter two those with {LOADLEVELER}"
            ));
        }
        if adapter == LOADLEVELER && parallel_environment.is_some() {
            return Err(format!(
                "found a parallel_environment of `{name}`; only platforms with adapter {GRID_ENGINE} have one"
            ));
        }
        match self.gpus {
            Some(gpus) if adapter == LOADLEVELER && gpus > 0 && gpu_resource.is_none() => {
                return Err(format!(
                    "found gpus {gpus} and no gpu_resource of `{name}`; name the consumable resource by which the site \
                     counts GPUs (`llstatus -R` lists them)"
                ));
            }
            _ => {}
        }
        match self.cores {
            Some(cores) if adapter == GRID_ENGINE && cores > 1 && parallel_environment.is_none() => {
                Err(format!(
                    "found cores {cores} and no parallel_environment of `{name}`; name one that gives them on one host, \
                     of those that `qconf -spl` lists (`qconf -sp NAME` says `allocation_rule $pe_slots`)"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks that options are words of a command line, or LoadLeveler's keywords.
    fn check_options(&self) -> Result<(), String> {
        let PlatformForm { name, adapter, options, .. } = self;
        let is_loadleveler = adapter == LOADLEVELER;
        if let Some(option) = options.iter().find(|option| site::is_keyword(option) != is_loadleveler) {
            let example = if is_loadleveler { "island_count = 1" } else { "--constraint=avx512" };
            return Err(format!("found option `{option}` of `{name}`; write options like `{example}`"));
        }
        let said = Said { cores: self.cores.unwrap_or(u32::MAX), has_walltime: self.walltime.is_some() };
        let field = |option: &String| Some((option.clone(), counted::field_of(adapter, option, said)?));
        if let Some((option, field)) = options.iter().find_map(field) {
            return Err(format!(
                "found option `{option}` of `{name}`; leave it out, as Pilotfish sets it itself, so that budgets \
                 hold: write `{field}`"
            ));
        }
        let is_ours = |option: &&String| match is_loadleveler {
            true => !site::is_of_the_site(option),
            false => site::is_said_by_us(adapter, option),
        };
        if let Some(option) = options.iter().find(is_ours) {
            return Err(format!(
                "found option `{option}` of `{name}`; leave it out, as Pilotfish sets it itself"
            ));
        }
        let queue = self.queue.iter().map(|queue| format!("-q {queue}")).filter(|_| adapter == PBS);
        for option in options.iter().cloned().chain(queue) {
            if let Some(why) = site::leads_astray(adapter, &option) {
                return Err(format!("found option `{option}` of `{name}`; {why}"));
            }
        }
        let clusters = options.iter().filter(|option| site::slurm_cluster(option).is_some());
        match adapter == SLURM && clusters.count() > 1 {
            true => Err(format!(
                "found several options of `{name}` that name a cluster; name one cluster: each is a platform of its own"
            )),
            false => Ok(()),
        }
    }

    /// Checks the number of nodes of an allocation; each node brings one pilot.
    fn check_nodes(&self) -> Result<(), String> {
        let PlatformForm { name, adapter, nodes, pilots_max, .. } = self;
        let has_several = ![LOCAL, HOSTS, OPENSTACK].contains(&adapter.as_str());
        match *nodes {
            0 => Err(format!("found nodes 0 of `{name}`; write 1 or more")),
            1 => Ok(()),
            _ if !has_several => Err(format!(
                "found nodes {nodes} of `{name}`; an allocation of adapter {adapter} has one node: leave it out"
            )),
            _ if nodes > pilots_max => Err(format!(
                "found nodes {nodes} and pilots_max {pilots_max} of `{name}`; each node of an allocation brings a \
                 pilot, so allow {nodes} or more"
            )),
            _ => Ok(()),
        }
    }

    /// Checks the fields that only cloud servers have, and those that they must not have.
    fn check_cloud(&self) -> Result<(), String> {
        let (name, site) = (&self.name, self.site());
        let has_queue = site.queue.is_some() || site.account.is_some() || !site.options.is_empty();
        let has_account = site.ssh.is_some()
            || site.ssh_config.is_some()
            || site.transport.is_some()
            || site.reach == Some(Reach::Tunnel);
        match (self.adapter == OPENSTACK, &site.cloud) {
            (false, None) => Ok(()),
            (false, Some(_)) => {
                Err(format!("found `openstack` of `{name}`; only platforms with adapter {OPENSTACK} have it"))
            }
            (true, None) => Err(format!(
                "found no `openstack` of `{name}`; say at least which image its servers boot: `openstack: {{image: NAME}}`"
            )),
            (true, Some(_)) if has_queue || has_account => Err(format!(
                "found a queue, account, options, ssh or a tunnel of `{name}`; servers of a cloud have none"
            )),
            (true, Some(cloud)) if self.gpus.is_some_and(|gpus| gpus > 0) && cloud.flavor.is_none() => {
                Err(format!(
                    "found gpus of `{name}` and no flavor; no list of flavors says which have GPUs, so name one"
                ))
            }
            (true, Some(_)) => Ok(()),
        }
    }

    /// Checks scaling by placement: only a cloud can change the vCPUs of hosts, and only of hosts that
    /// `aggregate` names.
    fn check_scaling(&self) -> Result<(), String> {
        let name = &self.name;
        let cloud = self.openstack.as_ref();
        let is_of_hosts = self.scaling.is_some_and(|scaling| scaling.by == ScalingWay::Placement);
        match (is_of_hosts, self.adapter == OPENSTACK) {
            (true, false) => Err(format!(
                "found scaling by placement of `{name}`; only platforms with adapter {OPENSTACK} have that: write `by: \
                 slots`"
            )),
            (true, true) if cloud.is_none_or(|cloud| cloud.aggregate.is_none()) => Err(format!(
                "found scaling by placement of `{name}` and no aggregate; say in `openstack` which hosts: `aggregate: \
                 NAME`, or `all`"
            )),
            _ => Ok(()),
        }
    }

    fn check_site(&self) -> Result<(), String> {
        self.check_cloud()?;
        self.check_scaling()?;
        let (name, site) = (&self.name, self.site());
        let is_apart = site.run_as.is_some();
        if is_apart && self.adapter != LOCAL {
            return Err(format!(
                "found run_as of `{name}`; only platforms with adapter {LOCAL} have it: elsewhere `ssh` names the account"
            ));
        }
        let setup_only = Site {
            setup: site.setup.clone(),
            run_as: site.run_as.clone(),
            allows_shared_account: site.allows_shared_account,
            agent: site.agent.clone().filter(|_| is_apart),
            folder: site.folder.clone().filter(|_| is_apart),
            ..Site::default()
        };
        if self.adapter == LOCAL && site != setup_only {
            const NO_QUEUES: &str = "no batch system starts them";
            const AT_HOME: &str = "without `run_as: ACCOUNT` they keep their files in the manager's folder (`pilotfish serve \
                                   --dir`)";
            const NOT_FAR: &str = "those of another host have `adapter: hosts`";
            let said = [
                ("queue", site.queue.is_some(), NO_QUEUES),
                ("account", site.account.is_some(), NO_QUEUES),
                ("options", !site.options.is_empty(), NO_QUEUES),
                ("agent", site.agent.is_some() && !is_apart, AT_HOME),
                ("folder", site.folder.is_some() && !is_apart, AT_HOME),
                ("ssh", site.ssh.is_some(), NOT_FAR),
                ("ssh_config", site.ssh_config.is_some(), NOT_FAR),
                ("transport", site.transport.is_some(), NOT_FAR),
                ("reach", site.reach.is_some(), NOT_FAR),
            ];
            let said = said.into_iter().filter(|(_, is_said, _)| *is_said);
            let (fields, mut hints): (Vec<&str>, Vec<&str>) =
                said.map(|(field, _, hint)| (field, hint)).unzip();
            hints.dedup();
            return Err(format!(
                "found the field {} of `{name}`; pilots of this host have none: {}",
                fields.join(" and the field "),
                hints.join(", and ")
            ));
        }
        if self.adapter == HOSTS && site.ssh.is_none() && self.hosts.is_empty() {
            return Err(format!(
                "found no host of `{name}`; set `ssh`: its address, or `hosts`: those of several"
            ));
        }
        let has_queue = site.queue.is_some() || site.account.is_some() || !site.options.is_empty();
        if self.adapter == HOSTS && has_queue {
            return Err(format!(
                "found a queue, account or options of `{name}`; a plain host has no batch system"
            ));
        }
        if site.ssh.is_none()
            && self.hosts.is_empty()
            && (site.reach == Some(Reach::Tunnel) || site.ssh_config.is_some() || site.transport.is_some())
        {
            return Err(format!(
                "found a tunnel, an ssh_config or a transport of `{name}`, and no host; set `ssh`: its address"
            ));
        }
        Ok(())
    }
}

impl TryFrom<PlatformForm> for PlatformProfile {
    type Error = String;

    fn try_from(form: PlatformForm) -> Result<PlatformProfile, String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let PlatformForm { name, pilots_max, pilots_min, .. } = &form;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_word) {
            return Err(format!(
                "found name `{name}`; write 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"
            ));
        }
        if form.cores == Some(0) {
            return Err(format!("found cores 0 of `{name}`; a pilot has at least 1"));
        }
        if form.cores.is_none() && form.adapter != LOCAL {
            return Err(format!("found no cores of `{name}`; say how many a pilot is to have"));
        }
        form.check_resource_names()?;
        form.check_hosts()?;
        form.check_site()?;
        form.check_options()?;
        if !(1..=N_PILOTS_MAX).contains(pilots_max) {
            return Err(format!("found pilots_max {pilots_max} of `{name}`; write 1 to {N_PILOTS_MAX}"));
        }
        form.check_nodes()?;
        if pilots_min > pilots_max {
            return Err(format!(
                "found pilots_min {pilots_min} of `{name}`; it must not be above pilots_max {pilots_max}"
            ));
        }
        for (field, limit) in
            [("queued_max", form.queued_max), ("submissions_per_minute", form.submissions_per_minute)]
        {
            if limit == Some(0) {
                return Err(format!("found {field} 0 of `{name}`; write 1 or more, or leave it out"));
            }
        }
        if form.core_hours.is_some() && form.walltime.is_none() {
            return Err(format!(
                "found core_hours and no walltime of `{name}`; say how long a pilot may live, or nobody knows what it costs"
            ));
        }
        match (form.budget, &form.price, form.walltime) {
            (Some(_), None, _) => {
                return Err(format!(
                    "found budget and no price of `{name}`; say what it costs: `price: {{core_hour: 0.04, currency: EUR}}`"
                ));
            }
            (Some(_), Some(_), None) => {
                return Err(format!(
                    "found budget and no walltime of `{name}`; say how long a pilot may live, or nobody knows what it \
                     costs"
                ));
            }
            _ => {}
        }
        if form.poll_interval.0 == Span::ZERO {
            return Err(format!("found poll_interval 0 of `{name}`; write 1s or more"));
        }
        Ok(PlatformProfile(form))
    }
}

fn one() -> u32 {
    1
}

fn ten_minutes() -> Duration {
    Duration(Span::from_secs(600))
}

fn ten_seconds() -> Duration {
    Duration(Span::from_secs(10))
}
