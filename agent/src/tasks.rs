//! From a job's template to the launch of one of its tasks: command, environment, folder, limits.

use std::{
    collections::HashMap,
    ffi::{CString, OsStr, OsString},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use protocol::job::{
    Compiled, JobSpec, Keep, Problem, Sink, TaskCommand, TaskInput, TaskOutputFile, WorkDir,
};
use scheduler::{
    ids::{JobId, PilotId},
    pull::Template,
    resources::Resources,
    results::FailureKind,
    time::Span,
};

use crate::{
    guard::{keeper, leftovers, scratch::Scratch},
    node::{gpus, ranks, slots::Place},
    resident::Question,
    spawn::{Ask, Environment, Launch, Output},
};

/// The part of a launch that is the same for all tasks of this pilot.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The agent's own environment.
    pub inherited: Vec<(OsString, OsString)>,
    /// The pilot's id.
    pub pilot: PilotId,
    /// The name of the pilot's platform; empty if the manager does not send it.
    pub platform: String,
    /// The time between SIGTERM and SIGKILL for a task.
    pub grace: Duration,
    /// The mark by which descendants of tasks are found after pilot and guard were killed:
    /// [`crate::guard::leftovers::mark`].
    pub mark: Option<CString>,
}

impl Surroundings {
    /// Returns the surroundings of tasks of this process.
    pub fn of_this_process((pilot, platform): (PilotId, &str), grace: Duration) -> Surroundings {
        let mark = leftovers::mark(keeper::living_guard());
        Surroundings {
            inherited: std::env::vars_os().collect(),
            pilot,
            platform: platform.to_owned(),
            grace,
            mark,
        }
    }
}

/// A job whose template the pilot has.
pub struct LearnedJob {
    job: JobId,
    compiled: Result<Compiled, String>,
    shared: Arc<Vec<CString>>,
    resources: Resources,
    time_limit: Option<Span>,
    grace: Duration,
    /// Whether the number of MPI processes is a parameter.
    has_ranks_of_tasks: bool,
    /// The resident program of each slot and its scratch folder, for a resident job.
    residents: HashMap<usize, Resident>,
}

struct Resident {
    number: u64,
    launch: Arc<Launch>,
    scratch: Option<PathBuf>,
}

/// An order for the spawner.
pub enum Work {
    /// A process of its own.
    Launch(Box<Launch>),
    /// A line for a resident program.
    Ask(Box<Ask>),
}

/// One attempt of a task.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// The task's index.
    pub index: u64,
    /// The attempt's number, from 1.
    pub number: u32,
    /// The driver's id of the attempt.
    pub token: u64,
}

/// A task that is about to start.
pub struct Begun {
    /// The order for the spawner.
    pub work: Work,
    /// The task's scratch folder, which is removed afterwards.
    pub scratch: Option<PathBuf>,
}

/// The streams of a task that are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptOutput {
    /// Whether standard output is reported.
    pub stdout: bool,
    /// Whether standard error is reported.
    pub stderr: bool,
}

impl LearnedJob {
    /// Reads a template. If it cannot be read, its tasks fail, not the pilot.
    pub fn new(template: &Template, surroundings: &Surroundings) -> LearnedJob {
        let spec = serde_json::from_str::<JobSpec>(&template.spec).map_err(|error| error.to_string());
        let compiled = spec.and_then(|spec| {
            spec.compile()
                .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        });
        let shared = match &compiled {
            Ok(compiled) => shared_environment(template.job, compiled.spec(), surroundings),
            Err(_) => Vec::new(),
        };
        let says_threads = |entry: &CString| entry.to_bytes().starts_with(b"OMP_NUM_THREADS=");
        let has_ranks_of_tasks = compiled.as_ref().is_ok_and(|compiled| {
            !compiled.spec().env.contains_key("OMP_NUM_THREADS") && !shared.iter().any(says_threads)
        });
        LearnedJob {
            job: template.job,
            has_ranks_of_tasks,
            compiled: compiled.map_err(|what| format!("this agent cannot read the job: {what}")),
            shared: Arc::new(shared),
            resources: template.needs.resources.clone(),
            time_limit: template.needs.time_limit,
            grace: surroundings.grace,
            residents: HashMap::new(),
        }
    }

    /// Returns the resources that one of its tasks needs.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Returns the time limit of its tasks.
    pub fn time_limit(&self) -> Option<Span> {
        self.time_limit
    }

    /// Returns a task's input files.
    ///
    /// # Errors
    /// The template cannot be read, or names a file outside of the task's folder.
    pub fn inputs(&self, index: u64) -> Result<Vec<TaskInput>, FailureKind> {
        self.files(|compiled| compiled.inputs(self.job.0, index))
    }

    /// Returns whether its tasks take output files of other tasks, which the manager lists.
    pub fn takes(&self) -> bool {
        self.compiled.as_ref().is_ok_and(Compiled::takes)
    }

    /// Returns the job's random number: [`JobSpec::drawn`].
    pub fn drawn(&self) -> u64 {
        self.compiled.as_ref().map_or(0, |compiled| compiled.spec().drawn)
    }

    /// Returns whether other tasks take the output files of its tasks.
    pub fn is_taken(&self) -> bool {
        self.compiled.as_ref().is_ok_and(|compiled| compiled.spec().is_taken)
    }

    /// Returns a task's output files.
    ///
    /// # Errors
    /// As for [`LearnedJob::inputs`].
    pub fn outputs(&self, index: u64) -> Result<Vec<TaskOutputFile>, FailureKind> {
        self.files(|compiled| compiled.outputs(self.job.0, index))
    }

    fn files<T>(&self, of: impl Fn(&Compiled) -> Result<T, Problem>) -> Result<T, FailureKind> {
        let compiled = self.compiled.as_ref().map_err(|what| FailureKind::Start { what: what.clone() })?;
        of(compiled).map_err(|problem| FailureKind::Start { what: problem.to_string() })
    }

    /// Prepares a task. `prepared`: the folder with the task's input files, if it has any.
    ///
    /// # Errors
    /// The template cannot be read, or no scratch folder can be created.
    pub fn begin(
        &mut self,
        attempt: Attempt,
        place: &Place,
        scratch: &Scratch,
        prepared: Option<PathBuf>,
    ) -> Result<Begun, FailureKind> {
        let Attempt { index, number, token } = attempt;
        let compiled = self.compiled.as_ref().map_err(|what| FailureKind::Start { what: what.clone() })?;
        let command = compiled.task(self.job.0, index);
        if compiled.spec().resident {
            let work = self.ask(index, token, place, scratch, command)?;
            return Ok(Begun { work, scratch: None });
        }
        let folder = match prepared {
            Some(path) => Folder { path: path.clone(), is_made: false, scratch: Some(path) },
            None => folder(&command.workdir, &format!("{}.{index}.{token}", self.job), scratch)?,
        };
        let mut launch = self.launch(token, command, &folder, place, compiled.spec());
        launch.environment.own.push(variable("PILOTFISH_TASK_INDEX", &index.to_string()));
        launch.environment.own.push(variable("PILOTFISH_TASK_ID", &format!("{}.{index}", self.job)));
        launch.environment.own.push(variable("PILOTFISH_ATTEMPT", &number.to_string()));
        Ok(Begun { work: Work::Launch(Box::new(launch)), scratch: folder.scratch })
    }

    /// Returns whether an exit code counts as success.
    pub fn is_success(&self, code: i32) -> bool {
        self.compiled.as_ref().is_ok_and(|compiled| compiled.spec().success_codes.contains(&code))
    }

    /// Returns the streams of a task that are to be reported.
    pub fn kept_output(&self, outcome_code: Option<i32>) -> KeptOutput {
        let Ok(compiled) = &self.compiled else { return KeptOutput { stdout: true, stderr: true } };
        let spec = compiled.spec();
        let is_success = outcome_code.is_some_and(|code| spec.success_codes.contains(&code));
        let is_kept = match spec.results.keep {
            Keep::All => true,
            Keep::Failed => !is_success,
            Keep::None => false,
        };
        // The manager extracts columns from standard output, also for failures.
        KeptOutput { stdout: is_kept || !spec.results.extract.is_empty(), stderr: is_kept }
    }

    /// Returns the ids of its resident programs, with the folders to remove once they have ended.
    pub fn into_residents(self) -> Vec<(u64, Option<PathBuf>)> {
        self.residents.into_values().map(|resident| (resident.number, resident.scratch)).collect()
    }

    fn ask(
        &mut self,
        index: u64,
        token: u64,
        place: &Place,
        scratch: &Scratch,
        command: TaskCommand,
    ) -> Result<Work, FailureKind> {
        let parameters = command.parameters.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        let question = Question { job: self.job.0, index, parameters: parameters.collect() };
        let question = serde_json::to_string(&question)
            .map_err(|error| FailureKind::Start { what: format!("parameters as JSON: {error}") })?;
        if !self.residents.contains_key(&place.slot) {
            let compiled =
                self.compiled.as_ref().map_err(|what| FailureKind::Start { what: what.clone() })?;
            let folder = folder(&command.workdir, &format!("{}.resident.{token}", self.job), scratch)?;
            let launch = Arc::new(self.launch(token, command, &folder, place, compiled.spec()));
            let resident = Resident { number: token, launch, scratch: folder.scratch };
            self.residents.insert(place.slot, resident);
        }
        let resident = &self.residents[&place.slot];
        Ok(Work::Ask(Box::new(Ask {
            token,
            resident: resident.number,
            launch: Arc::clone(&resident.launch),
            question,
            time_limit: self.time_limit.map(|limit| Duration::from_micros(limit.0)),
        })))
    }

    fn launch(
        &self,
        token: u64,
        command: TaskCommand,
        folder: &Folder,
        place: &Place,
        spec: &JobSpec,
    ) -> Launch {
        let limit = usize::try_from(spec.results.limit_bytes).unwrap_or(usize::MAX);
        let is_unwanted = spec.results.keep == Keep::None;
        let output = |sink: Sink, is_read: bool| match sink {
            Sink::Archive if is_unwanted && !is_read => Output::Discard,
            Sink::Archive => Output::Archive { limit },
            Sink::Discard => Output::Discard,
            Sink::File(path) => Output::File(path),
        };
        let mut own: Vec<CString> = command.env.iter().map(|(name, value)| variable(name, value)).collect();
        own.push(variable("PILOTFISH_SLOT", &place.slot.to_string()));
        own.extend(place.shown.iter().map(|(name, value)| variable(name, value)));
        if self.has_ranks_of_tasks {
            own.push(n_threads(spec.cores, ranks::of_task(&command.argv, spec.cores)));
        }
        Launch {
            token,
            slot: place.slot,
            argv: command.argv,
            environment: Environment { shared: Arc::clone(&self.shared), own },
            cwd: Some(folder.path.clone()),
            makes_cwd: folder.is_made,
            stdin: match command.stdin {
                Sink::File(path) => Some(path),
                Sink::Archive | Sink::Discard => None,
            },
            stdout: output(command.stdout, !spec.results.extract.is_empty()),
            stderr: output(command.stderr, false),
            time_limit: self.time_limit.map(|limit| Duration::from_micros(limit.0)),
            memory_limit_bytes: self.resources.memory_bytes,
            cpus: place.cpus.clone(),
            grace: self.grace,
        }
    }
}

struct Folder {
    path: PathBuf,
    is_made: bool,
    scratch: Option<PathBuf>,
}

fn folder(workdir: &WorkDir, name: &str, scratch: &Scratch) -> Result<Folder, FailureKind> {
    match workdir {
        WorkDir::Submit(path) => Ok(Folder { path: path.clone(), is_made: false, scratch: None }),
        WorkDir::Path(path) => Ok(Folder { path: path.clone(), is_made: true, scratch: None }),
        WorkDir::Scratch => {
            let path = scratch
                .make(name)
                .map_err(|error| FailureKind::Node { what: format!("scratch folder: {error}") })?;
            Ok(Folder { path: path.clone(), is_made: false, scratch: Some(path) })
        }
    }
}

/// Returns the environment that all tasks of a job share: our variables and inherited ones, except those that
/// a task sets itself.
fn shared_environment(job: JobId, spec: &JobSpec, surroundings: &Surroundings) -> Vec<CString> {
    let cores = spec.cores.to_string();
    let base = spec.base_dir.to_string_lossy();
    let mut entries = vec![
        variable("PILOTFISH_JOB_ID", &job.to_string()),
        variable("PILOTFISH_SUBMIT_DIR", &base),
        variable("PILOTFISH_CORES", &cores),
        variable("PILOTFISH_PILOT_ID", &surroundings.pilot.to_string()),
    ];
    entries.extend(surroundings.mark.clone());
    if !surroundings.platform.is_empty() {
        entries.push(variable("PILOTFISH_PLATFORM", &surroundings.platform));
    }
    if !spec.env.contains_key("OMP_NUM_THREADS")
        && let Some(n_ranks) = ranks::of_job(&spec.command, spec.cores, &spec.base_dir)
    {
        entries.push(n_threads(spec.cores, n_ranks));
    }
    let is_free = |name: &OsStr| {
        let name = name.to_string_lossy();
        let is_ours = name.starts_with("PILOTFISH_")
            || name == "OMP_NUM_THREADS"
            || (spec.gpus > 0 && gpus::VARIABLES.contains(&name.as_ref()));
        !is_ours && !spec.env.contains_key(name.as_ref())
    };
    for (name, value) in surroundings.inherited.iter().filter(|(name, _)| is_free(name)) {
        let mut entry = name.clone();
        entry.push("=");
        entry.push(value);
        // Entries of an environment contain no NUL.
        entries.extend(CString::new(entry.into_encoded_bytes()));
    }
    entries
}

/// Returns the variable with the number of threads of each process of a task.
fn n_threads(n_cores: u32, n_ranks: u32) -> CString {
    variable("OMP_NUM_THREADS", &(n_cores / n_ranks.max(1)).max(1).to_string())
}

/// Returns `NAME=value`; a NUL, which no environment can contain, ends the value.
fn variable(name: &str, value: &str) -> CString {
    let text = format!("{name}={value}");
    let until_nul: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(until_nul).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use protocol::{
        job::{CommandLine, Extract, JobSpec, Keep, WorkDirPolicy},
        sweep::Sweep,
    };
    use scheduler::{
        ids::{JobId, PilotId},
        pull::{TaskNeeds, Template},
        resources::Resources,
        results::FailureKind,
        time::Span,
    };

    use super::{Attempt, KeptOutput, LearnedJob, Surroundings, Work};
    use crate::{
        guard::scratch::Scratch,
        node::slots::Place,
        spawn::{Launch, Output},
    };

    fn spec() -> JobSpec {
        JobSpec::new(CommandLine::Args(vec!["echo".into(), "{index}".into()]), "/home/ada".into())
    }

    fn learned(spec: &str) -> LearnedJob {
        let surroundings = Surroundings {
            inherited: [
                ("PATH", "/bin"),
                ("OMP_NUM_THREADS", "64"),
                ("PILOTFISH_TOKEN", "secret"),
                ("A", "old"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .to_vec(),
            pilot: PilotId(4),
            platform: "cluster".into(),
            grace: std::time::Duration::from_secs(5),
            mark: Some(c"PILOTFISH_KEEPERS=here".into()),
        };
        let resources = Resources { cores: 2, memory_bytes: 100, ..Resources::default() };
        let needs = TaskNeeds {
            resources,
            time_limit: Some(Span::from_secs(7)),
            success_codes: vec![0],
            ..TaskNeeds::default()
        };
        LearnedJob::new(&Template { job: JobId(3), needs, spec: spec.into() }, &surroundings)
    }

    fn launched(job: &mut LearnedJob, scratch: &Scratch) -> Launch {
        let place = Place {
            slot: 1,
            cpus: vec![5],
            gpus: vec![0, 2],
            shown: vec![("CUDA_VISIBLE_DEVICES", "0,2".into())],
        };
        match job.begin(Attempt { index: 8, number: 3, token: 99 }, &place, scratch, None).unwrap().work {
            Work::Launch(launch) => *launch,
            Work::Ask(_) => panic!("not resident"),
        }
    }

    fn with_scratch(check: impl FnOnce(&Scratch, &Path)) {
        let folder = tempfile::tempdir().unwrap();
        check(&Scratch::new(folder.path(), "node").unwrap(), folder.path());
    }

    #[test]
    fn task_gets_its_surroundings_and_no_secret() {
        with_scratch(|scratch, _| {
            let mut spec = spec();
            spec.cores = 2;
            spec.env.insert("A".into(), "new {index}".into());
            let launch = launched(&mut learned(&serde_json::to_string(&spec).unwrap()), scratch);
            let entries = launch.environment.own.iter().chain(launch.environment.shared.iter());
            let mut entries: Vec<_> = entries.map(|entry| entry.to_str().unwrap()).collect();
            entries.sort_unstable();
            let expected = [
                "A=new 8",
                "CUDA_VISIBLE_DEVICES=0,2",
                "OMP_NUM_THREADS=2",
                "PATH=/bin",
                "PILOTFISH_ATTEMPT=3",
                "PILOTFISH_CORES=2",
                "PILOTFISH_JOB_ID=3",
                "PILOTFISH_KEEPERS=here",
                "PILOTFISH_PILOT_ID=4",
                "PILOTFISH_PLATFORM=cluster",
                "PILOTFISH_SLOT=1",
                "PILOTFISH_SUBMIT_DIR=/home/ada",
                "PILOTFISH_TASK_ID=3.8",
                "PILOTFISH_TASK_INDEX=8",
            ];
            assert_eq!(entries, expected);
            assert_eq!(launch.argv, ["echo", "8"]);
            assert_eq!((launch.cwd.as_deref(), launch.makes_cwd), (Some(Path::new("/home/ada")), false));
            assert_eq!((launch.memory_limit_bytes, launch.time_limit.unwrap().as_secs()), (100, 7));
        });
    }

    /// Returns the values of a variable in the environment of a task with two cores.
    fn entries(change: impl FnOnce(&mut JobSpec), name: &str) -> String {
        let mut spec = JobSpec { cores: 2, ..spec() };
        change(&mut spec);
        let mut found: Vec<String> = Vec::new();
        with_scratch(|scratch, _| {
            let launch = launched(&mut learned(&serde_json::to_string(&spec).unwrap()), scratch);
            let all = launch.environment.own.iter().chain(launch.environment.shared.iter());
            let entries = all.map(|entry| entry.to_str().unwrap());
            let values = entries.filter_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
            found = values.map(str::to_owned).collect();
        });
        found.join(" ")
    }

    #[test]
    fn threads_are_the_cores_of_a_task_shared_by_its_mpi_ranks_unless_the_user_says_otherwise() {
        let threads = |change: fn(&mut JobSpec)| entries(change, "OMP_NUM_THREADS");
        assert_eq!(threads(|_| {}), "2", "not the 64 of the pilot's environment");
        assert_eq!(threads(|spec| spec.command = CommandLine::Shell("mpirun -n 2 ./a".into())), "1");
        let own = |spec: &mut JobSpec| _ = spec.env.insert("OMP_NUM_THREADS".into(), "7".into());
        assert_eq!(threads(own), "7");
        // A job whose number of ranks is a parameter.
        let ranks = |n: &str| {
            let n = n.to_owned();
            let change = move |spec: &mut JobSpec| {
                let words = ["mpirun", "-n", "{r}", "./a"];
                spec.command = CommandLine::Args(words.map(str::to_owned).to_vec());
                spec.sweep = Sweep::from_lists(vec![("r".to_owned(), vec![n; 9])]);
            };
            entries(change, "OMP_NUM_THREADS")
        };
        assert_eq!((ranks("1"), ranks("2")), ("2".to_owned(), "1".to_owned()));
    }

    #[test]
    fn tasks_know_their_platform() {
        assert_eq!(entries(|_| {}, "PILOTFISH_PLATFORM"), "cluster");
    }

    #[test]
    fn scratch_job_runs_in_a_folder_of_its_own() {
        with_scratch(|scratch, root| {
            let spec = JobSpec { workdir: WorkDirPolicy::Scratch, ..spec() };
            let mut job = learned(&serde_json::to_string(&spec).unwrap());
            let launch = launched(&mut job, scratch);
            let path = launch.cwd.unwrap();
            assert!(path.starts_with(root) && path.is_dir());
        });
    }

    #[test]
    fn output_is_kept_as_the_job_says() {
        with_scratch(|scratch, _| {
            let mut spec = spec();
            let mut kept = |keep: Keep| {
                spec.results.keep = keep;
                let mut job = learned(&serde_json::to_string(&spec).unwrap());
                let launch = launched(&mut job, scratch);
                (
                    launch.stdout != Output::Discard,
                    job.kept_output(Some(0)).stdout,
                    job.kept_output(Some(1)).stdout,
                )
            };
            assert_eq!(kept(Keep::All), (true, true, true));
            assert_eq!(kept(Keep::Failed), (true, false, true));
            assert_eq!(kept(Keep::None), (false, false, false));
        });
    }

    #[test]
    fn output_is_kept_where_something_is_extracted_from_it() {
        with_scratch(|scratch, _| {
            let mut spec = spec();
            spec.results.extract = vec![Extract { name: "x".into(), pattern: "x=(.*)".into() }];
            for keep in [Keep::Failed, Keep::None] {
                spec.results.keep = keep;
                let mut job = learned(&serde_json::to_string(&spec).unwrap());
                assert_ne!(launched(&mut job, scratch).stdout, Output::Discard);
                for code in [Some(0), Some(1), None] {
                    let stderr = keep == Keep::Failed && code != Some(0);
                    assert_eq!(
                        job.kept_output(code),
                        KeptOutput { stdout: true, stderr },
                        "{keep:?} {code:?}"
                    );
                }
            }
        });
    }

    #[test]
    fn unreadable_job_fails_its_tasks() {
        with_scratch(|scratch, _| {
            let mut job = learned("{}");
            let result =
                job.begin(Attempt { index: 0, number: 1, token: 1 }, &Place::default(), scratch, None);
            assert!(
                matches!(result, Err(FailureKind::Start { what }) if what.contains("cannot read the job"))
            );
            assert_eq!(job.kept_output(None), KeptOutput { stdout: true, stderr: true });
        });
    }

    #[test]
    fn resident_job_is_asked_with_its_parameters() {
        with_scratch(|scratch, _| {
            let command = CommandLine::Args(vec!["serve".into()]);
            let spec = JobSpec { resident: true, ..JobSpec::new(command, "/home/ada".into()) };
            let mut job = learned(&serde_json::to_string(&spec).unwrap());
            let numbers: Vec<u64> = [(10, 0), (11, 1), (12, 0)]
                .map(|(token, slot)| {
                    let place = Place { slot, ..Place::default() };
                    match job
                        .begin(Attempt { index: 8, number: 1, token }, &place, scratch, None)
                        .unwrap()
                        .work
                    {
                        Work::Ask(ask) => {
                            assert_eq!(ask.question, r#"{"job":3,"index":8,"parameters":{}}"#);
                            ask.resident
                        }
                        Work::Launch(_) => panic!("resident"),
                    }
                })
                .to_vec();
            assert_eq!(numbers, [10, 11, 10]);
            assert_eq!(job.into_residents().len(), 2);
        });
    }
}
