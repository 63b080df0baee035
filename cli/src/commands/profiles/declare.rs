//! What is said of applications: from files, from what comes with Pilotfish, or field by field.

use std::{collections::BTreeMap, path::Path};

use clap::{Args, ValueEnum};
use manager::config::file::load_application;
use profiles::application::{ApplicationProfile, SHIPPED, Written};
use protocol::{job::nearest, text::units::parse_duration_ms};
use scheduler::{
    engine::interface::{
        declared_profile::{COUNTS_AS, Declared, JobType},
        views::profile::{ExperienceView, ProfileView},
    },
    time::Span,
};

use super::find;
use crate::{
    access,
    commands::platform,
    failure::{Failure, Outcome},
    show::{
        self, Screen,
        format::{count, percent, span},
        table::Table,
        units::json_with_units,
    },
    view::{Reader, ViewArgs},
};

/// From where.
#[derive(Args)]
pub(super) struct DeclareArgs {
    /// Files with a profile each, or names of those that `profiles shipped` lists
    #[arg(value_name = "FILE|NAME", required = true)]
    profiles: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// What is to be changed.
#[derive(Args)]
pub(super) struct EditArgs {
    /// The application
    #[arg(value_name = "APPLICATION")]
    application: String,
    /// What its tasks wait for most
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    job_type: Option<TypeWord>,
    /// How busy a task keeps its cores, 0 to 1
    #[arg(long, value_name = "SHARE")]
    cpu_share: Option<f64>,
    /// How long a task takes on a platform, like cluster=12s; may be repeated
    #[arg(long = "time", value_name = "PLATFORM=DURATION", value_parser = time)]
    times: Vec<(String, Span)>,
    /// Let the declaration count like this many measured tasks
    #[arg(long, value_name = "N")]
    counts_as: Option<u32>,
    /// Take back all that was declared of it
    #[arg(long, conflicts_with_all = ["job_type", "cpu_share", "times", "counts_as"])]
    nothing: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Which.
#[derive(Args)]
pub(super) struct ExportArgs {
    /// The application
    #[arg(value_name = "APPLICATION")]
    application: String,
    #[command(flatten)]
    view: ViewArgs,
}

/// How they are shown.
#[derive(Args)]
pub(super) struct ShippedArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypeWord {
    /// For its cores
    #[value(name = "cpu-bound")]
    Cpu,
    /// For disks or the network
    #[value(name = "io-bound")]
    Io,
    /// For memory
    #[value(name = "memory-bound")]
    Memory,
}

impl From<TypeWord> for JobType {
    fn from(word: TypeWord) -> JobType {
        match word {
            TypeWord::Cpu => JobType::CpuBound,
            TypeWord::Io => JobType::IoBound,
            TypeWord::Memory => JobType::MemoryBound,
        }
    }
}

fn time(text: &str) -> Result<(String, Span), String> {
    let wanted = "write PLATFORM=DURATION, like cluster=12s";
    let (platform, duration) = text.split_once('=').ok_or_else(|| wanted.to_owned())?;
    let span = parse_duration_ms(duration).map_err(|error| error.to_string())?;
    if platform.is_empty() || span == 0 {
        Err(wanted.to_owned())
    } else {
        Ok((platform.to_owned(), Span::from_millis(span)))
    }
}

pub(super) async fn declare(args: &DeclareArgs) -> Result<Outcome, Failure> {
    // None of them, if one is wrong.
    let read: Vec<ApplicationProfile> =
        args.profiles.iter().map(|name| read(name)).collect::<Result<_, Failure>>()?;
    let client = access::find_for_operator(&args.view.place).await?;
    let attached: Vec<String> =
        client.platforms().await?.platforms.into_iter().map(|platform| platform.name).collect();
    let mut known = Vec::new();
    for ApplicationProfile { application, declared } in read {
        let told = elsewhere(&application, &declared, &attached).filter(|_| !args.view.quiet);
        known.extend(client.declare(&application, Some(declared)).await?.profiles);
        told.iter().for_each(|told| show::say(told));
    }
    print(&args.view, &known)
}

/// What is said of times on platforms that the manager does not have: a name may be misspelt.
fn elsewhere(application: &str, declared: &Declared, attached: &[String]) -> Option<String> {
    let absent = declared.times.keys().filter(|name| !attached.contains(name));
    let absent: Vec<String> = absent.map(|name| format!("`{name}`")).collect();
    let (times, are) = match absent.len() {
        0 => return None,
        1 => ("a time", "is"),
        _ => ("times", "are"),
    };
    Some(format!(
        "note: {application} has {times} on {}, which {are} not attached: until tasks are measured, that only says how \
         long its tasks are beside other applications'",
        absent.join(", ")
    ))
}

/// A file, or a profile that comes with Pilotfish. A name with a dot or a slash is a file's.
fn read(name: &str) -> Result<ApplicationProfile, Failure> {
    let path = Path::new(name);
    if path.exists() || name.contains(['/', '.']) {
        return load_application(path).map_err(|error| Failure::bad_input(error.to_string()));
    }
    let shipped = || SHIPPED.iter().map(|(name, _)| *name);
    let text = SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| text);
    let text = text.ok_or_else(|| {
        let hint = match nearest(name, shipped()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("those that come with Pilotfish are {}", shipped().collect::<Vec<_>>().join(", "))
            }
        };
        Failure::bad_input(format!("found no file and no profile `{name}`; {hint}"))
    })?;
    serde_yaml::from_str(text).map_err(|error| Failure::bad_input(error.to_string()))
}

pub(super) async fn edit(args: &EditArgs) -> Result<Outcome, Failure> {
    let client = access::find_for_operator(&args.view.place).await?;
    let known = client.profiles().await?.profiles;
    let before = known.iter().find(|profile| profile.application == args.application);
    let before = before.and_then(|profile| profile.declared.clone());
    if args.nothing {
        before.ok_or_else(|| Failure::bad_input(format!("nothing is declared of `{}`", args.application)))?;
        let known = client.declare(&args.application, None).await?.profiles;
        if !args.view.json && !args.view.quiet {
            show::print(&format!("nothing is declared of {} any more\n", args.application))?;
        }
        return if args.view.json { print(&args.view, &known) } else { Ok(Outcome::Fine) };
    }
    let mut declared = before.unwrap_or_default();
    let is_empty = args.job_type.is_none() && args.cpu_share.is_none() && args.counts_as.is_none();
    if is_empty && args.times.is_empty() {
        let hint = "say --type, --cpu-share, --time, --counts-as or --nothing";
        return Err(Failure::bad_input(format!("found nothing to be changed; {hint}")));
    }
    for (platform, _) in &args.times {
        platform::known(&client, platform).await?;
    }
    declared.job_type = args.job_type.map(JobType::from).or(declared.job_type);
    declared.cpu_share = args.cpu_share.or(declared.cpu_share);
    declared.counts_as = args.counts_as.unwrap_or(declared.counts_as);
    declared.times.extend(args.times.iter().cloned());
    profiles::application::check(&args.application, &declared).map_err(Failure::bad_input)?;
    print(&args.view, &client.declare(&args.application, Some(declared)).await?.profiles)
}

fn print(view: &ViewArgs, known: &[ProfileView]) -> Result<Outcome, Failure> {
    if view.json {
        show::print(&json_with_units(&known.to_vec())?)?;
    } else if !view.quiet {
        show::print(&known.iter().map(said).collect::<String>())?;
    }
    Ok(Outcome::Fine)
}

/// What was said of an application, in a line.
pub(super) fn said(profile: &ProfileView) -> String {
    let Some(declared) = &profile.declared else { return String::new() };
    let Declared { job_type, cpu_share, times, counts_as, source } = declared;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(job_type.map(|of_type| of_type.word().to_owned()));
    parts.extend(cpu_share.map(|share| format!("cores busy {}", percent(share))));
    parts.extend(times.iter().map(|(platform, time)| format!("{} on {platform}", span(*time))));
    parts.push(format!("counts as {} tasks", count(u64::from(*counts_as))));
    parts.extend(source.as_ref().map(|source| format!("from: {source}")));
    format!("declared of {}: {}\n", profile.application, parts.join(", "))
}

pub(super) async fn export(args: &ExportArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let profiles = reader.client.profiles().await?.profiles;
    let profile = find(&profiles, &args.application)?;
    let written = written(profile);
    let text = match args.view.json {
        true => show::json(&written)?,
        false => serde_yaml::to_string(&written).map_err(|error| Failure::bad_input(error.to_string()))?,
    };
    show::print(&text)?;
    Ok(Outcome::Fine)
}

/// What was measured, and where nothing was what was declared.
fn written(profile: &ProfileView) -> Written<'_> {
    let declared = profile.declared.as_ref();
    let mut times: BTreeMap<&str, String> = BTreeMap::new();
    for (platform, time) in declared.into_iter().flat_map(|declared| &declared.times) {
        times.insert(platform, exact(*time));
    }
    let measured = |known: &ExperienceView| known.mean.map(|mean| (known.n_done, mean));
    for known in &profile.platforms {
        times.extend(measured(known).map(|(_, mean)| (known.platform.as_str(), exact(mean))));
    }
    let n_done: u64 = profile.platforms.iter().filter_map(measured).map(|(n, _)| n).sum();
    let most = profile.platforms.iter().max_by_key(|known| known.n_done);
    let cpu_share =
        most.and_then(|known| known.cpu_share).map(|share| (share.clamp(0.0, 1.0) * 1e3).round() / 1e3);
    let source = match n_done {
        0 => declared.and_then(|declared| declared.source.clone()),
        n => Some(format!("measured on {} tasks", count(n))),
    };
    Written {
        application: &profile.application,
        job_type: profile.job_type,
        cpu_share: cpu_share.or(declared.and_then(|declared| declared.cpu_share)),
        times,
        counts_as: declared.map_or(COUNTS_AS, |declared| declared.counts_as),
        source,
    }
}

/// With all that is read again.
fn exact(time: Span) -> String {
    format!("{}ms", time.0.div_ceil(1000).max(1))
}

pub(super) fn shipped(args: &ShippedArgs) -> Result<Outcome, Failure> {
    let read: Vec<ApplicationProfile> =
        SHIPPED.iter().map(|(name, _)| read(name)).collect::<Result<_, Failure>>()?;
    if args.json {
        let all: BTreeMap<&str, &Declared> =
            read.iter().map(|profile| (profile.application.as_str(), &profile.declared)).collect();
        show::print(&show::json(&all)?)?;
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(&["APPLICATION", "TYPE", "SOURCE"]);
    for ApplicationProfile { application, declared } in read {
        let of_type = declared.job_type.map_or("", JobType::word);
        table.row(vec![application.into(), of_type.into(), declared.source.unwrap_or_default().into()]);
    }
    show::print(&table.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}

#[cfg(test)]
mod tests {
    use super::{Declared, Span, elsewhere};

    #[test]
    fn times_on_platforms_that_are_not_attached_are_told() {
        let told = |names: &[&str]| {
            let times = names.iter().map(|name| ((*name).to_owned(), Span::from_secs(1))).collect();
            elsewhere("dock", &Declared { times, ..Declared::default() }, &["near".to_owned()])
        };
        assert_eq!((told(&[]), told(&["near"])), (None, None));
        let one = told(&["near", "nera"]).unwrap_or_default();
        assert!(one.starts_with("note: dock has a time on `nera`, which is not attached: "), "{one}");
        let two = told(&["far", "nera"]).unwrap_or_default();
        assert!(two.starts_with("note: dock has times on `far`, `nera`, which are not attached: "), "{two}");
    }
}
