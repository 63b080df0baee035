//! Tables 3 and 4: affinities out of the published throughputs.

use scheduler::policy::{
    affinity::{Affinity, corunner::CorunnerAffinity},
    table::Table,
};

use crate::report::{Cell, Claim, Listing, Part, Verdict};

use super::published::{ALONE, APPLICATIONS, EPA, MORE, MORE_PERCENT, PLATFORMS, ROUNDING, RPA};

/// Both tables.
pub fn parts() -> Vec<Part> {
    vec![table_3(), table_4()]
}

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
        let mut rows = Vec::new();
        for (application, row) in published.iter().enumerate() {
            for (platform, value) in row.iter().enumerate() {
                let found = ours.at(application, platform);
                let play = play(affinity, application, platform);
                let verdict = match (found - value).abs() <= 0.0005 + play {
                    true => Verdict::Exact,
                    false => Verdict::of_number(*value, found, 3, 0.002, Verdict::SameOrder),
                };
                rows.push((application, platform, *value, found, verdict));
            }
        }
        let n_exact = rows.iter().filter(|row| row.4 == Verdict::Exact).count();
        let largest = rows.iter().map(|row| (row.2 - row.3).abs()).fold(0.0, f64::max);
        part.claims.push(Claim {
            what: format!("{name}, 20 values"),
            published: "Table 3".into(),
            ours: format!("{n_exact} of 20 exact; largest difference {largest:.5}"),
            verdict: match n_exact {
                20 => Verdict::Exact,
                _ => Verdict::Within { tolerance: format!("{largest:.5}") },
            },
        });
        part.tables.push(listing(&name.to_lowercase(), name, 3, &rows));
    }
    part.claims.push(mean_on_cheetah());
    part.claims.push(slowdown_on_gene("ThreeKaonOmega", 4));
    part.claims.push(slowdown_on_gene("any application", 3));
    part
}

fn table_4() -> Part {
    let mut rows = Vec::new();
    for (application, row) in MORE_PERCENT.iter().enumerate() {
        for (platform, value) in row.iter().enumerate() {
            let alone = ALONE[application][platform];
            let found =
                CorunnerAffinity::Normalized.difference(alone + MORE[application][platform], alone) * 100.0;
            // The seconds are printed with two digits.
            let play = ROUNDING / alone * 100.0;
            let verdict = match (found - value).abs() <= 0.005 + play {
                true => Verdict::Exact,
                false => Verdict::of_number(*value, found, 2, 0.02, Verdict::SameOrder),
            };
            rows.push((application, platform, *value, found, verdict));
        }
    }
    let n_exact = rows.iter().filter(|row| row.4 == Verdict::Exact).count();
    let largest = rows.iter().map(|row| (row.2 - row.3).abs()).fold(0.0, f64::max);
    let claim = Claim {
        what: "normalized co-runner difference, 20 values".into(),
        published: "Table 4".into(),
        ours: format!("{n_exact} of 20 exact; largest difference {largest:.3} points"),
        verdict: match n_exact {
            20 => Verdict::Exact,
            _ => Verdict::Within { tolerance: format!("{largest:.3} points") },
        },
    };
    Part {
        title: "Table 4: co-runner affinities".into(),
        text: "Normalized from the published seconds and the times alone. Runtimes of single combinations are \
               not published; the simulation spreads the averages over them by a model of ours (pressure of the \
               other tasks on CPU, memory and I/O), which keeps every average and the largest slowdown, 3.28."
            .into(),
        claims: vec![claim],
        tables: vec![listing("corunner-percent", "Normalized co-runner difference, percent", 2, &rows)],
        figures: Vec::new(),
    }
}

fn runtimes(more: impl Fn(usize, usize) -> f64) -> Table<f64> {
    Table::new(ALONE.len(), PLATFORMS.len(), ()).map_places(|application, platform| {
        let alone = ALONE[application][platform];
        // AutoDock's seconds are rounded, of the others tasks an hour.
        if application == 0 {
            alone + more(application, platform)
        } else {
            3600.0 / (3600.0 / alone + more(application, platform))
        }
    })
}

/// How far the rounding of all printed inputs together may move one value.
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
    Claim {
        what: "mean runtime on cheetah, s (section 4.1)".into(),
        published: "167.97".into(),
        ours: format!("{mean:.2}"),
        verdict: Verdict::of_number(167.97, mean, 2, 0.01, Verdict::SameOrder),
    }
}

/// "Up to 2.82" (section 2.2), of one application or of all.
fn slowdown_on_gene(who: &str, application: usize) -> Claim {
    let slowdown = |row: &[f64; 4]| row[0] / row.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = match application {
        4 => slowdown(&ALONE[4]),
        _ => ALONE.iter().map(slowdown).fold(0.0, f64::max),
    };
    let why = "Table 3 itself gives Montage 33.76 / 11.64 = 2.900".into();
    Claim {
        what: format!("slowdown on gene against the quickest platform, {who} (section 2.2)"),
        published: "up to 2.82".into(),
        ours: format!("{largest:.3}"),
        verdict: Verdict::of_number(2.82, largest, 2, 0.01, Verdict::Not { why }),
    }
}

fn listing(name: &str, title: &str, n_digits: usize, rows: &[(usize, usize, f64, f64, Verdict)]) -> Listing {
    let columns = ["application", "platform", "published", "here", "verdict"].map(String::from).to_vec();
    let rows = rows.iter().map(|(application, platform, published, ours, verdict)| {
        vec![
            APPLICATIONS[*application].into(),
            PLATFORMS[*platform].into(),
            Cell::Number(*published, n_digits),
            Cell::Number(*ours, n_digits + 2),
            verdict.word().into(),
        ]
    });
    Listing { name: name.into(), title: title.into(), columns, rows: rows.collect() }
}
