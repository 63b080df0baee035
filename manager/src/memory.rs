//! What is asked of the allocator, where it is glibc's.

/// All threads take from one heap, so that what thousands of idle pilots left free lies in one place.
/// A manager has few threads, which mostly allocate a little and often: of that each keeps its own.
/// For a program's beginning, before it has threads.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the allocator, which takes any value.
    unsafe {
        nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}

/// Gives free memory back to the system. Takes milliseconds.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches only memory that the allocator holds free.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}
