//! Describes the objects that are still there when a run is over.

/// An object that may have been left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The object, such as `volume named "x"`.
    pub what: String,
    /// Its id or path, where that is known.
    pub id: Option<String>,
    /// The reason why it is there, or may be there.
    pub why: String,
    /// True if it may not exist, or may not be the run's.
    pub in_doubt: bool,
    /// Label of the check that made it, if that is known.
    pub check: Option<String>,
    /// The way to remove it, if there is one.
    pub remove: Option<Removal>,
}

/// The way to remove something that was left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The command of the run with `--cleanup` added.
    Cleanup,
    /// A shell command.
    Command(String),
}
