//! Messages as bytes: postcard between programs, JSON for people who debug. Refuses, never panics.

use serde::{Serialize, de::DeserializeOwned};

/// No message is larger: a job's template with its tables is the largest there is.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// How a message is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `application/x-postcard`.
    Postcard,
    /// `application/json`.
    Json,
}

/// Why bytes are not a message.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Too long.
    #[error("found a message of {found} bytes, the most is {MESSAGE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        found: usize,
    },
    /// Not postcard, or not this message.
    #[error("found {found} bytes that are not a {wanted} message: {source}")]
    Postcard {
        /// How many bytes.
        found: usize,
        /// The type wanted.
        wanted: &'static str,
        /// What is wrong with them.
        #[source]
        source: postcard::Error,
    },
    /// Not JSON, or not this message.
    #[error("found JSON that is not a {wanted} message: {source}")]
    Json {
        /// The type wanted.
        wanted: &'static str,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The message cannot be written.
    #[error("failed to write a {wanted} message: {what}")]
    Write {
        /// The type.
        wanted: &'static str,
        /// Why.
        what: String,
    },
}

impl Format {
    /// The format that a content type names; postcard for none.
    pub fn of_content_type(content_type: Option<&str>) -> Format {
        match content_type {
            Some(text) if text.starts_with("application/json") => Format::Json,
            _ => Format::Postcard,
        }
    }

    /// The content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Postcard => "application/x-postcard",
            Format::Json => "application/json",
        }
    }

    /// A message as bytes. Errors: only for types that the format cannot hold.
    pub fn encode<T: Serialize>(self, message: &T) -> Result<Vec<u8>, CodecError> {
        let wanted = short_name::<T>();
        match self {
            Format::Postcard => {
                postcard::to_stdvec(message).map_err(|e| CodecError::Write { wanted, what: e.to_string() })
            }
            Format::Json => {
                serde_json::to_vec(message).map_err(|e| CodecError::Write { wanted, what: e.to_string() })
            }
        }
    }

    /// Bytes as a message. Errors: too long, not the format, not this message.
    pub fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, CodecError> {
        let (found, wanted) = (bytes.len(), short_name::<T>());
        if found > MESSAGE_BYTES_MAX {
            return Err(CodecError::TooLong { found });
        }
        match self {
            Format::Postcard => {
                postcard::from_bytes(bytes).map_err(|source| CodecError::Postcard { found, wanted, source })
            }
            Format::Json => {
                serde_json::from_slice(bytes).map_err(|source| CodecError::Json { wanted, source })
            }
        }
    }
}

fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name)
}
