//! CSV: a heading, then a line a row; what is missing is empty.

use std::io::{self, Write};

use crate::{
    commands::export::{
        RowWriter,
        columns::{Columns, Value},
    },
    show::format::rfc3339,
};

/// Writes CSV.
pub struct CsvFile<W: Write> {
    writer: csv::Writer<W>,
    is_for_spreadsheets: bool,
}

impl<W: Write> CsvFile<W> {
    /// Writes the heading. For spreadsheets no cell is a formula.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(columns: &Columns, to: W, is_for_spreadsheets: bool) -> io::Result<CsvFile<W>> {
        let mut file = CsvFile { writer: csv::Writer::from_writer(to), is_for_spreadsheets };
        file.record(columns.all().iter().map(|column| column.name.clone()))?;
        Ok(file)
    }

    fn record(&mut self, texts: impl Iterator<Item = String>) -> io::Result<()> {
        let is_for_spreadsheets = self.is_for_spreadsheets;
        let texts = texts.map(|text| if is_for_spreadsheets { without_formula(text) } else { text });
        self.writer.write_record(texts).map_err(into_io)
    }
}

/// The text with an apostrophe before it if a spreadsheet would take it for a formula. Numbers are none.
fn without_formula(text: String) -> String {
    let begins_one = text
        .starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']);
    if begins_one && text.parse::<f64>().is_err() { format!("'{text}") } else { text }
}

impl<W: Write> RowWriter for CsvFile<W> {
    fn row(&mut self, values: Vec<Value>) -> io::Result<()> {
        let texts = values.into_iter().map(|value| match value {
            Value::Missing => String::new(),
            Value::Integer(number) => number.to_string(),
            // As parameters are written: with a point.
            Value::Float(number) => format!("{number:?}"),
            Value::Time(time) => rfc3339(time),
            Value::Written { text, .. } | Value::Text(text) => text,
        });
        self.record(texts)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Keeps what is behind a broken pipe or a full disk.
fn into_io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::CsvFile;
    use crate::commands::export::{
        RowWriter,
        columns::{Columns, tests as columns},
    };

    #[test]
    fn numbers_are_shown_as_they_were_written() {
        for text in ["4.04e-161", "007", "1e5", "1.10", "1", ".5"] {
            let of_job = Columns::of(&columns::job());
            let mut written = Vec::new();
            let mut file = Box::new(CsvFile::new(&of_job, &mut written, false).unwrap());
            let mut row = columns::row(0, Some(text));
            row.parameters[1].1 = text.to_owned();
            file.row(of_job.values(row)).unwrap();
            file.finish().unwrap();
            let written = String::from_utf8(written).unwrap();
            assert!(written.ends_with(&format!(",{text}\n")), "extract: {written}");
            assert!(written.contains(&format!(",{text},\"a,b\"")), "parameter: {written}");
        }
    }

    #[test]
    fn for_spreadsheets_texts_are_no_formulas_and_numbers_stay() {
        for (text, cell) in [
            ("=HYPERLINK(\"http://evil\")", "\"'=HYPERLINK(\"\"http://evil\"\")\""),
            ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-2+3", "'-2+3"),
            ("-7.2", "-7.2"),
            ("+1e5", "+1e5"),
            ("\t=1", "'\t=1"),
            ("plain", "plain"),
        ] {
            let of_job = Columns::of(&columns::job());
            let mut written = Vec::new();
            let mut file = Box::new(CsvFile::new(&of_job, &mut written, true).unwrap());
            let mut row = columns::row(0, None);
            row.parameters[2].1 = text.to_owned();
            file.row(of_job.values(row)).unwrap();
            file.finish().unwrap();
            let written = String::from_utf8(written).unwrap();
            assert!(written.ends_with(&format!(",{cell},\n")), "{text}: {written}");
        }
    }

    #[test]
    fn rows_follow_their_heading() {
        let of_job = Columns::of(&columns::job());
        let mut written = Vec::new();
        let mut file = Box::new(CsvFile::new(&of_job, &mut written, false).unwrap());
        file.row(of_job.values(columns::row(0, Some("-7.2")))).unwrap();
        file.row(of_job.values(columns::row(1, None))).unwrap();
        file.finish().unwrap();
        let expected = "\
index,state,exit_code,attempt,pilot,started,duration_s,cpu_s,memory_bytes,failure,seed,box,parameter.state,affinity
0,done,0,1,2,2023-11-14T22:13:20.250000Z,1.5,1.25,4096,,1,0.5,\"a,b\",-7.2
1,done,0,1,2,2023-11-14T22:13:20.250000Z,1.5,1.25,4096,,1,0.5,\"a,b\",
";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
