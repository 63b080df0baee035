//! A page of mistakes: each case runs a command, proves how it ends, and adds what was said to a
//! snapshot in `snapshots/`.

use std::{
    ffi::OsStr,
    fmt::Write,
    fs::File,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use regex::Regex;
use tests::{Running, Sandbox, text, until};

/// A command that takes longer hangs.
const LIMIT_S: &str = "1200";
/// What nobody may be shown for a mistake of their own.
const NEVER: [&str; 4] = ["panicked", "RUST_BACKTRACE", "bug in pilotfish", "stack backtrace"];

/// Cases of one kind, in a sandbox of their own.
pub struct Page {
    pub sandbox: Sandbox,
    name: &'static str,
    text: String,
}

impl Page {
    /// An empty one; `name` is that of its snapshot.
    pub fn new(name: &'static str) -> Page {
        Page { sandbox: Sandbox::new(), name, text: String::new() }
    }

    /// The user's mistake: exit code 2, nothing on standard output.
    pub fn refuses(&mut self, title: &str, arguments: &[&str]) {
        self.ends_silently(title, arguments, 2);
    }

    /// Not the user's mistake: exit code 3, nothing on standard output.
    pub fn fails(&mut self, title: &str, arguments: &[&str]) {
        self.ends_silently(title, arguments, 3);
    }

    /// Ends with this code; whatever it prints is part of the snapshot.
    pub fn ends(&mut self, title: &str, arguments: &[&str], code: i32) {
        let command = self.sandbox.command(arguments);
        self.case(title, command, code);
    }

    fn ends_silently(&mut self, title: &str, arguments: &[&str], code: i32) {
        let command = self.sandbox.command(arguments);
        let output = self.case(title, command, code);
        assert_eq!(text(&output.stdout), "", "{title}: standard output");
    }

    /// Ends with this code because what it prints cannot be written to `out`.
    pub fn to(&mut self, title: &str, arguments: &[&str], out: File, code: i32) {
        let mut command = limited(&self.sandbox.command(arguments));
        command.stdout(out).stderr(Stdio::piped());
        let output = command.spawn().and_then(Child::wait_with_output).expect("it runs");
        self.ended(title, &arguments.join(" "), &output, code);
    }

    /// Any command.
    pub fn case(&mut self, title: &str, command: Command, code: i32) -> Output {
        let shown: Vec<&str> = command.get_args().filter_map(OsStr::to_str).collect();
        self.case_as(title, &shown.join(" ").replace('\n', "\\n"), command, code)
    }

    /// Any command, shown as something else.
    pub fn case_as(&mut self, title: &str, shown: &str, command: Command, code: i32) -> Output {
        let output = limited(&command).output().expect("it runs");
        self.ended(title, shown, &output, code);
        output
    }

    /// What was said otherwise.
    pub fn told(&mut self, title: &str, shown: &str, said: &str, how: &str) {
        assert!(NEVER.iter().all(|word| !said.contains(word)), "{title}: {said}");
        let said = self.redact(&format!("$ {shown}\n{said}"));
        writeln!(self.text, "# {title}: {how}\n{}\n", said.trim_end()).expect("a String");
    }

    fn ended(&mut self, title: &str, shown: &str, output: &Output, code: i32) {
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{title}: pilotfish {shown}\n{out}{err}");
        for word in NEVER {
            assert!(!out.contains(word) && !err.contains(word), "{title}: {word}\n{out}{err}");
        }
        assert!(!err.is_empty() || code == 0, "{title}: nothing is said of it");
        let said = self.redact(&format!("$ pilotfish {shown}\n{out}{err}"));
        writeln!(self.text, "# {title}: exit code {code}\n{}\n", said.trim_end()).expect("a String");
    }

    /// A job file with a mistake: `check` tells of it, `run` and `submit` say the same, and nothing
    /// has begun. `yaml` is shown above what is said.
    pub fn bad_job(&mut self, yaml: &str) {
        self.sandbox.write("job.yaml", yaml);
        let title = format!("\n    {}\n#", yaml.trim_end().replace('\n', "\n    "));
        let command = self.sandbox.command(&["check", "job.yaml"]);
        let output = self.case(&title, command, 2);
        assert_eq!(text(&output.stdout), "", "{title}: standard output");
        for other in ["run", "submit"] {
            let again = self.sandbox.run(&[other, "job.yaml"]);
            assert_eq!(again.status.code(), Some(2), "{other}: {title}");
            assert_eq!(text(&again.stderr), text(&output.stderr), "{other}: {title}");
            assert_eq!(text(&again.stdout), "", "{other}: {title}");
        }
        assert!(!self.sandbox.path().join(".pilotfish").exists(), "`run` has begun something: {title}");
    }

    /// A manager in `FOLDER`, which answers; with these further arguments.
    pub fn serve(&self, folder: &str, arguments: &[&str]) -> Running {
        let mut all = vec!["serve", "--dir", folder];
        all.extend(arguments);
        let manager = self.sandbox.start(&format!("{}-serve", folder.replace('/', "-")), &all);
        // `status` would also answer from the store alone.
        let pid = format!("\"pid\": {},", manager.pid());
        let has_begun = || self.sandbox.read(&format!("{folder}/access.json")).contains(&pid);
        until("the manager has begun", has_begun);
        until("the manager answers", || self.sandbox.run(&["status", "--dir", folder]).status.success());
        manager
    }

    /// Compares with the snapshot.
    pub fn close(self) {
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(self.name, self.text);
        });
    }

    /// Without what differs from run to run and from machine to machine.
    fn redact(&self, said: &str) -> String {
        let canonical = self.sandbox.path().canonicalize().expect("the sandbox is there");
        let host = text(&std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default());
        let mut said = said.to_owned();
        for path in [&canonical, self.sandbox.path()] {
            said = said.replace(&path.display().to_string(), "[HERE]");
        }
        let host = format!("host {}", regex::escape(host.trim()));
        let rules = [
            (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[TIME]"),
            (r"127\.0\.0\.1:\d{2,}", "127.0.0.1:[PORT]"),
            (r"([Pp]rocess|pid) \d+", "$1 [PID]"),
            (&host, "host [HOST]"),
            (r"[0-9a-f]{16}…", "[HASH]…"),
            (r#""(now|now_unix_seconds|store_bytes)": [\d.]+"#, r#""$1": [N]"#),
            (r#""user": "[^"]*""#, r#""user": "[USER]""#),
            (r"pilots/[a-z][0-9a-z]+-\d+", "pilots/[TAG]"),
            (r"at most [0-9.,]+( [KMGT]iB)? here", "at most [SOME] here"),
            (r" in [0-9.]+ ?m?s\b", " in [SPAN]"),
            (r"\b[0-9.]+ ?(µs|ms|s) of", "[SPAN] of"),
        ];
        for (pattern, instead) in rules {
            said =
                Regex::new(pattern).expect("a regular expression").replace_all(&said, instead).into_owned();
        }
        said
    }
}

/// The same command, killed when it hangs, and with backtraces asked for: none may be shown.
fn limited(command: &Command) -> Command {
    let mut limited = Command::new("timeout");
    limited.args(["--signal=KILL", LIMIT_S]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited.env("RUST_BACKTRACE", "1").env_remove("PILOTFISH_LOG").stdin(std::process::Stdio::null());
    limited
}

#[test]
fn at_least_sixty_mistakes_are_shown_and_none_as_a_bug() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("errors/snapshots");
    let mut n_cases = 0;
    for entry in std::fs::read_dir(folder).expect("the snapshots are there").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a snapshot is text");
        n_cases += text.matches(": exit code ").count();
        for word in NEVER {
            assert!(!text.contains(word), "{}: {word}", entry.path().display());
        }
    }
    println!("{n_cases} cases");
    assert!(n_cases >= 60, "only {n_cases} cases");
}
