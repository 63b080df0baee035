//! Workflows as the API gets them.

use scheduler::edges::{Edges, Listed};

use crate::job::{
    AfterSpec, CommandLine, Input, JobSpec, OnSpec, Output, StageSpec, WorkDirPolicy, WorkflowSpec,
};
use crate::sweep::{Dimension, Sweep};

fn stage(name: &str, sweep: &[(&str, &[&str])], after: Vec<AfterSpec>) -> StageSpec {
    let dimensions = sweep.iter().map(|(name, values)| {
        Dimension::texts(*name, values.iter().map(|value| (*value).to_owned()).collect())
    });
    let sweep = Sweep { dimensions: dimensions.collect(), sample: None };
    let job = JobSpec { sweep, ..JobSpec::new(CommandLine::Args(vec!["true".to_owned()]), "/base".into()) };
    StageSpec { name: name.to_owned(), job, after, on_failed_dependency: Default::default() }
}

fn flow(orders: &[(&str, &[&str])], own: &[(&str, &[&str])], edges: Edges) -> WorkflowSpec {
    let after = vec![AfterSpec { on: OnSpec::Stage(0), edges }];
    WorkflowSpec {
        name: "flow".to_owned(),
        stages: vec![stage("mc", orders, Vec::new()), stage("mean", own, after)],
    }
}

fn said(flow: &WorkflowSpec) -> String {
    flow.validate().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const SEED: (&str, &[&str]) = ("seed", &["1", "2", "3"]);
const LAM: (&str, &[&str]) = ("lam", &["7", "8"]);

#[test]
fn groups_by_position_that_join_different_values_are_refused() {
    let found = said(&flow(&[SEED, LAM], &[LAM], Edges::Groups(3)));
    let expected = "stages.mean.after: found edges by position that join task 0 with lam = `7` and task 1 of stage `mc` \
                    with lam = `8`; list the edges";
    assert!(found.starts_with(expected), "{found}");
    assert_eq!(said(&flow(&[LAM, SEED], &[LAM], Edges::Groups(3))), "");
    let listed = Listed::new([[0_u64, 2, 4], [1, 3, 5]]).unwrap();
    assert_eq!(said(&flow(&[SEED, LAM], &[LAM], Edges::Listed(listed))), "");
    assert_eq!(said(&flow(&[SEED, LAM], &[("k", LAM.1)], Edges::Groups(3))), "", "no parameter in common");
    assert_eq!(said(&flow(&[SEED, LAM], &[LAM], Edges::All)), "");
}

#[test]
fn same_and_spread_by_position_that_join_different_values_are_refused() {
    assert!(said(&flow(&[LAM], &[("lam", &["8", "7"])], Edges::Same)).contains("join task 0 with lam = `8`"));
    assert_eq!(said(&flow(&[LAM], &[LAM], Edges::Same)), "");
    assert!(said(&flow(&[LAM], &[SEED, LAM], Edges::Spread(3))).contains("join task 1 with lam = `8`"));
    assert_eq!(said(&flow(&[LAM], &[LAM, SEED], Edges::Spread(3))), "");
}

#[test]
fn parts_of_parts_go_by_position() {
    let (ones, tens) = (("first", &["0", "2"][..]), ("first", &["0"][..]));
    assert_eq!(said(&flow(&[ones], &[tens], Edges::Groups(2))), "");
}

#[test]
fn patterns_that_reach_out_of_a_group_are_refused_through_the_api_too() {
    let mut flow = flow(&[LAM, SEED], &[LAM], Edges::Groups(3));
    flow.stages.iter_mut().for_each(|stage| stage.job.workdir = WorkDirPolicy::Scratch);
    let output = Output { from: "p*".into(), to: "mc/{lam}/{seed}".into(), ..Output::default() };
    flow.stages[0].job.outputs = vec![output];
    let input = |from: &str| Input { from: from.into(), to: ".".into(), after: vec![0], ..Input::default() };
    flow.stages[1].job.inputs = vec![input("mc/{lam}/**")];
    assert_eq!(said(&flow), "");
    flow.stages[1].job.inputs = vec![input("mc/*/**")];
    assert!(said(&flow).contains("may also match files like `mc/8/1/p*` of mc.3"), "{}", said(&flow));
}
