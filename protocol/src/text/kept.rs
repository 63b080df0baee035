//! What is kept of a stream that a program wrote: all of it, or its head and its tail with a line between that says how
//! much is missing; and, where a budget was used up, nothing behind a line that says so.

/// Before and behind the number of bytes in the line that stands where bytes were left out.
const LEFT_OUT: [&str; 2] = ["\n[pilotfish: ", " bytes left out]\n"];
/// The end of the line behind which nothing was kept any more.
const USED_UP: &str = " is used up: nothing more is kept]\n";

/// The line that stands where bytes were left out.
pub fn left_out_line(n_bytes: u64) -> String {
    let [before, after] = LEFT_OUT;
    format!("{before}{n_bytes}{after}")
}

/// The line behind which nothing was kept any more. `what`: what is used up, in words.
pub fn used_up_line(what: &str) -> String {
    format!("{}{what}{USED_UP}", LEFT_OUT[0])
}

/// How many bytes of a longer stream are kept of its beginning; the rest of the limit is for its end.
pub const fn head_len(limit_bytes: usize) -> usize {
    limit_bytes / 2
}

/// The beginning of what a program wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beginning<'a> {
    /// Its bytes, without lines of ours.
    pub bytes: &'a [u8],
    /// Whether the program wrote more than that. If not, this is all of it.
    pub is_cut: bool,
}

/// The beginning of a stream of which this is kept, under this limit. What lies behind a gap is not in it: nobody knows
/// what was before that.
pub fn beginning(kept: &[u8], limit_bytes: u64) -> Beginning<'_> {
    let before_end = used_up_at(kept);
    let bytes = &kept[..before_end.unwrap_or(kept.len())];
    // A stream within its limit has no line between: what looks like one is the program's own.
    let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
    let is_over = bytes.len() > limit;
    let is_parted = is_over || before_end.is_some() && is_line_at(bytes, head_len(limit));
    let bytes = if is_parted { &bytes[..head_len(limit)] } else { bytes };
    Beginning { bytes, is_cut: is_parted || before_end.is_some() }
}

/// A stream of which the middle is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parted<'a> {
    /// Its first bytes.
    pub head: &'a [u8],
    /// How many follow that were not kept.
    pub n_left_out: u64,
    /// Its last bytes.
    pub tail: &'a [u8],
}

/// The parts of a stream of which this is kept, under this limit; `None`: its middle is not missing, and a line that says
/// so is the program's own.
pub fn parted(kept: &[u8], limit_bytes: u64) -> Option<Parted<'_>> {
    let limit = usize::try_from(limit_bytes).ok().filter(|limit| kept.len() > *limit)?;
    let (head, rest) = kept.split_at(head_len(limit));
    let [before, after] = LEFT_OUT.map(str::as_bytes);
    let number = rest.strip_prefix(before)?;
    let (digits, rest) = number.split_at(number.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let tail = rest.strip_prefix(after)?;
    Some(Parted { head, n_left_out: std::str::from_utf8(digits).ok()?.parse().ok()?, tail })
}

/// Where the line begins behind which nothing was kept.
fn used_up_at(kept: &[u8]) -> Option<usize> {
    let before = kept.strip_suffix(USED_UP.as_bytes())?;
    let at = before.iter().rposition(|byte| *byte == b'\n')?;
    before[at..].starts_with(LEFT_OUT[0].as_bytes()).then_some(at)
}

/// Whether the line that tells of bytes left out is there, or as much of it as was kept.
fn is_line_at(bytes: &[u8], at: usize) -> bool {
    let [before, after] = LEFT_OUT.map(str::as_bytes);
    let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else { return false };
    let Some(number) = rest.strip_prefix(before) else { return before.starts_with(rest) };
    let n_digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &number[n_digits..];
    rest.starts_with(after) || after.starts_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of this under a limit, as pilots keep it.
    fn kept(written: &str, limit: usize) -> String {
        if written.len() <= limit {
            return written.to_owned();
        }
        let (head, tail) =
            (&written[..head_len(limit)], &written[written.len() - (limit - head_len(limit))..]);
        format!("{head}{}{tail}", left_out_line((written.len() - limit) as u64))
    }

    fn shown(kept: &str, limit: u64) -> (&str, bool) {
        let Beginning { bytes, is_cut } = beginning(kept.as_bytes(), limit);
        (std::str::from_utf8(bytes).unwrap(), is_cut)
    }

    #[test]
    fn beginning_of_what_was_kept_whole_is_all_of_it() {
        for text in ["", "abc", "abcdefghij"] {
            assert_eq!(shown(&kept(text, 10), 10), (text, false));
        }
        let own = format!("ab{}cd", left_out_line(7));
        assert_eq!(shown(&own, 100), (own.as_str(), false), "the program wrote that line");
        let own = format!("a{}b", used_up_line("the budget"));
        assert_eq!(shown(&own, 100), (own.as_str(), false));
    }

    #[test]
    fn beginning_of_what_was_cut_ends_where_the_gap_begins() {
        assert_eq!(shown(&kept("abcdefghijk", 10), 10), ("abcde", true));
        assert_eq!(shown(&kept("abcdefghijk", 7), 7), ("abc", true));
        assert_eq!(shown(&kept("ab", 1), 1), ("", true));
        let own = format!("{}bcdefghijklmno", left_out_line(7));
        assert_eq!(
            shown(&kept(&own, 40), 40),
            (&own[..20], true),
            "the first such line is the program's own"
        );
    }

    #[test]
    fn a_stream_is_parted_where_its_limit_says_and_not_by_what_the_program_wrote() {
        let own = format!("ab{}cd", left_out_line(7));
        assert_eq!(parted(own.as_bytes(), own.len() as u64), None, "the program wrote that line");
        let long = own.repeat(3);
        let text = kept(&long, 40);
        let found = parted(text.as_bytes(), 40).expect("its middle is missing");
        let n_left_out = (long.len() - 40) as u64;
        let expected = (&long.as_bytes()[..20], n_left_out, &long.as_bytes()[long.len() - 20..]);
        assert_eq!((found.head, found.n_left_out, found.tail), expected);
    }

    #[test]
    fn beginning_of_what_a_budget_cut_has_no_line_of_ours() {
        let line = used_up_line("the job's budget for output (2.0 KiB, results.budget)");
        let cut =
            |written: &str, limit: usize, n_left: usize| format!("{}{line}", &kept(written, limit)[..n_left]);
        assert_eq!(shown(&cut("abcdef", 10, 4), 10), ("abcd", true));
        assert_eq!(shown(&cut("abcdef", 10, 6), 10), ("abcdef", true));
        let long = "abcdefghijklmnopqrstuvwxyz".repeat(4);
        let all = kept(&long, 40);
        for n_left in 0..=all.len() {
            let (head, is_cut) = shown(&all[..n_left], 1000);
            assert_eq!((head, is_cut), (&all[..n_left], false));
            let text = cut(&long, 40, n_left);
            assert_eq!(shown(&text, 40), (&long[..n_left.min(20)], true), "{n_left}");
        }
    }
}
