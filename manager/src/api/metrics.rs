//! What monitoring reads: the manager's figures in the text format of Prometheus.

use std::{collections::BTreeSet, fmt::Write as _};

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use scheduler::engine::interface::{
    Answer, PlatformMode, Query,
    views::{PlatformView, StatusView, weights::WeightsView},
};

use super::{Shared, blocking};
use crate::api::http::{error::ApiError, extract::User};

/// Its media type.
pub(super) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All of them.
pub(super) async fn show(State(context): State<Shared>, user: User) -> Result<Response, ApiError> {
    let status = match context.query(Query::Status).await? {
        Answer::Status(view) => view,
        other => return Err(ApiError::unexpected(&other)),
    };
    let platforms = match context.query(Query::Platforms).await? {
        Answer::Platforms(platforms) => platforms,
        other => return Err(ApiError::unexpected(&other)),
    };
    let weights = match context.query(Query::Weights).await? {
        Answer::Weights(weights) => weights,
        other => return Err(ApiError::unexpected(&other)),
    };
    let reader = context.state.reader.clone();
    let store_bytes = blocking(move || Ok(reader.size_bytes()?)).await?;
    let mut page = Page::default();
    let started_s = context.state.started_at.0 as f64 / 1e6;
    page.one("gauge", "up", "1 while a manager runs; `pilotfish metrics` says 0 without one.", 1.0);
    page.one("gauge", "start_time_seconds", "When the manager started, since the Unix epoch.", started_s);
    page.one("gauge", "store_bytes", "The size of the store.", store_bytes as f64);
    let help = "1 while the manager's disk is so full that no job and no output is taken.";
    page.one("gauge", "disk_full", help, f64::from(u8::from(context.state.reserve.is_low())));
    let (n_in, n_out) = context.objects.n_moved();
    let moved = [("in", n_in), ("out", n_out)].map(|(way, n)| (vec![("direction", way)], n as f64));
    let help = "Bytes of files that submitters and pilots have brought, and fetched, since the start.";
    page.metric(("counter", "file_bytes_total", help), moved);
    let moved = context.peers.moved();
    let n_taken = moved.n_taken as f64;
    page.one(
        "counter",
        "tasks_taken_total",
        "Tasks that idle pilots took from others by themselves, as they have told.",
        n_taken,
    );
    let moved = [("cache", moved.from_cache), ("peers", moved.from_peers), ("manager", moved.from_manager)];
    let moved = moved.map(|(from, n)| (vec![("from", from)], n as f64));
    let help = "Bytes of inputs by where pilots have found them, as far as they have told since the start.";
    page.metric(("counter", "input_bytes_total", help), moved);
    page.totals(&status);
    page.platforms(&platforms);
    let stores = context.state.stores.waiting(user.name_unless_operator()).await;
    let waits = stores.iter().map(|(name, waits)| (vec![("store", &**name)], f64::from(u8::from(*waits))));
    page.metric(("gauge", "store_waits_for_person", "1 if its connection waits for a person."), waits);
    page.weights(&weights);
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, MEDIA_TYPE)], page.0).into_response())
}

/// Label names and values.
type Labels<'a> = Vec<(&'static str, &'a str)>;

#[derive(Default)]
struct Page(String);

impl Page {
    /// A metric with its values, if there are any: the format wants those of one name together.
    fn metric<'a>(
        &mut self,
        (kind, name, help): (&str, &str, &str),
        values: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            // Writing to a string cannot fail.
            let _ = writeln!(self.0, "# HELP pilotfish_{name} {help}\n# TYPE pilotfish_{name} {kind}");
        }
        let mut seen = BTreeSet::new();
        for (labels, value) in values {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            // Who reads them refuses all if one is there twice: kinds may look alike when rounded.
            if seen.insert(labels.clone()) {
                let _ = writeln!(self.0, "pilotfish_{name}{labels} {value}");
            }
        }
    }

    fn one(&mut self, kind: &str, name: &str, help: &str, value: f64) {
        self.metric((kind, name, help), [(Vec::new(), value)]);
    }

    fn totals(&mut self, status: &StatusView) {
        let by_state = |states: &[(&'static str, u64)]| -> Vec<(Labels<'static>, f64)> {
            states.iter().map(|(state, n)| (vec![("state", *state)], *n as f64)).collect()
        };
        let jobs = by_state(&[
            ("active", status.n_jobs_active),
            ("paused", status.n_jobs_paused),
            ("over", status.n_jobs_over),
        ]);
        self.metric(("gauge", "jobs", "Jobs by state."), jobs);
        let counts = &status.counts;
        let tasks = by_state(&[
            ("waiting", counts.waiting),
            ("queued", counts.queued),
            ("running", counts.running),
            ("done", counts.done),
            ("failed", counts.failed),
            ("cancelled", counts.cancelled),
        ]);
        self.metric(("gauge", "tasks", "Tasks by state; queued: sent ahead to pilots."), tasks);
        self.one("gauge", "pilots", "Pilots that are there.", status.n_pilots as f64);
        self.one("gauge", "cores", "Cores of the pilots that are there.", status.cores as f64);
        self.one("gauge", "cores_used", "Cores that tasks use.", status.used_cores as f64);
        let help = "Results that were refused since the start: their pilots were not leased the tasks.";
        self.one("counter", "results_refused_total", help, status.n_results_refused as f64);
        if let Some(fairness) = status.fairness {
            let help = "How evenly users with open tasks are served, at most 1 (paper 000, section 6.1).";
            self.one("gauge", "fairness", help, fairness);
        }
    }

    fn platforms(&mut self, platforms: &[PlatformView]) {
        let mut of_each = |kind, name, help, value: &dyn Fn(&PlatformView) -> Option<f64>| {
            let values =
                platforms.iter().filter_map(|one| Some((vec![("platform", &*one.name)], value(one)?)));
            self.metric((kind, name, help), values);
        };
        of_each("gauge", "platform_active", "1 if it is asked for pilots, 0 if it rests.", &|one| {
            Some(f64::from(u8::from(one.mode == PlatformMode::Active && one.is_attached)))
        });
        of_each("gauge", "platform_pilots", "Pilots that are there.", &|one| Some(one.n_pilots as f64));
        of_each("gauge", "platform_cores_used", "Cores that tasks use.", &|one| Some(one.used_cores as f64));
        of_each("gauge", "platform_allocations_waiting", "Allocations without a pilot yet.", &|one| {
            Some(one.n_allocations_waiting as f64)
        });
        of_each("gauge", "platform_allocations_unknown", "Submissions without a clear answer.", &|one| {
            Some(one.n_allocations_unknown as f64)
        });
        of_each("gauge", "platform_waits_for_person", "1 if its connection waits for a person.", &|one| {
            Some(f64::from(u8::from(one.waits_for_person.is_some())))
        });
        of_each("gauge", "platform_failures", "Failures in a row.", &|one| Some(f64::from(one.n_failures)));
        of_each(
            "gauge",
            "platform_wait_seconds",
            "How long allocations wait for their pilot, mean.",
            &|one| one.wait_mean.map(|wait| wait.as_secs_f64()),
        );
        of_each("gauge", "platform_vcpus_per_core", "vCPUs, or slots, that a core stands for.", &|one| {
            one.scaling.as_ref().map(|scaling| scaling.ratio.number())
        });
        of_each("counter", "platform_cost_total", "What they cost, in the platform's currency.", &|one| {
            one.cost.as_ref().map(|cost| cost.spent.0 as f64 / 1e6)
        });
        of_each("counter", "platform_core_seconds_total", "Taken by allocations that have ended.", &|one| {
            Some(one.core_time_spent.as_secs_f64())
        });
        let of_users = platforms.iter().flat_map(|one| {
            one.core_time_used.iter().map(|(user, time)| {
                (vec![("platform", one.name.as_str()), ("user", user.as_str())], time.as_secs_f64())
            })
        });
        self.metric(("counter", "user_core_seconds_total", "Taken by tasks of each user."), of_users);
        let shares = platforms.iter().flat_map(|one| {
            one.shares.iter().map(|(user, cores)| {
                (vec![("platform", one.name.as_str()), ("user", user.as_str())], *cores as f64)
            })
        });
        self.metric(("gauge", "share_cores", "Cores that are meant for each user."), shares);
    }

    fn weights(&mut self, weights: &WeightsView) {
        let needs: Vec<String> = weights.kinds.iter().map(|kind| kind.needs.to_string()).collect();
        let cells = || {
            weights.kinds.iter().zip(&needs).flat_map(|(kind, needs)| {
                kind.platforms.iter().map(move |cell| {
                    let labels: Labels<'_> = vec![
                        ("application", &kind.application),
                        ("needs", needs),
                        ("platform", &cell.platform),
                    ];
                    (labels, cell)
                })
            })
        };
        let weight = cells().map(|(labels, cell)| (labels, cell.weight));
        self.metric(("gauge", "weight", "The share of what waits that is meant for a platform."), weight);
        let errors = cells().map(|(labels, cell)| (labels, cell.error_rate));
        self.metric(("gauge", "error_rate", "The part of the last attempts that failed."), errors);
    }
}

/// As the format wants values of labels.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn values_stand_under_their_metric() {
        let mut page = Page::default();
        page.one("gauge", "cores", "Cores.", 2.5);
        page.metric(("counter", "seen_total", "None."), []);
        page.metric(
            ("gauge", "twice", "Once."),
            [(vec![("needs", "1 core")], 1.0), (vec![("needs", "1 core")], 2.0)],
        );
        page.metric(
            ("gauge", "weight", "Shares."),
            [(vec![("application", "a\"b\\c\nd"), ("platform", "x")], 0.0)],
        );
        assert_eq!(
            page.0,
            "# HELP pilotfish_cores Cores.\n# TYPE pilotfish_cores gauge\npilotfish_cores 2.5\n\
             # HELP pilotfish_twice Once.\n# TYPE pilotfish_twice gauge\npilotfish_twice{needs=\"1 core\"} 1\n\
             # HELP pilotfish_weight Shares.\n# TYPE pilotfish_weight gauge\n\
             pilotfish_weight{application=\"a\\\"b\\\\c\\nd\",platform=\"x\"} 0\n"
        );
    }
}
