//! Writes data to volumes and verifies them.

use std::fmt::Write as _;

use csi_harness::text::encoding::hex;
use futures_util::future::BoxFuture;
use sha1::{Digest as _, Sha1};

use super::{RunningPod, Scene, failed};
use crate::cluster::Done;
use crate::pattern::VolumeType;

/// The size of the text, which is a multiple of every sector size.
const CONTENT_BYTES: usize = 4096;

/// The sizes of further data, of which a volume gets those that fit: they are odd, so that none ends at a block
/// boundary.
const SIZES_BYTES: [u64; 4] = [4097, (1 << 20) + 1, (5 << 20) + 3, (64 << 20) + 4099];
/// The largest size, unless a test requests more.
const USUAL_BYTES_MAX: u64 = 6 << 20;
/// The divisor of a volume's size that limits the written data.
const PART_OF_VOLUME: u64 = 2;
/// The offset of the data in a device, behind the text.
const STREAM_AT: usize = 65536;
/// The count of repeated numbers in the data, each with nine digits.
const NUMBERS: u64 = 10_000;
/// The bytes of these numbers, each with the end of its line.
const NUMBERS_BYTES: u64 = NUMBERS * 10;

/// Content with a unique text, and further data of several sizes that depend on a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    text: String,
    seed: u64,
    sizes_bytes: Vec<u64>,
}

impl Content {
    /// Returns whether the read text is the content's.
    pub(crate) fn is(&self, read: &str) -> bool {
        self.text == read
    }

    /// Returns the script that writes the content into files of a volume, and waits until it is stored.
    pub(crate) fn script(&self, path: &str) -> String {
        let text = format!("echo '{}' > {path}/index.html", self.text);
        let files =
            self.sizes_bytes.iter().map(|bytes| format!("{} > {path}/{}", self.stream(*bytes), file(*bytes)));
        std::iter::once(text).chain(files).chain(["sync".to_owned()]).collect::<Vec<_>>().join(" && ")
    }

    /// Returns the script that prints a number of bytes: numbers from a start that depends on the seed, repeated
    /// behind changing lines.
    fn stream(&self, bytes: u64) -> String {
        let [first, last, rounds] = self.numbers(bytes);
        format!(
            "(b=$(seq {first} {last}); n=0; while [ $n -lt {rounds} ]; do echo {bytes} $n; echo \"$b\"; n=$((n+1)); done) \
             2>/dev/null | head -c {bytes}"
        )
    }

    /// Returns the first and the last number of the data, and how often they are repeated.
    fn numbers(&self, bytes: u64) -> [u64; 3] {
        let first = 100_000_000 + self.seed % 800_000_000;
        [first, first + NUMBERS - 1, bytes / NUMBERS_BYTES + 1]
    }

    /// Returns the SHA-1 of what [`stream`](Content::stream) prints. It has to notice damage, not forgery, and in pods SHA-256 takes three
    /// times as long.
    fn sha1(&self, bytes: u64) -> String {
        let [first, last, rounds] = self.numbers(bytes);
        let mut numbers = String::new();
        (first..=last).for_each(|number| _ = writeln!(numbers, "{number}"));
        let (mut hash, mut rest) = (Sha1::new(), usize::try_from(bytes).unwrap_or(usize::MAX));
        for round in 0..rounds {
            for part in [&format!("{bytes} {round}\n"), &numbers] {
                let part = &part.as_bytes()[..rest.min(part.len())];
                hash.update(part);
                rest -= part.len();
            }
        }
        hex(&hash.finalize())
    }

    /// Returns the sizes of the data in a device or in a file system.
    fn sizes_in(&self, block: bool) -> Vec<u64> {
        match block {
            true => self.largest_bytes().into_iter().collect(),
            false => self.sizes_bytes.clone(),
        }
    }

    /// Returns the largest of its sizes, for a device.
    fn largest_bytes(&self) -> Option<u64> {
        self.sizes_bytes.iter().max().copied()
    }
}

/// Returns the name of the file of a size.
fn file(bytes: u64) -> String {
    format!("data-{bytes}")
}

/// Returns the script that prints the data of a size in a volume.
fn data_at(path: &str, block: bool, bytes: u64) -> String {
    match block {
        false => format!("cat {path}/{}", file(bytes)),
        true => {
            let count = bytes.div_ceil(STREAM_AT as u64);
            let read = format!("dd if={path} bs={STREAM_AT} skip=1 count={count}");
            format!("({read} iflag=direct || {read}) 2>/dev/null | head -c {bytes}")
        }
    }
}

impl Scene {
    /// Returns unique content, which depends on the seed of the run.
    pub(crate) fn content(&self) -> Content {
        self.content_up_to(USUAL_BYTES_MAX)
    }

    /// Returns content with more than 64 MiB in one piece, if the volumes of the test are large enough.
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
        // The size of a volume without a claim of the test is unknown.
        let volume_bytes = match self.pattern.volume {
            VolumeType::Dynamic => self.claim_bytes.unsigned_abs(),
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

    /// Reads the text that [`write`](RunningPod::write) wrote. A device is read without the cache.
    pub(crate) async fn read(&self, path: &str, block: bool) -> Done<String> {
        match block {
            false => self.sh(&format!("cat {path}/index.html")).await,
            true => {
                // Some versions of dd lack the flag; they read the device as well, unless the node caches it.
                let read = format!("dd if={path} bs={CONTENT_BYTES} count=1");
                self.sh(&format!("({read} iflag=direct || {read}) 2>/dev/null | tr -d '\\0'")).await
            }
        }
    }

    /// Checks that the volume has this content, byte for byte.
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
            let sizes_bytes = content.sizes_in(block);
            let there: Vec<String> = sizes_bytes.iter().map(|bytes| data_at(path, block, *bytes)).collect();
            let hashes = there.iter().map(|there| format!("{there} | sha1sum | cut -c-40"));
            let found = self.sh(&hashes.collect::<Vec<_>>().join("; ")).await?;
            let mut found = found.lines();
            for (bytes, there) in sizes_bytes.into_iter().zip(there) {
                let (expected, found) = (content.sha1(bytes), found.next().unwrap_or_default());
                if expected != found {
                    let found_bytes = self.sh(&format!("{there} | wc -c")).await?;
                    return Err(failed(
                        format!("the volume holds other data than was written: {there}"),
                        format!("{bytes} bytes with the SHA-1 {expected}"),
                        format!("{} bytes with the SHA-1 {found}", found_bytes.trim()),
                    ));
                }
            }
            Ok(())
        })
    }

    /// Checks that the file system cannot be written.
    pub(crate) async fn cannot_write(&self, path: &str) -> Done {
        self.sh_fails("a pod can write to a volume that is read-only for it", &format!("touch {path}/more"))
            .await
    }

    /// Checks that the path has the volume mode, and the mount the requested file system.
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

    /// Returns the mount options, joined by commas.
    pub(crate) async fn mount_options(&self, path: &str) -> Done<String> {
        self.mounted(path, 3).await
    }

    /// Returns a field of the mount table, counted from 0; the last mount of a path counts.
    async fn mounted(&self, path: &str, field: usize) -> Done<String> {
        let line = self.sh(&format!("grep ' {path} ' /proc/mounts | tail -n 1")).await?;
        Ok(line.split(' ').nth(field).unwrap_or_default().to_owned())
    }

    /// Returns the bytes of the file system or the device.
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_hash_is_that_of_what_the_script_prints() {
        let content = Content { text: String::new(), seed: 4711, sizes_bytes: Vec::new() };
        for bytes in [0, 1, 13, NUMBERS_BYTES, SIZES_BYTES[1]] {
            let script = format!("{} | sha1sum | cut -c-40", content.stream(bytes));
            let printed = Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
            assert_eq!(String::from_utf8(printed).unwrap().trim_end(), content.sha1(bytes), "{bytes}");
        }
    }
}
