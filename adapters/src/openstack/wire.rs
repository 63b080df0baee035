//! Requests to a cloud's services, what their answers mean, and what they say when they refuse.

use std::time::Duration;

use serde_json::Value;

/// Words that are longer are data: what was sent comes back in some refusals, a pilot's token with it.
const WORD_CHARACTERS_MAX: usize = 80;
/// Of what a service says.
const CHARACTERS_MAX: usize = 400;

/// A service of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Service {
    Compute,
    Image,
    Network,
    Placement,
}

impl Service {
    /// In the order of their numbers.
    pub(super) const ALL: [Service; 4] =
        [Service::Compute, Service::Image, Service::Network, Service::Placement];

    /// By which type the catalog names it.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Service::Compute => "compute",
            Service::Image => "image",
            Service::Network => "network",
            Service::Placement => "placement",
        }
    }
}

/// What is asked of a service.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) service: Service,
    /// From the service's URL on, with what is asked for.
    pub(super) path: String,
    pub(super) body: Option<Value>,
    /// Whether it speaks the oldest API that we know of, in which Nova gives no answer where one of its cells does not.
    pub(super) needs_cells: bool,
}

impl Call {
    pub(super) fn get(service: Service, path: impl Into<String>) -> Call {
        Call { method: "GET", service, path: path.into(), body: None, needs_cells: false }
    }

    pub(super) fn post(service: Service, path: impl Into<String>, body: Value) -> Call {
        Call { method: "POST", service, path: path.into(), body: Some(body), needs_cells: false }
    }

    pub(super) fn put(service: Service, path: impl Into<String>, body: Value) -> Call {
        Call { method: "PUT", service, path: path.into(), body: Some(body), needs_cells: false }
    }

    pub(super) fn delete(service: Service, path: impl Into<String>) -> Call {
        Call { method: "DELETE", service, path: path.into(), body: None, needs_cells: false }
    }
}

/// An answer, whatever it says.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
    pub(super) request_id: Option<String>,
    /// After which it may be asked again.
    pub(super) retry_after: Option<Duration>,
    /// Of Keystone's answers: the token.
    pub(super) token: Option<String>,
}

/// Why something was not done, or may not have been.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It was not done, and will not be as long as nobody changes something.
    #[error("{0}")]
    Refused(String),
    /// It was not done, as the project has no room.
    #[error("{0}")]
    Full(String),
    /// There is no such thing (any more).
    #[error("{0}")]
    Gone(String),
    /// It was not done now: the thing is busy, or somebody else was quicker.
    #[error("{0}")]
    Busy(String),
    /// It was not done: the cloud wants to be asked later.
    #[error("the cloud wants no request for {} s", .0.as_secs())]
    Later(Duration),
    /// The token is not taken (any more).
    #[error("{0}")]
    Stranger(String),
    /// It was not done: there was no answer.
    #[error("{0}")]
    Away(String),
    /// Nobody knows whether it was done.
    #[error("{0}")]
    Unknown(String),
}

/// Where nothing is said of how long to wait.
const LATER: Duration = Duration::from_secs(30);

impl Answer {
    /// The body of what was done.
    pub(super) fn accepted(self) -> Result<Value, Trouble> {
        match self.status {
            204 => Ok(Value::Null),
            200..300 if self.body.trim().is_empty() => Ok(Value::Null),
            200..300 => serde_json::from_str(&self.body)
                .map_err(|_| Trouble::Unknown("the answer is no JSON".to_owned())),
            _ => Err(self.trouble()),
        }
    }

    fn trouble(&self) -> Trouble {
        let said = words_of(&self.body);
        let id = self.request_id.as_ref().map_or_else(String::new, |id| format!(" ({id})"));
        let said = format!("{} {said}{id}", self.status);
        match self.status {
            401 => Trouble::Stranger(said),
            403 if said.contains("Quota exceeded") => Trouble::Full(said),
            404 | 410 => Trouble::Gone(said),
            409 => Trouble::Busy(said),
            // Without a time it is too much that was sent.
            413 if self.retry_after.is_none() => Trouble::Refused(said),
            413 | 429 => Trouble::Later(self.retry_after.unwrap_or(LATER)),
            400..500 => Trouble::Refused(said),
            _ => Trouble::Unknown(said),
        }
    }
}

/// What a refusal says: each service has a form of its own, and what stands before them answers in HTML.
pub(super) fn words_of(body: &str) -> String {
    let tree: Value = serde_json::from_str(body).unwrap_or_default();
    let of = |value: &Value| {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        text("message").or_else(|| text("detail")).or_else(|| text("title"))
    };
    let of_errors = tree.get("errors").and_then(|errors| of(errors.get(0)?));
    let of_only = tree.as_object().and_then(|fields| fields.values().find_map(of));
    plain(&of_errors.or(of_only).or_else(|| of(&tree)).unwrap_or_else(|| body.to_owned()))
}

/// In one line of moderate length, without tags and without data.
fn plain(text: &str) -> String {
    let mut is_tag = false;
    let outside = text.chars().map(|c| match c {
        '<' => (is_tag = true, ' ').1,
        '>' => (is_tag = false, ' ').1,
        _ if is_tag || c.is_control() => ' ',
        _ => c,
    });
    let outside: String = outside.collect();
    let short = |word: &str| match word.chars().count() {
        n if n > WORD_CHARACTERS_MAX => format!("({n} characters)"),
        _ => word.to_owned(),
    };
    let line = outside.split_whitespace().map(short).collect::<Vec<_>>().join(" ");
    line.chars().take(CHARACTERS_MAX).collect()
}

/// A value in a query.
pub(super) fn escaped(text: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    text.bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(status: u16, body: &str) -> Trouble {
        let answer = Answer { status, body: body.into(), ..Answer::default() };
        answer.accepted().expect_err("trouble")
    }

    #[test]
    fn each_service_refuses_in_its_own_words() {
        for (body, expected) in [
            (r#"{"error": {"code": 401, "message": "sign in", "title": "Unauthorized"}}"#, "sign in"),
            (r#"{"badRequest": {"code": 400, "message": "Invalid image"}}"#, "Invalid image"),
            (r#"{"errors": [{"status": 409, "title": "Conflict", "detail": "generation"}]}"#, "generation"),
            (r#"{"NeutronError": {"type": "X", "message": "no network", "detail": ""}}"#, "no network"),
            ("<html><h1>503 Service\nUnavailable</h1></html>", "503 Service Unavailable"),
            ("", ""),
        ] {
            assert_eq!(words_of(body), expected, "{body}");
        }
    }

    #[test]
    fn what_was_sent_is_not_repeated() {
        let secret = "IyEvYmluL3NoCg".repeat(10);
        let body = format!(r#"{{"badRequest": {{"message": "user_data. Value: {secret}. too long"}}}}"#);
        assert_eq!(words_of(&body), "user_data. Value: (141 characters) too long");
    }

    #[test]
    fn kinds_of_trouble_are_told_apart() {
        let quota = r#"{"forbidden": {"message": "Quota exceeded for cores"}}"#;
        assert!(matches!(trouble(403, quota), Trouble::Full(_)));
        assert!(matches!(trouble(403, r#"{"forbidden": {"message": "Policy"}}"#), Trouble::Refused(_)));
        assert!(matches!(trouble(401, ""), Trouble::Stranger(_)));
        assert!(matches!(trouble(404, ""), Trouble::Gone(_)));
        assert!(matches!(trouble(409, ""), Trouble::Busy(_)));
        assert_eq!(trouble(429, ""), Trouble::Later(LATER));
        // A service that fails may have done it, and so may one behind a proxy.
        for status in [500, 502, 503, 504] {
            assert!(matches!(trouble(status, "<html>"), Trouble::Unknown(_)));
        }
        assert!(matches!(trouble(200, "<html>"), Trouble::Unknown(_)));
    }

    #[test]
    fn queries_hold_any_name() {
        assert_eq!(escaped("Debian 12 (ü)/&"), "Debian%2012%20%28%C3%BC%29%2F%26");
    }
}
