//! Keeps the tokens of users.

use crate::{
    engine::{
        interface::{
            RequestId,
            answer::Answer,
            users::{TokenId, UserToken},
        },
        record::Record,
        turn::Turn,
    },
    time::Time,
};

impl Turn<'_> {
    /// Records a new token.
    pub(in crate::engine) fn keep_token(&mut self, request: RequestId, token: UserToken) {
        self.record(Record::TokenMade { token, at: self.now });
        self.answer(request, Answer::TokensKept { at: self.now });
    }

    /// Records that tokens are revoked.
    pub(in crate::engine) fn revoke_tokens(&mut self, request: RequestId, ids: Vec<TokenId>, by: String) {
        self.record(Record::TokensRevoked { ids, by, at: self.now });
        self.answer(request, Answer::TokensKept { at: self.now });
    }

    /// Records when tokens were last used.
    pub(in crate::engine) fn note_used_tokens(&mut self, used: Vec<(TokenId, Time)>) {
        self.record(Record::TokensUsed { used, at: self.now });
    }
}
