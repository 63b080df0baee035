//! Places in stores of objects or on file servers that the manager knows by a name: `store://NAME/PATH`.

use std::fmt;

use crate::job::files::path::{STORE_SCHEME, safe_relative, strip_scheme};
use crate::problem::{Problem, quoted};

/// Letters of a store's name at most.
const NAME_BYTES_MAX: usize = 64;

/// A file in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StorePlace {
    /// The store's name in `manager.yaml`.
    pub store: String,
    /// Below the folder that the operator gave; never absolute, and without `..`.
    pub path: String,
}

impl StorePlace {
    /// Reads `store://NAME/PATH`; `None`: it is none.
    pub fn parse(text: &str) -> Option<StorePlace> {
        let (store, path) = strip_scheme(text, STORE_SCHEME)?.split_once('/')?;
        // As it is written: `a/./b` is another object than `a/b`. Blanks at the ends do not reach all stores.
        let is_plain =
            safe_relative(path).is_some_and(|safe| safe.to_str() == Some(path)) && path.trim() == path;
        (is_store_name(store) && is_plain)
            .then(|| StorePlace { store: store.to_owned(), path: path.to_owned() })
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STORE_SCHEME}{}/{}", self.store, self.path)
    }
}

/// Whether a store may have this name.
pub fn is_store_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_part)
}

/// The store that a template names, if it does so in letters.
pub(in crate::job) fn store_of(template: &str) -> Option<&str> {
    let (store, _) = strip_scheme(template, STORE_SCHEME)?.split_once('/')?;
    is_store_name(store).then_some(store)
}

/// The place that a text names. Which stores a job needs is told by its templates.
pub(in crate::job) fn store_place(
    text: &str,
    template: &str,
    field: impl Fn() -> String,
) -> Result<StorePlace, Problem> {
    let place = StorePlace::parse(text).filter(|_| store_of(template).is_some());
    let has_blanks = strip_scheme(text, STORE_SCHEME)
        .and_then(|text| text.split_once('/'))
        .is_some_and(|(_, path)| path.trim() != path);
    place.ok_or_else(|| {
        if has_blanks {
            let expected = "stores drop blanks at the ends of a name, so that two names would be one object: take them out";
            return Problem::new(field(), quoted(text), expected);
        }
        let names_by_value = store_of(template).is_none() && template.contains('{');
        let has_store = store_of(text).is_some();
        let (found, expected) = match (names_by_value, has_store) {
            (true, _) => (
                template,
                "write the store's name in letters, without a parameter: which stores a job needs is known before its \
                 values (`pilotfish stores` lists them)",
            ),
            (false, true) => (
                text,
                "a path below the store's folder is right: without `..` and `.`, and with a file's name",
            ),
            (false, false) => {
                (text, "write store://NAME/PATH, the store's name in letters (`pilotfish stores` lists them)")
            }
        };
        Problem::new(field(), quoted(found), expected)
    })
}

#[cfg(test)]
mod tests {
    use super::{StorePlace, store_of};

    #[test]
    fn a_place_has_a_store_and_a_path_below_its_folder() {
        let place = StorePlace::parse("store://lab-1/runs/7/out.txt").expect("a place");
        assert_eq!((place.store.as_str(), place.path.as_str()), ("lab-1", "runs/7/out.txt"));
        assert_eq!(place.to_string(), "store://lab-1/runs/7/out.txt");
        assert_eq!(StorePlace::parse("STORE://lab-1/runs/7/out.txt"), Some(place));
        for text in [
            "store://lab",
            "store://lab/",
            "store:///a",
            "store://l b/a",
            "store://lab/../a",
            "store://lab//a",
            "store://lab/a//b",
            "store://lab/./a",
            "store://lab/a/",
            "store://lab/a ",
            "store://lab/ a",
            "store://lab/a\n",
            "store://lab/a\u{3000}",
            "lab/a",
        ] {
            assert_eq!(StorePlace::parse(text), None, "{text}");
        }
        assert!(StorePlace::parse("store://lab/a b/ c").is_some());
        assert_eq!(store_of("store://lab/{index}"), Some("lab"));
        assert_eq!(store_of("store://{lab}/x"), None);
    }
}
