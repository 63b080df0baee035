//! Checks servers' replies to downloads and uploads, and finds the server's error message.

use protocol::{
    codec::MESSAGE_BYTES_MAX,
    net::answers::{is_no_file, is_not_taken},
    pilot::ErrorAnswer,
};
use reqwest::{Response, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::staging::transfer::trouble::{Trouble, cause};

/// The most bytes read of an error reply.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// The expected contents of a reply.
#[derive(Clone, Copy, Debug)]
pub(in crate::staging) enum Wanted {
    /// A message of the manager.
    Words,
    /// A file, or its rest if that was requested.
    File { is_part: bool },
    /// The confirmation of an upload.
    Taken,
}

impl Wanted {
    /// Returns the fault of a reply; `None`: it is as expected.
    fn wrong(self, status: StatusCode) -> Option<&'static str> {
        match self {
            Wanted::Words if status.is_success() => None,
            Wanted::Words => Some("no answer"),
            Wanted::File { is_part } => is_no_file(status.as_u16(), is_part),
            Wanted::Taken => is_not_taken(status.as_u16()),
        }
    }
}

/// Decodes the manager's JSON answer.
pub(in crate::staging) async fn answer<T: DeserializeOwned>(response: Response) -> Result<T, Trouble> {
    let body = body(response, MESSAGE_BYTES_MAX).await?;
    serde_json::from_slice(&body).map_err(|error| Trouble::Brief(error.to_string()))
}

/// Returns the body of the manager's answer, if it is not too long.
pub(in crate::staging) async fn body(mut response: Response, n_bytes_max: usize) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Trouble::Brief(cause(&error)))? {
        body.extend_from_slice(&chunk);
        if body.len() > n_bytes_max {
            return Err(Trouble::Lasting("the manager's answer has no end".to_owned()));
        }
    }
    Ok(body)
}

/// Returns the response if it is the expected one.
pub(in crate::staging) async fn accepted(
    mut response: Response,
    is_manager: bool,
    wanted: Wanted,
) -> Result<Response, Trouble> {
    let status = response.status();
    let wrong = wanted.wrong(status);
    if status.is_success() && wrong.is_none() {
        return Ok(response);
    }
    // A redirection that can be followed was followed before.
    let location = response.headers().get(header::LOCATION).filter(|_| status.is_redirection());
    let location = location.and_then(|to| to.to_str().ok()).map(protocol::net::address::shown);
    let location = location.map(|to| format!(", which sends on to {to}")).unwrap_or_default();
    let is_told = status.is_success() || (status.is_redirection() && matches!(wanted, Wanted::Taken));
    let wrong = wrong.filter(|_| is_told).map(|wrong| format!(": {wrong}")).unwrap_or_default();
    let mut body = Vec::new();
    // The body of a success has no error message.
    while !status.is_success()
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(REFUSAL_BYTES_MAX - body.len())]);
        if body.len() == REFUSAL_BYTES_MAX {
            break;
        }
    }
    let words = match serde_json::from_slice::<ErrorAnswer>(&body) {
        Ok(answer) if is_manager => format!("the manager says: {}", answer.error.message),
        _ => match said_by_store(&body) {
            Some(said) => format!("the server answers {status}: {said}"),
            None => format!("the server answers {status}{location}{wrong}"),
        },
    };
    Err(match status {
        // The manager restarts, or the session is being renewed.
        StatusCode::UNAUTHORIZED | StatusCode::SERVICE_UNAVAILABLE if is_manager => Trouble::Away(words),
        StatusCode::INSUFFICIENT_STORAGE if is_manager => Trouble::Full(words),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS | StatusCode::TOO_EARLY => {
            Trouble::Brief(words)
        }
        // The file has become shorter than the earlier part: it is fetched from its beginning.
        StatusCode::RANGE_NOT_SATISFIABLE => Trouble::Brief(words),
        StatusCode::UNPROCESSABLE_ENTITY if is_manager => Trouble::Brief(words),
        StatusCode::NOT_FOUND | StatusCode::GONE => Trouble::Missing(words),
        // The file may be there the next time.
        StatusCode::ACCEPTED if matches!(wanted, Wanted::File { .. }) => Trouble::Brief(words),
        status if status.is_success() => Trouble::Lasting(words),
        status if status.is_client_error() || status.is_redirection() => Trouble::Lasting(words),
        _ => Trouble::Brief(words),
    })
}

/// Returns the error of an S3 store: only its code, because the rest of the answer may quote signed text.
fn said_by_store(body: &[u8]) -> Option<String> {
    let text = str::from_utf8(body).ok()?;
    let is_word =
        |code: &&str| (1..=64).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let ends = text.split("<Code>").skip(1).filter_map(|rest| rest.split_once("</Code>"));
    let code = ends.map(|(code, _)| code.trim()).find(is_word)?;
    let meaning = match code {
        "NoSuchBucket" => "there is no such bucket",
        "NoSuchKey" => "the bucket is there, and has no such key",
        "AccessDenied" => "the key that signs may not do that",
        "InvalidAccessKeyId" => "the access key is not known",
        "SignatureDoesNotMatch" => "the secret key is another one",
        "RequestTimeTooSkewed" | "ExpiredToken" => "look after the manager's clock",
        "PermanentRedirect" | "AuthorizationHeaderMalformed" => "the bucket is in another region",
        _ => "",
    };
    let meaning = if meaning.is_empty() { String::new() } else { format!(", {meaning}") };
    Some(format!("{code}{meaning}"))
}
