//! Where a platform's commands are run, and what its pilots find there: this host, or an account on another,
//! to which the agent is brought and from which pilots are led home.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use adapters::{
    Adapter, Surroundings,
    command::{Command, Output},
    transport::{Asker, LocalShell, Ssh, Transport, TransportError},
};
use profiles::site::{Reach, Site};
use ring::digest;

/// To bring the agent over a slow line.
const UPLOAD_LIMIT: Duration = Duration::from_secs(600);
/// To look at files and to start a process.
const LOOK_LIMIT: Duration = Duration::from_secs(60);

/// Prints the folder for our files, its first argument or one in the home, and `there` if the agent, its
/// second, is in it.
const LOOK: &str = r#"f=${1:-$HOME/.pilotfish}; umask 077; mkdir -p "$f" || exit; echo "$f"
[ -x "$f/$2" ] && echo there || echo missing"#;

/// Keeps standard input as the program `$1` of `$2` bytes: all of it or nothing.
const UPLOAD: &str = r#"umask 077; cat > "$1.$$" && [ "$(wc -c < "$1.$$")" -eq "$2" ] && chmod 700 "$1.$$" && mv "$1.$$" "$1" && exit
rm -f "$1.$$"; echo "not all of it arrived, or there is no room" >&2; exit 1"#;

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
    /// The agent on this host.
    pub surroundings: Surroundings,
    /// Where pilots keep their files on this host, if the site says nothing else.
    pub pilots: PathBuf,
    /// Where the API listens, for the tunnel.
    pub manager: SocketAddr,
    /// `https` or `http`.
    pub scheme: &'static str,
    /// Who is asked for what no file says.
    pub asker: Arc<dyn Asker>,
}

/// Where a platform's commands are run.
pub struct Place {
    plan: Plan,
    adapter: Box<dyn Adapter>,
    agent: Vec<String>,
    host: Host,
}

enum Host {
    Here,
    There {
        ssh: Box<Ssh>,
        /// Through which connection what was found.
        known: Option<(u64, Ground)>,
        /// The relay's folder, if there is a relay of ours.
        relay: Option<String>,
    },
}

impl Place {
    /// The place of a platform; `None`: there is no adapter of that name.
    pub fn new(plan: Plan) -> Option<Place> {
        let adapter = adapters::adapter(&plan.adapter, &plan.surroundings, &plan.site)?;
        let host = match &plan.site.ssh {
            None => Host::Here,
            Some(address) => {
                let ssh = Ssh::new(address.clone(), plan.site.ssh_config.clone(), plan.asker.clone());
                Host::There { ssh: Box::new(ssh), known: None, relay: None }
            }
        };
        let agent = match &plan.site.agent {
            Some(agent) => vec![agent.clone()],
            None => plan.surroundings.agent_command.clone(),
        };
        Some(Place { plan, adapter, agent, host })
    }

    /// The codec for its commands.
    pub fn adapter(&self) -> &dyn Adapter {
        &*self.adapter
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
            Host::Here => Ok(()),
            Host::There { ssh, .. } => ssh.connect().await.map(|_| ()),
        }
    }

    /// Runs a command of the adapter.
    ///
    /// # Errors
    /// It was not started, or what became of it is not known.
    pub async fn run(&self, command: Command) -> Result<Output, TransportError> {
        tracing::debug!(adapter = self.plan.adapter, argv = ?command.argv, "command");
        match &self.host {
            Host::Here => LocalShell.run(&command).await,
            Host::There { ssh, .. } => ssh.run(&command).await,
        }
    }

    /// Sees to it that pilots can be started, once for each connection.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn ground(&mut self) -> Result<Ground, String> {
        let Host::There { ssh, known, .. } = &self.host else {
            let site = &self.plan.site;
            let pilots = || self.plan.pilots.to_string_lossy().into_owned();
            return Ok(Ground { folder: site.folder.clone().unwrap_or_else(pilots), url: proxy(site) });
        };
        let number = ssh.connect().await.map_err(|error| error.to_string())?;
        if let Some((known, ground)) = known
            && *known == number
        {
            return Ok(ground.clone());
        }
        let (folder, agent) = self.bring_agent().await?;
        let (url, dug) = match &self.plan.site.reach {
            Some(Reach::Tunnel) | None => {
                let relay = format!("{folder}/relay/{}", self.plan.name);
                (Some(self.dig_tunnel(ssh, &relay, &agent).await?), Some(relay))
            }
            Some(Reach::Direct | Reach::At(_)) => (proxy(&self.plan.site), None),
        };
        self.agent.clone_from(&agent);
        let surroundings = Surroundings { agent_command: agent };
        if let Some(adapter) = adapters::adapter(&self.plan.adapter, &surroundings, &self.plan.site) {
            self.adapter = adapter;
        }
        let ground = Ground { folder: format!("{folder}/pilots"), url };
        if let Host::There { known, relay, .. } = &mut self.host {
            (*known, *relay) = (Some((number, ground.clone())), dug);
        }
        Ok(ground)
    }

    /// Ends the relay, if there is one: no pilot needs it any more.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub async fn leave(&mut self) -> Result<(), String> {
        let Host::There { relay, .. } = &mut self.host else { return Ok(()) };
        let Some(relay) = relay.take() else { return Ok(()) };
        self.shell("end the relay", REMOVE, &[&relay], Vec::new(), LOOK_LIMIT).await.map(drop)
    }

    /// Brings this version of the agent there, unless it is there or the site has one; gives our folder, and
    /// how the agent is run.
    async fn bring_agent(&self) -> Result<(String, Vec<String>), String> {
        let folder = self.plan.site.folder.as_deref().unwrap_or_default();
        if let Some(agent) = &self.plan.site.agent {
            let (folder, _) = self.look_for(folder, agent).await?;
            return Ok((folder, vec![agent.clone()]));
        }
        let command = smallest(&self.plan.surroundings.agent_command);
        let [program, arguments @ ..] = &command[..] else {
            return Err("this manager has no agent to bring there".into());
        };
        let path = PathBuf::from(program);
        let reading = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let bytes = reading.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let bytes = bytes.map_err(|error| format!("failed to read the agent {program}: {error}"))?;
        let hash = digest::digest(&digest::SHA256, &bytes);
        let name: String = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let name = format!("agent-{name}");
        let (folder, is_there) = self.look_for(folder, &name).await?;
        let agent = format!("{folder}/{name}");
        if !is_there {
            tracing::info!(agent, n_bytes = bytes.len(), "bringing the agent");
            let n_bytes = bytes.len().to_string();
            self.shell("bring the agent", UPLOAD, &[&agent, &n_bytes], bytes, UPLOAD_LIMIT).await?;
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
        let port = ssh.forward(self.plan.manager).await.map_err(|error| failed(error.to_string()))?;
        let words = ["relay", "--folder", relay, "--to", &port.to_string()].map(str::to_owned);
        let argv = agent.iter().cloned().chain(words).collect();
        let command = Command { argv, stdin: Vec::new(), time_limit: LOOK_LIMIT };
        let said = self.said("start the relay", command).await?;
        match said.split_whitespace().collect::<Vec<_>>()[..] {
            [host, port] => Ok(format!("{}://{host}:{port}", self.plan.scheme)),
            _ => Err(failed(format!("the relay said {}", said.trim()))),
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
        self.said(
            what,
            Command::shell(script, arguments.iter().map(|&word| word.to_owned()), stdin, time_limit),
        )
        .await
    }

    /// What a command says that must succeed; `what`: what it is for.
    ///
    /// # Errors
    /// It failed: its words.
    pub async fn said(&self, what: &str, command: Command) -> Result<String, String> {
        match self.run(command).await {
            Ok(output) if output.code == Some(0) => Ok(output.stdout),
            Ok(output) => Err(format!("failed to {what}: {}", output.words())),
            Err(error) => Err(format!("failed to {what}: {error}")),
        }
    }
}

/// The agent alone, where it stands beside the program that has it in it.
fn smallest(command: &[String]) -> Vec<String> {
    let [program, _] = command else { return command.to_vec() };
    let alone = Path::new(program).with_file_name("pilotfish-agent");
    if alone.is_file() { vec![alone.display().to_string()] } else { command.to_vec() }
}

fn proxy(site: &Site) -> Option<String> {
    match &site.reach {
        Some(Reach::At(url)) => Some(url.clone()),
        _ => None,
    }
}
