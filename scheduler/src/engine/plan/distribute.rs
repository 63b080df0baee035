//! Makes the quota table: divides ready tasks among platforms by the policy of the distribution layer.
//!
//! [`Distribution::Adaptive`] divides all ready tasks anew each time: none of them has started, so each may
//! still go anywhere. The other policies divide the tasks of a job when the job comes, and keep that
//! division.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        live::plan::quota::{ClassQuota, QuotaCell, QuotaTable, SHUNNED_FROM},
        plan::{
            input::{OpenJob, PlanInput},
            runtime_model::RuntimeModel,
        },
        record::weight_policy::{TaskClass, WeightPolicyState},
    },
    ids::{JobId, PlatformId},
    policy::{
        distribution::{
            Distribution, Distributor, Known, LoadAndError, RUNTIME_UNKNOWN_S, Settings, WeightMatrix,
            Weights,
            joint::{Division, divide},
        },
        table::Table,
    },
    resources::Resources,
    time::{Span, Time},
};

/// The most task classes that are divided; tasks of other classes go to any pilot that pulls. Dividing more
/// would hold up the engine.
const N_KINDS_MAX: usize = 200;

/// A job of which no task has been taken for this many of its class's shortest runtimes is open to all
/// platforms: the platforms that should take it first may not be allowed to, or may keep their cores for
/// others.
const PATIENCE: f64 = 2.0;

/// The least of that time.
const PATIENCE_LEAST: Span = Span::from_secs(2);

/// The most of that time.
const PATIENCE_MOST: Span = Span::from_secs(60);

/// A throttled platform is probed again after this time.
const TRIED_EVERY: Span = Span::from_secs(5);

/// Returns the quotas of the tasks that are ready now, and the row of each job. O(open jobs + classes ×
/// platforms).
pub(in crate::engine) fn quotas(
    question: &PlanInput,
    policy: Distribution,
) -> (QuotaTable, BTreeMap<JobId, usize>) {
    let (field, before) = (Field::of(question), &question.before.quotas);
    let mut kinds = kinds(question);
    if field.platforms.len() < 2 {
        return (QuotaTable::default(), BTreeMap::new());
    }
    if policy == Distribution::Adaptive2016
        && let Some(state) = field.law()
    {
        // The weights of this policy carry over from job to job.
        state.kinds.iter().for_each(|kind| _ = kinds.entry(kind.clone()).or_default());
    }
    let mut rows: Vec<(TaskClass, Ready<'_>)> = kinds.into_iter().collect();
    if rows.len() > N_KINDS_MAX {
        rows.sort_by_key(|(_, ready)| std::cmp::Reverse(ready.n));
        rows.truncate(N_KINDS_MAX);
    }
    let new = field.new_jobs(&rows, before);
    let mut quotas = field.frame(&rows, before);
    match policy {
        Distribution::Adaptive => field.divide_all(&rows, &mut quotas, question.now),
        _ => field.divide_new(&rows, &new, policy, &mut quotas),
    }
    let places =
        rows.iter().enumerate().flat_map(|(row, (_, ready))| ready.jobs.iter().map(move |job| (job.id, row)));
    (quotas, places.collect())
}

/// The ready tasks of a class.
#[derive(Default)]
struct Ready<'a> {
    n: u64,
    jobs: Vec<ReadyJob<'a>>,
}

/// The part of the ready tasks of a class that belongs to one job.
struct ReadyJob<'a> {
    id: JobId,
    user: &'a str,
    n: u64,
    /// Whether it came after the previous quotas were made.
    is_new: bool,
}

fn kinds(question: &PlanInput) -> BTreeMap<TaskClass, Ready<'_>> {
    let mut kinds = BTreeMap::<TaskClass, Ready<'_>>::new();
    for job in question.jobs.iter().filter(|job| !job.is_profiling && !job.is_paused) {
        let (application, needs) = (job.application.clone(), job.needs.clone());
        let ready = kinds.entry(TaskClass { application, needs }).or_default();
        ready.n = ready.n.saturating_add(job.n_ready);
        ready.jobs.push(ReadyJob { id: job.id, user: &job.user, n: job.n_ready, is_new: job.is_new });
    }
    kinds
}

/// The platforms with pilots that take part.
struct Field<'a> {
    question: &'a PlanInput,
    platforms: Vec<PlatformId>,
    /// For each platform, the capacities of its pilots and the number of pilots with each.
    shapes: Vec<&'a [(Resources, u64)]>,
    /// Seconds for which the tasks that pilots hold will keep each platform busy.
    backlogs: Vec<f64>,
    /// Number of tasks that pilots of each platform hold.
    held: Vec<u64>,
    /// Users with open tasks.
    users: BTreeSet<&'a str>,
}

impl<'a> Field<'a> {
    fn of(question: &'a PlanInput) -> Field<'a> {
        let taking = question.platforms.iter().filter(|ground| !ground.shapes.is_empty());
        let (platforms, shapes): (Vec<PlatformId>, Vec<_>) =
            taking.map(|ground| (ground.id, ground.shapes.as_slice())).unzip();
        let n = platforms.len();
        let open = question.jobs.iter().filter(|job| !job.is_paused && !job.is_profiling && job.n_open > 0);
        let users = open.map(|job| job.user.as_str()).collect();
        let mut field =
            Field { question, platforms, shapes, backlogs: vec![0.0; n], held: vec![0; n], users };
        for held in &question.held {
            let Some(column) = field.platforms.iter().position(|id| *id == held.platform) else { continue };
            let OpenJob { application, needs, .. } = &question.jobs[held.job];
            let cell = field.cell(application, needs, column);
            let n_running = held.n_staying.min(cell.n_slots);
            // Running tasks are assumed to be half done.
            let n_whole = held.n_staying as f64 - n_running as f64 / 2.0;
            let runtime_s = cell.runtime_s.unwrap_or(RUNTIME_UNKNOWN_S);
            field.backlogs[column] += n_whole * runtime_s / cell.n_slots.max(1) as f64;
            field.held[column] = field.held[column].saturating_add(held.n_staying);
        }
        field
    }

    fn cell(&self, application: &str, needs: &Resources, column: usize) -> QuotaCell {
        let fitting = self.shapes[column]
            .iter()
            .map(|(capacity, n)| needs.how_often_in(capacity).min(u64::from(u32::MAX)).saturating_mul(*n));
        let platform = self.platforms[column];
        let measured = self.question.facts.known(platform, application).measured;
        let runtime_s = self.question.facts.runtime_s(platform, application);
        QuotaCell {
            n_slots: fitting.fold(0, u64::saturating_add),
            runtime_s,
            is_declared: runtime_s.is_some() && measured.is_none_or(|known| known.mean().is_none()),
            error_rate: measured.and_then(|known| known.loss_rate()).unwrap_or(0.0),
            n_since_loss: measured.map_or(0, |known| known.n_since_loss()),
            ..QuotaCell::default()
        }
    }

    /// Returns rows for these classes with the rest of the previous quotas.
    fn frame(&self, rows: &[(TaskClass, Ready<'_>)], before: &QuotaTable) -> QuotaTable {
        let row = |(kind, _): &(TaskClass, Ready)| {
            let was = before.row_of(kind).map(|row| &before.rows[row]);
            let known = was.filter(|_| before.platforms == self.platforms);
            let tried_at = |column: usize| was?.cells.get(before.column(self.platforms[column])?)?.tried_at;
            let cell = |column: usize| QuotaCell {
                n_left: known.map_or(0, |row| row.cells[column].n_left),
                tried_at: tried_at(column),
                ..self.cell(&kind.application, &kind.needs, column)
            };
            let cells = (0..self.platforms.len()).map(cell).collect();
            ClassQuota {
                kind: kind.clone(),
                weights: Weights::equal(self.platforms.len()),
                cells,
                patience: PATIENCE_LEAST,
                fair_share_only: false,
            }
        };
        let platforms = self.platforms.clone();
        QuotaTable {
            platforms,
            rows: rows.iter().map(row).collect(),
            law: None,
            last_end_s: 0.0,
            due_at: None,
        }
    }

    /// Returns the jobs that came after the previous quotas, in order of id, with their rows and their
    /// numbers of ready tasks.
    fn new_jobs(&self, rows: &[(TaskClass, Ready<'_>)], before: &QuotaTable) -> Vec<(JobId, usize, u64)> {
        let is_anew = before.platforms != self.platforms;
        let of_row = |(row, (_, ready)): (usize, &(TaskClass, Ready<'_>))| {
            let new = ready.jobs.iter().filter(|job| is_anew || job.is_new);
            new.map(|job| (job.id, row, job.n)).collect::<Vec<_>>()
        };
        let mut new: Vec<_> = rows.iter().enumerate().flat_map(of_row).collect();
        new.sort_unstable();
        new
    }

    /// Divides all ready tasks so that all platforms end at nearly the same time.
    fn divide_all(&self, rows: &[(TaskClass, Ready<'_>)], quotas: &mut QuotaTable, now: Time) {
        let n_ready: Vec<f64> = rows.iter().map(|(_, ready)| ready.n as f64).collect();
        quotas.rows.iter_mut().for_each(ClassQuota::shun);
        let mut rates = self.rates(quotas);
        let mut division = divide(&n_ready, &rates, &self.backlogs);
        if leave_out_late(quotas, &mut rates, &division) {
            division = divide(&n_ready, &rates, &self.backlogs);
        }
        quotas.last_end_s = division.last_end();
        for (n, (row, (_, ready))) in quotas.rows.iter_mut().zip(rows).enumerate() {
            let amounts = division.amounts.row(n);
            let weights = Weights::of(amounts).or_else(|| Weights::of(rates.row(n)));
            row.weights = weights.unwrap_or_else(|| Weights::equal(amounts.len()));
            let parts = whole(ready.n, row.weights.shares());
            row.cells.iter_mut().zip(parts).for_each(|(cell, n_left)| cell.n_left = n_left);
            let best_s = best_runtime(row);
            row.patience = patience(best_s);
            for cell in &mut row.cells {
                let spare_s = cell.success_s().zip(best_s).map(|(own, best)| quotas.last_end_s + best - own);
                let spare_s = spare_s.filter(|_| !cell.is_shunned && cell.success_s() != best_s);
                cell.ration(now, ready.n);
                cell.begin_by = spare_s.map(|spare_s| now_plus(now, spare_s));
            }
            row.fair_share_only = self.is_better_by_turns(row, ready, rates.row(n));
            let tried_next = row.cells.iter().filter(|cell| cell.is_shunned).filter_map(|cell| cell.tried_at);
            let tried_next = tried_next.map(|at| at + TRIED_EVERY).filter(|at| *at > now && ready.n > 0);
            quotas.due_at = quotas.due_at.into_iter().chain(tried_next).min();
        }
    }

    /// Returns whether the users of a class would have started all its tasks sooner, by more than one
    /// runtime, if each user with open tasks had the same part of all platforms and no quotas applied.
    /// `rates`: tasks per second of the platforms. A division that suits the whole must not be at the cost of
    /// a user who wants little.
    fn is_better_by_turns(&self, row: &ClassQuota, ready: &Ready<'_>, rates: &[f64]) -> bool {
        let n_users = self.users.len();
        if n_users < 2 || ready.n == 0 {
            return false;
        }
        let of_kind: BTreeSet<&str> = ready.jobs.iter().map(|job| job.user).collect();
        let part = of_kind.len() as f64 / n_users as f64;
        let by_turns_s = ready.n as f64 / (rates.iter().sum::<f64>() * part);
        let parts = row.cells.iter().zip(rates).filter(|(cell, _)| cell.n_left > 0);
        let as_meant_s = parts.map(|(cell, rate)| cell.n_left as f64 / rate).fold(0.0, f64::max);
        as_meant_s > by_turns_s + best_runtime(row).unwrap_or(RUNTIME_UNKNOWN_S)
    }

    /// Divides the tasks of jobs that came after the previous quotas; earlier divisions stay as they are.
    fn divide_new(
        &self,
        rows: &[(TaskClass, Ready<'_>)],
        new: &[(JobId, usize, u64)],
        policy: Distribution,
        quotas: &mut QuotaTable,
    ) {
        let profile = self.matrix(quotas, policy);
        let mut law = (policy == Distribution::Adaptive2016).then(|| self.law_of(rows, profile.clone()));
        for (id, row, n_ready) in new {
            let weights = law.as_ref().map_or(&profile, |state| state.law.matrix()).row(*row).clone();
            quotas.rows[*row].add(*n_ready, &weights);
            if let Some(state) = law.as_mut().filter(|state| state.last < *id) {
                state.law.remember(*n_ready);
                state.queued = self.queued(quotas);
                state.law.load(&state.queued);
                state.last = *id;
            }
        }
        let matrix = law.as_ref().map_or(&profile, |state| state.law.matrix()).clone();
        for (n, (row, (_, ready))) in quotas.rows.iter_mut().zip(rows).enumerate() {
            row.weights = matrix.row(n).clone();
            row.level(ready.n);
        }
        quotas.law = law;
    }

    /// Returns the previous state of the weight policy, if it was for the same platforms: the state in
    /// memory, else the recorded one.
    fn law(&self) -> Option<&WeightPolicyState> {
        let known = [&self.question.before.quotas.law, &self.question.law];
        known.into_iter().flatten().find(|state| state.platforms == self.platforms)
    }

    /// Returns that state with rows for these classes, or a new one.
    fn law_of(&self, rows: &[(TaskClass, Ready<'_>)], profile: WeightMatrix) -> WeightPolicyState {
        let kinds: Vec<TaskClass> = rows.iter().map(|(kind, _)| kind.clone()).collect();
        let platforms = self.platforms.clone();
        match self.law() {
            Some(state) => {
                let place = |kind: &TaskClass| state.kinds.iter().position(|held| held == kind);
                let places: Vec<Option<usize>> = kinds.iter().map(place).collect();
                WeightPolicyState { law: state.law.with_rows(&places, &profile), kinds, ..state.clone() }
            }
            None => {
                let settings = Settings::default();
                let law = LoadAndError::new(profile, settings.delta, settings.n_jobs);
                let queued = vec![0; platforms.len()];
                WeightPolicyState { platforms, kinds, law, last: JobId(0), queued }
            }
        }
    }

    /// Returns the tasks per second that platforms finish of each class, by known or guessed runtimes.
    fn rates(&self, quotas: &mut QuotaTable) -> Table<f64> {
        let known = RuntimeModel::new(&self.question.facts, &self.platforms);
        let guesses: Vec<Vec<f64>> =
            quotas.rows.iter().map(|row| known.guess(&row.kind.application)).collect();
        for (row, guesses) in quotas.rows.iter_mut().zip(&guesses) {
            for (cell, guess_s) in row.cells.iter_mut().zip(guesses) {
                cell.guess_s = Some(*guess_s).filter(|_| cell.runtime_s.is_none());
            }
        }
        let places = Table::new(quotas.rows.len(), quotas.platforms.len(), ());
        places.map_places(|row, column| {
            let cell = quotas.rows[row].cells[column];
            cell.n_slots as f64 * cell.success_rate() / guesses[row][column]
        })
    }

    fn matrix(&self, quotas: &QuotaTable, policy: Distribution) -> WeightMatrix {
        let cores: Vec<u64> = self.shapes.iter().map(|shapes| cores_of(shapes)).collect();
        // Scaled by the slots, because tasks may take several cores or lack memory.
        let of_slots = |row: usize, column: usize| {
            let cell = quotas.rows[row].cells[column];
            cell.runtime_s.map(|runtime_s| runtime_s * cores[column] as f64 / cell.n_slots.max(1) as f64)
        };
        let runtimes = Table::new(quotas.rows.len(), cores.len(), ()).map_places(of_slots);
        let known = Known { cores: &cores, runtimes: &runtimes };
        let law = Distributor::new(policy, &Settings::default(), &known);
        let nothing = Table::new(0, cores.len(), 0);
        let masked = |row: usize, column: usize| {
            let has_room = quotas.rows[row].cells[column].n_slots > 0;
            if has_room { law.weights(row, 1, &nothing).shares()[column] } else { 0.0 }
        };
        WeightMatrix::of(&runtimes.map_places(masked))
    }

    /// Returns the number of tasks that wait for each platform or are held there.
    fn queued(&self, quotas: &QuotaTable) -> Vec<u64> {
        let of_column = |column: usize| quotas.rows.iter().map(move |row| row.cells[column].n_left);
        let left = |column: usize| of_column(column).fold(0, u64::saturating_add);
        (0..self.platforms.len()).map(|column| left(column).saturating_add(self.held[column])).collect()
    }
}

impl ClassQuota {
    /// Throttles platforms that fail much more often than another: nearly all attempts count as failing
    /// there.
    fn shun(&mut self) {
        let least = QuotaCell::least_errors(self.cells.iter());
        self.cells.iter_mut().for_each(|cell| cell.is_shunned = cell.error_rate > least + SHUNNED_FROM);
    }

    /// Adds tasks to the quotas, divided by these weights.
    fn add(&mut self, n_tasks: u64, weights: &Weights) {
        let parts = whole(n_tasks, weights.shares());
        self.cells.iter_mut().zip(parts).for_each(|(cell, n)| cell.n_left = cell.n_left.saturating_add(n));
    }

    /// Adjusts the quotas to the number of ready tasks: tasks that have come back are divided by the weights
    /// as well.
    fn level(&mut self, n_ready: u64) {
        let n_left = self.n_left();
        if n_left < n_ready {
            let weights = self.weights.clone();
            self.add(n_ready - n_left, &weights);
        }
        self.take_over(n_left.saturating_sub(n_ready));
    }
}

impl QuotaCell {
    /// Limits a throttled platform to the tasks that show, now and then, whether it has recovered, whatever
    /// its weight.
    fn ration(&mut self, now: Time, n_ready: u64) {
        if !self.is_shunned {
            return;
        }
        // While nothing fails there, it is probed again at once, with more tasks each time.
        let is_due = self.n_since_loss > 0 || self.tried_at.is_none_or(|at| now.since(at) >= TRIED_EVERY);
        let n_tried = self.n_slots.saturating_add(self.n_since_loss);
        self.n_left = if is_due { n_ready.min(n_tried) } else { 0 };
        if self.n_left > 0 {
            self.tried_at = Some(now);
        }
    }
}

/// Leaves out platforms on which a single task would end after all other work: the division treats work as a
/// fluid on all cores at once, but a task runs on one. Returns whether there are any.
fn leave_out_late(quotas: &QuotaTable, rates: &mut Table<f64>, division: &Division) -> bool {
    let last_end_s = division.last_end();
    let mut is_any = false;
    for (n, row) in quotas.rows.iter().enumerate() {
        let Some(best_s) = best_runtime(row) else { continue };
        for (column, cell) in row.cells.iter().enumerate() {
            if cell.success_s().is_some_and(|own| own > last_end_s + best_s)
                && division.amounts.at(n, column) > 0.0
            {
                *rates.at_mut(n, column) = 0.0;
                is_any = true;
            }
        }
    }
    is_any
}

/// Returns the seconds to a success on the fastest platform that has room for the class.
fn best_runtime(row: &ClassQuota) -> Option<f64> {
    let known = row.cells.iter().filter(|cell| cell.n_slots > 0).filter_map(QuotaCell::success_s);
    known.reduce(f64::min)
}

/// Returns how long jobs of a class wait for the platforms that should take them first.
fn patience(best_s: Option<f64>) -> Span {
    let patience = best_s.map_or(Span::ZERO, |best_s| Span::from_secs_f64(best_s * PATIENCE));
    patience.max(PATIENCE_LEAST).min(PATIENCE_MOST)
}

/// Returns the time `spare_s` seconds after now; the time 0 if `spare_s` is negative.
fn now_plus(now: Time, spare_s: f64) -> Time {
    if spare_s < 0.0 { Time(0) } else { now + Span::from_secs_f64(spare_s) }
}

fn cores_of(shapes: &[(Resources, u64)]) -> u64 {
    let cores = shapes.iter().map(|(capacity, n)| u64::from(capacity.cores).saturating_mul(*n));
    cores.fold(0, u64::saturating_add)
}

/// Divides `n` by these shares into whole numbers; the rest from rounding goes to the shares that lost most
/// by it.
fn whole(n: u64, shares: &[f64]) -> Vec<u64> {
    let mut left = n;
    let floor = |share: &f64| {
        let part = ((n as f64 * share) as u64).min(left);
        left -= part;
        part
    };
    let mut parts: Vec<u64> = shares.iter().map(floor).collect();
    let lost = |place: usize| (n as f64 * shares[place]).fract();
    let mut order: Vec<usize> = (0..shares.len()).filter(|place| shares[*place] > 0.0).collect();
    order.sort_by(|a, b| lost(*b).total_cmp(&lost(*a)));
    for place in order.iter().copied() {
        let more = left.min(1);
        parts[place] += more;
        left -= more;
    }
    if let Some(first) = order.first() {
        parts[*first] += left;
    }
    parts
}
