//! Checks of the Node service.
