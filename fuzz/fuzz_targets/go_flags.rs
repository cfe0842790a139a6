//! A command line in the words of Go's csi-sanity is translated or refused in words; and none of those words is left in the
//! translation, which names a command.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::go_flags::TARGET.run)(bytes));
