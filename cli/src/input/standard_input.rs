//! Whether the files that tasks read as standard input are on this host. Nodes may have what this host has not.

use protocol::job::{JobSpec, Problem, Sink, Stream};

/// So many tasks of a job are looked at.
const N_TASKS_MAX: u64 = 100;

/// The first file that a task would read and that is not here.
pub fn missing(spec: &JobSpec) -> Option<Problem> {
    let Stream::File(name) = &spec.stdio.stdin else { return None };
    // The job has no number yet.
    if name.contains("{job") {
        return None;
    }
    let job = spec.compile().ok()?;
    let n_tasks = if name.contains('{') { N_TASKS_MAX } else { 1 };
    (0..n_tasks.min(job.n_tasks())).find_map(|index| {
        let Sink::File(path) = job.task(0, index).stdin else { return None };
        let what = match path.metadata() {
            Ok(facts) if facts.is_dir() => "is a folder",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist",
            Ok(_) | Err(_) => return None,
        };
        let found = format!("the file `{}`, which {what}", path.display());
        Some(Problem::new("stdio.stdin", found, "check the path"))
    })
}

#[cfg(test)]
mod tests {
    use protocol::job::{CommandLine, JobSpec, Stream};
    use protocol::sweep::Sweep;

    use super::missing;

    #[test]
    fn the_first_file_that_is_not_here_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "").unwrap();
        let mut spec = JobSpec::new(CommandLine::Args(vec!["cat".to_owned()]), folder.path().to_path_buf());
        spec.sweep = Sweep::from_lists(vec![("x".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
        let mut told = |name: &str| {
            spec.stdio.stdin = Stream::File(name.to_owned());
            let told = missing(&spec).map(|problem| problem.sentence());
            told.map(|told| told.replace(&folder.path().display().to_string(), "HERE"))
        };
        assert_eq!(told("a"), None);
        assert_eq!(told("{x}").as_deref(), Some("file `HERE/b` does not exist"));
        assert_eq!(told(".").as_deref(), Some("file `HERE/.` is a folder"));
        assert_eq!(told("no/{job}"), None);
        spec.stdio.stdin = Stream::Discard;
        assert_eq!(missing(&spec), None);
    }
}
