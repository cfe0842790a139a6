//! Metrics in the text format of Prometheus, served over HTTP.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4";
/// The largest number of connections at the same time; others wait.
const CONNECTIONS_MAX: usize = 16;
/// The time limit of a connection, which serves one request.
const SCRAPE_LIMIT: Duration = Duration::from_secs(5);
/// The pause after accepting a connection has failed, as it does while no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves what `text` returns at `/metrics`, until the future is dropped.
pub async fn serve_metrics<T, F>(listener: TcpListener, text: T)
where
    T: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = String> + Send,
{
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a scrape could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let text = text.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, &text));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            match tokio::time::timeout(SCRAPE_LIMIT, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a scrape failed"),
                Err(_) => tracing::debug!("a scrape took too long"),
            }
            drop(permit);
        });
    }
}

async fn answer<B, F: Future<Output = String>>(
    request: Request<B>,
    text: impl Fn() -> F,
) -> Result<Response<String>, Infallible> {
    let (status, body) = match request.uri().path() {
        "/metrics" => (200, text().await),
        _ => (404, "metrics are at /metrics\n".to_owned()),
    };
    let response = Response::builder().status(status).header("content-type", CONTENT_TYPE).body(body);
    // The status and the header are constants that are right.
    Ok(response.unwrap_or_default())
}
