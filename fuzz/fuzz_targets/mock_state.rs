#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::mock_state::TARGET.run)(bytes));
