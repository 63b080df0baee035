//! Who enters where: `~/.netrc`, or the file that `NETRC` names, as curl and others read it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

/// A user and a password for a host.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password. It is shown in no message.
    pub password: String,
}

/// Where that file is, for this process.
pub fn path() -> Option<PathBuf> {
    let named = env::var_os("NETRC").filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".netrc")))
}

/// The login that the file has for a host; `None`: it has none, or is not there.
///
/// # Errors
/// The file cannot be read, or is no such file: what is wrong, without a word of what stands there.
pub fn login(path: &Path, host: &str) -> Result<Option<Login>, String> {
    match fs::read_to_string(path) {
        Ok(text) => find(&text, host).map_err(|(line, what)| format!("{}:{line}: {what}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("failed to read {}: {error}", path.display())),
    }
}

/// The first entry for that host, or the one for all others. Errors: the line, and what is wrong with it.
fn find(text: &str, host: &str) -> Result<Option<Login>, (usize, &'static str)> {
    let mut words = Words { lines: text.lines().enumerate(), line: 0, rest: "" };
    let mut of_all = None;
    let mut entry: Option<Entry> = None;
    loop {
        let word = words.next()?;
        let ends = matches!(word.as_deref(), None | Some("machine" | "default"));
        if let Some(Entry { machine, user, password }) = entry.take_if(|_| ends) {
            let login = Login { user, password };
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
            // A macro of ftp's, up to an empty line.
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

/// What is said of a host; without a name of all others.
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

impl<'t> Words<'t> {
    fn next_line(&mut self) -> Option<&'t str> {
        let (n, line) = self.lines.next()?;
        (self.line, self.rest) = (n + 1, line);
        Some(line)
    }

    /// The next word, which may stand in `"…"` with `\` before what is meant as it stands.
    fn next(&mut self) -> Result<Option<String>, (usize, &'static str)> {
        loop {
            let rest = self.rest.trim_start();
            if !rest.is_empty() && !rest.starts_with('#') {
                self.rest = rest;
                break;
            }
            if self.next_line().is_none() {
                return Ok(None);
            }
        }
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let (word, rest) =
                self.rest.split_at(self.rest.find(char::is_whitespace).unwrap_or(self.rest.len()));
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
    use super::find;

    const TEXT: &str = "# of the lab\nmachine data.lab.org login ann password \"h u\\\"sh\"\nmachine other\n  \
        login bob\n  account x\n  password p#q\nmacdef init\ncd /pub\nmachine data.lab.org password no\n\n\
        default login anonymous password guest\nmachine late user eve password w\nmachine data.lab.org login z\n";

    fn login(text: &str, host: &str) -> Result<Option<(String, String)>, String> {
        let found = find(text, host).map_err(|(line, what)| format!("{line}: {what}"))?;
        Ok(found.map(|login| (login.user, login.password)))
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
