//! Outputs of tasks as frames with checksums, in chunks of bounded size. See `docs/store.md`.

use std::{
    collections::BTreeMap,
    io::{Read, Seek, SeekFrom},
};

use scheduler::results::TaskOutput;

use super::columns::{put_varint, take_varint};

/// No chunk is larger, so that reading one task's output loads little more than it.
pub(in crate::store) const CHUNK_BYTES_MAX: usize = 256 << 10;
/// A frame's numbers and checksum at most: three varints and four bytes.
const FRAME_HEAD_BYTES_MAX: usize = 34;
/// Of a frame's checksum.
const SUM_BYTES: u64 = 4;
/// Bytes of an output that fit into one frame; a longer output is several frames.
pub(in crate::store) const FRAME_BYTES_MAX: usize = CHUNK_BYTES_MAX - FRAME_HEAD_BYTES_MAX;

/// Frames of neighbouring tasks.
#[derive(Debug)]
pub(in crate::store) struct Chunk {
    /// The smallest task index in it.
    pub(in crate::store) first_index: u64,
    /// The largest.
    pub(in crate::store) last_index: u64,
    /// The frames, one after the other.
    pub(in crate::store) frames: Vec<u8>,
}

/// One task's output or a part of it; parts of one task follow each other.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::store) struct Frame<'a> {
    /// The task's index.
    pub(in crate::store) index: u64,
    /// Its standard output, or more of it.
    pub(in crate::store) stdout: &'a [u8],
    /// Its standard error, or more of it.
    pub(in crate::store) stderr: &'a [u8],
}

/// Packs the outputs of one report, by ascending index. Of several of one task the last counts.
pub(in crate::store) fn pack_outputs(outputs: &[TaskOutput]) -> Vec<Chunk> {
    let by_index: BTreeMap<u64, &TaskOutput> = outputs.iter().map(|output| (output.index, output)).collect();
    let mut chunks: Vec<Chunk> = Vec::new();
    for (index, output) in by_index {
        let (mut stdout, mut stderr) = (output.stdout.as_slice(), output.stderr.as_slice());
        loop {
            let (out, out_rest) = stdout.split_at(stdout.len().min(FRAME_BYTES_MAX));
            let (err, err_rest) = stderr.split_at(stderr.len().min(FRAME_BYTES_MAX - out.len()));
            put_frame(&mut chunks, Frame { index, stdout: out, stderr: err });
            (stdout, stderr) = (out_rest, err_rest);
            if stdout.is_empty() && stderr.is_empty() {
                break;
            }
        }
    }
    chunks
}

/// How many bytes an output takes when it is packed; of one that is several frames a few less.
pub(in crate::store) fn packed_len(output: &TaskOutput) -> u64 {
    let len = |n: u64| u64::from((u64::BITS - (n | 1).leading_zeros()).div_ceil(7));
    let (stdout, stderr) = (output.stdout.len() as u64, output.stderr.len() as u64);
    len(output.index) + len(stdout) + len(stderr) + stdout + stderr + 4
}

fn put_frame(chunks: &mut Vec<Chunk>, frame: Frame<'_>) {
    let mut bytes = Vec::with_capacity(FRAME_HEAD_BYTES_MAX + frame.stdout.len() + frame.stderr.len());
    put_varint(frame.index, &mut bytes);
    put_varint(frame.stdout.len() as u64, &mut bytes);
    put_varint(frame.stderr.len() as u64, &mut bytes);
    bytes.extend_from_slice(frame.stdout);
    bytes.extend_from_slice(frame.stderr);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    match chunks.last_mut() {
        Some(last) if last.frames.len() + bytes.len() <= CHUNK_BYTES_MAX => {
            last.last_index = frame.index;
            last.frames.append(&mut bytes);
        }
        _ => chunks.push(Chunk { first_index: frame.index, last_index: frame.index, frames: bytes }),
    }
}

/// Takes the next frame off a chunk. Errors: words on what is wrong with the bytes.
pub(in crate::store) fn take_frame<'a>(chunk: &mut &'a [u8]) -> Result<Frame<'a>, &'static str> {
    let start = *chunk;
    let cut = "a frame is cut off";
    let mut number = || take_varint(chunk).ok_or(cut);
    let (index, stdout, stderr) = (number()?, number()?, number()?);
    let mut part = |n_bytes: u64| {
        let n_bytes = usize::try_from(n_bytes).map_err(|_| cut)?;
        let (part, rest) = chunk.split_at_checked(n_bytes).ok_or(cut)?;
        *chunk = rest;
        Ok::<_, &'static str>(part)
    };
    let (stdout, stderr) = (part(stdout)?, part(stderr)?);
    let n_summed = start.len() - chunk.len();
    let (sum, rest) = chunk.split_first_chunk::<4>().ok_or(cut)?;
    *chunk = rest;
    if crc32fast::hash(&start[..n_summed]) != u32::from_le_bytes(*sum) {
        return Err("a frame's checksum is wrong");
    }
    Ok(Frame { index, stdout, stderr })
}

/// How long a frame is, without what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct FrameHead {
    /// The task's index.
    pub(in crate::store) index: u64,
    /// Bytes of standard output in it.
    pub(in crate::store) n_stdout: u64,
    /// Bytes of all of it.
    pub(in crate::store) n_bytes: u64,
}

/// The head of the frame at a place of a row that need not be read whole; `None`: there is none, or it is damaged.
pub(in crate::store) fn head_at(row: &mut (impl Read + Seek), at: u64) -> Option<FrameHead> {
    row.seek(SeekFrom::Start(at)).ok()?;
    let mut head = Vec::with_capacity(FRAME_HEAD_BYTES_MAX);
    row.take(FRAME_HEAD_BYTES_MAX as u64).read_to_end(&mut head).ok()?;
    let mut rest = head.as_slice();
    let mut number = || take_varint(&mut rest);
    let (index, n_stdout, n_stderr) = (number()?, number()?, number()?);
    let n_numbers = (head.len() - rest.len()) as u64;
    let n_bytes = n_numbers.checked_add(n_stdout)?.checked_add(n_stderr)?.checked_add(SUM_BYTES)?;
    Some(FrameHead { index, n_stdout, n_bytes })
}

/// Returns the readable frames of a row, and the damage of the others. Frames behind a damaged one cannot be found; if
/// all frames are good and the row is not whole, they may be those of other tasks.
pub(in crate::store) fn readable(frames: &[u8], is_whole: bool) -> (&[u8], Option<&'static str>) {
    let mut rest = frames;
    while !rest.is_empty() {
        let before = rest.len();
        if let Err(what) = take_frame(&mut rest) {
            return (&frames[..frames.len() - before], Some(what));
        }
    }
    if is_whole { (frames, None) } else { (&[], Some("the checksum of its outputs is wrong")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(index: u64, n_out: usize, n_err: usize) -> TaskOutput {
        TaskOutput { index, stdout: vec![b'o'; n_out], stderr: vec![b'e'; n_err] }
    }

    fn unpack(chunks: &[Chunk]) -> Vec<TaskOutput> {
        let mut read: Vec<TaskOutput> = Vec::new();
        for chunk in chunks {
            let mut bytes = chunk.frames.as_slice();
            while !bytes.is_empty() {
                let frame = take_frame(&mut bytes).unwrap();
                assert!((chunk.first_index..=chunk.last_index).contains(&frame.index));
                match read.last_mut() {
                    Some(last) if last.index == frame.index => {
                        last.stdout.extend(frame.stdout);
                        last.stderr.extend(frame.stderr);
                    }
                    _ => read.push(TaskOutput {
                        index: frame.index,
                        stdout: frame.stdout.to_vec(),
                        stderr: frame.stderr.to_vec(),
                    }),
                }
            }
        }
        read
    }

    #[test]
    fn chunks_are_bounded_and_keep_every_byte() {
        let outputs = [output(7, 3, 2), output(2, 700_000, 300_000), output(9, CHUNK_BYTES_MAX, 0)];
        let chunks = pack_outputs(&outputs);
        assert!(chunks.iter().all(|chunk| chunk.frames.len() <= CHUNK_BYTES_MAX));
        let [a, b, c] = outputs;
        assert_eq!(unpack(&chunks), [b, a, c]);
    }

    #[test]
    fn head_of_a_frame_says_where_the_next_one_is() {
        let outputs = [output(2, 300, 5), output(7, 0, 2), output(1 << 40, 700_000, 300_000)];
        let mut heads = Vec::new();
        for chunk in pack_outputs(&outputs) {
            let (mut row, mut at) = (std::io::Cursor::new(&chunk.frames), 0);
            while let Some(head) = head_at(&mut row, at) {
                at += head.n_bytes;
                heads.push((head.index, head.n_stdout));
            }
            assert_eq!(at, chunk.frames.len() as u64);
        }
        assert_eq!(heads[..2], [(2, 300), (7, 0)]);
        assert!(heads[2..].iter().all(|(index, _)| *index == 1 << 40));
        assert_eq!(heads[2..].iter().map(|(_, n)| n).sum::<u64>(), 700_000);
        assert_eq!(head_at(&mut std::io::Cursor::new([0x80_u8; 40]), 0), None);
    }

    #[test]
    fn what_an_output_takes_is_known_before() {
        for output in [output(7, 30, 20), output(0, 0, 1), output(1 << 40, 127, 128), output(127, 20_000, 0)]
        {
            assert_eq!(
                pack_outputs(std::slice::from_ref(&output))[0].frames.len() as u64,
                packed_len(&output)
            );
        }
    }

    #[test]
    fn a_flipped_bit_is_seen() {
        let chunk = pack_outputs(&[output(7, 30, 20)]).remove(0).frames;
        for n in 0..chunk.len() * 8 {
            let mut damaged = chunk.clone();
            damaged[n / 8] ^= 1 << (n % 8);
            assert!(take_frame(&mut damaged.as_slice()).is_err(), "bit {n}");
        }
    }
}
