//! Files that flow between stages and tasks: as they are written, and what is refused.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::job::author::{JobFile, load_file_text};
use crate::job::{OutputTarget, TakenFiles, WorkflowSpec};

/// Loads a file in a folder with some files.
fn load(text: &str) -> Result<WorkflowSpec, String> {
    let folder = TempDir::new().unwrap();
    for name in ["a.txt", "b.txt", "split"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    match load_file_text(text, "flow.yaml", folder.path()) {
        Ok(JobFile::Workflow(workflow)) => Ok(workflow),
        Ok(JobFile::Job(_)) => panic!("it is one job"),
        Err(problems) => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

fn taken(workflow: &WorkflowSpec, stage: usize, task: u64) -> Vec<TakenFiles> {
    workflow.stages[stage].job.compile().unwrap().taken(0, task).unwrap()
}

const MOSAIC: &str = "
name: mosaic
stages:
  project:
    command: project {image} out.fits
    sweep: {image: [a.txt, b.txt]}
    inputs: [\"{image}\"]
    outputs: [{from: out.fits, to: \"projected/{image.stem}.fits\"}]
  smooth:
    command: smooth in.fits out.fits
    sweep: {image: [a.txt, b.txt]}
    after: {stage: project, tasks: same}
    inputs: [{from: \"stage:project/projected/{image.stem}.fits\", to: in.fits}]
    outputs: [{from: out.fits, to: \"smooth/{image.stem}.fits\"}]
  add:
    command: add smooth images
    reduce: smooth
    inputs: [\"stage:smooth/smooth/*.fits\", {from: stage:project, to: images}]
    after: project
";

#[test]
fn stages_of_which_others_take_are_marked() {
    let mut workflow = load(MOSAIC).unwrap();
    workflow.mark_taken();
    let marked: Vec<bool> = workflow.stages.iter().map(|stage| stage.job.is_taken).collect();
    assert_eq!(marked, [true, true, false]);
}

#[test]
fn stages_take_what_others_leave_by_name_or_pattern() {
    let workflow = load(MOSAIC).unwrap();
    let [one] = &taken(&workflow, 1, 1)[..] else { panic!("not one file") };
    assert_eq!((one.from.as_str(), one.is_pattern), ("projected/b.fits", false));
    assert_eq!((one.to.as_path(), one.after.as_slice()), (Path::new("in.fits"), &[0][..]));
    let [smooth, project] = &taken(&workflow, 2, 0)[..] else { panic!("not two") };
    assert_eq!(smooth.target("smooth/b.fits"), Some(PathBuf::from("smooth/b.fits")));
    assert_eq!(smooth.target("projected/b.fits"), None);
    assert_eq!(project.target("projected/b.fits"), Some(PathBuf::from("images/projected/b.fits")));
    let on = |taken: &TakenFiles| workflow.stages[2].after[taken.after[0]].on;
    assert_ne!(on(smooth), on(project));
    // Whatever it is read by, it is the same again.
    let again: WorkflowSpec = serde_json::from_str(&serde_json::to_string(&workflow).unwrap()).unwrap();
    assert_eq!((again.validate(), &again), (Vec::new(), &workflow));
}

#[test]
fn stars_and_question_marks_of_values_stand_for_themselves_in_patterns() {
    let workflow = |values: &str, tasks: &str| {
        load(&format!(
            "stages:\n  sim: {{command: x, sweep: {{s: {values}, n: [1, 2]}}, \
             outputs: [{{from: \"{{s}}-*\", to: \"sim/{{s}}/{{n}}\"}}, {{from: e, to: \"e/{{s}}/{{n}}\"}}]}}\n  \
             mean: {{command: x, sweep: {{s: {values}}}, inputs: [\"stage:sim/e/{{s}}/*\"], \
             after: {{stage: sim, tasks: {tasks}}}}}\n"
        ))
        .unwrap_or_else(|said| panic!("{values} {tasks}: {said}"))
    };
    for tasks in ["all", "groups"] {
        for (values, other) in [("['C*', CC]", "CC"), ("['a?', ab]", "ab"), (r"['a\', ab]", "ab")] {
            let workflow = workflow(values, tasks);
            let value = values[2..].split('\'').next().unwrap();
            let [first] = &taken(&workflow, 1, 0)[..] else { panic!("not one pattern") };
            assert_eq!(
                first.target(&format!("e/{value}/1")),
                Some(format!("e/{value}/1").into()),
                "{values}"
            );
            assert_eq!(first.target(&format!("e/{other}/1")), None, "{values}");
            let output = &workflow.stages[0].job.compile().unwrap().outputs(0, 0).unwrap()[0];
            assert_eq!(output.name_of(&format!("{value}-1")), Some(format!("{value}-1").into()), "{values}");
            assert_eq!(output.name_of(&format!("{other}-1")), None, "{values}");
            assert!(output.may_go_to(&format!("sim/{value}/1/{value}-1")), "{values}");
        }
    }
}

/// Without a bound this would take hours.
#[test]
fn of_a_billion_tasks_with_files_some_are_looked_at() {
    let stage = |name: &str, more: &str| {
        format!(
            "  {name}: {{command: x, sweep: {{n: {{range: [1, 1000000000]}}}}, results: {{files: 1000000000}}, {more}}}\n"
        )
    };
    let stages = [
        stage("away", "outputs: [{from: a, to: 'file:///a/{n}'}]"),
        stage("home", "outputs: [{from: b, to: 'b/{n}'}]"),
        stage("use", "after: {stage: home, tasks: same}, inputs: [{from: 'stage:home/b/{n}', to: b}]"),
    ];
    let workflow = load(&format!("stages:\n{}", stages.concat())).unwrap();
    assert_eq!(workflow.stages.len(), 3);
}

#[test]
fn files_that_cannot_come_are_refused_with_their_line() {
    let cases = [
        (
            "stage:project/projected/{image.stem}.fits",
            "stage:projekt/x",
            "flow.yaml:13: stages.smooth.inputs[0]: found no stage `projekt`; did you mean `project`?",
        ),
        (
            "stage:project/projected/{image.stem}.fits",
            "stage:project/{image.stem}.fits",
            "flow.yaml:13: stages.smooth.inputs[0]: `a.fits` is left by no task that smooth.0 waits for; stage `project` leaves `projected/{image.stem}.fits`",
        ),
        (
            "stage:project/projected/{image.stem}.fits",
            "stage:project/projected/b.fits",
            "flow.yaml:13: stages.smooth.inputs[0]: `projected/b.fits` is left by project.1, for which smooth.0 does not wait; see `tasks` of its `after`, or take another file",
        ),
        (
            "stage:project/projected/{image.stem}.fits",
            "stage:project/../x",
            "flow.yaml:13: stages.smooth.inputs[0].from: found `../x`; a path below the folder is right",
        ),
        (
            "stage:project/projected/{image.stem}.fits",
            "stage:project/{job}",
            "flow.yaml:13: stages.smooth.inputs[0].from: found {job} in the path of another task's file",
        ),
        (
            "stage:smooth/smooth/*.fits",
            "stage:smooth/*.fits",
            "flow.yaml:18: stages.add.inputs[0]: found `*.fits`, of which no task leaves any that add waits for; stage `smooth` leaves `smooth/{image.stem}.fits`",
        ),
        (
            "    after: project\n",
            "",
            "flow.yaml:18: stages.add.inputs[1]: found a file of stage `project`, after which this one does not come; write `after: project`, or {stage: project, tasks: …}, too",
        ),
        ("to: images", "to: .", ""),
        (
            "{from: stage:project, to: images}",
            "{from: stage:project/**, to: .}, {from: stage:project, to: .}",
            "flow.yaml:18: stages.add.inputs[2]: found `projected/a.fits` a second time for task add; two files cannot have one name; set `to`",
        ),
        (
            "smooth/{image.stem}.fits\"}",
            "projected/{image.stem}.fits\"}",
            "flow.yaml:14: stages.smooth.outputs: `projected/a.fits` is left by task project.0 too; one would overwrite the other; give them different names",
        ),
        (
            "projected/{image.stem}.fits\"}",
            "projected/{image.stem}.fits\", optional: true}",
            "flow.yaml:13: stages.smooth.inputs[0]: `projected/a.fits` may be missing: project.0 need not leave it; write `optional: true` here, too, or not there",
        ),
        (
            "to: in.fits}",
            "to: in.fits, shared: true}",
            "flow.yaml:13: stages.smooth.inputs[0]: found `shared` or `sha256` beside another task's file",
        ),
        (
            "inputs: [\"{image}\"]",
            "inputs: [{from: \"{image}\", optional: true}]",
            "flow.yaml:7: stages.project.inputs[0].optional: found true of a file that is no other task's",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(MOSAIC.contains(from), "{from}");
        let found = load(&MOSAIC.replacen(from, to, 1));
        match (found, expected) {
            (Ok(_), "") => {}
            (Err(said), expected) if !expected.is_empty() && said.starts_with(expected) => {
                assert_eq!(said.lines().count(), 1, "{said}");
            }
            (found, expected) => panic!("{to}\n{found:?}\n{expected}"),
        }
    }
    let alone = load_file_text("command: x\ninputs: [stage:a/b]\n", "job.yaml", Path::new("/"));
    let said = alone.unwrap_err()[0].to_string();
    assert_eq!(
        said,
        "job.yaml:2: inputs[0]: found `stage:a/b`; only stages take files from others; name a file"
    );
}

const TASKS: &str = "
workdir: scratch
tasks:
  - {name: split, command: [./split, a.txt], inputs: [split, ./a.txt, a.txt], outputs: [left, right]}
  - {name: left, command: sort left > left.sorted, inputs: left, outputs: left.sorted}
  - {name: right, command: sort right, inputs: [right, b.txt], outputs: right.sorted, time_limit: 1m}
  - {name: merge, command: [cat], inputs: [left.sorted, right.sorted], outputs: all}
";

#[test]
fn tasks_without_a_common_folder_bring_take_and_leave_their_own_files() {
    let workflow = load(TASKS).unwrap();
    assert_eq!(workflow.stages.len(), 2);
    let compiled = workflow.stages[0].job.compile().unwrap();
    let brought = |task: u64| -> Vec<PathBuf> {
        compiled.inputs(0, task).unwrap().into_iter().map(|input| input.to).collect()
    };
    assert_eq!((brought(0), brought(1)), (vec!["split".into(), "a.txt".into()], Vec::new()));
    assert_eq!(compiled.local_files().len(), 2);
    let names = |task: u64| -> Vec<String> {
        compiled.taken(0, task).unwrap().into_iter().map(|taken| taken.from).collect()
    };
    assert_eq!(names(2), ["left.sorted", "right.sorted"]);
    assert_eq!((names(0).len(), names(1)), (0, vec!["left".to_owned()]));
    let left = |task: u64| compiled.outputs(0, task).unwrap();
    assert_eq!(left(0)[1].to, OutputTarget::Home("right".into()));
    // A program that is brought is run where it is.
    assert_eq!(compiled.task(0, 0).argv[2], "exec ./split a.txt");
    assert_eq!(workflow.validate(), []);
    for (from, to, expected) in [
        (
            "outputs: all",
            "outputs: /all",
            "flow.yaml:7: tasks[3].outputs: found `/all`; tasks have no folder in common",
        ),
        ("b.txt", "c.txt", "flow.yaml:6: tasks[2].inputs: `c.txt` is made by no task and is not there"),
        (
            "b.txt",
            "../b.txt",
            "flow.yaml:6: tasks[2].inputs: found `../b.txt`; tasks have no folder in common",
        ),
    ] {
        let said = load(&TASKS.replacen(from, to, 1)).unwrap_err();
        assert!(said.starts_with(expected), "{said}");
    }
    // Where they have one, nothing is brought.
    let shared = load(&TASKS.replacen("workdir: scratch\n", "", 1)).unwrap();
    assert!(shared.stages.iter().all(|stage| stage.job.inputs.is_empty() && stage.job.outputs.is_empty()));
}

#[test]
fn each_task_of_a_list_gets_the_objects_of_its_own_files() {
    let mut workflow = load(
        "workdir: scratch\ntasks:\n\
         - {name: x, command: [a], outputs: x}\n\
         - {name: y, command: [a], inputs: [a.txt, x, b.txt]}\n\
         - {name: z, command: [a], inputs: [b.txt]}\n",
    )
    .unwrap();
    let job = &mut workflow.stages[0].job;
    let files = job.compile().unwrap().local_files();
    let digest =
        |path: &Path| scheduler::digest::Digest([path.to_string_lossy().ends_with("b.txt") as u8; 32]);
    job.inputs[0].objects.sha256 = files.iter().map(|file| digest(&file.path)).collect();
    job.inputs[0].objects.bytes = vec![5; files.len()];
    assert_eq!(job.validate_objects(), []);
    let compiled = job.compile().unwrap();
    for task in 0..3 {
        for input in compiled.inputs(1, task).unwrap() {
            assert_eq!(input.sha256, Some(digest(&input.to)), "{input:?} of task {task}");
        }
    }
    assert_eq!(compiled.inputs(1, 1).unwrap().len(), 2);
}

#[test]
fn passwords_are_refused_in_the_addresses_that_parameters_make_too() {
    let folder = TempDir::new().unwrap();
    let said = |sweep: &str, from: &str| {
        let text = format!("command: [echo]\nsweep: {sweep}\ninputs: [{{from: '{from}', to: f}}]\n");
        match load_file_text(&text, "job.yaml", folder.path()) {
            Ok(_) => String::new(),
            Err(problems) => problems[0].to_string(),
        }
    };
    for (sweep, from, shown) in [
        ("{h: ['joe:hush@h:1', b]}", "http://{h}/x", "`http://…@h:1/x`"),
        ("{h: ['joe:hush@h']}", "http:///{h}/x", "`http://…@h/x`"),
        ("{s: ['http://'], u: ['joe:hush@'], h: [b]}", "{s}{u}{h}/404", "`{s}…@{h}/404`"),
        ("{s: ['HTTPS'], u: ['joe:hush@h']}", "{s}://{u}/404", "`{s}://…@h/404`"),
        ("{u: ['http://joe:hush@h/x']}", "{u}", "`http://…@h/x`"),
        ("{n: [1]}", "http:///joe:hush@h/x", "`http://…@h/x`"),
        ("{n: [1]}", "http://joe:hu sh@h/x", "`http://…@h/x`"),
    ] {
        let said = said(sweep, from);
        assert!(said.contains(shown) && said.contains("netrc") && !said.contains("hush"), "{from}: {said}");
    }
    for (sweep, from) in [
        ("{p: ['a@b']}", "http://h/{p}"),
        ("{p: ['a@b']}", "http://h/x?q={p}"),
        ("{u: ['http://h/a@b']}", "{u}"),
        ("{p: ['a@b']}", "store://s/{p}"),
    ] {
        assert_eq!(said(sweep, from), "", "{sweep} {from}");
    }
}

#[test]
fn a_folder_is_brought_whole_and_nothing_that_is_not_in_it() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    };
    ["data/a/one", "data/a/in/.two", "data/b/three", "outside"].into_iter().for_each(write);
    std::os::unix::fs::symlink("in/.two", folder.path().join("data/a/link")).unwrap();
    let load = |inputs: &str| {
        let text = format!("command: [echo]\nsweep: {{n: [a, b]}}\ninputs: {inputs}\n");
        match load_file_text(&text, "job.yaml", folder.path()) {
            Ok(JobFile::Job(job)) => Ok(job.compile().unwrap()),
            Ok(JobFile::Workflow(_)) => panic!("it is no workflow"),
            Err(problems) => Err(problems[0].to_string()),
        }
    };
    let of = |inputs: &str, task: u64| -> Vec<(String, String)> {
        let inputs = load(inputs).unwrap().inputs(0, task).unwrap();
        inputs.into_iter().map(|input| (input.from, input.to.to_string_lossy().into_owned())).collect()
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let found = of("[\"data/{n}/\"]", 0);
    assert_eq!(
        found,
        ["in/.two", "link", "one"].map(|name| pair(&format!("data/a/{name}"), &format!("data/a/{name}")))
    );
    assert_eq!(of("[{from: \"data/{n}\", to: .}]", 1), [pair("data/b/three", "three")]);
    // Folders of Pilotfish hold secrets, and change while they are read.
    [".pilotfish/secret", "m/secret", "m/store.sqlite", "m/x", "n/secret"]
        .iter()
        .for_each(|name| write(&format!("data/b/{name}")));
    assert_eq!(
        of("[{from: \"data/{n}\", to: .}]", 1),
        ["n/secret", "three"].map(|name| pair(&format!("data/b/{name}"), name))
    );
    // So are files that a command was killed with.
    [".pilotfish-a1b2c3", "x.pilotfish-17-1.part"].iter().for_each(|name| write(&format!("data/b/{name}")));
    assert_eq!(of("[{from: \"data/{n}\", to: .}]", 1).len(), 2);
    let said = load("[{from: data/a, to: .}, outside, {from: outside, to: one}]").unwrap_err();
    assert!(said.contains("inputs[2]: found `one` also of inputs[0]"), "{said}");
    let said = load("[{from: data/a, to: x}, {from: outside, to: x/one/y}]").unwrap_err();
    assert!(said.contains("inputs[1]: found `x/one/y` below `x/one`, a file of inputs[0]"), "{said}");
    std::fs::create_dir_all(folder.path().join("empty/in")).unwrap();
    let said = load("[empty]").unwrap_err();
    assert!(said.contains("/empty`, a folder without any file; empty folders are not made"), "{said}");
    std::os::unix::fs::symlink("../outside", folder.path().join("data/link")).unwrap();
    let said = load("[data]").unwrap_err();
    assert!(said.contains("/data/link` is no file of the folder"), "{said}");
    let said = load("[\"data/{n}\", {from: \"{n}\", to: z}]").unwrap_err();
    assert!(said.contains("/a`: no such file"), "{said}");
}

#[test]
fn a_task_that_reduces_so_many_waits_for_those_and_no_others() {
    let text = "stages:\n  a: {command: x, sweep: {n: {range: [1, 24]}}}\n  b: {command: x, reduce: {stage: a, every: 10}}\n";
    let workflow = load(text).unwrap();
    assert_eq!(workflow.stages[1].after[0].edges, scheduler::edges::Edges::Groups(10));
}

const GROUPS: &str = "
stages:
  mc:
    command: \"echo {seed} > o\"
    sweep: {seed: {range: [1, 20]}, lam: [1, 2, 3]}
    outputs: [{from: o, to: \"mc/{lam}/{seed}\"}]
  mean:
    command: \"cat mc/{lam}/* | wc -l\"
    sweep: {lam: [1, 2, 3]}
    after: {stage: mc, tasks: groups}
    inputs: [\"stage:mc/mc/{lam}/*\"]
";

/// The files of a stage that a task of another takes.
fn files_of(workflow: &WorkflowSpec, stage: usize, task: u64) -> Vec<String> {
    let (after, on) = (&workflow.stages[stage].after[0], workflow.stages[0].job.compile().unwrap());
    let before = after.edges.predecessors(&scheduler::ranges::TaskSet::from(task..task + 1), on.n_tasks());
    let [taken] = &taken(workflow, stage, task)[..] else { panic!("not one input") };
    let outputs = before.indices().flat_map(|before| on.outputs(0, before).unwrap());
    let paths = outputs.filter_map(|output| match output.to {
        OutputTarget::Home(path) => Some(path.to_string_lossy().into_owned()),
        _ => None,
    });
    paths.filter(|path| taken.target(path).is_some()).collect()
}

#[test]
fn groups_are_of_the_same_parameters_whatever_the_order_of_a_sweep() {
    let orders = [
        "{seed: {range: [1, 20]}, lam: [1, 2, 3]}",
        "{lam: [1, 2, 3], seed: {range: [1, 20]}}",
        "{seed: {range: [1, 20]}, lam: [3, 1, 2]}",
        "{seed: {range: [1, 20]}, lam: [3, 4, 1, 2, 2]}",
    ];
    for order in orders {
        let text = GROUPS.replacen("{seed: {range: [1, 20]}, lam: [1, 2, 3]}", order, 1);
        // Of two tasks with the same values each needs a name of its own.
        let text = text.replacen("mc/{lam}/{seed}", "mc/{lam}/{index}", 1);
        let workflow = load(&text).unwrap();
        for task in 0..3 {
            let files = files_of(&workflow, 1, task);
            let n_each = if order.contains("2, 2") && task == 1 { 40 } else { 20 };
            let folder = format!("mc/{}/", task + 1);
            assert!(files.len() == n_each && files.iter().all(|file| file.starts_with(&folder)), "{files:?}");
        }
        assert_eq!(workflow.validate(), []);
    }
}

#[test]
fn groups_that_cannot_be_meant_are_refused_with_their_line() {
    let cases = [
        (
            "stage:mc/mc/{lam}/*",
            "stage:mc/mc/*/*",
            "flow.yaml:11: stages.mean.inputs[0]: `mc/*/*` also matches `mc/2/1` of mc.1, and mc.1 is not in the group of mean.0; name the parameters that both stages have in it",
        ),
        (
            "stage:mc/mc/{lam}/*",
            "stage:mc/mc/?/{lam}*",
            "flow.yaml:11: stages.mean.inputs[0]: `mc/?/1*` also",
        ),
        ("stage:mc/mc/{lam}/*", "stage:mc", ""),
        (
            "sweep: {lam: [1, 2, 3]}",
            "sweep: {lam: [1, 4, 3]}",
            "flow.yaml:10: stages.mean.after: found `groups` for task 1 with lam = `4`, which no task of stage `mc` has; tasks with the same `lam` belong together",
        ),
        (
            "sweep: {lam: [1, 2, 3]}",
            "sweep: {lam: [1.0, 2, 3]}",
            "flow.yaml:10: stages.mean.after: found `groups` for task 0 with lam = `1.0`",
        ),
        (
            "tasks: groups",
            "tasks: spread",
            "flow.yaml:10: stages.mean.after: found `spread` for task 0 with lam = `1`, which 20 tasks of stage `mc` have; write `tasks: groups`",
        ),
        // Two stages without a common parameter go by position, and their patterns say so.
        (
            "sweep: {lam: [1, 2, 3]}\n    after: {stage: mc, tasks: groups}\n    inputs: [\"stage:mc/mc/{lam}/*\"]",
            "sweep: {lambda: [1, 2, 3]}\n    after: {stage: mc, tasks: groups}\n    inputs: [\"stage:mc/mc/{lambda}/*\"]",
            "flow.yaml:8: stages.mean.command: ",
        ),
        (
            "command: \"cat mc/{lam}/* | wc -l\"\n    sweep: {lam: [1, 2, 3]}",
            "command: x\n    sweep: {k: [1, 2, 3]}",
            "flow.yaml:11: stages.mean.inputs[0].from: ",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(GROUPS.contains(from), "{from}");
        match (load(&GROUPS.replacen(from, to, 1)), expected) {
            (Ok(_), "") => {}
            (Err(said), expected) if !expected.is_empty() && said.starts_with(expected) => {}
            (found, expected) => panic!("{to}\n{found:?}\n{expected}"),
        }
    }
    let by_position = GROUPS.replacen("{lam}", "{k}", 1).replace("sweep: {lam: ", "sweep: {k: ");
    let by_position =
        by_position.replace("mc/{k}/{seed}", "mc/{lam}/{seed}").replace("cat mc/{lam}", "cat mc/{k}");
    let said = load(&by_position.replace("stage:mc/mc/{lam}/*", "stage:mc/mc/{k}/*")).unwrap_err();
    assert!(said.starts_with("flow.yaml:11: stages.mean.inputs[0]: `mc/1/*` also matches"), "{said}");
}

#[test]
fn patterns_over_what_patterns_leave_stay_in_their_group() {
    let with = |outputs: &str, input: &str| {
        load(&GROUPS.replacen("{from: o, to: \"mc/{lam}/{seed}\"}", outputs, 1).replacen(
            "mc/mc/{lam}/*",
            input,
            1,
        ))
    };
    let pattern = "{from: \"part*.txt\", to: \"mc/{lam}/{seed}\"}";
    let place = "flow.yaml:11: stages.mean.inputs[0]: ";
    for (outputs, input, expected) in [
        (pattern, "mc/mc/{lam}/**", ""),
        (pattern, "mc", ""),
        (pattern, "mc/mc/{lam}/*/part*", ""),
        (
            pattern,
            "mc/mc/*/**",
            "`mc/*/**` may also match files like `mc/2/1/part*.txt` of mc.1, and mc.1 is not in the group of mean.0",
        ),
        (pattern, "mc/mc/*/{lam}/*", "`mc/*/1/*` may also match files like `mc/2/1/part*.txt`"),
        (pattern, "mc/mc/?/1/part7.*", "`mc/?/1/part7.*` may also match"),
        // No name of that pattern ends so.
        (pattern, "mc/mc/*/*.csv", ""),
        ("{from: res/, to: \"mc/{lam}/{seed}\"}", "mc/mc/{lam}/**", ""),
        ("{from: res/, to: \"mc/{lam}/{seed}\"}", "mc/**.csv", "`**.csv` may also match files in `mc/2/1/`"),
        ("{from: \"o-{lam}-{seed}*\", to: .}", "mc/o-{lam}-*", ""),
        ("{from: \"o-*-{index}\", to: .}", "mc/o-1*", "`o-1*` may also match files like `o-*-1` of mc.1"),
        // What is not known before the job has a number.
        ("{from: o, to: \"{job}/{lam}/{seed}\"}", "mc/*/{lam}/*", ""),
        ("{from: o, to: \"{job}/{lam}/{seed}\"}", "mc/*/*/*", "`*/*/*` also matches"),
    ] {
        match (with(outputs, input), expected) {
            (Ok(_), "") => {}
            (Err(said), expected)
                if !expected.is_empty() && said.starts_with(&format!("{place}{expected}")) => {}
            (found, expected) => panic!("{outputs} {input}\n{found:?}\n{expected}"),
        }
    }
}

#[test]
fn tasks_that_are_the_same_have_the_same_parameters() {
    let text = "stages:\n  a: {command: \"a {x} {y}\", sweep: {x: [1, 2], y: [1, 2, 3]}}\n  b: {command: \"b {x} {y}\", sweep: {y: [1, 2, 3], x: [1, 2]}, after: {stage: a, tasks: same}}\n";
    let edges = load(text).unwrap().stages[1].after[0].edges.clone();
    assert_eq!(serde_json::to_string(&edges).unwrap(), r#"{"listed":"0;-2;1;-1;2;0"}"#);
    let said = load(&text.replacen("y: [1, 2, 3]}}", "y: [1, 2, 4]}}", 1)).unwrap_err();
    assert!(said.starts_with("flow.yaml:3: stages.b.after: found `same` for task 4 with y = `3`, x = `1`, which no task of stage `a` has"), "{said}");
}

#[test]
fn stages_take_what_others_leave_by_patterns_and_folders() {
    let text = "
stages:
  split: {command: x, sweep: {n: [1, 2]}, outputs: [{from: \"part*.txt\", to: \"parts/{n}\"}, {from: log/, to: \"log/{n}\"}]}
  join: {command: y, sweep: {n: [1, 2]}, after: {stage: split, tasks: groups}, inputs: [\"stage:split/parts/{n}/*\", \"stage:split/log/{n}/all\"]}
";
    let workflow = load(text).unwrap();
    let [parts, log] = &taken(&workflow, 1, 1)[..] else { panic!("not two") };
    assert_eq!(parts.target("parts/2/part7.txt"), Some(PathBuf::from("parts/2/part7.txt")));
    assert_eq!(log.target("log/2/all"), Some(PathBuf::from("log/2/all")));
    let lone =
        load("command: [x]\nafter: {job: 7}\noutputs: [\"in/part*.txt\", \"res/\", \"*.log\"]\n").unwrap();
    let targets: Vec<&str> = lone.stages[0].job.outputs.iter().map(|output| output.to.as_str()).collect();
    assert_eq!(targets, ["in/", "res/", "."]);
    for (from, to) in [("outputs: all", "outputs: \"part*\""), ("outputs: all", "outputs: all/")] {
        let said = load(&TASKS.replacen(from, to, 1)).unwrap_err();
        assert!(said.contains("tasks[3].outputs: found") && said.contains("tasks name each file"), "{said}");
    }
}

#[test]
fn outputs_of_two_stages_that_may_leave_one_name_are_told() {
    let said = |p: &str, q: &str| {
        let text = format!("stages:\n  p: {{command: x, outputs: {p}}}\n  q: {{command: y, outputs: {q}}}\n");
        let problems = load(&text).unwrap().outputs_that_may_meet();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let text = said("[{from: d/, to: out}]", "[o, {from: e/, to: out}]");
    assert!(
        text.starts_with(
            "stages.q.outputs[1]: `out/**` may leave a file of the same name as `out/**` of stage `p`; of two files of one \
             name only the first is brought"
        ),
        "{text}"
    );
    for (p, q, expected) in [
        ("[{from: d/, to: out}]", "[{from: d/, to: out/q}]", true),
        ("[{from: d/, to: out}]", "[out/o]", true),
        ("[{from: d/, to: out}]", "[outer, {from: d/, to: out2}]", false),
        ("['*.log']", "['*.dat', 'q.txt']", false),
        ("['*.log']", "['q*']", true),
        ("['*.log']", "['q.log']", true),
        ("[{from: d/, to: 'out/{job}'}]", "[{from: d/, to: 'out/{job}'}]", false),
        ("[{from: d/, to: 'file:///out'}]", "[{from: d/, to: 'file:///out'}]", true),
    ] {
        assert_eq!(!said(p, q).is_empty(), expected, "{p} {q}: {}", said(p, q));
    }
}

#[test]
fn circles_and_files_are_told_beside_other_problems() {
    let text = "stages:\n  a:\n    command: echo {nope}\n    after: b\n    outputs: [{from: ../x, to: x}]\n  b:\n    \
                command: echo\n    resources: {cores: 0}\n    after: a\n    inputs: [gone.txt]\n";
    let said = load(text).unwrap_err();
    for words in ["`nope`", "a circle: ", "without `..`", "resources.cores: ", "gone.txt`: no such file"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}
