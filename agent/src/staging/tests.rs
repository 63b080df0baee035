//! The stager against a small manager that counts requests, sends wrong contents and breaks off.

mod mover;
mod network;

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use protocol::{
    files::{objects::PackRequest, pack},
    job::{OutputTarget, Several, Source, TaskInput, TaskOutputFile},
};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
    results::FailureKind,
};

use super::{Inputs, Moved, N_TRIES, Outputs, Reads, Stager, StagerSettings, cache::CachePlace, unread};
use crate::sys::opened::testing::make_pipe;

/// The objects of the manager, its requests, and the number of its first answers that go wrong.
#[derive(Default)]
struct Manager {
    objects: BTreeMap<String, Vec<u8>>,
    asked: Vec<String>,
    /// Number of answers that are cut off in the middle.
    n_torn: u32,
    /// Number of answers with wrong contents.
    n_false: u32,
    /// Number of objects for which there is no room.
    n_full: u32,
    /// Whether its version knows packs.
    knows_packs: bool,
}

type Shared = Arc<Mutex<Manager>>;

fn named(input: TaskInput) -> Inputs {
    Inputs { named: vec![input], ..Inputs::default() }
}

fn manager() -> (String, Shared) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shared = Shared::default();
    let state = Arc::clone(&shared);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &state);
        }
    });
    (url, shared)
}

fn answer(stream: TcpStream, state: &Shared) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut n_body) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        if let Some(n) = header.to_lowercase().strip_prefix("content-length:") {
            n_body = n.trim().parse().unwrap();
        }
        if header.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body).unwrap();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap().to_owned());
    let name = path.rsplit('/').next().unwrap();
    // The agent sends the job of each file.
    let name = if method == "PUT" { name.strip_suffix("?job=1").unwrap() } else { name }.to_owned();
    let mut state = state.lock().unwrap();
    state.asked.push(format!("{method} {}", &name[..4]));
    let found = state.objects.get(&name).cloned();
    let (status, mut contents) = match (method, found) {
        ("PUT", _) if state.n_full > 0 => {
            state.n_full -= 1;
            ("507 Insufficient Storage", Vec::new())
        }
        ("PUT", _) if name == "packs" && !state.knows_packs => ("405 Method Not Allowed", Vec::new()),
        ("PUT", _) if name == "packs" => {
            let files = pack::files(&body).unwrap();
            let files = files.iter().map(|(sha256, contents)| (sha256.to_string(), contents.to_vec()));
            state.objects.extend(files);
            ("201 Created", b"{}".to_vec())
        }
        ("PUT", _) => {
            state.objects.insert(name, body);
            ("201 Created", b"{}".to_vec())
        }
        ("POST", _) if state.knows_packs => {
            let wanted: PackRequest = serde_json::from_slice(&body).unwrap();
            let mut pack = Vec::new();
            for sha256 in &wanted.sha256 {
                pack::push(&mut pack, sha256, &state.objects[&sha256.to_string()]);
            }
            ("200 OK", pack)
        }
        (_, Some(contents)) => ("200 OK", contents),
        (_, None) => ("404 Not Found", Vec::new()),
    };
    let n = contents.len();
    if method == "GET" && state.n_false > 0 {
        state.n_false -= 1;
        contents[0] ^= 1;
    } else if method == "GET" && state.n_torn > 0 {
        state.n_torn -= 1;
        contents.truncate(n / 2);
    }
    if method == "HEAD" {
        contents.clear();
    }
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {n}\r\nconnection: close\r\n\r\n");
    let mut stream = reader.into_inner();
    // The agent may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&contents));
}

struct Scene {
    stager: Option<Stager>,
    manager: Shared,
    heard: mpsc::Receiver<Moved>,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let (url, manager) = manager();
        let folder = tempfile::tempdir().unwrap();
        let cache = CachePlace::new(folder.path().join("cache"), Some(1 << 20));
        let settings =
            StagerSettings { url, certificate_sha256: None, tag: "pf1-1".into(), cache, pilot: None };
        let (tell, heard) = mpsc::channel();
        let tell = Mutex::new(tell);
        let stager = Stager::start(&settings, "session", move |moved| {
            let _ = tell.lock().unwrap().send(moved);
        });
        Scene { stager: Some(stager.unwrap()), manager, heard, folder }
    }

    fn keep(&self, contents: &[u8]) -> Digest {
        let sha256 = crate::sys::sha256::of(contents);
        self.manager.lock().unwrap().objects.insert(sha256.to_string(), contents.to_vec());
        sha256
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn stage(&self, token: u64, sha256: Digest) {
        let input = TaskInput {
            to: "in".into(),
            from: "in.txt".into(),
            source: Source::Home,
            sha256: Some(sha256),
            bytes: Some(9),
            writable: false,
            executable: false,
        };
        let folder = self.at(&format!("task{token}"));
        fs::create_dir_all(&folder).unwrap();
        self.stager.as_ref().unwrap().stage(task(token), token, named(input), folder);
    }

    fn hear(&self) -> Moved {
        self.heard.recv_timeout(Duration::from_secs(600)).unwrap()
    }

    fn staged(&self) -> Result<u64, FailureKind> {
        match self.hear() {
            Moved::Staged { token, result, .. } => result.map(|()| token),
            other => panic!("nothing else was asked for: {other:?}"),
        }
    }

    fn asked(&self, what: &str) -> usize {
        self.manager.lock().unwrap().asked.iter().filter(|asked| asked.starts_with(what)).count()
    }
}

fn task(index: u64) -> TaskId {
    TaskId { job: JobId(1), index }
}

#[test]
fn what_many_tasks_wait_for_is_fetched_once_and_each_has_it() {
    let scene = Scene::new();
    let sha256 = scene.keep(b"molecules");
    (0..20).for_each(|token| scene.stage(token, sha256));
    let mut tokens: Vec<u64> = (0..20).map(|_| scene.staged().unwrap()).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..20).collect::<Vec<_>>());
    assert!((0..20).all(|token| fs::read(scene.at(&format!("task{token}/in"))).unwrap() == b"molecules"));
    assert_eq!(scene.asked("GET"), 1);
}

#[test]
fn many_small_files_come_in_a_pack_with_two_names_each_or_one_by_one_from_an_older_manager() {
    const N: usize = 300;
    for knows_packs in [true, false] {
        let scene = Scene::new();
        scene.manager.lock().unwrap().knows_packs = knows_packs;
        let contents = |n: usize| format!("molecule {}", n / 2).into_bytes();
        // Some files are the same, some are a task's own, in several folders.
        let input = |n: usize| TaskInput {
            to: format!("in/{}/{n}", n % 3).into(),
            from: format!("data/{n}"),
            source: Source::Home,
            sha256: Some(scene.keep(&contents(n))),
            bytes: Some(contents(n).len() as u64),
            writable: n % 10 == 9,
            executable: false,
        };
        let named: Vec<TaskInput> = (0..N).map(input).collect();
        for token in 0..2 {
            let folder = scene.at(&format!("task{token}"));
            fs::create_dir_all(&folder).unwrap();
            let inputs = Inputs { named: named.clone(), ..Inputs::default() };
            scene.stager.as_ref().unwrap().stage(task(token), token, inputs, folder);
        }
        (0..2).for_each(|_| _ = scene.staged().unwrap());
        for (n, input) in named.iter().enumerate() {
            let path = scene.at("task1").join(&input.to);
            assert_eq!(fs::read(&path).unwrap(), contents(n));
        }
        let asked = (scene.asked("POST"), scene.asked("GET"));
        if !knows_packs {
            assert!(asked.0 <= 2 && asked.1 == N / 2, "{asked:?}");
            continue;
        }
        assert_eq!(asked, (1, 0), "both tasks need the same pack");
        // Names: in the cache, and in the folders of both tasks; tasks of root have copies.
        let facts = fs::metadata(scene.at("task1").join(&named[8].to)).unwrap();
        assert_eq!(facts.nlink(), if crate::sys::private::user() == 0 { 1 } else { 3 });
        let size = |n: usize| contents(n).len() as u64;
        let moved = scene.stager.as_ref().unwrap().take_moved()[0].1;
        let (all, once): (u64, u64) = ((0..N).map(size).sum(), (0..N).step_by(2).map(size).sum());
        assert_eq!((moved.from_manager, moved.cached), (once, 2 * all - once));
    }
}

#[test]
fn what_comes_torn_or_false_is_fetched_again_and_what_is_not_there_fails() {
    let scene = Scene::new();
    let sha256 = scene.keep(b"molecules");
    (scene.manager.lock().unwrap().n_torn, scene.manager.lock().unwrap().n_false) = (1, 0);
    scene.stage(1, sha256);
    assert_eq!(scene.staged(), Ok(1));
    let other = scene.keep(b"moleculae");
    scene.manager.lock().unwrap().n_false = 1;
    scene.stage(2, other);
    assert_eq!(scene.staged(), Ok(2));
    assert_eq!(fs::read(scene.at("task2/in")).unwrap(), b"moleculae");
    assert_eq!(scene.asked("GET"), 4);
    scene.stage(3, Digest([3; 32]));
    let failed = scene.staged().unwrap_err();
    assert!(
        matches!(&failed, FailureKind::Transfer { what } if what.starts_with("input in from the manager: ")),
        "{failed}"
    );
}

#[test]
fn what_is_released_is_pinned_no_more_and_nothing_is_left_of_an_agent_that_ends() {
    let mut scene = Scene::new();
    let sha256 = scene.keep(b"molecules");
    scene.stage(1, sha256);
    scene.staged().unwrap();
    let pin = |scene: &Scene| {
        let users = fs::read_dir(scene.at("cache/users")).unwrap().flatten();
        let pins = users.flat_map(|user| fs::read_dir(user.path().join("pins")).unwrap().flatten());
        pins.count()
    };
    assert_eq!(pin(&scene), 1);
    scene.stager.as_ref().unwrap().release(1);
    scene.stage(2, scene.keep(b"others"));
    scene.staged().unwrap();
    assert_eq!(pin(&scene), 1);
    scene.stager = None;
    assert_eq!(fs::read_dir(scene.at("cache/users")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(scene.at("cache/objects")).unwrap().count(), 2);
}

#[test]
fn outputs_are_delivered_and_those_that_are_missing_are_told_by_name() {
    let scene = Scene::new();
    fs::write(scene.at("out"), "energy").unwrap();
    let shared = scene.at("shared/out");
    let output = |from: &str, to: OutputTarget, optional| TaskOutputFile {
        from: from.into(),
        several: None,
        to,
        optional,
    };
    let home = || OutputTarget::Home("results/out".into());
    let outputs = vec![
        output("out", home(), false),
        output("out", OutputTarget::File(shared.clone()), false),
        output("more", home(), true),
    ];
    let stager = scene.stager.as_ref().unwrap();
    let deliver = |token, files| {
        let outputs = Outputs { files, is_taken: false, ..Outputs::default() };
        stager.deliver(task(1), token, outputs, scene.folder.path().to_owned());
    };
    let result = || match scene.hear() {
        Moved::Delivered { result, .. } => result,
        other => panic!("nothing else was asked for: {other:?}"),
    };
    deliver(1, outputs);
    let files = result().unwrap();
    let told: Vec<&str> = files.iter().map(|file| file.to.as_str()).collect();
    assert_eq!(told, ["results/out", &format!("file://{}", shared.display())]);
    assert_eq!(scene.manager.lock().unwrap().objects[&files[0].sha256.to_string()], b"energy");
    assert_eq!(fs::read(&shared).unwrap(), b"energy");
    deliver(2, vec![output("less", home(), false)]);
    assert_eq!(result(), Err(FailureKind::OutputMissing { file: "less".into() }));
}

#[test]
fn patterns_and_folders_of_outputs_are_delivered_with_all_that_they_mean() {
    let scene = Scene::new();
    for name in
        ["task/part1.txt", "task/part2.txt", "task/other.dat", "task/res/a", "task/res/in/b", "task/in.txt"]
    {
        fs::create_dir_all(scene.at(name).parent().unwrap()).unwrap();
        fs::write(scene.at(name), name).unwrap();
    }
    fs::write(scene.at("outside"), "").unwrap();
    // Like a staged input: a hard link to an object of the cache.
    let input = File::options().write(true).open(scene.at("task/in.txt")).unwrap();
    input.set_permissions(fs::Permissions::from_mode(super::cache::OBJECT_MODE)).unwrap();
    input.set_modified(super::cache::mark()).unwrap();
    fs::hard_link(scene.at("task/in.txt"), scene.at("cached")).unwrap();
    fs::create_dir(scene.at("task/empty")).unwrap();
    for (name, target) in [("task/res/self", "."), ("task/res/up", "../.."), ("task/lost.txt", "nowhere")] {
        symlink(target, scene.at(name)).unwrap();
    }
    symlink(scene.at("outside"), scene.at("task/far.txt")).unwrap();
    let latin = scene.at("task").join(OsStr::from_bytes(b"caf\xe9"));
    fs::write(&latin, "").unwrap();
    let stager = scene.stager.as_ref().unwrap();
    let left = |from: &str, several: Option<Several>, to: OutputTarget, optional| {
        let files = vec![TaskOutputFile { from: from.into(), several, to, optional }];
        let brought = HashSet::from(["in.txt".into()]);
        let outputs = Outputs { files, brought, ..Outputs::default() };
        stager.deliver(task(1), 1, outputs, scene.at("task"));
        let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
        stager.release(1);
        result.map(|files| {
            let delivered = files.into_iter().filter(|file| file.left_out.is_none());
            delivered.map(|file| file.to).collect::<Vec<String>>()
        })
    };
    let home = |to: &str| OutputTarget::Home(to.into());
    let pattern = |text: &str| Some(Several::Pattern(text.to_owned()));
    let names = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
    assert_eq!(
        left("", pattern("part*.txt"), home("r/1"), false),
        names(&["r/1/part1.txt", "r/1/part2.txt"])
    );
    assert_eq!(left("", pattern("*.txt"), home(""), false), names(&["part1.txt", "part2.txt"]));
    fs::remove_file(scene.at("task/in.txt")).unwrap();
    fs::write(scene.at("task/in.txt"), "what the task has put in its place").unwrap();
    assert_eq!(left("", pattern("*.txt"), home(""), false), names(&["in.txt", "part1.txt", "part2.txt"]));
    assert_eq!(left("res", Some(Several::Folder), home("r"), false), names(&["r/a", "r/in/b"]));
    // A folder under the name of a file counts as a folder.
    assert_eq!(left("res", None, home("r"), false), names(&["r/a", "r/in/b"]));
    assert_eq!(left("res/", pattern("res/**b"), home("r"), false), names(&["r/in/b"]));
    assert_eq!(left("empty", Some(Several::Folder), home("r"), false), names(&[]));
    assert_eq!(left("", pattern("*.png"), home("r"), true), names(&[]));
    let missing = |file: &str| Err(FailureKind::OutputMissing { file: file.to_owned() });
    assert_eq!(left("", pattern("*.png"), home("r"), false), missing("*.png"));
    assert_eq!(left("none", Some(Several::Folder), home("r"), false), missing("none/"));
    let said = left("", pattern("c*"), home("r"), false).unwrap_err().to_string();
    assert!(said.contains("whose name is not UTF-8"), "{said}");
    let shared = scene.at("shared");
    let found = left("res", Some(Several::Folder), OutputTarget::File(shared.clone()), false).unwrap();
    assert_eq!(found[1], format!("file://{}/in/b", shared.display()));
    assert_eq!(fs::read_to_string(shared.join("in/b")).unwrap(), "task/res/in/b");
}

#[test]
fn what_cannot_be_delivered_is_told_with_the_reason_and_the_rest_is_delivered() {
    let scene = Scene::new();
    fs::create_dir_all(scene.at("task/res/run1")).unwrap();
    fs::create_dir_all(scene.at("far/in")).unwrap();
    for name in ["task/res/run1/a", "task/res/b", "task/in", "far/x", "far/in/y"] {
        fs::write(scene.at(name), name).unwrap();
    }
    let far = |name: &str| scene.at("far").join(name).display().to_string();
    for (name, target) in [
        ("latest", "run1".to_owned()),
        ("inner", "../in".to_owned()),
        ("lost", "nowhere".to_owned()),
        ("x", far("x")),
        ("ref", far("in")),
    ] {
        symlink(target, scene.at("task/res").join(name)).unwrap();
    }
    make_pipe(&scene.at("task/res/pipe"));
    symlink("nowhere", scene.at("task/lost")).unwrap();
    let stager = scene.stager.as_ref().unwrap();
    let left = |from: &str, several: Option<Several>, optional| {
        let to = OutputTarget::Home("r".into());
        let files = vec![TaskOutputFile { from: from.into(), several, to, optional }];
        stager.deliver(task(1), 1, Outputs { files, ..Outputs::default() }, scene.at("task"));
        let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
        stager.release(1);
        result.map(|files| {
            let named = files.into_iter().map(|file| (file.to, file.left_out.unwrap_or_default()));
            named.collect::<BTreeMap<String, String>>()
        })
    };
    let found = left("res", Some(Several::Folder), false).unwrap();
    let shown: Vec<String> = found.iter().map(|(to, why)| format!("{to}: {why}")).collect();
    let outside =
        "outside of the task's folder; copy what it leads to, or name the link as an output of its own";
    assert_eq!(
        shown,
        [
            "r/b: ".to_owned(),
            "r/inner: ".to_owned(),
            "r/latest: it is a link to run1, whose files are delivered under that name".to_owned(),
            "r/lost: it is a link to nowhere, which does not exist".to_owned(),
            "r/pipe: it is a named pipe and no file".to_owned(),
            format!("r/ref: it is a link to {}, {outside}", far("in")),
            "r/run1/a: ".to_owned(),
            format!("r/x: it is a link to {}, {outside}", far("x")),
        ]
    );
    // A file that the pattern does not match is not reported; a folder with possible matches is.
    let found = left("res/", Some(Several::Pattern("res/b*".into())), false).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["r/b"]);
    let found = left("res/", Some(Several::Pattern("res/**/y".into())), true).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["r/latest", "r/ref"]);
    let said = left("res/", Some(Several::Pattern("res/l?st".into())), false).unwrap_err().to_string();
    assert_eq!(said, "it has not left its output res/l?st: it is a link to nowhere, which does not exist");
    // A link that is itself the output is followed to any target.
    assert_eq!(left("res/x", None, false).unwrap()["r"], "");
    let said = left("lost", None, false).unwrap_err().to_string();
    assert_eq!(said, "it has not left its output lost: it is a link to nowhere, which does not exist");
    assert_eq!(left("lost", None, true).unwrap()["r"], "it is a link to nowhere, which does not exist");
    assert_eq!(left("none", None, true).unwrap(), BTreeMap::new());
}

#[test]
fn names_with_line_breaks_are_refused_as_those_of_inputs_are() {
    let scene = Scene::new();
    fs::create_dir(scene.at("res")).unwrap();
    fs::write(scene.at("res/a\nb"), "").unwrap();
    let stager = scene.stager.as_ref().unwrap();
    for (from, several) in [("res", Some(Several::Folder)), ("res/a\nb", None)] {
        let to = OutputTarget::Home("r".into());
        let files = vec![TaskOutputFile { from: from.into(), several, to, optional: false }];
        stager.deliver(task(1), 1, Outputs { files, ..Outputs::default() }, scene.folder.path().to_owned());
        let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
        let said = result.unwrap_err().to_string();
        assert_eq!(said, "it has not left its output \"res/a\\nb\", whose name has a line break: rename it");
    }
}

#[test]
fn outputs_are_executable_if_their_task_has_made_them_so() {
    let scene = Scene::new();
    let tool = scene.keep(b"#!tool");
    let input = |to: &str, sha256: Digest, executable| TaskInput {
        to: to.into(),
        from: to.into(),
        source: Source::Home,
        sha256: Some(sha256),
        bytes: Some(6),
        writable: false,
        executable,
    };
    let data = scene.keep(b"values");
    let named = vec![input("tool", tool, true), input("data", data, false)];
    let inputs = Inputs { named, ..Inputs::default() };
    let stager = scene.stager.as_ref().unwrap();
    fs::create_dir(scene.at("task")).unwrap();
    stager.stage(task(1), 1, inputs, scene.at("task"));
    scene.staged().unwrap();
    let chmod = |name: &str, mode: u32| {
        fs::write(scene.at("task").join(name), name).unwrap();
        fs::set_permissions(scene.at("task").join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    [
        ("made", 0o755),
        ("closed", 0o700),
        ("fixed", 0o555),
        ("own", 0o500),
        ("plain", 0o644),
        ("edited", 0o700),
    ]
    .into_iter()
    .for_each(|(name, mode)| chmod(name, mode));
    // Copies of inputs have the permissions of the inputs.
    for (from, to) in [("tool", "tool-copy"), ("data", "data-copy")] {
        fs::copy(scene.at("task").join(from), scene.at("task").join(to)).unwrap();
    }
    let names =
        ["made", "closed", "fixed", "own", "plain", "edited", "tool", "tool-copy", "data", "data-copy"];
    for is_shared in [false, true] {
        let files = names.map(|name| {
            let to = match is_shared {
                true => OutputTarget::File(scene.at("shared").join(name)),
                false => OutputTarget::Home(name.into()),
            };
            TaskOutputFile { from: name.into(), several: None, to, optional: false }
        });
        let copied = HashSet::from(["edited".into()]);
        let outputs = Outputs { files: files.into(), copied, ..Outputs::default() };
        stager.deliver(task(1), 2, outputs, scene.at("task"));
        let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
        stager.release(2);
        let executable: Vec<bool> = result.unwrap().iter().map(|file| file.executable).collect();
        assert_eq!(executable, [true, true, true, true, false, false, true, true, false, false]);
    }
    let is_executable = |name: &&str| {
        let mode = fs::metadata(scene.at("shared").join(name)).unwrap().permissions().mode();
        mode & 0o100 != 0
    };
    let executable: Vec<bool> = names.iter().map(is_executable).collect();
    assert_eq!(executable, [true, true, true, true, false, false, true, true, false, false]);
}

#[test]
fn writable_inputs_of_other_tasks_are_executable_again_if_they_were() {
    let scene = Scene::new();
    let (tool, data) = (scene.keep(b"#!tool"), scene.keep(b"values"));
    let file = |to: &str, sha256: Digest, more: &str| {
        format!("{{\"to\": \"{to}\", \"sha256\": \"{sha256}\", \"bytes\": 6, \"writable\": true{more}}}")
    };
    let files = [file("tool", tool, ", \"executable\": true"), file("in/data", data, "")].join(", ");
    let page = format!("{{\"files\": [{files}]}}").into_bytes();
    scene.manager.lock().unwrap().objects.insert("inputs?input=0&task=0".to_owned(), page);
    fs::create_dir(scene.at("task")).unwrap();
    let stager = scene.stager.as_ref().unwrap();
    stager.stage(task(1), 1, Inputs { takes: true, ..Inputs::default() }, scene.at("task"));
    scene.staged().unwrap();
    // The task has changed the file.
    fs::write(scene.at("task/in/data"), "better").unwrap();
    let files = ["tool", "in/data"].map(|name| {
        let to = OutputTarget::Home(name.into());
        TaskOutputFile { from: name.into(), several: None, to, optional: false }
    });
    let outputs = Outputs { files: files.into(), ..Outputs::default() };
    stager.deliver(task(1), 2, outputs, scene.at("task"));
    let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
    let executable: Vec<bool> = result.unwrap().iter().map(|file| file.executable).collect();
    assert_eq!(executable, [true, false]);
}

#[test]
fn an_input_that_the_task_has_replaced_is_an_output_and_others_are_not() {
    let scene = Scene::new();
    let (one, two) = (scene.keep(b"molecules"), scene.keep(b"atoms"));
    let file =
        |to: &str, sha256: Digest| format!("{{\"to\": \"{to}\", \"sha256\": \"{sha256}\", \"bytes\": 5}}");
    let page = format!("{{\"files\": [{}, {}]}}", file("a.txt", one), file("b.txt", two)).into_bytes();
    scene.manager.lock().unwrap().objects.insert("inputs?input=0&task=0".to_owned(), page);
    fs::create_dir(scene.at("task")).unwrap();
    let stager = scene.stager.as_ref().unwrap();
    stager.stage(task(1), 1, Inputs { takes: true, ..Inputs::default() }, scene.at("task"));
    scene.staged().unwrap();
    // Like `sed -i`: another file with the same permissions.
    fs::write(scene.at("task/new"), "Molecules").unwrap();
    let mode = fs::metadata(scene.at("task/b.txt")).unwrap().permissions();
    fs::set_permissions(scene.at("task/new"), mode).unwrap();
    fs::rename(scene.at("task/new"), scene.at("task/b.txt")).unwrap();
    let several = Some(Several::Pattern("*.txt".into()));
    let to = OutputTarget::Home(PathBuf::new());
    let files = vec![TaskOutputFile { from: PathBuf::new(), several, to, optional: false }];
    stager.deliver(task(1), 2, Outputs { files, ..Outputs::default() }, scene.at("task"));
    let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
    let left: Vec<_> =
        result.unwrap().into_iter().map(|file| (file.to, file.bytes, file.executable)).collect();
    assert_eq!(left, [("b.txt".to_owned(), 9, false)]);
}

#[test]
fn outputs_wait_for_as_long_as_the_manager_has_no_room() {
    let scene = Scene::new();
    scene.manager.lock().unwrap().n_full = N_TRIES;
    fs::write(scene.at("out"), "energy").unwrap();
    let to = OutputTarget::Home("out".into());
    let files = vec![TaskOutputFile { from: "out".into(), several: None, to, optional: false }];
    let outputs = Outputs { files, is_taken: false, ..Outputs::default() };
    scene.stager.as_ref().unwrap().deliver(task(1), 1, outputs, scene.folder.path().to_owned());
    let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
    let sha256 = result.unwrap()[0].sha256;
    assert_eq!(scene.manager.lock().unwrap().objects[&sha256.to_string()], b"energy");
    assert_eq!(scene.asked("PUT"), N_TRIES as usize + 1);
}

#[test]
fn a_pipe_in_the_place_of_an_output_that_waits_holds_up_nobody() {
    let scene = Scene::new();
    scene.manager.lock().unwrap().n_full = u32::MAX;
    fs::write(scene.at("out"), "energy").unwrap();
    make_pipe(&scene.at("pipe"));
    let to = OutputTarget::Home("out".into());
    let files = vec![TaskOutputFile { from: "out".into(), several: None, to, optional: false }];
    let outputs = Outputs { files, is_taken: false, ..Outputs::default() };
    scene.stager.as_ref().unwrap().deliver(task(1), 1, outputs, scene.folder.path().to_owned());
    while scene.asked("PUT") == 0 {
        thread::yield_now();
    }
    fs::rename(scene.at("pipe"), scene.at("out")).unwrap();
    let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
    assert!(matches!(result, Err(FailureKind::Node { .. })), "{result:?}");
}

#[test]
fn what_tasks_take_is_told_of_some_while_it_is_asked_of_others() {
    let scene = Scene::new();
    let reads = Reads { named: (0..130).map(|index| (index, Vec::new())).collect(), takes: true };
    scene.stager.as_ref().unwrap().look(JobId(1), (0..130).into(), reads);
    let seen = || match scene.hear() {
        Moved::Seen { tasks, .. } => tasks.to_string(),
        other => panic!("nothing else was asked for: {other:?}"),
    };
    assert_eq!([seen(), seen(), seen()], ["0-63", "64-127", "128-129"]);
}

/// The test may run as root, who can read every file, so it tests the error directly.
#[test]
fn an_output_that_its_program_has_closed_is_the_programs_fault_and_not_the_nodes() {
    let kind = |kind: io::ErrorKind| unread("r/f", &io::Error::from(kind));
    let closed = kind(io::ErrorKind::PermissionDenied);
    assert_eq!(
        closed.to_string(),
        "it has not left its output r/f so that it can be read (permission denied)"
    );
    assert!(matches!(kind(io::ErrorKind::StorageFull), FailureKind::Node { .. }));
}

#[test]
fn many_small_outputs_go_in_packs_or_one_by_one_to_an_older_manager() {
    const N: usize = 150;
    for knows_packs in [true, false] {
        let scene = Scene::new();
        scene.manager.lock().unwrap().knows_packs = knows_packs;
        // Some files are the same, one is empty, one is too large for a pack; all need more than one pack.
        let contents = |n: usize| match n {
            0 => Vec::new(),
            1 => vec![1; 100 << 10],
            _ => vec![(n / 2) as u8; 40 << 10],
        };
        fs::create_dir(scene.at("res")).unwrap();
        (0..N).for_each(|n| fs::write(scene.at("res").join(n.to_string()), contents(n)).unwrap());
        let to = OutputTarget::Home("r".into());
        let several = Some(Several::Folder);
        let files = vec![TaskOutputFile { from: "res".into(), several, to, optional: false }];
        let outputs = Outputs { files, ..Outputs::default() };
        scene.stager.as_ref().unwrap().deliver(task(1), 1, outputs, scene.folder.path().to_owned());
        let Moved::Delivered { result, .. } = scene.hear() else { panic!("nothing else was asked for") };
        let files = result.unwrap();
        assert_eq!(files.len(), N);
        for file in files {
            let n: usize = file.to.strip_prefix("r/").unwrap().parse().unwrap();
            assert_eq!(file.bytes, contents(n).len() as u64);
            assert!(scene.manager.lock().unwrap().objects[&file.sha256.to_string()] == contents(n), "{n}");
        }
        // 148 files of 40 KiB and an empty one take two packs; the large one goes alone.
        let asked = (scene.asked("PUT pack"), scene.asked("PUT"));
        assert_eq!(asked, if knows_packs { (2, 3) } else { (1, N + 1) });
    }
}

#[test]
fn what_others_take_is_delivered_and_stays_here() {
    let scene = Scene::new();
    let contents = vec![7; 100 << 10];
    for name in ["out", "small"] {
        fs::write(scene.at(name), &contents[..if name == "out" { contents.len() } else { 10 }]).unwrap();
    }
    let file = |from: &str| {
        let to = OutputTarget::Home(from.into());
        TaskOutputFile { from: from.into(), several: None, to, optional: false }
    };
    let outputs = Outputs { files: vec![file("out"), file("small")], is_taken: true, ..Outputs::default() };
    let stager = scene.stager.as_ref().unwrap();
    stager.deliver(task(1), 1, outputs, scene.folder.path().to_owned());
    let Moved::Delivered { result: Ok(files), .. } = scene.hear() else { panic!("it is not delivered") };
    assert_eq!(scene.manager.lock().unwrap().objects.len(), 2);
    for (token, file, n_asked) in [(2, &files[0], 0), (3, &files[1], 1)] {
        scene.stage(token, file.sha256);
        scene.staged().unwrap();
        assert_eq!(scene.asked(&format!("GET {}", &file.sha256.to_string()[..4])), n_asked, "{}", file.to);
    }
}

#[test]
fn a_path_that_nodes_do_not_see_fails_the_transfer() {
    let scene = Scene::new();
    let input = TaskInput {
        to: "in".into(),
        from: "/nowhere/at/all".into(),
        source: Source::Shared,
        sha256: None,
        bytes: None,
        writable: false,
        executable: false,
    };
    scene.stager.as_ref().unwrap().stage(task(1), 1, named(input), scene.at("task1"));
    let failed = scene.staged().unwrap_err().to_string();
    assert!(failed.contains("/nowhere/at/all: No such file"), "{failed}");
    assert!(!Path::new(&scene.at("task1")).exists());
}

#[test]
fn what_a_task_takes_of_others_comes_page_by_page_and_nowhere_but_to_its_folder() {
    let scene = Scene::new();
    let (one, two) = (scene.keep(b"molecules"), scene.keep(b"atoms"));
    let page = |from: &str, files: &str, next: &str| {
        let page = format!("{{\"files\": [{files}]{next}}}").into_bytes();
        scene.manager.lock().unwrap().objects.insert(format!("inputs?{from}"), page);
    };
    let file =
        |to: &str, sha256: Digest| format!("{{\"to\": \"{to}\", \"sha256\": \"{sha256}\", \"bytes\": 5}}");
    page("input=0&task=0", &file("a/x", one), ", \"next\": {\"input\": 0, \"task\": 7}");
    page("input=0&task=7", &file("y", two), "");
    let stage = |token: u64| {
        let folder = scene.at(&format!("task{token}"));
        fs::create_dir_all(&folder).unwrap();
        let inputs = Inputs { takes: true, ..Inputs::default() };
        scene.stager.as_ref().unwrap().stage(task(token), token, inputs, folder);
    };
    stage(1);
    assert_eq!(scene.staged(), Ok(1));
    let read = |name: &str| fs::read(scene.at(name)).unwrap();
    assert_eq!((read("task1/a/x"), read("task1/y")), (b"molecules".to_vec(), b"atoms".to_vec()));
    for (files, said) in [
        (file("../y", two), "input ../y: it is outside of the task's folder"),
        (
            format!("{}, {}", file("y", one), file("y", two)),
            "input y from the manager: it comes a second time",
        ),
    ] {
        page("input=0&task=0", &files, "");
        stage(2);
        assert_eq!(scene.staged(), Err(FailureKind::Transfer { what: said.into() }));
        fs::remove_dir_all(scene.at("task2")).unwrap();
    }
    assert!(!scene.at("y").exists());
}
