//! The papers' worked examples through a running manager: what an operator declares and users submit goes in by the
//! API, decisions come out of it.

use protocol::{codec::Format, job::JobSpec};
use scheduler::pull::Pull;
use serde_json::{Value, json};

use super::scene::{Scene, echo};

/// A job of so many tasks of an application.
fn job(application: &str, n_tasks: u64) -> JobSpec {
    JobSpec { application: application.to_owned(), ..echo(n_tasks) }
}

impl Scene {
    async fn set(&self, layer: &str, policy: &str) {
        self.operate("/api/v1/policies/set", json!({"layer": layer, "policy": policy})).await;
    }

    /// Declares how long a task takes on each platform, and how busy it keeps its cores.
    async fn declare(&self, application: &str, cpu_share: f64, times_s: &[(&str, f64)]) {
        let micros = |seconds: f64| json!((seconds * 1e6).round() as u64);
        let times: serde_json::Map<String, Value> =
            times_s.iter().map(|(platform, seconds)| ((*platform).to_owned(), micros(*seconds))).collect();
        let declared = json!({
            "job_type": null, "cpu_share": cpu_share, "times": times, "counts_as": 10, "source": "the paper",
        });
        self.operate("/api/v1/profiles/declare", json!({"application": application, "declared": declared}))
            .await;
    }

    /// By application, its row of the matrix W, in hundredths.
    async fn weights(&self) -> Vec<(String, Vec<u64>)> {
        let weights = self.get("/api/v1/weights").await.json();
        let hundredths = |one: &Value| (one["weight"].as_f64().unwrap() * 100.0).round() as u64;
        let row = |kind: &Value| {
            let row = kind["platforms"].as_array().unwrap().iter().map(hundredths).collect();
            (kind["application"].as_str().unwrap().to_owned(), row)
        };
        weights["kinds"].as_array().unwrap().iter().map(row).collect()
    }
}

fn rows(expected: &[(&str, [u64; 2])]) -> Vec<(String, Vec<u64>)> {
    expected.iter().map(|(name, row)| ((*name).to_owned(), row.to_vec())).collect()
}

/// Paper 003, section 3.3: three applications on two platforms, 30,000, 150,000 and 70,000 tasks. Its loads follow
/// from no weights (POLICIES.md); those of its own weights do what they should: after two jobs what waits at the first
/// platform is above the mean size of a job, 90,000, and at the second it is not.
#[tokio::test]
async fn load_moves_the_weights_of_the_example_of_2016() {
    let mut scene = Scene::start().await;
    scene.set("distribution", "adaptive-2016").await;
    let _pilots = [scene.pilot_of("first", 1).await, scene.pilot_of("second", 1).await];
    // One core each: .55 and .45 are as 9 s and 11 s, .70 and .30 as 3 s and 7 s.
    scene.declare("one", 1.0, &[("first", 9.0), ("second", 11.0)]).await;
    scene.declare("two", 1.0, &[("first", 3.0), ("second", 7.0)]).await;
    scene.declare("three", 1.0, &[("first", 9.0), ("second", 11.0)]).await;
    scene.submit(&job("one", 30_000)).await;
    assert_eq!(scene.weights().await, rows(&[("one", [55, 45])]), "30,000 are no more than the mean");
    scene.submit(&job("two", 150_000)).await;
    let moved = rows(&[("one", [45, 55]), ("two", [60, 40])]);
    assert_eq!(scene.weights().await, moved, "121,500 and 58,500 wait: the paper's updated matrix");
    scene.submit(&job("three", 70_000)).await;
    let initial = rows(&[("one", [55, 45]), ("three", [55, 45]), ("two", [70, 30])]);
    assert_eq!(scene.weights().await, initial, "160,000 and 90,000 wait, both more than 83,333");
}

/// Paper 002, equations 3 to 8 on a case worked out by hand (reference/paper002.json): rates of three applications on
/// four nodes of 8, 4, 16 and 1 cores, of which they keep a half, a quarter and all busy.
#[tokio::test]
async fn each_node_serves_the_application_of_the_highest_global_importance() {
    const NODES: [(&str, u32); 4] = [("a", 8), ("b", 4), ("c", 16), ("d", 1)];
    const RATES: [(&str, f64, [f64; 4]); 3] = [
        ("zero", 0.5, [1.0, 2.0, 0.5, 1.5]),
        ("one", 0.25, [1.0, 1.0, 1.0, 1.2]),
        ("two", 1.0, [1.0, 0.4, 2.5, 0.8]),
    ];
    const SERVED: [&str; 4] = ["two", "zero", "two", "one"];

    let mut scene = Scene::start().await;
    scene.set("matching", "alstb").await;
    scene.set("distribution", "none").await;
    let mut pilots = Vec::new();
    for (node, n_cores) in NODES {
        pilots.push(scene.pilot_of(node, n_cores).await);
    }
    let mut jobs = std::collections::BTreeMap::new();
    for (application, cpu_share, rates) in RATES {
        let times: Vec<(&str, f64)> =
            NODES.iter().zip(rates).map(|((node, _), rate)| (*node, 60.0 / rate)).collect();
        scene.declare(application, cpu_share, &times).await;
        jobs.insert(scene.submit(&job(application, 1000)).await, application);
    }
    let mut served = Vec::new();
    for pilot in &mut pilots {
        let answer = scene.pull(pilot, Format::Json, Pull { is_hungry: true, ..Pull::default() }).await;
        served.push(jobs[&answer.parts[0].bundles[0].job.0]);
    }
    assert_eq!(served, SERVED);
}
