//! Flags that say of a job what else its file says, and win over it.

use std::ops::RangeInclusive;

use clap::Args;

use protocol::{
    job::{JobSpec, Problem, Stream, WorkDirPolicy, limits, nearest},
    sweep::{Sweep, Values},
    text::units::{UnitError, parse_bytes, parse_duration_ms},
};

/// Flags for everything that people set without writing a file.
#[derive(Args, Clone, Debug, Default)]
pub struct Overrides {
    /// What the job is called
    #[arg(long, value_name = "NAME", help_heading = "The job")]
    name: Option<String>,
    /// Jobs of higher priority go first among yours; may be below 0 [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority, help_heading = "The job")]
    priority: Option<i32>,
    /// Cancel the rest of the job after more failed tasks than this
    #[arg(long, value_name = "N", help_heading = "The job")]
    max_failures: Option<u64>,
    /// Cores of each task
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = cores, help_heading = "Each task")]
    cores: Option<u32>,
    /// Memory of each task, like 500MB or 2GiB
    #[arg(long, value_name = "SIZE", help_heading = "Each task")]
    memory: Option<String>,
    /// GPUs of each task
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = gpus, help_heading = "Each task")]
    gpus: Option<u32>,
    /// How much of another resource each task needs; may be repeated
    #[arg(long, value_name = "NAME=N", help_heading = "Each task")]
    resource: Vec<String>,
    /// Stop a task after this time, like 10s or 1h 30m; it has then failed
    #[arg(long, value_name = "DURATION", help_heading = "Each task")]
    time_limit: Option<String>,
    /// How often a task whose program fails is run again
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = retries, help_heading = "Each task")]
    retries: Option<u32>,
    /// A variable of each task's environment; the value may contain {…}; may be repeated
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Each task")]
    env: Vec<String>,
    /// Where tasks run: submit (here, or the job file's folder), scratch, or a folder like runs/{index}
    #[arg(long, value_name = "FOLDER", help_heading = "Each task")]
    workdir: Option<String>,
    /// Standard output: archive (read it with `pilotfish logs`), discard, or a file like out/{index}.txt
    #[arg(long, value_name = "FILE", help_heading = "Each task")]
    stdout: Option<String>,
    /// Standard error, likewise
    #[arg(long, value_name = "FILE", help_heading = "Each task")]
    stderr: Option<String>,
    /// Standard input: discard, or a file
    #[arg(long, value_name = "FILE", help_heading = "Each task")]
    stdin: Option<String>,
}

fn priority(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| format!("write a whole number from {} to {}", i32::MIN, i32::MAX))
}

/// Cores of a task or of a pilot, within the limit of a job.
///
/// # Errors
/// What to write instead.
pub fn cores(text: &str) -> Result<u32, String> {
    within(text, 1..=limits::CORES_MAX)
}

fn gpus(text: &str) -> Result<u32, String> {
    within(text, 0..=limits::GPUS_MAX)
}

fn retries(text: &str) -> Result<u32, String> {
    within(text, 0..=limits::RETRIES_MAX)
}

/// A number of this range. Every other text is refused in the same words.
fn within(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("write a whole number from {} to {}", range.start(), range.end()))
}

impl Overrides {
    /// Puts what was given into the job; says what is wrong with it.
    pub fn apply(&self, spec: &mut JobSpec) -> Vec<Problem> {
        self.apply_plain(spec);
        let mut problems = Vec::new();
        if let Some(bytes) = measured("--memory", self.memory.as_deref(), parse_bytes, &mut problems) {
            spec.memory_bytes = bytes;
        }
        let time_limit = self.time_limit.as_deref();
        if let Some(ms) = measured("--time-limit", time_limit, parse_duration_ms, &mut problems) {
            spec.time_limit_ms = Some(ms);
        }
        for text in &self.resource {
            let amount = pair(text).and_then(|(name, amount)| Some((name, amount.parse().ok()?)));
            match amount {
                Some((name @ ("cores" | "memory" | "gpus"), _)) => problems.push(Problem::new(
                    "--resource",
                    format!("`{text}`, which has a flag of its own"),
                    format!("write --{name}"),
                )),
                Some((name, amount)) => drop(spec.generic.insert(name.to_owned(), amount)),
                None => problems.push(Problem::new(
                    "--resource",
                    format!("`{text}`"),
                    "write NAME=N, like licence=1",
                )),
            }
        }
        for text in &self.env {
            match pair(text) {
                Some((name, value)) => drop(spec.env.insert(name.to_owned(), value.to_owned())),
                None => problems.push(Problem::new("--env", format!("`{text}`"), "write NAME=VALUE")),
            }
        }
        problems
    }

    /// The flag that was given for this field of a job.
    pub fn flag_of(&self, field: &str) -> Option<String> {
        let names = |given: &[String], name: &str| {
            given.iter().any(|text| pair(text).is_some_and(|(given, _)| given == name))
        };
        if let Some(name) = field.strip_prefix("resources.generic.") {
            return names(&self.resource, name).then(|| format!("--resource {name}"));
        }
        if let Some(name) = field.strip_prefix("env.") {
            return names(&self.env, name).then(|| format!("--env {name}"));
        }
        let (flag, is_given) = match field {
            "name" => ("--name", self.name.is_some()),
            "priority" => ("--priority", self.priority.is_some()),
            "max_failures" => ("--max-failures", self.max_failures.is_some()),
            "resources.cores" => ("--cores", self.cores.is_some()),
            "resources.memory" => ("--memory", self.memory.is_some()),
            "resources.gpus" => ("--gpus", self.gpus.is_some()),
            "time_limit" => ("--time-limit", self.time_limit.is_some()),
            "retries" => ("--retries", self.retries.is_some()),
            "workdir" | "workdir.path" => ("--workdir", self.workdir.is_some()),
            "stdio.stdout" => ("--stdout", self.stdout.is_some()),
            "stdio.stderr" => ("--stderr", self.stderr.is_some()),
            "stdio.stdin" => ("--stdin", self.stdin.is_some()),
            _ => return None,
        };
        is_given.then(|| flag.to_owned())
    }

    /// `{}` and its like stand in commands only: in a flag they would be taken for plain text.
    pub fn refuse_replacement_strings(&self, first_parameter: Option<&str>) -> Vec<Problem> {
        let name = first_parameter.unwrap_or("1");
        let texts = [
            ("--workdir", self.workdir.as_deref()),
            ("--stdin", self.stdin.as_deref()),
            ("--stdout", self.stdout.as_deref()),
            ("--stderr", self.stderr.as_deref()),
        ];
        let env = self.env.iter().map(|given| ("--env", Some(given.as_str())));
        let is_replaced =
            |text: &str| ["{}", "{.}", "{/}", "{//}", "{/.}", "{#}"].iter().any(|r| text.contains(r));
        let refused = |(flag, text): (&str, Option<&str>)| {
            let text = text.filter(|text| is_replaced(text))?;
            let expected = format!("in flags name the parameter: {{{name}}}, {{{name}.stem}} or {{index}}");
            Some(Problem::new(flag, format!("`{text}`"), &expected))
        };
        texts.into_iter().chain(env).filter_map(refused).collect()
    }

    fn apply_plain(&self, spec: &mut JobSpec) {
        if let Some(name) = &self.name {
            spec.name.clone_from(name);
        }
        spec.priority = self.priority.unwrap_or(spec.priority);
        spec.max_failures = self.max_failures.or(spec.max_failures);
        spec.cores = self.cores.unwrap_or(spec.cores);
        spec.gpus = self.gpus.unwrap_or(spec.gpus);
        spec.retries.count = self.retries.unwrap_or(spec.retries.count);
        if let Some(workdir) = &self.workdir {
            spec.workdir = match workdir.as_str() {
                "submit" | "." => WorkDirPolicy::Submit,
                "scratch" => WorkDirPolicy::Scratch,
                path => WorkDirPolicy::Path(path.to_owned()),
            };
        }
        let streams = [
            (&self.stdout, &mut spec.stdio.stdout),
            (&self.stderr, &mut spec.stdio.stderr),
            (&self.stdin, &mut spec.stdio.stdin),
        ];
        for (given, stream) in streams {
            match given.as_deref() {
                None => {}
                Some("archive") => *stream = Stream::Archive,
                Some("discard" | "none" | "/dev/null") => *stream = Stream::Discard,
                Some(path) => *stream = Stream::File(path.to_owned()),
            }
        }
    }
}

/// `--set PARAMETER=VALUE`
pub struct SetArg;

impl SetArg {
    /// Gives each named parameter the values set for it, instead of its own.
    pub fn apply_all(given: &[String], sweep: &mut Sweep) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut values: Vec<(&str, Vec<String>)> = Vec::new();
        for text in given {
            match pair(text) {
                None => problems.push(Problem::new("--set", format!("`{text}`"), "write PARAMETER=VALUE")),
                Some((name, value)) => match values.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, list)) => list.push(value.to_owned()),
                    None => values.push((name, vec![value.to_owned()])),
                },
            }
        }
        for (name, values) in values {
            problems.extend(set(name, values, sweep).err());
        }
        if let Some(sample) = &mut sweep.sample {
            // Fewer combinations are left than the sample was to draw.
            let dimensions = sweep.dimensions.clone();
            let n_left = Sweep { dimensions, sample: None }.n_tasks();
            sample.n = sample.n.min(n_left);
        }
        problems
    }
}

fn set(name: &str, values: Vec<String>, sweep: &mut Sweep) -> Result<(), Problem> {
    let names: Vec<String> = sweep.names().map(str::to_owned).collect();
    let has_it = |column: &protocol::sweep::Column| column.name == name;
    let Some(dimension) = sweep.dimensions.iter_mut().find(|dimension| dimension.columns.iter().any(has_it))
    else {
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "the job has no parameters".to_owned(),
            None => format!("known are {}", names.join(", ")),
        };
        return Err(Problem::new("--set", format!("unknown parameter `{name}`"), hint));
    };
    match &mut dimension.columns[..] {
        [only] => {
            only.values = Values::Texts(values.into());
            Ok(())
        }
        several => {
            let others: Vec<&str> = several.iter().filter(|c| !has_it(c)).map(|c| c.name.as_str()).collect();
            Err(Problem::new(
                "--set",
                format!("`{name}`, which advances together with {}", others.join(", ")),
                "only parameters on their own can be set; edit the job file",
            ))
        }
    }
}

/// `NAME=VALUE`
fn pair(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

fn measured(
    flag: &str,
    text: Option<&str>,
    parse: fn(&str) -> Result<u64, UnitError>,
    problems: &mut Vec<Problem>,
) -> Option<u64> {
    let text = text?;
    match parse(text) {
        Ok(amount) => Some(amount),
        Err(error) => {
            problems.push(Problem::new(flag, format!("`{text}`"), error.to_string()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use protocol::{
        job::{CommandLine, JobSpec, Stream, WorkDirPolicy},
        sweep::{Column, Dimension, Sample, Sweep, Values},
    };

    use super::{Overrides, SetArg};

    fn job() -> JobSpec {
        JobSpec::new(CommandLine::Args(vec!["sim".to_owned()]), PathBuf::from("/w"))
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|value| (*value).to_owned()).collect()
    }

    #[test]
    fn flags_win_over_the_file_and_leave_the_rest() {
        let mut spec = job();
        spec.cores = 4;
        spec.priority = 7;
        let flags = Overrides {
            cores: Some(2),
            memory: Some("2GiB".to_owned()),
            time_limit: Some("90s".to_owned()),
            resource: texts(&["licence=3"]),
            env: texts(&["A=b=c"]),
            workdir: Some("scratch".to_owned()),
            stdout: Some("out/{index}".to_owned()),
            ..Overrides::default()
        };
        assert_eq!(flags.apply(&mut spec), []);
        assert_eq!((spec.cores, spec.priority, spec.memory_bytes), (2, 7, 2 << 30));
        assert_eq!(
            (spec.time_limit_ms, spec.generic["licence"], spec.env["A"].as_str()),
            (Some(90_000), 3, "b=c")
        );
        assert_eq!(
            (spec.workdir, spec.stdio.stdout),
            (WorkDirPolicy::Scratch, Stream::File("out/{index}".to_owned()))
        );
        assert_eq!(spec.stdio.stderr, Stream::Archive);
    }

    #[test]
    fn every_mistake_in_a_flag_is_said() {
        let flags = Overrides {
            memory: Some("2".to_owned()),
            time_limit: Some("soon".to_owned()),
            resource: texts(&["licence", "cores=2"]),
            env: texts(&["=x"]),
            ..Overrides::default()
        };
        let problems: Vec<String> = flags.apply(&mut job()).iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "--memory: found `2`; give it a unit, like 2MiB or 2GiB",
                "--time-limit: found `soon`; write a duration like 10s, 1h 30m, 500ms or 00:10:00",
                "--resource: found `licence`; write NAME=N, like licence=1",
                "--resource: `cores=2` has a flag of its own; write --cores",
                "--env: found `=x`; write NAME=VALUE",
            ]
        );
    }

    fn sweep() -> Sweep {
        let column =
            |name: &str| Column { name: name.to_owned(), values: Values::Texts(texts(&["1", "2"]).into()) };
        let dimensions = vec![
            Dimension { columns: vec![column("seed")] },
            Dimension { columns: vec![column("x"), column("y")] },
        ];
        Sweep { dimensions, sample: Some(Sample { n: 4, seed: 0 }) }
    }

    #[test]
    fn a_parameter_takes_the_values_that_are_set() {
        let mut sweep = sweep();
        assert_eq!(SetArg::apply_all(&texts(&["seed=7"]), &mut sweep), []);
        assert_eq!((sweep.n_tasks(), sweep.values(0)[0].to_string().as_str()), (2, "7"));
        assert_eq!(SetArg::apply_all(&texts(&["seed=7", "seed=8", "seed=9"]), &mut sweep), []);
        assert_eq!(sweep.dimensions[0].len(), 3);
    }

    #[test]
    fn parameters_that_cannot_be_set_are_named() {
        let said = |given: &str| SetArg::apply_all(&texts(&[given]), &mut sweep())[0].to_string();
        assert_eq!(said("sead=1"), "--set: found unknown parameter `sead`; did you mean `seed`?");
        assert_eq!(said("charge=1"), "--set: found unknown parameter `charge`; known are seed, x, y");
        assert_eq!(
            said("x=1"),
            "--set: `x` advances together with y; only parameters on their own can be set; edit the job file"
        );
        assert_eq!(said("x"), "--set: found `x`; write PARAMETER=VALUE");
    }
}
