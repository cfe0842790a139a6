//! Whatever bytes are the state file of the reference driver: it is refused, with a reason and untouched, or opens with all that was
//! in it; and never is it taken for an empty one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::state_file::TARGET.run)(bytes));
