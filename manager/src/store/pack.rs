//! Task sets and columns of successes as few bytes: LEB128 varints of differences. See `docs/store.md`.

use std::ops::Range;

use scheduler::{ranges::TaskSet, results::Successes};

/// Times are kept to this many microseconds.
pub(super) const TIME_UNIT_US: u64 = 100;
/// Memory is kept to this many bytes.
pub(super) const MEMORY_UNIT_BYTES: u64 = 1024;

/// CPU times are differences from task to task.
const CPU_FROM_PREVIOUS: u8 = 1;
/// CPU times are differences to the same task's wall time.
const CPU_FROM_WALL: u8 = 2;

/// Appends a varint.
pub(super) fn put_varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a varint off the front; `None` when it is cut off or longer than 64 bits.
pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A set as pairs of varints: the gap to the end of the range before, and the range's length.
pub(super) fn pack_ranges(tasks: &TaskSet) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut end = 0;
    for range in tasks.iter() {
        put_varint(range.start - end, &mut bytes);
        put_varint(range.end - range.start, &mut bytes);
        end = range.end;
    }
    bytes
}

/// The set again. Errors: words on what is wrong with the bytes.
pub(super) fn unpack_ranges(mut bytes: &[u8]) -> Result<TaskSet, &'static str> {
    let mut tasks = TaskSet::new();
    let mut end = 0;
    while !bytes.is_empty() {
        let range = take_range(end, &mut bytes)?;
        end = range.end;
        tasks.insert_range(range);
    }
    Ok(tasks)
}

/// Whether a packed set has any index of a range; tells without building the set.
pub(super) fn has_any_of(mut bytes: &[u8], wanted: &Range<u64>) -> Result<bool, &'static str> {
    let mut end = 0;
    while !bytes.is_empty() && end < wanted.end {
        let range = take_range(end, &mut bytes)?;
        end = range.end;
        if range.start < wanted.end && wanted.start < range.end {
            return Ok(true);
        }
    }
    Ok(false)
}

fn take_range(end: u64, bytes: &mut &[u8]) -> Result<Range<u64>, &'static str> {
    let (gap, length) = take_varint(bytes).zip(take_varint(bytes)).ok_or("ranges are cut off")?;
    let start = end.checked_add(gap).ok_or("a range begins beyond all indices")?;
    let end = start.checked_add(length).ok_or("a range ends beyond all indices")?;
    if length == 0 {
        return Err("a range is empty");
    }
    Ok(start..end)
}

/// Start, wall, CPU, memory and, unless all are 0, exit codes; one column after the other.
/// Columns that do not fit the set are left out: nothing at all is kept of them.
pub(super) fn pack_columns(successes: &Successes) -> Vec<u8> {
    if !successes.is_well_formed() || successes.tasks.is_empty() {
        return Vec::new();
    }
    let rounded = |column: &[u64], unit| column.iter().map(|value| round(*value, unit)).collect::<Vec<_>>();
    let started = rounded(&successes.started_us, TIME_UNIT_US);
    let wall = rounded(&successes.wall_us, TIME_UNIT_US);
    let cpu = rounded(&successes.cpu_us, TIME_UNIT_US);
    let memory = rounded(&successes.memory_bytes, MEMORY_UNIT_BYTES);
    let (mut from_previous, mut from_wall) = (Vec::new(), Vec::new());
    put_column(&cpu, &mut from_previous);
    put_differences(cpu.iter().zip(&wall), &mut from_wall);
    let is_near_wall = from_wall.len() < from_previous.len();
    let mut bytes = vec![if is_near_wall { CPU_FROM_WALL } else { CPU_FROM_PREVIOUS }];
    put_column(&started, &mut bytes);
    put_column(&wall, &mut bytes);
    bytes.extend(if is_near_wall { from_wall } else { from_previous });
    put_column(&memory, &mut bytes);
    if successes.exit_codes.iter().any(|code| *code != 0) {
        let codes: Vec<u64> =
            successes.exit_codes.iter().map(|code| i64::from(*code).cast_unsigned()).collect();
        put_column(&codes, &mut bytes);
    }
    bytes
}

/// The columns of a set again, times and memory as they were rounded. Errors: words on what is wrong.
pub(super) fn unpack_columns(tasks: TaskSet, mut bytes: &[u8]) -> Result<Successes, &'static str> {
    let Some((form, rest)) = bytes.split_first() else {
        return Ok(Successes { tasks, ..Successes::default() });
    };
    bytes = rest;
    let n = tasks.len();
    if n > bytes.len() as u64 {
        return Err("columns are cut off");
    }
    let started = take_column(n, &mut bytes)?;
    let wall = take_column(n, &mut bytes)?;
    let cpu = match *form {
        CPU_FROM_PREVIOUS => take_column(n, &mut bytes)?,
        CPU_FROM_WALL => take_differences(&wall, &mut bytes)?,
        _ => return Err("columns have an unknown form"),
    };
    let memory = take_column(n, &mut bytes)?;
    let codes = if bytes.is_empty() { Vec::new() } else { take_column(n, &mut bytes)? };
    if !bytes.is_empty() {
        return Err("columns are longer than their set");
    }
    let scaled = |column: Vec<u64>, unit| {
        column.into_iter().map(|value: u64| value.saturating_mul(unit)).collect::<Vec<_>>()
    };
    let code = |bits: u64| i32::try_from(bits.cast_signed()).map_err(|_| "an exit code is too large");
    Ok(Successes {
        tasks,
        started_us: scaled(started, TIME_UNIT_US),
        wall_us: scaled(wall, TIME_UNIT_US),
        cpu_us: scaled(cpu, TIME_UNIT_US),
        memory_bytes: scaled(memory, MEMORY_UNIT_BYTES),
        exit_codes: codes.into_iter().map(code).collect::<Result<_, _>>()?,
    })
}

/// To the nearest whole unit.
fn round(value: u64, unit: u64) -> u64 {
    value / unit + u64::from(value % unit >= unit / 2)
}

/// Each value as its difference from the one before, the first from 0.
fn put_column(column: &[u64], bytes: &mut Vec<u8>) {
    put_differences(column.iter().zip(std::iter::once(&0).chain(column)), bytes);
}

/// Differences modulo 2^64, signs folded in, so that small ones of either sign are short.
fn put_differences<'a>(pairs: impl Iterator<Item = (&'a u64, &'a u64)>, bytes: &mut Vec<u8>) {
    for (value, base) in pairs {
        let difference = value.wrapping_sub(*base).cast_signed();
        put_varint(((difference << 1) ^ (difference >> 63)).cast_unsigned(), bytes);
    }
}

fn take_column(n: u64, bytes: &mut &[u8]) -> Result<Vec<u64>, &'static str> {
    let mut before = 0;
    (0..n)
        .map(|_| {
            before = take_difference(before, bytes)?;
            Ok(before)
        })
        .collect()
}

fn take_differences(bases: &[u64], bytes: &mut &[u8]) -> Result<Vec<u64>, &'static str> {
    bases.iter().map(|base| take_difference(*base, bytes)).collect()
}

fn take_difference(base: u64, bytes: &mut &[u8]) -> Result<u64, &'static str> {
    let folded = take_varint(bytes).ok_or("columns are cut off")?;
    let difference = (folded >> 1) ^ (folded & 1).wrapping_neg();
    Ok(base.wrapping_add(difference))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scheduler::results::Usage;

    use super::*;

    fn usages() -> impl Strategy<Value = Usage> {
        let number = || prop_oneof![0..100_000u64, any::<u64>(), Just(u64::MAX)];
        (number(), number(), number(), number()).prop_map(|(started_us, wall_us, cpu_us, memory_bytes)| {
            Usage { started_us, wall_us, cpu_us, memory_bytes }
        })
    }

    fn is_near(found: u64, expected: u64, unit: u64) -> bool {
        found.abs_diff(expected) <= unit / 2
    }

    proptest! {
        #[test]
        fn columns_come_back_rounded(attempts in prop::collection::btree_map(any::<u64>(), (prop_oneof![Just(0), any::<i32>()], usages()), 0..20)) {
            let attempts: Vec<_> = attempts.into_iter().filter(|(index, _)| *index < u64::MAX).map(|(index, (code, usage))| (index, code, usage)).collect();
            let columns = Successes::from_attempts(attempts.clone());
            let tasks = unpack_ranges(&pack_ranges(&columns.tasks)).unwrap();
            prop_assert_eq!(&tasks, &columns.tasks);
            let read = unpack_columns(tasks, &pack_columns(&columns)).unwrap();
            prop_assert!(read.is_well_formed());
            for ((index, code, usage), (_, expected_code, expected)) in read.attempts().zip(attempts) {
                prop_assert_eq!(code, expected_code);
                prop_assert!(is_near(usage.started_us, expected.started_us, TIME_UNIT_US), "{}", index);
                prop_assert!(is_near(usage.wall_us, expected.wall_us, TIME_UNIT_US), "{}", index);
                prop_assert!(is_near(usage.cpu_us, expected.cpu_us, TIME_UNIT_US), "{}", index);
                prop_assert!(is_near(usage.memory_bytes, expected.memory_bytes, MEMORY_UNIT_BYTES), "{}", index);
            }
        }

        #[test]
        fn bytes_of_any_kind_are_read_or_refused(ranges in prop::collection::vec(any::<u8>(), 0..12), columns in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(tasks) = unpack_ranges(&ranges) {
                let n = tasks.len();
                if let Ok(read) = unpack_columns(tasks, &columns) {
                    prop_assert!(columns.is_empty() || (read.is_well_formed() && read.tasks.len() == n));
                }
            }
        }
    }

    #[test]
    fn damaged_bytes_are_refused_with_words() {
        assert_eq!(unpack_ranges(&[5]), Err("ranges are cut off"));
        assert_eq!(unpack_ranges(&[5, 0]), Err("a range is empty"));
        let whole = Successes::from_attempts(vec![(3, 0, Usage::default()), (4, 0, Usage::default())]);
        let bytes = pack_columns(&whole);
        let cut = unpack_columns(whole.tasks.clone(), &bytes[..bytes.len() - 1]);
        assert_eq!(cut, Err("columns are cut off"));
        let longer = [&bytes[..], &[0, 0, 0]].concat();
        assert_eq!(unpack_columns(whole.tasks, &longer), Err("columns are longer than their set"));
    }
}
