//! What `qstat -f`, `pbsnodes -a` and TORQUE's `qstat -x` print: things with a name and attributes.

/// A job, queue, server or node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
}

impl Record {
    /// The attribute of that name, if it says anything: the first one, as what follows a job's variables
    /// may be part of them.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Records of text, each begun by a line at the margin that begins so. Lines are folded within words, and go
/// on after a tab. `None`: something is there that is no record.
pub(super) fn of_text(text: &str, beginning: &str) -> Option<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines() {
        if let Some(folded) = line.strip_prefix('\t') {
            let (_, value) = records.last_mut()?.attributes.last_mut()?;
            value.push_str(folded);
        } else if line.starts_with(' ') {
            let (name, value) = line.split_once(" =")?;
            let value = value.strip_prefix(' ').unwrap_or(value);
            records.last_mut()?.attributes.push((name.trim().to_owned(), value.to_owned()));
        } else if !line.is_empty() {
            let name = line.strip_prefix(beginning)?.trim().to_owned();
            records.push(Record { name, attributes: Vec::new() });
        }
    }
    Some(records)
}

/// Jobs of TORQUE's XML. Text is escaped in it, so that no value looks like the end of its element; what
/// else makes XML well-formed it does not keep to.
pub(super) fn of_xml(text: &str) -> Option<Vec<Record>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    let (_declaration, rest) = text.split_once("?>")?;
    let mut rest = rest.trim_start().strip_prefix("<Data>")?.strip_suffix("</Data>")?;
    let mut records = Vec::new();
    while !rest.is_empty() {
        let (job, after) = rest.strip_prefix("<Job>")?.split_once("</Job>")?;
        let mut attributes = Vec::new();
        for (name, value) in elements(job)? {
            match value.starts_with('<') {
                true => attributes.extend(
                    elements(value)?
                        .into_iter()
                        .map(|(inner, value)| (format!("{name}.{inner}"), plain(value))),
                ),
                false => attributes.push((name.to_owned(), plain(value))),
            }
        }
        let name = attributes.iter().find(|(name, _)| name == "Job_Id")?.1.clone();
        records.push(Record { name, attributes });
        rest = after;
    }
    Some(records)
}

/// Names and contents of elements that follow each other.
fn elements(text: &str) -> Option<Vec<(&str, &str)>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (name, after) = rest.strip_prefix('<')?.split_once('>')?;
        let (value, after) = match name.strip_suffix('/') {
            Some(_) => ("", after),
            None => after.split_once(&format!("</{name}>"))?,
        };
        found.push((name.trim_end_matches('/'), value));
        rest = after;
    }
    Some(found)
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}
