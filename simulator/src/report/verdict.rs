//! The comparison of published and own results: one rule for all papers, which also appears at the top of the
//! page.
//!
#![doc = include_str!("rule.md")]

/// The rule in Markdown.
pub const RULE: &str = include_str!("rule.md");

/// The limit of "within tolerance" and "similar", as a part of the published number.
pub const TOLERANCE: f64 = 0.1;
/// The largest quotient of two numbers of the same order.
pub const FACTOR: f64 = 2.0;
/// Tolerance for rounding errors of floats: a number on an edge is within it.
const SLACK: f64 = 1e-9;

/// The words of the rule, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Word {
    /// Equal to the printed digit.
    Exact,
    /// A sentence or a bound is true for our numbers.
    Holds,
    /// Differs by at most [`TOLERANCE`].
    Within,
    /// Differs by at most [`FACTOR`].
    SameOrder,
    /// A change with the right sign, but another size.
    DirectionOnly,
    /// Not reproduced.
    Not,
    /// Not tried.
    NotRun,
}

impl Word {
    /// All words.
    pub const ALL: [Word; 7] = [
        Word::Exact,
        Word::Holds,
        Word::Within,
        Word::SameOrder,
        Word::DirectionOnly,
        Word::Not,
        Word::NotRun,
    ];

    /// Returns the text in tables.
    pub fn text(self) -> &'static str {
        match self {
            Word::Exact => "exact",
            Word::Holds => "holds",
            Word::Within => "within tolerance",
            Word::SameOrder => "same order",
            Word::DirectionOnly => "direction only",
            Word::Not => "not reproducible",
            Word::NotRun => "not run",
        }
    }
}

/// The comparison of a published number or sentence with ours. Computed from the numbers, never written down
/// beforehand.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The word by the rule.
    pub word: Word,
    /// The parts that hold and those that do not, and the reason; may be empty.
    pub note: String,
}

/// The direction of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// "Up to", "below".
    AtMost,
    /// "At least", "above".
    AtLeast,
}

impl Verdict {
    fn of(word: Word, note: impl Into<String>) -> Verdict {
        Verdict { word, note: note.into() }
    }

    /// Makes the verdict that a claim is not reproduced, or cannot be.
    pub fn not(why: impl Into<String>) -> Verdict {
        Verdict::of(Word::Not, why)
    }

    /// Makes the verdict that a claim was not tried.
    pub fn not_run(why: impl Into<String>) -> Verdict {
        Verdict::of(Word::NotRun, why)
    }

    /// Judges a number that follows from printed numbers by arithmetic alone: `n_digits` are printed, and the
    /// rounding of the inputs may move it by `play`.
    pub fn of_arithmetic(published: f64, ours: f64, n_digits: usize, play: f64, why: &str) -> Verdict {
        match prints_alike(published, ours, n_digits, play) {
            true => Verdict::of(Word::Exact, ""),
            false => Verdict::not(why),
        }
    }

    /// Judges a choice or a list of the paper.
    pub fn of_choice(is_the_same: bool, why: &str) -> Verdict {
        if is_the_same { Verdict::of(Word::Exact, "") } else { Verdict::not(why) }
    }

    /// Judges a number that can have only one sign; `why` gives a possible reason for a difference.
    pub fn of_amount(published: f64, ours: f64, n_digits: usize, why: &str) -> Verdict {
        if let Some(near) = near(published, ours, n_digits) {
            return near;
        }
        let (factor, why) = (times(published, ours), ended(why));
        Verdict::not(format!("{factor}{why}"))
    }

    /// Judges a change, which could have either sign.
    pub fn of_change(published: f64, ours: f64, n_digits: usize) -> Verdict {
        if let Some(near) = near(published, ours, n_digits) {
            return near;
        }
        if prints_alike(0.0, ours, n_digits, 0.0) {
            return Verdict::not("no change here");
        }
        if published * ours > 0.0 {
            let note = format!("the sign holds, the size does not: {}", times(published, ours));
            return Verdict::of(Word::DirectionOnly, note);
        }
        Verdict::not("another sign here")
    }

    /// Judges a bound.
    pub fn of_bound(side: Side, bound: f64, ours: f64, why: &str) -> Verdict {
        let beyond = match side {
            Side::AtMost => (ours - bound) / bound,
            Side::AtLeast => (bound - ours) / bound,
        };
        let note = format!("the bound is missed by {} of it", percent(beyond));
        match beyond {
            ..=0.0 => Verdict::of(Word::Holds, ""),
            _ if beyond <= TOLERANCE + SLACK => Verdict::of(Word::Within, note),
            _ => Verdict::not(format!("{note}{}", ended(why))),
        }
    }

    /// Judges two numbers of ours that are claimed to be similar or equal.
    pub fn of_likeness(one: f64, other: f64) -> Verdict {
        if one == other {
            return Verdict::of(Word::Exact, "");
        }
        let apart = format!("{} apart", percent((other / one - 1.0).abs()));
        match near(one, other, usize::MAX) {
            Some(Verdict { word: Word::Within | Word::Exact, .. }) => Verdict::of(Word::Within, apart),
            Some(Verdict { word, .. }) => Verdict::of(word, apart),
            None => Verdict::not(apart),
        }
    }

    /// Judges a sentence.
    pub fn of_sentence(holds: bool, why: &str) -> Verdict {
        if holds { Verdict::of(Word::Holds, "") } else { Verdict::not(why) }
    }

    /// Judges several numbers, each with its name: the worst verdict, with a note on each.
    pub fn of_many<L: AsRef<str>>(all: &[(L, Verdict)]) -> Verdict {
        let word = all.iter().map(|(_, verdict)| verdict.word).max().unwrap_or(Word::NotRun);
        if word == Word::Exact {
            return Verdict::of(word, "");
        }
        // A word that all share is not repeated for each.
        let is_shared = all.iter().all(|(_, verdict)| verdict.word == word && !verdict.note.is_empty());
        let each = all.iter().map(|(label, verdict)| match is_shared {
            true => format!("{}: {}", label.as_ref(), verdict.note),
            false => format!("{}: {verdict}", label.as_ref()),
        });
        Verdict::of(word, each.collect::<Vec<_>>().join("; "))
    }

    /// Adds to the note.
    #[must_use]
    pub fn noting(mut self, more: &str) -> Verdict {
        if !self.note.is_empty() && !more.is_empty() {
            self.note += "; ";
        }
        self.note += more;
        self
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word.text())?;
        if self.note.is_empty() { Ok(()) } else { write!(f, ", {}", self.note) }
    }
}

/// Returns the verdict if it is exact, within the tolerance or of the same order.
fn near(published: f64, ours: f64, n_digits: usize) -> Option<Verdict> {
    if n_digits != usize::MAX && prints_alike(published, ours, n_digits, 0.0) {
        return Some(Verdict::of(Word::Exact, ""));
    }
    let off = (ours - published).abs() / published.abs();
    if off <= TOLERANCE + SLACK {
        return Some(Verdict::of(Word::Within, format!("{} off", percent(off))));
    }
    let is_near = published * ours > 0.0 && factor(published, ours) <= FACTOR + SLACK;
    is_near.then(|| Verdict::of(Word::SameOrder, times(published, ours)))
}

fn prints_alike(published: f64, ours: f64, n_digits: usize, play: f64) -> bool {
    let half_a_unit = 10_f64.powi(-(n_digits as i32)) / 2.0;
    (published - ours).abs() <= half_a_unit * (1.0 + SLACK) + play
}

fn factor(one: f64, other: f64) -> f64 {
    (one / other).abs().max((other / one).abs())
}

fn times(one: f64, other: f64) -> String {
    match factor(one, other) {
        factor if factor < 10.0 => format!("factor {factor:.2}"),
        factor if factor < 1000.0 => format!("factor {factor:.0}"),
        _ => "factor above 1000".into(),
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Formats a reason for the end of a note.
fn ended(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!("; {why}") }
}

#[cfg(test)]
mod tests {
    use super::{RULE, Side, Verdict, Word};

    /// Checks each kind of verdict on both sides of each edge.
    #[test]
    fn numbers_on_both_sides_of_each_edge() {
        let amount = |ours| Verdict::of_amount(10.0, ours, 1, "").word;
        let edges = [
            (10.05, Word::Exact),
            (10.06, Word::Within),
            (11.0, Word::Within),
            (9.0, Word::Within),
            (11.01, Word::SameOrder),
            (8.99, Word::SameOrder),
            (20.0, Word::SameOrder),
            (5.0, Word::SameOrder),
            (20.01, Word::Not),
            (4.99, Word::Not),
            (0.0, Word::Not),
        ];
        for (ours, expected) in edges {
            assert_eq!(amount(ours), expected, "{ours}");
        }
    }

    #[test]
    fn a_change_has_a_direction_and_an_amount_has_none() {
        let change = |published, ours| Verdict::of_change(published, ours, 0);
        assert_eq!(change(85.0, 43.0).word, Word::SameOrder);
        let far = change(85.0, 7.0);
        assert_eq!(far.to_string(), "direction only, the sign holds, the size does not: factor 12");
        assert_eq!(Verdict::of_amount(85.0, 7.0, 0, "").word, Word::Not);
        assert_eq!(change(-3.0, -1.1).word, Word::DirectionOnly);
        assert_eq!(change(22.0, -2.0), Verdict::not("another sign here"));
        let words = [0.0, 0.5, 0.51, -0.5, -0.51].map(|ours| change(22.0, ours).note);
        let none = "no change here";
        let sign = "the sign holds, the size does not: factor 43";
        assert_eq!(words, [none, none, sign, none, "another sign here"], "by the printed digit");
        assert_eq!(change(-43.0, -46.0).note, "7.0 % off");
    }

    #[test]
    fn bounds_hold_or_are_missed_by_a_little_or_by_more() {
        let below = |ours| Verdict::of_bound(Side::AtMost, 50.0, ours, "the network is not published");
        assert_eq!(below(50.0), Verdict { word: Word::Holds, note: String::new() });
        assert_eq!(below(50.6).to_string(), "within tolerance, the bound is missed by 1.2 % of it");
        assert_eq!(below(55.0).word, Word::Within);
        let far = below(55.1);
        assert_eq!(far, Verdict::not("the bound is missed by 10.2 % of it; the network is not published"));
        let above = |ours| Verdict::of_bound(Side::AtLeast, 80.0, ours, "").word;
        assert_eq!([80.0, 79.9, 72.0, 71.9].map(above), [Word::Holds, Word::Within, Word::Within, Word::Not]);
    }

    #[test]
    fn arithmetic_has_no_tolerance_but_the_rounding_of_its_inputs() {
        let verdict = |ours, play| Verdict::of_arithmetic(70.78, ours, 2, play, "").word;
        assert_eq!(verdict(70.785, 0.0), Word::Exact);
        assert_eq!(verdict(70.7909, 0.0), Word::Not);
        assert_eq!(verdict(70.7909, 0.006), Word::Exact);
    }

    #[test]
    fn what_is_alike_is_judged_like_a_number() {
        let alike = |other| Verdict::of_likeness(1.0, other);
        assert_eq!(
            [1.1, 1.11, 2.0, 2.01].map(|other| alike(other).word),
            [Word::Within, Word::SameOrder, Word::SameOrder, Word::Not]
        );
        assert_eq!(alike(0.965).note, "3.5 % apart");
        assert_eq!(alike(1.0).word, Word::Exact);
    }

    #[test]
    fn sentences_and_choices_are_so_or_not() {
        let sentence = |holds| Verdict::of_sentence(holds, "not here").to_string();
        assert_eq!([true, false].map(sentence), ["holds", "not reproducible, not here"]);
        let choice = |is_the_same| Verdict::of_choice(is_the_same, "another").word;
        assert_eq!([true, false].map(choice), [Word::Exact, Word::Not]);
    }

    #[test]
    fn the_worst_of_several_counts_and_each_is_told() {
        let one = |ours| Verdict::of_change(20.0, ours, 0);
        let all = Verdict::of_many(&[("SH 0", one(20.0)), ("SH 0.1", one(3.0)), ("SH 0.2", one(21.0))]);
        assert_eq!(
            all.to_string(),
            "direction only, SH 0: exact; SH 0.1: direction only, the sign holds, the size does not: factor 6.67; \
             SH 0.2: within tolerance, 5.0 % off"
        );
        assert_eq!(Verdict::of_many(&[("a", one(20.0)), ("b", one(20.0))]).to_string(), "exact");
        let alike = Verdict::of_many(&[("a", one(19.0)), ("b", one(21.0))]);
        assert_eq!(alike.to_string(), "within tolerance, a: 5.0 % off; b: 5.0 % off");
    }

    #[test]
    fn the_rule_has_a_line_for_each_word_and_names_its_numbers() {
        for word in Word::ALL {
            assert_eq!(RULE.matches(&format!("\n| {} |", word.text())).count(), 1, "{}", word.text());
        }
        assert_eq!(RULE.matches("\n| ").count(), 1 + Word::ALL.len());
        assert_eq!((super::TOLERANCE, super::FACTOR), (0.1, 2.0));
        assert!(RULE.contains("one tolerance, a tenth, and one factor, two"));
    }
}
