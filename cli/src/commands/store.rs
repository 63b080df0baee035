//! `pilotfish store check`: whether a manager's store is as it was written.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use manager::store::{self, Checked};
use serde_json::json;

use crate::{
    access::{self, STORE_FILE, Where, show_path},
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
tasks wrote and of the names of their files. It changes nothing, and may run
beside the manager. The exit code is 1 if something is damaged. Then restore a
backup; docs/store.md says how.";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Look for damage in a manager's store
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
    let folder = match access::find(&args.place).await? {
        access::Found::Live(_, folder) => folder,
        access::Found::Store(left) => left.folder,
    };
    if !folder.join(STORE_FILE).is_file() {
        let shown = show_path(&folder);
        return Err(Failure::bad_input(format!(
            "found no {STORE_FILE} in {shown}; name the manager's own folder"
        )));
    }
    let checked = check(folder.clone()).await?;
    if args.json {
        show::print(&show::json(&json!({
            "store": folder.join(STORE_FILE),
            "records": checked.n_records,
            "records_without_checksums": checked.n_without_sums,
            "damage": checked.found,
        }))?)?;
    } else {
        show::print(&words(&show_path(&folder), &checked))?;
    }
    Ok(if checked.found.is_empty() { Outcome::Fine } else { Outcome::Damaged })
}

async fn check(folder: PathBuf) -> Result<Checked, Failure> {
    let checked = tokio::task::spawn_blocking(move || store::check(&folder, FINDINGS_MAX)).await;
    let checked = checked.map_err(|error| Failure::infrastructure(error.to_string()))?;
    checked.map_err(|error| Failure::infrastructure(error.to_string()))
}

fn words(folder: &str, checked: &Checked) -> String {
    let Checked { n_records, n_without_sums, found } = checked;
    let mut text = String::new();
    if found.is_empty() {
        text += &format!("the store in {folder} is whole: {}\n", counted(*n_records, "record"));
    } else {
        text += &format!("the store in {folder} is damaged:\n");
        found.iter().for_each(|found| text += &format!("  {found}\n"));
        if found.len() >= FINDINGS_MAX {
            text += &format!("  and perhaps more: these are the first {FINDINGS_MAX}\n");
        }
        text += "restore the folder from a backup\n";
    }
    if *n_without_sums > 0 {
        let which = counted(*n_without_sums, "record");
        text += &format!("no checksum of {which} of former versions is known: only their form was checked\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use manager::store::Checked;

    use super::{FINDINGS_MAX, words};

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
}
