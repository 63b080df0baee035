//! Numbers, times and sizes as people read them.

use jiff::{Timestamp, tz::TimeZone};

use scheduler::{
    size::Size,
    time::{Span, Time},
};

const MINUTE_US: u64 = 60_000_000;

/// A part of 1: `40 %`.
pub fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A number with its thousands apart: `1,000,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 task`, `2,000 tasks`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A measured span: `0.4ms`, `12ms`, `3.2s`, `4m 05s`.
pub fn span(span: Span) -> String {
    if span.0 > 0 && span.0 < 10_000 {
        return format!("{:.1}ms", span.0 as f64 / 1e3);
    }
    span.to_string()
}

/// How long ago, where tenths of seconds say nothing: `3s`, `4m 05s`.
pub fn age(now: Time, then: Time) -> String {
    let age = now.since(then);
    if age.0 < MINUTE_US { format!("{}s", age.0 / 1_000_000) } else { age.to_string() }
}

/// The local clock; with the date when it is not today's: `10:45:12`, `2026-11-20 10:45:12`.
pub fn clock(time: Time, now: Time) -> String {
    let zone = TimeZone::system();
    let zoned = |time: Time| timestamp(time).to_zoned(zone.clone());
    let (then, now) = (zoned(time), zoned(now));
    let form = if then.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    then.strftime(form).to_string()
}

/// For programs: RFC 3339 in UTC, microseconds included.
pub fn rfc3339(time: Time) -> String {
    format!("{:.6}", timestamp(time))
}

/// A size: `512 B`, `1.5 GiB`.
pub fn bytes(bytes: u64) -> String {
    Size(bytes).to_string()
}

/// So many a second, with as many digits as say something.
pub fn rate(per_second: f64) -> String {
    match per_second {
        fast if fast >= 100.0 => count(fast.round() as u64),
        fair if fair >= 1.0 => format!("{fair:.1}"),
        slow => format!("{slow:.2}"),
    }
}

/// A mean with its deviation, where there is one: `3.2s ± 0.4s`.
pub fn mean_and_deviation(mean: Option<Span>, deviation: Option<Span>) -> Option<String> {
    let mean = mean?;
    // That of a single task says nothing.
    Some(match deviation.filter(|deviation| *deviation > Span::ZERO) {
        Some(deviation) => format!("{} ± {}", span(mean), span(deviation)),
        None => span(mean),
    })
}

fn timestamp(time: Time) -> Timestamp {
    let microseconds = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use scheduler::time::{Span, Time};

    #[test]
    fn thousands_stand_apart() {
        let shown: Vec<String> =
            [0, 999, 1000, 123_456, 1_000_000_000].into_iter().map(super::count).collect();
        assert_eq!(shown, ["0", "999", "1,000", "123,456", "1,000,000,000"]);
        assert_eq!(super::counted(1, "task"), "1 task");
        assert_eq!(super::counted(0, "task"), "0 tasks");
    }

    #[test]
    fn short_spans_keep_a_digit() {
        assert_eq!(super::span(Span(400)), "0.4ms");
        assert_eq!(super::span(Span(12_345)), "12ms");
        assert_eq!(super::span(Span(3_210_000)), "3.2s");
    }

    #[test]
    fn times_for_programs_are_in_utc() {
        assert_eq!(super::rfc3339(Time(1_700_000_000_250_000)), "2023-11-14T22:13:20.250000Z");
        assert_eq!(super::rfc3339(Time(u64::MAX)).len(), 27);
    }

    #[test]
    fn rates_have_as_many_digits_as_say_something() {
        assert_eq!([0.034, 7.25, 12_345.6].map(super::rate), ["0.03", "7.2", "12,346"]);
    }
}
