//! Finds the number of MPI processes (ranks) that a command starts, from the command or its script. They
//! share the task's cores, so each gets its part of the cores for its threads.

mod calls;

use std::{collections::BTreeMap, io::Read as _, path::Path};

use protocol::job::{
    CommandLine,
    script::commands::{base_name, is_shell, program_of, simple_commands, text_of_shell},
};

/// The most bytes of a script that are read.
const SCRIPT_BYTES_MAX: u64 = 256 << 10;

/// The most words of a command that are tried as scripts.
const N_SCRIPTS_MAX: usize = 8;

/// The deepest nesting of shells and variables that is followed.
const DEPTH_MAX: usize = 8;

/// Programs that start the processes of MPI programs. Some have names with a suffix, like `mpiexec.hydra` and
/// `mpirun.openmpi`.
const LAUNCHERS: [&str; 11] = [
    "mpirun",
    "mpiexec",
    "mpirun_rsh",
    "mpiexec_mpt",
    "orterun",
    "prterun",
    "prun",
    "srun",
    "aprun",
    "jsrun",
    "ibrun",
];
/// The launchers' options for the number of processes.
const OPTIONS: [&str; 6] = ["-n", "-np", "--np", "--n", "--ntasks", "-c"];
/// The word between the programs of one launcher.
const NEXT_PROGRAM: &str = ":";

/// The suffixes that launchers may have after a point: names of MPI implementations and batch systems.
const BUILDS: [&str; 9] = ["hydra", "intel", "lam", "lsf", "mpich", "mpich2", "openmpi", "openmpi3", "slurm"];
/// Programs that run another program after options of their own, which are not parsed here.
const WRAPPERS: [&str; 28] = [
    "advisor",
    "apptainer",
    "catchsegv",
    "conda",
    "ddt",
    "docker",
    "forge",
    "gdb",
    "hpcrun",
    "ltrace",
    "mamba",
    "map",
    "micromamba",
    "ncu",
    "nsys",
    "perf",
    "perf-report",
    "pixi",
    "podman",
    "poetry",
    "scalasca",
    "scan",
    "singularity",
    "tau_exec",
    "uv",
    "valgrind",
    "vtune",
    "xvfb-run",
];
/// Programs that never run the files in their arguments.
const READERS: [&str; 18] = [
    "[", "awk", "cat", "cd", "chmod", "cp", "diff", "echo", "grep", "head", "ls", "mv", "printf", "rm",
    "sed", "tail", "test", "which",
];
/// Programs that run scripts in languages other than shells; their names begin with these words.
const INTERPRETERS: [&str; 6] = ["python", "pypy", "perl", "R", "julia", "ruby"];
/// The most variables of a script that are followed.
const N_VARIABLES_MAX: usize = 1000;

/// Returns the number of processes that share the cores of each task of a job: 1 unless the command, or a
/// script in it, starts a launcher; all cores if the launcher itself decides. `None`: the number differs
/// between tasks. Relative paths of scripts start at the job's folder. An input file that is a script is not
/// there yet, and scripts that a script runs are not read.
pub fn of_job(command: &CommandLine, n_cores: u32, base: &Path) -> Option<u32> {
    let n_cores = n_cores.max(1);
    let (commands, has_placeholders) = match command {
        CommandLine::Args(words) => (vec![words.clone()], words.iter().any(|word| word.contains('{'))),
        CommandLine::Shell(line) => (simple_commands(line), line.contains('{')),
    };
    match launched(&commands) {
        Some(Ranks::Known(n)) => return Some(n),
        Some(Ranks::Unsaid) => return Some(n_cores),
        // A number that a shell computes is known only there.
        Some(Ranks::Text) => return (!has_placeholders).then_some(n_cores),
        None => {}
    }
    let words = commands.iter().filter(|words| may_run_scripts(words));
    let paths = words.flat_map(|words| words.iter().enumerate().map(move |(at, word)| (words, at, word)));
    let paths = paths.filter(|(_, _, word)| may_be_script(word)).take(N_SCRIPTS_MAX);
    let mut scripts =
        paths.filter_map(|(words, at, word)| Some((words.get(..at)?, script(&base.join(word))?)));
    let found = scripts.find_map(|(before, script)| {
        // The interpreter decides about the script's language, not the name of the file.
        let is_run_by_other =
            before.iter().any(|word| INTERPRETERS.iter().any(|name| base_name(word).starts_with(name)));
        match script.is_of_shell && !is_run_by_other {
            true => launched(&simple_commands(&script.text)),
            false => calls::of_script(&script.text),
        }
    });
    Some(match found {
        None => 1,
        Some(Ranks::Known(n)) => n,
        Some(Ranks::Unsaid | Ranks::Text) => n_cores,
    })
}

/// Returns the same number for one task, from its command line only.
pub fn of_task(argv: &[String], n_cores: u32) -> u32 {
    match launched(&[argv.to_vec()]) {
        None => 1,
        Some(Ranks::Known(n)) => n,
        Some(Ranks::Unsaid | Ranks::Text) => n_cores.max(1),
    }
}

/// The number of processes in a launcher's options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ranks {
    /// This number.
    Known(u32),
    /// A placeholder, or an expression of a shell.
    Text,
    /// No number, for at least one of its programs.
    Unsaid,
}

/// Returns whether a command may run a file in its arguments.
fn may_run_scripts(words: &[String]) -> bool {
    let program = program_of(words).and_then(|at| words.get(at));
    program.is_some_and(|program| !READERS.contains(&base_name(program)))
}

/// Returns whether a word may name a script: it is no option, variable or placeholder.
fn may_be_script(word: &str) -> bool {
    !word.starts_with('-') && !word.contains(['{', '$', '*', '=', '\n', '\0'])
}

struct Script {
    text: String,
    is_of_shell: bool,
}

/// Reads a script: a text file that begins with `#!`, or has the name of a script.
fn script(path: &Path) -> Option<Script> {
    // A pipe would be used up by reading it.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(SCRIPT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_named_so = is_shell(end) || ["py", "R", "r", "pl", "jl"].contains(&end);
    let has_first_line = bytes.starts_with(b"#!");
    let text = (has_first_line || is_named_so).then(|| String::from_utf8_lossy(&bytes).into_owned())?;
    let first = text.lines().next().unwrap_or_default().trim_start_matches("#!");
    let is_of_shell = match has_first_line {
        true => first.split_whitespace().any(is_shell),
        false => is_shell(end),
    };
    Some(Script { text, is_of_shell })
}

/// Returns whether a word names a launcher; it counts only in the place of a command.
fn is_launcher(word: &str) -> bool {
    let name = base_name(word);
    let (name, build) = name.split_once('.').unwrap_or((name, BUILDS[0]));
    LAUNCHERS.contains(&name) && BUILDS.contains(&build)
}

/// Returns the number of processes of the first launcher, in all of its programs; `None`: there is no
/// launcher.
fn launched(commands: &[Vec<String>]) -> Option<Ranks> {
    let mut variables = BTreeMap::new();
    commands.iter().find_map(|words| of_command(words, &mut variables, 0))
}

/// Returns the number of processes that a simple command starts. `variables`: values that earlier commands
/// set, as lists of words. `depth`: the nesting of shells and variables.
fn of_command(
    words: &[String],
    variables: &mut BTreeMap<String, Vec<String>>,
    depth: usize,
) -> Option<Ranks> {
    let Some(at) = program_of(words) else {
        // This command only sets variables; a value may be a launcher with options, used later as `$MPI`.
        for (name, value) in words.iter().filter_map(|word| word.split_once('=')) {
            if variables.len() < N_VARIABLES_MAX {
                variables.insert(name.to_owned(), value.split_whitespace().map(str::to_owned).collect());
            }
        }
        return None;
    };
    let words = words.get(at..)?;
    let program = words.first()?;
    if is_launcher(program) {
        return Some(of_launcher(words));
    }
    if depth >= DEPTH_MAX {
        return None;
    }
    if let Some(name) = program.strip_prefix('$') {
        let name = name.trim_matches(['{', '}']);
        let (name, absent) = name.split_once(":-").unwrap_or((name, ""));
        let value = variables.get(name).cloned();
        let value = value.unwrap_or_else(|| absent.split_whitespace().map(str::to_owned).collect());
        let all: Vec<String> = value.into_iter().chain(words[1..].iter().cloned()).collect();
        return of_command(&all, variables, depth + 1);
    }
    if let Some((text_at, text)) = text_of_shell(words) {
        // Lists in other languages are passed as single words.
        return match text.contains(char::is_whitespace) {
            true => simple_commands(text).iter().find_map(|words| of_command(words, variables, depth + 1)),
            false => of_command(&words[text_at..], variables, depth + 1),
        };
    }
    if !WRAPPERS.contains(&base_name(program)) {
        return None;
    }
    let at = words.iter().position(|word| is_launcher(word) || is_shell(word))?;
    of_command(&words[at..], variables, depth + 1)
}

/// Returns the number of processes of a launcher, which is the first of these words.
fn of_launcher(words: &[String]) -> Ranks {
    let is_srun = words.first().is_some_and(|word| base_name(word) == "srun");
    let rest: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let (first, others) = match rest.iter().position(|word| *word == NEXT_PROGRAM) {
        Some(end) => rest.split_at(end),
        None => (&rest[..], &rest[..0]),
    };
    let others = others.split(|word| *word == NEXT_PROGRAM).filter(|words| !words.is_empty());
    others.fold(of_program(first, is_srun), |all, words| match (all, of_program(words, is_srun)) {
        (Ranks::Known(a), Ranks::Known(b)) => Ranks::Known(a.saturating_add(b)),
        (Ranks::Text, _) | (_, Ranks::Text) => Ranks::Text,
        (Ranks::Unsaid, _) | (_, Ranks::Unsaid) => Ranks::Unsaid,
    })
}

/// Returns the number of processes in a launcher's options for one program; the options end with the program.
fn of_program(words: &[&str], is_srun: bool) -> Ranks {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let said = match word.split_once('=') {
            Some((option, number)) if OPTIONS.contains(&option) => Some(number),
            None if is_srun && *word == "-c" => None,
            None if OPTIONS.contains(word) => rest.next().copied(),
            _ => word.strip_prefix("-n").filter(|number| number.starts_with(|c: char| c.is_ascii_digit())),
        };
        if let Some(said) = said {
            return said.parse::<u32>().map_or(Ranks::Text, |n| Ranks::Known(n.max(1)));
        }
    }
    Ranks::Unsaid
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use protocol::job::CommandLine;

    use super::{of_job, of_task};

    /// Returns the number of ranks of a script that is a job's command.
    fn of_script(name: &str, text: &str) -> u32 {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
        of_job(&CommandLine::Shell(format!("./{name}")), 8, folder.path()).unwrap()
    }

    #[test]
    fn only_a_word_in_the_place_of_a_command_is_a_launcher() {
        for command in [
            "echo --log mpirun.log $OMP_NUM_THREADS",
            "cat srun.log; echo $OMP_NUM_THREADS",
            "echo /data/srun $OMP_NUM_THREADS",
            "./s1.sh # see mpirun -np 2",
            "command -v mpirun && ./a",
            "which srun || ./a",
            "echo \"usage: mpirun -n 2\"; ./a",
            "./mpirun.sh",
            "./a > mpirun",
            "case $x in mpirun) ./a;; esac",
            "timeout 60 ./a srun",
            "cat <<E\nmpirun -n 2\nE\n./a",
        ] {
            assert_eq!(of(command)[0], 1, "{command}");
        }
        let words = ["sh", "-c", "echo $OMP_NUM_THREADS", "_", "--input", "srun.in"].map(str::to_owned);
        assert_eq!(of_task(&words, 8), 1);
        for text in ["command -v mpirun\n./a", "echo \"usage: mpirun -n 2 $0\"\n./a # mpirun", "which mpirun"]
        {
            assert_eq!(of_script("s.sh", text), 1, "{text}");
        }
    }

    #[test]
    fn launcher_behind_other_programs_counts() {
        for command in [
            "nice -n 5 mpirun -n 2 ./a",
            "time -p mpirun -n 2 ./a",
            "/usr/bin/time -f %e mpirun -n 2 ./a",
            "timeout -k 1 60 mpirun -n 2 ./a",
            "env -u X Y=1 mpirun -n 2 ./a",
            "numactl -N 0 mpirun -n 2 ./a",
            "exec srun -n 2 ./a",
            "apptainer exec -B x i.sif mpirun -n 2 ./a",
        ] {
            assert_eq!(of(command), [2, 2], "{command}");
        }
        for command in [
            "cd x && mpirun -n 2 ./a",
            "if true; then OMP_PLACES=cores mpirun -n 2 ./a > mpirun.log 2>&1; fi",
            "bash -lc 'cd x; mpirun -n 2 ./a'",
            "M=\"mpirun -n 2\"; $M ./a",
            "${M:-mpirun} -n 2 ./a",
            "x=$(mpirun -n 2 ./a)",
            "bash <<E\nmpirun -n 2 ./a\nE",
            "(mpirun -n 2 ./a) | cat",
            "{{ mpirun -n 2 ./a; }}",
        ] {
            assert_eq!(of(command)[0], 2, "{command}");
            assert_eq!(of_script("s.sh", command), 2, "{command}");
        }
    }

    #[test]
    fn scripts_of_other_languages_start_what_their_calls_name_first() {
        for (name, text) in [
            ("s.py", "\"\"\"Do not start with\nmpirun -n 2 …\"\"\"\nrun(['./a'])"),
            ("s.py", "# subprocess.run(['mpirun'])\nx = 'a' # it's (\"mpirun\")"),
            ("s.py", "if shutil.which(\"mpirun\"): print(\"mpirun -n 2\")"),
            ("s.py", "p.add_argument('--l', help='mpirun of the host', choices=['mpirun', 'srun'])"),
            ("s.py", "f = open('srun.log')\nrun(['grep', 'mpirun', 'x'])"),
            ("s.R", "cat(\"mpirun -n 2\\n\")"),
        ] {
            assert_eq!(of_script(name, text), 1, "{text}");
        }
        for (name, text) in [
            ("s.py", "subprocess.run([\"mpirun\", \"-n\", \"2\", \"./a\"], check=True)"),
            ("s.py", "subprocess.run(\n    ['mpirun',\n     '-n', '2', './a'])"),
            ("s.py", "subprocess.run('cd x && mpirun -n 2 ./a -n 8', shell=True)"),
            ("s.py", "cmd = ['nice', 'mpirun', '-n', '2', './a']\nrun(cmd)"),
            ("s.py", "os.system(f\"mpirun -n 2 ./a {x}\")"),
            ("s.py", "os.system(\"\"\"mpirun -n 2 ./a\"\"\")"),
            ("s.py", "run(['bash', '-c', 'mpirun -n 2 ./a'])"),
            ("s.R", "system2(\"mpirun\", c(\"-n\", \"2\", \"./a\"))"),
            ("s.pl", "system \"mpirun -n 2 ./a\";"),
            ("s.pl", "my $x = `mpirun -n 2 ./a`;"),
            ("s.jl", "run(`mpirun -n 2 ./a`)"),
        ] {
            assert_eq!(of_script(name, text), 2, "{text}");
        }
        assert_eq!(of_script("s.py", "run(['mpirun', '-n', str(n), './a'])"), 8);
        assert_eq!(of_script("s.py", "os.system('mpirun -n ' + str(n) + ' ./a')"), 8);
    }

    /// Returns the numbers for a job, as a line and as words; checks the numbers of the tasks too.
    fn of(text: &str) -> [u32; 2] {
        let words: Vec<String> = text.split(' ').map(str::to_string).collect();
        let here = Path::new("/nonexistent");
        let shell = ["/bin/sh", "-c", text].map(str::to_owned);
        let both =
            [(CommandLine::Shell(text.into()), shell.to_vec()), (CommandLine::Args(words.clone()), words)];
        both.map(|(command, argv)| {
            let of_task = of_task(&argv, 8);
            let of_job = of_job(&command, 8, here);
            assert!(of_job.is_none_or(|n| n == of_task), "{text}: {of_job:?} {of_task}");
            of_task
        })
    }

    #[test]
    fn number_that_is_a_parameter_is_one_of_each_task() {
        let here = Path::new("/nonexistent");
        let words = ["mpirun", "-n", "{r}", "./a"].map(str::to_owned).to_vec();
        assert_eq!(of_job(&CommandLine::Args(words), 8, here), None);
        assert_eq!(of_job(&CommandLine::Shell("mpirun -n {r} ./a".into()), 8, here), None);
        assert_eq!(of_job(&CommandLine::Shell("mpirun -n 2 ./a {r}".into()), 8, here), Some(2));
        assert_eq!(of("mpirun -n 3 ./a"), [3, 3]);
    }

    #[test]
    fn ranks_of_all_programs_of_a_launcher_count() {
        for command in ["mpirun -n 1 x : -n 1 y", "mpiexec.hydra -n 1 x : -n 1 y", "srun -n1 x : -n1 y"] {
            assert_eq!(of(command), [2, 2], "{command}");
        }
        assert_eq!(of("mpirun -n 1 x : -n 2 y : -n 3 z"), [6, 6]);
        assert_eq!(of("mpirun -n 1 x : y"), [8, 8]);
        assert_eq!(of("mpirun -n 3 x; :")[0], 3, "the next command is none of its programs");
    }

    #[test]
    fn ranks_are_those_that_the_launcher_is_told_to_start() {
        for command in [
            "mpirun -n 4 ./a",
            "mpiexec -np 4 ./a -n 2",
            "/opt/mpi/bin/mpirun --np=4 a",
            "srun --ntasks=4 a",
            "prun -n 4 a",
            "mpirun.openmpi -n 4 a",
            "mpiexec.hydra -n 4 a",
        ] {
            assert_eq!(of(command), [4, 4], "{command}");
        }
        assert_eq!(of("srun -c 2 -n4 a"), [4, 4]);
        assert_eq!(of("mpirun ./a"), [8, 8], "one for each core");
        assert_eq!(of("mpirun -n {cores} ./a"), [8, 8]);
        assert_eq!(of("gmx mdrun -n 4"), [1, 1]);
        assert_eq!(of("cd x;mpirun -n 2 ./a")[0], 2);
        assert_eq!(of("mpirun -n {cores}\n./b -n 2")[0], 8);
        assert_eq!(of("mpirun \\\n -n 2 ./a")[0], 2);
    }

    #[test]
    fn scripts_of_a_command_are_looked_at_where_they_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str, command: &str| {
            std::fs::write(folder.path().join("run.sh"), text).unwrap();
            let words = command.split(' ').map(str::to_string).collect();
            let both = [CommandLine::Shell(command.into()), CommandLine::Args(words)];
            both.map(|command| of_job(&command, 8, folder.path()).unwrap())
        };
        let four = "#!/bin/bash\n# mpirun -n 2\nmodule load mpi\nmpirun -n 4 ./a -n 8\n";
        for command in ["./run.sh", "bash run.sh", "./run.sh --seed {seed}", "time -p ./run.sh"] {
            assert_eq!(of(four, command), [4, 4], "{command}");
        }
        assert_eq!(of("#!/bin/sh\n./a -n 4\n", "./run.sh"), [1, 1]);
        assert_eq!(of("#!/bin/sh\nmpirun \"$@\" ./a\n", "./run.sh"), [8, 8], "known only there");
        assert_eq!(of("#!/bin/sh\nmpirun \\\n  -n 2 ./a\n", "./run.sh"), [2, 2]);
        assert_eq!(
            of("import subprocess\nsubprocess.run([\"mpiexec\", \"-n\", \"2\", \"a\"])\n", "python3 run.sh"),
            [2, 2]
        );
        assert_eq!(of(four, "./other.sh"), [1, 1], "it is not there");
        assert_eq!(of(four, "mpirun -n 2 ./run.sh"), [2, 2], "the command itself goes first");
        std::fs::write(folder.path().join("program"), b"\x7fELF mpirun -n 4").unwrap();
        assert_eq!(of(four, "./program"), [1, 1]);
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        assert_eq!(of(four, "cat ./pipe"), [1, 1]);
    }
}
