//! Files of a server of HTTP that asks who enters.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use tests::{Sandbox, until};

use super::{ends, secret, serve};

/// `ada:very-hush` and a token, as they stand in requests.
const OF_ADA: &str = "Basic YWRhOnZlcnktaHVzaA==";
const OF_TOKEN: &str = "Bearer very-hush";

/// Files by their paths.
type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A server that lets in who says one of these.
fn server(allowed: &'static [&'static str]) -> (String, Files) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/sets", listener.local_addr().expect("its address"));
    let files = Files::default();
    let its = Arc::clone(&files);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = Arc::clone(&its);
            thread::spawn(move || answer(stream, &files, allowed));
        }
    });
    (url, files)
}

fn answer(stream: TcpStream, files: &Files, allowed: &[&str]) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let value = |name: &str| {
        let is_it = |line: &&String| line.to_lowercase().starts_with(&format!("{name}:"));
        head.iter().find(is_it).and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
    };
    let mut words = head.first()?.split(' ');
    let (method, path) = (words.next()?, words.next()?.to_owned());
    let mut body = vec![0; value("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let is_in = value("authorization").is_some_and(|said| allowed.contains(&said.as_str()));
    let mut files = files.lock().expect("nobody panics with it");
    let (status, body) = match (method, files.get(&path)) {
        _ if !is_in => ("401 Unauthorized", Vec::new()),
        ("PUT", _) => {
            files.insert(path, body);
            ("201 Created", Vec::new())
        }
        (_, Some(body)) => ("200 OK", body.clone()),
        (_, None) => ("404 Not Found", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    reader.get_mut().write_all(&[head.as_bytes(), &body].concat()).ok()
}

#[test]
fn files_of_a_server_come_and_go_by_the_name_of_who_enters() {
    let sandbox = Sandbox::new();
    let (url, files) = server(&[OF_ADA, OF_TOKEN]);
    files.lock().unwrap().insert("/sets/runs/in/a%20b.txt".into(), b"of the server\n".to_vec());
    let right = secret(&sandbox, "right", "very-hush");
    let wrong = secret(&sandbox, "wrong", "other-hush");
    let store = |name: &str, more: &str| {
        format!("  - {{name: {name}, kind: http, endpoint: '{url}', folder: runs{more}}}\n")
    };
    let stores = [
        store("ada", &format!(", user: ada, secret_file: {right}")),
        store("token", &format!(", secret_file: {right}")),
        store("stranger", &format!(", user: ada, secret_file: {wrong}")),
        store("nobody", ""),
    ];
    let manager = serve(&sandbox, &stores.concat());
    for (n, name) in (1..).zip(["ada", "token", "stranger", "nobody"]) {
        sandbox.write(
            &format!("{name}.yaml"),
            &format!(
                "command: 'cat x > y; echo {name} >> y'\ninputs: [{{from: 'store://{name}/in/a b.txt', to: x}}]\n\
                 outputs: [{{from: y, to: 'store://{name}/out/{name}.txt'}}]\n"
            ),
        );
        sandbox.ok(&["submit", &format!("{name}.yaml")]);
        let counts = || sandbox.json(&["job", &n.to_string()])["counts"].clone();
        until("it is over", || counts()["done"] == 1 || counts()["failed"] == 1);
        if ["ada", "token"].contains(&name) {
            let left = files.lock().unwrap().get(&format!("/sets/runs/out/{name}.txt")).cloned();
            assert_eq!(left.as_deref(), Some(format!("of the server\n{name}\n").as_bytes()), "{name}");
            continue;
        }
        let failed = sandbox.ok(&["tasks", &n.to_string(), "--failed"]);
        let why = match name {
            "stranger" => "`user` and `secret_file` of the store are wrong",
            _ => "the store has no `user` and no `secret_file`, and needs them",
        };
        assert!(failed.contains(&format!("401 Unauthorized; {why}")), "{name}: {failed}");
    }
    sandbox.write("missing.yaml", "command: 'true'\ninputs: ['store://ada/in/none.txt']\n");
    sandbox.ok(&["submit", "missing.yaml"]);
    until("it has failed", || sandbox.json(&["job", "5"])["counts"]["failed"] == 1);
    let failed = sandbox.ok(&["tasks", "5", "--failed"]);
    assert!(failed.contains("there is no such file"), "{failed}");
    // The sandbox looks for the secrets everywhere when it ends.
    ends(&sandbox, manager);
}
