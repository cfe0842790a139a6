//! Bytes that decode as a message of csi.proto are encoded to the same message again, and printed without its secrets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::messages::TARGET.run)(bytes));
