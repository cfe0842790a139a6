//! A text that is an endpoint is shown as a text that is the same endpoint, and one that is none is refused in words.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::endpoint::TARGET.run)(bytes));
