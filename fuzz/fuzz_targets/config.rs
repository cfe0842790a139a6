//! A configuration, and a file of pairs, is read or refused with the name of the file; what was read is valid, and the same,
//! but for its secrets, once it was written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::config::TARGET.run)(bytes));
