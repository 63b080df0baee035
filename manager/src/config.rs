//! How a manager is to be started. [`Config`] is what the rest of the crate sees; [`file`] reads it
//! from a `manager.yaml`.

pub mod file;

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
};

use adapters::transport::{Asker, Nobody};
use profiles::{
    platform::{PlatformError, PlatformProfile},
    site::{Reach, Site},
    store::StoreProfile,
};
use protocol::{api::Reloaded, net::address::is_loopback};
use scheduler::{
    engine::interface::{PlatformSpec, ScalingWay, settings::Settings},
    resources::Resources,
};
use serde::Deserialize;
use tokio::sync::oneshot;

use file::{ConfigError, ManagerFile};

pub use crate::home::Elsewhere;
use crate::quotas::Quotas;

/// How a manager is to be started.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where its state is: `store.sqlite`, `access.json`, the secret, the certificate, pilots' files.
    pub folder: PathBuf,
    /// The file that it was read from, whole; `None`: there is none.
    pub file: Option<PathBuf>,
    /// Where the API listens.
    pub listen_host: IpAddr,
    /// Its port; `None`: that of last time if it is free, else any.
    pub listen_port: Option<u16>,
    /// By which pilots on other hosts reach it; `None`: its address, or this host's name if that is all of them.
    pub listen_name: Option<String>,
    /// Whether the API speaks TLS.
    pub tls: TlsMode,
    /// The owner, an operator, whose token goes to `access.json`.
    pub user: String,
    /// The engine's settings.
    pub settings: Settings,
    /// Attached at the start, and how their pilots are asked for.
    pub platforms: Vec<(PlatformSpec, Site)>,
    /// Stores that jobs may name.
    pub stores: Vec<StoreProfile>,
    /// What one user may take.
    pub quotas: Quotas,
    /// How the agent is run on this host.
    pub agent_command: Vec<String>,
    /// Who is asked for passphrases and second factors.
    pub asker: Arc<dyn Asker>,
    /// Pilots end when this process does.
    pub pilots_die_with_us: bool,
    /// For readers of the store only: no pilot, no provisioning, no access file.
    pub is_offline: bool,
    /// What to do where the folder is not where its manager was last.
    pub elsewhere: Elsewhere,
}

/// Whether the API speaks TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Unless it listens on a loopback address only.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl TlsMode {
    /// Whether a listener on this address speaks TLS.
    pub fn is_on_for(self, listen_host: IpAddr) -> bool {
        match self {
            TlsMode::Auto => !listen_host.is_loopback(),
            TlsMode::On => true,
            TlsMode::Off => false,
        }
    }
}

impl Config {
    /// A manager in `folder` for this owner: on the loopback address, any port, no platform.
    pub fn new(folder: PathBuf, user: String) -> Config {
        Config {
            folder,
            file: None,
            listen_host: Ipv4Addr::LOCALHOST.into(),
            listen_port: None,
            listen_name: None,
            tls: TlsMode::Auto,
            user,
            settings: Settings::default(),
            platforms: Vec::new(),
            stores: Vec::new(),
            quotas: Quotas::default(),
            agent_command: Vec::new(),
            asker: Arc::new(Nobody),
            pilots_die_with_us: false,
            is_offline: false,
            elsewhere: Elsewhere::Refuse,
        }
    }

    /// Whether the API speaks TLS: `auto` also where pilots come from other hosts by way of loopback, through a tunnel, a
    /// proxy or a forwarded port.
    pub fn speaks_tls(&self) -> bool {
        let goes_out = self.platforms.iter().any(|(_, site)| wants_tls(site));
        let has_name = self.listen_name.as_deref().is_some_and(|name| !is_loopback(name));
        self.tls.is_on_for(self.listen_host) || (self.tls == TlsMode::Auto && (goes_out || has_name))
    }

    /// Takes over what a file says; what it is silent on stays. `host`: what this host has, for
    /// local platforms that do not say what they offer.
    ///
    /// # Errors
    /// A platform that offers no core, or whose pilots have no time.
    pub fn apply(&mut self, file: &ManagerFile, host: &Resources) -> Result<(), ConfigError> {
        self.listen_host = file.listen.host.unwrap_or(self.listen_host);
        self.listen_port = file.listen.port.or(self.listen_port);
        self.listen_name = file.listen.name.clone().or(self.listen_name.take());
        self.tls = file.tls.unwrap_or(self.tls);
        self.settings.policies = file.policies.unwrap_or(self.settings.policies);
        file.limits.apply(&mut self.settings);
        self.stores.extend(file.stores.iter().cloned());
        self.quotas = file.quotas.quotas();
        let margin = self.settings.walltime_margin;
        for platform in file.platforms.iter().flat_map(PlatformProfile::each) {
            let spec = platform.spec(host)?;
            if self.platforms.iter().any(|(held, _)| held.name == spec.name) {
                return Err(PlatformError::SameName { platform: spec.name }.into());
            }
            if let Some(found) = spec.walltime.filter(|walltime| *walltime <= margin) {
                return Err(PlatformError::NoTime { platform: spec.name, found, margin }.into());
            }
            let site = platform.site();
            let scales = |spec: &PlatformSpec| spec.scaling.is_some_and(|s| s.by == ScalingWay::Placement);
            let shares_hosts = |(held, held_site): &&(PlatformSpec, Site)| {
                let clouds = held_site.cloud.as_ref().zip(site.cloud.as_ref());
                scales(held) && scales(&spec) && clouds.is_some_and(|(one, other)| one.scales_hosts_of(other))
            };
            if let Some((held, _)) = self.platforms.iter().find(shares_hosts) {
                let (first, second) = (held.name.clone(), spec.name);
                return Err(PlatformError::SameHosts { first, second }.into());
            }
            self.platforms.push((spec, site));
        }
        Ok(())
    }
}

/// An operator wants the configuration to be read again.
pub struct Reload {
    /// What came of it, or why nothing was done.
    pub answer: oneshot::Sender<Result<Reloaded, String>>,
}

/// How the API is reached.
pub(crate) fn scheme(speaks_tls: bool) -> &'static str {
    if speaks_tls { "https" } else { "http" }
}

/// Whether a platform's pilots come from other hosts by way of a loopback address, or speak TLS anyway.
pub(crate) fn wants_tls(site: &Site) -> bool {
    let is_https = matches!(&site.reach, Some(Reach::At(url)) if url.starts_with("https://"));
    site.ssh.is_some() || is_https
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use profiles::site::{Reach, Site};

    use super::{Config, TlsMode};

    #[test]
    fn tls_is_on_where_pilots_of_other_hosts_come_by_loopback() {
        let speaks = |name: Option<&str>, reach: Option<&str>| {
            let mut config = Config::new("/nowhere".into(), "olga".into());
            config.listen_name = name.map(str::to_owned);
            let site = Site { reach: reach.map(|url| Reach::At(url.to_owned())), ..Site::default() };
            let file = super::file::ManagerFile::parse(
                "platforms: [{name: here, adapter: local, cores: 1}]",
                std::path::Path::new("manager.yaml"),
            );
            config.apply(&file.unwrap(), &scheduler::resources::Resources::cores(1)).unwrap();
            config.platforms[0].1 = site;
            config.speaks_tls()
        };
        assert!(!speaks(None, None) && !speaks(Some("localhost"), Some("http://gate:80")));
        assert!(speaks(Some("gate.centre.org"), None) && speaks(None, Some("https://gate.centre.org:8443")));
    }

    #[test]
    fn tls_is_on_for_everything_but_loopback() {
        let is_on = |mode: TlsMode, host: &str| mode.is_on_for(host.parse::<IpAddr>().unwrap());
        assert!(!is_on(TlsMode::Auto, "127.0.0.1") && !is_on(TlsMode::Auto, "::1"));
        assert!(is_on(TlsMode::Auto, "0.0.0.0") && is_on(TlsMode::Auto, "10.1.2.3"));
        assert!(is_on(TlsMode::On, "127.0.0.1") && !is_on(TlsMode::Off, "0.0.0.0"));
    }
}
