// SPDX-License-Identifier: MIT OR Apache-2.0
//! As much HTTP/1.1 as the example needs: GET requests, one a connection.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::hurry::Hurry;

pub struct Request {
    pub path: String,
    pub query: HashMap<String, String>,
}

const LONGEST: u64 = 16 * 1024;
const TIME_TO_ASK: Duration = Duration::from_secs(10);
const TIME_TO_TAKE: Duration = Duration::from_secs(30);

impl Request {
    /// `None`: the bytes are no GET request.
    pub fn read(stream: &TcpStream) -> io::Result<Option<Self>> {
        let asked = Hurry::new(stream, TIME_TO_ASK).take(LONGEST);
        let mut lines = BufReader::new(asked).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        for line in lines {
            if line?.is_empty() {
                break;
            }
        }
        let mut words = first.split(' ');
        let (Some("GET"), Some(target)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query = pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Ok(Some(Self {
            path: path.to_owned(),
            query,
        }))
    }

    /// A number of the query: `default` where it is not given, `None` where it is none or out of range.
    pub fn number(
        &self,
        key: &str,
        default: u32,
        range: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        match self.query.get(key) {
            None => Some(default),
            Some(text) => text.parse().ok().filter(|number| range.contains(number)),
        }
    }
}

pub struct Response {
    status: u16,
    kind: &'static str,
    body: Vec<u8>,
}

impl Response {
    pub fn text(status: u16, text: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: text.into(),
        }
    }

    /// A profile, which is compressed by its own format: that is no encoding of the transfer.
    pub fn profile(body: Vec<u8>) -> Self {
        Self {
            status: 200,
            kind: "application/octet-stream",
            body,
        }
    }

    pub fn write(&self, stream: &TcpStream) -> io::Result<()> {
        let Self { status, kind, body } = self;
        let length = body.len();
        let head = format!("HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        let mut stream = Hurry::new(stream, TIME_TO_TAKE);
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    }
}
