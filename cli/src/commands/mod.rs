//! The commands: a file each, a line each.

pub mod agent;
pub(crate) mod server;

mod check;
mod completions;
mod explain;
mod export;
mod import;
mod job;
mod logs;
mod platform;
mod policies;
mod profile;
mod profiles;
mod reproduce;
mod run;
mod schema;
mod simulate;
mod stores;
mod submit;
mod task;

use clap::Subcommand;

use crate::failure::{Failure, Outcome};

/// What can be done.
#[derive(Subcommand)]
pub enum Command {
    /// Run a job here, in one folder, and show how it goes
    Run(Box<run::RunArgs>),
    /// Check a job and show the first tasks as they would run
    Check(Box<check::CheckArgs>),
    /// Turn a workflow recorded by others into a job file
    Import(import::ImportArgs),
    /// Print the JSON Schema of job files, for editors
    Schema(schema::SchemaArgs),
    /// Start a manager that stays
    Serve(server::serve::ServeArgs),
    /// Hand a job to the manager
    Submit(Box<submit::SubmitArgs>),
    /// List jobs
    Jobs(job::jobs::JobsArgs),
    /// Show a job
    Job(job::JobArgs),
    /// List the tasks of a job
    Tasks(task::tasks::TasksArgs),
    /// Show a task with all its attempts
    Task(task::TaskArgs),
    /// Print what tasks wrote
    Logs(logs::LogsArgs),
    /// Write the results as a table: CSV, JSON Lines or Parquet
    Export(export::ExportArgs),
    /// Fetch the output files of tasks
    Fetch(task::fetch::FetchArgs),
    /// Wait until jobs are over
    Wait(job::wait::WaitArgs),
    /// Cancel jobs or tasks
    Cancel(job::cancel::CancelArgs),
    /// Pause jobs: begin no more of their tasks
    Pause(job::pause::PauseArgs),
    /// Let paused jobs go on
    Resume(job::resume::ResumeArgs),
    /// Run failed tasks again
    RetryFailed(job::retry_failed::RetryFailedArgs),
    /// Remove jobs that are over, with what is kept of them
    Purge(job::purge::PurgeArgs),
    /// List pilots
    Pilots(platform::pilots::PilotsArgs),
    /// List platforms
    Platforms(platform::list::PlatformsArgs),
    /// Check the manager's own store for damage
    Store(server::store::StoreArgs),
    /// List stores that jobs may take files from and leave them in
    Stores(stores::StoresArgs),
    /// Show or set the policies that decide who runs what and where
    Policies(policies::PoliciesArgs),
    /// Show how waiting tasks are divided among platforms
    Weights(policies::weights::WeightsArgs),
    /// Measure how long tasks take, alone on a node and beside others
    Profile(profile::ProfileArgs),
    /// Show, declare or forget what is known of applications
    Profiles(profiles::ProfilesArgs),
    /// Attach, try, show, pause, limit or detach platforms
    Platform(Box<platform::PlatformArgs>),
    /// Show or cancel allocations: what platforms were asked for
    Allocation(platform::allocation::AllocationArgs),
    /// Explain why something waits, failed or runs where it does
    Explain(explain::ExplainArgs),
    /// Give other users access to the manager
    User(server::user::UserArgs),
    /// Show an overview of the manager
    Status(server::status::StatusArgs),
    /// Print figures for monitoring
    Metrics(server::metrics::MetricsArgs),
    /// End the manager and its pilots
    Stop(server::stop::StopArgs),
    /// Make the tables and figures of the papers again
    Reproduce(reproduce::ReproduceArgs),
    /// Simulate the live code: a scenario, a past run, or faults
    Simulate(simulate::SimulateArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
    /// Run and list pilots: for platforms, not for people
    Agent(agent::AgentArgs),
}

impl Command {
    /// Whether a manager runs in this process for it.
    pub fn hosts_manager(&self) -> bool {
        match self {
            Command::Run(_) | Command::Serve(_) => true,
            Command::Platform(args) => args.hosts_manager(),
            _ => false,
        }
    }
}

/// Does it. `definition` makes the command line as clap knows it.
///
/// # Errors
/// What is wrong, with its exit code.
pub async fn run(command: Command, definition: fn() -> clap::Command) -> Result<Outcome, Failure> {
    match command {
        Command::Run(args) => run::run(*args).await,
        Command::Check(args) => check::run(*args),
        Command::Import(args) => import::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Serve(args) => server::serve::run(args).await,
        Command::Submit(args) => submit::run(*args).await,
        Command::Jobs(args) => job::jobs::run(args).await,
        Command::Job(args) => job::run(args).await,
        Command::Tasks(args) => task::tasks::run(args).await,
        Command::Task(args) => task::run(args).await,
        Command::Logs(args) => logs::run(args).await,
        Command::Export(args) => export::run(args).await,
        Command::Fetch(args) => task::fetch::run(args).await,
        Command::Wait(args) => job::wait::run(args).await,
        Command::Cancel(args) => job::cancel::run(args).await,
        Command::Pause(args) => job::pause::run(args).await,
        Command::Resume(args) => job::resume::run(args).await,
        Command::RetryFailed(args) => job::retry_failed::run(args).await,
        Command::Purge(args) => job::purge::run(args).await,
        Command::Pilots(args) => platform::pilots::run(args).await,
        Command::Platforms(args) => platform::list::run(args).await,
        Command::Store(args) => server::store::run(args).await,
        Command::Stores(args) => stores::run(args).await,
        Command::Policies(args) => policies::run(args).await,
        Command::Weights(args) => policies::weights::run(args).await,
        Command::Profile(args) => profile::run(args).await,
        Command::Profiles(args) => profiles::run(args).await,
        Command::Platform(args) => platform::run(*args).await,
        Command::Allocation(args) => platform::allocation::run(args).await,
        Command::Explain(args) => explain::run(args).await,
        Command::User(args) => server::user::run(args).await,
        Command::Status(args) => server::status::run(args).await,
        Command::Metrics(args) => server::metrics::run(args).await,
        Command::Stop(args) => server::stop::run(args).await,
        Command::Reproduce(args) => reproduce::run(args).await,
        Command::Simulate(args) => simulate::run(args).await,
        Command::Completions(args) => completions::run(&args, definition),
        // `main` has taken it before anything else was started.
        Command::Agent(_) => Ok(Outcome::Fine),
    }
}
