//! Profiles: the declared properties of platforms, applications and file stores.

pub use protocol::net::address;

pub mod application;
pub mod cloud;
pub mod platform;
pub mod price;
pub mod quantity;
pub mod scaling;
pub mod site;
pub mod store;
mod text;
