//! `pilotfish user add`: lets somebody else use a manager, with jobs and shares of their own.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use manager::tokens::{SECRET_FILE, Tokens};
use protocol::{api::AccessFile, private};
use serde_json::json;

use crate::{
    access::{self, ACCESS_FILE, Where, show_path},
    failure::{Failure, Outcome},
    show::{self, quote::quoted},
};

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 100;

const ADD_EXAMPLES: &str = "\
Examples:
  pilotfish user add ann  an access.json for ann, in ./ann
  pilotfish user add ann --to /home/ann/cluster
  pilotfish user add bob --operator
      # bob may change everybody's jobs, and stop the manager

Who has the file is that user: `pilotfish submit job.yaml --dir ann`. All see
what there is; jobs are changed by their own users and by operators, and
policies share platforms among users. The file leads to where the manager
listens now: with `listen: {port: …}` in manager.yaml that stays so. Access is
taken away from all at once, by removing the manager's file `secret` while it
is stopped.";

/// What to do.
#[derive(Args)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    /// Give somebody access
    Add(AddArgs),
}

#[derive(Args)]
#[command(after_help = ADD_EXAMPLES)]
struct AddArgs {
    /// Whom: the name that `jobs` shows and policies share by
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder for the access file [default: one of the user's name, here]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// May change everybody's jobs, platforms and policies, and stop the manager
    #[arg(long)]
    operator: bool,
    /// Show JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// Does it.
///
/// # Errors
/// A name that is none, no manager, one whose folder is not here, or a file that is there already or cannot be written.
pub async fn run(args: UserArgs) -> Result<Outcome, Failure> {
    let UserCommand::Add(args) = args.command;
    check_name(&args.name)?;
    let (home, client) = access::find_home(&args.place).await?;
    let folder = args.to.unwrap_or_else(|| PathBuf::from(&args.name));
    let path = folder.join(ACCESS_FILE);
    if !home.join(SECRET_FILE).is_file() {
        return Err(Failure::bad_input(format!(
            "found no `{SECRET_FILE}` in {}; give --dir the folder of the manager itself, on its host",
            show_path(&home)
        )));
    }
    let tokens = Tokens::open(&home).map_err(|error| Failure::infrastructure(error.to_string()))?;
    let file = AccessFile {
        token: tokens.user(&args.name, args.operator),
        user: args.name.clone(),
        // The next manager of that folder has another process.
        host: String::new(),
        pid: 0,
        ..client.access().clone()
    };
    write_new(&folder, &path, &file)?;
    if args.json {
        show::print(&show::json(
            &json!({"user": args.name, "is_operator": args.operator, "access_file": path}),
        )?)?;
    } else {
        let shown = quoted(&folder.display().to_string());
        show::print(&format!(
            "{} has access by {}: pilotfish jobs --dir {shown}\n",
            args.name,
            show_path(&path)
        ))?;
    }
    Ok(Outcome::Fine)
}

fn check_name(name: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with(['.', '-']);
    if is_name && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "found `{}` as a user's name; use 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.` and `@`, a letter or digit first",
        name.escape_debug()
    )))
}

/// A file that only its owner may read, and none that was there before: it might be another manager's.
fn write_new(folder: &Path, path: &Path, access: &AccessFile) -> Result<(), Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "found {} already; remove it, or name another folder with --to",
            show_path(path)
        )),
        _ => Failure::file("write", path, &error),
    };
    let text = show::json(access)?;
    private::make_folder(folder).map_err(failed)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(|error| {
        // Half a file is none, and in the way of the next try.
        let _ = fs::remove_file(path);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_are_plain() {
        for name in ["ann", "ann@site.org", "Jürgen", "a-b_c.d", "7"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "..", ".ann", "-ann", "a/b", "a b", "a\nb", &"a".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
