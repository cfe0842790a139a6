//! Texts that a shell would run, or a command would take for an option.

use csi_harness::CommandCall;
use csi_harness::prelude::*;

use crate::canary::Canary;
use crate::places::Kind;
use crate::rules::HOSTILE_COMMAND_001;
use crate::scene::{Request, Scene};
use crate::sweep::{canary_is_unchanged, sweep, volley, with_texts};
use crate::words;

/// Keys whose values drivers hand to commands.
const KEYS: [&str; 6] = ["source", "server", "share", "subDir", "mountOptions", "mkfsOptions"];

check! {
    /// Drivers call mkfs, mount and the tools of their vendor. One that puts the line together and gives it to a shell
    /// runs whatever stands in a claim (CVE-2023-3893, CVE-2023-5528).
    TEXTS {
        id: "hostile/commands/texts",
        title: "a text of a request is never run",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME],
        refuted_by: ["create-volume-runs-parameters", "node-publish-runs-fs-type", "delete-volume-runs-ids"],
        runs: Last,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let texts = words::commands(&canary);
        sweep(cx, Kind::ALL_BUT_PATHS, &KEYS, &texts, |shot, answer| canary_is_unchanged(&canary, shot, answer)).await
    }
}

check! {
    /// Paths are the orchestrator's, but a pod's name may be part of one.
    PATHS {
        id: "hostile/commands/paths",
        title: "a path of a request is never run",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME, NODE],
        refuted_by: ["node-unpublish-runs-paths"],
        runs: Last,
    }
    async |cx| {
        let canary = Canary::set(cx).await?;
        let scene = Scene::set(cx).await?;
        let mut requests = scene.requests(cx).await?;
        // What is staged or published there would be made there, and that is asked for.
        requests.retain(|request| !["NodeStageVolume", "NodePublishVolume"].contains(&request.rpc.method));
        let above = canary.dir().display();
        let texts: Vec<String> =
            words::commands(&canary).iter().map(|text| format!("{above}/{text}")).collect();
        let changes = |request: &Request| with_texts(request, &[Kind::Path], &[], &texts);
        volley(cx, &requests, changes, |shot, answer| canary_is_unchanged(&canary, shot, answer)).await
    }
}

/// Like an option, and none of any command.
const OPTION: &str = "--csi-sanity-option";
/// Keys whose values are arguments of commands, but no options.
const ARGUMENT_KEYS: [&str; 4] = ["source", "server", "share", "subDir"];
/// Texts that are no options by themselves, as parameters and mount flags often are.
const ARGUMENTS: [Kind; 4] = [Kind::Name, Kind::Id, Kind::Context, Kind::FileSystem];

check! {
    /// No shell is needed for harm: mkfs, mount and tar have options that run programs, and whoever chooses an id, a share or a
    /// file system chooses one of them where it comes first in an argument.
    OPTIONS {
        id: "hostile/commands/options",
        title: "a text of a request becomes no option of a command",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME],
        refuted_by: ["node-publish-passes-context-as-option"],
        runs: Last,
    }
    async |cx| {
        let unseen = || Stop::skip("needs to see which commands the driver calls: --driver-command starts it so");
        let failed = |error| Stop::broken(format!("failed to watch the commands of the driver: {error}"));
        let driver = cx.target().driver().ok_or_else(unseen)?;
        let watch = driver.watch_commands().await.ok_or_else(unseen)?.map_err(failed)?;
        let mut seen = 0;
        sweep(cx, &ARGUMENTS, &ARGUMENT_KEYS, &[OPTION.to_owned()], |shot, _| {
            let calls = watch.take().map_err(failed)?;
            seen += calls.len();
            let Some(call) = calls.iter().find(|call| has_option(call)) else { return Ok(()) };
            Err(Violation::new(format!("{} becomes an option of {}", shot.told(), call.name))
                .expected("an argument that is none, such as one behind --")
                .actual(format!("{} {:?}", call.name, call.arguments))
                .into())
        })
        .await?;
        match seen {
            0 => Err(Stop::skip("the driver was seen to call no command by its name")),
            _ => Ok(()),
        }
    }
}

/// Whether our text is an option of the command for sure: nothing before it ends the options, or takes it for a value.
fn has_option(call: &CommandCall) -> bool {
    let options = call.arguments.iter().take_while(|argument| *argument != "--");
    let mut before = "";
    for argument in options {
        if argument.starts_with(OPTION) && !before.starts_with('-') {
            return true;
        }
        before = argument;
    }
    false
}

pub(crate) static CHECKS: &[&Check] = &[&TEXTS, &PATHS, &OPTIONS];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_an_option_for_sure_is_one() {
        let is_option = |arguments: &[&str]| {
            let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
            has_option(&CommandCall { name: "mount".to_owned(), arguments })
        };
        assert!(is_option(&[OPTION]));
        assert!(is_option(&["-o", "ro", OPTION, "/target"]));
        assert!(is_option(&["--csi-sanity-option:/share", "/target"]));
        assert!(!is_option(&["-t", OPTION, "a", "b"]));
        assert!(!is_option(&["-t", "nfs", "--", OPTION, "/target"]));
        assert!(!is_option(&["/var/--csi-sanity-option", "a--csi-sanity-option"]));
    }
}
