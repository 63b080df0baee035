//! What `submit`, `check` and `run` say and do of workflows: several jobs of which some wait for others.

use std::path::Path;

use serde::Serialize;

use protocol::{
    api::{WorkflowRequest, WorkflowSubmitted},
    job::{AfterSpec, Input, OnSpec, Problem, StageSpec, WorkflowSpec, same_tasks},
};
use scheduler::{edges::Edges, engine::interface::views::JobView};

use crate::{
    access::last,
    client::{Client, ClientError, retry::until_answered},
    commands::job::wait,
    failure::{Failure, Outcome},
    follow::follow,
    progress::{Progress, Verbosity},
    show::{
        self, Screen,
        facts::Facts,
        format::{bytes, count, counted},
        job::{end_line, warn_of_lost_output},
        preview,
        table::shortened,
        units::json_with_units,
    },
    staging::{self, Claims, Fetching},
    sys::interrupts::unless_interrupted,
};

/// Letters of a command that are shown beside others.
const COMMAND_WIDTH: usize = 100;

/// How a submission is told of, and whether its end is waited for.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// Until all stages are over.
    pub waits: bool,
    /// With a line of progress.
    pub has_progress: bool,
    /// As JSON.
    pub json: bool,
    /// Numbers only.
    pub quiet: bool,
    /// Files that come may replace those that Pilotfish has not brought.
    pub overwrites: bool,
    /// The flags that find the manager again.
    pub place: &'a str,
}

/// Has the tasks that wait for a job of another file wait for those with the same parameters, as within a file. Files
/// that name no such job cost nothing.
///
/// # Errors
/// Tasks that do not belong together one by one; a manager that is not there.
pub async fn match_by_names(client: &Client, workflow: &mut WorkflowSpec) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for at in 0..workflow.stages.len() {
        let path = workflow.after_path(at);
        let Some(stage) = workflow.stages.get_mut(at) else { continue };
        for after in &mut stage.after {
            let (OnSpec::Job(id), Edges::Same) = (after.on, &after.edges) else { continue };
            let other = match client.spec(id).await {
                Ok(other) => other,
                // The submission is refused in words of its own.
                Err(ClientError::Refused { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            match same_tasks(&stage.job.sweep, &format!("job {id}"), &other.sweep) {
                Some(Ok(edges)) => after.edges = edges,
                Some(Err((found, expected))) => problems.push(Problem::new(path.as_str(), found, expected)),
                None => {}
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.into()) }
}

/// Submits a workflow to the manager in `folder`, and waits for it if that is wanted.
///
/// # Errors
/// A refusal, or a manager that stays away.
pub async fn submit(
    (client, folder): (&Client, &Path),
    request: &WorkflowRequest,
    manner: Manner<'_>,
) -> Result<Outcome, Failure> {
    let submitted = until_answered(async || client.submit_workflow(request).await).await?;
    last::remember(folder, submitted.stages.iter().map(|stage| stage.job).max());
    if manner.json && !manner.waits {
        show::print(&show::json(&submitted)?)?;
    } else if manner.quiet {
        let numbers: String = submitted.stages.iter().map(|stage| format!("{}\n", stage.job)).collect();
        show::print(&numbers)?;
    } else if !manner.json {
        show::print(&submitted_text(&submitted))?;
    }
    if !manner.waits {
        return Ok(Outcome::Fine);
    }
    let numbers: Vec<String> = submitted.stages.iter().map(|stage| stage.job.to_string()).collect();
    let again = wait::goes_on(&numbers.join(" "), manner.place);
    let over = all_over(client, &submitted, request, &manner);
    let Some(ended) = unless_interrupted(over, &again).await? else { return Ok(Outcome::Interrupted) };
    let (ended, unfetched) = ended;
    if manner.json {
        show::print(&json_with_units(&ended)?)?;
    }
    match unfetched {
        Some(failure) => Err(failure),
        None => Ok(wait::outcome(&ended)),
    }
}

/// Says which files of a stage have not come, where another stage's are told at the end.
pub fn tell_unfetched(failure: Option<Failure>) {
    if let Some(failure) = failure {
        show::say(&failure.message());
    }
}

/// Follows each stage, brings home what it has left, and says how it ended. Files that have not come keep no stage from it:
/// those of the last such stage are returned, the others were told.
async fn all_over(
    client: &Client,
    submitted: &WorkflowSubmitted,
    request: &WorkflowRequest,
    manner: &Manner<'_>,
) -> Result<(Vec<JobView>, Option<Failure>), Failure> {
    let verbosity = match (manner.has_progress, manner.quiet) {
        (true, _) => Verbosity::All,
        (false, false) => Verbosity::Failures,
        (false, true) => Verbosity::Nothing,
    };
    let mut ended: Vec<JobView> = Vec::new();
    let (claims, mut unfetched) = (Claims::default(), None);
    for (stage, spec) in submitted.stages.iter().zip(&request.workflow.stages) {
        let mut progress = Progress::new(verbosity);
        let job = follow(client, stage.job, &mut progress).await;
        progress.finish(manner.place);
        let job = job?;
        let is_quiet = manner.quiet || manner.json;
        let how = Fetching { is_quiet, overwrites: manner.overwrites, claims: &claims };
        if let Err(failure) = staging::fetch_home(client, job.id, &spec.job, how).await {
            tell_unfetched(unfetched.replace(failure));
        }
        if !manner.quiet {
            warn_of_lost_output(&job);
        }
        if !manner.json && !manner.quiet {
            show::print(&format!("{}: {}\n", stage.name, end_line(&job)))?;
        }
        ended.push(job);
    }
    Ok((ended, unfetched))
}

/// `job 4: prepare (10 tasks)`, a line each.
fn submitted_text(submitted: &WorkflowSubmitted) -> String {
    let line = |stage: &protocol::api::StageSubmitted| {
        format!("job {}: {} ({})\n", stage.job, stage.name, counted(stage.n_tasks, "task"))
    };
    submitted.stages.iter().map(line).collect()
}

/// A workflow for programs.
#[derive(Serialize)]
struct Preview<'a> {
    n_tasks: u64,
    n_edges: u64,
    critical_path: u64,
    workflow: &'a WorkflowSpec,
}

/// Shows a workflow that is right: its stages with the command of their first task, how many tasks and edges, and how many
/// tasks must run one after the other.
///
/// # Errors
/// The output cannot be written.
pub fn preview(workflow: &WorkflowSpec, as_json: bool) -> Result<Outcome, Failure> {
    let (n_tasks, n_edges) = (workflow.n_tasks(), workflow.n_edges());
    let critical_path = workflow.critical_path();
    if as_json {
        show::print(&show::json(&Preview { n_tasks, n_edges, critical_path, workflow })?)?;
        return Ok(Outcome::Fine);
    }
    let mut facts = Facts::default();
    facts.add("workflow", workflow.name.clone());
    facts.add("tasks", format!("{} in {}", count(n_tasks), counted(workflow.stages.len() as u64, "stage")));
    facts.add("edges", count(n_edges));
    facts.add("longest path", counted(critical_path, "task"));
    for stage in &workflow.stages {
        let after: Vec<String> = stage.after.iter().map(|after| after_text(workflow, after)).collect();
        let after = if after.is_empty() { String::new() } else { format!(" after {}", after.join(", ")) };
        let n_tasks = counted(stage.job.sweep.n_tasks(), "task");
        let mut lines = vec![format!("{n_tasks}{after}")];
        if let Some((n_files, n_bytes)) = staging::needs(&stage.job)?.filter(|(n_files, _)| *n_files > 0) {
            lines.push(format!("brings {} from here, {}", counted(n_files, "file"), bytes(n_bytes)));
        }
        lines.extend(stage.job.inputs.iter().filter_map(|input| taken_text(workflow, stage, input)));
        let first = preview::first_command(&stage.job);
        lines.extend(first.map(|line| format!("runs {}", shortened(&line, COMMAND_WIDTH))));
        facts.add(format!("  {}", stage.name), lines.join("\n"));
    }
    show::print(&facts.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}

/// `takes a/*.fits of project`
fn taken_text(workflow: &WorkflowSpec, stage: &StageSpec, input: &Input) -> Option<String> {
    let on = |at: &usize| match stage.after.get(*at)?.on {
        OnSpec::Stage(on) => workflow.stages.get(on).map(|on| on.name.as_str()),
        OnSpec::Job(_) => None,
    };
    let mut names: Vec<&str> = input.after.iter().filter_map(on).collect();
    names.dedup();
    let what = if input.lines { "files" } else { input.from.as_str() };
    (!names.is_empty()).then(|| format!("takes {what} of {}", names.join(", ")))
}

fn after_text(workflow: &WorkflowSpec, after: &AfterSpec) -> String {
    let on = match after.on {
        OnSpec::Stage(at) => workflow.stages.get(at).map_or_else(String::new, |stage| stage.name.clone()),
        OnSpec::Job(job) => format!("job {job}"),
    };
    let how = match &after.edges {
        Edges::All => "all".to_owned(),
        Edges::Same => "task by task".to_owned(),
        Edges::Groups(width) => format!("{} each", count(*width)),
        Edges::Spread(width) => format!("{} for each", count(*width)),
        Edges::Listed(listed) => counted(listed.n_edges(), "edge"),
    };
    format!("{on} ({how})")
}
