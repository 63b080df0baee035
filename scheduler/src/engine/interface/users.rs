//! What is kept of users' tokens. The manager decides who gets one and whose is void; the engine records it, so that
//! it is durable before anybody hears of it. Nobody can make a token of what is kept.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::{digest::Digest, time::Time};

/// Hexadecimal digits of a token's id.
const N_DIGITS: usize = 12;

/// The public part of a user's token: 48 drawn bits. As text: 12 small hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenId(u64);

/// A text that is no id of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoTokenId;

impl fmt::Display for NoTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the id of a token is {N_DIGITS} hexadecimal digits")
    }
}

impl std::error::Error for NoTokenId {}

impl TokenId {
    /// The id with these bits.
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

/// A user's token, as far as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserToken {
    /// Its public part.
    pub id: TokenId,
    /// SHA-256 of its secret part.
    pub sha256: Digest,
    /// Which of the manager's secrets was there when it was made: with another one it is void.
    pub era: u32,
    /// The user's name.
    pub user: String,
    /// Whether the user may act on everybody's jobs and on the manager.
    pub is_operator: bool,
    /// Who made it.
    pub by: String,
    /// From when on it is void; `None`: never.
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
