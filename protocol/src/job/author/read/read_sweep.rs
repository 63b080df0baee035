//! From YAML values to the form of a sweep.

use serde_yaml::Value;

use crate::job::author::form::{CsvForm, NamedSource, Points, SampleForm, Source, SweepEntry, SweepForm};
use crate::job::author::read::{Node, Reader};
use crate::problem::quoted;

const SOURCE_EXPECTED: &str = "write a list like [a, b], {files: \"*.txt\"}, {range: [1, 10]}, \
                               {linspace: [0.0, 1.0, 11]} or {lines: file.txt}";
const RANGE_EXPECTED: &str = "write [from, to] or [from, to, step]";
const LINSPACE_EXPECTED: &str = "write [from, to, how many]";

impl Reader<'_> {
    pub(in crate::job::author) fn sweep(&mut self, node: &Node<'_>) -> Option<SweepForm> {
        let entries = self.entries(node, "write parameters like {seed: {range: [1, 10]}}")?;
        let mut sweep = SweepForm::default();
        for (name, node) in entries {
            match name.as_str() {
                "zip" => sweep.entries.extend(self.zips(&node)),
                "csv" => sweep.entries.extend(self.csvs(&node)),
                "sample" => sweep.sample = self.sample(&node),
                _ => sweep.entries.push(SweepEntry::Parameter(self.named_source(name, &node))),
            }
        }
        Some(sweep)
    }

    fn named_source(&mut self, name: String, node: &Node<'_>) -> NamedSource {
        NamedSource { name, path: node.path.clone(), source: self.source(node) }
    }

    fn source(&mut self, node: &Node<'_>) -> Option<Source> {
        let known = ["list", "files", "range", "linspace", "lines"];
        match node.value {
            Value::Sequence(_) => return self.list(node),
            Value::Mapping(mapping) if mapping.len() == 1 => {}
            Value::Mapping(mapping) => {
                let names = mapping.keys().filter_map(Value::as_str).filter(|name| known.contains(name));
                let names: Vec<String> = names.map(quoted).collect();
                return match names.len() {
                    0 | 1 => self.refuse(node, SOURCE_EXPECTED),
                    _ => {
                        let found = format!("{} of one parameter", names.join(" and "));
                        self.report(
                            &node.path,
                            found,
                            "a parameter has its values from one of them: keep that one",
                        )
                    }
                };
            }
            _ => return self.refuse(node, SOURCE_EXPECTED),
        }
        let mut fields = self.fields(node, &known, SOURCE_EXPECTED)?;
        if let Some(list) = fields.take("list") {
            return self.list(&list);
        }
        if let Some(files) = fields.take("files") {
            if files.value.is_sequence() {
                return self.refuse(
                    &files,
                    "write one pattern, like {files: \"in/*.txt\"}; a list stands alone: [a, b]",
                );
            }
            return self.text(&files).map(Source::Files);
        }
        if let Some(range) = fields.take("range") {
            return self.range(&range);
        }
        if let Some(linspace) = fields.take("linspace") {
            return self.linspace(&linspace);
        }
        // Nothing at all: the unknown field has been reported.
        let lines = fields.take("lines")?;
        self.text(&lines).map(Source::Lines)
    }

    fn list(&mut self, node: &Node<'_>) -> Option<Source> {
        let texts = self.values(node, "write a list like [a, b]")?;
        if texts.is_empty() {
            return self.refuse(node, "give at least one value, or leave the parameter out");
        }
        Some(Source::List(texts))
    }

    fn range(&mut self, node: &Node<'_>) -> Option<Source> {
        let items = self.items(node, RANGE_EXPECTED)?;
        if items.len() != 2 && items.len() != 3 {
            let found = format!("a list of {}", items.len());
            return self.report(&node.path, found, RANGE_EXPECTED);
        }
        let mut numbers = Vec::new();
        for item in &items {
            if item.value.as_f64().is_some() && item.value.as_i64().is_none() {
                let expected = "a range counts in whole numbers below 2^63; for fractions use linspace";
                self.refuse::<()>(item, expected);
            } else if let Some(number) = self.integer(item, (i128::MIN, i128::MAX)) {
                numbers.push(number);
            }
        }
        let (from, to, step) = match numbers[..] {
            [from, to] if items.len() == 2 => (from, to, 1),
            [from, to, step] => (from, to, step),
            _ => return None,
        };
        if step == 0 {
            return self.report(&node.path, "step 0", "the step must not be 0");
        }
        if (step > 0 && from > to) || (step < 0 && from < to) {
            let found = format!("no number from {from} to {to} in steps of {step}");
            let other = if step > 0 { "-1" } else { "1" };
            return self.report(&node.path, found, format!("swap the ends, or give a step like {other}"));
        }
        Some(Source::Range(numbers))
    }

    fn linspace(&mut self, node: &Node<'_>) -> Option<Source> {
        let items = self.items(node, LINSPACE_EXPECTED)?;
        let [from, to, n] = &items[..] else {
            let found = format!("a list of {}", items.len());
            return self.report(&node.path, found, LINSPACE_EXPECTED);
        };
        let (from, to) = (self.number(from), self.number(to));
        let n = self.integer(n, (1, i128::from(u64::MAX)));
        Some(Source::Linspace(Points { from: from?, to: to?, n: n? }))
    }

    fn zips(&mut self, node: &Node<'_>) -> Vec<SweepEntry> {
        let groups = node.one_or_more();
        groups.iter().filter_map(|group| self.zip(group)).collect()
    }

    fn zip(&mut self, node: &Node<'_>) -> Option<SweepEntry> {
        let expected = "write a group like {x: [1, 2], y: [a, b]}";
        let entries = self.entries(node, expected)?;
        if entries.is_empty() {
            return self.report(&node.path, "an empty group", expected);
        }
        Some(SweepEntry::Zip(
            entries.into_iter().map(|(name, node)| self.named_source(name, &node)).collect(),
        ))
    }

    fn csvs(&mut self, node: &Node<'_>) -> Vec<SweepEntry> {
        let tables = node.one_or_more();
        tables
            .iter()
            .map(|table| SweepEntry::Csv { path: table.path.clone(), csv: self.csv(table) })
            .collect()
    }

    fn csv(&mut self, node: &Node<'_>) -> Option<CsvForm> {
        let expected = "write the table's file, or {file: params.csv, columns: [alpha, beta]}";
        if let Value::String(file) = node.value {
            return Some(CsvForm { file: file.clone(), columns: None, header: None, delimiter: None });
        }
        let mut fields = self.fields(node, &["file", "columns", "header", "delimiter"], expected)?;
        let file = self.required(&mut fields, node, "file", expected);
        let (columns, delimiter) = (fields.take("columns"), fields.take("delimiter"));
        let header = match fields.take("header") {
            None => None,
            Some(node) => Some(self.truth(&node)?),
        };
        let file = file.and_then(|file| self.text(&file));
        let columns = match columns {
            None => None,
            Some(node) => Some(self.columns(&node)?),
        };
        let delimiter = match delimiter {
            None => None,
            Some(node) => Some(self.delimiter(&node)?),
        };
        Some(CsvForm { file: file?, columns, header, delimiter })
    }

    /// Parameters and the columns that have their values.
    fn columns(&mut self, node: &Node<'_>) -> Option<Vec<(String, String)>> {
        let columns: Vec<(String, String)> = match node.value {
            Value::Mapping(_) => {
                let entries = self.entries(node, "write {PARAMETER: COLUMN}")?;
                let named = entries.into_iter().map(|(name, node)| Some((name, self.text(&node)?)));
                named.collect::<Option<_>>()?
            }
            _ => {
                let expected = "write a list of column names, or {PARAMETER: COLUMN}";
                self.texts(node, expected)?.into_iter().map(|name| (name.clone(), name)).collect()
            }
        };
        if columns.is_empty() {
            return self.refuse(node, "name at least one column, or leave the field out for all");
        }
        Some(columns)
    }

    /// A character, or the word for one that is not seen.
    fn delimiter(&mut self, node: &Node<'_>) -> Option<u8> {
        let text = if node.value.is_null() { String::new() } else { self.text(node)? };
        match text.as_bytes() {
            b"tab" | b"\\t" => Some(b'\t'),
            b"blank" => Some(b' '),
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Some(*byte),
            _ => self.refuse(node, "write one character in quotes, like \";\", or tab or blank"),
        }
    }

    fn sample(&mut self, node: &Node<'_>) -> Option<SampleForm> {
        let expected = "write {n: 100, seed: 7}";
        if let Value::Number(n) = node.value {
            return self.report(&node.path, quoted(&n.to_string()), format!("write {{n: {n}, seed: 7}}"));
        }
        let mut fields = self.fields(node, &["n", "seed"], expected)?;
        let n = self.required(&mut fields, node, "n", expected);
        let seed = match fields.take("seed") {
            Some(node) => Some(self.integer(&node, (0, i128::from(u64::MAX)))?),
            None => None,
        };
        Some(SampleForm { n: self.integer(&n?, (1, i128::from(u64::MAX)))?, seed })
    }
}
