//! JSON Lines: an object a row; what is missing is null, and so is NaN, which JSON has no form for. An infinite
//! number is `1e999`: right JSON that pandas, DuckDB and Python read as infinite.

use std::io::{self, Write};

use serde_json::{Number, Value as Json};

use crate::{
    commands::export::{
        RowWriter,
        columns::{Columns, Value},
    },
    show::format::rfc3339,
};

/// Writes JSON Lines.
pub struct JsonLines<W: Write> {
    names: Vec<String>,
    to: W,
}

impl<W: Write> JsonLines<W> {
    /// Writes nothing yet.
    pub fn new(columns: &Columns, to: W) -> JsonLines<W> {
        JsonLines { names: columns.all().iter().map(|column| column.name.clone()).collect(), to }
    }
}

impl<W: Write> RowWriter for JsonLines<W> {
    fn row(&mut self, values: Vec<Value>) -> io::Result<()> {
        for (n, (name, value)) in self.names.iter().zip(values).enumerate() {
            self.to.write_all(if n == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut self.to, name)?;
            self.to.write_all(b":")?;
            match value {
                // As it was written, which a number that was read would not keep.
                Value::Written { text, .. } if is_json(&text) => self.to.write_all(text.as_bytes())?,
                Value::Written { number: f64::INFINITY, .. } => self.to.write_all(b"1e999")?,
                Value::Written { number: f64::NEG_INFINITY, .. } => self.to.write_all(b"-1e999")?,
                value => serde_json::to_writer(&mut self.to, &json(value))?,
            }
        }
        self.to.write_all(b"}\n")
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.to.flush()
    }
}

/// Whether this way of writing a number is JSON's too: `.5` and `5.` are not.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<Number>(text).is_ok()
}

fn json(value: Value) -> Json {
    match value {
        Value::Missing => Json::Null,
        Value::Integer(number) => number.into(),
        Value::Float(number) | Value::Written { number, .. } => {
            Number::from_f64(number).map_or(Json::Null, Json::Number)
        }
        Value::Time(time) => rfc3339(time).into(),
        Value::Text(text) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::JsonLines;
    use crate::commands::export::{
        RowWriter,
        columns::{Columns, tests as columns},
    };

    #[test]
    fn numbers_are_shown_as_they_were_written_where_json_has_the_form() {
        let shown = |text: &str| {
            let of_job = Columns::of(&columns::job());
            let mut written = Vec::new();
            let mut file = Box::new(JsonLines::new(&of_job, &mut written));
            file.row(of_job.values(columns::row(0, Some(text)))).unwrap();
            file.finish().unwrap();
            String::from_utf8(written).unwrap().rsplit_once(':').unwrap().1.trim_end_matches("}\n").to_owned()
        };
        let texts = ["4.04e-161", "1e5", "1.10", "-7.0", ".5", "007", "1.0D-03", "+1.5"].map(shown);
        assert_eq!(texts, ["4.04e-161", "1e5", "1.10", "-7.0", "0.5", "\"007\"", "0.001", "1.5"]);
        assert_eq!(["nan", "-inf", "Infinity"].map(shown), ["null", "-1e999", "1e999"]);
    }

    #[test]
    fn fields_keep_their_order_and_types() {
        let of_job = Columns::of(&columns::job());
        let mut written = Vec::new();
        let mut file = Box::new(JsonLines::new(&of_job, &mut written));
        file.row(of_job.values(columns::row(0, None))).unwrap();
        file.finish().unwrap();
        let expected = concat!(
            r#"{"index":0,"state":"done","exit_code":0,"attempt":1,"pilot":2,"started":"2023-11-14T22:13:20.250000Z","#,
            r#""duration_s":1.5,"cpu_s":1.25,"memory_bytes":4096,"failure":null,"seed":1,"box":0.5,"#,
            r#""parameter.state":"a,b","affinity":null}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
