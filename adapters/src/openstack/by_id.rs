//! Servers that no list shows, and servers whose tags and metadata somebody has changed or copied, against a cloud of
//! the test.

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
/// was asked for and whose cell is down. Others are added.
struct Nova {
    url: String,
    /// The requests that it got, each as `METHOD PATH`.
    asked: Arc<Mutex<Vec<String>>>,
    /// Servers that lists show, until they are deleted.
    listed: Arc<Mutex<Vec<Value>>>,
}

impl Nova {
    fn start() -> Nova {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (asked, listed) = (Arc::default(), Arc::default());
        let nova = Nova { url: url.clone(), asked: Arc::clone(&asked), listed: Arc::clone(&listed) };
        // It ends with the test's process.
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| serve(stream, &url, &asked, &listed));
        });
        nova
    }

    /// A server whose tags and metadata say that it is of this allocation.
    fn add(&self, id: &str, tag: &str, status: &str) {
        let mut listed = self.listed.lock().expect("no test panics there");
        listed.retain(|server| server["id"] != id);
        listed.push(json!({
            "id": id, "status": status, "metadata": { "pilotfish-allocation": tag }, "tags": ["pilotfish", "pf1", tag],
            "OS-EXT-STS:task_state": null, "OS-SRV-USG:launched_at": "2026-11-27T21:30:26.000000",
        }));
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
fn serve(stream: TcpStream, url: &str, asked: &Mutex<Vec<String>>, listed: &Mutex<Vec<Value>>) {
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
    let mut listed = listed.lock().expect("no test panics there");
    let (method, path) = asked_for.split_once(' ').unwrap_or_default();
    let named = listed.iter().position(|server| {
        Some(path) == server["id"].as_str().map(|id| format!("/v2.1/servers/{id}")).as_deref()
    });
    let (status, body) = match (is_old, &*asked_for) {
        (_, list) if list.starts_with("GET /v2.1/servers/detail") => (200, json!({ "servers": *listed })),
        _ if named.is_some() => {
            let at = named.unwrap_or_default();
            match method {
                "DELETE" => (204, listed.remove(at)),
                _ => (200, json!({ "server": listed[at] })),
            }
        }
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

/// Returns the servers of a listing: the id of each and the tag of its allocation.
fn shown(project: &OpenStack) -> Vec<(String, String)> {
    let jobs = wait_for(project.list("pf1-")).expect("a listing").0;
    jobs.into_iter().map(|job| (job.id, job.tag)).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(id, tag)| ((*id).to_owned(), (*tag).to_owned())).collect()
}

#[test]
fn a_copy_of_a_server_of_ours_is_left_alone_and_takes_no_place() {
    let (nova, folder) = (Nova::start(), tempfile::tempdir().expect("a folder"));
    let project = nova.project(folder.path());
    let ours = pairs(&[("ours", "pf1-3")]);
    project.remember(ours.clone());
    nova.add("ours", "pf1-3", "ACTIVE");
    for status in ["SHUTOFF", "ACTIVE", "ERROR"] {
        nova.add("copy", "pf1-3", status);
        assert_eq!(shown(&project), ours, "{status}");
    }
    // Ours is over, and is deleted; at the end of the manager, too, the copy stays.
    nova.add("ours", "pf1-3", "SHUTOFF");
    nova.add("copy", "pf1-3", "SHUTOFF");
    assert_eq!(shown(&project), ours);
    assert_eq!(shown(&project), [], "it is gone");
    assert_eq!(wait_for(project.clear("pf1-", Duration::from_secs(60))), Ok(()));
    assert_eq!((nova.asked("DELETE /v2.1/servers/ours"), nova.asked("DELETE /v2.1/servers/copy")), (1, 0));

    // Nor does a manager that begins when ours has gone.
    let next = nova.project(folder.path());
    next.remember_former(ours);
    assert_eq!(shown(&next), []);
    assert_eq!(nova.asked("DELETE /v2.1/servers/copy"), 0);
}

#[test]
fn a_server_stays_with_its_allocation_whatever_its_tags_and_metadata_are_by_now() {
    let (nova, folder) = (Nova::start(), tempfile::tempdir().expect("a folder"));
    let project = nova.project(folder.path());
    project.remember(pairs(&[("seven", "pf1-7"), ("eight", "pf1-8")]));
    nova.add("eight", "pf1-8", "ACTIVE");
    // Whether the other allocation is ours, and whether its server is known.
    for tag in ["pf1-8", "pf1-9", "pf2-1"] {
        nova.add("seven", tag, "ACTIVE");
        let mut both = shown(&project);
        both.sort();
        assert_eq!(both, pairs(&[("eight", "pf1-8"), ("seven", "pf1-7")]), "{tag}");
    }
    let (remains, done) = wait_for(project.cancel(&["seven".to_owned()]));
    assert_eq!((remains, done, nova.asked("DELETE /v2.1/servers/seven")), (Vec::new(), Ok(()), 1));
}

#[test]
fn server_of_unknown_id_belongs_to_the_allocation_of_its_tags_and_metadata() {
    let (nova, folder) = (Nova::start(), tempfile::tempdir().expect("a folder"));
    let project = nova.project(folder.path());
    nova.add("lost", "pf1-4", "ACTIVE");
    let found = pairs(&[("lost", "pf1-4")]);
    assert_eq!(shown(&project), found, "the answer of its submission was lost");
    nova.add("copy", "pf1-4", "SHUTOFF");
    assert_eq!(shown(&project), found);
    nova.add("lost", "pf1-4", "SHUTOFF");
    assert_eq!(shown(&project), found, "its last words are read, and it is deleted");
    assert_eq!((nova.asked("DELETE /v2.1/servers/lost"), nova.asked("DELETE /v2.1/servers/copy")), (1, 0));
}
