//! Whatever the reference driver is asked to do, with odd names, ids, sizes and paths: it does not panic, it knows the same after
//! it was started again, and nothing changes but its own directory and those that are made for volumes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::reference_driver::TARGET.run)(bytes));
