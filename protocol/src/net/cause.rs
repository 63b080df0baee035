//! Why a connection failed, in words for people.

use std::error::Error;

/// The innermost cause of an error of a client of HTTP, without the address, which is told beside it. `is_timeout`: the
/// client says that it took too long.
pub fn cause(error: &(dyn Error + 'static), is_timeout: bool) -> String {
    if is_timeout {
        return "no answer in time".to_owned();
    }
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    in_words(cause.to_string())
}

/// What libraries say of mistakes that people make, with what it means.
fn in_words(said: String) -> String {
    const MEANINGS: [(&str, &str); 4] = [
        (
            "InvalidContentType",
            "the server does not speak TLS at this port; is http:// meant, or another port?",
        ),
        ("tls handshake eof", "the server hangs up when TLS begins; is http:// meant, or another port?"),
        ("invalid HTTP version", "what answers there is no HTTP; is https:// meant, or another port?"),
        ("UnknownIssuer", "no authority that is trusted here has signed the server's certificate"),
    ];
    match MEANINGS.iter().find(|(words, _)| said.contains(words)) {
        Some((_, meaning)) => format!("{meaning} ({said})"),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::cause;

    #[test]
    fn words_of_libraries_come_with_what_they_mean() {
        let said = |words: &str| cause(&io::Error::other(words.to_owned()), false);
        assert_eq!(
            said("received corrupt message of type InvalidContentType"),
            "the server does not speak TLS at this port; is http:// meant, or another port? \
             (received corrupt message of type InvalidContentType)"
        );
        assert_eq!(said("Connection refused"), "Connection refused");
        assert_eq!(cause(&io::Error::other("x"), true), "no answer in time");
    }
}
