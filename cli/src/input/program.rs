//! Whether the program of a job is on this host. Nodes may have what this host has not, and the
//! other way round; a run on this host may say no at once.

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use protocol::job::{CommandLine, JobSpec, LineEnds, Problem, SHEBANG_BYTES_MAX, WorkDirPolicy, interpreter};

/// What the C library searches when PATH is not set.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Words that begin a command and that no folder of PATH need have: the shell's own, and functions that sites give it.
const OF_SHELLS: &str = "\
    . : alias bg bind break builtin caller case cd command compgen complete conda continue coproc declare \
    dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts \
    hash help history if jobs kill let local logout mapfile ml module popd printf pushd pwd read readarray \
    readonly return select set shift shopt source suspend test then time times trap true type typeset ulimit \
    umask unalias unset until wait while";

/// What is wrong with the program here, if it can be known before any task runs: shell lines and names
/// with placeholders are not looked at.
pub fn missing(spec: &JobSpec) -> Option<Problem> {
    let CommandLine::Args(args) = &spec.command else { return None };
    let program = args.first().filter(|program| !program.contains('{') && !spec.brings_program(program))?;
    problem_of(spec, program)
}

/// The same of the program that a shell line begins with. That is a doubt: a shell may have a function of that name.
pub fn missing_of_line(spec: &JobSpec) -> Option<Problem> {
    let CommandLine::Shell(line) = &spec.command else { return None };
    let program = first_program(line)?;
    // In another folder it is another program.
    let is_elsewhere = spec.workdir != WorkDirPolicy::Submit;
    match is_elsewhere && program.contains('/') && !program.starts_with('/') {
        true => None,
        false => problem_of(spec, program),
    }
}

/// Whether the command begins with a path, which what runs before may make.
pub fn is_path(spec: &JobSpec) -> bool {
    match &spec.command {
        CommandLine::Args(args) => args.first().is_some_and(|program| program.contains('/')),
        CommandLine::Shell(line) => first_program(line).is_some_and(|program| program.contains('/')),
    }
}

/// The program that a shell line begins with, where that is a plain word and none of the shell's.
fn first_program(line: &str) -> Option<&str> {
    // Such a line says itself what becomes of a program that is not there, or where one is.
    if line.contains("||") || line.contains("PATH") {
        return None;
    }
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+:,".contains(c));
    let is_assignment = |word: &&str| word.split_once('=').is_some_and(|(_, value)| is_plain(value));
    let mut words = line.split_whitespace().skip_while(is_assignment);
    let program = words.next()?.trim_end_matches(';');
    let is_function = words.next().is_some_and(|word| word.starts_with('('));
    let is_of_shells = OF_SHELLS.split(' ').any(|word| word == program);
    let is_program = !program.is_empty() && is_plain(program) && !is_of_shells && !is_function;
    is_program.then_some(program)
}

fn problem_of(spec: &JobSpec, program: &str) -> Option<Problem> {
    let found = |what: &str| format!("the program `{program}`, which {what}");
    let (files, nowhere, hint) = if program.contains('/') {
        (vec![spec.base_dir.join(program)], "does not exist", "check the path")
    } else {
        let path = search_path(spec)?;
        let files = std::env::split_paths(&path).map(|folder| folder.join(program)).collect();
        (files, "is in no folder of PATH", "install it, or write its path")
    };
    if let Some(file) = files.iter().find(|file| is_executable(file)) {
        return LineEnds::default().of_file(file, program).or_else(|| script_problem(file, found));
    }
    Some(match files.iter().find(|file| file.is_file()) {
        Some(file) => Problem::new(
            "command",
            found("is not executable"),
            format!("make {} executable, or write another path", file.display()),
        ),
        None if program.contains('/') && files.iter().any(|file| file.is_dir()) => {
            Problem::new("command", found("is a folder"), "name a program")
        }
        None => Problem::new("command", found(nowhere), hint),
    })
}

/// The search path of the tasks; `None` when it has placeholders.
fn search_path(spec: &JobSpec) -> Option<OsString> {
    match spec.env.get("PATH") {
        Some(path) if path.contains('{') => None,
        Some(path) => Some(path.into()),
        None => Some(std::env::var_os("PATH").unwrap_or_else(|| PATH_DEFAULT.into())),
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// What is wrong with the first line of a script, which names the program that runs it.
fn script_problem(file: &Path, found: impl Fn(&str) -> String) -> Option<Problem> {
    let mut start = Vec::new();
    File::open(file).ok()?.take(SHEBANG_BYTES_MAX as u64).read_to_end(&mut start).ok()?;
    // Without `/./`.
    let shown: PathBuf = file.components().collect();
    let shown = shown.display();
    let named = interpreter(&start).filter(|named| named.starts_with('/') && !Path::new(named).exists())?;
    let what = format!("is to be run by `{named}`, as its first line says, and that does not exist");
    Some(Problem::new(
        "command",
        found(&what),
        format!("correct the first line of {shown}, or install that program"),
    ))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

    use protocol::job::{CommandLine, Input, JobSpec, WorkDirPolicy};

    use super::{is_path, missing, missing_of_line};

    fn told(args: &[&str], path: Option<&str>) -> Option<String> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut spec = JobSpec::new(CommandLine::Args(args), PathBuf::from("/etc"));
        spec.env.extend(path.map(|path| ("PATH".to_owned(), path.to_owned())));
        missing(&spec).map(|problem| problem.to_string())
    }

    #[test]
    fn a_program_that_an_input_brings_is_none_of_this_host() {
        let args = vec!["./tool".to_owned()];
        let mut spec = JobSpec::new(CommandLine::Args(args), PathBuf::from("/etc"));
        spec.inputs.push(Input { from: "real".into(), to: "tool".into(), ..Input::default() });
        assert!(missing(&spec).is_some(), "it runs in the job file's folder");
        spec.workdir = WorkDirPolicy::Scratch;
        assert_eq!(missing(&spec), None);
    }

    #[test]
    fn a_program_is_looked_for_where_tasks_would_look() {
        assert_eq!(told(&["sh"], Some("/nowhere:/bin")), None);
        assert_eq!(told(&["../bin/sh"], None), None);
        let missing = "command: program `sh` is in no folder of PATH; install it, or write its path";
        assert_eq!(told(&["sh"], Some("/nowhere")).as_deref(), Some(missing));
        let missing = "command: program `./sh` does not exist; check the path";
        assert_eq!(told(&["./sh"], None).as_deref(), Some(missing));
        let folder = "command: program `../etc` is a folder; name a program";
        assert_eq!(told(&["../etc"], None).as_deref(), Some(folder));
        let plain =
            "command: program `passwd` is not executable; make /etc/passwd executable, or write another path";
        assert_eq!(told(&["passwd"], Some("/etc")).as_deref(), Some(plain));
    }

    #[test]
    fn a_script_with_the_line_ends_of_windows_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\r\necho\r\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        for (args, path) in [(script.to_str().unwrap(), None), ("script", folder.path().to_str())] {
            let said = told(&[args], path).unwrap();
            let expected =
                format!("command: found `{args}`, whose first line `#!/bin/sh` ends with \\r; no system");
            assert!(said.starts_with(&expected), "{said}");
            assert!(said.ends_with(&format!("sed -i 's/\\r$//; s/\\r/\\n/g' {args}")), "{said}");
        }
    }

    #[test]
    fn a_script_whose_interpreter_is_missing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#! /nowhere/bash -e\necho\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let expected = format!(
            "command: program `script` is to be run by `/nowhere/bash`, as its first line says, and that does not exist; \
             correct the first line of {}, or install that program",
            script.display()
        );
        assert_eq!(told(&["script"], folder.path().to_str()), Some(expected));
        let dotted = format!("{}/./script", folder.path().display());
        assert!(told(&[&dotted], None).unwrap().contains(&format!("line of {},", script.display())));
        for well in ["#!/bin/sh\n", "#!/usr/bin/env nothing\n", "#!sh\n", "echo\n"] {
            fs::write(&script, well).unwrap();
            assert_eq!(told(&["script"], folder.path().to_str()), None, "{well}");
        }
    }

    #[test]
    fn what_only_tasks_know_is_not_looked_at() {
        assert_eq!(told(&["{program}"], Some("/nowhere")), None);
        assert_eq!(told(&["sh"], Some("{index}")), None);
        let spec = JobSpec::new(CommandLine::Shell("no-such-program".to_owned()), PathBuf::from("/"));
        assert_eq!(missing(&spec), None);
    }

    #[test]
    fn of_a_shell_line_the_first_program_is_looked_for() {
        let of = |line: &str| JobSpec::new(CommandLine::Shell(line.to_owned()), PathBuf::from("/etc"));
        let told = |line: &str| missing_of_line(&of(line)).map(|problem| problem.sentence());
        let nowhere = Some("program `no-such-program` is in no folder of PATH");
        for line in ["no-such-program", "no-such-program; ls", "A=1 B=x/y no-such-program {x} | sort > out"] {
            assert_eq!(told(line).as_deref(), nowhere, "{line}");
        }
        assert_eq!(told("./no-such x").as_deref(), Some("program `./no-such` does not exist"));
        for well in [
            "sh -c true",
            "set -e\nno-such-program",
            "cd /tmp && no-such-program",
            "module load x; no-such-program",
            "no-such-program || true",
            "PATH=/opt/bin no-such-program",
            "A=\"x no-such-program\" ls",
            "no-such-program () { ls; }; no-such-program",
            "$PROGRAM x",
            "{program} x",
            "# no-such-program",
            "(no-such-program)",
            "",
        ] {
            assert_eq!(told(well), None, "{well}");
        }
        let scratch = JobSpec { workdir: WorkDirPolicy::Scratch, ..of("./no-such x") };
        assert_eq!(missing_of_line(&scratch), None);
        assert_eq!((is_path(&scratch), is_path(&of("A=1 sh ./x"))), (true, false));
    }
}
