#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::messages::TARGET.run)(bytes));
