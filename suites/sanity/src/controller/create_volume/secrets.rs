//! The secrets of CreateVolume may be any that a caller may send, not only those that the driver reads.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;

/// The limit of the protocol on a string map.
const MAP_BYTES_MAX: usize = 4 << 10;
/// The space of an entry besides its text, because the protocol leaves open whether that counts.
const ENTRY_BYTES_MAX: usize = 16;

/// Returns the configured secrets of CreateVolume with an additional one, which fills the map up to the limit, or is
/// small.
fn filled(cx: &Cx, fill: bool) -> Pairs {
    const KEY: &str = "csi-sanity-filler";
    let mut secrets = cx.config().secrets_for("CreateVolume").cloned().unwrap_or_default();
    let entry_bytes = |key: &str, value: &str| key.len() + value.len() + ENTRY_BYTES_MAX;
    let taken: usize = secrets.iter().map(|(key, value)| entry_bytes(key, value)).sum();
    let free = MAP_BYTES_MAX.saturating_sub(taken + entry_bytes(KEY, ""));
    secrets.insert(KEY.to_owned(), "x".repeat(if fill { free } else { free.min(1) }));
    secrets
}

check! {
    /// Certificates and keys are longer than passwords.
    LARGE {
        id: "controller/create-volume/large-secrets",
        title: "CreateVolume takes secrets of nearly 4 KiB",
        spec: [req::GEN_SIZE_004],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-refuses-large-secrets"],
        runs: UnusualInput,
    }
    async |cx| {
        // A driver may reject an unknown key of any size.
        let small = v1::CreateVolumeRequest { secrets: filled(cx, false), ..cx.create_volume_request() };
        cx.create_volume(small).await.or_skip("the driver accepts no secrets but its own")?;
        let large = v1::CreateVolumeRequest { secrets: filled(cx, true), ..cx.create_volume_request() };
        cx.create_volume(large).await.must("accept secrets of nearly 4 KiB like small ones")?;
        Ok(())
    }
}

/// Returns the secrets of all RPCs in one map; skips if all RPCs have equal secrets.
fn merged(cx: &Cx) -> CheckResult<Pairs> {
    let mut merged = Pairs::new();
    for (key, value) in cx.config().secrets.values().flat_map(|secret| &secret.0) {
        if merged.insert(key.clone(), value.clone()).is_some_and(|other| other != *value) {
            return Err(Stop::skip(format!("secrets for two RPCs have two values of {key:?}")));
        }
    }
    let lacks = |rpc| cx.config().secrets_for(rpc).is_none_or(|own| own.len() < merged.len());
    match merged.is_empty() || !(lacks("CreateVolume") || lacks("DeleteVolume")) {
        true => Err(Stop::skip("no other RPC has secrets besides those of CreateVolume and DeleteVolume")),
        false => Ok(merged),
    }
}

check! {
    /// A cluster has one Secret per storage class, with the keys of all operations.
    MERGED {
        id: "controller/create-volume/secrets-of-all-rpcs",
        title: "CreateVolume and DeleteVolume take the secrets of all RPCs at once",
        spec: [req::GEN_SECRET_008],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["create-volume-refuses-surplus-secrets"],
    }
    async |cx| {
        let with_all = cx.with_secrets(merged(cx)?);
        let separate = cx.new_volume().await?;
        cx.delete_volume(&separate.volume_id).setup("a volume that is deleted").await?;
        let made = with_all.create_volume(with_all.create_volume_request()).await;
        let volume = made.must("accept secrets of other RPCs besides its own")?;
        let deleted = with_all.delete_volume(&volume.volume_id).await;
        deleted.must("accept secrets of other RPCs besides its own")?;
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[&LARGE, &MERGED];
