//! The 24 workloads: gains over core-based weights (section 4.4 and the abstract).

use super::trials::{
    CORE, LOAD, MEASURED, Metric, N_MAIN, PUBLISHED, SOUND, STATIC, Trials, contestants, everywhere, of,
};
use crate::{
    adaptive::{
        published::{GAINS, MEAN_OF_PRINTED_GAINS, REFERENCE},
        world::Condition,
    },
    report::{Cell, Claim, Draws, Figure, Listing, Part, Shape, Verdict},
};

/// Formats a gain in percent, with its sign.
pub(super) fn percent(gain: f64) -> String {
    format!("{gain:+.1} %")
}

/// Formats a gain over several seeds.
fn spread(gain: Draws) -> String {
    match gain.n {
        0 | 1 => percent(gain.mean),
        _ => format!("{:+.1} ± {:.1} %", gain.mean, gain.sd),
    }
}

pub(super) fn part(trials: &Trials, n_seeds: usize) -> Part {
    Part {
        title: "Gains over core-based weights (abstract, section 4.4)".into(),
        text: text(n_seeds),
        claims: claims(trials),
        tables: vec![means(trials), cells(trials)],
        figures: vec![by_condition(trials)],
    }
}

fn text(n_seeds: usize) -> String {
    format!(
        "A fluid simulation of a cluster and a cloud of 24 cores each: each platform works on the first \
         job of its queue; a failed attempt is tried again. 100 jobs with 100,000 tasks together come in \
         one of four patterns (stable; growing from 0.2 to 1.8 of the mean rate; bursting, four times up \
         and down between the same; on and off, four times), in one of three conditions (CPU-bound: \
         AutoDock and Pythia; I/O-bound: Montage and C.M.S; mixed: all four), at an offered load of 0.9 or \
         1.1 of what both platforms do with one vCPU a core. {n_seeds} seeds a cell draw sizes, order and \
         times of the jobs; all laws see the same jobs.\n\n\
         All numbers of the workload are chosen, as the paper prints none: runtimes on cluster and cloud \
         14/10, 10/7, 8/11 and 16/24 s; CPU parts 1, .95, .35 and .40; .005 of the cloud's attempts fail, \
         plus .10 by CPU part and by each core's worth of CPU wanted beyond those there are; Delta .1, m = \
         5, epsilon .05, an interval of 300 s, at most 4 vCPUs a core; rates forget by half in 300 s of \
         measuring. Utilisation is the part of all core-seconds in which a core computes, for attempts \
         that fail as well; so a law that makes more attempts fail has the higher one; the independent \
         computation may count otherwise.\n\n\
         *Published* is LOAD, ERROR and Algorithm 4 as printed, with weights kept within 0 and 1 and \
         brought to sum 1. *Sound* is equal finish by backlog and measured rates, and vCPUs with a dead \
         band, small steps up, halving, a hold and a demand gate. *Measured* is equal finish, with vCPUs \
         for each application by the CPU time that its attempts use. Gains are means over the cells, and \
         ± is over the seeds; the paper's sizes cannot come out, as its runtimes and constants are not \
         published."
    )
}

fn claims(trials: &Trials) -> Vec<Claim> {
    let names = ["average throughput", "average queueing time", "average utilisation"];
    let mut claims: Vec<Claim> = Vec::new();
    for ((metric, name), published) in Metric::ALL.into_iter().zip(names).zip(GAINS) {
        let ours = trials.gain_by_seed(PUBLISHED, metric, everywhere);
        let [sound, best] = [SOUND, MEASURED].map(|law| spread(trials.gain_by_seed(law, metric, everywhere)));
        claims.push(Claim::new(
            format!("{name} against core-based weights (abstract)"),
            format!("{published:+.0} %"),
            format!("{} (sound {sound}, measured {best})", spread(ours)),
            Verdict::of_change(published, ours.mean, 0),
        ));
    }
    let why = "it is not their mean; what it is the mean of is not said";
    let mean_of_printed = Claim::new(
        "the abstract's gain in throughput is the mean of the twelve that section 4.4 prints",
        format!("{:+.0} %", GAINS[0]),
        percent(MEAN_OF_PRINTED_GAINS),
        Verdict::of_arithmetic(GAINS[0], MEAN_OF_PRINTED_GAINS, 0, 0.0, why),
    );
    claims.push(mean_of_printed.of_ours());
    let order =
        Condition::ALL.map(|condition| trials.gain_by_seed(PUBLISHED, Metric::Throughput, of(condition)));
    let is_io_least = order[1].mean < order[0].mean && order[1].mean < order[2].mean;
    claims.push(Claim::new(
        "I/O-bound workloads gain least in throughput (section 4.4)",
        "I/O least",
        format!("CPU {}, I/O {}, mixed {}", spread(order[0]), spread(order[1]), spread(order[2])),
        Verdict::of_sentence(is_io_least, "it hangs on runtimes and CPU parts that are not published"),
    ));
    claims.extend(Metric::ALL.map(|metric| in_cells(trials, metric)));
    claims.extend(reference_claims(trials));
    claims
}

/// Claims in how many cells the published policies beat core-based weights.
fn in_cells(trials: &Trials, metric: Metric) -> Claim {
    let (n, of) = (trials.n_cells_better(PUBLISHED, CORE, metric), trials.cells.len());
    let what = format!("better {} than core-based weights for every pattern and condition", metric.name());
    let why = format!("not in {} of our cells", of - n);
    Claim::new(what, "all", format!("{n} of {of} cells"), Verdict::of_sentence(n == of, &why))
}

/// Compares with the independent computation.
fn reference_claims(trials: &Trials) -> Vec<Claim> {
    let of_law = |(law, (name, reference)): (usize, &(&str, [f64; 3]))| {
        let ours = Metric::ALL.map(|metric| trials.gain_by_seed(law, metric, everywhere));
        let verdicts: Vec<(&str, Verdict)> = Metric::ALL
            .iter()
            .zip(reference.iter().zip(ours))
            .map(|(metric, (theirs, ours))| (metric.name(), Verdict::of_change(*theirs, ours.mean, 1)))
            .collect();
        let claim = Claim::new(
            format!(
                "{name}: throughput, queueing time, utilisation of an independent computation of this model"
            ),
            reference.map(percent).join(", "),
            ours.map(spread).join(", "),
            Verdict::of_many(&verdicts),
        );
        claim.of_ours()
    };
    [STATIC, LOAD, PUBLISHED, SOUND].into_iter().zip(&REFERENCE).map(of_law).collect()
}

fn means(trials: &Trials) -> Listing {
    let row = |law: usize| -> Vec<Cell> {
        let ours = Metric::ALL.map(|metric| Cell::Mean(trials.gain_by_seed(law, metric, everywhere), 1));
        let theirs = REFERENCE.iter().find(|(name, _)| *name == contestants()[law].name);
        let theirs = (0..3).map(|n| theirs.map_or(Cell::Empty, |(_, gains)| Cell::Number(gains[n], 1)));
        let (low, high) = trials.range(law, everywhere, |outcome| outcome.errors);
        let (least, most) = trials.range(law, everywhere, |outcome| outcome.n_changes as f64);
        let mut row = vec![Cell::from(contestants()[law].name)];
        row.extend(ours);
        row.extend(theirs);
        row.extend([
            Cell::Number(low, 3),
            Cell::Number(high, 3),
            Cell::Number(least, 0),
            Cell::Number(most, 0),
        ]);
        row
    };
    let columns = [
        "law",
        "throughput, %",
        "queueing time, %",
        "utilisation, %",
        "independent: throughput, %",
        "independent: queueing time, %",
        "independent: utilisation, %",
        "failed attempts a task, least",
        "failed attempts a task, most",
        "changes of vCPUs a run, least",
        "changes of vCPUs a run, most",
    ];
    Listing {
        name: "gains".into(),
        title: "Mean gains over core-based weights, 24 cells".into(),
        columns: columns.map(String::from).to_vec(),
        rows: (CORE..N_MAIN).map(row).collect(),
    }
}

fn cells(trials: &Trials) -> Listing {
    let row = |cell: usize| -> Vec<Cell> {
        let what = trials.cells[cell];
        let mut row =
            vec![what.pattern.word().into(), what.condition.word().into(), Cell::Number(what.load, 1)];
        let gain = |law, metric| Cell::Mean(trials.cell_gains(cell, law, metric), 1);
        row.extend((STATIC..N_MAIN).flat_map(|law| Metric::ALL.map(|metric| gain(law, metric))));
        row
    };
    let of_law =
        |law: usize| Metric::ALL.map(|metric| format!("{}: {}, %", contestants()[law].name, metric.name()));
    let mut columns = vec!["pattern".to_owned(), "condition".into(), "load".into()];
    columns.extend((STATIC..N_MAIN).flat_map(of_law));
    Listing {
        name: "cells".into(),
        title: "Gains over core-based weights by pattern, condition and load".into(),
        columns,
        rows: (0..trials.cells.len()).map(row).collect(),
    }
}

fn by_condition(trials: &Trials) -> Figure {
    let series = |law: usize| {
        let gain = |condition| trials.gain(law, Metric::Throughput, of(condition));
        (contestants()[law].name.to_owned(), Condition::ALL.map(gain).to_vec())
    };
    Figure {
        name: "gains-by-condition".into(),
        title: "Paper 003, section 4.4: throughput against core-based weights".into(),
        x_label: "workload".into(),
        y_label: "gain in throughput (%)".into(),
        shape: Shape::Bars {
            categories: Condition::ALL.map(|condition| condition.word().to_owned()).to_vec(),
            series: (STATIC..N_MAIN).map(series).collect(),
        },
    }
}
