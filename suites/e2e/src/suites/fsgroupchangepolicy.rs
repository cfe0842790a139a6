use csi_driver_definitions::Capability;

use crate::cluster::{AccessMode, Done, FsGroupPolicy, PodSpec, PvcSpec};
use crate::pattern;
use crate::scene::{RunningPod, Scene, failed, path_of};
use crate::test;
use crate::test::{Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "fsgroupchangepolicy",
    patterns: &[&pattern::DEFAULT_FS],
    size_min_bytes: 1 << 20,
    needs: &[Need::Can(Capability::FsGroup), Need::FileSystem],
    tests: &[
        &ALWAYS,
        &ALWAYS_ONE_POD,
        &ALWAYS_SAME_AFTER_CHGRP,
        &ALWAYS_OTHER_AFTER_CHGRP,
        &MISMATCH,
        &MISMATCH_SAME_AFTER_CHGRP,
        &MISMATCH_OTHER_AFTER_CHGRP,
    ],
    ..Suite::PLAIN
};

test! {
    /// After a pod with another fsGroup, the new group owns the files.
    ALWAYS {
        name: "(Always)[LinuxOnly], pod created with an initial fsgroup, new pod fsgroup applied to volume contents",
    }
    async |scene| {
        Case { then: 2000, expected: [2000, 2000], ..CASE }.holds(scene).await
    }
}

test! {
    /// After a pod with another fsGroup, the new group owns the files, also with a claim for ReadWriteOncePod. As
    /// upstream, the driver need not promise readWriteOncePod.
    ALWAYS_ONE_POD {
        name: "(Always)[LinuxOnly], rwop pod created with an initial fsgroup, new pod fsgroup applied to volume contents",
    }
    async |scene| {
        Case { one_pod: true, then: 2000, expected: [2000, 2000], ..CASE }.holds(scene).await
    }
}

test! {
    /// Files that a pod gave to other groups belong to the fsGroup again in the next pod.
    ALWAYS_SAME_AFTER_CHGRP {
        name: "(Always)[LinuxOnly], pod created with an initial fsgroup, volume contents ownership changed via chgrp in first pod, new pod with same fsgroup applied to the volume contents",
        needs: [Need::Cannot(Capability::VolumeMountGroup)],
    }
    async |scene| {
        Case { chgrp: true, expected: [1000, 1000], ..CASE }.holds(scene).await
    }
}

test! {
    /// Files that a pod gave to other groups belong to another fsGroup in the next pod.
    ALWAYS_OTHER_AFTER_CHGRP {
        name: "(Always)[LinuxOnly], pod created with an initial fsgroup, volume contents ownership changed via chgrp in first pod, new pod with different fsgroup applied to the volume contents",
        needs: [Need::Cannot(Capability::VolumeMountGroup)],
    }
    async |scene| {
        Case { chgrp: true, then: 4000, expected: [4000, 4000], ..CASE }.holds(scene).await
    }
}

test! {
    /// If the volume's directory has another group, everything in it changes.
    MISMATCH {
        name: "(OnRootMismatch)[LinuxOnly], pod created with an initial fsgroup, new pod fsgroup applied to volume contents",
        needs: [Need::Cannot(Capability::VolumeMountGroup)],
    }
    async |scene| {
        Case { policy: MISMATCHED, then: 2000, expected: [2000, 2000], ..CASE }.holds(scene).await
    }
}

test! {
    /// If the volume's directory already has the group, its contents do not change.
    MISMATCH_SAME_AFTER_CHGRP {
        name: "(OnRootMismatch)[LinuxOnly], pod created with an initial fsgroup, volume contents ownership changed via chgrp in first pod, new pod with same fsgroup skips ownership changes to the volume contents",
        needs: [Need::Cannot(Capability::VolumeMountGroup)],
    }
    async |scene| {
        Case { policy: MISMATCHED, chgrp: true, expected: CHANGED, ..CASE }.holds(scene).await
    }
}

test! {
    /// If the volume's directory has another group, files with groups of their own change as well.
    MISMATCH_OTHER_AFTER_CHGRP {
        name: "(OnRootMismatch)[LinuxOnly], pod created with an initial fsgroup, volume contents ownership changed via chgrp in first pod, new pod with different fsgroup applied to the volume contents",
        needs: [Need::Cannot(Capability::VolumeMountGroup)],
    }
    async |scene| {
        Case { policy: MISMATCHED, chgrp: true, then: 4000, expected: [4000, 4000], ..CASE }.holds(scene).await
    }
}

const MISMATCHED: FsGroupPolicy = FsGroupPolicy::OnRootMismatch;
/// The fsGroup of the first pod.
const FIRST: u32 = 1000;
/// The groups to which the first pod gives the files.
const CHANGED: [u32; 2] = [2000, 3000];
const FILES: [&str; 2] = ["file1", "subdir/file2"];

/// Two pods that use a volume one after the other.
struct Case {
    /// True if the claim is for ReadWriteOncePod.
    one_pod: bool,
    policy: FsGroupPolicy,
    /// True if the first pod gives the files to other groups.
    chgrp: bool,
    /// The fsGroup of the second pod.
    then: u32,
    /// The groups of the files in the second pod.
    expected: [u32; 2],
}

const CASE: Case =
    Case { one_pod: false, policy: FsGroupPolicy::Always, chgrp: false, then: FIRST, expected: [FIRST; 2] };

impl Case {
    async fn holds(self, scene: &Scene) -> Done {
        let change = |spec: &mut PvcSpec| {
            if self.one_pod {
                spec.access_modes = vec![AccessMode::ReadWriteOncePod];
            }
        };
        let volume = scene.claim_with(change).await?;
        let pod =
            |group| PodSpec { fs_group: Some(group), fs_group_policy: self.policy, ..scene.pod(&[&volume]) };
        let [file, deep_file] = FILES.map(|file| format!("{}/{file}", path_of(0)));

        let first = scene.run(pod(FIRST)).await?;
        first.sh(&format!("mkdir {}/subdir && touch {file} {deep_file}", path_of(0))).await?;
        have_groups(&first, [FIRST; 2]).await?;
        if self.chgrp {
            let [group, deep_group] = CHANGED;
            first.sh(&format!("chgrp {group} {file} && chgrp {deep_group} {deep_file}")).await?;
            have_groups(&first, CHANGED).await?;
        }
        first.delete().await?;

        let second = scene.run(pod(self.then)).await?;
        have_groups(&second, self.expected).await?;
        second.delete().await
    }
}

/// Checks that the files belong to these groups.
async fn have_groups(pod: &RunningPod<'_>, groups: [u32; 2]) -> Done {
    for (file, group) in FILES.into_iter().zip(groups) {
        let found = pod.sh(&format!("stat -c %g {}/{file}", path_of(0))).await?;
        if found != group.to_string() {
            return Err(failed(format!("{file} in a volume belongs to another group"), group, found));
        }
    }
    Ok(())
}
