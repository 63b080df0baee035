//! Lines of shell that several batch systems need.

/// Finds the name of the account whose jobs are listed, `$user`. A listing of the jobs of another user, or of nobody,
/// would say that ours have ended.
pub(crate) const USER: &str = r#"user=$(id -un 2>/dev/null) || user=
if [ -z "$user" ]; then
echo "cannot tell whose jobs to list: user $(id -u) has no name on this host, as id -un says; look at its directory of users" >&2
exit 1
fi
"#;

/// `wrong WORDS` prints those lines in which a command says that it has failed; some do so and end with 0. `$gone`: what is
/// said of jobs that are gone, which is no failure. What loaders and shells complain of is none, either.
pub(crate) const WRONG: &str = r#"wrong() {
printf '%s\n' "$1" | grep -iE 'error|denied|unauthorized|not authorized|privileges|permi(tted|ssion)|cannot|unable|refused|failed|failure|timed out' | grep -vE "$gone" |
grep -viE 'warning|ignored|module|locale'
}
"#;

#[cfg(test)]
mod tests {
    use crate::{
        Adapter, adapter,
        command::{Command, Output},
        testing::{site, surroundings},
    };

    /// Programs of batch systems that say how they were called.
    const PROGRAMS: &str = r#"
timeout() { shift 2; "$@"; }
qstat() { case $1 in --version) echo "pbs_version = 23.06" ;; *) echo "asked $*" ;; esac; }
squeue() { echo "asked $*"; }
llq() { echo "asked $*"; }
"#;

    /// Each adapter of a batch system, and the command with which it cancels.
    const CANCELS: [(&str, &str); 4] =
        [("slurm", "scancel"), ("pbs", "qdel"), ("gridengine", "qdel"), ("loadleveler", "llcancel")];

    fn of(name: &str) -> Box<dyn Adapter> {
        adapter(name, &surroundings(), &site("batch", &[])).expect(name)
    }

    fn run(programs: &str, command: &Command) -> Output {
        let mut argv = command.argv.clone();
        argv[2] = format!("{PROGRAMS}\n{programs}\n{}", argv[2]);
        let mut shell = std::process::Command::new(&argv[0]);
        shell.args(&argv[1..]).env_remove("SLURM_CLUSTERS").stdin(std::process::Stdio::null());
        let output = shell.output().expect("a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    fn cancel(name: &str, program: &str, words: &str, code: i32) -> Output {
        let programs = format!("{program}() {{ echo '{words}' >&2; return {code}; }}");
        run(&programs, &of(name).cancel(&["12".to_owned()]))
    }

    #[test]
    fn a_cancellation_that_says_that_it_failed_has_failed_although_it_ended_with_0() {
        for words in [
            "scancel: error: Kill job error on job id 12: Access/permission denied",
            "qdel: Unauthorized Request 12.head",
            "you do not have the necessary privileges to delete the job \"12\"",
            "unable to contact the server",
        ] {
            for (name, program) in CANCELS {
                let said = cancel(name, program, words, 0);
                let is_told = said.stderr.contains(words) || name == "loadleveler";
                assert!(said.code != Some(0) && is_told, "{name}, {words}: {said:?}");
            }
        }
    }

    #[test]
    fn cancelling_what_is_gone_and_what_loaders_say_is_no_failure() {
        let preload = "ERROR: ld.so: object from LD_PRELOAD cannot be preloaded: ignored.";
        for (name, program) in CANCELS {
            assert_eq!(cancel(name, program, preload, 0).code, Some(0), "{name}");
            assert_eq!(cancel(name, program, "", 0).code, Some(0), "{name}");
        }
        for code in [0, 1] {
            for (name, program, words) in [
                ("slurm", "scancel", "scancel: error: Kill job error on job id 12: Invalid job id specified"),
                (
                    "slurm",
                    "scancel",
                    "scancel: error: Kill job error on job id 12: Job/step already completing or completed",
                ),
                ("pbs", "qdel", "qdel: Unknown Job Id Error 12.head"),
                ("gridengine", "qdel", "denied: job \"12\" does not exist"),
            ] {
                let said = cancel(name, program, words, code);
                assert_eq!(said.code, Some(0), "{name}, {words}, {code}: {said:?}");
            }
        }
    }

    #[test]
    fn a_user_without_a_name_is_told_and_nobody_elses_jobs_are_listed() {
        for id in [
            "id() { [ \"$1\" = -u ] && { echo 1234; return; }; echo 1234; return 1; }",
            "id() { [ \"$1\" = -u ] && echo 1234; }",
        ] {
            for name in ["pbs", "gridengine", "loadleveler"] {
                let said = run(id, &of(name).list("pf1-"));
                let is_told = said.stderr.contains("user 1234 has no name on this host");
                assert!(
                    said.code == Some(1) && is_told && !said.stdout.contains("asked"),
                    "{name}: {said:?}"
                );
                assert!(
                    of(name).read_list(&said).is_err_and(|error| error.to_string().contains("has no name"))
                );
            }
            let said = run(id, &of("slurm").list("pf1-"));
            assert!(said.stdout.contains("--user=1234"), "SLURM knows numbers: {said:?}");
        }
    }
}
