//! Sizes that may be requested: those that are known to work, and others that are legal but that a driver may refuse.

use super::View;
use crate::call::{CreateSpec, Size};
use crate::call_context::DriverProfile;
use crate::state::VolumeLife;
use crate::state_set::StateSet;

/// The weight of a size that is known to work, relative to others.
const KNOWN_WEIGHT: usize = 3;

/// Sizes of new volumes.
pub(super) fn of_new_volumes(view: &View<'_>) -> Vec<Size> {
    let DriverProfile { size_bytes, larger_bytes, .. } = *view.profile;
    let known = [Size::at_least(size_bytes), Size::at_least(larger_bytes), between(size_bytes, larger_bytes)];
    let mut sizes: Vec<Size> = known.into_iter().flat_map(|size| vec![size; KNOWN_WEIGHT]).collect();
    sizes.extend([at_most(larger_bytes), exactly(size_bytes)]);
    sizes.extend(uneven(size_bytes, larger_bytes));
    sizes.extend(extremes(view).map(exactly));
    sizes
}

/// Sizes that are asked for under the name of a volume that was made otherwise.
pub(super) fn of_made_volume(view: &View<'_>, life: &VolumeLife) -> Vec<Size> {
    let CreateSpec { size, source, .. } = &life.wanted;
    if source.is_some() {
        return Vec::new();
    }
    let larger = Some(view.profile.larger_bytes).filter(|larger| size.required_bytes < *larger);
    let others = extremes(view).filter(|bytes| *bytes != life.size_bytes);
    larger.map(Size::at_least).into_iter().chain(others.map(exactly)).collect()
}

/// Sizes that a volume is expanded to.
pub(super) fn of_expansion(view: &View<'_>, life: Option<&VolumeLife>) -> Vec<Size> {
    let (present, larger) = (life.map_or(0, |life| life.size_bytes), view.profile.larger_bytes);
    let mut sizes = vec![Size::at_least(larger)];
    if present > 0 {
        sizes.extend([Size::at_least(present), exactly(present)]);
        sizes.extend(uneven(present, larger));
    }
    sizes
}

/// The smallest and the largest size that the driver has answered for a volume that exists.
fn extremes(view: &View<'_>) -> impl Iterator<Item = i64> + use<> {
    let lives = view.model.volumes.values().filter_map(StateSet::certain).filter_map(|one| one.life.as_ref());
    let sizes = || lives.clone().map(|life| life.size_bytes).filter(|bytes| *bytes > 0);
    sizes().min().into_iter().chain(sizes().max())
}

/// Just above one size and below another, which is a multiple of nothing: at least, exactly, and in a range.
fn uneven(above: i64, below: i64) -> Vec<Size> {
    let bytes = above.saturating_add(1);
    match bytes < below {
        true => vec![Size::at_least(bytes), exactly(bytes), between(bytes, below)],
        false => Vec::new(),
    }
}

fn exactly(bytes: i64) -> Size {
    between(bytes, bytes)
}

fn at_most(limit_bytes: i64) -> Size {
    between(0, limit_bytes)
}

fn between(required_bytes: i64, limit_bytes: i64) -> Size {
    Size { required_bytes, limit_bytes }
}
