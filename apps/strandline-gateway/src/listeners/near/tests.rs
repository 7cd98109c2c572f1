use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::*;

/// A socket whose writes fail.
struct Failing(ErrorKind);

impl AsyncWrite for Failing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(self.0.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A server that vanishes before it has the first bytes has not reset the connection.
#[tokio::test]
async fn servers_may_vanish_before_the_first_bytes() {
    for (error, end) in [
        (ErrorKind::TimedOut, CloseReason::Vanished),
        (ErrorKind::HostUnreachable, CloseReason::Vanished),
        (ErrorKind::ConnectionReset, CloseReason::ResetThere),
        (ErrorKind::BrokenPipe, CloseReason::ResetThere),
    ] {
        assert_eq!(send_first(&mut Failing(error), b"first").await, Err(end), "{error}");
    }
}
