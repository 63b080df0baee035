//! Checks whether the published policies are as unsound as they look: bounds, swings, the ratchet, the climb.

use super::{
    course::{cell, course},
    trials::{CORE, LOAD, MEASURED, Metric, PUBLISHED, SOUND, STATIC, Trials, everywhere, mean, of},
};
use crate::{
    adaptive::{
        fluid::{INTERVAL_S, Moment, Outcome},
        published::{REFERENCE_CHANGES, REFERENCE_CHANGES_SOUND, REFERENCE_CLAMPED},
        workload::{Cell, N_TASKS},
        world::{CLOUD, CORES, Condition, Nature, Pace},
    },
    report::{Claim, Part, Verdict},
};

/// A load at which both platforms are often idle.
const QUIET: f64 = 0.5;
/// A weight that differs by more than this counts as changed.
const RATCHET: f64 = 0.1;

pub(super) fn part(trials: &Trials, seed: u64) -> Part {
    let claims = vec![
        bounds(trials),
        swings(trials),
        swings_of_sound(trials),
        ratchet(seed),
        climb(seed),
        load_alone(trials),
        cost_on_cpu(trials),
        sound_wins(trials),
        measured_wins(trials),
    ];
    Part {
        title: "Whether the published laws are sound (Algorithms 3 and 4; ours)".into(),
        text: "Read as printed, the laws have faults that can be named before anything is run: nothing \
               keeps weights within 0 and 1; Algorithm 4 has no state in which it rests, and its `else` \
               adds a vCPU even when too many attempts fail; ERROR moves weight to the cloud and nothing \
               moves it back; LOAD compares a queue with the size of a job, and rates never enter. Each is \
               counted here over all runs of the 24 cells, where not said otherwise. These are remarks of \
               ours, not claims of the paper; what they are compared with are numbers of an independent \
               computation, or the remark itself."
            .into(),
        claims,
        ..Part::default()
    }
}

fn computes(cell: &Cell) -> bool {
    cell.condition != Condition::Io
}

fn n_changes(outcome: &Outcome) -> f64 {
    outcome.n_changes as f64
}

/// Returns the part of the intervals at whose end vCPUs changed.
fn part_changed(outcome: &Outcome) -> f64 {
    n_changes(outcome) * INTERVAL_S / (N_TASKS as f64 / outcome.throughput)
}

fn bounds(trials: &Trials) -> Claim {
    let (_, most) = trials.range(PUBLISHED, everywhere, |outcome| outcome.n_clamped as f64);
    Claim::new(
        "weights would leave 0 to 1: steps of a run, at most",
        REFERENCE_CLAMPED.to_string(),
        format!("{most}"),
        Verdict::of_sentence(most > 0.0, "no step left 0 to 1 in our runs"),
    )
    .of_ours()
}

fn swings(trials: &Trials) -> Claim {
    let (least, most) = trials.range(PUBLISHED, computes, n_changes);
    let (least_part, _) = trials.range(PUBLISHED, computes, part_changed);
    Claim::new(
        "Algorithm 4 never rests: changes of vCPUs a run, CPU-bound and mixed",
        format!("{} to {}", REFERENCE_CHANGES.0, REFERENCE_CHANGES.1),
        format!(
            "{least} to {most}; in each run at the end of {:.0} % of intervals or more",
            least_part * 100.0
        ),
        Verdict::of_sentence(least_part > 0.5, "in some run it rested for half of the time or more"),
    )
    .of_ours()
}

fn swings_of_sound(trials: &Trials) -> Claim {
    let (least, most) = trials.range(SOUND, everywhere, n_changes);
    let published = trials.sum(PUBLISHED, n_changes);
    let part = trials.sum(SOUND, n_changes) / published * 100.0;
    Claim::new(
        "the sound law changes vCPUs less often: changes a run, all conditions",
        format!("{} to {}", REFERENCE_CHANGES_SOUND.0, REFERENCE_CHANGES_SOUND.1),
        format!("{least} to {most}; {part:.0} % of the published law's"),
        Verdict::of_sentence(part < 100.0, "it changes them more often"),
    )
    .of_ours()
}

/// Compares the cloud's weight under the published policy, in a run where the initial weights are right until
/// the end.
fn ratchet(seed: u64) -> Claim {
    let quiet = Cell { load: QUIET, ..cell(Condition::Cpu) };
    let weights = |law| course(quiet, law, seed).into_iter().map(|moment| moment.cloud_weight);
    let (initial, published, sound) = (initial_weight(), mean(weights(PUBLISHED)), mean(weights(SOUND)));
    Claim::new(
        "ERROR is a ratchet: each rise gives Delta to the cloud, no fall takes it back (weight of \
               the cloud, stable, CPU-bound, load 0.5, where queues are short and LOAD seldom acts)"
            ,
        "yes",
        format!(
            "{initial:.2} by profile; in the mean {published:.2} under the published law, {sound:.2} under the \
             sound one"
        ),
        Verdict::of_sentence(
            published > initial + RATCHET && sound < initial + RATCHET,
            "the weight stayed near its beginning, or left it under both laws",
        ),
    )
    .of_ours()
}

/// Returns the cloud's profiled weight for AutoDock.
fn initial_weight() -> f64 {
    let rate = |platform| Pace::of(0, platform, 1.0, Nature::default()).attempts;
    rate(CLOUD) / (rate(1 - CLOUD) + rate(CLOUD))
}

/// Counts rises of vCPUs although nothing waited.
fn climb(seed: u64) -> Claim {
    let quiet = Cell { load: QUIET, ..cell(Condition::Io) };
    let n_rises = |law| {
        let is_idle_rise = |two: &&[Moment]| {
            let n_vcpus = two[0].ratio * CORES[CLOUD] as f64;
            two[1].ratio > two[0].ratio && two[1].n_queued as f64 <= n_vcpus
        };
        course(quiet, law, seed).windows(2).filter(is_idle_rise).count()
    };
    let (published, sound) = (n_rises(PUBLISHED), n_rises(SOUND));
    Claim::new(
        "Algorithm 4 climbs whether or not there is work: rises with no more tasks than vCPUs, stable, \
               I/O-bound, load 0.5",
        "always to C",
        format!("such rises: {published}; under the sound law: {sound}"),
        Verdict::of_sentence(published > 0 && sound == 0, "it met work at each rise of this run"),
    )
    .of_ours()
}

fn load_alone(trials: &Trials) -> Claim {
    let gain = |law| trials.gain(law, Metric::Throughput, everywhere);
    let (load, fixed) = (gain(LOAD), gain(STATIC));
    let steps: Vec<f64> =
        (0..3).map(|step| trials.sum(LOAD, |outcome| outcome.load_steps[step] as f64)).collect();
    let all: f64 = steps.iter().sum();
    let part = |step: usize| steps[step] / all * 100.0;
    Claim::new(
        "LOAD alone is worth nothing over the static weights that it starts from (throughput)",
        "+13.2 against +13.5 %",
        format!(
            "{load:+.1} against {fixed:+.1} %; of its steps {:.0} % keep, {:.0} % initialize, {:.0} % move",
            part(0),
            part(1),
            part(2)
        ),
        Verdict::of_sentence(load <= fixed, "it gains here"),
    )
    .of_ours()
}

fn cost_on_cpu(trials: &Trials) -> Claim {
    let gain = |law| trials.gain(law, Metric::Throughput, of(Condition::Cpu));
    let (published, fixed, measured) = (gain(PUBLISHED), gain(STATIC), gain(MEASURED));
    Claim::new(
        "on CPU-bound workloads the published scaling costs throughput against its own static weights",
        "+10 against +20 % (stable, load 1.1)",
        format!("{published:+.1} against {fixed:+.1} % (all CPU-bound cells; measured law {measured:+.1} %)"),
        Verdict::of_sentence(published < fixed, "it gains here"),
    )
    .of_ours()
}

/// Returns whether one policy is better in all three means, and the numbers in words.
fn wins(trials: &Trials, one: usize, other: usize) -> (bool, String) {
    let is_better = Metric::ALL.map(|metric| {
        metric.is_better(trials.gain(one, metric, everywhere), trials.gain(other, metric, everywhere))
    });
    let words = Metric::ALL.map(|metric| {
        let n = trials.n_cells_better(one, other, metric);
        let part = trials.runs_better(one, other, metric);
        format!("{} in {n} of {} cells and {part:.0} % of runs", metric.name(), trials.cells.len())
    });
    (!is_better.contains(&false), words.join(", "))
}

fn sound_wins(trials: &Trials) -> Claim {
    let (is_so, words) = wins(trials, SOUND, PUBLISHED);
    Claim::new(
        "the sound laws beat the published ones in the means of all three metrics",
        "yes",
        format!("better {words}"),
        Verdict::of_sentence(is_so, "not in each of them"),
    )
    .of_ours()
}

fn measured_wins(trials: &Trials) -> Claim {
    let (beats_sound, words) = wins(trials, MEASURED, SOUND);
    let (beats_published, _) = wins(trials, MEASURED, PUBLISHED);
    let (beats_core, _) = wins(trials, MEASURED, CORE);
    Claim::new(
        "a law that beats all of them in the means of all three metrics (ours)",
        "not in the paper",
        format!("measured against sound: better {words}"),
        Verdict::of_sentence(beats_sound && beats_published && beats_core, "not in each of them"),
    )
    .of_ours()
}
