//! The API over real connections, with a real engine and a real store; pilots are played by the tests.

mod access;
mod connections;
mod doors;
mod follow;
mod leases;
mod matrix;
mod objects;
mod pilots;
mod policies;
mod quotas;
mod refusals;
mod results;
mod scene;
mod stores;
mod stream;
mod taken;
mod transfers;
mod users;
mod workflows;
