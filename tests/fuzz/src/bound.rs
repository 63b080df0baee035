//! How much memory something costs: an allocator that counts, and a bound on what it counts.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static N_PIECES: AtomicUsize = AtomicUsize::new(0);

fn add(n_bytes: usize) {
    N_PIECES.fetch_add(1, Relaxed);
    PEAK.fetch_max(HELD.fetch_add(n_bytes, Relaxed) + n_bytes, Relaxed);
}

// SAFETY: all is left to the system's allocator; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        add(n_bytes);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, n_bytes) }
    }
}

/// The most bytes that were held at a time while something ran, beyond those held before. Counts the
/// whole process: nothing else may run beside it.
pub fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = run();
    (result, PEAK.load(Relaxed).saturating_sub(before))
}

/// What something has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The most bytes that were held at a time, beyond those held before.
    pub peak_bytes: usize,
    /// Bytes that are held still, or, below 0, that were given back.
    pub left_bytes: isize,
    /// How often memory was asked for.
    pub n_pieces: usize,
}

/// What comes of something, and its cost. Counts the whole process, as [`peak_of`] does.
pub fn cost_of<T>(run: impl FnOnce() -> T) -> (T, Cost) {
    let (held, n_pieces) = (HELD.load(Relaxed), N_PIECES.load(Relaxed));
    let (result, peak_bytes) = peak_of(run);
    let left_bytes = HELD.load(Relaxed).cast_signed() - held.cast_signed();
    (result, Cost { peak_bytes, left_bytes, n_pieces: N_PIECES.load(Relaxed) - n_pieces })
}

/// What an input may cost: `constant` + `factor` × its length.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes that any input may cost.
    pub constant: usize,
    /// Bytes that each of its bytes may cost.
    pub factor: usize,
}

impl Bound {
    /// Runs what takes an input of `n_bytes`; panics when it costs more.
    pub fn hold<T>(self, n_bytes: usize, run: impl FnOnce() -> T) -> T {
        let (result, peak) = peak_of(run);
        let most = self.constant + self.factor * n_bytes;
        assert!(peak <= most, "an input of {n_bytes} bytes cost {peak} bytes of memory; the bound is {most}");
        result
    }
}
