//! Who has access: users' tokens are listed, made and revoked; and a request ends when its token does.

use std::{
    collections::BTreeSet,
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use protocol::users::{
    AddUserRequest, TokenState, TokenView, UserAdded, Users as UsersAnswer, UsersQuery, check_name,
};
use scheduler::{
    engine::{
        interface::{Answer, Event, PlatformMode, Query, users::TokenId},
        record::Record,
    },
    time::Time,
};

use super::{Context, Shared, blocking, operators::check_operator};
use crate::api::http::{
    error::{ApiError, json},
    extract::{InBody, InPath, InQuery, User},
};
use crate::{
    quotas::Kind,
    security::{
        accounts,
        users::{Drawn, Void, Wanted},
    },
};

/// The tokens: all for operators, for others their own.
pub(super) async fn list(
    State(context): State<Shared>,
    user: User,
    InQuery(UsersQuery { all, quotas }): InQuery<UsersQuery>,
) -> Result<Response, ApiError> {
    let mut tokens = context.state.tokens.users().views();
    tokens.retain(|view| user.is_operator || view.user == user.name);
    tokens.retain(|view| all || view.state == TokenState::Valid);
    let mut views = Vec::new();
    if quotas {
        // Of one who has an operator's token and another one, both are told.
        let users: BTreeSet<(&str, bool)> =
            tokens.iter().map(|view| (view.user.as_str(), view.is_operator)).collect();
        for (name, is_operator) in users {
            views.push(context.quota_view(name, is_operator).await?);
        }
    }
    Ok(json(StatusCode::OK, &UsersAnswer { tokens, quotas: views }))
}

/// Somebody has access from now on.
pub(super) async fn add(
    State(context): State<Shared>,
    user: User,
    InBody(request): InBody<AddUserRequest>,
) -> Result<Response, ApiError> {
    check_operator(&user)?;
    let AddUserRequest { user: name, is_operator, expires_in } = request;
    check_name(&name).map_err(|what| ApiError::bad_request(format!("user: {what}")))?;
    if expires_in.is_some_and(|span| span.0 == 0) {
        return Err(ApiError::bad_request("expires_in: found 0; write how long the token is to be valid"));
    }
    let users = context.state.tokens.users();
    let is_owner = users.own().user().is_some_and(|owner| owner == name);
    // Until the user is known, so that no platform is attached meanwhile that would be refused.
    let _turn = users.accounts().turn().await;
    let warnings = if is_operator || is_owner { Vec::new() } else { shared_accounts(&context).await? };
    let expires_at = expires_in.map(|span| users.now() + span);
    let wanted = Wanted { user: name, is_operator, by: user.name.clone(), expires_at };
    let drawn = users.draw(wanted).map_err(|_| ApiError::no_random())?;
    let id = drawn.token.id;
    let text = keep(&context, drawn).await?;
    let kept = view(&context, id)?;
    tracing::info!(user = user.name, token = %id, of = kept.user, is_operator, "a user was given a token");
    Ok(json(StatusCode::CREATED, &UserAdded { token: text, kept, warnings }))
}

/// What is to be said of platforms whose tasks have the manager's account.
///
/// Errors: nobody is to be added while there is one of them.
async fn shared_accounts(context: &Context) -> Result<Vec<String>, ApiError> {
    let mut known = context.state.tokens.users().accounts().all();
    if known.is_empty() {
        return Ok(Vec::new());
    }
    let there = match context.query(Query::Platforms).await? {
        Answer::Platforms(platforms) => platforms,
        other => return Err(ApiError::unexpected(&other)),
    };
    known.retain(|name, _| {
        there.iter().any(|platform| {
            platform.name == *name && platform.is_attached && platform.mode != PlatformMode::Detached
        })
    });
    if let Some((name, sharing)) = known.iter().find(|(_, sharing)| sharing.is_refused) {
        return Err(ApiError::shared_account(accounts::refused_user(name, sharing)));
    }
    Ok(known.into_iter().map(|(name, sharing)| format!("platform {name}: {}", sharing.why)).collect())
}

/// Somebody has access no more: all tokens of a name, or one by its id.
pub(super) async fn revoke(
    State(context): State<Shared>,
    user: User,
    InPath(name): InPath<String>,
) -> Result<Response, ApiError> {
    let users = context.state.tokens.users().clone();
    let id: Option<TokenId> = name.parse().ok();
    let is_meant = |view: &TokenView| id.map_or(view.user == name, |id| view.id == id);
    let mut meant: Vec<TokenView> = users.views().into_iter().filter(is_meant).collect();
    if !user.is_operator && (meant.is_empty() || meant.iter().any(|view| view.user != user.name)) {
        // Nothing is said about what others have.
        return Err(ApiError::not_operator(&user.name));
    }
    if meant.is_empty() {
        return Err(ApiError::no_such_user(&name));
    }
    meant.retain(|view| view.state != TokenState::Revoked);
    let ids: Vec<TokenId> = meant.iter().map(|view| view.id).collect();
    let own = users.own().id().filter(|id| ids.contains(id));
    if !ids.is_empty() {
        let (table, remembered) = (users.clone(), ids.clone());
        // Before it is recorded: a store that is put back must not know more than this file.
        let remembered =
            blocking(move || Ok(table.own().remember(&remembered).map_err(|error| error.to_string())))
                .await?;
        remembered.map_err(|error| ApiError::not_written("revoked", &error))?;
        if own.is_some() {
            replace_own(&context).await?;
        }
        let (by, revoked) = (user.name.clone(), ids.clone());
        let event = |request| Event::TokensRevoked { request, ids: revoked, by };
        let at = kept_at(&context, event).await?;
        for view in &meant {
            tracing::info!(user = user.name, token = %view.id, of = view.user, "a token was revoked");
        }
        // From here on nothing is waited for: the caller's own token may be among them.
        users.note(&Record::TokensRevoked { ids: ids.clone(), by: user.name, at });
    }
    let tokens = users.views().into_iter().filter(|view| ids.contains(&view.id)).collect();
    Ok(json(StatusCode::OK, &UsersAnswer { tokens, quotas: Vec::new() }))
}

/// The owner goes on with another token, which is in `access.json` before the one of before is void.
async fn replace_own(context: &Context) -> Result<(), ApiError> {
    let users = context.state.tokens.users().clone();
    let Some(owner) = users.own().user() else { return Ok(()) };
    let drawn = context.state.tokens.next_own(&owner);
    let (id, token) = (drawn.token.id, drawn.token.clone());
    let text = keep(context, drawn).await?;
    let written =
        blocking(move || Ok(users.own().replace(&Drawn { text, token }).map_err(|error| error.to_string())));
    written.await?.map_err(|error| ApiError::not_written("access.json", &error))?;
    tracing::info!(token = %id, of = owner, "the manager's owner has another token, in access.json");
    Ok(())
}

/// Makes a token durable, and good; gives it.
async fn keep(context: &Context, drawn: Drawn) -> Result<String, ApiError> {
    let Drawn { text, token } = drawn;
    let kept = Box::new(token.clone());
    let at = kept_at(context, |request| Event::TokenMade { request, token: kept }).await?;
    context.state.tokens.users().note(&Record::TokenMade { token, at });
    Ok(text)
}

async fn kept_at(
    context: &Context,
    event: impl FnOnce(scheduler::engine::interface::RequestId) -> Event,
) -> Result<Time, ApiError> {
    match context.state.handle.ask(event).await? {
        Answer::TokensKept { at } => Ok(at),
        other => Err(ApiError::unexpected(&other)),
    }
}

fn view(context: &Context, id: TokenId) -> Result<TokenView, ApiError> {
    let views = context.state.tokens.users().views();
    views.into_iter().find(|view| view.id == id).ok_or_else(|| ApiError::no_such_user(&id.to_string()))
}

/// Answers a user's request for as long as its token is valid: handlers stop, streams end and downloads break off
/// within moments of its end.
pub(super) async fn guarded(State(context): State<Shared>, mut request: Request, next: Next) -> Response {
    let user = match User::of(request.headers(), request.extensions(), &context) {
        Ok(user) => user,
        Err(refusal) => return refusal.into_response(),
    };
    let most = context.state.quotas.of(&user).n_requests;
    // Until its answer begins: streams and files on their way are counted by themselves.
    let _share = match context.counts.take(&user.name, Kind::Requests, most) {
        Ok(share) => share,
        Err(refusal) => return refusal.into_response(),
    };
    let mut void = Box::pin(context.state.tokens.users().clone().void(user.token));
    request.extensions_mut().insert(user);
    tokio::select! {
        // Who revokes the own token hears that it is done.
        biased;
        response = next.run(request) => {
            let kind = response.headers().get(header::CONTENT_TYPE);
            let is_news = kind.is_some_and(|kind| kind.as_bytes() == b"text/event-stream");
            response.map(|body| match body.size_hint().exact() {
                Some(_) => body,
                None => Body::new(Guarded { body, void, is_news }),
            })
        }
        why = &mut void => ApiError::void(&why).into_response(),
    }
}

/// A body that is cut off when its token is void.
struct Guarded<F> {
    body: Body,
    void: Pin<Box<F>>,
    /// It may end anywhere; half a file would be taken for a whole one.
    is_news: bool,
}

impl<F: Future<Output = Void>> HttpBody for Guarded<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(why) = self.void.as_mut().poll(context) {
            return Poll::Ready((!self.is_news).then(|| Err(axum::Error::new(why))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// How an answer ends of which something has come when its token is void.
    async fn end(is_news: bool) -> Option<Result<Frame<Bytes>, axum::Error>> {
        let (id, user) = (TokenId::new([0; 6]), "ann".to_owned());
        let (revoke, revoked) = tokio::sync::oneshot::channel::<()>();
        let void = Box::pin(async move {
            // It is revoked when the sender is gone.
            let _ = revoked.await;
            Void::Revoked { id, user }
        });
        let (more, rest) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
        more.send(Ok(b"half".to_vec())).await.unwrap();
        let pieces =
            futures_util::stream::unfold(rest, |mut rest| async { Some((rest.recv().await?, rest)) });
        let mut guarded = Guarded { body: Body::from_stream(pieces), void, is_news };
        assert_eq!(guarded.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
        drop(revoke);
        guarded.frame().await
    }

    #[tokio::test]
    async fn a_file_is_cut_off_and_news_end_when_a_token_is_void() {
        assert!(end(false).await.is_some_and(|end| end.is_err()), "half a file is not taken for a whole one");
        assert!(end(true).await.is_none());
    }
}
