//! Parquet: typed columns, written in groups of rows; what is missing is null.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parquet::{
    basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical},
    column::writer::ColumnWriter,
    data_type::ByteArray,
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::{Type, TypePtr},
};

use crate::{
    commands::export::{
        RowWriter,
        columns::{Column, Columns, Kind, Value},
    },
    show::format::rfc3339,
};

/// Rows of a group: they are held in memory until it is written.
const GROUP_ROWS: usize = 50_000;

/// Writes Parquet.
pub struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    kinds: Vec<Kind>,
    /// Column by column: the values of the rows of the present group.
    held: Vec<Vec<Value>>,
    n_held: usize,
}

impl<W: Write + Send> ParquetFile<W> {
    /// Writes the schema.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(columns: &Columns, to: W) -> io::Result<ParquetFile<W>> {
        let fields: Vec<TypePtr> = columns
            .all()
            .iter()
            .map(|column| field(column).map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(into_io)?;
        let schema = Type::group_type_builder("tasks").with_fields(fields).build().map_err(into_io)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer =
            SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties)).map_err(into_io)?;
        let kinds: Vec<Kind> = columns.all().iter().map(|column| column.kind).collect();
        Ok(ParquetFile { writer, held: vec![Vec::new(); kinds.len()], kinds, n_held: 0 })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut columns = self.kinds.iter().zip(&mut self.held);
        while let Some(mut column) = group.next_column()? {
            let Some((kind, held)) = columns.next() else { break };
            let values = std::mem::take(held);
            write_column(column.untyped(), *kind, values)?;
            column.close()?;
        }
        group.close()?;
        self.n_held = 0;
        Ok(())
    }
}

impl<W: Write + Send> RowWriter for ParquetFile<W> {
    fn row(&mut self, values: Vec<Value>) -> io::Result<()> {
        for (held, value) in self.held.iter_mut().zip(values) {
            held.push(value);
        }
        self.n_held += 1;
        if self.n_held >= GROUP_ROWS {
            self.write_group().map_err(into_io)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        if self.n_held > 0 {
            self.write_group().map_err(into_io)?;
        }
        self.writer.finish().map_err(into_io)?;
        self.writer.inner_mut().flush()
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.kind {
        Kind::Integer | Kind::Long => (Physical::INT64, None),
        Kind::Float => (Physical::DOUBLE, None),
        Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        Kind::Text | Kind::Loose => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

fn write_column(writer: &mut ColumnWriter<'_>, kind: Kind, values: Vec<Value>) -> Result<(), ParquetError> {
    // 1: there is a value; 0: it is missing.
    let mut levels = Vec::with_capacity(values.len());
    let mut take = |is_there: bool| levels.push(i16::from(is_there));
    match writer {
        ColumnWriter::Int64ColumnWriter(writer) => {
            let numbers: Vec<i64> = keep(values, integer, &mut take);
            writer.write_batch(&numbers, Some(&levels), None)?;
        }
        ColumnWriter::DoubleColumnWriter(writer) => {
            let numbers: Vec<f64> = keep(values, float, &mut take);
            writer.write_batch(&numbers, Some(&levels), None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let texts: Vec<ByteArray> = keep(values, text, &mut take);
            writer.write_batch(&texts, Some(&levels), None)?;
        }
        _ => return Err(ParquetError::General(format!("no writer for a column of {kind:?}"))),
    }
    Ok(())
}

fn keep<T>(values: Vec<Value>, as_type: fn(Value) -> Option<T>, take: &mut impl FnMut(bool)) -> Vec<T> {
    let mut kept = Vec::with_capacity(values.len());
    for value in values {
        let typed = as_type(value);
        take(typed.is_some());
        kept.extend(typed);
    }
    kept
}

fn integer(value: Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(number),
        Value::Time(time) => i64::try_from(time.0).ok(),
        Value::Missing | Value::Float(_) | Value::Written { .. } | Value::Text(_) => None,
    }
}

fn float(value: Value) -> Option<f64> {
    match value {
        Value::Float(number) | Value::Written { number, .. } => Some(number),
        Value::Integer(number) => Some(number as f64),
        Value::Missing | Value::Time(_) | Value::Text(_) => None,
    }
}

fn text(value: Value) -> Option<ByteArray> {
    let text = match value {
        Value::Missing => return None,
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Time(time) => rfc3339(time),
        Value::Written { text, .. } | Value::Text(text) => text,
    };
    Some(ByteArray::from(text.into_bytes()))
}

/// Keeps what is behind a broken pipe or a full disk.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::Field,
    };

    use super::ParquetFile;
    use crate::commands::export::{
        RowWriter,
        columns::{Columns, Settling, tests as columns},
    };

    /// The rows of a file with these values of `affinity`.
    fn rows_read_back(values: &[Option<&str>]) -> Vec<Vec<(String, Field)>> {
        let mut of_job = Columns::of(&columns::job());
        for value in values {
            of_job.learn(&columns::row(0, *value));
        }
        of_job.settle(Settling::Narrow);
        let file = tempfile::tempfile().unwrap();
        let mut writer = Box::new(ParquetFile::new(&of_job, file.try_clone().unwrap()).unwrap());
        for (n, value) in values.iter().enumerate() {
            writer.row(of_job.values(columns::row(n as u64, *value))).unwrap();
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns()).collect()
    }

    #[test]
    fn what_is_written_is_read_back_with_its_types() {
        let rows = rows_read_back(&[Some("-7.2"), None]);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1][0], ("index".to_owned(), Field::Long(1)));
        assert_eq!(rows[0][5].1, Field::TimestampMicros(1_700_000_000_250_000));
        assert_eq!(rows[0][9].1, Field::Null);
        assert_eq!((&rows[0][11].1, &rows[0][13].1), (&Field::Double(0.5), &Field::Double(-7.2)));
        assert!(matches!(&rows[0][12].1, Field::Str(text) if text == "a,b"));
        assert_eq!(rows[1][13].1, Field::Null);
    }

    #[test]
    fn numbers_that_are_not_finite_and_those_of_fortran_are_numbers() {
        let rows = rows_read_back(&[Some("1.5"), Some("nan"), Some("-inf"), Some("1.0D-03")]);
        let numbers: Vec<f64> = rows
            .iter()
            .map(|row| match row[13].1 {
                Field::Double(number) => number,
                ref other => panic!("no number: {other:?}"),
            })
            .collect();
        assert!(numbers[1].is_nan(), "{numbers:?}");
        assert_eq!([numbers[0], numbers[2], numbers[3]], [1.5, f64::NEG_INFINITY, 0.001]);
    }

    #[test]
    fn whole_numbers_beside_others_are_not_rounded() {
        let long = "9007199254740993";
        let rows = rows_read_back(&[Some("nan"), Some("1"), Some(long)]);
        let texts: Vec<String> = rows.iter().map(|row| row[13].1.to_string()).collect();
        assert_eq!(texts, ["\"nan\"", "\"1\"", "\"9007199254740993\""]);
        let rows = rows_read_back(&[Some("1"), Some(long)]);
        assert_eq!(rows[1][13].1, Field::Long(9_007_199_254_740_993));
    }
}
