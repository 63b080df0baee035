//! Tables of values: CSV files as spreadsheets and programs write them.

use std::path::Path;

use crate::job::author::form::CsvForm;
use crate::job::author::sources::{SourceError, read_text};
use crate::job::limits;
use crate::problem::{nearest, quoted};

/// What may part values where the file does not say it; the first one that the line of names has.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];
const QUOTES_HELP: &str = "close it; a quote that belongs to a value is doubled, within quotes";

/// Parameters of a CSV file with their values, in the order asked for.
///
/// # Errors
/// The file cannot be read, has no such column, or a row of another length.
pub(in crate::job::author) fn read_table(
    base_dir: &Path,
    csv: &CsvForm,
) -> Result<Vec<(String, Vec<String>)>, SourceError> {
    let path = base_dir.join(&csv.file);
    let mut text = read_text(&path, limits::DATA_FILE_BYTES_MAX)?;
    let (skipped, announced) = announced(&text);
    let has_names = csv.header != Some(false);
    let mut given = csv.delimiter.or(announced);
    if let Some(comments) = comments(&path, &text[skipped..], given, csv.header)? {
        text.replace_range(skipped..skipped + comments.n_bytes, &comments.instead);
        given = Some(comments.delimiter);
    }
    if given == Some(b' ') {
        text.replace_range(skipped.., &with_single_blanks(&text[skipped..]));
    }
    let delimiter = match given {
        Some(delimiter) => delimiter,
        None if has_names => delimiter(&path, &text[skipped..]),
        None => delimiter_without_names(&path, &text[skipped..])?,
    };
    refuse_open_quotes(&text, skipped, delimiter)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(has_names)
        // Names may be aligned; values reach tasks byte for byte.
        .trim(if has_names { csv::Trim::Headers } else { csv::Trim::None })
        // Rows that are empty are no rows, and of others the line is told.
        .flexible(true)
        .from_reader(&text.as_bytes()[skipped..]);
    let failed = |error: csv::Error| {
        let at = error.position().map(|position| line_at(&text, skipped + position.byte() as usize));
        let at = at.map(|line| format!(" in line {line}")).unwrap_or_default();
        let expected = format!("write values with {} between them", shown(delimiter));
        SourceError::content(format!("a table that cannot be read{at} ({error})"), expected)
    };
    let first: Vec<String> = reader.headers().map_err(failed)?.iter().map(str::to_owned).collect();
    let header = match has_names {
        true => first,
        false => (1..=first.len()).map(|n| n.to_string()).collect(),
    };
    let chosen = choose(&header, csv.columns.as_deref(), delimiter)?;
    if csv.header.is_none() {
        refuse_values_as_names(chosen.iter().map(|(_, place)| header[*place].as_str()))?;
    }
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); chosen.len()];
    let mut record = csv::StringRecord::new();
    loop {
        let before = skipped + reader.position().byte() as usize;
        if !reader.read_record(&mut record).map_err(failed)? {
            break;
        }
        if is_empty(&record, header.len()) {
            continue;
        }
        if record.len() != header.len() {
            let found = format!("a row of {} in line {} of the file", record.len(), line_at(&text, before));
            let expected = format!(
                "the {} has {}, with {} between them",
                if has_names { "line of names" } else { "first row" },
                if header.len() == 1 { "1 column".to_owned() } else { format!("{} columns", header.len()) },
                shown(delimiter)
            );
            return Err(SourceError::content(found, expected));
        }
        for (column, (_, place)) in columns.iter_mut().zip(&chosen) {
            column.push(record.get(*place).unwrap_or_default().to_owned());
        }
    }
    if columns.iter().any(Vec::is_empty) {
        return Err(SourceError::content("a table without rows", "write at least one below the names"));
    }
    Ok(chosen.into_iter().map(|(name, _)| name).zip(columns).collect())
}

/// Refuses numbers in the place of names: a table without a line of names would lose its first row in silence.
fn refuse_values_as_names<'n>(mut names: impl Iterator<Item = &'n str>) -> Result<(), SourceError> {
    match names.find(|name| is_number(name)) {
        None => Ok(()),
        Some(name) => {
            let found = format!("the number {} in the first line, which names the columns", quoted(name));
            let expected = "write a line of names above the values, or `header: false`, which calls the columns 1, 2, 3, … \
                            (`header: true` if it is a name)";
            Err(SourceError::content(found, expected))
        }
    }
}

/// Refuses quotes that the reader would take silently for something else: one that is never closed makes all
/// the rest of the file one value, and text after a closing quote shows that an earlier one was forgotten.
fn refuse_open_quotes(text: &str, skipped: usize, delimiter: u8) -> Result<(), SourceError> {
    enum State {
        FieldStart,
        Plain,
        Quoted,
        /// After a quote within a quoted value: the end of the value, or the first half of a doubled quote.
        Closed,
        /// In the blanks after the end of a quoted value, where no quote opens anything.
        Behind,
    }
    let mut state = State::FieldStart;
    let mut opened = skipped;
    for (at, byte) in text.bytes().enumerate().skip(skipped) {
        let is_end = byte == delimiter || matches!(byte, b'\r' | b'\n');
        state = match (state, byte) {
            (State::FieldStart, b'"') => {
                opened = at;
                State::Quoted
            }
            (State::Quoted, b'"') => State::Closed,
            (State::Quoted, _) | (State::Closed, b'"') => State::Quoted,
            (_, _) if is_end => State::FieldStart,
            (State::Closed | State::Behind, b' ' | b'\t') => State::Behind,
            (State::Closed | State::Behind, _) => {
                let found = format!(
                    "text after a closing quote in line {} of the file; the quote was opened in line {}",
                    line_of(text, at),
                    line_of(text, opened)
                );
                return Err(SourceError::content(found, QUOTES_HELP));
            }
            (State::FieldStart | State::Plain, _) => State::Plain,
        };
    }
    if let State::Quoted = state {
        let found =
            format!("a quote that is opened in line {} of the file and never closed", line_of(text, opened));
        return Err(SourceError::content(found, QUOTES_HELP));
    }
    Ok(())
}

/// How many bytes the line `sep=;` takes at the beginning, which spreadsheets write and read, and what it says.
fn announced(text: &str) -> (usize, Option<u8>) {
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    let plain = line.trim_matches('"');
    let said = plain.get(..4).filter(|word| word.eq_ignore_ascii_case("sep=")).map(|_| &plain[4..]);
    match said.map(str::as_bytes) {
        Some([delimiter]) => ((line.len() + 1).min(text.len()), Some(*delimiter)),
        _ => (0, None),
    }
}

/// The text with one blank for each run of blanks and tabs between values, and none at the ends of lines. Quotes hold a value
/// together if it begins with one.
fn with_single_blanks(text: &str) -> String {
    let mut single = String::with_capacity(text.len());
    let (mut is_quoted, mut has_blanks) = (false, false);
    for c in text.chars() {
        if is_quoted {
            // A doubled quote closes and opens again.
            is_quoted = c != '"';
            single.push(c);
            continue;
        }
        match c {
            ' ' | '\t' => has_blanks = true,
            '\r' | '\n' => {
                has_blanks = false;
                single.push(c);
            }
            _ => {
                let is_first = single.is_empty() || single.ends_with(['\r', '\n']);
                if has_blanks && !is_first {
                    single.push(' ');
                }
                is_quoted = c == '"' && (has_blanks || is_first || single.ends_with('"'));
                has_blanks = false;
                single.push(c);
            }
        }
    }
    single
}

/// Comments above a table: lines that begin with `#`, as numpy writes them.
struct Comments {
    /// What they take at the beginning of the table, in bytes.
    n_bytes: usize,
    /// What stands for them: their line ends, and the names of the columns if the last one has these.
    instead: String,
    /// What parts the values of the table.
    delimiter: u8,
}

/// Finds comments above a table. The last one names the columns if the first row has a number, unless `header` says where
/// the names are.
///
/// # Errors
/// The last one could as well be the line of names, or a row: none is lost in silence.
fn comments(
    path: &Path,
    text: &str,
    delimiter: Option<u8>,
    header: Option<bool>,
) -> Result<Option<Comments>, SourceError> {
    let (mut begin, mut last) = (0, None);
    let first_row = loop {
        let Some(line) = text[begin..].split_inclusive(['\r', '\n']).next() else { return Ok(None) };
        match line.trim() {
            "" => {}
            comment if comment.starts_with('#') => last = Some((begin, line)),
            row => break row,
        }
        begin += line.len();
    };
    let Some((at, last)) = last else { return Ok(None) };
    let names = last.trim().trim_start_matches('#').trim_start();
    let by_names = delimiters(names).first().copied();
    let delimiter = delimiter.unwrap_or_else(|| by_names.unwrap_or_else(|| self::delimiter(path, first_row)));
    let (above, first) = (values(names, delimiter), values(first_row, delimiter));
    let has_number = |values: &[String]| values.iter().any(|value| has_digits_of_number(value));
    let are_names = header.is_none() && has_number(&first);
    let is_plain_comment = match header {
        Some(false) => has_number(&first) && !has_number(&above),
        Some(true) | None => false,
    };
    if !are_names && !is_plain_comment && above.len() == first.len() {
        let what = if header == Some(false) { "a row" } else { "the line of names" };
        let found = format!(
            "line {} of the file, {}, which may be a comment or {what}",
            line_at(text, at),
            quoted(last.trim())
        );
        let expected = format!("take the line away if it is a comment, or its `#` if it is {what}");
        return Err(SourceError::content(found, expected));
    }
    let line_ends = |text: &str| text.matches(['\r', '\n']).collect::<String>();
    let names = if are_names { names } else { "" };
    let instead = [&line_ends(&text[..at]), names, &line_ends(&text[at..begin])].concat();
    Ok(Some(Comments { n_bytes: begin, instead, delimiter }))
}

/// The values of one row.
fn values(row: &str, delimiter: u8) -> Vec<String> {
    let row = if delimiter == b' ' { with_single_blanks(row) } else { row.to_owned() };
    let mut reader =
        csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).from_reader(row.as_bytes());
    let record = reader.records().next().and_then(Result::ok).unwrap_or_default();
    record.iter().map(str::to_owned).collect()
}

/// Whether it is a number that no column is called by: `inf` and `nan` may be names.
fn has_digits_of_number(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit()) && is_number(value)
}

/// What parts the values of a table: the first one that its first line has.
fn delimiter(path: &Path, text: &str) -> u8 {
    if is_of_tabs(path) { b'\t' } else { delimiters(text).first().copied().unwrap_or(b',') }
}

/// What parts the values of a table without names. Of several that stand in each row as often, the others must belong to
/// numbers: in `1,5;2,5` a comma is no end of a value.
fn delimiter_without_names(path: &Path, text: &str) -> Result<u8, SourceError> {
    let delimiters = delimiters(text);
    let [first, _, ..] = delimiters[..] else { return Ok(delimiter(path, text)) };
    if is_of_tabs(path) {
        return Ok(b'\t');
    }
    let even: Vec<(u8, bool)> = delimiters
        .iter()
        .filter_map(|delimiter| Some((*delimiter, are_others_in_numbers(text, *delimiter, &delimiters)?)))
        .collect();
    let right: Vec<u8> =
        even.iter().filter(|(_, are_numbers)| *are_numbers).map(|(delimiter, _)| *delimiter).collect();
    match (&even[..], &right[..]) {
        ([], _) => Ok(first),
        ([(delimiter, _)], _) | (_, [delimiter]) => Ok(*delimiter),
        _ => {
            let names: Vec<String> = even.iter().map(|(delimiter, _)| shown(*delimiter)).collect();
            let found =
                format!("{} in each row as often, any of which may part the values", names.join(" and "));
            Err(SourceError::content(found, "say which: delimiter: \";\", \",\" or tab"))
        }
    }
}

/// Whether each value that has one of the other delimiters in it is a number. `None`: rows parted by this one are of
/// different lengths, or cannot be read.
fn are_others_in_numbers(text: &str, delimiter: u8, delimiters: &[u8]) -> Option<bool> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let (mut n_columns, mut are_numbers) = (None, true);
    while reader.read_record(&mut record).ok()? {
        let expected = *n_columns.get_or_insert(record.len());
        if is_empty(&record, expected) {
            continue;
        }
        if record.len() != expected {
            return None;
        }
        let has_other =
            |value: &str| value.bytes().any(|byte| byte != delimiter && delimiters.contains(&byte));
        are_numbers &= record.iter().all(|value| !has_other(value) || is_number(value));
    }
    Some(are_numbers)
}

/// Whether it is a number, with a point or a comma before its decimals, also as Fortran writes it (`1.0D-03`).
fn is_number(value: &str) -> bool {
    let value = value.trim().replacen(',', ".", 1);
    value.parse::<f64>().is_ok() || value.replacen(['d', 'D'], "e", 1).parse::<f64>().is_ok()
}

fn is_of_tabs(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tsv" || extension == "tab")
}

/// What may part values and stands in the first line, outside quotes.
fn delimiters(text: &str) -> Vec<u8> {
    let mut is_quoted = false;
    let names =
        text.trim_start_matches(['\r', '\n']).bytes().take_while(|byte| !matches!(byte, b'\r' | b'\n'));
    let outside: Vec<u8> = names
        .filter(|byte| {
            is_quoted ^= *byte == b'"';
            !is_quoted
        })
        .collect();
    DELIMITERS.into_iter().filter(|delimiter| outside.contains(delimiter)).collect()
}

/// A row that people leave empty, with or without separators. Of a table of one column `""` is a value.
fn is_empty(record: &csv::StringRecord, n_columns: usize) -> bool {
    let is_blank = record.iter().all(|value| value.trim().is_empty());
    is_blank && (n_columns > 1 || record.iter().any(|value| !value.is_empty()))
}

/// The line of the record that begins at this byte or after line ends that follow it.
fn line_at(text: &str, byte: usize) -> usize {
    let bytes = text.as_bytes();
    let n_ends =
        bytes[byte.min(bytes.len())..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    line_of(text, byte + n_ends)
}

/// The line that has this byte.
fn line_of(text: &str, byte: usize) -> usize {
    let bytes = text.as_bytes();
    let before = &bytes[..byte.min(bytes.len())];
    let is_end =
        |at: &usize| before[*at] == b'\n' || before[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    1 + (0..before.len()).filter(is_end).count()
}

fn shown(delimiter: u8) -> String {
    match delimiter {
        b'\t' => "tabs".to_owned(),
        b' ' => "blanks".to_owned(),
        other => format!("`{}`", char::from(other)),
    }
}

/// The names of parameters and the places of their columns.
fn choose(
    header: &[String],
    wanted: Option<&[(String, String)]>,
    delimiter: u8,
) -> Result<Vec<(String, usize)>, SourceError> {
    if header.iter().all(String::is_empty) {
        return Err(SourceError::content("a table without columns", "name them in the first line"));
    }
    let repeated = |name: &String| header.iter().filter(|other| *other == name).count() > 1;
    let Some(wanted) = wanted else {
        if let Some(name) = header.iter().find(|name| repeated(name)) {
            let found = format!("two columns of the name {}", quoted(name));
            return Err(SourceError::content(found, "name them differently"));
        }
        return Ok(header.iter().cloned().zip(0..).collect());
    };
    let place = |(name, column): &(String, String)| {
        let place = header.iter().position(|known| known == column).ok_or_else(|| {
            let expected = match nearest(column, header.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("with {} between them the columns are {}", shown(delimiter), header.join(", "))
                }
            };
            SourceError::content(format!("no column {}", quoted(column)), expected)
        })?;
        if repeated(column) {
            let found = format!("two columns of the name {}", quoted(column));
            return Err(SourceError::content(found, "name them differently"));
        }
        Ok((name.clone(), place))
    };
    wanted.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::read_table;
    use crate::job::author::form::CsvForm;

    /// Reads a table: its columns in one line, or the refusal.
    fn read_form(text: &str, form: CsvForm) -> String {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join(&form.file), text).unwrap();
        match read_table(folder.path(), &form) {
            Ok(table) => table
                .iter()
                .map(|(name, values)| format!("{name}={}", values.join("|")))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => format!("{}; {}", error.found(), error.expected()),
        }
    }

    fn read_as(file: &str, text: &str, delimiter: Option<u8>, columns: Option<&[(&str, &str)]>) -> String {
        let columns = columns.map(|columns| {
            columns.iter().map(|(name, column)| ((*name).to_owned(), (*column).to_owned())).collect()
        });
        read_form(text, CsvForm { file: file.to_owned(), columns, header: None, delimiter })
    }

    fn read(file: &str, text: &str) -> String {
        read_as(file, text, None, None)
    }

    #[test]
    fn line_that_names_the_delimiter_may_have_any_line_end() {
        for end in ["\n", "\r", "\r\n"] {
            assert_eq!(read("a.csv", &["sep=;", "x;y,z", "1;2", ""].join(end)), "x=1 y,z=2", "{end:?}");
            let said = read("a.csv", &["sep=;", "x;y", "1", ""].join(end));
            assert!(said.starts_with("a row of 1 in line 3 of the file"), "{end:?}: {said}");
        }
    }

    #[test]
    fn a_quote_that_nothing_ends_is_named_with_its_line() {
        let said = read("a.csv", "x,y\n1,2\n\"open,1\n2,3\n");
        assert!(said.starts_with("a quote that is opened in line 3 of the file and never closed"), "{said}");
        let said = read("a.csv", "x,y\n\"a\nb\"\n");
        assert!(said.starts_with("a row of 1 in line 2"), "{said}");
    }

    #[test]
    fn what_parts_values_is_found_out_or_said() {
        for (file, text) in [
            ("a.csv", "x,y\n1,a;b\n2,c\n"),
            ("a.csv", "sep=;\r\nx;y\r\n1;a;b\r\n"),
            ("a.csv", "x;y\n1;a;b\n"),
        ] {
            assert!(read(file, text).starts_with(if text.contains("x,y") {
                "x=1|2 y=a;b|c"
            } else {
                "a row of 3"
            }));
        }
        for (file, text) in [
            ("a.csv", "x;y\n1,5;a\n2;b\n"),
            ("a.csv", "\"x\";y\n1,5;a\n2;b\n"),
            ("a.csv", "\u{feff}sep=;\nx;y\n1,5;a\n2;b\n"),
            ("a.csv", "\"sep=;\"\r\nx;y\r\n1,5;a\r\n2;b\r\n"),
            ("a.csv", "SEP=\t\nx\ty\n1,5\ta\n2\tb\n"),
            ("a.txt", "x\ty\n1,5\ta\n2\tb\n"),
            ("a.tsv", "x\ty\n1,5\ta\n2\tb\n"),
            ("a.csv", "\"x\",y\n\"1,5\",a\n2,b\n"),
        ] {
            assert_eq!(read(file, text), "x=1,5|2 y=a|b", "{text}");
        }
        assert_eq!(read_as("a.txt", "x|y\n1|2\n", Some(b'|'), None), "x=1 y=2");
        assert_eq!(read_as("a.csv", "a,b;y\n1;2\n", Some(b';'), Some(&[("x", "a,b")])), "x=1");
    }

    #[test]
    fn comments_above_the_table_are_no_rows_and_may_name_the_columns() {
        for text in [
            "# x,y\n1.0,a\n2.0,b\n",
            "#x, y\n1.0,a\n2.0,b\n",
            "# written by numpy\n#\n# x,y\n1.0,a\n2.0,b\n",
            "\u{feff}# x,y\r\n\r\n1.0,a\r\n2.0,b\r\n",
            "# written by hand, twice, today\nx,y\n1.0,a\n2.0,b\n",
            "## x;y\n1.0;a\n2.0;b\n",
            "sep=;\n# x;y\n1.0;a\n2.0;b\n",
        ] {
            assert_eq!(read("a.csv", text), "x=1.0|2.0 y=a|b", "{text}");
        }
        assert_eq!(read("a.csv", "# x;y\n1,5;2,5\n"), "x=1,5 y=2,5");
        assert_eq!(read("a.csv", "# x,y\n 0.1D+01,a\n"), "x= 0.1D+01 y=a");
        assert_eq!(read("a.csv", "x\n#1\n2\n"), "x=#1|2", "below the names it is a value");
        let said = read("a.csv", "# one\n\n# x,y\n1,2\n3\n");
        assert!(said.starts_with("a row of 1 in line 5 of the file; the line of names has 2"), "{said}");
        let said = read("a.csv", "# measured today\n1,2\n");
        assert!(said.starts_with("a row of 2 in line 2 of the file; the line of names has 1"), "{said}");
        let said = read("a.txt", "# bed\nchr1\t1\t2\nchr2\t3\t4\n");
        assert!(said.starts_with("a row of 3 in line 2 of the file; the line of names has 1"), "{said}");
    }

    #[test]
    fn a_line_that_may_be_a_comment_or_not_is_refused() {
        let read = |text: &str, header, columns: Option<&[&str]>| {
            let named = |name: &&str| ((*name).to_owned(), (*name).to_owned());
            let columns = columns.map(|columns| columns.iter().map(named).collect());
            read_form(text, CsvForm { file: "a.csv".into(), columns, header, delimiter: None })
        };
        let refused = |line: usize, text: &str, what: &str| {
            format!(
                "line {line} of the file, `{text}`, which may be a comment or {what}; take the line away if it is a comment, \
                 or its `#` if it is {what}"
            )
        };
        let names = "the line of names";
        assert_eq!(read("# x,y\nu,v\na,b\n", None, None), refused(1, "# x,y", names));
        assert_eq!(read("# raw, y\nx,y\na,b\n", None, Some(&["y"])), refused(1, "# raw, y", names));
        assert_eq!(read("##f\n#C\tR\nchr1\tA\n", None, None), refused(2, "#C\\tR", names));
        assert_eq!(read("# t,s,i\ninf,sus,rec\n1,2,3\n", None, None), refused(1, "# t,s,i", names));
        assert_eq!(read("# x,y\n2020,2021\n1,2\n", Some(true), None), refused(1, "# x,y", names));
        assert_eq!(read("# 5 runs, of ada\n2020\n1\n", Some(true), None), "2020=1");
        // Without a line of names it is a comment or a row.
        assert_eq!(read("# x,y\n1,2\n3,4\n", Some(false), None), "1=1|3 2=2|4");
        assert_eq!(read("# energies\n1.0\n2.0\n", Some(false), None), "1=1.0|2.0");
        assert_eq!(read("#a,1\nb,2\n", Some(false), None), refused(1, "#a,1", "a row"));
        assert_eq!(read("#a,c\nb,d\n", Some(false), None), refused(1, "#a,c", "a row"));
        assert_eq!(read("\"#a\",1\nb,2\n", Some(false), None), "1=#a|b 2=1|2");
        assert!(read("1.0D-03\n2.0D-03\n", None, Some(&["1.0D-03"])).starts_with("the number `1.0D-03`"));
    }

    #[test]
    fn blanks_and_tabs_part_values_where_that_is_said() {
        let read = |text: &str| read_as("a.txt", text, Some(b' '), None);
        for text in ["x y\n1 a\n2 b\n", "  x\t  y \n 1    a\n\n 2\tb  \r\n", "# x y\n1 a\n2 b\n"] {
            assert_eq!(read(text), "x=1|2 y=a|b", "{text}");
        }
        assert_eq!(read("x y\n\"1  2\"  3\n"), "x=1  2 y=3");
        assert_eq!(read("# disk 5\" wide\nx y\n\"a  b\" 2\n\"c  d\" \"e  f\"\n"), "x=a  b|c  d y=2|e  f");
        assert_eq!(read("x y\n5\"  \"a  b\"\n"), "x=5\" y=a  b");
        assert_eq!(read("x   y\n1   5\"\n2   6\"\n"), "x=1|2 y=5\"|6\"");
        assert_eq!(read("x y\n\"say \"\"a  b\"\"\"   c\n"), "x=say \"a  b\" y=c");
        assert_eq!(read("# a disk of 5\"\nx   y\n1   2\n3 4"), "x=1|3 y=2|4");
        let said = read("# day name\n2024-01-01 a\n");
        assert!(said.starts_with("line 1 of the file, `# day name`, which may be a comment"), "{said}");
        for (text, expected) in [
            ("sep= \nxx y\n1 2\n", "xx=1 y=2"),
            ("sep= \näx y\n1 2\n", "äx=1 y=2"),
            ("sep=\t\nx y\n123 4\n", "x=123 y=4"),
            ("sep= \r\n# x y\r\n1  2\r\n", "x=1 y=2"),
        ] {
            assert_eq!(read(text), expected, "{text}");
            let found = read_as("a.txt", text, Some(b' ').filter(|_| text.contains('\t')), None);
            assert_eq!(found, expected, "{text}");
        }
        assert!(read("sep= \n ").starts_with("a table without"));
        let said = read("x y\n\n1  2  3\n");
        assert_eq!(
            said,
            "a row of 3 in line 3 of the file; the line of names has 2 columns, with blanks between them"
        );
    }

    #[test]
    fn columns_can_have_other_names_in_the_table() {
        let text = "Temp (K),index,p\n300,7,1\n310,8,2\n";
        let columns = [("t", "Temp (K)"), ("n", "index")];
        assert_eq!(read_as("a.csv", text, None, Some(&columns)), "t=300|310 n=7|8");
        let said = read_as("a.csv", text, None, Some(&[("t", "Temp(K)")]));
        assert_eq!(said, "no column `Temp(K)`; did you mean `Temp (K)`?");
        let said = read_as("a.csv", "x,x,y\n1,2,3\n", None, Some(&[("y", "y")]));
        assert_eq!(said, "y=3");
    }

    #[test]
    fn first_row_of_numbers_is_never_lost() {
        let read = |text: &str, header, columns: Option<&[(&str, &str)]>| {
            let folder = TempDir::new().unwrap();
            std::fs::write(folder.path().join("a.csv"), text).unwrap();
            let named = |(name, column): &(&str, &str)| ((*name).to_owned(), (*column).to_owned());
            let columns = columns.map(|columns| columns.iter().map(named).collect());
            let form = CsvForm { file: "a.csv".into(), columns, header, delimiter: None };
            let shown = |table: Vec<(String, Vec<String>)>| {
                let columns = table.iter().map(|(name, values)| format!("{name}={}", values.join("|")));
                columns.collect::<Vec<_>>().join(" ")
            };
            read_table(folder.path(), &form).map(shown).map_err(|error| error.found().to_owned())
        };
        let refused =
            |name: &str| Err(format!("the number `{name}` in the first line, which names the columns"));
        assert_eq!(read("1,2\n3,4\n", None, None), refused("1"));
        assert_eq!(read("1,2\n3,4\n", None, Some(&[("t", "2")])), refused("2"));
        assert_eq!(read("a,1e-3\nb,2\n", None, None), refused("1e-3"));
        assert_eq!(read("1\n2\n", None, None), refused("1"));
        assert_eq!(read("name,2020\na,4\n", None, Some(&[("name", "name")])), Ok("name=a".into()));
        assert_eq!(read("7,8\n3, 4\n", Some(false), None), Ok("1=7|3 2=8| 4".into()));
        assert_eq!(read(" 7 ,8\n3,4\n", Some(false), Some(&[("t", "1")])), Ok("t= 7 |3".into()));
        assert_eq!(read("2020,2021\n3,4\n", Some(true), None), Ok("2020=3 2021=4".into()));
        assert_eq!(read("x,y\n3,4\n", Some(false), None), Ok("1=x|3 2=y|4".into()));
    }

    #[test]
    fn decimal_commas_part_no_values_where_semicolons_do() {
        let read = |text: &str, delimiter| {
            read_form(text, CsvForm { file: "a.csv".into(), columns: None, header: Some(false), delimiter })
        };
        assert_eq!(read("1,5;2,5\n3,5;4,5\n", None), "1=1,5|3,5 2=2,5|4,5");
        assert_eq!(read("a;-1,5e3\n\nb;2,5\n", None), "1=a|b 2=-1,5e3|2,5");
        assert_eq!(read("1,5;2\n3;4,5\n", None), "1=1,5|3 2=2|4,5");
        assert_eq!(read("1,5;2\n3;4\n", None), "1=1,5|3 2=2|4", "commas are not in each row");
        assert_eq!(read("1,5\t2,5\n3,5\t4,5\n", None), "1=1,5|3,5 2=2,5|4,5");
        assert_eq!(read("1,a;b\n2,c\n", None), "1=1|2 2=a;b|c");
        assert_eq!(read("1.5,2\n3,4\n", None), "1=1.5|3 2=2|4");
        assert_eq!(
            read("a,b;c\nd,e;f\n", None),
            "`,` and `;` in each row as often, any of which may part the values; say which: delimiter: \";\", \",\" or tab"
        );
        assert_eq!(read("a,b;c\nd,e;f\n", Some(b',')), "1=a|d 2=b;c|e;f");
        assert!(read("1,5;2\n3;4;5\n", None).starts_with("a row of"));
    }

    #[test]
    fn empty_rows_are_no_rows() {
        assert_eq!(read("a.csv", "\n\nx,y\n1,2\n,\n\n  \n , \n3,4\n\n"), "x=1|3 y=2|4");
        assert_eq!(read("a.csv", "x\n1\n\"\"\n  \n2\n"), "x=1||2");
        assert_eq!(read("a.csv", "x,y\n1,\n"), "x=1 y=");
        assert!(read("a.csv", "x;y\n;\n").starts_with("a table without rows"));
    }

    #[test]
    fn one_column_is_no_plural() {
        let said = read_as("a.csv", "x,y\n1;2\n", Some(b';'), None);
        assert_eq!(
            said,
            "a row of 2 in line 2 of the file; the line of names has 1 column, with `;` between them"
        );
    }

    #[test]
    fn quote_that_is_never_closed_is_refused_with_the_line_that_opens_it() {
        let help = "; close it; a quote that belongs to a value is doubled, within quotes";
        for (text, line) in [
            ("a,b\n1,x\n2,\"y\n3,z\n4,w\n", 3),
            ("a,b\r\n1,x\r\n\r\n2,\"y\r\n3,z\r\n", 4),
            ("a,\"b\n1,x\n", 1),
            ("a\n\"1\"\n\"2\"\"\n3\n", 3),
            ("sep=;\na;b\n1;\"x\n2;y\n", 3),
            ("a,b\n1,\"", 2),
        ] {
            let expected =
                format!("a quote that is opened in line {line} of the file and never closed{help}");
            assert_eq!(read("a.csv", text), expected, "{text:?}");
        }
        // The next value's quotes seem to close it.
        let said = read("a.csv", "a,b\n2,\"y\n3,z\n4,\"w\"\n");
        let expected = "text after a closing quote in line 4 of the file; the quote was opened in line 2";
        assert_eq!(said, format!("{expected}{help}"));
        // A quote after the end of a quoted value opens nothing.
        for text in ["x,y\n\"a\" \"b,\",3\n4,5\n6,7\n", "x,y\n\"a\"\t \"b\",3\n", "x,y\n\"a\" b,3\n"] {
            let expected = "text after a closing quote in line 2 of the file; the quote was opened in line 2";
            assert_eq!(read("a.csv", text), format!("{expected}{help}"), "{text:?}");
        }
        // Quotes that stand for themselves, several lines in one value, and a blank after the closing quote.
        assert_eq!(read("a.csv", "a,b\n1,5\" disk\n2,\"say \"\"x\"\"\"\n"), "a=1|2 b=5\" disk|say \"x\"");
        assert_eq!(read("a.csv", "a,b\n\"1\n2\",\"\"\n\"3\" ,4\n"), "a=1\n2|3  b=|4");
    }

    #[test]
    fn rows_of_another_length_are_told_with_their_line() {
        for end in ["\n", "\r\n", "\r"] {
            let said = read("a.csv", &["x,y", "1,2", "", "3,\"a", "b\"", "4,5,6", "7,8", ""].join(end));
            let expected =
                "a row of 3 in line 6 of the file; the line of names has 2 columns, with `,` between them";
            assert_eq!(said, expected, "{end:?}");
            if end != "\r" {
                let said = read("a.csv", &["sep=;", "x;y", "1;2", "4", ""].join(end));
                assert!(said.starts_with("a row of 1 in line 4 of the file"), "{said}");
            }
        }
    }
}
