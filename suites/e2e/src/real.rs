//! A cluster that is there: its API server is asked, and nothing is played.

pub mod api;
pub mod connect;
pub mod discovery;
pub mod kind;

/// Who made an object: the value of `app.kubernetes.io/managed-by`, and the manager of fields.
pub const MANAGER: &str = "csi-sanity";
