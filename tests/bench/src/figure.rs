//! A measured figure beside its budget and what others reach.

use serde::Serialize;

/// What a figure should be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Exactly this.
    Exactly(f64),
    /// Only shown: it explains another figure.
    None,
}

/// One measured figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The line of the budget table that it belongs to.
    pub line: &'static str,
    /// What it is.
    pub name: String,
    /// What came out.
    pub value: f64,
    /// In what.
    pub unit: &'static str,
    /// What should come out.
    pub goal: Goal,
    /// What the best of the others reaches, in words, and from where.
    pub peer: String,
}

impl Figure {
    /// A figure with a goal.
    pub fn new(
        line: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: Goal,
    ) -> Figure {
        Figure { line, name: name.into(), value, unit, goal, peer: String::new() }
    }

    /// With what the best of the others reaches, from the recorded table.
    pub fn recorded(self, peer: &str) -> Figure {
        Figure { peer: format!("{peer} (recorded)"), ..self }
    }

    /// With what HyperQueue reached in this run.
    pub fn measured(self, peer: String) -> Figure {
        Figure { peer, ..self }
    }

    /// Whether it is what it should be; `None` without a goal.
    pub fn is_met(&self) -> Option<bool> {
        match self.goal {
            Goal::AtLeast(goal) => Some(self.value >= goal),
            Goal::AtMost(goal) => Some(self.value <= goal),
            Goal::Exactly(goal) => Some(self.value == goal),
            Goal::None => None,
        }
    }

    /// One line for people.
    pub fn show(&self) -> String {
        let goal = match self.goal {
            Goal::AtLeast(goal) => format!(">= {}", number(goal)),
            Goal::AtMost(goal) => format!("<= {}", number(goal)),
            Goal::Exactly(goal) => number(goal),
            Goal::None => String::new(),
        };
        let verdict = match self.is_met() {
            Some(true) => "ok",
            Some(false) => "not met",
            None => "",
        };
        let value = format!("{} {}", number(self.value), self.unit);
        let peer = if self.peer.is_empty() { String::new() } else { format!("  best peer: {}", self.peer) };
        format!("{:<58} {value:>20}  {goal:>12}  {verdict:<8}{peer}", self.name).trim_end().to_owned()
    }
}

/// A number with about three digits that mean something, and groups of three before the point.
pub fn number(value: f64) -> String {
    let n_decimals = match value.abs() {
        v if v >= 100.0 || v == v.trunc() => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.n_decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (n, digit) in whole.chars().enumerate() {
        let is_border = n > 0 && (whole.len() - n).is_multiple_of(3) && whole.as_bytes()[n - 1] != b'-';
        if is_border {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}
