//! What commands that read have in common: which manager, how to show, how often.

use std::{io::Write, time::Duration};

use clap::Args;

use manager::Manager;

use crate::{
    access::{self, Found, Left, Where},
    client::Client,
    failure::{Failure, Outcome},
    in_process,
    show::{self, Screen, harmless::harmless},
};

/// How long a watch outlives its manager.
const WATCH_PATIENCE: u32 = 60;

/// Flags of every command that shows something.
#[derive(Args, Clone, Debug, Default)]
pub struct ViewArgs {
    #[command(flatten)]
    pub place: Where,
    /// Show JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// Show only the essential: numbers, names or states
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}

/// `--watch`
#[derive(Args, Clone, Debug, Default)]
pub struct WatchArgs {
    /// Repeat every 2 seconds, or as many as given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2")]
    pub watch: Option<String>,
}

/// A manager to read from: a living one, or one of our own on the store of one that has ended.
pub struct Reader {
    /// The way to it.
    pub client: Client,
    /// The store that is only read, when no manager is running.
    pub left: Option<Left>,
    // Serves the client as long as it lives.
    _manager: Option<Manager>,
}

impl Reader {
    /// Finds the manager that is meant, or opens the store it left.
    ///
    /// # Errors
    /// Neither is there.
    pub async fn open(place: &Where) -> Result<Reader, Failure> {
        match access::find(place).await? {
            Found::Live(client, folder) => {
                let client = client.with_last(access::last_job(place, &folder));
                Ok(Reader { client, left: None, _manager: None })
            }
            Found::Store(left) => {
                show::say(&left.to_string());
                let (manager, client) = in_process::open_store(left.folder.clone()).await?;
                let client = client.with_last(access::last_job(place, &left.folder));
                Ok(Reader { client, left: Some(left), _manager: Some(manager) })
            }
        }
    }
}

impl WatchArgs {
    /// Shows what `view` makes of a screen, once or again and again.
    ///
    /// # Errors
    /// Those of `view`; while watching, a manager that stays away for long.
    pub async fn show(
        &self,
        view: impl AsyncFn(&Screen) -> Result<String, Failure>,
    ) -> Result<Outcome, Failure> {
        let Some(every) = self.interval()? else {
            show::print(&view(&Screen::stdout()).await?)?;
            return Ok(Outcome::Fine);
        };
        let mut n_misses = 0;
        loop {
            let screen = Screen::stdout();
            match view(&screen).await {
                Ok(text) => {
                    n_misses = 0;
                    draw(&screen, &text)?;
                }
                Err(Failure::Infrastructure(line)) if n_misses < WATCH_PATIENCE => {
                    n_misses += 1;
                    draw(&screen, &format!("pilotfish: {line}; trying again\n"))?;
                }
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(every).await;
        }
    }

    fn interval(&self) -> Result<Option<Duration>, Failure> {
        let Some(text) = &self.watch else { return Ok(None) };
        let seconds = text.trim_end_matches('s').parse::<f64>().ok().filter(|s| (0.1..=86_400.0).contains(s));
        match seconds {
            Some(seconds) => Ok(Some(Duration::from_secs_f64(seconds))),
            None => Err(Failure::bad_input(format!(
                "--watch: found `{text}`; write a number of seconds from 0.1 to 86400"
            ))),
        }
    }
}

/// On a terminal in place of what was there; elsewhere below it.
fn draw(screen: &Screen, text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if screen.is_terminal {
        write!(out, "\x1b[H\x1b[2J{}", harmless(text))?;
    } else {
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::WatchArgs;

    #[test]
    fn intervals_are_seconds() {
        let interval = |text: &str| WatchArgs { watch: Some(text.to_owned()) }.interval();
        assert_eq!(interval("0.5").unwrap().unwrap().as_millis(), 500);
        assert_eq!(interval("5s").unwrap().unwrap().as_secs(), 5);
        for wrong in ["0", "-1", "soon", "NaN", "inf"] {
            let line = format!("--watch: found `{wrong}`; write a number of seconds from 0.1 to 86400");
            assert_eq!(interval(wrong).unwrap_err(), crate::failure::Failure::bad_input(line));
        }
    }
}
