//! Scripts whose first line ends as on Windows or on an old Mac: no system finds the program that it names.

use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use crate::job::{
    CommandLine, SHEBANG_BYTES_MAX,
    script::commands::{program_of, simple_commands, text_of_shell},
    shebang_with_carriage_return,
};
use crate::problem::{Problem, quoted};

/// Shells within shells that are looked into.
const DEPTH_MAX: usize = 8;

/// Looks for such scripts in commands, into each file once.
#[derive(Default)]
pub struct LineEnds {
    known: HashMap<PathBuf, Option<String>>,
}

impl LineEnds {
    /// What is wrong with the first such script that a command runs and that is in the job's folder.
    pub fn of_command(&mut self, field: &str, command: &CommandLine, base: &Path) -> Option<Problem> {
        let commands = match command {
            CommandLine::Args(words) => vec![words.clone()],
            CommandLine::Shell(line) => simple_commands(line),
        };
        let problem = self.of_commands(&commands, base, 0)?;
        Some(Problem { path: field.to_owned(), ..problem })
    }

    /// The same of a file, however a command names it.
    pub fn of_file(&mut self, file: &Path, program: &str) -> Option<Problem> {
        let line = match self.known.get(file) {
            Some(line) => line.clone(),
            None => {
                let line = first_line(file);
                self.known.insert(file.to_owned(), line.clone());
                line
            }
        }?;
        Some(Problem::new(
            "command",
            format!("{}, whose first line {} ends with \\r", quoted(program), quoted(&line)),
            format!(
                "no system finds a program of that name; give the script Unix line ends: \
                 sed -i 's/\\r$//; s/\\r/\\n/g' {program}"
            ),
        ))
    }

    fn of_commands(&mut self, commands: &[Vec<String>], base: &Path, depth: usize) -> Option<Problem> {
        // Once a line goes where nobody knows, its relative paths mean nothing here.
        let mut folder = Some(base.to_owned());
        for words in commands {
            let Some(words) = program_of(words).and_then(|at| words.get(at..)) else { continue };
            let Some(program) = words.first() else { continue };
            if program == "cd" {
                let to = words.get(1).filter(|to| is_plain(to) && !to.starts_with('-'));
                folder = folder.zip(to).map(|(folder, to)| folder.join(to));
                continue;
            }
            let found = match (text_of_shell(words), &folder) {
                (Some((_, text)), Some(folder)) if depth < DEPTH_MAX => {
                    self.of_commands(&simple_commands(text), folder, depth + 1)
                }
                (None, Some(folder)) if program.contains('/') && is_plain(program) => {
                    // Another one may be elsewhere where tasks run.
                    let file = folder.join(program);
                    if file.starts_with(base) { self.of_file(&file, program) } else { None }
                }
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Whether a word is what it says: a shell makes nothing else of it, and no parameter is in it.
fn is_plain(word: &str) -> bool {
    !word.contains(['{', '}', '$', '*', '?', '[', '~', '\0'])
}

fn first_line(file: &Path) -> Option<String> {
    // A pipe would not be read to its end.
    if !file.is_file() {
        return None;
    }
    let mut start = Vec::new();
    File::open(file).ok()?.take(SHEBANG_BYTES_MAX as u64).read_to_end(&mut start).ok()?;
    shebang_with_carriage_return(&start)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::LineEnds;
    use crate::job::CommandLine;

    #[test]
    fn script_is_found_at_every_place_of_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path();
        std::fs::create_dir(base.join("x")).unwrap();
        for name in ["crlf.sh", "x/other.sh"] {
            std::fs::write(base.join(name), "#!/bin/sh\r\necho\r\n").unwrap();
        }
        let told = |line: &str| {
            let problem = LineEnds::default().of_command("command", &CommandLine::Shell(line.into()), base);
            problem.map(|problem| problem.to_string())
        };
        for line in [
            "./crlf.sh {x}",
            "time ./crlf.sh",
            "X=1 ./crlf.sh | cat",
            "for i in 1 2; do ./crlf.sh $i; done",
            "cd x && ../crlf.sh",
            "sh -c './crlf.sh'",
            "echo $(./crlf.sh)",
        ] {
            let told = told(line).unwrap_or_default();
            assert!(
                told.contains("crlf.sh`, whose first line `#!/bin/sh` ends with \\r; no system"),
                "{line}: {told}"
            );
        }
        let absolute = base.join("crlf.sh").display().to_string();
        assert!(told(&absolute).is_some());
        assert!(told("cd x && ./other.sh").is_some());
        for line in
            ["sh ./crlf.sh", "cat ./crlf.sh", "echo # ./crlf.sh", "cd $x && ./crlf.sh", "./other.sh", "./{x}"]
        {
            assert_eq!(told(line), None, "{line}");
        }
        let words = ["time", "./crlf.sh"].map(str::to_owned).to_vec();
        assert!(LineEnds::default().of_command("command", &CommandLine::Args(words), base).is_some());
    }

    #[test]
    fn the_offered_command_mends_both_kinds_of_line_ends() {
        let folder = tempfile::tempdir().unwrap();
        for (kind, text) in
            [("Windows", "#!/bin/sh\r\necho a\r\necho b\r\n"), ("old Mac", "#!/bin/sh\recho a\recho b\r")]
        {
            std::fs::write(folder.path().join("x.sh"), text).unwrap();
            let command = CommandLine::Shell("./x.sh".into());
            let problem =
                LineEnds::default().of_command("command", &command, folder.path()).unwrap().to_string();
            let offered = problem.rsplit("line ends: ").next().unwrap();
            let script = format!("{offered} && sh ./x.sh");
            let output =
                Command::new("sh").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "a\nb\n", "{kind}: {output:?}");
            assert!(LineEnds::default().of_command("command", &command, folder.path()).is_none(), "{kind}");
        }
    }
}
