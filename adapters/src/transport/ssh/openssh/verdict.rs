//! What `ssh` says when it does not get in, and what that means.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::super::{
    SshError,
    address::Address,
    key_file::{self, Certificate, KeyFile},
};

/// A message has so many bytes at most.
const WORDS_MAX: usize = 600;
/// So many keys are named at most.
const N_KEYS_NAMED: usize = 4;

/// Who wanted to go where.
#[derive(Clone, Copy)]
pub(super) struct Facts<'f> {
    pub(super) host: &'f str,
    pub(super) port: u16,
    pub(super) user: &'f str,
    /// What leads there.
    pub(super) proxy: Option<&'f str>,
    /// The command by which a person logs in there.
    pub(super) by_hand: &'f str,
}

/// Why there is no connection, by all that `ssh` said, and what leads there (`proxy_log`).
pub(super) fn verdict(log: &str, proxy_log: &str, facts: &Facts<'_>, is_person_there: bool) -> SshError {
    if is_conclusive(log) || facts.proxy.is_none() {
        return of_host(log, facts, is_person_there);
    }
    if !is_conclusive(proxy_log) {
        let both = match words_if_any(proxy_log) {
            Some(_) => format!("{log}\n{proxy_log}"),
            None => log.to_owned(),
        };
        return of_host(&both, facts, is_person_there);
    }
    let (user, host, port) = of_proxy_host(proxy_log);
    let (host, port) = (host.as_deref().or(facts.proxy).unwrap_or_default(), port.unwrap_or(22));
    // A single jump host is named as the configuration knows it.
    let jump =
        facts.proxy.filter(|proxy| !proxy.contains([' ', ','])).and_then(|jump| Address::read(jump).ok());
    let by_hand = jump.map_or_else(|| format!("ssh -p {port} {host}"), |jump| jump.by_hand());
    let user = user.as_deref().unwrap_or(facts.user);
    let before = Facts { host, port, user, proxy: None, by_hand: &by_hand };
    let leads = format!("; the way to {} leads through it", facts.host);
    match of_host(proxy_log, &before, is_person_there) {
        SshError::NeedsPerson { host, user, why } => SshError::NeedsPerson { host, user, why: why + &leads },
        SshError::Refused { host, user, tried } => SshError::Refused { host, user, tried: tried + &leads },
        other => other,
    }
}

/// Whether `ssh` says that a host did not let it in, or is not the right one.
fn is_conclusive(log: &str) -> bool {
    log.contains("Permission denied (") || log.contains("Host key verification failed")
}

/// User, host and port of what leads there, as far as it says so.
fn of_proxy_host(log: &str) -> (Option<String>, Option<String>, Option<u16>) {
    let denied =
        log.lines().rev().find_map(|line| line.split_once(": Permission denied (")?.0.rsplit_once('@'));
    if let Some((user, host)) = denied {
        return (Some(user.trim().to_owned()), Some(host.to_owned()), None);
    }
    // `No ED25519 host key is known for [jump]:23 and …`, `Host key for [jump]:23 has changed and …`
    let named = log.lines().rev().find_map(|line| {
        let rest = line.split_once("ost key is known for ").or_else(|| line.split_once("ost key for "))?.1;
        rest.split_whitespace().next()
    });
    let Some(named) = named else { return (None, None, None) };
    match named.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((host, port)) => (None, Some(host.to_owned()), port.parse().ok()),
        None => (None, Some(named.to_owned()), None),
    }
}

fn of_host(log: &str, facts: &Facts<'_>, is_person_there: bool) -> SshError {
    let (host, port, user) = (facts.host.to_owned(), facts.port, facts.user.to_owned());
    let says = |words: &str| log.contains(words);
    let fingerprint = shown_key(log);
    if says("REVOKED HOST KEY DETECTED") || says(" revoked by file ") {
        return SshError::RevokedHostKey { host, port, fingerprint };
    }
    if says("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        let (known_as, file) = known(log, facts);
        return SshError::WrongHostKey { host, port, fingerprint, known_as, file };
    }
    // `Error checking host key ED25519 SHA256:… in revoked keys file /etc/x: No such file or directory`
    if let Some(line) = log.lines().find(|line| line.contains(" in revoked keys file ")) {
        let what = format!("{}; see RevokedHostKeys in the ssh configuration", line.trim());
        return SshError::Broken { host, what };
    }
    if says("Host key verification failed") {
        let by_hand = facts.by_hand.to_owned();
        return SshError::UnknownHostKey { host, port, fingerprint, by_hand };
    }
    if let Some(denied) = log.lines().rev().find(|line| line.contains("Permission denied (")) {
        let locked = locked_key(log);
        let mut tried: Vec<String> = vec![denied.trim().trim_end_matches('.').to_owned()];
        if says("bad passphrase given") {
            let key = locked.as_deref().unwrap_or("a key");
            tried.insert(0, format!("{key}: the passphrase is wrong"));
        } else if let Some(key) = &locked {
            let why = if is_person_there {
                "it has a passphrase"
            } else {
                "it has a passphrase, and nobody is there to type it"
            };
            tried.insert(0, format!("{key}: {why}"));
        }
        let last = tried.len() - 1;
        tried.splice(last..last, keys_tried(log, facts.user, locked.as_deref()));
        let methods = denied.rsplit_once('(').map_or("", |(_, methods)| methods);
        let could_answer = ["keyboard-interactive", "password"].iter().any(|method| methods.contains(method));
        let tried = tried.join("; ");
        return match !is_person_there && (could_answer || locked.is_some()) {
            true => SshError::NeedsPerson { host, user, why: tried },
            false => SshError::Refused { host, user, tried },
        };
    }
    let why = words(log);
    let is_unreached = ["ssh: connect to host", "ssh: Could not resolve hostname", "Connection timed out"];
    match is_unreached.iter().any(|words| says(words)) {
        true => SshError::NotConnected { host, port, why },
        false => SshError::Broken { host, what: why + &of_proxy(facts, is_person_there) },
    }
}

/// The key that a host showed: its fingerprint, and who has signed it.
fn shown_key(log: &str) -> String {
    let last = |begin: &str| log.lines().rev().find_map(|line| line.trim_end().strip_prefix(begin));
    if let Some(certificate) = last("debug1: Server host certificate: ") {
        // `KIND SHA256:…, serial 0 ID "…" CA KIND SHA256:… valid …`; the ID is any text.
        let key = certificate.split([' ', ',']).nth(1).unwrap_or_default();
        let authority = certificate.rsplit_once(" CA ").and_then(|(_, rest)| rest.split(' ').nth(1));
        let signed = authority.map(|authority| format!(", signed by the authority {authority}"));
        // The plain key was tried after that.
        let why = last("Certificate invalid: ").or_else(|| last("Certificate "));
        let why = why.map(|why| format!(" (its certificate does not count: {why})"));
        return format!("{key}{}{}", signed.unwrap_or_default(), why.unwrap_or_default());
    }
    let key = last("debug1: Server host key: ").and_then(|key| key.split_whitespace().nth(1));
    key.unwrap_or("a key that ssh does not name").to_owned()
}

/// A key that was offered to a host.
struct Offered<'l> {
    /// Its file, or what the agent calls it.
    name: &'l str,
    is_certificate: bool,
    is_of_agent: bool,
}

/// The key that a line names: `PATH KIND SHA256:… agent`.
fn offered(line: &str) -> Option<Offered<'_>> {
    let (name, after) = line.split_once(" SHA256:")?;
    let (name, kind) = name.rsplit_once(' ')?;
    let is_of_agent = after.split_whitespace().any(|word| word == "agent");
    Some(Offered { name, is_certificate: kind.ends_with("-CERT"), is_of_agent })
}

/// What came of the keys and certificates of a user whom a host does not let in; `told`: of which it is said already.
fn keys_tried(log: &str, user: &str, told: Option<&str>) -> Vec<String> {
    let lines = || log.lines().map(str::trim_end);
    let accepted: Vec<&str> =
        lines().filter_map(|line| line.strip_prefix("debug1: Server accepts key: ")).collect();
    let offers = lines().filter_map(|line| line.strip_prefix("debug1: Offering public key: "));
    let refused: Vec<Offered<'_>> =
        offers.filter(|key| !accepted.contains(key)).filter_map(offered).collect();
    let of_certificates =
        refused.iter().filter(|key| key.is_certificate).map(|key| of_certificate(key, user));
    // Without its certificate a key is not known there.
    let has_certificate = |name: &str| refused.iter().any(|key| key.is_certificate && key.name == name);
    let keys = refused.iter().filter(|key| !key.is_certificate && !has_certificate(key.name));
    let of_keys = keys.filter(|key| told != Some(key.name)).map(|key| {
        let of_agent = if key.is_of_agent { " of the agent" } else { "" };
        format!("key {}{of_agent}: refused", key.name)
    });
    // `ssh` says these to people: a file that is missing, broken or open to all, an agent that does not sign.
    let begins = ["no such identity: ", "Load key ", "Permissions 0", "sign_and_send_pubkey: "];
    let of_files = lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin)));
    let of_files = of_files.map(|line| line.trim_end_matches('.').to_owned());
    let mut all: Vec<String> = Vec::new();
    for words in of_certificates.chain(of_files).chain(of_keys) {
        if !all.contains(&words) {
            all.push(words);
        }
    }
    if all.len() > N_KEYS_NAMED {
        let n_more = all.len() - N_KEYS_NAMED;
        all.truncate(N_KEYS_NAMED);
        all.push(format!("{n_more} more"));
    }
    all
}

/// What a certificate that was refused says of itself. `ssh` names the key's file if the certificate is beside it.
fn of_certificate(offered: &Offered<'_>, user: &str) -> String {
    let beside = PathBuf::from(format!("{}-cert.pub", offered.name));
    let files = [beside, PathBuf::from(offered.name)];
    let found = files.iter().find_map(|file| Some((file, Certificate::of(file)?)));
    match found {
        Some((file, certificate)) => {
            format!("certificate {}: {}", file.display(), certificate.why_refused(user, SystemTime::now()))
        }
        None if offered.is_of_agent => format!(
            "certificate {} of the agent: refused; `ssh-add -L | ssh-keygen -L -f -` says for whom and until when it is",
            offered.name
        ),
        None => format!("certificate {}: refused", offered.name),
    }
}

/// The name under which a known_hosts file has another key, and the file.
fn known(log: &str, facts: &Facts<'_>) -> (String, Option<PathBuf>) {
    // `Host key for [centre]:23 has changed and you have requested strict checking.`
    let named = log.lines().rev().find_map(|line| {
        line.split_once("ost key for ")?.1.split_once(" has changed").map(|(name, _)| name.to_owned())
    });
    let port = facts.port;
    let name = named.unwrap_or_else(|| match port {
        22 => facts.host.to_owned(),
        _ => format!("[{}]:{port}", facts.host),
    });
    // `Offending ED25519 key in /home/ada/.ssh/known_hosts:3`
    let file = log.lines().rev().find_map(|line| {
        let (kind, place) = line.trim_end().strip_prefix("Offending ")?.split_once(" key in ")?;
        let (file, line) = place.rsplit_once(':')?;
        let is_place = !kind.contains(' ') && line.parse::<u64>().is_ok();
        is_place.then(|| PathBuf::from(file))
    });
    (name, file)
}

/// A proxy that says nothing may still have asked for a person.
fn of_proxy(facts: &Facts<'_>, is_person_there: bool) -> String {
    match facts.proxy.filter(|_| !is_person_there) {
        Some(proxy) => format!(
            "; the way leads through {proxy}: if that asks for a person, run `pilotfish platform login` in a terminal"
        ),
        None => String::new(),
    }
}

/// The key that the host took, or would perhaps have taken, but that was not unlocked.
fn locked_key(log: &str) -> Option<String> {
    let lines = log.lines().rev();
    let keys = lines.filter_map(|line| {
        let line = line.strip_prefix("debug1: ")?;
        line.strip_prefix("Server accepts key: ").or_else(|| line.strip_prefix("Trying private key: "))
    });
    keys.filter_map(|line| {
        // After the path come the kind and the fingerprint, if they are known.
        let path = line.split_once(" SHA256:").and_then(|(before, _)| before.rsplit_once(' '));
        let path = path.map_or(line.trim_end(), |(path, _)| path);
        let is_locked = matches!(key_file::look(Path::new(path)), KeyFile::Private { is_locked: true, .. });
        is_locked.then(|| path.to_owned())
    })
    .next()
}

/// How lines begin that `ssh` says only because it was asked to say more.
const NOT_FOR_PEOPLE: [&str; 10] = [
    "debug1: ",
    "debug2: ",
    "debug3: ",
    "OpenSSH_",
    // Those of its level VERBOSE have no mark.
    "Authenticated to ",
    "Authenticated using \"",
    "Canonicalized DNS aliased hostname ",
    "Transferred: sent ",
    "Bytes per second: sent ",
    "Allocated port ",
];

/// Whether a line of what `ssh` says is for people.
pub(super) fn is_for_people(line: &str) -> bool {
    !NOT_FOR_PEOPLE.iter().any(|begin| line.starts_with(begin)) && !line.trim().is_empty()
}

/// What `ssh` said for people, in one line.
pub(super) fn words(log: &str) -> String {
    words_if_any(log).unwrap_or_else(|| "ssh ended without a word".to_owned())
}

pub(super) fn words_if_any(log: &str) -> Option<String> {
    let clean = |line: &str| line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned();
    let mut words = log.lines().filter(|line| is_for_people(line)).map(clean).collect::<Vec<_>>().join("; ");
    if words.len() > WORDS_MAX {
        let cut = words.len() - WORDS_MAX;
        let cut = (cut..words.len()).find(|at| words.is_char_boundary(*at)).unwrap_or(cut);
        words = format!("…{}", &words[cut..]);
    }
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: &str, is_person_there: bool) -> SshError {
        let facts = Facts { host: "centre", port: 23, user: "ada", proxy: None, by_hand: "ssh word" };
        verdict(log, "", &facts, is_person_there)
    }

    #[test]
    fn a_jump_host_that_asks_for_a_person_is_waited_for_like_the_host_itself() {
        let log = "Connection closed by UNKNOWN port 65535\r\n";
        let facts = Facts { host: "centre", port: 23, user: "ada", proxy: Some("jump"), by_hand: "ssh word" };
        let of = |proxy_log: &str| verdict(log, proxy_log, &facts, false);
        let found = of("debug1: x\nbob@gate.centre: Permission denied (publickey,keyboard-interactive).\r\n");
        let SshError::NeedsPerson { host, user, why } = &found else { panic!("{found}") };
        assert_eq!((host.as_str(), user.as_str()), ("gate.centre", "bob"));
        assert!(why.ends_with("the way to centre leads through it"), "{why}");
        let found = of("bob@gate: Permission denied (publickey).\r\n");
        assert!(matches!(&found, SshError::Refused { host, .. } if host == "gate"), "{found}");
        let found = of(
            "debug1: Server host key: ssh-ed25519 SHA256:abc\r\nNo ED25519 host key is known for [gate]:24 and you \
             have requested strict checking.\r\nHost key verification failed.\r\n",
        );
        let SshError::UnknownHostKey { host, port, fingerprint, by_hand } = &found else { panic!("{found}") };
        assert_eq!((host.as_str(), *port, fingerprint.as_str()), ("gate", 24, "SHA256:abc"));
        assert_eq!(by_hand, "ssh jump");
        let found = of("ssh: connect to host gate port 24: Connection refused\r\n");
        assert!(
            matches!(&found, SshError::NotConnected { why, .. } if why.contains("host gate port 24")),
            "{found}"
        );
        let found = of("");
        assert!(
            matches!(&found, SshError::Broken { what, .. } if what.contains("leads through jump")),
            "{found}"
        );
        // The jump host let us in: the host's word counts.
        let log = "ada@centre: Permission denied (publickey,password).\r\n";
        let found = verdict(log, "debug1: Authenticated to gate\n", &facts, false);
        assert!(matches!(&found, SshError::NeedsPerson { host, .. } if host == "centre"), "{found}");
    }

    #[test]
    fn what_ssh_says_is_understood() {
        let key = "debug1: Server host key: ssh-ed25519 SHA256:abc\r\n";
        for (log, kind) in [
            (
                "@@@\n@  WARNING: REVOKED HOST KEY DETECTED!  @\nHost key verification failed.\r\n",
                "is revoked",
            ),
            (
                "Host key ED25519 SHA256:abc revoked by file /etc/x\nHost key verification failed.",
                "is revoked",
            ),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "is not the one",
            ),
            (
                "No ED25519 host key is known for [a]:23 and you have requested strict checking.\nHost key verification failed.",
                "no known_hosts file has",
            ),
        ] {
            let said = of(&format!("{key}{log}"), false).to_string();
            assert!(said.contains(kind) && said.contains("SHA256:abc"), "{said}");
        }
        let unread = of(
            "Error checking host key ED25519 SHA256:abc in revoked keys file /x: No such file or directory\r\n\
             Host key verification failed.\r\n",
            false,
        );
        assert!(!unread.needs_person(), "{unread}");
        assert!(unread.to_string().contains("file /x: No such file or directory; see Revoked"), "{unread}");
        let refused = of("ada@centre: Permission denied (publickey).\r\n", false);
        assert!(
            matches!(&refused, SshError::Refused { tried, .. } if tried == "ada@centre: Permission denied (publickey)")
        );
        let log = "ada@centre: Permission denied (publickey,keyboard-interactive).\r\n";
        assert!(matches!(of(log, false), SshError::NeedsPerson { .. }));
        assert!(matches!(of(log, true), SshError::Refused { .. }), "the person was there");
        for log in
            ["ssh: connect to host a port 23: Connection refused", "ssh: Could not resolve hostname a: Name"]
        {
            assert!(matches!(of(log, false), SshError::NotConnected { .. }), "{log}");
        }
        assert!(
            matches!(of("debug1: x\nkex_exchange: Connection reset", false), SshError::Broken { what, .. } if what == "kex_exchange: Connection reset")
        );
    }

    #[test]
    fn what_ssh_says_to_nobody_is_shown_to_nobody() {
        let log = "OpenSSH_9.2p1 Debian\r\ndebug1: x\r\nAuthenticated using \"publickey\" with partial success.\r\n\
            Authenticated to gate ([::1]:22) using \"publickey\".\r\n";
        assert_eq!(words_if_any(log), None);
        assert_eq!(words(&format!("{log}Authenticated users only\r\n")), "Authenticated users only");
    }

    #[test]
    fn a_host_with_a_certificate_is_told_by_its_key_and_its_authority() {
        let log = "debug1: Server host certificate: ssh-ed25519-cert-v01@openssh.com SHA256:abc+, serial 0 ID \"a, CA b\" \
            CA ssh-ed25519 SHA256:def/ valid forever\r\ndebug2: Server host certificate hostname: foo\r\n";
        let of = |more: &str| of(&format!("{log}{more}"), false).to_string();
        let said = of("Host key verification failed.\r\n");
        assert!(
            said.contains("port 23, SHA256:abc+, signed by the authority SHA256:def/; compare it"),
            "{said}"
        );
        let said =
            of("Certificate invalid: name is not a listed principal\r\nHost key verification failed.\r\n");
        let why = "SHA256:def/ (its certificate does not count: name is not a listed principal); compare";
        assert!(said.contains(why), "{said}");
        let said = of("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.");
        assert!(said.contains("it showed SHA256:abc+, signed"), "{said}");
    }

    #[test]
    fn keys_and_certificates_that_were_tried_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let keygen = |words: &[&str]| {
            let keygen = std::process::Command::new("ssh-keygen").arg("-q").args(words).status();
            assert!(keygen.expect("ssh-keygen runs").success(), "{words:?}");
        };
        let path = |name: &str| folder.path().join(name).display().to_string();
        for key in ["ca", "my id"] {
            keygen(&["-t", "ed25519", "-N", "", "-f", &path(key)]);
        }
        let past = "20200101000000Z:20200102000000Z";
        keygen(&["-s", &path("ca"), "-I", "me", "-n", "ada", "-V", past, &path("my id.pub")]);
        let id = path("my id");
        let tried = |log: &str, user: &str| {
            let facts = Facts { host: "centre", port: 23, user, proxy: None, by_hand: "ssh word" };
            match verdict(
                &format!("{log}{user}@centre: Permission denied (publickey).\r\n"),
                "",
                &facts,
                false,
            ) {
                SshError::Refused { tried, .. } => tried,
                other => panic!("{other}"),
            }
        };
        let denied = "ada@centre: Permission denied (publickey)";
        let offers = format!(
            "debug1: Offering public key: {id} ED25519 SHA256:abc explicit\r\n\
             debug1: Offering public key: {id} ED25519-CERT SHA256:abc explicit\r\n"
        );
        let expired = format!("certificate {id}-cert.pub: it expired on 2020-01-02 00:00 UTC; get a new one");
        assert_eq!(tried(&offers, "ada"), format!("{expired}; {denied}"));
        // A file that the configuration names (CertificateFile).
        let named =
            format!("debug1: Offering public key: {id}-cert.pub ED25519-CERT SHA256:abc explicit\r\n");
        assert_eq!(tried(&named, "ada"), format!("{expired}; {denied}"));
        keygen(&["-s", &path("ca"), "-I", "me", "-n", "bob", &path("my id.pub")]);
        let for_bob = format!("certificate {id}-cert.pub: it is for bob and not for ada");
        assert_eq!(tried(&offers, "ada"), format!("{for_bob}; {denied}"));
        let of_agent = tried("debug1: Offering public key: me@home RSA-CERT SHA256:abc agent\r\n", "ada");
        assert!(of_agent.starts_with("certificate me@home of the agent: refused; `ssh-add"), "{of_agent}");
        let more = "no such identity: /x/y: No such file or directory\r\nLoad key \"/z\": bad permissions\r\n\
            debug1: Offering public key: /k RSA SHA256:abc explicit\r\n\
            debug1: Offering public key: me@home RSA SHA256:abc agent\r\n\
            debug1: Offering public key: /good RSA SHA256:ab agent\r\ndebug1: Server accepts key: /good RSA SHA256:ab agent\r\n";
        let expected = format!(
            "no such identity: /x/y: No such file or directory; Load key \"/z\": bad permissions; key /k: refused; key \
             me@home of the agent: refused; {denied}"
        );
        assert_eq!(tried(more, "ada"), expected);
        let many: String = (0..9).map(|n| format!("no such identity: /{n}: No\n")).collect();
        assert!(tried(&many, "ada").contains("no such identity: /3: No; 5 more; ada@"));
    }

    #[test]
    fn advice_about_keys_is_for_the_file_and_the_name_that_the_configuration_has() {
        let changed = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nAdd correct host key in /etc/my known to get \
            rid of this message.\nOffending ED25519 key in /etc/my known:3\r\nHost key for alias has changed and you have \
            requested strict checking.\nHost key verification failed.";
        let said = of(changed, false).to_string();
        assert!(said.contains("not the one in /etc/my known: it showed"), "{said}");
        assert!(said.contains("ssh-keygen -f '/etc/my known' -R alias, then"), "{said}");
        let nowhere = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nOffending key for IP in /x:1\n";
        let said = of(nowhere, false).to_string();
        assert!(said.contains("the file that `ssh -G HOST` names as userknownhostsfile"), "{said}");
        assert!(said.contains("ssh-keygen -f FILE -R '[centre]:23'"), "{said}");
        // By its word in the configuration the key goes to the file that the configuration names.
        let said =
            of("No ED25519 host key is known for a.\nHost key verification failed.", false).to_string();
        assert!(said.ends_with("log in once by hand: ssh word"), "{said}");
    }

    #[test]
    fn a_locked_key_and_a_wrong_passphrase_are_called_that() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("my key");
        std::fs::write(&key, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nAAAA\n")
            .expect("a key");
        let key = key.display();
        let log = format!(
            "debug1: Server accepts key: {key} RSA SHA256:abc explicit\ndebug2: we did not send a packet\n\
             ada@centre: Permission denied (publickey).\n"
        );
        let said = of(&log, false);
        assert!(
            matches!(&said, SshError::NeedsPerson { why, .. } if why.contains("my key: it has a passphrase")),
            "{said}"
        );
        let log = format!(
            "debug1: Trying private key: {key}\ndebug2: bad passphrase given, try again...\n\
             ada@centre: Permission denied (publickey).\n"
        );
        let said = of(&log, true);
        assert!(
            matches!(&said, SshError::Refused { tried, .. } if tried.contains("my key: the passphrase is wrong")),
            "{said}"
        );
    }
}
