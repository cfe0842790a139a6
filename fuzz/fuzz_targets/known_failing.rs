//! A list of known failures is read or refused with the line that is wrong; every pattern without wildcards stands for the
//! check of that name, and whatever stands for a check is not called unmatched.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::known_failing::TARGET.run)(bytes));
