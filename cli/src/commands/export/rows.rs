//! The rows of an export, from the manager to the writer. Types of columns are those of the values that are written: the
//! rows of a job that runs change while they are read.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, Write},
};

use protocol::api::{TaskRow, Tasks};

use super::{
    Format, RowWriter,
    columns::{Columns, Settling},
    csv_file::CsvFile,
    json_lines::JsonLines,
    parquet_file::ParquetFile,
};
use crate::failure::Failure;

/// How often the rows are written anew because a value did not fit its column. Columns that then still change become texts,
/// which take all values: the next pass of a column is its last.
const N_ANEW_MAX: u32 = 3;

/// Where rows come from.
pub(super) trait Source {
    /// The rows from this index on, as many as a page has.
    async fn page(&self, from: u64) -> Result<Tasks, Failure>;
}

/// How rows are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub format: Format,
    pub is_for_spreadsheets: bool,
}

impl Form {
    fn writer<'w>(
        self,
        columns: &Columns,
        to: impl Write + Send + 'w,
    ) -> io::Result<Box<dyn RowWriter + 'w>> {
        let to = BufWriter::new(to);
        Ok(match self.format {
            Format::Csv => Box::new(CsvFile::new(columns, to, self.is_for_spreadsheets)?),
            Format::Jsonl => Box::new(JsonLines::new(columns, to)),
            Format::Parquet => Box::new(ParquetFile::new(columns, to)?),
        })
    }
}

/// Whether only the values tell how they are to be written.
pub(super) fn is_to_be_learned(columns: &Columns, form: Form) -> bool {
    form.format != Format::Csv && columns.has_extracts()
}

/// Writes all rows in one go; gives their number. O(rows).
///
/// # Errors
/// They cannot be read or written.
pub(super) async fn write(
    source: &impl Source,
    columns: &Columns,
    form: Form,
    to: impl Write + Send,
) -> Result<u64, Failure> {
    let mut writer = form.writer(columns, to)?;
    let mut n_rows = 0;
    each(source, |row| {
        n_rows += 1;
        Ok(writer.row(columns.values(row))?)
    })
    .await?;
    writer.finish()?;
    Ok(n_rows)
}

/// Writes all rows with the types that hold all their values, into a file that is begun anew if one does not fit; gives
/// their number. O(rows), twice as a rule.
///
/// # Errors
/// They cannot be read or written.
pub(super) async fn write_learned(
    source: &impl Source,
    columns: &mut Columns,
    form: Form,
    mut file: &File,
) -> Result<u64, Failure> {
    each(source, |row| {
        columns.learn(&row);
        Ok(())
    })
    .await?;
    let mut n_anew = 0;
    loop {
        columns.settle(if n_anew < N_ANEW_MAX { Settling::Narrow } else { Settling::AsTexts });
        file.rewind()?;
        file.set_len(0)?;
        let mut writer = form.writer(columns, file)?;
        let (mut n_rows, mut fits) = (0, true);
        each(source, |row| {
            // Once one does not fit, the others are only looked at, so that the next pass knows them.
            fits &= columns.learn(&row);
            n_rows += 1;
            if fits { Ok(writer.row(columns.values(row))?) } else { Ok(()) }
        })
        .await?;
        if fits {
            writer.finish()?;
            return Ok(n_rows);
        }
        n_anew += 1;
    }
}

/// Hands rows over one by one, in order, page by page.
async fn each(
    source: &impl Source,
    mut take: impl FnMut(TaskRow) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut from = 0;
    loop {
        let answer = source.page(from).await?;
        for row in answer.tasks {
            take(row)?;
        }
        match answer.next {
            Some(next) if next > from => from = next,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        io::{Read, Seek},
    };

    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::Field,
    };
    use protocol::api::Tasks;

    use super::{Form, Format, Source, write_learned};
    use crate::{
        commands::export::columns::{Columns, tests as columns},
        failure::Failure,
    };

    /// A job that runs: each pass over its rows finds other values; the last ones stay.
    struct Running {
        passes: &'static [&'static [Option<&'static str>]],
        n_begun: Cell<usize>,
    }

    impl Source for Running {
        /// A row a page.
        async fn page(&self, from: u64) -> Result<Tasks, Failure> {
            if from == 0 {
                self.n_begun.set(self.n_begun.get() + 1);
            }
            let values = self.passes[self.n_begun.get().min(self.passes.len()) - 1];
            let rows = values.get(from as usize).map(|value| columns::row(from, *value));
            let next = (from + 1 < values.len() as u64).then_some(from + 1);
            Ok(Tasks { tasks: rows.into_iter().collect(), next })
        }
    }

    /// What is written of it, and how many passes it took.
    async fn written(
        format: Format,
        passes: &'static [&'static [Option<&'static str>]],
    ) -> (std::fs::File, u64, usize) {
        let source = Running { passes, n_begun: Cell::new(0) };
        let mut file = tempfile::tempfile().unwrap();
        let form = Form { format, is_for_spreadsheets: false };
        let mut of_job = Columns::of(&columns::job());
        let n_rows = write_learned(&source, &mut of_job, form, &file).await.unwrap();
        file.rewind().unwrap();
        (file, n_rows, source.n_begun.get())
    }

    async fn json_lines(passes: &'static [&'static [Option<&'static str>]]) -> (Vec<String>, usize) {
        let (mut file, n_rows, n_begun) = written(Format::Jsonl, passes).await;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let last = |line: &str| line.rsplit_once("\"affinity\":").unwrap().1.trim_end_matches('}').to_owned();
        assert_eq!(text.lines().count() as u64, n_rows);
        (text.lines().map(last).collect(), n_begun)
    }

    #[tokio::test]
    async fn value_that_comes_after_the_types_were_learned_is_written() {
        let (values, n_begun) = json_lines(&[&[Some("1"), None], &[Some("1"), Some("x")]]).await;
        assert_eq!((values, n_begun), (vec!["\"1\"".to_owned(), "\"x\"".to_owned()], 3));
        let (values, n_begun) = json_lines(&[&[Some("1"), None], &[Some("1"), Some("2.5")]]).await;
        assert_eq!((values, n_begun), (vec!["1".to_owned(), "2.5".to_owned()], 3));
        let (values, n_begun) = json_lines(&[&[None, None], &[Some("1"), Some("2")]]).await;
        assert_eq!((values, n_begun), (vec!["1".to_owned(), "2".to_owned()], 3));
        let (values, n_begun) = json_lines(&[&[Some("1")], &[Some("1"), Some("2")]]).await;
        assert_eq!((values, n_begun), (vec!["1".to_owned(), "2".to_owned()], 2), "it fits");
    }

    #[tokio::test]
    async fn parquet_has_values_that_come_after_the_types_were_learned() {
        let passes: &[&[Option<&str>]] = &[
            &[Some("1"), None, None],
            &[Some("1"), Some("2.5"), None],
            &[Some("1"), Some("2.5"), Some("x")],
        ];
        let (file, n_rows, n_begun) = written(Format::Parquet, passes).await;
        assert_eq!((n_rows, n_begun), (3, 4));
        let reader = SerializedFileReader::new(file).unwrap();
        let fields: Vec<Field> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().into_columns().swap_remove(13).1)
            .collect();
        assert_eq!(fields, ["1", "2.5", "x"].map(|text| Field::Str(text.to_owned())));
    }

    #[tokio::test]
    async fn column_that_goes_on_changing_becomes_one_of_texts() {
        let (values, n_begun) = json_lines(&[
            &[None],
            &[Some("1")],
            &[Some("1.5")],
            &[Some("9007199254740993")],
            &[Some("x"), Some("2")],
        ])
        .await;
        assert_eq!((values, n_begun), (vec!["\"x\"".to_owned(), "\"2\"".to_owned()], 5));
    }
}
