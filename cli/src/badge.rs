//! `csi-sanity badge`: the verdict of a run as a small picture.

use std::io::{self, Write as _};

use csi_report::{Badge, Run};

use crate::args::{BadgeArgs, BadgeFormat};
use crate::error::Error;
use crate::exit::Exit;

/// Prints the badge.
pub(crate) fn badge(args: &BadgeArgs) -> Result<Exit, Error> {
    let badge = Badge::of(&Run::load(&args.report)?);
    let text = match args.format {
        BadgeFormat::Svg => badge.svg(),
        BadgeFormat::Json => badge.json(),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Success)
}
