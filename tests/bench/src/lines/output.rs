//! What it costs to keep what tasks write: `/bin/echo` of a line, kept and thrown away in turn, by a real
//! agent with two slots.

use std::time::Duration;

use protocol::job::{JobSpec, Stream};

use crate::{
    Trouble,
    api::{self, Api},
    figure::{Figure, Goal},
    measure,
    place::Place,
};

use super::process::warm_up;

pub const LINE: &str = "output";

/// Both take turns, so that neighbours come and go for both alike.
const N_ROUNDS: usize = 5;
const N_TASKS: u64 = 1_500;
const PAUSE: Duration = Duration::from_millis(100);

/// Of one way: tasks a second, round by round, and the CPU time of all.
#[derive(Default)]
struct Way {
    rates: Vec<f64>,
    cpu: Duration,
}

impl Way {
    async fn round(&mut self, place: &Place, api: &mut Api, spec: &JobSpec) -> Result<(), Trouble> {
        let cpu = || {
            let of_agent = |pid: &u32| measure::cpu(*pid) + measure::children_cpu(*pid);
            measure::cpu(place.pid()) + place.agents().iter().map(of_agent).sum::<Duration>()
        };
        let before = cpu();
        let job = api.submit(spec).await?;
        let view = api.wait(job, PAUSE).await?;
        self.cpu += cpu() - before;
        let took = view.ended_at.map_or(0, |ended| ended.0 - view.submitted_at.0) as f64 / 1e6;
        self.rates.push(N_TASKS as f64 / took);
        Ok(())
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (N_ROUNDS as f64 * N_TASKS as f64)
    }
}

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let kept_spec = api::sweep(&["/bin/echo", "the energy of run {n} is -13.06 kcal/mol"], N_TASKS);
    let mut thrown_spec = kept_spec.clone();
    (thrown_spec.stdio.stdout, thrown_spec.stdio.stderr) = (Stream::Discard, Stream::Discard);
    let (mut kept, mut thrown) = (Way::default(), Way::default());
    let mut store_bytes = 0;
    for _ in 0..N_ROUNDS {
        thrown.round(&place, &mut api, &thrown_spec).await?;
        let before = place.store_bytes()?;
        kept.round(&place, &mut api, &kept_spec).await?;
        store_bytes += place.store_bytes()? - before;
    }
    drop(place);
    let ratios: Vec<f64> = kept.rates.iter().zip(&thrown.rates).map(|(kept, thrown)| kept / thrown).collect();
    let store = store_bytes as f64 / (N_ROUNDS as f64 * N_TASKS as f64);
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    Ok(vec![
        figure(
            "tasks whose output is kept / thrown away",
            measure::percentiles(ratios).0,
            "",
            Goal::AtLeast(0.9),
        )
        .recorded("HyperQueue 0.54 .. 0.97"),
        figure("the same by CPU time", thrown.cpu_us() / kept.cpu_us(), "", Goal::AtLeast(0.9)),
        figure("CPU a task, all of it, kept", kept.cpu_us(), "µs", Goal::None),
        figure("CPU a task, all of it, thrown away", thrown.cpu_us(), "µs", Goal::None),
        figure("store a task with 45 bytes of output", store, "bytes", Goal::None),
    ])
}
