//! Where a platform's commands are run, and what its pilots find there: this host, or an account on another,
//! to which the agent is brought and from which pilots are led home; or a cloud, whose servers fetch it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use adapters::{
    Adapter, Surroundings,
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, Command, JOB_LOG, Output},
    openstack::{self, AgentSource, Left, OpenStack, Remains},
    transport::{Account, Asker, LocalPilots, LocalShell, Ssh, Transport, TransportError},
};
use profiles::site::{Reach, Site};
use protocol::{net::address::is_host, text::ulimits::with_hint};
use scheduler::{
    engine::interface::{
        QueueLoad, SubmitOutcome,
        platform::scaling::{FoundProvider, Provider, Ratio, ScaleTrouble},
    },
    resources::Resources,
    time::Span,
};
use tokio::sync::OnceCell;

use crate::{
    doors::{Door, Doorway},
    platforms::agent_file::{self, AGENT_PATH, AgentFile},
    security::accounts::AccountCheck,
};

/// To bring the agent over a slow line.
const UPLOAD_LIMIT: Duration = Duration::from_secs(600);
/// To look at files and to start a process.
const LOOK_LIMIT: Duration = Duration::from_secs(60);

/// What people are told that lines of shell are, where it is said what those are for.
pub const SHELL: &str = "the shell";

/// Prints the folder for our files, its first argument or one in the home, and `there` if the agent, its
/// second, is in it.
const LOOK: &str = r#"f=${1:-$HOME/.pilotfish}; umask 077; mkdir -p "$f" || exit; echo "$f"
[ -x "$f/$2" ] && echo there || echo missing"#;

/// Keeps standard input as the program `$1` of `$2` bytes: all of it or nothing.
const UPLOAD: &str = r#"umask 077; cat > "$1.$$" && [ "$(wc -c < "$1.$$")" -eq "$2" ] && chmod 700 "$1.$$" && mv "$1.$$" "$1" && exit
rm -f "$1.$$"; echo "not all of it arrived, or there is no room" >&2; exit 1"#;

/// Removes the join documents of tags: below the pilots' folder `$1`, and in the folder `$2` or at home.
const FORGET: &str = r#"pilots=$1 home=${2:-$HOME} name=$3; shift 3
for tag; do rm -f "$pilots/$tag/join" "$pilots/$tag/join".* "$home/$name$tag" "$home/$name$tag".*; done"#;

/// The same of all tags that begin with `$4`, except those that follow: documents that are an hour old, as one that
/// is new may be of a job that is not listed yet.
const SWEEP: &str = r#"pilots=$1 home=${2:-$HOME} name=$3 prefix=$4; shift 4
listed=" $* "
for file in "$pilots/$prefix"*/join "$pilots/$prefix"*/join.* "$home/$name$prefix"*; do
[ -f "$file" ] || continue
case $file in
"$home/$name"*) tag=${file#"$home/$name"} tag=${tag%%.*} ;;
*) tag=${file%/*} tag=${tag##*/} ;;
esac
case $listed in *" $tag "*) continue ;; esac
[ -z "$(find "$file" -mmin +60 2>/dev/null)" ] || rm -f "$file"
done"#;

/// Says the SHA-256 of the file `$1`, if it may be read.
const READ: &str = r#"[ -r "$1" ] && sha256sum < "$1"; exit 0"#;

/// Prints the first folder on the way to `$1`, or to the home, that cannot be entered.
const BARRED: &str = r#"rest=${1:-$HOME} rest=${rest#/} at=
while :; do
at=$at/${rest%%/*}
if [ -d "$at" ] && [ ! -x "$at" ]; then echo "$at"; exit; fi
case $rest in */*) rest=${rest#*/} ;; *) exit 0 ;; esac
done"#;

/// Takes away a folder, its first argument.
const REMOVE: &str = r#"rm -rf -- "$1""#;

/// What pilots of a platform stand on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ground {
    /// Where they keep their files, each in a folder of its own.
    pub folder: String,
    /// Where they find the manager; `None`: at its own address for other hosts.
    pub url: Option<String>,
}

impl Ground {
    /// The folder of the pilot with that tag.
    pub fn pilot_folder(&self, tag: &str) -> String {
        format!("{}/{tag}", self.folder)
    }
}

/// How a platform is made.
pub struct Plan {
    /// Its name, which no other manager's platform has.
    pub name: String,
    /// The adapter's name, one of those that there are.
    pub adapter: String,
    /// What the operator says of the account.
    pub site: Site,
    /// What each pilot is to offer.
    pub capacity: Resources,
    /// The agent on this host.
    pub surroundings: Surroundings,
    /// The same for servers of clouds, who get it from the API.
    pub agent_file: AgentFile,
    /// By which hosts elsewhere reach the manager.
    pub url_elsewhere: String,
    /// Where pilots keep their files on this host, if the site says nothing else.
    pub pilots: PathBuf,
    /// For the tunnel; `None`: there is none.
    pub doorway: Option<Doorway>,
    /// `https` or `http`.
    pub scheme: &'static str,
    /// Who is asked for what no file says.
    pub asker: Arc<dyn Asker>,
    /// Looks whether a host behind SSH reads the manager's folder.
    pub account_check: Option<AccountCheck>,
}

/// Where a platform's commands are run.
pub struct Place {
    plan: Plan,
    /// A cloud has none: it is asked by other means.
    adapter: Option<Box<dyn Adapter>>,
    agent: Vec<String>,
    /// Where the tunnel ends, once there was one.
    door: OnceCell<Door>,
    host: Host,
}

enum Host {
    Here,
    /// This host, with another account; what was found there.
    Account {
        account: Account,
        known: Option<Ground>,
    },
    There {
        ssh: Box<Ssh>,
        /// Through which connection what was found.
        known: Option<(u64, Ground)>,
        /// The relay's folder, if there is a relay of ours.
        relay: Option<String>,
    },
    /// Nowhere: the cloud is asked.
    Cloud(Box<OpenStack>),
}

impl Place {
    /// The place of a platform; `None`: there is no adapter of that name, or no account.
    pub fn new(plan: Plan) -> Option<Place> {
        let adapter = adapters::adapter(&plan.adapter, &plan.surroundings, &plan.site);
        let host = match &plan.site.ssh {
            _ if plan.adapter == openstack::NAME => {
                Host::Cloud(Box::new(OpenStack::new(&plan.site, &plan.capacity)?))
            }
            _ if adapter.is_none() => return None,
            None => match plan.site.run_as.as_deref() {
                Some(name) => Host::Account { account: Account::of(name).ok()?, known: None },
                None => Host::Here,
            },
            Some(address) => {
                let (config, program) = (plan.site.ssh_config.clone(), plan.site.transport);
                let ssh = Ssh::new(address.clone(), config, program, plan.asker.clone());
                Host::There { ssh: Box::new(ssh), known: None, relay: None }
            }
        };
        let agent = match &plan.site.agent {
            Some(agent) => vec![agent.clone()],
            None => plan.surroundings.agent_command.clone(),
        };
        Some(Place { plan, adapter, agent, door: OnceCell::new(), host })
    }

    /// The codec for its commands; `None`: it is a cloud.
    pub fn adapter(&self) -> Option<&dyn Adapter> {
        self.adapter.as_deref()
    }

    /// The cloud that it is.
    pub fn cloud(&self) -> Option<&OpenStack> {
        match &self.host {
            Host::Cloud(cloud) => Some(cloud),
            _ => None,
        }
    }

    /// How the agent is run where the commands are: elsewhere than here that is known once there is ground.
    pub fn agent(&self) -> &[String] {
        &self.agent
    }

    /// Sees to it that commands can be run.
    ///
    /// # Errors
    /// There is no connection: why.
    pub async fn connect(&self) -> Result<(), TransportError> {
        match &self.host {
            Host::Here | Host::Account { .. } | Host::Cloud(_) => Ok(()),
            Host::There { ssh, .. } => ssh.connect().await.map(|_| ()),
        }
    }

    /// The SSH connection to where commands are run; `None`: there is none.
    pub fn ssh(&self) -> Option<&Ssh> {
        match &self.host {
            Host::There { ssh, .. } => Some(ssh),
            Host::Here | Host::Account { .. } | Host::Cloud(_) => None,
        }
    }

    /// Runs a command of the adapter.
    ///
    /// # Errors
    /// It was not started, or what became of it is not known.
    pub async fn run(&self, command: Command) -> Result<Output, TransportError> {
        tracing::debug!(adapter = self.plan.adapter, argv = ?command.argv, "command");
        match &self.host {
            // Its commands start pilots, where batch systems have environments of their own for those.
            Host::Here if self.plan.adapter == "local" => LocalPilots.run(&command).await,
            // Of a cloud only files are looked at that are kept here.
            Host::Here | Host::Cloud(_) => LocalShell.run(&command).await,
            Host::Account { account, .. } => account.run(&command).await,
            Host::There { ssh, .. } => ssh.run(&command).await,
        }
    }

    /// Sees to it that pilots can be started, once for each connection.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn ground(&mut self) -> Result<Ground, String> {
        if let Host::Account { known, .. } = &self.host {
            return match known.clone() {
                Some(known) => Ok(known),
                None => self.ground_of_account().await,
            };
        }
        let site = &self.plan.site;
        let (ssh, known) = match &self.host {
            Host::There { ssh, known, .. } => (ssh, known),
            Host::Here => {
                let pilots = || self.plan.pilots.to_string_lossy().into_owned();
                return Ok(Ground { folder: site.folder.clone().unwrap_or_else(pilots), url: proxy(site) });
            }
            Host::Cloud(_) => {
                let folder = site.folder.clone().unwrap_or_else(|| openstack::FOLDER.to_owned());
                return Ok(Ground { folder, url: Some(self.url()) });
            }
            Host::Account { .. } => return Err("no ground".to_owned()),
        };
        let number = ssh.connect().await.map_err(|error| error.to_string())?;
        if let Some((known, ground)) = known
            && *known == number
        {
            return Ok(ground.clone());
        }
        self.check_account().await?;
        let (folder, agent) = self.bring_agent().await?;
        let (url, dug) = match &self.plan.site.reach {
            Some(Reach::Tunnel) | None => {
                let relay = format!("{folder}/relay/{}", self.plan.name);
                (Some(self.dig_tunnel(ssh, &relay, &agent).await?), Some(relay))
            }
            Some(Reach::Direct | Reach::At(_)) => (proxy(&self.plan.site), None),
        };
        self.use_agent(agent);
        let ground = Ground { folder: format!("{folder}/pilots"), url };
        if let Host::There { known, relay, .. } = &mut self.host {
            (*known, *relay) = (Some((number, ground.clone())), dug);
        }
        Ok(ground)
    }

    /// The same for another account of this host: a folder of its own, with the agent in it.
    async fn ground_of_account(&mut self) -> Result<Ground, String> {
        let Host::Account { account, .. } = &self.host else { return Err("no account".to_owned()) };
        if let Some(folder) = &self.plan.site.folder {
            account.give_folder(folder)?;
        }
        let name = account.name().to_owned();
        let Site { folder, agent, .. } = &self.plan.site;
        let (folder, own_agent) = (folder.clone().unwrap_or_default(), agent.clone());
        let (folder, agent) = match self.bring_agent().await {
            Ok(brought) => brought,
            Err(what) => {
                let barred = self.barred(&name, &folder).await.map(|barred| format!("; {barred}"));
                let barred = barred.unwrap_or_default();
                return Err(format!(
                    "{what}{barred}; pilots of account {name} need a folder that it may write in: `folder: PATH`, absent: \
                     .pilotfish in its home"
                ));
            }
        };
        if let Some(agent) = own_agent
            && let Some(barred) = self.barred(&name, &agent).await
        {
            return Err(format!("the agent {agent} cannot be run: {barred}"));
        }
        self.use_agent(agent);
        let ground = Ground { folder: format!("{folder}/pilots"), url: proxy(&self.plan.site) };
        if let Host::Account { known, .. } = &mut self.host {
            *known = Some(ground.clone());
        }
        Ok(ground)
    }

    /// Which folder on the way to a path the account cannot enter, and what would be right; an empty path is its home.
    /// `None`: it can enter all of them.
    async fn barred(&self, account: &str, path: &str) -> Option<String> {
        let what = "look for a folder that cannot be entered";
        let said = self.shell(what, BARRED, &[path], Vec::new(), LOOK_LIMIT).await.ok()?;
        let folder = said.trim_end_matches('\n');
        let told = || {
            format!("account {account} cannot enter {folder}: let it in, or name a path that leads elsewhere")
        };
        (!folder.is_empty()).then(told)
    }

    /// Has the adapter use the agent that was brought.
    fn use_agent(&mut self, agent: Vec<String>) {
        self.agent.clone_from(&agent);
        let surroundings = Surroundings { agent_command: agent };
        if let Some(adapter) = adapters::adapter(&self.plan.adapter, &surroundings, &self.plan.site) {
            self.adapter = Some(adapter);
        }
    }

    /// Sees to it that tasks there cannot act as any user, if there are several.
    async fn check_account(&self) -> Result<(), String> {
        let Some(check) = &self.plan.account_check else { return Ok(()) };
        let found =
            self.shell("look at the account", READ, &[&check.secret()], Vec::new(), LOOK_LIMIT).await?;
        check.judge(&found).await
    }

    /// By which pilots elsewhere reach the manager.
    fn url(&self) -> String {
        proxy(&self.plan.site).unwrap_or_else(|| self.plan.url_elsewhere.clone())
    }

    /// Asks for an allocation. There is ground.
    pub async fn submit(&self, request: &AllocationRequest) -> SubmitOutcome {
        let answer = match (&self.host, &self.adapter) {
            (Host::Cloud(cloud), _) => match self.agent_source().await {
                Ok(source) => cloud.submit(request, &source).await,
                Err(why) => Err(AdapterError::Refused(why)),
            },
            (_, Some(adapter)) => match self.run(adapter.submit(request)).await {
                Ok(output) => adapter.read_submit(&output),
                Err(error) if error.is_nothing_done() => return SubmitOutcome::Refused(with_hint(error)),
                Err(error) => Err(AdapterError::NotUnderstood(error.to_string())),
            },
            (_, None) => Err(AdapterError::Refused("no adapter".to_owned())),
        };
        match answer {
            Ok(batch_id) => SubmitOutcome::Accepted(batch_id),
            Err(error @ AdapterError::Refused(_)) => SubmitOutcome::Refused(error.to_string()),
            Err(error @ AdapterError::NoRoom(_)) => SubmitOutcome::NoRoom(error.to_string()),
            Err(error @ AdapterError::NotUnderstood(_)) => SubmitOutcome::Unknown(error.to_string()),
        }
    }

    /// How long ago the job of that id was submitted, by its batch system's clock; `None`: that is not known.
    pub(crate) async fn age(&self, id: &str) -> Option<Span> {
        let command = self.adapter.as_ref()?.age(id)?;
        let output = self.run(command).await.ok().filter(|output| output.code == Some(0))?;
        let seconds: i64 = output.stdout.trim().parse().ok()?;
        Some(Span::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Jobs of a listing that bear no tag with this prefix and have an id of ours: their places there, and in `known`.
    pub fn renamed(
        &self,
        tag_prefix: &str,
        known: &[(BatchId, String)],
        jobs: &[BatchJob],
    ) -> Vec<(usize, usize)> {
        let adapter = self.adapter.as_deref();
        adapter.map(|adapter| adapters::renamed(adapter, tag_prefix, known, jobs)).unwrap_or_default()
    }

    /// Whether a batch system gives the ids of jobs that are gone to others.
    pub(crate) fn uses_ids_again(&self) -> bool {
        self.adapter.as_ref().is_some_and(|adapter| adapter.age("1").is_some())
    }

    /// What there is of allocations whose tags begin so, and where jobs with these ids are that may bear other names.
    /// Jobs of others may be there, too.
    ///
    /// # Errors
    /// No answer, in words: never "gone".
    pub async fn list(&self, tag_prefix: &str, known: &[BatchId]) -> Result<Vec<BatchJob>, String> {
        if let Host::Cloud(cloud) = &self.host {
            if tag_prefix == adapters::TAG_PREFIX {
                return cloud.list_all().await;
            }
            let (jobs, remains) = cloud.list(tag_prefix).await?;
            remains.iter().for_each(|remains| self.keep(remains));
            return Ok(jobs);
        }
        let Some(adapter) = &self.adapter else { return Err("no adapter".to_owned()) };
        let command = adapter.list_with(tag_prefix, known);
        let output = self.run(command).await.map_err(|error| error.to_string())?;
        adapter.read_list(&output).map_err(|error| error.to_string())
    }

    /// How busy it is, and what of the answer was left out as it is not understood; `None` where nobody waits, or it does
    /// not know.
    ///
    /// # Errors
    /// No answer, or one of an unknown form, in words.
    pub async fn load(&self) -> Result<Option<(QueueLoad, Vec<String>)>, String> {
        let asks = self.adapter.as_ref().and_then(|adapter| Some((adapter, adapter.load()?)));
        let Some((adapter, command)) = asks else { return Ok(None) };
        let output = self.run(command).await.map_err(|error| error.to_string())?;
        let mut left_out = Vec::new();
        let load = adapter.read_load_with(&output, &mut left_out).map_err(|error| error.to_string())?;
        Ok(Some((load, left_out)))
    }

    /// Takes allocations away.
    ///
    /// # Errors
    /// What is wrong, in words; some may be gone.
    pub async fn cancel(&self, batch_ids: &[BatchId]) -> Result<(), String> {
        match (&self.host, &self.adapter) {
            (Host::Cloud(cloud), _) => {
                let (remains, done) = cloud.cancel(batch_ids).await;
                remains.iter().for_each(|remains| self.keep(remains));
                done
            }
            (_, Some(adapter)) => self.said("cancel", adapter.cancel(batch_ids)).await.map(drop),
            (_, None) => Err("no adapter".to_owned()),
        }
    }

    /// Keeps what servers have written that are there still. Batch jobs write files.
    pub async fn keep_written(&self, batch_ids: &[BatchId]) {
        if let Host::Cloud(cloud) = &self.host {
            // It is asked for again when they are deleted.
            let written = cloud.written(batch_ids).await.unwrap_or_default();
            written.iter().for_each(|remains| self.keep(remains));
        }
    }

    /// Has a cloud's hosts stand for so many vCPUs a core, or for as many as before.
    ///
    /// # Errors
    /// Whether it is not to be had, or nobody knows.
    pub async fn scale(
        &self,
        ratio: Option<Ratio>,
        former: &[Provider],
    ) -> Result<Vec<FoundProvider>, ScaleTrouble> {
        match &self.host {
            Host::Cloud(cloud) => cloud.scale(ratio, former).await,
            Host::Here | Host::Account { .. } | Host::There { .. } => {
                Err(ScaleTrouble::Refused("it is no cloud".to_owned()))
            }
        }
    }

    /// Removes the join documents of these tags, whose allocations are gone.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn forget(&mut self, tags: &[String]) -> Result<(), String> {
        let words = self.join_folders().await?;
        let words: Vec<&str> = words.iter().chain(tags).map(String::as_str).collect();
        self.shell("remove join documents", FORGET, &words, Vec::new(), LOOK_LIMIT).await.map(drop)
    }

    /// Removes those that managers of before have left, except of the tags that are `listed`.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn sweep(&mut self, tag_prefix: &str, listed: &[String]) -> Result<(), String> {
        let words = self.join_folders().await?;
        let words = words.iter().map(String::as_str).chain([tag_prefix]);
        let words: Vec<&str> = words.chain(listed.iter().map(String::as_str)).collect();
        self.shell("look for join documents", SWEEP, &words, Vec::new(), LOOK_LIMIT).await.map(drop)
    }

    /// Where join documents are, and how their names begin.
    async fn join_folders(&mut self) -> Result<[String; 3], String> {
        let pilots = self.ground().await?.folder;
        let home = self.plan.site.folder.clone().unwrap_or_default();
        Ok([pilots, home, adapters::JOIN_FILE.to_owned()])
    }

    /// Where what a pilot's batch job or server wrote can be read from where commands are run.
    pub fn log_folder(&self, ground: &Ground, tag: &str) -> String {
        match &self.host {
            Host::Cloud(_) => self.plan.pilots.join(tag).to_string_lossy().into_owned(),
            _ => ground.pilot_folder(tag),
        }
    }

    async fn agent_source(&self) -> Result<AgentSource, String> {
        if self.plan.site.agent.is_some() {
            // It is in the image.
            return Ok(AgentSource::default());
        }
        let agent = self.plan.agent_file.read().await?;
        let url = format!("{}{}/{}", self.url(), AGENT_PATH, agent.sha256);
        Ok(AgentSource { url, sha256: agent.sha256.clone(), arguments: agent.arguments.clone() })
    }

    /// What a server wrote is kept where a batch job's words are: nobody can read them there any more.
    fn keep(&self, remains: &Remains) {
        let Remains { tag, id, fault, console } = remains;
        let (name, fault) = (&self.plan.name, fault.as_deref());
        match fault {
            Some(fault) => tracing::warn!(platform = name, tag, server = id, fault, "the server failed"),
            None => tracing::debug!(platform = name, tag, server = id, "what the server wrote is kept"),
        }
        let folder = self.plan.pilots.join(tag);
        let kept = protocol::files::private::make_folder(&folder).and_then(|()| {
            std::fs::write(folder.join(JOB_LOG), [fault.unwrap_or_default(), console].join("\n"))
        });
        if let Err(error) = kept {
            tracing::warn!(platform = name, tag, %error, "what its server wrote could not be kept");
        }
    }

    /// The manager was shut down, and all its pilots have left: ends the relay, if there is one, and waits until no
    /// server is there, of those that turn themselves off, too, for most of this time.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn leave(&mut self, tag_prefix: &str, limit: Duration) -> Result<(), Left> {
        if let Host::Cloud(cloud) = &self.host {
            // What those wrote that are over is read first.
            let _ = self.list(tag_prefix, &[]).await;
            return cloud.clear(tag_prefix, limit * 2 / 3).await;
        }
        let Host::There { relay, .. } = &mut self.host else { return Ok(()) };
        let Some(relay) = relay.take() else { return Ok(()) };
        let removed = self.shell("end the relay", REMOVE, &[&relay], Vec::new(), LOOK_LIMIT).await;
        if let Some(ssh) = self.ssh() {
            ssh.end_forwards().await;
        }
        removed.map(drop).map_err(|why| Left { ids: Vec::new(), why })
    }

    /// Brings this version of the agent there, unless it is there or the site has one; gives our folder, and
    /// how the agent is run.
    async fn bring_agent(&self) -> Result<(String, Vec<String>), String> {
        let folder = self.plan.site.folder.as_deref().unwrap_or_default();
        if let Some(agent) = &self.plan.site.agent {
            let (folder, _) = self.look_for(folder, agent).await?;
            return Ok((folder, vec![agent.clone()]));
        }
        let read = agent_file::read(&agent_file::smallest(&self.plan.surroundings.agent_command)).await?;
        let (bytes, arguments) = (read.bytes, read.arguments);
        let name = format!("agent-{}", &read.sha256[..16]);
        let (folder, is_there) = self.look_for(folder, &name).await?;
        let agent = format!("{folder}/{name}");
        if !is_there {
            tracing::info!(agent, n_bytes = bytes.len(), "bringing the agent");
            let n_bytes = bytes.len().to_string();
            self.shell("bring the agent", UPLOAD, &[&agent, &n_bytes], bytes.to_vec(), UPLOAD_LIMIT).await?;
        }
        Ok((folder, [agent].into_iter().chain(arguments.iter().cloned()).collect()))
    }

    /// Makes our folder; gives its path, and whether the agent of that name is in it.
    async fn look_for(&self, folder: &str, name: &str) -> Result<(String, bool), String> {
        let said = self.shell("prepare a folder", LOOK, &[folder, name], Vec::new(), LOOK_LIMIT).await?;
        match said.lines().collect::<Vec<_>>()[..] {
            [folder, is_there] => Ok((folder.to_owned(), is_there == "there")),
            _ => Err(format!("the host's answer is not understood: {}", said.trim())),
        }
    }

    /// Lets pilots come to the host at the other end, and from there through the connection; gives the URL.
    async fn dig_tunnel(&self, ssh: &Ssh, relay: &str, agent: &[String]) -> Result<String, String> {
        let failed = |what: String| format!("failed to make a tunnel: {what}");
        let open = async || match &self.plan.doorway {
            Some(doorway) => doorway.open().map_err(|error| failed(format!("no port here: {error}"))),
            None => Err(failed("nobody here waits for pilots".to_owned())),
        };
        let door = self.door.get_or_try_init(open).await?;
        let port = ssh.forward(door.address()).await.map_err(|error| failed(error.to_string()))?;
        let words = ["relay", "--folder", relay, "--to", &port.to_string()].map(str::to_owned);
        let argv = agent.iter().cloned().chain(words).collect();
        let name = "the agent (starting the relay)".to_owned();
        let command = Command { name, argv, stdin: Vec::new(), time_limit: LOOK_LIMIT };
        let said = self.said("start the relay", command).await?;
        match said.trim().rsplit_once(' ') {
            Some((host, port)) if is_host(host) => Ok(format!("{}://{host}:{port}", self.plan.scheme)),
            Some((host, _)) => Err(failed(format!(
                "the host there is called `{}`, which cannot be part of an address; set `reach: direct`, or the URL by which \
                 its nodes reach the manager",
                host.escape_debug()
            ))),
            None => Err(failed(format!("the relay said {}", said.trim()))),
        }
    }

    async fn shell(
        &self,
        what: &str,
        script: &str,
        arguments: &[&str],
        stdin: Vec<u8>,
        time_limit: Duration,
    ) -> Result<String, String> {
        let words = arguments.iter().map(|&word| word.to_owned());
        self.said(what, Command::shell(SHELL, script, words, stdin, time_limit)).await
    }

    /// What a command says that must succeed; `what`: what it is for.
    ///
    /// # Errors
    /// It failed: its words.
    pub async fn said(&self, what: &str, command: Command) -> Result<String, String> {
        match self.run(command).await {
            Ok(output) if output.code == Some(0) => Ok(output.stdout),
            Ok(output) => Err(format!("failed to {what}: {}", output.words())),
            Err(error) => Err(with_hint(format!("failed to {what}: {error}"))),
        }
    }
}

fn proxy(site: &Site) -> Option<String> {
    match &site.reach {
        Some(Reach::At(url)) => Some(url.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
        process::Command as Process,
    };

    use super::*;

    /// Runs lines of shell with these words, and says which files are left there.
    fn left_after(lines: &str, folder: &Path, words: &[&str]) -> Vec<String> {
        let (pilots, home) = (folder.join("pilots"), folder.join("home"));
        let mut shell = Process::new("sh");
        shell.args(["-c", lines, "sh"]).arg(&pilots).arg(&home).arg(adapters::JOIN_FILE).args(words);
        assert!(shell.status().expect("a shell").success());
        let mut left = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("a folder").flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => left.push(path.strip_prefix(folder).expect("below it").display().to_string()),
                }
            }
        }
        left.sort();
        left
    }

    /// Join documents of three tags in a folder, and what is to stay.
    fn documents() -> tempfile::TempDir {
        let folder = tempfile::Builder::new().prefix("a folder").tempdir().expect("a folder");
        for file in [
            "pilots/pfa-1/join",
            "pilots/pfa-1/job.log",
            "pilots/pfa-2/join.1",
            "pilots/pfa-2/join.2",
            "pilots/pfb-1/join",
            "home/.join-pfa-1",
            "home/.join-pfa-3",
            "home/.join-pfa-3.n1.77",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "secret").expect("a file");
        }
        folder
    }

    /// The place of a local platform whose pilots have the account `nobody`.
    fn place_of_nobody(site: Site) -> Option<Place> {
        let agent_command = vec!["/bin/sh".to_owned(), "agent".to_owned()];
        let site = Site { run_as: Some("nobody".into()), ..site };
        Place::new(Plan {
            name: "pf1-here".into(),
            adapter: "local".into(),
            site,
            capacity: Resources::cores(1),
            agent_file: AgentFile::new(&agent_command),
            surroundings: Surroundings { agent_command },
            url_elsewhere: String::new(),
            pilots: "/nowhere".into(),
            doorway: None,
            scheme: "https",
            asker: Arc::new(adapters::transport::Nobody),
            account_check: None,
        })
    }

    #[tokio::test]
    async fn folder_that_another_account_cannot_enter_is_named_with_the_account() {
        let is_root = fs::metadata("/proc/self").is_ok_and(|facts| facts.uid() == 0);
        let (folder, set) = (tempfile::tempdir().expect("a folder"), |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
        });
        let shut = folder.path().join("a home");
        fs::create_dir_all(shut.join("m")).expect("folders");
        set(folder.path(), 0o755);
        set(&shut, 0o700);
        let inside = shut.join("m/theirs").display().to_string();
        let of_folder = Site { folder: Some(inside.clone()), ..Site::default() };
        let open = folder.path().join("theirs").display().to_string();
        let of_agent = Site { folder: Some(open), agent: Some(inside), ..Site::default() };
        for site in [of_folder, of_agent] {
            let Some(mut place) = place_of_nobody(site).filter(|_| is_root) else { return };
            let why = place.ground().await.expect_err("it is shut");
            let expected = format!("account nobody cannot enter {}: let it in", shut.display());
            assert!(why.contains(&expected), "{why}");
        }
    }

    #[test]
    fn join_documents_of_allocations_that_are_gone_are_removed() {
        let folder = documents();
        let left = left_after(FORGET, folder.path(), &["pfa-2", "pfa-3"]);
        assert_eq!(
            left,
            ["home/.join-pfa-1", "pilots/pfa-1/job.log", "pilots/pfa-1/join", "pilots/pfb-1/join"]
        );
    }

    #[test]
    fn old_join_documents_of_what_is_not_listed_are_removed() {
        let folder = documents();
        assert_eq!(left_after(SWEEP, folder.path(), &["pfa-", "pfa-1"]).len(), 8, "they are new");
        let all =
            left_after("find \"$1\" \"$2\" -type f -exec touch -d '2 hours ago' {} +", folder.path(), &[]);
        assert_eq!(all.len(), 8);
        let left = left_after(SWEEP, folder.path(), &["pfa-", "pfa-1"]);
        assert_eq!(
            left,
            ["home/.join-pfa-1", "pilots/pfa-1/job.log", "pilots/pfa-1/join", "pilots/pfb-1/join"]
        );
    }
}
