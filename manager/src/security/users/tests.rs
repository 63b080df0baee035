use scheduler::{
    engine::{interface::users::TokenId, record::Record},
    time::{Span, Time},
};

use crate::security::tokens::Tokens;
use crate::security::users::{Drawn, Holder, Users, Void, Wanted, hash};

fn wanted(user: &str, expires_at: Option<Time>) -> Wanted {
    Wanted { user: user.to_owned(), is_operator: false, by: "olga".to_owned(), expires_at }
}

/// A token that was made an hour ago.
fn made(users: &Users, user: &str, expires_at: Option<Time>) -> (String, TokenId) {
    let Drawn { text, token } = users.draw(wanted(user, expires_at)).unwrap();
    let (id, hour) = (token.id, Span::from_secs(3600));
    users.note(&Record::TokenMade { token, at: Time(users.now().0 - hour.0) });
    (text, id)
}

fn revoked(id: TokenId) -> Record {
    Record::TokensRevoked { ids: vec![id], by: "olga".to_owned(), at: Time(7) }
}

#[test]
fn a_token_is_taken_until_it_is_revoked() {
    let users = Users::new(Some(1));
    let (text, id) = made(&users, "ann", None);
    let holder = Holder { token: id, name: "ann".to_owned(), is_operator: false };
    assert_eq!(users.verify(&text), Some(Ok(holder)));
    assert_eq!(users.views()[0].used_at.map(|at| at > Time(0)), Some(true));
    let (other, _) = made(&users, "ann", None);
    users.note(&revoked(id));
    let void = Void::Revoked { id, user: "ann".to_owned() };
    assert_eq!(users.verify(&text), Some(Err(void)));
    assert!(matches!(users.verify(&other), Some(Ok(_))), "each is revoked alone");
    // Who has not the secret part learns nothing.
    let guess = format!("pfu_{id}_{}", "A".repeat(43));
    assert_eq!(users.verify(&guess), None);
    assert_eq!(users.verify(&text.replace("pfu_", "pfj_")), None);
}

#[test]
fn a_token_expires_and_no_clock_brings_it_back() {
    let users = Users::new(Some(1));
    let (text, id) = made(&users, "ann", Some(users.now()));
    let expired = Some(Err(Void::Expired { id, user: "ann".to_owned() }));
    assert_eq!(users.verify(&text), expired);
    let tomorrow = users.now() + Span::from_secs(86_400);
    let (later, id) = made(&users, "ann", Some(tomorrow));
    assert!(matches!(users.verify(&later), Some(Ok(_))));
    // Something was recorded the day after, and the clock was put back since.
    users.note(&Record::PilotReturned { pilot: scheduler::ids::PilotId(1), at: tomorrow + Span(1) });
    assert_eq!(users.verify(&later), Some(Err(Void::Expired { id, user: "ann".to_owned() })));
}

#[test]
fn only_the_hash_of_the_secret_part_is_kept() {
    let users = Users::new(Some(1));
    let Drawn { text, token } = users.draw(wanted("ann", None)).unwrap();
    let (_, secret) = text.strip_prefix("pfu_").unwrap().split_once('_').unwrap();
    assert_eq!((secret.len(), hash(secret)), (43, token.sha256));
    assert!(!serde_json::to_string(&token).unwrap().contains(secret));
    let other = users.draw(wanted("ann", None)).unwrap();
    assert!(other.text != text && other.token.id != token.id);
}

#[test]
fn tokens_of_another_secret_are_void() {
    let (users, others) = (Users::new(Some(1)), Users::new(Some(2)));
    let Drawn { text, token } = users.draw(wanted("ann", None)).unwrap();
    let id = token.id;
    others.note(&Record::TokenMade { token, at: Time(1) });
    assert_eq!(others.verify(&text), Some(Err(Void::Era { id, user: "ann".to_owned() })));
}

#[tokio::test]
async fn who_waits_for_a_tokens_end_hears_of_it() {
    let users = std::sync::Arc::new(Users::new(Some(1)));
    let (_, id) = made(&users, "ann", None);
    let waits = tokio::spawn(users.clone().void(id));
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    users.note(&revoked(id));
    assert_eq!(waits.await.unwrap(), Void::Revoked { id, user: "ann".to_owned() });
    let soon = users.now() + Span::from_millis(50);
    let (_, id) = made(&users, "ann", Some(soon));
    assert_eq!(users.clone().void(id).await, Void::Expired { id, user: "ann".to_owned() });
    assert!(users.now() >= soon);
}

/// What a manager with this secret does at its start with these records; the owner's token.
fn start(folder: &std::path::Path, records: &mut Vec<Record>) -> (Tokens, String) {
    let tokens = Tokens::new(&[7; 32]);
    let (made, own) = tokens.prepare(folder, "olga", records, Time(5)).unwrap();
    records.extend(made);
    (tokens, own)
}

#[test]
fn the_owners_token_outlives_restarts_and_stores_and_is_replaced_when_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = Vec::new();
    let (_, own) = start(folder.path(), &mut records);
    assert_eq!(records.len(), 1);
    let (tokens, again) = start(folder.path(), &mut records);
    assert_eq!((&again, records.len()), (&own, 1), "a restart records nothing");
    assert_eq!(start(folder.path(), &mut Vec::new()).1, own, "a new store takes it, too");
    let id = tokens.users().views()[0].id;
    assert!(tokens.users().views()[0].is_own && tokens.verify(&own).is_ok());
    tokens.users().own().remember(&[id]).unwrap();
    tokens.users().note(&revoked(id));
    let next = tokens.next_own("olga");
    assert_ne!(next.text, own);
    records.push(revoked(id));
    let (tokens, other) = start(folder.path(), &mut records);
    assert_eq!(other, next.text);
    assert!(tokens.verify(&own).is_err() && tokens.verify(&other).is_ok());
}

#[test]
fn a_token_that_was_revoked_stays_so_in_a_store_that_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut records = Vec::new();
    let (tokens, own) = start(folder.path(), &mut records);
    let Drawn { text, token } = tokens.users().draw(wanted("ann", None)).unwrap();
    let id = token.id;
    records.push(Record::TokenMade { token, at: Time(6) });
    let backup = records.clone();
    tokens.users().own().remember(&[id]).unwrap();
    let (tokens, again) = start(folder.path(), &mut backup.clone());
    assert_eq!(again, own);
    assert!(matches!(
        tokens.verify(&text),
        Err(crate::security::tokens::NotTaken::Void(Void::Revoked { .. }))
    ));
    // Without that file the store alone knows, and the file is made anew of it.
    records.push(revoked(id));
    std::fs::remove_file(folder.path().join("revoked")).unwrap();
    start(folder.path(), &mut records);
    let (tokens, _) = start(folder.path(), &mut backup.clone());
    assert!(tokens.verify(&text).is_err());
    // A line that was cut off does not hide the next one.
    std::fs::write(folder.path().join("revoked"), "0123").unwrap();
    let (tokens, _) = start(folder.path(), &mut backup.clone());
    assert!(tokens.verify(&text).is_ok());
    tokens.users().own().remember(&[id]).unwrap();
    assert!(start(folder.path(), &mut backup.clone()).0.verify(&text).is_err());
}
