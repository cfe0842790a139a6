//! Checks of the GroupController service.
