//! What handlers take out of a request: who asks, and the path, query and body as types. Every
//! refusal is an `ErrorAnswer`. The token is checked before a byte of the body is read.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{Extensions, HeaderMap, header, request::Parts},
};
use http_body_util::BodyExt;
use protocol::codec::Format;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::api::{
    ConnectionLimits, Context, Shared,
    http::{
        crowd::Guest,
        error::ApiError,
        room::{FREE_BYTES, Held, Room},
    },
};
use crate::{
    quotas::Kind,
    security::{tokens::Bearer, users::Holder},
};

/// Bodies of requests that carry no job and no report.
pub(in crate::api) const SMALL_BYTES_MAX: usize = 1 << 20;
/// A body that comes slower is given up, so that nobody holds a connection for nothing.
pub(in crate::api) const BODY_BYTES_PER_SECOND_MIN: usize = 32 << 10;

/// The user who asks, by a token that was right.
pub(in crate::api) type User = Holder;

impl FromRequestParts<Shared> for User {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, context: &Shared) -> Result<User, ApiError> {
        // Who guards the request has looked already.
        match parts.extensions.get::<User>() {
            Some(user) => Ok(user.clone()),
            None => User::of(&parts.headers, &parts.extensions, context),
        }
    }
}

impl User {
    /// Whom the request's token stands for.
    pub(in crate::api) fn of(
        headers: &HeaderMap,
        extensions: &Extensions,
        context: &Context,
    ) -> Result<User, ApiError> {
        match bearer(headers, extensions, context)? {
            Bearer::User(user) => Ok(user),
            Bearer::Join { .. } | Bearer::Session { .. } => {
                Err(ApiError::unauthorized("found a pilot's token where a user's is needed"))
            }
        }
    }
}

/// Whom the request's token stands for.
pub(in crate::api) fn bearer(
    headers: &HeaderMap,
    extensions: &Extensions,
    context: &Context,
) -> Result<Bearer, ApiError> {
    let bearer = verified(headers, context)?;
    if let Some(guest) = extensions.get::<Arc<Guest>>() {
        if let Bearer::User(user) = &bearer {
            // Beyond, the connection stays that of a stranger, who gives way to newcomers.
            let most = context.state.quotas.of(user).n_connections;
            guest.belongs_to(|| context.counts.take(&user.name, Kind::Connections, most))?;
        }
        guest.is_recognized();
    }
    Ok(bearer)
}

/// The same, and the connection stays that of a stranger.
pub(in crate::api) fn verified(headers: &HeaderMap, context: &Context) -> Result<Bearer, ApiError> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, token) = header
        .and_then(|value| value.split_once(' '))
        .ok_or_else(|| ApiError::unauthorized("found no token; send `Authorization: Bearer TOKEN`"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(ApiError::unauthorized(
            "found another kind of authorization; send `Authorization: Bearer TOKEN`",
        ));
    }
    context.state.tokens.verify(token.trim()).map_err(|why| ApiError::not_taken(&why))
}

/// The path's variable parts.
pub(in crate::api) struct InPath<T>(pub(in crate::api) T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for InPath<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, context: &Shared) -> Result<InPath<T>, ApiError> {
        match Path::<T>::from_request_parts(parts, context).await {
            Ok(Path(value)) => Ok(InPath(value)),
            Err(error) => Err(ApiError::bad_request(format!("{}: {}", parts.uri.path(), error.body_text()))),
        }
    }
}

/// What follows the question mark.
pub(in crate::api) struct InQuery<T>(pub(in crate::api) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for InQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, context: &Shared) -> Result<InQuery<T>, ApiError> {
        match Query::<T>::from_request_parts(parts, context).await {
            Ok(Query(value)) => Ok(InQuery(value)),
            Err(error) => Err(ApiError::bad_request(error.body_text())),
        }
    }
}

/// A small JSON body; an empty one is an object without fields.
pub(in crate::api) struct InBody<T>(pub(in crate::api) T);

impl<T: DeserializeOwned> FromRequest<Shared> for InBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, context: &Shared) -> Result<InBody<T>, ApiError> {
        let limits = &context.state.limits;
        let room = context.from_users.of(request.extensions().get::<User>(), limits.room_bytes);
        let read = read_body(request.into_body(), SMALL_BYTES_MAX, limits, &room).await?;
        let bytes = &read.bytes;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
        // A list would be taken too, field by field: what is meant must be named.
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            return Err(ApiError::bad_request("found a body that is no JSON object; send one, like {}"));
        }
        Ok(InBody(Format::Json.decode(bytes)?))
    }
}

/// A large body as bytes, at most [`protocol::codec::MESSAGE_BYTES_MAX`] of them.
pub(in crate::api) struct LargeBody(pub(in crate::api) Received);

impl FromRequest<Shared> for LargeBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, context: &Shared) -> Result<LargeBody, ApiError> {
        let bytes_max = protocol::codec::MESSAGE_BYTES_MAX;
        let limits = &context.state.limits;
        let room = context.from_users.of(request.extensions().get::<User>(), limits.room_bytes);
        Ok(LargeBody(read_body(request.into_body(), bytes_max, limits, &room).await?))
    }
}

/// A body, and the room it takes.
pub(in crate::api) struct Received {
    pub(in crate::api) bytes: Bytes,
    _held: Held,
}

/// All of a body. Errors: too large (told before it is read, where its header says so), too slow, cut
/// off; no room for it.
pub(in crate::api) async fn read_body(
    mut body: Body,
    bytes_max: usize,
    limits: &ConnectionLimits,
    room: &Room,
) -> Result<Received, ApiError> {
    let promised = body.size_hint().lower();
    if promised > bytes_max as u64 {
        return Err(ApiError::too_large(bytes_max));
    }
    let start = Instant::now() + limits.body;
    let (mut bytes, mut held) = (Vec::new(), Held::default());
    let mut n_paid = FREE_BYTES;
    loop {
        let earned = Duration::from_secs_f64(bytes.len() as f64 / BODY_BYTES_PER_SECOND_MIN as f64);
        let frame = timeout_at(start + earned, body.frame()).await;
        let Some(frame) = frame.map_err(|_| ApiError::too_slow(bytes.len()))? else {
            return Ok(Received { bytes: bytes.into(), _held: held });
        };
        let frame =
            frame.map_err(|error| ApiError::bad_request(format!("failed to read the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(ApiError::too_large(bytes_max));
        }
        let n_bytes = bytes.len() + data.len();
        if n_bytes > n_paid {
            // A vector that grows has twice what it needs.
            let more = (2 * (n_bytes - n_paid)).max(FREE_BYTES);
            held.add(room.take(more).await?);
            n_paid += more / 2;
        }
        bytes.extend_from_slice(&data);
    }
}
