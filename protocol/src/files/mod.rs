//! Files on their way: objects, packs, names of parts, private folders.

pub mod objects;
pub mod pack;
pub mod parts;
pub mod private;
