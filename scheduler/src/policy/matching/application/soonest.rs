//! Soonest: of the applications that suit the node nearly as well as its best one, that whose job could end
//! soonest. Ours, not the paper's: found in the simulation of paper 002, which reports how it compares.
//!
//! How well a node suits is what the whole node gets done, rate × degree, by the weighted mean of that over all
//! nodes (equation 3, of another number). Global importance draws all nodes to the same applications, so that
//! jobs end one after the other, and node importance lets each node work where it is best, so that all jobs
//! end late: what is nearly best costs little, and leaves a choice that does the former.

use super::{Importance, Open, Score};

/// An application is nearly as good as the best when it suits the node at most this part less.
const NEARLY: f64 = 0.12;

pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    let speeds = importance.row(application).speeds;
    let speed = importance.rate(application, node) * f64::from(importance.degree(application, node));
    Score::of(if speeds.weighted_mean > 0.0 { speed / speeds.weighted_mean } else { 0.0 })
}

/// Of equal ones the first.
pub(super) fn choose(importance: &Importance, node: usize, open: &[Open]) -> Option<usize> {
    let suits = |one: &Open| score(importance, one.application, node).0;
    let enough = (1.0 - NEARLY) * open.iter().map(suits).fold(0.0, f64::max);
    // As if all nodes worked on that job; they are the same number for all applications.
    let seconds = |one: &Open| match importance.row(one.application).speeds.mean {
        speed if speed > 0.0 => one.work / speed,
        _ => f64::INFINITY,
    };
    let near = open.iter().filter(|one| suits(one) >= enough);
    near.min_by(|a, b| seconds(a).total_cmp(&seconds(b))).map(|one| one.application)
}
