//! A manager's folder and what is in it: files in the place of folders, damaged files, manager.yaml.

use std::os::unix::ffi::OsStrExt;

use crate::page::Page;

/// A folder with a store of one finished job.
fn kept(page: &Page, folder: &str) {
    page.sandbox.ok(&["run", "-q", "--dir", folder, "--", "echo", "{}", ":::", "a", "b"]);
}

#[test]
fn folders_that_cannot_be_used_are_explained() {
    let mut page = Page::new("folders");
    page.sandbox.write("file", "x\n");
    for (title, folder) in [
        ("a file", "file"),
        ("a folder within a file", "file/x"),
        ("a device", "/dev/full"),
        ("a folder that cannot be made", "/proc/pilotfish"),
    ] {
        page.fails(&format!("run in {title}"), &["run", "--dir", folder, "--", "true"]);
        page.fails(&format!("serve in {title}"), &["serve", "-q", "--dir", folder]);
    }
    page.fails("read from a file", &["jobs", "--dir", "file"]);
    let mut homeless = page.sandbox.command(&["serve", "-q"]);
    homeless.env_remove("HOME");
    page.case("serve without a home", homeless, 3);
    let mut homeless = page.sandbox.command(&["serve", "-q"]);
    homeless.env("HOME", "/proc/nobody");
    page.case("serve with a home that is not there", homeless, 3);
    let mut elsewhere = page.sandbox.command(&["status"]);
    elsewhere.env("PILOTFISH_DIR", "nowhere");
    page.case("a folder of the environment that is not there", elsewhere, 3);
    page.close();
}

#[test]
fn folder_whose_name_is_not_utf8_is_refused_before_anything_is_written() {
    let sandbox = tests::Sandbox::new();
    let latin = std::ffi::OsStr::from_bytes(b"s\xe9");
    for arguments in [&["serve", "-q"][..], &["run"]] {
        let mut command = sandbox.command(arguments);
        command.arg("--dir").arg(latin);
        if arguments == ["run"] {
            command.args(["--", "true"]);
        }
        let output = command.output().expect("it runs");
        let said = tests::text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(r"s\xe9` is not UTF-8; "), "{arguments:?}: {said}");
        let left: Vec<_> = std::fs::read_dir(sandbox.path()).expect("a folder").flatten().collect();
        assert!(left.iter().all(|entry| !entry.file_name().as_bytes().starts_with(b"s")), "{left:?}");
    }
    let folder = sandbox.path().join(latin);
    std::fs::create_dir(&folder).expect("a folder");
    let output = sandbox.command(&["check", "--", "true"]).current_dir(&folder).output().expect("it runs");
    let said = tests::text(&output.stderr);
    assert!(said.contains("working folder `") && said.contains("is not UTF-8; "), "{said}");
    assert_eq!(output.status.code(), Some(2), "{said}");
}

#[test]
fn a_run_whose_pilots_cannot_start_ends_soon() {
    let mut page = Page::new("no-pilots");
    page.sandbox.write(".pilotfish/pilots", "a file where folders of pilots belong\n");
    let begun = std::time::Instant::now();
    page.fails("no pilot has a folder", &["run", "--", "echo", "{}", ":::", "a", "b"]);
    let limit = tests::hang_limit(std::time::Duration::from_secs(60));
    assert!(begun.elapsed() < limit, "three attempts within three seconds took {:?}", begun.elapsed());
    page.close();
}

#[test]
fn damaged_folders_are_explained() {
    let mut page = Page::new("damaged");
    let here = page.sandbox.path().to_owned();
    kept(&page, "good");
    let copy = |name: &str| {
        let status = std::process::Command::new("cp").args(["-r", "good", name]).current_dir(&here).status();
        assert!(status.expect("cp runs").success(), "{name} is copied");
    };
    for (name, damage) in
        [("other", &b"this is a letter to my aunt\n"[..]), ("short", &b"SQLite format 3\0"[..])]
    {
        copy(name);
        // A store has its newest pages beside it.
        let _ = std::fs::remove_file(here.join(name).join("store.sqlite-wal"));
        std::fs::write(here.join(name).join("store.sqlite"), damage).expect("it is damaged");
        page.fails(
            &format!("run with a damaged store.sqlite ({name})"),
            &["run", "--dir", name, "--", "true"],
        );
        page.fails(&format!("serve with a damaged store.sqlite ({name})"), &["serve", "-q", "--dir", name]);
        page.fails(&format!("read a damaged store.sqlite ({name})"), &["jobs", "--dir", name]);
    }
    copy("torn");
    let path = here.join("torn/store.sqlite");
    let mut bytes = std::fs::read(&path).expect("the store is there");
    for page in bytes.chunks_mut(4096).skip(1) {
        page.fill(0xa5);
    }
    std::fs::write(&path, bytes).expect("it is damaged");
    page.fails("run with a store of torn pages", &["run", "--dir", "torn", "--", "true"]);
    copy("newer");
    let sqlite = std::process::Command::new("sqlite3")
        .args(["newer/store.sqlite", "PRAGMA user_version = 99"])
        .current_dir(&here)
        .status();
    assert!(sqlite.expect("sqlite3 runs; tests/run installs it").success());
    page.fails("run with a store of a later version", &["run", "--dir", "newer", "--", "true"]);
    assert_eq!(page.sandbox.json(&["job", "1", "--dir", "good"])["counts"]["done"], 2, "the original");
    // A copy has other secrets and keys than the original, a folder that is renamed has the same.
    std::fs::rename(here.join("good"), here.join("key")).expect("it is renamed");
    page.sandbox.write("key/certificate.pem", "-----BEGIN NOTHING-----\n");
    page.fails("serve with a damaged certificate", &["serve", "-q", "--dir", "key", "--tls", "on"]);
    std::fs::rename(here.join("key"), here.join("secret")).expect("it is renamed");
    page.sandbox.write("secret/secret", "abc");
    page.fails("run with a damaged secret", &["run", "--dir", "secret", "--", "true"]);
    page.fails("serve with a damaged secret", &["serve", "-q", "--dir", "secret"]);
    page.close();
}

#[test]
fn bad_configurations_are_explained() {
    let mut page = Page::new("configurations");
    page.refuses("a folder", &["serve", "-q", "--config", "home"]);
    for yaml in [
        "listen: {host: here}\n",
        "listen: {port: 70000}\n",
        "lisen: {port: 1}\n",
        "tls: maybe\n",
        "platforms:\n  - name: here\n",
        "platforms:\n  - {name: here, adapter: slurn}\n",
        "platforms:\n  - {name: here, adapter: local, cores: 0}\n",
        "platforms:\n  - {name: far, adapter: hosts, cores: 2}\n",
        "platforms:\n  - {name: far, adapter: slurm, cores: 2, ssh: '-oProxyCommand=id', reach: relay}\n",
        "platforms:\n  - {name: far, adapter: slurm, cores: 2, reach: tunnel}\n",
        "platforms:\n  - {name: here, adapter: local, ssh: a}\n",
        "platforms:\n  - {name: here, adapter: local, memory: 8}\n",
        "platforms:\n  - {name: here, adapter: local}\n  - {name: here, adapter: local}\n",
        "policies: {matching: tunrs, bundling: guided}\n",
        "limits: {grace: 60}\n",
        "limits: {grase: 1m, prefetch: 5}\nplatfroms: []\n",
        "listen: [\n",
        "- a\n",
    ] {
        page.sandbox.write("manager.yaml", yaml);
        let title = format!("\n    {}\n#", yaml.trim_end().replace('\n', "\n    "));
        page.refuses(&title, &["serve", "-q", "--dir", "state", "--config", "manager.yaml"]);
    }
    assert!(!page.sandbox.path().join("state").exists(), "something was made for a wrong configuration");
    page.close();
}
