//! Files from stores and to them: a real Swift, which also speaks S3, and a real sshd.

#[path = "stores/web.rs"]
mod web;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use nix::sys::signal::Signal;
use tests::{
    Running, Sandbox,
    pilots::signal_all,
    sshd::Sshd,
    swift::{ACCESS_KEY, SECRET_KEY, Swift, TEMP_URL_KEY},
    text, until,
};

/// A file that nobody else may read.
fn secret(sandbox: &Sandbox, name: &str, contents: &str) -> String {
    sandbox.hide([contents.to_owned()]);
    let path = sandbox.write(name, contents);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a private file");
    path.display().to_string()
}

/// A manager with one pilot on this host that knows these stores.
fn serve(sandbox: &Sandbox, stores: &str) -> Running {
    let platform =
        "platforms: [{name: here, adapter: local, cores: 2, pilots_max: 1, allow_shared_account: true}]\n";
    sandbox.write("manager.yaml", &format!("{platform}stores:\n{stores}"));
    sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]))
}

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
    until("nothing is left running", || sandbox.agents().is_empty());
}

/// The store `host`: a folder of the sandbox, by SSH.
fn by_ssh(sandbox: &Sandbox, sshd: &Sshd, more: &str) -> String {
    let config = sandbox.write("ssh_config", &sshd.client_configuration(""));
    let folder = sandbox.path().join("files");
    fs::create_dir(&folder).expect("a folder");
    format!(
        "  - {{name: host, kind: sftp, ssh: {}, ssh_config: {}, folder: {}{more}}}\n",
        sshd.name(),
        config.display(),
        folder.display()
    )
}

/// Files in a folder and below it.
fn n_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { n_files(&entry.path()) } else { 1 }).sum()
}

#[test]
fn objects_come_from_s3_and_swift_by_signed_addresses_and_go_there() {
    let sandbox = Sandbox::new();
    let Some(swift) = Swift::start(&sandbox, "lab") else { return };
    let secret_key = secret(&sandbox, "secret-key", SECRET_KEY);
    let temp_url_key = secret(&sandbox, "temp-url-key", TEMP_URL_KEY);
    let stores = format!(
        "  - {{name: bucket, kind: s3, endpoint: '{}', bucket: lab, folder: runs, access_key: '{ACCESS_KEY}', \
         secret_file: {secret_key}}}\n  - {{name: box, kind: swift, endpoint: '{}', container: lab, \
         secret_file: {temp_url_key}, users: [{}]}}\n",
        swift.url(),
        swift.account_url(),
        tests::sshd::user(),
    );
    for n in 1..=3 {
        swift.put(&sandbox, &format!("runs/in/{n} a.txt"), &format!("of the bucket {n}\n"));
    }
    swift.put(&sandbox, "all.txt", "for all\n");
    let manager = serve(&sandbox, &stores);
    assert_eq!(
        sandbox
            .ok(&["stores"])
            .lines()
            .map(|line| line.split_whitespace().next().unwrap_or(""))
            .collect::<Vec<_>>(),
        ["STORE", "box", "bucket"]
    );
    sandbox.write(
        "job.yaml",
        "command: cat a all.txt > out\nsweep: {n: {range: [1, 3]}}\n\
         inputs: [{from: 'store://bucket/in/{n} a.txt', to: a}, 'store://box/all.txt']\n\
         outputs: [{from: out, to: 'store://bucket/out/{job}/{n}.txt'}, {from: out, to: 'store://box/out/{n}'}, \
         {from: out, to: 'home-{n}'}]\n",
    );
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    for n in 1..=3 {
        let expected = format!("of the bucket {n}\nfor all\n");
        assert_eq!(swift.get(&format!("runs/out/1/{n}.txt")).as_deref(), Some(expected.as_str()));
        assert_eq!(swift.get(&format!("out/{n}")).as_deref(), Some(expected.as_str()));
        assert_eq!(sandbox.read(&format!("home-{n}")), expected);
    }
    let (of_all, of_each) = ("for all\n".len() as u64, "of the bucket 1\n".len() as u64);
    let moved = sandbox.json(&["job", "1"])["moved"].clone();
    let expected = [3 * of_each + of_all, 2 * 3 * (of_each + of_all), 2 * of_all];
    let found = ["from_urls", "to_stores", "cached"].map(|way| moved[way].as_u64().expect("a number"));
    assert_eq!(found, expected, "what all share came once");
    assert!(sandbox.ok(&["job", "1"]).contains(" to stores"), "{}", sandbox.ok(&["job", "1"]));

    // What is not there is told by its name, and signs nothing.
    let job = "command: 'true'\nretries: 0\ninputs: ['store://bucket/in/none.txt']\n";
    sandbox.write("missing.yaml", job);
    assert_eq!(sandbox.run(&["submit", "--wait", "missing.yaml"]).status.code(), Some(1));
    let why = sandbox.json(&["task", "2.0"]).to_string();
    assert!(why.contains("store://bucket/in/none.txt: the server answers 404"), "{why}");
    assert!(!why.contains("Signature"), "{why}");
    ends(&sandbox, manager);
}

#[test]
fn files_come_from_a_host_and_go_there_whole() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "files-host", "Subsystem sftp internal-sftp") else { return };
    let store = by_ssh(&sandbox, &sshd, "");
    let large: String = (0..300_000).map(|n| format!("{n}\n")).collect();
    sandbox.write("files/in/large.txt", &large);
    sandbox.write("files/out/2.txt", "of before\n");
    let manager = serve(&sandbox, &store);
    let job = "command: 'cp in.txt out; echo {n} >> out'\nsweep: {n: {range: [1, 4]}}\n\
               inputs: [{from: 'store://host/in/large.txt', to: in.txt}]\n\
               outputs: [{from: out, to: 'store://host/out/{n}.txt'}]\n";
    sandbox.write("job.yaml", job);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    for n in 1..=4 {
        assert!(sandbox.read(&format!("files/out/{n}.txt")) == format!("{large}{n}\n"), "{n}");
    }
    assert_eq!(n_files(&sandbox.path().join("files")), 5, "no parts are left");
    assert_eq!(sandbox.json(&["job", "1"])["moved"]["from_urls"], large.len(), "it came once");
    // A connection that was lost is made again.
    sshd.cut();
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    let fetched = sandbox.json(&["fetch", "2"]);
    assert_eq!(
        (&fetched["n_elsewhere"], &fetched["n_in_stores"], &fetched["n_files"]),
        (&4.into(), &4.into(), &0.into()),
        "they are where they go"
    );
    let told = sandbox.ok(&["fetch", "2"]);
    assert!(told.contains("4 files in their stores") && !told.contains("nodes see"), "{told}");

    // A host keeps permissions.
    let tool = "command: 'echo > tool; chmod 755 tool; echo > data'\n\
                outputs: [{from: tool, to: 'store://host/tool'}, {from: data, to: 'store://host/data'}]\n";
    sandbox.write("tool.yaml", tool);
    sandbox.ok(&["submit", "--wait", "tool.yaml"]);
    let mode = |name: &str| {
        fs::metadata(sandbox.path().join("files").join(name)).expect("it is there").permissions().mode()
    };
    assert_eq!((mode("tool") & 0o100, mode("data") & 0o100), (0o100, 0));

    // What is not there is told by its name.
    sandbox.write("bad.yaml", "command: 'true'\ninputs: ['store://host/in/none.txt']\n");
    assert_eq!(sandbox.run(&["submit", "--wait", "bad.yaml"]).status.code(), Some(1));
    let why = sandbox.json(&["task", "4.0"]).to_string();
    assert!(
        why.contains("input none.txt from store://host/in/none.txt: the manager says: files-host has no"),
        "{why}"
    );
    ends(&sandbox, manager);
}

#[test]
fn kill_9_of_an_agent_in_the_middle_of_a_file_leaves_that_right_and_no_part_of_it() {
    const N_LINES: usize = 32 << 20;
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "files-host", "Subsystem sftp internal-sftp") else { return };
    let manager = serve(&sandbox, &by_ssh(&sandbox, &sshd, ""));
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'yes | head -n {N_LINES} > out'\ncrash_limit: 9\n\
             outputs: [{{from: out, to: 'store://host/{{job}}/out'}}]\n"
        ),
    );
    let expected = "y\n".repeat(N_LINES);
    let mut n_jobs = 0;
    until("an agent is killed in the middle of a file", || {
        n_jobs += 1;
        let job = n_jobs.to_string();
        let folder = sandbox.path().join("files").join(&job);
        sandbox.ok(&["submit", "job.yaml"]);
        until("the file is on its way", || n_files(&folder) > 0);
        let agents = sandbox.agents();
        // Stopped, neither sees the other's end.
        signal_all(&agents, Signal::SIGSTOP);
        // Less than half has come: the rest is not in some buffer already.
        let is_on_its_way =
            |entry: fs::DirEntry| entry.metadata().is_ok_and(|facts| facts.len() < expected.len() as u64 / 2);
        let is_in_the_middle = fs::read_dir(&folder).into_iter().flatten().flatten().any(is_on_its_way);
        signal_all(&agents, Signal::SIGKILL);
        until("it is done", || sandbox.json(&["job", &job])["counts"]["done"] == 1);
        assert!(sandbox.read(&format!("files/{job}/out")) == expected);
        until("no part is left", || n_files(&folder) == 1);
        is_in_the_middle
    });
    ends(&sandbox, manager);
}

#[test]
fn a_secret_that_is_not_there_or_that_others_may_read_starts_no_manager() {
    let sandbox = Sandbox::new();
    let file = sandbox.path().join("key");
    sandbox.write(
        "manager.yaml",
        &format!(
            "stores: [{{name: a, kind: s3, bucket: b, access_key: k, secret_file: {}}}]\n",
            file.display()
        ),
    );
    for expected in ["failed to read", "found a secret that others may read in"] {
        let refused = sandbox.run(&["serve", "--config", "manager.yaml"]);
        let said = text(&refused.stderr);
        assert!(
            refused.status.code() == Some(2) && said.contains(expected) && said.contains("\"a\""),
            "{said}"
        );
        sandbox.write("key", "secret");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("for all to read");
    }
}

#[test]
fn a_store_is_one_that_the_user_may_name() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start(&sandbox, "files-host", "Subsystem sftp internal-sftp") else { return };
    let store = by_ssh(&sandbox, &sshd, ", users: [ann]");
    let manager = serve(&sandbox, &store);
    sandbox.ok(&["user", "add", "ann"]);
    sandbox.write("job.yaml", "command: echo x > out\noutputs: [{from: out, to: 'store://host/x'}]\n");
    let refused = sandbox.run(&["submit", "job.yaml"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(
        said.contains("found store `host` in the job's files; the manager's configuration names none"),
        "{said}"
    );
    assert!(sandbox.ok(&["stores"]).starts_with("no stores"));
    let shown = sandbox.ok(&["stores", "--dir", "ann"]);
    assert!(shown.contains("through the manager") && shown.contains("sftp://files-host/"), "{shown}");
    sandbox.ok(&["submit", "--wait", "--dir", "ann", "job.yaml"]);
    assert_eq!(sandbox.read("files/x"), "x\n");
    for (place, expected) in [
        ("s3://bucket/x", "store://NAME/"),
        (
            "store://host/../x",
            "found `store://host/../x`; a path below the store's folder is right: without `..`",
        ),
        ("store://host", "write store://NAME/PATH"),
    ] {
        sandbox
            .write("job.yaml", &format!("command: echo x > out\noutputs: [{{from: out, to: '{place}'}}]\n"));
        let refused = sandbox.run(&["check", "job.yaml"]);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(expected), "{place}: {said}");
    }
    ends(&sandbox, manager);
}
