//! "Did you mean …?": the nearest of the known names.

/// The known name nearest to `name`, when it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let n_edits_max = match name.chars().count() {
        0 => return None,
        1..=2 => 1,
        3..=6 => 2,
        _ => 3,
    };
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(n_edits, candidate)| {
            let n_letters = candidate.chars().count();
            // Where most of its letters are missing it was not meant.
            let n_kept = name.chars().count().max(n_letters).saturating_sub(*n_edits);
            *n_edits <= n_edits_max && 2 * n_kept >= n_letters
        })
        .min_by_key(|(n_edits, _)| *n_edits)
        .map(|(_, candidate)| candidate)
}

/// What other systems call the fields of a job file.
#[cfg(feature = "author")]
const OTHER_WORDS: [(&str, &[&str]); 8] = [
    ("after", &["needs", "depends_on", "dependson", "depends", "dependencies", "requires"]),
    ("command", &["cmd", "script", "run", "exec", "executable", "program"]),
    ("cores", &["cpus", "ncpus", "threads", "ppn", "cpus_per_task"]),
    ("env", &["environment", "variables"]),
    ("memory", &["mem", "ram"]),
    ("sweep", &["params", "parameters", "matrix", "array", "foreach"]),
    ("time_limit", &["walltime", "timeout", "time", "duration_max"]),
    ("workdir", &["cwd", "chdir", "directory", "working_directory"]),
];

/// The known field that is called so elsewhere.
#[cfg(feature = "author")]
pub(crate) fn called_elsewhere<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    let (field, _) = OTHER_WORDS.iter().find(|(_, words)| words.contains(&word.as_str()))?;
    known.iter().copied().find(|known| known == field)
}

/// The least number of insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn typing_mistakes_find_what_was_meant() {
        let known = ["seed", "ligand", "box", "all", "x", "time_limit"];
        for (typed, meant) in [
            ("sead", "seed"),
            ("lignad", "ligand"),
            ("SEED", "seed"),
            ("timelimit", "time_limit"),
            ("seednr", "seed"),
        ] {
            assert_eq!(nearest(typed, known), Some(meant));
        }
        for unrelated in ["", "charge", "y", "abc", "toolong"] {
            assert_eq!(nearest(unrelated, known), None, "{unrelated}");
        }
    }
}
