//! The search for an order of calls that were made at the same time agrees with one that tries every order.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::history::TARGET.run)(bytes));
