//! Managers that answer without end, too much, too slowly, or wrongly: the pilot reads a bounded number of
//! bytes of each, in a bounded time.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::session::client::ClientError;
use crate::session::client::{Client, tests::registration};

/// More than the buffers of the connection hold, and far less than the memory.
const WRITTEN_MAX: usize = 24 << 20;

/// Answers the first request with `head`, then repeats `more` until the client is gone. Returns the client
/// and the number of bytes that could be written.
async fn answering(head: &'static str, more: Vec<u8>) -> (Client, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let mut n_written = 0;
        let mut next = head.as_bytes().to_vec();
        while !next.is_empty() && n_written < WRITTEN_MAX && socket.write_all(&next).await.is_ok() {
            n_written += next.len();
            next.clone_from(&more);
        }
        n_written
    });
    (Client::new(&url, None).unwrap(), served)
}

async fn read_request(socket: &mut TcpStream) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0);
    }
}

/// Registers there and returns the error; checks that the manager could not go on writing.
async fn refused(head: &'static str, more: Vec<u8>) -> ClientError {
    let (client, served) = answering(head, more).await;
    let error = client.register("secret", &registration()).await.unwrap_err();
    drop(client);
    let n_written = served.await.unwrap();
    assert!(n_written < WRITTEN_MAX, "{n_written} bytes were taken: {error}");
    error
}

fn chunk() -> Vec<u8> {
    let mut chunk = b"10000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10000, b' ');
    chunk.extend(b"\r\n");
    chunk
}

#[tokio::test(flavor = "current_thread")]
async fn an_answer_without_end_is_read_to_its_limit() {
    let error = refused("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk()).await;
    let words = error.to_string();
    assert!(words.contains("found a message of ") && words.ends_with("the most is 1048576"), "{words}");
    assert!(!error.is_final());
}

#[tokio::test(flavor = "current_thread")]
async fn a_refusal_without_end_is_read_to_its_limit() {
    let error = refused("HTTP/1.1 500 No\r\ntransfer-encoding: chunked\r\n\r\n", chunk()).await;
    assert!(matches!(&error, ClientError::Refused { status: 500, message, .. } if message.len() <= 200));
}

#[tokio::test(flavor = "current_thread")]
async fn a_header_without_end_is_given_up() {
    for more in [b"x-more: of the same\r\n".repeat(1000), vec![b'x'; 1 << 16]] {
        let error = refused("HTTP/1.1 200 OK\r\nx: ", more).await;
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_promised_length_is_not_believed() {
    let error =
        refused("HTTP/1.1 200 OK\r\ncontent-length: 9000000000000000000\r\n\r\n", vec![b' '; 1 << 16]).await;
    assert!(matches!(error, ClientError::Codec { .. }), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_redirection_is_not_followed() {
    let head = "HTTP/1.1 307 There\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (client, served) = answering(head, Vec::new()).await;
    let error = client.register("secret", &registration()).await.unwrap_err();
    served.abort();
    assert!(matches!(error, ClientError::Refused { status: 307, .. }), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn an_answer_that_dribbles_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
    client.answer_timeout = Duration::from_secs(1);
    let dribbling = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while socket.write_all(b"x").await.is_ok() {
            ticks.tick().await;
        }
    };
    let registering = async {
        let error = client.register("secret", &registration()).await.unwrap_err();
        drop(client);
        error
    };
    let (error, ()) = tokio::join!(registering, dribbling);
    assert!(error.to_string().ends_with("no answer in time"), "{error}");
}
