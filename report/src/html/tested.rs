//! Describes what was tested, by which program, and where.

use super::markup::Html;
use crate::entry::PartEntry;
use crate::journal::Run;
use crate::words::{count, duration_text};

/// Largest number of listed settings.
const SETTINGS_MAX: usize = 60;

/// The circumstances of the run.
pub(super) fn write(html: &mut Html, run: &Run) {
    html.element("dl", &[("class", "facts")], |list| {
        for (name, value) in facts(run).iter().filter(|(_, value)| !value.is_empty()) {
            list.leaf("dt", &[], name);
            list.element("dd", &[], |item| item.leaf("code", &[], value));
        }
        for part in &run.joined {
            list.leaf("dt", &[], "joined of");
            list.element("dd", &[], |item| item.leaf("code", &[], &part_text(part)));
        }
        if !run.settings.is_empty() {
            list.leaf("dt", &[], "settings");
            list.element("dd", &[], |item| {
                super::names(item, run.settings.iter().take(SETTINGS_MAX).map(String::as_str));
            });
        }
        list.leaf("dt", &[], "capabilities");
        list.element("dd", &[], |item| match &run.target.capabilities[..] {
            [] => item.text("none"),
            some => super::names(item, some.iter().map(String::as_str)),
        });
    });
}

fn facts(run: &Run) -> Vec<(&str, String)> {
    let target = &run.target;
    let mut facts = vec![
        ("driver", target.name.clone()),
        ("version", target.vendor_version.clone()),
        ("image", run.driver_image.clone().unwrap_or_default()),
        ("endpoint", target.endpoint.clone()),
    ];
    facts.extend(target.node_endpoints.iter().map(|endpoint| ("another node", endpoint.clone())));
    facts.extend(target.controller_endpoint.iter().map(|endpoint| ("controller", endpoint.clone())));
    facts.push(("CSI specification", run.specification.clone()));
    facts.push(("judged by it because", run.specification_by.clone()));
    facts.push(("profile", run.profile.to_string()));
    facts.push((&run.tool.name, run.tool.version.clone()));
    if let Some(machine) = &run.machine {
        facts.push(("kernel", machine.kernel.clone()));
        facts.push(("as root", if machine.is_root { "yes" } else { "no" }.to_owned()));
    }
    let shard = run.shard.as_ref().map(|shard| format!("{} of {}", shard.index, shard.of));
    let shards = (!run.shards.is_empty()).then(|| count(run.shards.len(), "shard"));
    facts.extend([
        ("begun", run.started.clone()),
        ("took", duration_text(run.duration_ms.saturating_mul(1000))),
        ("suites", run.selection.suites.join(", ")),
        ("selected by", run.selection.terms.join(" ")),
        ("shard", shard.unwrap_or_default()),
        ("put together of", shards.unwrap_or_default()),
        ("seed", run.seed.to_string()),
        ("command", run.command.clone()),
    ]);
    facts
}

fn part_text(part: &PartEntry) -> String {
    format!("{}, seed {}: {}", part.started, part.seed, part.command)
}
