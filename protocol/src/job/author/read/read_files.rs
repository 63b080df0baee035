//! The lists `inputs` and `outputs` of a job file.

use scheduler::digest::Digest;
use serde_yaml::Value;

use crate::job::author::form::{InputForm, OutputForm};
use crate::job::author::read::{Node, Reader, bare_placeholder};

/// Whether it is a mapping of fields, and no placeholder without quotes.
fn is_of_fields(node: &Node<'_>, fields: &[&str]) -> bool {
    let Value::Mapping(mapping) = node.value else { return false };
    bare_placeholder(mapping).is_none_or(|name| fields.contains(&name))
}

const INPUT_EXPECTED: &str = "write paths, or {from: …, to: …}";

impl Reader<'_> {
    pub(in crate::job::author) fn inputs(&mut self, node: &Node<'_>) -> Option<Vec<InputForm>> {
        let items = node.one_or_more();
        let read: Vec<Option<InputForm>> = items.iter().map(|item| self.input(item)).collect();
        // Without one of them the others would be told of by wrong numbers.
        read.into_iter().collect()
    }

    fn input(&mut self, node: &Node<'_>) -> Option<InputForm> {
        if !is_of_fields(node, &["from", "to"]) {
            let from = self.text(node)?;
            return Some(InputForm { from, ..InputForm::default() });
        }
        let known = ["from", "to", "sha256", "shared", "writable", "optional"];
        let mut fields = self.fields(node, &known, INPUT_EXPECTED)?;
        let from = self.required(&mut fields, node, "from", INPUT_EXPECTED);
        let to = fields.take("to").and_then(|node| self.text(&node));
        let sha256 = fields.take("sha256").and_then(|node| self.digest(&node));
        let shared = fields.take("shared").and_then(|node| self.truth(&node)).unwrap_or_default();
        let writable = fields.take("writable").and_then(|node| self.truth(&node)).unwrap_or_default();
        let optional = fields.take("optional").and_then(|node| self.truth(&node)).unwrap_or_default();
        let from = self.text(&from?)?;
        Some(InputForm { from, to, sha256, shared, writable, optional, ..InputForm::default() })
    }

    fn digest(&mut self, node: &Node<'_>) -> Option<Digest> {
        let text = self.text(node)?;
        let digest = text.parse().ok();
        digest.or_else(|| self.refuse(node, "write the file's SHA-256: 64 hexadecimal digits"))
    }

    pub(in crate::job::author) fn outputs(&mut self, node: &Node<'_>) -> Option<Vec<OutputForm>> {
        let items = node.one_or_more();
        let read: Vec<Option<OutputForm>> = items.iter().map(|item| self.output(item)).collect();
        // As above.
        read.into_iter().collect()
    }

    fn output(&mut self, node: &Node<'_>) -> Option<OutputForm> {
        if !is_of_fields(node, &["from", "to"]) {
            return Some(OutputForm { from: self.text(node)?, ..OutputForm::default() });
        }
        let mut fields = self.fields(node, &["from", "to", "optional"], INPUT_EXPECTED)?;
        let from = self.required(&mut fields, node, "from", INPUT_EXPECTED);
        let to = fields.take("to").and_then(|node| self.text(&node));
        let optional = fields.take("optional").and_then(|node| self.truth(&node)).unwrap_or_default();
        Some(OutputForm { from: self.text(&from?)?, to, optional, lines: false })
    }
}
