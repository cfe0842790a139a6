use csi_driver_definitions::Capability;
use csi_harness::text::size::sized;

use crate::cluster::{Container, VolumeMount};
use crate::pattern;
use crate::scene::failed;
use crate::test;
use crate::test::Suite;

/// The sizes of the files in bytes; those up to MaxFileSize are written.
const SIZES_BYTES: [u64; 3] = [1 << 20, 100 << 20, 1 << 30];
/// The group of the volume, if the driver supports groups.
const FS_GROUP: u32 = 1234;
const PATH: &str = "/opt";

pub(crate) static SUITE: Suite = Suite {
    name: "volumeIO",
    patterns: &[&pattern::DEFAULT_FS, &pattern::NTFS],
    size_min_bytes: 1 << 20,
    tests: &[&WRITES_FILES],
    ..Suite::PLAIN
};

test! {
    /// Files of 1 MiB, 100 MiB and 1 GiB, up to MaxFileSize, have the size and checksum of the written data. Upstream
    /// writes none if MaxFileSize is left out; here the source file of 1 MiB is always compared.
    WRITES_FILES {
        name: "should write files of various sizes, verify size, validate content",
        tags: ["Slow"],
    }
    async |scene| {
        let volume = scene.volume().await?;
        let mut spec = scene.pod_at(&[(&volume, PATH.to_owned())]);
        spec.fs_group = scene.driver().can(Capability::FsGroup).then_some(FS_GROUP);
        spec.init_containers = vec![Container {
            name: "source".to_owned(),
            // 32 characters, 32 times, is 1 KiB; 1024 of these are 1 MiB.
            script: Some(format!(
                "line=abcdefghijklmnopqrstuvwxyz123456; \
                 kib=; n=0; while [ $n -lt 32 ]; do kib=$kib$line; n=$((n+1)); done; \
                 n=0; while [ $n -lt 1024 ]; do printf %s $kib; n=$((n+1)); done > {PATH}/source"
            )),
            mounts: vec![VolumeMount {
                volume: "volume1".to_owned(),
                path: PATH.to_owned(),
                ..VolumeMount::default()
            }],
            ..Container::default()
        }];
        let pod = scene.run(spec).await?;
        let largest = scene.driver().driver_info.max_file_size_bytes.max(SIZES_BYTES[0]);
        for size in SIZES_BYTES.into_iter().filter(|size| *size <= largest) {
            let (file, times) = (format!("{PATH}/file-{size}"), size / SIZES_BYTES[0]);
            let repeated = format!("n=0; while [ $n -lt {times} ]; do cat {PATH}/source; n=$((n+1)); done");
            pod.sh(&format!("({repeated}) | dd of={file} bs=1M iflag=fullblock conv=fsync 2>&1")).await?;
            let found = pod.sh(&format!("stat -c %s {file}")).await?;
            if found != size.to_string() {
                return Err(failed("a file has another size than was written", size, found));
            }
            let written = pod.sh(&format!("({repeated}) | sha256sum")).await?;
            let found = pod.sh(&format!("sha256sum < {file}")).await?;
            if found != written {
                return Err(failed(format!("a file of {} has other data than was written", sized(size)), written, found));
            }
            pod.sh(&format!("rm {file}")).await?;
        }
        pod.delete().await
    }
}
