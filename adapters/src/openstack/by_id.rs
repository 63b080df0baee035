//! Servers that no list shows, against a cloud of the test that has one.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use profiles::site::Site;
use scheduler::resources::Resources;
use serde_json::{Value, json};

use super::{OpenStack, tests::cloud};
use crate::command::BatchState;

/// A cloud with the server `5d`, which has turned itself off and has no tags any more, and the server `6e`, whose deletion
/// was asked for and whose cell is down.
struct Nova {
    url: String,
    /// The requests that it got, each as `METHOD PATH`.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Nova {
    fn start() -> Nova {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let asked = Arc::default();
        let nova = Nova { url: url.clone(), asked: Arc::clone(&asked) };
        // It ends with the test's process.
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| serve(stream, &url, &asked));
        });
        nova
    }

    fn asked(&self, what: &str) -> usize {
        self.asked.lock().expect("no test panics there").iter().filter(|asked| *asked == what).count()
    }

    /// A project there, which enters with what a file says.
    fn project(&self, folder: &std::path::Path) -> OpenStack {
        let auth = format!(
            "auth: {{auth_url: '{}/v3', application_credential_id: a, application_credential_secret: b}}",
            self.url
        );
        let file = folder.join("clouds.yaml");
        let text = format!("clouds: {{c: {{auth_type: v3applicationcredential, {auth}}}}}\n");
        std::fs::write(&file, text).expect("a file");
        let mut cloud = cloud();
        cloud.cloud = Some("c".into());
        cloud.clouds_file = Some(file.display().to_string());
        let site = Site { cloud: Some(cloud), ..Site::default() };
        OpenStack::new(&site, &Resources::default()).expect("a project")
    }
}

/// Answers one request.
fn serve(stream: TcpStream, url: &str, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(&stream);
    let (mut first, mut length, mut is_old) = (String::new(), 0, false);
    reader.read_line(&mut first).expect("a request");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        match line.trim().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a number"),
            Some(("openstack-api-version", value)) => is_old = value == "compute 2.52",
            Some(_) => {}
            None => break,
        }
    }
    reader.take(length).read_to_end(&mut Vec::new()).expect("a body");
    let asked_for = first.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let mut asked = asked.lock().expect("no test panics there");
    asked.push(asked_for.clone());
    let is_deleted = asked.iter().any(|asked| asked == "DELETE /v2.1/servers/5d");
    let (status, body) = match (is_old, &*asked_for) {
        (true, "GET /v2.1/servers/6e") => {
            (500, json!({ "computeFault": { "message": "Cell c is not responding" } }))
        }
        _ => answer(&asked_for, url, is_deleted),
    };
    let body = body.to_string();
    let said = format!(
        "HTTP/1.1 {status} Said\r\nX-Subject-Token: t\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    (&stream).write_all(said.as_bytes()).expect("it is read");
}

fn answer(asked: &str, url: &str, is_deleted: bool) -> (u16, Value) {
    let endpoint = json!({ "interface": "public", "region_id": "one", "url": format!("{url}/v2.1") });
    match asked {
        "POST /v3/auth/tokens" => {
            (201, json!({ "token": { "catalog": [{ "type": "compute", "endpoints": [endpoint] }] } }))
        }
        "GET /v2.1/" => (200, json!({ "version": { "version": "2.96" } })),
        "GET /v2.1/servers/5d" if !is_deleted => {
            let bare = json!({
                "id": "5d", "status": "SHUTOFF", "metadata": {}, "tags": [], "OS-EXT-STS:task_state": null,
                "OS-SRV-USG:launched_at": "2026-11-27T21:30:26.000000",
            });
            (200, json!({ "server": bare }))
        }
        "POST /v2.1/servers/5d/action" => (200, json!({ "output": "its last words" })),
        "DELETE /v2.1/servers/5d" => (204, Value::Null),
        list if list.starts_with("GET /v2.1/servers/detail") => (200, json!({ "servers": [] })),
        _ => (404, json!({ "itemNotFound": { "message": "there is none" } })),
    }
}

fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

#[test]
fn a_server_that_no_list_shows_is_cancelled_by_its_id() {
    let (nova, folder) = (Nova::start(), tempfile::tempdir().expect("a folder"));
    let project = nova.project(folder.path());
    let (_, done) = wait_for(project.cancel(&["5d".into(), "gone".into()]));
    assert_eq!(done, Ok(()));
    assert_eq!(
        nova.asked("GET /v2.1/servers/gone"),
        2,
        "it is looked for in both APIs, and gone is no error"
    );
    assert_eq!((nova.asked("DELETE /v2.1/servers/5d"), nova.asked("DELETE /v2.1/servers/gone")), (1, 0));
    let (_, again) = wait_for(project.cancel(&["5d".into()]));
    assert_eq!((again, nova.asked("DELETE /v2.1/servers/5d")), (Ok(()), 1), "it is gone");
}

#[test]
fn a_server_that_no_list_shows_and_is_over_is_listed_by_its_id_and_deleted() {
    let (nova, folder) = (Nova::start(), tempfile::tempdir().expect("a folder"));
    let project = nova.project(folder.path());
    let list = || wait_for(project.list("pf1-")).expect("a listing").0;
    assert_eq!(list(), [], "nobody knows of it");
    assert_eq!(nova.asked("DELETE /v2.1/servers/5d"), 0);
    project.remember([("5d".to_owned(), "pf1-2".to_owned())]);
    let jobs = list();
    let [job] = &jobs[..] else { panic!("{jobs:?}") };
    // It takes room until it is deleted.
    assert_eq!((job.id.as_str(), job.tag.as_str(), &job.state), ("5d", "pf1-2", &BatchState::Running));
    assert_eq!(nova.asked("DELETE /v2.1/servers/5d"), 1);
    assert_eq!(list(), [], "it is gone");
}

#[test]
fn a_server_whose_cell_is_down_is_not_taken_for_gone() {
    let (nova, folder) = (Nova::start(), tempfile::tempdir().expect("a folder"));
    let project = nova.project(folder.path());
    project.remember([("6e".to_owned(), "pf1-3".to_owned())]);
    for _ in 0..2 {
        let why = wait_for(project.list("pf1-")).expect_err("it may be there");
        assert!(why.contains("is not responding"), "{why}");
    }
    let left = wait_for(project.clear("pf1-", Duration::from_millis(1))).expect_err("it may be there");
    assert!(left.why.contains("is not responding"), "{}", left.why);
}
