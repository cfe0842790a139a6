//! Sends texts that a shell would run, or that a command would parse as an option.

use std::path::PathBuf;

use csi_harness::driver::CommandCall;
use csi_harness::prelude::*;

use crate::injection_points::{InjectionPoint, TextRole};
use crate::rules::HOSTILE_COMMAND_001;
use crate::scene::{Request, Scene};
use crate::sweep::{at_places, sweep, volley, with_texts};
use crate::trap::Trap;

/// Keys whose values drivers pass to commands.
const KEYS: [&str; 6] = ["source", "server", "share", "subDir", "mountOptions", "mkfsOptions"];

check! {
    /// Drivers run mkfs, mount and their vendor's tools. One that builds a command line and passes it to a shell runs
    /// any command that a claim contains (CVE-2023-3893, CVE-2023-5528).
    TEXTS {
        id: "hostile/commands/texts",
        title: "a text in a request is never executed",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME],
        refuted_by: [
            "create-volume-runs-parameters",
            "create-volume-runs-names",
            "node-publish-runs-fs-type",
            "delete-volume-runs-ids",
        ],
        runs: CrashProne,
    }
    async |cx| {
        let trap = Trap::set(cx).await?;
        let scene = Scene::set(cx).await?;
        let texts = trap.texts();
        let name_bytes_max = cx.config().name_length_max;
        let changes = |request: &Request| {
            let mut places = InjectionPoint::all(&request.message, &KEYS);
            places.extend(InjectionPoint::of_keys(&request.message));
            let (names, mut others): (Vec<_>, Vec<_>) =
                places.into_iter().partition(|place| place.kind() == TextRole::Name);
            others.retain(|place| place.kind() != TextRole::Path);
            // Long names are left out, because some back ends do not accept them, and the short ones suffice.
            let short: Vec<String> =
                texts.iter().filter(|text| text.len() <= name_bytes_max).cloned().collect();
            [at_places(request, &names, &short), at_places(request, &others, &texts)].concat()
        };
        volley(cx, &scene.requests(cx).await?, changes, |shot, answer| trap.is_untouched(shot, answer)).await
    }
}

check! {
    /// The orchestrator chooses paths, but a pod's name may be part of one.
    PATHS {
        id: "hostile/commands/paths",
        title: "a path in a request is never executed",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME, NODE],
        refuted_by: ["node-unpublish-runs-paths"],
        runs: CrashProne,
    }
    async |cx| {
        let trap = Trap::set(cx).await?;
        let scene = Scene::set(cx).await?;
        let texts = trap.texts_without_slash();
        let mut requests = scene.requests(cx).await?;
        // The caller makes the staging directory, so its name is not an attack on the driver.
        requests.retain(|request| request.rpc.method != "NodeStageVolume");
        let above = PathBuf::from(cx.target_path().await?);
        let above = above.parent().unwrap_or(&above).display();
        let texts: Vec<String> = texts.iter().map(|text| format!("{above}/{text}")).collect();
        let changes = |request: &Request| with_texts(request, &[TextRole::Path], &[], &texts);
        volley(cx, &requests, changes, |shot, answer| trap.is_untouched(shot, answer)).await
    }
}

/// It has the form of an option, and no command has it.
const OPTION: &str = "--csi-sanity-option";
/// Keys whose values are arguments of commands, and not options.
const ARGUMENT_KEYS: [&str; 4] = ["source", "server", "share", "subDir"];
/// Texts that are not meant to be options, unlike many parameters and mount flags.
const ARGUMENTS: [TextRole; 4] = [TextRole::Name, TextRole::Id, TextRole::Context, TextRole::FileSystem];

check! {
    /// An attack needs no shell: mkfs, mount and tar have options that run programs, and a text that becomes the
    /// start of an argument can be such an option.
    OPTIONS {
        id: "hostile/commands/options",
        title: "a text in a request never becomes an option of a command",
        spec: [HOSTILE_COMMAND_001],
        needs: [VOLUME],
        refuted_by: ["node-publish-passes-context-as-option"],
        runs: CrashProne,
    }
    async |cx| {
        let unseen = || Stop::skip("needs to see which commands the driver calls, for which --driver-command has to start it");
        let failed = |error| Stop::broken(format!("failed to watch the commands of the driver: {error}"));
        let driver = cx.target().driver().ok_or_else(unseen)?;
        let watch = driver.watch_commands().await.ok_or_else(unseen)?.map_err(failed)?;
        let mut seen = 0;
        sweep(cx, &ARGUMENTS, &ARGUMENT_KEYS, &[OPTION.to_owned()], |shot, _| {
            let calls = watch.take().map_err(failed)?;
            seen += calls.len();
            let Some(call) = calls.iter().find(|call| has_option(call)) else { return Ok(()) };
            Err(Violation::new(format!("{} becomes an option of {}", shot.described(), call.name))
                .expected("an argument that is no option, such as one after --")
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

/// Returns whether the text certainly is an option of the command: nothing before it ends the options or takes it as
/// a value.
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
