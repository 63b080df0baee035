//! The course of vCPUs and weights over time under each policy.

use super::trials::{MEASURED, PUBLISHED, SOUND, contestants};
use crate::{
    adaptive::{
        fluid::{Moment, run},
        workload::Cell,
        world::{Condition, Nature},
    },
    pattern::Pattern,
    report::{Figure, Part, Shape},
};

const SECONDS_OF_HOUR: f64 = 3600.0;

/// Returns the workload of the figures.
pub(super) fn cell(condition: Condition) -> Cell {
    Cell { pattern: Pattern::Stable, condition, load: 0.9 }
}

/// Returns all moments of a run of a policy.
pub(super) fn course(cell: Cell, law: usize, seed: u64) -> Vec<Moment> {
    run(&cell.jobs(seed), &contestants()[law].laws, Nature::default()).course
}

pub(super) fn part(seed: u64) -> Part {
    let mut figures = Condition::ALL.map(|condition| vcpus(condition, seed)).to_vec();
    figures.push(weights(seed));
    Part {
        title: "vCPUs a core and weights over time".into(),
        text: "One seed of the stable pattern at load 0.9. The published law adds a vCPU whenever errors \
               are few, so in CPU-bound and mixed workloads it never rests. The sound law tries again \
               after each hold. The measured law sets a number for each application once, and what is \
               drawn is that of the application on the cloud at the time. The last figure is of a \
               CPU-bound workload at load 0.5: under the published law the cloud's weight rises with each \
               rise of vCPUs, and no fall takes it back; only LOAD does at times. Equal finish moves \
               weights too, to whatever platform is idle."
            .into(),
        figures,
        ..Part::default()
    }
}

/// Returns the points of a line that holds each value until the next.
fn steps(course: &[Moment], value: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
    let hours = |moment: &Moment| moment.at / SECONDS_OF_HOUR;
    let pair = |two: &[Moment]| [(hours(&two[0]), value(&two[0])), (hours(&two[1]), value(&two[0]))];
    course.windows(2).flat_map(pair).collect()
}

fn vcpus(condition: Condition, seed: u64) -> Figure {
    let series = |law: usize| {
        let points = steps(&course(cell(condition), law, seed), |moment| moment.ratio);
        (contestants()[law].name.to_owned(), points)
    };
    let word = match condition {
        Condition::Cpu => "cpu",
        Condition::Io => "io",
        Condition::Mixed => "mixed",
    };
    Figure {
        name: format!("vcpus-{word}"),
        title: format!("Paper 003, Algorithm 4: vCPUs a core, {} workload", condition.word()),
        x_label: "time (h)".into(),
        y_label: "vCPUs a core".into(),
        shape: Shape::Lines {
            series: [PUBLISHED, SOUND, MEASURED].map(series).to_vec(),
            is_log_x: false,
            is_log_y: false,
        },
    }
}

fn weights(seed: u64) -> Figure {
    let quiet = Cell { load: 0.5, ..cell(Condition::Cpu) };
    let series = |law: usize| {
        // There are no weights before the first job.
        let course = course(quiet, law, seed);
        let begun = course.iter().position(|moment| moment.cloud_weight > 0.0).unwrap_or(0);
        let points = steps(&course[begun..], |moment| moment.cloud_weight);
        (contestants()[law].name.to_owned(), points)
    };
    Figure {
        name: "weights-cpu".into(),
        title: "Paper 003, ERROR: the cloud's weight in the last job, CPU-bound workload, load 0.5".into(),
        x_label: "time (h)".into(),
        y_label: "weight of the cloud (part of 1)".into(),
        shape: Shape::Lines {
            series: [PUBLISHED, SOUND, MEASURED].map(series).to_vec(),
            is_log_x: false,
            is_log_y: false,
        },
    }
}
