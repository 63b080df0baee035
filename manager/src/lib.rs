//! The manager: the engine's shell. Wiring only; see `driver` for the loop and `commit` for durability.

pub mod api;
mod budgets;
pub mod config;
pub mod doors;
pub mod engine_loop;
pub mod files;
mod home;
mod numbers;
pub mod platforms;
pub mod quotas;
pub mod reserve;
pub mod security;
mod socket;
pub mod start;
pub mod store;

pub use crate::security::accounts::AccountCheck;
pub use budgets::OutputQuotas;
pub use config::{Config, Reload};
pub use start::{Manager, ManagerError, StartError, start};
