//! The model finds no fault with what the mock driver answers to any sequence of calls that an orchestrator may make.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::model_mock::TARGET.run)(bytes));
