//! Checks that no reply contains a secret.

use csi_harness::config::Pairs;
use csi_harness::prelude::*;

use super::{ask_around, report};

/// It is long and unique, so that it is not found by chance.
const MARKER: &str = "csi-sanity-secret-8c1f0e5b7d2a4936";

/// Returns the configured secrets of an RPC, with the marker under its own key.
fn marked(cx: &Cx, rpc: &str) -> Pairs {
    let mut secrets = cx.config().secrets_for(rpc).cloned().unwrap_or_default();
    secrets.insert("csi-sanity-marker".to_owned(), MARKER.to_owned());
    secrets
}

fn without_marker<T: std::fmt::Debug>(answer: Result<T, Refused>, rpc: &str) -> CheckResult {
    let (text, where_) = match &answer {
        Ok(response) => (format!("{response:?}"), "the response"),
        Err(refused) => (refused.message.clone(), "the message of the error"),
    };
    ensure!(
        !text.contains(MARKER),
        "{rpc} returns a secret";
        expected: "secrets neither in responses nor in errors",
        actual: format!("the value of a secret in {where_}")
    );
    Ok(())
}

check! {
    /// Responses and errors are stored, logged and shown to users.
    NOT_GIVEN_BACK {
        id: "every-reply/secrets/not-given-back",
        title: "no reply contains a secret that was sent",
        spec: [req::GEN_SECRET_001],
        needs: [CREATE_DELETE_VOLUME],
        refuted_by: ["secrets-in-errors", "create-volume-context-holds-secrets"],
        runs: CrashProne,
    }
    async |cx| {
        let secrets = marked(cx, "CreateVolume");
        let request = v1::CreateVolumeRequest { secrets, ..cx.create_volume_request() };
        let nameless = v1::CreateVolumeRequest { name: String::new(), ..request.clone() };
        // A driver may reject the additional key, but must not quote its value.
        without_marker(cx.create_volume(request).await.any_answer()?, "CreateVolume")?;
        without_marker(cx.create_volume(nameless).await.any_answer()?, "CreateVolume")?;
        let delete =
            v1::DeleteVolumeRequest { volume_id: String::new(), secrets: marked(cx, "DeleteVolume") };
        without_marker(cx.call(delete).await.any_answer()?, "DeleteVolume")
    }
}

check! {
    /// Mount options may contain passwords, and other people than their author read errors.
    MOUNT_FLAGS {
        id: "every-reply/secrets/mount-flags",
        title: "no error quotes mount_flags",
        spec: [req::MSG_VOLCAP_002],
        needs: [CREATE_DELETE_VOLUME, MOUNT_ACCESS],
        refuted_by: ["mount-flags-in-errors"],
        runs: CrashProne,
    }
    async |cx| {
        use v1::volume_capability::{AccessType as Kind, MountVolume};
        let mut capability = cx.capability();
        capability.access_type =
            Some(Kind::Mount(MountVolume { mount_flags: vec![MARKER.to_owned()], ..Default::default() }));
        let mut request = cx.create_volume_request();
        request.volume_capabilities = vec![capability];
        request.name.clear();
        if let Err(refused) = cx.create_volume(request).await.any_answer()?
            && refused.message.contains(MARKER)
        {
            // The readers of errors are not defined, and quoting a flag to its sender is common.
            cx.warn(
                Violation::new("an error that is not about mount_flags quotes them")
                    .expected("an error without mount_flags, which may be sensitive")
                    .actual(refused),
            );
        }
        Ok(())
    }
}

check! {
    /// The user's secrets must not be in any reply, for example in a list, a later error, or a reply of a
    /// node.
    CONFIGURED {
        id: "every-reply/secrets/configured",
        title: "no reply contains a secret of the configuration",
        spec: [req::GEN_SECRET_001],
        refuted_by: ["secrets-in-errors", "ends-of-secrets-in-errors", "create-volume-context-holds-secrets"],
        runs: Finally,
    }
    async |cx| {
        if !cx.target().looks_for_secrets() {
            return Err(Stop::skip(
                "needs a configured secret of 12 bytes or more, with letters and digits, so that it is not found by chance",
            ));
        }
        let asked = ask_around(cx).await;
        if cx.target().capabilities().has(Capability::CreateDeleteVolume) {
            // The driver words the error itself; other checks judge whether it rejects the request.
            let nameless = v1::CreateVolumeRequest { name: String::new(), ..cx.create_volume_request() };
            let _ = cx.create_volume(nameless).await.any_answer();
        }
        let breaches = cx.target().breaches(&req::GEN_SECRET_001);
        report(asked, &req::GEN_SECRET_001, &breaches, "a reply contains a secret of the configuration", "secrets neither in responses nor in errors")
    }
}

pub(crate) static CHECKS: &[&Check] = &[&NOT_GIVEN_BACK, &MOUNT_FLAGS, &CONFIGURED];
