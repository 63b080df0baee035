//! Certificates, tokens and accounts.

pub(crate) mod accounts;
pub(crate) mod private_file;
pub mod tls;
pub mod tokens;
pub mod users;
