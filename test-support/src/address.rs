//! Gives tests free addresses for servers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

/// It is below the range from which the kernel takes the ports of outgoing connections.
const PORT: u16 = 24_301;

/// Returns a loopback address that only one caller gets. It does not find a free port by binding it, because a child
/// that another thread forks at that moment would keep the listener open.
pub fn free() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(2);
    let [.., high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed)), PORT).into()
}
