//! Logs one line for each call that a plugin answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use http::{HeaderMap, Request, Response};
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Instrument as _;

use crate::RPCS;

/// A tower layer that logs each call when it ends, with its id, RPC, gRPC code and duration, and never with a body.
///
/// The level is debug for status OK, warn for a status that blames the plugin (`UNKNOWN`, `INTERNAL`, `UNAVAILABLE`,
/// `DATA_LOSS`), and info for the others. A call that its caller abandons is logged as such. Log lines of the handler
/// are in a span `rpc` with the call's `id`.
#[derive(Clone, Copy, Debug)]
pub struct RequestLog;

impl<S> Layer<S> for RequestLog {
    type Service = LoggedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        LoggedService { inner }
    }
}

/// The service that [`RequestLog`] makes.
#[derive(Clone, Debug)]
pub struct LoggedService<S> {
    inner: S,
}

impl<S> Service<Request<Body>> for LoggedService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let call = Call::start(request.uri().path());
        let span = tracing::info_span!("rpc", id = call.id, method = call.method);
        let answer = self.inner.call(request);
        Box::pin(async move { Ok(call.follow(answer.await?)) }.instrument(span))
    }
}

/// A call under way.
struct Call {
    id: u64,
    method: &'static str,
    start: Instant,
    ended: bool,
}

impl Call {
    fn start(path: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // An unknown path is text of the peer and stays out of the log.
        let method = RPCS.iter().find(|rpc| rpc.path == path).map_or("unknown", |rpc| rpc.method);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), method, start: Instant::now(), ended: false }
    }

    /// Logs the status in the headers if there is one, otherwise the one in the trailers behind the body.
    fn follow(mut self, response: Response<Body>) -> Response<Body> {
        if let Some(status) = Status::from_header_map(response.headers()) {
            self.end(status.code());
            return response;
        }
        response.map(|body| Body::new(LoggedBody { body, call: self }))
    }

    fn end(&mut self, code: Code) {
        self.ended = true;
        let (id, method, code_name) = (self.id, self.method, crate::code_name(code));
        let duration_ms = self.start.elapsed().as_secs_f64() * 1e3;
        match code {
            Code::Ok => tracing::debug!(id, method, code = code_name, duration_ms, "answered"),
            Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss => {
                tracing::warn!(id, method, code = code_name, duration_ms, "answered");
            }
            _ => tracing::info!(id, method, code = code_name, duration_ms, "answered"),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            let duration_ms = self.start.elapsed().as_secs_f64() * 1e3;
            tracing::info!(id = self.id, method = self.method, duration_ms, "given up by the caller");
        }
    }
}

/// A body whose trailers end the call.
struct LoggedBody {
    body: Body,
    call: Call,
}

impl LoggedBody {
    fn end(&mut self, trailers: &HeaderMap) {
        let status = Status::from_header_map(trailers);
        self.call.end(status.map_or(Code::Unknown, |status| status.code()));
    }
}

impl http_body::Body for LoggedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.end(trailers);
                }
            }
            Poll::Ready(Some(Err(status))) => self.call.end(status.code()),
            Poll::Ready(None) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
