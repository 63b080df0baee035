//! How far simulations are: a bar on standard error where it is a terminal, and nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use simulator::scenario::patience::HowFar;

use crate::show::format;

/// How far many runs are; nothing for a single one.
pub(super) fn of_runs(n: u64, what: &str) -> ProgressBar {
    match n {
        1 => ProgressBar::hidden(),
        n => styled(n, &format!("{{pos}} of {{len}} {what} {{wide_bar}} {{per_sec}} {{eta}} left")),
    }
}

/// How far so many runs with so many tasks each are; its message is how many runs have ended.
pub(super) fn of_many(n_runs: u64, n_tasks: u64) -> ProgressBar {
    let template = format!("{{msg}} of {n_runs} runs {{wide_bar}} {{percent}}% {{eta}} left");
    styled(n_runs.saturating_mul(n_tasks), &template).with_message("0")
}

/// How far one run with so many tasks is.
pub(super) fn of_tasks(n: u64) -> ProgressBar {
    styled(n, "{msg} simulated, {human_pos} of {human_len} tasks {wide_bar} {eta} left")
}

/// So far it is now.
pub(super) fn show(bar: &ProgressBar, how_far: HowFar) {
    // A text for each of many thousand calls a second would take longer than the run.
    if bar.is_hidden() {
        return;
    }
    bar.set_message(format::span(how_far.at));
    bar.set_position(how_far.n_ended);
}

/// Takes the bar away. Runs that were interrupted go on until the process ends: they must not bring it back.
pub(super) fn end(bar: &ProgressBar) {
    bar.finish_and_clear();
    bar.set_draw_target(ProgressDrawTarget::hidden());
}

fn styled(n: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(n).with_style(style)
}
