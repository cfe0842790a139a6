//! ListVolumes returns all volumes, page by page. Other users may change the back end, so only the check's own ids
//! are examined.

use std::collections::{BTreeMap, BTreeSet};

use csi_harness::prelude::*;
use csi_harness::text::message;
use v1::VolumeContentSource as Source;
use v1::list_volumes_response::Entry;

use super::common::list_lags;

/// The number of volumes that are made for the list.
const VOLUMES: usize = 3;
/// Limits the pages of one walk.
const PAGES_MAX: usize = 10_000;
/// The intended number of pages of a long list.
const PAGES_AIMED_AT: usize = 64;

async fn new_volumes(cx: &Cx) -> CheckResult<BTreeMap<String, v1::Volume>> {
    let mut volumes = BTreeMap::new();
    for _ in 0..VOLUMES {
        let volume = cx.new_volume().await?;
        volumes.insert(volume.volume_id.clone(), volume);
    }
    Ok(volumes)
}

/// Makes a volume if the driver can, because a driver that uses a token as an index only crashes if the list has
/// entries.
async fn list_something(cx: &Cx) -> CheckResult {
    if cx.target().capabilities().has(Capability::CreateDeleteVolume) {
        cx.new_volume().await?;
    }
    Ok(())
}

fn volume_id(entry: &Entry) -> &str {
    entry.volume.as_ref().map_or("", |volume| volume.volume_id.as_str())
}

fn missing<'a>(wanted: impl Iterator<Item = &'a String>, entries: &[Entry]) -> Vec<&'a String> {
    let listed: BTreeSet<_> = entries.iter().map(volume_id).collect();
    wanted.filter(|id| !listed.contains(id.as_str())).collect()
}

fn page<'a>(cx: &'a Cx, max_entries: i32, starting_token: &str) -> PendingCall<'a, v1::ListVolumesResponse> {
    cx.call(v1::ListVolumesRequest { max_entries, starting_token: starting_token.to_owned() })
}

/// Reads all pages after a token, and checks the limit of each.
async fn walk(cx: &Cx, max_entries: i32, from: &str) -> CheckResult<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut tokens = BTreeSet::new();
    let mut token = from.to_owned();
    for _ in 0..PAGES_MAX {
        let call = page(cx, max_entries, &token);
        let page = if tokens.is_empty() {
            call.setup("a list").await?
        } else {
            call.await.must("accept its own next_token")?
        };
        within(max_entries, page.entries.len())?;
        entries.extend(page.entries);
        if page.next_token.is_empty() {
            return Ok(entries);
        }
        ensure!(
            tokens.insert(page.next_token.clone()),
            "next_token leads back to an earlier page, so the list never ends";
            of: &req::CTRL_LISTVOL_019,
            expected: "an empty next_token on the last page",
            actual: format!("next_token {:?} twice", page.next_token)
        );
        token = page.next_token;
    }
    Err(Stop::broken(format!("ListVolumes has not ended after {PAGES_MAX} pages")))
}

/// Returns the number of entries on the first page without a limit, which is the length of the list unless the driver
/// limits its pages.
async fn length(cx: &Cx) -> CheckResult<usize> {
    Ok(page(cx, 0, "").setup("a list").await?.entries.len())
}

/// Returns `max_entries`, or more if the back end has so many volumes that small pages would take too long.
fn page_size(max_entries: i32, length: usize) -> i32 {
    max_entries.max(i32::try_from(length.div_ceil(PAGES_AIMED_AT)).unwrap_or(i32::MAX))
}

fn within(max_entries: i32, entries: usize) -> CheckResult {
    ensure!(
        usize::try_from(max_entries).is_ok_and(|most| most == 0 || entries <= most),
        "a page has more entries than requested";
        of: &req::CTRL_LISTVOL_005,
        expected: format!("at most max_entries {max_entries} entries"),
        actual: format!("{entries} entries")
    );
    Ok(())
}

fn repeated<'a>(wanted: impl Iterator<Item = &'a String>, entries: &[Entry]) -> Vec<&'a String> {
    let count = |id: &String| entries.iter().filter(|entry| volume_id(entry) == id).count();
    wanted.filter(|id| count(id) > 1).collect()
}

/// Reads the list until it has each of the ids once, and returns the number of readings. Changes by others can shift
/// pages, so a single incomplete reading proves nothing.
async fn walk_until_complete(
    cx: &Cx,
    max_entries: i32,
    ids: &BTreeMap<String, v1::Volume>,
) -> CheckResult<usize> {
    let mut walks = 0;
    let complete = cx.eventually(Settles::VolumeListed, || {
        walks += 1;
        async {
            let entries = walk(cx, max_entries, "").await?;
            let is_right =
                missing(ids.keys(), &entries).is_empty() && repeated(ids.keys(), &entries).is_empty();
            Ok(is_right.then_some(()))
        }
    });
    if complete.await?.is_some() {
        return Ok(walks);
    }
    let entries = walk(cx, max_entries, "").await?;
    let missing = missing(ids.keys(), &entries);
    ensure!(
        missing.is_empty(),
        "volumes are missing from the pages of max_entries {max_entries}";
        expected: format!("every volume, {:?} among them", ids.keys().collect::<Vec<_>>()),
        actual: format!("{} without {missing:?}", message::entries(entries.len()))
    );
    let repeated = repeated(ids.keys(), &entries);
    ensure!(
        repeated.is_empty(),
        "the pages of the list overlap: a volume is on two of them, whenever the list is read";
        of: &req::CTRL_LISTVOL_010,
        expected: format!("each volume once on the pages of max_entries {max_entries}"),
        actual: format!("more than one entry for {repeated:?}")
    );
    Ok(walks)
}

check! {
    /// An orchestrator compares the list with its own records.
    WORKS {
        id: "controller/list-volumes/works",
        title: "ListVolumes answers",
        spec: [req::CTRL_LISTVOL_001],
        needs: [LIST_VOLUMES],
        refuted_by: ["list-volumes-unimplemented", "list-volumes-fails-while-empty"],
        replaces: [
            "Controller Service [Controller Server] ListVolumes should return appropriate values (no optional values added)",
        ],
        plain: ["ListVolumes"],
        // A list that fails while it is empty is seen only while no other check has a volume.
        runs: Serial,
    }
    async |cx| {
        page(cx, 0, "").await.must("list the volumes")?;
        Ok(())
    }
}

check! {
    /// A volume that is missing from the list counts as lost, and a deleted volume in the list as leaked.
    COMPLETE {
        id: "controller/list-volumes/complete",
        title: "ListVolumes lists new volumes, and no longer lists deleted ones",
        spec: [req::CTRL_LISTVOL_002, req::CTRL_LISTVOL_010, req::CTRL_LISTVOL_019],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: [
            "list-volumes-zero-max-means-one",
            "delete-volume-keeps-volume",
            "list-volumes-empty",
            "list-volumes-lacks-newest",
        ],
        replaces: [
            "Controller Service [Controller Server] ListVolumes check the presence of new volumes and absence of deleted ones in the volume list",
        ],
        // If another check made a volume, this check would not notice that the list always lacks the newest one.
        runs: Serial,
    }
    async |cx| {
        let volumes = new_volumes(cx).await?;
        if walk_until_complete(cx, 0, &volumes).await? > 1 {
            cx.warn(list_lags("a new volume is not in ListVolumes at first"));
        }
        let Some(deleted) = volumes.keys().next() else { return Ok(()) };
        cx.delete_volume(deleted).setup("a deleted volume").await?;
        let mut walks = 0;
        let gone = cx.eventually(Settles::VolumeUnlisted, || {
            walks += 1;
            async {
                let entries = walk(cx, 0, "").await?;
                Ok(entries.iter().all(|entry| volume_id(entry) != deleted).then_some(()))
            }
        });
        ensure!(
            gone.await?.is_some(),
            "a deleted volume is still listed";
            expected: format!("a list without {deleted:?} once the deletion is complete"),
            actual: "the volume still in the list after the time to settle (settle-ms)"
        );
        if walks > 1 {
            cx.warn(list_lags("a deleted volume stays in ListVolumes for a while"));
        }
        Ok(())
    }
}

check! {
    /// A copy is a volume like any other.
    COPIES {
        id: "controller/list-volumes/copies",
        title: "ListVolumes lists volumes that were made from others",
        spec: [req::CTRL_LISTVOL_002],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME, CLONE_VOLUME],
        refuted_by: ["list-volumes-omits-copies"],
    }
    async |cx| {
        let origin = cx.new_volume().await?;
        let request = cx.create_volume_request().copy_of(Source::volume(&origin.volume_id), origin.capacity_bytes);
        let copy = cx.create_volume(request).setup("a clone").await?;
        let listed = cx.eventually(Settles::VolumeListed, || async {
            let entries = cx.list_volumes().await?;
            Ok(entries.iter().any(|entry| volume_id(entry) == copy.volume_id).then_some(()))
        });
        ensure!(
            listed.await?.is_some(),
            "a volume that was made from another one is not listed";
            expected: format!("{:?} in ListVolumes", copy.volume_id),
            actual: "still missing after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

check! {
    /// A caller with little memory requests small pages.
    MAX_ENTRIES {
        id: "controller/list-volumes/max-entries",
        title: "a page of ListVolumes has at most max_entries entries",
        spec: [req::CTRL_LISTVOL_005],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-ignores-max-entries", "list-volumes-one-entry-too-many"],
    }
    async |cx| {
        new_volumes(cx).await?;
        for max_entries in [1, 2] {
            let page = page(cx, max_entries, "").setup("a page").await?;
            within(max_entries, page.entries.len())?;
        }
        Ok(())
    }
}

check! {
    /// A volume that no page shows is lost for the orchestrator.
    PAGES {
        id: "controller/list-volumes/pages",
        title: "the pages of ListVolumes together have every volume once, and end",
        spec: [req::CTRL_LISTVOL_006, req::CTRL_LISTVOL_010, req::CTRL_LISTVOL_019, req::CTRL_LISTVOL_005],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: [
            "list-volumes-never-sets-next-token",
            "list-volumes-skips-last-of-page",
            "list-volumes-ignores-token",
            "list-volumes-token-on-last-page",
            "list-volumes-repeats-first-entry",
            "list-volumes-pages-overlap",
        ],
        runs: Serial,
    }
    async |cx| {
        let volumes = new_volumes(cx).await?;
        let length = length(cx).await?;
        for max_entries in [1, 2] {
            walk_until_complete(cx, page_size(max_entries, length), &volumes).await?;
        }
        Ok(())
    }
}

check! {
    /// The volume that a token names may be deleted before the token is used.
    DELETED_BETWEEN_PAGES {
        id: "controller/list-volumes/deleted-between-pages",
        title: "a token of ListVolumes is accepted, or ABORTED, after the last volume of its page was deleted",
        spec: [req::CTRL_LISTVOL_010, req::CTRL_LISTVOL_022, req::CTRL_LISTVOL_005, req::CTRL_LISTVOL_019],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-ignores-token"],
        replaces: [
            "Controller Service [Controller Server] ListVolumes pagination should detect volumes added between pages and accept tokens when the last volume from a page is deleted",
        ],
        runs: Serial,
    }
    async |cx| {
        let volumes = new_volumes(cx).await?;
        if length(cx).await? > PAGES_AIMED_AT {
            return Err(Stop::skip("the back end has too many volumes for pages of one entry"));
        }
        let mut token = String::new();
        for _ in 0..PAGES_MAX {
            let page = page(cx, 1, &token).setup("a page").await?;
            token = page.next_token;
            if token.is_empty() {
                return Err(Stop::skip("no page but the last ends with a volume of this run, so none can be deleted"));
            }
            if let Some(last) = page.entries.last().map(volume_id).filter(|id| volumes.contains_key(*id)) {
                cx.delete_volume(last).setup("a volume deleted between two pages").await?;
                break;
            }
        }
        let added = cx.new_volume().await?;
        let what = "with the token of a page whose last volume was deleted";
        let reply = page(cx, 1, &token).await;
        if reply.may_be_refused(what, refused_with(Code::Aborted))?.is_some() {
            walk(cx, 1, &token).await?;
        }
        walk_until_complete(cx, 0, &BTreeMap::from([(added.volume_id.clone(), added)])).await?;
        Ok(())
    }
}

check! {
    /// An unknown token must not look like the end of the list, nor restart it.
    INVALID_TOKEN {
        id: "controller/list-volumes/invalid-token",
        title: "ListVolumes with a starting_token that it never returned is rejected with ABORTED",
        spec: [req::CTRL_LISTVOL_022],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-accepts-any-token", "list-volumes-invalid-token-as-invalid-argument"],
        replaces: [
            "Controller Service [Controller Server] ListVolumes should fail when an invalid starting_token is passed",
        ],
    }
    async |cx| {
        cx.new_volume().await?;
        // One of these is before all ids and one behind them: if tokens are ids after which the page starts, only the
        // first one yields entries.
        let refusal = || refused_with(Code::Aborted);
        let before = page(cx, 0, "!csi-sanity-no-such-token").await;
        let before = before.may_be_refused("with a made-up starting_token", refusal())?;
        let behind = page(cx, 0, "~csi-sanity-no-such-token").await;
        let behind = behind.may_be_refused("with a made-up starting_token", refusal())?;
        let count = |page: &Option<v1::ListVolumesResponse>| page.as_ref().map_or(0, |page| page.entries.len());
        ensure!(
            count(&before) == 0 || count(&behind) == 0,
            "starting_token is ignored: with any value, the list starts from the beginning";
            expected: "ABORTED",
            actual: format!("{} and {} entries for two made-up tokens", count(&before), count(&behind))
        );
        if before.as_ref().is_some_and(|page| page.entries.is_empty()) {
            cx.warn(
                Violation::new("a made-up starting_token is answered with an empty list")
                    .expected("ABORTED")
                    .actual("OK without entries"),
            );
        }
        Ok(())
    }
}

check! {
    /// If tokens are positions in a list, these are outside of it.
    NUMERIC_TOKEN {
        id: "controller/list-volumes/numeric-token",
        title: "ListVolumes with a number as starting_token is answered with OK or ABORTED",
        spec: [req::CTRL_LISTVOL_022, req::GEN_ERR_001],
        needs: [LIST_VOLUMES],
        refuted_by: ["list-volumes-panics-on-numeric-token", "list-volumes-invalid-token-as-invalid-argument"],
        runs: CrashProne,
    }
    async |cx| {
        list_something(cx).await?;
        for token in ["0", "-1", "999999", "18446744073709551616"] {
            let what = format!("with starting_token {token}");
            page(cx, 0, token).await.may_be_refused(&what, refused_with(Code::Aborted))?;
        }
        Ok(())
    }
}

check! {
    /// A negative number becomes huge in an unsigned type, and crashes a driver that allocates a list of that
    /// capacity.
    NEGATIVE_MAX_ENTRIES {
        id: "controller/list-volumes/negative-max-entries",
        title: "ListVolumes with negative max_entries is rejected",
        spec: [req::CTRL_LISTVOL_009, req::GEN_ERR_001],
        needs: [LIST_VOLUMES],
        refuted_by: ["list-volumes-accepts-negative-max", "list-volumes-panics-on-negative-max"],
        runs: CrashProne,
    }
    async |cx| {
        list_something(cx).await?;
        for max_entries in [-1, i32::MIN] {
            let what = format!("with max_entries {max_entries}");
            let refusal = refused_with(Code::InvalidArgument);
            page(cx, max_entries, "").await.must_be_refused(&what, refusal)?;
        }
        Ok(())
    }
}

check! {
    /// A volume without an id cannot be used in any call.
    ENTRIES {
        id: "controller/list-volumes/entries",
        title: "each entry of ListVolumes has a volume with an id and a size that is not negative",
        spec: [req::CTRL_LISTVOL_017, req::MSG_VOLUME_003, req::MSG_VOLUME_002],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-entry-without-volume", "list-volumes-entry-without-volume-id"],
    }
    async |cx| {
        cx.new_volume().await?;
        for entry in cx.list_volumes().await? {
            let volume = entry.volume.clone().unwrap_or_default();
            ensure!(
                !volume.volume_id.is_empty() && volume.capacity_bytes >= 0,
                "an entry of ListVolumes has no volume with an id and a size";
                expected: "volume_id, and capacity_bytes of 0 or more",
                actual: wire(&entry)
            );
        }
        Ok(())
    }
}

check! {
    /// For volumes that the orchestrator did not make, later calls use the data of this list.
    SAME_VOLUME {
        id: "controller/list-volumes/same-volume",
        title: "ListVolumes describes a volume as CreateVolume did",
        spec: [req::MSG_VOLUME_011, req::MSG_VOLUME_008, req::MSG_CAPRANGE_005],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-drops-context", "list-volumes-stale-capacity"],
    }
    async |cx| {
        let made = cx.new_volume().await?;
        let entries = cx.list_volumes().await?;
        let Some(listed) = entries.into_iter().filter_map(|entry| entry.volume).find(|listed| {
            listed.volume_id == made.volume_id
        }) else {
            return Err(Stop::skip("the volume is not listed"));
        };
        let contexts = (&made.volume_context, &listed.volume_context);
        ensure!(
            contexts.0 == contexts.1 || contexts.0.is_empty() || contexts.1.is_empty(),
            "ListVolumes and CreateVolume disagree about volume_context";
            expected: format!("{:?}", contexts.0),
            actual: format!("{:?}", contexts.1)
        );
        let required = cx.volume_size_bytes();
        ensure!(
            listed.capacity_bytes == 0 || listed.capacity_bytes >= required,
            "ListVolumes reports less than the required_bytes with which the volume was made";
            of: &req::MSG_CAPRANGE_005,
            expected: format!("capacity_bytes of at least {}, or 0 for unknown", sized(required).of_field()),
            actual: sized(listed.capacity_bytes).of_field()
        );
        // The map is optional, and the list may have the size to which the back end rounds: these two only warn.
        let remarks = [
            ("volume_context is left out of ListVolumes", format!("{contexts:?}"), contexts.0 == contexts.1),
            (
                "ListVolumes and CreateVolume disagree about the size",
                format!("{} and {}", sized(made.capacity_bytes), sized(listed.capacity_bytes)),
                made.capacity_bytes == listed.capacity_bytes || made.capacity_bytes == 0 || listed.capacity_bytes == 0,
            ),
        ];
        for (message, actual, agree) in remarks {
            if !agree {
                cx.warn(Violation::new(message).expected("the same from both").actual(actual));
            }
        }
        Ok(())
    }
}

check! {
    /// Both capabilities promise a status for each volume, attached or not.
    STATUS {
        id: "controller/list-volumes/status",
        title: "each entry of ListVolumes has a status if LIST_VOLUMES_PUBLISHED_NODES is advertised",
        spec: [req::CTRL_LISTVOL_018],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME, LIST_VOLUMES_PUBLISHED_NODES],
        refuted_by: ["list-volumes-omits-status"],
    }
    async |cx| {
        cx.new_volume().await?;
        for entry in cx.list_volumes().await? {
            ensure!(
                entry.status.is_some(),
                "an entry of ListVolumes has no status";
                expected: "status, as LIST_VOLUMES_PUBLISHED_NODES is advertised",
                actual: wire(&entry)
            );
        }
        Ok(())
    }
}

check! {
    /// Monitoring depends on the condition.
    CONDITION {
        id: "controller/list-volumes/volume-condition",
        title: "each entry of ListVolumes has a volume_condition if VOLUME_CONDITION is advertised",
        spec: [req::CTRL_LISTVOL_016],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME, VOLUME_CONDITION],
        refuted_by: ["list-volumes-omits-condition"],
    }
    async |cx| {
        cx.new_volume().await?;
        for entry in cx.list_volumes().await? {
            ensure!(
                entry.status.as_ref().is_some_and(|status| status.volume_condition.is_some()),
                "an entry of ListVolumes has no volume_condition";
                expected: "status.volume_condition, as VOLUME_CONDITION is advertised",
                actual: wire(&entry)
            );
        }
        Ok(())
    }
}

check! {
    /// The orchestrator attaches a volume again if the list shows it detached.
    PUBLISHED_NODES {
        id: "controller/list-volumes/published-nodes",
        title: "ListVolumes names the node that a volume is attached to",
        spec: [req::CTRL_LISTVOL_012],
        needs: [
            LIST_VOLUMES,
            CREATE_DELETE_VOLUME,
            LIST_VOLUMES_PUBLISHED_NODES,
            PUBLISH_UNPUBLISH_VOLUME,
            NODE,
        ],
        refuted_by: ["list-volumes-omits-published-nodes"],
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let node_id = cx.node_id().await?;
        cx.attached(volume.clone().into()).await?;
        let named = cx.eventually(Settles::VolumeListed, || async {
            let entries = cx.list_volumes().await?;
            let own = entries.iter().find(|entry| volume_id(entry) == volume.volume_id);
            let status = own.and_then(|entry| entry.status.as_ref());
            Ok(status.filter(|status| status.published_node_ids.contains(&node_id)).map(|_| ()))
        });
        ensure!(
            named.await?.is_some(),
            "a volume is attached to a node that ListVolumes does not name";
            expected: format!("{node_id:?} in published_node_ids"),
            actual: "still missing after the time to settle (settle-ms)"
        );
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] = &[
    &WORKS,
    &COMPLETE,
    &COPIES,
    &MAX_ENTRIES,
    &PAGES,
    &DELETED_BETWEEN_PAGES,
    &INVALID_TOKEN,
    &NUMERIC_TOKEN,
    &NEGATIVE_MAX_ENTRIES,
    &ENTRIES,
    &SAME_VOLUME,
    &STATUS,
    &CONDITION,
    &PUBLISHED_NODES,
];
