//! Task sets and columns of successes as few bytes: differences, as LEB128 varints or in as many bits
//! as the widest of a block needs. See `docs/store.md`.

use std::ops::Range;

use scheduler::{ranges::TaskSet, results::Successes};

/// Times are kept to this many microseconds.
pub(in crate::store) const TIME_UNIT_US: u64 = 100;
/// Memory is kept to this many bytes.
pub(in crate::store) const MEMORY_UNIT_BYTES: u64 = 1024;

/// Columns of varints, as they were first written; CPU times are differences from task to task …
const VARINTS_CPU_FROM_PREVIOUS: u8 = 1;
/// … or to the same task's wall time.
const VARINTS_CPU_FROM_WALL: u8 = 2;
/// Columns of blocks, likewise.
const BLOCKS_CPU_FROM_PREVIOUS: u8 = 3;
/// …
const BLOCKS_CPU_FROM_WALL: u8 = 4;
/// Differences of one width; one that is very large makes only so many others wide.
pub(super) const BLOCK_LEN: usize = 64;

/// Appends a varint.
pub(in crate::store) fn put_varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a varint off the front; `None` when it is cut off or longer than 64 bits.
pub(in crate::store) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
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
pub(in crate::store) fn pack_ranges(tasks: &TaskSet) -> Vec<u8> {
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
pub(in crate::store) fn unpack_ranges(mut bytes: &[u8]) -> Result<TaskSet, &'static str> {
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
pub(in crate::store) fn has_any_of(mut bytes: &[u8], wanted: &Range<u64>) -> Result<bool, &'static str> {
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
pub(in crate::store) fn pack_columns(successes: &Successes) -> Vec<u8> {
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
    let mut bytes = vec![if is_near_wall { BLOCKS_CPU_FROM_WALL } else { BLOCKS_CPU_FROM_PREVIOUS }];
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
pub(in crate::store) fn unpack_columns(tasks: TaskSet, mut bytes: &[u8]) -> Result<Successes, &'static str> {
    let Some((form, rest)) = bytes.split_first() else {
        return Ok(Successes { tasks, ..Successes::default() });
    };
    bytes = rest;
    // Before room is made for them: how many differences the bytes can hold.
    let (take, n_a_byte): (TakeDifferences, usize) = match *form {
        VARINTS_CPU_FROM_PREVIOUS | VARINTS_CPU_FROM_WALL => (take_varints, 1),
        BLOCKS_CPU_FROM_PREVIOUS | BLOCKS_CPU_FROM_WALL => (take_blocks, BLOCK_LEN),
        _ => return Err("columns have an unknown form"),
    };
    let n = usize::try_from(tasks.len()).ok().filter(|n| n.div_ceil(n_a_byte) <= bytes.len());
    let n = n.ok_or("columns are cut off")?;
    let started = take_column(take, n, &mut bytes)?;
    let wall = take_column(take, n, &mut bytes)?;
    let cpu = match *form {
        VARINTS_CPU_FROM_WALL | BLOCKS_CPU_FROM_WALL => {
            let differences = take(n, &mut bytes)?;
            wall.iter().zip(differences).map(|(wall, difference)| wall.wrapping_add(difference)).collect()
        }
        _ => take_column(take, n, &mut bytes)?,
    };
    let memory = take_column(take, n, &mut bytes)?;
    let codes = if bytes.is_empty() { Vec::new() } else { take_column(take, n, &mut bytes)? };
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
pub(super) fn put_column(column: &[u64], bytes: &mut Vec<u8>) {
    put_differences(column.iter().zip(std::iter::once(&0).chain(column)), bytes);
}

/// Differences modulo 2^64, signs folded in, so that small ones of either sign are short. The first one
/// is a varint, as it counts from nothing; then come blocks: a byte that says how many bits each
/// difference has, and those bits, the lowest first.
fn put_differences<'a>(pairs: impl Iterator<Item = (&'a u64, &'a u64)>, bytes: &mut Vec<u8>) {
    let folded = pairs.map(|(value, base)| {
        let difference = value.wrapping_sub(*base).cast_signed();
        ((difference << 1) ^ (difference >> 63)).cast_unsigned()
    });
    let folded: Vec<u64> = folded.collect();
    let Some((first, rest)) = folded.split_first() else { return };
    put_varint(*first, bytes);
    for block in rest.chunks(BLOCK_LEN) {
        let all_bits = block.iter().fold(0, |bits, value| bits | value);
        let width = u64::BITS - all_bits.leading_zeros();
        bytes.push(width as u8);
        let (mut pending, mut n_pending) = (0u128, 0);
        for value in block {
            pending |= u128::from(*value) << n_pending;
            n_pending += width;
            while n_pending >= 8 {
                bytes.push(pending as u8);
                pending >>= 8;
                n_pending -= 8;
            }
        }
        if n_pending > 0 {
            bytes.push(pending as u8);
        }
    }
}

/// Takes `n` differences.
pub(super) type TakeDifferences = fn(usize, &mut &[u8]) -> Result<Vec<u64>, &'static str>;

fn take_varints(n: usize, bytes: &mut &[u8]) -> Result<Vec<u64>, &'static str> {
    (0..n).map(|_| take_varint(bytes).map(unfolded).ok_or("columns are cut off")).collect()
}

pub(super) fn take_blocks(n: usize, bytes: &mut &[u8]) -> Result<Vec<u64>, &'static str> {
    let cut = "columns are cut off";
    let mut differences = Vec::with_capacity(n);
    if n > 0 {
        differences.push(unfolded(take_varint(bytes).ok_or(cut)?));
    }
    while differences.len() < n {
        let n_here = BLOCK_LEN.min(n - differences.len());
        let (width, rest) = bytes.split_first().ok_or(cut)?;
        let width = u32::from(*width);
        if width > u64::BITS {
            return Err("a column has differences of more than 64 bits");
        }
        let (block, rest) = rest.split_at_checked((n_here * width as usize).div_ceil(8)).ok_or(cut)?;
        *bytes = rest;
        let mask = (1u128 << width) - 1;
        let (mut pending, mut n_pending, mut block) = (0u128, 0, block.iter());
        for _ in 0..n_here {
            while n_pending < width {
                pending |= u128::from(*block.next().ok_or(cut)?) << n_pending;
                n_pending += 8;
            }
            differences.push(unfolded((pending & mask) as u64));
            pending >>= width;
            n_pending -= width;
        }
    }
    Ok(differences)
}

pub(super) fn take_column(
    take: TakeDifferences,
    n: usize,
    bytes: &mut &[u8],
) -> Result<Vec<u64>, &'static str> {
    let mut column = take(n, bytes)?;
    let mut before = 0u64;
    for value in &mut column {
        before = before.wrapping_add(*value);
        *value = before;
    }
    Ok(column)
}

/// The difference, modulo 2^64, whose sign was folded in.
fn unfolded(folded: u64) -> u64 {
    (folded >> 1) ^ (folded & 1).wrapping_neg()
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
        fn columns_come_back_rounded(attempts in prop::collection::btree_map(any::<u64>(), (prop_oneof![Just(0), any::<i32>()], usages()), 0..150)) {
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
    fn columns_of_varints_are_still_read() {
        let usage = |n: u64| Usage {
            started_us: 1000 * n,
            wall_us: 300 + 100 * (n % 3),
            cpu_us: 200,
            memory_bytes: 2048,
        };
        let columns = Successes::from_attempts((0..100).map(|n| (n, 0, usage(n))).collect());
        let mut bytes = vec![VARINTS_CPU_FROM_PREVIOUS];
        let scaled = |column: &[u64], unit: u64| column.iter().map(|value| value / unit).collect::<Vec<_>>();
        for column in [
            scaled(&columns.started_us, TIME_UNIT_US),
            scaled(&columns.wall_us, TIME_UNIT_US),
            scaled(&columns.cpu_us, TIME_UNIT_US),
            scaled(&columns.memory_bytes, MEMORY_UNIT_BYTES),
        ] {
            let mut before = 0;
            for value in column {
                let difference = value.wrapping_sub(before).cast_signed();
                put_varint(((difference << 1) ^ (difference >> 63)).cast_unsigned(), &mut bytes);
                before = value;
            }
        }
        assert_eq!(unpack_columns(columns.tasks.clone(), &bytes), Ok(columns));
    }

    #[test]
    fn one_that_is_very_slow_makes_few_others_wide() {
        let usage =
            |n: u64| Usage { wall_us: if n == 500 { 1 << 40 } else { 100 * (n % 4) }, ..Usage::default() };
        let columns = Successes::from_attempts((0..1000).map(|n| (n, 0, usage(n))).collect());
        assert!(pack_columns(&columns).len() < 1200, "{}", pack_columns(&columns).len());
        let tasks = columns.tasks.clone();
        assert_eq!(
            unpack_columns(tasks, &pack_columns(&columns)).unwrap().attempts().nth(501).unwrap().2.wall_us,
            100
        );
    }

    #[test]
    fn damaged_bytes_are_refused_with_words() {
        assert_eq!(unpack_ranges(&[5]), Err("ranges are cut off"));
        assert_eq!(unpack_ranges(&[5, 0]), Err("a range is empty"));
        let whole = Successes::from_attempts(vec![(3, 0, Usage::default()), (4, 0, Usage::default())]);
        let bytes = pack_columns(&whole);
        let cut = unpack_columns(whole.tasks.clone(), &bytes[..bytes.len() - 1]);
        assert_eq!(cut, Err("columns are cut off"));
        let longer = [&bytes[..], &[0, 0, 0, 0, 0]].concat();
        assert_eq!(unpack_columns(whole.tasks, &longer), Err("columns are longer than their set"));
    }
}
