//! `pilotfish platform reload`: the manager reads its configuration again.

use std::path::Path;

use clap::Args;
use protocol::api::Reloaded;

use crate::{
    access,
    client::Client,
    failure::{Failure, Outcome},
    show,
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish platform reload          after manager.yaml was changed by hand

The manager reads the file that it was started with. New platforms are
attached; limits, numbers of pilots and timeouts are taken over. Other changes
wait until the manager is restarted. SIGHUP does the same.";

/// Which manager.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReloadArgs {
    #[command(flatten)]
    view: ViewArgs,
}

/// Has the manager do it; says what that changed.
///
/// # Errors
/// No manager, one without a file, or a file with mistakes: then nothing was changed.
pub(super) async fn run(args: &ReloadArgs) -> Result<Outcome, Failure> {
    let client = access::find_for_operator(&args.view.place).await?;
    let reloaded = client.reload(None).await?;
    if args.view.json {
        show::print(&show::json(&reloaded)?)?;
    } else if !args.view.quiet {
        show::print(&told(&reloaded))?;
    }
    match reloaded.without_tls.is_empty() {
        true => Ok(Outcome::Fine),
        false => Err(Failure::infrastructure(format!("not attached: {}", reloaded.without_tls.join(", ")))),
    }
}

/// Has a manager do it that was started with this file.
///
/// # Errors
/// It was not, or does not.
pub(super) async fn ask(client: &Client, config: &Path) -> Result<Reloaded, Failure> {
    let path = config.canonicalize().map_err(|error| Failure::file("find", config, &error))?;
    Ok(client.reload(Some(path.display().to_string())).await?)
}

/// Fields of a platform's entry that a manager takes over while it runs.
const TAKEN_OVER: [&str; 11] = [
    "pilots_min",
    "pilots_max",
    "idle_timeout",
    "poll_interval",
    "queued_max",
    "submissions_per_minute",
    "core_hours",
    "user_core_hours",
    "budget",
    "price",
    "scaling",
];

/// What that changed, a line each.
pub(crate) fn told(reloaded: &Reloaded) -> String {
    let Reloaded {
        attached,
        changed,
        waiting,
        fields,
        detached,
        without_tls,
        quotas,
        unlisted,
        others_wait,
        others,
    } = reloaded;
    let named = |name: &str, are_taken_over: bool| {
        let fields = fields.get(name).into_iter().flatten();
        let of_kind = fields.filter(|field| TAKEN_OVER.contains(&field.as_str()) == are_taken_over);
        let of_kind: Vec<&str> = of_kind.map(String::as_str).collect();
        if of_kind.is_empty() { String::new() } else { format!(": {}", of_kind.join(", ")) }
    };
    let new_limits = |name: &str| format!("has its new limits{}", named(name, true));
    let has_changed = |name: &str| {
        format!("has changed{}; that is taken up when the manager is started again", named(name, false))
    };
    type Change<'a> = (&'a [String], &'a dyn Fn(&str) -> String);
    let lines: [Change<'_>; 6] = [
        (attached, &|_| "is attached".to_owned()),
        (without_tls, &|_| {
            "is not attached: it needs TLS, which this manager does not speak; start the manager anew"
                .to_owned()
        }),
        (changed, &new_limits),
        (waiting, &has_changed),
        (detached, &|_| {
            "stays detached: take its entry out, reload, and put it back to have it again".to_owned()
        }),
        (unlisted, &|_| {
            "is not in the file any more, and goes on until the manager is started again".to_owned()
        }),
    ];
    let mut told = String::new();
    for (names, what) in lines {
        names.iter().for_each(|name| told.push_str(&format!("platform {name} {}\n", what(name))));
    }
    if *quotas {
        told.push_str("quotas of users have changed; they hold from now on\n");
    }
    if *others_wait {
        let named = if others.is_empty() { String::new() } else { format!(": {}", others.join(", ")) };
        told.push_str(&format!(
            "other settings have changed{named}; that is taken up when the manager is started again\n"
        ));
    }
    if told.is_empty() { "nothing has changed\n".to_owned() } else { told }
}
