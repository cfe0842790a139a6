//! The abilities of this machine that tests with real mounts need, and its free addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

/// The port of servers of tests. It is below the range from which the kernel takes the ports of outgoing connections.
const PORT: u16 = 24_301;

/// The programs that make file systems, each with its Debian package.
const PROGRAMS: [(&str, &str); 3] =
    [("mkfs.ext4", "e2fsprogs"), ("mkfs.xfs", "xfsprogs"), ("mkfs.btrfs", "btrfs-progs")];

/// Returns true if this machine can make file systems on loop devices and mount them. If not, it prints that the test is skipped, and why.
#[expect(clippy::print_stdout, reason = "a test that does not run says so")]
pub fn can_mount() -> bool {
    let lack = lack();
    if let Some(lack) = &lack {
        println!("skipped: {lack}");
    }
    lack.is_none()
}

fn lack() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root for mounts and loop devices".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|place| is_program(&place.join(program)));
    let lacks: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !is_there(program)).collect();
    let (programs, packages): (Vec<&str>, Vec<&str>) = lacks.iter().copied().copied().unzip();
    let (programs, packages) = (programs.join(", "), packages.join(" "));
    (!lacks.is_empty()).then(|| format!("needs {programs}; apt-get install {packages}"))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Returns a loopback address that only one caller gets. It does not find a free port by binding it, because a child
/// that another thread forks at that moment would keep the listener open.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(2);
    let [.., high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed)), PORT).into()
}
