//! Whatever a peer sends to our server, HTTP/2 or not: the connection comes to an end, and another one is served as before.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::frames::TARGET.run)(bytes));
