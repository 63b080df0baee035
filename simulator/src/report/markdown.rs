//! A report as a Markdown page, and its further files.

use super::{Claim, Effort, Listing, Part, Report, Source, Word, table::line};

/// A file of a report: its name in the report's directory, and its content.
pub type File = (String, String);

/// Larger tables are only linked.
const N_ROWS_SHOWN: usize = 40;
const N_COLUMNS_SHOWN: usize = 12;

impl Report {
    /// Returns the page, which shows figures from `folder`. Headings begin at the second level.
    pub fn to_markdown(&self, folder: &str) -> String {
        let mut text = format!("## {}\n\n{}\n\n{}\n", self.name, self.paper, self.summary());
        for part in &self.parts {
            text += &format!("\n{}", part.to_markdown(folder, self.effort));
        }
        text
    }

    /// Returns all tables as CSV and all figures as SVG.
    pub fn files(&self) -> Vec<File> {
        let tables = self.parts.iter().flat_map(|part| &part.tables);
        let figures = self.parts.iter().flat_map(|part| &part.figures);
        let tables = tables.map(|table| (format!("{}.csv", table.name), marked(table, self.effort).to_csv()));
        tables.chain(figures.map(|figure| (format!("{}.svg", figure.name), figure.to_svg()))).collect()
    }

    /// Returns how many of the paper's claims got each verdict, with a warning for a quick run.
    pub fn summary(&self) -> String {
        let counts = Word::ALL.into_iter().map(|word| (self.count(word), word.text()));
        let words: Vec<String> =
            counts.filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        let n = self.claims().count();
        let claims = if n == 1 { "claim" } else { "claims" };
        let told = format!("{n} {claims}: {}.", words.join(", "));
        match self.effort {
            Effort::Full => told,
            Effort::Quick => format!("{QUICK} {told}"),
        }
    }
}

/// The text before the counts of a quick run.
const QUICK: &str =
    "Quick run, with few and small draws: the full run may come to other verdicts, and only those count.";

impl Part {
    fn to_markdown(&self, folder: &str, effort: Effort) -> String {
        let mut text = format!("### {}\n", self.title);
        if !self.text.is_empty() {
            text += &format!("\n{}\n", self.text.trim_end());
        }
        for source in [Source::Paper, Source::Ours] {
            let of_source: Vec<&Claim> = self.claims.iter().filter(|claim| claim.source == source).collect();
            if !of_source.is_empty() {
                text += &format!("\n{}", claims(&of_source, source, effort));
            }
        }
        for table in &self.tables {
            let is_long = table.rows.len() > N_ROWS_SHOWN || table.columns.len() > N_COLUMNS_SHOWN;
            text += &match is_long {
                true => {
                    format!("\n[{}]({folder}/{}.csv): {} rows.\n", table.title, table.name, table.rows.len())
                }
                false => format!("\n{}", marked(table, effort).to_markdown()),
            };
        }
        for figure in &self.figures {
            text += &format!("\n![{}]({folder}/{}.svg)\n", figure.title, figure.name);
        }
        text
    }
}

/// Returns the head of a column of verdicts.
fn verdict_head(effort: Effort) -> &'static str {
    if effort == Effort::Quick { "verdict (quick run)" } else { VERDICT }
}

const VERDICT: &str = "verdict";

/// Marks verdicts within a table of a quick run, too.
fn marked(table: &Listing, effort: Effort) -> Listing {
    let mut table = table.clone();
    for head in table.columns.iter_mut().filter(|head| *head == VERDICT) {
        verdict_head(effort).clone_into(head);
    }
    table
}

fn claims(claims: &[&Claim], source: Source, effort: Effort) -> String {
    let verdict = verdict_head(effort);
    let heads = match source {
        Source::Paper => ["claim of the paper", "published", "here", verdict],
        Source::Ours => ["check of ours, not counted", "compared with", "here", verdict],
    };
    let mut text = line(&heads) + &line(&["---"; 4]);
    for Claim { what, published, ours, verdict, .. } in claims {
        let verdict = match verdict.note.as_str() {
            "" => verdict.word.text().to_owned(),
            note => format!("**{}**: {note}", verdict.word.text()),
        };
        text += &line(&[what, published, ours, &verdict]);
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::report::{Claim, Effort, Figure, Listing, Part, Report, Shape, Verdict, Word};

    fn report(effort: Effort) -> Report {
        let why = "the mean of the printed numbers is 43.5";
        let claims = vec![
            Claim::new("gain (Table 4)", "62 %", "43.5 %", Verdict::not(why)),
            Claim::new("order", "a > b", "a > b", Verdict::of_sentence(true, "")),
            Claim::new("gain elsewhere", "13 %", "13 %", Verdict::of_change(13.0, 13.0, 0)).of_ours(),
        ];
        let shape = Shape::Bars { categories: vec!["x".into()], series: vec![("s".into(), vec![1.0])] };
        let (x_label, y_label) = (String::new(), String::new());
        let figure = Figure { name: "gain".into(), title: "Gain".into(), x_label, y_label, shape };
        let (title, text) = ("Table 4".into(), "As printed.".into());
        let part = Part { title, text, claims, tables: vec![], figures: vec![figure] };
        Report { name: "adaptive", paper: "Kim et al.", effort, parts: vec![part] }
    }

    #[test]
    fn a_page_has_all_that_is_in_a_report() {
        let expected = "## adaptive\n\nKim et al.\n\n2 claims: 1 holds, 1 not reproducible.\n\n### Table 4\n\nAs printed.\n\n| claim of the paper | published | here | verdict |\n| --- | --- | --- | --- |\n| gain (Table 4) | 62 % | 43.5 % | **not reproducible**: the mean of the printed numbers is 43.5 |\n| order | a > b | a > b | holds |\n\n| check of ours, not counted | compared with | here | verdict |\n| --- | --- | --- | --- |\n| gain elsewhere | 13 % | 13 % | exact |\n\n![Gain](papers/gain.svg)\n";
        let report = report(Effort::Full);
        assert_eq!(report.to_markdown("papers"), expected);
        assert_eq!(report.files().len(), 1);
        assert_eq!(report.files()[0].0, "gain.svg");
    }

    #[test]
    fn only_what_the_paper_claims_is_counted() {
        let report = report(Effort::Full);
        assert_eq!(report.claims().count(), 2);
        let counts = Word::ALL.map(|word| report.count(word));
        assert_eq!(counts, [0, 1, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn a_quick_run_says_so_at_its_counts_and_at_each_verdict() {
        let mut report = report(Effort::Quick);
        let columns = vec!["number".to_owned(), "verdict".into()];
        let rows = vec![vec!["a".into(), "exact".into()]];
        report.parts[0].tables.push(Listing { name: "t".into(), title: "T".into(), columns, rows });
        let page = report.to_markdown("papers");
        assert!(page.contains("Quick run, with few and small draws"), "{page}");
        assert_eq!(page.matches("verdict (quick run)").count(), 3);
        assert_eq!(report.files()[0].1, "number,verdict (quick run)\na,exact\n");
        assert!(page.contains("2 claims: 1 holds, 1 not reproducible."), "{page}");
    }
}
