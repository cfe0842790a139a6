//! `csi-sanity compare`: what got better and what got worse between two runs.

use std::io::{self, Write as _};

use csi_report::Stored;

use crate::args::{CompareArgs, CompareFormat};
use crate::error::Error;
use crate::exit::Exit;
use crate::list::json;

/// Prints what differs.
pub(crate) fn compare(args: &CompareArgs) -> Result<Exit, Error> {
    let (old, new) = (Stored::load(&args.old)?, Stored::load(&args.new)?);
    let comparison = csi_report::compare(&old, &new, args.slower_than);
    let mut out = io::stdout().lock();
    match args.format {
        CompareFormat::Text => out.write_all(comparison.text().as_bytes())?,
        CompareFormat::Md => out.write_all(comparison.markdown().as_bytes())?,
        CompareFormat::Json => json(out, &comparison)?,
    }
    Ok(if comparison.is_worse { Exit::Failed } else { Exit::Success })
}
