//! How many MPI processes a command starts, as far as it or its script says so: they share the task's cores, so that each
//! has its part of them for threads.

use std::{io::Read as _, path::Path};

use protocol::job::CommandLine;

/// So much of a script is looked at.
const SCRIPT_BYTES_MAX: u64 = 256 << 10;

/// So many words of a command may be scripts.
const N_SCRIPTS_MAX: usize = 8;

/// The programs that start the processes of MPI programs. Some come under names with an ending, such as
/// `mpiexec.hydra` and `mpirun.openmpi`.
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
/// Their options for the number of processes.
const OPTIONS: [&str; 6] = ["-n", "-np", "--np", "--n", "--ntasks", "-c"];
/// What parts the programs of one launcher from each other.
const NEXT_PROGRAM: &str = ":";

/// The processes that share the cores of each task of a job: 1 unless the command or a script that it names starts a
/// launcher, all cores where the launcher decides itself. `None`: only the command of a task says how many. Scripts are
/// looked for from the folder of the job; one that an input brings is not there yet, and what a script runs that is no
/// script of this command is not looked at.
pub fn of_job(command: &CommandLine, n_cores: u32, base: &Path) -> Option<u32> {
    let n_cores = n_cores.max(1);
    let text;
    let (words, has_placeholders): (Vec<&str>, bool) = match command {
        CommandLine::Args(words) => {
            (words.iter().map(String::as_str).collect(), words.iter().any(|word| word.contains('{')))
        }
        CommandLine::Shell(line) => {
            text = on_one_line(line);
            (words_of(&text).collect(), text.contains('{'))
        }
    };
    match launched(&words) {
        Some(Ranks::Known(n)) => return Some(n),
        Some(Ranks::Unsaid) => return Some(n_cores),
        // A number that a shell makes is known only there.
        Some(Ranks::Text) => return (!has_placeholders).then_some(n_cores),
        None => {}
    }
    let paths = words.iter().filter(|word| may_be_script(word)).take(N_SCRIPTS_MAX);
    let mut scripts = paths.filter_map(|word| script(&base.join(word)));
    let found = scripts.find_map(|text| {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let text = on_one_line(&lines.collect::<Vec<_>>().join("\n"));
        launched(&words_of(&text).collect::<Vec<_>>())
    });
    Some(match found {
        None => 1,
        Some(Ranks::Known(n)) => n,
        Some(Ranks::Unsaid | Ranks::Text) => n_cores,
    })
}

/// The same of one task, of which only its command line is looked at.
pub fn of_task(argv: &[String], n_cores: u32) -> u32 {
    let text;
    let words: Vec<&str> = match argv {
        [shell, flag, line] if flag == "-c" && shell == "/bin/sh" => {
            text = on_one_line(line);
            words_of(&text).collect()
        }
        words => words.iter().map(String::as_str).collect(),
    };
    match launched(&words) {
        None => 1,
        Some(Ranks::Known(n)) => n,
        Some(Ranks::Unsaid | Ranks::Text) => n_cores.max(1),
    }
}

/// What a launcher is told of the number of processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ranks {
    /// So many.
    Known(u32),
    /// A placeholder, or something that a shell makes a number of.
    Text,
    /// Nothing, of one of its programs at least.
    Unsaid,
}

/// Lines that go on in the next ones, each as one line.
fn on_one_line(text: &str) -> String {
    text.replace("\\\n", " ")
}

/// The words of shell text, or of another script's that says the same as a list of texts.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || ";&|()[]{},`\"'".contains(c);
    // A line's end ends a launcher's options: it stays a word of its own.
    let lines = text.split_inclusive('\n');
    lines.flat_map(move |line| {
        let words = line.split(is_between).filter(|word| !word.is_empty());
        words.chain(line.ends_with('\n').then_some("\n"))
    })
}

/// Options, variables and placeholders are none.
fn may_be_script(word: &str) -> bool {
    !word.starts_with('-') && !word.contains(['{', '$', '*', '=', '\n', '\0'])
}

/// The text of a script: a file of text that begins with `#!`, or is named as scripts are.
fn script(path: &Path) -> Option<String> {
    // A pipe would not be read to its end.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(SCRIPT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let is_named_so = path
        .extension()
        .is_some_and(|end| ["sh", "bash", "zsh", "csh", "py"].iter().any(|known| end == *known));
    (bytes.starts_with(b"#!") || is_named_so).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// How many processes the first launcher among these words starts, in all of its programs; `None`: there is none.
fn launched(words: &[&str]) -> Option<Ranks> {
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let is_launcher = |word: &&str| {
        let name = name(word);
        LAUNCHERS.contains(&name.split('.').next().unwrap_or_default())
    };
    let at = words.iter().position(is_launcher)?;
    let is_srun = name(words[at]) == "srun";
    let rest: Vec<&str> = words[at + 1..].iter().copied().take_while(|word| *word != "\n").collect();
    let (first, others) = match rest.iter().position(|word| *word == NEXT_PROGRAM) {
        Some(end) => rest.split_at(end),
        None => (&rest[..], &rest[..0]),
    };
    let others = others.split(|word| *word == NEXT_PROGRAM).filter(|words| !words.is_empty());
    Some(others.fold(of_program(first, is_srun), |all, words| match (all, of_program(words, is_srun)) {
        (Ranks::Known(a), Ranks::Known(b)) => Ranks::Known(a.saturating_add(b)),
        (Ranks::Text, _) | (_, Ranks::Text) => Ranks::Text,
        (Ranks::Unsaid, _) | (_, Ranks::Unsaid) => Ranks::Unsaid,
    }))
}

/// How many processes a launcher starts with these words, which end with one of its programs.
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

    /// Of a job as a line and as a list of words, and the same of a task where only that says it.
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
