//! The example of section 3.3.

use scheduler::policy::{
    distribution::{Adjusted, LoadAndError, WeightMatrix, Weights},
    table::Table,
};

use crate::{
    adaptive::published::{
        EXAMPLE_APPLICATIONS, EXAMPLE_DELTA, EXAMPLE_JOBS, EXAMPLE_QUEUED, EXAMPLE_ROWS_OF_THE_TEXT,
        EXAMPLE_THRESHOLD, EXAMPLE_WEIGHTS, EXAMPLE_WEIGHTS_AFTER,
    },
    report::{Cell, Claim, Listing, Part, Verdict},
};

/// Returns the weights of the example; they sum to 1 already.
fn matrix() -> WeightMatrix {
    let cells = Table::new(EXAMPLE_WEIGHTS.len(), EXAMPLE_WEIGHTS[0].len(), ());
    WeightMatrix::of(&cells.map_places(|row, column| EXAMPLE_WEIGHTS[row][column]))
}

fn law() -> LoadAndError {
    let mut law = LoadAndError::new(matrix(), EXAMPLE_DELTA, EXAMPLE_JOBS.len());
    EXAMPLE_JOBS.iter().for_each(|size| law.remember(*size));
    law
}

/// Returns the tasks on cluster and cloud if each job is cut by one of these rows.
fn queued(rows: [usize; 3]) -> [u64; 2] {
    let matrix = matrix();
    let on_cluster = |(size, row): (&u64, usize)| matrix.row(row).split(*size)[0].end;
    let cluster: u64 = EXAMPLE_JOBS.iter().zip(rows).map(on_cluster).sum();
    [cluster, EXAMPLE_JOBS.iter().sum::<u64>() - cluster]
}

/// Returns the action of LOAD with these queues.
fn step(queued: [u64; 2]) -> &'static str {
    match law().load(&queued) {
        Adjusted::Kept => "keep the weights",
        Adjusted::Initialized => "initialize: both are overloaded",
        Adjusted::Moved { .. } => "move weight: one is overloaded",
    }
}

pub(super) fn part() -> Part {
    let mut law = law();
    let threshold = law.threshold();
    law.load(&EXAMPLE_QUEUED);
    let readings = [
        ("as printed", EXAMPLE_QUEUED),
        ("by each job's application and W", queued(EXAMPLE_APPLICATIONS)),
        ("by the rows that the text uses", queued(EXAMPLE_ROWS_OF_THE_TEXT)),
    ];
    let row = |(name, queued): &(&str, [u64; 2])| -> Vec<Cell> {
        let number = |n: u64| Cell::Number(n as f64, 0);
        vec![(*name).into(), number(queued[0]), number(queued[1]), step(*queued).into()]
    };
    let table = Listing {
        name: "example-queues".into(),
        title: "Tasks that wait, by three readings, and what Algorithm 3 does with them".into(),
        columns: ["reading", "cluster", "cloud", "LOAD"].map(String::from).to_vec(),
        rows: readings.iter().map(row).collect(),
    };
    Part {
        title: "The example (section 3.3)".into(),
        text: "Three jobs of 30,000, 150,000 and 70,000 tasks, two platforms, Delta = 0.1, m = 3. Threshold \
               and updated weights come out when the printed queues are given. The queues themselves follow \
               from no weights in the paper."
            .into(),
        claims: claims(threshold, law.matrix().rows(), &readings),
        tables: vec![table],
        figures: Vec::new(),
    }
}

fn claims(threshold: f64, rows: &[Weights], readings: &[(&str, [u64; 2]); 3]) -> Vec<Claim> {
    let words = |rows: &[&[f64]]| {
        rows.iter().map(|row| format!("{:.2} {:.2}", row[0], row[1])).collect::<Vec<_>>().join(" / ")
    };
    let expected: Vec<&[f64]> = EXAMPLE_WEIGHTS_AFTER.iter().map(|row| row.as_slice()).collect();
    let found: Vec<&[f64]> = rows.iter().map(Weights::shares).collect();
    let is_exact = words(&expected) == words(&found);
    let derived = &readings[1..];
    let is_derivable = derived.iter().any(|(_, queued)| *queued == EXAMPLE_QUEUED);
    let is_cluster_only = derived.iter().any(|(_, queued)| step(*queued) == step(EXAMPLE_QUEUED));
    let queues = |queued: &[u64; 2]| format!("{} / {}", queued[0], queued[1]);
    let derived_words = derived.iter().map(|(_, queued)| queues(queued)).collect::<Vec<_>>().join(" or ");
    vec![
        Claim::new(
            "threshold lambda (eq. 1)",
            format!("{EXAMPLE_THRESHOLD:.4}"),
            format!("{threshold:.4}"),
            Verdict::of_arithmetic(EXAMPLE_THRESHOLD, threshold, 4, 0.0, "eq. 1 gives another mean"),
        ),
        Claim::new(
            "W after LOAD with the cluster overloaded (Algorithm 3)",
            words(&expected),
            words(&found),
            Verdict::of_choice(is_exact, "Algorithm 3 moves other weights"),
        ),
        Claim::new(
            "tasks that wait on cluster / cloud",
            queues(&EXAMPLE_QUEUED),
            derived_words,
            Verdict::of_choice(
                is_derivable,
                "they follow from no weights in the paper; the text also cuts the job of type 1 by row 0",
            ),
        ),
        Claim::new(
            "only the cluster is overloaded",
            step(EXAMPLE_QUEUED),
            step(derived[0].1),
            Verdict::of_choice(
                is_cluster_only,
                "by the paper's own weights both queues exceed lambda, so Algorithm 3 initializes",
            ),
        ),
    ]
}
