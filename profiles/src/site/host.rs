//! Hosts as operators write them for SSH: `[user@]host[:port]`, or `ssh://[user@]host[:port]`. Accepts the
//! same hosts as `ssh HOST`, except for an address with a password, because addresses appear in arguments and
//! messages.

use serde::{Deserialize, Deserializer, de::Error};

use crate::address::shown;

/// An example of a host, for messages.
const EXAMPLE: &str = "write a host like `ada@login.centre.org` or a word of ~/.ssh/config";
/// Shell characters that OpenSSH accepts neither in a user name nor in a host name.
const OF_SHELLS: &str = "'`\";&<>|(){}";

/// Reads a host, `[user@]host[:port]`.
pub(crate) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    checked(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

/// Reads a list of hosts.
pub(crate) fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let addresses = Vec::<String>::deserialize(deserializer)?;
    if addresses.is_empty() {
        return Err(D::Error::custom("found no host; write some, like `[ada@node1, ada@node2]`"));
    }
    addresses.iter().map(|address| checked(address).map_err(D::Error::custom)).collect()
}

/// Returns `text` as `[user@]host[:port]` if SSH accepts it.
///
/// # Errors
/// The text is not a host, or it contains a password, which the message does not show.
pub(crate) fn checked(text: &str) -> Result<String, String> {
    // A password is reported before any other error.
    without_password(text)?;
    let address = of_url(text)?;
    without_password(&address)?;
    let (user, host) = match address.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, address.as_str()),
    };
    match is_host(host) && user.is_none_or(is_user) {
        true => Ok(address),
        false => Err(format!("found `{}`; {EXAMPLE}", shown(text).escape_debug())),
    }
}

/// Returns whether OpenSSH accepts `name` as a user name.
fn is_user(name: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !OF_SHELLS.contains(c);
    let begins_an_option = name.split(char::is_whitespace).any(|word| word.starts_with('-'));
    !name.is_empty() && name.chars().all(is_plain) && !begins_an_option && !name.ends_with('\\')
}

/// Returns whether OpenSSH accepts `host` as a host, with or without a port. Addresses with another scheme
/// are refused.
fn is_host(host: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !OF_SHELLS.contains(c) && !"$\\@".contains(c);
    !host.is_empty() && !host.starts_with('-') && !host.contains("//") && host.chars().all(is_plain)
}

/// Refuses an address that contains a password.
fn without_password(address: &str) -> Result<(), String> {
    let Some((user, host)) = address.rsplit_once('@').filter(|(user, _)| user.contains(':')) else {
        return Ok(());
    };
    let user = user.rsplit("://").next().unwrap_or(user);
    let Some((user, _)) = user.split_once(':') else { return Ok(()) };
    Err(format!(
        "found `{}:…@{}` with a password; take it out: a key lets pilots in, or a person who answers `pilotfish platform \
         login`",
        user.escape_debug(),
        host.escape_debug()
    ))
}

/// Returns `ssh://[user@]host[:port]` as `[user@]host[:port]`, with the user name decoded like OpenSSH does
/// it. Returns an address with another beginning as it is.
///
/// # Errors
/// The reason why ssh(1) does not accept the address.
pub fn of_url(text: &str) -> Result<String, String> {
    let Some(rest) = text.strip_prefix("ssh://") else { return Ok(text.to_owned()) };
    let refused = |what: &str| Err(format!("found `{}`; {what}", shown(text).escape_debug()));
    let (user, place) = match rest.rsplit_once('@') {
        // Connection parameters follow the user name; ssh(1) ignores them.
        Some((user, place)) => (Some(user.split(';').next().unwrap_or(user)), place),
        None => (None, rest),
    };
    let (place, path) = place.split_once('/').unwrap_or((place, ""));
    if !path.is_empty() {
        return refused("ssh takes no path in an address: write `ssh://host:port`");
    }
    let place = place.strip_suffix(':').unwrap_or(place);
    if place.is_empty() {
        return refused("it names no host: write an address like `ssh://ada@login.centre.org:22`");
    }
    let Some(user) = user else { return Ok(place.to_owned()) };
    match decoded(user).filter(|name| !name.is_empty() && !user.contains('@')) {
        Some(name) => Ok(format!("{name}@{place}")),
        None => refused(
            "its user name cannot be read: write two digits of a hexadecimal number after each `%`, like `%40` for `@`",
        ),
    }
}

/// Decodes `+` (a blank) and `%40` (a byte in hexadecimal digits). Returns `None` if the name cannot be
/// decoded.
fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit =
                    || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit()? << 4 | digit()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{checked, of_url};

    #[test]
    fn addresses_that_ssh_takes_are_taken_apart_as_it_does_it() {
        for (text, expected) in [
            ("ssh://root@127.0.0.1:28461", "root@127.0.0.1:28461"),
            ("ssh://centre", "centre"),
            ("ssh://centre/", "centre"),
            ("ssh://ada@centre:23/", "ada@centre:23"),
            ("ssh://centre:", "centre"),
            ("ssh://ada@[::1]:23", "ada@[::1]:23"),
            ("ssh://ada%40lab.org@centre", "ada@lab.org@centre"),
            ("ssh://LAB%5cada@centre:23", "LAB\\ada@centre:23"),
            ("ssh://ada+b@centre", "ada b@centre"),
            ("ssh://%c3%a4da@centre", "äda@centre"),
            ("ssh://ada;fingerprint=a-b@centre:1", "ada@centre:1"),
            ("LAB\\ada@centre", "LAB\\ada@centre"),
            ("ada%40lab@centre", "ada%40lab@centre"),
            ("gpu+/a100,b", "gpu+/a100,b"),
            ("ada@[fe80::1%eth0]:22", "ada@[fe80::1%eth0]:22"),
        ] {
            assert_eq!(checked(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, words) in [
            ("ssh://centre/home", "takes no path"),
            ("ssh://ada@centre:22/home", "takes no path"),
            ("ssh://centre//", "takes no path"),
            ("ssh://", "names no host"),
            ("ssh://ada@", "names no host"),
            ("ssh://@centre", "user name cannot be read"),
            ("ssh://a%4@centre", "user name cannot be read"),
            ("ssh://a%zz@centre", "user name cannot be read"),
            ("ssh://a%00b@centre", "write a host like"),
            ("ssh://a@b@centre", "user name cannot be read"),
            ("ssh://%2doProxyCommand=id@centre", "write a host like"),
            ("ssh://a%20-oProxyCommand=id@centre", "write a host like"),
            ("ssh://a%22@centre", "write a host like"),
            ("ssh://-oProxyCommand=id", "write a host like"),
            ("ssh://ada@-oProxyCommand=id", "write a host like"),
            ("SSH://centre", "write a host like"),
            ("sftp://centre", "write a host like"),
            ("ada@", "write a host like"),
            ("@centre", "write a host like"),
            ("ada@cen tre", "write a host like"),
            ("$(id)", "write a host like"),
        ] {
            assert!(checked(text).is_err_and(|why| why.contains(words)), "{text}: {:?}", checked(text));
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_shown() {
        for text in [
            "ann:hush@login",
            "ssh://ann:hush@login",
            "ssh://ann%3Ahush@login:22",
            "ssh://ann:hush@login/path",
            "ssh://ann:hu/sh@login",
            "ssh://ann:hu@sh@login",
            "ssh://ann%3ahush@login/path",
            "ssh://ann;x:hush@login",
            "ssh://ann:%zzhush@login",
        ] {
            let why = checked(text).expect_err(text);
            assert!(!why.contains("hu") && !why.contains("sh@"), "{text}: {why}");
            let is_told = why.contains("`ann:…@login")
                || why.contains("takes no path")
                || why.contains("`ann;x:…@login");
            assert!(is_told, "{text}: {why}");
        }
        assert_eq!(
            of_url("ssh://ada%3Apw@gate").as_deref(),
            Ok("ada:pw@gate"),
            "a jump host of ssh's configuration"
        );
    }
}
