//! Packs: many small files in one message, by what they hold. A request for each of a hundred thousand would take longer
//! than all of their contents.
//!
//! A pack is, for each file, its SHA-256 (32 bytes), its size (8 bytes, the lowest first) and its contents.

use scheduler::digest::Digest;

/// Files that go in packs are not larger, in bytes.
pub const PACKED_BYTES_MAX: u64 = 64 << 10;
/// Files of a pack at most.
pub const N_PACKED_MAX: usize = 1_000;
/// Fewer go one by one.
pub const N_PACKED_MIN: usize = 32;
/// Bytes of all contents of a pack at most.
pub const CONTENTS_BYTES_MAX: usize = 4 << 20;
/// Bytes of a pack at most.
pub const PACK_BYTES_MAX: usize = CONTENTS_BYTES_MAX + N_PACKED_MAX * HEAD_BYTES;

const DIGEST_BYTES: usize = 32;
const HEAD_BYTES: usize = DIGEST_BYTES + 8;

/// Adds a file to a pack.
pub fn push(pack: &mut Vec<u8>, sha256: &Digest, contents: &[u8]) {
    pack.extend_from_slice(&sha256.0);
    pack.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    pack.extend_from_slice(contents);
}

/// The files of a pack, as they are announced: nobody has compared contents and digests yet.
///
/// # Errors
/// It is no pack, or has too many files: what was found, and what would be right.
pub fn files(mut pack: &[u8]) -> Result<Vec<(Digest, &[u8])>, String> {
    let mut files = Vec::new();
    while !pack.is_empty() {
        let cut = || format!("found a pack that ends in the middle of file {}; send it again", files.len());
        let (head, rest) = pack.split_at_checked(HEAD_BYTES).ok_or_else(cut)?;
        let (digest, size) = head.split_at(DIGEST_BYTES);
        let mut sha256 = Digest::default();
        sha256.0.copy_from_slice(digest);
        let size = size.try_into().map(u64::from_le_bytes).map_err(|_| cut())?;
        if size > PACKED_BYTES_MAX {
            return Err(format!(
                "found a file of {size} bytes in a pack; at most {PACKED_BYTES_MAX} are right"
            ));
        }
        let (contents, rest) = rest.split_at_checked(size as usize).ok_or_else(cut)?;
        if files.len() == N_PACKED_MAX {
            return Err(format!("found more files than {N_PACKED_MAX} in a pack; send several"));
        }
        files.push((sha256, contents));
        pack = rest;
    }
    Ok(files)
}

/// Divides small files, each with its size, into packs.
pub fn divide<T>(files: impl IntoIterator<Item = (T, u64)>) -> Vec<Vec<(T, u64)>> {
    let (mut packs, mut n_bytes) = (Vec::new(), 0_u64);
    for (file, size) in files {
        n_bytes = n_bytes.saturating_add(size);
        match packs.last_mut() {
            Some(pack) if Vec::len(pack) < N_PACKED_MAX && n_bytes <= CONTENTS_BYTES_MAX as u64 => {
                pack.push((file, size));
            }
            _ => {
                packs.push(vec![(file, size)]);
                n_bytes = size;
            }
        }
    }
    packs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_gives_back_what_was_put_into_it() {
        let mut pack = Vec::new();
        let all = [(Digest([1; 32]), &b"one"[..]), (Digest([2; 32]), b""), (Digest([3; 32]), &[7; 4000])];
        all.iter().for_each(|(sha256, contents)| push(&mut pack, sha256, contents));
        assert_eq!(files(&pack).unwrap(), all);
        assert_eq!(files(b"").unwrap(), []);
        for n in [1, 39, 41, 84, pack.len() - 1] {
            assert!(files(&pack[..n]).unwrap_err().contains("ends in the middle of file"), "{n}");
        }
    }

    #[test]
    fn a_pack_of_files_that_are_too_large_or_too_many_is_refused() {
        let mut large = vec![0; 32];
        large.extend(u64::MAX.to_le_bytes());
        assert!(files(&large).unwrap_err().contains("at most 65536"));
        let mut many = Vec::new();
        (0..=N_PACKED_MAX).for_each(|_| push(&mut many, &Digest::default(), b""));
        assert!(files(&many).unwrap_err().contains("more files than 1000"));
    }

    #[test]
    fn files_are_divided_so_that_each_pack_may_be_sent() {
        let sizes = |packs: Vec<Vec<(usize, u64)>>| -> Vec<usize> { packs.iter().map(Vec::len).collect() };
        assert_eq!(sizes(divide((0..2500).map(|n| (n, 1)))), [1000, 1000, 500]);
        assert_eq!(sizes(divide((0..130).map(|n| (n, PACKED_BYTES_MAX)))), [64, 64, 2]);
        assert!(divide(Vec::<(usize, u64)>::new()).is_empty());
    }
}
