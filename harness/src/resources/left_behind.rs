//! Describes the objects that are still there when a run is over.

/// Something that may have been left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// What it is, such as `volume named "x"`.
    pub what: String,
    /// Its id or path, where that is known.
    pub id: Option<String>,
    /// Why it is there, or may be there.
    pub why: String,
    /// Whether nobody knows that it is there, and that the run made it.
    pub in_doubt: bool,
    /// Label of the check that made it, if that is known.
    pub check: Option<String>,
    /// How it is removed.
    pub remove: Option<Removal>,
}

/// How something is removed that was left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// By the same command with `--cleanup`.
    Cleanup,
    /// By this command.
    Command(String),
}
