// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handlers as services of tower, and as routes of axum.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::{Request, Response};

use crate::handler::{Body, Handler, Served, PATHS};
use crate::threads::{Threads, THREADS_PATH};

macro_rules! service {
    ($($handler:ty),*) => {$(
        impl<B> tower_service::Service<Request<B>> for $handler {
            type Response = Response<Body>;
            type Error = Infallible;
            type Future = Served;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request<B>) -> Self::Future {
                self.serve(&request)
            }
        }
    )*};
}

service!(Handler, Threads);

impl Handler {
    /// Routes for [`PATHS`], and for [`Threads`] at [`THREADS_PATH`]: `app.merge(Handler::new().router())`.
    pub fn router<S: Clone + Send + Sync + 'static>(&self) -> axum::Router<S> {
        let router = axum::Router::new().route_service(THREADS_PATH, Threads);
        PATHS.iter().fold(router, |router, path| router.route_service(path, self.clone()))
    }
}
