//! `pilotfish profiles …`: what was learned and said of applications.

mod declare;

use clap::{Args, Subcommand};
use protocol::job::nearest;
use scheduler::engine::interface::{
    declared_profile::JobType,
    views::profile::{ExperienceView, ProfileView},
};

use crate::{
    access,
    failure::{Failure, Outcome},
    show::{
        self, Screen,
        format::{bytes, count, counted, mean_and_deviation, percent},
        table::Table,
        units::json_with_units,
        words,
    },
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish profiles list
  pilotfish profiles show vina
  pilotfish profiles reset vina               it is another program now
  pilotfish profiles edit vina --time cluster=12s --time cloud=20s
  pilotfish profiles declare blast.yaml montage
      # from a file; one that comes with Pilotfish
  pilotfish profiles export vina > vina.yaml  what is known, as such a file

Measurements are kept by application (`application:` of jobs, else the
program's name) and platform. Old ones count less: about the last 500 tasks
make the means. A declaration counts like 10 tasks, or as `counts_as` says, and
decides until more have been measured.";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfilesArgs {
    #[command(subcommand)]
    command: ProfilesCommand,
}

#[derive(Subcommand)]
enum ProfilesCommand {
    /// List what is known of all applications, a line for each platform where one has run
    List(ListArgs),
    /// Show what is known of an application
    Show(ShowArgs),
    /// Forget what was measured of applications
    Reset(ResetArgs),
    /// Declare what applications are like before they have run
    Declare(declare::DeclareArgs),
    /// Change what is declared of an application
    Edit(declare::EditArgs),
    /// Print what is known of an application as a file for `declare`
    Export(declare::ExportArgs),
    /// List the profiles that come with Pilotfish
    Shipped(declare::ShippedArgs),
}

/// How they are shown.
#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    view: ViewArgs,
}

/// Which.
#[derive(Args)]
struct ShowArgs {
    /// The application
    #[arg(value_name = "APPLICATION")]
    application: String,
    #[command(flatten)]
    view: ViewArgs,
}

/// Which.
#[derive(Args)]
struct ResetArgs {
    /// The applications
    #[arg(value_name = "APPLICATION", required = true)]
    applications: Vec<String>,
    #[command(flatten)]
    view: ViewArgs,
}

/// Does it.
///
/// # Errors
/// No such application, no manager, or none that can be changed.
pub async fn run(args: ProfilesArgs) -> Result<Outcome, Failure> {
    match args.command {
        ProfilesCommand::List(args) => list(&args).await,
        ProfilesCommand::Show(args) => show(&args).await,
        ProfilesCommand::Reset(args) => reset(&args).await,
        ProfilesCommand::Declare(args) => declare::declare(&args).await,
        ProfilesCommand::Edit(args) => declare::edit(&args).await,
        ProfilesCommand::Export(args) => declare::export(&args).await,
        ProfilesCommand::Shipped(args) => declare::shipped(&args),
    }
}

async fn list(args: &ListArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    print(&args.view, &reader.client.profiles().await?.profiles)?;
    Ok(Outcome::Fine)
}

async fn show(args: &ShowArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let profiles = reader.client.profiles().await?.profiles;
    let profile = find(&profiles, &args.application)?;
    match args.view.json {
        true => show::print(&json_with_units(profile)?)?,
        false => {
            print(&args.view, std::slice::from_ref(profile))?;
            print_beside(&args.view, profile)?;
        }
    }
    Ok(Outcome::Fine)
}

async fn reset(args: &ResetArgs) -> Result<Outcome, Failure> {
    let client = access::find_for_operator(&args.view.place).await?;
    let known = client.profiles().await?.profiles;
    // None of them, if one is misspelt.
    for application in &args.applications {
        find(&known, application)?;
    }
    let mut forgotten = Vec::new();
    for application in &args.applications {
        let profile = client.forget(application).await?;
        if !args.view.json && !args.view.quiet {
            let n_done = profile.platforms.iter().map(|known| known.n_done).sum();
            let tasks = counted(n_done, "task");
            show::print(&format!("what {tasks} of {application} had shown is forgotten\n"))?;
        }
        forgotten.push(profile);
    }
    if args.view.json {
        show::print(&json_with_units(&forgotten)?)?;
    }
    Ok(Outcome::Fine)
}

fn find<'a>(profiles: &'a [ProfileView], name: &str) -> Result<&'a ProfileView, Failure> {
    profiles.iter().find(|profile| profile.application == name).ok_or_else(|| {
        let known: Vec<&str> = profiles.iter().map(|profile| profile.application.as_str()).collect();
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "no task of any has ended yet".to_owned(),
            None => format!("known: {}", known.join(", ")),
        };
        Failure::bad_input(format!("nothing is known of an application `{name}`; {hint}"))
    })
}

fn print(view: &ViewArgs, profiles: &[ProfileView]) -> Result<(), Failure> {
    if view.json {
        return show::print(&json_with_units(&profiles.to_vec())?);
    }
    if view.quiet {
        let lines: String = profiles.iter().map(|profile| format!("{}\n", profile.application)).collect();
        return show::print(&lines);
    }
    let mut table = Table::new(&[
        "APPLICATION",
        "TYPE",
        "PLATFORM",
        ">TASKS",
        ">WALL TIME",
        ">CPU",
        ">I/O",
        ">MEMORY",
        ">FAILED",
        ">ERRORS",
    ]);
    for profile in profiles {
        for known in &profile.platforms {
            table.row(vec![
                profile.application.clone().into(),
                profile.job_type.map_or("", JobType::word).into(),
                known.platform.clone().into(),
                count(known.n_done).into(),
                mean_and_deviation(known.mean, known.deviation).unwrap_or_default().into(),
                known.cpu_share.map_or_else(String::new, percent).into(),
                known.io_rate.map_or_else(String::new, |rate| format!("{}/s", bytes(rate as u64))).into(),
                memory(known).into(),
                words::failures(known.n_failed),
                known.error_rate.map_or_else(String::new, percent).into(),
            ]);
        }
    }
    show::print(&table.render(&Screen::stdout()))?;
    for profile in profiles.iter().filter(|profile| profile.declared.is_some()) {
        show::print(&declare::said(profile))?;
    }
    Ok(())
}

/// What its tasks take beside others on a node.
fn print_beside(view: &ViewArgs, profile: &ProfileView) -> Result<(), Failure> {
    if view.quiet || profile.platforms.iter().all(|known| known.beside.is_empty()) {
        return Ok(());
    }
    let mut table = Table::new(&["ON A NODE", "PLATFORM", ">TASKS", ">WALL TIME", ">LONGER"]);
    for known in &profile.platforms {
        for beside in &known.beside {
            let company = match beside.others.as_deref() {
                None => "alone".to_owned(),
                Some([]) => "with its like".to_owned(),
                Some(others) => format!("with {}", others.join(", ")),
            };
            let longer = beside.difference.filter(|_| beside.others.is_some());
            table.row(vec![
                company.into(),
                known.platform.clone().into(),
                count(beside.n).into(),
                beside.mean.to_string().into(),
                longer.map_or_else(String::new, |longer| format!("{:+.0} %", longer * 100.0)).into(),
            ]);
        }
    }
    let mut text = format!("\n{}", table.render(&Screen::stdout()));
    for known in profile.platforms.iter().filter(|known| !known.beside.is_empty()) {
        let tasks = counted(known.degree.into(), "task");
        text += &format!("a node of {} gains from no more than {tasks} at a time\n", known.platform);
    }
    show::print(&text)
}

fn memory(known: &ExperienceView) -> String {
    if known.memory_bytes_max == 0 { String::new() } else { bytes(known.memory_bytes_max) }
}
