//! The drivers that are compared.

use std::path::Path;

use crate::error::Result;
use crate::process::Process;

/// This driver, and possibly another one.
#[derive(Debug)]
pub(crate) struct Peers {
    ours: Process,
    other: Option<Process>,
}

impl Peers {
    /// Starts both drivers on fresh state directories.
    pub(crate) async fn start(other: Option<&Path>, directory: &Path) -> Result<Peers> {
        let ours =
            Process::start("ours", Path::new(env!("CARGO_BIN_EXE_csi-hostpath-driver")), directory).await?;
        let other = match other {
            None => None,
            Some(binary) => Some(Process::start("peer", binary, directory).await?),
        };
        Ok(Peers { ours, other })
    }

    /// Iterates over this driver and then the other one.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Process> {
        std::iter::once(&self.ours).chain(&self.other)
    }

    /// Stops both drivers, and leaves their state.
    pub(crate) async fn stop(self) -> Result<()> {
        self.ours.stop().await?;
        match self.other {
            Some(other) => other.stop().await,
            None => Ok(()),
        }
    }
}

/// The measurements of each driver, in the order of [`Peers::each`].
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Vec<f64>>);

impl Samples {
    /// Adds a measurement of the driver at this index.
    pub(crate) fn add(&mut self, place: usize, value: f64) {
        while self.0.len() <= place {
            self.0.push(Vec::new());
        }
        self.0[place].push(value);
    }

    /// The median of the driver at this index.
    pub(crate) fn median(&self, place: usize) -> Option<f64> {
        let mut values = self.0.get(place)?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => None,
            length if length % 2 == 1 => Some(values[middle]),
            _ => Some((values[middle - 1] + values[middle]) / 2.0),
        }
    }
}
