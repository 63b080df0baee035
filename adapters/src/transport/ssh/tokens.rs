//! Fills in what OpenSSH's configuration writes as tokens (`%h`) and variables (`${HOME}`): `ssh -G` prints them as they
//! are written.

use std::path::PathBuf;

use nix::unistd::{Uid, User, gethostname};
use ring::digest;

/// What tokens stand for.
pub(super) struct Values<'v> {
    /// The host as it was called.
    pub(super) name: &'v str,
    /// The host's name.
    pub(super) host: &'v str,
    pub(super) port: &'v str,
    /// The user there.
    pub(super) user: &'v str,
    /// HostKeyAlias.
    pub(super) alias: Option<&'v str>,
    /// The host of ProxyJump, the last one of several, without its user and port. Programs before 9.6 make no part of
    /// `%C` of it: `None` stands for them, too.
    pub(super) jump: Option<&'v str>,
}

impl Values<'_> {
    /// A path, with its tokens, its variables and `~` filled in. Errors: what there is no value of, in words.
    pub(super) fn path(&self, text: &str) -> Result<PathBuf, String> {
        let text = self.filled(&with_variables(text)?)?;
        Ok(match (text.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => text.into(),
        })
    }

    /// A text with its tokens filled in.
    pub(super) fn filled(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c != '%' {
                filled.push(c);
                continue;
            }
            let token = rest.next().unwrap_or(' ');
            match self.value(token) {
                Some(value) => filled.push_str(&value),
                None => return Err(format!("the token %{token} in `{text}` is not known here")),
            }
        }
        Ok(filled)
    }

    fn value(&self, token: char) -> Option<String> {
        let local = || gethostname().unwrap_or_default().to_string_lossy().into_owned();
        Some(match token {
            '%' => "%".to_owned(),
            'h' => self.host.to_owned(),
            'n' => self.name.to_owned(),
            'p' => self.port.to_owned(),
            'r' => self.user.to_owned(),
            'k' => self.alias.unwrap_or(self.name).to_owned(),
            'j' => self.jump.unwrap_or("").to_owned(),
            'u' => local_user(),
            'i' => Uid::current().to_string(),
            'd' => std::env::home_dir()?.display().to_string(),
            'l' => local(),
            'L' => local().split('.').next().unwrap_or("").to_owned(),
            'C' => {
                let text =
                    format!("{}{}{}{}{}", local(), self.host, self.port, self.user, self.jump.unwrap_or(""));
                let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
                hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
            }
            _ => return None,
        })
    }
}

/// Who runs this.
pub(super) fn local_user() -> String {
    let user = User::from_uid(Uid::current()).ok().flatten();
    user.map_or_else(|| Uid::current().to_string(), |user| user.name)
}

fn with_variables(text: &str) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut filled = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or(format!("found `{text}`; a variable has no end"))?;
        let value = std::env::var(name);
        filled.push_str(&value.map_err(|_| format!("found `{text}`; there is no variable {name}"))?);
        filled.push_str(rest);
    }
    Ok(filled)
}

/// The paths of a list that `ssh -G` prints without quotes: words that together name something that is there are one.
pub(super) fn split_paths(text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let mut paths = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let longest = (at + 1..=words.len()).rev().find(|end| is_there(&words[at..*end].join(" ")));
        let end = longest.unwrap_or(at + 1);
        paths.push(words[at..end].join(" "));
        at = end;
    }
    paths.retain(|path| !path.is_empty());
    paths
}
