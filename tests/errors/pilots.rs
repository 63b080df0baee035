//! Pilots that cannot begin: join documents, managers of another version, tokens, certificates.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
};

use serde_json::{Value, json};

use crate::{
    managers::{answering, written},
    page::Page,
};

fn join(page: &Page, change: impl FnOnce(&mut Value)) {
    let mut document = json!({
        "url": "http://127.0.0.1:1", "certificate_sha256": null, "token": "pfj_x.y", "tag": "tag",
        "folder": page.sandbox.path().join("pilot"), "capacity": null, "walltime": null, "watch_pid": null
    });
    change(&mut document);
    write(page, &document.to_string());
}

fn write(page: &Page, text: &str) {
    let path = page.sandbox.write("join.json", text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its mode");
}

fn refusal(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn pilots_that_cannot_begin_say_why() {
    let mut page = Page::new("pilots");
    let run = ["agent", "run", "--join", "join.json"];
    page.ends("no join document", &run, 2);
    write(&page, "{}");
    page.ends("a join document without anything", &run, 2);
    write(&page, "token: x");
    page.ends("a join document that is none", &run, 2);
    join(&page, |_| {});
    let path = page.sandbox.path().join("join.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    page.ends("a join document open to others", &run, 2);
    join(&page, |document| document["url"] = "ftp://x".into());
    page.ends("a URL that is none", &run, 2);
    join(&page, |document| document["url"] = "https://127.0.0.1:1".into());
    page.ends("TLS without a certificate", &run, 2);
    join(&page, |document| {
        document["url"] = "https://127.0.0.1:1".into();
        document["certificate_sha256"] = "12".into();
    });
    page.ends("a certificate that is none", &run, 2);
    page.sandbox.write("taken", "");
    let taken = page.sandbox.path().join("taken/x");
    join(&page, |document| document["folder"] = taken.to_string_lossy().into());
    page.ends("a folder that cannot be used", &run, 1);
    join(&page, |_| {});
    page.ends("another tag", &["agent", "run", "--join", "join.json", "--tag", "other"], 2);
    let upgrade = refusal(
        "426 Upgrade Required",
        "{\"error\": {\"code\": \"wrong-version\", \"message\": \"found version 1 of the pilot protocol, \
         this manager (9.0.0) speaks version 2; use the same release\"}}",
    );
    join(&page, |document| document["url"] = answering(upgrade).into());
    page.ends("a manager of another version", &run, 3);
    let gone = refusal("404 Not Found", "not here");
    join(&page, |document| document["url"] = answering(gone).into());
    page.ends("something that is no manager", &run, 3);
    join(&page, |document| document["walltime"] = 1_000_000.into());
    page.ends("nobody there until the walltime's end", &run, 4);
    page.ends("to cancel what is no pilot", &["agent", "cancel", "1"], 1);
    page.close();
}

#[test]
fn managers_refuse_pilots_of_another_version_token_or_certificate() {
    let mut page = Page::new("pilots-refused");
    let _manager = page.serve("state", &["--no-local", "-q", "--tls", "on"]);
    let _plain = page.serve("plain", &["--no-local", "-q"]);
    let (safe, plain) = (written(&page, "state"), written(&page, "plain"));
    let run = ["agent", "run", "--join", "join.json"];
    join(&page, |document| document["url"] = plain["url"].clone());
    page.ends("a token that is none", &run, 3);
    join(&page, |document| {
        document["url"] = plain["url"].clone();
        document["token"] = plain["token"].clone();
    });
    page.ends("a user's token", &run, 3);
    join(&page, |document| {
        document["url"] = safe["url"].clone();
        document["certificate_sha256"] = "0123456789abcdef".repeat(4).into();
    });
    page.ends("another certificate", &run, 3);

    let tokens =
        manager::security::tokens::Tokens::open(&page.sandbox.path().join("plain")).expect("its secret");
    let token = tokens.join("tag");
    let answer = register(plain["url"].as_str().expect("a URL"), &token, r#"{"version": 99, "news": 1}"#);
    page.told("a pilot of version 99", "POST /pilot/v1/register {\"version\": 99}", &answer, "status 426");
    assert!(answer.starts_with("426 "), "{answer}");
    page.close();
}

/// The status and the body of the answer to a registration.
fn register(url: &str, token: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).expect("the manager is there");
    let request = format!(
        "POST /pilot/v1/register HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("head and body");
    let status = head.lines().next().and_then(|line| line.split_once(' ')).expect("a status").1;
    format!("{status}\n{body}\n")
}
