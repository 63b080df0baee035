//! The tables of `qstat -u` and `qstat -i`, which cost one connection however many jobs they show.

use crate::looks_like_ours;

/// A line of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Row<'t> {
    pub(super) id: &'t str,
    pub(super) name: String,
    pub(super) state: &'t str,
    /// Cores of all nodes, where the table says so.
    pub(super) n_cores: Option<u64>,
}

/// Fields of a row beside the words of its name.
const N_FIELDS: usize = 11;

/// The rows of a table. `None`: the text is no table, or a row that may be one of ours cannot be read. A row of
/// another job that cannot be read is left out.
pub(super) fn rows(text: &str) -> Option<Vec<Row<'_>>> {
    let (mut rows, mut id_width, mut has_other_words) = (Vec::new(), None, false);
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        if is_rule(line) {
            id_width = line.split(' ').next().map(str::len);
            continue;
        }
        let Some(id_width) = id_width else {
            // The head, or words that a site's wrapper prints before it.
            has_other_words |= !is_head(line);
            continue;
        };
        let fields: Vec<&str> = line.split_whitespace().collect();
        match row(&fields, id_width) {
            Some(row) => rows.push(row),
            None if fields.iter().any(|field| looks_like_ours(field)) => return None,
            None => {}
        }
    }
    id_width.filter(|_| !rows.is_empty() || !has_other_words).map(|_| rows)
}

/// The server's name and the names of the columns.
fn is_head(line: &str) -> bool {
    let is_server = line.strip_suffix(':').is_some_and(|name| !name.contains(char::is_whitespace));
    is_server || line.trim_start().starts_with("Req'd") || line.starts_with("Job ID")
}

/// The line of dashes below the head.
fn is_rule(line: &str) -> bool {
    line.starts_with("-----") && line.chars().all(|c| c == '-' || c == ' ')
}

fn row<'t>(fields: &[&'t str], id_width: usize) -> Option<Row<'t>> {
    let n = fields.len();
    let (id, state) = (*fields.first()?, *fields.get(n.checked_sub(2)?)?);
    let is_row = n >= N_FIELDS && super::is_id(id.trim_end_matches('*')) && state.len() == 1;
    is_row.then(|| Row {
        // One that fills its column may be cut off; its number alone is a name for it, too.
        id: if id.len() >= id_width { id.split('.').next().unwrap_or(id) } else { id },
        name: fields[3..n - 7].join(" "),
        state,
        n_cores: fields[n - 5].parse().ok(),
    })
}
