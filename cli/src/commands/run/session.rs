//! The life of a `run`: following its job, heeding Ctrl-C, and leaving nothing running.

use std::{pin::pin, time::Duration};

use adapters::transport::end_commands;
use manager::Manager;
use scheduler::{engine::interface::views::JobView, ids::JobId};

use crate::{
    client::{Client, EventStream},
    failure::{Failure, Outcome},
    follow::follow_from,
    progress::Progress,
    show,
    sys::interrupts::{Interrupt, Interrupts},
};

/// The last news of a manager that has just ended are here by then.
const LAST_NEWS_LIMIT: Duration = Duration::from_millis(300);
/// Pilots with nothing to do go within this time; the rest go with this process.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Pilots that could not be started in a row; the waits between are one second and two. What keeps a
/// pilot from starting on this host seldom passes by itself, and nothing is lost by ending.
const N_FAILURES_MAX: u32 = 3;
/// So soon after the last of them it is over; asking within this process costs nothing.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How following ended.
pub enum End {
    /// The job is over.
    Over(Box<JobView>),
    /// The manager was stopped first.
    Stopped,
}

/// What runs jobs here.
pub struct Session<'a> {
    /// The way to the manager.
    pub client: &'a Client,
    /// The manager.
    pub manager: &'a mut Manager,
    /// What the user says.
    pub interrupts: &'a mut Interrupts,
}

impl Session<'_> {
    /// Follows a job until it is over, or the user has stopped the manager; from `news` on, see [`follow_from`].
    ///
    /// # Errors
    /// The manager failed.
    pub async fn follow(
        &mut self,
        job: JobId,
        news: Option<EventStream>,
        progress: &mut Progress,
    ) -> Result<End, Failure> {
        let voice = progress.voice();
        let mut following = pin!(follow_from(self.client, news, job, progress));
        let mut hopeless = pin!(hopeless(self.client));
        loop {
            tokio::select! {
                line = &mut hopeless => return Err(Failure::infrastructure(line)),
                job = &mut following => return Ok(End::Over(Box::new(job?))),
                ended = self.manager.wait() => {
                    ended.map_err(|error| Failure::infrastructure(error.to_string()))?;
                    return match tokio::time::timeout(LAST_NEWS_LIMIT, following).await {
                        Ok(Ok(job)) => Ok(End::Over(Box::new(job))),
                        Ok(Err(_)) | Err(_) => Ok(End::Stopped),
                    };
                }
                interrupt = self.interrupts.next() => match interrupt {
                    Interrupt::Asked => {
                        voice.say("letting running tasks finish; press Ctrl-C again to stop them now");
                        shut_down(self.client, false);
                    }
                    Interrupt::Insisted => {
                        voice.say("stopping");
                        shut_down(self.client, true);
                    }
                    Interrupt::Demanded => leave_at_once(),
                },
            }
        }
    }

    /// Ends the manager and its pilot.
    pub async fn end(mut manager: Manager, client: &Client, interrupts: &mut Interrupts) {
        shut_down(client, false);
        let mut limit = pin!(tokio::time::sleep(END_LIMIT));
        loop {
            tokio::select! {
                // A store that failed has been told of, or does not matter any more.
                _ = manager.wait() => break,
                () = &mut limit => {
                    show::say("the pilot does not end by itself; it is ended with this process");
                    break;
                }
                interrupt = interrupts.next() => match interrupt {
                    Interrupt::Asked | Interrupt::Insisted => shut_down(client, true),
                    Interrupt::Demanded => leave_at_once(),
                },
            }
        }
        let closed = async {
            let left = manager.take_leave().await;
            crate::commands::server::stop::told(&left).iter().for_each(|line| show::say(line));
            manager.close().await;
        };
        if tokio::time::timeout(END_LIMIT, closed).await.is_err() {
            show::say("the manager does not end by itself; nothing is lost");
        }
    }
}

/// Ends when pilots cannot be started, with the reason.
async fn hopeless(client: &Client) -> String {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // A manager that does not answer is dealt with by those who follow.
        let Ok(answer) = client.platforms().await else { continue };
        let failing = answer.platforms.iter().find(|platform| platform.n_failures >= N_FAILURES_MAX);
        if let Some(platform) = failing.filter(|platform| platform.n_pilots == 0) {
            let what = platform.last_failure.as_deref().unwrap_or("the reason is not known");
            return format!(
                "no pilot can be started here, after {} attempts: {what}; pilots/*/pilot.log in the run's folder says more, unless its disk is full: then make room and start again",
                platform.n_failures
            );
        }
    }
}

/// Asks the manager to end; `Manager::wait` tells when it has.
fn shut_down(client: &Client, now: bool) {
    let client = client.clone();
    tokio::spawn(async move {
        // Asked already, or gone already: either way it ends.
        let _ = client.shut_down(now).await;
    });
}

/// The pilot watches this process and ends with it, tasks and all.
fn leave_at_once() -> ! {
    end_commands();
    std::process::exit(Outcome::Interrupted.code().into())
}
