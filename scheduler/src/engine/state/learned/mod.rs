//! Experience with applications and platforms.

pub mod declared;
pub mod experience;
pub mod facts;
pub mod neighbours;
pub mod waits;
