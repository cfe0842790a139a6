//! Converts access modes of Kubernetes as each component does.

use csi_harness::prelude::Mode;

use crate::cluster::AccessMode;

/// Converts one mode. `finer` says whether the component knows the finer modes, such as `SINGLE_NODE_MULTI_WRITER`.
pub(super) fn of_one(mode: AccessMode, finer: bool) -> Mode {
    match (mode, finer) {
        (AccessMode::ReadWriteOnce, false) | (AccessMode::ReadWriteOncePod, false) => Mode::SingleNodeWriter,
        (AccessMode::ReadWriteOnce, true) => Mode::SingleNodeMultiWriter,
        (AccessMode::ReadWriteOncePod, true) => Mode::SingleNodeSingleWriter,
        (AccessMode::ReadOnlyMany, _) => Mode::MultiNodeReaderOnly,
        (AccessMode::ReadWriteMany, _) => Mode::MultiNodeMultiWriter,
    }
}

/// Combines all modes of a volume into one, as attacher and resizer do.
///
/// # Errors
/// Fails if the modes cannot be combined.
pub(super) fn of_all(modes: &[AccessMode], finer: bool) -> Result<Mode, String> {
    let has = |mode| modes.contains(&mode);
    if has(AccessMode::ReadWriteMany) {
        return Ok(Mode::MultiNodeMultiWriter);
    }
    if has(AccessMode::ReadWriteOncePod) && modes.len() > 1 {
        return Err("ReadWriteOncePod does not go with other access modes".to_owned());
    }
    if has(AccessMode::ReadOnlyMany) && has(AccessMode::ReadWriteOnce) {
        return Err("ReadOnlyMany and ReadWriteOnce do not go together".to_owned());
    }
    let first = modes.first().ok_or("the volume has no access mode")?;
    Ok(of_one(*first, finer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use AccessMode::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};

    #[test]
    fn sets_of_modes_have_one_that_wins() {
        assert_eq!(of_all(&[ReadWriteOnce, ReadWriteMany], true), Ok(Mode::MultiNodeMultiWriter));
        assert_eq!(of_all(&[ReadWriteOnce], false), Ok(Mode::SingleNodeWriter));
        assert_eq!(of_all(&[ReadWriteOnce], true), Ok(Mode::SingleNodeMultiWriter));
        assert_eq!(of_all(&[ReadWriteOncePod], true), Ok(Mode::SingleNodeSingleWriter));
        assert_eq!(of_all(&[ReadOnlyMany], true), Ok(Mode::MultiNodeReaderOnly));
        for wrong in [&[ReadWriteOncePod, ReadWriteOnce][..], &[ReadOnlyMany, ReadWriteOnce], &[]] {
            assert!(of_all(wrong, true).is_err(), "{wrong:?}");
        }
    }
}
