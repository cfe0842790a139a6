//! GetMetadataAllocated.

use std::fs::File;
use std::io;

use csi_proto::v1::{GetMetadataAllocatedRequest, GetMetadataAllocatedResponse};

use tokio::sync::mpsc;
use tonic::Status;

use super::{Layout, Sender, open_image, read_layout};
use crate::driver::{Driver, required};
use crate::error::DriverError;
use crate::extents::next_data;

#[derive(Debug)]
pub(crate) struct Allocated {
    layout: Layout,
    image: File,
}

impl Allocated {
    pub(crate) fn read(
        driver: &Driver,
        request: &GetMetadataAllocatedRequest,
    ) -> Result<Allocated, DriverError> {
        driver.require(driver.config.snapshot_metadata, "snapshot metadata")?;
        required("snapshot_id", &request.snapshot_id)?;
        let (snapshot, image) = open_image(driver, "snapshot_id", &request.snapshot_id)?;
        let layout = read_layout(driver, snapshot.size_bytes, request.starting_offset, request.max_results)?;
        Ok(Allocated { layout, image })
    }

    /// Sends every range that contains data; stops early when the peer goes away.
    pub(crate) fn run(
        self,
        to: mpsc::Sender<Result<GetMetadataAllocatedResponse, Status>>,
    ) -> io::Result<()> {
        let mut sender = Sender::new(self.layout, to);
        let mut offset = self.layout.start;
        while let Some(extent) = next_data(&self.image, offset)? {
            if sender.add(extent).is_err() {
                return Ok(());
            }
            offset = extent.end;
        }
        let _ = sender.finish();
        Ok(())
    }
}
