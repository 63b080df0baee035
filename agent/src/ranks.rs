//! How many MPI processes a command starts, as far as it says so: they share the task's cores, so that each has
//! its part of them for threads.

use protocol::job::CommandLine;

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

/// The processes that share the cores of a task with this command: 1 unless it begins by a launcher, all cores where the
/// launcher decides itself.
pub fn started_by(command: &CommandLine, n_cores: u32) -> u32 {
    let words: Vec<&str> = match command {
        CommandLine::Args(words) => words.iter().map(String::as_str).collect(),
        CommandLine::Shell(text) => text.split([' ', '\t', '\n', ';', '&', '|', '(', ')']).collect(),
    };
    let is_launcher = |word: &&str| LAUNCHERS.contains(&word.rsplit('/').next().unwrap_or(word));
    let Some(at) = words.iter().position(is_launcher) else { return 1 };
    let is_srun = words[at].ends_with("srun");
    let mut rest = words[at + 1..].iter();
    while let Some(word) = rest.next() {
        let said = match word.split_once('=') {
            Some((option, number)) if OPTIONS.contains(&option) => Some(number),
            None if is_srun && *word == "-c" => None,
            None if OPTIONS.contains(word) => rest.next().copied(),
            _ => word.strip_prefix("-n").filter(|number| number.starts_with(|c: char| c.is_ascii_digit())),
        };
        if let Some(said) = said {
            // One for each core, or a number that is known only there.
            return said.parse().unwrap_or(n_cores).max(1);
        }
    }
    n_cores.max(1)
}

#[cfg(test)]
mod tests {
    use protocol::job::CommandLine;

    use super::started_by;

    fn of(text: &str) -> [u32; 2] {
        let words = text.split(' ').map(str::to_string).collect();
        [CommandLine::Shell(text.into()), CommandLine::Args(words)].map(|command| started_by(&command, 8))
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
    }
}
