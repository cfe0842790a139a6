//! What `csi-sanity fuzz` has found is read or refused with the name of its file; what was read can be shown, and is the same
//! once it was written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::fuzz_case::TARGET.run)(bytes));
