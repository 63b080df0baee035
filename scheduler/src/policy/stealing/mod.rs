//! Stealing: what pilots may take from each other.
