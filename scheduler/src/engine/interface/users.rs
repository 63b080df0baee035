//! The records of users' tokens. The manager makes and revokes tokens; the engine records this, so that it is
//! durable before anybody hears of it. A token cannot be computed from its record.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{digest::Digest, time::Time};

/// Hexadecimal digits of a token's id.
const N_DIGITS: usize = 12;

/// The public part of a user's token: 48 random bits. As text: 12 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenId(u64);

/// The error for a text that is not a token's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoTokenId;

impl fmt::Display for NoTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the id of a token is {N_DIGITS} hexadecimal digits")
    }
}

impl std::error::Error for NoTokenId {}

impl TokenId {
    /// Returns the id with these bits.
    pub fn new(bits: [u8; 6]) -> TokenId {
        TokenId(bits.into_iter().fold(0, |id, byte| (id << 8) | u64::from(byte)))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl FromStr for TokenId {
    type Err = NoTokenId;

    fn from_str(text: &str) -> Result<TokenId, NoTokenId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != N_DIGITS || !text.bytes().all(is_digit) {
            return Err(NoTokenId);
        }
        u64::from_str_radix(text, 16).map(TokenId).map_err(|_| NoTokenId)
    }
}

impl Serialize for TokenId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenId, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for TokenId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TokenId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "The public part of a token: 12 hexadecimal digits.",
            "type": "string",
            "pattern": "^[0-9a-f]{12}$",
        })
    }
}

/// The record of a user's token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserToken {
    /// The public part of the token.
    pub id: TokenId,
    /// The SHA-256 hash of the secret part.
    pub sha256: Digest,
    /// An identifier of the manager's secret with which the token was made; with another secret, the token is
    /// invalid.
    pub era: u32,
    /// The user's name.
    pub user: String,
    /// Whether the user may act on the jobs of all users and on the manager.
    pub is_operator: bool,
    /// The user who made the token.
    pub by: String,
    /// The time from which on the token is invalid; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::{NoTokenId, TokenId};

    #[test]
    fn an_id_is_read_as_it_is_shown_and_in_no_other_way() {
        let id = TokenId::new([0, 0x1f, 2, 3, 4, 0xab]);
        assert_eq!(id.to_string(), "001f020304ab");
        assert_eq!("001f020304ab".parse(), Ok(id));
        for wrong in ["", "1f020304ab", "001f020304abc", "001F020304AB", "+01f020304ab", "001f020304ag"] {
            assert_eq!(wrong.parse::<TokenId>(), Err(NoTokenId), "{wrong}");
        }
    }
}
