//! What a command expects of this shell's environment and tasks will not have.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
};

use adapters::transport::goes_to_local_pilots;
use protocol::job::{CommandLine, JobSpec, Problem};

use crate::input::shell_line::{lines_of_shells, name_at, variables};

/// Variables that each shell sets itself.
const OF_SHELLS: [&str; 22] = [
    "_",
    "BASH",
    "BASHPID",
    "BASH_SOURCE",
    "BASH_VERSION",
    "EUID",
    "FUNCNAME",
    "HOSTNAME",
    "HOSTTYPE",
    "IFS",
    "LINENO",
    "MACHTYPE",
    "OLDPWD",
    "OPTARG",
    "OPTIND",
    "OSTYPE",
    "PPID",
    "PWD",
    "RANDOM",
    "SECONDS",
    "SHLVL",
    "UID",
];

/// Says how many threads a program may have: set for each task.
const THREADS: &str = "OMP_NUM_THREADS";

/// Names of placeholders that every job has.
const PLACEHOLDERS: [&str; 4] = ["index", "number", "job", "cores"];

/// Variables that the command's shell line reads, that are set here, and that tasks do not get: neither `env` nor
/// `env_from` has them, and they are not of the host. In order.
pub fn missed(spec: &JobSpec, is_set: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let names = shell_lines(spec)
        .into_iter()
        .flat_map(|line| variables(line).into_iter().filter(|name| !is_made_in(line, name)));
    let is_missed = |name: &&str| {
        !spec.env.contains_key(*name)
            && !goes_to_local_pilots(name)
            && *name != THREADS
            && !OF_SHELLS.contains(name)
            && is_set(name)
    };
    names.filter(is_missed).collect()
}

/// What is to be said of a number of threads that is set here, is another one than tasks get, and does not go along.
/// A command has no fields to name it in.
pub fn missed_threads(spec: &JobSpec, here: Option<&OsStr>, is_command: bool) -> Option<String> {
    let here = here?.to_string_lossy();
    let is_made = shell_lines(spec).iter().any(|line| is_made_in(line, THREADS));
    if spec.env.contains_key(THREADS) || is_made || here == spec.cores.to_string() {
        return None;
    }
    let way = match is_command {
        true => format!("`--env {THREADS}={here}` takes it"),
        false => "name it in `env` or `env_from`".to_owned(),
    };
    Some(format!("{THREADS} is set to {here} here; tasks get the number of their cores: {way}"))
}

/// Values of `env` that look as if a shell read them, which none does. What was taken along as it is here is meant so.
pub fn taken_literally(spec: &JobSpec, here: impl Fn(&str) -> Option<OsString>) -> Vec<Problem> {
    let is_taken_along = |name: &str, value: &str| {
        here(name).is_some_and(|here| *here == *value.replace("{{", "{").replace("}}", "}"))
    };
    let is_placeholder =
        |name: &str| PLACEHOLDERS.contains(&name) || spec.sweep.names().any(|own| own == name);
    let mut problems = Vec::new();
    for (name, value) in &spec.env {
        let Some(found) = shell_text_in(value, is_placeholder) else { continue };
        if !is_taken_along(name, value) {
            let found = format!("`{found}`, which tasks get as it is written");
            let expected = format!(
                "no shell reads values of `env`: write the value out, or set {name} in a shell line of `command`"
            );
            problems.push(Problem::new(format!("env.{name}"), found, expected));
        }
    }
    problems
}

/// A `~` at the beginning of a value, or its first variable.
fn shell_text_in(value: &str, is_placeholder: impl Fn(&str) -> bool) -> Option<String> {
    let behind = value.strip_prefix('~');
    if behind.is_some_and(|rest| {
        rest.is_empty() || rest.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic())
    }) {
        return Some("~".to_owned());
    }
    value.match_indices('$').find_map(|(at, _)| {
        let rest = &value[at + 1..];
        let name = name_at(rest).filter(|_| !value[..at].ends_with(['\\', '$']))?;
        match rest.len() - rest.trim_start_matches('{').len() {
            0 => Some(format!("${name}")),
            1 if is_placeholder(name) => None,
            _ => Some(format!("${{{name}}}")),
        }
    })
}

/// What a shell reads of the command.
fn shell_lines(spec: &JobSpec) -> Vec<&str> {
    match &spec.command {
        CommandLine::Shell(line) => vec![line],
        CommandLine::Args(args) => lines_of_shells(args).collect(),
    }
}

/// Whether the line itself gives the variable a value.
fn is_made_in(line: &str, name: &str) -> bool {
    let words = || {
        line.split(|c: char| c != '_' && !c.is_ascii_alphanumeric() && c != '=')
            .filter(|word| !word.is_empty())
    };
    let is_given = words().any(|word| word.split_once('=').is_some_and(|(given, _)| given == name));
    is_given || is_read_in(line, name)
}

/// Whether a command of the line sets the variable that it names: `for x`, `read -r x y`, `printf -v x`, `${x:=…}`.
fn is_read_in(line: &str, name: &str) -> bool {
    const SET_ALL: [&str; 6] = ["read", "mapfile", "readarray", "getopts", "for", "select"];
    let mut commands = line.split([';', '|', '&', '\n', '(', ')', '{', '}']);
    let is_named = commands.any(|command| {
        let mut words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let verb = words.find(|word| SET_ALL.contains(word) || *word == "printf");
        match verb {
            Some("printf") => words.any(|word| word == "-v") && words.next() == Some(name),
            Some("for" | "select") => words.next() == Some(name),
            Some(_) => words.any(|word| word == name),
            None => false,
        }
    });
    let assigned = [format!("${{{name}:="), format!("${{{name}=")];
    is_named || assigned.iter().any(|text| line.contains(text.as_str()))
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};

    use protocol::{
        job::{CommandLine, JobSpec},
        sweep::Sweep,
    };

    use super::{missed, missed_threads, taken_literally};

    fn missed_of(command: CommandLine) -> Vec<String> {
        let mut spec = JobSpec::new(command, "/".into());
        spec.env.insert("GIVEN".into(), "1".into());
        let set = [
            "DATA",
            "N",
            "GIVEN",
            "HOME",
            "PATH",
            "OMP_NUM_THREADS",
            "SLURM_JOB_ID",
            "PILOTFISH_CORES",
            "f",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
            "PPID",
        ];
        missed(&spec, |name| set.contains(&name)).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn variables_of_this_shell_that_tasks_lack_are_found() {
        for (line, expected) in [
            ("ls $DATA/x ${{N}} \"$N\"", &["DATA", "N"][..]),
            ("ls ${DATA:-/tmp}", &["DATA"]),
            ("sh -c 'ls $DATA'", &["DATA"]),
            ("awk '{print $N}' x # $DATA", &[]),
            ("ls \\$DATA $DATAX $1 $$ $? $(date)", &[]),
            ("DATA=/x; ls $DATA", &[]),
            ("export DATA=/x N=2; ls $DATA $N", &[]),
            ("cd $PWD; cd \"$OLDPWD\"; echo $SHLVL $_ $PPID", &[]),
            ("while IFS=, read -r x DATA N; do echo $DATA $N; done < t", &[]),
            ("getopts ab: N; printf -v DATA %s x; echo $DATA $N", &[]),
            (": ${N:=5}; echo $N; mapfile -t DATA < t; echo $DATA", &[]),
            ("printf %s DATA; cat DATA; ls $DATA", &["DATA"]),
            ("for f in *; do cat $f; done; while read N; do echo $N; done", &[]),
            ("echo $HOME $PATH $GIVEN $OMP_NUM_THREADS $SLURM_JOB_ID $PILOTFISH_CORES $UNSET", &[]),
        ] {
            assert_eq!(missed_of(CommandLine::Shell(line.into())), expected, "{line}");
        }
        let args =
            |args: &[&str]| missed_of(CommandLine::Args(args.iter().map(|arg| (*arg).to_owned()).collect()));
        assert_eq!(args(&["bash", "-c", "echo $DATA"]), ["DATA"]);
        assert_eq!(args(&["env", "X=1", "/bin/bash", "-lc", "echo $DATA '$N'"]), ["DATA"]);
        assert_eq!(args(&["python3", "-c", "print('$DATA')"]), Vec::<String>::new());
        assert_eq!(args(&["echo", "$DATA"]), Vec::<String>::new(), "no shell reads it");
    }

    #[test]
    fn number_of_threads_that_does_not_go_along_is_told() {
        let told = |line: &str, env: Option<&str>, here: Option<&str>| {
            let mut spec = JobSpec::new(CommandLine::Shell(line.into()), "/".into());
            spec.env.extend(env.map(|value| ("OMP_NUM_THREADS".to_owned(), value.to_owned())));
            spec.cores = 2;
            missed_threads(&spec, here.map(OsStr::new), line.starts_with("command"))
        };
        let said = "OMP_NUM_THREADS is set to 3 here; tasks get the number of their cores: name it in `env` or \
                    `env_from`";
        assert_eq!(told("./x", None, Some("3")).as_deref(), Some(said));
        let said = "OMP_NUM_THREADS is set to 3 here; tasks get the number of their cores: `--env OMP_NUM_THREADS=3` \
                    takes it";
        assert_eq!(told("command x", None, Some("3")).as_deref(), Some(said));
        assert_eq!(told("./x", None, Some("2")), None, "it is the same");
        assert_eq!(told("./x", None, None), None);
        assert_eq!(told("./x", Some("3"), Some("3")), None);
        assert_eq!(told("OMP_NUM_THREADS=1 ./x", None, Some("3")), None);
    }

    #[test]
    fn values_that_no_shell_reads_are_told() {
        let told = |value: &str| {
            let mut spec = JobSpec::new(CommandLine::Shell("x".into()), "/".into());
            spec.sweep = Sweep::from_lists(vec![("price".to_owned(), vec!["1".to_owned()])]);
            spec.env.insert("V".into(), value.into());
            let here = |name: &str| (name == "V").then(|| OsString::from("along $HOME {x}"));
            taken_literally(&spec, here).iter().map(ToString::to_string).collect::<String>()
        };
        for (value, found) in [
            ("/opt/bin:$PATH", "$PATH"),
            ("${{PATH}}:/opt", "${PATH}"),
            ("${PATH}:/opt", "${PATH}"),
            ("${price} $price", "$price"),
            ("~/data", "~"),
            ("~", "~"),
            ("~ada/x", "~"),
        ] {
            let expected = format!(
                "env.V: found `{found}`, which tasks get as it is written; no shell reads values of `env`: write the \
                 value out, or set V in a shell line of `command`"
            );
            assert_eq!(told(value), expected, "{value}");
        }
        for value in ["a", "5$", "$5", "${price}", "\\$x", "a~b", "~5", "$$x", "along $HOME {{x}}", ""] {
            assert_eq!(told(value), "", "{value}");
        }
    }
}
