//! Soonest: among the applications that suit the node nearly as well as its best one, chooses the one whose
//! job could end soonest. Ours, not the paper's: found in the simulation of paper 002, which reports the
//! comparison.
//!
//! The suitability of a node is its speed, rate × degree, divided by the weighted mean of the speeds of all
//! nodes (equation 3, applied to another number). Global importance draws all nodes to the same applications,
//! so that jobs end one after the other. Node importance lets each node work where it is best, so that all
//! jobs end late. An application that is nearly best costs little, and the choice among these lets jobs end
//! one after the other.

use super::{Importance, Open, Score};

/// An application is nearly as good as the best if its suitability is less by at most this part.
const NEARLY: f64 = 0.12;

pub(super) fn score(importance: &Importance, application: usize, node: usize) -> Score {
    let speeds = importance.row(application).speeds;
    let speed = importance.rate(application, node) * f64::from(importance.degree(application, node));
    Score::of(if speeds.weighted_mean > 0.0 { speed / speeds.weighted_mean } else { 0.0 })
}

/// Returns the first of equally good applications.
pub(super) fn choose(importance: &Importance, node: usize, open: &[Open]) -> Option<usize> {
    let suits = |one: &Open| score(importance, one.application, node).0;
    let enough = (1.0 - NEARLY) * open.iter().map(suits).fold(0.0, f64::max);
    // The estimate assumes that all nodes work on the job; their number is the same for all applications.
    let seconds = |one: &Open| match importance.row(one.application).speeds.mean {
        speed if speed > 0.0 => one.work / speed,
        _ => f64::INFINITY,
    };
    let near = open.iter().filter(|one| suits(one) >= enough);
    near.min_by(|a, b| seconds(a).total_cmp(&seconds(b))).map(|one| one.application)
}
