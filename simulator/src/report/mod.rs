//! What the reproduction of a paper comes to: claims beside what came out here, tables and figures.
//! Made by the papers' modules, written out by [`markdown`], [`table`] and [`figure`].

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
    /// With which it was made: verdicts of a quick run are not those of a full one.
    pub effort: Effort,
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
    /// One for each published number or sentence, and checks of ours, which are told apart.
    pub claims: Vec<Claim>,
    /// Ours, with the published beside them where there are many.
    pub tables: Vec<Listing>,
    /// Drawn from the same numbers.
    pub figures: Vec<Figure>,
}

/// A published number or sentence, and what came out here.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Who says so.
    pub source: Source,
    /// What is claimed, with the place in the paper.
    pub what: String,
    /// In the paper's digits or words.
    pub published: String,
    /// What came out here, in the same unit.
    pub ours: String,
    /// How the two compare.
    pub verdict: Verdict,
}

/// Who makes a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper: it counts.
    Paper,
    /// We, or an independent computation that we compare with: it does not count.
    Ours,
}

impl Claim {
    /// Of the paper.
    pub fn new(
        what: impl Into<String>,
        published: impl Into<String>,
        ours: impl Into<String>,
        verdict: Verdict,
    ) -> Claim {
        let (what, published, ours) = (what.into(), published.into(), ours.into());
        Claim { source: Source::Paper, what, published, ours, verdict }
    }

    /// A check of ours, which no paper claims.
    #[must_use]
    pub fn of_ours(self) -> Claim {
        Claim { source: Source::Ours, ..self }
    }
}

impl Report {
    /// What the paper claims: what counts.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        let all = self.parts.iter().flat_map(|part| &part.claims);
        all.filter(|claim| claim.source == Source::Paper)
    }

    /// How many of its claims came to this.
    pub fn count(&self, word: Word) -> usize {
        self.claims().filter(|claim| claim.verdict.word == word).count()
    }
}
