use std::time::Duration;

use tokio::task::LocalSet;

use super::*;
use crate::server::clock::Clock;
use crate::server::inbox::{Inbox, InboxSettings};
use crate::server::socket::Connections;
use crate::service::{Seeds, Service, Settings};

/// A shard that serves nothing yet.
fn shard() -> Rc<Hub> {
    let clock = Clock::start();
    let seeds = Seeds { tokens: [2; 16], ..Seeds::repeated(1) };
    let service = Service::new(Settings::default(), &seeds, clock.epoch_unix_secs);
    let (connections, _) = Connections::new(clock.epoch_unix_secs);
    let inbox = Inbox::new(InboxSettings::default(), None, [3; 16]);
    Hub::new(service, clock, connections, None, inbox)
}

/// A socket that something else has shut down listens again.
#[tokio::test]
async fn failed_listeners_listen_again() {
    let listener = listen("127.0.0.1:0".parse().unwrap(), &ConnectionLimits::default()).unwrap();
    let socket = listener.get_ref().try_clone().unwrap();
    let address = socket.local_addr().unwrap();
    let tasks = LocalSet::new();
    tasks.spawn_local(serve(listener, shard(), Set::new().unwrap(), Protocol::Tcp));
    tasks
        .run_until(async {
            drop(TcpStream::connect(address).await.unwrap());
            rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
            let connecting = async { while TcpStream::connect(address).await.is_err() {} };
            tokio::time::timeout(Duration::from_secs(60), connecting).await.unwrap();
        })
        .await;
}
