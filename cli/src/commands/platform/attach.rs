//! `pilotfish platform attach`: finds out what an account on a platform offers, and writes that down.

use std::{
    cmp::Reverse,
    fs::File,
    io::{ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use adapters::{
    command::{Command, Queue},
    openstack::{self, Offer, OpenStack},
    transport::Account,
};
use clap::Args;
use manager::{
    config::{
        Config,
        file::{ConfigError, Listen, ManagerFile},
    },
    platforms::place::{Place, SHELL},
};
use nix::fcntl::{Flock, FlockArg};
use profiles::platform::PlatformProfile;
use protocol::job::{Problem, unreadable};
use scheduler::{resources::Resources, time::Span};
use serde_yaml::{Mapping, Value};

use super::{check, entry, reload, told};
use crate::{
    access::{self, Living, Where},
    failure::{Failure, Outcome, utf8},
    in_process,
    show::{self, format},
    sys::{
        interrupts::Interrupts,
        terminal::{self, Terminal},
    },
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform attach slurm cluster --ssh ada@login.centre.org
  pilotfish platform attach slurm gpus --ssh centre --queue gpu --account \\
      lab --walltime 4h
  pilotfish platform attach hosts workstation --ssh ada@workstation
  pilotfish platform attach openstack cloud --image debian-12 --cloud lab
  pilotfish platform attach pbs old --print  only show the entry

What you do not give is looked up there: the default queue, what its nodes
have, how long jobs may run. The entry goes into manager.yaml, whose other lines
stay; change it there as you like. A manager that runs with that file uses the
platform at once. One without TLS must be restarted for a platform behind SSH;
the command says so.";

/// The longest life of pilots that nobody has asked for.
const WALLTIME: Span = Span::from_secs(4 * 3600);
/// So many pilots of a batch system at most, when nobody says how many; a host has one.
const N_PILOTS_MAX: u32 = 10;
/// To ask a host what it has.
const LOOK_LIMIT: std::time::Duration = std::time::Duration::from_secs(60);
/// Prints cores, and memory in KiB.
const LOOK: &str = "nproc && sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";

/// What is attached.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct AttachArgs {
    /// Its batch system: local, hosts, slurm, pbs, gridengine, loadleveler, openstack
    #[arg(value_name = "ADAPTER")]
    adapter: String,
    /// The platform's name
    #[arg(value_name = "NAME")]
    name: String,
    /// The host where its commands are run: [user@]host[:port], ssh://[user@]host[:port], or a word of ~/.ssh/config
    #[arg(long, value_name = "HOST")]
    ssh: Option<String>,
    /// Read this instead of ~/.ssh/config (absolute)
    #[arg(long, value_name = "FILE", requires = "ssh")]
    ssh_config: Option<String>,
    /// The partition, queue or class
    #[arg(long, value_name = "NAME", visible_aliases = ["partition", "class"])]
    queue: Option<String>,
    /// The account or project that is charged
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Cores of a pilot, instead of those of a node
    #[arg(long, value_name = "N")]
    cores: Option<u32>,
    /// Memory of a pilot, like 60GiB, instead of that of a node
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// How long a pilot may run, like 4h
    #[arg(long, value_name = "DURATION")]
    walltime: Option<String>,
    /// Nodes of an allocation, each with a pilot
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// The most pilots at a time
    #[arg(long, value_name = "N")]
    pilots_max: Option<u32>,
    /// Grid Engine's parallel environment that gives cores on one host
    #[arg(long, value_name = "NAME")]
    parallel_environment: Option<String>,
    /// Another option of the submission, like --option=--qos=low
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    option: Vec<String>,
    /// Where pilots keep their files, seen by all nodes
    #[arg(long, value_name = "PATH")]
    folder: Option<String>,
    /// The account of this host that runs pilots of a local platform, instead of the manager's own
    #[arg(long, value_name = "ACCOUNT")]
    run_as: Option<String>,
    /// The cloud's name in clouds.yaml
    #[arg(long, value_name = "NAME")]
    cloud: Option<String>,
    /// The path of clouds.yaml (absolute), if it is not where OpenStack's clients look
    #[arg(long, value_name = "FILE")]
    clouds_file: Option<String>,
    /// The image that a cloud's servers boot
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Their flavor, instead of the smallest that has such cores and memory
    #[arg(long, value_name = "NAME")]
    flavor: Option<String>,
    /// Their network: none, auto, or a name; may be repeated
    #[arg(long, value_name = "NAME")]
    network: Vec<String>,
    /// The file that gets it
    #[arg(long, value_name = "FILE", default_value = "manager.yaml")]
    config: PathBuf,
    /// Only print the entry
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    place: Where,
}

/// What was found out.
#[derive(Default)]
struct Found {
    capacity: Resources,
    walltime: Option<Span>,
    /// As many as an account may have.
    n_pilots_max: Option<u32>,
    words: String,
    /// What whoever attaches it should know.
    notes: Vec<String>,
}

/// Batch systems, whose pilots are processes of nodes.
const BATCH: [&str; 4] = ["slurm", "pbs", "gridengine", "loadleveler"];

/// Attaches it.
///
/// # Errors
/// What was given makes no sense; nothing can be found out there; a file that is not changed here.
pub(super) async fn run(args: &AttachArgs) -> Result<Outcome, Failure> {
    refuse_incomplete(args)?;
    read(args)?;
    let mut interrupts = Interrupts::listen()?;
    let found = tokio::select! {
        found = look(args) => found,
        _ = interrupts.next() => return Ok(Outcome::Interrupted),
    };
    if found.is_err() && terminal::is_interrupted() {
        return Ok(Outcome::Interrupted);
    }
    let found = found?;
    let entry = entry_of(args, &found);
    let notes = |more: Option<String>| {
        let all = found.notes.iter().cloned().chain(more);
        all.map(|note| format!("# {note}\n")).collect::<String>()
    };
    if args.print {
        let (text, file) = read(args)?;
        let (_, way_home) = with_way_home(args, &file, text);
        show::print(&format!("{}{}", notes(way_home), entry::shown(&entry, &found.words, "  ")))?;
        return Ok(Outcome::Fine);
    }
    // Looking took its time: somebody may have written the file meanwhile, or be about to.
    let _lock = lock(&args.config);
    let (text, before) = read(args)?;
    let refused = |what: String| Failure::bad_input(format!("{}: {what}", args.config.display()));
    let added = entry::added(&text, &entry, &found.words).map_err(|error| {
        refused(format!("{error}:\n{}", entry::shown(&entry, &found.words, "  ").trim_end()))
    })?;
    let (added, way_home) = with_way_home(args, &before, added);
    let mut after = parse(&added, &args.config)?;
    after.platforms.pop();
    if way_home.is_some() {
        after.listen.clone_from(&before.listen);
    }
    if after != before {
        return Err(refused(
            "found lines that are not changed here; put the entry of --print there by hand".to_owned(),
        ));
    }
    replace(&args.config, &added)?;
    let config = show::quote::quoted(&args.config.display().to_string());
    let entry = entry::shown(&entry, &found.words, "  ");
    let check = format!("pilotfish platform check {} --config {config}", args.name);
    let told = told_to_a_manager(args, &config).await;
    let notes = notes(way_home);
    show::print(&format!("{notes}{entry}is now in {config}; `{check}` tries it. {told}\n"))?;
    Ok(Outcome::Fine)
}

/// Refuses a platform of which nothing can be found out with what was given.
fn refuse_incomplete(args: &AttachArgs) -> Result<(), Failure> {
    let name = &args.name;
    match args.adapter.as_str() {
        "hosts" if args.ssh.is_none() => {
            Err(Failure::bad_input(format!("found no host of `{name}`; say where it is with --ssh HOST")))
        }
        openstack::NAME if args.image.is_none() => Err(Failure::bad_input(format!(
            "found no image of `{name}`; say what its servers boot with --image NAME"
        ))),
        _ => Ok(()),
    }
}

/// The text with a line by which pilots on nodes reach the manager, which listens on a loopback address else, and
/// what is said of that. A `listen` that is there is left as it is.
fn with_way_home(args: &AttachArgs, file: &ManagerFile, text: String) -> (String, Option<String>) {
    let is_reached = file.listen.host.is_some_and(|host| !host.is_loopback());
    if !BATCH.contains(&args.adapter.as_str()) || args.ssh.is_some() || is_reached {
        return (text, None);
    }
    let config = args.config.display();
    if file.listen != Listen::default() || text.lines().any(|line| line.starts_with("listen")) {
        let note = format!(
            "nodes do not reach a manager that listens on a loopback address: write `host: 0.0.0.0` in `listen` of \
             {config}, unless the nodes are this host"
        );
        return (text, Some(note));
    }
    let line = "# Pilots on nodes reach the manager by the name of this host.\nlisten: {host: 0.0.0.0}\n";
    let is_marker = |line: &str| line.starts_with("---") || line.starts_with('%');
    let place = text.split_inclusive('\n').take_while(|line| is_marker(line)).map(str::len).sum();
    let (head, rest) = text.split_at(place);
    let note = "`listen: {host: 0.0.0.0}` is for pilots on nodes, which do not reach a manager that listens on 127.0.0.1 \
                only; it holds from the manager's next start, with TLS";
    (format!("{head}{line}{rest}"), Some(note.to_owned()))
}

/// Has the manager that runs take it up, if there is one; what became of that.
async fn told_to_a_manager(args: &AttachArgs, config: &str) -> String {
    let Ok(Living { client, .. }) = access::find_live(&args.place).await else {
        return format!(
            "`pilotfish serve --config {config}` starts a manager with it; one that runs with that file takes it \
             up by `pilotfish platform reload`."
        );
    };
    match reload::ask(&client, &args.config).await {
        Ok(reloaded) => format!("The running manager:\n{}", told(&reloaded).trim_end()),
        Err(failure) => format!("The manager that runs does not take it up: {}", failure.message()),
    }
}

/// The file, which has no such platform yet.
fn read(args: &AttachArgs) -> Result<(String, ManagerFile), Failure> {
    let text = match std::fs::read(&args.config) {
        Ok(bytes) => utf8(bytes, &args.config)?,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(vec![unreadable(&args.config, &error)].into()),
    };
    let file = parse(&text, &args.config)?;
    let named = |platform: &PlatformProfile| {
        platform.name() == args.name || platform.each().iter().any(|each| each.name() == args.name)
    };
    match file.platforms.iter().any(named) {
        false => Ok((text, file)),
        true => Err(Failure::bad_input(format!(
            "{}: found a platform `{}` already; give this one another name",
            args.config.display(),
            args.name
        ))),
    }
}

pub(super) fn parse(text: &str, path: &Path) -> Result<ManagerFile, Failure> {
    ManagerFile::parse(text, path)
        .map_err(|error| Failure::BadInput(error.to_string().lines().map(str::to_owned).collect()))
}

/// Keeps others of us from changing the files of that folder, where locks work.
pub(super) fn lock(path: &Path) -> Option<Flock<File>> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Flock::lock(File::open(folder).ok()?, FlockArg::LockExclusive).ok()
}

/// The whole file or nothing of it.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::file("write", path, &error);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if let Ok(held) = std::fs::metadata(&path) {
        file.as_file().set_permissions(held.permissions()).map_err(failed)?;
        // Only root writes the files of others, and leaves them theirs.
        std::os::unix::fs::fchown(file.as_file(), Some(held.uid()), Some(held.gid())).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Asks the platform for what was not given.
async fn look(args: &AttachArgs) -> Result<Found, Failure> {
    let folder = tempfile::Builder::new().prefix("pilotfish-attach-").tempdir();
    let folder = folder.map_err(|error| Failure::file("make a folder in", &std::env::temp_dir(), &error))?;
    // The same checks as of a file, before anybody is asked.
    let draft = Found { capacity: Resources::cores(1), ..Found::default() };
    let config = config_of(args, &draft, folder.path().join("manager"))?;
    let Some((spec, site)) = config.platforms.first().cloned() else { return Ok(draft) };
    if let Some(name) = &site.run_as {
        Account::of(name).map_err(|what| Failure::bad_input(format!("{}: run_as: {what}", args.name)))?;
    }
    let place = check::place(&config, &spec, &site)
        .ok_or_else(|| Failure::bad_input(format!("there is no adapter `{}`", spec.adapter)))?;
    let failed = |what: String| Failure::infrastructure(format!("{}: {what}", args.name));
    place.connect().await.map_err(|error| failed(error.to_string()))?;
    if let Some(project) = place.cloud() {
        return cloud(project).await.map_err(failed);
    }
    let Some(adapter) = place.adapter() else { return Ok(draft) };
    let version = version(&place).await.map_err(failed)?;
    let Some(command) = adapter.describe() else {
        return match &site.ssh {
            Some(_) => host(&place).await.map_err(failed),
            None => {
                let capacity = in_process::host_capacity();
                Ok(Found { capacity, words: "this host".to_owned(), ..Found::default() })
            }
        };
    };
    let output = place.run(command).await.map_err(|error| failed(error.to_string()))?;
    let mut left_out = Vec::new();
    let queues = adapter.read_describe_with(&output, &mut left_out);
    let queues = queues.map_err(|error| failed(error.to_string()))?;
    // The queue that is meant may be among what is left out.
    let with_left_out = |what: String| {
        let lines = [what].into_iter().chain(left_out.clone());
        Failure::BadInput(lines.collect())
    };
    let queues = check::meant(&queues, site.queue.as_deref()).map_err(with_left_out)?;
    let mut found = found(&queues, site.queue.is_some(), &version);
    found.notes.extend(left_out);
    if let Some(account) = &site.account {
        check::known_account(&place, account).await.map_err(Failure::bad_input)?;
    }
    if !queues.iter().any(|queue| queue.is_up) {
        let names = check::names(&queues);
        found.notes.push(format!("{names} starts no jobs at present: pilots wait until it does"));
    }
    if found.capacity.memory_bytes == 0 && args.memory.is_none() {
        let name = &args.adapter;
        found.notes.push(format!(
            "{name} does not say how much memory its nodes have: set `memory` if pilots are to ask for some"
        ));
    }
    for (spec, _) in config_of(args, &found, folder.path().join("manager"))?.platforms {
        check::fits_one(&queues, &spec).map_err(Failure::bad_input)?;
    }
    Ok(found)
}

/// The configuration of a manager in that folder that has this platform only.
fn config_of(args: &AttachArgs, found: &Found, folder: PathBuf) -> Result<Config, Failure> {
    let text = entry::added("", &entry_of(args, found), "").unwrap_or_default();
    let file = ManagerFile::parse(&text, Path::new("platform attach")).map_err(|error| match error {
        // Nobody has the text, so that its lines tell nothing.
        ConfigError::Content(problems) => Failure::BadInput(problems.into_iter().map(by_flag).collect()),
        other => Failure::bad_input(other.to_string()),
    })?;
    let mut config = in_process::config(folder)?;
    config
        .apply(&file, &in_process::host_capacity())
        .map_err(|error| Failure::bad_input(error.to_string()))?;
    config.asker = Arc::new(Terminal { is_lent: true });
    Ok(config)
}

/// A mistake of an entry that is made of arguments: the field with the argument that says it.
fn by_flag(problem: Problem) -> String {
    let path = problem.path.strip_prefix("platforms[0]").unwrap_or(&problem.path).trim_start_matches('.');
    let field = path.strip_prefix("openstack.").unwrap_or(path).split(['.', '[']).next().unwrap_or(path);
    let path = match field {
        "" | "openstack" => path.to_owned(),
        "name" | "adapter" => format!("{path} ({})", field.to_uppercase()),
        "options" | "networks" => format!("{path} (--{})", field.trim_end_matches('s')),
        field => format!("{path} (--{})", field.replace('_', "-")),
    };
    Problem { file: None, line: None, column: None, path, ..problem }.to_string()
}

async fn version(place: &Place) -> Result<String, String> {
    let Some(command) = place.adapter().and_then(|adapter| adapter.version()) else {
        return Ok(String::new());
    };
    let said = place.said("ask for the version", command).await?;
    let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    Ok(format!("{}, ", first.trim().replace(|c: char| c.is_control(), " ")))
}

/// What a host without a batch system has.
async fn host(place: &Place) -> Result<Found, String> {
    let command = Command::shell(SHELL, LOOK, [], Vec::new(), LOOK_LIMIT);
    let said = place.said("ask what the host has", command).await?;
    let numbers: Vec<u64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [cores, memory_kib] = numbers[..] else {
        return Err(format!("the host's answer is not understood: {}", said.trim()));
    };
    let capacity = Resources {
        memory_bytes: memory_kib << 10,
        ..Resources::cores(u32::try_from(cores).unwrap_or(u32::MAX))
    };
    let words = format!("a host with {capacity}");
    Ok(Found { capacity, words, ..Found::default() })
}

/// What a cloud's servers have, and how many there may be.
async fn cloud(cloud: &OpenStack) -> Result<Found, String> {
    let Offer { capacity, n_servers_max, words } = cloud.offer().await?;
    if n_servers_max == Some(0) {
        return Err(format!("the project's quota has no room for one such server: {words}"));
    }
    // Others of the project want some of its quota, too.
    let n_pilots_max = Some(n_servers_max.unwrap_or(N_PILOTS_MAX).min(N_PILOTS_MAX));
    Ok(Found { capacity, n_pilots_max, words, ..Found::default() })
}

/// Pilots that take the commonest kind of node, for as long as the queues allow, but not for days. `is_named`: by who
/// attaches it, so that pilots are to fit in each of them.
fn found(queues: &[&Queue], is_named: bool, version: &str) -> Found {
    // Of kinds that are as common, the plainer.
    fn commonest<'q>(nodes: impl Iterator<Item = &'q (u32, Resources)>) -> Option<&'q Resources> {
        let most = nodes.max_by_key(|(n, node)| (*n, Reverse(node.gpus), node.cores));
        most.map(|(_, node)| node)
    }
    let usable = commonest(queues.iter().flat_map(|queue| &queue.nodes));
    let away = commonest(queues.iter().flat_map(|queue| &queue.nodes_away));
    let limits = || queues.iter().map(|queue| queue.walltime_max.unwrap_or(WALLTIME));
    let most = if is_named { limits().min() } else { limits().max() };
    let walltime = most.map_or(WALLTIME, |most| most.min(WALLTIME));
    let mut notes = Vec::new();
    if usable.is_none() && away.is_some() {
        notes.push(
            "all nodes are down or drained: cores and memory are those that they have when they are back"
                .to_owned(),
        );
    }
    let words: Vec<String> = queues.iter().map(|queue| words_of(queue)).collect();
    Found {
        capacity: usable.or(away).cloned().unwrap_or_default(),
        walltime: Some(walltime),
        n_pilots_max: None,
        notes,
        words: format!("{version}{}", words.join("; ")),
    }
}

/// `queue batch, at most 1h 00m, 2 nodes with 4 cores; 1 node with 8 cores (down or drained)`
fn words_of(queue: &Queue) -> String {
    let words = |(n, node): &(u32, Resources), more: &str| {
        format!("{} with {node}{more}", format::counted((*n).into(), "node"))
    };
    let usable = queue.nodes.iter().map(|kind| words(kind, ""));
    let away = queue.nodes_away.iter().map(|kind| words(kind, " (down or drained)"));
    let nodes: Vec<String> = usable.chain(away).collect();
    format!("queue {}, {}, {}", queue.name, check::most(queue), nodes.join("; "))
}

/// What was given, else what was found.
fn entry_of(args: &AttachArgs, found: &Found) -> Mapping {
    let mut entry = Mapping::new();
    let mut add = |key: &str, value: Value| _ = entry.insert(key.into(), value);
    add("name", args.name.clone().into());
    add("adapter", args.adapter.clone().into());
    for (key, value) in [
        ("ssh", &args.ssh),
        ("ssh_config", &args.ssh_config),
        ("queue", &args.queue),
        ("account", &args.account),
        ("parallel_environment", &args.parallel_environment),
        ("folder", &args.folder),
        ("run_as", &args.run_as),
    ] {
        if let Some(value) = value {
            add(key, value.clone().into());
        }
    }
    let of_cloud = cloud_of(args);
    if args.adapter == openstack::NAME || !of_cloud.is_empty() {
        add(openstack::NAME, of_cloud.into());
    }
    if !args.option.is_empty() {
        add("options", args.option.clone().into());
    }
    // Without a parallel environment Grid Engine gives one core.
    let is_single = args.adapter == "gridengine" && args.parallel_environment.is_none();
    let cores = if is_single { 1 } else { found.capacity.cores };
    add("cores", args.cores.unwrap_or(cores).into());
    let memory = found.capacity.memory_bytes >> 20;
    let share = if is_single { memory / u64::from(found.capacity.cores.max(1)) } else { memory };
    match &args.memory {
        Some(memory) => add("memory", memory.clone().into()),
        None if share > 0 => add("memory", format!("{share}MiB").into()),
        None => {}
    }
    // Grid Engine counts them for each core, which seldom comes out even.
    // A pilot of some cores does not need a node's GPUs.
    if found.capacity.gpus > 0 && args.adapter != "gridengine" && args.cores.is_none() {
        add("gpus", found.capacity.gpus.into());
    }
    match (&args.walltime, found.walltime) {
        (Some(walltime), _) => add("walltime", walltime.clone().into()),
        (None, Some(walltime)) => add("walltime", written(walltime).into()),
        (None, None) => {}
    }
    if let Some(n_nodes) = args.nodes {
        add("nodes", n_nodes.into());
    }
    let is_host = matches!(args.adapter.as_str(), "local" | "hosts");
    let n_pilots_max = found.n_pilots_max.unwrap_or(if is_host { 1 } else { N_PILOTS_MAX });
    add("pilots_max", args.pilots_max.unwrap_or(n_pilots_max).into());
    entry
}

/// What is said of a cloud only.
fn cloud_of(args: &AttachArgs) -> Mapping {
    let mut entry = Mapping::new();
    for (key, value) in [
        ("cloud", &args.cloud),
        ("clouds_file", &args.clouds_file),
        ("image", &args.image),
        ("flavor", &args.flavor),
    ] {
        if let Some(value) = value {
            entry.insert(key.into(), value.clone().into());
        }
    }
    match &args.network[..] {
        [] => {}
        [network] => _ = entry.insert("networks".into(), network.clone().into()),
        networks => _ = entry.insert("networks".into(), networks.to_vec().into()),
    }
    entry
}

/// A duration as files have it.
fn written(span: Span) -> String {
    match span.0 / 1_000_000 {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AttachArgs,
    }

    /// The text with a way home for pilots that are attached so, and what is said of that.
    fn way_home(arguments: &[&str], text: &str) -> (String, Option<String>) {
        let words = ["attach"].iter().chain(arguments);
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        let file = parse(text, Path::new("manager.yaml")).unwrap_or_default();
        with_way_home(&line.args, &file, text.to_owned())
    }

    #[test]
    fn a_manager_whose_pilots_are_on_nodes_listens_where_they_reach_it() {
        for (before, head) in [("", ""), ("platforms: []\n", ""), ("---\nplatforms: []\n", "---\n")] {
            let (after, note) = way_home(&["slurm", "cluster"], before);
            let file = parse(&after, Path::new("manager.yaml")).unwrap_or_default();
            assert_eq!(file.listen.host.map(|host| host.to_string()).as_deref(), Some("0.0.0.0"), "{after}");
            let is_rest = after.starts_with(&format!("{head}#")) && after.ends_with(&before[head.len()..]);
            assert!(is_rest && note.is_some_and(|note| note.contains("next start")), "{after}");
        }
        for (arguments, before) in [
            (&["slurm", "cluster", "--ssh", "login"][..], ""),
            (&["local", "here"], ""),
            (&["hosts", "far", "--ssh", "far"], ""),
            (&["pbs", "cluster"], "listen: {host: 10.0.0.1}\n"),
        ] {
            assert_eq!(way_home(arguments, before), (before.to_owned(), None), "{arguments:?}");
        }
        for before in ["listen: {port: 7400}\n", "listen:\n  host: 127.0.0.1\n"] {
            let (after, note) = way_home(&["pbs", "cluster"], before);
            assert_eq!(after, before, "what is there stays");
            assert!(note.is_some_and(|note| note.contains("write `host: 0.0.0.0`")), "{before}");
        }
    }

    #[test]
    fn missing_host_or_image_is_refused_with_its_flag() {
        let refused = |arguments: &[&str]| {
            let words = ["attach"].iter().chain(arguments);
            let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            refuse_incomplete(&line.args).err().map(|failure| failure.message()).unwrap_or_default()
        };
        let host = "found no host of `a`; say where it is with --ssh HOST";
        assert_eq!(refused(&["hosts", "a"]), host);
        let image = "found no image of `a`; say what its servers boot with --image NAME";
        assert_eq!(refused(&["openstack", "a"]), image);
        assert_eq!(refused(&["openstack", "a", "--image", "debian"]), "");
        assert_eq!(refused(&["slurm", "a"]), "");
    }

    #[test]
    fn mistakes_of_what_is_given_name_the_field_and_the_argument_and_no_line() {
        let refused = |arguments: &[&str]| {
            let words = ["attach"].iter().chain(arguments);
            let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            let folder = PathBuf::from("/nowhere");
            let draft = Found { capacity: Resources::cores(1), ..Found::default() };
            config_of(&line.args, &draft, folder).err().map(|failure| failure.message()).unwrap_or_default()
        };
        let both = refused(&["slurm", "a", "--walltime", "1 parsec", "--queue", "a b"]);
        assert!(both.contains("walltime (--walltime): ") && both.contains("`parsec`"), "{both}");
        assert!(both.contains("queue (--queue): found `a b`"), "{both}");
        assert!(!both.contains("platforms[0]") && !both.contains("platform attach:"), "{both}");
        for (arguments, words) in [
            (&["slurm", "an other"][..], "found name `an other`"),
            (&["slrm", "a"], "adapter (ADAPTER): "),
            (&["slurm", "a", "--option=x"], "options (--option): found `x`"),
            (&["slurm", "a", "--ssh", "a b"], "ssh (--ssh): found `a b`"),
            (&["gridengine", "a", "--parallel-environment", "a b"], "(--parallel-environment): found `a b`"),
        ] {
            let said = refused(arguments);
            assert!(said.contains(words) && !said.contains(":1"), "{arguments:?}: {said}");
        }
    }

    #[test]
    fn a_pilot_fits_in_one_of_several_queues_and_is_sized_by_nodes_that_are_up() {
        let queue = |name: &str, hours: u64, up: &[(u32, u32)], away: &[(u32, u32)]| {
            let nodes =
                |kinds: &[(u32, u32)]| kinds.iter().map(|(n, c)| (*n, Resources::cores(*c))).collect();
            Queue {
                name: name.to_owned(),
                is_up: true,
                walltime_max: Some(Span::from_secs(hours * 3600)),
                nodes: nodes(up),
                nodes_away: nodes(away),
                ..Queue::default()
            }
        };
        let queues = [queue("long", 48, &[(2, 4)], &[(9, 64)]), queue("batch", 1, &[(3, 8)], &[])];
        let both = check::meant(&queues, Some("long,batch")).expect("two");
        let offer = found(&both, true, "");
        assert_eq!((offer.capacity.cores, offer.walltime), (8, Some(Span::from_secs(3600))));
        assert!(
            offer.words.contains("9 nodes with 64 cores (down or drained); queue batch"),
            "{}",
            offer.words
        );
        let long = check::meant(&queues, Some("long")).expect("one");
        assert_eq!(found(&long, true, "").capacity.cores, 4, "those that are drained do not count");
        assert!(check::meant(&queues, Some("long,none")).is_err_and(|why| why.contains("no queue `none`")));
        let away = [queue("down", 1, &[], &[(1, 2)])];
        let offer = found(&[&away[0]], true, "");
        assert!(offer.capacity.cores == 2 && offer.notes[0].contains("down or drained"), "{:?}", offer.notes);
        let text = "platforms: [{name: a, adapter: slurm, cores: 4, walltime: 40h}]";
        let file = parse(text, Path::new("manager.yaml")).unwrap_or_default();
        let spec = file.platforms[0].spec(&Resources::default()).expect("a platform");
        assert_eq!(check::fits_one(&both, &spec), Ok(()));
        let batch = check::meant(&queues, Some("batch")).expect("one");
        let why = check::fits_one(&batch, &spec).expect_err("40 hours are more than one");
        assert!(why.contains("batch lets a job run for at most 1h"), "{why}");
        let spec = |adapter: &str, n: u32| {
            let fields = "cores: 4, walltime: 1h, pilots_max: 20";
            let text = format!("platforms: [{{name: a, adapter: {adapter}, {fields}, nodes: {n}}}]");
            let file = parse(&text, Path::new("manager.yaml")).unwrap_or_default();
            file.platforms[0].spec(&Resources::default()).expect("a platform")
        };
        assert_eq!(check::fits_one(&batch, &spec("slurm", 3)), Ok(()));
        let why = check::fits_one(&batch, &spec("slurm", 4)).expect_err("three nodes are no four");
        assert_eq!(why, "batch has 3 nodes with 4 cores or more; an allocation of 4 nodes never begins");
        assert_eq!(check::fits_one(&both, &spec("slurm", 11)), Ok(()), "those that are drained come back");
        assert_eq!(check::fits_one(&batch, &spec("pbs", 6)), Ok(()), "two on each");
        assert!(check::fits_one(&batch, &spec("pbs", 7)).is_err());
    }

    #[test]
    fn memory_that_a_batch_system_does_not_tell_keeps_no_pilot_away() {
        let text = "platforms: [{name: a, adapter: slurm, cores: 2, memory: 4GiB}]";
        let file = parse(text, Path::new("manager.yaml")).unwrap_or_default();
        let spec = file.platforms[0].spec(&Resources::default()).expect("a platform");
        let queue = |memory_bytes| Queue {
            name: "batch".to_owned(),
            nodes: vec![(2, Resources { memory_bytes, ..Resources::cores(2) })],
            ..Queue::default()
        };
        assert_eq!(check::fits(&queue(0), &spec), Ok(()));
        assert_eq!(check::fits(&queue(8 << 30), &spec), Ok(()));
        assert!(check::fits(&queue(2 << 30), &spec).is_err());
        assert_eq!(found(&[&queue(0)], true, "").capacity.memory_bytes, 0);
    }
}
