//! Fig. 5: ALSTB compared with the heuristics revised for applications, in four settings.

use scheduler::policy::{bundling::by_estimate::ByEstimate, matching::application::ByApplication};

use super::{
    MEASURES, Sizes,
    runs::{self, Runs},
};
use crate::{
    alstb::{
        published::{FIG_5, N_TASKS_OF_FIG_5, SIZE_OF_FIG_5, SettingOfFig5},
        scene::{N_PROCESSORS, Scene, Setting},
        world::{self, Policies},
    },
    report::{Cell, Claim, Draws, Figure, Listing, Part, Progress, Shape, Verdict, verdict::FACTOR},
};

/// The paper's four policies, ALSTB first, then the others.
pub(super) const CONTENDERS: [(&str, ByApplication); 7] = [
    ("ALSTB", ByApplication::Alstb),
    ("R-MinMin", ByApplication::MinMin),
    ("R-Sufferage", ByApplication::Sufferage),
    ("R-MaxStd", ByApplication::MaxStd),
    ("NI only", ByApplication::Ni),
    ("soonest", ByApplication::Soonest),
    ("R-FIFO", ByApplication::Fifo),
];
const N_OF_PAPER: usize = 4;
/// Other numbers of processors of a node, which the paper does not publish, to show how much depends on them.
pub(super) const OTHER_NODES: [&[u32]; 2] = [&[1, 2, 4, 8], &[8]];

/// Processors of a node, each number with equal probability, and Fig. 5 scaled on such nodes, by setting.
pub(super) type OnNodes = (&'static [u32], Vec<Runs>);

/// Runs Fig. 5 on the nodes that we chose, then on others.
pub(super) fn run_all(sizes: &Sizes, seed: u64, progress: &dyn Progress) -> Vec<OnNodes> {
    let all = [N_PROCESSORS].into_iter().chain(OTHER_NODES);
    all.map(|n_processors| (n_processors, run(sizes, n_processors, seed, progress))).collect()
}

/// Formats the processors of a node.
pub(super) fn in_words(n_processors: &[u32]) -> String {
    match n_processors {
        [before @ .., last] if !before.is_empty() => {
            let before: Vec<String> = before.iter().map(u32::to_string).collect();
            format!("{} or {last} processors", before.join(", "))
        }
        _ => format!("{} processors", n_processors.first().unwrap_or(&0)),
    }
}

pub(super) fn run(
    sizes: &Sizes,
    n_processors: &'static [u32],
    seed: u64,
    progress: &dyn Progress,
) -> Vec<Runs> {
    let settings = FIG_5.map(|of| setting(&of, sizes.scaled, sizes.n_tasks, n_processors));
    runs::run(&settings, sizes.n_instances, seed, progress, all_contenders)
}

fn all_contenders(scene: &Scene) -> Vec<[f64; 3]> {
    let bundling = ByEstimate::PAPER;
    let all = CONTENDERS.iter().map(|(_, matching)| Policies { matching: *matching, bundling });
    all.map(|policies| world::run(scene, policies).measures()).collect()
}

fn setting(
    of: &SettingOfFig5,
    (n_nodes, n_applications, n_jobs): (usize, usize, usize),
    n_tasks: (u64, u64),
    n_processors: &'static [u32],
) -> Setting {
    let (v_machine, v_application) = (of.v_machine, of.v_application);
    Setting { n_nodes, n_applications, n_jobs, n_tasks, n_processors, v_machine, v_application }
}

pub(super) fn part(sizes: &Sizes, by_nodes: &[OnNodes]) -> Part {
    let Some((_, all)) = by_nodes.first() else { return Part::default() };
    let (n_nodes, n_applications, n_jobs) = sizes.scaled;
    let text = format!(
        "{n_nodes} nodes, {n_applications} applications, {n_jobs} jobs of {} to {} tasks; the paper has 1,000 nodes and ten times as \
         many tasks a job as 100 nodes have here. V_machine and V_application are a: 0.1, 0.1; b: 0.1, 0.6; c: 0.6, 0.1; \
         d: 0.6, 0.6. Best means the lowest mean ratio of the paper's four. The others are not in the paper: `soonest` is a law of \
         ours, see below, and R-FIFO serves the job that was submitted first wherever it runs, what a scheduler that \
         knows nothing of applications would do.",
        sizes.n_tasks.0, sizes.n_tasks.1
    );
    Part {
        title: "Fig. 5: application-level heuristics, scaled down".into(),
        text,
        claims: claims(by_nodes),
        tables: vec![listing("fig5", "Fig. 5, scaled, as ratios to ALSTB", all)],
        figures: (0..3).map(|measure| figure(["fig5", "Fig. 5"], measure, all)).collect(),
    }
}

pub(super) fn part_of_published_size(n_instances: u64, seed: u64, progress: &dyn Progress) -> Part {
    let settings = FIG_5.map(|of| setting(&of, SIZE_OF_FIG_5, N_TASKS_OF_FIG_5, N_PROCESSORS));
    let all = runs::run(&settings, n_instances, seed, progress, all_contenders);
    let ((n_nodes, n_applications, n_jobs), (fewest, most)) = (SIZE_OF_FIG_5, N_TASKS_OF_FIG_5);
    let text = format!(
        "{n_nodes} nodes, {n_applications} applications, {n_jobs} jobs of {fewest} to {most} tasks; the mean over \
         {n_instances} instances, too few for claims: it shows which way the size moves the ratios."
    );
    Part {
        title: "Fig. 5 at the published size".into(),
        text,
        tables: vec![listing(
            "fig5-published-size",
            "Fig. 5 at the published size, as ratios to ALSTB",
            &all,
        )],
        figures: (0..3)
            .map(|measure| figure(["fig5-published-size", "Fig. 5, published size"], measure, &all))
            .collect(),
        ..Part::default()
    }
}

/// The metrics of the paper's four policies, divided by ALSTB's.
type OfPaper = [[f64; 3]; N_OF_PAPER];

fn of_paper(runs: &Runs) -> OfPaper {
    std::array::from_fn(|one| runs::ratios(runs, one, 0))
}

fn claims(by_nodes: &[OnNodes]) -> Vec<Claim> {
    let by_setting = |setting: usize| {
        by_nodes
            .iter()
            .map(move |(processors, all)| (*processors, of_paper(&all[setting])))
            .collect::<Vec<_>>()
    };
    let mut claims = Vec::new();
    for (setting, of) in FIG_5.iter().enumerate() {
        let named = of.best.iter().enumerate().filter_map(|(measure, name)| Some((measure, (*name)?)));
        let spreads = std::array::from_fn(|one| runs::spreads(&by_nodes[0].1[setting], one, 0));
        let claim = |(measure, name)| claim_of_best(of, measure, name, &by_setting(setting), &spreads);
        claims.extend(named.map(claim));
    }
    let ratios: Vec<OfPaper> =
        by_nodes.iter().take(1).flat_map(|(_, all)| all.iter().map(of_paper)).collect();
    claims.extend([far_worse(&ratios), competing(&ratios)]);
    claims
}

fn far_worse(ratios: &[OfPaper]) -> Claim {
    let least = ratios.iter().skip(3).flat_map(|ratios| ratios[3]).fold(f64::INFINITY, f64::min);
    Claim::new(
        "Fig. 5 d: R-MaxStd, all measures",
        "far worse than the others",
        format!("at least {least:.2} of ALSTB's"),
        Verdict::of_sentence(least > FACTOR, "not more than twice ALSTB's in at least one measure"),
    )
}

fn competing(ratios: &[OfPaper]) -> Claim {
    let of = |one: usize| Draws::of(ratios.iter().flat_map(|ratios| ratios[one]));
    let most = ratios.iter().flat_map(|ratios| ratios[1]).fold(0.0, f64::max);
    Claim::new(
        "Fig. 5: R-MinMin, mean of all settings and measures",
        "could even compete with ALSTB",
        format!(
            "{:.2} of ALSTB's, at most {most:.2}; R-Sufferage {:.2}, R-MaxStd {:.2}",
            of(1).mean,
            of(2).mean,
            of(3).mean
        ),
        Verdict::of_likeness(1.0, of(1).mean),
    )
}

/// Makes the claim on the best policy. `by_nodes`: on the nodes that we chose, then on others.
fn claim_of_best(
    of: &SettingOfFig5,
    measure: usize,
    name: &str,
    by_nodes: &[(&'static [u32], OfPaper)],
    spreads: &[[Draws; 3]; N_OF_PAPER],
) -> Claim {
    let in_order = |ratios: &OfPaper| {
        let mut order: Vec<usize> = (0..N_OF_PAPER).collect();
        order.sort_by(|a, b| ratios[*a][measure].total_cmp(&ratios[*b][measure]));
        order
    };
    let lowest = |ratios: &OfPaper| CONTENDERS[in_order(ratios)[0]].0;
    let (_, ratios) = &by_nodes[0];
    let said = |one: usize| format!("{} {}", CONTENDERS[one].0, spreads[one][measure].shown(3));
    let others = by_nodes[1..]
        .iter()
        .map(|(processors, ratios)| format!("on nodes of {} it is {}", in_words(processors), lowest(ratios)));
    let others = others.collect::<Vec<_>>().join(", ");
    let why = format!("{} is lower; the nodes are not published: {others}", lowest(ratios));
    Claim::new(
        format!("Fig. 5 {}: lowest {}", of.letter, MEASURES[measure]),
        name,
        in_order(ratios).into_iter().map(said).collect::<Vec<_>>().join(", "),
        Verdict::of_sentence(lowest(ratios) == name, &why),
    )
}

fn listing(name: &str, title: &str, all: &[Runs]) -> Listing {
    let columns = ["setting", "policy"].into_iter().map(str::to_owned);
    let heads = MEASURES.iter().map(|measure| format!("{measure} / ALSTB"));
    let seconds = ["makespan, s", "mean job makespan, s", "flowtime, processor-s"].map(str::to_owned);
    let mut rows = Vec::new();
    for (of, runs) in FIG_5.iter().zip(all) {
        for (one, (policy, _)) in CONTENDERS.iter().enumerate() {
            let setting = format!("{} ({}, {})", of.letter, of.v_machine, of.v_application);
            let ratios = runs::spreads(runs, one, 0).map(|ratio| Cell::Mean(ratio, 2));
            let means = runs::means(runs, one).map(|mean| Cell::Mean(mean, 0));
            rows.push([setting.into(), (*policy).into()].into_iter().chain(ratios).chain(means).collect());
        }
    }
    Listing {
        name: name.into(),
        title: title.into(),
        columns: columns.chain(heads).chain(seconds).collect(),
        rows,
    }
}

fn figure([name, title]: [&str; 2], measure: usize, all: &[Runs]) -> Figure {
    let bars = |one: usize| all.iter().map(|runs| runs::ratios(runs, one, 0)[measure]).collect();
    let series = CONTENDERS.iter().enumerate().map(|(one, (policy, _))| ((*policy).to_owned(), bars(one)));
    let category = |of: &SettingOfFig5| format!("{}: {}, {}", of.letter, of.v_machine, of.v_application);
    Figure {
        name: format!("{name}-{}", MEASURES[measure].replace(' ', "-")),
        title: format!("Paper 002, {title}: {} against ALSTB's", MEASURES[measure]),
        x_label: "V_machine, V_application".into(),
        y_label: format!("{} / ALSTB's", MEASURES[measure]),
        shape: Shape::Bars { categories: FIG_5.iter().map(category).collect(), series: series.collect() },
    }
}
