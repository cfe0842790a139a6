//! Checks of the Controller service.
