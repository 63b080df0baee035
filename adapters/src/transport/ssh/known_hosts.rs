//! Reads known_hosts files in one pass, by the rules of sshd(8): marked lines, hashed names, patterns, ports.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;

/// What known_hosts files say of one host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Known {
    /// Keys that the host may show.
    pub(super) keys: Vec<Vec<u8>>,
    /// Keys that it must not show.
    pub(super) revoked: Vec<Vec<u8>>,
    /// Whether a certificate authority vouches for it.
    pub(super) has_authority: bool,
}

/// A host's names in these files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    /// The name with its port, unless that is 22; or the name that stands for it (HostKeyAlias).
    first: String,
    /// The name alone, which counts when no line has a key for `first`.
    second: Option<String>,
}

impl Names {
    pub(super) fn new(host: &str, port: u16, alias: Option<&str>) -> Names {
        match alias {
            Some(alias) => Names { first: alias.to_ascii_lowercase(), second: None },
            None if port == 22 => Names { first: host.to_ascii_lowercase(), second: None },
            None => {
                let host = host.to_ascii_lowercase();
                Names { first: format!("[{host}]:{port}"), second: Some(host) }
            }
        }
    }

    /// The name with its port, or the one that stands for it, and no other.
    pub(super) fn first_only(&self) -> Names {
        Names { first: self.first.clone(), second: None }
    }

    /// The name as it stands in these files.
    pub(super) fn shown(&self) -> &str {
        &self.first
    }
}

/// Reads what these texts say of a host. Lines that are not understood are left out, as OpenSSH does.
pub(super) fn read<'t>(texts: impl IntoIterator<Item = &'t [u8]>, names: &Names) -> Known {
    let (mut first, mut second) = (Known::default(), Known::default());
    for line in texts.into_iter().flat_map(|text| text.split(|byte| *byte == b'\n')) {
        // Bytes beyond ASCII can be in comments only.
        let line = String::from_utf8_lossy(line);
        let Some(line) = Line::read(&line) else { continue };
        if line.is_of(&names.first) {
            line.note(&mut first);
        } else if names.second.as_ref().is_some_and(|name| line.is_of(name)) {
            line.note(&mut second);
        }
    }
    // A key that is revoked under either name is revoked.
    first.revoked.append(&mut second.revoked);
    match first.keys.is_empty() && !first.has_authority {
        true => Known { revoked: first.revoked, ..second },
        false => first,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    None,
    Authority,
    Revoked,
}

struct Line<'l> {
    marker: Marker,
    names: &'l str,
    key: Vec<u8>,
}

impl<'l> Line<'l> {
    fn read(line: &'l str) -> Option<Line<'l>> {
        let mut words = line.split([' ', '\t', '\r']).filter(|word| !word.is_empty()).peekable();
        let marker = match *words.peek()? {
            word if word.starts_with('#') => return None,
            "@cert-authority" => Marker::Authority,
            "@revoked" => Marker::Revoked,
            word if word.starts_with('@') => return None,
            _ => Marker::None,
        };
        if marker != Marker::None {
            words.next();
        }
        let (names, kind, key) = (words.next()?, words.next()?, words.next()?);
        let key = STANDARD.decode(key).ok()?;
        (kind_of(&key)? == kind).then_some(Line { marker, names, key })
    }

    fn is_of(&self, host: &str) -> bool {
        match self.names.strip_prefix("|1|") {
            Some(hashed) => is_hash_of(hashed, host),
            None => matches(self.names, host),
        }
    }

    fn note(self, known: &mut Known) {
        match self.marker {
            Marker::None => known.keys.push(self.key),
            Marker::Revoked => known.revoked.push(self.key),
            Marker::Authority => known.has_authority = true,
        }
    }
}

/// `SALT|HASH`, both as base64.
fn is_hash_of(hashed: &str, host: &str) -> bool {
    let parts = hashed
        .split_once('|')
        .and_then(|(salt, hash)| Some((STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?)));
    parts.is_some_and(|(salt, hash)| {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
        hmac::verify(&key, host.as_bytes(), &hash).is_ok()
    })
}

/// Whether a list of patterns names a host; a pattern after `!` takes away what it matches.
fn matches(patterns: &str, host: &str) -> bool {
    let mut is_named = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if fits(pattern, host) => return false,
            None if fits(pattern, host) => is_named = true,
            _ => {}
        }
    }
    is_named
}

/// Whether a pattern with `*` and `?` fits, in time that grows with the product of both lengths at most.
fn fits(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.to_ascii_lowercase().into_bytes(), host.as_bytes());
    let (mut p, mut h) = (0, 0);
    // Where the last `*` was, and up to where it reaches.
    let mut star = None;
    while h < host.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, h));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == host[h] => (p, h) = (p + 1, h + 1),
            _ => match star {
                Some((at, reach)) => {
                    star = Some((at, reach + 1));
                    (p, h) = (at + 1, reach + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// The word at the beginning of a key, which is its kind, after that word's length.
pub(super) fn kind_of(key: &[u8]) -> Option<String> {
    let (length, rest) = key.split_first_chunk::<4>()?;
    let kind = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    String::from_utf8(kind.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any 32 bytes make a key.
    fn key(n: u8) -> Vec<u8> {
        [b"\0\0\0\x0bssh-ed25519\0\0\0\x20".as_slice(), &[n; 32]].concat()
    }

    fn word(n: u8) -> String {
        format!("ssh-ed25519 {}", STANDARD.encode(key(n)))
    }

    fn known(text: &str, host: &str, port: u16, alias: Option<&str>) -> Known {
        read([text.as_bytes()], &Names::new(host, port, alias))
    }

    #[test]
    fn names_patterns_and_ports_count_as_for_openssh() {
        let hash = |host: &str| {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"salt");
            format!("|1|{}|{}", STANDARD.encode("salt"), STANDARD.encode(hmac::sign(&key, host.as_bytes())))
        };
        for (names, host, port, is_known) in [
            ("a.org", "a.org", 22, true),
            ("A.Org", "a.oRG", 22, true),
            ("a.org", "a.org", 2222, true),
            ("[a.org]:2222", "a.org", 2222, true),
            ("[a.org]:2222", "a.org", 22, false),
            ("b.org,a.org,10.0.0.1", "a.org", 22, true),
            ("*.org", "a.org", 22, true),
            ("*.org", "a.net", 22, false),
            ("?.org", "a.org", 22, true),
            ("?.org", "ab.org", 22, false),
            ("*.org,!a.org", "a.org", 22, false),
            ("!a.org,*.org", "a.org", 22, false),
            ("!b.org,*.org", "a.org", 22, true),
            ("!a.org", "b.org", 22, false),
            ("[127.0.0.*]:2222", "127.0.0.1", 2222, true),
            ("[127.0.0.*]:2222", "127.0.0.1", 22, false),
            ("[::1]:2222", "::1", 2222, true),
            (&hash("a.org"), "a.org", 22, true),
            (&hash("[a.org]:2222"), "a.org", 2222, true),
            (&hash("b.org"), "a.org", 22, false),
            ("|1|broken", "a.org", 22, false),
        ] {
            let found = known(&format!("{names} {}\n", word(1)), host, port, None).keys;
            assert_eq!(found == [key(1)], is_known, "{names} {host} {port}");
        }
        let both = format!("a.org {}\n[a.org]:2222 {}\n", word(1), word(2));
        assert_eq!(known(&both, "a.org", 2222, None).keys, [key(2)], "the one with the port goes first");
        let alias = format!("farm {}\na.org {}\n", word(1), word(2));
        assert_eq!(known(&alias, "a.org", 2222, Some("Farm")).keys, [key(1)]);
    }

    #[test]
    fn marks_count_and_lines_that_are_broken_hide_no_other() {
        let revoked = format!("@revoked * {}\na.org {}\n", word(1), word(1));
        let found = known(&revoked, "a.org", 22, None);
        assert_eq!((found.keys, found.revoked), (vec![key(1)], vec![key(1)]));
        let of_name = format!("@revoked a.org {}\n[a.org]:2222 {}\n", word(1), word(1));
        assert_eq!(known(&of_name, "a.org", 2222, None).revoked, [key(1)], "without its port, too");
        let authority = known(&format!("@cert-authority *.org {}", word(1)), "a.org", 22, None);
        assert_eq!((authority.keys.len(), authority.has_authority), (0, true));
        for broken in [
            "garbage here",
            "old.host 1024 35 1234567",
            "a.org ssh-ed25519 !!!",
            "a.org ssh-rsa AAAAC3NzaC1lZDI1NTE5",
            "@unknown a.org ssh-ed25519 AAAA",
            "# a.org",
            "",
            "|1|||| x y",
            "a.org",
        ] {
            for end in ["\n", "\r\n"] {
                let text = format!("{broken}{end}  a.org\t {} a comment of ada@lab{end}", word(1));
                assert_eq!(known(&text, "a.org", 22, None).keys, [key(1)], "{broken:?}");
            }
        }
        let bytes = [b"\xff\xfe a b\n".as_slice(), format!("a.org {} \u{e4}\n", word(1)).as_bytes()].concat();
        assert_eq!(read([bytes.as_slice()], &Names::new("a.org", 22, None)).keys, [key(1)]);
    }

    #[test]
    fn patterns_of_many_stars_take_no_exponential_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!fits(&pattern, &"a".repeat(2000)));
        assert!(fits("*a*b*", "xxaxxbxx") && fits("**", "") && !fits("", "a"));
    }
}
