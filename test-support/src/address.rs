//! Addresses for servers that are told where to listen.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

/// Below those that the kernel gives to connections.
const PORT: u16 = 24_301;

/// A loopback address that only one caller gets. It was never listened at: a child that another thread has just forked would hold the
/// listener for a moment longer.
pub fn free() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(2);
    let [.., high, low] = std::process::id().to_be_bytes();
    (Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed)), PORT).into()
}
