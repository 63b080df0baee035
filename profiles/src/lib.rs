//! Profiles: what people say of platforms and of applications.

pub mod application;
pub mod cloud;
pub mod platform;
pub mod price;
pub mod quantity;
pub mod scaling;
pub mod site;
