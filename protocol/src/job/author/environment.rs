//! What a job takes along of the environment in which it is submitted: `env_from`.
//!
//! It becomes part of the job like what stands in `env`, so that `run` and `submit` do the same, and a job that is tried
//! again on another platform has the same variables. What is part of a job is kept by the manager and shown to who may
//! see it: secrets are never taken.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::job::Problem;
use crate::job::problem::quoted;

/// Which variables are taken along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum EnvFrom {
    /// None: tasks have their pilot's.
    #[default]
    None,
    /// All but secrets and those of the session and the host.
    Submit,
    /// These.
    Names(Vec<String>),
}

/// Of the session and the host of the submitter: on a node they would be wrong.
const OF_SESSION: [&str; 31] = [
    "_",
    "COLORTERM",
    "COLUMNS",
    "CUDA_VISIBLE_DEVICES",
    "DISPLAY",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "HOME",
    "HOST",
    "HOSTNAME",
    "HOSTTYPE",
    "LINES",
    "LOGNAME",
    "MACHTYPE",
    "MAIL",
    "OLDPWD",
    "OSTYPE",
    "PWD",
    "ROCR_VISIBLE_DEVICES",
    "SHELL",
    "SHLVL",
    "STY",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TMUX",
    "USER",
    "WINDOWID",
    "XAUTHORITY",
    "ZE_AFFINITY_MASK",
];
/// Beginnings of names of the same kind, and of those that batch systems and pilots set.
const OF_SESSION_PREFIXES: [&str; 19] = [
    "BASH_FUNC_",
    "DBUS_",
    "GPG_",
    "LOADL_",
    "LSB_",
    "NIX_",
    "OMPI_",
    "PBS_",
    "PILOTFISH_",
    "PMIX_",
    "PMI_",
    "SBATCH_",
    "SGE_",
    "SLURM_",
    "SSH_",
    "SYSTEMD_",
    "TERM_",
    "WAYLAND_",
    "XDG_",
];
/// Parts of names of what nobody else should know.
const OF_SECRETS: [&str; 13] = [
    "ACCESS_KEY",
    "APIKEY",
    "API_KEY",
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PRIVATE_KEY",
    "SECRET",
    "SESSION_KEY",
    "TOKEN",
];

/// Variables as `env` has them, and what is wrong with the names.
pub(super) fn taken(
    from: &EnvFrom,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (BTreeMap<String, String>, Vec<Problem>) {
    let text =
        |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    match from {
        EnvFrom::None => (BTreeMap::new(), Vec::new()),
        EnvFrom::Submit => {
            let kept = variables
                .filter_map(text)
                .filter(|(name, value)| is_name(name) && !is_of_session(name) && !is_secret(name, value));
            (kept.map(|(name, value)| (name, escaped(&value))).collect(), Vec::new())
        }
        EnvFrom::Names(names) => {
            let there: BTreeMap<String, String> = variables.filter_map(text).collect();
            let (mut kept, mut problems) = (BTreeMap::new(), Vec::new());
            for (n, name) in names.iter().enumerate() {
                match there.get(name) {
                    Some(value) if is_secret(name, value) => problems.push(problem(
                        n,
                        format!("{}, which looks like a secret", quoted(name)),
                        "what a job takes along is kept and shown: let tasks read secrets from a file that only you can read",
                    )),
                    Some(value) => _ = kept.insert(name.clone(), escaped(value)),
                    None => problems.push(problem(
                        n,
                        format!("{}, which is not set here", quoted(name)),
                        "export it before, or take it out",
                    )),
                }
            }
            (kept, problems)
        }
    }
}

fn problem(n: usize, found: String, expected: &str) -> Problem {
    Problem::new(format!("env_from[{n}]"), found, expected)
}

/// Others are no variables of shells: exported functions, for one.
fn is_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && name.chars().all(is_word) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_of_session(name: &str) -> bool {
    OF_SESSION.contains(&name) || OF_SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// By its name, or as it has a password in an address or a token of ours.
fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_of_author = name.contains("AUTHOR");
    let is_named_so = OF_SECRETS.iter().any(|part| name.contains(part) && !(is_of_author && *part == "AUTH"));
    let has_password = value.split_once("://").is_some_and(|(_, rest)| {
        let host = rest.split('/').next().unwrap_or(rest);
        host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    });
    let is_ours = ["pfu_", "pfj_", "pfs_", "pfo_"].iter().any(|start| value.starts_with(start));
    is_named_so
        || name.ends_with("_KEY")
        || name.ends_with("_PW")
        || name.ends_with("_PASS")
        || has_password
        || is_ours
}

/// A template that renders to this text.
fn escaped(text: &str) -> String {
    let (mut template, mut n_open) = (String::with_capacity(text.len()), 0_usize);
    for c in text.chars() {
        match c {
            '{' => {
                n_open += 1;
                template.push_str("{{");
            }
            '}' if n_open > 0 => {
                n_open -= 1;
                template.push_str("}}");
            }
            c => template.push(c),
        }
    }
    template
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{EnvFrom, escaped, taken};

    fn variables() -> impl Iterator<Item = (OsString, OsString)> {
        let all = [
            ("PYTHONPATH", "/home/ada/lib"),
            ("CONFIG", "{\"a\": 1}"),
            ("AUTHOR", "ada"),
            ("GITHUB_TOKEN", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("db_password", "x"),
            ("DATABASE_URL", "postgres://ada:secret@db/x"),
            ("PROXY", "http://proxy:3128"),
            ("MY_LOGIN", "pfu_1.abc"),
            ("HOME", "/home/ada"),
            ("SSH_AUTH_SOCK", "/tmp/x"),
            ("SLURM_JOB_ID", "7"),
            ("BASH_FUNC_module%%", "() { :; }"),
        ];
        all.into_iter().map(|(name, value)| (name.into(), value.into()))
    }

    fn names(from: &EnvFrom) -> Vec<String> {
        taken(from, variables()).0.into_keys().collect()
    }

    #[test]
    fn all_is_taken_but_secrets_and_what_belongs_to_the_session() {
        assert_eq!(names(&EnvFrom::None), [""; 0]);
        assert_eq!(names(&EnvFrom::Submit), ["AUTHOR", "CONFIG", "PROXY", "PYTHONPATH"]);
        assert_eq!(taken(&EnvFrom::Submit, variables()).0["CONFIG"], "{{\"a\": 1}}");
    }

    #[test]
    fn of_a_list_each_is_taken_or_refused_in_words() {
        let from = EnvFrom::Names(["HOME", "GITHUB_TOKEN", "NOT_THERE"].map(str::to_owned).to_vec());
        let (kept, problems) = taken(&from, variables());
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), ["HOME"], "who names it wants it");
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(told[0].contains("env_from[1]") && told[0].contains("looks like a secret"), "{told:?}");
        assert!(told[1].contains("env_from[2]") && told[1].contains("not set here"), "{told:?}");
    }

    #[test]
    fn braces_of_values_stay_as_they_are() {
        for (text, template) in [("{a}", "{{a}}"), ("a}b", "a}b"), ("{a}}", "{{a}}}"), ("${x}", "${{x}}")] {
            assert_eq!(escaped(text), template);
        }
    }
}
