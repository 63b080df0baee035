//! Files that pilots report are held to what the job declares for the task: a success that left another file is none.

use std::sync::Arc;

use axum::http::StatusCode;
use protocol::job::{Compiled, TaskOutputFile, limits::N_LEFT_MAX};
use scheduler::{
    ids::JobId,
    ranges::TaskSet,
    results::{Failure, FailureKind, JobReport, OutputFile, Report, TaskFiles},
};

use crate::api::{ApiError, Context, JobFacts, blocking};

/// Reports with more files are looked at beside the loop that serves connections.
const N_FILES_HERE: usize = 64;

/// Turns successes with files that their job does not declare into failures. O(files). An error means that the report
/// was not looked at, and is to be sent again.
pub(in crate::api) async fn hold_to_outputs(context: &Context, report: &mut Report) -> Result<(), ApiError> {
    for part in report.jobs.iter_mut().filter(|part| !part.files.is_empty()) {
        let wrong = match context.facts(part.job).await {
            Ok(facts) => look(facts, part).await?,
            // The engine takes nothing of a job that is not there.
            Err(error) if error.status == StatusCode::NOT_FOUND => continue,
            // It cannot be read next time either, and what is not looked at is not believed.
            Err(error) if error.status == StatusCode::INTERNAL_SERVER_ERROR => all(part, &error.message),
            Err(error) => return Err(error),
        };
        if !wrong.is_empty() {
            fail(part, wrong);
        }
    }
    Ok(())
}

async fn look(facts: Arc<JobFacts>, part: &mut JobReport) -> Result<Vec<(u64, String)>, ApiError> {
    let n_files: usize = part.files.iter().map(|files| files.files.len()).sum();
    if n_files <= N_FILES_HERE {
        return Ok(undeclared(&facts.compiled, part.job, &part.files));
    }
    let (job, files) = (part.job, std::mem::take(&mut part.files));
    let (files, wrong) = blocking(move || {
        let wrong = undeclared(&facts.compiled, job, &files);
        Ok((files, wrong))
    })
    .await?;
    part.files = files;
    Ok(wrong)
}

/// Every task that left files, for a reason that is the job's.
fn all(part: &JobReport, why: &str) -> Vec<(u64, String)> {
    part.files.iter().map(|files| (files.index, why.to_owned())).collect()
}

/// Tasks with files that the job does not declare for them, and what is wrong.
fn undeclared(compiled: &Compiled, job: JobId, files: &[TaskFiles]) -> Vec<(u64, String)> {
    let wrong = |files: &TaskFiles| Some((files.index, wrong_file(compiled, job, files)?));
    files.iter().filter_map(wrong).collect()
}

fn wrong_file(compiled: &Compiled, job: JobId, files: &TaskFiles) -> Option<String> {
    let outputs = match compiled.outputs(job.0, files.index) {
        Ok(outputs) => outputs,
        Err(problem) => return Some(problem.to_string()),
    };
    if files.files.len() > outputs.len().saturating_mul(N_LEFT_MAX) {
        return Some(format!("its pilot says that it left {} files", files.files.len()));
    }
    // Links to folders are left out under a pattern, too, which means what is in them.
    let is_right = |output: &TaskOutputFile, file: &OutputFile| match file.left_out {
        None => output.may_go_to(&file.to),
        Some(_) => output.may_leave_out(&file.to),
    };
    let wrong = files.files.iter().find(|file| !outputs.iter().any(|output| is_right(output, file)))?;
    Some(format!("its pilot says that it left {:?}, which is none of the job's outputs", wrong.to))
}

fn fail(part: &mut JobReport, wrong: Vec<(u64, String)>) {
    let indices: TaskSet = wrong.iter().map(|(index, _)| *index).collect();
    let mut usages = part.successes.restricted_to(&part.successes.tasks.intersection(&indices));
    let failed: Vec<_> = usages.attempts().map(|(index, _, usage)| (index, usage)).collect();
    std::mem::swap(&mut usages, &mut part.successes);
    let mut right = usages.tasks.clone();
    right.remove_all(&indices);
    part.successes = usages.restricted_to(&right);
    part.files.retain(|files| !indices.contains(files.index));
    part.outputs.retain(|output| !indices.contains(output.index));
    for (index, usage) in failed {
        let what = wrong.iter().find(|(other, _)| *other == index).map(|(_, what)| what.clone());
        let kind = FailureKind::Transfer { what: what.unwrap_or_default() };
        part.failures.push(Failure { index, kind, usage });
    }
}

#[cfg(test)]
mod tests {
    use protocol::job::{CommandLine, JobSpec, Output, WorkDirPolicy};
    use scheduler::results::{Successes, Usage};

    use super::*;

    fn left(index: u64, to: &[&str]) -> TaskFiles {
        let file = |to: &&str| OutputFile { to: (*to).to_owned(), bytes: 1, ..OutputFile::default() };
        TaskFiles { index, files: to.iter().map(file).collect() }
    }

    fn compiled() -> Compiled {
        let output = Output { from: "out".into(), to: "res/{index}.txt".into(), ..Output::default() };
        let command = CommandLine::Args(vec!["true".to_owned()]);
        let spec = JobSpec::new(command, "/data".into());
        JobSpec { workdir: WorkDirPolicy::Scratch, outputs: vec![output], ..spec }.compile().unwrap()
    }

    #[test]
    fn no_success_with_files_is_believed_where_the_job_cannot_be_read() {
        let usage = Usage { started_us: 1, wall_us: 1, cpu_us: 1, memory_bytes: 1 };
        let mut part = JobReport::new(JobId(1));
        part.successes = Successes::from_attempts((0..2).map(|n| (n, 0, usage)).collect());
        part.files = vec![left(1, &["res/1.txt"])];
        let wrong = all(&part, "failed to read the kept job 1");
        fail(&mut part, wrong);
        assert_eq!(
            (part.successes.tasks.to_string(), part.failures.len(), part.files.len()),
            ("0".into(), 1, 0)
        );
        let said = part.failures[0].kind.to_string();
        assert!(said.contains("failed to read the kept job 1"), "{said}");
    }

    #[test]
    fn a_success_with_a_file_that_is_not_declared_is_a_failure_and_the_others_stay() {
        let usage = |n| Usage { started_us: 1, wall_us: n, cpu_us: 1, memory_bytes: 1 };
        let mut part = JobReport::new(JobId(1));
        part.successes = Successes::from_attempts((0..4).map(|n| (n, 0, usage(n))).collect());
        part.files = vec![
            left(0, &["res/0.txt"]),
            left(1, &["res/0.txt"]),
            left(2, &["res/2.txt", "../.bashrc"]),
            left(3, &["res/3.txt"]),
        ];
        let wrong = undeclared(&compiled(), JobId(1), &part.files);
        assert_eq!(wrong.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1, 2]);
        fail(&mut part, wrong);
        assert_eq!(part.successes.tasks.to_string(), "0,3");
        assert!(part.is_well_formed());
        assert_eq!(part.successes.wall_us, [0, 3]);
        assert_eq!(part.files.len(), 2);
        let failed: Vec<(u64, u64)> =
            part.failures.iter().map(|failure| (failure.index, failure.usage.wall_us)).collect();
        assert_eq!(failed, [(1, 1), (2, 2)]);
        let said = part.failures[1].kind.to_string();
        assert!(said.contains("\"../.bashrc\", which is none of the job's outputs"), "{said}");
    }

    #[test]
    fn folders_that_are_left_out_under_a_pattern_are_believed() {
        let output = Output { from: "out/*.txt".into(), to: "res/{index}/".into(), ..Output::default() };
        let spec = JobSpec::new(CommandLine::Args(vec!["true".to_owned()]), "/data".into());
        let spec = JobSpec { workdir: WorkDirPolicy::Scratch, outputs: vec![output], ..spec };
        let compiled = spec.compile().unwrap();
        let with = |to: &str, left_out: Option<&str>| {
            let left_out = left_out.map(str::to_owned);
            let file = OutputFile { to: to.to_owned(), left_out, ..OutputFile::default() };
            undeclared(&compiled, JobId(1), &[TaskFiles { index: 1, files: vec![file] }]).len()
        };
        assert_eq!(with("res/1/d", Some("it is a link")), 0);
        assert_eq!(with("res/1/d", None), 1);
        assert_eq!(with("res/0/d", Some("it is a link")), 1);
        assert_eq!(with("../d", Some("it is a link")), 1);
    }

    #[test]
    fn more_files_than_outputs_can_mean_are_refused() {
        let many = vec!["res/0.txt"; N_LEFT_MAX + 1];
        assert!(undeclared(&compiled(), JobId(1), &[left(0, &many[1..])]).is_empty());
        assert_eq!(undeclared(&compiled(), JobId(1), &[left(0, &many)]).len(), 1);
    }
}
