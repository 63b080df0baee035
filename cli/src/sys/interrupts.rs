//! Ctrl-C and SIGTERM, counted: the first asks, the second insists.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{failure::Failure, show};

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The first Ctrl-C.
    Asked,
    /// The second one, or a SIGTERM.
    Insisted,
    /// Another one after that.
    Demanded,
}

/// What the work comes to; `None` when a signal came first. Then it is said what goes on without this command.
///
/// # Errors
/// Those of the work.
pub async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
    goes_on: &str,
) -> Result<Option<T>, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let result = tokio::select! {
        result = work => Some(result?),
        _ = interrupts.next() => None,
    };
    // The work is dropped by now, and with it the bar that it showed.
    if result.is_none() {
        show::say(goes_on);
    }
    Ok(result)
}

/// Listens for signals from its making on.
pub struct Interrupts {
    ctrl_c: Signal,
    terminate: Signal,
    n_received: u32,
}

impl Interrupts {
    /// Signals no longer end the process by themselves.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> Result<Interrupts, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::infrastructure(format!("cannot listen for signals: {error}")))
        };
        Ok(Interrupts {
            ctrl_c: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            n_received: 0,
        })
    }

    /// What the work comes to; `None` when one came first. Then the work ends with this process.
    ///
    /// # Errors
    /// The work ended in a panic.
    pub async fn unless<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        tokio::select! {
            result = tokio::task::spawn_blocking(work) => match result {
                Ok(result) => Ok(Some(result)),
                Err(error) => Err(Failure::infrastructure(format!("cannot go on: {error}"))),
            },
            _ = self.next() => Ok(None),
        }
    }

    /// The next one. Safe to be dropped while waiting.
    pub async fn next(&mut self) -> Interrupt {
        let is_urgent = tokio::select! {
            _ = self.ctrl_c.recv() => false,
            _ = self.terminate.recv() => true,
        };
        self.n_received = (self.n_received + 1).max(if is_urgent { 2 } else { 1 });
        match self.n_received {
            0 | 1 => Interrupt::Asked,
            2 => Interrupt::Insisted,
            _ => Interrupt::Demanded,
        }
    }
}
