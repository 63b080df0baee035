//! JSON Lines: an object a row; what is missing is null.

use std::io::{self, Write};

use serde_json::{Map, Number, Value as Json};

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
        let fields = self.names.iter().cloned().zip(values.into_iter().map(json));
        let object: Map<String, Json> = fields.collect();
        serde_json::to_writer(&mut self.to, &object)?;
        self.to.write_all(b"\n")
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.to.flush()
    }
}

fn json(value: Value) -> Json {
    match value {
        Value::Missing => Json::Null,
        Value::Integer(number) => number.into(),
        Value::Float(number) => Number::from_f64(number).map_or(Json::Null, Json::Number),
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
