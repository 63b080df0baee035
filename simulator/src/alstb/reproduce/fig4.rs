//! Fig. 4: ALSTB compared with heuristics that map every task ahead of time.

use scheduler::policy::{bundling::by_estimate::ByEstimate, matching::application::ByApplication};

use super::{
    MEASURES, Sizes,
    fig5::OTHER_NODES,
    heuristics::{HEURISTICS, Points},
    independent, runs,
};
use crate::{
    alstb::{
        ahead,
        published::{N_TASKS_OF_FIG_4, OF_FIG_4},
        scene::{N_PROCESSORS, Setting},
        world::{self, Policies},
    },
    report::{Cell, Claim, Draws, Figure, Listing, Part, Progress, Shape, Verdict, verdict::TOLERANCE},
};

/// Variation of times; the paper's table of settings has no value for this figure. The claims use the first.
const VARIATIONS: [f64; 2] = [0.6, 0.1];

pub(super) fn part(sizes: &Sizes, seed: u64, progress: &dyn Progress) -> Part {
    let run = |variation, n_processors, n_instances| {
        let setting = setting(variation, n_processors);
        points(&setting, &N_TASKS_OF_FIG_4[..sizes.n_points], n_instances, seed, progress)
    };
    let n = sizes.n_instances_of_fig4;
    let [of_much, of_little] = VARIATIONS.map(|variation| run(variation, N_PROCESSORS, n));
    let on_others = run(VARIATIONS[0], OTHER_NODES[0], sizes.n_instances);
    Part {
        title: "Fig. 4: application level against task level".into(),
        text: format!(
            "100 nodes, 10 applications, 20 jobs. The heuristics map every task before the first begins, to a \
             node as one machine: a task at a time, each with T_trans and T_env, the whole node charged. The \
             claims are checked with times that vary by 0.6 between applications and between nodes (chosen; the \
             paper gives no value for this figure); the second table is of 0.1.\n\n{}",
            independent::text(sizes, &of_much, &on_others)
        ),
        claims: claims(&of_much),
        tables: vec![
            listing("fig4", VARIATIONS[0], &of_much),
            listing("fig4-little-variation", VARIATIONS[1], &of_little),
            independent::listing(&of_much, &on_others),
        ],
        figures: (0..3).map(|measure| figure(measure, &of_much)).collect(),
    }
}

fn setting(variation: f64, n_processors: &'static [u32]) -> Setting {
    Setting {
        n_nodes: 100,
        n_applications: 10,
        n_jobs: 20,
        n_tasks: (0, 0),
        n_processors,
        v_machine: variation,
        v_application: variation,
    }
}

fn points(
    setting: &Setting,
    n_tasks: &[u64],
    n_instances: u64,
    seed: u64,
    progress: &dyn Progress,
) -> Points {
    let settings: Vec<Setting> = n_tasks.iter().map(|n| Setting { n_tasks: (*n, *n), ..*setting }).collect();
    let all = runs::run(&settings, n_instances, seed, progress, |scene| {
        let paper = Policies { matching: ByApplication::Alstb, bundling: ByEstimate::PAPER };
        let heuristics = HEURISTICS.iter().map(|(_, policy)| ahead::run(scene, *policy).measures());
        heuristics.chain([world::run(scene, paper).measures()]).collect()
    });
    let ratios = all.iter().map(|runs| (0..3).map(|one| runs::spreads(runs, one, 3)).collect());
    n_tasks.iter().copied().zip(ratios).collect()
}

fn claims(points: &Points) -> Vec<Claim> {
    let (Some((fewest, first)), Some((most, last))) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let of_each = |is_so: &dyn Fn(usize) -> bool| [0, 1, 2].map(is_so);
    let is_clear = |one: usize| points.iter().all(|(_, ratios)| ratios[one][2].mean > 1.0 + TOLERANCE);
    let parts: [Vec<(&str, [bool; 3])>; 3] = [
        vec![
            ("ahead with the fewest tasks", of_each(&|one| first[one][0].mean < 1.0)),
            ("falls back as tasks grow", of_each(&|one| last[one][0].mean > first[one][0].mean)),
            ("behind with the most tasks", of_each(&|one| last[one][0].mean > 1.0)),
        ],
        vec![("the gap widens", of_each(&|one| last[one][1].mean > first[one][1].mean.max(1.0)))],
        vec![("higher by more than a tenth at each number of tasks", of_each(&is_clear))],
    ];
    let claim = |(measure, parts): (usize, &Vec<(&str, [bool; 3])>)| {
        Claim::new(
            format!("Fig. 4, section 5.2: overall {}, MinMin / Sufferage / MaxStd", MEASURES[measure]),
            OF_FIG_4[measure],
            format!(
                "{} of ALSTB's at {fewest} tasks a job, {} at {most}",
                slashed(first, measure),
                slashed(last, measure)
            ),
            judge(parts),
        )
    };
    parts.iter().enumerate().map(claim).collect()
}

/// Returns a verdict that holds if each part is true for each heuristic, and otherwise names the exceptions.
fn judge(parts: &[(&str, [bool; 3])]) -> Verdict {
    let of_whom = |(what, is_so): &(&str, [bool; 3])| {
        let not = HEURISTICS.iter().zip(is_so).filter(|(_, is_so)| !**is_so).map(|((name, _), _)| *name);
        match not.collect::<Vec<_>>().join(", ").as_str() {
            "" => format!("{what}: all"),
            not => format!("{what}: not {not}"),
        }
    };
    let holds = parts.iter().all(|(_, is_so)| !is_so.contains(&false));
    Verdict::of_sentence(holds, &parts.iter().map(of_whom).collect::<Vec<_>>().join("; "))
}

fn slashed(ratios: &[[Draws; 3]], measure: usize) -> String {
    ratios.iter().map(|ratio| ratio[measure].shown(2)).collect::<Vec<_>>().join(" / ")
}

fn listing(name: &str, variation: f64, points: &Points) -> Listing {
    let heads = MEASURES.iter().flat_map(|measure| {
        HEURISTICS.iter().map(move |(heuristic, _)| format!("{measure}, {heuristic} / ALSTB"))
    });
    let row = |(n, ratios): &(u64, Vec<[Draws; 3]>)| {
        let cells = (0..3).flat_map(|measure| ratios.iter().map(move |ratio| Cell::Mean(ratio[measure], 2)));
        [Cell::Number(*n as f64, 0)].into_iter().chain(cells).collect()
    };
    Listing {
        name: name.into(),
        title: format!("Fig. 4 as ratios, times varying by {variation}"),
        columns: ["tasks a job".to_owned()].into_iter().chain(heads).collect(),
        rows: points.iter().map(row).collect(),
    }
}

fn figure(measure: usize, points: &Points) -> Figure {
    let line = |one: usize| points.iter().map(|(n, ratios)| (*n as f64, ratios[one][measure].mean)).collect();
    let mut series: Vec<(String, Vec<(f64, f64)>)> =
        HEURISTICS.iter().enumerate().map(|(one, (name, _))| ((*name).to_owned(), line(one))).collect();
    series.push(("ALSTB".into(), points.iter().map(|(n, _)| (*n as f64, 1.0)).collect()));
    Figure {
        name: format!("fig4-{}", MEASURES[measure].replace(' ', "-")),
        title: format!("Paper 002, Fig. 4: {} against ALSTB's", MEASURES[measure]),
        x_label: "tasks a job".into(),
        y_label: format!("{} / ALSTB's", MEASURES[measure]),
        shape: Shape::Lines { series, is_log_x: false, is_log_y: false },
    }
}
