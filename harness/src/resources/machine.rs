//! Limits of this machine that make calls fail: a right that processes lack here, and free loop devices that are still read-only. Neither is
//! a fault of the driver that meets it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// The number of CAP_SYS_RESOURCE among the capabilities of a process.
const SYS_RESOURCE: u32 = 24;
/// Words in the answer of a driver that may not grow a file system, for the growing and for the denial. resize2fs prints "Permission denied
/// to resize filesystem".
const GROWS: [&str; 3] = ["resiz", "grow", "expand"];
const DENIED: [&str; 3] = ["permission denied", "operation not permitted", "eperm"];
/// Words of a denial that is about opening or reading a device: growing a file system does not need that device.
const OPENS: [&str; 3] = ["open", "blockdev", "readonly bit"];

/// The effective capabilities of this process, which those that it starts have as well; all of them where that cannot be read.
static CAPABILITIES: LazyLock<u64> = LazyLock::new(|| {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(u64::MAX)
});

/// The right that is missing here, if the answer of a driver shows that a call failed because of that.
pub fn lacks_right(answer: &str) -> Option<&'static str> {
    lacks_right_of(answer, *CAPABILITIES)
}

fn lacks_right_of(answer: &str, capabilities: u64) -> Option<&'static str> {
    let answer = answer.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| answer.contains(word));
    // Many drivers answer with the command and its exit status, and leave out what it printed.
    let gives_no_reason = has(&GROWS)
        && answer.contains("exit status 1")
        && !answer.contains("resize2fs:")
        && !answer.contains("xfs")
        && !has(&OPENS);
    let is_meant =
        answer.contains("cap_sys_resource") || has(&GROWS) && has(&DENIED) && !has(&OPENS) || gives_no_reason;
    if is_meant { grows_no_ext4(capabilities) } else { None }
}

/// The right without which a driver cannot grow a mounted file system here, if it is missing.
pub(crate) fn growing_is_denied() -> Option<&'static str> {
    grows_no_ext4(*CAPABILITIES)
}

fn grows_no_ext4(capabilities: u64) -> Option<&'static str> {
    (capabilities & (1 << SYS_RESOURCE) == 0).then_some(
        "this machine gives processes no CAP_SYS_RESOURCE, without which the kernel grows no mounted ext4, so this shows nothing of the driver",
    )
}

/// The free loop devices that refuse writes. BLKROSET outlives the use that it was meant for, and mkfs on the next volume that gets the
/// device fails with EPERM.
pub fn read_only_loops() -> BTreeSet<String> {
    read_only_loops_in(Path::new("/sys/block"))
}

fn read_only_loops_in(devices: &Path) -> BTreeSet<String> {
    let devices = fs::read_dir(devices).into_iter().flatten().flatten();
    let left = devices.filter(|device| {
        let is_loop = device.file_name().as_encoded_bytes().starts_with(b"loop");
        let reads_one = |flag: String| flag.trim() == "1";
        is_loop
            && fs::read_to_string(device.path().join("ro")).is_ok_and(reads_one)
            && !device.path().join("loop/backing_file").exists()
    });
    left.map(|device| format!("/dev/{}", device.file_name().to_string_lossy())).collect()
}

/// States which free loop devices are read-only. A run leaves those as they are that were so before it, since they may be somebody else's.
pub fn describe_read_only_loops(left: &BTreeSet<String>) -> String {
    let left = left.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    format!(
        "loop devices that are free and read-only: {left}. If a driver has set that (BLKROSET), the next one that gets the device cannot \
         format it (\"Operation not permitted\"); blockdev --setrw {left} clears it. If the device was only attached for reading, its next \
         use does"
    )
}

/// Makes free loop devices writable again that were not read-only before. Says which ones those are, but not who left them so: all programs
/// on a machine take their devices from one pool.
pub(crate) fn clear_read_only_loops(before: &BTreeSet<String>) -> Option<String> {
    let left: BTreeSet<String> = read_only_loops().difference(before).cloned().collect();
    for device in &left {
        let mut command = Command::new("blockdev");
        // A failure shows below.
        let _ = command.args(["--setrw", device]).stdin(Stdio::null()).output();
    }
    // A device that was attached for reading only shows the flag until it is attached again, which does no harm.
    let cleared: Vec<String> = left.difference(&read_only_loops()).cloned().collect();
    (!cleared.is_empty()).then(|| {
        format!(
            "free loop devices that this run or another program has left read-only (BLKROSET), and that were made writable again: {}",
            cleared.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Limits the wait until a device that was detached is free.
    const DETACHED_IN: Duration = Duration::from_secs(60);

    #[test]
    fn a_missing_right_explains_only_its_own_failures() {
        let (without, with) = (!(1 << SYS_RESOURCE), u64::MAX);
        for answer in [
            "INTERNAL \"resize2fs: Permission denied to resize filesystem\"",
            "INTERNAL \"failed to grow /dev/loop3: Operation not permitted (os error 1)\"",
            "FAILED_PRECONDITION \"growing it while mounted needs CAP_SYS_RESOURCE\"",
            "UNKNOWN \"Command 'resize2fs /dev/loop0' returned non-zero exit status 1.\"",
        ] {
            assert!(lacks_right_of(answer, without).is_some(), "{answer}");
            assert_eq!(lacks_right_of(answer, with), None, "{answer}");
        }
        for answer in [
            "INTERNAL \"need resize check failed on devicePath /dev/vda: blockdev: cannot open /dev/vda: Operation not permitted\"",
            "INTERNAL \"need resize check failed: exit status 1: blockdev: cannot open /dev/vda: Operation not permitted\"",
            "INTERNAL \"mkfs: Operation not permitted\"",
            "INTERNAL \"exit status 1: resize2fs: Bad magic number in super-block\"",
            "OUT_OF_RANGE \"cannot expand so far\"",
            "OK",
        ] {
            assert_eq!(lacks_right_of(answer, without), None, "{answer}");
        }
    }

    #[test]
    fn only_a_free_loop_device_is_left_read_only() {
        let devices = tempfile::tempdir().expect("a directory");
        for (name, flag, is_used) in
            [("loop0", "1", false), ("loop1", "1", true), ("loop2", "0", false), ("sr0", "1", false)]
        {
            let device = devices.path().join(name);
            fs::create_dir_all(device.join("loop")).expect("a directory");
            fs::write(device.join("ro"), format!("{flag}\n")).expect("a file");
            if is_used {
                fs::write(device.join("loop/backing_file"), "/image\n").expect("a file");
            }
        }
        assert_eq!(read_only_loops_in(devices.path()), BTreeSet::from(["/dev/loop0".to_owned()]));
    }

    #[test]
    fn a_device_left_read_only_is_made_writable_as_root() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: needs root for loop devices");
            return;
        }
        let run = |name: &str, arguments: &[&str]| {
            let output = Command::new(name).args(arguments).output().expect("the command is there");
            assert!(
                output.status.success(),
                "{name} {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        let image = tempfile::NamedTempFile::new().expect("a file");
        image.as_file().set_len(1 << 20).expect("room");
        let before = read_only_loops();
        // Tests that run at the same time get the free device with the lowest number, and could not write to this one.
        let device = "/dev/loop4095".to_owned();
        run("losetup", &[&device, &image.path().to_string_lossy()]);
        run("blockdev", &["--setro", &device]);
        run("losetup", &["--detach", &device]);
        // The kernel detaches a device when its last user has closed it, which may be another program that looks at all devices.
        let (begun, file) = (Instant::now(), Path::new("/sys/block/loop4095/loop/backing_file"));
        while file.exists() {
            assert!(begun.elapsed() < DETACHED_IN, "{device} stays in use");
            std::thread::sleep(Duration::from_millis(5));
        }
        let cleared = clear_read_only_loops(&before);
        // Another program may have taken the device since, or the kernel has cleared the flag with the last user.
        if let Some(cleared) = cleared {
            assert!(cleared.contains(&device) && !cleared.contains("the driver"), "{cleared}");
        }
        assert!(!read_only_loops().contains(&device) || before.contains(&device));
    }
}
