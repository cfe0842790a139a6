//! Resources that a run makes and uses: names, paths, mounts and volumes, and the file that lists those not yet undone.
//! Nothing here calls the driver.

pub(crate) mod attach_slots;
pub(crate) mod attachments;
pub mod cleanup;
pub mod contents;
pub mod driver_directory;
pub mod frozen;
pub mod logbook;
pub(crate) mod machine;
pub mod mounts;
pub(crate) mod names;
pub mod paths;
pub mod read_back;
pub(crate) mod resource;
pub mod state_dir;
pub mod trend;
pub mod usage;
pub(crate) mod volumes;
pub mod workload;
