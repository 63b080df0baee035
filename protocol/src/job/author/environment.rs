//! What a job takes along of the environment in which it is submitted: `env_from`.
//!
//! It becomes part of the job like what stands in `env`, so that `run` and `submit` do the same, and a job that is tried
//! again on another platform has the same variables. What is part of a job is kept by the manager and shown to who may
//! see it: secrets are never taken.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::problem::{Problem, quoted};

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
/// Words of names of what nobody else should know: parts between `_`, and what longer parts end with.
const SECRET_WORDS: [&str; 29] = [
    "APIKEY",
    "APPKEY",
    "AUTH",
    "AUTHKEY",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "COOKIES",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "CRYPTIONKEY",
    "CRYPTKEY",
    "GITHUBPAT",
    "GITLABPAT",
    "JWT",
    "MASTERKEY",
    "PASSCODE",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PASSWORDS",
    "PRIVKEY",
    "SECRET",
    "SECRETKEY",
    "SECRETS",
    "SIGNINGKEY",
    "SSHKEY",
    "TOKEN",
];
/// Words that mean a secret only where they are a whole part.
const SECRET_PARTS: [&str; 2] = ["CRED", "OAUTH2"];
/// Words that mean a secret only where a name ends with them as a whole part.
const SECRET_ENDS: [&str; 6] = ["KEY", "PASS", "PAT", "PW", "PWD", "DSN"];
/// Those of them that also mean one where a longer part ends a name with them: `SSHPASS`, `BINDPW`.
const SECRET_TAILS: [&str; 4] = ["PASS", "PW", "PWD", "DSN"];
/// Ends of names that have these tails and are no secrets.
const HARMLESS_TAILS: [&str; 18] = [
    "ALLPASS",
    "BANDPASS",
    "BYPASS",
    "COMPASS",
    "CURPWD",
    "FIRSTPASS",
    "HIGHPASS",
    "LOWPASS",
    "MULTIPASS",
    "OLDPWD",
    "ONEPASS",
    "ORIGPWD",
    "OVERPASS",
    "SINGLEPASS",
    "SURPASS",
    "TRESPASS",
    "TWOPASS",
    "UNDERPASS",
];
/// Texts that mean a secret wherever they are in a name.
const SECRET_TEXTS: [&str; 9] = [
    "ACCESS_KEY",
    "ACCESSKEY",
    "ACCOUNTKEY",
    "API_KEY",
    "BW_SESSION",
    "OP_SESSION",
    "PRIVATE_KEY",
    "PRIVATEKEY",
    "WEBHOOK",
];
/// How tokens of well-known services begin. They are long.
const TOKEN_PREFIXES: [&str; 44] = [
    "AIza",
    "AKIA",
    "ASIA",
    "ATATT",
    "ATCTT",
    "GOCSPX-",
    "SG.",
    "dapi",
    "dckr_oat_",
    "dckr_pat_",
    "dop_v1_",
    "eyJ",
    "gho_",
    "ghp_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glcbt-",
    "gldt-",
    "glpat-",
    "glptt-",
    "glrt-",
    "glsa_",
    "gsk_",
    "hf_",
    "hvb.",
    "hvs.",
    "npm_",
    "nvapi-",
    "pypi-",
    "rk_live_",
    "rk_test_",
    "sk-",
    "sk_live_",
    "sk_test_",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxe",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "ya29.",
];
/// Ours begin so.
const OWN_PREFIXES: [&str; 4] = ["pfu_", "pfj_", "pfs_", "pfo_"];
/// Within a text a token has so many letters and digits in a row, where names of programs and folders have fewer.
const TOKEN_RUN_MIN: usize = 12;
/// What is a secret wherever it stands: keys, and addresses that let everybody write who knows them.
const SECRET_MARKS: [&str; 9] = [
    "PRIVATE KEY-----",
    "PRIVATE KEY BLOCK-----",
    "AGE-SECRET-KEY-1",
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/",
    "outlook.office.com/webhook/",
];
const TOKEN_BYTES_MIN: usize = 20;
/// Signatures of addresses are long, too.
const SIGNATURE_BYTES_MIN: usize = 20;

/// What is taken of an environment.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Variables as `env` has them.
    pub(super) env: BTreeMap<String, String>,
    /// Names that are left out and that users may miss: those of secrets, and those with a value that is not UTF-8.
    pub(super) left_out: Vec<String>,
    /// What is wrong with the names.
    pub(super) problems: Vec<Problem>,
}

/// Takes those variables along that are wanted.
pub(super) fn taken(from: &EnvFrom, variables: impl Iterator<Item = (OsString, OsString)>) -> Taken {
    match from {
        EnvFrom::None => Taken::default(),
        EnvFrom::Submit => all(variables),
        EnvFrom::Names(names) => named(names, variables),
    }
}

fn all(variables: impl Iterator<Item = (OsString, OsString)>) -> Taken {
    let mut taken = Taken::default();
    for (name, value) in variables {
        // Others are no variables of shells.
        let Some(name) = name.into_string().ok().filter(|name| is_name(name) && !is_of_session(name)) else {
            continue;
        };
        match value.into_string() {
            Ok(value) if !is_secret(&name, &value) => _ = taken.env.insert(name, escaped(&value)),
            Ok(_) | Err(_) => taken.left_out.push(name),
        }
    }
    taken.left_out.sort_unstable();
    taken
}

fn named(names: &[String], variables: impl Iterator<Item = (OsString, OsString)>) -> Taken {
    let there: BTreeMap<String, OsString> =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    let mut taken = Taken::default();
    for (n, name) in names.iter().enumerate() {
        let refusal = match there.get(name) {
            Some(value) => env_from_refusal(name, value),
            // Nobody can export such a thing.
            None if !is_name(name) => Some(no_name(name)),
            None => Some(("is not set here", "export it before, or take it out")),
        };
        match (refusal, there.get(name).and_then(|value| value.to_str())) {
            (Some((found, expected)), _) => {
                taken.problems.push(problem(n, format!("{}, which {found}", quoted(name)), expected));
            }
            (None, value) => {
                taken.env.insert(name.clone(), escaped(value.unwrap_or_default()));
            }
        }
    }
    taken
}

/// What is no name of a variable, and what may have been meant.
fn no_name(name: &str) -> (&'static str, &'static str) {
    let expected = match name {
        name if name.contains('=') => "write names only; values stand in `env`, like `env: {NAME: value}`",
        name if name.contains(['*', '?', '[']) => {
            "patterns are not known here: write each name, or `env_from: submit` for all"
        }
        _ => "write names of letters, digits and `_`",
    };
    ("is no name of a variable", expected)
}

/// Why `env_from` does not take a variable that is named: what it is, and what to do instead.
pub fn env_from_refusal(name: &str, value: &OsStr) -> Option<(&'static str, &'static str)> {
    match value.to_str() {
        Some(value) => is_secret(name, value).then_some((
            "looks like a secret",
            "what a job takes along is kept and shown: let tasks read secrets from a file that only you can read",
        )),
        None => Some(("has a value that is not UTF-8", "a job is text: set it in a script of the task")),
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

/// By its name, or by what its value looks like.
fn is_secret(name: &str, value: &str) -> bool {
    is_named_secret(name) || is_secret_value(value)
}

fn is_named_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let parts: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let is_word =
        |part: &&str| SECRET_PARTS.contains(part) || SECRET_WORDS.iter().any(|word| part.ends_with(*word));
    // `NPW` is rather a count.
    let has_tail = |last: &str| {
        last.len() > 3
            && SECRET_TAILS.iter().any(|tail| last.ends_with(tail))
            && !HARMLESS_TAILS.iter().any(|tail| last.ends_with(tail))
    };
    SECRET_TEXTS.iter().any(|text| name.contains(text))
        || parts.iter().any(is_word)
        || parts.last().is_some_and(|last| SECRET_ENDS.contains(last) || has_tail(last))
}

/// Whether it has parts like `Password=…`, as texts that say how a database is reached, and addresses with parameters.
fn names_secret(value: &str) -> bool {
    let mut parts = value.split([';', '&', '?', ',', ' ', '\n']).filter_map(|part| part.split_once('='));
    parts.any(|(name, said)| !said.trim().is_empty() && (is_secret_field(name) || is_signature(name, said)))
        || has_secret_field(value)
}

/// Whether it is the parameter that makes an address a signed one: whoever knows the address may read what it leads to.
fn is_signature(name: &str, said: &str) -> bool {
    let last = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    said.len() >= SIGNATURE_BYTES_MIN
        && ["sig", "signature"].iter().any(|word| last.eq_ignore_ascii_case(word))
}

fn is_secret_field(name: &str) -> bool {
    let name = name.trim().to_ascii_uppercase();
    // `key=1` is often none.
    let is_key = name.rsplit(|c: char| !c.is_ascii_alphanumeric()).next() == Some("KEY");
    SECRET_TEXTS.iter().any(|text| name.contains(text)) || (!is_key && is_named_secret(&name))
}

/// Whether it has fields like `"password": "…"`, as JSON and Python write them.
fn has_secret_field(value: &str) -> bool {
    // Quotes of JSON within JSON have a backslash before them.
    let is_around = |c: char| c == '\\' || c.is_whitespace();
    let pieces = value.split(['"', '\'']).chain([""]).map(|piece| piece.trim_matches(is_around));
    let pieces: Vec<&str> = pieces.collect();
    pieces.windows(3).any(|three| {
        let (name, said) = (three[0], three[1].strip_prefix(':').map(str::trim));
        let is_said = match said {
            Some("") => !three[2].is_empty(),
            Some(said) => said.starts_with(|c: char| c.is_ascii_digit()),
            None => false,
        };
        is_said && is_secret_field(name)
    })
}

/// Whether there is a password before the host of an address, or of what looks like one without a scheme.
fn has_password(value: &str) -> bool {
    let is_user = |user: &str| {
        let both = user.split_once(':');
        both.is_some_and(|(user, password)| !password.is_empty() && !user.contains(char::is_whitespace))
    };
    let in_address = |rest: &str| {
        let host = rest.split(['/', ' ']).next().unwrap_or(rest);
        host.rsplit_once('@').is_some_and(|(user, _)| is_user(user))
    };
    let is_bare = !value.starts_with(['/', '.', '@']) && !value.contains("://");
    value.split("://").skip(1).any(in_address) || (is_bare && in_address(value))
}

/// Whether it is or has a token of ours, of a well-known service, or a key.
fn is_token(value: &str) -> bool {
    let is_long = value.len() >= TOKEN_BYTES_MIN && !value.contains(char::is_whitespace);
    let is_known = is_long && TOKEN_PREFIXES.iter().any(|start| value.starts_with(start));
    let first = value.split(' ').next().unwrap_or_default();
    let is_header =
        ["Bearer", "Basic"].iter().any(|word| first.eq_ignore_ascii_case(word)) && value.len() > 6;
    OWN_PREFIXES.iter().any(|start| value.starts_with(start))
        || is_known
        || is_header
        || SECRET_MARKS.iter().any(|mark| value.contains(mark))
        || has_token(value)
        || has_login(value)
}

/// Whether one of its parts is a token: they begin with what no other word begins with, and go on at random.
fn has_token(value: &str) -> bool {
    let is_between = |c: char| !(c.is_ascii_alphanumeric() || "_-.:".contains(c));
    let mut parts = value.split(is_between).flat_map(|part| [part, part.rsplit(':').next().unwrap_or(part)]);
    parts.any(|part| {
        let mut prefixes = TOKEN_PREFIXES.iter().chain(&OWN_PREFIXES);
        let is_known = part.len() >= TOKEN_BYTES_MIN && prefixes.any(|start| part.starts_with(start));
        (is_known && is_random(part)) || is_of_bot(part)
    })
}

/// Whether it has letters and digits in a row as names of programs and folders hardly have.
fn is_random(part: &str) -> bool {
    let mut runs = part.split(|c: char| !c.is_ascii_alphanumeric());
    runs.any(|run| {
        run.len() >= TOKEN_RUN_MIN
            && run.contains(|c: char| c.is_ascii_digit())
            && run.contains(|c: char| c.is_ascii_alphabetic())
    })
}

/// The tokens of Telegram's bots: a number, and 35 characters. Addresses have `bot` before it.
fn is_of_bot(part: &str) -> bool {
    let part = part.strip_prefix("bot").unwrap_or(part);
    part.split_once(':').is_some_and(|(number, rest)| {
        (8..=10).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && rest.len() == 35
            && rest.starts_with("AA")
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    })
}

/// Whether it has a header like `Authorization: Basic …`, or a user and a password for `curl`.
fn has_login(value: &str) -> bool {
    let is_quote = |c: char| "\"'".contains(c);
    let words: Vec<&str> = value.split_whitespace().map(|word| word.trim_matches(is_quote)).collect();
    let is_curl = words.iter().any(|word| word.rsplit('/').next() == Some("curl"));
    let has_both = |login: &str| {
        login.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
    };
    words.windows(2).any(|two| {
        // Fields of JSON have a quote there.
        let header = two[0].strip_suffix(':').filter(|name| !name.ends_with(is_quote)).is_some_and(|name| {
            let name = name.trim_start_matches("-H").trim_matches(is_quote);
            is_secret_field(name) || name.eq_ignore_ascii_case("private-token")
        });
        let is_login = ["-u", "--user", "-U", "--proxy-user"].contains(&two[0]) && has_both(two[1]);
        (header && two[1].len() > 4) || (is_curl && is_login)
    })
}

/// Whether a value looks like a secret, whatever its name is: all see it who see the job.
pub fn is_secret_value(value: &str) -> bool {
    names_secret(value) || has_password(value) || is_token(value)
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
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    use super::{EnvFrom, Taken, escaped, is_secret, taken};

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
        taken(from, variables()).env.into_keys().collect()
    }

    #[test]
    fn all_is_taken_but_secrets_and_what_belongs_to_the_session() {
        assert_eq!(names(&EnvFrom::None), [""; 0]);
        assert_eq!(names(&EnvFrom::Submit), ["AUTHOR", "CONFIG", "PROXY", "PYTHONPATH"]);
        assert_eq!(taken(&EnvFrom::Submit, variables()).env["CONFIG"], "{{\"a\": 1}}");
    }

    #[test]
    fn of_a_list_each_is_taken_or_refused_in_words() {
        let from = EnvFrom::Names(["HOME", "GITHUB_TOKEN", "NOT_THERE"].map(str::to_owned).to_vec());
        let Taken { env, problems, .. } = taken(&from, variables());
        assert_eq!(env.into_keys().collect::<Vec<_>>(), ["HOME"], "who names it wants it");
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(told[0].contains("env_from[1]") && told[0].contains("looks like a secret"), "{told:?}");
        assert!(told[1].contains("env_from[2]") && told[1].contains("not set here"), "{told:?}");
    }

    #[test]
    fn name_that_cannot_be_one_is_refused_as_such() {
        let from = EnvFrom::Names(["A=B", "", "A*"].map(str::to_owned).to_vec());
        let told: Vec<String> = taken(&from, variables()).problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "env_from[0]: `A=B` is no name of a variable; write names only; values stand in `env`, like \
                 `env: {NAME: value}`",
                "env_from[1]: `` is no name of a variable; write names of letters, digits and `_`",
                "env_from[2]: `A*` is no name of a variable; patterns are not known here: write each name, or \
                 `env_from: submit` for all",
            ]
        );
    }

    #[test]
    fn secrets_are_known_by_whole_words_of_their_names_and_by_their_values() {
        for (name, value) in [
            ("MYSQL_PWD", "x"),
            ("DB_PWD", "x"),
            ("GITHUB_PAT", "x"),
            ("AUTHORIZATION", "x"),
            ("HTTP_AUTH", "x"),
            ("SLACK_WEBHOOK", "https://hooks/x"),
            ("SLACK_WEBHOOK_URL", "https://hooks/x"),
            ("CREDS", "user:pass"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "x"),
            ("GITHUBTOKEN", "x"),
            ("dbPassword", "x"),
            ("HF_TOKEN", "x"),
            ("AWS_ACCESS_KEY_ID", "x"),
            ("OPENAI_API_KEY", "x"),
            ("ENCRYPTION_KEY", "x"),
            ("DB_PASS", "x"),
            ("SSHPASS", "x"),
            ("DBPASS", "x"),
            ("dbPass", "x"),
            ("LDAP_BINDPW", "x"),
            ("DBPWD", "x"),
            ("SENTRYDSN", "x"),
            ("AWSCREDS", "x"),
            ("SSHKEY", "x"),
            ("DEPLOY_PRIVATEKEY", "x"),
            ("MASTERKEY", "x"),
            ("X", "AIza0123456789abcdefghijklmnopqrstuvwxyz"),
            ("X", "sk_live_0123456789abcdef"),
            ("ACCOUNT", r#"{"type":"service_account","private_key":"x"}"#),
            ("CONF", r#"{"db": {"user": "ada", "password" : "x"}}"#),
            ("CONF", r#"{"pin": 1, "passcode": 1234}"#),
            ("CONF", "{'user': 'ada', 'token': 'x'}"),
            ("CONF", r#"{"db": "{\"password\": \"x\"}"}"#),
            ("CONN", "host=db,bindpw=x"),
            ("FEED", "https://h/x?apikey=f"),
            ("SESSION_COOKIE", "x"),
            ("CONN", "Server=x;Password=f"),
            ("CONN", "host=db user=ada password=f"),
            ("CONN", "AccountName=a;AccountKey=f"),
            ("JAVA_OPTS", "-Xmx1g -Djavax.net.ssl.keyStorePassword=f"),
            ("FEED", "https://h/x?access_token=f"),
            ("SRC", "https://s3.h/b/x?X-Amz-Expires=60&X-Amz-Signature=0123456789abcdef0123456789abcdef"),
            ("SRC", "https://a.blob.h/c/x?sv=2024&sig=0123456789abcdef0123%3D"),
            ("DB", "postgres://ada:f@db/x"),
            ("BROKERS", "amqp://h1,amqp://ada:f@h2"),
            ("LOGIN", "ada:f@db:5432/x"),
            ("HEADER", "Bearer abcdef"),
            ("X", "ghp_0123456789abcdefghijklmnop"),
            ("CERT", "-----BEGIN RSA PRIVATE KEY-----\nx"),
            ("CERT", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx"),
            ("X", "AGE-SECRET-KEY-1QQQ"),
            ("X", "https://hooks.slack.com/services/T0/B0/x"),
            ("X", "https://discord.com/api/webhooks/1/x"),
            ("X", "glrt-0123456789abcdefghij"),
            ("X", "dop_v1_0123456789abcdef0123456789abcdef"),
            ("X", "dapi0123456789abcdef0123456789abcdef"),
            ("X", "ASIA0123456789ABCDEF"),
            ("X", "xoxe.xoxp-1-0123456789abcdefghij"),
            ("X", "sk_test_0123456789abcdef"),
            ("X", "ATATT3x0123456789abcdefgh"),
            ("X", "12345678:AA0123456789abcdefghijklmnopqrstuvw"),
            ("X", "https://api.telegram.org/bot12345678:AA0123456789abcdefghijklmnopqrstuvw/getMe"),
            ("X", "login --with ghp_0123456789abcdefghijklmnop now"),
            ("X", "{\"a\": \"glpat-0123456789abcdefghij\"}"),
            ("X", "Authorization: Basic YW5uOmdlaGVpbQ=="),
            ("X", "curl -H 'Authorization: Bearer abcdef' https://h/"),
            ("X", "curl -u ann:geheim https://h/"),
            ("BW_SESSION", "x"),
        ] {
            assert!(is_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("TOKENIZERS_PARALLELISM", "false"),
            ("MAX_TOKENS", "10"),
            ("SECRETARY", "bob"),
            ("AUTHOR", "ada"),
            ("AUTHORS", "ada"),
            ("COMPASS", "north"),
            ("BYPASS", "1"),
            ("FILTER_LOWPASS", "0.1"),
            ("OLDPWD", "/home/ada"),
            ("NPW", "4"),
            ("COMPAT", "1"),
            ("SACRED", "1"),
            ("CACHE_HOTKEY", "a"),
            ("CONF", r#"{"author": "ada", "max_tokens": 5, "key": "a", "password": "", "auth": true}"#),
            ("CONF", r#"["password", "x"]"#),
            ("PKG", "npm_cache"),
            ("MONKEY", "1"),
            ("KEYBOARD", "de"),
            ("PATH", "/opt/a@1/bin:/usr/bin"),
            ("MODULEPATH", "a:b"),
            ("PATTERN", "x"),
            ("GIT_URL", "ssh://git@github.com/x"),
            ("REMOTE", "ada@host:/data"),
            ("PROXY", "http://proxy:3128"),
            ("OPTS", "key=3 passes=2 sig=0.95"),
            ("LS_COLORS", "di=01;34:ln=01;36"),
            ("LANG", "sk_SK.UTF-8"),
            ("BASIC", "Basically nothing"),
            ("ENVS", "/opt/sk-learn-pipelines-2024/bin:/opt/hf_transformers_cache_2"),
            ("RUN", "docker run -u 1000:1000 image"),
            ("NOTE", "author: ada lovelace"),
            ("TIMES", "12345678:30"),
        ] {
            assert!(!is_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn names_that_are_left_out_are_known_and_values_that_are_not_utf8_are_called_that() {
        let latin = || std::iter::once(("FOO".into(), OsString::from_vec(b"b\xe9".to_vec())));
        let all = || variables().chain(latin());
        assert_eq!(
            taken(&EnvFrom::Submit, all()).left_out,
            ["AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "FOO", "GITHUB_TOKEN", "MY_LOGIN", "db_password"]
        );
        let told = &taken(&EnvFrom::Names(vec!["FOO".to_owned()]), all()).problems[0];
        assert!(told.to_string().contains("`FOO` has a value that is not UTF-8"), "{told}");
    }

    #[test]
    fn braces_of_values_stay_as_they_are() {
        for (text, template) in [("{a}", "{{a}}"), ("a}b", "a}b"), ("{a}}", "{{a}}}"), ("${x}", "${{x}}")] {
            assert_eq!(escaped(text), template);
        }
    }
}
