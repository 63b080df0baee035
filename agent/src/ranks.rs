//! How many MPI processes a command starts, as far as it or its script says so: they share the task's cores, so that each
//! has its part of them for threads.

use std::{io::Read as _, path::Path};

use protocol::job::CommandLine;

/// So much of a script is looked at.
const SCRIPT_BYTES_MAX: u64 = 256 << 10;

/// So many words of a command may be scripts.
const N_SCRIPTS_MAX: usize = 8;

/// The programs that start the processes of MPI programs.
const LAUNCHERS: [&str; 11] = [
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun_rsh",
    "mpiexec_mpt",
    "orterun",
    "prterun",
    "srun",
    "aprun",
    "jsrun",
    "ibrun",
];
/// Their options for the number of processes.
const OPTIONS: [&str; 6] = ["-n", "-np", "--np", "--n", "--ntasks", "-c"];

/// The processes that share the cores of a task with this command: 1 unless it or a script that it names starts a
/// launcher, all cores where the launcher decides itself. Scripts are looked for from the folder of the job; one that
/// an input brings is not there yet, and what a script runs that is no script of this command is not looked at.
pub fn started_by(command: &CommandLine, n_cores: u32, base: &Path) -> u32 {
    let words: Vec<&str> = match command {
        CommandLine::Args(words) => words.iter().map(String::as_str).collect(),
        CommandLine::Shell(text) => words_of(text).collect(),
    };
    let of_scripts = || {
        let paths = words.iter().filter(|word| may_be_script(word)).take(N_SCRIPTS_MAX);
        let mut scripts = paths.filter_map(|word| script(&base.join(word)));
        scripts.find_map(|text| {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
            // A line that goes on in the next is one.
            let text = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
            launched(&words_of(&text).collect::<Vec<_>>(), n_cores)
        })
    };
    launched(&words, n_cores).or_else(of_scripts).unwrap_or(1)
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

/// How many processes the first launcher among these words starts; `None`: there is none.
fn launched(words: &[&str], n_cores: u32) -> Option<u32> {
    let is_launcher = |word: &&str| LAUNCHERS.contains(&word.rsplit('/').next().unwrap_or(word));
    let at = words.iter().position(is_launcher)?;
    let is_srun = words[at].ends_with("srun");
    let mut rest = words[at + 1..].iter().take_while(|word| **word != "\n");
    while let Some(word) = rest.next() {
        let said = match word.split_once('=') {
            Some((option, number)) if OPTIONS.contains(&option) => Some(number),
            None if is_srun && *word == "-c" => None,
            None if OPTIONS.contains(word) => rest.next().copied(),
            _ => word.strip_prefix("-n").filter(|number| number.starts_with(|c: char| c.is_ascii_digit())),
        };
        if let Some(said) = said {
            // One for each core, or a number that is known only there.
            return Some(said.parse().unwrap_or(n_cores).max(1));
        }
    }
    Some(n_cores.max(1))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use protocol::job::CommandLine;

    use super::started_by;

    fn of(text: &str) -> [u32; 2] {
        let words = text.split(' ').map(str::to_string).collect();
        let here = Path::new("/nonexistent");
        [CommandLine::Shell(text.into()), CommandLine::Args(words)]
            .map(|command| started_by(&command, 8, here))
    }

    #[test]
    fn ranks_are_those_that_the_launcher_is_told_to_start() {
        for command in
            ["mpirun -n 4 ./a", "mpiexec -np 4 ./a -n 2", "/opt/mpi/bin/mpirun --np=4 a", "srun --ntasks=4 a"]
        {
            assert_eq!(of(command), [4, 4], "{command}");
        }
        assert_eq!(of("srun -c 2 -n4 a"), [4, 4]);
        assert_eq!(of("mpirun ./a"), [8, 8], "one for each core");
        assert_eq!(of("mpirun -n {cores} ./a"), [8, 8]);
        assert_eq!(of("gmx mdrun -n 4"), [1, 1]);
        assert_eq!(of("cd x;mpirun -n 2 ./a")[0], 2);
        assert_eq!(of("mpirun -n {cores}\n./b -n 2")[0], 8);
    }

    #[test]
    fn scripts_of_a_command_are_looked_at_where_they_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let of = |text: &str, command: &str| {
            std::fs::write(folder.path().join("run.sh"), text).unwrap();
            let words = command.split(' ').map(str::to_string).collect();
            let both = [CommandLine::Shell(command.into()), CommandLine::Args(words)];
            both.map(|command| started_by(&command, 8, folder.path()))
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
