//! Files by a pattern. Names that are not UTF-8 and links that lead in circles are expected in any folder.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::files::parts::is_part;
use crate::job::author::sources::SourceError;
use crate::problem::quoted;

/// Hidden files match only a pattern that begins with a dot, as in shells.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A part of a pattern between slashes.
enum Component<'p> {
    /// `**`: the folder itself and all below it.
    AnyFolders,
    /// A name without wildcards.
    Name(&'p str),
    Wild(Pattern),
}

/// The files that match a pattern relative to a folder, as absolute paths in order. Folders match only a pattern that
/// ends with a slash. `**` goes into each folder once, also where links lead to it. Files that Pilotfish has not finished
/// match none.
///
/// # Errors
/// No pattern, nothing that matches, a folder that cannot be read, a match that is not UTF-8.
pub(super) fn list_files(base_dir: &Path, pattern: &str) -> Result<Vec<String>, SourceError> {
    if let Err(error) = Pattern::new(pattern) {
        let expected = match error.msg.contains("recursive wildcards") {
            true => "`**` stands alone between slashes, like `a/**/*.txt`".to_owned(),
            false => format!("this is not a pattern: {}", error.msg),
        };
        return Err(SourceError::content(quoted(pattern), expected));
    }
    let mut components: Vec<Component<'_>> =
        pattern.split('/').filter(|name| !name.is_empty() && *name != ".").map(component).collect();
    let wants_folders = pattern.ends_with('/');
    if !wants_folders && matches!(components.last(), Some(Component::AnyFolders)) {
        components.extend(Pattern::new("*").map(Component::Wild));
    }
    let start = if pattern.starts_with('/') { Path::new("/") } else { base_dir };
    let mut found = vec![start.to_owned()];
    for component in &components {
        found = step(found, component)?;
    }
    let mut files = Vec::new();
    for path in found {
        if path.is_dir() != wants_folders {
            continue;
        }
        let Some(text) = path.to_str() else {
            let found = format!("the name {}, which is not UTF-8", quoted(&path.to_string_lossy()));
            return Err(SourceError::content(found, "rename that file"));
        };
        files.push(text.trim_end_matches('/').to_owned());
    }
    if files.is_empty() {
        let found = format!("no file that matches {}", quoted(pattern));
        if let Some((first, last)) = empty_range(pattern) {
            let expected = format!("`{first}-{last}` holds no character: write `{last}-{first}`");
            return Err(SourceError::content(found, expected));
        }
        let expected = match (pattern.starts_with('~'), pattern.contains('{'), pattern.contains('$')) {
            (true, ..) => "`~` is not expanded here: write the whole path",
            (_, true, _) => {
                "braces are not expanded here: write a pattern with `*`, `?` or `[ab]`, or a list of values"
            }
            (_, _, true) => "variables are not expanded here: write the whole path",
            _ => "check the pattern; relative ones start from the job file's folder",
        };
        return Err(SourceError::content(found, expected));
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// The first range between brackets that ends before it begins, like `z-a`.
fn empty_range(pattern: &str) -> Option<(char, char)> {
    let classes = pattern.split('[').skip(1).filter_map(|rest| Some(rest.split_once(']')?.0));
    classes
        .filter(|class| !class.starts_with('!'))
        .map(|class| class.chars().collect::<Vec<char>>())
        .find_map(|class| {
            let mut ranges = class.windows(3).filter(|range| range[1] == '-' && range[0] > range[2]);
            ranges.next().map(|range| (range[0], range[2]))
        })
}

fn component(name: &str) -> Component<'_> {
    match Pattern::new(name) {
        _ if name == "**" => Component::AnyFolders,
        Ok(pattern) if name.contains(['*', '?', '[']) => Component::Wild(pattern),
        _ => Component::Name(name),
    }
}

/// What matches one part more.
fn step(found: Vec<PathBuf>, component: &Component<'_>) -> Result<Vec<PathBuf>, SourceError> {
    match component {
        Component::Name(name) => {
            let inside = found.into_iter().map(|path| path.join(name));
            Ok(inside.filter(|path| path.symlink_metadata().is_ok()).collect())
        }
        Component::Wild(pattern) => {
            let mut all = Vec::new();
            for folder in found {
                for path in entries(&folder)? {
                    // Of a name that is not UTF-8, the rest of it can match.
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    if pattern.matches_with(&name, OPTIONS) && !is_unfinished(&path) {
                        all.push(path);
                    }
                }
            }
            Ok(all)
        }
        Component::AnyFolders => {
            let mut walk = Walk { seen: HashSet::new(), found: Vec::new(), links: Vec::new() };
            for folder in found.into_iter().filter(|folder| folder.is_dir()) {
                walk.below(folder)?;
            }
            while !walk.links.is_empty() {
                for link in std::mem::take(&mut walk.links) {
                    walk.below(link)?;
                }
            }
            Ok(walk.found)
        }
    }
}

/// Whether a file is one that a command of Pilotfish brings home, or was killed with.
pub(super) fn is_unfinished(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_part)
}

/// All folders below some, each once: by its own name rather than by a link's.
struct Walk {
    /// Devices and numbers of the folders that were seen.
    seen: HashSet<(u64, u64)>,
    found: Vec<PathBuf>,
    /// Links to folders that were met.
    links: Vec<PathBuf>,
}

impl Walk {
    fn below(&mut self, folder: PathBuf) -> Result<(), SourceError> {
        let mut waiting = vec![folder];
        while let Some(folder) = waiting.pop() {
            let facts = match folder.metadata() {
                Ok(facts) => facts,
                // It went away, or is a link that leads nowhere.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(unreadable(&folder, error)),
            };
            if !self.seen.insert(number(&facts)) {
                continue;
            }
            for path in entries(&folder)? {
                let is_hidden =
                    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
                let Ok(kind) = path.symlink_metadata() else { continue };
                if is_hidden {
                    continue;
                }
                if kind.is_dir() {
                    waiting.push(path);
                } else if kind.is_symlink() && path.is_dir() {
                    self.links.push(path);
                }
            }
            self.found.push(folder);
        }
        Ok(())
    }
}

fn number(facts: &Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

/// What is in a folder, in order; nothing where there is no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let read = match std::fs::read_dir(folder) {
        Ok(read) => read,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(folder, error)),
    };
    let paths: Result<Vec<PathBuf>, io::Error> = read.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(|error| unreadable(folder, error))?;
    paths.sort_unstable();
    Ok(paths)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn unreadable(folder: &Path, error: io::Error) -> SourceError {
    SourceError::UnreadableFolder { folder: folder.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use tempfile::TempDir;

    use super::list_files;

    /// A folder with files; a name that ends with a slash is a folder, and `a -> b` a link.
    fn folder(names: &[&str]) -> TempDir {
        let folder = TempDir::new().unwrap();
        for name in names {
            let path = folder.path().join(name.split(" -> ").next().unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match name.split_once(" -> ") {
                Some((_, target)) => symlink(target, path).unwrap(),
                None if name.ends_with('/') => fs::create_dir_all(path).unwrap(),
                None => fs::write(path, name).unwrap(),
            }
        }
        folder
    }

    fn found(folder: &Path, pattern: &str) -> String {
        let base = format!("{}/", folder.display());
        match list_files(folder, pattern) {
            Ok(files) => files.iter().map(|file| file.replace(&base, "")).collect::<Vec<_>>().join(" "),
            Err(error) => format!("{}; {}", error.found().replace(&base, ""), error.expected()),
        }
    }

    #[test]
    fn patterns_match_as_in_shells() {
        let names = [
            "in/a.dat",
            "in/b.dat",
            "in/.hidden.dat",
            "in/.pilotfish-a1b2c3",
            "in/b.dat.pilotfish-17-1.part",
            "in/x/c.dat",
            "in/.h/d.dat",
            "in/[1].txt",
            "out/a.dat",
        ];
        let folder = folder(&names);
        for (pattern, expected) in [
            ("in/*.dat", "in/a.dat in/b.dat"),
            ("./in/?.dat", "in/a.dat in/b.dat"),
            ("*/a.dat", "in/a.dat out/a.dat"),
            ("in/**/*.dat", "in/a.dat in/b.dat in/x/c.dat"),
            ("**/c.dat", "in/x/c.dat"),
            ("in/**", "in/[1].txt in/a.dat in/b.dat in/x/c.dat"),
            ("in/.*.dat", "in/.hidden.dat"),
            ("in/.*", "in/.hidden.dat"),
            ("in/*/", "in/x"),
            ("in/[ab].dat", "in/a.dat in/b.dat"),
            ("in/[[]1].txt", "in/[1].txt"),
            ("in/x/../a.dat", "in/x/../a.dat"),
            ("in/a.dat", "in/a.dat"),
            (
                "in/a.dat/*",
                "no file that matches `in/a.dat/*`; check the pattern; relative ones start from the job file's folder",
            ),
        ] {
            assert_eq!(found(folder.path(), pattern), expected, "{pattern}");
        }
        for (pattern, expected) in [
            ("~/in/*.dat", "`~` is not expanded here"),
            ("in/{a,b}.dat", "braces are not expanded here"),
            ("$HOME/in/*.dat", "variables are not expanded here"),
            ("in/[0-9z-a].dat", "`z-a` holds no character: write `a-z`"),
        ] {
            let said = found(folder.path(), pattern);
            assert!(said.starts_with(&format!("no file that matches `{pattern}`; {expected}")), "{said}");
        }
        let absolute = format!("{}/in/*.dat", folder.path().display());
        assert_eq!(found(folder.path(), &absolute), "in/a.dat in/b.dat");
        assert!(found(folder.path(), "in/a**").contains("`**` stands alone between slashes"));
    }

    #[test]
    fn each_file_matches_once_where_links_lead_in_circles() {
        let folder = folder(&[
            "data/a.dat",
            "data/b.dat",
            "data/latest -> .",
            "data/x/c.dat",
            "data/x/up -> ../..",
            "data/lost -> nowhere",
            "data/self -> self",
        ]);
        assert_eq!(found(folder.path(), "data/**/*.dat"), "data/a.dat data/b.dat data/x/c.dat");
        // A link to another folder is gone into, once.
        let folder =
            self::folder(&["data/a -> ../far", "data/b -> ../far", "far/one.dat", "far/back -> ../data"]);
        assert_eq!(found(folder.path(), "data/**/*.dat"), "data/a/one.dat");
        let folder = self::folder(&["a/x.dat", "a/l -> ../b", "b/y.dat", "b/l -> ../a"]);
        assert_eq!(found(folder.path(), "**/*.dat"), "a/x.dat b/y.dat");
    }

    #[test]
    fn names_that_are_not_utf8_are_passed_over_unless_they_match() {
        let folder = folder(&["in/a.foo", "in/x/b.foo"]);
        let name = OsStr::from_bytes(b"caf\xe9.txt");
        fs::write(folder.path().join("in").join(name), "").unwrap();
        fs::create_dir(folder.path().join("in").join(OsStr::from_bytes(b"\xff"))).unwrap();
        assert_eq!(found(folder.path(), "in/*.foo"), "in/a.foo");
        assert_eq!(found(folder.path(), "in/**/*.foo"), "in/a.foo in/x/b.foo");
        assert_eq!(found(folder.path(), "*/a.foo"), "in/a.foo");
        let said = found(folder.path(), "in/*.txt");
        assert_eq!(said, "the name `in/caf\u{fffd}.txt`, which is not UTF-8; rename that file");
        fs::write(folder.path().join("in").join(OsStr::from_bytes(b"\xff/c.foo")), "").unwrap();
        assert!(found(folder.path(), "in/**/*.foo").contains("which is not UTF-8"));
    }
}
