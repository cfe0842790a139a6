//! Reads lists as a careless client does.

use std::collections::BTreeSet;
use std::time::Instant;

use csi_harness::prelude::*;

/// The number of listings that are begun and never continued.
const GIVEN_UP: usize = 200;
/// The number of volumes, so that there are several pages.
const VOLUMES: usize = 5;
/// Permits more pages than entries, because empty pages are legal and others may create volumes meanwhile.
const PAGES_MORE: usize = 1_000;

check! {
    /// A restarted orchestrator begins its listings again and never continues the old ones. The driver's data about
    /// those must not affect the next listing.
    ENDLESS {
        id: "hostile/paging/volumes",
        title: "a list that is read in pages of one entry ends, even if many lists were begun before",
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
                actual: format!("next_token {:?} of page {} was already returned before", request.starting_token, page - 1),
            );
            let answer = cx.call(request.clone()).await.any_answer()?;
            request.starting_token = match answer {
                Ok(page) => page.next_token,
                // The driver reports an expired token so.
                Err(refused) if refused.code == Code::Aborted => return Ok(()),
                Err(refused) => {
                    if !next_page_is_had(cx).await? {
                        return Err(Stop::broken(format!("ListVolumes returns no next page: {refused}")));
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

/// Returns whether a new listing can be continued; if not, the earlier ones are not to blame.
async fn next_page_is_had(cx: &Cx) -> CheckResult<bool> {
    let first = v1::ListVolumesRequest { max_entries: 1, ..Default::default() };
    let Ok(page) = cx.call(first.clone()).await.any_answer()? else { return Ok(false) };
    let next = v1::ListVolumesRequest { starting_token: page.next_token, ..first };
    Ok(cx.call(next).await.any_answer()?.is_ok())
}

pub(crate) static CHECKS: &[&Check] = &[&ENDLESS];
