//! Files as bodies of requests.

use std::{
    fs::File,
    io::{self, Read},
};

/// A file as it is sent: read piece by piece.
pub(super) fn pieces(file: File) -> reqwest::Body {
    const PIECE_BYTES: usize = 128 << 10;
    reqwest::Body::wrap_stream(futures_util::stream::try_unfold(file, |mut file| async {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let n = file.read(&mut piece)?;
            piece.truncate(n);
            Ok::<_, io::Error>((piece, file))
        });
        let (piece, file) = read.await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        Ok::<_, io::Error>((!piece.is_empty()).then_some((piece, file)))
    }))
}
