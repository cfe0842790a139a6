//! Uses ids that no driver made, in forms that are common elsewhere.

use csi_harness::prelude::*;

use crate::codes::survives;
use crate::injection_points::TextRole;
use crate::rules::HOSTILE_CODE_001;
use crate::sweep::with_texts;

check! {
    /// Kubelet generates the ids of inline volumes, other drivers of a vendor use other formats, and
    /// administrators write some ids by hand. Each id has a random part, so it names no existing volume.
    FORMS {
        id: "hostile/ids/forms",
        title: "an id in an unexpected format is rejected or treated as unknown, and the driver survives",
        spec: [HOSTILE_CODE_001, req::GEN_ERR_001],
        needs: [VOLUME],
        refuted_by: [
            "create-snapshot-panics-on-unknown-volume",
            "node-get-volume-stats-panics-on-inline-ids",
            "node-get-volume-stats-panics-on-unknown-volume",
        ],
        runs: CrashProne,
    }
    async |cx| {
        let texts = forms(cx);
        survives(cx, |request| with_texts(request, &[TextRole::Id], &[], &texts)).await
    }
}

/// Returns the form of kubelet's inline volumes, a UUID, handles with parts, a cloud resource, a number, and letters
/// of several bytes.
fn forms(cx: &Cx) -> Vec<String> {
    let mut rng = cx.rng();
    let number = rng.u32(100_000_000..);
    let mut hex = |digits: usize| -> String { (0..digits).map(|_| rng.digit(16)).collect() };
    let uuid = [8, 4, 4, 4, 12].map(&mut hex).join("-");
    vec![
        format!("csi-{}", hex(64)),
        uuid.clone(),
        format!("pvc-{uuid}"),
        format!("{uuid}#pvc-{uuid}#"),
        format!("0001-0009-csi-sanity-{uuid}"),
        format!("projects/csi-sanity/zones/none/disks/{uuid}"),
        format!("999999999999999999{number}"),
        format!("{}\u{e9}\u{20ac}", hex(8)),
    ]
}

pub(crate) static CHECKS: &[&Check] = &[&FORMS];
