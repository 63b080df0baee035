//! Commands as one would type them.

/// A command line that a shell reads as these arguments.
pub fn command_line(argv: &[String]) -> String {
    // A shell line is shown as it was written.
    if let [shell, flag, line] = argv
        && shell == "/bin/sh"
        && flag == "-c"
    {
        return line.clone();
    }
    argv.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(" ")
}

/// One word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::command_line;

    fn shown(argv: &[&str]) -> String {
        command_line(&argv.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_quoted_where_a_shell_needs_it() {
        assert_eq!(shown(&["vina", "--seed=1", "a b", "", "it's"]), r"vina --seed=1 'a b' '' 'it'\''s'");
        assert_eq!(shown(&["/bin/sh", "-c", "wc -l < x | sort"]), "wc -l < x | sort");
    }
}
