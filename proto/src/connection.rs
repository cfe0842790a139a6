//! A socket connection of either kind, with a watcher that sees the bytes read from it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A Unix or TCP connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// It sees the bytes that are read from a connection, and can end the connection.
pub(crate) trait Watcher: Unpin {
    /// Called with the bytes of each read, of which there is at least one.
    fn on_read(&mut self, bytes: &[u8]);

    /// Returns true once reads from the connection must report that the peer closed it.
    fn has_ended(&mut self, _: &mut Context<'_>) -> bool {
        false
    }
}

/// A connection whose reads go through a watcher.
pub(crate) struct Connection<W> {
    stream: Box<dyn Stream>,
    watcher: W,
}

impl<W> Connection<W> {
    pub(crate) fn new(stream: Box<dyn Stream>, watcher: W) -> Self {
        Self { stream, watcher }
    }

    pub(crate) fn watcher(&self) -> &W {
        &self.watcher
    }
}

impl<W: Watcher> AsyncRead for Connection<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.watcher.has_ended(cx) {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = &buf.filled()[before..];
        if !bytes.is_empty() {
            self.watcher.on_read(bytes);
        }
        result
    }
}

impl<W: Unpin> AsyncWrite for Connection<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
