//! A job before it runs: what it is, and its first tasks as they would run.

use std::ops::Range;

use serde::Serialize;

use protocol::{
    job::{Compiled, JobSpec, TaskCommand, WorkDir},
    sweep::{IntegerRange, Values},
    text::units::show_duration,
};

use crate::{
    show::{
        Screen,
        facts::Facts,
        format::{bytes, count, counted},
        quote,
    },
    staging,
};

/// The job's number in previews: it has none yet.
const JOB_ID: u64 = 0;
/// So many variables that are as here are shown before a command.
const N_AS_HERE_SHOWN: usize = 5;

/// A preview for programs.
#[derive(Serialize)]
pub struct Preview {
    n_tasks: u64,
    spec: JobSpec,
    tasks: Vec<PreviewTask>,
}

#[derive(Serialize)]
struct PreviewTask {
    index: u64,
    #[serde(flatten)]
    command: TaskCommand,
}

/// The job with these of its tasks, for programs.
pub fn json(job: &Compiled, indices: Range<u64>) -> Preview {
    let tasks = indices.map(|index| PreviewTask { index, command: job.task(JOB_ID, index) });
    Preview { n_tasks: job.n_tasks(), spec: job.spec().clone(), tasks: tasks.collect() }
}

/// The job with these of its tasks, for people.
pub fn text(job: &Compiled, indices: Range<u64>, screen: &Screen) -> String {
    let spec = job.spec();
    let mut facts = Facts::default();
    facts.add("job", format!("{} (application {})", spec.name, spec.application));
    facts.add("tasks", count(job.n_tasks()));
    if let Some(sample) = spec.sweep.sample {
        let n_all = spec.sweep.n_combinations().map_or_else(|| "more".to_owned(), count);
        facts.add("sample", format!("of {n_all} combinations, drawn with seed {}", sample.seed));
    }
    for column in spec.sweep.columns() {
        facts.add(format!("  {}", column.name), values_text(&column.values));
    }
    facts.add("each task", needs_text(spec));
    // A job that is wrong has been refused before it is shown.
    if let Ok(Some((n_files @ 1.., n_bytes))) = staging::needs(spec) {
        facts.add("brings", format!("{} from here, {}", counted(n_files, "file"), bytes(n_bytes)));
    }
    for output in &spec.outputs {
        facts.add("leaves", format!("{} → {}", output.from, output.to));
    }
    let mut n_as_here = 0;
    let mut tasks = Vec::new();
    for index in indices.clone() {
        let mut task = job.task(JOB_ID, index);
        n_as_here = n_as_here.max(leave_out_what_is_as_here(&mut task, |name| std::env::var(name).ok()));
        tasks.push((format!("task {index}"), task_text(&task)));
    }
    if n_as_here > 0 {
        let n_as_here = counted(n_as_here, "variable");
        facts.add("environment", format!("{n_as_here} as here; --json shows them"));
    }
    for (name, text) in tasks {
        facts.add(name, text);
    }
    if indices.start == 0 && indices.end < job.n_tasks() {
        facts.add("…", format!("and {} more", count(job.n_tasks() - indices.end)));
    }
    facts.render(screen)
}

/// The command of a job's first task, as it would run; of a job that is wrong none.
pub fn first_command(spec: &JobSpec) -> Option<String> {
    let job = spec.compile().ok().filter(|job| job.n_tasks() > 0)?;
    Some(quote::command_line(&job.task(JOB_ID, 0).argv))
}

/// `3 values: a, b, c`, `1 to 1000 (1,000 values)`
fn values_text(values: &Values) -> String {
    let n_values = counted(values.len(), "value");
    match values {
        Values::Texts(texts) => {
            let shown: Vec<String> = texts.iter().take(3).map(apart).collect();
            let more = if texts.len() > shown.len() { ", …" } else { "" };
            format!("{n_values}: {}{more}", shown.join(", "))
        }
        Values::Integers(ranges) => {
            let shown: Vec<String> = ranges.iter().take(3).map(range_text).collect();
            let more = if ranges.len() > shown.len() { ", …" } else { "" };
            format!("{n_values}: {}{more}", shown.join(", "))
        }
        // As tasks get them, with their points.
        Values::Linspace { n, .. } => {
            let (first, last) = (values.at(0), values.at(n.saturating_sub(1)));
            format!("{n_values}: {first} to {last}, equally spaced")
        }
    }
}

/// A value as it is quoted, also where it would not be told from the next one in a list.
fn apart(text: &str) -> String {
    match quote::quoted(text) {
        shown if shown == text && text.contains(',') => format!("'{text}'"),
        shown => shown,
    }
}

fn range_text(range: &IntegerRange) -> String {
    let last = range.at(range.n.saturating_sub(1));
    match (range.n, range.step) {
        (1, _) => range.from.to_string(),
        (_, 1) => format!("{} to {last}", range.from),
        (_, step) => format!("{} to {last} by {step}", range.from),
    }
}

/// `2 cores, 2 GiB of memory, stopped after 10m, 2 retries`
fn needs_text(spec: &JobSpec) -> String {
    let mut parts = vec![counted(spec.cores.into(), "core")];
    if spec.memory_bytes > 0 {
        parts.push(format!("{} of memory", bytes(spec.memory_bytes)));
    }
    if spec.gpus > 0 {
        parts.push(counted(spec.gpus.into(), "GPU"));
    }
    parts.extend(spec.generic.iter().map(|(name, amount)| format!("{amount} {name}")));
    if let Some(limit) = spec.time_limit_ms {
        parts.push(format!("stopped after {}", show_duration(limit)));
    }
    match spec.retries.count {
        0 => {}
        1 => parts.push("1 retry".to_owned()),
        n => parts.push(format!("{n} retries")),
    }
    parts.join(", ")
}

/// A whole environment that the task takes along would hide its command: takes those variables away whose value is that
/// of here, and says how many they were. A few may stay.
fn leave_out_what_is_as_here(task: &mut TaskCommand, here: impl Fn(&str) -> Option<String>) -> u64 {
    let is_as_here = |(name, value): &(String, String)| here(name).as_ref() == Some(value);
    let n_as_here = task.env.iter().filter(|entry| is_as_here(entry)).count();
    if n_as_here <= N_AS_HERE_SHOWN {
        return 0;
    }
    task.env.retain(|entry| !is_as_here(entry));
    n_as_here as u64
}

fn task_text(task: &TaskCommand) -> String {
    let env: Vec<String> =
        task.env.iter().map(|(name, value)| format!("{name}={} ", quote::quoted(value))).collect();
    let place = match &task.workdir {
        WorkDir::Submit(folder) | WorkDir::Path(folder) => format!("in {}", folder.display()),
        WorkDir::Scratch => "in a temporary folder of its own".to_owned(),
    };
    format!("{}{}\n{place}", env.concat(), quote::command_line(&task.argv))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use protocol::{
        job::{CommandLine, JobSpec},
        sweep::{Values, parse_array},
    };

    use super::{N_AS_HERE_SHOWN, leave_out_what_is_as_here, text, values_text};
    use crate::show::Screen;

    #[test]
    fn values_with_commas_are_told_from_two_values() {
        let values = Values::Texts(vec!["1,5".to_owned(), "3".to_owned(), "a b".to_owned()].into());
        assert_eq!(values_text(&values), "3 values: '1,5', 3, 'a b'");
    }

    #[test]
    fn a_whole_environment_does_not_hide_the_command() {
        let shown = |n: usize| {
            let mut spec = JobSpec::new(CommandLine::Args(vec!["sim".to_owned()]), PathBuf::from("/w"));
            spec.env = (0..n).map(|n| (format!("V{n}"), "same".to_owned())).collect();
            spec.env.insert("MINE".to_owned(), "other".to_owned());
            let mut task = spec.compile().unwrap().task(0, 0);
            let value = |name: &str| if name == "MINE" { "mine" } else { "same" };
            let here = |name: &str| Some(value(name).to_owned());
            let n_as_here = leave_out_what_is_as_here(&mut task, here);
            (n_as_here, task.env.len())
        };
        assert_eq!(shown(N_AS_HERE_SHOWN), (0, N_AS_HERE_SHOWN + 1));
        assert_eq!(shown(40), (40, 1));
    }

    #[test]
    fn a_billion_tasks_are_shown_by_the_first() {
        let command = ["sim", "--seed={seed}"].map(str::to_owned).to_vec();
        let mut spec = JobSpec::new(CommandLine::Args(command), PathBuf::from("/w"));
        spec.sweep.dimensions = vec![parse_array("seed", "1-1000000000").unwrap()];
        spec.retries.count = 2;
        spec.env.insert("A".to_owned(), "x y".to_owned());
        let expected = "\
job        sim (application sim)
tasks      1,000,000,000
  seed     1,000,000,000 values: 1 to 1000000000
each task  1 core, 2 retries
task 0     A='x y' sim --seed=1
           in /w
…          and 999,999,999 more
";
        assert_eq!(text(&spec.compile().unwrap(), 0..1, &Screen::default()), expected);
    }
}
