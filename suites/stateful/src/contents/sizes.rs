//! Sizes that drivers round, and what is there of them.

use csi_harness::prelude::*;
use csi_model::call::Size;

use super::script::{Script, ScriptContext, v};
use crate::sequence::PlannedStep;

pub(super) fn all(context: &ScriptContext<'_>) -> Vec<Vec<PlannedStep>> {
    let (bytes, larger) = (context.profile.size_bytes, context.profile.larger_bytes);
    let uneven = bytes.saturating_add(1);
    let exactly = |bytes| Size { required_bytes: bytes, limit_bytes: bytes };
    let mut sizes = vec![
        Size::at_least(uneven),
        exactly(bytes),
        exactly(uneven),
        Size { required_bytes: uneven, limit_bytes: larger },
        Size { required_bytes: 0, limit_bytes: larger },
    ];
    if context.usage.access == AccessType::Block {
        // A file system needs some room of its own, and how much only the driver knows.
        sizes.push(Size::at_least(1));
    }
    sizes.into_iter().map(|size| of_size(context, size, larger).done()).collect()
}

/// Made, filled to the end, grown by a number that is a multiple of nothing, and filled again.
fn of_size<'a>(context: &'a ScriptContext<'a>, size: Size, larger: i64) -> Script<'a> {
    let made =
        context.script().volume_of(v(0), size).used(v(0)).reads(v(0)).writes(v(0)).reads(v(0)).unused(v(0));
    let grown = made.looked_at(v(0)).expanded(v(0), larger.saturating_add(1));
    grown.used(v(0)).reads(v(0)).writes(v(0)).unused(v(0)).looked_at(v(0))
}
