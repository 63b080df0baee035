//! Uploads a file as the body of a request, without a time limit while it makes progress.

use std::{
    fs::File,
    io::{self, Read},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Body, RequestBuilder, Response};
use tokio::time::timeout;

use crate::staging::transfer::{pace::floor_bytes, trouble::cause};

/// Size of the pieces of a file.
const PIECE_BYTES: usize = 128 << 10;

/// Sends a request with a file as its body; the client must have no time limit of its own. Gives up a server
/// that takes nearly nothing within `patience`, or that does not answer in that time after it has everything.
///
/// # Errors
/// The cause, as a text.
pub(in crate::staging) async fn send(
    request: RequestBuilder,
    file: File,
    patience: Duration,
) -> Result<Response, String> {
    let n_sent = Arc::new(AtomicU64::new(0));
    let mut response = pin!(request.body(pieces_of(file, Arc::clone(&n_sent))).send());
    let mut n_before = 0;
    loop {
        if let Ok(response) = timeout(patience, response.as_mut()).await {
            return response.map_err(|error| cause(&error));
        }
        let n = n_sent.load(Ordering::Relaxed);
        if n - n_before < floor_bytes(patience) {
            return Err(format!(
                "no answer, and {} bytes were taken within {} s",
                n - n_before,
                patience.as_secs_f64()
            ));
        }
        n_before = n;
    }
}

fn pieces_of(file: File, n_sent: Arc<AtomicU64>) -> Body {
    Body::wrap_stream(futures_util::stream::try_unfold((file, n_sent), |(mut file, n_sent)| async {
        let mut piece = vec![0; PIECE_BYTES];
        let n = file.read(&mut piece)?;
        piece.truncate(n);
        n_sent.fetch_add(n as u64, Ordering::Relaxed);
        Ok::<_, io::Error>((n > 0).then_some((piece, (file, n_sent))))
    }))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{BufRead, BufReader, Read, Write},
        net::{TcpListener, TcpStream},
        thread,
        time::Duration,
    };

    use super::send;

    const N_BYTES: u64 = 32 << 20;

    /// Reads the head of one request and lets `serve` answer.
    fn server(serve: impl FnOnce(BufReader<TcpStream>) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            serve(stream);
        });
        url
    }

    async fn sent(url: &str, patience: Duration) -> Result<u16, String> {
        let file: File = tempfile::tempfile().unwrap();
        file.set_len(N_BYTES).unwrap();
        let client = reqwest::Client::new();
        let request = client.put(url).header(reqwest::header::CONTENT_LENGTH, N_BYTES);
        send(request, file, patience).await.map(|response| response.status().as_u16())
    }

    /// The upload takes longer than the patience for a stalled one.
    #[tokio::test(flavor = "current_thread")]
    async fn a_file_that_is_taken_slowly_is_sent_and_one_that_is_not_taken_is_given_up() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let slow = server(|mut stream| {
            let mut piece = vec![0; 4 << 20];
            for _ in 0..N_BYTES / piece.len() as u64 {
                thread::park_timeout(Duration::from_millis(600));
                stream.read_exact(&mut piece).unwrap();
            }
            stream.get_mut().write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").unwrap();
        });
        assert_eq!(sent(&slow, Duration::from_secs(4)).await, Ok(201));
        let silent = server(|stream| {
            thread::park_timeout(Duration::from_secs(600));
            drop(stream);
        });
        let why = sent(&silent, Duration::from_millis(200)).await.unwrap_err();
        assert!(why.starts_with("no answer, and "), "{why}");
    }
}
