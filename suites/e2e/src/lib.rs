//! The external storage tests of Kubernetes, selected by a DriverDefinition, on a cluster or without one.
//!
//! Tests see Kubernetes through the trait of [`cluster`]. `emulated_cluster` implements it against the driver's sockets, and
//! `kube_cluster` with a real cluster. [`plan`] determines which tests a [`definition`] selects, [`suites`] contains them, and
//! [`scene`] the steps that they share. [`preflight`] examines a deployment before a run, and [`direct`] turns a definition into
//! settings for the suites that call the driver directly.

pub mod cluster;
pub mod definition;
pub mod emulated_cluster;
pub mod kube_cluster;
pub mod pattern;
pub mod plan;
pub mod preflight;
pub mod promise;
pub mod scene;
pub mod suites;
pub mod test;
pub mod version;
pub mod view;
pub mod volume_slots;
