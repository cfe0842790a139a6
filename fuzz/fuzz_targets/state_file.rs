#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::state_file::TARGET.run)(bytes));
