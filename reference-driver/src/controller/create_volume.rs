//! CreateVolume.

use std::collections::BTreeMap;

use csi_proto::v1::volume_content_source::Type as SourceType;
use csi_proto::v1::{CreateVolumeRequest, CreateVolumeResponse, VolumeContentSource};

use super::modify::check_parameters;
use super::{is_reachable, volume_message};
use crate::backend::{self, Backend};
use crate::capability::Capability;
use crate::capacity_range::{Range, Sizes};
use crate::config::Config;
use crate::driver::{Driver, checked_map, checked_name};
use crate::error::{DriverError, Result, Shown};
use crate::fs::FsType;
use crate::ids::{ObjectId, ObjectKind};
use crate::locks::{Guard, Key};
use crate::storage;
use crate::store::{BackendKind, Change, FsState, Source, Volume, may_be_committed};

pub(crate) fn create_volume(driver: &Driver, request: &CreateVolumeRequest) -> Result<CreateVolumeResponse> {
    let wanted = CheckedRequest::read(driver, request)?;
    let _name = driver.locks.exclusive(Key::VolumeName(wanted.name.to_owned()))?;
    if let Some(existing) = driver.store.view()?.volume_by_name(wanted.name)? {
        wanted.check_same(driver, &existing)?;
        return Ok(CreateVolumeResponse { volume: Some(volume_message(driver, &existing)) });
    }
    if !wanted.reachable {
        let reason = "this node does not lie in the requisite topology".to_owned();
        return Err(DriverError::Exhausted { resource: "storage", reason });
    }
    let origin = wanted.source.as_ref().map(|source| Origin::open(driver, source)).transpose()?;
    let mut volume = wanted.plan(driver, origin.as_ref())?;
    let room = driver.ledger.reserve_volume(wanted.parameters.pool(), volume.capacity_bytes)?;
    volume.pool = room.pool();
    let data = match &origin {
        None => volume.backend().make(driver, &volume)?,
        Some(origin) => origin.copy_to(driver, &volume)?,
    };
    volume.project = data.project();
    let record = vec![Change::PutVolume(volume.clone())];
    let committed = if volume.untouched {
        driver.store.commit(record)
    } else {
        driver.store.commit_after_flush(driver.layout.volumes_directory(), record)
    };
    if may_be_committed(&committed) {
        data.keep();
        room.keep();
    }
    committed?;
    Ok(CreateVolumeResponse { volume: Some(volume_message(driver, &volume)) })
}

/// The parameters that have an effect. Others are stored and compared.
#[derive(Debug)]
pub(crate) struct Parameters<'a> {
    backend: Option<BackendKind>,
    pool: Option<&'a str>,
}

impl<'a> Parameters<'a> {
    pub(crate) fn read(get: impl Fn(&str) -> Option<&'a String>, config: &Config) -> Result<Parameters<'a>> {
        let invalid = |reason: String| Err(DriverError::invalid("parameters", reason));
        let backend = match get("backend") {
            None => None,
            Some(name) => match BackendKind::named(name) {
                Some(backend) => Some(backend),
                None => {
                    let known = BackendKind::OF_FILE_SYSTEMS.map(BackendKind::name).join(", ");
                    return invalid(format!("backend {} is not one of {known}", Shown(name)));
                }
            },
        };
        let pool = get("kind").map(String::as_str).filter(|pool| !pool.is_empty());
        match pool {
            Some(pool) if config.pools.is_empty() => {
                invalid(format!("kind {} is given, but there are no pools", Shown(pool)))
            }
            Some(pool) if !config.pools.contains_key(pool) => {
                invalid(format!("there is no storage of kind {}", Shown(pool)))
            }
            pool => Ok(Parameters { backend, pool }),
        }
    }

    pub(crate) fn pool(&self) -> Option<&'a str> {
        self.pool
    }

    pub(crate) fn backend(&self) -> Option<BackendKind> {
        self.backend
    }
}

/// A request whose form has been checked.
struct CheckedRequest<'a> {
    request: &'a CreateVolumeRequest,
    name: &'a str,
    range: Range,
    capabilities: Vec<Capability>,
    parameters: Parameters<'a>,
    source: Option<Source>,
    reachable: bool,
}

impl<'a> CheckedRequest<'a> {
    fn read(driver: &Driver, request: &'a CreateVolumeRequest) -> Result<CheckedRequest<'a>> {
        let name = checked_name(&request.name)?;
        let capabilities = Capability::required_list(&request.volume_capabilities)?;
        checked_map("parameters", &request.parameters)?;
        check_parameters(driver, &request.mutable_parameters)?;
        let effective =
            |key: &str| request.mutable_parameters.get(key).or_else(|| request.parameters.get(key));
        Ok(CheckedRequest {
            request,
            name,
            range: Range::parse(request.capacity_range.as_ref())?,
            capabilities,
            parameters: Parameters::read(effective, &driver.config)?,
            source: request.volume_content_source.as_ref().map(read_source).transpose()?,
            reachable: is_reachable(driver, request.accessibility_requirements.as_ref())?,
        })
    }

    /// Fails unless an existing volume of this name is what the request asks for (CTRL-CREATEVOL-041 to -045).
    fn check_same(&self, driver: &Driver, existing: &Volume) -> Result<()> {
        let differs = |reason: String| {
            Err(DriverError::Exists { what: format!("the volume named {}", Shown(self.name)), reason })
        };
        if !self.range.contains(existing.capacity_bytes) {
            return differs(format!("its {} bytes are outside the capacity_range", existing.capacity_bytes));
        }
        if let Some(reason) =
            self.capabilities.iter().find_map(|capability| existing.unfit(capability, &driver.host_fs_type))
        {
            return differs(reason);
        }
        if self.request.parameters != existing.parameters {
            return differs("it was made with other parameters".to_owned());
        }
        if self.request.mutable_parameters != existing.first_mutable_parameters {
            return differs("it was made with other mutable_parameters".to_owned());
        }
        if self.source != existing.source {
            return differs("it was made from another source".to_owned());
        }
        if !self.reachable {
            return differs("it cannot be reached from the requisite topology".to_owned());
        }
        Ok(())
    }

    /// The record of the volume to create.
    fn plan(&self, driver: &Driver, origin: Option<&Origin>) -> Result<Volume> {
        let asked = self.parameters.backend();
        let backend = match origin {
            None => backend::choose(driver, asked, &self.capabilities),
            Some(origin) => backend::choose_for_copy(origin.backend, asked, &self.capabilities)?,
        };
        if let Some(reason) = backend::unfit(driver, backend, &self.capabilities) {
            return Err(DriverError::invalid("volume_capabilities", reason));
        }
        backend.get().check_host(driver)?;
        let fs_types = self.capabilities.iter().map(|c| c.fs_type().to_owned()).filter(|t| !t.is_empty());
        let mut volume = Volume {
            key: ObjectId::generate(ObjectKind::Volume)?,
            inline_id: None,
            name: self.name.to_owned(),
            backend,
            capacity_bytes: 0,
            pool: None,
            project: None,
            fs: origin.map_or(FsState::Unknown, |origin| storage::copied_fs(origin.fs)),
            parameters: self.request.parameters.clone(),
            first_mutable_parameters: self.request.mutable_parameters.clone(),
            mutable_parameters: self.request.mutable_parameters.clone(),
            fs_types: fs_types.collect(),
            source: self.source.clone(),
            attachments: BTreeMap::new(),
            untouched: backend.get().recreates_empty() && origin.is_none(),
        };
        if volume.fs_types.len() > 1 {
            return Err(DriverError::invalid("volume_capabilities", "they name different file systems"));
        }
        if let Some(reason) =
            self.capabilities.iter().find_map(|wanted| volume.unfit(wanted, &driver.host_fs_type))
        {
            return Err(DriverError::invalid("volume_content_source", reason));
        }
        volume.capacity_bytes = self.choose_size(driver, &volume, origin)?;
        Ok(volume)
    }

    fn choose_size(&self, driver: &Driver, volume: &Volume, origin: Option<&Origin>) -> Result<u64> {
        let source_bytes = origin.map_or(0, |origin| origin.size_bytes);
        if self.range.is_below(source_bytes) {
            let reason = format!("limit_bytes is below the {source_bytes} bytes of the source");
            return Err(DriverError::out_of_range(reason));
        }
        let mut sizes = sizes_of(driver, volume.backend(), volume.fs_types.first().map(String::as_str));
        sizes.min_bytes = sizes.min_bytes.max(source_bytes);
        if origin.is_some() {
            sizes.default_bytes = source_bytes;
        }
        self.range.choose(sizes)
    }
}

fn sizes_of(driver: &Driver, backend: &dyn Backend, fs_type: Option<&str>) -> Sizes {
    let fs_type = fs_type.and_then(FsType::parse).unwrap_or(driver.config.fs_type);
    Sizes {
        default_bytes: driver.config.default_volume_bytes,
        min_bytes: backend.size_bytes_min(fs_type),
        max_bytes: driver.config.max_volume_bytes,
        unit_bytes: backend.unit_bytes(),
    }
}

/// The sizes to which an existing volume can grow.
pub(crate) fn largest_allowed(driver: &Driver, volume: &Volume, max_bytes: u64) -> Sizes {
    let sizes = sizes_of(driver, volume.backend(), None);
    Sizes { default_bytes: volume.capacity_bytes, min_bytes: volume.capacity_bytes, max_bytes, ..sizes }
}

fn read_source(source: &VolumeContentSource) -> Result<Source> {
    match &source.r#type {
        None => Err(DriverError::invalid("volume_content_source", "it is neither a snapshot nor a volume")),
        Some(SourceType::Snapshot(snapshot)) if snapshot.snapshot_id.is_empty() => {
            Err(DriverError::Missing { field: "snapshot_id" })
        }
        Some(SourceType::Volume(volume)) if volume.volume_id.is_empty() => {
            Err(DriverError::Missing { field: "volume_id" })
        }
        Some(SourceType::Snapshot(snapshot)) => Ok(Source::Snapshot(snapshot.snapshot_id.clone())),
        Some(SourceType::Volume(volume)) => Ok(Source::Volume(volume.volume_id.clone())),
    }
}

/// The snapshot or volume to copy from, locked so that it does not change during the copy.
struct Origin {
    backend: BackendKind,
    size_bytes: u64,
    fs: FsState,
    volume: Option<Volume>,
    path: std::path::PathBuf,
    _guard: Guard,
}

impl Origin {
    fn open(driver: &Driver, source: &Source) -> Result<Origin> {
        match source {
            Source::Snapshot(id) => {
                let (snapshot, guard) = driver.snapshot_shared("snapshot_id", id)?;
                Ok(Origin {
                    backend: snapshot.backend,
                    size_bytes: snapshot.size_bytes,
                    fs: snapshot.fs,
                    volume: None,
                    path: driver.layout.snapshot(&snapshot.key),
                    _guard: guard,
                })
            }
            Source::Volume(id) => {
                let (volume, guard) = driver.volume_exclusive_waiting(id)?;
                storage::check_present(driver, &volume)?;
                Ok(Origin {
                    backend: volume.backend,
                    size_bytes: volume.capacity_bytes,
                    fs: volume.fs,
                    path: driver.layout.volume(&volume.key),
                    volume: Some(volume),
                    _guard: guard,
                })
            }
        }
    }

    fn copy_to(&self, driver: &Driver, volume: &Volume) -> Result<storage::NewData> {
        let _frozen = match &self.volume {
            Some(source) => source.backend().quiesce(driver, source)?,
            None => None,
        };
        volume.backend().copy(driver, &self.path, volume)
    }
}
