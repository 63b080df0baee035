//! Failed attempts of one report and job as one row: their different kinds as JSON, and columns of numbers.
//! See `docs/store.md`.

use std::{collections::BTreeMap, ops::Range};

use scheduler::{
    engine::record::{FailedAttempt, Verdict},
    results::{FailureKind, Usage},
    time::Time,
};

use super::columns::{BLOCK_LEN, put_column, take_blocks, take_column};

/// Fewer failures get a row each: a pack of them would save little.
pub(in crate::store) const N_PACKED_MIN: usize = 4;

/// The parts of a row that hold the failures.
#[derive(Debug)]
pub(in crate::store) struct Packed {
    /// The smallest task index.
    pub(in crate::store) first_index: u64,
    /// The largest task index.
    pub(in crate::store) last_index: u64,
    /// The different kinds of failures: a list in JSON.
    pub(in crate::store) kinds: String,
    /// Nine columns, one number each for a failure.
    pub(in crate::store) columns: Vec<u8>,
}

/// Packs failures in their order. `at`: when they were recorded; times of retries are kept as differences to it.
/// `None` if there are none.
///
/// Errors: a kind cannot be written as JSON.
pub(in crate::store) fn pack(
    at: Time,
    failures: &[FailedAttempt],
) -> Result<Option<Packed>, serde_json::Error> {
    let indices = || failures.iter().map(|failure| failure.index);
    let Some((first_index, last_index)) = indices().min().zip(indices().max()) else { return Ok(None) };
    let (kinds, kind_numbers) = number_kinds(failures)?;
    let mut columns = Vec::new();
    let mut put = |number: &dyn Fn(&FailedAttempt) -> u64| {
        put_column(&failures.iter().map(number).collect::<Vec<_>>(), &mut columns);
    };
    put(&|failure| failure.index);
    put(&|failure| failure.attempt.into());
    put(&|failure| u64::from(failure.verdict != Verdict::Final));
    put(&|failure| match failure.verdict {
        Verdict::Retry { at: retry_at } => retry_at.0.wrapping_sub(at.0),
        Verdict::Final => 0,
    });
    put(&|failure| failure.usage.started_us);
    put(&|failure| failure.usage.wall_us);
    put(&|failure| failure.usage.cpu_us);
    put(&|failure| failure.usage.memory_bytes);
    put_column(&kind_numbers, &mut columns);
    Ok(Some(Packed { first_index, last_index, kinds, columns }))
}

/// The different kinds as a list in JSON, and each failure's place in it.
fn number_kinds(failures: &[FailedAttempt]) -> Result<(String, Vec<u64>), serde_json::Error> {
    let mut known: BTreeMap<String, u64> = BTreeMap::new();
    let mut list: Vec<&FailureKind> = Vec::new();
    let mut numbers: Vec<u64> = Vec::with_capacity(failures.len());
    let mut previous: Option<&FailureKind> = None;
    for FailedAttempt { kind, .. } in failures {
        // Nearly all failures of a report are of the kind of the one before.
        let number = match numbers.last().filter(|_| previous == Some(kind)) {
            Some(number) => *number,
            None => *known.entry(serde_json::to_string(kind)?).or_insert_with(|| {
                list.push(kind);
                list.len() as u64 - 1
            }),
        };
        numbers.push(number);
        previous = Some(kind);
    }
    Ok((serde_json::to_string(&list)?, numbers))
}

/// Whether a pack of `n` failures has any of the tasks in a range. Reads only the column of indices.
///
/// Errors: words on what is wrong with the bytes.
pub(in crate::store) fn has_any_of(
    n: u64,
    mut columns: &[u8],
    tasks: &Range<u64>,
) -> Result<bool, &'static str> {
    let n = checked_len(n, columns)?;
    Ok(take_column(take_blocks, n, &mut columns)?.iter().any(|index| tasks.contains(index)))
}

/// The failures of a pack of `n`, in their order. `at`: as for [`pack`].
///
/// Errors: words on what is wrong with the bytes.
pub(in crate::store) fn unpack(
    n: u64,
    at: Time,
    kinds: &str,
    mut columns: &[u8],
) -> Result<Vec<FailedAttempt>, &'static str> {
    let n = checked_len(n, columns)?;
    let kinds: Vec<FailureKind> =
        serde_json::from_str(kinds).map_err(|_| "its kinds of failures are no list")?;
    let mut column = || take_column(take_blocks, n, &mut columns);
    let (index, attempt, is_retried, retry_after) = (column()?, column()?, column()?, column()?);
    let (started_us, wall_us, cpu_us, memory_bytes) = (column()?, column()?, column()?, column()?);
    let kind_numbers = column()?;
    if !columns.is_empty() {
        return Err("columns of failures are longer than their row says");
    }
    let failure = |n: usize| {
        let kind = usize::try_from(kind_numbers[n]).ok().and_then(|number| kinds.get(number));
        let verdict = match is_retried[n] {
            0 => Verdict::Final,
            1 => Verdict::Retry { at: Time(at.0.wrapping_add(retry_after[n])) },
            _ => return Err("a failure is neither final nor tried again"),
        };
        Ok(FailedAttempt {
            index: index[n],
            attempt: u32::try_from(attempt[n]).map_err(|_| "the number of an attempt is too large")?,
            kind: kind.ok_or("a kind of failure is missing")?.clone(),
            usage: Usage {
                started_us: started_us[n],
                wall_us: wall_us[n],
                cpu_us: cpu_us[n],
                memory_bytes: memory_bytes[n],
            },
            verdict,
        })
    };
    (0..n).map(failure).collect()
}

/// The number of failures, before room is made for them: the bytes must be able to hold so many.
fn checked_len(n: u64, columns: &[u8]) -> Result<usize, &'static str> {
    let n = usize::try_from(n).ok().filter(|n| n.div_ceil(BLOCK_LEN) <= columns.len());
    n.ok_or("columns of failures are cut off")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::tests::records::failure;

    proptest! {
        #[test]
        fn failures_come_back_as_they_were(
            at in any::<u64>().prop_map(Time),
            failures in prop::collection::vec(failure(any::<u64>()), 0..150),
            asked in any::<Range<u64>>(),
        ) {
            let Some(packed) = pack(at, &failures).unwrap() else {
                prop_assert!(failures.is_empty());
                return Ok(());
            };
            let n = failures.len() as u64;
            prop_assert_eq!(&unpack(n, at, &packed.kinds, &packed.columns).unwrap(), &failures);
            let has_any = failures.iter().any(|failure| asked.contains(&failure.index));
            prop_assert_eq!(has_any_of(n, &packed.columns, &asked), Ok(has_any));
            prop_assert!(failures.iter().all(|failure| (packed.first_index..=packed.last_index).contains(&failure.index)));
        }

        #[test]
        fn bytes_of_any_kind_are_read_or_refused(n in 0..300u64, columns in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(failures) = unpack(n, Time(7), "[\"Walltime\"]", &columns) {
                prop_assert_eq!(failures.len() as u64, n);
            }
        }
    }

    #[test]
    fn failures_of_one_kind_take_few_bytes() {
        let failed = |index| FailedAttempt {
            index,
            attempt: 1,
            kind: FailureKind::Exit { code: 1 },
            usage: Usage {
                started_us: 2000 * index,
                wall_us: 1800 + index % 7,
                cpu_us: 900,
                memory_bytes: 1 << 20,
            },
            verdict: Verdict::Final,
        };
        let packed = pack(Time(1), &(0..256).map(failed).collect::<Vec<_>>()).unwrap().unwrap();
        assert_eq!(packed.kinds, "[{\"Exit\":{\"code\":1}}]");
        assert!(packed.columns.len() < 3 * 256, "{}", packed.columns.len());
    }

    #[test]
    fn a_count_that_the_bytes_cannot_hold_is_refused_before_room_is_made() {
        assert_eq!(unpack(u64::MAX, Time(0), "[]", &[0; 20]), Err("columns of failures are cut off"));
        assert_eq!(has_any_of(1 << 40, &[0; 20], &(0..9)), Err("columns of failures are cut off"));
    }
}
