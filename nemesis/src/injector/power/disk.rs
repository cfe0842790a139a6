//! A file system of ours over a directory. It passes everything on to the directory, and can lose what was not made
//! durable.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_harness::lifecycle::own_mounts::SOURCE;
use csi_proto::lock::Mutex;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::helper::Helper;
use super::journal::Lost;
use super::serve::Served;
use super::store::Store;
use super::way::Way;

/// The device through which the kernel sends its requests.
const DEVICE: &str = "/dev/fuse";

#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    source: String,
    store: Arc<Mutex<Store>>,
    session: Option<BackgroundSession>,
    helper: Helper,
}

/// The lost changes, with the data needed to restore them.
pub(super) struct Loss {
    store: Arc<Mutex<Store>>,
    lost: Lost,
}

impl Disk {
    /// Checks that such a file system can be mounted here.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn try_it() -> io::Result<()> {
        open_device().map(drop)
    }

    /// Lays it over a directory.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub(super) fn over(directory: &Path) -> io::Result<Disk> {
        let source = format!("{SOURCE}power-{}", std::process::id());
        let store = Arc::new(Mutex::new(Store::open(directory)?));
        let helper = Helper::start(directory, &source)?;
        let mut disk = Disk { directory: directory.to_owned(), source, store, session: None, helper };
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&mut self) -> io::Result<()> {
        let device = open_device()?;
        // A directory, as every user sees it whom the kernel lets.
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
            device.as_raw_fd()
        );
        let options = CString::new(options)?;
        mount(&*self.source, &self.directory, "fuse", MountFlags::empty(), options.as_c_str())?;
        let served = Served(self.store.clone());
        let session = Session::from_fd(served, device, SessionACL::All, Config::default());
        match session.and_then(Session::spawn) {
            Ok(session) => {
                self.session = Some(session);
                Ok(())
            }
            Err(error) => {
                unmount(&self.directory, UnmountFlags::DETACH)?;
                Err(error)
            }
        }
    }

    fn unmount(&mut self) -> io::Result<()> {
        match self.session.take() {
            Some(_) => Ok(unmount(&self.directory, UnmountFlags::DETACH)?),
            None => Ok(()),
        }
    }

    pub(super) fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock()
    }

    pub(super) fn shared(&self) -> Arc<Mutex<Store>> {
        self.store.clone()
    }

    /// Loses the power, and restores it: all open files are closed, and the changes that were not durable are lost in
    /// the given way.
    ///
    /// # Errors
    /// It cannot be mounted again, or something could not be undone.
    pub(super) fn lose(&mut self, way: &Way) -> io::Result<Loss> {
        let lost = self.store().lose(way)?;
        self.unmount()?;
        let store = std::mem::replace(&mut self.store, Arc::new(Mutex::new(Store::open(&self.directory)?)));
        self.mount()?;
        Ok(Loss { store, lost })
    }

    /// Restores everything, while no process is there that could have changed anything.
    ///
    /// # Errors
    /// It cannot be restored, or mounted again.
    pub(super) fn restore(&mut self, loss: Loss) -> io::Result<()> {
        self.unmount()?;
        loss.store.lock().restore(loss.lost)?;
        self.store = Arc::new(Mutex::new(Store::open(&self.directory)?));
        self.mount()
    }

    /// Unmounts it without losing anything.
    ///
    /// # Errors
    /// It cannot be unmounted.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.store().sync_all();
        self.unmount()?;
        self.helper.done()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The helper does it otherwise.
        let _ = self.remove();
    }
}

fn open_device() -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open(DEVICE);
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{DEVICE}: {error}"));
    device.map(OwnedFd::from).map_err(named)
}
