//! Files that pilots of a platform have of each other, with real managers, pilots and connections.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tests::{
    Running, Sandbox,
    disk::Disk,
    noise,
    peers::{
        SAY_WHO, cached, counts_are, executed_once, figure, from, kill, pilots_of, processes, serve, sum_of,
        views,
    },
    until,
};

/// Each task has one accepted attempt, and left the sum of the input.
fn all_right(sandbox: &Sandbox, job: &str, n: u64, folder: &str, input: &Path) {
    let counts = sandbox.json(&["job", job])["counts"].clone();
    assert_eq!((&counts["done"], &counts["failed"]), (&n.into(), &0.into()), "{counts}");
    let right = sum_of(input);
    let sums: Vec<PathBuf> = fs::read_dir(sandbox.path().join(folder))
        .expect("the sums have come home")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(sums.len() as u64, n);
    for sum in sums {
        assert_eq!(fs::read_to_string(&sum).expect("a sum"), right, "{}", sum.display());
    }
}

fn what_all_need_leaves_the_manager_once(n_pilots: usize) {
    const N_BYTES: usize = 5 << 20;
    let sandbox = Sandbox::new();
    let input = sandbox.path().join("shared.bin");
    fs::write(&input, noise(N_BYTES, 1)).expect("the input");
    let go = sandbox.path().join("go").display().to_string();
    sandbox.write(
        "job.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < shared.bin > sum; until test -e {go}; do sleep 0.05; done'\n\
             sweep: {{n: {{range: [1, 200]}}}}\n\
             inputs: [shared.bin]\noutputs: [{{from: sum, to: \"sums/{{n}}\"}}]\n"
        ),
    );
    let manager = serve(&sandbox, n_pilots, "", &[]);
    sandbox.ok(&["submit", "job.yaml"]);
    // They go on when each has one: else the first might do all.
    until("all pilots have one", || counts_are(&sandbox, "1", "running", n_pilots as u64));
    // A task is told to run before it has said who it is.
    until("each has begun one", || pilots_of(&sandbox, "1").len() == n_pilots);
    assert_eq!(cached(&sandbox).len(), n_pilots);
    sandbox.write("go", "");
    until("all is done", || counts_are(&sandbox, "1", "done", 200));
    sandbox.ok(&["fetch", "1"]);
    all_right(&sandbox, "1", 200, "sums", &input);
    executed_once(&sandbox, 200, &[]);
    assert_eq!(from(&sandbox, "manager"), N_BYTES as u64, "once");
    let n_others = n_pilots as u64 - 1;
    until("all have told what they fetched", || from(&sandbox, "peers") == n_others * N_BYTES as u64);
    sandbox.ok(&["stop"]);
    manager.wait();
    until("nothing is left running", || sandbox.processes().is_empty());
}

#[test]
fn what_two_pilots_need_leaves_the_manager_once() {
    what_all_need_leaves_the_manager_once(2);
}

#[test]
fn what_eight_pilots_need_leaves_the_manager_once() {
    what_all_need_leaves_the_manager_once(8);
}

/// Of two pilots one has the input, and is busy until a file `go` is there.
fn one_has_it(n_bytes: usize) -> (Sandbox, Running, PathBuf) {
    let sandbox = Sandbox::new();
    let (manager, input) = one_has_it_in(&sandbox, n_bytes, "", &[]);
    (sandbox, manager, input)
}

fn one_has_it_in(
    sandbox: &Sandbox,
    n_bytes: usize,
    more: &str,
    environment: &[(&str, &str)],
) -> (Running, PathBuf) {
    let input = sandbox.path().join("shared.bin");
    fs::write(&input, noise(n_bytes, 7)).expect("the input");
    let go = sandbox.path().join("go").display().to_string();
    sandbox.write(
        "first.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < shared.bin > sum; until test -e {go}; do sleep 0.05; done'\n\
             crash_limit: 9\n\
             inputs: [shared.bin]\noutputs: [{{from: sum, to: first/sum}}]\n"
        ),
    );
    sandbox.write(
        "then.yaml",
        &format!(
            "command: '{SAY_WHO}; cksum < shared.bin > sum'\nsweep: {{n: {{range: [1, 20]}}}}\ncrash_limit: 9\n\
             inputs: [shared.bin]\noutputs: [{{from: sum, to: \"then/{{n}}\"}}]\n"
        ),
    );
    let manager = serve(sandbox, 2, more, environment);
    sandbox.ok(&["submit", "first.yaml"]);
    // A task is told to run before it has said who it is.
    until("one pilot has it", || cached(sandbox).len() == 1 && pilots_of(sandbox, "1").len() == 1);
    (manager, input)
}

/// Whether a log below the folder has these words.
fn is_said(folder: &Path, words: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => is_said(&path, words),
        false => fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(words)),
    })
}

#[test]
fn a_corrupted_file_of_another_pilot_is_not_taken() {
    let (sandbox, manager, input) = one_has_it(5 << 20);
    // As a bad disk does it: nothing says that it was written to.
    let object = cached(&sandbox).pop().expect("it is there");
    let marked = fs::metadata(&object).and_then(|facts| facts.modified()).expect("its time");
    assert!(marked < SystemTime::now() - Duration::from_secs(3600));
    fs::set_permissions(&object, fs::Permissions::from_mode(0o700)).expect("it can be written");
    let file = fs::OpenOptions::new().write(true).open(&object).expect("it is opened");
    std::os::unix::fs::FileExt::write_all_at(&file, b"rot", 1 << 20).expect("it is written");
    file.set_modified(marked).expect("its time");
    sandbox.ok(&["submit", "--wait", "then.yaml"]);
    all_right(&sandbox, "2", 20, "then", &input);
    until("it has told what it fetched", || from(&sandbox, "manager") == 2 * (5 << 20));
    assert_eq!(from(&sandbox, "peers"), 0);
    assert!(is_said(sandbox.path(), "another pilot gave another file"), "it was not even offered");
    executed_once(&sandbox, 1 + 20, &[]);
    sandbox.write("go", "");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_pilot_killed_while_it_serves_another_costs_nothing_but_its_own_task() {
    let (sandbox, manager, input) = one_has_it(120 << 20);
    let holder = cached(&sandbox)[0].ancestors().nth(2).expect("its cache").to_owned();
    let number = pilots_of(&sandbox, "1").pop_first().expect("who has it");
    let pilot = processes(&sandbox, number);
    sandbox.ok(&["submit", "then.yaml"]);
    let is_part = |path: &Path| path.to_string_lossy().contains("/part-");
    let parts = |folder: &Path| {
        let users = fs::read_dir(folder.join("users")).into_iter().flatten().flatten();
        let files = users.flat_map(|user| fs::read_dir(user.path()).into_iter().flatten().flatten());
        files.filter(|file| is_part(&file.path())).count()
    };
    until("the other fetches it", || {
        let caches = fs::read_dir(sandbox.path().join("caches")).into_iter().flatten().flatten();
        caches.map(|cache| cache.path()).any(|cache| cache != holder && parts(&cache) > 0)
    });
    let hit = kill(&sandbox, &pilot);
    sandbox.write("go", "");
    for (job, n) in [("1", 1), ("2", 20)] {
        until("all is done", || counts_are(&sandbox, job, "done", n));
        sandbox.ok(&["fetch", job]);
    }
    all_right(&sandbox, "2", 20, "then", &input);
    executed_once(&sandbox, 1 + 20, &[hit]);
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// Has the cache of the pilot that has none yet below that folder.
fn put_the_other_cache_below(sandbox: &Sandbox, folder: &Path) {
    let holder = cached(sandbox)[0].ancestors().nth(2).expect("its cache").to_owned();
    let tag = holder.file_name().expect("its tag").to_string_lossy().into_owned();
    let (manager, allocation) = tag.rsplit_once('-').expect("whose it is, and its number");
    let mut others: Vec<String> = views(sandbox).iter().map(|view| view["allocation"].to_string()).collect();
    others.retain(|other| other != allocation);
    assert_eq!(others.len(), 1, "{others:?}");
    let cache = folder.join("cache");
    fs::create_dir(&cache).expect("a folder");
    symlink(cache, holder.with_file_name(format!("{manager}-{}", others[0]))).expect("a link");
}

/// What is known of the failed attempts of so many tasks: who made them, and why they failed.
fn failed_attempts(sandbox: &Sandbox, job: &str, n_tasks: u64) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for index in 0..n_tasks {
        let task = sandbox.json(&["task", &format!("{job}.{index}")]);
        for attempt in task["failed_attempts"].as_array().expect("attempts") {
            let why = attempt["failure"]["text"].as_str().expect("a reason").to_owned();
            found.push((attempt["pilot"].as_u64().expect("a pilot"), why));
        }
    }
    found
}

#[test]
fn a_node_whose_cache_has_no_room_for_what_another_pilot_has_keeps_it_elsewhere() {
    const N_BYTES: usize = 20 << 20;
    let sandbox = Sandbox::new();
    let Some(disk) = Disk::mount(&sandbox, "small", "size=8m") else { return };
    let (manager, input) = one_has_it_in(&sandbox, N_BYTES, "", &[("PILOTFISH_CACHE_SIZE", "1GiB")]);
    put_the_other_cache_below(&sandbox, disk.path());
    sandbox.ok(&["submit", "then.yaml"]);
    sandbox.write("go", "");
    until("all is done", || counts_are(&sandbox, "2", "done", 20));
    sandbox.ok(&["fetch", "2"]);
    all_right(&sandbox, "2", 20, "then", &input);
    executed_once(&sandbox, 1 + 20, &[]);
    assert_eq!(failed_attempts(&sandbox, "2", 20), []);
    // What did not fit came from the other pilot, all of it.
    let n_out = figure(&sandbox, "file_bytes_total{direction=\"out\"}");
    assert!(n_out < N_BYTES as u64 + (1 << 20), "{n_out} bytes have left the manager");
    sandbox.ok(&["stop"]);
    manager.wait();
}

const N_PASSED_ON: u64 = 24;

/// A stage of tasks that leave a megabyte each, and one whose tasks take one of these each, by three pilots: how many
/// of these came from the pilot's own cache, from other pilots and from the manager.
fn passed_on(policy: &str) -> [u64; 3] {
    let sandbox = Sandbox::new();
    sandbox.write(
        "flow.yaml",
        &format!(
            "stages:\n\
             \x20 make:\n\
             \x20   command: '{SAY_WHO}; head -c 1000000 /dev/urandom > big; cksum < big > sum; sleep 0.3'\n\
             \x20   sweep: {{n: {{range: [1, {N_PASSED_ON}]}}}}\n\
             \x20   outputs: [{{from: big, to: 'big/{{n}}'}}, {{from: sum, to: 'made/{{n}}'}}]\n\
             \x20 use:\n\
             \x20   command: '{SAY_WHO}; cksum < big > sum; sleep 0.1'\n\
             \x20   sweep: {{n: {{range: [1, {N_PASSED_ON}]}}}}\n\
             \x20   after: {{stage: make, tasks: same}}\n\
             \x20   inputs: [{{from: 'stage:make/big/{{n}}', to: big}}]\n\
             \x20   outputs: [{{from: sum, to: 'used/{{n}}'}}]\n"
        ),
    );
    let manager = serve(&sandbox, 3, "", &[]);
    sandbox.ok(&["policies", "set", "stealing", policy]);
    sandbox.ok(&["submit", "--wait", "flow.yaml"]);
    for n in 1..=N_PASSED_ON {
        assert_eq!(sandbox.read(&format!("made/{n}")), sandbox.read(&format!("used/{n}")), "{n}");
    }
    executed_once(&sandbox, 2 * N_PASSED_ON as usize, &[]);
    let moved = sandbox.json(&["job", "2"])["moved"].clone();
    let moved =
        ["cached", "from_peers", "from_manager"].map(|from| moved[from].as_u64().unwrap_or(0) / 1_000_000);
    sandbox.ok(&["stop"]);
    manager.wait();
    moved
}

#[test]
fn what_a_task_leaves_for_others_stays_where_it_was_made() {
    let [cached, from_peers, from_manager] = passed_on("none");
    assert_eq!((cached + from_peers, from_manager), (N_PASSED_ON, 0));
}

#[test]
fn tasks_go_to_what_others_have_left_for_them() {
    let [cached, from_peers, from_manager] = passed_on("mdl");
    assert_eq!((cached + from_peers, from_manager), (N_PASSED_ON, 0));
    // One whose pilot is just being sent something else stays where it is; by chance it would be one of three.
    assert!(cached >= N_PASSED_ON * 2 / 3, "{cached} of {N_PASSED_ON} ran where their files were");
}
