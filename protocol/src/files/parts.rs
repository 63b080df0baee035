//! Names of files that are not whole yet. They lie beside those that they become, in folders of users.

/// What the names begin with. On hosts that are reached by SFTP it follows the name of the file that is to be, ...
pub const PART_PREFIX: &str = ".pilotfish-";
/// ... and this ends the name.
const PART_END: &str = ".part";

/// Whether a file's name, without folders, is that of one which Pilotfish has not finished. Nobody's input is one.
pub fn is_part(name: &str) -> bool {
    name.starts_with(PART_PREFIX) || (name.contains(PART_PREFIX) && name.ends_with(PART_END))
}

#[cfg(test)]
mod tests {
    use super::is_part;

    #[test]
    fn parts_are_told_by_their_names() {
        for name in [".pilotfish-a1b2c3", ".pilotfish-0-1-2-a1b2c3", "out.txt.pilotfish-17-1.part"] {
            assert!(is_part(name), "{name}");
        }
        for name in [".pilotfish", "pilotfish-a1b2c3", "x.part", "x.pilotfish-1", ".hidden"] {
            assert!(!is_part(name), "{name}");
        }
    }
}
