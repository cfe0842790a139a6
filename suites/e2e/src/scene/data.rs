//! What tests write into volumes, and how they find it again.

use super::{RunningPod, Scene, failed};
use crate::cluster::Done;
use crate::pattern::VolumeType;
use futures_util::future::BoxFuture;

/// Bytes written at once, so that they are whole sectors of any device.
const CONTENT_BYTES: usize = 4096;

/// Sizes of what is written besides, of which a volume gets those that it has room for: all odd, so that no block of any size ends
/// where they do.
const SIZES_BYTES: [u64; 4] = [4097, (1 << 20) + 1, (5 << 20) + 3, (64 << 20) + 4099];
/// The largest of them where a test does not ask for more.
const USUAL_BYTES_MAX: u64 = 6 << 20;
/// What of the bytes of a volume is written: this part of them at the most.
const PART_OF_VOLUME: u64 = 2;
/// Where in a device it begins, behind the text.
const STREAM_AT: usize = 65536;
/// Numbers that are repeated in what is written, of nine digits each.
const NUMBERS: u64 = 10_000;
/// Bytes of them, each with the end of its line.
const NUMBERS_BYTES: u64 = NUMBERS * 10;

/// Content that is told from any other by its text, with more of several sizes that depends on a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    text: String,
    seed: u64,
    sizes_bytes: Vec<u64>,
}

impl Content {
    /// Whether this was read.
    pub(crate) fn is(&self, read: &str) -> bool {
        self.text == read
    }

    /// The script that writes it into files of a volume, and waits until it is stored.
    pub(crate) fn script(&self, path: &str) -> String {
        let text = format!("echo '{}' > {path}/index.html", self.text);
        let files =
            self.sizes_bytes.iter().map(|bytes| format!("{} > {path}/{}", self.stream(*bytes), file(*bytes)));
        std::iter::once(text).chain(files).chain(["sync".to_owned()]).collect::<Vec<_>>().join(" && ")
    }

    /// The script that prints so many bytes: numbers from one that depends on the seed on, again and again, each time behind another
    /// line.
    fn stream(&self, bytes: u64) -> String {
        let first = 100_000_000 + self.seed % 800_000_000;
        let last = first + NUMBERS - 1;
        let rounds = bytes / NUMBERS_BYTES + 1;
        format!(
            "(b=$(seq {first} {last}); n=0; while [ $n -lt {rounds} ]; do echo {bytes} $n; echo \"$b\"; n=$((n+1)); done) \
             2>/dev/null | head -c {bytes}"
        )
    }

    /// The largest of its sizes, for a device.
    fn largest_bytes(&self) -> Option<u64> {
        self.sizes_bytes.iter().max().copied()
    }
}

/// The file that has so many bytes.
fn file(bytes: u64) -> String {
    format!("data-{bytes}")
}

impl Scene {
    /// Content that nothing else has; it depends on the seed of the run.
    pub(crate) fn content(&self) -> Content {
        self.content_up_to(USUAL_BYTES_MAX)
    }

    /// The same with more than 64 MiB at once, where the volumes of the test are large enough.
    pub(crate) fn large_content(&self) -> Content {
        self.content_up_to(u64::MAX)
    }

    fn content_up_to(&self, bytes_max: u64) -> Content {
        let text = format!(
            "{:016x}{:016x}{:016x}{:016x}",
            self.rng_seed(),
            self.rng_seed(),
            self.rng_seed(),
            self.rng_seed()
        );
        // How large a volume is that has no claim of the test's, nobody says.
        let volume_bytes = match self.pattern().volume {
            VolumeType::Dynamic => self.claim_bytes().unsigned_abs(),
            VolumeType::Inline | VolumeType::GenericEphemeral => 1 << 20,
        };
        let mut room_bytes = volume_bytes / PART_OF_VOLUME;
        let mut sizes_bytes = Vec::new();
        for bytes in SIZES_BYTES.into_iter().filter(|bytes| *bytes <= bytes_max) {
            if bytes <= room_bytes {
                room_bytes -= bytes;
                sizes_bytes.push(bytes);
            }
        }
        Content { text, seed: self.rng_seed(), sizes_bytes }
    }
}

impl RunningPod<'_> {
    /// Writes into files of the volume, or to the beginning of the device, and waits until it is stored.
    pub(crate) async fn write(&self, path: &str, block: bool, content: &Content) -> Done {
        if !block {
            self.sh(&content.script(path)).await?;
            return Ok(());
        }
        let filled = format!("printf '%-{CONTENT_BYTES}s' '{}'", content.text);
        self.sh(&format!("{filled} | dd of={path} bs={CONTENT_BYTES} count=1 conv=fsync 2>&1")).await?;
        if let Some(bytes) = content.largest_bytes() {
            let stream = content.stream(bytes);
            self.sh(&format!("{stream} | dd of={path} bs={STREAM_AT} seek=1 conv=notrunc,fsync 2>&1"))
                .await?;
        }
        Ok(())
    }

    /// Reads the text that [`write`](RunningPod::write) has written. A device is read past the cache.
    pub(crate) async fn read(&self, path: &str, block: bool) -> Done<String> {
        match block {
            false => self.sh(&format!("cat {path}/index.html")).await,
            true => {
                // Not every dd knows the flag; what it then reads is what the device has, unless the node keeps it back.
                let read = format!("dd if={path} bs={CONTENT_BYTES} count=1");
                self.sh(&format!("({read} iflag=direct || {read}) 2>/dev/null | tr -d '\\0'")).await
            }
        }
    }

    /// The volume has this content, byte for byte.
    pub(crate) fn holds<'a>(
        &'a self,
        path: &'a str,
        block: bool,
        content: &'a Content,
    ) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            let found = self.read(path, block).await?;
            if !content.is(&found) {
                return Err(failed("the volume holds other data than was written", &content.text, found));
            }
            let sizes_bytes = match block {
                true => content.largest_bytes().into_iter().collect(),
                false => content.sizes_bytes.clone(),
            };
            for bytes in sizes_bytes {
                let there = match block {
                    false => format!("cat {path}/{}", file(bytes)),
                    true => {
                        let count = bytes.div_ceil(STREAM_AT as u64);
                        let read = format!("dd if={path} bs={STREAM_AT} skip=1 count={count}");
                        format!("({read} iflag=direct || {read}) 2>/dev/null | head -c {bytes}")
                    }
                };
                self.reads_as_written(&content.stream(bytes), &there, bytes).await?;
            }
            Ok(())
        })
    }

    /// A script prints so many bytes, the same as another one, as their hashes tell.
    async fn reads_as_written(&self, written: &str, there: &str, bytes: u64) -> Done {
        let hash = |script: &str| format!("{script} | sha256sum | cut -c-64");
        let (expected, found) = (self.sh(&hash(written)).await?, self.sh(&hash(there)).await?);
        if expected == found {
            return Ok(());
        }
        let found_bytes = self.sh(&format!("{there} | wc -c")).await?;
        Err(failed(
            format!("the volume holds other data than was written: {there}"),
            format!("{bytes} bytes with the SHA-256 {expected}"),
            format!("{} bytes with the SHA-256 {found}", found_bytes.trim()),
        ))
    }

    /// Nothing can be written into the file system.
    pub(crate) async fn cannot_write(&self, path: &str) -> Done {
        self.sh_fails("a pod can write to a volume that is read-only for it", &format!("touch {path}/more"))
            .await
    }

    /// The path is what the volume mode says, and the mount table has the file system asked for.
    pub(crate) async fn has_kind(&self, path: &str, block: bool, fs_type: &str) -> Done {
        let (flag, kind) = if block { ("-b", "a block device") } else { ("-d", "a directory") };
        let output = self.output(&format!("test {flag} {path}")).await?;
        if output.code != 0 {
            let actual = self.output(&format!("stat -c %F {path}")).await?.stdout;
            return Err(failed("a pod does not see a volume of its mode", kind, actual.trim_end()));
        }
        if fs_type.is_empty() {
            return Ok(());
        }
        let found = self.mounted(path, 2).await?;
        match found == fs_type {
            true => Ok(()),
            false => Err(failed("the volume has another file system than requested", fs_type, found)),
        }
    }

    /// The options that a volume is mounted with, joined by commas.
    pub(crate) async fn mount_options(&self, path: &str) -> Done<String> {
        self.mounted(path, 3).await
    }

    /// A field of the mount table, from 0 on; the last mount of a path counts.
    async fn mounted(&self, path: &str, field: usize) -> Done<String> {
        let line = self.sh(&format!("grep ' {path} ' /proc/mounts | tail -n 1")).await?;
        Ok(line.split(' ').nth(field).unwrap_or_default().to_owned())
    }

    /// Bytes of the file system, or of the device.
    pub(crate) async fn size_bytes(&self, path: &str, block: bool) -> Done<u64> {
        let script = match block {
            true => format!("blockdev --getsize64 {path}"),
            false => format!("echo $(( $(stat -f -c '%b * %S' {path}) ))"),
        };
        let printed = self.sh(&script).await?;
        printed
            .parse()
            .map_err(|_| failed("the size of a volume cannot be read", "a number of bytes", printed))
    }
}
