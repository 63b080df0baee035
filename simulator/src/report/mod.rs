//! The results of the reproduction of a paper: claims with our results, tables and figures. The papers'
//! modules make them; [`markdown`], [`table`] and [`figure`] write them.

mod draws;
pub mod figure;
pub mod markdown;
mod raster;
pub mod table;
pub mod verdict;

pub use draws::Draws;
pub use figure::{Figure, Shape};
pub use table::{Cell, Listing};
pub use verdict::{Verdict, Word};

/// The extent of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Small sizes and few repetitions: minutes become seconds, figures are coarse.
    Quick,
    /// The sizes and repetitions of the paper, as far as they are published.
    Full,
}

/// A listener to the progress of a long computation; called from any thread.
pub trait Progress: Sync {
    /// Announces `n` more pieces of work, of about equal length.
    fn expect(&self, n: u64);
    /// Notes that one of them is done.
    fn done(&self);
}

/// Ignores the progress.
impl Progress for () {
    fn expect(&self, _: u64) {}
    fn done(&self) {}
}

/// The report on one paper.
#[derive(Clone, Debug)]
pub struct Report {
    /// The word for `pilotfish reproduce`, and the directory's name.
    pub name: &'static str,
    /// Authors, title, place and year.
    pub paper: &'static str,
    /// The effort of the runs: verdicts of a quick run are not those of a full one.
    pub effort: Effort,
    /// The parts, in the paper's order.
    pub parts: Vec<Part>,
}

/// The results for one table, figure or statement of the paper.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// The title, with the number of the paper's table, figure or section.
    pub title: String,
    /// The runs and their settings, in Markdown.
    pub text: String,
    /// One claim for each published number or sentence, and our own checks, which are marked.
    pub claims: Vec<Claim>,
    /// Our tables, with the published numbers beside ours if there are many.
    pub tables: Vec<Listing>,
    /// Figures of the same numbers.
    pub figures: Vec<Figure>,
}

/// A published number or sentence, and our result.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The source of the claim.
    pub source: Source,
    /// The claim, with its place in the paper.
    pub what: String,
    /// The published value, in the paper's digits or words.
    pub published: String,
    /// Our result, in the same unit.
    pub ours: String,
    /// The comparison of the two.
    pub verdict: Verdict,
}

/// The source of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper: the claim counts.
    Paper,
    /// Our own check, or an independent computation for comparison: the claim does not count.
    Ours,
}

impl Claim {
    /// Makes a claim of the paper.
    pub fn new(
        what: impl Into<String>,
        published: impl Into<String>,
        ours: impl Into<String>,
        verdict: Verdict,
    ) -> Claim {
        let (what, published, ours) = (what.into(), published.into(), ours.into());
        Claim { source: Source::Paper, what, published, ours, verdict }
    }

    /// Marks the claim as a check of ours, which no paper makes.
    #[must_use]
    pub fn of_ours(self) -> Claim {
        Claim { source: Source::Ours, ..self }
    }
}

impl Report {
    /// Returns the paper's claims, which count.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        let all = self.parts.iter().flat_map(|part| &part.claims);
        all.filter(|claim| claim.source == Source::Paper)
    }

    /// Returns the number of its claims with this verdict.
    pub fn count(&self, word: Word) -> usize {
        self.claims().filter(|claim| claim.verdict.word == word).count()
    }
}
