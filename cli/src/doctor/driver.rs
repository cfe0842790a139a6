//! Examines a driver: which checks its capabilities and the settings leave out.

use std::collections::BTreeMap;
use std::io::{self, Write};

use csi_harness::checks::check::Planned;
use csi_harness::client::target::Target;
use csi_harness::config::Config;
use csi_harness::driver::Driver;
use serde::Serialize;

use crate::connect;
use crate::error::Error;
use crate::suites;

/// A driver, and the checks of all suites, counted by whether they would run.
#[derive(Serialize)]
pub(super) struct Examined {
    name: String,
    vendor_version: String,
    endpoint: String,
    /// The number of checks that would run.
    runs: usize,
    left_out: Vec<LeftOut>,
    /// True if this program sees the driver's files and mounts.
    shares_files: bool,
    /// Remarks about the driver's answers, which are no faults.
    remarks: Vec<String>,
}

/// Checks that would be skipped for the same reason.
#[derive(Serialize)]
struct LeftOut {
    because: String,
    checks: Vec<String>,
}

/// Connects to the driver and reads its capabilities. It makes no other calls.
pub(super) async fn examine(config: Config, process: Option<Driver>) -> Result<Examined, Error> {
    let target = connect::connect(config, process).await?;
    let planned = suites::all().select(&Default::default(), &target.config().access_types);
    let mut left_out = BTreeMap::<String, Vec<String>>::new();
    let all = planned.len();
    for planned in planned {
        if let Some(because) = unmet(&planned, &target) {
            left_out.entry(because).or_default().push(planned.label());
        }
    }
    let mut left_out: Vec<LeftOut> =
        left_out.into_iter().map(|(because, checks)| LeftOut { because, checks }).collect();
    left_out.sort_by_key(|left| std::cmp::Reverse(left.checks.len()));
    Ok(Examined {
        name: target.info().name.clone(),
        vendor_version: target.info().vendor_version.clone(),
        endpoint: target.endpoint().to_string(),
        runs: all - left_out.iter().map(|left| left.checks.len()).sum::<usize>(),
        left_out,
        shares_files: target.node(0).shares_files().await,
        remarks: target.remarks().to_vec(),
    })
}

fn unmet(planned: &Planned, target: &Target) -> Option<String> {
    planned.check.needs.iter().find_map(|need| need.unmet(target, planned.access))
}

impl Examined {
    pub(super) fn text(&self, out: &mut impl Write) -> io::Result<()> {
        let Examined { name, vendor_version, endpoint, runs, left_out, shares_files, remarks } = self;
        writeln!(out, "\n{name:?} {vendor_version:?} at {endpoint}")?;
        remarks.iter().try_for_each(|remark| writeln!(out, "  {remark}"))?;
        let files = match shares_files {
            true => "its files and mounts are visible from here",
            false => {
                "its files and mounts may not be visible from here: run csi-sanity on its host, over its Unix socket, or set --check-path-command"
            }
        };
        writeln!(out, "  {files}")?;
        writeln!(
            out,
            "  {runs} checks would run; some of them may still be skipped because of what they find out"
        )?;
        for LeftOut { because, checks } in left_out {
            let checks = checks.len();
            let s = if checks == 1 { "" } else { "s" };
            writeln!(out, "  {checks} check{s} left out: {because}")?;
        }
        Ok(())
    }
}
