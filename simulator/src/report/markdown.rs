//! A report as a page, and the files beside it.

use super::{Claim, Part, Report, Verdict, table::line};

/// A file of a report: its name in the report's folder, and what is in it.
pub type File = (String, String);

/// Larger tables are only linked.
const N_ROWS_SHOWN: usize = 40;
const N_COLUMNS_SHOWN: usize = 12;

impl Report {
    /// The page, which shows figures out of `folder`. Headings begin at the second level.
    pub fn to_markdown(&self, folder: &str) -> String {
        let mut text = format!("## {}\n\n{}\n\n{}\n", self.name, self.paper, self.summary());
        for part in &self.parts {
            text += &format!("\n{}", part.to_markdown(folder));
        }
        text
    }

    /// All tables as CSV and all figures as SVG.
    pub fn files(&self) -> Vec<File> {
        let tables = self.parts.iter().flat_map(|part| &part.tables);
        let figures = self.parts.iter().flat_map(|part| &part.figures);
        let tables = tables.map(|table| (format!("{}.csv", table.name), table.to_csv()));
        tables.chain(figures.map(|figure| (format!("{}.svg", figure.name), figure.to_svg()))).collect()
    }

    /// How many claims came to which verdict.
    pub fn summary(&self) -> String {
        let claims = || self.parts.iter().flat_map(|part| &part.claims);
        let count = |is_it: fn(&Verdict) -> bool| claims().filter(|claim| is_it(&claim.verdict)).count();
        format!(
            "{} claims: {} exact, {} within tolerance, {} of the same order, {} not reproducible.",
            claims().count(),
            count(|verdict| matches!(verdict, Verdict::Exact)),
            count(|verdict| matches!(verdict, Verdict::Within { .. })),
            count(|verdict| matches!(verdict, Verdict::SameOrder)),
            count(|verdict| matches!(verdict, Verdict::Not { .. })),
        )
    }
}

impl Part {
    fn to_markdown(&self, folder: &str) -> String {
        let mut text = format!("### {}\n", self.title);
        if !self.text.is_empty() {
            text += &format!("\n{}\n", self.text.trim_end());
        }
        if !self.claims.is_empty() {
            text += &format!("\n{}", claims(&self.claims));
        }
        for table in &self.tables {
            let is_long = table.rows.len() > N_ROWS_SHOWN || table.columns.len() > N_COLUMNS_SHOWN;
            text += &match is_long {
                true => {
                    format!("\n[{}]({folder}/{}.csv): {} rows.\n", table.title, table.name, table.rows.len())
                }
                false => format!("\n{}", table.to_markdown()),
            };
        }
        for figure in &self.figures {
            text += &format!("\n![{}]({folder}/{}.svg)\n", figure.title, figure.name);
        }
        text
    }
}

fn claims(claims: &[Claim]) -> String {
    let mut text = line(&["claim", "published", "here", "verdict"]) + &line(&["---"; 4]);
    for Claim { what, published, ours, verdict } in claims {
        let verdict = match verdict {
            Verdict::Not { why } => format!("{}: {why}", verdict.word()),
            _ => verdict.word(),
        };
        text += &line(&[what, published, ours, &verdict]);
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::report::{Claim, Figure, Part, Report, Shape, Verdict};

    #[test]
    fn a_page_has_all_that_is_in_a_report() {
        let claim = Claim {
            what: "gain (Table 4)".into(),
            published: "62 %".into(),
            ours: "43.5 %".into(),
            verdict: Verdict::Not { why: "the mean of the printed numbers is 43.5".into() },
        };
        let shape = Shape::Bars { categories: vec!["x".into()], series: vec![("s".into(), vec![1.0])] };
        let (x_label, y_label) = (String::new(), String::new());
        let figure = Figure { name: "gain".into(), title: "Gain".into(), x_label, y_label, shape };
        let (title, text) = ("Table 4".into(), "As printed.".into());
        let part = Part { title, text, claims: vec![claim], tables: vec![], figures: vec![figure] };
        let report = Report { name: "adaptive", paper: "Kim et al.", parts: vec![part] };
        let page = report.to_markdown("papers");
        let expected = "## adaptive\n\nKim et al.\n\n1 claims: 0 exact, 0 within tolerance, 0 of the same order, 1 not reproducible.\n\n### Table 4\n\nAs printed.\n\n| claim | published | here | verdict |\n| --- | --- | --- | --- |\n| gain (Table 4) | 62 % | 43.5 % | not reproducible: the mean of the printed numbers is 43.5 |\n\n![Gain](papers/gain.svg)\n";
        assert_eq!(page, expected);
        assert_eq!(report.files().len(), 1);
        assert_eq!(report.files()[0].0, "gain.svg");
    }
}
