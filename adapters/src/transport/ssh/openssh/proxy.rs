//! What leads to a host, run so that what it says is heard. `ssh` itself throws that away where a connection is to
//! outlive the command that opened it, and a jump host that asks for a person would look like one that hangs up.

use std::path::Path;

use super::super::{address::Address, route::Said};
use crate::script::quoted;

/// The option that does the same as the configuration's `ProxyJump` or `ProxyCommand`, and writes what they say for
/// people to a file. `is_alone`: nobody can answer. `None`: nothing leads there, or it cannot be said otherwise.
pub(super) fn option(said: &Said, config: Option<&str>, log: &Path, is_alone: bool) -> Option<String> {
    let set = |word: &str| said.one(word).filter(|value| !value.is_empty() && *value != "none");
    let (command, opens_log) = match (set("proxyjump"), set("proxycommand")) {
        (Some(jump), _) => (by_jump(jump, config, is_alone)?, "exec 2>>\"$1\"; shift; exec \"$@\""),
        // It is run as `ssh` does it.
        (None, Some(line)) => (quoted(line), "exec 2>>\"$1\"; exec \"${SHELL:-/bin/sh}\" -c \"exec $2\""),
        (None, None) => return None,
    };
    // `%` would be a token there.
    let log = quoted(&log.to_str()?.replace('%', "%%"));
    let line = format!("ProxyCommand=/bin/sh -c {} sh {log} {command}", quoted(opens_log));
    // Shells like csh change these in quotes, too.
    (!line.contains(['!', '\n'])).then_some(line)
}

/// As ssh(1) makes it: the last jump host is asked to lead on, by way of those before it.
fn by_jump(jump: &str, config: Option<&str>, is_alone: bool) -> Option<String> {
    let (before, last) = match jump.rsplit_once(',') {
        Some((before, last)) => (Some(before), last),
        None => (None, jump),
    };
    let last = Address::read(last).ok()?;
    let mut words = vec!["ssh".to_owned()];
    words.extend(config.iter().flat_map(|config| ["-F".to_owned(), quoted(&config.replace('%', "%%"))]));
    words.extend(before.iter().flat_map(|before| ["-J".to_owned(), quoted(before)]));
    // With more, what a connection of weeks says would fill a disk; with less, locked keys are not told.
    words.extend(["-o", "LogLevel=DEBUG1"].map(str::to_owned));
    if is_alone {
        words.extend(["-o", "BatchMode=yes"].map(str::to_owned));
    }
    words.push("-W '[%h]:%p'".to_owned());
    words.extend(last.words().iter().map(|word| quoted(word)));
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str) -> Option<String> {
        option(&Said(said.to_owned()), Some("/my config"), Path::new("/s/a%b.way"), true)
    }

    #[test]
    fn jump_hosts_and_commands_are_run_as_ssh_does() {
        assert_eq!(of("hostname a\nproxyjump none\n"), None);
        let begin =
            r#"ProxyCommand=/bin/sh -c 'exec 2>>"$1"; shift; exec "$@"' sh /s/a%%b.way ssh -F '/my config' "#;
        let end = "-o LogLevel=DEBUG1 -o BatchMode=yes -W '[%h]:%p'";
        assert_eq!(of("proxyjump bob@gate:24"), Some(format!("{begin}{end} -p 24 -l bob -- gate")));
        let url = of("proxyjump ssh://bob%40lab@gate:24/");
        assert_eq!(url, Some(format!("{begin}{end} -p 24 -l bob@lab -- gate")));
        assert_eq!(of("proxyjump first,second"), Some(format!("{begin}-J first {end} -- second")));
        let command = of("proxycommand nc -X 5 '%h' %p | cat").expect("a command");
        assert!(command.ends_with(r"sh /s/a%%b.way 'nc -X 5 '\''%h'\'' %p | cat'"), "{command}");
        assert_eq!(of("proxycommand echo !"), None);
    }
}
