use csi_driver_definitions::Capability;

use crate::pattern::{self, Pattern};
use crate::test;
use crate::test::{LARGE_DATA_BYTES, Need, Suite};

pub(crate) static SUITE: Suite = Suite {
    name: "volumes",
    patterns: &[
        &pattern::DEFAULT_FS,
        &pattern::EXT3,
        &pattern::EXT4,
        &pattern::XFS,
        &pattern::NTFS,
        &pattern::BLOCK,
    ],
    size_min_bytes: 1 << 20,
    data_bytes: LARGE_DATA_BYTES,
    needs: &[Need::BlockIfAsked],
    tests: &[&STORES_DATA, &EXECUTES],
    ..Suite::PLAIN
};

test! {
    /// A second pod finds the data of the first: files of several odd sizes, the largest above 64 MiB. Each pod sees
    /// a directory or a block device, with the requested file system.
    STORES_DATA {
        name: "should store data",
    }
    async |scene| {
        let Pattern { fs_type, .. } = scene.pattern;
        let volume = scene.volume().await?;
        let (block, path) = (volume.block, "/opt/0");
        let content = scene.large_content();
        let pod = || scene.pod_at(&[(&volume, path.to_owned())]);

        let writer = scene.run(pod()).await?;
        writer.write(path, block, &content).await?;
        writer.holds(path, block, &content).await?;
        writer.has_kind(path, block, fs_type).await?;
        writer.delete().await?;

        if scene.driver().can(Capability::Persistence) {
            let reader = scene.run(pod()).await?;
            reader.holds(path, block, &content).await?;
            reader.has_kind(path, block, fs_type).await?;
            reader.delete().await?;
        }
        Ok(())
    }
}

test! {
    /// A script in the volume can be executed, so the volume is not mounted with noexec.
    EXECUTES {
        name: "should allow exec of files on the volume",
        exists: |pattern, _| !pattern.is_block(),
        needs: [Need::Can(Capability::Exec)],
    }
    async |scene| {
        let volume = scene.volume().await?;
        let pod = scene.run(scene.pod_at(&[(&volume, "/vol1".to_owned())])).await?;
        let script = "/vol1/list.sh";
        pod.sh(&format!("printf '#!/bin/sh\\nls /vol1\\n' > {script} && chmod u+x {script}")).await?;
        let listed = pod.sh(script).await?;
        csi_harness::ensure!(
            listed.contains("list.sh"),
            "a script in the volume prints the wrong text";
            expected: "a list that has list.sh in it",
            actual: listed,
        );
        pod.delete().await
    }
}
