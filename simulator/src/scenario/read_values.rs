//! Reads values of a scenario file: applications by name, spans, numbers and distributions.

use protocol::{
    job::{Node, Reader, nearest},
    text::units::parse_duration_ms,
};
use scheduler::time::Span;

use super::distribution::Distribution;
use crate::world::patience::LASTS_AT_MOST;

/// The largest number of nodes of a scenario, so that its cost is bounded.
pub(super) const N_NODES_MAX: i128 = 100_000;
/// The largest number of tasks.
pub(super) const N_TASKS_MAX: u64 = 100_000_000;

pub(super) const TIME_EXPECTED: &str = "write a duration like 40s, or {uniform: [20s, 60s]}, {exponential: 40s}, {lognormal: {mean: 40s, spread: 0.5}} or {bounded-pareto: {shape: 1.1, min: 1s, max: 1h}}";

/// Returns the position of an application.
pub(super) fn which(reader: &mut Reader<'_>, path: &str, name: &str, applications: &[&str]) -> Option<usize> {
    let place = applications.iter().position(|known| *known == name);
    // If there are no applications, this was reported already.
    if place.is_none() && !applications.is_empty() {
        let expected = match nearest(name, applications.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the applications are {}", applications.join(", ")),
        };
        return reader.report(path, format!("the unknown application `{name}`"), expected);
    }
    place
}

/// Reads a span with a unit, not longer than a scenario may last.
pub(super) fn duration(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Span> {
    let span = reader.quantity(node, parse_duration_ms).map(Span::from_millis)?;
    if span <= LASTS_AT_MOST {
        return Some(span);
    }
    reader.refuse(node, "write 3650d or less: a scenario lasts ten years at most")
}

/// Reads a span with a unit, of at least `least_s` seconds.
pub(super) fn duration_from(
    reader: &mut Reader<'_>,
    node: &Node<'_>,
    least_s: u64,
    expected: &str,
) -> Option<Span> {
    let span = duration(reader, node)?;
    if span >= Span::from_secs(least_s) { Some(span) } else { reader.refuse(node, expected) }
}

/// Reads a speed relative to other platforms, within bounds far beyond real ones.
pub(super) fn speed(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<f64> {
    let speed = reader.number(node)?;
    if (0.001..=1000.0).contains(&speed) {
        Some(speed)
    } else {
        reader.refuse(node, "write a number from 0.001 to 1000")
    }
}

/// Reads a number above 0.
pub(super) fn positive(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<f64> {
    let number = reader.number(node)?;
    if number > 0.0 { Some(number) } else { reader.refuse(node, "write a number above 0") }
}

/// Reads a distribution.
pub(super) fn time(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Distribution> {
    let seconds = |reader: &mut Reader<'_>, node: &Node<'_>| Some(duration(reader, node)?.as_secs_f64());
    if !node.value.is_mapping() {
        return seconds(reader, node).map(Distribution::Constant);
    }
    let mut fields = reader.fields(
        node,
        &["constant", "uniform", "exponential", "lognormal", "bounded-pareto"],
        TIME_EXPECTED,
    )?;
    if let Some(node) = fields.take("constant") {
        return seconds(reader, &node).map(Distribution::Constant);
    }
    if let Some(node) = fields.take("exponential") {
        return seconds(reader, &node).map(Distribution::Exponential);
    }
    if let Some(node) = fields.take("uniform") {
        let items = reader.items(&node, "write the shortest and the longest: [20s, 60s]")?;
        let ends: Vec<f64> = items.iter().filter_map(|item| seconds(reader, item)).collect();
        return match ends[..] {
            [low, high] if low <= high => Some(Distribution::Uniform { low, high }),
            _ if ends.len() < items.len() => None,
            _ => reader.refuse(&node, "write the shortest and the longest: [20s, 60s]"),
        };
    }
    if let Some(node) = fields.take("lognormal") {
        let expected = "write {mean: 40s, spread: 0.5}: the spread is the standard deviation over the mean";
        let mut parts = reader.fields(&node, &["mean", "spread"], expected)?;
        let mean = reader.required(&mut parts, &node, "mean", expected);
        let spread = reader.required(&mut parts, &node, "spread", expected);
        let mean = mean.and_then(|node| seconds(reader, &node));
        let spread = spread.and_then(|node| positive(reader, &node));
        return Some(Distribution::Lognormal { mean: mean?, spread: spread? });
    }
    let expected = "write {shape: 1.1, min: 1s, max: 1h}";
    let Some(node) = fields.take("bounded-pareto") else { return reader.refuse(node, TIME_EXPECTED) };
    let mut parts = reader.fields(&node, &["shape", "min", "max"], expected)?;
    let [shape, low, high] =
        ["shape", "min", "max"].map(|name| reader.required(&mut parts, &node, name, expected));
    let shape = shape.and_then(|node| positive(reader, &node));
    let low = low.and_then(|node| seconds(reader, &node));
    let high = high.and_then(|node| seconds(reader, &node));
    match (shape?, low?, high?) {
        (shape, low, high) if 0.0 < low && low < high => {
            Some(Distribution::BoundedPareto { shape, low, high })
        }
        _ => reader.refuse(&node, "the least must be above 0 and below the most"),
    }
}
