use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_shortage_is_logged_every_ten_seconds() {
    let mut errors = AcceptErrors::default();
    let mut lines = Vec::new();
    for step in 0..601_u64 {
        let found = errors.on_error(&io::Error::from_raw_os_error(24));
        assert!(found.is_exhausted);
        lines.extend(found.log.map(|unlogged| (step, unlogged)));
        tokio::time::advance(found.pause).await;
    }
    assert_eq!(lines, [(0, 0), (200, 199), (400, 199), (600, 199)]);
}

#[tokio::test]
async fn an_aborted_connection_delays_no_other() {
    let found = AcceptErrors::default().on_error(&ErrorKind::ConnectionAborted.into());
    assert_eq!(found, AcceptError { pause: Duration::ZERO, is_exhausted: false, log: None });
}

/// Descriptors and memory come back, and errors of the network are those of one connection. Only an unusable socket
/// ends the loop, at once.
#[tokio::test(start_paused = true)]
async fn loops_end_with_their_socket_alone() {
    let mut errors = AcceptErrors::default();
    let begun = Instant::now();
    for code in [12, 23, 24, 28, 105] {
        assert!(errors.recover(io::Error::from_raw_os_error(code)).await.is_ok(), "{code}");
    }
    assert_eq!(begun.elapsed(), 5 * PAUSE);
    for code in [9, 14, 22, 88] {
        let found = errors.recover(io::Error::from_raw_os_error(code)).await;
        assert_eq!(found.map_err(|error| error.raw_os_error()), Err(Some(code)));
    }
    assert!(errors.recover(ErrorKind::ConnectionAborted.into()).await.is_ok());
    assert_eq!(begun.elapsed(), 5 * PAUSE);
    // What prepares a connection that was accepted may say so of that connection.
    errors.pause_after(&io::Error::from_raw_os_error(22)).await;
    assert_eq!(begun.elapsed(), 6 * PAUSE);
}

#[test]
fn shortages_are_told_from_other_errors() {
    for code in [12, 23, 24, 28, 105] {
        assert!(is_exhausted(&io::Error::from_raw_os_error(code)), "{code}");
    }
    assert!(!is_exhausted(&io::Error::from_raw_os_error(111)));
    assert!(!is_exhausted(&ErrorKind::WouldBlock.into()));
}

#[test]
fn only_an_unusable_socket_is_fatal() {
    for code in [9, 22, 88] {
        assert!(is_fatal(&io::Error::from_raw_os_error(code)), "{code}");
    }
    // Those from 64 on are of the network, which accept(2) passes on.
    for code in [1, 4, 11, 12, 23, 24, 64, 71, 92, 95, 100, 101, 103, 104, 105, 110, 112, 113] {
        assert!(!is_fatal(&io::Error::from_raw_os_error(code)), "{code}");
    }
}

fn listener() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

fn register(socket: &std::net::TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(socket.try_clone()?)
}

/// A socket that was shut down accepts again at its address, also if the kernel had chosen the port.
#[tokio::test]
async fn sockets_that_were_shut_down_listen_again() {
    let (listener, at) = listener();
    let failing = register(&listener).unwrap();
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
    let error = failing.accept().await.unwrap_err();
    assert!(is_fatal(&error), "{error}");
    drop(failing);
    let again = AcceptErrors::default().listen_again(&error, listener, at, register).await;
    let _client = TcpStream::connect(at).await.unwrap();
    assert_eq!(again.accept().await.unwrap().0.local_addr().unwrap(), at);
}

/// The log of a thread.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Returns how many lines have this text.
    fn count(&self, text: &str) -> usize {
        let bytes = self.0.lock().unwrap();
        String::from_utf8_lossy(&bytes).lines().filter(|line| line.contains(text)).count()
    }
}

/// A socket that is shut down again and again doesn't fill the log. One that stays down is logged.
#[tokio::test(start_paused = true)]
async fn repeated_failures_are_logged_every_ten_seconds() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let ((socket, at), error) = (listener(), io::Error::from_raw_os_error(22));
    let (mut errors, begun, mut count) = (AcceptErrors::default(), Instant::now(), 0);
    while begun.elapsed() < 2 * LOG_EVERY {
        rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
        drop(errors.listen_again(&error, &socket, at, |socket| register(socket)).await);
        count += 1;
    }
    assert_eq!([log.count("accepting TCP connections failed"), log.count("listening again")], [2, 2]);
    assert_eq!(count, 8, "the pauses grow: 0.2, 0.4, 0.8, 1.6, 3.2 and 5 s");
    tokio::time::advance(STEADY).await;
    let begun = Instant::now();
    drop(errors.listen_again(&error, &socket, at, |socket| register(socket)).await);
    assert_eq!(begun.elapsed(), AGAIN_MIN, "it has listened for long");
    // The first attempts at least are within the time of the line before.
    let failing = tokio::time::timeout(2 * LOG_EVERY, async {
        errors.listen_again(&error, &socket, at, |_| Err::<(), _>(ErrorKind::AddrInUse.into())).await;
    });
    assert!(failing.await.is_err(), "it listens");
    assert!(log.count("listening again failed") > 0);
}
