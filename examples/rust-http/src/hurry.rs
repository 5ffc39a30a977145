// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection with an end: a time limit for each read alone would let a peer send a byte now and then for ever.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub struct Hurry<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl<'a> Hurry<'a> {
    pub fn new(stream: &'a TcpStream, time: Duration) -> Self {
        Self {
            stream,
            end: Instant::now() + time,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

impl Read for Hurry<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Hurry<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
