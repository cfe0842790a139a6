//! A failing case is read or refused with the name of its file; what was read can be shown in every form, and is the same once
//! it was written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::case::TARGET.run)(bytes));
