//! What a command expects of this shell's environment and tasks will not have.

use std::collections::BTreeSet;

use adapters::transport::goes_to_local_pilots;
use protocol::job::{CommandLine, JobSpec};

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

/// Variables that the command's shell line reads, that are set here, and that tasks do not get: neither `env` nor
/// `env_from` has them, and they are not of the host. In order.
pub fn missed(spec: &JobSpec, is_set: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let lines: Vec<&str> = match &spec.command {
        CommandLine::Shell(line) => vec![line],
        CommandLine::Args(args) => {
            args.windows(2).filter(|pair| pair[0] == "-c").map(|pair| pair[1].as_str()).collect()
        }
    };
    let names = lines.iter().flat_map(|line| names_in(line).filter(|name| !is_made_in(line, name)));
    let is_missed = |name: &&str| {
        !spec.env.contains_key(*name)
            && !goes_to_local_pilots(name)
            && *name != "OMP_NUM_THREADS"
            && !OF_SHELLS.contains(name)
            && is_set(name)
    };
    names.filter(is_missed).collect()
}

/// The names in `$NAME` and `${NAME}`, which is `${{NAME}}` in a template. Quotes are not looked at: what stands in them
/// is often for another shell.
fn names_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('$').filter(|(at, _)| !line[..*at].ends_with('\\')).filter_map(|(at, _)| {
        let rest = line[at + 1..].trim_start_matches('{');
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|name| name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()))
    })
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
    use protocol::job::{CommandLine, JobSpec};

    use super::missed;

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
        assert_eq!(args(&["echo", "$DATA"]), Vec::<String>::new(), "no shell reads it");
    }
}
