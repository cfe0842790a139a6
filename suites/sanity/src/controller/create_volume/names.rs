//! Checks names of volumes, which may be any Unicode and differ in any byte.

use csi_harness::prelude::*;
use csi_proto::Call as _;

use super::super::common::{Named, list_refusal, still_listed};

const NAME_BYTES_MAX: usize = 128;

/// Texts that any text field may contain; each follows a unique name.
const ODD_TEXTS: &[&str] = &[
    " with spaces ",
    "/slashed/../and/dotted",
    ".\"quoted\" 'twice' `thrice` $HOME \\",
    "\ttab\nand lines\r\n",
    "e\u{301} combined",
    "\u{1f4be}\u{1f680}",
    "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{645}\u{631}\u{62d}\u{628}\u{627}",
    "\u{6570}\u{636e}\u{5377}",
    "%s%n;--",
];

/// Pairs of texts that look alike, or that a careless comparison treats as equal.
const ALIKE: &[(&str, &str)] = &[("ab", "AB"), ("ab", "ab "), ("\u{e9}", "e\u{301}")];

/// Makes a volume of a name, or returns the error.
async fn make(cx: &Cx, name: &str) -> CheckResult<Result<v1::Volume, Refused>> {
    let request = v1::CreateVolumeRequest { name: name.to_owned(), ..cx.create_volume_request() };
    cx.create_volume(request).await.any_answer()
}

/// Makes volumes of two names, or returns `None` if one of them is rejected.
async fn make_both(cx: &Cx, one: &str, other: &str) -> CheckResult<Option<(String, String)>> {
    let (Ok(first), Ok(second)) = (make(cx, one).await?, make(cx, other).await?) else { return Ok(None) };
    Ok(Some((first.volume_id, second.volume_id)))
}

check! {
    /// Orchestrators and users choose names, which are dangerous in paths and commands.
    ANY_TEXT {
        id: "controller/create-volume/any-name",
        title: "CreateVolume takes any Unicode name without control characters",
        spec: [req::CTRL_CREATEVOL_014, req::CTRL_CREATEVOL_001, req::CTRL_CREATEVOL_002, req::CTRL_LISTVOL_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: [
            "create-volume-refuses-unicode-names",
            "create-volume-internal-on-path-names",
            "list-volumes-fails-on-unusual-names",
            "create-volume-fails-after-quotes",
        ],
        runs: UnusualInput,
    }
    async |cx| {
        cx.new_volume().await?;
        let listed = list_refusal(cx, &Named::Volumes).await?.is_none();
        let mut refusals = Vec::new();
        for text in ODD_TEXTS {
            let name = format!("{}{text}", cx.unique_name());
            if name.len() > cx.config().name_length_max {
                continue;
            }
            match make(cx, &name).await? {
                Ok(volume) => {
                    if listed {
                        still_listed(cx, &Named::Volumes, &name).await?;
                    }
                    repeat_and_delete(cx, &name, &volume).await?;
                }
                Err(refused) => refusals.push((name, refused)),
            }
        }
        let Some((_, last)) = refusals.last() else { return Ok(()) };
        let rejected_with = last.code;
        let refusals: Vec<String> =
            refusals.iter().map(|(name, refused)| format!("{name:?}: {refused}")).collect();
        let message = format!("{} of {} unusual names are rejected", refusals.len(), ODD_TEXTS.len());
        let violation = Violation::new(message)
            .expected("OK for any Unicode name within the length limit")
            .actual(refusals.join("; "));
        // The call to mark is a rejected one, and not the last one of the RPC. After a name that has made the driver reject even plain
        // names, the names before that one are the evidence, and not a single rejection.
        match make(cx, &cx.unique_name()).await? {
            Ok(_) => Err(violation.refused(v1::CreateVolumeRequest::RPC, rejected_with).into()),
            Err(_) => Err(violation.into()),
        }
    }
}

async fn repeat_and_delete(cx: &Cx, name: &str, volume: &v1::Volume) -> CheckResult {
    if let Ok(again) = make(cx, name).await? {
        ensure!(
            again.volume_id == volume.volume_id,
            "a repeated request with the name {name:?} creates another volume";
            of: &req::CTRL_CREATEVOL_002,
            expected: format!("volume_id {:?}", volume.volume_id),
            actual: format!("volume_id {:?}", again.volume_id)
        );
    }
    cx.delete_volume(&volume.volume_id).setup("a deleted volume").await?;
    Ok(())
}

check! {
    /// An orchestrator may send the longest name that the protocol permits.
    LONGEST {
        id: "controller/create-volume/longest-name",
        title: "CreateVolume takes a name of 128 bytes",
        spec: [req::GEN_SIZE_003, req::CTRL_CREATEVOL_014, req::CTRL_CREATEVOL_002],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-refuses-long-names"],
        replaces: [
            "Controller Service [Controller Server] CreateVolume should not fail when creating volume with maximum-length name",
        ],
        runs: UnusualInput,
    }
    async |cx| {
        cx.new_volume().await?;
        let name = cx.unique_name_of_length(NAME_BYTES_MAX);
        let request = v1::CreateVolumeRequest { name: name.clone(), ..cx.create_volume_request() };
        let made = cx.create_volume(request).await.must(&format!("accept a name of {} bytes", name.len()));
        if made.is_err() {
            cx.note("with --name-length-max N, the run sends no longer names, for a back end that cannot store them");
        }
        repeat_and_delete(cx, &name, &made?).await
    }
}

check! {
    /// A driver that truncates names gives one user the data of another.
    DIFFER_AT_THE_END {
        id: "controller/create-volume/long-names-differ",
        title: "long names that differ in their last byte only are names of two volumes",
        spec: [req::MSG_VOLUME_003, req::CTRL_CREATEVOL_014],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-truncates-names"],
        runs: UnusualInput,
    }
    async |cx| {
        cx.new_volume().await?;
        let length = NAME_BYTES_MAX.min(cx.config().name_length_max) - 1;
        let start = cx.unique_name_of_length(length);
        let names = (format!("{start}a"), format!("{start}b"));
        let Some((first, second)) = make_both(cx, &names.0, &names.1).await? else {
            return Err(Stop::skip("long names are rejected"));
        };
        ensure!(
            first != second,
            "two long names that differ in the last byte got the same volume";
            expected: format!("two volumes for {:?} and {:?}", names.0, names.1),
            actual: format!("volume_id {first:?} for both")
        );
        Ok(())
    }
}

check! {
    /// Names are compared byte by byte. If a back end ignores case or spaces, its driver has to distinguish the
    /// names.
    ALIKE_NAMES {
        id: "controller/create-volume/similar-names",
        title: "names that differ in case, trailing space or normal form are names of two volumes",
        spec: [req::CTRL_CREATEVOL_016],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-folds-case", "create-volume-trims-names"],
        runs: UnusualInput,
    }
    async |cx| {
        cx.new_volume().await?;
        for (one, other) in ALIKE {
            let start = cx.unique_name();
            let names = (format!("{start}{one}"), format!("{start}{other}"));
            let Some((first, second)) = make_both(cx, &names.0, &names.1).await? else { continue };
            ensure!(
                first != second,
                "two similar names got the same volume";
                expected: format!("two volumes for {:?} and {:?}", names.0, names.1),
                actual: format!("volume_id {first:?} for both")
            );
        }
        Ok(())
    }
}

check! {
    /// A caller that exceeds the limit may get any error, but must not crash the driver.
    TOO_LONG {
        id: "controller/create-volume/too-long-name",
        title: "CreateVolume with a name beyond the limit is answered",
        spec: [req::GEN_ERR_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-crashes-on-long-names"],
        runs: CrashProne,
    }
    async |cx| {
        for length in [NAME_BYTES_MAX + 1, 64 << 10] {
            let start = cx.unique_name();
            let name = format!("{start}{}", "x".repeat(length - start.len()));
            let _ = make(cx, &name).await?;
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&ANY_TEXT, &LONGEST, &DIFFER_AT_THE_END, &ALIKE_NAMES, &TOO_LONG];
