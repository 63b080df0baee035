//! What is shown of a job while it runs: a bar on a terminal, a line now and then elsewhere.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use scheduler::{
    engine::interface::views::{Counts, JobView},
    time::Span,
};

use crate::{
    failure::without_numbers,
    show::{
        Ink, Screen,
        format::{count, counted, rate, span},
        table::{shortened, width_of},
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
const NAME_LEN_MIN: usize = 6;
/// The bar between its brackets.
const BAR_LEN_MAX: usize = 24;
const BAR_LEN_MIN: usize = 6;
/// The width of a terminal that does not tell its own.
const WIDTH_DEFAULT: usize = 80;

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
        self.say_in(Ink::Plain, line);
    }

    /// Says a line in this ink.
    fn say_in(&self, ink: Ink, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::show::say_in(ink, line)),
            None => crate::show::say_in(ink, line),
        }
    }
}

/// The state of a job of which nothing begins.
const PAUSED: &str = "paused";

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
            bar: has_bar.then(new_bar),
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
        let was_active = self.last.as_ref().is_some_and(|last| last.state != PAUSED);
        if was_active && job.state == PAUSED {
            self.trouble(&format!("job {} is paused; `pilotfish resume {}` lets it go on", job.id, job.id));
        }
        self.counts = job.counts;
        self.last = Some(job.clone());
        self.pace.note(Instant::now(), n_ended(&job.counts));
        if self.verbosity != Verbosity::All {
            return;
        }
        self.tick();
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        if self.verbosity != Verbosity::All || self.counts.total == 0 {
            return;
        }
        if let Some(bar) = &self.bar {
            // The window may have another width by now.
            let width = Screen::stderr().width.unwrap_or(WIDTH_DEFAULT);
            let name = self.last.as_ref().map_or("", |job| &job.name);
            bar.set_message(bar_line(name, &self.counts, self.pace(), width, &self.screen));
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
        self.voice().say_in(ink, &line);
    }

    /// Something is in the way; the same is said once, whatever numbers and tags it comes with.
    pub fn trouble(&mut self, what: &str) {
        let what = without_numbers(what.to_owned());
        let gist: String = what.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
        if self.verbosity == Verbosity::Nothing || self.last_trouble == gist {
            return;
        }
        self.last_trouble = gist;
        self.voice().say_in(Ink::Yellow, &shortened(&what, MESSAGE_LEN_MAX));
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
        let parts = parts(&self.counts, self.pace());
        parts.iter().map(|part| self.screen.paint(part.ink, &part.text)).collect::<Vec<_>>().join(", ")
    }

    fn pace(&self) -> Option<f64> {
        self.pace.per_second(Instant::now())
    }
}

/// A part of what is said of a job's progress.
struct Part {
    text: String,
    ink: Ink,
    /// Of parts for which there is no room, those with the largest number are left out first.
    order: u8,
}

/// What is said of a job's progress, of which so many tasks end a second.
fn parts(counts: &Counts, per_second: Option<f64>) -> Vec<Part> {
    let part = |order, text: String| Part { text, ink: Ink::Plain, order };
    let mut parts = vec![part(0, format!("{}/{} done", count(counts.done), count(counts.total)))];
    if counts.queued > 0 {
        parts.push(part(5, format!("{} queued", count(counts.queued))));
    }
    if counts.running > 0 {
        parts.push(part(3, format!("{} running", count(counts.running))));
    }
    if counts.failed > 0 {
        parts.push(Part { ink: Ink::Red, ..part(1, format!("{} failed", count(counts.failed))) });
    }
    if counts.cancelled > 0 {
        parts.push(part(2, format!("{} cancelled", count(counts.cancelled))));
    }
    if let Some(per_second) = per_second {
        parts.push(part(4, format!("{}/s", rate(per_second))));
        let n_left = counts.total.saturating_sub(n_ended(counts));
        if n_left > 0 {
            parts.push(part(1, format!("ETA {}", eta(n_left, per_second))));
        }
    }
    parts
}

/// The job's name, a bar, and what is said of its progress, on one line of this screen: the bar is shortened first, then
/// the name, and then the least important parts are left out.
fn bar_line(name: &str, counts: &Counts, per_second: Option<f64>, width: usize, screen: &Screen) -> String {
    // Terminals may break the line after their last place.
    let width = width.saturating_sub(1);
    let mut parts = parts(counts, per_second);
    let said_width = |parts: &[Part]| {
        parts.iter().map(|part| width_of(&part.text)).sum::<usize>() + 2 * (parts.len().max(1) - 1)
    };
    let least = NAME_LEN_MIN + 1 + BAR_LEN_MIN + 3;
    while said_width(&parts) + least > width && parts.len() > 1 {
        let last = parts.iter().map(|part| part.order).max().unwrap_or_default();
        parts.retain(|part| part.order != last);
    }
    let room = width.saturating_sub(said_width(&parts));
    let name = shortened(name, NAME_LEN_MAX.min(room.saturating_sub(1 + BAR_LEN_MIN + 3).max(NAME_LEN_MIN)));
    let bar_len = room.saturating_sub(width_of(&name) + 1 + 3).min(BAR_LEN_MAX);
    let said: Vec<String> = parts.iter().map(|part| screen.paint(part.ink, &part.text)).collect();
    if bar_len < BAR_LEN_MIN {
        return shortened_line(&said.join(", "), &parts, width);
    }
    let share = n_ended(counts) as f64 / (counts.total.max(1)) as f64;
    let n_full = (share * bar_len as f64).floor() as usize;
    let arrow = if n_full < bar_len { ">" } else { "" };
    let bar = format!("{}{arrow}", "=".repeat(n_full.min(bar_len)));
    let bar = screen.paint(Ink::Cyan, &format!("{bar:<bar_len$}"));
    format!("{name} [{bar}] {}", said.join(", "))
}

/// Only what is said, for a screen that has room for nothing else.
fn shortened_line(said: &str, parts: &[Part], width: usize) -> String {
    let plain = parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(", ");
    if width_of(&plain) <= width { said.to_owned() } else { shortened(&plain, width) }
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

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use scheduler::engine::interface::views::Counts;

    use super::{Pace, Quota, bar_line, eta};
    use crate::show::{Screen, table::width_of};

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

    fn line(name: &str, width: usize) -> String {
        let counts = Counts {
            total: 10_000_000,
            done: 2_500_000,
            queued: 123_456,
            running: 65_536,
            failed: 1_234,
            cancelled: 5_678,
            ..Counts::default()
        };
        bar_line(name, &counts, Some(123_456.7), width, &Screen::default())
    }

    #[test]
    fn bar_fits_the_screen_with_the_rest_that_matters() {
        for name in ["x", "a-very-long-name-of-a-job-that-says-all", "漢字漢字漢字漢字漢字漢字漢字漢字"]
        {
            for width in [20, 40, 80, 120, 200] {
                let line = line(name, width);
                assert!(width_of(&line) < width, "{width}: {line}");
            }
            let line = line(name, 80);
            for part in ["2,500,000/10,000,000 done", "1,234 failed", "ETA 1m 01s", "["] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
        let all = line("dock", 200);
        assert!(
            all.starts_with("dock [======>                 ] 2,500,000/10,000,000 done, 123,456 queued"),
            "{all}"
        );
        assert!(
            all.ends_with("65,536 running, 1,234 failed, 5,678 cancelled, 123,457/s, ETA 1m 01s"),
            "{all}"
        );
    }

    #[test]
    fn bar_of_a_job_that_is_over_is_full() {
        let counts = Counts { total: 4, done: 4, ..Counts::default() };
        let line = bar_line("x", &counts, None, 80, &Screen::default());
        assert_eq!(line, format!("x [{}] 4/4 done", "=".repeat(24)));
    }
}
