//! Checks which objects are removed, in which order, and which stay.

use std::sync::Mutex;
use std::time::Duration;

use csi_harness::prelude::Stop;
use csi_harness::resources::cleanup::Cleanup as _;
use csi_suite_e2e::cluster::{
    Cluster as _, Container, PersistentVolume, PodSpec, PvcPhase, PvcSpec, ReclaimPolicy, SnapshotClass,
    SnapshotOrigin, SnapshotSpec, StorageClass,
};
use csi_suite_e2e::kube_cluster::KubeCluster;
use csi_suite_e2e::kube_cluster::cleanup::{Cleanup, clean_up};
use serde_json::json;
use tokio::time::Instant;

use super::api::Api;
use super::controllers::DRIVER;
use super::{NAMESPACE, broken, claim, class, cluster, namespace, server, with_claim};

/// A test makes objects of these kinds outside of namespaces.
const OUTSIDE: &[&str] =
    &["namespaces", "persistentvolumes", "storageclasses", "volumesnapshotclasses", "volumesnapshotcontents"];

fn retaining() -> SnapshotClass {
    let (name, driver) = ("class-1".to_owned(), DRIVER.to_owned());
    SnapshotClass { name, driver, deletion_policy: ReclaimPolicy::Retain, ..SnapshotClass::default() }
}

fn snapshot(origin: SnapshotOrigin) -> SnapshotSpec {
    SnapshotSpec { name: "snapshot-0".to_owned(), class: "class-1".to_owned(), origin }
}

fn pod() -> PodSpec {
    let containers = vec![Container { name: "c".to_owned(), ..Container::default() }];
    PodSpec { name: "pod-0".to_owned(), containers, ..PodSpec::default() }
}

/// Adds objects of other users of the cluster.
fn others(api: &Api) {
    api.has("namespaces", json!({ "metadata": { "name": "theirs" } }));
    api.has("namespaces", json!({ "metadata": { "name": format!("{NAMESPACE}0") } }));
    api.has("storageclasses", json!({ "metadata": { "name": format!("{NAMESPACE}-mine") } }));
    api.has("persistentvolumes", json!({
        "metadata": { "name": "pv-of-others" },
        "spec": { "claimRef": { "namespace": "theirs", "name": "claim-0" }, "persistentVolumeReclaimPolicy": "Retain" },
    }));
}

/// Lets the time of the run be over, so that its objects may be removed. Returns what the cleanup does and says.
async fn cleaned_after_the_run(api: &Api) -> (Cleanup, Vec<String>) {
    const ENDS_BY: &str = "csi-sanity/ends-by-seconds";
    api.store(|store| {
        for ((resource, _, _), mut object) in store.objects.clone() {
            if object["metadata"]["annotations"].get(ENDS_BY).is_some() {
                object["metadata"]["annotations"][ENDS_BY] = "1700000000".into();
                store.put(&resource, object);
            }
        }
    });
    let lines = Mutex::new(Vec::new());
    let say = |line: &str| lines.lock().unwrap().push(line.to_owned());
    let done = clean_up(&server(api).await, say).await.unwrap();
    (done, lines.into_inner().unwrap())
}

/// Takes a snapshot of the claim.
async fn take_snapshot(real: &KubeCluster, class: &SnapshotClass) {
    real.create_snapshot_class(class).await.unwrap();
    real.create_snapshot(&snapshot(SnapshotOrigin::Claim("claim-0".to_owned()))).await.unwrap();
}

/// Lets another client change the claim.
fn lose_claim(api: &Api) {
    let mut object = api.object("persistentvolumeclaims", NAMESPACE, "claim-0").unwrap();
    object["status"]["phase"] = "Lost".into();
    api.has("persistentvolumeclaims", object);
}

fn outside(api: &Api) -> Vec<String> {
    OUTSIDE.iter().flat_map(|resource| api.names(resource)).collect()
}

fn of_others() -> Vec<String> {
    [&format!("{NAMESPACE}0"), "theirs", "pv-of-others", &format!("{NAMESPACE}-mine")]
        .map(str::to_owned)
        .to_vec()
}

#[tokio::test]
async fn pods_go_first_and_what_others_have_stays() {
    let api = cluster();
    others(&api);
    let real = with_claim(&api).await;
    real.create_pod(&pod()).await.unwrap();
    take_snapshot(&real, &retaining()).await;
    api.store(|store| store.asked.clear());
    real.close().await.unwrap();
    assert_eq!(outside(&api), of_others());
    let changes = api.store(|store| store.asked.clone());
    let changes: Vec<String> = changes.into_iter().filter(|asked| !asked.starts_with("GET")).collect();
    let content =
        changes.iter().find_map(|asked| asked.strip_prefix("PATCH volumesnapshotcontents ")).unwrap();
    assert_eq!(
        changes,
        [
            "DELETE pods pod-0",
            &format!("PATCH volumesnapshotcontents {content}"),
            "DELETE volumesnapshots snapshot-0",
            &format!("DELETE volumesnapshotcontents {content}"),
            "DELETE persistentvolumeclaims claim-0",
            &format!("DELETE namespaces {NAMESPACE}"),
            &format!("DELETE storageclasses {NAMESPACE}-class-0"),
            &format!("DELETE volumesnapshotclasses {NAMESPACE}-class-1"),
        ]
    );
    api.store(|store| store.asked.clear());
    real.remove().await.unwrap();
    assert_eq!(api.store(|store| store.asked.clone()), [""; 0], "nothing is left to do");
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_misses_a_deletion_is_reminded() {
    let api = cluster();
    api.store(|store| store.misses_deletions = true);
    let real = with_claim(&api).await;
    let class = SnapshotClass { deletion_policy: ReclaimPolicy::Delete, ..retaining() };
    take_snapshot(&real, &class).await;
    real.delete_snapshot("snapshot-0").await.unwrap();
    api.store(|store| store.asked.clear());
    let reminded =
        || api.store(|store| store.asked.iter().filter(|asked| asked.starts_with("PATCH")).count());
    let began = Instant::now();
    while real.snapshot("snapshot-0").await.unwrap().is_some() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing reminds it");
        real.changed().await;
    }
    assert_eq!(reminded(), 1);
    real.create_snapshot(&snapshot(SnapshotOrigin::Claim("claim-0".to_owned()))).await.unwrap();
    real.close().await.unwrap();
    assert_eq!(outside(&api), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_content_of_a_snapshot_gone_first_is_marked() {
    for (contents, reference, mark) in [
        (
            "volumesnapshotcontents",
            "volumeSnapshotRef",
            "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted",
        ),
        (
            "volumegroupsnapshotcontents",
            "volumeGroupSnapshotRef",
            "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted",
        ),
    ] {
        let api = cluster();
        let real = with_claim(&api).await;
        api.has(
            contents,
            json!({
                "metadata": { "name": "alone", "finalizers": ["held"] },
                "spec": { "deletionPolicy": "Delete", reference: { "namespace": NAMESPACE, "name": "gone" } },
            }),
        );
        let closing = async { tokio::time::timeout(Duration::from_secs(40), real.close()).await };
        assert!(closing.await.is_err(), "its finalizer stays");
        let content = api.object(contents, "", "alone").unwrap();
        assert_eq!(
            content["metadata"]["annotations"],
            json!({ "csi-sanity/reminded-times": "1", mark: "yes" })
        );
    }
}

#[tokio::test]
async fn retained_volumes_go_and_static_ones_keep_data() {
    let api = cluster();
    let real = namespace(&api).await;
    real.create_storage_class(&StorageClass { reclaim_policy: ReclaimPolicy::Retain, ..class("class-0") })
        .await
        .unwrap();
    real.create_pvc(&claim("claim-0", "class-0")).await.unwrap();
    let by_hand = PersistentVolume {
        name: "volume-1".to_owned(),
        handle: "shared".to_owned(),
        reclaim: ReclaimPolicy::Retain,
        claim: Some("claim-1".to_owned()),
        ..PersistentVolume::default()
    };
    real.create_volume(&by_hand).await.unwrap();
    let bound = PvcSpec { volume: Some("volume-1".to_owned()), ..claim("claim-1", "") };
    real.create_pvc(&bound).await.unwrap();
    api.store(|store| store.asked.clear());
    real.close().await.unwrap();
    assert_eq!(outside(&api), [""; 0]);
    let patched: Vec<String> =
        api.store(|store| store.asked.clone()).into_iter().filter(|one| one.starts_with("PATCH")).collect();
    let [one] = &patched[..] else { panic!("{patched:?}") };
    assert!(one.starts_with("PATCH persistentvolumes pvc-"), "{one}");
}

#[tokio::test]
async fn a_retained_snapshot_goes_with_its_content() {
    let api = cluster();
    let real = with_claim(&api).await;
    take_snapshot(&real, &retaining()).await;
    let content = api.names("volumesnapshotcontents").remove(0);
    let held = ("volumesnapshotcontents".to_owned(), String::new(), content.clone());
    api.store(|store| {
        let mut object = store.objects[&held].clone();
        object["metadata"]["finalizers"] = json!(["held"]);
        store.put("volumesnapshotcontents", object);
    });
    real.delete_snapshot("snapshot-0").await.unwrap();
    assert_eq!(api.names("volumesnapshots"), [""; 0]);
    let is_going = || {
        api.object("volumesnapshotcontents", "", &content).unwrap()["metadata"]
            .get("deletionTimestamp")
            .is_some()
    };
    assert!(!is_going(), "not before its snapshot is seen to be gone");
    let error = real.snapshot("snapshot-0").await.unwrap().unwrap().error.unwrap();
    assert_eq!(error, format!("its content {content} still exists"));
    assert!(is_going());
    api.store(|store| store.remove(&held));
    assert_eq!(real.snapshot("snapshot-0").await.unwrap(), None);
}

#[tokio::test]
async fn an_untouched_cluster_is_not_asked() {
    let api = cluster();
    let real = namespace(&api).await;
    api.store(|store| store.asked.clear());
    real.close().await.unwrap();
    api.store(|store| store.refused.insert("POST namespaces".to_owned()));
    broken(real.create_storage_class(&class("class-0")).await.unwrap_err());
    real.close().await.unwrap();
    assert_eq!(api.store(|store| store.asked.clone()), ["POST namespaces"]);
}

#[tokio::test]
async fn what_is_refused_keeps_nothing_else_from_going() {
    let api = cluster();
    let real = with_claim(&api).await;
    api.store(|store| store.refused.insert("DELETE storageclasses".to_owned()));
    let why = broken(real.close().await.unwrap_err());
    assert!(why.contains("delete StorageClass") && why.contains("403 Forbidden"), "{why}");
    assert_eq!(outside(&api), [format!("{NAMESPACE}-class-0")]);
    api.store(|store| store.refused.clear());
    real.remove().await.unwrap();
    assert_eq!(outside(&api), [""; 0], "and the next try has it");
}

#[tokio::test(start_paused = true)]
async fn stuck_objects_are_named_with_holders_and_events() {
    let api = cluster();
    let real = with_claim(&api).await;
    let volume = api.names("persistentvolumes").remove(0);
    // The emulated controllers do not end a volume without a status.
    api.store(|store| {
        let key = ("persistentvolumes".to_owned(), String::new(), volume.clone());
        let mut object = store.objects[&key].clone();
        object.as_object_mut().unwrap().remove("status");
        object["metadata"]["managedFields"] = json!([{ "manager": "somebody" }]);
        store.put("persistentvolumes", object);
    });
    api.has(
        "events",
        json!({
            "metadata": { "name": "e", "namespace": NAMESPACE },
            "involvedObject": { "kind": "PersistentVolumeClaim", "name": "claim-0" },
            "reason": "Provisioning", "message": "made", "lastTimestamp": "2026-11-22T22:53:51Z",
        }),
    );
    let evidence = real.evidence().await.join("\n");
    assert!(evidence.contains("PersistentVolumeClaim claim-0: Provisioning: made"), "{evidence}");
    assert!(evidence.contains(&format!("volumeHandle: handle-of-{volume}")), "{evidence}");
    assert!(
        evidence.contains("kind: PersistentVolume\n") && !evidence.contains("managedFields"),
        "{evidence}"
    );
    let Err(Stop::Violation(violation)) = real.close().await else { panic!("a volume is left") };
    assert_eq!(violation.message, "what a test created cannot be removed");
    let expected = format!("PersistentVolume {volume} (held by kubernetes.io/pv-protection)");
    assert!(violation.actual.contains(&expected), "{}", violation.actual);
    assert!(!violation.transcript.is_empty());
}

#[tokio::test]
async fn cleanup_spares_objects_of_others() {
    let api = cluster();
    others(&api);
    let real = with_claim(&api).await;
    let volume = PersistentVolume {
        name: "volume-1".to_owned(),
        handle: "x".to_owned(),
        ..PersistentVolume::default()
    };
    real.create_volume(&volume).await.unwrap();
    let server = server(&api).await;

    let kept = clean_up(&server, |_| {}).await.unwrap();
    assert_eq!((kept.removed.len(), kept.left.len()), (0, 0), "the run goes on: {kept:?}");
    assert_eq!(kept.kept[0], format!("Namespace {NAMESPACE} of run sanity-abc123"));
    assert_eq!(kept.kept.len(), 3, "{kept:?}");

    let (done, lines) = cleaned_after_the_run(&api).await;
    assert_eq!(
        done.removed,
        [format!("Namespace {NAMESPACE} of run sanity-abc123")],
        "with all that is named after it"
    );
    assert_eq!((done.kept.len(), done.left.len()), (0, 0), "{done:?}");
    assert_eq!(lines, [format!("removing Namespace {NAMESPACE} of run sanity-abc123 and what is in it")]);
    assert_eq!(outside(&api), of_others());
    assert_eq!(clean_up(&server, |_| {}).await.unwrap(), Default::default());
}

#[tokio::test]
async fn two_runs_do_not_meet() {
    let api = cluster();
    let clusters = super::clusters(&api).await;
    let (one, other) = (clusters.namespace("run-1", "run-1-0-0"), clusters.namespace("run-2", "run-2-0-0"));
    for real in [&one, &other] {
        real.create_storage_class(&class("class-0")).await.unwrap();
        real.create_pvc(&claim("claim-0", "class-0")).await.unwrap();
    }
    one.close().await.unwrap();
    assert_eq!(api.names("namespaces"), ["run-2-0-0"]);
    assert_eq!(api.names("storageclasses"), ["run-2-0-0-class-0"]);
    assert!(other.claim("claim-0").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_change_ends_the_wait_for_one() {
    let api = cluster();
    let real = with_claim(&api).await;
    real.claim("claim-0").await.unwrap();
    // The watch first sends the existing objects.
    real.changed().await;
    let since = Instant::now();
    let changed = real.changed();
    tokio::join!(changed, async { lose_claim(&api) });
    assert_eq!(since.elapsed(), Duration::ZERO, "on a clock that moves when every task waits");
    let phase = real.claim("claim-0").await.unwrap().unwrap().phase;
    assert_eq!(phase, PvcPhase::Lost);
}

#[tokio::test(start_paused = true)]
async fn no_waiter_takes_a_change_from_another_one() {
    let api = cluster();
    let real = with_claim(&api).await;
    real.claim("claim-0").await.unwrap();
    let now = Instant::now;
    // The watch first reports the objects that exist already; these changes are taken before the test begins.
    loop {
        let since = now();
        real.changed().await;
        if !since.elapsed().is_zero() {
            break;
        }
    }
    let since = now();
    let (one, other) = (real.changed(), real.changed());
    real.claim("claim-0").await.unwrap();
    lose_claim(&api);
    one.await;
    // This read comes between the change and the second waiter.
    real.claim("claim-0").await.unwrap();
    other.await;
    assert_eq!(since.elapsed(), Duration::ZERO, "on a clock that moves when every task waits");
}

/// A test may fail after a retained content was deleted and before it is imported under another name.
#[tokio::test]
async fn a_snapshot_without_an_object_is_deleted() {
    for imports in [false, true] {
        let api = cluster();
        let real = with_claim(&api).await;
        let taken = || api.store(|store| store.taken.clone());
        take_snapshot(&real, &retaining()).await;
        let handle = real.snapshot("snapshot-0").await.unwrap().unwrap().handle.unwrap();
        real.delete_snapshot("snapshot-0").await.unwrap();
        while real.snapshot("snapshot-0").await.unwrap().is_some() {
            real.changed().await;
        }
        assert_eq!(api.names("volumesnapshotcontents"), [""; 0]);
        assert!(taken().contains(&handle), "the driver has it still");
        if imports {
            real.create_snapshot(&snapshot(SnapshotOrigin::Handle(handle))).await.unwrap();
        }
        real.close().await.unwrap();
        assert!(taken().is_empty(), "imported by the test: {imports}");
        assert_eq!(outside(&api), [""; 0]);
    }
}

/// A claim has this finalizer while a snapshot of it is taken.
const SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";

fn hold_as_source(api: &Api) {
    let mut claim = api.object("persistentvolumeclaims", NAMESPACE, "claim-0").unwrap();
    claim["metadata"]["finalizers"] = json!([SOURCE]);
    api.has("persistentvolumeclaims", claim);
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_a_forgotten_finalizer_is_released() {
    let api = cluster();
    with_claim(&api).await;
    hold_as_source(&api);
    let began = Instant::now();
    let (done, lines) = cleaned_after_the_run(&api).await;
    assert_eq!(done.left, [""; 0]);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let lines = lines.join("\n");
    assert!(lines.contains("waiting for PersistentVolumeClaim claim-0, Bound (held by"), "{lines}");
    let freed = format!("removed the finalizer {SOURCE} of PersistentVolumeClaim claim-0 in {NAMESPACE}");
    assert!(lines.contains(&freed), "{lines}");
    assert_eq!(api.names("persistentvolumeclaims"), [""; 0]);
}

/// The claim must stay, because a snapshot that is being taken still needs it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_a_snapshot_refers_to_is_not_let_go_of() {
    let api = cluster();
    let real = with_claim(&api).await;
    hold_as_source(&api);
    api.has(
        "volumesnapshots",
        json!({
            "metadata": { "name": "stuck", "namespace": NAMESPACE, "finalizers": ["example.com/held"] },
            "spec": { "source": { "persistentVolumeClaimName": "claim-0" } },
            "status": { "boundVolumeSnapshotContentName": "none" },
        }),
    );
    api.store(|store| store.refused.insert("DELETE volumesnapshots".to_owned()));
    assert!(real.close().await.is_err());
    let claim = api.object("persistentvolumeclaims", NAMESPACE, "claim-0").unwrap();
    assert_eq!(claim["metadata"]["finalizers"], json!([SOURCE]));
}
