//! Clients that read a list without mercy.

use std::collections::BTreeSet;
use std::time::Instant;

use csi_harness::prelude::*;

/// Listings that are begun and never gone on with.
const GIVEN_UP: usize = 200;
/// Volumes that are made, so that there is more than one page.
const VOLUMES: usize = 5;
/// Pages beyond the entries of the list: empty ones are legal on the way, and others make volumes meanwhile.
const PAGES_MORE: usize = 1_000;

check! {
    /// An orchestrator that is restarted begins its listings anew and never comes back to the old ones. What a driver keeps
    /// of each must not stand in the way of the next.
    ENDLESS {
        id: "hostile/paging/volumes",
        title: "a list of pages with one entry ends, also when many were begun before",
        spec: [req::CTRL_LISTVOL_019, req::CTRL_LISTVOL_010],
        needs: [LIST_VOLUMES, CREATE_DELETE_VOLUME],
        refuted_by: ["list-volumes-ignores-token", "list-volumes-keeps-few-listings"],
        runs: CrashProne,
    }
    async |cx| {
        for _ in 0..VOLUMES {
            cx.new_volume().await?;
        }
        let until = Instant::now() + cx.config().effort.ceiling();
        let first = v1::ListVolumesRequest { max_entries: 1, ..Default::default() };
        let token = cx.call(first.clone()).await.setup("a page of volumes")?.next_token;
        for _ in 0..GIVEN_UP {
            let _ = cx.call(first.clone()).await.any_answer()?;
        }
        let pages_max = cx.list_volumes().await?.len() + PAGES_MORE;
        let mut request = v1::ListVolumesRequest { starting_token: token, ..first };
        let mut seen = BTreeSet::new();
        for page in 2..=pages_max {
            if request.starting_token.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                cx.cut_short(number(page), number(pages_max), "pages");
                return Ok(());
            }
            let again = !seen.insert(request.starting_token.clone());
            ensure!(
                !again,
                "the pages of the list of volumes repeat";
                expected: "an empty next_token on the last page",
                actual: format!("next_token {:?} of page {} was there before", request.starting_token, page - 1),
            );
            let answer = cx.call(request.clone()).await.any_answer()?;
            request.starting_token = match answer {
                Ok(page) => page.next_token,
                // Tokens may expire, which this says.
                Err(refused) if refused.code == Code::Aborted => return Ok(()),
                Err(refused) => {
                    if !next_page_is_had(cx).await? {
                        return Err(Stop::broken(format!("ListVolumes gives no next page: {refused}")));
                    }
                    return Err(Violation::new(format!(
                        "page {page} is rejected after {GIVEN_UP} other listings were begun"
                    ))
                    .of(&req::CTRL_LISTVOL_010)
                    .expected("the next page, or ABORTED if its token has expired")
                    .actual(refused)
                    .into());
                }
            };
        }
        Err(Violation::new("the list of volumes does not end")
            .expected(format!("at most {pages_max} pages"))
            .actual("a next_token on each of them")
            .into())
    }
}

fn number(pages: usize) -> u64 {
    u64::try_from(pages).unwrap_or(u64::MAX)
}

/// Whether a listing that is begun now can be gone on with: else it is no matter of those before.
async fn next_page_is_had(cx: &Cx) -> CheckResult<bool> {
    let first = v1::ListVolumesRequest { max_entries: 1, ..Default::default() };
    let Ok(page) = cx.call(first.clone()).await.any_answer()? else { return Ok(false) };
    let next = v1::ListVolumesRequest { starting_token: page.next_token, ..first };
    Ok(cx.call(next).await.any_answer()?.is_ok())
}

pub(crate) static CHECKS: &[&Check] = &[&ENDLESS];
