//! Section 3: the bound at up to 128K cores.

use super::{number, only_full, workload};
use crate::{
    matrix::{
        bounds::{self, Bounds},
        machine::Setting,
        published::{BOUND_128K, N_CORES_128K, RUN_S, TASKS_PER_CORE},
        workload::{SHAPES, Shape},
    },
    report::{Cell, Claim, Effort, Figure, Listing, Part, Progress, Shape as Drawing, Verdict},
};

/// Lines that differ by at most this much cannot be distinguished on a logarithmic axis.
const COINCIDES: f64 = 0.02;
const WHY: &str = "eq. 1 lets every task wait 24.975 s: a bag of tasks would end after 25 s where each core has \
    50 s of work, and a chain of ten would wait ten times. The waits and data rates behind the printed numbers \
    are not printed";

pub(in crate::matrix) fn part(effort: Effort, seed: u64, progress: &dyn Progress) -> Part {
    let n_cores_max = if effort == Effort::Full { N_CORES_128K } else { 512 };
    let scales: Vec<u64> =
        (1..).step_by(2).map(|power| 1_u64 << power).take_while(|n| *n <= n_cores_max).collect();
    progress.expect(scales.len() as u64);
    let rows: Vec<(u64, [Bounds; 4])> = scales
        .iter()
        .map(|n_cores| {
            let bytes_per_s = Setting::default().bytes_per_s;
            let of = |shape| bounds::of(&workload(shape, *n_cores, seed), *n_cores, bytes_per_s);
            let all = SHAPES.map(of);
            progress.done();
            (*n_cores, all)
        })
        .collect();
    let at_128k = rows.iter().find(|(n_cores, _)| *n_cores == N_CORES_128K).map(|(_, bounds)| bounds);
    Part {
        title: "Section 3: the bound over scales".into(),
        text: text(at_128k),
        claims: claims(at_128k),
        tables: vec![listing(&rows), implied()],
        figures: vec![
            figure(
                "bound-eq1",
                "Paper 004, section 3: throughput by eq. 1 as printed",
                &rows,
                Bounds::paper_eq1,
            ),
            figure(
                "bound-sound",
                "Paper 004, section 3: throughput that no schedule is above",
                &rows,
                Bounds::sound,
            ),
        ],
    }
}

fn text(at_128k: Option<&[Bounds; 4]>) -> String {
    let begin = "The recursion t_ef of section 3 over the four workloads, 1000 tasks for each core, each drawn \
        (0 to 100 ms, 0 to 10 MB, 125 MB/s). The graphs are walked, not stored, so 131 million tasks need no \
        memory. `paper_eq1` takes eq. 1 as printed: each task waits (k - 1) / 2 tasks of 50 ms, k = 1000. \
        `sound` is the larger one of work / cores and the longest way through the graph without waits; no \
        schedule is faster.";
    let Some(bounds) = at_128k else {
        return format!(
            "{begin} The published numbers are of 131,072 cores, which only the full effort runs."
        );
    };
    let ratio = bounds[0].paper_eq1() / bounds[0].sound();
    format!(
        "{begin}\n\nAt 131,072 cores eq. 1 gives BOT {ratio:.2} times what the cores can do at all. The other three \
         are almost alike under it, because their longest chains have ten tasks each and the waits are nearly all \
         of their length. So where one of them comes near its printed number, it says nothing of the others or of \
         eq. 1."
    )
}

/// Makes the claims. `None`: not run at that size.
fn claims(bounds: Option<&[Bounds; 4]>) -> Vec<Claim> {
    let numbers = (0..SHAPES.len()).map(|at| {
        let published = BOUND_128K[at];
        let (ours, verdict) = match bounds.map(|all| &all[at]) {
            Some(ours) => (
                format!("{:.0} (eq. 1), {:.0} (sound)", ours.paper_eq1(), ours.sound()),
                Verdict::of_amount(published, ours.paper_eq1(), 0, WHY),
            ),
            None => ("-".to_owned(), only_full("131,072 cores")),
        };
        let what = format!("Bound of {} at 128K cores by eq. 1, tasks/s (section 3)", SHAPES[at].name());
        Claim::new(what, format!("{published:.0}"), ours, verdict)
    });
    numbers.chain([order(bounds), possible()]).collect()
}

fn order(bounds: Option<&[Bounds; 4]>) -> Claim {
    let (ours, verdict) = match bounds {
        Some(bounds) => {
            let value = |at: usize| bounds[at].paper_eq1();
            let in_words = (0..SHAPES.len()).map(|at| format!("{} {:.0}", SHAPES[at].name(), value(at)));
            let holds = (1..SHAPES.len()).all(|at| value(at - 1) > value(at));
            let why = "under eq. 1 BOT is first and the other three differ only in how their longest chain was drawn";
            (in_words.collect::<Vec<_>>().join(", "), Verdict::of_sentence(holds, why))
        }
        None => ("-".to_owned(), only_full("131,072 cores")),
    };
    let what = "Order of the bounds at 128K cores (section 3)";
    Claim::new(what, "BOT > Pipeline > Fan-Out > Fan-In", ours, verdict)
}

/// Claims that the cores could reach the largest printed bound.
fn possible() -> Claim {
    let most = BOUND_128K.iter().fold(0.0_f64, |most, value| most.max(*value));
    let cores_do = N_CORES_128K as f64 / RUN_S;
    let ours = format!(
        "{cores_do:.0} at most; the published bound of BOT is {:.0} % of it",
        100.0 * most / cores_do
    );
    let verdict = Verdict::of_sentence(most <= cores_do, "the printed bound is above what the cores can do");
    let what = "The printed bounds are not above what 131,072 cores can do with tasks of 50 ms, tasks/s";
    Claim::new(what, format!("{most:.0} (BOT)"), ours, verdict).of_ours()
}

fn listing(rows: &[(u64, [Bounds; 4])]) -> Listing {
    let columns = [
        "cores",
        "workload",
        "tasks",
        "work (s)",
        "longest way (s)",
        "paper_eq1 (tasks/s)",
        "eq. 1 without wait (tasks/s)",
        "sound (tasks/s)",
        "published (tasks/s)",
    ];
    let row = |n_cores: u64, at: usize, bounds: &Bounds| {
        let published = if n_cores == N_CORES_128K { number(BOUND_128K[at], 0) } else { Cell::Empty };
        vec![
            number(n_cores as f64, 0),
            SHAPES[at].name().into(),
            number(bounds.n_tasks as f64, 0),
            number(bounds.work_s, 0),
            number(bounds.critical_path_s, 3),
            number(bounds.paper_eq1(), 0),
            number(bounds.n_tasks as f64 / bounds.critical_path_s, 0),
            number(bounds.sound(), 0),
            published,
        ]
    };
    let rows = rows
        .iter()
        .flat_map(|(n_cores, all)| all.iter().enumerate().map(move |(at, bounds)| row(*n_cores, at, bounds)));
    Listing {
        name: "bound".into(),
        title: "Bounds by cores and workload".into(),
        columns: columns.map(String::from).into(),
        rows: rows.collect(),
    }
}

/// Computes the lengths of runs that follow from the published throughputs, for both readings of 128K.
fn implied() -> Listing {
    let columns = [
        "workload",
        "published (tasks/s)",
        "run of 131,072,000 tasks (s)",
        "of what 131,072 cores can do (%)",
        "run of 128,000,000 tasks (s)",
        "of what 128,000 cores can do (%)",
    ];
    let row = |(shape, published): (&Shape, f64)| {
        let readings = [N_CORES_128K, 128_000].map(|n_cores| {
            let n_tasks = (n_cores * TASKS_PER_CORE) as f64;
            [number(n_tasks / published, 1), number(100.0 * published * RUN_S / n_cores as f64, 1)]
        });
        [shape.name().into(), number(published, 0)]
            .into_iter()
            .chain(readings.into_iter().flatten())
            .collect()
    };
    Listing {
        name: "implied".into(),
        title: "What the published bounds imply".into(),
        columns: columns.map(String::from).into(),
        rows: SHAPES.iter().zip(BOUND_128K).map(row).collect(),
    }
}

/// Makes a figure. Lines that coincide are drawn as one with all their names.
fn figure(name: &str, title: &str, rows: &[(u64, [Bounds; 4])], value: fn(&Bounds) -> f64) -> Figure {
    let line = |at: usize| -> Vec<(f64, f64)> {
        rows.iter().map(|(n_cores, all)| (*n_cores as f64, value(&all[at]))).collect()
    };
    let mut ours: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (at, shape) in SHAPES.iter().enumerate() {
        let line = line(at);
        let is_on = |other: &Vec<(f64, f64)>| {
            line.iter().zip(other).all(|(one, other)| (one.1 / other.1 - 1.0).abs() < COINCIDES)
        };
        match ours.iter_mut().find(|(_, other)| is_on(other)) {
            Some((names, _)) => *names += &format!(", {}", shape.name()),
            None => ours.push((shape.name().to_owned(), line)),
        }
    }
    let published = (0..SHAPES.len())
        .map(|at| (format!("{}, published", SHAPES[at].name()), vec![(N_CORES_128K as f64, BOUND_128K[at])]));
    Figure {
        name: name.into(),
        title: title.into(),
        x_label: "cores".into(),
        y_label: "throughput (tasks/s)".into(),
        shape: Drawing::Lines {
            series: ours.into_iter().chain(published).collect(),
            is_log_x: true,
            is_log_y: true,
        },
    }
}
