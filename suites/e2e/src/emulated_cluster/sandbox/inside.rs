//! The process of a pod inside its namespaces.

use std::fs;
use std::io::{self, BufRead as _, ErrorKind, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use csi_proto::lock::Mutex;
use rustix::fs::{Gid, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal};

use super::{NumberedAnswer, NumberedOrder, Order, Volume};
use crate::cluster::{Container, Output};

/// The directory on which the pod's root is mounted, in this mount namespace only.
const NEW_ROOT: &str = "/proc";
/// The parts of the node's root directory that containers see read-only.
const SYSTEM: [&str; 8] = ["bin", "sbin", "usr", "lib", "lib32", "lib64", "libx32", "etc"];
/// The devices of containers besides their volumes.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Limits the kept bytes of each output of a script. The rest is read and dropped.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Limits the memory of a pod's empty directories.
const TMPFS: &core::ffi::CStr = c"mode=0755,size=256m";

/// Serves a pod until the standard input ends, with one command and one answer per line.
///
/// # Errors
/// Fails if the standard input cannot be read.
pub fn serve() -> io::Result<()> {
    let out = Arc::new(Mutex::new(io::stdout()));
    for line in io::stdin().lock().lines() {
        let NumberedOrder { number, order } = serde_json::from_str(&line?)?;
        match order {
            Order::SetUp { volumes, group } => {
                answer(&out, number, set_up(&volumes, group).map(|()| Output::default()))
            }
            Order::Make { container } => {
                answer(&out, number, make(&container).map(|()| Output::default()));
            }
            Order::Run { container, script, limit_ms } => {
                let out = out.clone();
                std::thread::spawn(move || {
                    answer(&out, number, run(&container, &script, limit_ms.map(Duration::from_millis)));
                });
            }
        }
    }
    Ok(())
}

fn answer(out: &Mutex<io::Stdout>, number: u64, answer: Result<Output, String>) {
    let Ok(mut line) = serde_json::to_vec(&NumberedAnswer { number, answer }) else { return };
    line.push(b'\n');
    let mut out = out.lock();
    // If the reader is gone, the end of the standard input follows.
    let _ = out.write_all(&line).and_then(|()| out.flush());
}

/// Makes the pod's root directory and leaves that of the node.
fn set_up(volumes: &[Volume], group: Option<u32>) -> Result<(), String> {
    let root = Path::new(NEW_ROOT);
    let at = |what: &'static str| move |error: Errno| format!("failed to {what}: {error}");
    rustix::mount::mount("tmpfs", root, "tmpfs", MountFlags::NOSUID, Some(TMPFS))
        .map_err(at("mount a tmpfs"))?;
    for name in SYSTEM {
        system_directory(Path::new("/"), root, name)?;
    }
    make_all(&root.join("dev"))?;
    for name in DEVICES {
        bind(&Path::new("/dev").join(name), &root.join("dev").join(name), false)?;
    }
    for volume in volumes {
        let place = root.join("volumes").join(&volume.name);
        match &volume.source {
            Some(source) => bind(source, &place, false)?,
            None => {
                make_all(&place)?;
                rustix::fs::chmod(&place, Mode::from_raw_mode(0o777))
                    .map_err(at("make an empty directory"))?;
            }
        }
    }
    let old = root.join("node");
    make_all(&old)?;
    rustix::process::pivot_root(root, &old).map_err(at("change the root directory"))?;
    rustix::process::chdir("/").map_err(at("enter the root directory"))?;
    // Otherwise volumes of other pods would stay in use here.
    rustix::mount::unmount("/node", UnmountFlags::DETACH)
        .map_err(at("leave the root directory of the node"))?;
    make_all(Path::new("/proc"))?;
    rustix::mount::mount("proc", "/proc", "proc", MountFlags::NOSUID, None::<&core::ffi::CStr>)
        .map_err(at("mount /proc"))?;
    let groups: Vec<Gid> = group.map(Gid::from_raw).into_iter().collect();
    // This precedes any other thread, because groups belong to a thread.
    rustix::thread::set_thread_groups(&groups).map_err(at("join the group of the pod"))
}

/// Makes a part of a root directory available in another one; a link stays a link.
fn system_directory(from: &Path, to: &Path, name: &str) -> Result<(), String> {
    let (source, target) = (from.join(name), to.join(name));
    match fs::symlink_metadata(&source) {
        Ok(found) if found.is_symlink() => {
            let link = fs::read_link(&source).and_then(|link| std::os::unix::fs::symlink(link, &target));
            link.map_err(|error| format!("failed to make {}: {error}", target.display()))
        }
        Ok(_) => bind(&source, &target, true),
        Err(_) => Ok(()),
    }
}

/// Makes the root directory of a container. A restarted container gets a new one over the old one.
fn make(container: &Container) -> Result<(), String> {
    let root = root_of(&container.name);
    if root.exists() {
        rustix::mount::unmount(&root, UnmountFlags::DETACH)
            .map_err(|error| format!("failed to remove the old root directory: {error}"))?;
    }
    make_all(&root)?;
    rustix::mount::mount("tmpfs", &root, "tmpfs", MountFlags::NOSUID, Some(TMPFS))
        .map_err(|error| format!("failed to mount a tmpfs: {error}"))?;
    for name in SYSTEM {
        system_directory(Path::new("/"), &root, name)?;
    }
    make_all(&root.join("tmp"))?;
    rustix::fs::chmod(root.join("tmp"), Mode::from_raw_mode(0o1777)).map_err(|error| error.to_string())?;
    make_all(&root.join("dev"))?;
    for name in DEVICES {
        bind(&Path::new("/dev").join(name), &root.join("dev").join(name), false)?;
    }
    bind(Path::new("/proc"), &root.join("proc"), false)?;
    for (name, link) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(link, root.join("dev").join(name)).map_err(|error| error.to_string())?;
    }
    for mount in &container.mounts {
        let volume = volume_path(&mount.volume);
        let target = inside(&root, Path::new(&mount.path))?;
        match &mount.sub_path {
            Some(sub_path) => bind_sub_path(&volume, Path::new(sub_path), &target, mount.read_only)?,
            None => bind(&volume, &target, mount.read_only)?,
        }
    }
    container.devices.iter().try_for_each(|device| {
        bind(&volume_path(&device.volume), &inside(&root, Path::new(&device.path))?, false)
    })
}

fn root_of(container: &str) -> PathBuf {
    Path::new("/containers").join(container)
}

fn volume_path(name: &str) -> PathBuf {
    Path::new("/volumes").join(name)
}

/// Returns a container's path as seen from outside.
fn inside(root: &Path, path: &Path) -> Result<PathBuf, String> {
    let mut inside = root.to_owned();
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => inside.push(name),
            _ => return Err(format!("{} is no absolute path without dots", path.display())),
        }
    }
    Ok(inside)
}

/// Mounts a directory or file at a path, which is created.
fn bind(source: &Path, target: &Path, read_only: bool) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("failed to mount {}: {error}", source.display());
    let found = fs::metadata(source).map_err(|error| failed(&error))?;
    if found.is_dir() {
        make_all(target)?;
    } else {
        make_all(target.parent().unwrap_or(target))?;
        let made = fs::OpenOptions::new().create(true).truncate(false).write(true).open(target);
        made.map_err(|error| format!("failed to make {}: {error}", target.display()))?;
    }
    rustix::mount::mount_bind_recursive(source, target).map_err(|error| failed(&error))?;
    if read_only {
        let flags = MountFlags::BIND | MountFlags::RDONLY;
        rustix::mount::mount_remount(target, flags, c"").map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn make_all(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| format!("failed to make {}: {error}", path.display()))
}

/// Mounts a sub-path of a volume as kubelet does: no link leads out of the volume, and missing directories are
/// created with the mode of the volume's directory.
fn bind_sub_path(volume: &Path, sub_path: &Path, target: &Path, read_only: bool) -> Result<(), String> {
    let failed = |error: Errno| {
        let why = match error {
            Errno::XDEV | Errno::LOOP => "it leads out of the volume".to_owned(),
            error => error.to_string(),
        };
        format!(
            "CreateContainerConfigError: failed to prepare subPath {} of volume: {why}",
            sub_path.display()
        )
    };
    let open = |path: &Path| {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let directory =
            rustix::fs::open(volume, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::fs::openat2(&directory, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
    };
    let mode = rustix::fs::stat(volume).map_err(failed)?.st_mode;
    let mut above = open(Path::new(".")).map_err(failed)?;
    let mut path = PathBuf::new();
    for part in sub_path.components() {
        path.push(part);
        above = match open(&path) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&above, part.as_os_str(), Mode::from_raw_mode(mode)).map_err(failed)?;
                open(&path).map_err(failed)?
            }
            opened => opened.map_err(failed)?,
        };
    }
    let number = std::os::fd::AsRawFd::as_raw_fd(&above);
    bind(&Path::new("/proc/self/fd").join(number.to_string()), target, read_only)
}

/// Runs a script in a container. After its limit it is killed with the processes that it started.
fn run(container: &str, script: &str, limit: Option<Duration>) -> Result<Output, String> {
    enum Piece {
        Stdout(String),
        Stderr(String),
        Status(io::Result<ExitStatus>),
    }
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut child = Command::new("chroot")
        .arg(root_of(container))
        .args(["/bin/sh", "-c", script])
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/tmp")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("failed to run a script: {error}"))?;
    let group = Pid::from_child(&child);
    let (pieces, arriving) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let send = |make: Box<dyn FnOnce() -> Piece + Send>| {
        let pieces = pieces.clone();
        // The caller may have given up.
        std::thread::spawn(move || drop(pieces.send(make())));
    };
    send(Box::new(move || Piece::Stdout(read(stdout))));
    send(Box::new(move || Piece::Stderr(read(stderr))));
    send(Box::new(move || Piece::Status(child.wait())));
    let mut ended = Output::default();
    for _ in 0..3 {
        let piece = match deadline {
            Some(deadline) => arriving.recv_timeout(deadline.saturating_duration_since(Instant::now())),
            None => arriving.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match piece {
            Ok(Piece::Stdout(text)) => ended.stdout = text,
            Ok(Piece::Stderr(text)) => ended.stderr = text,
            Ok(Piece::Status(status)) => ended.code = code(status.map_err(|error| error.to_string())?),
            Err(_) => {
                // The process may have just ended.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                let limit_ms = limit.unwrap_or_default().as_millis();
                return Err(format!("it has not ended within {limit_ms} ms"));
            }
        }
    }
    Ok(ended)
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Reads all of an output and keeps its beginning.
fn read(output: Option<impl Read>) -> String {
    let Some(mut output) = output else { return String::new() };
    let mut kept = Vec::new();
    let read = output.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut kept);
    if read.is_ok() {
        // Only the end of the output matters here.
        let _ = io::copy(&mut output, &mut io::sink());
    } else if let Err(error) = read
        && error.kind() != ErrorKind::Interrupted
    {
        kept.extend_from_slice(error.to_string().as_bytes());
    }
    String::from_utf8_lossy(&kept).into_owned()
}
