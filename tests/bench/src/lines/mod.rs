//! One file for each line of the budget table, or for a few that are measured together.

mod classes;
mod environments;
mod failing;
mod floors;
mod graphs;
mod idle;
mod latency;
mod layers;
mod listings;
mod many_jobs;
mod many_tasks;
mod no_process;
mod out_of_order;
mod output;
mod process;
pub mod resident;
mod restart;
mod run;
mod small_files;
mod submit;

use std::pin::Pin;

use crate::{Trouble, figure::Figure};

type Measuring = Pin<Box<dyn Future<Output = Result<Vec<Figure>, Trouble>>>>;

/// A line of the budget table.
pub struct Line {
    /// The word by which it is asked for.
    pub name: &'static str,
    /// What it measures.
    pub help: &'static str,
    /// Measures it.
    pub measure: fn() -> Measuring,
}

/// All lines, in the order of the table.
pub fn all() -> Vec<Line> {
    vec![
        Line {
            name: floors::LINE,
            help: "what this machine takes for a process, a flush, a round trip, a start, a copy",
            measure: || Box::pin(floors::measure()),
        },
        Line {
            name: no_process::LINE,
            help: "tasks that are no processes, by 1, 4, 16 and 64 simulated agents: rate, CPU, store",
            measure: || Box::pin(no_process::measure()),
        },
        Line {
            name: process::LINE,
            help: "/bin/true by one real agent with two slots, against the floor of this run",
            measure: || Box::pin(process::measure()),
        },
        Line {
            name: failing::LINE,
            help: "sweeps of which every task fails, beside the same of which every task succeeds",
            measure: || Box::pin(failing::measure()),
        },
        Line {
            name: graphs::LINE,
            help: "a chain of 10,000 tasks, and one task before 100,000 before one",
            measure: || Box::pin(graphs::measure()),
        },
        Line {
            name: output::LINE,
            help: "tasks that write a line, kept and thrown away",
            measure: || Box::pin(output::measure()),
        },
        Line {
            name: latency::LINE,
            help: "one task at a time, from submission to end",
            measure: || Box::pin(latency::measure()),
        },
        Line {
            name: run::LINE,
            help: "`run` of 1,000 processes, beside GNU parallel and xargs",
            measure: || Box::pin(run::measure()),
        },
        Line {
            name: submit::LINE,
            help: "submission of 10^3, 10^6 and 10^9 tasks",
            measure: || Box::pin(submit::measure()),
        },
        Line {
            name: restart::LINE,
            help: "a manager killed with 10^6 tasks half done",
            measure: || Box::pin(restart::measure()),
        },
        Line {
            name: classes::LINE,
            help: "64 jobs that need different things, 64 pilots",
            measure: || Box::pin(classes::measure()),
        },
        Line {
            name: idle::LINE,
            help: "1,000 and 10,000 pilots with nothing to do",
            measure: || Box::pin(idle::measure()),
        },
        Line {
            name: many_tasks::LINE,
            help: "10^7 tasks through one store: memory",
            measure: || Box::pin(many_tasks::measure()),
        },
        Line {
            name: many_jobs::LINE,
            help: "5,000 jobs that wait: the engine's CPU a pull; 10,000 in the store: start, `jobs`, `job N`",
            measure: || Box::pin(many_jobs::measure()),
        },
        Line {
            name: layers::LINE,
            help: "all policies at 50 applications, 20 platforms, 100 users and 5,000 pilots: the engine's CPU a pull",
            measure: || Box::pin(layers::measure()),
        },
        Line {
            name: out_of_order::LINE,
            help: "10^6 tasks that end in any order and fail now and then: the engine's CPU and memory",
            measure: || Box::pin(out_of_order::measure()),
        },
        Line {
            name: listings::LINE,
            help: "1,000 and 10,000 allocations that wait: CPU of a poll's listing",
            measure: || Box::pin(listings::measure()),
        },
        Line {
            name: resident::LINE,
            help: "tasks of a resident program, two slots",
            measure: || Box::pin(resident::measure()),
        },
        Line {
            name: environments::LINE,
            help: "10^6 different environments from a CSV file",
            measure: || Box::pin(environments::measure()),
        },
        Line {
            name: small_files::LINE,
            help: "100,000 small files to a task and home from one, against `cp -r` in this run",
            measure: || Box::pin(small_files::measure()),
        },
    ]
}
