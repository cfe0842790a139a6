//! Reads descriptions of CSI drivers from the files of Kubernetes' external storage tests.
//!
//! [`DriverDefinition::load`] reads a definition, YAML or JSON, as `e2e.test -storage.testdriver` does. An error has
//! its file, line and column; a part that Kubernetes ignores without a message causes a warning. [`Loaded`] finds the
//! classes, too.
//!
//! ```no_run
//! use csi_driver_definitions::{Capability, DriverDefinition};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let loaded = DriverDefinition::load("driver.yaml".as_ref())?;
//! loaded.warnings.iter().for_each(|warning| println!("{warning}"));
//! let class = loaded.storage_class()?;
//! let grows = loaded.definition.can(Capability::ControllerExpansion);
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

mod capability;
mod class;
mod csi_driver;
mod definition;
mod document;
mod duration;
mod lint;
mod load;
mod lookup;
mod objects;
mod quantity;
mod schema;
mod timeouts;

pub use capability::{Capabilities, Capability};
pub use class::{
    AttributesClass, Class, ClassError, ReclaimPolicy, SnapshotClass, StorageClass, VolumeBindingMode,
};
pub use csi_driver::{CsiDriver, FsGroupPolicy, TokenRequest, VolumeLifecycleMode};
pub use definition::{
    AccessMode, AttributesClassSource, ClassSource, DriverDefinition, DriverInfo, ExpectedMetrics,
    InlineVolume, ModifyStressTestOptions, PerformanceTestOptions, ProvisioningOptions, SizeRange,
    SnapshotMetadataStressTestOptions, SnapshotStressTestOptions, Source, StressTestOptions,
};
pub use document::Position;
pub use duration::{DurationError, parse_duration};
pub use load::{LoadError, Loaded, Remark};
pub use lookup::Missing;
pub use objects::Objects;
pub use quantity::{Quantity, QuantityError};
pub use schema::schema;
pub use timeouts::Timeouts;
