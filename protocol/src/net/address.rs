//! Addresses as people may see them: without the password and the tokens that they may hold.

use std::net::IpAddr;

/// What stands where a secret was.
const HIDDEN: &str = "…";
/// What ends an address in a text.
const ENDS: [char; 6] = [' ', '\n', '\t', '"', '\'', '`'];
/// Parameters of a query whose names have one of these in them are secret.
const SECRET_NAMES: [&str; 9] =
    ["token", "sig", "secret", "pass", "pwd", "key", "credential", "auth", "session"];

/// Whether a name can stand for a host in an address. The system lets a host be called anything, also `a/b`.
pub fn is_host(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]%".contains(c);
    name.contains(|c: char| c.is_ascii_alphanumeric() || c == ':') && name.chars().all(is_plain)
}

/// Whether a host is this one only. `address`: a URL, or a host with or without its port.
pub fn is_loopback(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or(""),
        None => host,
    };
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A text with all addresses in it as people may see them: without user name and password, and without the values of
/// secret parameters (`?token=…`).
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        let (address, following) = after.split_at(end_of(after));
        shown += before;
        let address = match user_end(address) {
            Some(end) => {
                shown += HIDDEN;
                &address[end..]
            }
            None => address,
        };
        show_query(&mut shown, address);
        rest = following;
    }
    shown + rest
}

/// Of what follows `://` in a text: where the address ends. A password with a blank in it, as it should not have, is part
/// of it: then what stands before the blank is no host with a port, and an `@` comes before the next slash.
fn end_of(after: &str) -> usize {
    let end = after.find(ENDS).unwrap_or(after.len());
    let before = &after[..end];
    let is_cut = !before.contains(['/', '?', '#', '@'])
        && before.split_once(':').is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()));
    let until = after.find(['/', '\n']).unwrap_or(after.len());
    match after[..until].rfind('@').filter(|at| is_cut && *at > end) {
        Some(at) => at + after[at..].find(ENDS).unwrap_or(after.len() - at),
        None => end,
    }
}

/// An address, and nothing else, as people may see it: see [`shown`].
pub fn shown_alone(address: &str) -> String {
    let Some(at) = address.find(':').filter(|_| has_user(address)) else { return shown(address) };
    let rest = address[at + 1..].trim_start_matches(SLASHES);
    let end = user_end(rest).unwrap_or_default();
    let mut shown = format!("{}://{HIDDEN}", &address[..at]);
    show_query(&mut shown, &rest[end..]);
    shown
}

/// What may stand between a scheme and a host, in whatever number: readers of addresses take them all.
const SLASHES: [char; 2] = ['/', '\\'];

/// Whether a text is an address of HTTP with a user name or a password in it, also one of too many or too few slashes.
pub fn has_user(text: &str) -> bool {
    let Some((scheme, rest)) = text.trim_start().split_once(':') else { return false };
    let is_http = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_http && user_end(rest.trim_start_matches(SLASHES)).is_some()
}

/// What is wrong with the host or the port of an address; `None`: nothing.
pub fn mistake(address: &str) -> Option<&'static str> {
    let (_, rest) = address.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    // The colons in brackets belong to an IPv6 address.
    let (host, port) = match place.rfind(']') {
        Some(end) => (&place[..=end], place[end + 1..].strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Some("an address without a host");
    }
    if host.contains(char::is_whitespace) {
        return Some("an address with a blank in its host");
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with('+');
    port.filter(|port| !port.is_empty() && !is_port(port))
        .map(|_| "an address whose port is no number up to 65535")
}

/// Of what follows `://`: where the `@` after user name and password is.
fn user_end(rest: &str) -> Option<usize> {
    let authority = &rest[..rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len())];
    if let Some(end) = authority.rfind('@') {
        return Some(end);
    }
    // A password may have a `/` in it, as it should not: then what looks like a port is none.
    let (_, port) = authority.rsplit_once(':')?;
    let is_port =
        port.bytes().all(|byte| byte.is_ascii_digit()) || port.starts_with('{') || port.ends_with(']');
    if is_port { None } else { rest.rfind('@') }
}

/// Appends an address with the values of secret parameters hidden.
fn show_query(shown: &mut String, address: &str) {
    let Some((path, query)) = address.split_once('?') else { return *shown += address };
    *shown += path;
    for (n, part) in query.split('&').enumerate() {
        shown.push(if n == 0 { '?' } else { '&' });
        match part.split_once('=') {
            Some((name, _)) if is_secret(name) => {
                *shown += name;
                shown.push('=');
                *shown += HIDDEN;
            }
            _ => *shown += part,
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Whether a redirection may be followed: to which scheme, and how many were followed before. The limit is ten.
///
/// # Errors
/// Why not, in words.
pub fn redirection(scheme: &str, n_followed: usize) -> Result<(), String> {
    const N_REDIRECTIONS_MAX: usize = 10;
    if !matches!(scheme, "http" | "https") {
        return Err(format!(
            "the server sends on to an address of {scheme}:, which is neither http: nor https:"
        ));
    }
    match n_followed > N_REDIRECTIONS_MAX {
        true => Err(format!("the server sends on more than {N_REDIRECTIONS_MAX} times")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{has_user, is_host, is_loopback, mistake, shown, shown_alone};

    #[test]
    fn host_is_loopback_by_its_address_and_not_by_how_it_begins() {
        for address in ["localhost", "LocalHost:80", "127.0.0.1", "127.9.9.9:1", "::1", "[::1]:80"] {
            assert!(is_loopback(address) && is_loopback(&format!("{address}/a?b=1")), "{address}");
        }
        for address in ["http://127.0.0.1:80", "https://localhost:1", "http://[::1]:2/x"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in [
            "127.evil.org",
            "localhost.evil.org:80",
            "http://127.evil.org",
            "http://evil.org/127.0.0.1",
            "10.0.0.1:80",
            "[fe80::1]:80",
            "0.0.0.0",
            "",
        ] {
            assert!(!is_loopback(address), "{address}");
        }
    }

    #[test]
    fn name_of_a_host_that_is_no_part_of_an_address_is_found_out() {
        for name in ["login1.centre.org", "node-7", "10.0.0.1", "[::1]", "fe80::1%eth0", "a_b"] {
            assert!(is_host(name), "{name}");
        }
        for name in ["a/b", "..", "", "a b", "a@b", "a?b", "a#b", "hôte", "a\nb"] {
            assert!(!is_host(name), "{name}");
        }
    }

    #[test]
    fn address_has_a_host_and_a_port_that_is_a_number() {
        for well in [
            "http://h",
            "https://h:443/x",
            "http://127.0.0.1:8877/a:b",
            "http://[::1]:80/x",
            "http://a:b@h/x",
            "http://h:/x",
        ] {
            assert_eq!(mistake(well), None, "{well}");
        }
        let port = "an address whose port is no number up to 65535";
        for (wrong, what) in [
            ("http://127.0.0.1:8877x/ok", port),
            ("http://h:0/x", port),
            ("http://h:65536", port),
            ("http://[::1]:x/", port),
            ("http://h:+1/", port),
            ("http:///x", "an address without a host"),
            ("https://", "an address without a host"),
            ("http://:80/x", "an address without a host"),
            ("http://a:b@/x", "an address without a host"),
            ("http://h o/x", "an address with a blank in its host"),
        ] {
            assert_eq!(mistake(wrong), Some(what), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_shown_without_passwords_and_tokens() {
        for (text, expected) in [
            ("https://ann:hush@host:8443/a/b?x=1", "https://…@host:8443/a/b?x=1"),
            ("http://hush@host/a", "http://…@host/a"),
            ("HTTPS://ann:hu@sh@host/a@b", "HTTPS://…@host/a@b"),
            ("https://ann:hu/sh@host/a", "https://…@host/a"),
            ("https://{user}:{hush}@host/{n}", "https://…@host/{n}"),
            ("https://host:{port}/a@b", "https://host:{port}/a@b"),
            ("https://host/~ann@lab/x", "https://host/~ann@lab/x"),
            ("https://host:80/a@b", "https://host:80/a@b"),
            ("https://[::1]:80/a@b https://[::1]/a@b", "https://[::1]:80/a@b https://[::1]/a@b"),
            ("curl https://a:hush@h/x -o 'http://b:hush@i'", "curl https://…@h/x -o 'http://…@i'"),
            (
                "https://h/x?a=1&X-Amz-Signature=hush&sig=hush&access_token=hush#f",
                "https://h/x?a=1&X-Amz-Signature=…&sig=…&access_token=…",
            ),
            ("no address: ann:hush@host", "no address: ann:hush@host"),
            ("get http://bob:s3 cr et@h:1/x now", "get http://…@h:1/x now"),
            ("from http://h:80 and mail a@b", "from http://h:80 and mail a@b"),
            ("from http://h and mail a@b", "from http://h and mail a@b"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn only_addresses_of_http_with_a_user_have_one() {
        for (text, seen) in [
            ("https://a:b@h/x", "https://…@h/x"),
            ("http://a@h", "http://…@h"),
            ("HTTP://a:b@h", "HTTP://…@h"),
            ("https://a:b/c@h/x", "https://…@h/x"),
            ("https://{a}@h", "https://…@h"),
            ("http:///a:b@h/x", "http://…@h/x"),
            ("http:a:b@h/x", "http://…@h/x"),
            ("http:\\\\a:b@h/x", "http://…@h/x"),
            ("http://a:b c@h/x?token=t", "http://…@h/x?token=…"),
            ("http://a:1 c@h/x", "http://…@h/x"),
        ] {
            assert!(has_user(text), "{text}");
            assert_eq!(shown_alone(text), seen);
        }
        for text in ["https://h/a@b", "a:b@h", "store://a@b/c", "data/x@y", "https://h:1/a@b", ""] {
            assert!(!has_user(text), "{text}");
        }
    }
}
