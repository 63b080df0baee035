//! The first line of scripts, which names the program that runs them.

/// Bytes of a file that the kernel looks at for its interpreter.
pub const SHEBANG_BYTES_MAX: usize = 256;

/// The interpreter line of a script whose lines end as on Windows, or with nothing else as on an old Mac: the kernel looks
/// for a program whose name has the carriage return, and says that there is no such file. `start`: the first bytes of
/// the file.
pub fn shebang_with_carriage_return(start: &[u8]) -> Option<String> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let end = line.iter().position(|byte| *byte == b'\r')?;
    let line = line.get(..end)?;
    Some(format!("#!{}", String::from_utf8_lossy(line)))
}

/// The program that the first line of a script names; `None`: it is no script. `start`: the first bytes of the file.
pub fn interpreter(start: &[u8]) -> Option<String> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    Some(String::from_utf8_lossy(words.next()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{interpreter, shebang_with_carriage_return};

    #[test]
    fn interpreter_is_the_first_word_of_the_first_line() {
        assert_eq!(interpreter(b"#!/bin/sh -e\necho\n").as_deref(), Some("/bin/sh"));
        assert_eq!(interpreter(b"#! \t/usr/bin/env\tpython3").as_deref(), Some("/usr/bin/env"));
        for text in ["echo\n#!/bin/sh\n", "#!\n", "", "\x7fELF"] {
            assert_eq!(interpreter(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn only_a_first_line_that_ends_with_a_carriage_return_is_told() {
        assert_eq!(shebang_with_carriage_return(b"#!/bin/sh\r\necho\r\n").as_deref(), Some("#!/bin/sh"));
        assert_eq!(
            shebang_with_carriage_return(b"#!/usr/bin/env python3\r").as_deref(),
            Some("#!/usr/bin/env python3")
        );
        let of_mac = b"#!/bin/sh\recho hi\recho ho\r";
        assert_eq!(
            shebang_with_carriage_return(of_mac).as_deref(),
            Some("#!/bin/sh"),
            "no more than its line"
        );
        for text in ["#!/bin/sh\necho\r\n", "echo\r\n", "", "#!/bin/sh"] {
            assert_eq!(shebang_with_carriage_return(text.as_bytes()), None, "{text}");
        }
    }
}
