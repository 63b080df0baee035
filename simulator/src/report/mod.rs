//! What the reproduction of a paper comes to: claims beside what came out here, tables and figures.
//! Made by the papers' modules, written out by [`markdown`], [`table`] and [`figure`].

pub mod figure;
pub mod markdown;
mod raster;
pub mod table;

pub use figure::{Figure, Shape};
pub use table::{Cell, Listing};

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Small sizes and few repetitions: minutes become seconds, figures are coarse.
    Quick,
    /// The sizes and repetitions of the paper, as far as they are published.
    Full,
}

/// Told while a long computation goes on, from any thread.
pub trait Progress: Sync {
    /// So many more pieces of work, of about the same length, will come.
    fn expect(&self, n: u64);
    /// One of them is done.
    fn done(&self);
}

/// Tells nobody.
impl Progress for () {
    fn expect(&self, _: u64) {}
    fn done(&self) {}
}

/// All of one paper.
#[derive(Clone, Debug)]
pub struct Report {
    /// The word for `pilotfish reproduce`, and the folder's name.
    pub name: &'static str,
    /// Authors, title, place and year.
    pub paper: &'static str,
    /// In the paper's order.
    pub parts: Vec<Part>,
}

/// What belongs to one table, figure or statement of the paper.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// With the number of the paper's table, figure or section.
    pub title: String,
    /// What was run and with which settings, Markdown.
    pub text: String,
    /// One for each published number or sentence.
    pub claims: Vec<Claim>,
    /// Ours, with the published beside them where there are many.
    pub tables: Vec<Listing>,
    /// Drawn from the same numbers.
    pub figures: Vec<Figure>,
}

/// A published number or sentence, and what came out here.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// What is claimed, with the place in the paper.
    pub what: String,
    /// In the paper's digits or words.
    pub published: String,
    /// What came out here, in the same unit.
    pub ours: String,
    /// How the two compare. Worked out from the numbers, never written down beforehand.
    pub verdict: Verdict,
}

/// How a published number and ours compare.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// To the printed digit.
    Exact,
    /// Not further off than this, which the text gives reasons for.
    Within {
        /// In the unit of the numbers, or as a ratio: "3 points", "0.5 %".
        tolerance: String,
    },
    /// The direction or the order holds, the size does not.
    SameOrder,
    /// Does not come out.
    Not {
        /// What is not published, or contradicts what is.
        why: String,
    },
}

impl Verdict {
    /// Exact when both print alike to so many digits after the point, else within `tolerance` in the
    /// numbers' unit, else as `otherwise` says.
    pub fn of_number(
        published: f64,
        ours: f64,
        n_digits: usize,
        tolerance: f64,
        otherwise: Verdict,
    ) -> Verdict {
        let unit = 10_f64.powi(-(n_digits as i32));
        let off = (published - ours).abs();
        if off <= unit / 2.0 * (1.0 + 1e-9) {
            Verdict::Exact
        } else if off <= tolerance {
            Verdict::Within { tolerance: tolerance.to_string() }
        } else {
            otherwise
        }
    }

    /// The word in tables.
    pub fn word(&self) -> String {
        match self {
            Verdict::Exact => "exact".into(),
            Verdict::Within { tolerance } => format!("within {tolerance}"),
            Verdict::SameOrder => "same order".into(),
            Verdict::Not { .. } => "not reproducible".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn a_number_is_exact_to_its_printed_digits() {
        let verdict = |ours| Verdict::of_number(1.453, ours, 3, 0.002, Verdict::SameOrder);
        assert_eq!(verdict(1.4534), Verdict::Exact);
        assert_eq!(verdict(1.4549).word(), "within 0.002");
        assert_eq!(verdict(1.46), Verdict::SameOrder);
    }
}
