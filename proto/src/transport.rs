//! Carries calls to a plugin, over a connection or within this process.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::Channel;
use tower::Service;

use crate::Breaker;

type BoxError = Box<dyn Error + Send + Sync>;

/// Carries calls to a plugin over a connection, or to services in this process without a socket between, which suits
/// callers that make millions of calls.
#[derive(Clone)]
pub enum Transport {
    /// A connection to another process.
    Connection(Channel),
    /// Services in this process. The calls under way fail when the breaker is used.
    InProcess(Routes, Breaker),
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Connection(_) => "Connection",
            Transport::InProcess(..) => "InProcess",
        })
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Transport::Connection(channel) => channel.poll_ready(cx).map_err(BoxError::from),
            Transport::InProcess(routes, _) => {
                Service::<Request<Body>>::poll_ready(routes, cx).map_err(BoxError::from)
            }
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self {
            Transport::Connection(channel) => {
                let answered = channel.call(request);
                Box::pin(async move { Ok(answered.await?) })
            }
            Transport::InProcess(routes, breaker) => {
                let (answered, broken) = (routes.call(request), breaker.broken());
                Box::pin(async move {
                    tokio::select! {
                        biased;
                        () = broken => Err(BoxError::from(io::Error::from(io::ErrorKind::ConnectionReset))),
                        answered = answered => Ok(answered?),
                    }
                })
            }
        }
    }
}
