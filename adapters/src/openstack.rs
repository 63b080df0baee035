//! `openstack`: pilots as servers of a project in an OpenStack cloud, by its HTTP services. What is said and what
//! answers mean is in the files beside this one, without I/O; here it is sent.
//!
//! A server is found again by its tags, which it has from the moment its request is answered; it is ours only if its
//! metadata say so as well. Once Nova has said its id, that decides whose it is: anybody in the project may change the
//! rest, and copy it. One that is over takes room until it is deleted: whoever lists deletes those.

#[cfg(test)]
mod by_id;
mod choice;
mod clear;
mod clouds;
mod console;
#[cfg(test)]
mod contract;
mod credentials;
mod identity;
mod placement;
mod servers;
#[cfg(test)]
mod tests;
mod tls;
mod wire;
mod yaml;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Mutex as Held, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use profiles::{cloud::Cloud, site::Site};
use scheduler::resources::Resources;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::command::{AdapterError, AllocationRequest, BatchId, BatchJob};
use choice::{Flavor, choose, choose_flavor, choose_networks, in_use, n_servers_max, read_flavors};
pub use clear::Left;
use clouds::Surroundings;
use console::Console;
use credentials::Credentials;
use identity::Session;
pub use servers::{AgentSource, FOLDER, user_data};
use servers::{Choice, Server};
use wire::{Answer, Call, Service, Trouble, escaped};

/// The word by which platforms name it.
pub const NAME: &str = "openstack";

/// For one request: the services need some four seconds to say that another one is down.
const TIME_LIMIT: Duration = Duration::from_secs(60);
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A page of 500 servers has some two megabytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// No list of servers is longer.
const N_PAGES_MAX: usize = 1_000;
/// A project that had no room is not asked for more sooner.
const FULL_FOR: Duration = Duration::from_secs(10);
/// Whatever a cloud says, it is asked again after that.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Credentials that were refused are tried again after that, or when they are others: Keystone locks accounts.
const REFUSED_FOR: Duration = Duration::from_secs(300);
/// A token that could not be renewed is used on, and renewed after that.
const RENEW_AGAIN: Duration = Duration::from_secs(30);
/// A server that is on its way out so long is deleted again: if its host is down by then, Nova forgets it. Not sooner:
/// a request that meets one that Nova fails to delete just then leaves it on its way out for ever.
const DELETE_AGAIN: Duration = Duration::from_secs(60);

/// A project in a cloud.
pub struct OpenStack {
    cloud: Cloud,
    site: Site,
    capacity: Resources,
    /// The account that may say how many vCPUs hosts have, if it is another one.
    operator: Option<Box<OpenStack>>,
    /// Held while somebody signs in, so that one does.
    session: Mutex<Option<Session>>,
    /// What was found for this platform; empty until it is asked for, and after a refusal.
    chosen: Mutex<Option<Choice>>,
    /// Before which the cloud wants no request.
    not_before: Held<Option<Instant>>,
    /// Until when the project has no room for more, and what the cloud said of that.
    full: Held<Option<(Instant, String)>>,
    /// How many have been begun: each is one of its own, so that one that is refused is given up once.
    n_sessions: AtomicU64,
    /// Credentials that were refused, and when they may be tried again.
    refused: Held<Option<(Credentials, Instant)>>,
    /// Servers that are over, and how often their console was asked for; all of it once it was read.
    read: Held<BTreeMap<String, u8>>,
    /// Servers of ours that were there when they were last heard of, with their tags.
    there: Held<BTreeMap<String, String>>,
    /// Servers of ours whose ids were ever known, with their tags, and …
    named: Held<BTreeMap<String, String>>,
    /// … those of others that bear a tag of these, as the log has said.
    copies: Held<BTreeSet<String>>,
    /// Servers that had failed when nobody said why yet: Nova says it a moment later.
    unexplained: Held<BTreeSet<String>>,
    /// Servers that Nova was asked to delete, or was seen to, and when: it may fail to, whatever it said.
    deleted: Held<BTreeMap<String, Instant>>,
}

/// What a server leaves when it is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remains {
    /// The allocation's tag.
    pub tag: String,
    /// The server's id.
    pub id: String,
    /// Why it failed, in the cloud's words; `None`: it turned itself off.
    pub fault: Option<String>,
    /// The end of what it wrote, without tokens; empty: nothing is known.
    pub console: String,
}

/// What a project can have.
#[derive(Clone, PartialEq, Debug)]
pub struct Offer {
    /// What a server offers to tasks.
    pub capacity: Resources,
    /// How many servers its quota allows in all; `None`: it has no limit.
    pub n_servers_max: Option<u32>,
    /// The same for people.
    pub words: String,
}

/// What a look at a cloud found, each with what it says or what is wrong.
pub type Findings = Vec<(&'static str, Result<String, String>)>;

impl OpenStack {
    /// The project of this account; `None`: it is none of a cloud. Nothing is asked yet.
    pub fn new(site: &Site, capacity: &Resources) -> Option<OpenStack> {
        let cloud = site.cloud.clone()?;
        let operator = cloud.aggregate_cloud.clone().and_then(|name| {
            let cloud = Cloud { cloud: Some(name), aggregate_cloud: None, ..cloud.clone() };
            OpenStack::new(&Site { cloud: Some(cloud), ..site.clone() }, capacity).map(Box::new)
        });
        Some(OpenStack {
            cloud,
            operator,
            site: site.clone(),
            capacity: capacity.clone(),
            session: Mutex::default(),
            chosen: Mutex::default(),
            not_before: Held::default(),
            full: Held::default(),
            n_sessions: AtomicU64::default(),
            refused: Held::default(),
            read: Held::default(),
            there: Held::default(),
            named: Held::default(),
            copies: Held::default(),
            unexplained: Held::default(),
            deleted: Held::default(),
        })
    }

    /// Asks for a server that runs a pilot.
    ///
    /// # Errors
    /// Refused: there is none. Not understood: there may be one, which a listing shows.
    pub async fn submit(
        &self,
        request: &AllocationRequest,
        source: &AgentSource,
    ) -> Result<BatchId, AdapterError> {
        let refused = AdapterError::Refused;
        if let Some((_, said)) = locked(&self.full).clone().filter(|(until, _)| Instant::now() < *until) {
            return Err(refused(said));
        }
        let choice = self.choice().await.map_err(refused)?;
        let user_data = servers::user_data(&self.site, source, request);
        let body = servers::asked(&self.cloud, &choice, &user_data, &request.tag).map_err(refused)?;
        let answer = self.call(Call::post(servers::SERVICE, "/servers", body)).await;
        match &answer {
            // Images, flavors and networks come and go.
            Err(Trouble::Refused(_) | Trouble::Gone(_) | Trouble::Busy(_)) => {
                *self.chosen.lock().await = None
            }
            Err(Trouble::Full(said)) => {
                *locked(&self.full) = Some((Instant::now() + FULL_FOR, said.clone()));
            }
            _ => {}
        }
        let id = servers::read_asked(answer)?;
        self.remember([(id.clone(), request.tag.clone())]);
        Ok(id)
    }

    /// Takes note of servers that are ours, by their ids and the tags of their allocations. From then on they are
    /// listed and deleted even if somebody removes the tags by which lists find them.
    pub fn remember(&self, servers: impl IntoIterator<Item = (BatchId, String)>) {
        let servers: Vec<_> = servers.into_iter().collect();
        self.remember_former(servers.clone());
        locked(&self.there).extend(servers);
    }

    /// The same of servers that may be gone: other servers with their tags are not ours.
    pub fn remember_former(&self, servers: impl IntoIterator<Item = (BatchId, String)>) {
        locked(&self.named).extend(servers);
    }

    /// All servers of all managers.
    ///
    /// # Errors
    /// No answer is never "gone".
    pub async fn list_all(&self) -> Result<Vec<BatchJob>, String> {
        Ok(self.servers(None).await?.into_iter().map(Server::into_job).collect())
    }

    /// All servers of the manager whose tags begin so, and what those leave that are over: they are deleted.
    ///
    /// # Errors
    /// No answer is never "gone".
    pub async fn list(&self, tag_prefix: &str) -> Result<(Vec<BatchJob>, Vec<Remains>), String> {
        let mut servers = self.servers(Some(tag_prefix)).await?;
        // Nova has filtered by tags; what is deleted is looked at again.
        servers.retain(|server| server.tag.starts_with(tag_prefix));
        self.add_unlisted(&mut servers).await?;
        self.note(&servers);
        for server in servers.iter_mut().filter(|server| server.is_unexplained()) {
            // A list does not say it of those that were on no host.
            let path = format!("/servers/{}", server.id);
            server.fault =
                self.get(servers::SERVICE, path).await.ok().and_then(|it| servers::fault(&it["server"]));
        }
        let mut remains = Vec::new();
        for server in servers.iter().filter(|server| self.is_to_go(server)) {
            if server.is_unexplained() && is_new(&self.unexplained, &server.id) {
                continue;
            }
            let console = match server.is_over() {
                true => self.console(&server.id).await,
                // Its deletion has failed. If it was we who asked for that, what it wrote was read before.
                false => Console::ReadBefore,
            };
            match console {
                Console::Read(console) => {
                    let Server { id, tag, fault, .. } = server.clone();
                    remains.push(Remains { tag, id, fault, console });
                }
                Console::ReadBefore => {}
                Console::Later => continue,
            }
            if let Err(why) = self.delete(&server.id).await {
                tracing::warn!(server = server.id, why, "a server that is over could not be deleted");
            }
        }
        Ok((servers.into_iter().map(Server::into_job).collect(), remains))
    }

    /// Deletes servers of ours, and what those leave that have run: nobody else may know why no pilot came. Errors, in
    /// the second place: not all could be deleted, the first reason.
    pub async fn cancel(&self, ids: &[BatchId]) -> (Vec<Remains>, Result<(), String>) {
        let (mut remains, mut failed) = (Vec::new(), None);
        let ours = match self.of_ids(ids).await {
            Ok(ours) => ours,
            Err(why) => return (remains, Err(why)),
        };
        for server in ours.into_iter().filter(|server| !self.is_going(server)) {
            remains.extend(self.last_words(&server).await);
            failed = failed.or(self.delete(&server.id).await.err());
        }
        (remains, failed.map_or(Ok(()), Err))
    }

    /// What servers leave that are there still, if they are ours and have run.
    ///
    /// # Errors
    /// There is no list of them.
    pub async fn written(&self, ids: &[BatchId]) -> Result<Vec<Remains>, String> {
        let mut written = Vec::new();
        for server in self.of_ids(ids).await? {
            written.extend(self.last_words(&server).await);
        }
        Ok(written)
    }

    /// Returns those of these servers that exist. They are ours: the manager knows their ids from Nova's answers to its
    /// requests, or from lists. Servers that a list lacks are asked for one by one, since somebody may have removed
    /// their tags.
    async fn of_ids(&self, ids: &[BatchId]) -> Result<Vec<Server>, String> {
        let mut servers = self.servers(None).await?;
        servers.retain(|server| ids.contains(&server.id));
        self.go_by_ids(&mut servers);
        let unlisted: Vec<_> =
            ids.iter().filter(|id| servers.iter().all(|server| server.id != **id)).collect();
        for id in unlisted {
            let tag = locked(&self.named).get(id).cloned().unwrap_or_default();
            servers.extend(self.known(id, tag).await?);
        }
        Ok(servers)
    }

    /// A server of ours, asked for by its id; `None`: it is gone. While a cell is down or does not answer in time, Nova says
    /// of its servers that there is none once their deletion was asked for, even if it fails later. In its older API it says
    /// that it does not know.
    async fn known(&self, id: &str, tag: String) -> Result<Option<Server>, String> {
        let mut call = Call::get(servers::SERVICE, format!("/servers/{}", escaped(id)));
        let mut answer = self.call(call.clone()).await;
        if matches!(answer, Err(Trouble::Gone(_))) {
            call.needs_cells = true;
            answer = self.call(call).await;
        }
        match answer {
            Ok(answer) => Ok(Some(servers::read_known(&answer["server"], id.to_owned(), tag))),
            Err(Trouble::Gone(_)) => Ok(None),
            Err(trouble) => Err(trouble.to_string()),
        }
    }

    /// Looks at everything that a pilot needs, and changes nothing; ends with the first thing that is wrong.
    pub async fn look(&self) -> Findings {
        let mut found = Findings::new();
        let scaled = self.cloud.aggregate.as_ref().map(|_| "placement");
        for step in ["connection", "compute", "server", "quota"].into_iter().chain(scaled) {
            let result = match step {
                "connection" => self.with_session(|session| session.whose.clone()).await,
                "compute" => self.with_session(|session| format!("API {}", session.compute)).await,
                "server" => self.described().await,
                "placement" => self.hosts_in_words().await,
                _ => self.quota().await,
            };
            let is_over = result.is_err();
            found.push((step, result));
            if is_over {
                break;
            }
        }
        found
    }

    /// What pilots on its servers would have, and how many there may be.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn offer(&self) -> Result<Offer, String> {
        self.choice().await?;
        let flavor = self.flavor().await?;
        let limits = self.get(Service::Compute, "/limits").await?;
        let n_servers_max = n_servers_max(&limits, &flavor);
        let words = format!(
            "{}, flavor {}",
            self.with_session(|session| session.whose.clone()).await?,
            flavor.words()
        );
        Ok(Offer { capacity: flavor.capacity(), n_servers_max, words })
    }

    /// What the project may use, and uses, in words.
    async fn quota(&self) -> Result<String, String> {
        Ok(format!("in use: {}", in_use(&self.get(Service::Compute, "/limits").await?)))
    }

    async fn described(&self) -> Result<String, String> {
        let flavor = self.flavor().await?;
        let Choice { image, networks, .. } = self.choice().await?;
        let networks = match networks {
            servers::NetworkChoice::None => "no network".to_owned(),
            servers::NetworkChoice::Auto => "the network that the cloud makes".to_owned(),
            servers::NetworkChoice::Ids(ids) => format!("network {}", ids.join(", ")),
        };
        Ok(format!("flavor {}, image {image}, {networks}", flavor.words()))
    }

    /// What servers are made of, asked once.
    async fn choice(&self) -> Result<Choice, String> {
        let mut chosen = self.chosen.lock().await;
        if let Some(choice) = &*chosen {
            return Ok(choice.clone());
        }
        let flavor = self.flavor().await?.id;
        // There may be thousands of images: the name is asked for, and all of them only to say which there are.
        let name = &self.cloud.image;
        let path = format!("/v2/images?status=active&name={}", escaped(name));
        let mut images = self.get(Service::Image, path).await?["images"].take();
        if images.as_array().is_none_or(Vec::is_empty) {
            images = self.get(Service::Image, "/v2/images?status=active&limit=100").await?["images"].take();
        }
        let image = match choose("image", &images, name) {
            Ok(id) => id,
            Err(why) => match self.get(Service::Image, format!("/v2/images/{}", escaped(name))).await {
                Ok(image) if image["id"] == name.as_str() => name.clone(),
                _ => return Err(why),
            },
        };
        let wanted = self.cloud.networks.as_ref();
        let networks = match wanted {
            Some(profiles::cloud::Networks::None | profiles::cloud::Networks::Auto) => Value::Null,
            _ => self.all(Service::Network, "/v2.0/networks?limit=500", "networks").await?,
        };
        let networks = choose_networks(&networks, wanted)?;
        let server_group = match &self.cloud.server_group {
            Some(group) => {
                let groups = self.get(Service::Compute, "/os-server-groups?limit=500").await?;
                Some(choose("server group", &groups["server_groups"], group)?)
            }
            None => None,
        };
        if let Some(name) = &self.cloud.key_pair {
            let path = format!("/os-keypairs/{}", escaped(name));
            self.get(Service::Compute, path)
                .await
                .map_err(|why| format!("found no key pair `{name}`: {why}"))?;
        }
        let choice = Choice { flavor, image, networks, server_group };
        *chosen = Some(choice.clone());
        Ok(choice)
    }

    async fn flavor(&self) -> Result<Flavor, String> {
        let all = self.all(Service::Compute, "/flavors/detail?limit=500", "flavors").await?;
        let flavors = read_flavors(&json!({ "flavors": all }))?;
        choose_flavor(&flavors, self.cloud.flavor.as_deref(), &self.capacity)
    }

    async fn servers(&self, tag_prefix: Option<&str>) -> Result<Vec<Server>, String> {
        let servers = self.all(servers::SERVICE, &servers::list_path(tag_prefix), "servers").await?;
        servers::read_page(&json!({ "servers": servers }))
    }

    /// All pages of a list.
    async fn all(&self, service: Service, path: &str, what: &str) -> Result<Value, String> {
        let (mut all, mut next) = (Vec::new(), Some(path.to_owned()));
        for _ in 0..N_PAGES_MAX {
            let Some(path) = next else { return Ok(all.into()) };
            let mut page = self.get(service, path.clone()).await?;
            let Some(Value::Array(some)) = page.get_mut(what).map(Value::take) else {
                return Err(format!("the answer is no list of {what}"));
            };
            all.extend(some);
            next = servers::next_page(&path, &page[format!("{what}_links")]);
        }
        Err(format!("the list of {what} has no end"))
    }

    /// While one of Nova's cells is down, its servers are left out of lists, and a server whose tags somebody has
    /// removed is found by no list: those that were there are asked for one by one before they are taken for gone.
    async fn add_unlisted(&self, servers: &mut Vec<Server>) -> Result<(), String> {
        self.go_by_ids(servers);
        let mut missing = locked(&self.there).clone();
        missing.retain(|id, _| !servers.iter().any(|server| server.id == *id));
        for (id, tag) in missing {
            match self.known(&id, tag).await? {
                Some(server) => servers.push(server),
                None => _ = locked(&self.there).remove(&id),
            }
        }
        locked(&self.there).clear();
        let there = servers.iter().filter(|server| !server.is_gone());
        self.remember(there.map(|server| (server.id.clone(), server.tag.clone())));
        Ok(())
    }

    /// A server whose id is known is of the allocation for which Nova gave that id, whatever its tags and metadata are
    /// by now. Another one that bears the tag of such a server is a stranger's copy, and is left out. Of allocations whose
    /// server is not known yet, tags and metadata decide.
    fn go_by_ids(&self, servers: &mut Vec<Server>) {
        let named = locked(&self.named);
        servers.retain_mut(|server| match named.get(&server.id) {
            Some(tag) => {
                server.tag.clone_from(tag);
                true
            }
            None => match named.iter().find(|(_, tag)| **tag == server.tag) {
                Some((ours, tag)) => {
                    if is_new(&self.copies, &server.id) {
                        let server = &server.id;
                        tracing::warn!(
                            server,
                            tag,
                            ours,
                            "a server has the tags and metadata of ours, and another id: it is left alone"
                        );
                    }
                    false
                }
                None => true,
            },
        });
    }

    /// Of servers that are not there any more nothing need be known; of those on their way out, since when they are.
    fn note(&self, servers: &[Server]) {
        let there: BTreeSet<&str> = servers.iter().map(|server| server.id.as_str()).collect();
        locked(&self.read).retain(|id, _| there.contains(id.as_str()));
        locked(&self.unexplained).retain(|id| there.contains(id.as_str()));
        let mut deleted = locked(&self.deleted);
        deleted.retain(|id, _| there.contains(id.as_str()));
        for server in servers.iter().filter(|server| server.is_leaving) {
            deleted.entry(server.id.clone()).or_insert_with(Instant::now);
        }
    }

    /// Whether it is to be deleted now: it is over, or was to be deleted and is there still.
    fn is_to_go(&self, server: &Server) -> bool {
        let is_wanted_no_more = server.is_over() || locked(&self.deleted).contains_key(&server.id);
        is_wanted_no_more && !server.is_gone() && !self.is_going(server)
    }

    /// Whether Nova is deleting it, and has not been for long.
    fn is_going(&self, server: &Server) -> bool {
        let asked_at = locked(&self.deleted).get(&server.id).copied();
        server.is_leaving && asked_at.is_none_or(|at| at.elapsed() < DELETE_AGAIN)
    }

    async fn delete(&self, id: &str) -> Result<(), String> {
        locked(&self.deleted).insert(id.to_owned(), Instant::now());
        match self.call(Call::delete(servers::SERVICE, format!("/servers/{id}"))).await {
            Ok(_) | Err(Trouble::Gone(_)) => Ok(()),
            Err(trouble) => Err(format!("server {id}: {trouble}")),
        }
    }

    async fn get(&self, service: Service, path: impl Into<String>) -> Result<Value, String> {
        self.call(Call::get(service, path)).await.map_err(|trouble| trouble.to_string())
    }

    async fn with_session<T>(&self, take: impl FnOnce(&Session) -> T) -> Result<T, String> {
        let mut held = self.session.lock().await;
        self.sign_in(&mut held).await.map(take).map_err(|trouble| trouble.to_string())
    }

    /// Sends it; a token that is not taken any more is renewed once.
    async fn call(&self, call: Call) -> Result<Value, Trouble> {
        if let Some(wait) = self.wait() {
            return Err(Trouble::Later(wait));
        }
        for is_last in [false, true] {
            let (request, number) = {
                let mut held = self.session.lock().await;
                let session = self.sign_in(&mut held).await?;
                (session.request(&call)?, session.number)
            };
            let result = sent(request, call.method).await.and_then(Answer::accepted);
            match result {
                Err(Trouble::Stranger(_)) if !is_last => {
                    let mut held = self.session.lock().await;
                    held.take_if(|session| session.number == number);
                }
                Err(Trouble::Stranger(said)) => {
                    return Err(Trouble::Refused(format!("the credential is refused: {said}")));
                }
                Err(Trouble::Later(wait)) => {
                    self.wait_for(wait);
                    return Err(Trouble::Later(wait));
                }
                other => return other,
            }
        }
        unreachable!("the second attempt returns")
    }

    /// The session, begun or renewed if it is time.
    async fn sign_in<'s>(&self, held: &'s mut Option<Session>) -> Result<&'s Session, Trouble> {
        if held.as_ref().is_none_or(|session| Instant::now() >= session.renew_at) {
            match self.begin().await {
                Ok(session) => *held = Some(session),
                Err(trouble) => match held.as_mut().filter(|session| Instant::now() < session.ends_at) {
                    Some(session) => session.renew_at = Instant::now() + RENEW_AGAIN,
                    None => return Err(trouble),
                },
            }
        }
        held.as_ref().ok_or_else(|| Trouble::Refused("no session".to_owned()))
    }

    /// Signs in. Whatever comes of it, what it was for was not done.
    async fn begin(&self) -> Result<Session, Trouble> {
        let credentials = self.credentials().await.map_err(Trouble::Refused)?;
        let is_refused =
            |(refused, until): &(Credentials, Instant)| *refused == credentials && Instant::now() < *until;
        if locked(&self.refused).as_ref().is_some_and(is_refused) {
            let source = &credentials.source;
            return Err(Trouble::Refused(format!(
                "{source}: the credential was refused and is not tried again yet"
            )));
        }
        let number = self.n_sessions.fetch_add(1, Ordering::Relaxed);
        match Session::begin(&credentials, number).await {
            Ok(session) => {
                *locked(&self.refused) = None;
                Ok(session)
            }
            Err(Trouble::Stranger(said)) => {
                *locked(&self.refused) = Some((credentials, Instant::now() + REFUSED_FOR));
                Err(Trouble::Refused(said))
            }
            Err(Trouble::Unknown(said)) => Err(Trouble::Away(said)),
            Err(Trouble::Later(wait)) => {
                self.wait_for(wait);
                Err(Trouble::Later(wait))
            }
            other => other,
        }
    }

    /// As files and the environment have them now: they may have been renewed.
    async fn credentials(&self) -> Result<Credentials, String> {
        let (cloud, clouds_file) = (self.cloud.cloud.clone(), self.cloud.clouds_file.clone());
        // They may be on a file system that hangs.
        let find = move || {
            let around =
                Surroundings { variable: &|name| std::env::var_os(name), file: &|path| std::fs::read(path) };
            Credentials::find(cloud.as_deref(), clouds_file.as_deref().map(Path::new), &around)
        };
        tokio::task::spawn_blocking(find).await.map_err(|error| error.to_string())?
    }

    fn wait(&self) -> Option<Duration> {
        let held = *locked(&self.not_before);
        held.map(|at| at.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }

    fn wait_for(&self, wait: Duration) {
        *locked(&self.not_before) = Some(Instant::now() + wait.min(WAIT_MAX));
    }
}

/// Nobody panics who holds one of them.
fn locked<T>(held: &Held<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(|held| held.into_inner())
}

/// Takes note of a server; whether it was not noted before.
fn is_new(noted: &Held<BTreeSet<String>>, id: &str) -> bool {
    locked(noted).insert(id.to_owned())
}

/// An error and what is behind it.
fn words(error: &reqwest::Error) -> String {
    let mut words = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let separator = if words.is_empty() { "" } else { ": " };
        words = format!("{words}{separator}{error}");
        cause = error.source();
    }
    let way_out = tls::way_out(&words);
    words + way_out
}

/// The same of a request, with the server that it was for. The rest of its address may be secret.
fn words_of_place(error: reqwest::Error) -> String {
    let place = error.url().map(|url| format!("{}: ", url.origin().ascii_serialization()));
    format!("{}{}", place.unwrap_or_default(), words(&error.without_url()))
}

/// Sends it. Nothing that was not sent to its end was done; of what was, nobody knows.
async fn sent(request: reqwest::RequestBuilder, method: &str) -> Result<Answer, Trouble> {
    let mut answer = request.send().await.map_err(|error| match error.is_connect() || method == "GET" {
        true => Trouble::Away(words_of_place(error)),
        false => Trouble::Unknown(words_of_place(error)),
    })?;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let retry_after =
        header("retry-after").and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    let (status, request_id) = (answer.status().as_u16(), header("x-openstack-request-id"));
    let token = header("x-subject-token");
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| Trouble::Unknown(words_of_place(error)))? {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER_BYTES_MAX {
            return Err(Trouble::Unknown(format!("the answer has more than {} MiB", ANSWER_BYTES_MAX >> 20)));
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Answer { status, body, request_id, retry_after, token })
}
