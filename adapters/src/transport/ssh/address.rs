//! Addresses as operators write them: `[user@]host[:port]`, where the host may be a word of the configuration, or a
//! number of IPv6 with or without brackets; and `ssh://[user@]host[:port]`, as jump hosts are written, too.

use profiles::site::of_url;

use super::word;

/// Where an address leads, in its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl Address {
    /// The command by which a person logs in there.
    pub(super) fn by_hand(&self) -> String {
        self.by_hand_with(None)
    }

    /// The same where a configuration of its own says what the words mean.
    pub(super) fn by_hand_with(&self, config: Option<&str>) -> String {
        let config = config.into_iter().flat_map(|path| ["-F".to_owned(), path.to_owned()]);
        let mut words: Vec<String> = config.chain(self.words()).collect();
        // Addresses that begin with `-` are refused earlier, so that nobody needs to type `--`.
        words.retain(|word| word != "--");
        let words = words.iter().map(|text| word(text));
        ["ssh".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// As people write it.
    pub(super) fn shown(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        match self.port {
            Some(port) if self.host.contains(':') => format!("{user}[{}]:{port}", self.host),
            Some(port) => format!("{user}{}:{port}", self.host),
            None => format!("{user}{}", self.host),
        }
    }

    /// Reads it. Errors: what is wrong with it, in words.
    pub(super) fn read(text: &str) -> Result<Address, String> {
        let text = of_url(text)?;
        let text = text.trim_end_matches('/');
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user.to_owned()), rest),
            None => (None, text),
        };
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
            None => match rest.split_once(':') {
                // Several colons are a number of IPv6; a word of the configuration may have one.
                Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => (host, Some(port)),
                _ => (rest, None),
            },
        };
        let port = port.map(|port| match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("found port `{port}`; write a number from 1 to 65535")),
        });
        if host.is_empty() || host.starts_with('-') || user.as_ref().is_some_and(String::is_empty) {
            return Err("write a host like `ada@login.centre.org` or a word of ~/.ssh/config".to_owned());
        }
        Ok(Address { user, host: host.to_owned(), port: port.transpose()? })
    }

    /// The words by which `ssh` is told of it. None of it can be taken for an option.
    pub(super) fn words(&self) -> Vec<String> {
        let port = self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        let user = self.user.iter().flat_map(|user| ["-l".to_owned(), user.clone()]);
        port.chain(user).chain(["--".to_owned(), self.host.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_parts() {
        for (text, user, host, port) in [
            ("centre", None, "centre", None),
            ("ada@centre:23", Some("ada"), "centre", Some(23)),
            ("ada@lab.org@centre", Some("ada@lab.org"), "centre", None),
            ("ada@[::1]:23", Some("ada"), "::1", Some(23)),
            ("[fe80::1%eth0]", None, "fe80::1%eth0", None),
            ("ada@2001:db8::1", Some("ada"), "2001:db8::1", None),
            ("ssh://ada@centre:23", Some("ada"), "centre", Some(23)),
            ("ssh://ada%40lab.org@centre:23/", Some("ada@lab.org"), "centre", Some(23)),
            ("ssh://ada@[::1]:23", Some("ada"), "::1", Some(23)),
            ("LAB\\ada b@centre", Some("LAB\\ada b"), "centre", None),
            ("lab:gpu", None, "lab:gpu", None),
        ] {
            let expected = Address { user: user.map(str::to_owned), host: host.to_owned(), port };
            assert_eq!(Address::read(text), Ok(expected), "{text}");
        }
        for text in ["centre", "ada@centre:23", "ada@[::1]:23", "ada@2001:db8::1"] {
            assert_eq!(Address::read(text).expect(text).shown(), text);
        }
        for text in [
            "",
            "ada@",
            "@centre",
            "ada@-oProxyCommand=id",
            "centre:",
            "centre:0",
            "centre:70000",
            "[::1]x",
            "ssh://centre/home",
        ] {
            assert!(Address::read(text).is_err(), "{text}");
        }
        let words = Address::read("ada@[::1]:23").expect("an address").words();
        assert_eq!(words, ["-p", "23", "-l", "ada", "--", "::1"]);
        for (text, by_hand) in [
            ("ada@centre:23", "ssh -p 23 -l ada centre"),
            ("lab$gpu", "ssh 'lab$gpu'"),
            ("centre", "ssh centre"),
        ] {
            assert_eq!(Address::read(text).expect(text).by_hand(), by_hand);
        }
    }
}
