//! Users and their tokens, as the API tells of them. A token itself travels once: to who has it made.

use serde::{Deserialize, Serialize};

use scheduler::{
    engine::interface::users::TokenId,
    time::{Span, Time},
};

/// Bytes of a user's name at most.
pub const NAME_BYTES_MAX: usize = 100;

/// Checks a name that somebody is to have.
///
/// # Errors
/// What was found, and what would be right.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with(['.', '-']);
    if !is_name || !name.chars().all(is_plain) {
        return Err(format!(
            "found `{}` as a user's name; use 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.` and `@`, a letter or digit first",
            name.escape_debug()
        ));
    }
    if name.parse::<TokenId>().is_ok() {
        return Err(format!(
            "found `{name}` as a user's name, which reads like the id of a token; use another one"
        ));
    }
    Ok(())
}

/// Somebody is to have access.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AddUserRequest {
    /// The name that jobs and shares go by.
    pub user: String,
    /// Whether the user may act on everybody's jobs, on platforms, users and the manager.
    #[serde(default)]
    pub is_operator: bool,
    /// How long the token is valid; absent: until it is revoked.
    #[serde(default)]
    pub expires_in: Option<Span>,
}

/// A new token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserAdded {
    /// The token, for its user alone. The manager cannot tell it again.
    pub token: String,
    /// What is kept of it.
    pub kept: TokenView,
    /// What the user's tasks could do that they should not.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Which tokens to list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UsersQuery {
    /// Those that are void, too.
    pub all: bool,
    /// With the quotas of these users, and how much of each is used.
    pub quotas: bool,
}

/// Tokens, by user and oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Users {
    /// The tokens.
    pub tokens: Vec<TokenView>,
    /// What their users may take, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaView>,
}

/// What a user may take, and has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuotaView {
    /// The user's name.
    pub user: String,
    /// Whether the user is an operator.
    pub is_operator: bool,
    /// Whether priorities of the user's jobs count among the jobs of all users.
    pub priority_over_all: bool,
    /// Each quota.
    pub quotas: Vec<QuotaUse>,
}

/// One quota of a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuotaUse {
    /// Its word in `manager.yaml`.
    pub quota: String,
    /// What the user has of it; bytes of what has bytes.
    pub used: u64,
    /// How much it may be; absent: as much as there is.
    pub most: Option<u64>,
}

/// Whether a token is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TokenState {
    /// It is.
    Valid,
    /// Its time is over.
    Expired,
    /// Somebody has revoked it.
    Revoked,
    /// The manager's secret is another one than when it was made.
    Void,
}

/// A token of a user, as far as it may be told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenView {
    /// Its public part.
    pub id: TokenId,
    /// The user's name.
    pub user: String,
    /// Whether the user may act on everybody's jobs, on platforms, users and the manager.
    pub is_operator: bool,
    /// Whether it is taken.
    pub state: TokenState,
    /// When it was made.
    pub made_at: Time,
    /// Who made it.
    pub made_by: String,
    /// From when on it is void; absent: never.
    pub expires_at: Option<Time>,
    /// When it was last used: to the minute, and to the hour after a restart. Absent: it is not known to have been.
    pub used_at: Option<Time>,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
    /// Who revoked it.
    pub revoked_by: Option<String>,
    /// Whether it is the one in the manager's own `access.json`.
    pub is_own: bool,
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_are_plain() {
        for name in ["ann", "ann@site.org", "Jürgen", "a-b_c.d", "7", "0123456789AB", "0123456789abc"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "..", ".ann", "-ann", "a/b", "a b", "a\nb", &"a".repeat(101), "0123456789ab"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
