//! What is shown of a job while it runs: a bar on a terminal, a line now and then elsewhere.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use scheduler::{
    engine::views::{Counts, JobView},
    time::Span,
};

use crate::{
    failure::without_numbers,
    show::{
        Ink, Screen,
        format::{count, counted, rate, span},
        table::shortened,
    },
};

/// Without a terminal a line this often.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Failures of each kind, final or not, shown one by one; the rest is counted.
const N_FAILURES_SHOWN_MAX: u64 = 10;
/// The rate is that of this last while, when enough has happened in it.
const RATE_WINDOW: Duration = Duration::from_secs(20);
/// So many ends within the window say more than all before.
const RATE_ENDS_MIN: u64 = 10;
/// A message from outside in so many characters at most.
const MESSAGE_LEN_MAX: usize = 300;
/// A job's name beside the bar.
const NAME_LEN_MAX: usize = 24;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// A bar or lines, and failures.
    All,
    /// Failures only.
    Failures,
    /// Nothing.
    Nothing,
}

/// Shows a job's progress on standard error.
pub struct Progress {
    verbosity: Verbosity,
    screen: Screen,
    bar: Option<ProgressBar>,
    last_line: Instant,
    last_shown: String,
    last_trouble: String,
    pace: Pace,
    counts: Counts,
    last: Option<JobView>,
    failures: Quota,
    retries: Quota,
}

/// So many lines of one kind, and no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Quota {
    n_seen: u64,
}

impl Quota {
    /// Counts one more; whether it gets its line.
    fn take(&mut self) -> bool {
        self.n_seen += 1;
        self.n_seen <= N_FAILURES_SHOWN_MAX
    }

    fn has_room(self) -> bool {
        self.n_seen < N_FAILURES_SHOWN_MAX
    }

    fn n_left_out(self) -> u64 {
        self.n_seen.saturating_sub(N_FAILURES_SHOWN_MAX)
    }
}

/// Says lines that stay, above the bar where there is one.
#[derive(Clone, Default)]
pub struct Voice {
    bar: Option<ProgressBar>,
}

impl Voice {
    /// Says a line.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::show::say(line)),
            None => crate::show::say(line),
        }
    }
}

/// Whoever is interrupted leaves no bar behind.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Progress {
    /// Nothing is shown before the first update.
    pub fn new(verbosity: Verbosity) -> Progress {
        let screen = Screen::stderr();
        let has_bar = verbosity == Verbosity::All && screen.is_terminal;
        Progress {
            verbosity,
            screen,
            bar: has_bar.then(|| new_bar(screen.has_colour)),
            last_line: Instant::now(),
            last_shown: String::new(),
            last_trouble: String::new(),
            pace: Pace::default(),
            counts: Counts::default(),
            last: None,
            failures: Quota::default(),
            retries: Quota::default(),
        }
    }

    /// Says lines while this is used elsewhere.
    pub fn voice(&self) -> Voice {
        Voice { bar: self.bar.clone() }
    }

    /// The job as it was last seen.
    pub fn last(&self) -> Option<&JobView> {
        self.last.as_ref()
    }

    /// The job's state has changed.
    pub fn update(&mut self, job: &JobView) {
        self.counts = job.counts;
        self.last = Some(job.clone());
        self.pace.note(Instant::now(), n_ended(&job.counts));
        if self.verbosity != Verbosity::All {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_prefix(shortened(&job.name, NAME_LEN_MAX));
            bar.set_length(job.counts.total);
            bar.set_position(n_ended(&job.counts));
            bar.set_message(self.message());
        }
        self.tick();
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        if self.verbosity != Verbosity::All || self.counts.total == 0 {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.set_message(self.message());
            return;
        }
        if self.last_line.elapsed() < LINE_EVERY {
            return;
        }
        self.last_line = Instant::now();
        let message = self.message();
        // A long task gives no news; saying the same again and again fills logs.
        if message != self.last_shown {
            self.say(&message);
            self.last_shown = message;
        }
    }

    /// Whether a failure of this kind would be shown.
    pub fn wants_failure(&self, is_final: bool) -> bool {
        let quota = if is_final { self.failures } else { self.retries };
        self.verbosity != Verbosity::Nothing && quota.has_room()
    }

    /// An attempt has failed.
    pub fn failure(&mut self, text: &str, is_final: bool, last_line: Option<&str>) {
        let quota = if is_final { &mut self.failures } else { &mut self.retries };
        if !quota.take() || self.verbosity == Verbosity::Nothing {
            return;
        }
        let said = last_line.map(|line| format!(" ({line})")).unwrap_or_default();
        let next = if is_final { "" } else { "; it is tried again" };
        let ink = if is_final { Ink::Red } else { Ink::Yellow };
        let line = shortened(&format!("{text}{said}{next}"), MESSAGE_LEN_MAX);
        let line = self.screen.paint(ink, &line);
        self.say(&line);
    }

    /// Something is in the way; the same is said once, whatever numbers and tags it comes with.
    pub fn trouble(&mut self, what: &str) {
        let what = without_numbers(what.to_owned());
        let gist: String = what.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
        if self.verbosity == Verbosity::Nothing || self.last_trouble == gist {
            return;
        }
        self.last_trouble = gist;
        let line = self.screen.paint(Ink::Yellow, &shortened(&what, MESSAGE_LEN_MAX));
        self.say(&line);
    }

    fn say(&self, line: &str) {
        self.voice().say(line);
    }

    /// The end: the bar goes, and what got no line is counted. `place` is the flag by which other
    /// commands find the manager.
    pub fn finish(&mut self, place: &str) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if self.verbosity == Verbosity::Nothing {
            return;
        }
        if self.retries.n_left_out() > 0 {
            let n = counted(self.retries.n_left_out(), "more attempt");
            self.say(&format!("… and {n} failed and were tried again"));
        }
        if let (n @ 1.., Some(job)) = (self.failures.n_left_out(), &self.last) {
            self.say(&format!("… and {} more: pilotfish tasks {}{place} --failed", count(n), job.id));
        }
    }

    fn message(&self) -> String {
        let counts = &self.counts;
        let mut parts = vec![format!("{}/{} done", count(counts.done), count(counts.total))];
        if counts.queued > 0 {
            parts.push(format!("{} queued", count(counts.queued)));
        }
        if counts.running > 0 {
            parts.push(format!("{} running", count(counts.running)));
        }
        if counts.failed > 0 {
            parts.push(self.screen.paint(Ink::Red, &format!("{} failed", count(counts.failed))));
        }
        if counts.cancelled > 0 {
            parts.push(format!("{} cancelled", count(counts.cancelled)));
        }
        if let Some(per_second) = self.pace.per_second(Instant::now()) {
            parts.push(format!("{}/s", rate(per_second)));
            let n_left = counts.total.saturating_sub(n_ended(counts));
            if n_left > 0 {
                parts.push(format!("ETA {}", eta(n_left, per_second)));
            }
        }
        parts.join(", ")
    }
}

/// How fast tasks end.
#[derive(Debug, Default)]
struct Pace {
    first: Option<(Instant, u64)>,
    recent: VecDeque<(Instant, u64)>,
}

impl Pace {
    fn note(&mut self, now: Instant, n_ended: u64) {
        self.first.get_or_insert((now, n_ended));
        self.recent.push_back((now, n_ended));
        while self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW) {
            self.recent.pop_front();
        }
    }

    /// Ends a second: lately, or since the beginning when little has happened lately.
    fn per_second(&self, now: Instant) -> Option<f64> {
        let (_, n_ended) = *self.recent.back()?;
        let between = |(at, n_before): (Instant, u64)| {
            let seconds = now.duration_since(at).as_secs_f64();
            let n_ends = n_ended.saturating_sub(n_before);
            (n_ends > 0 && seconds > 0.0).then(|| (n_ends, n_ends as f64 / seconds))
        };
        let lately = self.recent.front().copied().and_then(between).filter(|(n, _)| *n >= RATE_ENDS_MIN);
        lately.or_else(|| self.first.and_then(between)).map(|(_, per_second)| per_second)
    }
}

fn n_ended(counts: &Counts) -> u64 {
    counts.done.saturating_add(counts.failed).saturating_add(counts.cancelled)
}

fn eta(n_left: u64, per_second: f64) -> String {
    let seconds = n_left as f64 / per_second;
    // Beyond a century a number says nothing.
    if seconds > 3.2e9 { "centuries".to_owned() } else { span(Span::from_secs(seconds.ceil() as u64)) }
}

fn new_bar(has_colour: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let template =
        if has_colour { "{prefix} [{bar:24.cyan}] {wide_msg}" } else { "{prefix} [{bar:24}] {wide_msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Pace, Quota, eta};

    #[test]
    fn ten_lines_are_shown_and_the_rest_is_counted() {
        let mut quota = Quota::default();
        let n_shown = (0..25).filter(|_| quota.take()).count();
        assert_eq!((n_shown, quota.n_left_out(), quota.has_room()), (10, 15, false));
    }

    #[test]
    fn pace_is_that_of_the_last_while_when_enough_happened() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut pace = Pace::default();
        assert_eq!(pace.per_second(start), None);
        pace.note(at(0), 100);
        assert_eq!(pace.per_second(at(5)), None);
        pace.note(at(10), 105);
        assert_eq!(pace.per_second(at(10)), Some(0.5));
        pace.note(at(90), 180);
        pace.note(at(100), 280);
        assert_eq!(pace.per_second(at(100)), Some(10.0));
    }

    #[test]
    fn what_never_ends_has_no_number() {
        assert_eq!(eta(90, 1.0), "1m 30s");
        assert_eq!(eta(u64::MAX, 0.01), "centuries");
    }
}
