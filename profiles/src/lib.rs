//! Profiles: what operators say of platforms (and, with the papers' policies, of applications).

pub mod platform;
pub mod quantity;
pub mod site;
