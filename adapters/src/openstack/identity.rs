//! Signing in: a token, where the services are, and which version of Nova's API is spoken.

use std::{
    fmt,
    time::{Duration, Instant},
};

use profiles::address::shown;
use serde_json::Value;

use super::{
    credentials::{Credentials, Secret},
    sent,
    tls::Ways,
    wire::{Answer, Call, Service, Trouble},
};

/// The oldest API of Nova in which servers have tags from the beginning. From 2.69 on Nova answers for a cell that is down.
const OLDEST: Microversion = Microversion(2, 52);
/// The newest that we know.
const NEWEST: Microversion = Microversion(2, 79);
/// Placement's API: the oldest whose errors have codes, of 2018.
const PLACEMENT: &str = "placement 1.23";
/// Where an answer does not say how long a token lives.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// A token is renewed after that part of its life.
const RENEWED_AFTER: f64 = 0.75;

/// A version of Nova's API.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Microversion(u32, u32);

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Microversion {
    fn read(text: &str) -> Option<Microversion> {
        let (major, minor) = text.split_once('.')?;
        Some(Microversion(major.parse().ok()?, minor.parse().ok()?))
    }

    /// The one to speak with a Nova that says this of itself. Errors: it is too old.
    pub(super) fn meant(root: &Value) -> Result<Microversion, String> {
        let said = root["version"]["version"].as_str().or_else(|| {
            let all = root["versions"].as_array()?;
            all.iter().filter_map(|version| version["version"].as_str()).next_back()
        });
        let most = said.and_then(Microversion::read).ok_or("Nova does not say which API it speaks")?;
        match most >= OLDEST {
            true => Ok(most.min(NEWEST)),
            false => Err(format!(
                "this cloud speaks Nova's API {most}, Pilotfish needs {OLDEST} (of 2017) or newer"
            )),
        }
    }
}

/// Who we are for a while.
pub(super) struct Session {
    http: reqwest::Client,
    token: Secret,
    endpoints: Vec<(Service, String)>,
    pub(super) renew_at: Instant,
    pub(super) ends_at: Instant,
    pub(super) compute: Microversion,
    /// Where and as whom, for people.
    pub(super) whose: String,
    /// Sessions are counted, so that one that is refused is renewed once.
    pub(super) number: u64,
}

impl Session {
    /// Signs in.
    pub(super) async fn begin(credentials: &Credentials, number: u64) -> Result<Session, Trouble> {
        let is_secure = is_https(&credentials.auth_url);
        let ways = Ways::open(&credentials.tls, is_secure).await;
        let Ways { http, distrust } =
            ways.map_err(|why| Trouble::Refused(format!("{}: {why}", credentials.source)))?;
        let url = format!("{}/auth/tokens", credentials.auth_url);
        let began = Instant::now();
        // A token that is lost costs nothing: whatever happened, it may be asked for again.
        let answer = sent(http.post(url).json(&credentials.request()), "GET").await?;
        let token = answer.token.clone().map(Secret::new);
        let refused = |said: &str| {
            Trouble::Stranger(format!("{}: the credential is refused: {said}", credentials.source))
        };
        let body = match answer.accepted() {
            Ok(body) => body,
            // An application credential that was deleted is not found.
            Err(Trouble::Stranger(said) | Trouble::Gone(said)) => return Err(refused(&said)),
            Err(trouble) => return Err(trouble),
        };
        let Some(token) = token else {
            return Err(Trouble::Unknown("Keystone's answer has no token".to_owned()));
        };
        let seen = &body["token"];
        let mut endpoints = endpoints(&seen["catalog"], credentials).map_err(Trouble::Refused)?;
        let project = seen["project"]["id"].as_str().unwrap_or_default();
        for (_, url) in &mut endpoints {
            *url = url.replace("%(project_id)s", project).replace("%(tenant_id)s", project);
        }
        if let (Some(why), true) = (distrust, endpoints.iter().any(|(_, url)| is_https(url))) {
            return Err(Trouble::Refused(format!("{}: {why}", credentials.source)));
        }
        let name = |what: &str| seen[what]["name"].as_str().unwrap_or("?").to_owned();
        let at = shown(&credentials.auth_url);
        let whose = format!("{at}, user {}, project {}", name("user"), name("project"));
        let life = life(seen);
        let (renew_at, ends_at) = (began + life.mul_f64(RENEWED_AFTER), began + life);
        let mut session =
            Session { http, token, endpoints, renew_at, ends_at, compute: OLDEST, whose, number };
        let root = session.bare(Service::Compute, "/")?;
        let root = sent(root, "GET").await.and_then(Answer::accepted)?;
        session.compute = Microversion::meant(&root).map_err(Trouble::Refused)?;
        Ok(session)
    }

    fn bare(&self, service: Service, path: &str) -> Result<reqwest::RequestBuilder, Trouble> {
        let url = self.url(service, path)?;
        Ok(self.http.get(url).header("X-Auth-Token", self.token.header()?))
    }

    fn url(&self, service: Service, path: &str) -> Result<String, Trouble> {
        let found = self.endpoints.iter().find(|(of, _)| *of == service);
        match found {
            Some((_, base)) => Ok(format!("{base}{path}")),
            None => Err(Trouble::Refused(format!("the cloud's catalog has no {} service", service.kind()))),
        }
    }

    /// A request, ready to be sent.
    pub(super) fn request(&self, call: &Call) -> Result<reqwest::RequestBuilder, Trouble> {
        let url = self.url(call.service, &call.path)?;
        let request = match call.method {
            "GET" => self.http.get(url),
            "POST" => self.http.post(url),
            "PUT" => self.http.put(url),
            _ => self.http.delete(url),
        };
        let request = match call.service {
            Service::Compute => {
                let version = if call.needs_cells { OLDEST } else { self.compute };
                request.header("OpenStack-API-Version", format!("compute {version}"))
            }
            Service::Placement => request.header("OpenStack-API-Version", PLACEMENT),
            Service::Image | Service::Network => request,
        };
        let request = request.header("X-Auth-Token", self.token.header()?);
        Ok(match &call.body {
            Some(body) => request.json(body),
            None => request,
        })
    }
}

/// How long the token lives, by the cloud's own clock.
pub(super) fn life(token: &Value) -> Duration {
    let at = |name: &str| token[name].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let span = at("issued_at").zip(at("expires_at")).map(|(from, to)| to.duration_since(from));
    span.and_then(|span| Duration::try_from(span).ok()).unwrap_or(TOKEN_LIFE)
}

/// Where each service is. Errors: what is amiss with the region.
pub(super) fn endpoints(
    catalog: &Value,
    credentials: &Credentials,
) -> Result<Vec<(Service, String)>, String> {
    let entries = catalog.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    let mut regions = Vec::new();
    for service in Service::ALL {
        if let Some(url) = &credentials.overrides[service as usize] {
            found.push((service, base(service, url)));
            continue;
        }
        let is_of = |entry: &&Value| entry["type"] == service.kind();
        for endpoint in
            entries.iter().filter(is_of).filter_map(|entry| entry["endpoints"].as_array()).flatten()
        {
            let region = endpoint["region_id"].as_str().or(endpoint["region"].as_str()).unwrap_or_default();
            regions.push(region.to_owned());
            let is_there = credentials.region.as_ref().is_none_or(|wanted| wanted == region);
            if let (true, true, Some(url)) = (
                is_there,
                endpoint["interface"] == credentials.interfaces[service as usize].as_str(),
                endpoint["url"].as_str(),
            ) && !found.iter().any(|(known, _)| *known == service)
            {
                found.push((service, base(service, url)));
            }
        }
    }
    regions.sort();
    regions.dedup();
    let has_compute = found.iter().any(|(service, _)| *service == Service::Compute);
    match (&credentials.region, &regions[..]) {
        _ if !has_compute => Err(format!(
            "{}: the cloud's catalog has no {} compute service{}; its regions are {}",
            credentials.source,
            credentials.interfaces[Service::Compute as usize],
            credentials.region.as_ref().map_or_else(String::new, |region| format!(" in region {region}")),
            regions.join(", ")
        )),
        (None, [_, _, ..]) => Err(format!(
            "{}: found several regions; set `region_name`, one of {}",
            credentials.source,
            regions.join(", ")
        )),
        _ => Ok(found),
    }
}

fn is_https(url: &str) -> bool {
    url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

/// A service's URL without the version that catalogs of some clouds have in it, and which is in our paths.
fn base(service: Service, url: &str) -> String {
    let url = url.trim_end_matches('/');
    let version = match service {
        Service::Image => "/v2",
        Service::Network => "/v2.0",
        Service::Compute | Service::Placement => "",
    };
    url.strip_suffix(version).unwrap_or(url).to_owned()
}
