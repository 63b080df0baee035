//! `pilotfish user …`: lets somebody else use a manager, with jobs and shares of their own, and shuts them out again.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use protocol::{
    api::AccessFile,
    files::private,
    text::units::parse_duration_ms,
    users::{AddUserRequest, QuotaUse, QuotaView, TokenState, TokenView, Users, UsersQuery, check_name},
};
use scheduler::{
    engine::interface::users::TokenId,
    size::Size,
    time::{Span, Time},
};
use serde_json::json;

use crate::{
    access::{
        self, Where,
        folders::{ACCESS_FILE, show_path},
    },
    failure::{Failure, Outcome},
    show::{self, Screen, format, quote::quoted, table::Table, units::json_with_units},
    view::{Reader, ViewArgs},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish user add ann --to /home/ann/cluster
      # an access file for ann
  pilotfish user list  who has access
  pilotfish user revoke ann";

/// Quotas in bytes.
const IN_BYTES: [&str; 3] = ["values", "output", "files"];

const ADD_EXAMPLES: &str = "\
Examples:
  pilotfish user add ann  an access.json for ann, in ./ann
  pilotfish user add ann --to /home/ann/cluster --expires 90d
  pilotfish user add bob --operator
      # bob may change everybody's jobs, and stop the manager

Whoever has the file is that user: `pilotfish submit job.yaml --dir ann`.
Everybody sees the list of jobs; only their owner and operators see what they
run and wrote, and may change them. Policies share platforms among users.

The file has the manager's address. Set `tls: on` and `listen: {port: …}` in
manager.yaml: then it outlives restarts and changes of platforms. The token
cannot be shown again. `pilotfish user revoke ann` makes it void.

While tasks of a platform can read the manager's folder, only operators can be
added. For a local platform set `run_as: ACCOUNT`; for one behind SSH let `ssh`
name an account that cannot read the folder.";

const LIST_EXAMPLES: &str = "\
Examples:
  pilotfish user list
  pilotfish user list --all  with tokens that are void, and why
  pilotfish user list --quotas  each user's quotas, and how much of each is used

Operators see all tokens, others their own. The last use of a token is exact to
the minute, after a restart of the manager to the hour.";

const REVOKE_EXAMPLES: &str = "\
Examples:
  pilotfish user revoke ann           all that ann has
  pilotfish user revoke 3f9a1c22b047  one token, by its id in `user list`

It is void at once; what is under way with it ends within seconds. Jobs belong
to the name: they go on, operators may cancel them, and whoever is added by the
same name has them again. When the token of the manager's own access.json is
revoked, another one takes its place there. Operators may revoke all tokens,
others their own.";

/// What to do.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(Subcommand)]
enum UserCommand {
    /// Give somebody access
    Add(AddArgs),
    /// List who has access
    List(ListArgs),
    /// Take somebody's access away
    Revoke(RevokeArgs),
}

#[derive(Args)]
#[command(after_help = ADD_EXAMPLES)]
struct AddArgs {
    /// The user's name, as in `jobs` and for shares and quotas
    #[arg(value_name = "NAME")]
    name: String,
    /// The folder for the access file [default: ./NAME]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Let the user change everybody's jobs, platforms and policies, and stop the manager
    #[arg(long)]
    operator: bool,
    /// How long it is valid, like 90d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// Show JSON, for programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

#[derive(Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    /// Include void tokens
    #[arg(long)]
    all: bool,
    /// Show each user's quotas, and how much of each is used
    #[arg(long)]
    quotas: bool,
    #[command(flatten)]
    view: ViewArgs,
}

#[derive(Args)]
#[command(after_help = REVOKE_EXAMPLES)]
struct RevokeArgs {
    /// Whose: the user's name, or the id of a token
    #[arg(value_name = "NAME|ID")]
    name: String,
    #[command(flatten)]
    view: ViewArgs,
}

/// Does it.
///
/// # Errors
/// A name that is none, no manager, not an operator, or a file that is there already or cannot be written.
pub async fn run(args: UserArgs) -> Result<Outcome, Failure> {
    match args.command {
        UserCommand::Add(args) => add(args).await,
        UserCommand::List(args) => list(&args).await,
        UserCommand::Revoke(args) => revoke(&args).await,
    }
}

async fn add(args: AddArgs) -> Result<Outcome, Failure> {
    check_name(&args.name).map_err(Failure::bad_input)?;
    let expires_in = args.expires.as_deref().map(duration).transpose()?;
    let client = access::find_live_to_change(&args.place).await?.client;
    let folder = args.to.unwrap_or_else(|| PathBuf::from(&args.name));
    let path = folder.join(ACCESS_FILE);
    let is_new = !folder.exists();
    // Nothing is left of one that cannot be used.
    let take_back = || {
        let _ = fs::remove_file(&path);
        if is_new {
            let _ = fs::remove_dir(&folder);
        }
    };
    let mut file = create(&folder, &path)?;
    let request = AddUserRequest { user: args.name.clone(), is_operator: args.operator, expires_in };
    let added = client.add_user(&request).await.map_err(Failure::from);
    let added = added.inspect_err(|_| take_back())?;
    let access = AccessFile {
        token: added.token,
        user: args.name.clone(),
        // The next manager of that folder has another process.
        host: String::new(),
        pid: 0,
        ..client.access().clone()
    };
    let written = show::json(&access).and_then(|text| {
        file.write_all(text.as_bytes()).map_err(|error| Failure::file("write", &path, &error))
    });
    if let Err(failure) = written {
        // Half a file is none, and nobody knows the token.
        take_back();
        let id = added.kept.id;
        let revoked = client.revoke(&id.to_string()).await;
        return Err(revoked.err().map_or(failure, |error| {
            Failure::infrastructure(format!(
                "{error}; `pilotfish user revoke {id}` takes back a token that nobody has"
            ))
        }));
    }
    added.warnings.iter().for_each(|warning| show::say(&format!("warning: {warning}")));
    let expires_at = added.kept.expires_at;
    if args.json {
        let shown = json!({
            "user": args.name,
            "is_operator": args.operator,
            "access_file": path,
            "token_id": added.kept.id,
            "expires_at_unix_seconds": expires_at.map(|at| at.0 / 1_000_000),
        });
        show::print(&show::json(&shown)?)?;
    } else {
        let shown = quoted(&folder.display().to_string());
        let until = expires_at.map(|at| format!(" until {}", minute(at))).unwrap_or_default();
        show::print(&format!(
            "{} has access{until} by {}: pilotfish jobs --dir {shown}\n",
            args.name,
            show_path(&path)
        ))?;
    }
    Ok(Outcome::Fine)
}

async fn list(args: &ListArgs) -> Result<Outcome, Failure> {
    let reader = Reader::open(&args.view.place).await?;
    let query = UsersQuery { all: args.all, quotas: args.quotas };
    let Users { tokens, quotas } = reader.client.users(&query).await?;
    if args.quotas {
        return show_quotas(&quotas, &args.view);
    }
    show_tokens(&tokens, &args.view, args.all)
}

async fn revoke(args: &RevokeArgs) -> Result<Outcome, Failure> {
    if args.name.parse::<TokenId>().is_err() {
        check_name(&args.name).map_err(Failure::bad_input)?;
    }
    let client = access::find_live_to_change(&args.view.place).await?.client;
    let tokens = client.revoke(&args.name).await?.tokens;
    if args.view.json || args.view.quiet {
        return show_tokens(&tokens, &args.view, true);
    }
    if tokens.is_empty() {
        show::print(&format!("{} was revoked before\n", args.name))?;
    }
    for TokenView { id, user, .. } in &tokens {
        show::print(&format!("token {id} of {user} is void\n"))?;
    }
    Ok(Outcome::Fine)
}

fn show_quotas(views: &[QuotaView], view: &ViewArgs) -> Result<Outcome, Failure> {
    if view.json {
        show::print(&json_with_units(&views.to_vec())?)?;
        return Ok(Outcome::Fine);
    }
    if view.quiet {
        let names = views.iter().map(|view| format!("{}\n", view.user));
        show::print(&names.collect::<String>())?;
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(&["USER", "QUOTA"]);
    table.column("USED", show::table::Side::Right);
    table.column("MOST", show::table::Side::Right);
    for QuotaView { user, is_operator, priority_over_all, quotas } in views {
        let user = if *is_operator { format!("{user} (operator)") } else { user.clone() };
        for QuotaUse { quota, used, most } in quotas {
            let shown = |n: u64| {
                if IN_BYTES.contains(&quota.as_str()) { Size(n).to_string() } else { format::count(n) }
            };
            let most = most.map_or_else(|| "none".to_owned(), shown);
            table.row(vec![user.clone().into(), quota.clone().into(), shown(*used).into(), most.into()]);
        }
        let scope = if *priority_over_all { "all" } else { "own" };
        table.row(vec![user.into(), "priority".into(), "-".into(), scope.into()]);
    }
    show::print(&table.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}

fn show_tokens(tokens: &[TokenView], view: &ViewArgs, with_void: bool) -> Result<Outcome, Failure> {
    if view.json {
        show::print(&json_with_units(&tokens.to_vec())?)?;
        return Ok(Outcome::Fine);
    }
    if view.quiet {
        let ids = tokens.iter().map(|view| format!("{}\n", view.id));
        show::print(&ids.collect::<String>())?;
        return Ok(Outcome::Fine);
    }
    let mut table = Table::new(&["USER", "ROLE", "TOKEN", "MADE", "EXPIRES", "LAST USED"]);
    if with_void {
        table.column("STATE", show::table::Side::Left);
    }
    for view in tokens {
        let role = if view.is_operator { "operator" } else { "user" };
        let own = if view.is_own { " (access.json)" } else { "" };
        let time = |at: Option<Time>| at.map(minute).unwrap_or_else(|| "-".to_owned());
        let mut row = vec![
            view.user.clone().into(),
            format!("{role}{own}").into(),
            view.id.to_string().into(),
            minute(view.made_at).into(),
            time(view.expires_at).into(),
            time(view.used_at).into(),
        ];
        if with_void {
            row.push(state(view).into());
        }
        table.row(row);
    }
    show::print(&table.render(&Screen::stdout()))?;
    Ok(Outcome::Fine)
}

fn state(view: &TokenView) -> String {
    match (view.state, view.revoked_at, &view.revoked_by) {
        (TokenState::Revoked, Some(at), Some(by)) => format!("revoked {} by {by}", minute(at)),
        (TokenState::Revoked, ..) => "revoked".to_owned(),
        (TokenState::Expired, ..) => "expired".to_owned(),
        (TokenState::Void, ..) => "void: `secret` was removed".to_owned(),
        (TokenState::Valid, ..) => "valid".to_owned(),
    }
}

/// `2026-11-20 10:45`, where the clock is this host's.
fn minute(at: Time) -> String {
    let shown = format::clock(at, Time(0));
    shown.rsplit_once(':').map_or(shown.clone(), |(minute, _)| minute.to_owned())
}

fn duration(text: &str) -> Result<Span, Failure> {
    let found = |what: String| Failure::bad_input(format!("--expires: found `{text}`; {what}"));
    match parse_duration_ms(text) {
        Ok(0) => Err(found("write how long it is to be valid, like 90d".to_owned())),
        Ok(ms) => ms.checked_mul(1000).map(Span).ok_or_else(|| found("that is too much".to_owned())),
        Err(error) => Err(found(error.to_string())),
    }
}

/// A file that only its owner may read, and none that was there before: it might be another manager's.
fn create(folder: &Path, path: &Path) -> Result<fs::File, Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "found {} already; remove it, or name another folder with --to",
            show_path(path)
        )),
        _ => Failure::file("write", path, &error),
    };
    private::make_folder(folder).map_err(failed)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)
}
