//! What a command expects of this shell's environment and tasks will not have.

use std::collections::BTreeSet;

use adapters::transport::goes_to_local_pilots;
use protocol::job::{CommandLine, JobSpec};

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
    let is_named =
        words().zip(words().skip(1)).any(|(verb, word)| ["for", "read"].contains(&verb) && word == name);
    is_given || is_named
}

#[cfg(test)]
mod tests {
    use protocol::job::{CommandLine, JobSpec};

    use super::missed;

    fn missed_of(command: CommandLine) -> Vec<String> {
        let mut spec = JobSpec::new(command, "/".into());
        spec.env.insert("GIVEN".into(), "1".into());
        let set =
            ["DATA", "N", "GIVEN", "HOME", "PATH", "OMP_NUM_THREADS", "SLURM_JOB_ID", "PILOTFISH_CORES", "f"];
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
