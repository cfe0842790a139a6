//! A DriverDefinition and the classes that it names are read, or refused with the place of what is wrong; and a file that was
//! read says the same the next time.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (csi_fuzz::definition::TARGET.run)(bytes));
