//! The process of a workload. It sees the volume and nothing else, as a container does, and writes one record after another until
//! its standard input has a line or ends. It reports each step as a line of JSON.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix::process::{chdir, pivot_root};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::checker::{Span, Writer};
use crate::files::{self, Failed, Files};
use crate::layout::{Layout, Place};

/// A record is read again after so many others.
const READ_BACK_AFTER: u32 = 17;
/// The process sleeps so many times as long as it computes, so that it takes at most a quarter of a core.
const SLEEP_PER_CPU_TIME: u32 = 3;
/// Deviations that are reported of a volume that is read at the end.
const DEVIATIONS_MAX: usize = 4;

/// The order that the process carries out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The path at which the volume is published.
    pub(crate) target: PathBuf,
    /// An empty directory, which becomes the root of the process.
    pub(crate) root: PathBuf,
    pub(crate) run: u64,
    /// The last record that the volume has already; 0 if it has none.
    pub(crate) last: u32,
    pub(crate) volume: String,
    /// The volume also holds other data.
    pub(crate) has_other_data: bool,
    pub(crate) interval_us: u64,
}

/// An event of the process. Times are those of the monotonic clock of its machine, in microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The files are open.
    Ready { layout: Layout },
    /// The process cannot begin.
    Unable { why: String },
    /// A record is about to be written.
    Begun { number: u32, at_us: u64 },
    /// A record is durable.
    Acknowledged { number: u32, at_us: u64 },
    /// An operation failed, and the process writes no more.
    Failed { number: u32, place: Place, operation: String, errno: Option<i32>, error: String, at_us: u64 },
    /// The volume holds something else than was written.
    Deviates { place: Place, found: String, expected: String },
    /// The process still reports, even if its write takes long.
    Alive { at_us: u64 },
    /// The process ends. One of this machine has read all places.
    Ended,
}

impl Event {
    /// The time of the event.
    pub(crate) fn at_us(&mut self) -> Option<&mut u64> {
        match self {
            Event::Begun { at_us, .. }
            | Event::Acknowledged { at_us, .. }
            | Event::Failed { at_us, .. }
            | Event::Alive { at_us } => Some(at_us),
            Event::Ready { .. } | Event::Unable { .. } | Event::Deviates { .. } | Event::Ended => None,
        }
    }
}

/// The monotonic clock, in microseconds.
pub(crate) fn now_us() -> u64 {
    since_us(ClockId::Monotonic)
}

fn since_us(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000
}

/// Runs a workload until the standard input has a line or ends, or the volume fails.
///
/// # Errors
/// The report cannot be written, since its reader is gone.
pub(crate) fn run(order: &str) -> io::Result<()> {
    let order: Order = serde_json::from_str(order)?;
    let (files, writer) = match begin(&order) {
        Ok(begun) => begun,
        Err(why) => return report(&Event::Unable { why }),
    };
    report(&Event::Ready { layout: writer.layout })?;
    let path = seen_from_inside(&order.target);
    let last = write_records(&files, &writer, &path, &order)?;
    if let Some(last) = last {
        read_everything(&writer, &path, last)?;
    }
    report(&Event::Ended)
}

/// Prints an event as a line.
pub(crate) fn report(event: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

fn begin(order: &Order) -> Result<(Files, Writer), String> {
    enter(&order.target, &order.root)
        .map_err(|error| format!("failed to make a root directory with the volume: {error}"))?;
    let path = seen_from_inside(&order.target);
    let layout = files::layout(&path, order.has_other_data)
        .map_err(|error| format!("failed to look at the volume: {error}"))?;
    let layout = layout.ok_or("the volume is too small for a workload")?;
    let writer = Writer { layout, run: order.run, volume: order.volume.clone() };
    let files = Files::open(&path, writer.clone());
    let files = files.map_err(|(operation, error)| format!("{operation} failed: {error}"))?;
    Ok((files, writer))
}

/// The directory of the target, in the root of the process.
const POD: &str = "pod";

/// Returns the path of the target in the root of the process.
pub(crate) fn seen_from_inside(target: &Path) -> PathBuf {
    Path::new("/").join(POD).join(target.file_name().unwrap_or_default())
}

/// Makes a root directory that has the volume and nothing else. The process is in its own mount namespace, to which mounts and unmounts
/// spread from the node where the node's own mounts are shared. No other mount is kept, because it would keep the volume of another user
/// busy.
pub(crate) fn enter(target: &Path, root: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(io::Error::other("the target path has no parent"));
    };
    mount("csi-sanity", root, "tmpfs", MountFlags::empty(), None)?;
    let pod = root.join(POD);
    std::fs::create_dir(&pod)?;
    mount_bind(parent, &pod)?;
    mount_bind(target, pod.join(name))?;
    chdir(root)?;
    // Both directories may be one: the old root is then mounted over the new one, and can be taken away.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    Ok(())
}

/// Writes records until it has to end: the last one, or none if the volume has failed.
fn write_records(files: &Files, writer: &Writer, path: &Path, order: &Order) -> io::Result<Option<u32>> {
    let interval = Duration::from_micros(order.interval_us);
    let has_to_end = ends_with_input();
    for number in order.last.saturating_add(1)..u32::MAX {
        let (begun_us, cpu_us) = (now_us(), since_us(ClockId::ThreadCPUTime));
        report(&Event::Begun { number, at_us: begun_us })?;
        if let Err(failed) = files.write(number) {
            return report_failure(writer, number, failed).map(|()| None);
        }
        report(&Event::Acknowledged { number, at_us: now_us() })?;
        if let Some(old) = number.checked_sub(READ_BACK_AFTER)
            && old > 0
            && !is_right(files, writer, number, old, path)?
        {
            return Ok(None);
        }
        if has_to_end.load(Ordering::Relaxed) {
            return Ok(Some(number));
        }
        let used = Duration::from_micros(since_us(ClockId::ThreadCPUTime) - cpu_us);
        let rest = interval.saturating_sub(Duration::from_micros(now_us() - begun_us));
        std::thread::sleep(rest.max(used * SLEEP_PER_CPU_TIME));
    }
    Ok(None)
}

/// A flag that becomes true when the standard input has a line or ends.
fn ends_with_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    std::thread::spawn(move || {
        // The end of the input, or any line, asks for the end.
        let _ = io::stdin().read_line(&mut String::new());
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

fn report_failure(writer: &Writer, number: u32, (operation, error): Failed) -> io::Result<()> {
    report(&Event::Failed {
        number,
        place: writer.layout.place(number),
        operation: operation.to_owned(),
        errno: error.raw_os_error(),
        error: error.to_string(),
        at_us: now_us(),
    })
}

/// Reads an older record, and looks whether the path still leads to the volume. Returns false if something is wrong.
fn is_right(files: &Files, writer: &Writer, number: u32, old: u32, path: &Path) -> io::Result<bool> {
    let place = writer.layout.place(old);
    let found = match files.read(place) {
        Ok(found) => found,
        Err(failed) => return report_failure(writer, old, failed).map(|()| false),
    };
    if let Err(error) = File::open(path) {
        return report_failure(writer, old, ("open the target path", error)).map(|()| false);
    }
    let expected = writer.layout.last_write(place, number);
    if found.number() == expected {
        return Ok(true);
    }
    let expected = expected.map_or("nothing".to_owned(), |number| format!("write {number}"));
    report(&Event::Deviates { place, found: found.to_string(), expected })?;
    Ok(false)
}

/// Reads all places through files that are opened anew.
fn read_everything(writer: &Writer, path: &Path, last: u32) -> io::Result<()> {
    let contents = match files::read_all(path, &writer.layout) {
        Ok(contents) => contents,
        Err(error) => return report_failure(writer, last, ("read at the end", error)),
    };
    let span = Span { acknowledged: last, begun: last };
    for deviation in writer.judge(span, &contents).into_iter().take(DEVIATIONS_MAX) {
        let found = deviation.found.to_string();
        report(&Event::Deviates { place: deviation.place, found, expected: deviation.expected })?;
    }
    Ok(())
}
