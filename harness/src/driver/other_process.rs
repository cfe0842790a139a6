//! The state and the memory of other processes, from /proc.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Longest path or other text that is read, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Arguments of a program that are read.
const ARGUMENTS_MAX: usize = 256;

/// The time of a process's start, in clock ticks after that of the machine.
pub(super) fn started_ticks(process: i32) -> Option<u64> {
    stat(process).get(22 - 3)?.parse().ok()
}

/// The fields of /proc/PID/stat from the third one on; none if there is no such process.
fn stat(process: i32) -> Vec<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, which is the second one in brackets, may have anything in it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}

/// The numbers that are the names of the entries of a directory of /proc.
fn numbers_in(directory: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns true if each thread of a process group is stopped or has ended. A thread that is inside the kernel stops when it leaves it.
pub(super) fn is_stopped(group: i32) -> bool {
    let group_field = group.to_string();
    let is_of_group = |process: &i32| stat(*process).get(5 - 3) == Some(&group_field);
    let mut threads = numbers_in("/proc")
        .filter(is_of_group)
        .flat_map(|process| numbers_in(&format!("/proc/{process}/task")));
    threads.all(|thread| matches!(stat(thread).first().map(String::as_str), None | Some("T" | "Z" | "X")))
}

/// Returns true if a process of the group has not ended. Zombies do not count, because they hold no resources.
pub(super) fn is_group_alive(group: i32) -> bool {
    numbers_in("/proc").any(|process| {
        let fields = stat(process);
        let field = |number: usize| fields.get(number - 3).map(String::as_str);
        // The first thread may have ended before others, which hold the process's files, such as a socket that still
        // listens.
        let has_others =
            field(20).and_then(|threads| threads.parse().ok()).is_some_and(|threads: u32| threads > 1);
        let has_ended = matches!(field(3), Some("Z" | "X")) && !has_others;
        field(5) == Some(group.to_string().as_str()) && !has_ended
    })
}

/// The text at an address of another process. Bytes that are no Unicode are replaced.
pub(super) fn text_at(process: u32, address: u64) -> Option<String> {
    bytes_at(process, address).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The bytes before the first NUL at an address of another process.
pub(super) fn bytes_at(process: u32, address: u64) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let mut bytes = vec![0; PATH_BYTES_MAX];
    // A path may end before a page that is not there.
    let to_page_end = PATH_BYTES_MAX - usize::try_from(address).ok()? % PATH_BYTES_MAX;
    let mut read = memory.read_at(&mut bytes[..to_page_end], address).ok()?;
    if !bytes[..read].contains(&0) {
        read += memory.read_at(&mut bytes[read..], address + read as u64).unwrap_or_default();
    }
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(bytes)
}

/// The texts of a list of addresses that ends with 0, at an address of another process.
pub(super) fn texts_at(process: u32, address: u64) -> Vec<String> {
    let Ok(memory) = File::open(format!("/proc/{process}/mem")) else { return Vec::new() };
    let mut texts = Vec::new();
    for index in 0..ARGUMENTS_MAX as u64 {
        let mut pointer = [0; 8];
        let read = memory.read_exact_at(&mut pointer, address.wrapping_add(8 * index));
        let pointer = u64::from_ne_bytes(pointer);
        if read.is_err() || pointer == 0 {
            break;
        }
        texts.push(text_at(process, pointer).unwrap_or_default());
    }
    texts
}
