//! Memory for large messages on their way in and out. There is only so much of it: who finds none waits
//! a little and is then told so, and small messages need none. So no number of connections, however
//! slowly they send or read, makes the manager hold more. Of the room for users one user has half at most.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::api::http::error::ApiError;
use crate::security::users::Holder;

/// What is this small takes no room: as much as a connection costs anyway.
pub(in crate::api) const FREE_BYTES: usize = 16 << 10;
/// Room is counted in units of so many bytes.
const UNIT_BYTES: usize = 1 << 10;
/// An answer leaves in portions of this size, so that little of it is out of sight when its room is free again.
const PORTION_BYTES: usize = 64 << 10;

/// So many bytes.
#[derive(Clone)]
pub(in crate::api) struct Room {
    free: Arc<Semaphore>,
    patience: Duration,
    users: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
    /// What is free of a user's half.
    of_user: Option<Arc<Semaphore>>,
}

/// A part of the room, free again when dropped.
#[derive(Default)]
pub(in crate::api) struct Held {
    of_all: Option<OwnedSemaphorePermit>,
    of_user: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Of that size. Nobody waits longer than `patience` for a part of it.
    pub(in crate::api) fn new(n_bytes: usize, patience: Duration) -> Room {
        let free = Arc::new(Semaphore::new(n_bytes / UNIT_BYTES));
        Room { free, patience, users: Arc::default(), of_user: None }
    }

    /// The part of it that a user may have, where each may have so many bytes; all of it if it is nobody's.
    pub(in crate::api) fn of(&self, user: Option<&Holder>, n_bytes: usize) -> Room {
        let Some(user) = user else { return self.clone() };
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let known = users.get(&user.name).and_then(Weak::upgrade);
        let of_user = known.unwrap_or_else(|| {
            users.retain(|_, semaphore| semaphore.strong_count() > 0);
            let new = Arc::new(Semaphore::new(n_bytes / UNIT_BYTES));
            users.insert(user.name.clone(), Arc::downgrade(&new));
            new
        });
        Room { of_user: Some(of_user), ..self.clone() }
    }

    /// A part of it. Errors: there is none for now.
    pub(in crate::api) async fn take(&self, n_bytes: usize) -> Result<Held, ApiError> {
        let n_units = u32::try_from(n_bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        // Who waits for a part of the own half keeps nobody else from any.
        let of_user = match &self.of_user {
            Some(of_user) => Some(self.taken(of_user, n_units).await?),
            None => None,
        };
        Ok(Held { of_all: Some(self.taken(&self.free, n_units).await?), of_user })
    }

    async fn taken(&self, of: &Arc<Semaphore>, n_units: u32) -> Result<OwnedSemaphorePermit, ApiError> {
        let taken = timeout(self.patience, of.clone().acquire_many_owned(n_units)).await;
        taken.ok().and_then(Result::ok).ok_or_else(ApiError::crowded)
    }

    /// A response within this room, held until it has been sent.
    pub(in crate::api) async fn send(&self, response: Response) -> Result<Response, ApiError> {
        match usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX) {
            n_bytes if n_bytes <= FREE_BYTES => Ok(response),
            n_bytes => {
                let held = self.take(n_bytes).await?;
                in_portions(response, held).await
            }
        }
    }

    /// Lets a request be answered within `n_bytes`; what its answer really has is held until it has been sent.
    pub(in crate::api) async fn answer(&self, n_bytes: usize, request: Request, next: Next) -> Response {
        let mut held = match self.take(n_bytes).await {
            Ok(held) => held,
            Err(error) => return error.into_response(),
        };
        let response = next.run(request).await;
        held.keep(usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX));
        in_portions(response, held).await.unwrap_or_else(ApiError::into_response)
    }
}

impl Held {
    /// Holds this part too.
    pub(in crate::api) fn add(&mut self, more: Held) {
        for (held, more) in [(&mut self.of_all, more.of_all), (&mut self.of_user, more.of_user)] {
            match (held, more) {
                (Some(held), Some(more)) => held.merge(more),
                (held, more) => *held = held.take().or(more),
            }
        }
    }

    /// Gives all but so many bytes back.
    fn keep(&mut self, n_bytes: usize) {
        let n_kept = n_bytes.div_ceil(UNIT_BYTES);
        for held in [&mut self.of_all, &mut self.of_user].into_iter().flatten() {
            drop(held.split(held.num_permits().saturating_sub(n_kept)));
        }
    }
}

/// The same response, its body held and sent portion by portion.
async fn in_portions(response: Response, held: Held) -> Result<Response, ApiError> {
    let (parts, body) = response.into_parts();
    let left = body.collect().await.map_err(|error| ApiError::broken(&error))?.to_bytes();
    Ok(Response::from_parts(parts, Body::new(Portions { left, _held: held })))
}

struct Portions {
    left: Bytes,
    _held: Held,
}

impl HttpBody for Portions {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let n_bytes = self.left.len().min(PORTION_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.left.split_to(n_bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{body::Body, response::Response};
    use http_body_util::BodyExt;

    use scheduler::engine::interface::users::TokenId;

    use super::{Holder, Room};

    #[tokio::test]
    async fn an_answer_has_its_room_until_its_last_portion_has_gone() {
        let room = Room::new(1 << 20, Duration::from_millis(10));
        let answer = || Response::new(Body::from(vec![7; 600 << 10]));
        let mut body = room.send(answer()).await.unwrap().into_body();
        assert_eq!(room.send(answer()).await.err().map(|error| error.code), Some("crowded"));
        let mut n_bytes = 0;
        while let Some(frame) = body.frame().await {
            n_bytes += frame.unwrap().into_data().unwrap().len();
            assert_eq!(room.free.available_permits(), (1 << 10) - 600, "at {n_bytes}");
        }
        assert_eq!(n_bytes, 600 << 10);
        drop(body);
        assert_eq!(room.free.available_permits(), 1 << 10);
        assert!(room.send(answer()).await.is_ok());
    }

    #[tokio::test]
    async fn one_user_has_half_of_the_room_at_most() {
        let room = Room::new(8 << 10, Duration::from_millis(10));
        let user =
            |name: &str| Holder { token: TokenId::new([7; 6]), name: name.to_owned(), is_operator: false };
        let (ann, bob) = (room.of(Some(&user("ann")), 4 << 10), room.of(Some(&user("bob")), 4 << 10));
        let mut held = ann.take(3 << 10).await.unwrap_or_default();
        held.add(room.of(Some(&user("ann")), 4 << 10).take(1 << 10).await.unwrap_or_default());
        let more = room.of(Some(&user("ann")), 4 << 10).take(1 << 10).await;
        assert_eq!(more.err().map(|error| error.code), Some("crowded"));
        assert!(bob.take(4 << 10).await.is_ok());
        held.keep(1 << 10);
        assert!(ann.take(3 << 10).await.is_ok());
    }

    #[tokio::test]
    async fn what_is_small_takes_no_room() {
        let room = Room::new(0, Duration::ZERO);
        assert!(room.send(Response::new(Body::from("small"))).await.is_ok());
    }

    #[tokio::test]
    async fn parts_are_held_together_and_given_back_in_part() {
        let room = Room::new(10 << 10, Duration::ZERO);
        let mut held = room.take(3 << 10).await.unwrap_or_default();
        held.add(room.take(4 << 10).await.unwrap_or_default());
        assert_eq!(room.free.available_permits(), 3);
        held.keep(1500);
        assert_eq!(room.free.available_permits(), 8);
        drop(held);
        assert_eq!(room.free.available_permits(), 10);
    }
}
