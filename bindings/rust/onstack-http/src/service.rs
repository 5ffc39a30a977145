// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handlers as services of hyper, for a connection or a port of its own.

use std::convert::Infallible;

use http::{Request, Response};

use crate::handler::{Body, Handler, Served};
use crate::threads::Threads;

macro_rules! service {
    ($($handler:ty),*) => {$(
        impl<B> hyper::service::Service<Request<B>> for $handler {
            type Response = Response<Body>;
            type Error = Infallible;
            type Future = Served;

            fn call(&self, request: Request<B>) -> Self::Future {
                self.serve(&request)
            }
        }
    )*};
}

service!(Handler, Threads);
