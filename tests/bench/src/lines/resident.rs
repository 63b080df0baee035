//! Tasks of a resident program, two slots: this program is the resident, and answers at once.

use std::{
    io::{self, BufRead, Write},
    time::Duration,
};

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    measure, peer,
    place::Place,
};

use super::process::warm_up;

pub const LINE: &str = "resident";

const N_TASKS: u64 = 300_000;
const ANSWER: &[u8] = b"{\"exit_code\":0}\n";
const FAILURE: &[u8] = b"{\"exit_code\":1}\n";
/// The word after which all answers tell of failures.
pub const FAILING: &str = "failing";

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("this program's path is not UTF-8")?;
    let mut spec = api::sweep(&[program, "answer"], N_TASKS);
    spec.resident = true;
    let agents = place.agents();
    let cpu = || agents.iter().map(|pid| measure::cpu(*pid)).sum::<Duration>();
    let (agent, manager) = (cpu(), measure::cpu(place.pid()));
    let job = api.submit(&spec).await?;
    let view = api.wait(job, Duration::from_millis(20)).await?;
    let a_task = |cpu: Duration| cpu.as_secs_f64() * 1e6 / N_TASKS as f64;
    let (agent, manager) = (a_task(cpu() - agent), a_task(measure::cpu(place.pid()) - manager));
    let took = view.ended_at.map_or(0, |ended| ended.0 - view.submitted_at.0) as f64 / 1e6;
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    drop(place);
    let rate = figure("resident tasks, 2 slots", N_TASKS as f64 / took, "/s", Goal::AtLeast(100_000.0));
    Ok(vec![
        match peer::python_a_second(N_TASKS / 10, false) {
            Some(pool) => rate.measured(format!("Python pool {pool:.0}")),
            None => rate.recorded("Python pool 14,640, Parsl 2,535"),
        },
        figure("agent CPU a resident task", agent, "µs", Goal::None),
        figure("manager CPU a resident task", manager, "µs", Goal::None),
    ])
}

/// The resident: a line is a question, and each is answered.
pub fn answer(words: &[String]) -> Result<(), Trouble> {
    let answer = if words.iter().any(|word| word == FAILING) { FAILURE } else { ANSWER };
    let (mut questions, mut answers) = (io::stdin().lock(), io::stdout().lock());
    let mut question = Vec::new();
    while questions.read_until(b'\n', &mut question)? > 0 {
        question.clear();
        answers.write_all(answer)?;
        answers.flush()?;
    }
    Ok(())
}
