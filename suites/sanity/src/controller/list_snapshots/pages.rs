//! ListSnapshots page by page. Checks that read the whole list run alone, so that no other check changes it.

use std::collections::BTreeSet;

use csi_harness::prelude::*;
use csi_harness::spec::requirements::Requirement;

use super::super::common::cut_snapshot;

/// Limits the pages that are read of one list.
const PAGES_MAX: usize = 10_000;
/// The number of snapshots, so that there are several pages.
const SNAPSHOTS: usize = 3;
/// The requested number of entries on a page, unless the list is long.
const PAGE_ENTRIES: i32 = 2;
/// The intended number of pages of a long list.
const PAGES_AIMED_AT: usize = 64;

fn page_request(max_entries: i32, starting_token: &str) -> v1::ListSnapshotsRequest {
    v1::ListSnapshotsRequest { max_entries, starting_token: starting_token.to_owned(), ..Default::default() }
}

/// Makes some snapshots and returns their ids.
async fn some_snapshots(cx: &Cx) -> CheckResult<BTreeSet<String>> {
    let volume = cx.node_volume().await?;
    let mut ids = BTreeSet::new();
    for _ in 0..SNAPSHOTS {
        ids.insert(cut_snapshot(cx, &volume.id).await?.snapshot_id);
    }
    Ok(ids)
}

/// Makes a snapshot if the driver can, because a driver that uses a token as an index only crashes if the list has
/// entries.
async fn list_something(cx: &Cx) -> CheckResult {
    let capabilities = cx.target().capabilities();
    if capabilities.has(Capability::CreateDeleteSnapshot) && capabilities.has(Capability::CreateDeleteVolume)
    {
        let volume = cx.new_volume().await?;
        cut_snapshot(cx, &volume.volume_id).await?;
    }
    Ok(())
}

/// Returns the ids on each page, up to the end that the driver reports.
async fn walk(cx: &Cx, max_entries: i32) -> CheckResult<Vec<Vec<String>>> {
    let mut pages = Vec::new();
    let mut token = String::new();
    let mut tokens = BTreeSet::new();
    while pages.len() < PAGES_MAX {
        let call = cx.call(page_request(max_entries, &token));
        let page = if token.is_empty() {
            call.setup("a list").await?
        } else {
            let followed = call.await.must("accept a next_token that it has just returned");
            followed.map_err(|stop| stop.of(&req::CTRL_LISTSNAP_011))?
        };
        let snapshots = page.entries.into_iter().map(|entry| entry.snapshot.unwrap_or_default());
        pages.push(snapshots.map(|snapshot| snapshot.snapshot_id).collect());
        if page.next_token.is_empty() {
            return Ok(pages);
        }
        ensure!(
            tokens.insert(page.next_token.clone()),
            "the list never ends: a page returns the next_token of an earlier page";
            of: &req::CTRL_LISTSNAP_016,
            expected: "an empty next_token on the last page, and a new one on each before",
            actual: format!("next_token {:?} again on page {}", page.next_token, pages.len())
        );
        token = page.next_token;
    }
    Err(Stop::broken(format!("the list has not ended after {PAGES_MAX} pages")))
}

/// Fails unless each of the ids is in the list once. Lists may lag, and changes by others between two pages can hide
/// or repeat an entry, so the list is read again before it is judged.
async fn must_have_each_once(
    cx: &Cx,
    own: &BTreeSet<String>,
    max_entries: i32,
    rule: &'static Requirement,
) -> CheckResult {
    let complete = cx.eventually(Settles::SnapshotListed, || async {
        let listed = own_entries(cx, own, max_entries).await?;
        Ok((listed.len() == own.len() && own.iter().all(|id| listed.contains(id))).then_some(()))
    });
    if complete.await?.is_some() {
        return Ok(());
    }
    let listed = own_entries(cx, own, max_entries).await?;
    let pages = if max_entries == 0 { String::new() } else { format!(" on pages of {max_entries} entries") };
    let missing: Vec<&String> = own.iter().filter(|id| !listed.contains(id)).collect();
    ensure!(
        missing.is_empty(),
        "snapshots are not in the list";
        of: rule,
        expected: format!("all of {own:?}{pages}"),
        actual: format!("without {missing:?}")
    );
    ensure!(
        listed.len() == own.len(),
        "the pages of the list overlap: a snapshot is on two of them, whenever the list is read";
        of: &req::CTRL_LISTSNAP_011,
        expected: format!("each of {own:?} once{pages}"),
        actual: format!("{listed:?}")
    );
    Ok(())
}

/// Returns the list's entries with these ids, in their order.
async fn own_entries(cx: &Cx, own: &BTreeSet<String>, max_entries: i32) -> CheckResult<Vec<String>> {
    let listed = walk(cx, max_entries).await?.into_iter().flatten();
    Ok(listed.filter(|id| own.contains(id)).collect())
}

check! {
    /// A client may have little memory.
    MAX_ENTRIES {
        id: "controller/list-snapshots/max-entries",
        title: "a page of ListSnapshots has at most max_entries entries",
        spec: [req::CTRL_LISTSNAP_006],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["list-snapshots-ignores-max-entries"],
    }
    async |cx| {
        some_snapshots(cx).await?;
        for max_entries in [1, 2] {
            let page = cx.call(page_request(max_entries, "")).setup("a list").await?;
            ensure!(
                page.entries.len() <= max_entries as usize,
                "a page has more entries than requested";
                expected: format!("at most {max_entries}"),
                actual: page.entries.len()
            );
        }
        Ok(())
    }
}

check! {
    /// A snapshot that no page shows is never deleted.
    PAGES {
        id: "controller/list-snapshots/pages",
        title: "the pages of ListSnapshots together have every snapshot once",
        spec: [req::CTRL_LISTSNAP_007, req::CTRL_LISTSNAP_011, req::CTRL_LISTSNAP_006, req::CTRL_LISTSNAP_016],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: [
            "list-snapshots-never-sets-next-token",
            "list-snapshots-forgets-tokens",
            "list-snapshots-skips-last-of-page",
            "list-snapshots-ignores-token",
            "list-snapshots-pages-overlap",
        ],
        replaces: [
            "ListSnapshots [Controller Server] should return next token when a limited number of entries are requested",
        ],
        runs: Serial,
    }
    async |cx| {
        let own = some_snapshots(cx).await?;
        let length = cx.call(page_request(0, "")).setup("a list").await?.entries.len();
        let page_entries = PAGE_ENTRIES.max(i32::try_from(length.div_ceil(PAGES_AIMED_AT)).unwrap_or(i32::MAX));
        must_have_each_once(cx, &own, page_entries, &req::CTRL_LISTSNAP_007).await
    }
}

check! {
    /// Most callers set no limit.
    NO_LIMIT {
        id: "controller/list-snapshots/no-limit",
        title: "ListSnapshots without max_entries returns all snapshots, and ends",
        spec: [req::CTRL_LISTSNAP_016, req::CTRL_LISTSNAP_002, req::CTRL_LISTSNAP_011],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["list-snapshots-token-on-last-page", "list-snapshots-entry-without-snapshot"],
        runs: Serial,
    }
    async |cx| {
        let own = some_snapshots(cx).await?;
        must_have_each_once(cx, &own, 0, &req::CTRL_LISTSNAP_002).await
    }
}

check! {
    /// An unknown token must not restart the list, because the caller would never reach its end.
    INVALID_TOKEN {
        id: "controller/list-snapshots/invalid-token",
        title: "ListSnapshots with an invalid starting_token is ABORTED",
        spec: [req::CTRL_LISTSNAP_019],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_SNAPSHOT, VOLUME],
        refuted_by: ["list-snapshots-accepts-any-token", "list-snapshots-invalid-token-as-invalid-argument"],
    }
    async |cx| {
        some_snapshots(cx).await?;
        let mut both = true;
        // If tokens are ids after which the page starts, one of these is before all ids and the other behind them.
        for token in ["!csi-sanity-no-token", "~csi-sanity-no-token"] {
            let reply = cx.call(page_request(0, token)).await;
            let refusal = refused_with(Code::Aborted);
            let answer = reply.may_be_refused("with a made-up starting_token", refusal)?;
            both &= answer.is_some_and(|page| !page.entries.is_empty());
        }
        ensure!(
            !both,
            "starting_token is ignored";
            expected: "ABORTED",
            actual: "OK with entries for two made-up tokens, whichever way they are sorted"
        );
        Ok(())
    }
}

check! {
    /// A page cannot have a negative number of entries.
    NEGATIVE_MAX_ENTRIES {
        id: "controller/list-snapshots/negative-max-entries",
        title: "ListSnapshots with negative max_entries is rejected",
        spec: [req::CTRL_LISTSNAP_010, req::GEN_ERR_001],
        needs: [LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-accepts-negative-max", "list-snapshots-panics-on-negative-max"],
        runs: CrashProne,
    }
    async |cx| {
        list_something(cx).await?;
        let reply = cx.call(page_request(-1, "")).await;
        reply.must_be_refused("with negative max_entries", refused_with(Code::InvalidArgument))?;
        Ok(())
    }
}

check! {
    /// A driver may use a numeric token as an index.
    NUMERIC_TOKEN {
        id: "controller/list-snapshots/numeric-token",
        title: "ListSnapshots with a number as starting_token is answered or ABORTED",
        spec: [req::CTRL_LISTSNAP_019, req::GEN_ERR_001],
        needs: [LIST_SNAPSHOTS],
        refuted_by: ["list-snapshots-invalid-token-as-invalid-argument", "list-snapshots-panics-on-numeric-token"],
        runs: CrashProne,
    }
    async |cx| {
        list_something(cx).await?;
        for token in ["0", "999999", "4294967295", "-1", "9223372036854775808"] {
            let reply = cx.call(page_request(0, token)).await;
            // The driver chooses its tokens, so any of these may be valid.
            reply.may_be_refused(&format!("with starting_token {token:?}"), refused_with(Code::Aborted))?;
        }
        Ok(())
    }
}

pub(crate) static CHECKS: &[&Check] =
    &[&MAX_ENTRIES, &PAGES, &NO_LIMIT, &INVALID_TOKEN, &NEGATIVE_MAX_ENTRIES, &NUMERIC_TOKEN];
