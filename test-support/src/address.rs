//! Addresses for servers that are told where to listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU8, Ordering};

/// An address that stays free until it is listened at: a loopback address that only one caller gets, so that no connection and
/// no other server takes the port meanwhile.
pub fn free() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(2);
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed));
    TcpListener::bind((own, 0)).and_then(|listener| listener.local_addr()).unwrap()
}
