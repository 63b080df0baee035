//! Files of tasks, from the submitter's folder and back, with real managers, pilots and disks.

#[path = "staging/caches.rs"]
mod caches;
#[path = "staging/network.rs"]
mod network;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::sys::signal::Signal;
use tests::{
    Running, Sandbox,
    disk::Disk,
    noise,
    pilots::{PilotProcesses, pilots, signal_all},
    signal_pid, text, until,
};

const N_TASKS: u64 = 200;
const SHARED_BYTES: usize = 5 << 20;

fn serve(sandbox: &Sandbox) -> Running {
    serve_with(sandbox, &[])
}

/// With these variables.
fn serve_with(sandbox: &Sandbox, variables: &[(&str, &str)]) -> Running {
    let mut command = sandbox.command(&["serve", "--cores", "2"]);
    command.envs(variables.iter().copied());
    sandbox.serve(command)
}

fn write_bytes(sandbox: &Sandbox, name: &str, bytes: &[u8]) {
    let path = sandbox.path().join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("its folder");
    fs::write(path, bytes).expect("the file is written");
}

/// Files in a folder and below it, their names from there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

/// Files below the sandbox whose path has this in it.
fn files_with(sandbox: &Sandbox, part: &str) -> Vec<PathBuf> {
    let mut found = files(sandbox.path());
    found.retain(|path| path.to_string_lossy().contains(part));
    found
}

/// What the manager has sent of files since it started.
fn bytes_out(sandbox: &Sandbox) -> u64 {
    let metrics = sandbox.ok(&["metrics"]);
    let line = metrics.lines().find(|line| line.starts_with("pilotfish_file_bytes_total{direction=\"out\"}"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the figure is there")
}

fn all_done(sandbox: &Sandbox, job: &str, n: u64) {
    until("all is done", || {
        let job = sandbox.json(&["job", job]);
        assert_eq!(job["counts"]["failed"], 0, "{job}\n{}", sandbox.ok(&["tasks", "1", "--failed"]));
        job["counts"]["done"] == n
    });
}

/// Nobody may write to it. Root can, and then other tasks must not see it.
#[test]
fn a_task_that_writes_to_an_input_changes_none_of_other_tasks() {
    let sandbox = Sandbox::new();
    sandbox.write("work/small", "orig\n");
    sandbox.write("work/folder/packed", "orig\n");
    sandbox.write(
        "work/job.yaml",
        "command: '(echo {n} >> small; echo {n} >> folder/packed) 2> refused; cat small folder/packed > out; true'\n\
         sweep: {n: {range: [1, 8]}}\ninputs: [small, folder/]\noutputs: [{from: out, to: \"out/{n}\"}]\n",
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "1"]));
    sandbox.ok(&["submit", "--wait", "work/job.yaml"]);
    let is_root = nix::unistd::Uid::effective().is_root();
    for n in 1..=8 {
        let each = if is_root { format!("orig\n{n}\n") } else { "orig\n".to_owned() };
        assert_eq!(sandbox.read(&format!("work/out/{n}")), each.repeat(2), "task {n}");
    }
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn what_all_tasks_share_moves_once_a_node_and_what_they_leave_comes_home_once() {
    let sandbox = Sandbox::new();
    write_bytes(&sandbox, "work/receptor.bin", &noise(SHARED_BYTES, 1));
    for n in 0..4 {
        sandbox.write(&format!("work/ligands/l{n}.txt"), &format!("ligand {n}\n"));
    }
    sandbox.write(
        "work/job.yaml",
        "name: dock\n\
         command: 'cat {ligand} > out.txt; wc -c < receptor.bin >> out.txt; echo {seed} >> out.txt'\n\
         sweep: {ligand: [l0.txt, l1.txt, l2.txt, l3.txt], seed: {range: [1, 50]}}\n\
         inputs:\n  - receptor.bin\n  - {from: \"ligands/{ligand}\", to: \"{ligand}\"}\n\
         outputs:\n  - {from: out.txt, to: \"results/{ligand.stem}-{seed}.txt\"}\n",
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "--wait", "work/job.yaml"]);
    let results = files(&sandbox.path().join("work/results"));
    assert_eq!(results.len() as u64, N_TASKS);
    assert_eq!(sandbox.read("work/results/l2-17.txt"), format!("ligand 2\n{SHARED_BYTES}\n17\n"));
    let moved = bytes_out(&sandbox);
    let outputs: u64 = results.iter().map(|path| fs::metadata(path).expect("it is there").len()).sum();
    let inputs = SHARED_BYTES as u64 + 4 * "ligand 0\n".len() as u64;
    assert_eq!(moved, inputs + outputs, "each input once to the node, each output once home");
    let all_inputs = N_TASKS * (SHARED_BYTES + "ligand 0\n".len()) as u64;
    let moved_of = |job: &str| {
        let moved = sandbox.json(&["job", job])["moved"].clone();
        ["from_manager", "cached", "from_urls", "to_manager"]
            .map(|way| moved[way].as_u64().expect("a number"))
    };
    assert_eq!(moved_of("1"), [inputs, all_inputs - inputs, 0, outputs]);
    let shown = sandbox.ok(&["job", "1"]);
    assert!(shown.contains("5.0 MiB from the manager, 995.0 MiB from caches of nodes"), "{shown}");
    // The same again is sent by nobody, and what is there stays as it is.
    sandbox.ok(&["submit", "--wait", "work/job.yaml"]);
    assert_eq!(bytes_out(&sandbox), moved);
    assert_eq!(moved_of("2"), [0, all_inputs, 0, outputs]);
    let fetched = sandbox.json(&["fetch", "1"]);
    assert_eq!((&fetched["n_files"], &fetched["n_same"]), (&0.into(), &N_TASKS.into()));
    let fetched = sandbox.json(&["fetch", "2.3", "--to", "home"]);
    assert_eq!(fetched["n_files"], 1);
    assert_eq!(sandbox.read("home/results/l0-4.txt"), format!("ligand 0\n{SHARED_BYTES}\n4\n"));
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
    assert_eq!(files_with(&sandbox, "/scratch-"), Vec::<PathBuf>::new());
    assert_eq!(files_with(&sandbox, "/users/"), Vec::<PathBuf>::new());
}

#[test]
fn run_does_the_same_in_one_process_and_a_changed_input_is_another_job() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.sh", "#!/bin/sh\ncat data/in.txt > made.txt\n");
    fs::set_permissions(sandbox.path().join("tool.sh"), fs::Permissions::from_mode(0o755))
        .expect("a program");
    sandbox.write("data/in.txt", "one");
    sandbox.write(
        "job.yaml",
        "command: [./tool.sh]\ninputs: [tool.sh, data/in.txt]\noutputs: [{from: made.txt, to: out/made.txt}]\n",
    );
    sandbox.ok(&["run", "job.yaml"]);
    assert_eq!(sandbox.read("out/made.txt"), "one");
    sandbox.write("data/in.txt", "two");
    sandbox.ok(&["run", "job.yaml"]);
    assert_eq!(sandbox.read("out/made.txt"), "two");
}

#[test]
fn a_job_whose_files_cannot_be_right_is_refused_with_line_and_field_and_nothing_is_submitted() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "x");
    let manager = serve(&sandbox);
    let cases = [
        ("inputs: [missing.txt]", "inputs[0]: found `", "no such file; check the path"),
        (
            "inputs: [{from: in.txt, to: ../x}]",
            "inputs[0].to: found `../x`",
            "a path below the folder is right",
        ),
        ("inputs: [{from: in.txt, to: /x}]", "inputs[0].to: found `/x`", "a path below the folder is right"),
        (
            "inputs: [in.txt, {from: in.txt, to: ./in.txt}]",
            "inputs[1]: found `in.txt` also of inputs[0]",
            "set `to`",
        ),
        ("outputs: [\"../x-{n}\"]", "outputs[0].from: found `../x-0`", "a path below the folder is right"),
        (
            "outputs: [out.txt]",
            "outputs[0]: found one file for all values of `n`",
            "put {index} or the parameter",
        ),
        ("outputs: [\"{n.ext}x\"]", "outputs[0]: found `x` for tasks 0 and 1", "give them different names"),
        ("inputs: [\"s3://bucket/x\"]", "inputs[0].from: found the scheme s3://", "https://"),
        (
            "inputs: [{from: file:x, to: x}]",
            "inputs[0].from: found the scheme file: without `//`",
            "write ./file:",
        ),
        (
            "outputs: [{from: x, to: \"file://scratch/{n}\"}]",
            "outputs[0].to: found `file://scratch/0`",
            "write an absolute path, file:///…",
        ),
        (
            "outputs: [{from: x, to: \"https://h/{n}\"}]",
            "outputs[0].to: found the scheme https://",
            "outputs go to the job's folder, file:///… that nodes see, and store://NAME/…",
        ),
        (
            "outputs: [{from: \"http://h/x\", to: \"{n}\"}]",
            "outputs[0].from: found the scheme http://",
            "a path below",
        ),
        (
            "outputs: [{from: x, to: \".pilotfish/{n}\"}]",
            "outputs[0].to: found `.pilotfish/0`",
            "another name",
        ),
        ("inputs: [in.txt]\nworkdir: submit", "workdir: found another folder", "write scratch"),
    ];
    for (lines, found, expected) in cases {
        sandbox
            .write("job.yaml", &format!("command: 'true {{n}}'\nsweep: {{n: {{range: [0, 1]}}}}\n{lines}\n"));
        for command in ["check", "submit"] {
            let output = sandbox.run(&[command, "job.yaml"]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{lines}: {said}");
            assert!(said.contains("job.yaml:3: ") || said.contains("job.yaml:4: "), "{lines}: {said}");
            assert!(said.contains(found) && said.contains(expected), "{lines}: {said}");
        }
    }
    assert_eq!(sandbox.json(&["jobs"]).as_array().map(Vec::len), Some(0));
    sandbox.write("job.yaml", "command: 'true'\ninputs: [in.txt]\noutputs: [{from: a, to: b/a}]\n");
    let shown = sandbox.ok(&["check", "job.yaml"]);
    assert!(shown.contains("1 file from here, 1 B") && shown.contains("a → b/a"), "{shown}");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_shared_input_that_a_task_forces_open_is_fetched_anew_and_a_writable_one_is_its_own() {
    let sandbox = Sandbox::new();
    sandbox.write("in.txt", "right\n");
    sandbox.write(
        "job.yaml",
        "command: 'cat in.txt > out.txt; chmod u+w in.txt; echo wrong > in.txt'\n\
         sweep: {n: {range: [1, 12]}}\ninputs: [in.txt]\noutputs: [{from: out.txt, to: \"out/{n}\"}]\n",
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "1"]));
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    // Tasks whose files were brought before have other names of the one that is spoilt, and see it so.
    let n_right = (1..=12).filter(|n| sandbox.read(&format!("out/{n}")) == "right\n").count();
    assert!(n_right >= 4, "{n_right}");
    sandbox.write(
        "own.yaml",
        "command: 'cat in.txt > out.txt; echo wrong > in.txt'\nsweep: {n: {range: [1, 12]}}\n\
         inputs: [{from: in.txt, writable: true}]\noutputs: [{from: out.txt, to: \"own/{n}\"}]\n",
    );
    sandbox.ok(&["submit", "--wait", "own.yaml"]);
    assert!((1..=12).all(|n| sandbox.read(&format!("own/{n}")) == "right\n"));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_file_that_rots_in_the_cache_is_found_out_and_fetched_again() {
    let sandbox = Sandbox::new();
    write_bytes(&sandbox, "in.bin", &noise(100_000, 3));
    sandbox.write(
        "job.yaml",
        "command: 'cksum < in.bin > sum'\ninputs: [in.bin]\noutputs: [{from: sum, to: \"sums/{job}\"}]\n",
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    let [object] = &files_with(&sandbox, "/cache-")
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("/objects/"))
        .collect::<Vec<_>>()[..]
    else {
        panic!("not one file in the cache");
    };
    fs::set_permissions(object, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mut bytes = fs::read(object).expect("it is there");
    bytes[50_000] ^= 1;
    fs::write(object, bytes).expect("it can be spoilt");
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    assert_eq!(sandbox.read("sums/1"), sandbox.read("sums/2"));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn an_output_that_a_task_does_not_leave_is_its_failure_unless_it_is_optional() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "job.yaml",
        "command: 'test {n} = 2 || echo {n} > out'\nsweep: {n: [1, 2]}\nretries: 0\n\
         outputs: [{from: out, to: \"out/{n}\"}, {from: more, to: \"more/{n}\", optional: true}]\n",
    );
    let manager = serve(&sandbox);
    let output = sandbox.run(&["submit", "--wait", "job.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    let failed = sandbox.ok(&["tasks", "1", "--failed"]);
    assert!(failed.contains("it has not left its output out"), "{failed}");
    assert_eq!((sandbox.read("out/1").as_str(), sandbox.read("out/2").as_str()), ("1\n", ""));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn outputs_come_home_executable_and_what_cannot_come_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("data.txt", "values");
    let folder = |name: &str| (0..40).map(|n| format!("echo {n} > {name}/{n}; ")).collect::<String>();
    sandbox.write(
        "job.yaml",
        &format!(
            "command: >-\n  mkdir res; echo '#!/bin/sh' > tool; chmod 755 tool; cp tool res/tool; cp data.txt copy; {}chmod +x res/7;\n  \
             ln -s /etc/hostname res/host; ln -s nowhere res/lost; ln -s 7 res/seven\n\
             inputs: data.txt\noutputs: [tool, copy, res/, {{from: tool, to: \"file://{}/tool\"}}]\n",
            folder("res"),
            sandbox.path().join("shared").display()
        ),
    );
    let manager = serve(&sandbox);
    let output = sandbox.run(&["submit", "--wait", "job.yaml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let is_executable = |name: &str| {
        let mode = fs::metadata(sandbox.path().join(name)).expect("it is there").permissions().mode();
        mode & 0o100 != 0
    };
    let names = ["tool", "res/tool", "res/7", "res/seven", "shared/tool", "copy", "res/8", "data.txt"];
    assert_eq!(names.map(is_executable), names.map(|name| !matches!(name, "copy" | "res/8" | "data.txt")));
    // Links are named where files come home and where the task is explained.
    let explained = sandbox.ok(&["explain", "task", "1.0"]);
    for (file, why) in [
        ("res/host", "a link to /etc/hostname, outside of the task's folder"),
        ("res/lost", "a link to nowhere, which does not exist"),
    ] {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("left out: {file} of task 1.0: it is {why}")), "{said}");
        let explained = explained.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(explained.contains(&format!("{file} was left out: it is {why}")), "{explained}");
        assert!(!sandbox.path().join(file).exists());
    }
    // A file that is there already and is the same becomes executable, too.
    fs::set_permissions(sandbox.path().join("tool"), fs::Permissions::from_mode(0o644)).expect("it is ours");
    let fetched: serde_json::Value =
        serde_json::from_str(&sandbox.ok(&["fetch", "1", "--json"])).expect("it is JSON");
    assert_eq!((&fetched["n_files"], &fetched["n_left_out"]), (&0.into(), &2.into()), "{fetched}");
    assert!(is_executable("tool"));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn stages_know_which_files_of_others_are_executable() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        "stages:\n  make:\n    command: \"echo 'echo made' > tool; chmod 755 tool; echo 1 > data\"\n    outputs: [tool, data]\n  \
         use:\n    after: make\n    command: './tool > out; cp tool again; cp data data-again'\n    \
         inputs: [\"stage:make/tool\", \"stage:make/data\"]\n    outputs: [out, again, data-again]\n",
    );
    sandbox.ok(&["run", "-q", "flow.yaml"]);
    assert_eq!(sandbox.read("out"), "made\n");
    let is_executable = |name: &str| {
        let mode = fs::metadata(sandbox.path().join(name)).expect("it is there").permissions().mode();
        mode & 0o100 != 0
    };
    assert_eq!(["tool", "again", "data", "data-again"].map(is_executable), [true, true, false, false]);
}

#[test]
fn what_nodes_see_is_linked_and_written_there_at_once() {
    let sandbox = Sandbox::new();
    let shared = sandbox.write("shared/in.txt", "seen");
    let (shared, folder) =
        (shared.display().to_string(), sandbox.path().join("shared").display().to_string());
    sandbox.write(
        "work/job.yaml",
        &format!(
            "command: 'test -L a && test -L b && cat a b > out'\n\
             inputs: [{{from: \"file://{shared}\", to: a}}, {{from: \"{shared}\", to: b, shared: true}}]\n\
             outputs: [{{from: out, to: \"file://{folder}/results/out\"}}]\n"
        ),
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "--wait", "work/job.yaml"]);
    assert_eq!(sandbox.read("shared/results/out"), "seenseen");
    assert_eq!(files(&sandbox.path().join("shared")).len(), 2, "nothing is left beside it");
    assert_eq!(bytes_out(&sandbox), 0);
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn kill_9_of_agents_and_manager_in_transfers_loses_nothing_and_brings_nothing_torn() {
    let sandbox = Sandbox::new();
    write_bytes(&sandbox, "big.bin", &noise(60 << 20, 5));
    sandbox.write(
        "job.yaml",
        "command: 'cksum < big.bin > sum; cat big.bin > copy-{n}'\nsweep: {n: {range: [1, 6]}}\ncrash_limit: 100\n\
         inputs: [big.bin]\noutputs: [{from: sum, to: \"sums/{n}\"}, {from: \"copy-{n}\", to: \"copies/{n}\"}]\n",
    );
    let mut manager = serve(&sandbox);
    let upload = sandbox.start("submit", &["submit", "job.yaml"]);
    let of_first = format!("/files/incoming/{}-", manager.pid());
    until("a file is on its way", || !files_with(&sandbox, &of_first).is_empty());
    manager.signal(Signal::SIGKILL);
    manager.wait();
    manager = serve(&sandbox);
    // It may be on its way again.
    assert_eq!(files_with(&sandbox, &of_first), Vec::<PathBuf>::new(), "what was torn is gone");
    // It tried again by itself, or it said that the manager was away.
    if upload.wait() != Some(0) {
        sandbox.ok(&["submit", "job.yaml"]);
    }
    until("a file is on its way to the cache", || {
        files_with(&sandbox, "/users/").iter().any(|path| path.to_string_lossy().contains("/part-"))
            || !files_with(&sandbox, "/cache-").is_empty()
    });
    for pid in sandbox.agents() {
        signal_pid(pid, Signal::SIGKILL);
    }
    until("a task is done", || sandbox.json(&["job", "1"])["counts"]["done"] != 0);
    manager.signal(Signal::SIGKILL);
    manager.wait();
    let manager = serve(&sandbox);
    all_done(&sandbox, "1", 6);
    sandbox.ok(&["fetch", "1"]);
    for n in 1..=6 {
        assert_eq!(sandbox.read(&format!("sums/{n}")), sandbox.read("sums/1"));
        let copy = fs::read(sandbox.path().join(format!("copies/{n}"))).expect("it came home");
        assert!(copy == fs::read(sandbox.path().join("big.bin")).expect("it is there"));
    }
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// Files on their way into a folder, or left there by who was killed.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let is_part =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    files(folder).into_iter().filter(|path| is_part(path)).collect()
}

#[test]
fn kill_9_of_a_fetch_leaves_files_whole_or_not_there_and_the_next_one_brings_all() {
    const N_FILES: u64 = 6;
    const N_LINES: usize = 2_000_000;
    let sandbox = Sandbox::new();
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'yes line {{n}} | head -n {N_LINES} > out'\nsweep: {{n: {{range: [1, {N_FILES}]}}}}\n\
             outputs: [{{from: out, to: \"out/{{n}}\"}}]\n"
        ),
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    all_done(&sandbox, "1", N_FILES);
    let is_right = |path: &Path| {
        let n = path.file_name().expect("a name").to_string_lossy().into_owned();
        fs::read(path).expect("it is there") == format!("line {n}\n").repeat(N_LINES).into_bytes()
    };
    let mut n_fetches = 0;
    until("a fetch is killed in the middle", || {
        n_fetches += 1;
        let name = format!("home-{n_fetches}");
        let home = sandbox.path().join(&name);
        fs::create_dir(&home).expect("a folder");
        let mut fetch = sandbox.start("fetch", &["fetch", "1", "--to", &name]);
        until("it writes, or is over", || {
            files(&home).iter().any(|file| fs::metadata(file).is_ok_and(|facts| facts.len() > 0))
                || fetch.has_ended()
        });
        fetch.signal(Signal::SIGKILL);
        fetch.wait();
        let left = parts(&home);
        let named = files(&home).into_iter().filter(|path| !left.contains(path));
        assert!(named.into_iter().all(|path| is_right(&path)), "none that has its name is torn");
        !left.is_empty()
    });
    let name = format!("home-{n_fetches}");
    sandbox.ok(&["fetch", "1", "--to", &name]);
    let out = sandbox.path().join(name).join("out");
    assert!((1..=N_FILES).all(|n| is_right(&out.join(n.to_string()))));
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// Files in caches of nodes, by how many names each has.
fn cached(sandbox: &Sandbox) -> Vec<u64> {
    let objects = files_with(sandbox, "/objects/").into_iter();
    let cached = objects.filter(|path| path.to_string_lossy().contains("/cache-"));
    cached.filter_map(|path| Some(fs::metadata(path).ok()?.nlink())).collect()
}

/// Folders in which pilots have those of their tasks.
fn scratch_roots(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_root =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("scratch-"));
    let of = |path: PathBuf| if is_root(&path) { vec![path] } else { scratch_roots(&path) };
    entries.filter(|path| path.is_dir()).flat_map(of).collect()
}

/// A pilot is killed whose task has an input in its folder: the folder goes, and so does the input from the cache
/// when that needs the room.
fn what_a_killed_pilots_task_had_goes(killed: fn(&PilotProcesses) -> Vec<u32>) {
    let sandbox = Sandbox::new();
    let go = sandbox.path().join("go").display().to_string();
    for (name, seed) in [("old", 1), ("new", 2)] {
        write_bytes(&sandbox, &format!("{name}.bin"), &noise(SHARED_BYTES, seed));
        let text = format!(
            "command: 'cksum < {name}.bin > sum; until test -e {go}; do sleep 0.05; done'\ncrash_limit: 9\n\
             inputs: [{name}.bin]\noutputs: [{{from: sum, to: \"sums/{name}\"}}]\n"
        );
        sandbox.write(&format!("{name}.yaml"), &text);
    }
    let mut command = sandbox.command(&["serve", "--cores", "1"]);
    // Not enough for both.
    command.env("PILOTFISH_CACHE_SIZE", "8MiB");
    let manager = sandbox.serve(command);
    sandbox.ok(&["submit", "old.yaml"]);
    until("it runs", || sandbox.json(&["job", "1"])["counts"]["running"] == 1);
    let left = scratch_roots(sandbox.path());
    assert!(left.len() == 1 && cached(&sandbox).iter().all(|n_names| *n_names > 1), "{left:?}");
    let processes: Vec<u32> = pilots(&sandbox).iter().flat_map(killed).collect();
    // Stopped, neither sees the other's end.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        signal_all(&processes, signal);
    }
    sandbox.write("go", "");
    all_done(&sandbox, "1", 1);
    until("its folder is gone", || left.iter().all(|root| !root.exists()));
    // The next pilot may have begun before all of the killed one had ended: then the old input goes when there must be room.
    sandbox.ok(&["submit", "--wait", "new.yaml"]);
    until("only the other input is kept", || cached(&sandbox) == [1]);
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
    assert_eq!(scratch_roots(sandbox.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_the_task_of_a_killed_worker_had_goes_and_the_cache_lets_go_of_it() {
    what_a_killed_pilots_task_had_goes(|pilot| vec![pilot.worker]);
}

#[test]
fn what_the_task_of_a_killed_guard_and_worker_had_goes_and_the_cache_lets_go_of_it() {
    what_a_killed_pilots_task_had_goes(|pilot| vec![pilot.guard, pilot.worker]);
}

#[test]
fn a_full_disk_of_the_manager_is_told_to_who_submits_and_keeps_nothing_half() {
    let sandbox = Sandbox::new();
    let Some(_disk) = Disk::mount(&sandbox, "full", "size=96m") else { return };
    write_bytes(&sandbox, "big.bin", &noise(50 << 20, 5));
    sandbox.write("job.yaml", "command: 'true'\ninputs: [big.bin]\n");
    let place = sandbox.path().join("full/manager").display().to_string();
    let manager = sandbox.start("serve", &["serve", "--cores", "1", "--dir", &place]);
    until("it answers", || sandbox.path().join("full/manager/access.json").exists());
    let output = sandbox.run(&["submit", "job.yaml", "--dir", &place]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the manager's disk is full"), "{said}");
    assert_eq!(sandbox.json(&["jobs", "--dir", &place]).as_array().map(Vec::len), Some(0));
    sandbox.ok(&["stop", "--dir", &place]);
    manager.wait();
}

#[test]
fn a_run_whose_files_find_no_room_says_so() {
    let sandbox = Sandbox::new();
    let Some(_disk) = Disk::mount(&sandbox, "full", "size=6m") else { return };
    sandbox.write(
        "job.yaml",
        "command: 'head -c 100000 /dev/zero > out'\nsweep: {n: [1, 2]}\noutputs: [{from: out, to: \"res/{n}\"}]\n",
    );
    let run = sandbox.start("run", &["run", "--dir", "full/run", "job.yaml"]);
    let said = || sandbox.read("run.err");
    until("it says why it stands still", || said().contains("stands still: "));
    assert!(said().contains("of it wait") && said().contains("the manager's disk is full"), "{}", said());
    let explained = sandbox.ok(&["explain", "job", "1", "--dir", "full/run"]);
    assert!(explained.contains("the manager's disk is full"), "{explained}");
    run.signal(Signal::SIGINT);
    until("it says how it ends at once", || said().contains("press Ctrl-C again"));
    run.signal(Signal::SIGINT);
    run.wait();
}

#[test]
fn a_full_disk_of_a_cache_loses_what_nobody_uses_and_then_files_go_elsewhere() {
    let sandbox = Sandbox::new();
    let Some(_disk) = Disk::mount(&sandbox, "small", "size=8m") else { return };
    for (name, n_bytes) in [("a", 5 << 20), ("b", 5 << 20), ("c", 20 << 20)] {
        write_bytes(
            &sandbox,
            &format!("{name}.bin"),
            &noise(n_bytes, n_bytes as u64 + u64::from(name == "a")),
        );
        let text = format!(
            "command: 'wc -c < {name}.bin > n'\ninputs: [{name}.bin]\noutputs: [{{from: n, to: \"n/{name}\"}}]\n"
        );
        sandbox.write(&format!("{name}.yaml"), &text);
    }
    let mut command = sandbox.command(&["serve", "--cores", "1"]);
    command.env("PILOTFISH_CACHE", sandbox.path().join("small/cache")).env("PILOTFISH_CACHE_SIZE", "1GiB");
    let manager = sandbox.serve(command);
    for name in ["a", "b"] {
        sandbox.ok(&["submit", "--wait", &format!("{name}.yaml")]);
        assert_eq!(sandbox.read(&format!("n/{name}")), format!("{}\n", 5 << 20));
    }
    sandbox.ok(&["submit", "--wait", "c.yaml"]);
    assert_eq!(sandbox.read("n/c"), format!("{}\n", 20 << 20));
    for job in ["1", "2", "3"] {
        assert_eq!(sandbox.json(&["job", job])["n_failed_attempts"], 0, "a full cache costs no attempt");
    }
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_folder_comes_whole_and_of_one_that_has_changed_only_that() {
    let sandbox = Sandbox::new();
    sandbox.write("work/data/tool/run", "#!/bin/sh\ncat data/a data/b/.hidden\n");
    fs::set_permissions(sandbox.path().join("work/data/tool/run"), fs::Permissions::from_mode(0o755))
        .expect("a program");
    write_bytes(&sandbox, "work/data/a", b"one\n");
    write_bytes(&sandbox, "work/data/b/.hidden", &noise(100_000, 4));
    std::os::unix::fs::symlink("a", sandbox.path().join("work/data/link")).expect("a link");
    sandbox.write(
        "work/job.yaml",
        "command: [./data/tool/run]\ninputs: [data/]\nstdio: {stdout: archive}\n\
         results: {limit: 1MiB}\n",
    );
    let shown = sandbox.ok(&["check", "work/job.yaml"]);
    assert!(shown.contains("4 files from here"), "{shown}");
    let manager = serve(&sandbox);
    let expected = |first: &[u8]| [first, &noise(100_000, 4)[..]].concat();
    for (job, first) in [("1", b"one\n"), ("2", b"two\n")] {
        write_bytes(&sandbox, "work/data/a", first);
        sandbox.ok(&["submit", "--wait", "work/job.yaml"]);
        let output = sandbox.run(&["logs", &format!("{job}.0"), "--raw"]);
        assert!(output.stdout == expected(first), "{}", text(&output.stderr));
    }
    let moved = sandbox.json(&["job", "2"])["moved"].clone();
    assert_eq!(moved["from_manager"], 4, "what is the same is in the node's cache");
    sandbox.ok(&["stop"]);
    manager.wait();
}
