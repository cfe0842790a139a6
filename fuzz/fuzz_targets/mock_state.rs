//! Whatever bytes are the state file of the mock driver: it is refused in words and left alone, or a driver begins with it, answers,
//! and knows the same after it was started again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::mock_state::TARGET.run)(bytes));
