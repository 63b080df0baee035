//! Files by their contents: brought by submitters and pilots, fetched by both; and which files tasks have left.
//! Bodies are streamed to the disk and from it, so that the size of a file costs no memory.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt;
use protocol::{
    files::{
        objects::{
            DeliveryQuery, FileRow, Files, FilesQuery, Missing, MissingRequest, N_ASKED_MAX, PackRequest,
            Stored, Unpacked,
        },
        pack::{self, N_PACKED_MAX, PACK_BYTES_MAX},
    },
    job::limits::OBJECT_BYTES_MAX,
    text::ulimits::with_hint,
};
use scheduler::{
    digest::Digest,
    ids::{JobId, PilotId},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};

use crate::api::{
    Context, Shared, blocking,
    http::{
        error::{ApiError, json},
        extract::{BODY_BYTES_PER_SECOND_MIN, InBody, InPath, InQuery, SMALL_BYTES_MAX, User, read_body},
    },
    pilots::{
        places::{Asker, Place},
        sessions::Session,
    },
};
use crate::files::objects::{
    ObjectError, Objects, Outgoing,
    owners::{Coming, Owners},
};

/// Files on their way at a time, in and out: each takes a thread and a few pieces of memory.
pub(in crate::api) const N_TRANSFERS_MAX: usize = 64;
/// Pieces of a body that wait to be written.
const N_PIECES: usize = 4;
/// Rows of a page of files if nothing is said, and at most.
const N_ROWS: u64 = 1_000;
const N_ROWS_MAX: u64 = 10_000;

/// Which objects are not there.
pub(in crate::api) async fn missing(
    State(context): State<Shared>,
    _user: User,
    InBody(MissingRequest { sha256 }): InBody<MissingRequest>,
) -> Result<Response, ApiError> {
    if sha256.len() > N_ASKED_MAX {
        let found = sha256.len();
        return Err(ApiError::bad_request(format!("sha256: found {found}; at most {N_ASKED_MAX} are taken")));
    }
    let objects = context.objects.clone();
    let missing = blocking(move || {
        let mut missing = sha256;
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|sha256| objects.size(sha256).is_none());
        Ok(missing)
    });
    Ok(json(StatusCode::OK, &Missing { sha256: missing.await? }))
}

/// A user brings a file.
pub(in crate::api) async fn put(
    State(context): State<Shared>,
    user: User,
    InPath(sha256): InPath<Digest>,
    request: Request,
) -> Result<Response, ApiError> {
    take_in(&context, Side::User(user), sha256, request).await
}

/// A user brings a pack of small files.
pub(in crate::api) async fn put_pack(
    State(context): State<Shared>,
    user: User,
    request: Request,
) -> Result<Response, ApiError> {
    take_in_pack(&context, Side::User(user), request).await
}

/// A pilot delivers small files that a task has left.
pub(in crate::api) async fn put_pack_by_pilot(
    State(context): State<Shared>,
    session: Session,
    InQuery(delivery): InQuery<DeliveryQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    may_deliver(&context, &session, delivery)?;
    take_in_pack(&context, Side::Pilot(session.pilot), request).await
}

/// Whether the pilot may bring files: some of its tasks of that job leave some, and the job's user may have more. Else the
/// files wait at the pilot, as they do while the disk is full. If it does not say for which job, one of its users must be
/// one who may have more.
fn may_deliver(context: &Context, session: &Session, delivery: DeliveryQuery) -> Result<(), ApiError> {
    session.may_deliver(delivery.job)?;
    let mut refused = Ok(());
    for user in session.delivers_for(delivery.job) {
        refused = context.may_have_files(user);
        if refused.is_ok() {
            break;
        }
    }
    refused.map_err(|error| ApiError { status: StatusCode::INSUFFICIENT_STORAGE, ..error })
}

/// Bytes that a user brings, held to the user's quota.
struct Allowance {
    coming: Coming,
    user: String,
    most: Option<u64>,
}

impl Allowance {
    /// So many more are brought.
    fn more(&mut self, n_bytes: u64) -> Result<(), ApiError> {
        self.coming.more(n_bytes, self.most).map_err(|most| ApiError::over_files(&self.user, most))
    }

    /// They are here now, and the user's.
    fn keep(self, owners: &Owners, objects: &[(Digest, u64)]) {
        if let Err(error) = owners.add(&self.user, objects) {
            tracing::warn!(user = self.user, %error, "failed to write down whose files these are");
        }
    }
}

impl Context {
    /// What a user brings; `None`: a pilot does, which is counted when it reports.
    fn allowance(&self, from: &Side) -> Option<Allowance> {
        let Side::User(user) = from else { return None };
        let coming = self.objects.owners().coming(&user.name);
        Some(Allowance { coming, user: user.name.clone(), most: self.state.quotas.of(user).file_bytes })
    }

    /// Whether a user's tasks may leave more files here.
    fn may_have_files(&self, user: &str) -> Result<(), ApiError> {
        let is_operator = self.state.tokens.users().is_operator(user);
        match self.state.quotas.of_name(user, is_operator).file_bytes {
            Some(most) if self.objects.owners().bytes_of(user) >= most => {
                Err(ApiError::over_files(user, most))
            }
            _ => Ok(()),
        }
    }
}

async fn take_in_pack(context: &Context, from: Side, request: Request) -> Result<Response, ApiError> {
    let limits = &context.state.limits;
    let room = match &from {
        Side::User(user) => context.from_users.of(Some(user), limits.room_bytes),
        Side::Pilot(_) => context.from_pilots.clone(),
    };
    let received = read_body(request.into_body(), PACK_BYTES_MAX, limits, &room).await?;
    let _place = a_place(context, &from).await?;
    let (objects, mut allowance) = (context.objects.clone(), context.allowance(&from));
    let n_files = blocking(move || {
        let files = pack::files(&received.bytes).map_err(ApiError::bad_request)?;
        if let Some(allowance) = &mut allowance {
            allowance.more(files.iter().map(|(_, contents)| contents.len() as u64).sum())?;
        }
        let new = objects.take_in_pack(&files)?;
        if let Some(allowance) = allowance {
            allowance.keep(objects.owners(), &new);
        }
        Ok(files.len() as u64)
    });
    Ok(json(StatusCode::CREATED, &Unpacked { files: n_files.await? }))
}

/// A user fetches small files. Whoever knows their digests knows what they hold, or may.
pub(in crate::api) async fn pack_for_user(
    State(context): State<Shared>,
    user: User,
    InBody(PackRequest { sha256 }): InBody<PackRequest>,
) -> Result<Response, ApiError> {
    check_packed(&sha256)?;
    give_pack(&context, &Side::User(user), sha256).await
}

/// A pilot fetches small files that its tasks need.
pub(in crate::api) async fn pack_for_pilot(
    State(context): State<Shared>,
    session: Session,
    InBody(PackRequest { sha256 }): InBody<PackRequest>,
) -> Result<Response, ApiError> {
    check_packed(&sha256)?;
    // Like those that are not there, they are left out.
    let not_needed = session.not_needed(&context, sha256.iter().copied().collect()).await?;
    let sha256: Vec<Digest> = sha256.into_iter().filter(|sha256| !not_needed.contains(sha256)).collect();
    give_pack(&context, &Side::Pilot(session.pilot), sha256).await
}

fn check_packed(sha256: &[Digest]) -> Result<(), ApiError> {
    match sha256.len() {
        0..=N_PACKED_MAX => Ok(()),
        found => {
            Err(ApiError::bad_request(format!("sha256: found {found}; at most {N_PACKED_MAX} are taken")))
        }
    }
}

async fn give_pack(context: &Context, to: &Side, sha256: Vec<Digest>) -> Result<Response, ApiError> {
    let _place = a_place(context, to).await?;
    let objects = context.objects.clone();
    let pack = blocking(move || Ok(objects.pack(&sha256))).await?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], pack).into_response())
}

/// A user fetches a file. Whoever knows its digest knows what it holds, or may.
pub(in crate::api) async fn get(
    State(context): State<Shared>,
    user: User,
    InPath(sha256): InPath<Digest>,
) -> Result<Response, ApiError> {
    give_out(&context, &Side::User(user), sha256, 0).await
}

/// A pilot delivers a file that a task has left.
pub(in crate::api) async fn put_by_pilot(
    State(context): State<Shared>,
    session: Session,
    InPath(sha256): InPath<Digest>,
    InQuery(delivery): InQuery<DeliveryQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    may_deliver(&context, &session, delivery)?;
    take_in(&context, Side::Pilot(session.pilot), sha256, request).await
}

/// A pilot fetches a file that its tasks need.
pub(in crate::api) async fn get_by_pilot(
    State(context): State<Shared>,
    session: Session,
    InPath(sha256): InPath<Digest>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Who brings files may ask first whether they are here.
    let is_asked = method == Method::HEAD;
    if !is_asked || session.may_deliver(None).is_err() {
        session.may_fetch(&context, sha256).await?;
    }
    if is_asked {
        let objects = context.objects.clone();
        let size = blocking(move || objects.size(&sha256).ok_or(ObjectError::None(sha256).into())).await?;
        return Ok(([(header::CONTENT_LENGTH, size.to_string())], ()).into_response());
    }
    let from = begins_at(&headers);
    give_out(&context, &Side::Pilot(session.pilot), sha256, from).await
}

/// From where on a file is wanted: the only ranges that pilots ask for. Of others the whole file is given.
fn begins_at(headers: &HeaderMap) -> u64 {
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    let from = range.and_then(|range| range.trim().strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    from.unwrap_or(0)
}

/// Files that a job's tasks have left.
pub(in crate::api) async fn list(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InQuery(query): InQuery<FilesQuery>,
) -> Result<Response, ApiError> {
    let limit = query.limit.unwrap_or(N_ROWS);
    if limit == 0 || limit > N_ROWS_MAX {
        return Err(ApiError::bad_request(format!("limit: found {limit}; write 1 to {N_ROWS_MAX}")));
    }
    context.own_job(&user, id).await?;
    let reader = context.state.reader.clone();
    let after = query.after.unwrap_or(0);
    let rows = blocking(move || Ok(reader.files(id, query.task, after, limit)?)).await?;
    let next = rows.last().map(|(row, ..)| *row).filter(|_| rows.len() as u64 == limit);
    let row = |(_, task, file): (u64, u64, scheduler::results::OutputFile)| FileRow {
        task,
        to: file.to,
        sha256: file.sha256,
        bytes: file.bytes,
        executable: file.executable,
        left_out: file.left_out,
    };
    Ok(json(StatusCode::OK, &Files { files: rows.into_iter().map(row).collect(), next }))
}

/// With whom files are exchanged.
pub(in crate::api) enum Side {
    User(User),
    Pilot(PilotId),
}

/// One of the few places for transfers, when it is the turn of who asks.
pub(in crate::api) async fn a_place(context: &Context, side: &Side) -> Result<Place, ApiError> {
    match side {
        Side::User(user) => {
            let most = context.state.quotas.of(user).n_transfers;
            context.transfers.take(Asker::User(user.name.clone()), most).await
        }
        Side::Pilot(id) => context.transfers.take(Asker::Pilot(*id), None).await,
    }
}

pub(in crate::api) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Streams a body to the disk. What is there already is not read again: the same contents are the same file, and
/// one that has become shorter is found out.
async fn take_in(
    context: &Context,
    from: Side,
    sha256: Digest,
    request: Request,
) -> Result<Response, ApiError> {
    let announced = announced(request.headers());
    let n_announced = announced.unwrap_or(0);
    if n_announced > OBJECT_BYTES_MAX {
        return Err(ApiError::too_large(usize::try_from(OBJECT_BYTES_MAX).unwrap_or(usize::MAX)));
    }
    let _place = a_place(context, &from).await?;
    let objects = context.objects.clone();
    let known = blocking(move || match announced {
        Some(wanted) => Ok(objects.size_as(&sha256, wanted)),
        None => Ok(objects.size(&sha256)),
    });
    let known = known.await?;
    if let Some(bytes) = known {
        // The connection can be used again only if what was sent has been read; of much it is not.
        if n_announced <= SMALL_BYTES_MAX as u64 {
            let _ = timeout(context.state.limits.body, request.into_body().collect()).await;
        }
        return Ok(json(StatusCode::OK, &Stored { sha256, bytes }));
    }
    let mut allowance = context.allowance(&from);
    if let Some(allowance) = &mut allowance {
        allowance.more(n_announced)?;
    }
    let (pieces, taken) = mpsc::channel(N_PIECES);
    let writing = tokio::task::spawn_blocking({
        let objects = context.objects.clone();
        move || write(&objects, (n_announced, allowance), taken, &sha256)
    });
    let read = feed(request.into_body(), pieces, context.state.limits.body).await;
    let written = writing.await.unwrap_or_else(|error| Err(ApiError::broken(&error)));
    // A writer that has given up knows why; who is read from does not.
    let bytes = match (read, written) {
        (Ok(()), written) | (Err(None), written) => written?,
        (Err(Some(error)), _) => return Err(error),
    };
    Ok(json(StatusCode::CREATED, &Stored { sha256, bytes }))
}

/// A piece of a body, or its end. Without an end what came is thrown away.
pub(in crate::api) enum Piece {
    Bytes(Bytes),
    End,
}

/// Reads a body. Errors: it is cut off, too slow, or (`None`) nobody takes it any more.
pub(in crate::api) async fn feed(
    mut body: Body,
    pieces: mpsc::Sender<Piece>,
    patience: Duration,
) -> Result<(), Option<ApiError>> {
    let mut due = Instant::now() + patience;
    let mut n_bytes = 0_usize;
    loop {
        let frame = timeout_at(due, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Some(ApiError::too_slow(n_bytes)))? else {
            return pieces.send(Piece::End).await.map_err(|_| None);
        };
        let frame = frame
            .map_err(|error| Some(ApiError::bad_request(format!("failed to read the body: {error}"))))?;
        let Ok(data) = frame.into_data() else { continue };
        n_bytes = n_bytes.saturating_add(data.len());
        due += Duration::from_secs_f64(data.len() as f64 / BODY_BYTES_PER_SECOND_MIN as f64);
        // Whoever was slow a while may not be so for as long as it was fast before.
        due = due.min(Instant::now() + 2 * patience);
        pieces.send(Piece::Bytes(data)).await.map_err(|_| None)?;
    }
}

/// Writes what comes, of which so much was announced and is allowed.
fn write(
    objects: &Objects,
    (n_announced, mut allowance): (u64, Option<Allowance>),
    mut pieces: mpsc::Receiver<Piece>,
    sha256: &Digest,
) -> Result<u64, ApiError> {
    let mut incoming = objects.begin(n_announced)?;
    let mut n_bytes = 0_u64;
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Bytes(bytes)) => {
                n_bytes = n_bytes.saturating_add(bytes.len() as u64);
                if n_bytes > OBJECT_BYTES_MAX {
                    return Err(ApiError::too_large(usize::try_from(OBJECT_BYTES_MAX).unwrap_or(usize::MAX)));
                }
                let n_more = n_bytes.saturating_sub(n_announced).min(bytes.len() as u64);
                allowance.as_mut().map_or(Ok(()), |allowance| allowance.more(n_more))?;
                incoming.write(&bytes)?;
            }
            Some(Piece::End) => {
                let n_bytes = incoming.finish(sha256)?;
                if let Some(allowance) = allowance {
                    allowance.keep(objects.owners(), &[(*sha256, n_bytes)]);
                }
                return Ok(n_bytes);
            }
            None => return Err(ApiError::bad_request("found a body that ends too early; send it again")),
        }
    }
}

/// Streams a file from the disk. What is rotten is given as it is, and is found out by who reads it and, at its
/// last piece, here: the next one who asks is told that it is not there.
async fn give_out(context: &Context, to: &Side, sha256: Digest, from: u64) -> Result<Response, ApiError> {
    let place = a_place(context, to).await?;
    let objects = context.objects.clone();
    let object = blocking(move || {
        let object = objects.open(&sha256)?;
        // Of what is not there from there on, the whole is given.
        let from = if from < object.n_bytes() { from } else { 0 };
        let n_bytes = object.n_bytes();
        Ok((from, n_bytes, object.skip(from).map_err(|error| ApiError::broken(&error))?))
    });
    let (from, n_bytes, object) = object.await?;
    let body = futures_util::stream::try_unfold((object, place), |(object, place)| async {
        let read = tokio::task::spawn_blocking(move || read_piece(object)).await;
        let (object, piece) = read.unwrap_or_else(|error| Err(std::io::Error::other(error)))?;
        Ok::<_, std::io::Error>((!piece.is_empty()).then_some((piece, (object, place))))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, (n_bytes - from).to_string()),
    ];
    if from == 0 {
        return Ok((headers, Body::from_stream(body)).into_response());
    }
    let range = [(header::CONTENT_RANGE, format!("bytes {from}-{}/{n_bytes}", n_bytes - 1))];
    Ok((StatusCode::PARTIAL_CONTENT, headers, range, Body::from_stream(body)).into_response())
}

fn read_piece(mut object: Outgoing) -> std::io::Result<(Outgoing, Bytes)> {
    let piece = object.read()?;
    Ok((object, piece.into()))
}

/// Refusals of the store of files.
impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> ApiError {
        let (status, code) = match &error {
            ObjectError::DiskFull { .. } => (StatusCode::INSUFFICIENT_STORAGE, "disk-full"),
            ObjectError::Mismatch { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "wrong-contents"),
            ObjectError::None(_) => (StatusCode::NOT_FOUND, "no-such-object"),
            ObjectError::Io { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        ApiError { status, code, message: with_hint(error), problems: Vec::new() }
    }
}

/// Whether all objects that a job names are there, so that none is kept that cannot begin.
pub(in crate::api) fn check_objects(
    objects: &Objects,
    named: impl Iterator<Item = (Digest, u64)>,
) -> Result<(), ApiError> {
    for (sha256, bytes) in named {
        let found = objects.size_as(&sha256, bytes);
        if found != Some(bytes) {
            let message = match found {
                Some(found) => format!("found {bytes} bytes announced for object {sha256}; it has {found}"),
                None => format!("object {sha256} of the job is not here; bring it first"),
            };
            let (status, code) = (StatusCode::CONFLICT, "no-such-object");
            return Err(ApiError { status, code, message, problems: Vec::new() });
        }
    }
    Ok(())
}
