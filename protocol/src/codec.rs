//! Messages as bytes: postcard between programs, JSON for people who debug. Refuses, never panics.

use postcard::de_flavors::Flavor;
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
    #[error("found a message of {found} bytes, the most is {most}")]
    TooLong {
        /// Its length, as far as it was read.
        found: usize,
        /// The most that is taken.
        most: usize,
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
            return Err(CodecError::TooLong { found, most: MESSAGE_BYTES_MAX });
        }
        match self {
            Format::Postcard => {
                from_postcard(bytes).map_err(|source| CodecError::Postcard { found, wanted, source })
            }
            Format::Json => {
                serde_json::from_slice(bytes).map_err(|source| CodecError::Json { wanted, source })
            }
        }
    }
}

/// Bytes of a message outside its texts and outputs: each may become a hundred times as many in memory,
/// as an empty list of tasks in a list does. Reports and holdings have a few hundred thousand at most.
const STRUCTURE_BYTES_MAX: usize = 4 << 20;

fn from_postcard<T: DeserializeOwned>(bytes: &[u8]) -> postcard::Result<T> {
    let mut deserializer =
        postcard::Deserializer::from_flavor(Frugal { left: bytes, n_structure_left: STRUCTURE_BYTES_MAX });
    T::deserialize(&mut deserializer)
}

/// Gives the bytes of a message, but not more structure than a message may have.
struct Frugal<'de> {
    left: &'de [u8],
    n_structure_left: usize,
}

impl<'de> Flavor<'de> for Frugal<'de> {
    type Remainder = &'de [u8];
    type Source = &'de [u8];

    fn pop(&mut self) -> postcard::Result<u8> {
        let (first, rest) = self.left.split_first().ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.n_structure_left = self.n_structure_left.checked_sub(1).ok_or(postcard::Error::SerdeDeCustom)?;
        self.left = rest;
        Ok(*first)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }

    fn try_take_n(&mut self, n: usize) -> postcard::Result<&'de [u8]> {
        let (taken, rest) = self.left.split_at_checked(n).ok_or(postcard::Error::DeserializeUnexpectedEnd)?;
        self.left = rest;
        Ok(taken)
    }

    fn finalize(self) -> postcard::Result<&'de [u8]> {
        Ok(self.left)
    }
}

fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use scheduler::{
        ids::JobId,
        pull::{Part, PilotCommand, PullAnswer},
        results::{JobReport, Report, TaskOutput},
    };

    use super::{Format, STRUCTURE_BYTES_MAX};

    #[test]
    fn large_outputs_travel_and_large_structures_do_not() {
        let mut job = JobReport::new(JobId(1));
        let stdout = vec![7; 2 * STRUCTURE_BYTES_MAX];
        job.outputs = vec![TaskOutput { index: 3, stdout, stderr: Vec::new() }];
        let report = Report { seq: 1, jobs: vec![job] };
        let bytes = Format::Postcard.encode(&report).unwrap();
        assert_eq!(Format::Postcard.decode::<Report>(&bytes).unwrap(), report);
        let part = Part { commands: vec![PilotCommand::Drain; STRUCTURE_BYTES_MAX], ..Part::default() };
        let answer = PullAnswer { parts: vec![part], ..PullAnswer::default() };
        let bytes = Format::Postcard.encode(&answer).unwrap();
        assert!(Format::Postcard.decode::<PullAnswer>(&bytes).is_err());
    }
}
