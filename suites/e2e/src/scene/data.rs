//! What tests write into volumes, and how they find it again.

use super::{RunningPod, Scene, failed};
use crate::cluster::Done;

/// Bytes written at once, so that they are whole sectors of any device.
const CONTENT_BYTES: usize = 4096;

/// Content that is told from any other by its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    text: String,
}

impl Content {
    /// This text. It travels through a shell, so it has no quotes.
    pub(crate) fn of(text: impl Into<String>) -> Content {
        Content { text: text.into() }
    }

    /// Whether this was read.
    pub(crate) fn is(&self, read: &str) -> bool {
        self.text == read
    }

    /// The script that writes it into a file of a volume, and waits until it is stored.
    pub(crate) fn script(&self, path: &str) -> String {
        format!("echo '{}' > {path}/index.html && sync", self.text)
    }
}

impl Scene {
    /// Content that nothing else has; it depends on the seed of the run.
    pub(crate) fn content(&self) -> Content {
        Content::of(format!(
            "{:016x}{:016x}{:016x}{:016x}",
            self.rng_seed(),
            self.rng_seed(),
            self.rng_seed(),
            self.rng_seed()
        ))
    }
}

impl RunningPod<'_> {
    /// Writes into a file of the volume, or to the beginning of the device, and waits until it is stored.
    pub(crate) async fn write(&self, path: &str, block: bool, content: &Content) -> Done {
        match block {
            false => self.sh(&content.script(path)).await?,
            true => {
                let filled = format!("printf '%-{CONTENT_BYTES}s' '{}'", content.text);
                self.sh(&format!("{filled} | dd of={path} bs={CONTENT_BYTES} count=1 conv=fsync 2>&1"))
                    .await?
            }
        };
        Ok(())
    }

    /// Reads what [`write`](RunningPod::write) has written. A device is read past the cache.
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

    /// The volume has this content.
    pub(crate) async fn holds(&self, path: &str, block: bool, content: &Content) -> Done {
        let found = self.read(path, block).await?;
        match content.is(&found) {
            true => Ok(()),
            false => Err(failed("the volume holds other data than was written", &content.text, found)),
        }
    }

    /// Nothing can be written into the file system.
    pub(crate) async fn cannot_write(&self, path: &str) -> Done {
        self.sh_fails("a pod can write to a volume that it may only read", &format!("touch {path}/more"))
            .await
    }

    /// The path is what the volume mode says, and the mount table has the file system asked for.
    pub(crate) async fn has_kind(&self, path: &str, block: bool, fs_type: &str) -> Done {
        let (flag, kind) = if block { ("-b", "a block device") } else { ("-d", "a directory") };
        let output = self.output(&format!("test {flag} {path}")).await?;
        if output.code != 0 {
            let actual = self.output(&format!("stat -c %F {path}")).await?.stdout;
            return Err(failed(
                "a pod sees something else than a volume of its mode",
                kind,
                actual.trim_end(),
            ));
        }
        if fs_type.is_empty() {
            return Ok(());
        }
        let found = self.mounted(path, 2).await?;
        match found == fs_type {
            true => Ok(()),
            false => Err(failed("the volume has another file system than was asked for", fs_type, found)),
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
