#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::fuzz(&fuzz::peers::TARGET, bytes));
