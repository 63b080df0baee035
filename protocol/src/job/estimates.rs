//! Which parameter says how much more one task takes than another.

use scheduler::estimates::TaskEstimates;

use crate::{
    job::{JobSpec, limits},
    problem::{Problem, nearest, quoted},
    sweep::{Sweep, Value},
};

impl JobSpec {
    /// How much each task is estimated to take, in the unit of whoever wrote it; `None` where nobody says.
    ///
    /// # Errors
    /// What is wrong with what is said.
    pub fn estimates(&self) -> Result<Option<TaskEstimates>, Problem> {
        let Some(name) = &self.estimate else { return Ok(None) };
        let problem = |found: String, expected: &str| Problem::new("estimate", found, expected);
        let Some(place) = self.sweep.names().position(|known| known == name) else {
            return Err(problem(quoted(name), &expected_name(&self.sweep, name)));
        };
        let n_tasks = self.sweep.n_tasks();
        if n_tasks > limits::N_ESTIMATED_TASKS_MAX {
            let expected = format!("at most {} tasks can have estimates", limits::N_ESTIMATED_TASKS_MAX);
            return Err(problem(format!("a job of {n_tasks} tasks"), &expected));
        }
        // All parameters of each of them are worked out.
        let n_values = n_tasks.saturating_mul(self.sweep.columns().count() as u64);
        if self.sweep.sample.is_some() && n_values > limits::N_SAMPLED_VALUES_MAX {
            let expected = format!("samples with estimates have at most {}", limits::N_SAMPLED_VALUES_MAX);
            return Err(problem(format!("{n_values} values of a sample"), &expected));
        }
        let number = |value: Value<'_>| {
            let number = value.number().filter(|number| (0.0..=TaskEstimates::MAX).contains(number));
            number.ok_or_else(|| {
                let found = format!("{} among the values of `{name}`", quoted(&value.to_string()));
                problem(found, "write numbers from 0, in any unit: seconds, bytes, atoms")
            })
        };
        let (every, all) = match self.sweep.sample {
            Some(_) => (
                1,
                (0..n_tasks)
                    .map(|index| number(self.sweep.values(index)[place]))
                    .collect::<Result<Vec<_>, _>>()?,
            ),
            None => self.of_column(place, number)?,
        };
        Ok(TaskEstimates::new(every, all))
    }

    /// How many tasks in a row have the same value of this parameter, and its values.
    fn of_column(
        &self,
        place: usize,
        number: impl Fn(Value<'_>) -> Result<f64, Problem>,
    ) -> Result<(u64, Vec<f64>), Problem> {
        let dimensions = &self.sweep.dimensions;
        let mut columns = dimensions
            .iter()
            .enumerate()
            .flat_map(|(n, dimension)| dimension.columns.iter().map(move |column| (n, dimension, column)));
        let Some((n, dimension, column)) = columns.nth(place) else { return Ok((1, Vec::new())) };
        let every =
            dimensions[n + 1..].iter().fold(1, |product: u64, later| product.saturating_mul(later.len()));
        let values = (0..dimension.len()).map(|position| number(column.values.at(position)));
        Ok((every, values.collect::<Result<_, _>>()?))
    }
}

fn expected_name(sweep: &Sweep, name: &str) -> String {
    match nearest(name, sweep.names()) {
        Some(near) => format!("did you mean the parameter `{near}`?"),
        None if sweep.columns().next().is_none() => {
            "write the name of a parameter; the job has none".to_owned()
        }
        None => {
            let names: Vec<&str> = sweep.names().collect();
            format!("write the name of a parameter: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::{
        job::{CommandLine, JobSpec},
        sweep::{Sample, Sweep},
    };

    fn job(estimate: &str, sizes: &[&str]) -> JobSpec {
        let mut job = JobSpec::new(CommandLine::Shell("x {mode} {size} {seed}".into()), PathBuf::from("/"));
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        job.sweep = Sweep::from_lists(vec![
            ("mode".to_owned(), texts(&["a", "b"])),
            ("size".to_owned(), texts(sizes)),
            ("seed".to_owned(), texts(&["1", "2", "3"])),
        ]);
        job.estimate = Some(estimate.to_owned());
        job
    }

    #[test]
    fn each_task_has_that_of_its_value() {
        let mut job = job("size", &["5", "0.5"]);
        let agrees = |job: &JobSpec| {
            let estimates = job.estimates().unwrap().unwrap();
            (0..job.sweep.n_tasks()).all(|index| {
                let size: f64 = job.sweep.values(index)[1].number().unwrap();
                estimates.millionths(index) == (size * 1e6) as u64
            })
        };
        assert!(agrees(&job));
        job.sweep.sample = Some(Sample { n: 7, seed: 4 });
        assert!(agrees(&job));
        job.estimate = None;
        assert_eq!(job.estimates(), Ok(None));
    }

    #[test]
    fn what_is_no_estimate_is_told() {
        let told = |estimate, sizes: &[&str]| job(estimate, sizes).estimates().unwrap_err().to_string();
        assert_eq!(
            told("size", &["5", "big"]),
            "estimate: found `big` among the values of `size`; write numbers from 0, in any unit: seconds, bytes, atoms"
        );
        assert_eq!(told("sise", &["5"]), "estimate: found `sise`; did you mean the parameter `size`?");
        assert_eq!(
            told("quux", &["5"]),
            "estimate: found `quux`; write the name of a parameter: mode, size, seed"
        );
        assert!(told("size", &["-1"]).contains("found `-1` among"));
    }
}
