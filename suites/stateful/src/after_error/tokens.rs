//! Tokens of lists once everything that they lead to is gone.

use csi_harness::prelude::*;

/// Objects that are made, so that a page ends with some of them.
const OBJECTS: usize = 3;
/// Lists longer than this are not read to their end by pages that follow what is made here.
const ENTRIES_MAX: usize = 1_000;
/// Largest number of pages that are read until the last of the others.
const PAGES_MAX: usize = 100;

check! {
    /// If a namespace is deleted while a list is read, the rest of the list disappears.
    pub(super) VOLUMES {
        id: "after-error/token-of-deleted-volumes",
        title: "a token of ListVolumes is accepted, or ABORTED, after all remaining volumes were deleted",
        spec: [req::CTRL_LISTVOL_010, req::CTRL_LISTVOL_022],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-fails-behind-deleted"],
        runs: Serial,
        varies: true,
    }
    async |cx| {
        let mut ours = Vec::new();
        for _ in 0..OBJECTS {
            ours.push(cx.new_volume().await?.volume_id);
        }
        let listed = cx.list_volumes().await?;
        let ids = listed.into_iter().filter_map(|entry| entry.volume).map(|volume| volume.volume_id);
        let ids: Vec<String> = ids.collect();
        // A volume that another check has left may still be published, so that the driver must not delete it.
        let is_ours = |id: &str| ours.iter().any(|one| one == id);
        let (mut left, behind) = split(&ids, ours.len(), is_ours)?;
        let mut token = String::new();
        for _ in 0..PAGES_MAX {
            let request = v1::ListVolumesRequest { max_entries: left, starting_token: token };
            let page = cx.call(request).setup("a page").await?;
            token = page.next_token;
            left -= i32::try_from(page.entries.len()).unwrap_or(i32::MAX);
            if left <= 0 || token.is_empty() {
                break;
            }
        }
        needs_token(left, &token)?;
        for id in &behind {
            cx.delete_volume(id).setup("a volume deleted before its page is read").await?;
        }
        let request = v1::ListVolumesRequest { max_entries: 0, starting_token: token };
        let refusal = refused_with(Code::Aborted).named_by(&req::CTRL_LISTVOL_022);
        cx.call(request).await.may_be_refused(BEHIND_DELETED, refusal).map(drop)
    }
}

check! {
    /// Backups are deleted while a list of them is read.
    pub(super) SNAPSHOTS {
        id: "after-error/token-of-deleted-snapshots",
        title: "a token of ListSnapshots is accepted, or ABORTED, after all remaining snapshots were deleted",
        spec: [req::CTRL_LISTSNAP_011, req::CTRL_LISTSNAP_019],
        needs: [LIST_SNAPSHOTS, CREATE_DELETE_VOLUME, CREATE_DELETE_SNAPSHOT],
        refuted_by: ["list-snapshots-fails-behind-deleted"],
        runs: Serial,
        varies: true,
    }
    async |cx| {
        let volume = cx.new_volume().await?;
        let mut ours = Vec::new();
        for _ in 0..OBJECTS {
            ours.push(cx.new_snapshot(&volume.volume_id).await?.snapshot_id);
        }
        let listed = cx.list_snapshots(v1::ListSnapshotsRequest::default()).await?;
        let members = listed.iter().filter(|one| !one.group_snapshot_id.is_empty());
        let members: Vec<String> = members.map(|one| one.snapshot_id.clone()).collect();
        let ids: Vec<String> = listed.into_iter().map(|one| one.snapshot_id).collect();
        // If the run owns everything, entries that other checks have left may be deleted as well, but no member of a group snapshot alone.
        let owns_all = cx.target().ownership() == Ownership::Everything;
        let is_in = |id: &str, all: &[String]| all.iter().any(|one| one == id);
        let may_be_deleted = |id: &str| owns_all && !is_in(id, &members) || is_in(id, &ours);
        let (mut left, behind) = split(&ids, ours.len(), may_be_deleted)?;
        let mut token = String::new();
        for _ in 0..PAGES_MAX {
            let request =
                v1::ListSnapshotsRequest { max_entries: left, starting_token: token, ..Default::default() };
            let page = cx.call(request).setup("a page").await?;
            token = page.next_token;
            left -= i32::try_from(page.entries.len()).unwrap_or(i32::MAX);
            if left <= 0 || token.is_empty() {
                break;
            }
        }
        needs_token(left, &token)?;
        for id in &behind {
            cx.delete_snapshot(id).setup("a snapshot deleted before its page is read").await?;
        }
        let request = v1::ListSnapshotsRequest { starting_token: token, ..Default::default() };
        let refusal = refused_with(Code::Aborted).named_by(&req::CTRL_LISTSNAP_019);
        cx.call(request).await.may_be_refused(BEHIND_DELETED, refusal).map(drop)
    }
}

const BEHIND_DELETED: &str = "with a token whose remaining entries were all deleted";

/// The number of entries before those at the end that may be deleted, and the ids of these, at most as many as the check has made. One entry is
/// left at least.
fn split(
    listed: &[String],
    made: usize,
    may_be_deleted: impl Fn(&str) -> bool,
) -> CheckResult<(i32, Vec<String>)> {
    let last = listed.iter().skip(1).rev().take(made);
    let behind: Vec<String> = last.take_while(|id| may_be_deleted(id)).cloned().collect();
    if behind.is_empty() || listed.len() > ENTRIES_MAX {
        return Err(Stop::skip("the list ends with entries that this check may not delete, or is too long"));
    }
    let before = i32::try_from(listed.len() - behind.len()).unwrap_or(i32::MAX);
    Ok((before, behind))
}

fn needs_token(left: i32, token: &str) -> CheckResult {
    match left <= 0 && !token.is_empty() {
        true => Ok(()),
        false => {
            Err(Stop::skip("the driver returns no token before a page of entries that this run created"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_deletable_entries_are_behind_the_token() {
        let listed = ["of-another-check", "member", "ours-1", "ours-2"].map(str::to_owned);
        let behind = |listed: &[String]| split(listed, 3, |id| id != "member");
        let (left, ids) = behind(&listed).expect("two entries may be deleted");
        assert_eq!((left, ids), (2, vec!["ours-2".to_owned(), "ours-1".to_owned()]));
        let ends_with_member = [listed[2].clone(), listed[1].clone()];
        assert!(matches!(behind(&ends_with_member), Err(Stop::Skip(_))));
        assert!(matches!(behind(&listed[..1]), Err(Stop::Skip(_))), "one entry has to stay");
    }
}
