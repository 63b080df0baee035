//! Checksums of rows, which show damage and its record. `docs/store.md` lists them.

use std::ops::Range;

use rusqlite::{Row, types::ValueRef};

use super::error::Fault;

/// The CRC-32 (IEEE) of a table's name and of values. A change of up to 32 neighbouring bits always changes it.
pub(super) struct Sum(crc32fast::Hasher);

impl Sum {
    /// The sum of rows of this table, without any value yet.
    pub(super) fn of(table: &str) -> Sum {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(table.as_bytes());
        Sum(hasher)
    }

    /// Adds a value: a byte for its type, the length of texts and blobs, and what it holds.
    pub(super) fn add(&mut self, value: ValueRef<'_>) {
        let mut bytes = |kind: u8, bytes: &[u8]| {
            self.0.update(&[kind]);
            self.0.update(&(bytes.len() as u64).to_le_bytes());
            self.0.update(bytes);
        };
        match value {
            ValueRef::Null => bytes(b'n', &[]),
            ValueRef::Integer(n) => bytes(b'i', &n.to_le_bytes()),
            ValueRef::Real(n) => bytes(b'r', &n.to_le_bytes()),
            ValueRef::Text(text) => bytes(b't', text),
            ValueRef::Blob(blob) => bytes(b'b', blob),
        }
    }

    /// The sum, as it is stored: a signed number takes four bytes in SQLite, an unsigned one six where it is large.
    pub(super) fn end(self) -> i64 {
        i64::from(self.crc().cast_signed())
    }

    /// The sum as an unsigned number.
    pub(super) fn crc(self) -> u32 {
        self.0.finalize()
    }
}

/// Whether a stored sum is this one. Former versions stored sums as unsigned numbers.
pub(super) fn is_same(noted: i64, sum: i64) -> bool {
    noted == sum || noted == unsigned(sum)
}

/// Sums of sums are made of unsigned numbers, in whichever way those sums are stored.
fn unsigned(sum: i64) -> i64 {
    sum & i64::from(u32::MAX)
}

/// The sum of values.
pub(super) fn of_values<'v>(table: &str, values: impl IntoIterator<Item = ValueRef<'v>>) -> i64 {
    let mut sum = Sum::of(table);
    values.into_iter().for_each(|value| sum.add(value));
    sum.end()
}

/// The sum of some columns of a row.
pub(super) fn of_row(table: &str, row: &Row<'_>, columns: Range<usize>) -> Result<i64, Fault> {
    let mut sum = Sum::of(table);
    for column in columns {
        sum.add(row.get_ref(column)?);
    }
    Ok(sum.end())
}

/// The sum of sums: 0 if there are none.
pub(super) fn of_sums(sums: &[i64]) -> i64 {
    match sums {
        [] => 0,
        _ => of_values("", sums.iter().map(|sum| ValueRef::Integer(unsigned(*sum)))),
    }
}

/// The chained sum of a record: of that of the record before it, its row's and its failures'.
pub(super) fn chained(before: i64, row: i64, failures: &[i64]) -> i64 {
    of_values("chain", [before, row].iter().chain(failures).map(|sum| ValueRef::Integer(unsigned(*sum))))
}

/// Whether a row is as it was written. A row without a sum was written before there were any; `replay` and `check`
/// know up to which record that is so.
pub(super) fn is_whole(table: &str, row: &Row<'_>, columns: Range<usize>) -> Result<bool, Fault> {
    let noted: Option<i64> = row.get(columns.end)?;
    Ok(match noted {
        Some(noted) => is_same(noted, of_row(table, row, columns)?),
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_four_bytes_and_the_unsigned_ones_of_former_versions_are_the_same() {
        let crc = |n: i64| {
            let mut sum = Sum::of("reports");
            sum.add(ValueRef::Integer(n));
            i64::from(sum.crc())
        };
        let stored = |n: i64| of_values("reports", [ValueRef::Integer(n)]);
        assert!((0..100).any(|n| crc(n) > i64::from(i32::MAX)), "some are large");
        for n in 0..100 {
            assert!(i32::try_from(stored(n)).is_ok(), "{n}");
            assert!(is_same(crc(n), stored(n)) && is_same(stored(n), stored(n)), "{n}");
            assert!(!is_same(stored(n), stored(n + 1)) && !is_same(stored(n) + (1 << 33), stored(n)), "{n}");
            let (former, new) = ([crc(n), crc(n + 1)], [stored(n), stored(n + 1)]);
            assert_eq!(of_sums(&former), of_sums(&new), "{n}");
            assert_eq!(chained(former[0], former[1], &former), chained(new[0], new[1], &new), "{n}");
        }
    }
}
