//! A hash of all decisions of a seed's manager, by which two builds are compared: a change that should not
//! change the behaviour must not change the hash.

use std::io;

use scheduler::{engine::record::Record, time::Time};

/// FNV-1a with 64 bits (Fowler, Noll and Vo): the same on every machine and in every version of Rust. It
/// hashes records in the form of the store, so that a renamed type in the code changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decisions(u64);

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions(0xcbf2_9ce4_8422_2325)
    }
}

impl Decisions {
    /// Adds a record and the time at which it became durable.
    pub(super) fn add(&mut self, now: Time, record: &Record) {
        serde_json::to_writer(self, &(now, record)).expect("a record can be written as JSON");
    }

    pub(super) fn hash(self) -> u64 {
        self.0
    }
}

impl io::Write for Decisions {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Decisions;

    #[test]
    fn hash_is_the_published_one() {
        let hash = |text: &str| {
            let mut decisions = Decisions::default();
            decisions.write_all(text.as_bytes()).unwrap();
            decisions.hash()
        };
        assert_eq!(
            [hash(""), hash("a"), hash("foobar")],
            [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
        );
    }
}
