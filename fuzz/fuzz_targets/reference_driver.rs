#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::reference_driver::TARGET.run)(bytes));
