//! The pilot's exchanges with the manager: pulls, errors, registering again, leaving.

use std::time::{Duration, Instant};

use protocol::pilot::{LeaveRequest, PullRequest, RegisterAnswer};
use scheduler::{
    pilot::{Lane, PilotEvent},
    pull::{LeaveReason, Pull, PullAnswer},
    results::Report,
};

use super::{Driver, DriverError, News};
use crate::session::{
    arrival::loss,
    client::{ClientError, backoff},
};

/// Interval between reports while all slots are busy. Each report has the results of all tasks that have
/// ended since the last one: one exchange for each task would cost more than the task's process.
const REPORT_INTERVAL: Duration = Duration::from_millis(5);
/// Interval between reports while tasks are also queued here: the pilot gains nothing from a pull then. It is
/// a tenth of the prefetched work, and the time whose results a crash of the node may lose.
const REPORT_INTERVAL_SUPPLIED: Duration = Duration::from_millis(25);

impl Driver {
    pub(super) fn on_news(&mut self, news: News) -> Result<(), DriverError> {
        match news {
            News::Answered { lane, answer } => {
                self.n_failed[lane as usize] = 0;
                if self.away_since.take().is_some() {
                    tracing::info!("the manager answers again");
                }
                self.take_answer(lane, answer);
            }
            News::RetryDue { lane } => self.handle(PilotEvent::PullFailed { lane }),
            News::Trouble { lane, report, error } => {
                let refused = report.filter(|_| error.is_about_contents());
                if let Some(number) = refused {
                    self.reduce(number, &error);
                }
                self.on_trouble(lane, error, refused.is_none())?;
            }
            News::Registered(answer) => {
                self.is_registering = false;
                self.registered(&answer);
            }
            News::NotRegistered(error) if error.is_final() => return Err(error.into()),
            News::Moved(moved) => self.on_moved(moved),
            News::Told(told) => self.on_told(told),
            News::Wrote(pieces) => self.on_wrote(pieces),
            // The next failed pull registers again.
            News::NotRegistered(_) => self.is_registering = false,
        }
        Ok(())
    }

    /// Handles an answer. Holds back an answer that only acknowledges: results gather until the core has it.
    fn take_answer(&mut self, lane: Lane, answer: Box<PullAnswer>) {
        let is_supplied = self.core.has_queued();
        let interval = if is_supplied { REPORT_INTERVAL_SUPPLIED } else { REPORT_INTERVAL };
        let until = self.reported_at + interval;
        let is_mere = lane == Lane::Report && answer.parts.is_empty() && answer.resync.is_none();
        if is_mere && self.core.n_running() > 0 && self.stop_at.is_none() && Instant::now() < until {
            self.held = Some((until, answer));
        } else {
            self.handle(PilotEvent::Answered { lane, answer });
        }
    }

    pub(super) fn release(&mut self) {
        if let Some((_, answer)) = self.held.take() {
            self.handle(PilotEvent::Answered { lane: Lane::Report, answer });
        }
    }

    /// Retries later. `is_about_us`: the manager refused the pilot, not only the report.
    fn on_trouble(&mut self, lane: Lane, error: ClientError, is_about_us: bool) -> Result<(), DriverError> {
        if matches!(error, ClientError::WrongVersion { .. }) {
            return Err(error.into());
        }
        let n_failed = &mut self.n_failed[lane as usize];
        *n_failed = n_failed.saturating_add(1);
        let wait = backoff(*n_failed);
        if self.away_since.is_none() {
            tracing::warn!(%error, n_unreported = self.spool.numbers().count(), "keeping results until the manager answers");
            self.away_since = Some(Instant::now());
            self.spool.spill();
        }
        if error.is_final() && is_about_us && !self.is_registering {
            // The session is invalid: the manager may have been moved or restored from a backup.
            tracing::info!(%error, "registering again");
            self.is_registering = true;
            let (client, news, token) = (self.client.clone(), self.news.clone(), self.join.token.clone());
            let request = self.arrival.request();
            tokio::spawn(async move {
                let answered = match client.register(&token, &request).await {
                    Ok(answer) => News::Registered(Box::new(answer)),
                    Err(error) => News::NotRegistered(error),
                };
                // The receiver is gone only when the pilot has ended.
                let _ = news.send(answered);
            });
        }
        let news = self.news.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The receiver is gone only when the pilot has ended.
            let _ = news.send(News::RetryDue { lane });
        });
        Ok(())
    }

    pub(super) fn registered(&mut self, answer: &RegisterAnswer) {
        self.session = answer.session.clone();
        self.pilot = answer.registered.pilot;
        self.files.set_session(self.pilot, &answer.session);
        // Report numbers of an earlier pilot in this folder must not be used again.
        let used = self.spool.numbers().last().unwrap_or(0);
        self.handle(PilotEvent::Registered { acknowledged: answer.registered.acknowledged.max(used) });
    }

    pub(super) fn pull(&mut self, lane: Lane, mut pull: Pull, report: Option<u64>) {
        if lane == Lane::Report {
            self.reported_at = Instant::now();
        }
        pull.report = report.and_then(|number| self.kept(number));
        pull.efforts = std::mem::take(&mut self.efforts).into_values().collect();
        pull.moved = self.files.take_moved();
        pull.starved = std::mem::take(&mut self.starved).into_iter().collect();
        let request = PullRequest { pilot: self.pilot, pull };
        let (client, news, session) = (self.client.clone(), self.news.clone(), self.session.clone());
        tokio::spawn(async move {
            let answered = match client.pull(&session, &request).await {
                Ok(answer) => News::Answered { lane, answer: Box::new(answer) },
                Err(error) => News::Trouble { lane, report, error },
            };
            // The receiver is gone only when the pilot has ended.
            let _ = news.send(answered);
        });
    }

    /// Returns a report from the spool; if it cannot be read, a report that gives its tasks back.
    fn kept(&mut self, number: u64) -> Option<Report> {
        self.spool.read(number).or_else(|| {
            let report = self.core.returning(number)?;
            tracing::warn!(
                number,
                "the tasks of a report that cannot be read are given back, to be run again"
            );
            self.spool.keep(report.clone(), true);
            Some(report)
        })
    }

    /// Shortens a report that was refused for its contents: it would be refused for ever and block all later
    /// reports.
    fn reduce(&mut self, number: u64, error: &ClientError) {
        let Some(report) = self.kept(number) else { return };
        match report.reduced() {
            Some(less) => {
                tracing::warn!(%error, number, "refused; {}", loss(&report));
                self.spool.keep(less, true);
            }
            None => tracing::warn!(%error, number, "refused in its shortest form; sending it again"),
        }
    }

    pub(super) async fn say_goodbye(&self, reason: LeaveReason) {
        let request = LeaveRequest { pilot: self.pilot, report: None, reason };
        let leaving = async {
            let mut n_failed = 0;
            while let Err(error) = self.client.leave(&self.session, &request).await {
                if error.is_final() {
                    // The manager has already forgotten the pilot, as it would after leaving.
                    return tracing::debug!(%error, "left without an answer");
                }
                n_failed += 1;
                tokio::time::sleep(backoff(n_failed)).await;
            }
            tracing::info!(?reason, "left");
        };
        if tokio::time::timeout(self.farewell, leaving).await.is_err() {
            tracing::warn!(?reason, "left without an answer from the manager");
        }
    }
}
