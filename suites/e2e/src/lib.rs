//! The external storage tests of Kubernetes, selected by a DriverDefinition, on a cluster or without one.
//!
//! [`cluster`] is what a test sees of Kubernetes; `emulated_cluster` plays a cluster against the driver's sockets, `kube_cluster` asks one that is there. [`plan`] says which
//! tests there are, [`suites`] has them, and [`scene`] the steps that they share. [`preflight`] looks at a deployment before,
//! [`direct`] at what the driver is called with besides.

pub mod cluster;
pub mod direct;
pub mod emulated_cluster;
pub mod kube_cluster;
pub mod pattern;
pub mod plan;
pub mod preflight;
pub mod promise;
pub mod room;
pub mod scene;
pub mod suites;
pub mod test;
pub mod version;
pub mod view;
