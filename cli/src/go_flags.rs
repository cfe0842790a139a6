//! The flags of the Go csi-sanity, translated before clap reads the command line.

use std::ffi::OsString;

/// A command line in our own words.
#[derive(Debug, Default)]
pub(crate) struct Translated {
    pub(crate) arguments: Vec<OsString>,
    /// What the user should know about flags that mean nothing here.
    pub(crate) notes: Vec<String>,
}

/// Translates a command line, the program's name left out.
pub(crate) fn translate(arguments: Vec<OsString>) -> Result<Translated, String> {
    let mut translated = Translated { arguments, notes: Vec::new() };
    let about_itself = ["-h", "--help", "-V", "--version"];
    let bare = translated.arguments.first().is_none_or(|first| {
        first.to_string_lossy().starts_with('-') && !about_itself.iter().any(|flag| first == flag)
    });
    if bare {
        translated.arguments.insert(0, "run".into());
    }
    Ok(translated)
}
