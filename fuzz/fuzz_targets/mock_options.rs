//! The options of the mock driver are taken or refused in words, be they flags or a file; and what was taken makes a driver.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::mock_options::TARGET.run)(bytes));
