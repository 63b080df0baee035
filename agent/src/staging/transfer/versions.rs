//! The version of a server's file, and the range of a partial answer.

use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderValue};

/// Age at which a `Last-Modified` identifies one version: until then the file may change again and keep its
/// date (RFC 9110, 8.8.2.2).
const DATE_IS_STRONG_AFTER: Duration = Duration::from_secs(1);

/// Returns the header that identifies a version of a file; `None`: no header does for certain.
pub(in crate::staging) fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let strong = headers.get(header::ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/"));
    strong.or_else(|| headers.get(header::LAST_MODIFIED).filter(|_| is_date_strong(headers))).cloned()
}

/// Returns whether the file's date is so old that no other version can have it.
fn is_date_strong(headers: &HeaderMap) -> bool {
    let date = |name| httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok();
    let (answered, modified) = (date(header::DATE), date(header::LAST_MODIFIED));
    answered.zip(modified).is_some_and(|(answered, modified)| {
        answered.duration_since(modified).is_ok_and(|age| age >= DATE_IS_STRONG_AFTER)
    })
}

/// The range of a file that a server sends.
pub(in crate::staging) struct ContentRange {
    /// The position of its first byte.
    pub(in crate::staging) begins_at: u64,
    /// Bytes of the whole file, unless the server does not know them.
    pub(in crate::staging) n_total: Option<u64>,
}

/// Parses `bytes FIRST-LAST/TOTAL`; the total may be `*`.
pub(in crate::staging) fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let range = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (first, rest) = range.split_once('-')?;
    let n_total = rest.split_once('/').and_then(|(_, total)| total.trim().parse().ok());
    Some(ContentRange { begins_at: first.trim().parse().ok()?, n_total })
}

#[cfg(test)]
mod tests {
    use reqwest::header::{DATE, ETAG, HeaderMap, LAST_MODIFIED};

    use super::validator;

    #[test]
    fn a_weak_tag_and_a_date_of_the_same_second_tell_no_versions_apart() {
        const NOON: &str = "Mon, 02 Mar 2026 12:00:00 GMT";
        const LATER: &str = "Mon, 02 Mar 2026 12:00:01 GMT";
        for (tag, modified, date, expected) in [
            ("\"a\"", "", "", "\"a\""),
            ("\"a\"", NOON, NOON, "\"a\""),
            ("", NOON, LATER, NOON),
            ("W/\"a\"", NOON, LATER, NOON),
            ("", NOON, "Monday, 02-Mar-26 12:00:01 GMT", NOON),
            ("W/\"a\"", "", "", ""),
            ("", NOON, NOON, ""),
            ("", LATER, NOON, ""),
            ("", NOON, "", ""),
            ("", NOON, "noon", ""),
            ("", "noon", NOON, ""),
            ("", "", LATER, ""),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [(ETAG, tag), (LAST_MODIFIED, modified), (DATE, date)] {
                if !value.is_empty() {
                    headers.insert(name, value.parse().unwrap());
                }
            }
            let found = validator(&headers).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(found.unwrap_or_default(), expected, "{tag} {modified} {date}");
        }
    }
}
