//! Reads logins from `~/.netrc`, or from the file in `NETRC`, in the format of curl and others.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::header::HeaderValue;

/// A user and a password for a host, byte for byte as in the file.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub user: Vec<u8>,
    /// The password. No message shows it.
    pub password: Vec<u8>,
}

impl Login {
    /// Returns the value of the header `Authorization` (basic authentication, RFC 7617).
    pub fn header(&self) -> Option<HeaderValue> {
        let both = [&*self.user, &*self.password].join(&b':');
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(both))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Returns the path of the file for this process.
pub fn path() -> Option<PathBuf> {
    let named = env::var_os("NETRC").filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".netrc")))
}

/// Returns the login for a host; `None` if the file has none or does not exist.
///
/// # Errors
/// The file cannot be read or is invalid. The text says why, without any word of the file.
pub fn login(path: &Path, host: &str) -> Result<Option<Login>, String> {
    match fs::read(path) {
        Ok(text) => find(&text, host).map_err(|(line, what)| format!("{}:{line}: {what}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("failed to read {}: {error}", path.display())),
    }
}

/// Returns the first entry for the host, or the default entry. Errors: the line, and the fault.
fn find(text: &[u8], host: &str) -> Result<Option<Login>, (usize, &'static str)> {
    // Each byte becomes a character: the encoding is unknown, and only ASCII has a meaning here.
    let text: String = text.iter().copied().map(char::from).collect();
    let mut words = Words { lines: text.lines().enumerate(), line: 0, rest: "" };
    let mut of_all = None;
    let mut entry: Option<Entry> = None;
    loop {
        let word = words.next()?;
        let ends = matches!(word.as_deref(), None | Some("machine" | "default"));
        if let Some(Entry { machine, user, password }) = entry.take_if(|_| ends) {
            let bytes = |text: String| text.chars().filter_map(|c| u8::try_from(c).ok()).collect();
            let login = Login { user: bytes(user), password: bytes(password) };
            match machine {
                Some(machine) if machine.eq_ignore_ascii_case(host) => return Ok(Some(login)),
                Some(_) => {}
                None => of_all = of_all.or(Some(login)),
            }
        }
        let mut value = |what| words.next()?.ok_or((words.line, what));
        match word.as_deref() {
            None => return Ok(of_all),
            Some("machine") => entry = Some(Entry::of(Some(value("found `machine` without a name")?))),
            Some("default") => entry = Some(Entry::of(None)),
            Some(word @ ("login" | "user" | "password" | "account")) => {
                let text = value("found the last word without a value")?;
                let Some(entry) = &mut entry else {
                    return Err((words.line, "found no `machine` before it"));
                };
                match word {
                    "login" | "user" => entry.user = text,
                    "password" => entry.password = text,
                    _ => {}
                }
            }
            // A macro of ftp ends at an empty line.
            Some("macdef") => {
                value("found `macdef` without a name")?;
                while words.next_line().is_some_and(|line| !line.trim().is_empty()) {}
                words.rest = "";
            }
            Some(_) => {
                return Err((
                    words.line,
                    "found another word than machine, default, login, password, account, macdef",
                ));
            }
        }
    }
}

/// An entry of the file; without a machine it is the default.
struct Entry {
    machine: Option<String>,
    user: String,
    password: String,
}

impl Entry {
    fn of(machine: Option<String>) -> Entry {
        Entry { machine, user: String::new(), password: String::new() }
    }
}

struct Words<'t> {
    lines: std::iter::Enumerate<std::str::Lines<'t>>,
    /// Counted from 1.
    line: usize,
    rest: &'t str,
}

/// Not `char::is_whitespace`, which also matches Latin-1 blanks: letters of UTF-8 have bytes of that value.
fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace()
}

impl<'t> Words<'t> {
    fn next_line(&mut self) -> Option<&'t str> {
        let (n, line) = self.lines.next()?;
        (self.line, self.rest) = (n + 1, line);
        Some(line)
    }

    /// Returns the next word, which may be in `"…"`, with `\` as escape.
    fn next(&mut self) -> Result<Option<String>, (usize, &'static str)> {
        loop {
            let rest = self.rest.trim_start_matches(is_blank);
            if !rest.is_empty() && !rest.starts_with('#') {
                self.rest = rest;
                break;
            }
            if self.next_line().is_none() {
                return Ok(None);
            }
        }
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let (word, rest) = self.rest.split_at(self.rest.find(is_blank).unwrap_or(self.rest.len()));
            self.rest = rest;
            return Ok(Some(word.to_owned()));
        };
        let mut word = String::new();
        let mut letters = quoted.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &quoted[at + 1..];
                    return Ok(Some(word));
                }
                '\\' => word.extend(letters.next().map(|(_, letter)| match letter {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                })),
                other => word.push(other),
            }
        }
        Err((self.line, "found `\"` that nothing ends"))
    }
}

#[cfg(test)]
mod tests {
    use super::{Login, find};

    const TEXT: &str = "# of the lab\nmachine data.lab.org login ann password \"h u\\\"sh\"\nmachine other\n  \
        login bob\n  account x\n  password p#q\nmacdef init\ncd /pub\nmachine data.lab.org password no\n\n\
        default login anonymous password guest\nmachine late user eve password w\nmachine data.lab.org login z\n";

    fn login(text: &str, host: &str) -> Result<Option<(String, String)>, String> {
        let found = find(text.as_bytes(), host).map_err(|(line, what)| format!("{line}: {what}"))?;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok(found.map(|login| (text(login.user), text(login.password))))
    }

    #[test]
    fn a_host_has_the_first_login_that_names_it_else_that_of_all() {
        for (host, user, password) in [
            ("data.lab.org", "ann", "h u\"sh"),
            ("DATA.lab.org", "ann", "h u\"sh"),
            ("other", "bob", "p#q"),
            ("late", "eve", "w"),
            ("lab.org", "anonymous", "guest"),
        ] {
            assert_eq!(login(TEXT, host), Ok(Some((user.into(), password.into()))), "{host}");
        }
        assert_eq!(login("machine a login b password c", "x"), Ok(None));
        assert_eq!(login("", "x"), Ok(None));
    }

    #[test]
    fn bytes_of_any_encoding_are_kept() {
        let text = b"# Zug\xe4nge\nmachine a login ada password \"p\xe4 w\"\nmachine b login \xe4\xa0 password \xff\x85x";
        let found = |host| find(text, host).unwrap().map(|login| (login.user, login.password));
        assert_eq!(found("a"), Some((b"ada".to_vec(), b"p\xe4 w".to_vec())));
        assert_eq!(found("b"), Some((b"\xe4\xa0".to_vec(), b"\xff\x85x".to_vec())));
        for (password, header) in [
            (&b""[..], "Basic YWRhOg=="),
            (b"\xe4", "Basic YWRhOuQ="),
            (b"p\xe4", "Basic YWRhOnDk"),
            (b"\xff\xfe?>", "Basic YWRhOv/+Pz4="),
        ] {
            let login = Login { user: b"ada".to_vec(), password: password.to_vec() };
            assert_eq!(login.header().unwrap(), header);
        }
        let utf8 = self::login("machine a login à password Å\u{a0}", "a");
        assert_eq!(utf8, Ok(Some(("à".into(), "Å\u{a0}".into()))));
    }

    #[test]
    fn mistakes_are_told_by_their_line_and_no_word_of_the_file_is() {
        for (text, expected) in [
            ("machine a login b password", "1: found the last word without a value"),
            ("\nlogin hush", "2: found no `machine` before it"),
            ("machine a\npasswort hush", "2: found another word than machine"),
            ("machine a password \"hush", "1: found `\"` that nothing ends"),
            ("machine", "1: found `machine` without a name"),
        ] {
            let said = login(text, "a").expect_err(text);
            assert!(said.starts_with(expected) && !said.contains("hush"), "{text}: {said}");
        }
    }
}
