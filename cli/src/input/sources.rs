//! Values on the command line: `:::`, `::::`, `--each-line`, `--array`.

use std::{fs, io, io::Read, path::Path};

use protocol::{
    job::{Problem, limits, unreadable},
    sweep::{Column, Dimension, Values, parse_array},
};

use crate::show::format::counted;

/// The parameter of `--each-line`.
pub const LINE: &str = "line";
/// The parameter of `--array`.
pub const ARRAY: &str = "array";

/// A list of values as it stands behind the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceArg {
    /// Whether it advances together with the one before: `:::+`.
    pub is_linked: bool,
    /// The values.
    pub values: SourceValues,
}

/// Where the values of a `:::` come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceValues {
    /// The words behind `:::`.
    Words(Vec<String>),
    /// The lines of the file behind `::::`.
    File(String),
}

/// All values of a command: dimensions of a sweep, whose columns are the sources in order.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The sweep's dimensions.
    pub dimensions: Vec<Dimension>,
    /// Whether a command that mentions none of them gets them as arguments: not for an array alone,
    /// which people use to repeat a command.
    pub are_appended: bool,
}

impl Sources {
    /// Reads all sources. `:::` sources are named by their number among all.
    ///
    /// # Errors
    /// A file that cannot be read, ranges that are none, a link to nothing or of unequal length.
    pub fn read(
        each_line: Option<&Path>,
        array: Option<&str>,
        lists: Vec<SourceArg>,
    ) -> Result<Sources, Problem> {
        let mut sources =
            Sources { dimensions: Vec::new(), are_appended: each_line.is_some() || !lists.is_empty() };
        if let Some(path) = each_line {
            sources.dimensions.push(Dimension::texts(LINE, read_lines("--each-line", path)?));
        }
        if let Some(text) = array {
            sources.dimensions.push(parse_array(ARRAY, text)?);
        }
        for list in lists {
            sources.add(list)?;
        }
        Ok(sources)
    }

    /// The parameters' names, in order.
    pub fn names(&self) -> Vec<String> {
        let columns = self.dimensions.iter().flat_map(|dimension| &dimension.columns);
        columns.map(|column| column.name.clone()).collect()
    }

    /// Puts a parameter beside another one, with which it advances.
    pub fn put_beside(&mut self, neighbour: &str, column: Column) {
        let has_it = |dimension: &&mut Dimension| dimension.columns.iter().any(|c| c.name == neighbour);
        if let Some(dimension) = self.dimensions.iter_mut().find(has_it) {
            dimension.columns.push(column);
        }
    }

    fn add(&mut self, list: SourceArg) -> Result<(), Problem> {
        let number = self.names().len() + 1;
        let values = match list.values {
            SourceValues::Words(words) => words,
            SourceValues::File(file) => read_lines("", Path::new(&file))?,
        };
        let n_values = values.len() as u64;
        let column = Column { name: number.to_string(), values: Values::Texts(values.into()) };
        if !list.is_linked {
            self.dimensions.push(Dimension { columns: vec![column] });
            return Ok(());
        }
        let Some(dimension) = self.dimensions.last_mut() else {
            return Err(Problem::new(
                "",
                "nothing before `:::+`",
                "the first list of values begins with `:::`",
            ));
        };
        if dimension.len() != n_values {
            return Err(Problem::new(
                "",
                format!("{} after `:::+`, linked to {}", counted(n_values, "value"), dimension.len()),
                "linked lists must be equally long",
            ));
        }
        dimension.columns.push(column);
        Ok(())
    }
}

/// The lines of a file that are not empty; `-` is standard input.
fn read_lines(flag: &str, path: &Path) -> Result<Vec<String>, Problem> {
    let shown = path.display();
    let read = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().take(limits::DATA_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::File::open(path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(limits::DATA_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    let bytes = read.map_err(|error| {
        let why = unreadable(path, &error);
        match flag {
            "" => why,
            flag => Problem { file: None, path: format!("{flag}: {shown}"), ..why },
        }
    })?;
    if bytes.len() as u64 > limits::DATA_FILE_BYTES_MAX {
        let expected =
            format!("at most {} bytes are read; use ranges, or split it", limits::DATA_FILE_BYTES_MAX);
        return Err(Problem::new(flag, format!("`{shown}`, a larger file"), expected));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Problem::new(flag, format!("bytes in `{shown}` that are not UTF-8"), "save it as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines: Vec<String> =
        text.split(['\n', '\r']).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(Problem::new(flag, format!("no line in `{shown}`"), "give at least one value"));
    }
    Ok(lines)
}
