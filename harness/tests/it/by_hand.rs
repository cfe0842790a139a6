//! A story names the command with which a user can see a failure without csi-sanity.

use csi_harness::config::{Config, Secret};
use csi_harness::prelude::*;

use crate::bench::{Bench, config};

/// The line with the command begins with this text.
const LABEL: &str = "  by hand      ";

/// Returns a request that the mock driver rejects.
fn rejected() -> v1::ValidateVolumeCapabilitiesRequest {
    v1::ValidateVolumeCapabilitiesRequest::default()
}

check! {
    /// Demands of one call that it is accepted.
    ALONE {
        id: "by-hand/alone",
        title: "one call is enough",
        spec: [req::CTRL_VALIDATE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        cx.call(rejected()).await.must("accept it")?;
        Ok(())
    }
}

check! {
    /// Demands it of a call that depends on another one.
    OF_A_VOLUME {
        id: "by-hand/of-a-volume",
        title: "the call needs a volume",
        spec: [req::CTRL_VALIDATE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let volume = cx.create_volume(cx.create_volume_request()).await.setup("a volume")?;
        let request = v1::ValidateVolumeCapabilitiesRequest { volume_id: volume.volume_id, ..rejected() };
        cx.call(request).await.must("accept it")?;
        Ok(())
    }
}

check! {
    /// Demands it of a call that is made twice.
    TWICE {
        id: "by-hand/twice",
        title: "two equal calls are enough",
        spec: [req::CTRL_DELETEVOL_001],
        refuted_by: ["none"],
    }
    async |cx| {
        for _ in 0..2 {
            cx.call(v1::DeleteVolumeRequest::default()).await.answer();
        }
        cx.call(v1::DeleteVolumeRequest::default()).await.must("accept it")?;
        Ok(())
    }
}

check! {
    /// Demands it of a call that no command line can have.
    LONG {
        id: "by-hand/long",
        title: "the request is long",
        spec: [req::CTRL_VALIDATE_001],
        refuted_by: ["none"],
    }
    async |cx| {
        let request = v1::ValidateVolumeCapabilitiesRequest { volume_id: "x".repeat(4_000), ..rejected() };
        cx.call(request).await.must("accept it")?;
        Ok(())
    }
}

/// Returns the line with the command of a check, and the lines that continue it.
async fn by_hand(check: &'static Check, config: Config) -> Vec<String> {
    let story = Bench::start(Default::default(), config).await.run(&[check]).await.stories;
    assert!(story.contains("INVALID_ARGUMENT"), "{story}");
    let lines = story.lines().skip_while(|line| !line.starts_with(LABEL));
    lines.take_while(|line| !line.starts_with("  repeat")).map(str::to_owned).collect()
}

#[tokio::test]
async fn one_call_that_shows_the_failure_has_a_command() {
    let lines = by_hand(&ALONE, config()).await;
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with(&format!("{LABEL}grpcurl -plaintext -unix ")), "{line}");
    assert!(line.ends_with("/csi.sock csi.v1.Controller/ValidateVolumeCapabilities"), "{line}");
}

#[tokio::test]
async fn a_call_that_needs_others_has_none() {
    assert_eq!(by_hand(&OF_A_VOLUME, config()).await, [""; 0]);
}

#[tokio::test]
async fn equal_calls_are_counted() {
    let lines = by_hand(&TWICE, config()).await;
    let [_, note] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(note.trim(), "make this call 3 times; the last one breaks the rule");
}

#[tokio::test]
async fn a_secret_is_left_to_the_reader() {
    let secret = Secret([("key".to_owned(), "hunter2".to_owned())].into());
    let secrets = [("ValidateVolumeCapabilities".to_owned(), secret)].into();
    let lines = by_hand(&ALONE, Config { secrets, ..config() }).await;
    let [line, note] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("${SECRET_KEY:?}") && !line.contains("hunter2"), "{line}");
    assert_eq!(note.trim(), "set each variable SECRET_… to the secret of that name first");
}

#[tokio::test]
async fn a_long_request_is_left_to_a_script() {
    let lines = by_hand(&LONG, config()).await;
    assert_eq!(lines[0], format!("{LABEL}csi-sanity export report.json by-hand/long"));
    assert!(lines[1].contains("too long") && lines.len() == 2, "{lines:?}");
}
