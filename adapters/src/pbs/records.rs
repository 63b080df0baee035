//! What `qstat -f`, `pbsnodes -a` and TORQUE's `qstat -x` print: things with a name and attributes.

use crate::unread::Unread;

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

/// Records of text, each begun by a line at the margin that begins so. Long values go on in the next line, after a
/// tab; values that have line ends of their own, like a shell function among a job's variables, go on in lines
/// that begin in any way. `None`: the first line is no record's.
pub(super) fn of_text(text: &str, beginning: &str) -> Option<Vec<Record>> {
    let mut records: Vec<Record> = Vec::new();
    let mut is_after_blank = true;
    for line in text.lines() {
        let name =
            line.strip_prefix(beginning).filter(|_| is_after_blank && is_at_margin(line)).map(str::trim);
        is_after_blank = line.trim().is_empty();
        if let Some(name) = name {
            records.push(Record { name: name.to_owned(), attributes: Vec::new() });
            continue;
        }
        if is_after_blank && records.is_empty() {
            continue;
        }
        let attributes = &mut records.last_mut()?.attributes;
        if let Some(folded) = line.strip_prefix('\t') {
            // Without an attribute before it there is nothing that it could continue.
            attributes.last_mut()?.1.push_str(folded);
        } else if let Some((name, value)) = attribute(line) {
            attributes.push((name.to_owned(), value.to_owned()));
        } else if let Some((_, value)) = attributes.last_mut() {
            value.push('\n');
            value.push_str(line);
        } else if !is_after_blank {
            return None;
        }
    }
    Some(records)
}

/// The same of queues, servers and nodes, which have no values with lines at the margin: such lines, before the first
/// record and below blank ones, are words of a site. Names have no blanks.
pub(super) fn of_listing(text: &str, beginning: &str, unread: &mut Unread) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut is_after_blank = true;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_head = beginning.is_empty() || line.starts_with(beginning);
        let name = line.strip_prefix(beginning).unwrap_or(line).trim();
        let has_attributes = lines.peek().is_some_and(|next| attribute(next).is_some());
        let is_first = is_after_blank || records.is_empty();
        if line.trim().is_empty() {
            is_after_blank = true;
        } else if is_head && is_first && is_at_margin(line) && has_attributes && !name.contains(' ') {
            records.push(Record { name: name.to_owned(), attributes: Vec::new() });
            is_after_blank = false;
        } else if add_to_last(&mut records, line, is_after_blank) {
            is_after_blank = false;
        } else {
            unread.line(line);
        }
    }
    records
}

/// Takes a line as one of the last record; `false`: it is none.
fn add_to_last(records: &mut [Record], line: &str, is_after_blank: bool) -> bool {
    let Some(record) = records.last_mut() else { return false };
    if let Some((name, value)) = attribute(line) {
        record.attributes.push((name.to_owned(), value.to_owned()));
        return true;
    }
    let Some((_, value)) = record.attributes.last_mut() else { return false };
    match line.strip_prefix('\t') {
        Some(folded) => value.push_str(folded),
        None if is_after_blank => return false,
        None => {
            value.push('\n');
            value.push_str(line);
        }
    }
    true
}

fn is_at_margin(line: &str) -> bool {
    !line.is_empty() && !line.starts_with([' ', '\t'])
}

/// `    name = value`, indented by four blanks, of nodes by five.
fn attribute(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("    ")?.split_once(" =")?;
    let name = name.strip_prefix(' ').unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain);
    is_name.then_some((name, value.strip_prefix(' ').unwrap_or(value)))
}

/// Jobs of TORQUE's XML: one document of all jobs, or one of each job that was asked for, with a declaration or
/// without, as releases differ. Text is escaped in it, so that no value looks like the end of its element; what
/// else makes XML well-formed it does not keep to. `None`: something is there that is no document.
pub(super) fn of_xml(text: &str) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(declared) = rest.strip_prefix("<?") {
            rest = declared.split_once("?>")?.1.trim_start();
        }
        let (data, after) = rest.strip_prefix("<Data>")?.split_once("</Data>")?;
        records.extend(jobs_of_data(data)?);
        rest = after.trim_start();
    }
    Some(records)
}

fn jobs_of_data(data: &str) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    let mut rest = data.trim();
    while !rest.is_empty() {
        let (job, after) = rest.strip_prefix("<Job>")?.split_once("</Job>")?;
        records.push(job_of_xml(job));
        rest = after.trim_start();
    }
    Some(records)
}

/// A job whose elements cannot all be read has those that say which job it is, if they are there.
fn job_of_xml(job: &str) -> Record {
    let whole = || {
        let mut attributes = Vec::new();
        for (name, value) in elements(job)? {
            match value.starts_with('<') {
                true => {
                    let inner = elements(value)?.into_iter();
                    attributes.extend(inner.map(|(inner, value)| (format!("{name}.{inner}"), plain(value))));
                }
                false => attributes.push((name.to_owned(), plain(value))),
            }
        }
        Some(attributes)
    };
    let some = || {
        let named = ["Job_Id", "Job_Name", "Job_Owner", "job_state"].into_iter();
        let found = named.filter_map(|name| {
            let (_, after) = job.split_once(&format!("<{name}>"))?;
            let (value, _) = after.split_once(&format!("</{name}>"))?;
            Some((name.to_owned(), plain(value)))
        });
        found.collect()
    };
    let attributes: Vec<(String, String)> = whole().unwrap_or_else(some);
    let id = attributes.iter().find(|(name, _)| name == "Job_Id").map(|(_, id)| id.trim().to_owned());
    Record { name: id.unwrap_or_default(), attributes }
}

/// Names and contents of elements that follow each other.
fn elements(text: &str) -> Option<Vec<(&str, &str)>> {
    let (mut found, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (name, after) = rest.strip_prefix('<')?.split_once('>')?;
        let (value, after) = match name.strip_suffix('/') {
            Some(_) => ("", after),
            None => after.split_once(&format!("</{name}>"))?,
        };
        found.push((name.trim_end_matches('/'), value));
        rest = after.trim_start();
    }
    Some(found)
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}
