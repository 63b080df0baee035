//! Placement: which platform the next allocation goes to.
