//! A filter is taken or refused in words; and a term chooses exactly the checks that its opposite leaves out.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::filter::TARGET.run)(bytes));
