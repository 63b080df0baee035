//! `local` and `hosts`: pilots as processes of this host, or of one reached by SSH. The agent itself starts,
//! lists and cancels them, so that nothing else need be installed.

use std::time::Duration;

use profiles::site::Site;

use crate::{
    Adapter, Surroundings,
    command::{AdapterError, AllocationRequest, BatchId, BatchJob, BatchState, Command, Output},
    script::quoted,
};

/// On this host.
pub(crate) const NAME: &str = "local";
/// On another.
pub(crate) const HOSTS_NAME: &str = "hosts";

/// The shell writes this as its last line when the lines of `setup` end it. The exit code follows.
const SETUP_ENDED: &str = "the lines of setup ended the shell with exit code";

/// The shell writes this when a line of `setup` fails and does not end it. The exit code and the line follow.
const SETUP_FAILED: &str = "a line of setup failed with exit code";

/// Starting and listing processes takes milliseconds; a host that needs longer is in trouble.
const TIME_LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Local {
    name: &'static str,
    agent_command: Vec<String>,
    /// Lines of shell before a pilot.
    setup: Vec<String>,
}

impl Local {
    pub(crate) fn new(name: &'static str, surroundings: &Surroundings, site: &Site) -> Local {
        Local { name, agent_command: surroundings.agent_command.clone(), setup: site.setup.clone() }
    }

    fn agent(&self, what: &str, arguments: &[&str], stdin: Vec<u8>) -> Command {
        let mut argv = self.agent_command.clone();
        argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Command { name: format!("the agent ({what})"), argv, stdin, time_limit: TIME_LIMIT }
    }
}

impl Adapter for Local {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_local(&self) -> bool {
        self.name == NAME
    }

    fn submit(&self, request: &AllocationRequest) -> Command {
        let words = ["start", "--tag", &request.tag, "--join", "-"];
        let start = self.agent("starting a pilot", &words, request.join.clone());
        if self.setup.is_empty() {
            return start;
        }
        // The lines may read nothing of the join document, and write nothing where the process id is expected. Where they
        // end the shell, that is told: the agent was not started.
        let script = format!(
            "trap 'echo \"{SETUP_ENDED} $?\" >&2' EXIT\n{}trap - EXIT\nexec \"$@\"",
            lines_of_setup(&self.setup)
        );
        let shell = ["/bin/sh", "-c", &script, "sh"].map(str::to_owned);
        let name = "the lines of setup and the agent (starting a pilot)".to_owned();
        Command { name, argv: shell.into_iter().chain(start.argv).collect(), ..start }
    }

    fn read_submit(&self, output: &Output) -> Result<BatchId, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::Refused(refusal(output)));
        }
        let failed = failed_lines(output);
        if !failed.is_empty() {
            let wrote = output.last_words();
            tracing::warn!(
                platforms = self.name,
                wrote,
                "{}; the pilot begins all the same",
                failed.join("; ")
            );
        }
        match output.stdout.trim().parse::<u32>() {
            Ok(pid) => Ok(pid.to_string()),
            Err(_) => Err(AdapterError::NotUnderstood(output.words())),
        }
    }

    fn list(&self, tag_prefix: &str) -> Command {
        self.agent("listing pilots", &["list", tag_prefix], Vec::new())
    }

    fn read_list(&self, output: &Output) -> Result<Vec<BatchJob>, AdapterError> {
        if output.code != Some(0) {
            return Err(AdapterError::NotUnderstood(output.words()));
        }
        output.stdout.lines().filter(|line| !line.trim().is_empty()).map(read_line).collect()
    }

    fn cancel(&self, ids: &[BatchId]) -> Command {
        let mut arguments = vec!["cancel"];
        arguments.extend(ids.iter().map(String::as_str));
        self.agent("cancelling pilots", &arguments, Vec::new())
    }
}

/// Runs the lines of `setup`, each by itself where each is a whole command, so that one that fails is told.
fn lines_of_setup(lines: &[String]) -> String {
    let together = format!("{{\n{}\n}} < /dev/null >&2\n", lines.join("\n"));
    // These go on in the next line, which no shell tells.
    if lines.iter().any(|line| line.contains("<<") || line.ends_with('\\')) {
        return together;
    }
    let told = |line: &String| {
        let quoted = quoted(line);
        if is_condition(line) {
            return format!("eval {quoted}\n");
        }
        format!(
            "eval {quoted}\npilotfish_code=$?\n[ $pilotfish_code -eq 0 ] || printf '{SETUP_FAILED} %s: %s\\n' \
             $pilotfish_code {quoted}\n"
        )
    };
    let each: String = lines.iter().map(told).collect();
    format!(
        "pilotfish_each=1\nfor pilotfish_line in {}; do\n/bin/sh -n -c \"$pilotfish_line\" 2>/dev/null || \
         pilotfish_each=\ndone\nif [ -n \"$pilotfish_each\" ]; then\n{{\n{each}}} < /dev/null >&2\nelse\n{together}fi\n",
        lines.iter().map(|line| quoted(line)).collect::<Vec<_>>().join(" ")
    )
}

/// Whether a line asks for something first, as `[ -f FILE ] && . FILE` does: its exit code also says that it found nothing.
fn is_condition(line: &str) -> bool {
    let questions = ["[ ", "[[ ", "test ", "command -v ", "type ", "which ", "hash "];
    let line = line.trim_start();
    line.contains("&&") && questions.iter().any(|question| line.starts_with(question))
}

/// The lines in which the shell names those of `setup` that failed.
fn failed_lines(output: &Output) -> Vec<&str> {
    output.stderr.lines().filter(|line| line.starts_with(SETUP_FAILED)).collect()
}

/// Why no pilot was started. What the lines of `setup` have written is in front of why, and may be long: its end counts.
fn refusal(output: &Output) -> String {
    let (wrote, last) = output.stderr.trim_end().rsplit_once('\n').unwrap_or(("", output.stderr.trim_end()));
    if !last.starts_with(SETUP_ENDED) {
        return output.last_words();
    }
    match wrote.trim().is_empty() {
        true => format!("{last}, and wrote nothing"),
        false => format!("{last}: {}", Output { stderr: wrote.to_owned(), ..output.clone() }.last_words()),
    }
}

/// `PID TAG STATE`
fn read_line(line: &str) -> Result<BatchJob, AdapterError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [id, tag, state] = words[..] else {
        return Err(AdapterError::NotUnderstood(line.to_owned()));
    };
    let state = match state {
        "running" => BatchState::Running,
        other => BatchState::Unknown(other.to_owned()),
    };
    Ok(BatchJob { id: id.to_owned(), tag: tag.to_owned(), state, n_tasks: None, reason: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> Local {
        Local::new(NAME, &surroundings(), &Site::default())
    }

    fn surroundings() -> Surroundings {
        Surroundings { agent_command: vec!["/opt/pilotfish".into(), "agent".into()] }
    }

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        Output { code: Some(code), stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn the_join_document_goes_to_standard_input_only() {
        let request = AllocationRequest {
            tag: "pf1-2".into(),
            n_nodes: 1,
            capacity: Default::default(),
            walltime: None,
            join: b"{\"token\":\"secret\"}".to_vec(),
            folder: "/home/ada/pilots/pf1-2".into(),
        };
        let command = local().submit(&request);
        assert_eq!(command.argv.join(" "), "/opt/pilotfish agent start --tag pf1-2 --join -");
        assert_eq!(command.stdin, request.join);
    }

    #[test]
    fn lines_of_setup_are_run_before_the_agent_and_see_nothing_of_the_join_document() {
        let surroundings =
            Surroundings { agent_command: vec!["/bin/sh".into(), "-c".into(), "echo $A; cat".into()] };
        let setup = vec!["export A='a b'".into(), "cat; echo noise".into()];
        let site = Site { setup, ..Site::default() };
        let request = AllocationRequest {
            tag: "pf1-2".into(),
            n_nodes: 1,
            capacity: Default::default(),
            walltime: None,
            join: b"document".to_vec(),
            folder: "/home/ada/pilots/pf1-2".into(),
        };
        let command = Local::new(HOSTS_NAME, &surroundings, &site).submit(&request);
        let mut shell = std::process::Command::new(&command.argv[0]);
        shell.args(&command.argv[1..]).stdin(std::process::Stdio::piped());
        shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("a shell");
        std::io::Write::write_all(&mut shell.stdin.take().expect("a pipe"), &command.stdin)
            .expect("it reads");
        let output = shell.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a b\ndocument");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "noise\n");
    }

    #[test]
    fn setup_that_ends_the_shell_is_named() {
        let said = |line: &str| {
            let site = Site { setup: vec![line.into()], ..Site::default() };
            let surroundings = Surroundings { agent_command: vec!["/bin/echo".into(), "4711".into()] };
            let local = Local::new(NAME, &surroundings, &site);
            let request = AllocationRequest {
                tag: "pf1-2".into(),
                n_nodes: 1,
                capacity: Default::default(),
                walltime: None,
                join: Vec::new(),
                folder: "/home/ada/pilots/pf1-2".into(),
            };
            let command = local.submit(&request);
            let shell =
                std::process::Command::new(&command.argv[0]).args(&command.argv[1..4]).arg("true").output();
            let shell = shell.expect("a shell");
            let stderr = String::from_utf8_lossy(&shell.stderr).into_owned();
            local.read_submit(&output(shell.status.code().unwrap_or(-1), "4711", &stderr))
        };
        assert_eq!(said("true"), Ok("4711".into()));
        let refused = |words: &str| Err(AdapterError::Refused(words.into()));
        let ended = "the lines of setup ended the shell with exit code";
        assert_eq!(said("exit 3"), refused(&format!("{ended} 3, and wrote nothing")));
        assert_eq!(said("set -e; echo why; false; true"), refused(&format!("{ended} 1: why")));
        // The end of what they wrote tells why, however much was before it, with a line end behind it or without.
        let Err(AdapterError::Refused(told)) = said("seq 1000; printf 'no module ü/1' >&2; echo; exit 4")
        else {
            panic!("the shell ended")
        };
        assert!(
            told.starts_with(&format!("{ended} 4: … ")) && told.ends_with(" 999 1000 no module ü/1"),
            "{told}"
        );
        assert!(told.chars().count() < 600, "{told}");
    }

    #[test]
    fn lines_of_setup_that_fail_are_told_and_those_that_belong_together_stay_so() {
        let run = |setup: &[&str]| {
            let setup: Vec<String> = setup.iter().map(|line| (*line).to_owned()).collect();
            let script = format!("{}printf '%s' \"$A\"", lines_of_setup(&setup));
            let shell =
                std::process::Command::new("/bin/sh").args(["-c", &script]).output().expect("a shell");
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            output(shell.status.code().unwrap_or(-1), &text(&shell.stdout), &text(&shell.stderr))
        };
        let said = run(&["A=1", "no-such-module load 'a b'", "(exit 3)", "A=2"]);
        let failed = failed_lines(&said);
        assert_eq!(
            failed,
            [
                "a line of setup failed with exit code 127: no-such-module load 'a b'",
                "a line of setup failed with exit code 3: (exit 3)"
            ]
        );
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "2"), "the pilot begins all the same");
        for setup in [
            &["if false; then", "A=1", "else", "A=2", "fi"][..],
            &["A=$(cat <<END", "2", "END", ")"],
            &["A=\\", "2"],
            &["[ -f /no/such ] || A=2"],
            &["A=2", "[ -f /no/such ] && . /no/such"],
            &["A=2", "command -v no-such-module >/dev/null && no-such-module load x"],
        ] {
            let said = run(setup);
            assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("2", ""), "{setup:?}");
        }
    }

    #[test]
    fn agent_that_does_not_start_says_why_behind_what_setup_wrote() {
        let stderr = format!("{}\nerror: no space left", "loading\n".repeat(200));
        let Err(AdapterError::Refused(told)) = local().read_submit(&output(1, "", &stderr)) else {
            panic!("it was refused")
        };
        assert!(told.starts_with("… loading ") && told.ends_with("loading error: no space left"), "{told}");
    }

    #[test]
    fn a_submission_is_a_process_id_or_an_error() {
        assert_eq!(local().read_submit(&output(0, "4711\n", "")), Ok("4711".into()));
        let refused = AdapterError::Refused("no space left".into());
        assert_eq!(local().read_submit(&output(1, "", "no space\nleft")), Err(refused));
        let strange = AdapterError::NotUnderstood("hello".into());
        assert_eq!(local().read_submit(&output(0, "hello", "")), Err(strange));
    }

    #[test]
    fn a_failed_listing_does_not_mean_that_nothing_is_there() {
        assert_eq!(local().read_list(&output(0, "", "")), Ok(vec![]));
        assert!(local().read_list(&output(1, "", "no /proc")).is_err());
        let jobs =
            local().read_list(&output(0, "12 pf1-2 running\n13 pf1-3 zombie\n", "")).unwrap_or_default();
        assert_eq!(
            jobs[0],
            BatchJob {
                id: "12".into(),
                tag: "pf1-2".into(),
                state: BatchState::Running,
                n_tasks: None,
                reason: None
            }
        );
        assert_eq!(jobs[1].state, BatchState::Unknown("zombie".into()));
    }
}
