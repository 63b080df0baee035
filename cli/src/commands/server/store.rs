//! `pilotfish store check`: whether a manager's store is as it was written.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use manager::store::{self, Checked, Kept, StoreError};
use serde_json::json;

use crate::{
    access::{
        self, Where,
        folders::{STORE_FILE, show_path},
    },
    failure::{Failure, Outcome},
    show::{self, format::counted},
};

/// Findings that are shown at most.
const FINDINGS_MAX: usize = 100;

const EXAMPLES: &str = "\
Examples:
  pilotfish store check
  pilotfish store check --dir /backup/pilotfish";

const CHECK_EXAMPLES: &str = "\
Examples:
  pilotfish store check
  pilotfish store check --dir .pilotfish
  pilotfish store check --dir /backup/pilotfish --json

Reads the whole store: pages, indices, and the checksum of each record, of what
tasks wrote and of the names of their files. Of the files in `files` it checks
that they are present and have the right size. It changes nothing, and may run
beside the manager. The exit code is 1 if anything is damaged, or is there
although no manager has put it there. docs/store.md says how to restore a
backup.";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Check a manager's store for damage
    Check(CheckArgs),
}

#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES)]
struct CheckArgs {
    /// Show JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// Does it.
///
/// # Errors
/// No store, or one that cannot be read for another reason than damage.
pub async fn run(args: StoreArgs) -> Result<Outcome, Failure> {
    let StoreCommand::Check(args) = args.command;
    let folder = match access::named_folder(&args.place)? {
        // It is looked into, whether a manager runs there or not.
        Some(folder) => folder,
        None => match access::find(&args.place).await? {
            access::Found::Live(_, folder) => folder,
            access::Found::Store(left) => left.folder,
        },
    };
    if !folder.exists() {
        let shown = show_path(&folder);
        return Err(Failure::bad_input(format!("there is no folder {shown}; name the manager's own folder")));
    }
    if !folder.join(STORE_FILE).is_file() {
        let shown = show_path(&folder);
        return Err(Failure::bad_input(format!(
            "found no {STORE_FILE} in {shown}; name the manager's own folder"
        )));
    }
    let (checked, kept) = check(folder.clone()).await?;
    if args.json {
        show::print(&show::json(&json!({
            "store": folder.join(STORE_FILE),
            "records": checked.n_records,
            "records_without_checksums": checked.n_without_sums,
            "files": kept.n_files,
            "damage": checked.found.iter().chain(&kept.found).collect::<Vec<_>>(),
            "strangers": kept.strangers,
        }))?)?;
    } else {
        show::print(&words(&show_path(&folder), &checked, &kept))?;
    }
    let is_whole = checked.found.is_empty() && kept == Kept { n_files: kept.n_files, ..Kept::default() };
    Ok(if is_whole { Outcome::Fine } else { Outcome::Damaged })
}

/// What the store is like; and the contents of files, unless a damaged store cannot say which there are.
async fn check(folder: PathBuf) -> Result<(Checked, Kept), Failure> {
    let checked = tokio::task::spawn_blocking(move || {
        let checked = store::check(&folder, FINDINGS_MAX)?;
        let kept = match checked.found.is_empty() {
            true => store::check_kept(&folder, FINDINGS_MAX)?,
            false => Kept::default(),
        };
        Ok::<_, StoreError>((checked, kept))
    });
    let checked = checked.await;
    let checked = checked.map_err(|error| Failure::infrastructure(error.to_string()))?;
    checked.map_err(|error| Failure::infrastructure(error.to_string()))
}

fn words(folder: &str, checked: &Checked, kept: &Kept) -> String {
    let Checked { n_records, n_without_sums, found } = checked;
    let mut text = String::new();
    let damage: Vec<&String> = found.iter().chain(&kept.found).collect();
    if damage.is_empty() {
        let files =
            if kept.n_files > 0 { format!(", {}", counted(kept.n_files, "file")) } else { String::new() };
        text += &format!("the store in {folder} is whole: {}{files}\n", counted(*n_records, "record"));
    } else {
        text += &format!("the store in {folder} is damaged:\n");
        damage.iter().for_each(|found| text += &format!("  {found}\n"));
        if damage.len() >= FINDINGS_MAX {
            text += &format!("  and perhaps more: these are the first {FINDINGS_MAX}\n");
        }
        text += match found.is_empty() {
            true => "add what is missing from a backup\n",
            false => "restore the folder from a backup\n",
        };
    }
    if !kept.strangers.is_empty() {
        text += "these were put there by no manager; remove them if nobody needs them:\n";
        kept.strangers.iter().for_each(|path| text += &format!("  {path}\n"));
    }
    if *n_without_sums > 0 {
        let which = counted(*n_without_sums, "record");
        text += &format!("no checksum of {which} of former versions is known: only their form was checked\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use manager::store::{Checked, Kept};

    use super::FINDINGS_MAX;

    fn words(folder: &str, checked: &Checked) -> String {
        super::words(folder, checked, &Kept::default())
    }

    #[test]
    fn words_say_what_is_damaged_and_what_could_not_be_checked() {
        let checked = |n_without_sums, found| Checked { n_records: 12, n_without_sums, found };
        assert_eq!(words("~/m", &checked(0, vec![])), "the store in ~/m is whole: 12 records\n");
        let text = words("~/m", &checked(1, vec!["record 3: its checksum is wrong".to_owned()]));
        assert_eq!(
            text,
            "the store in ~/m is damaged:\n  record 3: its checksum is wrong\nrestore the folder from a backup\n\
             no checksum of 1 record of former versions is known: only their form was checked\n"
        );
        let many = words("~/m", &checked(0, vec![String::new(); FINDINGS_MAX]));
        assert!(many.contains("perhaps more"), "{many}");
    }

    #[test]
    fn words_say_which_contents_of_files_are_missing_and_which_are_strange() {
        let checked = Checked { n_records: 12, ..Checked::default() };
        let said = |found: &[&str], strangers: &[&str]| {
            let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            super::words(
                "~/m",
                &checked,
                &Kept { n_files: 3, found: list(found), strangers: list(strangers) },
            )
        };
        assert_eq!(said(&[], &[]), "the store in ~/m is whole: 12 records, 3 files\n");
        let expected = "the store in ~/m is damaged:\n  a: gone\nadd what is missing from a backup\n";
        assert_eq!(said(&["a: gone"], &[]), expected);
        let expected = "the store in ~/m is whole: 12 records, 3 files\n\
            these were put there by no manager; remove them if nobody needs them:\n  b\n";
        assert_eq!(said(&[], &["b"]), expected);
    }
}
