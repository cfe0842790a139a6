//! The checks of this suite end in every way that there is.

use csi_harness::checks::registry::{Checks, Suite};
use csi_harness::prelude::*;

/// This text is in a request, and must not be in any report.
pub(crate) const SECRET: &str = "hunter2";

check! {
    /// Passes.
    PASSES {
        id: "identity/get-plugin-info/answers",
        title: "GetPluginInfo is answered",
        spec: [req::ID_INFO_001],
        refuted_by: ["none"],
        access: Each,
    }
    async |cx| {
        cx.call(v1::GetPluginInfoRequest {}).await.must("answer")?;
        Ok(())
    }
}

check! {
    /// Fails.
    FAILS {
        id: "identity/probe/answers",
        title: "Probe is answered",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
        access: Each,
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

check! {
    /// Fails after a call with secrets.
    KEEPS_SECRETS {
        id: "controller/create-volume/answers",
        title: "CreateVolume works",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
    }
    async |cx| {
        let secrets = [("password".to_owned(), SECRET.to_owned())].into();
        let request = v1::CreateVolumeRequest { name: "fixed".into(), secrets, ..Default::default() };
        cx.call_as_it_is(request).await.must("make a volume")?;
        Ok(())
    }
}

check! {
    /// Shows the fault of another check again.
    FAILS_AGAIN {
        id: "controller/create-volume/repeated",
        title: "CreateVolume can be repeated",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        duplicate_of: "controller/create-volume/answers",
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: "fixed-3".into(), ..Default::default() };
        cx.call_as_it_is(request).await.must("make a volume")?;
        Ok(())
    }
}

check! {
    /// Warns.
    WARNS {
        id: "identity/get-plugin-info/recommended",
        title: "a recommendation is kept",
        spec: [req::ID_INFO_002],
        refuted_by: ["none"],
    }
    async |_cx| {
        ensure!(false, "the recommendation is not kept"; expected: "this", actual: "that");
        Ok(())
    }
}

check! {
    /// Skips.
    SKIPS {
        id: "controller/list-volumes/pages",
        title: "pages are whole",
        spec: [req::CTRL_LISTVOL_007],
        needs: [LIST_VOLUMES],
        refuted_by: ["none"],
    }
    async |_cx| {
        Ok(())
    }
}

check! {
    /// Cannot judge.
    BROKEN {
        id: "controller/delete-volume/known",
        title: "DeleteVolume removes a volume",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: "fixed-1".into(), ..Default::default() };
        cx.call_as_it_is(request).await.setup("a volume")?;
        Ok(())
    }
}

check! {
    /// Cannot judge for the same reason.
    BROKEN_TOO {
        id: "controller/delete-volume/again",
        title: "DeleteVolume can be repeated",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = v1::CreateVolumeRequest { name: "fixed-2".into(), ..Default::default() };
        cx.call_as_it_is(request).await.setup("another volume")?;
        Ok(())
    }
}

check! {
    /// Fails as listed.
    KNOWN {
        id: "identity/probe/known",
        title: "Probe is answered, it is said",
        spec: [req::ID_PROBE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::ProbeRequest {}).await.must("be answered")?;
        Ok(())
    }
}

check! {
    /// Passes although listed.
    UNEXPECTED {
        id: "identity/get-plugin-info/listed",
        title: "GetPluginInfo is answered, it is said not to be",
        spec: [req::ID_INFO_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(v1::GetPluginInfoRequest {}).await.must("answer")?;
        Ok(())
    }
}

check! {
    /// Fails once, and not when its case is replayed.
    FLAKY {
        id: "property/volumes",
        title: "every answer fits the model",
        spec: [req::CTRL_CREATEVOL_010],
        refuted_by: ["none"],
        varies: true,
    }
    async |cx| {
        cx.cut_short(12, 256, "sequences");
        Err(Violation::new("a volume is listed twice").replayed(1, 4).into())
    }
}

check! {
    /// Loses data once.
    FLAKY_LOSS {
        id: "data/sequences/copies",
        title: "a copy holds what its source held",
        spec: [req::CTRL_CREATEVOL_002],
        refuted_by: ["none"],
        varies: true,
    }
    async |_cx| {
        let violation = Violation::new("a file is gone").damage(Damage::DataLoss).expected("hello").actual("nothing");
        Err(violation.replayed(1, 4).into())
    }
}

check! {
    /// Fails each time its case is replayed.
    CONFIRMED {
        id: "property/snapshots",
        title: "every answer of a snapshot fits the model",
        spec: [req::CTRL_CREATESNAP_002],
        refuted_by: ["none"],
        varies: true,
    }
    async |_cx| {
        Err(Violation::new("a snapshot has another size").replayed(2, 2).into())
    }
}

/// This is the list of known failures of the run.
pub(crate) const KNOWN_FAILING: &str = "identity/probe/known  # the vendor mends it in v2\n\
                                        identity/get-plugin-info/listed  # was mended long ago\n";

pub(crate) const SUITE: Suite = Suite {
    name: "every-outcome",
    checks: Checks::Declared(&[&[
        &PASSES,
        &FAILS,
        &KEEPS_SECRETS,
        &FAILS_AGAIN,
        &WARNS,
        &SKIPS,
        &BROKEN,
        &BROKEN_TOO,
        &KNOWN,
        &UNEXPECTED,
        &FLAKY,
        &FLAKY_LOSS,
        &CONFIRMED,
    ]]),
    retired: &[],
};
