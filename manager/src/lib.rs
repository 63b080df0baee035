//! The manager: the engine's shell. Wiring only; see `driver` for the loop and `commit` for durability.

mod accounts;
pub mod agent_file;
pub mod api;
mod attach;
mod budgets;
pub mod clock;
mod collect;
mod commit;
pub mod config;
pub mod doors;
mod driver;
mod failure_log;
mod farewell;
pub mod handle;
mod home;
mod identities;
mod numbers;
pub mod objects;
mod peers;
mod perform;
pub mod place;
mod platforms;
pub mod quotas;
pub mod reserve;
pub mod start;
pub mod store;
pub mod stores;
pub mod tls;
pub mod tokens;
pub mod users;
mod web_store;

pub use accounts::AccountCheck;
pub use attach::Reload;
pub use budgets::OutputQuotas;
pub use config::Config;
pub use start::{Manager, ManagerError, StartError, start};
