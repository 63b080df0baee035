//! Tables 3 and 4: affinities computed from the published throughputs.

use scheduler::policy::{
    affinity::{Affinity, corunner::CorunnerAffinity},
    table::Table,
};

use crate::report::{Cell, Claim, Listing, Part, Verdict, Word};

use super::published::{ALONE, APPLICATIONS, EPA, MORE, MORE_PERCENT, PLATFORMS, ROUNDING, RPA};

/// Returns both tables.
pub fn parts() -> Vec<Part> {
    vec![table_3(), table_4()]
}

/// A value: application, platform, published, ours, verdict.
type Value = (usize, usize, f64, f64, Verdict);

const WHY: &str = "no inputs that round to the printed ones give it";

fn table_3() -> Part {
    let mut part = Part {
        title: "Table 3: platform affinities".into(),
        text: "From the published throughputs of one task on an empty node (AutoDock's times from the text). \
               Throughputs are printed with two digits after the point; a value counts as exact when it prints \
               like the published one for throughputs that round to the printed ones."
            .into(),
        ..Part::default()
    };
    for (name, affinity, published) in [("EPA", Affinity::Epa, EPA), ("RPA", Affinity::Rpa, RPA)] {
        let ours = affinity.table(&runtimes(|_, _| 0.0), &[true; 5]);
        let values = values(&published, 3, |application, platform| {
            (ours.at(application, platform), play(affinity, application, platform))
        });
        part.claims.push(all_of(&format!("{name}, 20 values"), "Table 3", &values, 5));
        part.tables.push(listing(&name.to_lowercase(), name, 3, &values));
    }
    part.claims.push(mean_on_cheetah());
    part.claims.extend(slowdown_on_gene());
    part
}

fn table_4() -> Part {
    let values = values(&MORE_PERCENT, 2, |application, platform| {
        let (alone, more) = (ALONE[application][platform], MORE[application][platform]);
        let ours = CorunnerAffinity::Normalized.difference(alone + more, alone) * 100.0;
        // Both times come from rounded numbers.
        let play_of_alone = if application == 0 { ROUNDING } else { ROUNDING * alone * alone / 3600.0 };
        (ours, (ROUNDING + more / alone * play_of_alone) / alone * 100.0)
    });
    Part {
        title: "Table 4: co-runner affinities".into(),
        text: "Normalized from the published seconds and the times alone; exact as in Table 3. Runtimes of single \
               combinations are not published; the simulation spreads the averages over them by a model of ours \
               (pressure of the other tasks on CPU, memory and I/O), which keeps every average and the largest \
               slowdown, 3.28."
            .into(),
        claims: vec![all_of("normalized co-runner difference in percent, 20 values", "Table 4", &values, 3)],
        tables: vec![listing("corunner-percent", "Normalized co-runner difference, percent", 2, &values)],
        figures: Vec::new(),
    }
}

/// Returns all 20 values. `found` returns ours, and how far the rounding of the inputs may move it.
fn values(
    published: &[[f64; 4]; 5],
    n_digits: usize,
    found: impl Fn(usize, usize) -> (f64, f64),
) -> Vec<Value> {
    let places = (0..ALONE.len()).flat_map(|a| (0..PLATFORMS.len()).map(move |p| (a, p)));
    let value = |(application, platform): (usize, usize)| {
        let (value, (ours, play)) = (published[application][platform], found(application, platform));
        (application, platform, value, ours, Verdict::of_arithmetic(value, ours, n_digits, play, WHY))
    };
    places.map(value).collect()
}

/// Makes one claim of all values of a table.
fn all_of(what: &str, published: &str, values: &[Value], n_digits: usize) -> Claim {
    let n_exact = values.iter().filter(|value| value.4.word == Word::Exact).count();
    let largest = values.iter().map(|value| (value.2 - value.3).abs()).fold(0.0, f64::max);
    let name = |value: &Value| format!("{} on {}", APPLICATIONS[value.0], PLATFORMS[value.1]);
    let others = values.iter().filter(|value| value.4.word != Word::Exact);
    let others: Vec<(String, Verdict)> = others.map(|value| (name(value), value.4.clone())).collect();
    let verdict = match others.is_empty() {
        true => Verdict::of_choice(true, ""),
        false => Verdict::of_many(&others),
    };
    let ours = format!(
        "{n_exact} of {} exact; largest difference from the printed value {largest:.n_digits$}",
        values.len()
    );
    Claim::new(what, published, ours, verdict)
}

fn runtimes(more: impl Fn(usize, usize) -> f64) -> Table<f64> {
    Table::new(ALONE.len(), PLATFORMS.len(), ()).map_places(|application, platform| {
        let alone = ALONE[application][platform];
        // AutoDock's seconds are rounded; for the others, tasks per hour are.
        if application == 0 {
            alone + more(application, platform)
        } else {
            3600.0 / (3600.0 / alone + more(application, platform))
        }
    })
}

/// Returns how far the rounding of all printed inputs together may move one value.
fn play(affinity: Affinity, application: usize, platform: usize) -> f64 {
    let at = |more: &dyn Fn(usize, usize) -> f64| {
        affinity.table(&runtimes(more), &[true; 5]).at(application, platform)
    };
    let exact = at(&|_, _| 0.0);
    let inputs = (0..ALONE.len()).flat_map(|a| (0..PLATFORMS.len()).map(move |p| (a, p)));
    inputs.map(|input| (at(&|a, p| if (a, p) == input { ROUNDING } else { 0.0 }) - exact).abs()).sum()
}

fn mean_on_cheetah() -> Claim {
    let mean = ALONE.iter().map(|row| row[1]).sum::<f64>() / ALONE.len() as f64;
    let verdict = Verdict::of_arithmetic(167.97, mean, 2, 0.0, WHY);
    Claim::new("mean runtime on cheetah, s (section 4.1)", "167.97", format!("{mean:.2}"), verdict)
}

/// Checks "up to 2.82" (section 2.2): for all applications, and for the one that has this number.
fn slowdown_on_gene() -> [Claim; 2] {
    let slowdown = |row: &[f64; 4]| row[0] / row.iter().copied().fold(f64::INFINITY, f64::min);
    let claim = |who: &str, largest: f64, why: &str| {
        Claim::new(
            format!("slowdown on gene against the quickest platform, {who} (section 2.2)"),
            "up to 2.82",
            format!("{largest:.3}"),
            Verdict::of_arithmetic(2.82, largest, 2, 0.0, why),
        )
    };
    let why =
        "Table 3 itself gives Montage 33.76 / 11.64 = 2.900; the printed number is that of ThreeKaonOmega";
    [
        claim("any application", ALONE.iter().map(slowdown).fold(0.0, f64::max), why),
        claim("ThreeKaonOmega", slowdown(&ALONE[4]), WHY).of_ours(),
    ]
}

fn listing(name: &str, title: &str, n_digits: usize, rows: &[Value]) -> Listing {
    let columns = ["application", "platform", "published", "here", "verdict"].map(String::from).to_vec();
    let rows = rows.iter().map(|(application, platform, published, ours, verdict)| {
        vec![
            APPLICATIONS[*application].into(),
            PLATFORMS[*platform].into(),
            Cell::Number(*published, n_digits),
            Cell::Number(*ours, n_digits + 2),
            verdict.word.text().into(),
        ]
    });
    Listing { name: name.into(), title: title.into(), columns, rows: rows.collect() }
}
