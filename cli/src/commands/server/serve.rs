//! `pilotfish serve`: a manager that stays.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use manager::{
    Manager, Reload,
    config::{
        Config, Elsewhere, TlsMode,
        file::{ManagerFile, QuotasForm},
    },
};
use profiles::site::Site;
use protocol::{
    api::{AccessFile, Reloaded},
    net::address::is_host,
};
use scheduler::{resources::Resources, time::Span};
use tokio::sync::mpsc;

use crate::{
    access::{
        self, DEFAULT_NAME, Standing,
        folders::{ACCESS_FILE, shell_path, show_path},
    },
    failure::{Failure, Outcome, without_numbers},
    in_process,
    input::overrides::cores,
    show::{self, quote::quoted},
    sys::{interrupts::Interrupts, logging, terminal::Terminal},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish serve  in ~/.pilotfish/default, for this machine's cores
  pilotfish serve --name big --cores 8 --pilots-max 4
  pilotfish serve --host 0.0.0.0 --port 7400
      # for pilots elsewhere; with TLS
  pilotfish serve --config manager.yaml --no-local

It goes on with the jobs in its folder. Ctrl-C or SIGTERM end only the manager:
its pilots finish what they hold and come back to the next one; `pilotfish
stop` ends them too. PILOTFISH_LOG=debug logs more.";

/// A pilot without work goes after so long.
const IDLE_TIMEOUT: Span = Span::from_secs(600);

/// Pilots on this machine, unless a flag says another number.
const PILOTS_MAX: u32 = 1;

/// To read the configuration again.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// Where, and with what.
#[derive(Args, Clone)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Its name among yours; its folder is ~/.pilotfish/NAME
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Its folder [environment: PILOTFISH_DIR]
    #[arg(long, value_name = "FOLDER", conflicts_with = "name")]
    dir: Option<PathBuf>,
    /// A file with platforms, policies and limits
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// Listen on this port [default: that of last time, else any]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Whether to speak TLS [default: auto]
    #[arg(long, value_enum)]
    tls: Option<TlsArg>,
    /// Cores of each pilot on this machine [default: all this process may use]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = cores)]
    cores: Option<u32>,
    /// Pilots on this machine at most
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = PILOTS_MAX)]
    pilots_max: u32,
    /// How much of another resource each pilot on this machine has; may be repeated
    #[arg(long, value_name = "NAME=N")]
    offer: Vec<String>,
    /// No pilots on this machine
    #[arg(long, conflicts_with_all = ["cores", "pilots_max", "offer"])]
    no_local: bool,
    /// Run tasks as the manager's own account although it has other users: a task could then act as any user
    #[arg(long, conflicts_with = "no_local")]
    allow_shared_account: bool,
    /// The folder was moved here for good from another disk or host, and nothing runs where it was
    #[arg(long)]
    moved: bool,
    /// The folder is a copy: keep jobs and results, forget the original's pilots and batch jobs, and be another manager
    #[arg(long, conflicts_with = "moved")]
    as_copy: bool,
    /// Say only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TlsArg {
    /// Unless it listens on a loopback address
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// Serves until it is told to end.
///
/// # Errors
/// A wrong configuration, a folder or port that cannot be used, or a store that fails.
pub async fn run(mut args: ServeArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    // A handler and not SIG_IGN: pilots must not inherit it.
    let mut hangup = signal(SignalKind::hangup())
        .map_err(|error| Failure::infrastructure(format!("cannot listen for signals: {error}")))?;
    let folder = folder(&args)?;
    access::refuse_folder_of_user(&folder)?;
    if let Standing::Live(client) = access::standing(&folder).await {
        let (AccessFile { pid, url, .. }, shown) = (client.access(), show_path(&folder));
        return Err(Failure::infrastructure(format!(
            "a manager is already running in {shown} (process {pid}, {url}); use it, end it with `pilotfish stop`, or start another with --name"
        )));
    }
    let is_new = !folder.exists();
    let started = start(&args, folder.clone()).await;
    if started.is_err() && is_new {
        // Only if nothing is in it: what is may be of another manager that began at the same moment.
        let _ = std::fs::remove_dir(&folder);
    }
    let (mut manager, listen_host, first) = started?;
    // Links may lead elsewhere by the time it is read again.
    args.config = args.config.map(|path| path.canonicalize().unwrap_or(path));
    if !args.quiet {
        announce(&manager, &args, listen_host);
    }
    let mut reloads = manager.take_reloads();
    let outcome = loop {
        tokio::select! {
            ended = manager.wait() => break ended,
            _ = interrupts.next() => {
                if !args.quiet {
                    show::say(&farewell(&folder, &args));
                }
                break Ok(());
            }
            // Terminals that go send it, too.
            _ = hangup.recv(), if args.config.is_some() => {
                match reload(&args, &first, &mut manager).await {
                    Ok(reloaded) => show::say(crate::commands::platform::told(&reloaded).trim_end()),
                    Err(what) => show::say(&format!("the configuration was not read again: {what}")),
                }
            }
            Some(asked) = next(&mut reloads) => {
                let reloaded = reload(&args, &first, &mut manager).await;
                // Who asked may not wait any more.
                let _ = asked.answer.send(reloaded);
            }
        }
    };
    tokio::select! {
        left = manager.take_leave() => crate::commands::server::stop::told(&left).iter().for_each(|line| show::say(line)),
        _ = interrupts.next() => {}
    }
    manager.close().await;
    outcome.map_err(|error| Failure::infrastructure(error.to_string()))?;
    Ok(Outcome::Fine)
}

async fn next(reloads: &mut Option<mpsc::Receiver<Reload>>) -> Option<Reload> {
    reloads.as_mut()?.recv().await
}

/// Reads the configuration again, and attaches what is new in it. `first`: the file as it was at the start.
async fn reload(args: &ServeArgs, first: &ManagerFile, manager: &mut Manager) -> Result<Reloaded, String> {
    let args = args.clone();
    // A file server may not answer; whoever waits for this process's end should not wait for that.
    let reading = tokio::task::spawn_blocking(move || read_again(&args));
    let read =
        tokio::time::timeout(READ_LIMIT, reading).await.map_err(|_| "its file does not answer".to_owned())?;
    let (config, file) = read.map_err(|error| error.to_string())??;
    let mut reloaded = manager.attach_new(&config).await?;
    let file = without_platforms(file);
    reloaded.others = file.differences(first);
    reloaded.others_wait = file != *first;
    Ok(reloaded)
}

fn read_again(args: &ServeArgs) -> Result<(Config, ManagerFile), String> {
    let path = args.config.as_ref().ok_or("there is no file")?;
    if !path.is_file() {
        return Err(format!("{} is no file any more", path.display()));
    }
    let failed = |failure: Failure| failure.message();
    config(args, folder(args).map_err(failed)?).map_err(failed)
}

/// The part of a file whose changes wait for the next start of the manager.
fn without_platforms(file: ManagerFile) -> ManagerFile {
    ManagerFile { platforms: Vec::new(), quotas: QuotasForm::default(), ..file }
}

/// What a signalled manager leaves, and how to end that too.
fn farewell(folder: &Path, args: &ServeArgs) -> String {
    let shown = shell_path(folder);
    format!(
        "the manager ends; pilots go on with what they hold and come back to the next one: \
         `pilotfish serve --dir {shown}{}`, and then `pilotfish stop --dir {shown}` to end them too",
        flags_again(args)
    )
}

/// The flags that a manager needs again to be the same, but for its folder, each with a blank before it.
fn flags_again(args: &ServeArgs) -> String {
    let mut flags = String::new();
    let mut add = |flag: &str, value: Option<String>| {
        let value = value.map(|value| format!(" {value}")).unwrap_or_default();
        flags += &format!(" --{flag}{value}");
    };
    if let Some(config) = &args.config {
        add("config", Some(shell_path(config)));
    }
    if let Some(host) = args.host {
        add("host", Some(host.to_string()));
    }
    if let Some(port) = args.port {
        add("port", Some(port.to_string()));
    }
    if let Some(tls) = args.tls.as_ref().and_then(ValueEnum::to_possible_value) {
        add("tls", Some(tls.get_name().to_owned()));
    }
    if let Some(cores) = args.cores {
        add("cores", Some(cores.to_string()));
    }
    if args.pilots_max != PILOTS_MAX {
        add("pilots-max", Some(args.pilots_max.to_string()));
    }
    args.offer.iter().for_each(|offer| add("offer", Some(quoted(offer))));
    let switches = [
        ("no-local", args.no_local),
        ("allow-shared-account", args.allow_shared_account),
        ("quiet", args.quiet),
    ];
    switches.into_iter().filter(|(_, is_on)| *is_on).for_each(|(flag, _)| add(flag, None));
    flags
}

/// Starts the manager; gives it and the address that it was told to listen on.
async fn start(args: &ServeArgs, folder: PathBuf) -> Result<(Manager, IpAddr, ManagerFile), Failure> {
    let (mut config, file) = config(args, folder)?;
    // A file that lists platforms lists all of them.
    if !args.no_local && config.platforms.is_empty() {
        let mut host = capacity(args)?;
        host.cores = args.cores.unwrap_or(host.cores);
        let platform = in_process::local_platform(host, args.pilots_max, IDLE_TIMEOUT);
        let site = Site { allows_shared_account: args.allow_shared_account, ..Site::default() };
        config.platforms.push((platform, site));
    }
    logging::start(Some(if args.quiet { "warn" } else { "info" }))?;
    let listen_host = config.listen_host;
    let (manager, _) = in_process::start(config).await?;
    Ok((manager, listen_host, without_platforms(file)))
}

/// What a pilot on this machine offers.
fn capacity(args: &ServeArgs) -> Result<Resources, Failure> {
    let mut host = in_process::host_capacity();
    host.generic.extend(in_process::offered("--offer", &args.offer)?);
    Ok(host)
}

fn folder(args: &ServeArgs) -> Result<PathBuf, Failure> {
    let named = args.dir.clone();
    match named.or_else(|| access::folder_of_environment().filter(|_| args.name == DEFAULT_NAME)) {
        Some(folder) => Ok(folder),
        None => access::folder_of_name(&args.name),
    }
}

/// What the flags and the file say, and the file.
fn config(args: &ServeArgs, folder: PathBuf) -> Result<(Config, ManagerFile), Failure> {
    let file = match &args.config {
        Some(path) => ManagerFile::load(path).map_err(|error| {
            Failure::BadInput(
                error.to_string().lines().map(|line| without_numbers(line.to_owned())).collect(),
            )
        })?,
        None => ManagerFile::default(),
    };
    if args.pilots_max == 0 {
        return Err(Failure::bad_input("--pilots-max: found 0; give at least 1, or --no-local"));
    }
    let mut config = in_process::config(folder)?;
    config.asker = Arc::new(Terminal { is_lent: false });
    config.elsewhere = match (args.moved, args.as_copy) {
        (true, _) => Elsewhere::Moved,
        (false, true) => Elsewhere::Copy,
        (false, false) => Elsewhere::Refuse,
    };
    config.file = args.config.as_ref().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    config.apply(&file, &capacity(args)?).map_err(|error| Failure::bad_input(error.to_string()))?;
    config.listen_host = args.host.unwrap_or(config.listen_host);
    config.listen_port = args.port.or(config.listen_port);
    config.tls = match args.tls {
        None => config.tls,
        Some(TlsArg::Auto) => TlsMode::Auto,
        Some(TlsArg::On) => TlsMode::On,
        Some(TlsArg::Off) => TlsMode::Off,
    };
    Ok((config, file))
}

fn announce(manager: &Manager, args: &ServeArgs, listen_host: IpAddr) {
    let access = manager.access();
    let tls = if access.certificate_sha256.is_some() { "with TLS" } else { "without TLS" };
    let place = folder(args).map(|folder| show_path(&folder)).unwrap_or_default();
    show::say(&format!("manager in {place} at {} ({tls}), process {}", access.url, access.pid));
    if listen_host.is_unspecified()
        && let Some((scheme, port)) = access.url.split_once("://").zip(access.url.rsplit_once(':'))
    {
        let (scheme, port) = (scheme.0, port.1);
        // Whatever the system lets it be called.
        let name = if is_host(&access.host) { access.host.as_str() } else { "NAME-OF-THIS-HOST" };
        let listens = SocketAddr::new(listen_host, port.parse().unwrap_or_default());
        show::say(&format!(
            "it listens on all addresses ({listens}); agents and clients here use {}, those elsewhere need {scheme}://{name}:{port} as `url` in a copy of {}",
            access.url, ACCESS_FILE
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::{ServeArgs, farewell};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn the_command_that_goes_on_has_all_that_this_one_was_given() {
        let said = |words: &[&str]| {
            let line = Line::try_parse_from(["serve"].iter().chain(words)).ok().unwrap();
            farewell(Path::new("/m/my manager"), &line.args)
        };
        assert!(said(&[]).contains(
            "`pilotfish serve --dir '/m/my manager'`, and then `pilotfish stop --dir '/m/my manager'`"
        ));
        let words = [
            "--config",
            "/c/my manager.yaml",
            "--host",
            "::1",
            "--port",
            "74",
            "--tls",
            "on",
            "--pilots-max",
            "3",
            "--offer",
            "licence=4",
            "--allow-shared-account",
            "--moved",
        ];
        let expected = "`pilotfish serve --dir '/m/my manager' --config '/c/my manager.yaml' --host ::1 --port 74 --tls on \
            --pilots-max 3 --offer licence=4 --allow-shared-account`";
        assert!(said(&words).contains(expected), "{}", said(&words));
        assert!(said(&["--no-local"]).contains("my manager' --no-local`"));
    }
}
