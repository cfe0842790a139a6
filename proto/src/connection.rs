//! A connection of whichever kind, with somebody who watches what is read from it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection of whichever kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Somebody who watches what is read from a connection.
pub(crate) trait Watcher: Unpin {
    /// Bytes have been read; there is at least one.
    fn heard(&mut self, bytes: &[u8]);

    /// Whether the connection has to read as closed by the peer from now on.
    fn has_ended(&mut self, _: &mut Context<'_>) -> bool {
        false
    }
}

/// A connection that is watched.
pub(crate) struct Connection<W> {
    stream: Box<dyn Stream>,
    watcher: W,
}

impl<W> Connection<W> {
    pub(crate) fn new(stream: Box<dyn Stream>, watcher: W) -> Self {
        Self { stream, watcher }
    }

    /// Who watches it.
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
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        let bytes = &buf.filled()[before..];
        if !bytes.is_empty() {
            self.watcher.heard(bytes);
        }
        done
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
