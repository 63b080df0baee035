//! Whether the program of a job is on this host. Nodes may have what this host has not, and the
//! other way round; a run on this host may say no at once.

use std::{
    ffi::OsString,
    fs::File,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use protocol::job::{CommandLine, JobSpec, LineEnds, Problem, SHEBANG_BYTES_MAX, interpreter};

/// What the C library searches when PATH is not set.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// What is wrong with the program here, if it can be known before any task runs: shell lines and names
/// with placeholders are not looked at.
pub fn missing(spec: &JobSpec) -> Option<Problem> {
    let CommandLine::Args(args) = &spec.command else { return None };
    let program = args.first().filter(|program| !program.contains('{'))?;
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

    use protocol::job::{CommandLine, JobSpec};

    use super::missing;

    fn told(args: &[&str], path: Option<&str>) -> Option<String> {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut spec = JobSpec::new(CommandLine::Args(args), PathBuf::from("/etc"));
        spec.env.extend(path.map(|path| ("PATH".to_owned(), path.to_owned())));
        missing(&spec).map(|problem| problem.to_string())
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
}
