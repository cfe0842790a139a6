//! Watches and breaks system calls by which a driver changes something outside of it: mounts, files made, written, made
//! durable, renamed and removed, loop devices.
//!
//! The kernel itself asks this process (seccomp user notification). This works for every language, for static programs,
//! and for the commands that a driver calls, and counts calls over all threads; strace counts the calls that it breaks
//! for each thread alone, and a driver may make its third call on any of them. All other system calls run untouched and
//! at full speed.
//!
//! A driver that is watched ends with this process, because its calls would get no answer.
//!
//! This is the only module of the harness with `unsafe` code: system calls that no crate wraps.
#![expect(unsafe_code, reason = "seccomp, and what is between fork and exec")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use csi_proto::lock::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Command;

use super::mount_calls::MountCall;
use super::other_process::bytes_at;

/// Calls that are kept of one step.
const KEPT_MAX: usize = 10_000;

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)`.
const NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const NOTIF_SEND: libc::c_ulong = 0xc018_2101;
/// Lets the kernel make the call.
const CONTINUE: u32 = 1;
/// The call waits for the answer, whatever signals come, as those that Go sends to its own threads; since Linux 5.19.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

/// The ioctl requests that change loop devices: LOOP_SET_FD, LOOP_CLR_FD, LOOP_SET_CAPACITY, LOOP_CONFIGURE.
const LOOP_REQUESTS: [u32; 4] = [0x4c00, 0x4c01, 0x4c07, 0x4c0a];

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: u32 = 0;

/// The argument that names the object of a system call.
#[derive(Clone, Copy, Debug)]
enum About {
    /// A path, in this argument.
    Path(usize),
    /// A file that is open, in the first argument.
    Open,
    /// All files.
    All,
}

/// The condition on which a system call is looked at.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// If one of the bits is in this argument.
    Bits(usize, u32),
    /// If it asks for a change of a loop device.
    Loop,
}

/// A system call that changes something.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    number: libc::c_long,
    about: About,
    when: When,
}

const fn row(name: &'static str, number: libc::c_long, about: About) -> Row {
    Row { name, number, about, when: When::Always }
}

/// Everything is made durable: no change, and never broken.
const SYNC: &str = "sync";

/// Makes a file, or empties one.
const MAKES: u32 = (libc::O_CREAT | libc::O_TRUNC) as u32;

const ROWS: &[Row] = &[
    row("mount", libc::SYS_mount, About::Path(1)),
    row("mount", libc::SYS_move_mount, About::Path(3)),
    row("umount", libc::SYS_umount2, About::Path(0)),
    row("rename", libc::SYS_renameat, About::Path(3)),
    row("rename", libc::SYS_renameat2, About::Path(3)),
    row("unlink", libc::SYS_unlinkat, About::Path(1)),
    row("link", libc::SYS_linkat, About::Path(3)),
    row("symlink", libc::SYS_symlinkat, About::Path(2)),
    row("mkdir", libc::SYS_mkdirat, About::Path(1)),
    row("truncate", libc::SYS_truncate, About::Path(0)),
    row("truncate", libc::SYS_ftruncate, About::Open),
    row("fallocate", libc::SYS_fallocate, About::Open),
    row("fsync", libc::SYS_fsync, About::Open),
    row("fsync", libc::SYS_fdatasync, About::Open),
    row(SYNC, libc::SYS_sync, About::All),
    row(SYNC, libc::SYS_syncfs, About::All),
    row("write", libc::SYS_write, About::Open),
    row("write", libc::SYS_pwrite64, About::Open),
    Row { name: "create", number: libc::SYS_openat, about: About::Path(1), when: When::Bits(2, MAKES) },
    Row { name: "loop", number: libc::SYS_ioctl, about: About::Open, when: When::Loop },
    #[cfg(target_arch = "x86_64")]
    row("rename", libc::SYS_rename, About::Path(1)),
    #[cfg(target_arch = "x86_64")]
    row("unlink", libc::SYS_unlink, About::Path(0)),
    #[cfg(target_arch = "x86_64")]
    row("rmdir", libc::SYS_rmdir, About::Path(0)),
    #[cfg(target_arch = "x86_64")]
    row("link", libc::SYS_link, About::Path(1)),
    #[cfg(target_arch = "x86_64")]
    row("symlink", libc::SYS_symlink, About::Path(1)),
    #[cfg(target_arch = "x86_64")]
    row("mkdir", libc::SYS_mkdir, About::Path(0)),
    #[cfg(target_arch = "x86_64")]
    row("create", libc::SYS_creat, About::Path(0)),
    #[cfg(target_arch = "x86_64")]
    Row { name: "create", number: libc::SYS_open, about: About::Path(0), when: When::Bits(1, MAKES) },
];

/// The calls that mount file systems, and those that start programs, which may do that.
const MOUNT_ROWS: &[Row] = &[
    row("mount", libc::SYS_mount, About::All),
    row("mount", libc::SYS_fsconfig, About::All),
    row("mount", libc::SYS_execve, About::All),
    row("mount", libc::SYS_execveat, About::All),
];

/// A system call that a driver, or a command that it called, was about to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The operation: `mount`, `rename` and so on, whichever system call makes it.
    pub name: &'static str,
    /// The path of the object.
    pub path: PathBuf,
}

/// The fault that replaces a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFault {
    /// The driver is killed, with all that it has called, before the call is made.
    Kills,
    /// The call fails with this error.
    Fails(i32),
    /// The call is made late by this time.
    Late(Duration),
}

/// Selects system calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meant {
    /// Their names; none stands for all.
    pub names: Vec<&'static str>,
    /// The first that is meant, from 1, of those with the names.
    pub nth: u32,
    /// True if all later ones are selected, too.
    pub lasts: bool,
}

#[derive(Debug, Default)]
struct Plan {
    seen: Vec<SystemCall>,
    armed: Option<(Meant, CallFault)>,
    counted: u32,
    met: Option<SystemCall>,
}

/// Looks at the system calls of a driver that is started while this is there.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    plan: Arc<Mutex<Plan>>,
    on_sync: Arc<Mutex<Option<Callback>>>,
    /// The mount calls so far, if it looks at these alone.
    mounts: Option<Arc<Mutex<Vec<MountCall>>>>,
}

/// A function to call when something happens. It exists because closures do not implement Debug.
struct Callback(Box<dyn Fn() + Send>);

impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callback")
    }
}

impl Supervisor {
    /// Makes one that only looks at mount calls, with their options. It slows nothing else down.
    pub fn of_mounts() -> Supervisor {
        Supervisor { mounts: Some(Arc::default()), ..Supervisor::default() }
    }

    pub(super) fn is_of_mounts(&self) -> bool {
        self.mounts.is_some()
    }

    /// Takes the mount calls since the last time; `None` if it looks at other calls.
    pub(super) fn take_mounts(&self) -> Option<Vec<MountCall>> {
        self.mounts.as_ref().map(|mounts| std::mem::take(&mut *mounts.lock()))
    }

    /// Takes the calls since the last time.
    pub fn take(&self) -> Vec<SystemCall> {
        std::mem::take(&mut self.plan.lock().seen)
    }

    /// Breaks the calls that are meant, counted from now on, until it is healed.
    pub fn arm(&self, meant: Meant, fault: CallFault) {
        let mut plan = self.plan.lock();
        (plan.armed, plan.counted, plan.met) = (Some((meant, fault)), 0, None);
    }

    /// Breaks nothing any more.
    pub fn heal(&self) {
        self.plan.lock().armed = None;
    }

    /// Sets the function that is called when everything is made durable (sync, syncfs). It replaces the one set before.
    pub fn when_synced(&self, on_sync: impl Fn() + Send + 'static) {
        *self.on_sync.lock() = Some(Callback(Box::new(on_sync)));
    }

    /// The first call that was broken since something was armed.
    pub fn met(&self) -> Option<SystemCall> {
        self.plan.lock().met.clone()
    }

    /// Checks that the kernel lets this process look at the calls of one that it starts.
    ///
    /// # Errors
    /// The kernel does not.
    pub async fn try_it() -> io::Result<()> {
        let supervisor = Supervisor::default();
        let mut command = Command::new("true");
        let started = supervisor.prepare(&mut command)?;
        let mut child = command.kill_on_drop(true).spawn()?;
        started.map_or(Ok(()), Started::begin)?;
        child.wait().await.map(drop)
    }

    /// Makes the system calls of a command visible from its start on. `None` if nothing is left to do once it is started.
    pub(super) fn prepare(&self, command: &mut Command) -> io::Result<Option<Started>> {
        if ARCH == 0 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "not on this kind of processor"));
        }
        let (here, there) = UnixStream::pair()?;
        let filter = filter(if self.mounts.is_some() { MOUNT_ROWS } else { ROWS });
        // SAFETY: between fork and exec the closure makes system calls alone, and touches no memory but what it owns.
        unsafe {
            command.pre_exec(move || install(&filter, there.as_raw_fd()));
        }
        let started = Started { here, supervisor: self.clone() };
        if self.mounts.is_none() {
            return Ok(Some(started));
        }
        // The start of the command itself is one of these calls, and waits for an answer.
        started.begin_early()?;
        Ok(None)
    }

    /// Records a call and returns the fault that it gets, if any.
    fn decide(&self, call: SystemCall) -> Option<CallFault> {
        let mut plan = self.plan.lock();
        let fault = plan
            .armed
            .clone()
            .filter(|(meant, _)| meant.names.is_empty() || meant.names.contains(&call.name));
        let fault = fault.and_then(|(meant, fault)| {
            plan.counted += 1;
            let is_meant = plan.counted == meant.nth || meant.lasts && plan.counted > meant.nth;
            is_meant.then_some(fault)
        });
        if fault.is_some() && plan.met.is_none() {
            plan.met = Some(call.clone());
        }
        if plan.seen.len() < KEPT_MAX {
            plan.seen.push(call);
        }
        fault
    }
}

/// A command that is about to be started.
#[derive(Debug)]
pub(super) struct Started {
    here: UnixStream,
    supervisor: Supervisor,
}

impl Started {
    /// Answers the kernel from now on, until nothing of the command is left.
    pub(super) fn begin(self) -> io::Result<()> {
        let listener = receive(&self.here)?;
        let supervisor = self.supervisor;
        thread(move || serve(&listener, &supervisor))
    }

    /// Answers the kernel as soon as it asks. If the command does not come so far, its start fails.
    fn begin_early(self) -> io::Result<()> {
        thread(move || {
            if let Ok(listener) = receive(&self.here) {
                serve(&listener, &self.supervisor);
            }
        })
    }
}

fn thread(serves: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("system-calls".to_owned()).spawn(serves).map(drop)
}

fn instruction(code: u32, jump: (u8, u8), k: u32) -> libc::sock_filter {
    // The codes of BPF are small numbers.
    libc::sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: jump.0, jf: jump.1, k }
}

/// Asks for the calls of the table, and lets all others pass.
fn filter(rows: &[Row]) -> Vec<libc::sock_filter> {
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), offset);
    let equals = |k, no| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (0, no), k);
    let bits = |k, no| instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, (0, no), k);
    let ends = |k| instruction(libc::BPF_RET | libc::BPF_K, (0, 0), k);
    // struct seccomp_data: the number, the architecture, the instruction pointer, the arguments; their lower halves come first.
    let (number, arch, argument) = (0, 4, |index: usize| 16 + 8 * u32::try_from(index).unwrap_or_default());
    let asks = ends(libc::SECCOMP_RET_USER_NOTIF);
    let passes = ends(libc::SECCOMP_RET_ALLOW);
    // Calls of another architecture have other numbers, so they are not looked at.
    let is_known = instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, (1, 0), ARCH);
    let mut filter = vec![load(arch), is_known, passes, load(number)];
    for row in rows {
        let Ok(nr) = u32::try_from(row.number) else { continue };
        match row.when {
            When::Always => filter.extend([equals(nr, 1), asks]),
            When::Bits(index, mask) => {
                filter.extend([equals(nr, 4), load(argument(index)), bits(mask, 1), asks, load(number)]);
            }
            When::Loop => {
                for request in LOOP_REQUESTS {
                    filter.extend([equals(nr, 4), load(argument(1)), equals(request, 1), asks, load(number)]);
                }
            }
        }
    }
    filter.push(passes);
    filter
}

/// Installs the filter in the child process before it executes the command, and sends the descriptor of its notifications to `to`.
fn install(filter: &[libc::sock_filter], to: RawFd) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let ask = |flags: libc::c_ulong| {
        // SAFETY: the program lives as long as the call, and the kernel only reads it.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let listens = libc::c_ulong::from(8_u8);
    // SAFETY: prctl with these arguments touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    let mut listener = ask(listens | WAIT_KILLABLE);
    if listener < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        listener = ask(listens);
    }
    if listener < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES) {
        // SAFETY: as above.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        }
        listener = ask(listens | WAIT_KILLABLE);
    }
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    send(to, RawFd::try_from(listener).map_err(|_| io::ErrorKind::InvalidData)?)
}

/// Room for one descriptor beside a message.
#[repr(C, align(8))]
struct Beside([u8; 32]);

/// A message of one byte with room beside it; the pointers in it hold as long as what they point to.
fn message(byte: &mut libc::iovec, beside: &mut Beside) -> libc::msghdr {
    // SAFETY: all zeros are an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = byte;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    // SAFETY: it only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
    message
}

/// Sends a descriptor.
fn send(to: RawFd, descriptor: RawFd) -> io::Result<()> {
    let (mut byte, mut beside) = (0_u8, Beside([0; 32]));
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let message = message(&mut part, &mut beside);
    // SAFETY: the message has room for one descriptor, so that there is a first header, and its data are that descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(descriptor);
        if libc::sendmsg(to, &raw const message, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Receives a descriptor.
fn receive(from: &UnixStream) -> io::Result<OwnedFd> {
    from.set_read_timeout(Some(Duration::from_secs(10)))?;
    let (mut byte, mut beside) = (0_u8, Beside([0; 32]));
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut message = message(&mut part, &mut beside);
    // SAFETY: the buffers of the message have the sizes stated in it; a header is there only if the kernel has written
    // one, and then it holds a descriptor that has no other owner.
    unsafe {
        if libc::recvmsg(from.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the process ended before it was begun",
            ));
        }
        Ok(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()))
    }
}

/// Answers the kernel until no process is left that could make a call.
fn serve(listener: &OwnedFd, supervisor: &Supervisor) {
    while is_asked(listener) {
        // SAFETY: all zeros are a notification that says nothing.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes a notification there, which has the size that the request says.
        if unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV as _, &raw mut asked) } < 0 {
            // The caller is gone, or a signal has come.
            continue;
        }
        if let Some(mounts) = &supervisor.mounts {
            let call = MountCall::read(asked.pid, asked.data.nr.into(), &asked.data.args);
            let mut mounts = mounts.lock();
            if mounts.len() < KEPT_MAX {
                mounts.extend(call);
            }
            drop(mounts);
            answer(listener, asked.id, 0);
            continue;
        }
        let call = look(&asked);
        if call.as_ref().is_some_and(|call| call.name == SYNC) {
            if let Some(Callback(call)) = &*supervisor.on_sync.lock() {
                call();
            }
            answer(listener, asked.id, 0);
            continue;
        }
        let fault = call.and_then(|call| supervisor.decide(call));
        match fault {
            None => answer(listener, asked.id, 0),
            Some(CallFault::Fails(error)) => answer(listener, asked.id, error),
            Some(CallFault::Late(by)) => {
                let (Ok(listener), id) = (listener.try_clone(), asked.id) else { continue };
                std::thread::spawn(move || {
                    std::thread::sleep(by);
                    answer(&listener, id, 0);
                });
            }
            Some(CallFault::Kills) => kill(asked.pid),
        }
    }
}

/// Waits for a question; `false` when none can come any more.
fn is_asked(listener: &OwnedFd) -> bool {
    let mut wanted = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: it is one, as the number says.
        let ready = unsafe { libc::poll(&raw mut wanted, 1, -1) };
        if ready > 0 {
            return wanted.revents & libc::POLLIN != 0;
        }
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return false;
        }
    }
}

/// Lets a call continue, or fail with an error.
fn answer(listener: &OwnedFd, id: u64, error: i32) {
    let flags = if error == 0 { CONTINUE } else { 0 };
    let response = libc::seccomp_notif_resp { id, val: 0, error: -error, flags };
    // The caller may be gone, so an error is ignored. SAFETY: the kernel reads an answer there, which has the size that
    // the request says.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND as _, &raw const response) };
}

/// Kills the group of a process: the driver, and what it has called.
fn kill(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let group = process.and_then(|process| rustix::process::getpgid(Some(process)).ok());
    if let Some(group) = group.filter(|group| *group != rustix::process::getpgrp()) {
        // The group may have ended already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The operation and object of a call; `None` if it changes nothing that outlives the process.
fn look(asked: &libc::seccomp_notif) -> Option<SystemCall> {
    let number = libc::c_long::from(asked.data.nr);
    let row = ROWS.iter().find(|row| row.number == number)?;
    let path = match row.about {
        About::Path(index) => path_at(asked.pid, asked.data.args[index])?,
        About::All => PathBuf::from("/"),
        About::Open if row.name == "write" && asked.data.args[0] <= 2 => return None,
        About::Open => std::fs::read_link(format!("/proc/{}/fd/{}", asked.pid, asked.data.args[0])).ok()?,
    };
    let is_passing =
        ["/proc", "/sys", "/dev/null", "/dev/pts", "/dev/tty"].iter().any(|own| path.starts_with(own));
    // Sockets and pipes have no path. A tool that fills a device is the command's affair, and no state of the driver.
    let is_file = path.is_absolute() || matches!(row.about, About::Path(_));
    let fills_device = path.starts_with("/dev") && matches!(row.name, "write" | "fsync" | "fallocate");
    (is_file && !is_passing && !fills_device).then_some(SystemCall { name: row.name, path })
}

/// The path at an address of another process.
fn path_at(process: u32, address: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    bytes_at(process, address).map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script under the supervisor. Returns its output and exit code.
    async fn run(supervisor: &Supervisor, script: &str) -> (String, Option<i32>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(std::process::Stdio::piped()).process_group(0);
        let started = supervisor.prepare(&mut command).unwrap();
        let child = command.spawn().unwrap();
        started.map_or(Ok(()), Started::begin).unwrap();
        let output = child.wait_with_output().await.unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    #[tokio::test]
    async fn mount_calls_are_seen_with_their_options() {
        if let Err(error) = Supervisor::try_it().await {
            println!("skipped: {error}");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display();
        let supervisor = Supervisor::of_mounts();
        // The first program is no mount program, and the second one fails even if root runs the test.
        let script = format!(
            "mkdir {place}/a; mount -t no-such-type -o 'context=\"a:s0:c0,c1\",ro' none {place}/a; echo done"
        );
        assert_eq!(run(&supervisor, &script).await, ("done\n".to_owned(), Some(0)));
        let calls = supervisor.take_mounts().unwrap();
        let programs: Vec<&MountCall> =
            calls.iter().filter(|call| matches!(call, MountCall::Program { .. })).collect();
        let [program] = programs[..] else { panic!("{calls:?}") };
        assert_eq!(program.values("context"), ["a:s0:c0,c1"]);
        assert_eq!(supervisor.take_mounts(), Some(Vec::new()));
    }

    #[tokio::test]
    async fn calls_are_seen_and_broken_by_their_number() {
        if let Err(error) = Supervisor::try_it().await {
            println!("skipped: {error}");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().display();
        let supervisor = Supervisor::default();
        let script =
            format!("mkdir {place}/a && mkdir {place}/b; rmdir {place}/a; rmdir {place}/b; echo done");
        assert_eq!(run(&supervisor, &script).await, ("done\n".to_owned(), Some(0)));
        let names: Vec<(&str, PathBuf)> =
            supervisor.take().into_iter().map(|call| (call.name, call.path)).collect();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        assert_eq!(names, [("mkdir", a.clone()), ("mkdir", b.clone()), ("rmdir", a), ("rmdir", b.clone())]);

        let meant = |nth, lasts| Meant { names: vec!["mkdir"], nth, lasts };
        supervisor.arm(meant(2, false), CallFault::Fails(libc::ENOSPC));
        run(&supervisor, &script).await;
        assert_eq!(supervisor.met(), Some(SystemCall { name: "mkdir", path: b.clone() }));
        assert!(!b.exists());
        supervisor.arm(Meant { names: Vec::new(), nth: 2, lasts: false }, CallFault::Kills);
        assert_eq!(run(&supervisor, &script).await, (String::new(), None));
        assert!(!b.exists() && dir.path().join("a").exists());
        supervisor.heal();
        assert_eq!(run(&supervisor, &format!("rmdir {place}/a && echo healed")).await.0, "healed\n");
    }
}
