//! A manager's life, drawn from a seed: after every event its memory is what a store reads back, and
//! after every record a manager can be restored.

use fuzz::{
    frames, lives,
    mutate::{Luck, mutated},
};

/// Conversations with pilots and users; each commits some dozens of times.
const N_LIVES: u32 = 60;

#[test]
fn what_a_store_reads_back_is_what_the_manager_knows() {
    let seeds = (frames::TARGET.seeds)();
    let mut luck = Luck(7);
    let mut n_records = 0;
    for _ in 0..N_LIVES {
        n_records += lives::live(&mutated(&seeds, frames::TARGET.words, &mut luck));
    }
    assert!(n_records > 10 * N_LIVES as usize, "only {n_records} records");
}
